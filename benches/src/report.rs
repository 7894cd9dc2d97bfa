//! What was measured against its bar, and the table of docs/performance.md.

use crate::say;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// What a figure has to be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bar {
    /// This much or more.
    AtLeast(f64),
    /// This much or less.
    AtMost(f64),
}

impl Bar {
    fn met(self, figure: f64) -> bool {
        match self {
            Bar::AtLeast(bar) => figure >= bar,
            Bar::AtMost(bar) => figure <= bar,
        }
    }
}

struct Row {
    case: String,
    cells: String,
}

/// Rows as they are measured.
pub(crate) struct Report {
    rows: Vec<Row>,
    /// The load of the machine before anything was measured, as `/proc/loadavg` has it.
    load: String,
}

const BEGIN: &str = "<!-- written by the bench: begin -->";
const END: &str = "<!-- written by the bench: end -->";
const HEAD: &str = "| case | measured | beside | figure | bar | | date |\n|---|---|---|---:|---:|---|---|";

impl Report {
    /// Empty.
    pub(crate) fn new() -> Report {
        let all = read("/proc/loadavg");
        let load = all.split(' ').next().unwrap_or("?").to_owned();
        say(&format!("load before the run: {load}"));
        Report { rows: Vec::new(), load }
    }

    /// One case: what was measured in words, what stood beside it, the figure that the bar is about and its unit.
    pub(crate) fn row(&mut self, case: &str, measured: &str, beside: &str, figure: f64, unit: &str, bar: Bar) {
        let verdict = if bar.met(figure) { "met" } else { "**missed**" };
        let (sign, value) = match bar {
            Bar::AtLeast(bar) => ("≥", bar),
            Bar::AtMost(bar) => ("≤", bar),
        };
        let cells = format!(
            "{measured} | {beside} | {} | {sign} {} | {verdict} | {} |",
            shown(figure, unit),
            shown(value, unit),
            today()
        );
        say(&format!("{case:34} {cells}"));
        self.rows.push(Row {
            case: case.to_owned(),
            cells,
        });
    }

    /// Puts the rows into the document: in place of the rows of the same cases, else at the end.
    pub(crate) fn write(&self, path: &Path) {
        let old = std::fs::read_to_string(path).unwrap_or_default();
        let (before, rest) = old.split_once(BEGIN).unwrap_or((old.as_str(), ""));
        let (table, after) = rest.split_once(END).unwrap_or(("", ""));
        let mut lines: Vec<String> = table
            .lines()
            .filter(|l| l.starts_with("| "))
            .skip(1)
            .map(str::to_owned)
            .collect();
        for row in &self.rows {
            let line = format!("| {} | {}", row.case, row.cells);
            let same = format!("| {} |", row.case);
            match lines.iter_mut().find(|l| l.starts_with(&same)) {
                Some(known) => *known = line,
                None => lines.push(line),
            }
        }
        let text = format!(
            "{before}{BEGIN}\nMachine: {}.\n\n{HEAD}\n{}\n{END}{after}",
            machine(&self.load),
            lines.join("\n")
        );
        match std::fs::write(path, text) {
            Ok(()) => say(&format!("written to {}", path.display())),
            Err(e) => say(&format!("{} cannot be written: {e}", path.display())),
        }
    }
}

fn shown(figure: f64, unit: &str) -> String {
    let digits = if unit.is_empty() {
        format!("{figure:.2}")
    } else if figure < 10.0 {
        format!("{figure:.1}")
    } else {
        format!("{figure:.0}")
    };
    let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
    format!("{digits}{unit}")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn machine(load: &str) -> String {
    let cpu = read("/proc/cpuinfo");
    let model = cpu
        .lines()
        .find_map(|l| l.strip_prefix("model name"))
        .map_or("unknown processor", |l| l.trim_start_matches([' ', '\t', ':']))
        .to_owned();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{cores} cores, {model}; load {load} before the last run")
}

fn today() -> String {
    let days = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_secs() / 86_400);
    // Howard Hinnant's civil_from_days.
    let z = days + 719_468;
    let (era, day) = (z / 146_097, z % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (d, m) = (
        day - (153 * month + 2) / 5 + 1,
        if month < 10 { month + 3 } else { month - 9 },
    );
    format!("{}-{m:02}-{d:02}", year + era * 400 + u64::from(m <= 2))
}
