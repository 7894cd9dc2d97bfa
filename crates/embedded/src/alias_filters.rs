//! What the filters of aliases look up or join, resolved in the moment that is searched.
//!
//! A filter may look terms up in a document of another index, and join other indices, which may be named by aliases
//! with such filters again; `search.max_join_depth` ends it. What a lookup reads is what searches see of its
//! document.
//!
//! Not here: lookups and joins of requests (`relations`).

use crate::catalog::alias_filter::parse;
use crate::catalog::resolve::{Resolved, Through};
use crate::scan::ScanAt;
use crate::store::Store;
use dsl::query::{BoolQuery, Clause, JoinKind, JoinQuery, KeySet, Query, ScoreMode, TermsLookup, TermsQuery};
use engine::{KeysOf, See};
use model::{Error, Result, Target, path, settings};
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
                for target in others(&parse(filter, one.entry.typed())?) {
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
    pub(crate) fn searched(&self, searchable: &Searchable, found: &[Resolved]) -> Result<Vec<Searched>> {
        self.searched_within(searchable, found, 0)
    }

    /// The same for what filters read, `depth` filters deep.
    fn searched_within(&self, searchable: &Searchable, found: &[Resolved], depth: u64) -> Result<Vec<Searched>> {
        let mut out = Vec::with_capacity(found.len());
        for r in found {
            let Some(view) = searchable.indices.get(&r.entry.no) else {
                continue;
            };
            let filter = match &r.filters {
                Some(filters) => Some(self.any_of(filters, r.entry.typed(), searchable, depth)?),
                None => None,
            };
            out.push((view.clone(), filter));
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
            let mut query = parse(&filter.filter, typed)?;
            self.resolve_filter(&mut query, searchable, depth)?;
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

    /// Puts terms and keys in the places of lookups and joins; the depth of a query is bounded by the parser.
    fn resolve_filter(&self, query: &mut Query, searchable: &Searchable, depth: u64) -> Result<()> {
        let resolved = match &query.clause {
            Clause::Join(join) => self.join_of_filter(join, searchable, depth)?,
            Clause::TermsLookup(lookup) => self.lookup_of_filter(lookup, searchable, depth)?,
            _ => return query.children_mut(&mut |child| self.resolve_filter(child, searchable, depth)),
        };
        query.clause = resolved;
        Ok(())
    }

    /// What a filter reads, in the same moment.
    fn read_by_filter(&self, target: &Target, searchable: &Searchable, depth: u64) -> Result<Vec<Searched>> {
        let catalog = self.catalog.now();
        let most = catalog.cluster_number(settings::MAX_JOIN_DEPTH);
        if depth >= most {
            return Err(Error::illegal(format!(
                "the filters of aliases read other indices more than [{most}] deep, the limit of [{}]",
                settings::MAX_JOIN_DEPTH.name
            )));
        }
        let found = catalog.resolve(target, self.env.wall_ms())?;
        self.searched_within(searchable, &found, depth + 1)
    }

    fn lookup_of_filter(&self, lookup: &TermsLookup, searchable: &Searchable, depth: u64) -> Result<Clause> {
        let index = lookup
            .index
            .clone()
            .ok_or_else(|| Error::illegal("[terms] query lookup element requires specifying the index."))?;
        let Some(id) = &lookup.id else {
            let query = lookup
                .query
                .clone()
                .ok_or_else(|| Error::illegal("[terms] query lookup element requires specifying the id."))?;
            let join = JoinQuery {
                index: vec![index],
                on: (lookup.field.clone(), lookup.path.clone()),
                query,
                kind: JoinKind::Semi,
                score_mode: ScoreMode::None,
                inner_hits: None,
            };
            return self.join_of_filter(&join, searchable, depth);
        };
        let views = self.read_by_filter(&Target::index(&index), searchable, depth)?;
        let types: Vec<String> = lookup.doc_type.iter().cloned().collect();
        let by_id = Clause::Ids {
            values: vec![id.clone()],
            types: types.clone(),
        };
        let (found, _) = self.scan_part(&views, &by_id.into(), See::Plain, &types, ScanAt::default(), 1)?;
        let values = match found.first() {
            Some(document) => {
                let source = document.source.parse()?;
                let read = path::read(&source, &lookup.path);
                read.into_iter().filter(|value| !value.is_null()).cloned().collect()
            }
            None => Vec::new(),
        };
        Ok(Clause::Terms(TermsQuery {
            field: lookup.field.clone(),
            values,
            minimum_should_match: None,
            disable_coord: false,
        }))
    }

    fn join_of_filter(&self, join: &JoinQuery, searchable: &Searchable, depth: u64) -> Result<Clause> {
        let views = self.read_by_filter(&Target::of(join.index.clone()), searchable, depth)?;
        let mut query = (*join.query).clone();
        self.resolve_filter(&mut query, searchable, depth + 1)?;
        let found = self.keys_in(
            &views,
            &KeysOf {
                query,
                field: join.on.1.clone(),
                scores: false,
                view: None,
                joined_with: None,
                types: Vec::new(),
                cancellation: model::Cancellation::default(),
            },
            &search::interrupt::Interrupt::default(),
        )?;
        let set = Clause::KeySet(KeySet {
            field: join.on.0.clone(),
            keys: found.keys,
            score_mode: ScoreMode::None,
        });
        Ok(match join.kind {
            JoinKind::Semi => set,
            JoinKind::Anti => Clause::Bool(BoolQuery {
                must_not: vec![set.into()],
                ..BoolQuery::default()
            }),
            // Everything stays.
            JoinKind::Left => Clause::MatchAll,
        })
    }
}

/// Whether a filter was a join: its keys are of this moment alone.
pub(crate) fn has_keys(query: &Query) -> bool {
    let mut found = false;
    query.visit(&mut |query| found |= matches!(query.clause, Clause::KeySet(_)));
    found
}
