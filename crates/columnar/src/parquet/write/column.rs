//! Encodes one top-level column, with the encoder that suits it.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, AsArray},
    datatypes::{DataType, Field, FieldRef, Fields, Schema, TimeUnit},
};
use parquet::{arrow::ArrowSchemaConverter, file::properties::WriterPropertiesPtr};

use super::{
    chunk::{EncodedChunk, MAX_NARROW},
    codebook::Codebook,
    column_options::{DictionaryEncoding, Encoding, bytes},
    encode::{
        coded::DictionaryChunkEncoder,
        fallback::FallbackEncoder,
        intervals::{as_bytes, as_bytes_type},
        strings::PlainStringEncoder,
    },
    general::GenericColumnEncoder,
    logical_types::with_geo_types,
    options::{DICTIONARY_SIZE, ParquetEncoderOptions, ParquetOptions},
};
use crate::{
    file::schema::{is_text, value_type},
    kernels::{same::is_same, written_cast::written_cast},
};

/// Encoding of a column, the same in every row group.
#[derive(Clone)]
pub(super) struct ParquetColumnSpec {
    field: FieldRef,
    /// The field, with the encoded type.
    encoded: FieldRef,
    /// The encoded field, with bytes in place of intervals.
    physical: FieldRef,
    encoder: ParquetChunkEncoderKind,
    plan: ParquetEncoderOptions,
    properties: WriterPropertiesPtr,
}

/// Encoder of one column's chunks in one row group.
pub(super) struct ParquetColumnEncoder {
    kind: ParquetColumnSpec,
    encoder: ParquetChunkEncoder,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ParquetChunkEncoderKind {
    Coded,
    Tried,
    Strings,
    General,
}

enum ParquetChunkEncoder {
    Coded(Box<DictionaryChunkEncoder>),
    Tried(Box<FallbackEncoder>),
    Strings(Box<PlainStringEncoder>),
    General(Box<GenericColumnEncoder>),
}

impl ParquetColumnSpec {
    pub(super) fn new(field: &FieldRef, options: &ParquetOptions) -> Result<Self, String> {
        check_type(field.data_type())?;
        let mut plan = options.plan(field.name())?;
        plan.is_ordered = field.dict_is_ordered().unwrap_or(false);
        plan.has_narrow_keys =
            matches!(field.data_type(), DataType::Dictionary(keys, _) if addressable_values(keys) > 0);
        let (encoded, encoder) = match (field.data_type(), plan.dictionary) {
            (DataType::Dictionary(keys, values), DictionaryEncoding::On | DictionaryEncoding::Auto)
                if may_be_coded(values) =>
            {
                (
                    DataType::Dictionary(keys.clone(), Box::new(encoded_type(values))),
                    ParquetChunkEncoderKind::Coded,
                )
            }
            (other, DictionaryEncoding::On) if may_be_coded(other) => {
                (encoded_type(other), ParquetChunkEncoderKind::Coded)
            }
            (other, _) => {
                let encoded = encoded_type(other);
                let kind = ParquetChunkEncoderKind::of_values(&encoded, &plan);
                (encoded, kind)
            }
        };

        let encoded = Arc::new(Field::clone(field).with_data_type(encoded));
        let physical = Arc::new(Field::clone(&encoded).with_data_type(as_bytes_type(encoded.data_type())));
        let schema = Schema::new(vec![encoded.clone()]);
        let leaves = ArrowSchemaConverter::new().convert(&schema).map_err(|error| error.to_string())?;
        let properties = Arc::new(options.properties(field.name(), &leaves)?);

        Ok(Self { field: field.clone(), encoded, physical, encoder, plan, properties })
    }

