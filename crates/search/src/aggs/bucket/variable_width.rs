//! `variable_width_histogram`: so many buckets of numbers that lie near each other.
//!
//! The first values wait; then they are divided evenly into small clusters. Each further value joins a cluster or begins one. At
//! the end the nearest clusters are merged until as few are left as the request wants. Documents are kept until then, and
//! sub-aggregations collect them afterwards.

use super::no_order;
use crate::aggs::deferred::{Segments, Waiting};
use crate::aggs::values::{Class, ValuesSource, Wants};
use crate::aggs::{AggregationContext, At, Collector, EMPTY, Finish, Subs, check_collected};
use crate::fields::target::Target;
use dsl::aggs::VariableWidthAgg;
use model::{Error, Result};
use serde_json::{Map, Value, json};
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use tantivy::DocId;

/// Numbers that lie near each other.
#[derive(Clone, Debug, Default, PartialEq)]
struct Cluster {
    /// The values that were put into it, by their places in the list of all.
    members: Vec<u32>,
    min: f64,
    max: f64,
    centroid: f64,
}

impl Cluster {
    fn of(value: f64, place: u32) -> Cluster {
        Cluster {
            members: vec![place],
            min: value,
            max: value,
            centroid: value,
        }
    }
    fn count(&self) -> f64 {
        self.members.len() as f64
    }
    fn add(&mut self, value: f64, place: u32) {
        self.members.push(place);
        self.centroid = (self.centroid * (self.count() - 1.0) + value) / self.count();
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }
    fn merge(&mut self, other: Cluster) {
        let count = self.count() + other.count();
        self.centroid = (self.centroid * self.count() + other.centroid * other.count()) / count;
        self.members.extend(other.members);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }
}

/// How many buckets, and what is kept on the way there.
#[derive(Clone, Copy)]
struct Sizes {
    buckets: usize,
    shard_size: usize,
    initial_buffer: usize,
}

/// Parts values, as they come, into clusters.
fn clusters(values: &[f64], sizes: Sizes) -> Vec<Cluster> {
    let first = values.len().min(sizes.initial_buffer);
    let mut order: Vec<u32> = (0..first as u32).collect();
    order.sort_by(|a, b| values[*a as usize].total_cmp(&values[*b as usize]));
    // Room is left for values that lie far from the first ones.
    let wanted = (sizes.shard_size as u64 * 3 / 4).max(1) as usize;
    let per_cluster = first.div_ceil(wanted).max(1);
    let mut out: Vec<Cluster> = Vec::new();
    for (at, place) in order.into_iter().enumerate() {
        let value = values[place as usize];
        match out.last_mut() {
            Some(last) if at % per_cluster != 0 => last.add(value, place),
            _ => out.push(Cluster::of(value, place)),
        }
    }
    let apart = |all: &[Cluster]| match all {
        [first, .., last] => (last.centroid - first.centroid) / (all.len() - 1) as f64,
        _ => 0.0,
    };
    debug_assert!(
        out.is_sorted_by(|a, b| a.centroid <= b.centroid),
        "clusters ascend: the nearest one is found by bisection"
    );
    let mut mean = apart(&out);
    for (place, value) in values.iter().enumerate().skip(first) {
        let (place, value) = (place as u32, *value);
        let next = out.partition_point(|cluster| cluster.centroid < value);
        let distance = |at: usize| out.get(at).map_or(f64::INFINITY, |cluster| (cluster.centroid - value).abs());
        let near = match next.checked_sub(1) {
            Some(before) if distance(before) < distance(next) => before,
            _ => next.min(out.len() - 1),
        };
        if distance(near) > 2.0 * mean && out.len() < sizes.shard_size {
            let at = if value > out[near].centroid { near + 1 } else { near };
            out.insert(at, Cluster::of(value, place));
            mean = apart(&out);
        } else {
            out[near].add(value, place);
            if near == 0 || near == out.len() - 1 {
                mean = apart(&out);
            }
        }
    }
    out
}

/// Merges clusters of one centroid, then the two nearest until few enough are left, then those that begin together;
/// what still overlaps is parted in the middle.
fn merge_clusters(mut all: Vec<Cluster>, buckets: usize) -> Vec<Cluster> {
    all.sort_by(|a, b| a.centroid.total_cmp(&b.centroid));
    let mut out: Vec<Cluster> = Vec::with_capacity(all.len());
    for cluster in all {
        match out.last_mut() {
            Some(last) if last.centroid == cluster.centroid => last.merge(cluster),
            _ => out.push(cluster),
        }
    }
    let mut out = nearest_merged(out, buckets.max(1));
    out.dedup_by(|next, before| {
        let together = next.min == before.min;
        if together {
            before.merge(std::mem::take(next));
        }
        together
    });
    for at in 1..out.len() {
        if out[at].min < out[at - 1].max {
            let middle = f64::midpoint(out[at].min, out[at - 1].max);
            out[at].min = middle;
            out[at - 1].max = middle;
        }
    }
    out
}

