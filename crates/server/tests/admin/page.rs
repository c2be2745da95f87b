//! The status page and its requests: history, hot objects, running reads, and browsing of the buckets.

use std::{fs, sync::Arc};

use arrow::{
    array::{ArrayRef, Int64Array, RecordBatch, StringArray},
    datatypes::{DataType, Field, Schema},
};
use parquet::{arrow::ArrowWriter, file::properties::WriterProperties};
use serde_json::{Value, json};
use stylobate_server::config::{AccessKeyConfig, Secret};

use super::{Answer, Running, eventually::eventually, request, write_settled};

/// Returns the texts from each `before` to the next quote.
fn quoted<'a>(text: &'a str, before: &str) -> Vec<&'a str> {
    text.split(before).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

#[tokio::test]
async fn the_page_needs_nothing_from_elsewhere() {
    let node = Running::start(Vec::new()).await;
    let page = node.get("/").await;
    assert_eq!(page.status, 200);
    assert!(page.head.contains("content-type: text/html"));

    let mut waiting: Vec<String> = [quoted(&page.body, "src=\""), quoted(&page.body, "href=\"")]
        .concat()
        .into_iter()
        .filter(|link| !link.starts_with('#') && *link != "api/stats")
        .map(str::to_owned)
        .collect();
    assert!(waiting.contains(&"web/app.js".to_owned()) && waiting.contains(&"web/style.css".to_owned()));

    let mut answers = vec![("the page".to_owned(), page)];
    let mut seen = Vec::new();
    while let Some(path) = waiting.pop() {
        assert!(path.starts_with("web/"), "{path} is not of the node");
        if seen.contains(&path) {
            continue;
        }
        let answer = node.get(&format!("/{path}")).await;
        assert_eq!(answer.status, 200, "{path}");
        waiting.extend(quoted(&answer.body, "from \"./").into_iter().map(|module| format!("web/{module}")));
        seen.push(path.clone());
        answers.push((path, answer));
    }
    assert!(seen.contains(&"web/chart.js".to_owned()), "{seen:?}");

    for (path, answer) in answers {
        for header in ["default-src 'none'", "script-src 'self'", "nosniff", "cache-control: no-store"] {
            assert!(answer.head.contains(header), "{path}: {header}");
        }
        assert!(!answer.head.contains("unsafe-inline"), "{path}");
        let namespace = "xmlns=\"http://www.w3.org/2000/svg\"";
        let text = if path.ends_with(".svg") { answer.body.replace(namespace, "") } else { answer.body };
        for elsewhere in ["http://", "https://", "@import", "url(", "innerHTML", " style=\"", "onclick"] {
            assert!(!text.contains(elsewhere), "{path}: {elsewhere}");
        }
    }
    assert_eq!(node.get("/web/../stats.rs").await.status, 404);
    assert_eq!(node.get("/web/other.js").await.status, 404);
}

#[tokio::test]
async fn the_session_tells_what_the_caller_may_do() {
    let node = Running::start(Vec::new()).await;
    let session = node.get("/api/session").await.json();
    assert_eq!(session["keys"], false);
    assert_eq!(session["access_key"], Value::Null);
    assert_eq!((&session["may_change"], &session["may_operate"]), (&json!(["lake"]), &json!(true)));
    assert_eq!(session["sql"], cfg!(feature = "sql"));

    let node = Running::start(vec![key("viewer", "*", &[], false), key("admin", "*", &[], true)]).await;
    let session = node.get_as("/api/session", "Bearer viewer-secret").await.json();
    assert_eq!((&session["keys"], &session["access_key"]), (&json!(true), &json!("viewer")));
    assert_eq!((&session["may_change"], &session["may_operate"]), (&json!([]), &json!(false)));
    let session = node.get_as("/api/session", "Bearer admin-secret").await.json();
    assert_eq!((&session["may_change"], &session["may_operate"]), (&json!(["lake"]), &json!(true)));
}

#[cfg(not(feature = "sql"))]
#[tokio::test]
async fn a_node_without_sql_says_so() {
    let node = Running::start(Vec::new()).await;
    let answer = node.post_json("/api/sql", json!({ "sql": "SELECT 1" })).await;
    assert_eq!((answer.status, answer.json()["error"].is_string()), (404, true), "{}", answer.body);
}

