//! Types of vertices and edges derived from the columns of data.

use arrow::datatypes::{Field, Schema};

use super::schema::{DESTINATION, EdgeType, SOURCE, StoreProperty, VertexType};
use crate::{Error, PropertyType, Result};

impl VertexType {
    /// Returns the type whose properties are the columns of data, one of them the key.
    ///
    /// # Errors
    ///
    /// [`Error::Schema`] if there is no such key, or if no property type holds a column's values.
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
}

impl EdgeType {
    /// Returns the type whose properties are the columns of data, except `src` and `dst`.
    ///
    /// # Errors
    ///
    /// [`Error::Schema`] if no property type holds a column's values.
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
