//! `function_score`: scores computed by functions, combined with each other and with the score of the query.

use super::explain::Explained;
use super::live_docs::LiveLevel;
use super::node::{Node, Shared, score_at, seek_to};
use super::rescored::from_least;
use crate::fields::column::Column;
use crate::fields::geo_distance::Far;
use crate::fields::multi_value::pick;
use crate::fields::target::Target;
use crate::hashes;
use crate::scripts::{Bound, Failure, Script};
use dsl::query::{BoostMode, DecayKind, Modifier, MultiValueMode, ScoreMode};
use mapping::FieldType;
use mapping::tree::Tree;
use model::{Error, Result};
use segment::open_columns;
use segment::schema::Slot;
use segment::segment_view::SegmentView;
use std::sync::Arc;
use tantivy::query::Scorer;
use tantivy::{DocId, TERMINATED};

pub(crate) struct Field {
    pub(crate) path: String,
    pub(crate) slot: Slot,
    pub(crate) kind: FieldType,
    pub(crate) tree: Arc<Tree>,
}

impl Field {
    fn open(&self, segment: &SegmentView) -> Result<Option<Column>> {
        Column::open(
            segment,
            &Target {
                path: &self.path,
                kind: &self.kind,
                slot: &self.slot,
                tree: &self.tree,
            },
        )
    }
}

pub(crate) enum Compute {
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
        source: RandomSource,
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

/// The value that a random score is drawn from, with its seed.
pub(crate) enum RandomSource {
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

pub(crate) struct OneFunction {
    pub(crate) filter: Option<Shared>,
    pub(crate) weight: Option<f32>,
    pub(crate) compute: Compute,
    /// For explanations: the function, and what it is restricted to.
    pub(crate) what: String,
    pub(crate) filter_what: String,
}

pub(crate) struct FunctionNode {
    pub(crate) query: Shared,
    pub(crate) functions: Vec<OneFunction>,
    pub(crate) score_mode: ScoreMode,
    pub(crate) boost_mode: BoostMode,
    pub(crate) max_boost: f32,
    pub(crate) min_score: Option<f32>,
    pub(crate) failure: Failure,
    pub(crate) level: LiveLevel,
    /// Scripts and fields that give less are refused.
    pub(crate) least: f64,
}

enum Ready {
    Weight,
    Script {
        bound: Bound,
        least: f64,
    },
    Value {
        column: Option<Column>,
        name: String,
        factor: f64,
        modifier: Modifier,
        missing: Option<f64>,
        least: f64,
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
            Ready::Script { bound, least } => {
                let value = bound.number(doc, score)?;
                if value < *least || value.is_nan() {
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
                least,
            } => {
                buffer.clear();
                if let Some(column) = column {
                    column.numbers(doc, buffer);
                }
                let value = buffer.iter().copied().reduce(f64::min).or(*missing);
                let value = value.ok_or_else(|| missing_value(name))?;
                let value = modify(*modifier, value * factor);
                if value.is_nan() || value < *least {
                    return Err(Error::illegal(format!(
                        "field value function must not produce negative scores, but got: [{value:?}] for field value: [{:?}]",
                        value / factor.max(f64::MIN_POSITIVE)
                    )));
                }
                value
            }
            Ready::Random { seed, source } => {
                // A quotient of 24 bits: a float keeps no more.
                let hash = source.hash(doc, *seed)? & 0x00ff_ffff;
                f64::from(hash as f32 / (1u32 << 24) as f32)
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
                debug_assert!(distance >= 0.0 || distance.is_nan(), "the offset is not subtracted below 0");
                decay_at(*kind, distance, *scale, *decay)
            }
        })
    }
}

/// The value at a distance: 1 at 0, `decay` at `scale`.
fn decay_at(kind: DecayKind, distance: f64, scale: f64, decay: f64) -> f64 {
    match kind {
        DecayKind::Gauss => (0.5 * distance * distance * decay.ln() * 2.0 / (scale * scale)).exp(),
        DecayKind::Exp => (decay.ln() / scale * distance).exp(),
        DecayKind::Linear => {
            let reach = scale / (1.0 - decay);
            ((reach - distance) / reach).max(0.0)
        }
    }
}

fn missing_value(field: &str) -> Error {
    Error::new(model::ErrorKind::IllegalState, format!("Missing value for field [{field}]")).status_of(400)
}

impl Salt {
    /// The hash that the random score of a document is made of.
    fn hash(&self, doc: DocId, seed: u32) -> Result<u32> {
        Ok(match self {
            Salt::Place(core) => {
                let place = core.stamp(doc).seq_no;
                hashes::mix32(hashes::long_hash(i64::try_from(place).unwrap_or(0)) ^ seed)
            }
            Salt::SeqNo(core) => hashes::murmur3(core.stamp(doc).seq_no.to_string().as_bytes(), seed),
            Salt::Values(column) => match first_text(column.as_ref(), doc)? {
                Some(text) => hashes::murmur3(text.as_bytes(), seed),
                None => seed,
            },
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

impl FunctionNode {
    fn open(&self, segment: &SegmentView) -> Result<Vec<(Option<Box<dyn Scorer>>, Option<f32>, Ready)>> {
        let mut out = Vec::new();
        for f in &self.functions {
            let filter = f.filter.as_ref().map(|n| n.scorer(segment)).transpose()?;
            let ready = match &f.compute {
                Compute::Weight => Ready::Weight,
                Compute::Script(script) => Ready::Script {
                    bound: script.open(segment)?,
                    least: self.least,
                },
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
                    least: self.least,
                },
                Compute::Random { seed, source } => Ready::Random {
                    seed: *seed,
                    source: match source {
                        RandomSource::Place => Salt::Place(segment.core.clone()),
                        RandomSource::SeqNo => Salt::SeqNo(segment.core.clone()),
                        RandomSource::Id => {
                            let ids = open_columns::strings(segment, "_id")?;
                            Salt::Values(ids.map(Column::Str))
                        }
                        RandomSource::Field(field) => Salt::Values(field.open(segment)?),
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

/// Several functions' values, each with its weight, as one.
fn combine_functions(mode: ScoreMode, values: &[(f64, f32)]) -> f64 {
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
                let value = failure.run(|| ready.value(doc, score, &mut buffer).map(Some))?;
                let weight = weight.unwrap_or(1.0);
                values.push((value * f64::from(weight), weight));
                if score_mode == ScoreMode::First {
                    break;
                }
            }
            let value = combine_functions(score_mode, &values).min(max_boost);
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
            if matches!(ready, Ready::Script { .. }) {
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
        let value = combine_functions(self.score_mode, &values);
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
