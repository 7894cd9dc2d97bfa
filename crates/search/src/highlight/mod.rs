//! Highlighting: the fragments of a hit's text that show why it matched.
//!
//! The source's text is analysed again when a page is answered, so nothing of it is kept beside the index.
//! [`terms`] says what a query looks for in a field; [`unified`] and [`plain`] cut the text and choose what is
//! shown, as Lucene's highlighters of these names do; [`breaks`] finds words and sentences.
//!
//! Not here: which hits there are, and where their sources come from.

mod breaks;
mod java_words;
mod plain;
mod terms;
#[cfg(test)]
mod tests;
mod text;
mod unified;

use breaks::Cut;
use dsl::query::Query;
use dsl::search::{Highlight, HighlightOptions};
use mapping::{FieldType, Mapping, Registry};
use model::path::read;
use model::{Error, Result};
use plain::Plain;
use serde_json::{Map, Value};
use terms::{Gather, text_of};
use text::{Content, Marks, Reading, Word};
use unified::Unified;

/// `fragment_size` and `number_of_fragments` unless told.
const SIZE: usize = 100;
const FRAGMENTS: usize = 5;
/// The smallest fragments that `fvh` cuts.
const FVH_SIZE_MIN: usize = 18;
/// The first of the tags of `tags_schema: styled`; the others are for the weaker terms of `fvh`.
const STYLED: &str = "<em class=\"hlt1\">";

/// The `highlight` part of one hit: a field and its fragments, a field without any left out. Stored fields are read from `fields` if
/// the source does not keep them all. `analyzed_max` is
/// `index.highlight.max_analyzed_offset`, the longest text that is analysed.
///
/// # Errors
/// An unknown highlighter type, or a request a highlighter cannot serve.
pub(super) fn highlight(
    source: &Value,
    fields: Option<&Value>,
    request: &Highlight,
    query: &Query,
    mapping: &Mapping,
    registry: &Registry,
    analyzed_max: usize,
) -> Result<Map<String, Value>> {
    let mut out = Map::new();
    for (pattern, own) in &request.fields {
        let wild = pattern.contains('*');
        for name in mapping.expand(pattern) {
            let Some((path, kind)) = mapping.resolve(&name) else {
                continue;
            };
            if wild && !(kind.kind.is_text() || kind.kind.is_keyword()) {
                continue;
            }
            let one = OneField {
                name: &name,
                path,
                kind,
                wild,
                own,
                request,
                mapping,
                registry,
                analyzed_max,
            };
            let from = fields.filter(|_| kind.store).unwrap_or(source);
            let fragments = one.fragments(from, query)?;
            if !fragments.is_empty() {
                out.insert(name.clone(), fragments.into());
            }
        }
    }
    Ok(out)
}

/// The analyzer of a text field's values.
fn analyzer_of(kind: &FieldType, registry: &Registry) -> Option<analysis::Analyzer> {
    kind.analyzer
        .clone()
        .or_else(|| registry.analyzer("default"))
        .or_else(|| registry.analyzer("standard"))
}

/// How a field's values become terms.
fn reading(kind: &FieldType, registry: &Registry) -> Reading {
    match analyzer_of(kind, registry).filter(|_| kind.kind.is_text()) {
        Some(analyzer) => Reading::Text(analyzer),
        None => Reading::Whole(kind.normalizer.clone()),
    }
}

/// One field of a request.
struct OneField<'a> {
    name: &'a str,
    path: &'a str,
    kind: &'a FieldType,
    /// Named by a pattern.
    wild: bool,
    own: &'a HighlightOptions,
    request: &'a Highlight,
    mapping: &'a Mapping,
    registry: &'a Registry,
    analyzed_max: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Highlighter {
    Unified,
    Plain,
    FastVector,
}

