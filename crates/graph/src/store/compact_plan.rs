//! What is to be compacted of a type: decided from numbers alone.

/// Parts beyond which a lookup asks too many: they become one whatever their share.
const MOST_BASES: usize = 8;
/// Patches are looked through for each vertex.
const MOST_PATCHES: usize = 16;

/// What there is of a type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Parts {
    pub(super) bases: usize,
    /// Rows of all bases.
    pub(super) base_rows: u64,
    /// Rows of bases that are gone or other by now, and are still in their files.
    pub(super) changed_rows: u64,
    pub(super) deltas: usize,
    pub(super) delta_rows: u64,
    pub(super) patches: usize,
}

/// What is done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plan {
    /// It is well as it is.
    Nothing,
    /// Deltas become one delta.
    MergeDeltas,
    /// All becomes one base.
    Rewrite,
}

impl Parts {
    /// `share` is how much of the rows of bases may lie in deltas or have changed before they are rewritten.
    pub(super) fn plan(self, share: f64, force: bool) -> Plan {
        let loose = self.changed_rows.saturating_add(self.delta_rows);
        let is_one = self.bases <= 1 && self.deltas == 0 && self.patches == 0 && self.changed_rows == 0;
        let many = self.bases > MOST_BASES || self.patches > MOST_PATCHES;
        match () {
            () if is_one => Plan::Nothing,
            () if force || many => Plan::Rewrite,
            () if loose > 0 && loose as f64 >= self.base_rows as f64 * share => Plan::Rewrite,
            () if self.deltas > 1 => Plan::MergeDeltas,
            () => Plan::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bases_are_rewritten_where_a_share_of_them_changed_and_small_deltas_become_one() {
        let base = Parts { bases: 1, base_rows: 1_000, ..Parts::default() };
        assert_eq!(base.plan(0.2, true), Plan::Nothing);
        assert_eq!(Parts::default().plan(0.2, true), Plan::Nothing);
        let few = Parts { deltas: 2, delta_rows: 20, ..base };
        assert_eq!(few.plan(0.2, false), Plan::MergeDeltas);
        assert_eq!(few.plan(0.2, true), Plan::Rewrite);
        assert_eq!(Parts { deltas: 1, delta_rows: 20, ..base }.plan(0.2, false), Plan::Nothing);
        assert_eq!(Parts { changed_rows: 190, ..few }.plan(0.2, false), Plan::Rewrite);
        assert_eq!(Parts { changed_rows: 200, ..base }.plan(0.2, false), Plan::Rewrite);
        assert_eq!(Parts { deltas: 1, delta_rows: 1, ..Parts::default() }.plan(0.2, false), Plan::Rewrite);
        assert_eq!(Parts { bases: 9, ..base }.plan(0.2, false), Plan::Rewrite);
        assert_eq!(Parts { patches: 17, ..base }.plan(0.2, false), Plan::Rewrite);
    }
}
