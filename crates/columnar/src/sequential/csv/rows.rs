//! The rows of one CSV file: its header, and records with the same number of fields.

use std::{collections::HashSet, io::Read};

use crate::{
    csv::{CsvDialect, CsvFieldKind, CsvRecords, RecordError},
    sequential::CsvHeader,
};

/// The names of the columns and the rows below them.
pub(crate) struct CsvRows<R> {
    records: CsvRecords<R>,
    names: Vec<String>,
    /// True if the current record is the first row, and was not returned yet.
    is_pending: bool,
}

impl<R: Read> CsvRows<R> {
    /// Reads the header, if there is one. Blank lines before it are skipped.
    pub(crate) fn open(input: R, dialect: CsvDialect, header: &CsvHeader) -> Result<Self, RecordError> {
        let mut records = CsvRecords::new(input, dialect);
        if let CsvHeader::Names(names) = header {
            return Ok(Self { records, names: names.clone(), is_pending: false });
        }

        loop {
            if !records.next()? {
                return Err(syntax(1, "the file has no line: there is no header".to_owned()));
            }
            if !records.is_blank() {
                break;
            }
        }

        let width = records.len();
        let (names, is_pending) = match header {
            CsvHeader::FirstLine => (header_names(&records)?, false),
            CsvHeader::Absent | CsvHeader::Names(_) => {
                ((0..width).map(|at| place_name(at, width)).collect(), true)
            }
        };

        Ok(Self { records, names, is_pending })
    }

    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Reads the next row. Returns `false` at the end. Blank lines are skipped, unless there is only one column: then
    /// they are null.
    pub(crate) fn next(&mut self) -> Result<bool, RecordError> {
        if std::mem::take(&mut self.is_pending) {
            return Ok(true);
        }

        loop {
            if !self.records.next()? {
                return Ok(false);
            }
            if self.names.len() == 1 || !self.records.is_blank() {
                break;
            }
        }

        let fields = self.records.len();
        let columns = self.names.len();
        if fields == columns {
            return Ok(true);
        }

        let reason = format!(
            "the record that begins here has {fields} field{}, and there are {columns} columns: correct it, or the \
             delimiter or the quote character",
            if fields == 1 { "" } else { "s" }
        );
        Err(syntax(self.records.first_line(), reason))
    }

    /// Returns the fields of the current row.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (CsvFieldKind, &[u8])> {
        self.records.fields()
    }

    /// Returns the line on which the current row begins, from 1.
    pub(crate) fn line(&self) -> u64 {
        self.records.first_line()
    }

    /// Returns the approximate bytes of all records so far.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.records.bytes_read()
    }
}

fn syntax(line: u64, reason: String) -> RecordError {
    RecordError::Syntax { line, reason }
}

/// Returns the names in the current record, each made unique.
fn header_names<R: Read>(records: &CsvRecords<R>) -> Result<Vec<String>, RecordError> {
    let width = records.len();
    let mut taken = HashSet::new();
    let mut names = Vec::with_capacity(width);

    for (at, (_, field)) in records.fields().enumerate() {
        let name = std::str::from_utf8(field).map_err(|_| {
            syntax(records.first_line(), format!("the name of column {} is not UTF-8", at + 1))
        })?;
        let name = if name.is_empty() { place_name(at, width) } else { name.to_owned() };

        let mut unique = name.clone();
        let mut number = 1;
        while taken.contains(&unique) {
            unique = format!("{name}_{number}");
            number += 1;
        }

        taken.insert(unique.clone());
        names.push(unique);
    }

    Ok(names)
}

/// Returns the name of an unnamed column. The names of a file all have the same number of digits.
fn place_name(at: usize, width: usize) -> String {
    let digits = width.saturating_sub(1).to_string().len();
    format!("column{at:0digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The header, and the rows with their lines.
    type Read = (Vec<String>, Vec<(u64, Vec<String>)>);

    fn read(text: &str, header: &CsvHeader) -> Result<Read, (u64, String)> {
        let in_words = |error| match error {
            RecordError::Syntax { line, reason } => (line, reason),
            RecordError::Read(error) => panic!("{error}"),
        };
        let mut rows =
            CsvRows::open(text.as_bytes(), CsvDialect::with_delimiter(b','), header).map_err(in_words)?;
        let mut all = Vec::new();
        while rows.next().map_err(in_words)? {
            let fields = rows.fields().map(|(_, field)| String::from_utf8(field.to_vec()).unwrap());
            all.push((rows.line(), fields.collect()));
        }
        Ok((rows.names().to_vec(), all))
    }

    fn names(text: &str) -> Vec<String> {
        read(text, &CsvHeader::FirstLine).unwrap().0
    }

    #[test]
    fn names_are_unique_and_those_without_one_are_named_by_place() {
        assert_eq!(names("a,a,a_1,a\n"), ["a", "a_1", "a_1_1", "a_2"]);
        assert_eq!(names(",\"\",b,\n"), ["column0", "column1", "b", "column3"]);
        assert_eq!(names("\n\na,A\n"), ["a", "A"]);
        let (names, rows) = read("1,2\n3,4\n", &CsvHeader::Absent).unwrap();
        assert_eq!((names, rows.len()), (vec!["column0".to_owned(), "column1".to_owned()], 2));
        let (names, _) = read(&",".repeat(10), &CsvHeader::Absent).unwrap();
        assert_eq!((names[0].as_str(), names[10].as_str()), ("column00", "column10"));
        let given = CsvHeader::Names(vec!["x".to_owned(), "y".to_owned()]);
        assert_eq!(read("1,2\n", &given).unwrap().1, [(1, vec!["1".to_owned(), "2".to_owned()])]);
    }

    #[test]
    fn blank_lines_are_skipped_unless_there_is_one_column() {
        let (_, rows) = read("a,b\n\n1,2\n\n\n3,4\n\n", &CsvHeader::FirstLine).unwrap();
        assert_eq!(rows.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [3, 6]);
        let (_, rows) = read("a\n1\n\n2\n\n", &CsvHeader::FirstLine).unwrap();
        assert_eq!(rows.len(), 4);
    }

    #[test]
    fn a_row_with_another_number_of_fields_is_named_by_its_line() {
        let (line, reason) = read("a,b\n\"x\ny\",1\n2\n", &CsvHeader::FirstLine).unwrap_err();
        assert_eq!(line, 4);
        assert!(reason.starts_with("the record that begins here has 1 field, and there are 2"), "{reason}");
        assert_eq!(read("a,b\n1,2,3\n", &CsvHeader::FirstLine).unwrap_err().0, 2);
        assert_eq!(read("", &CsvHeader::FirstLine).unwrap_err().0, 1);
    }
}
