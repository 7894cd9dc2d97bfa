//! `_termvectors`: the terms of one document's fields, where they stand, and how common they are in the index.
//!
//! Terms are those that analysis gives the document's source, which is what stored vectors hold; nothing is kept for
//! them. Fields that the mapping gives a term vector show what that says of positions and offsets, others all that is
//! asked. Counts are of the index as it is published, deleted documents that no merge dropped among them; where documents
//! are withheld from the reader, of those that the reader sees (`seen`).

use crate::fields::target::Target;
use crate::seen::{self, LivingTerms};
use analysis::Analyzer;
use analysis::utf16::Utf16Offsets;
use dsl::document::{TermFilter, TermVectors};
use engine::VectorsOf;
use mapping::FieldType;
use model::{Error, Result};
use segment::error::broken;
use segment::searchable::IndexView;
use segment::segment_view::SegmentView;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use tantivy::schema::Field;

/// The terms of a field: each with its places.
type Terms = BTreeMap<String, Vec<TermPosition>>;

/// Where a term stands: position, and offsets in units of UTF-16.
#[derive(Clone, Copy, Debug, PartialEq)]
struct TermPosition {
    position: u32,
    start: usize,
    end: usize,
}

/// The statistics of a field in an index.
#[derive(Clone, Copy, Default)]
pub(crate) struct FieldCounts {
    docs: u64,
    doc_freqs: u64,
    /// Words, all in all.
    pub(crate) total: u64,
    /// Different ones, where one segment has them all.
    pub(crate) distinct: Option<u64>,
}

/// The vectors of a document, by field.
///
/// # Errors
/// Unreadable files, an unknown analyzer.
pub fn vectors(view: &IndexView, of: &VectorsOf) -> Result<Map<String, Value>> {
    let spec = &of.spec;
    let mut fields: Vec<(&str, &FieldType)> = Vec::new();
    for (path, field) in view.mapping.fields() {
        let text = field.kind.is_text() || field.kind.is_keyword();
        let asked = if !spec.fields.is_empty() {
            spec.fields.iter().any(|pattern| model::path::matches(pattern, path))
        } else {
            of.artificial || vector_of(field).is_some()
        };
        if text && field.index && asked {
            fields.push((path, field));
        }
    }
    let mut found: Vec<(&str, &FieldType, Terms)> = Vec::new();
    for (path, field) in fields {
        // A document of the request is read as if it were indexed; only the root's own fields are.
        if of.artificial && view.mapping.nested_path_of(path).is_some() {
            continue;
        }
        let analyzer = analyzer(view, path, field, spec)?;
        let terms = terms_of(view, &of.source, path, field, analyzer.as_ref())?;
        if !terms.is_empty() {
            found.push((path, field, terms));
        }
    }
    let mut out = Map::new();
    for (path, field, terms) in found {
        out.insert(path.to_owned(), render_terms(view, path, field, terms, of)?);
    }
    Ok(out)
}

/// The parts of term vectors that a mapping stores.
fn vector_of(field: &FieldType) -> Option<&str> {
    field.term_vector.as_deref().filter(|vector| *vector != "no")
}

/// The analyzer of a field, or the one that the request names; `None`: each value is a term.
fn analyzer(view: &IndexView, path: &str, field: &FieldType, spec: &TermVectors) -> Result<Option<Analyzer>> {
    if let Some(name) = spec.per_field_analyzer.get(path) {
        let named = view.registry.analyzer(name);
        return named
            .map(Some)
            .ok_or_else(|| Error::illegal(format!("No analyzer found for [{name}]")));
    }
    Ok(own_analyzer(view, field))
}

/// The analyzer that a field's values were indexed with; `None`: each value is a term.
pub(crate) fn own_analyzer(view: &IndexView, field: &FieldType) -> Option<Analyzer> {
    if !field.kind.is_text() {
        return field.normalizer.clone();
    }
    let own = field.analyzer.clone().or_else(|| view.registry.analyzer("default"));
    own.or_else(|| view.registry.analyzer("standard"))
}

/// The values that a field is made of: its own, its parent's where it is one of several, and what is copied to it.
pub(crate) fn values<'a>(view: &IndexView, source: &'a Value, path: &str, out: &mut Vec<&'a Value>) {
    collect(source, path, out);
    if let Some((parent, _)) = path.rsplit_once('.')
        && view.mapping.multi_fields(parent).any(|(multi, _)| multi == path)
    {
        collect(source, parent, out);
    }
    for (from, field) in view.mapping.fields() {
        if field.copy_to.iter().any(|to| to == path) {
            collect(source, from, out);
        }
    }
}