#[tokio::test]
async fn the_health_of_each_part_is_shown_with_status_200() {
    let node = Running::start(Vec::new()).await;
    let health = node.get("/api/health").await;
    assert_eq!(health.status, 200);
    let expected =
        json!({ "ready": true, "degraded": false, "checks": [{ "name": "bucket lake", "ok": true }] });
    assert_eq!(health.json(), expected);
}

#[tokio::test]
async fn the_history_has_what_happened_in_each_second() {
    let node = Running::start(Vec::new()).await;
    let samples = async || {
        let history = node.get("/api/history?every=1s").await.json();
        assert_eq!((&history["every_ms"], &history["capacity"]), (&json!(1_000), &json!(600)));
        history["samples"].as_array().unwrap().clone()
    };
    eventually("a first sample", async || !samples().await.is_empty()).await;

    node.post_json("/api/warm", json!({ "bucket": "lake" })).await;
    assert_eq!(read(&node, "/lake/tables/a").await.status, 200);
    let sum = |samples: &[Value], of: &dyn Fn(&Value) -> &Value| {
        samples.iter().map(|sample| of(sample).as_u64().unwrap()).sum::<u64>()
    };
    eventually("the reads to be sampled", async || {
        let samples = samples().await;
        sum(&samples, &|sample| &sample["requests"]) == 1
            && sum(&samples, &|sample| &sample["bytes"]["origin"]) == 3_001_030
            && sum(&samples, &|sample| &sample["bytes"]["memory"]) >= 1_000
            && samples.iter().any(|sample| sample["latency"]["p99_ms"].is_number())
    })
    .await;

    let all = samples().await;
    let at = all[0]["at_ms"].as_u64().unwrap();
    let later = node.get(&format!("/api/history?every=1s&since={at}")).await.json();
    assert_eq!(later["samples"][0], all[1]);
    let minutes = node.get("/api/history?every=1m").await.json();
    assert_eq!((&minutes["capacity"], &minutes["samples"]), (&json!(1_440), &json!([])));
    for wrong in ["", "?every=2s", "?every=1s&since=x", "?every=1s&until=1"] {
        let answer = node.get(&format!("/api/history{wrong}")).await;
        assert_eq!(answer.status, 400, "{wrong}");
        assert!(answer.json()["error"].is_string());
    }
}

#[tokio::test]
async fn what_is_read_often_is_hot_and_what_came_from_the_cache_is_saved() {
    let node = Running::start(Vec::new()).await;
    for _ in 0..3 {
        assert_eq!(read(&node, "/lake/tables/a").await.status, 200);
    }
    assert_eq!(read(&node, "/lake/z").await.status, 200);
    assert_eq!(request(node.s3, "HEAD /lake/z HTTP/1.1\r\n").await.status, 200);

    let hot = node.get("/api/hot").await.json();
    let object = |key: &str, reads: u64, bytes: u64| json!({ "bucket": "lake", "key": key, "reads": reads, "bytes": bytes, "overcount": 0 });
    assert_eq!(hot["objects"], json!([object("tables/a", 3, 3_000), object("z", 1, 20)]));
    assert_eq!(hot["folders"], json!([object("tables/", 3, 3_000)]));
    let first = node.get("/api/hot?top=1").await.json();
    assert_eq!(first["objects"], json!([object("tables/a", 3, 3_000)]));
    assert_eq!(node.get("/api/hot?top=-1").await.status, 400);

    eventually("all answers to be counted", async || {
        node.get("/api/stats").await.json()["requests"]["requests"] == 5
    })
    .await;
    let stats = node.get("/api/stats").await.json();
    let saved = &stats["buckets"][0]["saved"];
    assert!(saved["bytes"].as_u64().unwrap() >= 2_000, "{saved}");
    let sent = &stats["buckets"][0]["reads"];
    let sent =
        ["origin_gets", "origin_heads", "reads_passed_through"].map(|name| sent[name].as_u64().unwrap());
    assert_eq!(saved["requests"], 5_u64.saturating_sub(sent.iter().sum()));
}

