//! Runs the queries of a node: takes text and caller, and returns columns and a stream of batches.
//!
//! All queries, including those of the status page, share one memory pool within the budget of the node's cache, and
//! one spill folder below the system's temporary folder (`TMPDIR`). Both are created by the first query.

use std::{num::NonZero, path::Path, sync::Arc, thread::available_parallelism};

use arrow::{
    array::RecordBatch,
    datatypes::{DataType, Field, Schema, SchemaRef},
};
use futures::{
    StreamExt, TryStreamExt,
    future::join_all,
    stream::{self, BoxStream},
};
use parking_lot::Mutex;
#[cfg(feature = "distributed")]
use stylobate_datafusion::distributed::{QueryWorker, QueryWorkerBuilder};
use stylobate_datafusion::{Error, PlannedQuery, SqlEngine, plain_batch, plain_type};
use tokio::sync::Semaphore;
use tonic::{Code, Status};

use super::{
    super::error::{BucketNaming, invalid, status},
    error::from_query,
    results::{sent_schema, with_text},
    statement::Statement,
    tables,
};
#[cfg(feature = "distributed")]
use super::{cluster::distribution, tables::BucketSources};
use crate::{
    Node,
    running_reads::{NewRead, RunningReadGuard},
};

/// Maximum concurrent queries: each needs a share of the memory that it can work with.
const MAX_QUERIES: usize = 64;
/// Tables of a query that are opened concurrently.
const CONCURRENT_TABLES: usize = 8;

/// Plans and runs the queries of all callers of a node, from any door. Cheap to create.
pub(crate) struct QueryEngine {
    node: Arc<Node>,
    engine: Mutex<Option<StartedEngine>>,
    running: Arc<Semaphore>,
}

/// The engine, and the worker that runs tasks of other nodes' queries within the same memory.
#[derive(Clone)]
struct StartedEngine {
    engine: Arc<SqlEngine>,
    /// `None` if the node is in no cluster.
    #[cfg(feature = "distributed")]
    worker: Option<QueryWorker>,
}

impl QueryEngine {
    pub(crate) fn new(node: Arc<Node>) -> Self {
        let running = Arc::new(Semaphore::new(MAX_QUERIES));
        Self { node, engine: Mutex::default(), running }
    }

    /// Returns the engine, creating it for the first query.
    fn engine(&self) -> Result<Arc<SqlEngine>, Status> {
        Ok(self.started()?.engine)
    }

    /// Returns the worker that runs tasks of queries that other nodes planned.
    #[cfg(feature = "distributed")]
    pub(super) fn worker(&self) -> Result<QueryWorker, Status> {
        let alone = || status(Code::Unimplemented, "this node is in no cluster");
        self.started()?.worker.ok_or_else(alone)
    }

    fn started(&self) -> Result<StartedEngine, Status> {
        let mut started = self.engine.lock();
        if let Some(started) = started.as_ref() {
            return Ok(started.clone());
        }

        let created = self.start().map_err(|error| {
            tracing::error!(%error, "no query can run");
            status(Code::Internal, "the node cannot run queries: its log has the reason")
        })?;
        *started = Some(created.clone());
        Ok(created)
    }

    fn start(&self) -> Result<StartedEngine, Error> {
        let threads = available_parallelism().map_or(1, NonZero::get);
        let create = |spill: Option<&Path>| SqlEngine::create(self.node.columns().clone(), threads, spill);
        let engine = create(Some(&std::env::temp_dir())).or_else(|error| {
            tracing::warn!(%error, "queries that do not fit into memory will fail: set TMPDIR to a folder for them");
            create(None)
        })?;

        #[cfg(feature = "distributed")]
        if let Some(cluster) = self.node.cluster() {
            let distribution = distribution(cluster);
            let sources = Arc::new(BucketSources(self.node.clone()));
            let columns = self.node.columns().clone();
            let worker = QueryWorkerBuilder::new(engine.runtime_env(), columns, sources, &distribution);
            let worker = Some(worker.with_threads(threads).build());
            let engine = Arc::new(engine.with_distribution(distribution)?);
            return Ok(StartedEngine { engine, worker });
        }
        Ok(StartedEngine {
            engine: Arc::new(engine),
            #[cfg(feature = "distributed")]
            worker: None,
        })
    }

    /// Plans a statement over the tables that the caller may read, and binds its parameters if values are given.
    pub(super) async fn plan(&self, caller: Option<&str>, statement: Statement) -> Result<NodeQuery, Status> {
        let names = BucketNaming::of_all(tables::readable(&self.node, caller));
        let query = self.planned(caller, &statement.sql, &names).await?;
        let values = statement.parameters;
        let first = match &values {
            Some(values) => query.bind(values, 0),
            None => Ok(query.clone()),
        };
        let first = first.map_err(|error| from_query(&error, &names))?;
        let schema = first.schema().map_err(|error| from_query(&error, &names))?;
        let schema = sent_schema(&schema);
        Ok(NodeQuery { query, values, first, schema, names })
    }

