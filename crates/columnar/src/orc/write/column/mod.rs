//! One column on its way into a stripe: which rows have a value, the streams of the values, and what is said of each
//! row group.

mod codes;
mod decimals;
mod direct;
mod distinct;
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
    decimals::Decimals,
    nested::{Lists, Structs},
    numbers::{Booleans, Bytes, Floats, Integers},
    texts::Texts,
    timestamps::Timestamps,
};
use super::{
    bloom::Bloom,
    compression::Compressor,
    encode::bytes::Presence,
    plan::{Kind, Plan},
    statistics::{Detail, Statistics},
    stream::{self, Written},
};
use crate::kernels::written_cast::written_cast;

/// The encoding of bloom filters whose timestamps are in UTC.
const BLOOM_ENCODING: u32 = 1;

/// Bytes of a row group's statistics and positions until its stripe ends, about.
pub(super) const PER_GROUP: usize = size_of::<Statistics>() + 256;

/// What is wrong with a column, by all its names with dots between.
#[derive(Debug)]
pub(super) struct Wrong {
    pub(super) column: String,
    pub(super) reason: String,
}

impl From<String> for Wrong {
    fn from(reason: String) -> Self {
        Self { column: String::new(), reason }
    }
}

/// Makes streams of a column's values.
pub(super) trait Encode: Send {
    /// Appends the rows of an array that are not null.
    fn write(&mut self, array: &ArrayRef, nulls: Option<&NullBuffer>, notes: &mut Notes)
    -> Result<(), Wrong>;

    /// What comes now belongs to another row group.
    fn begin_group(&mut self);

    /// Adds to the notes what is known only when a row group ends.
    fn end_group(&mut self, _notes: &mut Notes) -> Result<(), Wrong> {
        Ok(())
    }

    /// Compresses what is enough for a chunk.
    fn squeeze(&mut self, compressor: &mut Compressor) -> Result<(), String>;

    /// Bytes in memory.
    fn memory(&self) -> usize;

    /// Bytes that the streams will have, about.
    fn encoded(&self) -> usize;

    /// Ends the streams, and says where in them each row group begins.
    fn finish(self: Box<Self>, compressor: &mut Compressor, end: &mut End) -> Result<(), Wrong>;
}

/// What is noted of the values of a row group.
pub(super) struct Notes {
    pub(super) statistics: Statistics,
    pub(super) bloom: Option<Bloom>,
}

/// What becomes of a column when a stripe ends.
pub(super) struct End {
    pub(super) streams: Vec<(StreamKind, Written)>,
    pub(super) encoding: Encoding,
    /// Values of its dictionary.
    pub(super) dictionary: Option<u32>,
    /// For each row group, where it begins in the streams.
    pub(super) entries: Vec<Vec<u64>>,
    /// The columns in it, each before those in that.
    pub(super) children: Vec<EncodedColumn>,
}

/// A column as it will be in the stripe.
pub(super) struct EncodedColumn {
    pub(super) id: u32,
    pub(super) streams: Vec<(StreamKind, Written)>,
    pub(super) encoding: ColumnEncoding,
    pub(super) row_index: Written,
    pub(super) bloom_filters: Option<Written>,
    pub(super) statistics: Statistics,
}

/// Encodes a column in one stripe.
pub(super) struct Column {
    id: u32,
    path: Arc<str>,
    cast: Option<DataType>,
    chunk: usize,
    presence: Presence,
    encoder: Box<dyn Encode>,
    notes: Notes,
    /// Of the row groups that ended.
    groups: Vec<Statistics>,
}

impl Column {
    pub(super) fn new(plan: &Plan) -> Self {
        let bloom = plan.options.bloom_filter.filter(|_| plan.kind.has_bloom_filter()).map(Bloom::new);
        Self {
            id: plan.id,
            path: plan.path.clone(),
            cast: plan.cast.clone(),
            chunk: plan.options.chunk,
            presence: Presence::new(),
            encoder: encoder(plan),
            notes: Notes { statistics: Statistics::new(detail(plan.kind)), bloom },
            groups: Vec::new(),
        }
    }

    fn named(&self) -> impl Fn(Wrong) -> Wrong + use<> {
        let path = self.path.clone();
        move |wrong| match wrong.column.is_empty() {
            true => Wrong { column: path.to_string(), reason: wrong.reason },
            false => wrong,
        }
    }

    /// Appends rows, all of one row group.
    pub(super) fn write(&mut self, array: &ArrayRef) -> Result<(), Wrong> {
        let named = self.named();
        let cast = match &self.cast {
            None => array.clone(),
            Some(to) => written_cast(array, to).map_err(|reason| named(Wrong::from(reason)))?,
        };
        let nulls = cast.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        self.presence.append(nulls.as_ref(), cast.len());
        let statistics = &mut self.notes.statistics;
        statistics.values += (cast.len() - nulls.as_ref().map_or(0, NullBuffer::null_count)) as u64;
        statistics.has_null |= nulls.is_some();
        self.encoder.write(&cast, nulls.as_ref(), &mut self.notes).map_err(named)
    }

    pub(super) fn begin_group(&mut self) {
        self.presence.begin_group();
        self.encoder.begin_group();
    }

