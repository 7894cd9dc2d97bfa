//! The views of readers from whom documents or fields are withheld: one index with the documents live that the reader sees, and
//! the mapping of the fields that are granted (docs/internals/security.md, S6).
//!
//! Every reader of a view honours live documents and the mapping, so nothing else has to know of rights. The views of one
//! moment are kept with it, by what is withheld. Not here: whose rights they are (`security`), which names they follow from
//! (`catalog::resolve`).

use crate::catalog::alias_filter::parse;
use crate::publish::alive_set;
use crate::store::Store;
use dsl::query::{BoolQuery, Clause, Query};
use engine::See;
use model::{Dialect, DocumentRights, Error, ErrorKind, Result};
use search::interrupt::Interrupt;
use segment::derived::Footprint;
use segment::directory;
use segment::searchable::IndexView;
use segment::segment_view::{self, SegmentView};
use std::sync::Arc;
use tantivy::schema::IndexRecordOption;
use tantivy::{BitSet, DocSet as _, TERMINATED, Term};

/// The restricted view that is kept with a view.
struct Restricted {
    view: Arc<IndexView>,
    bytes: usize,
}

impl Footprint for Restricted {
    fn heap_bytes(&self) -> usize {
        self.bytes
    }
}

impl Store {
    /// The view with nothing in it that is withheld.
    ///
    /// # Errors
    /// A query of a role that cannot be read, or that joins; unreadable files.
    pub(crate) fn restricted_view(&self, view: &Arc<IndexView>, seen: &DocumentRights) -> Result<Arc<IndexView>> {
        debug_assert!(!view.is_restricted(), "security.md S6: a view is restricted once");
        // Queries with `now` are evaluated anew each second.
        let by_clock = seen.queries.iter().flatten().any(|query| query.contains("now"));
        let second = if by_clock { self.env.wall_ms() / 1000 } else { 0 };
        let name = format!("seen {second} {seen:?}");
        let kept = view.once(&name, || self.restrict(view, seen))?;
        assert!(
            kept.view.is_restricted() && kept.view.no == view.no && kept.view.segments.iter().all(|segment| segment.is_part()),
            "security.md S6: what is withheld is not in it"
        );
        Ok(kept.view.clone())
    }

    fn restrict(&self, view: &IndexView, seen: &DocumentRights) -> Result<Restricted> {
        let segments = match seen.queries.is_empty() {
            true => view.segments.clone(),
            false => self.seen_segments(view, &query_of(view, seen)?)?,
        };
        let withheld: Vec<&str> = view
            .mapping
            .nested_paths()
            .filter(|path| !seen.fields.reaches_into(path))
            .collect();
        let part = |segment: &Arc<SegmentView>| Ok(segment.with_part_withheld(nested_of(view, segment, &withheld)?));
        let segments = segments.iter().map(part).collect::<Result<Vec<_>>>()?;
        let bytes = segments
            .iter()
            .map(|segment| segment.reader.max_doc() as usize / 4 + 256)
            .sum();
        let view = Arc::new(view.restrict_to(segments, &seen.fields)?);
        Ok(Restricted { view, bytes })
    }

    /// The segments with those documents live that match, each with its nested ones (search.md S7).
    fn seen_segments(&self, view: &IndexView, query: &Query) -> Result<Vec<Arc<SegmentView>>> {
        let empty = |segment: &Arc<SegmentView>| BitSet::with_max_value(segment.reader.max_doc());
        let mut sets: Vec<BitSet> = view.segments.iter().map(empty).collect();
        self.with_context(See::Everything, Dialect::default(), &[], &Interrupt::default(), |cx| {
            search::scan(view, Some(query), None, cx, (0, 0), &mut |no, doc| {
                let (segment, set) = (&view.segments[no], &mut sets[no]);
                if segment.is_alive(doc) && segment.is_root(doc) {
                    let _ = set.insert(doc);
                    let nested = (0..doc).rev().take_while(|doc| !segment.is_root(*doc));
                    nested.for_each(|doc| {
                        set.insert(doc);
                    });
                }
                Ok(true)
            })
        })?;
        let all: Vec<_> = view.segments.iter().map(|segment| segment.data.clone()).collect();
        let (handle, _) = directory::handle(&view.schema, None, &all)?;
        let account = &self.caches.of_index(view.no).derived;
        let opened = std::iter::zip(&view.segments, &sets).map(|(segment, set)| {
            let (core, alive) = (Some(segment.core.clone()), Some(alive_set(set)));
            segment_view::open(&view.schema, &handle, &segment.data, alive, core, account)
        });
        opened.collect()
    }
}

/// The nested documents of some paths; `None`: no path is given.
fn nested_of(view: &IndexView, segment: &SegmentView, paths: &[&str]) -> Result<Option<BitSet>> {
    if paths.is_empty() {
        return Ok(None);
    }
    let mut nested = BitSet::with_max_value(segment.reader.max_doc());
    for path in paths {
        let term = Term::from_field_text(view.schema.nested_path, path);
        let Some(mut list) = segment_view::postings(segment, &term, IndexRecordOption::Basic)? else {
            continue;
        };
        while list.doc() != TERMINATED {
            nested.insert(list.doc());
            list.advance();
        }
    }
    Ok(Some(nested))
}

/// The query that a document must match.
fn query_of(view: &IndexView, seen: &DocumentRights) -> Result<Query> {
    let mut filter = Vec::with_capacity(seen.queries.len());
    for any_of in &seen.queries {
        let parsed = any_of.iter().map(|text| {
            let refused = |cause: &str| {
                let reason = format!("the query [{text}] of a role cannot be read: {cause}");
                Error::new(ErrorKind::Security, reason)
            };
            let value = serde_json::from_str(text).map_err(|cause| refused(&cause.to_string()))?;
            let query = parse(&value, view.typed).map_err(|cause| refused(cause.reason()))?;
            match engine::joins::has_joins(&query) {
                true => Err(refused("it joins or looks terms up")),
                false => Ok(query),
            }
        });
        let should: Vec<Query> = parsed.collect::<Result<_>>()?;
        // No alternative is nothing.
        filter.push(match should.is_empty() {
            true => Clause::MatchNone.into(),
            false => Clause::Bool(BoolQuery {
                should,
                ..BoolQuery::default()
            })
            .into(),
        });
    }
    let all = BoolQuery {
        filter,
        ..BoolQuery::default()
    };
    Ok(Clause::Bool(all).into())
}
