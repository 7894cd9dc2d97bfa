//! The members of collapsed groups: `inner_hits` of `collapse`.
//!
//! One more pass over what matches serves all groups of the page and all of their inner hits; where the first pass kept what
//! it found, it goes over that.
//!
//! Not here: choosing the best of each group (`collect`), members ordered by score alone (`collect::group_members`), inner hits of
//! clauses (`inner_hits`).

use super::Fetch;
use super::inner_hits::{self, by_score};
use crate::Searched;
use crate::collect::collapse::{Group, Groups, Member, Members, collapse_key};
use crate::collect::group_members::{FoundMembers, PageGroups, collect_members};
use crate::collect::{Best, Order, Ranked, Source, index_boost};
use crate::context::Context;
use crate::document_reader::DocumentReader;
use crate::fields::target::{Target, setting};
use crate::scorers::conjunction::and;
use crate::scorers::node::seek_to;
use crate::scorers::planned::Planned;
use crate::scorers::term_set::any_of;
use crate::sort::{Key, Plan, SortReader};
use dsl::search::{Collapse, Hit, Hits, InnerHits, SearchRequest, Sort, SortBy, Total};
use mapping::FieldValue;
use model::{Error, Result};
use rustc_hash::FxHashMap;
use segment::searchable::IndexView;
use segment::segment_view::SegmentView;
use std::sync::Arc;
use tantivy::{DocId, DocSet, TERMINATED, Term};

/// So many members of a group are counted.
const COUNTED: u64 = 10_000;

/// One index of a search, compiled.
pub(crate) struct CompiledCollapse<'a> {
    pub(crate) planned: &'a Arc<Planned>,
    pub(crate) post_filter: Option<&'a Planned>,
    pub(crate) collapse: &'a Plan,
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
struct GroupTotals {
    count: u64,
    max_score: Option<f32>,
}

/// Where a search keeps what it finds for [`expand`], if it shows members of groups.
pub(crate) fn members(request: &SearchRequest) -> Option<Members> {
    let inner_hits = &request.collapse.as_ref()?.inner_hits;
    // The least score of a search is not asked of the members of its groups: what it leaves out counts among them.
    let least = request.min_score.is_some() && !request.dialect.rules.minimum_score_filters_groups;
    (!inner_hits.is_empty() && !least).then(|| Members::new(inner_hits.iter().any(needs_scores)))
}

fn needs_scores(of: &InnerHits) -> bool {
    let of = &of.page;
    by_score(&of.sort) || of.track_scores || of.sort.iter().any(|s| s.by == SortBy::Score)
}

/// Adds inner hits to the hits of a page; `groups` has the group of each, `keys` its value. What is shown of a group has
/// the inner hits of the query's clauses too, `of_clauses` by index. `members` is all that matches, if it was kept.
///
/// # Errors
/// Mistakes in the inner hits; unreadable files.
pub(crate) fn expand(
    views: &[Searched],
    compiled: &[CompiledCollapse<'_>],
    request: &SearchRequest,
    collapse: &Collapse,
    (groups, keys, members): (&[Group], &[Key], Option<&[Member]>),
    (hits, of_clauses): (&mut [Hit], &[Vec<inner_hits::CompiledInnerHits<'_>>]),
    cx: &Context<'_>,
) -> Result<()> {
    let specs: Vec<Spec<'_>> = collapse.inner_hits.iter().map(|of| Spec::new(of, request)).collect();
    if specs.is_empty() || groups.is_empty() {
        return Ok(());
    }
    let parts = parts_of(views, &specs, cx)?;
    let scored = request.min_score.is_some() || specs.iter().any(|spec| needs_scores(spec.of));
    let expansion = Expansion {
        views,
        compiled,
        request,
        field: &collapse.field,
        groups,
        keys,
        specs: &specs,
        scored,
        cx,
    };
    let found = match members {
        None if expansion.is_by_score_alone() => expansion.by_score_alone()?,
        _ => expansion.in_order(members, &parts)?,
    };
    for (at, (spec, best)) in specs.iter().zip(found.best).enumerate() {
        for ((hit, of), best) in hits.iter_mut().zip(&found.totals).zip(best) {
            let inner = page(views, compiled, (&parts, of_clauses), at, spec, *of, best)?;
            hit.inner_hits.push((spec.name().to_owned(), inner));
        }
    }
    Ok(())
}

/// The members of the groups of a page.
struct ExpandedGroups {
    totals: Vec<GroupTotals>,
    /// The best, in order: by inner hits and then by group.
    best: Vec<Vec<Vec<Ranked>>>,
}

/// The search for the members of a page's groups.
struct Expansion<'a> {
    views: &'a [Searched],
    compiled: &'a [CompiledCollapse<'a>],
    request: &'a SearchRequest,
    /// The field that hits are collapsed by.
    field: &'a str,
    groups: &'a [Group],
    /// The value of each group.
    keys: &'a [Key],
    specs: &'a [Spec<'a>],
    /// Members have scores.
    scored: bool,
    cx: &'a Context<'a>,
}

