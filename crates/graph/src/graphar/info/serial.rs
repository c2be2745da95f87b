//! Serialization of descriptions: format names as strings, everything else under the keys of the YAML files.

use serde::{Serialize, Serializer};

use super::{AdjacencyOrder, Cardinality, FileType};
use crate::PropertyType;

/// Serializes types by name.
macro_rules! by_name {
    ($($name:ty),*) => {$(
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
    )*};
}

by_name!(AdjacencyOrder, Cardinality, FileType, PropertyType);
