//! A SQL session: a catalog of tables and paths, a memory limit, and a spill folder.

use std::{collections::BTreeSet, fmt, path::PathBuf, sync::Arc};

use async_recursion::async_recursion as boxed;
use datafusion::{
    catalog::{DynamicFileCatalog, TableProvider},
    common::TableReference,
    error::DataFusionError,
    execution::SendableRecordBatchStream,
    logical_expr::{DdlStatement, LogicalPlan},
    prelude::{DataFrame, SQLOptions, SessionContext},
    sql::{
        parser::{DFParserBuilder, Statement},
        sqlparser::{ast::Statement as AstStatement, dialect::GenericDialect},
    },
};
use stylobate_columnar::Cache;
use stylobate_storage::nearest_name;

#[cfg(feature = "distributed")]
use crate::distributed::Distribution;
use crate::{
    aggregate::AggregateScans,
    catalog::{PathTables, is_path},
    column_names::without_paths,
    error::{Error, Result, missing_table},
    memory::QueryMemory,
    query::{SqlQuery, SqlRows},
    runtime::SharedRuntime,
    tables::{held_batches::CompactHeldBatches, provider::ScanTable},
    yielding::YieldingPlanner,
};

/// Builds a [`SqlSession`].
#[derive(Clone, Debug)]
pub struct SqlSessionBuilder {
    cache: Cache,
    memory: Option<QueryMemory>,
    threads: usize,
    options: Vec<(String, String)>,
    spill: PathBuf,
    #[cfg(feature = "distributed")]
    distribution: Option<Distribution>,
}

impl SqlSessionBuilder {
    /// Sets the query memory, to share it with other sessions. Default: new memory over the cache.
    pub fn with_memory(mut self, memory: QueryMemory) -> Self {
        self.memory = Some(memory);
        self
    }

    /// Sets the number of decoding threads and of partitions. Default: one per core.
    pub fn with_threads(mut self, threads: usize) -> Self {
        self.threads = threads.max(1);
        self
    }

    /// Sets options of the stores of paths, such as a region. Default: none.
    pub fn with_store_options(mut self, options: impl IntoIterator<Item = (String, String)>) -> Self {
        self.options = options.into_iter().collect();
        self
    }

    /// Sets the folder below which queries spill. Default: the system's temporary folder.
    pub fn with_spill_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.spill = folder.into();
        self
    }

    /// Runs queries on the workers of a cluster if these can open the tables by their paths. Default: in this
    /// process.
    #[cfg(feature = "distributed")]
    pub fn with_distribution(mut self, distribution: Distribution) -> Self {
        self.distribution = Some(distribution);
        self
    }

    /// Opens the session.
    ///
    /// # Errors
    ///
    /// [`Error::Spill`] if no spill folder can be created.
    pub fn build(self) -> Result<SqlSession> {
        let memory = self.memory.unwrap_or_else(|| QueryMemory::over(self.cache.clone()));
        let runtime = SharedRuntime::create(&memory, Some(&self.spill))?;
        let context =
            SessionContext::new_with_config_rt(runtime.session_config(self.threads), runtime.env.clone());
        let tables = Arc::new(PathTables::new(self.cache, self.threads, self.options));
        let catalogs = Arc::clone(context.state().catalog_list());
        let catalogs = Arc::new(DynamicFileCatalog::new(catalogs, tables.clone()));
        let builder = context
            .into_state_builder()
            .with_catalog_list(catalogs)
            .with_query_planner(Arc::new(YieldingPlanner))
            .with_physical_optimizer_rule(Arc::new(AggregateScans))
            .with_physical_optimizer_rule(Arc::new(CompactHeldBatches))
            .with_table_factory("PARQUET".to_owned(), tables.clone())
            .with_table_factory("ORC".to_owned(), tables.clone());
        #[cfg(feature = "distributed")]
        let builder = match &self.distribution {
            Some(distribution) => distribution.prepare(builder)?,
            None => builder,
        };
        Ok(SqlSession {
            context: builder.build().into(),
            tables,
            #[cfg(feature = "distributed")]
            distribution: self.distribution,
            runtime: Arc::new(runtime),
        })
    }
}

