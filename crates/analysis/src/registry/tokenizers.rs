//! Tokenizers by name, with their options.

use super::*;
use crate::named::Named;
use crate::options::Options;
use crate::tokenizers::{
    ByClass, CharClass, ClassicTokenizer, Keyword, Matches, NGram, PathHierarchy, Pattern, Standard, Tokenizer, UaxUrlEmail,
};
use model::{Error, Result};
use serde_json::{Map, Value};
use std::sync::Arc;

impl Definitions {
    pub(super) fn tokenizer(&self, name: &str) -> Result<Option<Named<dyn Tokenizer>>> {
        if let Some((kind, values)) = self.definition("tokenizer", name)? {
            let made = self.tokenizer_of(&kind, &Options { name, values })?;
            let made = made.ok_or_else(|| Self::unknown("tokenizer", &kind, name, TOKENIZERS))?;
            return Ok(Some(Named {
                name: name.into(),
                part: made.part,
            }));
        }
        self.tokenizer_of(
            name,
            &Options {
                name,
                values: &Map::new(),
            },
        )
    }

    pub(super) fn grams(
        &self,
        what: &str,
        o: &Options<'_>,
        (min, max): (usize, usize),
        any_difference: bool,
    ) -> Result<(usize, usize)> {
        let min = o.number("min_gram", min)?;
        let max = o.number(
            "max_gram",
            max.max(if o.text("max_gram").is_none() { min.min(max) } else { 0 }),
        )?;
        if min < 1 {
            return Err(Error::illegal("minGram must be greater than zero"));
        }
        if min > max {
            return Err(Error::illegal("minGram must not be greater than maxGram"));
        }
        let (difference, limit) = (max - min, self.limits.max_ngram_diff);
        if !any_difference && difference > limit {
            return Err(Error::illegal(format!(
                "The difference between max_gram and min_gram in {what} must be less than or equal to: [{limit}] but was [{difference}]. \
                 This limit can be set by changing the [index.max_ngram_diff] index level setting."
            )));
        }
        Ok((min, max))
    }

    pub(super) fn tokenizer_of(&self, kind: &str, o: &Options<'_>) -> Result<Option<Named<dyn Tokenizer>>> {
        let max_token_length = || -> Result<usize> {
            match o.number("max_token_length", 255)? {
                0 => Err(Error::illegal("maxTokenLength must be greater than zero")),
                n => Ok(n.min(1 << 20)),
            }
        };
        let by_class = |classes: Vec<CharClass>, keep: bool, lowercase: bool| -> Result<Arc<dyn Tokenizer>> {
            Ok(Arc::new(ByClass {
                classes,
                keep,
                lowercase,
                max_token_length: max_token_length()?,
            }))
        };
        let part: Arc<dyn Tokenizer> = match kind {
            "standard" => Arc::new(Standard {
                max_token_length: max_token_length()?,
            }),
            "letter" => by_class(vec![CharClass::Letter], true, false)?,
            "lowercase" => by_class(vec![CharClass::Letter], true, true)?,
            "whitespace" => by_class(vec![CharClass::Whitespace], false, false)?,
            "keyword" => Arc::new(Keyword),
            "char_group" => by_class(char_classes(o, "tokenize_on_chars")?, false, false)?,
            "pattern" => Arc::new(pattern(o)?),
            "simple_pattern" => Arc::new(Pattern {
                pattern: o.pattern("pattern", Some("[^\\s\\S]"))?,
                matches: Matches::Group(0),
            }),
            "simple_pattern_split" => Arc::new(Pattern {
                pattern: o.pattern("pattern", Some("[^\\s\\S]"))?,
                matches: Matches::Separate,
            }),
            "ngram" | "nGram" => {
                let (min, max) = self.grams("NGram Tokenizer", o, (1, 2), false)?;
                Arc::new(NGram {
                    min,
                    max,
                    classes: char_classes(o, "token_chars")?,
                    edges: false,
                })
            }
            "edge_ngram" | "edgeNGram" => {
                // The old name's default is one letter.
                let default = if kind == "edgeNGram" && o.values.is_empty() {
                    (1, 1)
                } else {
                    (1, 2)
                };
                let (min, max) = self.grams("EdgeNGram Tokenizer", o, default, true)?;
                Arc::new(NGram {
                    min,
                    max,
                    classes: char_classes(o, "token_chars")?,
                    edges: true,
                })
            }
            "path_hierarchy" | "PathHierarchy" => Arc::new(path_hierarchy(o)?),
            "uax_url_email" => Arc::new(UaxUrlEmail {
                words: Standard {
                    max_token_length: max_token_length()?,
                },
            }),
            "classic" => Arc::new(ClassicTokenizer {
                max_token_length: max_token_length()?,
            }),
            _ => return Ok(None),
        };
        Ok(Some(Named { name: kind.into(), part }))
    }
}

/// The tokenizer `pattern`: its matches separate tokens, or one of its groups is the token.
fn pattern(o: &Options<'_>) -> Result<Pattern> {
    let pattern = o.pattern("pattern", Some(r"\W+"))?;
    let matches = match o.text("group").as_deref() {
        None | Some("-1") => Matches::Separate,
        Some(_) => Matches::Group(o.number("group", 0)?),
    };
    if let Matches::Group(group) = matches
        && group >= pattern.captures_len()
    {
        return Err(Error::illegal(format!(
            "invalid group specified: pattern only has: {} capturing groups",
            pattern.captures_len() - 1
        )));
    }
    Ok(Pattern { pattern, matches })
}

/// The tokenizer `path_hierarchy`.
fn path_hierarchy(o: &Options<'_>) -> Result<PathHierarchy> {
    let delimiter = o.character("delimiter", '/')?;
    if o.number("buffer_size", 1024)? < 1 {
        return Err(Error::illegal("bufferSize cannot be <= 0"));
    }
    Ok(PathHierarchy {
        delimiter,
        replacement: o.character("replacement", delimiter)?,
        skip: o.number("skip", 0)?,
        reverse: o.flag("reverse", false)?,
    })
}

pub(super) fn char_classes(o: &Options<'_>, key: &str) -> Result<Vec<CharClass>> {
    let mut classes = Vec::new();
    let given = match o.values.get(key) {
        Some(Value::Array(values)) => values.iter().map(plain).collect(),
        _ => o.list(key).unwrap_or_default(),
    };
    for name in given {
        classes.push(match name.to_lowercase().as_str() {
            "letter" => CharClass::Letter,
            "digit" => CharClass::Digit,
            "whitespace" => CharClass::Whitespace,
            "punctuation" => CharClass::Punctuation,
            "symbol" => CharClass::Symbol,
            "custom" => CharClass::These(o.text("custom_token_chars").unwrap_or_default().chars().collect()),
            _ if key == "tokenize_on_chars" => CharClass::These(unescape(&name).chars().collect()),
            other => {
                let hint = suggestion(other, ["letter", "digit", "whitespace", "punctuation", "symbol", "custom"]);
                return Err(Error::illegal(format!(
                    "Unknown token type: '{name}', must be one of [symbol, letter, digit, whitespace, punctuation, custom]{hint}"
                )));
            }
        });
    }
    Ok(classes)
}
