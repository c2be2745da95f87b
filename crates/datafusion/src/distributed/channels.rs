//! Connections to workers, kept open, one per node; and the classification of their failures.

use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use datafusion::{
    arrow::array::RecordBatch, common::Result, error::DataFusionError, execution::TaskContext,
    physical_plan::metrics::ExecutionPlanMetricsSet,
};
use datafusion_distributed::{
    ChannelResolver, CoordinatorToWorkerMsg, ExecuteTaskRequest, GetWorkerInfoRequest, GetWorkerInfoResponse,
    SetPlanRequest, WorkerChannel, WorkerToCoordinatorMsg,
    grpc::{BoxCloneSyncChannel, create_worker_client},
};
use futures::{StreamExt, TryStreamExt, stream::BoxStream};
use http::HeaderMap;
use parking_lot::Mutex;
use tonic::{Code, Status, transport::Endpoint};
use url::Url;

use super::nodes::QueryNodes;
use crate::error::{Error, LOST_NODE};

/// Maximum time for a worker to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Time without data after which a worker is pinged, and maximum time for its answer.
const PING_INTERVAL: Duration = Duration::from_secs(5);
const PING_TIMEOUT: Duration = Duration::from_secs(5);
/// Flow-control window of a stream, in bytes.
const STREAM_WINDOW: u32 = 1 << 20;
/// Flow-control window of a connection, in bytes. Large, so that a stream that is not read does not stall the others.
const CONNECTION_WINDOW: u32 = 1 << 30;

/// Connects to workers.
pub trait ConnectNode: fmt::Debug + Send + Sync + 'static {
    /// Returns a channel that connects on first use, and reconnects whenever its connection breaks.
    ///
    /// # Errors
    ///
    /// [`Error::Query`] if the URL is not valid for a worker.
    fn connect(&self, url: &Url) -> Result<BoxCloneSyncChannel, Error>;
}

/// Connects without TLS and without credentials.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlainConnector;

impl ConnectNode for PlainConnector {
    fn connect(&self, url: &Url) -> Result<BoxCloneSyncChannel, Error> {
        Ok(BoxCloneSyncChannel::new(node_endpoint(url)?.connect_lazy()))
    }
}

/// Returns the endpoint of a worker, with keep-alive pings that detect a machine that is gone.
///
/// # Errors
///
/// [`Error::Query`] if the URL is not valid for a worker.
pub fn node_endpoint(url: &Url) -> Result<Endpoint, Error> {
    let wrong = |error: tonic::transport::Error| Error::Query { reason: format!("the node {url}: {error}") };
    let endpoint = Endpoint::from_shared(url.to_string()).map_err(wrong)?;
    Ok(endpoint
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW))
}

/// The channels from this process to all workers.
#[derive(Clone, Debug)]
pub(super) struct NodeChannels {
    shared: Arc<SharedChannels>,
}

struct SharedChannels {
    connector: Arc<dyn ConnectNode>,
    nodes: Arc<dyn QueryNodes>,
    open: Mutex<HashMap<Url, BoxCloneSyncChannel>>,
}

impl fmt::Debug for SharedChannels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedChannels")
            .field("connector", &self.connector)
            .field("nodes", &self.nodes)
            .finish_non_exhaustive()
    }
}

impl NodeChannels {
    pub(super) fn new(connector: Arc<dyn ConnectNode>, nodes: Arc<dyn QueryNodes>) -> Self {
        Self { shared: Arc::new(SharedChannels { connector, nodes, open: Mutex::default() }) }
    }

    fn channel(&self, url: &Url) -> Result<BoxCloneSyncChannel> {
        let mut open = self.shared.open.lock();
        if let Some(channel) = open.get(url) {
            return Ok(channel.clone());
        }
        let wrong = |error: Error| DataFusionError::Plan(error.to_string());
        let channel = self.shared.connector.connect(url).map_err(wrong)?;
        open.insert(url.clone(), channel.clone());
        Ok(channel)
    }

    /// Records that a worker did not answer.
    pub(super) fn failed(&self, url: &Url) {
        self.shared.open.lock().remove(url);
        self.shared.nodes.failed(url);
    }

    /// Returns whether a worker answers within the given time.
    pub(super) async fn answers(&self, url: &Url, within: Duration) -> bool {
        let ask = async {
            let mut worker = self.get_worker_client_for_url(url).await?;
            worker.get_worker_info(GetWorkerInfoRequest {}).await
        };
        match tokio::time::timeout(within, ask).await {
            // A node that refuses is also reachable.
            Ok(Err(DataFusionError::Execution(error))) => lost_node(&error).is_none(),
            Ok(_) => true,
            Err(_) => false,
        }
    }
}

#[async_trait]
impl ChannelResolver for NodeChannels {
    async fn get_worker_client_for_url(&self, url: &Url) -> Result<Box<dyn WorkerChannel>> {
        let client = create_worker_client(self.channel(url)?);
        Ok(Box::new(WatchedWorker { client, node: WatchedNode { url: url.clone(), channels: self.clone() } }))
    }
}

/// A worker whose connection failures are distinguished from errors of the query.
struct WatchedWorker {
    client: Box<dyn WorkerChannel>,
    node: WatchedNode,
}

#[derive(Clone)]
struct WatchedNode {
    url: Url,
    channels: NodeChannels,
}

