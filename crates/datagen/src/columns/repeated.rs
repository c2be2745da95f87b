//! Columns with few distinct strings at any scale, and the key widths of their dictionaries.

use arrow::datatypes::DataType;

use crate::{Benchmark, Scale};

/// The type of a dictionary's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DictionaryKeyWidth {
    One,
    Two,
    Four,
}

impl DictionaryKeyWidth {
    /// Returns the narrowest width for `values` distinct values.
    pub(crate) fn of(values: u64) -> Self {
        match values {
            0..=0x100 => Self::One,
            0x101..=0x1_0000 => Self::Two,
            _ => Self::Four,
        }
    }

    pub(crate) fn data_type(self) -> DataType {
        match self {
            Self::One => DataType::UInt8,
            Self::Two => DataType::UInt16,
            Self::Four => DataType::UInt32,
        }
    }

    /// Returns the maximum number of values.
    pub(crate) fn max_values(self) -> usize {
        match self {
            Self::One => 0x100,
            Self::Two => 0x1_0000,
            Self::Four => u32::MAX as usize,
        }
    }
}

/// Number of clerks at scale 1, which is also the minimum.
const CLERKS: f64 = 1_000.0;

/// Returns the key width of a column's dictionary; `None` if its strings repeat rarely or never.
pub(crate) fn repeated(benchmark: Benchmark, column: &str, scale: Scale) -> Option<DictionaryKeyWidth> {
    match benchmark {
        Benchmark::TpcH => match column {
            "l_returnflag" | "l_linestatus" | "l_shipinstruct" | "l_shipmode" | "o_orderstatus"
            | "o_orderpriority" | "c_mktsegment" | "p_mfgr" | "p_brand" | "p_type" | "p_container" => {
                Some(DictionaryKeyWidth::One)
            }
            "o_clerk" => Some(DictionaryKeyWidth::of((CLERKS * scale.factor().max(1.0)) as u64)),
            _ => None,
        },
        Benchmark::Snb => matches!(column, "firstName" | "lastName").then_some(DictionaryKeyWidth::One),
        Benchmark::TpcDs => match column {
            "c_salutation"
            | "c_preferred_cust_flag"
            | "ca_state"
            | "ca_street_type"
            | "ca_country"
            | "ca_location_type"
            | "cd_gender"
            | "cd_marital_status"
            | "cd_education_status"
            | "cd_credit_rating"
            | "hd_buy_potential"
            | "d_day_name"
            | "d_holiday"
            | "d_weekend"
            | "d_following_holiday"
            | "d_current_day"
            | "d_current_week"
            | "d_current_month"
            | "d_current_quarter"
            | "d_current_year"
            | "t_am_pm"
            | "t_shift"
            | "t_sub_shift"
            | "t_meal_time"
            | "i_category"
            | "i_class"
            | "i_size"
            | "i_color"
            | "i_units"
            | "i_container"
            | "p_channel_dmail"
            | "p_channel_email"
            | "p_channel_catalog"
            | "p_channel_tv"
            | "p_channel_radio"
            | "p_channel_press"
            | "p_channel_event"
            | "p_channel_demo"
            | "p_purpose"
            | "p_discount_active"
            | "sm_type"
            | "sm_code"
            | "wp_url"
            | "wp_type"
            | "wp_autogen_flag"
            | "cp_department"
            | "cp_type"
            | "cc_class"
            | "cc_hours"
            | "cc_country"
            | "cc_state"
            | "s_hours"
            | "s_geography_class"
            | "s_division_name"
            | "s_company_name"
            | "s_country"
            | "s_state"
            | "web_class"
            | "web_country"
            | "web_state"
            | "w_country"
            | "w_state" => Some(DictionaryKeyWidth::One),
            "c_first_name" | "c_last_name" | "c_birth_country" | "c_login" | "ca_county" | "ca_city"
            | "ca_street_number" | "ca_suite_number" | "d_quarter_name" | "i_brand" | "i_manufact"
            | "s_city" | "s_county" | "cc_city" | "cc_county" | "web_city" | "web_county" | "w_city"
            | "w_county" => Some(DictionaryKeyWidth::Two),
            _ => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_as_narrow_as_their_values_allow() {
        assert_eq!(
            [256, 257, 65_536, 65_537].map(DictionaryKeyWidth::of),
            [
                DictionaryKeyWidth::One,
                DictionaryKeyWidth::Two,
                DictionaryKeyWidth::Two,
                DictionaryKeyWidth::Four
            ]
        );

        let clerks = |scale| repeated(Benchmark::TpcH, "o_clerk", Scale::new(scale).unwrap());
        assert_eq!(
            [0.01, 65.0, 100.0].map(clerks),
            [Some(DictionaryKeyWidth::Two), Some(DictionaryKeyWidth::Two), Some(DictionaryKeyWidth::Four)]
        );
        assert_eq!(repeated(Benchmark::TpcH, "l_comment", Scale::new(1.0).unwrap()), None);
    }
}
