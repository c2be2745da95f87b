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
    parallel::guarded::guarded,
    parquet::{
        ParquetFile,
        footer::statistics::{
            BoundSide, decimals_of_bytes, has_trusted_bounds, is_ordered, leaf_of, numbers, of_column,
            stored_field,
        },
        pages::plain::required_column,
    },
    predicate::{Column, Literal},
};

/// Statistics of ranges of rows, split so that no page of any leaf begins within one.
pub(crate) struct PageStatistics<'a> {
    file: &'a ParquetFile,
    row_group: usize,
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
        Self { file, row_group, rows: file.row_group_rows(row_group), leaves, starts }
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

    /// Returns a bound of each range of rows; null if it is unknown.
    fn bounds(&self, column: &Column, side: BoundSide) -> Option<ArrayRef> {
        is_ordered(self.file, column)?;
        let (leaf, field) = leaf_of(self.file, column)?;
        let chunk = self.file.column_chunk(self.row_group, leaf).ok()?;
        if !has_trusted_bounds(self.file, leaf, field, chunk) {
            return None;
        }

        let bounds = self.of_pages(column, |converter, pages| match pages.values.first()?.first()? {
            ColumnIndexMetaData::BYTE_ARRAY(index) | ColumnIndexMetaData::FIXED_LEN_BYTE_ARRAY(index)
                if field.data_type().is_decimal() =>
            {
                decimals_of_bytes(field.data_type(), side.of_pages(index).into_iter())
            }
            _ => {
                let converted = guarded(|| match side {
                    BoundSide::Min => converter.data_page_mins(&pages.values, &pages.offsets, [&0]),
                    BoundSide::Max => converter.data_page_maxes(&pages.values, &pages.offsets, [&0]),
                });
                numbers(&converted.ok()?.ok()?)
            }
        });
        of_column(bounds?, field)
    }
}

impl PruningStatistics for PageStatistics<'_> {
    fn parts(&self) -> usize {
        self.starts.len()
    }

    fn min(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds(column, BoundSide::Min)
    }

    fn max(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds(column, BoundSide::Max)
    }

    /// Returns the null counts of pages that have no nulls, or only nulls.
    fn null_counts(&self, column: &Column) -> Option<UInt64Array> {
        if !self.file.trust.nulls {
            return None;
        }

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

#[cfg(test)]
mod tests {
    use arrow::{array::AsArray, datatypes::Decimal128Type};
    use parquet::file::{
        metadata::{ColumnIndexBuilder, OffsetIndexBuilder},
        statistics::Statistics,
    };

    use super::*;
    use crate::parquet::footer::statistics::tests::file;

    /// Creates an index of pages of five rows.
    fn index(physical: PhysicalType, bounds: &[&[u8]]) -> Arc<LeafIndex> {
        let mut values = ColumnIndexBuilder::new(physical);
        let mut offsets = OffsetIndexBuilder::new();
        for bound in bounds {
            values.append(false, bound.to_vec(), bound.to_vec(), 0);
            offsets.append_row_count(5);
            offsets.append_offset_and_size(0, 0);
        }

        let values = vec![vec![values.build().unwrap()]];
        let pages = LeafPageIndex { values, offsets: vec![vec![offsets.build()]] };
        Arc::new(LeafIndex { pages: Some(pages), bloom: None, bytes: 0 })
    }

    #[test]
    fn pages_of_decimals_have_the_bounds_that_are_numbers_and_whose_writer_is_trusted() {
        let decimals = "optional fixed_len_byte_array (16) x (DECIMAL(38, 2))";
        let nothing = || vec![Statistics::fixed_len_byte_array(None, None, None, None, false)];
        let index = index(PhysicalType::FIXED_LEN_BYTE_ARRAY, &[b"", &[0xff, 0x85]]);
        let bounds = |created_by: &str| -> Option<Vec<Option<i128>>> {
            let file = file(decimals, created_by, nothing());
            let statistics = PageStatistics::new(&file, 0, vec![(0, index.clone())]);
            let min = statistics.min(&Column::new("x"))?;
            Some(min.as_primitive::<Decimal128Type>().iter().collect())
        };
        assert_eq!(bounds("stylobate version 0.1.0"), Some(vec![None, Some(-123)]));
        assert_eq!(bounds("Polars"), None);
    }

    #[test]
    fn pages_have_null_counts_only_if_their_writer_counts_nulls() {
        let index = index(PhysicalType::INT64, &[&1_i64.to_le_bytes(), &2_i64.to_le_bytes()]);
        let counts = |created_by: &str| -> Option<Vec<Option<u64>>> {
            let statistics = vec![Statistics::int64(Some(1), Some(2), None, Some(0), false)];
            let file = file("optional int64 x", created_by, statistics);
            let statistics = PageStatistics::new(&file, 0, vec![(0, index.clone())]);
            Some(statistics.null_counts(&Column::new("x"))?.iter().collect())
        };
        assert_eq!(counts("parquet-cpp-arrow version 12.0.0"), Some(vec![Some(0), Some(0)]));
        assert_eq!(counts("parquet-cpp-arrow version 5.0.0"), None);
    }
}
