//! `highlight`: which fields, how their fragments are cut and marked.

use crate::json::{Json, Node};
use crate::query::{Parsing, Query};
use crate::shape;
use model::{Dialect, Error, ErrorKind, Result};
use serde_json::{Map, Value, json};

/// `highlight` with one entry a field; options of a field override the common ones.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Highlight {
    /// Fields or patterns with options of their own.
    pub fields: Vec<(String, HighlightOptions)>,
    /// Options of all fields.
    pub common: HighlightOptions,
    /// `html` escapes.
    pub encoder: Option<String>,
    /// `tags_schema: styled`.
    pub styled: bool,
}

/// Options of one field, or of all.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct HighlightOptions {
    /// `unified`, `plain`, `fvh`.
    pub kind: Option<String>,
    pub pre_tags: Option<Vec<String>>,
    pub post_tags: Option<Vec<String>>,
    pub number_of_fragments: Option<usize>,
    pub fragment_size: Option<usize>,
    pub fragment_offset: Option<usize>,
    pub no_match_size: Option<usize>,
    pub require_field_match: Option<bool>,
    pub matched_fields: Vec<String>,
    /// `score` or `none`.
    pub order: Option<String>,
    pub fragmenter: Option<String>,
    pub boundary_scanner: Option<String>,
    pub boundary_max_scan: Option<usize>,
    pub boundary_chars: Option<String>,
    pub boundary_scanner_locale: Option<String>,
    pub phrase_limit: Option<usize>,
    pub force_source: Option<bool>,
    pub highlight_query: Option<Box<Query>>,
    pub max_analyzed_offset: Option<usize>,
    pub highlight_filter: Option<bool>,
    pub options: Option<Map<String, Value>>,
}

const OPTIONS: &[&str] = &[
    "type",
    "pre_tags",
    "post_tags",
    "number_of_fragments",
    "fragment_size",
    "fragment_offset",
    "no_match_size",
    "require_field_match",
    "matched_fields",
    "order",
    "fragmenter",
    "boundary_scanner",
    "boundary_max_scan",
    "boundary_chars",
    "boundary_scanner_locale",
    "phrase_limit",
    "force_source",
    "highlight_query",
    "max_analyzed_offset",
    "highlight_filter",
    "options",
    "fields",
    "encoder",
    "tags_schema",
];

impl Highlight {
    /// Reads `highlight`.
    ///
    /// # Errors
    /// An option that does not exist, or a value of the wrong kind.
    pub fn parse(node: Node, dialect: Dialect) -> Result<Highlight> {
        let mut out = Highlight::default();
        for (key, value) in shape::object(node, "highlight")? {
            match key.as_str() {
                "fields" => out.fields = parse_fields(value, dialect)?,
                "encoder" => out.encoder = Some(value.string("encoder")?),
                "tags_schema" => match value.string("tags_schema")?.as_str() {
                    // The later of it and of tags of one's own counts.
                    schema @ ("styled" | "default") => {
                        out.styled = schema == "styled";
                        (out.common.pre_tags, out.common.post_tags) = (None, None);
                    }
                    other => {
                        let cause = Error::illegal(format!("Unknown tag schema [{other}]"));
                        return Err(shape::failed_field(
                            "highlight",
                            "tags_schema",
                            (value.line, value.col),
                            cause,
                        ));
                    }
                },
                _ => {
                    let at = (value.line, value.col);
                    let read = out.common.take("highlight", &key, value, dialect);
                    read.map_err(|cause| option_error("highlight", &key, at, cause, dialect))?;
                }
            }
        }
        out.common.tags_in_pairs(dialect)?;
        Ok(out)
    }
    /// As in a request.
    pub fn render(&self) -> Value {
        let mut out = self.common.render();
        if let Some(encoder) = &self.encoder {
            out.insert("encoder".into(), encoder.as_str().into());
        }
        if self.styled {
            out.insert("tags_schema".into(), "styled".into());
        }
        let fields: Vec<Value> = self
            .fields
            .iter()
            .map(|(name, options)| json!({ name.as_str(): options.render() }))
            .collect();
        out.insert("fields".into(), Value::Array(fields));
        Value::Object(out)
    }
}

/// An object of fields, or a list of such objects.
fn parse_fields(node: Node, dialect: Dialect) -> Result<Vec<(String, HighlightOptions)>> {
    let mut out = Vec::new();
    let listed = node.is_array();
    for part in node.items() {
        let at = (part.line, part.col);
        let fields = shape::object(part, "highlight")?;
        if listed && fields.len() != 1 && !dialect.rules.tolerates_value_types {
            let reason = "[fields] can be a single object with any number of fields or an array where each entry is an object \
                          with a single field";
            let cause = Error::new(ErrorKind::XContentParse, reason);
            return Err(shape::failed_field("highlight", "fields", at, cause));
        }
        for (name, options) in fields {
            let mut own = HighlightOptions::default();
            for (key, value) in shape::object(options, "highlight_field")? {
                let at = (value.line, value.col);
                let read = own.take("highlight_field", &key, value, dialect);
                read.map_err(|cause| option_error("highlight_field", &key, at, cause, dialect))?;
            }
            own.tags_in_pairs(dialect)?;
            out.push((name, own));
        }
    }
    Ok(out)
}

