//! Bodies of `_termvectors` and `_mtermvectors`: whose terms, and what of them.
//!
//! Not here: which terms a text has (the engine).

use crate::json::Node;
use crate::shape;
use model::{Error, ErrorKind, Result};
use serde_json::Value;
use std::collections::BTreeMap;

/// One document whose terms are asked for; what is absent comes from the URL.
#[derive(Clone, Debug, PartialEq)]
pub struct TermVectors {
    pub index: Option<String>,
    pub doc_type: Option<String>,
    pub id: Option<String>,
    pub routing: Option<String>,
    pub version: Option<i64>,
    pub version_type: Option<String>,
    /// A document that is in no index.
    pub doc: Option<Value>,
    /// Names and patterns; without them the fields that keep term vectors.
    pub fields: Vec<String>,
    pub positions: bool,
    pub offsets: bool,
    pub payloads: bool,
    pub field_statistics: bool,
    pub term_statistics: bool,
    /// Field → name of an analyzer: the field is analyzed anew.
    pub per_field_analyzer: BTreeMap<String, String>,
    pub filter: Option<TermFilter>,
}

/// Only the best terms, by how often they are here and how rare they are elsewhere.
#[derive(Clone, Debug, PartialEq)]
pub struct TermFilter {
    pub max_num_terms: usize,
    pub min_term_freq: u64,
    pub max_term_freq: u64,
    pub min_doc_freq: u64,
    pub max_doc_freq: u64,
    pub min_word_length: usize,
    /// 0: any.
    pub max_word_length: usize,
}

impl Default for TermVectors {
    fn default() -> TermVectors {
        TermVectors {
            index: None,
            doc_type: None,
            id: None,
            routing: None,
            version: None,
            version_type: None,
            doc: None,
            fields: Vec::new(),
            positions: true,
            offsets: true,
            payloads: true,
            field_statistics: true,
            term_statistics: false,
            per_field_analyzer: BTreeMap::new(),
            filter: None,
        }
    }
}

impl Default for TermFilter {
    fn default() -> TermFilter {
        TermFilter {
            max_num_terms: 25,
            min_term_freq: 1,
            max_term_freq: u64::MAX,
            min_doc_freq: 1,
            max_doc_freq: u64::MAX,
            min_word_length: 0,
            max_word_length: 0,
        }
    }
}

fn refuse(reason: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Parse, format!("failed to parse term vectors request. {reason}"))
}

impl TermVectors {
    /// Reads a body over what is asked already.
    ///
    /// # Errors
    /// Keys that do not exist, an id and a document at once.
    pub fn parse(mut self, node: Node) -> Result<TermVectors> {
        let named = self.id.is_some();
        let mut given = false;
        for (key, value) in shape::object(node, "term vectors")? {
            match key.as_str() {
                "fields" if value.is_array() => self.fields = shape::strings(value, "fields")?,
                "fields" => return Err(refuse("field [fields] must be an array")),
                "offsets" => self.offsets = value.boolean("offsets")?,
                "positions" => self.positions = value.boolean("positions")?,
                "payloads" => self.payloads = value.boolean("payloads")?,
                "term_statistics" | "termStatistics" => self.term_statistics = value.boolean(&key)?,
                "field_statistics" | "fieldStatistics" => self.field_statistics = value.boolean(&key)?,
                "dfs" => {
                    return Err(Error::illegal(
                        "distributed frequencies is not supported anymore for term vectors",
                    ));
                }
                "per_field_analyzer" | "perFieldAnalyzer" => {
                    for (field, name) in shape::object(value, &key)? {
                        self.per_field_analyzer.insert(field, name.string(&key)?);
                    }
                }
                "filter" => self.filter = Some(TermFilter::parse(value)?),
                "_index" => self.index = Some(value.string("_index")?),
                "_type" => self.doc_type = Some(value.string("_type")?),
                "_id" if self.doc.is_some() => return Err(refuse(EITHER)),
                "_id" => {
                    self.id = Some(value.string("_id")?);
                    given = true;
                }
                "doc" if named || given => return Err(refuse(EITHER)),
                "doc" => self.doc = Some(value.into_value()),
                "routing" | "_routing" => self.routing = Some(value.string(&key)?),
                "version" | "_version" => self.version = Some(value.i64(&key)?),
                "version_type" | "_version_type" | "versionType" | "_versionType" => {
                    self.version_type = Some(value.string(&key)?);
                }
                _ => return Err(refuse(format!("unknown field [{key}]"))),
            }
        }
        Ok(self)
    }
}

