//! Resolves dotted names of nested columns, the same way for filters, pruning and outputs.

use arrow::datatypes::{DataType, FieldRef, Fields};

/// Returns the fields on the path of a dotted name through structs, from the top-level column to the named field, each
/// with its index among its siblings. A field whose own name has the dots takes precedence over a nested one, and a
/// longer prefix over a shorter one. Filters, pruning and outputs must agree on it.
pub(crate) fn field_path<'f>(fields: &'f Fields, name: &str) -> Option<Vec<(usize, &'f FieldRef)>> {
    if let Some(found) = fields.find(name) {
        return Some(vec![found]);
    }

    name.rmatch_indices('.').find_map(|(dot, _)| {
        let (at, field) = fields.find(name.get(..dot)?)?;
        let DataType::Struct(children) = field.data_type() else { return None };
        let below = field_path(children, name.get(dot + 1..)?)?;
        Some(std::iter::once((at, field)).chain(below).collect())
    })
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::Field;

    use super::*;

    #[test]
    fn a_dotted_name_is_split_after_the_longest_prefix_that_leads_to_a_field() {
        let int = |name: &str| Field::new(name, DataType::Int64, true);
        let group = |name: &str, fields: Vec<Field>| Field::new(name, DataType::Struct(fields.into()), true);
        let nested = group("a", vec![group("b", vec![int("c"), int("d")])]);
        let fields: Fields = vec![nested, group("a.b", vec![int("c")])].into();
        let indices = |name: &str| -> Option<Vec<usize>> {
            Some(field_path(&fields, name)?.iter().map(|(at, _)| *at).collect())
        };

        assert_eq!(indices("a.b"), Some(vec![1]));
        assert_eq!(indices("a.b.c"), Some(vec![1, 0]));
        assert_eq!(indices("a.b.d"), Some(vec![0, 0, 1]), "a shorter prefix leads to it");
        assert_eq!(indices("a.c"), None);
    }
}
