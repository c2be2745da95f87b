//! Access to the Flight door: callers, tickets, and data that must not leave a bucket.

use std::time::Duration;

use arrow_flight::{Action, FlightClient, FlightDescriptor, HandshakeRequest, Ticket};
use base64::{Engine, prelude::BASE64_STANDARD};
use futures::TryStreamExt;
use serde_json::json;
use stylobate_server::config::Secret;
use tonic::{Code, Request};

use super::node::{Running, command, key, refusal, rows, tickets};

async fn guarded() -> Running {
    Running::start_with(|config| {
        config.access_keys =
            vec![key("admin", &["*"], true), key("reader", &["lake"], false), key("writer", &["pond"], true)];
    })
    .await
}

async fn get(client: &mut FlightClient, ticket: Ticket) -> (Code, String) {
    match client.do_get(ticket).await {
        Ok(batches) => refusal(batches.try_collect::<Vec<_>>().await),
        Err(refused) => refusal::<()>(Err(refused)),
    }
}

async fn act(client: &mut FlightClient, name: &str, path: &str) -> Option<Code> {
    let action = Action::new(name, json!({"path": path}).to_string());
    let answer = match client.do_action(action).await {
        Ok(answers) => answers.try_collect::<Vec<_>>().await.map(drop),
        Err(refused) => Err(refused),
    };
    answer.is_err().then(|| refusal(answer).0)
}

#[tokio::test]
async fn each_token_opens_its_own_buckets_only() {
    let node = guarded().await;
    let lake = || command(json!({"path": "lake/orders/1.parquet"}));
    let pond = || command(json!({"path": "pond/p.parquet"}));
    let sea = || command(json!({"path": "sea/p.parquet"}));
    let mut admin = node.client_with("token-of-admin").await;
    let mut reader = node.client_with("token-of-reader").await;
    let mut writer = node.client_with("token-of-writer").await;

    // Cached data is protected like any other data.
    assert!(rows(&mut admin, lake()).await.num_rows() > 0);
    assert!(rows(&mut admin, pond()).await.num_rows() > 0);
    assert!(rows(&mut reader, lake()).await.num_rows() > 0);
    for (client, descriptor) in [(&mut reader, pond()), (&mut writer, lake())] {
        let refused = refusal(client.get_flight_info(descriptor.clone()).await);
        assert_eq!(refused, (Code::PermissionDenied, "this token does not allow it".to_owned()));
        assert_eq!(refusal(client.get_schema(descriptor).await).0, Code::PermissionDenied);
    }

    assert_eq!(refusal(admin.get_flight_info(sea()).await).0, Code::NotFound);
    // A caller that may not see all buckets does not learn their names.
    assert_eq!(refusal(reader.get_flight_info(sea()).await).0, Code::PermissionDenied);
    let listed: Vec<_> = reader.list_flights("").await.unwrap().try_collect().await.unwrap();
    let buckets: Vec<_> =
        listed.into_iter().map(|info| info.flight_descriptor.unwrap().path.remove(0)).collect();
    assert!(!buckets.is_empty() && buckets.iter().all(|bucket| bucket == "lake"), "{buckets:?}");
}

#[tokio::test]
async fn without_a_token_that_is_known_every_call_is_refused() {
    let node = guarded().await;
    let mut clients = vec![node.client().await];
    for token in ["", "wrong", "secret of admin", "token-of-admi", "token-of-admin2"] {
        clients.push(node.client_with(token).await);
    }
    for client in &mut clients {
        let lake = command(json!({"path": "lake/orders/1.parquet"}));
        assert_eq!(refusal(client.get_flight_info(lake.clone()).await).0, Code::Unauthenticated);
        assert_eq!(refusal(client.get_schema(lake).await).0, Code::Unauthenticated);
        assert_eq!(refusal(client.list_flights("").await.map(drop)).0, Code::Unauthenticated);
        assert_eq!(refusal(client.list_actions().await.map(drop)).0, Code::Unauthenticated);
        assert_eq!(get(client, Ticket { ticket: "x".into() }).await.0, Code::Unauthenticated);
        for name in ["healthcheck", "stats", "warm", "evict"] {
            assert_eq!(act(client, name, "lake").await, Some(Code::Unauthenticated));
        }
    }
}

