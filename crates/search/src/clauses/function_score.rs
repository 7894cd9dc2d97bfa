//! `function_score`: its functions, their filters and fields.

use super::Planner;
use crate::context::Context;
use crate::fields::field_data::refuse_text;
use crate::fields::geo_distance;
use crate::fields::target::{Target, date_text, query_shard, text_of};
use crate::hashes;
use crate::scorers::function_score::{Compute, Field, FunctionNode, OneFunction, RandomSource};
use crate::scorers::node::Shared;
use crate::scripts::Script;
use dsl::query::script_source::ScriptSource;
use dsl::query::{BoostMode, Function, FunctionScoreQuery, ScoreMode, metres};
use mapping::{FieldType, FieldValue, Kind};
use model::text::java_hash;
use model::{Error, ErrorKind, Result};
use serde_json::Value;
use std::sync::Arc;

/// A script, for explanations.
pub(super) fn script_text(script: &ScriptSource) -> String {
    format!("script score function, computed with script:{}", script.render())
}

/// A function, for explanations.
fn function_text(function: &Function) -> String {
    match function {
        Function::Weight => "constant score 1.0 - no function provided".to_owned(),
        Function::Script(source) => script_text(source),
        Function::FieldValueFactor {
            field,
            factor,
            modifier,
            missing,
        } => {
            let missing = missing.map_or_else(String::new, |m| format!("?:{m:?}"));
            let modifier = format!("{modifier:?}").to_lowercase();
            format!("field value function: {modifier}(doc['{field}'].value{missing} * factor={factor:?})")
        }
        Function::RandomScore { seed, field } => {
            let seed = seed.as_ref().map_or_else(|| "none".to_owned(), text_of);
            let field = field.as_deref().map_or_else(String::new, |f| format!(", field: {f}"));
            format!("random score function (seed: {seed}{field})")
        }
        Function::Decay {
            kind,
            field,
            origin,
            scale,
            offset,
            decay,
            ..
        } => {
            let text = |v: Option<&Value>| v.map_or_else(|| "none".to_owned(), text_of);
            format!(
                "Function for field {field}: {} of the distance from {}, scale {}, offset {}, decay {decay:?}",
                format!("{kind:?}").to_lowercase(),
                text(origin.as_ref()),
                text_of(scale),
                text(offset.as_ref()),
            )
        }
    }
}

