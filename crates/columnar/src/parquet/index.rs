//! Page index and bloom filters of a row group: the offsets of a leaf's pages, and the values in them.
//!
//! An index that cannot be read is treated as absent: indexes make scans cheaper, but never decide whether they
//! succeed.

pub(super) mod checks;
pub(super) mod page_statistics;
pub(super) mod selected;

use std::{ops::Range, sync::Arc};

use ::bytes::Bytes;
use parquet::{
    DecodeResult,
    bloom_filter::Sbbf,
    errors::ParquetError,
    file::metadata::{
        ColumnChunkMetaData, FileMetaData, PageIndexPolicy, ParquetColumnIndex, ParquetMetaData,
        ParquetMetaDataPushDecoder, ParquetOffsetIndex, RowGroupMetaData,
    },
    file::page_index::{column_index::ColumnIndexMetaData, offset_index::PageLocation},
};
use stylobate_storage::OpenObject;

use self::checks as index_checks;
use super::{
    ParquetFile,
    footer::{is_encrypted, statistics::leaf_of},
    pages::plain::required_column,
};
use crate::{Result, file::schema::ProjectedColumn, parallel::guarded::guarded, predicate::Column};

/// Maximum bytes of an index that are read.
const MAX_BYTES: u64 = 16 << 20;
/// Bytes searched for a bloom filter of unknown length: the maximum of most writers, and a header.
const UNKNOWN_BLOOM: u64 = (1 << 20) + 64;

/// Index of one leaf of one row group, beyond the footer.
#[derive(Debug, Default)]
pub(crate) struct LeafIndex {
    pub(super) pages: Option<LeafPageIndex>,
    pub(super) bloom: Option<Sbbf>,
    bytes: u64,
}

/// Pages of a leaf.
#[derive(Debug)]
pub(super) struct LeafPageIndex {
    /// Column index: one row group with one column, as the parquet crate expects it. It may be empty.
    pub(super) values: ParquetColumnIndex,
    /// Offset index, in the same form.
    pub(super) offsets: ParquetOffsetIndex,
}

impl LeafIndex {
    /// Returns an estimate of the bytes in memory.
    pub(crate) fn weight(&self) -> u64 {
        self.bytes.saturating_mul(4)
    }
}

impl LeafPageIndex {
    /// Returns the locations of the data pages.
    pub(super) fn locations(&self) -> &[PageLocation] {
        self.offsets.first().and_then(|group| group.first()).map_or(&[], |index| index.page_locations())
    }

    /// Returns the column index, if there is one.
    fn values(&self) -> Option<&ColumnIndexMetaData> {
        self.values.first().and_then(|group| group.first())
    }

    /// Returns the first row of each page.
    pub(super) fn starts(&self) -> impl Iterator<Item = u64> {
        self.locations().iter().map(|page| page.first_row_index.max(0) as u64)
    }
}

/// Byte ranges of the parts of a leaf's index.
struct LeafIndexRanges {
    values: Option<Range<u64>>,
    offsets: Option<Range<u64>>,
    bloom: Option<Range<u64>>,
}

impl LeafIndexRanges {
    fn each(&self) -> impl Iterator<Item = Range<u64>> {
        [&self.values, &self.offsets, &self.bloom].into_iter().flatten().cloned()
    }
}

impl ParquetFile {
    /// Reads the indexes of these leaves, each with its bloom filter if requested, if they exist.
    pub(crate) async fn leaf_indexes(
        &self,
        object: &OpenObject,
        row_group: usize,
        leaves: &[(usize, bool)],
    ) -> Result<Vec<LeafIndex>> {
        let size = object.meta().size;
        let chunks = leaves.iter().map(|(leaf, bloom)| {
            let chunk = self.column_chunk(row_group, *leaf)?;
            Ok((chunk, ranges(chunk, *bloom, size)))
        });
        let chunks: Vec<_> = chunks.collect::<Result<_>>()?;
        let wanted: Vec<Range<u64>> = chunks.iter().flat_map(|(_, ranges)| ranges.each()).collect();
        let mut read = if wanted.is_empty() { Vec::new() } else { object.read(&wanted).await? }.into_iter();
        let rows = self.row_group_rows(row_group);

        let index = |(chunk, ranges): &(&ColumnChunkMetaData, LeafIndexRanges)| {
            let mut take = |range: &Option<Range<u64>>| range.as_ref().and_then(|_| read.next());
            let values = take(&ranges.values);
            let offsets = take(&ranges.offsets);
            let bloom = take(&ranges.bloom);
            let pages = guarded(|| pages(chunk, ranges, values, offsets, size)).ok().flatten();

            LeafIndex {
                pages: pages
                    .filter(|pages| index_checks::is_sound(pages.values(), pages.locations(), chunk, rows)),
                bloom: bloom.and_then(|bytes| guarded(|| bloom_filter(chunk, &bytes)).ok().flatten()),
                bytes: ranges.each().map(|range| range.end - range.start).sum(),
            }
        };

        Ok(chunks.iter().map(index).collect())
    }

