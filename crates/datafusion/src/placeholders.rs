//! Numbers `?` parameters of queries as `$1`, `$2`, … in order, since DataFusion reads only those.

use datafusion::sql::sqlparser::{
    dialect::GenericDialect,
    tokenizer::{Location, Token, Tokenizer},
};

use crate::error::{Error, Result};

/// Replaces each `?` outside of literals, quoted identifiers and comments.
///
/// # Errors
///
/// [`Error::Query`] if the text cannot be tokenized.
pub(crate) fn number_placeholders(sql: &str) -> Result<String> {
    if !sql.contains('?') {
        return Ok(sql.to_owned());
    }

    let tokens = Tokenizer::new(&GenericDialect {}, sql).tokenize_with_location();
    let tokens =
        tokens.map_err(|error| Error::Query { reason: format!("the SQL does not parse: {error}") })?;
    let marks = tokens.iter().filter(|token| is_placeholder(&token.token));
    let mut marks = marks.map(|token| token.span.start).peekable();

    let mut numbered = String::with_capacity(sql.len() + 16);
    let mut number = 0;
    let mut at = Location { line: 1, column: 1 };
    for character in sql.chars() {
        if marks.next_if_eq(&at).is_some() {
            number += 1;
            numbered.push_str(&format!("${number} "));
        } else {
            numbered.push(character);
        }

        if character == '\n' {
            at = Location { line: at.line + 1, column: 1 };
        } else {
            at.column += 1;
        }
    }
    Ok(numbered)
}

/// Returns whether a token begins with a question mark: operators that do are only for types that are not
/// supported here.
fn is_placeholder(token: &Token) -> bool {
    match token {
        Token::Placeholder(text) => text == "?",
        Token::Question
        | Token::QuestionAnd
        | Token::QuestionMarkDash
        | Token::QuestionMarkDashVerticalBar
        | Token::QuestionMarkDoubleVerticalBar
        | Token::QuestionMarkSharp
        | Token::QuestionPipe => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn question_marks_are_numbered_in_their_order() {
        for (sql, numbered) in [
            ("SELECT 1", "SELECT 1"),
            ("SELECT ?", "SELECT $1 "),
            ("SELECT ?,\n ?||'x' FROM t\nWHERE a=?-1", "SELECT $1 ,\n $2 ||'x' FROM t\nWHERE a=$3 -1"),
            (
                "SELECT 'é ?', \"?\", ? /* ? */ -- ?\n LIMIT ?",
                "SELECT 'é ?', \"?\", $1  /* ? */ -- ?\n LIMIT $2 ",
            ),
        ] {
            assert_eq!(number_placeholders(sql).unwrap(), numbered, "{sql}");
        }
        assert!(number_placeholders("SELECT '?").is_err());
    }
}
