//! Finds the files of a scan (one file, a folder, or the matches of a pattern) and the partition values of their paths.

use std::{borrow::Cow, fmt};

use async_recursion::async_recursion as boxed;
use futures::TryStreamExt;
use glob::{MatchOptions, Pattern};
use object_store::path::Path;
use percent_encoding::percent_decode_str;
use stylobate_storage::{
    FolderListing, OpenObject, ReadThrough, key_of_path, path_of_key, split_object_url, without_credentials,
};
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
    /// Returns the store and the path within it, with wildcards treated as plain characters.
    ///
    /// # Errors
    ///
    /// [`Error::Pattern`] if the path or pattern is malformed, and errors of opening the store.
    pub fn literal(&self, cache: &Cache) -> Result<(ReadThrough, Path)> {
        let parsed = parse_source(self, cache, true)?;
        let path = path_in(&parsed.store, parsed.whole.trim_end_matches('/'));
        let path = path.map_err(|reason| Error::Pattern { pattern: parsed.given, reason })?;
        Ok((parsed.store, path))
    }

    /// Returns the files, in the order of their paths, each with its store: for readers of formats that scans do
    /// not support. Other files in a folder with Parquet or ORC files are ignored.
    ///
    /// # Errors
    ///
    /// [`Error::NoFiles`] if there are none, and the errors of [`Self::literal`].
    #[boxed]
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

    /// Returns whether the path has a value of a partition column, which may be null.
    pub(crate) fn has_partition(&self, column: &str) -> bool {
        self.partitions.iter().any(|(name, _)| name == column)
    }

    /// Returns the URL of the file, without credentials, to identify it in errors.
    pub(crate) fn name(&self) -> String {
        self.store.origin().name_of(&self.path)
    }

    /// Returns the path as a caller writes it: in a folder, a name may have characters that [`Path`] cannot hold.
    pub(crate) fn key(&self) -> Cow<'_, str> {
        key_in(&self.store, &self.path)
    }
}

/// Returns the path of a key in a store, or the reason why there is none. Only names with characters that a path
/// cannot have are encoded: `..` and empty ones remain errors.
fn path_in(store: &ReadThrough, key: &str) -> Result<Path, String> {
    Path::parse(key).or_else(|error| {
        let is_relative = key.split('/').any(|segment| matches!(segment, "" | "." | ".."));
        let folder = store.origin().folder().filter(|_| !is_relative);
        folder.and_then(|_| path_of_key(key)).ok_or_else(|| error.to_string())
    })
}

/// Returns the key of a path in a store.
fn key_in<'p>(store: &ReadThrough, path: &'p Path) -> Cow<'p, str> {
    // The key of a plain path is the same string.
    match store.origin().folder() {
        Some(_) if path.as_ref().contains(RESERVED) => key_of_path(path).into(),
        _ => Cow::Borrowed(path.as_ref()),
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

/// Substring of the paths in a folder whose keys differ from them.
const RESERVED: &str = ".stylobate-";
/// The value that Hive writes for null.
const NULL: &str = "__HIVE_DEFAULT_PARTITION__";
const ENDINGS: [&str; 5] = [".parquet", ".parq", ".pq", ".orc", ".parquet.snappy"];
const WILDCARDS: [char; 3] = ['*', '?', '['];
const OPTIONS: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: true };

/// A parsed [`Source`].
#[derive(Clone)]
struct ParsedSource {
    store: ReadThrough,
    /// The source as given, without credentials, for errors.
    given: String,
    /// The whole path, with wildcards.
    whole: String,
    /// The part before the pattern.
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
    let mut parsed = parse_source(source, cache, glob)?;

    if let Some(path) = only {
        let Ok(path) = Path::parse(path) else { return Ok(Vec::new()) };
        let key = key_in(&parsed.store, &path).into_owned();
        if parsed.literal_match(&key).is_some() {
            parsed = parsed.without_pattern();
        } else if parsed.pattern.is_some() {
            let folders = parsed.literal_folders();
            let literal =
                folders.iter().rfind(|folder| is_below(&key, folder)).map_or(0, |folder| folder.len());
            parsed = parsed.with_literal(literal)?;
        }
        let file =
            parsed.located(&path, GlobTarget::Files).or_else(|| parsed.located(&path, GlobTarget::Folders));
        return Ok(file.into_iter().collect());
    }

