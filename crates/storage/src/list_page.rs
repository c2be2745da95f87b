//! Requests for listings, and the pages that answer them.

use object_store::ObjectMeta;

/// A request for a page of a listing.
#[derive(Clone, Debug, Default)]
pub struct ListRequest {
    /// Prefix of all keys; any text, not only whole path segments.
    pub prefix: String,
    /// Keys that have this text after the prefix are rolled up into one common prefix. Empty, or `/`; a folder supports
    /// any.
    pub delimiter: String,
    /// Key to start after.
    pub start_after: Option<String>,
    /// Prefix whose keys are all skipped: the listing starts after them.
    pub past_prefix: Option<String>,
    /// Token from the previous page, to continue after it.
    pub token: Option<String>,
    /// Maximum number of objects and common prefixes in a page.
    pub max_keys: usize,
}

/// A page of a listing, in key order.
#[derive(Debug, Default)]
pub struct ListPage {
    /// The objects.
    pub objects: Vec<ListedKey>,
    /// The common prefixes; each ends in the delimiter.
    pub prefixes: Vec<String>,
    /// Token to request the next page with; `None` on the last page.
    pub next_token: Option<String>,
}

/// An object of a listing.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedKey {
    /// The key. In a folder, it may be one that no path can hold; see [`key_of_path`](crate::key_of_path).
    pub key: String,
    /// The object's metadata, with its path as the location.
    pub meta: ObjectMeta,
}

impl ListedKey {
    pub(crate) fn of(meta: ObjectMeta) -> Self {
        Self { key: meta.location.to_string(), meta }
    }
}
