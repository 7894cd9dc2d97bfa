//! The terms, patterns and phrases that a query looks for in one field.

use super::text::{Reading, Word};
use super::{analyzer_of, reading};
use crate::automata::regexp::Pattern;
use dsl::query::{
    Clause, Fuzziness, FuzzyQuery, MatchPhraseQuery, MatchQuery, MultiMatchQuery, MultiMatchType, PatternQuery, Query,
    QueryStringQuery, RangeQuery, SpanQuery,
};
use dsl::query_string;
use mapping::{FieldType, Mapping, Registry};
use serde_json::Value;

/// Most places of one phrase in one value.
const PLACES_MAX: usize = 10_000;

/// Something that is looked for.
pub(super) struct Want {
    what: What,
    pub(super) boost: f32,
}

enum What {
    Term(String),
    Pattern(Pattern),
    Fuzzy {
        text: Vec<char>,
        edits: usize,
        prefix: usize,
        transpositions: bool,
    },
    Range(Box<RangeQuery>),
    Phrase {
        slots: Vec<Slot>,
        slop: u32,
        ordered: bool,
    },
}

/// The words that may stand at one position of a phrase.
struct Slot {
    position: u32,
    terms: Vec<String>,
    prefix: bool,
}

/// A phrase in a text: the numbers of its words, its span of positions, its weight.
pub(super) struct PhraseMatch {
    pub(super) words: Vec<usize>,
    pub(super) span: (u32, u32),
    pub(super) boost: f32,
}

impl Want {
    pub(super) fn is_term(&self, term: &str) -> bool {
        matches!(&self.what, What::Term(wanted) if wanted == term)
    }
    pub(super) fn is_shape(&self) -> bool {
        matches!(self.what, What::Pattern(_) | What::Fuzzy { .. } | What::Range(_))
    }
    /// Its weight at a term that it matches: what a fuzzy query finds counts the less the further it is off.
    pub(super) fn weight_at(&self, term: &str) -> f32 {
        match &self.what {
            What::Fuzzy {
                text,
                edits,
                prefix,
                transpositions,
            } => {
                let off = near(text, term, *edits, *prefix, *transpositions).unwrap_or(0);
                let shorter = term.chars().count().min(text.len()).max(1);
                self.boost * (1.0 - off as f32 / shorter as f32)
            }
            _ => self.boost,
        }
    }
    pub(super) fn shape_matches(&self, term: &str) -> bool {
        match &self.what {
            What::Term(_) | What::Phrase { .. } => false,
            What::Pattern(pattern) => pattern.matches(term),
            What::Fuzzy {
                text,
                edits,
                prefix,
                transpositions,
            } => near(text, term, *edits, *prefix, *transpositions).is_some(),
            What::Range(range) => {
                let beyond = |end: &Option<Value>, fits: fn(&str, &str) -> bool| match end {
                    Some(Value::String(end)) => fits(term, end),
                    _ => true,
                };
                beyond(&range.gt, |t, end| t > end)
                    && beyond(&range.gte, |t, end| t >= end)
                    && beyond(&range.lt, |t, end| t < end)
                    && beyond(&range.lte, |t, end| t <= end)
            }
        }
    }
}

/// How many edits two texts are apart, if they are at most so many.
fn near(text: &[char], term: &str, edits: usize, prefix: usize, transpositions: bool) -> Option<usize> {
    let term: Vec<char> = term.chars().collect();
    if text.len().abs_diff(term.len()) > edits
        || term.len() < prefix.min(text.len())
        || text.iter().zip(&term).take(prefix).any(|(a, b)| a != b)
    {
        return None;
    }
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=term.len()).collect();
    for (i, a) in text.iter().enumerate() {
        let mut next = Vec::with_capacity(row.len());
        next.push(i + 1);
        for (j, b) in term.iter().enumerate() {
            let mut best = (row[j] + usize::from(a != b)).min(row[j + 1] + 1).min(next[j] + 1);
            if transpositions && i > 0 && j > 0 && text[i - 1] == *b && term[j - 1] == *a {
                best = best.min(before[j - 1] + 1);
            }
            next.push(best);
        }
        before = std::mem::replace(&mut row, next);
    }
    row.last().copied().filter(|distance| *distance <= edits)
}

