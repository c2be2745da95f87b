//! Tests of the tier on real files: pages survive, damage is a miss, the capacity is a limit, removal is final.

mod faults;
mod model;
mod support;

use std::{
    io::{BufRead, BufReader},
    os::unix::fs::FileExt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use super::*;
use support::*;

#[tokio::test]
async fn a_full_page_of_every_size_comes_back_after_a_restart() {
    for page_size in [4 << 10, 64 << 10, MIB, 4 * MIB, 16 * MIB] {
        let dir = tempfile::tempdir().unwrap();
        let layout = TestDiskLayout { capacity: 256 * MIB, page_size, ..LAYOUT };
        let tier = open_layout(dir.path(), layout);
        let last = layout.page_size as usize / 2 + 77;
        for page in 0..3 {
            let len = if page == 2 { last } else { page_size as usize };
            tier.write(key(page), 0, content(&key(page), len)).unwrap();
        }
        tier.close().await;
        drop(tier);

        let tier = open_layout(dir.path(), layout);
        let stats = tier.stats();
        assert!(stats.is_recovered && stats.pages == 3, "{page_size}: {stats:?}");
        for page in 0..3 {
            let len = if page == 2 { last } else { page_size as usize };
            let blocks = (len as u64).div_ceil(layout.block_size()) as u32;
            assert_eq!(tier.blocks(&key(page)), mask_of(&(0..blocks)));
            let bytes = tier.read(&key(page), 0..blocks).await.unwrap();
            assert!(*bytes == content(&key(page), len), "{page_size}");
            assert_eq!(bytes.as_ptr().align_offset(4096), 0);
        }
        assert_eq!(tier.stats().rejected, 0);
    }
}

/// A batch is bounded by its padded bytes, so that its header stays within the length that recovery reads.
#[tokio::test]
async fn thousands_of_tiny_pages_come_back_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let (tier, io) = open_faulty(dir.path(), TestDiskLayout { capacity: 256 * MIB, ..LAYOUT });
    // Queue all of them before the first batch is written.
    io.hold_writes();
    for page in 0..30_000 {
        tier.write(key(page), 0, content(&key(page), 100)).unwrap();
    }
    io.release_writes();
    tier.close().await;
    drop(tier);

    let tier = open_layout(dir.path(), TestDiskLayout { capacity: 256 * MIB, ..LAYOUT });
    assert_eq!(tier.stats().pages, 30_000);
    for page in (0..30_000).step_by(997) {
        assert!(*tier.read(&key(page), 0..1).await.unwrap() == content(&key(page), 100));
    }
}

#[tokio::test]
async fn parts_of_a_page_are_written_and_read_on_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let tier = open(dir.path());
    let page = content(&key(1), MIB as usize);
    let part = |blocks: Range<usize>| page.slice(blocks.start * BLOCK..blocks.end * BLOCK);

    tier.write(key(1), 3, part(3..5)).unwrap();
    written(&tier).await;
    assert_eq!(tier.blocks(&key(1)), 0b1_1000);
    assert!(tier.read(&key(1), 2..4).await.is_none());
    assert!(*tier.read(&key(1), 4..5).await.unwrap() == part(4..5));

    // Only the missing blocks are written.
    tier.write(key(1), 0, part(0..8)).unwrap();
    written(&tier).await;
    assert_eq!(tier.stats().written, 8 * BLOCK as u64);
    assert!(*tier.read(&key(1), 1..7).await.unwrap() == part(1..7));
    tier.close().await;
    drop(tier);

    let tier = open(dir.path());
    assert_eq!(tier.blocks(&key(1)), 0xff);
    assert!(*tier.read(&key(1), 0..8).await.unwrap() == part(0..8));
    assert!(*tier.read(&key(1), 2..3).await.unwrap() == part(2..3));
    assert_eq!((tier.stats().pages, tier.stats().rejected), (1, 0));
    assert!(tier.read(&key(1), 3..3).await.is_none() && tier.read(&key(1), 60..90).await.is_none());
}

