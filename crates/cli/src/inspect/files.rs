//! Output for several files: a summary, and a line for each file.

use std::collections::BTreeMap;

use stylobate_columnar::{FileFormat, Inspection, SchemaNode};

use crate::{
    rows::{grouped, printable},
    table::{self, CellAlignment},
};

/// Output lines and totals of the inspected files.
#[derive(Debug, Default)]
pub(super) struct InspectionOverview {
    /// Number of files that are neither Parquet nor ORC.
    pub(super) others: usize,
    files: Vec<Vec<String>>,
    schemas: Vec<Vec<SchemaNode>>,
    formats: BTreeMap<&'static str, u64>,
    writers: BTreeMap<String, u64>,
    size: u64,
    rows: u64,
    parts: u64,
}

impl InspectionOverview {
    pub(super) fn add(&mut self, file: &Inspection) {
        let known = self.schemas.iter().position(|schema| *schema == file.schema);
        let schema = known.unwrap_or_else(|| {
            self.schemas.push(file.schema.clone());
            self.schemas.len() - 1
        });

        let format = format_name(file.format);
        *self.formats.entry(format).or_default() += 1;
        *self.writers.entry(file.created_by.clone().unwrap_or_else(|| "unknown".to_owned())).or_default() +=
            1;
        self.size += file.size;
        self.rows += file.rows;
        self.parts += file.parts.len() as u64;
        self.files.push(vec![
            format.to_owned(),
            table::bytes(file.size),
            grouped(file.rows),
            grouped(file.parts.len() as u64),
            grouped(file.columns.len() as u64),
            (schema + 1).to_string(),
            printable(&file.object),
        ]);
    }

    pub(super) fn text(&self) -> String {
        let counts = |counts: Vec<(&str, u64)>| match &counts[..] {
            [(name, _)] => (*name).to_owned(),
            many => {
                many.iter().map(|(name, count)| format!("{name} ({count})")).collect::<Vec<_>>().join(", ")
            }
        };

        let formats = counts(self.formats.iter().map(|(name, count)| (*name, *count)).collect());
        let writers = counts(self.writers.iter().map(|(name, count)| (name.as_str(), *count)).collect());
        let mut lines = vec![
            vec!["files".to_owned(), grouped(self.files.len() as u64)],
            vec!["format".to_owned(), formats],
            vec!["size".to_owned(), table::bytes(self.size)],
            vec![
                "rows".to_owned(),
                format!("{} in {}", grouped(self.rows), table::count(self.parts as usize, "part")),
            ],
            vec!["created by".to_owned(), printable(&writers)],
        ];

        if self.others > 0 {
            lines.push(vec![
                "others".to_owned(),
                format!("{}, neither Parquet nor ORC", grouped(self.others as u64)),
            ]);
        }

        if self.schemas.len() > 1 {
            lines.push(vec!["schemas".to_owned(), grouped(self.schemas.len() as u64)]);
        }

        let mut text = table::align_by(&lines, &[CellAlignment::Left]);
        text.push('\n');
        let head =
            ["format", "size", "rows", "parts", "columns", "schema", "file"].map(str::to_owned).to_vec();
        let mut rows = vec![head];
        rows.extend(self.files.iter().cloned());
        if self.schemas.len() < 2 {
            rows.iter_mut().for_each(|row| drop(row.remove(5)));
            let sides = [
                CellAlignment::Left,
                CellAlignment::Right,
                CellAlignment::Right,
                CellAlignment::Right,
                CellAlignment::Right,
                CellAlignment::Left,
            ];

            return text + &table::align_by(&rows, &sides);
        }

        let sides = [
            CellAlignment::Left,
            CellAlignment::Right,
            CellAlignment::Right,
            CellAlignment::Right,
            CellAlignment::Right,
            CellAlignment::Right,
            CellAlignment::Left,
        ];

        text + &table::align_by(&rows, &sides)
    }
}

/// Returns the noun for a part of a file: row group or stripe.
pub(super) fn part_name(format: FileFormat) -> &'static str {
    match format {
        FileFormat::Parquet => "row group",
        FileFormat::Orc => "stripe",
    }
}

/// Returns the display name of the format.
pub(super) fn format_name(format: FileFormat) -> &'static str {
    match format {
        FileFormat::Parquet => "Parquet",
        FileFormat::Orc => "ORC",
    }
}
