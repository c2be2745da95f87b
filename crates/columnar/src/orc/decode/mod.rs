//! Decodes the columns of a stripe, batch by batch.
//!
//! The decoders of `orc-rust` are not used: those of version 0.9 return wrong timestamps before 1970 if the writer is
//! the C++ library, and after 2099 if the writer's zone has daylight saving time; reject runs of numbers that overflow
//! by design; cannot skip fields of a struct; and allocate as much as a corrupt length claims.

mod bits;
mod coded;
pub(super) mod ints;
mod nested;
mod numbers;
mod reached;
mod strings;
mod timestamps;
mod unpack;

use std::{
    marker::PhantomData,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use arrow::{
    array::ArrayRef,
    buffer::NullBuffer,
    datatypes::{
        DataType, Date32Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, TimeUnit,
        TimestampMicrosecondType, TimestampNanosecondType,
    },
};

use self::{
    bits::{BooleanRleDecoder, ByteRleDecoder, PresentStreamDecoder},
    coded::{DictionaryExpandingReader, codes},
    ints::IntRleDecoder,
    nested::{ListColumnReader, MapColumnReader, StructColumnReader, UnionColumnReader},
    numbers::{
        BooleanColumnReader, ByteColumnReader, DecimalColumnReader, FloatColumnReader,
        HybridDateColumnReader, IntColumnReader, ShortDecimalColumnReader,
    },
    reached::DecodedPosition,
    strings::DirectStringReader,
    timestamps::TimestampColumnReader,
};
pub(super) use self::{coded::dictionary, strings::StripeDictionaries};
use super::{
    bytes::StripeStreams,
    calendar::Calendar,
    fault::OrcReadError,
    stripe::StreamKind,
    tree::{MAX_VARIANTS, OrcType, OrcTypeKind},
};
use crate::Result;

/// Decoder of a column's streams into arrays.
trait OrcColumnReader: Send {
    /// Decodes the next `len` rows; rows that the parent lacks are null, and omitted from the streams.
    fn next(&mut self, len: usize, parent: Option<&NullBuffer>) -> Result<ArrayRef, OrcReadError>;

    /// Appends the position reached in each stream.
    fn reached(&mut self, reached: &mut Vec<DecodedPosition>) -> Result<(), OrcReadError>;
}

/// Column decoder, with the column's name for errors.
struct StripeColumnDecoder {
    path: Arc<str>,
    offset: Option<u64>,
    decoder: Box<dyn OrcColumnReader>,
}

/// Batches of a stripe: one array per column, in the requested order. Ends after an error.
pub(crate) struct OrcBatches {
    object: Arc<str>,
    stripe: usize,
    rows_left: u64,
    batch_rows: usize,
    root: PresentStreamDecoder,
    columns: Vec<StripeColumnDecoder>,
}

impl OrcBatches {
    pub(super) fn new(
        object: Arc<str>,
        stripe: usize,
        rows: u64,
        batch_rows: usize,
        columns: &[OrcType],
        streams: &StripeStreams,
        dictionaries: &mut StripeDictionaries,
    ) -> Result<Self, OrcReadError> {
        let columns = columns.iter().map(|column| StripeColumnDecoder::top(column, streams, dictionaries));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let rows_left = if columns.is_empty() { 0 } else { rows };
        let root = PresentStreamDecoder::of(0, streams);
        Ok(Self { object, stripe, rows_left, batch_rows: batch_rows.max(1), root, columns })
    }

    fn batch(&mut self) -> Result<Vec<ArrayRef>, OrcReadError> {
        let len = self.rows_left.min(self.batch_rows as u64) as usize;
        let rows = self.root.read(len, None)?;
        let arrays = self.columns.iter_mut().map(|column| column.next(len, rows.nulls.as_ref()));
        let arrays = arrays.collect::<Result<_, _>>()?;
        self.rows_left -= len as u64;
        Ok(arrays)
    }

    /// Returns the position reached in each stream, always in the same order.
    pub(super) fn reached(&mut self) -> Result<Vec<DecodedPosition>, OrcReadError> {
        let mut reached: Vec<DecodedPosition> = self.root.reached()?.into_iter().collect();
        for column in &mut self.columns {
            column.reached(&mut reached)?;
        }
        Ok(reached)
    }
}

impl Iterator for OrcBatches {
    type Item = Result<Vec<ArrayRef>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rows_left == 0 {
            return None;
        }
        // No panic is known; if an Arrow constructor panics on untrusted bytes, they are reported as corrupt.

        let batch = catch_unwind(AssertUnwindSafe(|| self.batch()))
            .unwrap_or_else(|_| Err(OrcReadError::corrupt("the decoder failed")))
            .map_err(|fault| fault.into_error(&self.object, Some(self.stripe)));
        if batch.is_err() {
            self.rows_left = 0;
        }
        Some(batch)
    }
}

