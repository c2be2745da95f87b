//! Formats the figures of a node as text.

use super::figures::{NodeFigures, TopQuantiles, TopRead, TopSample, TopSources};
use crate::{
    rows::{grouped, printable},
    table::{CellAlignment, align, align_by, bar, bytes, milliseconds, percent, truncate},
};

const BAR: usize = 24;
/// Maximum characters of a read's description, and of an object's name.
const NAME: usize = 80;

/// Selects the count of one source.
type SourceCount = fn(&TopSources) -> u64;

/// Formats the figures of the node at `url`, in lines of at most `width` characters.
pub(super) fn picture(figures: &NodeFigures, url: &str, width: usize) -> String {
    let stats = &figures.stats;
    let mut text = format!(
        "stylobate {} at {}, up {}, {} of bytes read from the cache\n\n",
        printable(&stats.version),
        printable(url),
        uptime(stats.requests.uptime_seconds),
        percent(stats.hit_ratio),
    );
    text += &totals(figures);
    text += &format!("\n{}", sources(figures));
    text += &format!("\n{}", buckets(figures));
    if !figures.reads.is_empty() {
        text += &format!("\n{}", running(&figures.reads));
    }
    if !figures.hot.objects.is_empty() {
        text += &format!("\n{}", hot(figures));
    }

    text.lines().map(|line| truncate(line, width) + "\n").collect()
}

fn totals(figures: &NodeFigures) -> String {
    let stats = &figures.stats;
    let requests = format!(
        "{}/s, {}/s failed, {} in flight, {} connections",
        rate(figures.rate(|sample| sample.requests)),
        rate(figures.rate(|sample| sample.errors)),
        grouped(stats.requests.in_flight),
        grouped(stats.requests.connections),
    );
    let sent = format!(
        "{}/s by S3, {}/s by Flight",
        bytes(figures.rate(|sample| sample.bytes_out) as u64),
        bytes(figures.rate(|sample| sample.flight_bytes) as u64),
    );
    let latency = quantiles(figures.quantiles(|sample| (sample.latency, sample.requests)));
    let origin = quantiles(figures.quantiles(|sample| (sample.origin_latency, sample.origin_requests)));
    let held = stats.memory.holders.iter().filter(|holder| holder.bytes > 0);
    let held: Vec<_> =
        held.map(|holder| format!("{} {}", printable(&holder.holder), bytes(holder.bytes))).collect();

    let mut rows = vec![
        vec!["requests".to_owned(), requests],
        vec!["sent".to_owned(), sent],
        vec!["latency".to_owned(), latency],
        vec!["origins".to_owned(), origin],
        vec![
            "memory".to_owned(),
            format!("{}: {}", share(stats.memory.used, stats.memory.capacity), held.join(", ")),
        ],
    ];
    if stats.cache.disk_capacity > 0 {
        rows.push(vec!["disk".to_owned(), share(stats.cache.disk_used, stats.cache.disk_capacity)]);
    }
    align_by(&rows, &[CellAlignment::Left, CellAlignment::Left])
}

fn sources(figures: &NodeFigures) -> String {
    let of: [(&str, SourceCount); 5] = [
        ("memory", |by| by.memory),
        ("disk", |by| by.disk),
        ("peers", |by| by.peer),
        ("origin", |by| by.origin),
        ("passed through", |by| by.passed_through),
    ];
    let mut rows = vec![["source", "bytes/s", "reads/s"].map(str::to_owned).to_vec()];
    for (name, of) in of {
        let bytes_read = figures.rate(|sample: &TopSample| of(&sample.bytes));
        let reads = figures.rate(|sample: &TopSample| of(&sample.reads));
        rows.push(vec![name.to_owned(), bytes(bytes_read as u64), rate(reads)]);
    }
    align(&rows)
}

