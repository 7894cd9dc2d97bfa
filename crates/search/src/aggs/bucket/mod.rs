//! Aggregations that part documents into buckets.

mod adjacency;
mod auto_date;
mod background;
mod composite;
mod filter;
mod grid;
mod histogram;
mod join;
mod multi_terms;
mod nested;
mod range;
mod significance;
mod significant_text;
mod terms;
mod variable_width;

use super::{AggregationContext, Collector, EMPTY, Finish, Subs};
use crate::interrupt::Interrupt;
use dsl::aggs::{Agg, AggKind};
use model::{Error, ErrorKind, Result};
use rustc_hash::FxHashMap;
use serde_json::{Map, Value};

/// The collector of a bucket aggregation.
pub(super) fn build(agg: &Agg, scope: Option<&str>, cx: &AggregationContext<'_>) -> Result<Box<dyn Collector>> {
    // Sub-aggregations are made first: this calls itself, and collectors are large while they are made.
    let subs = Subs::new(&agg.subs, below(agg, scope, cx)?, cx)?;
    collector(agg, scope, subs, cx)
}

/// The nested path whose documents are collected below an aggregation.
fn below<'a>(agg: &'a Agg, scope: Option<&'a str>, cx: &AggregationContext<'_>) -> Result<Option<&'a str>> {
    match &agg.kind {
        AggKind::Nested { path } => {
            not_nested(cx, "nested", path)?;
            Ok(Some(path))
        }
        AggKind::ReverseNested { .. } if scope.is_none() => {
            let name = &agg.name;
            let reason = format!("Reverse nested aggregation [{name}] can only be used inside a [nested] aggregation");
            let kind = if cx.dialect.rules.search_parse_exceptions {
                ErrorKind::SearchParse
            } else {
                ErrorKind::IllegalArgument
            };
            Err(Error::new(kind, reason))
        }
        AggKind::ReverseNested { path } => {
            if let Some(path) = path {
                not_nested(cx, "reverse_nested", path)?;
            }
            Ok(path.as_deref())
        }
        AggKind::Children { child_type } if !join::is_child(child_type, cx) => Err(Error::new(
            ErrorKind::SearchParse,
            "[children] no [_parent] field not configured that points to a parent type",
        )),
        AggKind::Global | AggKind::Children { .. } | AggKind::Parent { .. } => Ok(None),
        _ => Ok(scope),
    }
}

