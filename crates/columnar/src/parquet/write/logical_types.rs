//! Turns the extension types of fields into Parquet logical types: JSON, UUID, GEOMETRY, GEOGRAPHY and VARIANT.

use std::{collections::BTreeMap, sync::Arc};

use arrow::datatypes::{DataType, Field, FieldRef};
use parquet::{
    basic::{EdgeInterpolationAlgorithm, LogicalType},
    errors::Result,
    schema::types::{SchemaDescriptor, Type, TypePtr},
};
use serde_json::{Map, Value};

use crate::{
    file::schema::value_type,
    parquet::footer::logical_types::{DEFAULT_CRS, GEO, JSON, UUID, UUID_WIDTH, VARIANT},
};

/// Version of the Variant specification; there is only one so far.
const VARIANT_VERSION: i8 = 1;
/// CRS of coordinates whose reference is unknown: without a CRS, Parquet assumes [`DEFAULT_CRS`].
const UNKNOWN_CRS: &str = "srid:0";
/// Edges of a GEOMETRY; GeoArrow leaves them out.
const PLANAR: &str = "planar";

/// Key-value metadata of the file, which a CRS may refer to.
pub(super) type KeyValues<'a> = BTreeMap<&'a String, &'a String>;

/// Function that returns the logical type of a leaf by its field, or `None` to keep the leaf's own.
type LeafTypeOf<'a> = dyn Fn(&Field) -> Option<LogicalType> + 'a;

/// Returns the schema of a file with the logical types that the extension types of its fields stand for.
pub(super) fn with_logical_types<'f>(
    schema: SchemaDescriptor,
    fields: impl ExactSizeIterator<Item = &'f FieldRef>,
    pairs: &KeyValues<'_>,
) -> Result<SchemaDescriptor> {
    annotated_schema(schema, fields, &|field| leaf_type(field, pairs))
}

/// Returns the schema that chunks are encoded with: geometries and geographies have no order, and therefore no bounds;
/// JSON remains text, so that its bounds are cut between characters.
pub(super) fn with_geo_types<'f>(
    schema: SchemaDescriptor,
    fields: impl ExactSizeIterator<Item = &'f FieldRef>,
) -> Result<SchemaDescriptor> {
    annotated_schema(schema, fields, &|field| geo_type(field, &KeyValues::new()))
}

fn annotated_schema<'f>(
    schema: SchemaDescriptor,
    fields: impl ExactSizeIterator<Item = &'f FieldRef>,
    leaf_type_of: &LeafTypeOf<'_>,
) -> Result<SchemaDescriptor> {
    let root = schema.root_schema();
    let columns = root.get_fields().iter().zip(fields);
    let columns =
        columns.map(|(column, field)| annotated(column, field, leaf_type_of)).collect::<Result<Vec<_>>>()?;

    let is_same = root.get_fields().iter().zip(&columns).all(|(before, after)| Arc::ptr_eq(before, after));
    if is_same {
        return Ok(schema);
    }

    let root = Type::group_type_builder(root.name()).with_fields(columns).build()?;
    Ok(SchemaDescriptor::new(Arc::new(root)))
}

/// Returns the column itself, or a copy with other logical types.
fn annotated(column: &TypePtr, field: &Field, leaf_type_of: &LeafTypeOf<'_>) -> Result<TypePtr> {
    if column.is_primitive() {
        return match leaf_type_of(field) {
            Some(logical) => with_logical_type(column, logical),
            None => Ok(column.clone()),
        };
    }

    let children = column.get_fields();
    let changed = match (field.data_type(), children) {
        (DataType::Struct(fields), children) if fields.len() == children.len() => {
            let each = children.iter().zip(fields);
            each.map(|(child, field)| annotated(child, field, leaf_type_of)).collect::<Result<Vec<_>>>()?
        }
        (
            DataType::List(item)
            | DataType::LargeList(item)
            | DataType::ListView(item)
            | DataType::LargeListView(item)
            | DataType::FixedSizeList(item, _),
            [repeated],
        ) => vec![with_children(repeated, &[item.as_ref()], leaf_type_of)?],
        (DataType::Map(entries, _), [repeated]) => match entries.data_type() {
            DataType::Struct(fields) => {
                let fields: Vec<&Field> = fields.iter().map(AsRef::as_ref).collect();
                vec![with_children(repeated, &fields, leaf_type_of)?]
            }
            _ => return Ok(column.clone()),
        },
        _ => return Ok(column.clone()),
    };

    rebuilt(column, changed, group_type(field))
}

