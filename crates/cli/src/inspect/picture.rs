//! Text output for a single file.

use stylobate_columnar::{
    BoundValue, ChunkInspection, ColumnInspection, DictionaryUse, Inspection, SchemaNode,
};

use super::files::{format_name, part_name};
use crate::{
    rows::{grouped, printable},
    table::{self, CellAlignment},
};

/// Maximum characters of a value or key.
const MAX_VALUE_CHARS: usize = 64;
const MAX_BOUND_CHARS: usize = 24;
/// Maximum row groups or stripes listed by default.
const SHOWN_PARTS: usize = 10;
/// Maximum bar length in characters.
const BAR: usize = 12;
const UNKNOWN: &str = "?";

/// Formatter of an inspection as text.
pub(super) struct InspectionPicture<'a> {
    pub(super) inspection: &'a Inspection,
    pub(super) row_groups: bool,
}

impl InspectionPicture<'_> {
    pub(super) fn text(&self) -> String {
        let sections = [
            Some(self.file()),
            Some(format!("schema\n{}", indented(&tree(&self.inspection.schema)))),
            Some(format!("storage\n{}", indented(&self.storage()))),
            Some(format!("values\n{}", indented(&self.values()))),
            Some(format!("{}\n{}", self.parts_name(), indented(&self.parts()))),
            self.row_groups.then(|| format!("columns by {}\n{}", self.part_name(), indented(&self.chunks()))),
        ];
        sections.into_iter().flatten().collect::<Vec<_>>().join("\n")
    }

    fn part_name(&self) -> &'static str {
        part_name(self.inspection.format)
    }

    fn parts_name(&self) -> String {
        format!("{}s", self.part_name())
    }

    fn file(&self) -> String {
        let file = self.inspection;
        let line = |name: &str, value: String| vec![format!("  {name}"), value];
        let parts = table::count(file.parts.len(), self.part_name());
        let mut lines = vec![
            line("format", format!("{}, version {}", format_name(file.format), file.format_version)),
            line("size", format!("{}, footer {}", table::bytes(file.size), table::bytes(file.footer_size))),
            line("rows", format!("{} in {parts}", grouped(file.rows))),
            line("created by", file.created_by.as_deref().map_or_else(|| UNKNOWN.to_owned(), printable)),
        ];

        for (number, entry) in file.metadata.iter().enumerate() {
            let name = if number == 0 { "metadata" } else { "" };
            let value = entry.value.as_deref().unwrap_or_default();
            let mut shown = table::truncate(&printable(value), MAX_VALUE_CHARS);
            if shown.ends_with('…') {
                shown += &format!(" ({})", table::bytes(value.len() as u64));
            }
            lines.push(line(
                name,
                format!("{} = {shown}", table::truncate(&printable(&entry.key), MAX_VALUE_CHARS)),
            ));
        }

        format!(
            "{}\n{}",
            printable(&file.object),
            table::align_by(&lines, &[CellAlignment::Left, CellAlignment::Left])
        )
    }

    /// Formats the storage of the columns: sizes, shares and encodings.
    fn storage(&self) -> String {
        let columns = &self.inspection.columns;
        // Shares are relative to the whole file, even if only some columns are shown.
        let all: u64 = self.inspection.parts.iter().map(|part| part.compressed_size).sum();
        let largest = columns.iter().map(|column| column.compressed_size).max().unwrap_or_default();
        let has_raw = columns.iter().any(|column| column.uncompressed_size.is_some());
        let mut head = vec!["column", "codec", "encodings", "in dictionary", "size"];
        let mut sides = vec![
            CellAlignment::Left,
            CellAlignment::Left,
            CellAlignment::Left,
            CellAlignment::Left,
            CellAlignment::Right,
        ];

        if has_raw {
            head.extend(["raw", "ratio"]);
            sides.extend([CellAlignment::Right, CellAlignment::Right]);
        }

        head.extend(["share", ""]);
        sides.extend([CellAlignment::Right, CellAlignment::Left]);

        let mut rows: Vec<Vec<String>> = vec![head.into_iter().map(str::to_owned).collect()];
        for column in columns {
            let share = column.compressed_size as f64 / (all as f64).max(1.0);
            let mut row = vec![
                printable(&column.name),
                join_encodings(&column.codecs),
                join_encodings(&column.encodings),
                self.in_dictionary(column),
                table::bytes(column.compressed_size),
            ];

            if has_raw {
                row.push(column.uncompressed_size.map_or_else(|| UNKNOWN.to_owned(), table::bytes));
                row.push(ratio(column.uncompressed_size, column.compressed_size));
            }

            row.extend([table::percent(share), table::bar(column.compressed_size, largest, BAR)]);
            rows.push(row);
        }

        table::align_by(&rows, &sides)
    }

    fn in_dictionary(&self, column: &ColumnInspection) -> String {
        let all = column.dictionary_chunks;
        let some = column.partly_dictionary_chunks;
        match (all, some) {
            (0, 0) => "no".to_owned(),
            (all, 0) if all == column.chunks => "all".to_owned(),
            (all, 0) => format!("{all} of {} {}", column.chunks, self.parts_name()),
            (0, some) if some == column.chunks => "partly".to_owned(),
            (all, some) => format!("{all} of {} {}, {some} partly", column.chunks, self.parts_name()),
        }
    }

    /// Formats types, bounds and indexes of the columns.
    fn values(&self) -> String {
        let head = ["column", "type", "nulls", "min", "max", "index", "bloom filter"];
        let sides = [
            CellAlignment::Left,
            CellAlignment::Left,
            CellAlignment::Right,
            CellAlignment::Left,
            CellAlignment::Left,
            CellAlignment::Left,
            CellAlignment::Left,
        ];

        let mut rows = vec![head.map(str::to_owned).to_vec()];
        for column in &self.inspection.columns {
            rows.push(vec![
                printable(&column.name),
                column.data_type.clone(),
                column.nulls.map_or_else(|| UNKNOWN.to_owned(), grouped),
                bound(column.min.as_ref()),
                bound(column.max.as_ref()),
                yes(column.indexed_chunks, column.chunks),
                yes(column.bloom_filter_chunks, column.chunks),
            ]);
        }

        table::align_by(&rows, &sides)
    }

    fn parts(&self) -> String {
        let file = self.inspection;
        let has_raw = file.parts.iter().any(|part| part.uncompressed_size.is_some());
        let is_sorted = file.parts.iter().any(|part| !part.sorted_by.is_empty());
        let mut head = vec!["", "rows", "offset", "size"];
        if has_raw {
            head.push("raw");
        }
        if is_sorted {
            head.push("sorted by");
        }

        let mut rows: Vec<Vec<String>> = vec![head.into_iter().map(str::to_owned).collect()];
        let shown = if self.row_groups { file.parts.len() } else { SHOWN_PARTS };

        for (number, part) in file.parts.iter().enumerate().take(shown) {
            let mut row = vec![
                number.to_string(),
                grouped(part.rows),
                part.offset.map_or_else(|| UNKNOWN.to_owned(), grouped),
                table::bytes(part.compressed_size),
            ];

            if has_raw {
                row.push(part.uncompressed_size.map_or_else(|| UNKNOWN.to_owned(), table::bytes));
            }
            if is_sorted {
                row.push(printable(&part.sorted_by.join(", ")));
            }

            rows.push(row);
        }

        let mut sides = vec![CellAlignment::Right; 4 + usize::from(has_raw)];
        sides.push(CellAlignment::Left);
        let mut text = table::align_by(&rows, &sides);
        if file.parts.len() > shown {
            text +=
                &format!("… {} more: --row-groups shows them\n", grouped((file.parts.len() - shown) as u64));
        }

        text
    }

    /// Formats a line for each part and column.
    fn chunks(&self) -> String {
        let head =
            [self.part_name(), "column", "encodings", "in dictionary", "size", "raw", "nulls", "min", "max"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        for (number, part) in self.inspection.parts.iter().enumerate() {
            for chunk in &part.columns {
                rows.push(vec![
                    number.to_string(),
                    printable(&chunk.name),
                    join_encodings(&chunk.encodings),
                    chunk_dictionary(chunk),
                    table::bytes(chunk.compressed_size),
                    chunk.uncompressed_size.map_or_else(|| UNKNOWN.to_owned(), table::bytes),
                    chunk.nulls.map_or_else(|| UNKNOWN.to_owned(), grouped),
                    bound(chunk.min.as_ref()),
                    bound(chunk.max.as_ref()),
                ]);
            }
        }

        let left = CellAlignment::Left;
        let right = CellAlignment::Right;

        table::align_by(&rows, &[right, left, left, left, right, right, right, left, left])
    }
}

