//! Comma-separated values according to RFC 4180: one tokenizer, a reader of columns whose types are known, and an
//! encoder.
//!
//! An empty field is always null, and `""` an empty string.

mod encoder;
mod error;
mod reader;
mod record;
pub(super) mod text_file;

pub(crate) use self::record::{CsvDialect, CsvFieldKind, CsvRecords, RecordError};
pub use self::{encoder::CsvEncoder, error::CsvError, reader::CsvReader};
