//! `multi_terms`: a bucket for each combination of the values of several fields.
//!
//! A document with several values in several fields is in the bucket of each combination of them; one that lacks a field is
//! in none.

use super::Keyed;
use super::range::java;
use super::terms::{Entry, OrderBy, check_order, compare, sort_entries};
use crate::aggs::codes::{code_double, code_long};
use crate::aggs::format::Format;
use crate::aggs::values::{Class, ValuesSource, Wants};
use crate::aggs::{AggregationContext, At, Collector, EMPTY, Finish, Subs};
use dsl::aggs::MultiTermsAgg;
use model::Result;
use rustc_hash::FxHashMap;
use serde_json::{Map, Value, json};
use std::cmp::Ordering;
use tantivy::DocId;

/// Collects combinations.
pub(in crate::aggs) struct MultiTerms {
    spec: MultiTermsAgg,
    sources: Vec<ValuesSource>,
    /// Combinations by number, and their numbers.
    tuples: Vec<Box<[u64]>>,
    numbers: FxHashMap<Box<[u64]>, u64>,
    buckets: Keyed,
    subs: Subs,
    codes: Vec<Vec<u64>>,
}

impl MultiTerms {
    pub(in crate::aggs) fn new(spec: &MultiTermsAgg, subs: Subs, cx: &AggregationContext<'_>) -> Result<MultiTerms> {
        let one = |(source, value_type): &(_, Option<String>)| {
            ValuesSource::of_value_type(source, Wants::Any, "multi_terms", value_type.as_deref(), cx)
        };
        check_order(&spec.order, &subs)?;
        Ok(MultiTerms {
            spec: spec.clone(),
            sources: spec.sources.iter().map(one).collect::<Result<_>>()?,
            tuples: Vec::new(),
            numbers: FxHashMap::default(),
            buckets: Keyed::new(cx),
            subs,
            codes: vec![Vec::new(); spec.sources.len()],
        })
    }

    fn number(&mut self, tuple: &[u64]) -> u64 {
        if let Some(number) = self.numbers.get(tuple) {
            return *number;
        }
        let number = self.tuples.len() as u64;
        self.tuples.push(tuple.into());
        self.numbers.insert(tuple.into(), number);
        assert_eq!(self.tuples.len(), self.numbers.len(), "each combination has one number");
        number
    }

    fn compare(&self, a: u64, b: u64) -> Ordering {
        let (a, b) = (&self.tuples[a as usize], &self.tuples[b as usize]);
        debug_assert!(
            a.len() == self.sources.len() && b.len() == a.len(),
            "a combination has one value of each field"
        );
        let mut parts = self.sources.iter().zip(a.iter().zip(b.iter()));
        parts
            .find_map(|(source, (a, b))| Some(source.compare(*a, *b)).filter(|order| order.is_ne()))
            .unwrap_or(Ordering::Equal)
    }

    fn key(&self, tuple: u64) -> Result<(Vec<Value>, String)> {
        let (mut key, mut text) = (Vec::new(), String::new());
        for (source, code) in self.sources.iter().zip(self.tuples[tuple as usize].iter()) {
            let shown = match (&source.format, source.class) {
                (_, Class::Bool) => Value::Bool(code_long(*code) != 0),
                (Format::Raw, _) => source.key(*code)?.0,
                (format, class) => {
                    let number = match class {
                        Class::Double => code_double(*code),
                        Class::Unsigned => *code as f64,
                        _ => code_long(*code) as f64,
                    };
                    format.text(number).map_or(Value::Null, Value::String)
                }
            };
            if !text.is_empty() {
                text.push('|');
            }
            match (&shown, source.class) {
                (Value::String(part), _) => text.push_str(part),
                (_, Class::Double) => text.push_str(&java(code_double(*code))),
                (other, _) => text.push_str(&other.to_string()),
            }
            key.push(shown);
        }
        Ok((key, text))
    }

