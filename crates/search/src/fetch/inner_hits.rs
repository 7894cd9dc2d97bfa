//! Inner hits: the nested documents, children or parents for which a hit was found.
//!
//! Which there are is read off the query once ([`wanted`]); they are compiled once an index ([`CompiledInnerHits`]) and
//! looked up for each hit of the page. Inner hits inside a clause with inner hits belong to its hits.
//!
//! Not here: the members of collapsed groups (`collapse`), hits of other indices (`relations`).

use super::{Fetch, RootDocument, lineage};
use crate::clauses::part;
use crate::collect::{Best, Order, Ranked};
use crate::context::Context;
use crate::document_reader::DocumentReader;
use crate::fields::target::setting;
use crate::scorers::constant::ConstantScorer;
use crate::scorers::live_docs::LiveDocs;
use crate::scorers::nested::enclosing;
use crate::scorers::node::seek_to;
use crate::scorers::parent_child::Family;
use crate::scorers::planned::Part;
use crate::scorers::{conjunction, term_set};
use crate::sort::{Key, Plan};
use dsl::query::{Clause, Query};
use dsl::search::{FreeInnerHits, FreeOf, Hit, Hits, InnerHits, SearchRequest, Sort, SortBy, Total};
use model::{Error, ErrorKind, Result};
use segment::doc_bits::BitsDocs;
use segment::searchable::IndexView;
use segment::segment_view::SegmentView;
use tantivy::query::Scorer;
use tantivy::{DocId, DocSet, TERMINATED, Term};

/// The kind of a clause's inner hits.
#[derive(Clone, Debug, PartialEq)]
enum Of {
    Nested {
        path: String,
    },
    Children {
        relation: String,
    },
    Parent {
        relation: String,
    },
    /// Whichever of the two the relation is of a hit.
    Relatives {
        relation: String,
    },
}

/// One `inner_hits` of a request.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    name: String,
    of: Of,
    /// Page, order, parts; `query` is what they match.
    request: SearchRequest,
    ignore_unmapped: bool,
    /// It stands beside the query.
    free: bool,
    /// The inner hits of each of its hits.
    inner: Vec<Wanted>,
}

/// The inner hits that a request asks for.
///
/// # Errors
/// Two of one name.
pub(crate) fn clauses_with_inner_hits(request: &SearchRequest) -> Result<Vec<Wanted>> {
    let mut out = Vec::new();
    for query in request.query.iter().chain(&request.post_filter) {
        gather(query, request.dialect.rules.shows_hits_of_exclusions, &mut out)?;
    }
    for one in request.inner_hits.iter().map(free) {
        if out.iter().any(|known| known.name == one.name) {
            return Err(twice(&one.name));
        }
        out.push(one);
    }
    Ok(out)
}

/// Inner hits that no clause has; the depth of bodies is bounded.
fn free(one: &FreeInnerHits) -> Wanted {
    Wanted {
        name: one.name.clone(),
        of: match &one.of {
            FreeOf::Path(path) => Of::Nested { path: path.clone() },
            FreeOf::Type(name) => Of::Relatives { relation: name.clone() },
        },
        request: one.request.clone(),
        ignore_unmapped: false,
        free: true,
        inner: one.inner.iter().map(free).collect(),
    }
}

fn twice(name: &str) -> Error {
    Error::illegal(format!("[inner_hits] already contains an entry for key [{name}]"))
}

