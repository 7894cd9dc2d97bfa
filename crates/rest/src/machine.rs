//! Facts of the operating system about this process and its machine, for `_nodes/stats` and `_cat/nodes`.
//!
//! Read from `/proc` when asked; where that is missing a figure is zero. Not here: the data folder's disk, which the engine tells.

/// One look at the process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Machine {
    /// Resident memory.
    pub(crate) resident_bytes: u64,
    /// Address space.
    pub(crate) virtual_bytes: u64,
    pub(crate) memory_total_bytes: u64,
    pub(crate) memory_available_bytes: u64,
    pub(crate) swap_total_bytes: u64,
    pub(crate) swap_free_bytes: u64,
    pub(crate) open_files: u64,
    pub(crate) open_files_max: u64,
    /// The machine's load over 1, 5 and 15 minutes.
    pub(crate) load: [f64; 3],
    /// User and system time of the process.
    pub(crate) cpu_ms: u64,
    pub(crate) uptime_ms: u64,
    pub(crate) processors: u64,
    /// Threads of the process.
    pub(crate) threads: u64,
}

impl Machine {
    /// Looks now.
    pub(crate) fn look() -> Machine {
        let text = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let (status, memory, limits) = (text("/proc/self/status"), text("/proc/meminfo"), text("/proc/self/limits"));
        let stat = text("/proc/self/stat");
        // After the name in parentheses: utime is the 14th field of all, stime the 15th, starttime the 22nd; ticks of 10 ms.
        let fields: Vec<u64> = stat
            .rsplit(')')
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .map(|field| field.parse().unwrap_or(0))
            .collect();
        let ticks = |i: usize| fields.get(i - 3).copied().unwrap_or(0) * 10;
        let mut load = [0.0; 3];
        for (slot, word) in load.iter_mut().zip(text("/proc/loadavg").split_whitespace()) {
            *slot = word.parse().unwrap_or(0.0);
        }
        let up = text("/proc/uptime")
            .split_whitespace()
            .next()
            .and_then(|s| s.parse::<f64>().ok());
        let total = kilobytes(&memory, "MemTotal:");
        Machine {
            resident_bytes: kilobytes(&status, "VmRSS:"),
            virtual_bytes: kilobytes(&status, "VmSize:"),
            memory_total_bytes: total,
            memory_available_bytes: kilobytes(&memory, "MemAvailable:").min(total),
            swap_total_bytes: kilobytes(&memory, "SwapTotal:"),
            swap_free_bytes: kilobytes(&memory, "SwapFree:"),
            open_files: std::fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count() as u64),
            open_files_max: after(&limits, "Max open files").unwrap_or(0),
            load,
            cpu_ms: ticks(14) + ticks(15),
            uptime_ms: up.map_or(0, |up| ((up * 1000.0) as u64).saturating_sub(ticks(22))),
            threads: after(&status, "Threads:").unwrap_or(0),
            processors: std::thread::available_parallelism().map_or(1, |n| n.get() as u64),
        }
    }
    /// When the process began, in milliseconds since 1970.
    pub(crate) fn started_ms(&self, now_ms: i64) -> i64 {
        now_ms.saturating_sub(i64::try_from(self.uptime_ms).unwrap_or(i64::MAX))
    }
    /// The operating system as it calls itself.
    pub(crate) fn system_name(&self) -> String {
        let text = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
        let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
        name.map_or_else(|| std::env::consts::OS.to_owned(), |name| name.trim_matches('"').to_owned())
    }
    /// The version of its kernel.
    pub(crate) fn kernel(&self) -> String {
        let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        text.trim().to_owned()
    }
    /// Where the file system that holds a folder is mounted, and what from.
    pub(crate) fn mount_of(&self, folder: &str) -> String {
        mount_point(folder).map_or_else(String::new, |(device, at, _)| format!("{at} ({device})"))
    }
    /// The type of that file system.
    pub(crate) fn file_system_of(&self, folder: &str) -> String {
        mount_point(folder).map_or_else(String::new, |(_, _, kind)| kind)
    }
    /// Used memory of the machine.
    pub(crate) fn memory_used_bytes(&self) -> u64 {
        self.memory_total_bytes - self.memory_available_bytes
    }
    /// Time of the process a second of its life, in percent of all processors.
    pub(crate) fn cpu_percent(&self) -> u64 {
        percent(self.cpu_ms, self.uptime_ms * self.processors)
    }
}

/// Whole percent of a part; 0 of nothing.
pub(crate) fn percent(part: u64, whole: u64) -> u64 {
    part.saturating_mul(100).checked_div(whole).unwrap_or(0)
}

/// Device, place and type of the mount that a folder is under: the longest that it begins with.
fn mount_point(folder: &str) -> Option<(String, String, String)> {
    let folder = std::fs::canonicalize(folder).ok()?;
    let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
    let rows = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ');
        Some((words.next()?, words.next()?, words.next()?))
    });
    let under = rows.filter(|(_, at, _)| folder.starts_with(at));
    let (device, at, kind) = under.max_by_key(|(_, at, _)| at.len())?;
    Some((device.to_owned(), at.to_owned(), kind.to_owned()))
}

fn after(text: &str, label: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(label))?;
    rest.split_whitespace().next()?.parse().ok()
}

fn kilobytes(text: &str, label: &str) -> u64 {
    after(text, label).unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_running_process_has_memory_and_files() {
        let machine = Machine::look();
        assert!(machine.processors > 0);
        if cfg!(target_os = "linux") {
            assert!(
                machine.resident_bytes > 0 && machine.resident_bytes <= machine.virtual_bytes,
                "{machine:?}"
            );
            assert!(
                machine.open_files > 0 && machine.open_files <= machine.open_files_max,
                "{machine:?}"
            );
            assert!(machine.memory_used_bytes() > 0, "{machine:?}");
        }
    }
}
