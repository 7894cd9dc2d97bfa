//! `pleach top`: what a server does, shown again and again: load, rates of requests by index, and what runs longest.
//!
//! Rates are differences of the counters of `_nodes/stats` and `_stats` between two rounds, so other servers of this API are shown, too.
//!
//! Not here: ending a task (`tasks`), metrics for programs (`GET /_prometheus/metrics`).

use super::rows::{CODES, Common, Output, render};
use super::tasks::row_of_task;
use crate::client::{Client, JSON};
use crate::console::print;
use model::{Error, Result, units};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Rows of each table.
const ROWS: usize = 15;
/// Moves the cursor of a terminal to its upper left corner and clears what is below.
const CLEAR: &str = "\x1b[H\x1b[2J";

#[derive(clap::Args, Clone, Debug)]
#[command(after_help = CODES)]
pub(crate) struct TopFlags {
    /// Time between two rounds.
    #[arg(long, value_name = "TIME", default_value = "2s")]
    interval: String,
    /// End after so many rounds [default: never].
    #[arg(long, value_name = "N")]
    rounds: Option<u64>,
    #[command(flatten)]
    common: Common,
}

/// Counters that only rise, of one index or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counters {
    writes: u64,
    searches: u64,
    gets: u64,
}

/// The state of a server at one moment.
struct Sample {
    at: Instant,
    by_index: BTreeMap<String, (u64, Counters)>,
    nodes: Vec<Value>,
    tasks: Vec<Value>,
}

/// Shows rounds until it has shown enough, or the reader has gone.
///
/// # Errors
/// A time that is none; a server that cannot be reached.
pub(crate) fn run(flags: &TopFlags) -> Result<ExitCode> {
    let interval = units::parse_duration(&flags.interval, "interval")?;
    if interval < Duration::from_millis(100) {
        return Err(Error::illegal(format!(
            "[interval] is [{}], and the least is [100ms]",
            flags.interval
        )));
    }
    let mut client = flags.common.client()?;
    let mut before = Sample::take(&mut client)?;
    let mut rounds = 0;
    while flags.rounds.is_none_or(|most| rounds < most) {
        std::thread::sleep(interval);
        let now = Sample::take(&mut client)?;
        let round = Round::between(&before, &now);
        let text = match flags.common.output() {
            Output::Ndjson => format!("{}\n", round.to_json()),
            Output::Table => format!("{CLEAR}{}", round.to_text()),
        };
        if !print(&text)? {
            break;
        }
        before = now;
        rounds += 1;
    }
    Ok(ExitCode::SUCCESS)
}

impl Sample {
    /// Asks a server.
    fn take(client: &mut Client) -> Result<Sample> {
        let mut ask = |path: &str| {
            let answer = client.send("GET", path, JSON, b"")?;
            if answer.status < 400 {
                return Ok(answer.body);
            }
            let reason = answer.reason().unwrap_or("the server gave no reason");
            Err(Error::illegal(format!(
                "[GET {path}] was answered {}: {reason}",
                answer.status
            )))
        };
        let stats = ask("/_stats/docs,indexing,search,get")?;
        let nodes = ask("/_nodes/stats")?;
        let tasks = ask("/_tasks?detailed=true&group_by=none")?;
        Ok(Sample {
            at: Instant::now(),
            by_index: by_index(&stats),
            nodes: nodes["nodes"]
                .as_object()
                .into_iter()
                .flat_map(Map::values)
                .cloned()
                .collect(),
            tasks: tasks["tasks"].as_array().cloned().unwrap_or_default(),
        })
    }
}

/// Documents and counters of each index, by the answer of `_stats`.
fn by_index(stats: &Value) -> BTreeMap<String, (u64, Counters)> {
    let indices = stats["indices"].as_object().into_iter().flatten();
    let counters = |own: &Value| {
        let number = |path: &str| own.pointer(path).and_then(Value::as_u64).unwrap_or(0);
        let counters = Counters {
            writes: number("/primaries/indexing/index_total") + number("/primaries/indexing/delete_total"),
            searches: number("/total/search/query_total"),
            gets: number("/total/get/total"),
        };
        (number("/primaries/docs/count"), counters)
    };
    indices.map(|(name, own)| (name.clone(), counters(own))).collect()
}

/// Requests a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Rates {
    writes: f64,
    searches: f64,
    gets: f64,
}

impl Rates {
    /// The difference of counters over a time. An index that was made anew begins at 0.
    fn between(before: Counters, now: Counters, seconds: f64) -> Rates {
        let rate = |before: u64, now: u64| now.saturating_sub(before) as f64 / seconds;
        Rates {
            writes: rate(before.writes, now.writes),
            searches: rate(before.searches, now.searches),
            gets: rate(before.gets, now.gets),
        }
    }

    fn sum(self) -> f64 {
        self.writes + self.searches + self.gets
    }
}

/// What is shown of the time between two samples.
struct Round {
    /// With their documents, those with most requests first.
    indices: Vec<(String, u64, Rates)>,
    all: Rates,
    cpu_percent: u64,
    memory_bytes: u64,
    connections: u64,
    uptime: Duration,
    /// Rows as `pleach tasks` has them, those that run longest first.
    tasks: Vec<Map<String, Value>>,
}

