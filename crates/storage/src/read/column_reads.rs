//! Predicts which column chunks of a row group a reader will need, based on its reads of other row groups.
//!
//! Engines read the same few columns of one row group after another, often one chunk per request. Once a row group
//! has been read, the first read of a chunk of another row group triggers a fetch of its other predicted chunks.
//! For a reader that proceeds from each row group to the next, the following row groups are prefetched as well.

use std::{collections::VecDeque, fmt, mem::take, ops::Range};

/// Finds the column chunks of files. Implemented by a crate that knows their format.
pub trait ColumnLayout: fmt::Debug + Send + Sync {
    /// Returns the extension of the files, without a dot.
    fn extension(&self) -> &'static str;

    /// Returns the number of bytes at the end of a file from which the footer's length can be determined.
    fn end_len(&self) -> u64;

    /// Returns the length of the footer, up to the end of the file; `None` if the file has another format.
    fn footer_len(&self, end: &[u8]) -> Option<u64>;

    /// Returns the byte ranges of the column chunks of each row group, in the order of the columns; `None` if the
    /// footer is invalid.
    fn chunks(&self, footer: &[u8]) -> Option<Vec<Vec<Range<u64>>>>;
}

/// Maximum bytes of a footer that is decoded.
pub(crate) const MAX_FOOTER: u64 = 4 << 20;
/// Maximum chunks of a file whose reads are predicted.
const MAX_CHUNKS: usize = 1 << 14;
/// Number of most recently read row groups that predictions are based on.
const RECENT_GROUPS: usize = 32;
/// Number of recent row groups that are presumed to be in progress: some of their columns may not have been read
/// yet.
const GROUPS_IN_PROGRESS: usize = 2;
/// Maximum row groups that are predicted beyond the current one.
const MAX_FOLLOWING: usize = 4;
/// Maximum reads that are remembered until the column chunks are known.
const MAX_EARLY: usize = 64;
/// Maximum searches in memory for the footer of a file.
const MAX_SEARCHES: u32 = 8;

/// The column chunks of one file and their reads.
#[derive(Debug)]
pub(crate) enum ColumnReads {
    /// The chunks are not known yet. Contains the first reads.
    Unknown {
        early: Vec<Range<u64>>,
        searches: u32,
        is_searching: bool,
    },
    Known(ChunkReads),
    /// Reads are not predicted: the file has fewer than two row groups, too many chunks, or no usable footer.
    None,
}

impl Default for ColumnReads {
    fn default() -> Self {
        Self::Unknown { early: Vec::new(), searches: 0, is_searching: false }
    }
}

impl ColumnReads {
    pub(crate) fn is_known(&self) -> bool {
        matches!(self, Self::Known(_))
    }

    /// Returns whether the caller should look for the chunks now, and [`find`](Self::find) them.
    pub(crate) fn begin_search(&mut self) -> bool {
        match self {
            Self::Unknown { searches, is_searching, .. } if !*is_searching && *searches < MAX_SEARCHES => {
                *searches += 1;
                *is_searching = true;
                true
            }
            _ => false,
        }
    }

    /// Ends an unsuccessful search: the footer is not in memory.
    pub(crate) fn end_search(&mut self) {
        if let Self::Unknown { is_searching, .. } = self {
            *is_searching = false;
        }
    }

    /// Sets the byte ranges of the chunks of each row group; `None` if there are none.
    pub(crate) fn find(&mut self, groups: Option<Vec<Vec<Range<u64>>>>) {
        let early = match self {
            Self::Unknown { early, .. } => take(early),
            Self::Known(_) | Self::None => return,
        };
        *self = match groups.and_then(ChunkReads::new) {
            Some(mut reads) => {
                for range in early {
                    reads.note(&range);
                }
                Self::Known(reads)
            }
            None => Self::None,
        };
    }