fn collector(agg: &Agg, scope: Option<&str>, subs: Subs, cx: &AggregationContext<'_>) -> Result<Box<dyn Collector>> {
    Ok(match &agg.kind {
        AggKind::Terms(spec) => Box::new(terms::Terms::new(spec, subs, cx)?),
        AggKind::SignificantTerms(spec) => Box::new(terms::Terms::significant_ones(spec, scope, subs, cx)?),
        AggKind::SignificantText(spec) => Box::new(significant_text::SignificantText::new(spec, scope, subs, cx)?),
        AggKind::VariableWidth(spec) => Box::new(variable_width::VariableWidth::new(spec, subs, cx)?),
        AggKind::DiversifiedSampler(spec) => Box::new(filter::Sampler::diverse(spec, subs, cx)?),
        AggKind::RareTerms(spec) => Box::new(terms::Terms::rare(spec, subs, cx)?),
        AggKind::MultiTerms(spec) => Box::new(multi_terms::MultiTerms::new(spec, subs, cx)?),
        AggKind::GeoDistance(spec) => Box::new(range::Ranges::distances(spec, subs, cx)?),
        AggKind::Range { source, ranges, keyed } => Box::new(range::Ranges::numbers(source, ranges, *keyed, subs, cx)?),
        AggKind::DateRange {
            source,
            ranges,
            keyed,
            time_zone,
        } => Box::new(range::Ranges::dates(source, ranges, *keyed, time_zone.as_deref(), subs, cx)?),
        AggKind::IpRange { source, ranges, keyed } => Box::new(range::IpRanges::new(source, ranges, *keyed, subs, cx)?),
        AggKind::Histogram(spec) => Box::new(histogram::Histogram::numbers(spec, subs, cx)?),
        AggKind::DateHistogram(spec) => Box::new(histogram::Histogram::dates(spec, subs, cx)?),
        AggKind::Filter(query) => Box::new(filter::Filters::one(query, scope, subs)),
        AggKind::Filters {
            filters,
            keyed,
            other_bucket_key,
        } => Box::new(filter::Filters::several(
            filters,
            *keyed,
            other_bucket_key.clone(),
            scope,
            subs,
            cx.plan.max_clause_count,
        )?),
        AggKind::Global => Box::new(filter::All::new("global", None, subs)),
        AggKind::Sampler { shard_size } => Box::new(filter::Sampler::new(*shard_size, subs)),
        AggKind::Missing { field, missing } => Box::new(filter::Missing::new(field, missing.as_ref(), subs, cx)?),
        AggKind::Nested { path } => Box::new(nested::Nested::new(path, scope, subs)),
        AggKind::ReverseNested { path } => Box::new(nested::Reverse::new(path.as_deref(), subs)),
        AggKind::Children { child_type } => Box::new(join::Join::new(child_type, true, subs)),
        AggKind::Parent { child_type } => Box::new(join::Join::new(child_type, false, subs)),
        AggKind::AdjacencyMatrix {
            filters,
            separator,
            show_only_intersecting,
        } => Box::new(adjacency::Adjacency::new(
            filters,
            separator,
            *show_only_intersecting,
            scope,
            subs,
            cx,
        )?),
        AggKind::Grid(spec) => Box::new(grid::Grid::new(spec, subs, cx)?),
        AggKind::AutoDateHistogram(spec) => Box::new(auto_date::AutoDates::new(spec, subs, cx)?),
        AggKind::Composite { size, sources, after } => {
            Box::new(composite::Composite::new(*size, sources, after.as_ref(), subs, cx)?)
        }
        other => return Err(Error::parsing(format!("Unknown aggregation type [{other:?}]"), 1, 1)),
    })
}

/// Buckets by the bucket above and a code, with their counts. Its tables grow by doubling, often with those of a thousand
/// siblings at the same document, so each growth is reserved before it is made.
pub(super) struct Keyed {
    interrupt: Interrupt,
    map: FxHashMap<(u32, u64), u32>,
    /// Buckets of the first bucket above, by small codes: bucket + 1.
    dense: Vec<u32>,
    owners: Vec<(u32, u64)>,
    counts: Vec<u64>,
    grouped: Option<Vec<Vec<u32>>>,
}

impl Keyed {
    /// Bytes of a bucket: its owner and its count.
    const BUCKET_BYTES: usize = size_of::<(u32, u64)>() + size_of::<u64>();
    /// Bytes of a slot of `map`, with its control byte.
    const SLOT_BYTES: usize = size_of::<((u32, u64), u32)>() + 1;
    /// The first buckets are made at once.
    const FIRST: usize = 16;

    /// Without buckets.
    pub(super) fn new(cx: &AggregationContext<'_>) -> Keyed {
        Keyed {
            interrupt: cx.plan.interrupt.clone(),
            map: FxHashMap::default(),
            dense: Vec::new(),
            owners: Vec::new(),
            counts: Vec::new(),
            grouped: None,
        }
    }

