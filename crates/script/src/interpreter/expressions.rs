//! Values of expressions.

use super::classes::instance_of;
use crate::Lang;
use crate::api;
use crate::api::ops::fast;
use crate::ast::{Kind, Member, Node};
use crate::runtime::{R, Run, cast, fault, illegal, missing_method, null, place_fault};
use crate::value::Value;
use model::ErrorKind;
use std::rc::Rc;

impl<'p> Run<'p, '_> {
    /// The value of an expression.
    pub(crate) fn eval(&mut self, node: &'p Node) -> R {
        match &node.kind {
            Kind::Const(lit) => return Ok(lit.value()),
            Kind::Local(slot) => return Ok(self.local(*slot).clone()),
            Kind::Score => {
                if let Some(score) = self.host.score() {
                    return Ok(Value::Double(score));
                }
            }
            Kind::Bin(op, p) => {
                let a = self.eval(&p.0)?;
                let b = self.eval(&p.1)?;
                return match fast(*op, &a, &b) {
                    Some(v) => Ok(v),
                    None => place_fault(api::ops::binary(self, *op, &a, &b), node.pos),
                };
            }
            _ => {}
        }
        place_fault(self.eval_more(node), node.pos)
    }

    pub(super) fn eval_more(&mut self, node: &'p Node) -> R {
        match &node.kind {
            Kind::Root(slot) => self.root(*slot),
            Kind::Param(slot) => self.param(*slot),
            Kind::DocValue(slot) => self.doc_value(*slot),
            Kind::Field(m) => self.field(m),
            Kind::Index(p) => {
                let (of, i) = (self.eval(&p.0)?, self.eval(&p.1)?);
                api::index(self, &of, &i)
            }
            Kind::Call(m, args) => self.method(m, args),
            Kind::And(p) => Ok(Value::Bool(self.truth(&p.0)? && self.truth(&p.1)?)),
            Kind::Or(p) => Ok(Value::Bool(self.truth(&p.0)? || self.truth(&p.1)?)),
            Kind::Not(n) => Ok(Value::Bool(!self.truth(n)?)),
            Kind::Ternary(t) => {
                if self.truth(&t.0)? {
                    self.eval(&t.1)
                } else {
                    self.eval(&t.2)
                }
            }
            Kind::Elvis(p) => {
                let v = self.eval(&p.0)?;
                let holds = if self.groovy() {
                    v.is_truthy()
                } else {
                    !matches!(v, Value::Null)
                };
                if holds { Ok(v) } else { self.eval(&p.1) }
            }
            Kind::Assign(p, op) => self.assign(&p.0, *op, &p.1),
            Kind::Inc(target, by, prefix) => self.increment(target, *by, *prefix),
            Kind::Math(f, args) => {
                let args = self.numbers(args)?;
                f.call(&args)
            }
            Kind::ScoreFn(f, args) => {
                let args = self.values(args)?;
                f.call(self, &args)
            }
            _ => self.eval_rare(node),
        }
    }

    #[inline(never)]
    pub(super) fn eval_rare(&mut self, node: &'p Node) -> R {
        match &node.kind {
            Kind::Regex(p) => Ok(Value::Regex(p.clone())),
            Kind::Score => match self.host.variable("_score") {
                Some(v) => Ok(v),
                None if self.groovy() => fault(
                    "groovy.lang.MissingPropertyException",
                    ErrorKind::Groovy,
                    "No such property: _score for class: Script1",
                ),
                None => illegal("cannot resolve symbol [_score]"),
            },
            Kind::Doc(slot) => self.doc(*slot).map(|_| Value::Doc(*slot)),
            Kind::DocAll => Ok(Value::DocAll),
            Kind::Func(i, args) => self.call_named(*i as usize, args),
            Kind::Invoke(f, args) => {
                let f = self.eval(f)?;
                let args = self.values(args)?;
                self.call_value(&f, &args)
            }
            Kind::Static(class, name, args) => {
                let args = self.values(args)?;
                api::statics::call(self, class, name, &args)
            }
            Kind::New(class, args) => {
                let args = self.values(args)?;
                api::statics::construct(self, class, &args)
            }
            Kind::Neg(n) => {
                let v = self.eval(n)?;
                self.negate(v)
            }
            Kind::BitNot(n) => match self.eval(n)? {
                Value::Int(n) => Ok(Value::Int(!n)),
                Value::Long(n) => Ok(Value::Long(!n)),
                v => cast(format!("Cannot apply [~] operation to type [{}]", v.class())),
            },
            Kind::List(items) => {
                let items = self.values(items)?;
                self.list(items)
            }
            Kind::Map(items) => {
                let mut pairs = Vec::with_capacity(items.len());
                for (k, v) in items {
                    pairs.push((self.eval(k)?, self.eval(v)?));
                }
                self.alloc(pairs.len() * 48 + 64)?;
                Ok(Value::map(pairs))
            }
            Kind::Range(p, closed) => self.range(p, *closed),
            Kind::Cast(ty, n) => {
                let v = self.eval(n)?;
                self.convert(v, *ty, true)
            }
            Kind::InstanceOf(n, name) => {
                let v = self.eval(n)?;
                Ok(Value::Bool(instance_of(&v, name)))
            }
            Kind::Lambda(i) => {
                self.alloc(64)?;
                Ok(Value::Lambda(Rc::new(self.closure(*i))))
            }
            Kind::Text(parts) => {
                let mut out = String::new();
                for part in parts {
                    let v = self.eval(part)?;
                    out.push_str(&self.show(&v)?);
                }
                self.text(out)
            }
            _ => Ok(Value::Null),
        }
    }

    /// A function of the script, or a closure in an undeclared variable.
    fn call_named(&mut self, i: usize, args: &'p [Node]) -> R {
        let args = self.values(args)?;
        let tree = self.tree;
        let function = tree.links.get(i).and_then(|l| tree.functions.get(*l));
        if let Some(f) = function {
            return self.call_function(f, args);
        }
        let name = tree.names.get(i).cloned().unwrap_or_default();
        if let Some(slot) = tree.roots.iter().position(|r| *r == name) {
            let f = self.root(slot as u32)?;
            return self.call_value(&f, &args);
        }
        missing_method("Script1", &name, &args)
    }

    fn negate(&self, v: Value) -> R {
        match v {
            Value::Int(n) => Ok(Value::Int(n.wrapping_neg())),
            Value::Long(n) => Ok(Value::Long(n.wrapping_neg())),
            Value::Float(n) => Ok(Value::Float(-n)),
            Value::Double(n) => Ok(Value::Double(-n)),
            Value::Char(c) => Ok(Value::Int((c as i32).wrapping_neg())),
            Value::Bool(b) if self.lang == Lang::Expression => Ok(Value::Double(if b { -1.0 } else { 0.0 })),
            Value::Null => null("Cannot invoke \"Object.getClass()\" because \"value\" is null"),
            v => cast(format!("Cannot apply [-] operation to type [{}]", v.class())),
        }
    }

    /// `a..b`, or `a..<b` where it is not closed.
    fn range(&mut self, ends: &'p (Node, Node), closed: bool) -> R {
        let (a, b) = (self.eval(&ends.0)?, self.eval(&ends.1)?);
        let (Some(a), Some(b)) = (a.as_i64(), b.as_i64()) else {
            return cast("a range needs whole numbers");
        };
        let b = if closed {
            b
        } else {
            b.wrapping_sub(i64::from(b > a) - i64::from(b < a))
        };
        let n = a.abs_diff(b).saturating_add(1);
        if !closed && a == b && ends.0.size == ends.1.size {
            return self.list(Vec::new());
        }
        self.step(n)?;
        self.alloc(usize::try_from(n).unwrap_or(usize::MAX).saturating_mul(24))?;
        let item = |n: i64| i32::try_from(n).map_or(Value::Long(n), Value::Int);
        Ok(Value::list(if a <= b {
            (a..=b).map(item).collect()
        } else {
            (b..=a).rev().map(item).collect()
        }))
    }

    pub(super) fn field(&mut self, m: &'p Member) -> R {
        let of = self.eval(&m.target)?;
        if m.spread {
            let mut out = Vec::new();
            for item in of.items().unwrap_or_default() {
                out.push(api::get(self, &item, &m.name)?);
            }
            return self.list(out);
        }
        if m.safe && matches!(of, Value::Null) {
            return Ok(Value::Null);
        }
        if let Value::Map(map) = &of
            && let Some(v) = map.0.borrow().get_str(&m.name)
        {
            return Ok(v.clone());
        }
        api::get(self, &of, &m.name)
    }

    pub(super) fn method(&mut self, m: &'p Member, args: &'p [Node]) -> R {
        let of = self.eval(&m.target)?;
        if m.safe && matches!(of, Value::Null) {
            return Ok(Value::Null);
        }
        if m.spread {
            let args = self.values(args)?;
            let mut out = Vec::new();
            for item in of.items().unwrap_or_default() {
                out.push(api::call(self, &item, &m.name, &args)?);
            }
            return self.list(out);
        }
        match args {
            [] => api::call(self, &of, &m.name, &[]),
            [a] => {
                let a = self.eval(a)?;
                api::call(self, &of, &m.name, &[a])
            }
            _ => {
                let args = self.values(args)?;
                api::call(self, &of, &m.name, &args)
            }
        }
    }

    pub(super) fn values(&mut self, nodes: &'p [Node]) -> R<Vec<Value>> {
        let mut out = Vec::with_capacity(nodes.len());
        for n in nodes {
            out.push(self.eval(n)?);
        }
        Ok(out)
    }

    pub(super) fn numbers(&mut self, nodes: &'p [Node]) -> R<[Value; 3]> {
        let mut out = [Value::Null, Value::Null, Value::Null];
        for (n, cell) in nodes.iter().zip(&mut out) {
            *cell = match self.eval(n)? {
                Value::Null => return null("Cannot read a number: value is null"),
                Value::Bool(b) if self.lang == Lang::Expression => Value::Double(f64::from(u8::from(b))),
                v if v.as_f64().is_none() => {
                    return cast(format!("Cannot cast [{}] to [double].", v.class()));
                }
                v => v,
            };
        }
        Ok(out)
    }

    pub(super) fn truth(&mut self, node: &'p Node) -> R<bool> {
        match self.eval(node)? {
            Value::Bool(b) => Ok(b),
            v if self.groovy() => Ok(v.is_truthy()),
            v if self.lang == Lang::Expression => Ok(v.as_f64().is_some_and(|n| n != 0.0)),
            Value::Null => place_fault(null("Cannot cast null to [boolean]."), node.pos),
            v => place_fault(cast(format!("Cannot cast [{}] to [boolean].", v.class())), node.pos),
        }
    }
}
