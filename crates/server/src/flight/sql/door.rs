//! The calls of Flight SQL: flights, statements, prepared statements and their parameters.

use std::{sync::Arc, time::SystemTime};

use arrow::datatypes::{Schema, SchemaRef};
use arrow_flight::{
    Action, FlightData, FlightDescriptor, FlightEndpoint, FlightInfo, IpcMessage, PutResult, SchemaAsIpc,
    Ticket,
    sql::{
        ActionClosePreparedStatementRequest, ActionCreatePreparedStatementRequest,
        ActionCreatePreparedStatementResult, Command, DoPutPreparedStatementResult, TicketStatementQuery,
    },
};
use bytes::Bytes;
use futures::{StreamExt, stream};
use prost::Message;
use tonic::{Code, Status, Streaming};

use super::{
    super::{
        call::{FlightRead, TicketBatches},
        encode::ipc_options,
        error::status,
        ticket::{TicketSigner, timestamp},
    },
    command::{command_in, packed, request},
    engine::{NodeQuery, QueryEngine, RunningQuery},
    metadata, parameters,
    statement::Statement,
};
use crate::Node;

const READ_ONLY: &str =
    "nothing is written by SQL: this node runs queries only; put files through the S3 door";
const NO_TRANSACTIONS: &str = "there are no transactions: each query reads what is there when it begins";

/// Flight SQL at the door of a node.
pub(in crate::flight) struct SqlDoor {
    node: Arc<Node>,
    tickets: Arc<TicketSigner>,
    engine: Arc<QueryEngine>,
}

impl SqlDoor {
    pub(in crate::flight) fn new(
        node: Arc<Node>,
        tickets: Arc<TicketSigner>,
        engine: Arc<QueryEngine>,
    ) -> Self {
        Self { node, tickets, engine }
    }

    /// Returns the schema and the ticket of a command.
    pub(in crate::flight) async fn flight_info(
        &self,
        caller: Option<&str>,
        command: Command,
        descriptor: FlightDescriptor,
    ) -> Result<FlightInfo, Status> {
        let schema = self.schema(caller, &command).await?;
        let expires = self.tickets.expiry(SystemTime::now());
        let (ticket, expiration_time) = match self.statement(caller, &command)? {
            Some(statement) => {
                let statement_handle = statement.seal(&self.tickets, caller, Some(expires))?;
                (packed(&TicketStatementQuery { statement_handle }).into(), Some(timestamp(expires)))
            }
            // The command itself contains all that is needed, so it serves as its own ticket.
            None => (descriptor.cmd.clone(), None),
        };

        let endpoint =
            FlightEndpoint { ticket: Some(Ticket { ticket }), expiration_time, ..FlightEndpoint::default() };
        let info = FlightInfo::new().with_descriptor(descriptor).with_endpoint(endpoint);
        info.try_with_schema(&schema).map_err(|_| unwritable())
    }

    /// Returns the schema of a command's rows.
    pub(in crate::flight) async fn schema(
        &self,
        caller: Option<&str>,
        command: &Command,
    ) -> Result<SchemaRef, Status> {
        if let Some(statement) = self.statement(caller, command)? {
            let query = self.engine.plan(caller, statement).await?;
            return Ok(query.schema().clone());
        }
        metadata::schema(command)?.ok_or_else(|| unknown(command))
    }

