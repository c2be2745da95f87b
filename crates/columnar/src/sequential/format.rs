//! The formats that are read front to back, and their detection by name or first bytes.

use arrow::datatypes::DataType;
use async_recursion::async_recursion as boxed;
use stylobate_storage::OpenObject;

use super::{
    CsvOptions, JsonOptions,
    bytes::{GZIP, ZSTD},
};
use crate::{Cache, Error, Result, Source};

/// Format of the files, and the options to read them with.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum SequentialFormat {
    /// Comma-separated values, or with another delimiter.
    Csv(CsvOptions),
    /// JSON objects, one after another as in JSON lines, or in one array.
    Json(JsonOptions),
    /// Arrow IPC: the file format and the stream format, distinguished by the first bytes.
    Arrow,
}

/// Extensions of Parquet and ORC files.
const COLUMNAR: [&str; 5] = [".parquet", ".parq", ".pq", ".orc", ".parquet.snappy"];
/// Extensions of compressed files, after that of the format.
const COMPRESSED: [&str; 3] = [".gz", ".zst", ".zstd"];
/// Magic numbers of Parquet, encrypted Parquet and ORC.
const COLUMNAR_MAGIC: [&[u8]; 3] = [b"PAR1", b"PARE", b"ORC"];
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Result of comparing a format with the one that a file's name implies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameMatch {
    /// The same format.
    Same,
    /// Another format.
    Other,
    /// The name implies no format.
    Unknown,
}

impl SequentialFormat {
    /// Returns the format that the extension of a path, URL or pattern implies, with default options; `None` if it
    /// implies none of these.
    pub fn of_path(path: &str) -> Option<Self> {
        let path = match path.split_once("://") {
            Some((scheme, rest)) if scheme.starts_with("http") => {
                rest.split(['?', '#']).next().unwrap_or_default()
            }
            _ => path,
        };

        let lower = path.to_ascii_lowercase();
        let plain = COMPRESSED.iter().find_map(|ending| lower.strip_suffix(ending)).unwrap_or(&lower);
        let (_, ending) = plain.rsplit_once('.')?;

        match ending {
            "csv" => Some(Self::Csv(CsvOptions::default())),
            "tsv" => Some(Self::Csv(CsvOptions::default().with_delimiter(b'\t'))),
            "json" | "jsonl" | "ndjson" => Some(Self::Json(JsonOptions::default())),
            "arrow" | "arrows" | "feather" | "ipc" => Some(Self::Arrow),
            _ => None,
        }
    }

    /// Returns the format of the files of a source by their extensions, or else by the first bytes of the first file;
    /// `None` if it is none of these.
    ///
    /// # Errors
    ///
    /// Those of [`Source::files`], and [`Error::Pattern`] if the extensions imply several formats.
    #[boxed]
    pub async fn detect(source: &Source, cache: &Cache) -> Result<Option<Self>> {
        let files = source.files(cache).await?;
        let mut formats = files.iter().map(|(_, path)| Self::of_path(path.as_ref()));
        let Some(first) = formats.next() else { return Ok(None) };

        let kind = |format: &Option<Self>| format.as_ref().map(std::mem::discriminant);
        if formats.any(|other| kind(&other) != kind(&first)) {
            let reason = "there are files of several formats: name one, or a pattern".to_owned();
            return Err(Error::Pattern { pattern: source_name(source), reason });
        }
        if first.is_some() {
            return Ok(first);
        }
        let Some((store, path)) = files.first() else { return Ok(None) };
        if is_columnar(path.as_ref()) {
            return Ok(None);
        }

        let object = store.open_object(path).await?;
        Ok(is_arrow(&object).await?.then_some(Self::Arrow))
    }

    /// Returns the name of the format, for errors.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Csv(_) => "CSV",
            Self::Json(_) => "JSON",
            Self::Arrow => "Arrow IPC",
        }
    }

    /// Returns the types of columns that are not inferred.
    pub(super) fn types(&self) -> &[(String, DataType)] {
        match self {
            Self::Csv(options) => &options.types,
            Self::Json(options) => &options.types,
            Self::Arrow => &[],
        }
    }

    /// Compares this format with the one that the extension of a path implies.
    pub(super) fn match_name(&self, path: &str) -> NameMatch {
        match Self::of_path(path) {
            Some(named) if std::mem::discriminant(&named) == std::mem::discriminant(self) => NameMatch::Same,
            Some(_) => NameMatch::Other,
            None if is_columnar(path) => NameMatch::Other,
            None => NameMatch::Unknown,
        }
    }

    /// Returns `true` if a file of this format may begin with these bytes.
    pub(super) fn matches_prefix(&self, first: &[u8]) -> bool {
        let begins_with_any = |magic: &[&[u8]]| magic.iter().any(|magic| first.starts_with(magic));
        let has_arrow_magic = begins_with_any(&[ARROW_FILE, ARROW_STREAM, FEATHER_V1]);
        match self {
            Self::Arrow => has_arrow_magic,
            Self::Csv(_) => {
                // A column name may spell a magic number, but has no control characters.
                let has_control =
                    first.iter().any(|byte| byte.is_ascii_control() && !byte.is_ascii_whitespace());
                !((has_arrow_magic || begins_with_any(&COLUMNAR_MAGIC)) && has_control)
            }
            Self::Json(_) => {
                let text = first.strip_prefix(BYTE_ORDER_MARK).unwrap_or(first).trim_ascii_start();
                text.starts_with(b"{") || text.starts_with(b"[") || begins_with_any(&[GZIP, ZSTD])
            }
        }
    }
}

