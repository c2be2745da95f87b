//! Resolves the end columns of edges to vertex indexes.

use std::sync::Arc;

use arrow::{
    array::{Array, AsArray, RecordBatch},
    datatypes::{DataType, Int64Type},
    util::display::{ArrayFormatter, FormatOptions},
};

use super::VertexKeyIndex;
use crate::{
    Error, Result,
    graphar::write::{
        columns::{InputColumnCast, InputColumns, first_null},
        names::unwritable,
    },
};

/// Vertices of a type, as edges refer to them.
#[derive(Clone, Debug)]
pub(crate) struct EndpointVertices {
    pub(crate) vertex_type: String,
    pub(crate) count: u64,
    /// `None` if vertices have no keys.
    pub(crate) keys: Option<Arc<VertexKeyIndex>>,
}

/// Resolver of both end columns.
#[derive(Debug)]
pub(crate) struct EndpointResolver {
    source: EndpointColumn,
    destination: EndpointColumn,
}

/// One end column, and the vertices that it refers to.
#[derive(Debug)]
struct EndpointColumn {
    column: InputColumnCast,
    vertices: EndpointVertices,
    /// True if the column has vertex indexes, not keys.
    by_index: bool,
}

/// First row of a batch that refers to no vertex.
struct UnknownEndpoint {
    row: usize,
    error: Error,
}

impl EndpointResolver {
    /// Checks that both end columns have keys of their vertices, or integers if `by_index`.
    pub(crate) fn new(
        input: &InputColumns,
        (source, destination): (&str, &str),
        (from, to): (EndpointVertices, EndpointVertices),
        by_index: bool,
    ) -> Result<Self> {
        let source = EndpointColumn::new(input, source, from, by_index)?;
        let destination = EndpointColumn::new(input, destination, to, by_index)?;
        Ok(Self { source, destination })
    }

    /// Returns the indexes of both ends of all edges of a batch. `first_row` is the number of its first row, for
    /// errors. If both columns have unknown ends, the error is that of the earlier row.
    pub(crate) fn find(
        &self,
        input: &InputColumns,
        batch: &RecordBatch,
        first_row: u64,
    ) -> Result<(Vec<u64>, Vec<u64>)> {
        let source = self.source.find(input, batch, first_row)?;
        let destination = self.destination.find(input, batch, first_row)?;
        match (source, destination) {
            (Ok(source), Ok(destination)) => Ok((source, destination)),
            (Err(source), Err(destination)) if destination.row < source.row => Err(destination.error),
            (Err(unknown), _) | (Ok(_), Err(unknown)) => Err(unknown.error),
        }
    }
}

impl EndpointColumn {
    fn new(input: &InputColumns, column: &str, vertices: EndpointVertices, by_index: bool) -> Result<Self> {
        let from = input.field(column)?.1.data_type();
        let wrong = |reason: String| unwritable(input.of(), format!("column {column}: {reason}"));
        let to = match &vertices.keys {
            _ if by_index && is_integer(from) => DataType::Int64,
            _ if by_index => return Err(wrong(format!("indexes are whole numbers, not {from}"))),
            Some(keys) if keys.can_be(from) => keys.arrow(),
            Some(keys) => {
                let to = keys.arrow();
                let of = &vertices.vertex_type;
                return Err(wrong(format!("the keys of {of} are of {to}, and these are {from}")));
            }
            None => {
                let reason = format!("{} has no keys: give edges by index", vertices.vertex_type);
                return Err(wrong(reason));
            }
        };

        Ok(Self { column: input.nullable_column(column, to)?, vertices, by_index })
    }

    /// Returns the vertex index of each row, or the first row that refers to no vertex.
    fn find(
        &self,
        input: &InputColumns,
        batch: &RecordBatch,
        first_row: u64,
    ) -> Result<Result<Vec<u64>, UnknownEndpoint>> {
        let values = input.values(&self.column, batch, first_row)?;
        let found = match &self.vertices.keys {
            Some(keys) if !self.by_index => keys.find(&values),
            _ => indexes(values.as_ref(), self.vertices.count),
        };
        let unknown = |row| UnknownEndpoint { row, error: self.unknown(input, &values, row, first_row) };
        Ok(found.map_err(unknown))
    }

    /// Returns the error of a row that refers to no vertex.
    fn unknown(&self, input: &InputColumns, values: &dyn Array, row: usize, first_row: u64) -> Error {
        let of = input.of();
        let column = self.column.name();
        let number = first_row + row as u64;
        if values.is_null(row) {
            return unwritable(of, format!("column {column}: a null in row {number}"));
        }

        let vertex_type = &self.vertices.vertex_type;
        match values.as_primitive_opt::<Int64Type>() {
            Some(indexes) if self.by_index => Error::OutOfRange {
                of: format!("{of}: column {column}, row {number}, an index of {vertex_type}"),
                index: indexes.value(row),
                count: self.vertices.count,
            },
            _ => {
                let shown = ArrayFormatter::try_new(values, &FormatOptions::default());
                let shown = shown.map_or_else(|_| String::new(), |shown| shown.value(row).to_string());
                unwritable(
                    of,
                    format!("column {column}: no {vertex_type} has the key {shown} of row {number}"),
                )
            }
        }
    }
}

fn is_integer(from: &DataType) -> bool {
    match from {
        DataType::Dictionary(_, values) => is_integer(values),
        from => from.is_integer(),
    }
}

/// Returns the values, or the first row whose value is null or not an index below `count`.
fn indexes(values: &dyn Array, count: u64) -> std::result::Result<Vec<u64>, usize> {
    let null = first_null(values).unwrap_or(values.len());
    let numbers = values.as_primitive::<Int64Type>().values();
    let index = |(row, value): (usize, &i64)| {
        u64::try_from(*value).ok().filter(|index| *index < count && row < null).ok_or(row)
    };
    numbers.iter().enumerate().map(index).collect()
}
