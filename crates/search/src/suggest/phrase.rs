//! `phrase` suggestions: corrections of a whole text, the most likely first.
//!
//! This is Lucene's noisy channel. Each word of the text gets candidates from a field ([`crate::suggest::similar`]). Every way
//! through the candidates with few enough corrections gets a score: how likely its words follow each other in the field of
//! shingles, smoothed where it lacks them. Ways that score more than the text itself times the confidence are suggested.

use super::{shortest, similar, target, utf16};
use crate::Searched;
use crate::context::Context;
use crate::fields::target::Target;
use crate::term_vectors::{counts, frequency};
use analysis::{Analyzer, TokenKind};
use dsl::query::{Parsing, Query};
use dsl::search::{Collate, Generator, PhraseSuggester, Smoothing, SuggestMode, Suggestion, TermSuggester};
use model::{Error, ErrorKind, Result, settings};
use rustc_hash::FxHashMap;
use segment::searchable::IndexView;
use serde_json::{Map, Value, json};
use std::cell::RefCell;
use std::cmp::Ordering;

/// Corrections are not divided by nothing.
const TINY: f64 = 0.000_000_000_01;

/// A correction as an answer tells of it.
struct Told {
    score: f32,
    highlighted: Option<String>,
    matches: Option<bool>,
}

/// The answer to one suggestion.
///
/// # Errors
/// Fields and analyzers that are not there, a text of shingles alone, too many ways.
pub(crate) fn run(views: &[Searched], suggestion: &Suggestion, spec: &PhraseSuggester, cx: &Context<'_>) -> Result<Value> {
    let mut list: Vec<(String, Told)> = Vec::new();
    for searched in views {
        let view = &searched.0;
        for correction in corrections(view, &suggestion.text, spec, cx)? {
            let text = correction.text(None);
            let matches = match &spec.collate {
                Some(collate) => {
                    let found = finds(searched, collate, &text, cx)?;
                    if !found && !collate.prune {
                        continue;
                    }
                    collate.prune.then_some(found)
                }
                None => None,
            };
            let told = Told {
                score: correction.score as f32,
                highlighted: spec.highlight.as_ref().map(|tags| correction.text(Some(tags))),
                matches,
            };
            match list.iter_mut().find(|(known, _)| *known == text) {
                Some((_, known)) if known.score >= told.score => {}
                Some((_, known)) => *known = told,
                None => list.push((text, told)),
            }
        }
    }
    // Equal scores keep the order of their index: it may know more digits than a float shows.
    list.sort_by(|a, b| b.1.score.total_cmp(&a.1.score));
    list.truncate(spec.size);
    let option = |(text, told): (String, Told)| {
        let mut out = Map::new();
        out.insert("text".into(), text.into());
        if let Some(highlighted) = told.highlighted {
            out.insert("highlighted".into(), highlighted.into());
        }
        out.insert("score".into(), shortest(told.score));
        if let Some(matches) = told.matches {
            out.insert("collate_match".into(), matches.into());
        }
        Value::Object(out)
    };
    let options: Vec<Value> = list.into_iter().map(option).collect();
    let length = utf16(&suggestion.text);
    Ok(json!([{ "text": suggestion.text, "offset": 0, "length": length, "options": options }]))
}

/// Whether the query of a correction finds a document.
fn finds(searched: &Searched, collate: &Collate, text: &str, cx: &Context<'_>) -> Result<bool> {
    let mut params = collate.params.clone();
    params.insert("suggestion".into(), text.into());
    let rendered = dsl::template::render(&collate.query, &params)?;
    let node = dsl::json::read(rendered.as_bytes(), dsl::json::Reading::default())?;
    let query = Query::parse(node, &mut Parsing::new(model::Dialect::default()))?;
    Ok(crate::count(std::slice::from_ref(searched), Some(&query), cx)? > 0)
}

/// A word that may stand at a place.
#[derive(Clone, Debug)]
struct PhraseCandidate {
    term: String,
    docs: u64,
    total: u64,
    /// How near it is to what was written; 1 for that itself.
    distance: f64,
    score: f64,
    given: bool,
}

/// The word that was written at a place, and its candidates.
struct PhraseWord {
    given: PhraseCandidate,
    others: Vec<PhraseCandidate>,
}

/// A way through all places.
struct Correction {
    score: f64,
    words: Vec<PhraseCandidate>,
}