/// The refusal of an option, caused by that of its value.
fn option_error(owner: &str, key: &str, at: (u32, u32), cause: Error, dialect: Dialect) -> Error {
    if dialect.rules.refusals_are_unwrapped || cause.kind() == ErrorKind::XContentParse {
        cause
    } else {
        shape::failed_field(owner, key, at, cause)
    }
}

impl HighlightOptions {
    fn take(&mut self, owner: &str, key: &str, value: Node, dialect: Dialect) -> Result<()> {
        match key {
            "type" => self.kind = Some(value.string(key)?),
            "pre_tags" | "preTags" => self.pre_tags = Some(shape::strings(value, key)?),
            "post_tags" | "postTags" => self.post_tags = Some(shape::strings(value, key)?),
            "number_of_fragments" | "numberOfFragments" => self.number_of_fragments = Some(count(&value, key)?),
            "fragment_size" | "fragmentSize" => self.fragment_size = Some(count(&value, key)?),
            "fragment_offset" | "fragmentOffset" => self.fragment_offset = Some(count(&value, key)?),
            "no_match_size" | "noMatchSize" => self.no_match_size = Some(count(&value, key)?),
            "require_field_match" | "requireFieldMatch" => self.require_field_match = Some(value.boolean(key)?),
            "matched_fields" | "matchedFields" => self.matched_fields = shape::strings(value, key)?,
            "order" => self.order = Some(value.string(key)?),
            "fragmenter" => self.fragmenter = Some(value.string(key)?),
            "boundary_scanner" => self.boundary_scanner = Some(value.string(key)?),
            "boundary_max_scan" | "boundaryMaxScan" => self.boundary_max_scan = Some(count(&value, key)?),
            "boundary_chars" | "boundaryChars" => self.boundary_chars = Some(value.string(key)?),
            "boundary_scanner_locale" => self.boundary_scanner_locale = Some(value.string(key)?),
            "phrase_limit" | "phraseLimit" => self.phrase_limit = Some(count(&value, key)?),
            "force_source" | "forceSource" => self.force_source = Some(value.boolean(key)?),
            "highlight_query" | "highlightQuery" => {
                self.highlight_query = Some(Box::new(Query::parse(value, &mut Parsing::new(dialect))?));
            }
            "max_analyzed_offset" | "max_analyzer_offset" => self.max_analyzed_offset = Some(count(&value, key)?),
            "highlight_filter" | "highlightFilter" => self.highlight_filter = Some(value.boolean(key)?),
            "options" => match value.value {
                Json::Object(_) => self.options = value.into_value().as_object().cloned(),
                _ => return Err(shape::unknown_field(owner, key, &value, &[])),
            },
            // 2015 passed over what it did not know.
            _ if dialect.rules.skips_unknown_keys => {}
            _ => return Err(shape::unknown_field(owner, key, &value, OPTIONS)),
        }
        Ok(())
    }
    fn tags_in_pairs(&self, dialect: Dialect) -> Result<()> {
        if self.pre_tags.is_some() && self.post_tags.is_none() && !dialect.rules.tolerates_missing_options {
            return Err(Error::parsing("pre_tags are set but post_tags are not set", 1, 1));
        }
        Ok(())
    }
    fn render(&self) -> Map<String, Value> {
        let mut out = Map::new();
        let texts = [
            ("type", &self.kind),
            ("order", &self.order),
            ("fragmenter", &self.fragmenter),
            ("boundary_scanner", &self.boundary_scanner),
            ("boundary_chars", &self.boundary_chars),
            ("boundary_scanner_locale", &self.boundary_scanner_locale),
        ];
        out.extend(
            texts
                .into_iter()
                .filter_map(|(name, text)| Some((name.into(), text.as_deref()?.into()))),
        );
        let counts = [
            ("number_of_fragments", self.number_of_fragments),
            ("fragment_size", self.fragment_size),
            ("fragment_offset", self.fragment_offset),
            ("no_match_size", self.no_match_size),
            ("boundary_max_scan", self.boundary_max_scan),
            ("phrase_limit", self.phrase_limit),
            ("max_analyzed_offset", self.max_analyzed_offset),
        ];
        out.extend(
            counts
                .into_iter()
                .filter_map(|(name, number)| Some((name.into(), number?.into()))),
        );
        let flags = [
            ("require_field_match", self.require_field_match),
            ("force_source", self.force_source),
            ("highlight_filter", self.highlight_filter),
        ];
        out.extend(flags.into_iter().filter_map(|(name, flag)| Some((name.into(), flag?.into()))));
        for (name, tags) in [("pre_tags", &self.pre_tags), ("post_tags", &self.post_tags)] {
            if let Some(tags) = tags {
                out.insert(name.into(), json!(tags));
            }
        }
        if !self.matched_fields.is_empty() {
            out.insert("matched_fields".into(), json!(self.matched_fields));
        }
        if let Some(query) = &self.highlight_query {
            out.insert("highlight_query".into(), query.render());
        }
        if let Some(options) = &self.options {
            out.insert("options".into(), Value::Object(options.clone()));
        }
        out
    }
}

fn count(value: &Node, name: &str) -> Result<usize> {
    let number = value.i64(name)?;
    usize::try_from(number).map_err(|_| Error::illegal(format!("[{name}] cannot be negative, found [{number}]")))
}
