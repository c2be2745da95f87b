//! The Flight door over sockets: flights, tickets, tokens, slow clients and clients that disconnect.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod access;
#[path = "../../../storage/tests/support/eventually.rs"]
mod eventually;
mod node;
#[cfg(feature = "sql")]
mod sql;
mod streams;

use arrow::{
    array::{Array, RecordBatch},
    compute::concat_batches,
    datatypes::DataType,
};
use arrow_flight::{Action, FlightDescriptor};
use futures::TryStreamExt;
use serde_json::{Value, json};
use tonic::Code;

use self::node::{ROW_GROUPS, ROWS, Running, command, plain, refusal, rows, tickets, write};

#[tokio::test]
async fn a_flight_brings_the_rows_of_its_file() {
    let node = Running::start().await;
    let mut client = node.client().await;
    let info = client.get_flight_info(command(json!({"path": "lake/big.parquet"}))).await.unwrap();
    assert!(info.ordered);
    assert_eq!(info.total_records, (ROW_GROUPS * ROWS) as i64);
    assert!(info.endpoint.len() > 1 && info.endpoint.len() <= 64, "{}", info.endpoint.len());
    assert!(info.endpoint.iter().all(|endpoint| endpoint.location.is_empty()));
    assert!(info.endpoint.iter().all(|endpoint| endpoint.expiration_time.is_some()));
    let whole = rows(&mut client, command(json!({"path": "lake/big.parquet"}))).await;
    assert_eq!(plain(&whole), node.file("lake/big.parquet"));
    let stats = node.node.metrics().flight_stats();
    assert_eq!(stats.rows, (ROW_GROUPS * ROWS) as u64);
    assert!(stats.bytes > (ROW_GROUPS * ROWS * 512) as u64);
    assert_eq!(stats.methods["GetFlightInfo"]["OK"], 2);
    assert_eq!(stats.methods["DoGet"]["OK"], info.endpoint.len() as u64);
}

#[tokio::test]
async fn folders_patterns_and_paths_are_read_file_after_file() {
    let node = Running::start().await;
    let mut client = node.client().await;
    let files = ["lake/orders/1.parquet", "lake/orders/2.parquet"].map(|path| node.file(path));
    let both = concat_batches(&files[0].schema(), &files).unwrap();
    let path = FlightDescriptor::new_path(vec!["lake".to_owned(), "orders".to_owned()]);
    for descriptor in [
        command(json!({"path": "lake/orders"})),
        command(json!({"path": "lake/orders/"})),
        command(json!({"path": "lake/orders/*.parquet"})),
        command(json!({"path": "lake/**/[12].parquet"})),
        path,
    ] {
        assert_eq!(plain(&rows(&mut client, descriptor).await), both);
    }
}

#[tokio::test]
async fn a_command_may_state_a_schema_of_thousands_of_columns() {
    let node = Running::start().await;
    let mut client = node.client().await;
    let column = |at: usize| match at {
        0 => json!({"name": "n", "type": "int64"}),
        at => json!({"name": format!("no column of the file {at}"), "type": "string"}),
    };
    let schema: Vec<_> = (0..4_000).map(column).collect();
    let stated = json!({"path": "lake/big.parquet", "schema": schema, "columns": ["n"]});
    let read = rows(&mut client, command(stated)).await;
    assert_eq!(read.column(0), node.file("lake/big.parquet").column(0));
}

#[tokio::test]
async fn columns_filters_limits_and_batch_sizes_are_as_asked_for() {
    let node = Running::start().await;
    let mut client = node.client().await;
    let file = node.file("lake/big.parquet");

    let two = rows(&mut client, command(json!({"path": "lake/big.parquet", "columns": ["text", "n"]}))).await;
    assert_eq!(plain(&two), file.project(&[2, 0]).unwrap());

    let filtered = command(json!({"path": "lake/big.parquet", "where": "n >= 100 AND n < 2100"}));
    let info = client.get_flight_info(filtered.clone()).await.unwrap();
    assert_eq!(info.total_records, -1);
    assert_eq!(plain(&rows(&mut client, filtered).await), file.slice(100, 2_000));

    let limited = command(json!({"path": "lake/big.parquet", "limit": 5_000, "batch_rows": 700}));
    let info = client.get_flight_info(limited.clone()).await.unwrap();
    assert_eq!((info.endpoint.len(), info.total_records), (1, 5_000));
    let batches: Vec<RecordBatch> =
        client.do_get(tickets(&info).remove(0)).await.unwrap().try_collect().await.unwrap();
    assert!(batches.iter().all(|batch| batch.num_rows() <= 700));
    assert_eq!(plain(&concat_batches(&batches[0].schema(), &batches).unwrap()), file.slice(0, 5_000));

    for nothing in [json!({"limit": 0}), json!({"where": "n < 0"})] {
        let mut command_of = json!({"path": "lake/big.parquet"});
        command_of.as_object_mut().unwrap().extend(nothing.as_object().unwrap().clone());
        let empty = rows(&mut client, command(command_of)).await;
        assert_eq!((empty.num_rows(), empty.num_columns()), (0, 3));
    }
}

