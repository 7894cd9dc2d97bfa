//! Completions: inputs of `completion` fields by their beginnings, the highest weights first.
//!
//! The entries that begin so stand together in the dictionary of a field. One pass goes through them and keeps a bounded number of
//! the best; only the documents of those are read. A page that they do not fill is looked for again with more of them. Where many begin so,
//! only the heaviest are read (`completion_weights`).
//!
//! Not here: entries of fields with contexts (`contexts`), how entries are written (`mapping::completion`).

use super::beginnings::{Begins, common};
use super::completion_weights::{CompletionWeights, ENTRIES_MIN, EntryRange, ordinals_of, ranges_within};
use super::shown_documents::ShownDocuments;
use super::{contexts, lacks, shortest, target, utf16};
use crate::Searched;
use crate::automata::levenshtein::{Levenshtein, edits};
use crate::context::Context;
use crate::document_reader::DocumentReader;
use crate::fetch::Fetch;
use crate::fields::target::Target;
use dsl::search::suggest::FuzzyCompletion;
use dsl::search::{CompletionSuggester, SearchRequest, Suggestion};
use mapping::{Kind, completion};
use model::{Error, Result};
use rustc_hash::FxHashSet;
use segment::error::broken;
use segment::searchable::IndexView;
use segment::segment_view::SegmentView;
use serde_json::{Map, Value, json};
use std::cmp::Ordering;
use std::collections::{BTreeSet, BinaryHeap};
use tantivy::DocId;
use tantivy::postings::TermInfo;
use tantivy::schema::Field;

/// Entries that are kept at first beyond twice the size of the page: some documents have several.
const SPARE_ENTRIES: usize = if cfg!(test) { 0 } else { 16 };
/// So many times as many are kept when a page was not filled.
const MORE: usize = 8;

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

