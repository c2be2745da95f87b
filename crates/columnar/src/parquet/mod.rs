//! Parquet files: their writer with its options, keys of encrypted files, and the decoding into chunks that scans use.

mod chunk_layout;
mod decode;
mod decryption;
mod decryptor;
mod footer;
mod index;
mod intervals;
mod pages;
mod write;

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use ::bytes::Bytes;
use arrow::{
    array::ArrayRef,
    datatypes::{Field, Fields, Schema, SchemaRef},
};
use parquet::{
    DecodeResult,
    basic::Type as PhysicalType,
    errors::{ParquetError, Result as ParquetResult},
    file::metadata::{
        ColumnChunkMetaData, PageIndexPolicy, ParquetMetaData, ParquetMetaDataOptions,
        ParquetMetaDataPushDecoder, ParquetStatisticsPolicy,
    },
    schema::types::{ColumnDescPtr, SchemaDescPtr},
};
use stylobate_storage::{Corrupt, OpenObject};

pub use self::{
    chunk_layout::ParquetLayout,
    decryption::Decryption,
    write::{
        ColumnOptions, Compression, DictionaryEncoding, Encoding, ParquetOptions, ParquetWriter, SortedBy,
        StatisticsLevel, UnknownCompressionError, UnknownOptionError,
    },
};
use self::{
    decryptor::{ChunkDecryptor, FileDecryptor},
    footer::{arrow_schema::ArrowColumns, encrypted::DecryptedFooter, writer_trust::WriterTrust},
    pages::header::UNKNOWN_ENCODING,
};
pub(crate) use self::{
    footer::lists_only_dictionaries,
    footer::statistics::RowGroupStatistics,
    index::{LeafIndex, page_statistics::PageStatistics, selected::SelectedPages},
    pages::{DecodeScratch, chunk_bytes::ParquetBytes, header::PageHeader},
    write::origin,
};
use crate::{
    Error, Result,
    chunk::{Chunk, ChunkRepresentation, PassingRows, is_worth_a_dictionary},
    file::schema::ProjectedColumn,
    kernels::byte_segment::ARRAY_TOO_LONG,
    parallel::guarded::guarded,
};

/// Beginning of the name by which files say that this crate wrote them, in every version.
const WRITER: &str = "stylobate ";

/// A Parquet file, as its footer describes it.
#[derive(Clone, Debug)]
pub(crate) struct ParquetFile {
    object: String,
    metadata: Arc<ParquetMetaData>,
    /// Columns by their values, without dictionaries.
    schema: SchemaRef,
    /// Columns as they were written, dictionaries included.
    written: Fields,
    /// Schema that pages are decoded by, with plain bytes for intervals.
    decoded: SchemaDescPtr,
    /// Leaves of each top-level column.
    leaves: Vec<Range<usize>>,
    /// Reasons why some top-level columns cannot be read, regardless of their bytes.
    unreadable: BTreeMap<usize, String>,
    /// Top-level columns whose time unit was chosen by their values; empty for none.
    has_chosen_unit: Box<[bool]>,
    /// Statistics that are trusted, by the file's writer.
    trust: WriterTrust,
    /// Decryptor of an encrypted file that was opened with keys.
    decryptor: Option<Arc<FileDecryptor>>,
}

impl ParquetFile {
    /// Reads the footer; `tail` is the end of the file.
    pub(crate) async fn open(
        object: &OpenObject,
        tail: Bytes,
        decryption: Option<&Decryption>,
    ) -> Result<Self> {
        let name = object.name();
        let size = object.meta().size;
        // The tail is four bytes of length and four of magic; the head has four of magic.
        let length = tail.len().checked_sub(8).and_then(|at| tail.get(at..)?.first_chunk::<4>());
        if length.is_none_or(|length| u64::from(u32::from_le_bytes(*length)) + 12 > size) {
            return Err(Error::corrupt(&name, "the footer lies outside the file"));
        }

        let decrypted = match decryption {
            Some(keys) => Self::read_encrypted(object, &tail, keys).await?,
            None => None,
        };
        let (metadata, decryptor) = match decrypted {
            Some((metadata, decryptor)) => (metadata, Some(Arc::new(decryptor))),
            None => (Self::read_plain(object, tail).await?, None),
        };

        let mut file = Self::new(name, metadata, size)?;
        file.decryptor = decryptor;
        file.with_units_of_int96(object).await
    }

