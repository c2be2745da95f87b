//! Encodes strings or bytes with a dictionary, and falls back to plain values once it gets too large.

use arrow::array::{Array, ArrayRef, AsArray};
use parquet::schema::types::ColumnDescPtr;

use super::{coded::DictionaryChunkEncoder, strings::PlainStringEncoder};
use crate::{
    kernels::expand::expand,
    parquet::write::{chunk::EncodedChunk, options::ParquetEncoderOptions},
};

const FAILED: &str = "a column that failed before";

/// Encoder of one column chunk.
pub(crate) struct FallbackEncoder {
    /// Maximum bytes of the dictionary.
    max_dictionary_bytes: usize,
    state: FallbackEncoderState,
}

enum FallbackEncoderState {
    Coded(Box<DictionaryChunkEncoder>),
    GivenUp(Box<PlainStringEncoder>),
    /// The fallback failed.
    Failed,
}

impl FallbackEncoder {
    pub(crate) fn new(
        descriptor: ColumnDescPtr,
        plan: ParquetEncoderOptions,
        max_dictionary_bytes: usize,
    ) -> Result<Self, String> {
        Ok(Self {
            max_dictionary_bytes,
            state: FallbackEncoderState::Coded(Box::new(DictionaryChunkEncoder::new(
                descriptor, plan, None,
            )?)),
        })
    }

    /// Returns the memory in use, in bytes.
    pub(crate) fn memory(&self) -> usize {
        match &self.state {
            FallbackEncoderState::Coded(coded) => coded.memory(),
            FallbackEncoderState::GivenUp(strings) => strings.memory(),
            FallbackEncoderState::Failed => 0,
        }
    }

    /// Returns an estimate of the chunk's bytes.
    pub(crate) fn encoded(&self) -> usize {
        match &self.state {
            FallbackEncoderState::Coded(coded) => coded.encoded(),
            FallbackEncoderState::GivenUp(strings) => strings.encoded(),
            FallbackEncoderState::Failed => 0,
        }
    }

    /// Returns whether no more rows should be added, since the dictionary would exceed the limits of readers.
    pub(crate) fn is_full(&self) -> bool {
        matches!(&self.state, FallbackEncoderState::Coded(coded) if coded.is_full())
    }

    /// Encodes more rows: strings, or codes of strings.
    pub(crate) fn write(&mut self, arrays: &[ArrayRef]) -> Result<(), String> {
        let are_codes = arrays.iter().all(|array| array.as_any_dictionary_opt().is_some());
        match &mut self.state {
            FallbackEncoderState::Coded(coded) if are_codes => coded.write(arrays),
            _ => arrays.iter().try_for_each(|array| self.write_one(array)),
        }
    }

    fn write_one(&mut self, array: &ArrayRef) -> Result<(), String> {
        let codes = array.as_any_dictionary_opt();
        let mut rest = match (&mut self.state, codes) {
            (FallbackEncoderState::Coded(coded), Some(_)) => return coded.write(std::slice::from_ref(array)),
            (_, Some(_)) => expand(array).map_err(|error| error.to_string())?,
            (_, None) => array.clone(),
        };
        if let FallbackEncoderState::Coded(coded) = &mut self.state {
            let done = coded.write_values(array, self.max_dictionary_bytes)?;
            if done == array.len() {
                return Ok(());
            }
            rest = array.slice(done, array.len() - done);
        }

        self.state = match std::mem::replace(&mut self.state, FallbackEncoderState::Failed) {
            FallbackEncoderState::Coded(coded) => FallbackEncoderState::GivenUp(Box::new(coded.give_up()?)),
            state => state,
        };
        match &mut self.state {
            FallbackEncoderState::GivenUp(strings) => strings.write(&rest),
            FallbackEncoderState::Coded(_) | FallbackEncoderState::Failed => Err(FAILED.to_owned()),
        }
    }

    pub(crate) fn finish(self) -> Result<EncodedChunk, String> {
        match self.state {
            FallbackEncoderState::Coded(coded) => coded.finish().map(|(chunk, _)| chunk),
            FallbackEncoderState::GivenUp(strings) => strings.finish(),
            FallbackEncoderState::Failed => Err(FAILED.to_owned()),
        }
    }
}
