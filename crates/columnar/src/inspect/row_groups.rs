//! Describes the row groups, columns and chunks of a Parquet file from its footer.

use ::bytes::Bytes;
use ::parquet::{
    DecodeResult,
    basic::{Encoding, PageType},
    errors::ParquetError,
    file::{
        FOOTER_SIZE,
        metadata::{
            ColumnChunkMetaData, FooterTail, PageIndexPolicy, ParquetMetaData, ParquetMetaDataOptions,
            ParquetMetaDataPushDecoder, RowGroupMetaData,
        },
    },
};
use stylobate_storage::OpenObject;

use super::{
    bound::{FooterValue, MinMaxAccumulator},
    inspection::{
        ChunkInspection, ColumnInspection, DictionaryUse, ExtentContent, FileExtent, FileFormat, Inspection,
        MetadataEntry, PartInspection,
    },
    leaves::{InspectedLeaf, nodes, statistics_bounds},
};
use crate::{
    Error, Result,
    parallel::guarded::guarded,
    parquet::{ParquetFile, lists_only_dictionaries},
};

/// Reads and describes the footer of a Parquet file. `tail` is the end of the file.
pub(super) async fn inspect(object: &OpenObject, tail: Bytes) -> Result<Inspection> {
    let name = object.name();
    let footer =
        tail.len().checked_sub(FOOTER_SIZE).and_then(|start| FooterTail::try_from(tail.get(start..)?).ok());
    let footer_size = footer.map(|footer| (footer.metadata_length() + FOOTER_SIZE) as u64);
    let Some(footer_size) = footer_size.filter(|footer| *footer <= object.meta().size) else {
        return Err(Error::corrupt(&name, "the footer is longer than the file"));
    };

    let metadata = match read_footer(object, tail.clone()).await {
        Err(error @ Error::Corrupt { .. }) => {
            ParquetFile::read_repaired(object, &tail, false).await?.ok_or(error)?
        }
        decoded => decoded?,
    };

    // The parquet crate may panic on values that no writer would write.
    guarded(|| describe(&name, object.meta().size, footer_size, &metadata))
        .unwrap_or_else(|reason| Err(Error::corrupt(&name, reason)))
}

async fn read_footer(object: &OpenObject, tail: Bytes) -> Result<ParquetMetaData> {
    let name = object.name();
    let size = object.meta().size;
    let wrong = |error: ParquetError| Error::corrupt(&name, error.to_string());
    let options = ParquetMetaDataOptions::new().with_encoding_stats_as_mask(false);
    let decoder = ParquetMetaDataPushDecoder::try_new(size).map_err(wrong)?;
    let decoder = decoder.with_page_index_policy(PageIndexPolicy::Skip);
    let mut decoder = decoder.with_metadata_options(Some(options.into()));
    decoder.push_range(size - tail.len() as u64..size, tail).map_err(wrong)?;

    loop {
        let decoded = guarded(|| decoder.try_decode()).map_err(|reason| Error::corrupt(&name, reason))?;
        match decoded.map_err(wrong)? {
            DecodeResult::Data(metadata) => return Ok(metadata),
            DecodeResult::NeedsData(ranges) => {
                let bytes = object.read(&ranges).await?;
                decoder.push_ranges(ranges, bytes).map_err(wrong)?;
            }
            DecodeResult::Finished => return Err(Error::corrupt(&name, "the footer has no end")),
        }
    }
}

