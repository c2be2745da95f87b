//! Builds output batches: rows that pass the filter, in the types of the scan's schema.

use std::sync::Arc;

use arrow::{
    array::{
        Array, ArrayRef, AsArray, BooleanArray, DictionaryArray, RecordBatch, RecordBatchOptions,
        UInt32Array, new_null_array,
    },
    buffer::BooleanBuffer,
    compute::{FilterBuilder, FilterPredicate, cast_with_options, take},
    datatypes::{DataType, Field, Fields, Schema, SchemaRef, UInt32Type},
    error::ArrowError,
};
use hashbrown::HashMap;
use stylobate_storage::OpenObject;

use crate::{
    Error, Result,
    file::promised::is_coded_as,
    kernels::{
        codes::{self, CodeWidth, Codes, ViewTables, string_views},
        exact_cast::{EXACT, common_cast},
        expand::{expand, expanded_rows},
        nested_type::contains_type,
    },
    table::OutputColumn,
};

/// Maximum bytes of a column of a batch after its dictionary is expanded. The offsets of an array end at 2 GiB, and a
/// row group of a few kilobytes may expand to more than that.
pub(super) const MAX_EXPANDED: usize = 256 << 20;

/// Properties that all batches of a row group share.
pub(super) struct BatchShape<'a> {
    pub(super) schema: &'a SchemaRef,
    pub(super) outputs: &'a [OutputColumn],
    /// Allows dictionaries in place of the schema's types.
    pub(super) codes: bool,
    /// Views of dictionaries, shared with other batches.
    pub(super) views: Option<&'a ViewTables>,
}

/// Builds a batch of the rows of `columns` that `keep` selects; all if it is `None`.
pub(super) fn batch(
    object: &OpenObject,
    shape: &BatchShape<'_>,
    columns: &[ArrayRef],
    rows: usize,
    keep: Option<&BooleanBuffer>,
) -> Result<RecordBatch> {
    let &BatchShape { schema, outputs, codes, views } = shape;
    let kept = keep.map_or(rows, BooleanBuffer::count_set_bits);
    let passing = keep.filter(|_| kept < rows).map(|keep| row_filter(keep, columns.len()));
    let arrays = columns.iter().zip(outputs).map(|(column, output)| {
        let context = || format!("column {}", output.field.name());
        let column = match &passing {
            None => column.clone(),
            Some(passing) => passing.filter(column).map_err(Error::arrow(context()))?,
        };
        if codes && is_coded_as(column.data_type(), output.field.data_type()) {
            return Ok(column);
        }

        as_type(column, output.field.data_type(), views).map_err(|error| match error {
            Error::Arrow { source, .. } => no_common(object, &output.field, &source),
            other => other,
        })
    });
    let arrays: Vec<ArrayRef> = arrays.collect::<Result<_>>()?;

    let options = RecordBatchOptions::new().with_row_count(Some(kept));
    let schema = if codes { schema_of(schema, &arrays) } else { schema.clone() };
    RecordBatch::try_new_with_options(schema, arrays, &options).map_err(Error::arrow("a batch"))
}

/// Returns a filter of the rows in `keep`, whose positions are listed once if several columns need them.
fn row_filter(keep: &BooleanBuffer, columns: usize) -> FilterPredicate {
    let keep = BooleanArray::from(keep.clone());
    let builder = FilterBuilder::new(&keep);
    if columns > 1 { builder.optimize().build() } else { builder.build() }
}

/// Returns the schema with the types of the columns.
fn schema_of(schema: &SchemaRef, columns: &[ArrayRef]) -> SchemaRef {
    if schema.fields().iter().zip(columns).all(|(field, column)| field.data_type() == column.data_type()) {
        return schema.clone();
    }

    let typed =
        schema.fields().iter().zip(columns).map(|(field, column)| {
            Arc::new(field.as_ref().clone().with_data_type(column.data_type().clone()))
        });
    Arc::new(Schema::new_with_metadata(typed.collect::<Fields>(), schema.metadata().clone()))
}

/// Returns the number of rows for one batch: fewer than `rows` if dictionaries would expand to more than
/// [`MAX_EXPANDED`], or have more values than the keys of the output can address. If `codes` is true, only
/// dictionaries within other types count: others are returned unchanged.
pub(super) fn fitting_rows(
    outputs: &[OutputColumn],
    columns: &[ArrayRef],
    rows: usize,
    codes: bool,
) -> usize {
    let fitting = |(column, output): (&ArrayRef, &OutputColumn)| match output.field.data_type() {
        nested if has_narrow_nested_keys(nested) => rows_within_nested_keys(column, nested),
        _ if codes => rows,
        DataType::Dictionary(key, _) => rows_within_keys(column, key),
        of_values if of_values == &output.values => expanded_rows(column, MAX_EXPANDED),
        _ => rows,
    };
    columns.iter().zip(outputs).map(fitting).fold(rows, usize::min)
}

