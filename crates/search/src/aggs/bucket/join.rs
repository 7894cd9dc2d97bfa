//! `children` and `parent`: along a join field (or `_parent` of typed indices), once all documents are known.

use super::{Counts, single, single_order};
use crate::aggs::blocks::Block;
use crate::aggs::{AggregationContext, At, Collector, Finish, Subs};
use crate::scorers::fill::BLOCK_DOCS;
use crate::scorers::parent_child::Family;
use crate::scorers::parent_child_ordinals::ParentChildOrdinals;
use crate::scorers::term_set::any_of;
use model::Result;
use rustc_hash::FxHashMap;
use segment::doc_bits::DocBits;
use segment::key_columns::{Key, Keys};
use segment::searchable::IndexView;
use segment::segment_view::SegmentView;
use serde_json::Value;
use std::sync::Arc;
use tantivy::DocId;

/// Does any of the indices have such children?
pub(in crate::aggs) fn is_child(name: &str, cx: &AggregationContext<'_>) -> bool {
    let known = |view: &Arc<IndexView>| Family::of(view).is_some_and(|family| family.parent_of(name).is_some());
    // A name that is no relation has no documents; Elasticsearch 2 refuses one that is only a parent.
    let parent = |view: &Arc<IndexView>| Family::of(view).is_some_and(|family| family.knows(name));
    !cx.dialect.rules.children_need_child_type || cx.views.iter().any(known) || !cx.views.iter().any(parent)
}

/// A document and the bucket that it falls into.
type Pair = (DocId, u32);

/// Both directions.
pub(in crate::aggs) struct Join {
    child: String,
    down: bool,
    /// The documents that were collected, by segments; the last segment is the one that is collected.
    collected: Vec<CollectedDocs>,
    counts: Counts,
    subs: Subs,
}

/// The documents of a segment that were collected, in their order, each with its bucket.
struct CollectedDocs {
    view: Arc<IndexView>,
    segment: u64,
    pairs: Vec<Pair>,
}

/// A segment with its families.
struct FamilySide<'a> {
    segment: &'a Arc<SegmentView>,
    families: Arc<ParentChildOrdinals>,
    /// The documents of the child relation.
    children: Arc<DocBits>,
    ids: Option<Keys>,
    parents: Option<Keys>,
    collected: Vec<Pair>,
    /// The relatives of what was collected in any segment.
    found: Vec<Pair>,
}

impl<'a> FamilySide<'a> {
    fn open(segment: &'a Arc<SegmentView>, family: &Family, child: &str, collected: Vec<Pair>) -> Result<FamilySide<'a>> {
        let children = segment.core.once(&format!("relation {child}"), || {
            let mut docs = any_of(segment, &[family.relation_term(child)])?;
            Ok(DocBits::of(segment.reader.max_doc(), docs.as_mut()))
        })?;
        Ok(FamilySide {
            families: ParentChildOrdinals::of(segment, family, family.parent_of(child).unwrap_or_default())?,
            children,
            ids: family.ids(segment)?,
            parents: family.parents(segment)?,
            segment,
            collected,
            found: Vec::new(),
        })
    }

    /// Whether a document is a child of the relation that readers see.
    fn shows_child(&self, doc: DocId) -> bool {
        self.children.contains(doc) && self.segment.is_shown(doc)
    }

    fn key_of_parent(&self, child: DocId) -> Option<Key> {
        self.parents.as_ref()?.of(child).map(|(_, key)| key)
    }

    fn own_key(&self, doc: DocId) -> Option<Key> {
        self.ids.as_ref()?.of(doc).map(|(_, key)| key)
    }
}

/// The buckets of what was collected, by the key of the parent.
#[derive(Default)]
struct BucketsByKey(FxHashMap<Key, Vec<u32>>);

impl BucketsByKey {
    fn add(&mut self, key: Key, bucket: u32) {
        let buckets = self.0.entry(key).or_default();
        if !buckets.contains(&bucket) {
            buckets.push(bucket);
        }
    }