    /// Returns the statement of a command, if it is a query.
    fn statement(&self, caller: Option<&str>, command: &Command) -> Result<Option<Statement>, Status> {
        match command {
            Command::CommandStatementQuery(query) => {
                without_transaction(query.transaction_id.as_ref())?;
                Statement::new(query.query.clone()).map(Some)
            }
            Command::CommandPreparedStatementQuery(prepared) => {
                Statement::open(&self.tickets, &prepared.prepared_statement_handle, caller).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Returns the batches of a ticket.
    pub(in crate::flight) async fn batches(
        &self,
        caller: Option<&str>,
        command: Command,
    ) -> Result<TicketBatches, Status> {
        // Some clients redeem the handle of a prepared statement as a ticket.
        let sealed = match &command {
            Command::TicketStatementQuery(ticket) => &ticket.statement_handle,
            Command::CommandPreparedStatementQuery(prepared) => &prepared.prepared_statement_handle,
            _ => {
                let rows = metadata::rows(&self.node, caller, &command).await?;
                let rows = rows.ok_or_else(|| unknown(&command))?;
                let schema = rows.schema();
                return Ok(TicketBatches { schema, batches: stream::iter([Ok(rows)]).boxed(), read: None });
            }
        };

        let statement = Statement::open(&self.tickets, sealed, caller)?;
        let RunningQuery { schema, batches, running } = self.engine.begin(caller, statement).await?;
        Ok(TicketBatches { schema, batches, read: Some(FlightRead { object: None, running }) })
    }

    /// Performs an action, and returns the bodies of its results.
    pub(in crate::flight) async fn act(
        &self,
        caller: Option<&str>,
        action: &Action,
    ) -> Result<Vec<Bytes>, Status> {
        match action.r#type.as_str() {
            "CreatePreparedStatement" => {
                let prepare: ActionCreatePreparedStatementRequest = request(&action.body)?;
                without_transaction(prepare.transaction_id.as_ref())?;
                let statement = Statement::new(prepare.query)?;
                let handle = statement.seal(&self.tickets, caller, None)?;
                let query = self.engine.plan(caller, statement).await?;
                Ok(vec![packed(&prepared(handle, &query)?).into()])
            }
            "ClosePreparedStatement" => {
                let _: ActionClosePreparedStatementRequest = request(&action.body)?;
                Ok(Vec::new())
            }
            "CreatePreparedSubstraitPlan" => {
                Err(status(Code::Unimplemented, "plans of Substrait are not read here: send SQL"))
            }
            "CancelQuery" => {
                Err(status(Code::Unimplemented, "a query ends when the client stops reading its rows"))
            }
            _ => Err(status(Code::Unimplemented, NO_TRANSACTIONS)),
        }
    }

    /// Binds parameters to a prepared statement. Returns a new handle that contains them.
    pub(in crate::flight) async fn put(
        &self,
        caller: Option<&str>,
        mut messages: Streaming<FlightData>,
    ) -> Result<PutResult, Status> {
        let first = messages.message().await?.unwrap_or_default();
        let command = first.flight_descriptor.as_ref().map(|descriptor| command_in(&descriptor.cmd));
        match command.transpose()?.flatten() {
            Some(Command::CommandPreparedStatementQuery(prepared)) => {
                let statement = Statement::open(&self.tickets, &prepared.prepared_statement_handle, caller)?;
                let rows = stream::iter([Ok(first)]).chain(messages);
                let bound = Statement { parameters: parameters::received(rows).await?, ..statement };
                let handle = bound.seal(&self.tickets, caller, None)?;
                let result = DoPutPreparedStatementResult { prepared_statement_handle: Some(handle) };
                Ok(PutResult { app_metadata: result.encode_to_vec().into() })
            }
            Some(
                Command::CommandStatementUpdate(_)
                | Command::CommandPreparedStatementUpdate(_)
                | Command::CommandStatementIngest(_),
            ) => Err(status(Code::Unimplemented, READ_ONLY)),
            Some(other) => Err(unknown(&other)),
            None => {
                Err(status(Code::Unimplemented, "nothing is written here: put files through the S3 door"))
            }
        }
    }
}

/// Describes a prepared statement.
fn prepared(handle: Bytes, query: &NodeQuery) -> Result<ActionCreatePreparedStatementResult, Status> {
    let parameters = query.parameters()?;
    let has_parameters = !parameters.fields().is_empty();
    Ok(ActionCreatePreparedStatementResult {
        prepared_statement_handle: handle,
        dataset_schema: ipc(query.schema())?,
        parameter_schema: if has_parameters { ipc(&parameters)? } else { Bytes::new() },
    })
}

/// Writes a schema as an IPC message.
fn ipc(schema: &Schema) -> Result<Bytes, Status> {
    let message = IpcMessage::try_from(SchemaAsIpc::new(schema, &ipc_options()));
    message.map(|IpcMessage(bytes)| bytes).map_err(|_| unwritable())
}

fn unwritable() -> Status {
    status(Code::Internal, "the schema cannot be written")
}

fn without_transaction(id: Option<&Bytes>) -> Result<(), Status> {
    match id {
        Some(id) if !id.is_empty() => Err(status(Code::Unimplemented, NO_TRANSACTIONS)),
        _ => Ok(()),
    }
}

fn unknown(command: &Command) -> Status {
    let name = command.type_url().rsplit('.').next().unwrap_or_default();
    status(Code::Unimplemented, format!("{name} is not supported here"))
}
