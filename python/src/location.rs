//! Paths and URLs given by users.

use pyo3::prelude::*;

use crate::errors::ErrorClass;

/// Returns a path-like Python value as a string.
pub(crate) fn text(path: &Bound<'_, PyAny>) -> PyResult<String> {
    path.py().import("os")?.getattr("fsdecode")?.call1((path,))?.extract()
}

/// Returns a URL unchanged, and a local path as an absolute one: the working directory may change before it is used.
///
/// An empty path is an error: it would be the working directory, and is usually an unset variable.
pub(crate) fn location(path: &Bound<'_, PyAny>) -> PyResult<String> {
    let given = text(path)?;
    if given.is_empty() {
        return Err(ErrorClass::Config.error(path.py(), "a path is empty: write . for the current folder"));
    }
    if given.contains("://") {
        return Ok(given);
    }

    let os = path.py().import("os")?;
    let paths = path.py().import("os.path")?;
    let from = os.getattr("getcwd")?.call0()?;
    let absolute = paths.getattr("join")?.call1((from, paths.getattr("expanduser")?.call1((given,))?))?;
    let text: String = absolute.extract()?;
    if !text.split('/').any(|part| part == "..") {
        return Ok(text);
    }

    // `..` after a symbolic link must be resolved by the system.
    let real: String = paths.getattr("realpath")?.call1((&text,))?.extract()?;
    Ok(if text.ends_with('/') { real + "/" } else { real })
}

/// Returns whether a location is local, where checking the version of a file is cheap.
pub(crate) fn is_local(location: &str) -> bool {
    !location.contains("://") || location.starts_with("file://")
}