#[tokio::test]
async fn a_bucket_is_listed_page_by_page() {
    let node = Running::start(Vec::new()).await;
    let many = node.folder.path().join("many");
    fs::create_dir(&many).unwrap();
    (0..250).for_each(|n| write_settled(&many.join(format!("{n:03}")), vec![7; n]));

    let top = node.get("/api/list?bucket=lake").await.json();
    assert_eq!(top["folders"], json!(["many/", "tables/"]));
    let objects: Vec<_> =
        top["objects"].as_array().unwrap().iter().map(|it| (&it["key"], &it["size"])).collect();
    assert_eq!(objects, [(&json!("tablets"), &json!(10)), (&json!("z"), &json!(20))]);
    assert!(top["objects"][0]["modified"].as_str().unwrap().ends_with('Z'));
    assert_eq!(top["next"], Value::Null);

    let first = node.get("/api/list?bucket=lake&prefix=many%2F").await.json();
    assert_eq!(first["objects"].as_array().unwrap().len(), 200);
    let token = first["next"].as_str().unwrap();
    let second = node.get(&format!("/api/list?bucket=lake&prefix=many%2F&token={token}")).await.json();
    let objects = second["objects"].as_array().unwrap();
    assert_eq!(
        (objects.len(), &objects[0]["key"], &objects[49]["size"]),
        (50, &json!("many/200"), &json!(249))
    );
    assert_eq!(second["next"], Value::Null);

    for (path, status) in
        [("?bucket=sea", 404), ("", 400), ("?bucket=lake&token=x", 400), ("?bucket=lake&delimiter=x", 400)]
    {
        assert_eq!(node.get(&format!("/api/list{path}")).await.status, status, "{path}");
    }
}

#[tokio::test]
async fn a_file_is_described_and_its_first_rows_are_shown() {
    let node = Running::start(Vec::new()).await;
    write_table(&node, "tables/t.parquet");

    let file = node.get("/api/inspect?bucket=lake&key=tables%2Ft.parquet").await;
    assert_eq!(file.status, 200, "{}", file.body);
    let file = file.json();
    assert_eq!((&file["object"], &file["format"]), (&json!("lake/tables/t.parquet"), &json!("parquet")));
    assert_eq!(
        (&file["rows"], &file["columns_total"], &file["parts_total"]),
        (&json!(1_000), &json!(2), &json!(4))
    );
    assert_eq!((&file["columns"][0]["name"], &file["columns"][0]["max"]), (&json!("n"), &json!(999)));
    assert_eq!(file["parts"][1]["rows"], 250);
    assert_eq!(file["parts"][1]["columns"], Value::Null);
    let file = node.get("/api/inspect?bucket=lake&key=tables%2Ft.parquet&row_group=1").await.json();
    assert_eq!(file["parts"][1]["columns"][0]["min"], 250);
    assert_eq!(file["parts"][0]["columns"], Value::Null);

    let rows = node.get("/api/rows?bucket=lake&key=tables%2Ft.parquet&rows=2").await;
    assert_eq!(rows.status, 200, "{}", rows.body);
    let rows = rows.json();
    assert_eq!(rows["columns"], json!([{ "name": "n", "type": "Int64" }, { "name": "t", "type": "Utf8" }]));
    assert_eq!(rows["rows"], json!([["0", null], ["1", "<b>"]]));
    assert_eq!((&rows["rows_total"], &rows["columns_total"]), (&json!(1_000), &json!(2)));
    let rows = node.get("/api/rows?bucket=lake&key=tables%2Ft.parquet").await.json();
    assert_eq!(rows["rows"].as_array().unwrap().len(), 50);
    assert_eq!(node.get("/api/reads").await.json(), json!({ "reads": [], "unlisted": 0 }));
}

#[tokio::test]
async fn what_cannot_be_shown_is_refused() {
    let node = Running::start(Vec::new()).await;
    write_table(&node, "t.parquet");
    for (path, status) in [
        ("inspect?bucket=lake&key=t.parquet&row_group=4", 404),
        ("inspect?bucket=lake&key=none.parquet", 404),
        ("inspect?bucket=sea&key=t.parquet", 404),
        ("inspect?bucket=lake&key=tables%2Fa", 422),
        ("inspect?bucket=lake&key=*.parquet", 400),
        ("inspect?bucket=lake&key=", 400),
        ("inspect?bucket=lake", 400),
        ("rows?bucket=lake&key=..%2Fsecret.parquet", 400),
        ("rows?bucket=lake&key=.stylobate-uploads%2Fx", 404),
        ("rows?bucket=lake&key=t.parquet&rows=0", 400),
        ("rows?bucket=lake&key=t.parquet&rows=501", 400),
        ("rows?bucket=lake&key=tables%2Fa", 422),
    ] {
        let answer = node.get(&format!("/api/{path}")).await;
        assert_eq!(answer.status, status, "{path}: {}", answer.body);
        assert!(answer.json()["error"].is_string(), "{path}");
        assert!(!answer.body.contains(node.folder.path().to_str().unwrap()), "{path}: {}", answer.body);
    }
}