impl Correction {
    /// Its words, those together that were corrected between tags.
    fn text(&self, tags: Option<&(String, String)>) -> String {
        let mut out = String::new();
        for (at, word) in self.words.iter().enumerate() {
            if at > 0 {
                out.push(' ');
            }
            let Some((before, behind)) = tags.filter(|_| !word.given) else {
                out.push_str(&word.term);
                continue;
            };
            if at == 0 || self.words[at - 1].given {
                out.push_str(before);
            }
            out.push_str(&word.term);
            if self.words.get(at + 1).is_none_or(|next| next.given) {
                out.push_str(behind);
            }
        }
        out
    }
    /// Who is better; of equals the one whose terms come first.
    fn compare(&self, other: &Correction) -> Ordering {
        let terms = || {
            let pairs = self.words.iter().zip(&other.words);
            pairs.map(|(a, b)| b.term.cmp(&a.term)).find(|order| order.is_ne())
        };
        let order = self.score.total_cmp(&other.score);
        order.then_with(|| terms().unwrap_or(Ordering::Equal))
    }
}

fn analyzer_named(view: &IndexView, name: &str) -> Result<Analyzer> {
    view.registry
        .analyzer(name)
        .ok_or_else(|| Error::illegal(format!("analyzer [{name}] doesn't exists")))
}

fn analyzer_of(view: &IndexView, target: &Target<'_>) -> Option<Analyzer> {
    if !target.kind.kind.is_text() {
        return None;
    }
    let own = target.kind.search_analyzer.clone().or_else(|| target.kind.analyzer.clone());
    own.or_else(|| view.registry.analyzer("default"))
        .or_else(|| view.registry.analyzer("standard"))
}

/// Where the words of one place come from.
struct WordSource<'a> {
    target: Target<'a>,
    words: TermSuggester,
    before: Option<Analyzer>,
    behind: Option<Analyzer>,
    /// Words of the field, all in all.
    total: u64,
}

fn corrections(view: &IndexView, text: &str, spec: &PhraseSuggester, cx: &Context<'_>) -> Result<Vec<Correction>> {
    let field = target(view, &spec.field)?;
    let analyzer = match &spec.analyzer {
        Some(name) => Some(analyzer_named(view, name)?),
        None => analyzer_of(view, &field),
    };
    let shingles = analyzer.as_ref().and_then(Analyzer::shingles);
    let no_words = shingles.is_some_and(|shingles| shingles.min > 1 && !shingles.unigrams);
    if spec.generators.is_empty() && no_words && spec.require_unigram {
        return Err(Error::illegal(format!(
            "The default candidate generator for phrase suggest can't operate on field: [{}] since it doesn't emit unigrams. \
             If this is intentional try to set the candidate generator field explicitly",
            spec.field
        )));
    }
    let grams = spec.gram_size.or_else(|| shingles.map(|shingles| shingles.max)).unwrap_or(1);
    let default = [Generator {
        words: TermSuggester::new(spec.field.as_str()),
        pre_filter: None,
        post_filter: None,
    }];
    let sources = match spec.generators.as_slice() {
        [] => word_sources(view, &default)?,
        generators => word_sources(view, generators)?,
    };
    let likely = Likely::new(view, &field, spec)?;
    if sources.is_empty() || likely.total == 0 {
        return Ok(Vec::new());
    }
    let kept = spec.shard_size.unwrap_or_else(|| spec.size.max(5));
    let Some(places) = places(view, text, analyzer.as_ref(), &sources, spec, kept)? else {
        return Ok(Vec::new());
    };
    let mut least = f64::MIN_POSITIVE;
    if spec.confidence > 0.0 {
        let given: Vec<&PhraseCandidate> = places.iter().map(|place| &place.given).collect();
        let mut score = 0.0;
        for at in 0..given.len() {
            score += likely.score(&given[..=at], &places, grams)?;
        }
        least = score.exp() * spec.confidence;
    }
    let errors = if spec.max_errors >= 1.0 {
        spec.max_errors as usize
    } else {
        (spec.max_errors * places.len() as f32 + 0.5).floor() as usize
    };
    let mut walk = Walk {
        places: &places,
        likely: &likely,
        grams,
        least,
        kept,
        best: Vec::new(),
        ways: 0,
        cx,
    };
    walk.go(errors.max(1))?;
    let mut best = walk.best;
    best.retain(|correction| f64::from(correction.score as f32) > least);
    Ok(best)
}