impl Expansion<'_> {
    /// Whether nothing but scores orders members, and all matches of the query are members.
    fn is_by_score_alone(&self) -> bool {
        let has_score_order = |spec: &Spec<'_>| spec.sort.is_empty() && spec.of.collapse.is_none();
        self.specs.iter().all(has_score_order)
            && self.compiled.iter().all(|one| one.post_filter.is_none())
            && self.request.min_score.is_none()
            && !self.cx.is_profiled()
    }

    /// Finds members by score alone.
    fn by_score_alone(&self) -> Result<ExpandedGroups> {
        let Expansion {
            views,
            compiled,
            request,
            groups,
            keys,
            specs,
            cx,
            ..
        } = *self;
        let limit = specs.iter().map(Spec::window).max().unwrap_or(0);
        let mut members: Vec<FoundMembers> = groups.iter().map(|_| FoundMembers::new(limit)).collect();
        for (no, ((view, _), compiled)) in views.iter().zip(compiled).enumerate() {
            let source = Source {
                no,
                view,
                planned: compiled.planned,
                post_filter: None,
                sort: &[],
                after: None,
                collapse: Some(compiled.collapse),
                boost: index_boost(request, view),
            };
            let page = PageGroups {
                slots: groups.iter().enumerate().map(|(at, group)| (group, at)).collect(),
                keys,
                field: compiled.collapse,
                terms: terms(view, self.field, keys),
                limit,
                scored: self.scored,
            };
            for segment in 0..view.segments.len() {
                cx.check_cancelled()?;
                collect_members(&page, &source, segment, request, cx, &mut members)?;
            }
            compiled.planned.check()?;
        }
        let of_group = |of: FoundMembers| {
            let totals = GroupTotals {
                count: of.count,
                max_score: of.max_score,
            };
            (totals, of.best.into_sorted())
        };
        let (totals, best): (Vec<_>, Vec<_>) = members.into_iter().map(of_group).unzip();
        Ok(ExpandedGroups {
            totals,
            best: vec![best; specs.len()],
        })
    }

    /// Finds members in whatever order they are asked for.
    fn in_order(&self, members: Option<&[Member]>, parts: &[Vec<Parts<'_>>]) -> Result<ExpandedGroups> {
        let Expansion {
            views,
            compiled,
            request,
            groups,
            keys,
            specs,
            scored,
            cx,
            ..
        } = *self;
        let mut members_found = GroupMembers::new(groups, specs);
        debug_assert!(
            members.is_none_or(|all| all.is_sorted_by_key(|one| (one.view, one.segment))),
            "members of groups stand by index and segment, as they are read"
        );
        let mut unread = members;
        for (no, (((view, _), compiled), parts)) in views.iter().zip(compiled).zip(parts).enumerate() {
            let boost = scored.then(|| index_boost(request, view));
            let terms = if unread.is_some() {
                None
            } else {
                terms(view, self.field, keys)
            };
            let mut base = 0u64;
            for (segment_no, segment) in view.segments.iter().enumerate() {
                cx.check_cancelled()?;
                let first = base;
                base += u64::from(segment.reader.max_doc());
                let here = unread.as_mut().map(|unread| {
                    let count = unread.partition_point(|one| (one.view, one.segment) <= (no, segment_no));
                    unread.split_off(..count).unwrap_or_default()
                });
                if here.is_some_and(<[Member]>::is_empty) {
                    continue;
                }
                let readers = open_readers(parts, view, segment, first)?;
                let mut take = |doc, score, group: &Group| members_found.take((no, segment_no, doc), score, group, &readers);
                match here {
                    Some(here) => here
                        .iter()
                        .try_for_each(|one| take(one.doc, if scored { one.score } else { 0.0 }, &one.group))?,
                    None => search_members(compiled, request, (view, segment), (terms.as_deref(), boost), &mut take)?,
                }
            }
            compiled.planned.check()?;
        }
        let GroupMembers { best, found, .. } = members_found;
        let sorted = |best: Vec<Best<'_>>| best.into_iter().map(Best::into_sorted).collect();
        Ok(ExpandedGroups {
            totals: found,
            best: best.into_iter().map(sorted).collect(),
        })
    }
}

