//! Text output for a graph: a box for each vertex type, and an arrow for each edge type.

use console::measure_text_width;
use stylobate_graph::graphar::{Cardinality, EdgeInfo, Property};

use super::{
    degrees::DegreeStats,
    facts::{EdgeTypeSummary, GraphSummary, VertexTypeSummary},
};
use crate::{
    rows::{grouped, printable},
    table::{self, CellAlignment},
};

/// Minimum and maximum line width in characters.
const MIN_WIDTH: usize = 56;
const MAX_WIDTH: usize = 80;
/// Maximum bar length in characters.
const BAR: usize = 16;

/// Draws the graph.
pub(super) fn text(facts: &GraphSummary) -> String {
    let boxes: Vec<VertexTypeBox> = facts.vertices.iter().map(sections).collect();
    let arrows: Vec<(String, String, Vec<String>)> = facts.edges.iter().map(arrow).collect();
    let widths = boxes.iter().flat_map(VertexTypeBox::widths);
    let of_arrows = arrows.iter().flat_map(|(name, count, lines)| {
        let head = width(name) + 2 + width(count);
        lines.iter().map(|line| width(line)).chain([head])
    });

    let room = widths.chain(of_arrows).max().unwrap_or(0).clamp(MIN_WIDTH, MAX_WIDTH);

    let mut blocks = vec![head(facts)];
    blocks.extend(boxes.iter().map(|sections| sections.boxed(room)));

    for ((name, count, lines), facts) in arrows.iter().zip(&facts.edges) {
        let mut block = justified(name, count, room) + "\n";
        for line in lines {
            block += &table::truncate(line, room);
            block.push('\n');
        }

        if let Some(degrees) = facts.degrees.as_ref().filter(|degrees| !degrees.is_empty()) {
            block += &format!("\n{}", degree_bars(degrees));
        }

        blocks.push(block);
    }

    if facts.edges.iter().any(|edges| edges.degrees.is_none()) {
        blocks.push("degrees were not counted: --degrees does\n".to_owned());
    }

    blocks.join("\n")
}

fn head(facts: &GraphSummary) -> String {
    let mut lines = vec![
        vec!["file".to_owned(), printable(&facts.file)],
        vec!["vertices".to_owned(), of_types(facts.vertex_count(), facts.vertices.len())],
        vec!["edges".to_owned(), of_types(facts.edge_count(), facts.edges.len())],
    ];

    if !facts.prefix.is_empty() {
        lines.push(vec!["prefix".to_owned(), printable(&facts.prefix)]);
    }
    if !facts.labels.is_empty() {
        lines.push(vec!["labels".to_owned(), printable(&facts.labels.join(", "))]);
    }

    for (key, value) in &facts.extra_info {
        lines.push(vec![printable(key), printable(value)]);
    }

    let lines = table::align_by(&lines, &[CellAlignment::Left, CellAlignment::Left]);
    let lines: String = lines.lines().map(|line| format!("  {line}\n")).collect();

    format!("{}\n{lines}", printable(&facts.name))
}

fn of_types(count: u64, types: usize) -> String {
    match types {
        0 => "none".to_owned(),
        types => format!("{} of {}", grouped(count), table::count(types, "type")),
    }
}

/// Contents of a box: a title at either end of its upper edge, and lines, some of them with a heading.
struct VertexTypeBox {
    name: String,
    count: String,
    lines: Vec<(Option<String>, Vec<String>)>,
}

fn sections(facts: &VertexTypeSummary) -> VertexTypeBox {
    let info = &facts.info;
    let mut about =
        vec![format!("{} of {}", table::count(facts.chunks as usize, "chunk"), grouped(info.chunk_size))];
    if !info.labels.is_empty() {
        about.push(format!("labels {}", printable(&info.labels.join(", "))));
    }

    let mut lines = vec![(None, about)];
    let all = info.groups.iter().flat_map(|group| &group.properties);
    let described = table::align_by(&all.map(describe).collect::<Vec<_>>(), &[CellAlignment::Left; 3]);
    let mut described = described.lines().map(str::to_owned);
    for group in &info.groups {
        let title = format!("{} in {}", group.file_type, printable(&group.prefix));
        lines.push((Some(title), described.by_ref().take(group.properties.len()).collect()));
    }

    VertexTypeBox {
        name: printable(&info.vertex_type),
        count: counted(facts.count, "vertex", "vertices"),
        lines,
    }
}

impl VertexTypeBox {
    /// Returns the widths of the lines, including the frame.
    fn widths(&self) -> impl Iterator<Item = usize> {
        let titles =
            self.lines.iter().filter_map(|(title, _)| title.as_deref()).map(|title| width(title) + 8);
        let lines = self.lines.iter().flat_map(|(_, lines)| lines).map(|line| width(line) + 4);
        titles.chain(lines).chain([width(&self.name) + width(&self.count) + 12])
    }

    fn boxed(&self, room: usize) -> String {
        let edge = |left: &str, title: &str, end: &str, right: &str| {
            let title = table::truncate(title, room.saturating_sub(width(end) + 10));
            let title = if title.is_empty() { String::new() } else { format!("─ {title} ") };
            let end = if end.is_empty() { String::new() } else { format!(" {end} ─") };
            let rule = "─".repeat(room.saturating_sub(2 + width(&title) + width(&end)));
            format!("{left}{title}{rule}{end}{right}\n")
        };

        let mut text = edge("╭", &self.name, &self.count, "╮");
        for (title, lines) in &self.lines {
            if let Some(title) = title {
                text += &edge("├", title, "", "┤");
            }
            for line in lines {
                let line = table::truncate(line, room.saturating_sub(4));
                let space = " ".repeat(room.saturating_sub(4 + width(&line)));
                text += &format!("│ {line}{space} │\n");
            }
        }

        text + &edge("╰", "", "", "╯")
    }
}