/// The depth of queries is bounded by the parser.
fn gather(query: &Query, of_exclusions: bool, out: &mut Vec<Wanted>) -> Result<()> {
    let (of, inner, lenient) = match &query.clause {
        Clause::Nested(q) => (Of::Nested { path: q.path.clone() }, &q.query, q.ignore_unmapped),
        Clause::HasChild(q) => {
            let relation = q.child_type.clone();
            (Of::Children { relation }, &q.query, q.ignore_unmapped)
        }
        Clause::HasParent(q) => {
            let relation = q.parent_type.clone();
            (Of::Parent { relation }, &q.query, q.ignore_unmapped)
        }
        Clause::Bool(q) => {
            // Excluded clauses have no hits; Elasticsearch 2 lists them as empty.
            let none = if of_exclusions { &q.must_not[..] } else { &[] };
            let all = q.filter.iter().chain(&q.must).chain(&q.should).chain(none);
            return all.into_iter().try_for_each(|q| gather(q, of_exclusions, out));
        }
        Clause::Boosting { positive, negative, .. } => {
            gather(positive, of_exclusions, out)?;
            return gather(negative, of_exclusions, out);
        }
        Clause::ConstantScore { filter } => return gather(filter, of_exclusions, out),
        Clause::DisMax { queries, .. } => return queries.iter().try_for_each(|q| gather(q, of_exclusions, out)),
        Clause::FunctionScore(q) => return gather(&q.query, of_exclusions, out),
        Clause::ScriptScore { query, .. } => return gather(query, of_exclusions, out),
        _ => return Ok(()),
    };
    let Some((name, spec)) = query.inner_hits() else {
        return Ok(());
    };
    if out.iter().any(|known| known.name == name) {
        return Err(twice(&name));
    }
    let mut below = Vec::new();
    gather(inner, of_exclusions, &mut below)?;
    out.push(Wanted {
        name,
        of,
        request: with_query(spec, inner),
        ignore_unmapped: lenient || spec.ignore_unmapped,
        free: false,
        inner: below,
    });
    Ok(())
}

fn with_query(spec: &InnerHits, query: &Query) -> SearchRequest {
    SearchRequest {
        query: Some(query.clone()),
        ..SearchRequest::from(spec.page.clone())
    }
}

/// Refuses windows beyond `index.max_inner_result_window`.
fn check_window(view: &IndexView, name: &str, request: &SearchRequest) -> Result<()> {
    let most = setting(view, "index.max_inner_result_window", 100);
    let window = request.from.saturating_add(request.size);
    if window > most {
        return Err(Error::illegal(format!(
            "Inner result window is too large, the inner hit definition's [{name}]'s from + size must be less than or equal to: \
             [{most}] but was [{window}]. This limit can be set by changing the [index.max_inner_result_window] index level setting."
        )));
    }
    Ok(())
}

/// Sorted by score and nothing else, best first.
pub(crate) fn by_score(sort: &[Sort]) -> bool {
    matches!(
        sort,
        [] | [Sort {
            by: SortBy::Score,
            ascending: false
        }]
    )
}

/// Inner hits compiled for one index.
pub(crate) struct CompiledInnerHits<'a> {
    wanted: &'a Wanted,
    view: &'a IndexView,
    part: Part,
    family: Option<Family>,
    /// The nested path whose documents the hits around are of.
    scope: Option<String>,
    sort: Vec<Plan>,
    order: Order,
    fetch: Fetch<'a>,
    cx: &'a Context<'a>,
    inner: Vec<CompiledInnerHits<'a>>,
}

/// The documents to look for, segment by segment.
struct MemberDocs {
    segment: usize,
    docs: Box<dyn Scorer>,
    /// Documents from here on are not of the hit.
    end: DocId,
}

/// The inner hits of one document before they are fetched.
struct Ranking {
    best: Vec<Ranked>,
    count: u64,
    max_score: Option<f32>,
}

impl<'a> CompiledInnerHits<'a> {
    /// Compiles all of a level; what is not mapped and may be missing is left out.
    ///
    /// # Errors
    /// Unmapped paths and relations, windows that are too large.
    pub(crate) fn all(view: &'a IndexView, wanted: &'a [Wanted], scope: Option<&str>, cx: &'a Context<'a>) -> Result<Vec<Self>> {
        let mut out = Vec::with_capacity(wanted.len());
        for one in wanted {
            out.extend(CompiledInnerHits::new(view, one, scope, cx)?);
        }
        Ok(out)
    }

