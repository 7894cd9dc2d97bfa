//! `top_hits` and `top_metrics`: the best documents of each bucket.

use super::blocks::Block;
use super::fork::same_kind;
use super::values::{ValuesSource, Wants};
use super::{AggregationContext, At, Collector, Finish, Found, Subs};
use crate::sort::{Key, Plan, SortReader, compare, quick_order};
use dsl::aggs::{Agg, AggKind, TopHitsAgg, ValueSource};
use dsl::search::{Hits, Sort, SortBy, Total};
use model::{Error, Result};
use segment::searchable::IndexView;
use segment::segment_view::SegmentView;
use serde_json::{Map, Value, json};
use std::cmp::Ordering;
use std::sync::Arc;
use tantivy::DocId;

/// The collector of either; `None` if it is none.
pub(super) fn build(agg: &Agg, scope: Option<&str>, cx: &AggregationContext<'_>) -> Result<Option<Box<dyn Collector>>> {
    Ok(Some(match &agg.kind {
        AggKind::TopHits(spec) => {
            let most = cx
                .views
                .iter()
                .filter_map(|view| view.number("index.max_inner_result_window"))
                .min()
                .unwrap_or(100);
            let window = spec.from.saturating_add(spec.size);
            if window > most {
                let name = &agg.name;
                return Err(Error::illegal(format!(
                    "Top hits result window is too large, the top hits aggregator [{name}]'s from + size must be less than or equal to: [{most}] but was [{window}]. This limit can be set by changing the [index.max_inner_result_window] index level setting."
                )));
            }
            if window == 0 && !cx.dialect.rules.tolerates_empty_top_hits {
                let name = if cx.plan.opensearch {
                    "TotalHitCountCollectorManager"
                } else {
                    "TotalHitCountCollector"
                };
                return Err(Error::illegal(format!(
                    "numHits must be > 0; please use {name} if you just need the total hit count"
                )));
            }
            Box::new(TopHits {
                spec: spec.clone(),
                best: BestByBucket::new(&spec.sort, window, scope),
            })
        }
        AggKind::TopMetrics { metrics, sort, size } => {
            let mut sources = Vec::new();
            for field in metrics {
                let spec = ValueSource {
                    field: Some(field.clone()),
                    ..ValueSource::default()
                };
                sources.push((field.clone(), ValuesSource::new(&spec, Wants::Any, "top_metrics", cx)?));
            }
            Box::new(TopMetrics {
                sources,
                best: BestByBucket::new(sort, *size, scope),
                codes: Vec::new(),
            })
        }
        _ => return Ok(None),
    }))
}

/// A document with what it is sorted by.
struct One {
    keys: Vec<Key>,
    score: f32,
    segment: usize,
    doc: DocId,
    codes: Vec<Option<u64>>,
}

/// The best documents by bucket.
struct BestByBucket {
    sort: Vec<Sort>,
    /// The nested path whose documents are collected.
    scope: Option<String>,
    window: usize,
    readers: Vec<SortReader>,
    segments: Vec<(Arc<IndexView>, Arc<SegmentView>)>,
    bases: (u32, u64),
    buckets: Vec<Bucket>,
}

#[derive(Default)]
struct Bucket {
    total: u64,
    max_score: Option<f32>,
    list: Vec<One>,
    sorted: bool,
}

