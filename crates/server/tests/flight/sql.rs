//! Flight SQL over sockets: queries, prepared statements, metadata, rights, and refusals.

use std::{fs, sync::Arc, time::Duration};

use arrow::{
    array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray},
    compute::concat_batches,
    datatypes::{DataType, Int64Type, Schema},
};
use arrow_flight::{
    FlightInfo, IpcMessage,
    error::FlightError,
    sql::{
        CommandGetDbSchemas, CommandGetPrimaryKeys, CommandGetTables, CommandGetXdbcTypeInfo, SqlInfo,
        client::FlightSqlServiceClient,
    },
};
use futures::TryStreamExt;
use serde_json::json;
use stylobate_server::config::{AccessKeyConfig, NodeConfig, Secret};
use stylobate_storage::ByteSize;
use tonic::{
    Code,
    transport::{Channel, Endpoint},
};

use super::{
    eventually::eventually,
    node::{ROW_GROUPS, ROWS, Running, key, refusal, tickets},
    streams::ask_admin,
};

type Client = FlightSqlServiceClient<Channel>;

const ALL_ROWS: i64 = (ROW_GROUPS * ROWS) as i64;

async fn connect(node: &Running) -> Client {
    let endpoint = Endpoint::from_shared(format!("http://{}", node.flight)).unwrap();
    FlightSqlServiceClient::new(endpoint.connect().await.unwrap())
}

async fn connect_with(node: &Running, token: &str) -> Client {
    let mut client = connect(node).await;
    client.set_token(token.to_owned());
    client
}

/// Returns all rows of a flight, and checks that the batches have its schema.
async fn rows_of(client: &mut Client, info: FlightInfo) -> Result<RecordBatch, FlightError> {
    let schema = Arc::new(info.clone().try_decode_schema().unwrap());
    let mut batches = Vec::new();
    for ticket in tickets(&info) {
        batches.extend(client.do_get(ticket).await?.try_collect::<Vec<_>>().await?);
    }
    for batch in &batches {
        assert_eq!(batch.schema().fields(), schema.fields());
    }
    Ok(concat_batches(&schema, &batches)?)
}

async fn query(client: &mut Client, sql: &str) -> Result<RecordBatch, FlightError> {
    let info = client.execute(sql.to_owned(), None).await?;
    rows_of(client, info).await
}