    /// Reads the footer of an encrypted file; `None` if the file is not encrypted.
    async fn read_encrypted(
        object: &OpenObject,
        tail: &Bytes,
        keys: &Decryption,
    ) -> Result<Option<(ParquetMetaData, FileDecryptor)>> {
        let name = object.name();
        let wrong = |error: ParquetError| footer::undecrypted(&name, error);
        let Some(bytes) = Self::footer_bytes(object, tail).await? else {
            return Err(Error::corrupt(&name, "the footer lies outside the file"));
        };
        let opened = DecryptedFooter::open(&bytes, tail.ends_with(b"PARE"), keys).map_err(wrong)?;
        let Some(footer) = opened else { return Ok(None) };

        let decode = |options: ParquetMetaDataOptions| match guarded(|| footer.decode(keys, options)) {
            Ok(decoded) => decoded.map_err(wrong),
            Err(reason) => Err(Error::corrupt(&name, reason)),
        };
        let metadata = match decode(ParquetMetaDataOptions::default()) {
            Err(error @ Error::Corrupt { .. }) => {
                // Implausible statistics are dropped.
                let none = ParquetStatisticsPolicy::SkipAll;
                let options = ParquetMetaDataOptions::default().with_column_stats_policy(none);
                decode(options).map_err(|_| error)?
            }
            decoded => decoded?,
        };

        Ok(Some((metadata, footer.into_decryptor())))
    }

    /// Reads a footer that is not encrypted, and repairs it if it cannot be decoded.
    async fn read_plain(object: &OpenObject, tail: Bytes) -> Result<ParquetMetaData> {
        match Self::read_footer(object, tail.clone(), ParquetMetaDataOptions::default()).await {
            Err(error @ Error::Corrupt { .. }) => {
                Self::read_repaired(object, &tail, true).await?.ok_or(error)
            }
            decoded => decoded,
        }
    }

    /// Reads the footer and repairs it; `None` if it still cannot be decoded. Page encoding statistics are read as a
    /// mask or as a list.
    pub(crate) async fn read_repaired(
        object: &OpenObject,
        tail: &Bytes,
        has_masks: bool,
    ) -> Result<Option<ParquetMetaData>> {
        let Some(footer) = Self::footer_bytes(object, tail).await? else { return Ok(None) };
        // Implausible statistics are dropped.
        let options = || ParquetMetaDataOptions::new().with_encoding_stats_as_mask(has_masks);
        let each = [options(), options().with_column_stats_policy(ParquetStatisticsPolicy::SkipAll)];
        let decode = |options| guarded(|| footer::repair::decode_repaired(&footer, options)).ok().flatten();

        Ok(each.iter().find_map(decode))
    }

    /// Returns all bytes of the footer before its length; `None` if they lie outside the file.
    async fn footer_bytes(object: &OpenObject, tail: &Bytes) -> Result<Option<Bytes>> {
        let size = object.meta().size;
        let ends = |bytes: &[u8]| Some(u64::from(u32::from_le_bytes(*bytes.get(..4)?.first_chunk()?)));
        let length = tail.len().checked_sub(8).and_then(|at| ends(tail.get(at..)?));
        let Some(start) = length.and_then(|length| size.checked_sub(length + 8)) else { return Ok(None) };

        let footer = match start.checked_sub(size - tail.len() as u64) {
            Some(skip) => tail.slice(skip as usize..),
            None => object.read(std::slice::from_ref(&(start..size))).await?.pop().unwrap_or_default(),
        };
        Ok(Some(footer.slice(..footer.len().saturating_sub(8))))
    }

    async fn read_footer(
        object: &OpenObject,
        tail: Bytes,
        options: ParquetMetaDataOptions,
    ) -> Result<ParquetMetaData> {
        let name = object.name();
        let size = object.meta().size;
        let wrong = |error: ParquetError| Error::corrupt(&name, error.to_string());
        let decoder = ParquetMetaDataPushDecoder::try_new(size).map_err(wrong)?;
        let mut decoder = decoder
            .with_page_index_policy(PageIndexPolicy::Skip)
            .with_metadata_options(Some(Arc::new(options)));
        decoder.push_range(size - tail.len() as u64..size, tail).map_err(wrong)?;

        loop {
            let decoded = guarded(|| decoder.try_decode()).map_err(|reason| Error::corrupt(&name, reason))?;
            match decoded.map_err(wrong)? {
                DecodeResult::Data(metadata) => return Ok(metadata),
                DecodeResult::NeedsData(ranges) => {
                    if ranges.iter().any(|range| range.start > range.end || range.end > size) {
                        return Err(Error::corrupt(&name, "the footer lies outside the file"));
                    }
                    let buffers = object.read(&ranges).await?;
                    decoder.push_ranges(ranges, buffers).map_err(wrong)?;
                }
                DecodeResult::Finished => return Err(Error::corrupt(&name, "there is no footer")),
            }
        }
    }