    fn entries(&mut self, above: u32) -> Result<(Vec<Entry>, Vec<(OrderBy, bool)>)> {
        let own = if above == EMPTY { Vec::new() } else { self.buckets.of(above) };
        let mut entries: Vec<Entry> = own
            .into_iter()
            .map(|bucket| Entry {
                code: self.buckets.code(bucket),
                bucket,
                count: self.buckets.count(bucket),
                values: Vec::new(),
            })
            .collect();
        let order = sort_entries(&mut entries, &self.spec.order, &mut self.subs)?;
        Ok((entries, order))
    }
}

impl Collector for MultiTerms {
    fn segment(&mut self, at: &At<'_>) -> Result<()> {
        self.sources.iter_mut().try_for_each(|source| source.segment(at))?;
        self.subs.segment(at)
    }

    fn collect(&mut self, doc: DocId, score: f32, bucket: u32) -> Result<()> {
        let mut codes = std::mem::take(&mut self.codes);
        for (source, codes) in self.sources.iter_mut().zip(&mut codes) {
            source.codes(doc, score, codes, true)?;
        }
        // An odometer over the values of each field.
        let mut places = vec![0; codes.len()];
        let mut tuple = vec![0; codes.len()];
        'all: while codes.iter().all(|codes| !codes.is_empty()) {
            for ((slot, codes), place) in tuple.iter_mut().zip(&codes).zip(&places) {
                *slot = codes[*place];
            }
            let number = self.number(&tuple);
            let own = self.buckets.bucket(bucket, number)?;
            self.buckets.add(own);
            self.subs.collect(doc, score, own)?;
            for (place, codes) in places.iter_mut().zip(&codes).rev() {
                *place += 1;
                if *place < codes.len() {
                    continue 'all;
                }
                *place = 0;
            }
            break;
        }
        self.codes = codes;
        Ok(())
    }

    fn finish(&mut self, bucket: u32, to: &mut Finish<'_>) -> Result<Value> {
        let (mut entries, order) = self.entries(bucket)?;
        let total: u64 = entries.iter().map(|entry| entry.count).sum();
        let size = self.spec.size;
        let shard_size = self
            .spec
            .shard_size
            .unwrap_or(size.saturating_add(size / 2).saturating_add(10))
            .max(size);
        entries.retain(|entry| entry.count >= self.spec.shard_min_doc_count);
        entries.sort_by(|a, b| compare(a, b, &order, |x, y| self.compare(x, y)));
        entries.truncate(shard_size);
        let least = self.spec.min_doc_count;
        let rejected: u64 = entries.iter().map(|entry| entry.count).filter(|count| *count < least).sum();
        entries.retain(|entry| entry.count >= least);
        entries.truncate(size);
        let kept: u64 = entries.iter().map(|entry| entry.count).sum();
        assert!(
            kept + rejected <= total,
            "buckets that are shown count no more documents than all"
        );
        to.count(entries.len())?;
        let mut list = Vec::with_capacity(entries.len());
        for entry in entries {
            let (key, text) = self.key(entry.code)?;
            let mut out = Map::new();
            out.insert("key".into(), Value::Array(key));
            out.insert("key_as_string".into(), text.into());
            out.insert("doc_count".into(), entry.count.into());
            if self.spec.show_term_doc_count_error {
                out.insert("doc_count_error_upper_bound".into(), 0.into());
            }
            self.subs.finish(entry.bucket, &mut out, to)?;
            list.push(Value::Object(out));
        }
        Ok(json!({
            "doc_count_error_upper_bound": 0,
            "sum_other_doc_count": total - kept - rejected,
            "buckets": list,
        }))
    }

    fn order(&mut self, _bucket: u32, _rest: &[&str]) -> Result<f64> {
        Err(super::no_order("multi_terms"))
    }
    fn wants_scores(&self) -> bool {
        self.sources.iter().any(ValuesSource::wants_scores)
    }
    fn wire_type(&self) -> &'static str {
        "multi_terms"
    }
    fn subs(&self) -> Option<&Subs> {
        Some(&self.subs)
    }
    fn subs_mut(&mut self) -> Option<&mut Subs> {
        Some(&mut self.subs)
    }
}