/// Annotates the children of the repeated group of a list or a map.
fn with_children(group: &TypePtr, fields: &[&Field], leaf_type_of: &LeafTypeOf<'_>) -> Result<TypePtr> {
    if group.is_primitive() || group.get_fields().len() != fields.len() {
        return Ok(group.clone());
    }

    let children = group.get_fields().iter().zip(fields);
    let children =
        children.map(|(child, field)| annotated(child, field, leaf_type_of)).collect::<Result<Vec<_>>>()?;
    rebuilt(group, children, None)
}

/// Returns the group with these children and this logical type, if it has one; the group itself if nothing changes.
fn rebuilt(group: &TypePtr, children: Vec<TypePtr>, logical: Option<LogicalType>) -> Result<TypePtr> {
    let info = group.get_basic_info();
    let logical = logical.or_else(|| info.logical_type_ref().cloned());

    let has_same_children =
        group.get_fields().iter().zip(&children).all(|(before, after)| Arc::ptr_eq(before, after));
    if has_same_children && logical.as_ref() == info.logical_type_ref() {
        return Ok(group.clone());
    }

    let builder = Type::group_type_builder(group.name())
        .with_repetition(info.repetition())
        .with_converted_type(info.converted_type())
        .with_logical_type(logical)
        .with_id(info.has_id().then(|| info.id()))
        .with_fields(children);
    builder.build().map(Arc::new)
}

fn with_logical_type(leaf: &TypePtr, logical: LogicalType) -> Result<TypePtr> {
    let Type::PrimitiveType { physical_type, type_length, .. } = leaf.as_ref() else {
        return Ok(leaf.clone());
    };

    let info = leaf.get_basic_info();

    let builder = Type::primitive_type_builder(leaf.name(), *physical_type)
        .with_repetition(info.repetition())
        .with_logical_type(Some(logical))
        .with_length(*type_length)
        .with_id(info.has_id().then(|| info.id()));
    builder.build().map(Arc::new)
}

fn group_type(field: &Field) -> Option<LogicalType> {
    let is_variant =
        field.extension_type_name() == Some(VARIANT) && matches!(field.data_type(), DataType::Struct(_));
    is_variant.then(|| LogicalType::variant(Some(VARIANT_VERSION)))
}

fn leaf_type(field: &Field, pairs: &KeyValues<'_>) -> Option<LogicalType> {
    match (field.extension_type_name()?, field.data_type()) {
        (JSON, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) => Some(LogicalType::Json),
        (UUID, DataType::FixedSizeBinary(UUID_WIDTH)) => Some(LogicalType::Uuid),
        _ => geo_type(field, pairs),
    }
}

/// Returns GEOMETRY or GEOGRAPHY for WKB, according to the GeoArrow metadata; `None` if that cannot be read.
///
/// The inverse of [`geo_metadata`](crate::parquet::footer::logical_types::geo_metadata).
fn geo_type(field: &Field, pairs: &KeyValues<'_>) -> Option<LogicalType> {
    let values = value_type(field.data_type());
    let is_binary = matches!(values, DataType::Binary | DataType::LargeBinary | DataType::BinaryView);
    if !is_binary || field.extension_type_name() != Some(GEO) {
        return None;
    }

    let metadata = field.extension_type_metadata().filter(|text| !text.is_empty()).unwrap_or("{}");
    let metadata: Map<String, Value> = serde_json::from_str(metadata).ok()?;
    let crs = parquet_crs(&metadata, pairs);

    match metadata.get("edges") {
        None | Some(Value::Null) => Some(LogicalType::geometry(crs)),
        Some(edges) => match edges.as_str()? {
            PLANAR => Some(LogicalType::geometry(crs)),
            edges => {
                let algorithm: EdgeInterpolationAlgorithm = edges.parse().ok()?;
                Some(LogicalType::geography(crs, Some(algorithm)))
            }
        },
    }
}

