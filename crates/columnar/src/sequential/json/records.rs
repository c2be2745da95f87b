//! Splits JSON text into its records: objects one after another, as in JSON lines, or in one array. Memory is bounded
//! by the largest record.

use std::{
    io::{self, Read},
    ops::Range,
};

use crate::csv::RecordError;

/// Bytes of a read.
const READ_BYTES: usize = 256 << 10;
/// UTF-8 byte order mark, which some programs write.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// The records of an input, one after another.
pub(crate) struct JsonRecords<R> {
    input: R,
    buffer: Vec<u8>,
    /// Unparsed part of the buffer.
    unread: Range<usize>,
    has_begun: bool,
    layout: JsonLayout,
    /// The line of the next byte.
    line: u64,
    record: Vec<u8>,
    first_line: u64,
    nesting: JsonNesting,
    max_record_bytes: usize,
    bytes_read: u64,
}

/// Arrangement of the records in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JsonLayout {
    /// No record was read yet.
    Unknown,
    /// Separated by white space, if at all.
    Lines,
    /// In an array; a record, a comma or the end comes next.
    BeforeElement,
    AfterElement,
    AfterArray,
}

/// Lexical position of the next byte within a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct JsonNesting {
    /// Open braces and brackets; 0 between records.
    depth: usize,
    in_string: bool,
    is_escaped: bool,
}

impl<R: Read> JsonRecords<R> {
    pub(crate) fn new(input: R, max_record_bytes: usize) -> Self {
        Self {
            input,
            buffer: Vec::new(),
            unread: 0..0,
            has_begun: false,
            layout: JsonLayout::Unknown,
            line: 1,
            record: Vec::new(),
            first_line: 1,
            nesting: JsonNesting::default(),
            max_record_bytes,
            bytes_read: 0,
        }
    }

    /// Reads the next record. Returns `false` at the end.
    pub(crate) fn next(&mut self) -> Result<bool, RecordError> {
        self.record.clear();
        self.nesting = JsonNesting::default();
        loop {
            let buffer = std::mem::take(&mut self.buffer);
            let pushed = self.push(buffer.get(self.unread.clone()).unwrap_or_default());
            self.buffer = buffer;
            let (taken, has_ended) = pushed?;
            self.unread.start += taken;
            if has_ended {
                return Ok(true);
            }

            if !self.fill()? {
                return self.end();
            }
        }
    }

    /// Returns the bytes of the current record.
    pub(crate) fn record(&self) -> &[u8] {
        &self.record
    }

    /// Returns the line on which the current record begins, from 1.
    pub(crate) fn first_line(&self) -> u64 {
        self.first_line
    }

    /// Returns the approximate bytes of all records so far.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.bytes_read.saturating_sub(self.unread.len() as u64)
    }

    /// Consumes bytes up to the end of the record. Returns their number, and whether the record ends there.
    fn push(&mut self, bytes: &[u8]) -> Result<(usize, bool), RecordError> {
        let mut start = 0;
        for (at, byte) in bytes.iter().enumerate() {
            if self.nesting.depth == 0 {
                if self.between(*byte)? {
                    start = at;
                }
                continue;
            }
            if *byte == b'\n' {
                if self.nesting.in_string {
                    return Err(self.wrong(self.line, "a string is not closed before the end of this line"));
                }
                self.line += 1;
            }
            if self.nesting.take(*byte) {
                self.record.extend_from_slice(bytes.get(start..=at).unwrap_or_default());
                self.check_size()?;
                return Ok((at + 1, true));
            }
        }

        if self.nesting.depth > 0 {
            self.record.extend_from_slice(bytes.get(start..).unwrap_or_default());
            self.check_size()?;
        }

        Ok((bytes.len(), false))
    }

    /// Consumes a byte between records. Returns `true` if a record begins with it.
    fn between(&mut self, byte: u8) -> Result<bool, RecordError> {
        self.layout = match (byte, self.layout) {
            (b'\n', _) => {
                self.line += 1;
                return Ok(false);
            }
            (b' ' | b'\t' | b'\r', _) => return Ok(false),
            (b'{', JsonLayout::Unknown | JsonLayout::Lines | JsonLayout::BeforeElement) => {
                self.nesting.depth = 1;
                self.first_line = self.line;
                self.layout = match self.layout {
                    JsonLayout::BeforeElement => JsonLayout::AfterElement,
                    _ => JsonLayout::Lines,
                };
                return Ok(true);
            }
            (b'[', JsonLayout::Unknown) => JsonLayout::BeforeElement,
            (b',', JsonLayout::AfterElement) => JsonLayout::BeforeElement,
            (b']', JsonLayout::AfterElement | JsonLayout::BeforeElement) => JsonLayout::AfterArray,
            (_, JsonLayout::AfterElement) => {
                return Err(self.wrong(self.line, "a comma is missing between objects"));
            }
            (_, JsonLayout::AfterArray) => {
                return Err(
                    self.wrong(self.line, "there is more after the array: write one array, or only objects")
                );
            }
            _ => {
                return Err(self.wrong(
                    self.line,
                    "here is no object: a record is {…}, on a line of its own or in one array of all records",
                ));
            }
        };

        Ok(false)
    }

    /// Handles the end of the input. Fails within a record or an array.
    fn end(&self) -> Result<bool, RecordError> {
        if self.nesting.depth > 0 {
            return Err(self.wrong(self.first_line, "the object that begins here is not closed"));
        }
        match self.layout {
            JsonLayout::Unknown | JsonLayout::Lines | JsonLayout::AfterArray => Ok(false),
            JsonLayout::BeforeElement | JsonLayout::AfterElement => {
                Err(self.wrong(self.line, "the array is not closed before the end of the file"))
            }
        }
    }

    fn check_size(&self) -> Result<(), RecordError> {
        if self.record.len() <= self.max_record_bytes {
            return Ok(());
        }
        let reason = format!(
            "the object that begins here has more than {} bytes: close it, or allow larger records",
            self.max_record_bytes
        );
        Err(self.wrong(self.first_line, &reason))
    }

    fn wrong(&self, line: u64, reason: &str) -> RecordError {
        RecordError::Syntax { line, reason: reason.to_owned() }
    }

    /// Reads more input. Returns `false` at its end.
    fn fill(&mut self) -> Result<bool, RecordError> {
        if self.buffer.is_empty() {
            self.buffer = vec![0; READ_BYTES];
        }

        let mut count = read(&mut self.input, &mut self.buffer)?;
        let mut start = 0;
        if !self.has_begun {
            self.has_begun = true;
            while count > 0 && count < BYTE_ORDER_MARK.len() {
                match read(&mut self.input, self.buffer.get_mut(count..).unwrap_or_default())? {
                    0 => break,
                    more => count += more,
                }
            }

            if self.buffer.get(..count).is_some_and(|bytes| bytes.starts_with(BYTE_ORDER_MARK)) {
                start = BYTE_ORDER_MARK.len();
            }
        }

        self.unread = start..count;
        self.bytes_read += count as u64;
        Ok(count > 0)
    }
}

