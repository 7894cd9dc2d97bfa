//! `/livez` and `/readyz` for whoever starts and stops the process, `_health_report` for people.
//!
//! The report has the shape of Elasticsearch 8: an indicator has a status, a symptom, details, and where it is not green
//! also impacts and diagnoses. Its worst indicator is its status. Not here: `_cluster/health` (`cluster`).

use crate::call::Call;
use crate::render::cluster::{Health, control_damage};
use crate::render::nodes::node_stats;
use crate::respond::Answer;
use async_recursion::async_recursion as boxed;
use engine::{IndexInfo, NodeStats, Trouble};
use model::blocks::{READ_ONLY_ALLOW_DELETE, is_on};
use model::watermarks::{Stage, Watermarks};
use model::{Error, ErrorKind, Result, Target};
use serde_json::{Map, Value, json};

/// `GET /livez`: the process answers.
#[boxed]
pub(crate) async fn live(call: Call) -> Result<Answer> {
    call.no_body()?;
    call.params.finish()?;
    Ok(Answer::ok(json!({ "status": "pass" })))
}

/// `GET /readyz`: reads and writes are answered. 503 with the reasons if they are not.
#[boxed]
pub(crate) async fn ready(call: Call) -> Result<Answer> {
    call.no_body()?;
    call.params.finish()?;
    let node = node_stats(&call).await?;
    let stopping = call.rest.stopping.borrow().then(|| "the server is told to stop".to_owned());
    let checks = [
        ("accepting", stopping),
        ("writes", node.read_only),
        ("control", control_damage(&call.rest).await),
    ];
    let ready = checks.iter().all(|(_, failure)| failure.is_none());
    let shown: Map<String, Value> = checks
        .into_iter()
        .map(|(name, failure)| (name.to_owned(), failure.unwrap_or_else(|| "pass".to_owned()).into()))
        .collect();
    let (status, word) = if ready { (200, "pass") } else { (503, "fail") };
    Ok(Answer::of(status, json!({ "status": word, "checks": shown })))
}

/// The indicators in the order of the report.
const INDICATORS: [&str; 6] = [
    "master_is_stable",
    "writes",
    "control",
    "disk",
    "background_work",
    "shards_availability",
];

model::assert_words_differ!(INDICATORS, "each indicator of the report has a name of its own");

/// `GET /_health_report`.
#[boxed]
pub(crate) async fn report(mut call: Call) -> Result<Answer> {
    let verbose = !call.params.is_given("verbose") || call.params.flag("verbose")?;
    let size = call.params.take("size").unwrap_or_else(|| "1000".into());
    let size: usize = size
        .parse()
        .map_err(|_| Error::illegal(format!("[size] must be a whole number but was [{size}]")))?;
    call.no_body()?;
    call.params.finish()?;
    let wanted = call.arg("indicator");
    if let Some(unknown) = wanted.filter(|wanted| !INDICATORS.contains(wanted)) {
        let hint = model::nearest::question(unknown, INDICATORS);
        return Err(Error::new(
            ErrorKind::ResourceNotFound,
            format!("Did not find indicator [{unknown}]{hint}"),
        ));
    }
    let store = HealthFigures::look(&call).await?;
    let all = INDICATORS.iter().map(|name| (*name, store.indicator(name, &call)));
    let shown: Vec<(&str, Indicator)> = all.filter(|(name, _)| wanted.is_none_or(|wanted| wanted == *name)).collect();
    let worst = shown
        .iter()
        .map(|(_, indicator)| indicator.status)
        .max()
        .unwrap_or(Status::Green);
    let indicators: Map<String, Value> = shown
        .into_iter()
        .map(|(name, indicator)| (name.to_owned(), indicator.render(name, verbose, size)))
        .collect();
    let mut body = json!({ "cluster_name": call.rest.names.cluster, "indicators": indicators });
    if wanted.is_none() {
        let mut whole = Map::new();
        whole.insert("status".into(), worst.word().into());
        whole.append(body.as_object_mut().unwrap_or(&mut Map::new()));
        body = Value::Object(whole);
    }
    Ok(Answer::ok(body))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Status {
    Green,
    Yellow,
    Red,
}

impl Status {
    fn word(self) -> &'static str {
        match self {
            Status::Green => "green",
            Status::Yellow => "yellow",
            Status::Red => "red",
        }
    }
}

