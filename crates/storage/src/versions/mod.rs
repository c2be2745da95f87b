//! The current version of each path: the origin's latest description, and its freshness.

pub(super) mod freshness;
pub(super) mod holders;
mod known_paths;
pub(super) mod paths_in_use;

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use chrono::{DateTime, TimeDelta, Utc};
use futures::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use object_store::{Attributes, ObjectMeta, path::Path};
use parking_lot::{Mutex, RwLock};
use tokio::{task::AbortHandle, time::Instant};

use crate::{
    Consistency, ObjectHeaders, Origin, Result,
    object::{ObjectHash, attribute_record},
    origin::trace::traced,
    peers::{DescribedObject, PeerId},
    versions::{
        holders::VersionHolders,
        known_paths::KnownPaths,
        paths_in_use::{PathInUse, PathsInUse},
    },
};

const EPOCHS: usize = 64;
/// Maximum size of an object that is cached: 16 TiB, since pages have numbers of 32 bits, and at least 4 KiB.
const MAX_CACHED: u64 = u32::MAX as u64 * 4096;

/// The origin's description of an object.
#[derive(Clone, Debug)]
pub(crate) struct ObjectInfo {
    pub(crate) path: Path,
    pub(crate) meta: ObjectMeta,
    pub(crate) attributes: Attributes,
    /// Headers from an origin that speaks the S3 protocol.
    pub(crate) headers: Option<ObjectHeaders>,
    /// `None` if the origin gives no strong ETag, if the object may still be being written, or if it is larger than
    /// [`MAX_CACHED`]: then nothing of it may be cached.
    pub(crate) hash: Option<ObjectHash>,
    /// Set if the version in `meta` is the state of a file, which cannot be requested later.
    is_of_file: bool,
    unsettled: bool,
    /// Valid only for the read that requested it: a newer version is about to be shown, or was found.
    momentary: bool,
    checked: Instant,
    /// The peer that gave this description; `None` if this node got it from the origin.
    pub(crate) authority: Option<PeerId>,
    /// The peers that hold this description; `None` if the node is not in a cluster.
    pub(crate) holders: Option<Arc<VersionHolders>>,
    pub(crate) in_use: Arc<PathInUse>,
}

/// Time that a file must be unchanged before its state counts as a version.
///
/// A file system sets the modification time when a write begins: until that write has ended, the same time, size and
/// inode stand for bytes that are still changing.
const SETTLED_AFTER: TimeDelta = TimeDelta::seconds(2);

impl ObjectInfo {
    pub(crate) fn new(
        origin: &Origin,
        path: Path,
        meta: ObjectMeta,
        attributes: Attributes,
        in_use: Arc<PathInUse>,
    ) -> Self {
        let unsettled = origin.may_be_writing() && Utc::now() - meta.last_modified < SETTLED_AFTER;
        let version = origin.version_of(&meta).filter(|_| !unsettled && meta.size <= MAX_CACHED);
        let hash = version.map(|version| version.hash());
        let is_of_file = origin.is_folder();
        Self {
            path,
            meta,
            attributes,
            headers: None,
            hash,
            is_of_file,
            unsettled,
            momentary: false,
            checked: Instant::now(),
            authority: None,
            holders: None,
            in_use,
        }
    }

    /// Returns the description that an authority gave in response to a request sent at `asked`; `None` if the
    /// answer is malformed.
    pub(crate) fn of_peer(
        origin: &Origin,
        path: Path,
        described: DescribedObject,
        asked: Instant,
        in_use: Arc<PathInUse>,
    ) -> Option<Self> {
        let DescribedObject { size, e_tag, version, last_modified, attributes, headers, age } = described;
        let (seconds, nanoseconds) = last_modified;
        let last_modified = DateTime::from_timestamp(seconds, nanoseconds)?;
        let headers = match headers {
            Some(record) => Some(ObjectHeaders::of_record(&record)?),
            None => None,
        };

        let meta = ObjectMeta { location: path.clone(), last_modified, size, e_tag, version };
        let attributes = attribute_record::from_record(attributes);
        let known = Self::new(origin, path, meta, attributes, in_use);
        // The authority asked the origin this long before it answered; it answered after `asked`.
        let checked = age.and_then(|age| asked.checked_sub(age));
        Some(Self { headers, momentary: checked.is_none(), checked: checked.unwrap_or(asked), ..known })
    }