/// A gap between two clusters that follow each other: its width, the first one's place, and that one's and the next one's
/// times of being merged when it was measured.
type Gap = (f64, usize, u32, u32);

/// Merges the two nearest, of equals the first, until so many are left. The gaps lie in a heap; one that was measured before
/// a cluster beside it was merged is measured again when it comes up.
fn nearest_merged(mut all: Vec<Cluster>, wanted: usize) -> Vec<Cluster> {
    let mut left = all.len();
    if left <= wanted {
        return all;
    }
    let mut next: Vec<usize> = (1..=all.len()).collect();
    let mut before: Vec<Option<usize>> = (0..all.len()).map(|at| at.checked_sub(1)).collect();
    let mut merges: Vec<u32> = vec![0; all.len()];
    let gap = |all: &[Cluster], merges: &[u32], at: usize, after: usize| {
        let width = all[after].centroid - all[at].centroid;
        Reverse(Ordered((width, at, merges[at], merges[after])))
    };
    let mut gaps: BinaryHeap<Reverse<Ordered>> = (1..all.len()).map(|after| gap(&all, &merges, after - 1, after)).collect();
    while left > wanted
        && let Some(Reverse(Ordered((_, at, own, other)))) = gaps.pop()
    {
        let after = next[at];
        if merges[at] != own || after >= all.len() || merges[after] != other {
            continue;
        }
        let merged = std::mem::take(&mut all[after]);
        all[at].merge(merged);
        left -= 1;
        merges[at] += 1;
        merges[after] = u32::MAX;
        next[at] = next[after];
        if let Some(beyond) = next.get(at).copied().filter(|beyond| *beyond < all.len()) {
            before[beyond] = Some(at);
            gaps.push(gap(&all, &merges, at, beyond));
        }
        if let Some(earlier) = before[at] {
            gaps.push(gap(&all, &merges, earlier, at));
        }
    }
    let stays = |at: &usize| merges[*at] != u32::MAX;
    (0..all.len()).filter(stays).map(|at| std::mem::take(&mut all[at])).collect()
}

/// Gaps by width, of equals the first.
#[derive(Clone, Copy, Debug)]
struct Ordered(Gap);

