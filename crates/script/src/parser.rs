//! Tokens to the resolved tree: a Pratt parser with bounded depth. Painless and Groovy share it;
//! `Lang` decides about closures, newlines, command forms. Running is in `run`.

use crate::Lang;
use crate::api::{math, score, statics};
use crate::ast::{Block, Catch, Function, Kind, Member, Node, Op, Stmt, StmtKind, Target, Tree, Ty, TyOrDef};
use crate::check::{Scope, type_of};
use crate::lexer::{Part, SyntaxError, Tok, Token, fail, lex};
use crate::value::{Lit, Pattern};
use std::sync::Arc;

/// The deepest tree accepted, in nodes and in nested constructs.
const MAX_DEPTH: u16 = 120;

type P<T> = Result<T, SyntaxError>;

/// Parses a whole script.
pub(crate) fn parse(source: &str, lang: Lang) -> P<Tree> {
    let mut tokens = lex(source, lang, 0, 0)?;
    if let Some(last) = tokens.last_mut() {
        last.line = true;
    }
    let mut parser = Parser {
        close: matching(&tokens),
        tokens,
        at: 0,
        lang,
        source,
        scope: Scope::default(),
        tree: Tree::default(),
        calls: Vec::new(),
        nest: 0,
        parens: 0,
    };
    parser.script()?;
    Ok(parser.tree)
}

/// For every `(` the index of its `)`, or 0.
fn matching(tokens: &[Token]) -> Vec<u32> {
    let mut close = vec![0; tokens.len()];
    let mut open = Vec::new();
    for (i, token) in tokens.iter().enumerate() {
        match token.tok {
            Tok::Op("(") => open.push(i),
            Tok::Op(")") => {
                if let Some(slot) = open.pop().and_then(|o| close.get_mut(o)) {
                    *slot = i as u32;
                }
            }
            _ => {}
        }
    }
    close
}

struct Parser<'a> {
    tokens: Vec<Token>,
    close: Vec<u32>,
    at: usize,
    lang: Lang,
    source: &'a str,
    scope: Scope,
    tree: Tree,
    /// Names of functions called, with where: `Kind::Func` holds an index into these until the end.
    calls: Vec<(Arc<str>, u32)>,
    nest: u16,
    parens: u32,
}

const EOF: Tok = Tok::Eof;