/// Something that is not as it should be, with the way out.
#[derive(Debug)]
struct Fault {
    id: &'static str,
    /// Its impact on users.
    impact: &'static str,
    areas: &'static [&'static str],
    cause: String,
    action: &'static str,
    /// Indices that it touches.
    indices: Vec<String>,
}

/// One part of the report.
#[derive(Debug)]
struct Indicator {
    status: Status,
    symptom: String,
    details: Value,
    faults: Vec<Fault>,
}

impl Indicator {
    fn green(symptom: &str, details: Value) -> Indicator {
        Indicator {
            status: Status::Green,
            symptom: symptom.to_owned(),
            details,
            faults: Vec::new(),
        }
    }

    fn render(&self, name: &str, verbose: bool, size: usize) -> Value {
        let mut out = json!({ "status": self.status.word(), "symptom": self.symptom });
        if !verbose {
            return out;
        }
        out["details"] = self.details.clone();
        if self.faults.is_empty() {
            return out;
        }
        let severity = if self.status == Status::Red { 1 } else { 3 };
        let impact = |fault: &Fault| {
            json!({ "id": format!("pleach:health:{name}:impact:{}", fault.id), "severity": severity,
                "description": fault.impact, "impact_areas": fault.areas })
        };
        let diagnosis = |fault: &Fault| {
            let mut out = json!({ "id": format!("pleach:health:{name}:diagnosis:{}", fault.id), "cause": fault.cause,
                "action": fault.action });
            if !fault.indices.is_empty() {
                let shown: Vec<&String> = fault.indices.iter().take(size).collect();
                out["affected_resources"] = json!({ "indices": shown });
            }
            out
        };
        out["impacts"] = self.faults.iter().map(impact).collect();
        out["diagnosis"] = self.faults.iter().map(diagnosis).collect();
        out
    }
}

/// The figures that the indicators are judged by.
struct HealthFigures {
    infos: Vec<IndexInfo>,
    health: Health,
    node: NodeStats,
    /// Background work that fails, with the index that it is of.
    troubles: Vec<(Option<String>, Trouble)>,
    control: Option<String>,
    watermarks: Watermarks,
}

impl HealthFigures {
    async fn look(call: &Call) -> Result<HealthFigures> {
        let mut target = Target::of(Vec::new());
        (target.forbid_closed, target.expand_closed, target.expand_hidden) = (false, true, true);
        let stats = call.rest.stats(target).await?;
        let node = node_stats(call).await?;
        let of_indices = stats.iter().flat_map(|(info, stats)| {
            let name = Some(info.name.to_string());
            stats.troubles.iter().map(move |trouble| (name.clone(), trouble.clone()))
        });
        let of_node = node.troubles.iter().cloned().chain(call.rest.relations.troubles());
        let troubles = of_node.map(|trouble| (None, trouble)).chain(of_indices).collect();
        let infos: Vec<IndexInfo> = stats.into_iter().map(|(info, _)| info).collect();
        Ok(HealthFigures {
            health: Health::of_all(&infos, call).await,
            infos,
            node,
            troubles,
            control: control_damage(&call.rest).await,
            watermarks: crate::disk_monitor::watermarks(&call.rest).await?,
        })
    }

    fn indicator(&self, name: &str, call: &Call) -> Indicator {
        match name {
            "master_is_stable" => {
                let names = &call.rest.names;
                let this = json!({ "node_id": names.node_id, "name": names.node });
                let details = json!({ "current_master": this, "recent_masters": [this] });
                Indicator::green("The cluster has a stable master node", details)
            }
            "writes" => self.writes(),
            "control" => self.control(call),
            "disk" => self.disk(),
            "background_work" => self.background_work(),
            _ => self.shards_availability(),
        }
    }