/// The leaves at a path, through lists; names may have dots.
fn collect<'a>(value: &'a Value, path: &str, out: &mut Vec<&'a Value>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect(item, path, out)),
        _ if path.is_empty() => out.push(value),
        Value::Object(object) => {
            for (name, inner) in object {
                if name == path {
                    collect(inner, "", out);
                } else if let Some(rest) = path.strip_prefix(name.as_str()).and_then(|rest| rest.strip_prefix('.')) {
                    collect(inner, rest, out);
                }
            }
        }
        _ => {}
    }
}

fn terms_of(view: &IndexView, source: &Value, path: &str, field: &FieldType, analyzer: Option<&Analyzer>) -> Result<Terms> {
    let mut all = Vec::new();
    values(view, source, path, &mut all);
    let mut terms = Terms::new();
    let (mut position, mut offset, mut first) = (0, 0, true);
    let gap = if field.kind.is_text() {
        field.position_increment_gap
    } else {
        0
    };
    for value in all {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Number(_) | Value::Bool(_) => value.to_string(),
            _ => continue,
        };
        if !std::mem::take(&mut first) {
            position += gap;
            offset += 1;
        }
        let offsets = Utf16Offsets::new(&text);
        let units = |bytes: usize| offsets.at(bytes);
        let tokens = match analyzer {
            Some(analyzer) => analyzer.try_analyze(&text)?,
            None => Vec::new(),
        };
        let mut next = position;
        for token in &tokens {
            let place = TermPosition {
                position: position + token.position,
                start: offset + units(token.start),
                end: offset + units(token.end),
            };
            terms.entry(token.term.clone()).or_default().push(place);
            next = next.max(place.position + 1);
        }
        let length = units(text.len());
        if analyzer.is_none() && field.ignore_above.is_none_or(|most| text.chars().count() <= most) {
            let place = TermPosition {
                position,
                start: offset,
                end: offset + length,
            };
            terms.entry(text.clone()).or_default().push(place);
            next = position + 1;
        }
        debug_assert!(position <= next, "the words of a value stand behind those of the one before");
        position = next;
        offset += length;
    }
    Ok(terms)
}

/// One field of the answer.
fn render_terms(view: &IndexView, path: &str, field: &FieldType, terms: Terms, of: &VectorsOf) -> Result<Value> {
    let spec = &of.spec;
    // Stored vectors have the parts that the mapping names; those made for a request have all.
    let made = of.artificial || spec.per_field_analyzer.contains_key(path) || view.mapping.nested_path_of(path).is_some();
    let kept = vector_of(field).filter(|_| !made);
    let has = |what: &str| kept.is_none_or(|kept| kept.contains(what));
    let (positions, offsets) = (spec.positions && has("positions"), spec.offsets && has("offsets"));
    let target = Target::of(view, path);
    let counts = target
        .as_ref()
        .map(|target| counts(view, target))
        .transpose()?
        .unwrap_or_default();
    let chosen = match &spec.filter {
        Some(filter) => best(view, target.as_ref(), &terms, filter, counts.docs)?,
        None => terms.keys().map(|term| (term.as_str(), None)).collect(),
    };
    let mut out = Map::new();
    if spec.field_statistics {
        let statistics = json!({ "sum_doc_freq": counts.doc_freqs, "doc_count": counts.docs, "sum_ttf": counts.total });
        out.insert("field_statistics".into(), statistics);
    }
    let mut list = Map::new();
    for (term, score) in chosen {
        let places = &terms[term];
        let mut one = Map::new();
        if spec.term_statistics
            && let Some(target) = &target
        {
            let (docs, total) = frequency(view, target, term)?;
            if docs > 0 {
                one.insert("doc_freq".into(), docs.into());
                one.insert("ttf".into(), total.into());
            }
        }
        one.insert("term_freq".into(), places.len().into());
        if positions || offsets {
            let place = |place: &TermPosition| {
                let mut out = Map::new();
                if positions {
                    out.insert("position".into(), place.position.into());
                }
                if offsets {
                    out.insert("start_offset".into(), place.start.into());
                    out.insert("end_offset".into(), place.end.into());
                }
                Value::Object(out)
            };
            one.insert("tokens".into(), places.iter().map(place).collect());
        }
        if let Some(score) = score {
            one.insert("score".into(), shortest(score));
        }
        list.insert(term.to_owned(), Value::Object(one));
    }
    out.insert("terms".into(), Value::Object(list));
    Ok(Value::Object(out))
}

