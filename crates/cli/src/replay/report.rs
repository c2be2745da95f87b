//! The report of a replay, as a table and as JSON.

use std::{collections::BTreeMap, fmt::Write};

use serde::Serialize;

use super::measure::{FailureCount, LatencySummary, Measurement, ms};
use crate::table;

/// Lag of a request in milliseconds above which the report warns: the machine that replays is then overloaded, and
/// measures itself.
const LAG_TO_WARN_OF_MS: f64 = 20.0;

/// The results of playing a trace against one endpoint, or against two.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ReplayReport {
    /// The trace file.
    trace: String,
    /// Speed relative to the trace.
    speed: f64,
    /// The runs in order.
    runs: Vec<EndpointReport>,
    /// Ratio of the second endpoint's latencies to those of the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio: Option<LatencyRatio>,
}

/// The results at one endpoint.
#[derive(Clone, Debug, Serialize)]
struct EndpointReport {
    endpoint: String,
    bucket: String,
    /// True if the replay was interrupted.
    interrupted: bool,
    /// Requests in the trace.
    requests: usize,
    completed: usize,
    failed: u64,
    /// Failures by message.
    failures: BTreeMap<String, FailureCount>,
    /// Bytes of all completed requests.
    bytes: u64,
    /// Time from the first arrival to the last byte.
    elapsed_ms: f64,
    /// Time from a request's arrival to its last byte; `null` if no request completed.
    latency_ms: Option<LatencySummary>,
    /// Time from a request's arrival to its first byte; `null` if no request completed.
    first_byte_ms: Option<LatencySummary>,
    /// Maximum delay between the arrival time of a request and its sending.
    max_lag_ms: f64,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct LatencyRatio {
    latency: LatencySummary,
    first_byte: LatencySummary,
}

impl ReplayReport {
    /// Creates an empty report.
    pub(super) fn new(trace: String, speed: f64) -> Self {
        Self { trace, speed, runs: Vec::new(), ratio: None }
    }

    /// Adds the results of an endpoint.
    pub(super) fn add(&mut self, endpoint: &str, bucket: &str, measured: &Measurement) {
        self.runs.push(EndpointReport {
            endpoint: endpoint.to_owned(),
            bucket: bucket.to_owned(),
            interrupted: measured.interrupted,
            requests: measured.requests,
            completed: measured.completed,
            failed: measured.failed(),
            failures: measured.failures.clone(),
            bytes: measured.bytes,
            elapsed_ms: ms(measured.elapsed),
            latency_ms: measured.latency.summary(),
            first_byte_ms: measured.first_byte.summary(),
            max_lag_ms: ms(measured.latest),
        });

        if let [one, other] = &self.runs[..] {
            self.ratio = one.ratio_of(other);
        }
    }

    /// Formats the report as text.
    pub(super) fn table(&self) -> String {
        let mut text = String::new();
        for run in &self.runs {
            run.describe(&mut text);
        }

        let mut rows = vec![vec![String::new()]];
        rows[0].extend(["mean", "p50", "p90", "p99", "max"].map(str::to_owned));
        let many = self.runs.len() > 1;

        for run in &self.runs {
            let of = if many { format!(", {}", run.name()) } else { String::new() };
            rows.push(row(format!("latency, ms{of}"), run.latency_ms, table::milliseconds));
        }

        let times = |ratio: f64| format!("{ratio:.2}x");
        if let Some(ratio) = self.ratio {
            rows.push(row("  second / first".to_owned(), Some(ratio.latency), times));
        }

        for run in &self.runs {
            let of = if many { format!(", {}", run.name()) } else { String::new() };
            rows.push(row(format!("first byte, ms{of}"), run.first_byte_ms, table::milliseconds));
        }

        if let Some(ratio) = self.ratio {
            rows.push(row("  second / first".to_owned(), Some(ratio.first_byte), times));
        }

        text.push('\n');
        text + &table::align(&rows)
    }

    /// Summarizes the failures in one line; `None` if every request succeeded.
    pub(super) fn problem(&self) -> Option<String> {
        if let Some(run) = self.runs.iter().find(|run| run.interrupted) {
            return Some(format!(
                "interrupted: {} of {} requests were answered",
                run.completed, run.requests
            ));
        }

        let failed: u64 = self.runs.iter().map(|run| run.failed).sum();
        let requests: usize = self.runs.iter().map(|run| run.requests).sum();
        if failed > 0 {
            return Some(format!("{failed} of {requests} requests failed"));
        }

        match &self.runs[..] {
            [one, other] if one.bytes != other.bytes => Some(format!(
                "the endpoints differ: {} sent {} bytes, {} sent {}",
                one.endpoint, one.bytes, other.endpoint, other.bytes
            )),
            _ => None,
        }
    }
}

impl EndpointReport {
    fn name(&self) -> String {
        format!("{}/{}", self.endpoint.trim_end_matches('/'), self.bucket)
    }

