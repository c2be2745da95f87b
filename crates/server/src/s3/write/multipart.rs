//! Multipart uploads: create, upload, copy into, complete, abort.

use std::time::Duration;

use object_store::path::Path;
use s3s::{
    S3Error, S3Request, S3Response, S3Result,
    dto::{
        AbortMultipartUploadInput, AbortMultipartUploadOutput, Checksum, CompleteMultipartUploadInput,
        CompleteMultipartUploadOutput, CompletedPart, CopyPartResult, CreateMultipartUploadInput,
        CreateMultipartUploadOutput, UploadPartCopyInput, UploadPartCopyOutput, UploadPartInput,
        UploadPartOutput,
    },
    s3_error,
};
use stylobate_storage::{ByteSize, Completion, KeptHeaders, ReadThrough, traced};
use tokio::task::JoinError;

use super::{
    checksum::{BodyVerifier, ClaimedChecksums},
    copy::{as_precondition, source_of},
    headers::{descriptive_headers, folder_only_headers, refuse_acl, refuse_unsupported},
    ingest::{UploadBody, store_part},
    put::{self as write, writable_path},
};
use crate::s3::{
    authorize::CopySourceHeader,
    door::S3Backend,
    read::{
        conditions::{ReadConditions, timestamp},
        open as read,
        range::RequestedRange,
    },
    upload::{
        completion::{CompletedUploadKey, UploadKey, etag_of_parts, full_checksum, hash_of_parts},
        kept::keep_etag,
    },
    wire::{attributes::DescriptiveHeaders, error, etag, late_outcome::LateOutcome},
};

/// Minimum size of every part but the last, as in S3.
const MIN_PART_SIZE: u64 = 5 << 20;

/// Maximum parts of an upload, as in S3.
const MAX_PARTS: i32 = 10_000;

/// Time after which the answer to a running completion begins. From then on, the answer sends whitespace until the
/// outcome is known, as in S3: clients give up if they receive nothing, commonly after 60 seconds.
const MAX_SILENCE: Duration = if cfg!(test) { Duration::from_millis(100) } else { Duration::from_secs(5) };

pub(crate) async fn create(
    door: &S3Backend,
    input: CreateMultipartUploadInput,
) -> S3Result<S3Response<CreateMultipartUploadOutput>> {
    let bucket = door.writable(&input.bucket)?;
    let path = writable_path(&bucket.reader, &input.key)?;
    let is_folder = bucket.reader.origin().folder().is_some();

    refuse_acl(input.acl.as_ref())?;
    read::refuse_customer_key(input.sse_customer_algorithm.as_deref())?;
    refuse_unsupported!(input, is_folder: is_folder, is_tagged: input.tagging.is_some())?;

    let kept = if is_folder { folder_only_headers!(input).to_kept()? } else { KeptHeaders::default() };

    // A generic content type is left to the origin: most origins cannot set a type on an upload that accepts parts in
    // any order, so the storage layer would have to stage the parts.
    let untyped = ["application/octet-stream", "binary/octet-stream"];
    let described = descriptive_headers!(input);
    let content_type = described.content_type.filter(|text| is_folder || !untyped.contains(&text.as_str()));
    let described = DescriptiveHeaders { content_type, ..described };

    let upload = bucket.reader.create_upload(&path, described.into_attributes(), kept).await;
    let upload_id = upload.map_err(|failed| error::from_storage(&failed))?;
    Ok(S3Response::new(CreateMultipartUploadOutput {
        bucket: Some(input.bucket),
        key: Some(input.key),
        upload_id: Some(upload_id),
        checksum_algorithm: input.checksum_algorithm,
        checksum_type: input.checksum_type,
        ..Default::default()
    }))
}

