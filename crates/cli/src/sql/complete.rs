//! Completion at the prompt: keywords, functions, tables and columns, and paths within quotes.

use std::sync::{Arc, Mutex, PoisonError};

use rustyline::{
    Context, Helper, Result,
    completion::{Completer, FilenameCompleter, Pair},
    highlight::Highlighter,
    hint::Hinter,
    validate::Validator,
};

use super::text::word_start;

/// Keywords that begin statements or are frequent in them.
const KEYWORDS: [&str; 48] = [
    "ALL",
    "ANALYZE",
    "AND",
    "AS",
    "ASC",
    "BETWEEN",
    "BY",
    "CASE",
    "CAST",
    "CREATE",
    "CROSS",
    "DESC",
    "DESCRIBE",
    "DISTINCT",
    "ELSE",
    "END",
    "EXCEPT",
    "EXISTS",
    "EXPLAIN",
    "FROM",
    "FULL",
    "GROUP",
    "HAVING",
    "IN",
    "INNER",
    "INTERSECT",
    "IS",
    "JOIN",
    "LEFT",
    "LIKE",
    "LIMIT",
    "NOT",
    "NULL",
    "OFFSET",
    "ON",
    "OR",
    "ORDER",
    "OVER",
    "PARTITION",
    "RIGHT",
    "SELECT",
    "SHOW",
    "TABLES",
    "THEN",
    "UNION",
    "USING",
    "WHEN",
    "WHERE",
];

/// Words known to a session, shared with the thread that reads lines.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownWords(Arc<Mutex<Vec<String>>>);

impl KnownWords {
    /// Replaces the words.
    pub(super) fn set(&self, words: Vec<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = words;
    }

    /// Returns the words that begin with a prefix, ignoring case; keywords are in upper case.
    fn beginning_with(&self, prefix: &str) -> Vec<String> {
        let begins =
            |word: &str| word.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let keywords = KEYWORDS.iter().map(|word| (*word).to_owned());
        let mut words: Vec<String> =
            known.iter().cloned().chain(keywords).filter(|word| begins(word)).collect();
        words.sort();
        words.dedup();
        words
    }
}

/// Line editor helper that completes the line being typed.
pub(super) struct SqlHelper {
    words: KnownWords,
    paths: FilenameCompleter,
}

impl SqlHelper {
    pub(super) fn new(words: KnownWords) -> Self {
        Self { words, paths: FilenameCompleter::new() }
    }
}

impl Completer for SqlHelper {
    type Candidate = Pair;

    fn complete(&self, line: &str, position: usize, context: &Context<'_>) -> Result<(usize, Vec<Pair>)> {
        let before = line.get(..position).unwrap_or(line);
        let (start, is_quoted) = word_start(before);
        if is_quoted {
            return self.paths.complete(line, position, context);
        }
        let prefix = before.get(start..).unwrap_or_default();
        if prefix.is_empty() {
            return Ok((start, Vec::new()));
        }

        let pair = |word: String| Pair { display: word.clone(), replacement: word };
        Ok((start, self.words.beginning_with(prefix).into_iter().map(pair).collect()))
    }
}

impl Hinter for SqlHelper {
    type Hint = String;
}

impl Highlighter for SqlHelper {}
impl Validator for SqlHelper {}
impl Helper for SqlHelper {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_completed_in_any_case() {
        let words = KnownWords::default();
        words.set(vec!["l_shipmode".to_owned(), "lineitem".to_owned()]);
        assert_eq!(words.beginning_with("li"), ["LIKE", "LIMIT", "lineitem"]);
        assert_eq!(words.beginning_with("L_"), ["l_shipmode"]);
        assert!(words.beginning_with("zebra").is_empty());
    }
}