    fn ratio_of(&self, other: &Self) -> Option<LatencyRatio> {
        Some(LatencyRatio {
            latency: self.latency_ms?.ratio_of(&other.latency_ms?),
            first_byte: self.first_byte_ms?.ratio_of(&other.first_byte_ms?),
        })
    }

    /// Writes the lines above the table of times. Writing to a `String` cannot fail.
    fn describe(&self, text: &mut String) {
        let seconds = self.elapsed_ms / 1e3;
        let rate = if seconds > 0.0 { (self.bytes as f64 / seconds) as u64 } else { 0 };
        let _ = writeln!(
            text,
            "{}: {} of {} in {seconds:.1} s, {} ({}/s), {} failed",
            self.name(),
            self.completed,
            table::count(self.requests, "request"),
            table::bytes(self.bytes),
            table::bytes(rate),
            self.failed,
        );

        for (message, FailureCount { count, first_key }) in &self.failures {
            let _ = writeln!(text, "  {count} x {message} (first: {first_key})");
        }

        if self.max_lag_ms > LAG_TO_WARN_OF_MS {
            let lag = table::milliseconds(self.max_lag_ms);
            let _ = writeln!(
                text,
                "  This machine sent requests up to {lag} ms late: latencies include its slowness."
            );
        }
    }
}

fn row(name: String, summary: Option<LatencySummary>, show: impl Fn(f64) -> String) -> Vec<String> {
    let figures = match summary {
        Some(summary) => summary.figures().map(|(_, figure)| show(figure)),
        None => [(); 5].map(|()| "-".to_owned()),
    };
    [vec![name], figures.to_vec()].concat()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::measure::{RequestFailure, RequestSample};
    use super::*;

    fn measured(latencies_ms: &[u64], failures: usize) -> Measurement {
        let mut measurement = Measurement::new(latencies_ms.len() + failures).unwrap();
        for ms in latencies_ms {
            let latency = Duration::from_millis(*ms);
            measurement.record(Ok(RequestSample {
                late: Duration::ZERO,
                first_byte: latency / 2,
                latency,
                bytes: 500,
            }));
        }

        for _ in 0..failures {
            measurement.record(Err(RequestFailure { message: "timed out".into(), key: "a.parquet".into() }));
        }

        measurement.elapsed = Duration::from_secs(2);
        measurement
    }

    fn report(runs: &[Measurement]) -> ReplayReport {
        let mut report = ReplayReport::new("trace.csv".into(), 1.0);
        for (run, url) in runs.iter().zip(["http://node:9000", "http://origin:9001/"]) {
            report.add(url, "lake", run);
        }
        report
    }

    #[test]
    fn the_table_shows_counts_bytes_and_times() {
        let expected = "\
http://node:9000/lake: 2 of 2 requests in 2.0 s, 1.0 kB (500 B/s), 0 failed

                mean   p50   p90   p99   max
latency, ms     20.0  10.0  30.0  30.0  30.0
first byte, ms  10.0  5.00  15.0  15.0  15.0
";
        assert_eq!(report(&[measured(&[10, 30], 0)]).table(), expected);
    }

    #[test]
    fn a_comparison_has_a_row_of_ratios() {
        let report = report(&[measured(&[10], 0), measured(&[25], 0)]);
        let table = report.table();
        assert!(table.contains("latency, ms, http://origin:9001/lake"), "{table}");
        assert!(table.contains("2.50x"), "{table}");
        assert_eq!(report.problem(), None);
    }

    #[test]
    fn failures_are_listed_and_are_a_problem() {
        let report = report(&[measured(&[10], 2)]);
        assert!(report.table().contains("  2 x timed out (first: a.parquet)"), "{}", report.table());
        assert_eq!(report.problem().unwrap(), "2 of 3 requests failed");
    }

    #[test]
    fn without_a_completed_request_the_table_has_dashes_and_the_json_null() {
        let report = report(&[measured(&[], 1)]);
        assert!(report.table().contains("latency, ms        -"), "{}", report.table());
        let json = serde_json::to_value(&report).unwrap();
        assert!(json["runs"][0]["latency_ms"].is_null());
    }

    #[test]
    fn endpoints_that_send_different_bytes_are_a_problem() {
        let report = report(&[measured(&[10], 0), measured(&[10, 10], 0)]);
        assert!(report.problem().unwrap().starts_with("the endpoints differ"));
    }

    #[test]
    fn an_interrupt_is_a_problem() {
        let mut run = measured(&[10], 0);
        (run.interrupted, run.requests) = (true, 9);
        assert_eq!(report(&[run]).problem().unwrap(), "interrupted: 1 of 9 requests were answered");
    }

    #[test]
    fn the_json_has_every_figure_with_its_unit() {
        let json = serde_json::to_value(report(&[measured(&[10], 0), measured(&[20], 0)])).unwrap();
        assert_eq!(json["runs"][0]["latency_ms"]["p99"], 10.0);
        assert_eq!(json["runs"][1]["first_byte_ms"]["mean"], 10.0);
        assert_eq!(json["runs"][1]["bytes"], 500);
        assert_eq!(json["ratio"]["latency"]["max"], 2.0);
    }
}
