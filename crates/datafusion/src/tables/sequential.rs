//! CSV, JSON and Arrow IPC files as tables: they are read from the start, in one partition.

use std::{fmt, sync::Arc};

use datafusion::{
    arrow::datatypes::{Schema, SchemaRef},
    catalog::{TableProvider, streaming::StreamingTable},
    execution::{SendableRecordBatchStream, TaskContext},
    physical_plan::{coop::cooperative, stream::RecordBatchStreamAdapter, streaming::PartitionStream},
};
use futures::StreamExt;
use stylobate_columnar::SequentialScan;

use crate::error::{Result, external};

/// Creates a table of the rows of a scan.
///
/// # Errors
///
/// Currently none.
pub fn sequential_table(scan: SequentialScan) -> Result<Arc<dyn TableProvider>> {
    let schema = Arc::new(Schema::new(scan.schema().fields().clone()));
    let rows = SequentialRows { scan, schema: schema.clone() };
    Ok(Arc::new(StreamingTable::try_new(schema, vec![Arc::new(rows)])?))
}

struct SequentialRows {
    scan: SequentialScan,
    schema: SchemaRef,
}

impl fmt::Debug for SequentialRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SequentialRows").field("schema", &self.schema).finish_non_exhaustive()
    }
}

impl PartitionStream for SequentialRows {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let batches = self.scan.stream().map(|batch| batch.map_err(external));
        Box::pin(cooperative(RecordBatchStreamAdapter::new(self.schema.clone(), batches)))
    }
}
