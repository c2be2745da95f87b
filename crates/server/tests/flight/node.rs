//! A node over a folder of Parquet files, and clients of its Flight door.

use std::{
    fs::{self, File},
    net::SocketAddr,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use arrow::{
    array::{ArrayRef, Int64Array, RecordBatch, StringArray},
    compute::{cast, concat_batches},
    datatypes::{DataType, Field, Schema},
};
use arrow_flight::{FlightClient, FlightDescriptor, FlightInfo, Ticket, error::FlightError};
use futures::TryStreamExt;
use parquet::{
    arrow::{ArrowWriter, arrow_reader::ParquetRecordBatchReaderBuilder},
    file::properties::WriterProperties,
};
use serde_json::{Value, json};
use stylobate_server::{
    Doors, Node, ServerError,
    config::{AccessKeyConfig, BucketConfig, NodeConfig, Secret},
};
use stylobate_storage::ByteSize;
use tempfile::TempDir;
use tokio::{sync::oneshot, task::JoinHandle};
use tonic::{Code, transport::Endpoint};

use super::eventually::eventually;

pub(crate) const ROW_GROUPS: usize = 64;
pub(crate) const ROWS: usize = 2_048;

/// A running node with the buckets `lake` and `pond`, and its shutdown signal.
pub(crate) struct Running {
    pub(crate) folder: TempDir,
    pub(crate) flight: SocketAddr,
    pub(crate) admin: SocketAddr,
    pub(crate) node: Arc<Node>,
    pub(crate) stop: oneshot::Sender<()>,
    pub(crate) served: JoinHandle<Result<(), ServerError>>,
}

impl Running {
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    pub(crate) async fn start_with(change: impl FnOnce(&mut NodeConfig)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let lake = folder.path().join("lake");
        fs::create_dir_all(lake.join("orders")).unwrap();
        fs::create_dir_all(folder.path().join("pond")).unwrap();
        write(&lake.join("big.parquet"), 0, ROW_GROUPS);
        write(&lake.join("orders/1.parquet"), 0, 2);
        write(&lake.join("orders/2.parquet"), 2, 2);
        write(&folder.path().join("pond/p.parquet"), 0, 1);
        write(&folder.path().join("outside.parquet"), 0, 1);

        let mut config = NodeConfig::default();
        for bucket in ["lake", "pond"] {
            let url = folder.path().join(bucket);
            config.buckets.push(BucketConfig::new(bucket, url.to_str().unwrap()));
        }
        config.settings.memory = ByteSize::mib(64);
        config.settings.listen.set_port(0);
        config.settings.admin.set_port(0);
        config.settings.flight = Some(([127, 0, 0, 1], 0).into());
        change(&mut config);
        let doors = Doors::bind(&config).await.unwrap();
        let node = Node::open(&config).await.unwrap();
        let flight = doors.flight_address().unwrap();
        let admin = doors.admin_address();
        let (stop, stopped) = oneshot::channel();
        let serving = doors.serve(node.clone(), async { drop(stopped.await) });

        Self { folder, flight, admin, node, stop, served: tokio::spawn(serving) }
    }

    pub(crate) async fn client(&self) -> FlightClient {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.flight)).unwrap();
        FlightClient::new(endpoint.connect().await.unwrap())
    }

    /// Returns a client that sends a token.
    pub(crate) async fn client_with(&self, token: &str) -> FlightClient {
        let mut client = self.client().await;
        client.add_header("authorization", &format!("Bearer {token}")).unwrap();
        client
    }

    /// Reads the file directly, without the node.
    pub(crate) fn file(&self, path: &str) -> RecordBatch {
        let file = File::open(self.folder.path().join(path)).unwrap();
        let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
        let batches: Vec<_> = reader.map(Result::unwrap).collect();
        concat_batches(&batches[0].schema(), &batches).unwrap()
    }

    /// Waits until no stream is active.
    pub(crate) async fn idle(&self) {
        let is_idle = async || self.node.metrics().flight_stats().active_streams == 0;
        eventually("streams to end", is_idle).await;
    }

    /// Returns the number of column chunks that were decoded or read past the cache.
    pub(crate) fn decoded(&self) -> u64 {
        let stats = self.node.columns().stats();
        stats.decoded_chunks + stats.streamed_row_groups
    }
}

