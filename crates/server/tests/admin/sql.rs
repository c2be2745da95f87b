//! SQL at the admin door: first rows as text, rights, limits, errors and cancellation.

use std::{fs, net::SocketAddr, time::Duration};

use serde_json::{Value, json};

use super::{
    Answer, Running,
    eventually::eventually,
    exchange,
    page::{key, write_table},
};

/// A source of rows that takes hours to read: half of the rows of a table have the same text, and are joined with
/// each other.
const MANY_ROWS: &str = "FROM lake.t a JOIN (SELECT b.t FROM lake.t b JOIN (SELECT c.t FROM lake.t c JOIN lake.t d \
                         ON c.t = d.t) e ON b.t = e.t) f ON a.t = f.t";

/// Returns a query that yields no row until its end, which takes hours.
fn endless() -> String {
    format!("SELECT count(*) {MANY_ROWS}")
}

async fn start() -> Running {
    let node = Running::start(Vec::new()).await;
    write_table(&node, "t.parquet");
    write_table(&node, "tables/t.parquet");
    node
}

/// Posts a query with additional header lines.
async fn post(admin: SocketAddr, query: Value, headers: &str) -> Answer {
    let body = query.to_string();
    let length = body.len();
    let head = format!(
        "POST /api/sql HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {length}\r\n\
         content-type: application/json\r\n{headers}"
    );
    exchange(admin, &format!("{head}\r\n{body}")).await
}

async fn answered(node: &Running, query: Value) -> Value {
    let answer = node.post_json("/api/sql", query).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.json()
}

async fn refused(node: &Running, sql: &str) -> (u16, String) {
    let answer = node.post_json("/api/sql", json!({ "sql": sql })).await;
    (answer.status, answer.json()["error"].as_str().unwrap_or_default().to_owned())
}

/// Waits until a query is listed and its join holds rows in memory.
async fn joins(node: &Running) {
    eventually("the join to run", async || {
        node.get("/api/reads").await.json()["reads"][0]["kind"] == "query"
            && node.node.columns().stats().held_bytes > 0
    })
    .await;
}

