//! Draws latency distributions: the share of requests that took no longer than a time.

use std::fmt::Write;

use super::measure::{LatencyDistribution, LatencySummary};
use crate::table;

const WIDTH: f64 = 860.0;
/// The plot within the picture, in pixels.
const LEFT: f64 = 72.0;
const RIGHT: f64 = 808.0;
const TOP: f64 = 76.0;
const BOTTOM: f64 = 396.0;
/// Baseline of the first row of the table below the plot, and height of its rows.
const TABLE_TOP: f64 = 500.0;
const ROW: f64 = 24.0;
/// Right edges of the columns of that table.
const COLUMNS: [f64; 5] = [488.0, 568.0, 648.0, 728.0, 808.0];
/// Characters of an endpoint name that fit to the left of them.
const NAME_CHARACTERS: usize = 46;
const TITLE_CHARACTERS: usize = 84;

const INK: &str = "#1f2933";
const FAINT: &str = "#616e7c";
const GRID: &str = "#e4e7eb";
const MARK: &str = "#9aa5b1";
const COLOURS: [&str; 2] = ["#0b69a3", "#d64545"];

const PERCENTILES: [(f64, &str); 3] = [(0.5, "p50"), (0.9, "p90"), (0.99, "p99")];
/// Minimum time on the axis, in milliseconds: the resolution of the measurement.
const MIN_MS: f64 = 0.001;
/// Number of marks above which only powers of ten are labelled.
const MAX_LABELS: usize = 12;

/// A curve of the picture.
pub(super) struct LatencySeries<'a> {
    /// Name of the endpoint.
    pub(super) name: String,
    pub(super) latency: &'a LatencyDistribution,
}

/// Draws an SVG document. Empty series have a row in the table, but no curve.
pub(super) fn draw(title: &str, subtitle: &str, series: &[LatencySeries<'_>]) -> String {
    let curves: Vec<_> = series.iter().map(|series| series.latency.cumulative()).collect();
    let times = curves.iter().flatten().map(|(ms, _)| ms.max(MIN_MS));
    let axis = LatencyAxis::over(times);
    let height = TABLE_TOP + ROW * series.len() as f64 - 4.0;
    let mut svg = SvgDocument(String::new());
    svg.line(&format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" font-family=\"system-ui, 'Segoe UI', 'DejaVu Sans', Helvetica, Arial, sans-serif\" \
         font-size=\"13\" role=\"img\">"
    ));

    svg.line(&format!("<title>{}</title>", escape(title)));
    svg.line(&format!("<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>"));
    let heading = escape(&shorten(title, TITLE_CHARACTERS));
    svg.line(&format!(
        "<text x=\"{LEFT}\" y=\"32\" font-size=\"17\" font-weight=\"600\" fill=\"{INK}\">{heading}</text>"
    ));
    svg.text(LEFT, 54.0, "start", FAINT, subtitle);
    svg.scales(&axis);

    for ((series, curve), colour) in series.iter().zip(&curves).zip(COLOURS) {
        svg.curve(&axis, curve, colour, series.latency.summary());
    }

    svg.figures(series);
    svg.line("</svg>");

    svg.0
}

/// A logarithmic axis of milliseconds, with marks at 1, 2 and 5 times powers of ten.
struct LatencyAxis {
    /// Marks in order; the first and the last are the ends of the axis.
    marks: Vec<AxisTick>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct AxisTick {
    digit: u32,
    power: i32,
}

impl AxisTick {
    fn ms(self) -> f64 {
        f64::from(self.digit) * 10_f64.powi(self.power)
    }

    fn label(self) -> String {
        let decimals = usize::try_from(-self.power).unwrap_or(0);
        let text = format!("{:.decimals$}", self.ms());
        let whole = if decimals == 0 { text.len() } else { 0 };
        let grouped = text.chars().enumerate().flat_map(|(index, character)| {
            let comma = index > 0 && index < whole && (whole - index).is_multiple_of(3);
            comma.then_some(',').into_iter().chain([character])
        });
        grouped.collect()
    }
}

impl LatencyAxis {
    /// Creates the shortest axis that covers all times, in milliseconds.
    fn over(times: impl Iterator<Item = f64> + Clone) -> Self {
        let shortest = times.clone().fold(f64::INFINITY, f64::min);
        let longest = times.fold(0.0, f64::max);
        let (shortest, longest) = if longest > 0.0 { (shortest, longest) } else { (1.0, 100.0) };
        let all: Vec<_> =
            (-3..8).flat_map(|power| [1, 2, 5].map(|digit| AxisTick { digit, power })).collect();
        let first = all.iter().rposition(|mark| mark.ms() <= shortest * (1.0 + 1e-9)).unwrap_or(0);
        let last = all.iter().position(|mark| mark.ms() >= longest).unwrap_or(all.len() - 1);
        Self { marks: all[first..=last.max(first + 1).min(all.len() - 1)].to_vec() }
    }

    fn ends(&self) -> (f64, f64) {
        let end = |mark: Option<&AxisTick>, otherwise| mark.map_or(otherwise, |mark| mark.ms().log10());
        (end(self.marks.first(), 0.0), end(self.marks.last(), 1.0))
    }