    /// The bucket of a code, made if there is none.
    #[inline]
    pub(super) fn bucket(&mut self, above: u32, code: u64) -> Result<u32> {
        const DENSE: u64 = 1 << 20;
        if above == 0 && code < DENSE {
            let at = code as usize;
            if at >= self.dense.len() {
                self.grow_dense((at + 1).next_power_of_two())?;
            }
            if self.dense[at] != 0 {
                return Ok(self.dense[at] - 1);
            }
            let bucket = self.make(above, code)?;
            self.dense[at] = bucket + 1;
            return Ok(bucket);
        }
        if let Some(bucket) = self.map.get(&(above, code)) {
            return Ok(*bucket);
        }
        if self.map.len() == self.map.capacity() {
            self.grow_map()?;
        }
        let bucket = self.make(above, code)?;
        self.map.insert((above, code), bucket);
        Ok(bucket)
    }
    fn make(&mut self, above: u32, code: u64) -> Result<u32> {
        super::check_collected(self.owners.len() + 1)?;
        if self.owners.len() == self.owners.capacity() {
            self.grow()?;
        }
        self.owners.push((above, code));
        self.counts.push(0);
        debug_assert_eq!(self.owners.len(), self.counts.len(), "each bucket has its count");
        Ok((self.owners.len() - 1) as u32)
    }
    /// Doubles the room for buckets. Both tables are there while one is copied to the other.
    #[cold]
    fn grow(&mut self) -> Result<()> {
        let before = self.owners.capacity();
        let after = (before * 2).max(Keyed::FIRST);
        self.interrupt.reserve(after * Keyed::BUCKET_BYTES)?;
        self.owners.reserve_exact(after - before);
        self.counts.reserve_exact(after - before);
        self.interrupt.release(before * Keyed::BUCKET_BYTES);
        Ok(())
    }
    /// Doubles the room of `map`, seven of eight of whose slots are filled at most.
    #[cold]
    fn grow_map(&mut self) -> Result<()> {
        let slots = |buckets: usize| (buckets * 8 / 7).next_power_of_two();
        let before = match self.map.capacity() {
            0 => 0,
            capacity => slots(capacity),
        };
        let after = (before * 2).max(Keyed::FIRST);
        self.interrupt.reserve(after * Keyed::SLOT_BYTES)?;
        self.map.reserve(after * 7 / 8 - self.map.len());
        self.interrupt.release(before * Keyed::SLOT_BYTES);
        debug_assert!(self.map.capacity() > self.map.len(), "a map that has grown has room");
        Ok(())
    }
    #[cold]
    fn grow_dense(&mut self, codes: usize) -> Result<()> {
        let before = self.dense.len() * size_of::<u32>();
        self.interrupt.reserve(codes * size_of::<u32>())?;
        self.dense.resize(codes, 0);
        self.interrupt.release(before);
        Ok(())
    }
    /// One more document for each of these codes below the first bucket above; their buckets go to `own`.
    pub(super) fn add_all(&mut self, codes: &[u64], mut own: Option<&mut Vec<u32>>) -> Result<()> {
        for code in codes {
            let known = usize::try_from(*code).ok().and_then(|code| self.dense.get(code)).copied();
            let bucket = match known {
                Some(after) if after > 0 => after - 1,
                _ => self.bucket(0, *code)?,
            };
            self.counts[bucket as usize] += 1;
            if let Some(own) = &mut own {
                own.push(bucket);
            }
        }
        Ok(())
    }
    /// One more document.
    #[inline]
    pub(super) fn add(&mut self, bucket: u32) {
        self.add_many(bucket, 1);
    }
    /// So many more documents.
    #[inline]
    pub(super) fn add_many(&mut self, bucket: u32, count: u64) {
        debug_assert!(
            (bucket as usize) < self.owners.len(),
            "search.md S24: a document falls into a bucket that was made"
        );
        self.counts[bucket as usize] += count;
    }
    /// Takes over the buckets of another table, whose codes are others. `above`: the bucket here of each bucket above there. Says the
    /// bucket here of each bucket there.
    pub(super) fn absorb(
        &mut self,
        other: &Keyed,
        above: &[u32],
        mut code_here: impl FnMut(u64) -> Result<u64>,
    ) -> Result<Vec<u32>> {
        let mut buckets = Vec::with_capacity(other.len());
        for ((owner, code), count) in other.owners.iter().zip(&other.counts) {
            if buckets.len() % (1 << 14) == 0 {
                self.interrupt.check()?;
            }
            let bucket = self.bucket(above[*owner as usize], code_here(*code)?)?;
            self.add_many(bucket, *count);
            buckets.push(bucket);
        }
        Ok(buckets)
    }
    pub(super) fn code(&self, bucket: u32) -> u64 {
        self.owners[bucket as usize].1
    }
    pub(super) fn count(&self, bucket: u32) -> u64 {
        self.counts.get(bucket as usize).copied().unwrap_or(0)
    }
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.owners.len()
    }
    /// One more than the last bucket above.
    pub(super) fn above(&self) -> u32 {
        self.owners.iter().map(|(above, _)| above + 1).max().unwrap_or(0)
    }
    /// All of them lie in a table by code.
    pub(super) fn is_dense(&self) -> bool {
        self.map.is_empty()
    }
    /// The buckets below one above; only after everything is collected.
    pub(super) fn of(&mut self, above: u32) -> Vec<u32> {
        let owners = &self.owners;
        let grouped = self.grouped.get_or_insert_with(|| {
            let mut all: Vec<Vec<u32>> = Vec::new();
            for (bucket, (above, _)) in owners.iter().enumerate() {
                let above = *above as usize;
                if all.len() <= above {
                    all.resize_with(above + 1, Vec::new);
                }
                all[above].push(bucket as u32);
            }
            all
        });
        grouped.get_mut(above as usize).map(std::mem::take).unwrap_or_default()
    }
}

