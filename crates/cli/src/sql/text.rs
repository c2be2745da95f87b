//! Lexical analysis of statements being typed: finds the end of a statement, and the word at the cursor.

/// Returns true if the text ends a statement, with a semicolon that is not within quotes or a comment.
pub(super) fn is_complete(text: &str) -> bool {
    let mut is_ended = false;
    let mut state = LexState::Code;
    let mut letters = text.chars().peekable();

    while let Some(letter) = letters.next() {
        let (next, is_code) = match (state, letter) {
            (LexState::Code, '\'' | '"') => (LexState::Quoted(letter), true),
            (LexState::Code, '-') if letters.next_if_eq(&'-').is_some() => (LexState::Line, false),
            (LexState::Code, '/') if letters.next_if_eq(&'*').is_some() => (LexState::Block, false),
            (LexState::Quoted(quote), letter) if quote == letter => (LexState::Code, true),
            (LexState::Line, '\n') => (LexState::Code, false),
            (LexState::Block, '*') if letters.next_if_eq(&'/').is_some() => (LexState::Code, false),
            (LexState::Code | LexState::Quoted(_), _) => (state, true),
            (LexState::Line | LexState::Block, _) => (state, false),
        };
        if is_code && !letter.is_whitespace() {
            is_ended = letter == ';' && matches!(state, LexState::Code);
        }
        state = next;
    }
    is_ended && !matches!(state, LexState::Quoted(_) | LexState::Block)
}

/// Returns the start of the word at the end of a line, and whether the line ends within single quotes.
pub(super) fn word_start(line: &str) -> (usize, bool) {
    let is_quoted = line.matches('\'').count() % 2 == 1;
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    let start = line.char_indices().rev().find(|(_, letter)| !is_part(*letter));
    (start.map_or(0, |(at, letter)| at + letter.len_utf8()), is_quoted)
}

/// State of the lexer.
#[derive(Clone, Copy)]
enum LexState {
    Code,
    Quoted(char),
    Line,
    Block,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_ends_with_a_semicolon_outside_of_quotes_and_comments() {
        for text in ["SELECT 1;", "SELECT ';' ;\n", "SELECT 1; -- done", "SELECT 'it''s'; /* ; */ "] {
            assert!(is_complete(text), "{text}");
        }
        for text in [
            "",
            "SELECT 1",
            "SELECT ';",
            "SELECT \";",
            "-- ;",
            "/* ;",
            "SELECT 1; SELECT",
            "SELECT /* ; */ 1",
        ] {
            assert!(!is_complete(text), "{text}");
        }
    }

    #[test]
    fn the_word_at_the_end_is_found() {
        assert_eq!(word_start("SELECT l_ship"), (7, false));
        assert_eq!(word_start("SELECT "), (7, false));
        assert_eq!(word_start("FROM 'data/a"), (11, true));
        assert_eq!(word_start("grün"), (0, false));
    }
}
