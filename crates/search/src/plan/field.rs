//! What a path of a query leads to in one index.

use super::Planner;
use super::similarity::{Bm25, FieldStatistics, Rarity, Similarity};
use super::tfidf::Classic;
use mapping::{FieldType, FieldValue, Kind, Mapping};
use model::{Error, ErrorKind, Result};
use segment::schema::{IndexSchema, Slot};
use segment::searchable::IndexView;
use serde_json::Value;
use std::net::Ipv6Addr;
use tantivy::Term;

/// A field with where it is stored.
#[derive(Clone, Copy)]
pub struct Target<'a> {
    /// Its own path, aliases followed.
    pub path: &'a str,
    /// Its type.
    pub kind: &'a FieldType,
    /// Its places in segments.
    pub slot: &'a Slot,
}

impl<'a> Target<'a> {
    /// The field behind a path, if the index has it.
    pub fn of(view: &'a IndexView, path: &'a str) -> Option<Target<'a>> {
        let (path, kind) = view.mapping.resolve(path)?;
        let slot = view.schema.slot(path)?;
        Some(Target { path, kind, slot })
    }

    /// As [`Target::of`], for what reads values: `join_field#relation` has a column too, of parents' ids.
    pub fn valued(view: &'a IndexView, path: &'a str) -> Option<Target<'a>> {
        Target::value_in(&view.mapping, &view.schema, path)
    }

    /// The same, of a mapping and its schema.
    pub fn value_in(mapping: &'a Mapping, schema: &'a IndexSchema, path: &'a str) -> Option<Target<'a>> {
        if let Some((path, kind)) = mapping.resolve(path) {
            let slot = schema.slot(path)?;
            return Some(Target { path, kind, slot });
        }
        let (join, kind) = mapping.join_field()?;
        super::parent_ids::relation(path, join, kind)?;
        let slot = schema.slot(join)?;
        Some(Target { path, kind, slot })
    }

    /// Is it `join_field#relation`?
    pub fn is_relation(&self) -> bool {
        self.kind.kind == Kind::Join && self.path.contains('#')
    }

    /// The term for a whole string: a keyword, or a token of a text.
    pub fn text_term(&self, text: &str) -> Term {
        Term::from_field_text(self.slot.field, text)
    }

    /// The term for a typed value, where the field has terms for it.
    pub fn term(&self, value: &FieldValue) -> Option<Term> {
        let field = self.slot.field;
        Some(match value {
            FieldValue::Text(text) | FieldValue::Keyword(text) => self.text_term(text),
            FieldValue::Long(n) | FieldValue::Date(n) | FieldValue::DateNanos(n) => Term::from_field_i64(field, *n),
            FieldValue::UnsignedLong(n) => Term::from_field_u64(field, *n),
            FieldValue::Double(n) => Term::from_field_f64(field, *n),
            FieldValue::Bool(b) => Term::from_field_bool(field, *b),
            FieldValue::Ip(bytes) => Term::from_field_ip_addr(field, Ipv6Addr::from(*bytes)),
            FieldValue::Join { name, .. } => self.text_term(name),
            FieldValue::Geo { .. } | FieldValue::Range { .. } | FieldValue::Completion(_) | FieldValue::Binary(_) => return None,
        })
    }

    /// Terms are strings: text, keyword and their relatives.
    pub fn has_string_terms(&self) -> bool {
        self.kind.kind.is_text() || self.kind.kind.is_keyword() || self.kind.kind == Kind::Join
    }
}

/// A value of a query as text, as Elasticsearch turns numbers and booleans into terms.
pub fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A date of a query as text: a number with a fraction is what Java makes of it, which no format reads.
pub(super) fn date_text(value: &Value) -> String {
    match value {
        Value::Number(n) if n.is_f64() => {
            let n = n.as_f64().unwrap_or(f64::NAN);
            script::Value::Double(n).text()
        }
        other => text_of(other),
    }
}

/// An error about a query and the index it failed on.
pub(crate) fn query_shard(view: &IndexView, reason: impl Into<String>) -> Error {
    Error::new(ErrorKind::QueryShard, reason).with("index", view.name.as_str())
}

/// A number among the index settings.
pub fn setting(view: &IndexView, name: &str, default: usize) -> usize {
    match view.settings.get(name) {
        Some(Value::String(text)) => text.parse().unwrap_or(default),
        Some(Value::Number(n)) => n.as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or(default),
        _ => default,
    }
}

