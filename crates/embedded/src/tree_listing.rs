//! The directories in one directory, with the documents below each, as searches see them.
//!
//! Not here: moves (`trees`), counting by query (`search`).

use crate::store::Store;
use crate::trees::tree_field;
use dsl::query::{Clause, Query, TermQuery};
use engine::{ChildDirectory, Directories, DirectoriesOf, See};
use mapping::tree::missing;
use model::{Dialect, Result, Target};
use search::interrupt::Interrupt;

impl Store {
    /// A page of the directories in one.
    ///
    /// # Errors
    /// `tree_missing_exception`; a path that is none; no such field.
    pub(crate) fn directories(&self, of: &DirectoriesOf) -> Result<Directories> {
        let catalog = self.catalog.now();
        let entry = catalog.read_index(of.index.as_str(), self.env.wall_ms())?;
        let (field, syntax) = tree_field(&entry, of.field.as_deref())?;
        let views = self.views_of(&Target::index(entry.name.as_str()), None)?;
        let components = syntax.components(&of.path)?;
        let path = syntax.join(components.iter().copied());
        let mut out = Directories {
            field: field.to_string(),
            path: path.clone(),
            ..Directories::default()
        };
        let tree = views.first().map(|(view, _)| view.tree.clone()).unwrap_or_default();
        let Some(dir) = tree.resolve(&field, &components) else {
            // Without any document the root is there, and empty.
            return if components.is_empty() {
                Ok(out)
            } else {
                Err(missing(&field, &path))
            };
        };
        let below = |path: &str| -> Query {
            Clause::Term(TermQuery {
                field: format!("{field}.tree"),
                value: path.into(),
                case_insensitive: false,
            })
            .into()
        };
        let after: Vec<&str> = match of.after.as_deref() {
            None | Some("") => Vec::new(),
            Some(after) => after.split(syntax.delimiter).collect(),
        };
        let mut page = tree.below_after(dir, &after, of.depth, of.size.saturating_add(1));
        out.more = page.len() > of.size;
        page.truncate(of.size);
        out.tree_seq = tree.seq();
        self.with_context(See::Plain, Dialect::default(), &[], &Interrupt::default(), |cx| {
            out.total = search::count(&views, Some(&below(&path)), cx)?;
            for (names, child) in page {
                let path = syntax.join(components.iter().copied().chain(names.iter().copied()));
                out.children.push(ChildDirectory {
                    name: names.last().copied().unwrap_or_default().to_owned(),
                    below: names.join(&syntax.delimiter.to_string()),
                    depth: names.len(),
                    count: search::count(&views, Some(&below(&path)), cx)?,
                    directories: tree.children(child).count() as u64,
                    path,
                });
            }
            Ok(out)
        })
    }
}
