//! A client of a node's Flight SQL door: runs statements, and streams their rows.

use std::{error::Error as StdError, fmt, sync::Arc, time::Duration};

use arrow::{
    array::{AsArray, RecordBatch},
    datatypes::SchemaRef,
    error::ArrowError,
};
use arrow_flight::{
    FlightInfo,
    error::FlightError,
    flight_service_client::FlightServiceClient,
    sql::{CommandGetTables, client::FlightSqlServiceClient},
};
use async_recursion::async_recursion as boxed;
use futures::{
    StreamExt, TryStreamExt,
    stream::{self, BoxStream},
};
use tonic::{
    Code,
    transport::{Channel, Endpoint},
};
use url::Url;

use crate::https::http2_connector;

/// Timeout for connecting to a node.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Idle time after which the node is pinged, and timeout of the ping.
const PING_INTERVAL: Duration = Duration::from_secs(20);
/// Flow-control window of a stream, in bytes.
const STREAM_WINDOW: u32 = 4 << 20;
/// Maximum bytes of a message. Large, since a batch of rows may be.
const MAX_MESSAGE_BYTES: usize = 1 << 30;

/// Error of a statement that runs on a node.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SqlClientError {
    /// The URL is not that of a Flight door. Correct it.
    #[error("the node {url}: {reason}: write grpc://HOST:PORT, or grpc+tls://HOST:PORT")]
    Url {
        /// The URL.
        url: String,
        /// The problem with it.
        reason: String,
    },

    /// The node does not answer. Try again, or correct the address.
    #[error("the node {node} does not answer: {reason}")]
    Unreachable {
        /// The node's URL.
        node: String,
        /// The cause.
        reason: String,
    },

    /// The token does not grant access. Give another one.
    #[error("the node {node} refuses: {reason}")]
    Refused {
        /// The node's URL.
        node: String,
        /// The cause.
        reason: String,
    },

    /// The statement is invalid. Correct it.
    #[error("{reason}")]
    Statement {
        /// The cause.
        reason: String,
    },

    /// The statement failed.
    #[error("{reason}")]
    Failed {
        /// The cause.
        reason: String,
    },
}

/// The result of a statement at a node.
type Result<T, E = SqlClientError> = std::result::Result<T, E>;

/// A connection to the Flight SQL door of a node. Cheap to clone.
#[derive(Clone)]
pub struct SqlClient {
    channel: Channel,
    node: String,
    token: Option<String>,
}

/// The rows of a statement. Dropping the stream cancels the work at the node.
pub struct SqlClientRows {
    /// The columns.
    pub schema: SchemaRef,
    /// The rows.
    pub batches: BoxStream<'static, Result<RecordBatch>>,
}

impl SqlClient {
    /// Connects to the node at `grpc://HOST:PORT` or `grpc+tls://HOST:PORT`, with the token of an access key if the
    /// node has keys. With TLS, the node's certificate must be issued by an authority that the system trusts.
    ///
    /// # Errors
    ///
    /// [`SqlClientError::Url`] and [`SqlClientError::Unreachable`].
    #[boxed]
    pub async fn connect(url: &str, token: Option<&str>) -> Result<Self> {
        let endpoint = endpoint(url).map_err(|reason| SqlClientError::Url { url: url.to_owned(), reason })?;
        let connected = endpoint.connect_with_connector(http2_connector(None)).await;
        let unreachable =
            |error| SqlClientError::Unreachable { node: url.to_owned(), reason: root_cause(&error) };
        let channel = connected.map_err(unreachable)?;
        Ok(Self { channel, node: url.to_owned(), token: token.map(str::to_owned) })
    }

    /// Runs a statement that returns rows.
    ///
    /// # Errors
    ///
    /// [`SqlClientError::Refused`], [`SqlClientError::Statement`], [`SqlClientError::Failed`] and
    /// [`SqlClientError::Unreachable`], also from the stream.
    #[boxed]
    pub async fn run(&self, sql: &str) -> Result<SqlClientRows> {
        let mut client = self.client();
        let flight = client.execute(sql.to_owned(), None).await.map_err(|error| self.failed(error))?;
        self.rows(client, flight).await
    }

    /// Returns the names of the tables that the token grants access to, in the form `schema.table`, as used in a
    /// query.
    ///
    /// Fails as [`Self::run`] does.
    #[boxed]
    pub async fn table_names(&self) -> Result<Vec<String>> {
        let mut client = self.client();
        let flight = client.get_tables(CommandGetTables::default()).await;
        let flight = flight.map_err(|error| self.failed(error))?;
        let batches: Vec<_> = self.rows(client, flight).await?.batches.try_collect().await?;

        let mut names = Vec::new();
        for batch in batches {
            let text = |name| batch.column_by_name(name).and_then(|column| column.as_string_opt::<i32>());
            let (Some(schemas), Some(tables)) = (text("db_schema_name"), text("table_name")) else {
                continue;
            };
            let pairs = schemas.iter().zip(tables);
            names.extend(pairs.filter_map(|(schema, table)| Some(format!("{}.{}", schema?, table?))));
        }
        names.sort();
        Ok(names)
    }

