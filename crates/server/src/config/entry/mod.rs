//! Parses and validates entries of buckets and access keys.

pub(super) mod access_key;
pub(super) mod bucket;
pub(super) mod bucket_name;
pub(super) mod cors;
pub(super) mod entries;