impl BestByBucket {
    fn new(sort: &[Sort], window: usize, scope: Option<&str>) -> BestByBucket {
        let sort = if sort.is_empty() {
            vec![Sort {
                by: SortBy::Score,
                ascending: false,
            }]
        } else {
            sort.to_vec()
        };
        BestByBucket {
            sort,
            scope: scope.map(str::to_owned),
            window,
            readers: Vec::new(),
            segments: Vec::new(),
            bases: (u32::MAX, 0),
            buckets: Vec::new(),
        }
    }
    fn by_score(&self) -> bool {
        self.sort.iter().any(|sort| match &sort.by {
            SortBy::Score => true,
            SortBy::Field(field) => field.field == "_score",
            _ => false,
        })
    }
    fn segment(&mut self, at: &At<'_>) -> Result<()> {
        if self.bases.0 != at.view.no {
            self.bases = (at.view.no, 0);
        }
        self.readers.clear();
        for sort in &self.sort {
            self.readers
                .push(Plan::within(at.view, sort, at.cx.plan, self.scope.as_deref())?.open(at.view, at.segment, self.bases.1)?);
        }
        self.bases.1 += u64::from(at.segment.reader.max_doc());
        self.segments.push((at.view.clone(), at.segment.clone()));
        Ok(())
    }
    fn order(sort: &[Sort], a: &One, b: &One) -> Ordering {
        for (at, sort) in sort.iter().enumerate() {
            let found = compare(&a.keys[at], &b.keys[at], sort.ascending);
            if found != Ordering::Equal {
                return found;
            }
        }
        (a.segment, a.doc).cmp(&(b.segment, b.doc))
    }
    /// Keeps a document if it may be among the best; `codes` are read only then.
    fn add(&mut self, doc: DocId, score: f32, bucket: u32, codes: impl FnOnce() -> Result<Vec<Option<u64>>>) -> Result<()> {
        let at = bucket as usize;
        if at >= self.buckets.len() {
            super::check_collected(at)?;
            self.buckets.resize_with(at + 1, Bucket::default);
        }
        let bucket = &mut self.buckets[at];
        bucket.total += 1;
        bucket.max_score = Some(bucket.max_score.map_or(score, |max| max.max(score)));
        if self.window == 0 {
            return Ok(());
        }
        // A sorted prefix of the window: the worst of it is the bar, and most documents are behind it by keys that are quick to read.
        let bar = bucket
            .list
            .last()
            .filter(|_| bucket.sorted && bucket.list.len() >= self.window && !self.readers.is_empty());
        // Among equals the earlier ones come first.
        if bar.is_some_and(|worst| quick_order(&self.readers, &worst.keys, doc, score).is_some_and(Ordering::is_ge)) {
            return Ok(());
        }
        let keys = self
            .readers
            .iter()
            .map(|reader| reader.read(doc, score))
            .collect::<Result<Vec<_>>>()?;
        let mut one = One {
            keys,
            score,
            segment: self.segments.len() - 1,
            doc,
            codes: Vec::new(),
        };
        if bucket.list.len() >= self.window
            && bucket.sorted
            && bucket
                .list
                .last()
                .is_some_and(|worst| Self::order(&self.sort, &one, worst) != Ordering::Less)
        {
            return Ok(());
        }
        one.codes = codes()?;
        if bucket.sorted {
            let place = bucket
                .list
                .partition_point(|other| Self::order(&self.sort, other, &one) == Ordering::Less);
            bucket.list.insert(place, one);
            bucket.list.truncate(self.window);
            debug_assert!(
                bucket.list.len() <= self.window
                    && bucket
                        .list
                        .is_sorted_by(|a, b| Self::order(&self.sort, a, b) != Ordering::Greater),
                "search.md S9: hits of a bucket have one total order"
            );
        } else {
            bucket.list.push(one);
            if bucket.list.len() >= self.window {
                bucket.list.sort_by(|a, b| Self::order(&self.sort, a, b));
                bucket.sorted = true;
            }
        }
        Ok(())
    }
    /// The best come by score alone.
    fn by_score_alone(&self) -> bool {
        matches!(
            self.sort.as_slice(),
            [Sort {
                by: SortBy::Score,
                ascending: false
            }]
        )
    }
    /// Counts a document that is not among the best by its score; `false`: it may be.
    #[inline]
    fn passes_by(&mut self, score: f32, bucket: u32) -> bool {
        let Some(bucket) = self.buckets.get_mut(bucket as usize) else {
            return false;
        };
        let worst = bucket
            .list
            .last()
            .filter(|_| bucket.sorted && bucket.list.len() >= self.window);
        let passes = worst.is_some_and(|worst| score.total_cmp(&worst.score).is_le());
        if passes {
            bucket.total += 1;
            bucket.max_score = bucket.max_score.map(|max| max.max(score));
        }
        passes
    }
    /// Documents keep their place in the order wherever they are collected. By the number in the index, threads count from another one.
    fn is_divisible(&self) -> bool {
        self.sort.iter().all(|sort| sort.by != SortBy::Doc)
    }
    /// Takes over what another thread has collected of the segment that was entered last; `codes_here` puts codes of there into
    /// those of here.
    fn absorb(&mut self, other: BestByBucket, buckets: &[u32], mut codes_here: impl FnMut(&mut One) -> Result<()>) -> Result<()> {
        let segment = self.segments.len() - 1;
        debug_assert!(
            other
                .segments
                .iter()
                .all(|(_, theirs)| Arc::ptr_eq(theirs, &self.segments[segment].1)),
            "search.md S28: another thread collects documents of the segment that this one has entered"
        );
        for (theirs, bucket) in other.buckets.into_iter().zip(buckets).filter(|(theirs, _)| theirs.total > 0) {
            let at = *bucket as usize;
            if at >= self.buckets.len() {
                super::check_collected(at)?;
                self.buckets.resize_with(at + 1, Bucket::default);
            }
            let own = &mut self.buckets[at];
            own.total += theirs.total;
            own.max_score = own.max_score.into_iter().chain(theirs.max_score).reduce(f32::max);
            for mut one in theirs.list {
                one.segment = segment;
                codes_here(&mut one)?;
                own.list.push(one);
            }
            own.list.sort_by(|a, b| Self::order(&self.sort, a, b));
            own.list.truncate(self.window);
            own.sorted = true;
        }
        Ok(())
    }
    fn of(&mut self, bucket: u32) -> Option<&Bucket> {
        let bucket = self.buckets.get_mut(bucket as usize)?;
        if !bucket.sorted {
            bucket.list.sort_by(|a, b| Self::order(&self.sort, a, b));
            bucket.sorted = true;
        }
        Some(bucket)
    }
}

