//! What is asked of a listing, and a page of its answer.

use object_store::ObjectMeta;

/// What to list.
#[derive(Clone, Debug, Default)]
pub struct ListRequest {
    /// What all keys begin with; any text, not only whole path segments.
    pub prefix: String,
    /// Keys that have this text behind the prefix are listed as one common prefix. Empty, or `/`; a folder knows any.
    pub delimiter: String,
    /// List what comes after this key.
    pub start_after: Option<String>,
    /// List what comes after all keys that begin so.
    pub past_prefix: Option<String>,
    /// Go on where the page that returned this token ended.
    pub token: Option<String>,
    /// Most objects and common prefixes of a page.
    pub max_keys: usize,
}

/// A page of a listing, in order of keys.
#[derive(Debug, Default)]
pub struct ListPage {
    /// The objects.
    pub objects: Vec<ListedKey>,
    /// The common prefixes; each ends in the delimiter.
    pub prefixes: Vec<String>,
    /// With which to ask for the next page, if there is one.
    pub next_token: Option<String>,
}

/// An object of a listing.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedKey {
    /// The key. In a folder it may be one that no path can have; see [`key_of_path`](crate::key_of_path).
    pub key: String,
    /// The object, under its path.
    pub meta: ObjectMeta,
}

impl ListedKey {
    pub(crate) fn of(meta: ObjectMeta) -> Self {
        Self { key: meta.location.to_string(), meta }
    }
}
