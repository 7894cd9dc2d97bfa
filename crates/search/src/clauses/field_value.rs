//! Values of queries as values of fields.

use super::Planner;
use crate::fields::target::{Target, query_shard, text_of};
use mapping::{FieldType, FieldValue, Kind};
use model::{Error, ErrorKind, Result};
use serde_json::Value;

impl Planner<'_> {
    /// A query's value in a field, with the error of the index around it.
    pub(super) fn parse_term(&self, target: &Target<'_>, value: &Value) -> Result<Option<FieldValue>> {
        let truth = |t: &str| serde_json::Value::from(!matches!(t, "F" | "false" | "0" | "off" | "no" | ""));
        let kind = target.kind.kind;
        let lenient = match value {
            Value::String(text) if self.view.rules().coerces_query_values && kind == Kind::Boolean => Some(truth(text)),
            Value::Number(number) if self.view.rules().coerces_query_values && kind == Kind::Boolean => {
                Some((number.as_f64() != Some(0.0)).into())
            }
            // 2015 cut fractions off.
            Value::Number(number) if self.view.rules().coerces_query_values && kind.is_integer() && number.is_f64() => {
                number.as_f64().map(|n| Value::from(n.trunc() as i64))
            }
            _ => None,
        };
        let value = lenient.as_ref().unwrap_or(value);
        if let (Value::String(text), true) = (value, self.view.rules().refuses_in_former_words && kind.is_integer())
            && text.parse::<i64>().is_err()
        {
            let cause = Error::no_number(text);
            return Err(query_shard(self.view, format!("failed to create query: {}", cause.reason())).with_cause(cause));
        }
        let parsed = if target.kind.kind.is_date() && value.is_string() {
            self.date(target.kind, &text_of(value), false, None, None).map(Some)
        } else {
            target.kind.parse_term(value)
        };
        parsed.map_err(|cause| match cause.kind() {
            ErrorKind::NumberFormat if !self.view.rules().refuses_in_former_words => {
                let (path, kind) = (target.path, target.kind.kind.wire());
                let reason = format!("failed to create query: field [{path}] of type [{kind}]: {}", cause.reason());
                query_shard(self.view, reason).with_cause(cause)
            }
            _ => self.failed_to_create(cause),
        })
    }

    /// The refusal of a value, with the index in the error around it.
    pub(super) fn failed_to_create(&self, cause: Error) -> Error {
        let reason = format!("failed to create query: {}", cause.reason());
        query_shard(self.view, reason).with_cause(cause)
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
        found.map_err(|error| match (self.view.rules().refuses_in_former_words, error.cause()) {
            (true, _) => error,
            (false, Some(cause)) => {
                let cause = model::date::of_all_parsers(cause.clone());
                error.with_cause(cause)
            }
            (false, None) => model::date::of_all_parsers(error),
        })
    }
}
