//! `multi_match`: one text over several fields.

use super::Planner;
use super::analyzed_text::is_about_field;
use crate::fields::target::{Target, text_of};
use crate::scorers::bool::BoolNode;
use crate::scorers::dis_max::{DisMaxNode, dis_max};
use crate::scorers::match_all::UnheldNode;
use crate::scorers::node::Shared;
use crate::scorers::similarity::Rarity;
use crate::scorers::term::TermNode;
use dsl::query::{MatchPhraseQuery, MatchQuery, MultiMatchQuery, MultiMatchType};
use model::Result;
use std::sync::Arc;

/// The document frequencies that a word is scored with in several fields, from its own in each: that of the field where it is
/// commonest, and one more for each that is rarer (the tie of Lucene's `BlendedTermQuery`). Fields without the word have 0.
fn blended_doc_freqs(own: &[u64], max_docs: u64) -> Vec<u64> {
    let mut order: Vec<usize> = (0..own.len()).collect();
    order.sort_by(|a, b| own[*b].cmp(&own[*a]));
    let mut blended = vec![0u64; own.len()];
    let max = own.iter().copied().max().unwrap_or(0);
    let (mut actual, mut prev) = (max.min(max_docs), max);
    for i in &order {
        if own[*i] == 0 {
            break;
        }
        if prev > own[*i] {
            actual += 1;
        }
        prev = own[*i];
        blended[*i] = actual.min(max_docs);
    }
    blended
}

