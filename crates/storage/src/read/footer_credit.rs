//! Credit for fetching the footer of a file along with a HEAD, earned as clients read footers after HEADs.
//!
//! Tools that synchronize buckets send a HEAD for each object without reading any.

use std::sync::atomic::{AtomicU32, Ordering};

const INITIAL: u32 = 64;
const MAX: u32 = 256;
/// Credit that a read of a footer earns; a HEAD that fetches one costs 1.
const EARNED: u32 = 2;

/// The number of footers that may be fetched before one is read.
#[derive(Debug)]
pub(crate) struct FooterCredit(AtomicU32);

impl Default for FooterCredit {
    fn default() -> Self {
        Self(AtomicU32::new(INITIAL))
    }
}

impl FooterCredit {
    /// Spends credit for one footer; false if there is none.
    pub(crate) fn spend(&self) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |credit| credit.checked_sub(1)).is_ok()
    }

    /// Records the read of a footer.
    pub(crate) fn earn(&self) {
        if self.0.load(Ordering::Relaxed) < MAX {
            self.0.fetch_add(EARNED, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_without_reads_use_the_credit_up_and_reads_restore_it() {
        let credit = FooterCredit::default();
        assert_eq!((0..1000).filter(|_| credit.spend()).count() as u32, INITIAL);
        credit.earn();
        assert_eq!((0..1000).filter(|_| credit.spend()).count() as u32, EARNED);
        (0..1000).for_each(|_| credit.earn());
        assert_eq!((0..1000).filter(|_| credit.spend()).count() as u32, MAX);
    }
}