/// The phrases among `wants` where they are in a text.
pub(super) fn positional(words: &[Word], wants: &[Want]) -> Vec<PhraseMatch> {
    let mut out = Vec::new();
    for want in wants {
        let What::Phrase { slots, slop, ordered } = &want.what else {
            continue;
        };
        let mut places: Vec<Vec<usize>> = slots
            .iter()
            .map(|slot| {
                let fits = |term: &str| {
                    slot.terms.iter().any(|t| {
                        if slot.prefix {
                            term.starts_with(t.as_str())
                        } else {
                            term == t
                        }
                    })
                };
                words
                    .iter()
                    .enumerate()
                    .filter(|(_, w)| fits(&w.term))
                    .map(|(at, _)| at)
                    .collect()
            })
            .collect();
        for list in &mut places {
            list.sort_by_key(|at| words[*at].position);
        }
        assert_eq!(places.len(), slots.len(), "each slot of a phrase has its places");
        let found = if *ordered {
            in_order(words, &places, *slop)
        } else {
            in_any_order(words, &places, *slop)
        };
        for at in found {
            let positions = at.iter().filter_map(|at| words.get(*at)).map(|w| w.position);
            let span = (positions.clone().min().unwrap_or(0), positions.max().unwrap_or(0));
            out.push(PhraseMatch {
                words: at,
                span,
                boost: want.boost,
            });
        }
    }
    out
}

/// Each word after the one before, with at most `slop` others between them.
fn in_order(words: &[Word], places: &[Vec<usize>], slop: u32) -> Vec<Vec<usize>> {
    let mut out = Vec::new();
    let Some((first, others)) = places.split_first() else {
        return out;
    };
    'starts: for start in first.iter().take(PLACES_MAX) {
        let mut at = vec![*start];
        let begin = words[*start].position;
        let mut last = begin;
        for list in others {
            let next = list.partition_point(|at| words[*at].position <= last);
            let Some(next) = list.get(next) else { break 'starts };
            last = words[*next].position;
            at.push(*next);
        }
        if width(begin, last, places.len()) <= slop {
            out.push(at);
        }
    }
    out
}

/// All words in a window, in whatever order.
fn in_any_order(words: &[Word], places: &[Vec<usize>], slop: u32) -> Vec<Vec<usize>> {
    let mut out = Vec::new();
    let mut next = vec![0_usize; places.len()];
    while out.len() < PLACES_MAX {
        let current: Option<Vec<usize>> = places.iter().zip(&next).map(|(list, n)| list.get(*n).copied()).collect();
        let Some(current) = current else { break };
        let position = |n: &usize| words[current[*n]].position;
        let Some(least) = (0..current.len()).min_by_key(position) else {
            break;
        };
        let begin = position(&least);
        let last = (0..current.len()).map(|n| position(&n)).max().unwrap_or(begin);
        let mut distinct = current.clone();
        distinct.sort_unstable();
        distinct.dedup();
        if distinct.len() == current.len() && width(begin, last, places.len()) <= slop {
            out.push(current);
        }
        next[least] += 1;
    }
    out
}

/// How many other positions a window has.
fn width(begin: u32, last: u32, words: usize) -> u32 {
    (last - begin + 1).saturating_sub(u32::try_from(words).unwrap_or(u32::MAX))
}

/// Gathers what a query looks for in the fields that count.
pub(super) struct Gather<'a> {
    pub(super) mapping: &'a Mapping,
    pub(super) registry: &'a Registry,
    /// Fields whose clauses count; `None`: all.
    pub(super) fields: Option<&'a [String]>,
    pub(super) wants: Vec<Want>,
}

impl<'a> Gather<'a> {
    fn push(&mut self, boost: f32, what: What) {
        let known = match &what {
            What::Term(term) => self.wants.iter_mut().find(|w| w.is_term(term)),
            _ => None,
        };
        match known {
            Some(known) => known.boost = known.boost.max(boost),
            None => self.wants.push(Want { what, boost }),
        }
    }

