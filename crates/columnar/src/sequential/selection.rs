//! Selection of columns and rows of a file, and the projection to the output.

use std::sync::Arc;

use arrow::{
    array::{
        Array, ArrayRef, AsArray, BooleanArray, ListArray, RecordBatch, RecordBatchOptions, StructArray,
    },
    compute::filter_record_batch,
    datatypes::{DataType, FieldRef, Fields, Schema, SchemaRef},
    error::ArrowError,
};

use crate::{
    Error, Predicate, Result, RowFilter,
    file::schema::{ProjectedColumn, leaves_below},
    table::column_path::column_path,
};

/// All columns, to resolve dotted names against.
pub(super) struct AllColumns<'a>(pub(super) &'a Fields);

impl<'a> AllColumns<'a> {
    /// Splits a dotted name into the index of its top-level column and the names of the fields below it.
    fn resolve<'n>(&self, name: &'n str) -> Result<(usize, Vec<&'n str>)>
    where
        'a: 'n,
    {
        column_path(self.0, name).ok_or_else(|| self.no_such(name))
    }

    /// Returns the name of the top-level column that a dotted name begins with.
    fn root_name(&self, name: &str) -> Result<String> {
        let (root, _) = self.resolve(name)?;
        let field = self.0.get(root).ok_or_else(|| self.no_such(name))?;
        Ok(field.name().clone())
    }

    /// Returns the top-level columns that a scan needs; `None` if it needs all of them.
    pub(super) fn needed(
        &self,
        columns: Option<&[String]>,
        filter: Option<&Predicate>,
    ) -> Result<Option<Vec<String>>> {
        let filtered = filter.map(Predicate::columns).unwrap_or_default();
        let mut needed = Vec::new();
        for column in &filtered {
            needed.push(self.root_name(column.name())?);
        }

        let Some(columns) = columns else { return Ok(None) };

        for column in columns {
            needed.push(self.root_name(column)?);
        }
        needed.sort_unstable();
        needed.dedup();
        Ok(Some(needed))
    }

    pub(super) fn no_such(&self, column: &str) -> Error {
        no_such_column(column, self.0.iter().map(|field| field.name().as_str()))
    }
}

/// Returns the error of a name that no column has.
pub(super) fn no_such_column<'n>(column: &str, available: impl Iterator<Item = &'n str>) -> Error {
    let available = available.collect::<Vec<_>>().join(", ");
    Error::NoSuchColumn { column: column.to_owned(), available }
}

/// Filter and projection of the batches that are read.
#[derive(Clone, Debug)]
pub(super) struct SequentialProjection {
    /// Indices of the columns that are read, in ascending order.
    read: Vec<usize>,
    filter: Option<RowFilter>,
    /// Index among the columns that are read, and output field, of each output column.
    outputs: Vec<(usize, FieldRef)>,
    schema: SchemaRef,
}

impl SequentialProjection {
    /// Resolves columns and filter against `schema`.
    pub(super) fn new(
        schema: &Schema,
        columns: Option<&[String]>,
        filter: Option<&Predicate>,
    ) -> Result<Self> {
        let all = AllColumns(schema.fields());
        let wanted = match columns {
            None => (0..schema.fields().len()).map(|index| (index, vec![Vec::new()])).collect(),
            Some(columns) => wanted(&all, columns)?,
        };

        let mut read: Vec<usize> = wanted.iter().map(|(index, _)| *index).collect();
        for column in filter.map(Predicate::columns).unwrap_or_default() {
            let (root, _) = all.resolve(column.name())?;
            read.push(root);
        }

        read.sort_unstable();
        read.dedup();
        let read_schema =
            Schema::new(schema.project(&read).map_err(Error::arrow("choosing columns"))?.fields);

        let mut outputs = Vec::with_capacity(wanted.len());
        for (index, paths) in &wanted {
            let field = Arc::new(schema.field(*index).clone());
            let leaves = leaves_below(&field, paths).ok_or_else(|| {
                let paths: Vec<String> = paths.iter().map(|path| path.join(".")).collect();
                all.no_such(&format!("{}.{}", field.name(), paths.join(", ")))
            })?;
            let root = read.binary_search(index).unwrap_or_default();
            outputs.push((root, ProjectedColumn { root, leaves }.field(&field)));
        }

        let fields: Vec<FieldRef> = outputs.iter().map(|(_, field)| field.clone()).collect();
        let schema = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
        let filter = filter.map(|filter| RowFilter::new(filter, &read_schema)).transpose()?;

        Ok(Self { read, filter, outputs, schema })
    }

    /// Returns the output columns.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns the indices of the columns that are read, in ascending order.
    pub(super) fn read(&self) -> &[usize] {
        &self.read
    }

    pub(super) fn has_filter(&self) -> bool {
        self.filter.is_some()
    }

    /// Filters and projects a batch of the columns that are read.
    pub(super) fn apply(&self, batch: RecordBatch) -> Result<RecordBatch> {
        let batch = match &self.filter {
            None => batch,
            Some(filter) => {
                let columns: Vec<ArrayRef> =
                    filter.columns().into_iter().filter_map(|at| batch.columns().get(at).cloned()).collect();
                let passing = BooleanArray::new(filter.passing(&columns, batch.num_rows())?, None);
                filter_record_batch(&batch, &passing).map_err(Error::arrow("filtering"))?
            }
        };

        let rows = batch.num_rows();
        let columns = self.outputs.iter().map(|(at, field)| match batch.columns().get(*at) {
            Some(array) => pruned(array, field.data_type()),
            None => Err(ArrowError::SchemaError(format!("column {} is missing", field.name()))),
        });
        let columns = columns.collect::<Result<Vec<_>, _>>().map_err(Error::arrow("choosing columns"))?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));

        RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)
            .map_err(Error::arrow("choosing columns"))
    }
}

