//! The Arrow Flight calls: each is authorized, answered and counted.

use std::{
    convert::Infallible,
    num::NonZero,
    sync::Arc,
    thread::available_parallelism,
    time::{Duration, SystemTime},
};

use arrow::datatypes::Schema;
use arrow_flight::{
    Action as ActionRequest, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightEndpoint,
    FlightInfo, HandshakeRequest, HandshakeResponse, Location, PollInfo, PutResult, Result as ActionResult,
    SchemaAsIpc, SchemaResult, Ticket as TicketBytes,
    flight_service_server::{FlightService, FlightServiceServer},
};
use async_trait::async_trait;
use bytes::Bytes;
use futures::{
    StreamExt, TryFutureExt, TryStreamExt,
    stream::{self, BoxStream},
};
use http::{Request as HttpRequest, Response as HttpResponse};
use hyper::body::Incoming;
use stylobate_columnar::{Scan, ScanPart};
use tonic::{
    Code, Request, Response, Status, Streaming,
    body::Body,
    codegen::Service,
    metadata::{AsciiMetadataValue, MetadataMap},
};
use tracing::Instrument;

use super::{
    action,
    call::{FlightBatchStream, FlightCall, FlightRead, TicketBatches},
    caller::{caller, token},
    command::ScanCommand,
    encode::ipc_options,
    error::{BucketNaming, from_scan, invalid, status},
    list,
    ticket::{ScanTicket, TicketScope, TicketSigner, timestamp},
};
use crate::{Action, Node, config::Secret, running_reads::NewRead};

/// Maximum endpoints of a flight.
const MAX_ENDPOINTS: usize = 64;
/// Maximum total bytes of the tickets of one flight: flights of very wide tables have fewer endpoints.
const MAX_TICKET_BYTES: usize = 2 << 20;
/// Maximum bytes of a request: the ticket of a command with a wide schema contains that schema several times.
const MAX_REQUEST_BYTES: usize = 16 << 20;
/// Bytes of a request in addition to its ticket.
const REQUEST_OVERHEAD_BYTES: usize = 64 << 10;

/// The Flight door of a node.
struct FlightDoor {
    node: Arc<Node>,
    tickets: Arc<TicketSigner>,
    #[cfg(feature = "sql")]
    sql: super::sql::SqlDoor,
}

/// Creates the Flight door of a node: a service for HTTP/2 connections, which also serves the node's query worker.
/// Cheap to clone.
pub(crate) fn service(
    node: Arc<Node>,
    ticket_secret: Option<&Secret>,
    ticket_lifetime: Duration,
    #[cfg(feature = "sql")] engine: Arc<super::sql::QueryEngine>,
) -> impl Service<HttpRequest<Incoming>, Response = HttpResponse<Body>, Error = Infallible, Future: Send>
+ Clone
+ Send
+ Sync
+ 'static {
    let tickets = Arc::new(TicketSigner::new(ticket_secret, ticket_lifetime));
    #[cfg(feature = "distributed")]
    let cluster = node.cluster().cloned();
    let door = FlightDoor {
        #[cfg(feature = "sql")]
        sql: super::sql::SqlDoor::new(node.clone(), tickets.clone(), engine.clone()),
        node,
        tickets,
    };
    let service = FlightServiceServer::new(door).max_decoding_message_size(MAX_REQUEST_BYTES);
    #[cfg(feature = "distributed")]
    let service = super::sql::FlightAndWorker::new(service, engine, cluster);
    service
}

type FlightResult<T> = Result<Response<T>, Status>;

impl FlightDoor {
    fn caller(&self, metadata: &MetadataMap) -> Result<Option<String>, Status> {
        caller(&self.node.keys(), metadata)
    }

    /// Runs a call, and counts it.
    async fn counted<T>(
        &self,
        method: &'static str,
        metadata: &MetadataMap,
        answer: impl Future<Output = Result<T, Status>>,
    ) -> FlightResult<T> {
        let call = FlightCall::begin(&self.node, method, metadata);
        let span = tracing::debug_span!("flight_call", method);
        let answer = call.trace().scope(answer).instrument(span).await;
        call.end(answer.map(Response::new))
    }

