//! Row groups of a stripe: statistics and bloom filters of the columns whose index was read.

use std::sync::Arc;

use arrow::array::BooleanArray;
use orc_rust::proto::ColumnStatistics;

use super::{bloom, row_index::OrcColumnIndex};
use crate::{
    orc::{
        stripe::{StripeFooter, WriterTimeZone},
        stripe_statistics::StatisticsTrust,
        tree::{OrcType, OrcTypeKind},
    },
    predicate::Literal,
};

/// Row groups of a stripe.
pub(crate) struct StripeRowGroups {
    /// Rows of each.
    pub(crate) rows: Vec<u64>,
    /// Indexes of some columns, by column number.
    pub(crate) columns: Vec<(usize, Arc<OrcColumnIndex>)>,
    pub(crate) footer: Arc<StripeFooter>,
}

impl StripeRowGroups {
    /// Returns the statistics of a column in a row group.
    pub(crate) fn statistics(&self, group: usize, column: &OrcType) -> Option<ColumnStatistics> {
        self.index(column)?.statistics(group)
    }

    /// Returns whether each row group may have any of the literals in a column.
    pub(crate) fn may_contain(
        &self,
        column: &OrcType,
        literals: &[Literal],
        trust: StatisticsTrust,
    ) -> Option<BooleanArray> {
        let is_trusted = match column.kind {
            OrcTypeKind::Decimal(..) | OrcTypeKind::ShortDecimal(..) => trust.decimals,
            OrcTypeKind::Instant(_) => trust.timestamps && self.filters_in_utc(column),
            // Some writers converted local clock times to UTC, and others did not.
            OrcTypeKind::Timestamp(_) => {
                let is_utc = matches!(self.footer.zone, WriterTimeZone::Utc);
                trust.timestamps && is_utc && self.filters_in_utc(column)
            }
            _ => true,
        };

        if !is_trusted || !trust.bloom_filters {
            return None;
        }

        let index = self.index(column).filter(|index| index.has_filters())?;
        let is_kept = |literal: &Literal| match literal {
            Literal::Date(day) => column.calendar.keeps_day(i64::from(*day)),
            Literal::Timestamp(nanoseconds) => {
                let milliseconds = i64::try_from(nanoseconds.div_euclid(1_000_000));
                milliseconds.is_ok_and(|milliseconds| column.calendar.keeps_millisecond(milliseconds))
            }
            _ => true,
        };

        let hashes =
            literals.iter().map(|literal| bloom::hashes(literal, column.kind).filter(|_| is_kept(literal)));
        let hashes = hashes.collect::<Option<Vec<_>>>()?.concat();
        let groups = 0..self.rows.len();

        Some(groups.map(|group| bloom::may_contain(&index.filter(group)?, &hashes)).collect())
    }

    fn index(&self, column: &OrcType) -> Option<&OrcColumnIndex> {
        let found = self.columns.iter().find(|(id, _)| *id == column.id as usize);
        found.map(|(_, index)| index.as_ref())
    }

    fn filters_in_utc(&self, column: &OrcType) -> bool {
        let encoding = self.footer.encodings.get(column.id as usize);
        encoding.is_some_and(|encoding| encoding.is_some_and(|encoding| encoding.filters_in_utc))
    }
}
