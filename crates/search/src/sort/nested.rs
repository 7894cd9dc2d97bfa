//! Which nested documents a sort key looks into: `nested` with its path, filter and `max_children`, level by level.
//!
//! Not here: their values (`sort`).

use crate::clauses::nested::no_nested;
use crate::context::Context;
use crate::fields::target::query_shard;
use crate::scorers::nested::enclosing;
use crate::scorers::planned::Part;
use dsl::search::{FieldSort, NestedSort};
use model::Result;
use segment::doc_bits::DocBits;
use segment::searchable::IndexView;
use segment::segment_view::SegmentView;
use std::sync::Arc;
use tantivy::{DocId, DocSet, TERMINATED};

/// The levels from the sorted documents inwards; at least one.
pub(crate) struct Levels {
    levels: Vec<(String, Option<Part>)>,
    scope: Option<String>,
    most: u32,
}

impl Levels {
    /// The levels of a field that documents of `scope` are sorted by; `None` if it is their own. `path` is the field's own.
    ///
    /// # Errors
    /// Paths that are not nested; no `nested` where it is needed.
    pub(crate) fn of(
        view: &IndexView,
        field: &FieldSort,
        path: &str,
        scope: Option<&str>,
        cx: &Context<'_>,
    ) -> Result<Option<Levels>> {
        let inside = view.mapping.nested_path_of(path);
        let Some(nested) = &field.nested else {
            let lost = inside.filter(|inside| scope != Some(inside) && !is_stored_at(view, inside, scope));
            // OpenSearch and Elasticsearch 7, as 2015, sort by what the document has itself: nothing.
            if lost.is_some() && !view.rules().tolerates_sort_options && !cx.lost_sorts {
                let reason = format!("it is mandatory to set the [nested] context on the nested sort field: [{path}].");
                return Err(query_shard(view, reason));
            }
            return Ok(None);
        };
        Levels::along(view, nested, inside, scope, cx).map(Some)
    }

    /// As [`Levels::of`], where no one field is sorted by: scripts, distances.
    ///
    /// # Errors
    /// Paths that are not nested.
    pub(crate) fn of_path(
        view: &IndexView,
        nested: Option<&NestedSort>,
        scope: Option<&str>,
        cx: &Context<'_>,
    ) -> Result<Option<Levels>> {
        nested.map(|nested| Levels::along(view, nested, None, scope, cx)).transpose()
    }

    fn along(
        view: &IndexView,
        nested: &NestedSort,
        inside: Option<&str>,
        scope: Option<&str>,
        cx: &Context<'_>,
    ) -> Result<Levels> {
        let mut levels = Vec::new();
        let mut level: Option<&NestedSort> = Some(nested);
        while let Some(one) = level {
            // A level without a path is that of the objects that the field is in.
            let path = if one.path.is_empty() {
                inside.unwrap_or_default()
            } else {
                &one.path
            };
            check_path(view, path)?;
            let filter = one.filter.as_ref();
            let filter = filter
                .map(|q| crate::clauses::filter_part(view, q, cx, Some(path)))
                .transpose()?;
            levels.push((path.to_owned(), filter));
            level = one.nested.as_deref();
        }
        debug_assert!(!levels.is_empty(), "a nested sort has at least its own level");
        Ok(Levels {
            levels,
            scope: scope.map(str::to_owned),
            most: nested.max_children.unwrap_or(u32::MAX),
        })
    }

    /// The documents in a segment.
    ///
    /// # Errors
    /// Unreadable files.
    pub(crate) fn open(&self, view: &IndexView, segment: &SegmentView) -> Result<Children> {
        let parents = enclosing(segment, &view.schema, self.scope.as_deref())?;
        // The level above: all of its documents, and those that count.
        let mut wanted: Option<(Arc<DocBits>, Arc<DocBits>)> = None;
        for (path, filter) in &self.levels {
            let all = enclosing(segment, &view.schema, Some(path))?;
            wanted = Some(match (filter, wanted) {
                (None, None) => (all.clone(), all),
                // Each document of the level above counts, so each of this one does.
                (None, Some((around, wanted))) if Arc::ptr_eq(&around, &wanted) => (all.clone(), all),
                (filter, above) => {
                    let mut bits = DocBits::new(segment.reader.max_doc());
                    let mut keep = |doc: DocId| {
                        // The next wanted document of the level above is the one around, if it is the next of all.
                        if all.contains(doc)
                            && above
                                .as_ref()
                                .is_none_or(|(around, wanted)| around.next(doc) == wanted.next(doc))
                        {
                            bits.insert(doc);
                        }
                    };
                    match filter {
                        Some(filter) => {
                            let mut set = filter.node.scorer(segment)?;
                            while set.doc() != TERMINATED {
                                keep(set.doc());
                                set.advance();
                            }
                            filter.check()?;
                        }
                        None => {
                            let mut doc = all.next(0);
                            while doc != TERMINATED {
                                keep(doc);
                                doc = all.next(doc + 1);
                            }
                        }
                    }
                    (all, Arc::new(bits))
                }
            });
        }
        Ok(Children {
            parents,
            wanted: wanted.map_or_else(|| Arc::new(DocBits::new(0)), |(_, wanted)| wanted),
            most: self.most,
        })
    }
}

/// The nested documents of a segment that count.
#[derive(Clone)]
pub(crate) struct Children {
    parents: Arc<DocBits>,
    wanted: Arc<DocBits>,
    most: u32,
}

impl Children {
    /// The nested documents of a document, in order.
    pub(crate) fn list(&self, doc: DocId) -> Vec<DocId> {
        let mut out = Vec::new();
        self.of(doc, |child| {
            out.push(child);
            true
        });
        out
    }

    /// Calls `f` with the nested documents of a document, in order; it says whether one has a value and so counts towards `max_children`.
    pub(crate) fn of(&self, doc: DocId, mut f: impl FnMut(DocId) -> bool) {
        let first = self.parents.before(doc).map_or(0, |before| before + 1);
        let mut child = self.wanted.next(first);
        let mut count = 0;
        while child < doc && count < self.most {
            count += u32::from(f(child));
            child = self.wanted.next(child + 1);
        }
    }
}

/// Whether values of nested objects are values of the documents of `scope` too.
fn is_stored_at(view: &IndexView, inside: &str, scope: Option<&str>) -> bool {
    scope.is_none() && view.mapping.object(inside).is_some_and(|object| object.include_in_root)
}

fn check_path(view: &IndexView, path: &str) -> Result<()> {
    if view.mapping.is_nested(path) {
        return Ok(());
    }
    Err(query_shard(view, no_nested(view, path)))
}
