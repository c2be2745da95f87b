//! Nodes that read from each other: each page comes from the origin once, and no fault of a peer reaches a reader.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod cluster;
mod support;

use std::time::Duration;

use bytes::Bytes;
use cluster::{AnswerFault, Asked, Cluster, id, in_a_minute};
use futures::{StreamExt, future::join_all};
use object_store::{ObjectStoreExt, path::Path};
use stylobate_storage::{ByteSize, CacheOptions, Consistency, PeerError, PeerFault, PeerRead, PeerRole};
use support::{eventually::eventually, noise};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
const STRIPE: u64 = 1 << 20;
const BLOCK: usize = 64 * KIB;

fn memory(bytes: ByteSize) -> CacheOptions {
    CacheOptions::new(bytes).with_page_size(ByteSize::kib(64))
}

async fn three() -> Cluster {
    Cluster::start([(); 3].map(|()| memory(ByteSize::mib(64))), STRIPE, Consistency::DEFAULT).await
}

/// An object of one stripe, and the nodes in rank order for it.
struct OneStripe {
    path: Path,
    data: Bytes,
    home: usize,
    deputy: usize,
    other: usize,
}

impl OneStripe {
    /// Puts the object, and makes its version known to the node that has no role for it.
    async fn put(cluster: &Cluster) -> Self {
        let data = noise(MIB, 1);
        let path = cluster.put("stripe", data.clone()).await;
        let home = cluster.network.home(&path, 0);
        let this = Self { path, data, home, deputy: (home + 1) % 3, other: (home + 2) % 3 };
        cluster.nodes[this.other].store.head(&this.path).await.unwrap();
        this
    }

