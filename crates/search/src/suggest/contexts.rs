//! Completions by contexts: which a request asks for, and what of a segment is in one of them.
//!
//! Not here: how inputs are kept (`mapping::contexts`), completions without contexts (`completions`).

use super::beginnings::{Begins, common};
use super::shown_documents::ShownDocuments;
use crate::automata::levenshtein::{Levenshtein, edits};
use crate::fields::target::Target;
use dsl::json::Node;
use dsl::query::parse_place;
use dsl::search::suggest::FuzzyCompletion;
use mapping::completion;
use mapping::contexts::{CONTEXT_END, CompletionContext, around, beginning, lat_lon_hash, length};
use model::{Error, ErrorKind, Result, Topic};
use segment::error::broken;
use segment::segment_view::SegmentView;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use tantivy::DocId;
use tantivy_fst::Automaton;

/// A value of a context that is asked for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ContextValue {
    /// The number of the context and the value, as entries have them.
    beginning: String,
    /// Longer values will do.
    prefix: bool,
    boost: f32,
}

/// A document's best input for a request, and its contexts.
pub(crate) struct BestInput {
    pub(crate) score: f32,
    pub(crate) input: String,
    pub(crate) shown: Value,
}

/// A context that a request names, with its boost.
///
/// # Errors
/// Contexts that the field does not have, none where it has some.
pub(crate) fn read_contexts(contexts: &[CompletionContext], given: &Map<String, Value>) -> Result<Vec<ContextValue>> {
    if contexts.is_empty() {
        if given.is_empty() {
            return Ok(Vec::new());
        }
        return Err(Error::illegal("suggester [completion] doesn't expect any context"));
    }
    let mut out: Vec<ContextValue> = Vec::new();
    for (name, value) in given {
        let Some(no) = contexts.iter().position(|context| context.name == *name) else {
            let names: Vec<&str> = contexts.iter().map(|context| context.name.as_str()).collect();
            return Err(Error::illegal(format!(
                "Unknown context name [{name}], must be one of [{}]",
                names.join(", ")
            )));
        };
        let one;
        let list = match value {
            Value::Array(list) => list,
            other => {
                one = vec![other.clone()];
                &one
            }
        };
        for value in list {
            let mut add = |text: &str, prefix: bool, boost: f32| -> Result<()> {
                out.push(ContextValue {
                    beginning: beginning(no, text)?,
                    prefix,
                    boost,
                });
                Ok(())
            };
            match contexts[no].precision {
                None => category(value, &mut add)?,
                Some(precision) => place(value, precision, &mut add)?,
            }
        }
    }
    if out.is_empty() {
        return Err(Error::illegal("Missing mandatory contexts in context query"));
    }
    Ok(out)
}

type Add<'a> = dyn FnMut(&str, bool, f32) -> Result<()> + 'a;

fn bad(reason: &str) -> Error {
    Error::new(ErrorKind::XContentParse, reason.to_owned())
}

fn boost_of(object: &Map<String, Value>) -> Result<f32> {
    let Some(boost) = object.get("boost") else { return Ok(1.0) };
    let number = match boost {
        Value::String(text) => text.parse::<i64>().ok(),
        other => other.as_i64(),
    };
    let number = number
        .filter(|n| *n >= 1)
        .ok_or_else(|| Error::illegal("boost must be greater than 0"))?;
    Ok(number as f32)
}

fn category(value: &Value, add: &mut Add<'_>) -> Result<()> {
    match value {
        Value::String(text) => add(text, false, 1.0),
        Value::Number(_) | Value::Bool(_) => add(&value.to_string(), false, 1.0),
        Value::Object(object) => {
            if object
                .keys()
                .any(|key| !matches!(key.as_str(), "context" | "boost" | "prefix"))
            {
                return Err(bad("category context must be a string, number or boolean"));
            }
            let text = match object.get("context") {
                Some(Value::String(text)) => text.clone(),
                Some(value @ (Value::Number(_) | Value::Bool(_))) => value.to_string(),
                _ => return Err(bad("category must not be null")),
            };
            let prefix = match object.get("prefix") {
                None => false,
                Some(Value::Bool(prefix)) => *prefix,
                Some(other) => return Err(bad(&format!("[prefix] must be a boolean, but was [{other}]"))),
            };
            add(&text, prefix, boost_of(object)?)
        }
        _ => Err(bad("category context must be an object, string, number or boolean")),
    }
}

/// The cell of a place, and those around it.
fn place(value: &Value, precision: usize, add: &mut Add<'_>) -> Result<()> {
    let whole = || parse_place(&Node::from_value(value.clone()));
    let (mut at, mut length_asked, mut neighbours, mut boost) = (None, 12, Vec::new(), 1.0);
    match value {
        Value::Object(object) => {
            let (mut lat, mut lon) = (None, None);
            for (key, part) in object {
                match key.as_str() {
                    "context" => at = Some(parse_place(&Node::from_value(part.clone()))?),
                    "lat" => lat = Some(part.clone()),
                    "lon" => lon = Some(part.clone()),
                    "precision" => length_asked = length(part)?,
                    "boost" => boost = boost_of(object)?,
                    "neighbours" => {
                        let list = part.as_array().cloned().unwrap_or_else(|| vec![part.clone()]);
                        neighbours = list.iter().map(length).collect::<Result<_>>()?;
                    }
                    other => {
                        let name = other.to_owned();
                        return Err(bad(&format!("[geo] unknown field [{name}]")).about(Topic::UnknownField { name }));
                    }
                }
            }
            if let (Some(lat), Some(lon)) = (lat, lon) {
                at = Some(parse_place(&Node::from_value(json!({ "lat": lat, "lon": lon })))?);
            }
        }
        _ => at = Some(whole()?),
    }
    let (lat, lon) = at.ok_or_else(|| bad("no geohash or geo point provided"))?;
    let shown = length_asked.clamp(1, 12).min(precision);
    let mut cells = BTreeSet::from([lat_lon_hash(lat, lon, shown)]);
    if neighbours.is_empty() && shown == precision {
        cells.extend(around(lat, lon, shown));
    }
    for wider in neighbours.into_iter().filter(|wider| (1..shown).contains(wider)) {
        cells.insert(lat_lon_hash(lat, lon, wider));
        cells.extend(around(lat, lon, wider));
    }
    cells.iter().try_for_each(|cell| add(cell, cell.len() < precision, boost))
}