fn describe(object: &str, size: u64, footer_size: u64, metadata: &ParquetMetaData) -> Result<Inspection> {
    let file = metadata.file_metadata();
    let descriptor = file.schema_descr();
    let leaves: Vec<InspectedLeaf> =
        descriptor.columns().iter().map(|column| InspectedLeaf::of(column)).collect();
    let names = leaves.iter().map(|leaf| ColumnInspection::new(leaf.name.clone(), leaf.data_type.clone()));
    let mut columns: Vec<_> = names.collect();
    let mut bounds = vec![MinMaxAccumulator::default(); leaves.len()];
    let mut parts = Vec::with_capacity(metadata.num_row_groups());

    for (number, group) in metadata.row_groups().iter().enumerate() {
        if group.num_columns() != leaves.len() {
            return Err(Error::corrupt(object, format!("row group {number} does not fit the schema")));
        }

        let mut chunks = Vec::with_capacity(leaves.len());
        for (index, (chunk, leaf)) in group.columns().iter().zip(&leaves).enumerate() {
            let (inspected, known) = describe_chunk(chunk, leaf);
            if let Some(column) = columns.get_mut(index) {
                column.add(&inspected);
            }

            let has_values =
                inspected.values.is_none_or(|values| inspected.nulls.is_none_or(|nulls| nulls < values));
            if let (Some(bounds), true) = (bounds.get_mut(index), has_values) {
                bounds.add(known.as_ref().map(|known| &known.0), known.as_ref().map(|known| &known.1));
            }
            chunks.push(inspected);
        }

        parts.push(describe_part(group, &leaves, chunks));
    }

    for ((column, bounds), leaf) in columns.iter_mut().zip(&bounds).zip(&leaves) {
        (column.min, column.max) = bounds.shown(leaf.meaning);
    }

    let pairs = file.key_value_metadata().map_or(&[][..], Vec::as_slice);
    let pairs = pairs.iter().map(|pair| MetadataEntry { key: pair.key.clone(), value: pair.value.clone() });
    Ok(Inspection {
        object: object.to_owned(),
        format: FileFormat::Parquet,
        format_version: format!("{}", file.version()),
        size,
        footer_size,
        rows: unsigned(file.num_rows()),
        created_by: file.created_by().map(str::to_owned),
        metadata: pairs.collect(),
        schema: nodes(descriptor.root_schema()),
        columns,
        parts,
    })
}

fn describe_part(
    group: &RowGroupMetaData,
    leaves: &[InspectedLeaf],
    columns: Vec<ChunkInspection>,
) -> PartInspection {
    let sorted = group.sorting_columns().map_or(&[][..], Vec::as_slice).iter().map(|sorting| {
        let leaf = usize::try_from(sorting.column_idx).ok().and_then(|index| leaves.get(index));
        let mut text =
            leaf.map_or_else(|| format!("column {}", sorting.column_idx), |leaf| leaf.name.clone());
        if sorting.descending {
            text += " desc";
        }
        if sorting.nulls_first {
            text += " nulls first";
        }

        text
    });

    PartInspection {
        rows: unsigned(group.num_rows()),
        offset: group.columns().iter().filter(|chunk| chunk.file_path().is_none()).map(offset).min(),
        compressed_size: columns.iter().fold(0, |sum, chunk| sum.saturating_add(chunk.compressed_size)),
        uncompressed_size: Some(unsigned(group.total_byte_size())),
        sorted_by: sorted.collect(),
        columns,
        extents: Vec::new(),
    }
}

/// Minimum and maximum, if the footer has them.
type FooterMinMax = Option<(FooterValue, FooterValue)>;

fn describe_chunk(chunk: &ColumnChunkMetaData, leaf: &InspectedLeaf) -> (ChunkInspection, FooterMinMax) {
    let statistics = chunk.statistics();
    let known = statistics.and_then(|statistics| statistics_bounds(statistics, leaf));
    let shown = |value: Option<&FooterValue>| value.and_then(|value| value.shown(leaf.meaning));
    let inspected = ChunkInspection {
        name: leaf.name.clone(),
        encodings: encodings(chunk),
        codec: codec(chunk),
        dictionary: dictionary_use(chunk),
        dictionary_values: None,
        pages: pages_by_encoding(chunk).map(|pages| pages.iter().map(|(_, count)| count).sum()),
        compressed_size: unsigned(chunk.compressed_size()),
        uncompressed_size: Some(unsigned(chunk.uncompressed_size())),
        values: Some(unsigned(chunk.num_values())),
        nulls: statistics.and_then(|statistics| statistics.null_count_opt()),
        min: shown(known.as_ref().map(|known| &known.0)),
        max: shown(known.as_ref().map(|known| &known.1)),
        indexed: chunk.column_index_offset().is_some() && chunk.offset_index_offset().is_some(),
        bloom_filter: chunk.bloom_filter_offset().is_some(),
        extents: extents(chunk),
    };

    (inspected, known)
}