    fn client(&self) -> FlightSqlServiceClient<Channel> {
        let inner =
            FlightServiceClient::new(self.channel.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES);
        let mut client = FlightSqlServiceClient::new_from_inner(inner);
        if let Some(token) = &self.token {
            client.set_token(token.clone());
        }
        client
    }

    /// Redeems the tickets of a flight, one after another.
    async fn rows(
        &self,
        mut client: FlightSqlServiceClient<Channel>,
        flight: FlightInfo,
    ) -> Result<SqlClientRows> {
        let tickets = flight.endpoint.iter().filter_map(|endpoint| endpoint.ticket.clone());
        let tickets: Vec<_> = tickets.collect();
        let unreadable = |error: ArrowError| SqlClientError::Failed { reason: error.to_string() };
        let schema = Arc::new(flight.try_decode_schema().map_err(unreadable)?);

        // The first ticket is redeemed now, so that most errors are returned by the call itself.
        let mut streams = Vec::with_capacity(tickets.len());
        for ticket in tickets {
            streams.push(client.do_get(ticket).await.map_err(|error| self.failed(error))?);
        }
        let this = self.clone();
        let batches = stream::iter(streams).flatten().map_err(move |error| this.failed(error));
        Ok(SqlClientRows { schema, batches: batches.boxed() })
    }
}

impl SqlClient {
    /// Converts an error, distinguishing faults of the connection, of the token and of the statement.
    fn failed(&self, error: FlightError) -> SqlClientError {
        let node = self.node.clone();
        let status = match error {
            FlightError::Tonic(status) => status,
            other => return SqlClientError::Failed { reason: one_line(&other.to_string()) },
        };
        let reason = one_line(status.message());
        // If the node did not send the status, its source is the error of the connection.
        if let Some(source) = status.source() {
            return SqlClientError::Unreachable { node, reason: root_cause(source) };
        }
        match status.code() {
            Code::Unauthenticated | Code::PermissionDenied => SqlClientError::Refused { node, reason },
            Code::InvalidArgument | Code::NotFound => SqlClientError::Statement { reason },
            Code::Unimplemented => SqlClientError::Failed {
                reason: format!("{reason}: does the node at {node} have SQL, and is that its Flight door?"),
            },
            _ => SqlClientError::Failed { reason },
        }
    }
}

impl fmt::Debug for SqlClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqlClient").field("node", &self.node).finish_non_exhaustive()
    }
}

impl fmt::Debug for SqlClientRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqlClientRows").field("schema", &self.schema).finish_non_exhaustive()
    }
}

/// Parses the URL of a Flight door. The error names the fault.
fn endpoint(url: &str) -> Result<Endpoint, String> {
    let parsed = Url::parse(url).map_err(|error| error.to_string())?;
    let scheme = match parsed.scheme() {
        "grpc" | "grpc+tcp" => "http",
        "grpc+tls" => "https",
        other => return Err(format!("{other}:// is not the scheme of a Flight door")),
    };
    let host = parsed.host_str().filter(|host| !host.is_empty()).ok_or("it has no host")?;
    let port = parsed.port().ok_or("it has no port")?;
    if !parsed.username().is_empty() || parsed.password().is_some() || !matches!(parsed.path(), "" | "/") {
        return Err("it has more than a host and a port".to_owned());
    }

    let endpoint =
        Endpoint::from_shared(format!("{scheme}://{host}:{port}")).map_err(|error| error.to_string())?;
    Ok(endpoint
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_INTERVAL)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(STREAM_WINDOW))
}

/// Returns the text of the innermost source of an error: the others name only the step that failed.
fn root_cause(error: &(dyn StdError + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    one_line(&cause.to_string())
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_a_flight_door() {
        for url in
            ["grpc://127.0.0.1:8815", "grpc+tcp://node:1/", "grpc+tls://node.example:8815", "grpc://[::1]:1"]
        {
            assert!(endpoint(url).is_ok(), "{url}");
        }
        for url in [
            "http://node:1",
            "node:8815",
            "grpc://node",
            "grpc://node:1/lake",
            "grpc://key:secret@node:1",
            "",
        ] {
            assert!(endpoint(url).is_err(), "{url}");
        }
    }

    #[tokio::test]
    async fn a_node_that_is_not_there_is_named() {
        let error = SqlClient::connect("grpc://127.0.0.1:1", None).await.unwrap_err();
        let line = error.to_string();
        assert!(line.starts_with("the node grpc://127.0.0.1:1 does not answer: "), "{line}");
        assert!(line.contains("refused"), "{line}");
    }
}
