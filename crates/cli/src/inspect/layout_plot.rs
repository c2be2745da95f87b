//! Draws the layout of a file: the contents of its byte ranges, and the sizes of its column chunks.

use std::iter::once;

use stylobate_columnar::{ChunkInspection, ExtentContent, FileExtent, Inspection, PartInspection};

use super::{
    files::{format_name, part_name},
    picture::{chunk_dictionary, join_encodings},
};
use crate::{
    rows::{grouped, printable},
    svg::{Area, Paint, SvgDocument, TextAnchor, shorten},
    table,
};

const WIDTH: f64 = 860.0;
/// Left edge of names, edges of bars and cells, and right edges of the figures.
const NAMES: f64 = 24.0;
const LEFT: f64 = 190.0;
const RIGHT: f64 = 700.0;
const SIZES: f64 = 776.0;
const SHARES: f64 = 836.0;
/// Baseline of the heading above the lanes, and distance between lanes.
const LANES_HEAD: f64 = 88.0;
const LANE: f64 = 26.0;
/// Distance between rows of cells.
const ROW: f64 = 20.0;
const GAP: f64 = 2.0;
const MAX_CELL_WIDTH: f64 = 96.0;
/// Distance between legend entries.
const LEGEND: f64 = 126.0;
/// Minimum width of a cell that shows its size, and of one that shows its number.
const CELL_WITH_SIZE: f64 = 66.0;
const CELL_WITH_NUMBER: f64 = 34.0;
const NAME_CHARACTERS: usize = 22;
const SUBTITLE_CHARACTERS: usize = 120;

/// Maximum cells per row, and maximum rows. Beyond these, several row groups or columns share one.
const MAX_CELLS: usize = 120;
const MAX_ROWS: usize = 40;
/// Minimum width of a range, and minimum gap between ranges, in pixels; smaller ones are merged.
const MIN_RANGE_WIDTH: f64 = 1.0;
const MIN_RANGE_GAP: f64 = 0.5;
/// Approximate number of marks on the axis.
const MARKS: f64 = 6.0;

/// Opacities of cells: for sizes up to the largest one, up to a quarter of it, up to a sixteenth, and so on.
const SHADES: [f64; 6] = [1.0, 0.85, 0.5, 0.35, 0.22, 0.1];
/// Number of shades that are dark enough for text in the background colour.
const STRONG_SHADES: usize = 2;

/// Draws an SVG document. Cells are drawn for the wanted columns only.
pub(super) fn draw(file: &Inspection, is_wanted: impl Fn(&str) -> bool) -> String {
    let lanes = lanes(file);
    let rows = ChunkRow::all(file, is_wanted);
    let lanes_bottom = LANES_HEAD + 10.0 + LANE * lanes.len() as f64;
    let cells_head = lanes_bottom + 84.0;
    let cells_bottom = cells_head + 10.0 + ROW * rows.len().max(1) as f64;

    let name = printable(&file.object);
    let title = format!("Layout of {}", name.rsplit('/').next().unwrap_or(&name));
    let mut plot = LayoutPlot { svg: SvgDocument::new(WIDTH, cells_bottom + 54.0, &title), file };
    plot.svg.heading(NAMES, &title, &shorten(&subtitle(file), SUBTITLE_CHARACTERS));
    plot.lanes(&lanes);
    plot.axis(lanes_bottom);
    plot.cells(&rows, cells_head, cells_bottom);

    plot.svg.finish()
}

fn subtitle(file: &Inspection) -> String {
    let writer = file.created_by.as_deref();
    format!(
        "{}, {}, {} rows in {} of {}{}",
        format_name(file.format),
        table::bytes(file.size),
        grouped(file.rows),
        table::count(file.parts.len(), part_name(file.format)),
        table::count(file.columns.len(), "column"),
        writer.map(|writer| format!(", written by {}", printable(writer))).unwrap_or_default(),
    )
}

/// A byte range of the file, with the row group and the column that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileRange {
    start: u64,
    end: u64,
    part: Option<usize>,
    column: Option<usize>,
}

impl FileRange {
    /// Creates a range, truncated at the end of the file.
    fn of(offset: u64, size: u64, file: &Inspection) -> Self {
        let start = offset.min(file.size);
        let end = offset.saturating_add(size).min(file.size);
        Self { start, end, part: None, column: None }
    }

