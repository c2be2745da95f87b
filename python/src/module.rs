//! The names that the extension module exports.

use pyo3::prelude::*;

/// The part of the package that is written in Rust; the names are re-exported by `stylobate`.
#[pymodule]
mod _stylobate {
    #[pymodule_export]
    use crate::{
        cache::{PyCache, default_cache, set_default_cache},
        cluster::{choose_by_load, rank_nodes, view_digest},
        command::run_command,
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
        process::exit::_close_all,
        scan::{
            PyLocalScan,
            sequential::{PyLocalSequentialScan, sequential_format},
            table_command,
        },
        sql::{PyLocalQuery, exported::datafusion_table},
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
        crate::allocator::keep_freed_memory();
        import_early(module)?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("DATAFUSION_MAJOR", stylobate_datafusion::ffi_version())?;
        let close = module.getattr("_close_all")?;
        module.py().import("atexit")?.getattr("register")?.call1((close,))?;
        Ok(())
    }

    /// Performs the imports that pyo3 would otherwise do on first use: `operator` for the lengths of iterators,
    /// `collections.abc` for sequences. Other threads wait for such an import, and a child that is forked during
    /// one waits forever.
    fn import_early(module: &Bound<'_, PyModule>) -> PyResult<()> {
        let _ = PyList::empty(module.py()).try_iter()?.size_hint();
        let _ = module.cast::<PySequence>();
        Ok(())
    }
}
