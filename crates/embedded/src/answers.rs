//! Answers of aggregations without hits, kept until what they were read from changes: the same is asked again and again.
//!
//! An answer is known by everything that it follows from: the request, the limits, and the very views of its indices. A
//! view that is gone takes its answers with it; none is kept alive for their sake.
//!
//! Not here: what may be asked (`dsl`), running it (`search`).

use crate::searchable::IndexView;
use dsl::query::Clause;
use dsl::search::{Aggregations, SearchRequest, SearchResponse};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::fmt::Write as _;
use std::sync::{Arc, Weak};

/// What is kept.
#[derive(Debug)]
pub(crate) struct Answers {
    kept: Mutex<Kept>,
    max_bytes: usize,
}

#[derive(Debug, Default)]
struct Kept {
    by_key: FxHashMap<String, Answer>,
    bytes: usize,
    /// Counts uses: the lowest was used the longest ago.
    uses: u64,
}

#[derive(Debug)]
struct Answer {
    views: Vec<Weak<IndexView>>,
    response: Arc<SearchResponse>,
    bytes: usize,
    used: u64,
}

impl Answers {
    /// Empty; `max_bytes` is `indices.requests.cache.size`.
    pub(crate) fn new(max_bytes: usize) -> Answers {
        Answers {
            kept: Mutex::default(),
            max_bytes,
        }
    }

    /// Under what a request's answer is kept; `None` if it may not be. `rest` is what else it depends on.
    pub(crate) fn key(request: &SearchRequest, rest: impl FnOnce() -> String) -> Option<String> {
        let fits = request.size == 0
            && request.from == 0
            && !request.aggs.is_empty()
            && request.view.is_none()
            && request.timeout.is_none()
            && request.terminate_after == 0
            && !request.profile;
        if !fits {
            return None;
        }
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
        let mut key = String::with_capacity(1024);
        let _ = writeln!(key, "{}", rest());
        say(request, &mut key);
        // The clock, chance and stored scripts are no part of a request.
        let varies = ["now", "andom", "Stored("].iter().any(|word| key.contains(word));
        (!varies && key.len() <= 1 << 16).then_some(key)
    }

    /// The answer for these views.
    pub(crate) fn get<'a>(&self, key: &str, mut views: impl Iterator<Item = &'a Arc<IndexView>>) -> Option<Arc<SearchResponse>> {
        let mut kept = self.kept.lock();
        kept.uses += 1;
        let uses = kept.uses;
        let answer = kept.by_key.get_mut(key)?;
        // A weak pointer keeps its place taken: an equal address is the same view.
        let mut known = answer.views.iter();
        let same = loop {
            match (known.next(), views.next()) {
                (None, None) => break true,
                (Some(weak), Some(view)) if std::ptr::eq(weak.as_ptr(), Arc::as_ptr(view)) => {}
                _ => break false,
            }
        };
        if !same {
            return None;
        }
        answer.used = uses;
        Some(answer.response.clone())
    }

    /// Keeps an answer, in place of others if there is no room.
    pub(crate) fn put<'a>(&self, key: String, views: impl Iterator<Item = &'a Arc<IndexView>>, response: &SearchResponse) {
        let text = response.aggregations.as_ref().map(Aggregations::text);
        let bytes = text.as_ref().map_or(0, |text| text.len()) + key.len() + 512;
        if bytes > self.max_bytes / 8 {
            return;
        }
        let mut kept = self.kept.lock();
        if let Some(old) = kept.by_key.remove(&key) {
            kept.bytes -= old.bytes;
        }
        if kept.bytes + bytes > self.max_bytes {
            kept.forget(self.max_bytes / 2);
        }
        kept.bytes += bytes;
        kept.uses += 1;
        let used = kept.uses;
        let answer = Answer {
            views: views.map(Arc::downgrade).collect(),
            response: Arc::new(SearchResponse {
                aggregations: text.map(Aggregations::Text),
                ..response.clone()
            }),
            bytes,
            used,
        };
        kept.by_key.insert(key, answer);
    }
}

/// Everything that a request says and others do not, by the derived forms of its parts. Names keep them apart.
fn say(request: &SearchRequest, out: &mut String) {
    let usual = SearchRequest::default();
    macro_rules! unusual {
        ($($part:ident)*) => {
            // No part is forgotten: this names all there are.
            let SearchRequest { $($part),* } = request;
            $(if *$part != usual.$part {
                let _ = writeln!(out, concat!(stringify!($part), " {:?}"), $part);
            })*
        };
    }
    unusual!(
        query post_filter from size sort search_after source fields docvalue_fields stored_fields script_fields highlight aggs
        collapse inner_hits rescore min_score track_total_hits track_scores explain version seq_no_primary_term timeout
        terminate_after profile named_scores allow_partial indices_boost stats suggest view pit slice types join_fields dialect
    );
}

impl Kept {
    /// Forgets what cannot be asked for any more, and then what was used the longest ago, down to `bytes`.
    fn forget(&mut self, bytes: usize) {
        self.by_key
            .retain(|_, answer| answer.views.iter().all(|view| view.strong_count() > 0));
        self.bytes = self.by_key.values().map(|answer| answer.bytes).sum();
        let mut ages: Vec<(u64, usize)> = self.by_key.values().map(|answer| (answer.used, answer.bytes)).collect();
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
            self.by_key.retain(|_, answer| answer.used > last);
        }
    }
}
