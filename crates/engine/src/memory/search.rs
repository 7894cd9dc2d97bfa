//! A search over one moment of some indices: match, sort, cut a page, aggregate.
//!
//! Not here: matching (`query`), ordering (`order`), folding (`aggs`), and where the moment comes from.

use super::aggs::Match;
use super::catalog::{Catalog, Entry};
use super::query::Matcher;
use super::{Stored, aggs, order, query, unsupported_request};
use crate::See;
use dsl::query::Query;
use dsl::search::{Hit, Hits, SearchRequest, SearchResponse, SourceSpec, Total, TrackTotal};
use model::path::{SourceFilter, matches};
use model::{Dialect, Error, Persona, Result, Target, settings};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The searchable state of some indices. Immutable: later writes make another.
#[derive(Clone, Debug, Default)]
pub(super) struct Snapshot {
    pub(super) catalog: Catalog,
    /// By index name; in the order of their sequence numbers.
    pub(super) docs: BTreeMap<String, Arc<Vec<Arc<Stored>>>>,
    /// The alias filters through which an index came in; `None` is everything.
    pub(super) filters: BTreeMap<String, Option<Vec<Value>>>,
}

impl Snapshot {
    /// Every visible document of the target that matches, in the order of the indices.
    pub(super) fn matching(
        &self,
        target: &Target,
        query: Option<&Query>,
        types: &[String],
        see: See,
        now_ms: i64,
    ) -> Result<(u32, Vec<Match>)> {
        query.map_or(Ok(()), query::check)?;
        let found = self.catalog.resolve(target)?;
        let mut out = Vec::new();
        for resolved in &found {
            let entry = &resolved.entry;
            let name = entry.name.as_str();
            let matcher = Matcher { entry, now_ms };
            let mut filters = vec![read_filters(entry, resolved.filters.as_deref())?];
            filters.push(read_filters(entry, self.filters.get(name).and_then(Option::as_deref))?);
            for doc in self.docs.get(name).into_iter().flat_map(|docs| docs.iter()) {
                if doc.is_seen(see)
                    && is_of(doc, &target.types)
                    && is_of(doc, types)
                    && passes(matcher, &filters, doc)?
                    && query.map_or(Ok(true), |query| matcher.matches(query, doc))?
                {
                    out.push((entry.clone(), doc.clone()));
                }
            }
        }
        Ok((u32::try_from(found.len()).unwrap_or(u32::MAX), out))
    }

    /// Answers a request.
    pub(super) fn search(&self, target: &Target, request: &SearchRequest, see: See, now_ms: i64) -> Result<SearchResponse> {
        check(request)?;
        let (shards, found) = self.matching(target, request.query.as_ref(), &request.types, see, now_ms)?;
        let aggregations = if request.aggs.is_empty() {
            None
        } else {
            Some(aggs::run(&request.aggs, &found)?)
        };
        let mut ordered: Vec<(order::Keys, Match)> = Vec::new();
        for (position, (entry, doc)) in found.into_iter().enumerate() {
            let filter = request.post_filter.as_ref();
            if filter.map_or(Ok(true), |filter| Matcher { entry: &entry, now_ms }.matches(filter, &doc))? {
                ordered.push((order::keys(&request.sort, &entry, &doc, position)?, (entry, doc)));
            }
        }
        check_window(request, &self.catalog)?;
        let count = ordered.len();
        ordered.sort_by(|(a, _), (b, _)| order::compare(&request.sort, a, b));
        if let (Some(given), Some((_, (entry, _)))) = (&request.search_after, ordered.first()) {
            let after = order::after(&request.sort, given, entry)?;
            ordered.retain(|(keys, _)| order::compare(&request.sort, keys, &after).is_gt());
        }
        let page = ordered.into_iter().skip(request.from).take(request.size);
        let hits = page
            .map(|(keys, (_, doc))| hit(request, &keys, &doc))
            .collect::<Result<_>>()?;
        let hits = Hits {
            total: total(request.track_total_hits, count),
            max_score: None,
            hits,
        };
        Ok(SearchResponse {
            shards,
            hits,
            aggregations: aggregations.map(dsl::search::Aggregations::Tree),
            ..SearchResponse::default()
        })
    }
}

