//! Options to read CSV files.

use arrow::datatypes::DataType;
use stylobate_storage::ByteSize;

use crate::{
    Error, Result,
    csv::CsvDialect,
    sequential::{Sample, TimestampInference},
};

/// Source of the names of the columns of a CSV file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CsvHeader {
    /// The first line. A repeated name gets a number, as in `a_1`; an empty name is replaced by the name that its
    /// position would have without a header.
    #[default]
    FirstLine,
    /// No header: the names are `column0`, `column1` and so on.
    Absent,
    /// These names; the first line has values.
    Names(Vec<String>),
}

/// Options to read CSV files. An empty field is null; `""` is an empty string, and null in a column that is not text.
///
/// Types are inferred: int64, float64, bool, date, timestamp, else text. Values that would be written back differently,
/// such as `01234`, remain text; so does `-0`, unless the column has floating-point numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct CsvOptions {
    pub(crate) delimiter: u8,
    pub(crate) quote: Option<u8>,
    pub(crate) escape: Option<u8>,
    pub(crate) header: CsvHeader,
    pub(crate) null_values: Vec<String>,
    pub(crate) types: Vec<(String, DataType)>,
    pub(crate) sample: Sample,
    pub(crate) timestamps: TimestampInference,
    pub(crate) max_record: ByteSize,
}

/// Arrow's string offsets have 32 bits.
const MAX_RECORD: ByteSize = ByteSize::gib(1);

impl Default for CsvOptions {
    fn default() -> Self {
        Self {
            delimiter: b',',
            quote: Some(b'"'),
            escape: None,
            header: CsvHeader::default(),
            null_values: Vec::new(),
            types: Vec::new(),
            sample: Sample::default(),
            timestamps: TimestampInference::default(),
            max_record: ByteSize::bytes(CsvDialect::MAX_RECORD_BYTES as u64),
        }
    }
}

impl CsvOptions {
    /// Sets the byte between fields. Default: a comma.
    #[must_use]
    pub fn with_delimiter(mut self, delimiter: u8) -> Self {
        self.delimiter = delimiter;
        self
    }

    /// Sets the quote around fields that hold delimiters or line ends; `None` if quotes have no meaning. Default: `"`.
    #[must_use]
    pub fn with_quote(mut self, quote: Option<u8>) -> Self {
        self.quote = quote;
        self
    }

    /// Sets the escape character within quotes, in addition to the doubled quote. Default: none.
    #[must_use]
    pub fn with_escape(mut self, escape: Option<u8>) -> Self {
        self.escape = escape;
        self
    }

    /// Sets the source of the names of the columns. Default: [`CsvHeader::FirstLine`].
    #[must_use]
    pub fn with_header(mut self, header: CsvHeader) -> Self {
        self.header = header;
        self
    }

    /// Sets the unquoted fields that are null, in addition to the empty one. Default: none.
    #[must_use]
    pub fn with_null_values<V: Into<String>>(mut self, values: impl IntoIterator<Item = V>) -> Self {
        self.null_values = values.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the type of a column instead of inferring it.
    #[must_use]
    pub fn with_type(mut self, column: impl Into<String>, data_type: DataType) -> Self {
        self.types.push((column.into(), data_type));
        self
    }

    /// Sets the records from which types are inferred. Default: those of the first 64 MiB.
    #[must_use]
    pub fn with_sample(mut self, sample: Sample) -> Self {
        self.sample = sample;
        self
    }

    /// Sets which strings are inferred to be timestamps. Default: [`TimestampInference::Microseconds`].
    #[must_use]
    pub fn with_timestamps(mut self, timestamps: TimestampInference) -> Self {
        self.timestamps = timestamps;
        self
    }

    /// Sets the maximum bytes of a record, up to 1 GiB, so that a stray quote does not take the rest of the file into
    /// memory. Default: 16 MiB.
    #[must_use]
    pub fn with_max_record(mut self, size: ByteSize) -> Self {
        self.max_record = size;
        self
    }

    pub(crate) fn dialect(&self) -> Result<CsvDialect> {
        let wrong = |reason| Error::Option { column: None, reason };
        if self.max_record > MAX_RECORD || self.max_record.as_u64() == 0 {
            return Err(wrong("max_record: give at least 1 byte, and at most 1 GiB".to_owned()));
        }

        let dialect = CsvDialect {
            delimiter: self.delimiter,
            quote: self.quote,
            escape: self.escape,
            max_record_bytes: usize::try_from(self.max_record.as_u64()).unwrap_or(usize::MAX),
        };

        dialect.check().map_err(wrong)?;
        Ok(dialect)
    }
}