    fn size(self) -> u64 {
        self.end - self.start
    }
}

/// The ranges of a file that hold the same kind of content, by offset.
#[derive(Debug)]
struct LayoutLane {
    name: String,
    paint: Paint,
    ranges: Vec<FileRange>,
    /// True if wide bars show the number of their row group.
    has_numbers: bool,
}

/// Returns the non-empty lanes: row groups, and the contents of the row groups and of the file.
fn lanes(file: &Inspection) -> Vec<LayoutLane> {
    let parts = file.parts.iter().enumerate().filter_map(|(part, inspected)| {
        let range = FileRange::of(inspected.offset?, inspected.compressed_size, file);
        Some(FileRange { part: Some(part), ..range })
    });

    let contents = [
        ("data", ExtentContent::Data, Paint::BLUE),
        ("dictionaries", ExtentContent::Dictionary, Paint::AMBER),
        ("indexes", ExtentContent::Index, Paint::GREEN),
        ("bloom filters", ExtentContent::BloomFilter, Paint::PURPLE),
        ("footers", ExtentContent::Footer, Paint::RED),
    ];

    let name = format!("{}s", part_name(file.format));
    let mut lanes =
        vec![LayoutLane { name, paint: Paint::FAINT, ranges: parts.collect(), has_numbers: true }];
    for (name, content, paint) in contents {
        let ranges = file_ranges(file).filter(|(found, _)| *found == content).map(|(_, range)| range);
        lanes.push(LayoutLane { name: name.to_owned(), paint, ranges: ranges.collect(), has_numbers: false });
    }

    let all = file_ranges(file).map(|(_, range)| (range.start, range.end)).collect();
    let others = gaps(all, file.size).into_iter().map(|(start, end)| FileRange::of(start, end - start, file));
    lanes.push(LayoutLane {
        name: "other bytes".to_owned(),
        paint: Paint::MARK,
        ranges: others.collect(),
        has_numbers: false,
    });

    for lane in &mut lanes {
        lane.ranges.retain(|range| range.end > range.start);
        lane.ranges.sort_unstable_by_key(|range| range.start);
    }
    lanes.retain(|lane| !lane.ranges.is_empty());

    lanes
}

/// Returns all ranges whose content is known.
fn file_ranges(file: &Inspection) -> impl Iterator<Item = (ExtentContent, FileRange)> + '_ {
    let range = move |extent: &FileExtent| FileRange::of(extent.offset, extent.size, file);
    let of_parts = file.parts.iter().enumerate().flat_map(move |(part, inspected)| {
        let own = inspected.extents.iter().map(move |extent| (extent, None));
        let chunks = inspected.columns.iter().enumerate();
        let of_chunks =
            chunks.flat_map(|(column, chunk)| chunk.extents.iter().map(move |extent| (extent, Some(column))));

        own.chain(of_chunks).map(move |(extent, column)| {
            (extent.content, FileRange { part: Some(part), column, ..range(extent) })
        })
    });

    let footer = FileRange::of(file.size.saturating_sub(file.footer_size), file.footer_size, file);
    of_parts.chain(once((ExtentContent::Footer, footer)))
}

/// Returns the gaps between these ranges, up to `size`.
fn gaps(mut ranges: Vec<(u64, u64)>, size: u64) -> Vec<(u64, u64)> {
    ranges.sort_unstable();
    let mut gaps = Vec::new();
    let mut reached = 0;
    for (start, end) in ranges.into_iter().chain([(size, size)]) {
        if start > reached {
            gaps.push((reached, start));
        }
        reached = reached.max(end);
    }

    gaps
}

/// Ranges of a lane that are drawn as a single bar.
#[derive(Clone, Copy, Debug, PartialEq)]
struct RangeBar {
    /// Left and right edge in pixels.
    from: f64,
    to: f64,
    first: FileRange,
    count: usize,
    bytes: u64,
    end: u64,
}

