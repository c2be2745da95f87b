//! Keeps logical types that Arrow has no type for in the metadata of fields, as extension types: variants, geometries and
//! geographies come out as they are stored, and still say what they are.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use parquet::{
    basic::{EdgeInterpolationAlgorithm, LogicalType},
    file::metadata::{KeyValue, ParquetMetaData},
    schema::types::{Type, TypePtr},
};
use serde_json::{Map, Value};

/// Where a field says which extension type it has, and with what metadata.
const NAME_KEY: &str = "ARROW:extension:name";
const METADATA_KEY: &str = "ARROW:extension:metadata";
const VARIANT: &str = "arrow.parquet.variant";
/// See <https://geoarrow.org/extension-types.html>.
const GEO: &str = "geoarrow.wkb";
/// What the coordinates refer to where nothing is said of it: longitude and latitude.
const DEFAULT_CRS: &str = "OGC:CRS84";

/// Adds what the file says of the logical types of top-level columns, and of fields and elements within them.
pub(crate) fn annotated(fields: &[FieldRef], metadata: &ParquetMetaData) -> Vec<FieldRef> {
    let file = metadata.file_metadata();
    let roots = file.schema_descr().root_schema().get_fields();
    let pairs = file.key_value_metadata().map(Vec::as_slice).unwrap_or_default();
    if fields.len() != roots.len() || !roots.iter().any(|root| has_extension(root)) {
        return fields.to_vec();
    }
    fields.iter().zip(roots).map(|(field, root)| annotate(field, root, pairs)).collect()
}

fn has_extension(parquet: &Type) -> bool {
    extension_of(parquet, &[]).is_some()
        || parquet.is_group() && parquet.get_fields().iter().any(|field| has_extension(field))
}

fn annotate(field: &FieldRef, parquet: &TypePtr, pairs: &[KeyValue]) -> FieldRef {
    if !has_extension(parquet) {
        return field.clone();
    }

    let mut annotated = field.as_ref().clone();
    if let Some(data_type) = annotated_type(field.data_type(), parquet, pairs) {
        annotated.set_data_type(data_type);
    }
    let is_known = annotated.metadata().contains_key(NAME_KEY);
    if let Some((name, said)) = extension_of(parquet, pairs).filter(|_| !is_known) {
        let metadata = annotated.metadata_mut();
        metadata.insert(NAME_KEY.to_owned(), name.to_owned());
        metadata.insert(METADATA_KEY.to_owned(), said);
    }
    Arc::new(annotated)
}

/// The type with annotated fields; `None` where they are not found in the Parquet type.
fn annotated_type(data_type: &DataType, parquet: &TypePtr, pairs: &[KeyValue]) -> Option<DataType> {
    if parquet.is_primitive() {
        return None;
    }
    let inner = parquet.get_fields();
    Some(match data_type {
        DataType::Struct(fields) if fields.len() == inner.len() => {
            let fields = fields.iter().zip(inner);
            DataType::Struct(fields.map(|(field, parquet)| annotate(field, parquet, pairs)).collect())
        }
        DataType::List(item) => DataType::List(annotate(item, element_of(inner)?, pairs)),
        DataType::LargeList(item) => DataType::LargeList(annotate(item, element_of(inner)?, pairs)),
        _ => return None,
    })
}

/// The element of a list of three levels.
fn element_of(fields: &[TypePtr]) -> Option<&TypePtr> {
    let [repeated] = fields else { return None };
    match repeated.is_group() {
        true => repeated.get_fields().first().filter(|_| repeated.get_fields().len() == 1),
        false => None,
    }
}

/// The name and metadata of the extension type that stands for a logical type.
fn extension_of(parquet: &Type, pairs: &[KeyValue]) -> Option<(&'static str, String)> {
    match parquet.get_basic_info().logical_type_ref()? {
        LogicalType::Variant(_) => Some((VARIANT, String::new())),
        LogicalType::Geometry(geometry) => Some((GEO, geo_metadata(geometry.crs.as_deref(), None, pairs))),
        LogicalType::Geography(geography) => {
            let edges = match geography.algorithm() {
                Some(EdgeInterpolationAlgorithm::VINCENTY) => "vincenty",
                Some(EdgeInterpolationAlgorithm::THOMAS) => "thomas",
                Some(EdgeInterpolationAlgorithm::ANDOYER) => "andoyer",
                Some(EdgeInterpolationAlgorithm::KARNEY) => "karney",
                _ => "spherical",
            };
            Some((GEO, geo_metadata(geography.crs.as_deref(), Some(edges), pairs)))
        }
        _ => None,
    }
}

/// The metadata of GeoArrow: what coordinates refer to, and how points are joined.
fn geo_metadata(crs: Option<&str>, edges: Option<&str>, pairs: &[KeyValue]) -> String {
    let text = |text: &str| Value::String(text.to_owned());
    let mut said = Map::new();
    match crs.filter(|crs| !crs.is_empty()) {
        None => {
            said.insert("crs".to_owned(), text(DEFAULT_CRS));
            said.insert("crs_type".to_owned(), text("authority_code"));
        }
        Some(crs) => {
            let (value, kind) = if let Some(srid) = crs.strip_prefix("srid:") {
                (text(srid), Some("srid"))
            } else if let Some(key) = crs.strip_prefix("projjson:") {
                let pair = pairs.iter().find(|pair| pair.key == key).and_then(|pair| pair.value.as_deref());
                let projection = pair.and_then(|value| serde_json::from_str(value).ok());
                let is_found = projection.is_some();
                (projection.unwrap_or_else(|| text(crs)), is_found.then_some("projjson"))
            } else {
                let object = serde_json::from_str(crs).ok().filter(Value::is_object);
                (object.unwrap_or_else(|| text(crs)), None)
            };
            said.insert("crs".to_owned(), value);
            if let Some(kind) = kind {
                said.insert("crs_type".to_owned(), text(kind));
            }
        }
    }
    if let Some(edges) = edges {
        said.insert("edges".to_owned(), text(edges));
    }
    Value::Object(said).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_coordinates_refer_to_is_said_as_geoarrow_does() {
        let pair = |key: &str, value: &str| KeyValue::new(key.to_owned(), value.to_owned());
        let pairs = [pair("utm", r#"{"type":"ProjectedCRS"}"#)];
        let cases = [
            (None, r#"{"crs":"OGC:CRS84","crs_type":"authority_code"}"#),
            (Some("srid:3857"), r#"{"crs":"3857","crs_type":"srid"}"#),
            (Some("projjson:utm"), r#"{"crs":{"type":"ProjectedCRS"},"crs_type":"projjson"}"#),
            (Some("projjson:lost"), r#"{"crs":"projjson:lost"}"#),
            (Some(r#"{"type":"x"}"#), r#"{"crs":{"type":"x"}}"#),
            (Some("EPSG:4326"), r#"{"crs":"EPSG:4326"}"#),
        ];
        for (crs, wanted) in cases {
            assert_eq!(geo_metadata(crs, None, &pairs), wanted);
        }
        assert!(geo_metadata(None, Some("karney"), &[]).ends_with(r#""edges":"karney"}"#));
    }
}
