//! Walks the tree: expressions, statements, operators, budgets and faults. What methods do is in
//! `api`; how names became slots is in `check`.

use crate::api;
use crate::ast::{Block, Function, Kind, Member, Node, Op, Stmt, StmtKind, Target, Tree, Ty};
use crate::value::{Closure, DocValues, Entries, Params, Value, equal, print};
use crate::{Host, Lang};
use model::ErrorKind;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// How deep the trees of functions being run may add up.
const MAX_DEPTH: u32 = 360;
/// A fault that does not know its place yet.
const NOWHERE: u32 = u32::MAX;

/// What stops a script: Java's exception, as far as scripts and answers see it.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) class: Arc<str>,
    pub(crate) kind: ErrorKind,
    pub(crate) message: Option<String>,
    /// Can't be caught: a budget.
    pub(crate) fatal: bool,
    pub(crate) pos: u32,
}

pub(crate) type R<T = Value> = Result<T, Box<Fault>>;

pub(crate) fn fault<T>(class: &str, kind: ErrorKind, message: impl Into<String>) -> R<T> {
    Err(Box::new(Fault {
        class: class.into(),
        kind,
        message: Some(message.into()),
        fatal: false,
        pos: NOWHERE,
    }))
}
pub(crate) fn illegal<T>(message: impl Into<String>) -> R<T> {
    fault("java.lang.IllegalArgumentException", ErrorKind::IllegalArgument, message)
}
pub(crate) fn cast<T>(message: impl Into<String>) -> R<T> {
    fault("java.lang.ClassCastException", ErrorKind::ClassCast, message)
}
pub(crate) fn null<T>(message: impl Into<String>) -> R<T> {
    fault("java.lang.NullPointerException", ErrorKind::NullPointer, message)
}
pub(crate) fn bounds<T>(i: i64, len: usize) -> R<T> {
    fault(
        "java.lang.IndexOutOfBoundsException",
        ErrorKind::ArrayIndexOutOfBounds,
        format!("Index {i} out of bounds for length {len}"),
    )
}
pub(crate) fn arithmetic<T>(message: &str) -> R<T> {
    fault("java.lang.ArithmeticException", ErrorKind::Arithmetic, message)
}
fn exhausted<T>(message: impl Into<String>) -> R<T> {
    Err(Box::new(Fault {
        class: "painless_error".into(),
        kind: ErrorKind::CircuitBreaking,
        message: Some(message.into()),
        fatal: true,
        pos: NOWHERE,
    }))
}

enum Flow {
    Next,
    Return(Value),
    Break,
    Continue,
}

/// Buffers kept from run to run.
#[derive(Default)]
struct Scratch {
    locals: Vec<Value>,
    roots: Vec<Option<Value>>,
    params: Vec<Option<Value>>,
    docs: Vec<(bool, DocValues)>,
    frames: Vec<u64>,
}

thread_local! {
    static SCRATCH: Cell<Option<Box<Scratch>>> = const { Cell::new(None) };
    static FRAME: Cell<u64> = const { Cell::new(1) };
}

fn new_frame() -> u64 {
    FRAME.with(|f| {
        f.set(f.get() + 1);
        f.get()
    })
}

/// A running script.
pub(crate) struct Run<'p, 'e> {
    pub(crate) tree: &'p Tree,
    pub(crate) lang: Lang,
    pub(crate) host: &'e mut dyn Host,
    given: &'e Params,
    steps: u64,
    steps_max: u64,
    memory: usize,
    memory_max: usize,
    depth: u32,
    base: usize,
    frame: u64,
    scratch: Box<Scratch>,
    /// Fields of `doc[…]` not known when compiling: slots after the program's own.
    extra: Vec<String>,
    /// What the host or the engine refused; passed on as it is.
    pub(crate) refused: Option<model::Error>,
}

impl Drop for Run<'_, '_> {
    fn drop(&mut self) {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.locals.clear();
        scratch.roots.clear();
        scratch.params.clear();
        SCRATCH.with(|s| s.set(Some(scratch)));
    }
}

