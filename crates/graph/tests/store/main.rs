//! Graph stores from outside: histories against a plain graph in memory, failures at any request, races, counts.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]
#![allow(missing_docs, unreachable_pub, reason = "tests")]

mod bucket;
mod crashes;
mod errors;
mod histories;
mod loads;
#[path = "../support/mangle.rs"]
mod mangle;
mod mangled;
mod model;
mod outages;
mod races;
mod readers;
mod requests;
mod spellings;
mod tidying;
mod traversals;
mod upkeep;
mod wide;
