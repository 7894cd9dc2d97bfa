//! Token filters by name, with their options.

use super::*;
use crate::analyzer::{Analyzer, Chain, DEFAULT_GAP};
use crate::characters::lowercase;
use crate::filters::{
    Apostrophe, AsciiFolding, Change, CjkBigram, CjkWidth, ClassicFilter, CommonGrams, DecimalDigit, Elision, Filter,
    Fingerprint, Grams, Keep, KeepingOriginal, KeywordMarker, KeywordRepeat, Length, Limit, Lowercase, LowercaseLanguage,
    Multiplexer, PatternCapture, PatternReplaceFilter, Reading, RemoveDuplicates, Reverse, Shingle, Snowball, Stem,
    StemmerOverride, Stop, StopButLast, SynonymFilter, SynonymGraphFilter, Trim, Truncate, Unique, Uppercase, WordDelimiter,
    WordDelimiterOptions, WordSet, parse,
};
use crate::java_regex;
use crate::languages::{
    CATALAN_ARTICLES, FRENCH_ARTICLES, IRISH_ARTICLES, ITALIAN_ARTICLES, arabic, bengali, brazilian, bulgarian, czech,
    fold_scandinavian, german_of_caumanns, hindi, indonesian, latvian, light_finnish, light_french, light_german,
    light_hungarian, light_italian, light_norwegian, light_nynorsk, light_portuguese, light_russian, light_spanish,
    light_swedish, minimal_english, minimal_french, minimal_german, minimal_norwegian, minimal_nynorsk, minimal_portuguese,
    normalize_arabic, normalize_bengali, normalize_german, normalize_hindi, normalize_indic, normalize_persian,
    normalize_scandinavian, normalize_serbian, normalize_sorani, persian, porter, possessive_english, sorani,
};
use crate::named::Named;
use crate::options::Options;
use model::{Error, Result};
use rust_stemmers::Algorithm;
use serde_json::{Map, Value};
use snowball_stemmers_rs::Algorithm as Newer;
use std::collections::HashMap;

impl Definitions {
    pub(super) fn filter(&self, name: &str, before: &PrecedingParts<'_>) -> Result<Option<Named<Filter>>> {
        if let Some((kind, values)) = self.definition("filter", name)? {
            let made = self.filter_of(&kind, &Options { name, values }, before)?;
            let made = made.ok_or_else(|| Self::unknown("filter", &kind, name, FILTERS))?;
            return Ok(Some(Named::new(name, made)));
        }
        if FILTERS_TO_DEFINE.contains(&name) {
            return Ok(None);
        }
        Ok(self
            .filter_of(
                name,
                &Options {
                    name,
                    values: &Map::new(),
                },
                before,
            )?
            .map(|filter| Named::new(name, filter)))
    }

    pub(super) fn filter_of(&self, kind: &str, o: &Options<'_>, before: &PrecedingParts<'_>) -> Result<Option<Filter>> {
        for group in [Self::letters, Self::stems, Self::selection, Self::additions] {
            if let Some(filter) = group(self, kind, o, before)? {
                return Ok(Some(filter));
            }
        }
        Ok(None)
    }

    /// Filters that change the letters of a token.
    fn letters(&self, kind: &str, o: &Options<'_>, _: &PrecedingParts<'_>) -> Result<Option<Filter>> {
        Ok(Some(match kind {
            "lowercase" => match o.text("language").map(|language| language.to_lowercase()).as_deref() {
                None => Filter::each(Lowercase),
                Some("greek") => Filter::each(LowercaseLanguage::Greek),
                Some("irish") => Filter::each(LowercaseLanguage::Irish),
                Some("turkish") => Filter::each(LowercaseLanguage::Turkish),
                Some(other) => {
                    return Err(Error::illegal(format!("language [{other}] not support for lower case")));
                }
            },
            "uppercase" => Filter::each(Uppercase),
            "asciifolding" => {
                let folding = Filter::each(AsciiFolding);
                if o.flag("preserve_original", false)? {
                    Filter::all(KeepingOriginal(folding))
                } else {
                    folding
                }
            }
            "truncate" => Filter::each(Truncate(o.number("length", 10)?)),
            "reverse" => Filter::each(Reverse),
            "trim" => Filter::each(Trim),
            "elision" => {
                o.no_file("articles_path")?;
                // The analyzers of languages name theirs so.
                let own = match o.text("language").as_deref() {
                    Some("catalan") => CATALAN_ARTICLES,
                    Some("irish") => IRISH_ARTICLES,
                    Some("italian") => ITALIAN_ARTICLES,
                    _ => FRENCH_ARTICLES,
                };
                let articles = o
                    .list("articles")
                    .unwrap_or_else(|| own.iter().map(|word| (*word).to_owned()).collect());
                let default = o.list("articles").is_none();
                Filter::each(Elision(WordSet::new(articles, o.flag("articles_case", default)?)))
            }
            "apostrophe" => Filter::each(Apostrophe),
            "pattern_replace" => {
                let pattern = o.pattern("pattern", None)?;
                let replacement = java_regex::replacement(&o.text("replacement").unwrap_or_default(), pattern.captures_len());
                Filter::each(PatternReplaceFilter {
                    pattern,
                    replacement,
                    all: o.flag("all", true)?,
                })
            }
            "decimal_digit" => Filter::each(DecimalDigit),
            "cjk_width" => Filter::each(CjkWidth),
            _ => return Ok(None),
        }))
    }

