//! `composite`: buckets of combined values, page by page.

use super::histogram::Steps;
use super::no_order;
use crate::aggs::codes::{code_double, code_long};
use crate::aggs::format::{Format, number};
use crate::aggs::values::{Class, ValuesSource, Wants};
use crate::aggs::{AggregationContext, At, Collector, EMPTY, Finish, Subs, check_collected};
use dsl::aggs::{AggKind, CompositeSource};
use model::{Error, Result};
use rustc_hash::FxHashMap;
use serde_json::{Map, Value, json};
use std::cmp::Ordering;
use tantivy::DocId;

struct CompositeColumn {
    pub(crate) name: String,
    pub(crate) source: ValuesSource,
    pub(crate) steps: Option<Steps>,
    /// The format of dates.
    pub(crate) formatted: bool,
    pub(crate) ascending: bool,
    pub(crate) missing: bool,
    /// Missing values sort first.
    pub(crate) missing_first: bool,
}

type Codes = Vec<Option<u64>>;

/// Collects combinations.
pub(in crate::aggs) struct Composite {
    size: usize,
    parts: Vec<CompositeColumn>,
    after: Option<Codes>,
    map: FxHashMap<(u32, Codes), u32>,
    counts: Vec<u64>,
    subs: Subs,
    codes: Vec<u64>,
    values: Vec<f64>,
}

impl CompositeColumn {
    fn new(spec: &CompositeSource, cx: &AggregationContext<'_>) -> Result<CompositeColumn> {
        let (source, steps, formatted) = match &spec.kind {
            AggKind::Terms(terms) => (
                ValuesSource::new(&terms.source, Wants::Any, "composite", cx)?,
                None,
                terms.source.format.is_some(),
            ),
            AggKind::Histogram(histogram) => {
                let steps = Steps::Number {
                    interval: histogram.interval,
                    offset: 0.0,
                };
                (
                    ValuesSource::new(&histogram.source, Wants::Numbers, "composite", cx)?,
                    Some(steps),
                    false,
                )
            }
            AggKind::DateHistogram(histogram) => {
                let mut source = ValuesSource::new(&histogram.source, Wants::Numbers, "composite", cx)?;
                if let (Format::Date(format, _), Some(zone)) = (&source.format, &histogram.time_zone) {
                    source.format = Format::Date(format.clone(), Some(model::date::parse_zone(zone)?));
                }
                let steps = Steps::dates(
                    &histogram.interval,
                    histogram.time_zone.as_deref(),
                    histogram.offset.as_deref(),
                )?;
                (source, Some(steps), histogram.source.format.is_some())
            }
            _ => return Err(Error::illegal("invalid source type")),
        };
        Ok(CompositeColumn {
            name: spec.name.clone(),
            source,
            steps,
            formatted,
            ascending: spec.ascending,
            missing: spec.missing_bucket,
            missing_first: spec.missing_order.as_deref().map_or(spec.ascending, |order| order == "first"),
        })
    }
    /// A value of `after`, as a code.
    fn code(&mut self, value: &Value, cx: &AggregationContext<'_>) -> Result<Option<u64>> {
        if value.is_null() {
            return Ok(None);
        }
        let code = self.source.code_of_value(value, cx.plan.now_ms)?;
        Ok(Some(match &self.steps {
            Some(Steps::Number { .. }) => crate::aggs::codes::double_code(match value.as_f64() {
                Some(value) => value,
                None => return Err(Error::illegal(format!("Invalid value for [after.{}]", self.name))),
            }),
            _ => code,
        }))
    }
    fn key(&self, code: Option<u64>) -> Result<Value> {
        let Some(code) = code else { return Ok(Value::Null) };
        Ok(match (&self.steps, &self.source.format) {
            (Some(Steps::Number { .. }), _) => number(code_double(code)),
            (_, Format::Date(..)) if self.formatted => self
                .source
                .format
                .text(code_long(code) as f64)
                .map_or(Value::Null, Value::from),
            (Some(Steps::Date(_)), _) => json!(code_long(code)),
            (None, Format::Bool) => json!(code_long(code) != 0),
            (None, _) => self.source.key(code)?.0,
        })
    }
    fn compare(&self, a: Option<u64>, b: Option<u64>) -> Ordering {
        match (a, b) {
            (Some(a), Some(b)) => {
                let found = if self.steps.is_some() {
                    a.cmp(&b)
                } else {
                    self.source.compare(a, b)
                };
                if self.ascending { found } else { found.reverse() }
            }
            (None, None) => Ordering::Equal,
            (None, _) => {
                if self.missing_first {
                    Ordering::Less
                } else {
                    Ordering::Greater
                }
            }
            (_, None) => {
                if self.missing_first {
                    Ordering::Greater
                } else {
                    Ordering::Less
                }
            }
        }
    }
}

