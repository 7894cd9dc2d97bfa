//! The field of an index that has the paths: a `tree_path`, or a keyword of the mapping of 2015.
//!
//! Not here: what is done with them (`handlers::trees`).

use crate::call::Call;
use dsl::json::Fields;
use engine::IndexInfo;
use mapping::tree::PathSyntax;
use mapping::{FieldType, Kind};
use model::{Error, ErrorKind, Result, Target, nearest};

/// A field with paths, and its index.
pub(crate) struct PathField {
    pub(crate) info: IndexInfo,
    pub(crate) name: String,
    pub(crate) syntax: PathSyntax,
    /// It is a `tree_path`, else a keyword.
    pub(crate) is_tree: bool,
}

impl PathField {
    /// The field that a request means.
    ///
    /// # Errors
    /// No index or several; no field has paths, or several do and none is named.
    pub(crate) async fn of(call: &Call, index: &str, wanted: Option<&str>) -> Result<PathField> {
        let mut found = call.rest.indices(&Target::index(index)).await?;
        let info = match found.len() {
            1 => found.remove(0),
            0 => return Err(engine::catalog::missing(index)),
            count => {
                return Err(Error::illegal(format!(
                    "[{index}] is [{count}] indices; directories are those of one index"
                )));
            }
        };
        let (name, tree) = path_field(&info, wanted)?;
        Ok(PathField {
            syntax: tree.unwrap_or_default(),
            is_tree: tree.is_some(),
            name,
            info,
        })
    }

    /// A path without a delimiter at its end, which is not the root.
    ///
    /// # Errors
    /// A path that is none, and the root: `what` says what cannot be done with it.
    pub(crate) fn directory<'t>(&self, path: &'t str, what: &str) -> Result<&'t str> {
        if self.syntax.components(path)?.is_empty() {
            return Err(Error::illegal(format!("the root [{path}] cannot be {what}")).with("path", path));
        }
        Ok(self.syntax.canonical(path))
    }

    /// The two paths of a move or a copy.
    ///
    /// # Errors
    /// Paths that are none, a root, a target below the source.
    pub(crate) fn directories<'t>(&self, from: &'t str, to: &'t str, verb: &str, done: &str) -> Result<(&'t str, &'t str)> {
        let target = self.syntax.new_components(to)?;
        let (source, to) = (self.syntax.components(from)?, self.syntax.canonical(to));
        let from = self.directory(from, done)?;
        if target.is_empty() {
            let reason = format!("the root [{to}] exists; it cannot be replaced");
            return Err(Error::new(ErrorKind::TreeExists, reason).with("path", to));
        }
        if target.len() > source.len() && target.starts_with(&source) {
            let reason = format!("cannot {verb} [{from}] into its own descendant [{to}]");
            return Err(Error::new(ErrorKind::TreeCycle, reason).with("from", from).with("to", to));
        }
        Ok((from, to))
    }
}

/// A member that a request has to have.
///
/// # Errors
/// It is missing, or is no text.
pub(crate) fn needed_text(fields: &mut Fields, name: &str) -> Result<String> {
    let given = fields.take_string(name)?;
    given.ok_or_else(|| Error::illegal(format!("[{name}] is missing")))
}

/// The name of the field, and how a `tree_path` writes its paths.
fn path_field(info: &IndexInfo, wanted: Option<&str>) -> Result<(String, Option<PathSyntax>)> {
    let mapping = &info.mapping;
    let trees: Vec<(&str, PathSyntax)> = mapping.tree_fields().map(|(field, syntax)| (&**field, syntax)).collect();
    let is_path = |path: &str, field: &FieldType| {
        let hierarchy = format!("{path}.tree");
        field.kind == Kind::Keyword && mapping.field(&hierarchy).is_some_and(|tree| tree.kind.is_text())
    };
    let several = |names: &[&str]| {
        let reason = format!(
            "index [{}] has several fields with paths: [field] must name one of [{}]",
            info.name,
            names.join(", ")
        );
        Err(Error::illegal(reason))
    };
    let Some(wanted) = wanted else {
        let keywords = mapping.fields().filter(|(path, field)| is_path(path, field));
        let keywords: Vec<&str> = keywords.map(|(path, _)| path).collect();
        return match (trees.as_slice(), keywords.as_slice()) {
            ([(only, syntax)], _) => Ok(((*only).to_owned(), Some(*syntax))),
            ([], [only]) => Ok(((*only).to_owned(), None)),
            ([], []) => Err(Error::illegal(format!(
                "index [{}] has no field of type [tree_path], and no keyword with a [path_hierarchy] in its sub-field [tree]; \
                 [field] names the keyword that has the paths",
                info.name
            ))),
            ([], keywords) => several(keywords),
            (trees, _) => several(&trees.iter().map(|(field, _)| *field).collect::<Vec<_>>()),
        };
    };
    if let Some((_, syntax)) = trees.iter().find(|(field, _)| *field == wanted) {
        return Ok((wanted.to_owned(), Some(*syntax)));
    }
    match mapping.field(wanted) {
        Some(field) if field.kind == Kind::Keyword => Ok((wanted.to_owned(), None)),
        Some(field) => Err(Error::illegal(format!(
            "[field] [{wanted}] is of type [{}]; paths are those of fields of type [tree_path] or [keyword]",
            field.wire()
        ))),
        None => {
            let meant = nearest::question(wanted, mapping.fields().map(|(path, _)| path));
            Err(Error::illegal(format!("no field [{wanted}] in index [{}]{meant}", info.name)))
        }
    }
}
