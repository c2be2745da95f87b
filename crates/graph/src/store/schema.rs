//! Schema of a store: types of vertices and edges, and their typed properties. It can grow, and never shrinks.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::names::{check_property, check_type};
use crate::{Error, PropertyType, Result, graphar::with_microseconds};

/// Property of vertices or edges: a column. All but keys may be null.
///
/// A store accepts only names and types that GraphAr can represent: no lists of `bool`, `date` or `timestamp`, and no
/// names that the official readers would misread, such as `a##b` or one with both kinds of quotes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreProperty {
    /// Name.
    pub name: String,
    /// Type of its values.
    #[serde(rename = "type", serialize_with = "to_text", deserialize_with = "from_text")]
    pub property_type: PropertyType,
}

impl StoreProperty {
    /// Returns a property.
    pub fn new(name: impl Into<String>, property_type: PropertyType) -> Self {
        Self { name: name.into(), property_type }
    }

    /// Returns the field that it is read as. Timestamps are in microseconds.
    pub fn field(&self) -> FieldRef {
        Arc::new(Field::new(&self.name, with_microseconds(self.property_type.arrow()), true))
    }
}

fn to_text<S: Serializer>(
    property_type: &PropertyType,
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    serializer.collect_str(property_type)
}

fn from_text<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<PropertyType, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
}

/// Vertex type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VertexType {
    /// Name: letters, digits, `_` and `-`.
    pub name: String,
    /// Key property, unique per vertex: an `int32`, `int64` or `string` that is never null.
    pub key: String,
    /// Properties, including the key.
    pub properties: Vec<StoreProperty>,
}

impl VertexType {
    /// Returns a type whose vertices have a key and no other property yet.
    pub fn new(name: impl Into<String>, key: impl Into<String>, key_type: PropertyType) -> Self {
        let key = key.into();
        Self { name: name.into(), properties: vec![StoreProperty::new(&key, key_type)], key }
    }

    /// Derives a type from the columns of data, which become its properties, one of them the key.
    ///
    /// # Errors
    ///
    /// [`Error::Schema`] if there is no such key, or if no property type can hold a column's values.
    pub fn of_columns(name: impl Into<String>, key: impl Into<String>, columns: &Schema) -> Result<Self> {
        let name = name.into();
        let key = key.into();
        let of = format!("vertex type {name}");
        if columns.index_of(&key).is_err() {
            return Err(Error::Schema { of, reason: format!("there is no column {key} to be its key") });
        }
        let properties = columns.fields().iter().map(|field| property(&of, field)).collect::<Result<_>>()?;
        Ok(Self { name, key, properties })
    }

    /// Adds a property.
    pub fn with_property(mut self, name: impl Into<String>, property_type: PropertyType) -> Self {
        self.properties.push(StoreProperty::new(name, property_type));
        self
    }

    /// Returns the columns of its properties, including the key's.
    pub fn fields(&self) -> Vec<FieldRef> {
        self.properties.iter().map(StoreProperty::field).collect()
    }

    /// Returns the type of its key column.
    pub(crate) fn key_type(&self) -> DataType {
        let key = self.properties.iter().find(|property| property.name == self.key);
        key.map_or(DataType::Null, |key| key.property_type.arrow())
    }

    pub(super) fn check(&self) -> Result<()> {
        check_type(&self.name)?;
        let of = format!("vertex type {}", self.name);
        check_properties(&of, &self.properties)?;
        match self.key_type() {
            DataType::Int32 | DataType::Int64 | DataType::Utf8 => Ok(()),
            DataType::Null => {
                Err(Error::Schema { of, reason: format!("its key {} is no property", self.key) })
            }
            other => Err(Error::Schema {
                of,
                reason: format!("its key {} is {other}: keys are int32, int64 or string", self.key),
            }),
        }
    }
}

/// Edge type between vertices of two types, or of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EdgeType {
    /// Type of the vertices that its edges leave.
    pub source: String,
    /// Name: letters, digits, `_` and `-`. Edge types between other vertex types may share it.
    pub name: String,
    /// Type of the vertices that its edges enter.
    pub destination: String,
    /// Properties.
    pub properties: Vec<StoreProperty>,
}

/// Column of the vertices that edges leave.
pub(crate) const SOURCE: &str = "src";
/// Column of the vertices that edges enter.
pub(crate) const DESTINATION: &str = "dst";

impl EdgeType {
    /// Returns a type whose edges have no properties yet.
    pub fn new(source: impl Into<String>, name: impl Into<String>, destination: impl Into<String>) -> Self {
        let source = source.into();
        let name = name.into();
        let destination = destination.into();
        Self { source, name, destination, properties: Vec::new() }
    }

