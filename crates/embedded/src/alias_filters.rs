//! Lookups and joins in the filters of aliases, resolved in the moment that is searched (search.md S17).
//!
//! A filter may look terms up in a document of another index, and join other indices, which may be named by aliases
//! with such filters again; `search.max_join_depth` ends it. What a lookup reads is what searches see of its
//! document.
//!
//! Not here: lookups and joins of requests (`relations`).

use crate::catalog::alias_filter::parse;
use crate::catalog::resolve::{Resolved, Through};
use crate::scan::{DocumentScan, ScanAt};
use crate::store::Store;
use async_trait::async_trait;
use dsl::query::{BoolQuery, Clause, InnerHits, Keys, Query};
use engine::joins::{JoinSides, ResolvedJoin, ResolvedLookup, has_joins, resolve};
use engine::{Document, KeysOf, See};
use futures::FutureExt as _;
use model::{Error, Result, Target, settings};
use search::Searched;
use segment::searchable::Searchable;
use std::collections::HashSet;

/// The indices that a filter reads beside its own.
fn others(query: &Query) -> Vec<Target> {
    let mut out = Vec::new();
    query.visit(&mut |query| match &query.clause {
        Clause::Join(join) => out.push(Target::of(join.index.clone())),
        Clause::TermsLookup(lookup) => out.extend(lookup.index.as_ref().map(|index| Target::index(index))),
        _ => {}
    });
    out
}

impl Store {
    /// These indices and those that the filters on the way to them read: of all of them a search sees one moment.
    pub(crate) fn with_others(&self, found: &[Resolved]) -> Result<Vec<Resolved>> {
        let catalog = self.catalog.now();
        let mut out: Vec<Resolved> = found.to_vec();
        let mut known: HashSet<u32> = out.iter().map(|r| r.entry.no).collect();
        let mut seen: HashSet<String> = HashSet::new();
        let mut next: Vec<Resolved> = out.iter().filter(|r| r.filters.is_some()).cloned().collect();
        while let Some(one) = next.pop() {
            for Through { filter, .. } in one.filters.iter().flatten() {
                if filter.is_null() || !seen.insert(filter.to_string()) {
                    continue;
                }
                for target in others(&parse(filter, one.entry.has_types())?) {
                    for other in catalog.resolve(&target, self.env.wall_ms())? {
                        if known.insert(other.entry.no) {
                            out.push(other.clone());
                        }
                        if other.filters.is_some() {
                            next.push(other);
                        }
                    }
                }
            }
        }
        Ok(out)
    }

    /// Indices of a moment with the filters on the way to them.
    pub(crate) fn search_views(&self, searchable: &Searchable, found: &[Resolved]) -> Result<Vec<Searched>> {
        self.search_views_within(searchable, found, 0)
    }

    /// The same for what filters read, `depth` filters deep.
    fn search_views_within(&self, searchable: &Searchable, found: &[Resolved], depth: u64) -> Result<Vec<Searched>> {
        let mut out = Vec::with_capacity(found.len());
        for r in found {
            let Some(view) = searchable.indices.get(&r.entry.no) else {
                continue;
            };
            let filter = match &r.filters {
                Some(filters) => Some(self.any_of(filters, r.entry.has_types(), searchable, depth)?),
                None => None,
            };
            let view = match &r.seen {
                Some(seen) => self.restricted_view(view, seen)?,
                None => view.clone(),
            };
            out.push((view, filter));
        }
        Ok(out)
    }

    fn any_of(&self, filters: &[Through], typed: bool, searchable: &Searchable, depth: u64) -> Result<Query> {
        let mut queries = Vec::with_capacity(filters.len());
        for filter in filters {
            let routed = filter.routing.as_ref().map(|routing| {
                let routings = routing.split(',').map(|one| one.trim().to_owned()).collect();
                Query::from(Clause::Routed { routings })
            });
            if filter.filter.is_null() {
                queries.extend(routed);
                continue;
            }
            let query = self.resolve_filter(parse(&filter.filter, typed)?, searchable, depth)?;
            queries.push(match routed {
                Some(routed) => Clause::Bool(BoolQuery {
                    filter: vec![query, routed],
                    ..BoolQuery::default()
                })
                .into(),
                None => query,
            });
        }
        Ok(match queries.len() {
            1 => queries.remove(0),
            _ => Clause::Bool(BoolQuery {
                should: queries,
                ..BoolQuery::default()
            })
            .into(),
        })
    }

