//! Schema metadata of a table of several files: the entries on which all files agree.

use std::collections::{BTreeMap, HashMap, btree_map::Entry};

use arrow::datatypes::Schema;
use serde_json::{Map, Value};

use crate::file::dataset_mark::DATASET_KEY;

/// Keys that describe all columns of one file, for readers that trust them more than the file's schema.
const SINGLE_FILE_KEYS: [&str; 4] =
    ["org.apache.spark.sql.parquet.row.metadata", "parquet.avro.schema", "avro.schema", "iceberg.schema"];

/// JSON about columns and index that pandas and pyarrow write.
const PANDAS_KEY: &str = "pandas";
/// JSON about geometry columns, as the GeoParquet specification defines it.
const GEO_KEY: &str = "geo";

/// Merges the metadata of the schemas of several files. A key is kept if all files have the same value; `pandas` and
/// `geo`, which also describe the rows of one file, are merged.
pub(crate) fn merged_metadata(schemas: &[&Schema]) -> HashMap<String, String> {
    let mut merged = HashMap::new();
    let Some((first, others)) = schemas.split_first() else { return merged };

    for (key, value) in first.metadata() {
        if key == DATASET_KEY || SINGLE_FILE_KEYS.contains(&key.as_str()) {
            continue;
        }

        let is_same = others.iter().all(|schema| schema.metadata().get(key) == Some(value));
        let value = match key.as_str() {
            _ if is_same => Some(value.clone()),
            PANDAS_KEY => merged_pandas(schemas),
            GEO_KEY => merged_geo(schemas),
            _ => None,
        };
        if let Some(value) = value {
            merged.insert(key.clone(), value);
        }
    }

    merged
}

/// Merges `geo` of all files: it must be equal apart from the bounding boxes of columns, which are those of one file.
fn merged_geo(schemas: &[&Schema]) -> Option<String> {
    let mut all = schemas.iter().map(|schema| geo_without_bounds(schema.metadata().get(GEO_KEY)?));
    let first = all.next()??;
    all.all(|other| other.as_ref() == Some(&first)).then(|| first.to_string())
}

fn geo_without_bounds(text: &str) -> Option<Value> {
    let mut geo: Value = serde_json::from_str(text).ok()?;
    for column in geo.get_mut("columns")?.as_object_mut()?.values_mut() {
        column.as_object_mut()?.remove("bbox");
    }
    Some(geo)
}

fn merged_pandas(schemas: &[&Schema]) -> Option<String> {
    let (first, others) = schemas.split_first()?;
    let mut merged = PandasMetadata::of(first)?;
    for schema in others {
        merged.add(PandasMetadata::of(schema)?)?;
    }
    merged.into_json()
}

/// The value of `pandas`, of one file or of several.
struct PandasMetadata {
    /// The entry of each column by the name of its field; `None` if a file has none, or files differ.
    columns: BTreeMap<String, Option<Value>>,
    /// Names of fields, and descriptions of indexes that are not stored.
    index_columns: Vec<Value>,
    /// Everything else.
    rest: Map<String, Value>,
}

impl PandasMetadata {
    /// Parses the metadata of one file. Columns without an entry are recorded as such: those of other files do not
    /// describe them.
    fn of(schema: &Schema) -> Option<Self> {
        let mut rest: Map<String, Value> = serde_json::from_str(schema.metadata().get(PANDAS_KEY)?).ok()?;
        let Value::Array(entries) = rest.remove("columns")? else { return None };
        let Value::Array(index_columns) = rest.remove("index_columns")? else { return None };

        let mut own = Self { columns: BTreeMap::new(), index_columns, rest };
        for entry in entries {
            let name = entry.get("field_name")?.as_str()?.to_owned();
            own.add_column(name, Some(entry));
        }
        for field in schema.fields() {
            own.columns.entry(field.name().clone()).or_insert(None);
        }
        Some(own)
    }

