//! Versions in a cluster: one node per path, its authority, knows the current version and is notified of writes.
//!
//! Other nodes ask the authority, and cache its description for as long as the rule allows, counted from the time at
//! which the authority asked the origin. The authority remembers which peers hold a description, and notifies them
//! before it shows another version to any caller: while all nodes have the same view, reads through any of them never
//! go back in time.
//!
//! ```text
//!   write ─▶ origin ─▶ authority ─▶ peers that keep the old version ─▶ authority forgets it ─▶ acknowledged
//! ```

use std::{
    collections::{BTreeMap, HashMap},
    ops::Range,
    sync::Arc,
    time::Instant as StdInstant,
};

use async_recursion::async_recursion as boxed;
use futures::{
    FutureExt,
    future::{join, join_all},
};
use object_store::path::Path;
use tokio::{runtime::Handle, time::Instant};

use crate::{
    Consistency, Error, ReadThrough, Result,
    origin::trace::traced,
    peers::{ChangeAudience, DescribeRequest, DescribedObject, PathsChanged, PeerError, PeerId},
    read::{fetch_plan::FirstBytes, requests::to_peers::PeerRequests},
    versions::{ListedObject, ObjectInfo, holders::VersionHolders},
};

impl ReadThrough {
    /// Returns the peers with which this node shares descriptions of objects. Object versions retained by a bucket
    /// never change, so they have no authority.
    fn cluster(&self) -> Option<&PeerRequests> {
        self.fetcher().cluster.as_ref().filter(|_| !self.reads_versions())
    }

    pub(crate) fn is_clustered(&self) -> bool {
        self.cluster().is_some()
    }

    /// Returns the authority of a path; `None` if it is this node.
    pub(crate) fn authority(&self, path: &Path) -> Option<PeerId> {
        self.cluster()?.authority(path)
    }

    /// Returns the authority's description, or the origin's if the authority does not answer.
    pub(crate) async fn ask_authority(
        &self,
        authority: PeerId,
        path: &Path,
        strict: bool,
        wanted: Option<Range<u64>>,
    ) -> Result<Arc<ObjectInfo>> {
        let ask = || {
            let store = self.clone();
            let authority = authority.clone();
            let wanted = wanted.clone();
            let request = DescribeRequest { path: path.to_string(), is_strict: strict, wanted };
            let path = path.clone();
            async move { store.described_by(&authority, path, request).await }.boxed()
        };
        let answer = self.versions().ask_peer(path, strict, ask).await;
        self.drop_replaced().await;
        answer
    }

    async fn described_by(
        &self,
        authority: &PeerId,
        path: Path,
        request: DescribeRequest,
    ) -> Result<ObjectInfo> {
        let Some(cluster) = self.cluster() else { return self.fetcher().requests.head(&path).await };
        self.fetcher().counters.peer_lookups.add(1);
        let asked = Instant::now();
        let in_use = self.versions().in_use.begin(&path);

        let known = match cluster.describe(authority, request).await {
            Ok(described) => ObjectInfo::of_peer(self.origin(), path.clone(), described, asked, in_use),
            Err(PeerError::NotFound) => return Err(Error::NotFound { path: path.to_string() }),
            Err(_) => None,
        };
        let known = match known {
            Some(known) => known,
            None => self.fetcher().requests.head(&path).await?,
        };
        Ok(known.shared_by(Some(authority.clone())))
    }

    /// Returns the description of the path if it is fresh enough. In a cluster, it must come from the current
    /// authority: a former one is not notified of writes.
    pub(crate) fn fresh(&self, path: &Path, consistency: Consistency) -> Option<Arc<ObjectInfo>> {
        let known = self.versions().fresh(path, consistency)?;
        let is_current = self.cluster().is_none_or(|cluster| known.authority == cluster.authority(path));
        is_current.then_some(known)
    }

