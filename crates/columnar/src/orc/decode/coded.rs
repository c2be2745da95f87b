//! Decodes strings with a stripe dictionary as dictionary arrays, or expands them for callers that cannot use
//! dictionaries.

use std::marker::PhantomData;

use arrow::{
    array::{Array, ArrayRef},
    buffer::NullBuffer,
};

use super::{
    OrcColumnReader, PresentStreamDecoder,
    ints::IntRleDecoder,
    reached::DecodedPosition,
    strings::{StripeDictionaries, values},
};
use crate::{
    kernels::{
        codes::{CodeWidth, Codes, DictionaryCode},
        expand::expand,
    },
    orc::{bytes::StripeStreams, fault::OrcReadError, stripe::StreamKind, tree::OrcType},
};

/// Maximum codes that capacity is reserved for in advance.
const MAX_AHEAD: usize = 4 << 20;

/// Decodes all rows of a string column as a dictionary array; `None` if the stripe has no dictionary for it.
pub(in crate::orc) fn dictionary(
    column: &OrcType,
    streams: &StripeStreams,
    rows: usize,
) -> Result<Option<ArrayRef>, OrcReadError> {
    let decoded = || {
        let Some(mut codes) = codes(column, streams, &mut StripeDictionaries::kept())? else {
            return Ok(None);
        };
        let parent = PresentStreamDecoder::of(0, streams).read(rows, None)?;
        codes.next(rows, parent.nulls.as_ref()).map(Some)
    };
    decoded().map_err(|fault: OrcReadError| fault.of_column(&column.path).at(streams.offset(column.id)))
}

/// Returns a reader of dictionary arrays of a column; `None` if the stripe has no dictionary for it.
pub(super) fn codes(
    column: &OrcType,
    streams: &StripeStreams,
    dictionaries: &mut StripeDictionaries,
) -> Result<Option<Box<dyn OrcColumnReader>>, OrcReadError> {
    let encoding = streams.encoding(column.id)?;
    let Some(count) = encoding.dictionary else { return Ok(None) };
    let ints = |kind| IntRleDecoder::new(streams.get(column.id, kind), false, encoding.is_rle_v2);
    let values = dictionaries.get(column.id, || {
        let data = streams.get(column.id, StreamKind::DictionaryData);
        values(count, ints(StreamKind::Length), data)
    })?;
    let presence = PresentStreamDecoder::of(column.id, streams);
    let codes = ints(StreamKind::Data);

    Ok(Some(match CodeWidth::of(values.len()) {
        CodeWidth::U8 => Box::new(DictionaryStringReader::<u8> { presence, codes, values, of: PhantomData }),
        CodeWidth::U16 => {
            Box::new(DictionaryStringReader::<u16> { presence, codes, values, of: PhantomData })
        }
        CodeWidth::U32 => {
            Box::new(DictionaryStringReader::<u32> { presence, codes, values, of: PhantomData })
        }
    }))
}

/// Reader of dictionary codes, as narrow as the number of values allows.
struct DictionaryStringReader<T> {
    presence: PresentStreamDecoder,
    codes: IntRleDecoder,
    values: ArrayRef,
    of: PhantomData<fn() -> T>,
}

impl<T: DictionaryCode> OrcColumnReader for DictionaryStringReader<T> {
    fn next(&mut self, len: usize, parent: Option<&NullBuffer>) -> Result<ArrayRef, OrcReadError> {
        let rows = self.presence.read(len, parent)?;
        let values = self.values.len();
        let mut present: Codes<T> = Codes::with_capacity(rows.values().min(MAX_AHEAD));
        let mut narrow: Vec<u32> = Vec::new();
        self.codes.each(rows.values(), |codes| {
            // As unsigned numbers, negative codes become the largest.
            if codes.iter().fold(0, |max: u64, code| max.max(*code as u64)) >= values as u64 {
                let lost = codes.iter().find(|code| **code as u64 >= values as u64);
                let lost = lost.copied().unwrap_or_default();
                return Err(OrcReadError::corrupt(format!("value {lost} of a dictionary of {values}")));
            }

            narrow.clear();
            narrow.extend(codes.iter().map(|code| *code as u32));
            present.extend(&narrow);

            Ok(())
        })?;

        let codes = match &rows.nulls {
            None => present,
            Some(nulls) => {
                let mut codes = Codes::with_capacity(rows.len);
                codes.append_scattered(&present, nulls.inner());
                codes
            }
        };

        Ok(codes.into_array(rows.nulls, self.values.clone())?)
    }

    fn reached(&mut self, reached: &mut Vec<DecodedPosition>) -> Result<(), OrcReadError> {
        reached.extend(self.presence.reached()?);
        reached.push(self.codes.reached()?);
        Ok(())
    }
}

/// Expands the dictionary arrays of another reader.
pub(super) struct DictionaryExpandingReader(pub(super) Box<dyn OrcColumnReader>);

impl OrcColumnReader for DictionaryExpandingReader {
    fn next(&mut self, len: usize, parent: Option<&NullBuffer>) -> Result<ArrayRef, OrcReadError> {
        expand(&self.0.next(len, parent)?).map_err(|error| OrcReadError::unsupported(error.to_string()))
    }

    fn reached(&mut self, reached: &mut Vec<DecodedPosition>) -> Result<(), OrcReadError> {
        self.0.reached(reached)
    }
}
