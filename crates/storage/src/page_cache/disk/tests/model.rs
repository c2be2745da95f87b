//! Random operations against a model: the tier differs from a map only in misses.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum DiskModelOp {
    Write { page: u32, blocks: Range<u32> },
    Read { page: u32, blocks: Range<u32> },
    Remove { page: u32 },
    Touch { page: u32 },
    Settle,
    Reopen { is_closed: bool },
}

const PAGES: u32 = 120;
const PAGE: u64 = 256 << 10;
const BLOCKS: u32 = 4;

fn blocks() -> impl Strategy<Value = Range<u32>> {
    (0..BLOCKS, 1..=BLOCKS).prop_map(|(start, count)| start..(start + count).min(BLOCKS))
}

fn operation() -> impl Strategy<Value = DiskModelOp> {
    let page = 0..PAGES;
    prop_oneof![
        12 => (page.clone(), blocks()).prop_map(|(page, blocks)| DiskModelOp::Write { page, blocks }),
        8 => (page.clone(), blocks()).prop_map(|(page, blocks)| DiskModelOp::Read { page, blocks }),
        2 => page.clone().prop_map(|page| DiskModelOp::Remove { page }),
        2 => page.prop_map(|page| DiskModelOp::Touch { page }),
        1 => Just(DiskModelOp::Settle),
        1 => proptest::bool::weighted(0.5).prop_map(|is_closed| DiskModelOp::Reopen { is_closed }),
    ]
}

/// Returns the length of a page: pages with odd numbers end in a short block.
fn len_of(page: u32) -> usize {
    PAGE as usize - if page % 2 == 1 { 1000 + page as usize } else { 0 }
}

async fn run(operations: Vec<DiskModelOp>) -> DiskTierStats {
    let dir = tempfile::tempdir().unwrap();
    let layout = TestDiskLayout { capacity: 8 * MIB, page_size: PAGE, queue: 64 * MIB };
    let mut tier = open_layout(dir.path(), layout);
    // Blocks that may be on disk. Blocks of removed pages may reappear, but only after a restart.
    let mut possible: HashMap<u32, u64> = HashMap::new();
    let mut removed: HashMap<u32, u64> = HashMap::new();

    for operation in operations {
        match operation {
            DiskModelOp::Write { page, blocks } => {
                let bytes = content(&key(page), len_of(page));
                let end = (blocks.end as usize * BLOCK).min(bytes.len());
                tier.write(key(page), blocks.start, bytes.slice(blocks.start as usize * BLOCK..end)).unwrap();
                *possible.entry(page).or_default() |= mask_of(&blocks);
            }
            DiskModelOp::Read { page, blocks } => {
                let mask = mask_of(&blocks);
                if let Some(bytes) = tier.read(&key(page), blocks.clone()).await {
                    let expected = content(&key(page), len_of(page));
                    let end = (blocks.end as usize * BLOCK).min(expected.len());
                    assert!(*bytes == expected[blocks.start as usize * BLOCK..end]);
                    let known = possible.get(&page).copied().unwrap_or_default();
                    assert_eq!(known & mask, mask, "page {page} has blocks that are not its own");
                } else {
                    assert!(tier.blocks(&key(page)) & mask != mask, "page {page} is there and not read");
                }
            }
            DiskModelOp::Remove { page } => {
                tier.remove(&key(page));
                assert_eq!(tier.blocks(&key(page)), 0);
                if let Some(mask) = possible.remove(&page) {
                    *removed.entry(page).or_default() |= mask;
                }
            }
            DiskModelOp::Touch { page } => tier.touch(&key(page)),
            DiskModelOp::Settle => written(&tier).await,
            DiskModelOp::Reopen { is_closed } => {
                if is_closed {
                    tier.close().await;
                }
                drop(tier);
                tier = open_layout(dir.path(), layout);
                for (page, mask) in &removed {
                    *possible.entry(*page).or_default() |= mask;
                }
            }
        }

        assert!(bytes_on_disk(dir.path()) <= layout.capacity);
        check_accounts(&tier);
    }

    written(&tier).await;
    assert_eq!(tier.stats().rejected, 0);
    tier.stats()
}

/// Checks that the totals kept by the index match its content.
fn check_accounts(tier: &DiskTier) {
    let state = tier.shared.state.lock();
    let segments = 0..tier.shared.geometry.segments;
    let live: u64 = segments.clone().map(|segment| state.index.live_of(segment)).sum();
    assert_eq!(live, state.index.live());
    assert!(live <= tier.shared.geometry.live_capacity());
    for segment in segments {
        let pieces = state.index.live_pieces(segment);
        let bytes: u64 = pieces.iter().map(|live| live.piece.padded_len()).sum();
        assert_eq!(bytes, state.index.live_of(segment), "segment {segment}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases / 16,
        max_shrink_iters: 60,
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_tier_agrees_with_a_map_but_for_misses(
        operations in proptest::collection::vec(operation(), 100..600),
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(run(operations));
    }
}

#[tokio::test]
async fn a_log_that_wraps_around_many_times_agrees_with_a_map() {
    let mut random = TestRandom(3);
    let operations = (0..6000)
        .map(|i| {
            let page = random.below(PAGES as usize) as u32;
            match i % 20 {
                0..12 => DiskModelOp::Write { page, blocks: 0..1 + random.below(4) as u32 },
                12..17 => DiskModelOp::Read { page, blocks: 0..1 },
                17 => DiskModelOp::Remove { page },
                18 => DiskModelOp::Touch { page },
                _ => DiskModelOp::Settle,
            }
        })
        .collect();
    let stats = run(operations).await;
    assert!(stats.written > 20 * 8 * MIB && stats.rewritten > 8 * MIB, "{stats:?}");
}
