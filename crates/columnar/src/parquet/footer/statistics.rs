//! Row group statistics from the footer.

use std::sync::{Arc, LazyLock};

use arrow::{
    array::{Array, ArrayRef, AsArray, BooleanArray, PrimitiveArray, UInt64Array},
    compute::{cast, nullif},
    datatypes::{
        DataType, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, DecimalType, Field,
        Float16Type, Float32Type, Float64Type, i256,
    },
};
use parquet::{
    arrow::arrow_reader::statistics::StatisticsConverter,
    basic::Type as PhysicalType,
    file::{
        metadata::{ColumnChunkMetaData, RowGroupMetaData},
        page_index::column_index::ByteArrayColumnIndex,
    },
};

use super::{has_arrow_schema, is_dictionary_encoding};
use crate::{
    field_path::field_path,
    file::{schema::leaf_count, statistics::PruningStatistics},
    parallel::guarded::guarded,
    parquet::ParquetFile,
    predicate::Column,
};

/// The field as which bounds of durations are read: the parquet crate reads none of durations.
static STORED_DURATION: LazyLock<Field> = LazyLock::new(|| Field::new("duration", DataType::Int64, true));

/// One of the two bounds of a column.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BoundSide {
    Min,
    Max,
}

impl BoundSide {
    fn of_chunk(self, chunk: &ColumnChunkMetaData) -> Option<&[u8]> {
        let statistics = chunk.statistics()?;
        match self {
            Self::Min => statistics.min_bytes_opt(),
            Self::Max => statistics.max_bytes_opt(),
        }
    }

    /// Returns the bound of each page; `None` for pages of only nulls.
    pub(crate) fn of_pages(self, index: &ByteArrayColumnIndex) -> Vec<Option<&[u8]>> {
        match self {
            Self::Min => index.min_values_iter().collect(),
            Self::Max => index.max_values_iter().collect(),
        }
    }
}

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

    /// Returns a bound of each row group; null if it is unknown or unreliable.
    fn bounds(&self, column: &Column, side: BoundSide) -> Option<ArrayRef> {
        is_ordered(self.file, column)?;
        let (leaf, field) = leaf_of(self.file, column)?;
        let bounds = if has_byte_decimals(self.file, leaf, field) {
            let chunks = self.chunks(column)?;
            decimals_of_bytes(field.data_type(), chunks.iter().map(|chunk| side.of_chunk(chunk)))?
        } else {
            let converter = self.converter(column)?;
            let groups = self.groups.iter().copied();
            let converted = guarded(|| match side {
                BoundSide::Min => converter.row_group_mins(groups),
                BoundSide::Max => converter.row_group_maxes(groups),
            });
            converted.ok()?.ok()?
        };
        self.reliable(column, bounds)
    }

    /// Keeps the reliable bounds; the others become null.
    fn reliable(&self, column: &Column, bounds: ArrayRef) -> Option<ArrayRef> {
        let (leaf, field) = leaf_of(self.file, column)?;
        // Old writers compared bytes as signed, for every type.
        let is_old = |chunk: &ColumnChunkMetaData| {
            chunk.statistics().is_some_and(|statistics| statistics.is_min_max_deprecated())
        };
        let is_signed = bounds.data_type().is_signed_integer() || bounds.data_type().is_floating();
        let is_wrong = |chunk: &ColumnChunkMetaData| {
            is_old(chunk) && !is_signed || !has_trusted_bounds(self.file, leaf, field, chunk)
        };

        let wrong: BooleanArray = self.chunks(column)?.iter().map(|chunk| Some(is_wrong(chunk))).collect();
        let bounds = nullif(&numbers(&bounds)?, &wrong).ok()?;
        of_column(bounds, field)
    }
}