#[tokio::test]
async fn dictionaries_come_as_asked_for() {
    let node = Running::start().await;
    let mut client = node.client().await;
    let is_dictionary = |batch: &RecordBatch| -> Vec<bool> {
        let types = batch.columns().iter().map(|column| column.data_type().clone());
        types.map(|data_type| matches!(data_type, DataType::Dictionary(_, _))).collect()
    };

    for (dictionary, expected) in [
        (json!("auto"), [false, true, false]),
        (json!(true), [false, true, true]),
        (json!(false), [false, false, false]),
        (json!(["text"]), [false, false, true]),
    ] {
        let descriptor = command(json!({"path": "lake/orders/1.parquet", "dictionary": dictionary}));
        let schema = client.get_schema(descriptor.clone()).await.unwrap();
        let batch = rows(&mut client, descriptor).await;
        assert_eq!(is_dictionary(&batch), expected, "{dictionary}");
        assert_eq!(&schema, batch.schema().as_ref());
        assert_eq!(plain(&batch), node.file("lake/orders/1.parquet"));
    }
}

#[tokio::test]
async fn what_cannot_be_scanned_is_refused_with_a_reason() {
    let node = Running::start().await;
    let mut client = node.client().await;
    std::fs::write(node.folder.path().join("lake/text.parquet"), "not parquet at all, but long enough")
        .unwrap();
    node::settle(&node.folder.path().join("lake/text.parquet"), 3_600);
    for (more, code, said) in [
        (json!({"path": "lake/none.parquet"}), Code::NotFound, "none.parquet"),
        (json!({"path": "lake/none/*.parquet"}), Code::NotFound, "none"),
        (json!({"path": "sea/a.parquet"}), Code::NotFound, "no such bucket"),
        (json!({"path": "lake/big.parquet", "columns": ["m"]}), Code::InvalidArgument, "no column m"),
        (json!({"path": "lake/big.parquet", "where": "m < 1"}), Code::InvalidArgument, "m"),
        (json!({"path": "lake/big.parquet", "where": "n <"}), Code::InvalidArgument, "filter"),
        (json!({"path": "lake/big.parquet", "where": "n = (SELECT 1)"}), Code::InvalidArgument, "filter"),
        (json!({"path": "lake/big.parquet", "limits": 1}), Code::InvalidArgument, "unknown field `limits`"),
        (json!({"path": "lake/big.parquet", "version": 2}), Code::InvalidArgument, "version 2"),
    ] {
        let refused = refusal(client.get_flight_info(command(more.clone())).await);
        assert_eq!(refused.0, code, "{more}: {refused:?}");
        assert!(refused.1.contains(said), "{more}: {refused:?}");
        assert!(!refused.1.contains(node.folder.path().to_str().unwrap()), "{refused:?}");
        assert_eq!(refusal(client.get_schema(command(more)).await).0, code);
    }

    let refused = refusal(client.get_flight_info(command(json!({"path": "lake/text.parquet"}))).await);
    assert!(matches!(refused.0, Code::InvalidArgument | Code::DataLoss), "{refused:?}");
    assert!(refused.1.starts_with("lake/text.parquet: "), "{refused:?}");
    assert!(!refused.1.contains(node.folder.path().to_str().unwrap()), "{refused:?}");
}

#[tokio::test]
async fn a_file_that_was_replaced_ends_its_flight() {
    let node = Running::start_with(|config| {
        config.buckets[0].consistency = "strict".parse().unwrap();
    })
    .await;
    let mut client = node.client().await;
    let info = client.get_flight_info(command(json!({"path": "lake/orders/1.parquet"}))).await.unwrap();
    let path = node.folder.path().join("lake/orders/1.parquet");
    write(&path, 5, 3);
    node::settle(&path, 1_800);

    for ticket in tickets(&info) {
        let answer = match client.do_get(ticket).await {
            Ok(batches) => batches.try_collect::<Vec<_>>().await.map(drop),
            Err(refused) => Err(refused),
        };
        assert_eq!(refusal(answer).0, Code::Aborted);
    }
}

