//! Suggestions: other words of a field for those of a text, as Lucene's `DirectSpellChecker` chooses them.
//!
//! Not here: what a request may ask (`dsl::search::suggest`), phrases (`phrase`), values of `completion` fields (`completions`).

mod beginnings;
mod completion_weights;
mod completions;
mod contexts;
mod phrase;
mod shown_documents;

use crate::Searched;
use crate::automata::levenshtein::Levenshtein;
use crate::context::Context;
use crate::fields::target::Target;
use crate::seen;
use analysis::Analyzer;
use dsl::search::{SearchRequest, StringDistance, SuggestMode, Suggester, Suggestion, TermSuggester};
use model::{Error, Result};
use segment::error::broken;
use segment::searchable::IndexView;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The object `suggest` of an answer; `None` if nothing was asked.
///
/// # Errors
/// Fields that are missing or of a type that suggests nothing; unreadable files.
pub(crate) fn run(views: &[Searched], request: &SearchRequest, cx: &Context<'_>) -> Result<Option<Value>> {
    if request.suggest.is_empty() {
        return Ok(None);
    }
    let mut out = Map::new();
    for suggestion in &request.suggest {
        let found = match &suggestion.by {
            Suggester::Term(term) => terms(views, suggestion, term)?,
            Suggester::Phrase(phrase) => crate::suggest::phrase::run(views, suggestion, phrase, cx)?,
            Suggester::Completion(one) => completions::run(views, suggestion, one, request, cx)?,
        };
        let name = if request.dialect.typed_keys {
            format!("{}#{}", suggestion.by.wire(), suggestion.name)
        } else {
            suggestion.name.clone()
        };
        out.insert(name, found);
    }
    Ok(Some(Value::Object(out)))
}

pub(crate) fn target<'a>(view: &'a IndexView, field: &'a str) -> Result<Target<'a>> {
    Target::of(view, field).ok_or_else(|| Error::illegal(format!("no mapping found for field [{field}]")))
}

/// An index of 2015 without the field suggests nothing; today it fails.
fn lacks(view: &IndexView, field: &str) -> bool {
    view.rules().tolerates_unknown_names && Target::of(view, field).is_none()
}

/// Characters as offsets count them.
pub(crate) fn utf16(text: &str) -> usize {
    text.encode_utf16().count()
}

/// A word that may be meant.
pub(crate) struct Candidate {
    pub(crate) score: f32,
    docs: u64,
}

fn terms(views: &[Searched], suggestion: &Suggestion, spec: &TermSuggester) -> Result<Value> {
    let mut entries: Vec<(String, usize, usize, BTreeMap<String, Candidate>)> = Vec::new();
    for (view, _) in views {
        if lacks(view, &spec.field) {
            continue;
        }
        let target = target(view, &spec.field)?;
        if !target.has_string_terms() {
            return Err(Error::illegal(format!(
                "[term] suggests words of text and keyword fields - not of [{}] which is of type [{}]",
                spec.field,
                target.kind.wire()
            )));
        }
        let tokens = match analyzer(view, &target, spec.analyzer.as_deref())? {
            Some(analyzer) => analyzer
                .try_analyze(&suggestion.text)?
                .into_iter()
                .map(|token| (token.term, token.start, token.end - token.start))
                .collect(),
            None => vec![(suggestion.text.clone(), 0, utf16(&suggestion.text))],
        };
        for (at, (word, offset, length)) in tokens.into_iter().enumerate() {
            if entries.len() <= at {
                entries.push((word.clone(), offset, length, BTreeMap::new()));
            }
            let Some((known, _, _, all)) = entries.get_mut(at).filter(|entry| entry.0 == word) else {
                continue;
            };
            for (text, found) in candidates(view, &target, known, spec)? {
                let entry = all.entry(text).or_insert(Candidate { score: 0.0, docs: 0 });
                entry.score = entry.score.max(found.score);
                entry.docs += found.docs;
            }
        }
    }
    let shown = entries.into_iter().map(|(word, offset, length, found)| {
        let options: Vec<Value> = rank(found, spec.by_frequency, spec.size)
            .into_iter()
            .map(|(text, one)| json!({ "text": text, "score": shortest(one.score), "freq": one.docs }))
            .collect();
        json!({ "text": word, "offset": offset, "length": length, "options": options })
    });
    Ok(shown.collect())
}

/// A score as the shortest decimal of its 32 bits.
pub(crate) fn shortest(score: f32) -> Value {
    score.to_string().parse::<f64>().map_or(Value::Null, Value::from)
}

