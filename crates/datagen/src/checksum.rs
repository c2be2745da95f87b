//! Checksums of columns that do not depend on the order, representation and format of their values.
//!
//! The checksum of a column is the sum, modulo 2^64, of the hashes of its values:
//!
//! - A number is hashed as a whole number of 64 bits: a decimal without its point (`17.00` as 1700), a date as days
//!   since 1970-01-01, a time as seconds since midnight. The hash of `n` is the first output of SplitMix64 from the
//!   state `n`: with arithmetic modulo 2^64, `z = n + 0x9E3779B97F4A7C15`, `z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9`,
//!   `z = (z ^ z >> 27) * 0x94D049BB133111EB`, `z ^ z >> 31`.
//! - A string is hashed as its bytes in UTF-8, by XXH3 with 64 bits and seed 0.
//! - The hash of null is `0x5374796C6F626174`.
//!
//! Each value of a dictionary is hashed once.

use arrow::{
    array::{
        Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray, RecordBatch, downcast_dictionary_array,
    },
    buffer::NullBuffer,
    datatypes::{
        ArrowNativeType, DataType, Date32Type, Decimal128Type, Int32Type, Int64Type, Time32MillisecondType,
        Time32SecondType, TimeUnit,
    },
};
use twox_hash::XxHash3_64;

use crate::{Error, Result};

/// The hash of null.
const NULL: u64 = 0x5374_796C_6F62_6174;

/// Accumulates the checksums of the columns of batches.
#[derive(Debug, Default)]
pub struct Checksums {
    rows: u64,
    columns: Vec<ColumnChecksum>,
}

#[derive(Debug, Default)]
struct ColumnChecksum {
    sum: u64,
    /// Values of the last dictionary, and their hashes.
    dictionary: Option<(ArrayRef, Vec<u64>)>,
}

impl Checksums {
    /// Creates checksums of zero rows with `count` columns.
    pub fn with_columns(count: usize) -> Self {
        let mut sums = Self::default();
        sums.columns.resize_with(count, ColumnChecksum::default);
        sums
    }

    /// Adds the rows of a batch with the same columns as the earlier ones.
    ///
    /// # Errors
    ///
    /// [`Error::NoChecksum`] if a column has a type that no table uses.
    pub fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        self.columns.resize_with(batch.num_columns().max(self.columns.len()), ColumnChecksum::default);
        for ((column, array), field) in
            self.columns.iter_mut().zip(batch.columns()).zip(batch.schema_ref().fields())
        {
            column.add(array).map_err(|UnhashedType(data_type)| Error::NoChecksum {
                column: field.name().clone(),
                data_type,
            })?;
        }
        self.rows += batch.num_rows() as u64;
        Ok(())
    }

    /// Merges the checksums of other rows.
    pub fn merge(&mut self, other: &Self) {
        self.columns.resize_with(other.columns.len().max(self.columns.len()), ColumnChecksum::default);
        for (column, other) in self.columns.iter_mut().zip(&other.columns) {
            column.sum = column.sum.wrapping_add(other.sum);
        }
        self.rows += other.rows;
    }

    /// Returns the number of rows so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Returns the checksum of each column.
    pub fn sums(&self) -> Vec<u64> {
        self.columns.iter().map(|column| column.sum).collect()
    }

    /// Returns the checksums and resets them, but keeps the hashes of dictionaries.
    pub(crate) fn take(&mut self) -> Self {
        let columns = self.columns.iter_mut();
        let columns =
            columns.map(|column| ColumnChecksum { sum: std::mem::take(&mut column.sum), dictionary: None });
        Self { rows: std::mem::take(&mut self.rows), columns: columns.collect() }
    }
}

/// A type that no table uses: its values have no hashes.
struct UnhashedType(DataType);

impl ColumnChecksum {
    fn add(&mut self, array: &ArrayRef) -> Result<(), UnhashedType> {
        let added = match array.as_any_dictionary_opt() {
            None => sum(array)?,
            Some(dictionary) => {
                let values = dictionary.values();
                let hashes = match &mut self.dictionary {
                    Some((known, hashes)) if std::ptr::eq(known.as_ref(), values.as_ref()) => hashes,
                    other => &mut other.insert((values.clone(), hashes(values)?)).1,
                };
                downcast_dictionary_array!(
                    array => sum_of_keys(array.keys(), hashes),
                    other => return Err(UnhashedType(other.clone()))
                )
            }
        };
        self.sum = self.sum.wrapping_add(added);

        Ok(())
    }
}

