//! The directories in one directory, with the documents below each, as searches see them.
//!
//! Who sees only some documents is told of the directories that have one of those. Not here: moves (`trees`), counting by query
//! (`search`).

use crate::store::Store;
use crate::trees::tree_field_of;
use dsl::query::{Clause, Query, TermQuery};
use engine::{ChildDirectory, Directories, DirectoriesOf, See};
use mapping::tree::{DirId, PathSyntax, Tree, missing};
use model::{Dialect, Result, Target};
use search::Searched;
use search::context::Context;
use search::interrupt::Interrupt;

/// One request: a directory, and what counts the documents in others.
struct Listing<'a> {
    views: &'a [Searched],
    tree: &'a Tree,
    field: &'a str,
    syntax: PathSyntax,
    /// The directory that was asked for, from the root.
    components: &'a [&'a str],
    /// Directories without a document are not there.
    hides_empty: bool,
}

impl Store {
    /// A page of the directories in one.
    ///
    /// # Errors
    /// `tree_missing_exception`; a path that is none; no such field.
    pub(crate) fn directories(&self, of: &DirectoriesOf) -> Result<Directories> {
        let catalog = self.catalog.now();
        let entry = catalog.read_index(of.index.as_str(), self.env.wall_ms())?;
        let target = Target {
            visibility: of.visibility.clone(),
            ..Target::index(entry.name.as_str())
        };
        let views = self.views_of(&target, None)?;
        let view = views.first().map(|(view, _)| view);
        let restricted = view.filter(|view| view.is_restricted());
        let mapping = restricted.map_or(&entry.mapping, |view| &view.mapping);
        let (field, syntax) = tree_field_of(mapping, &entry.name, of.field.as_deref())?;
        let components = syntax.components(&of.path)?;
        let path = syntax.join(components.iter().copied());
        let tree = view.map(|view| view.tree.clone()).unwrap_or_default();
        let out = Directories {
            field: field.to_string(),
            path: path.clone(),
            ..Directories::default()
        };
        let Some(dir) = tree.resolve(&field, &components) else {
            // Without any document the root is there, and empty.
            return if components.is_empty() {
                Ok(out)
            } else {
                Err(missing(&field, &path))
            };
        };
        let listing = Listing {
            views: &views,
            tree: &tree,
            field: &field,
            syntax,
            components: &components,
            hides_empty: restricted.is_some(),
        };
        self.with_context(See::Plain, Dialect::default(), &[], &Interrupt::default(), |cx| {
            listing.page(of, dir, out, cx)
        })
    }
}

impl Listing<'_> {
    fn page(&self, of: &DirectoriesOf, dir: DirId, mut out: Directories, cx: &Context<'_>) -> Result<Directories> {
        out.total = self.count(&[], cx)?;
        if self.hides_empty && out.total == 0 && !self.components.is_empty() {
            return Err(missing(self.field, &out.path));
        }
        out.tree_seq = self.tree.seq();
        let given: Vec<&str> = match of.after.as_deref() {
            None | Some("") => Vec::new(),
            Some(after) => after.split(self.syntax.delimiter).collect(),
        };
        let mut after = given;
        loop {
            let page = self.tree.below_after(dir, &after, of.depth, of.size.saturating_add(1));
            let (looked_at, last) = (page.len(), page.last().map(|(names, _)| names.clone()));
            for (names, child) in page {
                let count = match out.children.len() < of.size || self.hides_empty {
                    true => self.count(&names, cx)?,
                    false => 0,
                };
                if self.hides_empty && count == 0 {
                    continue;
                }
                if out.children.len() == of.size {
                    out.more = true;
                    return Ok(out);
                }
                out.children.push(self.child(&names, child, count, cx)?);
            }
            match last {
                Some(last) if looked_at > of.size => after = last,
                _ => return Ok(out),
            }
        }
    }

    fn child(&self, names: &[&str], dir: DirId, count: u64, cx: &Context<'_>) -> Result<ChildDirectory> {
        let mut directories = 0;
        for (name, _) in self.tree.children(dir) {
            let is_there = !self.hides_empty || {
                let inner: Vec<&str> = names.iter().copied().chain([name]).collect();
                self.count(&inner, cx)? > 0
            };
            directories += u64::from(is_there);
        }
        Ok(ChildDirectory {
            name: names.last().copied().unwrap_or_default().to_owned(),
            below: names.join(&self.syntax.delimiter.to_string()),
            depth: names.len(),
            count,
            directories,
            path: self.path_of(names),
        })
    }

    /// Documents in and below a directory, which is named from the one that was asked for.
    fn count(&self, names: &[&str], cx: &Context<'_>) -> Result<u64> {
        let below: Query = Clause::Term(TermQuery {
            field: format!("{}.tree", self.field),
            value: self.path_of(names).as_str().into(),
            case_insensitive: false,
        })
        .into();
        search::count(self.views, Some(&below), cx)
    }

    fn path_of(&self, names: &[&str]) -> String {
        self.syntax.join(self.components.iter().copied().chain(names.iter().copied()))
    }
}
