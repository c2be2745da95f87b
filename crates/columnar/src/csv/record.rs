//! Splits CSV into records and fields. Memory is bounded by the largest record.
//!
//! A line ends with a line feed, a carriage return, or both.

use std::{
    io::{self, Read},
    ops::Range,
};

/// Bytes per read.
const READ_BYTES: usize = 256 << 10;
/// UTF-8 byte order mark, which some programs write.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Special characters, and the size limit of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CsvDialect {
    pub(crate) delimiter: u8,
    /// `None`: quotes have no meaning.
    pub(crate) quote: Option<u8>,
    /// Within quotes, escapes the next byte. A doubled quote is always an escaped quote as well.
    pub(crate) escape: Option<u8>,
    /// Maximum bytes of the fields of one record.
    pub(crate) max_record_bytes: usize,
}

impl CsvDialect {
    /// 16 MiB.
    pub(crate) const MAX_RECORD_BYTES: usize = 16 << 20;

    /// Returns the dialect with this delimiter, whose quotes are `"`, doubled within quotes.
    pub(crate) fn with_delimiter(delimiter: u8) -> Self {
        Self { delimiter, quote: Some(b'"'), escape: None, max_record_bytes: Self::MAX_RECORD_BYTES }
    }

    /// Fails with a reason if the special characters are ambiguous.
    pub(crate) fn check(&self) -> Result<(), String> {
        let given = [("delimiter", Some(self.delimiter)), ("quote", self.quote), ("escape", self.escape)];
        for (name, byte) in given {
            if matches!(byte, Some(b'\n' | b'\r')) {
                return Err(format!("{name}: the end of a line cannot be one"));
            }
        }

        if self.quote == Some(self.delimiter) || self.escape == Some(self.delimiter) {
            return Err("delimiter: it is the quote or the escape character too".to_owned());
        }
        if self.escape.is_some() && self.quote.is_none() {
            return Err("escape: it has a meaning within quotes only: give a quote too".to_owned());
        }

        Ok(())
    }
}

/// Notation of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CsvFieldKind {
    /// Nothing at all: null.
    Missing,
    /// Without quotes.
    Bare,
    /// Within quotes.
    Quoted,
}

/// Error of reading the next record.
#[derive(Debug)]
pub(crate) enum RecordError {
    /// The input failed.
    Read(io::Error),
    /// The text is not CSV.
    Syntax {
        /// The line, from 1.
        line: u64,
        /// Reason of the error.
        reason: String,
    },
}

/// The records of an input, one after another.
#[derive(Debug)]
pub(crate) struct CsvRecords<R> {
    input: R,
    buffer: Vec<u8>,
    /// Unparsed part of the buffer.
    unread: Range<usize>,
    has_begun: bool,
    record: CsvRecordParser,
    bytes_read: u64,
}

impl<R: Read> CsvRecords<R> {
    pub(crate) fn new(input: R, dialect: CsvDialect) -> Self {
        let record = CsvRecordParser::new(dialect);
        Self { input, buffer: Vec::new(), unread: 0..0, has_begun: false, record, bytes_read: 0 }
    }

    /// Reads up to the end of the next record. Returns `false` if there was none.
    pub(crate) fn next(&mut self) -> Result<bool, RecordError> {
        self.record.begin();
        loop {
            let bytes = self.buffer.get(self.unread.clone()).unwrap_or_default();
            let (taken, has_ended) = self.record.push(bytes)?;
            self.unread.start += taken;
            if has_ended {
                return Ok(true);
            }

            if !self.fill()? {
                return self.record.end();
            }
        }
    }

    /// Returns the number of fields of the current record.
    pub(crate) fn len(&self) -> usize {
        self.record.ends.len()
    }

    /// Returns the fields of the current record, without quotes.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (CsvFieldKind, &[u8])> {
        let mut start = 0;
        self.record.ends.iter().map(move |(end, kind)| {
            let field = self.record.bytes.get(start..*end).unwrap_or_default();
            start = *end;
            (*kind, field)
        })
    }

    /// Returns `true` if the current record is an empty line.
    pub(crate) fn is_blank(&self) -> bool {
        matches!(self.record.ends.as_slice(), [(_, CsvFieldKind::Missing)])
    }

    /// Returns the line on which the current record begins, from 1.
    pub(crate) fn first_line(&self) -> u64 {
        self.record.first_line
    }

    /// Returns the approximate bytes of all records so far.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.bytes_read.saturating_sub(self.unread.len() as u64)
    }

    /// Reads more input. Returns `false` at its end.
    fn fill(&mut self) -> Result<bool, RecordError> {
        if self.buffer.is_empty() {
            self.buffer = vec![0; READ_BYTES];
        }

        let mut count = read(&mut self.input, &mut self.buffer)?;
        if self.has_begun {
            self.unread = 0..count;
        } else {
            self.has_begun = true;
            while count > 0 && count < BYTE_ORDER_MARK.len() {
                match read(&mut self.input, self.buffer.get_mut(count..).unwrap_or_default())? {
                    0 => break,
                    more => count += more,
                }
            }

            let has_mark = self.buffer.get(..count).is_some_and(|bytes| bytes.starts_with(BYTE_ORDER_MARK));
            let start = if has_mark { BYTE_ORDER_MARK.len() } else { 0 };
            self.unread = start..count;
        }

        self.bytes_read += count as u64;
        Ok(count > 0)
    }
}