impl WatchedNode {
    /// Names the node in an error of the connection; leaves errors of the query unchanged.
    fn explained(&self, error: DataFusionError) -> DataFusionError {
        let DataFusionError::External(source) = &error else { return error };
        let Some(status) = source.downcast_ref::<Status>() else { return error };
        let url = &self.url;
        match failure_of(status.code()) {
            NodeFailure::Refused => {
                DataFusionError::Plan(format!("the node {url} refuses the query: {}", status.message()))
            }
            NodeFailure::Absent => DataFusionError::Plan(format!("the node {url} runs no queries of others")),
            NodeFailure::Lost => {
                self.channels.failed(url);
                DataFusionError::Execution(format!("{LOST_NODE}{url}: {}", status.message()))
            }
        }
    }
}

impl WatchedNode {
    /// Returns a function that names the node in errors of a stream.
    fn explaining(&self) -> impl Fn(DataFusionError) -> DataFusionError + Send + use<> {
        let node = self.clone();
        move |error| node.explained(error)
    }
}

/// The node failure indicated by the status of a call, if it is not an error of the query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NodeFailure {
    /// The secret differs, or the message cannot be decoded.
    Refused,
    /// The node is not a worker.
    Absent,
    /// The node does not answer, or stopped answering.
    Lost,
}

fn failure_of(code: Code) -> NodeFailure {
    match code {
        Code::Unauthenticated | Code::PermissionDenied | Code::InvalidArgument | Code::FailedPrecondition => {
            NodeFailure::Refused
        }
        Code::Unimplemented | Code::NotFound => NodeFailure::Absent,
        Code::Ok
        | Code::Cancelled
        | Code::Unknown
        | Code::DeadlineExceeded
        | Code::AlreadyExists
        | Code::ResourceExhausted
        | Code::Aborted
        | Code::OutOfRange
        | Code::Internal
        | Code::Unavailable
        | Code::DataLoss => NodeFailure::Lost,
    }
}

/// Returns the URL of the node that was lost according to an error.
pub(super) fn lost_node(error: &str) -> Option<Option<Url>> {
    let rest = error.strip_prefix(LOST_NODE)?;
    let url = rest.split_once(": ").map_or(rest, |(url, _)| url);
    Some(Url::parse(url).ok())
}

#[async_trait]
impl WorkerChannel for WatchedWorker {
    async fn coordinator_channel(
        &mut self,
        headers: HeaderMap,
        plan: SetPlanRequest,
        messages: BoxStream<'static, CoordinatorToWorkerMsg>,
        metrics: ExecutionPlanMetricsSet,
        context: &Arc<TaskContext>,
    ) -> Result<BoxStream<'static, Result<WorkerToCoordinatorMsg>>> {
        let answers = self.client.coordinator_channel(headers, plan, messages, metrics, context).await;
        match answers {
            Ok(answers) => Ok(answers.map_err(self.node.explaining()).boxed()),
            Err(error) => Err(self.node.explained(error)),
        }
    }

    async fn execute_task(
        &mut self,
        headers: HeaderMap,
        request: ExecuteTaskRequest,
        metrics: ExecutionPlanMetricsSet,
        context: &Arc<TaskContext>,
    ) -> Result<Vec<BoxStream<'static, Result<RecordBatch>>>> {
        let partitions = self.client.execute_task(headers, request, metrics, context).await;
        let partitions = partitions.map_err(self.node.explaining())?;
        Ok(partitions.into_iter().map(|rows| rows.map_err(self.node.explaining()).boxed()).collect())
    }

    async fn get_worker_info(&mut self, request: GetWorkerInfoRequest) -> Result<GetWorkerInfoResponse> {
        self.client.get_worker_info(request).await.map_err(|error| self.node.explained(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_a_lost_node_names_it() {
        let error = format!("{LOST_NODE}http://10.0.0.1:7000/: broken pipe");
        assert_eq!(lost_node(&error), Some(Url::parse("http://10.0.0.1:7000").ok()));
        assert_eq!(lost_node(&format!("{LOST_NODE}?: x")), Some(None));
        assert_eq!(lost_node("Divide by zero error"), None);
    }

    #[test]
    fn a_node_that_refuses_is_not_lost() {
        for refused in [Code::Unauthenticated, Code::PermissionDenied, Code::InvalidArgument] {
            assert_eq!(failure_of(refused), NodeFailure::Refused);
        }
        for lost in [Code::Unavailable, Code::Unknown, Code::Internal, Code::Cancelled] {
            assert_eq!(failure_of(lost), NodeFailure::Lost);
        }
        assert_eq!(failure_of(Code::Unimplemented), NodeFailure::Absent);
    }

    #[tokio::test]
    async fn a_channel_is_kept_until_its_node_fails() {
        let nodes = Arc::new(super::super::nodes::WorkerList::new([]));
        let channels = NodeChannels::new(Arc::new(PlainConnector), nodes);
        let url = Url::parse("http://127.0.0.1:1").unwrap();
        channels.channel(&url).unwrap();
        channels.channel(&url).unwrap();
        assert_eq!(channels.shared.open.lock().len(), 1);
        assert!(!channels.answers(&url, Duration::from_secs(5)).await);
        assert_eq!(channels.shared.open.lock().len(), 0);
    }
}
