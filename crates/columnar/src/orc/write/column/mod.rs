//! Encodes one column of a stripe: its validity, the streams of its values, and the statistics of each row group.

mod codes;
mod decimals;
mod direct;
mod nested;
mod numbers;
mod texts;
mod timestamps;

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray},
    buffer::NullBuffer,
    datatypes::{DataType, Date32Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type},
};
use orc_rust::proto::{
    BloomFilterIndex, ColumnEncoding, RowIndex, RowIndexEntry, column_encoding::Kind as Encoding,
    stream::Kind as StreamKind,
};
use prost::Message;

use self::{
    decimals::DecimalColumnWriter,
    nested::{ListColumnWriter, StructColumnWriter},
    numbers::{BooleanColumnWriter, ByteColumnWriter, FloatColumnWriter, IntColumnWriter},
    texts::StringColumnWriter,
    timestamps::TimestampColumnWriter,
};
use super::{
    bloom::OrcBloomFilterBuilder,
    compression::OrcChunkCompressor,
    encode::bytes::PresentStreamEncoder,
    plan::{OrcColumnPlan, OrcTargetType},
    statistics::{OrcStatsAccumulator, OrcTypeStatistics},
    stream::{self, OrcEncodedStream},
};
use crate::kernels::written_cast::written_cast;

/// Encoding of bloom filters whose timestamps are in UTC.
const BLOOM_ENCODING: u32 = 1;

/// Approximate bytes of a row group's statistics and positions until its stripe ends.
pub(super) const PER_GROUP: usize = size_of::<OrcStatsAccumulator>() + 256;

/// Error of a column, with its dotted path.
#[derive(Debug)]
pub(super) struct OrcColumnError {
    pub(super) column: String,
    pub(super) reason: String,
}

impl From<String> for OrcColumnError {
    fn from(reason: String) -> Self {
        Self { column: String::new(), reason }
    }
}

/// Encoder of a column's values into streams.
pub(super) trait OrcColumnWriter: Send {
    /// Appends the rows of an array that are not null.
    fn write(
        &mut self,
        array: &ArrayRef,
        nulls: Option<&NullBuffer>,
        stats: &mut RowGroupStats,
    ) -> Result<(), OrcColumnError>;

    /// Begins a new row group.
    fn begin_group(&mut self);

    /// Adds the statistics that are known only when a row group ends.
    fn end_group(&mut self, _notes: &mut RowGroupStats) -> Result<(), OrcColumnError> {
        Ok(())
    }

    /// Compresses full chunks.
    fn compress(&mut self, compressor: &mut OrcChunkCompressor) -> Result<(), String>;

    /// Returns the memory in use, in bytes.
    fn memory(&self) -> usize;

    /// Returns an estimate of the streams' bytes.
    fn encoded(&self) -> usize;

    /// Ends the streams, and returns them with the positions of row groups.
    fn finish(
        self: Box<Self>,
        compressor: &mut OrcChunkCompressor,
        end: &mut FinishedColumnStreams,
    ) -> Result<(), OrcColumnError>;
}

/// Statistics and bloom filter of a row group.
pub(super) struct RowGroupStats {
    pub(super) statistics: OrcStatsAccumulator,
    pub(super) bloom: Option<OrcBloomFilterBuilder>,
}

/// Streams of a column at the end of a stripe.
pub(super) struct FinishedColumnStreams {
    pub(super) streams: Vec<(StreamKind, OrcEncodedStream)>,
    pub(super) encoding: Encoding,
    /// Number of values in its dictionary.
    pub(super) dictionary: Option<u32>,
    /// Positions in the streams, by row group.
    pub(super) entries: Vec<Vec<u64>>,
    /// Child columns, in depth-first order.
    pub(super) children: Vec<EncodedColumn>,
}

/// Encoded column of a stripe.
pub(super) struct EncodedColumn {
    pub(super) id: u32,
    pub(super) streams: Vec<(StreamKind, OrcEncodedStream)>,
    pub(super) encoding: ColumnEncoding,
    pub(super) row_index: OrcEncodedStream,
    pub(super) bloom_filters: Option<OrcEncodedStream>,
    pub(super) statistics: OrcStatsAccumulator,
}

/// Encoder of a column in one stripe.
pub(super) struct StripeColumnEncoder {
    id: u32,
    path: Arc<str>,
    cast: Option<DataType>,
    chunk: usize,
    presence: PresentStreamEncoder,
    encoder: Box<dyn OrcColumnWriter>,
    stats: RowGroupStats,
    /// Statistics of complete row groups.
    groups: Vec<OrcStatsAccumulator>,
}