/// Returns the path, URL or pattern of a source as given, without credentials.
pub(super) fn source_name(source: &Source) -> String {
    match source {
        Source::Url { url, .. } => stylobate_storage::without_credentials(url),
        Source::Store { pattern, .. } => pattern.clone(),
    }
}

/// Returns `true` if a path has the extension of a Parquet or ORC file.
fn is_columnar(path: &str) -> bool {
    let lower = path.to_ascii_lowercase();
    COLUMNAR.iter().any(|ending| lower.ends_with(ending))
}

/// Returns `true` if an object begins as an Arrow IPC file or stream does.
async fn is_arrow(object: &OpenObject) -> Result<bool> {
    let range = 0..object.meta().size.min(ARROW_FILE.len() as u64);
    let first = object.read(std::slice::from_ref(&range)).await?.pop().unwrap_or_default();
    Ok(first.starts_with(ARROW_FILE) || first.starts_with(ARROW_STREAM))
}

/// Magic number of an Arrow IPC file.
pub(super) const ARROW_FILE: &[u8] = b"ARROW1";
/// Continuation marker at the beginning of each message of an Arrow IPC stream.
pub(super) const ARROW_STREAM: &[u8] = &[0xFF; 4];
/// Magic number of Feather files of version 1.
pub(super) const FEATHER_V1: &[u8] = b"FEA1";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ending_tells_the_format_in_any_case_and_below_that_of_a_compression() {
        let of = |path: &str| {
            SequentialFormat::of_path(path).map(|format| match format {
                SequentialFormat::Csv(options) => format!("csv {:?}", options.delimiter),
                SequentialFormat::Json(_) => "json".to_owned(),
                SequentialFormat::Arrow => "arrow".to_owned(),
            })
        };

        assert_eq!(of("a.CSV").as_deref(), Some("csv 44"));
        assert_eq!(of("b/*.tsv.gz").as_deref(), Some("csv 9"));
        assert_eq!(of("s3://b/a.b/c.jsonl.zst").as_deref(), Some("json"));
        assert_eq!(of("https://h/a.ndjson?sig=x.csv").as_deref(), Some("json"));
        for path in ["a.arrow", "a.arrows", "a.feather", "a.ipc"] {
            assert_eq!(of(path).as_deref(), Some("arrow"), "{path}");
        }
        for path in ["a.parquet", "a.orc", "a", "a.csv/", "csv", "a.gz"] {
            assert_eq!(of(path), None, "{path}");
        }
    }

    #[test]
    fn a_name_or_the_first_bytes_fit_a_format_that_was_named() {
        let csv = SequentialFormat::Csv(CsvOptions::default());
        let json = SequentialFormat::Json(JsonOptions::default());
        let arrow = SequentialFormat::Arrow;
        assert_eq!(csv.match_name("a/b.TSV.gz"), NameMatch::Same);
        assert_eq!(csv.match_name("a/b.csv/part-0"), NameMatch::Unknown);

        for path in ["b.json", "b.parquet.snappy", "b.ORC", "b.arrow"] {
            assert_eq!(csv.match_name(path), NameMatch::Other, "{path}");
        }

        let formats = |first: &[u8]| [&csv, &json, &arrow].map(|format| format.matches_prefix(first));
        assert_eq!(formats(b"a,b\n1,2\n"), [true, false, false]);
        assert_eq!(formats(b"ORCID,PAR1\n1,2\n"), [true, false, false]);
        assert_eq!(formats(b"\xEF\xBB\xBF \n{\"a\": 1}"), [true, true, false]);
        assert_eq!(formats(b"\x1F\x8B\x08"), [true, true, false]);
        assert_eq!(formats(b"PAR1\x15\x00"), [false, false, false]);
        assert_eq!(formats(b"ORC\x0A\x04"), [false, false, false]);
        assert_eq!(formats(b"ARROW1\0\0"), [false, false, true]);
        assert_eq!(formats(b"\xFF\xFF\xFF\xFF\x10\0"), [false, false, true]);
    }
}