fn buckets(figures: &NodeFigures) -> String {
    let headings = [
        "bucket",
        "hits",
        "from cache",
        "from origin",
        "requests saved",
        "bytes saved",
        "origin requests",
        "p50 ms",
        "p99 ms",
        "errors",
    ];
    let mut rows = vec![headings.map(str::to_owned).to_vec()];
    for bucket in &figures.stats.buckets {
        let origin = &bucket.origin_requests;
        let time = |ms| if origin.answered > 0 { milliseconds(ms) } else { String::new() };
        rows.push(vec![
            printable(&bucket.name),
            percent(bucket.hit_ratio),
            bytes(bucket.reads.bytes_memory + bucket.reads.bytes_disk),
            bytes(bucket.reads.bytes_origin + bucket.reads.bytes_passed_through),
            grouped(bucket.saved.requests),
            bytes(bucket.saved.bytes),
            grouped(origin.answered),
            time(origin.p50_ms),
            time(origin.p99_ms),
            grouped(origin.errors.values().sum()),
        ]);
    }
    align(&rows)
}

fn running(reads: &[TopRead]) -> String {
    let mut rows = vec![["running", "kind", "seconds", "rows", "bytes", "done"].map(str::to_owned).to_vec()];
    for read in reads {
        let done = read.total_rows.map(|total| percent(read.rows as f64 / total.max(1) as f64));
        rows.push(vec![
            truncate(&printable(&read.text), NAME),
            printable(&read.kind),
            format!("{:.0}", read.seconds),
            grouped(read.rows),
            bytes(read.bytes),
            done.unwrap_or_default(),
        ]);
    }
    align(&rows)
}

fn hot(figures: &NodeFigures) -> String {
    let mut rows = vec![["read most", "reads", "bytes"].map(str::to_owned).to_vec()];
    for object in &figures.hot.objects {
        let name = printable(&format!("{}/{}", object.bucket, object.key));
        rows.push(vec![truncate(&name, NAME), grouped(object.reads), bytes(object.bytes)]);
    }
    align(&rows)
}

fn share(used: u64, capacity: u64) -> String {
    let filled = bar(used, capacity, BAR);
    let share = percent(used as f64 / capacity.max(1) as f64);
    format!("{filled:BAR$} {share}, {} of {}", bytes(used), bytes(capacity))
}

fn quantiles(quantiles: Option<TopQuantiles>) -> String {
    match quantiles {
        Some(TopQuantiles { p50_ms, p90_ms, p99_ms }) => format!(
            "{} ms median, {} ms 90 of 100, {} ms 99 of 100",
            milliseconds(p50_ms),
            milliseconds(p90_ms),
            milliseconds(p99_ms)
        ),
        None => "no requests".to_owned(),
    }
}

/// Formats a count per second.
fn rate(rate: f64) -> String {
    if rate > 0.0 && rate < 9.95 { format!("{rate:.1}") } else { grouped(rate.round() as u64) }
}