/// How the hits of each index are ordered and shown, by index and then by inner hits.
fn parts_of<'v>(views: &'v [Searched], specs: &'v [Spec<'v>], cx: &'v Context<'v>) -> Result<Vec<Vec<Parts<'v>>>> {
    let part = |view: &'v IndexView, spec: &'v Spec<'v>| {
        check_window(view, spec)?;
        let inner = spec.of.collapse.as_deref();
        Ok(Parts {
            sort: spec.sort.iter().map(|s| Plan::new(view, s, cx)).collect::<Result<_>>()?,
            inner: inner.map(|field| collapse_key(view, field, cx)).transpose()?,
            fetch: Fetch::new(view, &spec.request, cx)?,
        })
    };
    views
        .iter()
        .map(|(view, _)| specs.iter().map(|spec| part(view, spec)).collect())
        .collect()
}

/// The sort keys of one kind of inner hits in a segment, and the groups inside its groups.
type MemberReaders = (Vec<SortReader>, Option<Groups>);

fn open_readers(parts: &[Parts<'_>], view: &IndexView, segment: &SegmentView, base: u64) -> Result<Vec<MemberReaders>> {
    let open = |part: &Parts<'_>| {
        let sort = part.sort.iter().map(|p| p.open(view, segment, base)).collect::<Result<_>>()?;
        let inner = part.inner.as_ref().map(|p| Groups::open(p, view, segment)).transpose()?;
        Ok((sort, inner))
    };
    parts.iter().map(open).collect()
}

/// The members of the groups of a page: how many each has, and the best of them for each kind of inner hits.
struct GroupMembers<'a> {
    slots: FxHashMap<&'a Group, usize>,
    best: Vec<Vec<Best<'a>>>,
    found: Vec<GroupTotals>,
}

