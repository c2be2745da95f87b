//! A node under test and its two clients.

use std::{collections::HashMap, net::SocketAddr, sync::Arc, time::Duration};

use object_store::{
    ObjectStore, RetryConfig,
    aws::{AmazonS3, AmazonS3Builder, AwsAuthorizer, AwsCredential},
    client::{HttpRequest, HttpRequestBody},
    memory::InMemory,
};
use s3s::crypto::{Checksum as _, Sha256};
use stylobate_server::{
    Doors, Node,
    config::{AccessKeyConfig, BucketConfig, NodeConfig, Secret},
};
use stylobate_storage::{ByteSize, Consistency, Origin, RequestOptions};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// A node that runs until the test ends.
pub(crate) struct TestNode {
    pub(crate) address: SocketAddr,
    pub(crate) node: Arc<Node>,
}

/// Configuration of a node.
pub(crate) struct Setup {
    config: NodeConfig,
    origins: Vec<Origin>,
}

impl Setup {
    pub(crate) fn new() -> Self {
        let mut config = NodeConfig::default();
        config.settings.memory = ByteSize::mib(64);
        config.settings.listen.set_port(0);
        config.settings.admin.set_port(0);
        config.settings.flight = None;
        config.settings.domains = vec!["localhost".into()];
        Self { config, origins: Vec::new() }
    }

    /// Sets the memory of the node.
    pub(crate) fn memory(mut self, memory: ByteSize) -> Self {
        self.config.settings.memory = memory;
        self
    }

    pub(crate) fn bucket(self, name: &str, store: Arc<dyn ObjectStore>) -> Self {
        self.origin(name, Origin::new(name, store))
    }

    pub(crate) fn origin(mut self, name: &str, origin: Origin) -> Self {
        let mut bucket = BucketConfig::new(name, "memory:///");
        bucket.consistency = Consistency::Strict;
        self.config.buckets.push(bucket);
        self.origins.push(origin);
        self
    }

    /// Makes the bucket added last one that is revalidated only after an hour.
    pub(crate) fn rarely_asked(mut self) -> Self {
        self.config.buckets.last_mut().unwrap().consistency = Consistency::Ttl(Duration::from_secs(3600));
        self
    }

    /// Makes the bucket added last read-only.
    pub(crate) fn read_only(mut self) -> Self {
        self.config.buckets.last_mut().unwrap().read_only = true;
        self
    }

    pub(crate) fn key(mut self, id: &str, buckets: &[&str], write: bool) -> Self {
        let buckets = buckets.iter().map(|&name| name.into()).collect();
        let secret = Secret::new(format!("secret of {id}"));
        self.config.access_keys.push(AccessKeyConfig {
            id: id.into(),
            secret,
            token: None,
            buckets,
            prefixes: Vec::new(),
            write,
        });

        self
    }

    pub(crate) async fn start(self) -> TestNode {
        let doors = Doors::bind(&self.config).await.unwrap();
        let address = doors.s3_address();
        let node = Node::open_over(&self.config, self.origins).await.unwrap();
        tokio::spawn(doors.serve(node.clone(), std::future::pending()));
        TestNode { address, node }
    }
}

/// Starts a node without keys over one bucket `lake` in memory.
pub(crate) async fn lake() -> (TestNode, Arc<InMemory>) {
    let store = Arc::new(InMemory::new());
    (Setup::new().bucket("lake", store.clone()).start().await, store)
}

impl TestNode {
    /// Returns object_store's client for a bucket, with the key `id`; without a key, it does not sign requests.
    pub(crate) fn s3(&self, bucket: &str, id: Option<&str>) -> AmazonS3 {
        let builder = AmazonS3Builder::new()
            .with_endpoint(format!("http://{}", self.address))
            .with_allow_http(true)
            .with_bucket_name(bucket)
            .with_region("us-east-1")
            .with_retry(RetryConfig { max_retries: 0, ..RetryConfig::default() });

        let builder = match id {
            Some(id) => builder.with_access_key_id(id).with_secret_access_key(format!("secret of {id}")),
            None => builder.with_skip_signature(true),
        };
        builder.build().unwrap()
    }

    /// Returns a bucket of this node, or a prefix of it, as an S3 origin of another node.
    pub(crate) fn as_cloud(&self, place: &str) -> Origin {
        let endpoint = format!("http://{}", self.address);
        let options = [
            ("endpoint", endpoint.as_str()),
            ("allow_http", "true"),
            ("region", "us-east-1"),
            ("skip_signature", "true"),
        ];
        let options: Vec<_> = options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Origin::parse(&format!("s3://{place}"), &options, &RequestOptions::default()).unwrap()
    }

    pub(crate) async fn get(&self, target: &str, headers: &[(&str, &str)]) -> Answer {
        self.send("GET", target, headers, b"").await
    }

    /// Sends a request verbatim, without encoding anything.
    pub(crate) async fn send(
        &self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let mut text = format!("{method} {target} HTTP/1.1\r\nconnection: close\r\n");
        if !headers.iter().any(|(name, _)| *name == "host") {
            text += &format!("host: {}\r\n", self.address);
        }
        if !body.is_empty() || matches!(method, "PUT" | "POST") {
            text += &format!("content-length: {}\r\n", body.len());
        }

        for (name, value) in headers {
            text += &format!("{name}: {value}\r\n");
        }
        self.send_bytes(&[text.as_bytes(), b"\r\n", body].concat()).await
    }