impl<'p, 'e> Run<'p, 'e> {
    pub(crate) fn new(tree: &'p Tree, lang: Lang, host: &'e mut dyn Host, given: &'e Params, budget: crate::Budget) -> Self {
        let mut scratch = SCRATCH.with(Cell::take).unwrap_or_default();
        scratch.locals.clear();
        scratch.locals.resize(tree.frame as usize, Value::Null);
        scratch.roots.clear();
        scratch.roots.resize(tree.roots.len(), None);
        scratch.params.clear();
        scratch.params.resize(tree.params.len(), None);
        for doc in &mut scratch.docs {
            doc.0 = false;
        }
        if scratch.docs.len() < tree.docs.len() {
            scratch.docs.resize_with(tree.docs.len(), Default::default);
        }
        let frame = new_frame();
        scratch.frames.clear();
        scratch.frames.push(frame);
        Run {
            tree,
            lang,
            host,
            given,
            steps: budget.steps,
            steps_max: budget.steps,
            memory: budget.memory_bytes,
            memory_max: budget.memory_bytes,
            depth: u32::from(tree.depth),
            base: 0,
            frame,
            scratch,
            extra: Vec::new(),
            refused: None,
        }
    }

    pub(crate) fn groovy(&self) -> bool {
        self.lang == Lang::Groovy
    }

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

    /// Spends steps.
    #[inline]
    pub(crate) fn step(&mut self, n: u64) -> R<()> {
        match self.steps.checked_sub(n) {
            Some(left) => {
                self.steps = left;
                Ok(())
            }
            None => exhausted(format!(
                "[scripting] The maximum number of statements that can be executed has been reached: {}, the limit of [script.max_steps]",
                self.steps_max
            )),
        }
    }
    /// Spends memory.
    #[inline]
    pub(crate) fn alloc(&mut self, bytes: usize) -> R<()> {
        match self.memory.checked_sub(bytes) {
            Some(left) => {
                self.memory = left;
                Ok(())
            }
            None => exhausted(format!(
                "[scripting] The script may use at most {} bytes of memory, the limit of [script.max_memory]",
                self.memory_max
            )),
        }
    }
    /// New text, paid for.
    pub(crate) fn text(&mut self, text: impl AsRef<str>) -> R {
        let text = text.as_ref();
        self.alloc(text.len() + 16)?;
        self.step(text.len() as u64 / 64)?;
        Ok(Value::Str(text.into()))
    }
    /// A new list, paid for.
    pub(crate) fn list(&mut self, items: Vec<Value>) -> R {
        self.alloc(items.len() * 24 + 48)?;
        self.step(items.len() as u64 / 8)?;
        Ok(Value::list(items))
    }
    /// A value's text, bounded by what memory is left.
    pub(crate) fn show(&mut self, value: &Value) -> R<String> {
        let mut out = String::new();
        print(value, &mut out, 0, self.memory);
        self.alloc(out.len())?;
        self.step(out.len() as u64 / 64)?;
        Ok(out)
    }
    pub(crate) fn equal(&mut self, a: &Value, b: &Value) -> R<bool> {
        if !(a.is_container() && b.is_container()) {
            return Ok(equal(a, b, 0, &mut 4));
        }
        let mut left = self.steps.saturating_mul(8);
        let before = left;
        let same = equal(a, b, 0, &mut left);
        self.step((before - left) / 8)?;
        Ok(same)
    }
    /// Refuses to put `value` where it would hold itself.
    pub(crate) fn adopt(&mut self, holder: &Value, value: &Value) -> R<()> {
        self.alloc(48)?;
        if !value.is_container() {
            return Ok(());
        }
        let address = |v: &Value| match v {
            Value::List(l) => Rc::as_ptr(l).cast::<()>(),
            Value::Map(m) | Value::Set(m) => Rc::as_ptr(m).cast::<()>(),
            _ => std::ptr::null(),
        };
        let me = address(holder);
        let mut stack = vec![value.clone()];
        let mut seen = 0u64;
        while let Some(v) = stack.pop() {
            if address(&v) == me {
                return illegal("Iterable object is self-referencing itself");
            }
            let before = stack.len();
            match &v {
                Value::List(l) => {
                    let l = l.0.borrow();
                    seen += l.len() as u64;
                    stack.extend(l.iter().filter(|v| v.is_container()).cloned());
                }
                Value::Map(m) => {
                    let m = m.0.borrow();
                    seen += m.len() as u64;
                    stack.extend(m.items().iter().filter(|e| e.1.is_container()).map(|e| e.1.clone()));
                }
                _ => {}
            }
            seen += (stack.len() - before) as u64 * 8;
            if seen >= 64 {
                self.step(seen / 16)?;
                seen = 0;
            }
        }
        Ok(())
    }