impl Planner<'_> {
    /// The fields that patterns stand for, with their boosts; none given: everything that a text can be looked up in.
    pub(crate) fn search_fields(&self, patterns: &[(String, f32)]) -> Vec<(String, f32)> {
        let mut default = Vec::new();
        let patterns = if patterns.is_empty() {
            match self.view.settings.get("index.query.default_field") {
                Some(serde_json::Value::Array(list)) => default.extend(list.iter().map(|v| (text_of(v), 1.0))),
                Some(serde_json::Value::String(one)) => default.extend(one.split(',').map(|p| (p.trim().to_owned(), 1.0))),
                _ if self.view.rules().has_all_field => default.push((mapping::ALL.to_owned(), 1.0)),
                _ => default.push(("*".to_owned(), 1.0)),
            }
            &default
        } else {
            patterns
        };
        let mut out: Vec<(String, f32)> = Vec::new();
        // A field that several patterns mean has their boosts multiplied; of one that is named twice the last counts.
        let mut put = |path: String, boost: f32| match out.iter_mut().find(|(known, _)| *known == path) {
            Some((_, known)) => *known *= boost,
            None => out.push((path, boost)),
        };
        for (at, (pattern, boost)) in patterns.iter().enumerate() {
            if patterns[at + 1..].iter().any(|(later, _)| later == pattern) {
                continue;
            }
            if !pattern.contains('*') {
                put(pattern.clone(), *boost);
                continue;
            }
            for path in self.view.mapping.expand(pattern) {
                let Some(target) = Target::of(self.view, &path) else {
                    continue;
                };
                let kind = target.kind.kind;
                let whole = pattern == "*";
                let fits = kind.is_text() || kind.is_keyword() || kind.is_numeric() && !whole || whole && kind.is_numeric();
                let nested = self.view.mapping.nested_path_of(&path).map(str::to_owned) != self.path;
                if (fits || kind.is_date() || kind == mapping::Kind::Boolean || kind == mapping::Kind::Ip) && !nested {
                    put(path, *boost);
                }
            }
        }
        out
    }

    pub(super) fn multi_match(&self, q: &MultiMatchQuery, boost: f32) -> Result<Shared> {
        let lenient = q.options.lenient
            || q.fields.is_empty() && !self.view.rules().has_all_field
            || q.fields.iter().any(|(f, _)| f == "*");
        let fields = self.search_fields(&q.fields);
        if q.kind == MultiMatchType::CrossFields {
            return self.cross_fields(q, &fields, lenient, boost);
        }
        let mut nodes = Vec::new();
        let mut absent = self.absent.get();
        for (field, field_boost) in &fields {
            let boost = boost * field_boost;
            let one = MatchQuery {
                field: field.clone(),
                lenient,
                ..q.options.clone()
            };
            let phrase = || MatchPhraseQuery {
                field: field.clone(),
                query: q.options.query.clone(),
                slop: q.slop,
                analyzer: q.options.analyzer.clone(),
                zero_terms_query: q.options.zero_terms_query,
                max_expansions: q.options.max_expansions,
            };
            let node = match q.kind {
                MultiMatchType::Phrase => self.match_phrase(&phrase(), boost),
                MultiMatchType::PhrasePrefix => self.match_phrase_prefix(&phrase(), boost),
                MultiMatchType::BoolPrefix => self.match_bool_prefix(&one, boost),
                _ => self.match_query(&one, boost),
            };
            match node {
                Ok(node) if node.is_none() => absent &= node.is_absent(),
                Ok(node) => nodes.push(node),
                Err(error) if lenient && is_about_field(&error) => absent = false,
                Err(error) => return Err(error),
            }
        }
        if nodes.is_empty() && absent {
            return Ok(Arc::new(crate::scorers::match_all::NoneNode::absent()));
        }
        if nodes.is_empty() {
            return Ok(self.nothing("no field matches"));
        }
        let default = match q.kind {
            MultiMatchType::MostFields | MultiMatchType::BoolPrefix => 1.0,
            _ => 0.0,
        };
        let tie = q.tie_breaker.unwrap_or(default);
        if (tie - 1.0).abs() < f32::EPSILON && nodes.len() > 1 {
            return Ok(Arc::new(BoolNode {
                should: nodes,
                least: 1,
                coordinated: self.classic(),
                ..BoolNode::default()
            }));
        }
        Ok(dis_max(nodes, tie))
    }

    /// Every word in any field, with the frequencies of all fields blended; fields grouped by analyzer.
    fn cross_fields(&self, q: &MultiMatchQuery, fields: &[(String, f32)], lenient: bool, boost: f32) -> Result<Shared> {
        let text = text_of(&q.options.query);
        let tie = q.tie_breaker.unwrap_or(0.0);
        let mut groups: Vec<(String, Vec<(Target<'_>, f32)>)> = Vec::new();
        let mut others = Vec::new();
        for (field, field_boost) in fields {
            let Some(target) = Target::of(self.view, field) else {
                continue;
            };
            if !target.has_string_terms() {
                let one = MatchQuery {
                    field: field.clone(),
                    ..q.options.clone()
                };
                match self.match_query(&one, boost * field_boost) {
                    Ok(node) => others.push(node),
                    Err(error) if !lenient || !is_about_field(&error) => return Err(error),
                    Err(_) => {}
                }
                continue;
            }
            let analyzer = self.query_analyzer(&target, q.options.analyzer.as_deref(), false)?;
            let name = analyzer.map_or_else(|| "keyword".to_owned(), |a| a.name().to_owned());
            match groups.iter_mut().find(|(known, _)| *known == name) {
                Some((_, group)) => group.push((target, *field_boost)),
                None => groups.push((name, vec![(target, *field_boost)])),
            }
        }
        let mut nodes = Vec::new();
        for (_, group) in &groups {
            let Some((first, _)) = group.first() else { continue };
            let words: Vec<Vec<String>> = match self.query_analyzer(first, q.options.analyzer.as_deref(), false)? {
                Some(analyzer) => self
                    .positions(&analyzer, &text)?
                    .into_iter()
                    .map(|(_, tokens)| tokens.into_iter().map(|t| t.term).collect())
                    .collect(),
                None => vec![vec![self.query_text(first, &text)]],
            };
            let mut clauses = Vec::new();
            for word in &words {
                let mut of_word = Vec::new();
                for term in word {
                    of_word.push(self.blend(group, term, tie, boost)?);
                }
                clauses.push(if of_word.len() == 1 {
                    of_word.remove(0)
                } else {
                    Arc::new(BoolNode {
                        should: of_word,
                        least: 1,
                        ..BoolNode::default()
                    })
                });
            }
            if !clauses.is_empty() {
                nodes.push(self.combine_by_operator(clauses, q.options.operator, q.options.minimum_should_match.as_deref())?);
            }
        }
        nodes.extend(others);
        if nodes.is_empty() {
            return Ok(self.nothing("no field matches"));
        }
        Ok(dis_max(nodes, tie))
    }

    /// A term in several fields, each scored as if it were as common as in the field where it is commonest.
    fn blend(&self, group: &[(Target<'_>, f32)], text: &str, tie: f32, boost: f32) -> Result<Shared> {
        let mut freqs = Vec::new();
        let (mut max, mut min_tokens) = (0u64, u64::MAX);
        for (target, _) in group {
            let freq = self.statistics.doc_freq(&target.text_term(text))?;
            let field = self.statistics.field(target)?;
            max = max.max(freq);
            min_tokens = min_tokens.min(field.tokens);
            freqs.push((freq, field));
        }
        let shown: Vec<String> = group.iter().map(|(target, _)| format!("{}:{text}", target.path)).collect();
        let what = match shown.as_slice() {
            [one] => one.clone(),
            several => format!("blended(terms:[{}])", several.join(", ")),
        };
        if max == 0 && self.classic() {
            let all = crate::seen::docs(self.view);
            let weight = boost * crate::scorers::tfidf::idf(0, all);
            return Ok(Arc::new(UnheldNode {
                what,
                boost,
                squares: weight * weight,
            }));
        }
        if max == 0 {
            return Ok(self.nothing(format!("no matching term [{text}]")));
        }
        // No word is in more documents than the field of the fewest words has words: Lucene's bound.
        let all = crate::seen::docs(self.view);
        let max_docs = all.min(min_tokens);
        let own: Vec<u64> = freqs.iter().map(|(freq, _)| *freq).collect();
        let df = blended_doc_freqs(&own, max_docs);
        let mut nodes: Vec<Shared> = Vec::new();
        for (i, (target, field_boost)) in group.iter().enumerate() {
            let (freq, field) = freqs[i];
            // In a norm a word counts in fields too that do not have it.
            if freq == 0 && !self.classic() {
                continue;
            }
            let norms = target.kind.kind.is_text();
            let similarity = self.similarity(
                target,
                field,
                vec![Rarity {
                    term: text.to_owned(),
                    doc_freq: if self.classic() { df[i] } else { df[i].min(field.docs) },
                }],
                boost * field_boost * target.kind.boost,
            );
            nodes.push(Arc::new(TermNode {
                filters: self.view.filters.clone(),
                term: target.text_term(text),
                similarity,
                norms,
                what: format!("{}:{text}", target.path),
                of_roots: self.view.mapping.nested_path_of(target.path).is_none(),
            }));
        }
        if nodes.len() == 1 {
            return Ok(dis_max(nodes, tie));
        }
        Ok(Arc::new(DisMaxNode {
            nodes,
            tie_breaker: tie,
            what: Some(what),
        }))
    }
}
