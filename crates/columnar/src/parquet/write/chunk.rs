//! Encoded column chunks, before their offset in the file is known.

use bytes::Bytes;
use parquet::{
    bloom_filter::Sbbf,
    file::{
        metadata::ColumnChunkMetaData,
        page_index::{column_index::ColumnIndexMetaData, offset_index::OffsetIndexMetaData},
    },
};

/// Values that keys of 16 bits can address.
pub(super) const MAX_NARROW: usize = u16::MAX as usize;

/// Pages of a column chunk, with its metadata.
pub(super) struct EncodedChunk {
    /// Headers and bodies of the pages, in the order of the file.
    pub(super) blobs: Vec<Bytes>,
    /// Offsets are relative to the start of the chunk.
    pub(super) metadata: ColumnChunkMetaData,
    pub(super) column_index: Option<ColumnIndexMetaData>,
    pub(super) offset_index: Option<OffsetIndexMetaData>,
    pub(super) bloom_filter: Option<Sbbf>,
    pub(super) rows: u64,
    /// Hashes of the values of its dictionary, if the column's keys are narrow and can address all of them.
    pub(super) hashes: Option<Vec<u64>>,
}

impl EncodedChunk {
    /// Shifts the offsets for a chunk that begins at `start` in the file.
    pub(super) fn placed(mut self, start: u64) -> Result<Self, String> {
        let by = i64::try_from(start).map_err(|_| "a file of more than 8 EiB".to_owned())?;
        let dictionary = self.metadata.dictionary_page_offset().map(|offset| offset + by);
        let data = self.metadata.data_page_offset() + by;
        let moved = self.metadata.into_builder().set_dictionary_page_offset(dictionary);
        self.metadata = moved.set_data_page_offset(data).build().map_err(|error| error.to_string())?;

        for page in self.offset_index.iter_mut().flat_map(|index| &mut index.page_locations) {
            page.offset += by;
        }
        Ok(self)
    }
}
