//! The S3 door of a node in this process, over a store in memory, a folder, or another node; accessed by
//! object_store's S3 client and, for unusual requests, by bytes on a socket.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

mod access;
mod client;
#[path = "../../../storage/tests/support/eventually.rs"]
mod eventually;
mod folders;
mod listings;
mod multipart;
mod reads;
mod uploads;
mod writes;
