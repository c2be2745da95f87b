//! Plans a scan: opens files, prunes row groups, and decides the schema.

use std::{ops::Range, sync::Arc};

use arrow::datatypes::{DataType, Schema, SchemaRef};
use async_recursion::async_recursion as boxed;
use futures::{StreamExt, TryStreamExt};
use stylobate_storage::OpenObject;

use super::{
    batches::{has_narrow_nested_keys, key_capacity},
    part::{ScanPart, ScanPartFile},
    request::{MAX_BATCH_ROWS, ScanRequest},
};
use crate::{
    Cache, Error, Predicate, Result,
    format::FileMetadata,
    predicate::BoundPredicate,
    prune::{PruneVerdict, prune},
    table::{
        FileColumn, FilterColumn, OutputColumn, OutputTypes, TableSchema,
        locate::{LocatedFile, locate, shown_path},
        statistics::of_file,
    },
};

/// Number of footers that are read concurrently.
const MAX_CONCURRENT_OPENS: usize = 16;

/// A planned scan. It can be run any number of times, and always reads the versions that it was planned for. Cheap to
/// clone.
#[derive(Clone, Debug)]
pub struct Scan {
    pub(super) inner: Arc<ScanPlan>,
}

#[derive(Clone, Debug)]
pub(super) struct ScanPlan {
    pub(super) cache: Cache,
    /// The schema of the batches.
    pub(super) schema: SchemaRef,
    pub(super) outputs: Vec<OutputColumn>,
    /// The filter as it was requested.
    pub(super) predicate: Option<Predicate>,
    pub(super) filter: Option<BoundPredicate>,
    /// True if the scan may also return rows that fail the filter.
    pub(super) is_optional: bool,
    /// The columns that the filter reads.
    pub(super) filtered: Vec<FilterColumn>,
    pub(super) table: Arc<TableSchema>,
    /// The columns of the table that parts need.
    pub(super) relevant: Schema,
    pub(super) files: Vec<PlannedScanFile>,
    pub(super) row_groups: Vec<PlannedRowGroup>,
    pub(super) limit: Option<u64>,
    pub(super) batch_rows: usize,
    /// Allows longer batches: see [`Scan::with_long_batches`].
    pub(super) long_batches: bool,
    pub(super) threads: usize,
    /// Allows dictionaries where the schema states values: see [`ScanRequest::with_codes`].
    pub(super) codes: bool,
}

/// A file of a scan.
#[derive(Clone, Debug)]
pub(super) struct PlannedScanFile {
    /// Position of the source in which it was found.
    pub(super) source: usize,
    pub(super) located: LocatedFile,
    pub(super) object: OpenObject,
    pub(super) metadata: Arc<FileMetadata>,
    /// The source of each column of the result.
    pub(super) outputs: Vec<FileColumn>,
    /// The source of each column of the filter.
    pub(super) filtered: Vec<FileColumn>,
    /// The first row of each row group or stripe within the file; empty unless rows are numbered.
    first_rows: Vec<usize>,
}

/// A row group or stripe of a scan.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlannedRowGroup {
    /// Index in [`ScanPlan::files`].
    pub(super) file: usize,
    /// Number of the row group or stripe within the file.
    pub(super) index: usize,
    pub(super) rows: u64,
    /// True if all rows are known to pass the filter.
    pub(super) all_pass: bool,
}

impl ScanRequest {
    /// Finds the files, reads their footers, prunes row groups by the filter, and decides the schema.
    ///
    /// Fails if there is no file, a column is unknown, the filter does not fit, or files have no common type for a
    /// column.
    #[tracing::instrument(
        name = "plan_scan",
        level = "debug",
        skip_all,
        fields(source = self.sources.first().map(tracing::field::display), sources = self.sources.len())
    )]
    #[boxed]
    pub async fn plan(self, cache: &Cache) -> Result<Scan> {
        plan(self, cache.clone()).await
    }
}