    /// Returns the field for the file's Arrow schema. `values` is the number of values in the dictionaries of all row
    /// groups, if known: readers that merge dictionaries fail if the keys are too narrow.
    pub(super) fn stored(&self, values: Option<usize>) -> Field {
        let delta = self.encoder != ParquetChunkEncoderKind::Coded
            && (self.plan.version_2 || self.plan.encoding.is_some());
        let stored = stored_type(self.field.data_type(), delta);
        let stored = match (self.field.data_type(), stored) {
            (DataType::Dictionary(keys, _), DataType::Dictionary(_, of)) => {
                let is_narrow = values.is_some_and(|values| values <= addressable_values(keys));
                let keys = if is_narrow { keys.as_ref().clone() } else { DataType::Int32 };
                DataType::Dictionary(Box::new(keys), of)
            }
            (_, stored) => stored,
        };

        Field::clone(&self.field).with_data_type(stored)
    }

    /// Returns the field as it is encoded.
    pub(super) fn encoded(&self) -> &FieldRef {
        &self.encoded
    }

    /// Begins a chunk, after one with the `codebook`.
    pub(super) fn begin(&self, codebook: Option<Codebook>) -> Result<ParquetColumnEncoder, String> {
        let descriptor = || {
            let schema = Schema::new(vec![self.encoded.clone()]);
            let converted = ArrowSchemaConverter::new()
                .convert(&schema)
                .and_then(|converted| with_geo_types(converted, std::iter::once(&self.encoded)));
            converted.map(|converted| converted.column(0)).map_err(|error| error.to_string())
        };

        let plan = self.plan.clone();
        let encoder = match self.encoder {
            ParquetChunkEncoderKind::Coded => ParquetChunkEncoder::Coded(Box::new(
                DictionaryChunkEncoder::new(descriptor()?, plan, codebook)?,
            )),
            ParquetChunkEncoderKind::Tried => ParquetChunkEncoder::Tried(Box::new(FallbackEncoder::new(
                descriptor()?,
                plan,
                bytes(DICTIONARY_SIZE),
            )?)),
            ParquetChunkEncoderKind::Strings => {
                ParquetChunkEncoder::Strings(Box::new(PlainStringEncoder::new(descriptor()?, plan)?))
            }
            ParquetChunkEncoderKind::General => {
                let general = GenericColumnEncoder::new(&self.encoded, &self.physical, &self.properties);
                ParquetChunkEncoder::General(Box::new(general.map_err(|error| error.to_string())?))
            }
        };

        Ok(ParquetColumnEncoder { kind: self.clone(), encoder })
    }
}

impl ParquetChunkEncoderKind {
    /// Returns the encoder of values that need not have a dictionary.
    fn of_values(encoded: &DataType, plan: &ParquetEncoderOptions) -> Self {
        let is_plain = plan.encoding.is_none_or(|encoding| encoding == Encoding::Plain);
        match plan.dictionary {
            // Bloom filters of values without codes are left to the parquet crate.
            _ if !is_text(encoded) || !is_plain || plan.bloom_filter.is_some() => Self::General,
            DictionaryEncoding::Off => Self::Strings,
            DictionaryEncoding::On | DictionaryEncoding::Auto => Self::Tried,
        }
    }
}

/// Checks that the format can store the type.
fn check_type(data_type: &DataType) -> Result<(), String> {
    match data_type {
        DataType::Union(..) => {
            Err("Parquet has no unions: make it a struct with a field for each type, or a text".to_owned())
        }
        DataType::FixedSizeBinary(..=0) => {
            Err("Parquet has no values of a fixed length of 0 bytes: make them binary".to_owned())
        }
        DataType::Dictionary(_, values) => check_type(values),
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _)
        | DataType::RunEndEncoded(_, field) => check_type(field.data_type()),
        DataType::Struct(fields) => fields.iter().try_for_each(|field| check_type(field.data_type())),
        _ => Ok(()),
    }
}

/// Returns whether a column with such values can have a dictionary.
fn may_be_coded(values: &DataType) -> bool {
    let without =
        matches!(values, DataType::Boolean | DataType::Null | DataType::Float16 | DataType::Interval(_));
    !without && !values.is_nested()
}