    /// Refuses an unsupported call, and counts it.
    fn refused<T>(&self, method: &'static str, metadata: &MetadataMap, why: &'static str) -> FlightResult<T> {
        FlightCall::begin(&self.node, method, metadata).end(Err(status(Code::Unimplemented, why)))
    }

    /// Plans the scan of a command, if the caller may read the bucket.
    async fn plan(&self, caller: Option<&str>, command: &ScanCommand) -> Result<Scan, Status> {
        let bucket = command.bucket_path()?.open(&self.node, caller, Action::Read)?;
        let request = command.request(bucket)?;
        request
            .plan(self.node.columns())
            .map_err(|error| from_scan(&error, &BucketNaming::from(bucket)))
            .await
    }

    async fn flight_info(
        &self,
        metadata: &MetadataMap,
        descriptor: FlightDescriptor,
    ) -> Result<FlightInfo, Status> {
        let caller = self.caller(metadata)?;
        let caller = caller.as_deref();
        #[cfg(feature = "sql")]
        if let Some(command) = super::sql::command_in(&descriptor.cmd)? {
            return self.sql.flight_info(caller, command, descriptor).await;
        }

        let command = ScanCommand::of(&descriptor)?;
        let scan = self.plan(caller, &command).await?;
        let endpoints = self.endpoints(&scan, &command, caller)?;
        let records = if command.has_filter() {
            -1
        } else {
            let rows = command.limit.unwrap_or(u64::MAX).min(scan.estimated_rows());
            i64::try_from(rows).unwrap_or(-1)
        };

        let info = FlightInfo::new()
            .with_descriptor(descriptor)
            .with_endpoints(endpoints)
            .with_total_records(records)
            .with_ordered(true);
        info.try_with_schema(scan.schema())
            .map_err(|_| status(Code::Internal, "the schema cannot be written"))
    }

    /// Returns one endpoint for each part of the scan; a single endpoint if rows are limited or the scan has no
    /// parts.
    fn endpoints(
        &self,
        scan: &Scan,
        command: &ScanCommand,
        caller: Option<&str>,
    ) -> Result<Vec<FlightEndpoint>, Status> {
        let now = SystemTime::now();
        let expires = self.tickets.expiry(now);
        let seal = |scope: TicketScope| {
            let ticket = ScanTicket { command: command.clone(), scope };
            self.tickets.seal(&ticket, caller, expires)
        };

        let mut max_parts = match command.limit {
            Some(_) => 0,
            None => MAX_ENDPOINTS.min(2 * threads()),
        };
        let bucket = command.bucket_path()?.bucket;
        let mut tickets: Vec<(Bytes, _)> = Vec::new();
        while max_parts > 0 {
            let mut bytes = 0;
            tickets.clear();
            for part in scan.parts(max_parts) {
                let location = self.locations(bucket, &part);
                let ticket = seal(TicketScope::Part(Box::new(part)))?;
                bytes += ticket.len();
                tickets.push((ticket, location));
                if bytes > MAX_TICKET_BYTES {
                    break;
                }
            }
            if max_parts == 1 || bytes <= MAX_TICKET_BYTES {
                break;
            }
            max_parts /= 2;
        }

        if tickets.is_empty() {
            tickets.push((seal(TicketScope::Whole(scan.schema().clone()))?, Vec::new()));
        }
        let longest = tickets.iter().map(|(ticket, _)| ticket.len()).max().unwrap_or_default();
        if longest > MAX_REQUEST_BYTES - REQUEST_OVERHEAD_BYTES {
            let reason =
                format!("a ticket of {longest} bytes, which no request may have: ask for fewer columns");
            return Err(invalid(reason));
        }

        let endpoint = |(ticket, location)| FlightEndpoint {
            ticket: Some(TicketBytes { ticket }),
            location,
            expiration_time: Some(timestamp(expires)),
            ..FlightEndpoint::default()
        };

        Ok(tickets.into_iter().map(endpoint).collect())
    }

