//! Tests of every sink, and of rings with arbitrary completions.

mod publish;
mod uploads;

use std::{
    collections::VecDeque,
    fs,
    os::unix::fs::FileExt,
    sync::atomic::{AtomicUsize, Ordering},
};

use bytes::Bytes;
use object_store::{ObjectStoreExt, memory::InMemory};
use rand::{Rng, RngCore, SeedableRng, rngs::StdRng};
use tokio::sync::Notify;

use super::{ring::SlotWrite, *};

fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; length];
    StdRng::seed_from_u64(seed).fill_bytes(&mut bytes);
    bytes
}

/// Creates sinks with small slots, so that a few kilobytes fill many of them.
fn small(kind: SinkKind) -> Sinks {
    let options = SinkOptions::default().with_kind(kind).with_slots(3, ByteSize::kib(8));
    Sinks::new(options.with_parts(2, ByteSize::kib(8)))
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Writes bytes in pieces of random lengths.
async fn write(mut sink: Box<dyn Sink>, bytes: &[u8], random: &mut StdRng) -> Result<u64> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(random.random_range(0..20_000).min(rest.len()));
        sink.write(piece).await?;
        rest = after;
        assert_eq!(sink.position(), (bytes.len() - rest.len()) as u64);
    }
    sink.finish().await
}

/// The output of a sink under test.
enum SinkTestOutput {
    File(tempfile::TempDir),
    Object(Arc<InMemory>),
}

impl SinkTestOutput {
    async fn sink(&self, sinks: &Sinks) -> Box<dyn Sink> {
        match self {
            Self::File(folder) => {
                sinks.file(&folder.path().join("data/x"), Overwrite::Replace).await.unwrap()
            }
            Self::Object(store) => sinks.object(store.clone(), "data/x".into(), Overwrite::Replace),
        }
    }

    async fn found(&self) -> Option<Vec<u8>> {
        match self {
            Self::File(folder) => fs::read(folder.path().join("data/x")).ok(),
            Self::Object(store) => {
                let found = store.get(&"data/x".into()).await.ok()?;
                Some(found.bytes().await.unwrap().to_vec())
            }
        }
    }