    // ---- names

    fn local(&mut self, slot: u32) -> &mut Value {
        let i = self.base + slot as usize;
        if i >= self.scratch.locals.len() {
            self.scratch.locals.resize(i + 1, Value::Null);
        }
        &mut self.scratch.locals[i]
    }

    fn root(&mut self, slot: u32) -> R {
        let i = slot as usize;
        if let Some(Some(v)) = self.scratch.roots.get(i) {
            return Ok(v.clone());
        }
        let Some(name) = self.tree.roots.get(i).cloned() else {
            return Ok(Value::Null);
        };
        let value = match self.host.variable(&name) {
            Some(v) => v,
            None if &*name == "params" => self.given.all(),
            None => match self.given.get(&name) {
                Some(p) => self.number(p.value()),
                None if self.groovy() => {
                    return fault(
                        "groovy.lang.MissingPropertyException",
                        ErrorKind::Groovy,
                        format!("No such property: {name} for class: Script1"),
                    );
                }
                None => return illegal(format!("cannot resolve symbol [{name}]")),
            },
        };
        if let Some(cell) = self.scratch.roots.get_mut(i) {
            *cell = Some(value.clone());
        }
        Ok(value)
    }

    fn param(&mut self, slot: u32) -> R {
        let i = slot as usize;
        if let Some(Some(v)) = self.scratch.params.get(i) {
            return Ok(v.clone());
        }
        let tree = self.tree;
        let Some((name, dotted)) = tree.params.get(i) else {
            return Ok(Value::Null);
        };
        let value = match self.given.get(name) {
            Some(p) => self.number(p.value()),
            None => self.host.variable(dotted).unwrap_or_default(),
        };
        if value.is_container()
            && let Some(cell) = self.scratch.params.get_mut(i)
        {
            *cell = Some(value.clone());
        }
        Ok(value)
    }

    /// Expressions know doubles only.
    fn number(&self, v: Value) -> Value {
        match (self.lang, v.as_f64()) {
            (Lang::Expression, Some(n)) => Value::Double(n),
            _ => v,
        }
    }

    // ---- documents

    /// Loads a field of the document; whether the mapping has it.
    pub(crate) fn load(&mut self, slot: u32) -> R<bool> {
        let i = slot as usize;
        let tree = self.tree;
        let name = match tree.docs.get(i) {
            Some(name) => name.as_str(),
            None => self.extra.get(i - tree.docs.len()).map_or("", String::as_str),
        };
        let Some(cell) = self.scratch.docs.get_mut(i) else {
            return Ok(false);
        };
        if cell.0 {
            return Ok(true);
        }
        match self.host.doc(i, name, &mut cell.1) {
            Ok(found) => {
                cell.0 = found;
                Ok(found)
            }
            Err(e) => {
                self.refused = Some(e);
                exhausted("the document's values could not be read")
            }
        }
    }
    /// A field's values; an error for a field the mapping lacks.
    pub(crate) fn doc(&mut self, slot: u32) -> R<&DocValues> {
        let i = slot as usize;
        if !self.scratch.docs.get(i).is_some_and(|d| d.0) && !self.load(slot)? {
            let tree = self.tree;
            let name = match tree.docs.get(i) {
                Some(name) => name.clone(),
                None => self.extra.get(i - tree.docs.len()).cloned().unwrap_or_default(),
            };
            let types = if self.groovy() { " with types []" } else { "" };
            return illegal(format!("No field found for [{name}] in mapping{types}"));
        }
        match self.scratch.docs.get(i) {
            Some(d) => Ok(&d.1),
            None => illegal("No such field"),
        }
    }
    /// The slot of a field named at run time.
    pub(crate) fn doc_slot(&mut self, name: &str) -> R<u32> {
        let known = self.tree.docs.len();
        if let Some(i) = self.tree.docs.iter().position(|d| d == name) {
            return Ok(i as u32);
        }
        let i = match self.extra.iter().position(|d| d == name) {
            Some(i) => i,
            None => {
                self.alloc(name.len() + 64)?;
                self.extra.push(name.to_owned());
                self.extra.len() - 1
            }
        };
        if self.scratch.docs.len() <= known + i {
            self.scratch.docs.resize_with(known + i + 1, Default::default);
        }
        Ok((known + i) as u32)
    }