    fn new(object: String, metadata: ParquetMetaData, size: u64) -> Result<Self> {
        let metadata = Arc::new(footer::without_bogus_dictionaries(&object, metadata)?);
        footer::check(&object, &metadata, size)?;
        let columns = ArrowColumns::of(&metadata).map_err(|reason| Error::corrupt(&object, reason))?;
        let decoded = intervals::without_intervals(&metadata.file_metadata().schema_descr_ptr())
            .map_err(|error| Error::corrupt(&object, error.to_string()))?;
        let fields: Vec<Field> =
            columns.fields.iter().map(|field| footer::without_dictionaries(field)).collect();
        let written = columns.fields.iter().map(|field| footer::with_dictionaries(field)).collect();
        let schema = Arc::new(Schema::new_with_metadata(fields, columns.metadata));

        let trust = WriterTrust::of(metadata.file_metadata().created_by());
        let ArrowColumns { leaves, unreadable, .. } = columns;
        Ok(Self {
            object,
            metadata,
            schema,
            written,
            decoded,
            leaves,
            unreadable,
            has_chosen_unit: Box::default(),
            trust,
            decryptor: None,
        })
    }

    /// Returns whether the file is encrypted and was opened with keys.
    pub(crate) fn is_decrypted(&self) -> bool {
        self.decryptor.is_some()
    }

    /// Returns whether a chunk of these columns is encrypted. Such a chunk is decoded only by the general reader: its
    /// dictionary, page index and bloom filter are not used.
    fn has_encrypted(&self, row_group: usize, columns: &[ProjectedColumn]) -> bool {
        let mut leaves = columns.iter().flat_map(|column| self.wanted(column));
        leaves.any(|leaf| self.column_chunk(row_group, leaf).is_ok_and(footer::is_encrypted))
    }

    /// Returns the decryptor of a chunk; `None` if it is not encrypted.
    fn decryptor_of(
        &self,
        row_group: usize,
        leaf: usize,
        chunk: &ColumnChunkMetaData,
    ) -> ParquetResult<Option<ChunkDecryptor>> {
        if !footer::is_encrypted(chunk) {
            return Ok(None);
        }
        let missing = || ParquetError::General("it is encrypted, and there are no keys".to_owned());
        let file = self.decryptor.as_ref().ok_or_else(missing)?;
        file.chunk(row_group, leaf, chunk).map(Some)
    }

    /// See [`crate::format::FileMetadata::schema`].
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// See [`crate::format::FileMetadata::written`].
    pub(crate) fn written(&self) -> &Fields {
        &self.written
    }

    /// See [`crate::format::FileMetadata::unreadable`].
    pub(crate) fn unreadable(&self, root: usize) -> Option<Error> {
        let reason = self.unreadable.get(&root)?;
        Some(Error::Unsupported {
            object: self.object.clone(),
            column: self.schema.fields().get(root).map(|field| field.name().clone()),
            reason: format!("no type of Arrow holds it: {reason}"),
        })
    }

    /// Returns the types that the parquet crate reads columns as; `None` to let it derive them from the file.
    fn types(&self) -> Option<&Fields> {
        let roots = self.metadata.file_metadata().schema_descr().root_schema().get_fields();
        // Leaves that cannot be read are never projected, so the parquet crate ignores their placeholder types.
        let is_leaf = |root: &usize| roots.get(*root).is_some_and(|root| root.is_primitive());
        let are_all = roots.len() == self.schema.fields().len() && self.unreadable.keys().all(is_leaf);
        are_all.then(|| self.schema.fields())
    }

    /// See [`crate::format::FileMetadata::has_chosen_unit`].
    pub(crate) fn has_chosen_unit(&self, root: usize) -> bool {
        self.has_chosen_unit.get(root).copied().unwrap_or_default()
    }

    /// Returns the number of row groups.
    pub(crate) fn row_group_count(&self) -> usize {
        self.metadata.num_row_groups()
    }

    /// Returns the number of rows in a row group.
    pub(crate) fn row_group_rows(&self, row_group: usize) -> u64 {
        self.metadata.row_groups().get(row_group).map_or(0, |group| group.num_rows().max(0) as u64)
    }

