//! The supported benchmarks.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A benchmark: TPC-H and TPC-DS of the Transaction Processing Performance Council, and a social network graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Benchmark {
    /// TPC-H: eight tables about orders.
    TpcH,
    /// TPC-DS: 24 tables about sales in shops, by catalog and on the web, and one about their generation.
    TpcDs,
    /// A social network as used to benchmark graph stores: vertices and edges in seven tables, and six more that
    /// contain the edges by the types of their endpoints. The columns are a subset of those of LDBC's Social Network
    /// Benchmark; the counts and values are not.
    Snb,
}

impl Benchmark {
    /// All benchmarks.
    pub(crate) const ALL: [Self; 3] = [Self::TpcH, Self::TpcDs, Self::Snb];

    /// Returns the delimiter of its CSV files.
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
