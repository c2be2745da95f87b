//! Statistics of row ranges, from the page index and bloom filters of a row group.

use std::{ops::Range, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, BooleanArray, UInt32Array, UInt64Array},
    compute::take,
};
use parquet::{
    arrow::arrow_reader::statistics::StatisticsConverter,
    basic::{LogicalType, TimeUnit, Type as PhysicalType},
    bloom_filter::Sbbf,
    file::page_index::column_index::ColumnIndexMetaData,
    schema::types::ColumnDescriptor,
};

use super::{LeafIndex, LeafPageIndex};
use crate::{
    file::statistics::PruningStatistics,
    parquet::{
        ParquetFile,
        footer::statistics::{is_ordered, leaf_of, numbers, of_column, stored_field},
        pages::plain::required_column,
    },
    predicate::{Column, Literal},
};

/// Statistics of ranges of rows, split so that no page of any leaf begins within one.
pub(crate) struct PageStatistics<'a> {
    file: &'a ParquetFile,
    rows: u64,
    leaves: Vec<(usize, Arc<LeafIndex>)>,
    starts: Vec<u64>,
}

impl<'a> PageStatistics<'a> {
    pub(crate) fn new(file: &'a ParquetFile, row_group: usize, leaves: Vec<(usize, Arc<LeafIndex>)>) -> Self {
        let pages = leaves.iter().filter_map(|(_, index)| index.pages.as_ref());
        let mut starts: Vec<u64> = pages.flat_map(LeafPageIndex::starts).collect();
        starts.push(0);
        starts.sort_unstable();
        starts.dedup();
        Self { file, rows: file.row_group_rows(row_group), leaves, starts }
    }

    /// Returns the ranges of rows.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = Range<u64>> {
        let ends = self.starts.iter().skip(1).copied().chain([self.rows]);
        self.starts.iter().copied().zip(ends).map(|(start, end)| start..end)
    }

    fn index(&self, leaf: usize) -> Option<&LeafIndex> {
        self.leaves.iter().find(|(known, _)| *known == leaf).map(|(_, index)| index.as_ref())
    }

    /// Expands a per-page statistic to each range of rows within the page.
    fn of_pages(
        &self,
        column: &Column,
        of: impl FnOnce(&StatisticsConverter<'_>, &LeafPageIndex) -> Option<ArrayRef>,
    ) -> Option<ArrayRef> {
        let (leaf, field) = leaf_of(self.file, column)?;
        let pages = self.index(leaf)?.pages.as_ref()?;
        let schema =
            required_column(self.file.metadata().file_metadata().schema_descr().columns().get(leaf)?);
        let schema = schema.ok()?;
        let field = stored_field(field);
        let converter = StatisticsConverter::from_column_index(0, field, &schema).ok()?;
        let values = of(&converter.with_missing_null_counts_as_zero(false), pages)?;

        if values.len() != pages.locations().len() {
            return None;
        }

        let firsts: Vec<u64> = pages.starts().collect();
        let page_of = |start: &u64| firsts.partition_point(|first| first <= start).saturating_sub(1) as u32;
        let pages: UInt32Array = self.starts.iter().map(page_of).collect::<Vec<_>>().into();
        take(&values, &pages, None).ok()
    }
}

