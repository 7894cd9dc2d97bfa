//! `terms`, `rare_terms` and `significant_terms`: a bucket for each value.

use super::Keyed;
use super::background::Background;
use super::filter::FilterProbe;
use super::significance::{Frequencies, Measure};
use crate::aggs::block_values::BlockCodes;
use crate::aggs::blocks::{BLOCK_VALUES, Block, Buckets, Gathered};
use crate::aggs::deferred::{Segments, Waiting};
use crate::aggs::fork::same_kind;
use crate::aggs::values::{Class, ValuesSource, Wants};
use crate::aggs::{AggregationContext, At, Collector, EMPTY, Finish, Subs, order_path};
use crate::automata::regexp::Pattern;
use crate::hashes;
use dsl::aggs::{BucketOrder, IncludeExclude, RareTermsAgg, SignificantAgg, TermsAgg, no_value_source};
use model::{Error, Result};
use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::{Map, Value, json};
use std::cmp::Ordering;
use tantivy::DocId;

/// Collects terms.
pub(in crate::aggs) struct Terms {
    spec: TermsAgg,
    source: ValuesSource,
    include: Filter,
    exclude: Filter,
    verdicts: FxHashMap<u64, bool>,
    buckets: Keyed,
    subs: Subs,
    codes: Vec<u64>,
    block: TermsScratch,
    all: FxHashSet<u64>,
    significant: Option<Significant>,
    /// Only values that no more documents have.
    rare: Option<u64>,
    /// Sub-aggregations wait until the buckets are chosen (`breadth_first`).
    deferred: Option<Deferred>,
    /// Segments with one value a document, and with several.
    segments: [u64; 2],
}

/// Lists that are filled for each block of documents.
#[derive(Default)]
struct TermsScratch {
    codes: BlockCodes,
    /// The bucket of each code.
    own: Vec<u32>,
    gathered: Gathered,
}

/// Documents that wait for the choice of buckets.
#[derive(Default)]
struct Deferred {
    segments: Segments,
    docs: Vec<Waiting>,
    /// By the bucket above, once it is known.
    chosen: Vec<Option<SelectedBuckets>>,
}

/// The buckets to show below one above, before `min_doc_count` and `size`.
struct SelectedBuckets {
    entries: Vec<Entry>,
    order: Vec<(OrderBy, bool)>,
    /// Documents of all buckets, and how many buckets there were.
    total: u64,
    found: usize,
    shard_size: usize,
}

/// What makes terms significant.
struct Significant {
    measure: Measure,
    background: Background,
    /// Documents that were collected, by the bucket above.
    collected: FxHashMap<u32, u64>,
}

enum Filter {
    None,
    Regex(Box<Pattern>),
    Codes(FxHashSet<u64>),
    Partition(u64, u64),
}

impl Filter {
    fn new(spec: Option<&IncludeExclude>, source: &mut ValuesSource, now_ms: i64) -> Result<Filter> {
        Ok(match spec {
            None => Filter::None,
            Some(IncludeExclude::Regex(text)) => Filter::Regex(Box::new(pattern(text)?)),
            Some(IncludeExclude::Values(values)) => Filter::Codes(
                values
                    .iter()
                    .map(|value| source.code_of_value(value, now_ms))
                    .collect::<Result<_>>()?,
            ),
            Some(IncludeExclude::Partition {
                partition,
                num_partitions,
            }) => Filter::Partition(*partition, *num_partitions),
        })
    }
    fn holds(&self, code: u64, number: Option<u64>, text: &str) -> bool {
        match self {
            Filter::None => false,
            Filter::Regex(pattern) => pattern.matches(text),
            Filter::Codes(codes) => codes.contains(&code),
            Filter::Partition(partition, of) => {
                let of = i64::try_from(*of).unwrap_or(i64::MAX).max(1);
                hash(number, text).rem_euclid(of) == i64::try_from(*partition).unwrap_or(-1)
            }
        }
    }
}

/// The hash of a term's partition: mixed bits of numbers, MurmurHash3 of strings, as servers do.
fn hash(number: Option<u64>, text: &str) -> i64 {
    match number {
        Some(bits) => hashes::mix_bits(bits),
        None => i64::from(hashes::murmur3(text.as_bytes(), 31).cast_signed()),
    }
}

/// A pattern of `include` or `exclude`: all of the term has to match.
fn pattern(text: &str) -> Result<Pattern> {
    Pattern::regexp(text, None, false)
}

