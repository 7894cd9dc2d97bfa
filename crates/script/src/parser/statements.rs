//! Statements: functions, declarations, loops, `try`.

use super::*;
use crate::Lang;
use crate::ast::{Block, Catch, Function, Node, Stmt, StmtKind, Ty, TyOrDef};
use crate::check::type_of;
use crate::lexer::{Tok, fail};
use std::sync::Arc;

impl Parser<'_> {
    pub(super) fn script(&mut self) -> P<()> {
        self.scope.enter();
        let mut body = Vec::new();
        loop {
            if self.eat(";") {
                continue;
            }
            if *self.peek() == Tok::Eof {
                break;
            }
            if self.is_function() {
                let f = self.function()?;
                self.tree.functions.push(f);
                continue;
            }
            body.push(self.stmt()?);
        }
        if self.lang == Lang::Expression && (body.len() != 1 || !matches!(body.first().map(|s| &s.kind), Some(StmtKind::Expr(_))))
        {
            return fail("an expression is one expression", 0);
        }
        tail(&mut body);
        self.tree.frame = self.scope.frame();
        self.tree.depth = body.iter().map(|s| s.depth).max().unwrap_or(0);
        self.tree.body = body;
        // `Func` held an index into `calls`; functions are few, so order them by first call.
        let mut ordered = Vec::new();
        for (name, pos) in &self.calls {
            match self.tree.functions.iter().position(|f| f.name == *name) {
                Some(i) => ordered.push(i),
                None if self.lang == Lang::Groovy => ordered.push(usize::MAX),
                None => {
                    return fail(format!("Unknown call [{name}] with [{name}] arguments."), *pos);
                }
            }
        }
        let names: Vec<Arc<str>> = self.calls.iter().map(|c| c.0.clone()).collect();
        self.tree.links = ordered;
        self.tree.names = names;
        Ok(())
    }

    pub(super) fn is_function(&self) -> bool {
        let Tok::Id(ty) = self.peek() else {
            return false;
        };
        let name = if self.is_at(1, "[") && self.is_at(2, "]") { 3 } else { 1 };
        type_of(ty).is_some()
            && matches!(self.ahead(name), Tok::Id(_))
            && self.is_at(name + 1, "(")
            && self
                .close
                .get(self.at + name + 1)
                .and_then(|c| self.tokens.get(*c as usize + 1))
                .is_some_and(|t| t.tok == Tok::Op("{"))
    }

    pub(super) fn function(&mut self) -> P<Function> {
        let pos = self.pos();
        self.ty()?;
        let name = self.id()?;
        if self.tree.functions.iter().any(|f| f.name == name) {
            return fail(format!("Duplicate functions with name [{name}]."), pos);
        }
        self.need("(")?;
        let kept = self.scope.suspend();
        self.scope.enter();
        let params = self.parameters(")")?;
        self.need(")")?;
        let mut body = self.block()?;
        self.scope.leave();
        tail(&mut body);
        let frame = self.scope.resume(kept);
        let depth = body.iter().map(|s| s.depth).max().unwrap_or(0);
        Ok(Function {
            name,
            params,
            slots: (0, frame),
            depth,
            body,
        })
    }

    pub(super) fn parameters(&mut self, end: &str) -> P<Vec<(u32, TyOrDef)>> {
        let mut params = Vec::new();
        while !self.is(end) {
            let ty = if matches!(self.ahead(1), Tok::Id(_)) || self.is_at(1, "[") {
                self.ty()?
            } else {
                Ty::Def
            };
            let name = self.id()?;
            params.push((self.scope.declare(name, ty), TyOrDef(ty)));
            if !self.eat(",") {
                break;
            }
        }
        Ok(params)
    }

    /// A type name, with `[]` after it perhaps.
    pub(super) fn ty(&mut self) -> P<Ty> {
        let pos = self.pos();
        let mut name = self.id()?;
        while self.is(".") && matches!(self.ahead(1), Tok::Id(_)) {
            self.at += 1;
            name = self.id()?;
        }
        if &*name == "final" && matches!(self.ahead(1), Tok::Id(_)) {
            return self.ty();
        }
        let Some(ty) = type_of(&name) else {
            return fail(format!("cannot resolve type [{name}]"), pos);
        };
        if self.is("<") {
            // Generic arguments say nothing to us.
            let mut open = 0;
            loop {
                match self.next() {
                    Tok::Op("<") => open += 1,
                    Tok::Op(">") => open -= 1,
                    Tok::Op(">>") => open -= 2,
                    Tok::Id(_) | Tok::Op("," | "?" | ".") => {}
                    _ => {
                        self.at -= 1;
                        return self.unexpected_token();
                    }
                }
                if open <= 0 {
                    break;
                }
            }
        }
        let mut array = false;
        while self.is("[") && self.is_at(1, "]") {
            self.at += 2;
            array = true;
        }
        Ok(if array { Ty::Other } else { ty })
    }

    /// Does a declaration begin here: `type name`, `type[] name`, `List<String> name`?
    pub(super) fn is_declaration(&self) -> bool {
        let Tok::Id(first) = self.peek() else {
            return false;
        };
        if matches!(
            &**first,
            "return" | "throw" | "assert" | "new" | "else" | "in" | "instanceof" | "case"
        ) {
            return false;
        }
        let names = |n: usize| {
            matches!(self.ahead(n), Tok::Id(w) if !matches!(&**w, "in" | "instanceof" | "as"))
                && self.tokens.get(self.at + n).is_some_and(|t| !t.line)
        };
        if names(1) {
            return true;
        }
        if type_of(first).is_none() {
            return false;
        }
        if self.is_at(1, "[") && self.is_at(2, "]") {
            return true;
        }
        // `List<String> x`: a name follows the closing bracket.
        self.is_at(1, "<")
            && first.starts_with(|c: char| c.is_ascii_uppercase())
            && (2..8).any(|n| (self.is_at(n, ">") || self.is_at(n, ">>")) && names(n + 1))
    }

    // ---- statements

    /// Statements up to the brace that ends them, which is read too.
    pub(super) fn statements_to_brace(&mut self) -> P<Block> {
        let mut all = Vec::new();
        loop {
            if self.eat("}") {
                return Ok(all);
            }
            if self.eat(";") {
                continue;
            }
            if *self.peek() == Tok::Eof {
                return self.unexpected_token();
            }
            all.push(self.stmt()?);
        }
    }

    pub(super) fn block(&mut self) -> P<Block> {
        self.scope.enter();
        let parens = std::mem::take(&mut self.parens);
        let mut all = Vec::new();
        if self.eat("{") {
            all = self.statements_to_brace()?;
        } else if !self.eat(";") {
            all.push(self.stmt()?);
        }
        self.parens = parens;
        self.scope.leave();
        Ok(all)
    }

    pub(super) fn end(&mut self) -> P<()> {
        if self.eat(";") || self.is("}") || *self.peek() == Tok::Eof || self.line() {
            Ok(())
        } else {
            self.unexpected_token()
        }
    }

    pub(super) fn stmt(&mut self) -> P<Stmt> {
        self.deeper()?;
        let pos = self.pos();
        let kind = self.stmt_kind()?;
        self.nest -= 1;
        self.stmt_of(pos, kind)
    }

    pub(super) fn condition(&mut self) -> P<Node> {
        self.need("(")?;
        self.parens += 1;
        let c = self.expr(0)?;
        self.parens -= 1;
        self.need(")")?;
        Ok(c)
    }

    pub(super) fn stmt_kind(&mut self) -> P<StmtKind> {
        if self.is("{") {
            return Ok(StmtKind::Block(self.block()?));
        }
        let word = match self.peek() {
            Tok::Id(w) => w.clone(),
            _ => "".into(),
        };
        if self.lang == Lang::Expression {
            let e = self.expr(0)?;
            self.end()?;
            return Ok(StmtKind::Expr(e));
        }
        match &*word {
            "if" => self.if_stmt(),
            "while" => {
                self.at += 1;
                let c = self.condition()?;
                Ok(StmtKind::While(c, self.block()?))
            }
            "do" if self.is_at(1, "{") => {
                self.at += 1;
                let body = self.block()?;
                if !self.eat_word("while") {
                    return self.unexpected_token();
                }
                let c = self.condition()?;
                self.end()?;
                Ok(StmtKind::DoWhile(body, c))
            }
            "for" if self.is_at(1, "(") => self.for_stmt(),
            "switch" if self.is_at(1, "(") => self.switch(),
            "try" if self.is_at(1, "{") => self.try_stmt(),
            "return" => {
                self.at += 1;
                let none = self.is(";") || self.is("}") || *self.peek() == Tok::Eof || (self.line() && self.lang == Lang::Groovy);
                let value = if none { None } else { Some(self.expr(0)?) };
                self.end()?;
                Ok(StmtKind::Return(value))
            }
            "assert" => self.assert_stmt(),
            "throw" => {
                self.at += 1;
                let e = self.expr(0)?;
                self.end()?;
                Ok(StmtKind::Throw(e))
            }
            "break" => {
                self.at += 1;
                self.end()?;
                Ok(StmtKind::Break)
            }
            "continue" => {
                self.at += 1;
                self.end()?;
                Ok(StmtKind::Continue)
            }
            _ if self.is_declaration() => self.declaration(true),
            _ => {
                let e = self.expr(0)?;
                self.end()?;
                Ok(StmtKind::Expr(e))
            }
        }
    }

    fn if_stmt(&mut self) -> P<StmtKind> {
        self.at += 1;
        let c = self.condition()?;
        let yes = self.block()?;
        let before = self.at;
        while self.eat(";") {}
        if self.eat_word("else") {
            return Ok(StmtKind::If(c, yes, self.block()?));
        }
        self.at = before;
        Ok(StmtKind::If(c, yes, Vec::new()))
    }

    /// An `assert` keeps the text of its condition, which its failure shows.
    fn assert_stmt(&mut self) -> P<StmtKind> {
        self.at += 1;
        let from = self.pos() as usize;
        let c = self.expr(0)?;
        let to = self.pos() as usize;
        let text = self
            .source
            .get(from..to)
            .unwrap_or("")
            .trim_end_matches([' ', '\n', '\t', '\r'])
            .into();
        let message = if self.eat(":") || self.eat(",") {
            Some(self.expr(0)?)
        } else {
            None
        };
        self.end()?;
        Ok(StmtKind::Assert(c, message, text))
    }

    pub(super) fn declaration(&mut self, end: bool) -> P<StmtKind> {
        let ty = self.ty()?;
        let mut lets = Vec::new();
        loop {
            let pos = self.pos();
            let name = self.id()?;
            if self.scope.is_known(&name) {
                return fail(format!("variable [{name}] is already defined in the scope"), pos);
            }
            // A closure may call itself by the name it is given.
            let early = self.is("=") && (self.is_at(1, "{"));
            let slot = if early { self.scope.declare(name.clone(), ty) } else { 0 };
            let value = if self.eat("=") { Some(self.expr(0)?) } else { None };
            let slot = if early { slot } else { self.scope.declare(name, ty) };
            lets.push(self.stmt_of(pos, StmtKind::Let(slot, ty, value))?);
            if !self.eat(",") {
                break;
            }
        }
        if end {
            self.end()?;
        }
        match lets.len() {
            1 => Ok(lets.remove(0).kind),
            _ => Ok(StmtKind::Block(lets)),
        }
    }

    pub(super) fn for_stmt(&mut self) -> P<StmtKind> {
        self.at += 2;
        self.parens += 1;
        self.scope.enter();
        let typed = self.is_declaration();
        let start = self.at;
        if typed {
            self.ty()?;
        }
        let each =
            matches!(self.peek(), Tok::Id(_)) && (self.is_at(1, ":") || matches!(self.ahead(1), Tok::Id(w) if &**w == "in"));
        self.at = start;
        let kind = if each {
            let ty = if typed { self.ty()? } else { Ty::Def };
            let name = self.id()?;
            self.at += 1;
            let over = self.expr(0)?;
            let slot = self.scope.declare(name, ty);
            self.parens -= 1;
            self.need(")")?;
            StmtKind::ForIn(slot, ty, over, self.block()?)
        } else {
            let mut init = Vec::new();
            let pos = self.pos();
            if typed {
                let kind = self.declaration(false)?;
                init.push(self.stmt_of(pos, kind)?);
            } else if !self.is(";") {
                for e in self.commas(";")? {
                    init.push(self.stmt_of(pos, StmtKind::Expr(e))?);
                }
            }
            self.need(";")?;
            let c = if self.is(";") { None } else { Some(self.expr(0)?) };
            self.need(";")?;
            let update = self.commas(")")?;
            self.parens -= 1;
            self.need(")")?;
            StmtKind::For(init, c, update, self.block()?)
        };
        self.scope.leave();
        Ok(kind)
    }

    pub(super) fn commas(&mut self, end: &str) -> P<Vec<Node>> {
        let mut all = Vec::new();
        while !self.is(end) {
            all.push(self.expr(0)?);
            if !self.eat(",") {
                break;
            }
        }
        Ok(all)
    }

    pub(super) fn switch(&mut self) -> P<StmtKind> {
        self.at += 1;
        let on = self.condition()?;
        self.need("{")?;
        self.scope.enter();
        let mut cases = Vec::new();
        while !self.eat("}") {
            let when = if self.eat_word("default") {
                None
            } else if self.eat_word("case") {
                Some(self.expr(0)?)
            } else {
                return self.unexpected_token();
            };
            self.need(":")?;
            let mut body = Vec::new();
            while !(self.word("case") || self.word("default") || self.is("}")) {
                if self.eat(";") {
                    continue;
                }
                if *self.peek() == Tok::Eof {
                    return self.unexpected_token();
                }
                body.push(self.stmt()?);
            }
            cases.push((when, body));
        }
        self.scope.leave();
        Ok(StmtKind::Switch(on, cases))
    }

    pub(super) fn try_stmt(&mut self) -> P<StmtKind> {
        self.at += 1;
        let body = self.block()?;
        let mut catches = Vec::new();
        while self.eat_word("catch") {
            self.need("(")?;
            let mut types = Vec::new();
            loop {
                let mut name = self.id()?;
                while self.eat(".") {
                    name = self.id()?;
                }
                types.push(name);
                if !self.eat("|") {
                    break;
                }
            }
            self.scope.enter();
            let name = if self.is(")") {
                types.pop().unwrap_or_else(|| "e".into())
            } else {
                self.id()?
            };
            let slot = self.scope.declare(name, Ty::Def);
            self.need(")")?;
            let body = self.block()?;
            self.scope.leave();
            catches.push(Catch { types, slot, body });
        }
        let last = if self.eat_word("finally") { self.block()? } else { Vec::new() };
        if catches.is_empty() && last.is_empty() {
            return self.unexpected_token();
        }
        Ok(StmtKind::Try(body, catches, last))
    }

    // ---- expressions
}