    fn leftovers(&self) -> usize {
        match self {
            Self::File(folder) => names(&folder.path().join("data")).len(),
            Self::Object(_) => 0,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_sink_writes_what_it_is_given_once_it_is_finished() {
    let mut random = StdRng::seed_from_u64(1);
    let kinds = [SinkKind::Auto, SinkKind::Thread, SinkKind::IoUring, SinkKind::IoUringDirect];
    let cases = kinds.map(|kind| (kind, true)).into_iter().chain([(SinkKind::Auto, false)]);
    for (kind, is_file) in cases {
        let sinks = small(kind);
        let output = if is_file {
            SinkTestOutput::File(tempfile::tempdir().unwrap())
        } else {
            SinkTestOutput::Object(Arc::default())
        };
        let mut before = None;
        for length in [0, 1, 4095, 8192, 8193, 16_384, 40_000, 1_000_003] {
            let bytes = noise(length, length as u64);
            let mut dropped = output.sink(&sinks).await;
            dropped.write(&bytes).await.unwrap();
            assert_eq!(output.found().await, before, "{kind} {length}");
            drop(dropped);
            let sink = output.sink(&sinks).await;
            assert_eq!(write(sink, &bytes, &mut random).await.unwrap(), length as u64);
            before = Some(bytes);
            assert!(output.found().await == before, "{kind} {length}");
            assert!(output.leftovers() <= 1, "{kind} {length}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_task_fills_many_files_in_turns_with_few_slots() {
    for kind in [SinkKind::Thread, SinkKind::IoUring] {
        let folder = tempfile::tempdir().unwrap();
        let sinks = small(kind);
        let mut open = Vec::new();
        for number in 0..40 {
            open.push(
                sinks.file(&folder.path().join(format!("{number}")), Overwrite::Replace).await.unwrap(),
            );
        }
        for round in 0..9 {
            for (number, sink) in open.iter_mut().enumerate() {
                sink.write(&noise(3_000, (number * 100 + round) as u64)).await.unwrap();
            }
        }
        assert!(sinks.files().unwrap().pool.made() <= 43);
        for sink in open {
            sink.finish().await.unwrap();
        }
        for number in 0..40 {
            let whole: Vec<u8> = (0..9).flat_map(|round| noise(3_000, number * 100 + round)).collect();
            assert!(fs::read(folder.path().join(format!("{number}"))).unwrap() == whole, "{number}");
        }
        assert_eq!(names(folder.path()).len(), 40);
    }
}

#[tokio::test]
async fn what_cannot_be_written_is_an_error_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "x").unwrap();
    let path = folder.path().join("file/below");
    let error = small(SinkKind::Auto).file(&path, Overwrite::Replace).await.err().unwrap().to_string();
    assert!(error.contains("file/below: cannot be written"), "{error}");
    fs::create_dir(folder.path().join("folder")).unwrap();
    let mut sink =
        small(SinkKind::Auto).file(&folder.path().join("folder"), Overwrite::Replace).await.unwrap();
    sink.write(b"x").await.unwrap();
    assert!(sink.finish().await.is_err());
    assert_eq!(names(folder.path()), ["file", "folder"]);
}

#[tokio::test]
async fn a_ring_that_cannot_be_set_up_gives_way_to_a_thread() {
    let folder = tempfile::tempdir().unwrap();
    let sinks = small(SinkKind::IoUring);
    let refused: io::Result<SimulatedWrites> = Err(io::ErrorKind::PermissionDenied.into());
    let (begun, chosen) = sinks.begin_or_thread(refused, SinkKind::IoUring).unwrap();
    assert_eq!(chosen, SinkKind::Thread);
    *sinks.files.lock() = Some(begun);
    let sink = sinks.file(&folder.path().join("x"), Overwrite::Replace).await.unwrap();
    write(sink, &noise(50_000, 1), &mut StdRng::seed_from_u64(2)).await.unwrap();
    assert!(fs::read(folder.path().join("x")).unwrap() == noise(50_000, 1));
}

/// A ring that completes writes in arbitrary order, fully or in part.
struct SimulatedWrites {
    in_flight: Vec<SlotWrite>,
    random: StdRng,
    /// Number of successful writes, and the errno of all later ones.
    fails: Option<(usize, i32)>,
    /// Maximum number of concurrent writes so far.
    max_in_flight: Arc<AtomicUsize>,
}

impl WriteRing for SimulatedWrites {
    fn submit(&mut self, write: SlotWrite) {
        self.in_flight.push(write);
        self.max_in_flight.fetch_max(self.in_flight.len(), Ordering::Relaxed);
    }

    fn wait(&mut self) -> Option<(SlotWrite, io::Result<usize>)> {
        if self.in_flight.is_empty() {
            return None;
        }
        let write = self.in_flight.swap_remove(self.random.random_range(0..self.in_flight.len()));
        if let Some((left, errno)) = &mut self.fails {
            if *left == 0 {
                let failed = io::Error::from_raw_os_error(*errno);
                return Some((write, if *errno == 0 { Ok(0) } else { Err(failed) }));
            }
            *left -= 1;
        }
        let left = write.left();
        let result = match self.random.random_range(0..10) {
            0 => Err(io::Error::from_raw_os_error(libc::EINTR)),
            1 => Err(io::Error::from_raw_os_error(libc::EAGAIN)),
            2..5 => {
                let some = left.get(..self.random.random_range(1..=left.len())).unwrap();
                write.target.file.write_all_at(some, write.position()).map(|()| some.len())
            }
            _ => write.target.file.write_all_at(left, write.position()).map(|()| left.len()),
        };
        Some((write, result))
    }

    fn in_flight(&self) -> usize {
        self.in_flight.len()
    }
}

fn simulated(seed: u64, fails: Option<(usize, i32)>) -> (Sinks, Arc<AtomicUsize>) {
    let sinks = small(SinkKind::IoUring);
    let max_in_flight = Arc::new(AtomicUsize::new(0));
    let random = StdRng::seed_from_u64(seed);
    let ring = SimulatedWrites { in_flight: Vec::new(), random, fails, max_in_flight: max_in_flight.clone() };
    *sinks.files.lock() = Some(sinks.begin(ring, false).unwrap());
    (sinks, max_in_flight)
}

#[tokio::test(flavor = "multi_thread")]
async fn completions_come_in_any_order_and_short() {
    let folder = tempfile::tempdir().unwrap();
    let mut overlapped = 0;
    for seed in 0..100 {
        let (sinks, max_in_flight) = simulated(seed, None);
        let mut random = StdRng::seed_from_u64(seed);
        let bytes = noise(random.random_range(0..300_000), seed);
        let sink = sinks.file(&folder.path().join("x"), Overwrite::Replace).await.unwrap();
        write(sink, &bytes, &mut random).await.unwrap();
        assert!(fs::read(folder.path().join("x")).unwrap() == bytes, "{seed}");
        overlapped += usize::from(max_in_flight.load(Ordering::Relaxed) > 1);
    }
    assert!(overlapped > 0, "writes overlap");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_at_any_write_leaves_nothing_and_is_told() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("x"), "before").unwrap();
    for errno in [libc::ENOSPC, libc::EIO, libc::EINTR, 0] {
        for good in 0..30 {
            let (sinks, _) = simulated(good as u64, Some((good, errno)));
            let mut random = StdRng::seed_from_u64(3);
            let sink = sinks.file(&folder.path().join("x"), Overwrite::Replace).await.unwrap();
            let error = write(sink, &noise(200_000, 3), &mut random).await.unwrap_err();
            assert!(matches!(error, Error::Write { .. }), "{error}");
            if errno == libc::ENOSPC {
                assert!(error.to_string().contains("No space left on device"), "{error}");
            }
            assert_eq!(names(folder.path()), ["x"]);
        }
    }
    assert_eq!(fs::read(folder.path().join("x")).unwrap(), b"before");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_fails_takes_no_other_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let sinks = small(SinkKind::IoUring);
    let mut bad = sinks.file(&folder.path().join("bad"), Overwrite::Replace).await.unwrap();
    let good = sinks.file(&folder.path().join("good"), Overwrite::Replace).await.unwrap();
    bad.write(&noise(50_000, 1)).await.unwrap();
    drop(bad);
    write(good, &noise(50_000, 2), &mut StdRng::seed_from_u64(4)).await.unwrap();
    assert_eq!(names(folder.path()), ["good"]);
}

/// An upload with failing parts.
#[derive(Debug, Default)]
struct FailingUpload {
    parts: VecDeque<bool>,
    aborted: Arc<AtomicUsize>,
    /// Notified to let the upload be aborted; `None` if that does not wait.
    abort: Option<Arc<Notify>>,
}

#[async_trait]
impl object_store::MultipartUpload for FailingUpload {
    fn put_part(&mut self, _: object_store::PutPayload) -> object_store::UploadPart {
        let good = self.parts.pop_front().unwrap_or(true);
        Box::pin(async move {
            let failed = || object_store::Error::Generic { store: "test", source: "no more".into() };
            if good { Ok(()) } else { Err(failed()) }
        })
    }

    async fn complete(&mut self) -> object_store::Result<object_store::PutResult> {
        panic!("an upload of which a part is missing is not completed")
    }

    async fn abort(&mut self) -> object_store::Result<()> {
        if let Some(abort) = &self.abort {
            abort.notified().await;
        }
        self.aborted.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

#[tokio::test]
async fn an_object_of_which_a_part_fails_is_aborted() {
    let aborted = Arc::new(AtomicUsize::new(0));
    let store = Arc::new(InMemory::new());
    let parts = (1..=20).map(|number| number != 7).collect();
    let upload = FailingUpload { parts, aborted: aborted.clone(), abort: None };
    let mut sink = ObjectSink::new(store.clone(), "x".into(), 1_000, 2, Overwrite::Replace)
        .with_upload(Box::new(upload));
    let mut outcome = Ok(());
    for _ in 0..20 {
        outcome = outcome.and(sink.write(&[7; 1_000]).await);
    }
    assert!(outcome.unwrap_err().to_string().contains("no more"));
    assert!(Box::new(sink).finish().await.is_err(), "the error comes again");
    assert_eq!(aborted.load(Ordering::Relaxed), 1);
    assert!(store.head(&"x".into()).await.is_err());
}

#[tokio::test]
async fn an_object_that_is_dropped_is_aborted() {
    let aborted = Arc::new(AtomicUsize::new(0));
    let upload = FailingUpload { aborted: aborted.clone(), ..FailingUpload::default() };
    let sink = ObjectSink::new(Arc::new(InMemory::new()), "x".into(), 10, 2, Overwrite::Replace)
        .with_upload(Box::new(upload));
    drop(sink);
    tokio::task::yield_now().await;
    assert_eq!(aborted.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn small_objects_are_put_at_once() {
    let store = Arc::new(InMemory::new());
    let mut sink = small(SinkKind::Auto).object(store.clone(), "x".into(), Overwrite::Replace);
    sink.write(b"abc").await.unwrap();
    assert_eq!(sink.finish().await.unwrap(), 3);
    assert_eq!(store.get(&"x".into()).await.unwrap().bytes().await.unwrap(), Bytes::from_static(b"abc"));
}