    /// Adds the metadata of another file; `None` if the two cannot be merged.
    fn add(&mut self, other: Self) -> Option<()> {
        self.rest.retain(|key, value| other.rest.get(key) == Some(&*value));
        for (name, entry) in other.columns {
            self.add_column(name, entry);
        }

        if self.index_columns == other.index_columns {
            return Some(());
        }
        // A range numbers the rows of one file; rows of the table are numbered from 0 if there is no index.
        let is_stored = |column: &Value| !is_range(column);
        self.index_columns.retain(is_stored);
        let others: Vec<Value> = other.index_columns.into_iter().filter(is_stored).collect();
        (self.index_columns == others).then_some(())
    }

    fn add_column(&mut self, name: String, entry: Option<Value>) {
        match self.columns.entry(name) {
            Entry::Vacant(vacant) => {
                vacant.insert(entry);
            }
            Entry::Occupied(mut known) => {
                if *known.get() != entry {
                    known.insert(None);
                }
            }
        }
    }

    /// Writes the merged JSON; `None` if a stored index column has no entry, which pandas looks up.
    fn into_json(self) -> Option<String> {
        let has_entry = |name: &str| matches!(self.columns.get(name), Some(Some(_)));
        if !self.index_columns.iter().all(|column| column.as_str().is_none_or(has_entry)) {
            return None;
        }

        let mut json = self.rest;
        json.insert("columns".to_owned(), Value::Array(self.columns.into_values().flatten().collect()));
        json.insert("index_columns".to_owned(), Value::Array(self.index_columns));
        Some(Value::Object(json).to_string())
    }
}

