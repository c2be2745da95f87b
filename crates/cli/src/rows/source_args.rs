//! Arguments for CSV, JSON and Arrow IPC sources: format and parsing options.

use std::str::FromStr;

use anyhow::Result;
use arrow::datatypes::DataType;
use clap::{Args, ValueEnum};
use stylobate_columnar::{
    Cache, CsvHeader, CsvOptions, JsonOptions, Sample, SequentialFormat, Source, parse_type,
};
use stylobate_storage::ByteSize;

use crate::failure::usage;

/// Format and parsing options of sources.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Options of sources that are CSV, JSON or Arrow IPC")]
pub(crate) struct SourceArgs {
    /// Format of the sources [default: by the extension: .csv, .tsv, .json, .jsonl, .ndjson, .arrow, .feather or
    /// .arrows, optionally followed by .gz or .zst; otherwise by the first bytes]
    #[arg(long, value_name = "FORMAT")]
    from: Option<SourceFormat>,

    /// Field delimiter of CSV: a character, or tab [default: a comma, and a tab in .tsv files]
    #[arg(long, value_name = "CHARACTER", value_parser = delimiter)]
    delimiter: Option<u8>,

    /// Quote character of CSV, or none [default: "]
    #[arg(long, value_name = "CHARACTER", value_parser = quote)]
    quote: Option<QuoteArg>,

    /// Escape character of CSV within quotes [default: a doubled quote]
    #[arg(long, value_name = "CHARACTER", value_parser = character)]
    escape: Option<u8>,

    /// CSV has no header line; columns are named column0, column1 and so on
    #[arg(long)]
    no_header: bool,

    /// Column names of CSV without a header line
    #[arg(long, value_name = "NAMES", value_delimiter = ',', conflicts_with = "no_header")]
    column_names: Option<Vec<String>>,

    /// An unquoted field of CSV that is null, in addition to the empty field; may be repeated
    #[arg(long = "null", value_name = "TEXT")]
    null_values: Vec<String>,

    /// Type of a column of CSV or JSON, such as zip=string or price=decimal(10,2); may be repeated [default: inferred
    /// from the sample]
    #[arg(long = "type", value_name = "COLUMN=TYPE", value_parser = column_type)]
    types: Vec<(String, DataType)>,

    /// Number of records of CSV or JSON from which types are inferred, or all [default: those of the first 64 MiB]
    #[arg(long, value_name = "COUNT", value_parser = sample)]
    sample_rows: Option<Sample>,

    /// Maximum size of a record of CSV or JSON [default: 16MiB]
    #[arg(long, value_name = "SIZE", value_parser = ByteSize::from_str)]
    max_record: Option<ByteSize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SourceFormat {
    /// Comma-separated values
    Csv,
    /// One object per line, or an array of objects
    Json,
    /// Arrow IPC, a file or a stream
    Arrow,
    Parquet,
    Orc,
}

/// A CSV quote character, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct QuoteArg(Option<u8>);

impl SourceArgs {
    /// Returns the sequential format that `--from` or the names of the sources determine; `None` if neither
    /// determines one.
    pub(super) fn format(&self, paths: &[String]) -> Result<Option<SequentialFormat>> {
        let mut formats = paths.iter().map(|path| SequentialFormat::of_path(path));
        let first = formats.next().flatten();
        let kind = |format: &Option<SequentialFormat>| format.as_ref().map(std::mem::discriminant);
        let format = match self.from {
            Some(SourceFormat::Csv) => match first {
                Some(SequentialFormat::Csv(options)) => Some(SequentialFormat::Csv(options)),
                _ => Some(SequentialFormat::Csv(CsvOptions::default())),
            },
            Some(SourceFormat::Json) => Some(SequentialFormat::Json(JsonOptions::default())),
            Some(SourceFormat::Arrow) => Some(SequentialFormat::Arrow),
            Some(SourceFormat::Parquet | SourceFormat::Orc) => None,
            None if formats.any(|other| kind(&other) != kind(&first)) => {
                return Err(usage("the sources have several formats: name those of one, or say --from"));
            }
            None => first,
        };

        format.map(|format| self.apply(format)).transpose()
    }

    /// Returns true if the format may be detected from the first bytes.
    pub(super) fn may_detect(&self) -> bool {
        self.from.is_none()
    }

    /// Detects the format from file names or first bytes, for sources whose own names do not determine it.
    pub(super) async fn detect(&self, sources: &[Source], cache: &Cache) -> Result<Option<SequentialFormat>> {
        let Some(first) = sources.first() else { return Ok(None) };
        let format = SequentialFormat::detect(first, cache).await?;
        format.map(|format| self.apply(format)).transpose()
    }

    /// Applies the parsing options to the format.
    fn apply(&self, format: SequentialFormat) -> Result<SequentialFormat> {
        match format {
            SequentialFormat::Csv(options) => Ok(SequentialFormat::Csv(self.csv(options))),
            SequentialFormat::Json(options) => {
                self.refuse_of_csv("JSON")?;
                Ok(SequentialFormat::Json(self.json(options)))
            }
            other => {
                self.refuse_of_csv("Arrow IPC")?;
                self.refuse_of_texts("Arrow IPC")?;
                Ok(other)
            }
        }
    }

    /// Fails if any parsing option is given.
    pub(super) fn refuse_all(&self) -> Result<()> {
        self.refuse_of_csv("Parquet and ORC")?;
        self.refuse_of_texts("Parquet and ORC")
    }