    /// A field that counts.
    fn target(&self, field: &str) -> Option<&'a FieldType> {
        let mapping: &'a Mapping = self.mapping;
        let named = mapping.field(field)?;
        let path = named.alias_path.as_deref().unwrap_or(field);
        let kind = mapping.field(path)?;
        let counts = self
            .fields
            .is_none_or(|fields| fields.iter().any(|f| f == path || f == field));
        counts.then_some(kind)
    }

    /// Reads a query and all below it that must or may match.
    pub(super) fn query(&mut self, query: &Query, boost: f32) {
        let boost = boost * query.boost;
        match &query.clause {
            Clause::Term(q) => {
                let text = text_of(&q.value);
                let Some(kind) = self.target(&q.field) else { return };
                let text = whole(kind, text);
                if q.case_insensitive {
                    let pattern = Pattern::literal(&text, true);
                    self.pattern(boost, pattern);
                } else {
                    self.push(boost, What::Term(text));
                }
            }
            Clause::Terms(q) => {
                let Some(kind) = self.target(&q.field) else { return };
                let terms: Vec<String> = q.values.iter().map(|v| whole(kind, text_of(v))).collect();
                terms.into_iter().for_each(|term| self.push(boost, What::Term(term)));
            }
            Clause::Prefix(q) => self.shape(q, boost, |text| Pattern::prefix(text, q.case_insensitive)),
            Clause::Wildcard(q) => self.shape(q, boost, |text| Pattern::wildcard(text, q.case_insensitive)),
            Clause::Regexp(q) if self.target(&q.field).is_some() => {
                self.pattern(boost, Pattern::regexp(&q.value, q.flags.as_deref(), q.case_insensitive));
            }
            Clause::Fuzzy(q) => self.fuzzy(q, boost),
            Clause::Range(q) => {
                let ends = [&q.gt, &q.gte, &q.lt, &q.lte];
                let texts = ends.iter().any(|e| e.is_some()) && ends.iter().all(|e| e.as_ref().is_none_or(Value::is_string));
                if texts && self.target(&q.field).is_some_and(|k| k.kind.is_text() || k.kind.is_keyword()) {
                    self.push(boost, What::Range(Box::new(q.clone())));
                }
            }
            Clause::Match(q) => self.words(q, boost, false),
            Clause::MatchBoolPrefix(q) => self.words(q, boost, true),
            Clause::MatchPhrase(q) => self.phrase(q, boost, false),
            Clause::MatchPhrasePrefix(q) => self.phrase(q, boost, true),
            Clause::MultiMatch(q) => self.multi_match(q, boost),
            Clause::Bool(q) => [&q.must, &q.should, &q.filter]
                .into_iter()
                .flatten()
                .for_each(|q| self.query(q, boost)),
            Clause::Boosting { positive, .. } => self.query(positive, boost),
            Clause::ConstantScore { filter } => self.query(filter, boost),
            Clause::DisMax { queries, .. } => queries.iter().for_each(|q| self.query(q, boost)),
            Clause::FunctionScore(q) => self.query(&q.query, boost),
            Clause::ScriptScore { query, .. } => self.query(query, boost),
            Clause::Nested(q) => self.query(&q.query, boost),
            Clause::Span(q) => self.span(q, boost),
            Clause::QueryString(q) => {
                if let Ok(syntax) = query_string::parse(&q.query, q.default_operator) {
                    self.text_query(q, &syntax, boost);
                }
            }
            Clause::SimpleQueryString(q) => {
                let syntax = query_string::simple::parse(&q.query, q.flags.as_deref(), q.default_operator);
                self.text_query(q, &syntax, boost);
            }
            _ => {}
        }
    }

    /// Words near each other as a phrase; of other shapes every word that takes part. The depth is the query's, which is
    /// limited.
    fn span(&mut self, q: &SpanQuery, boost: f32) {
        match q {
            SpanQuery::Term { field, value } => {
                if let Some(kind) = self.target(field) {
                    self.push(boost, What::Term(whole(kind, text_of(value))));
                }
            }
            SpanQuery::Near { clauses, slop, in_order } => {
                let mut slots = Vec::new();
                for clause in clauses {
                    let SpanQuery::Term { field, value } = clause else { break };
                    let Some(kind) = self.target(field) else { return };
                    slots.push(Slot {
                        position: u32::try_from(slots.len()).unwrap_or(u32::MAX),
                        terms: vec![whole(kind, text_of(value))],
                        prefix: false,
                    });
                }
                if slots.len() < clauses.len() {
                    clauses.iter().for_each(|clause| self.span(clause, boost));
                    return;
                }
                let (slop, ordered) = (u32::try_from(*slop).unwrap_or(0), *in_order);
                self.push(boost, What::Phrase { slots, slop, ordered });
            }
            SpanQuery::Or(clauses) => clauses.iter().for_each(|clause| self.span(clause, boost)),
            SpanQuery::First { inner, .. } => self.span(inner, boost),
            SpanQuery::Not { include, .. } => self.span(include, boost),
            SpanQuery::Containing { big, little } | SpanQuery::Within { big, little } => {
                self.span(big, boost);
                self.span(little, boost);
            }
            SpanQuery::Multi(query) => self.query(query, boost),
            _ => {}
        }
    }

    fn pattern(&mut self, boost: f32, pattern: model::Result<Pattern>) {
        // One that cannot be compiled was refused when the query ran.
        if let Ok(pattern) = pattern {
            self.push(boost, What::Pattern(pattern));
        }
    }

    fn shape(&mut self, q: &PatternQuery, boost: f32, build: impl Fn(&str) -> model::Result<Pattern>) {
        let Some(kind) = self.target(&q.field) else { return };
        let text = match &kind.normalizer {
            Some(normalizer) => normalizer.normalize(&q.value),
            None => q.value.clone(),
        };
        self.pattern(boost, build(&text));
    }

    fn fuzzy(&mut self, q: &FuzzyQuery, boost: f32) {
        let Some(kind) = self.target(&q.field) else { return };
        let text = whole(kind, text_of(&q.value));
        self.push(boost, fuzzy_of(&text, q.fuzziness, q.prefix_length, q.transpositions));
    }

    /// The terms of a query's text by position.
    fn analyze(&self, field: &str, text: &Value, named: Option<&str>, quoted: bool) -> Option<Vec<(u32, Vec<String>)>> {
        let kind = self.target(field)?;
        let text = text_of(text);
        let analyzer = match named {
            Some(name) => self.registry.analyzer(name),
            None if kind.kind.is_text() => {
                let quote = kind.search_quote_analyzer.clone().filter(|_| quoted);
                quote
                    .or_else(|| kind.search_analyzer.clone())
                    .or_else(|| analyzer_of(kind, self.registry))
            }
            None => None,
        };
        let Some(analyzer) = analyzer else {
            return Some(vec![(0, vec![whole(kind, text)])]);
        };
        let mut tokens = analyzer.analyze(&text);
        tokens.sort_by_key(|t| t.position);
        let mut out: Vec<(u32, Vec<String>)> = Vec::new();
        for token in tokens {
            match out.last_mut() {
                Some((position, terms)) if *position == token.position => terms.push(token.term),
                _ => out.push((token.position, vec![token.term])),
            }
        }
        Some(out)
    }

    fn words(&mut self, q: &MatchQuery, boost: f32, prefix: bool) {
        let Some(places) = self.analyze(&q.field, &q.query, q.analyzer.as_deref(), false) else {
            return;
        };
        let last = places.len().saturating_sub(1);
        for (n, (_, terms)) in places.into_iter().enumerate() {
            for term in terms {
                match q.fuzziness {
                    _ if prefix && n == last => self.pattern(boost, Pattern::prefix(&term, false)),
                    Some(fuzziness) => self.push(boost, fuzzy_of(&term, fuzziness, q.prefix_length, q.fuzzy_transpositions)),
                    None => self.push(boost, What::Term(term)),
                }
            }
        }
    }

    fn phrase(&mut self, q: &MatchPhraseQuery, boost: f32, prefix: bool) {
        let Some(places) = self.analyze(&q.field, &q.query, q.analyzer.as_deref(), true) else {
            return;
        };
        let last = places.len().saturating_sub(1);
        let mut slots: Vec<Slot> = places
            .into_iter()
            .enumerate()
            .map(|(n, (position, terms))| Slot {
                position,
                terms,
                prefix: prefix && n == last,
            })
            .collect();
        if slots.len() <= 1 {
            for slot in slots.drain(..) {
                for term in slot.terms {
                    if slot.prefix {
                        self.pattern(boost, Pattern::prefix(&term, false));
                    } else {
                        self.push(boost, What::Term(term));
                    }
                }
            }
            return;
        }
        let (first, last) = (
            slots.first().map_or(0, |s| s.position),
            slots.last().map_or(0, |s| s.position),
        );
        let slop = q.slop.saturating_add(width(first, last, slots.len()));
        self.push(
            boost,
            What::Phrase {
                slots,
                slop,
                ordered: q.slop == 0 || prefix,
            },
        );
    }

    /// Patterns with the fields they name; none given: all that texts are looked up in.
    fn fields_of_patterns(&self, patterns: &[(String, f32)]) -> Vec<(String, f32)> {
        let all = [("*".to_owned(), 1.0)];
        let patterns = if patterns.is_empty() { &all[..] } else { patterns };
        let mut out = Vec::new();
        for (pattern, boost) in patterns {
            out.extend(self.mapping.expand(pattern).into_iter().map(|path| (path, *boost)));
        }
        out
    }

    fn multi_match(&mut self, q: &MultiMatchQuery, boost: f32) {
        for (field, own) in self.fields_of_patterns(&q.fields) {
            let boost = boost * own;
            let phrase = |slop| MatchPhraseQuery {
                field: field.clone(),
                query: q.options.query.clone(),
                slop,
                analyzer: q.options.analyzer.clone(),
                zero_terms_query: q.options.zero_terms_query,
                max_expansions: q.options.max_expansions,
            };
            match q.kind {
                MultiMatchType::Phrase => self.phrase(&phrase(q.slop), boost, false),
                MultiMatchType::PhrasePrefix => self.phrase(&phrase(q.slop), boost, true),
                kind => {
                    let one = MatchQuery {
                        field: field.clone(),
                        ..q.options.clone()
                    };
                    self.words(&one, boost, kind == MultiMatchType::BoolPrefix);
                }
            }
        }
    }

    fn text_query(&mut self, q: &QueryStringQuery, syntax: &query_string::Syntax, boost: f32) {
        let fields = self.fields_of_patterns(&q.fields);
        let mapping = self.mapping;
        let expanded = query_string::expand_with(q, syntax, &fields, &mut |name| mapping.expand(name));
        // Patterns of these languages are normalized as the field's texts are.
        let normalized = expanded.rewrite(&mut |mut query| {
            if let Clause::Prefix(q) | Clause::Wildcard(q) = &mut query.clause
                && let Some(kind) = mapping.field(&q.field).filter(|k| k.kind.is_text())
                && let Reading::Text(analyzer) = reading(kind, self.registry)
            {
                q.value = analyzer.normalize(&q.value);
            }
            Ok(query)
        });
        if let Ok(query) = normalized {
            self.query(&query, boost);
        }
    }
}

fn fuzzy_of(text: &str, fuzziness: Fuzziness, prefix: u32, transpositions: bool) -> What {
    let text: Vec<char> = text.chars().collect();
    let edits = usize::from(fuzziness.edits(text.len()).min(2));
    What::Fuzzy {
        text,
        edits,
        prefix: prefix as usize,
        transpositions,
    }
}

/// A text as the one term that a field has of it.
fn whole(kind: &FieldType, text: String) -> String {
    kind.normalizer
        .as_ref()
        .map_or_else(|| text.clone(), |normalizer| normalizer.normalize(&text))
}

/// A scalar as text.
pub(super) fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
