//! Rows of vertices and edges, written directly into columns.

use std::{fmt::Write, ops::Range, sync::Arc};

use arrow::{
    array::{ArrayRef, DictionaryArray, Int64Array, RecordBatch, StringArray, StringBuilder, UInt8Array},
    datatypes::{DataType, Field, Schema, SchemaRef, UInt8Type},
    error::ArrowError,
};

use super::{
    draw::{ColumnRandom, RandomColumn},
    names::{FIRST, LAST},
    network::{SnbEdgeType, SnbVertexType},
};

/// Length of an id in bytes.
const ID: usize = 32;
/// Approximate length of a content in bytes.
const CONTENT: usize = 20;
/// Ages of persons: the minimum, and the number of possible ages.
pub(crate) const AGES: (i64, u64) = (18, 60);

/// Returns the columns of vertices.
pub(super) fn vertex_schema(vertex: SnbVertexType) -> SchemaRef {
    match vertex {
        SnbVertexType::Person => schema(&[
            ("id", TEXT),
            ("firstName", TEXT),
            ("lastName", TEXT),
            ("age", NUMBER),
            ("creationDate", NUMBER),
        ]),
        SnbVertexType::Post | SnbVertexType::Comment => {
            schema(&[("id", TEXT), ("content", TEXT), ("creationDate", NUMBER), ("length", NUMBER)])
        }
    }
}

/// Returns the columns of edges.
pub(super) fn edge_schema(types: &[SnbEdgeType]) -> SchemaRef {
    let ends = [("src", TEXT), ("dst", TEXT)];
    let date = types.first().and_then(|edges| edges.date());
    schema(&ends.into_iter().chain(date.map(|name| (name, NUMBER))).collect::<Vec<_>>())
}

const TEXT: DataType = DataType::Utf8View;
const NUMBER: DataType = DataType::Int64;

fn schema(columns: &[(&str, DataType)]) -> SchemaRef {
    let field = |(name, data_type): &(&str, DataType)| Field::new(*name, data_type.clone(), false);
    Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
}

/// Generates the vertices with these indices.
pub(super) fn vertices(
    vertex: SnbVertexType,
    seed: u64,
    rows: Range<u64>,
) -> Result<RecordBatch, ArrowError> {
    let mut ids = SnbIdBuilder::with_capacity(&rows);
    rows.clone().for_each(|index| ids.push(vertex, index));
    let created: ArrayRef =
        Arc::new(Int64Array::from_iter_values(rows.clone().map(|index| vertex.created(index))));
    let what = match vertex {
        SnbVertexType::Person => {
            let named = |drawn, names| named(ColumnRandom::new(seed, drawn), rows.clone(), names);
            let ages = ColumnRandom::new(seed, RandomColumn::Age);
            let ages = rows.clone().map(|index| AGES.0 + ages.below(index, AGES.1) as i64);
            let columns = [
                ids.finish(),
                named(RandomColumn::FirstName, &FIRST)?,
                named(RandomColumn::LastName, &LAST)?,
                Arc::new(Int64Array::from_iter_values(ages)),
                created,
            ];

            columns.to_vec()
        }
        SnbVertexType::Post => {
            let (contents, lengths) = contents("Post body #", rows);
            vec![ids.finish(), contents, created, lengths]
        }
        SnbVertexType::Comment => {
            let (contents, lengths) = contents("Comment #", rows);
            vec![ids.finish(), contents, created, lengths]
        }
    };

    batch(what, &vertex_schema(vertex))
}

/// Generates the edges with these numbers; those of the first type come first.
pub(super) fn edges(
    types: &[SnbEdgeType],
    scale: crate::Scale,
    seed: u64,
    rows: Range<u64>,
) -> Result<RecordBatch, ArrowError> {
    let mut sources = SnbIdBuilder::with_capacity(&rows);
    let mut destinations = SnbIdBuilder::with_capacity(&rows);
    let mut dates = Vec::with_capacity((rows.end - rows.start) as usize);
    let mut before = 0;
    for edges in types {
        let count = edges.count(scale);
        let drawn = edges.edges(scale, seed);
        for edge in rows.start.max(before)..rows.end.min(before + count) {
            let edge = edge - before;
            let (source, destination) = drawn.ends(edge);
            sources.push(edges.source(), source);
            destinations.push(edges.destination(), destination);
            if edges.date().is_some() {
                dates.push(drawn.date(edge));
            }
        }
        before += count;
    }

    let mut columns = vec![sources.finish(), destinations.finish()];
    if types.first().is_some_and(|edges| edges.date().is_some()) {
        columns.push(Arc::new(Int64Array::from(dates)));
    }
    batch(columns, &edge_schema(types))
}

/// Creates a batch whose strings are plain or dictionaries.
fn batch(columns: Vec<ArrayRef>, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let fields = schema.fields().iter().zip(&columns);
    let fields = fields.map(|(field, column)| Field::clone(field).with_data_type(column.data_type().clone()));
    RecordBatch::try_new(Arc::new(Schema::new(fields.collect::<Vec<_>>())), columns)
}

/// Builds ids as text.
struct SnbIdBuilder {
    texts: StringBuilder,
    scratch: String,
}

impl SnbIdBuilder {
    fn with_capacity(rows: &Range<u64>) -> Self {
        let rows = (rows.end - rows.start) as usize;
        Self { texts: StringBuilder::with_capacity(rows, rows * ID), scratch: String::with_capacity(ID) }
    }

    fn push(&mut self, vertex: SnbVertexType, index: u64) {
        self.scratch.clear();
        // Writing to a string cannot fail.
        let _ = write!(self.scratch, "{:02x}{index:030x}", vertex.prefix());
        self.texts.append_value(&self.scratch);
    }

    fn finish(mut self) -> ArrayRef {
        Arc::new(self.texts.finish())
    }
}

fn named(draws: ColumnRandom, rows: Range<u64>, names: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let count = names.len() as u64;
    let codes = UInt8Array::from_iter_values(rows.map(|index| draws.below(index, count) as u8));
    Ok(Arc::new(DictionaryArray::<UInt8Type>::try_new(codes, names.clone())?))
}

/// Returns strings that end with their number, and the lengths of the strings.
fn contents(beginning: &str, rows: Range<u64>) -> (ArrayRef, ArrayRef) {
    let count = (rows.end - rows.start) as usize;
    let mut texts = StringBuilder::with_capacity(count, count * CONTENT);
    for index in rows {
        // Writing to a builder cannot fail.
        let _ = write!(texts, "{beginning}{index}");
        texts.append_value("");
    }
    let texts: StringArray = texts.finish();
    let lengths = Int64Array::from_iter_values(texts.offsets().lengths().map(|length| length as i64));
    (Arc::new(texts), Arc::new(lengths))
}