pub(super) enum OrderBy {
    Count,
    Key,
    Value(usize),
}

/// A bucket about to be sorted, with what its order asks for.
pub(super) struct Entry {
    pub(super) code: u64,
    pub(super) bucket: u32,
    pub(super) count: u64,
    pub(super) values: Vec<f64>,
}

/// Sorts entries as an order says; ties by key. NaN comes last both ways.
pub(super) fn compare(a: &Entry, b: &Entry, order: &[(OrderBy, bool)], keys: impl Fn(u64, u64) -> Ordering) -> Ordering {
    for (by, ascending) in order {
        let found = match by {
            OrderBy::Count => a.count.cmp(&b.count),
            OrderBy::Key => keys(a.code, b.code),
            OrderBy::Value(at) => match (a.values[*at], b.values[*at]) {
                (x, y) if x.is_nan() || y.is_nan() => {
                    let found = x.is_nan().cmp(&y.is_nan());
                    if found != Ordering::Equal {
                        return found;
                    }
                    found
                }
                (x, y) => x.total_cmp(&y),
            },
        };
        let found = if *ascending { found } else { found.reverse() };
        if found != Ordering::Equal {
            return found;
        }
    }
    keys(a.code, b.code)
}

/// Are the paths of an order those of aggregations below?
pub(super) fn check_order(orders: &[BucketOrder], subs: &Subs) -> Result<()> {
    let mut paths = orders
        .iter()
        .filter(|order| !matches!(order.path.as_str(), "_count" | "_key"));
    paths.try_for_each(|order| subs.check_path(&order_path(&order.path, subs)))
}

/// By what buckets are sorted; what aggregations below say of each goes into its values.
pub(super) fn sort_entries(entries: &mut [Entry], orders: &[BucketOrder], subs: &mut Subs) -> Result<Vec<(OrderBy, bool)>> {
    let mut out = Vec::with_capacity(orders.len());
    let mut values = 0;
    for BucketOrder { path, ascending, .. } in orders {
        let by = match path.as_str() {
            "_count" => OrderBy::Count,
            "_key" => OrderBy::Key,
            path => {
                let path = order_path(path, subs);
                for entry in &mut *entries {
                    entry.values.push(subs.order(entry.bucket, &path)?);
                }
                values += 1;
                OrderBy::Value(values - 1)
            }
        };
        out.push((by, *ascending));
    }
    Ok(out)
}

impl Terms {
    pub(in crate::aggs) fn new(spec: &TermsAgg, subs: Subs, cx: &AggregationContext<'_>) -> Result<Terms> {
        let mut terms = Terms::of_kind(spec, "terms", subs, cx)?;
        let by_own = spec
            .order
            .iter()
            .all(|order| matches!(order.path.as_str(), "_count" | "_key"));
        if by_own && spec.collect_mode.as_deref() == Some("breadth_first") && !terms.subs.is_empty() {
            terms.deferred = Some(Deferred::default());
        }
        Ok(terms)
    }

    /// `significant_terms`: those that are more frequent here than elsewhere.
    pub(in crate::aggs) fn significant_ones(
        spec: &SignificantAgg,
        scope: Option<&str>,
        subs: Subs,
        cx: &AggregationContext<'_>,
    ) -> Result<Terms> {
        let mut terms = Terms::of_kind(&spec.terms, "significant_terms", subs, cx)?;
        let chosen = spec.background.as_ref().map(|query| FilterProbe::new(query, scope));
        terms.significant = Some(Significant {
            measure: Measure::new(&spec.measure, cx)?,
            background: Background::new(chosen),
            collected: FxHashMap::default(),
        });
        Ok(terms)
    }

    fn of_kind(spec: &TermsAgg, kind: &str, subs: Subs, cx: &AggregationContext<'_>) -> Result<Terms> {
        if spec.source.field.is_none() && spec.source.script.is_none() {
            return Err(no_value_source("[field, script]"));
        }
        let mut source = ValuesSource::of_value_type(&spec.source, Wants::Any, kind, spec.value_type.as_deref(), cx)?;
        source.hint(spec.execution_hint.as_deref());
        let regex = |spec: &Option<IncludeExclude>| matches!(spec, Some(IncludeExclude::Regex(_)));
        if (regex(&spec.include) || regex(&spec.exclude)) && source.mapped && !source.is_text() {
            return Err(Error::illegal(format!(
                "Aggregation [{}] cannot support regular expression style include/exclude settings as they can only be applied \
                 to string fields. Use an array of values for include/exclude clauses",
                spec.source.field.as_deref().unwrap_or(kind)
            )));
        }
        let now_ms = cx.plan.now_ms;
        let include = Filter::new(spec.include.as_ref(), &mut source, now_ms)?;
        let exclude = Filter::new(spec.exclude.as_ref(), &mut source, now_ms)?;
        check_order(&spec.order, &subs)?;
        Ok(Terms {
            spec: spec.clone(),
            source,
            include,
            exclude,
            verdicts: FxHashMap::default(),
            buckets: Keyed::new(cx),
            subs,
            codes: Vec::new(),
            block: TermsScratch::default(),
            all: FxHashSet::default(),
            significant: None,
            rare: None,
            deferred: None,
            segments: [0; 2],
        })
    }