#[tokio::test]
async fn flights_are_listed_by_bucket_and_prefix() {
    let node = Running::start().await;
    let mut client = node.client().await;
    std::fs::write(node.folder.path().join("lake/notes.txt"), "text").unwrap();
    std::fs::create_dir_all(node.folder.path().join("lake/empty")).unwrap();
    let mut paths = async |criteria: String| -> Vec<String> {
        let flights: Vec<_> = client.list_flights(criteria).await.unwrap().try_collect().await.unwrap();
        flights.into_iter().map(|info| info.flight_descriptor.unwrap().path.join("/")).collect()
    };

    assert_eq!(paths(String::new()).await, ["lake/big.parquet", "lake/orders", "pond/p.parquet"]);
    assert_eq!(paths(json!({"path": "lake"}).to_string()).await, ["lake/big.parquet", "lake/orders"]);
    assert_eq!(paths(json!({"path": "lake/or"}).to_string()).await, ["lake/orders"]);
    let within = ["lake/orders/1.parquet", "lake/orders/2.parquet"];
    assert_eq!(paths(json!({"path": "lake/orders/"}).to_string()).await, within);
    assert!(paths(json!({"path": "lake/none"}).to_string()).await.is_empty());

    for (criteria, code) in [
        ("lake", Code::InvalidArgument),
        ("{}", Code::InvalidArgument),
        (r#"{"path":"lake/../pond"}"#, Code::InvalidArgument),
        (r#"{"path":"sea"}"#, Code::NotFound),
    ] {
        let answer = match client.list_flights(criteria).await {
            Ok(flights) => flights.try_collect::<Vec<_>>().await.map(drop),
            Err(refused) => Err(refused),
        };
        assert_eq!(refusal(answer).0, code, "{criteria}");
    }
}

#[tokio::test]
async fn actions_warm_evict_and_tell() {
    let node = Running::start().await;
    let mut client = node.client().await;
    let actions: Vec<_> = client.list_actions().await.unwrap().try_collect().await.unwrap();
    let names: Vec<_> = actions.iter().map(|action| action.r#type.as_str()).collect();
    // The actions of Flight SQL follow.
    assert_eq!(names[..5], ["warm", "evict", "stats", "cluster", "healthcheck"]);
    let mut act = async |name: &str, body: Value| -> Value {
        let answers: Vec<_> =
            client.do_action(Action::new(name, body.to_string())).await.unwrap().try_collect().await.unwrap();
        assert_eq!(answers.len(), 1);
        serde_json::from_slice(&answers[0]).unwrap()
    };

    assert_eq!(act("healthcheck", Value::Null).await, json!({"status": "ok"}));
    let warmed = act("warm", json!({"path": "lake/orders/"})).await;
    assert_eq!((&warmed["objects"], &warmed["failed"]), (&json!(2), &json!(0)));
    let stats = act("stats", Value::Null).await;
    assert_eq!(stats["flight"]["methods"]["DoAction"]["OK"], json!(2));
    assert!(stats["columns"]["capacity"].as_u64().unwrap() > 0);
    assert_eq!(act("evict", json!({"path": "lake/orders/"})).await, json!({"objects": 2}));

    for (name, body) in [
        ("warm", "{}"),
        ("warm", "{\"path\": \"lake\", \"more\": 1}"),
        ("evict", "{\"path\": \"lake/../x\"}"),
        ("destroy", ""),
    ] {
        let answer = match client.do_action(Action::new(name, body.to_owned())).await {
            Ok(answers) => answers.try_collect::<Vec<_>>().await.map(drop),
            Err(refused) => Err(refused),
        };
        assert_eq!(refusal(answer).0, Code::InvalidArgument, "{name} {body}");
    }
}

#[tokio::test]
async fn what_the_door_does_not_do_is_unimplemented() {
    let node = Running::start().await;
    let mut client = node.client().await;
    let put = client.do_put(futures::stream::empty()).await;
    assert_eq!(refusal(put).0, Code::Unimplemented);
    let exchange = client.do_exchange(futures::stream::empty()).await;
    assert_eq!(refusal(exchange).0, Code::Unimplemented);
    let poll = client.poll_flight_info(command(json!({"path": "lake/big.parquet"}))).await;
    assert_eq!(refusal(poll).0, Code::Unimplemented);
}
