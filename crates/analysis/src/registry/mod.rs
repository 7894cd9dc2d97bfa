//! The only place that knows names: which analyzers, tokenizers and filters there are, and their options.
//!
//! Definitions are those of an index's `analysis` settings. Names are looked for among them first, then among
//! the built-in ones. Not here: files of words or synonyms, plugins, scripts (`predicate_token_filter`).

use crate::analyzer::{Analyzer, Chain, DEFAULT_GAP};
use crate::char_filters::CharFilter;
use crate::filters::{Filter, Lowercase};
use crate::named::Named;
use crate::options::Options;
use crate::tokenizers::{Keyword, Tokenizer};
use model::{Error, Result, Topic, nearest::nearest};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

mod analyzers;
mod char_filters;
mod filters;
pub(crate) mod languages;
mod tokenizers;

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
pub struct Registry(Arc<RegistryParts>);

struct RegistryParts {
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

/// Languages have theirs beside these.
const GENERAL_ANALYZERS: &[&str] = &[
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
];
static ANALYZERS: LazyLock<Vec<&str>> = LazyLock::new(|| GENERAL_ANALYZERS.iter().copied().chain(languages::names()).collect());
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
    "arabic_stem",
    "bengali_normalization",
    "brazilian_stem",
    "classic",
    "czech_stem",
    "hindi_normalization",
    "indic_normalization",
    "persian_stem",
    "serbian_normalization",
    "sorani_normalization",
    "arabic_normalization",
    "persian_normalization",
    "scandinavian_folding",
    "scandinavian_normalization",
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
/// Filters that need options: none is known by its bare name.
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

/// The end of the refusal of a part that needs parameters.
const NEEDS_PARAMETERS: &str = "it takes parameters, and is defined in the settings of an index or as an object";

fn suggestion(name: &str, known: impl IntoIterator<Item = &'static str>) -> String {
    nearest(name, known)
        .map(|near| match near == name {
            true => format!(": {NEEDS_PARAMETERS}"),
            false => format!(", did you mean [{near}]?"),
        })
        .unwrap_or_default()
}

fn object(value: &Value) -> Option<&Map<String, Value>> {
    value.as_object()
}

/// A part that the previous ones of its chain matter to.
struct PrecedingParts<'a> {
    char_filters: &'a [Named<dyn CharFilter>],
    tokenizer: &'a Named<dyn Tokenizer>,
    filters: &'a [Named<Filter>],
}

