//! What a load or a compaction leaves in the store for as long as it goes on, so that nobody takes its files for garbage:
//! no version names them yet, however old they are.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use object_store::{ObjectMeta, ObjectStoreExt, PutPayload, path::Path};
use stylobate_storage::{Error as StorageError, ReadThrough};
use tokio::task::JoinHandle;

use super::{
    names::{now_ms, uuid7},
    opened::Core,
};
use crate::{Error, Result};

/// Where leases are.
pub(super) const FOLDER: &str = "leases";
/// A lease that was not renewed for so long is that of a process that is gone.
const TERM: Duration = Duration::from_secs(60 * 60);
/// So often it is renewed.
const RENEWED_EACH: Duration = Duration::from_secs(10 * 60);

/// A lease, which is renewed for as long as it is held.
pub(super) struct Lease {
    place: Held,
    /// When it was renewed last, in milliseconds since 1970.
    renewed: Arc<AtomicI64>,
    renewing: JoinHandle<()>,
    is_over: bool,
}

#[derive(Clone)]
struct Held {
    store: ReadThrough,
    path: Path,
}

impl Held {
    async fn renew(&self) -> Result<()> {
        let put = self.store.put(&self.path, PutPayload::new()).await;
        put.map(drop).map_err(|error| StorageError::from_origin(self.path.as_ref(), error).into())
    }

    async fn remove(&self) {
        match self.store.delete(&self.path).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => {}
            Err(error) => tracing::debug!(path = %self.path, %error, "lease not removed: it ends by itself"),
        }
    }
}

/// Whether whoever left it is gone.
pub(super) fn is_over(lease: &ObjectMeta) -> bool {
    lease.last_modified.timestamp_millis() < now_ms().saturating_sub(TERM.as_millis() as i64)
}

impl Core {
    /// Whether a load or a compaction is at work somewhere.
    pub(super) async fn has_lease(&self) -> Result<bool> {
        Ok(self.listed(FOLDER).await?.iter().any(|lease| !is_over(lease)))
    }

    /// From now on no file is garbage that no version names.
    pub(super) async fn lease(&self) -> Result<Lease> {
        let path = self.place.path(&format!("{FOLDER}/{}", uuid7()))?;
        let place = Held { store: self.place.store.clone(), path };
        let renewed = Arc::new(AtomicI64::new(now_ms()));
        place.renew().await?;
        let (held, at) = (place.clone(), renewed.clone());
        let renewing = tokio::spawn(async move {
            loop {
                tokio::time::sleep(RENEWED_EACH).await;
                let now = now_ms();
                match held.renew().await {
                    Ok(()) => at.store(now, Ordering::Relaxed),
                    Err(error) => tracing::warn!(%error, "lease not renewed"),
                }
            }
        });
        Ok(Lease { place, renewed, renewing, is_over: false })
    }
}

impl Lease {
    /// That it never ended: asked right before a version is made of new files.
    pub(super) fn check(&self) -> Result<()> {
        let since = now_ms().saturating_sub(self.renewed.load(Ordering::Relaxed));
        if u128::try_from(since).is_ok_and(|since| since < TERM.as_millis() / 2) {
            return Ok(());
        }
        let reason =
            "this process stood still for so long that its new files may be gone: start again".to_owned();
        Err(Error::Conflict { object: self.place.path.to_string(), reason })
    }

    /// Gives it up, once its files are in a version or gone.
    pub(super) async fn end(mut self) {
        self.is_over = true;
        self.renewing.abort();
        self.place.remove().await;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.renewing.abort();
        if let Some(runtime) = tokio::runtime::Handle::try_current().ok().filter(|_| !self.is_over) {
            let place = self.place.clone();
            runtime.spawn(async move { place.remove().await });
        }
    }
}
