//! Conversion of store schemas between Rust types and Python tuples.

use pyo3::prelude::*;
use stylobate_graph::{
    PropertyType,
    store::{EdgeType, StoreProperty, StoreSchema, VertexType},
};

use crate::errors::ErrorClass;

/// Pairs of property name and type name.
pub(super) type PropertyTuples = Vec<(String, String)>;
/// A vertex type: name, key, properties.
pub(super) type VertexTypeTuple = (String, String, PropertyTuples);
/// Source type, edge type, destination type.
pub(super) type StoreEdgeName = (String, String, String);
/// An edge type: names, properties.
pub(super) type EdgeTypeTuple = (StoreEdgeName, PropertyTuples);

fn properties(py: Python<'_>, of: &str, given: PropertyTuples) -> PyResult<Vec<StoreProperty>> {
    let property = |(name, text): (String, String)| {
        let parsed = text.parse::<PropertyType>();
        let wrong = |error: stylobate_graph::UnknownNameError| {
            ErrorClass::Config.error(py, format!("{of}: property {name}: {error}"))
        };
        parsed.map_err(wrong).map(|property_type| StoreProperty::new(&name, property_type))
    };
    given.into_iter().map(property).collect()
}

pub(super) fn vertex_type(py: Python<'_>, (name, key, given): VertexTypeTuple) -> PyResult<VertexType> {
    let properties = properties(py, &format!("vertex type {name}"), given)?;
    Ok(VertexType { name, key, properties })
}

pub(super) fn edge_type(
    py: Python<'_>,
    ((source, name, destination), given): EdgeTypeTuple,
) -> PyResult<EdgeType> {
    let mut of_type = EdgeType::new(source, name, destination);
    of_type.properties = properties(py, &format!("edge type {}", of_type.full_name()), given)?;
    Ok(of_type)
}

pub(super) fn schema(
    py: Python<'_>,
    vertices: Vec<VertexTypeTuple>,
    edges: Vec<EdgeTypeTuple>,
) -> PyResult<StoreSchema> {
    Ok(StoreSchema {
        vertices: vertices.into_iter().map(|of_type| vertex_type(py, of_type)).collect::<PyResult<_>>()?,
        edges: edges.into_iter().map(|of_type| edge_type(py, of_type)).collect::<PyResult<_>>()?,
    })
}

/// Parses a property from its name and type name.
pub(super) fn property(py: Python<'_>, of: &str, name: String, text: String) -> PyResult<StoreProperty> {
    let found = properties(py, of, vec![(name, text)])?.pop();
    found.ok_or_else(|| ErrorClass::Config.error(py, format!("{of}: there is no property")))
}

pub(super) fn shown(schema: &StoreSchema) -> (Vec<VertexTypeTuple>, Vec<EdgeTypeTuple>) {
    let properties = |given: &[StoreProperty]| -> PropertyTuples {
        given.iter().map(|property| (property.name.clone(), property.property_type.to_string())).collect()
    };
    let vertices = schema.vertices.iter();
    let vertices = vertices.map(|it| (it.name.clone(), it.key.clone(), properties(&it.properties)));
    let edges = schema.edges.iter().map(|it| {
        let name = (it.source.clone(), it.name.clone(), it.destination.clone());
        (name, properties(&it.properties))
    });

    (vertices.collect(), edges.collect())
}
