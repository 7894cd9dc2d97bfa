//! Statements: blocks, loops, `try`.

use super::classes::is_a;
use crate::api;
use crate::ast::{Block, Catch, Node, Op, Stmt, StmtKind, Ty};
use crate::runtime::{Flow, R, Run, fault, place_fault, throw};
use crate::value::Value;
use model::ErrorKind;
use std::rc::Rc;
use std::sync::Arc;

impl<'p> Run<'p, '_> {
    /// Runs statements in order, until one leaves the block.
    pub(crate) fn block(&mut self, block: &'p Block) -> R<Flow> {
        for s in block {
            match self.stmt(s)? {
                Flow::Next => {}
                flow => return Ok(flow),
            }
        }
        Ok(Flow::Next)
    }

    pub(super) fn stmt(&mut self, s: &'p Stmt) -> R<Flow> {
        place_fault(self.step(u64::from(s.cost)), s.pos)?;
        match &s.kind {
            StmtKind::Nop => {}
            StmtKind::Expr(e) => {
                self.eval(e)?;
            }
            StmtKind::Let(slot, ty, e) => {
                let v = match e {
                    Some(e) => {
                        let v = self.eval(e)?;
                        if *ty == Ty::Def {
                            v
                        } else {
                            place_fault(self.convert(v, *ty, false), s.pos)?
                        }
                    }
                    None => match ty {
                        Ty::Int | Ty::Short | Ty::Byte => Value::Int(0),
                        Ty::Long => Value::Long(0),
                        Ty::Float => Value::Float(0.0),
                        Ty::Double => Value::Double(0.0),
                        Ty::Bool => Value::Bool(false),
                        _ => Value::Null,
                    },
                };
                *self.local(*slot) = v;
            }
            StmtKind::Block(b) => return self.block(b),
            StmtKind::If(c, yes, no) => {
                return if self.truth(c)? { self.block(yes) } else { self.block(no) };
            }
            StmtKind::Return(e) => {
                return Ok(Flow::Return(match e {
                    Some(e) => self.eval(e)?,
                    None => Value::Null,
                }));
            }
            StmtKind::Break => return Ok(Flow::Break),
            StmtKind::Continue => return Ok(Flow::Continue),
            StmtKind::Assert(c, message, text) => {
                if !self.truth(c)? {
                    let message = match message {
                        Some(m) => {
                            let m = self.eval(m)?;
                            format!("{}. Expression: {text}", self.show(&m)?)
                        }
                        None => format!("assert {text}\n"),
                    };
                    return place_fault(fault("java.lang.AssertionError", ErrorKind::Groovy, message), s.pos);
                }
            }
            StmtKind::Throw(e) => {
                let v = self.eval(e)?;
                return place_fault(throw(&v), s.pos);
            }
            _ => return self.loops(s),
        }
        Ok(Flow::Next)
    }

    #[inline(never)]
    pub(super) fn loops(&mut self, s: &'p Stmt) -> R<Flow> {
        let cost = u64::from(s.cost);
        match &s.kind {
            StmtKind::While(c, body) => {
                while self.truth(c)? {
                    self.step(cost)?;
                    match self.block(body)? {
                        Flow::Break => break,
                        Flow::Return(v) => return Ok(Flow::Return(v)),
                        _ => {}
                    }
                }
            }
            StmtKind::DoWhile(body, c) => loop {
                self.step(cost)?;
                match self.block(body)? {
                    Flow::Break => break,
                    Flow::Return(v) => return Ok(Flow::Return(v)),
                    _ => {}
                }
                if !self.truth(c)? {
                    break;
                }
            },
            StmtKind::For(init, c, update, body) => {
                self.block(init)?;
                loop {
                    if let Some(c) = c
                        && !self.truth(c)?
                    {
                        break;
                    }
                    self.step(cost)?;
                    match self.block(body)? {
                        Flow::Break => break,
                        Flow::Return(v) => return Ok(Flow::Return(v)),
                        _ => {}
                    }
                    for u in update {
                        self.eval(u)?;
                    }
                }
            }
            StmtKind::ForIn(slot, ty, over, body) => {
                let over_value = self.eval(over)?;
                let items = place_fault(api::iterate(self, &over_value), s.pos)?;
                for v in items {
                    self.step(cost)?;
                    let v = if *ty == Ty::Def {
                        v
                    } else {
                        place_fault(self.convert(v, *ty, false), s.pos)?
                    };
                    *self.local(*slot) = v;
                    match self.block(body)? {
                        Flow::Break => break,
                        Flow::Return(v) => return Ok(Flow::Return(v)),
                        _ => {}
                    }
                }
            }
            StmtKind::Switch(on, cases) => return self.switch(on, cases),
            StmtKind::Try(body, catches, last) => return self.try_catch(body, catches, last),
            _ => {}
        }
        Ok(Flow::Next)
    }

    /// `switch`: runs from the case that matches on, or from the default.
    fn switch(&mut self, on: &'p Node, cases: &'p [(Option<Node>, Block)]) -> R<Flow> {
        let on = self.eval(on)?;
        let mut entry = cases.iter().position(|c| c.0.is_none());
        for (i, (when, _)) in cases.iter().enumerate() {
            if let Some(when) = when {
                let v = self.eval(when)?;
                let list = matches!(&v, Value::List(_)) && !matches!(on, Value::List(_));
                let hit = if list {
                    self.apply(Op::In, &on, &v)?.is_truthy()
                } else {
                    self.equal(&on, &v)?
                };
                if hit {
                    entry = Some(i);
                    break;
                }
            }
        }
        for (_, body) in cases.iter().skip(entry.unwrap_or(cases.len())) {
            match self.block(body)? {
                Flow::Next => {}
                Flow::Break => break,
                flow => return Ok(flow),
            }
        }
        Ok(Flow::Next)
    }

    /// `try`: a fault that is not fatal goes to the first `catch` of its class; `finally` runs in any case but a fatal one.
    fn try_catch(&mut self, body: &'p Block, catches: &'p [Catch], last: &'p Block) -> R<Flow> {
        let depth = self.depth;
        let mut result = self.block(body);
        if let Err(f) = &result {
            let caught = if f.fatal {
                None
            } else {
                catches.iter().find(|c| c.types.iter().any(|t| is_a(&f.class, t)))
            };
            if let Some(c) = caught {
                debug_assert_eq!(self.depth, depth, "each function that a fault ends is left");
                let message = f.message.as_deref().map(Arc::from);
                let v = Value::Exception(Rc::new((f.class.clone(), message)));
                *self.local(c.slot) = v;
                result = self.block(&c.body);
            }
        }
        if !result.as_ref().is_err_and(|f| f.fatal) {
            match self.block(last)? {
                Flow::Next => {}
                flow => return Ok(flow),
            }
        }
        result
    }
}
