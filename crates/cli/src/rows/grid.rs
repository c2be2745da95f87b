//! A text table that fits the terminal, with a note about omitted rows and columns.
//!
//! Rows are printed while they arrive, in bounded memory. `comfy-table` would need all of them first, and wraps cells
//! over several lines, which breaks `cut` and `awk`.

use std::{io::Write, iter};

use anyhow::Result;
use arrow::{
    array::RecordBatch,
    datatypes::{DataType, SchemaRef},
    util::display::{ArrayFormatter, FormatOptions},
};
use console::{measure_text_width, pad_str, truncate_str};

/// Rows that are laid out together. Longer tables are split into parts of this size, to bound memory.
const PART: usize = 1_000;
/// Maximum characters of a cell, on a terminal and elsewhere.
const MAX_CELL_ON_TERMINAL: usize = 40;
const MAX_CELL: usize = 120;
const GAP: &str = "  ";
const NULL: &str = "NULL";

/// The limits of a table.
#[derive(Clone, Debug, Default)]
pub(crate) struct TableLimits {
    /// Maximum rows to print; a trailing note reports omitted rows.
    pub(crate) rows: Option<u64>,
    /// Total number of rows, if known.
    pub(crate) total: Option<u64>,
    /// Width in characters; `None` if unlimited.
    pub(crate) width: Option<usize>,
    /// Hint on how to print the omitted rows, shown if their number is unknown.
    pub(crate) hint: Option<&'static str>,
}

/// Writes a table.
pub(super) struct TableEncoder<W> {
    out: W,
    bound: TableLimits,
    columns: Vec<TableHeading>,
    /// Cells of buffered rows.
    rows: Vec<Vec<String>>,
    written: u64,
    left_out: u64,
    /// Widths of the columns that fit, determined by the first part; the last column may be truncated.
    layout: Option<Vec<usize>>,
}

struct TableHeading {
    name: String,
    is_number: bool,
}

impl<W: Write> TableEncoder<W> {
    pub(super) fn new(out: W, schema: &SchemaRef, bound: TableLimits) -> Self {
        let columns = schema.fields().iter().map(|field| {
            let value_type = match field.data_type() {
                DataType::Dictionary(_, values) => values,
                other => other,
            };
            TableHeading { name: printable(field.name()), is_number: value_type.is_numeric() }
        });

        let columns = columns.collect();
        Self { out, bound, columns, rows: Vec::new(), written: 0, left_out: 0, layout: None }
    }

    /// Adds the rows of a batch, and writes those that complete a part.
    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        const DISPLAY: FormatOptions<'static> = FormatOptions::new().with_null(NULL);

        let widest = if self.bound.width.is_some() { MAX_CELL_ON_TERMINAL } else { MAX_CELL };
        let formatters =
            batch.columns().iter().map(|array| ArrayFormatter::try_new(array.as_ref(), &DISPLAY));
        let formatters: Vec<_> = formatters.collect::<Result<_, _>>()?;

        for row in 0..batch.num_rows() {
            if self.bound.rows.is_some_and(|max| self.written + self.rows.len() as u64 >= max) {
                self.left_out += (batch.num_rows() - row) as u64;
                break;
            }

            let cells = formatters.iter().map(|formatter| {
                let text = formatter.value(row).to_string();
                truncate_str(&printable(&text), widest, "…").into_owned()
            });

            self.rows.push(cells.collect());
            if self.rows.len() == PART {
                self.write_part()?;
            }
        }

        Ok(())
    }

    fn write_part(&mut self) -> Result<()> {
        let rows = std::mem::take(&mut self.rows);
        let layout = match self.layout.take() {
            Some(layout) => layout,
            None => {
                let layout = layout(&self.columns, &rows, self.bound.width);
                let names: Vec<_> = self.columns.iter().map(|column| column.name.clone()).collect();
                self.write_line(&names, &layout)?;
                let rules: Vec<_> = layout.iter().map(|width| "─".repeat(*width)).collect();
                self.write_line(&rules, &layout)?;
                layout
            }
        };

        for row in &rows {
            self.write_line(row, &layout)?;
        }

        self.written += rows.len() as u64;
        self.layout = Some(layout);

        Ok(())
    }

    fn write_line(&mut self, cells: &[String], layout: &[usize]) -> Result<()> {
        let cells = cells.iter().zip(layout).zip(&self.columns).map(|((cell, width), column)| {
            let side = if column.is_number { console::Alignment::Right } else { console::Alignment::Left };
            pad_str(cell, *width, side, Some("…")).into_owned()
        });
        let line = cells.collect::<Vec<_>>().join(GAP);
        Ok(writeln!(self.out, "{}", line.trim_end())?)
    }

    /// Writes the remaining rows, and notes about what was omitted.
    pub(super) fn finish(&mut self) -> Result<()> {
        if self.layout.is_none() || !self.rows.is_empty() {
            self.write_part()?;
        }

        if self.left_out > 0 {
            match self.bound.total.map(|total| total.saturating_sub(self.written).max(self.left_out)) {
                Some(1) => writeln!(self.out, "… 1 more row")?,
                Some(more) => writeln!(self.out, "… {} more rows", grouped(more))?,
                None => {
                    let hint = self.bound.hint.unwrap_or("--limit shows them, --count counts them");
                    writeln!(self.out, "… more rows: {hint}")?;
                }
            }
        }

        let shown = self.layout.as_ref().map_or(0, Vec::len);
        let hidden: Vec<_> = self.columns.iter().skip(shown).map(|column| column.name.as_str()).collect();
        if !hidden.is_empty() {
            let noun = if hidden.len() == 1 { "column" } else { "columns" };
            let names = hidden.join(", ");
            let note = format!("… {} more {noun}: {names}", hidden.len());
            let width = self.bound.width.unwrap_or(usize::MAX);
            writeln!(self.out, "{}", truncate_str(&note, width, "…"))?;
        }

        Ok(self.out.flush()?)
    }
}