    /// `rare_terms`: few documents first.
    pub(in crate::aggs) fn rare(spec: &RareTermsAgg, subs: Subs, cx: &AggregationContext<'_>) -> Result<Terms> {
        let plain = TermsAgg {
            source: spec.source.clone(),
            size: usize::MAX,
            shard_size: None,
            min_doc_count: 1,
            shard_min_doc_count: 0,
            order: Vec::new(),
            include: spec.include.clone(),
            exclude: spec.exclude.clone(),
            show_term_doc_count_error: false,
            collect_mode: None,
            execution_hint: None,
            value_type: spec.value_type.clone(),
        };
        let mut terms = Terms::of_kind(&plain, "rare_terms", subs, cx)?;
        if terms.source.mapped && terms.source.class == Class::Double {
            return Err(Error::illegal(
                "RareTerms aggregation does not support floating point fields.",
            ));
        }
        terms.rare = Some(spec.max_doc_count);
        Ok(terms)
    }

    fn has_filters(&self) -> bool {
        !matches!((&self.include, &self.exclude), (Filter::None, Filter::None))
    }

    fn accepts(&mut self, code: u64) -> Result<bool> {
        if let Some(verdict) = self.verdicts.get(&code) {
            return Ok(*verdict);
        }
        let text = self.source.text(code)?;
        let number = self.source.bits(code);
        let verdict = (matches!(self.include, Filter::None) || self.include.holds(code, number, &text))
            && !self.exclude.holds(code, number, &text);
        self.verdicts.insert(code, verdict);
        Ok(verdict)
    }

    /// Reads the codes of a block document by document, and counts them by some thousands.
    fn collect_one_by_one(&mut self, block: &Block<'_>, spare: &mut TermsScratch) -> Result<()> {
        spare.codes.clear();
        let mut codes = std::mem::take(&mut self.codes);
        for (place, doc) in block.docs.iter().enumerate() {
            self.source.codes(*doc, block.score(place), &mut codes, true)?;
            for code in &codes {
                spare.codes.push(*code, place);
            }
            if spare.codes.list.len() >= BLOCK_VALUES {
                self.count_block(block, spare)?;
                spare.codes.clear();
            }
        }
        self.codes = codes;
        self.count_block(block, spare)
    }

    /// Counts the codes of a block, and shows its documents to what is below.
    fn count_block(&mut self, block: &Block<'_>, spare: &mut TermsScratch) -> Result<()> {
        let TermsScratch { codes, own, gathered } = spare;
        let all = !self.has_filters();
        if !all {
            codes.retain(|code| self.accepts(code))?;
        }
        let below = self.deferred.is_some() || !self.subs.is_empty();
        own.clear();
        match block.buckets {
            Buckets::Same(0) => self.buckets.add_all(&codes.list, below.then_some(&mut *own))?,
            _ => {
                for (value, code) in codes.list.iter().enumerate() {
                    let bucket = self.buckets.bucket(block.bucket(codes.rows.place(value)), *code)?;
                    self.buckets.add(bucket);
                    own.push(bucket);
                }
            }
        }
        assert!(
            !below || own.len() == codes.list.len(),
            "search.md S24: each code of a block has its bucket"
        );
        if let Some(deferred) = &mut self.deferred {
            crate::aggs::check_collected(deferred.docs.len() + own.len())?;
            for (value, own) in own.iter().enumerate() {
                let place = codes.rows.place(value);
                let waiting = (deferred.segments.current(), block.docs[place], *own, block.score(place));
                deferred.docs.push(waiting);
            }
        } else if below && codes.rows.one_each() {
            self.subs.collect_block(&Block {
                buckets: Buckets::Each(own),
                ..*block
            })?;
        } else if below {
            let places = (0..codes.list.len()).map(|value| codes.rows.place(value));
            self.subs.collect_block(&gathered.at(block, places, own))?;
        }
        Ok(())
    }

