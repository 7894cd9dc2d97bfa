//! `function_score`: its functions, and the ways in which scores become one.

use super::Query;
use super::script_source::ScriptSource;
use serde_json::Value;

#[derive(Clone, Debug, PartialEq)]
pub struct FunctionScoreQuery {
    pub query: Box<Query>,
    pub functions: Vec<ScoreFunction>,
    pub score_mode: ScoreMode,
    pub boost_mode: BoostMode,
    pub max_boost: Option<f32>,
    pub min_score: Option<f32>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ScoreFunction {
    pub filter: Option<Query>,
    pub weight: Option<f32>,
    pub function: Function,
    pub name: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Function {
    /// `weight` alone.
    Weight,
    Script(ScriptSource),
    FieldValueFactor {
        field: String,
        factor: f32,
        modifier: Modifier,
        missing: Option<f64>,
    },
    RandomScore {
        seed: Option<Value>,
        field: Option<String>,
    },
    Decay {
        kind: DecayKind,
        field: String,
        origin: Option<Value>,
        scale: Value,
        offset: Option<Value>,
        decay: f64,
        multi_value_mode: MultiValueMode,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Modifier {
    #[default]
    None,
    Log,
    Log1p,
    Log2p,
    Ln,
    Ln1p,
    Ln2p,
    Square,
    Sqrt,
    Reciprocal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecayKind {
    Linear,
    Exp,
    Gauss,
}

/// How several values of a field, several functions, several children become one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ScoreMode {
    #[default]
    Multiply,
    Sum,
    Avg,
    First,
    Max,
    Min,
    /// Children only: their scores do not count.
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum BoostMode {
    #[default]
    Multiply,
    Replace,
    Sum,
    Avg,
    Max,
    Min,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum MultiValueMode {
    #[default]
    Min,
    Max,
    Avg,
    Sum,
    Median,
}
