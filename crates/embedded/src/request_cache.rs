//! LRU cache of answers to searches without hits, such as aggregations and counts.
//!
//! The key of an answer is the request, the limits, and the views of its indices. A hash finds the entry; a comparison of the
//! whole key confirms it. Entries hold their views weakly: a view that is dropped takes its answers with it.
//!
//! Not here: what may be asked (`dsl`), running it (`search`).

use crate::lock_order::Mutex;
use dsl::query::{Clause, Query};
use dsl::search::{Aggregations, SearchRequest, SearchResponse};
use engine::See;
use rustc_hash::{FxHashMap, FxHasher};
use search::Searched;
use segment::cache_figures::CacheFigures;
use segment::searchable::IndexView;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Weak};

/// The cache.
#[derive(Debug)]
pub(crate) struct RequestCache {
    kept: Mutex<CachedAnswer>,
    max_bytes: usize,
}

#[derive(Debug, Default)]
struct CachedAnswer {
    by_number: FxHashMap<u64, Answer>,
    bytes: usize,
    /// Counts uses: the lowest was used the longest ago.
    uses: u64,
}

/// Everything that an answer follows from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestKey<'a> {
    pub(crate) request: &'a SearchRequest,
    /// The views, with the filters of the aliases they were reached by.
    pub(crate) searched: &'a [Searched],
    pub(crate) types: &'a [String],
    pub(crate) see: See,
    pub(crate) limits: RefusalLimits,
}

/// Settings that decide whether something is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RefusalLimits {
    pub(crate) max_clause_count: usize,
    pub(crate) max_buckets: usize,
    pub(crate) expensive: bool,
}

/// An answer with what it follows from.
#[derive(Debug)]
struct Answer {
    request: SearchRequest,
    views: Vec<Weak<IndexView>>,
    filters: Vec<Option<Query>>,
    types: Vec<String>,
    see: See,
    limits: RefusalLimits,
    response: Arc<SearchResponse>,
    bytes: usize,
    used: u64,
    /// The figures of its indices: each counts an entry, and its part of the bytes.
    figures: Vec<Arc<CacheFigures>>,
}

impl Answer {
    fn bytes_of_each(&self) -> usize {
        self.bytes / self.figures.len().max(1)
    }

    /// It makes room for others.
    fn evict(&self) {
        self.figures.iter().for_each(|figures| figures.evict(self.bytes_of_each()));
    }

    /// Nobody can ask for it any more.
    fn invalidate(&self) {
        self.figures
            .iter()
            .for_each(|figures| figures.invalidate(self.bytes_of_each()));
    }

    fn is_stale(&self) -> bool {
        self.views.iter().any(|view| view.strong_count() == 0)
    }
}

impl RequestKey<'_> {
    /// Whether the answer may be looked for: it has no hits, nothing but what is named here decides it, and the request was
    /// read from words, which may come again.
    pub(crate) fn fits(&self) -> bool {
        let request = self.request;
        request.fingerprint != 0
            && request.size == 0
            && request.from == 0
            && !request.aggs.is_empty()
            && request.view.is_none()
            && request.timeout.is_none()
            && request.terminate_after == 0
            && !request.profile
    }

    /// Equal ones have equal numbers.
    fn number(&self) -> u64 {
        let mut hasher = FxHasher::default();
        self.request.fingerprint.hash(&mut hasher);
        for (view, _) in self.searched {
            Arc::as_ptr(view).hash(&mut hasher);
        }
        hasher.finish()
    }

    /// Whether it is what an answer was made for. A weak pointer keeps its place taken: an equal address is the same view.
    fn is_that_of(&self, answer: &Answer) -> bool {
        self.searched.len() == answer.views.len()
            && std::iter::zip(self.searched, &answer.views)
                .all(|((view, _), known)| std::ptr::eq(known.as_ptr(), Arc::as_ptr(view)))
            && std::iter::zip(self.searched, &answer.filters).all(|((_, filter), known)| filter == known)
            && self.see == answer.see
            && self.types == answer.types
            && self.limits == answer.limits
            && *self.request == answer.request
    }
}

/// How many bytes a request takes, if its answer is the same as long as its views are.
fn steady(request: &SearchRequest) -> Option<usize> {
    let mut small = true;
    for query in request.query.iter().chain(&request.post_filter) {
        query.visit(&mut |q| {
            small &= match &q.clause {
                Clause::Terms(terms) => terms.values.len() <= 1024,
                Clause::Ids { values, .. } => values.len() <= 1024,
                Clause::KeySet(_) => false,
                _ => true,
            };
        });
    }
    if !small {
        return None;
    }
    let said = format!("{request:?}");
    // The clock, chance and stored scripts are no part of a request.
    let varies = ["now", "andom", "Stored("].iter().any(|word| said.contains(word));
    (!varies && said.len() <= 1 << 16).then_some(said.len() + size_of::<Answer>())
}