#[tokio::test]
async fn a_user_and_a_password_are_exchanged_for_a_token() {
    let node = guarded().await;
    let basic = |text: &str| format!("Basic {}", BASE64_STANDARD.encode(text));
    let mut client = node.client().await;
    client.add_header("authorization", &basic("reader:secret of reader")).unwrap();
    assert!(client.handshake("").await.unwrap().is_empty());
    // The password itself is accepted as well.
    assert!(client.get_schema(command(json!({"path": "lake/orders/1.parquet"}))).await.is_ok());

    let mut request = Request::new(futures::stream::iter([HandshakeRequest::default()]));
    let shown = basic("reader:secret of reader").parse().unwrap();
    request.metadata_mut().insert("authorization", shown);
    let answer = client.inner_mut().handshake(request).await.unwrap();
    assert_eq!(answer.metadata().get("authorization").unwrap(), "Bearer token-of-reader");

    for wrong in ["reader:secret of admin", "reader:", "stranger:secret of reader"] {
        let mut client = node.client().await;
        client.add_header("authorization", &basic(wrong)).unwrap();
        assert_eq!(refusal(client.handshake("").await).0, Code::Unauthenticated, "{wrong}");
    }
    // A node without keys admits any client.
    let open = Running::start().await;
    assert!(open.client().await.handshake("").await.unwrap().is_empty());
}

#[tokio::test]
async fn actions_need_the_rights_of_the_admin_door() {
    let node = guarded().await;
    let mut admin = node.client_with("token-of-admin").await;
    let mut reader = node.client_with("token-of-reader").await;
    let mut writer = node.client_with("token-of-writer").await;
    let denied = Some(Code::PermissionDenied);
    for name in ["warm", "evict"] {
        assert_eq!(act(&mut admin, name, "lake/orders").await, None);
        assert_eq!(act(&mut reader, name, "lake/orders").await, denied);
        assert_eq!(act(&mut writer, name, "lake/orders").await, denied);
        assert_eq!(act(&mut writer, name, "pond").await, None);
    }

    assert_eq!(act(&mut admin, "stats", "").await, None);
    assert_eq!(act(&mut reader, "stats", "").await, denied);
    assert_eq!(act(&mut reader, "healthcheck", "").await, None);
}

#[tokio::test]
async fn a_ticket_is_good_for_whom_it_was_issued_to_and_unchanged() {
    let node = guarded().await;
    let mut admin = node.client_with("token-of-admin").await;
    let mut reader = node.client_with("token-of-reader").await;
    let info = admin.get_flight_info(command(json!({"path": "lake/orders/1.parquet"}))).await.unwrap();
    let ticket = tickets(&info).remove(0);
    assert_eq!(get(&mut reader, ticket.clone()).await.0, Code::PermissionDenied);
    let bytes = ticket.ticket.to_vec();

    for at in [0, 1, 20, 33, 40, bytes.len() - 1] {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        let (code, said) = get(&mut admin, Ticket { ticket: changed.into() }).await;
        assert!(matches!(code, Code::PermissionDenied | Code::InvalidArgument), "{at}: {code:?} {said}");
    }

    for ticket in
        [Vec::new(), vec![1], bytes[..20].to_vec(), bytes[..bytes.len() - 1].to_vec(), vec![255; 100_000]]
    {
        let (code, said) = get(&mut admin, Ticket { ticket: ticket.into() }).await;
        assert!(matches!(code, Code::PermissionDenied | Code::InvalidArgument), "{code:?} {said}");
    }
    assert!(admin.do_get(ticket).await.unwrap().try_collect::<Vec<_>>().await.is_ok());
}

#[tokio::test]
async fn a_ticket_expires() {
    let node =
        Running::start_with(|config| config.settings.ticket_lifetime = Duration::from_millis(200)).await;
    let mut client = node.client().await;
    let info = client.get_flight_info(command(json!({"path": "lake/orders/1.parquet"}))).await.unwrap();
    tokio::time::sleep(Duration::from_millis(250)).await;
    let (code, said) = get(&mut client, tickets(&info).remove(0)).await;
    assert_eq!(code, Code::PermissionDenied);
    assert!(said.contains("expired"), "{said}");
}

#[tokio::test]
async fn nodes_that_share_a_secret_take_each_others_tickets() {
    let shared = |config: &mut stylobate_server::config::NodeConfig| {
        config.ticket_secret = Some(Secret::new("a secret of many nodes"));
    };
    let one = Running::start_with(shared).await;
    let other = Running::start_with(shared).await;
    let stranger = Running::start().await;
    let pond = command(json!({"path": "pond/p.parquet", "columns": ["n"]}));
    let info = one.client().await.get_flight_info(pond).await.unwrap();
    let ticket = tickets(&info).remove(0);
    assert_eq!(get(&mut stranger.client().await, ticket.clone()).await.0, Code::PermissionDenied);

    // The folders differ, and so do their files: the other node reports that its file has changed.
    let (code, said) = get(&mut other.client().await, ticket).await;
    assert!(matches!(code, Code::Aborted), "{code:?} {said}");
}

