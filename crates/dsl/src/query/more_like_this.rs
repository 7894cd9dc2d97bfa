//! `more_like_this`: documents that have what is typical of some texts or documents.

use super::{Clause, Parsing, Query};
use crate::json::{Fields, Node};
use model::{Error, Result};
use serde_json::{Map, Value, json};

/// The clause.
#[derive(Clone, Debug, PartialEq)]
pub struct MoreLikeThisQuery {
    /// Empty: every field that has words.
    pub fields: Vec<String>,
    pub like: Vec<Like>,
    /// Words of these are not typical.
    pub unlike: Vec<Like>,
    pub max_query_terms: usize,
    pub min_term_freq: u64,
    pub min_doc_freq: u64,
    pub max_doc_freq: u64,
    pub min_word_length: usize,
    /// 0: of any length.
    pub max_word_length: usize,
    pub stop_words: Vec<String>,
    pub analyzer: Option<String>,
    pub minimum_should_match: String,
    /// Terms count by how typical they are, times this; 0: all alike.
    pub boost_terms: f32,
    /// The documents themselves may be found.
    pub include: bool,
    /// Fields without words are refused, not passed over.
    pub fail_on_unsupported_field: bool,
}

/// One thing to be like.
#[derive(Clone, Debug, PartialEq)]
pub enum Like {
    /// A text.
    Text(String),
    /// A document of the index.
    Doc {
        index: Option<String>,
        doc_type: Option<String>,
        id: String,
    },
    /// A document that is in no index.
    Made(Value),
}

pub(super) fn parse(node: Node, cx: &mut Parsing) -> Result<Query> {
    let unlike_anything = node.error("more_like_this requires 'like' to be specified");
    let mut fields = cx.options(node, "more_like_this")?;
    let list = |fields: &mut Fields, names: &[&str]| -> Result<Option<Vec<String>>> {
        let Some(node) = fields.take_any(names) else { return Ok(None) };
        node.items()
            .into_iter()
            .map(|n| n.string(names[0]))
            .collect::<Result<_>>()
            .map(Some)
    };
    let named = list(&mut fields, &["fields"])?;
    if named.as_ref().is_some_and(Vec::is_empty) {
        return Err(Error::illegal("more_like_this requires 'fields' to be non-empty"));
    }
    let mut like = Vec::new();
    for name in ["like", "like_text", "docs", "ids"] {
        if let Some(node) = fields.take(name) {
            likes(node, name == "ids", &mut like)?;
        }
    }
    let mut unlike = Vec::new();
    for name in ["unlike", "ignore_like"] {
        if let Some(node) = fields.take(name) {
            likes(node, false, &mut unlike)?;
        }
    }
    if like.is_empty() {
        return Err(unlike_anything);
    }
    let number = |fields: &mut Fields, names: &[&str], default: u64| -> Result<u64> {
        let Some(node) = fields.take_any(names) else {
            return Ok(default);
        };
        let given = node.i64(names[0])?;
        u64::try_from(given).map_err(|_| Error::illegal(format!("[{}] must not be negative, found [{given}]", names[0])))
    };
    let size = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    let max_query_terms = size(number(&mut fields, &["max_query_terms"], 25)?);
    if max_query_terms == 0 {
        return Err(Error::illegal("requires 'maxQueryTerms' to be greater than 0"));
    }
    let clause = MoreLikeThisQuery {
        fields: named.unwrap_or_default(),
        like,
        unlike,
        max_query_terms,
        min_term_freq: number(&mut fields, &["min_term_freq"], 2)?,
        min_doc_freq: number(&mut fields, &["min_doc_freq"], 5)?,
        max_doc_freq: number(&mut fields, &["max_doc_freq"], u64::MAX)?,
        min_word_length: size(number(&mut fields, &["min_word_length", "min_word_len"], 0)?),
        max_word_length: size(number(&mut fields, &["max_word_length", "max_word_len"], 0)?),
        stop_words: list(&mut fields, &["stop_words"])?.unwrap_or_default(),
        analyzer: fields.take_string("analyzer")?,
        minimum_should_match: match fields.take("percent_terms_to_match") {
            Some(node) => format!("{}%", (node.f64("percent_terms_to_match")? * 100.0).floor()),
            None => fields.take_string("minimum_should_match")?.unwrap_or_else(|| "30%".into()),
        },
        boost_terms: fields.take_f32("boost_terms")?.unwrap_or(0.0),
        include: fields.take_bool("include")?.unwrap_or(false),
        fail_on_unsupported_field: fields.take_bool("fail_on_unsupported_field")?.unwrap_or(true),
    };
    cx.finish(fields, "more_like_this", Clause::MoreLikeThis(Box::new(clause)))
}