struct TopHits {
    spec: Box<TopHitsAgg>,
    best: BestByBucket,
}

impl Collector for TopHits {
    fn segment(&mut self, at: &At<'_>) -> Result<()> {
        self.best.segment(at)
    }
    fn collect(&mut self, doc: DocId, score: f32, bucket: u32) -> Result<()> {
        self.best.add(doc, score, bucket, || Ok(Vec::new()))
    }
    fn collect_block(&mut self, block: &Block<'_>) -> Result<()> {
        let by_score = self.best.by_score_alone();
        block.each(|doc, score, bucket| match by_score && self.best.passes_by(score, bucket) {
            true => Ok(()),
            false => self.collect(doc, score, bucket),
        })
    }
    fn is_divisible(&self) -> bool {
        self.best.is_divisible()
    }
    fn absorb(&mut self, other: Box<dyn Collector>, buckets: &[u32]) -> Result<()> {
        let other: TopHits = same_kind(other)?;
        self.best.absorb(other.best, buckets, |_| Ok(()))
    }
    fn finish(&mut self, bucket: u32, to: &mut Finish<'_>) -> Result<Value> {
        let scored = self.best.by_score() && self.best.sort.len() == 1 || self.spec.track_scores;
        let explicit = !self.spec.sort.is_empty();
        let sort = explicit
            .then_some(())
            .filter(|()| !(self.spec.sort.len() == 1 && self.best.by_score()));
        let segments = self.best.segments.clone();
        let scope = self.best.scope.clone();
        let mut hits = Vec::new();
        let (mut total, mut max_score) = (0, None);
        if let Some(bucket) = self.best.of(bucket) {
            total = bucket.total;
            max_score = bucket.max_score.filter(|_| scored);
            for one in bucket.list.iter().skip(self.spec.from) {
                let (view, segment) = segments[one.segment].clone();
                let found = Found {
                    view,
                    segment,
                    doc: one.doc,
                    score: one.score,
                };
                let mut hit = to.cx.fetch.hit(&found, &self.spec)?;
                hit.score = scored.then_some(one.score);
                hit.sort = match sort {
                    Some(()) => sort_values(&self.spec.sort, &one.keys, scope.as_deref(), &found.view, to)?,
                    None => Vec::new(),
                };
                hits.push(hit);
            }
        }
        // Only the first key decides whether scores are told.
        let first_is_score = self.best.sort.iter().any(|sort| sort.by == SortBy::Score);
        let max_score = max_score.filter(|_| (!explicit || first_is_score && sort.is_none()) || self.spec.track_scores);
        let hits = Hits {
            total: Some(Total {
                value: total,
                exact: true,
            }),
            max_score,
            hits,
        };
        Ok(json!({ "hits": hits.render(to.cx.dialect) }))
    }
    fn order(&mut self, _bucket: u32, _rest: &[&str]) -> Result<f64> {
        Err(super::bucket::no_order("top_hits"))
    }
    fn wants_scores(&self) -> bool {
        self.best.by_score() || self.spec.track_scores
    }
    fn wire_type(&self) -> &'static str {
        "top_hits"
    }
    fn subs(&self) -> Option<&Subs> {
        None
    }
}

