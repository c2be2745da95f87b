//! Finds the files of a scan: one, those of a folder, or those that a pattern names; and what their paths say.

use futures::TryStreamExt;
use glob::{MatchOptions, Pattern};
use object_store::path::Path;
use percent_encoding::percent_decode_str;
use stylobate_storage::{ReadThrough, split_object_url, without_credentials};
use url::Url;

use crate::{Cache, Error, Result};

/// Where files are looked for. Both forms take a file, a folder, or a pattern with `*`, `?`, `[…]` and `**`; a folder
/// is read with all its subfolders, and `name=value` in its paths become columns.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Source {
    /// A local path or a URL.
    Url {
        /// `DIR`, `file://`, `s3://`, `gs://`, `az://`, `http(s)://`.
        url: String,
        /// Keys of the object_store crate, such as `endpoint` and `region`.
        options: Vec<(String, String)>,
    },
    /// A path or pattern within a store that is open already.
    Store {
        /// The store.
        store: ReadThrough,
        /// The path or pattern.
        pattern: String,
    },
}

impl Source {
    /// The store, and the path within it of the file or folder that this names when nothing in it is a wildcard.
    ///
    /// # Errors
    ///
    /// [`Error::Pattern`] if it cannot be understood, and what opening the store says.
    pub fn literal(&self, cache: &Cache) -> Result<(ReadThrough, Path)> {
        let place = place(self, cache, true)?;
        let path = Path::parse(place.whole.trim_end_matches('/'));
        let path =
            path.map_err(|error| Error::Pattern { pattern: place.given, reason: error.to_string() })?;
        Ok((place.store, path))
    }

    /// The files that this names, in the order of their paths, each with its store: for readers of other formats than
    /// those of scans. Beside Parquet and ORC files in a folder, others do not count.
    ///
    /// # Errors
    ///
    /// [`Error::NoFiles`] if there are none, and as [`Self::literal`].
    pub async fn files(&self, cache: &Cache) -> Result<Vec<(ReadThrough, Path)>> {
        let files = locate_named(self, cache).await?;
        Ok(files.into_iter().map(|file| (file.store, file.path)).collect())
    }
}

impl<U: Into<String>> From<U> for Source {
    fn from(url: U) -> Self {
        Self::Url { url: url.into(), options: Vec::new() }
    }
}

/// A file that is to be scanned.
#[derive(Clone, Debug)]
pub(crate) struct LocatedFile {
    pub(crate) store: ReadThrough,
    pub(crate) path: Path,
    /// The values that folders named `name=value` give, in the order of the path; `None` is null.
    pub(crate) partitions: Vec<(String, Option<String>)>,
    /// Whether it was named, by its path or by its ending: then it is an error if it is neither Parquet nor ORC. Other
    /// files of a folder are left out where their bytes say that they are something else.
    pub(crate) is_named: bool,
}

/// How paths are understood.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathOptions {
    /// Whether `*`, `?`, `[…]` and `**` are wildcards.
    pub(crate) glob: bool,
    /// Whether folders named `name=value` give columns.
    pub(crate) hive: bool,
}

impl Default for PathOptions {
    fn default() -> Self {
        Self { glob: true, hive: true }
    }
}

/// How Hive spells null.
const NULL: &str = "__HIVE_DEFAULT_PARTITION__";
const ENDINGS: [&str; 5] = [".parquet", ".parq", ".pq", ".orc", ".parquet.snappy"];
const WILDCARDS: [char; 3] = ['*', '?', '['];
const OPTIONS: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: true };

/// A source taken apart.
struct ParsedSource {
    store: ReadThrough,
    /// What was asked for, for errors: without credentials.
    given: String,
    /// The whole path, wildcards and all.
    whole: String,
    /// The part before the first wildcard, up to a slash.
    base: String,
    /// What lies below the base must match this.
    pattern: Option<Pattern>,
    /// It can be nothing but a file: a URL with a query names one.
    is_file: bool,
}

