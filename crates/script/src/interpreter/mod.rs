//! Walks the tree of a script: statements and expressions. Methods and operators are in `api`, slots and budgets in `runtime`.

use crate::ast::{Stmt, StmtKind};
use crate::runtime::{Flow, R, Run};
use crate::value::Value;

mod assignments;
mod classes;
mod expressions;
mod statements;

impl Run<'_, '_> {
    /// Runs the whole script.
    pub(crate) fn script(&mut self) -> R {
        let tree = self.tree;
        if let [
            Stmt {
                cost,
                kind: StmtKind::Return(Some(e)),
                ..
            },
        ] = tree.body.as_slice()
        {
            self.step(u64::from(*cost))?;
            return self.eval(e);
        }
        match self.block(&tree.body)? {
            Flow::Return(v) => Ok(v),
            _ => Ok(Value::Null),
        }
    }
}
