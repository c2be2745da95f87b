//! The tables of benchmarks, their parts, and their chunks.

use std::fmt;

use arrow::datatypes::SchemaRef;

use crate::{
    Benchmark, Error, Part, Result, Scale,
    chunk::{GeneratedBatches, TableChunk, clipped},
    snb::{self, SnbTable},
    tpcds,
    tpch::{self, TpchTable},
};

/// A table of a benchmark.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Table(BenchmarkTable);

#[derive(Clone, Copy, PartialEq, Eq)]
enum BenchmarkTable {
    TpcH(TpchTable),
    TpcDs(tpcdsgen::config::Table),
    /// A table and its seed.
    Snb(SnbTable, u64),
}

impl Benchmark {
    /// Returns the benchmark's tables, in the order in which they are generated.
    pub fn tables(self) -> Vec<Table> {
        match self {
            Self::TpcH => tpch::TABLES.map(|table| Table(BenchmarkTable::TpcH(table))).to_vec(),
            Self::TpcDs => tpcds::TABLES.map(|table| Table(BenchmarkTable::TpcDs(table))).to_vec(),
            Self::Snb => snb::TABLES.map(|table| Table(BenchmarkTable::Snb(table, snb::SEED))).to_vec(),
        }
    }

    /// Returns the benchmark's tables, including those with a subset of the same rows, which are generated only on
    /// request.
    pub(crate) fn all_tables(self) -> Vec<Table> {
        let mut tables = self.tables();
        if self == Self::Snb {
            tables.extend(snb::TYPED.map(|table| Table(BenchmarkTable::Snb(table, snb::SEED))));
        }
        tables
    }

    /// Returns the table with this name.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchTable`] if there is none.
    pub fn table(self, name: &str) -> Result<Table> {
        let tables = self.all_tables();
        tables.iter().find(|table| table.name() == name).copied().ok_or_else(|| Error::NoSuchTable {
            benchmark: self,
            name: name.to_owned(),
            available: tables.iter().map(|table| table.name()).collect(),
        })
    }
}

impl Table {
    /// Returns the table's name in the benchmark.
    pub fn name(self) -> &'static str {
        match self.0 {
            BenchmarkTable::TpcH(table) => table.name(),
            BenchmarkTable::TpcDs(table) => table.get_name(),
            BenchmarkTable::Snb(table, _) => table.name(),
        }
    }

    /// Returns the table's benchmark.
    pub fn benchmark(self) -> Benchmark {
        match self.0 {
            BenchmarkTable::TpcH(_) => Benchmark::TpcH,
            BenchmarkTable::TpcDs(_) => Benchmark::TpcDs,
            BenchmarkTable::Snb(..) => Benchmark::Snb,
        }
    }

    /// Sets the seed of the social network. The rows of TPC-H and TPC-DS are fixed, so they ignore it. Default: 42.
    pub fn with_seed(self, seed: u64) -> Self {
        match self.0 {
            BenchmarkTable::Snb(table, _) => Self(BenchmarkTable::Snb(table, seed)),
            BenchmarkTable::TpcH(_) | BenchmarkTable::TpcDs(_) => self,
        }
    }

    /// Returns whether the table is divided into parts. Otherwise all of it belongs to the first part.
    pub fn is_cut(self, scale: Scale) -> Result<bool> {
        match self.0 {
            BenchmarkTable::TpcH(table) => Ok(table.is_cut()),
            BenchmarkTable::TpcDs(table) => tpcds::is_cut(table, scale),
            BenchmarkTable::Snb(..) => Ok(true),
        }
    }

    /// Returns the approximate number of rows in a part.
    pub fn estimated_rows(self, scale: Scale, part: Part) -> Result<u64> {
        match self.0 {
            BenchmarkTable::TpcH(table) => Ok(table.estimated_rows(scale, part)),
            BenchmarkTable::TpcDs(table) => tpcds::estimated_rows(table, scale, part),
            BenchmarkTable::Snb(table, _) => Ok(table.rows(scale, part)),
        }
    }

    /// Returns the columns as generated.
    pub(crate) fn generated(self) -> SchemaRef {
        match self.0 {
            BenchmarkTable::TpcH(table) => table.schema(),
            BenchmarkTable::TpcDs(table) => tpcds::schema(table),
            BenchmarkTable::Snb(table, _) => table.schema(),
        }
    }

    pub(crate) fn chunks(self, scale: Scale, part: Part) -> Result<Vec<TableChunk>> {
        match self.0 {
            BenchmarkTable::TpcH(table) => Ok(table.chunks(scale, part)),
            BenchmarkTable::TpcDs(table) => tpcds::chunks(table, scale, part),
            BenchmarkTable::Snb(table, _) => Ok(table.chunks(scale, part)),
        }
    }

    /// Returns the rows of a chunk as generated.
    pub(crate) fn batches(self, scale: Scale, chunk: TableChunk) -> Result<GeneratedBatches> {
        Ok(match (self.0, chunk) {
            (BenchmarkTable::TpcH(table), TableChunk::Numbered { number, of, skip, rows }) => {
                clipped(table.batches(scale, number, of), skip, rows)
            }
            (BenchmarkTable::TpcDs(table), TableChunk::Sources { first, last }) => {
                tpcds::batches(table, scale, first, last)?
            }
            (BenchmarkTable::Snb(table, seed), TableChunk::Sources { first, last }) => {
                table.batches(scale, seed, first, last)
            }
            // Chunks come from the same table.
            (BenchmarkTable::TpcH(_), TableChunk::Sources { .. })
            | (BenchmarkTable::TpcDs(_) | BenchmarkTable::Snb(..), TableChunk::Numbered { .. }) => {
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
