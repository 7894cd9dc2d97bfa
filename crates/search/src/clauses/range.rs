//! `range`: numbers, dates with math and rounding, addresses, strings.

use super::Planner;
use crate::fields::target::{Target, date_text, query_shard, text_of};
use crate::scorers::column_range::column_range;
use crate::scorers::constant::NoScorer;
use crate::scorers::filter::FilterNode;
use crate::scorers::kept_filter::KeptFilter;
use crate::scorers::match_all::AllNode;
use crate::scorers::node::Shared;
use crate::scorers::range_ends::RangeEnds;
use crate::scorers::term_set::union_of_terms;
use dsl::query::RangeQuery;
use mapping::{FieldValue, Kind};
use model::date::{DateFormat, PatternSyntax};
use model::{Error, Result};
use segment::error::broken;
use segment::filter_cache::FilterKey;
use segment::open_columns;
use segment::segment_view::SegmentView;
use serde_json::Value;
use std::net::Ipv6Addr;
use std::sync::Arc;
use tantivy::columnar::{Column, DynamicColumn, HasAssociatedColumnType, MonotonicallyMappableToU64};
use tantivy::query::Scorer;

/// From here on a number is nearer to 2^16 than to the last half float, 65504.
const HALF_FLOAT_END: f64 = 65_520.0;

/// A bound, for explanations.
fn bound_text(bound: Option<&FieldValue>) -> String {
    match bound {
        None | Some(FieldValue::Long(i64::MIN | i64::MAX) | FieldValue::Date(i64::MIN | i64::MAX)) => "*".to_owned(),
        Some(FieldValue::Long(n) | FieldValue::Date(n) | FieldValue::DateNanos(n)) => n.to_string(),
        Some(FieldValue::UnsignedLong(n)) => n.to_string(),
        Some(FieldValue::Double(n)) if n.is_infinite() => "*".to_owned(),
        Some(FieldValue::Double(n)) => format!("{n:?}"),
        Some(FieldValue::Bool(b)) => b.to_string(),
        Some(FieldValue::Keyword(text) | FieldValue::Text(text)) => text.clone(),
        Some(other) => format!("{other:?}"),
    }
}

/// A bound of a request, for explanations.
fn bound_json(bound: Option<&Value>) -> String {
    bound.map_or_else(|| "*".to_owned(), text_of)
}

/// Both ends of a range: the value, and whether it belongs to the range.
type Ends<'v> = (Option<&'v Value>, bool, Option<&'v Value>, bool);

