//! `function_score` and `script_score`.

use super::boolean::Shared;
use super::columns::Column;
use super::combine::{rescored, scored_late, seek_to};
use super::explain::Explained;
use super::field::{Target, date_text, text_of};
use super::geo_distance::{self, Far};
use super::hashes;
use super::live_docs::Level;
use super::node::{Node, score_at};
use super::scripts::{Bound, Failure, Script};
use super::{Context, Planner};
use dsl::query::script_source::ScriptSource;
use dsl::query::{BoostMode, DecayKind, Function, FunctionScoreQuery, Modifier, MultiValueMode, Query, ScoreMode, metres};
use mapping::FieldType;
use model::text::java_hash;
use model::{Error, Result};
use segment::schema::Slot;
use segment::segment_view::SegmentView;
use std::sync::Arc;
use tantivy::query::Scorer;
use tantivy::{DocId, TERMINATED};

struct Field {
    path: String,
    slot: Slot,
    kind: FieldType,
}

impl Field {
    fn open(&self, segment: &SegmentView) -> Result<Option<Column>> {
        Column::open(
            segment,
            &Target {
                path: &self.path,
                kind: &self.kind,
                slot: &self.slot,
            },
        )
    }
}

enum Compute {
    Weight,
    Script(Script),
    Value {
        field: Option<Field>,
        name: String,
        factor: f64,
        modifier: Modifier,
        missing: Option<f64>,
    },
    Random {
        seed: u32,
        source: Source,
    },
    Decay {
        field: Field,
        far: Far,
        kind: DecayKind,
        origin: (f64, f64),
        scale: f64,
        offset: f64,
        decay: f64,
        mode: MultiValueMode,
    },
}

/// What a random score is drawn from, beside its seed.
enum Source {
    /// The document's place: another one after every write.
    Place,
    /// `_seq_no`.
    SeqNo,
    /// `_id`.
    Id,
    Field(Box<Field>),
}

enum Salt {
    Place(std::sync::Arc<segment::segment_view::SegmentCore>),
    SeqNo(std::sync::Arc<segment::segment_view::SegmentCore>),
    Values(Option<Column>),
}

struct OneFunction {
    filter: Option<Shared>,
    weight: Option<f32>,
    compute: Compute,
    /// For explanations: the function, and what it is restricted to.
    what: String,
    filter_what: String,
}

struct FunctionNode {
    query: Shared,
    functions: Vec<OneFunction>,
    score_mode: ScoreMode,
    boost_mode: BoostMode,
    max_boost: f32,
    min_score: Option<f32>,
    failure: Failure,
    level: Level,
}

enum Ready {
    Weight,
    Script(Bound),
    Value {
        column: Option<Column>,
        name: String,
        factor: f64,
        modifier: Modifier,
        missing: Option<f64>,
    },
    Random {
        seed: u32,
        source: Salt,
    },
    Decay {
        column: Option<Column>,
        far: Far,
        kind: DecayKind,
        origin: (f64, f64),
        scale: f64,
        offset: f64,
        decay: f64,
        mode: MultiValueMode,
    },
}

impl Ready {
    fn value(&self, doc: DocId, score: f32, buffer: &mut Vec<f64>) -> Result<f64> {
        Ok(match self {
            Ready::Weight => 1.0,
            Ready::Script(bound) => {
                let value = bound.number(doc, score)?;
                if value < 0.0 || value.is_nan() {
                    return Err(Error::illegal(format!(
                        "script_score script returned an invalid score [{value}]. Must be a non-negative score!"
                    )));
                }
                value
            }
            Ready::Value {
                column,
                name,
                factor,
                modifier,
                missing,
            } => {
                buffer.clear();
                if let Some(column) = column {
                    column.numbers(doc, buffer);
                }
                let value = match (buffer.iter().copied().reduce(f64::min), missing) {
                    (Some(value), _) => value,
                    (None, Some(missing)) => *missing,
                    (None, None) => {
                        return Err(
                            Error::new(model::ErrorKind::IllegalState, format!("Missing value for field [{name}]"))
                                .status_of(400),
                        );
                    }
                };
                let value = modify(*modifier, value * factor);
                if value.is_nan() || value < 0.0 {
                    return Err(Error::illegal(format!(
                        "field value function must not produce negative scores, but got: [{value:?}] for field value: [{:?}]",
                        value / factor.max(f64::MIN_POSITIVE)
                    )));
                }
                value
            }
            Ready::Random { seed, source } => {
                let hash = match source {
                    Salt::Place(core) => {
                        let place = core.stamp(doc).seq_no;
                        hashes::mix32(hashes::long_hash(i64::try_from(place).unwrap_or(0)) ^ seed)
                    }
                    Salt::SeqNo(core) => hashes::murmur3(core.stamp(doc).seq_no.to_string().as_bytes(), *seed),
                    Salt::Values(column) => match first_text(column.as_ref(), doc)? {
                        Some(text) => hashes::murmur3(text.as_bytes(), *seed),
                        None => *seed,
                    },
                };
                f64::from((hash & 0x00ff_ffff) as f32 / (1u32 << 24) as f32)
            }
            Ready::Decay {
                column,
                far,
                kind,
                origin,
                scale,
                offset,
                decay,
                mode,
            } => {
                let mut distances: Vec<f64> = match column {
                    Some(Column::Geo(lat, lon)) => lat
                        .values_for_doc(doc)
                        .zip(lon.values_for_doc(doc))
                        .map(|(lat, lon)| (far(*origin, (lat, lon)) - offset).max(0.0))
                        .collect(),
                    Some(column) => {
                        column.numbers(doc, buffer);
                        buffer.iter().map(|v| ((v - origin.0).abs() - offset).max(0.0)).collect()
                    }
                    None => Vec::new(),
                };
                // A document without the field is at no distance.
                let distance = pick(*mode, &mut distances).unwrap_or(0.0);
                match kind {
                    DecayKind::Gauss => (0.5 * distance * distance * decay.ln() * 2.0 / (scale * scale)).exp(),
                    DecayKind::Exp => (decay.ln() / scale * distance).exp(),
                    DecayKind::Linear => {
                        let reach = scale / (1.0 - decay);
                        ((reach - distance) / reach).max(0.0)
                    }
                }
            }
        })
    }
}

