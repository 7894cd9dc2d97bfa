//! Calls of functions and closures.

use super::*;
use crate::ast::Function;
use crate::value::Closure;

impl<'p> Run<'p, '_> {
    /// A closure of the current frame.
    pub(crate) fn closure(&self, lambda: u32) -> Closure {
        Closure {
            lambda,
            base: self.base,
            frame: self.frame,
        }
    }

    /// Calls a function of the script.
    pub(crate) fn call_function(&mut self, f: &'p Function, args: Vec<Value>) -> R {
        if args.len() != f.params.len() {
            return missing_method("Script1", &f.name, &args);
        }
        self.deepen(f)?;
        let base = std::mem::replace(&mut self.base, self.scratch.locals.len());
        let frame = std::mem::replace(&mut self.frame, new_frame());
        self.scratch.frames.push(self.frame);
        let top = self.base;
        self.scratch.locals.resize(top + f.slots.1 as usize, Value::Null);
        let mut result = Ok(Flow::Next);
        for ((slot, ty), v) in f.params.iter().zip(args) {
            match self.convert(v, ty.0, false) {
                Ok(v) => *self.local(*slot) = v,
                Err(e) => result = Err(e),
            }
        }
        if result.is_ok() {
            result = (self.walk_body)(self, &f.body);
        }
        debug_assert!(
            self.scratch.locals.len() >= top,
            "a function leaves the locals of those that called it where they are"
        );
        self.scratch.locals.truncate(top);
        let left = self.scratch.frames.pop();
        debug_assert_eq!(left, Some(self.frame), "a function leaves the frame that it entered");
        self.base = base;
        self.frame = frame;
        self.depth -= u32::from(f.depth) + 2;
        match result? {
            Flow::Return(v) => Ok(v),
            _ => Ok(Value::Null),
        }
    }

    /// Enters a function, if the trees of functions do not add up to too much.
    fn deepen(&mut self, f: &Function) -> R<()> {
        self.step(4)?;
        let depth = self.depth + u32::from(f.depth) + 2;
        if depth > MAX_DEPTH {
            return exhausted_error("[scripting] stack overflow: functions call each other too deeply");
        }
        self.depth = depth;
        Ok(())
    }

    /// Calls a closure.
    pub(crate) fn call_value(&mut self, f: &Value, args: &[Value]) -> R {
        let Value::Lambda(closure) = f else {
            return match f {
                Value::Null => null("Cannot call null"),
                _ => cast(format!("Cannot call a value of type [{}]", f.class())),
            };
        };
        let tree = self.tree;
        let lambda = tree.lambdas.get(closure.lambda as usize);
        let Some(lambda) = lambda.filter(|_| self.scratch.frames.contains(&closure.frame)) else {
            return illegal("a closure can't be called after the function that made it has ended");
        };
        self.deepen(lambda)?;
        let base = std::mem::replace(&mut self.base, closure.base);
        let frame = std::mem::replace(&mut self.frame, closure.frame);
        // A closure that calls itself: its own slots are put aside.
        let (from, to) = lambda.slots;
        debug_assert!(
            from <= to && closure.base <= self.scratch.locals.len(),
            "the locals of a closure lie in the frame of its function"
        );
        let kept: Vec<Value> = (from..to).map(|slot| std::mem::take(self.local(slot))).collect();
        for (i, (slot, _)) in lambda.params.iter().enumerate() {
            *self.local(*slot) = match args {
                // `{ k, v -> }` over entries, `{ a, b -> }` over pairs.
                [Value::Entry(e)] if lambda.params.len() == 2 => {
                    if i == 0 {
                        e.1.clone()
                    } else {
                        Value::of_entry(e)
                    }
                }
                _ => args.get(i).cloned().unwrap_or_default(),
            };
        }
        let result = (self.walk_body)(self, &lambda.body);
        for (slot, v) in (from..to).zip(kept) {
            *self.local(slot) = v;
        }
        self.base = base;
        self.frame = frame;
        self.depth -= u32::from(lambda.depth) + 2;
        match result? {
            Flow::Return(v) => Ok(v),
            _ => Ok(Value::Null),
        }
    }
    /// How many parameters a closure takes.
    pub(crate) fn arity(&self, f: &Value) -> usize {
        match f {
            Value::Lambda(c) => self.tree.lambdas.get(c.lambda as usize).map_or(1, |l| l.params.len()),
            _ => 0,
        }
    }
}
