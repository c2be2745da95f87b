//! Compaction policy of a type, decided from numbers alone.

use stylobate_storage::ByteSize;

/// Maximum number of bases before lookups read too many parts: beyond it they are rewritten regardless of the share.
const MAX_BASES: usize = 8;
/// Number of deltas, patches or deletion sets of a type at which a writer merges the latest.
pub(crate) const MAX_LOOSE: usize = 64;
/// Maximum rows of a merge, which is in memory; larger deltas and patches remain until a rewrite.
const MAX_MERGED: u64 = 1 << 18;
/// Maximum bytes that are merged into one delta or patch.
const MAX_MERGED_BYTES: u64 = 64 << 20;
/// Copies of merged rows that are in memory at once: as read, concatenated, sorted and encoded. Their bytes are limited
/// to this fraction of the memory of a compaction.
const MERGE_COPIES: u64 = 4;

/// Statistics of a type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CompactionStats {
    pub(crate) bases: usize,
    /// Rows of all bases.
    pub(crate) base_rows: u64,
    /// Rows of bases that were deleted or updated, and are still in their files.
    pub(crate) changed_rows: u64,
    pub(crate) deltas: usize,
    pub(crate) delta_rows: u64,
    pub(crate) patches: usize,
    /// Maximum number of sets of deletions of one part.
    pub(crate) sets: usize,
    /// Number of deltas, patches and deletion sets that are inline in records of the log, which cannot be removed as
    /// long as they remain.
    pub(crate) inline: usize,
}

/// Compaction to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompactionAction {
    /// Leaves the type unchanged.
    Nothing,
    /// Merges deltas into few deltas, patches into few patches, and sets of deletions into one set, each in a file.
    Merge,
    /// Rewrites everything as one base.
    Rewrite,
}

impl CompactionStats {
    /// Plans a compaction. Bases are rewritten once rows in deltas and changed rows reach `share` of their rows.
    pub(crate) fn plan(self, share: f64, force: bool) -> CompactionAction {
        let loose = self.changed_rows.saturating_add(self.delta_rows);
        let is_one = self.bases <= 1 && self.deltas == 0 && self.patches == 0 && self.changed_rows == 0;
        let is_much = self.deltas.max(self.patches) > MAX_LOOSE && loose > MAX_MERGED;
        let is_loose = self.deltas.max(self.patches).max(self.sets) > 1 || self.inline > 0;

        if is_one && !is_loose {
            return CompactionAction::Nothing;
        }
        if !is_one && (force || self.bases > MAX_BASES || is_much) {
            return CompactionAction::Rewrite;
        }
        if loose > 0 && loose as f64 >= self.base_rows as f64 * share {
            return CompactionAction::Rewrite;
        }

        if is_loose { CompactionAction::Merge } else { CompactionAction::Nothing }
    }

    /// Plans like [`Self::plan`], but for a writer between its commits: limited to cheap merges.
    pub(crate) fn plan_of_writer(self) -> CompactionAction {
        if self.deltas.max(self.patches).max(self.sets) >= MAX_LOOSE {
            CompactionAction::Merge
        } else {
            CompactionAction::Nothing
        }
    }
}

/// Returns the index of the first delta or patch to merge, by the rows of each: the latest with at most [`MAX_MERGED`]
/// rows in total. For a writer, stops at one that has more than twice the rows of all later ones, so that repeated
/// merges rewrite each row only a few times; this does not apply to the latest [`MAX_LOOSE`] / 2.
pub(crate) fn first_of_latest(
    rows: impl DoubleEndedIterator<Item = u64> + ExactSizeIterator,
    of_writer: bool,
) -> usize {
    let len = rows.len();
    let mut first = len;
    let mut behind = 0_u64;
    for rows in rows.rev() {
        let together = behind.saturating_add(rows);
        let is_enough = of_writer && len - first >= MAX_LOOSE / 2;
        if together > MAX_MERGED || (is_enough && rows / 2 > behind) {
            break;
        }
        behind = together;
        first -= 1;
    }

    first
}

/// Splits the latest deltas or patches into merges by their bytes, from the latest to the earliest. Two neighbouring
/// results together exceed the limit, so that the next merge leaves full ones alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MergeBudget {
    /// Maximum bytes of a merge, unless it has only one part.
    limit: u64,
    of_writer: bool,
    bytes: u64,
}

/// Place of the next earlier part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MergeStep {
    /// It joins the merge of the parts after it.
    Join,
    /// It begins another merge.
    Begin,
    /// It remains, as do all earlier ones.
    Stop,
}

impl MergeBudget {
    /// Returns the budget of a compaction with this memory. A writer, which merges every few dozen commits, reads what
    /// one merge takes, and the part that exceeds it.
    pub(crate) fn new(memory: ByteSize, of_writer: bool) -> Self {
        let limit = MAX_MERGED_BYTES.min(memory.as_u64() / MERGE_COPIES);
        Self { limit, of_writer, bytes: 0 }
    }

    /// Decides on the next earlier part, which has `bytes`.
    pub(crate) fn admit(&mut self, bytes: u64) -> MergeStep {
        let together = self.bytes.saturating_add(bytes);
        if self.bytes == 0 || together <= self.limit {
            self.bytes = together;
            return MergeStep::Join;
        }
        if self.of_writer {
            return MergeStep::Stop;
        }

        self.bytes = bytes;
        MergeStep::Begin
    }