/// Returns whether a leaf of decimals stores them as bytes.
fn has_byte_decimals(file: &ParquetFile, leaf: usize, field: &Field) -> bool {
    let leaves = file.metadata.file_metadata().schema_descr().columns();
    let is_bytes = |stored| matches!(stored, PhysicalType::BYTE_ARRAY | PhysicalType::FIXED_LEN_BYTE_ARRAY);
    field.data_type().is_decimal() && leaves.get(leaf).is_some_and(|leaf| is_bytes(leaf.physical_type()))
}

/// Parses big-endian decimals in two's complement; those that are empty or too long for the type become null. The
/// parquet crate panics on them.
pub(crate) fn decimals_of_bytes<'b>(
    data_type: &DataType,
    bytes: impl Iterator<Item = Option<&'b [u8]>>,
) -> Option<ArrayRef> {
    match *data_type {
        DataType::Decimal32(precision, scale) => {
            let values = bytes.map(|bytes| bytes.and_then(sign_extended).map(i32::from_be_bytes));
            decimals::<Decimal32Type>(values, precision, scale)
        }
        DataType::Decimal64(precision, scale) => {
            let values = bytes.map(|bytes| bytes.and_then(sign_extended).map(i64::from_be_bytes));
            decimals::<Decimal64Type>(values, precision, scale)
        }
        DataType::Decimal128(precision, scale) => {
            let values = bytes.map(|bytes| bytes.and_then(sign_extended).map(i128::from_be_bytes));
            decimals::<Decimal128Type>(values, precision, scale)
        }
        DataType::Decimal256(precision, scale) => {
            let values = bytes.map(|bytes| bytes.and_then(sign_extended).map(i256::from_be_bytes));
            decimals::<Decimal256Type>(values, precision, scale)
        }
        _ => None,
    }
}

fn decimals<T: DecimalType>(
    values: impl Iterator<Item = Option<T::Native>>,
    precision: u8,
    scale: i8,
) -> Option<ArrayRef> {
    let values: PrimitiveArray<T> = values.collect();
    Some(Arc::new(values.with_precision_and_scale(precision, scale).ok()?))
}

/// Extends a big-endian number to `N` bytes; `None` if it is empty or longer.
fn sign_extended<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
    let sign = if bytes.first()? & 0x80 == 0 { 0 } else { 0xff };
    let start = N.checked_sub(bytes.len())?;
    let mut extended = [sign; N];
    extended.get_mut(start..)?.copy_from_slice(bytes);
    Some(extended)
}

/// Returns whether the file's writer is trusted to compute the bounds of a chunk.
pub(crate) fn has_trusted_bounds(
    file: &ParquetFile,
    leaf: usize,
    field: &Field,
    chunk: &ColumnChunkMetaData,
) -> bool {
    let stored = chunk.column_type();
    let is_ordered = !field.data_type().is_decimal() || file.trust.decimal_bounds(stored);
    let is_complete = file.trust.dictionary_bounds
        || stored != PhysicalType::BYTE_ARRAY
        || !may_be_written_from_dictionary(file, leaf, chunk);
    is_ordered && is_complete
}

/// Returns whether a chunk may have been written from a dictionary array. Any dictionary-encoded chunk may, unless the
/// Arrow schema of the file has another type for the column.
fn may_be_written_from_dictionary(file: &ParquetFile, leaf: usize, chunk: &ColumnChunkMetaData) -> bool {
    if !chunk.encodings().any(is_dictionary_encoding) {
        return false;
    }
    if !has_arrow_schema(&file.metadata) {
        return true;
    }

    let root = file.leaves.iter().position(|leaves| leaves.contains(&leaf));
    root.and_then(|root| file.written.get(root)).is_none_or(|written| {
        matches!(written.data_type(), DataType::Dictionary(..)) || written.data_type().is_nested()
    })
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
    let is_required = chunk.column_descr().max_def_level() == 0;
    match nulls {
        // Some writers leave the count at 0 for a chunk of only nulls.
        0 => has_bounds || is_required || all == 0,
        _ if is_required => false,
        nulls => nulls < all || nulls == all && !has_bounds,
    }
}