impl Planner<'_> {
    pub(super) fn function_score(&self, q: &FunctionScoreQuery, boost: f32) -> Result<Shared> {
        let query = self.scoring(&q.query, boost)?;
        let mut functions = Vec::new();
        for f in &q.functions {
            let filter = f.filter.as_ref().map(|q| self.filtering(q)).transpose()?;
            functions.push(OneFunction {
                filter,
                weight: f.weight,
                compute: self.compute(&f.function, self.cx)?,
                what: function_text(&f.function),
                filter_what: f.filter.as_ref().map(|q| q.render().to_string()).unwrap_or_default(),
            });
        }
        Ok(Arc::new(FunctionNode {
            query,
            functions,
            // One function for all documents is not joined with anything.
            score_mode: match q.functions.as_slice() {
                [one]
                    if one
                        .filter
                        .as_ref()
                        .is_none_or(|filter| filter.clause == dsl::query::Clause::MatchAll) =>
                {
                    ScoreMode::Sum
                }
                _ => q.score_mode,
            },
            // Without functions there is nothing to take the query's place.
            boost_mode: match q.functions.is_empty() {
                true => BoostMode::Multiply,
                false => q.boost_mode,
            },
            max_boost: q.max_boost.unwrap_or(f32::MAX),
            min_score: q.min_score,
            failure: self.failure(),
            level: self.level(),
            least: match self.view.rules().allows_negative_scores {
                true => f64::NEG_INFINITY,
                false => 0.0,
            },
        }))
    }

    /// A factor is a number: words have none.
    fn refuse_other_than_numbers(&self, path: &str, kind: &FieldType) -> Result<()> {
        let numeric = kind.kind.is_numeric() || kind.kind.is_date() || kind.kind == Kind::Boolean;
        if numeric {
            return Ok(());
        }
        if let Some(target) = Target::of(self.view, path) {
            refuse_text(&target, path).map_err(|cause| self.failed_to_create(cause))?;
        }
        let reason = format!(
            "field [{path}] of type [{}] has no numbers for a field value factor",
            kind.wire()
        );
        Err(self.failed_to_create(Error::illegal(reason)))
    }

    fn compute(&self, function: &Function, cx: &Context<'_>) -> Result<Compute> {
        match function {
            Function::Weight => Ok(Compute::Weight),
            Function::Script(source) => Ok(Compute::Script(Script::new(self.view, source, cx)?)),
            Function::FieldValueFactor {
                field,
                factor,
                modifier,
                missing,
            } => {
                let found = self.function_field(field);
                if let Some(found) = found.as_ref().filter(|_| !self.view.rules().tolerates_unfit_fields) {
                    self.refuse_other_than_numbers(&found.path, &found.kind)?;
                }
                if found.is_none() && missing.is_none() {
                    return Err(query_shard(
                        self.view,
                        format!("Unable to find a field mapper for field [{field}]. No 'missing' value defined."),
                    ));
                }
                Ok(Compute::Value {
                    field: found,
                    name: field.clone(),
                    factor: f64::from(*factor),
                    modifier: *modifier,
                    missing: *missing,
                })
            }
            Function::RandomScore { seed, field } => {
                let seed = seed.as_ref().filter(|seed| !seed.is_null());
                Ok(Compute::Random {
                    source: self.random_source(field.as_deref(), seed.is_some())?,
                    seed: self.random_seed(seed, cx),
                })
            }
            Function::Decay {
                kind,
                field,
                origin,
                scale,
                offset,
                decay,
                multi_value_mode,
            } => {
                let field = self.decay_field(field)?;
                let offset = offset.clone().unwrap_or(Value::from(0));
                let curve = match field.kind.kind {
                    kind if kind.is_date() => self.decay_over_dates(&field.kind, origin.as_ref(), scale, &offset)?,
                    Kind::GeoPoint => self.decay_over_places(&field.kind, origin.as_ref(), scale, &offset)?,
                    _ => decay_over_numbers(origin.as_ref(), scale, &offset)?,
                };
                Ok(Compute::Decay {
                    far: geo_distance::far(true, self.view.rules()),
                    field,
                    kind: *kind,
                    origin: curve.origin,
                    scale: curve.scale,
                    offset: curve.offset,
                    decay: *decay,
                    mode: *multi_value_mode,
                })
            }
        }
    }

    fn function_field(&self, path: &str) -> Option<Field> {
        Target::of(self.view, path).map(|target| Field {
            path: target.path.to_owned(),
            slot: target.slot.clone(),
            kind: target.kind.clone(),
            tree: target.tree.clone(),
        })
    }

    /// The seed as Lucene's servers mix it: with the hash of the index and the number of the shard, which is 0.
    fn random_seed(&self, seed: Option<&Value>, cx: &Context<'_>) -> u32 {
        let salt = java_hash(self.view.name.as_str()) << 10;
        let number = match seed {
            None => hashes::long_hash(cx.now_ms),
            Some(Value::Number(n)) => match n.as_i64() {
                Some(n) => i32::try_from(n).map_or_else(|_| hashes::long_hash(n), i32::cast_unsigned),
                None => java_hash(&n.to_string()),
            },
            Some(text) => java_hash(&text_of(text)),
        };
        hashes::mix32(number ^ salt)
    }

    /// The value of a document that its random number is drawn from.
    fn random_source(&self, path: Option<&str>, seeded: bool) -> Result<RandomSource> {
        let path = match path {
            None if !seeded => return Ok(RandomSource::Place),
            None | Some("_id") => return Ok(RandomSource::Id),
            Some("_seq_no") => return Ok(RandomSource::SeqNo),
            Some(path) => path,
        };
        let Some(target) = Target::of(self.view, path) else {
            return Err(Error::illegal(format!(
                "Field [{path}] is not mapped on [{}] and cannot be used as a source of random numbers.",
                self.view.name
            )));
        };
        refuse_text(&target, path).map_err(|cause| self.failed_to_create(cause))?;
        Ok(self
            .function_field(path)
            .map_or(RandomSource::Id, |field| RandomSource::Field(Box::new(field))))
    }

    /// # Errors
    /// The field does not exist, or has neither numbers nor dates nor places.
    fn decay_field(&self, path: &str) -> Result<Field> {
        let Some(field) = self.function_field(path) else {
            return Err(query_shard(self.view, format!("unknown field [{path}]")));
        };
        let kind = field.kind.kind;
        if kind.is_date() || kind == Kind::GeoPoint || kind.is_numeric() {
            return Ok(field);
        }
        Err(query_shard(
            self.view,
            format!(
                "field [{path}] is of type [{}], but only numeric types are supported.",
                field.kind.wire()
            ),
        ))
    }

    fn decay_over_dates(&self, kind: &FieldType, origin: Option<&Value>, scale: &Value, offset: &Value) -> Result<DecayCurve> {
        let rules = self.view.rules();
        let text = if rules.coerces_query_values { text_of } else { date_text };
        let moment = match self.date(kind, &origin.map_or_else(|| "now".to_owned(), text), false, None, None)? {
            FieldValue::Date(ms) => ms as f64,
            FieldValue::DateNanos(n) => n as f64,
            _ => 0.0,
        };
        let span = |value: &Value, name: &str| -> Result<f64> {
            let text = text_of(value);
            if let Ok(ms) = text.parse::<f64>()
                && (rules.decay_numbers_are_milliseconds || ms == 0.0)
            {
                return Ok(ms);
            }
            let span = model::units::parse_duration(&text, &format!("DecayFunctionParser.{name}"));
            Ok(span.map_err(|cause| self.failed_to_create(cause))?.as_millis() as f64)
        };
        Ok(DecayCurve {
            origin: (moment, 0.0),
            scale: span(scale, "scale")?,
            offset: span(offset, "offset")?,
        })
    }

    fn decay_over_places(&self, kind: &FieldType, origin: Option<&Value>, scale: &Value, offset: &Value) -> Result<DecayCurve> {
        let Some(origin) = origin else {
            return Err(query_shard(self.view, "origin and scale must be set for geo fields."));
        };
        Ok(DecayCurve {
            origin: match kind.parse_term(origin) {
                Ok(Some(FieldValue::Geo { lat, lon })) => (lat, lon),
                _ => place(origin)?,
            },
            scale: metres(&text_of(scale), "m")?,
            offset: metres(&text_of(offset), "m")?,
        })
    }
}

