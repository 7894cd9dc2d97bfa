//! Scripts that filter intervals.

use super::positions::Span;
use crate::interrupt::Interrupt;
use model::Result;

/// A script that chooses intervals.
pub(crate) struct IntervalScript {
    pub(crate) program: script::Program,
    pub(crate) params: script::Params,
    pub(crate) interrupt: Interrupt,
}

impl PartialEq for IntervalScript {
    fn eq(&self, other: &IntervalScript) -> bool {
        std::ptr::eq(self, other)
    }
}

impl IntervalScript {
    pub(crate) fn accepts(&self, span: Span) -> Result<bool> {
        self.interrupt.check_run()?;
        let mut host = AtInterval(span, &self.interrupt);
        let value = self.program.run(&mut script::Env {
            params: &self.params,
            host: &mut host,
            budget: script::Budget::default(),
        })?;
        Ok(matches!(value, script::Value::Bool(true)))
    }
}

/// The variables of a script for one interval.
struct AtInterval<'a>(Span, &'a Interrupt);

impl script::Host for AtInterval<'_> {
    fn check_interrupt(&self) -> Result<()> {
        self.1.check()
    }
    fn variable(&mut self, name: &str) -> Option<script::Value> {
        let Span { start, end, gaps } = self.0;
        (name == "interval")
            .then(|| script::Value::from_json(&serde_json::json!({ "start": start, "end": end - 1, "gaps": gaps })))
    }
}
