//! Suggestions: other words of a field for those of a text, and values of `completion` fields by their beginnings.
//!
//! Words are chosen as Lucene's `DirectSpellChecker` does. Not here: what a request may ask (`dsl::search::suggest`), how
//! entries of completions are written (`mapping::completion`).

mod contexts;
mod phrase;

use crate::Searched;
use crate::automata::levenshtein::{Levenshtein, edits};
use crate::context::Context;
use crate::document_reader::DocumentReader;
use crate::fetch::Fetch;
use crate::fields::target::Target;
use crate::seen;
use analysis::Analyzer;
use dsl::search::suggest::FuzzyCompletion;
use dsl::search::{CompletionSuggester, SearchRequest, StringDistance, SuggestMode, Suggester, Suggestion, TermSuggester};
use mapping::{Kind, completion};
use model::{Error, Result};
use segment::error::broken;
use segment::searchable::IndexView;
use segment::segment_view::SegmentView;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use tantivy::schema::IndexRecordOption;
use tantivy::{DocId, DocSet, TERMINATED};
use tantivy_fst::Automaton;

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
            Suggester::Completion(one) => completions(views, suggestion, one, request, cx)?,
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

/// How far a fuzzy match goes: what it has in common with the text, from the beginning.
pub(crate) fn common(own: &str, key: &str) -> f32 {
    own.chars().zip(key.chars()).take_while(|(a, b)| a == b).count() as f32
}

/// A completion that was found.
struct Completed {
    score: f32,
    input: String,
    view: usize,
    segment: usize,
    doc: DocId,
    /// By what contexts, where the field has some.
    contexts: Option<Value>,
}

fn completions(
    views: &[Searched],
    suggestion: &Suggestion,
    spec: &CompletionSuggester,
    request: &SearchRequest,
    cx: &Context<'_>,
) -> Result<Value> {
    let mut found: Vec<Completed> = Vec::new();
    for (no, (view, _)) in views.iter().enumerate() {
        completions_in_view(no, view, suggestion, spec, &mut found)?;
    }
    found.sort_by(|a, b| {
        let place = |c: &Completed| (c.view, c.segment, c.doc);
        b.score
            .total_cmp(&a.score)
            .then_with(|| a.input.cmp(&b.input))
            .then_with(|| place(a).cmp(&place(b)))
    });
    let shown = match request.dialect.rules.suggestions_show_output {
        true => shown_in_2015(views, &spec.field, &mut found, spec.size)?,
        false => Vec::new(),
    };
    if spec.skip_duplicates {
        let mut seen = BTreeSet::new();
        found.retain(|one| seen.insert(one.input.clone()));
    }
    found.truncate(spec.size);
    let mut shown = shown.into_iter();
    let mut options = Vec::with_capacity(found.len());
    for one in found {
        let view = &views[one.view].0;
        let mut option = Map::new();
        option.insert("text".into(), one.input.into());
        if request.dialect.rules.suggestions_show_output {
            let (text, payload) = shown.next().unwrap_or_default();
            if let Some(text) = text {
                option.insert("text".into(), text.into());
            }
            option.insert("score".into(), shortest(one.score));
            if let Some(payload) = payload {
                option.insert("payload".into(), payload);
            }
        } else {
            let segment = &view.segments[one.segment];
            let shelf = DocumentReader::of(view, segment);
            let fetch = Fetch::new(view, request, cx)?;
            let (hit, _) = fetch.hit(segment, &shelf, one.doc, Some(one.score))?;
            if let Value::Object(hit) = hit.render(request.dialect) {
                option.extend(hit);
            }
        }
        if let Some(contexts) = one.contexts {
            option.insert("contexts".into(), contexts);
        }
        options.push(Value::Object(option));
    }
    let length = utf16(&suggestion.text);
    Ok(json!([{ "text": suggestion.text, "offset": 0, "length": length, "options": options }]))
}

/// Adds the completions that an index has, by segments and documents.
fn completions_in_view(
    no: usize,
    view: &IndexView,
    suggestion: &Suggestion,
    spec: &CompletionSuggester,
    found: &mut Vec<Completed>,
) -> Result<()> {
    if lacks(view, &spec.field) {
        return Ok(());
    }
    let target = target(view, &spec.field)?;
    if target.kind.kind != Kind::Completion {
        return Err(Error::illegal(format!(
            "Field [{}] is not a completion suggest field",
            spec.field
        )));
    }
    let analyzer = target.kind.search_analyzer.as_ref().or(target.kind.analyzer.as_ref());
    let key = completion::key(analyzer, &suggestion.text);
    if key.is_empty() {
        return Ok(());
    }
    let mapped = mapping::contexts::of(target.kind);
    let wanted = contexts::read_contexts(&mapped, &spec.contexts)?;
    for (at, segment) in view.segments.iter().enumerate() {
        if mapped.is_empty() {
            let here = in_segment(segment, &target, &key, spec.fuzzy.as_ref())?;
            found.extend(here.into_iter().map(|(doc, (score, input))| Completed {
                score,
                input,
                view: no,
                segment: at,
                doc,
                contexts: None,
            }));
        } else {
            let here = contexts::in_segment(segment, &target, &key, &wanted, &mapped, spec.fuzzy.as_ref())?;
            found.extend(here.into_iter().map(|(doc, one)| Completed {
                score: one.score,
                input: one.input,
                view: no,
                segment: at,
                doc,
                contexts: Some(one.shown),
            }));
        }
    }
    Ok(())
}