#[tokio::test]
async fn a_read_verifies_only_its_own_blocks() {
    let dir = tempfile::tempdir().unwrap();
    let tier = open(dir.path());
    let page = content(&key(1), MIB as usize);
    tier.write(key(1), 0, page.clone()).unwrap();
    tier.close().await;
    drop(tier);

    // Flip a bit of block 5.
    let file = &segment_files(dir.path())[0];
    let file = std::fs::File::options().read(true).write(true).open(file).unwrap();
    let mut byte = [0];
    let offset = 4096 + 5 * BLOCK as u64 + 9;
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[byte[0] ^ 1], offset).unwrap();

    let tier = open(dir.path());
    assert!(*tier.read(&key(1), 0..5).await.unwrap() == page[..5 * BLOCK]);
    assert!(*tier.read(&key(1), 6..16).await.unwrap() == page[6 * BLOCK..]);
    assert_eq!(tier.stats().rejected, 0);

    assert!(tier.read(&key(1), 4..7).await.is_none());
    assert_eq!((tier.stats().rejected, tier.blocks(&key(1))), (1, 0));

    // It can be written again.
    tier.write(key(1), 0, page.clone()).unwrap();
    written(&tier).await;
    assert!(*tier.read(&key(1), 0..16).await.unwrap() == page);
}

#[tokio::test]
async fn a_tier_that_is_dropped_without_close_keeps_what_was_written() {
    let dir = tempfile::tempdir().unwrap();
    let mut next = 0;
    for _ in 0..5 {
        let tier = open(dir.path());
        assert_eq!(tier.stats().pages, u64::from(next));
        for page in 0..next {
            assert!(*tier.read(&key(page), 0..16).await.unwrap() == content(&key(page), MIB as usize));
        }
        for page in next..next + 6 {
            tier.write(key(page), 0, content(&key(page), MIB as usize)).unwrap();
        }
        written(&tier).await;
        next += 6;
    }
    let tier = open(dir.path());
    assert_eq!(tier.stats().pages, 30);
    assert_eq!(segment_files(dir.path()).len(), 2, "a restart continues the segment in which it stopped");
}

#[tokio::test]
async fn the_capacity_is_a_limit_on_what_is_on_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    for capacity in [64 * MIB, 24 * MIB, 40 * MIB, 9 * MIB] {
        let tier = open_layout(dir.path(), TestDiskLayout { capacity, ..LAYOUT });
        for page in 0..150 {
            tier.write(key(page), 0, content(&key(page), MIB as usize)).unwrap();
            if page % 10 == 0 {
                written(&tier).await;
                assert!(bytes_on_disk(dir.path()) <= capacity);
            }
        }
        written(&tier).await;
        let stats = tier.stats();
        assert!(bytes_on_disk(dir.path()) <= capacity && stats.used <= capacity);
        assert!(stats.used > capacity / 4, "{stats:?}");
        assert!(*tier.read(&key(149), 0..16).await.unwrap() == content(&key(149), MIB as usize));
        tier.close().await;
    }
}

#[tokio::test]
async fn what_does_not_fit_is_dropped_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    let tier = open_layout(dir.path(), TestDiskLayout { capacity: 3 * MIB, ..LAYOUT });
    let page = content(&key(1), MIB as usize);
    assert_eq!(tier.write(key(1), 0, page.clone()), Err(DropReason::TooLarge));
    assert_eq!(tier.write(key(1), 12, page.slice(..5 * BLOCK)), Err(DropReason::TooLarge), "beyond its page");
    assert_eq!(tier.write(key(1), u32::MAX, page.slice(..1)), Err(DropReason::TooLarge));
    tier.write(key(1), 0, page.slice(..4 * BLOCK)).unwrap();
    tier.write(key(1), 0, Bytes::new()).unwrap();
    written(&tier).await;
    assert_eq!((tier.blocks(&key(1)), tier.stats().dropped.too_large), (0xf, 3));

    let dir = tempfile::tempdir().unwrap();
    let tier = open_layout(dir.path(), TestDiskLayout { capacity: 0, ..LAYOUT });
    assert_eq!(tier.write(key(1), 0, page.slice(..1)), Err(DropReason::TooLarge));
    tier.close().await;
}

#[tokio::test]
async fn a_folder_belongs_to_one_tier_until_it_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(dir.path());
    let second = DiskTier::open(options(dir.path(), LAYOUT));
    assert!(matches!(second, Err(DiskOpenError::Locked { .. })), "{second:?}");

    first.write(key(1), 0, content(&key(1), 10)).unwrap();
    first.close().await;
    first.close().await;
    let second = open(dir.path());
    assert_eq!(second.blocks(&key(1)), 1);

    assert_eq!(first.write(key(2), 0, content(&key(2), 10)), Err(DropReason::Closed));
    assert_eq!((first.blocks(&key(1)), first.stats().dropped.closed), (0, 1));
    assert!(first.read(&key(1), 0..1).await.is_none());
    drop(first);
    assert!(matches!(DiskTier::open(options(dir.path(), LAYOUT)), Err(DiskOpenError::Locked { .. })));

    // A process that is starting has copies of all descriptors until it executes another program.
    let inherited = second.shared.lock.lock().as_ref().unwrap().try_clone().unwrap();
    second.close().await;
    assert_eq!(open(dir.path()).blocks(&key(1)), 1);
    drop(inherited);
}

