//! The span of an S3 request, by the semantic conventions for HTTP and S3. It never contains a query or a header,
//! which may hold a signature.

use std::net::SocketAddr;

use http::{Request, StatusCode, header::HOST, uri::Authority};
use opentelemetry::KeyValue;

use super::{request_id::RequestId, target::RequestTarget};
use crate::{node::Node, traces::RequestSpan};

/// Begins the span of a request, if tracing is enabled and the request is sampled.
pub(crate) fn begin<B>(
    node: &Node,
    request: &Request<B>,
    id: RequestId,
    peer: Option<SocketAddr>,
) -> Option<Box<RequestSpan>> {
    let traces = node.traces()?;
    let uri = request.uri();
    let headers = request.headers();
    let attributes = || {
        let mut attributes = vec![
            KeyValue::new("http.request.method", request.method().to_string()),
            KeyValue::new("url.scheme", traces.scheme()),
            KeyValue::new("url.path", uri.path().to_owned()),
            KeyValue::new("aws.request_id", id.to_string()),
        ];

        let host = headers.get(HOST).and_then(|host| host.to_str().ok()?.parse::<Authority>().ok());
        if let Some(host) = host {
            attributes.push(KeyValue::new("server.address", host.host().to_owned()));
            attributes.extend(host.port_u16().map(|port| KeyValue::new("server.port", i64::from(port))));
        }
        attributes.extend(peer.map(|peer| KeyValue::new("client.address", peer.ip().to_string())));
        if let Ok(target) = RequestTarget::of(uri, headers, node.domains()) {
            let attribute = |name, value: Option<&str>| Some(KeyValue::new(name, value?.to_owned()));
            attributes.extend(attribute("aws.s3.bucket", target.bucket()));
            attributes.extend(attribute("aws.s3.key", target.key()));
        }

        attributes
    };

    traces.begin("S3", headers, attributes)
}

/// Records the outcome once the body has been sent.
pub(crate) fn finish(span: &RequestSpan, operation: &'static str, status: u16, bytes_out: u64) {
    span.rename(operation);
    span.set(KeyValue::new("http.response.status_code", i64::from(status)));
    span.set(KeyValue::new("http.response.body.size", bytes_out as i64));
    if status >= StatusCode::INTERNAL_SERVER_ERROR.as_u16() {
        span.fail(status.to_string());
    }
}
