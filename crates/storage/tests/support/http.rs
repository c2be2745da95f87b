//! Reads the requests that a server of a test receives.

use std::io::BufRead;

/// Returns the lines of a request in lower case; `None` once the connection is closed.
pub fn read_head(lines: &mut impl BufRead) -> Option<Vec<String>> {
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        if lines.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line.trim().is_empty() {
            return Some(head);
        }
        head.push(line.trim().to_ascii_lowercase());
    }
}

/// Returns the first and the last byte of the requested range.
pub fn requested_range(head: &[String]) -> Option<(usize, usize)> {
    let range = head.iter().find_map(|line| line.strip_prefix("range: bytes="))?;
    let (start, end) = range.split_once('-')?;
    Some((start.parse().ok()?, end.parse().ok()?))
}