    fn entries(&mut self, above: u32) -> Result<Vec<Entry>> {
        let mut out: Vec<Entry> = Vec::new();
        if above != EMPTY {
            for bucket in self.buckets.of(above) {
                out.push(Entry {
                    code: self.buckets.code(bucket),
                    bucket,
                    count: self.buckets.count(bucket),
                    values: Vec::new(),
                });
            }
        }
        if self.spec.min_doc_count == 0 {
            let have: FxHashSet<u64> = out.iter().map(|entry| entry.code).collect();
            let more: Vec<u64> = self.all.iter().copied().filter(|code| !have.contains(code)).collect();
            for code in more {
                if !self.has_filters() || self.accepts(code)? {
                    out.push(Entry {
                        code,
                        bucket: EMPTY,
                        count: 0,
                        values: Vec::new(),
                    });
                }
            }
        }
        Ok(out)
    }

    fn sort_buckets(&mut self, above: u32) -> Result<(Vec<Entry>, Vec<(OrderBy, bool)>)> {
        let mut entries = self.entries(above)?;
        let order = sort_entries(&mut entries, &self.spec.order, &mut self.subs)?;
        Ok((entries, order))
    }

    /// Sorts the buckets below one above, and keeps as many as a shard would tell of.
    fn choose(&mut self, above: u32, cx: &AggregationContext<'_>) -> Result<SelectedBuckets> {
        let (mut entries, order) = self.sort_buckets(above)?;
        let total: u64 = entries.iter().map(|entry| entry.count).sum();
        let found = entries.len();
        let size = self.spec.size;
        let shard_size = self
            .spec
            .shard_size
            .unwrap_or_else(|| {
                // 2015 asked one shard for no more than was wanted.
                let alone = cx.dialect.rules.single_shard_size
                    && cx
                        .views
                        .iter()
                        .all(|view| view.number("index.number_of_shards").unwrap_or(1) < 2);
                if alone {
                    size
                } else {
                    size.saturating_add(size / 2).saturating_add(10)
                }
            })
            .max(size);
        let source = &self.source;
        if self.spec.shard_min_doc_count > 0 {
            entries.retain(|entry| entry.count >= self.spec.shard_min_doc_count);
        }
        if entries.len() > shard_size {
            entries.select_nth_unstable_by(shard_size, |a, b| compare(a, b, &order, |x, y| source.compare(x, y)));
            entries.truncate(shard_size);
        }
        entries.sort_by(|a, b| compare(a, b, &order, |x, y| source.compare(x, y)));
        Ok(SelectedBuckets {
            entries,
            order,
            total,
            found,
            shard_size,
        })
    }

    /// Key and count of a bucket, as every answer begins.
    fn render_entry(&self, entry: &Entry) -> Result<Map<String, Value>> {
        let (key, text) = self.source.key(entry.code)?;
        let mut out = Map::new();
        out.insert("key".into(), key);
        out.extend(text.map(|text| ("key_as_string".to_owned(), text.into())));
        out.insert("doc_count".into(), entry.count.into());
        Ok(out)
    }

    fn rare_values(&mut self, above: u32, most: u64, to: &mut Finish<'_>) -> Result<Value> {
        let mut entries = self.entries(above)?;
        entries.retain(|entry| entry.count <= most);
        entries.sort_by(|a, b| a.count.cmp(&b.count).then_with(|| self.source.compare(a.code, b.code)));
        to.count(entries.len())?;
        let mut list = Vec::with_capacity(entries.len());
        for entry in entries {
            let mut out = self.render_entry(&entry)?;
            self.subs.finish(entry.bucket, &mut out, to)?;
            list.push(Value::Object(out));
        }
        Ok(json!({ "buckets": list }))
    }

