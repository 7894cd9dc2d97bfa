//! Scripts: an interpreter for a subset of Painless, of the Groovy of 2015 and of Lucene
//! expressions. `compile` once, `run` per document; `run_update` runs over `ctx`.
//!
//! Not here: where scripts are stored, what an update writes, and which error envelope a
//! request answers with.

mod api;
mod ast;
mod check;
mod functions;
mod interpreter;
mod lexer;
mod parser;
mod runtime;
#[cfg(test)]
mod tests;
mod value;

pub use value::{Closure, DocValues, ListCell, MapCell, Params, Pattern, Value};

use model::{Error, ErrorKind, Topic, settings};
use runtime::{Fault, Run};
use serde_json::Value as Json;
use std::sync::{Arc, OnceLock};

/// The language a script is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lang {
    /// Elasticsearch's own since 5.0
    Painless,
    /// The default of 1.4 to 2.4
    Groovy,
    /// Lucene expressions
    Expression,
}

impl Lang {
    /// By its name in requests.
    pub fn from_name(name: &str) -> Option<Lang> {
        Some(match name {
            "painless" => Lang::Painless,
            "groovy" => Lang::Groovy,
            "expression" => Lang::Expression,
            _ => return None,
        })
    }
    /// As [`Lang::from_name`].
    ///
    /// # Errors
    /// There is no language of this name.
    pub fn parse(name: &str) -> model::Result<Lang> {
        let unknown = || Error::illegal(format!("script_lang not supported [{name}]")).about(Topic::ScriptLanguage);
        Lang::from_name(name).ok_or_else(unknown)
    }
    /// Its name in requests.
    pub fn name(self) -> &'static str {
        match self {
            Lang::Painless => "painless",
            Lang::Groovy => "groovy",
            Lang::Expression => "expression",
        }
    }
}

/// The limits of one run.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Evaluated nodes, roughly.
    pub steps: u64,
    /// Bytes of text and collections made, freed ones included.
    pub memory_bytes: usize,
    /// The longest source, for callers that compile; `compile` itself keeps the default.
    pub source_max: usize,
}

impl Default for Budget {
    fn default() -> Budget {
        // Read once: a budget is made for every run.
        static FIXED: OnceLock<Budget> = OnceLock::new();
        let number = |setting| usize::try_from(settings::node(setting)).unwrap_or(usize::MAX);
        *FIXED.get_or_init(|| Budget {
            steps: settings::node(settings::SCRIPT_MAX_STEPS),
            memory_bytes: number(settings::SCRIPT_MAX_MEMORY),
            source_max: number(settings::SCRIPT_MAX_SIZE),
        })
    }
}

/// The environment that a script reads.
pub trait Host {
    /// `_score`
    fn score(&mut self) -> Option<f64> {
        None
    }
    /// `doc['field']` of this document into `out`; false if the mapping has no such field. Slots
    /// count along `Program::doc_fields`; later ones are fields named at run time. Called at most
    /// once a run and field.
    fn doc(&mut self, slot: usize, field: &str, out: &mut DocValues) -> model::Result<bool> {
        let _ = (slot, field, out);
        Ok(false)
    }
    /// Other names: `ctx`, `_source`, `_value`, `_agg`, and `params.x` for an `x` that is not in
    /// the request's params.
    fn variable(&mut self, name: &str) -> Option<Value> {
        let _ = name;
        None
    }
    /// A hash of a text under a seed, of which a random score is made; `None` where nothing of outside counts in it.
    fn seeded_hash(&self, seed: i64, text: &str) -> Option<u32> {
        let _ = (seed, text);
        None
    }
    /// The clock.
    fn now_millis(&self) -> i64 {
        0
    }
    /// Asked every few thousand steps.
    ///
    /// # Errors
    /// Why the script has to end now; no `catch` of the script sees it.
    fn check_interrupt(&self) -> model::Result<()> {
        Ok(())
    }
}

/// The inputs of a run.
pub struct Env<'a> {
    /// The request's params.
    pub params: &'a Params,
    /// Everything else outside.
    pub host: &'a mut dyn Host,
    /// Limits.
    pub budget: Budget,
}