/// The bucket at one of the `width` places below a bucket above; [`EMPTY`] below an empty one, and beyond all numbers of buckets.
pub(super) fn place_below(above: u32, width: usize, at: usize) -> u32 {
    debug_assert!(at < width, "place [{at}] is one of [{width}] places");
    if above == EMPTY {
        return EMPTY;
    }
    let place = u64::from(above) * width as u64 + at as u64;
    u32::try_from(place).unwrap_or(EMPTY)
}

/// Counts by bucket.
#[derive(Default)]
pub(super) struct Counts(Vec<u64>);

impl Counts {
    #[inline]
    pub(super) fn add(&mut self, bucket: usize) {
        if bucket >= self.0.len() {
            self.0.resize(bucket + 1, 0);
        }
        self.0[bucket] += 1;
    }
    pub(super) fn get(&self, bucket: usize) -> u64 {
        self.0.get(bucket).copied().unwrap_or(0)
    }
    /// Adds the counts of others; `buckets`: the bucket here of each bucket there.
    pub(super) fn absorb(&mut self, other: &Counts, buckets: &[u32]) {
        for (count, bucket) in other.0.iter().zip(buckets).filter(|(count, _)| **count > 0) {
            let bucket = *bucket as usize;
            if bucket >= self.0.len() {
                self.0.resize(bucket + 1, 0);
            }
            self.0[bucket] += count;
        }
    }
}

/// The places here of all places below the buckets of another collector, `width` below each. `above`: the bucket here of each of those.
pub(super) fn places_below(above: &[u32], width: usize) -> Result<Vec<u32>> {
    super::check_collected(above.len().saturating_mul(width))?;
    let places = above
        .iter()
        .flat_map(|bucket| (0..width).map(|at| place_below(*bucket, width, at)));
    Ok(places.collect())
}

/// The answer of an aggregation with one bucket.
pub(super) fn single(count: u64, bucket: u32, subs: &mut Subs, to: &mut Finish<'_>) -> Result<Value> {
    let mut out = Map::new();
    out.insert("doc_count".into(), count.into());
    subs.finish(bucket, &mut out, to)?;
    Ok(Value::Object(out))
}

/// The order's value of an aggregation with one bucket.
pub(super) fn single_order(count: u64, bucket: u32, rest: &[&str], subs: &mut Subs) -> Result<f64> {
    match rest {
        [] | ["doc_count" | "_count"] => Ok(count as f64),
        rest => subs.order(bucket, rest),
    }
}

