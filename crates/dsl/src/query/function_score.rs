//! `function_score`: scores made by functions.

use super::{
    BoostMode, Clause, DecayKind, Function, FunctionScoreQuery, Modifier, MultiValueMode, Parsing, Query, ScoreFunction,
    ScoreMode,
};
use super::{
    render::number,
    script_source::ScriptSource,
    words::{self, not_created},
};
use crate::json::{Fields, Node};
use model::{Error, ErrorKind, Result};
use serde_json::{Map, Value, json};

const FUNCTIONS: &[&str] = &["script_score", "field_value_factor", "random_score", "linear", "exp", "gauss"];
const BOTH: &str = "you can either define [functions] array or a single function, not both. ";

pub(super) fn parse(node: Node, cx: &mut Parsing) -> Result<Query> {
    let mut fields = cx.options(node, "function_score")?;
    let query = take_query(&mut fields, cx)?;
    let score_mode = take_score_mode(&mut fields)?;
    let boost_mode = match fields.take_string("boost_mode")? {
        None => BoostMode::Multiply,
        Some(word) => BoostMode::from_word(&word)
            .ok_or_else(|| Error::illegal(format!("No enum constant CombineFunction.{}", word.to_uppercase())))?,
    };
    let max_boost = fields.take_f32("max_boost")?;
    let min_score = fields.take_f32("min_score")?;
    let common = cx.common(&mut fields, "function_score", Clause::MatchAll)?;
    let clause = FunctionScoreQuery {
        query: Box::new(query),
        functions: parse_functions(fields, cx)?,
        score_mode,
        boost_mode,
        max_boost,
        min_score,
    };
    Ok(Query {
        clause: Clause::FunctionScore(clause),
        ..common
    })
}

/// The query whose hits are scored; 2015 also had a filter.
fn take_query(fields: &mut Fields, cx: &mut Parsing) -> Result<Query> {
    let query = fields
        .take("query")
        .map(|n| Query::parse_unless_empty(n, cx))
        .transpose()?
        .flatten();
    let filter = if cx.dialect.rules.has_legacy_clauses {
        fields.take("filter").map(|n| cx.inner_filter(n)).transpose()?
    } else {
        None
    };
    Ok(match (query, filter) {
        (Some(query), None) => query,
        (None, None) => Query::all(),
        (None, Some(filter)) => Clause::ConstantScore {
            filter: Box::new(filter),
        }
        .into(),
        (Some(query), Some(filter)) => Clause::Bool(super::BoolQuery {
            must: vec![query],
            filter: vec![filter],
            ..Default::default()
        })
        .into(),
    })
}

fn take_score_mode(fields: &mut Fields) -> Result<ScoreMode> {
    let Some(word) = words::take_score_mode(fields)? else {
        return Ok(ScoreMode::Multiply);
    };
    match ScoreMode::from_word(&word) {
        Some(mode) if mode != ScoreMode::None => Ok(mode),
        _ if word == "total" => Ok(ScoreMode::Sum),
        _ => Err(Error::illegal(format!(
            "No enum constant FiltersFunctionScoreQuery.ScoreMode.{}",
            word.to_uppercase()
        ))),
    }
}

fn is_weight(name: &str) -> bool {
    matches!(name, "weight" | "boost_factor")
}

/// The functions: a list of them, or one beside the other options.
fn parse_functions(mut fields: Fields, cx: &mut Parsing) -> Result<Vec<ScoreFunction>> {
    let mut list = false;
    let mut single: Option<String> = None;
    let mut functions: Vec<ScoreFunction> = Vec::new();
    while let Some((name, node)) = fields.next_field() {
        if name == "functions" {
            if let Some(single) = &single {
                let sentence = format!("already found [{single}], now encountering [functions].");
                return Err(node.error(format!("failed to parse [function_score] query. {BOTH}{sentence}")));
            }
            list = true;
            for item in node.items() {
                functions.push(entry(item, cx)?);
            }
            continue;
        }
        if list {
            let sentence = format!("already found [functions] array, now encountering [{name}].");
            let hint = if is_weight(&name) {
                " did you mean [boost] instead?"
            } else {
                ""
            };
            return Err(node.error(format!("failed to parse [function_score] query. {BOTH}{sentence}{hint}")));
        }
        if let Some(single) = &single {
            let both_weight = cx.dialect.rules.tolerates_conflicting_options && is_weight(&name) != is_weight(single);
            if !both_weight {
                return Err(node.error(format!(
                    "failed to parse [function_score] query. already found function [{single}], now encountering [{name}]. use [functions] array if you want to define several functions."
                )));
            }
        }
        let last = functions.pop();
        functions.push(parse_single(&name, node, last, cx)?);
        single = Some(name);
    }
    Ok(functions)
}