/// Creates an access key with a token, for the named buckets.
pub(crate) fn key(id: &str, buckets: &[&str], write: bool) -> AccessKeyConfig {
    AccessKeyConfig {
        id: id.to_owned(),
        secret: Secret::new(format!("secret of {id}")),
        token: Some(Secret::new(format!("token-of-{id}"))),
        buckets: buckets.iter().map(|&name| name.to_owned()).collect(),
        prefixes: Vec::new(),
        write,
    }
}

/// Writes row groups with a column of numbers, one of repeated names, and one of long distinct texts.
pub(crate) fn write(path: &Path, first: usize, row_groups: usize) {
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(ROWS)).build();
    let batch = |group: usize| {
        let n = || (group * ROWS) as i64..((group + 1) * ROWS) as i64;
        let columns: [(_, ArrayRef); 3] = [
            ("n", Arc::new(Int64Array::from_iter_values(n()))),
            ("name", Arc::new(StringArray::from_iter_values(n().map(|n| format!("name {}", n % 7))))),
            ("text", Arc::new(StringArray::from_iter_values(n().map(|n| format!("{n:0512}"))))),
        ];
        RecordBatch::try_from_iter(columns).unwrap()
    };

    let mut writer =
        ArrowWriter::try_new(File::create(path).unwrap(), batch(0).schema(), Some(properties)).unwrap();
    for group in first..first + row_groups {
        writer.write(&batch(group)).unwrap();
    }
    writer.close().unwrap();
    settle(path, 3_600);
}

/// Sets a file's modification time `seconds` back: a recent file is assumed to be still changing.
pub(crate) fn settle(path: &Path, seconds: u64) {
    let file = File::options().write(true).open(path).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).unwrap();
}

pub(crate) fn command(more: Value) -> FlightDescriptor {
    let mut command = json!({"version": 1});
    command.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    FlightDescriptor::new_cmd(command.to_string())
}

pub(crate) fn tickets(info: &FlightInfo) -> Vec<Ticket> {
    info.endpoint.iter().map(|endpoint| endpoint.ticket.clone().unwrap()).collect()
}

/// Returns all rows of a flight, endpoint by endpoint.
pub(crate) async fn rows(client: &mut FlightClient, descriptor: FlightDescriptor) -> RecordBatch {
    let info = client.get_flight_info(descriptor).await.unwrap();
    let schema = Arc::new(info.clone().try_decode_schema().unwrap());
    let mut batches = Vec::new();
    for ticket in tickets(&info) {
        batches.extend(client.do_get(ticket).await.unwrap().try_collect::<Vec<_>>().await.unwrap());
    }
    for batch in &batches {
        assert_eq!(batch.schema(), schema);
    }
    concat_batches(&schema, &batches).unwrap()
}

/// Decodes the dictionaries of a batch.
pub(crate) fn plain(batch: &RecordBatch) -> RecordBatch {
    let value_type = |data_type: &DataType| match data_type {
        DataType::Dictionary(_, values) => values.as_ref().clone(),
        other => other.clone(),
    };
    let columns: Vec<ArrayRef> =
        batch.columns().iter().map(|column| cast(column, &value_type(column.data_type())).unwrap()).collect();
    let schema = batch.schema();
    let fields = schema
        .fields()
        .iter()
        .zip(&columns)
        .map(|(field, column)| Field::new(field.name(), column.data_type().clone(), field.is_nullable()));

    RecordBatch::try_new(Arc::new(Schema::new(fields.collect::<Vec<_>>())), columns).unwrap()
}

/// Returns the code and message of a refusal.
pub(crate) fn refusal<T>(answer: Result<T, FlightError>) -> (Code, String) {
    match answer.err() {
        Some(FlightError::Tonic(status)) => (status.code(), status.message().to_owned()),
        Some(other) => panic!("not a status: {other}"),
        None => panic!("not refused"),
    }
}