    /// Returns the nodes of a cluster that hold the first bytes of a part; each of them can send its batches. Empty
    /// without a cluster, which means this node.
    fn locations(&self, bucket: &str, part: &ScanPart) -> Vec<Location> {
        let Some(cluster) = self.node.cluster() else { return Vec::new() };
        let Some((path, offset)) = part.first_byte() else { return Vec::new() };
        let locations = cluster.flight_locations(bucket, path, offset).into_iter();
        locations.map(|uri| Location { uri }).collect()
    }

    /// Returns the schema of a command.
    async fn schema(
        &self,
        metadata: &MetadataMap,
        descriptor: &FlightDescriptor,
    ) -> Result<SchemaResult, Status> {
        let caller = self.caller(metadata)?;
        let caller = caller.as_deref();
        #[cfg(feature = "sql")]
        if let Some(command) = super::sql::command_in(&descriptor.cmd)? {
            let schema = self.sql.schema(caller, &command).await?;
            return schema_result(&schema);
        }
        let scan = self.plan(caller, &ScanCommand::of(descriptor)?).await?;
        schema_result(scan.schema())
    }

    /// Opens a ticket for the caller.
    async fn opened(&self, metadata: &MetadataMap, ticket: &[u8]) -> Result<TicketBatches, Status> {
        let caller = self.caller(metadata)?;
        let caller = caller.as_deref();
        #[cfg(feature = "sql")]
        if let Some(command) = super::sql::command_in(ticket)? {
            return self.sql.batches(caller, command).await;
        }

        let ScanTicket { command, scope } = self.tickets.open(ticket, caller, SystemTime::now())?;
        let bucket = command.bucket_path()?.open(&self.node, caller, Action::Read)?;
        let request = match scope {
            TicketScope::Part(part) => command.request(bucket)?.with_part(*part),
            TicketScope::Whole(schema) => command.request(bucket)?.with_schema(schema),
        };

        let names = BucketNaming::from(bucket);
        let scan = request.plan(self.node.columns()).await.map_err(|error| from_scan(&error, &names))?;
        let read = self.listed(&scan, &command, caller)?;
        let batches = scan.stream().map_err(move |error| from_scan(&error, &names));
        Ok(TicketBatches { schema: scan.schema().clone(), batches: batches.boxed(), read: Some(read) })
    }

    /// Adds a scan to the list of running reads.
    fn listed(&self, scan: &Scan, command: &ScanCommand, caller: Option<&str>) -> Result<FlightRead, Status> {
        let path = command.bucket_path()?;
        let running = self.node.running_reads().begin(NewRead {
            kind: "scan",
            text: command.text(),
            access_key: caller.map(str::to_owned),
            total_rows: scan.known_rows(),
        });
        Ok(FlightRead { object: Some((path.bucket.to_owned(), path.within.to_owned())), running })
    }

    /// Performs an action, and returns the bodies of its results.
    async fn act(&self, metadata: &MetadataMap, request: &ActionRequest) -> Result<Vec<Bytes>, Status> {
        let caller = self.caller(metadata)?;
        let caller = caller.as_deref();
        #[cfg(feature = "sql")]
        if super::sql::is_action(&request.r#type) {
            return self.sql.act(caller, request).await;
        }
        Ok(vec![action::act(&self.node, caller, request).await?.into()])
    }
}

fn schema_result(schema: &Schema) -> Result<SchemaResult, Status> {
    let schema = SchemaResult::try_from(SchemaAsIpc::new(schema, &ipc_options()));
    schema.map_err(|_| status(Code::Internal, "the schema cannot be written"))
}

fn threads() -> usize {
    available_parallelism().map_or(1, NonZero::get)
}

#[async_trait]
impl FlightService for FlightDoor {
    type HandshakeStream = BoxStream<'static, Result<HandshakeResponse, Status>>;
    type ListFlightsStream = BoxStream<'static, Result<FlightInfo, Status>>;
    type DoGetStream = FlightBatchStream;
    type DoPutStream = BoxStream<'static, Result<PutResult, Status>>;
    type DoActionStream = BoxStream<'static, Result<ActionResult, Status>>;
    type ListActionsStream = BoxStream<'static, Result<ActionType, Status>>;
    type DoExchangeStream = BoxStream<'static, Result<FlightData, Status>>;

