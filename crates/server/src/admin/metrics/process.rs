//! Resource usage of the process, under the names that all exporters use: `process_*`.

use std::{fmt, fs, sync::OnceLock, time::SystemTime};

use prometheus_client::{collector::Collector, encoding::DescriptorEncoder};

use super::{lone_float_counter, lone_gauge};

/// Kernel clock ticks per second: 100 on every Linux platform that the node runs on.
const TICKS_PER_SECOND: f64 = 100.0;

/// Collector of the process metrics.
#[derive(Debug)]
pub(super) struct ProcessCollector;

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        lone_gauge(
            encoder,
            "process_start_time_seconds",
            "Start time of the process since unix epoch in seconds",
            started(),
        )?;

        // The process name may contain anything, so the remaining fields begin after the last parenthesis.
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let number = |at: usize| fields.get(at).and_then(|text| text.parse::<f64>().ok());
        if let (Some(user), Some(system)) = (number(11), number(12)) {
            let help = "Total user and system CPU time spent in seconds";
            lone_float_counter(encoder, "process_cpu_seconds", help, (user + system) / TICKS_PER_SECOND)?;
        }

        for (name, help, value) in [
            ("process_threads", "Number of OS threads in the process", number(17)),
            ("process_virtual_memory_bytes", "Virtual memory size in bytes", number(20)),
            ("process_resident_memory_bytes", "Resident memory size in bytes", resident()),
            ("process_open_fds", "Number of open file descriptors", open_descriptors()),
            ("process_max_fds", "Maximum number of open file descriptors", max_descriptors()),
        ] {
            if let Some(value) = value {
                lone_gauge(encoder, name, help, value)?;
            }
        }

        Ok(())
    }
}

/// Returns the time of the first call, which is when the admin door opened.
fn started() -> f64 {
    static STARTED: OnceLock<f64> = OnceLock::new();
    *STARTED.get_or_init(|| {
        let created = fs::metadata("/proc/self").and_then(|process| process.modified());
        let since = created.unwrap_or_else(|_| SystemTime::now()).duration_since(SystemTime::UNIX_EPOCH);
        since.map_or(0.0, |since| since.as_secs_f64())
    })
}

fn resident() -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024.0)
}

fn open_descriptors() -> Option<f64> {
    // One of them is the directory that is being read.
    Some(fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1) as f64)
}

fn max_descriptors() -> Option<f64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}