/// Waits until no read is running and no memory is held for queries.
async fn idle(node: &Running) {
    eventually("the query to end", async || {
        node.get("/api/reads").await.json()["reads"] == json!([])
            && node.node.columns().stats().held_bytes == 0
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_answers_with_its_first_rows_as_text() {
    let node = start().await;
    let sql = "SELECT n, t FROM 'lake/tables/t.parquet' ORDER BY n";
    let first = answered(&node, json!({ "sql": sql, "limit": 2 })).await;
    assert_eq!(first["columns"], json!([{ "name": "n", "type": "Int64" }, { "name": "t", "type": "Utf8" }]));
    assert_eq!(first["rows"], json!([["0", null], ["1", "<b>"]]));
    assert_eq!((&first["more"], &first["columns_total"]), (&json!(true), &json!(2)));
    assert!(first["elapsed_ms"].as_f64().unwrap() > 0.0);

    let joined =
        "SELECT count(*) AS c, max(b.t) AS t FROM lake.t a JOIN 'lake/tables/t.parquet' b ON a.n = b.n + 1";
    let joined = answered(&node, json!({ "sql": joined })).await;
    assert_eq!((&joined["rows"], &joined["more"]), (&json!([["999", "<b>"]]), &json!(false)));
    let none = answered(&node, json!({ "sql": "SELECT n FROM lake.t WHERE n < 0" })).await;
    assert_eq!((&none["rows"], &none["columns"][0]["name"]), (&json!([]), &json!("n")));

    let tables = answered(&node, json!({ "sql": "SHOW TABLES" })).await.to_string();
    assert!(tables.contains("lake"), "{tables}");
    idle(&node).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_beyond_the_limit_are_not_read() {
    let node = start().await;
    let rows = async |sql: &str, limit: Option<u64>| {
        let report = answered(&node, json!({ "sql": sql, "limit": limit })).await;
        (report["rows"].as_array().unwrap().len(), report["more"].as_bool().unwrap())
    };
    assert_eq!(rows("SELECT * FROM lake.t", None).await, (50, true));
    assert_eq!(rows("SELECT * FROM lake.t LIMIT 50", None).await, (50, false));
    assert_eq!(rows("SELECT * FROM lake.t", Some(500)).await, (500, true));
    assert_eq!(rows(&format!("SELECT a.n {MANY_ROWS}"), Some(3)).await, (3, true));
    idle(&node).await;

    for (body, status) in [
        (json!({ "sql": "SELECT 1", "limit": 0 }), 400),
        (json!({ "sql": "SELECT 1", "limit": 501 }), 400),
        (json!({ "sql": "SELECT 1", "limits": 5 }), 422),
        (json!({ "limit": 5 }), 422),
    ] {
        assert_eq!(node.post_json("/api/sql", body.clone()).await.status, status, "{body}");
    }
    assert_eq!(
        node.post("/api/sql", "{\"sql\":\"SELECT 1\"}", "content-type: text/plain\r\n").await.status,
        415
    );
    assert_eq!(node.get("/api/sql").await.status, 405);
}

#[tokio::test(flavor = "multi_thread")]
async fn wide_rows_and_long_values_are_cut() {
    let node = start().await;
    let columns: Vec<String> = (0..300).map(|at| format!("{at} AS c{at}")).collect();
    let wide = answered(&node, json!({ "sql": format!("SELECT {}", columns.join(", ")) })).await;
    let lengths = |report: &Value| {
        (report["columns"].as_array().unwrap().len(), report["rows"][0].as_array().unwrap().len())
    };
    assert_eq!((lengths(&wide), &wide["columns_total"]), ((200, 200), &json!(300)));
    let long = answered(&node, json!({ "sql": "SELECT repeat('é', 1000) AS long" })).await;
    assert_eq!(long["rows"][0][0].as_str().unwrap().chars().count(), 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_say_where_and_what() {
    let node = start().await;
    for (sql, status, hint) in [
        ("SELECT 1\nFORM x", 400, "Line: 2"),
        ("SELECT m FROM lake.t", 400, "m"),
        ("SELECT 1 / (n - n) FROM lake.t", 400, "ivide by zero"),
        ("SELECT * FROM lake.tt", 404, "did you mean lake.t?"),
        ("INSERT INTO lake.t SELECT * FROM lake.t", 400, "only queries run here"),
        ("SELECT * FROM lake.t WHERE n = ?", 400, "parameters"),
    ] {
        let (found, said) = refused(&node, sql).await;
        assert_eq!(found, status, "{sql}: {said}");
        assert!(said.contains(hint) && !said.contains('\n'), "{sql}: {said}");
    }
    idle(&node).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_the_machine_are_out_of_reach() {
    let node = start().await;
    let file = node.folder.path().join("t.parquet");
    let file = file.to_str().unwrap();
    let target = node.folder.path().join("written.csv");
    let written = target.to_str().unwrap();
    for sql in [
        format!("SELECT * FROM '{file}'"),
        format!("SELECT * FROM 'file://{file}'"),
        format!("SELECT * FROM lake.\"{file}\""),
        "SELECT * FROM 'lake/../t.parquet'".to_owned(),
        format!("CREATE EXTERNAL TABLE x STORED AS PARQUET LOCATION '{file}'"),
        format!("COPY (SELECT 1) TO '{written}'"),
    ] {
        let (status, said) = refused(&node, &sql).await;
        assert!((400..500).contains(&status), "{sql}: {status} {said}");
    }
    assert!(fs::metadata(&target).is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_queries_what_it_reads() {
    let keys = vec![
        key("limited", "lake", &["tables/"], false),
        key("other", "pond", &[], true),
        key("viewer", "*", &[], false),
    ];
    let node = Running::start(keys).await;
    write_table(&node, "t.parquet");
    write_table(&node, "tables/t.parquet");
    let status = async |sql: &str, secret: &str| {
        let headers = format!("authorization: Bearer {secret}\r\n");
        post(node.admin, json!({ "sql": sql }), &headers).await.status
    };

    let top = "SELECT count(*) FROM lake.t";
    let within = "SELECT count(*) FROM 'lake/tables/t.parquet'";
    let both = "SELECT count(*) FROM lake.t a JOIN 'lake/tables/t.parquet' b ON a.n = b.n";
    for (secret, expected) in [
        ("viewer-secret", [200, 200, 200]),
        ("limited-secret", [403, 200, 403]),
        ("other-secret", [403, 403, 403]),
        ("wrong", [401, 401, 401]),
    ] {
        let found = [status(top, secret).await, status(within, secret).await, status(both, secret).await];
        assert_eq!(found, expected, "{secret}");
    }
    let answer = post(node.admin, json!({ "sql": "SELECT 1" }), "").await;
    assert_eq!(answer.status, 401);
    assert!(answer.head.contains("www-authenticate: basic"), "{}", answer.head);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_is_listed_and_ends_when_it_is_cancelled() {
    let node = start().await;
    let running = tokio::spawn(post(node.admin, json!({ "sql": endless() }), ""));
    joins(&node).await;
    let read = node.get("/api/reads").await.json()["reads"][0].clone();
    assert_eq!(read["text"], endless());
    assert_eq!(node.post_json("/api/reads/cancel", json!({ "id": read["id"] })).await.status, 200);

    let ended = tokio::time::timeout(Duration::from_secs(20), running).await.unwrap().unwrap();
    assert_eq!(ended.status, 409, "{}", ended.body);
    assert!(ended.body.contains("cancelled"), "{}", ended.body);
    idle(&node).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_ends_with_the_connection_of_its_page() {
    let node = start().await;
    let running = tokio::spawn(post(node.admin, json!({ "sql": endless() }), ""));
    joins(&node).await;
    running.abort();
    idle(&node).await;
}