impl Planner<'_> {
    pub(super) fn range(&self, q: &RangeQuery, boost: f32) -> Result<Shared> {
        if let Some(node) = self.meta_range(q, boost)? {
            return Ok(node);
        }
        let Some(target) = Target::of(self.view, &q.field) else {
            return Ok(self.nothing(format!("unmapped field [{}]", q.field)));
        };
        if q.gt.is_none() && q.gte.is_none() && q.lt.is_none() && q.lte.is_none() && !target.has_string_terms() {
            return self.exists(&q.field, boost);
        }
        let (low, low_in) = bound(&q.gt, &q.gte);
        let (high, high_in) = bound(&q.lt, &q.lte);
        let kind = target.kind.kind;
        if kind.is_range() {
            return self.range_of_ranges(&target, q, boost);
        }
        if kind.is_date() {
            return self.date_range(&target, q, (low, low_in), (high, high_in), boost);
        }
        // Today's zone is for dates and says nothing about other values.
        if self.view.rules().zones_are_for_dates && q.time_zone.as_deref().is_some_and(|zone| !zone.is_empty()) {
            return Err(query_shard(
                self.view,
                format!(
                    "Field [{}] of type [{}] does not support custom time zones",
                    q.field,
                    target.kind.wire()
                ),
            ));
        }
        let ends = (low, low_in, high, high_in);
        if kind == Kind::Ip {
            return self.address_range(&target, ends, boost);
        }
        if kind.is_integer() {
            return self.integer_range(&target, ends, boost);
        }
        if kind.is_float() {
            return self.float_range(&target, ends, boost);
        }
        if target.has_string_terms() {
            if !self.is_column_of_keywords(&target) {
                self.check_terms(&target)?;
            }
            let text = |v: &Value| self.query_text(&target, &text_of(v));
            return Ok(self.text_range(
                &target,
                low.map(text).map(|t| (t, low_in)),
                high.map(text).map(|t| (t, high_in)),
                boost,
            ));
        }
        if kind == Kind::Boolean {
            return self.boolean_range(&target, ends, boost);
        }
        Err(query_shard(
            self.view,
            format!(
                "Field [{}] of type [{}] does not support range queries",
                q.field,
                target.kind.wire()
            ),
        ))
    }

    fn address_range(&self, target: &Target<'_>, (low, low_in, high, high_in): Ends<'_>, boost: f32) -> Result<Shared> {
        let address = |v: &Value| -> Result<u128> {
            match target.kind.parse_term(v)? {
                Some(FieldValue::Ip(bytes)) => Ok(u128::from_be_bytes(bytes)),
                _ => Err(Error::illegal(format!("'{}' is not an IP string literal.", text_of(v)))),
            }
        };
        let from = low.map_or(Ok(0), address)?;
        let to = high.map_or(Ok(u128::MAX), address)?;
        let from = if low_in { Some(from) } else { from.checked_add(1) };
        let to = if high_in { Some(to) } else { to.checked_sub(1) };
        Ok(match from.zip(to) {
            Some((from, to)) => self.ip_between(target, from, to, boost),
            None => self.nothing("empty range"),
        })
    }

    fn integer_range(&self, target: &Target<'_>, (low, low_in, high, high_in): Ends<'_>, boost: f32) -> Result<Shared> {
        self.check_reach(target, low)?;
        self.check_reach(target, high)?;
        let wrong = |cause: Error| self.failed_to_create(cause);
        let empty = || Ok(self.nothing("empty range"));
        let Some(from) = low.map_or(Ok(Some(i128::MIN)), |v| whole(v, low_in, true)).map_err(wrong)? else {
            return empty();
        };
        let Some(to) = high
            .map_or(Ok(Some(i128::MAX)), |v| whole(v, high_in, false))
            .map_err(wrong)?
        else {
            return empty();
        };
        let (least, greatest) = match target.kind.kind {
            Kind::UnsignedLong => (0, i128::from(u64::MAX)),
            _ => (i128::from(i64::MIN), i128::from(i64::MAX)),
        };
        if from > to || to < least || from > greatest {
            return empty();
        }
        let value = |n: i128| match target.kind.kind {
            Kind::UnsignedLong => FieldValue::UnsignedLong(u64::try_from(n.clamp(least, greatest)).unwrap_or(0)),
            _ => FieldValue::Long(i64::try_from(n.clamp(least, greatest)).unwrap_or(0)),
        };
        self.number_range(target, Some(&value(from)), Some(&value(to)), boost)
    }

    fn float_range(&self, target: &Target<'_>, (low, low_in, high, high_in): Ends<'_>, boost: f32) -> Result<Shared> {
        let read = |v: &Value| -> Result<f64> {
            match v {
                Value::Number(n) => Ok(n.as_f64().unwrap_or(f64::NAN)),
                other => text_of(other)
                    .trim()
                    .parse()
                    .map_err(|_| self.failed_to_create(Error::no_number(&text_of(other)))),
            }
        };
        self.check_reach(target, low)?;
        self.check_reach(target, high)?;
        let single = matches!(target.kind.kind, Kind::Float | Kind::HalfFloat);
        let fit = |v: f64| if single { f64::from(v as f32) } else { v };
        let mut from = low.map_or(Ok(f64::NEG_INFINITY), read).map(fit)?;
        let mut to = high.map_or(Ok(f64::INFINITY), read).map(fit)?;
        if low.is_some() && !low_in {
            from = from.next_up();
        }
        if high.is_some() && !high_in {
            to = to.next_down();
        }
        self.number_range(target, Some(&FieldValue::Double(from)), Some(&FieldValue::Double(to)), boost)
    }

    /// `false` comes before `true`.
    fn boolean_range(&self, target: &Target<'_>, (low, low_in, high, high_in): Ends<'_>, boost: f32) -> Result<Shared> {
        let flag = |v: &Value| target.kind.parse_term(v);
        let from = low.map_or(Ok(None), flag)?.unwrap_or(FieldValue::Bool(false));
        let to = high.map_or(Ok(None), flag)?.unwrap_or(FieldValue::Bool(true));
        let from = match (from, low.is_some() && !low_in) {
            (FieldValue::Bool(true), true) => return Ok(self.nothing("no boolean is greater than true")),
            (FieldValue::Bool(false), true) => FieldValue::Bool(true),
            (from, _) => from,
        };
        let to = match (to, high.is_some() && !high_in) {
            (FieldValue::Bool(false), true) => return Ok(self.nothing("no boolean is less than false")),
            (FieldValue::Bool(true), true) => FieldValue::Bool(false),
            (to, _) => to,
        };
        if (&from, &to) == (&FieldValue::Bool(true), &FieldValue::Bool(false)) {
            return Ok(self.nothing("an empty range"));
        }
        self.number_range(target, Some(&from), Some(&to), boost)
    }

    /// A bound that the type cannot hold is refused where it is in the reference: of bytes, shorts and doubles it is
    /// a bound like any other.
    fn check_reach(&self, target: &Target<'_>, bound: Option<&Value>) -> Result<()> {
        let Some(value) = bound.filter(|_| !self.view.rules().tolerates_query_bounds) else {
            return Ok(());
        };
        let Ok(number) = text_of(value).trim().parse::<f64>() else {
            return Ok(());
        };
        let held = match target.kind.kind {
            Kind::Integer => !(number < f64::from(i32::MIN) || number > f64::from(i32::MAX)),
            // The first double beyond a long is the least that none holds.
            Kind::Long => match text_of(value).trim().parse::<i128>() {
                Ok(whole) => i64::try_from(whole).is_ok(),
                Err(_) => number.is_nan() || (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&number),
            },
            Kind::Float => (number as f32).is_finite(),
            Kind::HalfFloat => number.abs() < HALF_FLOAT_END,
            _ => true,
        };
        if held {
            return Ok(());
        }
        let reason = match target.kind.kind {
            Kind::Integer => format!("Value [{}] is out of range for an integer", text_of(value)),
            Kind::Long => format!("Value [{}] is out of range for a long", text_of(value)),
            kind => {
                let name = if kind == Kind::Float { "float" } else { "half_float" };
                let seen = if number.is_nan() {
                    "NaN".to_owned()
                } else {
                    format!("{number:?}")
                };
                format!("[{name}] supports only finite values, but got [{seen}]")
            }
        };
        Err(self.failed_to_create(Error::illegal(reason)))
    }

    fn date_range(
        &self,
        target: &Target<'_>,
        q: &RangeQuery,
        (low, low_in): (Option<&Value>, bool),
        (high, high_in): (Option<&Value>, bool),
        boost: f32,
    ) -> Result<Shared> {
        let (from, to) = self.date_ends(target.kind, q, (low, low_in), (high, high_in))?;
        self.number_range(target, Some(&FieldValue::Date(from)), Some(&FieldValue::Date(to)), boost)
    }

    /// The first and the last moment of a range of dates.
    fn date_ends(
        &self,
        kind: &mapping::FieldType,
        q: &RangeQuery,
        (low, low_in): (Option<&Value>, bool),
        (high, high_in): (Option<&Value>, bool),
    ) -> Result<(i64, i64)> {
        let format = q.format.as_deref();
        let format = format.map(|text| DateFormat::parse_pattern_of(text, PatternSyntax::of(self.view.rules().joda_patterns)));
        let format = format.transpose()?;
        let zone = q.time_zone.as_deref().map(model::date::parse_zone).transpose()?;
        let of_field = format.as_ref().or(kind.format.as_ref());
        let read = |v: &Value, round_up: bool| -> Result<i64> {
            if let Some(zone) = zone
                .as_ref()
                .filter(|_| !self.view.rules().epochs_ignore_zones && kind.kind == Kind::Date)
            {
                let default = model::date::DateFormat::default();
                if let Some(ms) = of_field.unwrap_or(&default).epoch_in(&date_text(v), zone, round_up) {
                    return Ok(ms);
                }
            }
            match self.date(
                kind,
                &if self.view.rules().coerces_query_values {
                    text_of(v)
                } else {
                    date_text(v)
                },
                round_up,
                format.as_ref(),
                zone.as_ref(),
            )? {
                FieldValue::Date(n) | FieldValue::DateNanos(n) => Ok(n),
                _ => Ok(0),
            }
        };
        // An excluded lower and an included upper bound are the last moment of what was said.
        let from = match low {
            None => i64::MIN,
            Some(v) => {
                let at = read(v, !low_in)?;
                if low_in { at } else { at.saturating_add(1) }
            }
        };
        let to = match high {
            None => i64::MAX,
            Some(v) => {
                let at = read(v, high_in)?;
                if high_in { at } else { at.saturating_sub(1) }
            }
        };
        Ok((from, to))
    }

    /// Documents with a range that meets, lies in, or holds that of the query.
    fn range_of_ranges(&self, target: &Target<'_>, q: &RangeQuery, boost: f32) -> Result<Shared> {
        let kind = target.kind.kind;
        let (Some(name), Some((_, upper))) = (target.slot.column.clone(), target.slot.second.clone()) else {
            return Ok(self.nothing(format!("no ranges in [{}]", target.path)));
        };
        let element = target.kind.of_ends();
        let ((low, low_in), (high, high_in)) = (bound(&q.gt, &q.gte), bound(&q.lt, &q.lte));
        let (least, most) = kind.range_limits();
        let (from, to) = if kind == Kind::DateRange {
            let (from, to) = self.date_ends(&element, q, (low, low_in), (high, high_in))?;
            let key = |at: i64| FieldValue::Date(at).range_key().unwrap_or_default();
            (key(from), key(to))
        } else {
            let end = |value: Option<&Value>, included: bool, open: u128, up: bool| -> Result<u128> {
                let Some(value) = value else { return Ok(open) };
                let key = element.parse_term(value)?.and_then(|v| v.range_key());
                let key = key.ok_or_else(|| query_shard(self.view, format!("[{}] is no end of a range", text_of(value))))?;
                Ok(if included { key } else { kind.next_range_key(key, up) })
            };
            (end(low, low_in, least, true)?, end(high, high_in, most, false)?)
        };
        if from > to {
            return Ok(self.nothing("empty range"));
        }
        let relation = q.relation.as_deref().unwrap_or("intersects").to_ascii_lowercase();
        let end = Ipv6Addr::from_bits;
        let (first, last) = (end(0), end(u128::MAX));
        let wanted = match relation.as_str() {
            "within" => [end(from)..=last, first..=end(to)],
            "contains" => [first..=end(from), end(to)..=last],
            _ => [first..=end(to), end(from)..=last],
        };
        let what = format!("{}:{relation} [{} TO {}]", target.path, bound_json(low), bound_json(high));
        Ok(Arc::new(FilterNode {
            boost,
            what,
            docs: move |segment: &SegmentView| -> Result<Box<dyn Scorer>> {
                let lows = open_columns::values::<Ipv6Addr>(segment, &name)?;
                let highs = open_columns::values::<Ipv6Addr>(segment, &upper)?;
                let (Some(lows), Some(highs)) = (lows, highs) else {
                    return Ok(Box::new(NoScorer));
                };
                let ends = RangeEnds {
                    columns: [lows, highs],
                    wanted: wanted.clone(),
                };
                Ok(ends.into_scorer())
            },
        }))
    }

    /// Documents with a number between two, both included.
    pub(super) fn number_range(
        &self,
        target: &Target<'_>,
        low: Option<&FieldValue>,
        high: Option<&FieldValue>,
        boost: f32,
    ) -> Result<Shared> {
        let Some(name) = target.slot.column.clone() else {
            return self.term_range(target, low, high, boost);
        };
        let what = format!("{}:[{} TO {}]", target.path, bound_text(low), bound_text(high));
        if let Some(field) = target.kind.tree {
            let whole = |value: Option<&FieldValue>, open: i64| match value {
                Some(FieldValue::Long(n)) => *n,
                _ => open,
            };
            let range = whole(low, i64::MIN)..=whole(high, i64::MAX);
            let is_in = |text: &str| text.parse().is_ok_and(|depth: i64| range.contains(&depth));
            return Ok(self.in_directories(target, field, &is_in, boost, what));
        }
        let whole = |v: Option<&FieldValue>, default: i64| match v {
            Some(FieldValue::Long(n) | FieldValue::Date(n) | FieldValue::DateNanos(n)) => *n,
            _ => default,
        };
        Ok(match target.kind.kind {
            Kind::UnsignedLong => {
                let n = |v: Option<&FieldValue>, default| {
                    if let Some(FieldValue::UnsignedLong(n)) = v {
                        *n
                    } else {
                        default
                    }
                };
                self.scan_column(name, (n(low, 0), n(high, u64::MAX)), boost, what)
            }
            kind if kind.is_integer() || kind.is_date() => {
                self.scan_column(name, (whole(low, i64::MIN), whole(high, i64::MAX)), boost, what)
            }
            kind if kind.is_float() => {
                let n = |v: Option<&FieldValue>, default| if let Some(FieldValue::Double(n)) = v { *n } else { default };
                self.scan_column(name, (n(low, f64::NEG_INFINITY), n(high, f64::INFINITY)), boost, what)
            }
            Kind::Boolean => {
                let n = |v: Option<&FieldValue>, default| if let Some(FieldValue::Bool(b)) = v { *b } else { default };
                self.scan_column(name, (n(low, false), n(high, true)), boost, what)
            }
            _ => self.exists(target.path, boost)?,
        })
    }

    /// Documents with a value of a column between two, both included.
    fn scan_column<T>(&self, name: String, (low, high): (T, T), boost: f32, what: String) -> Shared
    where
        T: HasAssociatedColumnType + MonotonicallyMappableToU64,
        DynamicColumn: Into<Option<Column<T>>>,
    {
        if low > high {
            return self.nothing("empty range");
        }
        let key = FilterKey::Range {
            column: name.as_str().into(),
            low: low.to_u64(),
            high: high.to_u64(),
        };
        let inner = Arc::new(FilterNode {
            boost,
            what,
            docs: move |segment: &SegmentView| -> Result<Box<dyn Scorer>> {
                let column = open_columns::values::<T>(segment, &name)?;
                Ok(match column {
                    Some(column) => column_range(segment, &name, column, low, high)?,
                    None => Box::new(NoScorer),
                })
            },
        });
        Arc::new(KeptFilter {
            inner,
            key,
            filters: self.view.filters.clone(),
            boost,
        })
    }

    /// As [`Planner::number_range`] through the terms of a field without a column.
    fn term_range(&self, target: &Target<'_>, low: Option<&FieldValue>, high: Option<&FieldValue>, boost: f32) -> Result<Shared> {
        let key = |v: Option<&FieldValue>| v.and_then(|v| target.term(v)).map(|t| t.serialized_value_bytes().to_vec());
        let (low, high) = (key(low), key(high));
        Ok(self.keys_between(target, low.map(|k| (k, true)), high.map(|k| (k, true)), boost, "range".into()))
    }

    fn text_range(&self, target: &Target<'_>, low: Option<(String, bool)>, high: Option<(String, bool)>, boost: f32) -> Shared {
        if low.is_none() && high.is_none() {
            return self.exists(target.path, boost).unwrap_or_else(|_| Arc::new(AllNode(boost)));
        }
        let bound = |b: &Option<(String, bool)>| b.as_ref().map_or("*".to_owned(), |(text, _)| text.clone());
        let (open, close) = (
            if low.as_ref().is_some_and(|l| !l.1) { '{' } else { '[' },
            if high.as_ref().is_some_and(|h| !h.1) { '}' } else { ']' },
        );
        let what = format!("{}:{open}{} TO {}{close}", target.path, bound(&low), bound(&high));
        if self.is_column_of_keywords(target) {
            return self.texts_between(target, low, high, boost, what);
        }
        let bytes = |b: Option<(String, bool)>| b.map(|(t, included)| (t.into_bytes(), included));
        self.keys_between(target, bytes(low), bytes(high), boost, what)
    }

    fn keys_between(
        &self,
        target: &Target<'_>,
        low: Option<(Vec<u8>, bool)>,
        high: Option<(Vec<u8>, bool)>,
        boost: f32,
        what: String,
    ) -> Shared {
        let field = target.slot.field;
        Arc::new(FilterNode {
            boost,
            what,
            docs: move |segment: &SegmentView| {
                let index = segment.reader.inverted_index(field).map_err(broken)?;
                let mut range = index.terms().range();
                range = match &low {
                    Some((key, true)) => range.ge(key),
                    Some((key, false)) => range.gt(key),
                    None => range,
                };
                range = match &high {
                    Some((key, true)) => range.le(key),
                    Some((key, false)) => range.lt(key),
                    None => range,
                };
                union_of_terms(segment, &index, range.into_stream().map_err(broken)?)
            },
        })
    }
}

/// The bound that was given, and whether it is included.
fn bound<'a>(without: &'a Option<Value>, with: &'a Option<Value>) -> (Option<&'a Value>, bool) {
    match (without, with) {
        (Some(v), _) if !v.is_null() => (Some(v), false),
        (_, Some(v)) if !v.is_null() => (Some(v), true),
        _ => (None, true),
    }
}

/// A bound as the nearest whole number inside it; `None` if it is not a number that can be.
fn whole(value: &Value, included: bool, low: bool) -> Result<Option<i128>> {
    let text = text_of(value);
    let text = text.trim();
    let step = i128::from(!included);
    if let Ok(n) = text.parse::<i128>() {
        return Ok(Some(if low { n.saturating_add(step) } else { n.saturating_sub(step) }));
    }
    let number: f64 = text.parse().map_err(|_| Error::no_number(text))?;
    if number.is_nan() {
        return Ok(None);
    }
    let whole = number.fract() == 0.0;
    let near = if low { number.ceil() } else { number.floor() } as i128;
    Ok(Some(if !whole || included {
        near
    } else if low {
        near.saturating_add(1)
    } else {
        near.saturating_sub(1)
    }))
}
