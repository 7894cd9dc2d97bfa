//! The members of collapsed groups: `inner_hits` of `collapse`.
//!
//! One more pass over what matches serves all groups of the page and all of their inner hits.
//!
//! Not here: choosing the best of each group (`collect`), inner hits of clauses (`inner_hits`).

use super::collect::{Best, Order, Ranked};
use super::fetch::{Fetch, Shelf};
use super::inner_hits::{by_score, check_window};
use super::sort::{Key, Plan, Reader};
use super::{Searched, collapse_key};
use crate::plan::combine::seek_to;
use crate::plan::{Context, Planned};
use dsl::search::{Collapse, Hit, Hits, InnerHits, SearchRequest, Sort, Total};
use model::Result;
use std::collections::HashMap;
use tantivy::{DocSet, TERMINATED};

/// A group of hits; what has no value is a group of its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Group {
    None,
    Int(i64),
    Bits(u64),
    Text(std::sync::Arc<str>),
}

impl Group {
    /// By the key of the collapsing field.
    pub(super) fn of(key: &Key) -> Group {
        match key {
            Key::None { .. } => Group::None,
            Key::Int(n) => Group::Int(*n),
            Key::Float(n) => Group::Bits(n.to_bits()),
            Key::Score(n) => Group::Bits(f64::from(*n).to_bits()),
            Key::Text(text) => Group::Text(text.clone()),
        }
    }
}

/// One index of a search, compiled.
pub(super) struct Compiled<'a> {
    pub(super) planned: &'a Planned,
    pub(super) post_filter: Option<&'a Planned>,
    pub(super) collapse: &'a Plan,
}

/// One `inner_hits` in one index.
struct Parts<'a> {
    sort: Vec<Plan>,
    inner: Option<Plan>,
    fetch: Fetch<'a>,
}

struct Spec<'a> {
    of: &'a InnerHits,
    request: SearchRequest,
    sort: &'a [Sort],
    order: Order,
}

#[derive(Default, Clone, Copy)]
struct Found {
    count: u64,
    max_score: Option<f32>,
}

