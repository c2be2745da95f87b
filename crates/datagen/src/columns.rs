//! Converts the columns of generated batches: repeated strings become dictionaries.
//!
//! If the file format stores dictionaries, numbers with few possible values become dictionaries too: their code is
//! their position in the range, so neither this module nor the writer needs a lookup.

mod number_range;
mod repeated;
mod vocabulary;

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch, make_array, new_null_array},
    compute::cast,
    datatypes::{DataType, Field, Schema, SchemaRef},
};

use self::{
    number_range::NumberRange,
    repeated::{DictionaryKeyWidth, repeated},
    vocabulary::{Vocabulary, VocabularyCoder},
};
use crate::{Error, Result, Scale, Table};

/// Output representation of columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnRepresentation {
    /// Other strings are views; numbers are unchanged.
    Stream,
    /// Other strings are plain; numbers with few possible values are dictionaries.
    Parquet,
}

/// Columns of a table, shared with their dictionaries by all threads that generate its rows.
#[derive(Debug)]
pub(crate) struct TableColumns {
    table: Table,
    schema: SchemaRef,
    conversions: Vec<ColumnConversion>,
}

/// Conversion of a column.
#[derive(Debug)]
enum ColumnConversion {
    /// Cast to this type if it differs.
    Kept(DataType),
    /// Encoded as a dictionary of the strings that occur.
    Text(Arc<Vocabulary>),
    /// Encoded as a dictionary of all numbers of a range.
    Number(NumberRange),
    /// Replaced by nulls: the values would differ in each run.
    Null,
}

impl Table {
    /// Returns the table's columns. Strings are views (`Utf8View`); repeated ones are dictionaries with keys of one,
    /// two or four bytes, depending on the scale.
    pub fn schema(self, scale: Scale) -> SchemaRef {
        TableColumns::new(self, scale, ColumnRepresentation::Stream).schema().clone()
    }
}

impl TableColumns {
    pub(crate) fn new(table: Table, scale: Scale, representation: ColumnRepresentation) -> Arc<Self> {
        let generated = table.generated();
        let conversions: Vec<_> = generated
            .fields()
            .iter()
            .map(|field| ColumnConversion::of(table, field, scale, representation))
            .collect();

        let fields = generated.fields().iter().zip(&conversions).map(|(field, conversion)| {
            let data_type = conversion.data_type(field.data_type());
            Field::new(field.name(), data_type, field.is_nullable())
        });
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        Arc::new(Self { table, schema, conversions })
    }

    /// Returns the output schema.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Creates a converter for one thread that generates rows.
    pub(crate) fn converter(self: &Arc<Self>) -> BatchConverter {
        let coder = |conversion: &ColumnConversion| match conversion {
            ColumnConversion::Text(vocabulary) => Some(VocabularyCoder::new(vocabulary.clone())),
            _ => None,
        };
        BatchConverter { columns: self.clone(), coders: self.conversions.iter().map(coder).collect() }
    }
}

impl ColumnConversion {
    fn of(table: Table, field: &Field, scale: Scale, representation: ColumnRepresentation) -> Self {
        // Time and arguments of the generator's run, in `dbgen_version` of TPC-DS.
        if matches!(field.name().as_str(), "dv_create_date" | "dv_create_time" | "dv_cmdline_args") {
            return Self::Null;
        }
        let data_type = field.data_type();
        if data_type == &DataType::Utf8View
            && let Some(keys) = repeated(table.benchmark(), field.name(), scale)
        {
            return Self::Text(Arc::new(Vocabulary::new(keys)));
        }

        match representation {
            ColumnRepresentation::Stream => Self::Kept(data_type.clone()),
            ColumnRepresentation::Parquet if data_type == &DataType::Utf8View => Self::Kept(DataType::Utf8),
            ColumnRepresentation::Parquet => {
                match NumberRange::of(table.benchmark(), field.name(), data_type) {
                    Some(range) => Self::Number(range),
                    None => Self::Kept(data_type.clone()),
                }
            }
        }
    }

    fn data_type(&self, generated: &DataType) -> DataType {
        let dictionary = |keys: DictionaryKeyWidth, values| {
            DataType::Dictionary(Box::new(keys.data_type()), Box::new(values))
        };
        match self {
            Self::Kept(data_type) => data_type.clone(),
            Self::Null => generated.clone(),
            Self::Text(vocabulary) => dictionary(vocabulary.keys(), DataType::Utf8),
            Self::Number(range) => dictionary(range.keys(), generated.clone()),
        }
    }
}

/// Converts batches to the output representation.
#[derive(Debug)]
pub(crate) struct BatchConverter {
    columns: Arc<TableColumns>,
    coders: Vec<Option<VocabularyCoder>>,
}

impl BatchConverter {
    pub(crate) fn convert(&mut self, batch: &RecordBatch) -> Result<RecordBatch> {
        let columns = &self.columns;
        let wrong = |field: &Field, reason: String| Error::Generator {
            table: columns.table.name(),
            reason: format!("column {}: {reason}", field.name()),
        };
        let mut converted: Vec<ArrayRef> = Vec::with_capacity(columns.conversions.len());
        let converting = batch.columns().iter().zip(&columns.conversions).zip(&mut self.coders);

        for (((array, conversion), coder), field) in converting.zip(columns.schema.fields()) {
            let array = without_needless_nulls(array);
            converted.push(match (conversion, coder) {
                (ColumnConversion::Text(_), Some(coder)) => {
                    let coded = match (array.as_string_view_opt(), array.as_dictionary_opt()) {
                        (Some(text), _) => coder.encode(text),
                        (_, Some(dictionary)) => coder.recode(dictionary),
                        _ => Err(format!("{} where strings were promised", array.data_type())),
                    };
                    coded.map_err(|reason| wrong(field, reason))?
                }
                (ColumnConversion::Number(range), _) => {
                    range.encode(&array).map_err(|reason| wrong(field, reason))?
                }
                (ColumnConversion::Null, _) => new_null_array(field.data_type(), array.len()),
                (ColumnConversion::Kept(data_type), _) if array.data_type() != data_type => {
                    cast(&array, data_type).map_err(|error| wrong(field, error.to_string()))?
                }
                _ => array,
            });
        }

        RecordBatch::try_new(columns.schema.clone(), converted)
            .map_err(Error::arrow(format!("table {}", columns.table.name())))
    }
}

/// Drops the validity buffer of an array without nulls; generators add one.
fn without_needless_nulls(array: &ArrayRef) -> ArrayRef {
    match array.nulls() {
        Some(nulls) if nulls.null_count() == 0 => match array.to_data().into_builder().nulls(None).build() {
            Ok(data) => make_array(data),
            Err(_) => array.clone(),
        },
        _ => array.clone(),
    }
}
