//! ORC files: their writer with its options, and the decoding of stripes into Arrow arrays that scans use.
//!
//! The messages of the tail and of the stripes' footers are those that `orc-rust` defines; the streams are decoded
//! here.
//!
//! Nothing that a file claims is trusted before its bytes have arrived: lengths are checked against the file's, and
//! arrays grow with the values that are decoded into them.

mod bytes;
mod calendar;
mod compression;
mod decode;
mod fault;
mod index;
mod messages;
mod selected;
mod statistics;
mod stream;
mod stripe;
mod stripe_statistics;
mod tail;
#[cfg(test)]
mod tests;
mod tree;
mod varints;
mod widths;
mod write;

use std::sync::{Arc, OnceLock};

use ::bytes::Bytes;
use arrow::{array::ArrayRef, datatypes::SchemaRef, error::ArrowError};
use stylobate_storage::OpenObject;

pub use self::write::{
    OrcColumnOptions, OrcCompression, OrcOptions, OrcWriter, OrcWritten, UnknownOrcCompressionError,
};
pub(crate) use self::{
    bytes::OrcBytes, compression::lzo, index::row_index::OrcColumnIndex, messages::OrcMessages,
    selected::SelectedRowGroups, statistics::OrcStatistics, tail::is_orc, write::origin,
};
use self::{
    bytes::StripeReadPlan,
    decode::{OrcBatches, StripeDictionaries},
    fault::OrcReadError,
    stripe::StripeFooter,
    tail::{FIRST_READ, OrcTail, TailParseOutcome},
    tree::OrcType,
};
use crate::{
    Error, Result,
    chunk::{collector_reason, is_worth_a_dictionary},
    file::schema::ProjectedColumn,
};

/// ORC file: its tail, parsed once per version, and the stripe footers read so far.
#[derive(Debug)]
pub(crate) struct OrcFile {
    name: Arc<str>,
    tail: OrcTail,
    schema: SchemaRef,
    footers: Vec<OnceLock<Arc<StripeFooter>>>,
}

impl OrcFile {
    /// Reads and parses postscript, footer and statistics: the last 64 KiB first, and more only if they are longer.
    pub(crate) async fn open(object: &OpenObject) -> Result<Self> {
        let name = object.name();
        let size = object.meta().size;
        let mut len = size.min(FIRST_READ);

        loop {
            let range = size - len..size;
            let end = object.read(std::slice::from_ref(&range)).await?.pop().unwrap_or_default();
            match OrcTail::parse(size, &end).map_err(|fault| fault.into_error(&name, None))? {
                TailParseOutcome::Tail(tail) => {
                    let file = Self::new(&name, *tail, size, &end);
                    file.read_typical_footer(object).await?;
                    return Ok(file);
                }
                TailParseOutcome::Needs(needed) => len = needed,
            }
        }
    }

