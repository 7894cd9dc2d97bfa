//! The `match` family on one field: analysis, and what becomes of the tokens.

use super::Planner;
use super::boolean::{AllNode, BoolNode, ConstantNode, Shared};
use super::expand::Fuzz;
use super::field::{Target, query_shard, text_of};
use super::levenshtein::edits;
use super::minimum_should_match::minimum_should_match;
use super::phrase::{PhraseNode, Place};
use super::similarity::Rarity;
use super::term::SynonymNode;
use analysis::{Analyzer, Token};
use dsl::query::{MatchPhraseQuery, MatchQuery, Operator, ZeroTerms};
use model::{Error, Result};
use rustc_hash::FxHashSet;
use serde_json::Value;
use std::sync::Arc;
use tantivy::Term;

/// The tokens of a query's text by position.
pub(crate) type Positions = Vec<(u32, Vec<Token>)>;

/// Groups tokens by position, equal terms of one position once; each group keeps the order of its tokens.
pub(crate) fn by_position(mut tokens: Vec<Token>) -> Positions {
    // Mostly they come in order; a stable sort of those is one pass.
    tokens.sort_by_key(|token| token.position);
    let mut out: Positions = Vec::new();
    // The terms of the last group, once it is too long to be walked for each token.
    let mut seen: FxHashSet<String> = FxHashSet::default();
    for token in tokens {
        match out.last_mut() {
            Some((position, group)) if *position == token.position => {
                let known = if group.len() < WALKED_MOST {
                    group.iter().any(|t| t.term == token.term)
                } else {
                    if seen.is_empty() {
                        seen.extend(group.iter().map(|t| t.term.clone()));
                    }
                    !seen.insert(token.term.clone())
                };
                if !known {
                    group.push(token);
                }
            }
            _ => {
                seen.clear();
                out.push((token.position, vec![token]));
            }
        }
    }
    out
}

/// Terms of one position that are compared one by one; more are looked up by hash.
const WALKED_MOST: usize = 16;

/// May `lenient` pass over it? Not over what stops the whole query: a limit of clauses, the end of its time.
pub(super) fn is_about_field(error: &Error) -> bool {
    use model::ErrorKind::{SearchTimeout, TaskCancelled, TooManyClauses};
    !matches!(error.kind(), TooManyClauses | SearchTimeout | TaskCancelled)
}