    /// Returns the pixels from the left of the picture.
    fn x(&self, ms: f64) -> f64 {
        let (from, to) = self.ends();
        let share = (ms.max(MIN_MS).log10() - from) / (to - from);
        LEFT + share.clamp(0.0, 1.0) * (RIGHT - LEFT)
    }
}

/// Returns the pixels from the top of the picture.
fn y(share: f64) -> f64 {
    BOTTOM - share * (BOTTOM - TOP)
}

/// The SVG text. Writing to a String cannot fail.
struct SvgDocument(String);

impl SvgDocument {
    fn line(&mut self, line: &str) {
        let _ = writeln!(self.0, "{line}");
    }

    fn text(&mut self, x: f64, y: f64, anchor: &str, colour: &str, text: &str) {
        let text = escape(text);
        self.line(&format!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"{colour}\">{text}</text>"
        ));
    }

    fn rule(&mut self, from: (f64, f64), to: (f64, f64), colour: &str, more: &str) {
        let ((x1, y1), (x2, y2)) = (from, to);
        self.line(&format!(
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{colour}\"{more}/>"
        ));
    }

    /// Draws the grid, percentile lines and axis labels.
    fn scales(&mut self, axis: &LatencyAxis) {
        for percent in [0, 20, 40, 60, 80, 100] {
            let y = y(f64::from(percent) / 100.0);
            self.rule((LEFT, y), (RIGHT, y), GRID, "");
            self.text(LEFT - 10.0, y + 4.5, "end", FAINT, &format!("{percent}%"));
        }

        let few = axis.marks.len() <= MAX_LABELS;

        for mark in &axis.marks {
            let x = axis.x(mark.ms());
            self.rule((x, TOP), (x, BOTTOM), GRID, "");
            if few || mark.digit == 1 {
                self.text(x, BOTTOM + 20.0, "middle", FAINT, &mark.label());
            }
        }

        for (share, name) in PERCENTILES {
            self.rule((LEFT, y(share)), (RIGHT, y(share)), MARK, " stroke-dasharray=\"3 4\"");
            self.text(RIGHT + 8.0, y(share) + 4.5, "start", FAINT, name);
        }

        self.rule((LEFT, BOTTOM), (RIGHT, BOTTOM), FAINT, "");
        self.text((LEFT + RIGHT) / 2.0, BOTTOM + 42.0, "middle", INK, "latency in ms (logarithmic)");
        let x = 20.0;
        let y = (TOP + BOTTOM) / 2.0;
        self.line(&format!(
            "<text transform=\"translate({x} {y}) rotate(-90)\" text-anchor=\"middle\" fill=\"{INK}\">share of \
             requests</text>"
        ));
    }

    /// Draws a step curve through the points, with dots at the percentiles.
    fn curve(
        &mut self,
        axis: &LatencyAxis,
        points: &[(f64, f64)],
        colour: &str,
        summary: Option<LatencySummary>,
    ) {
        let (Some((first, _)), Some(summary)) = (points.first(), summary) else { return };
        let mut path = format!("M{:.1} {:.1}", axis.x(*first), y(0.0));
        let mut drawn = axis.x(*first);
        for (index, (ms, share)) in points.iter().enumerate() {
            let x = axis.x(*ms);
            // Steps smaller than half a pixel are merged.
            if x - drawn >= 0.5 || index == 0 || index + 1 == points.len() {
                let _ = write!(path, "H{x:.1}V{:.1}", y(*share));
                drawn = x;
            }
        }

        self.line(&format!(
            "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" stroke-linejoin=\"round\"/>"
        ));

        for ((share, _), ms) in PERCENTILES.into_iter().zip([summary.p50, summary.p90, summary.p99]) {
            self.line(&format!(
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"4.5\" fill=\"{colour}\" stroke=\"#ffffff\" \
                 stroke-width=\"1.5\"/>",
                axis.x(ms),
                y(share),
            ));
        }
    }

    /// Draws the table below the plot: the legend and the statistics of each curve.
    fn figures(&mut self, series: &[LatencySeries<'_>]) {
        self.text(LEFT, TABLE_TOP - ROW, "start", FAINT, "latency in ms");
        for (column, name) in COLUMNS.into_iter().zip(["mean", "p50", "p90", "p99", "max"]) {
            self.text(column, TABLE_TOP - ROW, "end", FAINT, name);
        }

        for (index, (series, colour)) in series.iter().zip(COLOURS).enumerate() {
            let baseline = TABLE_TOP + ROW * index as f64;
            self.rule((LEFT, baseline - 17.0), (RIGHT, baseline - 17.0), GRID, "");
            self.line(&format!(
                "<rect x=\"{LEFT}\" y=\"{:.1}\" width=\"14\" height=\"4\" rx=\"2\" fill=\"{colour}\"/>",
                baseline - 6.5
            ));

            self.text(LEFT + 24.0, baseline, "start", INK, &shorten(&series.name, NAME_CHARACTERS));
            let figures = series.latency.summary().map(|summary| summary.figures());

            for (place, column) in COLUMNS.into_iter().enumerate() {
                let figure = figures.map(|figures| table::milliseconds(figures[place].1));
                self.text(column, baseline, "end", INK, figure.as_deref().unwrap_or("-"));
            }
        }
    }
}

/// Truncates the text with `…`.
fn shorten(text: &str, characters: usize) -> String {
    if text.chars().count() <= characters {
        return text.to_owned();
    }
    text.chars().take(characters - 1).chain(['…']).collect()
}

/// Escapes text for XML; characters that XML does not allow become U+FFFD.
fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&apos;"),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            control if control.is_control() => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }

    escaped
}

#[cfg(test)]
mod tests;