/// Returns the CRS in Parquet's form: `None` for [`DEFAULT_CRS`].
fn parquet_crs(metadata: &Map<String, Value>, pairs: &KeyValues<'_>) -> Option<String> {
    let crs_type = metadata.get("crs_type").and_then(Value::as_str);
    match metadata.get("crs") {
        None | Some(Value::Null) => Some(UNKNOWN_CRS.to_owned()),
        Some(Value::String(crs)) => match crs_type {
            Some("authority_code") if crs == DEFAULT_CRS => None,
            Some("srid") => Some(format!("srid:{crs}")),
            _ => Some(crs.clone()),
        },
        // A CRS of this type may be in the key-value metadata of the file; otherwise it is in the logical type itself.
        Some(crs) if crs_type == Some("projjson") => {
            Some(projjson_key(crs, pairs).map_or_else(|| crs.to_string(), |key| format!("projjson:{key}")))
        }
        Some(crs) => Some(crs.to_string()),
    }
}

/// Returns the key of the file's metadata that holds the CRS.
fn projjson_key<'a>(crs: &Value, pairs: &KeyValues<'a>) -> Option<&'a str> {
    let is_crs = |text: &str| {
        text.starts_with('{') && serde_json::from_str::<Value>(text).is_ok_and(|value| value == *crs)
    };
    pairs.iter().find(|(_, text)| is_crs(text)).map(|(key, _)| key.as_str())
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use parquet::file::metadata::KeyValue;

    use super::*;
    use crate::parquet::footer::logical_types::geo_metadata;

    fn wkb(data_type: DataType, metadata: &str) -> Field {
        let name = ("ARROW:extension:name".to_owned(), GEO.to_owned());
        let metadata = ("ARROW:extension:metadata".to_owned(), metadata.to_owned());
        Field::new("g", data_type, true).with_metadata(HashMap::from([name, metadata]))
    }

    #[test]
    fn geometries_are_written_as_they_were_read() {
        let key = "utm".to_owned();
        let value = r#"{"type":"ProjectedCRS"}"#.to_owned();
        let stored = [KeyValue::new(key.clone(), value.clone())];
        let pairs = KeyValues::from([(&key, &value)]);
        let all = [
            None,
            Some("srid:3857"),
            Some("srid:0"),
            Some("projjson:utm"),
            Some("projjson:lost"),
            Some(r#"{"type":"x"}"#),
            Some("EPSG:4326"),
            Some("OGC:CRS84"),
        ];

        for crs in all {
            for edges in [None, Some("spherical"), Some("karney")] {
                let field = wkb(DataType::Binary, &geo_metadata(crs, edges, &stored));
                let crs = crs.map(str::to_owned);
                let expected = match edges {
                    None => LogicalType::geometry(crs),
                    Some(edges) => LogicalType::geography(crs, edges.parse().ok()),
                };
                assert_eq!(leaf_type(&field, &pairs), Some(expected));
            }
        }
    }

    #[test]
    fn metadata_of_geoarrow_may_be_absent_but_not_wrong() {
        let none = KeyValues::new();
        let of = |data_type: DataType, metadata: &str| leaf_type(&wkb(data_type, metadata), &none);
        let unknown = Some(LogicalType::geometry(Some("srid:0".to_owned())));

        for metadata in ["", "{}", r#"{"crs":null,"edges":null}"#, r#"{"edges":"planar"}"#] {
            assert_eq!(of(DataType::LargeBinary, metadata), unknown);
        }

        // The key-value pair that held the CRS is not in this file.
        let inline = Some(LogicalType::geometry(Some(r#"{"type":"x"}"#.to_owned())));
        assert_eq!(of(DataType::BinaryView, r#"{"crs":{"type":"x"},"crs_type":"projjson"}"#), inline);

        for metadata in ["[]", "{", r#"{"edges":"great circle"}"#, r#"{"edges":1}"#] {
            assert_eq!(of(DataType::Binary, metadata), None);
        }
        assert_eq!(of(DataType::Utf8, "{}"), None);
    }
}