/// Sort keys as a hit shows them.
fn sort_values(sort: &[Sort], keys: &[Key], scope: Option<&str>, view: &IndexView, to: &Finish<'_>) -> Result<Vec<Value>> {
    sort.iter()
        .zip(keys)
        .map(|(sort, key)| Ok(Plan::within(view, sort, to.cx.plan, scope)?.render(key)))
        .collect()
}

struct TopMetrics {
    sources: Vec<(String, ValuesSource)>,
    best: BestByBucket,
    codes: Vec<u64>,
}

impl Collector for TopMetrics {
    fn segment(&mut self, at: &At<'_>) -> Result<()> {
        self.sources.iter_mut().try_for_each(|(_, source)| source.segment(at))?;
        self.best.segment(at)
    }
    fn collect(&mut self, doc: DocId, score: f32, bucket: u32) -> Result<()> {
        let (sources, codes) = (&mut self.sources, &mut self.codes);
        self.best.add(doc, score, bucket, || {
            let mut out = Vec::with_capacity(sources.len());
            for (_, source) in sources.iter_mut() {
                source.codes(doc, score, codes, true)?;
                out.push(codes.first().copied());
            }
            Ok(out)
        })
    }
    fn is_divisible(&self) -> bool {
        self.best.is_divisible()
    }
    fn absorb(&mut self, other: Box<dyn Collector>, buckets: &[u32]) -> Result<()> {
        let TopMetrics {
            sources: theirs, best, ..
        } = same_kind(other)?;
        let sources = &mut self.sources;
        self.best.absorb(best, buckets, |one| {
            for (code, ((_, source), (_, theirs))) in one.codes.iter_mut().zip(sources.iter_mut().zip(&theirs)) {
                if let Some(code) = code {
                    *code = source.adopt(theirs, *code)?;
                }
            }
            Ok(())
        })
    }
    fn finish(&mut self, bucket: u32, to: &mut Finish<'_>) -> Result<Value> {
        let segments = self.best.segments.clone();
        let scope = self.best.scope.clone();
        let sort = self.best.sort.clone();
        let mut top = Vec::new();
        if let Some(bucket) = self.best.of(bucket) {
            for one in &bucket.list {
                debug_assert_eq!(
                    one.codes.len(),
                    self.sources.len(),
                    "a hit has a value of each metric, or none"
                );
                let mut metrics = Map::new();
                for ((name, source), code) in self.sources.iter().zip(&one.codes) {
                    let value = match code {
                        Some(code) => source.key(*code)?.0,
                        None => Value::Null,
                    };
                    metrics.insert(name.clone(), value);
                }
                top.push(json!({ "sort": sort_values(&sort, &one.keys, scope.as_deref(), &segments[one.segment].0, to)?, "metrics": metrics }));
            }
        }
        Ok(json!({ "top": top }))
    }
    fn order(&mut self, bucket: u32, rest: &[&str]) -> Result<f64> {
        let at = self
            .sources
            .iter()
            .position(|(name, _)| rest.first().is_none_or(|wanted| wanted == name))
            .unwrap_or(0);
        let code = self
            .best
            .of(bucket)
            .and_then(|bucket| bucket.list.first())
            .and_then(|one| one.codes.get(at).copied().flatten());
        let Some((code, (_, source))) = code.zip(self.sources.get(at)) else {
            return Ok(f64::NAN);
        };
        Ok(source.key(code)?.0.as_f64().unwrap_or(f64::NAN))
    }
    fn wants_scores(&self) -> bool {
        self.best.by_score()
    }
    fn wire_type(&self) -> &'static str {
        "top_metrics"
    }
}
