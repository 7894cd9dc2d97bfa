//! Scripts of aggregations: they read columns of a document, its score, a value, and what an aggregation hands them.
//!
//! Not here: what an aggregation does with what they answer (`values`, `metric/scripted`).

use super::At;
use super::format::ip_text;
use super::values::Class;
use crate::fields::column::Column;
use crate::fields::field_data::refuse_text;
use crate::fields::target::Target;
use crate::interrupt::Interrupt;
use mapping::{FieldValue, Kind};
use model::Result;
use script::{Budget, DocValues, Env, Host, Params, Program};
use segment::searchable::IndexView;
use serde_json::Value;
use std::net::Ipv6Addr;
use std::sync::Arc;
use tantivy::DocId;

/// A script with what it reads from outside.
pub(crate) struct AggregationScript {
    program: Program,
    params: Params,
    columns: Vec<Opened>,
    view: Option<Arc<IndexView>>,
    segment: Option<Arc<segment::segment_view::SegmentView>>,
    now_ms: i64,
    interrupt: Interrupt,
}

enum Opened {
    Unmapped,
    Column(Kind, Option<Column>),
}

struct Reach<'a> {
    script: &'a AggregationScript,
    doc: DocId,
    score: f32,
    value: Option<script::Value>,
    named: &'a [(&'a str, &'a script::Value)],
}

impl Host for Reach<'_> {
    fn score(&mut self) -> Option<f64> {
        Some(f64::from(self.score))
    }
    fn doc(&mut self, slot: usize, field: &str, out: &mut DocValues) -> Result<bool> {
        let late;
        let opened = match self.script.columns.get(slot) {
            Some(opened) => opened,
            None => {
                late = self.script.open(field)?;
                &late
            }
        };
        let Opened::Column(kind, column) = opened else {
            return Ok(false);
        };
        fill(*kind, column.as_ref(), self.doc, out)?;
        Ok(true)
    }
    fn variable(&mut self, name: &str) -> Option<script::Value> {
        match name {
            "_value" => self.value.clone(),
            "_source" | "params._source" if self.script.program.uses_source() => self.script.source(self.doc),
            name => self
                .named
                .iter()
                .find(|(own, _)| *own == name)
                .map(|(_, value)| (*value).clone()),
        }
    }
    fn now_millis(&self) -> i64 {
        self.script.now_ms
    }
    fn check_interrupt(&self) -> Result<()> {
        self.script.interrupt.check()
    }
}

/// The values of a document as scripts see them.
fn fill(kind: Kind, column: Option<&Column>, doc: DocId, out: &mut DocValues) -> Result<()> {
    let values = match column {
        Some(column) => column.values(doc)?,
        None => Vec::new(),
    };
    match Class::of(kind) {
        Class::Long | Class::Unsigned => {
            let all = out.longs();
            all.extend(values.iter().filter_map(|v| match v {
                FieldValue::Long(n) => Some(*n),
                FieldValue::UnsignedLong(n) => Some(*n as i64),
                _ => None,
            }));
        }
        Class::Double if kind.is_float() => {
            out.doubles().extend(
                values
                    .iter()
                    .filter_map(|v| if let FieldValue::Double(n) = v { Some(*n) } else { None }),
            );
        }
        Class::Bool => out.bools().extend(
            values
                .iter()
                .filter_map(|v| if let FieldValue::Bool(b) = v { Some(*b) } else { None }),
        ),
        Class::Date => out.dates().extend(values.iter().filter_map(|v| match v {
            FieldValue::Date(ms) => Some(*ms),
            FieldValue::DateNanos(nanos) => Some(nanos.div_euclid(1_000_000)),
            _ => None,
        })),
        _ if kind == Kind::GeoPoint => out.geo_points().extend(values.iter().filter_map(|v| {
            if let FieldValue::Geo { lat, lon } = v {
                Some((*lat, *lon))
            } else {
                None
            }
        })),
        _ => {
            let all = out.strings();
            all.extend(values.into_iter().filter_map(|v| match v {
                FieldValue::Keyword(text) => Some(text),
                FieldValue::Ip(octets) => Some(ip_text(Ipv6Addr::from(octets))),
                _ => None,
            }));
        }
    }
    Ok(())
}