impl Planner<'_> {
    /// The tokens of a query's text by position. Each position is a clause or a place of a phrase: analysis stops at the
    /// first that is one too many.
    ///
    /// # Errors
    /// `too_many_clauses`; what the analyzer says.
    pub(super) fn positions(&self, analyzer: &Analyzer, text: &str) -> Result<Positions> {
        self.cx.check_cancelled()?;
        let (max, mut count, mut highest) = (self.cx.max_clause_count, 0, None);
        let tokens = analyzer.try_analyze_while(text, &mut |token| {
            if highest.is_none_or(|highest| token.position > highest) {
                highest = Some(token.position);
                count += 1;
            }
            count <= max
        })?;
        if count > max {
            return Err(self.too_many_clauses());
        }
        Ok(by_position(tokens))
    }

    /// The analyzer of a query's text in a field; `None` for fields whose texts are one term.
    pub(crate) fn query_analyzer(&self, target: &Target<'_>, named: Option<&str>, quoted: bool) -> Result<Option<Analyzer>> {
        if let Some(name) = named {
            let found = self.view.registry.analyzer(name);
            return match found {
                Some(analyzer) => Ok(Some(analyzer)),
                None => Err(query_shard(self.view, format!("[match] analyzer [{name}] not found"))),
            };
        }
        if !target.kind.kind.is_text() {
            let words = || self.view.registry.analyzer("whitespace");
            let split = target.kind.split_queries_on_whitespace.then(words).flatten();
            return Ok(split.map(|words| match &target.kind.normalizer {
                Some(normalizer) => normalizer.after_tokenizer_of(&words),
                None => words,
            }));
        }
        let kind = target.kind;
        let quote = if quoted { kind.search_quote_analyzer.clone() } else { None };
        Ok(quote
            .or_else(|| kind.search_analyzer.clone())
            .or_else(|| kind.analyzer.clone())
            .or_else(|| self.view.registry.analyzer("default"))
            .or_else(|| self.view.registry.analyzer("standard")))
    }

    fn zero_terms(&self, zero: ZeroTerms, boost: f32) -> Shared {
        match zero {
            ZeroTerms::All => Arc::new(AllNode(boost)),
            ZeroTerms::None if self.absent.get() => Arc::new(super::boolean::NoneNode::absent()),
            ZeroTerms::None => self.nothing("no terms after analysis"),
        }
    }

    fn refuse_compound(value: &Value) -> Result<String> {
        match value {
            Value::Array(_) | Value::Object(_) => Err(Error::illegal("[match] unknown token in text to match")),
            value => Ok(text_of(value)),
        }
    }

    pub(super) fn match_query(&self, q: &MatchQuery, boost: f32) -> Result<Shared> {
        let text = Self::refuse_compound(&q.query)?;
        let Some(target) = Target::of(self.view, &q.field) else {
            if let Some(node) = self.meta_term(&q.field, &[&q.query], boost)? {
                return Ok(node);
            }
            return self.unmapped(q, &text, boost);
        };
        let result = self.match_in(&target, q, &text, boost);
        match result {
            Err(error) if q.lenient && is_about_field(&error) => {
                Ok(self.nothing(format!("failed to create query on [{}]", q.field)))
            }
            result => result,
        }
    }

    /// Words of a field that no document has: they find nothing, but counted in the norms of 2015.
    fn unmapped(&self, q: &MatchQuery, text: &str, boost: f32) -> Result<Shared> {
        let named = q.analyzer.as_deref().unwrap_or("default");
        let registry = &self.view.registry;
        let analyzer = registry.analyzer(named).or_else(|| registry.analyzer("standard"));
        let Some(analyzer) = analyzer.filter(|_| self.classic() && q.fuzziness.is_none()) else {
            return Ok(self.nothing(format!("unmapped field [{}]", q.field)));
        };
        let none = super::similarity::FieldStatistics { docs: 0, tokens: 0 };
        let one = |term: String| -> Shared {
            let what = format!("{}:{term}", q.field);
            let rarity = Rarity { term, doc_freq: 0 };
            let squares = self.similarity_of(None, none, vec![rarity], boost).squares();
            Arc::new(super::boolean::UnheldNode { what, boost, squares })
        };
        let tokens = self.positions(&analyzer, text)?.into_iter().flat_map(|(_, tokens)| tokens);
        let nodes: Vec<Shared> = tokens.map(|token| one(token.term)).collect();
        if nodes.is_empty() {
            return Ok(self.zero_terms(q.zero_terms_query, boost));
        }
        self.joined(nodes, q.operator, q.minimum_should_match.as_deref())
    }

    fn match_in(&self, target: &Target<'_>, q: &MatchQuery, text: &str, boost: f32) -> Result<Shared> {
        let Some(analyzer) = self.query_analyzer(target, q.analyzer.as_deref(), false)? else {
            if target.has_string_terms() {
                let text = self.query_text(target, text);
                return match q.fuzziness {
                    Some(f) => self.fuzzy_term(target, &text, self.fuzz(q, f, &text), boost),
                    None => self.scored_term(target, target.text_term(&text), &text, boost),
                };
            }
            return self.term_value(target, &q.query, boost);
        };
        if !target.has_string_terms() {
            return self.term_value(target, &q.query, boost);
        }
        let positions = self.positions(&analyzer, text)?;
        if positions.is_empty() {
            return Ok(self.zero_terms(q.zero_terms_query, boost));
        }
        if let Some(cutoff) = q
            .cutoff_frequency
            .filter(|_| positions.len() > 1 || q.high_frequency.is_some())
        {
            return self.common_terms(target, q, &positions, cutoff, boost);
        }
        let nodes = self.token_nodes(target, q, &positions, boost)?;
        self.joined(nodes, q.operator, q.minimum_should_match.as_deref())
    }

    /// Clauses one a position under an operator.
    pub(super) fn joined(&self, mut nodes: Vec<Shared>, operator: Operator, least: Option<&str>) -> Result<Shared> {
        if nodes.len() == 1 {
            return Ok(nodes.remove(0));
        }
        self.count_clauses(nodes.len())?;
        if self.cx.profile.get() {
            for node in nodes.iter_mut().filter(|node| node.as_term().is_some()) {
                let profiled = super::profile::ProfiledNode::of_term(node.clone());
                self.profile.borrow_mut().push(profiled.clone());
                *node = profiled;
            }
        }
        if operator == Operator::And {
            // No word is an option: a least number of options can only be 0.
            if let Some(spec) = least
                && minimum_should_match(spec, 0)? > 0
            {
                return Ok(self.nothing("No matching clauses"));
            }
            if nodes.iter().any(|n| n.is_none()) {
                return Ok(self.nothing("No matching clauses"));
            }
            return Ok(Arc::new(BoolNode {
                must: nodes,
                coordinated: self.classic(),
                ..BoolNode::default()
            }));
        }
        let least = match least {
            Some(spec) => minimum_should_match(spec, nodes.len())?.max(1),
            None => 1,
        };
        if least > nodes.len() {
            return Ok(self.nothing("No matching clauses"));
        }
        Ok(Arc::new(BoolNode {
            should: nodes,
            least,
            coordinated: self.classic(),
            ..BoolNode::default()
        }))
    }

    fn fuzz(&self, q: &MatchQuery, fuzziness: dsl::query::Fuzziness, text: &str) -> Fuzz {
        Fuzz {
            edits: edits(fuzziness, text),
            prefix: q.prefix_length,
            expansions: q.max_expansions,
            transpositions: q.fuzzy_transpositions,
            rewrite: q.fuzzy_rewrite,
        }
    }

    /// One clause a position; tokens that span several positions stand beside the phrase of what they span.
    pub(super) fn token_nodes(
        &self,
        target: &Target<'_>,
        q: &MatchQuery,
        positions: &Positions,
        boost: f32,
    ) -> Result<Vec<Shared>> {
        let mut nodes = Vec::new();
        let mut i = 0;
        while i < positions.len() {
            self.cx.check_cancelled()?;
            let (position, tokens) = &positions[i];
            let reach = tokens
                .iter()
                .map(|t| position + t.position_length.max(1))
                .max()
                .unwrap_or(position + 1);
            if reach == position + 1 {
                nodes.push(self.position_node(target, q, tokens, boost)?);
                i += 1;
                continue;
            }
            // A graph: every way through it is an alternative.
            let mut end = reach;
            let mut inside = i;
            while inside < positions.len() && positions[inside].0 < end {
                end = end.max(
                    positions[inside]
                        .1
                        .iter()
                        .map(|t| t.position + t.position_length.max(1))
                        .max()
                        .unwrap_or(end),
                );
                inside += 1;
            }
            let mut alternatives = Vec::new();
            for path in paths(&positions[i..inside], *position, end) {
                let words: Vec<&str> = path.iter().map(|t| t.term.as_str()).collect();
                alternatives.push(if words.len() == 1 {
                    self.scored_term(target, target.text_term(words[0]), words[0], boost)?
                } else if q.auto_generate_synonyms_phrase_query {
                    let places: Vec<(u32, Vec<String>)> = (0..).zip(&words).map(|(n, w)| (n, vec![(*w).to_owned()])).collect();
                    self.phrase(target, places, 0, boost)?
                } else {
                    let must = words
                        .iter()
                        .map(|w| self.scored_term(target, target.text_term(w), w, boost))
                        .collect::<Result<Vec<_>>>()?;
                    Arc::new(BoolNode {
                        must,
                        ..BoolNode::default()
                    })
                });
            }
            nodes.push(Arc::new(BoolNode {
                should: alternatives,
                least: 1,
                ..BoolNode::default()
            }));
            i = inside;
        }
        Ok(nodes)
    }

    fn position_node(&self, target: &Target<'_>, q: &MatchQuery, tokens: &[Token], boost: f32) -> Result<Shared> {
        match tokens {
            [token] => match q.fuzziness {
                Some(f) => self.fuzzy_term(target, &token.term, self.fuzz(q, f, &token.term), boost),
                None => self.scored_term(target, target.text_term(&token.term), &token.term, boost),
            },
            several => {
                let words: Vec<&str> = several.iter().map(|t| t.term.as_str()).collect();
                self.synonyms(target, &words, boost)
            }
        }
    }

    /// Several words that count as one.
    pub(super) fn synonyms(&self, target: &Target<'_>, words: &[&str], boost: f32) -> Result<Shared> {
        if self.classic() {
            // Each counted for itself, and nothing for how many there are.
            let one = |word: &&str| self.scored_term(target, target.text_term(word), word, boost);
            return Ok(Arc::new(BoolNode {
                should: words.iter().map(one).collect::<Result<_>>()?,
                least: 1,
                ..BoolNode::default()
            }));
        }
        let terms: Vec<Term> = words.iter().map(|w| target.text_term(w)).collect();
        let mut doc_freq = 0;
        for term in &terms {
            doc_freq = doc_freq.max(self.statistics.doc_freq(term)?);
        }
        if doc_freq == 0 {
            return Ok(self.nothing(format!("no matching term [{}:{}]", target.path, words.join(" "))));
        }
        let field = self.statistics.field(target)?;
        let shown: Vec<String> = words.iter().map(|w| format!("{}:{w}", target.path)).collect();
        let rarity = Rarity {
            term: words.join(" "),
            doc_freq,
        };
        Ok(Arc::new(SynonymNode {
            terms,
            similarity: self.similarity(target, field, vec![rarity], boost * self.boost_of_several(target)),
            what: format!("Synonym({})", shown.join(" ")),
        }))
    }

    /// Words at positions.
    pub(super) fn phrase(&self, target: &Target<'_>, places: Vec<(u32, Vec<String>)>, slop: u32, boost: f32) -> Result<Shared> {
        let mut found = Vec::with_capacity(places.len());
        for (offset, words) in &places {
            found.push(Place {
                terms: words.iter().map(|w| target.text_term(w)).collect(),
                offset: *offset,
            });
        }
        self.phrase_of_terms(target, found, slop, boost, &places)
    }

    fn phrase_of_terms(
        &self,
        target: &Target<'_>,
        places: Vec<Place>,
        slop: u32,
        boost: f32,
        words: &[(u32, Vec<String>)],
    ) -> Result<Shared> {
        let first = places.iter().map(|p| p.offset).min().unwrap_or(0);
        let places: Vec<Place> = places
            .into_iter()
            .map(|p| Place {
                offset: p.offset - first,
                ..p
            })
            .collect();
        if !target.slot.shape.positions || !target.kind.kind.is_text() {
            let reason = format!(
                "field:[{}] was indexed without position data; cannot run PhraseQuery",
                target.path
            );
            return Err(query_shard(self.view, reason.clone()).caused_by(Error::new(model::ErrorKind::IllegalState, reason)));
        }
        let mut rarities = Vec::new();
        for place in &places {
            self.cx.check_cancelled()?;
            let mut any = false;
            for term in &place.terms {
                let text = term.value().as_str().unwrap_or_default().to_owned();
                let rarity = self.statistics.rarity(term, &text)?;
                if rarity.doc_freq > 0 {
                    any = true;
                    rarities.push(rarity);
                }
            }
            if !any {
                return Ok(self.nothing("no matching phrase"));
            }
        }
        let field = self.statistics.field(target)?;
        let shown: Vec<String> = words
            .iter()
            .map(|(_, w)| {
                if w.len() == 1 {
                    w[0].clone()
                } else {
                    format!("({})", w.join(" "))
                }
            })
            .collect();
        let slop_shown = if slop == 0 { String::new() } else { format!("~{slop}") };
        Ok(Arc::new(PhraseNode {
            places,
            slop,
            similarity: self.similarity(target, field, rarities, boost * self.boost_of_several(target)),
            what: format!("{}:\"{}\"{slop_shown}", target.path, shown.join(" ")),
        }))
    }

    pub(super) fn match_phrase(&self, q: &MatchPhraseQuery, boost: f32) -> Result<Shared> {
        let text = Self::refuse_compound(&q.query)?;
        let Some(target) = Target::of(self.view, &q.field) else {
            if let Some(node) = self.meta_term(&q.field, &[&q.query], boost)? {
                return Ok(node);
            }
            return Ok(self.nothing(format!("unmapped field [{}]", q.field)));
        };
        let analyzer = self.query_analyzer(&target, q.analyzer.as_deref(), true)?;
        let Some(analyzer) = analyzer.filter(|_| target.has_string_terms()) else {
            return self.term_value(&target, &q.query, boost);
        };
        let positions = self.positions(&analyzer, &text)?;
        self.phrase_of(&target, &positions, q.slop, q.zero_terms_query, boost)
    }

    pub(super) fn phrase_of(
        &self,
        target: &Target<'_>,
        positions: &Positions,
        slop: u32,
        zero: ZeroTerms,
        boost: f32,
    ) -> Result<Shared> {
        match positions.as_slice() {
            [] => Ok(self.zero_terms(zero, boost)),
            [(_, tokens)] => {
                let words: Vec<&str> = tokens.iter().map(|t| t.term.as_str()).collect();
                match words.as_slice() {
                    [word] => self.scored_term(target, target.text_term(word), word, boost),
                    several => self.synonyms(target, several, boost),
                }
            }
            several => {
                if several.iter().any(|(_, tokens)| tokens.iter().any(|t| t.position_length > 1)) {
                    let start = several.first().map_or(0, |(p, _)| *p);
                    let end = several
                        .iter()
                        .flat_map(|(_, t)| t)
                        .map(|t| t.position + t.position_length)
                        .max()
                        .unwrap_or(0);
                    let mut should = Vec::new();
                    for path in paths(several, start, end) {
                        let places = (0..).zip(&path).map(|(n, t)| (n, vec![t.term.clone()])).collect();
                        should.push(if path.len() == 1 {
                            self.scored_term(target, target.text_term(&path[0].term), &path[0].term, boost)?
                        } else {
                            self.phrase(target, places, slop, boost)?
                        });
                    }
                    return Ok(Arc::new(BoolNode {
                        should,
                        least: 1,
                        ..BoolNode::default()
                    }));
                }
                let words = several
                    .iter()
                    .map(|(p, tokens)| (*p, tokens.iter().map(|t| t.term.clone()).collect()))
                    .collect();
                self.phrase(target, words, slop, boost)
            }
        }
    }

    pub(super) fn match_phrase_prefix(&self, q: &MatchPhraseQuery, boost: f32) -> Result<Shared> {
        let text = Self::refuse_compound(&q.query)?;
        let Some(target) = Target::of(self.view, &q.field) else {
            return Ok(self.nothing(format!("unmapped field [{}]", q.field)));
        };
        let analyzer = self.query_analyzer(&target, q.analyzer.as_deref(), true)?;
        if !target.kind.kind.is_text() {
            let reason = format!(
                "Can only use phrase prefix queries on text fields - not on [{}] which is of type [{}]",
                q.field,
                target.kind.wire()
            );
            return Err(self.failed_to_create(Error::illegal(reason)));
        }
        let positions = match analyzer {
            Some(analyzer) => self.positions(&analyzer, &text)?,
            None => Vec::new(),
        };
        let Some(((last_position, last), before)) = positions.split_last() else {
            return Ok(self.zero_terms(q.zero_terms_query, boost));
        };
        let mut expanded = Vec::new();
        for token in last {
            expanded.extend(self.expand_prefix(&target, &token.term, (q.max_expansions as usize).max(1))?);
        }
        if expanded.is_empty() {
            return Ok(self.nothing("no matching phrase"));
        }
        if before.is_empty() {
            if self.view.typed {
                let filter = self.filter(expanded, 1.0, format!("{}:{text}*", target.path));
                return Ok(Arc::new(ConstantNode { filter, boost }));
            }
            // A phrase of one place is any of its words, each scored.
            let words = expanded.into_iter().map(|term| {
                let word = String::from_utf8_lossy(term.serialized_value_bytes()).into_owned();
                self.scored_term(&target, term, &word, boost)
            });
            return Ok(Arc::new(BoolNode {
                should: words.collect::<Result<_>>()?,
                least: 1,
                ..BoolNode::default()
            }));
        }
        let mut words: Vec<(u32, Vec<String>)> = before
            .iter()
            .map(|(p, tokens)| (*p, tokens.iter().map(|t| t.term.clone()).collect()))
            .collect();
        let mut places: Vec<Place> = words
            .iter()
            .map(|(p, w)| Place {
                terms: w.iter().map(|w| target.text_term(w)).collect(),
                offset: *p,
            })
            .collect();
        words.push((*last_position, last.iter().map(|t| format!("{}*", t.term)).collect()));
        places.push(Place {
            terms: expanded,
            offset: *last_position,
        });
        self.phrase_of_terms(&target, places, q.slop, boost, &words)
    }

    pub(super) fn match_bool_prefix(&self, q: &MatchQuery, boost: f32) -> Result<Shared> {
        let text = Self::refuse_compound(&q.query)?;
        let Some(target) = Target::of(self.view, &q.field) else {
            return Ok(self.nothing(format!("unmapped field [{}]", q.field)));
        };
        let Some(analyzer) = self.query_analyzer(&target, q.analyzer.as_deref(), false)? else {
            if !target.has_string_terms() {
                return self.term_value(&target, &q.query, boost);
            }
            let pattern = super::Pattern::prefix(&self.query_text(&target, &text), false)?;
            return Ok(self.matching_terms(&target, pattern, boost, format!("{}:{text}*", target.path)));
        };
        let positions = self.positions(&analyzer, &text)?;
        // A last word that something follows, be it a comma or a word that is left out, is whole.
        let open = |tokens: &Vec<Token>| tokens.iter().any(|token| token.end >= text.len());
        let Some(((_, last), before)) = positions.split_last().filter(|((_, last), _)| open(last)) else {
            if positions.is_empty() {
                return Ok(self.zero_terms(q.zero_terms_query, boost));
            }
            let nodes = self.token_nodes(&target, q, &positions, boost)?;
            return self.joined(nodes, q.operator, q.minimum_should_match.as_deref());
        };
        let mut nodes = self.token_nodes(&target, q, &before.to_vec(), boost)?;
        if let Some(token) = last.first() {
            let pattern = super::Pattern::prefix(&token.term, false)?;
            nodes.push(self.matching_terms(&target, pattern, boost, format!("{}:{}*", target.path, token.term)));
        }
        self.joined(nodes, q.operator, q.minimum_should_match.as_deref())
    }
}

