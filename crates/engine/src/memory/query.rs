//! Does a document match? One document at a time, over its typed fields, without scores.
//!
//! Clauses that need analysis, scripts or scores are refused before the first document is looked at. Not here: what a
//! reader may see at all (`Hidden`), which is decided before.

use super::Stored;
use super::catalog::Entry;
use dsl::query::{BoolQuery, Clause, Query, RangeQuery};
use mapping::{FieldType, FieldValue, Fields, Kind};
use model::{Error, ErrorKind, Result};
use serde_json::Value;
use std::cmp::Ordering;

/// Refuses what this engine does not answer.
pub(super) fn check(query: &Query) -> Result<()> {
    let mut refused = None;
    query.visit(&mut |q| {
        let answered = match &q.clause {
            Clause::Nested(nested) => nested.inner_hits.is_none(),
            Clause::Terms(terms) => terms.minimum_should_match.is_none(),
            Clause::Bool(_) | Clause::ConstantScore { .. } | Clause::MatchAll | Clause::MatchNone | Clause::Term(_) => true,
            Clause::Range(_) | Clause::Exists { .. } | Clause::Prefix(_) | Clause::Ids { .. } | Clause::Type { .. } => true,
            Clause::KeySet(_) => true,
            _ => false,
        };
        if !answered && refused.is_none() {
            let rendered = q.render();
            let name = rendered.as_object().and_then(|o| o.keys().next()).map_or("?", String::as_str);
            refused = Some(super::unsupported_request(format!(
                "the memory engine does not answer this [{name}] query"
            )));
        }
    });
    refused.map_or(Ok(()), Err)
}

/// A document, or one of its nested objects.
#[derive(Clone, Copy)]
struct Row<'a> {
    doc: &'a Stored,
    nested: Option<usize>,
}

impl<'a> Row<'a> {
    fn fields(self) -> &'a Fields {
        match self.nested {
            None => &self.doc.root,
            Some(at) => &self.doc.nested[at].fields,
        }
    }
    /// Whether the nested object `at` lies in this row.
    fn holds(self, mut at: usize) -> bool {
        loop {
            match (self.nested, self.doc.nested[at].parent) {
                (None, _) => return true,
                (Some(here), Some(parent)) if here == parent => return true,
                (_, Some(parent)) => at = parent,
                (_, None) => return false,
            }
        }
    }
}

/// One index and the time that `now` is.
#[derive(Clone, Copy)]
pub(super) struct Matcher<'a> {
    pub(super) entry: &'a Entry,
    pub(super) now_ms: i64,
}

impl<'a> Matcher<'a> {
    /// Whether a document matches a query that [`check`] let pass.
    pub(super) fn matches(self, query: &Query, doc: &Stored) -> Result<bool> {
        self.row(query, Row { doc, nested: None })
    }

