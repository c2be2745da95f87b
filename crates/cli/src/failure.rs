//! Errors of commands: the line that is printed for each, and its exit code.

use std::{error::Error as StdError, fmt, io, sync::Arc};

use anyhow::Error;
use arrow::error::ArrowError;
use stylobate_server::ServerError;
#[cfg(feature = "sql")]
use stylobate_server::SqlClientError;
use stylobate_storage::{Error as StorageError, nearest_name, redacted};

use crate::out::ReaderGone;

/// An error in the user's input, as opposed to data or storage.
#[derive(Debug)]
pub(crate) struct UsageError(String);

/// Creates an error in the user's input. Its text says how to correct it.
pub(crate) fn usage(text: impl Into<String>) -> Error {
    Error::new(UsageError(text.into()))
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl StdError for UsageError {}

/// Returns 2 for errors in the user's input, the error's own code for a node that did not start, and 1 otherwise.
pub(crate) fn exit_code(error: &Error) -> u8 {
    use stylobate_columnar::Error as Columnar;
    use stylobate_datagen::Error as Datagen;

    if let Some(error) = error.downcast_ref::<ServerError>() {
        return error.exit_code();
    }

    let mistyped = matches!(
        error.downcast_ref(),
        Some(Columnar::NoSuchColumn { .. } | Columnar::Predicate { .. } | Columnar::Pattern { .. })
    );

    #[cfg(feature = "sql")]
    let mistyped = mistyped
        || error.downcast_ref().is_some_and(is_wrong_sql)
        || matches!(
            error.downcast_ref(),
            Some(SqlClientError::Url { .. } | SqlClientError::Statement { .. })
        );

    let mistyped = mistyped
        || matches!(
            error.downcast_ref(),
            Some(
                Datagen::Scale { .. }
                    | Datagen::Part { .. }
                    | Datagen::NoSuchTable { .. }
                    | Datagen::Output { .. }
                    | Datagen::Occupied { .. }
            )
        );

    #[cfg(feature = "graph")]
    let mistyped = mistyped || error.downcast_ref().is_some_and(is_wrong_graph);

    let mistyped = mistyped || matches!(storage_error(error), Some(StorageError::OriginConfig { .. }));

    if mistyped || error.is::<UsageError>() { 2 } else { 1 }
}

/// Returns the storage error that an error consists of, through the crates that pass it on as it is.
fn storage_error(error: &Error) -> Option<&StorageError> {
    use stylobate_columnar::Error as Columnar;
    use stylobate_datagen::Error as Datagen;

    if let Some(Columnar::Storage(source)) = error.downcast_ref() {
        return Some(source);
    }
    if let Some(Datagen::Storage(source)) = error.downcast_ref() {
        return Some(source);
    }
    #[cfg(feature = "sql")]
    if let Some(stylobate_datafusion::Error::Scan(Columnar::Storage(source))) = error.downcast_ref() {
        return Some(source);
    }
    #[cfg(feature = "graph")]
    if let Some(
        stylobate_graph::Error::Storage(source) | stylobate_graph::Error::Columnar(Columnar::Storage(source)),
    ) = error.downcast_ref()
    {
        return Some(source);
    }

    error.downcast_ref()
}

/// Returns true if the statement itself is wrong, as opposed to the data that it reads.
#[cfg(feature = "sql")]
fn is_wrong_sql(error: &stylobate_datafusion::Error) -> bool {
    use stylobate_columnar::Error as Columnar;
    use stylobate_datafusion::Error as Sql;

    matches!(error, Sql::Query { .. } | Sql::NoSuchTable { .. } | Sql::Scan(Columnar::Pattern { .. }))
}

/// Returns true if the user named something that the graph does not have, or described it incorrectly.
#[cfg(feature = "graph")]
fn is_wrong_graph(error: &stylobate_graph::Error) -> bool {
    use stylobate_columnar::Error as Columnar;
    use stylobate_graph::Error;

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

/// Formats the error and its causes in one line. Omits causes that are already quoted.
pub(crate) fn in_one_line(error: &Error) -> String {
    if let Some(line) = error.downcast_ref().and_then(unknown_column) {
        return line;
    }
    #[cfg(feature = "graph")]
    if let Some(line) = error.downcast_ref().and_then(unknown_in_graph) {
        return line;
    }

    let mut line = String::new();
    for cause in error.chain() {
        let text = cause.to_string();
        // Errors of object store clients may quote signed URLs.
        let text = if line.is_empty() { text.into() } else { redacted(&text) };
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");

        if line.is_empty() {
            line = text;
        } else if !line.contains(&text) {
            line = format!("{line}: {text}");
        }
    }

    line
}

/// Returns true if the reader of standard output closed the pipe.
pub(crate) fn is_closed_pipe(error: &Error) -> bool {
    let closed = |error: &io::Error| error.get_ref().is_some_and(|cause| cause.is::<ReaderGone>());
    error.chain().any(|cause| {
        cause.downcast_ref().is_some_and(closed)
            // `ArrowError` does not expose the wrapped error as its source.
            || arrow_error(cause).is_some_and(|error| matches!(error, ArrowError::IoError(_, error) if closed(error)))
    })
}

fn arrow_error<'a>(cause: &'a (dyn StdError + 'static)) -> Option<&'a ArrowError> {
    cause.downcast_ref().or_else(|| cause.downcast_ref::<Arc<ArrowError>>().map(|error| &**error))
}

/// Suggests the most similar column, or lists the first columns: a file may have thousands.
fn unknown_column(error: &stylobate_columnar::Error) -> Option<String> {
    const MAX_LISTED_COLUMNS: usize = 30;

    let stylobate_columnar::Error::NoSuchColumn { column, available } = error else { return None };
    let names: Vec<&str> = available.split(", ").collect();

    Some(match nearest_name(column, names.iter().copied()) {
        Some(name) => format!("no column {column}; did you mean {name}?"),
        None if names.len() > MAX_LISTED_COLUMNS => {
            let first = &names[..MAX_LISTED_COLUMNS];
            let more = names.len() - MAX_LISTED_COLUMNS;
            format!("no column {column}; available: {} and {more} more", first.join(", "))
        }
        None => format!("no column {column}; available: {available}"),
    })
}

/// Suggests the most similar type or property of a graph.
#[cfg(feature = "graph")]
fn unknown_in_graph(error: &stylobate_graph::Error) -> Option<String> {
    use stylobate_graph::Error;

    let (asked, unknown, available) = match error {
        Error::NoSuchVertexType { name, available } => (name, format!("no vertex type {name}"), available),
        Error::NoSuchEdgeType { name, available } => (name, format!("no edge type {name}"), available),
        Error::NoSuchProperty { of, property, available } => {
            (property, format!("{of} has no property {property}"), available)
        }
        _ => return None,
    };

    let meant = nearest_name(asked, available.split(", "))?;
    Some(format!("{unknown}; did you mean {meant}?"))
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;
    use crate::out::of_output;

    #[test]
    fn an_error_is_one_line_that_says_nothing_twice() {
        let error = anyhow!("a\n  b").context("opening: a b").context("starting");
        assert_eq!(in_one_line(&error), "starting: opening: a b");
        let error = anyhow!("GET https://h/x?sig=secret failed").context("x: GET https://h/x?*** failed");
        assert_eq!(in_one_line(&error), "x: GET https://h/x?*** failed");
    }

    #[test]
    fn the_column_that_was_meant_is_named_and_otherwise_some_that_there_are() {
        let no = |column: &str, available: &str| {
            let column = column.to_owned();
            let available = available.to_owned();
            in_one_line(&Error::new(stylobate_columnar::Error::NoSuchColumn { column, available }))
        };

        assert_eq!(no("l_shipmod", "a, l_shipmode"), "no column l_shipmod; did you mean l_shipmode?");
        assert_eq!(no("nmae", "id, name"), "no column nmae; did you mean name?");
        assert_eq!(no("CITY", "name, address.city"), "no column CITY; did you mean address.city?");
        assert_eq!(no("zebra", "a, b"), "no column zebra; available: a, b");
        let many: Vec<_> = (0..40).map(|n| format!("column{n:03}")).collect();
        assert!(no("zebra", &many.join(", ")).ends_with("column029 and 10 more"));
    }

    #[cfg(feature = "graph")]
    #[test]
    fn what_a_graph_does_not_have_is_named_with_what_was_probably_meant() {
        let name = "persn".to_owned();
        let available = "person, movie".to_owned();
        let error = Error::new(stylobate_graph::Error::NoSuchVertexType { name, available });
        assert_eq!(in_one_line(&error), "no vertex type persn; did you mean person?");
        assert_eq!(exit_code(&error), 2);
        let of = "vertex type x".to_owned();
        let property = "zebra".to_owned();
        let available = "a, b".to_owned();
        let error = Error::new(stylobate_graph::Error::NoSuchProperty { of, property, available });
        assert_eq!(in_one_line(&error), "vertex type x has no property zebra; available: a, b");
    }

    #[test]
    fn what_was_mistyped_has_another_exit_code_than_what_is_broken() {
        assert_eq!(exit_code(&usage("no")), 2);
        assert_eq!(exit_code(&usage("no").context("while")), 2);
        assert_eq!(exit_code(&anyhow!("no")), 1);
        let reason = "no".to_owned();
        assert_eq!(exit_code(&Error::new(stylobate_columnar::Error::Predicate { reason })), 2);
    }

    #[test]
    fn a_wrong_url_or_store_option_is_mistyped_whoever_opens_it() {
        let wrong = || StorageError::OriginConfig { url: "s4://x".into(), reason: "unknown".into() };
        assert_eq!(exit_code(&Error::new(wrong())), 2);
        assert_eq!(exit_code(&Error::new(stylobate_columnar::Error::Storage(wrong()))), 2);
        assert_eq!(exit_code(&Error::new(stylobate_datagen::Error::Storage(wrong()))), 2);
        #[cfg(feature = "graph")]
        assert_eq!(exit_code(&Error::new(stylobate_graph::Error::Storage(wrong()))), 2);
        let missing = StorageError::NotFound { path: "x".into() };
        assert_eq!(exit_code(&Error::new(stylobate_columnar::Error::Storage(missing))), 1);
    }

    #[test]
    fn a_closed_pipe_is_found_wherever_it_is_wrapped() {
        let of_the_network = || io::Error::from(io::ErrorKind::BrokenPipe);
        let closed = || of_output(of_the_network());
        assert!(!is_closed_pipe(&Error::new(of_the_network()).context("writing")));
        assert!(is_closed_pipe(&Error::new(closed()).context("writing")));
        assert!(is_closed_pipe(&ArrowError::IoError("x".to_owned(), closed()).into()));
        let source = Arc::new(ArrowError::from(closed()));
        assert!(is_closed_pipe(&Error::new(stylobate_columnar::Error::Arrow {
            context: "x".to_owned(),
            source
        })));

        assert!(!is_closed_pipe(&anyhow!("x")));
    }
}