/// Returns true if a type contains dictionaries, below its root, whose keys address fewer values than a batch may have.
pub(super) fn has_narrow_nested_keys(data_type: &DataType) -> bool {
    let is_narrow = |found: &DataType| match found {
        DataType::Dictionary(key, _) => key_capacity(key).is_some(),
        _ => false,
    };
    data_type.is_nested() && contains_type(data_type, is_narrow)
}

/// Returns a number of leading rows whose nested values the keys of the output can address. A single row always has few
/// enough: it was written from one dictionary.
fn rows_within_nested_keys(column: &ArrayRef, data_type: &DataType) -> usize {
    let fits = |rows: usize| common_cast(&column.slice(0, rows), data_type).is_ok();
    if fits(column.len()) {
        return column.len();
    }

    // Grows from one row, so that a long column is not cast repeatedly.
    let mut rows = 1;
    while rows * 2 < column.len() && fits(rows * 2) {
        rows *= 2;
    }
    rows
}

/// Returns the number of values that dictionary keys can address; `None` if that is not a limit.
pub(super) fn key_capacity(key: &DataType) -> Option<usize> {
    match key {
        DataType::Int8 => Some(1 << 7),
        DataType::UInt8 => Some(1 << 8),
        DataType::Int16 => Some(1 << 15),
        DataType::UInt16 => Some(1 << 16),
        _ => None,
    }
}

/// Returns a number of leading rows that are certain to have no more values than the keys can address.
fn rows_within_keys(column: &ArrayRef, key: &DataType) -> usize {
    let Some(capacity) = key_capacity(key) else { return column.len() };
    let values = match column.as_any_dictionary_opt() {
        Some(dictionary) => dictionary.values().len(),
        None => distinct_values(column).unwrap_or(column.len()),
    };

    if values <= capacity { column.len() } else { column.len().min(capacity) }
}

fn distinct_values(column: &ArrayRef) -> Option<usize> {
    let coded = DataType::Dictionary(Box::new(DataType::UInt32), Box::new(column.data_type().clone()));
    let coded = cast_with_options(column, &coded, &EXACT).ok()?;
    Some(coded.as_any_dictionary_opt()?.values().len())
}

/// Returns the error of a column whose values do not fit the type of the table.
pub(super) fn no_common(object: &OpenObject, field: &Field, reason: &ArrowError) -> Error {
    Error::misfit(object.name(), field.name(), reason)
}

/// Repeats a value.
pub(super) fn repeated(value: &ArrayRef, rows: usize, target: &DataType) -> Result<ArrayRef> {
    if value.is_null(0) {
        return Ok(new_null_array(target, rows));
    }

    if let DataType::Dictionary(key, _) = target
        && **key == DataType::UInt16
    {
        let mut codes: Codes<u16> = Codes::with_capacity(rows);
        (0..rows).for_each(|_| codes.push(0));
        return codes
            .into_array(None, value.clone())
            .map_err(|reason| Error::Ended { reason: reason.to_string() });
    }

    let zeros = UInt32Array::from(vec![0_u32; rows]);
    as_type(take(value, &zeros, None).map_err(Error::arrow("a value of a path"))?, target, None)
}

/// Casts rows to another type: with wider codes, with a compacted dictionary, or without a dictionary.
fn as_type(array: ArrayRef, target: &DataType, views: Option<&ViewTables>) -> Result<ArrayRef> {
    if array.data_type() == target {
        return Ok(array);
    }

    if let (DataType::Dictionary(_, from), DataType::Dictionary(key, to)) = (array.data_type(), target)
        && from == to
    {
        let width = match key.as_ref() {
            DataType::UInt8 => Some(CodeWidth::U8),
            DataType::UInt16 => Some(CodeWidth::U16),
            DataType::UInt32 => Some(CodeWidth::U32),
            _ => None,
        };
        if let Some(wide) = width.and_then(|width| codes::widened(&array, width)) {
            return Ok(wide);
        }

        let too_many =
            key_capacity(key).is_some_and(|capacity| array.as_any_dictionary().values().len() > capacity);
        if too_many && let Some(wide) = codes::widened(&array, CodeWidth::U32) {
            let compact = compact(wide.as_dictionary::<UInt32Type>())?;
            return cast_with_options(&compact, target, &EXACT).map_err(Error::arrow("codes"));
        }
    }

    if let (DataType::Dictionary(_, from), false) =
        (array.data_type(), matches!(target, DataType::Dictionary(..)))
        && **from == *target
    {
        return expand(&array);
    }

    if matches!(target, DataType::Utf8View | DataType::BinaryView)
        && let Some(views) = string_views(&array, target, views)
    {
        return Ok(views);
    }

    common_cast(&array, target).map_err(Error::arrow("a cast"))
}

