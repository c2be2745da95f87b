//! Merges the missing pages of a read into few requests: near ones together, none larger than a limit.

use std::ops::Range;

/// What a request may look like, in pages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Most pages of one request; at least 1.
    pub(crate) max_pages: u32,
    /// Most pages that nobody asked for between two that somebody did, if that saves a request.
    pub(crate) max_gap: u32,
}

/// The requests that bring all of `missing` (ascending, no page twice). `fetchable` says whether a page that lies
/// between two missing ones may be fetched as well; a page that is cached or on its way is never asked for again.
pub(crate) fn runs(missing: &[u32], limits: Limits, fetchable: impl Fn(u32) -> bool) -> Vec<Range<u32>> {
    let mut runs: Vec<Range<u32>> = Vec::new();
    for &page in missing {
        if let Some(last) = runs.last_mut() {
            let near = page - last.end <= limits.max_gap;
            let small = page - last.start < limits.max_pages;
            if near && small && (last.end..page).all(&fetchable) {
                last.end = page + 1;
                continue;
            }
        }
        runs.push(page..page + 1);
    }
    runs
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: Limits = Limits { max_pages: 8, max_gap: 2 };

    #[test]
    fn neighbours_become_one_request_up_to_the_limit() {
        let missing: Vec<u32> = (0..20).collect();
        assert_eq!(runs(&missing, LIMITS, |_| true), [0..8, 8..16, 16..20]);
    }

    #[test]
    fn a_small_gap_is_bridged_and_a_large_one_is_not() {
        assert_eq!(runs(&[1, 4], LIMITS, |_| true), vec![1..5]);
        assert_eq!(runs(&[1, 5], LIMITS, |_| true), [1..2, 5..6]);
    }

    #[test]
    fn a_gap_that_is_cached_is_not_fetched_again() {
        assert_eq!(runs(&[1, 3], LIMITS, |page| page != 2), [1..2, 3..4]);
    }

    proptest! {
        #[test]
        fn every_missing_page_is_in_one_request(
            missing in proptest::collection::btree_set(0u32..200, 0..60),
            cached in proptest::collection::btree_set(0u32..200, 0..60),
            max_pages in 1u32..10,
            max_gap in 0u32..5,
        ) {
            let missing: Vec<u32> = missing.difference(&cached).copied().collect();
            let runs = runs(&missing, Limits { max_pages, max_gap }, |page| !cached.contains(&page));
            for page in &missing {
                prop_assert_eq!(runs.iter().filter(|run| run.contains(page)).count(), 1);
            }
            for run in &runs {
                prop_assert!(run.len() as u32 <= max_pages);
                prop_assert!(run.clone().all(|page| !cached.contains(&page)));
                prop_assert!(missing.contains(&run.start) && missing.contains(&(run.end - 1)));
            }
        }
    }
}
