//! One fetch per page for any number of readers; never a mixed, stale or short response; failures that recover.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod support;

use std::{
    ops::Range,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use bytes::Bytes;
use futures::StreamExt;
use object_store::{
    GetOptions, GetRange, ObjectStore, ObjectStoreExt, PutPayload, memory::InMemory, path::Path,
    prefix::PrefixStore,
};
use stylobate_storage::{
    ByteSize, CacheOptions, ColumnLayout, Consistency, ConsistencyRules, Origin, PageCache, ReadOptions,
    ReadThrough,
};
use support::{Bench, Fault, bench, eventually::eventually, noise, plenty, quick};

const MIB: usize = 1 << 20;

/// Waits until all fetches, including those ahead of readers, have ended.
async fn nothing_in_flight(bench: &Bench) {
    eventually("all fetches to end", async || bench.store.stats().in_flight == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn racing_readers_of_a_cold_object_cause_one_fetch_per_page() {
    let bench = plenty().await;
    let data = noise(5 * MIB + 17, 1);
    let path = bench.put("a", data.clone()).await;
    *bench.origin.latency.lock() = Duration::from_millis(20);
    let readers = (0..50).map(|_| {
        let store = bench.store.clone();
        let path = path.clone();
        tokio::spawn(async move { store.get(&path).await.unwrap().bytes().await.unwrap() })
    });
    for read in futures::future::join_all(readers).await {
        assert_eq!(read.unwrap(), data);
    }
    assert_eq!(bench.origin.bytes(), data.len() as u64);
    assert_eq!((bench.origin.gets(), bench.origin.heads()), (2, 0), "the first page, then the others");
    assert_eq!(bench.store.stats().pages_fetched, 6);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_readers_of_a_cold_object_behind_a_slow_origin_cost_one_object() {
    let bench = plenty().await;
    let data = noise(100 * MIB, 2);
    let path = bench.put("big", data.clone()).await;
    *bench.origin.latency.lock() = Duration::from_millis(100);
    let readers = (0..8).map(|_| {
        let store = bench.store.clone();
        let path = path.clone();
        let data = data.clone();
        tokio::spawn(async move { assert!(store.get(&path).await.unwrap().bytes().await.unwrap() == data) })
    });
    for read in futures::future::join_all(readers).await {
        read.unwrap();
    }
    assert_eq!(bench.origin.bytes(), data.len() as u64);
    assert!(bench.origin.gets() <= 14, "{} requests for 100 MiB", bench.origin.gets());
}

#[test]
fn a_store_outlives_the_runtime_of_its_first_reads() {
    let runtime =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let data = noise(8 * MIB, 47);
    let first = runtime();
    let (bench, path) = first.block_on(async {
        let bench = plenty().await;
        let path = bench.put("a", data.clone()).await;
        // Requests to an origin of this latency wait for others.
        *bench.origin.latency.lock() = Duration::from_millis(50);
        bench.store.get_range(&path, 0..1).await.unwrap();
        (bench, path)
    });
    let range = |page: usize| (page * MIB) as u64..(page * MIB + 1000) as u64;
    first.block_on(async {
        for page in 1..8 {
            let read = bench.store.get_range(&path, range(page));
            tokio::time::timeout(Duration::from_micros(100), read).await.ok();
        }
    });
    first.shutdown_timeout(Duration::from_secs(20));

    runtime().block_on(async {
        for page in 0..8 {
            let read =
                tokio::time::timeout(Duration::from_secs(20), bench.store.get_range(&path, range(page)));
            assert_eq!(
                read.await.unwrap().unwrap(),
                data.slice(page * MIB..page * MIB + 1000),
                "page {page}"
            );
        }
    });
}

#[tokio::test]
async fn a_second_read_asks_the_origin_nothing() {
    let bench = plenty().await;
    let data = noise(3 * MIB, 3);
    let path = bench.put("a", data.clone()).await;
    assert_eq!(bench.read(&path).await.unwrap(), data);
    let asked = (bench.origin.gets(), bench.origin.heads());
    for (start, end) in [(0, 1), (MIB - 1, MIB + 1), (7, 3 * MIB), (2 * MIB, 2 * MIB + 5)] {
        let range = bench.store.get_range(&path, start as u64..end as u64).await.unwrap();
        assert_eq!(range, data.slice(start..end));
    }
    assert_eq!((bench.origin.gets(), bench.origin.heads()), asked);
}

#[tokio::test]
async fn a_small_read_fetches_only_the_blocks_it_touches() {
    let bench = plenty().await;
    let path = bench.put("a", noise(20 * MIB, 4)).await;
    bench.store.get_range(&path, (5 * MIB) as u64..(5 * MIB + 100) as u64).await.unwrap();
    assert_eq!(*bench.origin.ranges.lock(), vec![(5 * MIB) as u64..(5 * MIB + (64 << 10)) as u64]);
}

#[tokio::test]
async fn near_ranges_share_one_request() {
    let options = CacheOptions::new(ByteSize::mib(64)).with_page_size(ByteSize::kib(64));
    let bench = bench(options, Consistency::DEFAULT, quick()).await;
    let data = noise(4 * MIB, 5);
    let path = bench.put("a", data.clone()).await;
    let ranges = [10..20, 100_000..100_010, 300_000..300_010, 3_000_000..3_000_010];
    let read = bench.store.get_ranges(&path, &ranges).await.unwrap();
    for (bytes, range) in read.iter().zip(&ranges) {
        assert_eq!(bytes, &data.slice(range.start as usize..range.end as usize));
    }
    assert_eq!(bench.origin.gets(), 2, "{:?}", bench.origin.ranges.lock());
}

#[tokio::test]
async fn a_gap_is_not_fetched_between_ranges_of_which_one_is_in_memory() {
    const BLOCK: u64 = 64 << 10;

    let bench = plenty().await;
    let data = noise(4 * MIB, 46);
    let path = bench.put("a", data.clone()).await;
    // Opens the object, far from the ranges.
    bench.store.get_range(&path, 50 * BLOCK..51 * BLOCK).await.unwrap();
    let ranges = [0, 2, 4, 6].map(|block| block * BLOCK..(block + 1) * BLOCK);
    for range in &ranges[..2] {
        bench.store.get_range(&path, range.clone()).await.unwrap();
    }
    bench.origin.ranges.lock().clear();

    bench.store.get_ranges(&path, &ranges[..2]).await.unwrap();
    assert!(bench.origin.ranges.lock().is_empty());
    let read = bench.store.get_ranges(&path, &ranges).await.unwrap();
    for (bytes, range) in read.iter().zip(&ranges) {
        assert_eq!(bytes, &data.slice(range.start as usize..range.end as usize));
    }
    let fetched = bench.origin.ranges.lock().clone();
    assert_eq!((fetched.len(), fetched.first()), (1, Some(&(4 * BLOCK..7 * BLOCK))), "for the last two");
}

#[tokio::test]
async fn a_head_of_a_file_with_a_footer_brings_its_last_blocks() {
    const BLOCK: usize = 64 << 10;

    for len in [1, BLOCK - 1, BLOCK, 2 * BLOCK, 2 * BLOCK + 1, 3 * BLOCK, MIB + 1000] {
        for name in ["a.parquet", "a.orc"] {
            let bench = plenty().await;
            let data = noise(len, len as u64);
            let path = bench.put(name, data.clone()).await;
            assert_eq!(bench.store.head(&path).await.unwrap().size, len as u64);
            nothing_in_flight(&bench).await;

            let footer = len - len % BLOCK;
            let footer = if footer == len { len - BLOCK } else { footer }..len;
            let read = bench.store.get_range(&path, footer.start as u64..footer.end as u64).await.unwrap();
            assert_eq!(read, data.slice(footer));
            assert_eq!((bench.origin.gets(), bench.origin.heads()), (1, 0), "{len} bytes");

            assert_eq!(bench.read(&path).await.unwrap(), data);
            let twice = bench.origin.bytes() - len as u64;
            assert!(twice < BLOCK as u64, "{twice} bytes were fetched twice of {len}");
        }
    }
}

#[tokio::test]
async fn a_head_is_answered_by_one_request_after_a_read_of_the_footer_and_before() {
    let bench = plenty().await;
    let data = noise(3 * MIB, 41);
    let path = bench.put("a.parquet", data.clone()).await;
    let suffix = GetOptions::new().with_range(Some(GetRange::Suffix(8)));
    let footer = bench.store.get_opts(&path, suffix).await.unwrap().bytes().await.unwrap();
    assert_eq!(footer, data.slice(data.len() - 8..));
    bench.store.head(&path).await.unwrap();
    let opened = bench.store.open_object(&path).await.unwrap();
    let range = 3_000_000..3_000_100;
    let read = opened.read(std::slice::from_ref(&range)).await.unwrap();
    assert_eq!(read, [data.slice(range.start as usize..range.end as usize)]);
    assert_eq!((bench.origin.gets(), bench.origin.heads()), (2, 0), "{:?}", bench.origin.ranges.lock());
}

#[tokio::test]
async fn a_head_stays_a_head_where_no_bytes_can_come_with_it() {
    // Not a file with a footer.
    let bench = plenty().await;
    let path = bench.put("a.csv", noise(MIB, 42)).await;
    bench.store.head(&path).await.unwrap();
    assert_eq!((bench.origin.gets(), bench.origin.heads()), (0, 1));

    // Empty: no range of it exists.
    let path = bench.put("empty.parquet", Bytes::new()).await;
    assert_eq!(bench.store.head(&path).await.unwrap().size, 0);
    assert_eq!(bench.read(&path).await.unwrap(), "");

    // The origin refuses the GET, but answers the HEAD.
    let bench = plenty().await;
    let data = noise(MIB, 43);
    let path = bench.put("a.parquet", data.clone()).await;
    bench.origin.fail_next([Fault::Refuse]);
    assert_eq!(bench.store.head(&path).await.unwrap().size, MIB as u64);
    assert_eq!((bench.origin.gets(), bench.origin.heads()), (1, 1));
    assert_eq!(bench.read(&path).await.unwrap(), data);

    let missing = bench.store.head(&"none.parquet".into()).await.unwrap_err();
    assert!(matches!(missing, object_store::Error::NotFound { .. }), "{missing}");
}

#[tokio::test]
async fn heads_of_many_files_without_reads_do_not_fetch_their_ends() {
    let bench = plenty().await;
    let data = noise(200_000, 47);
    for i in 0..500 {
        let path = bench.put(&format!("{i}.parquet"), data.clone()).await;
        bench.store.head(&path).await.unwrap();
    }
    let (gets, heads) = (bench.origin.gets(), bench.origin.heads());
    assert!(gets < 100 && gets + heads == 500, "{gets} GETs, {heads} HEADs");

    // Footers that are read make it worthwhile again.
    for i in 0..10 {
        bench.store.get_range(&format!("{i}.parquet").into(), 199_992..200_000).await.unwrap();
    }
    let path = bench.put("another.parquet", data).await;
    bench.store.head(&path).await.unwrap();
    assert_eq!(bench.origin.heads(), heads);
}

#[tokio::test]
async fn last_blocks_that_break_off_are_requested_again() {
    for fault in [Fault::BreakAfter(70_000), Fault::TruncateAfter(3), Fault::Overrun(10)] {
        let bench = plenty().await;
        let data = noise(MIB + 1000, 44);
        let path = bench.put("a.parquet", data.clone()).await;
        bench.origin.fail_next([fault]);
        assert_eq!(bench.store.head(&path).await.unwrap().size, data.len() as u64);
        nothing_in_flight(&bench).await;
        assert_eq!(bench.read(&path).await.unwrap(), data, "{fault:?}");
    }
}

/// Files of row groups of eight chunks of 256 KiB. The footer of four bytes is the number of row groups.
#[derive(Debug)]
struct EightColumns;

const CHUNK: u64 = 256 << 10;

impl ColumnLayout for EightColumns {
    fn extension(&self) -> &'static str {
        "parquet"
    }

    fn end_len(&self) -> u64 {
        4
    }

    fn footer_len(&self, end: &[u8]) -> Option<u64> {
        (end[3] == 0).then_some(4)
    }

    fn chunks(&self, footer: &[u8]) -> Option<Vec<Vec<Range<u64>>>> {
        let groups = u64::from(u32::from_le_bytes(footer.try_into().ok()?));
        Some((0..groups).map(|group| (0..8).map(|column| chunk(group, column)).collect()).collect())
    }
}

fn chunk(group: u64, column: u64) -> Range<u64> {
    let start = (8 * group + column) * CHUNK;
    start..start + CHUNK
}

/// Creates a file of `groups` row groups.
fn columnar_file(groups: u32) -> Bytes {
    [&noise((u64::from(groups) * 8 * CHUNK) as usize, 45)[..], &groups.to_le_bytes()].concat().into()
}

async fn columnar_bench(memory: ByteSize, read_ahead: ByteSize) -> Bench {
    let layout: Option<Arc<dyn ColumnLayout>> = Some(Arc::new(EightColumns));
    bench(CacheOptions::new(memory), Consistency::DEFAULT, ReadOptions { layout, read_ahead, ..quick() })
        .await
}

/// Reads columns of row groups of a file one by one, after its footer, and checks the bytes.
async fn read_columns(bench: &Bench, data: &Bytes, path: &Path, groups: Range<u64>, columns: &[u64]) {
    for group in groups {
        for column in columns {
            let range = chunk(group, *column);
            let read = bench.store.get_range(path, range.clone()).await.unwrap();
            assert!(
                read == data.slice(range.start as usize..range.end as usize),
                "group {group}, column {column}"
            );
        }
    }
}

async fn read_footer(bench: &Bench, path: &Path) {
    let suffix = GetOptions::new().with_range(Some(GetRange::Suffix(4)));
    bench.store.get_opts(path, suffix).await.unwrap().bytes().await.unwrap();
}

#[tokio::test]
async fn the_columns_of_the_next_row_group_are_fetched_together() {
    let bench = columnar_bench(ByteSize::mib(256), ByteSize::mib(32)).await;
    let data = columnar_file(12);
    let path = bench.put("a.parquet", data.clone()).await;
    read_footer(&bench, &path).await;
    read_columns(&bench, &data, &path, 0..1, &[1, 6, 2]).await;
    nothing_in_flight(&bench).await;
    assert_eq!(bench.origin.gets(), 4, "footer and columns: {:?}", bench.origin.ranges.lock());

    read_columns(&bench, &data, &path, 1..12, &[1, 6, 2]).await;
    nothing_in_flight(&bench).await;
    // One request for the adjacent chunks, one for the other.
    assert_eq!(bench.origin.gets(), 4 + 11 * 2, "{:?}", bench.origin.ranges.lock());
    let read = 12 * 3 * CHUNK;
    assert!(bench.origin.bytes() <= read + (192 << 10), "{} for {read}", bench.origin.bytes());

    // All of them are found in memory then.
    read_columns(&bench, &data, &path, 0..12, &[1, 6, 2]).await;
    assert_eq!(bench.origin.gets(), 4 + 11 * 2);
}

#[tokio::test]
async fn row_groups_that_follow_are_fetched_ahead_of_a_reader_that_skips_none() {
    let bench = columnar_bench(ByteSize::mib(256), ByteSize::mib(32)).await;
    let data = columnar_file(12);
    let path = bench.put("a.parquet", data.clone()).await;
    read_footer(&bench, &path).await;
    read_columns(&bench, &data, &path, 0..2, &[1, 6]).await;
    nothing_in_flight(&bench).await;
    assert_eq!(bench.origin.gets(), 5, "{:?}", bench.origin.ranges.lock());

    read_columns(&bench, &data, &path, 2..4, &[1, 6]).await;
    nothing_in_flight(&bench).await;
    assert_eq!(bench.origin.gets(), 5 + 4 * 2, "two more row groups: {:?}", bench.origin.ranges.lock());
    assert_eq!(bench.cache.stats().ahead_used, 4 * CHUNK);

    // Chunks in memory are not fetched ahead again, however often they are read.
    read_columns(&bench, &data, &path, 4..12, &[1, 6]).await;
    nothing_in_flight(&bench).await;
    assert_eq!(bench.origin.gets(), 5 + 10 * 2);
    for _ in 0..2 {
        read_columns(&bench, &data, &path, 0..12, &[1, 6]).await;
        assert_eq!((bench.origin.gets(), bench.cache.stats().ahead_used), (5 + 10 * 2, 0));
    }
}

#[tokio::test]
async fn row_groups_read_at_once_announce_those_that_follow() {
    let bench = columnar_bench(ByteSize::mib(256), ByteSize::mib(32)).await;
    let data = columnar_file(12);
    let path = bench.put("a.parquet", data.clone()).await;
    *bench.origin.latency.lock() = Duration::from_millis(50);
    read_footer(&bench, &path).await;
    let reads = [2, 0, 3, 1].map(|group| read_columns(&bench, &data, &path, group..group + 1, &[4]));
    futures::future::join_all(reads).await;
    nothing_in_flight(&bench).await;

    let before = bench.origin.gets();
    read_columns(&bench, &data, &path, 4..6, &[4]).await;
    nothing_in_flight(&bench).await;
    let asked = bench.origin.gets() - before;
    assert_eq!(asked, 3, "for row groups 6 to 8: {:?}", bench.origin.ranges.lock());
}

#[tokio::test]
async fn columns_are_not_predicted_without_read_ahead_or_footer() {
    for (read_ahead, has_footer) in [(ByteSize::bytes(0), true), (ByteSize::mib(32), false)] {
        let bench = columnar_bench(ByteSize::mib(256), read_ahead).await;
        let data = columnar_file(6);
        let path = bench.put("a.parquet", data.clone()).await;
        if has_footer {
            read_footer(&bench, &path).await;
        }
        let before = bench.origin.gets();
        read_columns(&bench, &data, &path, 0..6, &[1, 6]).await;
        nothing_in_flight(&bench).await;
        assert_eq!(bench.origin.gets() - before, 12, "{:?}", bench.origin.ranges.lock());
    }
}

#[tokio::test]
async fn predicted_columns_never_exceed_a_small_memory_and_are_released() {
    let bench = columnar_bench(ByteSize::mib(4), ByteSize::mib(32)).await;
    let data = columnar_file(40);
    let path = bench.put("a.parquet", data.clone()).await;
    read_footer(&bench, &path).await;
    read_columns(&bench, &data, &path, 0..20, &[0, 2, 4, 6, 7]).await;
    // The reader turns to one column: the others were fetched in vain for a while.
    read_columns(&bench, &data, &path, 20..40, &[0]).await;
    nothing_in_flight(&bench).await;
    assert!(bench.cache.budget().used() <= 4 << 20);
    let read = (20 * 5 + 20) * CHUNK;
    assert!(bench.origin.bytes() < 2 * read, "{} for {read}", bench.origin.bytes());
}

#[tokio::test]
async fn a_file_with_a_footer_of_another_kind_is_read_as_before() {
    let bench = columnar_bench(ByteSize::mib(64), ByteSize::mib(32)).await;
    let data = noise(8 << 20, 46);
    let path = bench.put("a.parquet", data.clone()).await;
    read_footer(&bench, &path).await;
    read_columns(&bench, &data, &path, 0..4, &[1, 6]).await;
    assert_eq!(bench.origin.gets(), 9);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_readers_of_columns_get_their_bytes() {
    let bench = columnar_bench(ByteSize::mib(16), ByteSize::mib(32)).await;
    let data = columnar_file(24);
    let path = bench.put("a.parquet", data.clone()).await;
    *bench.origin.latency.lock() = Duration::from_millis(2);
    read_footer(&bench, &path).await;
    let readers = (0..4).map(|reader| {
        let (bench, data, path) = (&bench, &data, &path);
        async move {
            for group in (reader..24).step_by(4) {
                read_columns(bench, data, path, group..group + 1, &[1, 2, 7 - reader % 3]).await;
            }
        }
    });
    futures::future::join_all(readers).await;
    nothing_in_flight(&bench).await;
}

#[tokio::test]
async fn the_first_bytes_leave_before_the_last_have_come() {
    let bench = plenty().await;
    let path = bench.put("a", noise(MIB, 6)).await;
    *bench.origin.pace.lock() = Duration::from_millis(20);
    let started = std::time::Instant::now();
    let mut stream = bench.store.get(&path).await.unwrap().into_stream();
    stream.next().await.unwrap().unwrap();
    let first = started.elapsed();
    while let Some(chunk) = stream.next().await {
        chunk.unwrap();
    }
    assert!(first * 3 < started.elapsed(), "{first:?} of {:?}", started.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_reader_does_not_cancel_the_fetch_of_others() {
    let bench = plenty().await;
    let data = noise(2 * MIB, 7);
    let path = bench.put("a", data.clone()).await;
    *bench.origin.latency.lock() = Duration::from_millis(50);
    let read = || {
        let store = bench.store.clone();
        let path = path.clone();
        tokio::spawn(async move { store.get(&path).await.unwrap().bytes().await.unwrap() })
    };
    *bench.origin.pace.lock() = Duration::from_millis(5);
    // The first reader starts the request, and is dropped before its response arrives, or while the bytes arrive.
    for wait in [10, 90] {
        bench.store.invalidate(&path);
        let first = read();
        let second = read();
        tokio::time::sleep(Duration::from_millis(wait)).await;
        first.abort();
        assert_eq!(second.await.unwrap(), data);
    }
    assert_eq!((bench.origin.gets(), bench.origin.heads()), (4, 0), "two pages, twice");
}

#[tokio::test]
async fn a_fetch_without_readers_still_fills_the_cache() {
    let bench = plenty().await;
    let data = noise(MIB, 8);
    let path = bench.put("a", data.clone()).await;
    bench.store.head(&path).await.unwrap();
    *bench.origin.latency.lock() = Duration::from_millis(30);
    let cancelled = tokio::time::timeout(Duration::from_millis(5), bench.read(&path)).await;
    assert!(cancelled.is_err());
    let is_filled = async || bench.cache.stats().memory_pages == 1 && bench.store.stats().in_flight == 0;
    eventually("the page to be cached", is_filled).await;
    assert_eq!(bench.read(&path).await.unwrap(), data);
    assert_eq!(bench.origin.gets(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_origin_error_reaches_all_waiters_and_the_next_ask_succeeds() {
    let bench = plenty().await;
    let data = noise(MIB, 9);
    let path = bench.put("a", data.clone()).await;
    bench.store.head(&path).await.unwrap();
    *bench.origin.latency.lock() = Duration::from_millis(20);
    bench.origin.fail_next([Fault::Refuse; 3]);
    let readers = (0..10).map(|_| {
        let store = bench.store.clone();
        let path = path.clone();
        tokio::spawn(async move { store.get_range(&path, 0..10).await })
    });
    for read in futures::future::join_all(readers).await {
        assert!(read.unwrap().unwrap_err().to_string().contains("injected failure"));
    }
    assert_eq!(bench.origin.gets(), 3, "one fetch, three attempts");
    assert_eq!(bench.read(&path).await.unwrap(), data);
}

#[tokio::test]
async fn a_passing_failure_is_not_seen_by_the_reader() {
    for fault in
        [Fault::Refuse, Fault::BreakAfter(0), Fault::BreakAfter(1_500_000), Fault::TruncateAfter(700_000)]
    {
        let bench = plenty().await;
        let data = noise(3 * MIB, 10);
        let path = bench.put("a", data.clone()).await;
        bench.origin.fail_next([fault, fault]);
        assert_eq!(bench.read(&path).await.unwrap(), data, "{fault:?}");
        // A first request that is refused is followed by a HEAD, which does not count as a retry.
        assert!(bench.store.stats().retries >= 1, "{fault:?}");
        assert_eq!(bench.read(&path).await.unwrap(), data, "{fault:?} from the cache");
    }
}

#[tokio::test]
async fn a_truncated_or_overlong_answer_is_an_error_and_not_cached() {
    for fault in [Fault::TruncateAfter(1000), Fault::TruncateAfter(0), Fault::Overrun(5)] {
        let bench = plenty().await;
        let data = noise(MIB, 11);
        let path = bench.put("a", data.clone()).await;
        bench.origin.fail_next([fault; 12]);
        // A reader may have received all its bytes before the origin sent too many.
        let read = bench.read(&path).await;
        assert!(read.is_err() || (fault == Fault::Overrun(5) && read.unwrap() == data), "{fault:?}");
        nothing_in_flight(&bench).await;
        bench.origin.faults.lock().clear();
        assert_eq!(bench.cache.stats().memory_pages, 0);
        assert_eq!(bench.read(&path).await.unwrap(), data);
    }
}

#[tokio::test]
async fn an_object_replaced_by_one_of_the_same_size_is_never_mixed() {
    for ignore_conditions in [false, true] {
        let bench = plenty().await;
        bench.origin.ignore_conditions.store(ignore_conditions, Ordering::SeqCst);
        let old = noise(40 * MIB, 12);
        let new = noise(40 * MIB, 13);
        let path = bench.put("a", old.clone()).await;
        *bench.origin.pace.lock() = Duration::from_micros(100);
        let mut stream = bench.store.get(&path).await.unwrap().into_stream();
        let mut read = stream.next().await.unwrap().unwrap().to_vec();
        bench.put("a", new.clone()).await;
        let error = loop {
            match stream.next().await {
                Some(Ok(chunk)) => read.extend_from_slice(&chunk),
                Some(Err(error)) => break Some(error),
                None => break None,
            }
        };
        assert!(old.starts_with(&read), "what was read is of the old version");
        let error = error.expect("the old version is gone, so the read cannot end well");
        assert!(error.to_string().contains("changed during read"), "{error}");
        assert_eq!(bench.read(&path).await.unwrap(), new, "the next read is of the new version");
    }
}

#[tokio::test]
async fn a_replaced_object_is_opened_anew_before_its_first_byte_is_handed_out() {
    let bench = plenty().await;
    let path = bench.put("a", noise(MIB, 14)).await;
    bench.store.head(&path).await.unwrap();
    let new = noise(MIB + 5, 15);
    bench.put("a", new.clone()).await;
    let result = bench.store.get(&path).await.unwrap();
    assert_eq!(result.meta.size, new.len() as u64);
    assert_eq!(result.bytes().await.unwrap(), new);
}

#[tokio::test]
async fn an_object_is_stale_no_longer_than_its_rule_allows() {
    let cases = [
        (Consistency::Strict, Duration::ZERO, true),
        (Consistency::Ttl(Duration::from_millis(50)), Duration::from_millis(80), true),
        (Consistency::Ttl(Duration::from_secs(60)), Duration::ZERO, false),
        (Consistency::Immutable, Duration::from_millis(80), false),
    ];
    for (consistency, wait, sees_new) in cases {
        let bench = bench(CacheOptions::new(ByteSize::mib(64)), consistency, quick()).await;
        let old = noise(1000, 16);
        let new = noise(1000, 17);
        let path = bench.put("a", old.clone()).await;
        assert_eq!(bench.read(&path).await.unwrap(), old);
        bench.put("a", new.clone()).await;
        tokio::time::sleep(wait).await;
        assert_eq!(bench.read(&path).await.unwrap(), if sees_new { new } else { old }, "{consistency}");
    }
}

#[tokio::test]
async fn what_is_written_through_is_read_at_once_under_every_rule() {
    for consistency in [Consistency::Strict, Consistency::DEFAULT, Consistency::Immutable] {
        let bench = bench(CacheOptions::new(ByteSize::mib(64)), consistency, quick()).await;
        let path = bench.put("a", noise(1000, 18)).await;
        bench.read(&path).await.unwrap();
        let new = noise(1000, 19);
        bench.store.put(&path, PutPayload::from(new.clone())).await.unwrap();
        assert_eq!(bench.read(&path).await.unwrap(), new);
        let other = noise(1000, 20);
        let source = bench.put("b", other.clone()).await;
        bench.store.copy(&source, &path).await.unwrap();
        assert_eq!(bench.read(&path).await.unwrap(), other);
        bench.store.delete(&path).await.unwrap();
        assert!(matches!(bench.read(&path).await, Err(object_store::Error::NotFound { .. })));
    }
}

#[tokio::test]
async fn a_weak_or_missing_etag_is_never_cached() {
    for weak in [true, false] {
        let bench = plenty().await;
        let flag = if weak { &bench.origin.weak } else { &bench.origin.no_etag };
        flag.store(true, Ordering::SeqCst);
        let path = bench.put("a", noise(MIB, 21)).await;
        for seed in [22, 23] {
            let data = noise(MIB, seed);
            bench.put("a", data.clone()).await;
            assert_eq!(bench.read(&path).await.unwrap(), data);
            assert_eq!(bench.store.get_range(&path, 5..9).await.unwrap(), data.slice(5..9));
            assert_eq!(bench.store.get_ranges(&path, &[1..2, 7..9]).await.unwrap()[1], data.slice(7..9));
        }
        assert_eq!(bench.cache.stats().inserts, 0);
        bench.origin.fail_next([Fault::TruncateAfter(10)]);
        assert!(bench.read(&path).await.is_err(), "a short answer is an error here too");
    }
}

#[tokio::test]
async fn an_object_below_a_prefix_has_one_path_and_one_version_in_requests_and_listings() {
    let folder = tempfile::tempdir().unwrap();
    let memory = Arc::new(InMemory::new());
    let disk = CacheOptions::new(ByteSize::mib(64)).with_disk(folder.path(), ByteSize::mib(64));
    let open = async || {
        let cache = PageCache::open(disk.clone()).await.unwrap();
        let origin = Origin::new("below a prefix", Arc::new(PrefixStore::new(memory.clone(), "dir")));
        let rules = ConsistencyRules::new(Consistency::DEFAULT);
        (ReadThrough::new(origin, cache.clone(), rules, quick()), cache)
    };
    memory.put(&Path::from("dir/a"), noise(3 * MIB, 50).into()).await.unwrap();
    let path = Path::from("a");

    let (store, cache) = open().await;
    assert_eq!(store.open_object(&path).await.unwrap().meta().location, path);
    let read = store.get(&path).await.unwrap();
    assert_eq!(read.meta.location, path);
    assert_eq!(read.bytes().await.unwrap(), noise(3 * MIB, 50));
    cache.close().await.unwrap();
    drop((store, cache));

    // Nothing is known about the object but what the listing says.
    let (store, _cache) = open().await;
    assert_eq!(store.evict("").await.unwrap(), 1);
}

#[tokio::test]
async fn a_read_past_the_cache_is_continued_where_it_broke_off() {
    let bench = bench(CacheOptions::new(ByteSize::ZERO), Consistency::DEFAULT, quick()).await;
    let data = noise(9 * MIB, 51);
    let path = bench.put("a", data.clone()).await;
    bench.store.head(&path).await.unwrap();
    bench.origin.fail_next([Fault::BreakAfter(3 * MIB as u64)]);
    assert_eq!(bench.read(&path).await.unwrap(), data);
}

#[tokio::test]
async fn a_read_past_the_cache_fails_if_the_origin_stalls() {
    for weak in [true, false] {
        let mut options = quick();
        options.requests.deadline = Duration::from_millis(100);
        let memory = if weak { ByteSize::mib(64) } else { ByteSize::ZERO };
        let bench = bench(CacheOptions::new(memory), Consistency::DEFAULT, options).await;
        bench.origin.weak.store(weak, Ordering::SeqCst);
        let path = bench.put("a", noise(MIB, 52)).await;
        *bench.origin.pace.lock() = Duration::from_secs(3600);
        let error = bench.read(&path).await.unwrap_err().to_string();
        assert!(error.contains("did not answer within 100 ms"), "{error}");
    }
}

#[tokio::test]
async fn a_deleted_object_that_was_put_again_stays_cached_when_the_deletions_end() {
    let bench = plenty().await;
    let a = bench.put("a", noise(1_000, 53)).await;
    let b = bench.put("b", noise(1_000, 54)).await;
    let mut deleted = bench.store.delete_stream(futures::stream::iter([Ok(a.clone()), Ok(b)]).boxed());
    assert_eq!(deleted.next().await.unwrap().unwrap(), a);
    bench.put("a", noise(1_000, 55)).await;
    bench.read(&a).await.unwrap();
    let gets = bench.origin.gets();
    while let Some(path) = deleted.next().await {
        path.unwrap();
    }
    drop(deleted);
    assert_eq!(bench.read(&a).await.unwrap(), noise(1_000, 55));
    assert_eq!(bench.origin.gets(), gets);
}

#[test]
fn a_lookup_that_never_ran_is_asked_again() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    let (bench, path) = first.block_on(async {
        let bench = plenty().await;
        let path = bench.put("a", noise(10, 56)).await;
        (bench, path)
    });
    // The lookup is spawned, and the runtime ends before it runs.
    let polled = first.block_on(async { futures::poll!(Box::pin(bench.store.head(&path))).is_pending() });
    assert!(polled);
    drop(first);
    runtime().block_on(async { bench.store.head(&path).await.unwrap() });
}

#[tokio::test]
async fn a_budget_of_nothing_still_answers_every_request() {
    for memory in [ByteSize::ZERO, ByteSize::kib(60)] {
        let bench = bench(CacheOptions::new(memory), Consistency::DEFAULT, quick()).await;
        let data = noise(9 * MIB + 5, 24);
        let path = bench.put("a", data.clone()).await;
        for _ in 0..2 {
            assert_eq!(bench.read(&path).await.unwrap(), data);
            assert_eq!(
                bench.store.get_range(&path, 100..2_000_000).await.unwrap(),
                data.slice(100..2_000_000)
            );
        }
        assert_eq!(bench.cache.stats().memory_used, 0);
        assert!(bench.store.stats().bytes_passed_through > 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_budget_smaller_than_the_object_streams_it_whole_to_many_readers() {
    let bench = bench(CacheOptions::new(ByteSize::mib(12)), Consistency::DEFAULT, quick()).await;
    let data = noise(60 * MIB, 25);
    let path = bench.put("a", data.clone()).await;
    let readers = (0..6).map(|_| {
        let store = bench.store.clone();
        let path = path.clone();
        let data = data.clone();
        tokio::spawn(async move { assert!(store.get(&path).await.unwrap().bytes().await.unwrap() == data) })
    });
    for read in futures::future::join_all(readers).await {
        read.unwrap();
    }
    let stats = bench.cache.stats();
    assert!(stats.memory_used <= stats.memory_capacity && stats.in_flight_used == 0, "{stats:?}");
}

#[tokio::test]
async fn read_ahead_grows_while_a_reader_goes_on_and_stops_when_it_does_not() {
    let options = CacheOptions::new(ByteSize::mib(256)).with_page_size(ByteSize::kib(64));
    let bench = bench(options, Consistency::DEFAULT, quick()).await;
    let data = noise(64 * MIB, 26);
    let path = bench.put("a", data.clone()).await;
    let step = 256 << 10;
    for start in (0..8 * MIB).step_by(step) {
        let read = bench.store.get_range(&path, start as u64..(start + step) as u64).await.unwrap();
        assert_eq!(read, data.slice(start..start + step));
        nothing_in_flight(&bench).await;
    }
    let gets = bench.origin.gets();
    let bytes = bench.origin.bytes();
    assert!(gets < 16, "32 reads in {gets} requests: {:?}", bench.origin.ranges.lock());
    assert!(bytes <= (8 * MIB + 33 * MIB) as u64, "no more than the largest window ahead: {bytes}");
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(bench.origin.bytes(), bytes, "the reader stopped, and so did the read-ahead");
}

#[tokio::test]
async fn a_reader_of_what_is_cached_fetches_nothing_ahead() {
    let bench = plenty().await;
    let path = bench.put("a", noise(16 * MIB, 31)).await;
    bench.store.get_range(&path, 0..MIB as u64).await.unwrap();
    let bytes = bench.origin.bytes();

    let step = 256 << 10;
    for start in (0..MIB).step_by(step) {
        bench.store.get_range(&path, start as u64..(start + step) as u64).await.unwrap();
    }
    nothing_in_flight(&bench).await;
    assert_eq!(bench.origin.bytes(), bytes, "{:?}", bench.origin.ranges.lock());
}

#[tokio::test]
async fn random_reads_are_not_read_ahead() {
    let bench = plenty().await;
    let path = bench.put("a", noise(64 * MIB, 27)).await;
    for page in [40, 3, 21, 55, 10, 33] {
        let start = (page * MIB) as u64;
        bench.store.get_range(&path, start..start + 10).await.unwrap();
    }
    nothing_in_flight(&bench).await;
    assert_eq!(bench.origin.bytes(), 6 * (64 << 10), "one block each");
}

#[tokio::test]
async fn a_reader_that_goes_away_stops_the_fetching() {
    let bench = plenty().await;
    let path = bench.put("a", noise(200 * MIB, 28)).await;
    let mut stream = bench.store.get(&path).await.unwrap().into_stream();
    stream.next().await.unwrap().unwrap();
    drop(stream);
    nothing_in_flight(&bench).await;
    assert!(bench.origin.bytes() <= 64 << 20, "{}", bench.origin.bytes());
}

#[tokio::test]
async fn conditions_are_answered_from_what_is_known_and_asked_again_before_a_refusal() {
    let bench = plenty().await;
    let path = bench.put("a", noise(10, 29)).await;
    let old = bench.store.head(&path).await.unwrap().e_tag.unwrap();
    let get = |options: GetOptions| bench.store.get_opts(&path, options);
    let same = get(GetOptions { if_none_match: Some(old.clone()), ..GetOptions::default() }).await;
    assert!(matches!(same, Err(object_store::Error::NotModified { .. })));
    assert_eq!(bench.origin.heads(), 1);

    // Another client replaced the object, and this client already knows the new ETag.
    let data = noise(10, 30);
    bench.put("a", data.clone()).await;
    let new = bench.origin.memory.head(&path).await.unwrap().e_tag.unwrap();
    let read = get(GetOptions { if_match: Some(new), ..GetOptions::default() }).await.unwrap();
    assert_eq!(read.bytes().await.unwrap(), data);
    let gone = get(GetOptions { if_match: Some(old), ..GetOptions::default() }).await;
    assert!(matches!(gone, Err(object_store::Error::Precondition { .. })));
}

#[tokio::test]
async fn an_origin_that_never_answers_is_given_up_at_the_deadline() {
    let mut options = quick();
    options.requests.deadline = Duration::from_millis(100);
    let bench = bench(CacheOptions::new(ByteSize::mib(64)), Consistency::DEFAULT, options).await;
    let path = bench.put("a", noise(10, 31)).await;
    *bench.origin.latency.lock() = Duration::from_secs(3600);
    let error = bench.read(&path).await.unwrap_err();
    assert!(error.to_string().contains("did not answer within 100 ms"), "{error}");
}

#[tokio::test]
async fn a_slow_origin_that_goes_on_is_not_given_up() {
    let mut options = quick();
    options.requests.deadline = Duration::from_millis(60);
    let bench = bench(CacheOptions::new(ByteSize::mib(64)), Consistency::DEFAULT, options).await;
    let data = noise(MIB, 32);
    let path = bench.put("a", data.clone()).await;
    *bench.origin.pace.lock() = Duration::from_millis(15);
    assert_eq!(bench.read(&path).await.unwrap(), data, "240 ms in steps of 15");
}

#[tokio::test]
async fn warming_loads_and_evicting_drops() {
    let bench = plenty().await;
    let one = noise(2 * MIB, 33);
    let two = noise(MIB, 34);
    let first = bench.put("x/a", one.clone()).await;
    bench.put("x/ab", two.clone()).await;
    bench.put("y", Bytes::from_static(b"other")).await;
    for path in ["x/a", "x/ab", "y"] {
        bench.store.warm(&path.into()).await.unwrap();
    }
    assert_eq!(bench.cache.stats().memory_pages, 4);
    let gets = bench.origin.gets();
    assert_eq!(bench.read(&first).await.unwrap(), one);
    assert_eq!(bench.origin.gets(), gets);
    assert_eq!(bench.store.evict("x/a").await.unwrap(), 2);
    assert_eq!(bench.cache.stats().memory_pages, 1);
    assert_eq!(bench.read(&first).await.unwrap(), one);
    assert_eq!(bench.origin.gets(), gets + 2, "the first page, then the second");
}

/// The GET that opens a cold object is answered late, with the version that was current when it was sent. Readers
/// that ask later, before or after that answer, see the newer version.
#[tokio::test(start_paused = true)]
async fn strict_reads_do_not_go_back_when_a_head_overtakes_the_opening_get() {
    let bench = bench(CacheOptions::new(ByteSize::mib(64)), Consistency::Strict, quick()).await;
    let before = noise(100_000, 1);
    let path = bench.put("object", before.clone()).await;
    bench.origin.lags.lock().push_back(Duration::from_secs(2));
    let store = bench.store.clone();
    let opened = path.clone();
    let opening = tokio::spawn(async move { store.get(&opened).await.unwrap().bytes().await.unwrap() });
    tokio::time::sleep(Duration::from_millis(50)).await;

    let after = noise(100_000, 2);
    bench.put("object", after.clone()).await;
    let current = bench.origin.memory.head(&path).await.unwrap().e_tag;
    let check = async || {
        assert_eq!(bench.store.head(&path).await.unwrap().e_tag, current);
        assert!(bench.read(&path).await.unwrap() == after);
    };
    check().await;
    assert!(!opening.is_finished() && bench.origin.heads() >= 1);
    let read = opening.await.unwrap();
    assert!(read == before || read == after, "bytes of one version");
    check().await;
}

#[tokio::test]
async fn a_slow_request_is_hedged_when_asked_for() {
    let mut options = quick();
    options.requests.hedge = Some(0.9);
    let bench = bench(CacheOptions::new(ByteSize::mib(64)), Consistency::Immutable, options).await;
    for i in 0..40u64 {
        let path = bench.put(&format!("w/{i}"), noise(10, i)).await;
        bench.read(&path).await.unwrap();
    }
    let path = bench.put("slow", noise(10, 99)).await;
    bench.store.head(&path).await.unwrap();
    *bench.origin.latency.lock() = Duration::from_millis(300);
    let calm = async {
        tokio::time::sleep(Duration::from_millis(3)).await;
        *bench.origin.latency.lock() = Duration::ZERO;
    };
    let started = std::time::Instant::now();
    let (read, ()) = tokio::join!(bench.read(&path), calm);
    read.unwrap();
    assert!(started.elapsed() < Duration::from_millis(200), "{:?}", started.elapsed());
    assert_eq!(bench.store.stats().hedges, 1);
}

#[tokio::test]
async fn every_small_read_at_every_boundary_is_right() {
    let options = CacheOptions::new(ByteSize::mib(8)).with_page_size(ByteSize::kib(4));
    let Bench { store, origin, .. } = bench(options, Consistency::DEFAULT, quick()).await;
    for size in [0usize, 1, 4095, 4096, 4097, 8192, 20_000] {
        let data = noise(size, 40 + size as u64);
        let path = object_store::path::Path::from(format!("s{size}"));
        origin.memory.put(&path, data.clone().into()).await.unwrap();
        assert_eq!(store.get(&path).await.unwrap().bytes().await.unwrap(), data);
        let edges: Vec<usize> = [0, 1, 4095, 4096, 4097, 8191, 8192, size.saturating_sub(1), size]
            .into_iter()
            .filter(|edge| *edge <= size)
            .collect();
        for &start in &edges {
            for &end in edges.iter().filter(|end| **end > start) {
                let read = store.get_range(&path, start as u64..end as u64).await.unwrap();
                assert_eq!(read, data.slice(start..end), "{start}..{end} of {size}");
            }
        }
        assert!(store.get_range(&path, size as u64 + 1..size as u64 + 2).await.is_err());
    }
}