/// The visible documents of a segment with an entry that begins so in one of the contexts.
pub(crate) fn in_segment(
    segment: &SegmentView,
    target: &Target<'_>,
    key: &str,
    asked: &[ContextValue],
    contexts: &[CompletionContext],
    fuzzy: Option<&FuzzyCompletion>,
) -> Result<BTreeMap<DocId, BestInput>> {
    let index = segment.reader.inverted_index(target.slot.field).map_err(broken)?;
    let fuzzy = fuzzy.filter(|fuzzy| key.chars().count() >= fuzzy.min_length);
    let automaton = fuzzy.map(|fuzzy| {
        let edits = edits(fuzzy.fuzziness, key);
        Begins(Levenshtein::new(key, edits, fuzzy.prefix_length, fuzzy.transpositions))
    });
    let mut best: BTreeMap<DocId, InputBest> = BTreeMap::new();
    for one in asked {
        let start = match (&automaton, one.prefix) {
            (None, false) => format!("{}{CONTEXT_END}{key}", one.beginning),
            (Some(_), false) => format!("{}{CONTEXT_END}", one.beginning),
            (_, true) => one.beginning.clone(),
        };
        let mut stream = index.terms().range().ge(start.as_bytes()).into_stream().map_err(broken)?;
        while stream.advance() && stream.key().starts_with(start.as_bytes()) {
            let entry = std::str::from_utf8(stream.key()).ok().and_then(completion::entry);
            let Some((own, weight, input)) = entry else { continue };
            let Some((context, own)) = own.split_once(CONTEXT_END) else {
                continue;
            };
            let begins = match &automaton {
                None => own.starts_with(key),
                Some(automaton) => {
                    let end = own
                        .bytes()
                        .fold(automaton.start(), |state, byte| automaton.accept(&state, byte));
                    automaton.is_match(&end)
                }
            };
            if !begins {
                continue;
            }
            // A longer match and a boost add up.
            let factor = match &automaton {
                None => one.boost,
                Some(_) => (common(own, key) + one.boost - 1.0).max(1.0),
            };
            let score = if weight == 0 { factor } else { weight as f32 * factor };
            for doc in ShownDocuments::open(segment, target.slot.field, stream.value())? {
                let known = best.entry(doc).or_insert_with(|| InputBest::of(score, input));
                known.compare(score, input, context);
            }
        }
    }
    let found = |(doc, best): (DocId, InputBest)| {
        let found = BestInput {
            score: best.score,
            input: best.input,
            shown: show_contexts(&best.by, contexts),
        };
        (doc, found)
    };
    Ok(best.into_iter().map(found).collect())
}

/// The best input of a document so far, and the contexts that it was found by.
struct InputBest {
    score: f32,
    input: String,
    by: BTreeSet<String>,
}

impl InputBest {
    fn of(score: f32, input: &str) -> InputBest {
        InputBest {
            score,
            input: input.to_owned(),
            by: BTreeSet::new(),
        }
    }

    /// One more input of the document: the higher score counts, then the lesser text.
    fn compare(&mut self, score: f32, input: &str, context: &str) {
        if score > self.score || score == self.score && input < self.input.as_str() {
            if input != self.input {
                self.by.clear();
            }
            self.score = score;
            self.input = input.to_owned();
        }
        if input == self.input {
            self.by.insert(context.to_owned());
        }
    }
}

/// The values that a document was found by, under the names of their contexts.
fn show_contexts(by: &BTreeSet<String>, contexts: &[CompletionContext]) -> Value {
    let mut out = Map::new();
    for (no, context) in contexts.iter().enumerate() {
        let mark = beginning(no, "").unwrap_or_default();
        let values: Vec<&str> = by.iter().filter_map(|value| value.strip_prefix(&mark)).collect();
        if !values.is_empty() {
            out.insert(context.name.clone(), values.into());
        }
    }
    Value::Object(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(given: Value, expected: std::result::Result<usize, &str>) {
        let context = |name: &str, precision| CompletionContext {
            name: name.into(),
            precision,
            path: None,
        };
        let contexts = [context("color", None), context("loc", Some(4))];
        let Value::Object(given) = given else { panic!("{given}") };
        match (read_contexts(&contexts, &given), expected) {
            (Ok(list), Ok(count)) => assert_eq!(list.len(), count, "{given:?}"),
            (Err(error), Err(part)) => assert!(error.reason().contains(part), "{given:?}: {error}"),
            (found, _) => panic!("{given:?}: {found:?}"),
        }
    }

    #[test]
    fn forms() {
        check(json!({"color": ["red", {"context": "b", "prefix": true, "boost": 2}]}), Ok(2));
        check(json!({"loc": {"lat": 52.5, "lon": 13.4}}), Ok(9));
        check(json!({"loc": {"context": "52.5,13.4", "precision": 2}}), Ok(1));
        check(json!({"color": []}), Err("Missing mandatory contexts"));
        check(json!({"shape": "x"}), Err("must be one of [color, loc]"));
    }
}
