//! `significant_text`: words of the sources of documents that are more frequent here than in the index.
//!
//! Each text is read from its source and analyzed as its field was; how common a word is elsewhere is what the
//! inverted index says. So it needs no column, and is slow: a sampler around it is the usual thing.

use super::filter::FilterProbe;
use super::significance::{Frequencies, Measure};
use super::{Keyed, no_order};
use crate::aggs::{AggregationContext, At, Collector, EMPTY, Finish, Subs, check_collected};
use crate::automata::regexp::Pattern;
use crate::document_reader::DocumentReader;
use crate::fields::target::Target;
use crate::term_vectors;
use analysis::Analyzer;
use dsl::aggs::{IncludeExclude, SignificantTextAgg};
use model::{Error, Result};
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use segment::error::broken;
use segment::searchable::IndexView;
use segment::segment_view::SegmentView;
use serde_json::{Map, Value, json};
use std::collections::VecDeque;
use std::hash::{Hash as _, Hasher as _};
use std::sync::Arc;
use tantivy::schema::IndexRecordOption;
use tantivy::{DocId, DocSet as _, TERMINATED};

/// So many words in the same order are a copy.
const COPIED: usize = 6;

enum WordChoice {
    Any,
    Matching(Box<Pattern>),
    Listed(FxHashSet<String>),
}

impl WordChoice {
    fn new(spec: Option<&IncludeExclude>) -> Result<WordChoice> {
        Ok(match spec {
            None => WordChoice::Any,
            Some(IncludeExclude::Regex(text)) => WordChoice::Matching(Box::new(Pattern::regexp(text, None, false)?)),
            Some(IncludeExclude::Values(values)) => {
                WordChoice::Listed(values.iter().map(crate::fields::target::text_of).collect())
            }
            Some(IncludeExclude::Partition { .. }) => {
                return Err(Error::illegal(
                    "Partitions of [include] are not supported by [significant_text]",
                ));
            }
        })
    }
    fn holds(&self, word: &str, any: bool) -> bool {
        match self {
            WordChoice::Any => any,
            WordChoice::Matching(pattern) => pattern.matches(word),
            WordChoice::Listed(words) => words.contains(word),
        }
    }
}

/// A segment, with the documents of the background in it where that is a choice.
type Part = (Arc<IndexView>, Arc<SegmentView>, Option<Vec<DocId>>);

/// Collects words.
pub(in crate::aggs) struct SignificantText {
    spec: SignificantTextAgg,
    measure: Measure,
    background: Option<FilterProbe>,
    include: WordChoice,
    exclude: WordChoice,
    words: Vec<Arc<str>>,
    codes: FxHashMap<Arc<str>, u64>,
    buckets: Keyed,
    collected: FxHashMap<u32, u64>,
    superset: u64,
    parts: Vec<Part>,
    analyzer: Option<Analyzer>,
    seen: FxHashSet<u64>,
    subs: Subs,
}

impl SignificantText {
    pub(in crate::aggs) fn new(
        spec: &SignificantTextAgg,
        scope: Option<&str>,
        subs: Subs,
        cx: &AggregationContext<'_>,
    ) -> Result<SignificantText> {
        let field = &spec.field;
        let mut known = false;
        for view in cx.views {
            let Some(target) = Target::of(view, field) else { continue };
            known = true;
            if !target.has_string_terms() || !target.kind.index {
                return Err(Error::illegal(format!(
                    "Field [{field}] of type [{}] is not supported for aggregation [significant_text]",
                    target.kind.wire()
                )));
            }
        }
        if !known {
            return Err(Error::illegal(format!(
                "Field [{field}] does not exist, SignificantText requires an analyzed field"
            )));
        }
        Ok(SignificantText {
            measure: Measure::new(&spec.measure, cx)?,
            background: spec.background.as_ref().map(|query| FilterProbe::new(query, scope)),
            include: WordChoice::new(spec.include.as_ref())?,
            exclude: WordChoice::new(spec.exclude.as_ref())?,
            spec: spec.clone(),
            words: Vec::new(),
            codes: FxHashMap::default(),
            buckets: Keyed::new(cx),
            collected: FxHashMap::default(),
            superset: 0,
            parts: Vec::new(),
            analyzer: None,
            seen: FxHashSet::default(),
            subs,
        })
    }

    /// The words of a document, each once, as codes.
    fn codes_of(&mut self, doc: DocId) -> Result<Vec<u64>> {
        let Some((view, segment, _)) = self.parts.last() else {
            return Ok(Vec::new());
        };
        let stored = DocumentReader::of(view, segment).read(doc)?;
        let Some(source) = stored.payload.source() else {
            return Ok(Vec::new());
        };
        let source: Value = serde_json::from_slice(source).unwrap_or(Value::Null);
        let own = std::slice::from_ref(&self.spec.field);
        let paths = self.spec.source_fields.as_deref().unwrap_or(own);
        let mut values = Vec::new();
        for path in paths {
            term_vectors::values(view, &source, path, &mut values);
        }
        let mut words: Vec<String> = Vec::new();
        for value in values {
            let text = match value {
                Value::String(text) => text.clone(),
                Value::Number(_) | Value::Bool(_) => value.to_string(),
                _ => continue,
            };
            let found = match &self.analyzer {
                Some(analyzer) => analyzer.try_analyze(&text)?.into_iter().map(|token| token.term).collect(),
                None => vec![text],
            };
            match self.spec.filter_duplicate_text {
                true => words.extend(self.without_copies(found)?),
                false => words.extend(found),
            }
        }
        words.sort_unstable();
        words.dedup();
        let mut out = Vec::with_capacity(words.len());
        for word in words {
            if !self.include.holds(&word, true) || self.exclude.holds(&word, false) {
                continue;
            }
            let code = match self.codes.get(word.as_str()) {
                Some(code) => *code,
                None => {
                    check_collected(self.words.len() + 1)?;
                    let (code, word) = (self.words.len() as u64, Arc::<str>::from(word));
                    self.words.push(word.clone());
                    self.codes.insert(word, code);
                    code
                }
            };
            out.push(code);
        }
        Ok(out)
    }