impl AggregationScript {
    /// Compiles a script, once for a request.
    pub(crate) fn new(
        source: &dsl::query::script_source::ScriptSource,
        cx: &super::AggregationContext<'_>,
    ) -> Result<AggregationScript> {
        Ok(AggregationScript {
            program: cx.plan.compile(source)?,
            params: Params::from_json(&source.params),
            columns: Vec::new(),
            view: None,
            segment: None,
            now_ms: cx.plan.now_ms,
            interrupt: cx.plan.interrupt.clone(),
        })
    }
    /// Reads `_score`.
    pub(crate) fn uses_score(&self) -> bool {
        self.program.uses_score()
    }
    /// It is `_score` and no more.
    pub(super) fn is_score(&self) -> bool {
        self.program.source().trim() == "_score"
    }
    /// The source of a document; nothing where it is not kept or cannot be read.
    fn source(&self, doc: DocId) -> Option<script::Value> {
        let (view, segment) = (self.view.as_ref()?, self.segment.as_ref()?);
        let stored = crate::document_reader::DocumentReader::of(view, segment).read(doc).ok()?;
        let source: Value = serde_json::from_slice(stored.payload.source()?).ok()?;
        Some(script::Value::from_json(&source))
    }
    fn open(&self, field: &str) -> Result<Opened> {
        let (Some(view), Some(segment)) = (&self.view, &self.segment) else {
            return Ok(Opened::Unmapped);
        };
        Ok(match Target::with_values(view, field) {
            Some(target) => {
                refuse_text(&target, field)?;
                Opened::Column(target.kind.kind, Column::open(segment, &target)?)
            }
            None => Opened::Unmapped,
        })
    }
    /// Binds its fields to the columns of a segment.
    pub(crate) fn segment(&mut self, at: &At<'_>) -> Result<()> {
        self.view = Some(at.view.clone());
        self.segment = Some(at.segment.clone());
        self.columns = self
            .program
            .doc_fields()
            .iter()
            .map(|field| self.open(field))
            .collect::<Result<_>>()?;
        Ok(())
    }
    pub(super) fn run(&self, doc: DocId, score: f32, value: Option<script::Value>) -> Result<script::Value> {
        self.interrupt.check_run()?;
        let mut host = Reach {
            script: self,
            doc,
            score,
            value,
            named: &[],
        };
        self.program.run(&mut Env {
            params: &self.params,
            host: &mut host,
            budget: Budget::default(),
        })
    }
    /// Its value at a document, with names of its own.
    pub(crate) fn run_at(&self, doc: DocId, score: f32, named: &[(&str, &script::Value)]) -> Result<script::Value> {
        self.interrupt.check_run()?;
        let mut host = Reach {
            script: self,
            doc,
            score,
            value: None,
            named,
        };
        self.program.run(&mut Env {
            params: &self.params,
            host: &mut host,
            budget: Budget::default(),
        })
    }
    /// Its value away from documents, with other parameters.
    pub(crate) fn run_given(&self, params: &Params) -> Result<script::Value> {
        self.interrupt.check_run()?;
        let mut host = Reach {
            script: self,
            doc: 0,
            score: 0.0,
            value: None,
            named: &[],
        };
        self.program.run(&mut Env {
            params,
            host: &mut host,
            budget: Budget::default(),
        })
    }
    /// Its value away from documents, with names of its own.
    pub(crate) fn run_with(&self, named: &[(&str, &script::Value)]) -> Result<script::Value> {
        self.run_at(0, 0.0, named)
    }
}

/// A script's value as a number.
pub(super) fn as_number(value: &script::Value) -> f64 {
    match value {
        script::Value::Bool(b) => f64::from(u8::from(*b)),
        script::Value::Date(ms) => *ms as f64,
        other => other.as_f64().unwrap_or(f64::NAN),
    }
}