    /// Returns the description for a peer; the peer may cache it only if `may_keep` is set.
    pub(crate) fn to_peer(&self, may_keep: bool) -> DescribedObject {
        let ObjectMeta { last_modified, size, e_tag, version, .. } = &self.meta;
        DescribedObject {
            size: *size,
            e_tag: e_tag.clone(),
            version: version.clone(),
            last_modified: (last_modified.timestamp(), last_modified.timestamp_subsec_nanos()),
            attributes: attribute_record::to_record(&self.attributes),
            headers: self.headers.as_ref().map(ObjectHeaders::to_record),
            age: may_keep.then(|| self.checked.elapsed()),
        }
    }

    /// Returns the description as shared in a cluster: it comes from this authority, and no peer holds it yet.
    pub(crate) fn shared_by(self, authority: Option<PeerId>) -> Self {
        Self { authority, holders: Some(Arc::default()), ..self }
    }

    /// Returns whether both describe the same version, metadata included.
    pub(crate) fn is_version_of(&self, other: &Self) -> bool {
        let Self { hash, meta, .. } = self;
        *hash == other.hash
            && meta.e_tag == other.meta.e_tag
            && meta.size == other.meta.size
            && meta.last_modified == other.meta.last_modified
    }

    fn shares_holders_with(&self, other: &Self) -> bool {
        self.holders
            .as_ref()
            .zip(other.holders.as_ref())
            .is_some_and(|(ours, theirs)| Arc::ptr_eq(ours, theirs))
    }

    /// Returns the metadata shown to readers.
    pub(crate) fn shown(&self) -> ObjectMeta {
        let version = self.meta.version.clone().filter(|_| !self.is_of_file);
        ObjectMeta { version, ..self.meta.clone() }
    }

    /// Returns whether peers hold this description: they must be notified before another version is shown.
    pub(crate) fn is_kept(&self) -> bool {
        self.holders.as_ref().is_some_and(|holders| !holders.is_empty())
    }

    fn is_fresh(&self, consistency: Consistency) -> bool {
        !self.unsettled && !self.momentary && consistency.allows(self.checked.elapsed())
    }
}

/// An object's description in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedObject {
    /// Path within the origin.
    pub path: String,
    /// Size in bytes.
    pub size: u64,
    /// The ETag, quoted or not.
    pub e_tag: Option<String>,
    /// The version, if the listing contains it.
    pub version: Option<String>,
    /// Time of the last modification.
    pub last_modified: Option<DateTime<Utc>>,
}

/// Replaces a description by one that is never fresh and has the same holders.
fn expire(known: &mut Arc<ObjectInfo>) {
    *known = Arc::new(ObjectInfo { momentary: true, ..ObjectInfo::clone(known) });
}

type OriginLookup = Shared<BoxFuture<'static, Result<Arc<ObjectInfo>>>>;

/// A lookup that callers may share: the path, its epoch, and whether the request goes to a peer. A request from a
/// peer must not wait for a request to that peer.
type LookupKey = (String, u64, bool);

/// The latest description of each path.
///
/// A write to a path through this node begins a new epoch: a response to a request that was sent in an earlier epoch
/// is never remembered, however late it arrives.
#[derive(Debug, Default)]
pub(crate) struct ObjectInfoCache {
    known: RwLock<KnownPaths>,
    asking: Mutex<HashMap<LookupKey, (AbortHandle, OriginLookup)>>,
    pub(crate) in_use: Arc<PathsInUse>,
    /// Versions replaced at the origin, until their pages are dropped.
    replaced: Mutex<Vec<Arc<ObjectInfo>>>,
    /// Descriptions that were evicted, until the peers that hold them are notified.
    displaced: Mutex<Vec<Arc<ObjectInfo>>>,
    epochs: PathEpochs,
}

/// A lookup in flight, until this is dropped.
struct OriginLookupGuard {
    versions: Arc<ObjectInfoCache>,
    key: LookupKey,
}

