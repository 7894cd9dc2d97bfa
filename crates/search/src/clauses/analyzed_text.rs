//! Analyzed text as clauses: the tokens of each position, synonyms, and their combination by an operator.

use super::Planner;
use super::match_phrase::paths;
use super::minimum_should_match::minimum_should_match;
use crate::fields::target::{Target, query_shard};
use crate::scorers::bool::BoolNode;
use crate::scorers::node::Shared;
use crate::scorers::similarity::Rarity;
use crate::scorers::synonym::SynonymNode;
use analysis::{Analyzer, Token};
use dsl::query::{MatchQuery, Operator};
use model::{Error, Result};
use rustc_hash::FxHashSet;
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

    /// Clauses one a position under an operator.
    pub(super) fn combine_by_operator(&self, mut nodes: Vec<Shared>, operator: Operator, least: Option<&str>) -> Result<Shared> {
        if nodes.len() == 1 {
            return Ok(nodes.remove(0));
        }
        self.count_clauses(nodes.len())?;
        if self.cx.is_profiled() {
            for node in nodes.iter_mut().filter(|node| node.as_term().is_some()) {
                let profiled = crate::scorers::profile::ProfiledNode::of_term(node.clone());
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
