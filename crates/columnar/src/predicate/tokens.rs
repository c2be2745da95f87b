//! The tokens of a condition, and errors of unexpected ones.

use sqlparser::{
    dialect::GenericDialect,
    tokenizer::{Token, Tokenizer},
};

use crate::{Error, Result};

/// Maximum nesting depth of parentheses, NOT, signs and casts.
const MAX_DEPTH: usize = 64;
/// Maximum characters of SQL that an error quotes.
const MAX_QUOTED: usize = 60;

/// Words that name columns only if quoted.
const RESERVED: [&str; 22] = [
    "ALL", "AND", "ANY", "BETWEEN", "CASE", "CAST", "COLLATE", "ELSE", "END", "ESCAPE", "EXISTS", "FALSE",
    "ILIKE", "IN", "IS", "LIKE", "NOT", "NULL", "OR", "SELECT", "TRUE", "TRY_CAST",
];

pub(super) fn is_reserved(word: &str) -> bool {
    RESERVED.iter().any(|reserved| reserved.eq_ignore_ascii_case(word))
}

pub(super) fn refuse(reason: impl Into<String>) -> Error {
    Error::Predicate { reason: reason.into() }
}

/// Quotes a piece of SQL on one line, truncated if it is long.
pub(super) fn quoted(piece: impl ToString) -> String {
    let piece = piece.to_string();
    let short: String = piece.chars().take(MAX_QUOTED).collect();
    let dots = if short.len() < piece.len() { "…" } else { "" };
    format!("`{}{dots}`", short.replace(char::is_control, " "))
}

/// Parser of a condition, with its position among the tokens.
pub(super) struct PredicateParser {
    tokens: Vec<Token>,
    /// Index of the next token.
    pub(super) next: usize,
    depth: usize,
}

impl PredicateParser {
    pub(super) fn new(sql: &str) -> Result<Self> {
        let tokens = Tokenizer::new(&GenericDialect {}, sql)
            .tokenize()
            .map_err(|error| refuse(format!("{} in {}", error.message, quoted(sql))))?;
        let tokens = tokens.into_iter().filter(|token| !matches!(token, Token::Whitespace(_))).collect();
        Ok(Self { tokens, next: 0, depth: 0 })
    }

    pub(super) fn skip(&mut self) {
        self.next += 1;
    }

    pub(super) fn peek(&self) -> Option<&Token> {
        self.peek_at(0)
    }

    /// Returns the token `ahead` tokens after the next one.
    pub(super) fn peek_at(&self, ahead: usize) -> Option<&Token> {
        self.tokens.get(self.next + ahead)
    }

    /// Returns the unquoted word `ahead` tokens after the next one.
    pub(super) fn word_ahead(&self, ahead: usize) -> Option<&str> {
        match self.peek_at(ahead)? {
            Token::Word(word) if word.quote_style.is_none() => Some(&word.value),
            _ => None,
        }
    }

    pub(super) fn at_word(&self, wanted: &str) -> bool {
        self.word_ahead(0).is_some_and(|word| word.eq_ignore_ascii_case(wanted))
    }

    pub(super) fn eat_word(&mut self, wanted: &str) -> bool {
        let found = self.at_word(wanted);
        self.next += usize::from(found);
        found
    }

    pub(super) fn eat(&mut self, wanted: &Token) -> bool {
        let found = self.peek() == Some(wanted);
        self.next += usize::from(found);
        found
    }

    pub(super) fn expect(&mut self, wanted: &Token) -> Result<()> {
        if self.eat(wanted) { Ok(()) } else { Err(self.unexpected(&quoted(wanted))) }
    }

    pub(super) fn expect_word(&mut self, wanted: &str) -> Result<()> {
        if self.eat_word(wanted) { Ok(()) } else { Err(self.unexpected(wanted)) }
    }

    pub(super) fn unexpected(&self, wanted: &str) -> Error {
        match self.peek() {
            Some(token) => refuse(format!("{} where {wanted} should be", quoted(token))),
            None => refuse(format!("it ends where {wanted} should be")),
        }
    }

    /// Parses a nested construct. Fails if it nests too deeply.
    pub(super) fn nested<T>(
        &mut self,
        levels: usize,
        read: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        if self.depth + levels > MAX_DEPTH {
            return Err(refuse(format!("it nests deeper than {MAX_DEPTH} levels")));
        }
        self.depth += levels;
        let result = read(self);
        self.depth -= levels;
        result
    }
}