/// What a pattern is held against.
#[derive(Clone, Copy)]
enum GlobTarget {
    Files,
    /// The folders around files.
    Folders,
}

/// The files of a source, in the order of their paths. With `only`, just that one, without a listing.
pub(crate) async fn locate(
    source: &Source,
    cache: &Cache,
    options: PathOptions,
    only: Option<&str>,
) -> Result<Vec<LocatedFile>> {
    let mut located = locate_all(source, cache, options.glob, only).await?;
    if !options.hive {
        located.iter_mut().for_each(|file| file.partitions.clear());
    }
    Ok(located)
}

/// The files of a source for readers that do not look at what a file is: of a folder those whose endings say it, if any
/// does.
pub(crate) async fn locate_named(source: &Source, cache: &Cache) -> Result<Vec<LocatedFile>> {
    let mut files = locate(source, cache, PathOptions::default(), None).await?;
    if files.iter().any(|file| file.is_named) {
        files.retain(|file| file.is_named);
    }
    Ok(files)
}

async fn locate_all(
    source: &Source,
    cache: &Cache,
    glob: bool,
    only: Option<&str>,
) -> Result<Vec<LocatedFile>> {
    let mut place = place(source, cache, glob)?;
    if place.pattern.is_some() && place.is_literal().await {
        place = place.without_pattern();
    }
    if let Some(path) = only {
        let Ok(path) = Path::parse(path) else { return Ok(Vec::new()) };
        let file =
            place.located(&path, GlobTarget::Files).or_else(|| place.located(&path, GlobTarget::Folders));
        return Ok(file.into_iter().collect());
    }
    if place.pattern.is_some() {
        return place.list().await;
    }
    if !place.is_file && (place.whole.ends_with('/') || place.base.is_empty()) {
        return place.list().await;
    }
    // A file if there is one of this name, a folder if not.
    let path = place.path()?;
    match place.store.open_object(&path).await {
        Ok(_) => Ok(vec![LocatedFile { store: place.store, path, partitions: Vec::new(), is_named: true }]),
        Err(error) if place.is_file => Err(error.into()),
        Err(error) => match place.list().await {
            Err(Error::NoFiles { .. }) if !matches!(error, stylobate_storage::Error::NotFound { .. }) => {
                Err(error.into())
            }
            Err(Error::Storage(unlisted)) if unlisted.is_unsupported() => Err(error.into()),
            listed => listed,
        },
    }
}

impl ParsedSource {
    fn path(&self) -> Result<Path> {
        Path::parse(&self.base)
            .map_err(|error| Error::Pattern { pattern: self.given.clone(), reason: error.to_string() })
    }

    /// Whether an object has the pattern for its name. Only names with brackets and question marks are asked for, which
    /// are often no patterns: it costs a request.
    async fn is_literal(&self) -> bool {
        let Ok(path) = Path::parse(&self.whole) else { return false };
        self.whole.contains(['[', '?']) && self.store.open_object(&path).await.is_ok()
    }

    /// The same place, whose name is no pattern.
    fn without_pattern(self) -> Self {
        let base = self.whole.trim_end_matches('/').to_owned();
        Self { base, pattern: None, ..self }
    }

    async fn list(self) -> Result<Vec<LocatedFile>> {
        let prefix = self.path()?;
        let listing = self.store.origin().store().list((!self.base.is_empty()).then_some(&prefix));
        let wrong = |error| stylobate_storage::Error::from_origin(&self.given, error);
        let metas: Vec<_> = listing.try_collect().await.map_err(wrong)?;
        let mut paths: Vec<Path> =
            metas.into_iter().filter(|meta| meta.size > 0).map(|meta| meta.location).collect();
        paths.sort_unstable();
        let located = |matched| paths.iter().filter_map(|path| self.located(path, matched)).collect();
        let mut files: Vec<LocatedFile> = located(GlobTarget::Files);
        // A pattern that no file matches, such as `year=*`, may be one of folders.
        if files.is_empty() && self.pattern.is_some() {
            files = located(GlobTarget::Folders);
        }
        if files.is_empty() {
            return Err(Error::NoFiles { pattern: self.given });
        }
        Ok(files)
    }