    /// Stemmers, and filters that keep tokens from them.
    fn stems(&self, kind: &str, o: &Options<'_>, _: &PrecedingParts<'_>) -> Result<Option<Filter>> {
        let by = |change, normalization| Some(Filter::each(Stem { change, normalization }));
        if let Some(change) = stemmer_function(kind) {
            return Ok(by(Change::Own(change), false));
        }
        if let Some(change) = normalization_function(kind) {
            return Ok(by(Change::Own(change), true));
        }
        Ok(Some(match kind {
            "stemmer" => {
                let language = o
                    .text("language")
                    .or_else(|| o.text("name"))
                    .unwrap_or_else(|| "porter".to_owned());
                stemmer(&language).ok_or_else(|| {
                    Error::illegal(format!(
                        "Unknown or unsupported stemmer language [{language}] of [{}]",
                        o.name
                    ))
                })?
            }
            "snowball" => {
                let language = o.text("language").unwrap_or_else(|| "English".to_owned());
                let algorithm = snowball(&language.to_lowercase())
                    .ok_or_else(|| Error::illegal(format!("Invalid stemmer class specified: {language}")))?;
                Filter::each(Stem {
                    change: Change::snowball(algorithm),
                    normalization: false,
                })
            }
            "french_stem" | "russian_stem" | "dutch_stem" => match kind.strip_suffix("_stem").and_then(snowball) {
                Some(algorithm) => Filter::each(Stem {
                    change: Change::snowball(algorithm),
                    normalization: false,
                }),
                None => return Ok(None),
            },
            "classic" => Filter::each(ClassicFilter),
            "keyword_marker" => keyword_marker(o)?,
            "keyword_repeat" => Filter::all(KeywordRepeat),
            "stemmer_override" => stemmer_override(o)?,
            _ => return Ok(None),
        }))
    }

    /// Filters that remove tokens.
    fn selection(&self, kind: &str, o: &Options<'_>, _: &PrecedingParts<'_>) -> Result<Option<Filter>> {
        Ok(Some(match kind {
            // It did nothing and is gone; old indexes name it. Our graphs have no form that needs flattening twice.
            "standard" => Filter::each(Keep::Kinds {
                kinds: Vec::new(),
                keep: false,
            }),
            "flatten_graph" => Filter::each(Keep::Kinds {
                kinds: Vec::new(),
                keep: false,
            }),
            "stop" => {
                let words = WordSet::new(o.words("stopwords", "_english_")?, o.flag("ignore_case", false)?);
                if o.flag("remove_trailing", true)? {
                    Filter::each(Stop(words))
                } else {
                    Filter::all(StopButLast(words))
                }
            }
            "length" => Filter::each(Length {
                min: o.number("min", 0)?,
                max: o.number("max", usize::MAX)?,
            }),
            "unique" => Filter::all(Unique {
                only_on_same_position: o.flag("only_on_same_position", false)?,
            }),
            "fingerprint" => Filter::all(Fingerprint {
                separator: o.text("separator").unwrap_or_else(|| " ".to_owned()),
                max_output_size: o.number("max_output_size", 255)?,
            }),
            "limit" => Filter::all(Limit(o.number("max_token_count", 1)?)),
            "remove_duplicates" => Filter::all(RemoveDuplicates),
            "keep" => {
                if o.list("keep_words").is_none() {
                    o.no_file("keep_words_path")?;
                    return Err(Error::illegal(
                        "keep requires either `keep_words` or `keep_words_path` to be configured",
                    ));
                }
                Filter::each(Keep::Words(WordSet::new(
                    o.words("keep_words", "")?,
                    o.flag("keep_words_case", false)?,
                )))
            }
            "keep_types" => {
                let kinds = o
                    .list("types")
                    .ok_or_else(|| Error::illegal("keep_types requires `types` to be configured"))?;
                Filter::each(Keep::Kinds {
                    kinds,
                    keep: o.text("mode").as_deref() != Some("exclude"),
                })
            }
            _ => return Ok(None),
        }))
    }

