//! Properties, and the groups of them that are stored in one file.

use std::{collections::HashMap, fmt, str::FromStr, sync::Arc};

use arrow::datatypes::{DataType, Field};

use serde::Serialize;

use super::{key_error::InfoKeyError, prefix, strictness::Strictness};
use crate::{PropertyType, UnknownNameError};

/// Number of values of a property per vertex. Properties of edges have one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Cardinality {
    /// One, or null.
    #[default]
    Single,
    /// Any number, ordered.
    List,
    /// Any number, without duplicates.
    Set,
}

impl fmt::Display for Cardinality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Single => "single",
            Self::List => "list",
            Self::Set => "set",
        })
    }
}

impl FromStr for Cardinality {
    type Err = UnknownNameError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "single" => Ok(Self::Single),
            "list" => Ok(Self::List),
            "set" => Ok(Self::Set),
            _ => Err(UnknownNameError {
                kind: "cardinality",
                name: name.to_owned(),
                known: "single, list or set",
            }),
        }
    }
}

/// Format of the files of a property group or an adjacency list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileType {
    /// Apache Parquet.
    Parquet,
    /// Apache ORC.
    Orc,
    /// Comma-separated values with a header.
    Csv,
    /// One JSON object in each line.
    Json,
}

impl fmt::Display for FileType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Parquet => "parquet",
            Self::Orc => "orc",
            Self::Csv => "csv",
            Self::Json => "json",
        })
    }
}

impl FromStr for FileType {
    type Err = UnknownNameError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "parquet" => Ok(Self::Parquet),
            "orc" => Ok(Self::Orc),
            "csv" => Ok(Self::Csv),
            "json" => Ok(Self::Json),
            _ => Err(UnknownNameError {
                kind: "file type",
                name: name.to_owned(),
                known: "parquet, orc, csv or json",
            }),
        }
    }
}

/// Property of vertices or edges: one column of the files of its group.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Property {
    /// Name of the property and of its column.
    pub name: String,
    /// Type of each value.
    #[serde(rename = "data_type")]
    pub property_type: PropertyType,
    /// True for the primary key of the vertex type.
    pub is_primary: bool,
    /// True if values may be null.
    pub is_nullable: bool,
    /// Number of values per vertex.
    pub cardinality: Cardinality,
}

impl Property {
    /// Returns a property of one value, nullable and not the primary key.
    pub fn new(name: impl Into<String>, property_type: PropertyType) -> Self {
        Self {
            name: name.into(),
            property_type,
            is_primary: false,
            is_nullable: true,
            cardinality: Cardinality::Single,
        }
    }

    /// Turns the property into the primary key, which is never null.
    pub fn into_primary(self) -> Self {
        Self { is_primary: true, is_nullable: false, ..self }
    }

    /// Returns the type of its column: that of the values, or a list of them if there may be several.
    pub fn arrow(&self) -> DataType {
        match self.cardinality {
            Cardinality::Single => self.property_type.arrow(),
            Cardinality::List | Cardinality::Set => {
                DataType::List(Arc::new(Field::new("item", self.property_type.arrow(), true)))
            }
        }
    }

    fn has_several_values(&self) -> bool {
        self.property_type.is_list() || self.cardinality != Cardinality::Single
    }

    fn check(&self, file_type: FileType, strictness: Strictness) -> Result<(), InfoKeyError> {
        if self.name.is_empty() {
            return Err(InfoKeyError::new("name", "is empty"));
        }
        if let PropertyType::List(item) = &self.property_type {
            if item.is_list() {
                return Err(InfoKeyError::new("data_type", "is a list of lists"));
            }
            if self.cardinality != Cardinality::Single {
                return Err(InfoKeyError::new(
                    "cardinality",
                    format!("makes a list of lists of a {}", self.property_type),
                ));
            }
        }

        if !strictness.is_strict() {
            return Ok(());
        }
        if !self.property_type.is_official() {
            return Err(InfoKeyError::new(
                "data_type",
                format!("the official readers have no {}", self.property_type),
            ));
        }
        if self.has_several_values() && file_type == FileType::Csv {
            let key = if self.property_type.is_list() { "data_type" } else { "cardinality" };
            let reason = format!("CSV files hold one value of each property, and {} has several", self.name);
            return Err(InfoKeyError::new(key, reason));
        }
        if self.is_primary && self.is_nullable {
            return Err(InfoKeyError::new("is_nullable", "a primary key is never null"));
        }

        Ok(())
    }
}

/// Properties that are stored together, in one file per chunk.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct PropertyGroup {
    /// Folder of its files within those of its type: empty, or with a trailing slash.
    pub prefix: String,
    /// Format of its files.
    pub file_type: FileType,
    /// Properties, at least one.
    pub properties: Vec<Property>,
}

impl PropertyGroup {
    /// Returns a group with the default prefix: the names of its properties, joined by `_`, and a slash.
    pub fn new(file_type: FileType, properties: Vec<Property>) -> Self {
        let names: Vec<&str> = properties.iter().map(|property| property.name.as_str()).collect();
        Self { prefix: format!("{}/", names.join("_")), file_type, properties }
    }
}

/// Finds a property: returns the position of its group, its position within the group, and the property.
pub(super) fn find<'a>(groups: &'a [PropertyGroup], name: &str) -> Option<(usize, usize, &'a Property)> {
    groups.iter().enumerate().find_map(|(at, group)| {
        let (column, property) =
            group.properties.iter().enumerate().find(|(_, property)| property.name == name)?;
        Some((at, column, property))
    })
}

/// Checks the groups of one type; the error names the key in the type's file.
pub(super) fn check_groups(groups: &[PropertyGroup], strictness: Strictness) -> Result<(), InfoKeyError> {
    let mut keys: HashMap<&str, String> = HashMap::new();
    let mut primary = false;
    for (i, group) in groups.iter().enumerate() {
        let at = format!("property_groups[{i}].");
        if group.properties.is_empty() {
            return Err(InfoKeyError::new("properties", "is empty").within(&at));
        }
        prefix::usable(&group.prefix).map_err(|reason| InfoKeyError::new("prefix", reason).within(&at))?;
        for (j, property) in group.properties.iter().enumerate() {
            let at = format!("{at}properties[{j}].");
            property.check(group.file_type, strictness).map_err(|error| error.within(&at))?;
            if strictness.is_strict() && property.is_primary && primary {
                return Err(InfoKeyError::new("is_primary", "there is a primary key already").within(&at));
            }
            primary |= property.is_primary;
            if let Some(first) = keys.get(property.name.as_str()) {
                let reason = format!("{:?} is the name of {first} too", property.name);
                return Err(InfoKeyError::new("name", reason).within(&at));
            }
            keys.insert(&property.name, format!("property_groups[{i}].properties[{j}]"));
        }
    }

    Ok(())
}