impl PruningStatistics for PageStatistics<'_> {
    fn parts(&self) -> usize {
        self.starts.len()
    }

    fn min(&self, column: &Column) -> Option<ArrayRef> {
        is_ordered(self.file, column)?;
        let bounds = self.of_pages(column, |converter, pages| {
            numbers(&converter.data_page_mins(&pages.values, &pages.offsets, [&0]).ok()?)
        });
        of_column(bounds?, leaf_of(self.file, column)?.1)
    }

    fn max(&self, column: &Column) -> Option<ArrayRef> {
        is_ordered(self.file, column)?;
        let bounds = self.of_pages(column, |converter, pages| {
            numbers(&converter.data_page_maxes(&pages.values, &pages.offsets, [&0]).ok()?)
        });
        of_column(bounds?, leaf_of(self.file, column)?.1)
    }

    /// Returns the null counts of pages that have no nulls, or only nulls.
    fn null_counts(&self, column: &Column) -> Option<UInt64Array> {
        let shares = self.of_pages(column, |_, pages| {
            let index = pages.values.first()?.first()?;
            if matches!(index, ColumnIndexMetaData::NONE) {
                return None;
            }

            let share = |page: usize| match index.null_count(page) {
                _ if index.is_null_page(page) => Some(true),
                Some(0) => Some(false),
                _ => None,
            };
            Some(Arc::new((0..pages.locations().len()).map(share).collect::<BooleanArray>()))
        })?;

        let shares = shares.as_any().downcast_ref::<BooleanArray>()?;
        let count = |(share, rows): (Option<bool>, Range<u64>)| {
            share.map(|all| if all { rows.end - rows.start } else { 0 })
        };
        Some(shares.iter().zip(self.ranges()).map(count).collect())
    }

    fn row_counts(&self) -> Option<UInt64Array> {
        Some(self.ranges().map(|range| range.end - range.start).collect::<Vec<_>>().into())
    }

    fn may_contain(&self, column: &Column, literals: &[Literal]) -> Option<BooleanArray> {
        let (leaf, _) = leaf_of(self.file, column)?;
        let bloom = self.index(leaf)?.bloom.as_ref()?;
        let descriptor = self.file.metadata().file_metadata().schema_descr().columns().get(leaf)?;
        let may = literals.iter().any(|literal| contains(bloom, descriptor, literal) != Some(false));
        Some(vec![may; self.parts()].into())
    }
}

/// Returns whether the filter may contain a value, hashed as the file stores it; `None` if that is uncertain.
fn contains(bloom: &Sbbf, leaf: &ColumnDescriptor, literal: &Literal) -> Option<bool> {
    let whole = |value: i128| match leaf.physical_type() {
        // A value out of the type's range is not in the column, regardless of its sign.
        PhysicalType::INT32 => {
            let bits =
                i32::try_from(value).ok().or_else(|| u32::try_from(value).ok().map(|bits| bits as i32));
            Some(bloom.check(&bits?))
        }
        PhysicalType::INT64 => {
            let bits =
                i64::try_from(value).ok().or_else(|| u64::try_from(value).ok().map(|bits| bits as i64));
            Some(bloom.check(&bits?))
        }
        _ => None,
    };

    match literal {
        Literal::Integer(value) => whole(*value),
        Literal::Date(days) => whole(i128::from(*days)),
        Literal::Float(value) if value.is_nan() => None,
        Literal::Float(value) => match leaf.physical_type() {
            PhysicalType::DOUBLE => Some(bloom.check(value)),
            PhysicalType::FLOAT if f64::from(*value as f32) == *value => Some(bloom.check(&(*value as f32))),
            _ => None,
        },
        Literal::String(text) => bytes(leaf).then(|| bloom.check(text.as_str())),
        Literal::Binary(binary) => bytes(leaf).then(|| bloom.check(binary.as_slice())),
        Literal::Timestamp(nanos) => {
            let LogicalType::Timestamp(timestamp) = leaf.logical_type_ref()? else { return None };
            whole(in_unit(*nanos, &timestamp.unit)?)
        }
        Literal::Time(nanos) => {
            let LogicalType::Time(time) = leaf.logical_type_ref()? else { return None };
            whole(in_unit(i128::from(*nanos), &time.unit)?)
        }
        Literal::Decimal { unscaled, scale } if i32::from(*scale) == leaf.type_scale() => {
            match leaf.physical_type() {
                PhysicalType::FIXED_LEN_BYTE_ARRAY => {
                    let bytes = unscaled.to_be_bytes();
                    let cut = bytes.len().checked_sub(usize::try_from(leaf.type_length()).ok()?)?;
                    let (sign, value) = bytes.split_at_checked(cut)?;
                    let filled = if *unscaled < 0 { 0xff } else { 0 };
                    sign.iter().all(|byte| *byte == filled).then(|| bloom.check(value))
                }
                _ => whole(*unscaled),
            }
        }
        _ => None,
    }
}

fn bytes(leaf: &ColumnDescriptor) -> bool {
    matches!(leaf.physical_type(), PhysicalType::BYTE_ARRAY | PhysicalType::FIXED_LEN_BYTE_ARRAY)
}

fn in_unit(nanos: i128, unit: &TimeUnit) -> Option<i128> {
    let length = match unit {
        TimeUnit::MILLIS => 1_000_000,
        TimeUnit::MICROS => 1_000,
        TimeUnit::NANOS => 1,
    };
    (nanos % length == 0).then_some(nanos / length)
}