async fn number(client: &mut Client, sql: &str) -> i64 {
    let rows = query(client, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    assert_eq!((rows.num_rows(), rows.num_columns()), (1, 1), "{sql}");
    rows.column(0).as_primitive::<Int64Type>().value(0)
}

async fn refused(client: &mut Client, sql: &str) -> (Code, String) {
    match query(client, sql).await {
        Err(FlightError::Tonic(status)) => (status.code(), status.message().to_owned()),
        other => panic!("{sql}: {other:?}"),
    }
}

fn texts(rows: &RecordBatch, column: &str) -> Vec<String> {
    let column = rows.column_by_name(column).unwrap().as_string::<i32>();
    column.iter().map(|text| text.unwrap_or_default().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_brings_its_rows() {
    // Grouping by strings allocates blocks of 2 MiB.
    let node = Running::start_with(|config| config.settings.memory = ByteSize::mib(256)).await;
    let mut client = connect(&node).await;
    let sql = "SELECT name, count(*) AS rows, min(n) AS first FROM lake.big WHERE n >= 7 GROUP BY name ORDER BY name";
    let rows = query(&mut client, sql).await.unwrap();
    let names: Vec<_> = (0..7).map(|n| format!("name {n}")).collect();
    assert_eq!(texts(&rows, "name"), names);
    assert_eq!(rows["first"].as_primitive::<Int64Type>(), &Int64Array::from_iter_values(7..14));

    let whole = query(&mut client, "SELECT * FROM lake.big ORDER BY n").await.unwrap();
    let file = node.file("lake/big.parquet");
    assert_eq!(whole.schema().field(1).data_type(), &DataType::Utf8);
    assert_eq!(whole.columns(), file.columns());

    // The columns that the first query decoded are not decoded again.
    let decoded = node.decoded();
    query(&mut client, sql).await.unwrap();
    assert_eq!(node.decoded(), decoded);

    let none = query(&mut client, "SELECT name, n FROM lake.big WHERE n < 0").await.unwrap();
    assert_eq!((none.num_rows(), none.num_columns()), (0, 2));
    node.idle().await;
    assert!(node.node.metrics().flight_stats().methods["DoGet"]["OK"] >= 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_are_named_by_bucket_and_name_or_by_path() {
    let node = Running::start().await;
    let mut client = connect(&node).await;
    for (table, row_groups) in [
        ("lake.big", ROW_GROUPS),
        ("stylobate.lake.big", ROW_GROUPS),
        ("lake.\"big.parquet\"", ROW_GROUPS),
        ("lake.orders", 4),
        ("lake.\"orders/1\"", 2),
        ("lake.\"orders/[12].parquet\"", 4),
        ("\"lake/orders/2.parquet\"", 2),
        ("'lake/orders/*.parquet'", 4),
        ("'s3://lake/orders'", 4),
        ("'s3://pond'", 1),
        ("pond.p", 1),
    ] {
        let rows = number(&mut client, &format!("SELECT count(*) FROM {table}")).await;
        assert_eq!(rows, (row_groups * ROWS) as i64, "{table}");
        let span =
            number(&mut client, &format!("SELECT max(n) - min(n) + 1 FROM {table} WHERE n >= 0")).await;
        assert_eq!(span, rows, "{table}");
    }

    let joined = "SELECT count(*) FROM lake.big b JOIN pond.p p ON b.n = p.n WHERE p.name = 'name 1'";
    assert_eq!(number(&mut client, joined).await, (0..ROWS).filter(|n| n % 7 == 1).count() as i64);
    let series = "SELECT sum(value) FROM generate_series(1, 10)";
    assert_eq!(number(&mut client, series).await, 55);

    let tables = query(&mut client, "SHOW TABLES").await.unwrap();
    let found = texts(&tables, "table_name");
    for table in ["big", "orders", "p"] {
        assert!(found.iter().any(|name| name == table), "{found:?}");
    }
    let columns = query(&mut client, "DESCRIBE lake.big").await.unwrap();
    assert_eq!(texts(&columns, "column_name"), ["n", "name", "text"]);

    let plan = query(&mut client, "EXPLAIN SELECT n FROM lake.big WHERE n < 10").await.unwrap();
    let plan = texts(&plan, "plan").join("\n");
    assert!(plan.contains("lake/big.parquet"), "{plan}");
    assert!(!plan.contains(node.folder.path().to_str().unwrap()), "{plan}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_only_bucket_need_not_be_named() {
    let node = Running::start_with(|config| config.buckets.truncate(1)).await;
    let mut client = connect(&node).await;
    assert_eq!(number(&mut client, "SELECT count(*) FROM big").await, ALL_ROWS);
    let joined = "SELECT count(*) FROM \"big.parquet\" b JOIN lake.orders o ON b.n = o.n";
    assert_eq!(number(&mut client, joined).await, 4 * ROWS as i64);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prepared_statement_is_run_with_its_parameters() {
    let node = Running::start().await;
    let mut client = connect(&node).await;
    let sql = "SELECT n, name FROM lake.big WHERE n >= ? AND name = ? ORDER BY n LIMIT 2";
    let mut prepared = client.prepare(sql.to_owned(), None).await.unwrap();
    let types = |schema: &Schema| -> Vec<DataType> {
        schema.fields().iter().map(|field| field.data_type().clone()).collect()
    };
    assert_eq!(types(prepared.dataset_schema().unwrap()), [DataType::Int64, DataType::Utf8]);
    assert_eq!(types(prepared.parameter_schema().unwrap()), [DataType::Int64, DataType::Utf8]);
    let unbound = prepared.execute().await.unwrap();
    assert_eq!(refusal(rows_of(&mut client, unbound).await).0, Code::InvalidArgument);

    let values = |numbers: Vec<i64>, names: Vec<&str>| {
        let columns: [(&str, ArrayRef); 2] =
            [("a", Arc::new(Int64Array::from(numbers))), ("b", Arc::new(StringArray::from(names)))];
        RecordBatch::try_from_iter(columns).unwrap()
    };
    for (numbers, names, found) in [
        (vec![100], vec!["name 3"], vec![101, 108]),
        (vec![ALL_ROWS], vec!["name 3"], vec![]),
        // The query runs once for each row of parameters.
        (vec![0, 70], vec!["name 1", "name 0"], vec![1, 8, 70, 77]),
    ] {
        prepared.set_parameters(values(numbers, names)).unwrap();
        let info = prepared.execute().await.unwrap();
        let rows = rows_of(&mut client, info).await.unwrap();
        assert_eq!(rows["n"].as_primitive::<Int64Type>().values(), &found[..]);
    }

    let one: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    prepared.set_parameters(RecordBatch::try_from_iter([("a", one)]).unwrap()).unwrap();
    let (code, said) = refusal(prepared.execute().await);
    assert_eq!((code, said.contains("2 parameters")), (Code::InvalidArgument, true), "{said}");
    prepared.close().await.unwrap();

    // The type of this column is that of the bound value.
    let mut prepared = client.prepare("SELECT ? AS a".to_owned(), None).await.unwrap();
    let text: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
    prepared.set_parameters(RecordBatch::try_from_iter([("a", text)]).unwrap()).unwrap();
    let info = prepared.execute().await.unwrap();
    assert_eq!(texts(&rows_of(&mut client, info).await.unwrap(), "a"), ["x"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn metadata_is_that_of_the_buckets() {
    let node = Running::start().await;
    let mut client = connect(&node).await;
    let info = client.get_catalogs().await.unwrap();
    assert_eq!(texts(&rows_of(&mut client, info).await.unwrap(), "catalog_name"), ["stylobate"]);

    let all = CommandGetDbSchemas { catalog: None, db_schema_filter_pattern: None };
    let some = CommandGetDbSchemas { catalog: None, db_schema_filter_pattern: Some("p%".to_owned()) };
    for (command, expected) in [(all, &["lake", "pond"][..]), (some, &["pond"])] {
        let info = client.get_db_schemas(command).await.unwrap();
        assert_eq!(texts(&rows_of(&mut client, info).await.unwrap(), "db_schema_name"), expected);
    }

    let tables = CommandGetTables { include_schema: true, ..CommandGetTables::default() };
    let info = client.get_tables(tables).await.unwrap();
    let found = rows_of(&mut client, info).await.unwrap();
    assert_eq!(texts(&found, "table_name"), ["big", "orders", "p"]);
    assert_eq!(texts(&found, "db_schema_name"), ["lake", "lake", "pond"]);
    let columns = found["table_schema"].as_binary::<i32>();
    for columns in columns.iter().flatten() {
        let columns = Schema::try_from(IpcMessage(columns.to_vec().into())).unwrap();
        let names: Vec<_> = columns.fields().iter().map(|field| field.name().as_str()).collect();
        assert_eq!(names, ["n", "name", "text"]);
        assert_eq!(columns.field(1).data_type(), &DataType::Utf8);
    }

    for (command, expected) in [
        (
            CommandGetTables { table_name_filter_pattern: Some("b_g".into()), ..CommandGetTables::default() },
            &["big"][..],
        ),
        (
            CommandGetTables { db_schema_filter_pattern: Some("pond".into()), ..CommandGetTables::default() },
            &["p"],
        ),
        (CommandGetTables { catalog: Some("other".into()), ..CommandGetTables::default() }, &[]),
        (CommandGetTables { table_types: vec!["VIEW".into()], ..CommandGetTables::default() }, &[]),
        (
            CommandGetTables { table_types: vec!["TABLE".into()], ..CommandGetTables::default() },
            &["big", "orders", "p"],
        ),
    ] {
        let info = client.get_tables(command.clone()).await.unwrap();
        assert_eq!(texts(&rows_of(&mut client, info).await.unwrap(), "table_name"), expected, "{command:?}");
    }

    let info = client.get_table_types().await.unwrap();
    assert_eq!(texts(&rows_of(&mut client, info).await.unwrap(), "table_type"), ["TABLE"]);
    let info = client.get_sql_info(vec![SqlInfo::FlightSqlServerReadOnly]).await.unwrap();
    assert_eq!(rows_of(&mut client, info).await.unwrap().num_rows(), 1);
    let info = client.get_sql_info(vec![]).await.unwrap();
    assert!(rows_of(&mut client, info).await.unwrap().num_rows() > 10);
    let info = client.get_xdbc_type_info(CommandGetXdbcTypeInfo { data_type: None }).await.unwrap();
    assert!(rows_of(&mut client, info).await.unwrap().num_rows() > 10);
    let keys = CommandGetPrimaryKeys { table: "big".to_owned(), ..CommandGetPrimaryKeys::default() };
    let info = client.get_primary_keys(keys).await.unwrap();
    assert_eq!(rows_of(&mut client, info).await.unwrap().num_rows(), 0);
}

async fn is_denied(client: &mut Client, sql: &str) {
    let (code, said) = refused(client, sql).await;
    assert_eq!(code, Code::PermissionDenied, "{sql}: {said}");
    let prepared = client.prepare(sql.to_owned(), None).await.map(drop);
    assert_eq!(refusal(prepared).0, Code::PermissionDenied, "{sql}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_reads_and_sees_its_own_buckets_and_prefixes_only() {
    let limited = AccessKeyConfig { prefixes: vec!["orders/".to_owned()], ..key("limited", &["*"], false) };
    let node = Running::start_with(|config| {
        config.access_keys = vec![key("admin", &["*"], true), key("reader", &["lake"], false), limited];
    })
    .await;
    let mut admin = connect_with(&node, "token-of-admin").await;
    let mut reader = connect_with(&node, "token-of-reader").await;
    let mut limited = connect_with(&node, "token-of-limited").await;

    // Cached data is protected like any other data.
    let lake = "SELECT count(DISTINCT name) FROM lake.big";
    let pond = "SELECT count(DISTINCT name) FROM pond.p";
    assert_eq!(number(&mut admin, lake).await, 7);
    assert_eq!(number(&mut admin, pond).await, 7);
    assert_eq!(number(&mut reader, lake).await, 7);
    // The key has access to a single bucket, so the name needs no bucket.
    assert_eq!(number(&mut reader, "SELECT count(DISTINCT name) FROM big").await, 7);
    let within = "SELECT count(DISTINCT name) FROM lake.\"orders/1\"";
    assert_eq!(number(&mut limited, within).await, 7);
    assert_eq!(number(&mut limited, "SELECT count(DISTINCT name) FROM lake.orders").await, 7);

    for sql in [
        pond,
        "SELECT * FROM 'pond/p.parquet'",
        "SELECT * FROM 's3://pond/*'",
        "SELECT * FROM sea.p",
        "SELECT (SELECT max(n) FROM pond.p) FROM lake.big",
        "WITH t AS (SELECT * FROM pond.p) SELECT * FROM t",
        "EXPLAIN SELECT * FROM pond.p",
        "DESCRIBE pond.p",
    ] {
        is_denied(&mut reader, sql).await;
    }
    for sql in [lake, "SELECT * FROM 'lake/*'", "SELECT * FROM 'lake/o*/1.parquet'", "SELECT * FROM 'lake/'"]
    {
        is_denied(&mut limited, sql).await;
    }

    for (client, expected) in [
        (&mut admin, &["big", "orders", "p"][..]),
        (&mut reader, &["big", "orders"]),
        (&mut limited, &["orders/1", "orders/2"]),
    ] {
        let info = client.get_tables(CommandGetTables::default()).await.unwrap();
        assert_eq!(texts(&rows_of(client, info).await.unwrap(), "table_name"), expected);
    }

    // A ticket is valid only for the key that it was issued to.
    let info = admin.execute(pond.to_owned(), None).await.unwrap();
    let of_another = reader.do_get(tickets(&info).remove(0)).await.map(drop);
    assert_eq!(refusal(of_another).0, Code::PermissionDenied);
    let mut stranger = connect(&node).await;
    assert_eq!(refusal(stranger.execute(lake.to_owned(), None).await).0, Code::Unauthenticated);
    assert_eq!(refusal(stranger.get_catalogs().await).0, Code::Unauthenticated);
    assert_eq!(refusal(stranger.prepare(lake.to_owned(), None).await.map(drop)).0, Code::Unauthenticated);

    stranger.handshake("reader", "secret of reader").await.unwrap();
    assert_eq!(number(&mut stranger, lake).await, 7);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_the_machine_and_other_stores_are_out_of_reach() {
    for buckets in [1, 2] {
        let node = Running::start_with(|config| config.buckets.truncate(buckets)).await;
        let mut client = connect(&node).await;
        let outside = node.folder.path().join("outside.parquet");
        let outside = outside.to_str().unwrap();
        assert!(fs::metadata(outside).is_ok());
        std::os::unix::fs::symlink(outside, node.folder.path().join("lake/link.parquet")).unwrap();

        for path in [
            outside.to_owned(),
            format!("file://{outside}"),
            format!("lake/{outside}"),
            format!("s3://{outside}"),
            "../outside.parquet".to_owned(),
            "lake/../outside.parquet".to_owned(),
            "lake/../*".to_owned(),
            "s3://lake/../outside.parquet".to_owned(),
            "lake/link.parquet".to_owned(),
            "/etc/passwd".to_owned(),
            "http://127.0.0.1:1/a.parquet".to_owned(),
            "memory:///a.parquet".to_owned(),
            ".".to_owned(),
            "/".to_owned(),
        ] {
            for table in [format!("'{path}'"), format!("\"{path}\""), format!("lake.\"{path}\"")] {
                let (code, said) = refused(&mut client, &format!("SELECT * FROM {table}")).await;
                let is_refused = matches!(
                    code,
                    Code::InvalidArgument | Code::NotFound | Code::PermissionDenied | Code::Internal
                );
                assert!(is_refused, "{table}: {code:?} {said}");
            }
        }

        let target = node.folder.path().join("written.csv");
        let target = target.to_str().unwrap();
        for sql in [
            format!("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{outside}'"),
            "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '/etc/passwd'".to_owned(),
            format!("COPY (SELECT 1) TO '{target}'"),
            format!("COPY lake.orders TO '{target}' STORED AS CSV"),
            format!("EXPLAIN ANALYZE COPY (SELECT 1) TO '{target}'"),
        ] {
            let (code, said) = refused(&mut client, &sql).await;
            assert_eq!(code, Code::InvalidArgument, "{sql}: {said}");
            assert!(said.contains("only queries run here"), "{sql}: {said}");
        }
        assert!(fs::metadata(target).is_err());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_query_is_refused_in_one_line() {
    let node = Running::start().await;
    let mut client = connect(&node).await;
    for sql in [
        "INSERT INTO lake.orders SELECT * FROM lake.orders",
        "INSERT INTO lake.no_such_table VALUES (1)",
        "UPDATE lake.orders SET n = 1",
        "DELETE FROM lake.orders",
        "CREATE TABLE t AS SELECT 1",
        "CREATE VIEW v AS SELECT 1",
        "DROP TABLE lake.orders",
        "SELECT 1 INTO t",
        "SET datafusion.execution.batch_size = 1",
        "RESET datafusion.execution.batch_size",
        "PREPARE p AS SELECT 1",
        "EXECUTE p",
        "BEGIN",
        "EXPLAIN INSERT INTO lake.orders SELECT * FROM lake.orders",
        "WITH t AS (SELECT 1) INSERT INTO lake.orders SELECT * FROM t",
    ] {
        let (code, said) = refused(&mut client, sql).await;
        assert_eq!(code, Code::InvalidArgument, "{sql}: {said}");
        assert!(!said.contains('\n'), "{sql}: {said}");
        assert!(refusal(client.prepare(sql.to_owned(), None).await.map(drop)).0 == Code::InvalidArgument);
    }

    let update = client.execute_update("DELETE FROM lake.orders".to_owned(), None).await;
    assert_eq!(refusal(update).0, Code::Unimplemented);
    assert_eq!(refusal(client.begin_transaction().await).0, Code::Unimplemented);
    let within = client.execute("SELECT 1".to_owned(), Some("transaction".into())).await;
    assert_eq!(refusal(within).0, Code::Unimplemented);
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_say_what_to_do() {
    let node = Running::start().await;
    let mut client = connect(&node).await;
    for (sql, code, hint) in [
        ("SELEC 1", Code::InvalidArgument, "does not parse"),
        ("", Code::InvalidArgument, "no statement"),
        ("SELECT 1; SELECT 2", Code::InvalidArgument, "several statements"),
        ("SELECT * FROM lake.ordres", Code::NotFound, "did you mean lake.orders?"),
        ("SELECT * FROM lake.xyz", Code::NotFound, "available tables: lake.big, lake.orders"),
        ("SELECT * FROM big", Code::NotFound, "buckets are lake, pond"),
        ("SELECT * FROM lake.big.parquet", Code::NotFound, "in quotes"),
        ("SELECT * FROM 'lake/none/*.parquet'", Code::NotFound, "available tables: lake.big"),
        ("SELECT * FROM 'sea/a.parquet'", Code::NotFound, "no such bucket"),
        ("SELECT m FROM lake.big", Code::InvalidArgument, "m"),
        ("SELECT n FROM lake.big WHERE n = ?", Code::InvalidArgument, "parameters"),
        ("SELECT 1 / (n - n) FROM lake.orders", Code::InvalidArgument, "ivide by zero"),
        ("SELECT CAST(name AS INT) FROM lake.orders", Code::InvalidArgument, "name"),
        (
            "SELECT count(*) FROM lake.big a JOIN lake.big b ON a.text = b.text WHERE a.n + b.n >= 0",
            Code::ResourceExhausted,
            "more memory",
        ),
    ] {
        let (found, said) = refused(&mut client, sql).await;
        assert_eq!(found, code, "{sql}: {said}");
        assert!(said.contains(hint) && !said.contains('\n'), "{sql}: {said}");
    }
    node.idle().await;
    let is_free = async || node.node.columns().stats().held_bytes == 0;
    eventually("the memory of the queries to be free", is_free).await;
}

/// A query that takes hours and yields no row until its end: each row of a join matches thousands.
const ENDLESS: &str = "SELECT count(*) FROM lake.big a JOIN (SELECT b.name FROM lake.big b JOIN lake.big c \
                       ON b.name = c.name) d ON a.name = d.name";

#[tokio::test(flavor = "multi_thread")]
async fn a_query_is_listed_and_can_be_cancelled_at_the_admin_door() {
    let node = Running::start().await;
    let mut client = connect(&node).await;
    let info = client.execute(ENDLESS.to_owned(), None).await.unwrap();
    let ticket = tickets(&info).remove(0);
    let running = tokio::spawn(async move { client.do_get(ticket).await?.try_collect::<Vec<_>>().await });

    let is_listed = async || ask_admin(&node, "GET", "/api/reads", "").await["reads"][0]["kind"] == "query";
    eventually("the query to be listed", is_listed).await;
    let is_held = async || node.node.columns().stats().held_bytes > 0;
    eventually("the join to run", is_held).await;
    let read = ask_admin(&node, "GET", "/api/reads", "").await["reads"][0].clone();
    assert_eq!(read["text"], ENDLESS);
    let cancel = json!({ "id": read["id"] }).to_string();
    let answer = ask_admin(&node, "POST", "/api/reads/cancel", &cancel).await;
    assert_eq!(answer, json!({ "cancelled": true }));

    let ended = tokio::time::timeout(Duration::from_secs(20), running).await.unwrap().unwrap();
    assert_eq!(refusal(ended).0, Code::Cancelled);
    node.idle().await;
    let is_free = async || node.node.columns().stats().held_bytes == 0;
    eventually("the memory of the query to be free", is_free).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_away_ends_its_query() {
    let node = Running::start().await;
    let mut client = connect(&node).await;
    let info = client.execute(ENDLESS.to_owned(), None).await.unwrap();
    let ticket = tickets(&info).remove(0);
    let running = tokio::spawn(async move { client.do_get(ticket).await?.try_collect::<Vec<_>>().await });
    let is_held = async || node.node.columns().stats().held_bytes > 0;
    eventually("the query to run", is_held).await;
    running.abort();

    node.idle().await;
    let is_free = async || node.node.columns().stats().held_bytes == 0;
    eventually("the memory of the query to be free", is_free).await;
    let reads = ask_admin(&node, "GET", "/api/reads", "").await;
    assert_eq!(reads["reads"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_share_a_secret_run_each_others_queries() {
    let shared = |config: &mut NodeConfig| {
        config.ticket_secret = Some(Secret::new("a secret of many nodes"));
    };
    let one = Running::start_with(shared).await;
    let other = Running::start_with(shared).await;
    let stranger = Running::start().await;
    let mut client = connect(&one).await;
    let info = client.execute("SELECT count(*) FROM lake.big".to_owned(), None).await.unwrap();
    let mut prepared = client.prepare("SELECT n FROM lake.big WHERE n = ?".to_owned(), None).await.unwrap();
    let value: ArrayRef = Arc::new(Int64Array::from(vec![5]));
    prepared.set_parameters(RecordBatch::try_from_iter([("n", value)]).unwrap()).unwrap();
    let bound = prepared.execute().await.unwrap();

    let mut elsewhere = connect(&other).await;
    let rows = rows_of(&mut elsewhere, info.clone()).await.unwrap();
    assert_eq!(rows.column(0).as_primitive::<Int64Type>().value(0), ALL_ROWS);
    assert_eq!(rows_of(&mut elsewhere, bound).await.unwrap().num_rows(), 1);
    let mut strange = connect(&stranger).await;
    assert_eq!(refusal(rows_of(&mut strange, info).await).0, Code::PermissionDenied);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_queries_share_the_node() {
    let node = Running::start().await;
    let queries = (0..16).map(|at| {
        let node = &node;
        async move {
            let mut client = connect(node).await;
            let sql = format!("SELECT count(DISTINCT text) FROM lake.orders WHERE n % 16 = {at}");
            number(&mut client, &sql).await
        }
    });
    let counts = futures::future::join_all(queries).await;
    assert!(counts.iter().all(|count| *count == (4 * ROWS / 16) as i64), "{counts:?}");
    node.idle().await;
}