    fn new(view: &'a IndexView, wanted: &'a Wanted, scope: Option<&str>, cx: &'a Context<'a>) -> Result<Option<Self>> {
        check_window(view, &wanted.name, &wanted.request)?;
        let missing = |what: String| {
            if wanted.ignore_unmapped {
                Ok(None)
            } else if wanted.free {
                Err(Error::illegal(match &wanted.of {
                    Of::Nested { path } => format!("path [{path}] doesn't exist"),
                    Of::Children { relation } | Of::Parent { relation } | Of::Relatives { relation } => {
                        format!("type [{relation}] doesn't exist")
                    }
                }))
            } else {
                Err(Error::new(ErrorKind::IllegalState, what).status_of(400))
            }
        };
        let family = match &wanted.of {
            Of::Nested { path } => {
                if !view.mapping.is_nested(path) {
                    return missing(format!("[nested] no mapping found for type [{path}]"));
                }
                None
            }
            Of::Children { relation } | Of::Parent { relation } | Of::Relatives { relation } => match Family::of(view) {
                Some(family) if family.knows(relation) => Some(family),
                _ => return missing(format!("no mapping found for type [{relation}]")),
            },
        };
        let below = match &wanted.of {
            Of::Nested { path } => Some(path.as_str()),
            _ => None,
        };
        let request = &wanted.request;
        let part = cx.explaining(request.explain, || part(view, request.query.as_ref(), cx, below))?;
        let sorted: &[Sort] = if by_score(&request.sort) { &[] } else { &request.sort };
        let sort = sorted
            .iter()
            .map(|s| Plan::within(view, s, cx, below))
            .collect::<Result<Vec<_>>>()?;
        Ok(Some(CompiledInnerHits {
            part,
            family,
            scope: scope.map(str::to_owned),
            order: Order {
                ascending: sort.iter().map(|s| s.ascending).collect(),
            },
            sort,
            fetch: Fetch::new(view, request, cx)?,
            cx,
            inner: CompiledInnerHits::all(view, &wanted.inner, below, cx)?,
            wanted,
            view,
        }))
    }

    /// Adds these inner hits to a hit.
    ///
    /// # Errors
    /// Unreadable files, scripts that fail.
    pub(crate) fn add(&self, hit: &mut Hit, segment: usize, doc: DocId, root: DocId) -> Result<()> {
        let hits = self.hits(hit, segment, doc, root)?;
        hit.inner_hits.push((self.wanted.name.clone(), hits));
        Ok(())
    }

    fn hits(&self, of: &Hit, segment: usize, doc: DocId, root: DocId) -> Result<Hits> {
        let request = &self.wanted.request;
        let by_score = self.sort.is_empty();
        let Ranking { best, count, max_score } = self.rank(of, segment, doc)?;
        let mut roots: Vec<((usize, DocId), RootDocument)> = Vec::new();
        let mut hits = Vec::new();
        for one in best.iter().skip(request.from) {
            let here = &self.view.segments[one.segment];
            let score = by_score.then_some(one.score);
            let (mut hit, own_root) = match &self.wanted.of {
                Of::Nested { path } => {
                    assert!(one.doc < root, "search.md S6: a nested document stands before its root");
                    if roots.is_empty() {
                        let shelf = DocumentReader::of(self.view, here);
                        roots.push(((segment, root), RootDocument::read(&shelf, root)?));
                    }
                    let way = lineage(self.view, here, path, one.doc)?;
                    (self.fetch.nested_hit(here, &mut roots[0].1, one.doc, &way, score)?, root)
                }
                _ => {
                    let shelf = DocumentReader::of(self.view, here);
                    (self.fetch.hit(here, &shelf, one.doc, score)?.0, one.doc)
                }
            };
            hit.sort = self.sort.iter().zip(&one.keys).map(|(plan, key)| plan.render(key)).collect();
            hit.matched_queries = self.part.matched_names(here, one.doc)?;
            if request.explain {
                hit.explanation = Some(self.part.node.explain(here, one.doc)?.to_json());
            }
            for inner in &self.inner {
                inner.add(&mut hit, one.segment, one.doc, own_root)?;
            }
            hits.push(hit);
        }
        // Lucene's collector of scores counts nothing for a page behind the last hit.
        let beyond = by_score && request.size > 0 && hits.is_empty();
        Ok(Hits {
            total: Some(Total {
                value: if beyond { 0 } else { count },
                exact: true,
            }),
            max_score: max_score.filter(|_| by_score || request.track_scores),
            hits,
        })
    }

