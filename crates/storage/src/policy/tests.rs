//! Tests of every policy against a model, and of the hit ratios that each policy is expected to reach.

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;

use super::{lirs::Lirs, *};

/// A call to a policy. Residents are selected by a number modulo their count.
#[derive(Clone, Debug)]
enum PolicyOp {
    Insert { key: u8, weight: u64 },
    Touch { pick: usize },
    Resize { pick: usize, weight: u64 },
    Remove { pick: usize },
    Evict { held: HashSet<u8> },
    SetCapacity { bytes: u64 },
}

fn op() -> impl Strategy<Value = PolicyOp> {
    let weight = || 0..40_u64;

    prop_oneof![
        8 => (0..64_u8, weight()).prop_map(|(key, weight)| PolicyOp::Insert { key, weight }),
        8 => any::<usize>().prop_map(|pick| PolicyOp::Touch { pick }),
        1 => (any::<usize>(), weight()).prop_map(|(pick, weight)| PolicyOp::Resize { pick, weight }),
        1 => any::<usize>().prop_map(|pick| PolicyOp::Remove { pick }),
        3 => Just(PolicyOp::Evict { held: HashSet::new() }),
        3 => prop::collection::hash_set(0..64_u8, 0..64).prop_map(|held| PolicyOp::Evict { held }),
        1 => (0..1000_u64).prop_map(|bytes| PolicyOp::SetCapacity { bytes }),
    ]
}

/// Applies the calls to the policy and to a map, and compares the two after each call.
fn assert_matches_model<E: Eviction<u8> + ?Sized>(
    policy: &mut E,
    ops: Vec<PolicyOp>,
    invariants: impl Fn(&E),
) {
    let mut residents: Vec<(u8, EvictionSlot, u64)> = Vec::new();
    let mut capacity = 500;

    for op in ops {
        let pick = |pick: usize| (!residents.is_empty()).then(|| pick % residents.len());

        match op {
            PolicyOp::Insert { key, weight } => {
                if residents.iter().any(|resident| resident.0 == key) {
                    continue;
                }

                let slot = policy.insert(key, weight);
                assert!(residents.iter().all(|resident| resident.1 != slot), "a slot of two keys");
                assert!(!policy.remembers(&key));
                residents.push((key, slot, weight));
            }
            PolicyOp::Touch { pick: number } => {
                if let Some(index) = pick(number) {
                    policy.touch(residents[index].1);
                }
            }
            PolicyOp::Resize { pick: number, weight } => {
                if let Some(index) = pick(number) {
                    policy.resize(residents[index].1, weight);
                    residents[index].2 = weight;
                }
            }
            PolicyOp::Remove { pick: number } => {
                if let Some(index) = pick(number) {
                    let (key, slot, _) = residents.swap_remove(index);
                    policy.remove(slot);
                    assert!(!policy.remembers(&key));
                }
            }
            PolicyOp::Evict { held } => match policy.evict(&mut |key| held.contains(key)) {
                Some(key) => {
                    assert!(!held.contains(&key), "evicted a held key");
                    let index = residents.iter().position(|resident| resident.0 == key).unwrap();
                    let (_, _, weight) = residents.swap_remove(index);
                    assert!(policy.remembers(&key) || weight > capacity || capacity == 0);
                }
                None => assert!(residents.iter().all(|resident| held.contains(&resident.0))),
            },
            PolicyOp::SetCapacity { bytes } => {
                capacity = bytes;
                policy.set_capacity(bytes);
            }
        }

        assert_eq!(policy.len(), residents.len());
        assert_eq!(policy.weight(), residents.iter().map(|resident| resident.2).sum::<u64>());
        invariants(policy);
    }

    let mut left: HashSet<_> = residents.iter().map(|resident| resident.0).collect();
    while let Some(key) = policy.evict(&mut |_| false) {
        assert!(left.remove(&key), "evicted twice");
    }

    assert!(left.is_empty());
    assert_eq!((policy.len(), policy.weight()), (0, 0));
}

proptest! {
    #[test]
    fn every_policy_keeps_account_of_its_residents(ops in prop::collection::vec(op(), 0..400)) {
        for policy in EvictionPolicy::ALL {
            assert_matches_model(&mut *new::<u8>(policy, 500), ops.clone(), |_| ());
        }
    }

    #[test]
    fn the_stack_of_lirs_stays_consistent(ops in prop::collection::vec(op(), 0..400)) {
        assert_matches_model(&mut Lirs::<u8>::new(500), ops, Lirs::assert_invariants);
    }
}

