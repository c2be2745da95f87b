//! GraphAr: graphs as folders of chunk files.
