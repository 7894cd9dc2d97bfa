//! `term`, and the terms that a value of a field stands for.

use super::Planner;
use crate::automata::regexp::Pattern;
use crate::fields::target::{Target, query_shard, text_of};
use crate::scorers::column_range::{address_range, column_range};
use crate::scorers::constant::NoScorer;
use crate::scorers::filter::FilterNode;
use crate::scorers::node::Shared;
use crate::scorers::similarity::FieldStatistics;
use crate::scorers::term::TermNode;
use crate::scorers::term_set::{union_of_infos, union_of_terms};
use dsl::query::TermQuery;
use mapping::{FieldValue, Kind};
use memchr::memmem::Finder;
use model::{Error, Result};
use segment::error::broken;
use segment::open_columns;
use segment::segment_view::SegmentView;
use serde_json::Value;
use std::sync::Arc;
use tantivy::Term;
use tantivy::query::Scorer;
use tantivy::schema::Field;

impl Planner<'_> {
    pub(super) fn term(&self, q: &TermQuery, boost: f32) -> Result<Shared> {
        if let Some(node) = self.meta_term(&q.field, &[&q.value], boost)? {
            return Ok(node);
        }
        let Some(target) = Target::of(self.view, &q.field) else {
            return Ok(self.nothing(format!("unmapped field [{}]", q.field)));
        };
        if q.case_insensitive && !target.has_string_terms() {
            let (path, wire) = (target.path, target.kind.wire());
            return Err(query_shard(
                self.view,
                format!("[{path}] field which is of type [{wire}], does not support case insensitive term queries"),
            ));
        }
        if q.case_insensitive {
            if !self.is_column_of_keywords(&target) {
                self.check_terms(&target)?;
            }
            let text = self.query_text(&target, &text_of(&q.value));
            let pattern = Pattern::literal(&text, true)?;
            return Ok(self.matching_terms(&target, pattern, boost, format!("{}:{text}", target.path)));
        }
        self.term_value(&target, &q.value, boost)
    }

    /// A keyword's text as the field normalizes it.
    pub(super) fn query_text(&self, target: &Target<'_>, text: &str) -> String {
        match &target.kind.normalizer {
            Some(normalizer) => normalizer.normalize(text),
            None => text.to_owned(),
        }
    }

    /// One exact value of a field.
    pub(super) fn term_value(&self, target: &Target<'_>, value: &Value, boost: f32) -> Result<Shared> {
        if target.kind.kind.is_range() {
            let of_value = dsl::query::RangeQuery {
                field: target.path.to_owned(),
                gte: Some(value.clone()),
                lte: Some(value.clone()),
                ..dsl::query::RangeQuery::default()
            };
            return self.range(&of_value, boost);
        }
        if target.kind.kind == Kind::Ip
            && let Some((low, high)) = network(&text_of(value))?
        {
            return Ok(self.ip_between(target, low, high, boost));
        }
        if target.kind.kind == Kind::Ip
            && self.by_column(target)
            && let Some(FieldValue::Ip(bytes)) = self.parse_term(target, value)?
        {
            let address = u128::from_be_bytes(bytes);
            return Ok(self.ip_between(target, address, address, boost));
        }
        if target.kind.kind.is_date() && value.is_string() && !self.view.rules().dates_are_moments {
            // A date may leave out parts: it stands for all of the time it names.
            let low = self.parse_term(target, value)?;
            let high = self.date(target.kind, &text_of(value), true, None, None)?;
            return self.number_range(target, low.as_ref(), Some(&high), boost);
        }
        let Some(value) = self.parse_term(target, value)? else {
            return Ok(self.nothing(format!("no value of [{}]", target.path)));
        };
        self.exact(target, &value, boost)
    }

    /// One typed value: strings and booleans are scored, numbers are not.
    pub(super) fn exact(&self, target: &Target<'_>, value: &FieldValue, boost: f32) -> Result<Shared> {
        let Some(term) = target.term(value) else {
            return Err(Error::illegal(format!(
                "Field [{}] of type [{}] does not support term queries",
                target.path,
                target.kind.wire()
            )));
        };
        match value {
            FieldValue::Keyword(text) if self.by_column(target) => Ok(self.ordinal_of(target, text, boost)),
            FieldValue::Bool(b) if self.by_column(target) => Ok(self.flag_of(target, *b, boost)),
            FieldValue::Text(text) | FieldValue::Keyword(text) => self.scored_term(target, term, text, boost),
            FieldValue::Join { name, .. } => self.scored_term(target, term, name, boost),
            FieldValue::Bool(b) => self.scored_term(target, term, if *b { "T" } else { "F" }, boost),
            _ => {
                if !target.kind.index {
                    return self.number_range(target, Some(value), Some(value), boost);
                }
                if self.classic() {
                    // Numbers were terms like others.
                    return self.scored_term(target, term, &value_text(value), boost);
                }
                Ok(self.filter(vec![term], boost, format!("{}:{:?}", target.path, value)))
            }
        }
    }

    /// Refuses a field that has no terms. In 2015 it matched nothing.
    pub(super) fn check_terms(&self, target: &Target<'_>) -> Result<()> {
        if target.kind.index || self.view.rules().ignores_columns {
            return Ok(());
        }
        let both = "both not indexed, and does not have doc_values enabled";
        let why = if target.kind.kind.is_text() { "not indexed" } else { both };
        let reason = format!(
            "failed to create query: Cannot search on field [{}] since it is {why}.",
            target.path
        );
        Err(crate::fields::target::query_shard(self.view, reason))
    }

    /// Documents with a string, from a column.
    fn ordinal_of(&self, target: &Target<'_>, text: &str, boost: f32) -> Shared {
        if let Some(field) = target.kind.tree {
            return self.in_directory(target, field, text, boost);
        }
        let name = target.slot.column.clone().unwrap_or_default();
        let (what, text) = (format!("{}:{text}", target.path), text.to_owned());
        Arc::new(FilterNode {
            boost,
            what,
            docs: move |segment: &SegmentView| -> Result<Box<dyn tantivy::query::Scorer>> {
                let column = open_columns::strings(segment, &name)?;
                let Some(column) = column else {
                    return Ok(Box::new(NoScorer));
                };
                let found = column.dictionary().term_ord(text.as_bytes());
                Ok(match found.map_err(broken)? {
                    Some(ord) => column_range(segment, &name, column.ords().clone(), ord, ord)?,
                    None => Box::new(crate::scorers::constant::NoScorer),
                })
            },
        })
    }

    /// Documents with a truth, from a column.
    fn flag_of(&self, target: &Target<'_>, flag: bool, boost: f32) -> Shared {
        let name = target.slot.column.clone().unwrap_or_default();
        Arc::new(FilterNode {
            boost,
            what: format!("{}:{flag}", target.path),
            docs: move |segment: &SegmentView| -> Result<Box<dyn tantivy::query::Scorer>> {
                let column = open_columns::values::<bool>(segment, &name)?;
                Ok(match column {
                    Some(column) => column_range(segment, &name, column, flag, flag)?,
                    None => Box::new(crate::scorers::constant::NoScorer),
                })
            },
        })
    }

    /// A term of a string field with BM25.
    pub(super) fn scored_term(&self, target: &Target<'_>, term: Term, text: &str, boost: f32) -> Result<Shared> {
        if self.is_column_of_keywords(target) {
            return Ok(self.ordinal_of(target, text, boost));
        }
        self.check_terms(target)?;
        let field = match self.classic() && !target.has_string_terms() {
            true => FieldStatistics { docs: 0, tokens: 0 },
            false => self.statistics.field(target)?,
        };
        let rarity = self.statistics.rarity(&term, text)?;
        // A word that no document has is still a part of a norm.
        if rarity.doc_freq == 0 && !self.classic() {
            return Ok(self.nothing(format!("no matching term [{}:{text}]", target.path)));
        }
        let norms = target.kind.kind.is_text();
        let boost = boost * target.kind.boost;
        Ok(Arc::new(TermNode {
            filters: self.view.filters.clone(),
            similarity: self.similarity(target, field, vec![rarity], boost),
            term,
            norms,
            what: format!("{}:{text}", target.path),
            of_roots: self.view.mapping.nested_path_of(target.path).is_none(),
        }))
    }
}