    /// Filters that make tokens from tokens.
    fn additions(&self, kind: &str, o: &Options<'_>, before: &PrecedingParts<'_>) -> Result<Option<Filter>> {
        Ok(Some(match kind {
            "synonym" | "synonym_graph" => self.synonyms(kind, o, before)?,
            "shingle" => self.shingle(o)?,
            "word_delimiter" | "word_delimiter_graph" => word_delimiter(kind, o)?,
            "edge_ngram" | "edgeNGram" => {
                let (min, max) = self.grams("EdgeNGram TokenFilter", o, (1, if o.values.is_empty() { 1 } else { 2 }), true)?;
                let back = match o.text("side").as_deref() {
                    None | Some("front") => false,
                    Some("back") => true,
                    Some(other) => return Err(Error::illegal(format!("invalid side: {other}"))),
                };
                Filter::all(Grams {
                    min,
                    max,
                    edges: true,
                    back,
                    preserve_original: o.flag("preserve_original", false)?,
                })
            }
            "ngram" | "nGram" => {
                let (min, max) = self.grams("NGram Token Filter", o, (1, 2), false)?;
                Filter::all(Grams {
                    min,
                    max,
                    edges: false,
                    back: false,
                    preserve_original: o.flag("preserve_original", false)?,
                })
            }
            "pattern_capture" => {
                let patterns = o
                    .list("patterns")
                    .ok_or_else(|| Error::illegal("required setting 'patterns' is missing for token filter"))?;
                let patterns = patterns
                    .iter()
                    .map(|pattern| java_regex::compile(pattern, ""))
                    .collect::<Result<Vec<_>>>()?;
                Filter::all(PatternCapture {
                    patterns,
                    preserve_original: o.flag("preserve_original", true)?,
                })
            }
            "cjk_bigram" => {
                let ignored = o.list("ignored_scripts").unwrap_or_default();
                let takes = |script: &str| !ignored.iter().any(|other| other == script);
                Filter::all(CjkBigram {
                    han: takes("han"),
                    hiragana: takes("hiragana"),
                    katakana: takes("katakana"),
                    hangul: takes("hangul"),
                    unigrams: o.flag("output_unigrams", false)?,
                })
            }
            "common_grams" => {
                if o.list("common_words").is_none() {
                    o.no_file("common_words_path")?;
                    return Err(Error::illegal(
                        "missing or empty [common_words] or [common_words_path] configuration for common_grams token filter",
                    ));
                }
                let common = WordSet::new(o.words("common_words", "")?, o.flag("ignore_case", false)?);
                Filter::all(CommonGrams {
                    common,
                    query_mode: o.flag("query_mode", false)?,
                })
            }
            "multiplexer" => self.multiplexer(o, before)?,
            _ => return Ok(None),
        }))
    }

    pub(super) fn multiplexer(&self, o: &Options<'_>, before: &PrecedingParts<'_>) -> Result<Filter> {
        let chains = match o.values.get("filters") {
            Some(Value::Array(chains)) => chains.iter().map(plain).collect(),
            _ => o.list("filters").unwrap_or_default(),
        };
        let mut made = Vec::new();
        for chain in chains {
            let mut filters: Vec<Named<Filter>> = Vec::new();
            for name in chain.split(',').map(str::trim).filter(|name| !name.is_empty()) {
                // A multiplexer inside another could name itself.
                if self
                    .definition("filter", name)?
                    .is_some_and(|(kind, _)| kind == "multiplexer")
                {
                    return Err(Error::illegal(format!(
                        "Multiplexing filter [{}] cannot contain filter [{name}]",
                        o.name
                    )));
                }
                let found = self.filter(name, before)?.ok_or_else(|| {
                    let hint = suggestion(name, FILTERS.iter().copied());
                    Error::illegal(format!(
                        "Multiplexing filter [{}] refers to undefined tokenfilter [{name}]{hint}",
                        o.name
                    ))
                })?;
                filters.push(found);
            }
            made.push(filters);
        }
        Ok(Filter::all(Multiplexer {
            chains: made,
            preserve_original: o.flag("preserve_original", true)?,
        }))
    }

