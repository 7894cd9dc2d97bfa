//! `scripted_metric`: a value that four scripts make.

use super::AggKind;
use super::options::put;
use crate::json::Fields;
use crate::query::script_source::ScriptSource;
use crate::shape;
use model::{Dialect, Error, Result};
use serde_json::{Map, Value};

#[derive(Clone, Debug, PartialEq)]
pub struct ScriptedAgg {
    pub init: Option<ScriptSource>,
    pub map: ScriptSource,
    /// Without one (2015) the state itself.
    pub combine: Option<ScriptSource>,
    /// Without one (2015) the list of what was combined.
    pub reduce: Option<ScriptSource>,
    pub params: Map<String, Value>,
}

pub(super) fn parse(fields: &mut Fields, name: &str, dialect: Dialect) -> Result<AggKind> {
    let mut take = |name: &str| {
        fields.read(name, &["VALUE_STRING", "START_OBJECT"], |node| {
            ScriptSource::parse(node.clone(), dialect)
        })
    };
    let init = take("init_script")?;
    let (map, combine, reduce) = (take("map_script")?, take("combine_script")?, take("reduce_script")?);
    let params = fields.take_map("params")?.unwrap_or_default();
    if !dialect.rules.skips_unknown_keys {
        // An unknown option is refused before a missing one.
        fields.clone().finish()?;
    }
    let needed = |found: Option<ScriptSource>, part: &str| match found {
        None if !dialect.rules.tolerates_missing_options => {
            let cause = Error::illegal(format!("[{part}] must not be null: [{name}]"));
            Err(shape::all_shards_failed(cause))
        }
        found => Ok(found),
    };
    Ok(AggKind::ScriptedMetric(Box::new(ScriptedAgg {
        init,
        map: map.ok_or_else(|| Error::illegal("[map_script] must not be null: [scripted_metric]"))?,
        combine: needed(combine, "combine_script")?,
        reduce: needed(reduce, "reduce_script")?,
        params,
    })))
}

pub(super) fn render(scripted: &ScriptedAgg) -> Map<String, Value> {
    let mut body = Map::new();
    put(&mut body, "init_script", scripted.init.as_ref().map(|s| s.render()));
    body.insert("map_script".into(), scripted.map.render());
    put(&mut body, "combine_script", scripted.combine.as_ref().map(|s| s.render()));
    put(&mut body, "reduce_script", scripted.reduce.as_ref().map(|s| s.render()));
    if !scripted.params.is_empty() {
        body.insert("params".into(), Value::Object(scripted.params.clone()));
    }
    body
}