    fn writes(&self) -> Indicator {
        let node = &self.node;
        let details = json!({ "log_in_bytes": node.log_bytes, "pending_in_bytes": node.pending_bytes,
            "pending_limit_in_bytes": node.pending_max_bytes });
        let Some(reason) = &node.read_only else {
            return Indicator::green("Writes are accepted.", details);
        };
        Indicator {
            status: Status::Red,
            symptom: "All writes are refused.".to_owned(),
            details,
            faults: vec![Fault {
                id: "writes_refused",
                impact: "No document can be written, no lock granted, no index changed. Reads are answered.",
                areas: &["ingest", "deployment_management"],
                cause: reason.clone(),
                action: "Look at the disk of the data folder, then restart the server: the log has everything that was acknowledged.",
                indices: Vec::new(),
            }],
        }
    }

    fn control(&self, call: &Call) -> Indicator {
        let stuck = call.rest.relations.is_stuck();
        let details = json!({ "readable": self.control.is_none(), "stuck_changes": stuck });
        let fault = |id, impact, cause: String, action| Fault {
            id,
            impact,
            areas: &["ingest"],
            cause,
            action,
            indices: Vec::new(),
        };
        if let Some(reason) = &self.control {
            return Indicator {
                status: Status::Red,
                symptom: "The control index cannot be read.".to_owned(),
                details,
                faults: vec![fault(
                    "control_damaged",
                    "Locks, transactions and by-query jobs are refused.",
                    reason.clone(),
                    "Stop the server and run pleach check DIR --repair-control.",
                )],
            };
        }
        if stuck {
            return Indicator {
                status: Status::Yellow,
                symptom: "A change waits for an operator.".to_owned(),
                details,
                faults: vec![fault(
                    "change_stuck",
                    "Documents of the change refuse other writes.",
                    "a change of several documents cannot be finished".to_owned(),
                    "See GET /_cat/transactions, then POST /_transaction/ID/_resolve.",
                )],
            };
        }
        Indicator::green("Locks and transactions are served.", details)
    }

    fn disk(&self) -> Indicator {
        let (total, left) = (self.node.disk_total_bytes, self.node.disk_available_bytes);
        let stage = self.watermarks.stage(total, left);
        let blocked = self.infos.iter().filter(|info| is_on(&info.settings, READ_ONLY_ALLOW_DELETE));
        let blocked: Vec<String> = blocked.map(|info| info.name.to_string()).collect();
        let known = u8::from(total > 0);
        let over = |least: Stage| u8::from(stage >= least);
        let details = json!({ "total_in_bytes": total, "available_in_bytes": left, "indices_with_readonly_block": blocked.len(),
            "nodes_with_enough_disk_space": known - over(Stage::High), "nodes_with_unknown_disk_status": 1 - known,
            "nodes_over_high_watermark": over(Stage::High) - over(Stage::FloodStage),
            "nodes_over_flood_stage_watermark": over(Stage::FloodStage) });
        let fault = |id, impact, action, indices| Fault {
            id,
            impact,
            areas: &["ingest"],
            cause: format!("{left} bytes of {total} are left"),
            action,
            indices,
        };
        if stage == Stage::FloodStage || !blocked.is_empty() {
            return Indicator {
                status: Status::Red,
                symptom: format!("{} indices are not allowed to be updated.", blocked.len()),
                details,
                faults: vec![fault(
                    "flood_stage_watermark_exceeded",
                    "Documents of these indices can be read and deleted, not written.",
                    "Delete indices or give the data folder a larger disk; the blocks go when the disk is below the high watermark.",
                    blocked,
                )],
            };
        }
        if stage < Stage::High {
            return Indicator::green("The cluster has enough available disk space.", details);
        }
        Indicator {
            status: Status::Yellow,
            symptom: "The disk of the data folder is nearly full.".to_owned(),
            details,
            faults: vec![fault(
                "high_watermark_exceeded",
                "At flood stage all indices refuse writes.",
                "Delete indices or give the data folder a larger disk.",
                Vec::new(),
            )],
        }
    }

