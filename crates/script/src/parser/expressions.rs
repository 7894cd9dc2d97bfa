//! Expressions by precedence, up to what a primary is.

use super::*;
use crate::Lang;
use crate::ast::{Kind, Member, Node, Op, Target, Ty};
use crate::check::type_of;
use crate::lexer::{Part, Tok, fail};
use crate::value::{Lit, Pattern};
use std::sync::Arc;

impl Parser<'_> {
    pub(super) fn expr(&mut self, min: u8) -> P<Node> {
        self.deeper()?;
        let mut left = self.unary()?;
        loop {
            let op = match self.peek() {
                Tok::Op(op) => *op,
                Tok::Id(w) if &**w == "instanceof" => "instanceof",
                Tok::Id(w) if &**w == "in" && self.lang == Lang::Groovy => "in",
                Tok::Id(w) if &**w == "as" && self.lang == Lang::Groovy => "as",
                _ => break,
            };
            let power = match op {
                "=" | "+=" | "-=" | "*=" | "/=" | "%=" | "&=" | "|=" | "^=" | "<<=" | ">>=" | ">>>=" => 1,
                "?" | "?:" => 2,
                "||" => 4,
                "&&" => 5,
                "|" => 6,
                "^" => 7,
                "&" => 8,
                "==" | "!=" | "===" | "!==" | "<=>" | "=~" | "==~" => 9,
                "<" | ">" | "<=" | ">=" | "instanceof" | "in" | "as" => 10,
                ".." | "..<" if self.lang == Lang::Groovy => 11,
                "<<" | ">>" | ">>>" => 12,
                "+" | "-" => 13,
                "*" | "/" | "%" => 14,
                "**" if self.lang == Lang::Groovy => 15,
                _ => break,
            };
            if power < min || (matches!(op, "+" | "-") && self.line() && self.lang == Lang::Groovy) {
                break;
            }
            let pos = self.pos();
            self.at += 1;
            left = self.infix(left, op, power, pos)?;
        }
        self.nest -= 1;
        Ok(left)
    }

    pub(super) fn infix(&mut self, left: Node, op: &'static str, power: u8, pos: u32) -> P<Node> {
        let kind = match op {
            "?" => {
                let a = self.expr(2)?;
                self.need(":")?;
                let b = self.expr(2)?;
                Kind::Ternary(Box::new((left, a, b)))
            }
            "?:" => Kind::Elvis(Box::new((left, self.expr(2)?))),
            "instanceof" => {
                let mut name = self.id()?;
                while self.eat(".") {
                    name = self.id()?;
                }
                Kind::InstanceOf(Box::new(left), name)
            }
            "as" => Kind::Cast(self.ty()?, Box::new(left)),
            "=" => Kind::Assign(Box::new((self.target(left)?, self.expr(1)?)), None),
            "||" => Kind::Or(Box::new((left, self.expr(power + 1)?))),
            "&&" => Kind::And(Box::new((left, self.expr(power + 1)?))),
            ".." | "..<" => Kind::Range(Box::new((left, self.expr(power + 1)?)), op == ".."),
            _ if power == 1 => {
                let op = binary(op.trim_end_matches('=')).unwrap_or(Op::Add);
                Kind::Assign(Box::new((self.target(left)?, self.expr(1)?)), Some(op))
            }
            _ => {
                let Some(op) = binary(op) else {
                    return self.unexpected_token();
                };
                Kind::Bin(op, Box::new((left, self.expr(power + 1)?)))
            }
        };
        self.node(pos, kind)
    }

    pub(super) fn target(&mut self, node: Node) -> P<Target> {
        let pos = node.pos;
        Ok(match node.kind {
            Kind::Local(slot) => Target::Local(slot, self.slot_type(slot)),
            Kind::Root(slot) if self.lang == Lang::Groovy => Target::Root(slot),
            Kind::Root(slot) => {
                let name = self.tree.roots.get(slot as usize).cloned().unwrap_or_default();
                return fail(format!("cannot resolve symbol [{name}]"), pos);
            }
            Kind::Param(slot) => Target::Param(slot),
            Kind::Field(m) if !m.spread => Target::Field(m.target, m.name),
            Kind::Index(p) => Target::Index(p.0, p.1),
            _ => {
                return fail("invalid assignment: cannot assign a value to this expression", pos);
            }
        })
    }

    pub(super) fn slot_type(&self, slot: u32) -> Ty {
        self.scope.type_at(slot)
    }

    pub(super) fn unary(&mut self) -> P<Node> {
        let pos = self.pos();
        let op = match self.peek() {
            Tok::Op(op @ ("!" | "-" | "+" | "~" | "++" | "--")) => *op,
            _ => return self.postfix(),
        };
        self.at += 1;
        self.deeper()?;
        let of = self.unary()?;
        self.nest -= 1;
        let kind = match (op, of.kind) {
            ("-", Kind::Const(Lit::Int(n))) => Kind::Const(Lit::Int(n.wrapping_neg())),
            ("-", Kind::Const(Lit::Long(n))) => match i32::try_from(-n) {
                Ok(n) if n == i32::MIN => Kind::Const(Lit::Int(n)),
                _ => Kind::Const(Lit::Long(n.wrapping_neg())),
            },
            ("-", Kind::Const(Lit::Double(n))) => Kind::Const(Lit::Double(-n)),
            (op, kind) => {
                let of = Node { kind, ..of };
                match op {
                    "!" => Kind::Not(Box::new(of)),
                    "-" => Kind::Neg(Box::new(of)),
                    "~" => Kind::BitNot(Box::new(of)),
                    "++" => Kind::Inc(Box::new(self.target(of)?), 1, true),
                    "--" => Kind::Inc(Box::new(self.target(of)?), -1, true),
                    _ => return Ok(of),
                }
            }
        };
        self.node(pos, kind)
    }

    pub(super) fn postfix(&mut self) -> P<Node> {
        let mut e = self.primary()?;
        loop {
            let pos = self.pos();
            match self.peek() {
                Tok::Op(op @ ("." | "?." | "*.")) if *op != "*." || self.lang == Lang::Groovy => {
                    let (safe, spread) = (*op == "?.", *op == "*.");
                    self.at += 1;
                    e = self.member(e, safe, spread, pos)?;
                }
                Tok::Op("[") if !self.line() => {
                    self.at += 1;
                    self.parens += 1;
                    let i = self.expr(0)?;
                    self.parens -= 1;
                    self.need("]")?;
                    e = self.index(e, i, pos)?;
                }
                Tok::Op("(") if !self.line() && matches!(e.kind, Kind::Local(_)) => {
                    let args = self.args()?;
                    e = self.node(pos, Kind::Invoke(Box::new(e), args))?;
                }
                Tok::Op(op @ ("++" | "--")) if !self.line() => {
                    let by = if *op == "++" { 1 } else { -1 };
                    self.at += 1;
                    let target = self.target(e)?;
                    e = self.node(pos, Kind::Inc(Box::new(target), by, false))?;
                }
                _ => return Ok(e),
            }
        }
    }

    pub(super) fn index(&mut self, of: Node, i: Node, pos: u32) -> P<Node> {
        if let Kind::Const(Lit::Str(name)) = &i.kind {
            if matches!(of.kind, Kind::DocAll) {
                let slot = self.scope.doc(name, &mut self.tree);
                return self.node(pos, Kind::Doc(slot));
            }
            if self.is_params(&of) {
                let slot = self.scope.param(name.clone(), &mut self.tree);
                return self.node(pos, Kind::Param(slot));
            }
        }
        self.node(pos, Kind::Index(Box::new((of, i))))
    }

    pub(super) fn is_params(&self, node: &Node) -> bool {
        matches!(node.kind, Kind::Root(slot) if self.tree.roots.get(slot as usize).is_some_and(|n| &**n == "params"))
    }

    pub(super) fn member(&mut self, of: Node, safe: bool, spread: bool, pos: u32) -> P<Node> {
        let name = match self.next() {
            Tok::Id(w) => w,
            Tok::Lit(Lit::Str(s)) if self.lang == Lang::Groovy => s,
            Tok::Lit(Lit::Int(n)) => n.to_string().into(),
            _ => {
                self.at -= 1;
                return self.unexpected_token();
            }
        };
        let closure = self.lang == Lang::Groovy && self.is("{") && !self.line();
        if self.is("(") || closure {
            let mut args = if closure { Vec::new() } else { self.args()? };
            if self.lang == Lang::Groovy && self.is("{") && !self.line() {
                args.push(self.closure()?);
            }
            if matches!(of.kind, Kind::DocAll)
                && &*name == "get"
                && let Some(Kind::Const(Lit::Str(field))) = args.first().map(|a| &a.kind)
            {
                let slot = self.scope.doc(field, &mut self.tree);
                return self.node(pos, Kind::Doc(slot));
            }
            if let (Kind::Doc(slot), "getValue", 0) = (&of.kind, &*name, args.len()) {
                return self.node(pos, Kind::DocValue(*slot));
            }
            let member = Member {
                target: of,
                name,
                safe,
                spread,
            };
            return self.node(pos, Kind::Call(Box::new(member), args));
        }
        match &of.kind {
            Kind::DocAll => {
                let slot = self.scope.doc(&name, &mut self.tree);
                self.node(pos, Kind::Doc(slot))
            }
            Kind::Doc(slot) if &*name == "value" => self.node(pos, Kind::DocValue(*slot)),
            _ if self.is_params(&of) => {
                let slot = self.scope.param(name, &mut self.tree);
                self.node(pos, Kind::Param(slot))
            }
            _ => self.node(
                pos,
                Kind::Field(Box::new(Member {
                    target: of,
                    name,
                    safe,
                    spread,
                })),
            ),
        }
    }

    /// `( … )`
    pub(super) fn args(&mut self) -> P<Vec<Node>> {
        self.need("(")?;
        self.parens += 1;
        let args = self.commas(")")?;
        self.parens -= 1;
        self.need(")")?;
        Ok(args)
    }

    pub(super) fn primary(&mut self) -> P<Node> {
        let pos = self.pos();
        if let Tok::Id(_) = self.peek() {
            return self.name();
        }
        match self.next() {
            Tok::Lit(lit) => self.node(pos, Kind::Const(lit)),
            Tok::Regex(source, flags) => match Pattern::new(&source, &flags) {
                Ok(p) => self.node(pos, Kind::Regex(Arc::new(p))),
                Err(why) => fail(why, pos),
            },
            Tok::GString(parts) => self.gstring(parts, pos),
            Tok::Op("(") => self.paren(pos),
            Tok::Op("[") => self.literal(pos),
            Tok::Op("{") if self.lang == Lang::Groovy => {
                self.at -= 1;
                self.closure()
            }
            _ => {
                self.at -= 1;
                self.unexpected_token()
            }
        }
    }

    pub(super) fn gstring(&mut self, parts: Vec<Part>, pos: u32) -> P<Node> {
        let mut nodes = Vec::new();
        for part in parts {
            match part {
                Part::Text(text) => nodes.push(self.node(pos, Kind::Const(Lit::Str(text)))?),
                Part::Code(tokens) => {
                    let close = matching(&tokens);
                    let tokens = std::mem::replace(&mut self.tokens, tokens);
                    let close = std::mem::replace(&mut self.close, close);
                    let at = std::mem::take(&mut self.at);
                    let parens = std::mem::take(&mut self.parens);
                    let node = self.expr(0)?;
                    if *self.peek() != Tok::Eof {
                        return self.unexpected_token();
                    }
                    (self.tokens, self.close, self.at, self.parens) = (tokens, close, at, parens);
                    nodes.push(node);
                }
            }
        }
        self.node(pos, Kind::Text(nodes))
    }

    /// After `(`: a cast, a lambda's parameters, or an expression.
    pub(super) fn paren(&mut self, pos: u32) -> P<Node> {
        let open = self.at - 1;
        let close = self.close.get(open).copied().unwrap_or(0) as usize;
        if close > 0 && self.tokens.get(close + 1).is_some_and(|t| t.tok == Tok::Op("->")) {
            return self.lambda(pos, true);
        }
        if let Tok::Id(name) = self.peek() {
            let plain = close == self.at + 1 || (self.is_at(1, "[") && close == self.at + 3);
            let operand = match self.tokens.get(close + 1).map(|t| &t.tok) {
                Some(Tok::Id(w)) => !matches!(&**w, "in" | "instanceof" | "as"),
                Some(Tok::Lit(_) | Tok::GString(_) | Tok::Op("(" | "[" | "!" | "~")) => true,
                Some(Tok::Op("-" | "+")) => matches!(&**name, "int" | "long" | "double" | "float" | "short" | "byte"),
                _ => false,
            };
            if plain && operand && !self.scope.is_known(name) && type_of(name).is_some() {
                let ty = self.ty()?;
                self.need(")")?;
                self.deeper()?;
                let of = self.unary()?;
                self.nest -= 1;
                return self.node(pos, Kind::Cast(ty, Box::new(of)));
            }
        }
        self.parens += 1;
        let e = self.expr(0)?;
        self.parens -= 1;
        self.need(")")?;
        Ok(e)
    }
}

pub(super) fn binary(op: &str) -> Option<Op> {
    Some(match op {
        "+" => Op::Add,
        "-" => Op::Sub,
        "*" => Op::Mul,
        "/" => Op::Div,
        "%" => Op::Rem,
        "**" => Op::Pow,
        "<<" => Op::Shl,
        ">>" => Op::Shr,
        ">>>" => Op::Ushr,
        "&" => Op::BitAnd,
        "|" => Op::BitOr,
        "^" => Op::BitXor,
        "==" => Op::Eq,
        "!=" => Op::Ne,
        "===" => Op::Same,
        "!==" => Op::NotSame,
        "<" => Op::Lt,
        "<=" => Op::Le,
        ">" => Op::Gt,
        ">=" => Op::Ge,
        "<=>" => Op::Compare,
        "=~" => Op::Find,
        "==~" => Op::Match,
        "in" => Op::In,
        _ => return None,
    })
}
