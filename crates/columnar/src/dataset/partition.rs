//! Partitions rows by the values of columns into folders, named as in Hive.
//!
//! ```text
//! key=value/key=value/     percent-encoded; null is __HIVE_DEFAULT_PARTITION__; timestamps with a zone are in UTC
//! ```

use std::{collections::HashMap, fmt::Write, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch, UInt32Array},
    compute::{cast, take_record_batch},
    datatypes::{DataType, FieldRef, Schema, SchemaRef},
    error::ArrowError,
    row::{RowConverter, SortField},
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::{
    Error, Result,
    kernels::{exact_cast::exact_cast, expand::expand},
};

/// Maximum values of a dictionary per row of a folder's batch: a file that keeps a few rows must not keep the large
/// dictionaries of many batches.
const MAX_VALUES_PER_ROW: usize = 4;
/// Hive's spelling of null.
const NULL: &str = "__HIVE_DEFAULT_PARTITION__";
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');

/// Columns that name folders, and the folders named so far.
pub(super) struct HivePartitioner {
    /// Indices of the columns, and their encoded names.
    keys: Vec<(usize, String)>,
    key_types: Vec<DataType>,
    /// Indices of all other columns.
    rest: Vec<usize>,
    schema: SchemaRef,
    converter: Option<RowConverter>,
    folders: HashMap<Box<[u8]>, Arc<str>>,
}

impl HivePartitioner {
    /// Partitions by these columns. Without any, there is one folder with an empty name.
    pub(super) fn new(file: &str, schema: &Schema, names: &[String]) -> Result<Self> {
        let unwritable = |column: Option<&str>, reason: String| Error::Unwritable {
            object: file.to_owned(),
            column: column.map(str::to_owned),
            reason,
        };

        let mut keys = Vec::new();
        let mut key_types = Vec::new();
        for name in names {
            let Some((at, field)) = schema.column_with_name(name) else {
                let available: Vec<&str> =
                    schema.fields().iter().map(|field| field.name().as_str()).collect();
                return Err(Error::NoSuchColumn { column: name.clone(), available: available.join(", ") });
            };
            if !can_name_folders(field.data_type()) {
                let reason = format!("{} cannot name folders", field.data_type());
                return Err(unwritable(Some(name), reason));
            }
            if keys.iter().any(|(known, _)| *known == at) {
                return Err(unwritable(Some(name), "named twice among the columns of folders".to_owned()));
            }

            keys.push((at, utf8_percent_encode(name, ENCODED).to_string()));
            key_types.push(field.data_type().clone());
        }

        let rest: Vec<usize> =
            (0..schema.fields().len()).filter(|at| keys.iter().all(|(key, _)| key != at)).collect();
        if rest.is_empty() && !keys.is_empty() {
            return Err(unwritable(None, "no column is left for the files: all name folders".to_owned()));
        }

        let projected = schema.project(&rest).map_err(|error| unwritable(None, error.to_string()))?;
        let converter = if keys.is_empty() {
            None
        } else {
            let sorts = key_types.iter().cloned().map(SortField::new).collect();
            Some(RowConverter::new(sorts).map_err(Error::arrow("columns of folders"))?)
        };

        let schema = Arc::new(projected);
        let folders = HashMap::new();
        Ok(Self { keys, key_types, rest, schema, converter, folders })
    }

    /// Returns the schema of the files.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Splits a batch into the rows of each folder, in their order. Columns of strings and bytes may arrive as
    /// dictionaries, and mostly remain dictionaries.
    pub(super) fn split(&mut self, batch: &RecordBatch) -> Result<Vec<(Arc<str>, RecordBatch)>> {
        let Some(converter) = &mut self.converter else {
            return Ok(vec![(Arc::from(""), batch.clone())]);
        };

        let wrong = || Error::arrow("columns of folders");
        let keys = self.keys.iter().map(|(at, _)| batch.column(*at));
        let keys: Vec<ArrayRef> = keys.zip(&self.key_types).map(as_key).collect::<Result<_>>()?;
        let rows = converter.convert_columns(&keys).map_err(wrong())?;
        let rest = batch.project(&self.rest).map_err(wrong())?;

        let mut groups: Vec<(Arc<str>, Vec<u32>)> = Vec::new();
        let mut group_by_key: HashMap<&[u8], usize> = HashMap::new();
        let mut last: Option<(&[u8], usize)> = None;
        for row in 0..rows.num_rows() {
            let key = rows.row(row).data();
            let group = match last {
                Some((before, group)) if before == key => group,
                _ => match group_by_key.get(key) {
                    Some(group) => *group,
                    None => {
                        let folder = match self.folders.get(key) {
                            Some(folder) => folder.clone(),
                            None => {
                                let folder: Arc<str> = folder(&self.keys, batch, row)?.into();
                                self.folders.insert(key.into(), folder.clone());
                                folder
                            }
                        };

                        groups.push((folder, Vec::new()));
                        group_by_key.insert(key, groups.len() - 1);
                        groups.len() - 1
                    }
                },
            };

            last = Some((key, group));
            if let Some((_, rows)) = groups.get_mut(group) {
                rows.push(row as u32);
            }
        }

        if let [(folder, _)] = groups.as_slice() {
            return Ok(vec![(folder.clone(), rest)]);
        }

        let taken = groups.into_iter().map(|(folder, rows)| {
            let taken = take_record_batch(&rest, &UInt32Array::from(rows)).map_err(wrong())?;
            Ok((folder, without_large_dictionaries(taken, &self.schema)?))
        });
        taken.collect()
    }
}