/// Texts and documents, one or a list; `ids` are of documents.
fn likes(node: Node, ids: bool, out: &mut Vec<Like>) -> Result<()> {
    for item in node.items() {
        if !item.is_object() {
            let text = item.string("like")?;
            let doc = |id| Like::Doc {
                index: None,
                doc_type: None,
                id,
            };
            out.push(if ids { doc(text) } else { Like::Text(text) });
            continue;
        }
        let unknown = item.error("Failed to parse [like] item: [_id] or [doc] must be specified");
        let mut fields = item.fields("more_like_this")?;
        // There is one shard, and the stamp of a document does not change what it is like.
        for ignored in [
            "routing",
            "_routing",
            "parent",
            "_parent",
            "version",
            "_version",
            "version_type",
            "_version_type",
        ] {
            fields.take(ignored);
        }
        for beyond in ["per_field_analyzer", "fields"] {
            if fields.take(beyond).is_some() {
                return Err(Error::illegal(format!(
                    "[{beyond}] of one document in [more_like_this] is not supported: [fields] beside [like] are of all"
                )));
            }
        }
        let index = fields.take_string("_index")?;
        let doc_type = fields.take_string("_type")?;
        let id = fields.take_string("_id")?;
        let made = fields.take_value("doc");
        fields.finish()?;
        out.push(match (made, id) {
            (Some(doc), _) => Like::Made(doc),
            (None, Some(id)) => Like::Doc { index, doc_type, id },
            (None, None) => return Err(unknown),
        });
    }
    Ok(())
}

pub(super) fn render(q: &MoreLikeThisQuery) -> Map<String, Value> {
    let likes = |list: &[Like]| -> Value {
        let one = |like: &Like| match like {
            Like::Text(text) => json!(text),
            Like::Made(doc) => json!({ "doc": doc }),
            Like::Doc { index, doc_type, id } => {
                let mut out = Map::new();
                for (name, value) in [("_index", index), ("_type", doc_type), ("_id", &Some(id.clone()))] {
                    if let Some(value) = value {
                        out.insert(name.into(), value.as_str().into());
                    }
                }
                Value::Object(out)
            }
        };
        list.iter().map(one).collect()
    };
    let Value::Object(mut body) = json!({
        "like": likes(&q.like), "max_query_terms": q.max_query_terms, "min_term_freq": q.min_term_freq,
        "min_doc_freq": q.min_doc_freq, "min_word_length": q.min_word_length, "max_word_length": q.max_word_length,
        "minimum_should_match": q.minimum_should_match, "boost_terms": q.boost_terms, "include": q.include,
        "fail_on_unsupported_field": q.fail_on_unsupported_field,
    }) else {
        return Map::new();
    };
    if q.max_doc_freq < u64::MAX {
        body.insert("max_doc_freq".into(), q.max_doc_freq.into());
    }
    if !q.fields.is_empty() {
        body.insert("fields".into(), json!(q.fields));
    }
    if !q.unlike.is_empty() {
        body.insert("unlike".into(), likes(&q.unlike));
    }
    if !q.stop_words.is_empty() {
        body.insert("stop_words".into(), json!(q.stop_words));
    }
    if let Some(analyzer) = &q.analyzer {
        body.insert("analyzer".into(), analyzer.as_str().into());
    }
    body
}
