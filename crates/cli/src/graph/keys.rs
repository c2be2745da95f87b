//! Lookup of vertices by the value of a property.

use std::{collections::HashMap, sync::Arc};

use anyhow::Result;
use arrow::{
    array::{Array, ArrayRef, AsArray, StringArray, UInt32Array},
    compute::{CastOptions, cast, cast_with_options, take},
    datatypes::{DataType, Float64Type, Int64Type},
    row::{RowConverter, SortField},
};
use futures::StreamExt;
use stylobate_columnar::{Literal, col};
use stylobate_graph::graphar::{Graph, Vertices};

use crate::failure::usage;

/// Maximum missing values listed in an error.
const MAX_LISTED_KEYS: usize = 5;

/// The vertices found for the requested keys or indexes.
#[derive(Debug)]
pub(super) struct FoundVertices {
    pub(super) indexes: Vec<i64>,
    /// The key or index by which each vertex was requested.
    pub(super) asked: ArrayRef,
}

/// Finds the vertices of a type whose property has one of these values, in the order of the values. For a property
/// that is not a key, a value may match several vertices.
pub(super) async fn find(
    graph: &Graph,
    vertex_type: &str,
    property: &str,
    texts: &[String],
) -> Result<FoundVertices> {
    let vertices = graph.vertices(vertex_type)?.select([property])?;
    let info = graph.info().vertex(vertex_type);
    let is_key = info.and_then(|info| info.property(property)).is_some_and(|(_, _, found)| found.is_primary);
    let data_type = vertices.schema().field(1).data_type().clone();
    let wanted = typed(property, &data_type, texts)?;
    let literals = texts.iter().enumerate().map(|(row, text)| literal(&wanted, row, text));
    let view = vertices.filter(&col(property).is_in(literals.collect::<Result<Vec<_>>>()?))?;
    let by_value = look_up(&view, &wanted, is_key).await?;
    let missing: Vec<&str> = by_value
        .iter()
        .zip(texts)
        .filter(|(found, _)| found.is_empty())
        .map(|(_, text)| text.as_str())
        .collect();

    if !missing.is_empty() {
        let more = missing.len().saturating_sub(MAX_LISTED_KEYS);
        let more = if more > 0 { format!(" nor {more} more") } else { String::new() };
        let named = missing.iter().take(MAX_LISTED_KEYS).copied().collect::<Vec<_>>().join(", nor ");
        return Err(usage(format!("no vertex of type {vertex_type} has the {property} {named}{more}")));
    }

    let rows = by_value.iter().enumerate().flat_map(|(at, found)| found.iter().map(move |_| at as u32));
    let asked = take(&wanted, &UInt32Array::from_iter_values(rows), None)?;

    Ok(FoundVertices { indexes: by_value.into_iter().flatten().collect(), asked })
}

/// Returns the indexes of the vertices that have each value.
async fn look_up(view: &Vertices, wanted: &ArrayRef, is_key: bool) -> Result<Vec<Vec<i64>>> {
    let converter = RowConverter::new(vec![SortField::new(wanted.data_type().clone())])?;
    let rows = converter.convert_columns(std::slice::from_ref(wanted))?;

    let mut positions: HashMap<Box<[u8]>, Vec<usize>> = HashMap::new();
    for (at, row) in rows.iter().enumerate() {
        positions.entry(row.as_ref().into()).or_default().push(at);
    }

    let mut found = vec![Vec::new(); wanted.len()];
    let mut left = positions.len();
    let mut batches = Box::pin(view.stream());
    while let Some(batch) = batches.next().await.transpose()? {
        let indexes = batch.column(0).as_primitive::<Int64Type>();
        let rows = converter.convert_columns(&batch.columns()[1..])?;

        for (index, row) in indexes.values().iter().zip(rows.iter()) {
            let Some(positions) = positions.get(row.as_ref()) else { continue };
            for at in positions {
                found[*at].push(*index);
            }
            left = left.saturating_sub(1);
        }

        if is_key && left == 0 {
            break;
        }
    }

    Ok(found)
}

/// Parses the values with the type of the property.
fn typed(property: &str, data_type: &DataType, texts: &[String]) -> Result<ArrayRef> {
    if matches!(data_type, DataType::List(_)) {
        return Err(usage(format!("{property} has lists: vertices are found by a property of one value")));
    }

    let array: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
    let values = cast_with_options(&array, data_type, &CastOptions { safe: true, ..CastOptions::default() })?;

    match (0..values.len()).find(|row| values.is_null(*row)) {
        None => Ok(values),
        Some(row) => {
            let text = texts.get(row).map(String::as_str).unwrap_or_default();
            Err(usage(format!("{text:?} is no {property}: its values are {data_type}")))
        }
    }
}

/// Converts the value in a row to a literal; `text` is the value as given.
fn literal(wanted: &ArrayRef, row: usize, text: &str) -> Result<Literal> {
    let one = wanted.slice(row, 1);
    Ok(match wanted.data_type() {
        DataType::Boolean => Literal::Boolean(one.as_boolean().value(0)),
        data_type if data_type.is_integer() => {
            let number = cast(&one, &DataType::Int64)?;
            Literal::Integer(number.as_primitive::<Int64Type>().value(0).into())
        }
        data_type if data_type.is_floating() => {
            let number = cast(&one, &DataType::Float64)?;
            Literal::Float(number.as_primitive::<Float64Type>().value(0))
        }
        _ => Literal::String(text.to_owned()),
    })
}
