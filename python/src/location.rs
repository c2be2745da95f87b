//! Paths and URLs as users give them.

use pyo3::prelude::*;

/// The text of any Python value that names a file.
pub(crate) fn text(path: &Bound<'_, PyAny>) -> PyResult<String> {
    path.py().import("os")?.getattr("fsdecode")?.call1((path,))?.extract()
}

/// A URL as it is, and a local path from the root: what it is relative to may be another folder when it is used.
pub(crate) fn location(path: &Bound<'_, PyAny>) -> PyResult<String> {
    let given = text(path)?;
    if given.contains("://") {
        return Ok(given);
    }
    let (os, paths) = (path.py().import("os")?, path.py().import("os.path")?);
    let from = os.getattr("getcwd")?.call0()?;
    let absolute = paths.getattr("join")?.call1((from, paths.getattr("expanduser")?.call1((given,))?))?;
    let text: String = absolute.extract()?;
    if !text.split('/').any(|part| part == "..") {
        return Ok(text);
    }
    // The system knows which folder is above one that is a link.
    let real: String = paths.getattr("realpath")?.call1((&text,))?.extract()?;
    Ok(if text.ends_with('/') { real + "/" } else { real })
}

/// Whether a location is on this machine, where asking for the version of a file costs next to nothing.
pub(crate) fn is_local(location: &str) -> bool {
    !location.contains("://") || location.starts_with("file://")
}
