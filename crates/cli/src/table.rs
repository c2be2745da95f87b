//! Text tables and number formats.

use console::{measure_text_width, truncate_str};

/// Alignment of a cell within its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CellAlignment {
    Left,
    Right,
}

/// Formats rows of cells, separated by two spaces. The first column is left-aligned, the others are right-aligned.
pub(crate) fn align(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let mut sides = vec![CellAlignment::Right; columns];
    sides.iter_mut().take(1).for_each(|side| *side = CellAlignment::Left);
    align_by(rows, &sides)
}

/// Formats rows of cells, separated by two spaces, with the given alignments (default: left).
pub(crate) fn align_by(rows: &[Vec<String>], sides: &[CellAlignment]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| measure_text_width(cell)).max().unwrap_or(0)
    };

    let widths: Vec<_> = (0..columns).map(width).collect();

    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
            let space = " ".repeat(width.saturating_sub(measure_text_width(cell)));
            match sides.get(column) {
                Some(CellAlignment::Right) => format!("{space}{cell}"),
                _ => format!("{cell}{space}"),
            }
        });

        let line = cells.collect::<Vec<_>>().join("  ");
        text.push_str(line.trim_end());
        text.push('\n');
    }

    text
}

/// Formats a time in milliseconds with three significant digits.
pub(crate) fn milliseconds(ms: f64) -> String {
    match ms {
        ms if ms < 0.9995 => format!("{ms:.3}"),
        ms if ms < 9.995 => format!("{ms:.2}"),
        ms if ms < 99.95 => format!("{ms:.1}"),
        _ => format!("{ms:.0}"),
    }
}

/// Formats a number of bytes with a decimal unit.
pub(crate) fn bytes(bytes: u64) -> String {
    let units = [("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)];
    match units.into_iter().find(|(_, size)| bytes as f64 >= *size) {
        Some((unit, size)) => format!("{:.1} {unit}", bytes as f64 / size),
        None => format!("{bytes} B"),
    }
}

/// Formats a fraction as a percentage.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1}%", 100.0 * share)
}

/// Draws a bar for `part` of `whole`, at most `longest` characters long, in steps of an eighth of a character.
pub(crate) fn bar(part: u64, whole: u64, longest: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (part as f64 / (whole as f64).max(1.0) * (longest * 8) as f64).round() as usize;
    "█".repeat(eighths / 8) + EIGHTHS.get(eighths % 8).copied().unwrap_or_default()
}

/// Truncates a text to a display width, ending it with an ellipsis.
pub(crate) fn truncate(text: &str, max_width: usize) -> String {
    truncate_str(text, max_width, "…").into_owned()
}

/// Formats a count with its noun, such as `1 request` or `2 requests`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_under_each_other() {
        let rows = [vec!["policy".into(), "hits".into()], vec!["lru".into(), "12".into()]];
        assert_eq!(align(&rows), "policy  hits\nlru       12\n");
        assert_eq!(align(&[]), "");
    }

    #[test]
    fn bars_have_the_length_of_their_share() {
        assert_eq!(bar(100, 100, 12), "█".repeat(12));
        assert_eq!(bar(50, 100, 12), "█".repeat(6));
        assert_eq!(
            (bar(1, 100, 12), bar(0, 100, 12), bar(0, 0, 12)),
            ("▏".to_owned(), String::new(), String::new())
        );
    }

    #[test]
    fn numbers_keep_the_digits_that_count() {
        let times: Vec<_> = [0.0421, 0.9999, 1.234, 12.34, 99.96, 1959.4].map(milliseconds).into();
        assert_eq!(times, ["0.042", "1.00", "1.23", "12.3", "100", "1959"]);
        assert_eq!([999, 1_000, 8_400_000].map(bytes), ["999 B", "1.0 kB", "8.4 MB"]);
        assert_eq!(percent(0.5), "50.0%");
        assert_eq!((count(1, "request"), count(0, "file")), ("1 request".into(), "0 files".into()));
    }
}
