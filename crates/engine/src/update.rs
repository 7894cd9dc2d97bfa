//! An update as a value, and what it makes of a document: pure, run inside the engine's critical section.

use mapping::{Life, Moment, Times, Timing};
use model::{DocAddress, Error, ErrorKind, Result, Stamp, Topic};
use script::{Budget, Params, Program, UpdateContext};
use serde_json::{Map, Value};

/// `_update`: a partial document or a script, with what to do where there is no document.
#[derive(Clone, Debug)]
pub struct Update {
    /// Partial document, merged into the source.
    pub doc: Option<Value>,
    /// Script over `ctx`.
    pub script: Option<(Program, Params)>,
    /// Source where there is no document.
    pub upsert: Option<Value>,
    /// `doc` is the upsert.
    pub doc_as_upsert: bool,
    /// The script runs over the upsert too.
    pub scripted_upsert: bool,
    /// The routing that the document is looked for by is its own afterwards; else that stays what it was.
    pub moves: bool,
    /// A merge that changes nothing writes nothing.
    pub detect_noop: bool,
    /// A `ctx.op` that is none does nothing, as in `_update`; else it is refused, as in by-query jobs.
    pub lenient_op: bool,
    /// The script was written for 2015: no operation before it names one, no id where there is no document.
    pub of_2015: bool,
    /// Steps and memory of the script.
    pub budget: Budget,
    /// `ctx._now`, `new Date()`.
    pub now_ms: i64,
}

impl Update {
    /// The change that a script makes of each document that a query finds.
    pub fn of_script(script: (Program, Params), of_2015: bool, now_ms: i64) -> Update {
        Update {
            doc: None,
            script: Some(script),
            upsert: None,
            doc_as_upsert: false,
            scripted_upsert: false,
            moves: false,
            detect_noop: false,
            lenient_op: of_2015,
            of_2015,
            budget: Budget::default(),
            now_ms,
        }
    }
}

/// Where an update works, and what it says of the times of its document.
struct UpdatePlace<'a> {
    at: &'a DocAddress,
    routing: Option<&'a str>,
    timing: &'a mut Timing,
    budget: Budget,
}

/// The result of an update.
#[derive(Clone, Debug, PartialEq)]
pub enum Applied {
    /// The new source.
    Put(Value),
    /// The document goes.
    Delete,
    /// Nothing is written.
    Noop,
}

impl Update {
    /// Applies to the found source, or to nothing.
    ///
    /// # Errors
    /// `document_missing_exception`; the script's.
    pub fn apply(&self, at: &DocAddress, found: Option<(&Value, Stamp)>, routing: Option<&str>) -> Result<Applied> {
        self.apply_timed(at, found, routing, Times::default(), &mut Timing::default())
    }

    /// The same where documents have times: those of the document found, and what the write says of them, which becomes
    /// what is to be written.
    ///
    /// # Errors
    /// As [`Update::apply`]; a `ctx._ttl` that is no time.
    pub fn apply_timed(
        &self,
        at: &DocAddress,
        found: Option<(&Value, Stamp)>,
        routing: Option<&str>,
        times: Times,
        timing: &mut Timing,
    ) -> Result<Applied> {
        self.apply_within(self.budget.steps, at, found, routing, times, timing)
    }

    /// The same with at most so many steps of the script, for a caller that can run it elsewhere if it takes more.
    ///
    /// # Errors
    /// As [`Update::apply_timed`]; [`ErrorKind::CircuitBreaking`] beyond the steps.
    pub fn apply_within(
        &self,
        steps: u64,
        at: &DocAddress,
        found: Option<(&Value, Stamp)>,
        routing: Option<&str>,
        times: Times,
        timing: &mut Timing,
    ) -> Result<Applied> {
        let scripted = self.script.is_some();
        let budget = Budget {
            steps: self.budget.steps.min(steps),
            ..self.budget
        };
        let around = UpdatePlace {
            at,
            routing,
            timing: &mut *timing,
            budget,
        };
        let applied = match found {
            Some((source, stamp)) => self.change(source, (stamp, times), around)?,
            None => self.insert(around)?,
        };
        if found.is_some() {
            // A script that says nothing of the timestamp leaves it; a partial document is written anew.
            if scripted && timing.timestamp.is_none() {
                timing.timestamp = times.timestamp.map(Moment::At);
            }
            timing.life = timing.life.or(times.expires.map(Life::Until));
        }
        Ok(applied)
    }

    fn change(&self, source: &Value, there: (Stamp, Times), around: UpdatePlace<'_>) -> Result<Applied> {
        if let Some(script) = &self.script {
            // In 2015 there was no operation before the script named one.
            let op = if self.of_2015 { "" } else { "index" };
            // Times in the URL are those of the document that it sends.
            *around.timing = Timing::default();
            return self.run(script, source.clone(), op, Some(there), around);
        }
        let mut merged = source.clone();
        let changed = self.doc.as_ref().is_some_and(|doc| merge(&mut merged, doc, 0));
        Ok(if changed || !self.detect_noop {
            Applied::Put(merged)
        } else {
            Applied::Noop
        })
    }

    fn insert(&self, around: UpdatePlace<'_>) -> Result<Applied> {
        let at = around.at;
        match (&self.upsert, &self.script) {
            (Some(upsert), Some(script)) if self.scripted_upsert => self.run(script, upsert.clone(), "create", None, around),
            (Some(upsert), _) => Ok(Applied::Put(upsert.clone())),
            (None, _) if self.doc_as_upsert => Ok(Applied::Put(self.doc.clone().unwrap_or(Value::Object(Map::new())))),
            (None, _) => {
                let reason = match &at.id.doc_type {
                    Some(doc_type) => format!("[{doc_type}][{}]: document missing", at.id.id),
                    None => format!("[{}]: document missing", at.id.id),
                };
                Err(Error::new(ErrorKind::DocumentMissing, reason)
                    .with("index", at.index.as_str())
                    .with("shard", "0"))
            }
        }
    }

