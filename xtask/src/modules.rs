//! The graph of a crate's modules: which module of the root imports which, and what stands in a circle.
//!
//! A reference is any path that begins with `crate::` or climbs with `super::` into another module of the root. What the
//! root re-exports counts as its module's; what the root defines itself is no module. Circles are strongly connected
//! components (Tarjan 1972).

use crate::source::{SourceCrate, SourceFile};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens as _;
use std::collections::{BTreeMap, BTreeSet};

/// Where one module refers to another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    /// The module that imports.
    pub from: String,
    /// The module that is imported.
    pub to: String,
    /// The file of the import, below the crate's sources.
    pub file: String,
    /// Its line, from 1.
    pub line: usize,
}

/// The modules of a crate and their references.
#[derive(Debug, Default)]
pub struct Graph {
    /// All modules of the root.
    pub modules: BTreeSet<String>,
    /// In the order of their modules.
    pub references: BTreeSet<Reference>,
}

impl Graph {
    /// The graph of a crate.
    pub fn of(source: &SourceCrate) -> Graph {
        let mut graph = Graph {
            modules: source.files.iter().filter_map(SourceFile::module).collect(),
            ..Graph::default()
        };
        let reexported = source
            .files
            .iter()
            .filter(|file| file.module().is_none())
            .flat_map(reexports)
            .collect();
        for file in &source.files {
            let Some(from) = file.module() else { continue };
            let mut paths = Vec::new();
            for item in &file.items {
                collect(item.to_token_stream(), file.depth(), &mut paths);
            }
            for (name, line) in paths {
                let reexported: &BTreeMap<String, String> = &reexported;
                let to = reexported
                    .get(&name)
                    .filter(|_| !graph.modules.contains(&name))
                    .unwrap_or(&name);
                if *to != from && graph.modules.contains(to) {
                    graph.references.insert(Reference {
                        from: from.clone(),
                        to: to.clone(),
                        file: file.path.display().to_string(),
                        line,
                    });
                }
            }
        }
        graph
    }
    /// The circles, each a set of modules that reach each other.
    pub fn circles(&self) -> Vec<BTreeSet<String>> {
        let reach: BTreeMap<&str, BTreeSet<&str>> = self
            .modules
            .iter()
            .map(|module| (module.as_str(), self.reachable(module)))
            .collect();
        let mut out: Vec<BTreeSet<String>> = Vec::new();
        for module in &self.modules {
            if out.iter().any(|circle| circle.contains(module)) {
                continue;
            }
            let circle: BTreeSet<String> = reach[module.as_str()]
                .iter()
                .filter(|other| reach[**other].contains(module.as_str()))
                .map(|other| (*other).to_owned())
                .collect();
            if !circle.is_empty() {
                out.push(circle);
            }
        }
        out
    }
    /// The references inside circles: those that a cut would have to remove some of.
    pub fn inside_circles(&self) -> Vec<&Reference> {
        let circles = self.circles();
        let is_inside = |reference: &&Reference| {
            circles
                .iter()
                .any(|c| c.contains(&reference.from) && c.contains(&reference.to))
        };
        self.references.iter().filter(is_inside).collect()
    }
    fn reachable(&self, from: &str) -> BTreeSet<&str> {
        let (mut out, mut left) = (BTreeSet::new(), vec![from]);
        while let Some(next) = left.pop() {
            for reference in self.references.iter().filter(|reference| reference.from == next) {
                if out.insert(reference.to.as_str()) {
                    left.push(&reference.to);
                }
            }
        }
        out
    }
}