    fn refuse_of_csv(&self, format: &str) -> Result<()> {
        let given = [
            ("--delimiter", self.delimiter.is_some()),
            ("--quote", self.quote.is_some()),
            ("--escape", self.escape.is_some()),
            ("--no-header", self.no_header),
            ("--column-names", self.column_names.is_some()),
            ("--null", !self.null_values.is_empty()),
        ];

        match given.into_iter().find(|(_, is_given)| *is_given) {
            None => Ok(()),
            Some((option, _)) => Err(usage(format!("{option} is for CSV, and the source is {format}"))),
        }
    }

    fn refuse_of_texts(&self, format: &str) -> Result<()> {
        let given = [
            ("--type", !self.types.is_empty()),
            ("--sample-rows", self.sample_rows.is_some()),
            ("--max-record", self.max_record.is_some()),
        ];

        match given.into_iter().find(|(_, is_given)| *is_given) {
            None => Ok(()),
            Some((option, _)) => {
                Err(usage(format!("{option} is for CSV and JSON, and the source is {format}")))
            }
        }
    }

    fn csv(&self, mut options: CsvOptions) -> CsvOptions {
        options = options.with_null_values(&self.null_values).with_escape(self.escape);
        if let Some(delimiter) = self.delimiter {
            options = options.with_delimiter(delimiter);
        }
        if let Some(QuoteArg(quote)) = self.quote {
            options = options.with_quote(quote);
        }
        if self.no_header {
            options = options.with_header(CsvHeader::Absent);
        }
        if let Some(names) = &self.column_names {
            options = options.with_header(CsvHeader::Names(names.clone()));
        }

        for (column, data_type) in &self.types {
            options = options.with_type(column, data_type.clone());
        }

        if let Some(sample) = self.sample_rows {
            options = options.with_sample(sample);
        }

        match self.max_record {
            Some(size) => options.with_max_record(size),
            None => options,
        }
    }

    fn json(&self, mut options: JsonOptions) -> JsonOptions {
        for (column, data_type) in &self.types {
            options = options.with_type(column, data_type.clone());
        }

        if let Some(sample) = self.sample_rows {
            options = options.with_sample(sample);
        }

        match self.max_record {
            Some(size) => options.with_max_record(size),
            None => options,
        }
    }
}

/// Parses a delimiter.
pub(crate) fn delimiter(text: &str) -> Result<u8, &'static str> {
    match character(text)? {
        b'"' => Err("quotes and ends of lines stand for themselves"),
        byte => Ok(byte),
    }
}

fn character(text: &str) -> Result<u8, &'static str> {
    match text.as_bytes() {
        _ if text == "tab" || text == r"\t" => Ok(b'\t'),
        [b'\n' | b'\r'] => Err("quotes and ends of lines stand for themselves"),
        [byte] if byte.is_ascii() => Ok(*byte),
        _ => Err("one ASCII character is needed, or the word tab"),
    }
}

fn quote(text: &str) -> Result<QuoteArg, &'static str> {
    match text {
        "none" => Ok(QuoteArg(None)),
        text => Ok(QuoteArg(Some(character(text)?))),
    }
}

fn column_type(text: &str) -> Result<(String, DataType), String> {
    match text.rsplit_once('=') {
        // The time zone of a timestamp may contain an equals sign.
        Some((left, _)) if left.ends_with("tz") => match text.split_once('=') {
            Some((column, name)) => typed(column, name),
            None => Err("write COLUMN=TYPE".to_owned()),
        },
        Some((column, name)) => typed(column, name),
        None => Err("write COLUMN=TYPE".to_owned()),
    }
}

fn typed(column: &str, name: &str) -> Result<(String, DataType), String> {
    if column.is_empty() {
        return Err("write COLUMN=TYPE".to_owned());
    }
    Ok((column.to_owned(), parse_type(name).map_err(|error| error.to_string())?))
}

fn sample(text: &str) -> Result<Sample, &'static str> {
    match text {
        "all" => Ok(Sample::All),
        text => match text.parse() {
            Ok(rows) if rows > 0 => Ok(Sample::Rows(rows)),
            _ => Err("a whole number from 1 on is needed, or the word all"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_typed_as_they_are_or_by_name() {
        assert_eq!((delimiter(";"), delimiter("tab"), delimiter(r"\t")), (Ok(b';'), Ok(b'\t'), Ok(b'\t')));
        assert!(delimiter("\"").is_err() && delimiter("||").is_err() && delimiter("").is_err());
        assert_eq!((quote("none"), quote("'")), (Ok(QuoteArg(None)), Ok(QuoteArg(Some(b'\'')))));
    }

    #[test]
    fn types_and_samples_are_typed_in_words() {
        assert_eq!(column_type("a=b=int64"), Ok(("a=b".to_owned(), DataType::Int64)));
        assert_eq!(column_type("p=decimal(10,2)"), Ok(("p".to_owned(), DataType::Decimal128(10, 2))));
        assert!(column_type("t=timestamp[us, tz=UTC]").is_ok());
        assert!(column_type("int64").is_err() && column_type("=int64").is_err());
        assert!(column_type("a=number").is_err());
        assert_eq!((sample("all"), sample("7")), (Ok(Sample::All), Ok(Sample::Rows(7))));
        assert!(sample("0").is_err() && sample("some").is_err());
    }
}