/// Removes unused values from the dictionary: at most one per row is left, which 16-bit keys can address.
fn compact(array: &DictionaryArray<UInt32Type>) -> Result<ArrayRef> {
    let mut remapping = CodeRemapping::of(array.values().len(), array.keys().len());
    let keys = array.keys();
    let mut occurring: Vec<u32> = Vec::new();
    let mut compact: Codes<u16> = Codes::with_capacity(keys.len());

    for (row, code) in keys.values().iter().enumerate() {
        compact.push(match remapping.get(*code).filter(|_| keys.is_valid(row)) {
            None => 0,
            Some(new_code) => {
                if *new_code == ABSENT {
                    *new_code = occurring.len() as u32;
                    occurring.push(*code);
                }
                *new_code
            }
        });
    }

    let values =
        take(array.values(), &UInt32Array::from(occurring), None).map_err(Error::arrow("a dictionary"))?;
    let compact = compact.into_array(keys.nulls().cloned(), values);
    compact.map_err(|reason| Error::Ended { reason: reason.to_string() })
}

/// Marks a code that has not occurred yet.
const ABSENT: u32 = u32::MAX;
/// Codes per row up to which an array of all codes is faster than a hash map of those that occur.
const CODES_PER_ROW: usize = 16;

/// Maps each code to its position among those that occur.
enum CodeRemapping {
    List(Vec<u32>),
    Map(HashMap<u32, u32>),
}

impl CodeRemapping {
    fn of(codes: usize, rows: usize) -> Self {
        if codes <= rows.saturating_mul(CODES_PER_ROW) {
            Self::List(vec![ABSENT; codes])
        } else {
            Self::Map(HashMap::with_capacity(rows))
        }
    }

    fn get(&mut self, code: u32) -> Option<&mut u32> {
        match self {
            Self::List(new_codes) => new_codes.get_mut(code as usize),
            Self::Map(new_codes) => Some(new_codes.entry(code).or_insert(ABSENT)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::{array::StringArray, buffer::NullBuffer, compute::cast, datatypes::UInt16Type};

    use super::*;

    #[test]
    fn a_large_dictionary_is_compacted_to_what_a_batch_holds() {
        let values: ArrayRef = Arc::new((0..100_000).map(|i| Some(format!("v{i}"))).collect::<StringArray>());
        let mut codes: Codes<u32> = Codes::with_capacity(5);
        [99_999, 7, 7, 0, 70_000].iter().for_each(|code| codes.push(*code));
        let nulls = NullBuffer::from(vec![true, true, true, false, true]);

        let wide = codes.into_array(Some(nulls), values).unwrap();
        let key = DataType::Dictionary(Box::new(DataType::UInt16), Box::new(DataType::Utf8));
        let narrow = as_type(wide.clone(), &key, None).unwrap();
        assert_eq!(narrow.as_dictionary::<UInt16Type>().values().len(), 3);
        assert_eq!(&cast(&narrow, &DataType::Utf8).unwrap(), &cast(&wide, &DataType::Utf8).unwrap());
    }

    #[test]
    fn it_is_compacted_alike_whether_its_codes_are_few_or_many_beside_the_rows() {
        let values: ArrayRef = Arc::new((0..70_000).map(|i| Some(format!("v{i}"))).collect::<StringArray>());
        let mut codes: Codes<u32> = Codes::with_capacity(20_000);
        (0..20_000_u32).for_each(|row| codes.push(row.wrapping_mul(row) % 70_000));
        let wide = codes.into_array(None, values).unwrap();
        let key = DataType::Dictionary(Box::new(DataType::UInt16), Box::new(DataType::Utf8));
        for rows in [20_000, 4_000] {
            let wide = wide.slice(0, rows);
            let narrow = as_type(wide.clone(), &key, None).unwrap();
            assert!(narrow.as_dictionary::<UInt16Type>().values().len() <= rows);
            assert_eq!(&cast(&narrow, &DataType::Utf8).unwrap(), &cast(&wide, &DataType::Utf8).unwrap());
        }
    }

    #[test]
    fn one_value_is_repeated_as_a_dictionary() {
        let value: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
        let key = DataType::Dictionary(Box::new(DataType::UInt16), Box::new(DataType::Utf8));
        let rows = repeated(&value, 3, &key).unwrap();
        assert_eq!((rows.len(), rows.as_dictionary::<UInt16Type>().values().len()), (3, 1));
        assert_eq!(repeated(&new_null_array(&DataType::Utf8, 1), 2, &key).unwrap().null_count(), 2);
    }
}