/// Returns the type that is encoded: without units that the format lacks, which other readers would take for plain
/// numbers; without dictionaries in nested types, which the parquet crate does not fully support; and with the names of
/// nested fields that the format requires.
fn encoded_type(data_type: &DataType) -> DataType {
    replaced(data_type, &|_, values| encoded_type(values), true)
}

/// Returns the number of values that keys of 8 or 16 bits can address; 0 for wider keys.
fn addressable_values(keys: &DataType) -> usize {
    match keys {
        DataType::Int8 => i8::MAX as usize,
        DataType::UInt8 => u8::MAX.into(),
        DataType::Int16 => i16::MAX as usize,
        DataType::UInt16 => MAX_NARROW,
        _ => 0,
    }
}

/// Returns the type of a column in the file's Arrow schema. Readers restore only dictionaries of strings and
/// bytes, not of views, and nested ones only with keys of 32 bits: Polars with unsigned keys, as its categories
/// have, and panics on signed ones. Some readers restore no dictionaries from delta-encoded values, so `delta`
/// leaves them out.
fn stored_type(data_type: &DataType, delta: bool) -> DataType {
    let dictionary = |keys: &DataType, values: &DataType| {
        if delta || !is_text(values) {
            return stored_type(values, delta);
        }

        let keys = if keys.is_unsigned_integer() { DataType::UInt32 } else { DataType::Int32 };
        DataType::Dictionary(Box::new(keys), Box::new(without_views(values)))
    };
    replaced(data_type, &dictionary, false)
}

/// Returns the type of strings or bytes without views.
fn without_views(values: &DataType) -> DataType {
    match values {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        other => other.clone(),
    }
}

/// Replaces each dictionary of a type, given its keys and values.
fn replaced(
    data_type: &DataType,
    dictionary: &impl Fn(&DataType, &DataType) -> DataType,
    is_encoded: bool,
) -> DataType {
    let of = |field: &FieldRef, name: &str| {
        let replaced = replaced(field.data_type(), dictionary, is_encoded);
        let name = if is_encoded && !name.is_empty() { name } else { field.name() };
        Arc::new(Field::clone(field).with_data_type(replaced).with_name(name))
    };
    match data_type {
        DataType::Dictionary(keys, values) => dictionary(keys, values),
        DataType::List(field) => DataType::List(of(field, "element")),
        DataType::LargeList(field) => DataType::LargeList(of(field, "element")),
        DataType::ListView(field) => DataType::ListView(of(field, "element")),
        DataType::LargeListView(field) => DataType::LargeListView(of(field, "element")),
        DataType::FixedSizeList(field, size) => DataType::FixedSizeList(of(field, "element"), *size),
        DataType::Map(entries, sorted) => {
            let fields = match entries.data_type() {
                DataType::Struct(fields) => {
                    let names = ["key", "value"].into_iter();
                    fields.iter().zip(names).map(|(field, name)| of(field, name)).collect()
                }
                _ => Fields::empty(),
            };

            let name = if is_encoded { "key_value" } else { entries.name() };
            let entries = Field::clone(entries).with_data_type(DataType::Struct(fields)).with_name(name);
            DataType::Map(Arc::new(entries), *sorted)
        }
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(|field| of(field, "")).collect()),
        DataType::Timestamp(TimeUnit::Second, zone) => {
            DataType::Timestamp(TimeUnit::Millisecond, zone.clone())
        }
        DataType::Time32(TimeUnit::Second) => DataType::Time32(TimeUnit::Millisecond),
        // Polars reads the file's days as milliseconds if the Arrow schema has this type.
        DataType::Date64 => DataType::Date32,
        other => other.clone(),
    }
}

/// Casts values to the encoded type; one that does not fit is an error, never null.
fn as_encoded(array: &ArrayRef, encoded: &DataType) -> Result<ArrayRef, String> {
    if array.data_type() == encoded { Ok(array.clone()) } else { written_cast(array, encoded) }
}

