//! Queries of clauses, drawn by chance: their JSON, and what they find, worked out as sets.
//!
//! Not here: the clauses (`leaves`), asking (`checks`).

use crate::store::Doc;
use crate::{LEAVES, Random};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The ids of the documents that a query finds, with their scores.
pub(crate) type Found = BTreeMap<String, f64>;

/// A clause that is asked alone.
pub(crate) struct Leaf {
    pub(crate) query: Value,
    pub(crate) found: Found,
}

/// A query of clauses.
#[derive(Debug)]
pub(crate) enum Composed {
    Leaf(usize),
    Bool(Bool),
    Constant(Box<Composed>, f64),
    DisMax(Vec<Composed>, f64),
    Boosting(Box<Composed>, Box<Composed>, f64),
    Weight(Box<Composed>, f64),
}

/// The lists of a `bool`.
#[derive(Debug)]
pub(crate) struct Bool {
    must: Vec<Composed>,
    filter: Vec<Composed>,
    should: Vec<Composed>,
    must_not: Vec<Composed>,
    least: Option<usize>,
    boost: f64,
}

fn some(random: Random<'_>, most: u64, depth: u32) -> Vec<Composed> {
    (0..random(most + 1)).map(|_| any_query(random, depth)).collect()
}

pub(crate) fn any_query(random: Random<'_>, depth: u32) -> Composed {
    if depth == 0 || random(4) == 0 {
        return Composed::Leaf(random(LEAVES as u64) as usize);
    }
    let inner = |random: Random<'_>| Box::new(any_query(random, depth - 1));
    match random(12) {
        0 => Composed::Constant(inner(random), 0.5 + random(4) as f64),
        1 => Composed::DisMax(
            (0..1 + random(3)).map(|_| any_query(random, depth - 1)).collect(),
            random(3) as f64 / 2.0,
        ),
        2 => Composed::Boosting(inner(random), inner(random), 0.25 * (1 + random(3)) as f64),
        3 => Composed::Weight(inner(random), 0.5 * (1 + random(4)) as f64),
        _ => {
            let must = some(random, 2, depth - 1);
            let filter = some(random, 2, depth - 1);
            let mut should = some(random, 3, depth - 1);
            let must_not = some(random, 2, depth - 1);
            if must.is_empty() && filter.is_empty() && should.is_empty() && must_not.is_empty() {
                should.push(any_query(random, depth - 1));
            }
            let least = (random(3) == 0 && !should.is_empty()).then(|| random(should.len() as u64 + 1) as usize);
            let boost = [1.0, 1.0, 1.0, 2.0, 0.5][random(5) as usize];
            Composed::Bool(Bool {
                must,
                filter,
                should,
                must_not,
                least,
                boost,
            })
        }
    }
}

/// The dialect that is asked. In that of 2015 scores go by coordination and norms of queries: they are not compared.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Dialect {
    Todays,
    Of2015,
}

/// The clauses and documents that a query is evaluated with, and the place where it stands.
#[derive(Clone, Copy)]
pub(crate) struct Within<'a> {
    pub(crate) leaves: &'a [Leaf],
    pub(crate) docs: &'a BTreeMap<String, Doc>,
    pub(crate) dialect: Dialect,
    pub(crate) is_filter: bool,
}

impl Within<'_> {
    pub(crate) fn filter(self) -> Self {
        Within { is_filter: true, ..self }
    }
}

/// The JSON of a list of queries.
fn queries(list: &[Composed], leaves: &[Leaf], dialect: Dialect) -> Value {
    list.iter().map(|one| one.query(leaves, dialect)).collect()
}

/// What each query of a list finds.
fn evaluate_all(list: &[Composed], within: &Within<'_>) -> Vec<Found> {
    list.iter().map(|one| one.evaluate(within)).collect()
}

impl Bool {
    /// Only options, at least two: `or` in the words of 2015, whose parts are filters.
    fn is_or_of_2015(&self) -> bool {
        let is_plain = self.must.is_empty() && self.filter.is_empty() && self.must_not.is_empty();
        is_plain && self.least.is_none() && self.should.len() > 1
    }

    /// The clauses that 2015 had beside `bool`, where one says the same.
    fn of_2015(&self, leaves: &[Leaf]) -> Option<Value> {
        if self.least.is_some() {
            return None;
        }
        let render = |one: &Composed| one.query(leaves, Dialect::Of2015);
        let all = |list: &[Composed]| queries(list, leaves, Dialect::Of2015);
        let lists = [&self.must, &self.filter, &self.should, &self.must_not];
        match lists.map(Vec::as_slice) {
            [[query], [filter], [], []] => Some(json!({ "filtered": { "query": render(query), "filter": render(filter) } })),
            [[], filter @ [_, _, ..], [], []] => Some(json!({ "and": all(filter) })),
            [.., should, _] if self.is_or_of_2015() => Some(json!({ "or": { "filters": all(should) } })),
            [[], [], [], [excluded]] => Some(json!({ "not": render(excluded) })),
            _ => None,
        }
    }

