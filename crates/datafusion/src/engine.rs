//! Runs single queries for callers that open the tables themselves: one memory pool and one spill folder for all
//! queries, and a separate state for each.
//!
//! ```text
//! parse ── names of tables ── the caller opens them ── plan ── bind parameters ── run
//! ```
//!
//! A query reads only the tables that it was planned with: no path is opened here.

use std::{collections::BTreeMap, fmt, path::Path, sync::Arc};

use async_recursion::async_recursion as boxed;
use datafusion::{
    arrow::{
        array::RecordBatch,
        datatypes::{DataType, Schema, SchemaRef},
    },
    catalog::{
        CatalogProvider, CatalogProviderList, MemoryCatalogProvider, MemoryCatalogProviderList,
        MemorySchemaProvider, SchemaProvider, TableProvider,
    },
    common::{ParamValues, ScalarValue},
    datasource::empty::EmptyTable,
    error::DataFusionError,
    execution::{
        SendableRecordBatchStream,
        session_state::{SessionState, SessionStateBuilder},
    },
    logical_expr::LogicalPlan,
    physical_plan::execute_stream,
    prelude::SQLOptions,
    sql::{
        parser::{DFParserBuilder, Statement},
        sqlparser::{ast::Statement as SqlStatement, dialect::GenericDialect},
    },
};
use stylobate_columnar::Cache;

#[cfg(feature = "distributed")]
use crate::distributed::Distribution;
use crate::{
    aggregate::AggregateScans,
    error::{Error, Result, missing_table},
    memory::QueryMemory,
    placeholders::number_placeholders,
    query::SqlRows,
    runtime::SharedRuntime,
    tables::{held_batches::CompactHeldBatches, provider::ScanTable},
    yielding::YieldingPlanner,
};

/// The catalog of all tables.
const CATALOG: &str = "stylobate";
/// The schema of unqualified tables. No bucket can have this name.
const UNQUALIFIED: &str = "-";

/// Runs queries over tables opened by the caller. See the module's documentation.
pub struct SqlEngine {
    state: SessionState,
    runtime: Arc<SharedRuntime>,
    #[cfg(feature = "distributed")]
    distribution: Option<Distribution>,
}

/// Name of a table in a query.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TableName {
    /// The schema, before the last dot, if there is one.
    pub schema: Option<String>,
    /// The name itself, or a path written in quotes.
    pub table: String,
}

impl SqlEngine {
    /// The catalog that table names may begin with.
    pub const CATALOG: &'static str = CATALOG;

    /// Creates an engine whose queries take memory from this cache, run in `threads` partitions, and spill to a
    /// folder below `spill`, if given. That folder is removed with the engine and its queries.
    ///
    /// # Errors
    ///
    /// [`Error::Spill`] if no folder can be created there.
    pub fn create(cache: Cache, threads: usize, spill: Option<&Path>) -> Result<Self> {
        let runtime = SharedRuntime::create(&QueryMemory::over(cache), spill)?;
        let config = runtime
            .session_config(threads)
            .with_create_default_catalog_and_schema(false)
            .with_default_catalog_and_schema(CATALOG, UNQUALIFIED);
        let state = SessionStateBuilder::new()
            .with_config(config)
            .with_runtime_env(runtime.env.clone())
            .with_default_features()
            .with_query_planner(Arc::new(YieldingPlanner))
            .with_physical_optimizer_rule(Arc::new(AggregateScans))
            .with_physical_optimizer_rule(Arc::new(CompactHeldBatches))
            .build();
        Ok(Self {
            state,
            runtime: Arc::new(runtime),
            #[cfg(feature = "distributed")]
            distribution: None,
        })
    }

    /// Runs queries on the workers of a cluster if these can open the tables. Default: in this process.
    ///
    /// # Errors
    ///
    /// [`Error::Query`] if the engine rejects the session's options.
    #[cfg(feature = "distributed")]
    pub fn with_distribution(mut self, distribution: Distribution) -> Result<Self> {
        let builder = SessionStateBuilder::new_from_existing(self.state);
        self.state = distribution.prepare(builder)?.build();
        self.distribution = Some(distribution);
        Ok(self)
    }

    /// Returns the runtime environment (memory and spill folder) of its queries, to be shared with queries of other
    /// nodes.
    #[cfg(feature = "distributed")]
    pub fn runtime_env(&self) -> Arc<datafusion::execution::runtime_env::RuntimeEnv> {
        self.runtime.env.clone()
    }