fn read(input: &mut impl Read, to: &mut [u8]) -> Result<usize, RecordError> {
    loop {
        match input.read(to) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read.map_err(RecordError::Read),
        }
    }
}

/// Incremental parser of one record.
#[derive(Debug)]
struct CsvRecordParser {
    dialect: CsvDialect,
    bytes: Vec<u8>,
    /// End of each field.
    ends: Vec<(usize, CsvFieldKind)>,
    state: CsvFieldState,
    /// The line of the next byte.
    line: u64,
    first_line: u64,
    /// The line of the quote that opened last.
    quote_line: u64,
    /// True if the previous byte is a carriage return, so that a line feed belongs to the same line end.
    after_return: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CsvFieldState {
    /// Before the first byte of a field.
    Start,
    Bare,
    Quoted,
    /// After an escape character within quotes.
    Escaped,
    /// After a quote within quotes: the end of the field, or the first of two.
    Quote,
}

impl CsvRecordParser {
    fn new(dialect: CsvDialect) -> Self {
        Self {
            dialect,
            bytes: Vec::new(),
            ends: Vec::new(),
            state: CsvFieldState::Start,
            line: 1,
            first_line: 1,
            quote_line: 1,
            after_return: false,
        }
    }

    fn begin(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.state = CsvFieldState::Start;
        self.first_line = self.line;
    }

    /// Consumes bytes up to the end of the record. Returns their number, and whether the record ends there.
    fn push(&mut self, bytes: &[u8]) -> Result<(usize, bool), RecordError> {
        let CsvDialect { delimiter, quote, escape, .. } = self.dialect;
        let mut at = 0;
        // The rest of the line end of the previous record.
        let is_at_start = self.state == CsvFieldState::Start && self.ends.is_empty();
        if is_at_start && self.after_return && bytes.first() == Some(&b'\n') {
            at = 1;
            self.after_return = false;
        }
        while let Some(byte) = bytes.get(at).copied() {
            let rest = bytes.get(at..).unwrap_or_default();
            at += 1;
            self.state = match self.state {
                // If the escape character is the quote, it is the first of two quotes.
                CsvFieldState::Quoted if Some(byte) == quote => CsvFieldState::Quote,
                CsvFieldState::Quoted if Some(byte) == escape => {
                    self.after_return = false;
                    CsvFieldState::Escaped
                }
                CsvFieldState::Quoted => {
                    at += self.take_while(rest, |byte| Some(byte) != quote && Some(byte) != escape) - 1;
                    CsvFieldState::Quoted
                }
                CsvFieldState::Escaped => {
                    self.take_while(&[byte], |_| true);
                    CsvFieldState::Quoted
                }
                CsvFieldState::Quote if Some(byte) == quote => {
                    self.bytes.push(byte);
                    self.after_return = false;
                    CsvFieldState::Quoted
                }
                CsvFieldState::Start if Some(byte) == quote => {
                    self.quote_line = self.line;
                    self.after_return = false;
                    CsvFieldState::Quoted
                }
                CsvFieldState::Start | CsvFieldState::Bare | CsvFieldState::Quote if byte == delimiter => {
                    self.end_field()
                }
                _ if matches!(byte, b'\n' | b'\r') => {
                    self.end_field();
                    self.line += 1;
                    self.after_return = byte == b'\r';
                    self.check_size()?;
                    return Ok((at, true));
                }
                CsvFieldState::Start | CsvFieldState::Bare => {
                    let is_inside = |byte| byte != delimiter && byte != b'\n' && byte != b'\r';
                    at += self.take_while(rest, is_inside) - 1;
                    CsvFieldState::Bare
                }
                CsvFieldState::Quote => return Err(self.after_quote()),
            };
        }

        self.check_size()?;
        Ok((at, false))
    }

