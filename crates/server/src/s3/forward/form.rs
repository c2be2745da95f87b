//! Forwards uploads by HTML form: the form is rebuilt with a policy signed with the origin's credentials, and sent
//! while the file arrives.
//!
//! The new form has the fields that were verified, each once. Anything after the file in the client's form is
//! dropped, since origins differ in how they read it. The client's boundary is not reused either: the file could
//! contain it, and with it text that only the origin would take for a field. So that the length of a large form is
//! known in advance, the dropped bytes after the file are replaced by spaces after the closing delimiter, which are not
//! part of a form. The file of a small form is received first, so that nothing follows its delimiter: an origin that
//! answers at the delimiter may close the connection, and its answer is lost if the node still sends spaces.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Instant,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use chrono::{DateTime, TimeDelta, Utc};
use futures::Stream;
use hmac::Mac;
use http::{
    HeaderMap, HeaderName, Method, Request, StatusCode,
    header::{CONTENT_LENGTH, CONTENT_TYPE, ETAG, HOST, LOCATION, REFERER, TRANSFER_ENCODING, USER_AGENT},
};
use object_store::aws::AwsCredential;
use s3s::{
    Body, HttpResponse, S3Result, StdError, s3_error,
    stream::{ByteStream, DynByteStream, RemainingLength},
};
use stylobate_storage::S3Endpoint;
use url::Url;

use super::{
    super::sigv4::{ALGORITHM, signing_key},
    BucketNames, ChangedObjects, ENCRYPTION, ForwardRequest, Forwarder, MAX_ANSWER_XML, REQUEST_PAYER,
    refuse_climbing, uri_of, xml,
};
use crate::s3::{
    wire::{error, form::multipart::FormFile, form_error::FormError, header_text, target::QueryParameters},
    write::post_form::{SuccessAction, VerifiedForm},
};

/// Validity of the policy: an origin may check the expiry after it has received the last byte of the file.
const VALIDITY: TimeDelta = TimeDelta::days(1);

/// Maximum bytes of a form whose file is received before it is sent to the origin.
const MAX_SMALL_FORM: u64 = 256 << 10;

/// Client headers that an origin's policies may depend on.
const SENT: [HeaderName; 2] = [REFERER, USER_AGENT];

/// Fields that are rewritten for the origin.
const REPLACED: [&str; 3] = ["bucket", "file", "key"];

/// Padding, sent in pieces of at most this size.
static SPACES: [u8; 1024] = [b' '; 1024];

impl Forwarder {
    /// Forwards the file of a form to the origin. The request targets the object that the form names.
    pub(in crate::s3) async fn forward_form(
        &self,
        request: &ForwardRequest<'_>,
        form: VerifiedForm,
    ) -> S3Result<HttpResponse> {
        refuse_climbing(&form.key)?;
        let names = BucketNames::of(request.bucket, request.endpoint);
        let changes = ChangedObjects::of(
            &self.node,
            request.endpoint,
            &request.operation,
            std::slice::from_ref(&form.key),
        );

        let success = SuccessAction::of(&form.fields);
        let key = form.key.clone();

        let sent = build(request, &names, form).await?;
        let asked = Instant::now();
        let answer = self.send(sent, changes, request).await?;
        if answer.status() == StatusCode::SEE_OTHER && matches!(success, SuccessAction::Redirect(_)) {
            // Redirects to the page that the client named, not to where the origin's answer points.
            return Ok(success.answer(names.bucket, &key, described(answer.headers())));
        }

        let answer = self.hand_back(request, &names, asked, answer).await?;
        if answer.status().is_success() && !names.are_same() {
            Ok(renamed(answer, names.bucket, &key).await)
        } else {
            Ok(answer)
        }
    }
}

/// Rewrites an answer about a stored object to the names that clients use.
async fn renamed(answer: HttpResponse, bucket: &str, key: &str) -> HttpResponse {
    let (mut head, mut body) = answer.into_parts();
    if !head.headers.contains_key(ETAG)
        && let Ok(text) = body.store_all_limited(MAX_ANSWER_XML).await
        && let Ok(answered) = str::from_utf8(&text)
    {
        // An unreadable answer names no object.
        let _ = xml::visit(answered, |path, text| {
            if path.last().is_some_and(|name| *name == "ETag") {
                header_text::set(&mut head.headers, ETAG, text);
            }
        });
    }

    SuccessAction::Status(head.status).answer(bucket, key, head.headers)
}

