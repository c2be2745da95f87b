//! `LIKE` patterns, compiled once: most are an equality, a prefix or a substring.
//!
//! Between two `%` lies a segment of a fixed number of characters. The first is anchored at the text's start and
//! the last at its end; each one between them takes its leftmost match, which leaves the most text for the ones
//! after it.

use super::tokens::{quoted, refuse};
use crate::Result;

/// A compiled pattern.
pub(super) enum LikePattern {
    Anything,
    Equal(String),
    Prefix(String),
    Contains(String),
    Like(LikeMatcher),
}

/// A pattern that is matched segment by segment.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LikeMatcher {
    first: LikeSegment,
    /// Empty if the pattern has no `%`: then `first` is all of it.
    rest: Vec<LikeSegment>,
    ignore_case: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct LikeSegment(Vec<LikeToken>);

#[derive(Clone, Debug, PartialEq)]
enum LikeToken {
    Text(String),
    /// This many arbitrary characters.
    Any(usize),
}

impl LikeMatcher {
    pub(super) fn compile(pattern: &str, ignore_case: bool) -> LikePattern {
        let mut segments = segments(pattern, ignore_case);
        let first = if segments.is_empty() { LikeSegment::default() } else { segments.remove(0) };
        let like = Self { first, rest: segments, ignore_case };
        like.simple().unwrap_or(LikePattern::Like(like))
    }

    fn simple(&self) -> Option<LikePattern> {
        if self.rest.iter().chain([&self.first]).all(|segment| segment.0.is_empty()) && !self.rest.is_empty()
        {
            return Some(LikePattern::Anything);
        }

        let first = self.first.as_text()?;
        match self.rest.as_slice() {
            _ if self.ignore_case => None,
            [] => Some(LikePattern::Equal(first.to_owned())),
            [last] if last.0.is_empty() => Some(LikePattern::Prefix(first.to_owned())),
            [middle, last] if first.is_empty() && last.0.is_empty() => {
                Some(LikePattern::Contains(middle.as_text()?.to_owned()))
            }
            _ => None,
        }
    }

    /// Returns the prefix of all matches.
    pub(crate) fn prefix(&self) -> Option<&str> {
        match self.first.0.first() {
            Some(LikeToken::Text(text)) if !self.ignore_case => Some(text),
            _ => None,
        }
    }

    pub(crate) fn matches(&self, text: &str) -> bool {
        if self.ignore_case { self.matches_exactly(&folded(text)) } else { self.matches_exactly(text) }
    }

    fn matches_exactly(&self, text: &str) -> bool {
        let Some(mut text) = self.first.strip_from(text) else { return false };
        let Some((last, middle)) = self.rest.split_last() else { return text.is_empty() };
        for segment in middle {
            match segment.find_in(text) {
                Some(rest) => text = rest,
                None => return false,
            }
        }

        last.ends(text)
    }
}

impl LikeSegment {
    /// Returns the text of the segment, if it has no wildcard.
    fn as_text(&self) -> Option<&str> {
        match self.0.as_slice() {
            [] => Some(""),
            [LikeToken::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Strips the segment from the beginning of a string.
    fn strip_from<'a>(&self, text: &'a str) -> Option<&'a str> {
        self.0.iter().try_fold(text, |text, piece| match piece {
            LikeToken::Text(wanted) => text.strip_prefix(wanted.as_str()),
            LikeToken::Any(count) => {
                let mut characters = text.chars();
                characters.nth(count - 1)?;
                Some(characters.as_str())
            }
        })
    }

    /// Returns the text after the segment's leftmost occurrence.
    fn find_in<'a>(&self, mut text: &'a str) -> Option<&'a str> {
        loop {
            if let Some(LikeToken::Text(wanted)) = self.0.first() {
                text = text.get(text.find(wanted.as_str())?..)?;
            }
            if let Some(rest) = self.strip_from(text) {
                return Some(rest);
            }

            let mut characters = text.chars();
            characters.next()?;
            text = characters.as_str();
        }
    }

    /// Returns `true` if a string ends with the segment.
    fn ends(&self, text: &str) -> bool {
        if let Some(wanted) = self.as_text() {
            return text.ends_with(wanted);
        }

        let length = self.0.iter().map(|piece| match piece {
            LikeToken::Text(text) => text.chars().count(),
            LikeToken::Any(count) => *count,
        });
        let start = text.char_indices().rev().nth(length.sum::<usize>().saturating_sub(1));
        let tail = start.and_then(|(start, _)| text.get(start..));
        tail.and_then(|tail| self.strip_from(tail)).is_some_and(str::is_empty)
    }
}

/// Splits a pattern at each run of `%`: there is one more segment than there are runs.
fn segments(pattern: &str, ignore_case: bool) -> Vec<LikeSegment> {
    let mut segments = Vec::new();
    let mut pieces: Vec<LikeToken> = Vec::new();
    let mut letters = pattern.chars();

    while let Some(letter) = letters.next() {
        let literal = match letter {
            '%' => {
                // Consecutive `%` count as one.
                if segments.is_empty() || !pieces.is_empty() {
                    segments.push(LikeSegment(std::mem::take(&mut pieces)));
                }
                continue;
            }
            '_' => {
                match pieces.last_mut() {
                    Some(LikeToken::Any(count)) => *count += 1,
                    _ => pieces.push(LikeToken::Any(1)),
                }
                continue;
            }
            '\\' => letters.next().unwrap_or('\\'),
            letter => letter,
        };
        let literal = if ignore_case { fold(literal) } else { literal };
        match pieces.last_mut() {
            Some(LikeToken::Text(text)) => text.push(literal),
            _ => pieces.push(LikeToken::Text(literal.to_string())),
        }
    }

    segments.push(LikeSegment(pieces));
    segments
}

fn folded(text: &str) -> String {
    if text.is_ascii() { text.to_ascii_lowercase() } else { text.chars().map(fold).collect() }
}

/// Folds characters that differ only in case: `ς`, `σ` and `Σ` are one letter. Characters whose other case has several
/// characters are kept.
fn fold(letter: char) -> char {
    let upper = only(letter.to_uppercase()).unwrap_or(letter);
    only(upper.to_lowercase()).unwrap_or(upper)
}

/// Returns the character if there is exactly one.
pub(super) fn only(mut letters: impl Iterator<Item = char>) -> Option<char> {
    let first = letters.next();
    if letters.next().is_none() { first } else { None }
}

/// Rewrites a pattern to use the backslash as its escape.
pub(super) fn with_backslashes(pattern: &str, escape: &str) -> Result<String> {
    let mut escapes = escape.chars();
    let (escape, None) = (escapes.next(), escapes.next()) else {
        return Err(refuse(format!("ESCAPE {}: should be one character", quoted(escape))));
    };

    let mut result = String::with_capacity(pattern.len());
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        if Some(letter) == escape {
            let Some(escaped) = letters.next() else {
                return Err(refuse(format!("{} ends with its escape", quoted(pattern))));
            };
            if matches!(escaped, '%' | '_' | '\\') {
                result.push('\\');
            }
            result.push(escaped);
        } else {
            if letter == '\\' {
                result.push('\\');
            }
            result.push(letter);
        }
    }

    Ok(result)
}
