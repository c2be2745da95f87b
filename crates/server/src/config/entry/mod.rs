//! Entries of buckets and access keys, understood and checked.

pub(super) mod access_key;
pub(super) mod bucket;
pub(super) mod bucket_name;
pub(super) mod cors;
pub(super) mod entries;