fn analyzer(view: &IndexView, target: &Target<'_>, named: Option<&str>) -> Result<Option<Analyzer>> {
    match named {
        Some(name) => match view.registry.analyzer(name) {
            Some(analyzer) => Ok(Some(analyzer)),
            None => Err(Error::illegal(format!("analyzer [{name}] doesn't exists"))),
        },
        None if target.kind.kind.is_text() => Ok(target.kind.search_analyzer.clone().or_else(|| target.kind.analyzer.clone())),
        None => Ok(None),
    }
}

/// Best first, by score or by frequency.
fn rank(found: BTreeMap<String, Candidate>, by_frequency: bool, size: usize) -> Vec<(String, Candidate)> {
    let mut list: Vec<(String, Candidate)> = found.into_iter().collect();
    list.sort_by(|(a_text, a), (b_text, b)| {
        let (score, docs) = (b.score.total_cmp(&a.score), b.docs.cmp(&a.docs));
        let order = if by_frequency { docs.then(score) } else { score.then(docs) };
        order.then_with(|| a_text.cmp(b_text))
    });
    list.truncate(size);
    list
}

/// The words of one index that may be meant by a word.
fn candidates(view: &IndexView, target: &Target<'_>, word: &str, spec: &TermSuggester) -> Result<BTreeMap<String, Candidate>> {
    let kept = spec.shard_size.unwrap_or(5).max(spec.size).max(5);
    similar(view, target, word, spec, kept).map(|found| found.into_iter().collect())
}

/// The `kept` best words of one index that may be meant by a word, the best first.
pub(crate) fn similar(
    view: &IndexView,
    target: &Target<'_>,
    word: &str,
    spec: &TermSuggester,
    kept: usize,
) -> Result<Vec<(String, Candidate)>> {
    let none = Vec::new();
    if word.chars().count() < spec.min_word_length {
        return Ok(none);
    }
    let docs = seen::doc_freq(view, &target.text_term(word))?;
    let all = seen::docs(view);
    if spec.mode == SuggestMode::Missing && docs > 0 {
        return Ok(none);
    }
    let most = spec.max_term_freq;
    let frequent = if most >= 1.0 {
        docs as f32 > most
    } else {
        docs as f32 > (most * all as f32).ceil()
    };
    if frequent {
        return Ok(none);
    }
    let least = spec.min_doc_freq;
    let mut above = if spec.mode == SuggestMode::Popular { docs } else { 0 };
    if least >= 1.0 {
        above = above.max(least as u64);
    } else if least > 0.0 {
        above = above.max(((least * all as f32) as u64).saturating_sub(1));
    }
    let inspections = kept.saturating_mul(spec.max_inspections);
    let mut found = near(view, target, word, spec, 1, above, inspections)?;
    if spec.max_edits > 1 && found.len() < inspections {
        found.extend(near(view, target, word, spec, spec.max_edits, above, inspections)?);
    }
    Ok(rank(found, spec.by_frequency, kept))
}

/// The nearest words within some edits that are in more than `above` documents.
fn near(
    view: &IndexView,
    target: &Target<'_>,
    word: &str,
    spec: &TermSuggester,
    edits: u8,
    above: u64,
    most: usize,
) -> Result<BTreeMap<String, Candidate>> {
    let automaton = Levenshtein::new(word, edits, spec.prefix_length, true);
    let mut docs: BTreeMap<String, u64> = BTreeMap::new();
    for segment in &view.segments {
        let index = segment.reader.inverted_index(target.slot.field).map_err(broken)?;
        let mut stream = index.terms().search(&automaton).into_stream().map_err(broken)?;
        while stream.advance() {
            if let Ok(term) = std::str::from_utf8(stream.key()) {
                *docs.entry(term.to_owned()).or_default() += seen::docs_with(view, segment, &index, stream.value())?;
            }
        }
    }
    debug_assert!(
        docs.values().all(|docs| *docs <= seen::docs(view)),
        "no word is in more documents than there are"
    );
    docs.remove(word);
    let found = docs.into_iter().filter(|(_, docs)| *docs > above).filter_map(|(term, docs)| {
        let score = nearness(spec.distance, word, &term, automaton.distance(&term)?);
        (score >= spec.accuracy).then_some((term, Candidate { score, docs }))
    });
    let mut found: Vec<(String, Candidate)> = found.collect();
    found.sort_by(|a, b| b.1.score.total_cmp(&a.1.score).then_with(|| a.0.cmp(&b.0)));
    found.truncate(most);
    Ok(found.into_iter().collect())
}