#[test]
fn a_folder_that_cannot_be_made_is_an_error_that_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a-file");
    std::fs::write(&file, "x").unwrap();
    let error = DiskTier::open(options(&file.join("cache"), LAYOUT)).unwrap_err();
    assert!(matches!(error, DiskOpenError::Folder { .. }) && error.to_string().contains("a-file"), "{error}");
}

#[tokio::test]
async fn another_layout_begins_empty_and_leaves_nothing_of_the_old_one() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("pages-v1-1048576-67108864/deep")).unwrap();
    std::fs::write(dir.path().join("of-others"), "x").unwrap();
    for page_size in [MIB, 2 * MIB, 256 << 10] {
        let tier = open_layout(dir.path(), TestDiskLayout { page_size, ..LAYOUT });
        assert_eq!(tier.stats().pages, 0);
        tier.write(key(1), 0, content(&key(1), 5000)).unwrap();
        tier.close().await;
        let entries = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        assert_eq!(names, ["lock", "of-others", &format!("pages-v2-{page_size}-65536")]);
    }
}

#[tokio::test]
async fn a_removed_page_is_absent_at_once_and_comes_back_only_by_a_write() {
    let dir = tempfile::tempdir().unwrap();
    let (tier, io) = open_faulty(dir.path(), LAYOUT);
    let page = content(&key(1), MIB as usize);
    tier.write(key(1), 0, page.clone()).unwrap();
    written(&tier).await;
    tier.remove(&key(1));
    assert_eq!(tier.blocks(&key(1)), 0);
    assert!(tier.read(&key(1), 0..1).await.is_none());

    // One write is in progress, another waits.
    io.hold_writes();
    tier.write(key(1), 0, page.clone()).unwrap();
    io.wait_for_held_write();
    tier.write(key(2), 0, content(&key(2), MIB as usize)).unwrap();
    tier.remove(&key(1));
    tier.remove(&key(2));
    // Write the page again while the cancelled write is still in progress.
    tier.write(key(2), 0, content(&key(2), 10)).unwrap();
    io.release_writes();
    written(&tier).await;
    assert_eq!((tier.blocks(&key(1)), tier.blocks(&key(2))), (0, 1));
    assert_eq!(tier.stats().pages, 1);
}