impl StripeColumnEncoder {
    pub(super) fn new(plan: &OrcColumnPlan) -> Self {
        let bloom = plan
            .options
            .bloom_filter
            .filter(|_| plan.kind.has_bloom_filter())
            .map(OrcBloomFilterBuilder::new);
        Self {
            id: plan.id,
            path: plan.path.clone(),
            cast: plan.cast.clone(),
            chunk: plan.options.chunk,
            presence: PresentStreamEncoder::new(),
            encoder: encoder(plan),
            stats: RowGroupStats { statistics: OrcStatsAccumulator::new(detail(plan.kind)), bloom },
            groups: Vec::new(),
        }
    }

    fn named(&self) -> impl Fn(OrcColumnError) -> OrcColumnError + use<> {
        let path = self.path.clone();
        move |wrong| {
            if wrong.column.is_empty() {
                OrcColumnError { column: path.to_string(), reason: wrong.reason }
            } else {
                wrong
            }
        }
    }

    /// Appends rows, all of one row group.
    pub(super) fn write(&mut self, array: &ArrayRef) -> Result<(), OrcColumnError> {
        let named = self.named();
        let cast = match &self.cast {
            None => array.clone(),
            Some(to) => written_cast(array, to).map_err(|reason| named(OrcColumnError::from(reason)))?,
        };
        let nulls = cast.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        self.presence.append(nulls.as_ref(), cast.len());
        let statistics = &mut self.stats.statistics;
        statistics.values += (cast.len() - nulls.as_ref().map_or(0, NullBuffer::null_count)) as u64;
        statistics.has_null |= nulls.is_some();

        self.encoder.write(&cast, nulls.as_ref(), &mut self.stats).map_err(named)
    }

    pub(super) fn begin_group(&mut self) {
        self.presence.begin_group();
        self.encoder.begin_group();
    }

    pub(super) fn end_group(&mut self) -> Result<(), OrcColumnError> {
        let named = self.named();
        self.encoder.end_group(&mut self.stats).map_err(named)?;
        let empty = OrcStatsAccumulator::new(self.stats.statistics.detail.emptied());
        self.groups.push(std::mem::replace(&mut self.stats.statistics, empty));
        self.stats.bloom.iter_mut().for_each(OrcBloomFilterBuilder::end_group);
        Ok(())
    }

    pub(super) fn compress(&mut self, compressor: &mut OrcChunkCompressor) -> Result<(), String> {
        self.encoder.compress(compressor)
    }

    pub(super) fn memory(&self) -> usize {
        self.presence.memory()
            + self.encoder.memory()
            + self.groups.len() * PER_GROUP
            + self.stats.bloom.as_ref().map_or(0, OrcBloomFilterBuilder::memory)
    }

    pub(super) fn encoded(&self) -> usize {
        self.presence.memory() + self.encoder.encoded()
    }

    /// Appends this column and its descendants.
    pub(super) fn finish(
        self,
        compressor: &mut OrcChunkCompressor,
        out: &mut Vec<EncodedColumn>,
    ) -> Result<(), OrcColumnError> {
        let named = self.named();
        let mut end = FinishedColumnStreams {
            streams: Vec::new(),
            encoding: Encoding::Direct,
            dictionary: None,
            entries: vec![Vec::new(); self.groups.len()],
            children: Vec::new(),
        };

        if let Some(presence) =
            self.presence.finish(self.chunk, compressor).map_err(OrcColumnError::from).map_err(&named)?
        {
            presence.append_positions(&mut end.entries);
            end.streams.push((StreamKind::Present, presence.written));
        }
        self.encoder.finish(compressor, &mut end).map_err(&named)?;
        let FinishedColumnStreams { streams, encoding, dictionary, entries, children } = end;

        let mut statistics = OrcStatsAccumulator::new(self.stats.statistics.detail.emptied());
        self.groups.iter().for_each(|group| statistics.merge(group));
        statistics.bytes = Some(streams.iter().map(|(_, written)| written.len).sum());
        // Concatenated messages are one message with the entries of all: so only one at a time is in memory.
        let mut row_index = Vec::new();

        for (positions, statistics) in entries.into_iter().zip(self.groups) {
            let entry = RowIndexEntry { positions, statistics: Some(statistics.message()) };
            row_index.extend(RowIndex { entry: vec![entry] }.encode_to_vec());
        }

        let has_bloom_filter = self.stats.bloom.is_some();
        let mut filters = Vec::new();
        for filter in self.stats.bloom.into_iter().flat_map(OrcBloomFilterBuilder::filters) {
            filters.extend(BloomFilterIndex { bloom_filter: vec![filter] }.encode_to_vec());
        }
        let mut message = |bytes| {
            stream::message(bytes, self.chunk, compressor).map_err(OrcColumnError::from).map_err(&named)
        };
        out.push(EncodedColumn {
            id: self.id,
            streams,
            encoding: ColumnEncoding {
                kind: Some(encoding.into()),
                dictionary_size: dictionary,
                bloom_encoding: has_bloom_filter.then_some(BLOOM_ENCODING),
            },
            row_index: message(row_index)?,
            bloom_filters: if has_bloom_filter { Some(message(filters)?) } else { None },
            statistics,
        });

        out.extend(children);
        Ok(())
    }
}