impl Round {
    fn between(before: &Sample, now: &Sample) -> Round {
        let seconds = now.at.duration_since(before.at).as_secs_f64().max(f64::EPSILON);
        let of_index = |(name, (docs, counters)): (&String, &(u64, Counters))| {
            let earlier = before
                .by_index
                .get(name)
                .map_or_else(Counters::default, |(_, earlier)| *earlier);
            (name.clone(), *docs, Rates::between(earlier, *counters, seconds))
        };
        let mut indices: Vec<_> = now.by_index.iter().map(of_index).collect();
        let all = indices.iter().fold(Rates::default(), |all, (_, _, rates)| Rates {
            writes: all.writes + rates.writes,
            searches: all.searches + rates.searches,
            gets: all.gets + rates.gets,
        });
        indices.sort_by(|one, other| other.2.sum().total_cmp(&one.2.sum()));
        let number = |node: &Value, path: &str| node.pointer(path).and_then(Value::as_u64).unwrap_or(0);
        let sum = |path: &str| now.nodes.iter().map(|node| number(node, path)).sum();
        let uptime = now.nodes.iter().map(|node| number(node, "/jvm/uptime_in_millis")).max();
        let mut tasks: Vec<&Value> = now.tasks.iter().filter(|task| !is_of_this_command(task)).collect();
        tasks.sort_by_key(|task| std::cmp::Reverse(task["running_time_in_nanos"].as_u64()));
        Round {
            indices,
            all,
            cpu_percent: now
                .nodes
                .iter()
                .map(|node| number(node, "/process/cpu/percent"))
                .max()
                .unwrap_or(0),
            memory_bytes: sum("/jvm/mem/heap_used_in_bytes"),
            connections: sum("/http/current_open"),
            uptime: Duration::from_millis(uptime.unwrap_or(0)),
            tasks: tasks.into_iter().take(ROWS).map(row_of_task).collect(),
        }
    }

    fn index_rows(&self) -> Vec<Map<String, Value>> {
        let per_second = |rate: f64| Value::from((rate * 10.0).round() / 10.0);
        let row = |(name, docs, rates): &(String, u64, Rates)| {
            let members = [
                ("index", name.as_str().into()),
                ("docs", (*docs).into()),
                ("writes/s", per_second(rates.writes)),
                ("searches/s", per_second(rates.searches)),
                ("gets/s", per_second(rates.gets)),
            ];
            members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
        };
        self.indices.iter().take(ROWS).map(row).collect()
    }

    fn to_json(&self) -> Value {
        json!({
            "cpu_percent": self.cpu_percent,
            "memory_in_bytes": self.memory_bytes,
            "connections": self.connections,
            "uptime_in_millis": u64::try_from(self.uptime.as_millis()).unwrap_or(u64::MAX),
            "writes_per_second": self.all.writes,
            "searches_per_second": self.all.searches,
            "gets_per_second": self.all.gets,
            "indices": self.index_rows(),
            "tasks": self.tasks,
        })
    }

    fn to_text(&self) -> String {
        let head = format!(
            "up {}   cpu {} %   memory {}   connections {}   writes/s {:.1}   searches/s {:.1}   gets/s {:.1}\n",
            units::render_duration(self.uptime),
            self.cpu_percent,
            units::render_bytes(self.memory_bytes),
            self.connections,
            self.all.writes,
            self.all.searches,
            self.all.gets,
        );
        let indices = render(&["index", "docs", "writes/s", "searches/s", "gets/s"], &self.index_rows());
        let tasks = render(&["task", "action", "running", "description"], &self.tasks);
        format!("{head}\n{indices}\n{tasks}")
    }
}

/// The request by which tasks are listed is one itself.
fn is_of_this_command(task: &Value) -> bool {
    task["action"]
        .as_str()
        .is_some_and(|action| action.starts_with("cluster:monitor/tasks/lists"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_differences() {
        let sample = |at: Instant, total: u64| Sample {
            at,
            by_index: by_index(&json!({ "indices": {
                "quiet": { "primaries": { "docs": { "count": 3 } } },
                "busy": { "primaries": { "docs": { "count": total }, "indexing": { "index_total": total, "delete_total": 2 } },
                    "total": { "search": { "query_total": 2 * total } } },
            } })),
            nodes: vec![json!({ "process": { "cpu": { "percent": 7 } }, "http": { "current_open": 2 } })],
            tasks: vec![
                json!({ "node": "n", "id": 1, "action": "cluster:monitor/tasks/lists", "running_time_in_nanos": 9 }),
                json!({ "node": "n", "id": 2, "action": "indices:data/read/search", "running_time_in_nanos": 1 }),
                json!({ "node": "n", "id": 3, "action": "indices:data/read/search", "running_time_in_nanos": 2 }),
            ],
        };
        let begun = Instant::now();
        let before = sample(begun, 10);
        let round = Round::between(&before, &sample(begun + Duration::from_secs(2), 30));
        assert_eq!(round.indices[0].0, "busy");
        assert_eq!(
            round.indices[0].2,
            Rates {
                writes: 10.0,
                searches: 20.0,
                gets: 0.0
            }
        );
        assert_eq!((round.all.searches, round.cpu_percent, round.connections), (20.0, 7, 2));
        let tasks: Vec<&Value> = round.tasks.iter().map(|task| &task["task"]).collect();
        assert_eq!(tasks, ["n:3", "n:2"]);
        // An index that was made anew meanwhile counts from 0.
        let anew = Round::between(&before, &sample(begun + Duration::from_secs(2), 4));
        assert_eq!(anew.indices[0].2.writes, 0.0);
        assert!(
            round.to_text().contains("cpu 7 %") && round.to_text().contains("n:3"),
            "{}",
            round.to_text()
        );
    }
}