#[tokio::test]
async fn a_full_queue_drops_and_counts_and_takes_again_when_it_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let (tier, io) = open_faulty(dir.path(), TestDiskLayout { queue: 4 * MIB, ..LAYOUT });
    io.hold_writes();
    let mut dropped = 0;
    for page in 0..10 {
        match tier.write(key(page), 0, content(&key(page), MIB as usize)) {
            Ok(()) => {}
            Err(DropReason::QueueFull) => dropped += 1,
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!((dropped, tier.stats().dropped.queue_full), (6, 6));
    assert_ne!(tier.backlog(), WriteBacklog::Short);
    io.release_writes();
    written(&tier).await;
    assert_eq!(tier.backlog(), WriteBacklog::Short);
    assert_eq!(tier.stats().pages, 4);
    tier.write(key(9), 0, content(&key(9), MIB as usize)).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_of_segments_that_are_reclaimed_never_get_foreign_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let (tier, io) = open_faulty(dir.path(), TestDiskLayout { capacity: 24 * MIB, ..LAYOUT });
    let tier = Arc::new(tier);
    io.slow_reads(Duration::from_micros(300));
    let stop = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..8)
        .map(|reader| {
            let tier = tier.clone();
            let stop = stop.clone();
            tokio::spawn(async move {
                let mut random = TestRandom(reader);
                let mut hits = 0;
                while !stop.load(Ordering::Relaxed) {
                    let page = key(random.below(60) as u32);
                    let start = random.below(16) as u32;
                    if let Some(bytes) = tier.read(&page, start..16).await {
                        assert!(*bytes == content(&page, MIB as usize)[start as usize * BLOCK..]);
                        hits += 1;
                        tier.touch(&page);
                    }
                    tokio::task::yield_now().await;
                }
                hits
            })
        })
        .collect();

    let mut random = TestRandom(99);
    let deadline = Instant::now() + Duration::from_secs(60);
    while tier.stats().written < 240 * MIB {
        assert!(Instant::now() < deadline, "{:?}", tier.stats());
        let page = key(random.below(60) as u32);
        tier.write(page, 0, content(&page, MIB as usize)).ok();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    stop.store(true, Ordering::Relaxed);
    for reader in readers {
        assert!(reader.await.unwrap() > 20);
    }

    let stats = tier.stats();
    assert_eq!(stats.rejected, 0, "{stats:?}");
}

#[tokio::test]
async fn pages_with_hits_survive_the_reclaiming_of_their_segments() {
    let dir = tempfile::tempdir().unwrap();
    let tier = open_layout(dir.path(), TestDiskLayout { capacity: 256 * MIB, ..LAYOUT });
    for page in 0..400 {
        tier.write(key(page), 0, content(&key(page), MIB as usize)).unwrap();
        // Leave holes everywhere, so that segments are reclaimed before the policy evicts.
        if page % 5 != 0 && page > 20 {
            tier.remove(&key(page - 20));
        }
        if page % 8 == 0 {
            written(&tier).await;
        }
    }
    written(&tier).await;
    let stats = tier.stats();
    assert!(stats.rewritten > 0, "{stats:?}");
    let left = (0..380).filter(|page| page % 5 == 0 && tier.blocks(&key(*page)) == 0xffff).count();
    assert!(left >= 70, "{left} of 76 pages left: {stats:?}");
}

#[tokio::test]
async fn pages_written_a_short_time_ago_are_read_from_the_page_cache() {
    let dir = tempfile::tempdir().unwrap();
    let (tier, io) = open_faulty(dir.path(), TestDiskLayout { capacity: 256 * MIB, ..LAYOUT });
    for page in 0..12 {
        tier.write(key(page), 0, content(&key(page), MIB as usize)).unwrap();
    }
    written(&tier).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    for page in 0..12 {
        assert!(*tier.read(&key(page), 0..16).await.unwrap() == content(&key(page), MIB as usize));
    }
    assert!(io.is_uncached() || io.cached_reads() >= 6, "{} of 12", io.cached_reads());
}

const CHILD_DIR: &str = "STYLOBATE_DISK_TEST_DIR";
const OPENED: &str = "the child has the folder";
const CHILD: &str = "a_child_that_writes_until_it_is_killed";

/// Runs in a process of its own, started by the test below.
#[tokio::test]
async fn a_child_that_writes_until_it_is_killed() {
    let Some(dir) = std::env::var_os(CHILD_DIR) else { return };
    let tier = open(Path::new(&dir));
    println!("{OPENED}");
    loop {
        for page in 0..100 {
            tier.write(key(page), 0, content(&key(page), MIB as usize)).ok();
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

#[tokio::test]
async fn a_process_that_is_killed_leaves_pages_and_no_wrong_byte() {
    let dir = tempfile::tempdir().unwrap();
    let mut random = TestRandom(1);
    let mut hits = 0;
    for _ in 0..6 {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--nocapture", "--exact"])
            .arg(format!("{}::{CHILD}", module_path!().split_once("::").unwrap().1))
            .env(CHILD_DIR, dir.path())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();

        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains(OPENED)));

        let second = DiskTier::open(options(dir.path(), LAYOUT));
        assert!(matches!(second, Err(DiskOpenError::Locked { .. })), "{second:?}");
        tokio::time::sleep(Duration::from_millis(100 + random.below(400) as u64)).await;
        child.kill().unwrap();
        child.wait().unwrap();

        let tier = open(dir.path());
        assert!(tier.stats().is_recovered);
        for page in 0..100 {
            if let Some(bytes) = tier.read(&key(page), 0..16).await {
                assert!(*bytes == content(&key(page), MIB as usize));
                hits += 1;
            }
        }

        assert!(tier.stats().rejected <= 6, "only the batch that was being written may be damaged");
    }

    assert!(hits > 60, "{hits}");
}

#[tokio::test]
async fn closing_and_opening_are_quick() {
    let dir = tempfile::tempdir().unwrap();
    let layout = TestDiskLayout { capacity: 512 * MIB, ..LAYOUT };
    let tier = open_layout(dir.path(), layout);
    for page in 0..200 {
        tier.write(key(page), 0, content(&key(page), MIB as usize)).ok();
        if page % 10 == 0 {
            written(&tier).await;
        }
    }
    let start = Instant::now();
    tier.close().await;
    let closed = start.elapsed();
    drop(tier);
    let start = Instant::now();
    let tier = open_layout(dir.path(), layout);
    let opened = start.elapsed();
    assert_eq!(tier.stats().pages, 200);
    assert!(closed < Duration::from_secs(5) && opened < Duration::from_secs(1), "{closed:?} {opened:?}");
}