pub(crate) async fn upload_part(
    door: &S3Backend,
    mut request: S3Request<UploadPartInput>,
) -> S3Result<S3Response<UploadPartOutput>> {
    let claims = write::claims(&mut request);
    let input = request.input;
    let bucket = door.writable(&input.bucket)?;
    read::refuse_customer_key(input.sse_customer_algorithm.as_deref())?;
    let path = writable_path(&bucket.reader, &input.key)?;
    let number = part_number(Some(input.part_number))?;

    let checksum = Checksum {
        checksum_crc32: input.checksum_crc32,
        checksum_crc32c: input.checksum_crc32c,
        checksum_crc64nvme: input.checksum_crc64nvme,
        checksum_sha1: input.checksum_sha1,
        checksum_sha256: input.checksum_sha256,
        ..Default::default()
    };

    let verifier = BodyVerifier::new(ClaimedChecksums { md5: input.content_md5, checksum, ..claims })?;
    let incoming = UploadBody::from_request(input.body, input.content_length, verifier)?;

    let part = (&path, input.upload_id.as_str(), number);
    let (raw, checksum) = store_part(&door.memory, &bucket.reader, part, incoming).await?;
    Ok(S3Response::new(UploadPartOutput {
        e_tag: Some(etag::from_origin(&raw)),
        checksum_crc32: checksum.checksum_crc32,
        checksum_crc32c: checksum.checksum_crc32c,
        checksum_crc64nvme: checksum.checksum_crc64nvme,
        checksum_sha1: checksum.checksum_sha1,
        checksum_sha256: checksum.checksum_sha256,
        ..Default::default()
    }))
}

pub(crate) async fn upload_part_copy(
    door: &S3Backend,
    request: S3Request<UploadPartCopyInput>,
) -> S3Result<S3Response<UploadPartCopyOutput>> {
    let S3Request { input, extensions, .. } = request;
    let target = door.writable(&input.bucket)?;
    let CopySourceHeader { bucket: source_bucket, key: source_key, .. } = source_of(&extensions)?;
    let source = door.readable(source_bucket)?;
    read::refuse_customer_key(input.sse_customer_algorithm.as_deref())?;
    read::refuse_customer_key(input.copy_source_sse_customer_algorithm.as_deref())?;
    let from = read::readable_path(&source.reader, source_key)?;
    let to = writable_path(&target.reader, &input.key)?;
    let number = part_number(Some(input.part_number))?;

    let wanted = RequestedRange::of_copy(input.copy_source_range.as_deref())?;
    let conditions = ReadConditions {
        if_match: input.copy_source_if_match,
        if_none_match: input.copy_source_if_none_match,
        if_modified_since: input.copy_source_if_modified_since,
        if_unmodified_since: input.copy_source_if_unmodified_since,
    };

    let object =
        read::open(&source.reader, &from, &wanted, &conditions).await.map_err(as_precondition)?.result;
    wanted.check_copy(object.meta.size)?;
    let last_modified = timestamp(object.meta.last_modified);

    let part = (&to, input.upload_id.as_str(), number);
    let (raw, _) = store_part(&door.memory, &target.reader, part, UploadBody::from_object(object)).await?;
    let result = CopyPartResult {
        e_tag: Some(etag::from_origin(&raw)),
        last_modified: Some(last_modified),
        ..Default::default()
    };

    Ok(S3Response::new(UploadPartCopyOutput { copy_part_result: Some(result), ..Default::default() }))
}

pub(crate) async fn complete(
    door: &S3Backend,
    input: CompleteMultipartUploadInput,
) -> S3Result<S3Response<CompleteMultipartUploadOutput>> {
    let bucket = door.writable(&input.bucket)?;
    let path = writable_path(&bucket.reader, &input.key)?;
    let is_folder = bucket.reader.origin().folder().is_some();
    if !is_folder && (input.if_match.is_some() || input.if_none_match.is_some()) {
        return Err(s3_error!(NotImplemented, "uploads in parts cannot be completed on a condition"));
    }

    let listed = input.multipart_upload.as_ref().and_then(|upload| upload.parts.clone());
    let parts = parts(listed.unwrap_or_default())?;
    let upload =
        UploadKey { bucket: input.bucket.clone(), key: input.key.clone(), id: input.upload_id.clone() };
    let name = CompletedUploadKey { upload: upload.clone(), parts: hash_of_parts(&parts) };

    // Goes on if the client disconnects: the cache must be invalidated once the object exists, and a client that
    // stopped waiting repeats the request.
    let door = door.clone();
    let reader = bucket.reader.clone();
    let mut completing = tokio::spawn(traced(async move {
        let _turn = door.completed.turn(&name.upload).await;
        match join(&door, &reader, &path, input, parts).await {
            Ok(answer) => {
                door.completed.note(name, &answer);
                Ok(answer)
            }
            // The upload was completed before.
            Err(failed) => door.completed.answer(&name).ok_or(failed),
        }
    }));

    if let Ok(joined) = tokio::time::timeout(MAX_SILENCE, &mut completing).await {
        return outcome(joined).map(S3Response::new);
    }
    let late = async move {
        let completed = outcome(completing.await);
        if let Err(failed) = &completed {
            let UploadKey { bucket, key, .. } = &upload;
            let code = failed.code().as_str();
            tracing::info!(bucket, key, code, "upload not completed");
        }
        completed
    };
    let output = CompleteMultipartUploadOutput { future: Some(Box::pin(late)), ..Default::default() };
    let mut response = S3Response::new(output);
    response.extensions.insert(LateOutcome);
    Ok(response)
}