/// A compiled script; cheap to clone and to share.
#[derive(Clone, Debug)]
pub struct Program(Arc<Compiled>);

#[derive(Debug)]
struct Compiled {
    source: Arc<str>,
    lang: Lang,
    tree: ast::Tree,
}

/// Compiles a script.
pub fn compile(source: &str, lang: Lang) -> model::Result<Program> {
    let max = Budget::default().source_max;
    if source.len() > max {
        return Err(Error::illegal(format!(
            "Scripts may be no longer than {max} characters. The passed in script is {} characters. Consider using a plugin if a script longer than this length is a requirement. The limit is the setting [script.max_size_in_bytes].",
            source.len()
        )));
    }
    match parser::parse(source, lang) {
        Ok(tree) => Ok(Program(Arc::new(Compiled {
            source: source.into(),
            lang,
            tree,
        }))),
        Err(e) if lang == Lang::Groovy => {
            let before = source.get(..e.pos as usize).unwrap_or(source);
            let line = before.matches('\n').count() + 1;
            let column = before.rsplit('\n').next().map_or(0, |l| l.chars().count()) + 1;
            let cause = format!(
                "startup failed:\nScript1: {line}: {} @ line {line}, column {column}.\n\n1 error\n",
                e.message
            );
            Err(Error::new(
                ErrorKind::Script,
                format!("Failed to compile inline script [{source}] using lang [groovy]"),
            )
            .with_cause(Error::new(ErrorKind::ScriptParse, cause)))
        }
        Err(e) => {
            Err(script_error("compile error", source, lang, e.pos).with_cause(Error::new(ErrorKind::IllegalArgument, e.message)))
        }
    }
}

/// A script error with where in the script it arose.
fn script_error(reason: &str, source: &str, lang: Lang, pos: u32) -> Error {
    let floor = |mut i: usize| {
        i = i.min(source.len());
        while !source.is_char_boundary(i) {
            i -= 1;
        }
        i
    };
    let offset = floor(pos as usize);
    let start = floor(offset.saturating_sub(25));
    let end = floor(offset + 25);
    let cut = |from: usize, to: usize| source.get(from..to).unwrap_or("");
    let dots = |there: bool| if there { "..." } else { "" };
    let line = format!("{}{}{}", dots(start > 0), cut(start, end), dots(end < source.len()));
    let mark = format!(
        "{}^---- HERE",
        " ".repeat(cut(start, offset).chars().count() + dots(start > 0).len())
    );
    let position = serde_json::json!({ "offset": offset, "start": start, "end": end });
    Error::new(ErrorKind::Script, reason)
        .with("script_stack", Json::from(vec![line, mark]))
        .with("script", source)
        .with("lang", lang.name())
        .with("position", position)
}

impl Program {
    /// The fields used as `doc['x']` or `doc.x`, by slot.
    pub fn doc_fields(&self) -> &[String] {
        &self.0.tree.docs
    }
    /// Does it read `_score`?
    pub fn uses_score(&self) -> bool {
        self.0.tree.score
    }
    /// Does it read `ctx`, `_source` or `params._source`?
    pub fn uses_source(&self) -> bool {
        self.0.tree.source
    }
    /// The language.
    pub fn lang(&self) -> Lang {
        self.0.lang
    }
    /// The text.
    pub fn source(&self) -> &str {
        &self.0.source
    }

    /// Runs it; the value is that of `return` or of the last expression.
    pub fn run(&self, env: &mut Env<'_>) -> model::Result<Value> {
        let program = &*self.0;
        let mut run = Run::new(&program.tree, program.lang, env.host, env.params, env.budget, Run::block);
        // The values of a document's field are a list outside of the script.
        let result = run.script().and_then(|value| match value {
            Value::Doc(slot) => api::doc::all(&mut run, slot).map(Value::list),
            value => Ok(value),
        });
        match result {
            Ok(v) => Ok(v),
            Err(fault) => Err(run.refused.take().unwrap_or_else(|| self.fault_error(*fault))),
        }
    }

