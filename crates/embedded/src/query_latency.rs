//! How long searches of a shape take: what was over quickly lately runs where it arrives, for handing it to another
//! thread and back costs more than it does.
//!
//! A shape is what a request asks for without its values: kinds of clauses, of aggregations, of sorts. A search that
//! took long is handed over the next time, so that a mistake costs one search.
//!
//! Not here: the threads (`workers`).

use crate::lock_order::Mutex;
use dsl::aggs::Agg;
use dsl::query::Clause;
use dsl::search::SearchRequest;
use engine::KeysOf;
use model::Target;
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::{Hash, Hasher};
use std::time::Duration;

/// Up to here a search is quick.
const QUICK: Duration = Duration::from_micros(1500);
/// From here on it is long, and runs beside others of its kind.
const LONG: Duration = Duration::from_millis(100);
/// Shapes that are remembered.
const SHAPES: usize = 4096;

/// The times of shapes.
#[derive(Debug, Default)]
pub(crate) struct Pace(Mutex<FxHashMap<u64, Duration>>);

impl Pace {
    /// Whether searches of this shape are known to be quick.
    pub(crate) fn is_quick(&self, shape: u64) -> bool {
        self.0.lock().get(&shape).is_some_and(|mean| *mean < QUICK)
    }

    /// Whether searches of this shape took long lately.
    pub(crate) fn is_long(&self, shape: u64) -> bool {
        self.0.lock().get(&shape).is_some_and(|mean| *mean >= LONG)
    }

    /// Notes how long one took. A slower one counts at once, quicker ones little by little.
    pub(crate) fn note(&self, shape: u64, took: Duration) {
        let mut known = self.0.lock();
        if known.len() >= SHAPES && !known.contains_key(&shape) {
            known.clear();
        }
        let mean = known.entry(shape).or_insert(took);
        *mean = if took > *mean { took } else { (*mean * 3 + took) / 4 };
    }
}

/// The shape of a search.
pub(crate) fn shape(target: &Target, request: &SearchRequest) -> u64 {
    let mut hasher = FxHasher::default();
    target.expressions.hash(&mut hasher);
    for query in request.query.iter().chain(&request.post_filter) {
        query.visit(&mut |q| {
            std::mem::discriminant(&q.clause).hash(&mut hasher);
            // One script may take a million times as long as another.
            if matches!(
                q.clause,
                Clause::Script { .. } | Clause::ScriptScore { .. } | Clause::FunctionScore { .. }
            ) {
                request.fingerprint.hash(&mut hasher);
            }
        });
    }
    aggs(&request.aggs, &mut hasher);
    for sort in &request.sort {
        std::mem::discriminant(&sort.by).hash(&mut hasher);
    }
    let page = request.from.saturating_add(request.size);
    (page.max(1).ilog2(), request.rescore.len(), request.script_fields.len()).hash(&mut hasher);
    (request.collapse.is_some(), request.highlight.is_some(), request.explain).hash(&mut hasher);
    (request.fields.len(), request.docvalue_fields.len()).hash(&mut hasher);
    hasher.finish()
}

/// The shape of what a join asks of its other side.
pub(crate) fn shape_of_keys(target: &Target, of: &KeysOf) -> u64 {
    let mut hasher = FxHasher::default();
    ("keys", &target.expressions, &of.field, of.scores).hash(&mut hasher);
    of.query.visit(&mut |q| std::mem::discriminant(&q.clause).hash(&mut hasher));
    hasher.finish()
}

fn aggs(list: &[Agg], hasher: &mut FxHasher) {
    for agg in list {
        std::mem::discriminant(&agg.kind).hash(hasher);
        aggs(&agg.subs, hasher);
    }
    list.len().hash(hasher);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(took: &[u64], expected: bool) {
        let pace = Pace::default();
        for us in took {
            pace.note(7, Duration::from_micros(*us));
        }
        assert_eq!(pace.is_quick(7), expected, "{took:?}");
    }

    #[test]
    fn quick() {
        check(&[], false);
        check(&[100], true);
        check(&[100, 100, 2000], false);
        check(&[2000, 100, 100], true);
        check(&[40_000, 100, 100], false);
        check(&[2000, 40_000, 3000], false);
    }
}