    /// Describes an object to a peer as its authority, regardless of this node's view. Asks the origin, never another
    /// peer.
    #[boxed]
    pub async fn describe_for_peer(
        &self,
        peer: &PeerId,
        request: DescribeRequest,
    ) -> Result<DescribedObject, PeerError> {
        let path =
            Path::parse(&request.path).map_err(|error| PeerError::Failed { reason: error.to_string() })?;
        let Some(cluster) = self.cluster() else { return Err(PeerError::Declined) };
        let rule = self.consistency_of(&path);
        let fresh = if request.is_strict { None } else { self.fresh(&path, rule) };

        let known = match fresh {
            Some(known) => known,
            None => {
                let strict = request.is_strict || rule == Consistency::Strict;
                let question = self.ask_origin(&path, strict, request.wanted.map(FirstBytes::Range));
                match tokio::time::timeout(cluster.own_deadlines().describe, question).await {
                    Ok(Ok((known, _fetched))) => known,
                    Ok(Err(Error::NotFound { .. })) => return Err(PeerError::NotFound),
                    Ok(Err(_)) | Err(_) => return Err(PeerError::Declined),
                }
            }
        };

        let may_keep = rule != Consistency::Strict && self.versions().add_holder(&known, peer);
        Ok(known.to_peer(may_keep))
    }

    /// Notifies the peers that hold an earlier version of an object before any caller sees the answer of the origin.
    pub(crate) async fn settle(&self, path: &Path, answer: Result<ObjectInfo>) -> Result<ObjectInfo> {
        let before = self.versions().peek(path);
        let is_replaced = match (&answer, &before) {
            (Ok(known), Some(before)) => !known.is_version_of(before),
            (Err(Error::NotFound { .. }), Some(_)) => true,
            _ => false,
        };
        if let Some(before) = before.filter(|_| is_replaced) {
            self.notify_holders(&[before]).await;
        }
        answer.map(|known| known.shared_by(None))
    }

    /// Tells the peers that hold any of the descriptions to forget them. Gives up on peers that do not answer in
    /// time.
    pub(crate) async fn notify_holders(&self, known: &[Arc<ObjectInfo>]) {
        let holders = |known: &Arc<ObjectInfo>| Some((known.path.to_string(), known.holders.clone()?));
        let kept: Vec<_> = known.iter().filter_map(holders).collect();
        if kept.is_empty() {
            return;
        }

        // Runs in a task of its own: no caller may see a newer version before it has ended, even if this caller is
        // gone.
        let store = self.clone();
        let notifying = tokio::spawn(traced(async move {
            let Some(cluster) = store.cluster() else { return };
            let notify = |paths_by_peer: BTreeMap<PeerId, Vec<String>>| async move {
                let each =
                    |(peer, paths)| async move { cluster.tell(&peer, paths, ChangeAudience::Holder).await };
                join_all(paths_by_peer.into_iter().map(each)).await;
            };
            VersionHolders::close_all(kept, notify).await;
        }));
        if let Err(error) = notifying.await {
            tracing::warn!(%error, "peers not told of a change");
        }
    }

    /// Drops everything known and cached about objects that were written, on this node, at their authorities, and at
    /// the nodes that hold the authorities' descriptions, also in linked stores. Call it after the origin has
    /// answered, and acknowledge the write afterwards. A node that does not answer in time may show the former version
    /// for as long as the rules allow.
    #[boxed]
    pub async fn invalidate_in_cluster(&self, paths: &[Path]) {
        let linked = self.overlapping(paths);
        let elsewhere = linked.iter().map(|(store, paths)| store.invalidate_store_in_cluster(paths));
        join(self.invalidate_store_in_cluster(paths), join_all(elsewhere)).await;
    }

    /// Like [`Self::invalidate_in_cluster`], in this store only.
    async fn invalidate_store_in_cluster(&self, paths: &[Path]) {
        let Some(cluster) = self.cluster() else {
            return paths.iter().for_each(|path| self.invalidate_here(path));
        };

        let mut by_authority: HashMap<PeerId, Vec<String>> = HashMap::new();
        for path in paths {
            if let Some(peer) = cluster.authority(path) {
                by_authority.entry(peer).or_default().push(path.to_string());
            }
        }

        let notifications = by_authority
            .into_iter()
            .map(|(peer, paths)| async move { cluster.tell(&peer, paths, ChangeAudience::Authority).await });
        join_all(notifications).await;
        self.replace(paths).await;
    }

