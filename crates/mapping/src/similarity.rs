//! How fields score: by a similarity that is built in, or one that the index's settings define by name.
//!
//! Not here: how a score comes about (`embedded`).

use model::{Error, Result};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// A similarity with its numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Similarity {
    /// `k1`: how soon more of the same word adds no more. `b`: how much a long field takes away, 0 to 1.
    Bm25 { k1: f32, b: f32 },
    /// The boost of the query, however often and wherever.
    Boolean,
    /// TF/IDF, of typed indices.
    Classic,
}

/// The default of `k1`.
pub const K1: f32 = 1.2;
/// The default of `b`.
pub const B: f32 = 0.75;

const PREFIX: &str = "index.similarity.";

/// Similarities of the servers we stand in for whose work we do not do.
const NOT_SUPPORTED: &[&str] = &["DFR", "IB", "DFI", "LMDirichlet", "LMJelinekMercer", "scripted"];

/// The similarity of this name: as the settings define it, or built in. `None`: the index's own.
pub fn by_name(flat: &Map<String, Value>, name: Option<&str>) -> Option<Similarity> {
    let name = name.unwrap_or("default");
    let option = |option: &str| flat.get(&format!("{PREFIX}{name}.{option}"));
    let number = |name: &str, usual: f32| option(name).and_then(number_of).unwrap_or(usual);
    match option("type").and_then(Value::as_str).or(match name {
        "BM25" | "boolean" => Some(name),
        _ => None,
    })? {
        "BM25" | "LegacyBM25" => Some(Similarity::Bm25 {
            k1: number("k1", K1),
            b: number("b", B),
        }),
        "boolean" => Some(Similarity::Boolean),
        "classic" | "default" => Some(Similarity::Classic),
        _ => None,
    }
}

/// The names that the settings define.
pub(crate) fn names(flat: &Map<String, Value>) -> BTreeSet<String> {
    flat.keys()
        .filter_map(|key| key.strip_prefix(PREFIX)?.split_once('.'))
        .map(|(name, _)| name.to_owned())
        .collect()
}

fn number_of(value: &Value) -> Option<f32> {
    match value {
        Value::String(text) => text.trim().parse().ok(),
        other => other.as_f64().map(|n| n as f32),
    }
}

/// Refuses definitions that are none.
///
/// # Errors
/// `illegal_argument_exception`: no type or one that is not known or not supported, options that it has not, numbers out of
/// their range, a name that is built in.
pub fn check(flat: &Map<String, Value>) -> Result<()> {
    for name in names(flat) {
        if matches!(name.as_str(), "BM25" | "boolean") {
            return Err(Error::illegal(format!(
                "illegal value for [{PREFIX}{name}] cannot redefine built-in similarity"
            )));
        }
        let start = format!("{PREFIX}{name}.");
        let kind = match flat.get(&format!("{start}type")).and_then(Value::as_str) {
            Some(kind) => kind,
            None => return Err(Error::illegal(format!("Similarity [{name}] must have an associated type"))),
        };
        let known: &[&str] = match kind {
            "BM25" | "LegacyBM25" => &["k1", "b", "discount_overlaps"],
            "boolean" => &[],
            "classic" | "default" => &["discount_overlaps"],
            kind if NOT_SUPPORTED.contains(&kind) => {
                let reason = format!("Similarity [{name}] of type [{kind}] is not supported yet: only BM25 and boolean are");
                return Err(Error::illegal(reason));
            }
            _ => return Err(Error::illegal(format!("Unknown Similarity type [{kind}] for [{name}]"))),
        };
        for (key, value) in flat.iter().filter(|(key, _)| key.starts_with(&start)) {
            let option = &key[start.len()..];
            if option == "type" {
                continue;
            }
            if !known.contains(&option) {
                return Err(Error::illegal(format!(
                    "Unknown settings for similarity of type [{kind}]: [{option}]"
                )));
            }
            check_option(option, value)?;
        }
    }
    Ok(())
}

fn check_option(option: &str, value: &Value) -> Result<()> {
    if option == "discount_overlaps" {
        return match value {
            Value::Bool(true) => Ok(()),
            Value::String(text) if text == "true" => Ok(()),
            _ => Err(Error::illegal(
                "[discount_overlaps] can only be [true]: a word in the place of another one adds nothing to a field's length",
            )),
        };
    }
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let number = number_of(value).ok_or_else(|| Error::no_number(&text))?;
    match option {
        "k1" if !(number.is_finite() && number >= 0.0) => Err(Error::illegal(format!(
            "illegal k1 value: {number:?}, must be a non-negative finite value"
        ))),
        "b" if !(0.0..=1.0).contains(&number) => Err(Error::illegal(format!(
            "illegal b value: {number:?}, must be between 0 and 1"
        ))),
        _ => Ok(()),
    }
}