/// Returns the name of an edge type as an arrow, its count, and the lines to print below it.
fn arrow(facts: &EdgeTypeSummary) -> (String, String, Vec<String>) {
    let info = &facts.info;
    let mut lines: Vec<Vec<String>> = Vec::new();
    for (list, parts) in info.adjacencies.iter().zip(&facts.parts) {
        let title = if lines.is_empty() { "lists" } else { "" };
        let part =
            format!("{} of {}", table::count(*parts as usize, "part"), grouped(info.part_size(list.order)));
        lines.push(vec![title.to_owned(), list.order.to_string(), list.file_type.to_string(), part]);
    }

    let lists = lines.len();

    for group in &info.groups {
        for property in &group.properties {
            let title = if lines.len() == lists { "properties" } else { "" };
            let mut described = vec![title.to_owned()];
            described.extend(describe(property));
            described.insert(2, group.file_type.to_string());
            lines.push(described);
        }
    }

    let aligned = table::align_by(&lines, &[CellAlignment::Left; 5]);
    let mut aligned: Vec<String> = aligned.lines().map(|line| format!("  {line}")).collect();
    aligned.insert(0, format!("  chunks of {} edges", grouped(info.chunk_size)));

    (name_of(info), counted(facts.count, "edge", "edges"), aligned)
}

/// Formats an edge type as `(person) -[knows]-> (person)`, without an arrowhead for undirected edges.
pub(super) fn name_of(info: &EdgeInfo) -> String {
    let head = if info.directed { "->" } else { "-" };
    let [source, edge, destination] =
        [&info.src_type, &info.edge_type, &info.dst_type].map(|name| printable(name));
    format!("({source}) -[{edge}]{head} ({destination})")
}

/// Returns the name, type and attributes of a property.
fn describe(property: &Property) -> Vec<String> {
    let mut words = Vec::new();
    if property.is_primary {
        words.push("key");
    } else if !property.is_nullable {
        words.push("not null");
    }

    match property.cardinality {
        Cardinality::Single => {}
        Cardinality::List => words.push("several"),
        Cardinality::Set => words.push("several, each once"),
    }

    vec![printable(&property.name), property.property_type.to_string(), words.join(", ")]
}

/// Formats degrees as numbers and bars.
fn degree_bars(degrees: &[DegreeStats]) -> String {
    let head = ["", "min", "median", "mean", "p99", "max", "without edges"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for of in degrees {
        let none = table::percent(of.without_edges as f64 / (of.vertices as f64).max(1.0));
        rows.push(vec![
            of.direction.to_owned(),
            grouped(of.min),
            grouped(of.median),
            format!("{:.2}", of.mean),
            grouped(of.p99),
            grouped(of.max),
            format!("{} ({none})", grouped(of.without_edges)),
        ]);
    }

    let numbers =
        table::align_by(&rows, &[[CellAlignment::Left; 1].as_slice(), &[CellAlignment::Right; 6]].concat());
    let lines = numbers.lines().map(str::to_owned).chain([String::new()]).chain(bars(degrees));

    lines.map(|line| format!("  {line}").trim_end().to_owned() + "\n").collect()
}

fn bars(degrees: &[DegreeStats]) -> Vec<String> {
    let mut buckets: Vec<(u64, u64)> =
        degrees.iter().flat_map(|of| &of.histogram).map(|bucket| (bucket.from, bucket.to)).collect();
    buckets.sort_unstable();
    buckets.dedup();

    let mut rows = vec![vec!["degree".to_owned()]];
    if let Some(head) = rows.first_mut() {
        head.extend(degrees.iter().flat_map(|of| [of.direction.to_owned(), String::new()]));
    }

    for (from, to) in buckets {
        let mut row =
            vec![if from == to { grouped(from) } else { format!("{} to {}", grouped(from), grouped(to)) }];
        for of in degrees {
            let max_vertices = of.histogram.iter().map(|bucket| bucket.vertices).max().unwrap_or_default();
            let found = of.histogram.iter().find(|bucket| bucket.from == from);
            let vertices = found.map_or(0, |bucket| bucket.vertices);
            row.extend([grouped(vertices), table::bar(vertices, max_vertices, BAR)]);
        }

        rows.push(row);
    }

    let sides = [
        CellAlignment::Right,
        CellAlignment::Right,
        CellAlignment::Left,
        CellAlignment::Right,
        CellAlignment::Left,
    ];

    table::align_by(&rows, &sides).lines().map(str::to_owned).collect()
}

fn counted(count: u64, one: &str, several: &str) -> String {
    format!("{} {}", grouped(count), if count == 1 { one } else { several })
}

/// Places two texts at opposite ends of a line.
fn justified(left: &str, right: &str, room: usize) -> String {
    let left = table::truncate(left, room.saturating_sub(width(right) + 2));
    let space = " ".repeat(room.saturating_sub(width(&left) + width(right)));
    format!("{left}{space}{right}")
}

fn width(text: &str) -> usize {
    measure_text_width(text)
}