    fn run(
        &self,
        script: &(Program, Params),
        source: Value,
        op: &str,
        there: Option<(Stamp, Times)>,
        around: UpdatePlace<'_>,
    ) -> Result<Applied> {
        let UpdatePlace {
            at,
            routing,
            timing,
            budget,
        } = around;
        let stamp = there.map(|(stamp, _)| stamp);
        let mut meta = Map::new();
        meta.insert("_index".into(), at.index.as_str().into());
        let id = if stamp.is_some() {
            Value::from(&*at.id.id)
        } else {
            Value::Null
        };
        meta.insert("_id".into(), if self.of_2015 { id } else { Value::from(&*at.id.id) });
        meta.insert("_type".into(), at.id.doc_type.as_deref().unwrap_or("_doc").into());
        if let Some(stamp) = stamp {
            meta.insert("_version".into(), stamp.version.into());
            meta.insert("_seq_no".into(), stamp.seq_no.into());
            meta.insert("_primary_term".into(), stamp.primary_term.into());
        }
        meta.insert("_routing".into(), routing.map_or(Value::Null, Value::from));
        meta.insert("_now".into(), self.now_ms.into());
        if let (true, Some((_, times))) = (self.of_2015, there) {
            let shown = |time: Option<i64>| time.map_or(Value::Null, Value::from);
            meta.insert("_timestamp".into(), shown(times.timestamp));
            meta.insert("_ttl".into(), shown(times.left(self.now_ms)));
        }
        let given = meta.clone();
        let context = UpdateContext {
            source,
            op: op.to_owned(),
            meta,
        };
        let result = script::run_update(&script.0, &script.1, context, budget, self.now_ms).map_err(|cause| {
            if cause.kind() == ErrorKind::Script {
                script_failure(cause)
            } else {
                cause
            }
        })?;
        if self.of_2015 {
            apply_times(&given, &result.meta, timing)?;
        }
        match result.op.as_str() {
            "index" => Ok(Applied::Put(result.source)),
            "" if self.of_2015 => Ok(Applied::Put(result.source)),
            "create" if stamp.is_none() => Ok(Applied::Put(result.source)),
            "delete" if stamp.is_some() => Ok(Applied::Delete),
            "none" | "noop" | "delete" => Ok(Applied::Noop),
            _ if self.lenient_op => Ok(Applied::Noop),
            other => Err(Error::illegal(format!(
                "Operation type [{other}] not allowed, only [noop, index, delete] are allowed"
            ))),
        }
    }
}

/// The refusal of an update whose script failed.
pub fn script_failure(cause: Error) -> Error {
    Error::illegal("failed to execute script")
        .with_cause(cause)
        .about(Topic::ScriptFailure)
}

/// The times that a script changed.
///
/// # Errors
/// A life that is no time.
fn apply_times(given: &Map<String, Value>, left: &Map<String, Value>, timing: &mut Timing) -> Result<()> {
    let changed = |name: &str| {
        left.get(name)
            .filter(|value| !value.is_null() && given.get(name) != Some(*value))
    };
    match changed("_timestamp") {
        Some(Value::String(text)) => timing.timestamp = Some(Moment::Said(text.clone())),
        Some(other) => timing.timestamp = Some(Moment::Said(other.to_string())),
        None => {}
    }
    match changed("_ttl") {
        Some(Value::String(text)) => {
            let life = model::units::parse_duration_of_2015(text, "_ttl")?;
            timing.life = Some(Life::For(i64::try_from(life.as_millis()).unwrap_or(i64::MAX)));
        }
        Some(Value::Number(n)) => timing.life = n.as_i64().map(Life::For),
        _ => {}
    }
    Ok(())
}

/// Merges `doc` into `target` as `_update` does: objects by key, everything else replaced. True if anything changed.
/// Depth is bounded by the reader of the body.
pub fn merge(target: &mut Value, doc: &Value, depth: usize) -> bool {
    debug_assert!(depth < 1000, "the reader bounds the depth of bodies");
    match (target, doc) {
        (Value::Object(target), Value::Object(doc)) => {
            let mut changed = false;
            for (key, value) in doc {
                match target.get_mut(key) {
                    Some(old) if old.is_object() && value.is_object() => changed |= merge(old, value, depth + 1),
                    Some(old) if old == value => {}
                    _ => {
                        target.insert(key.clone(), value.clone());
                        changed = true;
                    }
                }
            }
            changed
        }
        (target, doc) => {
            let changed = target != doc;
            *target = doc.clone();
            changed
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(target: Value, doc: Value, expected: Value, changed: bool) {
        let mut merged = target.clone();
        assert_eq!(merge(&mut merged, &doc, 0), changed, "{target} + {doc}");
        assert_eq!(merged, expected);
    }

    #[test]
    fn merges() {
        check(json!({"a": 1}), json!({"a": 1}), json!({"a": 1}), false);
        check(
            json!({"a": {"b": 1}}),
            json!({"a": {"c": 2}}),
            json!({"a": {"b": 1, "c": 2}}),
            true,
        );
        check(json!({"a": [1, 2]}), json!({"a": [3]}), json!({"a": [3]}), true);
        check(json!({"a": {"b": 1}}), json!({"a": null}), json!({"a": null}), true);
    }
}
