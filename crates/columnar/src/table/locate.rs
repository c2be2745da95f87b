//! Finds the files of a scan (one file, a folder, or the matches of a pattern) and the partition values of their paths.

use std::fmt;

use futures::TryStreamExt;
use glob::{MatchOptions, Pattern};
use object_store::path::Path;
use percent_encoding::percent_decode_str;
use stylobate_storage::{ReadThrough, split_object_url, without_credentials};
use url::Url;

use crate::{Cache, Error, Result};

/// Source of files. Both forms accept a file, a folder, or a pattern with `*`, `?`, `[…]` and `**`. A folder is read
/// with all its subfolders, and folders named `name=value` become columns.
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
    /// A path or pattern within an open store.
    Store {
        /// The store.
        store: ReadThrough,
        /// The path or pattern.
        pattern: String,
    },
}

impl Source {
    /// Returns the store and the path within it, with wildcards taken as plain characters.
    ///
    /// # Errors
    ///
    /// [`Error::Pattern`] if the path or pattern is malformed, and errors of opening the store.
    pub fn literal(&self, cache: &Cache) -> Result<(ReadThrough, Path)> {
        let place = parse_source(self, cache, true)?;
        let path = Path::parse(place.whole.trim_end_matches('/'));
        let path =
            path.map_err(|error| Error::Pattern { pattern: place.given, reason: error.to_string() })?;
        Ok((place.store, path))
    }

    /// Returns the files, in the order of their paths, each with its store: for readers of other formats than those of
    /// scans. Other files in a folder with Parquet or ORC files are ignored.
    ///
    /// # Errors
    ///
    /// [`Error::NoFiles`] if there are none, and the errors of [`Self::literal`].
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

/// Writes the path or URL without credentials.
impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url { url, .. } => f.write_str(&without_credentials(url)),
            Self::Store { store, pattern } => write!(f, "{}/{pattern}", store.origin().name()),
        }
    }
}

/// A file to scan.
#[derive(Clone, Debug)]
pub(crate) struct LocatedFile {
    pub(crate) store: ReadThrough,
    pub(crate) path: Path,
    /// The values of folders named `name=value`, in the order of the path; `None` is null.
    pub(crate) partitions: Vec<(String, Option<String>)>,
    /// True if its path or extension names it, in which case it must be Parquet or ORC. Other files of a folder are
    /// left out if their bytes match neither format.
    pub(crate) is_named: bool,
}

impl LocatedFile {
    /// Returns the file that the path of a source names.
    fn named(store: ReadThrough, path: Path) -> Self {
        Self { store, path, partitions: Vec::new(), is_named: true }
    }
}

/// Options for the interpretation of paths.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathOptions {
    /// Treats `*`, `?`, `[…]` and `**` as wildcards.
    pub(crate) glob: bool,
    /// Turns folders named `name=value` into columns.
    pub(crate) hive: bool,
}

impl Default for PathOptions {
    fn default() -> Self {
        Self { glob: true, hive: true }
    }
}

/// The value that Hive writes for null.
const NULL: &str = "__HIVE_DEFAULT_PARTITION__";
const ENDINGS: [&str; 5] = [".parquet", ".parq", ".pq", ".orc", ".parquet.snappy"];
const WILDCARDS: [char; 3] = ['*', '?', '['];
const OPTIONS: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: true };

/// A parsed [`Source`].
struct ParsedSource {
    store: ReadThrough,
    /// The source as given, without credentials, for errors.
    given: String,
    /// The whole path, with wildcards.
    whole: String,
    /// The part before the first wildcard, up to a slash.
    base: String,
    /// The pattern for paths below the base.
    pattern: Option<Pattern>,
    /// True if the source can only be a file: its URL has a query.
    is_file: bool,
}

/// The paths that a pattern is matched against.
#[derive(Clone, Copy)]
enum GlobTarget {
    Files,
    /// The folders that contain files.
    Folders,
}

/// A path that a source names if its wildcards are plain characters.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LiteralMatch {
    /// The path of the source itself.
    Same,
    /// A path below that of the source.
    Below,
}

/// Finds the files of a source, in the order of their paths. With `only`, returns just that file, without a listing.
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

