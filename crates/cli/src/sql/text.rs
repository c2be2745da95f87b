//! The text of statements as it is typed: where one ends, and the word at the cursor.

/// Returns whether a text ends a statement: with a semicolon that is not within quotes or a comment.
pub(super) fn is_complete(text: &str) -> bool {
    let mut is_ended = false;
    let mut place = Place::Code;
    let mut letters = text.chars().peekable();

    while let Some(letter) = letters.next() {
        let (next, is_code) = match (place, letter) {
            (Place::Code, '\'' | '"') => (Place::Quoted(letter), true),
            (Place::Code, '-') if letters.next_if_eq(&'-').is_some() => (Place::Line, false),
            (Place::Code, '/') if letters.next_if_eq(&'*').is_some() => (Place::Block, false),
            (Place::Quoted(quote), letter) if quote == letter => (Place::Code, true),
            (Place::Line, '\n') => (Place::Code, false),
            (Place::Block, '*') if letters.next_if_eq(&'/').is_some() => (Place::Code, false),
            (Place::Code | Place::Quoted(_), _) => (place, true),
            (Place::Line | Place::Block, _) => (place, false),
        };
        if is_code && !letter.is_whitespace() {
            is_ended = letter == ';' && matches!(place, Place::Code);
        }
        place = next;
    }
    is_ended && !matches!(place, Place::Quoted(_) | Place::Block)
}

/// Returns the start of the word that ends at the end of a line, and whether the line ends within single quotes.
pub(super) fn word_start(line: &str) -> (usize, bool) {
    let is_quoted = line.matches('\'').count() % 2 == 1;
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    let start = line.char_indices().rev().find(|(_, letter)| !is_part(*letter));
    (start.map_or(0, |(at, letter)| at + letter.len_utf8()), is_quoted)
}

/// Part of a statement.
#[derive(Clone, Copy)]
enum Place {
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
