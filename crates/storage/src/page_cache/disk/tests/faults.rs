//! Damaged, truncated and foreign files; full and failing disks.

use std::{io::ErrorKind, os::unix::fs::symlink};

use super::*;

/// Fills a tier of many kinds of pieces and returns its files.
async fn filled(dir: &Path, layout: TestDiskLayout) -> Vec<(PathBuf, Vec<u8>)> {
    let tier = open_layout(dir, layout);
    for page in 0..90 {
        let whole = content(&key(page), MIB as usize);
        let first = page as usize % 4 * BLOCK;
        tier.write(key(page), page % 4, whole.slice(first..)).unwrap();
        if page % 3 == 0 {
            written(&tier).await;
            tier.write(key(page), 0, whole).unwrap();
        }
    }
    tier.close().await;
    segment_files(dir).into_iter().map(|file| (file.clone(), fs::read(file).unwrap())).collect()
}

async fn check_and_write(dir: &Path, layout: TestDiskLayout, round: usize) -> usize {
    let tier = open_layout(dir, layout);
    let mut hits = 0;
    for page in 0..90 {
        for blocks in [0..16, 4..16, 7..8] {
            let Some(bytes) = tier.read(&key(page), blocks.clone()).await else { continue };
            let expected = &content(&key(page), MIB as usize)[blocks.start as usize * BLOCK..][..bytes.len()];
            assert!(*bytes == *expected, "round {round}: {page} {blocks:?}");
            hits += 1;
        }
    }
    // A later read of the page finds damage that no read has hit yet, one piece at a time.
    for page in (70..90).step_by(7) {
        let mut attempts = 0;
        while tier.read(&key(page), 0..16).await.is_none() {
            attempts += 1;
            assert!(attempts < 8, "round {round}: page {page} cannot be written");
            tier.write(key(page), 0, content(&key(page), MIB as usize)).unwrap();
            written(&tier).await;
        }
        assert!(*tier.read(&key(page), 0..16).await.unwrap() == content(&key(page), MIB as usize));
    }
    hits
}

#[tokio::test]
async fn damage_anywhere_is_a_miss_and_never_a_wrong_byte() {
    let dir = tempfile::tempdir().unwrap();
    let layout = TestDiskLayout { capacity: 48 * MIB, ..LAYOUT };
    let files = filled(dir.path(), layout).await;
    assert_eq!(files.len(), 4);
    let mut random = TestRandom(5);
    let mut hits = Vec::new();

    for round in 0..20 {
        for (file, bytes) in &files {
            let mut damaged = bytes.clone();
            match round % 5 {
                // Flip bits where recovery begins.
                0 => (0..3).for_each(|_| damaged[random.below(8192)] ^= 1 << random.below(8)),
                // Flip bits anywhere.
                1 => (0..40).for_each(|_| damaged[random.below(bytes.len())] ^= 1 << random.below(8)),
                // Cut the file short.
                2 => damaged.truncate(random.below(bytes.len())),
                // Overwrite a stretch with bytes of another segment, aligned or not.
                3 => {
                    let other = &files[random.below(files.len())].1;
                    let align = if round % 2 == 0 { 4096 } else { 1 };
                    let from = random.below(other.len() - MIB as usize) / align * align;
                    let to = random.below(bytes.len() - MIB as usize) / align * align;
                    damaged[to..to + MIB as usize].copy_from_slice(&other[from..from + MIB as usize]);
                }
                // Zero pages that never reached the disk before a power loss.
                _ => (0..200).for_each(|_| {
                    let at = random.below(bytes.len() / 4096) * 4096;
                    damaged[at..at + 4096].fill(0);
                }),
            }
            fs::write(file, damaged).unwrap();
        }

        hits.push(check_and_write(dir.path(), layout, round).await);
    }

    assert!(hits.iter().sum::<usize>() > 20 * 20, "{hits:?}");
}

#[tokio::test]
async fn files_that_changed_places_are_misses() {
    let dir = tempfile::tempdir().unwrap();
    let layout = TestDiskLayout { capacity: 48 * MIB, ..LAYOUT };
    let files = filled(dir.path(), layout).await;
    for (i, (file, _)) in files.iter().enumerate() {
        fs::write(file, &files[(i + 1) % files.len()].1).unwrap();
    }
    assert_eq!(check_and_write(dir.path(), layout, 0).await, 0);
}

#[tokio::test]
async fn files_and_folders_that_are_no_segments_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path(), LAYOUT).await;
    let pages = dir.path().join("pages-v2-1048576-65536");
    fs::write(pages.join("seg-99"), "beyond the capacity").unwrap();
    fs::write(pages.join("seg-01"), "not a number of ours").unwrap();
    fs::create_dir(pages.join("seg-2x")).unwrap();
    fs::remove_file(pages.join("seg-3")).unwrap();
    symlink("/dev/full", pages.join("seg-3")).unwrap();
    fs::remove_file(pages.join("seg-1")).unwrap();
    fs::create_dir(pages.join("seg-1")).unwrap();

    assert!(check_and_write(dir.path(), LAYOUT, 0).await > 0);
    assert!(segment_files(dir.path()).iter().all(|file| fs::symlink_metadata(file).unwrap().is_file()));
    assert!(segment_files(dir.path()).len() <= 4);
}