/// A SQL session over Parquet, ORC, CSV, JSON and Arrow IPC files. Tables are added by name, or named by path in
/// FROM: `FROM 's3://lake/lineitem/*.parquet'`. Queries reserve the memory of the cache, and spill to a folder that
/// is removed with the session and its queries.
pub struct SqlSession {
    context: SessionContext,
    tables: Arc<PathTables>,
    #[cfg(feature = "distributed")]
    distribution: Option<Distribution>,
    runtime: Arc<SharedRuntime>,
}

impl SqlSession {
    /// Returns a builder for a session whose scans read through this cache.
    pub fn builder(cache: Cache) -> SqlSessionBuilder {
        SqlSessionBuilder {
            cache,
            memory: None,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            options: Vec::new(),
            spill: std::env::temp_dir(),
            #[cfg(feature = "distributed")]
            distribution: None,
        }
    }

    /// Adds the files at a path, folder or pattern as a table, replacing a table with the same name.
    ///
    /// # Errors
    ///
    /// See [`ScanTable::open`].
    #[boxed]
    pub async fn add_table(&self, name: &str, path: &str) -> Result<()> {
        self.add_files(name, &[path.to_owned()]).await
    }

    /// Adds the files at several paths, folders or patterns as one table, replacing a table with the same name.
    ///
    /// # Errors
    ///
    /// See [`ScanTable::open`].
    #[boxed]
    pub async fn add_files(&self, name: &str, paths: &[String]) -> Result<()> {
        self.add_provider(name, self.tables.open(paths).await?)
    }

    /// Adds an opened table, replacing a table with the same name.
    ///
    /// # Errors
    ///
    /// [`Error::Query`] if the name is not a valid table name.
    pub fn add(&self, name: &str, table: ScanTable) -> Result<()> {
        self.add_provider(name, Arc::new(table))
    }

    /// Adds any DataFusion table, replacing a table with the same name.
    ///
    /// # Errors
    ///
    /// [`Error::Query`] if the name is not a valid table name.
    pub fn add_provider(&self, name: &str, table: Arc<dyn TableProvider>) -> Result<()> {
        let name = TableReference::bare(name);
        let _ = self.context.deregister_table(name.clone())?;
        self.context.register_table(name, table)?;
        Ok(())
    }

    /// Returns the sorted names of the tables that were added or created.
    pub fn table_names(&self) -> Vec<String> {
        let catalogs =
            self.context.catalog_names().into_iter().filter_map(|name| self.context.catalog(&name));
        let schemas = catalogs.flat_map(|catalog| {
            let names = catalog.schema_names().into_iter().filter(|name| name != "information_schema");
            names.filter_map(|name| catalog.schema(&name)).collect::<Vec<_>>()
        });
        let mut names: Vec<String> = schemas.flat_map(|schema| schema.table_names()).collect();
        names.sort();
        names
    }

    /// Returns the column names of a table that was added or created; empty if there is no such table.
    #[boxed]
    pub async fn column_names(&self, table: &str) -> Vec<String> {
        match self.context.table_provider(TableReference::bare(table)).await {
            Ok(table) => table.schema().fields().iter().map(|field| field.name().clone()).collect(),
            Err(_) => Vec::new(),
        }
    }

    /// Returns the sorted names of the functions.
    pub fn function_names(&self) -> Vec<String> {
        let state = self.context.state();
        let scalar = state.scalar_functions().keys();
        let names = scalar.chain(state.aggregate_functions().keys()).chain(state.window_functions().keys());
        let mut names: Vec<String> = names.cloned().collect();
        names.sort();
        names.dedup();
        names
    }

    /// Returns the DataFusion context, to add functions or other tables.
    pub fn context(&self) -> &SessionContext {
        &self.context
    }

    /// Parses statements separated by semicolons.
    ///
    /// # Errors
    ///
    /// [`Error::Query`] if the text is not SQL.
    pub fn parse(&self, sql: &str) -> Result<Vec<SqlStatement>> {
        SqlStatement::parse(sql)
    }

    /// Runs one statement, given as text. See [`Self::run_statement`].
    ///
    /// # Errors
    ///
    /// See [`Self::parse`] and [`Self::run_statement`].
    #[boxed]
    pub async fn run(&self, sql: &str) -> Result<SqlRows> {
        self.run_statement(self.parse_one(sql)?).await
    }