/// Returns the headers that describe a stored object, from an answer that redirects to another page.
fn described(answer: &HeaderMap) -> HeaderMap {
    let is_descriptive = |name: &HeaderName| *name == ETAG || name.as_str().starts_with("x-amz-");
    let descriptive = answer.iter().filter(|(name, _)| is_descriptive(name));
    let mut described: HeaderMap = descriptive.map(|(name, value)| (name.clone(), value.clone())).collect();
    if !described.contains_key(ETAG)
        && let Some(page) = header_text::value(answer, &LOCATION).and_then(|page| Url::parse(page).ok())
        && let Some((_, etag)) = page.query_pairs().find(|(name, _)| name == "etag")
    {
        header_text::set(&mut described, ETAG, &etag);
    }
    described
}

/// Builds the form for the origin.
async fn build(
    request: &ForwardRequest<'_>,
    names: &BucketNames<'_>,
    form: VerifiedForm,
) -> S3Result<Request<Body>> {
    let endpoint = request.endpoint;
    let credential = endpoint.credentials().await.map_err(|failed| {
        error::log(&failed);
        s3_error!(AccessDenied, "the node has no valid credentials for the bucket's origin")
    })?;
    let mut fields = origin_fields(&form, names, endpoint);
    if let Some(credential) = credential {
        sign(&mut fields, names.origin_bucket, &credential, endpoint.region(), Utc::now())?;
    }

    let uri = uri_of(endpoint, None, &QueryParameters::default())?;

    let mut headers = HeaderMap::new();
    for name in SENT {
        if let Some(value) = request.headers.get(&name) {
            headers.insert(name, value.clone());
        }
    }

    if let Some(authority) = uri.authority() {
        header_text::set(&mut headers, HOST, authority.as_str());
    }
    if endpoint.is_request_payer() {
        header_text::set(&mut headers, REQUEST_PAYER, "requester");
    }
    let boundary = format!("stylobate{}", hex::encode(rand::random::<[u8; 16]>()));
    header_text::set(&mut headers, CONTENT_TYPE, &format!("multipart/form-data; boundary={boundary}"));

    // If both headers are given, the length is not that of the body.
    let is_known = !request.headers.contains_key(TRANSFER_ENCODING);
    let length = header_text::value(&request.headers, &CONTENT_LENGTH).filter(|_| is_known);
    let length: Option<u64> = length.and_then(|length| length.parse().ok());
    let body = if length.is_some_and(|length| length <= MAX_SMALL_FORM) {
        let body = small_form(&boundary, &fields, form.file).await?;
        headers.insert(CONTENT_LENGTH, body.len().into());
        Body::from(body)
    } else {
        let body = ForwardedForm::new(&boundary, &fields, form.file, length)?;
        if let Some(length) = body.remaining {
            headers.insert(CONTENT_LENGTH, length.into());
        }
        let stream: DynByteStream = Box::pin(body);
        Body::from(stream)
    };

    let mut sent = Request::new(body);
    *sent.method_mut() = Method::POST;
    *sent.uri_mut() = uri;
    *sent.headers_mut() = headers;
    Ok(sent)
}

/// Returns the fields for the origin, unsigned.
fn origin_fields(
    form: &VerifiedForm,
    names: &BucketNames<'_>,
    endpoint: &S3Endpoint,
) -> Vec<(String, String)> {
    let mut fields = vec![
        ("key".to_owned(), names.to_origin(&form.key)),
        ("bucket".to_owned(), names.origin_bucket.to_owned()),
    ];
    for field in form.fields.iter().filter(|field| field.is_of_object()) {
        if !REPLACED.contains(&field.lower_name().as_str()) {
            fields.push((field.name.clone(), field.value.clone()));
        }
    }

    if form.fields.get(ENCRYPTION.as_str()).is_none() {
        let encryption = endpoint.encryption_headers().iter();
        fields.extend(
            encryption.filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned()))),
        );
    }
    fields
}

/// Adds a policy that allows exactly these fields, and its signature.
fn sign(
    fields: &mut Vec<(String, String)>,
    bucket: &str,
    credential: &AwsCredential,
    region: &str,
    now: DateTime<Utc>,
) -> S3Result<()> {
    let day = now.format("%Y%m%d").to_string();
    let mut add = |name: &str, value: String| fields.push((name.to_owned(), value));
    add("x-amz-algorithm", ALGORITHM.to_owned());
    add("x-amz-credential", format!("{}/{day}/{region}/s3/aws4_request", credential.key_id));
    add("x-amz-date", now.format("%Y%m%dT%H%M%SZ").to_string());
    if let Some(token) = &credential.token {
        add("x-amz-security-token", token.clone());
    }

    let mut conditions = vec![serde_json::json!({"bucket": bucket})];
    conditions
        .extend(fields.iter().map(|(name, value)| serde_json::json!(["eq", format!("${name}"), value])));
    let expiration = (now + VALIDITY).format("%Y-%m-%dT%H:%M:%S.000Z").to_string();
    let policy = serde_json::json!({"expiration": expiration, "conditions": conditions});
    let policy = STANDARD.encode(policy.to_string());

    let key = signing_key(&credential.secret_key, &day, region).ok_or_else(|| s3_error!(InternalError))?;
    let signature = hex::encode(key.chain_update(&policy).finalize().into_bytes());
    fields.push(("policy".to_owned(), policy));
    fields.push(("x-amz-signature".to_owned(), signature));
    Ok(())
}

