//! The only place that knows names: which analyzers, tokenizers and filters there are, and their options.
//!
//! Definitions are those of an index's `analysis` settings. Names are looked for among them first, then among
//! the built-in ones. Not here: files of words or synonyms, plugins, scripts (`predicate_token_filter`).

use crate::analyzer::{Analyzer, Chain, DEFAULT_GAP, Named};
use crate::char_filters::{self, CharFilter, HtmlStrip, Mapping};
use crate::filters::{
    Apostrophe, AsciiFolding, Change, CjkBigram, CjkWidth, CommonGrams, DecimalDigit, Elision, Filter, Fingerprint, Grams, Keep,
    KeepingOriginal, KeywordMarker, KeywordRepeat, Length, Limit, Lowercase, LowercaseLanguage, Multiplexer, PatternCapture,
    PatternReplace, Reading, RemoveDuplicates, Reverse, Shingle, Stem, StemmerOverride, Stop, StopButLast, SynonymFilter,
    SynonymGraphFilter, Trim, Truncate, Unique, Uppercase, WordDelimiter, WordDelimiterOptions, WordSet, lowercase, parse,
};
use crate::java_regex;
use crate::languages::{
    FRENCH_ARTICLES, light_french, light_german, light_spanish, minimal_english, minimal_french, minimal_german,
    normalize_german, porter, possessive_english,
};
use crate::options::Options;
use crate::tokenizers::{
    ByClass, CharClass, Classic, Keyword, Matches, NGram, PathHierarchy, Pattern, Standard, Tokenizer, UaxUrlEmail,
};
use model::{Error, Result, nearest::nearest};
use rust_stemmers::Algorithm;
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The parts of an analyzer made for one `_analyze` request: names or definitions.
#[derive(Clone, Debug, Default)]
pub struct AnalyzeParts {
    /// The tokenizer; without one the whole text is one token.
    pub tokenizer: Option<Value>,
    /// The token filters, in order.
    pub filters: Vec<Value>,
    /// The character filters, in order.
    pub char_filters: Vec<Value>,
}

/// The analyzers and normalizers of one index. Cheap to clone.
#[derive(Clone)]
pub struct Registry(Arc<Inner>);

struct Inner {
    /// Whether it is of an index; sentences call the parts of no index "global".
    of_index: bool,
    definitions: Definitions,
    analyzers: HashMap<String, Analyzer>,
    normalizers: HashMap<String, Analyzer>,
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registry")
            .field("analyzers", &self.0.analyzers.keys())
            .field("normalizers", &self.0.normalizers.keys())
            .finish_non_exhaustive()
    }
}

/// How far apart lengths of grams and shingles may be: index settings of these names.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// `index.max_ngram_diff`.
    pub max_ngram_diff: usize,
    /// `index.max_shingle_diff`.
    pub max_shingle_diff: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            max_ngram_diff: 1,
            max_shingle_diff: 3,
        }
    }
}

#[derive(Clone, Default)]
struct Definitions {
    parts: HashMap<&'static str, Map<String, Value>>,
    limits: Limits,
}