/// The names that a root re-exports, each with its module.
fn reexports(root: &SourceFile) -> Vec<(String, String)> {
    fn walk(tree: &syn::UseTree, module: Option<&str>, out: &mut Vec<(String, String)>) {
        match tree {
            syn::UseTree::Path(path) => {
                let name = path.ident.to_string();
                let module = module
                    .map(str::to_owned)
                    .or_else(|| (name != "crate" && name != "self").then_some(name));
                walk(&path.tree, module.as_deref(), out);
            }
            syn::UseTree::Group(group) => group.items.iter().for_each(|tree| walk(tree, module, out)),
            syn::UseTree::Name(name) => out.extend(module.map(|module| (name.ident.to_string(), module.to_owned()))),
            syn::UseTree::Rename(name) => out.extend(module.map(|module| (name.rename.to_string(), module.to_owned()))),
            syn::UseTree::Glob(_) => {}
        }
    }
    let mut out = Vec::new();
    for item in &root.items {
        if let syn::Item::Use(item) = item {
            walk(&item.tree, None, &mut out);
        }
    }
    out
}

/// The first names after `crate::`, or after as many `super::` as lead to the root, with their lines.
fn collect(tokens: TokenStream, depth: usize, out: &mut Vec<(String, usize)>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        match token {
            TokenTree::Group(group) => collect(group.stream(), depth, out),
            TokenTree::Ident(ident) if *ident == "crate" && is_path(&tokens, at + 1) => {
                first_names(tokens.get(at + 3), out);
                at += 3;
                continue;
            }
            TokenTree::Ident(ident) if *ident == "super" && !is_path_before(&tokens, at) => {
                let mut climbed = 1;
                let mut next = at + 1;
                while is_path(&tokens, next) && matches!(tokens.get(next + 2), Some(TokenTree::Ident(i)) if *i == "super") {
                    climbed += 1;
                    next += 3;
                }
                if climbed == depth && is_path(&tokens, next) {
                    first_names(tokens.get(next + 2), out);
                }
                at = next;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
}

fn is_path(tokens: &[TokenTree], at: usize) -> bool {
    let colon = |token: Option<&TokenTree>| matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == ':');
    colon(tokens.get(at)) && colon(tokens.get(at + 1))
}

fn is_path_before(tokens: &[TokenTree], at: usize) -> bool {
    at >= 2 && is_path(tokens, at - 2)
}

fn first_names(token: Option<&TokenTree>, out: &mut Vec<(String, usize)>) {
    match token {
        Some(TokenTree::Ident(ident)) => out.push((ident.to_string(), ident.span().start().line)),
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
            let mut begins = true;
            for token in group.stream() {
                match &token {
                    TokenTree::Punct(punct) if punct.as_char() == ',' => begins = true,
                    _ if begins => {
                        first_names(Some(&token), out);
                        begins = false;
                    }
                    _ => {}
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn graph(files: &[(&str, &str)]) -> Graph {
        let files = files
            .iter()
            .map(|(path, text)| SourceFile {
                path: PathBuf::from(path),
                items: syn::parse_file(text).expect("Rust").items,
                lines: 1,
                text: String::new(),
            })
            .collect();
        Graph::of(&SourceCrate {
            name: "any".to_owned(),
            files,
        })
    }

    #[test]
    fn references_are_found_wherever_a_path_stands() {
        let graph = graph(&[
            ("lib.rs", "mod a; mod b; mod c; mod d; pub use d::Deep;"),
            ("a.rs", "use crate::{b::X, Deep};"),
            ("b/mod.rs", "fn f() { assert!(super::c::g()); }"),
            ("b/inner.rs", "use super::X; use super::super::d::Y;"),
            ("c.rs", "fn g() -> bool { true }"),
            ("d.rs", ""),
        ]);
        let found: Vec<(&str, &str)> = graph.references.iter().map(|r| (r.from.as_str(), r.to.as_str())).collect();
        assert_eq!(found, [("a", "b"), ("a", "d"), ("b", "c"), ("b", "d")]);
        assert!(graph.circles().is_empty());
    }

    #[test]
    fn a_circle_is_found() {
        let graph = graph(&[
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use crate::b;"),
            ("b.rs", "use crate::c;"),
            ("c.rs", "fn f() { crate::b::g() }"),
        ]);
        let circles: Vec<Vec<String>> = graph.circles().into_iter().map(|c| c.into_iter().collect()).collect();
        assert_eq!(circles, [["b", "c"]]);
        assert_eq!(graph.inside_circles().len(), 2);
    }
}