impl Parser<'_> {
    fn ahead(&self, n: usize) -> &Tok {
        self.tokens.get(self.at + n).map_or(&EOF, |t| &t.tok)
    }
    fn peek(&self) -> &Tok {
        self.ahead(0)
    }
    fn pos(&self) -> u32 {
        self.tokens.get(self.at).or(self.tokens.last()).map_or(0, |t| t.pos)
    }
    /// A line break before the token here that counts.
    fn line(&self) -> bool {
        self.parens == 0 && self.tokens.get(self.at).is_none_or(|t| t.line)
    }
    fn next(&mut self) -> Tok {
        let tok = self.peek().clone();
        self.at += 1;
        tok
    }
    fn is(&self, op: &str) -> bool {
        matches!(self.peek(), Tok::Op(o) if *o == op)
    }
    fn is_at(&self, n: usize, op: &str) -> bool {
        matches!(self.ahead(n), Tok::Op(o) if *o == op)
    }
    fn word(&self, word: &str) -> bool {
        matches!(self.peek(), Tok::Id(w) if &**w == word)
    }
    fn eat(&mut self, op: &str) -> bool {
        let is = self.is(op);
        self.at += usize::from(is);
        is
    }
    fn eat_word(&mut self, word: &str) -> bool {
        let is = self.word(word);
        self.at += usize::from(is);
        is
    }
    fn unexpected<T>(&self) -> P<T> {
        let shown = match self.peek() {
            Tok::Eof => "<EOF>".to_owned(),
            Tok::Id(w) => w.to_string(),
            Tok::Op(o) => (*o).to_owned(),
            Tok::Lit(l) => l.value().text(),
            Tok::GString(_) | Tok::Regex(..) => "text".to_owned(),
        };
        match (self.lang, shown.as_str()) {
            (Lang::Groovy, "<EOF>") => fail("unexpected token:  ", self.pos()),
            (Lang::Groovy, _) => fail(format!("unexpected token: {shown}"), self.pos()),
            (_, "<EOF>") => fail("unexpected end of script.", self.pos()),
            _ => fail(format!("unexpected token ['{shown}']."), self.pos()),
        }
    }
    fn need(&mut self, op: &str) -> P<()> {
        if self.eat(op) { Ok(()) } else { self.unexpected() }
    }
    fn id(&mut self) -> P<Arc<str>> {
        match self.peek() {
            Tok::Id(w) => {
                let w = w.clone();
                self.at += 1;
                Ok(w)
            }
            _ => self.unexpected(),
        }
    }
    fn deeper(&mut self) -> P<()> {
        self.nest += 1;
        if self.nest > MAX_DEPTH {
            fail("the script nests too deeply", self.pos())
        } else {
            Ok(())
        }
    }

    // ---- building

    fn node(&self, pos: u32, kind: Kind) -> P<Node> {
        let (mut depth, mut size) = (0u16, 1u32);
        let mut see = |n: &Node| {
            depth = depth.max(n.depth);
            size = size.saturating_add(n.size);
        };
        match &kind {
            Kind::Field(m) => see(&m.target),
            Kind::Call(m, args) => {
                see(&m.target);
                args.iter().for_each(see);
            }
            Kind::Index(p) | Kind::And(p) | Kind::Or(p) | Kind::Elvis(p) | Kind::Bin(_, p) | Kind::Range(p, _) => {
                see(&p.0);
                see(&p.1);
            }
            Kind::Invoke(f, args) => {
                see(f);
                args.iter().for_each(see);
            }
            Kind::Func(_, args)
            | Kind::Static(_, _, args)
            | Kind::New(_, args)
            | Kind::Math(_, args)
            | Kind::ScoreFn(_, args)
            | Kind::List(args)
            | Kind::Text(args) => args.iter().for_each(see),
            Kind::Map(pairs) => pairs.iter().for_each(|(k, v)| {
                see(k);
                see(v);
            }),
            Kind::Not(n) | Kind::Neg(n) | Kind::BitNot(n) | Kind::Cast(_, n) | Kind::InstanceOf(n, _) => see(n),
            Kind::Assign(p, _) => {
                see_target(&p.0, &mut see);
                see(&p.1);
            }
            Kind::Inc(t, ..) => see_target(t, &mut see),
            Kind::Ternary(t) => {
                see(&t.0);
                see(&t.1);
                see(&t.2);
            }
            Kind::Lambda(i) => {
                if let Some(l) = self.tree.lambdas.get(*i as usize) {
                    depth = l.depth;
                }
            }
            Kind::Const(_)
            | Kind::Regex(_)
            | Kind::Local(_)
            | Kind::Root(_)
            | Kind::Param(_)
            | Kind::Score
            | Kind::Doc(_)
            | Kind::DocValue(_)
            | Kind::DocAll => {}
        }
        depth += 1;
        if depth > MAX_DEPTH {
            return fail("the script nests too deeply", pos);
        }
        Ok(Node { pos, depth, size, kind })
    }

    fn stmt_of(&self, pos: u32, kind: StmtKind) -> P<Stmt> {
        let (mut depth, mut cost) = (0u16, 1u32);
        let mut node = |n: &Node| {
            depth = depth.max(n.depth);
            cost = cost.saturating_add(n.size);
        };
        let mut inner: Vec<&Block> = Vec::new();
        match &kind {
            StmtKind::Nop | StmtKind::Break | StmtKind::Continue => {}
            StmtKind::Expr(n) | StmtKind::Throw(n) => node(n),
            StmtKind::Let(_, _, n) | StmtKind::Return(n) => n.iter().for_each(node),
            StmtKind::Block(b) => inner.push(b),
            StmtKind::If(n, a, b) => {
                node(n);
                inner.extend([a, b]);
            }
            StmtKind::While(n, b) | StmtKind::DoWhile(b, n) | StmtKind::ForIn(_, _, n, b) => {
                node(n);
                inner.push(b);
            }
            StmtKind::For(i, c, u, b) => {
                c.iter().for_each(&mut node);
                u.iter().for_each(node);
                inner.extend([i, b]);
            }
            StmtKind::Switch(n, cases) => {
                node(n);
                for (when, body) in cases {
                    when.iter().for_each(&mut node);
                    inner.push(body);
                }
            }
            StmtKind::Assert(a, b, _) => {
                node(a);
                b.iter().for_each(node);
            }
            StmtKind::Try(b, catches, f) => {
                inner.extend([b, f]);
                inner.extend(catches.iter().map(|c| &c.body));
            }
        }
        for s in inner.into_iter().flatten() {
            depth = depth.max(s.depth);
        }
        depth += 1;
        if depth > MAX_DEPTH {
            return fail("the script nests too deeply", pos);
        }
        Ok(Stmt { cost, depth, pos, kind })
    }

    // ---- script and functions

    fn script(&mut self) -> P<()> {
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

    fn is_function(&self) -> bool {
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

    fn function(&mut self) -> P<Function> {
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

    fn parameters(&mut self, end: &str) -> P<Vec<(u32, TyOrDef)>> {
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
    fn ty(&mut self) -> P<Ty> {
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
                        return self.unexpected();
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
    fn is_declaration(&self) -> bool {
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

    fn block(&mut self) -> P<Block> {
        self.scope.enter();
        let parens = std::mem::take(&mut self.parens);
        let mut all = Vec::new();
        if self.eat("{") {
            loop {
                if self.eat("}") {
                    break;
                }
                if self.eat(";") {
                    continue;
                }
                if *self.peek() == Tok::Eof {
                    return self.unexpected();
                }
                all.push(self.stmt()?);
            }
        } else if !self.eat(";") {
            all.push(self.stmt()?);
        }
        self.parens = parens;
        self.scope.leave();
        Ok(all)
    }

    fn end(&mut self) -> P<()> {
        if self.eat(";") || self.is("}") || *self.peek() == Tok::Eof || self.line() {
            Ok(())
        } else {
            self.unexpected()
        }
    }

    fn stmt(&mut self) -> P<Stmt> {
        self.deeper()?;
        let pos = self.pos();
        let kind = self.stmt_kind()?;
        self.nest -= 1;
        self.stmt_of(pos, kind)
    }

    fn condition(&mut self) -> P<Node> {
        self.need("(")?;
        self.parens += 1;
        let c = self.expr(0)?;
        self.parens -= 1;
        self.need(")")?;
        Ok(c)
    }

    fn stmt_kind(&mut self) -> P<StmtKind> {
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
            "if" => {
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
            "while" => {
                self.at += 1;
                let c = self.condition()?;
                Ok(StmtKind::While(c, self.block()?))
            }
            "do" if self.is_at(1, "{") => {
                self.at += 1;
                let body = self.block()?;
                if !self.eat_word("while") {
                    return self.unexpected();
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
            "assert" => {
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

    fn declaration(&mut self, end: bool) -> P<StmtKind> {
        let ty = self.ty()?;
        let mut lets = Vec::new();
        loop {
            let pos = self.pos();
            let name = self.id()?;
            if self.scope.known(&name) {
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

    fn for_stmt(&mut self) -> P<StmtKind> {
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

    fn commas(&mut self, end: &str) -> P<Vec<Node>> {
        let mut all = Vec::new();
        while !self.is(end) {
            all.push(self.expr(0)?);
            if !self.eat(",") {
                break;
            }
        }
        Ok(all)
    }

    fn switch(&mut self) -> P<StmtKind> {
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
                return self.unexpected();
            };
            self.need(":")?;
            let mut body = Vec::new();
            while !(self.word("case") || self.word("default") || self.is("}")) {
                if self.eat(";") {
                    continue;
                }
                if *self.peek() == Tok::Eof {
                    return self.unexpected();
                }
                body.push(self.stmt()?);
            }
            cases.push((when, body));
        }
        self.scope.leave();
        Ok(StmtKind::Switch(on, cases))
    }

    fn try_stmt(&mut self) -> P<StmtKind> {
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
            return self.unexpected();
        }
        Ok(StmtKind::Try(body, catches, last))
    }

    // ---- expressions

    fn expr(&mut self, min: u8) -> P<Node> {
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

    fn infix(&mut self, left: Node, op: &'static str, power: u8, pos: u32) -> P<Node> {
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
                    return self.unexpected();
                };
                Kind::Bin(op, Box::new((left, self.expr(power + 1)?)))
            }
        };
        self.node(pos, kind)
    }

    fn target(&mut self, node: Node) -> P<Target> {
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

    fn slot_type(&self, slot: u32) -> Ty {
        self.scope.type_at(slot)
    }

    fn unary(&mut self) -> P<Node> {
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

    fn postfix(&mut self) -> P<Node> {
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

    fn index(&mut self, of: Node, i: Node, pos: u32) -> P<Node> {
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

    fn is_params(&self, node: &Node) -> bool {
        matches!(node.kind, Kind::Root(slot) if self.tree.roots.get(slot as usize).is_some_and(|n| &**n == "params"))
    }

    fn member(&mut self, of: Node, safe: bool, spread: bool, pos: u32) -> P<Node> {
        let name = match self.next() {
            Tok::Id(w) => w,
            Tok::Lit(Lit::Str(s)) if self.lang == Lang::Groovy => s,
            Tok::Lit(Lit::Int(n)) => n.to_string().into(),
            _ => {
                self.at -= 1;
                return self.unexpected();
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
    fn args(&mut self) -> P<Vec<Node>> {
        self.need("(")?;
        self.parens += 1;
        let args = self.commas(")")?;
        self.parens -= 1;
        self.need(")")?;
        Ok(args)
    }

    fn primary(&mut self) -> P<Node> {
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
                self.unexpected()
            }
        }
    }

    fn gstring(&mut self, parts: Vec<Part>, pos: u32) -> P<Node> {
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
                        return self.unexpected();
                    }
                    (self.tokens, self.close, self.at, self.parens) = (tokens, close, at, parens);
                    nodes.push(node);
                }
            }
        }
        self.node(pos, Kind::Text(nodes))
    }

    /// After `(`: a cast, a lambda's parameters, or an expression.
    fn paren(&mut self, pos: u32) -> P<Node> {
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
            if plain && operand && !self.scope.known(name) && type_of(name).is_some() {
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

    fn literal(&mut self, pos: u32) -> P<Node> {
        self.parens += 1;
        let kind = if self.eat(":") {
            Kind::Map(Vec::new())
        } else {
            let (mut list, mut map) = (Vec::new(), Vec::new());
            while !self.is("]") {
                let at = self.pos();
                // `[a: 1]`: a bare word is the key itself in Groovy.
                let bare = match self.peek() {
                    Tok::Id(w) if self.is_at(1, ":") && (self.lang == Lang::Groovy || !self.scope.known(w)) => Some(w.clone()),
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
                return self.unexpected();
            }
            if map.is_empty() { Kind::List(list) } else { Kind::Map(map) }
        };
        self.parens -= 1;
        self.need("]")?;
        self.node(pos, kind)
    }

    /// A lambda, after its `(` or at its one name.
    fn lambda(&mut self, pos: u32, paren: bool) -> P<Node> {
        let from = self.scope.used();
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
    fn closure(&mut self) -> P<Node> {
        let pos = self.pos();
        self.need("{")?;
        let from = self.scope.used();
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
        let mut body = Vec::new();
        loop {
            if self.eat("}") {
                break;
            }
            if self.eat(";") {
                continue;
            }
            if *self.peek() == Tok::Eof {
                return self.unexpected();
            }
            body.push(self.stmt()?);
        }
        self.parens = parens;
        self.close_lambda(pos, from, params, body)
    }

    fn close_lambda(&mut self, pos: u32, from: u32, params: Vec<(u32, TyOrDef)>, mut body: Block) -> P<Node> {
        self.scope.leave();
        tail(&mut body);
        let depth = body.iter().map(|s| s.depth).max().unwrap_or(0);
        let slots = (from, self.scope.used());
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

    fn name(&mut self) -> P<Node> {
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
                return self.unexpected();
            }
            _ => {}
        }
        if let Some((slot, _)) = self.scope.local(&name) {
            return self.node(pos, Kind::Local(slot));
        }
        if self.is("(") {
            let user = self.lang != Lang::Expression;
            let before = self.at;
            let mut args = self.args()?;
            if self.lang == Lang::Groovy && self.is("{") && !self.line() {
                args.push(self.closure()?);
            }
            if let Some(f) = score::find(&name, args.len()) {
                self.tree.score |= false;
                return self.node(pos, Kind::ScoreFn(f, args));
            }
            if self.lang == Lang::Expression {
                return match math::find(&name, args.len()) {
                    Some(f) => self.node(pos, Kind::Math(f, args)),
                    None => fail(format!("Unrecognized function call ({name})."), pos),
                };
            }
            if user {
                self.calls.push((name, pos));
                return self.node(pos, Kind::Func(self.calls.len() as u32 - 1, args));
            }
            self.at = before;
            return self.unexpected();
        }
        match &*name {
            "doc" => return self.node(pos, Kind::DocAll),
            "_score" => {
                self.tree.score = true;
                return self.node(pos, Kind::Score);
            }
            _ => {}
        }
        let class = name.starts_with(|c: char| c.is_ascii_uppercase()) && (type_of(&name).is_some() || statics::known(&name));
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
        // java.util.List, java.time.Instant: the package says nothing.
        if matches!(&*name, "java" | "org") && self.is(".") {
            while self.eat(".") {
                if let Tok::Id(w) = self.peek() {
                    if w.starts_with(|c: char| c.is_ascii_uppercase()) {
                        return self.name();
                    }
                    self.at += 1;
                } else {
                    return self.unexpected();
                }
            }
            return self.unexpected();
        }
        let slot = self.scope.root(name, &mut self.tree);
        self.node(pos, Kind::Root(slot))
    }

    fn static_member(&mut self, class: Arc<str>, member: Arc<str>, pos: u32) -> P<Node> {
        if self.is("(") {
            let args = self.args()?;
            if matches!(&*class, "Math" | "StrictMath") {
                return match math::find(&member, args.len()) {
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
    fn method_ref(&mut self, class: &Arc<str>, pos: u32) -> P<Node> {
        let name = self.id()?;
        let from = self.scope.used();
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

    fn new_object(&mut self, pos: u32) -> P<Node> {
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

fn see_target(target: &Target, see: &mut impl FnMut(&Node)) {
    match target {
        Target::Field(n, _) => see(n),
        Target::Index(a, b) => {
            see(a);
            see(b);
        }
        Target::Local(..) | Target::Root(_) | Target::Param(_) => {}
    }
}

fn binary(op: &str) -> Option<Op> {
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

/// Makes the value of the last statement the value of the block.
fn tail(body: &mut Block) {
    let Some(last) = body.last_mut() else { return };
    match &mut last.kind {
        StmtKind::Expr(_) => {
            if let StmtKind::Expr(e) = std::mem::replace(&mut last.kind, StmtKind::Nop) {
                last.kind = StmtKind::Return(Some(e));
            }
        }
        StmtKind::Block(b) => tail(b),
        StmtKind::If(_, a, b) => {
            tail(a);
            tail(b);
        }
        StmtKind::Try(b, catches, _) => {
            tail(b);
            catches.iter_mut().for_each(|c| tail(&mut c.body));
        }
        _ => {}
    }
}