/// Finds the files of a source for readers that do not detect formats: if any file of a folder has a known extension,
/// returns only files that have one.
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
    let mut place = parse_source(source, cache, glob)?;

    if let Some(path) = only {
        let Ok(path) = Path::parse(path) else { return Ok(Vec::new()) };
        if place.literal_match(&path).is_some() {
            place = place.without_pattern();
        }
        let file =
            place.located(&path, GlobTarget::Files).or_else(|| place.located(&path, GlobTarget::Folders));
        return Ok(file.into_iter().collect());
    }

    if place.pattern.is_some() && place.is_literal().await {
        place = place.without_pattern();
    }
    if place.pattern.is_some() {
        let literal = place.literal_file();
        return match (place.list().await, literal) {
            // Without listings, a path that exists is all that can be found.
            (Err(Error::Storage(unlisted)), Some(file)) if unlisted.is_unsupported() => {
                match file.store.open_object(&file.path).await {
                    Ok(_) => Ok(vec![file]),
                    Err(_) => Err(unlisted.into()),
                }
            }
            (listed, _) => listed,
        };
    }
    if !place.is_file && (place.whole.ends_with('/') || place.base.is_empty()) {
        return place.list().await;
    }

    // The path is a file if there is one of this name, otherwise a folder.
    let path = place.path()?;
    match place.store.open_object(&path).await {
        Ok(_) => Ok(vec![LocatedFile::named(place.store, path)]),
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

    /// Returns whether the pattern is the name of an object or folder.
    ///
    /// This takes one or two requests. They are sent only for names with `[` or `?`, which are often not patterns: this
    /// saves listing the base, which may be a whole bucket. For names with `*` only, [`Self::list`] decides.
    async fn is_literal(&self) -> bool {
        if !self.whole.contains(['[', '?']) {
            return false;
        }
        let Ok(path) = Path::parse(&self.whole) else { return false };
        if !self.whole.ends_with('/') && self.store.open_object(&path).await.is_ok() {
            return true;
        }

        let mut below = self.store.origin().store().list(Some(&path));
        below.try_next().await.is_ok_and(|first| first.is_some())
    }

    /// Returns the file whose name is the pattern, whether it exists or not.
    fn literal_file(&self) -> Option<LocatedFile> {
        let path = Path::parse(&self.whole).ok().filter(|_| !self.whole.ends_with('/'))?;
        Some(LocatedFile::named(self.store.clone(), path))
    }

    /// Returns how an existing path matches the whole pattern as plain text.
    fn literal_match(&self, path: &Path) -> Option<LiteralMatch> {
        self.pattern.as_ref()?;
        match path.as_ref().strip_prefix(self.whole.trim_end_matches('/'))? {
            "" => (!self.whole.ends_with('/')).then_some(LiteralMatch::Same),
            below => below.starts_with('/').then_some(LiteralMatch::Below),
        }
    }

    /// Takes wildcards as plain characters.
    fn without_pattern(self) -> Self {
        let base = self.whole.trim_end_matches('/').to_owned();
        Self { base, pattern: None, ..self }
    }

    async fn list(mut self) -> Result<Vec<LocatedFile>> {
        let prefix = self.path()?;
        let listing = self.store.origin().store().list((!self.base.is_empty()).then_some(&prefix));
        let wrong = |error| stylobate_storage::Error::from_origin(&self.given, error);
        let metas: Vec<_> = listing.try_collect().await.map_err(wrong)?;

        let mut paths: Vec<Path> =
            metas.into_iter().filter(|meta| meta.size > 0).map(|meta| meta.location).collect();
        paths.sort_unstable();

        // A path that exists is not a pattern.
        if paths.iter().any(|path| self.literal_match(path) == Some(LiteralMatch::Same)) {
            return Ok(self.literal_file().into_iter().collect());
        }
        if paths.iter().any(|path| self.literal_match(path).is_some()) {
            self = self.without_pattern();
        }

        let located = |matched| paths.iter().filter_map(|path| self.located(path, matched)).collect();
        let mut files: Vec<LocatedFile> = located(GlobTarget::Files);
        // A pattern that no file matches, such as `year=*`, may match folders.
        if files.is_empty() && self.pattern.is_some() {
            files = located(GlobTarget::Folders);
        }
        if files.is_empty() {
            return Err(Error::NoFiles { pattern: self.given });
        }

        Ok(files)
    }

    /// Returns the file if it lies below the base and matches the pattern. Hidden files and logs of engines do not
    /// match.
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

/// Returns whether no part of a path is hidden or internal to an engine.
fn is_visible(path: &str) -> bool {
    !path.split('/').any(|part| part.starts_with(['.', '_']) && !part.contains('='))
}

fn partition(folder: &str) -> Option<(String, Option<String>)> {
    let (name, value) = folder.split_once('=').filter(|(name, _)| !name.is_empty())?;
    let decode = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    Some((decode(name), (value != NULL).then(|| decode(value))))
}

/// Resolves the store of a source, and splits its path from the pattern.
fn parse_source(source: &Source, cache: &Cache, glob: bool) -> Result<ParsedSource> {
    match source {
        Source::Store { store, pattern } => {
            below(store.clone(), pattern.clone(), pattern.trim_start_matches('/'), glob)
        }
        Source::Url { url, options } if url.contains("://") => {
            let given = without_credentials(url);
            let wrong = |reason: String| Error::Pattern { pattern: given.clone(), reason };
            let parsed = Url::parse(url).map_err(|error| wrong(error.to_string()))?;
            if parsed.scheme() == "file" {
                let path = parsed.to_file_path().map_err(|()| wrong("not a local path".to_owned()))?;
                return local(cache, url, &path, glob);
            }

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

/// Splits the URL of a web server into the part before the query and the query, without the fragment.
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
    // A path that exists is not a pattern.
    let glob = glob && !std::path::Path::new(&text).exists();

    below(
        cache.store("file:///", &[])?,
        given.to_owned(),
        &format!("{}{slash}", text.trim_start_matches('/')),
        glob,
    )
}

/// Resolves `..` through the file system, since links decide which folder it is. The rest of the path may contain
/// wildcards.
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
    use object_store::ObjectStoreExt;
    use stylobate_storage::{ByteSize, CacheOptions};

    use super::*;

    /// Returns the files that a pattern finds in a store with these objects. A part of a scan finds each of them again.
    async fn found(paths: &[&str], pattern: &str) -> Vec<String> {
        let cache = Cache::open(CacheOptions::new(ByteSize::mib(16))).await.unwrap();
        let store = cache.store("memory:///", &[]).unwrap();
        for path in paths {
            let path = Path::parse(path).unwrap();
            store.origin().store().put(&path, "x".into()).await.unwrap();
        }

        let source = Source::Store { store, pattern: pattern.to_owned() };
        let files = match locate(&source, &cache, PathOptions::default(), None).await {
            Err(Error::NoFiles { .. }) => Vec::new(),
            files => files.unwrap(),
        };
        for file in &files {
            let only = Some(file.path.as_ref());
            let again = locate(&source, &cache, PathOptions::default(), only).await.unwrap();
            assert_eq!(again.len(), 1);
            assert_eq!((&again[0].path, &again[0].partitions), (&file.path, &file.partitions));
        }
        files.into_iter().map(|file| file.path.to_string()).collect()
    }

    #[tokio::test]
    async fn a_key_that_exists_is_no_pattern() {
        let keys =
            ["t/a*.parquet", "t/a*.parquet/below.parquet", "t/ab.parquet", "t/b[1].parquet", "t/b1.parquet"];
        assert_eq!(found(&keys, "t/a*.parquet").await, ["t/a*.parquet"]);
        assert_eq!(found(&keys, "t/b[1].parquet").await, ["t/b[1].parquet"]);
        assert_eq!(found(&keys, "t/a?.parquet").await, ["t/a*.parquet", "t/ab.parquet"]);
        assert_eq!(found(&keys, "t/[b]1.parquet").await, ["t/b1.parquet"]);
    }

    #[tokio::test]
    async fn a_prefix_that_exists_is_no_pattern() {
        let keys = ["a[1]/x.parquet", "a1/y.parquet", "year=*/x.parquet", "year=1/y.parquet"];
        for pattern in ["a[1]", "a[1]/"] {
            assert_eq!(found(&keys, pattern).await, ["a[1]/x.parquet"], "{pattern}");
        }
        for pattern in ["year=*", "year=*/"] {
            assert_eq!(found(&keys, pattern).await, ["year=*/x.parquet"], "{pattern}");
        }

        let keys = ["a1/y.parquet", "year=1/y.parquet", "year=2/y.parquet"];
        assert_eq!(found(&keys, "a[1]").await, ["a1/y.parquet"]);
        assert_eq!(found(&keys, "year=*").await, ["year=1/y.parquet", "year=2/y.parquet"]);
        assert_eq!(found(&keys, "year=*/").await, [""; 0]);
    }

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
    fn folders_above_are_found_where_links_lead_and_wildcards_after_them_stay() {
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