#[tokio::test]
async fn nothing_outside_of_the_bucket_is_ever_read() {
    let node = Running::start().await;
    let mut client = node.client().await;
    for path in [
        "lake/../outside.parquet",
        "lake/../pond/p.parquet",
        "../outside.parquet",
        "/lake/big.parquet",
        "//lake/big.parquet",
        "lake//big.parquet",
        "lake/./big.parquet",
        "lake/orders/../../outside.parquet",
        "lake/%2e%2e/outside.parquet",
        "lake/%2E%2E%2Foutside.parquet",
        "lake/..%2foutside.parquet",
        "lake/%252e%252e/outside.parquet",
        "lake/..\\outside.parquet",
        "lake/*/../../outside.parquet",
        "lake/**/outside.parquet",
        "lake/[.][.]/outside.parquet",
        "lake/??/outside.parquet",
        "lake/.?/outside.parquet",
        "file:///etc/passwd",
        "lake/file:///etc/passwd",
        "",
        ".",
        "..",
    ] {
        let (code, said) = refusal(client.get_flight_info(command(json!({"path": path}))).await);
        assert!(matches!(code, Code::InvalidArgument | Code::NotFound), "{path}: {code:?} {said}");
        let elements = path.split('/').map(str::to_owned).collect();
        let answer = client.get_flight_info(FlightDescriptor::new_path(elements)).await;
        assert!(matches!(refusal(answer).0, Code::InvalidArgument | Code::NotFound), "{path}");
    }
}

#[tokio::test]
async fn hostile_commands_are_refused_and_the_node_goes_on() {
    let node = Running::start().await;
    let mut client = node.client().await;
    let filter = |sql: String| json!({"version": 1, "path": "lake/big.parquet", "where": sql}).to_string();
    let hostile = [
        String::new(),
        "null".to_owned(),
        "[".repeat(60_000),
        "{\"version\":1,\"path\":".to_owned() + &"[".repeat(60_000),
        " ".repeat(70_000),
        " ".repeat(5 << 20),
        "{\"version\":1,\"path\":".to_owned() + &"[".repeat(3 << 20),
        "{\"version\":1,\"dictionary\":[".to_owned() + &"0,".repeat(2 << 20),
        filter("n = 1 OR ".repeat(10_000) + "n = 2"),
        "{\"version\":1,\"path\":\"lake/".to_owned() + &"a".repeat(65_000) + "\"}",
        filter("(".repeat(60_000)),
        filter("NOT ".repeat(15_000) + "n = 1"),
        filter("- ".repeat(30_000) + "1 = n"),
        filter("n = '".to_owned() + &"x".repeat(60_000)),
    ];

    for text in hostile {
        let (code, said) = refusal(client.get_flight_info(FlightDescriptor::new_cmd(text.clone())).await);
        assert_eq!(code, Code::InvalidArgument, "{}: {said}", &text[..text.len().min(60)]);
    }
    let bytes: Vec<u8> = (0..=255).collect();
    let refused = client.get_flight_info(FlightDescriptor::new_cmd(bytes)).await;
    assert_eq!(refusal(refused).0, Code::InvalidArgument);

    // Long but valid queries: any answer is acceptable, as long as the node survives.
    for sql in [
        "n = 1 OR ".repeat(6_000) + "n = 2",
        "n = 1 AND ".repeat(6_000) + "n = 1",
        "n IN (".to_owned() + &"1,".repeat(30_000) + "2)",
        "name LIKE '".to_owned() + &"%a".repeat(20_000) + "'",
    ] {
        let _ = client.get_flight_info(FlightDescriptor::new_cmd(filter(sql))).await;
    }

    for pattern in ["*a".repeat(400), "**/".repeat(300) + "x", "[".repeat(900), "{a,b}".repeat(200)] {
        let path = format!("lake/{pattern}.parquet");
        let (code, said) = refusal(client.get_flight_info(command(json!({"path": path}))).await);
        assert!(matches!(code, Code::InvalidArgument | Code::NotFound), "{pattern}: {said}");
    }
    assert!(rows(&mut client, command(json!({"path": "pond/p.parquet"}))).await.num_rows() > 0);
}