impl Registry {
    /// The built-in analyzers only.
    pub fn default_registry() -> Registry {
        Registry(Arc::new(RegistryParts {
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
        let mut inner = RegistryParts {
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
        self.0.analyzers.get(name).cloned().or_else(|| built_in_analyzer(name))
    }

    /// The normalizer of a name, defined or built in.
    pub fn normalizer(&self, name: &str) -> Option<Analyzer> {
        if let Some(normalizer) = self.0.normalizers.get(name) {
            return Some(normalizer.clone());
        }
        (name == "lowercase").then(|| lowercase_normalizer(name))
    }

    /// An analyzer of parts that are named or defined on the spot.
    pub fn custom(&self, parts: &AnalyzeParts) -> Result<Analyzer> {
        let char_filters = parts.char_filters.iter().map(|value| self.custom_char_filter(value));
        let char_filters = char_filters.collect::<Result<Vec<_>>>()?;
        let tokenizer = match &parts.tokenizer {
            None => keyword(),
            Some(value) => self.custom_tokenizer(value)?,
        };
        let mut filters = Vec::new();
        for value in &parts.filters {
            let before = PrecedingParts {
                char_filters: &char_filters,
                tokenizer: &tokenizer,
                filters: &filters,
            };
            let filter = self.custom_filter(value, &before)?;
            filters.push(filter);
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

    fn custom_char_filter(&self, value: &Value) -> Result<Named<dyn CharFilter>> {
        let definitions = &self.0.definitions;
        let (name, filter) = match object(value) {
            Some(values) => {
                let kind = inline_kind("char_filter", values)?;
                let name = "_anonymous_char_filter";
                let filter = definitions.char_filter_of(&kind, &Options { name, values })?;
                (kind, filter)
            }
            None => (plain(value), definitions.char_filter(&plain(value))?),
        };
        filter.ok_or_else(|| self.not_found("char_filter", &name, CHAR_FILTERS))
    }

    fn custom_tokenizer(&self, value: &Value) -> Result<Named<dyn Tokenizer>> {
        let definitions = &self.0.definitions;
        let Some(values) = object(value) else {
            let name = plain(value);
            let tokenizer = definitions.tokenizer(&name)?;
            return tokenizer.ok_or_else(|| self.not_found("tokenizer", &name, TOKENIZERS));
        };
        let kind = inline_kind("tokenizer", values)?;
        let name = "_anonymous_tokenizer";
        let tokenizer = definitions.tokenizer_of(&kind, &Options { name, values })?;
        let tokenizer = tokenizer.ok_or_else(|| self.not_found("tokenizer", &kind, TOKENIZERS))?;
        Ok(Named {
            name: format!("__anonymous__{kind}").into(),
            part: tokenizer.part,
        })
    }

    fn custom_filter(&self, value: &Value, before: &PrecedingParts<'_>) -> Result<Named<Filter>> {
        let definitions = &self.0.definitions;
        let Some(values) = object(value) else {
            let name = plain(value);
            let filter = definitions.filter(&name, before)?;
            return filter.ok_or_else(|| self.not_found("filter", &name, FILTERS));
        };
        let kind = inline_kind("filter", values)?;
        let name = "_anonymous_filter";
        let filter = definitions.filter_of(&kind, &Options { name, values }, before)?;
        let filter = filter.ok_or_else(|| self.not_found("filter", &kind, FILTERS))?;
        Ok(Named::new(&format!("__anonymous__{kind}"), filter))
    }

    fn not_found(&self, part: &'static str, name: &str, known: &'static [&'static str]) -> Error {
        let global = if self.0.of_index { "" } else { "global " };
        let hint = suggestion(name, known.iter().copied());
        Error::illegal(format!("failed to find {global}{part} under [{name}]{hint}")).about(Topic::AnalysisPart {
            part,
            name: name.to_owned(),
            needs: known.contains(&name).then_some(NEEDS_PARAMETERS),
        })
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

fn lowercase_normalizer(name: &str) -> Analyzer {
    let chain = Chain {
        char_filters: Vec::new(),
        tokenizer: keyword(),
        filters: vec![Named::new("lowercase", Filter::each(Lowercase))],
        gap: DEFAULT_GAP,
    };
    Analyzer::new(name, chain)
}

fn keyword() -> Named<dyn Tokenizer> {
    Named {
        name: "keyword".into(),
        part: Arc::new(Keyword),
    }
}

fn built_in_analyzer(name: &str) -> Option<Analyzer> {
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
    pub(super) fn part(&self, part: &str) -> Option<&Map<String, Value>> {
        self.parts.get(part)
    }

    pub(super) fn definition(&self, part: &str, name: &str) -> Result<Option<(String, &Map<String, Value>)>> {
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
    pub(super) fn check_unused(&self) -> Result<()> {
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
            let kind = self.definition("filter", name)?.map(|(kind, _)| kind);
            let given = |key: &str| self.part("filter").and_then(|all| all.get(name)?.get(key)).is_some();
            if matches!(kind.as_deref(), Some("synonym" | "synonym_graph"))
                && !["synonyms", "synonyms_path", "synonyms_set"].into_iter().any(given)
            {
                return Err(Error::illegal(
                    "synonym requires either `synonyms` or `synonyms_path` to be configured",
                ));
            }
            if !kind.is_some_and(|kind| kind.starts_with("synonym")) {
                self.filter(
                    name,
                    &PrecedingParts {
                        char_filters: &[],
                        tokenizer: &tokenizer,
                        filters: &[],
                    },
                )?;
            }
        }
        Ok(())
    }

    pub(super) fn unknown(part: &'static str, kind: &str, name: &str, known: &'static [&'static str]) -> Error {
        let hint = suggestion(kind, known.iter().copied());
        Error::illegal(format!("Unknown {part} type [{kind}] for [{name}]{hint}")).about(Topic::AnalysisType {
            part,
            kind: kind.to_owned(),
            name: name.to_owned(),
            hint,
        })
    }
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