impl StripeColumnDecoder {
    /// Returns the decoder of a top-level column, which keeps the dictionary of the stripe if there is one and
    /// `dictionaries` is set to keep them.
    fn top(
        column: &OrcType,
        streams: &StripeStreams,
        dictionaries: &mut StripeDictionaries,
    ) -> Result<Self, OrcReadError> {
        let decoder = if dictionaries.keeps && column.is_text() {
            codes(column, streams, dictionaries).transpose()
        } else {
            None
        };
        match decoder {
            Some(decoder) => Self::of(column, streams, decoder),
            None => Self::new(column, streams, dictionaries),
        }
    }

    fn new(
        column: &OrcType,
        streams: &StripeStreams,
        dictionaries: &mut StripeDictionaries,
    ) -> Result<Self, OrcReadError> {
        Self::of(column, streams, decoder(column, streams, dictionaries))
    }

    fn of(
        column: &OrcType,
        streams: &StripeStreams,
        decoder: Result<Box<dyn OrcColumnReader>, OrcReadError>,
    ) -> Result<Self, OrcReadError> {
        let offset = streams.offset(column.id);
        let decoder = decoder.map_err(|fault| fault.of_column(&column.path).at(offset))?;
        Ok(Self { path: column.path.clone(), offset, decoder })
    }

    fn next(&mut self, len: usize, parent: Option<&NullBuffer>) -> Result<ArrayRef, OrcReadError> {
        self.decoder.next(len, parent).map_err(|fault| fault.of_column(&self.path).at(self.offset))
    }

    fn reached(&mut self, reached: &mut Vec<DecodedPosition>) -> Result<(), OrcReadError> {
        self.decoder.reached(reached).map_err(|fault| fault.of_column(&self.path).at(self.offset))
    }
}