    /// Drops everything known about all objects after their bucket was deleted at the origin, on this node and all
    /// others. Call it before acknowledging the deletion. A node that does not answer in time may show the objects
    /// for as long as the rules allow.
    #[boxed]
    pub async fn invalidate_all_in_cluster(&self) {
        self.invalidate_all();
        if let Some(cluster) = self.cluster() {
            let others = cluster.others();
            join_all(others.iter().map(|peer| cluster.tell(peer, Vec::new(), ChangeAudience::Everyone)))
                .await;
        }
    }

    /// Applies a peer's notification that objects were replaced.
    #[boxed]
    pub async fn note_changed(&self, change: PathsChanged) {
        let paths: Vec<Path> = change.paths.iter().filter_map(|path| Path::parse(path).ok()).collect();
        match change.to {
            ChangeAudience::Authority => self.replace(&paths).await,
            ChangeAudience::Holder => paths.iter().for_each(|path| self.invalidate_here(path)),
            ChangeAudience::Everyone => self.invalidate_all(),
        }
    }

    /// Notifies the peers that hold descriptions of the objects, then invalidates the objects.
    async fn replace(&self, paths: &[Path]) {
        let mut known = Vec::new();
        for path in paths {
            // From here on, lookups that began before the write are not remembered; later ones see the write.
            match self.versions().begin_epoch(path) {
                Some(before) => known.push(before),
                None => self.versions().in_use.end(path),
            }
        }

        self.notify_holders(&known).await;
        for before in &known {
            if self.versions().forget_notified(before) {
                self.versions().in_use.end(&before.path);
                self.drop_pages(before);
            }
        }
        for path in paths {
            self.forget_object_versions(|key| key == path.as_ref());
        }
    }

    /// Drops the objects with a prefix from the caches of the other nodes. Returns the largest number of objects
    /// dropped by one node. Failures are logged.
    pub(crate) async fn evict_elsewhere(&self, prefix: &str) -> u64 {
        let Some(cluster) = self.cluster() else { return 0 };
        let others = cluster.others();
        let evicted = join_all(others.iter().map(|peer| cluster.evict(peer, prefix))).await;
        evicted.into_iter().max().unwrap_or(0)
    }

    /// Drops everything known and cached about the objects with a prefix, on behalf of a peer that does the same.
    /// Returns the number of objects.
    #[boxed]
    pub async fn evict_for_peer(&self, prefix: &str) -> Result<u64, PeerError> {
        self.evict_here(prefix).await.map_err(|_| PeerError::Declined)
    }

    /// Applies a listing in a cluster. Only the authority renews its descriptions, since peers keep its answers no
    /// longer than it does; it is notified of replaced objects.
    pub(crate) fn note_listing_in_cluster(
        &self,
        asked: StdInstant,
        listed: impl IntoIterator<Item = ListedObject>,
    ) {
        let mut replaced = Vec::new();
        for object in listed {
            if !self.knows(&object.path) {
                continue;
            }
            let Ok(path) = Path::parse(&object.path) else { continue };
            let may_renew = self.authority(&path).is_none();
            if self.versions().renew(Instant::from_std(asked), &object, may_renew).is_some() {
                replaced.push(path);
            }
        }
        if !replaced.is_empty() {
            self.invalidate_later(replaced);
        }
    }

    /// Invalidates objects in the cluster, in a background task.
    pub(crate) fn invalidate_later(&self, paths: Vec<Path>) {
        let store = self.clone();
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(async move { store.invalidate_in_cluster(&paths).await })),
            Err(_) => paths.iter().for_each(|path| self.invalidate(path)),
        }
    }
}