    fn pairs(&self, doc: DocId, key: Option<Key>) -> impl Iterator<Item = Pair> {
        let buckets = key.and_then(|key| self.0.get(&key));
        buckets.into_iter().flatten().map(move |bucket| (doc, *bucket))
    }
}

/// Finds the children of what was collected. Those of parents in their own segment are listed there.
fn find_children(sides: &mut [FamilySide<'_>]) {
    let mut apart: Vec<(usize, Vec<DocId>)> = Vec::new();
    for (at, side) in sides.iter_mut().enumerate() {
        for (parent, bucket) in &side.collected {
            let children = side.families.children(*parent).iter();
            side.found.extend(children.map(|child| (*child, *bucket)));
        }
        let mut orphans = side.families.orphans_of(side.segment);
        orphans.retain(|child| side.shows_child(*child));
        if !orphans.is_empty() {
            apart.push((at, orphans));
        }
    }
    if apart.is_empty() {
        return;
    }
    // The keys of the fewer ones are kept, and those of the others looked for among them.
    let orphans: usize = apart.iter().map(|(_, orphans)| orphans.len()).sum();
    let collected: usize = sides.iter().map(|side| side.collected.len()).sum();
    if collected <= orphans {
        let mut wanted = BucketsByKey::default();
        for side in &*sides {
            let keys = side
                .collected
                .iter()
                .filter_map(|(doc, bucket)| Some((side.own_key(*doc)?, *bucket)));
            keys.for_each(|(key, bucket)| wanted.add(key, bucket));
        }
        for (at, orphans) in apart {
            let side = &mut sides[at];
            for child in orphans {
                let pairs = wanted.pairs(child, side.key_of_parent(child));
                side.found.extend(pairs);
            }
        }
        return;
    }
    let mut by_parent: FxHashMap<Key, Vec<(usize, DocId)>> = FxHashMap::default();
    for (at, orphans) in apart {
        for child in orphans {
            if let Some(key) = sides[at].key_of_parent(child) {
                by_parent.entry(key).or_default().push((at, child));
            }
        }
    }
    for at in 0..sides.len() {
        for (parent, bucket) in std::mem::take(&mut sides[at].collected) {
            let children = sides[at].own_key(parent).and_then(|key| by_parent.get(&key));
            for (at, child) in children.into_iter().flatten() {
                sides[*at].found.push((*child, bucket));
            }
        }
    }
}

/// Finds the parents of what was collected. Those in other segments than their children are found by keys.
fn find_parents(sides: &mut [FamilySide<'_>]) {
    let mut wanted = BucketsByKey::default();
    for side in &mut *sides {
        for (child, bucket) in &side.collected {
            match side.families.parent(*child) {
                _ if !side.children.contains(*child) => {}
                Some(parent) if side.segment.is_shown(parent) => side.found.push((parent, *bucket)),
                _ => side
                    .key_of_parent(*child)
                    .into_iter()
                    .for_each(|key| wanted.add(key, *bucket)),
            }
        }
    }
    if wanted.0.is_empty() {
        return;
    }
    for side in sides {
        for doc in (0..side.segment.reader.max_doc()).filter(|doc| !side.children.contains(*doc)) {
            if side.segment.is_shown(doc) {
                side.found.extend(wanted.pairs(doc, side.own_key(doc)));
            }
        }
    }
}

impl Join {
    pub(in crate::aggs) fn new(child: &str, down: bool, subs: Subs) -> Join {
        Join {
            child: child.to_owned(),
            down,
            collected: Vec::new(),
            counts: Counts::default(),
            subs,
        }
    }

    /// Collects the documents of an index that are tied to what was collected of it.
    fn collect_relatives(
        &mut self,
        cx: &AggregationContext<'_>,
        view: &Arc<IndexView>,
        mut pairs: FxHashMap<u64, Vec<Pair>>,
    ) -> Result<()> {
        let Some(family) = Family::of(view) else { return Ok(()) };
        let mut sides = Vec::with_capacity(view.segments.len());
        for segment in &view.segments {
            cx.plan.check_cancelled()?;
            let collected = pairs.remove(&segment.id).unwrap_or_default();
            sides.push(FamilySide::open(segment, &family, &self.child, collected)?);
        }
        debug_assert!(pairs.is_empty(), "what was collected is of segments of the index");
        match self.down {
            true => find_children(&mut sides),
            false => find_parents(&mut sides),
        }
        for mut side in sides {
            let mut found = std::mem::take(&mut side.found);
            found.retain(|(doc, _)| side.children.contains(*doc) == self.down && side.segment.is_shown(*doc));
            // Relatives may be in segments of which no document was collected, and are in no order.
            found.sort_unstable();
            found.dedup();
            if found.is_empty() {
                continue;
            }
            self.subs.segment(&At {
                cx,
                view,
                segment: side.segment,
            })?;
            let scores = [1.0; BLOCK_DOCS];
            for part in found.chunks(BLOCK_DOCS) {
                cx.plan.check_cancelled()?;
                let (docs, buckets): (Vec<DocId>, Vec<u32>) = part.iter().copied().unzip();
                buckets.iter().for_each(|bucket| self.counts.add(*bucket as usize));
                self.subs
                    .collect_block(&Block::among(&docs, &scores[..docs.len()], &buckets))?;
            }
        }
        Ok(())
    }
}

impl Collector for Join {
    fn segment(&mut self, at: &At<'_>) -> Result<()> {
        self.collected.push(CollectedDocs {
            view: at.view.clone(),
            segment: at.segment.id,
            pairs: Vec::new(),
        });
        Ok(())
    }
    fn collect(&mut self, doc: DocId, _score: f32, bucket: u32) -> Result<()> {
        if let Some(collected) = self.collected.last_mut() {
            collected.pairs.push((doc, bucket));
        }
        Ok(())
    }
    fn collect_block(&mut self, block: &Block<'_>) -> Result<()> {
        block.each(|doc, score, bucket| self.collect(doc, score, bucket))
    }
    fn finish_collecting(&mut self, cx: &AggregationContext<'_>) -> Result<()> {
        let mut by_view: Vec<(Arc<IndexView>, FxHashMap<u64, Vec<Pair>>)> = Vec::new();
        for CollectedDocs { view, segment, pairs } in std::mem::take(&mut self.collected) {
            let place = by_view.iter().position(|(known, _)| known.no == view.no);
            let place = place.unwrap_or_else(|| {
                by_view.push((view, FxHashMap::default()));
                by_view.len() - 1
            });
            by_view[place].1.entry(segment).or_default().extend(pairs);
        }
        for (view, pairs) in by_view {
            self.collect_relatives(cx, &view, pairs)?;
        }
        self.subs.finish_collecting(cx)
    }
    fn finish(&mut self, bucket: u32, to: &mut Finish<'_>) -> Result<Value> {
        single(self.counts.get(bucket as usize), bucket, &mut self.subs, to)
    }
    fn order(&mut self, bucket: u32, rest: &[&str]) -> Result<f64> {
        single_order(self.counts.get(bucket as usize), bucket, rest, &mut self.subs)
    }
    fn wire_type(&self) -> &'static str {
        if self.down { "children" } else { "parent" }
    }
    fn subs(&self) -> Option<&Subs> {
        Some(&self.subs)
    }
    fn subs_mut(&mut self) -> Option<&mut Subs> {
        Some(&mut self.subs)
    }
}
