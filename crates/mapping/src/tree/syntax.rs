//! Paths as texts: their delimiter, their components, and the values that a directory gives to each part of a field.
//!
//! Not here: which directories there are (`directories`).

use super::directories::fold;
use super::{DirId, Tree};
use model::{Error, Result};

/// Components of a path for which directories are made, at most.
pub const COMPONENTS_MAX: usize = 255;
/// Bytes of such a path, at most.
pub const PATH_MAX_BYTES: usize = 4096;

/// How a field writes its paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathSyntax {
    /// Stands before each component.
    pub delimiter: char,
    /// Names that differ in case alone are one.
    pub folds: bool,
}

impl Default for PathSyntax {
    fn default() -> PathSyntax {
        PathSyntax {
            delimiter: '/',
            folds: false,
        }
    }
}

/// The part of a directory that a field, or a sub-field of it, shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TreePart {
    /// `path`: the whole path.
    Path,
    /// `path.tree`: the path of the directory and of each directory above it, the root left out.
    Tree,
    /// `path.parent`: the path of the directory above.
    Parent,
    /// `path.name`: the last component.
    Name,
    /// `path.depth`: the number of components.
    Depth,
}

impl TreePart {
    /// The sub-fields.
    pub const SUB_FIELDS: [TreePart; 4] = [TreePart::Tree, TreePart::Parent, TreePart::Name, TreePart::Depth];

    /// The name of its sub-field; the path itself has none.
    pub fn name(self) -> &'static str {
        match self {
            TreePart::Path => "",
            TreePart::Tree => "tree",
            TreePart::Parent => "parent",
            TreePart::Name => "name",
            TreePart::Depth => "depth",
        }
    }
}

impl PathSyntax {
    /// The components of a path; none: the root. A delimiter at the end is left out.
    ///
    /// # Errors
    /// A path that is empty, relative, or has an empty component, `.` or `..`; the error names the byte.
    pub fn components<'t>(&self, text: &'t str) -> Result<Vec<&'t str>> {
        let delimiter = self.delimiter;
        let refuse = |at: usize, why: &str| {
            let shown: String = text.chars().take(200).collect();
            Error::illegal(format!("path [{shown}] {why} at byte [{at}]")).with("position", at)
        };
        if text.is_empty() {
            return Err(refuse(0, "is empty"));
        }
        let Some(rest) = text.strip_prefix(delimiter) else {
            return Err(refuse(0, &format!("is relative: it does not begin with [{delimiter}]")));
        };
        let rest = rest.strip_suffix(delimiter).unwrap_or(rest);
        if rest.is_empty() {
            return Ok(Vec::new());
        }
        let mut out = Vec::new();
        let mut at = delimiter.len_utf8();
        for component in rest.split(delimiter) {
            match component {
                "" => return Err(refuse(at, "has an empty component")),
                "." | ".." => return Err(refuse(at, &format!("has the component [{component}]"))),
                _ => {}
            }
            out.push(component);
            at += component.len() + delimiter.len_utf8();
        }
        Ok(out)
    }

    /// As [`PathSyntax::components`], for paths whose directories may be made.
    ///
    /// # Errors
    /// Also a path beyond [`PATH_MAX_BYTES`] or [`COMPONENTS_MAX`].
    pub fn new_components<'t>(&self, text: &'t str) -> Result<Vec<&'t str>> {
        let shown = || text.chars().take(40).collect::<String>();
        if text.len() > PATH_MAX_BYTES {
            let reason = format!(
                "path [{}...] has [{}] bytes; the limit is [{PATH_MAX_BYTES}]",
                shown(),
                text.len()
            );
            return Err(Error::illegal(reason).with("position", PATH_MAX_BYTES));
        }
        let out = self.components(text)?;
        if out.len() > COMPONENTS_MAX {
            let at: usize = out.iter().take(COMPONENTS_MAX).map(|part| part.len() + 1).sum();
            let reason = format!(
                "path [{}...] has [{}] components; the limit is [{COMPONENTS_MAX}]",
                shown(),
                out.len()
            );
            return Err(Error::illegal(reason).with("position", at));
        }
        Ok(out)
    }

    /// A path without a delimiter at its end; a text that is no path stays as it is.
    pub fn canonical<'t>(&self, text: &'t str) -> &'t str {
        match text.strip_suffix(self.delimiter) {
            Some(rest) if !rest.is_empty() && self.components(text).is_ok() => rest,
            _ => text,
        }
    }

    /// Are two names, or two paths, those of one directory?
    pub fn is_same(&self, one: &str, other: &str) -> bool {
        one == other || self.folds && fold(one) == fold(other)
    }

    /// Components as a path.
    pub fn join<'t>(&self, components: impl IntoIterator<Item = &'t str>) -> String {
        let mut out = String::new();
        for component in components {
            out.push(self.delimiter);
            out.push_str(component);
        }
        if out.is_empty() {
            out.push(self.delimiter);
        }
        out
    }

    /// The values that a part has of a directory: of [`TreePart::Depth`] one number as text. A directory that is gone has none.
    pub fn values(&self, tree: &Tree, dir: DirId, part: TreePart) -> Vec<String> {
        let Some(components) = tree.components(dir) else {
            return Vec::new();
        };
        let upto = |n: usize| self.join(components[..n].iter().copied());
        match part {
            TreePart::Path => vec![upto(components.len())],
            TreePart::Tree => (1..=components.len()).map(upto).collect(),
            TreePart::Parent => components.len().checked_sub(1).map(upto).into_iter().collect(),
            TreePart::Name => components.last().map(|name| (*name).to_owned()).into_iter().collect(),
            TreePart::Depth => vec![components.len().to_string()],
        }
    }
}
