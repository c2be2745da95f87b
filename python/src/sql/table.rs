//! Conversion of the tables of a query from Python.

use std::sync::Arc;

use arrow::{
    array::{RecordBatch, RecordBatchOptions},
    datatypes::SchemaRef,
};
use futures::{StreamExt, TryStreamExt, stream};
use pyo3::{exceptions::PyTypeError, prelude::*};
use stylobate_datafusion::{
    ForeignBatchStream, ScanTable, SqlSession, TableProvider, batches_table, sequential_table, stream_table,
};

use crate::{
    batch_input::PythonBatchInput,
    errors::{ErrorClass, ResultExt, UnraisedError},
    interop::arrow_types,
    process::ProcessRuntime,
    scan::{PyLocalScan, sequential::PyLocalSequentialScan},
};

/// A table of a query.
pub(super) enum GivenTable {
    /// Files, opened as one table.
    Paths(Vec<String>),
    Scan(Py<PyLocalScan>),
    SequentialScan(Py<PyLocalSequentialScan>),
    /// Other rows of this package, which are read again by each query.
    Rows(Py<PyAny>),
    /// Data of other packages, read once.
    Batches(SchemaRef, Vec<RecordBatch>),
}

impl GivenTable {
    /// Converts a value of the given kind to a table: `paths`, a list of paths; `rows`, a row source of this
    /// package; `data`, any input that a writer accepts.
    pub(super) fn of(
        py: Python<'_>,
        process: &ProcessRuntime,
        kind: &str,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        match kind {
            "paths" => Ok(Self::Paths(value.extract()?)),
            "rows" => Ok(Self::of_rows(value)),
            "data" => Self::of_data(py, process, value),
            other => Err(PyTypeError::new_err(format!("{other}: no such kind of table"))),
        }
    }

    /// Wraps a row source of this package.
    pub(super) fn of_rows(rows: &Bound<'_, PyAny>) -> Self {
        if let Ok(scan) = rows.cast::<PyLocalScan>() {
            return Self::Scan(scan.clone().unbind());
        }
        match rows.cast::<PyLocalSequentialScan>() {
            Ok(scan) => Self::SequentialScan(scan.clone().unbind()),
            Err(_) => Self::Rows(rows.clone().unbind()),
        }
    }

    fn of_data(py: Python<'_>, process: &ProcessRuntime, data: &Bound<'_, PyAny>) -> PyResult<Self> {
        let PythonBatchInput { schema, batches } = PythonBatchInput::of(data, process)?;
        let batches: Vec<RecordBatch> = process.run(py, batches.try_collect())?;

        // Batches of an iterator may differ in metadata.
        let in_schema = |batch: RecordBatch| {
            let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
            RecordBatch::try_new_with_options(schema.clone(), batch.columns().to_vec(), &rows)
                .map_err(|error| ErrorClass::Schema.error(py, format!("tables: {error}")))
        };
        let batches = batches.into_iter().map(in_schema).collect::<PyResult<_>>()?;
        Ok(Self::Batches(schema, batches))
    }

    /// Adds the table to a session.
    pub(super) fn add_to(
        &self,
        py: Python<'_>,
        process: &ProcessRuntime,
        session: &SqlSession,
        name: &str,
    ) -> PyResult<()> {
        match self {
            Self::Paths(paths) => process.run(py, session.add_files(name, paths)),
            table => session.add_provider(name, table.provider(py, process)?).or_raise(py),
        }
    }

    /// Creates a DataFusion table provider.
    pub(super) fn provider(
        &self,
        py: Python<'_>,
        process: &ProcessRuntime,
    ) -> PyResult<Arc<dyn TableProvider>> {
        match self {
            Self::Paths(_) => Err(PyTypeError::new_err("files are opened by a session")),
            Self::Scan(scan) => Ok(Arc::new(ScanTable::of(scan.get().plan_for_sql(py, process)?))),
            Self::SequentialScan(scan) => sequential_table(scan.get().planned(py, process)?).or_raise(py),
            Self::Batches(schema, batches) => batches_table(schema.clone(), batches.clone()).or_raise(py),
            Self::Rows(rows) => {
                let schema = arrow_types::schema("tables", &rows.bind(py).getattr("schema")?)?;
                let rows = rows.clone_ref(py);
                let process = process.clone();
                stream_table(schema, move || opened(&rows, &process)).or_raise(py)
            }
        }
    }
}

/// Starts reading rows. For a thread that does not hold the GIL.
fn opened(rows: &Py<PyAny>, process: &ProcessRuntime) -> ForeignBatchStream {
    let input = Python::try_attach(|py| PythonBatchInput::of(rows.bind(py), process));
    let input = input.unwrap_or_else(|| Err(PyTypeError::new_err("the interpreter ends")));
    match input {
        Ok(input) => input.batches.map_err(|error| error.to_string().into()).boxed(),
        Err(error) => {
            let message = UnraisedError::of_python(error).to_string();
            stream::once(async move { Err(message.into()) }).boxed()
        }
    }
}
