//! Analyzers and normalizers by name, and those made of parts.

use super::*;
use crate::analyzer::{Analyzer, Chain, DEFAULT_GAP};
use crate::char_filters::CharFilter;
use crate::filters::{Filter, KeywordMarker, StemmerOverride, Stop, WordSet};
use crate::named::Named;
use crate::options::Options;
use model::{Error, Result};
use serde_json::{Map, Value};

impl Definitions {
    pub(super) fn analyzer(&self, name: &str, definition: &Value) -> Result<Analyzer> {
        let Some(values) = object(definition) else {
            return Err(Error::illegal(format!("analyzer [{name}] must be an object")));
        };
        let options = Options { name, values };
        match options.text("type").as_deref() {
            None if options.text("tokenizer").is_none() => Err(Error::illegal(format!(
                "analyzer [{name}] must specify either an analyzer type, or a tokenizer"
            ))),
            None | Some("custom") => self.custom_analyzer(&options),
            Some(kind) => self
                .analyzer_of(kind, &options)?
                .ok_or_else(|| Self::unknown("analyzer", kind, name, &ANALYZERS)),
        }
    }

    pub(super) fn custom_analyzer(&self, o: &Options<'_>) -> Result<Analyzer> {
        let name = o.name;
        let lost = |part: &str, other: &str, known: &'static [&'static str]| {
            let hint = suggestion(other, known.iter().copied());
            Error::illegal(format!(
                "Custom Analyzer [{name}] failed to find {part} under name [{other}]{hint}"
            ))
        };
        let Some(tokenizer_name) = o.text("tokenizer") else {
            return Err(Error::illegal(format!(
                "Custom Analyzer [{name}] must be configured with a tokenizer"
            )));
        };
        let tokenizer = self
            .tokenizer(&tokenizer_name)?
            .ok_or_else(|| lost("tokenizer", &tokenizer_name, TOKENIZERS))?;
        let char_filters = self.char_filters_of(o, &lost)?;
        let mut filters = Vec::new();
        for other in o.list("filter").unwrap_or_default() {
            let before = PrecedingParts {
                char_filters: &char_filters,
                tokenizer: &tokenizer,
                filters: &filters,
            };
            let filter = self.filter(&other, &before)?.ok_or_else(|| lost("filter", &other, FILTERS))?;
            filters.push(filter);
        }
        // The second name is that of the settings before 2.0.
        let gap = o.number(
            "position_increment_gap",
            o.number("position_offset_gap", DEFAULT_GAP as usize)?,
        )?;
        let gap = u32::try_from(gap).unwrap_or(DEFAULT_GAP);
        Ok(Analyzer::new(
            name,
            Chain {
                char_filters,
                tokenizer,
                filters,
                gap,
            },
        ))
    }

    pub(super) fn char_filters_of(
        &self,
        o: &Options<'_>,
        lost: &dyn Fn(&str, &str, &'static [&'static str]) -> Error,
    ) -> Result<Vec<Named<dyn CharFilter>>> {
        let names = o.list("char_filter").unwrap_or_default();
        names
            .iter()
            .map(|other| {
                self.char_filter(other)?
                    .ok_or_else(|| lost("char_filter", other, CHAR_FILTERS))
            })
            .collect()
    }

    pub(super) fn normalizer(&self, name: &str, definition: &Value) -> Result<Analyzer> {
        let Some(values) = object(definition) else {
            return Err(Error::illegal(format!("normalizer [{name}] must be an object")));
        };
        let o = Options { name, values };
        match o.text("type").as_deref() {
            None | Some("custom") => {}
            Some("lowercase") => {
                return Ok(lowercase_normalizer(name));
            }
            Some(kind) => {
                return Err(Self::unknown("normalizer", kind, name, &["custom", "lowercase"]));
            }
        }
        if o.text("tokenizer").is_some() {
            return Err(Error::illegal(format!(
                "Custom normalizer [{name}] cannot configure a tokenizer"
            )));
        }
        let lost = |part: &str, other: &str, known: &'static [&'static str]| {
            let hint = suggestion(other, known.iter().copied());
            Error::illegal(format!(
                "Custom normalizer [{name}] failed to find {part} under name [{other}]{hint}"
            ))
        };
        let char_filters = self.char_filters_of(&o, &lost)?;
        let tokenizer = keyword();
        let mut filters: Vec<Named<Filter>> = Vec::new();
        for other in o.list("filter").unwrap_or_default() {
            let before = PrecedingParts {
                char_filters: &char_filters,
                tokenizer: &tokenizer,
                filters: &filters,
            };
            let filter = self.filter(&other, &before)?.ok_or_else(|| lost("filter", &other, FILTERS))?;
            if !filter.part.normalizes() {
                return Err(Error::illegal(format!(
                    "Custom normalizer [{name}] may not use filter [{other}]"
                )));
            }
            filters.push(filter);
        }
        Ok(Analyzer::new(
            name,
            Chain {
                char_filters,
                tokenizer,
                filters,
                gap: DEFAULT_GAP,
            },
        ))
    }

    /// An analyzer of a built-in type.
    pub(super) fn analyzer_of(&self, kind: &str, o: &Options<'_>) -> Result<Option<Analyzer>> {
        let Some(parts) = Parts::of(kind) else {
            return Ok(None);
        };
        let Some(tokenizer) = self.tokenizer_of(parts.tokenizer, o)? else {
            return Ok(None);
        };
        let stop_words = o.words("stopwords", &parts.stop_words)?;
        let excluded = o.words("stem_exclusion", "")?;
        let mut made: Vec<Named<Filter>> = Vec::new();
        for spelled in parts.filters {
            let (name, language) = spelled.split_once(':').unwrap_or((spelled, ""));
            let language = match name {
                "stemmer" if language.is_empty() => languages::stemmer(kind),
                _ => language,
            };
            let filter = match name {
                "stop" if stop_words.is_empty() => continue,
                "stop" => Filter::each(Stop(WordSet::new(stop_words.clone(), false))),
                "exclude" if excluded.is_empty() => continue,
                "exclude" => Filter::each(KeywordMarker::Words(WordSet::new(excluded.clone(), false))),
                "lowercase" if kind == "pattern" && !o.flag("lowercase", true)? => continue,
                // Irish prefixes before a hyphen, which the standard tokenizer cuts off.
                "hyphens" => Filter::each(Stop(WordSet::new(["h", "n", "t"].map(str::to_owned), true))),
                "dutch_words" => dutch_words(),
                _ => {
                    let mut values = Map::new();
                    if !language.is_empty() {
                        values.insert("language".to_owned(), language.into());
                    }
                    for key in ["separator", "max_output_size", "language"] {
                        if let Some(value) = o.values.get(key).filter(|_| matches!(name, "fingerprint" | "snowball")) {
                            values.insert(key.to_owned(), value.clone());
                        }
                    }
                    let before = PrecedingParts {
                        char_filters: &[],
                        tokenizer: &tokenizer,
                        filters: &made,
                    };
                    match self.filter_of(
                        name,
                        &Options {
                            name: o.name,
                            values: &values,
                        },
                        &before,
                    )? {
                        Some(filter) => filter,
                        None => return Ok(None),
                    }
                }
            };
            made.push(Named::new(name, filter));
        }
        let char_filters = match kind {
            "persian" => self.zero_width_as_space(o.name)?,
            _ => Vec::new(),
        };
        Ok(Some(Analyzer::new(
            o.name,
            Chain {
                char_filters,
                tokenizer,
                filters: made,
                gap: DEFAULT_GAP,
            },
        )))
    }

    /// Persian joins words by a character of no width that is no space.
    fn zero_width_as_space(&self, name: &str) -> Result<Vec<Named<dyn CharFilter>>> {
        let mut values = Map::new();
        values.insert("mappings".to_owned(), serde_json::json!(["\u{200c}=>\\u0020"]));
        let options = Options { name, values: &values };
        Ok(self.char_filter_of("mapping", &options)?.into_iter().collect())
    }
}

