//! SQL on three nodes of a cluster in one process: results, bytes read from the origin, unauthorized callers, and
//! lost nodes.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

#[path = "../../storage/tests/support/mod.rs"]
mod support;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use arrow::{
    array::{ArrayRef, Int64Array, RecordBatch, StringArray},
    util::pretty::pretty_format_batches,
};
use futures::TryStreamExt;
use object_store::{ObjectStoreExt, path::Path};
use parquet::{arrow::ArrowWriter, file::properties::WriterProperties};
use stylobate_client::{NodeDoor, parse_nodes};
use stylobate_columnar::{Cache, ScanRequest, Source};
use stylobate_datafusion::{
    ScanTable, SqlSession,
    distributed::{Distribution, WorkerList},
};
use stylobate_server::{
    Doors, Node, ServerError, SqlClient, SqlClientError,
    config::{BucketConfig, ClusterConfig, NodeConfig, NodeListSource, Secret},
};
use stylobate_storage::{ByteSize, CacheOptions, Consistency, Origin};
use support::{Counting, eventually::eventually};
use tokio::task::JoinHandle;
use url::Url;

const FILES: i64 = 16;
const ROWS: i64 = 2_000;
/// Row groups of a file.
const GROUPS: i64 = 4;

struct SqlNode {
    node: Arc<Node>,
    flight: SocketAddr,
    served: JoinHandle<Result<(), ServerError>>,
}

/// Nodes over one origin that contains a table.
struct SqlCluster {
    origin: Arc<Counting>,
    nodes: Vec<SqlNode>,
}

fn config(id: &str) -> NodeConfig {
    let mut config = NodeConfig::default();
    let mut bucket = BucketConfig::new("lake", "memory:///");
    bucket.consistency = Consistency::Ttl(Duration::from_secs(3600));
    config.buckets.push(bucket);
    config.settings.memory = ByteSize::mib(128);
    config.settings.listen.set_port(0);
    config.settings.admin.set_port(0);
    config.settings.flight = Some(([127, 0, 0, 1], 0).into());
    config.settings.drain_timeout = Duration::from_secs(5);
    config.cluster = Some(ClusterConfig {
        id: id.parse().unwrap(),
        listen: ([127, 0, 0, 1], 0).into(),
        nodes: NodeListSource::Fixed(Vec::new()),
        secret: Secret::new("the secret of a cluster"),
    });
    config
}

impl SqlCluster {
    /// Starts nodes that know each other, and waits until they agree.
    async fn start(configs: impl IntoIterator<Item = NodeConfig>) -> Self {
        let cluster = Self::start_unsettled(configs).await;
        for node in &cluster.nodes {
            eventually("all nodes to agree", async || {
                let known = node.node.cluster_status().unwrap().nodes;
                known.len() == cluster.nodes.len()
                    && known.iter().all(|node| node.answers && node.same_view == Some(true))
            })
            .await;
        }
        cluster
    }

    async fn start_unsettled(configs: impl IntoIterator<Item = NodeConfig>) -> Self {
        let mut bound = Vec::new();
        for config in configs {
            let doors = Doors::bind(&config).await.unwrap();
            bound.push((config, doors));
        }
        let entry = |(config, doors): &(NodeConfig, Doors)| {
            let id = &config.cluster.as_ref().unwrap().id;
            format!("{id}={}", doors.peer_address().unwrap())
        };
        let entries: Vec<_> = bound.iter().map(entry).collect();
        let list = parse_nodes(&entries, NodeDoor::Peer).unwrap();

        let origin = Arc::new(Counting::default());
        for file in 0..FILES {
            let bytes = parquet_file(file * ROWS);
            origin.memory.put(&Path::from(format!("t/{file}.parquet")), bytes.into()).await.unwrap();
        }
        let mut nodes = Vec::new();
        for (mut config, doors) in bound {
            config.cluster.as_mut().unwrap().nodes = NodeListSource::Fixed(list.clone());
            let lake = Origin::new("lake", origin.clone());
            let node = Node::open_over(&config, vec![lake]).await.unwrap();
            let flight = doors.flight_address().unwrap();
            let served = tokio::spawn(doors.serve(node.clone(), std::future::pending()));
            nodes.push(SqlNode { node, flight, served });
        }

        Self { origin, nodes }
    }

    async fn three() -> Self {
        Self::start(["a", "b", "c"].map(config)).await
    }

    async fn client(&self, node: usize) -> SqlClient {
        SqlClient::connect(&format!("grpc://{}", self.nodes[node].flight), None).await.unwrap()
    }

    fn decoded(&self) -> Vec<u64> {
        self.nodes.iter().map(|node| node.node.columns().stats().decoded_chunks).collect()
    }
}

/// Returns a Parquet file whose rows have ids from `first`.
fn parquet_file(first: i64) -> Vec<u8> {
    let ids = first..first + ROWS;
    let words: ArrayRef =
        Arc::new(ids.clone().map(|id| Some(format!("word {}", id % 7))).collect::<StringArray>());
    let values: ArrayRef = Arc::new(ids.clone().map(|id| Some(id * 37 % 1_001)).collect::<Int64Array>());
    let ids: ArrayRef = Arc::new(ids.map(Some).collect::<Int64Array>());
    let batch = RecordBatch::try_from_iter([("id", ids), ("word", words), ("value", values)]).unwrap();
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some((ROWS / GROUPS) as usize));
    let mut file = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), Some(properties.build())).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    file
}

