//! `script`: documents that a script accepts.

use super::Planner;
use crate::scripts::{Failure, Script};
use dsl::query::script_source::ScriptSource;
use model::Result;
use script::Value;
use segment::segment_view::SegmentView;
use std::sync::Arc;

impl Planner<'_> {
    pub(super) fn script_filter(&self, source: &ScriptSource, boost: f32) -> Result<crate::scorers::node::Shared> {
        let script = Script::new(self.view, source, self.cx)?;
        let failure = self.failure.clone();
        let level = self.level();
        let groovy = script.lang() == script::Lang::Groovy;
        Ok(Arc::new(crate::scorers::filter::FilterNode {
            boost,
            what: "ScriptQuery".into(),
            docs: move |segment: &SegmentView| {
                let bound = script.open(segment)?;
                let failure = failure.clone();
                let set = level.restrict(segment, crate::scorers::constant::every(segment))?;
                Ok(crate::scorers::rescored::rescore(set, move |doc, _| {
                    failure.run(|| match bound.value(doc, 0.0, None)? {
                        Value::Bool(true) => Ok(Some(1.0)),
                        Value::Bool(false) | Value::Null => Ok(None),
                        // In 2015 every number but 0 was yes.
                        value if groovy => match value.as_i64().or_else(|| value.as_f64().map(|n| n as i64)) {
                            Some(number) => Ok((number != 0).then_some(1.0)),
                            None => {
                                let reason = format!("Can't handle type [{}] in script filter", value.text());
                                Err(model::Error::illegal(reason))
                            }
                        },
                        _ => Ok(None),
                    })
                }))
            },
        }))
    }

    /// Where a scorer leaves an error.
    pub(super) fn failure(&self) -> Failure {
        self.failure.clone()
    }
}
