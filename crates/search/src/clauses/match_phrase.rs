//! `match_phrase` and `match_phrase_prefix` on one field.

use super::Planner;
use super::analyzed_text::Positions;
use crate::fields::target::{Target, query_shard};
use crate::scorers::bool::BoolNode;
use crate::scorers::constant_score::ConstantNode;
use crate::scorers::node::Shared;
use crate::scorers::phrase::{PhraseNode, PhrasePosition};
use analysis::Token;
use dsl::query::{MatchPhraseQuery, ZeroTerms};
use model::{Error, Result};
use std::sync::Arc;

impl Planner<'_> {
    /// Words at positions.
    pub(super) fn phrase(&self, target: &Target<'_>, places: Vec<(u32, Vec<String>)>, slop: u32, boost: f32) -> Result<Shared> {
        let mut found = Vec::with_capacity(places.len());
        for (offset, words) in &places {
            found.push(PhrasePosition {
                terms: words.iter().map(|w| target.text_term(w)).collect(),
                offset: *offset,
            });
        }
        self.phrase_of_terms(target, found, slop, boost, &places)
    }

    fn phrase_of_terms(
        &self,
        target: &Target<'_>,
        places: Vec<PhrasePosition>,
        slop: u32,
        boost: f32,
        words: &[(u32, Vec<String>)],
    ) -> Result<Shared> {
        let first = places.iter().map(|p| p.offset).min().unwrap_or(0);
        let places: Vec<PhrasePosition> = places
            .into_iter()
            .map(|p| PhrasePosition {
                offset: p.offset - first,
                ..p
            })
            .collect();
        if !target.slot.shape.positions || !target.kind.kind.is_text() {
            let reason = format!(
                "field:[{}] was indexed without position data; cannot run PhraseQuery",
                target.path
            );
            return Err(query_shard(self.view, reason.clone()).with_cause(Error::new(model::ErrorKind::IllegalState, reason)));
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
        let boost = boost * self.boost_of_several(target);
        let slop_shown = if slop == 0 { String::new() } else { format!("~{slop}") };
        Ok(Arc::new(PhraseNode {
            places,
            slop,
            similarity: self.similarity(target, field, rarities, boost),
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
            if self.view.rules().phrase_prefixes_score_once {
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
        let mut places: Vec<PhrasePosition> = words
            .iter()
            .map(|(p, w)| PhrasePosition {
                terms: w.iter().map(|w| target.text_term(w)).collect(),
                offset: *p,
            })
            .collect();
        words.push((*last_position, last.iter().map(|t| format!("{}*", t.term)).collect()));
        places.push(PhrasePosition {
            terms: expanded,
            offset: *last_position,
        });
        self.phrase_of_terms(&target, places, q.slop, boost, &words)
    }
}

/// Every way through a graph of tokens, at most 64 of them.
pub(super) fn paths(positions: &[(u32, Vec<Token>)], start: u32, end: u32) -> Vec<Vec<Token>> {
    debug_assert!(
        positions.is_sorted_by(|(a, _), (b, _)| a < b),
        "positions of a text rise: a way goes from one to the next"
    );
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
