//! The source files of a crate, parsed, without what only its tests compile.

use std::path::{Path, PathBuf};

/// One file of a crate.
pub struct SourceFile {
    /// Relative to the folder of the crate's sources, as `log/append/mod.rs`.
    pub path: PathBuf,
    /// The file's items outside `#[cfg(test)]`.
    pub items: Vec<syn::Item>,
    /// All of its lines, tests included.
    pub lines: usize,
    /// Its text.
    pub text: String,
}

impl SourceFile {
    /// The module of the crate's root that the file belongs to; `None`: the root itself.
    pub fn module(&self) -> Option<String> {
        let mut parts = self.path.components();
        let first = parts.next()?.as_os_str().to_str()?;
        if parts.next().is_some() {
            return Some(first.to_owned());
        }
        let stem = first.strip_suffix(".rs")?;
        (stem != "lib" && stem != "main").then(|| stem.to_owned())
    }
    /// How many modules deep the file is below the root: 0 for `lib.rs`, 1 for `a.rs` and `a/mod.rs`, 2 for `a/b.rs`.
    pub fn depth(&self) -> usize {
        let parts = self.path.components().count();
        let is_module_root = ["mod.rs", "lib.rs", "main.rs"].iter().any(|root| self.path.ends_with(root));
        if is_module_root { parts - 1 } else { parts }
    }
}

/// One crate.
pub struct SourceCrate {
    /// Its folder's name.
    pub name: String,
    /// Files in the order of their paths.
    pub files: Vec<SourceFile>,
}

impl SourceCrate {
    /// Lines of all files.
    pub fn lines(&self) -> usize {
        self.files.iter().map(|file| file.lines).sum()
    }
}

/// The crates below `crates/` of a workspace, in the order of their names.
///
/// # Errors
/// A file that cannot be read or parsed, by its path.
pub fn crates(root: &Path) -> Result<Vec<SourceCrate>, String> {
    let folder = root.join("crates");
    let mut out = Vec::new();
    for entry in list(&folder)? {
        let sources = entry.join("src");
        if !sources.is_dir() {
            continue;
        }
        let name = entry
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default()
            .to_owned();
        out.push(SourceCrate {
            name,
            files: files(&sources)?,
        });
    }
    Ok(out)
}

/// The Rust files below a folder.
///
/// # Errors
/// As [`crates`].
pub fn files(folder: &Path) -> Result<Vec<SourceFile>, String> {
    let mut out = Vec::new();
    let mut left = vec![folder.to_owned()];
    while let Some(next) = left.pop() {
        for path in list(&next)? {
            if path.is_dir() {
                left.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                out.push(parse(folder, &path)?);
            }
        }
    }
    out.sort_by(|a, b| a.path.cmp(&b.path));
    // The text of a module that only tests compile stands in a file of its own where it is long.
    out.retain(|file| !file.path.ends_with("tests.rs") && !file.path.components().any(|part| part.as_os_str() == "tests"));
    Ok(out)
}

fn list(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut out: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    out.sort();
    Ok(out)
}

fn parse(folder: &Path, path: &Path) -> Result<SourceFile, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let file = syn::parse_file(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    let only_tests = file.attrs.iter().any(is_test);
    Ok(SourceFile {
        path: path.strip_prefix(folder).unwrap_or(path).to_owned(),
        items: if only_tests {
            Vec::new()
        } else {
            file.items
                .into_iter()
                .filter(|item| !attributes(item).iter().any(is_test))
                .collect()
        },
        lines: text.lines().count(),
        text,
    })
}

/// `#[cfg(test)]`, and `#[test]`.
pub fn is_test(attribute: &syn::Attribute) -> bool {
    if attribute.path().is_ident("test") {
        return true;
    }
    attribute.path().is_ident("cfg")
        && attribute
            .meta
            .require_list()
            .is_ok_and(|list| list.tokens.to_string().split([' ', ',', '(', ')']).any(|word| word == "test"))
}

fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    use syn::Item;
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}