pub(super) fn chunk_dictionary(chunk: &ChunkInspection) -> String {
    match (chunk.dictionary, chunk.dictionary_values) {
        (DictionaryUse::None, _) => "no".to_owned(),
        (DictionaryUse::Some, _) => "partly".to_owned(),
        (DictionaryUse::All, Some(values)) => format!("all, {} values", grouped(values)),
        (DictionaryUse::All, None) => "all".to_owned(),
    }
}

/// Formats the columns as a tree.
fn tree(fields: &[SchemaNode]) -> String {
    let mut lines = Vec::new();
    for field in fields {
        branch(field, "", "", &mut lines);
    }
    table::align_by(&lines, &[CellAlignment::Left, CellAlignment::Left])
}

fn branch(field: &SchemaNode, before: &str, below: &str, lines: &mut Vec<Vec<String>>) {
    let mut words = vec![field.data_type.clone()];
    if let Some(physical) = &field.physical_type {
        words.push(format!("as {physical}"));
    }

    if field.repeated {
        words.push("repeated".to_owned());
    } else if !field.nullable {
        words.push("not null".to_owned());
    }

    lines.push(vec![format!("{before}{}", printable(&field.name)), words.join(" ")]);

    for (index, inner) in field.fields.iter().enumerate() {
        let (joint, rest) =
            if index + 1 == field.fields.len() { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        branch(inner, &format!("{below}{joint}"), &format!("{below}{rest}"), lines);
    }
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n").replace("  \n", "\n")).collect()
}

/// Joins the encodings, except those of levels, which are always run-length encoded.
pub(super) fn join_encodings(words: &[String]) -> String {
    let levels = |word: &&String| matches!(word.as_str(), "RLE" | "BIT_PACKED");
    let value_encodings: Vec<_> = words.iter().filter(|word| !levels(word)).map(String::as_str).collect();
    let shown =
        if value_encodings.is_empty() { words.iter().map(String::as_str).collect() } else { value_encodings };
    shown.join(", ").to_lowercase()
}

fn ratio(raw: Option<u64>, size: u64) -> String {
    match raw {
        Some(raw) if size > 0 => format!("{:.1}x", raw as f64 / size as f64),
        _ => UNKNOWN.to_owned(),
    }
}

fn bound(value: Option<&BoundValue>) -> String {
    value.map_or_else(
        || UNKNOWN.to_owned(),
        |value| table::truncate(&printable(&value.to_string()), MAX_BOUND_CHARS),
    )
}

fn yes(some: u64, all: u64) -> String {
    match some {
        0 => "no".to_owned(),
        some if some == all => "yes".to_owned(),
        some => format!("{some} of {all}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, fields: Vec<SchemaNode>) -> SchemaNode {
        SchemaNode {
            name: name.to_owned(),
            data_type: if fields.is_empty() { "int64" } else { "struct" }.to_owned(),
            physical_type: None,
            nullable: name != "a",
            repeated: name == "list",
            fields,
        }
    }

    #[test]
    fn nested_columns_hang_from_branches() {
        let inner = node("list", vec![node("element", Vec::new())]);
        let fields = [node("a", Vec::new()), node("b", vec![inner, node("c", Vec::new())])];
        let expected = [
            "a              int64 not null",
            "b              struct",
            "├─ list        struct repeated",
            "│  └─ element  int64",
            "└─ c           int64",
        ];

        assert_eq!(tree(&fields).lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn encodings_of_levels_go_without_saying_unless_there_is_nothing_else() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        assert_eq!(join_encodings(&words(&["PLAIN", "RLE", "RLE_DICTIONARY"])), "plain, rle_dictionary");
        assert_eq!(join_encodings(&words(&["RLE"])), "rle");
    }
}
