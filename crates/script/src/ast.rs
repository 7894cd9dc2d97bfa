//! The resolved tree a script becomes: names are already slots (see `check`), shape is checked
//! (see `parser`). Depth is bounded, so walking and dropping it is safe.

use crate::functions::{MathFn, ScoreFn};
use crate::value::{Lit, Pattern};
use std::sync::Arc;

/// An expression: where it stands, how deep and how large it is.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) pos: u32,
    pub(crate) depth: u16,
    pub(crate) size: u32,
    pub(crate) kind: Kind,
}

/// A declared type, as far as it changes values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ty {
    Def,
    Int,
    Long,
    Float,
    Double,
    Short,
    Byte,
    Char,
    Bool,
    Str,
    List,
    Map,
    Set,
    Date,
    /// A known class values are not checked against.
    Other,
}

/// A binary operator on values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    Pow,
    Shl,
    Shr,
    Ushr,
    BitAnd,
    BitOr,
    BitXor,
    Eq,
    Ne,
    Same,
    NotSame,
    Lt,
    Le,
    Gt,
    Ge,
    Compare,
    Find,
    Match,
    In,
}

impl Op {
    /// As written.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Op::Add => "+",
            Op::Sub => "-",
            Op::Mul => "*",
            Op::Div => "/",
            Op::Rem => "%",
            Op::Pow => "**",
            Op::Shl => "<<",
            Op::Shr => ">>",
            Op::Ushr => ">>>",
            Op::BitAnd => "&",
            Op::BitOr => "|",
            Op::BitXor => "^",
            Op::Eq => "==",
            Op::Ne => "!=",
            Op::Same => "===",
            Op::NotSame => "!==",
            Op::Lt => "<",
            Op::Le => "<=",
            Op::Gt => ">",
            Op::Ge => ">=",
            Op::Compare => "<=>",
            Op::Find => "=~",
            Op::Match => "==~",
            Op::In => "in",
        }
    }
}

/// Whose method a call or property is.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) target: Node,
    pub(crate) name: Arc<str>,
    /// `?.`
    pub(crate) safe: bool,
    /// `*.`
    pub(crate) spread: bool,
}

/// The kind of an expression.
#[derive(Debug)]
pub(crate) enum Kind {
    Const(Lit),
    Regex(Arc<Pattern>),
    Local(u32),
    Root(u32),
    Param(u32),
    Score,
    Doc(u32),
    DocValue(u32),
    DocAll,
    Field(Box<Member>),
    Index(Box<(Node, Node)>),
    Call(Box<Member>, Vec<Node>),
    /// A user function, by name (they may follow their use).
    Func(u32, Vec<Node>),
    /// A closure called like a function.
    Invoke(Box<Node>, Vec<Node>),
    Static(Arc<str>, Arc<str>, Vec<Node>),
    New(Arc<str>, Vec<Node>),
    Math(MathFn, Vec<Node>),
    ScoreFn(ScoreFn, Vec<Node>),
    Bin(Op, Box<(Node, Node)>),
    And(Box<(Node, Node)>),
    Or(Box<(Node, Node)>),
    Not(Box<Node>),
    Neg(Box<Node>),
    BitNot(Box<Node>),
    Assign(Box<(Target, Node)>, Option<Op>),
    Inc(Box<Target>, i32, bool),
    Ternary(Box<(Node, Node, Node)>),
    Elvis(Box<(Node, Node)>),
    List(Vec<Node>),
    Map(Vec<(Node, Node)>),
    Range(Box<(Node, Node)>, bool),
    Cast(Ty, Box<Node>),
    InstanceOf(Box<Node>, Arc<str>),
    Lambda(u32),
    Text(Vec<Node>),
}

/// The target of an assignment.
#[derive(Debug)]
pub(crate) enum Target {
    Local(u32, Ty),
    Root(u32),
    Param(u32),
    Field(Node, Arc<str>),
    Index(Node, Node),
}

/// Statements in order.
pub(crate) type Block = Vec<Stmt>;

/// A statement, and what running it once costs in steps.
#[derive(Debug)]
pub(crate) struct Stmt {
    pub(crate) cost: u32,
    pub(crate) depth: u16,
    pub(crate) pos: u32,
    pub(crate) kind: StmtKind,
}

/// The kind of a statement.
#[derive(Debug)]
pub(crate) enum StmtKind {
    Nop,
    Expr(Node),
    Let(u32, Ty, Option<Node>),
    Block(Block),
    If(Node, Block, Block),
    While(Node, Block),
    DoWhile(Block, Node),
    For(Block, Option<Node>, Vec<Node>, Block),
    ForIn(u32, Ty, Node, Block),
    Switch(Node, Vec<(Option<Node>, Block)>),
    Return(Option<Node>),
    Assert(Node, Option<Node>, Arc<str>),
    Throw(Node),
    Try(Block, Vec<Catch>, Block),
    Break,
    Continue,
}

/// `catch (A | B e) { … }`
#[derive(Debug)]
pub(crate) struct Catch {
    pub(crate) types: Vec<Arc<str>>,
    pub(crate) slot: u32,
    pub(crate) body: Block,
}

/// A user function or a lambda. A lambda lives in its maker's frame, with slots of its own.
#[derive(Debug, Default)]
pub(crate) struct Function {
    pub(crate) name: Arc<str>,
    pub(crate) params: Vec<(u32, TyOrDef)>,
    /// First slot of a lambda's own, and past the last; for a function, `0..frame`.
    pub(crate) slots: (u32, u32),
    pub(crate) depth: u16,
    pub(crate) body: Block,
}

/// A parameter's type; `Def` by default.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TyOrDef(pub(crate) Ty);

/// The whole script.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(crate) body: Block,
    pub(crate) frame: u32,
    pub(crate) depth: u16,
    pub(crate) functions: Vec<Function>,
    pub(crate) lambdas: Vec<Function>,
    /// For every `Func`: which of `functions`, or none, and its name.
    pub(crate) links: Vec<usize>,
    pub(crate) names: Vec<Arc<str>>,
    pub(crate) roots: Vec<Arc<str>>,
    /// `params.x`: the name, and `params.x` as the host knows it.
    pub(crate) params: Vec<(Arc<str>, Arc<str>)>,
    pub(crate) docs: Vec<String>,
    pub(crate) score: bool,
    pub(crate) source: bool,
}
