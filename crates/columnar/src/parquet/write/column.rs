//! One top-level column on its way into a row group: its codes where it arrives as dictionaries, else its values.

use std::sync::Arc;

use arrow::{
    array::ArrayRef,
    compute::cast,
    datatypes::{DataType, Field, FieldRef, Schema},
};
use parquet::{arrow::ArrowSchemaConverter, file::properties::WriterPropertiesPtr};

use super::{
    chunk::EncodedChunk,
    coded::Coded,
    general::General,
    options::{ColumnPlan, DictionaryEncoding},
};

/// How a column is encoded in every row group.
#[derive(Clone)]
pub(super) struct ColumnKind {
    field: FieldRef,
    /// The same with the type that is encoded.
    encoded: FieldRef,
    plan: ColumnPlan,
    properties: WriterPropertiesPtr,
}

/// Encodes the chunks of one column in one row group.
pub(super) struct Column {
    kind: ColumnKind,
    encoder: Encoder,
}

enum Encoder {
    Coded(Box<Coded>),
    General(Box<General>),
}

impl ColumnKind {
    pub(super) fn new(field: &FieldRef, plan: ColumnPlan, properties: WriterPropertiesPtr) -> Self {
        let encoded = match field.data_type() {
            DataType::Dictionary(_, values) => match is_coded(values, &plan) {
                true => field.data_type().clone(),
                false => without_views(values),
            },
            other => without_views(other),
        };
        let encoded = Arc::new(Field::clone(field).with_data_type(encoded));
        Self { field: field.clone(), encoded, plan, properties }
    }

    /// The field as it is encoded.
    pub(super) fn encoded(&self) -> &FieldRef {
        &self.encoded
    }

    pub(super) fn begin(&self) -> Result<Column, String> {
        let encoder = match self.encoded.data_type() {
            DataType::Dictionary(..) => {
                let schema = Schema::new(vec![self.encoded.clone()]);
                let converted = ArrowSchemaConverter::new().convert(&schema);
                let descriptor = converted.map_err(|error| error.to_string())?.column(0);
                Encoder::Coded(Box::new(Coded::new(descriptor, self.plan.clone())?))
            }
            _ => {
                let general = General::new(&self.encoded, &self.properties);
                Encoder::General(Box::new(general.map_err(|error| error.to_string())?))
            }
        };
        Ok(Column { kind: self.clone(), encoder })
    }
}

/// Whether the dictionary of a column with such values becomes the file's.
fn is_coded(values: &DataType, plan: &ColumnPlan) -> bool {
    let without = matches!(values, DataType::Boolean | DataType::Null | DataType::Float16);
    plan.dictionary == DictionaryEncoding::Auto && !without && !values.is_nested()
}

/// Dictionaries within nested types as their values: the parquet crate takes not all of them.
fn without_views(data_type: &DataType) -> DataType {
    replaced(data_type, &|values| values.clone())
}

/// The type that the file's Arrow schema gives a column. Readers restore dictionaries of strings and bytes only, and
/// with keys of less than 32 bits they fail where row groups have other dictionaries.
pub(super) fn stored(data_type: &DataType) -> DataType {
    replaced(data_type, &|values| match values {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary => {
            DataType::Dictionary(Box::new(DataType::Int32), Box::new(values.clone()))
        }
        other => other.clone(),
    })
}

/// A type with something else in the place of each dictionary of some type of values.
fn replaced(data_type: &DataType, dictionary: &impl Fn(&DataType) -> DataType) -> DataType {
    let of = |field: &FieldRef| {
        Arc::new(Field::clone(field).with_data_type(replaced(field.data_type(), dictionary)))
    };
    match data_type {
        DataType::Dictionary(_, values) => dictionary(values),
        DataType::List(field) => DataType::List(of(field)),
        DataType::LargeList(field) => DataType::LargeList(of(field)),
        DataType::FixedSizeList(field, size) => DataType::FixedSizeList(of(field), *size),
        DataType::Map(field, sorted) => DataType::Map(of(field), *sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(of).collect()),
        other => other.clone(),
    }
}

impl Column {
    pub(super) fn name(&self) -> &str {
        self.kind.field.name()
    }

    /// Encodes more rows.
    pub(super) fn write(&mut self, array: &ArrayRef) -> Result<(), String> {
        match &mut self.encoder {
            Encoder::Coded(coded) => coded.write(array),
            Encoder::General(general) => {
                let target = self.kind.encoded.data_type();
                let cast = match array.data_type() == target {
                    true => array.clone(),
                    false => cast(array, target).map_err(|error| error.to_string())?,
                };
                general.write(&cast).map_err(|error| error.to_string())
            }
        }
    }

    /// Bytes in memory.
    pub(super) fn memory(&self) -> usize {
        match &self.encoder {
            Encoder::Coded(coded) => coded.memory(),
            Encoder::General(general) => general.memory(),
        }
    }

    /// Bytes that its chunks will have, about.
    pub(super) fn encoded(&self) -> usize {
        match &self.encoder {
            Encoder::Coded(coded) => coded.encoded(),
            Encoder::General(general) => general.encoded(),
        }
    }

    /// The chunks of its leaves.
    pub(super) fn finish(self) -> Result<Vec<EncodedChunk>, String> {
        match self.encoder {
            Encoder::Coded(coded) => Ok(vec![coded.finish()?]),
            Encoder::General(general) => general.finish().map_err(|error| error.to_string()),
        }
    }
}