    fn significant(&mut self, above: u32, to: &mut Finish<'_>) -> Result<Value> {
        let entries = self.entries(above)?;
        let Some(significant) = &self.significant else {
            return Ok(Value::Null);
        };
        let subset = significant.collected.get(&above).copied().unwrap_or(0);
        let superset = significant.background.docs;
        let least = self.spec.min_doc_count;
        let mut scored: Vec<(f64, u64, Entry)> = Vec::new();
        for entry in entries.into_iter().filter(|entry| entry.count >= least.max(1)) {
            let all = significant.background.of(entry.code);
            let score = significant.measure.score(Frequencies {
                here: entry.count,
                subset,
                all,
                superset,
            })?;
            if score > 0.0 {
                scored.push((score, all, entry));
            }
        }
        // Among equal scores today's servers show the greater term first.
        let lesser_first = to.cx.dialect.rules.significant_ties_by_term;
        scored.sort_by(|a, b| {
            let keys = self.source.compare(a.2.code, b.2.code);
            b.0.total_cmp(&a.0).then(if lesser_first { keys } else { keys.reverse() })
        });
        scored.truncate(self.spec.size);
        to.count(scored.len())?;
        let mut list = Vec::with_capacity(scored.len());
        for (score, all, entry) in scored {
            let mut bucket = self.render_entry(&entry)?;
            bucket.insert("score".into(), json!(score));
            bucket.insert("bg_count".into(), all.into());
            self.subs.finish(entry.bucket, &mut bucket, to)?;
            list.push(Value::Object(bucket));
        }
        let mut out = Map::new();
        out.insert("doc_count".into(), subset.into());
        if !to.cx.dialect.rules.significant_ties_by_term {
            out.insert("bg_count".into(), superset.into());
        }
        out.insert("buckets".into(), Value::Array(list));
        Ok(Value::Object(out))
    }
}

impl Collector for Terms {
    fn segment(&mut self, at: &At<'_>) -> Result<()> {
        self.source.segment(at)?;
        // Codes of strings change when a second dictionary comes, not what they stand for.
        if self.spec.min_doc_count == 0 {
            let all = &mut self.all;
            self.source.all_codes(at, |code| {
                all.insert(code);
            })?;
        }
        if let Some(significant) = &mut self.significant {
            significant.background.add(&mut self.source, at)?;
        }
        if let Some(several) = self.source.is_multivalued() {
            self.segments[usize::from(several)] += 1;
        }
        match &mut self.deferred {
            Some(deferred) => deferred.segments.begin(at),
            None => self.subs.segment(at)?,
        }
        Ok(())
    }

    #[inline]
    fn collect(&mut self, doc: DocId, score: f32, bucket: u32) -> Result<()> {
        let mut codes = std::mem::take(&mut self.codes);
        self.source.codes(doc, score, &mut codes, true)?;
        if let Some(significant) = &mut self.significant {
            *significant.collected.entry(bucket).or_default() += 1;
        }
        let filtered = self.has_filters();
        for code in &codes {
            if filtered && !self.accepts(*code)? {
                continue;
            }
            let own = self.buckets.bucket(bucket, *code)?;
            self.buckets.add(own);
            if let Some(deferred) = &mut self.deferred {
                crate::aggs::check_collected(deferred.docs.len())?;
                deferred.docs.push((deferred.segments.current(), doc, own, score));
            } else if !self.subs.is_empty() {
                self.subs.collect(doc, score, own)?;
            }
        }
        self.codes = codes;
        Ok(())
    }

    fn collect_block(&mut self, block: &Block<'_>) -> Result<()> {
        if self.significant.is_some() {
            return block.each(|doc, score, bucket| self.collect(doc, score, bucket));
        }
        let mut spare = std::mem::take(&mut self.block);
        let done = if self.source.codes_of_block(block, true, &mut spare.codes) {
            self.count_block(block, &mut spare)
        } else {
            self.collect_one_by_one(block, &mut spare)
        };
        self.block = spare;
        done
    }

    fn is_divisible(&self) -> bool {
        self.deferred.is_none() && self.significant.is_none() && self.subs.are_divisible()
    }

    fn absorb(&mut self, other: Box<dyn Collector>, buckets: &[u32]) -> Result<()> {
        let Terms {
            source: theirs,
            buckets: collected,
            subs,
            all,
            ..
        } = same_kind(other)?;
        for code in all {
            self.all.insert(self.source.adopt(&theirs, code)?);
        }
        let own = self
            .buckets
            .absorb(&collected, buckets, |code| self.source.adopt(&theirs, code))?;
        self.subs.absorb(subs, &own)
    }

