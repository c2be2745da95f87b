//! Parts of uploads that are stored as objects of the origin until they are joined: layout, listing, and removal of
//! abandoned uploads.
//!
//! ```text
//! .stylobate-uploads/<id>/attributes.json    the marker: key, content type, user metadata, ...
//! .stylobate-uploads/<id>/00001              part 1
//! ```
//!
//! The marker represents the upload: it is written first and removed first. Parts without a marker belong to no
//! upload.

use std::{
    collections::{BTreeMap, HashMap},
    time::Instant,
};

use chrono::{DateTime, TimeDelta, Utc};
use futures::{StreamExt, TryStreamExt, stream};
use object_store::{ObjectMeta, ObjectStoreExt, PutResult, path::Path};

use crate::{Error, ReadThrough, Result, folder::STAGING};

const MARKER: &str = "attributes.json";

/// Time without writes after which an upload counts as abandoned.
const ABANDONED_AFTER: TimeDelta = TimeDelta::days(7);

/// Maximum concurrent reads of markers.
const MAX_CONCURRENT_READS: usize = 16;

/// A part of an upload that is not yet complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UploadedPart {
    /// Part number, from 1.
    pub number: u32,
    /// Size in bytes.
    pub size: u64,
    /// ETag, as formatted by the origin.
    pub e_tag: Option<String>,
    /// Time at which the part was sent.
    pub last_modified: DateTime<Utc>,
}

/// An upload that is not yet complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnfinishedUpload {
    /// The path of the future object.
    pub path: String,
    /// Upload id.
    pub id: String,
    /// Time at which the upload began.
    pub initiated: DateTime<Utc>,
}

/// The record of an upload beside its parts.
#[derive(serde::Serialize, serde::Deserialize)]
pub(crate) struct UploadMarker {
    pub(crate) path: String,
    pub(crate) attributes: BTreeMap<String, String>,
    /// Headers that only a folder stores.
    #[serde(default)]
    pub(crate) kept: Vec<(String, String)>,
}

/// The folder in which the parts of an upload are staged.
pub(crate) struct StagedUpload {
    folder: Path,
}

impl StagedUpload {
    /// Returns the upload with this id. Ids are hexadecimal: no other text may become part of a path.
    pub(crate) fn of(id: &str) -> Option<Self> {
        let ours = id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        ours.then(|| Self { folder: Path::from(STAGING).join(id) })
    }

    pub(crate) fn part(&self, number: u32) -> Path {
        self.folder.clone().join(format!("{number:05}"))
    }

    fn marker(&self) -> Path {
        self.folder.clone().join(MARKER)
    }
}

/// Returns the id of the upload that the object at `path` belongs to, and its name within the upload.
fn upload_and_name(path: &Path) -> Option<(&str, &str)> {
    let (id, name) = path.as_ref().strip_prefix(STAGING)?.strip_prefix('/')?.split_once('/')?;
    StagedUpload::of(id).map(|_| (id, name))
}

/// Numbers of abandoned uploads that were removed, and that could not be removed.
#[derive(Debug, Default, PartialEq, Eq)]
struct RemovedUploads {
    uploads: u64,
    objects: u64,
    bytes: u64,
    failed: u64,
}

impl ReadThrough {
    /// Writes the marker of an upload. Rewriting it renews the time of the upload's last use.
    pub(crate) async fn mark_upload(
        &self,
        staged: &StagedUpload,
        marker: &UploadMarker,
    ) -> Result<PutResult> {
        let failed = |error| Error::from_origin(&marker.path, error);
        let json = serde_json::to_vec(marker)
            .map_err(|error| Error::InvalidUpload { path: marker.path.clone(), reason: error.to_string() })?;
        self.origin().store().put(&staged.marker(), json.into()).await.map_err(failed)
    }

    /// Reads the marker of an upload for the object at `path`. Fails if it is absent.
    pub(crate) async fn staged_marker(&self, path: &Path, staged: &StagedUpload) -> Result<UploadMarker> {
        let marker =
            self.read_marker(staged).await.map_err(|error| Error::from_origin(path.as_ref(), error))?;
        let own = marker.filter(|(marker, _)| marker.path == path.as_ref());
        own.map(|(marker, _)| marker).ok_or_else(|| Error::NoSuchUpload { path: path.to_string() })
    }

    async fn read_marker(
        &self,
        staged: &StagedUpload,
    ) -> object_store::Result<Option<(UploadMarker, ObjectMeta)>> {
        let found = match self.origin().store().get(&staged.marker()).await {
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            found => found?,
        };
        let meta = found.meta.clone();
        let marker = serde_json::from_slice(&found.bytes().await?).ok();
        Ok(marker.map(|marker| (marker, meta)))
    }

    /// Returns the staged parts, ordered by number.
    pub(crate) async fn staged_parts(&self, path: &Path, staged: &StagedUpload) -> Result<Vec<UploadedPart>> {
        let part = |meta: ObjectMeta| {
            let number = upload_and_name(&meta.location)?.1.parse().ok()?;
            let ObjectMeta { size, e_tag, last_modified, .. } = meta;
            Some(UploadedPart { number, size, e_tag, last_modified })
        };

        let listed = self.origin().store().list(Some(&staged.folder));
        let listed: Vec<_> =
            listed.try_collect().await.map_err(|error| Error::from_origin(path.as_ref(), error))?;

        let mut parts: Vec<_> = listed.into_iter().filter_map(part).collect();
        parts.sort_by_key(|part| part.number);
        Ok(parts)
    }