/// Receives the file, and returns the whole form for the origin.
async fn small_form(boundary: &str, fields: &[(String, String)], file: FormFile) -> S3Result<Bytes> {
    let head = head_of(boundary, fields, file.content_type.as_deref());
    let file = file.collect().await?;
    Ok(Bytes::from([head.as_bytes(), &file, end_of(boundary).as_bytes()].concat()))
}

/// Returns the form up to the bytes of the file.
fn head_of(boundary: &str, fields: &[(String, String)], content_type: Option<&str>) -> String {
    let mut head = String::new();
    for (name, value) in fields {
        head.push_str(&format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n"
        ));
    }

    head.push_str(&format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"file\"\r\n"
    ));
    let is_text = |text: &&str| text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    if let Some(content_type) = content_type.filter(is_text) {
        head.push_str(&format!("Content-Type: {content_type}\r\n"));
    }
    head.push_str("\r\n");
    head
}

/// Returns the form after the bytes of the file.
fn end_of(boundary: &str) -> String {
    format!("\r\n--{boundary}--\r\n")
}

/// Body of a form: its fields, the bytes of the file, and the closing delimiter once the file is complete.
struct ForwardedForm {
    head: Bytes,
    file: Option<FormFile>,
    end: Bytes,
    /// Bytes still to be sent, if the client announced the length of its form.
    remaining: Option<u64>,
}

impl ForwardedForm {
    /// Creates the form that replaces the client's form of `content_length` bytes.
    fn new(
        boundary: &str,
        fields: &[(String, String)],
        file: FormFile,
        content_length: Option<u64>,
    ) -> Result<Self, FormError> {
        let head = head_of(boundary, fields, file.content_type.as_deref());
        let end = end_of(boundary);
        let remaining = match content_length {
            Some(length) => {
                let ours = (head.len() + end.len()) as u64;
                let total = length.saturating_add(ours).checked_sub(file.frame_len());
                Some(total.ok_or(FormError::Malformed)?)
            }
            None => None,
        };

        Ok(Self { head: Bytes::from(head), file: Some(file), end: Bytes::from(end), remaining })
    }

    fn poll_next_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, StdError>>> {
        if !self.head.is_empty() {
            return Poll::Ready(Some(Ok(std::mem::take(&mut self.head))));
        }
        if let Some(file) = &mut self.file {
            match ready!(Pin::new(file).poll_next(cx)) {
                Some(bytes) => return Poll::Ready(Some(bytes)),
                None => self.file = None,
            }
        }

        if !self.end.is_empty() {
            let mut end = std::mem::take(&mut self.end);
            if let Some(remaining) = self.remaining.filter(|remaining| *remaining < end.len() as u64) {
                // The client omitted the line break after the closing delimiter.
                if remaining + 2 < end.len() as u64 {
                    return Poll::Ready(Some(Err(FormError::Malformed.into())));
                }
                end.truncate(remaining as usize);
            }
            return Poll::Ready(Some(Ok(end)));
        }

        Poll::Ready(self.remaining.filter(|remaining| *remaining > 0).map(|remaining| {
            let count = SPACES.len().min(usize::try_from(remaining).unwrap_or(usize::MAX));
            Ok(Bytes::from_static(SPACES.get(..count).unwrap_or_default()))
        }))
    }
}

impl Stream for ForwardedForm {
    type Item = Result<Bytes, StdError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = ready!(self.poll_next_bytes(cx));
        if let (Some(Ok(bytes)), Some(remaining)) = (&next, &mut self.remaining) {
            *remaining = remaining.saturating_sub(bytes.len() as u64);
        }
        Poll::Ready(next)
    }
}

impl ByteStream for ForwardedForm {
    fn remaining_length(&self) -> RemainingLength {
        RemainingLength::unknown()
    }
}

#[cfg(test)]
mod tests {
    use chrono::SubsecRound;
    use futures::TryStreamExt;

    use super::*;
    use crate::{
        access::AccessKeys,
        config::{AccessKeyConfig, Secret},
        s3::write::post_form::PostForm,
    };

    const HEAD: &str = "--b\r\nContent-Disposition: form-data; name=\"key\"\r\n\r\nk\r\n\
        --b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\nContent-Type: text/x\r\n\r\n";

