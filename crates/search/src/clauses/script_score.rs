//! `script_score`: which script computes the scores of which query.

use super::Planner;
use super::function_score::script_text;
use crate::scorers::node::Shared;
use crate::scorers::script_score::ScriptNode;
use crate::scripts::Script;
use dsl::query::Query;
use dsl::query::script_source::ScriptSource;
use model::Result;
use std::sync::Arc;

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
}
