//! `children` and `parent`: along a join field (or `_parent` of typed indices), once all documents are known.

use super::{Counts, single, single_order};
use crate::aggs::{At, Collector, Context, Finish, Subs};
use crate::plan::node::broken;
use crate::searchable::{IndexView, SegmentView};
use model::Result;
use rustc_hash::FxHashMap;
use serde_json::Value;
use std::sync::Arc;
use tantivy::DocId;
use tantivy::columnar::StrColumn;

/// The columns that tie children to parents.
struct Ties {
    ids: Option<StrColumn>,
    parents: Option<StrColumn>,
    relations: Option<StrColumn>,
}

impl Ties {
    fn open(view: &IndexView, segment: &SegmentView) -> Result<Ties> {
        let column = |name: &str| segment.reader.fast_fields().str(name).map_err(broken);
        let ids = column("_id")?;
        if view.typed {
            return Ok(Ties {
                ids,
                parents: column("_parent")?,
                relations: column("_type")?,
            });
        }
        let slot = view.mapping.join_field().and_then(|(path, _)| view.schema.slot(path));
        let (relations, parents) = match slot {
            Some(slot) => (slot.column.as_deref(), slot.second.as_ref().map(|(_, name)| name.as_str())),
            None => (None, None),
        };
        let open = |name: Option<&str>| name.map(column).transpose().map(Option::flatten);
        Ok(Ties {
            ids,
            parents: open(parents)?,
            relations: open(relations)?,
        })
    }
    fn text(column: &Option<StrColumn>, doc: DocId) -> Result<Option<String>> {
        let Some(column) = column else { return Ok(None) };
        let Some(ord) = column.term_ords(doc).next() else {
            return Ok(None);
        };
        let mut out = String::new();
        column.ord_to_str(ord, &mut out).map_err(broken)?;
        Ok(Some(out))
    }
    /// The id of a document without its type.
    fn id(&self, view: &IndexView, doc: DocId) -> Result<Option<String>> {
        let id = Ties::text(&self.ids, doc)?;
        Ok(match id {
            Some(uid) if view.typed => Some(uid.split_once('#').map_or(uid.clone(), |(_, id)| id.to_owned())),
            id => id,
        })
    }
}

/// Both directions.
pub(in crate::aggs) struct Join {
    child: String,
    down: bool,
    ties: Option<Ties>,
    view: Option<Arc<IndexView>>,
    /// Buckets by index and the parent's id.
    wanted: FxHashMap<(u32, String), Vec<u32>>,
    segments: Vec<(Arc<IndexView>, Arc<SegmentView>)>,
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
            segments: Vec::new(),
            counts: Counts::default(),
            subs,
        }
    }
}

impl Collector for Join {
    fn segment(&mut self, at: &At<'_>) -> Result<()> {
        self.ties = Some(Ties::open(at.view, at.segment)?);
        self.view = Some(at.view.clone());
        self.segments.push((at.view.clone(), at.segment.clone()));
        Ok(())
    }
    fn collect(&mut self, doc: DocId, _score: f32, bucket: u32) -> Result<()> {
        let (Some(ties), Some(view)) = (&self.ties, &self.view) else {
            return Ok(());
        };
        let parent = if self.down {
            ties.id(view, doc)?
        } else if Ties::text(&ties.relations, doc)?.as_deref() == Some(&self.child) {
            Ties::text(&ties.parents, doc)?
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
    fn collected(&mut self, cx: &Context<'_>) -> Result<()> {
        for (view, segment) in std::mem::take(&mut self.segments) {
            self.subs.segment(&At {
                cx,
                view: &view,
                segment: &segment,
            })?;
            let ties = Ties::open(&view, &segment)?;
            for doc in 0..segment.reader.max_doc() {
                if !segment.is_root(doc) || !segment.is_alive(doc) || segment.is_hidden(doc) {
                    continue;
                }
                let relation = Ties::text(&ties.relations, doc)?;
                let key = match (self.down, relation.as_deref() == Some(&self.child)) {
                    (true, true) => Ties::text(&ties.parents, doc)?,
                    (false, false) => ties.id(&view, doc)?,
                    _ => None,
                };
                let Some(buckets) = key.and_then(|id| self.wanted.get(&(view.no, id))) else {
                    continue;
                };
                for bucket in buckets {
                    self.counts.add(*bucket as usize);
                    self.subs.collect(doc, 1.0, *bucket)?;
                }
            }
        }
        self.subs.collected(cx)
    }
    fn finish(&mut self, bucket: u32, to: &mut Finish<'_>) -> Result<Value> {
        single(self.counts.get(bucket as usize), bucket, &mut self.subs, to)
    }
    fn order(&mut self, bucket: u32, rest: &[&str]) -> Result<f64> {
        single_order(self.counts.get(bucket as usize), bucket, rest, &mut self.subs)
    }
    fn typed(&self) -> &'static str {
        if self.down { "children" } else { "parent" }
    }
    fn subs(&self) -> Option<&Subs> {
        Some(&self.subs)
    }
    fn subs_mut(&mut self) -> Option<&mut Subs> {
        Some(&mut self.subs)
    }
}