    /// Returns whether a chunk begins at `offset`.
    pub(crate) fn begins_chunk(&self, offset: u64) -> bool {
        match self {
            Self::Known(reads) => reads.by_start.binary_search_by_key(&offset, |chunk| chunk.start).is_ok(),
            Self::Unknown { .. } | Self::None => false,
        }
    }

    /// Records a read. Returns the other chunks of a row group that are likely to be read, if this read begins the
    /// row group; `None` for reads that end beyond the last chunk.
    pub(crate) fn note(&mut self, range: &Range<u64>) -> Option<Vec<Range<u64>>> {
        match self {
            Self::Known(reads) => reads.note(range),
            Self::Unknown { early, .. } => {
                if early.len() < MAX_EARLY {
                    early.push(range.clone());
                }
                None
            }
            Self::None => None,
        }
    }

    /// Returns, for each of the next row groups, the chunks that are likely to be read; empty if row groups are
    /// not read in sequence.
    pub(crate) fn following(&self) -> Vec<Vec<Range<u64>>> {
        match self {
            Self::Known(reads) => reads.following(),
            Self::Unknown { .. } | Self::None => Vec::new(),
        }
    }
}

/// The chunks of a file, and the row groups that were read.
#[derive(Debug)]
pub(crate) struct ChunkReads {
    groups: Vec<Vec<Range<u64>>>,
    /// The chunks, by start.
    by_start: Vec<ChunkPosition>,
    /// End of the last chunk. Indexes and the footer follow.
    end: u64,
    is_visited: Vec<bool>,
    /// The most recently begun row groups, newest at the back.
    recent: VecDeque<GroupReads>,
}

#[derive(Clone, Copy, Debug)]
struct ChunkPosition {
    start: u64,
    group: u32,
    column: u32,
}

/// The columns of a row group that have been read.
#[derive(Debug)]
struct GroupReads {
    group: usize,
    is_read: Vec<bool>,
}

impl ChunkReads {
    fn new(groups: Vec<Vec<Range<u64>>>) -> Option<Self> {
        let count = groups.iter().map(Vec::len).sum::<usize>();
        let is_valid = groups.iter().flatten().all(|chunk| chunk.start <= chunk.end);
        if groups.len() < 2 || groups.len().max(count) > MAX_CHUNKS || !is_valid {
            return None;
        }

        let mut by_start = Vec::with_capacity(count);
        for (group, chunks) in groups.iter().enumerate() {
            let positions = chunks.iter().enumerate().map(|(column, chunk)| ChunkPosition {
                start: chunk.start,
                group: group as u32,
                column: column as u32,
            });
            by_start.extend(positions);
        }
        by_start.sort_unstable_by_key(|chunk| chunk.start);
        let end = groups.iter().flatten().map(|chunk| chunk.end).max()?;
        let is_visited = vec![false; groups.len()];

        Some(Self { groups, by_start, end, is_visited, recent: VecDeque::new() })
    }

    /// Records a read. Returns the predicted chunks of the row groups that it begins, except those that it covers;
    /// `None` if it begins no row group.
    ///
    /// A read that ends beyond the last chunk is for the footer: that it covers the last columns of the last row group does not
    /// mean that these will be read in others.
    fn note(&mut self, range: &Range<u64>) -> Option<Vec<Range<u64>>> {
        if range.end > self.end {
            return None;
        }

        let first = self.by_start.partition_point(|chunk| chunk.start < range.start);
        let read: Vec<ChunkPosition> =
            self.by_start.iter().skip(first).take_while(|chunk| chunk.start < range.end).copied().collect();

        let mut predicted: Option<Vec<Range<u64>>> = None;
        let mut is_another_pass = false;
        for ChunkPosition { group, column, .. } in read {
            let (group, column) = (group as usize, column as usize);
            // A read of a small part of a chunk says little about the rest.
            let chunk = self.groups.get(group).and_then(|chunks| chunks.get(column));
            let half = |chunk: &Range<u64>| (chunk.end - chunk.start).div_ceil(2);
            if chunk.is_none_or(|chunk| range.end - chunk.start < half(chunk)) {
                continue;
            }

            if self.is_read_before(group, column) {
                // Another pass over the file. A second one within the same read means that chunks of different row
                // groups alternate.
                if is_another_pass {
                    return None;
                }
                is_another_pass = true;
                self.is_visited.fill(false);
                self.recent.clear();
            }
            if let Some(is_visited) = self.is_visited.get_mut(group).filter(|is_visited| !**is_visited) {
                *is_visited = true;
                predicted.get_or_insert_default().extend(self.predict(group));
                self.begin(group);
            }
            if let Some(is_read) = self.reads_of(group).and_then(|reads| reads.is_read.get_mut(column)) {
                *is_read = true;
            }
        }

        let mut predicted = predicted?;
        predicted.retain(|chunk| chunk.start < range.start || chunk.end > range.end);
        Some(predicted)
    }

