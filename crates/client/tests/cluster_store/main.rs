//! A cluster store over several nodes: placement, failures and slowness of nodes, versions, writes, and the view.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod doors;
mod fake;
mod hedges;
mod reads;
mod view;
mod writes;

#[path = "../../../storage/tests/support/eventually.rs"]
mod eventually;
