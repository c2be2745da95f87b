//! The two text files of a trace: the requests with their arrival times, and the objects by index.
//!
//! ```text
//! trace.csv                     objects.csv
//! timestamp_ms,file_index       key,size
//! 0,0                           small-0.parquet,880642
//! 137,3                         small-1.parquet,880642
//! ```
//!
//! In both files, the header line is optional, and blank lines and lines that begin with `#` are skipped. In the
//! objects file, the size in bytes may be omitted; index 0 is the first object.

#![deny(clippy::indexing_slicing)]

use std::{fmt::Write, fs, path::Path as FilePath, time::Duration};

use anyhow::{Context, Result, bail};
use object_store::path::Path;

const TRACE_HEADER: &str = "timestamp_ms,file_index";
const OBJECTS_HEADER: &str = "key,size";

/// An object of the store that a trace is played against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TraceObject {
    /// Key in the bucket.
    pub(super) key: Path,
    /// Size in bytes, if the objects file gives it.
    pub(super) size: Option<u64>,
}

/// One request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TraceRequest {
    /// Arrival time, relative to the first request.
    pub(super) arrival: Duration,
    /// Index of the object.
    pub(super) object: usize,
}

/// Objects, and requests for them in order of arrival.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReplayTrace {
    pub(super) objects: Vec<TraceObject>,
    pub(super) requests: Vec<TraceRequest>,
}

impl ReplayTrace {
    /// Reads a trace and its objects; `prefix` is prepended to each key.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or a line is invalid; the message is `file:line: reason`.
    pub(super) fn load(trace: &FilePath, objects: &FilePath, prefix: &str) -> Result<Self> {
        let read = |file: &FilePath| fs::read_to_string(file).with_context(|| file.display().to_string());
        let text = read(trace)?;
        let objects = parse_objects(&read(objects)?, &objects.display().to_string(), prefix)?;
        let requests = parse_requests(&text, &trace.display().to_string(), objects.len())?;
        Ok(Self { objects, requests })
    }

    /// Returns the bytes of the distinct objects requested, counting only objects of known size.
    pub(super) fn working_set_bytes(&self) -> u64 {
        let mut is_requested = vec![false; self.objects.len()];
        for request in &self.requests {
            if let Some(is_requested) = is_requested.get_mut(request.object) {
                *is_requested = true;
            }
        }
        let requested = self.objects.iter().zip(is_requested).filter(|(_, is_requested)| *is_requested);
        requested.filter_map(|(object, _)| object.size).sum()
    }
}

/// Returns the lines with content, each with its line number (from 1).
fn lines<'a>(text: &'a str, header: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
    let numbered = text.trim_start_matches('\u{feff}').lines().enumerate();
    let content = numbered
        .map(|(index, line)| (index + 1, line.trim()))
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let mut first = true;

    content.filter(move |(_, line)| {
        let is_header = std::mem::take(&mut first) && line.replace(' ', "").eq_ignore_ascii_case(header);
        !is_header
    })
}

/// Parses the requests of a trace file, and returns them in order of arrival. Arrival times are relative to the
/// first. `name` is used in errors.
fn parse_requests(text: &str, name: &str, objects: usize) -> Result<Vec<TraceRequest>> {
    let mut requests = Vec::new();
    for (number, line) in lines(text, TRACE_HEADER) {
        let Some((timestamp, index)) = line.split_once(',') else {
            bail!("{name}:{number}: {line:?} is not `{TRACE_HEADER}`");
        };
        let timestamp = timestamp.trim();
        let index = index.trim();
        let Some(arrival) = parse_milliseconds(timestamp) else {
            bail!("{name}:{number}: {timestamp:?} is not a time in milliseconds");
        };
        let Ok(object) = index.parse::<usize>() else {
            bail!("{name}:{number}: {index:?} is not the index of an object");
        };
        if object >= objects {
            bail!("{name}:{number}: there is no object {object}: the objects file has {objects}, from 0");
        }

        requests.push(TraceRequest { arrival, object });
    }

    requests.sort_by_key(|request| request.arrival);
    let Some(start) = requests.first().map(|request| request.arrival) else {
        bail!("{name}: there are no requests in it");
    };
    requests.iter_mut().for_each(|request| request.arrival -= start);

    Ok(requests)
}

/// Parses a time in milliseconds with microsecond precision; milliseconds since 1970 are exact.
fn parse_milliseconds(text: &str) -> Option<Duration> {
    let ms: f64 = text.parse().ok()?;
    (0.0..=1e15).contains(&ms).then(|| Duration::from_micros((ms * 1e3).round() as u64))
}

/// Parses the objects of an objects file. `name` is used in errors.
fn parse_objects(text: &str, name: &str, prefix: &str) -> Result<Vec<TraceObject>> {
    let mut objects = Vec::new();
    for (number, line) in lines(text, OBJECTS_HEADER).filter(|(_, line)| *line != "key") {
        // A key may contain commas, so only a number after the last comma is a size.
        let sized = line.rsplit_once(',').and_then(|(key, size)| Some((key, size.trim().parse().ok()?)));
        let (key, size) = sized.map_or((line, None), |(key, size)| (key.trim(), Some(size)));
        let key = format!("{prefix}{key}");
        let key = Path::parse(&key).with_context(|| format!("{name}:{number}: {key:?} is not a key"))?;
        objects.push(TraceObject { key, size });
    }

    if objects.is_empty() {
        bail!("{name}: there are no objects in it");
    }

    Ok(objects)
}

