//! Streams: a slow client slows down the scan, a disconnect cancels it, and a stopping node lets it finish.

use std::time::Duration;

use arrow::array::RecordBatch;
use arrow_flight::decode::FlightRecordBatchStream;
use futures::TryStreamExt;
use serde_json::{Value, json};
use stylobate_storage::ByteSize;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tonic::Code;

use super::node::{ROW_GROUPS, ROWS, Running, command, plain, refusal, tickets};

/// Starts a stream of all 64 MiB and reads one batch. The row limit makes it a single endpoint.
async fn begun(node: &Running) -> (FlightRecordBatchStream, RecordBatch) {
    let mut client = node.client().await;
    let all = command(json!({"path": "lake/big.parquet", "limit": u64::MAX, "dictionary": false}));
    let info = client.get_flight_info(all).await.unwrap();
    let mut batches = client.do_get(tickets(&info).remove(0)).await.unwrap();
    let first = batches.try_next().await.unwrap().unwrap();
    (batches, first)
}

/// Waits until nothing has been decoded for a while, and returns the number decoded.
async fn settled(node: &Running) -> u64 {
    loop {
        let before = node.decoded();
        tokio::time::sleep(Duration::from_millis(500)).await;
        if node.decoded() == before {
            return before;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_waits_holds_the_scan_back() {
    // There is memory for all of the data, so that only the client holds the scan back.
    let node = Running::start_with(|config| config.settings.memory = ByteSize::gib(1)).await;
    let (batches, first) = begun(&node).await;
    let decoded = settled(&node).await;
    assert_eq!(node.node.metrics().flight_stats().active_streams, 1);
    let limit = (3 * ROW_GROUPS / 2) as u64;
    assert!(decoded < limit, "{decoded} of {} chunks were decoded while the client waits", 3 * ROW_GROUPS);
    assert!(node.node.metrics().flight_stats().bytes < 16 << 20);

    let rest: Vec<_> = batches.try_collect().await.unwrap();
    let all: Vec<_> = [first].into_iter().chain(rest).collect();
    let all = arrow::compute::concat_batches(&all[0].schema(), &all).unwrap();
    assert_eq!(plain(&all), node.file("lake/big.parquet"));
    node.idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_away_ends_the_scan() {
    let node = Running::start().await;
    let (batches, _) = begun(&node).await;
    assert_eq!(node.node.metrics().flight_stats().active_streams, 1);
    drop(batches);
    node.idle().await;
    let stats = node.node.metrics().flight_stats();
    assert_eq!(stats.methods["DoGet"]["CANCELLED"], 1);
    assert!(stats.rows < (ROW_GROUPS * ROWS) as u64);
    let decoded = settled(&node).await;
    assert!(decoded < 3 * ROW_GROUPS as u64, "{decoded}");
}

/// Sends a request to the admin door, and returns the JSON answer.
pub(crate) async fn ask_admin(node: &Running, method: &str, path: &str, body: &str) -> Value {
    let mut stream = TcpStream::connect(node.admin).await.unwrap();
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    );
    stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_listed_and_can_be_cancelled_at_the_admin_door() {
    let node = Running::start().await;
    let (mut batches, first) = begun(&node).await;
    let listed = ask_admin(&node, "GET", "/api/reads", "").await;
    let read = &listed["reads"][0];
    assert_eq!((&read["kind"], &read["text"]), (&json!("scan"), &json!("lake/big.parquet")));
    assert_eq!(read["total_rows"], ROW_GROUPS * ROWS);
    let rows = read["rows"].as_u64().unwrap();
    assert!(rows >= first.num_rows() as u64 && rows < (ROW_GROUPS * ROWS) as u64, "{rows}");

    let cancel = json!({ "id": read["id"] }).to_string();
    let answer = ask_admin(&node, "POST", "/api/reads/cancel", &cancel).await;
    assert_eq!(answer, json!({ "cancelled": true }));
    let ended = loop {
        match batches.try_next().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("not cancelled"),
            Err(error) => break refusal(Err::<(), _>(error)),
        }
    };
    assert_eq!((ended.0, ended.1.contains("cancelled")), (Code::Cancelled, true), "{}", ended.1);

    node.idle().await;
    assert_eq!(ask_admin(&node, "GET", "/api/reads", "").await["reads"], json!([]));
    let hot = ask_admin(&node, "GET", "/api/hot", "").await;
    assert_eq!((&hot["objects"][0]["key"], &hot["objects"][0]["reads"]), (&json!("big.parquet"), &json!(1)));
    assert!(hot["objects"][0]["bytes"].as_u64().unwrap() > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_under_way_is_finished_before_the_node_stops() {
    let node = Running::start().await;
    let (batches, first) = begun(&node).await;
    let Running { stop, served, folder, .. } = node;
    stop.send(()).unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!served.is_finished());
    let rest: Vec<_> = batches.try_collect().await.unwrap();
    let rows = first.num_rows() + rest.iter().map(RecordBatch::num_rows).sum::<usize>();
    assert_eq!(rows, ROW_GROUPS * ROWS);
    tokio::time::timeout(Duration::from_secs(10), served).await.unwrap().unwrap().unwrap();
    drop(folder);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_takes_too_long_is_cut_off_when_the_node_stops() {
    let node = Running::start_with(|config| config.settings.drain_timeout = Duration::from_millis(300)).await;
    let (batches, _) = begun(&node).await;
    // A connection that never sent a byte does not delay the node either.
    let _silent = TcpStream::connect(node.flight).await.unwrap();
    node.stop.send(()).unwrap();
    tokio::time::timeout(Duration::from_secs(10), node.served).await.unwrap().unwrap().unwrap();
    assert!(batches.try_collect::<Vec<_>>().await.is_err());
}

#[tokio::test]
async fn who_does_not_speak_http2_is_shown_out() {
    let node = Running::start().await;
    for words in ["GET / HTTP/1.1\r\nhost: localhost\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\r", "\0\0\0\0"]
    {
        let mut stream = TcpStream::connect(node.flight).await.unwrap();
        stream.write_all(words.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        assert!(answer.is_empty(), "{answer:?}");
    }

    let noise: Vec<u8> =
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".iter().copied().chain((0..=255).cycle().take(10_000)).collect();
    let mut stream = TcpStream::connect(node.flight).await.unwrap();
    let _ = stream.write_all(&noise).await;
    let _ = stream.read_to_end(&mut Vec::new()).await;
    let rows = super::node::rows(&mut node.client().await, command(json!({"path": "pond/p.parquet"}))).await;
    assert_eq!(rows.num_rows(), ROWS);
}
