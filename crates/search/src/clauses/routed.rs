//! The documents in the shards that routings lead to. There is one shard; which of those that an index reports a document
//! would be in is worked out from its routing, or its id.
//!
//! Not here: reads of single documents, which compare the routing they find (`rest`).

use super::Planner;
use crate::scorers::filter::FilterNode;
use crate::scorers::node::Shared;
use crate::scorers::rescored::rescore;
use dsl::query::{Clause, Query};
use model::routing::shard_of;
use model::{DocId, Result};
use segment::error::broken;
use segment::searchable::IndexView;
use segment::segment_view::SegmentView;
use std::collections::BTreeSet;
use std::sync::Arc;
use tantivy::query::Scorer;
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{DocSet as _, TERMINATED};

/// How many shards an index reports.
fn shards(view: &IndexView) -> u64 {
    let reported = view.number("index.number_of_shards").unwrap_or(1);
    u64::try_from(reported).unwrap_or(1).max(1)
}

/// How many of the shards of an index a search with these queries asks.
pub(crate) fn shard_count<'q>(view: &IndexView, queries: impl IntoIterator<Item = &'q Query>) -> u32 {
    let all = shards(view);
    let mut left: Option<BTreeSet<u64>> = None;
    for query in queries {
        query.visit(&mut |query| {
            if let Clause::Routed { routings } = &query.clause {
                let here: BTreeSet<u64> = routings.iter().map(|routing| shard_of(routing, all)).collect();
                left = Some(match left.take() {
                    Some(before) => before.intersection(&here).copied().collect(),
                    None => here,
                });
            }
        });
    }
    u32::try_from(left.map_or(all, |set| set.len() as u64)).unwrap_or(u32::MAX)
}

/// The shard of each document of a segment.
///
/// # Errors
/// Unreadable files.
fn shard_of_each(routing: Field, typed: bool, segment: &SegmentView, all: u64) -> Result<Vec<u32>> {
    let number = |routing: &str| u32::try_from(shard_of(routing, all)).unwrap_or(0);
    let mut out = vec![0; segment.reader.max_doc() as usize];
    if let Some(ids) = segment.reader.fast_fields().str("_id").map_err(broken)? {
        let mut text = String::new();
        for (doc, shard) in (0..).zip(&mut out) {
            let Some(ord) = ids.term_ords(doc).next() else { continue };
            text.clear();
            ids.ord_to_str(ord, &mut text).map_err(broken)?;
            *shard = number(&DocId::from_uid(&text, typed).id);
        }
    }
    let inverted = segment.reader.inverted_index(routing).map_err(broken)?;
    let mut terms = inverted.terms().stream().map_err(broken)?;
    while terms.advance() {
        let shard = number(&String::from_utf8_lossy(terms.key()));
        let read = inverted.read_postings_from_terminfo(terms.value(), IndexRecordOption::Basic);
        let mut docs = read.map_err(broken)?;
        let mut doc = docs.doc();
        while doc != TERMINATED {
            if let Some(of) = out.get_mut(doc as usize) {
                *of = shard;
            }
            doc = docs.advance();
        }
    }
    Ok(out)
}

impl Planner<'_> {
    /// The documents in the shards that these routings lead to.
    pub(super) fn routing(&self, routings: &[String], boost: f32) -> Shared {
        let all = shards(self.view);
        let wanted: Vec<u32> = routings
            .iter()
            .map(|routing| u32::try_from(shard_of(routing, all)).unwrap_or(0))
            .collect();
        let (routing, typed, level) = (self.view.schema.routing, self.view.typed, self.level());
        Arc::new(FilterNode {
            boost,
            what: format!("routed by {routings:?}"),
            docs: move |segment: &SegmentView| -> Result<Box<dyn Scorer>> {
                let set = level.restrict(segment, crate::scorers::constant::every(segment))?;
                if all < 2 {
                    return Ok(set);
                }
                let shards = segment
                    .core
                    .once(&format!("shards of {all}"), || shard_of_each(routing, typed, segment, all))?;
                let wanted = wanted.clone();
                Ok(rescore(set, move |doc, _| {
                    let shard = shards.get(doc as usize);
                    shard.is_some_and(|shard| wanted.contains(shard)).then_some(1.0)
                }))
            },
        })
    }
}
