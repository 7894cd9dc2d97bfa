//! `children` and `parent`: along a join field (or `_parent` of typed indices), once all documents are known.

use super::{Counts, single, single_order};
use crate::aggs::{AggregationContext, At, Collector, Finish, Subs};
use crate::scorers::parent_child::Family;
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

/// The keys that tie children to parents in one segment.
struct Ties {
    ids: Option<Keys>,
    parents: Option<Keys>,
    /// The documents of the child relation.
    children: Arc<DocBits>,
}

impl Ties {
    fn open(view: &IndexView, segment: &SegmentView, child: &str) -> Result<Ties> {
        let Some(family) = Family::of(view) else {
            return Ok(Ties {
                ids: None,
                parents: None,
                children: Arc::new(DocBits::new(0)),
            });
        };
        let children = segment.core.once(&format!("relation {child}"), || {
            let mut docs = any_of(segment, &[family.relation_term(child)])?;
            Ok(DocBits::of(segment.reader.max_doc(), docs.as_mut()))
        })?;
        Ok(Ties {
            ids: family.ids(segment)?,
            parents: family.parents(segment)?,
            children,
        })
    }
    /// The key of a document, as a parent or as a child.
    fn key(&self, doc: DocId, as_parent: bool) -> Option<Key> {
        let keys = if as_parent { &self.ids } else { &self.parents };
        keys.as_ref()?.of(doc).map(|(_, key)| key)
    }
}

/// Both directions.
pub(in crate::aggs) struct Join {
    child: String,
    down: bool,
    ties: Option<Ties>,
    view: Option<Arc<IndexView>>,
    /// Buckets by index and the parent's key.
    wanted: FxHashMap<(u32, Key), Vec<u32>>,
    /// The indices of which a document was collected.
    views: Vec<Arc<IndexView>>,
    counts: Counts,
    subs: Subs,
}

impl Join {
    pub(in crate::aggs) fn new(child: &str, down: bool, subs: Subs) -> Join {
        Join {
            child: child.to_owned(),
            down,
            ties: None,
            view: None,
            wanted: FxHashMap::default(),
            views: Vec::new(),
            counts: Counts::default(),
            subs,
        }
    }
}

impl Join {
    /// Collects the documents of a segment that are tied to what was collected.
    fn relatives(&mut self, cx: &AggregationContext<'_>, view: &Arc<IndexView>, segment: &Arc<SegmentView>) -> Result<()> {
        let ties = Ties::open(view, segment, &self.child)?;
        let mut open = false;
        for doc in 0..segment.reader.max_doc() {
            if ties.children.contains(doc) != self.down
                || !segment.is_root(doc)
                || !segment.is_alive(doc)
                || segment.is_hidden(doc)
            {
                continue;
            }
            let key = ties.key(doc, !self.down);
            let Some(buckets) = key.and_then(|key| self.wanted.get(&(view.no, key))) else {
                continue;
            };
            if !open {
                self.subs.segment(&At { cx, view, segment })?;
                open = true;
            }
            for bucket in buckets {
                self.counts.add(*bucket as usize);
                self.subs.collect(doc, 1.0, *bucket)?;
            }
        }
        Ok(())
    }
}

impl Collector for Join {
    fn segment(&mut self, at: &At<'_>) -> Result<()> {
        self.ties = Some(Ties::open(at.view, at.segment, &self.child)?);
        self.view = Some(at.view.clone());
        if self.views.iter().all(|known| known.no != at.view.no) {
            self.views.push(at.view.clone());
        }
        Ok(())
    }
    fn collect(&mut self, doc: DocId, _score: f32, bucket: u32) -> Result<()> {
        let (Some(ties), Some(view)) = (&self.ties, &self.view) else {
            return Ok(());
        };
        let parent = if self.down || ties.children.contains(doc) {
            ties.key(doc, self.down)
        } else {
            None
        };
        if let Some(parent) = parent {
            let buckets = self.wanted.entry((view.no, parent)).or_default();
            if !buckets.contains(&bucket) {
                buckets.push(bucket);
            }
        }
        Ok(())
    }
    fn finish_collecting(&mut self, cx: &AggregationContext<'_>) -> Result<()> {
        // Relatives may be in segments of which no document was collected.
        for view in std::mem::take(&mut self.views) {
            for segment in &view.segments {
                self.relatives(cx, &view, segment)?;
            }
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
