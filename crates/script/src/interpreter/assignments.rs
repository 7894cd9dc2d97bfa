//! Assignments and increments.

use crate::api;
use crate::ast::{Node, Op, Target, Ty};
use crate::runtime::{R, Run, cast, illegal, null};
use crate::value::Value;
use std::sync::Arc;

impl<'p> Run<'p, '_> {
    pub(super) fn assign(&mut self, target: &'p Target, op: Option<Op>, value: &'p Node) -> R {
        match target {
            Target::Local(slot, ty) => {
                let v = match op {
                    None => {
                        let v = self.eval(value)?;
                        if *ty == Ty::Def { v } else { self.convert(v, *ty, false)? }
                    }
                    Some(op) => {
                        let old = self.local(*slot).clone();
                        let by = self.eval(value)?;
                        let v = self.apply(op, &old, &by)?;
                        if *ty == Ty::Def { v } else { self.convert(v, *ty, true)? }
                    }
                };
                *self.local(*slot) = v.clone();
                Ok(v)
            }
            Target::Root(slot) => {
                let v = match op {
                    None => self.eval(value)?,
                    Some(op) => {
                        let old = self.root(*slot)?;
                        let by = self.eval(value)?;
                        self.apply(op, &old, &by)?
                    }
                };
                self.set_root(*slot, v.clone());
                Ok(v)
            }
            Target::Param(slot) => {
                let v = match op {
                    None => self.eval(value)?,
                    Some(op) => {
                        let old = self.param(*slot)?;
                        let by = self.eval(value)?;
                        self.apply(op, &old, &by)?
                    }
                };
                self.set_param(*slot, v.clone());
                Ok(v)
            }
            Target::Field(of, name) => {
                let of = self.eval(of)?;
                let v = match op {
                    None => self.eval(value)?,
                    Some(op) => {
                        let old = api::get(self, &of, name)?;
                        let by = self.eval(value)?;
                        self.apply(op, &old, &by)?
                    }
                };
                self.put_field(&of, name, v.clone())?;
                Ok(v)
            }
            Target::Index(of, i) => {
                let (of, i) = (self.eval(of)?, self.eval(i)?);
                let v = match op {
                    None => self.eval(value)?,
                    Some(op) => {
                        let old = api::index(self, &of, &i)?;
                        let by = self.eval(value)?;
                        self.apply(op, &old, &by)?
                    }
                };
                api::put_index(self, &of, &i, v.clone())?;
                Ok(v)
            }
        }
    }

    pub(super) fn put_field(&mut self, of: &Value, name: &Arc<str>, v: Value) -> R<()> {
        match of {
            Value::Map(map) => {
                self.adopt(of, &v)?;
                map.0.borrow_mut().put(Value::Str(name.clone()), v);
                Ok(())
            }
            Value::Null if self.groovy() => null(format!("Cannot set property '{name}' on null object")),
            Value::Null => null(format!("cannot write field [{name}] of null")),
            _ => illegal(format!("dynamic setter [{}, {name}] not found", of.class())),
        }
    }

    pub(super) fn increment(&mut self, target: &'p Target, by: i32, prefix: bool) -> R {
        let step = |run: &mut Self, old: &Value| match old {
            Value::Null => null("Cannot invoke \"Object.getClass()\" because \"value\" is null"),
            Value::Char(c) => Ok(char::from_u32((*c as u32).wrapping_add_signed(by)).map_or(Value::Null, Value::Char)),
            v if v.as_f64().is_none() => cast(format!(
                "Cannot apply [{}] operation to type [{}]",
                if by > 0 { "++" } else { "--" },
                v.class()
            )),
            v => run.apply(Op::Add, v, &Value::Int(by)),
        };
        let (old, new) = match target {
            Target::Local(slot, ty) => {
                let old = self.local(*slot).clone();
                let mut new = step(self, &old)?;
                if matches!(ty, Ty::Byte | Ty::Short) {
                    new = self.convert(new, *ty, true)?;
                }
                *self.local(*slot) = new.clone();
                (old, new)
            }
            Target::Root(slot) => {
                let old = self.root(*slot)?;
                let new = step(self, &old)?;
                self.set_root(*slot, new.clone());
                (old, new)
            }
            Target::Param(slot) => {
                let old = self.param(*slot)?;
                let new = step(self, &old)?;
                self.set_param(*slot, new.clone());
                (old, new)
            }
            Target::Field(of, name) => {
                let of = self.eval(of)?;
                let old = api::get(self, &of, name)?;
                let new = step(self, &old)?;
                self.put_field(&of, name, new.clone())?;
                (old, new)
            }
            Target::Index(of, i) => {
                let (of, i) = (self.eval(of)?, self.eval(i)?);
                let old = api::index(self, &of, &i)?;
                let new = step(self, &old)?;
                api::put_index(self, &of, &i, new.clone())?;
                (old, new)
            }
        };
        Ok(if prefix { new } else { old })
    }
}
