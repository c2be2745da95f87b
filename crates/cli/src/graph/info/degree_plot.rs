//! Draws degree distributions: for each edge type, the number of vertices over the number of their edges.

use std::fmt::Write;

use super::{
    degrees::{DegreeBucket, DegreeStats},
    facts::{EdgeTypeSummary, GraphSummary},
    picture::name_of,
};
use crate::{
    rows::{grouped, printable},
    svg::{Area, LogAxis, Paint, SvgDocument, TextAnchor, shorten},
    table,
};

const MARGIN: f64 = 24.0;
/// Maximum panels side by side.
const MAX_COLUMNS: usize = 2;
/// Top edge of the first panel, and the size of a panel including the space around it.
const TOP: f64 = 76.0;
const PANEL_WIDTH: f64 = 426.0;
const PANEL_HEIGHT: f64 = 318.0;
/// The plot area within a panel.
const LEFT: f64 = 56.0;
const RIGHT: f64 = 402.0;
const PLOT_TOP: f64 = 62.0;
const PLOT_BOTTOM: f64 = 250.0;
/// Width at the left of the plot for vertices without edges, which a logarithmic axis cannot show.
const ZERO_WIDTH: f64 = 30.0;
/// Height of a bar for a single vertex.
const BASE: f64 = 8.0;
const NAME_CHARACTERS: usize = 42;
/// Maximum number of marks that are all labelled; with more, only powers of ten are labelled.
const MAX_LABELS: usize = 7;
/// Exclusive bound of the powers of ten on the axes of vertices and edges.
const MAX_POWER: i32 = 20;

/// Draws an SVG document. All panels have the same axes.
pub(super) fn draw(graph: &GraphSummary) -> String {
    let degrees = || graph.edges.iter().filter_map(|edges| edges.degrees.as_ref()).flatten();
    let buckets = || degrees().flat_map(|of| &of.histogram);
    let with_edges = || buckets().filter(|bucket| bucket.from > 0);
    let ends = with_edges().flat_map(|bucket| [bucket.from as f64, end(*bucket)]);
    let degree_axis = LogAxis::over(ends, 0..MAX_POWER);
    let count_axis = LogAxis::over(buckets().map(|bucket| bucket.vertices as f64), 0..MAX_POWER);

    let columns = graph.edges.len().clamp(1, MAX_COLUMNS);
    let rows = graph.edges.len().div_ceil(columns).max(1);
    let width = 2.0 * MARGIN + PANEL_WIDTH * columns as f64;
    let title = format!("Degrees of {}", shorten(&printable(&graph.name), NAME_CHARACTERS));
    let svg = SvgDocument::new(width, TOP + PANEL_HEIGHT * rows as f64, &title);
    let mut plot = DegreePlot { svg, degree_axis, count_axis };
    let subtitle = format!(
        "{} vertices, {} edges; both axes are logarithmic",
        grouped(graph.vertex_count()),
        grouped(graph.edge_count())
    );

    plot.svg.heading(MARGIN, &title, &subtitle);
    if graph.edges.is_empty() {
        plot.svg.text(MARGIN, TOP + 24.0, TextAnchor::Start, Paint::FAINT, "no edge types");
    }

    for (index, edges) in graph.edges.iter().enumerate() {
        let x = MARGIN + PANEL_WIDTH * (index % columns) as f64;
        let y = TOP + PANEL_HEIGHT * (index / columns) as f64;
        plot.panel(edges, x, y);
    }

    plot.svg.finish()
}

/// Returns the colour for a direction.
fn paint(of: &DegreeStats) -> Paint {
    if of.direction == "out" { Paint::BLUE } else { Paint::RED }
}

/// Returns the degree at which a bucket ends on the axis.
fn end(bucket: DegreeBucket) -> f64 {
    bucket.to as f64 + 1.0
}

/// The picture with the axes that all panels share.
struct DegreePlot {
    svg: SvgDocument,
    degree_axis: LogAxis,
    count_axis: LogAxis,
}

impl DegreePlot {
    /// Returns the distance in pixels from the left of a panel.
    fn x(&self, degree: f64) -> f64 {
        LEFT + ZERO_WIDTH + self.degree_axis.share(degree) * (RIGHT - LEFT - ZERO_WIDTH)
    }

    /// Returns the distance in pixels from the top of a panel.
    fn y(&self, vertices: f64) -> f64 {
        PLOT_BOTTOM - BASE - self.count_axis.share(vertices) * (PLOT_BOTTOM - BASE - PLOT_TOP)
    }

