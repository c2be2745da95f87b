//! Table options of a command: types, columns, and partition columns from paths.

use std::collections::BTreeMap;

use arrow::datatypes::{DataType, Field, Schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use stylobate_columnar::parse_type;

/// A type: a name such as `"int64"`, or the serialized form of the arrow crate.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "Value", into = "Value")]
pub(super) struct TypeOption(DataType);

impl TryFrom<Value> for TypeOption {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, Self::Error> {
        let name = value.as_str().map(str::to_owned);
        let as_arrow = serde_json::from_value(value);
        match (as_arrow, name) {
            (Ok(data_type), _) => Ok(Self(data_type)),
            (Err(_), Some(name)) => parse_type(&name).map(Self).map_err(|error| error.to_string()),
            (Err(error), None) => Err(format!("a type: {error}")),
        }
    }
}

impl From<TypeOption> for Value {
    fn from(TypeOption(data_type): TypeOption) -> Self {
        serde_json::to_value(data_type).unwrap_or_default()
    }
}

/// Returns columns and types by name.
pub(super) fn plain_types(types: &BTreeMap<String, TypeOption>) -> impl Iterator<Item = (&String, DataType)> {
    types.iter().map(|(column, TypeOption(data_type))| (column, data_type.clone()))
}

/// Columns of a table, in order.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(untagged)]
pub(super) enum SchemaOption {
    Columns(Vec<ColumnOption>),
    /// The serialized form of the arrow crate.
    Arrow(Schema),
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ColumnOption {
    name: String,
    #[serde(rename = "type")]
    data_type: TypeOption,
}

impl SchemaOption {
    pub(super) fn to_arrow(&self) -> Schema {
        let columns = match self {
            Self::Arrow(schema) => return schema.clone(),
            Self::Columns(columns) => columns,
        };
        let field = |column: &ColumnOption| Field::new(&column.name, column.data_type.0.clone(), true);
        Schema::new(columns.iter().map(field).collect::<Vec<_>>())
    }
}

/// Partition columns from folder names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "Value", into = "Value")]
pub(super) enum Partitioning {
    /// `name=value` folders, with inferred types.
    #[default]
    Hive,
    Absent,
    /// `name=value` folders, some with these types.
    Types(BTreeMap<String, TypeOption>),
}

impl Partitioning {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl TryFrom<Value> for Partitioning {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, Self::Error> {
        match value {
            Value::String(text) if text == "hive" => Ok(Self::Hive),
            Value::String(text) if text == "none" => Ok(Self::Absent),
            Value::Object(types) => {
                let types = types.into_iter().map(|(column, value)| Ok((column, value.try_into()?)));
                types.collect::<Result<_, String>>().map(Self::Types)
            }
            _ => Err("partitioning: must be \"hive\", \"none\" or an object of columns and types".to_owned()),
        }
    }
}

impl From<Partitioning> for Value {
    fn from(partitioning: Partitioning) -> Self {
        match partitioning {
            Partitioning::Hive => Self::from("hive"),
            Partitioning::Absent => Self::from("none"),
            Partitioning::Types(types) => Self::Object(
                types.into_iter().map(|(column, data_type)| (column, data_type.into())).collect(),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::TimeUnit;
    use serde_json::json;

    use super::*;

    #[test]
    fn types_are_names_or_what_the_arrow_crate_serialises() {
        let nested =
            DataType::List(Field::new("item", DataType::Timestamp(TimeUnit::Second, None), true).into());
        for (value, data_type) in [
            (json!("int64"), DataType::Int64),
            (json!("Int64"), DataType::Int64),
            (json!("decimal(10, 2)"), DataType::Decimal128(10, 2)),
            (serde_json::to_value(&nested).unwrap(), nested),
        ] {
            let read: TypeOption = serde_json::from_value(value).unwrap();
            assert_eq!(read.0, data_type);
            let written = serde_json::to_value(&read).unwrap();
            assert_eq!(serde_json::from_value::<TypeOption>(written).unwrap(), read);
        }

        for wrong in [json!("number"), json!(1), json!({"List": 1}), json!(null)] {
            assert!(serde_json::from_value::<TypeOption>(wrong).is_err());
        }
    }

    #[test]
    fn partitioning_is_a_word_or_types() {
        for value in [json!("hive"), json!("none"), json!({"day": "Date32"})] {
            let read: Partitioning = serde_json::from_value(value.clone()).unwrap();
            assert_eq!(serde_json::to_value(read).unwrap(), value);
        }
        for wrong in [json!("spark"), json!(true), json!(null), json!({"day": "x"})] {
            assert!(serde_json::from_value::<Partitioning>(wrong).is_err());
        }
    }

    #[test]
    fn a_schema_is_a_list_of_columns_or_one_of_arrow() {
        let columns: SchemaOption =
            serde_json::from_value(json!([{"name": "b", "type": "int8"}, {"name": "a", "type": "date"}]))
                .unwrap();
        let schema = columns.to_arrow();
        assert_eq!(schema.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>(), ["b", "a"]);
        let arrow: SchemaOption = serde_json::from_value(serde_json::to_value(&schema).unwrap()).unwrap();
        assert_eq!(arrow, SchemaOption::Arrow(schema));
    }
}