    /// Reads the footer of the largest stripe, which shows whether strings have dictionaries, if there are strings and
    /// it was not read yet.
    async fn read_typical_footer(&self, object: &OpenObject) -> Result<()> {
        let (Some(stripe), true) = (self.typical(), self.tail.root.children.iter().any(OrcType::is_text))
        else {
            return Ok(());
        };
        match self.footer(object, stripe).await {
            // Errors will surface when the stripe is read.
            Ok(_) | Err(Error::Corrupt { .. } | Error::Unsupported { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Returns the largest stripe.
    fn typical(&self) -> Option<usize> {
        (0..self.stripe_count()).rev().max_by_key(|stripe| self.stripe_rows(*stripe))
    }

    fn new(name: &str, tail: OrcTail, size: u64, end: &Bytes) -> Self {
        let footers = tail.stripes.iter().map(|_| OnceLock::new()).collect();
        let file = Self { name: name.into(), schema: tail.root.schema(tail.metadata.clone()), tail, footers };
        let end_start = size - end.len() as u64;

        for (stripe, location) in file.tail.stripes.iter().enumerate() {
            // A footer within the bytes that were read needs no further read; errors will surface when the stripe is
            // read.
            if let Some(start) = location.footer.start.checked_sub(end_start) {
                let bytes = end.slice(start as usize..(location.footer.end - end_start) as usize);
                let _ = file.parse_footer(stripe, bytes);
            }
        }

        file
    }

    /// Returns the Arrow types of all columns, all of them nullable.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns the number of stripes.
    pub(crate) fn stripe_count(&self) -> usize {
        self.tail.stripes.len()
    }

    /// Returns the number of rows in a stripe; 0 if there is no such stripe.
    pub(crate) fn stripe_rows(&self, stripe: usize) -> u64 {
        self.tail.stripes.get(stripe).map_or(0, |location| location.rows)
    }

    /// Returns the offset of a stripe's first byte; 0 if there is no such stripe.
    pub(crate) fn stripe_offset(&self, stripe: usize) -> u64 {
        self.tail.stripes.get(stripe).map_or(0, |location| location.streams.start)
    }

    /// Estimates the bytes in memory, including the footers of all stripes.
    pub(crate) fn weight(&self) -> usize {
        const PER_TYPE: usize = 400;
        const PER_STREAM: usize = 40;
        const STREAMS: usize = 4;
        let types = self.tail.columns * PER_TYPE;
        let footers = self.stripe_count() * (64 + self.tail.columns * STREAMS * PER_STREAM);
        size_of::<Self>() + types + footers + self.tail.statistics.weight()
    }

    /// Returns the statistics of the stripes.
    pub(crate) fn statistics(&self, stripes: &[usize]) -> OrcStatistics<'_> {
        OrcStatistics::new(&self.tail, stripes)
    }

    /// Returns the number of bytes that [`read`](Self::read) would request, or that of the whole stripe if its
    /// footer has not been read yet.
    pub(crate) fn estimated_bytes(&self, stripe: usize, fields: &[ProjectedColumn]) -> u64 {
        let Some(location) = self.tail.stripes.get(stripe) else { return 0 };
        match (self.footers.get(stripe).and_then(OnceLock::get), self.wanted_columns(fields)) {
            (Some(footer), Ok(columns)) => {
                let ranges = StripeReadPlan::of(footer, &columns).ranges;
                ranges.iter().map(|range| range.end - range.start).sum()
            }
            _ => location.streams.end - location.streams.start,
        }
    }

    /// Returns the error of collecting the rows of a column that pass the filter.
    pub(crate) fn refused(&self, column: &ProjectedColumn, error: ArrowError) -> Error {
        match error {
            ArrowError::OffsetOverflowError(_) => Error::BatchTooLong {
                object: self.name.to_string(),
                column: self.schema.fields().get(column.root).map(|field| field.name().clone()),
                reason: collector_reason(&error),
            },
            error => Error::arrow("rows that pass the filter")(error),
        }
    }

    /// See [`crate::format::FileMetadata::working_bytes`].
    pub(crate) fn working_bytes(&self, stripe: usize, fields: &[ProjectedColumn]) -> u64 {
        grown(self.estimated_bytes(stripe, fields), self.all_text_bytes(stripe, fields))
    }

    /// See [`crate::format::FileMetadata::fitting_rows`].
    pub(crate) fn fitting_rows(&self, stripe: usize, fields: &[ProjectedColumn], max_bytes: u64) -> u64 {
        let rows = self.stripe_rows(stripe);
        let mut widest = 0;
        self.visit_expanded(stripe, fields, |column| {
            widest = widest.max(self.value_bytes(stripe, column).unwrap_or_default());
        });

        if widest > max_bytes {
            (u128::from(rows) * u128::from(max_bytes) / u128::from(widest)) as u64
        } else {
            rows
        }
    }

    /// Returns the text bytes of all of these columns; see [`Self::text_bytes`].
    fn all_text_bytes(&self, stripe: usize, fields: &[ProjectedColumn]) -> u64 {
        let mut texts = 0_u64;
        self.visit_expanded(stripe, fields, |column| {
            texts = texts.saturating_add(self.text_bytes(stripe, column));
        });
        texts
    }

    /// Returns the text bytes of a column in a stripe that are not in a dictionary; `u64::MAX` if its values exceed one
    /// array.
    fn text_bytes(&self, stripe: usize, column: &OrcType) -> u64 {
        const MAX_ARRAY: u64 = i32::MAX as u64;
        match self.value_bytes(stripe, column) {
            Some(bytes) if bytes > MAX_ARRAY => u64::MAX,
            Some(bytes) if !self.is_coded(stripe, column) => {
                let values = self.tail.statistics.get(stripe, column.id).and_then(|it| it.number_of_values);
                bytes + values.unwrap_or_default().saturating_mul(4)
            }
            _ => 0,
        }
    }

    /// Returns the bytes of all strings or binary values of a column in a stripe, if its statistics state them.
    fn value_bytes(&self, stripe: usize, column: &OrcType) -> Option<u64> {
        let statistics = self.tail.statistics.get(stripe, column.id)?;
        let strings = statistics.string_statistics.and_then(|it| it.sum);
        let sum = strings.or_else(|| statistics.binary_statistics.and_then(|it| it.sum));
        u64::try_from(sum?).ok()
    }

    /// Returns whether a column has a dictionary in a stripe, by the largest stripe if its footer was not read.
    fn is_coded(&self, stripe: usize, column: &OrcType) -> bool {
        let footer = self.footers.get(stripe).and_then(OnceLock::get);
        let footer = footer.or_else(|| self.footers.get(self.typical()?).and_then(OnceLock::get));
        let encoding = footer.and_then(|footer| footer.encodings.get(column.id as usize)?.as_ref());
        encoding.is_some_and(|encoding| encoding.dictionary.is_some())
    }

    /// Visits columns at any depth, except those that are decoded as the stripe's dictionaries.
    fn visit_expanded(&self, stripe: usize, fields: &[ProjectedColumn], mut each: impl FnMut(&OrcType)) {
        for column in self.wanted_columns(fields).unwrap_or_default() {
            if !column.is_text() || !self.is_coded(stripe, &column) {
                column.visit(&mut each);
            }
        }
    }

    /// Reads the stripe's footer unless it is known, then the streams that the columns need, merging nearby ones.
    pub(crate) async fn read(
        &self,
        object: &OpenObject,
        stripe: usize,
        fields: &[ProjectedColumn],
    ) -> Result<OrcBytes> {
        let error = |fault: OrcReadError| fault.into_error(&self.name, Some(stripe));
        let columns = self.wanted_columns(fields).map_err(error)?;
        let footer = self.footer(object, stripe).await?;
        let wanted = StripeReadPlan::of(&footer, &columns);
        let read = object.read(&wanted.ranges).await?;
        wanted.cut(footer, &read).map_err(error)
    }

    /// Returns the footer of a stripe, reading it at most once.
    async fn footer(&self, object: &OpenObject, stripe: usize) -> Result<Arc<StripeFooter>> {
        if let Some(footer) = self.footers.get(stripe).and_then(OnceLock::get) {
            return Ok(footer.clone());
        }
        let range = self.tail.stripes.get(stripe).map_or(0..0, |location| location.footer.clone());
        let bytes = object.read(std::slice::from_ref(&range)).await?.pop().unwrap_or_default();
        self.parse_footer(stripe, bytes).map_err(|fault| fault.into_error(&self.name, Some(stripe)))
    }

    /// Returns whether strings of a column repeat, by the largest stripe.
    pub(crate) fn repeats(&self, root: usize) -> bool {
        self.typical_dictionary(root)
            .is_some_and(|(values, rows)| is_worth_a_dictionary(u64::from(values), rows))
    }

    /// Returns whether a column is stored as a dictionary, by the largest stripe.
    pub(crate) fn has_dictionary(&self, root: usize) -> bool {
        self.typical_dictionary(root).is_some()
    }

    /// Returns the size of a column's dictionary in the largest stripe, and the stripe's rows: only stripe footers have
    /// encodings, and reading all of them in advance costs too much.
    fn typical_dictionary(&self, root: usize) -> Option<(u32, u64)> {
        let stripe = self.typical()?;
        let column = self.tail.root.children.get(root)?;
        let footer = self.footers.get(stripe)?.get().filter(|_| column.is_text())?;
        Some((footer.encodings.get(column.id as usize)?.as_ref()?.dictionary?, self.stripe_rows(stripe)))
    }

    /// Decodes a column of a stripe as its dictionary; `None` if it has none.
    pub(crate) fn decode_dictionary(
        &self,
        stripe: usize,
        field: &ProjectedColumn,
        bytes: OrcBytes,
    ) -> Result<Option<ArrayRef>> {
        let decoded = || {
            let columns = self.wanted_columns(std::slice::from_ref(field))?;
            let Some(column) = columns.first().filter(|column| column.is_text()) else { return Ok(None) };
            let streams = bytes::StripeStreams::new(&bytes, self.tail.codec);
            decode::dictionary(column, &streams, self.stripe_rows(stripe) as usize)
        };
        decoded().map_err(|fault: OrcReadError| fault.into_error(&self.name, Some(stripe)))
    }

    /// Decodes the columns lazily on the calling thread: batches of `batch_rows` rows and a shorter last one, each with
    /// one array per field. Without fields, there are no batches.
    pub(crate) fn decode(
        &self,
        stripe: usize,
        fields: &[ProjectedColumn],
        bytes: OrcBytes,
        batch_rows: usize,
    ) -> Result<OrcBatches> {
        self.batches(stripe, fields, bytes, batch_rows, StripeDictionaries::expanded())
    }

    /// Decodes like [`Self::decode`], but columns that have a dictionary in the stripe become dictionary arrays: all
    /// batches share it.
    pub(crate) fn decode_coded(
        &self,
        stripe: usize,
        fields: &[ProjectedColumn],
        bytes: OrcBytes,
        batch_rows: usize,
    ) -> Result<OrcBatches> {
        self.batches(stripe, fields, bytes, batch_rows, StripeDictionaries::kept())
    }

    fn batches(
        &self,
        stripe: usize,
        fields: &[ProjectedColumn],
        bytes: OrcBytes,
        batch_rows: usize,
        mut dictionaries: StripeDictionaries,
    ) -> Result<OrcBatches> {
        let error = |fault: OrcReadError| fault.into_error(&self.name, Some(stripe));
        let columns = self.wanted_columns(fields).map_err(error)?;
        let streams = bytes::StripeStreams::new(&bytes, self.tail.codec);
        let name = self.name.clone();
        let rows = self.stripe_rows(stripe);
        OrcBatches::new(name, stripe, rows, batch_rows, &columns, &streams, &mut dictionaries).map_err(error)
    }

    fn wanted_columns(&self, fields: &[ProjectedColumn]) -> Result<Vec<OrcType>, OrcReadError> {
        let columns = &self.tail.root.children;
        let no_such = |root| OrcReadError::corrupt(format!("column {root} of {}", columns.len()));
        let wanted = fields.iter().map(|field| {
            columns.get(field.root).map(|column| column.pruned(field)).ok_or_else(|| no_such(field.root))
        });
        wanted.collect()
    }

    fn parse_footer(&self, stripe: usize, bytes: Bytes) -> Result<Arc<StripeFooter>, OrcReadError> {
        let (Some(location), Some(known)) = (self.tail.stripes.get(stripe), self.footers.get(stripe)) else {
            return Err(OrcReadError::corrupt("there is no such stripe"));
        };
        let footer =
            StripeFooter::parse(location, self.tail.codec, self.tail.columns, self.tail.early, bytes)?;
        Ok(known.get_or_init(|| Arc::new(footer)).clone())
    }
}

/// Estimates the memory of streams of `read` bytes that hold at least `texts` bytes of strings.
fn grown(read: u64, texts: u64) -> u64 {
    // Streams are compressed; the decompressed size is known only for strings.
    const GROWN: u64 = 4;
    read.saturating_mul(GROWN).max(read.saturating_add(texts))
}