impl RequestCache {
    /// Empty; `max_bytes` is `indices.requests.cache.size`.
    pub(crate) fn new(max_bytes: usize) -> RequestCache {
        RequestCache {
            kept: Mutex::default(),
            max_bytes,
        }
    }

    /// Bytes of what is kept.
    pub(crate) fn bytes(&self) -> u64 {
        self.kept.lock().bytes as u64
    }

    /// Forgets answers until all take so many bytes at most; says how many bytes went.
    pub(crate) fn shrink_to(&self, max_bytes: usize) -> usize {
        let mut kept = self.kept.lock();
        let before = kept.bytes;
        if before > max_bytes {
            kept.forget(max_bytes);
        }
        before - kept.bytes
    }

    /// The answer, if it is kept.
    pub(crate) fn get(&self, asked: &RequestKey<'_>) -> Option<Arc<SearchResponse>> {
        let number = asked.number();
        let mut kept = self.kept.lock();
        kept.uses += 1;
        let uses = kept.uses;
        let answer = kept.by_number.get_mut(&number).filter(|answer| asked.is_that_of(answer))?;
        answer.used = uses;
        Some(answer.response.clone())
    }

    /// Keeps an answer that may be kept, in place of others if there is no room.
    pub(crate) fn put(&self, asked: &RequestKey<'_>, response: &SearchResponse, figures: Vec<Arc<CacheFigures>>) {
        let Some(bytes) = steady(asked.request) else { return };
        // The text of a long one is not made in vain.
        let about = response.aggregations.as_ref().map_or(0, Aggregations::text_bytes);
        if about > self.max_bytes / 4 {
            return;
        }
        let text = response.aggregations.as_ref().map(Aggregations::text);
        let bytes = text.as_ref().map_or(0, |text| text.len()) + bytes + 512;
        if bytes > self.max_bytes / 8 {
            return;
        }
        let number = asked.number();
        let mut kept = self.kept.lock();
        if let Some(old) = kept.by_number.remove(&number) {
            kept.bytes -= old.bytes;
            old.invalidate();
        }
        if kept.bytes + bytes > self.max_bytes {
            kept.forget(self.max_bytes / 2);
        }
        kept.bytes += bytes;
        kept.uses += 1;
        let used = kept.uses;
        let answer = Answer {
            request: asked.request.clone(),
            views: asked.searched.iter().map(|(view, _)| Arc::downgrade(view)).collect(),
            filters: asked.searched.iter().map(|(_, filter)| filter.clone()).collect(),
            types: asked.types.to_vec(),
            see: asked.see,
            limits: asked.limits,
            response: Arc::new(SearchResponse {
                aggregations: text.map(Aggregations::Text),
                ..response.clone()
            }),
            bytes,
            used,
            figures,
        };
        answer.figures.iter().for_each(|figures| figures.add(answer.bytes_of_each()));
        kept.by_number.insert(number, answer);
        debug_assert!(
            kept.bytes <= self.max_bytes,
            "answers stay within [indices.requests.cache.size]"
        );
    }
}

impl CachedAnswer {
    /// Forgets what cannot be asked for any more, and then what was used the longest ago, down to `bytes`.
    fn forget(&mut self, bytes: usize) {
        self.by_number.retain(|_, answer| {
            let stale = answer.is_stale();
            if stale {
                answer.invalidate();
            }
            !stale
        });
        self.bytes = self.by_number.values().map(|answer| answer.bytes).sum();
        let mut ages: Vec<(u64, usize)> = self.by_number.values().map(|answer| (answer.used, answer.bytes)).collect();
        ages.sort_unstable();
        let mut last = None;
        for (used, size) in ages {
            if self.bytes <= bytes {
                break;
            }
            self.bytes -= size;
            last = Some(used);
        }
        if let Some(last) = last {
            self.by_number.retain(|_, answer| {
                let stays = answer.used > last;
                if !stays {
                    answer.evict();
                }
                stays
            });
        }
        debug_assert!(self.bytes <= bytes, "search.md S18: a cache stays within its budget");
        debug_assert_eq!(
            self.bytes,
            self.by_number.values().map(|answer| answer.bytes).sum::<usize>(),
            "each answer that is kept is counted once"
        );
    }
}
