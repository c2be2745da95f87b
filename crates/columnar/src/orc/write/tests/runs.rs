//! Runs of integers: each kind where it is best, and all of them decoded again.

use bytes::Bytes;
use proptest::{collection::vec, prelude::*};

use crate::orc::{
    decode::ints::IntRleDecoder,
    stream::OrcStreamReader,
    write::encode::ints::{RleV2Options, encode},
};

const SHORT_REPEAT: u8 = 0;
const DIRECT: u8 = 1;
const PATCHED_BASE: u8 = 2;
const DELTA: u8 = 3;

fn encoded(numbers: &[i64], packing: RleV2Options) -> Vec<u8> {
    let mut scratch = Vec::new();
    let mut out = Vec::new();
    numbers.chunks(512).for_each(|block| encode(block, packing, &mut scratch, &mut out));
    out
}

fn assert_comes_back(numbers: &[i64]) {
    for aligned in [false, true] {
        for signed in [false, true] {
            if !signed && numbers.iter().any(|number| *number < 0) {
                continue;
            }
            let bytes = encoded(numbers, RleV2Options { signed, aligned });
            let mut ints = IntRleDecoder::new(OrcStreamReader::new(Bytes::from(bytes), None), signed, true);
            assert_eq!(ints.read(numbers.len()).unwrap(), numbers, "signed: {signed}, aligned: {aligned}");
            assert!(ints.read(1).is_err());
        }
    }
}

/// Returns the kind of a block's run, by its first byte as the decoder reads it.
fn first_kind(numbers: &[i64]) -> u8 {
    assert_comes_back(numbers);
    encoded(numbers, RleV2Options { signed: true, aligned: false })[0] >> 6
}

#[test]
fn each_kind_of_run_is_chosen_where_it_is_shortest() {
    assert_eq!(first_kind(&[10_000; 5]), SHORT_REPEAT);
    assert_eq!(first_kind(&[10_000; 300]), DELTA);
    assert_eq!(first_kind(&(0..500).collect::<Vec<_>>()), DELTA);
    assert_eq!(first_kind(&(0..500).map(|at| at * at).collect::<Vec<_>>()), DELTA);
    assert_eq!(first_kind(&(0..500).map(|at| 7 - at * at).collect::<Vec<_>>()), DELTA);
    assert_eq!(first_kind(&(0..500).map(|at| at * 7919 % 1000).collect::<Vec<_>>()), DIRECT);
    let mut outliers: Vec<i64> = (0..500).map(|at| 2000 + at * 7919 % 100).collect();

    for at in [3, 4, 400] {
        outliers[at] = 1_000_000;
    }
    assert_eq!(first_kind(&outliers), PATCHED_BASE);
    outliers.iter_mut().for_each(|number| *number -= 5000);
    assert_eq!(first_kind(&outliers), PATCHED_BASE);
}

#[test]
fn numbers_that_rise_and_jump_are_patched_where_that_is_shorter() {
    for jumps in [1, 5, 20] {
        for sign in [1, -1] {
            let mut numbers: Vec<i64> = (0..512 - jumps).map(|at| at * sign).collect();
            numbers.extend((1..=jumps).map(|at| (at << 40) * sign));
            // Falling numbers have the last one as base, above which all others are large.
            let length = encoded(&numbers, RleV2Options { signed: true, aligned: false }).len();
            assert!(sign < 0 || length < 620 + 8 * jumps as usize, "{jumps}: {length}");
            assert_comes_back(&numbers);
        }
    }

    let mut steps: Vec<i64> = (0..512).map(|at| at / 3).collect();
    steps[511] = 1 << 50;
    assert!(encoded(&steps, RleV2Options { signed: true, aligned: false }).len() < 620);
    assert_comes_back(&steps);
}

#[test]
fn the_examples_of_the_specification_are_made() {
    let unsigned = RleV2Options { signed: false, aligned: false };
    assert_eq!(encoded(&[10_000; 5], unsigned), [0x0a, 0x27, 0x10]);
    let direct = [0x5e, 0x03, 0x5c, 0xa1, 0xab, 0x1e, 0xde, 0xad, 0xbe, 0xef];
    assert_eq!(encoded(&[23_713, 43_806, 57_005, 48_879], unsigned), direct);
    let mut patched = vec![2030, 2000, 2020, 1_000_000];
    patched.extend((2040..=2190).step_by(10));
    assert_eq!(encoded(&patched, unsigned)[0], 0x8e);
    assert_eq!(encoded(&patched, unsigned).len(), 28);
    let delta = [0xc6, 0x09, 0x02, 0x02, 0x22, 0x42, 0x42, 0x46];
    let aligned = RleV2Options { signed: false, aligned: true };
    assert_eq!(encoded(&[2, 3, 5, 7, 11, 13, 17, 19, 23, 29], aligned), delta);
}