    async fn check(&self, cluster: &Cluster) {
        assert!(cluster.read(self.other, &self.path).await.unwrap() == self.data);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_page_comes_from_the_origin_once_per_cluster() {
    let cluster = three().await;
    let data = noise(5 * MIB + 12_345, 1);
    let path = cluster.put("object", data.clone()).await;
    for node in [0, 1, 2, 0] {
        assert!(cluster.read(node, &path).await.unwrap() == data, "{node}");
    }
    assert_eq!(cluster.origin.bytes(), data.len() as u64);
    cluster.check_sent_once();

    let stats = [0, 1, 2].map(|node: usize| cluster.nodes[node].store.stats());
    assert!(stats.iter().all(|stats| stats.bytes_peer > 0 && stats.bytes_to_peers > 0));
    assert_eq!(cluster.network.take_suspects(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_of_a_cold_object_through_all_nodes_cost_one_object() {
    let cluster = three().await;
    let data = noise(8 * MIB, 2);
    let path = cluster.put("object", data.clone()).await;
    *cluster.origin.latency.lock() = Duration::from_millis(20);
    let readers = (0..12).map(|reader| {
        let store = cluster.nodes[reader % 3].store.clone();
        let path = path.clone();
        let data = data.clone();
        tokio::spawn(async move { assert!(store.get(&path).await.unwrap().bytes().await.unwrap() == data) })
    });
    for read in join_all(readers).await {
        read.unwrap();
    }
    assert_eq!(cluster.origin.bytes(), data.len() as u64);
}

#[tokio::test]
async fn the_rest_of_an_answer_that_breaks_off_comes_from_the_deputy() {
    let cluster = three().await;
    let object = OneStripe::put(&cluster).await;
    cluster.network.spoil([AnswerFault::Break(3)]);
    object.check(&cluster).await;

    let OneStripe { home, deputy, other, .. } = object;
    let asked = [
        Asked { from: other, to: home, role: PeerRole::Home },
        Asked { from: other, to: deputy, role: PeerRole::Deputy },
        Asked { from: deputy, to: home, role: PeerRole::Home },
    ];
    assert_eq!(cluster.network.take_asked(), asked);
    let fault = PeerFault::Failed { reason: "connection reset".to_owned() };
    assert_eq!(cluster.network.take_suspects(), [(other, home, fault)]);
    assert_eq!(cluster.origin.bytes(), object.data.len() as u64);
}

#[tokio::test]
async fn a_home_that_is_down_costs_no_second_fetch() {
    let cluster = three().await;
    let object = OneStripe::put(&cluster).await;
    cluster.network.set_store(object.home, None);
    object.check(&cluster).await;
    assert_eq!(cluster.origin.bytes(), object.data.len() as u64, "by the deputy");
    assert_eq!(cluster.nodes[object.other].store.stats().bytes_origin, 0);
}

#[tokio::test]
async fn a_node_whose_peers_are_all_down_reads_from_the_origin() {
    let cluster = three().await;
    let data = noise(5 * MIB, 3);
    let path = cluster.put("object", data.clone()).await;
    cluster.network.set_store(1, None);
    cluster.network.set_store(2, None);
    for _ in 0..2 {
        assert!(cluster.read(0, &path).await.unwrap() == data);
    }
    assert_eq!(cluster.origin.bytes(), data.len() as u64);
}

#[tokio::test(start_paused = true)]
async fn a_wrong_short_or_late_answer_is_a_miss_and_makes_the_peer_suspect() {
    let late = PeerFault::Late(Duration::from_secs(5));
    for (fault, suspected) in [
        (AnswerFault::Flip(0), PeerFault::WrongBytes),
        (AnswerFault::Flip(5), PeerFault::WrongBytes),
        (AnswerFault::Shrink(2), PeerFault::WrongBytes),
        (AnswerFault::Repeat(1), PeerFault::WrongBytes),
        (AnswerFault::End(0), PeerFault::Short),
        (AnswerFault::End(15), PeerFault::Short),
        (AnswerFault::Stall(0), late.clone()),
        (AnswerFault::Stall(4), late),
    ] {
        let cluster = three().await;
        let object = OneStripe::put(&cluster).await;
        cluster.network.spoil([fault]);
        object.check(&cluster).await;
        let suspects = cluster.network.take_suspects();
        assert_eq!(suspects, [(object.other, object.home, suspected)], "{fault:?}");
        assert_eq!(cluster.origin.bytes(), object.data.len() as u64, "{fault:?}");

        // The next read is served from the cache.
        object.check(&cluster).await;
        assert_eq!(cluster.origin.bytes(), object.data.len() as u64, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn bytes_are_right_if_all_peers_answer_wrong() {
    for fault in [AnswerFault::Flip(1), AnswerFault::Shrink(0), AnswerFault::Repeat(3), AnswerFault::End(2)] {
        let cluster = three().await;
        let object = OneStripe::put(&cluster).await;
        cluster.network.spoil([fault; 20]);
        object.check(&cluster).await;
        object.check(&cluster).await;
    }
}

/// Puts a block whose home is node 1, in a cluster whose node 0 knows how long its peers usually take.
async fn block_of_a_peer(cluster: &Cluster) -> (Path, Bytes) {
    for number in 0..200 {
        let path = cluster.put(&format!("warm/{number}"), noise(BLOCK, number)).await;
        cluster.read(0, &path).await.unwrap();
    }

    let is_of_one = |path: &Path| cluster.network.home(path, 0) == 1;
    let path = (0..).map(|number| Path::from(format!("slow/{number}"))).find(is_of_one).unwrap();
    let data = noise(BLOCK, 300);
    cluster.put(path.as_ref(), data.clone()).await;
    cluster.nodes[0].store.head(&path).await.unwrap();
    (path, data)
}

#[tokio::test(start_paused = true)]
async fn a_slow_home_is_overtaken_by_its_deputy() {
    let cluster = three().await;
    let (path, data) = block_of_a_peer(&cluster).await;
    cluster.network.spoil([AnswerFault::Stall(0)]);

    let began = tokio::time::Instant::now();
    assert!(cluster.read(0, &path).await.unwrap() == data);
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    assert_eq!(cluster.nodes[0].store.stats().deputy_reads, 1);
}

/// The time after which the deputy is asked must not grow with the reads that waited for it.
#[tokio::test(start_paused = true)]
async fn reads_of_a_slow_home_take_at_most_twice_the_usual_time_and_a_hop() {
    let SlowHome { cluster, from_origin } = reads_of_a_slow_home(true).await;
    assert!(cluster.nodes[0].store.stats().deputy_reads >= 3_000);
    assert_eq!(cluster.origin.bytes(), from_origin, "the deputy has the bytes");
}

/// Only the first reads wait longer. The deputy gets each block from the origin once.
#[tokio::test(start_paused = true)]
async fn reads_of_a_slow_home_take_no_longer_if_the_deputy_lacks_the_bytes() {
    let SlowHome { cluster, from_origin } = reads_of_a_slow_home(false).await;
    let blocks = (cluster.origin.bytes() - from_origin) / BLOCK as u64;
    assert!(blocks < 300, "{blocks} of 3,000 reads were of the origin");
}

/// A cluster whose node 1 was the slow home of the data that node 0 read.
struct SlowHome {
    cluster: Cluster,
    /// Bytes sent by the origin before node 1 became slow.
    from_origin: u64,
}

/// Reads blocks through node 0 whose home is node 1 and whose deputy is node 2, before and while node 1 is slow.
async fn reads_of_a_slow_home(deputy_has_bytes: bool) -> SlowHome {
    const HOP: Duration = Duration::from_millis(10);
    // Node 0 keeps nothing, so each of its reads goes to peers.
    let caches = [ByteSize::ZERO, ByteSize::mib(64), ByteSize::mib(64)].map(memory);
    let cluster = Cluster::start(caches, STRIPE, Consistency::Immutable).await;
    let data = noise(2 * MIB, 21);
    let path = cluster.put_at(0, "object", data.clone()).await;
    assert_eq!(cluster.network.home(&path, 1), 1, "node 2 is the deputy of the second stripe");
    let warmed = if deputy_has_bytes { 2 } else { 1 };
    assert!(cluster.read(warmed, &path).await.unwrap() == data);
    // Each node knows how long the origin takes, and the deputy also knows how long its peers take.
    for node in [0, 2] {
        let own = cluster.put_at(node, "own", noise(MIB, 22)).await;
        cluster.read(node, &own).await.unwrap();
    }
    for number in 0..40 {
        let other = cluster.put_at(1, &format!("other-{number}"), noise(BLOCK, 23)).await;
        cluster.read(2, &other).await.unwrap();
    }
    cluster.network.set_latency(HOP);

    let read = async |number: usize| {
        let start = MIB + number % (MIB / BLOCK) * BLOCK;
        let range = start as u64..(start + BLOCK) as u64;
        let began = tokio::time::Instant::now();
        let bytes = cluster.nodes[0].store.get_range(&path, range).await.unwrap();
        assert!(bytes == data.slice(start..start + BLOCK));
        began.elapsed()
    };
    let quantile_of = async |reads: usize, quantile: f64| {
        let mut times = Vec::new();
        for number in 0..reads {
            times.push(read(number).await);
        }
        times.sort();
        times[((reads - 1) as f64 * quantile) as usize]
    };

    let p95 = quantile_of(300, 0.95).await;
    let from_origin = cluster.origin.bytes();
    cluster.network.slow_down(1, Duration::from_secs(2));
    let p99 = quantile_of(3_000, 0.99).await;
    assert!(p95 >= HOP && p99 <= 2 * p95 + HOP, "{p95:?}, {p99:?}");
    assert_eq!(cluster.network.take_suspects(), []);

    // A home that is fast again is asked again.
    cluster.network.slow_down(1, Duration::ZERO);
    quantile_of(20, 0.5).await;
    let deputy_reads = cluster.nodes[0].store.stats().deputy_reads;
    quantile_of(100, 0.5).await;
    assert!(cluster.nodes[0].store.stats().deputy_reads < deputy_reads + 20);
    SlowHome { cluster, from_origin }
}

#[tokio::test(start_paused = true)]
async fn peers_that_are_all_slow_are_overtaken_by_the_origin() {
    let cluster = three().await;
    let (path, data) = block_of_a_peer(&cluster).await;
    // The home stalls, and so does the deputy, which waits for the home.
    cluster.network.spoil([AnswerFault::Stall(0); 2]);
    let before = cluster.nodes[0].store.stats().bytes_origin;

    let began = tokio::time::Instant::now();
    assert!(cluster.read(0, &path).await.unwrap() == data);
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    assert_eq!(cluster.nodes[0].store.stats().bytes_origin - before, BLOCK as u64);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_waits_for_a_slow_origin_is_not_suspect() {
    let cluster = three().await;
    let data = noise(MIB, 13);
    let path = cluster.put("object", data.clone()).await;
    *cluster.origin.latency.lock() = Duration::from_secs(7);
    let other = (cluster.network.home(&path, 0) + 2) % 3;
    in_a_minute(async { assert!(cluster.read(other, &path).await.unwrap() == data) }).await;
    assert_eq!(cluster.network.take_suspects(), []);
}

#[tokio::test]
async fn a_deputy_that_is_asked_first_fills_from_the_home() {
    let cluster = three().await;
    cluster.network.ask_deputies_first();
    let object = OneStripe::put(&cluster).await;
    object.check(&cluster).await;
    let OneStripe { home, deputy, other, .. } = object;
    let asked = [
        Asked { from: other, to: deputy, role: PeerRole::Deputy },
        Asked { from: deputy, to: home, role: PeerRole::Home },
    ];
    assert_eq!(cluster.network.take_asked(), asked);
    assert_eq!(cluster.origin.bytes(), object.data.len() as u64);
}

#[tokio::test]
async fn only_the_home_of_a_page_writes_it_to_disk() {
    let folders = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let caches =
        folders.each_ref().map(|dir| memory(ByteSize::mib(64)).with_disk(dir.path(), ByteSize::mib(64)));
    let cluster = Cluster::start(caches, STRIPE, Consistency::DEFAULT).await;
    let data = noise(6 * MIB, 4);
    let path = cluster.put("object", data.clone()).await;
    let homes: Vec<_> = (0..6).map(|stripe| cluster.network.home(&path, stripe)).collect();
    let own_pages = |node: usize| 16 * homes.iter().filter(|home| **home == node).count() as u64;

    for reader in [0, 1, 2] {
        assert!(cluster.read(reader, &path).await.unwrap() == data);
    }
    let pages = |node: usize| cluster.nodes[node].cache.stats().disk_pages;
    for node in [0, 1, 2] {
        eventually("own pages to be on disk", async || pages(node) >= own_pages(node)).await;
    }
    for node in [0, 1, 2] {
        assert_eq!(pages(node), own_pages(node), "{node}");
    }
}

#[tokio::test]
async fn warming_an_object_loads_each_stripe_at_its_home_only() {
    let cluster = three().await;
    let data = noise(6 * MIB + 5, 14);
    let path = cluster.put("object", data.clone()).await;
    let len = data.len() as u64;
    assert_eq!(cluster.nodes[0].store.warm(&path).await.unwrap(), len);
    assert_eq!(cluster.origin.bytes(), len);

    let own_pages = |node: usize| {
        let is_own = |stripe: &u64| cluster.network.home(&path, *stripe) == node;
        (0..7).filter(is_own).map(|stripe| if stripe == 6 { 1 } else { 16 }).sum::<u64>()
    };
    for node in 0..3 {
        assert_eq!(cluster.nodes[node].cache.stats().memory_pages, own_pages(node), "{node}");
    }

    // A home that does not answer loads nothing.
    let home = cluster.network.home(&path, 1);
    let cold = cluster.put("object", noise(6 * MIB, 15)).await;
    cluster.nodes[(home + 1) % 3].store.invalidate_in_cluster(std::slice::from_ref(&cold)).await;
    cluster.network.set_store(home, None);
    let loaded = cluster.nodes[(home + 1) % 3].store.warm(&cold).await.unwrap();
    assert_eq!(loaded, 4 * MIB as u64);
}

#[tokio::test]
async fn objects_are_evicted_from_all_nodes() {
    let cluster = three().await;
    let data = noise(6 * MIB, 16);
    let path = cluster.put("lake/object", data.clone()).await;
    let kept = cluster.put("kept", noise(BLOCK, 17)).await;
    for node in 0..3 {
        assert!(cluster.read(node, &path).await.unwrap() == data);
        cluster.read(node, &kept).await.unwrap();
    }

    assert_eq!(cluster.nodes[2].store.evict("lake/").await.unwrap(), 1);
    for node in 0..3 {
        assert_eq!(cluster.nodes[node].cache.stats().memory_pages, 1, "{node}");
    }

    // A node that is down is skipped.
    cluster.network.set_store(1, None);
    assert!(cluster.read(0, &path).await.unwrap() == data);
    assert_eq!(cluster.nodes[0].store.evict("").await.unwrap(), 2);
    assert_eq!(cluster.nodes[2].cache.stats().memory_pages, 0);
}

#[tokio::test]
async fn pages_of_others_take_a_small_share_of_the_memory() {
    let cluster =
        Cluster::start([(); 3].map(|()| memory(ByteSize::mib(8))), STRIPE, Consistency::DEFAULT).await;
    cluster.network.set_views(&[1, 2]);
    let data = noise(6 * MIB, 5);
    let path = cluster.put("object", data.clone()).await;
    assert!(cluster.read(0, &path).await.unwrap() == data);

    // Pages that were held when the quota was exceeded are evicted with the next one.
    let small = cluster.put("small", noise(BLOCK, 6)).await;
    cluster.read(0, &small).await.unwrap();
    let used = cluster.nodes[0].cache.stats().memory_used;
    assert!(used > 0 && used <= MIB as u64, "{used}");
}

#[tokio::test]
async fn a_new_home_asks_the_former_one() {
    let cluster = three().await;
    let data = noise(6 * MIB, 7);
    let path = cluster.put("object", data.clone()).await;
    assert!(cluster.read(0, &path).await.unwrap() == data);

    cluster.network.set_views(&[1, 2]);
    for node in [1, 2, 0] {
        assert!(cluster.read(node, &path).await.unwrap() == data, "{node}");
    }
    assert_eq!(cluster.origin.bytes(), data.len() as u64);
    assert!(cluster.nodes[1].store.stats().donor_reads > 0);
}

#[tokio::test(start_paused = true)]
async fn a_new_home_that_knows_nothing_of_a_small_object_asks_the_former_one() {
    let views = [[1, 2, 0], [2, 0, 1]];
    for (view, reader) in views.into_iter().flat_map(|view| [0, 1, 2].map(|reader| (view, reader))) {
        let cluster = three().await;
        let data = noise(BLOCK, 18);
        let path = cluster.put("small", data.clone()).await;
        let former = cluster.network.home(&path, 0);
        assert!(cluster.read(former, &path).await.unwrap() == data);
        assert_eq!((cluster.origin.gets(), cluster.origin.heads()), (1, 0), "no donor: one request");

        cluster.network.set_views(&view);
        let home = cluster.network.home(&path, 0);
        assert_ne!(home, former);
        for node in [reader, home] {
            assert!(cluster.read(node, &path).await.unwrap() == data, "{view:?} {node}");
        }
        assert_eq!((cluster.origin.gets(), cluster.origin.heads()), (1, 1), "{view:?} {reader}");
        assert_eq!(cluster.origin.bytes(), data.len() as u64, "{view:?} {reader}");
        assert_eq!(cluster.nodes[home].store.stats().bytes_origin, 0, "{view:?} {reader}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_home_shows_no_version_that_only_the_former_one_takes_for_current() {
    let caches = [(); 3].map(|()| memory(ByteSize::mib(64)));
    let cluster = Cluster::start(caches, STRIPE, Consistency::Immutable).await;
    let path = cluster.put("small", noise(BLOCK, 19)).await;
    let former = cluster.network.home(&path, 0);
    cluster.read(former, &path).await.unwrap();
    cluster.network.set_views(&[1, 2, 0]);

    // The new authority is notified of the write, the former one is not.
    let home = cluster.network.home(&path, 0);
    let other = (0..3).find(|node| ![home, former].contains(node)).unwrap();
    let after = noise(BLOCK, 20);
    cluster.nodes[other].store.put(&path, after.clone().into()).await.unwrap();
    for node in [home, other, former] {
        assert!(cluster.read(node, &path).await.unwrap() == after, "{node}");
    }
    assert_eq!(cluster.origin.bytes(), 2 * BLOCK as u64);
}

#[tokio::test(start_paused = true)]
async fn a_slow_donor_delays_a_read_for_a_moment_only() {
    let cluster = three().await;
    let object = OneStripe::put(&cluster).await;
    object.check(&cluster).await;
    cluster.network.set_views(&[object.deputy]);
    cluster.network.spoil([AnswerFault::Stall(0)]);

    let began = tokio::time::Instant::now();
    assert!(cluster.read(object.deputy, &object.path).await.unwrap() == object.data);
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    let late = PeerFault::Late(Duration::from_millis(200));
    assert_eq!(cluster.network.take_suspects(), [(object.deputy, object.home, late)]);
}

/// Two nodes that each consider the other the home ask each other at once. Neither answer may wait for a fetch of the
/// node that answers.
#[tokio::test(start_paused = true)]
async fn nodes_whose_views_contradict_do_not_wait_for_each_other() {
    let caches = [(); 2].map(|()| memory(ByteSize::mib(64)));
    let cluster = Cluster::start(caches, STRIPE, Consistency::DEFAULT).await;
    cluster.network.set_view(0, &[1]);
    cluster.network.set_view(1, &[0]);
    let data = noise(4 * MIB, 8);
    let path = cluster.put("object", data.clone()).await;
    *cluster.origin.latency.lock() = Duration::from_millis(30);

    let began = tokio::time::Instant::now();
    let reads = [0, 1, 0, 1].map(|node| cluster.read(node, &path));
    in_a_minute(async {
        for read in join_all(reads).await {
            assert!(read.unwrap() == data);
        }
    })
    .await;
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    assert_eq!(cluster.network.take_suspects(), []);
}

#[tokio::test]
async fn an_object_that_a_home_finds_replaced_is_opened_again() {
    let cluster = three().await;
    let before = noise(4 * MIB, 9);
    let path = cluster.put("object", before.clone()).await;
    let range = |stripe: u64| stripe * STRIPE..(stripe + 1) * STRIPE;
    let slice = |data: &Bytes, stripe: usize| data.slice(stripe * MIB..(stripe + 1) * MIB);
    for node in 0..3 {
        let read = cluster.nodes[node].store.get_range(&path, range(0)).await.unwrap();
        assert!(read == slice(&before, 0));
    }

    let after = noise(4 * MIB, 10);
    cluster.put("object", after.clone()).await;
    for stripe in 1..4 {
        for node in 0..3 {
            let read = cluster.nodes[node].store.get_range(&path, range(stripe)).await.unwrap();
            assert!(read == slice(&after, stripe as usize), "{stripe} {node}");
        }
    }
    assert_eq!(cluster.network.take_suspects(), []);
}

#[tokio::test(start_paused = true)]
async fn nodes_without_memory_read_from_each_other_past_their_caches() {
    let cluster =
        Cluster::start([(); 3].map(|()| memory(ByteSize::ZERO)), STRIPE, Consistency::DEFAULT).await;
    let data = noise(3 * MIB + 7, 11);
    let path = cluster.put("object", data.clone()).await;
    for node in 0..3 {
        assert!(cluster.read(node, &path).await.unwrap() == data);
        let read = cluster.nodes[node].store.get_range(&path, 100..2_500_000).await.unwrap();
        assert!(read == data.slice(100..2_500_000));
    }
    let stats = cluster.nodes[0].store.stats();
    assert!(stats.peer_reads > 0 && stats.bytes_passed_through > 0);

    // If a peer breaks off, another one continues.
    cluster.network.spoil([AnswerFault::Break(3), AnswerFault::Flip(2), AnswerFault::End(1)]);
    for node in 0..3 {
        assert!(cluster.read(node, &path).await.unwrap() == data);
    }
}

#[tokio::test]
async fn a_peer_gets_whole_blocks_of_the_version_that_it_names() {
    let cluster = three().await;
    let data = noise(MIB + 100, 12);
    let path = cluster.put("object", data.clone()).await;
    let meta = cluster.nodes[0].store.head(&path).await.unwrap();
    let read = |range: std::ops::Range<u64>, role| PeerRead {
        path: path.to_string(),
        kept: None,
        size: meta.size,
        e_tag: meta.e_tag.clone(),
        version: meta.version.clone(),
        range,
        role,
    };
    let node = cluster.network.home(&path, 0);
    let store = &cluster.nodes[node].store;
    let refused = async |read| store.read_for_peer(read).await.err().unwrap();

    let end = data.len() as u64;
    let block = BLOCK as u64;
    assert_eq!(refused(read(0..block, PeerRole::Donor)).await, PeerError::Declined);
    for range in [1..block, 0..block + 1, 0..end + 1, block..block, 2 * block..block, end..end + block] {
        let error = refused(read(range.clone(), PeerRole::Home)).await;
        assert!(matches!(error, PeerError::Failed { .. }), "{range:?}");
    }
    let weak =
        PeerRead { e_tag: Some("W/\"x\"".to_owned()), version: None, ..read(0..block, PeerRole::Home) };
    assert!(matches!(refused(weak).await, PeerError::Failed { .. }));
    let other = PeerRead { e_tag: Some("\"other\"".to_owned()), ..read(0..block, PeerRole::Home) };
    assert_eq!(refused(other).await, PeerError::Changed);

    for role in [PeerRole::Home, PeerRole::Donor, PeerRole::Deputy] {
        let blocks = store.read_for_peer(read(2 * block..end.min(STRIPE), role)).await.unwrap();
        let blocks: Vec<_> = blocks.map(|block| block.unwrap().bytes).collect().await;
        assert_eq!(blocks.len(), 14, "{role:?}");
        assert!(blocks.concat() == data[2 * BLOCK..MIB], "{role:?}");
    }
    assert_eq!(cluster.origin.bytes(), 14 * block);
    assert_eq!(id(3).to_string(), "3");
}

#[tokio::test]
async fn a_peer_gets_runs_of_whole_blocks_of_one_page() {
    let caches = [(); 3].map(|()| CacheOptions::new(ByteSize::mib(64)).with_page_size(ByteSize::kib(256)));
    let cluster = Cluster::start(caches, 4 * STRIPE, Consistency::DEFAULT).await;
    let data = noise(MIB + 3 * BLOCK + 100, 22);
    let path = cluster.put("object", data.clone()).await;
    let meta = cluster.nodes[0].store.head(&path).await.unwrap();
    let home = cluster.network.home(&path, 0);

    // Read cold, from pieces that begin within a page, and from memory.
    let parts = [BLOCK..3 * BLOCK, 2 * BLOCK..9 * BLOCK, 0..data.len(), 0..data.len(), 5 * BLOCK..6 * BLOCK];
    for range in parts {
        let read = PeerRead {
            path: path.to_string(),
            kept: None,
            size: meta.size,
            e_tag: meta.e_tag.clone(),
            version: meta.version.clone(),
            range: range.start as u64..range.end as u64,
            role: PeerRole::Home,
        };
        let mut position = range.start;
        let mut runs = cluster.nodes[home].store.read_for_peer(read).await.unwrap();
        while let Some(run) = runs.next().await {
            let run = run.unwrap();
            let end = position + run.bytes.len();
            assert!(run.bytes == data[position..end], "{range:?}");
            assert_eq!(position / (4 * BLOCK), (end - 1) / (4 * BLOCK), "{range:?}");
            assert!(end.is_multiple_of(BLOCK) || end == data.len(), "{range:?}");
            assert_eq!(run.checksums.len(), run.bytes.len().div_ceil(BLOCK), "{range:?}");
            position = end;
        }
        assert_eq!(position, range.end);
    }

    // The other nodes verify the pieces and whole pages that they receive.
    let other = &cluster.nodes[(home + 1) % 3].store;
    let part = other.get_range(&path, 2 * BLOCK as u64 + 1..5 * BLOCK as u64).await.unwrap();
    assert!(part == data.slice(2 * BLOCK + 1..5 * BLOCK));
    assert!(cluster.read((home + 1) % 3, &path).await.unwrap() == data);
    assert!(cluster.read((home + 2) % 3, &path).await.unwrap() == data);
    assert_eq!(cluster.network.take_suspects(), []);
    assert_eq!(cluster.origin.bytes(), data.len() as u64);
}