/// How near two words are; `edits` is what the search for candidates counted.
fn nearness(distance: StringDistance, a: &str, b: &str, edits: u8) -> f32 {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let part = |edits: f32, of: usize| if of == 0 { 0.0 } else { 1.0 - edits / of as f32 };
    match distance {
        StringDistance::Internal | StringDistance::DamerauLevenshtein => part(f32::from(edits), a.len().min(b.len())),
        StringDistance::Levenshtein => part(plain_edits(&a, &b) as f32, a.len().max(b.len())),
        StringDistance::JaroWinkler => jaro_winkler(&a, &b),
        StringDistance::Ngram => pairs(&a, &b),
    }
}

/// Insertions, deletions, replacements.
fn plain_edits(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = corner + usize::from(x != y);
            corner = row[j + 1];
            row[j + 1] = replaced.min(corner + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

/// Jaro's similarity, raised by a common beginning of up to four characters where it is above 0.7.
fn jaro_winkler(a: &[char], b: &[char]) -> f32 {
    let (short, long) = if a.len() < b.len() { (a, b) } else { (b, a) };
    let range = (long.len() / 2).saturating_sub(1);
    let mut taken = vec![false; long.len()];
    let mut common = Vec::new();
    for (i, c) in short.iter().enumerate() {
        let from = i.saturating_sub(range);
        let to = (i + range + 1).min(long.len());
        if let Some(at) = (from..to).find(|at| !taken[*at] && long[*at] == *c) {
            taken[at] = true;
            common.push(*c);
        }
    }
    if common.is_empty() {
        return 0.0;
    }
    let other = long.iter().zip(&taken).filter(|(_, taken)| **taken).map(|(c, _)| c);
    let swapped = common.iter().zip(other).filter(|(a, b)| a != b).count() / 2;
    let m = common.len() as f32;
    let jaro = (m / a.len() as f32 + m / b.len() as f32 + (m - swapped as f32) / m) / 3.0;
    if jaro < 0.7 {
        return jaro;
    }
    let prefix = short.iter().zip(long).take_while(|(a, b)| a == b).count() as f32;
    jaro + (0.1f32).min(1.0 / long.len() as f32) * prefix * (1.0 - jaro)
}

/// Kondrak's distance of pairs of characters.
fn pairs(a: &[char], b: &[char]) -> f32 {
    if a.is_empty() || b.is_empty() {
        return f32::from(u8::from(a == b));
    }
    if a.len() < 2 || b.len() < 2 {
        let same = a.iter().zip(b).filter(|(x, y)| x == y).count();
        return same as f32 / a.len().max(b.len()) as f32;
    }
    // A beginning that stands in no word makes first characters count twice.
    let at = |text: &[char], i: usize| if i == 0 { '\0' } else { text[i - 1] };
    let mut row: Vec<f32> = (0..=b.len()).map(|j| j as f32).collect();
    for i in 1..=a.len() {
        let mut corner = row[0];
        row[0] = i as f32;
        for j in 1..=b.len() {
            let mut cost = 0.0;
            let mut length = 2.0f32;
            for (x, y) in [(at(a, i - 1), at(b, j - 1)), (at(a, i), at(b, j))] {
                if x != y {
                    cost += 1.0;
                } else if x == '\0' {
                    length -= 1.0;
                }
            }
            let replaced = corner + cost / length;
            corner = row[j];
            row[j] = (row[j - 1] + 1.0).min(corner + 1.0).min(replaced);
        }
    }
    1.0 - row[b.len()] / a.len().max(b.len()) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(distance: StringDistance, a: &str, b: &str, edits: u8, expected: f32) {
        let found = nearness(distance, a, b, edits);
        assert!((found - expected).abs() < 1e-4, "{distance:?} of {a} and {b}: {found}");
    }

    #[test]
    fn nearness_of_words() {
        check(StringDistance::Internal, "aple", "apple", 1, 0.75);
        check(StringDistance::Levenshtein, "aple", "apple", 1, 0.8);
        check(StringDistance::JaroWinkler, "martha", "marhta", 1, 0.9611);
        check(StringDistance::JaroWinkler, "abc", "xyz", 3, 0.0);
        check(StringDistance::Ngram, "same", "same", 0, 1.0);
        check(StringDistance::Ngram, "abcd", "abce", 1, 0.875);
    }
}