    /// Sends bytes and reads until the node closes the connection.
    pub(crate) async fn send_bytes(&self, bytes: &[u8]) -> Answer {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        // The node may answer and close before it has read everything.
        let _ = stream.write_all(bytes).await;
        let mut received = Vec::new();
        let _ = stream.read_to_end(&mut received).await;
        Answer::parse(&received, bytes.starts_with(b"HEAD"))
    }

    /// Sends a request signed by the key `id`, with its headers covered.
    pub(crate) async fn send_signed(
        &self,
        id: &str,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let signed = sign(&format!("http://{}{target}", self.address), id, method, headers, body);
        let headers: Vec<_> = signed.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        self.send(method, target, &headers, body).await
    }
}

/// Returns the headers of a request signed by the key `id`.
pub(crate) fn sign(
    url: &str,
    id: &str,
    method: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Vec<(String, String)> {
    let mut request = http::Request::builder().method(method).uri(url);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let mut request: HttpRequest = request.body(HttpRequestBody::from(body.to_vec())).unwrap();
    let key_id = id.to_owned();
    let secret_key = format!("secret of {id}");
    let credential = AwsCredential { key_id, secret_key, token: None };
    AwsAuthorizer::new(&credential, "s3", "us-east-1").authorize(&mut request, None);
    let text = |value: &http::HeaderValue| value.to_str().unwrap().to_owned();

    request.headers().iter().map(|(name, value)| (name.to_string(), text(value))).collect()
}

/// Returns the headers of a request signed by the key `id` with an unsigned body. x-amz-content-sha256 is then a
/// keyword or missing, which object_store's signer does not support, so this function implements Signature Version 4.
pub(crate) fn sign_streaming(
    host: &str,
    id: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
) -> Vec<(String, String)> {
    let now = chrono::Utc::now();
    let date = now.format("%Y%m%dT%H%M%SZ").to_string();
    let day = now.format("%Y%m%d").to_string();
    let mut all: Vec<(String, String)> =
        headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    all.push(("host".into(), host.into()));
    all.push(("x-amz-date".into(), date.clone()));
    all.sort();
    let canonical: String = all.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
    let names = all.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(";");
    let body = all.iter().find(|(name, _)| name == "x-amz-content-sha256");
    let body = body.map_or_else(|| hex(&Sha256::checksum(b"")), |(_, body)| body.clone());
    let request = format!("{method}\n{path}\n\n{canonical}\n{names}\n{body}");
    let scope = format!("{day}/us-east-1/s3/aws4_request");
    let text = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{}", hex(&Sha256::checksum(request.as_bytes())));
    let first = format!("AWS4secret of {id}").into_bytes();
    let key = [day.as_str(), "us-east-1", "s3", "aws4_request"]
        .iter()
        .fold(first, |key, part| hmac(&key, part.as_bytes()));
    let signature = hex(&hmac(&key, text.as_bytes()));
    let value =
        format!("AWS4-HMAC-SHA256 Credential={id}/{scope}, SignedHeaders={names}, Signature={signature}");
    all.push(("authorization".into(), value));

    all
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn hmac(key: &[u8], data: &[u8]) -> Vec<u8> {
    let mut block = [0; 64];
    block[..key.len()].copy_from_slice(key);
    let inner = Sha256::checksum(&[&block.map(|byte| byte ^ 0x36), data].concat());
    Sha256::checksum(&[&block.map(|byte| byte ^ 0x5c)[..], &inner].concat()).to_vec()
}

/// A received answer.
#[derive(Debug)]
pub(crate) struct Answer {
    /// 0 if the connection broke before the answer began.
    pub(crate) status: u16,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: String,
    /// True if the body has its announced length.
    pub(crate) whole: bool,
}

impl Answer {
    fn parse(bytes: &[u8], is_head: bool) -> Self {
        let Some(end) = bytes.windows(4).position(|w| w == b"\r\n\r\n") else {
            return Self { status: 0, headers: HashMap::new(), body: String::new(), whole: false };
        };
        let head = std::str::from_utf8(&bytes[..end]).unwrap();
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();

        let header = |line: &str| {
            let (name, value) = line.split_once(':').unwrap();
            (name.to_ascii_lowercase(), value.trim().to_owned())
        };
        let headers: HashMap<_, _> = lines.map(header).collect();
        let body = &bytes[end + 4..];
        let announced = headers.get("content-length").map(|length: &String| length.parse::<usize>().unwrap());
        let whole = is_head || status == 304 || announced.is_none_or(|length| length == body.len());

        Self { status, headers, body: String::from_utf8_lossy(body).into_owned(), whole }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// Returns the S3 error code in the body.
    pub(crate) fn code(&self) -> &str {
        self.element("Code").unwrap_or_default()
    }

    /// Returns the text of the first element of this name.
    pub(crate) fn element(&self, name: &str) -> Option<&str> {
        self.elements(name).into_iter().next()
    }

    /// Returns the texts of all elements of this name.
    pub(crate) fn elements(&self, name: &str) -> Vec<&str> {
        let open = format!("<{name}>");
        let close = format!("</{name}>");
        let texts = self.body.split(&open).skip(1);
        texts.filter_map(|rest| rest.split_once(&close)).map(|(text, _)| text).collect()
    }
}
