//! Reads an object by stripes: each part from its home, the rest of a broken answer from the next node, all from one
//! version.

use std::{ops::Range, sync::Arc};

use bytes::{Bytes, BytesMut};
use futures::{
    StreamExt, TryStreamExt,
    stream::{self, BoxStream},
};
use object_store::{
    Error, GetOptions, GetRange, GetResult, GetResultPayload, ObjectMeta, Result, path::Path,
};
use parking_lot::Mutex;
use tokio::time::timeout;

use super::{
    connect::NodeStores,
    failure::{NodeFailure, NodeFault, object_changed},
    pool::{NodeClient, NodePool, NodeRequest, RepeatEffect},
};
use crate::{
    address::NodeAddress,
    placement::{PathHash, STRIPE_BYTES, StripeKey, stripe_parts},
};

/// Maximum parts of a range requested concurrently.
const CONCURRENT_PARTS: usize = 8;

/// Answers a GET or HEAD. The first request, to the home of the first stripe, determines the version; requests for
/// the other stripes follow as the caller reads on, with `If-Match`.
pub(super) async fn get(pool: &Arc<NodePool>, location: &Path, options: GetOptions) -> Result<GetResult> {
    let path = PathHash::of(pool.bucket(), location.as_ref());
    let start = match &options.range {
        Some(GetRange::Bounded(range)) => range.start,
        Some(GetRange::Offset(offset)) => *offset,
        Some(GetRange::Suffix(_)) | None => 0,
    };

    let first_range = match &options.range {
        Some(GetRange::Bounded(range)) if range.start < range.end => {
            Some(GetRange::Bounded(range.start..range.end.min(stripe_end(range.start))))
        }
        range => range.clone(),
    };
    let first_options = GetOptions { range: first_range, ..options.clone() };
    let key = path.stripe_at(if options.head { 0 } else { start });
    let (first, request) = match send(pool, key, &[], location, &first_options).await {
        // The authority gave the version, and has it even if the home knows an older or a newer one.
        Err(Error::Precondition { .. }) if options.if_match.is_some() && key != path.stripe(0) => {
            send(pool, path.stripe(0), &[], location, &first_options).await?
        }
        answer => answer?,
    };
    if options.head {
        request.succeeded();
        return Ok(first);
    }

    let whole = whole_range(&options, &first)?;
    let Some(e_tag) = strong(&first.meta).map(str::to_owned) else {
        // Another answer might be of another version, so this one must be the whole result.
        if whole == first.range {
            request.succeeded();
            return Ok(first);
        }
        let (only, request) = send(pool, key, &[], location, &options).await?;
        request.succeeded();
        return Ok(only);
    };

    let GetResult { payload, meta, range, attributes } = first;
    let answered = range.clone();
    let first = GetResult { payload, meta: meta.clone(), range, attributes: attributes.clone() };
    let reader = StripeReader {
        pool: pool.clone(),
        location: location.clone(),
        path,
        options: GetOptions {
            if_match: Some(e_tag),
            version: options.version,
            extensions: options.extensions,
            ..GetOptions::default()
        },
        size: meta.size,
        position: whole.start,
        end: whole.end,
        source: request.node().clone(),
        part: Some(AnsweredPart {
            end: answered.end.min(stripe_end(whole.start)),
            bytes: first.into_stream(),
            request,
        }),
        avoid: Vec::new(),
        consecutive_failures: 0,
    };

    let payload = GetResultPayload::Stream(reader.into_stream());
    Ok(GetResult { payload, meta, range: whole, attributes })
}

/// Reads ranges, all from one version. Nearby ranges are merged, and parts are read from their homes concurrently.
pub(super) async fn get_ranges(
    pool: &Arc<NodePool>,
    location: &Path,
    ranges: &[Range<u64>],
) -> Result<Vec<Bytes>> {
    let gap = object_store::OBJECT_STORE_COALESCE_DEFAULT;
    let version = SharedVersion::default();
    let read = |range| read_range(pool, location, range, &version);
    match object_store::coalesce_ranges(ranges, read, gap).await {
        Err(Error::Precondition { .. }) => {}
        answer => return answer,
    }

    // Nodes disagree about the version, or it changed in between: the authority decides.
    let current = get(pool, location, GetOptions::new().with_head(true)).await?;
    let version = SharedVersion::default();
    version.check(location, &current.meta)?;
    let read = |range| read_range(pool, location, range, &version);
    object_store::coalesce_ranges(ranges, read, gap).await
}

