//! `function_score`: its functions, their filters and fields.

use super::Planner;
use crate::context::Context;
use crate::fields::geo_distance;
use crate::fields::target::{Target, date_text, text_of};
use crate::hashes;
use crate::scorers::function_score::{Compute, Field, FunctionNode, OneFunction, Source};
use crate::scorers::node::Shared;
use crate::scripts::Script;
use dsl::query::script_source::ScriptSource;
use dsl::query::{BoostMode, Function, FunctionScoreQuery, ScoreMode, metres};
use mapping::FieldType;
use model::text::java_hash;
use model::{Error, Result};
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
            let text = |v: Option<&serde_json::Value>| v.map_or_else(|| "none".to_owned(), text_of);
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
        }))
    }

    /// A factor is a number: words have none.
    fn refuse_other_than_numbers(&self, path: &str, kind: &FieldType) -> Result<()> {
        let numeric = kind.kind.is_numeric() || kind.kind.is_date() || kind.kind == mapping::Kind::Boolean;
        if numeric {
            return Ok(());
        }
        if let Some(target) = Target::of(self.view, path) {
            crate::fields::field_data::refuse_text(&target, path).map_err(|cause| self.failed_to_create(cause))?;
        }
        let reason = format!(
            "field [{path}] of type [{}] has no numbers for a field value factor",
            kind.wire()
        );
        Err(self.failed_to_create(Error::illegal(reason)))
    }

    fn compute(&self, function: &Function, cx: &Context<'_>) -> Result<Compute> {
        let field = |path: &str| {
            Target::of(self.view, path).map(|t| Field {
                path: t.path.to_owned(),
                slot: t.slot.clone(),
                kind: t.kind.clone(),
            })
        };
        Ok(match function {
            Function::Weight => Compute::Weight,
            Function::Script(source) => Compute::Script(Script::new(self.view, source, cx)?),
            Function::FieldValueFactor {
                field: path,
                factor,
                modifier,
                missing,
            } => {
                let found = field(path);
                if let Some(found) = found.as_ref().filter(|_| !self.view.typed) {
                    self.refuse_other_than_numbers(&found.path, &found.kind)?;
                }
                if found.is_none() && missing.is_none() {
                    return Err(crate::fields::target::query_shard(
                        self.view,
                        format!("Unable to find a field mapper for field [{path}]. No 'missing' value defined."),
                    ));
                }
                Compute::Value {
                    field: found,
                    name: path.clone(),
                    factor: f64::from(*factor),
                    modifier: *modifier,
                    missing: *missing,
                }
            }
            Function::RandomScore { seed, field: path } => {
                // The shard's number, 0, would stand in the lower bits.
                let salt = java_hash(self.view.name.as_str()) << 10;
                let number = match seed {
                    None | Some(serde_json::Value::Null) => hashes::long_hash(cx.now_ms),
                    Some(serde_json::Value::Number(n)) => match n.as_i64() {
                        Some(n) => i32::try_from(n).map_or_else(|_| hashes::long_hash(n), i32::cast_unsigned),
                        None => java_hash(&n.to_string()),
                    },
                    Some(text) => java_hash(&text_of(text)),
                };
                let source = match path.as_deref() {
                    None if matches!(seed, None | Some(serde_json::Value::Null)) => Source::Place,
                    None | Some("_id") => Source::Id,
                    Some("_seq_no") => Source::SeqNo,
                    Some(path) => match field(path) {
                        Some(found) => {
                            if let Some(target) = Target::of(self.view, path) {
                                crate::fields::field_data::refuse_text(&target, path)
                                    .map_err(|cause| self.failed_to_create(cause))?;
                            }
                            Source::Field(Box::new(found))
                        }
                        None => {
                            return Err(Error::illegal(format!(
                                "Field [{path}] is not mapped on [{}] and cannot be used as a source of random numbers.",
                                self.view.name
                            )));
                        }
                    },
                };
                Compute::Random {
                    seed: hashes::mix32(number ^ salt),
                    source,
                }
            }
            Function::Decay {
                kind,
                field: path,
                origin,
                scale,
                offset,
                decay,
                multi_value_mode,
            } => {
                let Some(found) = field(path) else {
                    return Err(crate::fields::target::query_shard(
                        self.view,
                        format!("unknown field [{path}]"),
                    ));
                };
                let fits =
                    found.kind.kind.is_date() || found.kind.kind == mapping::Kind::GeoPoint || found.kind.kind.is_numeric();
                if !fits {
                    return Err(crate::fields::target::query_shard(
                        self.view,
                        format!(
                            "field [{path}] is of type [{}], but only numeric types are supported.",
                            found.kind.wire()
                        ),
                    ));
                }
                let (mut at, reach, ahead);
                let offset = offset.clone().unwrap_or(serde_json::Value::from(0));
                if found.kind.kind.is_date() {
                    let text = origin
                        .as_ref()
                        .map_or_else(|| "now".to_owned(), if self.view.typed { text_of } else { date_text });
                    let date = match self.date(&found.kind, &text, false, None, None)? {
                        mapping::FieldValue::Date(ms) => ms as f64,
                        mapping::FieldValue::DateNanos(n) => n as f64,
                        _ => 0.0,
                    };
                    at = (date, 0.0);
                    let unit = |v: &serde_json::Value, name: &str| -> Result<f64> {
                        let text = text_of(v);
                        // 2015 took a number for milliseconds; a time of 0 needs no unit.
                        if let Ok(ms) = text.parse::<f64>()
                            && (self.view.typed || ms == 0.0)
                        {
                            return Ok(ms);
                        }
                        let span = model::units::parse_duration(&text, &format!("DecayFunctionParser.{name}"));
                        Ok(span.map_err(|cause| self.failed_to_create(cause))?.as_millis() as f64)
                    };
                    reach = unit(scale, "scale")?;
                    ahead = unit(&offset, "offset")?;
                } else if found.kind.kind == mapping::Kind::GeoPoint {
                    let Some(origin) = origin else {
                        return Err(crate::fields::target::query_shard(
                            self.view,
                            "origin and scale must be set for geo fields.",
                        ));
                    };
                    at = match found.kind.parse_term(origin) {
                        Ok(Some(mapping::FieldValue::Geo { lat, lon })) => (lat, lon),
                        _ => place(origin)?,
                    };
                    reach = metres(&text_of(scale), "m")?;
                    ahead = metres(&text_of(&offset), "m")?;
                } else {
                    let number = |v: &serde_json::Value| text_of(v).parse::<f64>().map_err(|_| Error::no_number(&text_of(v)));
                    let Some(origin) = origin else {
                        return Err(Error::new(
                            model::ErrorKind::Parse,
                            "both [scale] and [origin] must be set for numeric fields.",
                        ));
                    };
                    at = (number(origin)?, 0.0);
                    reach = number(scale)?;
                    ahead = number(&offset)?;
                }
                at.1 += 0.0;
                Compute::Decay {
                    far: geo_distance::far(true, self.view.typed),
                    field: found,
                    kind: *kind,
                    origin: at,
                    scale: reach,
                    offset: ahead,
                    decay: *decay,
                    mode: *multi_value_mode,
                }
            }
        })
    }
}

/// A place as `lat,lon`, `[lon, lat]` or `{lat, lon}`.
pub(crate) fn place(value: &serde_json::Value) -> Result<(f64, f64)> {
    let number = |v: Option<&serde_json::Value>| v.and_then(serde_json::Value::as_f64);
    let found = match value {
        serde_json::Value::Array(list) => number(list.get(1)).zip(number(list.first())),
        serde_json::Value::Object(o) => number(o.get("lat")).zip(number(o.get("lon"))),
        other => {
            let text = text_of(other);
            let (lat, lon) = text.split_once(',').unwrap_or(("", ""));
            lat.trim().parse().ok().zip(lon.trim().parse().ok())
        }
    };
    found.ok_or_else(|| Error::new(model::ErrorKind::Parse, format!("failed to parse geo point [{value}]")))
}
