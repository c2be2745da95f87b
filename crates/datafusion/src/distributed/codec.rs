//! Encodes the scans of tasks as bytes, within the plans that a coordinator sends.

use std::sync::Arc;

use datafusion::{
    common::Result,
    datasource::source::DataSourceExec,
    error::DataFusionError,
    execution::TaskContext,
    physical_expr::PhysicalExpr,
    physical_expr::utils::{collect_columns, reassign_expr_columns},
    physical_plan::ExecutionPlan,
};
use datafusion_proto::{
    physical_plan::{PhysicalExtensionCodec, PhysicalPlanDecodeContext, PhysicalProtoConverterExtension},
    protobuf::PhysicalExprNode,
};
use prost::Message;
use stylobate_columnar::ScanPart;

use super::task_scan::{ScanOpener, TaskScan, TaskScanSpec, part_schema};
use crate::{error::external, tables::source::ScanSource};

/// Maximum partitions of a scan that a worker accepts.
const MAX_PARTITIONS: u32 = 4_096;

/// The scan of a task on the wire.
#[derive(Clone, PartialEq, Message)]
struct TaskScanMessage {
    #[prost(string, repeated, tag = "1")]
    source_names: Vec<String>,
    /// A [`ScanPart`] as JSON.
    #[prost(bytes = "vec", tag = "2")]
    part: Vec<u8>,
    #[prost(uint32, repeated, tag = "3")]
    columns: Vec<u32>,
    #[prost(message, repeated, tag = "4")]
    filters: Vec<PhysicalExprNode>,
    #[prost(message, repeated, tag = "5")]
    moving: Vec<PhysicalExprNode>,
    #[prost(uint64, optional, tag = "6")]
    limit: Option<u64>,
    #[prost(uint32, tag = "7")]
    partitions: u32,
    #[prost(uint32, tag = "8")]
    batch_rows: u32,
    /// Position of the output column whose hash determines the partition of a row group, if any.
    #[prost(uint32, optional, tag = "9")]
    partition_column: Option<u32>,
}

/// Encodes scans of named sources, and decodes them on workers.
#[derive(Clone, Debug)]
pub(super) struct ScanCodec {
    /// `None` in a session that only plans.
    opener: Option<ScanOpener>,
}

impl ScanCodec {
    pub(super) fn for_coordinator() -> Self {
        Self { opener: None }
    }

    pub(super) fn for_worker(opener: ScanOpener) -> Self {
        Self { opener: Some(opener) }
    }

    fn encode_expr(
        &self,
        expr: &Arc<dyn PhysicalExpr>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<PhysicalExprNode> {
        converter.physical_expr_to_proto(expr, self)
    }

    /// Describes a scan by the columns that it needs of its table.
    fn message(
        &self,
        source: &ScanSource,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<TaskScanMessage> {
        let unnamed = || DataFusionError::Plan("a table that only this process can read".to_owned());
        let source_names = source.table.source_names().ok_or_else(unnamed)?.to_vec();

        let filters = source.filters.iter().map(|filter| &filter.expr);
        let mut needed = source.columns.clone();
        for expr in filters.clone().chain(&source.moving) {
            needed.extend(collect_columns(expr).into_iter().map(|column| column.index()));
        }
        needed.sort_unstable();
        needed.dedup();

        let without_rows = source.table.scan().with_row_groups([]);
        let table = without_rows.select(&needed, None, None).map_err(external)?;
        let part = source.scan.part_of(&table);
        let schema = part_schema(&part);
        let on_needed = |expr: &Arc<dyn PhysicalExpr>| {
            self.encode_expr(&reassign_expr_columns(expr.clone(), &schema)?, converter)
        };

        let filters = filters.map(on_needed).collect::<Result<_>>()?;
        let moving = source.moving.iter().map(on_needed).collect::<Result<_>>()?;
        let position = |column: &usize| needed.binary_search(column).map_err(|_| out_of_range("column"));
        let columns = source.columns.iter().map(position).collect::<Result<Vec<_>>>()?;
        Ok(TaskScanMessage {
            source_names,
            part: serde_json::to_vec(&part).map_err(|error| DataFusionError::External(Box::new(error)))?,
            columns: columns.into_iter().map(|column| column as u32).collect(),
            filters,
            moving,
            limit: source.limit.map(|limit| limit as u64),
            partitions: source.partitions as u32,
            batch_rows: source.batch_rows as u32,
            partition_column: source.partition_column_position().map(|position| position as u32),
        })
    }

    fn spec(
        &self,
        message: TaskScanMessage,
        context: &TaskContext,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<TaskScanSpec> {
        let part: ScanPart = serde_json::from_slice(&message.part)
            .map_err(|error| DataFusionError::Plan(format!("the part of a scan cannot be read: {error}")))?;
        let table = part_schema(&part);
        let columns: Vec<usize> = message.columns.iter().map(|column| *column as usize).collect();
        if columns.iter().any(|column| *column >= table.fields().len()) {
            return Err(out_of_range("column"));
        }
        let partition_column = message.partition_column.map(|position| position as usize);
        if partition_column.is_some_and(|position| position >= columns.len()) {
            return Err(out_of_range("column"));
        }
        if !(1..=MAX_PARTITIONS).contains(&message.partitions) {
            return Err(out_of_range("number of partitions"));
        }

        let decoding = PhysicalPlanDecodeContext::new(context, self);
        let decode = |node: &PhysicalExprNode| converter.proto_to_physical_expr(node, &table, &decoding);
        Ok(TaskScanSpec {
            source_names: message.source_names,
            columns,
            filters: message.filters.iter().map(decode).collect::<Result<_>>()?,
            moving: message.moving.iter().map(decode).collect::<Result<_>>()?,
            limit: message.limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX)),
            partitions: message.partitions as usize,
            batch_rows: message.batch_rows as usize,
            partition_column,
            table,
            part,
        })
    }
}

fn out_of_range(what: &str) -> DataFusionError {
    DataFusionError::Plan(format!("the scan of a task has a {what} out of range"))
}

impl PhysicalExtensionCodec for ScanCodec {
    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        buf: &mut Vec<u8>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        let leaf = node.downcast_ref::<DataSourceExec>();
        let Some(source) = leaf.and_then(|leaf| leaf.data_source().downcast_ref::<ScanSource>()) else {
            return Err(DataFusionError::NotImplemented(format!("{} cannot be sent to a node", node.name())));
        };
        let message = self.message(source, converter)?;
        message.encode(buf).map_err(|error| DataFusionError::External(Box::new(error)))
    }

    fn try_decode(
        &self,
        buf: &[u8],
        _inputs: &[Arc<dyn ExecutionPlan>],
        context: &TaskContext,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(opener) = &self.opener else {
            return Err(DataFusionError::NotImplemented("this session is no worker".to_owned()));
        };
        let message = TaskScanMessage::decode(buf)
            .map_err(|error| DataFusionError::Plan(format!("a scan of a plan cannot be read: {error}")))?;
        let spec = self.spec(message, context, converter)?;
        Ok(DataSourceExec::from_data_source(TaskScan::new(spec, opener.clone())?))
    }
}