/// Merges ranges that are too small to distinguish. At most two bars per pixel remain.
fn bars(ranges: &[FileRange], size: u64) -> Vec<RangeBar> {
    let x = |offset: u64| LEFT + offset as f64 / (size as f64).max(1.0) * (RIGHT - LEFT);
    let mut bars: Vec<RangeBar> = Vec::new();
    for range in ranges {
        let from = x(range.start);
        let to = x(range.end);
        let is_narrow = to - from < MIN_RANGE_WIDTH;
        let last = bars.last_mut().filter(|last| {
            from - last.to < MIN_RANGE_GAP && (is_narrow || last.to - last.from < MIN_RANGE_WIDTH)
        });

        match last {
            Some(bar) => {
                bar.to = bar.to.max(to);
                bar.count += 1;
                bar.bytes = bar.bytes.saturating_add(range.size());
                bar.end = bar.end.max(range.end);
            }
            None => {
                bars.push(RangeBar {
                    from,
                    to,
                    first: *range,
                    count: 1,
                    bytes: range.size(),
                    end: range.end,
                });
            }
        }
    }

    bars
}

/// A row of cells: one column, or all columns without a row of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ChunkRow {
    name: String,
    columns: Vec<usize>,
    bytes: u64,
}

impl ChunkRow {
    /// Returns the rows of the wanted columns, in file order. If there are too many, only the largest get their own
    /// row.
    fn all(file: &Inspection, is_wanted: impl Fn(&str) -> bool) -> Vec<Self> {
        let columns = file.columns.iter().enumerate().filter(|(_, column)| is_wanted(&column.name));
        let rows = columns.map(|(index, column)| Self {
            name: printable(&column.name),
            columns: vec![index],
            bytes: column.compressed_size,
        });

        Self::largest(rows.collect(), MAX_ROWS)
    }

    /// Merges the smallest rows into one at the bottom, so that at most `max_rows` rows remain.
    fn largest(mut rows: Vec<Self>, max_rows: usize) -> Vec<Self> {
        if rows.len() <= max_rows {
            return rows;
        }

        rows.sort_by_key(|row| std::cmp::Reverse(row.bytes));
        let others = rows.split_off(max_rows.saturating_sub(1));
        rows.sort_by_key(|row| row.columns.first().copied());
        rows.push(Self {
            name: format!("{} more columns", grouped(others.len() as u64)),
            bytes: others.iter().fold(0, |sum: u64, row| sum.saturating_add(row.bytes)),
            columns: others.into_iter().flat_map(|row| row.columns).collect(),
        });

        rows
    }

    /// Returns the total bytes of the row's chunks in these row groups.
    fn bytes_in(&self, parts: &[PartInspection]) -> u64 {
        let chunks =
            parts.iter().flat_map(|part| self.columns.iter().filter_map(move |it| part.columns.get(*it)));
        chunks.fold(0, |sum: u64, chunk| sum.saturating_add(chunk.compressed_size))
    }

    /// Returns the row's chunk in a row group, if the row is a single column.
    fn chunk<'a>(&self, part: &'a PartInspection) -> Option<&'a ChunkInspection> {
        match self.columns.as_slice() {
            [column] => part.columns.get(*column),
            _ => None,
        }
    }
}

/// The layout picture of a file.
struct LayoutPlot<'a> {
    svg: SvgDocument,
    file: &'a Inspection,
}

