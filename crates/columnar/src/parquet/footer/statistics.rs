//! Row group statistics from the footer.

use std::sync::LazyLock;

use arrow::{
    array::{Array, ArrayRef, AsArray, BooleanArray, UInt64Array},
    compute::{cast, nullif},
    datatypes::{DataType, Field, FieldRef, Float16Type, Float32Type, Float64Type},
};
use parquet::{
    arrow::arrow_reader::statistics::StatisticsConverter,
    basic::Type as PhysicalType,
    file::metadata::{ColumnChunkMetaData, RowGroupMetaData},
};

use crate::{
    file::{schema::leaf_count, statistics::PruningStatistics},
    parquet::ParquetFile,
    predicate::Column,
};

/// The field as which bounds of durations are read: the parquet crate reads none of durations.
static STORED_DURATION: LazyLock<Field> = LazyLock::new(|| Field::new("duration", DataType::Int64, true));

/// Statistics of some row groups.
pub(crate) struct RowGroupStatistics<'a> {
    file: &'a ParquetFile,
    groups: Vec<&'a RowGroupMetaData>,
}

impl<'a> RowGroupStatistics<'a> {
    pub(crate) fn new(file: &'a ParquetFile, row_groups: &[usize]) -> Self {
        let groups =
            row_groups.iter().filter_map(|row_group| file.metadata.row_groups().get(*row_group)).collect();
        Self { file, groups }
    }

    fn converter(&self, column: &Column) -> Option<StatisticsConverter<'a>> {
        let (leaf, field) = leaf_of(self.file, column)?;
        let schema = self.file.metadata.file_metadata().schema_descr();
        let field = stored_field(field);
        let converter = StatisticsConverter::from_column_index(leaf, field, schema).ok()?;
        Some(converter.with_missing_null_counts_as_zero(false))
    }

    fn chunks(&self, column: &Column) -> Option<Vec<&'a ColumnChunkMetaData>> {
        let (leaf, _) = leaf_of(self.file, column)?;
        self.groups.iter().map(|group| group.columns().get(leaf)).collect()
    }

    /// Keeps the reliable bounds; the others become null.
    fn reliable(&self, column: &Column, bounds: ArrayRef) -> Option<ArrayRef> {
        // Old writers compared bytes as signed, for every type.
        let old = |chunk: &&ColumnChunkMetaData| {
            chunk.statistics().is_some_and(|statistics| statistics.is_min_max_deprecated())
        };
        let signed = bounds.data_type().is_signed_integer() || bounds.data_type().is_floating();
        let wrong =
            self.chunks(column)?.iter().map(|chunk| Some(old(chunk) && !signed)).collect::<BooleanArray>();
        let bounds = nullif(&numbers(&bounds)?, &wrong).ok()?;
        of_column(bounds, leaf_of(self.file, column)?.1)
    }
}

/// Returns the field as which the statistics of a field are read.
pub(crate) fn stored_field(field: &Field) -> &Field {
    match field.data_type() {
        DataType::Duration(_) => LazyLock::force(&STORED_DURATION),
        _ => field,
    }
}

/// Casts bounds that were read as [`stored_field`] to the type of the field.
pub(crate) fn of_column(bounds: ArrayRef, field: &Field) -> Option<ArrayRef> {
    match field.data_type() {
        duration @ DataType::Duration(_) => cast(&bounds, duration).ok(),
        _ => Some(bounds),
    }
}

/// Returns whether the number of nulls agrees with the rest of the chunk's statistics.
fn has_sensible_nulls(chunk: &ColumnChunkMetaData) -> bool {
    let Some(statistics) = chunk.statistics() else { return true };
    let Some(nulls) = statistics.null_count_opt() else { return true };
    let all = chunk.num_values().max(0) as u64;
    let has_bounds = statistics.min_bytes_opt().is_some() || statistics.max_bytes_opt().is_some();
    match nulls {
        0 => true,
        _ if chunk.column_descr().max_def_level() == 0 => false,
        nulls => nulls < all || nulls == all && !has_bounds,
    }
}

