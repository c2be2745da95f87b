//! Errors of graphs that are mistakes in the command line.

use stylobate_columnar::Error as Columnar;
use stylobate_graph::Error;

use crate::failure::nearest;

/// Returns whether the user named something that is not there, or described it wrongly.
pub(crate) fn is_mistyped(error: &Error) -> bool {
    matches!(
        error,
        Error::NoGraphFile { .. }
            | Error::NoSuchVertexType { .. }
            | Error::NoSuchEdgeType { .. }
            | Error::NoSuchProperty { .. }
            | Error::NoSuchLabel { .. }
            | Error::NoSuchAdjacency { .. }
            | Error::NoSuchVertex { .. }
            | Error::StoreExists { .. }
            | Error::Schema { .. }
            | Error::Columnar(Columnar::NoSuchColumn { .. } | Columnar::Pattern { .. })
    )
}

/// Suggests the most similar type or property of a graph.
pub(crate) fn unknown_name(error: &Error) -> Option<String> {
    let (asked, unknown, available) = match error {
        Error::NoSuchVertexType { name, available } => {
            (name, format!("there is no vertex type {name}"), available)
        }
        Error::NoSuchEdgeType { name, available } => {
            (name, format!("there is no edge type {name}"), available)
        }
        Error::NoSuchProperty { of, property, available } => {
            (property, format!("{of} has no property {property}"), available)
        }
        _ => return None,
    };

    let meant = nearest(asked, &available.split(", ").collect::<Vec<_>>())?;
    Some(format!("{unknown}; did you mean {meant}?"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::{exit_code, in_one_line};

    #[test]
    fn what_is_not_there_is_named_with_what_was_probably_meant() {
        let name = "persn".to_owned();
        let available = "person, movie".to_owned();
        let error = anyhow::Error::new(Error::NoSuchVertexType { name, available });
        assert_eq!(in_one_line(&error), "there is no vertex type persn; did you mean person?");
        assert_eq!(exit_code(&error), 2);
        let of = "vertex type x".to_owned();
        let property = "zebra".to_owned();
        let available = "a, b".to_owned();
        let error = anyhow::Error::new(Error::NoSuchProperty { of, property, available });
        assert_eq!(in_one_line(&error), "vertex type x has no property zebra: there are a, b");
    }
}
