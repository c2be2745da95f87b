//! Resolves the dotted names by which callers select columns.

use arrow::datatypes::Fields;

use crate::{field_path::field_path, file::schema::leaves_below};

/// Returns the top-level column that a dotted name begins with, and the names of the fields below it, which may lead
/// through lists and maps. They may not exist: then the column is the shortest prefix.
pub(crate) fn column_path<'n>(fields: &'n Fields, name: &'n str) -> Option<(usize, Vec<&'n str>)> {
    if let Some(path) = field_path(fields, name) {
        let (&(root, _), below) = path.split_first()?;
        return Some((root, below.iter().map(|(_, field)| field.name().as_str()).collect()));
    }

    let split = |dot: usize| -> Option<(usize, Vec<&'n str>)> {
        let (root, _) = fields.find(name.get(..dot)?)?;
        Some((root, name.get(dot + 1..)?.split('.').collect()))
    };
    let has_leaves = |(root, path): &(usize, Vec<&str>)| {
        let field = fields.get(*root);
        field.is_some_and(|field| leaves_below(field, std::slice::from_ref(path)).is_some())
    };
    let longest = name.rmatch_indices('.').filter_map(|(dot, _)| split(dot)).find(has_leaves);
    longest.or_else(|| name.match_indices('.').find_map(|(dot, _)| split(dot)))
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, Field};

    use super::*;

    #[test]
    fn a_name_leads_through_lists_and_the_shortest_prefix_of_a_wrong_one_is_its_column() {
        let group = |children: Vec<Field>| DataType::Struct(children.into());
        let list_of =
            |name: &str| DataType::new_list(group(vec![Field::new(name, DataType::Int64, true)]), true);
        let nested = group(vec![Field::new("c", list_of("x"), true)]);
        let nested = group(vec![Field::new("b", nested, true)]);
        let fields: Fields =
            vec![Field::new("a", nested, true), Field::new("a.b", list_of("y"), true)].into();
        let path = |name: &'static str| column_path(&fields, name);

        assert_eq!(path("a.b"), Some((1, vec![])));
        assert_eq!(path("a.b.y"), Some((1, vec!["y"])));
        assert_eq!(path("a.b.c"), Some((0, vec!["b", "c"])));
        assert_eq!(path("a.b.c.x"), Some((0, vec!["b", "c", "x"])));
        assert_eq!(path("a.b.q"), Some((0, vec!["b", "q"])));
        assert_eq!(path("b.c"), None);
    }
}