/// Returns the leaf of a column that is reached through structs only.
pub(crate) fn leaf_of<'a>(file: &'a ParquetFile, column: &Column) -> Option<(usize, &'a Field)> {
    let path = field_path(file.schema.fields(), column.name())?;
    let (&(root, mut field), below) = path.split_first()?;
    let mut leaf = file.leaves.get(root)?.start;

    for &(at, child) in below {
        let DataType::Struct(siblings) = field.data_type() else { return None };
        let before = siblings.iter().take(at).map(|sibling| leaf_count(sibling.data_type()));
        leaf += before.sum::<usize>();
        field = child;
    }

    (!field.data_type().is_nested()).then(|| (leaf, field.as_ref()))
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
        self.bounds(column, BoundSide::Min)
    }

    fn max(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds(column, BoundSide::Max)
    }

    fn null_counts(&self, column: &Column) -> Option<UInt64Array> {
        if !self.file.trust.nulls {
            return None;
        }

        let counts = self.converter(column)?.row_group_null_counts(self.groups.iter().copied()).ok()?;
        let wrong: BooleanArray =
            self.chunks(column)?.iter().map(|chunk| Some(!has_sensible_nulls(chunk))).collect();
        nullif(&counts, &wrong).ok()?.as_primitive_opt().cloned()
    }

    fn row_counts(&self) -> Option<UInt64Array> {
        Some(self.groups.iter().map(|group| group.num_rows().max(0) as u64).collect::<Vec<_>>().into())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use arrow::datatypes::Int64Type;
    use parquet::{
        basic::Encoding,
        file::{
            metadata::{FileMetaData, ParquetMetaData},
            statistics::Statistics,
        },
        schema::{parser::parse_message_type, types::SchemaDescriptor},
    };

    use super::*;

    const ROWS: i64 = 10;
    const STYLOBATE: &str = "stylobate version 0.1.0";
    const DECIMALS: &str = "optional fixed_len_byte_array (16) x (DECIMAL(38, 2))";

    /// Creates a file with one dictionary-encoded column `x` and a row group for each of the statistics.
    pub(crate) fn file(column: &str, created_by: &str, groups: Vec<Statistics>) -> ParquetFile {
        let message = parse_message_type(&format!("message m {{ {column}; }}")).unwrap();
        let schema = Arc::new(SchemaDescriptor::new(Arc::new(message)));
        let group = |statistics| {
            let chunk = ColumnChunkMetaData::builder(schema.column(0))
                .set_encodings(vec![Encoding::RLE_DICTIONARY])
                .set_num_values(ROWS)
                .set_statistics(statistics)
                .build()
                .unwrap();
            let group = RowGroupMetaData::builder(schema.clone()).set_num_rows(ROWS);
            group.add_column_metadata(chunk).build().unwrap()
        };

        let groups: Vec<RowGroupMetaData> = groups.into_iter().map(group).collect();
        let created_by = Some(created_by.to_owned());
        let footer = FileMetaData::new(2, ROWS * groups.len() as i64, created_by, None, schema.clone(), None);
        ParquetFile::new("x.parquet".to_owned(), ParquetMetaData::new(footer, groups), 1 << 20).unwrap()
    }

    /// Returns the lower bounds and the null counts of the row groups.
    fn known(file: &ParquetFile) -> (Option<ArrayRef>, Option<Vec<Option<u64>>>) {
        let row_groups: Vec<usize> = (0..file.row_group_count()).collect();
        let statistics = RowGroupStatistics::new(file, &row_groups);
        let column = Column::new("x");
        (statistics.min(&column), statistics.null_counts(&column).map(|counts| counts.iter().collect()))
    }

    fn fixed(min: &[u8], max: &[u8]) -> Statistics {
        Statistics::fixed_len_byte_array(
            Some(min.to_vec().into()),
            Some(max.to_vec().into()),
            None,
            Some(0),
            false,
        )
    }

    fn text(min: &str, max: &str) -> Statistics {
        Statistics::byte_array(Some(min.into()), Some(max.into()), None, Some(0), false)
    }

    fn int(min: Option<i64>, max: Option<i64>, nulls: u64) -> Statistics {
        Statistics::int64(min, max, None, Some(nulls), false)
    }

    #[test]
    fn a_decimal_of_an_impossible_length_is_unknown_and_hides_no_other() {
        let long = [1; 17];
        let groups = vec![fixed(b"", b""), fixed(&long, &long), fixed(&[0xff, 0x85], &[0x01])];
        let file = file(DECIMALS, STYLOBATE, groups);
        let statistics = RowGroupStatistics::new(&file, &[0, 1, 2]);
        let column = Column::new("x");
        let numbers = |bounds: Option<ArrayRef>| -> Vec<Option<i128>> {
            bounds.unwrap().as_primitive::<Decimal128Type>().iter().collect()
        };
        assert_eq!(numbers(statistics.min(&column)), [None, None, Some(-123)]);
        assert_eq!(numbers(statistics.max(&column)), [None, None, Some(1)]);
    }

    #[test]
    fn decimals_in_bytes_have_bounds_only_if_their_writer_compares_numbers() {
        let is_known = |column: &str, created_by: &str, statistics: Statistics| {
            known(&file(column, created_by, vec![statistics])).0.unwrap().is_valid(0)
        };
        let in_bytes = "optional binary x (DECIMAL(38, 2))";
        assert!(is_known(DECIMALS, STYLOBATE, fixed(&[1], &[2])));
        assert!(is_known(DECIMALS, "parquet-rs version 59.3.2", fixed(&[1], &[2])));
        assert!(!is_known(in_bytes, "parquet-rs version 59.3.2", text("1", "2")));
        assert!(is_known(in_bytes, "parquet-mr version 1.13.1", text("1", "2")));
        assert!(!is_known(DECIMALS, "parquet-cpp-arrow version 3.0.0", fixed(&[1], &[2])));
        assert!(!is_known(DECIMALS, "Polars", fixed(&[1], &[2])));
        let in_integers = "optional int64 x (DECIMAL(18, 2))";
        assert!(is_known(in_integers, "Polars", int(Some(1), Some(2), 0)));
    }

    #[test]
    fn strings_of_writers_that_bound_only_the_first_piece_of_a_dictionary_have_no_bounds() {
        let is_known = |created_by: &str| {
            known(&file("optional binary x (STRING)", created_by, vec![text("a", "b")]))
                .0
                .unwrap()
                .is_valid(0)
        };
        assert!(!is_known("parquet-cpp-arrow version 11.0.0"));
        assert!(is_known("parquet-cpp-arrow version 12.0.0"));
        let numbers =
            file("optional int64 x", "parquet-cpp-arrow version 11.0.0", vec![int(Some(1), Some(2), 0)]);
        let min = known(&numbers).0.unwrap();
        assert_eq!(min.as_primitive::<Int64Type>().iter().collect::<Vec<_>>(), [Some(1)]);
    }

    #[test]
    fn null_counts_of_old_writers_and_of_zero_beside_no_bounds_are_unknown() {
        let groups = || vec![int(Some(1), Some(2), 0), int(None, None, 0), int(None, None, ROWS as u64)];
        let nulls = |column: &str, created_by: &str| known(&file(column, created_by, groups())).1;
        let counts = Some(vec![Some(0), None, Some(ROWS as u64)]);
        assert_eq!(nulls("optional int64 x", STYLOBATE), counts);
        assert_eq!(nulls("optional int64 x", "parquet-cpp-arrow version 6.0.0"), counts);
        assert_eq!(nulls("optional int64 x", "parquet-cpp-arrow version 5.0.0"), None);
        assert_eq!(nulls("optional int64 x", "parquet-cpp version 1.5.1-SNAPSHOT"), None);
        assert_eq!(nulls("required int64 x", STYLOBATE), Some(vec![Some(0), Some(0), None]));
    }
}
