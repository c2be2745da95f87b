//! Logical types that columns have by the extension type of their field: JSON and UUID.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use parquet::{
    basic::LogicalType,
    errors::Result,
    schema::types::{SchemaDescriptor, Type, TypePtr},
};

const JSON: &str = "arrow.json";
const UUID: &str = "arrow.uuid";
/// Bytes of a UUID.
const UUID_WIDTH: i32 = 16;

/// The schema of a file whose columns are of these fields, with the logical types that these ask for.
pub(super) fn with_logical_types<'f>(
    schema: SchemaDescriptor,
    fields: impl ExactSizeIterator<Item = &'f FieldRef>,
) -> Result<SchemaDescriptor> {
    let root = schema.root_schema();
    let columns = root.get_fields().iter().zip(fields);
    let columns = columns.map(|(column, field)| annotated(column, field)).collect::<Result<Vec<_>>>()?;
    let is_same = root.get_fields().iter().zip(&columns).all(|(before, after)| Arc::ptr_eq(before, after));
    if is_same {
        return Ok(schema);
    }
    let root = Type::group_type_builder(root.name()).with_fields(columns).build()?;
    Ok(SchemaDescriptor::new(Arc::new(root)))
}

/// The same type, or one with other logical types.
fn annotated(column: &TypePtr, field: &Field) -> Result<TypePtr> {
    if column.is_primitive() {
        return annotated_leaf(column, field);
    }
    let children = column.get_fields();
    let changed = match (field.data_type(), children) {
        (DataType::Struct(fields), children) if fields.len() == children.len() => {
            let each = children.iter().zip(fields);
            each.map(|(child, field)| annotated(child, field)).collect::<Result<Vec<_>>>()?
        }
        (
            DataType::List(item)
            | DataType::LargeList(item)
            | DataType::ListView(item)
            | DataType::LargeListView(item)
            | DataType::FixedSizeList(item, _),
            [repeated],
        ) => vec![with_children(repeated, &[item.as_ref()])?],
        (DataType::Map(entries, _), [repeated]) => match entries.data_type() {
            DataType::Struct(fields) => {
                let fields: Vec<&Field> = fields.iter().map(AsRef::as_ref).collect();
                vec![with_children(repeated, &fields)?]
            }
            _ => return Ok(column.clone()),
        },
        _ => return Ok(column.clone()),
    };
    rebuilt(column, changed)
}

/// The repeated group of a list or a map, whose children are of these fields.
fn with_children(group: &TypePtr, fields: &[&Field]) -> Result<TypePtr> {
    if group.is_primitive() || group.get_fields().len() != fields.len() {
        return Ok(group.clone());
    }
    let children = group.get_fields().iter().zip(fields);
    let children = children.map(|(child, field)| annotated(child, field)).collect::<Result<Vec<_>>>()?;
    rebuilt(group, children)
}

/// A group with other children, or itself.
fn rebuilt(group: &TypePtr, children: Vec<TypePtr>) -> Result<TypePtr> {
    let is_same = group.get_fields().iter().zip(&children).all(|(before, after)| Arc::ptr_eq(before, after));
    if is_same {
        return Ok(group.clone());
    }
    let info = group.get_basic_info();
    let builder = Type::group_type_builder(group.name())
        .with_repetition(info.repetition())
        .with_converted_type(info.converted_type())
        .with_logical_type(info.logical_type_ref().cloned())
        .with_id(info.has_id().then(|| info.id()))
        .with_fields(children);
    builder.build().map(Arc::new)
}

fn annotated_leaf(leaf: &TypePtr, field: &Field) -> Result<TypePtr> {
    let (logical, width) = match (field.extension_type_name(), field.data_type()) {
        (Some(JSON), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) => (LogicalType::Json, -1),
        (Some(UUID), DataType::FixedSizeBinary(UUID_WIDTH)) => (LogicalType::Uuid, UUID_WIDTH),
        _ => return Ok(leaf.clone()),
    };
    let info = leaf.get_basic_info();
    let builder = Type::primitive_type_builder(leaf.name(), leaf.get_physical_type())
        .with_repetition(info.repetition())
        .with_logical_type(Some(logical))
        .with_length(width)
        .with_id(info.has_id().then(|| info.id()));
    builder.build().map(Arc::new)
}