/// Returns the answer of the task that completes an upload.
fn outcome(
    joined: Result<S3Result<CompleteMultipartUploadOutput>, JoinError>,
) -> S3Result<CompleteMultipartUploadOutput> {
    joined.unwrap_or_else(|_| Err(s3_error!(InternalError)))
}

/// Joins the parts of an upload.
async fn join(
    door: &S3Backend,
    reader: &ReadThrough,
    path: &Path,
    input: CompleteMultipartUploadInput,
    parts: Vec<(u32, String)>,
) -> S3Result<CompleteMultipartUploadOutput> {
    let mut completion = Completion { min_part_size: MIN_PART_SIZE, ..Completion::default() };
    if reader.origin().folder().is_some() {
        completion.check = full_checksum(&input, &completion.kept)?;
        completion.mode = write::mode(reader, path, input.if_match, input.if_none_match).await?;
        if let Some(etag) = etag_of_parts(&parts) {
            keep_etag(&completion.kept, &etag);
        }
    }

    let needed = reader.completion_memory_bytes(path, &input.upload_id, &parts).await;
    let needed = needed.map_err(|failed| error::from_storage(&failed))?;
    let limit = door.memory.max_upload_bytes();
    if needed > limit {
        return Err(large_upload(needed, limit));
    }

    let memory = door.memory.take(needed).await?;
    let result = reader.complete_upload(path, &input.upload_id, &parts, completion).await;
    drop(memory);
    let result = result.map_err(|failed| error::from_storage(&failed))?;

    let e_tag = match result.e_tag {
        Some(raw) => Some(etag::from_origin(&raw)),
        None => write::current_etag(reader, path).await?,
    };
    Ok(CompleteMultipartUploadOutput {
        location: Some(format!("/{}/{}", input.bucket, input.key)),
        bucket: Some(input.bucket),
        key: Some(input.key),
        e_tag,
        ..Default::default()
    })
}

fn large_upload(needed: u64, limit: u64) -> S3Error {
    let needed = ByteSize::bytes(needed);
    let limit = ByteSize::bytes(limit);
    s3_error!(
        EntityTooLarge,
        "joining these parts takes {needed} of memory, and an upload may hold {limit}: give the node more memory"
    )
}

pub(crate) async fn abort(
    door: &S3Backend,
    input: AbortMultipartUploadInput,
) -> S3Result<S3Response<AbortMultipartUploadOutput>> {
    let bucket = door.writable(&input.bucket)?;
    let path = writable_path(&bucket.reader, &input.key)?;
    if input.if_match_initiated_time.is_some() {
        return Err(s3_error!(NotImplemented, "uploads cannot be aborted on a condition"));
    }

    // Parts that are being joined must not be removed: once joined, the upload no longer exists.
    let upload = UploadKey { bucket: input.bucket, key: input.key, id: input.upload_id };
    let _turn = door.completed.turn(&upload).await;
    let aborted = bucket.reader.abort_upload(&path, &upload.id).await;
    aborted.map_err(|failed| error::from_storage(&failed))?;
    Ok(S3Response::new(AbortMultipartUploadOutput::default()))
}