/// A function beside the other options; `last` is what 2015 may have had before it: a weight, or a function.
fn parse_single(name: &str, node: Node, last: Option<ScoreFunction>, cx: &mut Parsing) -> Result<ScoreFunction> {
    let last = last.unwrap_or(ScoreFunction {
        filter: None,
        weight: None,
        function: Function::Weight,
        name: None,
    });
    if is_weight(name) {
        return Ok(ScoreFunction {
            weight: Some(weight_of(&node, name, cx)?),
            ..last
        });
    }
    if FUNCTIONS.contains(&name) {
        let (function, named, inner) = function(name, node, cx)?;
        return Ok(ScoreFunction {
            function,
            name: named.or(last.name),
            weight: last.weight.or(inner),
            filter: None,
        });
    }
    Err(node.error(match node.is_object() {
        true => format!("No function with name [{name}] is registered."),
        false => format!("failed to parse [function_score] query. field [{name}] is not supported"),
    }))
}

fn weight_of(node: &Node, name: &str, cx: &Parsing) -> Result<f32> {
    match node.f32(name)? {
        weight if weight < 0.0 && !cx.dialect.rules.tolerates_value_bounds => {
            Err(Error::illegal("[weight] cannot be negative for a filtering function"))
        }
        weight => Ok(weight),
    }
}

/// One of `functions`.
fn entry(node: Node, cx: &mut Parsing) -> Result<ScoreFunction> {
    if !node.is_object() {
        return Err(node.error(format!(
            "failed to parse [function_score]. malformed query, expected a [START_OBJECT] while parsing functions but got a [{}] instead",
            node.kind_name()
        )));
    }
    let nothing = node.error("an entry in functions list is missing a function.");
    let mut fields = node.fields("function_score")?;
    let filter = fields
        .take("filter")
        .map(|n| cx.filtering(|cx| Query::parse_unless_empty(n, cx)))
        .transpose()?
        .flatten();
    let mut weight = match fields.take_any(&["weight", "boost_factor"]) {
        Some(node) => Some(weight_of(&node, "weight", cx)?),
        None => None,
    };
    let mut name = fields.take_string("_name")?;
    let mut found: Option<(String, Function)> = None;
    while let Some((kind, node)) = fields.next_field() {
        if let Some((first, _)) = &found {
            return Err(node.error(format!(
                "failed to parse function_score functions. already found [{first}], now encountering [{kind}]."
            )));
        }
        if !FUNCTIONS.contains(&kind.as_str()) {
            if node.is_object() {
                return Err(node.error(format!("No function with name [{kind}] is registered.")));
            }
            if cx.dialect.rules.skips_unknown_keys {
                continue;
            }
            return Err(node.error(format!(
                "failed to parse [function_score] query. field [{kind}] is not supported"
            )));
        }
        let (function, named, inner) = function(&kind, node, cx)?;
        name = named.or(name);
        weight = weight.or(inner);
        found = Some((kind, function));
    }
    let function = match found {
        Some((_, function)) => function,
        None if weight.is_some() => Function::Weight,
        None => return Err(nothing),
    };
    Ok(ScoreFunction {
        filter,
        weight,
        function,
        name,
    })
}

/// A function with the `_name` and the `weight` that may be inside it.
fn function(kind: &str, node: Node, cx: &mut Parsing) -> Result<(Function, Option<String>, Option<f32>)> {
    let here = node.error("");
    let at = |sentence: String| {
        let mut error = Error::new(ErrorKind::Parsing, sentence);
        for (name, value) in here.details() {
            error = error.with(name, value.clone());
        }
        error
    };
    if !node.is_object() {
        return Err(node.error(format!("[{kind}] query malformed, no start_object after query name")));
    }
    let mut fields = node
        .fields(kind)?
        .of_query()
        .lenient(cx.dialect.rules.reads_boolean_words)
        .strict();
    let name = fields.take_string("_name")?;
    let weight = fields.take_f32("weight")?;
    let made = match kind {
        "script_score" => {
            let script = ScriptSource::take(&mut fields, cx.dialect)?;
            script
                .map(Function::Script)
                .ok_or_else(|| at("script_score requires 'script' field".into()))?
        }
        "field_value_factor" => {
            let field = fields
                .take_string("field")?
                .ok_or_else(|| at("[field_value_factor] required field 'field' missing".into()))?;
            let factor = fields.take_f32("factor")?.unwrap_or(1.0);
            let modifier = match fields.take_string("modifier")? {
                None => Modifier::None,
                Some(word) => Modifier::from_word(&word).ok_or_else(|| {
                    Error::illegal(format!(
                        "No enum constant FieldValueFactorFunction.Modifier.{}",
                        word.to_uppercase()
                    ))
                })?,
            };
            let missing = fields.take_f64("missing")?;
            Function::FieldValueFactor {
                field,
                factor,
                modifier,
                missing,
            }
        }
        "random_score" => {
            let seed = fields.take_value("seed").filter(|v| !v.is_null());
            let fraction = |s: &Value| s.is_f64() && !cx.dialect.rules.tolerates_value_types;
            if seed.as_ref().is_some_and(|s| !s.is_string() && !s.is_number() || fraction(s)) {
                return Err(at("random_score seed must be an int, long or string".into()));
            }
            Function::RandomScore {
                seed,
                field: fields.take_string("field")?,
            }
        }
        _ => decay(kind, &mut fields, &at)?,
    };
    fields.finish()?;
    Ok((made, name, weight))
}