    /// Returns the leaves of the row group whose index may help a filter over these columns, and for each whether its
    /// bloom filter may help: that is, whether the filter compares the column for equality.
    pub(crate) fn indexed_leaves<'a>(
        &self,
        row_group: usize,
        columns: impl Iterator<Item = (&'a Column, bool)>,
    ) -> Vec<(usize, bool)> {
        let leaf = |(column, equality): (&Column, bool)| {
            let (leaf, _) = leaf_of(self, column)?;
            let chunk = self.column_chunk(row_group, leaf).ok().filter(|chunk| !is_encrypted(chunk))?;
            let bloom = equality && chunk.bloom_filter_offset().is_some();
            (bloom || chunk.column_index_offset().is_some()).then_some((leaf, bloom))
        };
        columns.filter_map(leaf).collect()
    }

    /// Returns the leaves of some columns.
    pub(crate) fn leaves_of(&self, columns: &[ProjectedColumn]) -> Vec<usize> {
        columns.iter().flat_map(|column| self.wanted(column)).collect()
    }
}

fn ranges(chunk: &ColumnChunkMetaData, bloom: bool, size: u64) -> LeafIndexRanges {
    if is_encrypted(chunk) {
        return LeafIndexRanges { values: None, offsets: None, bloom: None };
    }

    let range = |offset: Option<i64>, length: Option<i32>| {
        let start = u64::try_from(offset?).ok()?;
        let end = start.checked_add(u64::try_from(length?).ok()?)?;
        (start < end && end <= size && end - start <= MAX_BYTES).then_some(start..end)
    };
    let filter = || {
        let start = u64::try_from(chunk.bloom_filter_offset()?).ok()?;
        match chunk.bloom_filter_length() {
            Some(length) => range(chunk.bloom_filter_offset(), Some(length)),
            None => (start < size).then(|| start..size.min(start.saturating_add(UNKNOWN_BLOOM))),
        }
    };

    LeafIndexRanges {
        values: range(chunk.column_index_offset(), chunk.column_index_length()),
        offsets: range(chunk.offset_index_offset(), chunk.offset_index_length()),
        bloom: if bloom { filter() } else { None },
    }
}

/// Decodes both halves of the index of a leaf, as if the leaf were the only one of the file.
fn pages(
    chunk: &ColumnChunkMetaData,
    ranges: &LeafIndexRanges,
    values: Option<Bytes>,
    offsets: Option<Bytes>,
    size: u64,
) -> Option<LeafPageIndex> {
    let only_offsets = LeafIndexRanges { values: None, offsets: ranges.offsets.clone(), bloom: None };
    let offsets = decode(chunk, &only_offsets, offsets?, size).ok()?.offset_index()?.clone();
    // The parquet crate takes both halves from one buffer; each is decoded alone.
    let values = values.and_then(|bytes| {
        let only_values = LeafIndexRanges { values: ranges.values.clone(), offsets: None, bloom: None };
        decode(chunk, &only_values, bytes, size).ok()?.column_index().cloned()
    });
    Some(LeafPageIndex { values: values.unwrap_or_else(|| vec![vec![ColumnIndexMetaData::NONE]]), offsets })
}

fn decode(
    chunk: &ColumnChunkMetaData,
    ranges: &LeafIndexRanges,
    bytes: Bytes,
    size: u64,
) -> Result<ParquetMetaData, ParquetError> {
    let schema = Arc::new(required_column(chunk.column_descr())?);
    let offset = |range: &Option<Range<u64>>| range.as_ref().map(|range| range.start as i64);
    let length = |range: &Option<Range<u64>>| range.as_ref().map(|range| (range.end - range.start) as i32);
    let alone = ColumnChunkMetaData::builder(schema.column(0))
        .set_column_index_offset(offset(&ranges.values))
        .set_column_index_length(length(&ranges.values))
        .set_offset_index_offset(offset(&ranges.offsets))
        .set_offset_index_length(length(&ranges.offsets))
        .build()?;
    let group = RowGroupMetaData::builder(schema.clone()).add_column_metadata(alone).build()?;
    let file = FileMetaData::new(2, 0, None, None, schema, None);

    let policy = |range: &Option<Range<u64>>| match range {
        Some(_) => PageIndexPolicy::Required,
        None => PageIndexPolicy::Skip,
    };
    let mut decoder =
        ParquetMetaDataPushDecoder::try_new_with_metadata(size, ParquetMetaData::new(file, vec![group]))?
            .with_column_index_policy(policy(&ranges.values))
            .with_offset_index_policy(policy(&ranges.offsets));
    let range = ranges.each().next().unwrap_or(0..0);
    decoder.push_range(range, bytes)?;
    match decoder.try_decode()? {
        DecodeResult::Data(metadata) => Ok(metadata),
        _ => Err(ParquetError::EOF("an index that ends early".to_owned())),
    }
}

/// Parses the filter at the start of the bytes, which may continue after it.
fn bloom_filter(chunk: &ColumnChunkMetaData, bytes: &Bytes) -> Option<Sbbf> {
    if !index_checks::has_length_of_footer(bytes, chunk) {
        return None;
    }
    let at_start =
        chunk.clone().into_builder().set_bloom_filter_offset(Some(0)).set_bloom_filter_length(None);
    let filter = Sbbf::read_from_column_chunk(&at_start.build().ok()?, bytes).ok()??;
    (filter.num_blocks() > 0).then_some(filter)
}