impl Scan {
    /// Returns the schema of the batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.inner.schema
    }

    /// Returns the names of the files.
    pub fn files(&self) -> Vec<String> {
        self.inner.files.iter().map(|file| file.object.name()).collect()
    }

    /// Returns the number of files.
    pub fn file_count(&self) -> usize {
        self.inner.files.len()
    }

    /// Returns the number of output rows if the footers determine it, that is, if all rows of all row groups pass the
    /// filter.
    pub fn known_rows(&self) -> Option<u64> {
        let is_known = self.inner.row_groups.iter().all(|row_group| row_group.all_pass);
        is_known.then(|| self.estimated_rows().min(self.inner.limit.unwrap_or(u64::MAX)))
    }

    /// Returns the limit on the number of output rows, if there is one.
    pub fn limit(&self) -> Option<u64> {
        self.inner.limit
    }

    /// Returns the number of rows before the filter and the limit.
    pub fn estimated_rows(&self) -> u64 {
        self.inner.row_groups.iter().map(|row_group| row_group.rows).sum()
    }

    /// Makes batches as long as is best for collecting all of them: 65,536 rows, or all rows of a row group whose
    /// columns are dictionaries that are returned as decoded. Has no effect on a scan that has a clone.
    pub fn with_long_batches(mut self) -> Self {
        if let Some(planned) = Arc::get_mut(&mut self.inner) {
            planned.batch_rows = MAX_BATCH_ROWS;
            planned.long_batches = true;
        }
        self
    }

    /// Returns the number of row groups and stripes to read.
    pub fn row_group_count(&self) -> usize {
        self.inner.row_groups.len()
    }
}

/// Identifies the version of an object in serialized parts.
pub(super) fn version(object: &OpenObject) -> String {
    let meta = object.meta();
    format!("{} {} {}", meta.size, meta.e_tag.as_deref().unwrap_or(""), meta.version.as_deref().unwrap_or(""))
}

/// Implements [`ScanRequest::plan`].
async fn plan(request: ScanRequest, cache: Cache) -> Result<Scan> {
    let opened = match &request.part {
        None => open_all(&request, &cache).await?,
        Some(part) => open_part(&request, part, &cache).await?,
    };
    let located: Vec<(&LocatedFile, &FileMetadata)> =
        opened.iter().map(|file| (&file.located, &*file.metadata)).collect();

    let table = match &request.part {
        None => TableSchema::of(&located, &request.table)?,
        Some(part) => {
            TableSchema::planned(part.table.clone(), &request.table).with_path_texts(&located, &request.table)
        }
    };

    let types = OutputTypes { dictionaries: &request.dictionary, strings: request.strings };
    let columns = request.columns.clone().or_else(|| request.table.columns());
    let outputs = table.outputs(columns.as_deref(), types, &located)?;

    let fixed = request.schema.or_else(|| request.part.as_ref().map(|part| Arc::new(part.schema.clone())));
    let outputs = match &fixed {
        None => outputs,
        Some(schema) => OutputColumn::with_types_of(outputs, schema)?,
    };

    let fields: Vec<_> = outputs.iter().map(|output| output.field.clone()).collect();
    let metadata = fixed.as_ref().map_or_else(|| table.schema().metadata(), |schema| schema.metadata());
    let schema = Arc::new(Schema::new_with_metadata(fields, metadata.clone()));

    for column in request.filter.iter().flat_map(Predicate::columns) {
        if let Some((root, _)) = table.resolve(column.name()) {
            table.check_named(root)?;
        }
    }
    let filter = request.filter.as_ref().map(|filter| table.bind(filter)).transpose()?;

    let mut planned = ScanPlan {
        schema,
        filtered: filter.as_ref().map(|filter| table.filtered(filter)).unwrap_or_default(),
        filter,
        is_optional: false,
        relevant: table
            .relevant(&outputs, request.filter.as_ref().map(Predicate::columns).unwrap_or_default()),
        outputs,
        predicate: request.filter,
        table: Arc::new(table),
        files: Vec::with_capacity(opened.len()),
        row_groups: Vec::new(),
        limit: request.limit,
        batch_rows: request.batch_rows,
        long_batches: false,
        threads: request.threads,
        codes: request.codes,
        cache,
    };
    for opened in opened {
        planned.add(opened)?;
    }

    planned.keep_to_limit();
    Ok(Scan { inner: Arc::new(planned) })
}