    /// Puts terms and keys in the places of lookups and joins.
    fn resolve_filter(&self, query: Query, searchable: &Searchable, depth: u64) -> Result<Query> {
        if !has_joins(&query) {
            return Ok(query);
        }
        let mut sides = FilterSides {
            store: self,
            searchable,
            depth_max: self.catalog.load().cluster_number(settings::MAX_JOIN_DEPTH),
        };
        let nowhere = Target::of(Vec::new());
        let resolved = resolve(&mut sides, &nowhere, query, depth).now_or_never();
        Ok(resolved.expect("reading sets that are there waits for nothing")?.0)
    }
}

/// The other sides of joins in filters: sets of one moment.
struct FilterSides<'a> {
    store: &'a Store,
    searchable: &'a Searchable,
    depth_max: u64,
}

impl FilterSides<'_> {
    /// The indices that a filter reads, with the filters on the way to them.
    fn views(&self, target: &Target, depth: u64) -> Result<Vec<Searched>> {
        let found = self.store.catalog.now().resolve(target, self.store.env.wall_ms())?;
        self.store.search_views_within(self.searchable, &found, depth + 1)
    }
}

#[async_trait]
impl JoinSides for FilterSides<'_> {
    type Shown = ();

    fn check_depth(&self, depth: u64) -> Result<()> {
        if depth < self.depth_max {
            return Ok(());
        }
        Err(Error::illegal(format!(
            "the filters of aliases read other indices more than [{}] deep, the limit of [{}]",
            self.depth_max,
            settings::MAX_JOIN_DEPTH.name
        )))
    }

    fn scores(&self) -> bool {
        false
    }

    async fn keys(&mut self, _: &Target, join: &ResolvedJoin) -> Result<Keys> {
        let views = self.views(&join.theirs, join.depth)?;
        let of = KeysOf {
            query: join.query.clone(),
            field: join.on.1.clone(),
            scores: false,
            view: None,
            joined_with: None,
            types: Vec::new(),
            cancellation: model::Cancellation::default(),
        };
        let found = self.store.keys_in(&views, &of, &search::interrupt::Interrupt::default())?;
        Ok(found.keys)
    }

    async fn document(&mut self, lookup: ResolvedLookup) -> Result<Option<Document>> {
        self.check_depth(lookup.depth)?;
        let views = self.views(&Target::index(lookup.at.index.as_str()), lookup.depth)?;
        let types: Vec<String> = lookup.at.id.doc_type.iter().map(|doc_type| doc_type.to_string()).collect();
        let by_id = Clause::Ids {
            values: vec![lookup.at.id.id.to_string()],
            types: types.clone(),
        };
        let scan = DocumentScan {
            views,
            query: by_id.into(),
            see: See::Plain,
            types,
            reads_again: false,
        };
        Ok(self.store.scan_part(&scan, ScanAt::default(), 1)?.documents.pop())
    }

    async fn show(&mut self, _: ResolvedJoin, _: Option<Box<InnerHits>>, _: Vec<()>) -> Result<Vec<()>> {
        Ok(Vec::new())
    }

    async fn enclose(&mut self, _: &Target, _: &mut Query, _: u64, _: Vec<()>) -> Result<Vec<()>> {
        Ok(Vec::new())
    }
}

/// Whether a filter was a join: its keys are of this moment alone.
pub(crate) fn has_keys(query: &Query) -> bool {
    let mut found = false;
    query.visit(&mut |query| found |= matches!(query.clause, Clause::KeySet(_)));
    found
}