/// The sources of words that generators name.
fn word_sources<'a>(view: &'a IndexView, generators: &'a [Generator]) -> Result<Vec<WordSource<'a>>> {
    let mut sources = Vec::new();
    for generator in generators {
        let target = target(view, &generator.words.field)?;
        let total = counts(view, &target)?.total;
        // A field that no document has suggests nothing.
        if total == 0 {
            continue;
        }
        let analyzer = |name: &Option<String>| name.as_deref().map(|name| analyzer_named(view, name)).transpose();
        sources.push(WordSource {
            target,
            words: generator.words.clone(),
            before: analyzer(&generator.pre_filter)?,
            behind: analyzer(&generator.post_filter)?,
            total,
        });
    }
    Ok(sources)
}

/// The places of a text with their candidates; `None` if it has none, or too many.
fn places(
    view: &IndexView,
    text: &str,
    analyzer: Option<&Analyzer>,
    sources: &[WordSource<'_>],
    spec: &PhraseSuggester,
    kept: usize,
) -> Result<Option<Vec<PhraseWord>>> {
    let tokens = match analyzer {
        Some(analyzer) => analyzer.try_analyze(text)?,
        None => Vec::new(),
    };
    let words: Vec<(u32, bool, String)> = match analyzer {
        Some(_) => tokens
            .iter()
            .filter(|token| !(spec.require_unigram && token.kind == TokenKind::Shingle))
            .map(|token| (token.position, token.kind == TokenKind::Synonym, token.term.clone()))
            .collect(),
        None if text.is_empty() => Vec::new(),
        None => vec![(0, false, text.to_owned())],
    };
    if words.is_empty() && !tokens.is_empty() {
        return Err(Error::new(
            ErrorKind::IllegalState,
            "At least one unigram is required but all tokens were ngrams",
        )
        .status_of(400));
    }
    let first = &sources[0];
    let mut out: Vec<PhraseWord> = Vec::new();
    let mut last = None;
    for (position, synonym, word) in words {
        let (docs, total) = stats(view, first, &word)?;
        let candidate = |distance: f64, given: bool| PhraseCandidate {
            term: word.clone(),
            docs,
            total,
            distance,
            score: weight(distance, total, first.total),
            given,
        };
        match out.last_mut() {
            Some(place) if synonym && last == Some(position) => {
                if docs > 0 {
                    place.others.push(candidate(spec.real_word_likelihood, false));
                }
            }
            _ => out.push(PhraseWord {
                given: candidate(1.0, true),
                others: Vec::new(),
            }),
        }
        last = Some(position);
    }
    if out.is_empty() || out.len() >= spec.token_limit {
        return Ok(None);
    }
    for place in &mut out {
        for source in sources {
            draw(view, source, place, spec.real_word_likelihood)?;
        }
        place.others.truncate(kept);
    }
    Ok(Some(out))
}

/// How good a candidate is on its own.
fn weight(distance: f64, total: u64, all: u64) -> f64 {
    distance * ((total as f64 + 1.0) / (all as f64 + 1.0))
}

/// In how many documents a word is, and how often, once the generator's analyzer had it.
fn stats(view: &IndexView, source: &WordSource<'_>, word: &str) -> Result<(u64, u64)> {
    frequency(view, &source.target, &before(source, word)?)
}

fn before(source: &WordSource<'_>, word: &str) -> Result<String> {
    Ok(match &source.before {
        Some(analyzer) => analyzer.try_analyze(word)?.pop().map(|token| token.term).unwrap_or_default(),
        None => word.to_owned(),
    })
}

/// Adds what a generator has for a place, the best first and each word once.
fn draw(view: &IndexView, source: &WordSource<'_>, place: &mut PhraseWord, likelihood: f64) -> Result<()> {
    let word = before(source, &place.given.term)?;
    let mut words = source.words.clone();
    if words.mode != SuggestMode::Always {
        let docs = place.given.docs as f64;
        let plateau = if words.min_doc_freq >= 1.0 {
            f64::from(words.min_doc_freq.floor())
        } else {
            0.0
        };
        let least = if docs > 0.0 {
            (docs * ((docs - plateau).log10() / 5f64.log10()) + 1.0).round().max(0.0)
        } else {
            0.0
        };
        if least.is_finite() {
            words.min_doc_freq = words.min_doc_freq.max(least as f32);
        }
    }
    let mut fresh = Vec::new();
    for (term, found) in similar(view, &source.target, &word, &words, words.size)? {
        let (docs, total) = frequency(view, &source.target, &term)?;
        let distance = f64::from(found.score);
        let score = weight(distance, total, source.total);
        let candidate = |term: String, docs: u64, total: u64, distance: f64| PhraseCandidate {
            term,
            docs,
            total,
            distance,
            score,
            given: false,
        };
        match &source.behind {
            None => fresh.push(candidate(term, docs, total, distance)),
            Some(analyzer) => {
                let mut last = None;
                for token in analyzer.try_analyze(&term)? {
                    let steps = last != Some(token.position);
                    last = Some(token.position);
                    let same = steps && token.term == term;
                    let distance = if same { distance } else { likelihood };
                    fresh.push(candidate(token.term, docs, total, distance));
                }
            }
        }
    }
    // The candidates of this generator go before those of others.
    let mut all: Vec<PhraseCandidate> = Vec::with_capacity(fresh.len() + place.others.len());
    for candidate in fresh.into_iter().chain(std::mem::take(&mut place.others)) {
        if !all.iter().any(|known| known.term == candidate.term) {
            all.push(candidate);
        }
    }
    place.others = all;
    place
        .others
        .sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.term.cmp(&b.term)));
    Ok(())
}