    /// Ends the current merge: the next earlier part cannot join it.
    pub(crate) fn end_merge(&mut self) {
        if !self.of_writer {
            self.bytes = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of parts of each merge, from the latest to the earliest, by the mebibytes of the parts.
    fn merges(of_writer: bool, mebibytes: &[u64]) -> Vec<usize> {
        let mut budget = MergeBudget::new(ByteSize::gib(1), of_writer);
        let mut merges: Vec<usize> = vec![0];
        for bytes in mebibytes.iter().map(|mebibytes| mebibytes << 20) {
            match budget.admit(bytes) {
                MergeStep::Join => {}
                MergeStep::Begin => merges.push(0),
                MergeStep::Stop => break,
            }
            *merges.last_mut().unwrap() += 1;
        }
        merges
    }

    #[test]
    fn a_merge_has_at_most_the_limit_or_a_single_part() {
        assert_eq!(merges(false, &[20, 20, 20, 20, 20]), [3, 2]);
        assert_eq!(merges(false, &[100, 1, 1, 100, 1]), [1, 2, 1, 1]);
        assert_eq!(merges(false, &[60, 4, 1]), [2, 1], "the limit is included");
        assert_eq!(merges(false, &[60, 40, 60, 40]), [1, 1, 1, 1], "results of an earlier merge");
        assert_eq!(merges(true, &[20, 20, 20, 20, 20]), [3]);
        assert_eq!(merges(true, &[100, 1, 1]), [1]);
    }

    #[test]
    fn a_writer_merges_no_more_than_one_merge_takes() {
        for (of_writer, step) in [(false, MergeStep::Join), (true, MergeStep::Stop)] {
            let mut budget = MergeBudget::new(ByteSize::mib(1), of_writer);
            assert_eq!(budget.admit(1 << 18), MergeStep::Join);
            budget.end_merge();
            assert_eq!(budget.admit(1), step);
        }
    }

    #[test]
    fn bases_are_rewritten_where_a_share_of_them_changed_and_small_deltas_become_one() {
        let base = CompactionStats { bases: 1, base_rows: 1_000, ..CompactionStats::default() };
        assert_eq!(base.plan(0.2, true), CompactionAction::Nothing);
        assert_eq!(CompactionStats::default().plan(0.2, true), CompactionAction::Nothing);
        let few = CompactionStats { deltas: 2, delta_rows: 20, ..base };
        assert_eq!(few.plan(0.2, false), CompactionAction::Merge);
        assert_eq!(few.plan(0.2, true), CompactionAction::Rewrite);
        assert_eq!(
            CompactionStats { deltas: 1, delta_rows: 20, ..base }.plan(0.2, false),
            CompactionAction::Nothing
        );
        assert_eq!(
            CompactionStats { deltas: 1, delta_rows: 20, inline: 1, ..base }.plan(0.2, false),
            CompactionAction::Merge
        );
        assert_eq!(CompactionStats { changed_rows: 190, ..few }.plan(0.2, false), CompactionAction::Rewrite);
        assert_eq!(CompactionStats { changed_rows: 200, ..base }.plan(0.2, false), CompactionAction::Rewrite);
        assert_eq!(
            CompactionStats { deltas: 1, delta_rows: 1, ..CompactionStats::default() }.plan(0.2, false),
            CompactionAction::Rewrite
        );
        assert_eq!(CompactionStats { bases: 9, ..base }.plan(0.2, false), CompactionAction::Rewrite);

        let large = CompactionStats {
            bases: 1,
            base_rows: 1 << 30,
            deltas: 65,
            delta_rows: 1 << 20,
            ..CompactionStats::default()
        };
        assert_eq!(large.plan(0.2, false), CompactionAction::Rewrite, "more than is merged in memory");
        assert_eq!(CompactionStats { delta_rows: 65, ..large }.plan(0.2, false), CompactionAction::Merge);
        assert_eq!(
            CompactionStats { patches: 2, changed_rows: 2, ..base }.plan(0.2, false),
            CompactionAction::Merge
        );
        assert_eq!(
            CompactionStats { sets: 2, changed_rows: 2, ..base }.plan(0.2, false),
            CompactionAction::Merge
        );

        // A base without deletions whose sets are still in the log.
        assert_eq!(CompactionStats { sets: 1, inline: 1, ..base }.plan(0.2, true), CompactionAction::Merge);
        assert_eq!(CompactionStats { sets: 1, ..base }.plan(0.2, true), CompactionAction::Nothing);
    }

    #[test]
    fn a_writer_merges_the_latest_and_writes_no_row_often() {
        assert_eq!(
            CompactionStats { deltas: 63, ..CompactionStats::default() }.plan_of_writer(),
            CompactionAction::Nothing
        );
        assert_eq!(
            CompactionStats { patches: 64, ..CompactionStats::default() }.plan_of_writer(),
            CompactionAction::Merge
        );

        let first = |rows: &[u64]| first_of_latest(rows.iter().copied(), true);
        assert_eq!(first(&[]), 0);
        let ones = [1; 40];
        assert_eq!(first(&[&[100_000, 5], &ones[..]].concat()), 1, "what is small, and nothing else");
        assert_eq!(first_of_latest([&[100_000, 5], &ones[..]].concat().into_iter(), false), 0);
        assert_eq!(first(&[20_000, 5_000, 20_000, 5_000]), 0, "some, whatever their rows");
        assert_eq!(first(&[1, 1, 1 << 18]), 2, "what fits into memory");
        assert_eq!(first(&[1 << 21]), 1);

        let mut deltas = Vec::new();
        let mut written = 0;
        let mut max_deltas = 0;
        for commit in 0..100_000 {
            deltas.push(1 + commit % 2);
            if deltas.len() >= MAX_LOOSE {
                let merged = deltas.split_off(first(&deltas)).iter().sum();
                written += merged;
                deltas.push(merged);
                max_deltas = max_deltas.max(deltas.len());
            }
        }
        assert!(max_deltas < 16 && written < 1_500_000, "{max_deltas} deltas, {written} rows");
    }
}