    /// Draws the panel of an edge type at a position of the picture.
    fn panel(&mut self, edges: &EdgeTypeSummary, x: f64, y: f64) {
        self.svg.line(&format!("<g transform=\"translate({x:.1} {y:.1})\">"));
        let name = name_of(&edges.info);
        let shown = shorten(&name, NAME_CHARACTERS);
        self.svg.explained_text(0.0, 14.0, TextAnchor::Start, Paint::INK, &shown, &[name]);
        self.svg.text(RIGHT, 14.0, TextAnchor::End, Paint::FAINT, &format!("{} edges", grouped(edges.count)));

        let degrees = edges.degrees.as_deref().unwrap_or_default();
        if degrees.is_empty() {
            let text = "degrees are unknown: there is no ordered list";
            self.svg.text(0.0, 34.0, TextAnchor::Start, Paint::FAINT, text);
        } else {
            self.scales();
        }

        for (index, of) in degrees.iter().enumerate() {
            self.statistics(of, 34.0 + 18.0 * index as f64);
            self.steps(of);
            self.vertices_without_edges(of, index, degrees.len());
        }

        self.tooltips(degrees);
        self.svg.line("</g>");
    }

    /// Draws the grid and the axes.
    fn scales(&mut self) {
        let marks: Vec<_> = self.count_axis.marks(MAX_LABELS).collect();
        for (mark, has_label) in marks {
            let y = self.y(mark.value());
            self.svg.rule((LEFT, y), (RIGHT, y), Paint::GRID, "");
            if has_label {
                self.svg.text(LEFT - 6.0, y + 4.5, TextAnchor::End, Paint::FAINT, &mark.short_label());
            }
        }

        let label_baseline = PLOT_BOTTOM + 18.0;
        let marks: Vec<_> = self.degree_axis.marks(MAX_LABELS).collect();
        for (mark, has_label) in marks {
            let x = self.x(mark.value());
            self.svg.rule((x, PLOT_TOP), (x, PLOT_BOTTOM), Paint::GRID, "");
            if has_label {
                self.svg.text(x, label_baseline, TextAnchor::Middle, Paint::FAINT, &mark.short_label());
            }
        }

        self.svg.text(LEFT + ZERO_WIDTH / 2.0 - 4.0, label_baseline, TextAnchor::Middle, Paint::FAINT, "0");
        self.svg.rule((LEFT, PLOT_BOTTOM), (RIGHT, PLOT_BOTTOM), Paint::FAINT, "");
        let middle = (LEFT + RIGHT) / 2.0;
        self.svg.text(middle, PLOT_BOTTOM + 38.0, TextAnchor::Middle, Paint::INK, "edges of a vertex");
        self.svg.upward_text(10.0, (PLOT_TOP + PLOT_BOTTOM) / 2.0, Paint::INK, "vertices");
    }

    /// Draws the statistics of a direction, with its colour as a legend.
    fn statistics(&mut self, of: &DegreeStats, baseline: f64) {
        let swatch = Area { x: 0.0, y: baseline - 6.5, width: 14.0, height: 4.0 };
        self.svg.rect(swatch, paint(of), " rx=\"2\"", &[]);
        let none = table::percent(of.without_edges as f64 / (of.vertices as f64).max(1.0));
        let text = format!(
            "{}: median {}, p99 {}, max {}; {none} without",
            of.direction,
            grouped(of.median),
            grouped(of.p99),
            grouped(of.max),
        );
        self.svg.text(22.0, baseline, TextAnchor::Start, Paint::INK, &text);
    }

    /// Draws the buckets of vertices with edges as a stepped line above a shaded area.
    fn steps(&mut self, of: &DegreeStats) {
        let mut path = String::new();
        let mut reached: Option<f64> = None;

        for bucket in of.histogram.iter().filter(|bucket| bucket.from > 0) {
            let from = bucket.from as f64;
            let x = self.x(from);
            // Draws adjacent buckets as one shape: no degrees lie between them.
            if reached != Some(from) {
                let down = if reached.is_some() { format!("V{PLOT_BOTTOM:.1}") } else { String::new() };
                let _ = write!(path, "{down}M{x:.1} {PLOT_BOTTOM:.1}");
            }

            let y = self.y(bucket.vertices as f64);
            let _ = write!(path, "V{y:.1}H{:.1}", self.x(end(*bucket)));
            reached = Some(end(*bucket));
        }

        if reached.is_some() {
            let paint = paint(of);
            self.svg.line(&format!(
                "<path d=\"{path}V{PLOT_BOTTOM:.1}\" fill=\"currentColor\" fill-opacity=\"0.12\" \
                 stroke=\"currentColor\" {paint} stroke-width=\"2\" stroke-linejoin=\"round\"/>"
            ));
        }
    }

    /// Draws a bar for the vertices without edges. The bars of all `directions` stand side by side.
    fn vertices_without_edges(&mut self, of: &DegreeStats, index: usize, directions: usize) {
        if of.without_edges == 0 {
            return;
        }

        let y = self.y(of.without_edges as f64);
        let width = (ZERO_WIDTH - 8.0) / directions as f64;
        let area = Area { x: LEFT + width * index as f64, y, width: width - 1.0, height: PLOT_BOTTOM - y };
        self.svg.rect(area, paint(of), " fill-opacity=\"0.6\"", &[]);
    }