impl Planner<'_> {
    /// The factor of every BM25 score: as the index says, else as the dialect does.
    pub(super) fn bm25_factor(&self) -> f32 {
        match self
            .view
            .settings
            .get(model::settings::SIMILARITY_FACTOR.name)
            .and_then(Value::as_str)
        {
            Some("LegacyBM25") => 2.2,
            Some("BM25") => 1.0,
            _ => self.cx.bm25_factor,
        }
    }

    /// Typed indices score as 2015 did, unless they say otherwise.
    pub(super) fn classic(&self) -> bool {
        let setting = self.view.settings.get(model::settings::SIMILARITY_FACTOR.name);
        self.view.typed && !matches!(setting.and_then(Value::as_str), Some("BM25" | "LegacyBM25"))
    }

    /// The scoring of a term, a phrase or several terms in a field.
    pub(super) fn similarity(
        &self,
        target: &Target<'_>,
        field: FieldStatistics,
        rarities: Vec<Rarity>,
        boost: f32,
    ) -> Similarity {
        if matches!(target.kind.kind, Kind::MatchOnlyText | Kind::ConstantKeyword | Kind::Wildcard) {
            // They keep no frequencies and no lengths.
            return Similarity::Boolean(boost);
        }
        self.similarity_of(target.kind.similarity.as_deref(), field, rarities, boost)
    }

    /// What the mapping's `boost` gives to phrases and to words found by another one: today nothing, it is for terms.
    pub(super) fn boost_of_several(&self, target: &Target<'_>) -> f32 {
        if self.view.typed { target.kind.boost } else { 1.0 }
    }

    /// The same by the name that a field gives its similarity.
    pub(super) fn similarity_of(
        &self,
        name: Option<&str>,
        field: FieldStatistics,
        rarities: Vec<Rarity>,
        boost: f32,
    ) -> Similarity {
        match mapping::similarity::named(&self.view.settings, name) {
            Some(mapping::similarity::Similarity::Boolean) => Similarity::Boolean(boost),
            Some(mapping::similarity::Similarity::Bm25 { k1, b }) => {
                let legacy = self.bm25_factor() != 1.0;
                let factor = if legacy { k1 + 1.0 } else { 1.0 };
                Similarity::Bm25(Bm25::with(field, rarities, boost, factor, (k1, b)))
            }
            _ if self.classic() => {
                let docs = self.view.segments.iter().map(|s| u64::from(s.reader.max_doc())).sum();
                Similarity::Classic(Classic::new(docs, rarities, boost, self.query_norm.get()))
            }
            _ => Similarity::Bm25(Bm25::new(field, rarities, boost, self.bm25_factor())),
        }
    }

    /// A query's value in a field, with the error of the index around it.
    pub(super) fn parse_term(&self, target: &Target<'_>, value: &Value) -> Result<Option<FieldValue>> {
        let truth = |t: &str| serde_json::Value::from(!matches!(t, "F" | "false" | "0" | "off" | "no" | ""));
        let kind = target.kind.kind;
        let lenient = match value {
            Value::String(text) if self.view.typed && kind == Kind::Boolean => Some(truth(text)),
            Value::Number(number) if self.view.typed && kind == Kind::Boolean => Some((number.as_f64() != Some(0.0)).into()),
            // 2015 cut fractions off.
            Value::Number(number) if self.view.typed && kind.is_integer() && number.is_f64() => {
                number.as_f64().map(|n| Value::from(n.trunc() as i64))
            }
            _ => None,
        };
        let value = lenient.as_ref().unwrap_or(value);
        if let (Value::String(text), true) = (value, self.view.typed && kind.is_integer())
            && text.parse::<i64>().is_err()
        {
            let cause = Error::no_number(text);
            return Err(query_shard(self.view, format!("failed to create query: {}", cause.reason())).caused_by(cause));
        }
        let parsed = if target.kind.kind.is_date() && value.is_string() {
            self.date(target.kind, &text_of(value), false, None, None).map(Some)
        } else {
            target.kind.parse_term(value)
        };
        parsed.map_err(|cause| match cause.kind() {
            ErrorKind::NumberFormat if !self.view.typed => {
                let (path, kind) = (target.path, target.kind.kind.wire());
                let reason = format!("failed to create query: field [{path}] of type [{kind}]: {}", cause.reason());
                query_shard(self.view, reason).caused_by(cause)
            }
            _ => self.failed_to_create(cause),
        })
    }

    /// What went wrong with a value of a query, with the error of the index around it.
    pub(super) fn failed_to_create(&self, cause: Error) -> Error {
        let reason = format!("failed to create query: {}", cause.reason());
        query_shard(self.view, reason).caused_by(cause)
    }

    /// A date of a query in epoch milliseconds (nanoseconds in a `date_nanos` field).
    pub(super) fn date(
        &self,
        kind: &FieldType,
        text: &str,
        round_up: bool,
        format: Option<&model::date::DateFormat>,
        zone: Option<&jiff::tz::TimeZone>,
    ) -> Result<FieldValue> {
        let default = model::date::DateFormat::default();
        let format = format.or(kind.format.as_ref()).unwrap_or(&default);
        let now_ms = self.cx.now_ms;
        let found = match kind.kind {
            Kind::DateNanos => model::date::parse_math_nanos(text, format, zone, now_ms, round_up).map(FieldValue::DateNanos),
            _ => model::date::parse_math(text, format, zone, now_ms, round_up).map(FieldValue::Date),
        };
        found.map_err(|error| match (self.view.typed, error.cause()) {
            (true, _) => error,
            (false, Some(cause)) => {
                let cause = model::date::of_all_parsers(cause.clone());
                error.caused_by(cause)
            }
            (false, None) => model::date::of_all_parsers(error),
        })
    }
}