    pub(super) fn shingle(&self, o: &Options<'_>) -> Result<Filter> {
        let (min, max) = (o.number("min_shingle_size", 2)?, o.number("max_shingle_size", 2)?);
        let unigrams = o.flag("output_unigrams", true)?;
        if max < 2 {
            return Err(Error::illegal("Max shingle size must be >= 2"));
        }
        if min < 2 {
            return Err(Error::illegal("Min shingle size must be >= 2"));
        }
        if min > max {
            return Err(Error::illegal("Min shingle size must be <= max shingle size"));
        }
        let (difference, limit) = (max - min + usize::from(unigrams), self.limits.max_shingle_diff);
        if difference > limit {
            return Err(Error::illegal(format!(
                "In Shingle TokenFilter the difference between max_shingle_size and min_shingle_size (and +1 if outputting unigrams) \
                 must be less than or equal to: [{limit}] but was [{difference}]. This limit can be set by changing the \
                 [index.max_shingle_diff] index level setting."
            )));
        }
        Ok(Filter::all(Shingle {
            min,
            max,
            unigrams,
            unigrams_if_no_shingles: o.flag("output_unigrams_if_no_shingles", false)?,
            separator: o.text("token_separator").unwrap_or_else(|| " ".to_owned()),
            filler: o.text("filler_token").unwrap_or_else(|| "_".to_owned()),
        }))
    }

    pub(super) fn synonyms(&self, kind: &str, o: &Options<'_>, before: &PrecedingParts<'_>) -> Result<Filter> {
        o.no_file("synonyms_path")?;
        o.no_file("synonyms_set")?;
        let rules: Vec<String> = match o.values.get("synonyms") {
            Some(Value::Array(rules)) => rules.iter().map(plain).collect(),
            Some(Value::String(rule)) => vec![rule.clone()],
            _ => {
                return Err(Error::illegal(
                    "synonym requires either `synonyms` or `synonyms_path` to be configured",
                ));
            }
        };
        // Words of rules go through what comes before the filter, as texts will.
        let chain = match o.text("tokenizer") {
            None => Chain {
                char_filters: before.char_filters.to_vec(),
                tokenizer: before.tokenizer.clone(),
                filters: before.filters.to_vec(),
                gap: DEFAULT_GAP,
            },
            // The old way: a tokenizer of its own.
            Some(name) => Chain {
                char_filters: Vec::new(),
                tokenizer: self
                    .tokenizer(&name)?
                    .ok_or_else(|| Error::illegal(format!("failed to find tokenizer [{name}] for synonym token filter")))?,
                filters: Vec::new(),
                gap: DEFAULT_GAP,
            },
        };
        let analyzer = Analyzer::new("synonyms", chain);
        let ignore_case = o.flag("ignore_case", false)?;
        let analyze = |word: &str| {
            let mut terms: Vec<String> = Vec::new();
            for (next, token) in (0_u32..).zip(analyzer.analyze(word)) {
                if token.position != next {
                    let step = i64::from(token.position) - i64::from(next) + 1;
                    return Err(format!(
                        "term: {word} analyzed to a token ({}) with position increment != 1 (got: {step})",
                        token.term
                    ));
                }
                let mut term = token.term;
                if ignore_case {
                    lowercase(&mut term);
                }
                terms.push(term);
            }
            if terms.is_empty() {
                Err(format!("term: {word} was completely eliminated by analyzer"))
            } else {
                Ok(terms)
            }
        };
        let synonyms = parse(
            &rules,
            &Reading {
                analyze: &analyze,
                expand: o.flag("expand", true)?,
                lenient: o.flag("lenient", false)?,
                wordnet: o.text("format").as_deref() == Some("wordnet"),
            },
        )?;
        Ok(match kind {
            "synonym" => Filter::all(SynonymFilter { synonyms, ignore_case }),
            _ => Filter::all(SynonymGraphFilter { synonyms, ignore_case }),
        })
    }
}