/// A cache of one policy that evicts before it inserts, like the simulator's.
struct PolicyTestCache {
    capacity: u64,
    policy: Box<dyn Eviction<u64>>,
    slots: HashMap<u64, EvictionSlot>,
}

impl PolicyTestCache {
    fn new(policy: EvictionPolicy, capacity: u64) -> Self {
        Self { capacity, policy: new(policy, capacity), slots: HashMap::new() }
    }

    /// Reads a key. Returns whether that was a hit.
    fn read(&mut self, key: u64, weight: u64) -> bool {
        if let Some(slot) = self.slots.get(&key) {
            self.policy.touch(*slot);
            return true;
        }

        while self.policy.weight() + weight > self.capacity
            && let Some(victim) = self.policy.evict(&mut |_| false)
        {
            self.slots.remove(&victim);
        }
        self.slots.insert(key, self.policy.insert(key, weight));
        false
    }

    /// Reads each key with a weight of one. Returns the share of hits.
    fn hit_ratio(&mut self, keys: impl IntoIterator<Item = u64>) -> f64 {
        let mut reads = 0;
        let mut hits = 0;
        for key in keys {
            reads += 1;
            hits += u32::from(self.read(key, 1));
        }
        f64::from(hits) / f64::from(reads)
    }
}

/// Returns the numbers of a linear congruential generator, the same in each run.
fn numbers(seed: u64) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(seed), |state| {
        Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407))
    })
    .skip(1)
    .map(|state| state >> 33)
}

/// Draws ranks from 0 by Zipf's law.
fn zipf(ranks: u32, exponent: f64, seed: u64) -> impl Iterator<Item = u64> {
    let cumulative: Vec<f64> = (1..=ranks)
        .scan(0.0, |sum, rank| {
            *sum += f64::from(rank).powf(-exponent);
            Some(*sum)
        })
        .collect();
    let total = cumulative[cumulative.len() - 1];

    numbers(seed).map(move |number| {
        let at = number as f64 / (1_u64 << 31) as f64 * total;
        cumulative.partition_point(|upto| *upto <= at) as u64
    })
}

#[test]
fn names_parse_to_their_policies() {
    for policy in EvictionPolicy::ALL {
        assert_eq!(policy.to_string().parse(), Ok(policy));
    }

    let error = "clock".parse::<EvictionPolicy>().unwrap_err().to_string();
    for policy in EvictionPolicy::ALL {
        assert!(error.contains(policy.name()), "{error}");
    }
}

/// Inserts the given letters, touches others, and returns all in the order of their eviction.
fn eviction_order(policy: EvictionPolicy, inserted: &str, touched: &str) -> String {
    let mut policy = new::<char>(policy, inserted.len() as u64);
    let slots: HashMap<_, _> = inserted.chars().map(|key| (key, policy.insert(key, 1))).collect();
    for key in touched.chars() {
        policy.touch(slots[&key]);
    }

    std::iter::from_fn(|| policy.evict(&mut |_| false)).collect()
}

#[test]
fn a_use_decides_the_order_of_eviction_except_under_fifo() {
    assert_eq!(eviction_order(EvictionPolicy::Fifo, "abcd", "ab"), "abcd");
    assert_eq!(eviction_order(EvictionPolicy::Lru, "abcd", "ba"), "cdba");
    assert_eq!(eviction_order(EvictionPolicy::Sieve, "abcd", "ba"), "cdab");
    assert_eq!(eviction_order(EvictionPolicy::S3Fifo, "abcd", "ba"), "cdab");
}

#[test]
fn the_hand_of_sieve_goes_on_from_its_last_victim() {
    let mut policy = new::<char>(EvictionPolicy::Sieve, 4);
    let slots: Vec<_> = "abcd".chars().map(|key| policy.insert(key, 1)).collect();
    policy.touch(slots[0]);
    assert_eq!(policy.evict(&mut |_| false), Some('b'));

    // The hand is at c: a, though older and by now unmarked, comes last.
    policy.insert('e', 1);
    policy.remove(slots[2]);
    let order: String = std::iter::from_fn(|| policy.evict(&mut |_| false)).collect();
    assert_eq!(order, "dea");
}

#[test]
fn a_key_that_s3_fifo_remembers_goes_to_the_main_queue() {
    let mut cache = PolicyTestCache::new(EvictionPolicy::S3Fifo, 100);
    cache.hit_ratio(0..200);
    cache.hit_ratio([50]);

    // A scan passes through the small queue only.
    cache.hit_ratio(1000..1150);
    assert!(cache.read(50, 1));
}