    fn background_work(&self) -> Indicator {
        let details = json!({ "failing": self.troubles.len() });
        if self.troubles.is_empty() {
            return Indicator::green("Refreshes, merges and checkpoints succeed.", details);
        }
        let fault = |(index, trouble): &(Option<String>, Trouble)| Fault {
            id: "background_work_fails",
            impact: "New documents may stay invisible to searches, and the log may grow.",
            areas: &["search", "ingest"],
            cause: format!("{} failed {} times: {}", trouble.work, trouble.failures, trouble.reason),
            action: "It is tried again by itself. See the reason, and GET /_nodes/stats for the time since when it fails.",
            indices: index.iter().cloned().collect(),
        };
        Indicator {
            status: Status::Yellow,
            symptom: "Work behind the scenes does not succeed.".to_owned(),
            details,
            faults: self.troubles.iter().map(fault).collect(),
        }
    }

    fn shards_availability(&self) -> Indicator {
        let stopped: Vec<&IndexInfo> = self.infos.iter().filter(|info| info.stopped.is_some()).collect();
        let details = json!({ "started_primaries": self.health.active, "started_replicas": 0, "unassigned_primaries": stopped.len(),
            "unassigned_replicas": 0, "initializing_primaries": 0, "initializing_replicas": 0, "creating_primaries": 0,
            "creating_replicas": 0, "restarting_primaries": 0, "restarting_replicas": 0 });
        if stopped.is_empty() {
            return Indicator::green("This cluster has all shards available.", details);
        }
        let fault = |info: &&IndexInfo| Fault {
            id: "index_damaged",
            impact: "Documents of the index cannot be read or written. Other indices are served.",
            areas: &["search", "ingest"],
            cause: info.stopped.clone().unwrap_or_default(),
            action: "Stop the server and run pleach check DIR, which names the damaged file.",
            indices: vec![info.name.to_string()],
        };
        Indicator {
            status: Status::Red,
            symptom: format!("This cluster has {} damaged indices.", stopped.len()),
            details,
            faults: stopped.iter().map(fault).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::watermarks::Reach;

    fn store(node: NodeStats) -> HealthFigures {
        HealthFigures {
            infos: Vec::new(),
            health: Health::of(&[], model::Persona::Es8),
            node,
            troubles: Vec::new(),
            control: None,
            watermarks: Watermarks::of(&Map::new(), Reach::Network).unwrap(),
        }
    }

    fn check_disk(total: u64, left: u64, expected: Status) {
        let node = NodeStats {
            disk_total_bytes: total,
            disk_available_bytes: left,
            ..NodeStats::default()
        };
        assert_eq!(store(node).disk().status, expected, "{left} of {total}");
    }

    #[test]
    fn a_disk_is_nearly_full_by_percent_or_by_bytes() {
        check_disk(0, 0, Status::Green);
        check_disk(100 << 30, 11 << 30, Status::Green);
        check_disk(100 << 30, 9 << 30, Status::Yellow);
        check_disk(100 << 30, 4 << 30, Status::Red);
        check_disk(100 << 40, 151 << 30, Status::Green);
        check_disk(100 << 40, 149 << 30, Status::Yellow);
        check_disk(100 << 40, 99 << 30, Status::Red);
    }

    #[test]
    fn a_fault_has_impact_and_diagnosis() {
        let refused = store(NodeStats {
            read_only: Some("no space left".to_owned()),
            ..NodeStats::default()
        });
        let shown = refused.writes().render("writes", true, 10);
        assert_eq!(shown["status"], "red");
        assert_eq!(shown["impacts"][0]["severity"], 1);
        assert_eq!(shown["diagnosis"][0]["cause"], "no space left");
        assert_eq!(refused.writes().render("writes", false, 10)["diagnosis"], Value::Null);
        let mut failing = store(NodeStats::default());
        for index in ["a", "b"] {
            let trouble = Trouble {
                work: "refresh",
                reason: "full".to_owned(),
                failures: 3,
                since_ms: 0,
            };
            failing.troubles.push((Some(index.to_owned()), trouble));
        }
        let shown = failing.background_work().render("background_work", true, 0);
        assert_eq!(shown["status"], "yellow");
        assert_eq!(shown["diagnosis"][1]["cause"], "refresh failed 3 times: full");
        assert_eq!(shown["diagnosis"][1]["affected_resources"], json!({ "indices": [] }));
    }
}