/// The version that all parts of a read must have: that of the first answer.
#[derive(Debug, Default)]
struct SharedVersion(Mutex<Option<ObjectMeta>>);

impl SharedVersion {
    /// Fails if the answer is of another version than earlier ones.
    fn check(&self, location: &Path, meta: &ObjectMeta) -> Result<()> {
        let mut first = self.0.lock();
        let first = first.get_or_insert_with(|| meta.clone());
        let is_same = match (strong(first), strong(meta)) {
            (None, None) => first.last_modified == meta.last_modified && first.size == meta.size,
            (first, now) => first == now,
        };
        if is_same { Ok(()) } else { Err(object_changed(location)) }
    }

    /// Returns the ETag, if it is known.
    fn e_tag(&self) -> Option<String> {
        self.0.lock().as_ref().and_then(strong).map(str::to_owned)
    }
}

/// Reads a range, whose end may lie past the end of the object.
async fn read_range(
    pool: &Arc<NodePool>,
    location: &Path,
    range: Range<u64>,
    version: &SharedVersion,
) -> Result<Bytes> {
    let parts: Vec<_> = stripe_parts(range.clone()).map(|part| part.range).collect();
    if parts.len() <= 1 {
        return read_part(pool, location, range, version).await.map(|(bytes, _)| bytes);
    }

    let starts: Vec<_> = parts.iter().map(|part| part.start).collect();
    let read = parts.into_iter().map(|part| read_part(pool, location, part, version));
    let answers: Vec<_> = stream::iter(read).buffered(CONCURRENT_PARTS).collect().await;
    let mut size = u64::MAX;
    let mut joined = BytesMut::new();
    for (start, answer) in starts.into_iter().zip(answers) {
        if start >= size {
            break;
        }
        let (bytes, meta) = answer?;
        size = meta.size;
        joined.extend_from_slice(&bytes);
    }
    Ok(joined.freeze())
}

async fn read_part(
    pool: &Arc<NodePool>,
    location: &Path,
    range: Range<u64>,
    version: &SharedVersion,
) -> Result<(Bytes, ObjectMeta)> {
    let options = GetOptions::new().with_range(Some(range)).with_if_match(version.e_tag());
    let answer = get(pool, location, options).await?;
    version.check(location, &answer.meta)?;
    let meta = answer.meta.clone();
    Ok((answer.bytes().await?, meta))
}

async fn send(
    pool: &Arc<NodePool>,
    key: StripeKey,
    avoid: &[NodeAddress],
    location: &Path,
    options: &GetOptions,
) -> Result<(GetResult, NodeRequest)> {
    pool.ask(key, avoid, RepeatEffect::Read, |stores| fetch(stores, location, options)).await
}

/// Sends a GET or HEAD to a node. Its answer counts as begun when the first bytes arrive: a node that knows the
/// version but is slow to send bytes is slow.
fn fetch(
    stores: &NodeStores,
    location: &Path,
    options: &GetOptions,
) -> impl Future<Output = Result<GetResult>> + Send + use<> {
    let store = stores.requests.clone();
    let location = location.clone();
    let options = options.clone();
    async move {
        let is_head = options.head;
        let answer = store.get_opts(&location, options).await?;
        if is_head || answer.range.is_empty() {
            return Ok(answer);
        }

        let meta = answer.meta.clone();
        let range = answer.range.clone();
        let attributes = answer.attributes.clone();
        let mut bytes = answer.into_stream();
        let first = bytes.try_next().await?.ok_or(NodeFault::Short)?;
        let payload = GetResultPayload::Stream(stream::iter([Ok(first)]).chain(bytes).boxed());
        Ok(GetResult { payload, meta, range, attributes })
    }
}

/// Returns the requested range, clamped to the object.
fn whole_range(options: &GetOptions, first: &GetResult) -> Result<Range<u64>> {
    let size = first.meta.size;
    let whole = match &options.range {
        Some(range) => range
            .as_range(size)
            .map_err(|source| Error::Generic { store: super::STORE, source: Box::new(source) })?,
        None => 0..size,
    };
    let is_answer = whole.start == first.range.start && first.range.end <= whole.end;
    if is_answer { Ok(whole) } else { Err(NodeFault::Short.into()) }
}

