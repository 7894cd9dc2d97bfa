//! The numbers of the code's shape, as a table.

use crate::functions::{Contents, Function, contents, is_bare_participle};
use crate::modules::Graph;
use crate::{prose, source};
use std::fmt::Write as _;
use std::path::Path;

/// What was measured of a workspace.
pub struct Shape {
    crates: Vec<Measured>,
    /// Each document with the mean of its sentences in words.
    documents: Vec<(String, f64)>,
}

struct Measured {
    name: String,
    lines: usize,
    graph: Graph,
    contents: Contents,
}

/// Documents whose sentences are measured.
const DOCUMENTS: &[&str] = &[
    "README.md",
    "ARCHITECTURE.md",
    "docs/relations.md",
    "docs/performance.md",
    "docs/configuration.md",
];

/// Measures the workspace in a folder.
///
/// # Errors
/// A file that cannot be read or parsed.
pub fn measure(root: &Path) -> Result<Shape, String> {
    let crates = source::crates(root)?
        .iter()
        .map(|source| Measured {
            name: source.name.clone(),
            lines: source.lines(),
            graph: Graph::of(source),
            contents: contents(source),
        })
        .collect();
    let mut documents = Vec::new();
    for name in DOCUMENTS {
        documents.push(((*name).to_owned(), prose::mean_sentence_of(&root.join(name))?));
    }
    Ok(Shape { crates, documents })
}

impl Shape {
    /// The table of ARCHITECTURE.md.
    pub fn table(&self) -> String {
        let lines: usize = self.crates.iter().map(|one| one.lines).sum();
        let modules: usize = self.crates.iter().map(|one| one.graph.modules.len()).sum();
        let in_circles: usize = self
            .crates
            .iter()
            .flat_map(|one| one.graph.circles())
            .map(|circle| circle.len())
            .sum();
        let largest = self.crates.iter().max_by_key(|one| one.lines);
        let lengths = self.lengths();
        let over = |limit: usize| lengths.iter().filter(|lines| **lines > limit).count();
        let p90 = lengths.get(lengths.len() * 9 / 10).copied().unwrap_or(0);
        let assertions: usize = self.crates.iter().map(|one| one.contents.assertions).sum();
        let typed: usize = self.crates.iter().map(|one| one.contents.typed_reads).sum();
        let twice: usize = self
            .crates
            .iter()
            .map(|one| one.contents.types.values().filter(|count| **count > 1).count())
            .sum();
        let mut out = String::from("| | now |\n|---|---|\n");
        let mut row = |name: &str, value: String| {
            // Writing to a string does not fail.
            let _ = writeln!(out, "| {name} | {value} |");
        };
        row("lines below `crates/*/src`", lines.to_string());
        row("modules in a circle, all crates", format!("{in_circles} of {modules}"));
        if let Some(largest) = largest {
            row(
                "largest crate, share of lines",
                format!("`{}` {} %", largest.name, largest.lines * 100 / lines.max(1)),
            );
        }
        row("functions over 70 lines / over 100", format!("{} / {}", over(70), over(100)));
        row("function p90, lines", p90.to_string());
        row(
            "assertions per 1,000 lines",
            format!("{:.2}", assertions as f64 * 1000.0 / lines.max(1) as f64),
        );
        row("reads of `.typed`", typed.to_string());
        row(
            "functions with a bare participle as name",
            self.participles().len().to_string(),
        );
        row("names of types that a crate has twice", twice.to_string());
        for (name, mean) in &self.documents {
            row(&format!("mean sentence of {name}, words"), format!("{mean:.0}"));
        }
        out
    }
    /// The table, and what is behind its numbers.
    pub fn details(&self) -> String {
        let mut out = self.table();
        for one in &self.crates {
            for circle in one.graph.circles() {
                let _ = writeln!(out, "\n{}: {} modules in a circle: {circle:?}", one.name, circle.len());
            }
            for reference in one.graph.inside_circles() {
                let _ = writeln!(
                    out,
                    "  {} -> {} {}:{}",
                    reference.from, reference.to, reference.file, reference.line
                );
            }
        }
        out.push_str("\nfunctions over 70 lines:\n");
        let mut long: Vec<&Function> = self.functions().filter(|function| function.lines > 70).collect();
        long.sort_by_key(|function| std::cmp::Reverse(function.lines));
        for function in long {
            let _ = writeln!(out, "  {:4} {} {}", function.lines, function.name, function.file);
        }
        out.push_str("\nbare participles:\n");
        for function in self.participles() {
            let _ = writeln!(out, "  {} {}", function.name, function.file);
        }
        out
    }
    fn functions(&self) -> impl Iterator<Item = &Function> {
        self.crates.iter().flat_map(|one| &one.contents.functions)
    }
    fn lengths(&self) -> Vec<usize> {
        let mut lengths: Vec<usize> = self.functions().map(|function| function.lines).collect();
        lengths.sort_unstable();
        lengths
    }
    fn participles(&self) -> Vec<&Function> {
        self.functions()
            .filter(|function| is_bare_participle(&function.name))
            .collect()
    }
}