/// The answer to one suggestion.
///
/// # Errors
/// Fields that are missing or of another type, contexts that are missing or unknown, unreadable files.
pub(super) fn run(
    views: &[Searched],
    suggestion: &Suggestion,
    spec: &CompletionSuggester,
    request: &SearchRequest,
    cx: &Context<'_>,
) -> Result<Value> {
    let shows_output = request.dialect.rules.suggestions_show_output;
    let mut most = spec.size.saturating_mul(2).saturating_add(SPARE_ENTRIES);
    let (found, shown) = loop {
        let (mut found, is_all) = best(views, suggestion, spec, most)?;
        let shown = match shows_output {
            true => shown_in_2015(views, &spec.field, &mut found, spec.size)?,
            false => Vec::new(),
        };
        if spec.skip_duplicates {
            let mut seen = BTreeSet::new();
            found.retain(|one| seen.insert(one.input.clone()));
        }
        if is_all || found.len() >= spec.size {
            found.truncate(spec.size);
            break (found, shown);
        }
        most = most.saturating_mul(MORE);
    };
    let mut shown = shown.into_iter();
    let mut options = Vec::with_capacity(found.len());
    for one in found {
        let view = &views[one.view].0;
        let mut option = Map::new();
        option.insert("text".into(), one.input.into());
        if shows_output {
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

/// The best completions in order, each document with its best input, and whether they are all there are. Of fields without
/// contexts the best `most` entries are looked at, and at most as many documents.
fn best(views: &[Searched], suggestion: &Suggestion, spec: &CompletionSuggester, most: usize) -> Result<(Vec<Completed>, bool)> {
    let mut entries = BestEntries::new(most);
    let mut found = Vec::new();
    for (no, (view, _)) in views.iter().enumerate() {
        completions_in_view(no, view, suggestion, spec, &mut entries, &mut found)?;
    }
    let is_all = entries.find_documents(views, &mut found)?;
    // Documents of one segment stay in their order.
    found.sort_by(|a: &Completed, b| {
        b.score
            .total_cmp(&a.score)
            .then_with(|| a.input.cmp(&b.input))
            .then_with(|| (a.view, a.segment).cmp(&(b.view, b.segment)))
    });
    if !is_all {
        // What stands behind the last entry may stand behind entries that were not kept, too.
        let last = found.iter().rposition(|one| one.contexts.is_none());
        found.truncate(last.map_or(0, |last| last + 1));
    }
    Ok((found, is_all))
}

/// Looks at the completions that an index has.
fn completions_in_view(
    no: usize,
    view: &IndexView,
    suggestion: &Suggestion,
    spec: &CompletionSuggester,
    entries: &mut BestEntries,
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
            entries_in_segment((no, at, segment), &target, &key, spec.fuzzy.as_ref(), entries)?;
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

/// The score of an entry by its weight, and by how many characters it has in common with what is looked for, where a match may be fuzzy.
fn score_of(weight: u32, common: Option<f32>) -> f32 {
    match (common, weight) {
        (None, weight) => weight as f32,
        (Some(common), 0) => common,
        (Some(common), weight) => weight as f32 * common.max(1.0),
    }
}

/// The entries of a segment that begin as asked and may be among the best, by their weights; `None` where they must be read one by one:
/// they are few, many have one score, or some of the best have no document that readers see.
fn heaviest_entries(
    (view, at, segment): (usize, usize, &SegmentView),
    target: &Target<'_>,
    ranges: &[EntryRange],
    weights: &CompletionWeights,
    entries: &BestEntries,
) -> Result<Option<Vec<CompletionEntry>>> {
    let field = target.slot.field;
    let count: u64 = ranges.iter().map(|range| range.ordinals.end - range.ordinals.start).sum();
    let Some(heaviest) = weights
        .heaviest_of(ranges, entries.most, score_of)
        .filter(|_| count >= ENTRIES_MIN as u64)
    else {
        return Ok(None);
    };
    let index = segment.reader.inverted_index(field).map_err(broken)?;
    let mut found = Vec::new();
    let mut text = Vec::new();
    for (score, ord) in heaviest {
        index.terms().ord_to_term(ord, &mut text).map_err(broken)?;
        let Some((_, _, input)) = std::str::from_utf8(&text).ok().and_then(completion::entry) else {
            continue;
        };
        if !entries.is_among(score, input) {
            continue;
        }
        let Some(info) = index.terms().get(&text).map_err(broken)? else {
            continue;
        };
        if ShownDocuments::open(segment, field, &info)?.next().is_none() {
            return Ok(None);
        }
        found.push(CompletionEntry {
            score,
            input: input.to_owned(),
            view,
            segment: at,
            field,
            info,
        });
    }
    Ok(Some(found))
}

/// Shows the entries of a segment that begin so.
fn entries_in_segment(
    (view, at, segment): (usize, usize, &SegmentView),
    target: &Target<'_>,
    key: &str,
    fuzzy: Option<&FuzzyCompletion>,
    entries: &mut BestEntries,
) -> Result<()> {
    let index = segment.reader.inverted_index(target.slot.field).map_err(broken)?;
    let automaton = fuzzy.filter(|fuzzy| key.chars().count() >= fuzzy.min_length).map(|fuzzy| {
        let edits = edits(fuzzy.fuzziness, key);
        Begins(Levenshtein::new(key, edits, fuzzy.prefix_length, fuzzy.transpositions))
    });
    if let Some(weights) = CompletionWeights::find(segment, target.slot.field) {
        let ranges = match &automaton {
            Some(automaton) => ranges_within(&index, key, automaton)?,
            None => Some(vec![EntryRange {
                ordinals: ordinals_of(&index, key)?,
                common: fuzzy.map(|_| key.chars().count() as f32),
            }]),
        };
        let heaviest = match ranges {
            Some(ranges) => heaviest_entries((view, at, segment), target, &ranges, &weights, entries)?,
            None => None,
        };
        if let Some(heaviest) = heaviest {
            heaviest.into_iter().for_each(|entry| entries.push(entry));
            return Ok(());
        }
    }
    let mut seen = 0;
    let mut show = |text: &[u8], info: &TermInfo| -> Result<()> {
        let Some((own, weight, input)) = std::str::from_utf8(text).ok().and_then(completion::entry) else {
            return Ok(());
        };
        seen += 1;
        // A fuzzy match scores by the common beginning.
        let score = score_of(weight, fuzzy.map(|_| common(own, key)));
        if entries.is_among(score, input) && ShownDocuments::open(segment, target.slot.field, info)?.next().is_some() {
            entries.push(CompletionEntry {
                score,
                input: input.to_owned(),
                view,
                segment: at,
                field: target.slot.field,
                info: info.clone(),
            });
        }
        Ok(())
    };
    match &automaton {
        Some(automaton) => {
            let mut stream = index.terms().search(automaton).into_stream().map_err(broken)?;
            while stream.advance() {
                show(stream.key(), stream.value())?;
            }
        }
        None => {
            let mut stream = index.terms().range().ge(key.as_bytes()).into_stream().map_err(broken)?;
            while stream.advance() && stream.key().starts_with(key.as_bytes()) {
                show(stream.key(), stream.value())?;
            }
        }
    }
    if seen >= ENTRIES_MIN {
        // The next search of so many entries has their weights at hand.
        CompletionWeights::of(segment, target.slot.field, &index)?;
    }
    Ok(())
}

/// An entry of a segment that begins as asked.
struct CompletionEntry {
    score: f32,
    input: String,
    view: usize,
    segment: usize,
    field: Field,
    info: TermInfo,
}

/// Best first: by the score, then by the input.
fn compare((a, a_input): (f32, &str), (b, b_input): (f32, &str)) -> Ordering {
    b.total_cmp(&a).then_with(|| a_input.cmp(b_input))
}

/// An entry with its number; the worst is the greatest.
struct RankedEntry(CompletionEntry, usize);

impl Ord for RankedEntry {
    fn cmp(&self, other: &RankedEntry) -> Ordering {
        compare((self.0.score, &self.0.input), (other.0.score, &other.0.input)).then_with(|| self.1.cmp(&other.1))
    }
}

impl PartialOrd for RankedEntry {
    fn partial_cmp(&self, other: &RankedEntry) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Eq for RankedEntry {}

impl PartialEq for RankedEntry {
    fn eq(&self, other: &RankedEntry) -> bool {
        self.cmp(other).is_eq()
    }
}

/// The best entries of all indices, a bounded number of them.
struct BestEntries {
    heap: BinaryHeap<RankedEntry>,
    most: usize,
    pushed: usize,
}

impl BestEntries {
    fn new(most: usize) -> BestEntries {
        BestEntries {
            heap: BinaryHeap::new(),
            most,
            pushed: 0,
        }
    }

    /// Whether one more entry is among the best so far. Of equal ones the first stays.
    fn is_among(&self, score: f32, input: &str) -> bool {
        let worst = self.heap.peek().filter(|_| self.heap.len() >= self.most);
        worst.map_or(self.most > 0, |RankedEntry(worst, _)| {
            compare((score, input), (worst.score, &worst.input)).is_lt()
        })
    }

    fn push(&mut self, entry: CompletionEntry) {
        self.heap.push(RankedEntry(entry, self.pushed));
        self.pushed += 1;
        if self.heap.len() > self.most {
            self.heap.pop();
        }
        debug_assert!(self.heap.len() <= self.most, "no more entries are kept than are wanted");
    }

    /// Adds the visible documents of the entries, each once, with its best entry, up to `most`; whether all there are were found.
    /// Entries that were never kept are not: as many better ones are.
    fn find_documents(self, views: &[Searched], found: &mut Vec<Completed>) -> Result<bool> {
        let (most, is_full) = (self.most, self.heap.len() >= self.most);
        let (mut seen, mut count) = (FxHashSet::default(), 0);
        for RankedEntry(entry, _) in self.heap.into_sorted_vec() {
            let segment = &views[entry.view].0.segments[entry.segment];
            for doc in ShownDocuments::open(segment, entry.field, &entry.info)? {
                if !seen.insert((entry.view, entry.segment, doc)) {
                    continue;
                }
                if count == most {
                    return Ok(false);
                }
                count += 1;
                found.push(Completed {
                    score: entry.score,
                    input: entry.input.clone(),
                    view: entry.view,
                    segment: entry.segment,
                    doc,
                    contexts: None,
                });
            }
        }
        Ok(!is_full)
    }
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
