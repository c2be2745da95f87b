//! Which names the module has.

use pyo3::prelude::*;

/// What of the package is written in Rust. Its names are those of `stylobate`.
#[pymodule]
mod _stylobate {
    #[pymodule_export]
    use crate::{
        cache::{PyCache, default_cache, set_default_cache},
        exit::_close_all,
        expression::{PyColumn, PyExpr},
        generate::{PyGeneratedTable, generate},
        graph::{PyLocalEdges, PyLocalGraph, PyLocalVertices, write::write_graph},
        inspect::inspect,
        interop::{
            batches::{PyBatchIterator, PyBatches},
            exported::{PyArrowArray, PyRecordBatch, PySchema},
        },
        node::PyNode,
        objects::{PyObjectFile, PyObjectStoreReader},
        scan::{
            PyLocalScan,
            sequential::{PyLocalSequentialScan, sequential_format},
            table_command,
        },
        store::{
            PyLocalEdgeView, PyLocalGraphStore, PyLocalSnapshot, PyLocalStoreScan, PyLocalStoreWriter,
            PyLocalTraversal, PyLocalVertexView,
        },
        write::{write_orc, write_parquet},
    };
    use pyo3::{
        prelude::*,
        types::{PyList, PySequence},
    };

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        import_early(module)?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        let close = module.getattr("_close_all")?;
        module.py().import("atexit")?.getattr("register")?.call1((close,))?;
        Ok(())
    }

    /// Has pyo3 import what it would import when it first needs it: `operator` for the lengths of iterators, and
    /// `collections.abc` for sequences. Whoever needs it meanwhile waits, and a child that is forked meanwhile for ever.
    fn import_early(module: &Bound<'_, PyModule>) -> PyResult<()> {
        let _ = PyList::empty(module.py()).try_iter()?.size_hint();
        let _ = module.cast::<PySequence>();
        Ok(())
    }
}