    pub(super) fn end_group(&mut self) -> Result<(), Wrong> {
        let named = self.named();
        self.encoder.end_group(&mut self.notes).map_err(named)?;
        let empty = Statistics::new(self.notes.statistics.detail.emptied());
        self.groups.push(std::mem::replace(&mut self.notes.statistics, empty));
        self.notes.bloom.iter_mut().for_each(Bloom::end_group);
        Ok(())
    }

    pub(super) fn squeeze(&mut self, compressor: &mut Compressor) -> Result<(), String> {
        self.encoder.squeeze(compressor)
    }

    pub(super) fn memory(&self) -> usize {
        self.presence.memory()
            + self.encoder.memory()
            + self.groups.len() * PER_GROUP
            + self.notes.bloom.as_ref().map_or(0, Bloom::memory)
    }

    pub(super) fn encoded(&self) -> usize {
        self.presence.memory() + self.encoder.encoded()
    }

    /// Appends this column and those in it.
    pub(super) fn finish(
        self,
        compressor: &mut Compressor,
        out: &mut Vec<EncodedColumn>,
    ) -> Result<(), Wrong> {
        let named = self.named();
        let mut end = End {
            streams: Vec::new(),
            encoding: Encoding::Direct,
            dictionary: None,
            entries: vec![Vec::new(); self.groups.len()],
            children: Vec::new(),
        };
        if let Some(presence) =
            self.presence.finish(self.chunk, compressor).map_err(Wrong::from).map_err(&named)?
        {
            presence.places(&mut end.entries);
            end.streams.push((StreamKind::Present, presence.written));
        }
        self.encoder.finish(compressor, &mut end).map_err(&named)?;
        let End { streams, encoding, dictionary, entries, children } = end;

        let mut statistics = Statistics::new(self.notes.statistics.detail.emptied());
        self.groups.iter().for_each(|group| statistics.merge(group));
        statistics.bytes = Some(streams.iter().map(|(_, written)| written.len).sum());
        // Messages one behind the other are one message with what all of them have: in memory there is one at a time.
        let mut row_index = Vec::new();
        for (positions, statistics) in entries.into_iter().zip(self.groups) {
            let entry = RowIndexEntry { positions, statistics: Some(statistics.message()) };
            row_index.extend(RowIndex { entry: vec![entry] }.encode_to_vec());
        }
        let has_bloom_filter = self.notes.bloom.is_some();
        let mut filters = Vec::new();
        for filter in self.notes.bloom.into_iter().flat_map(Bloom::filters) {
            filters.extend(BloomFilterIndex { bloom_filter: vec![filter] }.encode_to_vec());
        }
        let mut message =
            |bytes| stream::message(bytes, self.chunk, compressor).map_err(Wrong::from).map_err(&named);
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

fn encoder(plan: &Plan) -> Box<dyn Encode> {
    let options = &plan.options;
    let children = plan.children.iter().map(Column::new);
    match plan.kind {
        Kind::Boolean => Box::new(Booleans::new(options)),
        Kind::Byte => Box::new(Bytes::new(options)),
        Kind::Short => Box::new(Integers::<Int16Type>::new(options, Statistics::note_whole)),
        Kind::Int => Box::new(Integers::<Int32Type>::new(options, Statistics::note_whole)),
        Kind::Long => Box::new(Integers::<Int64Type>::new(options, Statistics::note_whole)),
        Kind::Float => Box::new(Floats::<Float32Type>::new(options)),
        Kind::Double => Box::new(Floats::<Float64Type>::new(options)),
        Kind::Date => Box::new(Integers::<Date32Type>::new(options, Statistics::note_dates)),
        Kind::Decimal(precision, scale) => Box::new(Decimals::new(precision, scale, options)),
        Kind::Timestamp(unit) => Box::new(Timestamps::new(unit, options)),
        Kind::Text(length) => Box::new(Texts::new(Some(length), options)),
        Kind::Binary => Box::new(Texts::new(None, options)),
        Kind::Struct => Box::new(Structs { children: children.collect() }),
        Kind::List | Kind::Map => Box::new(Lists::new(children.collect(), options)),
    }
}

/// Statistics of no values.
pub(super) fn detail(kind: Kind) -> Detail {
    match kind {
        Kind::Boolean => Detail::Booleans(0),
        Kind::Byte | Kind::Short | Kind::Int | Kind::Long => Detail::Whole { bounds: None, sum: 0 },
        Kind::Float | Kind::Double => Detail::Floats { bounds: None, sum: 0.0 },
        Kind::Date => Detail::Dates(None),
        Kind::Decimal(_, scale) => Detail::Decimals { bounds: None, sum: Some(0), scale },
        Kind::Timestamp(unit) => Detail::Times { bounds: None, unit },
        Kind::Text(_) => Detail::Texts { bounds: None, bytes: 0 },
        Kind::Binary => Detail::Bytes(0),
        Kind::List | Kind::Map => Detail::Children { bounds: None, total: 0 },
        Kind::Struct => Detail::Nothing,
    }
}

/// The array with its type known.
pub(super) fn primitive<T: ArrowPrimitiveType>(array: &dyn Array) -> Result<&PrimitiveArray<T>, String> {
    let other = || format!("{} where {} was promised", array.data_type(), T::DATA_TYPE);
    array.as_any().downcast_ref().ok_or_else(other)
}

/// Values of the rows that have one.
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