/// Where a decay begins and how wide it is: milliseconds for dates, degrees and metres for places.
struct DecayCurve {
    origin: (f64, f64),
    scale: f64,
    offset: f64,
}

fn decay_over_numbers(origin: Option<&Value>, scale: &Value, offset: &Value) -> Result<DecayCurve> {
    let number = |value: &Value| text_of(value).parse::<f64>().map_err(|_| Error::no_number(&text_of(value)));
    let Some(origin) = origin else {
        return Err(Error::new(
            ErrorKind::Parse,
            "both [scale] and [origin] must be set for numeric fields.",
        ));
    };
    Ok(DecayCurve {
        origin: (number(origin)?, 0.0),
        scale: number(scale)?,
        offset: number(offset)?,
    })
}

/// A place as `lat,lon`, `[lon, lat]` or `{lat, lon}`.
fn place(value: &Value) -> Result<(f64, f64)> {
    let number = |v: Option<&Value>| v.and_then(Value::as_f64);
    let found = match value {
        Value::Array(list) => number(list.get(1)).zip(number(list.first())),
        Value::Object(o) => number(o.get("lat")).zip(number(o.get("lon"))),
        other => {
            let text = text_of(other);
            let (lat, lon) = text.split_once(',').unwrap_or(("", ""));
            lat.trim().parse().ok().zip(lon.trim().parse().ok())
        }
    };
    found.ok_or_else(|| Error::new(ErrorKind::Parse, format!("failed to parse geo point [{value}]")))
}