    /// Parses a statement that returns rows: SELECT, EXPLAIN, SHOW or DESCRIBE. Parameters are `?`, or `$1`, `$2`, ….
    ///
    /// # Errors
    ///
    /// [`Error::Query`] if it is anything else.
    pub fn parse(&self, sql: &str) -> Result<ParsedQuery> {
        let sql = number_placeholders(sql)?;
        let parser = DFParserBuilder::new(sql.as_str()).with_dialect(&GenericDialect {}).build();
        let mut statements = parser.and_then(|mut parser| parser.parse_statements())?;
        let statement = match (statements.pop_front(), statements.pop_front()) {
            (Some(statement), None) => statement,
            (None, _) => return Err(query_error("there is no statement")),
            (Some(_), Some(_)) => {
                return Err(query_error("there are several statements: send one at a time"));
            }
        };
        if !is_query(&statement) {
            return Err(refused());
        }

        let mut tables = Vec::new();
        let mut lists_tables = false;
        for reference in self.state.resolve_table_references(&statement)? {
            match reference.schema() {
                Some("information_schema") => lists_tables = true,
                _ if reference.catalog().is_some_and(|catalog| catalog != CATALOG) => {}
                schema => {
                    let schema = schema.map(str::to_owned);
                    tables.push(TableName { schema, table: reference.table().to_owned() });
                }
            }
        }
        Ok(ParsedQuery {
            statement,
            tables,
            lists_tables,
            state: self.state.clone(),
            runtime: self.runtime.clone(),
            #[cfg(feature = "distributed")]
            distribution: self.distribution.clone(),
        })
    }
}

impl fmt::Debug for SqlEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqlEngine").finish_non_exhaustive()
    }
}

/// Returns whether a statement is read-only. Its plan is checked after planning.
fn is_query(statement: &Statement) -> bool {
    match statement {
        Statement::Statement(statement) => matches!(
            statement.as_ref(),
            SqlStatement::Query(_)
                | SqlStatement::Explain { .. }
                | SqlStatement::ExplainTable { .. }
                | SqlStatement::ShowColumns { .. }
                | SqlStatement::ShowFunctions { .. }
                | SqlStatement::ShowTables { .. }
                | SqlStatement::ShowVariable { .. }
        ),
        Statement::Explain(explained) => is_query(&explained.statement),
        Statement::CreateExternalTable(_) | Statement::CopyTo(_) | Statement::Reset(_) => false,
    }
}

fn query_error(reason: &str) -> Error {
    Error::Query { reason: reason.to_owned() }
}

fn refused() -> Error {
    query_error("only queries run here (SELECT, EXPLAIN, SHOW, DESCRIBE): nothing is written, created or set")
}

/// A query whose tables are not opened yet.
pub struct ParsedQuery {
    statement: Statement,
    tables: Vec<TableName>,
    lists_tables: bool,
    state: SessionState,
    runtime: Arc<SharedRuntime>,
    #[cfg(feature = "distributed")]
    distribution: Option<Distribution>,
}

impl ParsedQuery {
    /// Returns the names in the query that may be tables. Some may be functions instead.
    pub fn tables(&self) -> &[TableName] {
        &self.tables
    }

    /// Returns whether the query lists the existing tables, as SHOW TABLES does.
    pub fn lists_tables(&self) -> bool {
        self.lists_tables
    }

    /// Plans the query over opened tables. Names that are only `listed` are visible to SHOW TABLES.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchTable`] if a table is missing, [`Error::Query`] if the query is wrong or would write.
    #[tracing::instrument(name = "sql_prepare", level = "debug", skip_all)]
    #[boxed]
    pub async fn plan(
        self,
        opened: Vec<(TableName, ScanTable)>,
        listed: Vec<TableName>,
    ) -> Result<PlannedQuery> {
        let opened =
            opened.into_iter().map(|(name, table)| (name, Arc::new(table) as Arc<dyn TableProvider>));
        let empty = || Arc::new(EmptyTable::new(Arc::new(Schema::empty()))) as Arc<dyn TableProvider>;
        let listed = listed.into_iter().map(|name| (name, empty()));
        let catalogs = catalogs(listed.chain(opened))?;

        let mut state = self.state;
        state.register_catalog_list(catalogs);
        state.mark_start_execution();
        let plan = state.statement_to_plan(self.statement).await.map_err(explained)?;
        let only_queries =
            SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
        only_queries.verify_plan(&plan).map_err(|_| refused())?;

        Ok(PlannedQuery {
            plan,
            state,
            runtime: self.runtime,
            #[cfg(feature = "distributed")]
            distribution: self.distribution,
        })
    }
}

impl fmt::Debug for ParsedQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ParsedQuery").field("tables", &self.tables).finish_non_exhaustive()
    }
}

/// Creates a catalog of tables. Of two tables with the same name, the last one wins.
fn catalogs(
    tables: impl Iterator<Item = (TableName, Arc<dyn TableProvider>)>,
) -> Result<Arc<dyn CatalogProviderList>> {
    let mut schemas: BTreeMap<String, BTreeMap<String, Arc<dyn TableProvider>>> = BTreeMap::new();
    schemas.insert(UNQUALIFIED.to_owned(), BTreeMap::new());
    for (TableName { schema, table }, provider) in tables {
        let schema = schema.unwrap_or_else(|| UNQUALIFIED.to_owned());
        schemas.entry(schema).or_default().insert(table, provider);
    }

    let catalog = MemoryCatalogProvider::new();
    for (name, tables) in schemas {
        let schema = MemorySchemaProvider::new();
        for (table, provider) in tables {
            schema.register_table(table, provider)?;
        }
        catalog.register_schema(&name, Arc::new(schema))?;
    }
    let catalogs = MemoryCatalogProviderList::new();
    catalogs.register_catalog(CATALOG.to_owned(), Arc::new(catalog));
    Ok(Arc::new(catalogs))
}

