//! Answers to the other nodes of a cluster, and the agreement with them about current versions.

mod authority;
mod serve_peer;