/// How likely words follow each other in a field.
struct Likely<'a> {
    view: &'a IndexView,
    field: &'a Target<'a>,
    spec: &'a PhraseSuggester,
    /// Words of the field, all in all.
    total: u64,
    /// Different ones; one less than none where several segments have them, which the reference does not count.
    distinct: f64,
    known: RefCell<FxHashMap<String, u64>>,
}

impl<'a> Likely<'a> {
    fn new(view: &'a IndexView, field: &'a Target<'a>, spec: &'a PhraseSuggester) -> Result<Likely<'a>> {
        let counts = counts(view, field)?;
        let distinct = match counts.distinct {
            Some(distinct) => distinct as f64,
            None => -1.0,
        };
        Ok(Likely {
            view,
            field,
            spec,
            total: counts.total,
            distinct: if counts.total as f64 + distinct > 1.0 { distinct } else { 0.0 },
            known: RefCell::default(),
        })
    }

    fn often(&self, words: &[&str]) -> Result<f64> {
        let term = words.join(&self.spec.separator);
        if let Some(known) = self.known.borrow().get(&term) {
            return Ok(*known as f64);
        }
        let (_, total) = frequency(self.view, self.field, &term)?;
        self.known.borrow_mut().insert(term, total);
        Ok(total as f64)
    }

    /// The logarithm of how likely the last word of a way is at its place.
    fn score(&self, way: &[&PhraseCandidate], places: &[PhraseWord], grams: usize) -> Result<f64> {
        let at = way.len() - 1;
        let word = way[at];
        let channel = if word.distance == 1.0 {
            self.spec.real_word_likelihood
        } else {
            word.distance
        };
        debug_assert!(at < places.len(), "a way has no more words than there are places");
        let found = match (at, grams) {
            (0, _) | (_, 1) => self.one(word)?,
            (1, _) | (_, 2) => self.two(word, way[at - 1])?,
            _ => self.three(word, way[at - 1], way[at - 2])?,
        };
        Ok((channel * found).log10())
    }

    fn one(&self, word: &PhraseCandidate) -> Result<f64> {
        let often = self.often(&[&word.term])?;
        let total = self.total as f64;
        Ok(match self.spec.smoothing {
            Smoothing::Laplace(alpha) => (alpha + often) / (total + alpha * self.distinct),
            _ => (1.0 + often) / (total + self.distinct),
        })
    }

    fn two(&self, word: &PhraseCandidate, last: &PhraseCandidate) -> Result<f64> {
        let both = self.often(&[&last.term, &word.term])?;
        Ok(match self.spec.smoothing {
            Smoothing::StupidBackoff(discount) if both < 1.0 => discount * self.one(word)?,
            Smoothing::StupidBackoff(_) => both / (last.total as f64 + TINY),
            Smoothing::Laplace(alpha) => (alpha + both) / (last.total as f64 + alpha * self.distinct),
            Smoothing::Linear(_, two, one) => {
                let alone = one * self.one(word)?;
                if both < 1.0 {
                    alone
                } else {
                    two * (both / (0.5 + last.total as f64)) + alone
                }
            }
        })
    }

    fn three(&self, word: &PhraseCandidate, last: &PhraseCandidate, before: &PhraseCandidate) -> Result<f64> {
        let both = || self.often(&[&last.term, &word.term]);
        let all = || self.often(&[&before.term, &last.term, &word.term]);
        Ok(match self.spec.smoothing {
            Smoothing::StupidBackoff(discount) => {
                let both = both()?;
                if both < 1.0 {
                    return Ok(discount * self.one(word)?);
                }
                let all = all()?;
                if all < 1.0 {
                    discount * (both / (last.total as f64 + TINY))
                } else {
                    all / (both + TINY)
                }
            }
            Smoothing::Laplace(alpha) => (alpha + all()?) / (both()? + alpha * self.distinct),
            Smoothing::Linear(three, ..) => {
                // The reference looks the words up from the last to the first.
                let all = self.often(&[&word.term, &last.term, &before.term])?;
                if all < 1.0 {
                    return self.two(word, last);
                }
                let both = self.often(&[&word.term, &last.term])?;
                three * (all / (1.0 + both)) + self.two(word, last)?
            }
        })
    }
}

