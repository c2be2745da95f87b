//! Runs statements in this process or on a node.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use anyhow::{Error, Result};
use arrow::{array::RecordBatch, datatypes::SchemaRef};
use futures::{Stream, StreamExt, TryStreamExt, stream::BoxStream};
use stylobate_datafusion::{SqlSession, SqlStatement, plain_batch, plain_schema};
use stylobate_server::SqlClient;

/// The executor of statements.
pub(super) enum StatementExecutor {
    /// A session in this process.
    Here(SqlSession),
    /// A node, through its Flight SQL door.
    Node(SqlClient),
}

/// The rows of a statement. Dropping them cancels the work.
pub(super) struct StatementRows {
    schema: SchemaRef,
    batches: BoxStream<'static, Result<RecordBatch>>,
    is_explanation: bool,
}

impl StatementExecutor {
    /// Starts a statement.
    ///
    /// # Errors
    ///
    /// If the statement is invalid, or the node refuses it.
    pub(super) async fn run(&self, statement: SqlStatement) -> Result<StatementRows> {
        match self {
            Self::Here(session) => {
                let rows = session.run_statement(statement).await?;
                let schema = rows.schema();
                let is_explanation = rows.is_explanation();
                Ok(StatementRows { schema, batches: rows.map_err(Error::new).boxed(), is_explanation })
            }
            Self::Node(client) => {
                let is_explanation = statement.is_explanation();
                let rows = client.run(&statement.to_string()).await?;
                let batches = rows.batches.map_err(Error::new).boxed();
                Ok(StatementRows { schema: rows.schema, batches, is_explanation })
            }
        }
    }

    /// Returns the known names of tables, columns and functions.
    pub(super) async fn known_words(&self) -> Vec<String> {
        match self {
            Self::Here(session) => {
                let mut words = session.table_names();
                for table in words.clone() {
                    words.extend(session.column_names(&table).await);
                }
                words.extend(session.function_names());
                words
            }
            // A failed completion must not end the prompt.
            Self::Node(client) => client.table_names().await.unwrap_or_default(),
        }
    }
}

impl StatementRows {
    /// Returns the schema of every batch; it has no columns if the statement returns no rows.
    pub(super) fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// Casts string and binary views: a file states the types of its columns, and few readers support views.
    pub(super) fn without_views(self) -> Self {
        let schema = plain_schema(&self.schema);
        let target = schema.clone();
        let batches = self.batches.map(move |batch| Ok(plain_batch(&batch?, &target)?));
        Self { schema, batches: batches.boxed(), is_explanation: self.is_explanation }
    }

    /// Returns true if the rows are plans in text form.
    pub(super) fn is_explanation(&self) -> bool {
        self.is_explanation
    }
}

impl Stream for StatementRows {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.batches.poll_next_unpin(context)
    }
}