    /// Consumes the first byte, and those after it while the predicate holds. Returns their number.
    fn take_while(&mut self, bytes: &[u8], is_such: impl Fn(u8) -> bool) -> usize {
        let rest = bytes.iter().skip(1).position(|byte| !is_such(*byte));
        let count = rest.map_or(bytes.len(), |rest| rest + 1);
        let taken = bytes.get(..count).unwrap_or_default();
        if matches!(self.state, CsvFieldState::Quoted | CsvFieldState::Escaped) {
            for byte in taken {
                let ends_line = *byte == b'\r' || *byte == b'\n' && !self.after_return;
                self.line += u64::from(ends_line);
                self.after_return = *byte == b'\r';
            }
        }
        self.bytes.extend_from_slice(taken);
        count
    }

    fn end_field(&mut self) -> CsvFieldState {
        let kind = match self.state {
            CsvFieldState::Start => CsvFieldKind::Missing,
            CsvFieldState::Bare => CsvFieldKind::Bare,
            _ => CsvFieldKind::Quoted,
        };

        self.ends.push((self.bytes.len(), kind));
        CsvFieldState::Start
    }

    /// Handles the end of the input. Returns `true` if a last record has no line end.
    fn end(&mut self) -> Result<bool, RecordError> {
        match self.state {
            CsvFieldState::Quoted | CsvFieldState::Escaped => {
                Err(self.unclosed("before the end of the file".to_owned()))
            }
            CsvFieldState::Start if self.ends.is_empty() => Ok(false),
            _ => {
                self.end_field();
                Ok(true)
            }
        }
    }

    fn check_size(&self) -> Result<(), RecordError> {
        let max = self.dialect.max_record_bytes;
        if self.bytes.len().saturating_add(self.ends.len()) <= max {
            return Ok(());
        }

        let size = if max >= 1 << 20 { format!("{} MiB", max >> 20) } else { format!("{max} bytes") };
        if matches!(self.state, CsvFieldState::Quoted | CsvFieldState::Escaped) {
            return Err(self.unclosed(format!("within {size}")));
        }
        let reason = format!("the record that begins here has more than {size}: allow larger records");
        Err(RecordError::Syntax { line: self.first_line, reason })
    }

    fn unclosed(&self, until: String) -> RecordError {
        let reason = format!(
            "the quote that opens here is not closed {until}: close it, write it twice within quotes, or read the \
             file without quotes"
        );
        RecordError::Syntax { line: self.quote_line, reason }
    }