/// Casts a column to the type of the schema, in which rows are compared.
fn as_key((column, data_type): (&ArrayRef, &DataType)) -> Result<ArrayRef> {
    if column.data_type() == data_type { Ok(column.clone()) } else { expand(column) }
}

/// Expands dictionaries that are not in the schema, if they have many more values than the batch has rows.
fn without_large_dictionaries(batch: RecordBatch, schema: &Schema) -> Result<RecordBatch> {
    let max_values = batch.num_rows().saturating_mul(MAX_VALUES_PER_ROW);
    let is_large = |(column, field): (&ArrayRef, &FieldRef)| {
        let values = column.as_any_dictionary_opt().map(|dictionary| dictionary.values().len());
        column.data_type() != field.data_type() && values.is_some_and(|values| values > max_values)
    };
    let columns = || batch.columns().iter().zip(schema.fields());
    if !columns().any(is_large) {
        return Ok(batch);
    }

    let expanded = columns().map(
        |(column, field)| {
            if is_large((column, field)) { expand(column) } else { Ok(column.clone()) }
        },
    );
    let expanded: Vec<ArrayRef> = expanded.collect::<Result<_>>()?;
    let fields = batch.schema_ref().fields().iter().zip(&expanded);
    let fields =
        fields.map(|(field, column)| field.as_ref().clone().with_data_type(column.data_type().clone()));
    let schema = Schema::new(fields.collect::<Vec<_>>());
    RecordBatch::try_new(Arc::new(schema), expanded).map_err(Error::arrow("rows of a folder"))
}

fn can_name_folders(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => can_name_folders(values),
        DataType::Boolean
        | DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::Date32
        | DataType::Date64
        | DataType::Timestamp(..)
        | DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..) => true,
        other => other.is_integer(),
    }
}

/// Returns the folder of a row, with a trailing slash.
fn folder(keys: &[(usize, String)], batch: &RecordBatch, row: usize) -> Result<String> {
    let mut folder = String::new();
    for (at, name) in keys {
        let value = batch.column(*at).slice(row, 1);
        let text = texts_of(value).map_err(Error::arrow("values of folders"))?;
        let text = text.as_string::<i32>();
        let value = if text.is_null(0) {
            NULL.to_owned()
        } else if text.value(0) == NULL {
            // Escaped, so that readers do not mistake the string for null.
            format!("%5F{}", NULL.get(1..).unwrap_or_default())
        } else {
            utf8_percent_encode(text.value(0), ENCODED).to_string()
        };

        // Writing to a string cannot fail.
        let _ = write!(folder, "{name}={value}/");
    }

    Ok(folder)
}

/// Returns values as strings for folder names.
///
/// Timestamps with a zone are written in UTC: the offset of another zone may have seconds, which its text would lose.
fn texts_of(values: ArrayRef) -> Result<ArrayRef, ArrowError> {
    let values = match values.data_type() {
        DataType::Dictionary(_, plain) => cast(&values, plain)?,
        _ => values,
    };

    let values = match values.data_type() {
        DataType::Timestamp(unit, Some(_)) => cast(&values, &DataType::Timestamp(*unit, Some("UTC".into())))?,
        DataType::Date64 => exact_cast(&values, &DataType::Date32).unwrap_or(values),
        _ => values,
    };
    cast(&values, &DataType::Utf8)
}

#[cfg(test)]
mod tests {
    use arrow::{
        array::{Date32Array, Date64Array, DictionaryArray, Int64Array, TimestampMicrosecondArray},
        datatypes::{Field, Int8Type},
    };

    use super::*;