/// The parts of a built-in analyzer.
struct Parts {
    tokenizer: &'static str,
    /// Names of filters; `stop` and `exclude` stand for the lists of words in the options.
    filters: &'static [&'static str],
    /// The stop words where the options name none: a list such as `_english_`, or nothing.
    stop_words: String,
}

impl Parts {
    fn of(kind: &str) -> Option<Parts> {
        let parts = |tokenizer, filters, stop_words: &str| {
            Some(Parts {
                tokenizer,
                filters,
                stop_words: stop_words.to_owned(),
            })
        };
        match kind {
            "standard" => parts("standard", &["lowercase", "stop"], ""),
            "simple" => parts("lowercase", &[], ""),
            "whitespace" => parts("whitespace", &[], ""),
            "keyword" => parts("keyword", &[], ""),
            "stop" => parts("lowercase", &["stop"], "_english_"),
            "pattern" => parts("pattern", &["lowercase", "stop"], ""),
            "fingerprint" => parts("standard", &["lowercase", "asciifolding", "stop", "fingerprint"], ""),
            "snowball" => parts("standard", &["lowercase", "stop", "snowball"], "_english_"),
            "cjk" => parts("standard", &["cjk_width", "lowercase", "cjk_bigram", "stop"], "_cjk_"),
            language => parts("standard", languages::filters(language)?, &format!("_{language}_")),
        }
    }
}

/// Words whose stems the Dutch stemmer would miss.
fn dutch_words() -> Filter {
    let stems = [
        ("fiets", "fiets"),
        ("bromfiets", "bromfiets"),
        ("ei", "eier"),
        ("kind", "kinder"),
    ];
    let owned = |(word, stem): (&str, &str)| (word.to_owned(), stem.to_owned());
    Filter::each(StemmerOverride {
        stems: stems.into_iter().map(owned).collect(),
        ignore_case: false,
    })
}
