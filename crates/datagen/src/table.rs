//! The tables of benchmarks, their parts, and the chunks that these are made in.

use std::fmt;

use arrow::datatypes::SchemaRef;

use crate::{
    Benchmark, Error, Part, Result, Scale,
    chunk::{Batches, Chunk, clipped},
    tpcds,
    tpch::{self, TpchTable},
};

/// A table of a benchmark.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Table(Kind);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    TpcH(TpchTable),
    TpcDs(tpcdsgen::config::Table),
}

impl Benchmark {
    /// All tables, in the order in which they are made.
    pub fn tables(self) -> Vec<Table> {
        match self {
            Self::TpcH => tpch::TABLES.map(|table| Table(Kind::TpcH(table))).to_vec(),
            Self::TpcDs => tpcds::TABLES.map(|table| Table(Kind::TpcDs(table))).to_vec(),
        }
    }

    /// The table of this name. Fails with [`Error::NoSuchTable`].
    pub fn table(self, name: &str) -> Result<Table> {
        let tables = self.tables();
        tables.iter().find(|table| table.name() == name).copied().ok_or_else(|| Error::NoSuchTable {
            benchmark: self,
            name: name.to_owned(),
            available: tables.iter().map(|table| table.name()).collect(),
        })
    }
}

impl Table {
    /// Its name, as the benchmark gives it.
    pub fn name(self) -> &'static str {
        match self.0 {
            Kind::TpcH(table) => table.name(),
            Kind::TpcDs(table) => table.get_name(),
        }
    }

    /// The benchmark that it belongs to.
    pub fn benchmark(self) -> Benchmark {
        match self.0 {
            Kind::TpcH(_) => Benchmark::TpcH,
            Kind::TpcDs(_) => Benchmark::TpcDs,
        }
    }

    /// Whether it is cut into parts. All of a table that is not belongs to its first part.
    pub fn is_cut(self, scale: Scale) -> Result<bool> {
        match self.0 {
            Kind::TpcH(table) => Ok(table.is_cut()),
            Kind::TpcDs(table) => tpcds::is_cut(table, scale),
        }
    }

    /// Rows of a part, about.
    pub fn estimated_rows(self, scale: Scale, part: Part) -> Result<u64> {
        match self.0 {
            Kind::TpcH(table) => Ok(table.estimated_rows(scale, part)),
            Kind::TpcDs(table) => tpcds::estimated_rows(table, scale, part),
        }
    }

    /// Its columns as its generator gives them.
    pub(crate) fn generated(self) -> SchemaRef {
        match self.0 {
            Kind::TpcH(table) => table.schema(),
            Kind::TpcDs(table) => tpcds::schema(table),
        }
    }

    pub(crate) fn chunks(self, scale: Scale, part: Part) -> Result<Vec<Chunk>> {
        match self.0 {
            Kind::TpcH(table) => Ok(table.chunks(scale, part)),
            Kind::TpcDs(table) => tpcds::chunks(table, scale, part),
        }
    }

    /// The rows of a chunk as its generator gives them.
    pub(crate) fn batches(self, scale: Scale, chunk: Chunk) -> Result<Batches> {
        Ok(match (self.0, chunk) {
            (Kind::TpcH(table), Chunk::Numbered { number, of, skip, rows }) => {
                clipped(table.batches(scale, number, of), skip, rows)
            }
            (Kind::TpcDs(table), Chunk::Sources { first, last }) => {
                tpcds::batches(table, scale, first, last)?
            }
            // Chunks come from the same table.
            (Kind::TpcH(_), Chunk::Sources { .. }) | (Kind::TpcDs(_), Chunk::Numbered { .. }) => {
                Box::new(std::iter::empty())
            }
        })
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