    #[test]
    fn rows_are_told_apart_by_the_values_of_their_keys() {
        let city: DictionaryArray<Int8Type> =
            [Some("São Paulo"), None, Some("a/b=c"), Some(NULL), Some("São Paulo"), Some("")]
                .into_iter()
                .collect();
        let columns: [(&str, ArrayRef); 3] = [
            ("a b", Arc::new(city)),
            ("n", Arc::new(Int64Array::from_iter_values(0..6))),
            ("day", Arc::new(Date32Array::from_iter_values([0, 0, 0, 0, 0, 1]))),
        ];
        let batch =
            RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true)));
        let batch = batch.unwrap();
        let names = ["day".to_owned(), "a b".to_owned()];

        let mut partitions = HivePartitioner::new("x", &batch.schema(), &names).unwrap();
        for _ in 0..2 {
            let split = partitions.split(&batch).unwrap();
            let shown: Vec<(String, Vec<i64>)> = split
                .iter()
                .map(|(folder, rows)| {
                    let numbers = rows.column(0).as_primitive::<arrow::datatypes::Int64Type>();
                    (folder.to_string(), numbers.values().to_vec())
                })
                .collect();

            let wanted = [
                ("day=1970-01-01/a%20b=S%C3%A3o%20Paulo/", vec![0, 4]),
                ("day=1970-01-01/a%20b=__HIVE_DEFAULT_PARTITION__/", vec![1]),
                ("day=1970-01-01/a%20b=a%2Fb%3Dc/", vec![2]),
                ("day=1970-01-01/a%20b=%5F_HIVE_DEFAULT_PARTITION__/", vec![3]),
                ("day=1970-01-02/a%20b=/", vec![5]),
            ];
            assert_eq!(shown, wanted.map(|(folder, rows)| (folder.to_owned(), rows)));
        }

        let wrong = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            HivePartitioner::new("x", &batch.schema(), &names).err().unwrap().to_string()
        };
        assert!(wrong(&["m"]).contains("no column m"));
        assert!(wrong(&["n", "n"]).contains("twice"));
        assert!(wrong(&["n", "day", "a b"]).contains("no column is left"));
    }

    #[test]
    fn timestamps_with_a_zone_and_days_have_one_text() {
        let text = |array: ArrayRef| texts_of(array).unwrap().as_string::<i32>().value(0).to_owned();
        let moments = TimestampMicrosecondArray::from(vec![1]);
        assert_eq!(text(Arc::new(moments.clone())), "1970-01-01T00:00:00.000001");
        assert_eq!(text(Arc::new(moments.with_timezone("Europe/Oslo"))), "1970-01-01T00:00:00.000001Z");
        assert_eq!(text(Arc::new(Date64Array::from(vec![86_400_000]))), "1970-01-02");
        assert_eq!(text(Arc::new(Date64Array::from(vec![1]))), "1970-01-01T00:00:00.001");
    }

    #[test]
    fn codes_stay_codes_unless_their_dictionary_is_large() {
        let codes = |texts: Vec<String>| -> ArrayRef {
            Arc::new(texts.iter().map(String::as_str).collect::<DictionaryArray<Int8Type>>())
        };
        let columns: [(&str, ArrayRef); 3] = [
            ("city", codes((0..100).map(|row| format!("city {}", row % 2)).collect())),
            ("few", codes((0..100).map(|row| format!("{}", row % 3)).collect())),
            ("many", codes((0..100).map(|row| format!("{row}")).collect())),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let stated = ["city", "few", "many"].map(|name| Field::new(name, DataType::Utf8, false));
        let mut partitions =
            HivePartitioner::new("x", &Schema::new(stated.to_vec()), &["city".to_owned()]).unwrap();

        // All rows of the first ten, and two folders of five rows each.
        let split = partitions.split(&batch.slice(0, 10)).unwrap();
        let folders: Vec<&str> = split.iter().map(|(folder, _)| folder.as_ref()).collect();
        assert_eq!(folders, ["city=city%200/", "city=city%201/"]);
        for (at, (_, rows)) in split.iter().enumerate() {
            assert!(matches!(rows.column(0).data_type(), DataType::Dictionary(..)));
            let many = rows.column(1).as_string::<i32>().iter().flatten().collect::<Vec<_>>();
            assert_eq!(many, (0..5).map(|row| (2 * row + at).to_string()).collect::<Vec<_>>());
        }
        let split = partitions.split(&batch).unwrap();
        assert!(split.iter().all(|(_, rows)| {
            rows.num_rows() == 50
                && rows.columns().iter().all(|column| column.as_any_dictionary_opt().is_some())
        }));
    }
}