    fn query(&self, leaves: &[Leaf], dialect: Dialect) -> Value {
        if let Some(query) = self.of_2015(leaves).filter(|_| dialect == Dialect::Of2015) {
            return query;
        }
        let mut body = json!({});
        let named = [
            ("must", &self.must),
            ("filter", &self.filter),
            ("should", &self.should),
            ("must_not", &self.must_not),
        ];
        for (name, list) in named {
            if !list.is_empty() {
                body[name] = queries(list, leaves, dialect);
            }
        }
        if let Some(least) = self.least {
            body["minimum_should_match"] = least.into();
        }
        if self.boost != 1.0 {
            body["boost"] = self.boost.into();
        }
        json!({ "bool": body })
    }

    /// The options of which a document must match so many.
    fn least(&self, within: &Within<'_>) -> usize {
        let has_options = !self.should.is_empty();
        match self.least {
            Some(0) | None if self.must.is_empty() && self.filter.is_empty() && has_options => 1,
            // Inside a filter 2015 wants one of the options.
            None => usize::from(within.is_filter && within.dialect == Dialect::Of2015 && has_options),
            Some(least) => least,
        }
    }

    fn evaluate(&self, within: &Within<'_>) -> Found {
        let least = self.least(within);
        let is_or = within.dialect == Dialect::Of2015 && self.is_or_of_2015();
        let inner = within.filter();
        let must = evaluate_all(&self.must, within);
        let (filter, must_not) = (evaluate_all(&self.filter, &inner), evaluate_all(&self.must_not, &inner));
        let should = evaluate_all(&self.should, if is_or { &inner } else { within });
        let mut out = Found::new();
        for id in within.docs.keys() {
            let has = |found: &&Found| found.contains_key(id);
            let options: Vec<&Found> = should.iter().filter(has).collect();
            let is_match = must.iter().chain(&filter).all(|found| found.contains_key(id))
                && !must_not.iter().any(|found| found.contains_key(id))
                && options.len() >= least;
            if is_match {
                let score: f64 = must.iter().chain(options).map(|found| found[id]).sum();
                out.insert(id.clone(), score * self.boost);
            }
        }
        out
    }
}

impl Composed {
    pub(crate) fn query(&self, leaves: &[Leaf], dialect: Dialect) -> Value {
        match self {
            Composed::Leaf(no) => leaves[*no].query.clone(),
            Composed::Bool(clauses) => clauses.query(leaves, dialect),
            Composed::Constant(inner, boost) => {
                json!({ "constant_score": { "filter": inner.query(leaves, dialect), "boost": boost } })
            }
            Composed::DisMax(list, tie) => {
                json!({ "dis_max": { "queries": queries(list, leaves, dialect), "tie_breaker": tie } })
            }
            Composed::Boosting(positive, negative, by) => json!({ "boosting": {
                "positive": positive.query(leaves, dialect), "negative": negative.query(leaves, dialect), "negative_boost": by
            } }),
            Composed::Weight(inner, weight) => {
                json!({ "function_score": { "query": inner.query(leaves, dialect), "weight": weight } })
            }
        }
    }

    pub(crate) fn evaluate(&self, within: &Within<'_>) -> Found {
        match self {
            Composed::Leaf(no) => within.leaves[*no].found.clone(),
            Composed::Bool(clauses) => clauses.evaluate(within),
            Composed::Constant(inner, boost) => {
                let found = inner.evaluate(&within.filter()).into_keys();
                found.map(|id| (id, *boost)).collect()
            }
            Composed::DisMax(list, tie) => {
                let mut scores: BTreeMap<String, Vec<f64>> = BTreeMap::new();
                for (id, score) in evaluate_all(list, within).into_iter().flatten() {
                    scores.entry(id).or_default().push(score);
                }
                let one = |(id, scores): (String, Vec<f64>)| {
                    let best = scores.iter().copied().fold(f64::MIN, f64::max);
                    (id, best + tie * (scores.iter().sum::<f64>() - best))
                };
                scores.into_iter().map(one).collect()
            }
            Composed::Boosting(positive, negative, by) => {
                let negative = negative.evaluate(within);
                let one = |(id, score): (String, f64)| {
                    let by = if negative.contains_key(&id) { *by } else { 1.0 };
                    (id, score * by)
                };
                positive.evaluate(within).into_iter().map(one).collect()
            }
            Composed::Weight(inner, weight) => {
                let found = inner.evaluate(within).into_iter();
                found.map(|(id, score)| (id, score * weight)).collect()
            }
        }
    }
}
