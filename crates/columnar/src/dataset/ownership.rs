//! Recognizes the files of a folder that an earlier data set write created, and that the next one may remove.
//!
//! Such a file has a name of the form that writes generate, and a footer with the mark and the name of this
//! library.

use futures::{StreamExt, TryStreamExt};
use stylobate_storage::{FileSet, FoundFile};

use crate::{Result, file::dataset_mark::TailOrigin, orc, parquet};

/// Footers read concurrently.
const READS: usize = 16;
/// Bytes of the first read: most footers are shorter.
const FIRST_READ: u64 = 64 << 10;
/// Minimum digits of the number of a file.
const DIGITS: usize = 5;
/// Hexadecimal digits of the unique part of a name.
const UNIQUE: usize = 16;

/// Returns the name of a file within its folder. `unique` distinguishes files of concurrent writes.
pub(super) fn part_name(number: usize, unique: Option<&str>, extension: &str) -> String {
    match unique {
        Some(unique) => format!("part-{number:0DIGITS$}-{unique}.{extension}"),
        None => format!("part-{number:0DIGITS$}.{extension}"),
    }
}

/// Returns a random part of names.
pub(super) fn unique_part() -> String {
    format!("{:0UNIQUE$x}", rand::random::<u64>())
}

/// Returns the folder of a file, with a trailing slash; empty if it is in none.
pub(super) fn folder_of(name: &str) -> &str {
    name.rfind('/').and_then(|slash| name.get(..=slash)).unwrap_or_default()
}

/// Returns the names of those `files` that earlier data set writes wrote.
pub(super) async fn own_files(set: &FileSet, files: Vec<FoundFile>) -> Result<Vec<String>> {
    let candidates = files.into_iter().filter(|file| extension_of_part(&file.name).is_some());
    let checked = futures::stream::iter(candidates).map(|file| async move {
        let is_own = is_own(set, &file).await?;
        Ok::<_, crate::Error>(is_own.then_some(file.name))
    });
    let checked: Vec<Option<String>> = checked.buffer_unordered(READS).try_collect().await?;
    Ok(checked.into_iter().flatten().collect())
}

/// Returns `true` if the footer of a file has the mark.
async fn is_own(set: &FileSet, file: &FoundFile) -> Result<bool> {
    let mut length = FIRST_READ;
    loop {
        let Some(end) = set.tail(file, length).await? else { return Ok(false) };

        let origin = match extension_of_part(&file.name) {
            Some("orc") => orc::origin(&end),
            _ => parquet::origin(&end),
        };
        match origin {
            TailOrigin::Dataset => return Ok(true),
            TailOrigin::Foreign => return Ok(false),
            TailOrigin::Needs(needed) if needed <= length || needed > file.size => return Ok(false),
            TailOrigin::Needs(needed) => length = needed,
        }
    }
}

/// Returns the extension of a file whose name has the form that a data set write generates; `None` for others.
fn extension_of_part(name: &str) -> Option<&str> {
    let folders = folder_of(name);
    if !folders.trim_end_matches('/').split('/').all(|folder| folder.is_empty() || folder.contains('=')) {
        return None;
    }

    let (stem, extension) = name.get(folders.len()..)?.rsplit_once('.')?;
    let rest = stem.strip_prefix("part-")?;
    let (number, unique) =
        rest.split_once('-').map_or((rest, None), |(number, unique)| (number, Some(unique)));

    let is_number = number.len() >= DIGITS && number.bytes().all(|byte| byte.is_ascii_digit());
    let is_unique = unique
        .is_none_or(|unique| unique.len() == UNIQUE && unique.bytes().all(|byte| byte.is_ascii_hexdigit()));
    (is_number && is_unique && matches!(extension, "parquet" | "orc")).then_some(extension)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_parts_are_told_from_others() {
        let unique = unique_part();
        for name in [
            part_name(3, None, "parquet"),
            part_name(123_456, Some(&unique), "orc"),
            format!("k=1/x=/{}", part_name(0, Some(&unique), "parquet")),
        ] {
            assert!(extension_of_part(&name).is_some(), "{name}");
        }

        for name in [
            "part-0000.parquet",
            "part-00000.csv",
            "part-00000-abc.parquet",
            "part-00000-6b1f0c2d9e8a7354-c000.parquet",
            "plain/part-00000.parquet",
            "part-00000.snappy.parquet",
        ] {
            assert!(extension_of_part(name).is_none(), "{name}");
        }

        assert_eq!(folder_of("a=1/b=2/x"), "a=1/b=2/");
        assert_eq!(folder_of("x"), "");
    }
}
