//! `more_like_this`: the words that are typical of some texts or documents, as a choice of terms.
//!
//! Chosen as Lucene's `MoreLikeThis` does: by their frequency there, times how rare they are in the index. Documents to be
//! like are read from the same view; those of other indices are refused.

use super::{Planner, minimum_should_match};
use crate::fields::target::{Target, text_of};
use crate::scorers::bool::BoolNode;
use crate::scorers::node::Shared;
use dsl::query::{Like, MoreLikeThisQuery};
use model::{DocAddress, DocId, Error, Result};
use segment::stored_document::{load_document, locate};
use serde_json::Value;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// How often each term stands in what is to be alike.
type Frequencies = BTreeMap<String, u64>;

impl Planner<'_> {
    pub(super) fn more_like_this(&self, q: &MoreLikeThisQuery, boost: f32) -> Result<Shared> {
        let fields = self.like_fields(q)?;
        if fields.is_empty() {
            return Ok(self.nothing("no field has words to be like"));
        }
        let (mut texts, mut docs, mut ids) = (Vec::new(), Vec::new(), Vec::new());
        for like in &q.like {
            self.collect_like(like, &mut texts, &mut docs, &mut ids)?;
        }
        let skipped = self.skipped_words(q, &fields)?;
        let mut options = Vec::new();
        for field in &fields {
            let mut found = Frequencies::new();
            for doc in &docs {
                for (word, count) in self.words_of(field, q, doc)? {
                    *found.entry(word).or_default() += count;
                }
            }
            if !found.is_empty() {
                options.push(self.typical(q, std::slice::from_ref(field), found, &skipped, boost)?);
            }
        }
        if !docs.is_empty() {
            // All fields of the documents are one choice.
            let all: Vec<Shared> = options.drain(..).flatten().collect();
            options.push(all);
        }
        if !texts.is_empty() {
            let mut found = Frequencies::new();
            for text in &texts {
                for word in self.words(&fields[0], q, text)? {
                    *found.entry(word).or_default() += 1;
                }
            }
            options.push(self.typical(q, &fields, found, &skipped, boost)?);
        }
        let mut should: Vec<Shared> = Vec::new();
        for terms in options.into_iter().filter(|terms| !terms.is_empty()) {
            self.count_clauses(terms.len())?;
            let least = minimum_should_match::minimum_should_match(&q.minimum_should_match, terms.len())?.max(1);
            should.push(Arc::new(BoolNode {
                should: terms,
                least,
                coordinated: self.classic(),
                ..BoolNode::default()
            }));
        }
        if should.is_empty() {
            return Ok(self.nothing("nothing typical to be like"));
        }
        let mut node = BoolNode {
            should,
            least: 1,
            ..BoolNode::default()
        };
        if !q.include && !ids.is_empty() {
            node.must_not.push(self.ids(&ids, &[], 1.0));
        }
        Ok(Arc::new(node))
    }

    /// The fields with words that are asked for.
    fn like_fields(&self, q: &MoreLikeThisQuery) -> Result<Vec<String>> {
        let mut out = Vec::new();
        let all = q.fields.is_empty();
        let names: Vec<String> = if all { vec!["*".into()] } else { q.fields.clone() };
        for name in names {
            for path in self.view.mapping.expand(&name) {
                let Some(target) = Target::of(self.view, &path) else {
                    continue;
                };
                let fits = target.kind.kind.is_text() || target.kind.kind.is_keyword();
                if fits && self.view.mapping.nested_path_of(&path).map(str::to_owned) == self.path {
                    out.push(path);
                } else if !fits && !all && q.fail_on_unsupported_field {
                    return Err(Error::illegal(format!(
                        "more_like_this only supports text/keyword fields: [{path}]"
                    )));
                }
            }
        }
        Ok(out)
    }

    /// The words that are not typical of anything: stop words, and those of what is to be unlike.
    fn skipped_words(&self, q: &MoreLikeThisQuery, fields: &[String]) -> Result<HashSet<String>> {
        let (mut texts, mut docs) = (Vec::new(), Vec::new());
        for like in &q.unlike {
            self.collect_like(like, &mut texts, &mut docs, &mut Vec::new())?;
        }
        let mut skipped: HashSet<String> = q.stop_words.iter().cloned().collect();
        for field in fields {
            for text in &texts {
                skipped.extend(self.words(field, q, text)?);
            }
            for doc in &docs {
                skipped.extend(self.words_of(field, q, doc)?.into_keys());
            }
        }
        Ok(skipped)
    }

    /// Sorts what is to be alike into texts and documents.
    fn collect_like(&self, like: &Like, texts: &mut Vec<String>, docs: &mut Vec<Value>, ids: &mut Vec<String>) -> Result<()> {
        match like {
            Like::Text(text) => texts.push(text.clone()),
            Like::Made(doc) => docs.push(doc.clone()),
            Like::Doc { index, doc_type, id } => {
                if let Some(index) = index.as_deref().filter(|index| *index != self.view.name.as_str()) {
                    return Err(Error::illegal(format!(
                        "[more_like_this] of [{}] cannot be like a document of another index [{index}]",
                        self.view.name
                    )));
                }
                ids.push(id.clone());
                let own = match doc_type.as_deref().or_else(|| self.cx.types.first().map(String::as_str)) {
                    Some(doc_type) if self.view.typed => DocId::with_type(doc_type, id.clone()),
                    _ => DocId::plain(id.clone()),
                };
                let Some(location) = locate(self.view, &own.uid())? else {
                    return Ok(());
                };
                let at = DocAddress {
                    index: self.view.name.clone(),
                    id: own,
                };
                let document = load_document(self.view, &location, &at)?;
                docs.push(serde_json::from_slice(&document.source.0).unwrap_or(Value::Null));
            }
        }
        Ok(())
    }

    /// The words of a text in a field, as the index would have them.
    fn words(&self, path: &str, q: &MoreLikeThisQuery, text: &str) -> Result<Vec<String>> {
        let Some(target) = Target::of(self.view, path) else {
            return Ok(Vec::new());
        };
        if !target.kind.kind.is_text() && q.analyzer.is_none() {
            return Ok(vec![self.query_text(&target, text)]);
        }
        let analyzer = match &q.analyzer {
            Some(name) => self.query_analyzer(&target, Some(name), false)?,
            None => target
                .kind
                .analyzer
                .clone()
                .or_else(|| self.view.registry.analyzer("default")),
        };
        let analyzer = analyzer.or_else(|| self.view.registry.analyzer("standard"));
        Ok(match analyzer {
            Some(analyzer) => analyzer.try_analyze(text)?.into_iter().map(|token| token.term).collect(),
            None => Vec::new(),
        })
    }

    fn words_of(&self, path: &str, q: &MoreLikeThisQuery, doc: &Value) -> Result<Frequencies> {
        let mut values = model::path::read(doc, path);
        if values.is_empty()
            && let Some((parent, _)) = path.rsplit_once('.')
        {
            // A multi-field's values are its parent's.
            values = model::path::read(doc, parent);
        }
        let mut out = Frequencies::new();
        for value in values.into_iter().filter(|v| !v.is_null() && !v.is_object()) {
            for word in self.words(path, q, &text_of(value))? {
                *out.entry(word).or_default() += 1;
            }
        }
        Ok(out)
    }

    /// The most typical terms, each in the field where it is commonest.
    fn typical(
        &self,
        q: &MoreLikeThisQuery,
        fields: &[String],
        found: Frequencies,
        skipped: &HashSet<String>,
        boost: f32,
    ) -> Result<Vec<Shared>> {
        let docs: u64 = self.view.segments.iter().map(|s| s.counted_docs()).sum();
        let mut scored: Vec<(f64, String, usize)> = Vec::new();
        for (word, count) in found {
            let length = word.chars().count();
            let fits = length >= q.min_word_length && (q.max_word_length == 0 || length <= q.max_word_length);
            if count < q.min_term_freq || !fits || skipped.contains(&word) {
                continue;
            }
            let (mut best, mut docs_with) = (0, 0);
            for (no, path) in fields.iter().enumerate() {
                if let Some(target) = Target::of(self.view, path) {
                    let freq = self.statistics.doc_freq(&target.text_term(&word))?;
                    if freq > docs_with {
                        (best, docs_with) = (no, freq);
                    }
                }
            }
            if docs_with == 0 || docs_with < q.min_doc_freq || docs_with > q.max_doc_freq {
                continue;
            }
            let rarity = ((docs as f64 + 1.0) / (docs_with as f64 + 1.0)).ln() + 1.0;
            scored.push((count as f64 * rarity, word, best));
        }
        scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        scored.truncate(q.max_query_terms);
        let most = scored.first().map_or(1.0, |first| first.0);
        let mut out = Vec::with_capacity(scored.len());
        for (score, word, field) in scored {
            let Some(target) = Target::of(self.view, &fields[field]) else {
                continue;
            };
            let own = if q.boost_terms > 0.0 {
                q.boost_terms * (score / most) as f32
            } else {
                1.0
            };
            out.push(self.scored_term(&target, target.text_term(&word), &word, boost * own)?);
        }
        Ok(out)
    }
}