pub(super) fn word_delimiter(kind: &str, o: &Options<'_>) -> Result<Filter> {
    o.no_file("type_table_path")?;
    let mut types = Vec::new();
    for rule in o.list("type_table").unwrap_or_default() {
        let Some((from, to)) = rule.split_once("=>") else {
            return Err(Error::illegal(format!("Invalid Mapping Rule : [{rule}]")));
        };
        let from = unescape(from.trim());
        let mut chars = from.chars();
        match (chars.next(), chars.next()) {
            (Some(c), None) => types.push((c, to.trim().to_owned())),
            _ => {
                return Err(Error::illegal(format!(
                    "Invalid Mapping Rule : [{rule}]. Only a single character is allowed."
                )));
            }
        }
    }
    let options = WordDelimiterOptions {
        generate_word_parts: o.flag("generate_word_parts", true)?,
        generate_number_parts: o.flag("generate_number_parts", true)?,
        catenate_words: o.flag("catenate_words", false)?,
        catenate_numbers: o.flag("catenate_numbers", false)?,
        catenate_all: o.flag("catenate_all", false)?,
        split_on_case_change: o.flag("split_on_case_change", true)?,
        split_on_numerics: o.flag("split_on_numerics", true)?,
        preserve_original: o.flag("preserve_original", false)?,
        stem_english_possessive: o.flag("stem_english_possessive", true)?,
        adjust_offsets: o.flag("adjust_offsets", true)?,
        ignore_keywords: o.flag("ignore_keywords", false)?,
        protected: WordSet::new(o.words("protected_words", "")?, false),
        types,
    };
    Ok(Filter::all(WordDelimiter {
        options,
        graph: kind == "word_delimiter_graph",
    }))
}

/// The stemmer of a language's name, where there is one that stems as Lucene's.
pub(super) fn stemmer(language: &str) -> Option<Filter> {
    let own: fn(&mut String) = match language {
        "english" | "porter" => porter,
        "possessive_english" | "possessiveEnglish" => {
            return Some(Filter::each(Stem {
                change: Change::Plain(possessive_english),
                normalization: false,
            }));
        }
        "minimal_english" | "minimalEnglish" => minimal_english,
        "light_french" | "lightFrench" => light_french,
        "minimal_french" | "minimalFrench" => minimal_french,
        "light_german" | "lightGerman" => light_german,
        "minimal_german" | "minimalGerman" => minimal_german,
        "light_spanish" | "lightSpanish" => light_spanish,
        "light_italian" | "lightItalian" => light_italian,
        "light_portuguese" | "lightPortuguese" => light_portuguese,
        "minimal_portuguese" | "minimalPortuguese" => minimal_portuguese,
        "light_finnish" | "lightFinnish" => light_finnish,
        "light_hungarian" | "lightHungarian" => light_hungarian,
        "light_norwegian" | "lightNorwegian" => light_norwegian,
        "light_nynorsk" | "lightNynorsk" => light_nynorsk,
        "minimal_norwegian" | "minimalNorwegian" => minimal_norwegian,
        "minimal_nynorsk" | "minimalNynorsk" => minimal_nynorsk,
        "light_russian" | "lightRussian" => light_russian,
        "light_swedish" | "lightSwedish" => light_swedish,
        "arabic" => arabic,
        "bengali" => bengali,
        "brazilian" => brazilian,
        "bulgarian" => bulgarian,
        "czech" => czech,
        "hindi" => hindi,
        "indonesian" => indonesian,
        "latvian" => latvian,
        "persian" => persian,
        "sorani" => sorani,
        "porter2" => {
            return snowball("english").map(|algorithm| {
                Filter::each(Stem {
                    change: Change::snowball(algorithm),
                    normalization: false,
                })
            });
        }
        _ => {
            return snowball(language).map(|algorithm| {
                Filter::each(Stem {
                    change: Change::snowball(algorithm),
                    normalization: false,
                })
            });
        }
    };
    Some(Filter::each(Stem {
        change: Change::Own(own),
        normalization: false,
    }))
}