/// Casts like [`as_encoded`], so that arrays which share a dictionary still share it: `last` is the last dictionary,
/// before and after the cast.
fn with_values_as_encoded(
    array: &ArrayRef,
    encoded: &DataType,
    last: &mut Option<(ArrayRef, ArrayRef)>,
) -> Result<ArrayRef, String> {
    let Some(any) = array.as_any_dictionary_opt() else { return as_encoded(array, encoded) };
    let of = value_type(encoded);
    if any.values().data_type() == of {
        return Ok(array.clone());
    }

    let values = match last {
        Some((before, values)) if is_same(before, any.values()) => values.clone(),
        _ => as_encoded(any.values(), of)?,
    };
    *last = Some((any.values().clone(), values.clone()));
    Ok(any.with_values(values))
}

impl ParquetColumnEncoder {
    pub(super) fn name(&self) -> &str {
        self.kind.field.name()
    }

    /// Encodes more rows.
    pub(super) fn write(&mut self, arrays: &[ArrayRef]) -> Result<(), String> {
        let encoded = self.kind.encoded.data_type();
        match &mut self.encoder {
            ParquetChunkEncoder::Coded(coded) => {
                let mut last = None;
                let arrays = arrays.iter().map(|array| with_values_as_encoded(array, encoded, &mut last));
                coded.write(&arrays.collect::<Result<Vec<_>, _>>()?)
            }
            ParquetChunkEncoder::Tried(tried) => {
                let mut last = None;
                let arrays = arrays.iter().map(|array| with_values_as_encoded(array, encoded, &mut last));
                tried.write(&arrays.collect::<Result<Vec<_>, _>>()?)
            }
            ParquetChunkEncoder::Strings(strings) => {
                arrays.iter().try_for_each(|array| strings.write(&as_encoded(array, encoded)?))
            }
            ParquetChunkEncoder::General(general) => arrays.iter().try_for_each(|array| {
                let encoded = as_bytes(&as_encoded(array, encoded)?)?;
                general.write(&encoded).map_err(|error| error.to_string())
            }),
        }
    }

    /// Returns the memory in use, in bytes.
    pub(super) fn memory(&self) -> usize {
        match &self.encoder {
            ParquetChunkEncoder::Coded(coded) => coded.memory(),
            ParquetChunkEncoder::Tried(tried) => tried.memory(),
            ParquetChunkEncoder::Strings(strings) => strings.memory(),
            ParquetChunkEncoder::General(general) => general.memory(),
        }
    }

    /// Returns an estimate of its chunks' bytes.
    pub(super) fn encoded(&self) -> usize {
        match &self.encoder {
            ParquetChunkEncoder::Coded(coded) => coded.encoded(),
            ParquetChunkEncoder::Tried(tried) => tried.encoded(),
            ParquetChunkEncoder::Strings(strings) => strings.encoded(),
            ParquetChunkEncoder::General(general) => general.encoded(),
        }
    }

    /// Returns whether no more rows should be added, since the dictionary would exceed the limits of readers.
    pub(super) fn is_full(&self) -> bool {
        match &self.encoder {
            ParquetChunkEncoder::Coded(coded) => coded.is_full(),
            ParquetChunkEncoder::Tried(tried) => tried.is_full(),
            ParquetChunkEncoder::Strings(_) | ParquetChunkEncoder::General(_) => false,
        }
    }

    /// Returns the chunks of its leaves, and the codebook for the next row group.
    pub(super) fn finish(self) -> Result<(Vec<EncodedChunk>, Option<Codebook>), String> {
        match self.encoder {
            ParquetChunkEncoder::Coded(coded) => {
                coded.finish().map(|(chunk, codebook)| (vec![chunk], codebook))
            }
            ParquetChunkEncoder::Tried(tried) => tried.finish().map(|chunk| (vec![chunk], None)),
            ParquetChunkEncoder::Strings(strings) => strings.finish().map(|chunk| (vec![chunk], None)),
            ParquetChunkEncoder::General(general) => {
                general.finish().map(|chunks| (chunks, None)).map_err(|error| error.to_string())
            }
        }
    }
}