    fn after_quote(&self) -> RecordError {
        let reason = format!(
            "field {} goes on after its closing quote: write quotes within it twice, or read the file without quotes",
            self.ends.len() + 1
        );
        RecordError::Syntax { line: self.line, reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reader that returns a few bytes at a time.
    struct SlowRecordInput<'a>(&'a [u8], usize);

    impl Read for SlowRecordInput<'_> {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            let count = self.1.min(self.0.len()).min(to.len());
            to[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    type Fields = Vec<(CsvFieldKind, String)>;

    fn split(text: &[u8], dialect: CsvDialect, piece: usize) -> Result<Vec<(u64, Fields)>, (u64, String)> {
        let mut records = CsvRecords::new(SlowRecordInput(text, piece), dialect);
        let mut all = Vec::new();
        loop {
            match records.next() {
                Ok(true) => {}
                Ok(false) => return Ok(all),
                Err(RecordError::Syntax { line, reason }) => return Err((line, reason)),
                Err(RecordError::Read(error)) => panic!("{error}"),
            }

            let field =
                |(kind, bytes): (CsvFieldKind, &[u8])| (kind, String::from_utf8(bytes.to_vec()).unwrap());
            all.push((records.first_line(), records.fields().map(field).collect()));
        }
    }

    fn bare(text: &str) -> (CsvFieldKind, String) {
        (CsvFieldKind::Bare, text.to_owned())
    }

    fn quoted(text: &str) -> (CsvFieldKind, String) {
        (CsvFieldKind::Quoted, text.to_owned())
    }

    fn missing() -> (CsvFieldKind, String) {
        (CsvFieldKind::Missing, String::new())
    }

    #[test]
    fn pieces_of_any_size_make_the_same_records() {
        let text = "\u{feff}a,\"b\"\r\n1,\"x\"\"y\"\r\n,\"\"\n\n3,\"p\nq,\"\n\r\n\"4\",é\"z\r";
        let expected = vec![
            (1, vec![bare("a"), quoted("b")]),
            (2, vec![bare("1"), quoted("x\"y")]),
            (3, vec![missing(), quoted("")]),
            (4, vec![missing()]),
            (5, vec![bare("3"), quoted("p\nq,")]),
            (7, vec![missing()]),
            (8, vec![quoted("4"), bare("é\"z")]),
        ];

        for piece in 1..=text.len() {
            let split = split(text.as_bytes(), CsvDialect::with_delimiter(b','), piece);
            assert_eq!(split.as_ref(), Ok(&expected), "{piece} bytes at a time");
        }
    }

    #[test]
    fn a_line_ends_with_a_line_feed_a_carriage_return_or_both() {
        let text = "a,b\r1,\"x\ry\r\nz\"\r\n\r2,\r,\"\r\"\n\n\"\n\",4\r";
        let expected = vec![
            (1, vec![bare("a"), bare("b")]),
            (2, vec![bare("1"), quoted("x\ry\r\nz")]),
            (5, vec![missing()]),
            (6, vec![bare("2"), missing()]),
            (7, vec![missing(), quoted("\r")]),
            (9, vec![missing()]),
            (10, vec![quoted("\n"), bare("4")]),
        ];
        for piece in 1..text.len() {
            assert_eq!(split(text.as_bytes(), CsvDialect::with_delimiter(b','), piece), Ok(expected.clone()));
        }

        let (line, reason) = split(b"a\r1\r\"x\"y\r", CsvDialect::with_delimiter(b','), 3).unwrap_err();
        assert_eq!((line, reason.contains("field 1 goes on after its closing quote")), (3, true));
    }

    #[test]
    fn an_escape_character_takes_the_next_byte_as_it_is() {
        let dialect = CsvDialect { escape: Some(b'\\'), ..CsvDialect::with_delimiter(b';') };
        let text = b"\"a\\\"b\";\"\\\\\";c\\d\n\"e\\\nf\";\"g\"\"h\"\nlast";
        for piece in 1..text.len() {
            let split = split(text, dialect, piece).unwrap();
            assert_eq!(split[0].1, [quoted("a\"b"), quoted("\\"), bare("c\\d")]);
            assert_eq!(split[1], (2, vec![quoted("e\nf"), quoted("g\"h")]));
            assert_eq!(split[2], (4, vec![bare("last")]));
        }
    }

    #[test]
    fn without_a_quote_character_quotes_stand_for_themselves() {
        let dialect = CsvDialect { quote: None, ..CsvDialect::with_delimiter(b',') };
        let split = split(b"\"a,b\"\n", dialect, 2).unwrap();
        assert_eq!(split, [(1, vec![bare("\"a"), bare("b\"")])]);
    }

    #[test]
    fn a_stray_quote_is_named_by_its_line_before_the_rest_of_the_file_is_in_memory() {
        let dialect = CsvDialect { max_record_bytes: 100, ..CsvDialect::with_delimiter(b',') };
        let mut text = b"a,b\n1,\"x\ny\"\n2,\"z\n".to_vec();
        text.extend(b"3,4\n".repeat(1_000_000));
        let (line, reason) = split(&text, dialect, 64).unwrap_err();
        assert_eq!(line, 4);
        assert!(reason.contains("not closed within 100 bytes"), "{reason}");

        let (line, reason) = split(b"a\n\"x\"y\n", CsvDialect::with_delimiter(b','), 3).unwrap_err();
        assert_eq!((line, reason.contains("field 1 goes on after its closing quote")), (2, true));
        let (line, reason) = split(b"a\n1\n\"x\n", CsvDialect::with_delimiter(b','), 3).unwrap_err();
        assert_eq!((line, reason.contains("before the end of the file")), (3, true));
    }

    #[test]
    fn a_record_that_is_too_large_is_named_by_its_line() {
        let dialect = CsvDialect { max_record_bytes: 10, ..CsvDialect::with_delimiter(b',') };
        assert!(split(b"a,b,c\n1234567,8\n", dialect, 1).is_ok());
        assert_eq!(split(b"a\n123456789012\n", dialect, 1).unwrap_err().0, 2);
        assert_eq!(split(b"a\n,,,,,,,,,,,,\n", dialect, 100).unwrap_err().0, 2);
    }

    #[test]
    fn characters_that_cannot_be_told_apart_are_refused() {
        let plain = CsvDialect::with_delimiter(b',');
        assert!(plain.check().is_ok());
        assert!(CsvDialect { escape: Some(b'"'), ..plain }.check().is_ok());
        for dialect in [
            CsvDialect::with_delimiter(b'\n'),
            CsvDialect::with_delimiter(b'"'),
            CsvDialect { quote: Some(b','), ..plain },
            CsvDialect { escape: Some(b','), ..plain },
            CsvDialect { quote: None, escape: Some(b'\\'), ..plain },
        ] {
            assert!(dialect.check().is_err(), "{dialect:?}");
        }
    }
}
