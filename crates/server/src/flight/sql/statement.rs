//! Statements in tickets and handles: the text of a query, and its parameter values if they are bound.
//!
//! Both are [sealed](crate::flight::ticket) for the access key that they were issued to. A ticket expires, a handle
//! does not. Access rights are checked each time a statement is planned.

use std::time::SystemTime;

use arrow::array::RecordBatch;
use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tonic::Status;

use super::{
    super::{
        error::invalid,
        ticket::{TicketSigner, check, milliseconds},
    },
    parameters,
};

/// Maximum bytes of a query's text.
const MAX_SQL_BYTES: usize = 1 << 20;

/// A query as a client sent it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Statement {
    pub(super) sql: String,
    /// Rows of parameter values; the query runs once for each.
    pub(super) parameters: Option<RecordBatch>,
}

/// Serialized content of a ticket or handle.
#[derive(Deserialize, Serialize)]
struct StatementContent {
    sql: String,
    /// An IPC stream in base64.
    parameters: Option<String>,
    /// The id of the access key that it was issued to, if the node has keys.
    owner: Option<String>,
    /// Milliseconds since 1970; absent in handles.
    expires: Option<u64>,
}

impl Statement {
    /// Creates a statement from the text of a query, without parameters.
    pub(super) fn new(sql: String) -> Result<Self, Status> {
        if sql.len() > MAX_SQL_BYTES {
            return Err(invalid(format!("query: longer than {MAX_SQL_BYTES} bytes")));
        }
        Ok(Self { sql, parameters: None })
    }

    /// Seals the statement for the caller, until `expires` or without expiry.
    pub(super) fn seal(
        &self,
        signer: &TicketSigner,
        caller: Option<&str>,
        expires: Option<SystemTime>,
    ) -> Result<Bytes, Status> {
        let parameters = match &self.parameters {
            Some(rows) => Some(BASE64_STANDARD.encode(parameters::written(rows)?)),
            None => None,
        };
        signer.seal_content(&StatementContent {
            sql: self.sql.clone(),
            parameters,
            owner: caller.map(str::to_owned),
            expires: expires.map(milliseconds),
        })
    }

    /// Opens a ticket or handle that was issued to the caller.
    pub(super) fn open(signer: &TicketSigner, sealed: &[u8], caller: Option<&str>) -> Result<Self, Status> {
        let content: StatementContent = signer.open_content(sealed)?;
        let expires = content.expires.unwrap_or(u64::MAX);
        check(content.owner.as_deref(), expires, caller, SystemTime::now())?;

        let unreadable = || invalid("ticket: of another version of this software: ask for the flight again");
        let parameters = match content.parameters {
            Some(text) => Some(parameters::read(&BASE64_STANDARD.decode(text).map_err(|_| unreadable())?)?),
            None => None,
        };
        Ok(Self { sql: content.sql, parameters })
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use arrow::array::{ArrayRef, Int64Array};
    use tonic::Code;

    use super::*;

    fn statement() -> Statement {
        let values: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None]));
        let parameters = RecordBatch::try_from_iter([("$1", values)]).unwrap();
        Statement { sql: "SELECT ?".to_owned(), parameters: Some(parameters) }
    }

    #[test]
    fn a_statement_is_opened_as_it_was_sealed_by_its_owner_only() {
        let signer = TicketSigner::new(None, Duration::from_secs(10));
        for expires in [None, Some(SystemTime::now() + Duration::from_secs(10))] {
            let sealed = statement().seal(&signer, Some("me"), expires).unwrap();
            assert_eq!(Statement::open(&signer, &sealed, Some("me")).unwrap(), statement());
            for other in [Some("you"), None] {
                let refused = Statement::open(&signer, &sealed, other).unwrap_err();
                assert_eq!(refused.code(), Code::PermissionDenied);
            }
        }

        let old = statement().seal(&signer, None, Some(SystemTime::UNIX_EPOCH)).unwrap();
        assert_eq!(Statement::open(&signer, &old, None).unwrap_err().code(), Code::PermissionDenied);
        let stranger = TicketSigner::new(None, Duration::from_secs(10));
        let foreign = statement().seal(&stranger, None, None).unwrap();
        assert_eq!(Statement::open(&signer, &foreign, None).unwrap_err().code(), Code::PermissionDenied);
        assert!(Statement::open(&signer, b"", None).is_err());
    }

    #[test]
    fn long_queries_are_refused() {
        assert!(Statement::new("x".repeat(MAX_SQL_BYTES)).is_ok());
        assert!(Statement::new("x".repeat(MAX_SQL_BYTES + 1)).is_err());
    }
}