    /// The best inner hits of a document, the first page and those before it.
    fn rank(&self, of: &Hit, segment: usize, doc: DocId) -> Result<Ranking> {
        let request = &self.wanted.request;
        let by_score = self.sort.is_empty();
        let scored = request.size > 0 && (by_score || request.track_scores || self.sort.iter().any(Plan::needs_scores));
        let mut best = Best::new(&self.order, request.from.saturating_add(request.size));
        let (mut count, mut max_score) = (0u64, None);
        for mut candidates in self.candidates(of, segment, doc)? {
            let here = &self.view.segments[candidates.segment];
            let base: u64 = self.view.segments[..candidates.segment]
                .iter()
                .map(|s| u64::from(s.reader.max_doc()))
                .sum();
            let readers = self
                .sort
                .iter()
                .map(|plan| plan.open(self.view, here, base))
                .collect::<Result<Vec<_>>>()?;
            let set = &mut candidates.docs;
            while set.doc() < candidates.end {
                let found = set.doc();
                count += 1;
                let score = if scored { set.score() } else { 0.0 };
                if request.size > 0 {
                    max_score = Some(max_score.map_or(score, |max: f32| max.max(score)));
                    best.push(Ranked {
                        view: 0,
                        segment: candidates.segment,
                        doc: found,
                        score,
                        keys: readers.iter().map(|r| r.read(found, score)).collect::<Result<Vec<Key>>>()?,
                        group: None,
                    });
                }
                set.advance();
            }
        }
        self.part.check()?;
        let best = best.into_sorted();
        assert!(best.len() as u64 <= count, "search.md S13: hits that are shown are counted");
        Ok(Ranking { best, count, max_score })
    }

    /// Documents that may be an inner hit of a document.
    fn candidates(&self, of: &Hit, segment: usize, doc: DocId) -> Result<Vec<MemberDocs>> {
        let here = &self.view.segments[segment];
        match (&self.wanted.of, &self.family) {
            (Of::Nested { path }, _) => {
                let around = enclosing(here, &self.view.schema, self.scope.as_deref())?;
                let first = around.before(doc).map_or(0, |before| before + 1);
                let level = enclosing(here, &self.view.schema, Some(path))?;
                let own = Box::new(ConstantScorer::new(BitsDocs::new(level), 0.0));
                let mut docs = conjunction::and(vec![(self.part.node.scorer(here)?, true), (own, false)]);
                seek_to(docs.as_mut(), first);
                Ok(vec![MemberDocs { segment, docs, end: doc }])
            }
            (Of::Relatives { relation }, Some(family)) => {
                let own = of.id.doc_type.as_deref().unwrap_or_default();
                if family.parent_of(own) == Some(relation) {
                    self.parent_of(family, relation, here, doc)
                } else if family.parent_of(relation) == Some(own) {
                    self.candidates_of(family, relation, &[family.parent_term(&of.id.id)])
                } else {
                    Ok(Vec::new())
                }
            }
            (Of::Children { relation }, Some(family)) => self.candidates_of(family, relation, &[family.parent_term(&of.id.id)]),
            (Of::Parent { relation }, Some(family)) => self.parent_of(family, relation, here, doc),
            (_, None) => Ok(Vec::new()),
        }
    }

    /// The parent of a document, if it matches.
    fn parent_of(&self, family: &Family, relation: &str, here: &SegmentView, doc: DocId) -> Result<Vec<MemberDocs>> {
        let Some(keys) = family.parents(here)? else {
            return Ok(Vec::new());
        };
        let Some((ord, _)) = keys.of(doc) else { return Ok(Vec::new()) };
        let id = keys.text(ord)?;
        self.candidates_of(family, relation, &[family.id_term(self.view, relation, &id)])
    }

    /// Root documents with a term, of a relation, that match the clause; in all segments.
    fn candidates_of(&self, family: &Family, relation: &str, terms: &[Term]) -> Result<Vec<MemberDocs>> {
        let mut out = Vec::new();
        for (no, segment) in self.view.segments.iter().enumerate() {
            let tied = term_set::any_of(segment, terms)?;
            if tied.doc() == TERMINATED {
                continue;
            }
            let of_relation = term_set::any_of(segment, &[family.relation_term(relation)])?;
            let matching = self.part.node.scorer(segment)?;
            let docs = conjunction::and(vec![(matching, true), (tied, false), (of_relation, false)]);
            let sight = LiveDocs::open(segment, &self.view.schema, self.cx.see)?;
            out.push(MemberDocs {
                segment: no,
                docs: crate::scorers::live_docs::Visible::of(docs, sight),
                end: TERMINATED,
            });
        }
        Ok(out)
    }
}

/// The root that a nested document is in.
pub(crate) fn root_of(view: &IndexView, segment: &SegmentView, doc: DocId) -> Result<DocId> {
    if segment.is_root(doc) {
        return Ok(doc);
    }
    Ok(enclosing(segment, &view.schema, None)?.next(doc))
}