fn encoder(plan: &OrcColumnPlan) -> Box<dyn OrcColumnWriter> {
    let options = &plan.options;
    let children = plan.children.iter().map(StripeColumnEncoder::new);
    match plan.kind {
        OrcTargetType::Boolean => Box::new(BooleanColumnWriter::new(options)),
        OrcTargetType::Byte => Box::new(ByteColumnWriter::new(options)),
        OrcTargetType::Short => {
            Box::new(IntColumnWriter::<Int16Type>::new(options, OrcStatsAccumulator::add_whole))
        }
        OrcTargetType::Int => {
            Box::new(IntColumnWriter::<Int32Type>::new(options, OrcStatsAccumulator::add_whole))
        }
        OrcTargetType::Long => {
            Box::new(IntColumnWriter::<Int64Type>::new(options, OrcStatsAccumulator::add_whole))
        }
        OrcTargetType::Float => Box::new(FloatColumnWriter::<Float32Type>::new(options)),
        OrcTargetType::Double => Box::new(FloatColumnWriter::<Float64Type>::new(options)),
        OrcTargetType::Date => {
            Box::new(IntColumnWriter::<Date32Type>::new(options, OrcStatsAccumulator::add_dates))
        }
        OrcTargetType::Decimal(precision, scale) => {
            Box::new(DecimalColumnWriter::new(precision, scale, options))
        }
        OrcTargetType::Timestamp(unit) => Box::new(TimestampColumnWriter::new(unit, options)),
        OrcTargetType::Text(length) => Box::new(StringColumnWriter::new(Some(length), options)),
        OrcTargetType::Binary => Box::new(StringColumnWriter::new(None, options)),
        OrcTargetType::Struct => Box::new(StructColumnWriter { children: children.collect() }),
        OrcTargetType::List | OrcTargetType::Map => {
            Box::new(ListColumnWriter::new(children.collect(), options))
        }
    }
}

/// Returns statistics of no values.
pub(super) fn detail(kind: OrcTargetType) -> OrcTypeStatistics {
    match kind {
        OrcTargetType::Boolean => OrcTypeStatistics::Booleans(0),
        OrcTargetType::Byte | OrcTargetType::Short | OrcTargetType::Int | OrcTargetType::Long => {
            OrcTypeStatistics::Whole { bounds: None, sum: 0 }
        }
        OrcTargetType::Float | OrcTargetType::Double => OrcTypeStatistics::Floats { bounds: None, sum: 0.0 },
        OrcTargetType::Date => OrcTypeStatistics::Dates(None),
        OrcTargetType::Decimal(_, scale) => OrcTypeStatistics::Decimals { bounds: None, sum: Some(0), scale },
        OrcTargetType::Timestamp(unit) => OrcTypeStatistics::Times { bounds: None, unit },
        OrcTargetType::Text(_) => OrcTypeStatistics::Texts { bounds: None, bytes: 0 },
        OrcTargetType::Binary => OrcTypeStatistics::Bytes(0),
        OrcTargetType::List | OrcTargetType::Map => OrcTypeStatistics::Children { bounds: None, total: 0 },
        OrcTargetType::Struct => OrcTypeStatistics::Nothing,
    }
}

/// Downcasts the array to its type.
pub(super) fn primitive<T: ArrowPrimitiveType>(array: &dyn Array) -> Result<&PrimitiveArray<T>, String> {
    let other = || format!("{} where {} was promised", array.data_type(), T::DATA_TYPE);
    array.as_any().downcast_ref().ok_or_else(other)
}

/// Returns the values of the non-null rows.
pub(super) fn present<'a, T: Copy>(
    values: &'a [T],
    nulls: Option<&NullBuffer>,
    room: &'a mut Vec<T>,
) -> &'a [T] {
    let Some(nulls) = nulls else { return values };
    room.clear();
    for (start, end) in nulls.valid_slices() {
        room.extend_from_slice(values.get(start..end).unwrap_or_default());
    }
    room
}
