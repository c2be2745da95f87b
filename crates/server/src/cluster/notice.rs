//! Suppresses repeated log lines: a line is logged when it is new, and again at most every ten minutes.

use std::time::{Duration, Instant};

/// Time after which an unchanged line is logged again.
const REPEAT_AFTER: Duration = Duration::from_secs(10 * 60);

/// The last line logged about one subject.
#[derive(Clone, Debug, Default)]
pub(crate) struct RepeatedNotice {
    last: Option<(String, Instant)>,
}

impl RepeatedNotice {
    /// Returns true if the line is due now; the caller must then log it.
    pub(crate) fn is_due(&mut self, line: &str, now: Instant) -> bool {
        let is_recent =
            |(last, at): &(String, Instant)| last == line && now.duration_since(*at) < REPEAT_AFTER;
        if self.last.as_ref().is_some_and(is_recent) {
            return false;
        }
        self.last = Some((line.to_owned(), now));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_written_when_it_is_new_and_after_a_while() {
        let start = Instant::now();
        let mut notice = RepeatedNotice::default();
        let mut due = |line, minutes: u64| notice.is_due(line, start + Duration::from_secs(60 * minutes));
        assert_eq!([due("a", 0), due("a", 1), due("b", 1), due("b", 2)], [true, false, true, false]);
        assert_eq!([due("b", 10), due("b", 11)], [false, true]);
    }
}
