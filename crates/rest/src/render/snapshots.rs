//! Snapshots and their state as JSON, in the words of each persona.

use crate::human::date_text;
use engine::snapshots::Running;
use model::Persona;
use serde_json::{Map, Value, json};
use snapshot::{IndexFailure, IndexPart, State, Summary};

/// A snapshot. `verbose`: with times, failures and shards.
pub(crate) fn snapshot(one: &Summary, repository: &str, persona: Persona, verbose: bool) -> Value {
    let mut out = Map::new();
    let mut put = |name: &str, value: Value| drop(out.insert(name.to_owned(), value));
    put("snapshot", one.name.as_str().into());
    if persona != Persona::Es2 {
        put("uuid", one.uuid.as_str().into());
    }
    if matches!(persona, Persona::Es8 | Persona::Es9) {
        put("repository", repository.into());
    }
    if !verbose {
        put("indices", json!(one.indices));
        if persona != Persona::Es2 {
            put("data_streams", json!([]));
        }
        put("state", one.state.wire().into());
        return Value::Object(out);
    }
    put("version_id", version_id(persona.version()).into());
    put("version", persona.version().into());
    if persona.is_opensearch() {
        put("remote_store_index_shallow_copy", false.into());
    }
    put("indices", json!(one.indices));
    if persona != Persona::Es2 {
        put("data_streams", json!([]));
        // The reference says so of every clone.
        let has_global = one.include_global_state || one.is_clone && persona.is_opensearch();
        put("include_global_state", has_global.into());
        if let Some(metadata) = &one.metadata {
            put("metadata", metadata.clone());
        } else if one.is_clone && persona.is_opensearch() {
            put("metadata", json!({}));
        }
    }
    put("state", one.state.wire().into());
    put("start_time", date_text(one.start_ms).into());
    put("start_time_in_millis", one.start_ms.into());
    let is_over = one.state != State::InProgress;
    if is_over || persona != Persona::Es2 {
        put("end_time", date_text(one.end_ms).into());
        put("end_time_in_millis", one.end_ms.into());
        put(
            "duration_in_millis",
            (if is_over { one.end_ms - one.start_ms } else { 0 }).into(),
        );
    }
    put("failures", failures(&one.failures));
    put("shards", shards_of(one, persona));
    if matches!(persona, Persona::Es7 | Persona::Es8 | Persona::Es9) {
        put("feature_states", json!([]));
    }
    Value::Object(out)
}

/// The reference counts no shards of a clone.
fn shards_of(one: &Summary, persona: Persona) -> Value {
    if one.is_clone && persona.is_opensearch() {
        return json!({ "total": 0, "failed": 0, "successful": 0 });
    }
    let done = if one.state == State::InProgress {
        0
    } else {
        one.shards - one.failed_shards
    };
    json!({ "total": one.shards, "failed": one.failed_shards, "successful": done })
}

fn failures(all: &[IndexFailure]) -> Value {
    let one = |failure: &IndexFailure| {
        json!({ "index": failure.index, "index_uuid": failure.index, "shard_id": 0, "reason": failure.reason, "node_id": null,
            "status": "INTERNAL_SERVER_ERROR" })
    };
    all.iter().map(one).collect()
}

/// `2.19.5` as a number.
fn version_id(version: &str) -> u64 {
    let parts = version.split('.').filter_map(|part| part.parse::<u64>().ok());
    parts.chain([0; 3]).take(3).fold(0, |id, part| id * 100 + part) * 100 + 99
}

/// The counts of shards by stage.
fn stages(stage: &str, shards: u64, failed: u64) -> Value {
    let of = |wanted: &str| if stage == wanted { shards - failed } else { 0 };
    json!({ "initializing": 0, "started": of("STARTED"), "finalizing": 0, "done": of("DONE"), "failed": failed, "total": shards })
}

/// Files and bytes: those that came with a snapshot, and all.
struct Figures {
    new_files: u64,
    new_bytes: u64,
    files: u64,
    bytes: u64,
}

impl Figures {
    fn of(index: &IndexPart) -> Figures {
        Figures {
            new_files: index.new_files,
            new_bytes: index.new_bytes,
            files: index.blobs().count() as u64,
            bytes: index.bytes(),
        }
    }
    fn add(&mut self, other: &Figures) {
        self.new_files += other.new_files;
        self.new_bytes += other.new_bytes;
        self.files += other.files;
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
    fn render(&self, start_ms: i64, took_ms: i64) -> Value {
        json!({ "incremental": { "file_count": self.new_files, "size_in_bytes": self.new_bytes },
            "total": { "file_count": self.files, "size_in_bytes": self.bytes },
            "start_time_in_millis": start_ms, "time_in_millis": took_ms })
    }
}

/// The state of a snapshot that is there.
pub(crate) fn status(one: &Summary, repository: &str, parts: &[IndexPart]) -> Value {
    let took = one.end_ms - one.start_ms;
    let mut all = Figures {
        new_files: 0,
        new_bytes: 0,
        files: 0,
        bytes: 0,
    };
    let mut indices = Map::new();
    for part in parts {
        let figures = Figures::of(part);
        let stats = figures.render(one.start_ms, took);
        let shards: Map<String, Value> = (0..part.shards.min(1024))
            .map(|n| {
                let none = Figures {
                    new_files: 0,
                    new_bytes: 0,
                    files: 0,
                    bytes: 0,
                };
                let of_shard = if n == 0 { stats.clone() } else { none.render(one.start_ms, 0) };
                (n.to_string(), json!({ "stage": "DONE", "stats": of_shard }))
            })
            .collect();
        indices.insert(
            part.name.clone(),
            json!({ "shards_stats": stages("DONE", part.shards, 0), "stats": stats, "shards": shards }),
        );
        all.add(&figures);
    }
    for failure in &one.failures {
        let shards = json!({ "0": { "stage": "FAILURE", "stats": {}, "reason": failure.reason } });
        indices.insert(
            failure.index.clone(),
            json!({ "shards_stats": stages("FAILURE", 1, 1), "stats": {}, "shards": shards }),
        );
    }
    json!({
        "snapshot": one.name, "repository": repository, "uuid": one.uuid, "state": one.state.wire(),
        "include_global_state": one.include_global_state, "shards_stats": stages("DONE", one.shards, one.failed_shards),
        "stats": all.render(one.start_ms, took), "indices": indices,
    })
}

/// The state of one that is being written.
pub(crate) fn running(one: &Running, now_ms: i64) -> Value {
    let summary = &one.summary;
    let figures = Figures {
        new_files: one.files,
        new_bytes: one.bytes,
        files: one.files,
        bytes: one.bytes,
    };
    let indices: Map<String, Value> = summary
        .indices
        .iter()
        .enumerate()
        .map(|(n, name)| {
            let stage = if (n as u64) < one.indices_done { "DONE" } else { "STARTED" };
            (name.clone(), json!({ "shards_stats": stages(stage, 1, 0) }))
        })
        .collect();
    json!({
        "snapshot": summary.name, "repository": one.repository, "uuid": summary.uuid, "state": "STARTED",
        "include_global_state": summary.include_global_state, "shards_stats": stages("STARTED", summary.shards, 0),
        "stats": figures.render(summary.start_ms, (now_ms - summary.start_ms).max(0)), "indices": indices,
    })
}