/// Returns the widths of the columns that fit. The first column is always included.
fn layout(columns: &[TableHeading], rows: &[Vec<String>], room: Option<usize>) -> Vec<usize> {
    let widths = columns.iter().enumerate().map(|(index, column)| {
        let cells = rows.iter().filter_map(|row| row.get(index)).map(String::as_str);
        let widths = cells.chain(iter::once(column.name.as_str())).map(measure_text_width);
        widths.max().unwrap_or(0)
    });

    let Some(room) = room else { return widths.collect() };

    let mut layout = Vec::new();
    let mut used = 0;
    for width in widths {
        let gap = if layout.is_empty() { 0 } else { GAP.len() };
        if used + gap + width <= room {
            layout.push(width);
        } else if layout.is_empty() {
            layout.push(room.max(1));
        } else {
            break;
        }

        used += gap + width;
    }

    layout
}

/// Escapes control characters, which could move the cursor, clear the terminal or begin a new line.
pub(crate) fn printable(text: &str) -> String {
    if !text.chars().any(char::is_control) {
        return text.to_owned();
    }

    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_control() {
            shown.extend(letter.escape_default());
        } else {
            shown.push(letter);
        }
    }

    shown
}

/// Formats a number with thousands separators.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }

    text
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, StringArray};

    use super::*;

    fn grid(batches: &[RecordBatch], bound: TableLimits) -> String {
        let mut text = Vec::new();
        let mut grid = TableEncoder::new(&mut text, &batches[0].schema(), bound);
        batches.iter().for_each(|batch| grid.write(batch).unwrap());
        grid.finish().unwrap();
        drop(grid);
        String::from_utf8(text).unwrap()
    }

    fn batch() -> RecordBatch {
        let names: ArrayRef = Arc::new(StringArray::from(vec![Some("Ada"), None, Some("a\nb\u{1b}[2J")]));
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), Some(-20), None]));
        let wide: ArrayRef = Arc::new(StringArray::from(vec!["ok", "更更", ""]));
        RecordBatch::try_from_iter([("name", names), ("number", numbers), ("更", wide)]).unwrap()
    }

    #[test]
    fn numbers_stand_to_the_right_nulls_are_visible_and_nothing_moves_the_cursor() {
        let expected = [
            "name           number  更",
            "─────────────  ──────  ────",
            "Ada                 1  ok",
            "NULL              -20  更更",
            "a\\nb\\u{1b}[2J    NULL",
        ];

        let text = grid(&[batch()], TableLimits::default());
        assert_eq!(text.lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn rows_beyond_the_bound_are_counted_where_their_number_is_known() {
        let known = TableLimits { rows: Some(2), total: Some(1_234_567), width: None, hint: None };
        assert!(grid(&[batch()], known).ends_with("… 1,234,565 more rows\n"));
        let unknown = TableLimits { rows: Some(2), ..TableLimits::default() };
        let text = grid(&[batch(), batch()], unknown);
        assert!(text.ends_with("… more rows: --limit shows them, --count counts them\n"), "{text}");
        assert_eq!(text.lines().count(), 5);
        let exact = TableLimits { rows: Some(3), ..TableLimits::default() };
        assert!(!grid(&[batch()], exact).contains('…'));
    }

    #[test]
    fn columns_that_do_not_fit_are_named_below() {
        let bound = |width| TableLimits { width: Some(width), ..TableLimits::default() };
        let text = grid(&[batch()], bound(22));
        assert!(text.starts_with("name           number\n"), "{text}");
        assert!(text.ends_with("… 1 more column: 更\n"), "{text}");
        let narrow = grid(&[batch()], bound(5));
        assert!(narrow.starts_with("name\n─────\nAda\nNULL\na\\nb…\n"), "{narrow}");
        assert!(narrow.lines().all(|line| measure_text_width(line) <= 5), "{narrow}");
    }

    #[test]
    fn a_long_table_is_laid_out_in_parts_of_the_same_columns() {
        let batches: Vec<_> = iter::repeat_n(batch(), 700).collect();
        let text = grid(&batches, TableLimits::default());
        assert_eq!(text.lines().count(), 2 + 2100);
        assert_eq!(text.matches("name").count(), 1);
    }

    #[test]
    fn thousands_are_grouped() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}