    fn headers(boundary: &str) -> HeaderMap {
        let value = format!("multipart/form-data; boundary={boundary}").parse().unwrap();
        [(CONTENT_TYPE, value)].into_iter().collect()
    }

    async fn open(form: &str) -> VerifiedForm {
        let form = PostForm::read(&headers("b"), Body::from(form.to_owned())).await.unwrap();
        form.check("lake", Utc::now()).unwrap()
    }

    #[tokio::test]
    async fn a_form_has_the_length_that_was_told_however_the_clients_ends() {
        let fields = [("key".to_owned(), "k".to_owned())];
        for (ending, expected) in [
            ("--b--\r\n", "--ours--\r\n"),
            ("--b--", "--ours--"),
            ("--b--\r\nxx", "--ours--\r\n  "),
            ("--b\r\nContent-Disposition: form-data; name=\"key\"\r\n\r\nother\r\n--b--\r\n", "--ours--\r\n"),
        ] {
            let client = format!("{HEAD}bytes\r\n{ending}");
            let file = open(&client).await.file;
            let written = ForwardedForm::new("ours", &fields, file, Some(client.len() as u64)).unwrap();
            let remaining = written.remaining.unwrap();
            let pieces: Vec<Bytes> = written.try_collect().await.unwrap();
            let text = String::from_utf8(pieces.concat()).unwrap();
            assert_eq!(text.len() as u64, remaining, "{ending:?}");
            let begin = HEAD.replace("--b", "--ours").replace("\"f\"", "\"file\"");
            let rest = text.strip_prefix(&format!("{begin}bytes\r\n")).unwrap();
            assert_eq!(rest.trim_end_matches(' '), expected.trim_end_matches(' '), "{ending:?}");
        }
    }

    #[tokio::test]
    async fn nothing_follows_the_delimiter_of_a_small_form() {
        let fields = [("key".to_owned(), "k".to_owned())];
        for ending in [
            "--b--\r\n",
            "--b--",
            "--b--\r\nxx",
            "--b\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\n\r\n--b--",
        ] {
            let file = open(&format!("{HEAD}bytes\r\n{ending}")).await.file;
            let form = small_form("ours", &fields, file).await.unwrap();
            let begin = HEAD.replace("--b", "--ours").replace("\"f\"", "\"file\"");
            assert_eq!(form, format!("{begin}bytes\r\n--ours--\r\n"), "{ending:?}");
        }

        let cut = open(&format!("{HEAD}bytes\r\n--b")).await.file;
        assert!(small_form("ours", &fields, cut).await.is_err());
    }

    #[tokio::test]
    async fn a_form_that_breaks_off_is_not_closed() {
        let client = format!("{HEAD}bytes\r\n--b");
        let mut written =
            ForwardedForm::new("ours", &[], open(&client).await.file, Some(client.len() as u64 + 8)).unwrap();
        let mut sent = Vec::new();
        let failed = loop {
            match written.try_next().await {
                Ok(Some(bytes)) => sent.extend_from_slice(&bytes),
                Ok(None) => panic!("it ended well"),
                Err(failed) => break failed,
            }
        };
        assert!(failed.is::<FormError>());
        assert!(String::from_utf8(sent).unwrap().ends_with("\r\n\r\nbytes"));
    }

    #[tokio::test]
    async fn what_is_signed_here_is_verified_there() {
        let keys = AccessKeys::new(&[AccessKeyConfig {
            id: "origin".into(),
            secret: Secret::new("secret"),
            token: None,
            buckets: vec!["*".into()],
            prefixes: Vec::new(),
            write: true,
        }]);

        let credential = AwsCredential {
            key_id: "origin".into(),
            secret_key: "secret".into(),
            token: Some("session".into()),
        };
        let now = Utc::now().trunc_subsecs(0);
        let mut fields: Vec<(String, String)> =
            [("key", "a \"b\"\r\n{ü}"), ("Content-Type", "text/x, text/y"), ("x-amz-meta-a", "")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into();

        sign(&mut fields, "lake", &credential, "eu-west-1", now).unwrap();
        let client = format!("{HEAD}bytes\r\n--b--\r\n");
        let written = ForwardedForm::new("ours", &fields, open(&client).await.file, None).unwrap();
        let pieces: Vec<Bytes> = written.try_collect().await.unwrap();

        let form = PostForm::read(&headers("ours"), Body::from(pieces.concat())).await.unwrap();
        assert_eq!(form.authenticate(&keys, now).unwrap().as_deref(), Some("origin"));
        assert_eq!(form.check("lake", now).unwrap().key, "a \"b\"\r\n{ü}");
    }
}