fn uptime(seconds: u64) -> String {
    let minutes = seconds / 60;
    let hours = minutes / 60;
    let days = hours / 24;
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, minutes) => format!("{minutes} min"),
        (0, hours, minutes) => format!("{hours} h {} min", minutes % 60),
        (days, hours, _) => format!("{days} d {} h", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn figures(samples: Value, reads: Value, hot: Value) -> NodeFigures {
        let bucket = json!({
            "name": "lake", "hit_ratio": 0.75,
            "reads": { "bytes_memory": 5_000_000, "bytes_disk": 1_000_000, "bytes_origin": 2_000_000, "bytes_passed_through": 0 },
            "origin_requests": { "answered": 12, "p50_ms": 25.0, "p99_ms": 180.0, "errors": { "503": 2, "timeout": 1 } },
            "saved": { "requests": 1_234, "bytes": 6_000_000 },
        });
        let documents = json!({
            "samples": samples, "reads": reads, "hot": { "objects": hot },
            "stats": {
                "version": "0.1.0", "hit_ratio": 0.75,
                "requests": { "uptime_seconds": 7_500, "in_flight": 3, "connections": 17 },
                "memory": { "capacity": 8_000_000, "used": 4_000_000, "holders": [
                    { "holder": "pages", "bytes": 3_000_000 }, { "holder": "chunks", "bytes": 1_000_000 },
                    { "holder": "other", "bytes": 0 },
                ] },
                "cache": { "disk_capacity": 20_000_000, "disk_used": 5_000_000 },
                "buckets": [bucket],
            },
        });
        NodeFigures::of(&documents).unwrap()
    }

    fn sample() -> Value {
        json!({
            "at_ms": 1, "seconds": 2.0, "requests": 800, "errors": 3, "bytes_out": 4_000_000, "flight_bytes": 0,
            "reads": { "memory": 1_800, "disk": 300, "peer": 0, "origin": 9, "passed_through": 0 },
            "bytes": { "memory": 2_000_000, "disk": 600_000, "peer": 0, "origin": 100_000, "passed_through": 0 },
            "latency": { "p50_ms": 0.4, "p90_ms": 1.1, "p99_ms": 6.0 },
            "origin_requests": 9, "origin_latency": null,
        })
    }

    #[test]
    fn the_figures_of_a_node_fit_on_a_screen() {
        let read = json!({ "kind": "scan", "text": "lake/a\u{1b}[2J", "seconds": 3.2, "rows": 250, "bytes": 1_000, "total_rows": 1_000 });
        let endless = json!({ "kind": "query", "text": "SELECT 1", "seconds": 0.4, "rows": 1, "bytes": 0, "total_rows": null });
        let object = json!({ "bucket": "lake", "key": "a/b.parquet", "reads": 42, "bytes": 3_000 });
        let figures = figures(json!([sample(), sample()]), json!([read, endless]), json!([object]));
        let text = picture(&figures, "http://127.0.0.1:9001", 120);
        assert!(!text.contains('\u{1b}'), "{text}");

        let expected = "\
stylobate 0.1.0 at http://127.0.0.1:9001, up 2 h 5 min, 75.0% of bytes read from the cache

requests  400/s, 1.5/s failed, 3 in flight, 17 connections
sent      2.0 MB/s by S3, 0 B/s by Flight
latency   0.400 ms median, 1.10 ms 90 of 100, 6.00 ms 99 of 100
origins   no requests
memory    ████████████             50.0%, 4.0 MB of 8.0 MB: pages 3.0 MB, chunks 1.0 MB
disk      ██████                   25.0%, 5.0 MB of 20.0 MB

source           bytes/s  reads/s
memory            1.0 MB      900
disk            300.0 kB      150
peers                0 B        0
origin           50.0 kB      4.5
passed through       0 B        0

bucket   hits  from cache  from origin  requests saved  bytes saved  origin requests  p50 ms  p99 ms  errors
lake    75.0%      6.0 MB       2.0 MB           1,234       6.0 MB               12    25.0     180       3
";
        assert_eq!(&text[..expected.len()], expected);
        let rest = &text[expected.len()..];
        assert!(rest.contains("scan") && rest.contains("25.0%") && rest.contains("SELECT 1"), "{rest}");
        assert!(
            rest.contains("\nread most         reads   bytes\nlake/a/b.parquet     42  3.0 kB\n"),
            "{rest}"
        );
    }

    #[test]
    fn a_node_that_just_started_has_no_rates_and_lines_are_cut() {
        let figures = figures(json!([]), json!([]), json!([]));
        let text = picture(&figures, "http://127.0.0.1:9001", 40);
        assert!(
            text.contains("requests  0/s, 0/s failed") && text.contains("latency   no requests"),
            "{text}"
        );
        assert!(text.lines().all(|line| console::measure_text_width(line) <= 40), "{text}");
        assert!(!text.contains("running") && !text.contains("read most"));
    }

    #[test]
    fn times_have_the_units_that_count() {
        let times = [59, 60, 7_199, 90_000].map(uptime);
        assert_eq!(times, ["59 s", "1 min", "1 h 59 min", "1 d 1 h"]);
    }
}