/// Distinguishes missing tables from other errors.
fn explained(error: DataFusionError) -> Error {
    let error = Error::from(error);
    let Error::Query { reason } = &error else { return error };
    let Some(table) = missing_table(reason) else { return error };

    let table = table.strip_prefix("stylobate.").unwrap_or(table);
    let table = table.strip_prefix("-.").unwrap_or(table).to_owned();
    let hint = "name it schema.table, or files by a path in quotes".to_owned();
    Error::NoSuchTable { table, hint }
}

/// A query that can be run, once or several times.
#[derive(Clone)]
pub struct PlannedQuery {
    plan: LogicalPlan,
    state: SessionState,
    runtime: Arc<SharedRuntime>,
    #[cfg(feature = "distributed")]
    distribution: Option<Distribution>,
}

impl PlannedQuery {
    /// Returns the columns of the result. While parameters are unbound, types that depend on them are guesses.
    ///
    /// # Errors
    ///
    /// [`Error::Query`] if types do not match.
    pub fn schema(&self) -> Result<SchemaRef> {
        let analyzer = self.state.analyzer();
        let analyzed = analyzer.execute_and_check(self.plan.clone(), self.state.config_options(), |_, _| {});
        match analyzed {
            Ok(plan) => Ok(plan.schema().inner().clone()),
            Err(_) if self.has_parameters() => Ok(self.plan.schema().inner().clone()),
            Err(error) => Err(error.into()),
        }
    }

    fn has_parameters(&self) -> bool {
        self.plan.get_parameter_names().is_ok_and(|names| !names.is_empty())
    }

    /// Returns the type of each parameter, in order; `None` if the query does not determine it.
    ///
    /// # Errors
    ///
    /// [`Error::Query`] if parameters are not numbered from 1, or if one has several types.
    pub fn parameters(&self) -> Result<Vec<Option<DataType>>> {
        let types = self.plan.get_parameter_types()?;
        let mut parameters = vec![None; types.len()];
        let misnumbered = || query_error("write parameters as ?, or number them from $1 without a gap");
        for (name, data_type) in types {
            let number = name.get(1..).and_then(|number| number.parse::<usize>().ok());
            let index = number.and_then(|number| number.checked_sub(1)).ok_or_else(misnumbered)?;
            let parameter = parameters.get_mut(index).ok_or_else(misnumbered)?;
            *parameter = data_type;
        }
        Ok(parameters)
    }

    /// Binds the parameters to the values in one row of `values`, one column per parameter.
    ///
    /// # Errors
    ///
    /// [`Error::Query`] if the number of values differs from the number of parameters.
    pub fn bind(&self, values: &RecordBatch, row: usize) -> Result<Self> {
        let expected = self.parameters()?.len();
        let given = values.num_columns();
        if expected != given {
            let reason = format!("the query has {expected} parameters, and {given} were bound");
            return Err(Error::Query { reason });
        }

        // Do not cast to the required types: DataFusion compares numbers of different types without rounding.
        let bound = values.columns().iter().map(|column| ScalarValue::try_from_array(column, row));
        let bound = bound.collect::<Result<Vec<_>, _>>()?;
        let plan = self.plan.clone().replace_params_with_values(&ParamValues::from(bound))?;
        Ok(Self { plan, ..self.clone() })
    }

    /// Starts the query in tasks of the current runtime. They end when the rows are dropped.
    ///
    /// # Errors
    ///
    /// [`Error::Query`] if parameters are unbound, and all planning errors.
    #[boxed]
    pub async fn run(&self) -> Result<SqlRows> {
        if self.has_parameters() {
            return Err(query_error("the query has parameters: prepare it, and bind values to them"));
        }
        let is_explanation = matches!(self.plan, LogicalPlan::Explain(_) | LogicalPlan::Analyze(_));
        let rows = self.rows().await?;
        Ok(SqlRows::new(rows, is_explanation, self.runtime.clone()).in_task())
    }
}

impl PlannedQuery {
    async fn rows(&self) -> Result<SendableRecordBatchStream> {
        #[cfg(feature = "distributed")]
        if let Some(distribution) = &self.distribution {
            return Ok(distribution.run(self.state.clone(), self.plan.clone()).await?);
        }
        let plan = self.state.create_physical_plan(&self.plan).await?;
        Ok(execute_stream(plan, self.state.task_ctx())?)
    }
}

impl fmt::Debug for PlannedQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlannedQuery").field("plan", &self.plan).finish_non_exhaustive()
    }
}