#[test]
fn long_repeats_are_runs_of_their_own_and_short_ones_are_not() {
    let mut numbers: Vec<i64> = (0..100).map(|at| at * 7919 % 1000).collect();
    numbers.extend([5; 60]);
    numbers.extend((0..100).map(|at| at * 104_729 % 1000));
    let unsigned = RleV2Options { signed: false, aligned: false };
    let whole = encoded(&numbers, unsigned);
    assert!(whole.len() < 2 + 125 + 4 + 2 + 125 + 2, "{} bytes", whole.len());
    assert_comes_back(&numbers);
    // Two bits per number: three equal numbers are not worth three bytes.
    let few: Vec<i64> = (0..512).map(|at| at / 3 * 7919 % 3).collect();
    assert_eq!(encoded(&few, unsigned).len(), 2 + 128);
    assert_comes_back(&few);
}

#[test]
fn sorted_numbers_that_begin_with_repeats_are_differences() {
    let numbers: Vec<i64> = (0..512).map(|at| at / 4 * 25 + 1_000_000).collect();
    let unsigned = RleV2Options { signed: true, aligned: false };
    assert!(encoded(&numbers, unsigned).len() < 2 + 320 + 16);
    assert_comes_back(&numbers);
}

#[test]
fn the_edges_of_every_width_come_back() {
    for bits in 0..=63 {
        let edge = 1_i64.wrapping_shl(bits);
        for near in [-1, 0, 1] {
            let number = edge.wrapping_add(near);
            assert_comes_back(&[number]);
            assert_comes_back(&[number; 7]);
            assert_comes_back(&[0, number, 1, number.wrapping_neg(), 3]);
            let mut some: Vec<i64> = (0..100).map(|at| at * 7 % 11).collect();
            some[50] = number;
            assert_comes_back(&some);
            some.iter_mut().for_each(|it| *it = it.wrapping_add(number));
            assert_comes_back(&some);
        }
    }

    assert_comes_back(&[i64::MIN, i64::MAX, i64::MIN, i64::MAX]);
    assert_comes_back(&[i64::MIN; 1000]);
    assert_comes_back(&[i64::MAX, 0, i64::MAX, i64::MAX]);
}

#[test]
fn patches_that_are_far_apart_come_back() {
    for gap in [1, 100, 254, 255, 256, 257, 300, 509, 510, 511] {
        let mut numbers: Vec<i64> = (0..512).map(|at| at * 7919 % 64).collect();
        numbers[gap] = 1 << 30;
        assert_comes_back(&numbers);
        numbers[0] = 1 << 29;
        assert_comes_back(&numbers);
    }
}

/// Generates numbers like those of columns: of some width, in runs, rising, with outliers.
fn pieces() -> impl Strategy<Value = Vec<i64>> {
    let piece = prop_oneof![
        (any::<i64>(), 1_usize..40).prop_map(|(value, times)| vec![value; times]),
        (0_u32..64, vec(any::<i64>(), 1..60))
            .prop_map(|(shift, values)| values.into_iter().map(|value| value >> shift).collect()),
        (any::<i64>(), 0_u32..63, vec(any::<u64>(), 1..60)).prop_map(|(first, shift, steps)| {
            let mut value = first;
            steps
                .into_iter()
                .map(|step| {
                    value = value.saturating_add((step >> shift >> 1) as i64);
                    value
                })
                .collect()
        }),
        (any::<i32>(), vec(0_i64..3, 10..200), any::<u8>(), any::<i64>()).prop_map(
            |(base, mut values, at, outlier)| {
                let at = usize::from(at) % values.len();
                values[at] = outlier >> 20;
                values.into_iter().map(|value| value.wrapping_add(i64::from(base))).collect()
            }
        ),
    ];

    vec(piece, 1..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]
    #[test]
    fn any_numbers_come_back(numbers in pieces()) {
        assert_comes_back(&numbers);
        let positive: Vec<i64> = numbers.iter().map(|number| number & i64::MAX).collect();
        assert_comes_back(&positive);
    }
}