    /// Adds a tooltip with the figures of each bucket.
    fn tooltips(&mut self, degrees: &[DegreeStats]) {
        let mut buckets: Vec<DegreeBucket> = degrees.iter().flat_map(|of| &of.histogram).copied().collect();
        buckets.sort_unstable_by_key(|bucket| bucket.from);
        buckets.dedup_by_key(|bucket| bucket.from);

        for bucket in buckets {
            let is_zero = bucket.from == 0;
            let x = if is_zero { LEFT } else { self.x(bucket.from as f64) };
            let right = if is_zero { LEFT + ZERO_WIDTH - 8.0 } else { self.x(end(bucket)) };
            let edges = if bucket.from == bucket.to {
                table::count(bucket.from as usize, "edge")
            } else {
                format!("{} to {} edges", grouped(bucket.from), grouped(bucket.to))
            };

            let mut lines = vec![format!("vertices with {edges}")];
            for of in degrees {
                let found = of.histogram.iter().find(|other| other.from == bucket.from);
                let vertices = found.map_or(0, |found| found.vertices);
                let share = table::percent(vertices as f64 / (of.vertices as f64).max(1.0));
                lines.push(format!("{}: {} ({share})", of.direction, grouped(vertices)));
            }

            let area = Area { x, y: PLOT_TOP, width: right - x, height: PLOT_BOTTOM - PLOT_TOP };
            self.svg.rect(area, Paint::BACKGROUND, " fill-opacity=\"0\"", &lines);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use stylobate_graph::Direction;

    use super::*;
    use crate::svg::tests::text_of;

    fn degrees(direction: Direction, counts: &[(u64, u64)]) -> DegreeStats {
        DegreeStats::of(direction, &counts.iter().copied().collect::<BTreeMap<_, _>>())
    }

    fn plot(degrees: &[DegreeStats]) -> DegreePlot {
        let ends = degrees.iter().flat_map(|of| &of.histogram).map(|bucket| end(*bucket));
        let degree_axis = LogAxis::over(ends.chain([1.0]), 0..MAX_POWER);
        let count_axis = LogAxis::over([1.0, 1000.0].into_iter(), 0..MAX_POWER);
        DegreePlot { svg: SvgDocument::new(PANEL_WIDTH, 100.0, "t"), degree_axis, count_axis }
    }

    #[test]
    fn adjacent_buckets_are_one_line_and_others_are_apart() {
        let degrees = [degrees(Direction::Out, &[(1, 10), (2, 5), (3, 5), (40, 1)])];
        let mut plot = plot(&degrees);
        plot.steps(&degrees[0]);
        let svg = plot.svg.finish();
        text_of(&svg);
        let path = svg.lines().find(|line| line.starts_with("<path")).unwrap();
        let steps = path.split('"').nth(1).unwrap();
        assert_eq!((steps.matches('M').count(), steps.matches('H').count()), (2, 3), "{steps}");
        assert!(steps.ends_with(&format!("V{PLOT_BOTTOM:.1}")), "{steps}");
    }

    #[test]
    fn tooltips_have_the_numbers_of_both_directions() {
        let degrees = [degrees(Direction::Out, &[(0, 3), (2, 1)]), degrees(Direction::In, &[(1, 3), (3, 1)])];
        let mut plot = plot(&degrees);
        plot.tooltips(&degrees);
        let text = text_of(&plot.svg.finish());
        for expected in [
            "vertices with 0 edges\nout: 3 (75.0%)\nin: 0 (0.0%)",
            "vertices with 1 edge\nout: 0 (0.0%)\nin: 3 (75.0%)",
            "vertices with 2 to 3 edges\nout: 1 (25.0%)\nin: 1 (25.0%)",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
    }

    #[test]
    fn vertices_of_no_edge_and_of_the_most_edges_stay_within_the_plot() {
        let degrees = [degrees(Direction::Out, &[(0, 1), (u64::MAX, 1)])];
        let plot = plot(&degrees);
        assert_eq!(plot.x(0.0), LEFT + ZERO_WIDTH);
        assert!(plot.x(end(degrees[0].histogram[1])) <= RIGHT);
        assert_eq!((plot.y(1.0), plot.y(1000.0)), (PLOT_BOTTOM - BASE, PLOT_TOP));
    }

    #[test]
    fn a_graph_without_edges_is_a_picture_too() {
        let graph = GraphSummary {
            name: "a<b>&\u{1b}".to_owned(),
            file: String::new(),
            prefix: String::new(),
            labels: Vec::new(),
            extra_info: Vec::new(),
            vertices: Vec::new(),
            edges: Vec::new(),
        };

        let text = text_of(&draw(&graph));
        assert!(
            text.contains("Degrees of a&lt;b&gt;&amp;\\u{1b}") && text.contains("no edge types"),
            "{text}"
        );
    }
}
