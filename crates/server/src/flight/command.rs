//! Scan commands of clients: JSON, or just a path.
//!
//! ```json
//! {"version": 1, "path": "lake/lineitem/*.parquet", "columns": ["l_shipmode", "l_quantity"],
//!  "where": "l_quantity < 24", "dictionary": "auto", "limit": 1000, "batch_rows": 65536}
//! ```
//!
//! `path` is a bucket and a file, folder or pattern in it; absent fields have the defaults of a [`ScanRequest`].
//! `dictionary` is `"auto"`, `"stored"`, true, false or a list of columns; `strings` is `"view"`.
//!
//! Fields that override the table's metadata: `"casts": {"price": "decimal(10, 2)"}`, `"schema": [{"name": "id",
//! "type": "int64"}, …]`, `"partitioning": "hive"`, `"none"` or `{"day": "date"}`, `"filename": "file"` and
//! `"file_row_number": "row"` (names of columns to add), `"glob": false`.

use std::{collections::BTreeMap, sync::Arc};

use arrow_flight::{FlightDescriptor, flight_descriptor::DescriptorType};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use stylobate_columnar::{Dictionaries, Predicate, ScanRequest, Source, Strings};
use tonic::Status;

use super::{
    bucket_path::BucketPath,
    error::{BucketNaming, from_scan, invalid},
    table_options::{Partitioning, SchemaOption, TypeOption, plain_types},
};
use crate::Bucket;

/// The command version that this node supports.
const VERSION: u64 = 1;
/// Maximum bytes of a command, which may contain the schema of a table with many thousand columns.
const MAX_COMMAND_BYTES: usize = 4 << 20;
/// Maximum bytes of a filter: every row is evaluated against all of it.
const MAX_FILTER_BYTES: usize = 64 << 10;
const MAX_BATCH_ROWS: u64 = 65_536;

/// A scan as requested by a client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScanCommand {
    version: u64,
    pub(super) path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    columns: Option<Vec<String>>,
    #[serde(default, rename = "where", skip_serializing_if = "Option::is_none")]
    filter: Option<String>,
    #[serde(default, skip_serializing_if = "DictionaryOption::is_default")]
    dictionary: DictionaryOption,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    strings: Option<StringsOption>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) limit: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    batch_rows: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    schema: Option<SchemaOption>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    casts: BTreeMap<String, TypeOption>,
    #[serde(default, skip_serializing_if = "Partitioning::is_default")]
    partitioning: Partitioning,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    filename: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    file_row_number: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    glob: Option<bool>,
}

/// Output type of strings that are not dictionaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum StringsOption {
    View,
}

/// Columns to return as dictionaries: `"auto"`, `"stored"`, true, false or a list of columns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "Value", into = "Value")]
struct DictionaryOption(Dictionaries);

impl DictionaryOption {
    fn is_default(&self) -> bool {
        self.0 == Dictionaries::default()
    }
}

impl TryFrom<Value> for DictionaryOption {
    type Error = &'static str;

    fn try_from(value: Value) -> Result<Self, Self::Error> {
        let columns = |values: Vec<Value>| {
            let names = values.into_iter().map(|value| match value {
                Value::String(name) => Some(name),
                _ => None,
            });
            names.collect::<Option<Vec<_>>>()
        };
        Ok(Self(match value {
            Value::Bool(true) => Dictionaries::All,
            Value::Bool(false) => Dictionaries::None,
            Value::String(text) if text == "auto" => Dictionaries::Auto,
            Value::String(text) if text == "stored" => Dictionaries::Stored,
            Value::Array(values) => Dictionaries::Columns(
                columns(values).ok_or("dictionary: must be a list of names of columns")?,
            ),
            _ => return Err("dictionary: must be \"auto\", \"stored\", true, false or a list of columns"),
        }))
    }
}

impl From<DictionaryOption> for Value {
    fn from(DictionaryOption(dictionary): DictionaryOption) -> Self {
        match dictionary {
            Dictionaries::AsWritten => Self::Null,
            Dictionaries::Auto => Self::from("auto"),
            Dictionaries::Stored => Self::from("stored"),
            Dictionaries::All => Self::from(true),
            Dictionaries::None => Self::from(false),
            Dictionaries::Columns(columns) => Self::from(columns),
        }
    }
}