/// Returns the offset of the chunk. Some writers write 0 for "no dictionary".
fn offset(chunk: &ColumnChunkMetaData) -> u64 {
    let data = unsigned(chunk.data_page_offset());
    match chunk.dictionary_page_offset().map(unsigned) {
        Some(dictionary) if dictionary > 0 => dictionary.min(data),
        _ => data,
    }
}

/// Returns the ranges of the chunk and of its indexes, if they are in this file.
fn extents(chunk: &ColumnChunkMetaData) -> Vec<FileExtent> {
    if chunk.file_path().is_some() {
        return Vec::new();
    }

    let start = offset(chunk);
    let size = unsigned(chunk.compressed_size());
    let dictionary_size = unsigned(chunk.data_page_offset()).saturating_sub(start).min(size);
    let beside = |offset: Option<i64>, size: Option<i32>| {
        let offset = offset.and_then(|offset| u64::try_from(offset).ok());
        let size = size.and_then(|size| u64::try_from(size).ok());
        offset.zip(size).unwrap_or_default()
    };

    let ranges = [
        (ExtentContent::Dictionary, (start, dictionary_size)),
        (ExtentContent::Data, (start.saturating_add(dictionary_size), size - dictionary_size)),
        (ExtentContent::BloomFilter, beside(chunk.bloom_filter_offset(), chunk.bloom_filter_length())),
        (ExtentContent::Index, beside(chunk.column_index_offset(), chunk.column_index_length())),
        (ExtentContent::Index, beside(chunk.offset_index_offset(), chunk.offset_index_length())),
    ];

    let extents = ranges.map(|(content, (offset, size))| FileExtent { content, offset, size });
    extents.into_iter().filter(|extent| extent.size > 0).collect()
}

/// Returns the chunk's encodings; only those of values, if the footer distinguishes them from those of levels.
fn encodings(chunk: &ColumnChunkMetaData) -> Vec<String> {
    let mut names: Vec<String> = match pages_by_encoding(chunk) {
        Some(pages) => pages.iter().map(|(encoding, _)| encoding.to_string()).collect(),
        None => chunk.encodings().map(|encoding| encoding.to_string()).collect(),
    };
    names.dedup();
    names
}

/// Returns the number of data pages by encoding, if the footer counts them.
fn pages_by_encoding(chunk: &ColumnChunkMetaData) -> Option<Vec<(Encoding, u64)>> {
    let counted = chunk.page_encoding_stats()?.iter();
    let data =
        counted.filter(|counted| matches!(counted.page_type, PageType::DATA_PAGE | PageType::DATA_PAGE_V2));
    Some(data.map(|counted| (counted.encoding, u64::try_from(counted.count).unwrap_or_default())).collect())
}

/// Returns whether values are encoded by dictionary in all, some or none of the data pages.
fn dictionary_use(chunk: &ColumnChunkMetaData) -> DictionaryUse {
    if let Some(pages) = pages_by_encoding(chunk) {
        let has = |wanted| pages.iter().any(|(encoding, _)| is_dictionary(*encoding) == wanted);
        return match (has(true), has(false)) {
            (true, false) => DictionaryUse::All,
            (true, true) => DictionaryUse::Some,
            (false, _) => DictionaryUse::None,
        };
    }

    if !chunk.encodings().any(is_dictionary) {
        DictionaryUse::None
    } else if lists_only_dictionaries(chunk) {
        DictionaryUse::All
    } else {
        DictionaryUse::Some
    }
}

fn is_dictionary(encoding: Encoding) -> bool {
    matches!(encoding, Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY)
}

/// Returns the codec without its level, which the file does not store.
fn codec(chunk: &ColumnChunkMetaData) -> String {
    let name = format!("{:?}", chunk.compression());
    name.split('(').next().unwrap_or_default().to_owned()
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}
