//! Formats the read statistics of a scan as text.

use std::time::Instant;

use stylobate_columnar::Cache;

use crate::{
    rows::grouped,
    table::{self, CellAlignment},
};

/// The statistics of one scan.
#[derive(Debug)]
pub(super) struct ScanCommandStats {
    started: Instant,
    rows: u64,
}

impl ScanCommandStats {
    pub(super) fn start() -> Self {
        Self { started: Instant::now(), rows: 0 }
    }

    /// Sets the number of output rows.
    pub(super) fn rows(&mut self, rows: u64) {
        self.rows = rows;
    }

    pub(super) fn text(&self, cache: &Cache) -> String {
        let seconds = self.started.elapsed().as_secs_f64();
        let columns = cache.stats();
        let pages = cache.page_stats();

        let mut gets = 0;
        let mut heads = 0;
        let mut origin = 0;
        let mut passed = 0;
        for read in cache.read_stats() {
            gets += read.origin_gets;
            heads += read.origin_heads;
            origin += read.bytes_origin;
            passed += read.bytes_passed_through;
        }

        let line = |name: &str, value: String| vec![name.to_owned(), value];
        let lines = [
            line("rows", format!("{} in {seconds:.3} s", grouped(self.rows))),
            line("footers parsed", grouped(columns.parsed_files)),
            line(
                "column chunks",
                format!(
                    "{} decoded, {} found in memory",
                    grouped(columns.decoded_chunks),
                    grouped(columns.hits)
                ),
            ),
            line(
                "row groups",
                format!(
                    "{} ruled out by statistics, {} read past the cache",
                    grouped(columns.pruned_row_groups),
                    grouped(columns.streamed_row_groups),
                ),
            ),
            line("requests", format!("{} to read, {} to ask for versions", grouped(gets), grouped(heads))),
            line(
                "bytes",
                format!(
                    "{} read, {} of them into pages",
                    table::bytes(origin + passed),
                    table::bytes(origin)
                ),
            ),
            line(
                "pages",
                format!("{} found in memory, {} not", grouped(pages.memory_hits), grouped(pages.misses)),
            ),
            line("held in memory", table::bytes(columns.bytes.saturating_add(pages.memory_used))),
        ];

        table::align_by(&lines, &[CellAlignment::Left, CellAlignment::Left])
    }
}