/// All ways through the places with no more than so many corrections.
struct Walk<'a, 'b> {
    places: &'a [PhraseWord],
    likely: &'a Likely<'b>,
    grams: usize,
    least: f64,
    kept: usize,
    /// The best first.
    best: Vec<Correction>,
    ways: usize,
    cx: &'a Context<'a>,
}

impl<'a> Walk<'a, '_> {
    /// Each place in turn, without calling itself: `token_limit` may allow for as many as the text has words.
    fn go(&mut self, errors: usize) -> Result<()> {
        // For each place on the way: the next candidate, the corrections left, the score before it.
        let mut stack = vec![(0, errors, 0.0_f64)];
        let mut way: Vec<&'a PhraseCandidate> = Vec::with_capacity(self.places.len());
        while let Some((next, errors, score)) = stack.last_mut() {
            let (errors, score) = (*errors, *score);
            let chosen = match self.places.get(way.len()) {
                Some(place) if *next == 0 => Some((&place.given, 0)),
                Some(place) if errors > 0 => place.others.get(*next - 1).map(|other| (other, 1)),
                Some(_) => None,
                None => {
                    self.keep(&way, score.exp());
                    None
                }
            };
            let Some((candidate, cost)) = chosen else {
                stack.pop();
                way.pop();
                continue;
            };
            *next += 1;
            self.count()?;
            way.push(candidate);
            let here = self.likely.score(&way, self.places, self.grams)?;
            stack.push((0, errors - cost, score + here));
        }
        Ok(())
    }

    /// One more way that is looked at.
    fn count(&mut self) -> Result<()> {
        self.ways += 1;
        let most = self.cx.max_phrase_ways;
        if self.ways > most {
            let name = settings::MAX_PHRASE_WAYS.name;
            return Err(Error::illegal(format!(
                "[phrase] has more than [{most}] ways to correct the text: lower [max_errors], [shard_size] or [token_limit], or \
                 raise [{name}]"
            ))
            .with("setting", name));
        }
        if self.ways.is_multiple_of(1024) {
            self.cx.check_cancelled()?;
        }
        Ok(())
    }

    fn keep(&mut self, way: &[&'a PhraseCandidate], score: f64) {
        if score <= self.least {
            return;
        }
        let correction = Correction {
            score,
            words: way.iter().map(|word| (*word).clone()).collect(),
        };
        let at = self.best.partition_point(|known| known.compare(&correction).is_gt());
        if at < self.kept {
            self.best.insert(at, correction);
            self.best.truncate(self.kept);
            debug_assert!(
                self.best.is_sorted_by(|a, b| a.compare(b).is_ge()),
                "corrections fall: a better one is placed by bisection"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(term: &str, given: bool) -> PhraseCandidate {
        PhraseCandidate {
            term: term.into(),
            docs: 1,
            total: 1,
            distance: 1.0,
            score: 1.0,
            given,
        }
    }

    #[test]
    fn tags_stand_around_what_was_corrected() {
        let tags = ("<b>".to_owned(), "</b>".to_owned());
        for (words, expected) in [
            (vec![word("a", true), word("b", false), word("c", false)], "a <b>b c</b>"),
            (
                vec![word("a", false), word("b", true), word("c", false)],
                "<b>a</b> b <b>c</b>",
            ),
            (vec![word("a", true)], "a"),
        ] {
            let correction = Correction { score: 1.0, words };
            assert_eq!(correction.text(Some(&tags)), expected);
        }
    }
}
