//! The benchmarks whose tables can be made.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A benchmark: those of the Transaction Processing Performance Council, and one of graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Benchmark {
    /// TPC-H: eight tables of orders and what belongs to them.
    TpcH,
    /// TPC-DS: 24 tables of sales in shops, by catalog and on the web, and one that says how they were made.
    TpcDs,
    /// A social network as graph stores are measured with: vertices and edges in seven tables, and six more that hold the
    /// edges by the types of their ends. The columns are those of a subset of LDBC's Social Network Benchmark, the counts
    /// and values are not.
    Snb,
}

impl Benchmark {
    /// What stands between the fields of its CSV files.
    pub(crate) fn delimiter(self) -> u8 {
        match self {
            Self::TpcH | Self::TpcDs => b',',
            Self::Snb => b'|',
        }
    }
}

impl fmt::Display for Benchmark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TpcH => "TPC-H",
            Self::TpcDs => "TPC-DS",
            Self::Snb => "SNB",
        })
    }
}