/// Refuses what this engine does not do.
fn check(request: &SearchRequest) -> Result<()> {
    let asked = [
        ("fields", !request.fields.is_empty()),
        ("docvalue_fields", !request.docvalue_fields.is_empty()),
        ("stored_fields", request.stored_fields.is_some()),
        ("script_fields", !request.script_fields.is_empty()),
        ("highlight", request.highlight.is_some()),
        ("collapse", request.collapse.is_some()),
        ("rescore", !request.rescore.is_empty()),
        ("min_score", request.min_score.is_some()),
        ("explain", request.explain),
        ("profile", request.profile),
        ("suggest", !request.suggest.is_empty()),
        ("slice", request.slice.is_some()),
    ];
    if let Some((name, _)) = asked.into_iter().find(|(_, asked)| *asked) {
        return Err(unsupported_request(format!(
            "the memory engine does not know the search option [{name}]"
        )));
    }
    request.post_filter.as_ref().map_or(Ok(()), query::check)?;
    order::check(&request.sort)?;
    aggs::check(&request.aggs)
}

fn check_window(request: &SearchRequest, catalog: &Catalog) -> Result<()> {
    let limits = catalog
        .0
        .values()
        .map(|entry| settings::number(&entry.settings, settings::MAX_RESULT_WINDOW));
    let limit = limits.min().unwrap_or(10_000);
    let asked = request.from.saturating_add(request.size);
    if asked as u64 <= limit {
        return Ok(());
    }
    Err(Error::illegal(format!(
        "Result window is too large, from + size must be less than or equal to: [{limit}] but was [{asked}]. See the scroll api for a \
         more efficient way to request large data sets. This limit can be set by changing the [index.max_result_window] index level setting."
    )))
}

fn total(track: TrackTotal, count: usize) -> Option<Total> {
    match track {
        TrackTotal::No => None,
        TrackTotal::UpTo(limit) if count > limit => Some(Total {
            value: limit as u64,
            exact: false,
        }),
        TrackTotal::UpTo(_) | TrackTotal::Exact => Some(Total {
            value: count as u64,
            exact: true,
        }),
    }
}

fn hit(request: &SearchRequest, keys: &order::Keys, doc: &Stored) -> Result<Hit> {
    let mut hit = Hit::new(doc.at.index.clone(), doc.at.id.clone());
    hit.stamp = Some(doc.stamp);
    hit.show_version = request.version;
    hit.show_seq_no = request.seq_no_primary_term;
    hit.routing = doc.routing.clone();
    hit.parent = doc.parent.clone();
    hit.ignored = doc.ignored.clone();
    hit.sort = keys.iter().map(order::render).collect();
    let text = match &request.source {
        SourceSpec::None => return Ok(hit),
        SourceSpec::Default | SourceSpec::All => String::from_utf8_lossy(&doc.source.0).into_owned(),
        SourceSpec::Filtered { includes, excludes } => {
            let filter = SourceFilter {
                includes: includes.clone(),
                excludes: excludes.clone(),
            };
            filter.apply(&doc.source.parse()?).to_string()
        }
    };
    hit.source = Some(text.into());
    Ok(hit)
}

/// Any of these must match; `None`: all documents do.
fn read_filters(entry: &Entry, filters: Option<&[Value]>) -> Result<Option<Vec<Query>>> {
    let dialect = if entry.has_types() {
        Dialect::of(Persona::Es2)
    } else {
        Dialect::default()
    };
    let read = |filter: &Value| {
        let query = dsl::query::parse_filter_bytes(filter.to_string().as_bytes(), dialect)?;
        query::check(&query)?;
        Ok(query)
    };
    filters.map(|filters| filters.iter().map(read).collect()).transpose()
}

fn passes(matcher: Matcher<'_>, filters: &[Option<Vec<Query>>], doc: &Stored) -> Result<bool> {
    for any in filters.iter().flatten() {
        let mut passed = false;
        for filter in any {
            passed |= matcher.matches(filter, doc)?;
        }
        if !passed {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_of(doc: &Stored, types: &[String]) -> bool {
    let own = doc.at.id.doc_type.as_deref().unwrap_or("_doc");
    types.is_empty() || types.iter().any(|wanted| wanted == "_all" || matches(wanted, own))
}
