//! Literals, closures, names, types that are called.

use super::*;
use crate::Lang;
use crate::api::statics;
use crate::ast::{Block, Function, Kind, Member, Node, StmtKind, Ty, TyOrDef};
use crate::check::type_of;
use crate::functions::{MathFn, ScoreFn};
use crate::lexer::{Tok, fail};
use crate::value::Lit;
use std::sync::Arc;

impl Parser<'_> {
    pub(super) fn literal(&mut self, pos: u32) -> P<Node> {
        self.parens += 1;
        let kind = if self.eat(":") {
            Kind::Map(Vec::new())
        } else {
            let (mut list, mut map) = (Vec::new(), Vec::new());
            while !self.is("]") {
                let at = self.pos();
                // `[a: 1]`: a bare word is the key itself in Groovy.
                let bare = match self.peek() {
                    Tok::Id(w) if self.is_at(1, ":") && (self.lang == Lang::Groovy || !self.scope.is_known(w)) => Some(w.clone()),
                    _ => None,
                };
                let key = match bare {
                    Some(w) => {
                        self.at += 1;
                        self.node(at, Kind::Const(Lit::Str(w)))?
                    }
                    None => self.expr(0)?,
                };
                if self.eat(":") {
                    map.push((key, self.expr(0)?));
                } else {
                    list.push(key);
                }
                if !self.eat(",") {
                    break;
                }
            }
            if !map.is_empty() && !list.is_empty() {
                return self.unexpected_token();
            }
            if map.is_empty() { Kind::List(list) } else { Kind::Map(map) }
        };
        self.parens -= 1;
        self.need("]")?;
        self.node(pos, kind)
    }

    /// A lambda, after its `(` or at its one name.
    pub(super) fn lambda(&mut self, pos: u32, paren: bool) -> P<Node> {
        let from = self.scope.locals_in_use();
        self.scope.enter();
        let params = if paren {
            let params = self.parameters(")")?;
            self.need(")")?;
            params
        } else {
            let name = self.id()?;
            vec![(self.scope.declare(name, Ty::Def), TyOrDef(Ty::Def))]
        };
        self.need("->")?;
        let body = if self.is("{") {
            self.block()?
        } else {
            let at = self.pos();
            let e = self.expr(0)?;
            vec![self.stmt_of(at, StmtKind::Expr(e))?]
        };
        self.close_lambda(pos, from, params, body)
    }

    /// `{ a, b -> … }` or `{ … it … }`
    pub(super) fn closure(&mut self) -> P<Node> {
        let pos = self.pos();
        self.need("{")?;
        let from = self.scope.locals_in_use();
        let parens = std::mem::take(&mut self.parens);
        self.scope.enter();
        let mut n = 0;
        while matches!(self.ahead(n), Tok::Id(_) | Tok::Op("," | "[" | "]")) {
            n += 1;
        }
        let params = if self.is_at(n, "->") {
            let params = self.parameters("->")?;
            self.need("->")?;
            params
        } else {
            vec![(self.scope.declare("it".into(), Ty::Def), TyOrDef(Ty::Def))]
        };
        let body = self.statements_to_brace()?;
        self.parens = parens;
        self.close_lambda(pos, from, params, body)
    }

    pub(super) fn close_lambda(&mut self, pos: u32, from: u32, params: Vec<(u32, TyOrDef)>, mut body: Block) -> P<Node> {
        self.scope.leave();
        tail(&mut body);
        let depth = body.iter().map(|s| s.depth).max().unwrap_or(0);
        let slots = (from, self.scope.locals_in_use());
        self.tree.lambdas.push(Function {
            name: "lambda".into(),
            params,
            slots,
            depth,
            body,
        });
        let i = self.tree.lambdas.len() as u32 - 1;
        self.node(pos, Kind::Lambda(i))
    }

    pub(super) fn name(&mut self) -> P<Node> {
        let pos = self.pos();
        if self.is_at(1, "->") {
            return self.lambda(pos, false);
        }
        let name = self.id()?;
        match &*name {
            "true" => return self.node(pos, Kind::Const(Lit::Bool(true))),
            "false" => return self.node(pos, Kind::Const(Lit::Bool(false))),
            "null" => return self.node(pos, Kind::Const(Lit::Null)),
            "new" => return self.new_object(pos),
            "if" | "else" | "for" | "while" | "return" | "in" | "instanceof" | "catch" => {
                self.at -= 1;
                return self.unexpected_token();
            }
            _ => {}
        }
        if let Some((slot, _)) = self.scope.local(&name) {
            return self.node(pos, Kind::Local(slot));
        }
        if self.is("(") {
            return self.function_call(name, pos);
        }
        if self.lang == Lang::Groovy
            && let Some(constant) = statics::constant("Math", &name)
        {
            return self.node(pos, Kind::Const(constant));
        }
        match &*name {
            "doc" => return self.node(pos, Kind::DocAll),
            "_score" => {
                self.tree.score = true;
                return self.node(pos, Kind::Score);
            }
            _ => {}
        }
        let class = name.starts_with(|c: char| c.is_ascii_uppercase()) && (type_of(&name).is_some() || statics::is_class(&name));
        if class && self.is("::") {
            self.at += 1;
            return self.method_ref(&name, pos);
        }
        if class && self.is(".") {
            self.at += 1;
            let mut member = self.id()?;
            if self.is(".") && matches!(self.ahead(1), Tok::Id(_)) && &*member == "Entry" {
                self.at += 1;
                member = self.id()?;
            }
            return self.static_member(name, member, pos);
        }
        if matches!(&*name, "java" | "org") && self.is(".") {
            return self.qualified_name();
        }
        let slot = self.scope.root(name, &mut self.tree);
        self.node(pos, Kind::Root(slot))
    }

    /// A call of a function by its bare name: one of scores, one of mathematics in an expression, or one of the script.
    fn function_call(&mut self, name: Arc<str>, pos: u32) -> P<Node> {
        let mut args = self.args()?;
        if self.lang == Lang::Groovy && self.is("{") && !self.line() {
            args.push(self.closure()?);
        }
        if let Some(f) = ScoreFn::find(&name, args.len()) {
            return self.node(pos, Kind::ScoreFn(f, args));
        }
        // Scripts of Groovy import the members of `java.lang.Math`.
        if self.lang == Lang::Groovy
            && let Some(f) = MathFn::of_java(&name, args.len())
        {
            return self.node(pos, Kind::Math(f, args));
        }
        if self.lang == Lang::Expression {
            return match MathFn::find(&name, args.len()) {
                Some(f) => self.node(pos, Kind::Math(f, args)),
                None => fail(format!("Unrecognized function call ({name})."), pos),
            };
        }
        self.calls.push((name, pos));
        self.node(pos, Kind::Func(self.calls.len() as u32 - 1, args))
    }

    /// `java.util.List`, `java.time.Instant`: the package says nothing.
    fn qualified_name(&mut self) -> P<Node> {
        while self.eat(".") {
            let Tok::Id(word) = self.peek() else {
                return self.unexpected_token();
            };
            if word.starts_with(|c: char| c.is_ascii_uppercase()) {
                return self.name();
            }
            self.at += 1;
        }
        self.unexpected_token()
    }

    pub(super) fn static_member(&mut self, class: Arc<str>, member: Arc<str>, pos: u32) -> P<Node> {
        if self.is("(") {
            let args = self.args()?;
            if matches!(&*class, "Math" | "StrictMath") {
                return match MathFn::of_java(&member, args.len()) {
                    Some(f) => self.node(pos, Kind::Math(f, args)),
                    None => fail(
                        format!("static method [java.lang.Math, {member}/{}] not found", args.len()),
                        pos,
                    ),
                };
            }
            return self.node(pos, Kind::Static(class, member, args));
        }
        match statics::constant(&class, &member) {
            Some(lit) => self.node(pos, Kind::Const(lit)),
            None => self.node(pos, Kind::Static(class, member, Vec::new())),
        }
    }

    /// `String::length`, `Integer::compare`: a lambda that makes the call.
    pub(super) fn method_ref(&mut self, class: &Arc<str>, pos: u32) -> P<Node> {
        let name = self.id()?;
        let from = self.scope.locals_in_use();
        self.scope.enter();
        let a = self.scope.declare("(a".into(), Ty::Def);
        let b = self.scope.declare("(b".into(), Ty::Def);
        let local = |p: &Self, slot| p.node(pos, Kind::Local(slot));
        let (kind, two) = match &*name {
            "new" => (Kind::New(class.clone(), Vec::new()), false),
            "compare" | "sum" | "max" | "min" => (
                Kind::Static(class.clone(), name.clone(), vec![local(self, a)?, local(self, b)?]),
                true,
            ),
            "parseInt" | "parseLong" | "parseDouble" | "valueOf" => {
                (Kind::Static(class.clone(), name.clone(), vec![local(self, a)?]), false)
            }
            "compareTo" | "concat" => {
                let member = Member {
                    target: local(self, a)?,
                    name: name.clone(),
                    safe: false,
                    spread: false,
                };
                (Kind::Call(Box::new(member), vec![local(self, b)?]), true)
            }
            _ => {
                let member = Member {
                    target: local(self, a)?,
                    name: name.clone(),
                    safe: false,
                    spread: false,
                };
                (Kind::Call(Box::new(member), Vec::new()), false)
            }
        };
        let e = self.node(pos, kind)?;
        let body = vec![self.stmt_of(pos, StmtKind::Expr(e))?];
        let mut params = vec![(a, TyOrDef(Ty::Def))];
        if two {
            params.push((b, TyOrDef(Ty::Def)));
        }
        self.close_lambda(pos, from, params, body)
    }

    pub(super) fn new_object(&mut self, pos: u32) -> P<Node> {
        let mut name = self.id()?;
        while self.eat(".") {
            name = self.id()?;
        }
        if type_of(&name).is_none() {
            return fail(format!("cannot resolve type [{name}]"), pos);
        }
        if self.is("[") {
            // `new int[3]`, `new def[] {1, 2}`
            self.at += 1;
            if self.eat("]") {
                self.need("{")?;
                self.parens += 1;
                let items = self.commas("}")?;
                self.parens -= 1;
                self.need("}")?;
                return self.node(pos, Kind::List(items));
            }
            let n = self.expr(0)?;
            self.need("]")?;
            let class = format!("{name}[]");
            return self.node(pos, Kind::New(class.into(), vec![n]));
        }
        if self.is("<") {
            while !self.is("(") && *self.peek() != Tok::Eof {
                self.at += 1;
            }
        }
        let args = self.args()?;
        self.node(pos, Kind::New(name, args))
    }
}
