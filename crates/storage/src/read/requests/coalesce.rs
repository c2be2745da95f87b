//! Merges nearby byte ranges, so that fewer requests fetch them.

use std::ops::Range;

/// Returns the ranges in order, merging those that are at most `gap` bytes apart and dropping empty ones.
pub(crate) fn merge(ranges: &[Range<u64>], gap: u64) -> Vec<Range<u64>> {
    let mut sorted: Vec<_> = ranges.iter().filter(|range| !range.is_empty()).cloned().collect();
    sorted.sort_by_key(|range| range.start);

    let mut merged: Vec<Range<u64>> = Vec::with_capacity(sorted.len());
    for range in sorted {
        match merged.last_mut() {
            Some(last) if range.start <= last.end.saturating_add(gap) => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn near_ranges_become_one_and_far_ones_do_not() {
        let near = [200_000..200_001, 0..10, 20..30, 5..5];
        assert_eq!(merge(&near, 64 << 10), [0..30, 200_000..200_001]);
        assert_eq!(merge(&[0..10, 11..12], 0), [0..10, 11..12]);
        assert_eq!(merge(&[0..10, 10..12], 0).len(), 1);
        assert_eq!(merge(&[0..100, 5..10], 0).len(), 1);
    }

    proptest! {
        #[test]
        fn every_byte_that_was_asked_for_is_in_one_range(
            ranges in proptest::collection::vec((0u64..1000, 0u64..50), 0..20),
            gap in 0u64..40,
        ) {
            let ranges: Vec<_> = ranges.into_iter().map(|(start, len)| start..start + len).collect();
            let merged = merge(&ranges, gap);
            for range in ranges.iter().filter(|range| !range.is_empty()) {
                let around = merged.iter().filter(|m| m.start <= range.start && range.end <= m.end);
                prop_assert_eq!(around.count(), 1);
            }
            prop_assert!(merged.windows(2).all(|pair| pair[0].end + gap < pair[1].start));
        }
    }
}