    /// Returns the uploads with staged parts, ordered by object path.
    pub(crate) async fn staged_uploads(&self) -> Result<Vec<UnfinishedUpload>> {
        let failed = |error| Error::from_origin(STAGING, error);
        let listed = self.origin().store().list(Some(&Path::from(STAGING)));
        let is_marker = |path: &Path| {
            let (id, name) = upload_and_name(path)?;
            (name == MARKER).then(|| id.to_owned())
        };
        let ids = listed.try_filter_map(async |meta| Ok(is_marker(&meta.location)));
        let ids: Vec<_> = ids.try_collect().await.map_err(failed)?;
        let read =
            ids.into_iter().filter_map(|id| Some((StagedUpload::of(&id)?, id))).map(async |(staged, id)| {
                let marker = self.read_marker(&staged).await.map_err(failed)?;
                Ok(marker.map(|(UploadMarker { path, .. }, meta)| UnfinishedUpload {
                    path,
                    id: format!("s.{id}"),
                    initiated: meta.last_modified,
                }))
            });

        let uploads: Vec<_> = stream::iter(read).buffered(MAX_CONCURRENT_READS).try_collect().await?;
        let mut uploads: Vec<_> = uploads.into_iter().flatten().collect();
        uploads.sort_by(|a: &UnfinishedUpload, b| (&a.path, &a.id).cmp(&(&b.path, &b.id)));
        Ok(uploads)
    }

    /// Removes an upload and its parts.
    pub(crate) async fn remove_staged(&self, path: &Path, staged: &StagedUpload) -> Result<()> {
        let failed = |error| Error::from_origin(path.as_ref(), error);
        let store = self.origin().store();
        let marker = stream::iter([Ok(staged.marker())]).boxed();
        let parts = store.list(Some(&staged.folder)).map_ok(|meta| meta.location).boxed();

        for objects in [marker, parts] {
            let mut deleted = store.delete_stream(objects);
            while let Some(outcome) = deleted.next().await {
                match outcome {
                    Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
                    Err(error) => return Err(failed(error)),
                }
            }
        }
        Ok(())
    }

    /// Removes abandoned uploads in the background, unless the last search was too recent.
    pub(crate) fn collect_abandoned_uploads(&self) {
        if !self.inner.collect_uploads.is_due(Instant::now()) {
            return;
        }

        let store = self.clone();
        tokio::spawn(async move {
            let origin = store.origin().name();
            match store.remove_abandoned(Utc::now() - ABANDONED_AFTER).await {
                Ok(RemovedUploads { uploads: 0, failed: 0, .. }) => {}
                Ok(RemovedUploads { uploads, objects, bytes, failed }) => {
                    tracing::info!(origin, uploads, objects, bytes, failed, "abandoned uploads removed");
                }
                Err(error) => tracing::warn!(origin, %error, "abandoned uploads not looked for"),
            }
        });
    }

    /// Removes the uploads without writes since `before`.
    async fn remove_abandoned(&self, before: DateTime<Utc>) -> Result<RemovedUploads> {
        let mut listed = self.origin().store().list(Some(&Path::from(STAGING)));
        let mut newest: HashMap<String, DateTime<Utc>> = HashMap::new();
        while let Some(meta) = listed.next().await {
            let meta = meta.map_err(|error| Error::from_origin(STAGING, error))?;
            let Some((id, _)) = upload_and_name(&meta.location) else { continue };
            let seen = newest.entry(id.to_owned()).or_default();
            *seen = meta.last_modified.max(*seen);
        }

        let mut removed = RemovedUploads::default();
        for (id, _) in newest.into_iter().filter(|(_, newest)| *newest < before) {
            let Some(staged) = StagedUpload::of(&id) else { continue };
            if let Err(error) = self.remove_if_abandoned(&staged, before, &mut removed).await {
                removed.failed += 1;
                tracing::warn!(origin = self.origin().name(), %error, "abandoned upload not removed");
            }
        }

        Ok(removed)
    }

    /// Removes an abandoned upload after listing it again: a client may have continued it in the meantime.
    async fn remove_if_abandoned(
        &self,
        staged: &StagedUpload,
        before: DateTime<Utc>,
        removed: &mut RemovedUploads,
    ) -> Result<()> {
        let listed = self.origin().store().list(Some(&staged.folder)).try_collect().await;
        let listed: Vec<ObjectMeta> = listed.map_err(|error| Error::from_origin(STAGING, error))?;

        if listed.iter().all(|meta| meta.last_modified < before) {
            self.remove_staged(&staged.folder, staged).await?;
            removed.uploads += 1;
            removed.objects += listed.len() as u64;
            removed.bytes += listed.iter().map(|meta| meta.size).sum::<u64>();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_an_upload_wrote_is_part_of_one() {
        let id = "0123456789abcdef0123456789abcdef";
        let part = StagedUpload::of(id).unwrap().part(7);
        assert_eq!(upload_and_name(&part), Some((id, "00007")));
        for path in [".stylobate-uploads/a/00001", ".stylobate-uploads/x", "a/b/c", ".stylobate-uploadsx/a/b"]
        {
            assert_eq!(upload_and_name(&Path::from(path)), None, "{path}");
        }
        assert!(StagedUpload::of("../3456789abcdef0123456789abcdef01").is_none());
    }
}