    /// Derives a type from the columns of data, which become its properties, except `src` and `dst`.
    ///
    /// # Errors
    ///
    /// [`Error::Schema`] if no property type can hold a column's values.
    pub fn of_columns(
        source: impl Into<String>,
        name: impl Into<String>,
        destination: impl Into<String>,
        columns: &Schema,
    ) -> Result<Self> {
        let mut of_type = Self::new(source, name, destination);
        let of = format!("edge type {}", of_type.full_name());
        let fields =
            columns.fields().iter().filter(|field| ![SOURCE, DESTINATION].contains(&field.name().as_str()));
        of_type.properties = fields.map(|field| property(&of, field)).collect::<Result<_>>()?;
        Ok(of_type)
    }

    /// Adds a property.
    pub fn with_property(mut self, name: impl Into<String>, property_type: PropertyType) -> Self {
        self.properties.push(StoreProperty::new(name, property_type));
        self
    }

    /// Returns the columns of its properties.
    pub fn fields(&self) -> Vec<FieldRef> {
        self.properties.iter().map(StoreProperty::field).collect()
    }

    /// Returns the full name, with the types of both ends: `Person_KNOWS_Person`.
    pub fn full_name(&self) -> String {
        format!("{}_{}_{}", self.source, self.name, self.destination)
    }

    pub(super) fn check(&self) -> Result<()> {
        check_type(&self.name)?;
        let of = format!("edge type {}", self.full_name());
        check_properties(&of, &self.properties)?;
        for property in &self.properties {
            if matches!(property.name.as_str(), SOURCE | DESTINATION | "position" | "neighbor") {
                let reason = format!("a property may not be called {}", property.name);
                return Err(Error::Schema { of, reason });
            }
        }
        Ok(())
    }
}

fn check_properties(of: &str, properties: &[StoreProperty]) -> Result<()> {
    for (at, property) in properties.iter().enumerate() {
        check_property(of, &property.name)?;
        if properties.iter().take(at).any(|other| other.name == property.name) {
            let reason = format!("the property {} is there twice", property.name);
            return Err(Error::Schema { of: of.to_owned(), reason });
        }
    }
    Ok(())
}

/// All types of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreSchema {
    /// Vertex types.
    pub vertices: Vec<VertexType>,
    /// Edge types.
    pub edges: Vec<EdgeType>,
}

impl StoreSchema {
    /// Returns a schema without types.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a vertex type.
    pub fn with_vertices(mut self, vertices: VertexType) -> Self {
        self.vertices.push(vertices);
        self
    }

    /// Adds an edge type.
    pub fn with_edges(mut self, edges: EdgeType) -> Self {
        self.edges.push(edges);
        self
    }
}

/// Addition to a schema. Existing rows have null for a new property.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SchemaChange {
    /// Adds a vertex type.
    AddVertexType(VertexType),
    /// Adds an edge type.
    AddEdgeType(EdgeType),
    /// Adds a property of vertices.
    AddVertexProperty {
        /// Vertex type.
        vertex_type: String,
        /// Property.
        property: StoreProperty,
    },
    /// Adds a property of edges.
    AddEdgeProperty {
        /// Edge type: its name, or its full name if several share the name.
        edge_type: String,
        /// Property.
        property: StoreProperty,
    },
}

fn property(of: &str, field: &Field) -> Result<StoreProperty> {
    match PropertyType::of_arrow(field.data_type()) {
        Some(property_type) => Ok(StoreProperty::new(field.name(), property_type)),
        None => Err(Error::Schema {
            of: of.to_owned(),
            reason: format!(
                "no property has values of column {}, which is {}",
                field.name(),
                field.data_type()
            ),
        }),
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::DataType;

    use super::*;

    fn columns(columns: &[(&str, DataType)]) -> Schema {
        Schema::new(columns.iter().map(|(name, of)| Field::new(*name, of.clone(), true)).collect::<Vec<_>>())
    }

    #[test]
    fn columns_become_properties_and_ends_do_not() {
        let people = columns(&[("id", DataType::Int64), ("name", DataType::LargeUtf8)]);
        let person = VertexType::of_columns("Person", "id", &people).unwrap();
        assert_eq!(
            person,
            VertexType::new("Person", "id", PropertyType::Int64).with_property("name", PropertyType::String)
        );
        let knows =
            columns(&[("src", DataType::Int64), ("dst", DataType::Int64), ("since", DataType::Date32)]);
        let knows = EdgeType::of_columns("Person", "KNOWS", "Person", &knows).unwrap();
        assert_eq!(
            knows,
            EdgeType::new("Person", "KNOWS", "Person").with_property("since", PropertyType::Date)
        );
    }

    #[test]
    fn what_no_property_can_hold_is_named() {
        let bytes = columns(&[("id", DataType::Int64), ("photo", DataType::Binary)]);
        let error = VertexType::of_columns("Person", "id", &bytes).unwrap_err().to_string();
        assert!(
            error.contains("vertex type Person") && error.contains("photo") && error.contains("Binary"),
            "{error}"
        );
        let error = VertexType::of_columns("Person", "key", &bytes).unwrap_err().to_string();
        assert!(error.contains("no column key"), "{error}");
    }
}