    fn finish_collecting(&mut self, cx: &AggregationContext<'_>) -> Result<()> {
        if let Some(mut deferred) = self.deferred.take() {
            let above = self.buckets.above();
            let mut wanted = vec![false; self.buckets.len()];
            for above in 0..above {
                let chosen = self.choose(above, cx)?;
                let own = chosen.entries.iter().filter(|entry| entry.bucket != EMPTY);
                own.for_each(|entry| wanted[entry.bucket as usize] = true);
                deferred.chosen.push(Some(chosen));
            }
            let docs = std::mem::take(&mut deferred.docs).into_iter();
            let shown = docs.filter(|(_, _, own, _)| wanted[*own as usize]);
            deferred.segments.show(shown, &mut self.subs, cx)?;
            self.deferred = Some(deferred);
            return Ok(());
        }
        self.subs.finish_collecting(cx)
    }

    fn finish(&mut self, bucket: u32, to: &mut Finish<'_>) -> Result<Value> {
        if self.significant.is_some() {
            return self.significant(bucket, to);
        }
        if let Some(most) = self.rare {
            return self.rare_values(bucket, most, to);
        }
        let chosen = match self
            .deferred
            .as_mut()
            .and_then(|deferred| deferred.chosen.get_mut(bucket as usize))
        {
            Some(chosen) => chosen.take(),
            None => None,
        };
        let SelectedBuckets {
            mut entries,
            order,
            total,
            found,
            shard_size,
        } = match chosen {
            Some(chosen) => chosen,
            None => self.choose(bucket, to.cx)?,
        };
        let size = self.spec.size;
        let mut rejected = 0;
        let least = self.spec.min_doc_count;
        entries.retain(|entry| {
            let enough = entry.count >= least;
            if !enough {
                rejected += entry.count;
            }
            enough
        });
        entries.truncate(size);
        let kept: u64 = entries.iter().map(|entry| entry.count).sum();
        assert!(
            kept + rejected <= total,
            "buckets that are shown count no more documents than all"
        );
        let exact = match order.first() {
            Some((OrderBy::Key, _)) | Some((OrderBy::Count, false)) | None => true,
            _ => found < shard_size,
        };
        let error: i64 = if exact { 0 } else { -1 };
        to.count(entries.len())?;
        let mut list = Vec::with_capacity(entries.len());
        for entry in entries {
            let mut out = self.render_entry(&entry)?;
            if self.spec.show_term_doc_count_error {
                out.insert("doc_count_error_upper_bound".into(), error.into());
            }
            self.subs.finish(entry.bucket, &mut out, to)?;
            list.push(Value::Object(out));
        }
        Ok(json!({
            "doc_count_error_upper_bound": error,
            "sum_other_doc_count": total - kept - rejected,
            "buckets": list,
        }))
    }

    fn order(&mut self, _bucket: u32, _rest: &[&str]) -> Result<f64> {
        Err(super::no_order("terms"))
    }
    fn wants_scores(&self) -> bool {
        self.source.wants_scores()
    }
    fn wire_type(&self) -> &'static str {
        if self.rare.is_some() {
            return match (self.source.mapped, self.source.wire_type()) {
                (false, _) | (true, "sterms") => "srareterms",
                _ => "lrareterms",
            };
        }
        match (&self.significant, self.source.mapped, self.source.wire_type()) {
            (Some(_), _, "sterms") => "sigsterms",
            (Some(_), ..) => "siglterms",
            // A field that no index has gives an empty list of strings.
            (None, false, _) => "sterms",
            (None, true, typed) => typed,
        }
    }
    fn debug(&self) -> Map<String, Value> {
        let mut out = Map::new();
        if self.rare.is_some() || !self.source.mapped {
            return out;
        }
        let mut put = |name: &str, value: Value| drop(out.insert(name.to_owned(), value));
        let strategy = match self.source.class {
            _ if self.significant.is_some() => "significant_terms",
            Class::Str | Class::Ip => "terms",
            Class::Double => "double_terms",
            _ => "long_terms",
        };
        put("result_strategy", strategy.into());
        if self.deferred.is_some() {
            put("deferred_aggregators", json!(self.subs.names()));
        }
        if self.source.is_text() && !self.source.is_scripted() && self.spec.execution_hint.as_deref() != Some("map") {
            let dense = self.buckets.is_dense();
            put("collection_strategy", if dense { "dense" } else { "remap" }.into());
            put("segments_with_single_valued_ords", self.segments[0].into());
            put("segments_with_multi_valued_ords", self.segments[1].into());
            put("has_filter", self.has_filters().into());
        }
        put("total_buckets", self.buckets.len().into());
        out
    }
    fn subs(&self) -> Option<&Subs> {
        Some(&self.subs)
    }
    fn subs_mut(&mut self) -> Option<&mut Subs> {
        Some(&mut self.subs)
    }
}