    if parsed.pattern.is_some() {
        match parsed.literal_folder_len().await {
            Some(0) => {}
            literal => {
                if parsed.is_literal().await {
                    parsed = parsed.without_pattern();
                } else if let Some(literal) = literal {
                    match parsed.clone().with_literal(literal)?.list().await {
                        Err(Error::NoFiles { .. }) => {}
                        listed => return listed,
                    }
                }
            }
        }
    }
    if parsed.pattern.is_some() {
        let literal = parsed.literal_file();
        return match (parsed.list().await, literal) {
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
    if !parsed.is_file && (parsed.whole.ends_with('/') || parsed.base.is_empty()) {
        return parsed.list().await;
    }

    // The path is a file if there is one of this name, otherwise a folder.
    let path = parsed.path()?;
    match parsed.store.open_object(&path).await {
        Ok(_) => Ok(vec![LocatedFile::named(parsed.store, path)]),
        Err(error) if parsed.is_file => Err(error.into()),
        Err(error) => match parsed.list().await {
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
        path_in(&self.store, &self.base)
            .map_err(|reason| Error::Pattern { pattern: self.given.clone(), reason })
    }

    /// Returns the folders on the way to the pattern's last segment whose names have wildcards, as prefixes of the
    /// whole path, the shortest first. Their names may be literal.
    ///
    /// In an object store, these are only names with `[` or `?`, and without `*`.
    fn literal_folders(&self) -> Vec<&str> {
        let is_folder = self.store.origin().folder().is_some();
        let start = self.whole.find(WILDCARDS).unwrap_or(self.whole.len());
        let slashes = self.whole.match_indices('/').map(|(slash, _)| slash).filter(|slash| *slash > start);
        let folders = slashes.filter_map(|slash| self.whole.get(..slash));
        folders.take_while(|folder| is_folder || !folder.contains('*')).collect()
    }

    /// Returns the length of the longest of [`Self::literal_folders`] that exists, 0 if none does, and `None` if there
    /// are none or the store does not list them.
    ///
    /// In an object store, this takes a request for each that exists, and one for the first that does not.
    async fn literal_folder_len(&self) -> Option<usize> {
        let mut longest = None;
        for folder in self.literal_folders() {
            longest = longest.or(Some(0));
            if !self.has_folder(folder).await? {
                break;
            }
            longest = Some(folder.len());
        }
        longest
    }

    /// Returns whether a folder exists; `None` if the store does not list it.
    async fn has_folder(&self, folder: &str) -> Option<bool> {
        let path = path_in(&self.store, folder).ok()?;
        let mut objects = self.store.origin().store().list(Some(&path));
        let first = objects.try_next().await.ok()?;
        Some(first.is_some())
    }

    /// Treats wildcards before this position as plain characters.
    fn with_literal(self, literal: usize) -> Result<Self> {
        below(self.store, self.given, &self.whole, literal, true)
    }

    /// Returns whether the pattern is the name of an object or folder.
    ///
    /// This takes one or two requests. They are sent only for names with `[` or `?`, which are often not patterns: this
    /// saves listing the base, which may be a whole bucket. For names with `*` only, [`Self::list`] decides.
    async fn is_literal(&self) -> bool {
        if !self.whole.contains(['[', '?']) {
            return false;
        }
        let Ok(path) = path_in(&self.store, self.whole.trim_end_matches('/')) else { return false };
        if !self.whole.ends_with('/') && self.store.open_object(&path).await.is_ok() {
            return true;
        }
        self.has_folder(self.whole.trim_end_matches('/')).await == Some(true)
    }

    /// Returns the file whose name is the pattern, whether it exists or not.
    fn literal_file(&self) -> Option<LocatedFile> {
        let path = path_in(&self.store, &self.whole).ok().filter(|_| !self.whole.ends_with('/'))?;
        Some(LocatedFile::named(self.store.clone(), path))
    }

    /// Returns how an existing path matches the whole pattern as plain text.
    fn literal_match(&self, key: &str) -> Option<LiteralMatch> {
        self.pattern.as_ref()?;
        match key.strip_prefix(self.whole.trim_end_matches('/'))? {
            "" => (!self.whole.ends_with('/')).then_some(LiteralMatch::Same),
            below => below.starts_with('/').then_some(LiteralMatch::Below),
        }
    }

    /// Treats wildcards as plain characters.
    fn without_pattern(self) -> Self {
        let base = self.whole.trim_end_matches('/').to_owned();
        Self { base, pattern: None, ..self }
    }

    async fn list(self) -> Result<Vec<LocatedFile>> {
        // Walking through all folders below the base would take minutes in some homes.
        if let Some(depth) = self.depth() {
            let listed = self.listing(Some(depth)).await?;
            let literal = self.whole.trim_end_matches('/');
            let folders = || listed.not_entered.iter().map(|folder| folder.trim_end_matches('/'));
            let is_literal = folders().any(|folder| folder == literal);
            let has_folders = folders().any(|folder| self.matches(folder, GlobTarget::Files));
            match self.clone().files_of(listed) {
                _ if is_literal => {}
                Err(Error::NoFiles { .. }) if has_folders => {}
                found => return found,
            }
        }

        let listed = self.listing(None).await?;
        self.files_of(listed)
    }

    /// Returns the depth below the base of the files that the pattern matches, if it is the same for all, and if the
    /// store can list to a depth.
    fn depth(&self) -> Option<usize> {
        self.store.origin().folder()?;
        let pattern = self.pattern.as_ref()?.as_str();
        let is_bounded = !pattern.contains("**") && !pattern.ends_with('/');
        is_bounded.then(|| pattern.matches('/').count() + 1)
    }

    /// Returns the files of a listing.
    fn files_of(mut self, listed: FolderListing) -> Result<Vec<LocatedFile>> {
        let FolderListing { objects, unnameable, .. } = listed;
        let mut paths: Vec<Path> =
            objects.into_iter().filter(|meta| meta.size > 0).map(|meta| meta.location).collect();
        paths.sort_unstable();

        // A path that exists is not a pattern.
        let is_literal = |path: &Path, wanted: &[LiteralMatch]| {
            let matched = self.literal_match(&key_in(&self.store, path));
            matched.is_some_and(|matched| wanted.contains(&matched))
        };
        if paths.iter().any(|path| is_literal(path, &[LiteralMatch::Same])) {
            return Ok(self.literal_file().into_iter().collect());
        }
        if paths.iter().any(|path| is_literal(path, &[LiteralMatch::Below])) {
            self = self.without_pattern();
        }
        self.check_names(&unnameable)?;

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

    /// Lists all objects below the base, down to a depth if the store can.
    async fn listing(&self, max_depth: Option<usize>) -> Result<FolderListing> {
        let prefix = self.path()?;
        let prefix = (!self.base.is_empty()).then_some(&prefix);
        let listed = match self.store.origin().folder() {
            Some(folder) => folder.list_all(prefix, max_depth).await,
            None => {
                let objects = self.store.origin().store().list(prefix).try_collect::<Vec<_>>().await;
                objects.map(|objects| FolderListing { objects, ..FolderListing::default() })
            }
        };
        Ok(listed.map_err(|error| stylobate_storage::Error::from_origin(&self.given, error))?)
    }

    /// Fails if the source has a file whose name no path can hold: leaving it out would lose its rows.
    fn check_names(&self, unnameable: &[String]) -> Result<()> {
        let is_wanted = |key: &&String| {
            let name = key.trim_end_matches('/');
            let is_matched = self.matches(name, GlobTarget::Files) || self.matches(name, GlobTarget::Folders);
            is_matched || key.ends_with('/') && self.may_match_below(name)
        };
        let Some(key) = unnameable.iter().find(is_wanted) else { return Ok(()) };

        let origin = self.store.origin().name();
        let slash = if origin.ends_with('/') { "" } else { "/" };
        let file = format!("{origin}{slash}{key}");
        let reason = format!("the name of {file:?} is not UTF-8: rename it, or exclude it by a pattern");
        Err(Error::Pattern { pattern: self.given.clone(), reason })
    }

    /// Returns whether the pattern may match keys below a folder.
    fn may_match_below(&self, folder: &str) -> bool {
        let Some(below) = self.below_base(folder) else { return false };
        let Some(pattern) = &self.pattern else { return is_visible(below) };

        let depth = below.split('/').count();
        let segments: Vec<&str> = pattern.as_str().split('/').take(depth).collect();
        if segments.contains(&"**") {
            return is_visible(below);
        }
        Pattern::new(&segments.join("/")).is_ok_and(|above| above.matches_with(below, OPTIONS))
    }

    /// Returns the part of a key below the base.
    fn below_base<'k>(&self, key: &'k str) -> Option<&'k str> {
        match self.base.as_str() {
            "" => Some(key),
            base if key == base => Some(""),
            base => key.strip_prefix(base)?.strip_prefix('/'),
        }
    }

    /// Returns whether a key lies below the base and matches the pattern. Hidden files and logs of engines do not
    /// match.
    fn matches(&self, key: &str, target: GlobTarget) -> bool {
        let Some(below) = self.below_base(key) else { return false };
        match (&self.pattern, target) {
            (Some(pattern), GlobTarget::Files) => pattern.matches_with(below, OPTIONS),
            (Some(pattern), GlobTarget::Folders) => below.match_indices('/').any(|(slash, _)| {
                let (folder, inner) = below.split_at(slash);
                pattern.matches_with(folder, OPTIONS) && is_visible(inner)
            }),
            (None, _) => is_visible(below),
        }
    }

    /// Returns the file if its key matches.
    fn located(&self, path: &Path, target: GlobTarget) -> Option<LocatedFile> {
        let key = key_in(&self.store, path);
        if !self.matches(&key, target) {
            return None;
        }

        let below = self.below_base(&key)?;
        let folders = below.rsplit_once('/').map_or("", |(folders, _)| folders);
        let partitions = folders.split('/').filter_map(partition).collect();
        let name = key.to_ascii_lowercase();
        let is_named = ENDINGS.iter().any(|ending| name.ends_with(ending));
        Some(LocatedFile { store: self.store.clone(), path: path.clone(), partitions, is_named })
    }
}

/// Returns the path of a local file, or an object's URL.
pub(crate) fn shown_path(object: &OpenObject) -> String {
    match object.name() {
        name if name.starts_with("file:///") => format!("/{}", key_of_path(&object.meta().location)),
        name => name,
    }
}

/// Returns whether a key lies below a folder.
fn is_below(key: &str, folder: &str) -> bool {
    key.strip_prefix(folder).is_some_and(|below| below.starts_with('/'))
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
            below(store.clone(), pattern.clone(), pattern.trim_start_matches('/'), 0, glob)
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
                None => below(cache.store(authority, options)?, given, &path, 0, glob),
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
        0,
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

/// Splits a path from its pattern. Wildcards before `literal` are plain characters.
fn below(store: ReadThrough, given: String, path: &str, literal: usize, glob: bool) -> Result<ParsedSource> {
    let whole = path.to_owned();
    let wild = path.get(literal..).and_then(|rest| rest.find(WILDCARDS)).filter(|_| glob);
    let wild = wild.map(|wild| literal + wild);
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

    #[tokio::test]
    async fn a_folder_of_a_pattern_that_exists_is_no_pattern() {
        let keys = ["a[1]/year=1/x.parquet", "a[1]/b?/y.parquet", "a1/year=1/z.parquet", "a1/b2/y.parquet"];
        assert_eq!(found(&keys, "a[1]/year=*").await, ["a[1]/year=1/x.parquet"]);
        assert_eq!(found(&keys, "a[1]/*/x*").await, ["a[1]/year=1/x.parquet"]);
        assert_eq!(found(&keys, "a[1]/b?/*").await, ["a[1]/b?/y.parquet"]);
        assert_eq!(found(&keys, "a[1]/**").await, ["a[1]/b?/y.parquet", "a[1]/year=1/x.parquet"]);
        // Nothing matches below the folder.
        assert_eq!(found(&keys, "a[1]/b2/*").await, ["a1/b2/y.parquet"]);
        assert_eq!(found(&keys[2..], "a[1]/year=*").await, ["a1/year=1/z.parquet"]);
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
