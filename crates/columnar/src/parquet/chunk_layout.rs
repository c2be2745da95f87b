//! Byte ranges of the column chunks of Parquet files, for a cache that reads ahead of other engines.

use std::ops::Range;

use parquet::file::{
    FOOTER_SIZE,
    metadata::{FooterTail, ParquetMetaDataOptions, ParquetMetaDataReader, ParquetStatisticsPolicy},
};
use stylobate_storage::ColumnLayout;

use crate::parallel::guarded::guarded;

/// Finds the column chunks of Parquet files, except those with an encrypted footer.
#[derive(Clone, Copy, Debug, Default)]
pub struct ParquetLayout;

impl ColumnLayout for ParquetLayout {
    fn extension(&self) -> &'static str {
        "parquet"
    }

    fn end_len(&self) -> u64 {
        FOOTER_SIZE as u64
    }

    fn footer_len(&self, end: &[u8]) -> Option<u64> {
        let tail = FooterTail::try_from(end).ok().filter(|tail| !tail.is_encrypted_footer())?;
        Some((tail.metadata_length() + FOOTER_SIZE) as u64)
    }

    fn chunks(&self, footer: &[u8]) -> Option<Vec<Vec<Range<u64>>>> {
        let metadata = footer.get(..footer.len().checked_sub(FOOTER_SIZE)?)?;
        let options =
            ParquetMetaDataOptions::new().with_column_stats_policy(ParquetStatisticsPolicy::SkipAll);

        // The parquet crate may panic on values that no writer would write.
        let decoded = guarded(|| {
            let metadata =
                ParquetMetaDataReader::decode_metadata_with_options(metadata, Some(&options)).ok()?;
            let groups = metadata.row_groups().iter().map(|group| {
                let chunks = group.columns().iter().map(|chunk| {
                    let (start, len) = chunk.byte_range();
                    Some(start..start.checked_add(len)?)
                });
                chunks.collect::<Option<Vec<_>>>()
            });
            groups.collect::<Option<Vec<_>>>()
        });
        decoded.ok().flatten()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    use parquet::{arrow::ArrowWriter, file::properties::WriterProperties};

    use super::*;

    /// Returns a file with three columns in row groups of 100 rows, and its metadata.
    fn file(rows: i64) -> (Vec<u8>, parquet::file::metadata::ParquetMetaData) {
        let column =
            |step: i64| Arc::new((0..rows).map(|row| row * step).collect::<Int64Array>()) as ArrayRef;
        let batch =
            RecordBatch::try_from_iter([("a", column(1)), ("b", column(2)), ("c", column(3))]).unwrap();
        let properties = WriterProperties::builder().set_max_row_group_row_count(Some(100)).build();
        let mut bytes = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        let metadata = writer.close().unwrap();
        (bytes, metadata)
    }

    #[test]
    fn the_chunks_of_all_row_groups_are_found() {
        let (bytes, metadata) = file(250);
        let len = ParquetLayout.footer_len(&bytes[bytes.len() - FOOTER_SIZE..]).unwrap() as usize;
        let chunks = ParquetLayout.chunks(&bytes[bytes.len() - len..]).unwrap();

        assert_eq!(chunks.iter().map(Vec::len).collect::<Vec<_>>(), [3, 3, 3]);
        for (group, chunks) in metadata.row_groups().iter().zip(&chunks) {
            for (column, chunk) in group.columns().iter().zip(chunks) {
                assert_eq!(column.byte_range(), (chunk.start, chunk.end - chunk.start));
            }
        }
    }

    #[test]
    fn other_files_and_damaged_footers_have_none() {
        let (bytes, _) = file(250);
        assert_eq!(ParquetLayout.footer_len(b"\x03\0\0\0ORC1"), None);
        assert_eq!(ParquetLayout.footer_len(b"PAR1"), None);
        assert_eq!(ParquetLayout.chunks(b""), None);

        let len = ParquetLayout.footer_len(&bytes[bytes.len() - FOOTER_SIZE..]).unwrap() as usize;
        let footer = &bytes[bytes.len() - len..];
        for at in 0..footer.len() {
            for bits in [0x01, 0x80, 0xff] {
                let mut damaged = footer.to_vec();
                damaged[at] ^= bits;
                ParquetLayout.chunks(&damaged);
            }
        }
    }
}
