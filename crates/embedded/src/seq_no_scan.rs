//! Matching documents by sequence number: extents, and the next part of one index.
//!
//! A part costs one look at the query's matches in segments that may hold some of it. Not here: what is done with them.

use crate::store::Store;
use dsl::query::Query;
use engine::{Cursor, Extent, Numbered, Part, See};
use model::{Dialect, Result, Target};
use search::clauses::plan;
use search::context::Context;
use search::interrupt::Interrupt;
use segment::searchable::IndexView;
use segment::segment_view::SegmentView;
use segment::stored_document::root_document;
use std::collections::BinaryHeap;
use tantivy::{DocId, TERMINATED};

impl Store {
    /// How much matches in each index, by name.
    pub(crate) fn extents(&self, target: &Target, query: &Query, view: &str, interrupt: &Interrupt) -> Result<Vec<Extent>> {
        let views = self.views_of(target, Some(view))?;
        // As the view has it: by now another index may have the name.
        let catalog = self.views.catalog_of(view).unwrap_or_else(|| self.catalog.now());
        let uuid_of = |no: u32| catalog.by_no(no).map(|entry| entry.uuid.clone()).unwrap_or_default();
        let mut out = self.with_context(See::Plain, Dialect::default(), &target.types, interrupt, |cx| {
            let mut out = Vec::new();
            for (view, filter) in &views {
                let (mut count, mut last) = (0, 0);
                let all = |_: &SegmentView| true;
                each(view, query, filter.as_ref(), cx, &all, &mut |_, seq_no, _| {
                    count += 1;
                    last = seq_no.max(last);
                })?;
                if count > 0 {
                    out.push(Extent {
                        index: view.name.clone(),
                        uuid: uuid_of(view.no),
                        count,
                        last: Cursor::of_one_shard(last),
                    });
                }
            }
            Ok(out)
        })?;
        out.sort_by(|a, b| a.index.cmp(&b.index));
        Ok(out)
    }

    /// The next documents of one index.
    pub(crate) fn scan_by_seq_no(
        &self,
        target: &Target,
        query: &Query,
        view: &str,
        part: &Part,
        interrupt: &Interrupt,
    ) -> Result<Vec<Numbered>> {
        let views = self.views_of(target, Some(view))?;
        let Some((view, filter)) = views.into_iter().find(|(view, _)| view.name == part.index) else {
            return Ok(Vec::new());
        };
        let mut smallest: BinaryHeap<(u64, usize, DocId)> = BinaryHeap::new();
        self.with_context(See::Plain, Dialect::default(), &target.types, interrupt, |cx| {
            let cx = &Context {
                now_ms: part.now_ms,
                ..cx.detach()
            };
            let may_hold = |segment: &SegmentView| {
                let column = segment.core.seq_no();
                // An index is one shard here.
                let bound = |cursor: &Option<Cursor>| cursor.as_ref().map(|cursor| cursor.seq_no(0));
                bound(&part.after).is_none_or(|after| Some(column.max_value()) > after)
                    && bound(&part.upto).is_none_or(|upto| Some(column.min_value()) <= upto)
            };
            each(&view, query, filter.as_ref(), cx, &may_hold, &mut |segment, seq_no, doc| {
                if !part.holds(0, seq_no) {
                    return;
                }
                if smallest.len() >= part.docs_max {
                    match smallest.peek() {
                        Some(greatest) if greatest.0 > seq_no => drop(smallest.pop()),
                        _ => return,
                    }
                }
                smallest.push((seq_no, segment, doc));
            })
        })?;
        assert!(
            smallest.len() <= part.docs_max,
            "a part has no more documents than are asked for"
        );
        let smallest = smallest.into_sorted_vec();
        debug_assert!(
            smallest.is_sorted_by(|one, next| one.0 < next.0 || next.0 == model::SeqNo::MAX),
            "write-path.md 1.1: a sequence number is that of one document of an index, unless it is staged: {smallest:?}"
        );
        let mut out = Vec::with_capacity(smallest.len());
        let mut bytes = 0;
        for (_, segment, doc) in smallest {
            if bytes >= part.bytes_max {
                break;
            }
            interrupt.check_run()?;
            let document = root_document(&view, &view.segments[segment], doc)?;
            bytes += document.source.0.len();
            out.push(Numbered::of_one_shard(document));
        }
        Ok(out)
    }
}

/// Documents between two looks at the clock: some microseconds for a term, some milliseconds for a phrase.
const SEEN_BETWEEN: u64 = 1 << 12;

/// Every document that matches and plain readers see: its segment, its sequence number, itself.
fn each(
    view: &IndexView,
    query: &Query,
    filter: Option<&Query>,
    cx: &Context<'_>,
    may_hold: &dyn Fn(&SegmentView) -> bool,
    f: &mut dyn FnMut(usize, u64, DocId),
) -> Result<()> {
    let planned = plan(view, Some(query), filter, cx)?;
    for (no, segment) in view.segments.iter().enumerate().filter(|(_, segment)| may_hold(segment)) {
        cx.check_cancelled()?;
        let column = segment.core.seq_no();
        let mut set = planned.scorer(segment)?;
        let mut seen = 0_u64;
        while set.doc() != TERMINATED {
            let doc = set.doc();
            if !segment.is_hidden(doc) {
                f(no, column.first(doc).unwrap_or(0), doc);
            }
            seen += 1;
            if seen.is_multiple_of(SEEN_BETWEEN) {
                cx.check_cancelled()?;
            }
            set.advance();
        }
    }
    planned.check()
}
