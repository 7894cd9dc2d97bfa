//! `adjacency_matrix`: a bucket for every filter and for every two that match together.

use super::filter::FilterProbe;
use super::{Counts, no_order, place_below, single};
use crate::aggs::{AggregationContext, At, Collector, EMPTY, Finish, Subs};
use crate::fields::target::setting;
use dsl::query::Query;
use model::{Error, Result};
use serde_json::{Map, Value, json};
use tantivy::DocId;

/// Collects intersections.
pub(in crate::aggs) struct Adjacency {
    asked: Vec<(String, FilterProbe)>,
    separator: String,
    /// Only buckets of two filters.
    only_pairs: bool,
    counts: Counts,
    subs: Subs,
}

impl Adjacency {
    pub(in crate::aggs) fn new(
        filters: &[(String, Query)],
        separator: &str,
        only_pairs: bool,
        scope: Option<&str>,
        subs: Subs,
        cx: &AggregationContext<'_>,
    ) -> Result<Adjacency> {
        for view in cx.views {
            let most = setting(view, "index.max_adjacency_matrix_filters", 100);
            if filters.len() > most {
                return Err(Error::illegal(format!(
                    "Number of filters is too large, must be less than or equal to: [{most}] but was [{}].This limit can be set by changing the [index.max_adjacency_matrix_filters] setting.",
                    filters.len()
                )));
            }
        }
        let mut asked: Vec<_> = filters
            .iter()
            .map(|(name, query)| (name.clone(), FilterProbe::new(query, scope)))
            .collect();
        asked.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(Adjacency {
            asked,
            separator: separator.to_owned(),
            only_pairs,
            counts: Counts::default(),
            subs,
        })
    }
    /// Filters themselves, and pairs: a square of numbers, of which the diagonal are the filters.
    fn own(&self, bucket: u32, a: usize, b: usize) -> u32 {
        let width = self.asked.len();
        place_below(bucket, width * width, a * width + b)
    }
}

impl Collector for Adjacency {
    fn segment(&mut self, at: &At<'_>) -> Result<()> {
        self.asked.iter_mut().try_for_each(|(_, asked)| asked.segment(at))?;
        self.subs.segment(at)
    }
    fn collect(&mut self, doc: DocId, score: f32, bucket: u32) -> Result<()> {
        let mut here = Vec::new();
        for (at, (_, asked)) in self.asked.iter_mut().enumerate() {
            if asked.matches(doc)? {
                here.push(at);
            }
        }
        for (n, a) in here.iter().enumerate() {
            for b in &here[n..] {
                if a == b && self.only_pairs {
                    continue;
                }
                let own = self.own(bucket, *a, *b);
                crate::aggs::check_collected(own as usize + 1)?;
                self.counts.add(own as usize);
                self.subs.collect(doc, score, own)?;
            }
        }
        Ok(())
    }
    fn finish(&mut self, bucket: u32, to: &mut Finish<'_>) -> Result<Value> {
        let mut parts: Vec<(String, u32, u64)> = Vec::new();
        for a in 0..self.asked.len() {
            for b in a..self.asked.len() {
                if bucket == EMPTY {
                    continue;
                }
                let own = self.own(bucket, a, b);
                let count = self.counts.get(own as usize);
                if count == 0 {
                    continue;
                }
                let key = if a == b {
                    self.asked[a].0.clone()
                } else {
                    format!("{}{}{}", self.asked[a].0, self.separator, self.asked[b].0)
                };
                parts.push((key, own, count));
            }
        }
        parts.sort();
        to.count(parts.len())?;
        let mut list = Vec::new();
        for (key, own, count) in parts {
            let mut out = Map::new();
            out.insert("key".into(), key.into());
            if let Value::Object(rest) = single(count, own, &mut self.subs, to)? {
                out.extend(rest);
            }
            list.push(Value::Object(out));
        }
        Ok(json!({ "buckets": list }))
    }
    fn order(&mut self, _bucket: u32, _rest: &[&str]) -> Result<f64> {
        Err(no_order("adjacency_matrix"))
    }
    fn wire_type(&self) -> &'static str {
        "adjacency_matrix"
    }
    fn subs(&self) -> Option<&Subs> {
        Some(&self.subs)
    }
    fn subs_mut(&mut self) -> Option<&mut Subs> {
        Some(&mut self.subs)
    }
}