impl Drop for OriginLookupGuard {
    fn drop(&mut self) {
        self.versions.asking.lock().remove(&self.key);
    }
}

#[derive(Debug)]
struct PathEpochs {
    hasher: RandomState,
    counters: [AtomicU64; EPOCHS],
}

impl Default for PathEpochs {
    fn default() -> Self {
        Self { hasher: RandomState::new(), counters: std::array::from_fn(|_| AtomicU64::new(0)) }
    }
}

impl PathEpochs {
    fn of(&self, path: &str) -> &AtomicU64 {
        let slot = (self.hasher.hash_one(path) % EPOCHS as u64) as usize;
        self.counters.get(slot).unwrap_or(&self.counters[0])
    }
}

impl ObjectInfoCache {
    /// Returns the description of the path if it is fresh enough.
    pub(crate) fn fresh(&self, path: &Path, consistency: Consistency) -> Option<Arc<ObjectInfo>> {
        if consistency == Consistency::Strict {
            return None;
        }
        self.known.read().get(path).filter(|known| known.is_fresh(consistency)).cloned()
    }

    /// Requests a description by `ask`, and remembers it. Callers that may share a response (`strict` is false) send
    /// one request together; it runs in its own task, so that none of them can cancel it for the others.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        path: &Path,
        strict: bool,
        ask: impl FnOnce() -> BoxFuture<'static, Result<ObjectInfo>>,
    ) -> Result<Arc<ObjectInfo>> {
        if strict { self.ask_alone(path, ask).await } else { self.ask_together(path, false, ask).await }
    }

    /// Like [`Self::ask`], but for a request to a peer.
    pub(crate) async fn ask_peer(
        self: &Arc<Self>,
        path: &Path,
        strict: bool,
        ask: impl Fn() -> BoxFuture<'static, Result<ObjectInfo>>,
    ) -> Result<Arc<ObjectInfo>> {
        if strict {
            return self.ask_alone(path, ask).await;
        }
        let mut is_own = false;
        let question = || {
            is_own = true;
            ask()
        };
        let answer = self.ask_together(path, true, question).await;

        // A shared response may belong to a request sent before this call; that of the next request cannot.
        let is_late = answer.as_ref().is_ok_and(|known| known.momentary) && !is_own;
        if is_late { self.ask_together(path, true, ask).await } else { answer }
    }

    async fn ask_alone(
        &self,
        path: &Path,
        ask: impl FnOnce() -> BoxFuture<'static, Result<ObjectInfo>>,
    ) -> Result<Arc<ObjectInfo>> {
        let epoch = self.epochs.of(path.as_ref()).load(Ordering::Acquire);
        let asked = Instant::now();
        match ask().await {
            Ok(known) => Ok(self.remember(known, epoch, asked)),
            Err(error) => Err(self.lost(path, error)),
        }
    }

    async fn ask_together(
        self: &Arc<Self>,
        path: &Path,
        of_peer: bool,
        ask: impl FnOnce() -> BoxFuture<'static, Result<ObjectInfo>>,
    ) -> Result<Arc<ObjectInfo>> {
        let epoch = self.epochs.of(path.as_ref()).load(Ordering::Acquire);
        let key = (path.to_string(), epoch, of_peer);
        let asking = {
            let mut all = self.asking.lock();
            // A task that never ran, because its runtime ended first, has not removed its key.
            if let Some((_, asking)) = all.get(&key).filter(|(task, _)| !task.is_finished()) {
                asking.clone()
            } else {
                let this = self.clone();
                let path = path.clone();
                let asked = Instant::now();
                let question = ask();
                let done = key.clone();

                let task = tokio::spawn(traced(async move {
                    // However the lookup ends, the next caller starts a new one.
                    let _asked = OriginLookupGuard { versions: this.clone(), key: done };
                    match question.await {
                        Ok(known) => Ok(this.remember(known, epoch, asked)),
                        Err(error) => Err(this.lost(&path, error)),
                    }
                }));

                let name = key.0.clone();
                let handle = task.abort_handle();
                let asking = async move { task.await.unwrap_or_else(|error| Err(interrupted(name, error))) };
                let asking = asking.boxed().shared();
                all.insert(key, (handle, asking.clone()));
                asking
            }
        };

        asking.await
    }

    /// Remembers the response to a request sent at `asked`.
    fn remember(&self, mut known: ObjectInfo, epoch: u64, asked: Instant) -> Arc<ObjectInfo> {
        let mut all = self.known.write();
        let is_current = self.epochs.of(known.path.as_ref()).load(Ordering::Acquire) == epoch;
        if let Some(before) = all.get_mut(&known.path) {
            if known.is_version_of(before) {
                known.holders = before.holders.clone();
                known.momentary |= before.momentary && asked < before.checked;
            } else if !is_current {
                // Readers of this response have seen another version: none of them may go back to this one.
                expire(before);
            } else if asked < before.checked || before.is_kept() {
                // Either version may be the newer one, or peers must still be notified: the next reader sends
                // another request.
                known.momentary = true;
            }
        }
        if !is_current {
            return Arc::new(known);
        }

        let known = Arc::new(known);
        let before = all.insert(known.clone());
        let removed = all.shrink();
        self.displaced.lock().extend(removed.into_iter().filter(|known| known.is_kept()));
        self.replaced.lock().extend(before.filter(|before| before.hash != known.hash));
        known
    }

    fn lost(&self, path: &Path, error: crate::Error) -> crate::Error {
        if matches!(error, crate::Error::NotFound { .. }) {
            let before = self.known.write().remove(path);
            self.replaced.lock().extend(before);
        }
        error
    }

    /// Returns the versions replaced since the last call.
    pub(crate) fn take_replaced(&self) -> Vec<Arc<ObjectInfo>> {
        std::mem::take(&mut *self.replaced.lock())
    }

    /// Returns the descriptions evicted since the last call that peers hold.
    pub(crate) fn take_displaced(&self) -> Vec<Arc<ObjectInfo>> {
        std::mem::take(&mut *self.displaced.lock())
    }

    /// Forgets the path and begins a new epoch for it. Returns its description. A description that peers hold is
    /// kept, but is never fresh.
    pub(crate) fn forget(&self, path: &Path) -> Option<Arc<ObjectInfo>> {
        let mut all = self.known.write();
        self.epochs.of(path.as_ref()).fetch_add(1, Ordering::AcqRel);
        match all.get_mut(path) {
            Some(known) if known.is_kept() => {
                let before = known.clone();
                expire(known);
                Some(before)
            }
            _ => all.remove(path),
        }
    }

    /// Forgets this version of the path if it is still current.
    pub(crate) fn forget_version(&self, version: &ObjectInfo) {
        let mut all = self.known.write();
        let is_same = |known: &&mut Arc<ObjectInfo>| known.hash == version.hash;
        let Some(known) = all.get_mut(&version.path).filter(is_same) else { return };
        if known.holders.is_some() {
            // The peers that hold it must be notified before another version is shown.
            self.replaced.lock().push(known.clone());
            expire(known);
        } else {
            self.replaced.lock().extend(all.remove(&version.path));
        }
    }

    /// Returns the description of the path, whether or not it is fresh.
    pub(crate) fn peek(&self, path: &Path) -> Option<Arc<ObjectInfo>> {
        self.known.read().get(path).cloned()
    }

    /// Begins a new epoch for the path. Returns its description, which is kept.
    pub(crate) fn begin_epoch(&self, path: &Path) -> Option<Arc<ObjectInfo>> {
        let all = self.known.write();
        self.epochs.of(path.as_ref()).fetch_add(1, Ordering::AcqRel);
        all.get(path).cloned()
    }

    /// Forgets a version after the peers that hold it were notified. Returns whether it was still current; a newer
    /// version is kept.
    pub(crate) fn forget_notified(&self, version: &ObjectInfo) -> bool {
        let mut all = self.known.write();
        let is_there = all.get(&version.path).is_some_and(|known| known.shares_holders_with(version));
        is_there && all.remove(&version.path).is_some()
    }

    /// Records that a peer holds a description. Returns `false` if the peer must not, since the description is no
    /// longer current or is about to be replaced.
    pub(crate) fn add_holder(&self, version: &ObjectInfo, peer: &PeerId) -> bool {
        let all = self.known.read();
        let Some(known) = all.get(&version.path) else { return false };
        let is_current = !known.momentary && known.shares_holders_with(version);
        is_current && known.holders.as_ref().is_some_and(|holders| holders.add(peer))
    }

    /// Returns whether anything is known about this path.
    pub(crate) fn knows(&self, path: &str) -> bool {
        self.known.read().contains(path)
    }

    /// Renews the description of an object if a listing agrees with it, and forgets it otherwise. Returns the
    /// forgotten description.
    pub(crate) fn compare(&self, asked: Instant, listed: &ListedObject) -> Option<Arc<ObjectInfo>> {
        let replaced = self.renew(asked, listed, true)?;
        let mut all = self.known.write();
        if !all.get(&replaced.path).is_some_and(|current| Arc::ptr_eq(current, &replaced)) {
            return None;
        }
        self.epochs.of(&listed.path).fetch_add(1, Ordering::AcqRel);
        all.remove(&replaced.path)
    }

    /// Renews the description of an object if a listing agrees with it and `may_renew` is set. Returns the
    /// description if the object was replaced according to the listing.
    pub(crate) fn renew(
        &self,
        asked: Instant,
        listed: &ListedObject,
        may_renew: bool,
    ) -> Option<Arc<ObjectInfo>> {
        let known = self.known.read().get(&listed.path).cloned()?;
        let unquoted = |tag: &str| tag.trim_matches('"').to_owned();
        let etags = known.meta.e_tag.as_deref().zip(listed.e_tag.as_deref());
        let versions = known.meta.version.as_deref().zip(listed.version.as_deref());
        let is_same = etags.is_some_and(|(ours, theirs)| unquoted(ours) == unquoted(theirs))
            && versions.is_none_or(|(ours, theirs)| ours == theirs);
        let is_replaced = known.meta.size != listed.size || etags.is_some() && !is_same;

        // The same bytes may have been rewritten with other metadata: then nothing is renewed.
        let changed = known.meta.last_modified.timestamp();
        let is_renewed = is_same && listed.last_modified.is_none_or(|listed| listed.timestamp() == changed);

        let mut all = self.known.write();
        let current = all.get_mut(&known.path)?;
        // A description that arrived after the listing was requested is newer.
        if !Arc::ptr_eq(current, &known) || known.checked >= asked {
            return None;
        }
        if !is_replaced && is_renewed && may_renew {
            *current = Arc::new(ObjectInfo { checked: asked, ..ObjectInfo::clone(&known) });
        }
        is_replaced.then_some(known)
    }

    /// Forgets all paths with the prefix. Returns their descriptions.
    pub(crate) fn forget_prefix(&self, prefix: &str) -> Vec<Arc<ObjectInfo>> {
        self.forget_where(|path| path.starts_with(prefix))
    }

    /// Forgets all paths for which `is_gone` is true. Returns their descriptions. Descriptions that peers hold are
    /// kept, but are never fresh.
    pub(crate) fn forget_where(&self, is_gone: impl Fn(&str) -> bool) -> Vec<Arc<ObjectInfo>> {
        let mut all = self.known.write();
        // Paths with a lookup in flight may not be in the map yet.
        for epoch in &self.epochs.counters {
            epoch.fetch_add(1, Ordering::AcqRel);
        }

        let mut gone = Vec::new();
        all.retain(|path, known| {
            if !is_gone(path) {
                return true;
            }
            gone.push(known.clone());
            let is_kept = known.is_kept();
            if is_kept {
                expire(known);
            }
            is_kept
        });
        gone
    }

    /// Returns the number of remembered paths.
    pub(crate) fn len(&self) -> usize {
        self.known.read().len()
    }
}

