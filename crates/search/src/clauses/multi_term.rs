//! Clauses that stand for many terms: `prefix`, `wildcard`, `regexp`, `fuzzy`.

use super::Planner;
use super::rewrite::DictionaryWord;
use crate::automata::levenshtein::{Levenshtein, edits};
use crate::automata::regexp::{MAX_REGEX, Pattern};
use crate::fields::target::{Target, query_shard, setting, text_of};
use crate::scorers::node::Shared;
use dsl::query::{FuzzyQuery, PatternQuery, Rewrite};
use model::{Error, Result};
use segment::error::broken;
use tantivy::Term;

/// How a text is looked for with some edits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fuzz {
    pub(super) edits: u8,
    pub(super) prefix: u32,
    pub(super) expansions: u32,
    pub(super) transpositions: bool,
    /// How what is found is scored; as nearness and the commonest of them tell, if nothing is said.
    pub(super) rewrite: Option<Rewrite>,
}

impl Planner<'_> {
    /// The field of a pattern, which must have terms that are strings.
    fn pattern_target<'b>(&'b self, field: &'b str, what: &str) -> Result<Option<Target<'b>>> {
        let Some(target) = Target::of(self.view, field) else {
            return Ok(None);
        };
        if target.has_string_terms() && (target.kind.index || !self.view.rules().ignores_columns) {
            return Ok(Some(target));
        }
        Err(query_shard(
            self.view,
            format!(
                "Can only use {what} queries on keyword, text and wildcard fields - not on [{field}] which is of type [{}]",
                target.kind.wire()
            ),
        ))
    }

    fn pattern(&self, q: &PatternQuery, boost: f32, what: &str, build: impl FnOnce(&str) -> Result<Pattern>) -> Result<Shared> {
        self.refuse_meta_pattern(&q.field, what)?;
        if q.field == "_index" {
            let here = build(&q.value)?.matches(self.view.name.as_str());
            return Ok(match here {
                true => self.everything(boost, "_index".into()),
                false => self.nothing("_index"),
            });
        }
        let Some(target) = self.pattern_target(&q.field, what)? else {
            return Ok(self.nothing(format!("unmapped field [{}]", q.field)));
        };
        let by_column = self.is_column_of_keywords(&target);
        if !by_column {
            self.check_terms(&target)?;
        }
        let pattern = build(&q.value)?;
        let star = if what == "prefix" { "*" } else { "" };
        let what = format!("{}:{}{star}", target.path, q.value);
        match q.rewrite.filter(|_| !by_column) {
            None | Some(Rewrite::ConstantScore(_)) => Ok(self.matching_terms(&target, pattern, boost, what)),
            Some(how) => {
                let words = self.accepted_words(&target, &pattern, self.words_most(how), |_| Some(1.0))?;
                self.rewritten(&target, words, how, boost, &what)
            }
        }
    }

    pub(super) fn prefix(&self, q: &PatternQuery, boost: f32) -> Result<Shared> {
        let value = match Target::of(self.view, &q.field) {
            Some(target) => self.query_text(&target, &q.value),
            None => q.value.clone(),
        };
        self.pattern(q, boost, "prefix", |_| Pattern::prefix(&value, q.case_insensitive))
    }

    pub(super) fn wildcard(&self, q: &PatternQuery, boost: f32) -> Result<Shared> {
        let normalizer = Target::of(self.view, &q.field).and_then(|t| t.kind.normalizer.clone());
        self.pattern(q, boost, "wildcard", |value| match normalizer {
            Some(normalizer) => {
                let value = crate::clauses::query_string::between_wildcards(value, &|run| normalizer.normalize(run));
                Pattern::wildcard(&value, q.case_insensitive)
            }
            None => Pattern::wildcard(value, q.case_insensitive),
        })
    }

    pub(super) fn check_regex_length(&self, regex: &str) -> Result<()> {
        let max = setting(self.view, "index.max_regex_length", MAX_REGEX);
        let length = regex.chars().count();
        if length > max {
            return Err(Error::illegal(format!(
                "The length of regex [{length}] used in the Regexp Query request has exceeded the allowed maximum of [{max}]. \
                 This maximum can be set by changing the [index.max_regex_length] index level setting."
            )));
        }
        Ok(())
    }

    pub(super) fn regexp(&self, q: &PatternQuery, boost: f32) -> Result<Shared> {
        self.check_regex_length(&q.value)?;
        self.pattern(q, boost, "regexp", |value| {
            Pattern::regexp(value, q.flags.as_deref(), q.case_insensitive)
        })
    }

    pub(super) fn fuzzy(&self, q: &FuzzyQuery, boost: f32) -> Result<Shared> {
        self.refuse_meta_pattern(&q.field, "fuzzy")?;
        let Some(target) = Target::of(self.view, &q.field) else {
            return Ok(self.nothing(format!("unmapped field [{}]", q.field)));
        };
        if !target.has_string_terms() {
            return Err(self.failed_to_create(Error::illegal(format!(
                "Can only use fuzzy queries on keyword and text fields - not on [{}] which is of type [{}]",
                q.field,
                target.kind.wire()
            ))));
        }
        if !self.is_column_of_keywords(&target) {
            self.check_terms(&target)?;
        }
        let text = self.query_text(&target, &text_of(&q.value));
        let fuzz = Fuzz {
            edits: edits(q.fuzziness, &text),
            prefix: q.prefix_length,
            expansions: q.max_expansions,
            transpositions: q.transpositions,
            rewrite: q.rewrite,
        };
        self.fuzzy_term(&target, &text, fuzz, boost)
    }

    /// The nearest words of a text.
    pub(super) fn fuzzy_term(&self, target: &Target<'_>, text: &str, fuzz: Fuzz, boost: f32) -> Result<Shared> {
        if self.is_column_of_keywords(target) {
            let automaton = Levenshtein::new(text, fuzz.edits, fuzz.prefix as usize, fuzz.transpositions);
            let what = format!("{}:{text}~{}", target.path, fuzz.edits);
            return Ok(self.texts_accepted(target, automaton, boost, what));
        }
        let how = fuzz.rewrite.unwrap_or(Rewrite::TopTermsBlendedFreqs(fuzz.expansions));
        if fuzz.edits == 0
            && !matches!(
                how,
                Rewrite::ConstantScore(_) | Rewrite::ConstantScoreBoolean | Rewrite::TopTermsBoost(_)
            )
        {
            return self.scored_term(target, target.text_term(text), text, boost);
        }
        let words = self.near_words(target, text, fuzz)?;
        self.rewritten(target, words, how, boost, &format!("{}:{text}~{}", target.path, fuzz.edits))
    }

    /// The words of a field within some edits of a text.
    pub(super) fn near_words(&self, target: &Target<'_>, text: &str, fuzz: Fuzz) -> Result<Vec<DictionaryWord>> {
        let automaton = Levenshtein::new(text, fuzz.edits, fuzz.prefix as usize, fuzz.transpositions);
        let length = text.chars().count();
        self.accepted_words(target, &automaton, usize::MAX, |term| {
            let distance = automaton.distance(term)?;
            let shorter = term.chars().count().min(length).max(1);
            Some(if distance == 0 {
                1.0
            } else {
                1.0 - f32::from(distance) / shorter as f32
            })
        })
    }

    /// The terms of a text field that begin with a text, the first ones in order.
    pub(super) fn expand_prefix(&self, target: &Target<'_>, text: &str, max: usize) -> Result<Vec<Term>> {
        let mut found = std::collections::BTreeSet::new();
        for segment in &self.view.segments {
            let index = segment.reader.inverted_index(target.slot.field).map_err(broken)?;
            let mut stream = index.terms().range().ge(text.as_bytes()).into_stream().map_err(broken)?;
            let mut here = 0;
            while stream.advance() && here < max && stream.key().starts_with(text.as_bytes()) {
                if let Ok(term) = std::str::from_utf8(stream.key()) {
                    found.insert(term.to_owned());
                }
                here += 1;
            }
        }
        Ok(found.iter().take(max).map(|term| target.text_term(term)).collect())
    }
}
