//! Tables of TPC-H, TPC-DS and a social network as Arrow streams and as files.
//!
//! A [`Benchmark`] names the tables, [`Table::stream`] generates the rows of one table in memory, and a
//! [`GenerateRequest`] writes the files of several tables to an [`Output`], with [`Checksums`] in their [`Manifest`].
//!
//! ```
//! use stylobate_datagen::{Benchmark, Part, Scale};
//!
//! let lineitem = Benchmark::TpcH.table("lineitem")?;
//! let batches = lineitem.stream(Scale::new(0.01)?, Part::WHOLE, 2)?;
//! let modes = batches.schema().field_with_name("l_shipmode")?;
//! assert_eq!(modes.data_type().to_string(), "Dictionary(UInt8, Utf8)");
//! let rows = batches.map(|batch| batch.map(|batch| batch.num_rows())).sum::<Result<usize, _>>()?;
//! assert_eq!(rows, 60_175);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

#![deny(clippy::indexing_slicing)]

mod benchmark;
mod checksum;
mod chunk;
mod columns;
mod error;
mod files;
mod generate;
#[doc(hidden)]
pub mod measure;
mod ordered;
mod part;
mod scale;
mod snb;
mod stream;
mod table;
mod tpcds;
mod tpch;

pub use benchmark::Benchmark;
pub use checksum::Checksums;
pub use error::{Error, Result};
pub use files::file_format::FileFormat;
pub use files::manifest::{ColumnEntry, FileEntry, Manifest, Run};
pub use files::output::Output;
pub use files::verify::{Verdict, verify};
pub use generate::{Event, GenerateRequest};
pub use part::Part;
pub use scale::Scale;
pub use stream::TableStream;
pub use table::Table;