/// Returns the leaf of a column that is reached through structs only.
pub(crate) fn leaf_of<'a>(file: &'a ParquetFile, column: &Column) -> Option<(usize, &'a Field)> {
    let mut fields = file.schema.fields();
    let mut name = column.name();
    let mut leaf = None;

    loop {
        let (at, rest) = best_match(fields, name)?;
        let before = fields.iter().take(at).map(|field| leaf_count(field.data_type()));
        let first = match leaf {
            // A top-level column's first leaf is known.
            None => file.leaves.get(at)?.start,
            Some(first) => first + before.sum::<usize>(),
        };
        leaf = Some(first);
        let field: &'a FieldRef = fields.get(at)?;

        match (field.data_type(), rest) {
            (DataType::Struct(inner), Some(rest)) => {
                fields = inner;
                name = rest;
            }
            (data_type, None) if !data_type.is_nested() => return Some((first, field.as_ref())),
            _ => return None,
        }
    }
}

/// Returns `None` for INT96, whose bounds were computed by comparing bytes.
pub(crate) fn is_ordered(file: &ParquetFile, column: &Column) -> Option<()> {
    let (leaf, _) = leaf_of(file, column)?;
    let leaf = file.metadata.file_metadata().schema_descr().columns().get(leaf)?;
    (leaf.physical_type() != PhysicalType::INT96).then_some(())
}

/// Keeps the bounds that are numbers; NaN becomes null.
pub(crate) fn numbers(bounds: &ArrayRef) -> Option<ArrayRef> {
    let mask: BooleanArray = (0..bounds.len()).map(|row| Some(is_nan(bounds, row))).collect();
    nullif(bounds, &mask).ok()
}

/// Finds the field of a name, or of its longest prefix before a dot; returns it with the rest after the dot.
fn best_match<'n>(fields: &arrow::datatypes::Fields, name: &'n str) -> Option<(usize, Option<&'n str>)> {
    if let Some((at, _)) = fields.find(name) {
        return Some((at, None));
    }
    name.match_indices('.').find_map(|(dot, _)| {
        let (at, _) = fields.find(name.get(..dot)?)?;
        Some((at, Some(name.get(dot + 1..)?)))
    })
}

fn is_nan(bounds: &ArrayRef, row: usize) -> bool {
    if bounds.is_null(row) {
        return false;
    }

    match bounds.data_type() {
        DataType::Float16 => bounds.as_primitive::<Float16Type>().value(row).is_nan(),
        DataType::Float32 => bounds.as_primitive::<Float32Type>().value(row).is_nan(),
        DataType::Float64 => bounds.as_primitive::<Float64Type>().value(row).is_nan(),
        _ => false,
    }
}

impl PruningStatistics for RowGroupStatistics<'_> {
    fn parts(&self) -> usize {
        self.groups.len()
    }

    fn min(&self, column: &Column) -> Option<ArrayRef> {
        is_ordered(self.file, column)?;
        let bounds = self.converter(column)?.row_group_mins(self.groups.iter().copied()).ok()?;
        self.reliable(column, bounds)
    }

    fn max(&self, column: &Column) -> Option<ArrayRef> {
        is_ordered(self.file, column)?;
        let bounds = self.converter(column)?.row_group_maxes(self.groups.iter().copied()).ok()?;
        self.reliable(column, bounds)
    }

    fn null_counts(&self, column: &Column) -> Option<UInt64Array> {
        let counts = self.converter(column)?.row_group_null_counts(self.groups.iter().copied()).ok()?;
        let wrong: BooleanArray =
            self.chunks(column)?.iter().map(|chunk| Some(!has_sensible_nulls(chunk))).collect();
        nullif(&counts, &wrong).ok()?.as_primitive_opt().cloned()
    }

    fn row_counts(&self) -> Option<UInt64Array> {
        Some(self.groups.iter().map(|group| group.num_rows().max(0) as u64).collect::<Vec<_>>().into())
    }
}
