//! The state of a running script: slots, budgets, the host, faults. The tree is walked by `interpreter`.

use crate::ast::{Block, Tree};
use crate::value::{DocValues, Params, Value, equal, print};
use crate::{Host, Lang};
use std::cell::Cell;
use std::rc::Rc;

mod calls;
mod convert;
mod fault;
mod inputs;

pub(crate) use fault::*;

/// How deep the trees of functions being run may add up.
const MAX_DEPTH: u32 = 360;
/// Steps between two questions to the host; some 300 µs.
const STEPS_BETWEEN: u64 = 1 << 14;
/// A fault that does not know its place yet.
const NOWHERE: u32 = u32::MAX;

/// Where a script goes on after a statement.
pub(crate) enum Flow {
    Next,
    Return(Value),
    Break,
    Continue,
}

/// Walks the body of a function or a closure.
pub(crate) type WalkBody<'p, 'e> = fn(&mut Run<'p, 'e>, &'p Block) -> R<Flow>;

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
    walk_body: WalkBody<'p, 'e>,
    steps: u64,
    steps_max: u64,
    /// When so few steps are left the host is asked whether to go on.
    asks_at: u64,
    memory: usize,
    memory_max: usize,
    pub(crate) depth: u32,
    base: usize,
    frame: u64,
    scratch: Box<Scratch>,
    /// Fields of `doc[…]` not known when compiling: slots after the program's own.
    extra: Vec<String>,
    /// The refusal of the host or the engine, passed on as it is.
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
    pub(crate) fn new(
        tree: &'p Tree,
        lang: Lang,
        host: &'e mut dyn Host,
        given: &'e Params,
        budget: crate::Budget,
        walk_body: WalkBody<'p, 'e>,
    ) -> Self {
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
            walk_body,
            steps: budget.steps,
            steps_max: budget.steps,
            asks_at: budget.steps.saturating_sub(STEPS_BETWEEN),
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

    /// Is a closure's answer a yes?
    pub(crate) fn holds(&self, v: &Value) -> bool {
        matches!(v, Value::Bool(true)) || (self.groovy() && v.is_truthy())
    }

    /// Spends steps.
    #[inline]
    pub(crate) fn step(&mut self, n: u64) -> R<()> {
        match self.steps.checked_sub(n) {
            Some(left) => {
                self.steps = left;
                if left < self.asks_at { self.ask() } else { Ok(()) }
            }
            None => exhausted_error(format!(
                "[scripting] The maximum number of statements that can be executed has been reached: {}, the limit of [script.max_steps]",
                self.steps_max
            )),
        }
    }
    /// Asks the host whether to go on.
    #[cold]
    fn ask(&mut self) -> R<()> {
        self.asks_at = self.steps.saturating_sub(STEPS_BETWEEN);
        match self.host.check_interrupt() {
            Ok(()) => Ok(()),
            Err(error) => {
                self.refused = Some(error);
                exhausted_error("the host has ended the script")
            }
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
            None => exhausted_error(format!(
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
    /// Are two values equal? Costs steps by their size.
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
}