    fn parse_one(&self, sql: &str) -> Result<SqlStatement> {
        let mut statements = self.parse(sql)?.into_iter();
        match (statements.next(), statements.next()) {
            (Some(statement), None) => Ok(statement),
            (None, _) => Err(Error::Query { reason: "there is no statement".to_owned() }),
            (Some(_), Some(_)) => {
                Err(Error::Query { reason: "there are several statements: run one at a time".to_owned() })
            }
        }
    }

    /// Plans a query given as text, to be run any number of times: SELECT, VALUES, EXPLAIN, DESCRIBE or SHOW.
    ///
    /// # Errors
    ///
    /// See [`Self::run`]; also [`Error::Query`] for statements that return no rows.
    #[tracing::instrument(name = "sql_prepare", level = "debug", skip_all)]
    #[boxed]
    pub async fn prepare(&self, sql: &str) -> Result<SqlQuery> {
        let statement = self.parse_one(sql)?;
        let planned = async {
            let plan = self.plan(statement).await?;
            let only_queries = SQLOptions::new().with_allow_ddl(false).with_allow_statements(false);
            only_queries.with_allow_dml(false).verify_plan(&plan)?;
            SqlQuery::plan(self.context.clone(), plan, self.runtime.clone()).await
        };
        planned.await.map_err(|error: DataFusionError| self.explained(error.into()))
    }

    /// Plans a statement and starts it: a query, EXPLAIN, DESCRIBE, SHOW, SET, or CREATE of a view or a table. Rows
    /// are computed once the stream is polled.
    ///
    /// # Errors
    ///
    /// [`Error::Query`] or [`Error::NoSuchTable`] if the statement is invalid, [`Error::Scan`] if files cannot be
    /// opened.
    #[tracing::instrument(name = "sql_run", level = "debug", skip_all)]
    #[boxed]
    pub async fn run_statement(&self, statement: SqlStatement) -> Result<SqlRows> {
        self.start(statement).await.map_err(|error| self.explained(error.into()))
    }

    async fn start(&self, statement: SqlStatement) -> Result<SqlRows, DataFusionError> {
        let plan = self.plan(statement).await?;
        SQLOptions::new().with_allow_dml(false).verify_plan(&plan)?;
        let plan = with_explained_query(plan)?;
        let is_explanation = matches!(plan, LogicalPlan::Explain(_) | LogicalPlan::Analyze(_));
        let planned = self.context.execute_logical_plan(plan).await?;
        Ok(SqlRows::new(self.rows(planned).await?, is_explanation, self.runtime.clone()))
    }

    /// Plans a statement. The paths in it are opened concurrently, since the planner would open one table after
    /// another.
    async fn plan(&self, statement: SqlStatement) -> Result<LogicalPlan, DataFusionError> {
        let state = self.context.state();
        let references = state.resolve_table_references(&statement.statement)?;
        let paths = references.iter().filter_map(|reference| match reference {
            TableReference::Bare { table } if is_path(table) => {
                let is_table = self.context.table_exist(reference.clone()).unwrap_or(false);
                (!is_table).then(|| table.to_string())
            }
            _ => None,
        });
        let paths: BTreeSet<String> = paths.collect();
        let sql = if paths.is_empty() { String::new() } else { statement.to_string() };
        let plan = state.statement_to_plan(statement.statement);
        let plan = if paths.len() < 2 {
            plan.await?
        } else {
            self.tables.opened_together(paths.clone(), plan).await?
        };
        without_paths(plan, &paths, &sql)
    }

    async fn rows(&self, planned: DataFrame) -> Result<SendableRecordBatchStream, DataFusionError> {
        #[cfg(feature = "distributed")]
        if let Some(distribution) = &self.distribution {
            let (state, plan) = planned.into_parts();
            return distribution.run(state, plan).await;
        }
        planned.execute_stream().await
    }