impl Composite {
    pub(in crate::aggs) fn new(
        size: usize,
        sources: &[CompositeSource],
        after: Option<&Map<String, Value>>,
        subs: Subs,
        cx: &AggregationContext<'_>,
    ) -> Result<Composite> {
        let mut parts = sources
            .iter()
            .map(|source| CompositeColumn::new(source, cx))
            .collect::<Result<Vec<_>>>()?;
        let after = match after {
            None => None,
            Some(after) => {
                let mut codes = Vec::new();
                for part in &mut parts {
                    let value = after
                        .get(&part.name)
                        .ok_or_else(|| Error::illegal(format!("Missing value for [after.{}]", part.name)))?;
                    codes.push(part.code(value, cx)?);
                }
                Some(codes)
            }
        };
        Ok(Composite {
            size,
            parts,
            after,
            map: FxHashMap::default(),
            counts: Vec::new(),
            subs,
            codes: Vec::new(),
            values: Vec::new(),
        })
    }
    fn order(parts: &[CompositeColumn], a: &Codes, b: &Codes) -> Ordering {
        debug_assert!(
            a.len() == parts.len() && b.len() == parts.len(),
            "a combination has one value of each source"
        );
        parts
            .iter()
            .enumerate()
            .map(|(at, part)| part.compare(a[at], b[at]))
            .find(|found| *found != Ordering::Equal)
            .unwrap_or(Ordering::Equal)
    }
    fn key(&self, codes: &Codes) -> Result<Value> {
        let mut out = Map::new();
        for (part, code) in self.parts.iter().zip(codes) {
            out.insert(part.name.clone(), part.key(*code)?);
        }
        Ok(Value::Object(out))
    }
}

impl Collector for Composite {
    fn segment(&mut self, at: &At<'_>) -> Result<()> {
        self.parts.iter_mut().try_for_each(|part| part.source.segment(at))?;
        self.subs.segment(at)
    }
    fn collect(&mut self, doc: DocId, score: f32, bucket: u32) -> Result<()> {
        let mut all: Vec<Codes> = vec![Vec::new()];
        for part in &mut self.parts {
            let mut own: Codes = match &part.steps {
                None => {
                    // Numbers count as often as a document has them, strings once.
                    let once = matches!(part.source.class, Class::Str | Class::Ip);
                    part.source.codes(doc, score, &mut self.codes, once)?;
                    self.codes.iter().copied().map(Some).collect()
                }
                Some(steps) => {
                    part.source.numbers(doc, score, &mut self.values)?;
                    self.values.iter().map(|value| Some(steps.code(*value))).collect()
                }
            };
            if own.is_empty() {
                if !part.missing {
                    return Ok(());
                }
                own.push(None);
            }
            all = all
                .iter()
                .flat_map(|codes| own.iter().map(move |code| [codes.as_slice(), &[*code]].concat()))
                .collect();
            check_collected(all.len())?;
        }
        for codes in all {
            if self
                .after
                .as_ref()
                .is_some_and(|after| Self::order(&self.parts, &codes, after) != Ordering::Greater)
            {
                continue;
            }
            let next = self.counts.len() as u32;
            let own = *self.map.entry((bucket, codes)).or_insert(next);
            if own == next {
                check_collected(self.counts.len() + 1)?;
                self.counts.push(0);
                assert_eq!(self.map.len(), self.counts.len(), "each combination has its count");
            }
            self.counts[own as usize] += 1;
            self.subs.collect(doc, score, own)?;
        }
        Ok(())
    }
    fn finish(&mut self, bucket: u32, to: &mut Finish<'_>) -> Result<Value> {
        let mut rows: Vec<(&Codes, u32)> = match bucket {
            EMPTY => Vec::new(),
            bucket => self
                .map
                .iter()
                .filter(|((above, _), _)| *above == bucket)
                .map(|((_, codes), own)| (codes, *own))
                .collect(),
        };
        rows.sort_by(|a, b| Self::order(&self.parts, a.0, b.0));
        rows.truncate(self.size);
        to.count(rows.len())?;
        let rows: Vec<(Codes, u32)> = rows.into_iter().map(|(codes, own)| (codes.clone(), own)).collect();
        let mut out = Map::new();
        if let Some((codes, _)) = rows.last() {
            out.insert("after_key".into(), self.key(codes)?);
        }
        let mut list = Vec::with_capacity(rows.len());
        for (codes, own) in rows {
            let mut bucket = Map::new();
            bucket.insert("key".into(), self.key(&codes)?);
            bucket.insert("doc_count".into(), self.counts[own as usize].into());
            self.subs.finish(own, &mut bucket, to)?;
            list.push(Value::Object(bucket));
        }
        out.insert("buckets".into(), Value::Array(list));
        Ok(Value::Object(out))
    }
    fn order(&mut self, _bucket: u32, _rest: &[&str]) -> Result<f64> {
        Err(no_order("composite"))
    }
    fn wants_scores(&self) -> bool {
        self.parts.iter().any(|part| part.source.wants_scores())
    }
    fn wire_type(&self) -> &'static str {
        "composite"
    }
    fn subs(&self) -> Option<&Subs> {
        Some(&self.subs)
    }
    fn subs_mut(&mut self) -> Option<&mut Subs> {
        Some(&mut self.subs)
    }
}
