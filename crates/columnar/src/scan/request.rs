//! What a scan is to read, and what is to come out.

use arrow::datatypes::{DataType, SchemaRef};

use super::part::ScanPart;
use crate::{
    Decryption, Predicate,
    table::{
        Dictionaries, Strings,
        locate::{PathOptions, Source},
        options::TableOptions,
    },
};

const DEFAULT_BATCH_ROWS: usize = 8192;
/// No batch holds more rows than two bytes tell apart.
pub(super) const MAX_BATCH_ROWS: usize = 65_536;

/// What to scan, and how.
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
    /// Scans all columns and rows of what is at a local path or URL.
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

    /// Only these columns, in this order; a dot reaches into a struct. Default: all.
    pub fn with_columns(mut self, columns: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.columns = Some(columns.into_iter().map(Into::into).collect());
        self
    }

    /// Only rows for which this is true. Default: all.
    pub fn with_filter(mut self, filter: Predicate) -> Self {
        self.filter = Some(filter);
        self
    }

    /// Which columns come out as dictionaries. Default: [`Dictionaries::AsWritten`].
    pub fn with_dictionary(mut self, dictionary: Dictionaries) -> Self {
        self.dictionary = dictionary;
        self
    }

    /// How strings and bytes come out that are no dictionaries. Default: [`Strings::AsWritten`].
    pub fn with_strings(mut self, strings: Strings) -> Self {
        self.strings = strings;
        self
    }

    /// Whether batches hold dictionaries where the file has them, of whatever width of codes, while the schema states the
    /// type of their values: for writers, which write codes as they come. Such batches are not of the scan's schema.
    /// Default: no.
    pub fn with_codes(mut self, codes: bool) -> Self {
        self.codes = codes;
        self
    }

    /// The columns of the table, whatever the files have: those that files lack are null there, others are left out, and
    /// values are cast as with [`Self::with_casts`]. Default: the columns of all files, by name.
    pub fn with_table_schema(mut self, schema: SchemaRef) -> Self {
        self.table.schema = Some(schema);
        self
    }

    /// Top-level columns that come out with another type than the files have. A value that the type does not hold is an
    /// error, never null and never rounded. Default: none.
    pub fn with_casts(mut self, casts: impl IntoIterator<Item = (impl Into<String>, DataType)>) -> Self {
        self.table.casts = casts.into_iter().map(|(column, data_type)| (column.into(), data_type)).collect();
        self
    }

    /// Types of columns that paths give, for those that are not to be inferred. Default: integers, dates or timestamps
    /// where all values are, otherwise strings.
    pub fn with_partition_types(
        mut self,
        types: impl IntoIterator<Item = (impl Into<String>, DataType)>,
    ) -> Self {
        self.table.partition_types =
            types.into_iter().map(|(column, data_type)| (column.into(), data_type)).collect();
        self
    }

    /// Whether folders named `name=value` give columns. Default: yes.
    pub fn with_hive_partitions(mut self, hive: bool) -> Self {
        self.paths.hive = hive;
        self
    }

    /// Whether `*`, `?`, `[…]` and `**` in paths are wildcards, unless a file or folder has just that name. Default: yes.
    pub fn with_glob(mut self, glob: bool) -> Self {
        self.paths.glob = glob;
        self
    }

    /// A column of this name with the path or URL of the file that each row is from. Default: none.
    pub fn with_filename(mut self, column: impl Into<String>) -> Self {
        self.table.filename = Some(column.into());
        self
    }

    /// What the paths in the column of [`Self::with_filename`] begin with, in place of the URL of the store. Default: that
    /// URL.
    pub fn with_filename_root(mut self, root: impl Into<String>) -> Self {
        self.table.filename_root = Some(root.into());
        self
    }

    /// A column of this name with the number of each row within its file, from 0. Default: none.
    pub fn with_file_row_number(mut self, column: impl Into<String>) -> Self {
        self.table.row_number = Some(column.into());
        self
    }

    /// Only the first so many rows. Default: all.
    pub fn with_limit(mut self, limit: u64) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Most rows of a batch, from 1 to 65,536. Default: 8,192.
    pub fn with_batch_rows(mut self, batch_rows: usize) -> Self {
        self.batch_rows = batch_rows.clamp(1, MAX_BATCH_ROWS);
        self
    }

    /// Most threads that decode and filter at the same time. Default: one for each core.
    pub fn with_threads(mut self, threads: usize) -> Self {
        self.threads = threads.max(1);
        self
    }

    /// What comes out has this schema, which a plan of the same request gave. Default: worked out from the files.
    pub fn with_schema(mut self, schema: SchemaRef) -> Self {
        self.schema = Some(schema);
        self
    }

    /// Only this part, which a plan of the same request gave.
    pub fn with_part(mut self, part: ScanPart) -> Self {
        self.part = Some(part);
        self
    }

    /// The keys of encrypted Parquet files. Default: none, and encrypted files are errors.
    pub fn with_decryption(mut self, decryption: Decryption) -> Self {
        self.decryption = Some(decryption);
        self
    }
}