    async fn planned(
        &self,
        caller: Option<&str>,
        sql: &str,
        names: &BucketNaming,
    ) -> Result<PlannedQuery, Status> {
        let node = self.node.as_ref();
        let query = self.engine()?.parse(sql).map_err(|error| from_query(&error, names))?;

        let mut opened = Vec::new();
        let mut missing = Vec::new();
        let mut refused = None;
        for some in query.tables().chunks(CONCURRENT_TABLES) {
            let found = join_all(some.iter().map(|name| tables::find(node, caller, name))).await;
            for (name, found) in some.iter().zip(found) {
                match found {
                    Ok(Some(table)) => opened.push((name.clone(), table)),
                    Ok(None) => missing.push(name.clone()),
                    // Not an error of the query if the name turns out to be that of a function.
                    Err(error) => {
                        refused.get_or_insert(error);
                    }
                }
            }
        }

        let listed = if query.lists_tables() { tables::all(node, caller).await? } else { Vec::new() };
        match query.plan(opened, listed).await {
            Ok(query) => Ok(query),
            Err(Error::NoSuchTable { table, hint }) => {
                if let Some(refused) = refused {
                    return Err(refused);
                }
                let hint = match missing.iter().find(|name| table.ends_with(&name.table)) {
                    Some(name) => tables::hint(node, caller, name).await,
                    None => hint,
                };
                Err(from_query(&Error::NoSuchTable { table, hint }, names))
            }
            Err(error) => Err(from_query(&error, names)),
        }
    }

    /// Plans a query and starts it. Dropping the rows cancels it.
    pub(crate) async fn query(&self, caller: Option<&str>, sql: String) -> Result<RunningQuery, Status> {
        self.begin(caller, Statement::new(sql)?).await
    }

    /// Plans a statement and starts it. Dropping the rows cancels it.
    pub(super) async fn begin(
        &self,
        caller: Option<&str>,
        statement: Statement,
    ) -> Result<RunningQuery, Status> {
        let running = self.node.running_reads().begin(NewRead {
            kind: "query",
            text: statement.sql.clone(),
            access_key: caller.map(str::to_owned),
            total_rows: None,
        });
        let (schema, batches) = unless_cancelled(&running, async {
            let query = self.plan(caller, statement).await?;
            let schema = query.schema().clone();
            let batches = self.run(query).await?;
            Ok((schema, batches))
        })
        .await?;
        Ok(RunningQuery { schema, batches, running })
    }

    /// Runs a query once, or once per row of parameter values, one after another. Dropping the stream cancels it.
    async fn run(&self, query: NodeQuery) -> Result<BoxStream<'static, Result<RecordBatch, Status>>, Status> {
        let too_many = |_| {
            let reason = format!("{MAX_QUERIES} queries are running: try again when one has ended");
            status(Code::ResourceExhausted, reason)
        };
        let permit = Arc::clone(&self.running).try_acquire_owned().map_err(too_many)?;

        // The first run starts now, so that most errors are returned by the call itself.
        let NodeQuery { query, values, first, schema, names } = query;
        let first = first.run().await.map_err(|error| from_query(&error, &names))?;
        let is_explanation = first.is_explanation();
        let more = values.as_ref().map_or(0..0, |values| 1..values.num_rows());
        let more = stream::iter(more).then(move |row| {
            let bound = match &values {
                Some(values) => query.bind(values, row),
                None => Ok(query.clone()),
            };
            async move { bound?.run().await }
        });

        let batches = stream::iter([Ok(first)]).chain(more).try_flatten().map(move |batch| {
            let _running = &permit;
            let batch = batch.map_err(|error| from_query(&error, &names))?;
            let sent = plain_batch(&batch, &schema);
            let sent = if is_explanation {
                sent.and_then(|batch| with_text(&batch, |text| names.in_text(text)))
            } else {
                sent
            };
            sent.map_err(|error| invalid(format!("a result cannot be sent: {error}")))
        });
        Ok(batches.boxed())
    }
}

/// A query that is sending rows.
pub(crate) struct RunningQuery {
    /// The columns of the batches.
    pub(crate) schema: SchemaRef,
    pub(crate) batches: BoxStream<'static, Result<RecordBatch, Status>>,
    /// Its entry among the running reads.
    pub(crate) running: RunningReadGuard,
}

/// Waits for a result, or until the read is cancelled at the admin door.
pub(crate) async fn unless_cancelled<T>(
    running: &RunningReadGuard,
    answer: impl Future<Output = Result<T, Status>>,
) -> Result<T, Status> {
    tokio::select! {
        answer = answer => answer,
        () = running.cancelled() => {
            Err(status(Code::Cancelled, "the query was cancelled at the admin door"))
        }
    }
}

/// A query of a caller, planned over the files of buckets.
pub(super) struct NodeQuery {
    query: PlannedQuery,
    /// Rows of parameter values.
    values: Option<RecordBatch>,
    /// The query, bound to the first row of parameter values if there are any.
    first: PlannedQuery,
    schema: SchemaRef,
    names: BucketNaming,
}

impl NodeQuery {
    /// Returns the schema of the batches.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns a column for each parameter, named `$1`, `$2` and so on. A parameter of any type is reported as a
    /// string.
    pub(super) fn parameters(&self) -> Result<Schema, Status> {
        let types = self.query.parameters().map_err(|error| from_query(&error, &self.names))?;
        let fields = types.iter().enumerate().map(|(at, data_type)| {
            let data_type = data_type.as_ref().map_or(DataType::Utf8, plain_type);
            Field::new(format!("${}", at + 1), data_type, true)
        });
        Ok(Schema::new(fields.collect::<Vec<_>>()))
    }
}