async fn answer(client: &SqlClient, sql: &str) -> Result<String, SqlClientError> {
    let rows = client.run(sql).await?;
    let batches: Vec<RecordBatch> = rows.batches.try_collect().await?;
    Ok(pretty_format_batches(&batches).unwrap().to_string())
}

const QUERIES: [&str; 5] = [
    "SELECT count(*), sum(value), min(id), max(word) FROM lake.t",
    "SELECT word, count(*), sum(value) FROM lake.t WHERE value < 700 GROUP BY word ORDER BY word",
    "SELECT id, value FROM lake.t ORDER BY value DESC, id LIMIT 9",
    "SELECT a.word, count(*) FROM lake.t a JOIN lake.t b ON a.id = b.value GROUP BY a.word ORDER BY 1",
    "SELECT count(*) FROM 'lake/t/1*.parquet' WHERE word LIKE '%3'",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_at_any_node_has_the_answer_of_one_node_and_costs_the_origin_as_much() {
    let alone = SqlCluster::start([config("a")]).await;
    let cluster = SqlCluster::three().await;
    let single = alone.client(0).await;
    for (at, sql) in QUERIES.iter().enumerate() {
        let expected = answer(&single, sql).await.unwrap();
        let found = answer(&cluster.client(at % 3).await, sql).await.unwrap();
        assert_eq!(found, expected, "{sql}");
    }
    assert_eq!(cluster.origin.bytes(), alone.origin.bytes());
    assert!(cluster.decoded().iter().all(|chunks| *chunks > 0), "{:?}", cluster.decoded());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_row_group_is_decoded_by_one_node() {
    let cluster = SqlCluster::three().await;
    for node in 0..3 {
        answer(&cluster.client(node).await, "SELECT sum(value) FROM lake.t").await.unwrap();
        let decoded = cluster.decoded();
        assert_eq!(decoded.iter().sum::<u64>(), (FILES * GROUPS) as u64, "{decoded:?}");
    }
    let plan =
        answer(&cluster.client(1).await, "EXPLAIN SELECT word, sum(value) FROM lake.t GROUP BY word").await;
    let plan = plan.unwrap();
    assert!(plan.contains("tasks=3"), "{plan}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_cannot_run_plans() {
    let cluster = SqlCluster::three().await;
    let cache = Cache::open(CacheOptions::new(ByteSize::mib(64))).await.unwrap();
    let urls = cluster.nodes.iter().map(|node| Url::parse(&format!("http://{}", node.flight)).unwrap());
    let session = SqlSession::builder(cache.clone());
    let session =
        session.with_distribution(Distribution::over(Arc::new(WorkerList::new(urls)))).build().unwrap();

    let store = cluster.nodes[0].node.bucket("lake").unwrap().reader.clone();
    let scan =
        ScanRequest::over([Source::Store { store, pattern: "t".to_owned() }]).plan(&cache).await.unwrap();
    session.add("t", ScanTable::of(scan).with_source_names(["lake/t".to_owned()])).unwrap();
    let rows = session.run("SELECT word, sum(value) FROM t GROUP BY word").await.unwrap();
    let refused = rows.try_collect::<Vec<RecordBatch>>().await.unwrap_err().to_string();
    assert!(refused.contains("refuses the query") && refused.contains("secret"), "{refused}");
    assert_eq!(cluster.decoded(), [0, 0, 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_of_another_secret_has_no_part_in_queries() {
    let mut stranger = config("b");
    stranger.cluster.as_mut().unwrap().secret = Secret::new("the secret of another cluster");
    let cluster = SqlCluster::start_unsettled([config("a"), stranger, config("c")]).await;
    eventually("a and c to agree without b", async || {
        let known = cluster.nodes[0].node.cluster_status().unwrap().nodes;
        known.iter().any(|node| node.id.as_deref() == Some("b") && node.state == "down")
            && known.iter().any(|node| node.id.as_deref() == Some("c") && node.answers)
    })
    .await;

    assert!(answer(&cluster.client(0).await, QUERIES[1]).await.unwrap().contains("word 6"));
    let decoded = cluster.decoded();
    assert!(decoded[0] > 0 && decoded[1] == 0 && decoded[2] > 0, "{decoded:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_after_a_node_is_lost_runs_on_the_others() {
    let cluster = SqlCluster::three().await;
    let client = cluster.client(0).await;
    let mut expected = Vec::new();
    for sql in QUERIES {
        expected.push(answer(&client, sql).await.unwrap());
    }
    cluster.nodes[1].served.abort();
    for (sql, expected) in QUERIES.iter().zip(&expected) {
        assert_eq!(&answer(&client, sql).await.unwrap(), expected, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_statement_is_one_line_at_a_cluster_too() {
    let cluster = SqlCluster::three().await;
    let client = cluster.client(2).await;
    for (sql, expected) in [
        ("SELECT nothing FROM lake.t", "nothing"),
        ("SELECT 1 FROM lake.u", "u"),
        ("SELEC 1", "parse"),
        ("SELECT sum(1 / (value - value)) FROM lake.t", "zero"),
    ] {
        let error = answer(&client, sql).await.unwrap_err();
        let line = error.to_string();
        assert!(line.to_lowercase().contains(expected) && line.lines().count() == 1, "{sql}: {line}");
    }
}