pub(super) fn snowball(language: &str) -> Option<Snowball> {
    Some(match language {
        "danish" => Snowball::Newer(Newer::Danish),
        "dutch" => Snowball::Old(Algorithm::Dutch),
        "english" => Snowball::Old(Algorithm::English),
        "finnish" => Snowball::Newer(Newer::Finnish),
        "french" => Snowball::Old(Algorithm::French),
        "german" => Snowball::Old(Algorithm::German),
        "hungarian" => Snowball::Old(Algorithm::Hungarian),
        "italian" => Snowball::Old(Algorithm::Italian),
        "norwegian" => Snowball::Old(Algorithm::Norwegian),
        "portuguese" => Snowball::Old(Algorithm::Portuguese),
        "romanian" => Snowball::Old(Algorithm::Romanian),
        "russian" => Snowball::Old(Algorithm::Russian),
        "spanish" => Snowball::Old(Algorithm::Spanish),
        "swedish" => Snowball::Old(Algorithm::Swedish),
        "turkish" => Snowball::Old(Algorithm::Turkish),
        "armenian" => Snowball::Newer(Newer::Armenian),
        "basque" => Snowball::Newer(Newer::Basque),
        "catalan" => Snowball::Newer(Newer::Catalan),
        "estonian" => Snowball::Newer(Newer::Estonian),
        "greek" => Snowball::Newer(Newer::Greek),
        "irish" => Snowball::Newer(Newer::Irish),
        "lithuanian" => Snowball::Newer(Newer::Lithuanian),
        "serbian" => Snowball::Newer(Newer::Serbian),
        "lovins" => Snowball::Newer(Newer::Lovins),
        "german2" => Snowball::Newer(Newer::German),
        "kp" | "dutch_kp" | "dutchKp" => Snowball::Newer(Newer::Dutch),
        _ => return None,
    })
}

/// The stemmers that are functions of our own, by the names of their filters.
fn stemmer_function(kind: &str) -> Option<fn(&mut String)> {
    Some(match kind {
        "porter_stem" | "porterStem" => porter,
        "german_stem" => german_of_caumanns,
        "arabic_stem" => arabic,
        "brazilian_stem" => brazilian,
        "czech_stem" => czech,
        "persian_stem" => persian,
        _ => return None,
    })
}

/// Functions that write the spellings of a word in one way, by the names of their filters.
fn normalization_function(kind: &str) -> Option<fn(&mut String)> {
    Some(match kind {
        "german_normalization" => normalize_german,
        "bengali_normalization" => normalize_bengali,
        "hindi_normalization" => normalize_hindi,
        "indic_normalization" => normalize_indic,
        "sorani_normalization" => normalize_sorani,
        "arabic_normalization" => normalize_arabic,
        "persian_normalization" => normalize_persian,
        "serbian_normalization" => normalize_serbian,
        "scandinavian_folding" => fold_scandinavian,
        "scandinavian_normalization" => normalize_scandinavian,
        _ => return None,
    })
}

/// Words that stemmers leave alone: a list, or those that a pattern matches as a whole.
fn keyword_marker(o: &Options<'_>) -> Result<Filter> {
    match (o.text("keywords_pattern"), o.list("keywords")) {
        (Some(_), Some(_)) => Err(Error::illegal(
            "cannot specify both `keywords_pattern` and `keywords` or `keywords_path`",
        )),
        (Some(pattern), None) => Ok(Filter::each(KeywordMarker::Pattern(java_regex::compile_whole(&pattern, "")?))),
        (None, Some(_)) => Ok(Filter::each(KeywordMarker::Words(WordSet::new(
            o.words("keywords", "")?,
            o.flag("ignore_case", false)?,
        )))),
        (None, None) => {
            o.no_file("keywords_path")?;
            Err(Error::illegal(
                "keyword filter requires either `keywords`, `keywords_path`, or `keywords_pattern` to be configured",
            ))
        }
    }
}

/// Rules `word, word => stem`; the first rule of a word counts.
fn stemmer_override(o: &Options<'_>) -> Result<Filter> {
    o.no_file("rules_path")?;
    let rules = o
        .list("rules")
        .ok_or_else(|| Error::illegal("stemmer override filter requires either `rules` or `rules_path` to be configured"))?;
    let mut stems = HashMap::new();
    for rule in rules {
        let Some((words, stem)) = rule.split_once("=>") else {
            return Err(Error::illegal(format!("Invalid Keyword override Rule:{rule}")));
        };
        for word in words.split(',') {
            stems.entry(word.trim().to_owned()).or_insert_with(|| stem.trim().to_owned());
        }
    }
    Ok(Filter::each(StemmerOverride {
        stems,
        ignore_case: false,
    }))
}
