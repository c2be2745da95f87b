//! SQL over scans.
