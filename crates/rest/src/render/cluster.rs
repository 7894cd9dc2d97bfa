//! Health and metadata of the cluster, as answers show them.
//!
//! Not here: the endpoints that use it (`handlers`).

use crate::call::Call;
use crate::render::indices::mappings_of;
use crate::render::shards::shard_state;
use engine::{IndexInfo, Inspected, Inspection, TemplateKind};
use model::settings::number;
use model::{Persona, Result, Target};
use serde_json::{Map, Value, json};

/// Replicas of each shard that count as missing: those that settings or a template ask for, where the persona counts them
/// ([`Persona::counts_missing_replicas`]). The default that nobody asked for never counts, as no second node can exist.
pub(crate) fn missing_replicas(info: &IndexInfo, persona: Persona) -> u64 {
    let setting = model::settings::NUMBER_OF_REPLICAS;
    match persona.counts_missing_replicas() && info.settings.contains_key(setting.name) {
        true => number(&info.settings, setting),
        false => 0,
    }
}

/// Shards and status of some indices: primaries are here, replicas are nowhere.
pub(crate) struct Health {
    pub(crate) active: u64,
    pub(crate) unassigned: u64,
    /// Missing shards that are no replicas.
    pub(crate) unassigned_primaries: u64,
    /// Some index is damaged.
    pub(crate) stopped: bool,
    /// Something behind the scenes does not succeed.
    pub(crate) troubled: bool,
}

impl Health {
    pub(crate) fn of(infos: &[IndexInfo], persona: Persona) -> Health {
        let shards = |i: &IndexInfo| number(&i.settings, model::settings::NUMBER_OF_SHARDS);
        Health {
            active: infos.iter().filter(|i| i.stopped.is_none()).map(shards).sum(),
            unassigned: infos
                .iter()
                .map(|i| shards(i) * (missing_replicas(i, persona) + u64::from(i.stopped.is_some())))
                .sum(),
            unassigned_primaries: infos.iter().filter(|i| i.stopped.is_some()).map(shards).sum(),
            stopped: infos.iter().any(|i| i.stopped.is_some()),
            troubled: infos.iter().any(|i| i.troubled),
        }
    }
    /// The health of the whole store, where a change may wait for an operator.
    pub(crate) async fn of_all(infos: &[IndexInfo], call: &Call) -> Health {
        let rest = &call.rest;
        let health = Health::of(infos, call.dialect.persona);
        Health {
            stopped: health.stopped || control_damage(rest).await.is_some(),
            troubled: health.troubled || rest.relations.is_stuck() || !rest.relations.troubles().is_empty(),
            ..health
        }
    }
    pub(crate) fn status(&self) -> &'static str {
        if self.stopped {
            "red"
        } else if self.unassigned > 0 || self.troubled {
            "yellow"
        } else {
            "green"
        }
    }
    pub(crate) fn percent(&self) -> f64 {
        let all = self.active + self.unassigned;
        if all == 0 {
            100.0
        } else {
            self.active as f64 * 100.0 / all as f64
        }
    }
}

/// Why the control index cannot be used, if it cannot: wildcards pass it by, so it is not among the indices.
pub(crate) async fn control_damage(rest: &crate::Rest) -> Option<String> {
    if let Some(error) = rest.relations.control_failure() {
        return Some(error.reason().to_owned());
    }
    let target = Target {
        ignore_unavailable: true,
        forbid_closed: false,
        ..Target::index(relations::schema::CONTROL)
    };
    let found = rest.indices(&target).await.unwrap_or_default();
    found.into_iter().find_map(|info| info.stopped)
}

/// The part of the state that is about indices and templates.
pub(crate) async fn metadata(call: &Call, infos: &[IndexInfo], flat: bool) -> Result<Value> {
    let indices: Map<String, Value> = infos
        .iter()
        .map(|i| {
            let aliases: Vec<&String> = i.aliases.keys().collect();
            let settings = crate::render::settings::render(i, call.dialect, flat, &[]);
            let state = if i.open { "open" } else { "close" };
            let mappings = mappings_of(i, call.dialect);
            let body = json!({ "state": state, "settings": settings, "mappings": mappings, "aliases": aliases });
            (i.name.to_string(), body)
        })
        .collect();
    let templates: Map<String, Value> = match call.rest.engine.inspect(Inspection::Templates(TemplateKind::Legacy)).await? {
        Inspected::Templates(list) => list.into_iter().collect(),
        _ => Map::new(),
    };
    Ok(json!({ "cluster_uuid": call.rest.names.cluster_uuid, "templates": templates, "indices": indices }))
}

pub(crate) fn shard(call: &Call, info: &IndexInfo) -> Value {
    json!({ "state": shard_state(info), "primary": true, "node": call.rest.names.node_id, "relocating_node": null, "shard": 0, "index": info.name.as_str(),
        "allocation_id": { "id": info.uuid } })
}

/// Takes out what answers of 2015 did not have.
pub(crate) fn without_of_2015(call: &Call, out: &mut Value, names: &[&str]) {
    if let Some(out) = out.as_object_mut().filter(|_| call.dialect.rules.omits_later_node_members) {
        names.iter().for_each(|name| {
            out.remove(*name);
        });
    }
}
