//! Answers to the other nodes of a cluster, and agreement with them on current versions.

mod authority;
mod serve_peer;