const ANALYZERS: &[&str] = &[
    "standard",
    "default",
    "simple",
    "whitespace",
    "keyword",
    "stop",
    "pattern",
    "fingerprint",
    "snowball",
    "cjk",
    "danish",
    "dutch",
    "english",
    "finnish",
    "french",
    "german",
    "hungarian",
    "norwegian",
    "romanian",
    "russian",
    "spanish",
    "swedish",
    "turkish",
];
const TOKENIZERS: &[&str] = &[
    "standard",
    "letter",
    "lowercase",
    "whitespace",
    "keyword",
    "pattern",
    "simple_pattern",
    "simple_pattern_split",
    "ngram",
    "nGram",
    "edge_ngram",
    "edgeNGram",
    "path_hierarchy",
    "PathHierarchy",
    "uax_url_email",
    "classic",
    "char_group",
];
const CHAR_FILTERS: &[&str] = &["html_strip", "htmlStrip", "mapping", "pattern_replace"];
const FILTERS: &[&str] = &[
    "lowercase",
    "uppercase",
    "asciifolding",
    "stop",
    "stemmer",
    "porter_stem",
    "porterStem",
    "snowball",
    "synonym",
    "synonym_graph",
    "shingle",
    "word_delimiter",
    "word_delimiter_graph",
    "length",
    "truncate",
    "unique",
    "reverse",
    "trim",
    "keyword_marker",
    "keyword_repeat",
    "stemmer_override",
    "elision",
    "apostrophe",
    "edge_ngram",
    "edgeNGram",
    "ngram",
    "nGram",
    "fingerprint",
    "pattern_replace",
    "pattern_capture",
    "limit",
    "decimal_digit",
    "cjk_bigram",
    "cjk_width",
    "common_grams",
    "remove_duplicates",
    "multiplexer",
    "keep",
    "keep_types",
    "german_normalization",
    "standard",
    "flatten_graph",
    "french_stem",
    "german_stem",
    "russian_stem",
    "dutch_stem",
];
/// Those that mean nothing without options: no filter has these names.
const FILTERS_TO_DEFINE: &[&str] = &[
    "synonym",
    "synonym_graph",
    "keyword_marker",
    "stemmer_override",
    "pattern_replace",
    "pattern_capture",
    "common_grams",
    "multiplexer",
    "keep",
    "keep_types",
];

fn suggestion(name: &str, known: impl IntoIterator<Item = &'static str>) -> String {
    nearest(name, known)
        .map(|near| format!(", did you mean [{near}]?"))
        .unwrap_or_default()
}

fn object(value: &Value) -> Option<&Map<String, Value>> {
    value.as_object()
}

/// A part that the previous ones of its chain matter to.
struct Before<'a> {
    char_filters: &'a [Named<dyn CharFilter>],
    tokenizer: &'a Named<dyn Tokenizer>,
    filters: &'a [Named<Filter>],
}

impl Registry {
    /// The built-in analyzers only.
    pub fn default_registry() -> Registry {
        Registry(Arc::new(Inner {
            of_index: false,
            definitions: Definitions::default(),
            analyzers: HashMap::new(),
            normalizers: HashMap::new(),
        }))
    }

    /// The analyzers of an index, from its `analysis` settings.
    pub fn from_settings(analysis: &Value) -> Result<Registry> {
        Registry::from_settings_within(analysis, Limits::default())
    }

    /// As [`Registry::from_settings`], with the index's limits.
    pub fn from_settings_within(analysis: &Value, limits: Limits) -> Result<Registry> {
        let mut definitions = Definitions {
            parts: HashMap::new(),
            limits,
        };
        for part in ["analyzer", "tokenizer", "filter", "char_filter", "normalizer"] {
            let Some(defined) = analysis.get(part).filter(|value| !value.is_null()) else {
                continue;
            };
            let Some(defined) = object(defined) else {
                return Err(Error::illegal(format!("[index.analysis.{part}] must be an object")));
            };
            definitions.parts.insert(part, defined.clone());
        }
        definitions.check_unused()?;
        let mut inner = Inner {
            of_index: true,
            analyzers: HashMap::new(),
            normalizers: HashMap::new(),
            definitions,
        };
        for (name, definition) in inner.definitions.part("analyzer").into_iter().flatten() {
            let analyzer = inner.definitions.analyzer(name, definition)?;
            inner.analyzers.insert(name.clone(), analyzer);
        }
        for (name, definition) in inner.definitions.part("normalizer").into_iter().flatten() {
            let normalizer = inner.definitions.normalizer(name, definition)?;
            inner.normalizers.insert(name.clone(), normalizer);
        }
        Ok(Registry(Arc::new(inner)))
    }

    /// The analyzer of a name, defined or built in.
    pub fn analyzer(&self, name: &str) -> Option<Analyzer> {
        self.0.analyzers.get(name).cloned().or_else(|| built_in(name))
    }

    /// The normalizer of a name, defined or built in.
    pub fn normalizer(&self, name: &str) -> Option<Analyzer> {
        if let Some(normalizer) = self.0.normalizers.get(name) {
            return Some(normalizer.clone());
        }
        (name == "lowercase").then(|| {
            let filters = vec![named("lowercase", Filter::each(Lowercase))];
            Analyzer::new(
                name,
                Chain {
                    char_filters: Vec::new(),
                    tokenizer: keyword(),
                    filters,
                    gap: DEFAULT_GAP,
                },
            )
        })
    }