/// The first value of a document as text.
fn first_text(column: Option<&Column>, doc: DocId) -> Result<Option<String>> {
    use mapping::FieldValue as V;
    let Some(column) = column else { return Ok(None) };
    Ok(column.values(doc)?.into_iter().next().and_then(|value| match value {
        V::Long(n) | V::Date(n) | V::DateNanos(n) => Some(n.to_string()),
        V::UnsignedLong(n) => Some(n.to_string()),
        V::Double(n) => Some(format!("{n:?}")),
        V::Bool(b) => Some(u8::from(b).to_string()),
        V::Keyword(text) | V::Text(text) => Some(text),
        _ => None,
    }))
}

fn modify(modifier: Modifier, v: f64) -> f64 {
    match modifier {
        Modifier::None => v,
        Modifier::Log => v.log10(),
        Modifier::Log1p => (v + 1.0).log10(),
        Modifier::Log2p => (v + 2.0).log10(),
        Modifier::Ln => v.ln(),
        Modifier::Ln1p => v.ln_1p(),
        Modifier::Ln2p => (v + 2.0).ln(),
        Modifier::Square => v * v,
        Modifier::Sqrt => v.sqrt(),
        Modifier::Reciprocal => 1.0 / v,
    }
}

/// One of several values.
pub(crate) fn pick(mode: MultiValueMode, values: &mut [f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let count = values.len();
    Some(match mode {
        MultiValueMode::Min => values.iter().copied().fold(f64::INFINITY, f64::min),
        MultiValueMode::Max => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        MultiValueMode::Sum => values.iter().sum(),
        MultiValueMode::Avg => values.iter().sum::<f64>() / count as f64,
        MultiValueMode::Median => {
            values.sort_by(f64::total_cmp);
            if count % 2 == 1 {
                values[count / 2]
            } else {
                (values[count / 2 - 1] + values[count / 2]) / 2.0
            }
        }
    })
}

impl FunctionNode {
    fn open(&self, segment: &SegmentView) -> Result<Vec<(Option<Box<dyn Scorer>>, Option<f32>, Ready)>> {
        let mut out = Vec::new();
        for f in &self.functions {
            let filter = f.filter.as_ref().map(|n| n.scorer(segment)).transpose()?;
            let ready = match &f.compute {
                Compute::Weight => Ready::Weight,
                Compute::Script(script) => Ready::Script(script.open(segment)?),
                Compute::Value {
                    field,
                    name,
                    factor,
                    modifier,
                    missing,
                } => Ready::Value {
                    column: field.as_ref().map(|f| f.open(segment)).transpose()?.flatten(),
                    name: name.clone(),
                    factor: *factor,
                    modifier: *modifier,
                    missing: *missing,
                },
                Compute::Random { seed, source } => Ready::Random {
                    seed: *seed,
                    source: match source {
                        Source::Place => Salt::Place(segment.core.clone()),
                        Source::SeqNo => Salt::SeqNo(segment.core.clone()),
                        Source::Id => {
                            let ids = segment.reader.fast_fields().str("_id").map_err(super::node::broken)?;
                            Salt::Values(ids.map(Column::Str))
                        }
                        Source::Field(field) => Salt::Values(field.open(segment)?),
                    },
                },
                Compute::Decay {
                    field,
                    far,
                    kind,
                    origin,
                    scale,
                    offset,
                    decay,
                    mode,
                } => Ready::Decay {
                    column: field.open(segment)?,
                    far: *far,
                    kind: *kind,
                    origin: *origin,
                    scale: *scale,
                    offset: *offset,
                    decay: *decay,
                    mode: *mode,
                },
            };
            out.push((filter, f.weight, ready));
        }
        Ok(out)
    }
}

/// A script, for explanations.
fn script_text(script: &ScriptSource) -> String {
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

/// Several functions' values, each with its weight, as one.
fn joined(mode: ScoreMode, values: &[(f64, f32)]) -> f64 {
    if values.is_empty() {
        return 1.0;
    }
    match mode {
        ScoreMode::First => values[0].0,
        ScoreMode::Max => values.iter().map(|v| v.0).fold(f64::NEG_INFINITY, f64::max),
        ScoreMode::Min => values.iter().map(|v| v.0).fold(f64::INFINITY, f64::min),
        ScoreMode::Sum => values.iter().map(|v| v.0).sum(),
        ScoreMode::Avg => {
            let weights: f64 = values.iter().map(|v| f64::from(v.1)).sum();
            if weights == 0.0 {
                1.0
            } else {
                values.iter().map(|v| v.0).sum::<f64>() / weights
            }
        }
        ScoreMode::Multiply | ScoreMode::None => values.iter().map(|v| v.0).product(),
    }
}

fn with_query(mode: BoostMode, query: f32, value: f64) -> f32 {
    let q = f64::from(query);
    (match mode {
        BoostMode::Multiply => q * value,
        BoostMode::Replace => value,
        BoostMode::Sum => q + value,
        BoostMode::Avg => (q + value) / 2.0,
        BoostMode::Max => q.max(value),
        BoostMode::Min => q.min(value),
    }) as f32
}

impl Node for FunctionNode {
    fn squares(&self) -> f32 {
        self.query.squares()
    }

    fn scorer(&self, segment: &SegmentView) -> Result<Box<dyn Scorer>> {
        let mut functions = self.open(segment)?;
        let (score_mode, boost_mode, max_boost, min_score) =
            (self.score_mode, self.boost_mode, f64::from(self.max_boost), self.min_score);
        let failure = self.failure.clone();
        let mut buffer = Vec::new();
        let mut values = Vec::new();
        let set = self.level.restrict(segment, self.query.scorer(segment)?)?;
        let value = move |doc, set: &mut dyn Scorer| -> Option<f32> {
            let score = set.score();
            values.clear();
            for (filter, weight, ready) in &mut functions {
                if let Some(filter) = filter
                    && (filter.doc() == TERMINATED || seek_to(filter.as_mut(), doc) != doc)
                {
                    continue;
                }
                let value = failure.tried(|| ready.value(doc, score, &mut buffer).map(Some))?;
                let weight = weight.unwrap_or(1.0);
                values.push((value * f64::from(weight), weight));
                if score_mode == ScoreMode::First {
                    break;
                }
            }
            let value = joined(score_mode, &values).min(max_boost);
            Some(with_query(boost_mode, score, value))
        };
        Ok(from_least(set, min_score, value))
    }

    fn explain(&self, segment: &SegmentView, doc: DocId) -> Result<Explained> {
        let query = self.query.explain(segment, doc)?;
        if !query.matched {
            return Ok(query);
        }
        let mut values = Vec::new();
        let mut details = Vec::new();
        let mut buffer = Vec::new();
        for (function, (filter, weight, ready)) in self.functions.iter().zip(self.open(segment)?) {
            let filtered = filter.is_some();
            if let Some(filter) = filter
                && score_at(filter, doc).is_none()
            {
                continue;
            }
            let value = ready.value(doc, query.value, &mut buffer)?;
            let factor = weight.unwrap_or(1.0);
            values.push((value * f64::from(factor), factor));
            let mut one = Explained::new(value as f32, function.what.clone());
            if matches!(ready, Ready::Script(_)) {
                one.details
                    .push(Explained::new(query.value, "_score: ").of(vec![query.clone()]));
            }
            if let Some(weight) = weight {
                let parts = vec![one, Explained::new(weight, "weight")];
                one = Explained::new((value * f64::from(factor)) as f32, "product of:").of(parts);
            }
            if filtered {
                let filter = Explained::new(1.0, format!("match filter: {}", function.filter_what));
                one = Explained::new(one.value, "function score, product of:").of(vec![filter, one]);
            }
            details.push(one);
        }
        let value = joined(self.score_mode, &values);
        let capped = value.min(f64::from(self.max_boost));
        let alone = self.functions.len() == 1 && self.functions[0].filter.is_none();
        let functions = match details.pop() {
            None => Explained::new(1.0, "No function matched"),
            Some(only) if alone => only,
            Some(last) => {
                details.push(last);
                let what = format!("function score, score mode [{}]", self.score_mode.word());
                Explained::new(value as f32, what).of(details)
            }
        };
        let capped_of = Explained::new(capped as f32, "min of:").of(vec![functions, Explained::new(self.max_boost, "maxBoost")]);
        let score = with_query(self.boost_mode, query.value, capped);
        let explained = match self.boost_mode {
            BoostMode::Replace => capped_of,
            mode => {
                let what = match mode {
                    BoostMode::Multiply | BoostMode::Replace => "function score, product of:",
                    BoostMode::Sum => "sum of",
                    BoostMode::Avg => "avg of",
                    BoostMode::Max => "max of:",
                    BoostMode::Min => "min of",
                };
                Explained::new(score, what).of(vec![query, capped_of])
            }
        };
        Ok(match self.min_score {
            Some(min) if score < min => {
                let what = format!("Score value is too low, expected at least {min:?} but got {score:?}");
                Explained::no_match(what).of(vec![explained])
            }
            _ => explained,
        })
    }
}

/// `set` with the scores that `value` gives; documents below `min_score` go.
fn from_least<F>(set: Box<dyn Scorer>, min_score: Option<f32>, mut value: F) -> Box<dyn Scorer>
where
    F: FnMut(DocId, &mut dyn Scorer) -> Option<f32> + Send + 'static,
{
    match min_score {
        Some(min) => rescored(set, move |doc, set| value(doc, set).filter(|score| *score >= min)),
        None => scored_late(set, move |doc, set| value(doc, set).unwrap_or_default()),
    }
}

struct ScriptNode {
    query: Shared,
    script: Script,
    min_score: Option<f32>,
    boost: f32,
    failure: Failure,
    level: Level,
    /// For explanations.
    what: String,
}

impl Node for ScriptNode {
    fn scorer(&self, segment: &SegmentView) -> Result<Box<dyn Scorer>> {
        let bound = self.script.open(segment)?;
        let (min_score, boost, failure) = (self.min_score, self.boost, self.failure.clone());
        let set = self.level.restrict(segment, self.query.scorer(segment)?)?;
        let value = move |doc, set: &mut dyn Scorer| {
            let score = set.score();
            failure.tried(|| match bound.number(doc, score)? {
                value if value < 0.0 || value.is_nan() => Err(Error::illegal(format!(
                    "script_score script returned an invalid score [{value}] for doc [{doc}]. Must be a non-negative score!"
                ))),
                value => Ok(Some(value as f32 * boost)),
            })
        };
        Ok(from_least(set, min_score, value))
    }

    fn explain(&self, segment: &SegmentView, doc: DocId) -> Result<Explained> {
        let query = self.query.explain(segment, doc)?;
        if !query.matched {
            return Ok(query);
        }
        let value = self.script.open(segment)?.number(doc, query.value)? as f32;
        let score = value * self.boost;
        let seen = Explained::new(query.value, "_score: ").of(vec![query]);
        let mut explained = Explained::new(value, self.what.clone()).of(vec![seen]);
        if self.boost != 1.0 {
            let parts = vec![Explained::new(self.boost, "boost"), explained];
            explained = Explained::new(score, "Boosted score, product of:").of(parts);
        }
        Ok(match self.min_score {
            Some(min) if score < min => {
                let what = format!("Score value is too low, expected at least {min:?} but got {score:?}");
                Explained::no_match(what).of(vec![explained])
            }
            _ => explained,
        })
    }
}

impl Planner<'_> {
    pub(super) fn script_score(
        &self,
        query: &Query,
        script: &ScriptSource,
        min_score: Option<f32>,
        boost: f32,
    ) -> Result<Shared> {
        let what = script_text(script);
        let script = Script::new(self.view, script, self.cx)?;
        Ok(Arc::new(ScriptNode {
            what,
            query: self.scoring(query, 1.0)?,
            script,
            min_score,
            boost,
            failure: self.failure(),
            level: self.level(),
        }))
    }

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
            crate::plan::field_data::refuse_text(&target, path).map_err(|cause| self.failed_to_create(cause))?;
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
                    return Err(super::field::query_shard(
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
                                crate::plan::field_data::refuse_text(&target, path)
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
                    return Err(super::field::query_shard(self.view, format!("unknown field [{path}]")));
                };
                let fits =
                    found.kind.kind.is_date() || found.kind.kind == mapping::Kind::GeoPoint || found.kind.kind.is_numeric();
                if !fits {
                    return Err(super::field::query_shard(
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
                        return Err(super::field::query_shard(
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
fn place(value: &serde_json::Value) -> Result<(f64, f64)> {
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