    /// See [`crate::format::FileMetadata::sorted_columns`].
    pub(crate) fn sorted_columns(&self, row_group: usize) -> Vec<(usize, bool, bool)> {
        let group = self.metadata.row_groups().get(row_group);
        let sorted = group.and_then(|group| group.sorting_columns()).map_or(&[][..], Vec::as_slice);
        let roots = sorted.iter().map_while(|sorting| {
            let leaf = usize::try_from(sorting.column_idx).ok()?;
            let root = self.leaves.iter().position(|leaves| *leaves == (leaf..leaf + 1))?;
            let is_nested = self.schema.fields().get(root)?.data_type().is_nested();
            (!is_nested).then_some((root, sorting.descending, sorting.nulls_first))
        });
        roots.collect()
    }

    /// Returns the offset of a row group's first byte; 0 if there is no such row group.
    pub(crate) fn row_group_offset(&self, row_group: usize) -> u64 {
        let group = self.metadata.row_groups().get(row_group);
        group
            .and_then(|group| group.columns().iter().map(|chunk| footer::range(chunk).start).min())
            .unwrap_or(0)
    }

    /// Returns the memory in use, in bytes.
    pub(crate) fn weight(&self) -> usize {
        self.metadata.memory_size() + self.leaves.len() * 128 + self.object.len()
    }

    /// Returns the parsed footer.
    pub(crate) fn metadata(&self) -> &Arc<ParquetMetaData> {
        &self.metadata
    }

    fn column_chunk(&self, row_group: usize, leaf: usize) -> Result<&ColumnChunkMetaData> {
        let chunk = self.metadata.row_groups().get(row_group).and_then(|group| group.columns().get(leaf));
        chunk.ok_or_else(|| {
            Error::corrupt(&self.object, format!("row group {row_group} has no column {leaf}"))
        })
    }

    /// Returns the indices, among all leaves of the file, of the projected leaves of a top-level column.
    fn wanted(&self, column: &ProjectedColumn) -> impl Iterator<Item = usize> {
        let range = self.leaves.get(column.root).cloned().unwrap_or(0..0);
        let first = range.start;
        range.filter(move |leaf| column.has_leaf(leaf - first))
    }

    /// Returns the only leaf of a top-level column that is neither nested nor repeated: only such a column may be a
    /// dictionary.
    fn flat(&self, root: usize) -> Option<(usize, ColumnDescPtr)> {
        let leaves = self.leaves.get(root)?;
        let leaf = self.metadata.file_metadata().schema_descr().columns().get(leaves.start)?;
        let flat = leaves.len() == 1
            && leaf.max_rep_level() == 0
            && leaf.max_def_level() <= 1
            && leaf.path().parts().len() == 1
            && leaf.physical_type() != PhysicalType::BOOLEAN;
        flat.then(|| (leaves.start, leaf.clone()))
    }

    /// See [`crate::format::FileMetadata::is_dictionary`].
    pub(crate) fn is_dictionary(&self, row_group: usize, column: &ProjectedColumn) -> bool {
        let chunk = self.flat(column.root).and_then(|(leaf, _)| self.column_chunk(row_group, leaf).ok());
        chunk.is_some_and(|chunk| {
            footer::is_all_dictionary(chunk).unwrap_or_else(|| footer::lists_only_dictionaries(chunk))
        })
    }

    /// See [`crate::format::FileMetadata::repeats`]: all row groups with rows must agree.
    pub(crate) fn repeats(&self, root: usize) -> bool {
        let Some((leaf, descriptor)) = self.flat(root) else { return false };
        if descriptor.physical_type() != PhysicalType::BYTE_ARRAY {
            return false;
        }

        let mut groups = self.metadata.row_groups().iter().filter(|group| group.num_rows() > 0).peekable();
        groups.peek().is_some()
            && groups.all(|group| {
                let Some(chunk) = group.columns().get(leaf) else { return false };
                let few = |values: u64| is_worth_a_dictionary(values, group.num_rows() as u64);
                footer::is_all_dictionary(chunk) == Some(true)
                    && footer::estimated_values(chunk).is_some_and(few)
            })
    }

