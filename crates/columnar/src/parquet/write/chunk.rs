//! An encoded column chunk, on its way to wherever it lies in the file.

use bytes::Bytes;
use parquet::{
    bloom_filter::Sbbf,
    file::{
        metadata::ColumnChunkMetaData,
        page_index::{column_index::ColumnIndexMetaData, offset_index::OffsetIndexMetaData},
    },
};

/// Values that keys of 16 bits tell apart.
pub(super) const MAX_NARROW: usize = u16::MAX as usize;

/// The pages of a column chunk, and what the footer says of them.
pub(super) struct EncodedChunk {
    /// Headers and bodies of the pages, in the order of the file.
    pub(super) blobs: Vec<Bytes>,
    /// With offsets from the beginning of the chunk.
    pub(super) metadata: ColumnChunkMetaData,
    pub(super) column_index: Option<ColumnIndexMetaData>,
    pub(super) offset_index: Option<OffsetIndexMetaData>,
    pub(super) bloom_filter: Option<Sbbf>,
    pub(super) rows: u64,
    /// Hashes of the values of its dictionary, where a column's keys are narrow and these are not too many for them.
    pub(super) hashes: Option<Vec<u64>>,
}

impl EncodedChunk {
    /// With offsets of a file in which it begins at `start`.
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
