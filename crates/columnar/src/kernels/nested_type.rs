//! Looks for types within nested types.

use arrow::datatypes::{DataType, FieldRef};

/// Returns whether a type, or one that it contains, passes a test. Union types are not searched.
pub(crate) fn contains_type(data_type: &DataType, passes: fn(&DataType) -> bool) -> bool {
    let of_field = |field: &FieldRef| contains_type(field.data_type(), passes);
    match data_type {
        found if passes(found) => true,
        DataType::Dictionary(_, values) => contains_type(values, passes),
        DataType::RunEndEncoded(_, field)
        | DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => of_field(field),
        DataType::Struct(fields) => fields.iter().any(of_field),
        _ => false,
    }
}
