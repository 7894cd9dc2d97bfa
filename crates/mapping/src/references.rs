//! Fields that lead to others: aliases, `copy_to`, contexts of completions.
//!
//! Not here: what each field is by itself (`parameters`).

use crate::field::Kind;
use crate::mapping::Inner;
use crate::wording::mapper_parsing;
use model::{Error, ErrorKind, Result};

impl Inner {
    /// Aliases must lead to fields.
    pub(crate) fn check_references(&self) -> Result<()> {
        for leaf in self.leaves.iter().filter(|leaf| leaf.field.kind == Kind::Completion) {
            for context in crate::types::contexts::of(&leaf.field) {
                let (Some(path), Some(_)) = (&context.path, context.precision) else {
                    continue;
                };
                let why = match self.leaf(path).map(|target| target.field.kind) {
                    Some(Kind::GeoPoint) => continue,
                    Some(other) => format!("must be mapped to geo_point, found [{}]", other.wire()),
                    None => "is not defined in the mapping".to_owned(),
                };
                let reason = format!("field [{path}] referenced in context [{}] {why}", context.name);
                return Err(Error::new(ErrorKind::Parse, reason));
            }
        }
        for leaf in &self.leaves {
            let Some(target) = &leaf.field.alias_path else {
                continue;
            };
            let path = &leaf.path;
            let refuse = |why: &str| {
                Err(mapper_parsing(format!(
                    "Invalid [path] value [{target}] for field alias [{path}]: {why}"
                )))
            };
            if **target == **path {
                return refuse("an alias cannot refer to itself.");
            }
            match self.leaf(target) {
                None => return refuse("an alias must refer to an existing field in the mappings."),
                Some(target) if target.field.kind == Kind::Alias => {
                    return refuse("an alias cannot refer to another alias.");
                }
                Some(_) if !self.rules().tolerates_mapping_mistakes && self.nested_around(target) != self.nested_around(path) => {
                    let scope = |path: &str, what: &str| match self.nested_around(path) {
                        Some(nested) => format!("{what} nested scope is [{nested}]"),
                        None => format!("{what} is not nested").replace("'s is", " is"),
                    };
                    let reason = format!(
                        "Invalid [path] value [{target}] for field alias [{path}]: an alias must have the same nested scope as its target. {}, but {}.",
                        scope(path, "The alias's"),
                        scope(target, "the target's")
                    );
                    return Err(Error::illegal(reason));
                }
                Some(_) => {}
            }
        }
        let joins = || self.leaves.iter().filter(|leaf| leaf.field.kind == Kind::Join);
        if let Some(inside) = joins().find(|leaf| !self.rules().tolerates_mapping_mistakes && leaf.path.contains('.')) {
            return Err(Error::illegal(format!(
                "join field [{}] cannot be added inside an object or in a multi-field",
                inside.path
            )));
        }
        if joins().count() > 1 {
            return Err(match self.rules().mapping_refusal_words {
                true => Error::illegal("Only one [parent-join] field can be defined per index"),
                false => mapper_parsing("Field [_parent_join] is defined more than once"),
            });
        }
        self.check_tree_paths()?;
        if self.rules().tolerates_mapping_mistakes {
            Ok(())
        } else {
            self.check_copies()
        }
    }

    /// Documents keep their directories beside the source, by the order of its values: nested objects and copies have none.
    fn check_tree_paths(&self) -> Result<()> {
        let trees = || {
            self.leaves
                .iter()
                .filter(|leaf| leaf.field.kind == Kind::TreePath && !leaf.field.is_tree_sub_field())
        };
        for leaf in trees() {
            if let Some(nested) = self.nested_around(&leaf.path) {
                return Err(mapper_parsing(format!(
                    "field [{}] of type [tree_path] cannot be inside the nested field [{nested}]",
                    leaf.path
                )));
            }
        }
        for leaf in &self.leaves {
            let copied = |target: &&String| {
                let below = |rest: &str| rest.is_empty() || rest.starts_with('.');
                trees().any(|tree| target.strip_prefix(&*tree.path).is_some_and(below))
            };
            if let Some(target) = leaf.field.copy_to.iter().find(copied) {
                return Err(mapper_parsing(format!(
                    "[copy_to] of field [{}] names [{target}] of type [tree_path], to which nothing can be copied",
                    leaf.path
                )));
            }
        }
        Ok(())
    }

    /// Copies go to fields of their own document or of one around it.
    fn check_copies(&self) -> Result<()> {
        let multi = |path: &str| {
            self.leaves
                .iter()
                .any(|leaf| leaf.multi.iter().any(|at| *self.leaves[*at].path == *path))
        };
        for leaf in self.leaves.iter().filter(|leaf| !leaf.field.copy_to.is_empty()) {
            for target in &leaf.field.copy_to {
                if self.objects.contains_key(target.as_str()) {
                    return Err(Error::illegal(format!(
                        "Cannot copy to field [{target}] since it is mapped as an object"
                    )));
                }
                if multi(target) {
                    return Err(Error::illegal(format!(
                        "[copy_to] may not be used to copy to a multi-field: [{target}]"
                    )));
                }
                let (from, to) = (self.nested_around(&leaf.path), self.nested_around(target));
                let within = to.is_none_or(|to| {
                    from.is_some_and(|from| from == to || from.strip_prefix(to).is_some_and(|rest| rest.starts_with('.')))
                });
                if !within {
                    return Err(Error::illegal(format!(
                        "Illegal combination of [copy_to] and [nested] mappings: [copy_to] may only copy data to the current nested document or any of its parents, however one [copy_to] directive is trying to copy data from nested object [{}] to [{}]",
                        from.unwrap_or("null"),
                        to.unwrap_or("null")
                    )));
                }
            }
        }
        Ok(())
    }
}