    fn row(self, query: &Query, row: Row<'_>) -> Result<bool> {
        match &query.clause {
            Clause::MatchAll => Ok(true),
            Clause::MatchNone => Ok(false),
            Clause::ConstantScore { filter } => self.row(filter, row),
            Clause::Bool(clauses) => self.boolean(clauses, row),
            Clause::Term(q) => self.term(&q.field, &q.value, q.case_insensitive, row),
            Clause::Terms(q) => self.any_term(&q.field, &q.values, row),
            Clause::KeySet(q) => match q.keys.of::<crate::keys::Values>() {
                Some(values) => self.any_term(&q.field, &values.0, row),
                None => Err(Error::new(ErrorKind::Internal, "keys of another engine")),
            },
            Clause::Range(q) => self.range(q, row),
            Clause::Exists { field } => Ok(self.exists(field, row)),
            Clause::Prefix(q) => {
                let start = if q.case_insensitive {
                    q.value.to_lowercase()
                } else {
                    q.value.clone()
                };
                Ok(self.texts(&q.field, row)?.iter().any(|text| {
                    let text = if q.case_insensitive {
                        text.to_lowercase()
                    } else {
                        text.clone()
                    };
                    text.starts_with(&start)
                }))
            }
            Clause::Ids { values, types } => {
                let id = &row.doc.at.id;
                let of_type = types.is_empty()
                    || id
                        .doc_type
                        .as_ref()
                        .is_some_and(|t| types.iter().any(|wanted| **wanted == **t));
                Ok(of_type && values.iter().any(|value| **value == *id.id))
            }
            Clause::Type { value } => Ok(row.doc.at.id.doc_type.as_deref().unwrap_or("_doc") == value),
            Clause::Nested(q) => {
                if !self.entry.mapping.is_nested(&q.path) {
                    let reason = format!("[nested] failed to find nested object under path [{}]", q.path);
                    return if q.ignore_unmapped {
                        Ok(false)
                    } else {
                        Err(self.refuse(reason))
                    };
                }
                for (at, nested) in row.doc.nested.iter().enumerate() {
                    if nested.path == q.path && row.holds(at) && self.row(&q.query, Row { nested: Some(at), ..row })? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            other => unreachable!("check refuses {other:?}"),
        }
    }

    fn boolean(self, q: &BoolQuery, row: Row<'_>) -> Result<bool> {
        for clause in q.must.iter().chain(&q.filter) {
            if !self.row(clause, row)? {
                return Ok(false);
            }
        }
        for clause in &q.must_not {
            if self.row(clause, row)? {
                return Ok(false);
            }
        }
        let least = match &q.minimum_should_match {
            Some(text) => least(text, q.should.len())?,
            None => usize::from(q.must.is_empty() && q.filter.is_empty() && !q.should.is_empty()),
        };
        let mut matching = 0;
        for clause in &q.should {
            matching += usize::from(self.row(clause, row)?);
        }
        Ok(matching >= least)
    }

    fn any_term(self, field: &str, values: &[Value], row: Row<'_>) -> Result<bool> {
        for value in values {
            if self.term(field, value, false, row)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn term(self, field: &str, value: &Value, any_case: bool, row: Row<'_>) -> Result<bool> {
        if let Some(texts) = meta(row.doc, field) {
            let wanted = text_of(value);
            return Ok(texts
                .iter()
                .any(|text| *text == wanted || field == "_index" && model::path::matches(&wanted, text)));
        }
        let Some((path, kind)) = self.entry.mapping.resolve(field) else {
            return Ok(false);
        };
        self.searchable(path, kind)?;
        if kind.kind.is_date() {
            let moment = RangeQuery {
                field: path.to_owned(),
                gte: Some(value.clone()),
                lte: Some(value.clone()),
                ..RangeQuery::default()
            };
            return self.range(&moment, row);
        }
        let Some(wanted) = kind.parse_term(value)? else {
            return Ok(false);
        };
        if let FieldValue::Text(wanted) | FieldValue::Keyword(wanted) | FieldValue::Join { name: wanted, .. } = &wanted {
            let fold = |text: &str| if any_case { text.to_lowercase() } else { text.to_owned() };
            return Ok(self.texts(path, row)?.iter().any(|text| fold(text) == fold(wanted)));
        }
        Ok(row.fields().values(path).any(|value| *value == wanted))
    }

    /// The terms of a field of strings; none for one that is not mapped.
    fn texts(self, field: &str, row: Row<'_>) -> Result<Vec<String>> {
        if let Some(texts) = meta(row.doc, field) {
            return Ok(texts);
        }
        let Some((path, kind)) = self.entry.mapping.resolve(field) else {
            return Ok(Vec::new());
        };
        self.searchable(path, kind)?;
        let mut out = Vec::new();
        for value in row.fields().values(path) {
            match value {
                FieldValue::Text(text) => match &kind.analyzer {
                    Some(analyzer) => out.extend(analyzer.analyze(text).iter().map(|token| token.term.clone())),
                    None => out.push(text.clone()),
                },
                FieldValue::Keyword(text) | FieldValue::Join { name: text, .. } => out.push(text.clone()),
                _ => return Err(self.refuse(format!(
                    "Can only use prefix queries on keyword, text and wildcard fields - not on [{field}] which is of type [{}]",
                    kind.wire()
                ))),
            }
        }
        Ok(out)
    }

    fn exists(self, field: &str, row: Row<'_>) -> bool {
        if matches!(
            field,
            "_id" | "_index" | "_source" | "_seq_no" | "_version" | "_type" | "_primary_term"
        ) {
            return true;
        }
        let mapping = &self.entry.mapping;
        let mut paths = mapping.expand(field);
        paths.extend(mapping.resolve(field).map(|(path, _)| path.to_owned()));
        let objects: Vec<String> = std::iter::once(field)
            .filter(|path| mapping.is_object(path))
            .map(|path| format!("{path}."))
            .collect();
        row.fields()
            .0
            .iter()
            .any(|(path, _)| paths.iter().any(|p| **p == **path) || objects.iter().any(|start| path.starts_with(start)))
    }

    fn range(self, q: &RangeQuery, row: Row<'_>) -> Result<bool> {
        let Some((path, kind)) = self.entry.mapping.resolve(&q.field) else {
            return Ok(false);
        };
        self.searchable(path, kind)?;
        if [&q.gt, &q.gte, &q.lt, &q.lte].into_iter().all(is_open) {
            return Ok(self.exists(path, row));
        }
        let values: Vec<Scalar> = if kind.kind.is_text() {
            self.texts(path, row)?.into_iter().map(Scalar::Text).collect()
        } else {
            row.fields().values(path).filter_map(Scalar::of).collect()
        };
        type Holds = fn(Ordering) -> bool;
        let bounds: [(&Option<Value>, bool, Holds); 4] = [
            (&q.gt, true, Ordering::is_gt),
            (&q.gte, false, Ordering::is_ge),
            (&q.lt, false, Ordering::is_lt),
            (&q.lte, true, Ordering::is_le),
        ];
        let mut read = Vec::new();
        for (bound, round_up, holds) in bounds.into_iter().filter(|(bound, ..)| !is_open(bound)) {
            read.push((self.bound(q, kind, bound.as_ref().unwrap_or(&Value::Null), round_up)?, holds));
        }
        Ok(values
            .iter()
            .any(|value| read.iter().all(|(bound, holds)| value.compare(bound).is_some_and(holds))))
    }

    /// A bound of a range. An excluded lower and an included upper one are the last moment of what was said.
    fn bound(self, q: &RangeQuery, kind: &FieldType, value: &Value, round_up: bool) -> Result<Scalar> {
        if kind.kind.is_date() {
            let format = q.format.as_deref().map(model::date::DateFormat::parse_pattern).transpose()?;
            let zone = q.time_zone.as_deref().map(model::date::parse_zone).transpose()?;
            let usual = model::date::DateFormat::default();
            let format = format.as_ref().or(kind.format.as_ref()).unwrap_or(&usual);
            let ms = model::date::parse_math(&text_of(value), format, zone.as_ref(), self.now_ms, round_up)?;
            let nanos = i128::from(ms) * 1_000_000 + if round_up { 999_999 } else { 0 };
            return Ok(Scalar::Whole(if kind.kind == Kind::DateNanos {
                nanos
            } else {
                i128::from(ms)
            }));
        }
        if kind.kind.is_numeric() {
            let number = Scalar::number(value)?;
            let single = matches!(kind.kind, Kind::Float | Kind::HalfFloat);
            return Ok(match number {
                Scalar::Fraction(f) if single => Scalar::Fraction(f64::from(f as f32)),
                other => other,
            });
        }
        let refuse = || {
            self.refuse(format!(
                "Field [{}] of type [{}] does not support range queries",
                q.field,
                kind.wire()
            ))
        };
        kind.parse_term(value)?.as_ref().and_then(Scalar::of).ok_or_else(refuse)
    }

    fn searchable(self, path: &str, kind: &FieldType) -> Result<()> {
        if kind.index || kind.doc_values && !kind.kind.is_text() {
            return Ok(());
        }
        Err(self.refuse(format!("Cannot search on field [{path}] since it is not indexed.")))
    }

    fn refuse(self, reason: impl Into<String>) -> Error {
        Error::new(ErrorKind::QueryShard, reason)
            .with("index_uuid", self.entry.uuid.clone())
            .with("index", self.entry.name.as_str())
    }
}

/// A value that has an order.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scalar {
    Whole(i128),
    Fraction(f64),
    Text(String),
    Bytes([u8; 16]),
}

impl Scalar {
    /// The order of a field's values. Points and bytes have none.
    pub(super) fn of(value: &FieldValue) -> Option<Scalar> {
        Some(match value {
            FieldValue::Long(n) | FieldValue::Date(n) | FieldValue::DateNanos(n) => Scalar::Whole((*n).into()),
            FieldValue::UnsignedLong(n) => Scalar::Whole((*n).into()),
            FieldValue::Bool(flag) => Scalar::Whole((*flag).into()),
            FieldValue::Double(f) => Scalar::Fraction(*f),
            FieldValue::Text(text) | FieldValue::Keyword(text) | FieldValue::Join { name: text, .. } => {
                Scalar::Text(text.clone())
            }
            FieldValue::Ip(bytes) => Scalar::Bytes(*bytes),
            FieldValue::Geo { .. } | FieldValue::Range { .. } | FieldValue::Completion(_) | FieldValue::Binary(_) => return None,
        })
    }

    /// A number of a request, given as such or as text.
    pub(super) fn number(value: &Value) -> Result<Scalar> {
        let text = text_of(value);
        if let Ok(whole) = text.trim().parse::<i128>() {
            return Ok(Scalar::Whole(whole));
        }
        let refuse = |_| Error::no_number(&text);
        text.trim().parse::<f64>().map(Scalar::Fraction).map_err(refuse)
    }

    /// The order of two values of one field. Numbers compare as numbers, wherever they stand; texts by their bytes.
    pub(super) fn compare(&self, other: &Scalar) -> Option<Ordering> {
        match (self, other) {
            (Scalar::Whole(a), Scalar::Whole(b)) => Some(a.cmp(b)),
            (Scalar::Whole(a), Scalar::Fraction(b)) => (*a as f64).partial_cmp(b),
            (Scalar::Fraction(a), Scalar::Whole(b)) => a.partial_cmp(&(*b as f64)),
            (Scalar::Fraction(a), Scalar::Fraction(b)) => a.partial_cmp(b),
            (Scalar::Text(a), Scalar::Text(b)) => Some(a.cmp(b)),
            (Scalar::Bytes(a), Scalar::Bytes(b)) => Some(a.cmp(b)),
            _ => None,
        }
    }
}

/// Metadata fields of every document.
fn meta(doc: &Stored, field: &str) -> Option<Vec<String>> {
    Some(match field {
        "_id" => vec![doc.at.id.id.to_string()],
        "_uid" => vec![doc.at.id.uid().into_owned()],
        "_type" => vec![doc.at.id.doc_type.as_deref().unwrap_or("_doc").to_owned()],
        "_index" => vec![doc.at.index.as_str().to_owned()],
        "_routing" => doc.routing.clone().into_iter().collect(),
        "_parent" => doc.parent.clone().into_iter().collect(),
        _ => return None,
    })
}

fn is_open(bound: &Option<Value>) -> bool {
    bound.as_ref().is_none_or(Value::is_null)
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// `minimum_should_match`: a number or a percentage, negative ones counted from all.
fn least(text: &str, count: usize) -> Result<usize> {
    let refuse = || super::unsupported_request(format!("the memory engine does not read the minimum_should_match [{text}]"));
    let total = i64::try_from(count).unwrap_or(i64::MAX);
    let number = match text.trim().strip_suffix('%') {
        Some(percent) => total * percent.trim().parse::<i64>().map_err(|_| refuse())? / 100,
        None => text.trim().parse().map_err(|_| refuse())?,
    };
    Ok(usize::try_from(if number < 0 || text.trim().starts_with('-') {
        total + number
    } else {
        number
    })
    .unwrap_or(0))
}