    /// The file, if it lies below the base and matches the pattern. Hidden ones do not, and those of engines' logs.
    fn located(&self, path: &Path, matched: GlobTarget) -> Option<LocatedFile> {
        let below = match self.base.as_str() {
            "" => path.as_ref(),
            base if path.as_ref() == base => "",
            base => path.as_ref().strip_prefix(base)?.strip_prefix('/')?,
        };
        let matches = match (&self.pattern, matched) {
            (Some(pattern), GlobTarget::Files) => pattern.matches_with(below, OPTIONS),
            (Some(pattern), GlobTarget::Folders) => below.match_indices('/').any(|(slash, _)| {
                let (folder, inner) = below.split_at(slash);
                pattern.matches_with(folder, OPTIONS) && is_visible(inner)
            }),
            (None, _) => is_visible(below),
        };
        let folders = below.rsplit_once('/').map_or("", |(folders, _)| folders);
        let partitions = folders.split('/').filter_map(partition).collect();
        let name = path.as_ref().to_ascii_lowercase();
        let is_named = ENDINGS.iter().any(|ending| name.ends_with(ending));
        matches.then(|| LocatedFile { store: self.store.clone(), path: path.clone(), partitions, is_named })
    }
}

/// Whether no part of a path is hidden, or an engine's own.
fn is_visible(path: &str) -> bool {
    !path.split('/').any(|part| part.starts_with(['.', '_']) && !part.contains('='))
}

fn partition(folder: &str) -> Option<(String, Option<String>)> {
    let (name, value) = folder.split_once('=').filter(|(name, _)| !name.is_empty())?;
    let decode = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    Some((decode(name), (value != NULL).then(|| decode(value))))
}

fn place(source: &Source, cache: &Cache, glob: bool) -> Result<ParsedSource> {
    match source {
        Source::Store { store, pattern } => {
            below(store.clone(), pattern.clone(), pattern.trim_start_matches('/'), glob)
        }
        Source::Url { url, options } if url.contains("://") => {
            let given = without_credentials(url);
            let wrong = |reason: String| Error::Pattern { pattern: given.clone(), reason };
            let parsed = Url::parse(url).map_err(|error| wrong(error.to_string()))?;
            if parsed.scheme() == "file" {
                let path =
                    parsed.to_file_path().map_err(|()| wrong("not a path of this machine".to_owned()))?;
                return local(cache, url, &path, glob);
            }
            // The part before the path, whatever it is made of.
            let (url, query) = match parsed.scheme() {
                "http" | "https" => split_query(url),
                _ => (url.as_str(), None),
            };
            let (authority, path) =
                split_object_url(url).map_err(|_| wrong("its path is not UTF-8".to_owned()))?;
            match query {
                Some(query) => {
                    let store = cache.store(&format!("{authority}/?{query}"), options)?;
                    let whole = path.into_owned();
                    Ok(ParsedSource {
                        store,
                        given,
                        base: whole.clone(),
                        whole,
                        pattern: None,
                        is_file: true,
                    })
                }
                None => below(cache.store(authority, options)?, given, &path, glob),
            }
        }
        Source::Url { url, .. } => local(cache, url, std::path::Path::new(url), glob),
    }
}

/// A web server's URL without its query and fragment, and the query if there is one.
fn split_query(url: &str) -> (&str, Option<&str>) {
    let url = url.split('#').next().unwrap_or(url);
    match url.split_once('?') {
        Some((url, query)) => (url, Some(query).filter(|query| !query.is_empty())),
        None => (url, None),
    }
}