/// A number for explanations.
fn value_text(value: &FieldValue) -> String {
    match value {
        FieldValue::Long(n) | FieldValue::Date(n) | FieldValue::DateNanos(n) => n.to_string(),
        FieldValue::UnsignedLong(n) => n.to_string(),
        FieldValue::Double(n) => n.to_string(),
        other => format!("{other:?}"),
    }
}

/// A network such as `10.0.0.0/8` as its first and last address.
pub(super) fn network(text: &str) -> Result<Option<(u128, u128)>> {
    let Some((address, bits)) = text.split_once('/') else {
        return Ok(None);
    };
    let refuse = || Error::illegal(format!("'{text}' is not an IP string literal."));
    let address: std::net::IpAddr = address.parse().map_err(|_| refuse())?;
    let bits: u32 = bits.parse().map_err(|_| refuse())?;
    let (address, bits) = match address {
        std::net::IpAddr::V4(v4) if bits <= 32 => (u128::from(v4.to_ipv6_mapped()), bits + 96),
        std::net::IpAddr::V6(v6) if bits <= 128 => (u128::from(v6), bits),
        _ => return Err(refuse()),
    };
    let rest = if bits == 0 {
        u128::MAX
    } else {
        u128::MAX.checked_shr(bits).unwrap_or(0)
    };
    Ok(Some((address & !rest, address | rest)))
}

