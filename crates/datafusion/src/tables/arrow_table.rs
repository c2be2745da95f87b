//! Tables of record batches, in memory or read again from a source by each query.

use std::{error::Error as StdError, fmt, sync::Arc};

use datafusion::{
    arrow::{
        array::{RecordBatch, RecordBatchOptions},
        datatypes::{Schema, SchemaRef},
    },
    catalog::{TableProvider, streaming::StreamingTable},
    datasource::MemTable,
    error::DataFusionError,
    execution::{SendableRecordBatchStream, TaskContext},
    physical_plan::{coop::cooperative, stream::RecordBatchStreamAdapter, streaming::PartitionStream},
};
use futures::{StreamExt, stream::BoxStream};

use crate::error::Result;

/// A stream of batches from outside this crate.
pub type ForeignBatchStream = BoxStream<'static, Result<RecordBatch, Box<dyn StdError + Send + Sync>>>;

/// Creates a table of batches in memory.
///
/// # Errors
///
/// [`Error::Query`](crate::Error::Query) if a batch has a different schema.
pub fn batches_table(schema: SchemaRef, batches: Vec<RecordBatch>) -> Result<Arc<dyn TableProvider>> {
    Ok(Arc::new(MemTable::try_new(schema, vec![batches])?))
}

/// Creates a table of a stream, which is opened again for each read of the table, within the runtime.
///
/// # Errors
///
/// Currently none.
pub fn stream_table(
    schema: SchemaRef,
    open: impl Fn() -> ForeignBatchStream + Send + Sync + 'static,
) -> Result<Arc<dyn TableProvider>> {
    let schema = Arc::new(Schema::new(schema.fields().clone()));
    let rows = ForeignRows { schema: schema.clone(), open: Box::new(open) };
    Ok(Arc::new(StreamingTable::try_new(schema, vec![Arc::new(rows)])?))
}

struct ForeignRows {
    schema: SchemaRef,
    open: Box<dyn Fn() -> ForeignBatchStream + Send + Sync>,
}

impl fmt::Debug for ForeignRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForeignRows").field("schema", &self.schema).finish_non_exhaustive()
    }
}

impl PartitionStream for ForeignRows {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let schema = self.schema.clone();
        let batches = (self.open)().map(move |batch| -> Result<RecordBatch, DataFusionError> {
            let batch = batch.map_err(DataFusionError::External)?;
            // Metadata of the source is not part of the table's type.
            let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
            Ok(RecordBatch::try_new_with_options(schema.clone(), batch.columns().to_vec(), &rows)?)
        });
        Box::pin(cooperative(RecordBatchStreamAdapter::new(self.schema.clone(), batches)))
    }
}
