//! `composite`: buckets of combined values, page by page.
//!
//! Memory and time are bounded by the page: when twice as many combinations as the page shows are kept, the worst half is dropped. From
//! then on documents of worse combinations are passed over by their first value.

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

/// Combinations below one bucket beyond twice a page that are kept before the worst are dropped.
const SPARE: usize = if cfg!(test) { 1 } else { 256 };

/// Collects combinations.
pub(in crate::aggs) struct Composite {
    size: usize,
    parts: Vec<CompositeColumn>,
    after: Option<Codes>,
    /// The numbers of combinations: the bucket above, then a code of each source.
    map: FxHashMap<Box<[Option<u64>]>, u32>,
    /// Combinations of bucket 0 in the map.
    kept: usize,
    /// The last combination of bucket 0 that a page can show, once there are enough.
    worst: Option<Codes>,
    counts: Vec<u64>,
    subs: Subs,
    /// Buffers: the codes of a document by source, the combination that is looked at, and the place of each of its codes.
    lists: Vec<Codes>,
    key: Codes,
    places: Vec<usize>,
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
    /// Reads the codes of a document; none for one that has no part in any combination.
    fn read(&mut self, doc: DocId, score: f32, codes: &mut Vec<u64>, values: &mut Vec<f64>, out: &mut Codes) -> Result<()> {
        out.clear();
        match &self.steps {
            None => {
                // Numbers count as often as a document has them, strings once.
                let once = matches!(self.source.class, Class::Str | Class::Ip);
                self.source.codes(doc, score, codes, once)?;
                out.extend(codes.iter().copied().map(Some));
            }
            Some(steps) => {
                self.source.numbers(doc, score, values)?;
                out.extend(values.iter().map(|value| Some(steps.code(*value))));
            }
        }
        if out.is_empty() && self.missing {
            out.push(None);
        }
        Ok(())
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
            kept: 0,
            worst: None,
            counts: Vec::new(),
            subs,
            lists: vec![Codes::new(); sources.len()],
            key: Codes::new(),
            places: Vec::new(),
            codes: Vec::new(),
            values: Vec::new(),
        })
    }
    /// Counts a document of the combination in `key`.
    fn add(&mut self, doc: DocId, score: f32, bucket: u32) -> Result<()> {
        let order = |other: &Codes| Self::order(&self.parts, &self.key[1..], other);
        let is_passed = self.after.as_ref().is_some_and(|after| order(after).is_le());
        if is_passed || bucket == 0 && self.worst.as_ref().is_some_and(|worst| order(worst).is_gt()) {
            return Ok(());
        }
        let own = match self.map.get(self.key.as_slice()) {
            Some(own) => *own,
            None => {
                check_collected(self.counts.len() + 1)?;
                let own = self.counts.len() as u32;
                self.counts.push(0);
                self.map.insert(self.key.as_slice().into(), own);
                self.kept += usize::from(bucket == 0);
                self.drop_worst();
                own
            }
        };
        self.counts[own as usize] += 1;
        self.subs.collect(doc, score, own)
    }
    /// Drops the combinations of bucket 0 that no page can show, once they are many.
    fn drop_worst(&mut self) {
        if self.size == 0 || self.kept < 2 * self.size + SPARE {
            return;
        }
        let mut all: Vec<&[Option<u64>]> = self.map.keys().filter(|key| key[0] == Some(0)).map(|key| &key[1..]).collect();
        debug_assert_eq!(
            all.len(),
            self.kept,
            "combinations of bucket 0 are counted as they come and go"
        );
        let (_, worst, _) = all.select_nth_unstable_by(self.size - 1, |a, b| Self::order(&self.parts, a, b));
        let worst = worst.to_vec();
        let parts = &self.parts;
        self.map
            .retain(|key, _| key[0] != Some(0) || Self::order(parts, &key[1..], &worst).is_le());
        self.kept = self.size;
        self.worst = Some(worst);
    }
    fn order(parts: &[CompositeColumn], a: &[Option<u64>], b: &[Option<u64>]) -> Ordering {
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
    fn key(&self, codes: &[Option<u64>]) -> Result<Value> {
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
        for at in 0..self.parts.len() {
            let (part, list) = (&mut self.parts[at], &mut self.lists[at]);
            part.read(doc, score, &mut self.codes, &mut self.values, list)?;
            let may_be_shown = |code: &Option<u64>| {
                let is_behind = self.after.as_ref().is_none_or(|after| part.compare(*code, after[at]).is_ge());
                let worst = self.worst.as_ref().filter(|_| bucket == 0);
                is_behind && worst.is_none_or(|worst| part.compare(*code, worst[at]).is_le())
            };
            if list.is_empty() || at == 0 && !list.iter().any(may_be_shown) {
                return Ok(());
            }
        }
        check_collected(self.lists.iter().map(Vec::len).fold(1, usize::saturating_mul))?;
        self.places.clear();
        self.places.resize(self.parts.len(), 0);
        loop {
            let combined = self.lists.iter().zip(&self.places).map(|(list, place)| list[*place]);
            self.key.clear();
            self.key.push(Some(u64::from(bucket)));
            self.key.extend(combined);
            self.add(doc, score, bucket)?;
            // The next combination: the last place that can moves on, those behind it begin again.
            let mut places = self.places.iter_mut().zip(&self.lists).rev();
            let moved = places.any(|(place, list)| {
                *place = (*place + 1) % list.len();
                *place > 0
            });
            if !moved {
                return Ok(());
            }
        }
    }
    fn finish(&mut self, bucket: u32, to: &mut Finish<'_>) -> Result<Value> {
        let mut rows: Vec<(&[Option<u64>], u32)> = match bucket {
            EMPTY => Vec::new(),
            bucket => self
                .map
                .iter()
                .filter(|(key, _)| key[0] == Some(u64::from(bucket)))
                .map(|(key, own)| (&key[1..], *own))
                .collect(),
        };
        rows.sort_by(|a, b| Self::order(&self.parts, a.0, b.0));
        rows.truncate(self.size);
        to.count(rows.len())?;
        let rows: Vec<(Codes, u32)> = rows.into_iter().map(|(codes, own)| (codes.to_vec(), own)).collect();
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