fn sum_of_keys<K: ArrowPrimitiveType>(keys: &PrimitiveArray<K>, hashes: &[u64]) -> u64
where
    K::Native: ArrowNativeType,
{
    total(keys.len(), keys.nulls(), |row| {
        let key = keys.values().get(row).map_or(usize::MAX, |key| key.as_usize());
        hashes.get(key).copied().unwrap_or(NULL)
    })
}

/// Returns the sum of the hashes of an array's values.
fn sum(array: &ArrayRef) -> Result<u64, UnhashedType> {
    let mut sum = 0_u64;
    each_hash(array, |hash| sum = sum.wrapping_add(hash))?;
    Ok(sum)
}

fn hashes(array: &ArrayRef) -> Result<Vec<u64>, UnhashedType> {
    let mut hashes = Vec::with_capacity(array.len());
    each_hash(array, |hash| hashes.push(hash))?;
    Ok(hashes)
}

fn each_hash(array: &ArrayRef, each: impl FnMut(u64)) -> Result<(), UnhashedType> {
    match array.data_type() {
        DataType::Int32 => numbers(array.as_primitive::<Int32Type>(), i64::from, each),
        DataType::Int64 => numbers(array.as_primitive::<Int64Type>(), |number| number, each),
        DataType::Date32 => numbers(array.as_primitive::<Date32Type>(), i64::from, each),
        DataType::Time32(TimeUnit::Second) => {
            numbers(array.as_primitive::<Time32SecondType>(), i64::from, each);
        }
        // As in Parquet: all times in the tables are whole seconds.
        DataType::Time32(TimeUnit::Millisecond) => {
            let seconds = |time: i32| i64::from(time / 1_000);
            numbers(array.as_primitive::<Time32MillisecondType>(), seconds, each);
        }
        // All decimals in the tables have at most 64 bits.
        DataType::Decimal128(..) => {
            numbers(array.as_primitive::<Decimal128Type>(), |number| number as i64, each);
        }
        DataType::Utf8 => texts(array.as_string::<i32>().iter(), each),
        DataType::LargeUtf8 => texts(array.as_string::<i64>().iter(), each),
        DataType::Utf8View => texts(array.as_string_view().iter(), each),
        other => return Err(UnhashedType(other.clone())),
    }
    Ok(())
}

fn numbers<T: ArrowPrimitiveType>(
    array: &PrimitiveArray<T>,
    number: impl Fn(T::Native) -> i64,
    mut each: impl FnMut(u64),
) {
    match array.nulls().filter(|nulls| nulls.null_count() > 0) {
        None => array.values().iter().for_each(|value| each(hash_of_number(number(*value)))),
        Some(nulls) => {
            for (value, valid) in array.values().iter().zip(nulls) {
                each(if valid { hash_of_number(number(*value)) } else { NULL });
            }
        }
    }
}

fn texts<'a>(texts: impl Iterator<Item = Option<&'a str>>, mut each: impl FnMut(u64)) {
    texts.for_each(|text| each(text.map_or(NULL, |text| XxHash3_64::oneshot(text.as_bytes()))));
}