#[test]
fn tiny_lfu_admits_only_keys_used_more_often() {
    let mut cache = PolicyTestCache::new(EvictionPolicy::Lfu, 100);
    cache.hit_ratio((0..3).flat_map(|_| 0..100));

    cache.hit_ratio(1000..2000);
    assert!(cache.hit_ratio(0..95) > 0.95);
}

#[test]
fn the_only_key_that_is_not_held_is_found_in_one_pass() {
    for policy in EvictionPolicy::ALL {
        let mut cache = PolicyTestCache::new(policy, 1000);
        cache.hit_ratio((0..1000).chain((0..1000).step_by(3)));

        for free in [0, 1, 500, 999] {
            let mut asked = 0;
            let victim = cache.policy.evict(&mut |key| {
                asked += 1;
                *key != free
            });

            assert_eq!(victim, Some(free), "{policy}");
            assert!(asked <= 1000, "{policy} asked {asked} times");
        }
    }
}

#[test]
fn held_candidates_are_not_met_again_at_once() {
    for policy in EvictionPolicy::ALL {
        let mut cache = PolicyTestCache::new(policy, 1000);
        cache.hit_ratio(0..1000);

        // The first 900 keys are held. Once they have been passed over, the others come first.
        let mut asked = 0;
        for _ in 0..50 {
            let victim = cache.policy.evict(&mut |key| {
                asked += 1;
                *key < 900
            });
            assert!(victim.is_some_and(|key| key >= 900), "{policy}");
        }
        assert!(asked < 2000, "{policy} asked {asked} times");
    }
}

#[test]
fn one_capacity_of_evicted_keys_is_remembered() {
    for policy in EvictionPolicy::ALL {
        let mut cache = PolicyTestCache::new(policy, 100);
        cache.hit_ratio(0..1000);

        let remembered = (0..1000).filter(|key| cache.policy.remembers(key)).count();
        assert_eq!(remembered, 100, "{policy}");
    }
}

#[test]
fn ghosts_of_light_keys_are_bounded_in_number() {
    for policy in EvictionPolicy::ALL {
        let mut policy = new::<u64>(policy, 1 << 40);
        for key in 0..20_000 {
            policy.insert(key, 1);
            if key >= 300 {
                policy.evict(&mut |_| false);
            }
        }

        let remembered = (0..20_000).filter(|key| policy.remembers(key)).count();
        assert!((1024..=1200).contains(&remembered), "{remembered}");
    }

    let mut lirs = Lirs::new(1 << 40);
    for key in 0..20_000 {
        lirs.insert(key, 1);
        if key >= 300 {
            lirs.evict(&mut |_| false);
        }
    }
    assert!(lirs.ghosts() <= 1200, "{}", lirs.ghosts());
}

#[test]
fn lirs_keeps_its_share_of_a_loop_larger_than_the_cache() {
    for tenths in [11, 15, 20, 40, 100] {
        let len = 1000 * tenths / 10;
        let mut cache = PolicyTestCache::new(EvictionPolicy::Lirs, 1000);
        cache.hit_ratio((0..3).flat_map(|_| 0..len));

        let ratio = cache.hit_ratio((0..5).flat_map(|_| 0..len));
        let share = 1000.0 / len as f64;
        assert!(ratio >= 0.9 * share, "{ratio} of {share}");
    }
}

#[test]
fn lirs_keeps_its_share_of_a_loop_over_pages_of_different_weights() {
    for tenths in [11, 15, 20, 40, 100] {
        // From 64 KiB to 1 MiB, with a cache of 300 MiB.
        let capacity = 300 << 20;
        let mut weights = Vec::new();
        let mut total = 0;
        for number in numbers(tenths) {
            if total >= capacity / 10 * tenths {
                break;
            }

            let weight = (1 + number % 16) << 16;
            weights.push(weight);
            total += weight;
        }

        let mut cache = PolicyTestCache::new(EvictionPolicy::Lirs, capacity);
        let mut hit_bytes = 0;
        for round in 0..8 {
            for (key, weight) in weights.iter().enumerate() {
                if cache.read(key as u64, *weight) && round >= 3 {
                    hit_bytes += weight;
                }
            }
        }

        let ratio = hit_bytes as f64 / (5 * total) as f64;
        let share = capacity as f64 / total as f64;
        assert!(ratio >= 0.9 * share, "{ratio} of {share}");
    }
}