    async fn handshake(
        &self,
        request: Request<Streaming<HandshakeRequest>>,
    ) -> FlightResult<Self::HandshakeStream> {
        let metadata = request.metadata();
        let token = token(&self.node.keys(), metadata);
        let answer = async {
            token.clone()?;
            Ok(stream::iter([Ok(HandshakeResponse::default())]).boxed())
        };
        let mut response = self.counted("Handshake", metadata, answer).await?;

        // Some clients fail if they receive no token.
        let token = token?.map_or_else(|| "none".to_owned(), |token| token.expose().to_owned());
        let mut shown = AsciiMetadataValue::try_from(format!("Bearer {token}")).map_err(|_| {
            status(Code::Internal, "the token of this access key has characters that no header has")
        })?;
        shown.set_sensitive(true);
        response.metadata_mut().insert("authorization", shown);
        Ok(response)
    }

    async fn list_flights(&self, request: Request<Criteria>) -> FlightResult<Self::ListFlightsStream> {
        self.counted("ListFlights", request.metadata(), async {
            let caller = self.caller(request.metadata())?;
            let caller = caller.as_deref();
            let flights = list::list(&self.node, caller, &request.get_ref().expression).await?;
            Ok(stream::iter(flights.into_iter().map(Ok)).boxed())
        })
        .await
    }

    async fn get_flight_info(&self, request: Request<FlightDescriptor>) -> FlightResult<FlightInfo> {
        let (metadata, _, descriptor) = request.into_parts();
        self.counted("GetFlightInfo", &metadata, self.flight_info(&metadata, descriptor)).await
    }

    async fn poll_flight_info(&self, request: Request<FlightDescriptor>) -> FlightResult<PollInfo> {
        self.refused("PollFlightInfo", request.metadata(), "a flight is ready at once: call GetFlightInfo")
    }

    async fn get_schema(&self, request: Request<FlightDescriptor>) -> FlightResult<SchemaResult> {
        let metadata = request.metadata();
        self.counted("GetSchema", metadata, self.schema(metadata, request.get_ref())).await
    }

    async fn do_get(&self, request: Request<TicketBytes>) -> FlightResult<Self::DoGetStream> {
        let call = FlightCall::begin(&self.node, "DoGet", request.metadata());
        let opened = self.opened(request.metadata(), &request.get_ref().ticket);
        match call.trace().scope(opened).await {
            Ok(opened) => Ok(Response::new(FlightBatchStream::new(opened, call))),
            Err(refused) => call.end(Err(refused)),
        }
    }

    async fn do_put(&self, request: Request<Streaming<FlightData>>) -> FlightResult<Self::DoPutStream> {
        #[cfg(feature = "sql")]
        {
            let (metadata, _, messages) = request.into_parts();
            self.counted("DoPut", &metadata, async {
                let caller = self.caller(&metadata)?;
                let put = self.sql.put(caller.as_deref(), messages).await?;
                Ok(stream::iter([Ok(put)]).boxed())
            })
            .await
        }
        #[cfg(not(feature = "sql"))]
        {
            self.refused(
                "DoPut",
                request.metadata(),
                "nothing is written here: put files through the S3 door",
            )
        }
    }

    async fn do_exchange(
        &self,
        request: Request<Streaming<FlightData>>,
    ) -> FlightResult<Self::DoExchangeStream> {
        self.refused(
            "DoExchange",
            request.metadata(),
            "there is nothing to exchange: use GetFlightInfo and DoGet",
        )
    }

    async fn do_action(&self, request: Request<ActionRequest>) -> FlightResult<Self::DoActionStream> {
        let metadata = request.metadata();
        self.counted("DoAction", metadata, async {
            let bodies = self.act(metadata, request.get_ref()).await?;
            Ok(stream::iter(bodies).map(|body| Ok(ActionResult { body })).boxed())
        })
        .await
    }

    async fn list_actions(&self, request: Request<Empty>) -> FlightResult<Self::ListActionsStream> {
        self.counted("ListActions", request.metadata(), async {
            self.caller(request.metadata())?;
            let actions = action::actions();
            #[cfg(feature = "sql")]
            let actions = actions.chain(super::sql::actions());
            Ok(stream::iter(actions.map(Ok).collect::<Vec<_>>()).boxed())
        })
        .await
    }
}
