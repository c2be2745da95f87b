//! A progress display on a terminal, which appears after a second.

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

/// Delay before progress is displayed.
const DELAY: Duration = Duration::from_secs(1);
const REDRAW_INTERVAL: Duration = Duration::from_millis(200);

/// Display of the rows and bytes processed so far. Disappears on drop.
#[derive(Debug)]
pub(crate) struct ProgressDisplay {
    bar: ProgressBar,
    bytes: Arc<AtomicU64>,
    shown: JoinHandle<()>,
}

/// Byte counter of a progress display, usable from any thread.
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
    /// Displays progress towards a number of rows, if known. `hidden` if the terminal is used for other output.
    pub(crate) fn new(rows: Option<u64>, hidden: bool) -> Result<Self> {
        Self::of("rows", rows, hidden)
    }

    /// Like [`Self::new`], for items other than rows.
    pub(crate) fn of(noun: &'static str, count: Option<u64>, hidden: bool) -> Result<Self> {
        let bar = ProgressBar::with_draw_target(count, ProgressDrawTarget::hidden());
        let template = match count {
            Some(_) => "{bar:20} {human_pos} of {human_len} {noun}{rate}{msg}{left}",
            None => "{spinner} {human_pos} {noun}{rate}{msg}",
        };

        // The rate is unknown until the first item is done.
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
            tokio::time::sleep(DELAY).await;
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
                tokio::time::sleep(REDRAW_INTERVAL).await;
            }
        });

        Ok(Self { bar, bytes, shown })
    }

    /// Adds to the number of finished rows.
    pub(crate) fn add_rows(&self, rows: usize) {
        self.bar.inc(rows as u64);
    }

    /// Returns a function that sets the finished rows and bytes, usable from any thread.
    pub(crate) fn setter(&self) -> impl Fn(u64, u64) + Send + Sync + 'static + use<> {
        let bar = self.bar.clone();
        let done = self.bytes.clone();
        move |rows, bytes| {
            bar.set_position(rows);
            done.store(bytes, Ordering::Relaxed);
        }
    }

    /// Returns the byte counter.
    pub(crate) fn byte_count(&self) -> ByteCount {
        ByteCount(self.bytes.clone())
    }

    /// Clears the display.
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