    /// See [`crate::format::FileMetadata::has_only_dictionaries`].
    pub(crate) fn has_only_dictionaries(&self, root: usize) -> bool {
        let Some((leaf, _)) = self.flat(root) else { return false };
        let mut groups = self.metadata.row_groups().iter().filter(|group| group.num_rows() > 0).peekable();
        let is_one = |chunk: &ColumnChunkMetaData| footer::is_all_dictionary(chunk) == Some(true);
        groups.peek().is_some() && groups.all(|group| group.columns().get(leaf).is_some_and(is_one))
    }

    /// See [`crate::format::FileMetadata::max_dictionary_len`].
    pub(crate) fn max_dictionary_len(&self, root: usize) -> Option<u64> {
        let (leaf, _) = self.flat(root)?;
        let values = |chunk: &ColumnChunkMetaData| {
            footer::estimated_values(chunk).filter(|_| footer::is_all_dictionary(chunk) == Some(true))
        };
        let mut groups = self.metadata.row_groups().iter().filter_map(|group| group.columns().get(leaf));
        groups.try_fold(0, |max, chunk| Some(values(chunk)?.max(max)))
    }

    /// See [`crate::format::FileMetadata::working_bytes`].
    pub(crate) fn working_bytes(&self, row_group: usize, columns: &[ProjectedColumn]) -> u64 {
        let rows = self.row_group_rows(row_group);
        let mut bytes = 0_u64;
        for column in columns {
            let dictionary = self.is_dictionary(row_group, column);
            for leaf in self.wanted(column) {
                let Ok(chunk) = self.column_chunk(row_group, leaf) else { continue };
                bytes = bytes.saturating_add(footer::working_bytes(chunk, rows, dictionary));
            }
        }

        bytes
    }

    /// See [`crate::format::FileMetadata::passing_bytes`].
    pub(crate) fn passing_bytes(&self, row_group: usize, columns: &[ProjectedColumn], passing: u64) -> u64 {
        let rows = self.row_group_rows(row_group);
        let mut bytes = 0_u64;
        for column in columns {
            let dictionary = self.is_dictionary(row_group, column);
            for leaf in self.wanted(column) {
                let Ok(chunk) = self.column_chunk(row_group, leaf) else { continue };
                bytes = bytes.saturating_add(if dictionary {
                    footer::working_bytes(chunk, rows, true)
                } else {
                    footer::passing_bytes(chunk, rows, passing)
                });
            }
        }

        bytes
    }

    /// See [`crate::format::FileMetadata::fitting_rows`].
    pub(crate) fn fitting_rows(&self, row_group: usize, columns: &[ProjectedColumn], max_bytes: u64) -> u64 {
        let rows = self.row_group_rows(row_group);
        let leaves = columns.iter().flat_map(|column| self.wanted(column));
        let widest =
            leaves.filter_map(|leaf| self.column_chunk(row_group, leaf).ok()).map(footer::value_bytes).max();

        match widest {
            Some(bytes) if bytes > max_bytes => {
                (u128::from(rows) * u128::from(max_bytes) / u128::from(bytes)) as u64
            }
            _ => rows,
        }
    }

    /// See [`crate::format::FileMetadata::estimated_bytes`].
    pub(crate) fn chunk_bytes(&self, row_group: usize, columns: &[ProjectedColumn]) -> u64 {
        let leaves = columns.iter().flat_map(|column| self.wanted(column));
        let chunks = leaves.filter_map(|leaf| self.column_chunk(row_group, leaf).ok());
        chunks.map(|chunk| chunk.compressed_size().max(0) as u64).sum()
    }

    /// See [`crate::format::FileMetadata::read`].
    pub(crate) async fn read(
        &self,
        object: &OpenObject,
        row_group: usize,
        columns: &[ProjectedColumn],
    ) -> Result<ParquetBytes> {
        let mut leaves: Vec<usize> = columns.iter().flat_map(|column| self.wanted(column)).collect();
        leaves.sort_unstable();
        leaves.dedup();
        let ranges = leaves.iter().map(|leaf| Ok(footer::range(self.column_chunk(row_group, *leaf)?)));
        let ranges: Vec<Range<u64>> = ranges.collect::<Result<_>>()?;

        match object.local() {
            // A local file is read as it is decoded: its bytes are already in the operating system's page cache, and a
            // copy would cost more.
            Some(Ok(file)) => Ok(ParquetBytes::File { file: Arc::new(file), object: object.clone() }),
            _ => Ok(ParquetBytes::new(leaves, ranges.clone(), object.read(&ranges).await?)),
        }
    }