impl ScanCommand {
    /// Parses a descriptor: a command, or a path whose first element is the bucket.
    pub(super) fn of(descriptor: &FlightDescriptor) -> Result<Self, Status> {
        match descriptor.r#type() {
            DescriptorType::Cmd => Self::parse(&descriptor.cmd),
            DescriptorType::Path => {
                let command = Self { version: VERSION, path: descriptor.path.join("/"), ..Self::default() };
                command.check()
            }
            DescriptorType::Unknown => Err(invalid("descriptor: give a command or a path")),
        }
    }

    fn parse(json: &[u8]) -> Result<Self, Status> {
        /// The field that all versions have.
        #[derive(Deserialize)]
        struct CommandVersion {
            version: Option<u64>,
        }
        if json.len() > MAX_COMMAND_BYTES {
            return Err(invalid(format!("command: longer than {MAX_COMMAND_BYTES} bytes")));
        }

        let wrong = |error: serde_json::Error| invalid(format!("command: {error}"));
        match serde_json::from_slice::<CommandVersion>(json).map_err(wrong)?.version {
            Some(VERSION) => serde_json::from_slice::<Self>(json).map_err(wrong)?.check(),
            Some(other) => Err(invalid(format!(
                "command: version {other} is not known here: write \"version\": {VERSION}"
            ))),
            None => Err(invalid(format!("command: write \"version\": {VERSION}"))),
        }
    }

    fn check(self) -> Result<Self, Status> {
        self.bucket_path()?;
        if self.filter.as_ref().is_some_and(|filter| filter.len() > MAX_FILTER_BYTES) {
            return Err(invalid(format!("where: longer than {MAX_FILTER_BYTES} bytes")));
        }
        match self.batch_rows {
            Some(rows) if !(1..=MAX_BATCH_ROWS).contains(&rows) => {
                Err(invalid(format!("batch_rows: must be 1 to {MAX_BATCH_ROWS}")))
            }
            _ => Ok(self),
        }
    }

    /// Returns the location of the files.
    pub(super) fn bucket_path(&self) -> Result<BucketPath<'_>, Status> {
        BucketPath::parse(&self.path)
    }

    /// Returns true if the scan filters rows, so that their number is unknown in advance.
    pub(super) fn has_filter(&self) -> bool {
        self.filter.is_some()
    }

    /// Describes the scan in human-readable form.
    pub(super) fn text(&self) -> String {
        match &self.filter {
            Some(filter) => format!("{} where {filter}", self.path),
            None => self.path.clone(),
        }
    }

    /// Returns the scan request over the bucket's files.
    pub(super) fn request(&self, bucket: &Bucket) -> Result<ScanRequest, Status> {
        let pattern = self.bucket_path()?.within.to_owned();
        let source = Source::Store { store: bucket.reader.clone(), pattern };
        let mut request = ScanRequest::over([source]).with_dictionary(self.dictionary.0.clone());
        if let Some(StringsOption::View) = self.strings {
            request = request.with_strings(Strings::View);
        }
        if let Some(columns) = &self.columns {
            request = request.with_columns(columns);
        }
        if let Some(sql) = &self.filter {
            request = request.with_filter(
                Predicate::parse(sql).map_err(|error| from_scan(&error, &BucketNaming::from(bucket)))?,
            );
        }

        if let Some(limit) = self.limit {
            request = request.with_limit(limit);
        }
        if let Some(rows) = self.batch_rows {
            request = request.with_batch_rows(usize::try_from(rows).unwrap_or(usize::MAX));
        }
        Ok(self.with_table_options(request, bucket))
    }

    fn with_table_options(&self, mut request: ScanRequest, bucket: &Bucket) -> ScanRequest {
        if let Some(schema) = &self.schema {
            request = request.with_table_schema(Arc::new(schema.to_arrow()));
        }
        request = match &self.partitioning {
            Partitioning::Hive => request,
            Partitioning::Absent => request.with_hive_partitions(false),
            Partitioning::Types(types) => request.with_partition_types(plain_types(types)),
        };

        if let Some(column) = &self.filename {
            request = request.with_filename(column).with_filename_root(&bucket.name);
        }
        if let Some(column) = &self.file_row_number {
            request = request.with_file_row_number(column);
        }
        request.with_casts(plain_types(&self.casts)).with_glob(self.glob.unwrap_or(true))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tonic::Code;

    use super::*;

    fn parse(json: Value) -> Result<ScanCommand, Status> {
        ScanCommand::of(&FlightDescriptor::new_cmd(json.to_string()))
    }

    fn refusal(json: Value) -> String {
        let status = parse(json).unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        status.message().to_owned()
    }

    #[test]
    fn a_command_is_written_as_it_was_read() {
        for json in [
            json!({"version": 1, "path": "lake/a.parquet"}),
            json!({"version": 1, "path": "lake", "columns": ["a", "b.c"], "where": "a < 1", "dictionary": true,
                   "limit": 0, "batch_rows": 1}),
            json!({"version": 1, "path": "lake", "dictionary": ["a"]}),
            json!({"version": 1, "path": "lake", "dictionary": false, "columns": []}),
        ] {
            assert_eq!(serde_json::to_value(parse(json.clone()).unwrap()).unwrap(), json);
        }
        let plain = parse(json!({"version": 1, "path": "lake", "columns": null, "strings": null})).unwrap();
        assert_eq!(plain, parse(json!({"version": 1, "path": "lake"})).unwrap());
    }

    #[test]
    fn a_path_says_the_same_as_a_command() {
        let path = |elements: &[&str]| {
            ScanCommand::of(&FlightDescriptor::new_path(elements.iter().map(|&e| e.to_owned()).collect()))
        };
        let command = parse(json!({"version": 1, "path": "lake/lineitem"})).unwrap();
        assert_eq!(path(&["lake", "lineitem"]).unwrap(), command);
        assert_eq!(path(&["lake/lineitem"]).unwrap(), command);

        for refused in
            [&[][..], &[""], &["lake", "", "x"], &["lake", "..", "x"], &["", "lake"], &["lake", "/x"]]
        {
            assert!(path(refused).is_err(), "{refused:?}");
        }
        assert!(ScanCommand::of(&FlightDescriptor::default()).is_err());
    }

    #[test]
    fn other_versions_and_unknown_keys_are_refused_by_name() {
        assert!(refusal(json!({"version": 2, "path": "lake", "fork": 1})).contains("version 2"));
        assert!(refusal(json!({"path": "lake"})).contains("\"version\": 1"));
        assert!(
            refusal(json!({"version": 1, "path": "lake", "colums": []})).contains("unknown field `colums`")
        );
        assert!(refusal(json!({"version": 1})).contains("missing field `path`"));
        assert!(refusal(json!({"version": 1, "path": "lake", "batch_rows": 0})).contains("batch_rows"));
        assert!(refusal(json!({"version": 1, "path": "lake", "batch_rows": 65537})).contains("batch_rows"));
        assert!(refusal(json!({"version": 1, "path": "lake", "limit": -1})).contains("-1"));

        for dictionary in [json!("some"), json!(1), json!([1]), json!({}), json!(null)] {
            let message = refusal(json!({"version": 1, "path": "lake", "dictionary": dictionary}));
            assert!(message.contains("dictionary: must be"), "{message}");
        }
    }

    #[test]
    fn a_schema_may_have_many_thousand_columns() {
        let columns = (0..20_000).map(|at| json!({"name": format!("column_{at}"), "type": "int64"}));
        let json = json!({"version": 1, "path": "lake", "schema": columns.collect::<Vec<_>>()});
        let schema = parse(json).unwrap().schema.unwrap().to_arrow();
        assert_eq!((schema.fields().len(), schema.field(19_999).name().as_str()), (20_000, "column_19999"));

        let long =
            json!({"version": 1, "path": "lake", "where": format!("s = '{}'", "a".repeat(MAX_FILTER_BYTES))});
        assert!(refusal(long).contains("where: longer than 65536 bytes"));
    }

    #[test]
    fn what_is_hostile_is_refused() {
        let long = format!("{{\"version\":1,\"path\":\"{}\"}}", "a".repeat(MAX_COMMAND_BYTES));
        let deep = format!("{{\"version\":1,\"path\":{}", "[".repeat(MAX_COMMAND_BYTES - 100));
        let deep_elsewhere = format!("{{\"x\":{}", "{\"x\":".repeat(10_000));
        let twice = "{\"version\":1,\"path\":\"lake\",\"path\":\"pond\"}".to_owned();
        for text in
            [long, deep, deep_elsewhere, twice, String::new(), "lake".into(), "[1]".into(), "1e999".into()]
        {
            let refused = ScanCommand::of(&FlightDescriptor::new_cmd(text)).unwrap_err();
            assert_eq!(refused.code(), Code::InvalidArgument);
        }
        let bytes: Vec<u8> = (0..=255).collect();
        assert!(ScanCommand::of(&FlightDescriptor::new_cmd(bytes)).is_err());
    }
}