/// Returns the ETag, unless it is weak and therefore unusable in conditions.
fn strong(meta: &ObjectMeta) -> Option<&str> {
    meta.e_tag.as_deref().filter(|e_tag| !e_tag.starts_with("W/"))
}

fn stripe_end(offset: u64) -> u64 {
    (offset / STRIPE_BYTES + 1).saturating_mul(STRIPE_BYTES)
}

/// An object that is being read stripe by stripe.
struct StripeReader {
    pool: Arc<NodePool>,
    location: Path,
    path: PathHash,
    /// Options of all requests after the first, without the range.
    options: GetOptions,
    size: u64,
    position: u64,
    end: u64,
    /// The node that determined the version.
    source: Arc<NodeClient>,
    part: Option<AnsweredPart>,
    /// Nodes that failed in this stripe.
    avoid: Vec<NodeAddress>,
    /// Failures since the last byte.
    consecutive_failures: usize,
}

/// An answer that is being read.
struct AnsweredPart {
    /// The offset up to which it is used: at most the end of its stripe.
    end: u64,
    bytes: BoxStream<'static, Result<Bytes>>,
    request: NodeRequest,
}

impl StripeReader {
    fn into_stream(self) -> BoxStream<'static, Result<Bytes>> {
        let next = |mut reader: Self| async move {
            let bytes = reader.next().await?;
            Ok(bytes.map(|bytes| (bytes, reader)))
        };
        stream::try_unfold(self, next).boxed()
    }

    /// Returns the next bytes; `None` at the end.
    async fn next(&mut self) -> Result<Option<Bytes>> {
        while self.position < self.end {
            let mut part = match self.part.take() {
                Some(part) => part,
                None => self.ask().await?,
            };

            let limit = self.pool.options().answer_timeout;
            let next = timeout(limit, part.bytes.try_next()).await;
            let error = match next.unwrap_or_else(|_| Err(NodeFault::Late.into())) {
                Ok(Some(mut bytes)) => {
                    let left = part.end - self.position;
                    bytes.truncate(usize::try_from(left).unwrap_or(usize::MAX));
                    self.position += bytes.len() as u64;
                    if self.position == part.end {
                        part.request.succeeded();
                        self.avoid.clear();
                    } else {
                        self.part = Some(part);
                    }
                    if bytes.is_empty() {
                        continue;
                    }
                    self.consecutive_failures = 0;
                    return Ok(Some(bytes));
                }
                Ok(None) => NodeFault::Short.into(),
                Err(error) => error,
            };

            if NodeFailure::of(&error).is_none() {
                return Err(error);
            }
            part.request.failed();
            self.consecutive_failures += 1;
            if self.consecutive_failures > self.pool.len() + 2 {
                return Err(error);
            }
            self.avoid.push(part.request.address().clone());
        }
        Ok(None)
    }

    /// Requests the rest of the stripe.
    async fn ask(&mut self) -> Result<AnsweredPart> {
        let end = self.end.min(stripe_end(self.position));
        let range = self.position..end;
        let options = GetOptions { range: Some(GetRange::Bounded(range.clone())), ..self.options.clone() };
        let key = self.path.stripe_at(self.position);

        let answer = match send(&self.pool, key, &self.avoid, &self.location, &options).await {
            Ok((answer, request)) if self.is_of_version(&answer, &range) => Ok((answer, request)),
            // The node that determined the version may still have it, even if others know a newer one.
            Ok(_) | Err(Error::Precondition { .. } | Error::NotFound { .. }) => {
                let again =
                    self.pool.ask_again(&self.source, |stores| fetch(stores, &self.location, &options));
                again.await.map_err(|_| object_changed(&self.location))
            }
            Err(error) => Err(error),
        };

        let (answer, request) = answer?;
        if !self.is_of_version(&answer, &range) {
            return Err(object_changed(&self.location));
        }
        Ok(AnsweredPart { end, bytes: answer.into_stream(), request })
    }

    fn is_of_version(&self, answer: &GetResult, range: &Range<u64>) -> bool {
        let is_same = strong(&answer.meta) == self.options.if_match.as_deref();
        is_same && answer.meta.size == self.size && answer.range == *range
    }
}