fn interrupted(path: String, error: tokio::task::JoinError) -> crate::Error {
    crate::Error::from_origin(&path, object_store::Error::JoinError { source: error })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use object_store::memory::InMemory;

    use super::{known_paths::MAX_PATHS, *};

    pub(super) fn known(path: &str, etag: &str) -> ObjectInfo {
        let meta = ObjectMeta {
            location: path.into(),
            last_modified: Utc::now(),
            size: 1,
            e_tag: Some(etag.to_owned()),
            version: None,
        };
        let origin = Origin::new("s", Arc::new(InMemory::new()));
        ObjectInfo::new(&origin, path.into(), meta, Attributes::new(), PathInUse::sole())
    }

    async fn ask(versions: &Arc<ObjectInfoCache>, path: &str, etag: &'static str) -> Arc<ObjectInfo> {
        let answer = known(path, etag);
        versions.ask(&path.into(), false, || async move { Ok(answer) }.boxed()).await.unwrap()
    }

    #[tokio::test]
    async fn an_answer_asked_for_before_a_write_is_not_remembered() {
        let versions = Arc::new(ObjectInfoCache::default());
        let path = Path::from("a");
        let late = versions.ask(&path, false, || {
            let versions = versions.clone();
            async move {
                versions.forget(&Path::from("a"));
                Ok(known("a", "old"))
            }
            .boxed()
        });
        late.await.unwrap();
        assert!(versions.fresh(&path, Consistency::Immutable).is_none());
        ask(&versions, "a", "new").await;
        assert!(versions.fresh(&path, Consistency::Immutable).is_some());
    }

    /// Strict readers send their own requests, so responses may arrive out of order.
    #[tokio::test]
    async fn an_answer_that_a_later_question_overtook_is_not_shown_to_later_readers() {
        let versions = Arc::new(ObjectInfoCache::default());
        let path = Path::from("a");
        let late = versions.ask(&path, true, || {
            let versions = versions.clone();
            async move {
                ask(&versions, "a", "new").await;
                Ok(known("a", "old"))
            }
            .boxed()
        });
        assert_eq!(late.await.unwrap().meta.e_tag.as_deref(), Some("old"));
        assert!(versions.fresh(&path, Consistency::Immutable).is_none(), "the next reader asks again");
        ask(&versions, "a", "new").await;
        assert!(versions.fresh(&path, Consistency::Immutable).is_some());
    }

    #[tokio::test]
    async fn two_late_answers_that_agree_are_late_as_well() {
        let versions = Arc::new(ObjectInfoCache::default());
        let path = Path::from("a");
        let old = known("a", "old");
        let second = versions.ask(&path, true, || {
            let versions = versions.clone();
            let old = old.clone();
            let path = path.clone();
            async move {
                let first = versions.ask(&path, true, || {
                    let versions = versions.clone();
                    let old = old.clone();
                    async move {
                        ask(&versions, "a", "new").await;
                        Ok(ObjectInfo { checked: Instant::now(), ..old })
                    }
                    .boxed()
                });
                first.await?;
                Ok(ObjectInfo { checked: Instant::now(), ..old })
            }
            .boxed()
        });
        assert_eq!(second.await.unwrap().meta.e_tag.as_deref(), Some("old"));
        assert!(versions.fresh(&path, Consistency::Immutable).is_none(), "the next reader asks again");
    }

    #[tokio::test]
    async fn callers_that_may_share_ask_once() {
        let versions = Arc::new(ObjectInfoCache::default());
        let asked = Arc::new(AtomicU64::new(0));
        let callers = (0..20).map(|_| {
            let versions = versions.clone();
            let asked = asked.clone();
            async move {
                let question = || {
                    asked.fetch_add(1, Ordering::Relaxed);
                    async {
                        tokio::time::sleep(Duration::from_millis(20)).await;
                        Ok(known("a", "x"))
                    }
                    .boxed()
                };
                versions.ask(&Path::from("a"), false, question).await.unwrap();
            }
        });
        futures::future::join_all(callers).await;
        assert_eq!(asked.load(Ordering::Relaxed), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_for_one_read_is_not_shared_with_later_ones() {
        let versions = Arc::new(ObjectInfoCache::default());
        let path = Path::from("a");
        let asked = AtomicU64::new(0);
        let ask = || {
            let momentary = asked.fetch_add(1, Ordering::Relaxed) == 0;
            async move {
                tokio::time::sleep(Duration::from_millis(10)).await;
                Ok(ObjectInfo { momentary, ..known("a", "x") })
            }
            .boxed()
        };
        let callers = (0..3).map(|_| versions.ask_peer(&path, false, &ask));
        let answers = futures::future::join_all(callers).await;
        let momentary: Vec<_> = answers.into_iter().map(|answer| answer.unwrap().momentary).collect();
        assert_eq!(momentary, [true, false, false]);
        assert_eq!(asked.load(Ordering::Relaxed), 2, "the later two share an answer");
        assert!(versions.fresh(&path, Consistency::Immutable).is_some());
    }

    #[tokio::test]
    async fn a_version_that_peers_keep_stays_until_they_were_told() {
        let versions = Arc::new(ObjectInfoCache::default());
        let path = Path::from("a");
        let peer = PeerId::new("b");
        let kept = known("a", "x").shared_by(None);
        let kept = versions.ask(&path, false, || async move { Ok(kept) }.boxed()).await.unwrap();
        assert!(versions.add_holder(&kept, &peer));

        versions.forget_version(&kept);
        assert!(versions.fresh(&path, Consistency::Immutable).is_none() && versions.peek(&path).is_some());
        assert!(!versions.add_holder(&kept, &peer), "the origin has another version");
        assert!(versions.forget(&path).is_some() && versions.forget_prefix("").len() == 1);
        assert!(versions.peek(&path).is_some());
        assert!(versions.forget_notified(&kept) && !versions.forget_notified(&kept));
        assert!(versions.peek(&path).is_none());
    }

    #[tokio::test]
    async fn a_version_that_peers_keep_and_that_makes_room_for_others_is_to_be_told() {
        let versions = Arc::new(ObjectInfoCache::default());
        let kept = versions.remember(known("kept", "x").shared_by(None), 0, Instant::now());
        assert!(versions.add_holder(&kept, &PeerId::new("b")));
        for i in 0..MAX_PATHS {
            versions.remember(known(&i.to_string(), "x").shared_by(None), 0, Instant::now());
        }
        let displaced: Vec<_> = versions.take_displaced().iter().map(|known| known.path.clone()).collect();
        assert_eq!(displaced, [Path::from("kept")]);
    }

    #[tokio::test]
    async fn a_question_that_panics_is_put_anew() {
        let versions = Arc::new(ObjectInfoCache::default());
        let path = Path::from("a");
        let panics = versions.ask(&path, false, || async { panic!("a bug below") }.boxed()).await;
        assert!(panics.is_err());
        ask(&versions, "a", "x").await;
        assert!(versions.fresh(&path, Consistency::Immutable).is_some());
    }

    #[tokio::test]
    async fn a_listing_renews_what_it_agrees_with_and_drops_what_it_does_not() {
        let versions = Arc::new(ObjectInfoCache::default());
        let first = ask(&versions, "a", "\"x\"").await;
        let listed = |size, tag: &str| ListedObject {
            path: "a".to_owned(),
            size,
            e_tag: Some(tag.to_owned()),
            version: None,
            last_modified: Some(first.meta.last_modified),
        };
        let known = |versions: &ObjectInfoCache| versions.fresh(&Path::from("a"), Consistency::Immutable);
        assert!(
            versions.compare(first.checked, &listed(1, "y")).is_none(),
            "asked for before the answer came"
        );
        let later = Instant::now();
        assert!(versions.compare(later, &listed(1, "x")).is_none());
        assert_eq!(known(&versions).unwrap().checked, later);

        let rewritten =
            ListedObject { last_modified: Some(Utc::now() + TimeDelta::hours(1)), ..listed(1, "x") };
        assert!(versions.compare(Instant::now(), &rewritten).is_none());
        assert_eq!(known(&versions).unwrap().checked, later, "not renewed, and not dropped");
        assert!(versions.compare(Instant::now(), &listed(2, "x")).is_some());
        assert!(known(&versions).is_none());
    }

    #[tokio::test]
    async fn what_is_remembered_is_bounded_and_forgotten_by_prefix() {
        let versions = Arc::new(ObjectInfoCache::default());
        for i in 0..MAX_PATHS + 100 {
            versions.remember(known(&format!("{}/{i}", i % 2), "x"), 0, Instant::now());
        }
        assert!(versions.len() <= MAX_PATHS);
        let all = versions.len();
        let gone = versions.forget_prefix("1/").len();
        assert!(gone > 0 && versions.len() == all - gone);
    }
}