    // ---- expressions

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
                    None => placed(api::ops::binary(self, *op, &a, &b), node.pos),
                };
            }
            _ => {}
        }
        placed(self.eval_more(node), node.pos)
    }

    fn eval_more(&mut self, node: &'p Node) -> R {
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
                    truthy(&v)
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
    fn eval_rare(&mut self, node: &'p Node) -> R {
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
            Kind::Func(i, args) => {
                let i = *i as usize;
                let args = self.values(args)?;
                let tree = self.tree;
                let function = tree.links.get(i).and_then(|l| tree.functions.get(*l));
                if let Some(f) = function {
                    return self.call_function(f, args);
                }
                let name = tree.names.get(i).cloned().unwrap_or_default();
                // A closure in an undeclared variable.
                if let Some(slot) = tree.roots.iter().position(|r| *r == name) {
                    let f = self.root(slot as u32)?;
                    return self.call_value(&f, &args);
                }
                missing_method("Script1", &name, &args)
            }
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
            Kind::Neg(n) => match self.eval(n)? {
                Value::Int(n) => Ok(Value::Int(n.wrapping_neg())),
                Value::Long(n) => Ok(Value::Long(n.wrapping_neg())),
                Value::Float(n) => Ok(Value::Float(-n)),
                Value::Double(n) => Ok(Value::Double(-n)),
                Value::Char(c) => Ok(Value::Int((c as i32).wrapping_neg())),
                Value::Bool(b) if self.lang == Lang::Expression => Ok(Value::Double(if b { -1.0 } else { 0.0 })),
                Value::Null => null("Cannot invoke \"Object.getClass()\" because \"value\" is null"),
                v => cast(format!("Cannot apply [-] operation to type [{}]", v.class())),
            },
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
            Kind::Range(p, closed) => {
                let (a, b) = (self.eval(&p.0)?, self.eval(&p.1)?);
                let (Some(a), Some(b)) = (a.as_i64(), b.as_i64()) else {
                    return cast("a range needs whole numbers");
                };
                let b = if *closed {
                    b
                } else {
                    b.wrapping_sub(i64::from(b > a) - i64::from(b < a))
                };
                let n = a.abs_diff(b).saturating_add(1);
                if !*closed && a == b && p.0.size == p.1.size {
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
                Ok(Value::Lambda(Rc::new(Closure {
                    lambda: *i,
                    base: self.base,
                    frame: self.frame,
                })))
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

    fn doc_value(&mut self, slot: u32) -> R {
        let lang = self.lang;
        let values = self.doc(slot)?;
        let first = match values {
            DocValues::Longs(v) => v.first().map(|n| Value::Long(*n)),
            DocValues::Doubles(v) => v.first().map(|n| Value::Double(*n)),
            _ => values.get(0),
        };
        match (first, lang) {
            (Some(v), Lang::Expression) => Ok(match v {
                Value::Bool(b) => Value::Double(f64::from(u8::from(b))),
                Value::Date(ms) => Value::Double(ms as f64),
                v => self.number(v),
            }),
            // Groovy's dates are epoch milliseconds.
            (Some(Value::Date(ms)), Lang::Groovy) => Ok(Value::Long(ms)),
            (Some(v), _) => Ok(v),
            (None, Lang::Expression) => Ok(Value::Double(0.0)),
            (None, Lang::Groovy) => Ok(match values {
                DocValues::Longs(_) | DocValues::Dates(_) | DocValues::Empty => Value::Long(0),
                DocValues::Doubles(_) => Value::Double(0.0),
                DocValues::Bools(_) => Value::Bool(false),
                DocValues::Strings(_) | DocValues::GeoPoints(_) => Value::Null,
            }),
            (None, Lang::Painless) => fault(
                "java.lang.IllegalStateException",
                ErrorKind::IllegalState,
                "A document doesn't have a value for a field! Use doc[<field>].size()==0 to check if a document is missing a field!",
            ),
        }
    }

    fn field(&mut self, m: &'p Member) -> R {
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

    fn method(&mut self, m: &'p Member, args: &'p [Node]) -> R {
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

    fn values(&mut self, nodes: &'p [Node]) -> R<Vec<Value>> {
        let mut out = Vec::with_capacity(nodes.len());
        for n in nodes {
            out.push(self.eval(n)?);
        }
        Ok(out)
    }

    fn numbers(&mut self, nodes: &'p [Node]) -> R<[Value; 3]> {
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

    fn truth(&mut self, node: &'p Node) -> R<bool> {
        match self.eval(node)? {
            Value::Bool(b) => Ok(b),
            v if self.groovy() => Ok(truthy(&v)),
            v if self.lang == Lang::Expression => Ok(v.as_f64().is_some_and(|n| n != 0.0)),
            Value::Null => placed(null("Cannot cast null to [boolean]."), node.pos),
            v => placed(cast(format!("Cannot cast [{}] to [boolean].", v.class())), node.pos),
        }
    }
    /// Does a closure's answer mean yes?
    pub(crate) fn holds(&self, v: &Value) -> bool {
        matches!(v, Value::Bool(true)) || (self.groovy() && truthy(v))
    }

    // ---- assignment

    fn assign(&mut self, target: &'p Target, op: Option<Op>, value: &'p Node) -> R {
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
                if let Some(cell) = self.scratch.roots.get_mut(*slot as usize) {
                    *cell = Some(v.clone());
                }
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
                if let Some(cell) = self.scratch.params.get_mut(*slot as usize) {
                    *cell = Some(v.clone());
                }
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

    fn put_field(&mut self, of: &Value, name: &Arc<str>, v: Value) -> R<()> {
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

    /// An operator, the short way first.
    pub(crate) fn apply(&mut self, op: Op, a: &Value, b: &Value) -> R {
        match fast(op, a, b) {
            Some(v) => Ok(v),
            None => api::ops::binary(self, op, a, b),
        }
    }

    fn increment(&mut self, target: &'p Target, by: i32, prefix: bool) -> R {
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
                if let Some(cell) = self.scratch.roots.get_mut(*slot as usize) {
                    *cell = Some(new.clone());
                }
                (old, new)
            }
            Target::Param(slot) => {
                let old = self.param(*slot)?;
                let new = step(self, &old)?;
                if let Some(cell) = self.scratch.params.get_mut(*slot as usize) {
                    *cell = Some(new.clone());
                }
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

    /// A value as a declared type; `explicit` conversions may lose digits.
    pub(crate) fn convert(&mut self, v: Value, ty: Ty, explicit: bool) -> R {
        let lenient = explicit || self.groovy();
        let refuse = |v: &Value, to: &str| cast(format!("Cannot cast [{}] to [{to}].", v.class()));
        let name = match ty {
            Ty::Def | Ty::Other | Ty::Date => return Ok(v),
            Ty::Int => "int",
            Ty::Long => "long",
            Ty::Float => "float",
            Ty::Double => "double",
            Ty::Short => "short",
            Ty::Byte => "byte",
            Ty::Char => "char",
            Ty::Bool => "boolean",
            Ty::Str => "java.lang.String",
            Ty::List => "java.util.List",
            Ty::Map => "java.util.Map",
            Ty::Set => "java.util.Set",
        };
        if matches!(v, Value::Null) {
            return Ok(v);
        }
        Ok(match ty {
            Ty::Int | Ty::Short | Ty::Byte | Ty::Long => {
                let n = match (&v, v.as_i64(), v.as_f64()) {
                    (Value::Char(_), Some(n), _) if lenient || ty == Ty::Int || ty == Ty::Long => n,
                    (Value::Long(_), Some(_), _) if !lenient && ty != Ty::Long => {
                        return refuse(&v, name);
                    }
                    (_, Some(n), _) => n,
                    (_, None, Some(f)) if lenient => {
                        if ty == Ty::Long {
                            f as i64
                        } else {
                            i64::from(f as i32)
                        }
                    }
                    (Value::Str(s), ..) if self.groovy() => match s.trim().parse() {
                        Ok(n) => n,
                        Err(_) => return number_format(s),
                    },
                    _ => return refuse(&v, name),
                };
                match ty {
                    Ty::Long => Value::Long(n),
                    Ty::Short => Value::Int(i32::from(n as i16)),
                    Ty::Byte => Value::Int(i32::from(n as i8)),
                    _ => Value::Int(n as i32),
                }
            }
            Ty::Float | Ty::Double => {
                let n = match (&v, v.as_f64()) {
                    (Value::Double(_), Some(_)) if ty == Ty::Float && !lenient => {
                        return refuse(&v, name);
                    }
                    (_, Some(n)) => n,
                    (Value::Str(s), _) if self.groovy() => match s.trim().parse() {
                        Ok(n) => n,
                        Err(_) => return number_format(s),
                    },
                    _ => return refuse(&v, name),
                };
                if ty == Ty::Float {
                    Value::Float(n as f32)
                } else {
                    Value::Double(n)
                }
            }
            Ty::Char => match &v {
                Value::Char(_) => v,
                Value::Str(s) if s.chars().count() == 1 => Value::Char(s.chars().next().unwrap_or(' ')),
                _ => match v.as_i64().and_then(|n| char::from_u32(n as u32 & 0xffff)) {
                    Some(c) => Value::Char(c),
                    None => return refuse(&v, name),
                },
            },
            Ty::Bool => match &v {
                Value::Bool(_) => v,
                v if self.groovy() => Value::Bool(truthy(v)),
                _ => return refuse(&v, name),
            },
            Ty::Str => match &v {
                Value::Str(_) => v,
                Value::Char(c) => Value::Str(c.to_string().into()),
                _ if self.groovy() => {
                    let s = self.show(&v)?;
                    self.text(s)?
                }
                _ => return refuse(&v, name),
            },
            Ty::List => match &v {
                Value::List(_) | Value::Doc(_) => v,
                Value::Set(_) if self.groovy() => self.list(v.items().unwrap_or_default())?,
                _ => return refuse(&v, name),
            },
            Ty::Map => match &v {
                Value::Map(_) => v,
                _ => return refuse(&v, name),
            },
            Ty::Set => match &v {
                Value::Set(_) => v,
                Value::List(_) if self.groovy() => {
                    let items = v.items().unwrap_or_default();
                    self.alloc(items.len() * 48)?;
                    Value::set(items)
                }
                _ => return refuse(&v, name),
            },
            Ty::Def | Ty::Other | Ty::Date => v,
        })
    }

    // ---- calls

    fn call_function(&mut self, f: &'p Function, args: Vec<Value>) -> R {
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
            result = self.block(&f.body);
        }
        self.scratch.locals.truncate(top);
        self.scratch.frames.pop();
        self.base = base;
        self.frame = frame;
        self.depth -= u32::from(f.depth) + 2;
        match result? {
            Flow::Return(v) => Ok(v),
            _ => Ok(Value::Null),
        }
    }

    fn deepen(&mut self, f: &Function) -> R<()> {
        self.step(4)?;
        let depth = self.depth + u32::from(f.depth) + 2;
        if depth > MAX_DEPTH {
            return exhausted("[scripting] stack overflow: functions call each other too deeply");
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
        let kept: Vec<Value> = (from..to).map(|slot| std::mem::take(self.local(slot))).collect();
        for (i, (slot, _)) in lambda.params.iter().enumerate() {
            *self.local(*slot) = match args {
                // `{ k, v -> }` over entries, `{ a, b -> }` over pairs.
                [Value::Entry(e)] if lambda.params.len() == 2 => {
                    if i == 0 {
                        e.1.clone()
                    } else {
                        api::map::entry_value(e)
                    }
                }
                _ => args.get(i).cloned().unwrap_or_default(),
            };
        }
        let result = self.block(&lambda.body);
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

    // ---- statements

    fn block(&mut self, block: &'p Block) -> R<Flow> {
        for s in block {
            match self.stmt(s)? {
                Flow::Next => {}
                flow => return Ok(flow),
            }
        }
        Ok(Flow::Next)
    }

    fn stmt(&mut self, s: &'p Stmt) -> R<Flow> {
        placed(self.step(u64::from(s.cost)), s.pos)?;
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
                            placed(self.convert(v, *ty, false), s.pos)?
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
                    return placed(fault("java.lang.AssertionError", ErrorKind::Groovy, message), s.pos);
                }
            }
            StmtKind::Throw(e) => {
                let v = self.eval(e)?;
                return placed(throw(&v), s.pos);
            }
            _ => return self.loops(s),
        }
        Ok(Flow::Next)
    }

    #[inline(never)]
    fn loops(&mut self, s: &'p Stmt) -> R<Flow> {
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
                let items = placed(api::iterate(self, &over_value), s.pos)?;
                for v in items {
                    self.step(cost)?;
                    let v = if *ty == Ty::Def {
                        v
                    } else {
                        placed(self.convert(v, *ty, false), s.pos)?
                    };
                    *self.local(*slot) = v;
                    match self.block(body)? {
                        Flow::Break => break,
                        Flow::Return(v) => return Ok(Flow::Return(v)),
                        _ => {}
                    }
                }
            }
            StmtKind::Switch(on, cases) => {
                let on = self.eval(on)?;
                let mut entry = cases.iter().position(|c| c.0.is_none());
                for (i, (when, _)) in cases.iter().enumerate() {
                    if let Some(when) = when {
                        let v = self.eval(when)?;
                        let list = matches!(&v, Value::List(_)) && !matches!(on, Value::List(_));
                        let hit = if list {
                            truthy(&self.apply(Op::In, &on, &v)?)
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
            }
            StmtKind::Try(body, catches, last) => {
                let depth = self.depth;
                let mut result = self.block(body);
                if let Err(f) = &result {
                    let caught = if f.fatal {
                        None
                    } else {
                        catches.iter().find(|c| c.types.iter().any(|t| is_a(&f.class, t)))
                    };
                    if let Some(c) = caught {
                        let message = f.message.as_deref().map(Arc::from);
                        let v = Value::Exception(Rc::new((f.class.clone(), message)));
                        self.depth = depth;
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
                return result;
            }
            _ => {}
        }
        Ok(Flow::Next)
    }
}

/// Gives a fault its place, if it has none.
fn placed<T>(result: R<T>, pos: u32) -> R<T> {
    result.map_err(|mut f| {
        if f.pos == NOWHERE {
            f.pos = pos;
        }
        f
    })
}

/// The commonest operators on the commonest numbers.
#[inline]
fn fast(op: Op, a: &Value, b: &Value) -> Option<Value> {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => Some(match op {
            Op::Add => Value::Int(a.wrapping_add(*b)),
            Op::Sub => Value::Int(a.wrapping_sub(*b)),
            Op::Mul => Value::Int(a.wrapping_mul(*b)),
            Op::Eq => Value::Bool(a == b),
            Op::Ne => Value::Bool(a != b),
            Op::Lt => Value::Bool(a < b),
            Op::Le => Value::Bool(a <= b),
            Op::Gt => Value::Bool(a > b),
            Op::Ge => Value::Bool(a >= b),
            _ => return None,
        }),
        _ => {
            let (a, b) = match (a, b) {
                (Value::Double(a), Value::Double(b)) => (*a, *b),
                (Value::Double(a), Value::Int(b)) => (*a, f64::from(*b)),
                (Value::Int(a), Value::Double(b)) => (f64::from(*a), *b),
                (Value::Double(a), Value::Long(b)) => (*a, *b as f64),
                (Value::Long(a), Value::Double(b)) => (*a as f64, *b),
                _ => return None,
            };
            Some(match op {
                Op::Add => Value::Double(a + b),
                Op::Sub => Value::Double(a - b),
                Op::Mul => Value::Double(a * b),
                Op::Div => Value::Double(a / b),
                Op::Lt => Value::Bool(a < b),
                Op::Gt => Value::Bool(a > b),
                _ => return None,
            })
        }
    }
}

/// Groovy's truth.
pub(crate) fn truthy(v: &Value) -> bool {
    match v {
        Value::Null => false,
        Value::Bool(b) => *b,
        Value::Str(s) => !s.is_empty(),
        Value::List(l) => !l.0.borrow().is_empty(),
        Value::Map(m) | Value::Set(m) => m.0.borrow().len() > 0,
        v => v.as_f64().is_none_or(|n| n != 0.0),
    }
}

pub(crate) fn number_format<T>(text: &str) -> R<T> {
    fault(
        "java.lang.NumberFormatException",
        ErrorKind::NumberFormat,
        if text.is_empty() {
            "For input string: \"\"".to_owned()
        } else {
            format!("For input string: \"{text}\"")
        },
    )
}

/// Groovy's and Painless's refusal of an unknown method are told apart by who calls this.
pub(crate) fn missing_method<T>(class: &str, name: &str, args: &[Value]) -> R<T> {
    let types: Vec<&str> = args.iter().map(Value::class).collect();
    let values: Vec<String> = args
        .iter()
        .map(|a| {
            let mut s = String::new();
            print(a, &mut s, 0, 200);
            s
        })
        .collect();
    fault(
        "groovy.lang.MissingMethodException",
        ErrorKind::Groovy,
        format!(
            "No signature of method: {class}.{name}() is applicable for argument types: ({}) values: [{}]",
            types.join(", "),
            values.join(", ")
        ),
    )
}

fn throw<T>(v: &Value) -> R<T> {
    match v {
        Value::Exception(e) => {
            let kind = api::statics::kind_of(&e.0);
            Err(Box::new(Fault {
                class: e.0.clone(),
                kind,
                message: e.1.as_deref().map(str::to_owned),
                fatal: false,
                pos: NOWHERE,
            }))
        }
        Value::Null => null("cannot throw null"),
        v => cast(format!("Cannot cast [{}] to [java.lang.Exception].", v.class())),
    }
}

/// Does a thrown class count as `name` in a catch?
fn is_a(class: &str, name: &str) -> bool {
    let short = class.rsplit('.').next().unwrap_or(class);
    short == name
        || match name {
            "Throwable" => true,
            "Exception" | "e" | "def" | "RuntimeException" => !short.ends_with("Error"),
            "Error" => short.ends_with("Error"),
            "IllegalArgumentException" => short == "NumberFormatException",
            _ => false,
        }
}

fn instance_of(v: &Value, name: &str) -> bool {
    match name {
        "Object" | "def" => !matches!(v, Value::Null),
        "Number" => v.as_f64().is_some() && !matches!(v, Value::Char(_)),
        "Integer" | "int" => matches!(v, Value::Int(_)),
        "Long" | "long" => matches!(v, Value::Long(_)),
        "Float" | "float" => matches!(v, Value::Float(_)),
        "Double" | "double" | "BigDecimal" => matches!(v, Value::Double(_)),
        "Boolean" | "boolean" => matches!(v, Value::Bool(_)),
        "String" | "CharSequence" => matches!(v, Value::Str(_)),
        "Character" | "char" => matches!(v, Value::Char(_)),
        "List" | "ArrayList" => matches!(v, Value::List(_) | Value::Doc(_)),
        "Map" | "HashMap" | "LinkedHashMap" => matches!(v, Value::Map(_)),
        "Set" | "HashSet" | "LinkedHashSet" => matches!(v, Value::Set(_)),
        "Collection" | "Iterable" => matches!(v, Value::List(_) | Value::Set(_)),
        "ZonedDateTime" | "Date" => matches!(v, Value::Date(_)),
        "Pattern" => matches!(v, Value::Regex(_)),
        _ => match v {
            Value::Exception(e) => is_a(&e.0, name),
            _ => v.class().rsplit('.').next() == Some(name),
        },
    }
}

/// Sorts what a set or map holds; here because `Entries` is private to values.
pub(crate) fn keys(entries: &RefCell<Entries>) -> Vec<Value> {
    entries.borrow().items().iter().map(|e| e.0.clone()).collect()
}