/// A score as the shortest decimal of its 32 bits.
fn shortest(score: f32) -> Value {
    score.to_string().parse::<f64>().map_or(Value::Null, Value::from)
}

/// Counts a field in an index.
pub(crate) fn counts(view: &IndexView, target: &Target<'_>) -> Result<FieldCounts> {
    let mut all = FieldCounts::default();
    let mut segments = 0;
    for segment in &view.segments {
        let index = segment.reader.inverted_index(target.slot.field).map_err(broken)?;
        let is_text = target.kind.kind.is_text();
        let here = match view.is_restricted() {
            true => seen::living_with(segment, &index, is_text)?,
            false => {
                let mut here = LivingTerms {
                    distinct: index.terms().num_terms() as u64,
                    doc_freqs: sum_doc_freq(segment, target.slot.field)?,
                    ..LivingTerms::default()
                };
                if here.doc_freqs > 0 {
                    here.docs = segment.core.doc_count(&segment.reader, target.slot.field)?;
                }
                // Without frequencies each term counts once a document.
                here.tokens = if is_text { index.total_num_tokens() } else { here.doc_freqs };
                here
            }
        };
        if here.doc_freqs == 0 {
            continue;
        }
        segments += 1;
        all.distinct = (segments == 1).then_some(here.distinct);
        all.docs += here.docs;
        all.doc_freqs += here.doc_freqs;
        all.total += here.tokens;
    }
    Ok(all)
}

/// The documents of each term of a field in a segment, summed: Lucene's sumDocFreq. It is found once a segment.
fn sum_doc_freq(segment: &SegmentView, field: Field) -> Result<u64> {
    let sum = segment.core.once(&format!("sum_doc_freq:{}", field.field_id()), || {
        let index = segment.reader.inverted_index(field).map_err(broken)?;
        let mut terms = index.terms().stream().map_err(broken)?;
        let mut sum = 0u64;
        while terms.advance() {
            sum += u64::from(terms.value().doc_freq);
        }
        Ok(sum)
    })?;
    Ok(*sum)
}

/// How many documents have a term, and how often all of them together.
pub(crate) fn frequency(view: &IndexView, target: &Target<'_>, text: &str) -> Result<(u64, u64)> {
    seen::frequency(view, &target.text_term(text))
}

/// The terms with the highest scores, in the order of terms.
fn best<'a>(
    view: &IndexView,
    target: Option<&Target<'_>>,
    terms: &'a Terms,
    filter: &TermFilter,
    docs: u64,
) -> Result<Vec<(&'a str, Option<f32>)>> {
    let mut scored: Vec<(&str, f32)> = Vec::new();
    for (term, places) in terms {
        let (here, length) = (places.len() as u64, term.encode_utf16().count());
        let too_long = filter.max_word_length > 0 && length > filter.max_word_length;
        if too_long || length < filter.min_word_length || here < filter.min_term_freq || here > filter.max_term_freq {
            continue;
        }
        let everywhere = match target {
            Some(target) => frequency(view, target, term)?.0,
            None => 0,
        };
        if everywhere < filter.min_doc_freq || everywhere > filter.max_doc_freq || everywhere == 0 {
            continue;
        }
        let rarity = ((docs + 1) as f64 / (everywhere + 1) as f64).ln() + 1.0;
        scored.push((term, here as f32 * rarity as f32));
    }
    scored.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(b.0)));
    scored.truncate(filter.max_num_terms);
    scored.sort_by(|a, b| a.0.cmp(b.0));
    Ok(scored.into_iter().map(|(term, score)| (term, Some(score))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: Value, path: &str, expected: &[Value]) {
        let mut found = Vec::new();
        collect(&source, path, &mut found);
        assert_eq!(found, expected.iter().collect::<Vec<_>>(), "{path} of {source}");
    }

    #[test]
    fn leaves() {
        check(json!({"a": {"b": [1, {"c": 2}]}}), "a.b.c", &[json!(2)]);
        check(json!({"a": ["x", ["y"]]}), "a", &[json!("x"), json!("y")]);
        check(json!({"a.b": "x", "a": {"b": "y"}}), "a.b", &[json!("x"), json!("y")]);
        check(json!({"a": 1}), "b", &[]);
    }
}