fn local(cache: &Cache, given: &str, path: &std::path::Path, glob: bool) -> Result<ParsedSource> {
    let wrong = |reason: String| Error::Pattern { pattern: given.to_owned(), reason };
    let absolute = std::path::absolute(path).map_err(|error| wrong(error.to_string()))?;
    let text = absolute.to_str().ok_or_else(|| wrong("the path is not UTF-8".to_owned()))?;
    let text = without_parents(text).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Error::NoFiles { pattern: given.to_owned() },
        _ => wrong(error.to_string()),
    })?;
    let slash = if given.ends_with('/') && !text.ends_with('/') { "/" } else { "" };
    // What exists is no pattern.
    let glob = glob && !std::path::Path::new(&text).exists();
    below(
        cache.store("file:///", &[])?,
        given.to_owned(),
        &format!("{}{slash}", text.trim_start_matches('/')),
        glob,
    )
}

/// The path without `..`, which means another folder once links are followed: the system knows which. What follows the
/// last of them may hold wildcards.
fn without_parents(path: &str) -> std::io::Result<String> {
    let Some(end) =
        path.ends_with("/..").then_some(path.len()).or_else(|| path.rfind("/../").map(|at| at + 3))
    else {
        return Ok(path.to_owned());
    };
    let (above, below) = path.split_at(end);
    let real = std::path::Path::new(above).canonicalize()?;
    let real = real.to_str().ok_or_else(|| std::io::Error::other("the path is not UTF-8"))?;
    Ok(format!("{}{below}", real.trim_end_matches('/')))
}

fn below(store: ReadThrough, given: String, path: &str, glob: bool) -> Result<ParsedSource> {
    let whole = path.to_owned();
    let wild = path.find(WILDCARDS).filter(|_| glob);
    let Some(wild) = wild else {
        let base = path.trim_end_matches('/').to_owned();
        return Ok(ParsedSource { store, given, base, whole, pattern: None, is_file: false });
    };
    let slash = path.get(..wild).and_then(|before| before.rfind('/'));
    let (base, pattern) = match slash {
        Some(slash) => (path.get(..slash).unwrap_or(""), path.get(slash + 1..).unwrap_or("")),
        None => ("", path),
    };
    let pattern = Pattern::new(pattern)
        .map_err(|error| Error::Pattern { pattern: given.clone(), reason: error.to_string() })?;
    let base = base.to_owned();
    Ok(ParsedSource { store, given, base, whole, pattern: Some(pattern), is_file: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_a_path_say_the_values_of_columns() {
        assert_eq!(partition("year=2024"), Some(("year".to_owned(), Some("2024".to_owned()))));
        assert_eq!(
            partition("city=S%C3%A3o%20Paulo"),
            Some(("city".to_owned(), Some("São Paulo".to_owned())))
        );
        assert_eq!(partition("x=__HIVE_DEFAULT_PARTITION__"), Some(("x".to_owned(), None)));
        assert_eq!(partition("plain"), None);
        assert_eq!(
            split_query("https://h/a.parquet?sig=a/b?c#d"),
            ("https://h/a.parquet", Some("sig=a/b?c"))
        );
        assert_eq!(split_query("https://h/a.parquet?"), ("https://h/a.parquet", None));
    }

    #[test]
    fn folders_above_are_found_where_links_lead_and_wildcards_behind_them_stay() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(real.join("a/b")).unwrap();
        let path = |text: &str| format!("{}/{text}", real.display());
        assert_eq!(without_parents(&path("a/b/../*.parquet")).unwrap(), path("a/*.parquet"));
        assert_eq!(without_parents(&path("a/b/../../x[1].orc")).unwrap(), path("x[1].orc"));
        assert_eq!(without_parents(&path("a/b/..")).unwrap(), path("a"));
        assert_eq!(without_parents("/*.parquet").unwrap(), "/*.parquet");
        assert!(without_parents(&path("none/../x")).is_err());
    }
}
