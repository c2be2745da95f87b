//! The disk tier: its folder, its lock, its recovery, and what it could not take.
//!
//! ```text
//! <dir>/lock                     held by the one process that uses the folder
//! <dir>/pages-v1-<page>-<block>/ blocks; another page or block size begins anew, and the old folder is removed
//! ```

use std::{
    borrow::Cow,
    fs::{self, File, TryLockError},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use foyer::{
    BlockEngineConfig, DefaultHasher, DeviceBuilder, FsDeviceBuilder, HybridCacheBuilderPhaseStorage,
    RecoverMode,
};
use mixtrics::metrics::{
    BoxedCounter, BoxedCounterVec, BoxedGaugeVec, BoxedHistogramVec, BoxedRegistry, CounterOps,
    CounterVecOps, RegistryOps,
};
use mixtrics::registry::noop::NoopMetricsRegistry;
use parking_lot::Mutex;

use super::{
    Pages,
    options::{CacheOptions, DiskOptions, Shares},
    page::{Page, PageKey},
};
use crate::{Error, Result};

type StorageBuilder = HybridCacheBuilderPhaseStorage<PageKey, Page, DefaultHasher>;

/// A disk tier in use; the folder is free for others once it is released.
#[derive(Debug)]
pub(super) struct DiskTier {
    capacity: u64,
    recovered: bool,
    metrics: DiskMetrics,
    lock: Mutex<Option<File>>,
}

impl DiskTier {
    pub(super) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Gives the folder up: nothing is written to it any more.
    pub(super) fn release(&self) {
        self.lock.lock().take();
    }

    /// Whether there were pages of an earlier process.
    pub(super) fn is_recovered(&self) -> bool {
        self.recovered
    }

    pub(super) fn dropped_inserts(&self) -> u64 {
        self.metrics.dropped.load(Ordering::Relaxed)
    }
}

/// Opens the disk tier under the memory tier that `memory` builds. What earlier processes left is recovered; where
/// recovery itself breaks down, the pages are given up, never the process.
pub(super) async fn open(
    disk: &DiskOptions,
    options: &CacheOptions,
    shares: Shares,
    memory: &impl Fn() -> StorageBuilder,
    metrics: DiskMetrics,
) -> Result<(Pages, DiskTier)> {
    let folder_error =
        |error: std::io::Error| Error::CacheFolder { dir: disk.dir.clone(), source: Arc::new(error) };
    fs::create_dir_all(&disk.dir).map_err(folder_error)?;
    let lock = lock(&disk.dir)?;
    let block_size = options.block_size().as_u64();
    let blocks = disk.capacity.as_u64() / block_size;
    let pages_dir = prepare(&disk.dir, options, blocks).map_err(folder_error)?;

    let recovered = fs::read_dir(&pages_dir).map_err(folder_error)?.next().is_some();
    let build = |builder: StorageBuilder| {
        let device = FsDeviceBuilder::new(&pages_dir).with_capacity((blocks * block_size) as usize).build();
        let flushers = if shares.write_buffer.as_u64() >= 16 * options.page_size.as_u64() { 2 } else { 1 };
        async move {
            let engine = BlockEngineConfig::new(device?)
                .with_block_size(block_size as usize)
                .with_buffer_pool_size(shares.write_buffer.as_usize())
                .with_submit_queue_size_threshold(shares.write_buffer.as_usize())
                .with_flushers(flushers)
                .with_recover_concurrency(4);
            builder.with_engine_config(engine).with_recover_mode(RecoverMode::Quiet).build().await
        }
    };
    // Recovery reads bytes that anything may have happened to: a panic there must not end the process.
    let pages = match tokio::spawn(build(memory())).await {
        Ok(Ok(pages)) => pages,
        failed => {
            tracing::warn!(dir = %disk.dir.display(), ?failed, "disk cache cannot be recovered: starting empty");
            fs::remove_dir_all(&pages_dir).map_err(folder_error)?;
            build(memory()).await.map_err(super::unexpected)?
        }
    };
    Ok((pages, DiskTier { capacity: blocks * block_size, recovered, metrics, lock: Mutex::new(Some(lock)) }))
}

fn lock(dir: &Path) -> Result<File> {
    let error = |error| Error::CacheFolder { dir: dir.to_owned(), source: Arc::new(error) };
    let lock =
        File::options().create(true).write(true).truncate(false).open(dir.join("lock")).map_err(error)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(Error::CacheLocked { dir: dir.to_owned() }),
        Err(TryLockError::Error(source)) => Err(error(source)),
    }
}

