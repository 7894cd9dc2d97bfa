//! `scripted_metric`: scripts that fill a state, make a value of it, and one of all values.

use crate::aggs::scripts::AggregationScript;
use crate::aggs::{AggregationContext, At, Collector, EMPTY, Finish};
use dsl::aggs::ScriptedAgg;
use model::{Error, ErrorKind, Result};
use script::Value as Own;
use send_wrapper::SendWrapper;
use serde_json::{Value, json};
use tantivy::DocId;

/// Bytes of one state as JSON.
const STATE_MAX: usize = 64 << 20;

/// Collects states.
pub(in crate::aggs) struct Scripted {
    init: Option<AggregationScript>,
    map: AggregationScript,
    combine: Option<AggregationScript>,
    reduce: Option<AggregationScript>,
    /// Values of scripts stay on their thread, and so does this aggregation: it is not divided.
    states: SendWrapper<Vec<Option<Own>>>,
    seen: u64,
}

impl Scripted {
    pub(in crate::aggs) fn new(spec: &ScriptedAgg, cx: &AggregationContext<'_>) -> Result<Scripted> {
        let with_params = |source: &dsl::query::script_source::ScriptSource| {
            let mut source = source.clone();
            for (name, value) in &spec.params {
                source.params.entry(name.clone()).or_insert_with(|| value.clone());
            }
            AggregationScript::new(&source, cx)
        };
        Ok(Scripted {
            init: spec.init.as_ref().map(with_params).transpose()?,
            map: with_params(&spec.map)?,
            combine: spec.combine.as_ref().map(with_params).transpose()?,
            reduce: spec.reduce.as_ref().map(with_params).transpose()?,
            states: SendWrapper::new(Vec::new()),
            seen: 0,
        })
    }
    fn fresh(&self) -> Result<Own> {
        let state = Own::map([]);
        if let Some(init) = &self.init {
            init.run_with(&[("state", &state), ("_agg", &state)])?;
        }
        Ok(state)
    }
    fn combine(&self, state: &Own) -> Result<Own> {
        match &self.combine {
            Some(combine) => combine.run_with(&[("state", state), ("_agg", state)]),
            None => Ok(state.clone()),
        }
    }
}

impl Collector for Scripted {
    fn segment(&mut self, at: &At<'_>) -> Result<()> {
        self.map.segment(at)
    }
    fn collect(&mut self, doc: DocId, score: f32, bucket: u32) -> Result<()> {
        let at = bucket as usize;
        if at >= self.states.len() {
            crate::aggs::check_collected(at + 1)?;
            self.states.resize_with(at + 1, || None);
        }
        if self.states[at].is_none() {
            self.states[at] = Some(self.fresh()?);
        }
        let Some(state) = &self.states[at] else { return Ok(()) };
        self.map.run_at(doc, score, &[("state", state), ("_agg", state)])?;
        self.seen += 1;
        // Looked at ever more rarely: a state may not grow without end.
        if self.seen >= 4096 && self.seen.is_power_of_two() {
            let bytes = state.to_json()?.to_string().len();
            if bytes > STATE_MAX {
                let reason =
                    format!("[request] Data too large, the state of [scripted_metric] is larger than [{STATE_MAX}] bytes");
                return Err(Error::new(ErrorKind::CircuitBreaking, reason));
            }
        }
        Ok(())
    }
    fn finish(&mut self, bucket: u32, _to: &mut Finish<'_>) -> Result<Value> {
        let state = match self.states.get(bucket as usize) {
            Some(Some(state)) if bucket != EMPTY => state.clone(),
            _ => self.fresh()?,
        };
        let states = Own::list(vec![self.combine(&state)?]);
        let value = match &self.reduce {
            Some(reduce) => reduce.run_with(&[("states", &states), ("_aggs", &states)])?,
            None => states,
        };
        Ok(json!({ "value": value.to_json()? }))
    }
    fn order(&mut self, _bucket: u32, _rest: &[&str]) -> Result<f64> {
        Err(Error::new(
            ErrorKind::AggregationExecution,
            "Invalid aggregation order path. A [scripted_metric] has no number to sort by.",
        ))
    }
    fn wants_scores(&self) -> bool {
        self.map.uses_score()
    }
    fn wire_type(&self) -> &'static str {
        "scripted_metric"
    }
}