/// The refusal of an order by an aggregation of many buckets.
pub(super) fn no_order(kind: &str) -> Error {
    Error::new(
        model::ErrorKind::AggregationExecution,
        format!(
            "Invalid aggregation order path. Buckets can only be sorted on a sub-aggregator path that is built out of zero or more single-bucket aggregations within the path and a final single-bucket or a metrics aggregation at the path end; [{kind}] has many buckets."
        ),
    )
}

/// The interval of a request as one of dates.
pub(super) fn interval_of(interval: &dsl::aggs::DateInterval) -> Result<model::date::Interval> {
    match histogram::Steps::dates(interval, None, None)? {
        histogram::Steps::Date(rounding) => Ok(rounding.interval),
        histogram::Steps::Number { .. } => Err(Error::illegal("no interval of dates")),
    }
}

/// Refuses the path of an object that is none of nested documents; one that no index has finds nothing.
fn not_nested(cx: &AggregationContext<'_>, kind: &str, path: &str) -> Result<()> {
    let flat =
        |view: &&std::sync::Arc<segment::searchable::IndexView>| view.mapping.is_object(path) && !view.mapping.is_nested(path);
    let why = format!("[{kind}] nested path [{path}] is not nested");
    match cx.views.iter().find(flat) {
        Some(view) if view.rules().nested_aggregations_fail_at_run => {
            Err(Error::new(model::ErrorKind::AggregationExecution, why))
        }
        Some(_) => Err(Error::illegal(why)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::breaker::{Breaker, BreakerLimits, CircuitBreakers};
    use model::Cancellation;
    use std::sync::Arc;

    /// Makes buckets of these codes until memory is refused; says how many there are and how much is reserved for them.
    fn fill(codes: impl Iterator<Item = u64>) -> (usize, u64, Keyed) {
        let limits = BreakerLimits {
            total: u64::MAX,
            request: 1 << 20,
            in_flight_requests: 0,
        };
        let breakers = CircuitBreakers::new(limits, Arc::new(|| 0));
        let mut buckets = Keyed {
            interrupt: Interrupt::new(Cancellation::default(), None, Some(breakers.clone())),
            map: FxHashMap::default(),
            dense: Vec::new(),
            owners: Vec::new(),
            counts: Vec::new(),
            grouped: None,
        };
        let made = codes.take_while(|code| buckets.bucket(0, *code).is_ok()).count();
        (made, breakers.usage(Breaker::Request).used, buckets)
    }

    #[test]
    fn places_below_a_bucket() {
        assert_eq!(place_below(0, 3, 2), 2);
        assert_eq!(place_below(7, 3, 0), 21);
        assert_eq!(place_below(EMPTY, 3, 0), EMPTY);
        let (many, wide) = (1 << 25, 1024);
        assert_eq!(place_below(many, wide, 5), EMPTY, "no number of 32 bits begins anew");
        assert!(crate::aggs::check_collected(place_below(many, wide, 5) as usize + 1).is_err());
    }

    #[test]
    fn tables_are_reserved_before_they_grow() {
        let (made, reserved, buckets) = fill(1 << 40..);
        assert_eq!(made, buckets.len());
        assert!((8_000..20_000).contains(&made), "{made} buckets fit into a megabyte");
        let held = buckets.owners.capacity() * Keyed::BUCKET_BYTES + buckets.map.capacity() * Keyed::SLOT_BYTES;
        assert!(held as u64 <= reserved, "{held} bytes are held, {reserved} are reserved");
        let (dense, reserved, buckets) = fill(0..);
        let held = buckets.owners.capacity() * Keyed::BUCKET_BYTES + buckets.dense.len() * size_of::<u32>();
        assert!(
            dense > made && held as u64 <= reserved,
            "{dense} buckets, {held} bytes of {reserved}"
        );
    }
}