impl Ord for Ordered {
    fn cmp(&self, other: &Ordered) -> Ordering {
        self.0.0.total_cmp(&other.0.0).then(self.0.1.cmp(&other.0.1))
    }
}
impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Ordered) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl PartialEq for Ordered {
    fn eq(&self, other: &Ordered) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for Ordered {}

/// A value that waits: segment, document, score.
type Kept = (u32, DocId, f32);

/// Collects numbers.
pub(in crate::aggs) struct VariableWidth {
    source: ValuesSource,
    sizes: Sizes,
    /// By the bucket above: what has the values, and they.
    kept: Vec<(Vec<Kept>, Vec<f64>)>,
    total: usize,
    segments: Segments,
    /// By the bucket above: clusters, and the number of the first as a bucket.
    done: Vec<(Vec<Cluster>, u32)>,
    values: Vec<f64>,
    subs: Subs,
}

impl VariableWidth {
    pub(in crate::aggs) fn new(spec: &VariableWidthAgg, subs: Subs, cx: &AggregationContext<'_>) -> Result<VariableWidth> {
        const KIND: &str = "variable_width_histogram";
        let source = ValuesSource::new(&spec.source, Wants::Numbers, KIND, cx)?;
        if let (Class::Date | Class::Bool, Some(path)) = (source.class, &spec.source.field) {
            let found = cx.views.iter().find_map(|view| Target::of(view, path));
            let wire = found.map_or("date", |target| target.kind.wire());
            return Err(Error::illegal(format!(
                "Field [{path}] of type [{wire}] is not supported for aggregation [{KIND}]"
            )));
        }
        Ok(VariableWidth {
            source,
            sizes: Sizes {
                buckets: spec.buckets,
                shard_size: spec.shard_size,
                initial_buffer: spec.initial_buffer,
            },
            kept: Vec::new(),
            total: 0,
            segments: Segments::default(),
            done: Vec::new(),
            values: Vec::new(),
            subs,
        })
    }
}

impl Collector for VariableWidth {
    fn segment(&mut self, at: &At<'_>) -> Result<()> {
        self.segments.begin(at);
        self.source.segment(at)
    }
    fn collect(&mut self, doc: DocId, score: f32, bucket: u32) -> Result<()> {
        let mut values = std::mem::take(&mut self.values);
        self.source.numbers(doc, score, &mut values)?;
        values.sort_by(f64::total_cmp);
        values.dedup();
        let at = bucket as usize;
        if at >= self.kept.len() {
            self.kept.resize_with(at + 1, Default::default);
        }
        let segment = self.segments.current();
        for value in values.iter().filter(|value| value.is_finite()) {
            self.total += 1;
            check_collected(self.total)?;
            self.kept[at].0.push((segment, doc, score));
            self.kept[at].1.push(*value);
        }
        self.values = values;
        Ok(())
    }
    fn finish_collecting(&mut self, cx: &AggregationContext<'_>) -> Result<()> {
        let mut all: Vec<Waiting> = Vec::with_capacity(self.total);
        let mut next = 0;
        for (kept, values) in std::mem::take(&mut self.kept) {
            let found = match values.is_empty() {
                true => Vec::new(),
                false => merge_clusters(clusters(&values, self.sizes), self.sizes.buckets),
            };
            for (number, cluster) in (next..).zip(&found) {
                let members = cluster.members.iter().map(|place| kept[*place as usize]);
                all.extend(members.map(|(segment, doc, score)| (segment, doc, number, score)));
            }
            let first = next;
            next += found.len() as u32;
            self.done.push((found, first));
        }
        all.sort_by_key(|(segment, doc, bucket, _)| (*segment, *doc, *bucket));
        self.segments.show(all, &mut self.subs, cx)
    }
    fn finish(&mut self, bucket: u32, to: &mut Finish<'_>) -> Result<Value> {
        let known = (bucket != EMPTY).then(|| self.done.get(bucket as usize)).flatten();
        let Some((clusters, first)) = known else {
            return Ok(json!({ "buckets": [] }));
        };
        to.count(clusters.len())?;
        let mut list = Vec::with_capacity(clusters.len());
        for (own, cluster) in (*first..).zip(clusters) {
            let mut out = Map::new();
            for (name, value) in [("min", cluster.min), ("key", cluster.centroid), ("max", cluster.max)] {
                out.insert(name.into(), json!(value));
                if let Some(text) = self.source.format.text(value) {
                    out.insert(format!("{name}_as_string"), text.into());
                }
            }
            out.insert("doc_count".into(), cluster.members.len().into());
            self.subs.finish(own, &mut out, to)?;
            list.push(Value::Object(out));
        }
        Ok(json!({ "buckets": list }))
    }
    fn order(&mut self, _bucket: u32, _rest: &[&str]) -> Result<f64> {
        Err(no_order("variable_width_histogram"))
    }
    fn wants_scores(&self) -> bool {
        self.source.wants_scores()
    }
    fn wire_type(&self) -> &'static str {
        "variable_width_histogram"
    }
    fn subs(&self) -> Option<&Subs> {
        Some(&self.subs)
    }
    fn subs_mut(&mut self) -> Option<&mut Subs> {
        Some(&mut self.subs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(values: &[f64], sizes: Sizes, expected: &[(f64, f64, f64, usize)]) {
        let found: Vec<_> = merge_clusters(clusters(values, sizes), sizes.buckets)
            .iter()
            .map(|cluster| (cluster.min, cluster.centroid, cluster.max, cluster.members.len()))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn near_ones_together() {
        let sizes = Sizes {
            buckets: 2,
            shard_size: 100,
            initial_buffer: 1000,
        };
        check(
            &[9.0, 1.0, 2.0, 10.0, 2.0],
            sizes,
            &[(1.0, 5.0 / 3.0, 2.0, 3), (9.0, 9.5, 10.0, 2)],
        );
        check(&[4.0], sizes, &[(4.0, 4.0, 4.0, 1)]);
    }

    /// The nearest by looking at every gap each time, beside the heap.
    #[test]
    fn the_nearest_are_merged_first() {
        let mut random = model::random::random(7);
        for case in 0..200 {
            let clusters = || -> Vec<Cluster> {
                let mut values: Vec<u64> = Vec::new();
                for _ in 0..case % 40 + 1 {
                    values.push(random(32));
                }
                values.sort_unstable();
                values.dedup();
                values
                    .iter()
                    .zip(0..)
                    .map(|(v, place)| Cluster::of(*v as f64, place))
                    .collect()
            };
            let (mut clusters, wanted) = (clusters, case % 7 + 1);
            let all = clusters();
            let mut slow = all.clone();
            while slow.len() > wanted {
                let gap = |at: usize| slow[at + 1].centroid - slow[at].centroid;
                let least = (0..slow.len() - 1)
                    .reduce(|a, b| if gap(b) < gap(a) { b } else { a })
                    .unwrap();
                let next = slow.remove(least + 1);
                slow[least].merge(next);
            }
            assert_eq!(nearest_merged(all, wanted), slow, "case {case}");
        }
    }

    #[test]
    fn values_after_the_first() {
        let sizes = Sizes {
            buckets: 3,
            shard_size: 4,
            initial_buffer: 3,
        };
        // The first three are clusters; 100 lies far and is one, 2 is added to that of 1, and of the gaps 3.5, 4 and 91 the
        // least is closed.
        check(
            &[1.0, 5.0, 9.0, 100.0, 2.0],
            sizes,
            &[(1.0, 8.0 / 3.0, 5.0, 3), (9.0, 9.0, 9.0, 1), (100.0, 100.0, 100.0, 1)],
        );
    }
}
