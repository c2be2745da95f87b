//! The formats that are read front to back, and how a name or the first bytes tell one.

use stylobate_storage::OpenObject;

use super::{CsvOptions, JsonOptions};
use crate::{Cache, Error, Result, Source};

/// What the files are, and how they are read.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum SequentialFormat {
    /// Comma-separated values, or with another delimiter.
    Csv(CsvOptions),
    /// JSON objects, one after another as in JSON lines, or in one array.
    Json(JsonOptions),
    /// Arrow IPC: the file format and the stream format, which the first bytes tell apart.
    Arrow,
}

/// Endings of files that are not read front to back.
const COLUMNAR: [&str; 4] = [".parquet", ".parq", ".pq", ".orc"];
/// Endings of compressed files, which stand after that of the format.
const COMPRESSED: [&str; 3] = [".gz", ".zst", ".zstd"];

impl SequentialFormat {
    /// The format that the ending of a path, URL or pattern names, with default options; `None` if it names none of
    /// these.
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

    /// The format of what lies at a source, by the endings of its files or else the first bytes of the first one;
    /// `None` if they tell none of these.
    ///
    /// # Errors
    ///
    /// As [`Source::files`], and [`Error::Pattern`] if the endings tell several formats.
    pub async fn detect(source: &Source, cache: &Cache) -> Result<Option<Self>> {
        let files = source.files(cache).await?;
        let mut formats = files.iter().map(|(_, path)| Self::of_path(path.as_ref()));
        let Some(first) = formats.next() else { return Ok(None) };

        let kind = |format: &Option<Self>| format.as_ref().map(std::mem::discriminant);
        if formats.any(|other| kind(&other) != kind(&first)) {
            let pattern = match source {
                Source::Url { url, .. } => stylobate_storage::without_credentials(url),
                Source::Store { pattern, .. } => pattern.clone(),
            };
            let reason = "there are files of several formats: name one, or a pattern".to_owned();
            return Err(Error::Pattern { pattern, reason });
        }
        if first.is_some() {
            return Ok(first);
        }
        let Some((store, path)) = files.first() else { return Ok(None) };
        let name = path.as_ref().to_ascii_lowercase();
        if COLUMNAR.iter().any(|ending| name.ends_with(ending)) {
            return Ok(None);
        }
        let object = store.open_object(path).await?;
        Ok(is_arrow(&object).await?.then_some(Self::Arrow))
    }
}

/// Whether an object begins as Arrow IPC does.
async fn is_arrow(object: &OpenObject) -> Result<bool> {
    let range = 0..object.meta().size.min(ARROW_FILE.len() as u64);
    let first = object.read(std::slice::from_ref(&range)).await?.pop().unwrap_or_default();
    Ok(first.starts_with(ARROW_FILE) || first.starts_with(ARROW_STREAM))
}

/// What an Arrow IPC file begins with.
pub(super) const ARROW_FILE: &[u8] = b"ARROW1";
/// What each message of an Arrow IPC stream begins with.
pub(super) const ARROW_STREAM: &[u8] = &[0xFF; 4];

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
}
