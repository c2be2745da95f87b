//! The benchmarks whose tables can be made.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A benchmark of the Transaction Processing Performance Council.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Benchmark {
    /// TPC-H: eight tables of orders and what belongs to them.
    TpcH,
    /// TPC-DS: 24 tables of sales in shops, by catalog and on the web, and one that says how they were made.
    TpcDs,
}

impl fmt::Display for Benchmark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TpcH => "TPC-H",
            Self::TpcDs => "TPC-DS",
        })
    }
}