/// `output` and `payload`, which Elasticsearch 2 shows instead of a suggestion's input.
type Shown = (Option<String>, Option<Value>);

/// The first `size` suggestions that are shown differently, the best first; `found` keeps those.
fn shown_in_2015(views: &[Searched], field: &str, found: &mut Vec<Completed>, size: usize) -> Result<Vec<Shown>> {
    let (mut kept, mut shown) = (Vec::new(), Vec::new());
    let mut seen = BTreeSet::new();
    for one in found.drain(..) {
        if kept.len() == size {
            break;
        }
        let view = &views[one.view].0;
        let shelf = DocumentReader::of(view, &view.segments[one.segment]);
        let stored = shelf.read(one.doc)?;
        let source: Value = match stored.payload.source() {
            Some(bytes) => serde_json::from_slice(bytes).map_err(broken)?,
            None => Value::Null,
        };
        let told = output_of(&source, field, &one.input);
        if seen.insert(told.0.clone().unwrap_or_else(|| one.input.clone())) {
            kept.push(one);
            shown.push(told);
        }
    }
    *found = kept;
    Ok(shown)
}

/// The members beside an input of a completion field.
fn output_of(source: &Value, field: &str, input: &str) -> Shown {
    let has_input = |object: &Map<String, Value>| match object.get("input") {
        Some(Value::String(text)) => text == input,
        Some(Value::Array(list)) => list.iter().any(|text| text == input),
        _ => false,
    };
    let values = model::path::read(source, field);
    let owner = values
        .iter()
        .filter_map(|value| value.as_object())
        .find(|object| has_input(object));
    let text = |value: &Value| value.as_str().map(str::to_owned);
    match owner {
        None => (None, None),
        Some(owner) => (owner.get("output").and_then(text), owner.get("payload").cloned()),
    }
}

/// The visible documents of a segment with an entry that begins so, each with its best one.
fn in_segment(
    segment: &SegmentView,
    target: &Target<'_>,
    key: &str,
    fuzzy: Option<&FuzzyCompletion>,
) -> Result<BTreeMap<DocId, (f32, String)>> {
    let index = segment.reader.inverted_index(target.slot.field).map_err(broken)?;
    let mut best: BTreeMap<DocId, (f32, String)> = BTreeMap::new();
    let mut take = |text: &[u8], info: &tantivy::postings::TermInfo| -> Result<()> {
        let Some((own, weight, input)) = std::str::from_utf8(text).ok().and_then(completion::entry) else {
            return Ok(());
        };
        // A fuzzy match scores by the common beginning.
        let same = common(own, key);
        let score = match (fuzzy, weight) {
            (None, weight) => weight as f32,
            (Some(_), 0) => same,
            (Some(_), weight) => weight as f32 * same.max(1.0),
        };
        let mut docs = index
            .read_postings_from_terminfo(info, IndexRecordOption::Basic)
            .map_err(broken)?;
        while docs.doc() != TERMINATED {
            let doc = docs.doc();
            if segment.is_alive(doc) && segment.is_root(doc) && !segment.is_hidden(doc) {
                let known = best.get(&doc);
                if known.is_none_or(|(had, text)| score > *had || score == *had && input < text.as_str()) {
                    best.insert(doc, (score, input.to_owned()));
                }
            }
            docs.advance();
        }
        Ok(())
    };
    let fuzzy = fuzzy.filter(|fuzzy| key.chars().count() >= fuzzy.min_length);
    match fuzzy {
        Some(fuzzy) => {
            let automaton = Begins(Levenshtein::new(
                key,
                edits(fuzzy.fuzziness, key),
                fuzzy.prefix_length,
                fuzzy.transpositions,
            ));
            let mut stream = index.terms().search(&automaton).into_stream().map_err(broken)?;
            while stream.advance() {
                take(stream.key(), stream.value())?;
            }
        }
        None => {
            let mut stream = index.terms().range().ge(key.as_bytes()).into_stream().map_err(broken)?;
            while stream.advance() && stream.key().starts_with(key.as_bytes()) {
                take(stream.key(), stream.value())?;
            }
        }
    }
    Ok(best)
}

/// Texts of which some beginning matches.
pub(crate) struct Begins(pub(crate) Levenshtein);

impl Automaton for Begins {
    /// `None`: a beginning has matched.
    type State = Option<<Levenshtein as Automaton>::State>;

    fn start(&self) -> Self::State {
        let state = self.0.start();
        (!self.0.is_match(&state)).then_some(state)
    }
    fn is_match(&self, state: &Self::State) -> bool {
        state.is_none()
    }
    fn can_match(&self, state: &Self::State) -> bool {
        state.as_ref().is_none_or(|state| self.0.can_match(state))
    }
    fn will_always_match(&self, state: &Self::State) -> bool {
        state.is_none()
    }
    fn accept(&self, state: &Self::State, byte: u8) -> Self::State {
        let next = self.0.accept(state.as_ref()?, byte);
        (!self.0.is_match(&next)).then_some(next)
    }
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

    #[test]
    fn beginnings() {
        let automaton = Begins(Levenshtein::new("hamer", 1, 1, true));
        let matches = |text: &str| {
            let end = text
                .bytes()
                .fold(automaton.start(), |state, byte| automaton.accept(&state, byte));
            automaton.is_match(&end)
        };
        assert!(matches("hammer and nail") && matches("hamer") && !matches("kamer") && !matches("horn"));
    }
}
