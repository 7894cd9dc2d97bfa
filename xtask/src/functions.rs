//! Functions by length and name, assertions, and names of types that stand twice.

use crate::source::{SourceCrate, is_test};
use std::collections::BTreeMap;
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};

/// One function outside tests.
#[derive(Clone, Debug)]
pub struct Function {
    /// Its name, without path.
    pub name: String,
    /// Crate and file.
    pub file: String,
    /// From its signature to its closing brace.
    pub lines: usize,
}

/// What a crate's files hold.
#[derive(Debug, Default)]
pub struct Contents {
    /// All functions with a body.
    pub functions: Vec<Function>,
    /// `assert!`, `debug_assert!` and their kin outside tests.
    pub assertions: usize,
    /// How often each name of a struct or enum stands.
    pub types: BTreeMap<String, usize>,
    /// Reads of a field `typed`.
    pub typed_reads: usize,
}

/// Looks through a crate.
pub fn contents(source: &SourceCrate) -> Contents {
    let mut walk = Walk {
        file: String::new(),
        out: Contents::default(),
    };
    for file in &source.files {
        walk.file = format!("{}/{}", source.name, file.path.display());
        for item in &file.items {
            walk.visit_item(item);
        }
    }
    walk.out
}

/// Is this name a participle alone, as `told`, `carried_out`, `looked_up_in`?
pub fn is_bare_participle(name: &str) -> bool {
    const IRREGULAR: &[&str] = &[
        "told",
        "shown",
        "kept",
        "held",
        "found",
        "made",
        "said",
        "seen",
        "known",
        "given",
        "taken",
        "begun",
        "gone",
        "left",
        "lost",
        "meant",
        "put",
        "read",
        "sent",
        "set",
        "spent",
        "stood",
        "written",
        "brought",
        "built",
        "chosen",
        "done",
        "drawn",
        "heard",
        "hidden",
        "laid",
        "met",
        "paid",
        "ran",
        "torn",
        "understood",
        "won",
        "worn",
    ];
    // Verbs and nouns of the field that look like participles.
    const FIELD: &[&str] = &[
        "seed", "need", "feed", "speed", "embed", "exceed", "proceed", "nested", "put", "read", "set", "left",
    ];
    let first = name.split('_').next().unwrap_or(name);
    let rest_is_place = matches!(
        name.split_once('_').map(|(_, rest)| rest),
        None | Some(
            "out" | "up" | "up_in" | "in" | "on" | "off" | "by" | "as" | "of" | "to" | "at" | "with" | "again" | "apart" | "away"
        )
    );
    rest_is_place && !FIELD.contains(&first) && (first.ends_with("ed") && first.len() > 3 || IRREGULAR.contains(&first))
}

struct Walk {
    file: String,
    out: Contents,
}

impl Walk {
    fn function(&mut self, name: &syn::Ident, span: proc_macro2::Span) {
        self.out.functions.push(Function {
            name: name.to_string(),
            file: self.file.clone(),
            lines: span.end().line - span.start().line + 1,
        });
    }
}

impl<'ast> Visit<'ast> for Walk {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !item.attrs.iter().any(is_test) {
            visit::visit_item_mod(self, item);
        }
    }
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !item.attrs.iter().any(is_test) {
            self.function(
                &item.sig.ident,
                item.sig.span().join(item.block.span()).unwrap_or(item.block.span()),
            );
            visit::visit_item_fn(self, item);
        }
    }
    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !item.attrs.iter().any(is_test) {
            self.function(
                &item.sig.ident,
                item.sig.span().join(item.block.span()).unwrap_or(item.block.span()),
            );
            visit::visit_impl_item_fn(self, item);
        }
    }
    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.sig.ident, item.sig.span().join(block.span()).unwrap_or(block.span()));
        }
        visit::visit_trait_item_fn(self, item);
    }
    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        *self.out.types.entry(item.ident.to_string()).or_default() += 1;
        visit::visit_item_struct(self, item);
    }
    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        *self.out.types.entry(item.ident.to_string()).or_default() += 1;
        visit::visit_item_enum(self, item);
    }
    fn visit_expr_field(&mut self, item: &'ast syn::ExprField) {
        if matches!(&item.member, syn::Member::Named(name) if *name == "typed") {
            self.out.typed_reads += 1;
        }
        visit::visit_expr_field(self, item);
    }
    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        let name = item
            .path
            .segments
            .last()
            .map(|segment| segment.ident.to_string())
            .unwrap_or_default();
        if name.starts_with("assert") || name.starts_with("debug_assert") || name == "unreachable" {
            self.out.assertions += 1;
        }
        visit::visit_macro(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn participles() {
        for name in ["told", "carried_out", "settled", "looked_up_in", "shown"] {
            assert!(is_bare_participle(name), "{name}");
        }
        for name in [
            "evaluate",
            "read_together",
            "is_settled",
            "nested",
            "feed",
            "sorted_values",
            "read",
            "put",
        ] {
            assert!(!is_bare_participle(name), "{name}");
        }
    }
}
