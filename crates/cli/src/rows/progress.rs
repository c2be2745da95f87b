//! How far the work is, on a terminal, once it has taken a second.

use std::{
    fmt::Write,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::Result;
use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use tokio::task::JoinHandle;

use super::grouped;
use crate::table;

/// Work that takes less time than this shows no progress.
const PATIENCE: Duration = Duration::from_secs(1);
const REDRAWN_EACH: Duration = Duration::from_millis(200);

/// Shows how many rows and bytes there are so far. Dropped, it disappears.
#[derive(Debug)]
pub(crate) struct ProgressDisplay {
    bar: ProgressBar,
    bytes: Arc<AtomicU64>,
    shown: JoinHandle<()>,
}

/// Counts bytes for a progress, from any thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct ByteCount(Arc<AtomicU64>);

impl ByteCount {
    pub(crate) fn add(&self, bytes: usize) {
        self.0.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl ProgressDisplay {
    /// Shows the progress towards so many rows, or towards an unknown number. `hidden`: the terminal is needed for
    /// something else.
    pub(crate) fn new(rows: Option<u64>, hidden: bool) -> Result<Self> {
        Self::of("rows", rows, hidden)
    }

    /// The same of things that are no rows.
    pub(crate) fn of(noun: &'static str, count: Option<u64>, hidden: bool) -> Result<Self> {
        let bar = ProgressBar::with_draw_target(count, ProgressDrawTarget::hidden());
        let template = match count {
            Some(_) => "{bar:20} {human_pos} of {human_len} {noun}{rate}{msg}{left}",
            None => "{spinner} {human_pos} {noun}{rate}{msg}",
        };
        // Before anything is done, nobody knows how fast it will be.
        let rate = move |state: &ProgressState, out: &mut dyn Write| {
            if state.pos() > 0 {
                let _ = write!(out, ", {} {noun}/s", grouped(state.per_sec() as u64));
            }
        };
        let left = |state: &ProgressState, out: &mut dyn Write| {
            if state.pos() > 0 {
                let _ = write!(out, ", {:#} left", HumanDuration(state.eta()));
            }
        };
        let noun = move |_: &ProgressState, out: &mut dyn Write| {
            let _ = out.write_str(noun);
        };
        let style = ProgressStyle::with_template(template)?;
        bar.set_style(style.with_key("rate", rate).with_key("left", left).with_key("noun", noun));
        let bytes = Arc::<AtomicU64>::default();
        let shown = (bar.clone(), bytes.clone());
        let shown = tokio::spawn(async move {
            let (bar, bytes) = shown;
            tokio::time::sleep(PATIENCE).await;
            if hidden {
                return;
            }
            bar.set_draw_target(ProgressDrawTarget::stderr());
            loop {
                let bytes = bytes.load(Ordering::Relaxed);
                let each_second = (bytes as f64 / bar.elapsed().as_secs_f64().max(0.001)) as u64;
                if bytes > 0 {
                    bar.set_message(format!(", {}, {}/s", table::bytes(bytes), table::bytes(each_second)));
                }
                bar.tick();
                tokio::time::sleep(REDRAWN_EACH).await;
            }
        });
        Ok(Self { bar, bytes, shown })
    }

    /// So many more rows are done.
    pub(crate) fn add_rows(&self, rows: usize) {
        self.bar.inc(rows as u64);
    }

    /// Sets how many rows and bytes are done, from any thread.
    pub(crate) fn setter(&self) -> impl Fn(u64, u64) + Send + Sync + 'static + use<> {
        let bar = self.bar.clone();
        let done = self.bytes.clone();
        move |rows, bytes| {
            bar.set_position(rows);
            done.store(bytes, Ordering::Relaxed);
        }
    }

    /// Where bytes that are done are counted.
    pub(crate) fn byte_count(&self) -> ByteCount {
        ByteCount(self.bytes.clone())
    }

    /// Takes it off the terminal.
    pub(crate) fn clear(&self) {
        self.shown.abort();
        self.bar.finish_and_clear();
    }
}

impl Drop for ProgressDisplay {
    fn drop(&mut self) {
        self.clear();
    }
}