/// A file whose footer was read, and the row groups or stripes to read.
struct OpenedScanFile {
    source: usize,
    located: LocatedFile,
    object: OpenObject,
    metadata: Arc<FileMetadata>,
    row_groups: Range<usize>,
}

async fn open_all(request: &ScanRequest, cache: &Cache) -> Result<Vec<OpenedScanFile>> {
    let mut found = Vec::new();
    for (at, source) in request.sources.iter().enumerate() {
        let located = locate(source, cache, request.paths, None).await?;
        found.extend(located.into_iter().map(|located| (at, located)));
    }
    if found.is_empty() {
        return Err(Error::NoFiles { pattern: "no path was given".to_owned() });
    }

    let opens = found.into_iter().map(|(source, located)| async move {
        let is_named = located.is_named;
        match open(source, located, request, cache).await {
            Ok(opened) => Ok(Ok(opened)),
            // Some other file in the folder.
            Err(other @ Error::Format { .. }) if !is_named => Ok(Err(other)),
            Err(error) => Err(error),
        }
    });
    let opened = futures::stream::iter(opens).buffered(MAX_CONCURRENT_OPENS);
    let opened: Vec<Result<OpenedScanFile>> = opened.try_collect().await?;

    if opened.iter().any(Result::is_ok) {
        Ok(opened.into_iter().flatten().collect())
    } else {
        opened.into_iter().collect()
    }
}

async fn open_part(request: &ScanRequest, part: &ScanPart, cache: &Cache) -> Result<Vec<OpenedScanFile>> {
    let pieces = part.pieces.iter().cloned();
    let opens = pieces.map(|piece| async move { open_piece(request, &piece, cache).await });
    futures::stream::iter(opens).buffered(MAX_CONCURRENT_OPENS).try_collect().await
}

async fn open_piece(request: &ScanRequest, piece: &ScanPartFile, cache: &Cache) -> Result<OpenedScanFile> {
    let gone = || stylobate_storage::Error::NotFound { path: piece.path.clone() };
    let source = request.sources.get(piece.source).ok_or_else(gone)?;
    let located = locate(source, cache, request.paths, Some(&piece.path)).await?;
    let located = located.into_iter().next_back().ok_or_else(gone)?;
    let mut file = open(piece.source, located, request, cache).await?;
    if version(&file.object) != piece.version {
        return Err(file.object.changed().into());
    }

    file.row_groups = piece.row_groups.start..piece.row_groups.end.min(file.row_groups.end);
    Ok(file)
}

async fn open(
    source: usize,
    mut located: LocatedFile,
    request: &ScanRequest,
    cache: &Cache,
) -> Result<OpenedScanFile> {
    let decryption = request.decryption.as_ref();
    let mut object = located.store.open_object(&located.path).await?;
    let metadata = match object.version().filter(|_| decryption.is_none()) {
        Some(version) => cache.chunks().file(version, FileMetadata::open(&object)).await?,
        None => {
            cache.chunks().count_parsed();
            Arc::new(FileMetadata::open_with(&object, decryption).await?)
        }
    };

    let has_column = |column: &str| metadata.schema().column_with_name(column).is_some();
    request.table.name_file(&mut located, has_column, &shown_path(&object))?;
    // Caches are shared with scans that have no keys.
    if metadata.is_decrypted() {
        object = object.without_version();
    }

    let row_groups = 0..metadata.row_group_count();
    Ok(OpenedScanFile { source, located, object, metadata, row_groups })
}

impl PlannedScanFile {
    /// Returns whether a column needs row numbers.
    pub(super) fn has_row_numbers(&self) -> bool {
        self.outputs.iter().chain(&self.filtered).any(|column| matches!(column, FileColumn::RowNumber))
    }