#[test]
fn lirs_takes_up_a_loop_after_its_working_set_was_replaced() {
    let mut cache = PolicyTestCache::new(EvictionPolicy::Lirs, 1000);
    cache.hit_ratio(zipf(5000, 0.9, 1).take(50_000));
    cache.hit_ratio((0..5).flat_map(|_| 10_000..10_900));
    cache.hit_ratio((0..5).flat_map(|_| 20_000..20_900));

    // The cold queue, which the changes made longer, becomes shorter again.
    cache.hit_ratio((0..6).flat_map(|_| 30_000..32_000));
    let ratio = cache.hit_ratio((0..5).flat_map(|_| 30_000..32_000));
    assert!(ratio >= 0.45, "{ratio}");
}

#[test]
fn a_scan_leaves_the_hot_keys_of_lirs_alone() {
    let mut cache = PolicyTestCache::new(EvictionPolicy::Lirs, 1000);
    let mut hot = zipf(2000, 0.9, 1);
    cache.hit_ratio(hot.by_ref().take(50_000));
    let before = cache.hit_ratio(hot.by_ref().take(1000));

    cache.hit_ratio(10_000..20_000);

    let after = cache.hit_ratio(hot.take(1000));
    assert!(after > before - 0.03, "{before} before the scan, {after} after it");
}

#[test]
fn a_scan_that_reads_each_page_in_pieces_leaves_the_hot_keys_of_lirs_alone() {
    let mut cache = PolicyTestCache::new(EvictionPolicy::Lirs, 1000);
    let mut hot = zipf(2000, 0.9, 1);
    cache.hit_ratio(hot.by_ref().take(50_000));
    let before = cache.hit_ratio(hot.by_ref().take(1000));

    cache.hit_ratio((10_000..20_000).flat_map(|page| [page; 16]));

    let after = cache.hit_ratio(hot.take(1000));
    assert!(after > before - 0.03, "{before} before the scan, {after} after it");
}

#[test]
fn lirs_recovers_from_a_change_of_working_set_within_two_passes() {
    for len in [100, 200, 300, 450, 600, 900] {
        let mut cache = PolicyTestCache::new(EvictionPolicy::Lirs, 1000);
        cache.hit_ratio(zipf(1000, 0.8, 1).take(50_000));

        cache.hit_ratio((0..2).flat_map(|_| 10_000..10_000 + len));
        let ratio = cache.hit_ratio(10_000..10_000 + len);
        assert!(ratio >= 0.9, "{ratio} of {len} keys");
    }
}

#[test]
fn lirs_is_as_good_as_frequency_based_policies_where_accesses_are_independent() {
    for exponent in [0.8, 0.9, 1.0, 1.1, 1.2] {
        for capacity in [50, 500, 2500] {
            let ratio_of = |policy| {
                let mut cache = PolicyTestCache::new(policy, capacity);
                cache.hit_ratio(zipf(5000, exponent, 1).take(100_000))
            };

            let lirs = ratio_of(EvictionPolicy::Lirs);
            let others = ratio_of(EvictionPolicy::S3Fifo).max(ratio_of(EvictionPolicy::Lfu));
            assert!(lirs > others - 0.01, "{lirs} and {others} at {exponent}, {capacity}");
        }
    }
}

#[test]
fn a_larger_capacity_is_filled_with_hot_keys() {
    let mut cache = PolicyTestCache::new(EvictionPolicy::Lirs, 100);
    cache.hit_ratio((0..5).flat_map(|_| 0..2000));

    cache.capacity = 1000;
    cache.policy.set_capacity(1000);
    cache.hit_ratio((0..3).flat_map(|_| 0..2000));

    let ratio = cache.hit_ratio(0..2000);
    assert!(ratio >= 0.45, "{ratio}");
}

#[test]
fn hot_keys_lost_while_others_were_held_are_replaced_in_a_loop() {
    let mut cache = PolicyTestCache::new(EvictionPolicy::Lirs, 1000);
    cache.hit_ratio((0..5).flat_map(|_| 0..2000));

    // Half of the hot keys leave, as if their objects had changed.
    for key in 0..500 {
        if let Some(slot) = cache.slots.remove(&key) {
            cache.policy.remove(slot);
        }
    }

    cache.hit_ratio((0..3).flat_map(|_| 0..2000));
    let ratio = cache.hit_ratio(0..2000);
    assert!(ratio >= 0.45, "{ratio}");
}
