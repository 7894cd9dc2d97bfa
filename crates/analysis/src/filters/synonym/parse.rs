//! The Solr and WordNet formats of synonym rules.

use super::Synonyms;
use crate::room::Room;
use model::{Error, ErrorKind, Result};
use std::collections::HashSet;

/// How rules are read.
pub(crate) struct Reading<'a> {
    /// Cuts a word of a rule into terms as the analyzer would; `Err` says why it cannot.
    pub(crate) analyze: &'a dyn Fn(&str) -> std::result::Result<Vec<String>, String>,
    /// `a, b` makes each stand for all, not for the first only.
    pub(crate) expand: bool,
    /// Rules that cannot be read are left out.
    pub(crate) lenient: bool,
    /// The WordNet format, not Solr's.
    pub(crate) wordnet: bool,
}

/// Reads rules, one an element.
pub(crate) fn parse(rules: &[String], reading: &Reading<'_>) -> Result<Synonyms> {
    let mut synonyms = Synonyms::default();
    let result = if reading.wordnet {
        wordnet(rules, reading, &mut synonyms)
    } else {
        solr(rules, reading, &mut synonyms)
    };
    match result {
        Ok(()) => Ok(synonyms),
        Err((line, why)) => Err(Error::illegal("failed to build synonyms").with_cause(
            Error::new(ErrorKind::Parse, format!("Invalid synonym rule at line {line}")).with_cause(Error::illegal(why)),
        )),
    }
}

type Outcome = std::result::Result<(), (usize, String)>;

fn solr(rules: &[String], reading: &Reading<'_>, synonyms: &mut Synonyms) -> Outcome {
    let mut room = Room::new();
    for (line, rule) in rules.iter().enumerate() {
        let rule = rule.trim();
        if rule.is_empty() || rule.starts_with('#') {
            continue;
        }
        let sides = split(rule, "=>");
        if sides.len() > 2 {
            return Err((line + 1, "more than one explicit mapping specified on the same line".into()));
        }
        let mut words = Vec::new();
        for side in &sides {
            let mut phrases = Vec::new();
            for word in split(side, ",") {
                match (reading.analyze)(unescape(word.trim()).as_str()) {
                    Ok(phrase) => phrases.push(phrase),
                    Err(_) if reading.lenient => {}
                    Err(why) => return Err((line + 1, why)),
                }
            }
            words.push(each_once(phrases));
        }
        match words.as_slice() {
            [left, right] => {
                for input in left {
                    if !synonyms.add(input, right.iter(), false, &mut room) {
                        return Err((line + 1, too_many()));
                    }
                }
            }
            [all] => equivalent(all, reading.expand, synonyms, &mut room).map_err(|why| (line + 1, why))?,
            _ => {}
        }
    }
    Ok(())
}

fn equivalent(all: &[Vec<String>], expand: bool, synonyms: &mut Synonyms, room: &mut Room) -> std::result::Result<(), String> {
    for (i, input) in all.iter().enumerate() {
        let fits = if expand {
            let others = all.iter().enumerate().filter(|(j, _)| *j != i);
            synonyms.add(input, others.map(|(_, output)| output), true, room)
        } else {
            synonyms.add(input, all.iter().take(1), false, room)
        };
        if !fits {
            return Err(too_many());
        }
    }
    Ok(())
}

fn too_many() -> String {
    Room::refusal("the set of synonym rules").reason().to_owned()
}

/// In the order of their first appearance.
fn each_once(mut phrases: Vec<Vec<String>>) -> Vec<Vec<String>> {
    let mut seen = HashSet::new();
    phrases.retain(|phrase| seen.insert(phrase.clone()));
    phrases
}

/// `s(100000001,1,'word',v,1,0).`: words with one number are equivalent.
fn wordnet(rules: &[String], reading: &Reading<'_>, synonyms: &mut Synonyms) -> Outcome {
    let mut room = Room::new();
    let mut set: Vec<Vec<String>> = Vec::new();
    let mut number = "";
    for (line, rule) in rules.iter().enumerate() {
        let Some(fields) = rule.trim().strip_prefix("s(") else {
            continue;
        };
        let id = fields.split(',').next().unwrap_or("");
        let (Some(open), Some(close)) = (fields.find('\''), fields.rfind('\'')) else {
            return Err((line + 1, format!("no word in [{rule}]")));
        };
        if id != number {
            let whole = each_once(std::mem::take(&mut set));
            equivalent(&whole, reading.expand, synonyms, &mut room).map_err(|why| (line + 1, why))?;
            number = id;
        }
        let word = fields.get(open + 1..close).unwrap_or("").replace("''", "'");
        match (reading.analyze)(&word) {
            Ok(phrase) => set.push(phrase),
            Err(_) if reading.lenient => {}
            Err(why) => return Err((line + 1, why)),
        }
    }
    equivalent(&each_once(set), reading.expand, synonyms, &mut room).map_err(|why| (rules.len(), why))
}

/// Splits at a separator that no backslash stands before. Empty parts are left out.
fn split<'a>(text: &'a str, separator: &str) -> Vec<&'a str> {
    let (mut parts, mut start, mut escaped) = (Vec::new(), 0, false);
    for (at, c) in text.char_indices() {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if at >= start && text[at..].starts_with(separator) {
            parts.push(&text[start..at]);
            start = at + separator.len();
        }
    }
    parts.push(&text[start.min(text.len())..]);
    parts.retain(|part| !part.is_empty());
    parts
}

fn unescape(text: &str) -> String {
    let (mut out, mut escaped) = (String::with_capacity(text.len()), false);
    for c in text.chars() {
        if c == '\\' && !escaped {
            escaped = true;
        } else {
            out.push(c);
            escaped = false;
        }
    }
    out
}