const EITHER: &str = "either [id] or [doc] can be specified, but not both!";

impl TermFilter {
    fn parse(node: Node) -> Result<TermFilter> {
        let mut out = TermFilter::default();
        for (key, value) in shape::object(node, "filter")? {
            let number = u64::try_from(value.i64(&key)?).unwrap_or(0);
            let size = usize::try_from(number).unwrap_or(usize::MAX);
            match key.as_str() {
                "max_num_terms" => out.max_num_terms = size,
                "min_term_freq" => out.min_term_freq = number,
                "max_term_freq" => out.max_term_freq = number,
                "min_doc_freq" => out.min_doc_freq = number,
                "max_doc_freq" => out.max_doc_freq = number,
                "min_word_length" => out.min_word_length = size,
                "max_word_length" => out.max_word_length = size,
                _ => {
                    return Err(refuse(format!(
                        "the field [{key}] is not valid for filter parameter for term vector request"
                    )));
                }
            }
        }
        Ok(out)
    }
}

/// Reads `_mtermvectors`: `docs`, or `ids` with `parameters` for all of them.
///
/// # Errors
/// Other keys, and what single requests refuse.
pub fn parse_many(node: Node, all: &TermVectors) -> Result<Vec<TermVectors>> {
    let (mut docs, mut ids, mut base) = (Vec::new(), Vec::new(), all.clone());
    for (key, value) in shape::object(node, "term vectors")? {
        match key.as_str() {
            "docs" if value.is_array() => {
                for item in value.items() {
                    if !item.is_object() {
                        return Err(Error::illegal("docs array element should include an object"));
                    }
                    docs.push(item);
                }
            }
            "ids" if value.is_array() => ids = shape::strings(value, "ids")?,
            "parameters" if value.is_object() => base = base.parse(value)?,
            _ => {
                let kind = value.kind_name();
                let kind = kind.strip_prefix("START_").unwrap_or(kind);
                return Err(Error::new(
                    ErrorKind::Parse,
                    format!("no parameter named [{key}] and type {kind}"),
                ));
            }
        }
    }
    let mut out = docs
        .into_iter()
        .map(|doc| all.clone().parse(doc))
        .collect::<Result<Vec<_>>>()?;
    out.extend(ids.into_iter().map(|id| TermVectors {
        id: Some(id),
        ..base.clone()
    }));
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(body: Value, expected: std::result::Result<usize, &str>) {
        match (parse_many(Node::from_value(body.clone()), &TermVectors::default()), expected) {
            (Ok(list), Ok(count)) => assert_eq!(list.len(), count, "{body}"),
            (Err(error), Err(part)) => assert!(error.reason().contains(part), "{body}: {error}"),
            (found, _) => panic!("{body}: {found:?}"),
        }
    }

    #[test]
    fn forms() {
        check(json!({"ids": ["1", "2"], "parameters": {"fields": ["a"]}}), Ok(2));
        check(json!({"docs": [{"_id": "1", "_index": "i"}, {"doc": {"a": "x"}}]}), Ok(2));
        check(json!({"docs": [{"_id": "1", "doc": {}}]}), Err("but not both"));
        check(json!({"docs": [{"bogus": 1}]}), Err("unknown field [bogus]"));
        check(json!({"bogus": []}), Err("no parameter named [bogus] and type ARRAY"));
        check(json!({"docs": [{"filter": {"x": 1}}]}), Err("[x] is not valid for filter"));
    }
}