    /// Returns the predicted chunks of the row groups after the last one begun. Their number grows with the number
    /// of row groups begun without a gap.
    fn following(&self) -> Vec<Vec<Range<u64>>> {
        let end = self.is_visited.iter().rposition(|is_visited| *is_visited).map_or(0, |last| last + 1);
        let visited = self.is_visited.iter().take(end).rev().take_while(|is_visited| **is_visited).count();
        if visited <= GROUPS_IN_PROGRESS {
            return Vec::new();
        }

        let count = (visited / 2).min(MAX_FOLLOWING);
        let groups = end..end.saturating_add(count).min(self.groups.len());
        groups.map(|group| self.predict(group)).collect()
    }

    fn reads_of(&mut self, group: usize) -> Option<&mut GroupReads> {
        self.recent.iter_mut().rev().find(|reads| reads.group == group)
    }

    /// Returns whether the chunk was read, or belongs to a row group that is no longer among the recent ones.
    fn is_read_before(&mut self, group: usize, column: usize) -> bool {
        self.is_visited.get(group).is_some_and(|is_visited| *is_visited)
            && self
                .reads_of(group)
                .is_none_or(|reads| reads.is_read.get(column).is_some_and(|is_read| *is_read))
    }

    fn begin(&mut self, group: usize) {
        if self.recent.len() == RECENT_GROUPS {
            self.recent.pop_front();
        }
        let columns = self.groups.get(group).map_or(0, Vec::len);
        self.recent.push_back(GroupReads { group, is_read: vec![false; columns] });
    }