/// Returns whether an index column is the description of a `RangeIndex`.
fn is_range(column: &Value) -> bool {
    column.get("kind").and_then(Value::as_str) == Some("range")
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, Field};
    use serde_json::json;

    use super::*;

    fn schema(columns: &[&str], key: &str, value: &Value) -> Schema {
        let fields: Vec<Field> =
            columns.iter().map(|name| Field::new(*name, DataType::Int64, true)).collect();
        Schema::new_with_metadata(fields, HashMap::from([(key.to_owned(), value.to_string())]))
    }

    fn entry(name: &str, pandas_type: &str) -> Value {
        json!({"name": name, "field_name": name, "pandas_type": pandas_type, "numpy_type": "object", "metadata": null})
    }

    fn range(stop: i64) -> Value {
        json!({"kind": "range", "name": null, "start": 0, "stop": stop, "step": 1})
    }

    /// Returns the schema of a frame whose columns have these names and types.
    fn frame(columns: &[(&str, &str)], index: &[Value]) -> Schema {
        let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
        let entries: Vec<Value> =
            columns.iter().map(|(name, pandas_type)| entry(name, pandas_type)).collect();
        let value = json!({"columns": entries, "index_columns": index, "pandas_version": "2.2.3"});
        schema(&names, PANDAS_KEY, &value)
    }

    fn merged(schemas: &[Schema], key: &str) -> Option<Value> {
        let schemas: Vec<&Schema> = schemas.iter().collect();
        let merged = merged_metadata(&schemas);
        merged.get(key).map(|text| serde_json::from_str(text).unwrap())
    }

    #[test]
    fn frames_whose_ranges_differ_keep_their_columns_and_have_no_index() {
        let columns = [("day", "datetimetz"), ("city", "categorical")];
        let merged =
            merged(&[frame(&columns, &[range(3)]), frame(&columns, &[range(5)])], PANDAS_KEY).unwrap();
        assert_eq!(merged["index_columns"], json!([]));
        assert_eq!(merged["columns"], json!([entry("city", "categorical"), entry("day", "datetimetz")]));
        assert_eq!(merged["pandas_version"], "2.2.3");

        let same = [frame(&columns, &[range(3)]), frame(&columns, &[range(3)])];
        let text = same[0].metadata()[PANDAS_KEY].clone();
        let all: Vec<&Schema> = same.iter().collect();
        assert_eq!(merged_metadata(&all)[PANDAS_KEY], text);
    }

    #[test]
    fn only_entries_that_all_files_with_the_column_agree_on_are_kept() {
        let files = [
            frame(&[("x", "int32"), ("y", "bool"), ("only", "unicode")], &[]),
            frame(&[("x", "int64"), ("y", "bool")], &[]),
            frame(&[("x", "int32"), ("y", "bool")], &[]),
        ];
        let read = merged(&files, PANDAS_KEY).unwrap();
        assert_eq!(read["columns"], json!([entry("only", "unicode"), entry("y", "bool")]));

        // The second file has `y`, but does not describe it.
        let value = json!({"columns": [entry("x", "int32")], "index_columns": []});
        let files = [frame(&[("x", "int32"), ("y", "bool")], &[]), schema(&["x", "y"], PANDAS_KEY, &value)];
        let read = merged(&files, PANDAS_KEY).unwrap();
        assert_eq!(read["columns"], json!([entry("x", "int32")]));
        assert_eq!(read.get("pandas_version"), None);
    }

    #[test]
    fn frames_with_other_stored_indexes_have_no_common_metadata() {
        let with = |index: &[&str], day: &str| {
            let index: Vec<Value> = index.iter().map(|name| Value::from(*name)).collect();
            frame(&[("x", "int64"), ("day", day)], &index)
        };
        assert!(merged(&[with(&["day"], "date"), with(&[], "date")], PANDAS_KEY).is_none());
        assert!(merged(&[with(&["day"], "date"), with(&["day"], "datetime")], PANDAS_KEY).is_none());
        let ranged = frame(&[("x", "int64"), ("day", "date")], &[range(2)]);
        assert!(merged(&[with(&["day"], "date"), ranged], PANDAS_KEY).is_none());

        // Another version of pandas wrote the second file.
        let mut newer = with(&["day"], "date");
        let text = newer.metadata[PANDAS_KEY].replace("2.2.3", "3.0.0");
        newer.metadata.insert(PANDAS_KEY.to_owned(), text);
        let read = merged(&[with(&["day"], "date"), newer], PANDAS_KEY).unwrap();
        assert_eq!(read["index_columns"], json!(["day"]));
    }

    #[test]
    fn geometry_is_described_alike_without_bounds_or_not_at_all() {
        let geo = |bounds: i64, crs: &str| {
            let column = json!({"encoding": "WKB", "geometry_types": ["Point"], "bbox": [0, 0, bounds, 1], "crs": crs});
            let value = json!({"version": "1.1.0", "primary_column": "g", "columns": {"g": column}});
            schema(&["g"], GEO_KEY, &value)
        };
        let read = merged(&[geo(1, "a"), geo(2, "a")], GEO_KEY).unwrap();
        let column = json!({"encoding": "WKB", "geometry_types": ["Point"], "crs": "a"});
        assert_eq!(read, json!({"version": "1.1.0", "primary_column": "g", "columns": {"g": column}}));

        assert!(merged(&[geo(1, "a"), geo(2, "b")], GEO_KEY).is_none());
        assert_eq!(merged(&[geo(1, "a"), geo(1, "a")], GEO_KEY).unwrap()["columns"]["g"]["bbox"][2], 1);
        let without = Schema::new(vec![Field::new("g", DataType::Binary, true)]);
        assert!(merged(&[geo(1, "a"), without], GEO_KEY).is_none());
        assert!(merged(&[schema(&["g"], GEO_KEY, &json!({})), geo(1, "a")], GEO_KEY).is_none());
    }

    #[test]
    fn other_keys_are_kept_if_all_files_have_the_same_value() {
        let files = [schema(&["x"], "unit", &json!("m")), schema(&["x"], "unit", &json!("m"))];
        assert_eq!(merged(&files, "unit"), Some(json!("m")));
        let files = [schema(&["x"], "unit", &json!("m")), schema(&["x"], "unit", &json!("s"))];
        assert_eq!(merged(&files, "unit"), None);
        for key in [DATASET_KEY, SINGLE_FILE_KEYS[0]] {
            assert_eq!(merged(&[schema(&["x"], key, &json!("part"))], key), None);
        }
        assert!(merged_metadata(&[]).is_empty());
    }
}