    /// Runs it for a number, as score and sort scripts do.
    pub fn run_f64(&self, env: &mut Env<'_>) -> model::Result<f64> {
        let value = self.run(env)?;
        if let Some(n) = value.as_f64() {
            return Ok(n);
        }
        match value {
            Value::Bool(b) => Ok(f64::from(u8::from(b))),
            Value::Date(ms) => Ok(ms as f64),
            Value::Null if self.0.lang != Lang::Painless => Ok(0.0),
            Value::Null => Err(
                script_error("runtime error", &self.0.source, self.0.lang, 0).with_cause(Error::new(
                    ErrorKind::NullPointer,
                    "the script returned null where a number is needed",
                )),
            ),
            other => Err(
                script_error("runtime error", &self.0.source, self.0.lang, 0).with_cause(Error::new(
                    ErrorKind::ClassCast,
                    format!("class {} cannot be cast to class java.lang.Number", other.class()),
                )),
            ),
        }
    }

    fn fault_error(&self, fault: Fault) -> Error {
        let Compiled { source, lang, .. } = &*self.0;
        let cause = Error::new(fault.kind, fault.message.unwrap_or_default());
        match lang {
            Lang::Groovy => Error::new(
                ErrorKind::Script,
                format!("failed to run inline script [{source}] using lang [groovy]"),
            )
            .with_cause(cause),
            _ => script_error("runtime error", source, *lang, fault.pos).with_cause(cause),
        }
    }
}

/// The document that an update script changes.
#[derive(Clone, Debug)]
pub struct UpdateContext {
    /// The document.
    pub source: Json,
    /// `index`, or `create` during an upsert.
    pub op: String,
    /// `_id`, `_index`, `_version` and so on, shown as `ctx._id`.
    pub meta: serde_json::Map<String, Json>,
}

/// The result of an update script.
#[derive(Clone, Debug, PartialEq)]
pub struct UpdateResult {
    /// `ctx.op`; empty: it has none yet
    pub op: String,
    /// `ctx._source`
    pub source: Json,
    /// The rest of `ctx`.
    pub meta: serde_json::Map<String, Json>,
}

struct UpdateHost {
    ctx: Value,
    now: i64,
}

impl Host for UpdateHost {
    fn variable(&mut self, name: &str) -> Option<Value> {
        let member = match name {
            "ctx" => return Some(self.ctx.clone()),
            "_source" | "params._source" => "_source",
            "params.ctx" => return Some(self.ctx.clone()),
            _ => return None,
        };
        match &self.ctx {
            Value::Map(m) => m.0.borrow().get(&Value::str(member)).cloned(),
            _ => None,
        }
    }
    fn now_millis(&self) -> i64 {
        self.now
    }
}

/// Runs an update script over `ctx`.
pub fn run_update(
    program: &Program,
    params: &Params,
    context: UpdateContext,
    budget: Budget,
    now_ms: i64,
) -> model::Result<UpdateResult> {
    let mut entries = vec![(Value::str("_source"), Value::from_json(&context.source))];
    if !context.op.is_empty() {
        entries.push((Value::str("op"), Value::str(&context.op)));
    }
    entries.extend(context.meta.iter().map(|(k, v)| (Value::str(k), Value::from_json(v))));
    let ctx = Value::map(entries);
    let mut host = UpdateHost {
        ctx: ctx.clone(),
        now: now_ms,
    };
    program.run(&mut Env {
        params,
        host: &mut host,
        budget,
    })?;
    let mut result = UpdateResult {
        op: context.op,
        source: Json::Null,
        meta: serde_json::Map::new(),
    };
    let Value::Map(map) = &ctx else {
        return Ok(result);
    };
    result.op = String::new();
    for (k, v) in map.0.borrow().items() {
        match k.as_str() {
            Some("_source") => result.source = v.to_json()?,
            Some("op") if matches!(v, Value::Null) => {}
            Some("op") => result.op = v.text(),
            Some(name) => {
                result.meta.insert(name.to_owned(), v.to_json()?);
            }
            None => {}
        }
    }
    Ok(result)
}