/// Hashes a number by SplitMix64.
pub(crate) fn hash_of_number(number: i64) -> u64 {
    let z = (number as u64).wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

fn total(rows: usize, nulls: Option<&NullBuffer>, hash: impl Fn(usize) -> u64) -> u64 {
    match nulls.filter(|nulls| nulls.null_count() > 0) {
        None => (0..rows).map(hash).fold(0, u64::wrapping_add),
        Some(nulls) => {
            let hash = |row| if nulls.is_valid(row) { hash(row) } else { NULL };
            (0..rows).map(hash).fold(0, u64::wrapping_add)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{slice::from_ref, sync::Arc};

    use arrow::{
        array::{
            Date32Array, Decimal128Array, DictionaryArray, Float64Array, Int32Array, Int64Array, StringArray,
            StringViewArray,
        },
        compute::{cast, concat, take},
        datatypes::UInt8Type,
    };

    use super::*;

    fn sums(arrays: &[ArrayRef]) -> u64 {
        let mut sums = Checksums::default();
        for array in arrays {
            sums.add(&RecordBatch::try_from_iter_with_nullable([("x", array.clone(), true)]).unwrap())
                .unwrap();
        }
        sums.sums()[0]
    }

    #[test]
    fn the_definition_is_kept() {
        // The first output of SplitMix64 from state 0, and XXH3 of the empty string, as published by their authors.
        assert_eq!(sums(&[Arc::new(Int64Array::from(vec![0]))]), 0xE220_A839_7B1D_CDAF);
        assert_eq!(sums(&[Arc::new(StringArray::from(vec![""]))]), 0x2D06_8005_38D3_94C2);
        assert_eq!(sums(&[Arc::new(Int32Array::from(vec![None, None]))]), NULL.wrapping_mul(2));
        let both = 0xE220_A839_7B1D_CDAF_u64.wrapping_add(NULL);
        assert_eq!(sums(&[Arc::new(Int64Array::from(vec![Some(0), None]))]), both);
    }

    #[test]
    fn neither_order_nor_batches_nor_representation_matter() {
        let texts = StringArray::from(vec![
            Some("a"),
            None,
            Some(""),
            Some("a string of more than twelve bytes"),
            Some("a"),
        ]);

        let texts: ArrayRef = Arc::new(texts);
        let expected = sums(from_ref(&texts));
        let views = cast(&texts, &DataType::Utf8View).unwrap();
        let dictionary =
            cast(&texts, &DataType::Dictionary(Box::new(DataType::UInt8), Box::new(DataType::Utf8))).unwrap();
        let order = Int32Array::from(vec![4, 2, 0, 1, 3]);

        for array in [views, dictionary] {
            assert_eq!(sums(from_ref(&array)), expected);
            assert_eq!(sums(&[array.slice(0, 2), array.slice(2, 3)]), expected);
            assert_eq!(sums(&[take(&array, &order, None).unwrap()]), expected);
        }
        assert_ne!(sums(&[texts.slice(1, 4)]), expected);
    }

    #[test]
    fn a_number_is_the_same_whatever_its_width() {
        let wide: ArrayRef = Arc::new(Int64Array::from(vec![Some(-7), None, Some(1_700)]));
        let expected = sums(from_ref(&wide));
        assert_eq!(sums(&[Arc::new(Int32Array::from(vec![Some(-7), None, Some(1_700)]))]), expected);
        assert_eq!(sums(&[Arc::new(Decimal128Array::from(vec![Some(-7), None, Some(1_700)]))]), expected);
        assert_eq!(sums(&[Arc::new(Date32Array::from(vec![Some(-7), None, Some(1_700)]))]), expected);
    }

    #[test]
    fn a_column_of_a_type_without_a_checksum_is_named() {
        let floats: ArrayRef = Arc::new(Float64Array::from(vec![0.5]));
        let batch = RecordBatch::try_from_iter([("x", floats)]).unwrap();
        let error = Checksums::default().add(&batch).unwrap_err();
        assert_eq!(error.to_string(), "column x: Float64 has no checksum");
    }

    #[test]
    fn the_null_of_a_dictionary_is_null_wherever_it_is() {
        let keys = arrow::array::UInt8Array::from(vec![Some(0), None, Some(1)]);
        let values: ArrayRef = Arc::new(StringViewArray::from(vec![Some("a"), None]));
        let by_value =
            DictionaryArray::<UInt8Type>::try_new(keys, cast(&values, &DataType::Utf8).unwrap()).unwrap();
        let plain: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None, None]));
        assert_eq!(sums(&[Arc::new(by_value)]), sums(from_ref(&plain)));
        let parts = [plain.slice(0, 1), plain.slice(1, 2)];
        let joined = concat(&[parts[0].as_ref(), parts[1].as_ref()]).unwrap();
        let mut one = Checksums::default();
        let mut two = Checksums::default();

        one.add(&RecordBatch::try_from_iter_with_nullable([("x", parts[0].clone(), true)]).unwrap()).unwrap();
        two.add(&RecordBatch::try_from_iter_with_nullable([("x", parts[1].clone(), true)]).unwrap()).unwrap();
        one.merge(&two);
        assert_eq!((one.rows(), one.sums()[0]), (3, sums(&[joined])));
    }
}
