//! Numbers with few possible values, as dictionary codes: the code is the number's position in the range of possible
//! values.

use std::sync::Arc;

use arrow::{
    array::{
        Array, ArrayRef, AsArray, Date32Array, Decimal128Array, DictionaryArray, Int32Array, Int64Array,
        PrimitiveArray,
    },
    datatypes::{
        ArrowDictionaryKeyType, ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, Int32Type,
        Int64Type, UInt8Type, UInt16Type, UInt32Type,
    },
};

use super::repeated::DictionaryKeyWidth;
use crate::{Benchmark, snb::AGES};

/// First and last day of orders and subsequent events, in days since 1970.
const FIRST_DAY: i64 = 8_035;
const LAST_DAY: i64 = 10_591;

/// Equally spaced numbers: the unscaled values of a decimal, or the days of a date.
#[derive(Debug)]
pub(crate) struct NumberRange {
    min: i64,
    step: u32,
    values: ArrayRef,
    keys: DictionaryKeyWidth,
}

impl NumberRange {
    /// Returns the range of a column if it has few possible numbers.
    pub(crate) fn of(benchmark: Benchmark, column: &str, data_type: &DataType) -> Option<Self> {
        let (min, max, step) = match (benchmark, column) {
            (Benchmark::TpcH, "l_linenumber") => (1, 7, 1),
            (Benchmark::TpcH, "l_quantity") => (100, 5_000, 100),
            (Benchmark::TpcH, "l_discount") => (0, 10, 1),
            (Benchmark::TpcH, "l_tax") => (0, 8, 1),
            (Benchmark::TpcH, "l_shipdate" | "l_commitdate" | "l_receiptdate" | "o_orderdate") => {
                (FIRST_DAY, LAST_DAY, 1)
            }
            (Benchmark::TpcH, "o_shippriority") => (0, 0, 1),
            (Benchmark::TpcH, "p_size") => (1, 50, 1),
            (Benchmark::TpcH, "c_nationkey" | "s_nationkey") => (0, 24, 1),
            (Benchmark::TpcH, "ps_availqty") => (1, 9_999, 1),
            (Benchmark::TpcH, "ps_supplycost") => (100, 100_000, 1),
            (Benchmark::Snb, "age") => (AGES.0, AGES.0 + AGES.1 as i64 - 1, 1),
            _ => return None,
        };
        Self::new(min, max, step, data_type)
    }

    fn new(min: i64, max: i64, step: u32, data_type: &DataType) -> Option<Self> {
        let numbers = (min..=max).step_by(step as usize);
        let values: ArrayRef = match data_type {
            DataType::Int32 => Arc::new(Int32Array::from_iter_values(numbers.map(|number| number as i32))),
            DataType::Int64 => Arc::new(Int64Array::from_iter_values(numbers)),
            DataType::Date32 => Arc::new(Date32Array::from_iter_values(numbers.map(|number| number as i32))),
            DataType::Decimal128(precision, scale) => {
                let values = Decimal128Array::from_iter_values(numbers.map(i128::from));
                Arc::new(values.with_precision_and_scale(*precision, *scale).ok()?)
            }
            _ => return None,
        };
        let keys = DictionaryKeyWidth::of(values.len() as u64);
        Some(Self { min, step, values, keys })
    }

    pub(crate) fn keys(&self) -> DictionaryKeyWidth {
        self.keys
    }

    /// Encodes an array of numbers as a dictionary.
    pub(crate) fn encode(&self, array: &ArrayRef) -> Result<ArrayRef, String> {
        match array.data_type() {
            DataType::Int32 => self.encode_values(array.as_primitive::<Int32Type>(), i64::from),
            DataType::Int64 => self.encode_values(array.as_primitive::<Int64Type>(), |number| number),
            DataType::Date32 => self.encode_values(array.as_primitive::<Date32Type>(), i64::from),
            DataType::Decimal128(..) => {
                self.encode_values(array.as_primitive::<Decimal128Type>(), |number| number as i64)
            }
            other => Err(format!("{other} where numbers were promised")),
        }
    }

    /// Encodes numbers of any type as keys of the narrowest type.
    fn encode_values<T: ArrowPrimitiveType>(
        &self,
        array: &PrimitiveArray<T>,
        number: impl Fn(T::Native) -> i64,
    ) -> Result<ArrayRef, String> {
        match self.keys {
            DictionaryKeyWidth::One => self.dictionary::<T, UInt8Type>(array, number, |index| index as u8),
            DictionaryKeyWidth::Two => self.dictionary::<T, UInt16Type>(array, number, |index| index as u16),
            DictionaryKeyWidth::Four => self.dictionary::<T, UInt32Type>(array, number, |index| index),
        }
    }

    fn dictionary<T: ArrowPrimitiveType, K: ArrowDictionaryKeyType>(
        &self,
        array: &PrimitiveArray<T>,
        number: impl Fn(T::Native) -> i64,
        narrow: impl Fn(u32) -> <K as ArrowPrimitiveType>::Native,
    ) -> Result<ArrayRef, String> {
        let mut max = 0;
        let mut rest = 0;
        let indexes = array.values().iter().map(|value| {
            let distance = number(*value).wrapping_sub(self.min) as u64;
            let index = distance as u32 / self.step;
            max = max.max(distance);
            rest |= distance as u32 - index * self.step;
            narrow(index)
        });

        let keys: Vec<_> = indexes.collect();
        if array.null_count() > 0 || rest != 0 || max / u64::from(self.step) >= self.values.len() as u64 {
            return Err("a number beyond what is possible".to_owned());
        }
        let keys = PrimitiveArray::<K>::new(keys.into(), None);
        let dictionary = DictionaryArray::try_new(keys, self.values.clone());
        Ok(Arc::new(dictionary.map_err(|error| error.to_string())?))
    }
}

#[cfg(test)]
mod tests {
    use arrow::compute::cast;

    use super::*;

    #[test]
    fn a_number_is_its_place_in_the_range() {
        let decimal = DataType::Decimal128(15, 2);
        let range = NumberRange::new(100, 5_000, 100, &decimal).unwrap();
        let numbers = Decimal128Array::from(vec![100, 5_000, 300]).with_precision_and_scale(15, 2).unwrap();
        let numbers: ArrayRef = Arc::new(numbers);
        let coded = range.encode(&numbers).unwrap();
        assert_eq!(coded.as_dictionary::<UInt8Type>().keys().values(), &[0, 49, 2]);
        assert_eq!(cast(&coded, &decimal).unwrap().as_ref(), numbers.as_ref());
    }

    #[test]
    fn a_number_that_is_impossible_is_an_error() {
        let range = NumberRange::new(100, 5_000, 100, &DataType::Int64).unwrap();
        for number in [0, 99, 101, 5_100, i64::MIN, i64::MAX] {
            let numbers: ArrayRef = Arc::new(Int64Array::from(vec![number]));
            assert!(range.encode(&numbers).is_err(), "{number}");
        }
    }
}