fn part_number(number: Option<i32>) -> S3Result<u32> {
    match number {
        Some(number @ 1..=MAX_PARTS) => Ok(number as u32),
        _ => Err(s3_error!(InvalidArgument, "Part number must be an integer between 1 and 10000, inclusive")),
    }
}

/// Returns the parts to join, in order.
fn parts(completed: Vec<CompletedPart>) -> S3Result<Vec<(u32, String)>> {
    if completed.is_empty() {
        return Err(s3_error!(MalformedXML, "You must specify at least one part"));
    }

    let mut parts: Vec<(u32, String)> = Vec::with_capacity(completed.len());
    for part in completed {
        let number = part_number(part.part_number)?;
        let Some(tag) = part.e_tag else {
            return Err(s3_error!(InvalidPart, "part {number} has no ETag"));
        };
        if parts.last().is_some_and(|(last, _)| *last >= number) {
            return Err(s3_error!(InvalidPartOrder, "The list of parts was not in ascending order."));
        }
        parts.push((number, etag::quoted(&tag)));
    }

    Ok(parts)
}

#[cfg(test)]
mod tests {
    use std::{net::SocketAddr, sync::Arc};

    use object_store::{
        ObjectStoreExt,
        memory::InMemory,
        throttle::{ThrottleConfig, ThrottledStore},
    };
    use s3s::dto;
    use stylobate_storage::Origin;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpStream,
    };

    use super::*;
    use crate::{
        Doors, Node,
        config::{BucketConfig, NodeConfig},
    };

    /// Starts a node without keys over one bucket `lake`, and returns the address of its S3 door.
    async fn serve(origin: Origin) -> SocketAddr {
        let mut config = NodeConfig::default();
        config.settings.memory = ByteSize::mib(64);
        config.settings.listen.set_port(0);
        config.settings.admin.set_port(0);
        config.settings.flight = None;
        config.buckets.push(BucketConfig::new("lake", "memory:///"));

        let doors = Doors::bind(&config).await.unwrap();
        let address = doors.s3_address();
        let node = Node::open_over(&config, vec![origin]).await.unwrap();
        tokio::spawn(doors.serve(node, std::future::pending()));
        address
    }

    /// Sends a request, and returns the connection on which the node answers.
    async fn ask(address: SocketAddr, method: &str, target: &str, body: &str) -> TcpStream {
        let length = body.len();
        let head = format!("host: {address}\r\nconnection: close\r\ncontent-length: {length}\r\n");
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("{method} {target} HTTP/1.1\r\n{head}\r\n{body}");
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }

    /// Reads until the node closes the connection.
    async fn rest_of(mut stream: TcpStream) -> String {
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        text
    }

    /// Returns the text between two others.
    fn between<'a>(text: &'a str, before: &str, after: &str) -> &'a str {
        text.split_once(before).and_then(|(_, rest)| rest.split_once(after)).unwrap().0
    }

    /// Starts a node over a store in memory, and returns the node's address, the store, and its objects.
    async fn throttled() -> (SocketAddr, Arc<ThrottledStore<Arc<InMemory>>>, Arc<InMemory>) {
        let objects = Arc::new(InMemory::new());
        let store = Arc::new(ThrottledStore::new(objects.clone(), ThrottleConfig::default()));
        let address = serve(Origin::new("lake", store.clone())).await;
        (address, store, objects)
    }

    /// Uploads one part of an object `a`, and returns the id of the upload and the ETag of the part.
    async fn upload_one_part(address: SocketAddr) -> (String, String) {
        let created = rest_of(ask(address, "POST", "/lake/a?uploads", "").await).await;
        let id = between(&created, "<UploadId>", "</UploadId>");
        let sent = ask(address, "PUT", &format!("/lake/a?partNumber=1&uploadId={id}"), "data").await;
        let sent = rest_of(sent).await.to_ascii_lowercase();
        (id.to_owned(), between(&sent, "etag: ", "\r\n").to_owned())
    }

    fn completion_of(etag: &str) -> String {
        format!(
            "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>\
             </CompleteMultipartUpload>"
        )
    }

    /// Returns the body of an answer that is sent in chunks.
    fn dechunked(answer: &str) -> String {
        let mut rest = answer.split_once("\r\n\r\n").unwrap().1;
        let mut body = String::new();
        while let Some((size, chunk)) = rest.split_once("\r\n") {
            let size = usize::from_str_radix(size, 16).unwrap();
            body += &chunk[..size];
            rest = &chunk[size + 2..];
        }
        body
    }

    /// Returns the root element of a document, which must begin with its only declaration.
    fn root_of(document: &str) -> &str {
        let (declaration, rest) = document.split_once("?>").unwrap();
        assert!(declaration.starts_with("<?xml ") && !rest.contains("<?"), "{document}");
        assert!(rest.starts_with(' '), "no whitespace: {document}");
        rest.trim_start()
    }

    /// Clients with a read timeout gave up on a long join, and their abort removed the parts during it.
    #[tokio::test]
    async fn a_long_completion_answers_before_its_end_and_no_abort_disturbs_it() {
        let (address, store, objects) = throttled().await;
        let (id, etag) = upload_one_part(address).await;

        store.config_mut(|config| config.wait_get_per_call = Duration::from_secs(1));
        let target = format!("/lake/a?uploadId={id}");
        let mut completing = ask(address, "POST", &target, &completion_of(&etag)).await;
        let mut status = [0; 12];
        completing.read_exact(&mut status).await.unwrap();
        assert_eq!(&status, b"HTTP/1.1 200");

        let aborting = ask(address, "DELETE", &target, "").await;
        let (completed, aborted) = tokio::join!(rest_of(completing), rest_of(aborting));
        let document = dechunked(&completed);
        let root = root_of(&document);
        assert!(root.starts_with("<CompleteMultipartUploadResult"), "{document}");
        assert!(root.ends_with("</CompleteMultipartUploadResult>"), "{document}");
        assert!(aborted.contains("<Code>NoSuchUpload</Code>"), "{aborted}");
        assert_eq!(objects.get(&Path::from("a")).await.unwrap().bytes().await.unwrap(), "data");
    }

    /// The protocol layer serialized the error with a second declaration, after the whitespace, which is not XML.
    #[tokio::test]
    async fn an_error_after_whitespace_is_one_document() {
        let (address, store, objects) = throttled().await;
        let (id, _) = upload_one_part(address).await;

        store.config_mut(|config| config.wait_get_per_call = Duration::from_secs(2));
        let target = format!("/lake/a?uploadId={id}");
        let wrong = completion_of("\"another\"");
        let failed = rest_of(ask(address, "POST", &target, &wrong).await).await;

        assert!(failed.starts_with("HTTP/1.1 200"), "{failed}");
        let document = dechunked(&failed);
        let root = root_of(&document);
        assert!(root.starts_with("<Error><Code>InvalidPart</Code>"), "{document}");
        assert!(root.contains("<Key>a</Key><BucketName>lake</BucketName>"), "{document}");
        assert!(root.contains("<RequestId>") && root.ends_with("</Error>"), "{document}");
        assert!(objects.get(&Path::from("a")).await.is_err());
    }

    fn part(number: i32) -> CompletedPart {
        CompletedPart {
            part_number: Some(number),
            e_tag: Some(dto::ETag::Strong(format!("e{number}"))),
            ..Default::default()
        }
    }

    #[test]
    fn parts_are_joined_in_ascending_order_only() {
        let code = |numbers: &[i32]| {
            let outcome = parts(numbers.iter().map(|&number| part(number)).collect());
            outcome.map_err(|failed| failed.code().as_str().to_owned())
        };
        assert_eq!(code(&[1, 7]).unwrap(), [(1, "\"e1\"".to_owned()), (7, "\"e7\"".to_owned())]);
        assert_eq!(code(&[2, 1]).unwrap_err(), "InvalidPartOrder");
        assert_eq!(code(&[1, 1]).unwrap_err(), "InvalidPartOrder");
        assert_eq!(code(&[]).unwrap_err(), "MalformedXML");
        assert_eq!(code(&[0]).unwrap_err(), "InvalidArgument");
        assert_eq!(code(&[10_001]).unwrap_err(), "InvalidArgument");
    }
}