/// The folder of the blocks, without what belongs to other layouts or lies beyond the capacity: the capacity is a
/// limit on what is on the disk, not only on what is in use.
fn prepare(dir: &Path, options: &CacheOptions, blocks: u64) -> std::io::Result<PathBuf> {
    let name = format!("pages-v1-{}-{}", options.page_size.as_u64(), options.block_size().as_u64());
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let file_name = entry.file_name();
        if file_name.to_string_lossy().starts_with("pages-v") && file_name.to_string_lossy() != name {
            fs::remove_dir_all(entry.path())?;
        }
    }
    let pages_dir = dir.join(name);
    fs::create_dir_all(&pages_dir)?;
    let mut kept = Vec::new();
    for entry in fs::read_dir(&pages_dir)? {
        let entry = entry?;
        let number =
            entry.file_name().to_string_lossy().rsplit('-').next().and_then(|n| n.parse::<u64>().ok());
        if number.is_none_or(|number| number >= blocks) {
            fs::remove_file(entry.path())?;
        } else {
            let metadata = entry.metadata()?;
            kept.push((metadata.blocks() > 0, metadata.modified()?, entry.path()));
        }
    }
    // The block engine makes room when it has written a block, and only then. Where a killed process left none empty,
    // it would wait for one for ever, in each write and in close: so the block written longest ago is given up.
    if kept.len() as u64 >= blocks
        && let Some((true, _, oldest)) = kept.iter().min()
    {
        fs::remove_file(oldest)?;
    }
    Ok(pages_dir)
}

/// Counts what foyer drops when the disk cannot keep up; everything else it measures is not kept.
#[derive(Clone, Debug, Default)]
pub(super) struct DiskMetrics {
    dropped: Arc<AtomicU64>,
}

const DROPS: [&str; 2] = ["queue_buffer_overflow", "queue_channel_overflow"];

impl DiskMetrics {
    pub(super) fn registry(&self) -> BoxedRegistry {
        Box::new(self.clone())
    }
}

impl RegistryOps for DiskMetrics {
    fn register_counter_vec(
        &self,
        _: Cow<'static, str>,
        _: Cow<'static, str>,
        _: &'static [&'static str],
    ) -> BoxedCounterVec {
        Box::new(self.clone())
    }

    fn register_gauge_vec(
        &self,
        name: Cow<'static, str>,
        desc: Cow<'static, str>,
        labels: &'static [&'static str],
    ) -> BoxedGaugeVec {
        NoopMetricsRegistry.register_gauge_vec(name, desc, labels)
    }

    fn register_histogram_vec(
        &self,
        name: Cow<'static, str>,
        desc: Cow<'static, str>,
        labels: &'static [&'static str],
    ) -> BoxedHistogramVec {
        NoopMetricsRegistry.register_histogram_vec(name, desc, labels)
    }

    fn register_histogram_vec_with_buckets(
        &self,
        name: Cow<'static, str>,
        desc: Cow<'static, str>,
        labels: &'static [&'static str],
        buckets: Vec<f64>,
    ) -> BoxedHistogramVec {
        NoopMetricsRegistry.register_histogram_vec_with_buckets(name, desc, labels, buckets)
    }
}

impl CounterVecOps for DiskMetrics {
    fn counter(&self, labels: &[Cow<'static, str>]) -> BoxedCounter {
        let counts = labels.iter().any(|label| DROPS.contains(&label.as_ref()));
        Box::new(DropCounter { dropped: counts.then(|| self.dropped.clone()) })
    }
}

#[derive(Debug)]
struct DropCounter {
    dropped: Option<Arc<AtomicU64>>,
}

impl CounterOps for DropCounter {
    fn increase(&self, count: u64) {
        if let Some(dropped) = &self.dropped {
            dropped.fetch_add(count, Ordering::Relaxed);
        }
    }
}
