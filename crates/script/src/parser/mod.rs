//! Tokens to the resolved tree: a Pratt parser with bounded depth. Painless and Groovy share it;
//! `Lang` decides about closures, newlines, command forms. Running is in `run`.

use crate::Lang;
use crate::ast::{Block, Kind, Node, Stmt, StmtKind, Target, Tree};
use crate::check::Scope;
use crate::lexer::{SyntaxError, Tok, Token, fail, lex};
use std::sync::Arc;

mod expressions;
mod primaries;
mod statements;

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
    debug_assert_eq!(
        (parser.nest, parser.parens),
        (0, 0),
        "a script that parses left every construct that it entered"
    );
    debug_assert!(*parser.peek() == Tok::Eof, "a script is read to its end");
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
    debug_assert!(
        close.iter().zip(0..).all(|(end, open)| *end == 0 || *end > open),
        "a parenthesis is closed behind where it is opened"
    );
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
    pub(super) fn ahead(&self, n: usize) -> &Tok {
        self.tokens.get(self.at + n).map_or(&EOF, |t| &t.tok)
    }
    pub(super) fn peek(&self) -> &Tok {
        self.ahead(0)
    }
    pub(super) fn pos(&self) -> u32 {
        self.tokens.get(self.at).or(self.tokens.last()).map_or(0, |t| t.pos)
    }
    /// A line break before the token here that counts.
    pub(super) fn line(&self) -> bool {
        self.parens == 0 && self.tokens.get(self.at).is_none_or(|t| t.line)
    }
    pub(super) fn next(&mut self) -> Tok {
        let tok = self.peek().clone();
        self.at += 1;
        tok
    }
    pub(super) fn is(&self, op: &str) -> bool {
        matches!(self.peek(), Tok::Op(o) if *o == op)
    }
    pub(super) fn is_at(&self, n: usize, op: &str) -> bool {
        matches!(self.ahead(n), Tok::Op(o) if *o == op)
    }
    pub(super) fn word(&self, word: &str) -> bool {
        matches!(self.peek(), Tok::Id(w) if &**w == word)
    }
    pub(super) fn eat(&mut self, op: &str) -> bool {
        let is = self.is(op);
        self.at += usize::from(is);
        is
    }
    pub(super) fn eat_word(&mut self, word: &str) -> bool {
        let is = self.word(word);
        self.at += usize::from(is);
        is
    }
    pub(super) fn unexpected_token<T>(&self) -> P<T> {
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
    pub(super) fn need(&mut self, op: &str) -> P<()> {
        if self.eat(op) { Ok(()) } else { self.unexpected_token() }
    }
    pub(super) fn id(&mut self) -> P<Arc<str>> {
        match self.peek() {
            Tok::Id(w) => {
                let w = w.clone();
                self.at += 1;
                Ok(w)
            }
            _ => self.unexpected_token(),
        }
    }
    pub(super) fn deeper(&mut self) -> P<()> {
        self.nest += 1;
        if self.nest > MAX_DEPTH {
            fail("the script nests too deeply", self.pos())
        } else {
            Ok(())
        }
    }

    // ---- building

    pub(super) fn node(&self, pos: u32, kind: Kind) -> P<Node> {
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

    pub(super) fn stmt_of(&self, pos: u32, kind: StmtKind) -> P<Stmt> {
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