#[tokio::test]
async fn a_key_looks_only_where_it_reads() {
    let keys = vec![key("limited", "lake", &["tables/"], false), key("other", "pond", &[], true)];
    let node = Running::start(keys).await;
    write_table(&node, "tables/t.parquet");
    write_table(&node, "t.parquet");
    for (path, limited) in [
        ("list?bucket=lake&prefix=tables%2F", 200),
        ("list?bucket=lake", 403),
        ("inspect?bucket=lake&key=tables%2Ft.parquet", 200),
        ("inspect?bucket=lake&key=t.parquet", 403),
        ("rows?bucket=lake&key=tables%2Ft.parquet", 200),
        ("rows?bucket=lake&key=t.parquet", 403),
        ("rows?bucket=lake&key=tables%2F..%2Ft.parquet", 400),
    ] {
        let path = format!("/api/{path}");
        assert_eq!(node.get_as(&path, "Bearer limited-secret").await.status, limited, "{path}");
        assert_eq!(node.get_as(&path, "Bearer other-secret").await.status, 403, "{path}");
        assert_eq!(node.get(&path).await.status, 401, "{path}");
    }
}

#[tokio::test]
async fn names_of_all_objects_are_for_keys_without_prefixes() {
    let node =
        Running::start(vec![key("limited", "*", &["tables/"], false), key("viewer", "*", &[], false)]).await;
    for path in ["/api/hot", "/api/reads"] {
        assert_eq!(node.get_as(path, "Bearer limited-secret").await.status, 403, "{path}");
        assert_eq!(node.get_as(path, "Bearer viewer-secret").await.status, 200, "{path}");
    }
    assert_eq!(node.get_as("/api/history?every=1s", "Bearer limited-secret").await.status, 200);
}

#[tokio::test]
async fn only_a_key_that_writes_everywhere_cancels_reads() {
    let node = Running::start(vec![key("viewer", "*", &[], false), key("admin", "*", &[], true)]).await;
    for (secret, status) in [("viewer-secret", 403), ("admin-secret", 404), ("x", 401)] {
        let headers = format!("content-type: application/json\r\nauthorization: Bearer {secret}\r\n");
        let answer = node.post("/api/reads/cancel", "{\"id\":7}", &headers).await;
        assert_eq!(answer.status, status, "{secret}");
    }
    let plain = "content-type: text/plain\r\nauthorization: Bearer admin-secret\r\n";
    assert_eq!(node.post("/api/reads/cancel", "{\"id\":7}", plain).await.status, 415);
}

pub(super) fn key(id: &str, bucket: &str, prefixes: &[&str], write: bool) -> AccessKeyConfig {
    AccessKeyConfig {
        id: id.to_owned(),
        secret: Secret::new(format!("{id}-secret")),
        token: None,
        buckets: vec![bucket.to_owned()],
        prefixes: prefixes.iter().map(|&prefix| prefix.to_owned()).collect(),
        write,
    }
}

async fn read(node: &Running, path: &str) -> Answer {
    request(node.s3, &format!("GET {path} HTTP/1.1\r\n")).await
}

/// Writes a thousand rows in four row groups.
pub(super) fn write_table(node: &Running, name: &str) {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1_000));
    let texts: ArrayRef = Arc::new(StringArray::from_iter((0..1_000).map(|n| (n % 2 == 1).then_some("<b>"))));
    let fields = vec![Field::new("n", DataType::Int64, false), Field::new("t", DataType::Utf8, true)];
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), vec![numbers, texts]).unwrap();

    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(250)).build();
    let mut file = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    write_settled(&node.folder.path().join(name), &file);
}