    /// Returns the number of rows of the file before a row group or stripe; 0 unless rows are numbered.
    pub(super) fn first_row(&self, row_group: usize) -> usize {
        self.first_rows.get(row_group).copied().unwrap_or(0)
    }
}

/// Returns the first row of each row group or stripe within the file.
fn first_rows(metadata: &FileMetadata) -> Vec<usize> {
    let mut next = 0;
    let mut firsts = Vec::with_capacity(metadata.row_group_count());
    for row_group in 0..metadata.row_group_count() {
        firsts.push(next);
        next += metadata.row_group_rows(row_group) as usize;
    }
    firsts
}

impl ScanPlan {
    /// Returns whether a column is returned with keys that may be too narrow for a batch.
    pub(super) fn has_narrow_keys(&self) -> bool {
        self.outputs.iter().any(|output| match output.field.data_type() {
            DataType::Dictionary(key, _) => key_capacity(key).is_some_and(|values| values < MAX_BATCH_ROWS),
            _ => false,
        })
    }

    /// Returns whether a column is returned with dictionaries within lists, structs or maps whose keys may be too
    /// narrow for a batch.
    pub(super) fn has_narrow_nested_keys(&self) -> bool {
        self.outputs.iter().any(|output| has_narrow_nested_keys(output.field.data_type()))
    }

    /// Adds a file without the row groups that the filter prunes.
    fn add(&mut self, opened: OpenedScanFile) -> Result<()> {
        let OpenedScanFile { source, located, object, metadata, row_groups } = opened;
        let wanted = row_groups.filter(|row_group| metadata.row_group_rows(*row_group) > 0).collect();
        let outputs = Vec::new();
        let filtered = Vec::new();
        let first_rows = Vec::new();
        self.add_row_groups(
            PlannedScanFile { source, located, object, metadata, outputs, filtered, first_rows },
            wanted,
        )
    }

    /// Adds row groups of a file, except those that the filter prunes. The file's columns are resolved again.
    pub(super) fn add_row_groups(&mut self, mut file: PlannedScanFile, wanted: Vec<usize>) -> Result<()> {
        let PlannedScanFile { located, object, metadata, .. } = &file;
        let name = object.name();
        let output = |output: &OutputColumn| {
            self.table.column_of_file(&output.projected, &output.values, located, metadata, &name)
        };
        let outputs = self.outputs.iter().map(output).collect::<Result<_>>()?;
        let filtered = |column| self.table.filtered_of_file(column, located, metadata, &name);
        let filtered = self.filtered.iter().map(filtered).collect::<Result<_>>()?;

        let at = self.files.len();
        let verdicts = match &self.filter {
            None => vec![PruneVerdict::All; wanted.len()],
            Some(filter) => {
                prune(filter, &of_file(&self.table, located, metadata, metadata.statistics(&wanted)))
            }
        };

        for (index, verdict) in wanted.into_iter().zip(verdicts) {
            if verdict == PruneVerdict::None {
                self.cache.chunks().count_pruned(1);
                continue;
            }
            let rows = metadata.row_group_rows(index);
            self.row_groups.push(PlannedRowGroup {
                file: at,
                index,
                rows,
                all_pass: verdict == PruneVerdict::All,
            });
        }

        file.outputs = outputs;
        file.filtered = filtered;
        file.first_rows = if file.has_row_numbers() { first_rows(&file.metadata) } else { Vec::new() };
        self.files.push(file);
        Ok(())
    }

    /// Drops row groups beyond the limit, if that is known before reading.
    pub(super) fn keep_to_limit(&mut self) {
        let Some(limit) = self.limit else { return };

        let mut certain = 0_u64;
        self.row_groups.retain(|row_group| {
            let wanted = certain < limit;
            certain = certain.saturating_add(if row_group.all_pass { row_group.rows } else { 0 });
            wanted
        });
    }
}