/// Formats a trace file. `note` becomes a comment at the top; arrival times are rounded down to milliseconds.
pub(super) fn write_requests(note: &str, requests: &[TraceRequest]) -> String {
    let mut text = format!("# {note}\n{TRACE_HEADER}\n");
    for request in requests {
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "{},{}", request.arrival.as_millis(), request.object);
    }
    text
}

/// Formats an objects file.
pub(super) fn write_objects(objects: &[TraceObject]) -> String {
    let mut text = format!("{OBJECTS_HEADER}\n");
    for object in objects {
        let _ = match object.size {
            Some(size) => writeln!(text, "{},{size}", object.key),
            None => writeln!(text, "{}", object.key),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(ms: u64, object: usize) -> TraceRequest {
        TraceRequest { arrival: Duration::from_millis(ms), object }
    }

    fn requests_error(text: &str) -> String {
        parse_requests(text, "t.csv", 2).unwrap_err().to_string()
    }

    #[test]
    fn header_comments_and_blank_lines_are_skipped() {
        let text = "# made by hand\n\ntimestamp_ms,file_index\n0,1\n  # later\n 250 , 0 \r\n\n";
        assert_eq!(parse_requests(text, "t.csv", 2).unwrap(), [request(0, 1), request(250, 0)]);
        assert_eq!(parse_requests("7,0\n", "t.csv", 1).unwrap(), [request(0, 0)]);
    }

    #[test]
    fn requests_are_sorted_and_counted_from_the_first() {
        let text = "1700000000900,0\n1700000000400,1\n1700000000400.5,0";
        let half = TraceRequest { arrival: Duration::from_micros(500), object: 0 };
        assert_eq!(parse_requests(text, "t.csv", 2).unwrap(), [request(0, 1), half, request(500, 0)]);
    }

    #[test]
    fn an_error_names_the_file_and_the_line() {
        assert_eq!(requests_error("0,0\n\n12;1\n"), "t.csv:3: \"12;1\" is not `timestamp_ms,file_index`");
        assert_eq!(requests_error("soon,1"), "t.csv:1: \"soon\" is not a time in milliseconds");
        assert_eq!(requests_error("# x\n-1,1"), "t.csv:2: \"-1\" is not a time in milliseconds");
        assert_eq!(requests_error("NaN,1"), "t.csv:1: \"NaN\" is not a time in milliseconds");
        assert_eq!(requests_error("1,a"), "t.csv:1: \"a\" is not the index of an object");
        assert_eq!(requests_error("1,2"), "t.csv:1: there is no object 2: the objects file has 2, from 0");
        assert_eq!(requests_error("timestamp_ms,file_index\n"), "t.csv: there are no requests in it");
    }

    #[test]
    fn a_header_in_the_middle_is_an_error() {
        let error = requests_error("0,0\ntimestamp_ms,file_index\n");
        assert_eq!(error, "t.csv:2: \"timestamp_ms\" is not a time in milliseconds");
    }

    #[test]
    fn objects_have_keys_with_prefix_and_perhaps_sizes() {
        let text = "key,size\na/b.parquet,100\nwith,comma.parquet\n# no\nwith,comma.parquet, 7\n";
        let object = |key: &str, size| TraceObject { key: Path::parse(key).unwrap(), size };
        assert_eq!(
            parse_objects(text, "o.csv", "lake/").unwrap(),
            [
                object("lake/a/b.parquet", Some(100)),
                object("lake/with,comma.parquet", None),
                object("lake/with,comma.parquet", Some(7)),
            ]
        );
    }

    #[test]
    fn wrong_objects_are_errors() {
        let error = |text| parse_objects(text, "o.csv", "").unwrap_err().to_string();
        assert_eq!(error("key\n"), "o.csv: there are no objects in it");
        assert_eq!(error("a//b,1\n"), "o.csv:1: \"a//b\" is not a key");
    }

    #[test]
    fn what_is_written_reads_back() {
        let requests = vec![request(0, 1), request(12, 0), request(12, 1)];
        let objects = vec![
            TraceObject { key: Path::from("a.parquet"), size: Some(5) },
            TraceObject { key: Path::from("b.parquet"), size: None },
        ];
        assert_eq!(parse_requests(&write_requests("note", &requests), "t", 2).unwrap(), requests);
        assert_eq!(parse_objects(&write_objects(&objects), "o", "").unwrap(), objects);
    }

    #[test]
    fn the_working_set_counts_each_requested_object_once() {
        let object = |key: &str, size| TraceObject { key: Path::from(key), size };
        let objects = vec![object("a", Some(5)), object("b", Some(7)), object("c", Some(100))];
        let trace = ReplayTrace { objects, requests: vec![request(0, 1), request(1, 0), request(2, 1)] };
        assert_eq!(trace.working_set_bytes(), 12);
    }
}
