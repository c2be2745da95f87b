//! Runs queries for the status page and returns their first rows as text, with the size limits of [file
//! previews](super::browse).

use std::time::Instant;

use arrow::error::ArrowError;
use axum::http::StatusCode;
use futures::TryStreamExt;
use serde::{Deserialize, Serialize};
use tonic::{Code, Status};

use super::browse::{DEFAULT_ROWS, MAX_COLUMNS, MAX_ROWS, RowsColumn, append_rows};
use crate::flight::{QueryEngine, RunningQuery, unless_cancelled};

/// Body of `POST /api/sql`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SqlQueryRequest {
    sql: String,
    /// Maximum rows to return.
    limit: Option<u64>,
}

/// The first rows of a query, as text.
#[derive(Debug, Serialize)]
pub(super) struct SqlReport {
    columns: Vec<RowsColumn>,
    columns_total: usize,
    /// Text of each column of each row; `None` for a null.
    rows: Vec<Vec<Option<String>>>,
    /// True if the query has more rows.
    more: bool,
    elapsed_ms: f64,
}

/// Runs a query for the caller until the limit of rows is reached.
pub(super) async fn first_rows(
    engine: &QueryEngine,
    caller: Option<&str>,
    query: SqlQueryRequest,
) -> Result<SqlReport, Status> {
    let limit = query.limit.unwrap_or(DEFAULT_ROWS);
    if !(1..=MAX_ROWS).contains(&limit) {
        return Err(Status::invalid_argument(format!("limit: must be 1 to {MAX_ROWS}")));
    }
    let limit = limit as usize;

    let started = Instant::now();
    let RunningQuery { schema, mut batches, running } = engine.query(caller, query.sql).await?;
    let columns_total = schema.fields().len();
    let columns = schema.fields().iter().take(MAX_COLUMNS).map(|field| RowsColumn::of(field)).collect();
    let shown: Vec<usize> = (0..columns_total.min(MAX_COLUMNS)).collect();
    let read = async {
        let unshown = |error: ArrowError| Status::internal(format!("the rows cannot be shown: {error}"));
        let mut rows = Vec::new();
        while let Some(batch) = batches.try_next().await? {
            let found = batch.num_rows();
            let taken = found.min(limit - rows.len());
            let first = batch.slice(0, taken).project(&shown).map_err(unshown)?;
            append_rows(&first, &mut rows).map_err(unshown)?;
            running.sent(taken as u64, 0);
            // One row beyond the limit shows that there are more.
            if taken < found {
                return Ok((rows, true));
            }
        }
        Ok::<_, Status>((rows, false))
    };
    let (rows, more) = unless_cancelled(&running, read).await?;

    let elapsed_ms = started.elapsed().as_secs_f64() * 1_000.0;
    Ok(SqlReport { columns, columns_total, rows, more, elapsed_ms })
}

/// Maps a gRPC status code to an HTTP status.
pub(super) fn http_status(code: Code) -> StatusCode {
    match code {
        Code::InvalidArgument => StatusCode::BAD_REQUEST,
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::Aborted | Code::Cancelled => StatusCode::CONFLICT,
        Code::DataLoss | Code::FailedPrecondition => StatusCode::UNPROCESSABLE_ENTITY,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
