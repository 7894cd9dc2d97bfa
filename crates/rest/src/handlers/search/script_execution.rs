//! `_scripts/painless/_execute`: runs a script once and tells what it comes to.
//!
//! Not here: how it sees a document (`relations::script_execution`), scripts that are kept (`stored_scripts`).

use crate::blocking::aside;
use crate::call::Call;
use crate::respond::Answer;
use async_recursion::async_recursion as boxed;
use dsl::json::Node;
use dsl::query::script_source::{ScriptSource, ScriptText};
use dsl::query::{Parsing, Query};
use engine::Source;
use model::{Dialect, Error, ErrorKind, IndexName, Result};
use relations::script_execution::{ScriptExecution, ScriptRole};
use script::{Budget, Env, Host, Lang, Params};
use serde_json::{Value, json};

const REQUEST: &str = "painless_execute_request";

const SETUP: &str = "execute_script_context";

/// Where a script can be run here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Context {
    PainlessTest,
    Filter,
    Score,
}

impl Context {
    const NAMES: &[(&str, Context)] = &[
        ("painless_test", Context::PainlessTest),
        ("filter", Context::Filter),
        ("score", Context::Score),
    ];

    fn parse(name: &str) -> Result<Context> {
        match Context::NAMES.iter().find(|(known, _)| *known == name) {
            Some((_, context)) => Ok(*context),
            None => {
                let hint = model::nearest::question(name, Context::NAMES.iter().map(|(known, _)| *known));
                let cause = Error::new(
                    ErrorKind::UnsupportedOperation,
                    format!("unsupported script context name [{name}]{hint}"),
                );
                let reason = format!("Failed to build [{REQUEST}] after last required field arrived");
                Err(Error::new(ErrorKind::XContentParse, reason).with_cause(cause))
            }
        }
    }
}

/// `context_setup`.
#[derive(Debug, Default)]
struct Setup {
    index: Option<String>,
    document: Option<Value>,
    query: Option<Query>,
}

impl Setup {
    fn parse(node: Node, dialect: Dialect) -> Result<Setup> {
        let mut fields = node.fields(SETUP)?;
        let setup = Setup {
            index: fields.take_string("index")?,
            document: fields.take_value("document"),
            query: match fields.take("query") {
                Some(query) => Some(Query::parse(query, &mut Parsing::new(dialect))?),
                None => None,
            },
        };
        fields.finish()?;
        Ok(setup)
    }

    /// The index and the document, both of which a context needs.
    fn require_both(self) -> Result<(String, Value, Option<Query>)> {
        let problem = match (self.index, self.document) {
            (Some(index), Some(document)) if document.is_object() => return Ok((index, document, self.query)),
            (None, _) => "index is a required parameter for current context",
            (_, None) => "document is a required parameter for current context",
            (_, Some(_)) => "document must be an object",
        };
        Err(invalid(problem))
    }
}

fn invalid(problem: &str) -> Error {
    Error::new(
        ErrorKind::ActionRequestValidation,
        format!("Validation Failed: 1: {problem};"),
    )
}

struct NoDocument;

impl Host for NoDocument {}

/// `POST /_scripts/painless/_execute`, `GET` too.
#[boxed]
pub(crate) async fn execute(mut call: Call) -> Result<Answer> {
    let body = call
        .json()?
        .ok_or_else(|| Error::new(ErrorKind::Parse, "request body or source parameter is required"))?;
    call.params.finish()?;
    let mut fields = body.fields(REQUEST)?;
    let script = fields
        .take("script")
        .map(|script| ScriptSource::parse(script, call.dialect))
        .transpose()?;
    let context = match fields.take_string("context")? {
        Some(name) => Context::parse(&name)?,
        None => Context::PainlessTest,
    };
    let setup = fields
        .take("context_setup")
        .map(|setup| Setup::parse(setup, call.dialect))
        .transpose()?;
    fields.finish()?;
    let script = script.ok_or_else(|| Error::illegal("Required [script]"))?;
    let ScriptText::Inline(text) = &script.text else {
        return Err(invalid("only inline scripts are supported"));
    };
    let name = script.lang.as_deref().unwrap_or("painless");
    let lang = Lang::parse(name)?;
    let program = call.rest.compile_script(text, lang)?;
    let role = match context {
        Context::PainlessTest => {
            let params = Params::from_json(&script.params);
            // A script may take many steps: other requests go on beside it.
            let result = aside(true, async move {
                let value = program.run(&mut Env {
                    params: &params,
                    host: &mut NoDocument,
                    budget: Budget::default(),
                })?;
                Ok(value.text())
            });
            return Ok(Answer::ok(json!({ "result": result.await? })));
        }
        Context::Filter => ScriptRole::Filter,
        Context::Score => ScriptRole::Score(None),
    };
    let (index, document, query) = setup.unwrap_or_default().require_both()?;
    let role = match role {
        ScriptRole::Score(_) => ScriptRole::Score(query.map(Box::new)),
        role => role,
    };
    let execution = ScriptExecution {
        index: IndexName::new(index),
        source: Source::from_value(&document),
        script: ScriptSource {
            lang: Some(name.to_owned()),
            ..script
        },
        role,
        dialect: call.dialect,
    };
    let rest = call.rest.clone();
    let result = aside(true, async move { rest.relations.execute_script(execution).await }).await?;
    Ok(Answer::ok(json!({ "result": result })))
}