impl<'a> GroupMembers<'a> {
    fn new(groups: &'a [Group], specs: &'a [Spec<'a>]) -> GroupMembers<'a> {
        let best = |spec: &'a Spec<'a>| groups.iter().map(|_| Best::new(&spec.order, spec.window())).collect();
        GroupMembers {
            slots: groups.iter().enumerate().map(|(at, group)| (group, at)).collect(),
            best: specs.iter().map(best).collect(),
            found: vec![GroupTotals::default(); groups.len()],
        }
    }

    /// Takes a document, if its group is on the page.
    fn take(
        &mut self,
        (view, segment, doc): (usize, usize, DocId),
        score: f32,
        group: &Group,
        readers: &[MemberReaders],
    ) -> Result<()> {
        let Some(slot) = self.slots.get(group) else { return Ok(()) };
        debug_assert_eq!(readers.len(), self.best.len(), "each order of members has its readers");
        let of = &mut self.found[*slot];
        of.count += 1;
        of.max_score = Some(of.max_score.map_or(score, |max| max.max(score)));
        for (best, (sort, inner)) in self.best.iter_mut().zip(readers) {
            best[*slot].push(Ranked {
                view,
                segment,
                doc,
                score,
                keys: sort.iter().map(|r| r.read(doc, score)).collect::<Result<_>>()?,
                group: inner.as_ref().map(|groups| groups.of(doc)).transpose()?,
            });
        }
        Ok(())
    }
}

/// Searches a segment for members of groups, among the documents with one of `terms`; scores are multiplied by `boost`, and
/// are 0 without it.
fn search_members(
    compiled: &CompiledCollapse<'_>,
    request: &SearchRequest,
    (view, segment): (&IndexView, &SegmentView),
    (terms, boost): (Option<&[Term]>, Option<f32>),
    take: &mut dyn FnMut(DocId, f32, &Group) -> Result<()>,
) -> Result<()> {
    let mut set = compiled.planned.scorer(segment)?;
    if let Some(terms) = terms {
        set = and(vec![(set, true), (any_of(segment, terms)?, false)]);
    }
    let mut filter = compiled.post_filter.map(|p| p.scorer(segment)).transpose()?;
    let group_of = Groups::open(compiled.collapse, view, segment)?;
    let min_score = request
        .min_score
        .filter(|_| request.dialect.rules.minimum_score_filters_groups);
    while set.doc() != TERMINATED {
        let doc = set.doc();
        let score = boost.map_or(0.0, |boost| set.score() * boost);
        let passes =
            min_score.is_none_or(|min| score >= min) && filter.as_mut().is_none_or(|filter| seek_to(filter.as_mut(), doc) == doc);
        if passes {
            take(doc, score, &group_of.of(doc)?)?;
        }
        set.advance();
    }
    Ok(())
}

/// Refuses windows beyond `index.max_result_window`: members of groups are found as a search of their own would.
fn check_window(view: &IndexView, spec: &Spec<'_>) -> Result<()> {
    let most = setting(view, "index.max_result_window", 10_000);
    let window = spec.window();
    if window > most {
        return Err(Error::illegal(format!(
            "Inner result window of [collapse] is too large, the inner hit definition's [{}]'s from + size must be less than or equal \
             to: [{most}] but was [{window}]. This limit can be set by changing the [index.max_result_window] index level setting.",
            spec.name()
        )));
    }
    Ok(())
}

/// The terms of the groups of a page, where the index has terms for all of them: what is in no group is not looked at.
fn terms(view: &IndexView, field: &str, keys: &[Key]) -> Option<Vec<Term>> {
    let target = Target::of(view, field).filter(|target| target.kind.index)?;
    let term = |key: &Key| match key {
        Key::Text(text) if target.kind.kind.is_keyword() => Some(target.text_term(text)),
        Key::Unsigned(n) if target.kind.kind == mapping::Kind::UnsignedLong => target.term(&FieldValue::UnsignedLong(*n)),
        Key::Int(n) if target.kind.kind.is_integer() => target.term(&FieldValue::Long(*n)),
        _ => None,
    };
    keys.iter().map(term).collect()
}

/// The hits of one group.
fn page(
    views: &[Searched],
    compiled: &[CompiledCollapse<'_>],
    (parts, of_clauses): (&[Vec<Parts<'_>>], &[Vec<inner_hits::CompiledInnerHits<'_>>]),
    at: usize,
    spec: &Spec<'_>,
    of: GroupTotals,
    ranked: Vec<Ranked>,
) -> Result<Hits> {
    let scored = spec.sort.is_empty();
    let mut hits = Vec::new();
    for one in ranked.iter().skip(spec.request.from).take(spec.request.size) {
        let view = &views[one.view].0;
        let segment = &view.segments[one.segment];
        let part = &parts[one.view][at];
        let shelf = DocumentReader::of(view, segment);
        let shown = scored || spec.request.track_scores || part.sort.iter().any(Plan::needs_scores);
        let (mut hit, _) = part.fetch.hit(segment, &shelf, one.doc, shown.then_some(one.score))?;
        hit.sort = part.sort.iter().zip(&one.keys).map(|(p, k)| p.render(k)).collect();
        let planned = compiled[one.view].planned;
        if planned.has_names() {
            hit.matched_queries = planned.matched_names(segment, one.doc)?;
        }
        if spec.request.explain {
            hit.explanation = Some(planned.explain(segment, one.doc)?.to_json());
        }
        if let (Some(field), Some(inner)) = (&spec.of.collapse, &part.inner) {
            let group = inner.open(view, segment, 0)?.read(one.doc, one.score)?;
            if !matches!(group, Key::None { .. }) {
                hit.fields.insert(field.clone(), vec![group.render()].into());
            }
        }
        for inner in &of_clauses[one.view] {
            inner.add(&mut hit, one.segment, one.doc, one.doc)?;
        }
        hits.push(hit);
    }
    Ok(Hits {
        total: Some(match spec.request.dialect.rules.minimum_score_filters_groups {
            true => Total {
                value: of.count,
                exact: true,
            },
            // Each group is a search of its own, which counts so far.
            false => Total {
                value: of.count.min(COUNTED),
                exact: of.count <= COUNTED,
            },
        }),
        max_score: of.max_score.filter(|_| scored || spec.request.track_scores),
        hits,
    })
}

impl<'a> Spec<'a> {
    fn new(of: &'a InnerHits, around: &SearchRequest) -> Spec<'a> {
        let sort: &[Sort] = if by_score(&of.page.sort) { &[] } else { &of.page.sort };
        Spec {
            of,
            request: SearchRequest {
                query: around.query.clone(),
                ..SearchRequest::from(of.page.clone())
            },
            sort,
            order: Order {
                ascending: sort.iter().map(|s| s.ascending).collect(),
            },
        }
    }
    /// So many of the best are looked for.
    fn window(&self) -> usize {
        self.request.from.saturating_add(self.request.size)
    }
    fn name(&self) -> &str {
        self.of.name.as_deref().unwrap_or_default()
    }
}