/// Adds inner hits to the hits of a page; `groups` has the group of each.
///
/// # Errors
/// What the inner hits get wrong; unreadable files.
pub(super) fn expand(
    views: &[Searched],
    compiled: &[Compiled<'_>],
    request: &SearchRequest,
    collapse: &Collapse,
    groups: &[Group],
    hits: &mut [Hit],
    cx: &Context<'_>,
) -> Result<()> {
    let specs: Vec<Spec<'_>> = collapse.inner_hits.iter().map(|of| Spec::new(of, request)).collect();
    if specs.is_empty() || groups.is_empty() {
        return Ok(());
    }
    let slots: HashMap<&Group, usize> = groups.iter().enumerate().map(|(at, group)| (group, at)).collect();
    let mut parts: Vec<Vec<Parts<'_>>> = Vec::with_capacity(views.len());
    for (view, _) in views {
        let mut of_view = Vec::with_capacity(specs.len());
        for spec in &specs {
            check_window(view, spec.name(), &spec.request)?;
            of_view.push(Parts {
                sort: spec.sort.iter().map(|s| Plan::new(view, s, cx)).collect::<Result<_>>()?,
                inner: spec
                    .of
                    .collapse
                    .as_deref()
                    .map(|field| collapse_key(view, field, cx))
                    .transpose()?,
                fetch: Fetch::new(view, &spec.request, cx)?,
            });
        }
        parts.push(of_view);
    }
    let mut best: Vec<Vec<Best<'_>>> = specs
        .iter()
        .map(|spec| {
            let window = spec.request.from.saturating_add(spec.request.size);
            groups.iter().map(|_| Best::new(&spec.order, window)).collect()
        })
        .collect();
    let mut found = vec![Found::default(); groups.len()];
    let scores = request.min_score.is_some() || specs.iter().any(Spec::needs_scores);
    for (no, (((view, _), compiled), parts)) in views.iter().zip(compiled).zip(&parts).enumerate() {
        let boost = super::index_boost(request, view);
        let mut base = 0u64;
        for (segment_no, segment) in view.segments.iter().enumerate() {
            cx.check_cancelled()?;
            let first = base;
            base += u64::from(segment.reader.max_doc());
            let mut set = compiled.planned.scorer(segment)?;
            let mut filter = compiled.post_filter.map(|p| p.scorer(segment)).transpose()?;
            let group_of = compiled.collapse.open(view, segment, first)?;
            let mut readers: Vec<(Vec<Reader>, Option<Reader>)> = Vec::with_capacity(parts.len());
            for part in parts {
                let sort = part
                    .sort
                    .iter()
                    .map(|p| p.open(view, segment, first))
                    .collect::<Result<_>>()?;
                let inner = part.inner.as_ref().map(|p| p.open(view, segment, first)).transpose()?;
                readers.push((sort, inner));
            }
            while set.doc() != TERMINATED {
                let doc = set.doc();
                let score = if scores { set.score() * boost } else { 0.0 };
                let passes = request.min_score.is_none_or(|min| score >= min)
                    && filter.as_mut().is_none_or(|filter| seek_to(filter.as_mut(), doc) == doc);
                if passes && let Some(slot) = slots.get(&Group::of(&group_of.read(doc, score)?)) {
                    let of = &mut found[*slot];
                    of.count += 1;
                    of.max_score = Some(of.max_score.map_or(score, |max| max.max(score)));
                    for (spec, (sort, inner)) in readers.iter().enumerate() {
                        best[spec][*slot].push(Ranked {
                            view: no,
                            segment: segment_no,
                            doc,
                            score,
                            keys: sort.iter().map(|r| r.read(doc, score)).collect::<Result<_>>()?,
                            group: inner.as_ref().map(|r| r.read(doc, score)).transpose()?,
                        });
                    }
                }
                set.advance();
            }
        }
        compiled.planned.check()?;
    }
    for (at, (spec, best)) in specs.iter().zip(best).enumerate() {
        for ((hit, of), best) in hits.iter_mut().zip(&found).zip(best) {
            let inner = page(views, compiled, &parts, at, spec, *of, best.into_sorted())?;
            hit.inner_hits.push((spec.name().to_owned(), inner));
        }
    }
    Ok(())
}

/// The hits of one group.
fn page(
    views: &[Searched],
    compiled: &[Compiled<'_>],
    parts: &[Vec<Parts<'_>>],
    at: usize,
    spec: &Spec<'_>,
    of: Found,
    ranked: Vec<Ranked>,
) -> Result<Hits> {
    let scored = spec.sort.is_empty();
    let mut hits = Vec::new();
    for one in ranked.iter().skip(spec.request.from).take(spec.request.size) {
        let view = &views[one.view].0;
        let segment = &view.segments[one.segment];
        let part = &parts[one.view][at];
        let shelf = Shelf::of(view, segment);
        let shown = scored || spec.request.track_scores || part.sort.iter().any(Plan::needs_scores);
        let (mut hit, _) = part.fetch.hit(segment, &shelf, one.doc, shown.then_some(one.score))?;
        hit.sort = part.sort.iter().zip(&one.keys).map(|(p, k)| p.render(k)).collect();
        let planned = compiled[one.view].planned;
        if planned.has_names() {
            hit.matched_queries = planned.matched(segment, one.doc)?;
        }
        if spec.request.explain {
            hit.explanation = Some(planned.explain(segment, one.doc)?.to_json());
        }
        if let (Some(field), Some(group)) = (&spec.of.collapse, &one.group)
            && !matches!(group, Key::None { .. })
        {
            hit.fields.insert(field.clone(), vec![group.render()].into());
        }
        hits.push(hit);
    }
    Ok(Hits {
        total: Some(Total {
            value: of.count,
            exact: true,
        }),
        max_score: of.max_score.filter(|_| scored || spec.request.track_scores),
        hits,
    })
}

impl<'a> Spec<'a> {
    fn new(of: &'a InnerHits, around: &SearchRequest) -> Spec<'a> {
        let sort: &[Sort] = if by_score(&of.request.sort) { &[] } else { &of.request.sort };
        Spec {
            of,
            request: SearchRequest {
                query: around.query.clone(),
                ..of.request.clone()
            },
            sort,
            order: Order {
                ascending: sort.iter().map(|s| s.ascending).collect(),
            },
        }
    }
    fn name(&self) -> &str {
        self.of.name.as_deref().unwrap_or_default()
    }
    fn needs_scores(&self) -> bool {
        let by_score = self.sort.iter().any(|s| s.by == dsl::search::SortBy::Score);
        self.sort.is_empty() || self.request.track_scores || by_score
    }
}
