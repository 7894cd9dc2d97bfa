//! `match` and `match_bool_prefix` on one field.

use super::Planner;
use super::analyzed_text::is_about_field;
use super::multi_term::Fuzz;
use crate::automata::levenshtein::edits;
use crate::automata::regexp::Pattern;
use crate::fields::target::{Target, text_of};
use crate::scorers::match_all::AllNode;
use crate::scorers::node::Shared;
use crate::scorers::similarity::Rarity;
use analysis::Token;
use dsl::query::{MatchQuery, ZeroTerms};
use model::{Error, Result};
use serde_json::Value;
use std::sync::Arc;

impl Planner<'_> {
    pub(super) fn zero_terms(&self, zero: ZeroTerms, boost: f32) -> Shared {
        match zero {
            ZeroTerms::All => Arc::new(AllNode(boost)),
            ZeroTerms::None if self.absent.get() => Arc::new(crate::scorers::match_all::NoneNode::absent()),
            ZeroTerms::None => self.nothing("no terms after analysis"),
        }
    }

    pub(super) fn refuse_compound(value: &Value) -> Result<String> {
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
            return self.match_unmapped(q, &text, boost);
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
    fn match_unmapped(&self, q: &MatchQuery, text: &str, boost: f32) -> Result<Shared> {
        let named = q.analyzer.as_deref().unwrap_or("default");
        let registry = &self.view.registry;
        let analyzer = registry.analyzer(named).or_else(|| registry.analyzer("standard"));
        let Some(analyzer) = analyzer.filter(|_| self.classic() && q.fuzziness.is_none()) else {
            return Ok(self.nothing(format!("unmapped field [{}]", q.field)));
        };
        let none = crate::scorers::similarity::FieldStatistics { docs: 0, tokens: 0 };
        let one = |term: String| -> Shared {
            let what = format!("{}:{term}", q.field);
            let rarity = Rarity { term, doc_freq: 0 };
            let squares = self.similarity_of(None, none, vec![rarity], boost).squares();
            Arc::new(crate::scorers::match_all::UnheldNode { what, boost, squares })
        };
        let tokens = self.positions(&analyzer, text)?.into_iter().flat_map(|(_, tokens)| tokens);
        let nodes: Vec<Shared> = tokens.map(|token| one(token.term)).collect();
        if nodes.is_empty() {
            return Ok(self.zero_terms(q.zero_terms_query, boost));
        }
        self.combine_by_operator(nodes, q.operator, q.minimum_should_match.as_deref())
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
        self.combine_by_operator(nodes, q.operator, q.minimum_should_match.as_deref())
    }

    pub(super) fn fuzz(&self, q: &MatchQuery, fuzziness: dsl::query::Fuzziness, text: &str) -> Fuzz {
        Fuzz {
            edits: edits(fuzziness, text),
            prefix: q.prefix_length,
            expansions: q.max_expansions,
            transpositions: q.fuzzy_transpositions,
            rewrite: q.fuzzy_rewrite,
        }
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
            let pattern = Pattern::prefix(&self.query_text(&target, &text), false)?;
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
            return self.combine_by_operator(nodes, q.operator, q.minimum_should_match.as_deref());
        };
        let mut nodes = self.token_nodes(&target, q, &before.to_vec(), boost)?;
        if let Some(token) = last.first() {
            let pattern = Pattern::prefix(&token.term, false)?;
            nodes.push(self.matching_terms(&target, pattern, boost, format!("{}:{}*", target.path, token.term)));
        }
        self.combine_by_operator(nodes, q.operator, q.minimum_should_match.as_deref())
    }
}