impl LayoutPlot<'_> {
    fn lanes(&mut self, lanes: &[LayoutLane]) {
        self.head(LANES_HEAD, "along the file");
        for (index, lane) in lanes.iter().enumerate() {
            let top = LANES_HEAD + 10.0 + LANE * index as f64;
            let baseline = top + 15.0;
            let swatch = Area { x: NAMES, y: top + 5.0, width: 10.0, height: 10.0 };
            self.svg.rect(swatch, lane.paint, " rx=\"2\"", &[]);
            self.svg.text(NAMES + 18.0, baseline, TextAnchor::Start, Paint::INK, &lane.name);
            self.svg.rule((LEFT, top + 10.0), (RIGHT, top + 10.0), Paint::GRID, "");
            for bar in bars(&lane.ranges, self.file.size) {
                self.bar(&bar, lane, top);
            }

            let bytes = lane.ranges.iter().fold(0, |sum: u64, range| sum.saturating_add(range.size()));
            self.figures(baseline, bytes);
        }
    }

    fn bar(&mut self, bar: &RangeBar, lane: &LayoutLane, top: f64) {
        let width = bar.to - bar.from;
        // Leaves a gap between neighbouring bars.
        let width = if width > 4.0 { width - 0.8 } else { width.max(MIN_RANGE_WIDTH) };
        let area = Area { x: bar.from, y: top, width, height: 20.0 };
        let tooltip = self.range_tooltip(bar, lane);
        self.svg.rect(area, lane.paint, "", &tooltip);

        if let (1, Some(part)) = (bar.count, bar.first.part)
            && lane.has_numbers
            && width >= CELL_WITH_NUMBER
        {
            let middle = bar.from + width / 2.0;
            self.svg.text(middle, top + 15.0, TextAnchor::Middle, Paint::BACKGROUND, &part.to_string());
        }
    }

    fn range_tooltip(&self, bar: &RangeBar, lane: &LayoutLane) -> Vec<String> {
        let last = bar.end.saturating_sub(1);
        let range = format!("bytes {} to {}", grouped(bar.first.start), grouped(last));
        if bar.count > 1 {
            let name = format!("{}: {} ranges", lane.name, grouped(bar.count as u64));
            return vec![name, format!("{range}, {} of them", table::bytes(bar.bytes))];
        }

        let part = bar.first.part.map(|part| format!(", {} {part}", part_name(self.file.format)));
        let column = bar.first.column.and_then(|column| self.file.columns.get(column));
        let column = column.map(|column| format!(" of {}", printable(&column.name)));
        let name = format!("{}{}{}", lane.name, column.unwrap_or_default(), part.unwrap_or_default());

        vec![name, format!("{range}, {}", table::bytes(bar.bytes))]
    }

    /// Draws the axis of offsets.
    fn axis(&mut self, bottom: f64) {
        let size = self.file.size;
        let step = mark_step(size);
        let x = |offset: u64| LEFT + offset as f64 / (size as f64).max(1.0) * (RIGHT - LEFT);
        self.svg.rule((LEFT, bottom), (RIGHT, bottom), Paint::FAINT, "");
        let mut offset = 0;

        while offset <= size {
            let x = x(offset);
            self.svg.rule((x, bottom), (x, bottom + 5.0), Paint::FAINT, "");
            self.svg.text(x, bottom + 19.0, TextAnchor::Middle, Paint::FAINT, &mark_label(offset));
            let Some(next) = offset.checked_add(step) else { break };
            offset = next;
        }

        let middle = (LEFT + RIGHT) / 2.0;
        self.svg.text(middle, bottom + 40.0, TextAnchor::Middle, Paint::INK, "offset in the file");
    }

    /// Draws a cell for each column chunk, followed by the legend.
    fn cells(&mut self, rows: &[ChunkRow], head: f64, bottom: f64) {
        let part_name = part_name(self.file.format);
        let file = self.file;
        let parts = &file.parts;
        self.head(head, &format!("columns by {part_name}"));
        let first_baseline = head + 10.0 + 14.0;
        if parts.is_empty() || rows.is_empty() {
            let text = if parts.is_empty() { format!("no {part_name}s") } else { "no columns".to_owned() };
            self.svg.text(NAMES, first_baseline, TextAnchor::Start, Paint::FAINT, &text);
            return;
        }

        let cells = parts.len().min(MAX_CELLS);
        let bounds = |cell: usize| (cell * parts.len() / cells, (cell + 1) * parts.len() / cells);
        let width = ((RIGHT - LEFT) / cells as f64).min(MAX_CELL_WIDTH);
        let labelled_each = (CELL_WITH_NUMBER / width).ceil().max(1.0) as usize;
        for cell in (0..cells).step_by(labelled_each) {
            let x = LEFT + width * (cell as f64 + 0.5);
            let (from, _) = bounds(cell);
            self.svg.text(x, head, TextAnchor::Middle, Paint::FAINT, &grouped(from as u64));
        }

        let sizes: Vec<Vec<u64>> = rows
            .iter()
            .map(|row| {
                let cells = (0..cells).map(bounds);
                cells.map(|(from, to)| parts.get(from..to).map_or(0, |parts| row.bytes_in(parts))).collect()
            })
            .collect();
        let largest = sizes.iter().flatten().copied().max().unwrap_or_default();

        for (index, (row, sizes)) in rows.iter().zip(&sizes).enumerate() {
            let top = head + 10.0 + ROW * index as f64;
            let name = shorten(&row.name, NAME_CHARACTERS);
            let tooltip = self.row_tooltip(row);
            self.svg.explained_text(NAMES, top + 14.0, TextAnchor::Start, Paint::INK, &name, &tooltip);

            for (cell, size) in sizes.iter().enumerate() {
                let x = LEFT + width * cell as f64;
                let area = Area { x, y: top, width: width - GAP.min(width / 4.0), height: ROW - GAP };
                self.cell(row, bounds(cell), *size, largest, area);
            }
            self.figures(top + 14.0, row.bytes);
        }

        self.legend(largest, bottom + 22.0);
    }

    fn cell(&mut self, row: &ChunkRow, bounds: (usize, usize), size: u64, largest: u64, area: Area) {
        let tooltip = self.cell_tooltip(row, bounds, size);
        let Some(shade) = shade(size, largest) else {
            self.svg.rect(area, Paint::GRID, " fill-opacity=\"0.4\"", &tooltip);
            return;
        };

        let opacity = SHADES.get(shade).copied().unwrap_or(1.0);
        self.svg.rect(area, Paint::BLUE, &format!(" fill-opacity=\"{opacity}\""), &tooltip);
        if area.width >= CELL_WITH_SIZE {
            let paint = if shade < STRONG_SHADES { Paint::BACKGROUND } else { Paint::INK };
            let middle = area.x + area.width / 2.0;
            let text = table::bytes(size);
            self.svg.explained_text(middle, area.y + 14.0, TextAnchor::Middle, paint, &text, &tooltip);
        }
    }

    fn row_tooltip(&self, row: &ChunkRow) -> Vec<String> {
        let [column] = row.columns.as_slice() else { return vec![row.name.clone()] };
        let Some(column) = self.file.columns.get(*column) else { return vec![row.name.clone()] };
        let codecs = join_encodings(&column.codecs);
        let encodings = join_encodings(&column.encodings);
        vec![format!("{}: {}", row.name, column.data_type), format!("{codecs}; {encodings}")]
    }

    fn cell_tooltip(&self, row: &ChunkRow, bounds: (usize, usize), size: u64) -> Vec<String> {
        let (from, to) = bounds;
        let part_name = part_name(self.file.format);
        let last = to.saturating_sub(1);
        if last > from {
            return vec![format!("{}, {part_name}s {from} to {last}", row.name), table::bytes(size)];
        }

        let mut lines = vec![format!("{}, {part_name} {from}", row.name)];
        let chunk = self.file.parts.get(from).and_then(|part| row.chunk(part));
        let Some(chunk) = chunk else {
            lines.push(table::bytes(size));
            return lines;
        };

        let raw = chunk.uncompressed_size.map(|raw| format!(" of {} raw", table::bytes(raw)));
        lines.push(format!("{}{}", table::bytes(size), raw.unwrap_or_default()));
        lines.push(format!("{}; {}", chunk.codec.to_lowercase(), join_encodings(&chunk.encodings)));
        lines.push(format!("in dictionary: {}", chunk_dictionary(chunk)));
        let values = chunk.values.map(|values| format!("{} values", grouped(values)));
        let nulls = chunk.nulls.map(|nulls| format!("{} nulls", grouped(nulls)));
        let counts: Vec<_> = values.into_iter().chain(nulls).collect();
        if !counts.is_empty() {
            lines.push(counts.join(", "));
        }

        lines
    }

    /// Draws the legend: each shade with the size at which it begins.
    fn legend(&mut self, largest: u64, baseline: f64) {
        for (index, opacity) in SHADES.into_iter().enumerate() {
            let x = NAMES + LEGEND * index as f64;
            let area = Area { x, y: baseline - 11.0, width: 14.0, height: 14.0 };
            self.svg.rect(area, Paint::BLUE, &format!(" fill-opacity=\"{opacity}\""), &[]);
            let is_last = index + 1 == SHADES.len();
            let factor = 4_u64.pow(if is_last { index as u32 } else { index as u32 + 1 });
            let bound = table::bytes(largest / factor);
            let text = if is_last { format!("up to {bound}") } else { format!("over {bound}") };
            self.svg.text(x + 20.0, baseline, TextAnchor::Start, Paint::FAINT, &text);
        }
    }

    /// Draws the heading of a section: its name, and the names of the figures.
    fn head(&mut self, baseline: f64, name: &str) {
        self.svg.text(NAMES, baseline, TextAnchor::Start, Paint::FAINT, name);
        self.svg.text(SIZES, baseline, TextAnchor::End, Paint::FAINT, "size");
        self.svg.text(SHARES, baseline, TextAnchor::End, Paint::FAINT, "share");
    }

    /// Draws a number of bytes and its share of the file.
    fn figures(&mut self, baseline: f64, bytes: u64) {
        let share = table::percent(bytes as f64 / (self.file.size as f64).max(1.0));
        self.svg.text(SIZES, baseline, TextAnchor::End, Paint::INK, &table::bytes(bytes));
        self.svg.text(SHARES, baseline, TextAnchor::End, Paint::INK, &share);
    }
}