impl OneField<'_> {
    /// An option of the field, else the common one.
    fn option<T: Clone>(&self, get: impl Fn(&HighlightOptions) -> &Option<T>) -> Option<T> {
        get(self.own).clone().or_else(|| get(&self.request.common).clone())
    }

    fn fragments(&self, source: &Value, query: &Query) -> Result<Vec<String>> {
        let Some(highlighter) = self.highlighter()? else {
            return Ok(Vec::new());
        };
        let plain = highlighter != Highlighter::Unified;
        let most = self.option(|o| &o.number_of_fragments).unwrap_or(FRAGMENTS);
        let size = self.option(|o| &o.fragment_size).unwrap_or(SIZE);
        if highlighter == Highlighter::FastVector && most > 0 && size < FVH_SIZE_MIN {
            return Err(Error::illegal(format!(
                "fragCharSize({size}) is too small. It must be {FVH_SIZE_MIN} or higher."
            )));
        }
        let by_score = self
            .option(|o| &o.order)
            .is_some_and(|order| order.eq_ignore_ascii_case("score"));
        let no_match = self.option(|o| &o.no_match_size).unwrap_or(0);
        let spans = self.spans()?;
        let cut = if most == 0 || !self.kind.kind.is_text() {
            Cut::Value
        } else {
            self.cut(size, plain)?
        };
        let values = self.values(source, plain)?;
        if values.is_empty() {
            return Ok(Vec::new());
        }
        let limit = self.option(|o| &o.max_analyzed_offset).unwrap_or(usize::MAX);
        let reading = reading(self.kind, self.registry);
        let words: Vec<Vec<Word>> = values.iter().map(|v| v.words(&reading, limit)).collect();
        let query = self
            .own
            .highlight_query
            .as_deref()
            .or(self.request.common.highlight_query.as_deref())
            .unwrap_or(query);
        let fields = self.clause_fields(highlighter == Highlighter::FastVector);
        let mut gather = Gather {
            mapping: self.mapping,
            registry: self.registry,
            fields: fields.as_deref(),
            wants: Vec::new(),
        };
        gather.query(query, 1.0);
        let marks = self.marks();
        Ok(if plain {
            Plain {
                marks: &marks,
                most,
                size,
                spans,
                by_score,
                no_match,
            }
            .fragments(&values, &words, &gather.wants)
        } else {
            let most = if most == 0 { usize::MAX } else { most };
            Unified {
                marks: &marks,
                cut,
                most,
                by_score,
                no_match,
            }
            .fragments(&values, &words, &gather.wants)
        })
    }

    /// The highlighter that the request or the field chooses; `None` where a pattern met a field that cannot be highlighted.
    ///
    /// # Errors
    /// There is no such highlighter, or the field lacks what it reads.
    fn highlighter(&self) -> Result<Option<Highlighter>> {
        let vectors = self.kind.term_vector.as_deref();
        let has_vectors = vectors.is_some_and(|t| t.starts_with("with_positions_offsets"));
        let by_field = self.mapping.rules().field_chooses_highlighter;
        let named = self.option(|o| &o.kind);
        let lacks = |why: &str| match self.wild {
            true => Ok(None),
            false => Err(Error::illegal(format!(
                "the field [{}] should be indexed with {why}",
                self.name
            ))),
        };
        match named.as_deref() {
            None if by_field && has_vectors => Ok(Some(Highlighter::FastVector)),
            None if by_field => Ok(Some(Highlighter::Plain)),
            Some("postings" | "postings-highlighter") if by_field && self.kind.index_options.as_deref() != Some("offsets") => {
                lacks("positions and offsets in the postings list to be used with postings highlighter")
            }
            None | Some("unified" | "postings") => Ok(Some(Highlighter::Unified)),
            Some("plain") => Ok(Some(Highlighter::Plain)),
            Some("fvh" | "fast-vector-highlighter") if has_vectors => Ok(Some(Highlighter::FastVector)),
            Some("fvh" | "fast-vector-highlighter") => {
                lacks("term vector with position offsets to be used with fast vector highlighter")
            }
            Some(other) => Err(Error::illegal(format!(
                "unknown highlighter type [{other}] for the field [{}]",
                self.name
            ))),
        }
    }

    /// Whether fragments keep phrases together.
    fn spans(&self) -> Result<bool> {
        match self.option(|o| &o.fragmenter).as_deref() {
            None | Some("span") => Ok(true),
            Some("simple") => Ok(false),
            Some(other) => Err(Error::illegal(format!(
                "unknown fragmenter option [{other}] for the field [{}]",
                self.name
            ))),
        }
    }

    fn cut(&self, size: usize, plain: bool) -> Result<Cut> {
        let scanner = self.option(|o| &o.boundary_scanner).map(|s| s.to_ascii_uppercase());
        match scanner.as_deref() {
            None | Some("SENTENCE") => Ok(Cut::Sentence(size)),
            Some("WORD") => Ok(Cut::Word),
            Some("CHARS") if plain => Ok(Cut::Value),
            Some("CHARS") => Err(Error::illegal("Invalid boundary scanner type: CHARS")),
            Some(other) => Err(Error::illegal(format!(
                "No enum constant HighlightBuilder.BoundaryScannerType.{other}"
            ))),
        }
    }

    /// The fields whose clauses are shown here; `None`: all.
    ///
    /// `vectors`: the fast vector highlighter; it alone goes by `matched_fields`.
    fn clause_fields(&self, vectors: bool) -> Option<Vec<String>> {
        if !self.option(|o| &o.require_field_match).unwrap_or(true) {
            return None;
        }
        let matched = if self.own.matched_fields.is_empty() {
            &self.request.common.matched_fields
        } else {
            &self.own.matched_fields
        };
        Some(
            std::iter::once(self.path.to_owned())
                .chain(matched.iter().filter(|_| vectors).cloned())
                .collect(),
        )
    }

    fn marks(&self) -> Marks {
        let first =
            |tags: Option<Vec<String>>, usual: &str| tags.and_then(|t| t.into_iter().next()).unwrap_or_else(|| usual.to_owned());
        let pre = if self.request.styled { STYLED } else { "<em>" };
        Marks {
            pre: first(self.option(|o| &o.pre_tags), pre),
            post: first(self.option(|o| &o.post_tags), "</em>"),
            html: self.request.encoder.as_deref() == Some("html"),
        }
    }

    /// Does the index say where each word stands?
    fn keeps_offsets(&self) -> bool {
        let vectors = self.kind.term_vector.as_deref().unwrap_or_default();
        self.kind.index_options.as_deref() == Some("offsets") || vectors.contains("offsets")
    }

    /// The field's texts. A multi-field has those of the field above it.
    ///
    /// `plain`: that highlighter reads the text anew whatever is kept of it, and ends it where its analysis ends.
    fn values(&self, source: &Value, plain: bool) -> Result<Vec<Content>> {
        let mut path = self.path;
        let mut found = read(source, path);
        while found.is_empty()
            && let Some((above, _)) = path.rsplit_once('.')
            && self.mapping.field(above).is_some()
        {
            path = above;
            found = read(source, path);
        }
        let cut = self.option(|o| &o.max_analyzed_offset);
        let mut out = Vec::new();
        let mut length = 0;
        for value in found {
            scalars(value, &mut |value| {
                let mut text = text_of(value);
                if let (true, Some(limit)) = (plain, cut)
                    && let Some((end, _)) = text.char_indices().nth(limit)
                {
                    text.truncate(end);
                }
                if self.kind.ignore_above.is_none_or(|most| text.chars().count() <= most) {
                    length += text.len();
                    out.push(Content::new(text));
                }
            });
        }
        // An explicit `max_analyzed_offset` stops the analysis there instead; kept offsets need none.
        if length > self.analyzed_max
            && (plain || !self.keeps_offsets())
            && self.option(|o| &o.max_analyzed_offset).is_none()
            && out.iter().map(Content::len).sum::<usize>() > self.analyzed_max
        {
            return Err(Error::illegal(format!(
                "The length of [{}] field has exceeded [{}] - maximum allowed to be analyzed for highlighting. This maximum can be set by changing the [index.highlight.max_analyzed_offset] index level setting. For large texts, indexing with offsets or term vectors is recommended!",
                self.name, self.analyzed_max
            )));
        }
        Ok(out)
    }
}

/// Calls `f` with every value that is neither null nor an object.
fn scalars<'a>(value: &'a Value, f: &mut dyn FnMut(&'a Value)) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| scalars(item, f)),
        Value::Null | Value::Object(_) => {}
        scalar => f(scalar),
    }
}