/// The index of a top-level column, and the selected paths below it.
type NestedProjection<'a> = (usize, Vec<Vec<&'a str>>);

/// Returns the selected columns, in their order; several fields of one struct become one column.
fn wanted<'a>(all: &AllColumns<'a>, columns: &'a [String]) -> Result<Vec<NestedProjection<'a>>> {
    let mut wanted: Vec<NestedProjection<'a>> = Vec::new();
    for column in columns {
        let (root, path) = all.resolve(column)?;
        match wanted.iter_mut().find(|(index, _)| *index == root) {
            Some((_, paths)) => paths.push(path),
            None => wanted.push((root, vec![path])),
        }
    }

    Ok(wanted)
}

/// Drops the fields of nested structs that the type `to` lacks.
fn pruned(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    match (array.data_type(), to) {
        (from, to) if from == to => Ok(array.clone()),
        (DataType::Struct(_), DataType::Struct(fields)) => {
            let whole = array.as_struct();
            let child = |field: &FieldRef| match whole.column_by_name(field.name()) {
                Some(child) => pruned(child, field.data_type()),
                None => Err(ArrowError::SchemaError(format!("field {} is missing", field.name()))),
            };
            let children = fields.iter().map(child).collect::<Result<Vec<_>, _>>()?;
            Ok(Arc::new(StructArray::try_new(fields.clone(), children, whole.nulls().cloned())?))
        }
        (DataType::List(_), DataType::List(item)) => {
            let whole = array.as_list::<i32>();
            let values = pruned(whole.values(), item.data_type())?;
            let offsets = whole.offsets().clone();
            Ok(Arc::new(ListArray::try_new(item.clone(), offsets, values, whole.nulls().cloned())?))
        }
        (from, to) => Err(ArrowError::NotYetImplemented(format!("fields of {from} as {to}"))),
    }
}

#[cfg(test)]
mod tests {
    use arrow::{
        array::{Int64Array, StringArray},
        datatypes::Field,
    };

    use super::*;
    use crate::col;

    fn batch() -> RecordBatch {
        let x: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
        let y: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "c"]));
        let s: ArrayRef = Arc::new(StructArray::from(vec![
            (Arc::new(Field::new("x", DataType::Int64, true)), x.clone()),
            (Arc::new(Field::new("y", DataType::Utf8, true)), y.clone()),
        ]));
        RecordBatch::try_from_iter_with_nullable([("x", x, true), ("y", y, true), ("s", s, true)]).unwrap()
    }

    fn select(columns: Option<&[&str]>, filter: Option<Predicate>) -> Result<RecordBatch> {
        let batch = batch();
        let columns: Option<Vec<String>> =
            columns.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        let selection = SequentialProjection::new(&batch.schema(), columns.as_deref(), filter.as_ref())?;
        let read = batch.project(selection.read()).unwrap();
        selection.apply(read)
    }

    #[test]
    fn columns_come_out_in_the_order_that_was_asked_for_and_rows_that_pass() {
        let all = select(None, None).unwrap();
        assert_eq!(all.columns(), batch().columns());
        let some = select(Some(&["y", "x"]), Some(col("s.x").gt_eq(2))).unwrap();
        assert_eq!(some.column(0).as_string::<i32>(), &StringArray::from(vec!["b", "c"]));
        assert_eq!(some.schema().field(1).name(), "x");
        let none = select(Some(&[]), Some(col("x").eq(2))).unwrap();
        assert_eq!((none.num_rows(), none.num_columns()), (1, 0));
    }

    #[test]
    fn a_dot_reaches_into_a_struct() {
        let inner = select(Some(&["s.y"]), None).unwrap();
        let DataType::Struct(fields) = inner.schema().field(0).data_type().clone() else { panic!() };
        assert_eq!((fields.len(), fields[0].name().as_str()), (1, "y"));
        for column in ["z", "s.z", "x.y"] {
            assert!(matches!(select(Some(&[column]), None), Err(Error::NoSuchColumn { .. })), "{column}");
        }
        assert!(matches!(select(None, Some(col("z").eq(1))), Err(Error::NoSuchColumn { .. })));
    }

    #[test]
    fn a_longer_prefix_of_a_dotted_name_wins_for_filter_and_output() {
        let group = |name: &str, array: ArrayRef| -> ArrayRef {
            let field = Arc::new(Field::new(name, array.data_type().clone(), true));
            Arc::new(StructArray::from(vec![(field, array)]))
        };
        let short: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
        let long: ArrayRef = Arc::new(Int64Array::from(vec![2, 1]));
        let nested = group("b", group("c", short));
        let batch = RecordBatch::try_from_iter([("a", nested), ("a.b", group("c", long.clone()))]).unwrap();

        let columns = ["a.b.c".to_owned()];
        let filter = col("a.b.c").eq(2);
        let all = AllColumns(batch.schema_ref().fields());
        let needed = all.needed(Some(columns.as_slice()), Some(&filter)).unwrap();
        assert_eq!(needed, Some(vec!["a.b".to_owned()]));

        let selection =
            SequentialProjection::new(&batch.schema(), Some(columns.as_slice()), Some(&filter)).unwrap();
        assert_eq!(selection.read(), [1]);
        let read = selection.apply(batch.project(selection.read()).unwrap()).unwrap();
        assert_eq!(read.schema().field(0).name(), "a.b");
        assert_eq!(read.column(0).as_struct().column(0), &long.slice(0, 1));
    }
}