    /// See [`crate::format::FileMetadata::decode`].
    pub(crate) fn decode(
        &self,
        row_group: usize,
        column: &ProjectedColumn,
        bytes: &ParquetBytes,
        representation: ChunkRepresentation,
        scratch: &mut DecodeScratch,
        passing: Option<&PassingRows>,
    ) -> Result<Chunk> {
        let decode = || self.decode_unguarded(row_group, column, bytes, representation, scratch, passing);
        let decoded = guarded(decode);
        decoded.unwrap_or_else(|reason| Err(self.corrupt(row_group, column, reason)))
    }

    fn decode_unguarded(
        &self,
        row_group: usize,
        column: &ProjectedColumn,
        bytes: &ParquetBytes,
        representation: ChunkRepresentation,
        scratch: &mut DecodeScratch,
        passing: Option<&PassingRows>,
    ) -> Result<Chunk> {
        if let Some((leaf, descriptor)) = self.flat(column.root)
            && !self.has_encrypted(row_group, std::slice::from_ref(column))
        {
            let chunk = self.column_chunk(row_group, leaf)?;
            let all = footer::is_all_dictionary(chunk);
            let insist = representation == ChunkRepresentation::Dictionary && all != Some(true);
            let flat = decode::dictionary::FlatChunk {
                file: self,
                row_group,
                column,
                leaf,
                descriptor: &descriptor,
                chunk,
            };

            if (insist || all != Some(false))
                && let Some(array) = flat.decode(bytes, insist, scratch)?
            {
                let chunk = Chunk::Dictionary(array);
                return match passing {
                    None => Ok(chunk),
                    Some(passing) => {
                        passing.of_chunk(&chunk).map_err(Error::arrow("rows that pass the filter"))
                    }
                };
            }
            if representation == ChunkRepresentation::Native
                && let Some(chunk) = flat.decode_bytes(bytes, passing, scratch)?
            {
                return Ok(chunk);
            }
        }

        decode::dense::decode(self, row_group, column, bytes, representation, passing)
    }

    /// Returns a decoded column with intervals in place of their bytes.
    fn restored(&self, column: &ProjectedColumn, array: &ArrayRef) -> Result<ArrayRef, String> {
        let field = self.schema.fields().get(column.root).ok_or("no such column")?;
        intervals::restored(array, column.field(field).data_type())
    }

    /// Returns whether some column has intervals.
    fn has_intervals(&self) -> bool {
        !Arc::ptr_eq(&self.decoded, &self.metadata.file_metadata().schema_descr_ptr())
    }

    /// Returns the error of a corrupt column, at the start of its chunk unless the offset is known.
    fn corrupt(&self, row_group: usize, column: &ProjectedColumn, corrupt: impl Into<Corrupt>) -> Error {
        let Corrupt { offset, reason } = corrupt.into();
        let reason = reason.into_owned();
        let leaf = self.wanted(column).next();
        let chunk = leaf.and_then(|leaf| self.column_chunk(row_group, leaf).ok());
        if self.has_encrypted(row_group, std::slice::from_ref(column)) {
            let object = self.object.clone();
            if !self.is_decrypted() {
                return Error::Encrypted { object };
            }
            let column = self.schema.fields().get(column.root).map(|field| field.name().clone());
            return Error::Decryption { object, column, reason };
        }

        classified(Error::Corrupt {
            object: self.object.clone(),
            row_group: Some(row_group),
            column: self.schema.fields().get(column.root).map(|field| field.name().clone()),
            offset: offset.or_else(|| chunk.map(|chunk| footer::range(chunk).start)),
            reason,
        })
    }
}

/// Reasons of errors for values that exceed the offsets of an array: our decoder's, and the parquet crate's for strings
/// and for lists.
const EXCEEDED_ARRAYS: [&str; 3] =
    [ARRAY_TOO_LONG, "index overflow decoding byte array", "would overflow list array"];

/// Reclassifies the error if the reason is a missing feature of a decoder, or that values exceed an array.
fn classified(error: Error) -> Error {
    match error {
        Error::Corrupt { object, column, reason, .. }
            if EXCEEDED_ARRAYS.iter().any(|exceeded| reason.contains(exceeded)) =>
        {
            Error::BatchTooLong { object, column, reason }
        }
        // The parquet crate reports missing features in the message only.
        Error::Corrupt { object, column, reason, .. }
            if reason.contains("NYI: ") || reason.contains(UNKNOWN_ENCODING) =>
        {
            Error::Unsupported { object, column, reason }
        }
        other => other,
    }
}