    /// Returns the chunks of the columns that were read in at least as many recent row groups as they were skipped
    /// in, by offset. Row groups in progress do not count as skips.
    fn predict(&self, group: usize) -> Vec<Range<u64>> {
        let ended = self.recent.len().saturating_sub(GROUPS_IN_PROGRESS);
        let is_wanted = |column: usize| {
            let was_read = |reads: &GroupReads| reads.is_read.get(column).is_some_and(|is_read| *is_read);
            let read = self.recent.iter().filter(|reads| was_read(reads)).count();
            let not_read = self.recent.iter().take(ended).filter(|reads| !was_read(reads)).count();
            read > 0 && read >= not_read
        };

        let chunks = self.groups.get(group).into_iter().flatten().enumerate();
        let mut wanted: Vec<_> =
            chunks.filter(|(column, _)| is_wanted(*column)).map(|(_, chunk)| chunk.clone()).collect();
        wanted.sort_unstable_by_key(|chunk| chunk.start);
        wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUP: u64 = 100;
    const COLUMNS: u64 = 10;

    /// Returns ten groups of ten chunks of ten bytes.
    fn groups() -> Vec<Vec<Range<u64>>> {
        (0..10).map(|group| (0..COLUMNS).map(|column| chunk(group, column)).collect()).collect()
    }

    fn chunk(group: u64, column: u64) -> Range<u64> {
        let start = 4 + group * GROUP + column * 10;
        start..start + 10
    }

    fn known() -> ChunkReads {
        ChunkReads::new(groups()).unwrap()
    }

    #[test]
    fn the_first_chunk_of_a_row_group_announces_the_columns_that_were_read_of_others() {
        let mut reads = known();
        for column in [4, 6, 5] {
            assert!(
                reads.note(&chunk(0, column)).is_none_or(|others| others.is_empty()),
                "nothing is known yet"
            );
        }
        assert_eq!(reads.note(&chunk(1, 4)), Some(vec![chunk(1, 5), chunk(1, 6)]));
        assert_eq!(reads.note(&chunk(1, 6)), None, "only once");
        assert_eq!(reads.note(&chunk(7, 4)), Some(vec![chunk(7, 5), chunk(7, 6)]));
        assert_eq!(reads.note(&(chunk(3, 4).start..chunk(3, 6).end)), Some(vec![]), "all of them are read");
    }

    #[test]
    fn row_groups_in_progress_do_not_count_against_a_column() {
        let mut reads = known();
        reads.note(&chunk(0, 1));
        reads.note(&chunk(1, 1));
        reads.note(&chunk(0, 2));
        assert_eq!(reads.note(&chunk(2, 1)), Some(vec![chunk(2, 2)]), "group 1 follows");
        assert_eq!(reads.note(&chunk(3, 1)), Some(vec![chunk(3, 2)]));
    }

    #[test]
    fn a_column_that_is_no_longer_read_is_not_predicted_any_more() {
        let mut reads = known();
        reads.note(&chunk(0, 1));
        reads.note(&chunk(0, 2));
        let predicted: Vec<usize> =
            (1..10).map(|group| reads.note(&chunk(group, 1)).unwrap().len()).collect();
        assert_eq!(
            predicted,
            [1, 1, 1, 1, 0, 0, 0, 0, 0],
            "as long as it was read of half of the ended ones"
        );
    }

    #[test]
    fn a_second_pass_with_other_columns_starts_again() {
        let mut reads = known();
        for group in 0..10 {
            reads.note(&chunk(group, 1));
            reads.note(&chunk(group, 2));
        }
        assert_eq!(reads.note(&chunk(0, 1)), Some(vec![]));
        reads.note(&chunk(0, 7));
        assert_eq!(reads.note(&chunk(1, 1)), Some(vec![chunk(1, 7)]));
    }

    #[test]
    fn small_parts_of_chunks_and_other_bytes_predict_nothing() {
        let mut reads = known();
        reads.note(&chunk(0, 1));
        reads.note(&chunk(0, 2));
        for range in [0..4, 104 + 10..104 + 14, 104 + 11..104 + 20, 5_000..6_000] {
            assert_eq!(reads.note(&range), None, "{range:?}");
        }
        assert_eq!(
            reads.note(&(104 + 10..104 + 15)),
            Some(vec![chunk(1, 1), chunk(1, 2)]),
            "the rest of it, too"
        );
    }

    #[test]
    fn the_chunks_that_a_read_of_the_footer_covers_are_not_predicted_in_other_row_groups() {
        let mut reads = known();
        let footer = chunk(9, 5).start..chunk(9, 9).end + 50;
        assert_eq!(reads.note(&footer), None);
        assert_eq!(reads.note(&chunk(0, 1)), Some(vec![]));
        assert_eq!(reads.note(&chunk(1, 1)), Some(vec![]));

        assert_eq!(reads.note(&footer), None, "of another reader, which begins no other pass either");
        assert_eq!(reads.note(&chunk(2, 1)), Some(vec![]));
        assert_eq!(reads.following(), [[chunk(3, 1)]]);

        let mut reads = known();
        reads.note(&(chunk(9, 5).start..chunk(9, 9).end));
        assert_eq!(reads.note(&chunk(0, 1)).map(|chunks| chunks.len()), Some(5), "without the footer");
    }

    #[test]
    fn a_reader_of_one_row_group_after_another_announces_those_that_follow() {
        let mut reads = known();
        let following: Vec<_> = (0..10)
            .map(|group| {
                reads.note(&(chunk(group, 4).start..chunk(group, 5).end));
                reads.following()
            })
            .collect();
        let counts: Vec<usize> = following.iter().map(Vec::len).collect();
        assert_eq!(counts, [0, 0, 1, 2, 2, 3, 3, 2, 1, 0]);
        assert_eq!(following[3], [[chunk(4, 4), chunk(4, 5)], [chunk(5, 4), chunk(5, 5)]]);
    }

    #[test]
    fn row_groups_read_in_any_order_are_followed_once_no_gap_is_left() {
        let mut reads = known();
        let mut following = |group| {
            reads.note(&chunk(group, 1));
            reads.following()
        };
        assert!([2, 4, 1].into_iter().all(|group| following(group).is_empty()));
        assert_eq!(following(3), [[chunk(5, 1)], [chunk(6, 1)]]);
        assert!(following(8).is_empty(), "row group 7 is skipped");
    }

    #[test]
    fn reads_before_the_chunks_are_known_count() {
        let mut reads = ColumnReads::default();
        assert_eq!(reads.note(&chunk(0, 1)), None);
        assert!(reads.begin_search());
        assert!(!reads.begin_search(), "one search at a time");
        reads.note(&chunk(0, 2));
        assert!(!reads.begins_chunk(chunk(0, 1).start));
        reads.find(Some(groups()));
        assert!(reads.begins_chunk(chunk(0, 1).start) && !reads.begins_chunk(chunk(0, 1).start + 1));
        assert_eq!(reads.note(&chunk(1, 1)), Some(vec![chunk(1, 2)]));
        assert!(!reads.begin_search());
    }

    #[test]
    fn a_footer_that_never_arrives_is_given_up() {
        let mut reads = ColumnReads::default();
        let searches = std::iter::repeat_with(|| {
            let begins = reads.begin_search();
            reads.end_search();
            begins
        });
        assert_eq!(searches.take_while(|begins| *begins).take(100).count(), MAX_SEARCHES as usize);
    }

    #[test]
    fn files_with_one_row_group_or_too_many_chunks_are_not_predicted() {
        assert!(ChunkReads::new(vec![vec![0..1]]).is_none());
        assert!(ChunkReads::new(vec![vec![0..1; MAX_CHUNKS / 2 + 1]; 2]).is_none());
        let mut reads = ColumnReads::default();
        reads.find(None);
        assert!(reads.note(&(0..1)).is_none() && !reads.begin_search());
        assert!(ChunkReads::new(vec![vec![]; MAX_CHUNKS + 1]).is_none());
    }

    #[test]
    fn a_read_of_row_groups_whose_chunks_alternate_predicts_nothing() {
        const GROUPS: u64 = RECENT_GROUPS as u64 + 1;
        let chunk = |group, column| {
            let start = (column * GROUPS + group) * 10;
            start..start + 10
        };
        let groups = (0..GROUPS).map(|group| (0..COLUMNS).map(|column| chunk(group, column)).collect());
        let mut reads = ChunkReads::new(groups.collect()).unwrap();
        assert_eq!(reads.note(&(0..GROUPS * COLUMNS * 10)), None);
    }

    #[test]
    fn chunks_that_overlap_or_are_reversed_do_no_harm() {
        assert!(ChunkReads::new(vec![vec![Range { start: 5, end: 2 }], vec![3..3]]).is_none());
        let mut reads = ChunkReads::new(vec![vec![5..5, 0..u64::MAX], vec![3..3, 0..10]]).unwrap();
        for range in [0..10, 0..u64::MAX, 5..6, 3..4, 7..7] {
            reads.note(&range);
        }
    }
}