impl JsonNesting {
    /// Consumes a byte of a record. Returns `true` if the record ends with it.
    fn take(&mut self, byte: u8) -> bool {
        if self.in_string {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return false;
        }
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth -= 1,
            _ => {}
        }
        self.depth == 0
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Reader that returns a few bytes at a time.
    struct SlowJsonInput<'a>(&'a [u8], usize);

    impl Read for SlowJsonInput<'_> {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            let count = self.1.min(self.0.len()).min(to.len());
            to[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    fn split(text: &str, piece: usize, max: usize) -> Result<Vec<(u64, String)>, (u64, String)> {
        let mut records = JsonRecords::new(SlowJsonInput(text.as_bytes(), piece), max);
        let mut all = Vec::new();
        loop {
            match records.next() {
                Ok(true) => {
                    all.push((records.first_line(), String::from_utf8(records.record().to_vec()).unwrap()));
                }
                Ok(false) => return Ok(all),
                Err(RecordError::Syntax { line, reason }) => return Err((line, reason)),
                Err(RecordError::Read(error)) => panic!("{error}"),
            }
        }
    }

    #[test]
    fn lines_arrays_and_objects_over_several_lines_are_split_in_pieces_of_any_size() {
        let first = r#"{"a": "}\"\\", "b": [{"c": "["}]}"#;
        let second = "{\n \"a\": 1\n}";
        let lines = format!("\u{feff}{first}\r\n\n{second} {{}}\n");
        let array = format!("\n[\n{first},\n{second}, {{}}]\n");
        for piece in 1..=lines.len() {
            let expected = |lines: [u64; 3]| {
                let texts = [first, second, "{}"].map(str::to_owned);
                lines.into_iter().zip(texts).collect::<Vec<_>>()
            };
            assert_eq!(split(&lines, piece, 1000).unwrap(), expected([1, 3, 5]), "{piece}");
            assert_eq!(split(&array, piece, 1000).unwrap(), expected([3, 4, 6]), "{piece}");
        }

        assert!(split("", 1, 10).unwrap().is_empty());
        assert!(split("[]", 1, 10).unwrap().is_empty());
    }

    #[test]
    fn what_is_wrong_is_named_by_its_line() {
        for (text, line) in [
            ("{}\n1\n", 2),
            ("{}\n\n{\"a\": \"x\n}\n", 3),
            ("{}\n{\"a\": [\n{}\n", 2),
            ("[{}\n{}]", 2),
            ("[{},\n", 2),
            ("[{}]\n{}", 2),
            ("{},{}", 1),
            ("{}\n{\"a\": \"0123456789012345678901234567890123456789\"}", 2),
        ] {
            for piece in 1..text.len() {
                assert_eq!(split(text, piece, 40).map_err(|(line, _)| line), Err(line), "{text:?}");
            }
        }
    }
}