/// Every way through a graph of tokens, at most 64 of them.
fn paths(positions: &[(u32, Vec<Token>)], start: u32, end: u32) -> Vec<Vec<Token>> {
    let mut done: Vec<Vec<Token>> = Vec::new();
    let mut open: Vec<(u32, Vec<Token>)> = vec![(start, Vec::new())];
    while let Some((at, path)) = open.pop() {
        if at >= end {
            done.push(path);
            if done.len() >= 64 {
                break;
            }
            continue;
        }
        match positions.binary_search_by_key(&at, |(position, _)| *position) {
            Err(_) => open.push((at + 1, path)),
            Ok(found) => {
                let tokens = &positions[found].1;
                for token in tokens.iter().rev() {
                    let mut longer = path.clone();
                    longer.push(token.clone());
                    open.push((at + token.position_length.max(1), longer));
                }
            }
        }
        if open.len() > 256 {
            break;
        }
    }
    done.retain(|path| !path.is_empty());
    done
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn token(term: &str, position: u32) -> Token {
        Token {
            term: term.to_owned(),
            start: 0,
            end: 0,
            position,
            position_length: 1,
            kind: analysis::TokenKind::Word,
            keyword: false,
        }
    }

    #[test]
    fn tokens_are_grouped_in_order_and_once() {
        let given = [("c", 4), ("a", 1), ("b", 1), ("a", 1), ("d", 2), ("b", 1)];
        let grouped = by_position(given.iter().map(|(term, position)| token(term, *position)).collect());
        let shown: Vec<(u32, String)> = grouped
            .iter()
            .map(|(position, tokens)| (*position, tokens.iter().map(|t| t.term.as_str()).collect()))
            .collect();
        assert_eq!(shown, [(1, "ab".to_owned()), (2, "d".to_owned()), (4, "c".to_owned())]);
        let many: Vec<String> = (0..40).chain(0..40).map(|n| format!("t{n}")).collect();
        let grouped = by_position(many.iter().map(|term| token(term, 0)).collect());
        let terms: Vec<&str> = grouped[0].1.iter().map(|t| t.term.as_str()).collect();
        assert_eq!(terms, many[..40]);
    }

    #[test]
    fn many_positions_and_many_terms_of_one_are_grouped_quickly() {
        const TOKENS: u32 = 200_000;
        let started = Instant::now();
        assert_eq!(
            by_position((0..TOKENS).map(|n| token("word", n)).collect()).len(),
            TOKENS as usize
        );
        let one = by_position((0..TOKENS).map(|n| token(&n.to_string(), 0)).collect());
        assert_eq!(one[0].1.len(), TOKENS as usize);
        // Each compared with those before, this takes minutes.
        assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    }
}