    /// The words that stand in no sequence that was seen before.
    fn without_copies(&mut self, words: Vec<String>) -> Result<Vec<String>> {
        let mut copied = vec![false; words.len()];
        let mut last: VecDeque<u64> = VecDeque::with_capacity(COPIED + 1);
        for (at, word) in words.iter().enumerate() {
            let mut hasher = FxHasher::default();
            word.hash(&mut hasher);
            last.push_back(hasher.finish());
            if last.len() > COPIED {
                last.pop_front();
            }
            if last.len() == COPIED {
                let mut hasher = FxHasher::default();
                last.hash(&mut hasher);
                check_collected(self.seen.len() + 1)?;
                if !self.seen.insert(hasher.finish()) {
                    copied[at + 1 - COPIED..=at].fill(true);
                }
            }
        }
        let kept = words.into_iter().zip(copied).filter(|(_, copied)| !copied);
        Ok(kept.map(|(word, _)| word).collect())
    }

    /// How many documents of the background have a word.
    fn frequency(&self, word: &str) -> Result<u64> {
        let mut sum = 0;
        for (view, segment, chosen) in &self.parts {
            let Some(target) = Target::of(view, &self.spec.field) else {
                continue;
            };
            let term = target.text_term(word);
            let index = segment.reader.inverted_index(term.field()).map_err(broken)?;
            let Some(chosen) = chosen else {
                if let Some(info) = index.get_term_info(&term).map_err(broken)? {
                    sum += crate::seen::docs_with(view, segment, &index, &info)?;
                }
                continue;
            };
            debug_assert!(
                chosen.is_sorted_by(|a, b| a < b),
                "search.md S8: the documents of a background rise"
            );
            let found = index.read_postings(&term, IndexRecordOption::Basic).map_err(broken)?;
            let Some(mut postings) = found else { continue };
            while postings.doc() != TERMINATED {
                sum += u64::from(chosen.binary_search(&postings.doc()).is_ok());
                postings.advance();
            }
        }
        Ok(sum)
    }
}

impl Collector for SignificantText {
    fn segment(&mut self, at: &At<'_>) -> Result<()> {
        self.analyzer = match Target::of(at.view, &self.spec.field) {
            Some(target) => term_vectors::own_analyzer(at.view, target.kind),
            None => None,
        };
        let chosen = match &mut self.background {
            // Deleted documents count, as they do in the frequencies of words.
            None => {
                self.superset += crate::seen::docs_of(at.view, at.segment);
                None
            }
            Some(background) => {
                background.segment(at)?;
                let mut chosen = Vec::new();
                for doc in 0..at.segment.reader.max_doc() {
                    if at.segment.is_counted(doc) && !at.segment.is_hidden(doc) && background.matches(doc)? {
                        chosen.push(doc);
                    }
                }
                self.superset += chosen.len() as u64;
                Some(chosen)
            }
        };
        self.parts.push((at.view.clone(), at.segment.clone(), chosen));
        self.subs.segment(at)
    }

    fn collect(&mut self, doc: DocId, score: f32, bucket: u32) -> Result<()> {
        *self.collected.entry(bucket).or_default() += 1;
        for code in self.codes_of(doc)? {
            let own = self.buckets.bucket(bucket, code)?;
            self.buckets.add(own);
            self.subs.collect(doc, score, own)?;
        }
        Ok(())
    }

    fn finish(&mut self, bucket: u32, to: &mut Finish<'_>) -> Result<Value> {
        let subset = self.collected.get(&bucket).copied().unwrap_or(0);
        let least = self.spec.min_doc_count.max(self.spec.shard_min_doc_count).max(1);
        let own = if bucket == EMPTY {
            Vec::new()
        } else {
            self.buckets.of(bucket)
        };
        let mut scored: Vec<(f64, Arc<str>, u64, u64, u32)> = Vec::new();
        for own in own {
            let here = self.buckets.count(own);
            if here < least {
                continue;
            }
            let word = self.words[self.buckets.code(own) as usize].clone();
            let all = self.frequency(&word)?;
            let frequencies = Frequencies {
                here,
                subset,
                all,
                superset: self.superset,
            };
            let score = self.measure.score(frequencies)?;
            if score > 0.0 {
                scored.push((score, word, here, all, own));
            }
        }
        scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        scored.truncate(self.spec.size);
        to.count(scored.len())?;
        let mut list = Vec::with_capacity(scored.len());
        for (score, word, here, all, own) in scored {
            let mut out = Map::new();
            out.insert("key".into(), (&*word).into());
            out.insert("doc_count".into(), here.into());
            out.insert("score".into(), json!(score));
            out.insert("bg_count".into(), all.into());
            self.subs.finish(own, &mut out, to)?;
            list.push(Value::Object(out));
        }
        Ok(json!({ "doc_count": subset, "bg_count": self.superset, "buckets": list }))
    }

    fn order(&mut self, _bucket: u32, _rest: &[&str]) -> Result<f64> {
        Err(no_order("significant_text"))
    }
    fn wire_type(&self) -> &'static str {
        "sigsterms"
    }
    fn subs(&self) -> Option<&Subs> {
        Some(&self.subs)
    }
    fn subs_mut(&mut self) -> Option<&mut Subs> {
        Some(&mut self.subs)
    }
}