fn decay(kind: &str, fields: &mut Fields, at: &dyn Fn(String) -> Error) -> Result<Function> {
    let multi_value_mode = match fields.take_string("multi_value_mode")? {
        None => MultiValueMode::Min,
        Some(word) => MultiValueMode::from_word(&word).ok_or_else(|| Error::illegal(format!("Illegal sort mode: {word}")))?,
    };
    let Some((field, body)) = fields.next_field() else {
        return Err(at(format!(
            "malformed score function score parameters for [{kind}]: no field given"
        )));
    };
    if !body.is_object() {
        return Err(at(format!("malformed score function score parameters for [{kind}].")));
    }
    let mut inner = body.fields(kind)?.of_query();
    let value = |inner: &mut Fields, name: &str| inner.take_value(name).filter(|v| !v.is_null());
    let made = Function::Decay {
        kind: DecayKind::from_word(kind).unwrap_or(DecayKind::Gauss),
        field,
        // Some say `reference`, as of old.
        origin: value(&mut inner, "origin").or(value(&mut inner, "reference")),
        // Whether it may be missing depends on the field's type.
        scale: value(&mut inner, "scale").unwrap_or(Value::Null),
        offset: value(&mut inner, "offset"),
        decay: inner.take_f64("decay")?.unwrap_or(0.5),
        multi_value_mode,
    };
    if let Some((name, _)) = inner.next_field() {
        let cause = Error::new(ErrorKind::Parse, format!("parameter [{name}] not supported!"));
        return Err(crate::shape::all_shards_failed(cause));
    }
    if let Function::Decay {
        decay, scale, offset, ..
    } = &made
    {
        let number = |value: &Value| value.as_f64();
        if number(scale).is_some_and(|scale| scale <= 0.0) {
            return Err(not_created("function_score : scale must be > 0.0."));
        }
        if *decay <= 0.0 || *decay >= 1.0 {
            return Err(not_created("function_score : decay must be in the range [0..1]."));
        }
        if offset.as_ref().and_then(number).is_some_and(|offset| offset < 0.0) {
            return Err(not_created("function_score : offset must be > 0.0"));
        }
    }
    Ok(made)
}

pub(super) fn render(q: &FunctionScoreQuery) -> Map<String, Value> {
    let mut body = Map::new();
    body.insert("query".into(), q.query.render());
    body.insert("functions".into(), q.functions.iter().map(render_function).collect());
    if q.score_mode != ScoreMode::Multiply {
        body.insert("score_mode".into(), q.score_mode.word().into());
    }
    if q.boost_mode != BoostMode::Multiply {
        body.insert("boost_mode".into(), q.boost_mode.word().into());
    }
    for (name, value) in [("max_boost", q.max_boost), ("min_score", q.min_score)] {
        if let Some(value) = value {
            body.insert(name.into(), number(value));
        }
    }
    body
}

fn render_function(f: &ScoreFunction) -> Value {
    let mut body = Map::new();
    if let Some(filter) = &f.filter {
        body.insert("filter".into(), filter.render());
    }
    if let Some(weight) = f.weight {
        body.insert("weight".into(), number(weight));
    }
    if let Some(name) = &f.name {
        body.insert("_name".into(), name.clone().into());
    }
    match &f.function {
        Function::Weight => {}
        Function::Script(script) => {
            body.insert("script_score".into(), json!({"script": script.render()}));
        }
        Function::FieldValueFactor {
            field,
            factor,
            modifier,
            missing,
        } => {
            let mut inner = Map::new();
            inner.insert("field".into(), field.clone().into());
            inner.insert("factor".into(), number(*factor));
            if *modifier != Modifier::None {
                inner.insert("modifier".into(), modifier.word().into());
            }
            if let Some(missing) = missing {
                inner.insert("missing".into(), (*missing).into());
            }
            body.insert("field_value_factor".into(), inner.into());
        }
        Function::RandomScore { seed, field } => {
            let mut inner = Map::new();
            if let Some(seed) = seed {
                inner.insert("seed".into(), seed.clone());
            }
            if let Some(field) = field {
                inner.insert("field".into(), field.clone().into());
            }
            body.insert("random_score".into(), inner.into());
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
            let mut inner = Map::new();
            for (name, value) in [
                ("origin", origin.as_ref()),
                ("scale", Some(scale)),
                ("offset", offset.as_ref()),
            ] {
                if let Some(value) = value.filter(|v| !v.is_null()) {
                    inner.insert(name.into(), value.clone());
                }
            }
            inner.insert("decay".into(), (*decay).into());
            let mut outer = Map::new();
            outer.insert(field.clone(), inner.into());
            if *multi_value_mode != MultiValueMode::Min {
                outer.insert("multi_value_mode".into(), multi_value_mode.word().into());
            }
            body.insert(kind.word().into(), outer.into());
        }
    }
    body.into()
}
