//! Keeps logical types that Arrow lacks as extension types in the metadata of fields: UUIDs, JSON, variants, geometries
//! and geographies are read in their storage type.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use parquet::{
    basic::{ConvertedType, EdgeInterpolationAlgorithm, LogicalType},
    file::metadata::{KeyValue, ParquetMetaData},
    schema::types::{Type, TypePtr},
};
use serde_json::{Map, Value};

/// Metadata keys of a field's extension type: its name and its metadata.
const NAME_KEY: &str = "ARROW:extension:name";
const METADATA_KEY: &str = "ARROW:extension:metadata";
pub(crate) const JSON: &str = "arrow.json";
pub(crate) const UUID: &str = "arrow.uuid";
/// Bytes of a UUID.
pub(crate) const UUID_WIDTH: i32 = 16;
pub(crate) const VARIANT: &str = "arrow.parquet.variant";
/// See <https://geoarrow.org/extension-types.html>.
pub(crate) const GEO: &str = "geoarrow.wkb";
/// CRS of coordinates without one: longitude and latitude.
pub(crate) const DEFAULT_CRS: &str = "OGC:CRS84";

/// Annotates top-level columns, and the fields and elements within them, with the file's logical types.
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
    let extension = extension_of(parquet, pairs);
    let extension = extension.filter(|(name, _)| !is_known && is_storage_of(name, annotated.data_type()));
    if let Some((name, said)) = extension {
        let metadata = annotated.metadata_mut();
        metadata.insert(NAME_KEY.to_owned(), name.to_owned());
        metadata.insert(METADATA_KEY.to_owned(), said);
    }
    Arc::new(annotated)
}

/// Returns the type with annotated fields; `None` if the fields are not found in the Parquet type.
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
        DataType::ListView(item) => DataType::ListView(annotate(item, element_of(inner)?, pairs)),
        DataType::LargeListView(item) => DataType::LargeListView(annotate(item, element_of(inner)?, pairs)),
        DataType::FixedSizeList(item, size) => {
            DataType::FixedSizeList(annotate(item, element_of(inner)?, pairs), *size)
        }
        DataType::Map(entries, is_sorted) => match inner {
            [key_value] => DataType::Map(annotate(entries, key_value, pairs), *is_sorted),
            _ => return None,
        },
        _ => return None,
    })
}

/// Returns the element of a three-level list.
fn element_of(fields: &[TypePtr]) -> Option<&TypePtr> {
    let [repeated] = fields else { return None };
    if repeated.is_group() {
        repeated.get_fields().first().filter(|_| repeated.get_fields().len() == 1)
    } else {
        None
    }
}

/// Returns whether the extension type may annotate a field of the type: readers fail on `arrow.json` and `arrow.uuid`
/// with any other storage, dictionaries included.
fn is_storage_of(extension: &str, data_type: &DataType) -> bool {
    match extension {
        JSON => matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View),
        UUID => *data_type == DataType::FixedSizeBinary(UUID_WIDTH),
        _ => true,
    }
}

