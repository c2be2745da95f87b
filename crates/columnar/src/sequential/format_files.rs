//! The files of a source that have the format that the caller named.

use stylobate_storage::OpenObject;

use super::{
    SequentialFormat,
    format::{NameMatch, source_name},
};
use crate::{
    Cache, Error, Result, Source,
    table::locate::{LocatedFile, PathOptions, locate},
};

/// Bytes at the beginning of a file that are examined if its name implies no format.
const PREFIX_BYTES: u64 = 512;

/// Opens the files of a source that have a format, in the order of their paths.
///
/// A source that names one file yields that file, regardless of its name. A folder or pattern yields the files
/// with an extension of the format, and files without a known extension whose first bytes match the format. Any
/// text may be CSV, so first bytes count for CSV only if no file has its extension.
///
/// # Errors
///
/// [`Error::Pattern`] if no file has the format, [`Error::NoFiles`] if there is no file, and storage errors.
pub(super) async fn open_format_files(
    source: &Source,
    cache: &Cache,
    format: &SequentialFormat,
    paths: PathOptions,
) -> Result<Vec<(LocatedFile, OpenObject)>> {
    let located = locate(source, cache, paths, None).await?;
    if let [file] = located.as_slice()
        && names_file(source, cache, file)
    {
        return Ok(vec![(file.clone(), file.store.open_object(&file.path).await?)]);
    }

    let match_of = |file: &LocatedFile| format.match_name(&file.key());
    let is_named = located.iter().any(|file| match_of(file) == NameMatch::Same);
    let uses_bytes = !(is_named && matches!(format, SequentialFormat::Csv(_)));

    let mut objects = Vec::new();
    for file in located {
        let name_match = match_of(&file);
        if name_match == NameMatch::Other || (name_match == NameMatch::Unknown && !uses_bytes) {
            continue;
        }

        let object = file.store.open_object(&file.path).await?;
        if name_match == NameMatch::Same || format.matches_prefix(&prefix(&object).await?) {
            objects.push((file, object));
        }
    }

    if objects.is_empty() {
        let reason = format!("no file there is {} by its name or its first bytes", format.name());
        return Err(Error::Pattern { pattern: source_name(source), reason });
    }

    Ok(objects)
}

/// Returns `true` if a source names this file itself, not a folder or pattern.
fn names_file(source: &Source, cache: &Cache, file: &LocatedFile) -> bool {
    source.literal(cache).is_ok_and(|(_, path)| path == file.path)
}

/// Reads the first bytes of an object.
async fn prefix(object: &OpenObject) -> Result<Vec<u8>> {
    let range = 0..object.meta().size.min(PREFIX_BYTES);
    let first = object.read(std::slice::from_ref(&range)).await?.pop().unwrap_or_default();
    Ok(first.to_vec())
}