fn decoder(
    column: &OrcType,
    streams: &StripeStreams,
    dictionaries: &mut StripeDictionaries,
) -> Result<Box<dyn OrcColumnReader>, OrcReadError> {
    let presence = PresentStreamDecoder::of(column.id, streams);
    let get = |kind| streams.get(column.id, kind);
    let encoding = streams.encoding(column.id)?;
    let ints = |kind, signed| IntRleDecoder::new(get(kind), signed, encoding.is_rle_v2);
    let direct = |is_text| {
        let presence = PresentStreamDecoder::of(column.id, streams);
        let data = get(StreamKind::Data);
        Box::new(DirectStringReader { presence, lengths: ints(StreamKind::Length, false), data, is_text })
    };

    Ok(match column.kind {
        OrcTypeKind::Boolean => {
            Box::new(BooleanColumnReader { presence, bits: BooleanRleDecoder::new(get(StreamKind::Data)) })
        }
        OrcTypeKind::Byte => {
            Box::new(ByteColumnReader { presence, runs: ByteRleDecoder::new(get(StreamKind::Data)) })
        }
        OrcTypeKind::Short => Box::new(integers::<Int16Type>(presence, ints(StreamKind::Data, true))),
        OrcTypeKind::Int => Box::new(integers::<Int32Type>(presence, ints(StreamKind::Data, true))),
        OrcTypeKind::Long => Box::new(integers::<Int64Type>(presence, ints(StreamKind::Data, true))),
        OrcTypeKind::Date => {
            let days = integers::<Date32Type>(presence, ints(StreamKind::Data, true));
            match column.calendar {
                Calendar::Gregorian => Box::new(days),
                Calendar::Hybrid => Box::new(HybridDateColumnReader(days)),
            }
        }
        OrcTypeKind::Float => Box::new(FloatColumnReader::<Float32Type, 4> {
            presence,
            stream: get(StreamKind::Data),
            of: PhantomData,
        }),
        OrcTypeKind::Double => Box::new(FloatColumnReader::<Float64Type, 8> {
            presence,
            stream: get(StreamKind::Data),
            of: PhantomData,
        }),
        OrcTypeKind::Decimal(precision, scale) => Box::new(DecimalColumnReader {
            presence,
            digits: get(StreamKind::Data),
            scales: ints(StreamKind::Secondary, true),
            precision,
            scale,
        }),
        OrcTypeKind::ShortDecimal(precision, scale) => {
            // These use version 2, regardless of the column's encoding.
            let ints = IntRleDecoder::new(get(StreamKind::Data), true, true);
            Box::new(ShortDecimalColumnReader { presence, ints, precision, scale })
        }
        OrcTypeKind::String | OrcTypeKind::Char => match codes(column, streams, dictionaries)? {
            Some(codes) => Box::new(DictionaryExpandingReader(codes)),
            None => direct(true),
        },
        OrcTypeKind::Binary => direct(false),
        OrcTypeKind::Timestamp(unit) | OrcTypeKind::Instant(unit) => {
            let instant = matches!(column.kind, OrcTypeKind::Instant(_));
            let zone = if instant { None } else { timestamps::zone(streams.zone())? };
            let calendar = column.calendar;
            let labelled = instant.then(|| Arc::from("UTC"));
            let seconds = ints(StreamKind::Data, true);
            let nanoseconds = ints(StreamKind::Secondary, false);

            if unit == TimeUnit::Microsecond {
                let of = PhantomData::<fn() -> TimestampMicrosecondType>;
                Box::new(TimestampColumnReader {
                    presence,
                    seconds,
                    nanoseconds,
                    zone,
                    calendar,
                    labelled,
                    of,
                })
            } else {
                let of = PhantomData::<fn() -> TimestampNanosecondType>;
                Box::new(TimestampColumnReader {
                    presence,
                    seconds,
                    nanoseconds,
                    zone,
                    calendar,
                    labelled,
                    of,
                })
            }
        }
        OrcTypeKind::Struct => {
            let children =
                column.children.iter().map(|child| StripeColumnDecoder::new(child, streams, dictionaries));
            let children = children.collect::<Result<_, _>>()?;
            let fields = column.children.iter().map(OrcType::field).collect();
            Box::new(StructColumnReader { presence, fields, children })
        }
        OrcTypeKind::List => {
            let [item] = column.children.as_slice() else {
                return Err(OrcReadError::corrupt("a list without items"));
            };
            let lengths = ints(StreamKind::Length, false);
            let field = item.field();
            let item = StripeColumnDecoder::new(item, streams, dictionaries)?;
            Box::new(ListColumnReader { presence, lengths, field, item })
        }
        OrcTypeKind::Map => {
            let [key, value] = column.children.as_slice() else {
                return Err(OrcReadError::unsupported(
                    "a map is read with both its keys and its values, or not at all",
                ));
            };

            let lengths = ints(StreamKind::Length, false);
            let entries = column.entries();
            let DataType::Struct(fields) = entries.data_type() else {
                return Err(OrcReadError::corrupt("a map without entries"));
            };

            let key = StripeColumnDecoder::new(key, streams, dictionaries)?;
            let value = StripeColumnDecoder::new(value, streams, dictionaries)?;
            Box::new(MapColumnReader { presence, lengths, fields: fields.clone(), entries, key, value })
        }
        OrcTypeKind::Union => {
            if column.children.is_empty() || column.children.len() > MAX_VARIANTS {
                let variants = column.children.len();
                return Err(OrcReadError::unsupported(format!(
                    "a union of {variants} types, not of 1 to {MAX_VARIANTS}"
                )));
            }

            let DataType::Union(fields, _) = column.data_type() else {
                return Err(OrcReadError::corrupt("a union without variants"));
            };

            let variants =
                column.children.iter().map(|child| StripeColumnDecoder::new(child, streams, dictionaries));
            let variants = variants.collect::<Result<_, _>>()?;
            Box::new(UnionColumnReader {
                presence,
                tags: ByteRleDecoder::new(get(StreamKind::Data)),
                fields,
                variants,
            })
        }
        OrcTypeKind::Unknown(kind) => {
            return Err(OrcReadError::unsupported(format!("type {kind} of ORC is not known here")));
        }
    })
}

fn integers<T>(presence: PresentStreamDecoder, ints: IntRleDecoder) -> IntColumnReader<T> {
    IntColumnReader { presence, ints, of: PhantomData }
}