    /// An analyzer of parts that are named or defined on the spot.
    pub fn custom(&self, parts: &AnalyzeParts) -> Result<Analyzer> {
        let definitions = &self.0.definitions;
        let not_found = |part: &'static str, name: &str, known: &'static [&'static str]| {
            let global = if self.0.of_index { "" } else { "global " };
            let hint = suggestion(name, known.iter().copied());
            Error::illegal(format!("failed to find {global}{part} under [{name}]{hint}"))
        };
        let mut char_filters = Vec::new();
        for value in &parts.char_filters {
            let (name, found) = match object(value) {
                Some(inline) => {
                    let kind = inline_kind("char_filter", inline)?;
                    (
                        kind.clone(),
                        definitions.char_filter_of(
                            &kind,
                            &Options {
                                name: "_anonymous_char_filter",
                                values: inline,
                            },
                        )?,
                    )
                }
                None => (plain(value), definitions.char_filter(&plain(value))?),
            };
            char_filters.push(found.ok_or_else(|| not_found("char_filter", &name, CHAR_FILTERS))?);
        }
        let tokenizer = match &parts.tokenizer {
            None => keyword(),
            Some(value) => {
                let (name, found) = match object(value) {
                    Some(inline) => {
                        let kind = inline_kind("tokenizer", inline)?;
                        (
                            kind.clone(),
                            definitions.tokenizer_of(
                                &kind,
                                &Options {
                                    name: "_anonymous_tokenizer",
                                    values: inline,
                                },
                            )?,
                        )
                    }
                    None => (plain(value), definitions.tokenizer(&plain(value))?),
                };
                found.ok_or_else(|| not_found("tokenizer", &name, TOKENIZERS))?
            }
        };
        let mut filters = Vec::new();
        for value in &parts.filters {
            let before = Before {
                char_filters: &char_filters,
                tokenizer: &tokenizer,
                filters: &filters,
            };
            let (name, found) = match object(value) {
                Some(inline) => {
                    let kind = inline_kind("filter", inline)?;
                    let options = Options {
                        name: "_anonymous_filter",
                        values: inline,
                    };
                    let filter = definitions.filter_of(&kind, &options, &before)?;
                    (kind, filter.map(|filter| named("__anonymous__", filter)))
                }
                None => (plain(value), definitions.filter(&plain(value), &before)?),
            };
            let found = found.ok_or_else(|| not_found("filter", &name, FILTERS))?;
            let found = match object(value) {
                Some(_) => Named {
                    name: format!("__anonymous__{name}").into(),
                    part: found.part,
                },
                None => found,
            };
            filters.push(found);
        }
        Ok(Analyzer::new(
            "_custom_",
            Chain {
                char_filters,
                tokenizer,
                filters,
                gap: DEFAULT_GAP,
            },
        ))
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn inline_kind(part: &str, inline: &Map<String, Value>) -> Result<String> {
    inline.get("type").map(plain).ok_or_else(|| {
        Error::illegal(format!(
            "Missing [type] setting for anonymous {part}: {}",
            Value::Object(inline.clone())
        ))
    })
}

fn named<T>(name: &str, part: T) -> Named<T> {
    Named {
        name: name.into(),
        part: Arc::new(part),
    }
}

fn keyword() -> Named<dyn Tokenizer> {
    Named {
        name: "keyword".into(),
        part: Arc::new(Keyword),
    }
}

fn built_in(name: &str) -> Option<Analyzer> {
    static MADE: Mutex<Option<HashMap<String, Analyzer>>> = Mutex::new(None);
    if !ANALYZERS.contains(&name) {
        return None;
    }
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    let made = made.get_or_insert_default();
    if let Some(analyzer) = made.get(name) {
        return Some(analyzer.clone());
    }
    let kind = if name == "default" { "standard" } else { name };
    let empty = Map::new();
    let analyzer = Definitions::default()
        .analyzer_of(kind, &Options { name, values: &empty })
        .ok()??;
    made.insert(name.to_owned(), analyzer.clone());
    Some(analyzer)
}

impl Definitions {
    fn part(&self, part: &str) -> Option<&Map<String, Value>> {
        self.parts.get(part)
    }

    fn defined(&self, part: &str, name: &str) -> Result<Option<(String, &Map<String, Value>)>> {
        let Some(definition) = self.part(part).and_then(|defined| defined.get(name)) else {
            return Ok(None);
        };
        let Some(values) = object(definition) else {
            return Err(Error::illegal(format!("[{part}] [{name}] must be an object")));
        };
        let kind = values.get("type").filter(|kind| !kind.is_null()).map(plain);
        match kind {
            Some(kind) => Ok(Some((kind, values))),
            None => Err(Error::illegal(format!("{part} [{name}] must specify a [type]"))),
        }
    }

    /// Parts that no analyzer uses are made once, so that what is wrong with them is said.
    fn check_unused(&self) -> Result<()> {
        for name in self.part("char_filter").into_iter().flat_map(Map::keys) {
            self.char_filter(name)?;
        }
        for name in self.part("tokenizer").into_iter().flat_map(Map::keys) {
            self.tokenizer(name)?;
        }
        // As if each came first after a tokenizer that cuts at white space, so that rules can have many words.
        let spaces = self.tokenizer_of(
            "whitespace",
            &Options {
                name: "whitespace",
                values: &Map::new(),
            },
        )?;
        let Some(tokenizer) = spaces else {
            return Ok(());
        };
        for name in self.part("filter").into_iter().flat_map(Map::keys) {
            let kind = self.defined("filter", name)?.map(|(kind, _)| kind);
            if !kind.is_some_and(|kind| kind.starts_with("synonym")) {
                self.filter(
                    name,
                    &Before {
                        char_filters: &[],
                        tokenizer: &tokenizer,
                        filters: &[],
                    },
                )?;
            }
        }
        Ok(())
    }

    fn unknown(part: &str, kind: &str, name: &str, known: &'static [&'static str]) -> Error {
        let hint = suggestion(kind, known.iter().copied());
        Error::illegal(format!("Unknown {part} type [{kind}] for [{name}]{hint}"))
    }

    fn char_filter(&self, name: &str) -> Result<Option<Named<dyn CharFilter>>> {
        if let Some((kind, values)) = self.defined("char_filter", name)? {
            let made = self.char_filter_of(&kind, &Options { name, values })?;
            let made = made.ok_or_else(|| Self::unknown("char_filter", &kind, name, CHAR_FILTERS))?;
            return Ok(Some(Named {
                name: name.into(),
                part: made.part,
            }));
        }
        match name {
            "html_strip" | "htmlStrip" => self.char_filter_of(
                name,
                &Options {
                    name,
                    values: &Map::new(),
                },
            ),
            _ => Ok(None),
        }
    }

    fn char_filter_of(&self, kind: &str, o: &Options<'_>) -> Result<Option<Named<dyn CharFilter>>> {
        let part: Arc<dyn CharFilter> = match kind {
            "html_strip" | "htmlStrip" => {
                let tags = o.list("escaped_tags").unwrap_or_default();
                Arc::new(HtmlStrip {
                    escaped_tags: tags.iter().map(|tag| tag.to_lowercase()).collect(),
                })
            }
            "mapping" => {
                o.no_file("mappings_path")?;
                let Some(Value::Array(rules)) = o.values.get("mappings") else {
                    return Err(Error::illegal(
                        "mapping requires either `mappings` or `mappings_path` to be configured",
                    ));
                };
                let mut read = Vec::new();
                for rule in rules.iter().map(plain) {
                    let Some((from, to)) = rule.split_once("=>") else {
                        return Err(Error::illegal(format!("Invalid Mapping Rule : [{rule}]")));
                    };
                    let (from, to) = (unescape(from.trim()), unescape(to.trim()));
                    if from.is_empty() {
                        return Err(Error::illegal(format!(
                            "Invalid Mapping Rule : [{rule}]. The match must not be empty"
                        )));
                    }
                    read.push((from, to));
                }
                Arc::new(Mapping::new(read))
            }
            "pattern_replace" => {
                let flags = o.text("flags").unwrap_or_default();
                let (pattern, followed_by) = java_regex::compile_with_lookahead(&o.required("pattern")?, &flags)?;
                let replacement = java_regex::replacement(&o.text("replacement").unwrap_or_default(), pattern.captures_len());
                Arc::new(char_filters::PatternReplace {
                    pattern,
                    followed_by,
                    replacement,
                })
            }
            _ => return Ok(None),
        };
        Ok(Some(Named { name: kind.into(), part }))
    }

    fn tokenizer(&self, name: &str) -> Result<Option<Named<dyn Tokenizer>>> {
        if let Some((kind, values)) = self.defined("tokenizer", name)? {
            let made = self.tokenizer_of(&kind, &Options { name, values })?;
            let made = made.ok_or_else(|| Self::unknown("tokenizer", &kind, name, TOKENIZERS))?;
            return Ok(Some(Named {
                name: name.into(),
                part: made.part,
            }));
        }
        if matches!(name, "simple_pattern" | "simple_pattern_split" | "char_group") {
            return Ok(None);
        }
        self.tokenizer_of(
            name,
            &Options {
                name,
                values: &Map::new(),
            },
        )
    }

    fn grams(&self, what: &str, o: &Options<'_>, (min, max): (usize, usize), any_difference: bool) -> Result<(usize, usize)> {
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

    fn tokenizer_of(&self, kind: &str, o: &Options<'_>) -> Result<Option<Named<dyn Tokenizer>>> {
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
            "pattern" => {
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
                Arc::new(Pattern { pattern, matches })
            }
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
            "path_hierarchy" | "PathHierarchy" => {
                let delimiter = o.character("delimiter", '/')?;
                if o.number("buffer_size", 1024)? < 1 {
                    return Err(Error::illegal("bufferSize cannot be <= 0"));
                }
                Arc::new(PathHierarchy {
                    delimiter,
                    replacement: o.character("replacement", delimiter)?,
                    skip: o.number("skip", 0)?,
                    reverse: o.flag("reverse", false)?,
                })
            }
            "uax_url_email" => Arc::new(UaxUrlEmail {
                words: Standard {
                    max_token_length: max_token_length()?,
                },
            }),
            "classic" => Arc::new(Classic {
                max_token_length: max_token_length()?,
            }),
            _ => return Ok(None),
        };
        Ok(Some(Named { name: kind.into(), part }))
    }

    fn filter(&self, name: &str, before: &Before<'_>) -> Result<Option<Named<Filter>>> {
        if let Some((kind, values)) = self.defined("filter", name)? {
            let made = self.filter_of(&kind, &Options { name, values }, before)?;
            let made = made.ok_or_else(|| Self::unknown("filter", &kind, name, FILTERS))?;
            return Ok(Some(named(name, made)));
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
            .map(|filter| named(name, filter)))
    }

    fn filter_of(&self, kind: &str, o: &Options<'_>, before: &Before<'_>) -> Result<Option<Filter>> {
        let own = |change: fn(&mut String)| {
            Filter::each(Stem {
                change: Change::Own(change),
                normalization: false,
            })
        };
        let filter = match kind {
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
            // It did nothing and is gone; old indexes name it. Our graphs have no form that needs flattening twice.
            "standard" => Filter::each(Keep::Kinds {
                kinds: Vec::new(),
                keep: false,
            }),
            "flatten_graph" => Filter::each(Keep::Kinds {
                kinds: Vec::new(),
                keep: false,
            }),
            "asciifolding" => {
                let folding = Filter::each(AsciiFolding);
                if o.flag("preserve_original", false)? {
                    Filter::all(KeepingOriginal(folding))
                } else {
                    folding
                }
            }
            "stop" => {
                let words = WordSet::new(o.words("stopwords", "_english_")?, o.flag("ignore_case", false)?);
                if o.flag("remove_trailing", true)? {
                    Filter::each(Stop(words))
                } else {
                    Filter::all(StopButLast(words))
                }
            }
            "porter_stem" | "porterStem" => own(porter),
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
            "french_stem" | "german_stem" | "russian_stem" | "dutch_stem" => {
                match kind.strip_suffix("_stem").and_then(snowball) {
                    Some(algorithm) => Filter::each(Stem {
                        change: Change::snowball(algorithm),
                        normalization: false,
                    }),
                    None => return Ok(None),
                }
            }
            "german_normalization" => Filter::each(Stem {
                change: Change::Own(normalize_german),
                normalization: true,
            }),
            "synonym" | "synonym_graph" => self.synonyms(kind, o, before)?,
            "shingle" => self.shingle(o)?,
            "word_delimiter" | "word_delimiter_graph" => word_delimiter(kind, o)?,
            "length" => Filter::each(Length {
                min: o.number("min", 0)?,
                max: o.number("max", usize::MAX)?,
            }),
            "truncate" => Filter::each(Truncate(o.number("length", 10)?)),
            "unique" => Filter::all(Unique {
                only_on_same_position: o.flag("only_on_same_position", false)?,
            }),
            "reverse" => Filter::each(Reverse),
            "trim" => Filter::each(Trim),
            "keyword_marker" => match (o.text("keywords_pattern"), o.list("keywords")) {
                (Some(_), Some(_)) => {
                    return Err(Error::illegal(
                        "cannot specify both `keywords_pattern` and `keywords` or `keywords_path`",
                    ));
                }
                (Some(pattern), None) => Filter::each(KeywordMarker::Pattern(java_regex::compile_whole(&pattern, "")?)),
                (None, Some(_)) => Filter::each(KeywordMarker::Words(WordSet::new(
                    o.words("keywords", "")?,
                    o.flag("ignore_case", false)?,
                ))),
                (None, None) => {
                    o.no_file("keywords_path")?;
                    return Err(Error::illegal(
                        "keyword filter requires either `keywords`, `keywords_path`, or `keywords_pattern` to be configured",
                    ));
                }
            },
            "keyword_repeat" => Filter::all(KeywordRepeat),
            "stemmer_override" => {
                o.no_file("rules_path")?;
                let rules = o.list("rules").ok_or_else(|| {
                    Error::illegal("stemmer override filter requires either `rules` or `rules_path` to be configured")
                })?;
                let mut stems = HashMap::new();
                for rule in rules {
                    let Some((words, stem)) = rule.split_once("=>") else {
                        return Err(Error::illegal(format!("Invalid Keyword override Rule:{rule}")));
                    };
                    for word in words.split(',') {
                        stems.entry(word.trim().to_owned()).or_insert_with(|| stem.trim().to_owned());
                    }
                }
                Filter::each(StemmerOverride {
                    stems,
                    ignore_case: false,
                })
            }
            "elision" => {
                o.no_file("articles_path")?;
                let articles = o
                    .list("articles")
                    .unwrap_or_else(|| FRENCH_ARTICLES.iter().map(|word| (*word).to_owned()).collect());
                let default = o.list("articles").is_none();
                Filter::each(Elision(WordSet::new(articles, o.flag("articles_case", default)?)))
            }
            "apostrophe" => Filter::each(Apostrophe),
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
            "fingerprint" => Filter::all(Fingerprint {
                separator: o.text("separator").unwrap_or_else(|| " ".to_owned()),
                max_output_size: o.number("max_output_size", 255)?,
            }),
            "pattern_replace" => {
                let pattern = o.pattern("pattern", None)?;
                let replacement = java_regex::replacement(&o.text("replacement").unwrap_or_default(), pattern.captures_len());
                Filter::each(PatternReplace {
                    pattern,
                    replacement,
                    all: o.flag("all", true)?,
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
            "limit" => Filter::all(Limit(o.number("max_token_count", 1)?)),
            "decimal_digit" => Filter::each(DecimalDigit),
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
            "cjk_width" => Filter::each(CjkWidth),
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
            "remove_duplicates" => Filter::all(RemoveDuplicates),
            "multiplexer" => self.multiplexer(o, before)?,
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
        };
        Ok(Some(filter))
    }

    fn multiplexer(&self, o: &Options<'_>, before: &Before<'_>) -> Result<Filter> {
        let chains = match o.values.get("filters") {
            Some(Value::Array(chains)) => chains.iter().map(plain).collect(),
            _ => o.list("filters").unwrap_or_default(),
        };
        let mut made = Vec::new();
        for chain in chains {
            let mut filters: Vec<Named<Filter>> = Vec::new();
            for name in chain.split(',').map(str::trim).filter(|name| !name.is_empty()) {
                // A multiplexer inside another could name itself.
                if self.defined("filter", name)?.is_some_and(|(kind, _)| kind == "multiplexer") {
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

    fn shingle(&self, o: &Options<'_>) -> Result<Filter> {
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

    fn synonyms(&self, kind: &str, o: &Options<'_>, before: &Before<'_>) -> Result<Filter> {
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

    fn analyzer(&self, name: &str, definition: &Value) -> Result<Analyzer> {
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
                .ok_or_else(|| Self::unknown("analyzer", kind, name, ANALYZERS)),
        }
    }

    fn custom_analyzer(&self, o: &Options<'_>) -> Result<Analyzer> {
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
            let before = Before {
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

    fn char_filters_of(
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

    fn normalizer(&self, name: &str, definition: &Value) -> Result<Analyzer> {
        let Some(values) = object(definition) else {
            return Err(Error::illegal(format!("normalizer [{name}] must be an object")));
        };
        let o = Options { name, values };
        match o.text("type").as_deref() {
            None | Some("custom") => {}
            Some("lowercase") => {
                let filters = vec![named("lowercase", Filter::each(Lowercase))];
                return Ok(Analyzer::new(
                    name,
                    Chain {
                        char_filters: Vec::new(),
                        tokenizer: keyword(),
                        filters,
                        gap: DEFAULT_GAP,
                    },
                ));
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
            let before = Before {
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
    fn analyzer_of(&self, kind: &str, o: &Options<'_>) -> Result<Option<Analyzer>> {
        // Tokenizer, and filters; where two are named `stop` and `exclude`, the options say what they do.
        let (tokenizer, filters, stop_words): (&str, &[&str], &str) = match kind {
            "standard" => ("standard", &["lowercase", "stop"], ""),
            "simple" => ("lowercase", &[], ""),
            "whitespace" => ("whitespace", &[], ""),
            "keyword" => ("keyword", &[], ""),
            "stop" => ("lowercase", &["stop"], "_english_"),
            "pattern" => ("pattern", &["lowercase", "stop"], ""),
            "fingerprint" => ("standard", &["lowercase", "asciifolding", "stop", "fingerprint"], ""),
            "snowball" => ("standard", &["lowercase", "stop", "snowball"], "_english_"),
            "cjk" => ("standard", &["cjk_width", "lowercase", "cjk_bigram", "stop"], "_cjk_"),
            "english" => (
                "standard",
                &[
                    "stemmer:possessive_english",
                    "lowercase",
                    "stop",
                    "exclude",
                    "stemmer:english",
                ],
                "_english_",
            ),
            "french" => (
                "standard",
                &["elision", "lowercase", "stop", "exclude", "stemmer:light_french"],
                "_french_",
            ),
            "german" => (
                "standard",
                &["lowercase", "stop", "exclude", "german_normalization", "stemmer:light_german"],
                "_german_",
            ),
            "spanish" => (
                "standard",
                &["lowercase", "stop", "exclude", "stemmer:light_spanish"],
                "_spanish_",
            ),
            "danish" => ("standard", &["lowercase", "stop", "exclude", "stemmer:danish"], "_danish_"),
            "dutch" => (
                "standard",
                &["lowercase", "stop", "exclude", "dutch_words", "stemmer:dutch"],
                "_dutch_",
            ),
            "finnish" => ("standard", &["lowercase", "stop", "exclude", "stemmer:finnish"], "_finnish_"),
            "hungarian" => (
                "standard",
                &["lowercase", "stop", "exclude", "stemmer:hungarian"],
                "_hungarian_",
            ),
            "norwegian" => (
                "standard",
                &["lowercase", "stop", "exclude", "stemmer:norwegian"],
                "_norwegian_",
            ),
            "romanian" => (
                "standard",
                &["lowercase", "stop", "exclude", "stemmer:romanian"],
                "_romanian_",
            ),
            "russian" => ("standard", &["lowercase", "stop", "exclude", "stemmer:russian"], "_russian_"),
            "swedish" => ("standard", &["lowercase", "stop", "exclude", "stemmer:swedish"], "_swedish_"),
            "turkish" => (
                "standard",
                &["apostrophe", "lowercase:turkish", "stop", "exclude", "stemmer:turkish"],
                "_turkish_",
            ),
            _ => return Ok(None),
        };
        let Some(tokenizer) = self.tokenizer_of(tokenizer, o)? else {
            return Ok(None);
        };
        let stop_words = o.words("stopwords", stop_words)?;
        let excluded = o.words("stem_exclusion", "")?;
        let mut made: Vec<Named<Filter>> = Vec::new();
        for spelled in filters {
            let (name, language) = spelled.split_once(':').unwrap_or((spelled, ""));
            let filter = match name {
                "stop" if stop_words.is_empty() => continue,
                "stop" => Filter::each(Stop(WordSet::new(stop_words.clone(), false))),
                "exclude" if excluded.is_empty() => continue,
                "exclude" => Filter::each(KeywordMarker::Words(WordSet::new(excluded.clone(), false))),
                "lowercase" if kind == "pattern" && !o.flag("lowercase", true)? => continue,
                "dutch_words" => {
                    let stems = [
                        ("fiets", "fiets"),
                        ("bromfiets", "bromfiets"),
                        ("ei", "eier"),
                        ("kind", "kinder"),
                    ];
                    let stems = stems
                        .into_iter()
                        .map(|(word, stem)| (word.to_owned(), stem.to_owned()))
                        .collect();
                    Filter::each(StemmerOverride {
                        stems,
                        ignore_case: false,
                    })
                }
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
                    let before = Before {
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
            made.push(named(name, filter));
        }
        Ok(Some(Analyzer::new(
            o.name,
            Chain {
                char_filters: Vec::new(),
                tokenizer,
                filters: made,
                gap: DEFAULT_GAP,
            },
        )))
    }
}

fn char_classes(o: &Options<'_>, key: &str) -> Result<Vec<CharClass>> {
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

/// `\n`, `\u0041` and the like in mappings.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('r') => out.push('\r'),
            Some('b') => out.push('\u{8}'),
            Some('f') => out.push('\u{c}'),
            Some('u') => {
                let hex: String = chars.by_ref().take(4).collect();
                out.push(
                    u32::from_str_radix(&hex, 16)
                        .ok()
                        .and_then(char::from_u32)
                        .unwrap_or('\u{fffd}'),
                );
            }
            Some(c) => out.push(c),
            None => {}
        }
    }
    out
}

fn word_delimiter(kind: &str, o: &Options<'_>) -> Result<Filter> {
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
fn stemmer(language: &str) -> Option<Filter> {
    let own: fn(&mut String) = match language {
        "english" | "porter" => porter,
        "possessive_english" | "possessiveEnglish" => possessive_english,
        "minimal_english" | "minimalEnglish" => minimal_english,
        "light_french" | "lightFrench" => light_french,
        "minimal_french" | "minimalFrench" => minimal_french,
        "light_german" | "lightGerman" => light_german,
        "minimal_german" | "minimalGerman" => minimal_german,
        "light_spanish" | "lightSpanish" => light_spanish,
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

fn snowball(language: &str) -> Option<Algorithm> {
    Some(match language {
        "danish" => Algorithm::Danish,
        "dutch" => Algorithm::Dutch,
        "english" => Algorithm::English,
        "finnish" => Algorithm::Finnish,
        "french" => Algorithm::French,
        "german" => Algorithm::German,
        "hungarian" => Algorithm::Hungarian,
        "italian" => Algorithm::Italian,
        "norwegian" => Algorithm::Norwegian,
        "portuguese" => Algorithm::Portuguese,
        "romanian" => Algorithm::Romanian,
        "russian" => Algorithm::Russian,
        "spanish" => Algorithm::Spanish,
        "swedish" => Algorithm::Swedish,
        "turkish" => Algorithm::Turkish,
        _ => return None,
    })
}