    /// Adds a remedy to an error, in place of DataFusion's names of statements.
    fn explained(&self, error: Error) -> Error {
        let reason = match &error {
            Error::Query { reason } => reason,
            // The statement does not fit, rather than a value of the data.
            Error::Value { reason } if reason.starts_with("Prepared statement '") => {
                return Error::Query { reason: reason.clone() };
            }
            _ => return error,
        };
        if let Some(table) = missing_table(reason) {
            return self.no_such_table(table);
        }
        if reason.starts_with("DML not supported") {
            let reason = "statements that write are not supported: write the rows of a query instead";
            return Error::Query { reason: reason.to_owned() };
        }
        if reason == "Statement not supported: Execute" {
            let reason = "EXECUTE is not supported here: give the prepared query itself";
            return Error::Query { reason: reason.to_owned() };
        }
        if reason.starts_with("Unsupported logical plan: ") {
            return Error::Query { reason: "the statement is not supported: give a query".to_owned() };
        }
        if reason.starts_with("DDL not supported") || reason.starts_with("Statement not supported") {
            return Error::Query { reason: "the statement returns no rows: give a query".to_owned() };
        }
        error
    }

    fn no_such_table(&self, table: &str) -> Error {
        let table = table.strip_prefix("datafusion.").unwrap_or(table);
        let table = table.strip_prefix("public.").unwrap_or(table).to_owned();
        let names = self.table_names();
        let hint = match nearest_name(&table, names.iter().map(String::as_str)) {
            Some(name) if name.to_lowercase() == table => {
                format!("write its name in double quotes: \"{name}\"")
            }
            Some(name) => format!("did you mean {name}?"),
            None if crate::catalog::is_path(&table) => format!("write a path in quotes: FROM '{table}'"),
            None if names.is_empty() => {
                "add one, or name files by a path in quotes: FROM 'folder/*.parquet'".to_owned()
            }
            None => format!("available tables: {}", names.join(", ")),
        };
        Error::NoSuchTable { table, hint }
    }
}

/// Fails if a statement is to be explained that has no physical plan: in place of one, DataFusion shows an error.
/// EXPLAIN of CREATE TABLE AS or CREATE VIEW becomes that of its query; EXPLAIN ANALYZE cannot run them.
fn with_explained_query(mut plan: LogicalPlan) -> Result<LogicalPlan, DataFusionError> {
    let is_refused = match &mut plan {
        LogicalPlan::Explain(explain) => {
            let query = match explain.plan.as_ref() {
                LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(table)) => table.input.clone(),
                LogicalPlan::Ddl(DdlStatement::CreateView(view)) => view.input.clone(),
                _ => explain.plan.clone(),
            };
            explain.plan = query;
            matches!(*explain.plan, LogicalPlan::Statement(_) | LogicalPlan::Ddl(_))
        }
        LogicalPlan::Analyze(analyze) => {
            matches!(*analyze.input, LogicalPlan::Statement(_) | LogicalPlan::Ddl(_))
        }
        _ => false,
    };

    if is_refused {
        return Err(DataFusionError::Plan("EXPLAIN takes a query, and no other statement".to_owned()));
    }
    Ok(plan)
}

impl fmt::Debug for SqlSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqlSession").field("tables", &self.table_names()).finish_non_exhaustive()
    }
}

/// A parsed statement.
#[derive(Clone, Debug)]
pub struct SqlStatement {
    statement: Statement,
    /// The original text, if it was a single statement.
    text: Option<String>,
}

impl SqlStatement {
    /// Parses statements separated by semicolons.
    ///
    /// # Errors
    ///
    /// [`Error::Query`] if the text is not SQL.
    pub fn parse(sql: &str) -> Result<Vec<Self>> {
        let parser = DFParserBuilder::new(sql).with_dialect(&GenericDialect {}).build();
        let statements = parser.and_then(|mut parser| parser.parse_statements()).map_err(Error::from)?;
        let text = (statements.len() == 1).then(|| sql.trim().trim_end_matches(';').to_owned());
        Ok(statements.into_iter().map(|statement| Self { statement, text: text.clone() }).collect())
    }

    /// Returns whether the rows are plans as text.
    pub fn is_explanation(&self) -> bool {
        match &self.statement {
            Statement::Explain(_) => true,
            Statement::Statement(statement) => matches!(statement.as_ref(), AstStatement::Explain { .. }),
            Statement::CreateExternalTable(_) | Statement::CopyTo(_) | Statement::Reset(_) => false,
        }
    }
}

impl fmt::Display for SqlStatement {
    /// Writes the statement as SQL.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.text {
            Some(text) => f.write_str(text),
            None => write!(f, "{}", self.statement),
        }
    }
}