/// The documents of a segment with any term of a field that a pattern matches. `column` has the same terms.
///
/// A pattern that begins with a wildcard looks at every term. Then the column's dictionary is read: several times as fast as the inverted
/// index's transducer. The automaton runs on terms that contain the pattern's longest plain text.
pub(super) fn documents_of(
    segment: &SegmentView,
    field: Field,
    column: Option<&str>,
    pattern: &Pattern,
) -> Result<Box<dyn Scorer>> {
    let index = segment.reader.inverted_index(field).map_err(broken)?;
    let (Some(inside), Some(column)) = (pattern.text_inside(), column) else {
        let terms = index.terms().search(pattern).into_stream().map_err(broken)?;
        return union_of_terms(segment, &index, terms);
    };
    let Some(column) = open_columns::strings(segment, column)? else {
        return Ok(Box::new(NoScorer));
    };
    let inside = Finder::new(inside);
    let mut texts = column.dictionary().stream().map_err(broken)?;
    let next = || {
        while texts.advance() {
            if inside.find(texts.key()).is_none() || !pattern.matches_bytes(texts.key()) {
                continue;
            }
            let info = index.terms().get(texts.key()).map_err(broken).transpose();
            debug_assert!(info.is_some(), "a column of keywords has the terms of their inverted index");
            if info.is_some() {
                return info;
            }
        }
        None
    };
    union_of_infos(segment, &index, std::iter::from_fn(next))
}

impl Planner<'_> {
    /// The documents with any term that a pattern matches, with one score.
    pub(super) fn matching_terms(&self, target: &Target<'_>, pattern: Pattern, boost: f32, what: String) -> Shared {
        if self.is_column_of_keywords(target) {
            return self.texts_accepted(target, pattern, boost, what);
        }
        let field = target.slot.field;
        // A text's column has whole values, if there is one.
        let column = target.slot.column.clone().filter(|_| !target.kind.kind.is_text());
        Arc::new(FilterNode {
            boost,
            what,
            docs: move |segment: &SegmentView| documents_of(segment, field, column.as_deref(), &pattern),
        })
    }

    /// Documents with an address between two.
    pub(super) fn ip_between(&self, target: &Target<'_>, low: u128, high: u128, boost: f32) -> Shared {
        let Some(name) = target.slot.column.clone() else {
            return self.nothing("no column");
        };
        Arc::new(FilterNode {
            boost,
            what: format!("{}:[{low} TO {high}]", target.path),
            docs: move |segment: &SegmentView| -> Result<Box<dyn tantivy::query::Scorer>> {
                let Some(column) = open_columns::values::<std::net::Ipv6Addr>(segment, &name)? else {
                    return Ok(Box::new(NoScorer));
                };
                Ok(address_range(column, low.into(), high.into()))
            },
        })
    }
}
