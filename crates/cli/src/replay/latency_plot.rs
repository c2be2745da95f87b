//! Draws cumulative latency distributions: the share of requests that took no longer than a given time.

use std::fmt::Write;

use super::measure::{LatencyDistribution, LatencySummary};
use crate::{
    svg::{Area, LogAxis, Paint, SvgDocument, TextAnchor, shorten},
    table,
};

const WIDTH: f64 = 860.0;
/// The plot area within the picture, in pixels.
const LEFT: f64 = 72.0;
const RIGHT: f64 = 808.0;
const TOP: f64 = 76.0;
const BOTTOM: f64 = 396.0;
/// Baseline of the first row of the table below the plot, and height of a row.
const TABLE_TOP: f64 = 500.0;
const ROW: f64 = 24.0;
/// Right edges of the table's columns.
const COLUMNS: [f64; 5] = [488.0, 568.0, 648.0, 728.0, 808.0];
/// Maximum characters of an endpoint name, which is left of the columns.
const NAME_CHARACTERS: usize = 46;

const COLOURS: [Paint; 2] = [Paint::BLUE, Paint::RED];

const PERCENTILES: [(f64, &str); 3] = [(0.5, "p50"), (0.9, "p90"), (0.99, "p99")];
/// Minimum time on the axis, in milliseconds: the resolution of the measurement.
const MIN_MS: f64 = 0.001;
/// Maximum number of marks that are all labelled; with more, only powers of ten are labelled.
const MAX_LABELS: usize = 12;

/// A curve in the picture.
pub(super) struct LatencySeries<'a> {
    /// Name of the endpoint.
    pub(super) name: String,
    pub(super) latency: &'a LatencyDistribution,
}

/// Draws an SVG document. An empty series gets a row in the table but no curve.
pub(super) fn draw(title: &str, subtitle: &str, series: &[LatencySeries<'_>]) -> String {
    let curves: Vec<_> = series.iter().map(|series| series.latency.cumulative()).collect();
    let times = curves.iter().flatten().map(|(ms, _)| ms.max(MIN_MS));
    let mut plot = LatencyPlot {
        svg: SvgDocument::new(WIDTH, TABLE_TOP + ROW * series.len() as f64 - 4.0, title),
        axis: LogAxis::over(times, -3..8),
    };

    plot.svg.heading(LEFT, title, subtitle);
    plot.scales();
    for ((series, curve), colour) in series.iter().zip(&curves).zip(COLOURS) {
        plot.curve(curve, colour, series.latency.summary());
    }
    plot.figures(series);

    plot.svg.finish()
}

/// Returns the distance in pixels from the top of the picture.
fn y(share: f64) -> f64 {
    BOTTOM - share * (BOTTOM - TOP)
}

/// The picture with its axis in milliseconds.
struct LatencyPlot {
    svg: SvgDocument,
    axis: LogAxis,
}

impl LatencyPlot {
    /// Returns the distance in pixels from the left of the picture.
    fn x(&self, ms: f64) -> f64 {
        LEFT + self.axis.share(ms) * (RIGHT - LEFT)
    }

    /// Draws the grid, percentile lines and axis labels.
    fn scales(&mut self) {
        for percent in [0, 20, 40, 60, 80, 100] {
            let y = y(f64::from(percent) / 100.0);
            self.svg.rule((LEFT, y), (RIGHT, y), Paint::GRID, "");
            self.svg.text(LEFT - 10.0, y + 4.5, TextAnchor::End, Paint::FAINT, &format!("{percent}%"));
        }

        let marks: Vec<_> = self.axis.marks(MAX_LABELS).collect();
        for (mark, has_label) in marks {
            let x = self.x(mark.value());
            self.svg.rule((x, TOP), (x, BOTTOM), Paint::GRID, "");
            if has_label {
                self.svg.text(x, BOTTOM + 20.0, TextAnchor::Middle, Paint::FAINT, &mark.label());
            }
        }

        for (share, name) in PERCENTILES {
            let y = y(share);
            self.svg.rule((LEFT, y), (RIGHT, y), Paint::MARK, " stroke-dasharray=\"3 4\"");
            self.svg.text(RIGHT + 8.0, y + 4.5, TextAnchor::Start, Paint::FAINT, name);
        }

        self.svg.rule((LEFT, BOTTOM), (RIGHT, BOTTOM), Paint::FAINT, "");
        let middle = (LEFT + RIGHT) / 2.0;
        self.svg.text(middle, BOTTOM + 42.0, TextAnchor::Middle, Paint::INK, "latency in ms (logarithmic)");
        self.svg.upward_text(20.0, (TOP + BOTTOM) / 2.0, Paint::INK, "share of requests");
    }

    /// Draws a step curve through the points, with dots at the percentiles.
    fn curve(&mut self, points: &[(f64, f64)], colour: Paint, summary: Option<LatencySummary>) {
        let (Some((first, _)), Some(summary)) = (points.first(), summary) else { return };
        let mut path = format!("M{:.1} {:.1}", self.x(*first), y(0.0));
        let mut drawn = self.x(*first);
        for (index, (ms, share)) in points.iter().enumerate() {
            let x = self.x(*ms);
            // Steps smaller than half a pixel are merged.
            if x - drawn >= 0.5 || index == 0 || index + 1 == points.len() {
                let _ = write!(path, "H{x:.1}V{:.1}", y(*share));
                drawn = x;
            }
        }

        self.svg.line(&format!(
            "<path d=\"{path}\" fill=\"none\" stroke=\"currentColor\" {colour} stroke-width=\"2\" \
             stroke-linejoin=\"round\"/>"
        ));

        for ((share, _), ms) in PERCENTILES.into_iter().zip([summary.p50, summary.p90, summary.p99]) {
            let x = self.x(ms);
            let y = y(share);
            let background = Paint::BACKGROUND;
            self.svg.line(&format!(
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"6\" fill=\"currentColor\" {background}/>"
            ));
            self.svg.line(&format!(
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4.5\" fill=\"currentColor\" {colour}/>"
            ));
        }
    }

    /// Draws the table below the plot: the legend and the statistics of each curve.
    fn figures(&mut self, series: &[LatencySeries<'_>]) {
        let head = TABLE_TOP - ROW;
        self.svg.text(LEFT, head, TextAnchor::Start, Paint::FAINT, "latency in ms");
        for (column, name) in COLUMNS.into_iter().zip(["mean", "p50", "p90", "p99", "max"]) {
            self.svg.text(column, head, TextAnchor::End, Paint::FAINT, name);
        }

        for (index, (series, colour)) in series.iter().zip(COLOURS).enumerate() {
            let baseline = TABLE_TOP + ROW * index as f64;
            self.svg.rule((LEFT, baseline - 17.0), (RIGHT, baseline - 17.0), Paint::GRID, "");
            let swatch = Area { x: LEFT, y: baseline - 6.5, width: 14.0, height: 4.0 };
            self.svg.rect(swatch, colour, " rx=\"2\"", &[]);
            let name = shorten(&series.name, NAME_CHARACTERS);
            self.svg.text(LEFT + 24.0, baseline, TextAnchor::Start, Paint::INK, &name);

            let figures = series.latency.summary().map(|summary| summary.figures());
            for (index, column) in COLUMNS.into_iter().enumerate() {
                let figure = figures.map(|figures| table::milliseconds(figures[index].1));
                let figure = figure.as_deref().unwrap_or("-");
                self.svg.text(column, baseline, TextAnchor::End, Paint::INK, figure);
            }
        }
    }
}

#[cfg(test)]
mod tests;
