//! The builder of scans: sources, columns, filter and options.

use arrow::datatypes::{DataType, SchemaRef};

use super::part::ScanPart;
use crate::{
    Predicate,
    parquet::Decryption,
    table::{
        Dictionaries, Strings,
        locate::{PathOptions, Source},
        options::TableOptions,
    },
};

const DEFAULT_BATCH_ROWS: usize = 8192;
/// Maximum rows of a batch: 16-bit keys can address one value per row.
pub(super) const MAX_BATCH_ROWS: usize = 65_536;

/// The sources, columns, filter and options of a scan.
///
/// ```no_run
/// # use stylobate_columnar::{Cache, Dictionaries, Predicate, ScanRequest};
/// # async fn scan(cache: Cache) -> stylobate_columnar::Result<()> {
/// let scan = ScanRequest::new("lake/lineitem/*.parquet")
///     .with_columns(["l_shipmode", "l_quantity"])
///     .with_filter(Predicate::parse("l_quantity < 24 AND l_shipmode IN ('AIR', 'MAIL')")?)
///     .plan(&cache)
///     .await?;
/// for batch in scan.collect().await? {
///     println!("{} rows", batch.num_rows());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ScanRequest {
    pub(super) sources: Vec<Source>,
    pub(super) columns: Option<Vec<String>>,
    pub(super) filter: Option<Predicate>,
    pub(super) dictionary: Dictionaries,
    pub(super) strings: Strings,
    pub(super) codes: bool,
    pub(super) paths: PathOptions,
    pub(super) table: TableOptions,
    pub(super) limit: Option<u64>,
    pub(super) batch_rows: usize,
    pub(super) threads: usize,
    pub(super) schema: Option<SchemaRef>,
    pub(super) part: Option<ScanPart>,
    pub(super) decryption: Option<Decryption>,
}

impl ScanRequest {
    /// Scans all columns and rows at a local path or URL.
    pub fn new(url: impl Into<String>) -> Self {
        Self::over([Source::Url { url: url.into(), options: Vec::new() }])
    }

    /// Scans all columns and rows of several sources, one after another.
    pub fn over(sources: impl IntoIterator<Item = Source>) -> Self {
        Self {
            sources: sources.into_iter().collect(),
            columns: None,
            filter: None,
            dictionary: Dictionaries::default(),
            strings: Strings::default(),
            codes: false,
            paths: PathOptions::default(),
            table: TableOptions::default(),
            limit: None,
            batch_rows: DEFAULT_BATCH_ROWS,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            schema: None,
            part: None,
            decryption: None,
        }
    }

    /// Returns only these columns, in this order; a dot selects a field of a struct. Default: all.
    pub fn with_columns(mut self, columns: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.columns = Some(columns.into_iter().map(Into::into).collect());
        self
    }

    /// Returns only rows for which the filter is true. Default: all.
    pub fn with_filter(mut self, filter: Predicate) -> Self {
        self.filter = Some(filter);
        self
    }

    /// Sets the columns to return as dictionaries. Default: [`Dictionaries::AsWritten`].
    pub fn with_dictionary(mut self, dictionary: Dictionaries) -> Self {
        self.dictionary = dictionary;
        self
    }

    /// Sets the type of strings and bytes that are not returned as dictionaries. Default: [`Strings::AsWritten`].
    pub fn with_strings(mut self, strings: Strings) -> Self {
        self.strings = strings;
        self
    }

    /// Returns dictionaries if the file has them, of any key type, while the schema states the type of their values:
    /// meant for writers, which write codes directly. Such batches do not have the scan's schema. Default: no.
    pub fn with_codes(mut self, codes: bool) -> Self {
        self.codes = codes;
        self
    }

    /// Sets the columns of the table: those that a file lacks are null, others of the file are left out, and
    /// values are cast as with [`Self::with_casts`]. Its metadata, and that of its fields, is added to that of the
    /// files. Default: the columns of all files, by name.
    pub fn with_table_schema(mut self, schema: SchemaRef) -> Self {
        self.table.schema = Some(schema);
        self
    }

    /// Casts top-level columns. A value that the type cannot represent is an error, never null and never rounded.
    /// Default: none.
    pub fn with_casts(mut self, casts: impl IntoIterator<Item = (impl Into<String>, DataType)>) -> Self {
        self.table.casts = casts.into_iter().map(|(column, data_type)| (column.into(), data_type)).collect();
        self
    }

    /// Sets types of partition columns instead of inferring them. Default: integers, dates or timestamps if all values
    /// parse as such, otherwise strings.
    pub fn with_partition_types(
        mut self,
        types: impl IntoIterator<Item = (impl Into<String>, DataType)>,
    ) -> Self {
        self.table.partition_types =
            types.into_iter().map(|(column, data_type)| (column.into(), data_type)).collect();
        self
    }

    /// Turns folders named `name=value` into columns. Default: yes.
    pub fn with_hive_partitions(mut self, hive: bool) -> Self {
        self.paths.hive = hive;
        self
    }

    /// Treats `*`, `?`, `[…]` and `**` in paths as wildcards, unless a file or folder has that name. Default: yes.
    pub fn with_glob(mut self, glob: bool) -> Self {
        self.paths.glob = glob;
        self
    }

    /// Adds a column of this name with the path or URL of each row's file. Default: none.
    pub fn with_filename(mut self, column: impl Into<String>) -> Self {
        self.table.filename = Some(column.into());
        self
    }

    /// Sets the root of the paths in the column of [`Self::with_filename`]. Default: the URL of the store.
    pub fn with_filename_root(mut self, root: impl Into<String>) -> Self {
        self.table.filename_root = Some(root.into());
        self
    }

    /// Adds a column of this name with the number of each row within its file, from 0. Default: none.
    pub fn with_file_row_number(mut self, column: impl Into<String>) -> Self {
        self.table.row_number = Some(column.into());
        self
    }

    /// Returns at most `limit` rows, the first of the scan. Default: all.
    pub fn with_limit(mut self, limit: u64) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Sets the maximum rows of a batch, from 1 to 65,536. Default: 8,192.
    pub fn with_batch_rows(mut self, batch_rows: usize) -> Self {
        self.batch_rows = batch_rows.clamp(1, MAX_BATCH_ROWS);
        self
    }

    /// Sets the maximum threads that decode and filter concurrently. Default: one per core.
    pub fn with_threads(mut self, threads: usize) -> Self {
        self.threads = threads.max(1);
        self
    }

    /// Sets the schema of the batches, from an earlier plan of the same request. Default: decided from the files.
    pub fn with_schema(mut self, schema: SchemaRef) -> Self {
        self.schema = Some(schema);
        self
    }

    /// Scans only this part, from a plan of the same request.
    pub fn with_part(mut self, part: ScanPart) -> Self {
        self.part = Some(part);
        self
    }

    /// Sets the keys of encrypted Parquet files. Default: none, and encrypted files are errors.
    pub fn with_decryption(mut self, decryption: Decryption) -> Self {
        self.decryption = Some(decryption);
        self
    }
}