#[tokio::test]
async fn segments_overwritten_under_a_running_tier_are_misses() {
    let dir = tempfile::tempdir().unwrap();
    let tier = open(dir.path());
    for page in 0..30 {
        tier.write(key(page), 0, content(&key(page), MIB as usize)).unwrap();
    }
    written(&tier).await;
    for file in segment_files(dir.path()) {
        let len = file.metadata().unwrap().len() as usize;
        let file = File::options().write(true).open(file).unwrap();
        file.write_all_at(&content(&key(777), len), 0).unwrap();
    }
    for page in 0..30 {
        assert!(tier.read(&key(page), 0..16).await.is_none());
    }
    assert_eq!((tier.stats().rejected, tier.stats().pages), (30, 0));
}

#[tokio::test]
async fn segments_removed_under_a_running_tier_cost_only_their_pages() {
    let dir = tempfile::tempdir().unwrap();
    let tier = open_layout(dir.path(), TestDiskLayout { capacity: 24 * MIB, ..LAYOUT });
    for page in 0..200 {
        tier.write(key(page), 0, content(&key(page), MIB as usize)).unwrap();
        if page == 100 {
            written(&tier).await;
            segment_files(dir.path()).iter().for_each(|file| fs::remove_file(file).unwrap());
        }
    }
    written(&tier).await;
    assert!(*tier.read(&key(199), 0..16).await.unwrap() == content(&key(199), MIB as usize));
}

#[tokio::test]
async fn a_full_disk_drops_writes_serves_reads_and_is_written_again_when_there_is_room() {
    for error in [ErrorKind::StorageFull, ErrorKind::Other] {
        for max_write in [None, Some(100_000)] {
            let dir = tempfile::tempdir().unwrap();
            let (tier, io) = open_faulty(dir.path(), LAYOUT);
            tier.write(key(1), 0, content(&key(1), MIB as usize)).unwrap();
            written(&tier).await;

            io.set(|faults| (faults.write_error, faults.max_write) = (Some(error), max_write));
            tier.write(key(2), 0, content(&key(2), MIB as usize)).unwrap();
            written(&tier).await;
            assert_eq!(tier.write(key(3), 0, content(&key(3), 9)), Err(DropReason::DiskFailed));
            assert_eq!(tier.stats().dropped.disk_failed, 2);
            assert!(tier.blocks(&key(2)) == 0);
            assert!(*tier.read(&key(1), 0..16).await.unwrap() == content(&key(1), MIB as usize));

            // A retry after the pause fails again.
            tokio::time::sleep(2 * RETRY.min).await;
            tier.write(key(2), 0, content(&key(2), MIB as usize)).unwrap();
            written(&tier).await;
            assert_eq!(tier.write(key(3), 0, content(&key(3), 9)), Err(DropReason::DiskFailed));

            io.set(|faults| (faults.write_error, faults.max_write) = (None, None));
            tokio::time::sleep(RETRY.max).await;
            tier.write(key(2), 0, content(&key(2), MIB as usize)).unwrap();
            written(&tier).await;
            assert!(*tier.read(&key(2), 0..16).await.unwrap() == content(&key(2), MIB as usize));
            tier.close().await;
            drop(tier);

            let tier = open(dir.path());
            for page in [1, 2] {
                assert!(*tier.read(&key(page), 0..16).await.unwrap() == content(&key(page), MIB as usize));
            }
        }
    }
}

#[tokio::test]
async fn a_disk_that_fails_for_long_is_no_hindrance_to_close() {
    let dir = tempfile::tempdir().unwrap();
    let (tier, io) = open_faulty(dir.path(), TestDiskLayout { capacity: 24 * MIB, ..LAYOUT });
    let fail = |faults: &mut Faults| {
        (faults.write_error, faults.sync_error) = (Some(ErrorKind::Other), Some(ErrorKind::Other));
    };
    for page in 0..60 {
        if page == 20 {
            io.set(fail);
        }
        tier.write(key(page), 0, content(&key(page), MIB as usize)).ok();
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    tokio::time::timeout(Duration::from_secs(5), tier.close()).await.unwrap();
    assert!(tier.stats().dropped.disk_failed > 30);
}

#[tokio::test]
async fn short_writes_and_reads_are_continued() {
    let dir = tempfile::tempdir().unwrap();
    let (tier, io) = open_faulty(dir.path(), LAYOUT);
    io.set(|faults| {
        (faults.max_write, faults.max_read, faults.is_never_cached) = (Some(70_001), Some(8192), true);
    });
    for page in 0..10 {
        tier.write(key(page), 0, content(&key(page), MIB as usize - 100)).unwrap();
    }
    written(&tier).await;
    for page in 0..10 {
        assert!(*tier.read(&key(page), 0..16).await.unwrap() == content(&key(page), MIB as usize - 100));
    }
}

#[tokio::test]
async fn a_read_error_is_a_miss_of_its_piece() {
    let dir = tempfile::tempdir().unwrap();
    let (tier, io) = open_faulty(dir.path(), LAYOUT);
    for page in 0..2 {
        tier.write(key(page), 0, content(&key(page), MIB as usize)).unwrap();
    }
    written(&tier).await;
    io.set(|faults| (faults.read_error, faults.is_never_cached) = (Some(ErrorKind::Other), true));
    assert!(tier.read(&key(0), 3..4).await.is_none());
    io.set(|faults| faults.read_error = None);
    assert!(tier.read(&key(0), 3..4).await.is_none());
    assert!(tier.read(&key(1), 3..4).await.is_some());
    assert_eq!((tier.stats().rejected, tier.stats().pages), (1, 1));
}
