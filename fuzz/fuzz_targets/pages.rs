//! Any bytes as a segment of the cache on disk, or in a segment that was written: it opens, reads are answered, and
//! what it writes then is found by the next.
//!
//! The first byte: 1 seals the headers of batches, 2 takes the rest as the segment itself. Otherwise the rest is a list
//! of changes to a written one: offset (2 bytes), length (1), bytes.
//!
//! That the bytes are the object's is not asserted: a checksum can be found, and keeps no one out.
#![no_main]

use std::{
    fs,
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use libfuzzer_sys::fuzz_target;
use object_store::{ObjectStoreExt, memory::InMemory, path::Path};
use stylobate_fuzz::{abort_at_own_panics, read_through};
use stylobate_storage::{ByteSize, CacheOptions, PageCache, fuzzing::header_survives_rewrite};
use tokio::runtime::Runtime;
use twox_hash::XxHash3_64;

const PAGE: ByteSize = ByteSize::kib(4);
const CAPACITY: ByteSize = ByteSize::mib(16);
const SECTOR: usize = 4096;
/// Objects and their sizes. Only the first is in the segment that was written.
const OBJECTS: [(&str, usize); 2] = [("first", 2 * SECTOR + 100), ("second", SECTOR + 1)];

struct Bench {
    runtime: Runtime,
    memory: Arc<InMemory>,
    folder: PathBuf,
    /// Name and content of the segment that was written.
    segment: (PathBuf, Vec<u8>),
}

impl Bench {
    fn new() -> Self {
        abort_at_own_panics();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let lake = std::env::var("FUZZ_FOLDER").expect("a folder with files, as `make fuzz` makes it");
        let folder = PathBuf::from(lake).with_file_name(format!("pages-on-disk-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        let memory = Arc::new(InMemory::new());
        let mut bench = Self { runtime, memory, folder, segment: Default::default() };
        bench.runtime.block_on(async {
            for (name, size) in OBJECTS {
                let bytes: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
                bench.memory.put(&Path::from(name), bytes.into()).await.unwrap();
            }
            bench.read(&OBJECTS[..1]).await;
        });

        let segments = fs::read_dir(bench.pages()).unwrap().map(|entry| entry.unwrap().path());
        let mut segments: Vec<_> = segments.map(|path| (fs::read(&path).unwrap(), path)).collect();
        segments.retain(|(bytes, _)| bytes.iter().any(|byte| *byte != 0));
        segments.sort();
        let (mut bytes, path) = segments.pop().expect("a segment was written");
        let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        bytes.truncate(end.next_multiple_of(SECTOR));
        bench.segment = (path, bytes);
        bench
    }

    fn pages(&self) -> PathBuf {
        self.folder.join(format!("pages-v2-{0}-{0}", PAGE.as_u64()))
    }

    /// Opens the cache, reads objects through it, and closes it.
    async fn read(&self, objects: &[(&str, usize)]) {
        let options = CacheOptions::new(ByteSize::mib(8)).with_page_size(PAGE);
        let pages = PageCache::open(options.with_disk(&self.folder, CAPACITY)).await.unwrap();
        let store = read_through(&self.memory, pages.clone());
        for (name, size) in objects {
            let read = store.get(&Path::from(*name)).await.unwrap().bytes().await.unwrap();
            assert_eq!(read.len(), *size);
        }
        let _ = pages.stats();
        pages.close().await.unwrap();
    }
}

fn bench() -> &'static Bench {
    static BENCH: OnceLock<Bench> = OnceLock::new();
    BENCH.get_or_init(Bench::new)
}

fuzz_target!(|data: &[u8]| {
    let bench = bench();
    let Some((flags, rest)) = data.split_first() else { return };
    let (path, original) = &bench.segment;
    let mut bytes = if flags & 2 != 0 { rest.to_vec() } else { changed(original, rest) };
    if flags & 1 != 0 {
        seal(&mut bytes);
    }
    for header in headers(&bytes) {
        let sizes = [CAPACITY, PAGE, PAGE].map(|size| size.as_u64());
        let same = header_survives_rewrite(&bytes[header], sizes[0], sizes[1], sizes[2]);
        assert_ne!(same, Some(false), "a header is another one when it is encoded and decoded again");
    }

    let _ = fs::remove_dir_all(&bench.folder);
    fs::create_dir_all(bench.pages()).unwrap();
    fs::write(path, &bytes).unwrap();
    bench.runtime.block_on(async {
        bench.read(&OBJECTS).await;
        bench.read(&OBJECTS).await;
    });
});

fn changed(original: &[u8], mut changes: &[u8]) -> Vec<u8> {
    let mut bytes = original.to_vec();
    while let [low, high, len, rest @ ..] = changes {
        let at = usize::from(u16::from_le_bytes([*low, *high]));
        let (new, after) = rest.split_at(rest.len().min(usize::from(*len)));
        for (old, new) in bytes.iter_mut().skip(at).zip(new) {
            *old = *new;
        }
        changes = after;
    }
    bytes
}

/// Returns the ranges of the headers of batches, as far as each leads to the next.
fn headers(bytes: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0_usize;
    while let Some(fixed) = bytes.get(at..at.saturating_add(64)) {
        let len = u32::from_le_bytes(fixed[20..24].try_into().unwrap()) as usize;
        let data = u64::from_le_bytes(fixed[48..56].try_into().unwrap());
        if !fixed.starts_with(b"page-log") || len < 64 || bytes.len() - at < len {
            break;
        }
        found.push(at..at + len);
        let Ok(data) = usize::try_from(data) else { break };
        at = (at + len).saturating_add(data);
    }
    found
}

/// Gives the headers their checksums.
fn seal(bytes: &mut [u8]) {
    for header in headers(bytes) {
        let header = &mut bytes[header];
        let checksum = XxHash3_64::oneshot(&header[16..]);
        header[8..16].copy_from_slice(&checksum.to_le_bytes());
    }
}