/// Returns the index of the shade for a size; `None` if the size is 0.
fn shade(size: u64, largest: u64) -> Option<usize> {
    let ratio = largest as f64 / size as f64;
    (size > 0).then(|| ((ratio.log2() / 2.0).floor().max(0.0) as usize).min(SHADES.len() - 1))
}

/// Returns the distance between the marks of the axis: 1, 2 or 5 times a power of ten.
fn mark_step(size: u64) -> u64 {
    let min_step = (size as f64 / MARKS).max(1.0);
    let power = 10_f64.powi(min_step.log10().floor() as i32);
    let steps = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * power);
    steps.into_iter().find(|step| *step >= min_step).unwrap_or(10.0 * power) as u64
}

/// Formats an offset that is a multiple of the mark distance: `500 kB`, `1.5 MB`.
fn mark_label(offset: u64) -> String {
    let units = [("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)];
    match units.into_iter().find(|(_, size)| offset as f64 >= *size) {
        Some((unit, size)) => format!("{} {unit}", offset as f64 / size),
        None => format!("{offset} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64, end: u64) -> FileRange {
        FileRange { start, end, part: None, column: None }
    }

    fn row(index: usize, bytes: u64) -> ChunkRow {
        ChunkRow { name: format!("c{index}"), columns: vec![index], bytes }
    }

    #[test]
    fn bytes_that_nothing_refers_to_are_gaps() {
        assert_eq!(gaps(vec![(10, 20), (4, 8), (15, 18)], 24), [(0, 4), (8, 10), (20, 24)]);
        assert_eq!(gaps(vec![(0, 9)], 9), []);
        assert_eq!(gaps(Vec::new(), 0), []);
    }

    #[test]
    fn ranges_that_can_be_told_apart_have_a_bar_each() {
        let found = bars(&[range(0, 500), range(500, 900), range(990, 1000)], 1000);
        assert_eq!(
            found.iter().map(|bar| (bar.count, bar.bytes)).collect::<Vec<_>>(),
            [(1, 500), (1, 400), (1, 10)]
        );
        assert_eq!((found[0].from, found[2].to), (LEFT, RIGHT));
    }

    #[test]
    fn any_number_of_small_ranges_are_a_few_bars() {
        let ranges: Vec<_> = (0..100_000).map(|index| range(index * 10, index * 10 + 10)).collect();
        let found = bars(&ranges, 1_000_000);
        assert!(found.len() <= 2 * (RIGHT - LEFT) as usize, "{}", found.len());
        assert_eq!(found.iter().map(|bar| bar.count).sum::<usize>(), 100_000);
        assert_eq!(found.iter().map(|bar| bar.bytes).sum::<u64>(), 1_000_000);
    }

    #[test]
    fn the_smallest_of_too_many_columns_share_a_row() {
        let rows = ChunkRow::largest(vec![row(0, 5), row(1, 1), row(2, 9), row(3, 2)], 3);
        assert_eq!(rows[..2], [row(0, 5), row(2, 9)]);
        assert_eq!((rows[2].name.as_str(), rows[2].bytes, rows[2].columns.len()), ("2 more columns", 3, 2));
        assert_eq!(ChunkRow::largest(vec![row(0, 5)], 3), [row(0, 5)]);
    }

    #[test]
    fn shades_are_quarters_of_the_largest_chunk() {
        assert_eq!(
            [1000, 251, 250, 62, 1].map(|size| shade(size, 1000)),
            [Some(0), Some(0), Some(1), Some(2), Some(4)]
        );
        assert_eq!((shade(0, 1000), shade(1, u64::MAX)), (None, Some(5)));
    }

    #[test]
    fn marks_are_round_numbers_of_bytes() {
        assert_eq!([0, 5, 60, 61, 3_500_000].map(mark_step), [1, 1, 10, 20, 1_000_000]);
        assert_eq!([0, 500, 1_500_000, 2_000_000_000].map(mark_label), ["0 B", "500 B", "1.5 MB", "2 GB"]);
    }
}