/// Returns the name and metadata of the extension type that stands for a logical type.
fn extension_of(parquet: &Type, pairs: &[KeyValue]) -> Option<(&'static str, String)> {
    let info = parquet.get_basic_info();
    let Some(logical) = info.logical_type_ref() else {
        // Files of older writers have converted types only.
        return (info.converted_type() == ConvertedType::JSON).then(|| (JSON, String::new()));
    };

    match logical {
        LogicalType::Uuid => Some((UUID, String::new())),
        LogicalType::Json => Some((JSON, String::new())),
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

/// Returns GeoArrow metadata: the CRS of coordinates, and the interpolation of edges.
pub(crate) fn geo_metadata(crs: Option<&str>, edges: Option<&str>, pairs: &[KeyValue]) -> String {
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
    use arrow::datatypes::Field;
    use parquet::basic::{Repetition, Type as PhysicalType};

    use super::*;

    #[test]
    fn elements_of_every_kind_of_list_and_values_of_maps_are_annotated() {
        let group = |name: &str, repetition: Repetition, fields: Vec<TypePtr>| {
            let group = Type::group_type_builder(name).with_repetition(repetition).with_fields(fields);
            Arc::new(group.build().unwrap())
        };
        let leaf = |name: &str, logical: LogicalType| {
            let leaf = Type::primitive_type_builder(name, PhysicalType::BYTE_ARRAY);
            let leaf = leaf.with_repetition(Repetition::OPTIONAL).with_logical_type(Some(logical));
            Arc::new(leaf.build().unwrap())
        };
        let shape = || leaf("element", LogicalType::geometry(None));
        let repeated = |fields| group("repeated", Repetition::REPEATED, fields);
        let list = group("l", Repetition::OPTIONAL, vec![repeated(vec![shape()])]);
        let entry = vec![leaf("key", LogicalType::String), shape()];
        let map = group("m", Repetition::OPTIONAL, vec![repeated(entry)]);

        let element = || Arc::new(Field::new("element", DataType::Binary, true));
        let key = Arc::new(Field::new("key", DataType::Utf8, false));
        let entries = Field::new("entries", DataType::Struct(vec![key, element()].into()), false);
        let cases = [
            (DataType::List(element()), &list),
            (DataType::LargeList(element()), &list),
            (DataType::ListView(element()), &list),
            (DataType::LargeListView(element()), &list),
            (DataType::FixedSizeList(element(), 2), &list),
            (DataType::Map(Arc::new(entries), false), &map),
        ];

        for (data_type, parquet) in cases {
            let annotated = annotated_type(&data_type, parquet, &[]).unwrap();
            let field = match &annotated {
                DataType::List(item)
                | DataType::LargeList(item)
                | DataType::ListView(item)
                | DataType::LargeListView(item)
                | DataType::FixedSizeList(item, 2) => item,
                DataType::Map(entries, false) => match entries.data_type() {
                    DataType::Struct(fields) => &fields[1],
                    other => panic!("{other}"),
                },
                other => panic!("{other}"),
            };

            assert_eq!(field.extension_type_name(), Some(GEO), "{annotated}");
        }
    }

    #[test]
    fn uuids_and_json_are_annotated_in_their_own_storage_only() {
        let uuid = Type::primitive_type_builder("x", PhysicalType::FIXED_LEN_BYTE_ARRAY)
            .with_length(UUID_WIDTH)
            .with_logical_type(Some(LogicalType::Uuid));
        let uuid = Arc::new(uuid.build().unwrap());
        let text = || Type::primitive_type_builder("x", PhysicalType::BYTE_ARRAY);
        let json = Arc::new(text().with_logical_type(Some(LogicalType::Json)).build().unwrap());
        let old_json = Arc::new(text().with_converted_type(ConvertedType::JSON).build().unwrap());
        let coded = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));

        let cases = [
            (&uuid, DataType::FixedSizeBinary(16), Some(UUID)),
            (&uuid, DataType::Binary, None),
            (&json, DataType::Utf8, Some(JSON)),
            (&json, DataType::LargeUtf8, Some(JSON)),
            (&json, coded, None),
            (&old_json, DataType::Utf8, Some(JSON)),
        ];
        for (parquet, data_type, expected) in cases {
            let field = annotate(&Arc::new(Field::new("x", data_type, true)), parquet, &[]);
            assert_eq!(field.extension_type_name(), expected, "{field:?}");
            assert_eq!(field.extension_type_metadata(), expected.map(|_| ""));
        }

        let own = [(NAME_KEY.to_owned(), "a.vendor.json".to_owned())];
        let field = Field::new("x", DataType::Utf8, true).with_metadata(own.into());
        assert_eq!(*annotate(&Arc::new(field.clone()), &json, &[]), field);
    }

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
