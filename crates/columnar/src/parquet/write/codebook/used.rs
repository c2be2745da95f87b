//! Set of the dictionary codes that occur: one bit each.

/// Bits of a word.
const WORD: usize = u64::BITS as usize;

/// Set of codes.
#[derive(Default)]
pub(crate) struct CodeSet(Vec<u64>);

impl CodeSet {
    /// Adds codes, all less than `end`.
    pub(crate) fn add(&mut self, codes: &[u32], end: usize) {
        self.0.resize(self.0.len().max(end.div_ceil(WORD)), 0);
        for code in codes {
            if let Some(word) = self.0.get_mut(*code as usize / WORD) {
                *word |= 1 << (*code as usize % WORD);
            }
        }
    }

    /// Adds all codes of another set.
    pub(crate) fn join(&mut self, other: &Self) {
        self.0.resize(self.0.len().max(other.0.len()), 0);
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word |= other);
    }

    pub(crate) fn clear(&mut self) {
        self.0.fill(0);
    }

    pub(crate) fn has(&self, code: u32) -> bool {
        self.0.get(code as usize / WORD).is_some_and(|word| word >> (code as usize % WORD) & 1 == 1)
    }

    pub(crate) fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Returns the codes, ascending.
    #[inline(always)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        self.0.iter().enumerate().flat_map(|(at, word)| {
            let rest = |word: &u64| Some(word & (word - 1)).filter(|word| *word != 0);
            let words = std::iter::successors(Some(*word).filter(|word| *word != 0), rest);
            words.map(move |word| (at * WORD) as u32 + word.trailing_zeros())
        })
    }
}
