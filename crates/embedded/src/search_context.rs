//! The context that `search` runs in: limits, scripts, clock, and who asks.
//!
//! Not here: which views are searched (`searching`).

use crate::store::Store;
use dsl::query::Query;
use dsl::query::script_source::{ScriptSource, ScriptText};
use engine::See;
use model::{Dialect, Error, ErrorKind, Persona, Result, settings};
use search::interrupt::Interrupt;
use search::phases::Phases;
use search::plan::Context;
use segment::searchable::IndexView;
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// An index with the filter of the aliases it was reached by.
pub(crate) type Searched = (Arc<IndexView>, Option<Query>);

impl Store {
    /// Calls `f` with what queries need.
    pub(crate) fn with_context<T>(
        &self,
        see: See,
        dialect: Dialect,
        types: &[String],
        interrupt: &Interrupt,
        f: impl FnOnce(&Context<'_>) -> Result<T>,
    ) -> Result<T> {
        let catalog = self.catalog_now();
        let scripts = |source: &ScriptSource| {
            let program = compile(&catalog.scripts, source)?;
            self.script_compilations.fetch_add(1, Ordering::Relaxed);
            Ok(program)
        };
        let number = |setting| usize::try_from(catalog.cluster_number(setting)).unwrap_or(usize::MAX);
        f(&Context {
            phases: Phases::default(),
            now_ms: self.clock.wall_ms(),
            max_clause_count: number(settings::MAX_CLAUSE_COUNT),
            max_buckets: number(settings::MAX_BUCKETS),
            max_phrase_ways: number(settings::MAX_PHRASE_WAYS),
            scripts: &scripts,
            see,
            interrupt: interrupt.clone(),
            lost_sorts: dialect.persona.is_opensearch() || dialect.persona == Persona::Es7,
            expensive: catalog.cluster_text(settings::ALLOW_EXPENSIVE_QUERIES) != "false",
            opensearch: matches!(dialect.persona, Persona::Opensearch2 | Persona::Opensearch3),
            bm25_factor: if dialect.persona == Persona::Opensearch3 { 1.0 } else { 2.2 },
            types,
            profile: std::cell::Cell::new(false),
            filters_score: std::cell::Cell::new(true),
        })
    }
}

/// Compiles an inline or a stored script.
pub(crate) fn compile(stored: &std::collections::BTreeMap<String, Value>, source: &ScriptSource) -> Result<script::Program> {
    let lang = |name: Option<&str>| {
        let name = name.unwrap_or(if source.typed { "groovy" } else { "painless" });
        script::Lang::from_name(name).ok_or_else(|| Error::illegal(format!("script_lang not supported [{name}]")))
    };
    match &source.text {
        ScriptText::Inline(text) => script::compile(text, lang(source.lang.as_deref())?),
        ScriptText::Stored(id) => {
            let body = stored.get(id).ok_or_else(|| {
                Error::new(
                    ErrorKind::ScriptMissing,
                    format!("unable to find script [{id}] in cluster state"),
                )
            })?;
            let body = if body["script"].is_object() { &body["script"] } else { body };
            script::compile(body["source"].as_str().unwrap_or_default(), lang(body["lang"].as_str())?)
        }
    }
}
