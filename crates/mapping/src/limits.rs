//! How large a mapping, and what a document makes of it, may become.

use model::Error;

/// The limits of one index, from its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappingLimits {
    /// `index.mapping.total_fields.limit`: fields, multi-fields, objects and aliases.
    pub total_fields: usize,
    /// `index.mapping.depth.limit`.
    pub depth: usize,
    /// `index.mapping.nested_fields.limit`.
    pub nested_fields: usize,
    /// `index.mapping.nested_objects.limit`, of one document.
    pub nested_objects: usize,
    /// `index.mapping.field_name_length.limit`, in characters.
    pub field_name_length: usize,
    /// `index.mapping.ignore_malformed`: the default of fields that do not say.
    pub ignore_malformed: bool,
    /// `index.mapping.coerce`: the default of fields that do not say.
    pub coerce: bool,
    /// The similarities that the settings define by name; `None`: they are not checked.
    pub similarities: Option<std::collections::BTreeSet<String>>,
}

impl Default for MappingLimits {
    fn default() -> Self {
        MappingLimits {
            total_fields: 1000,
            depth: 20,
            nested_fields: 50,
            nested_objects: 10_000,
            field_name_length: usize::MAX,
            ignore_malformed: false,
            coerce: true,
            similarities: None,
        }
    }
}

impl MappingLimits {
    /// The refusal of more fields than there may be.
    pub(crate) fn too_many(&self) -> Error {
        Error::illegal(format!("Limit of total fields [{}] has been exceeded", self.total_fields))
            .with("setting", "index.mapping.total_fields.limit")
    }

    /// The refusal of an object deeper than there may be.
    pub(crate) fn too_deep(&self, path: &str) -> Error {
        Error::illegal(format!(
            "Limit of mapping depth [{}] has been exceeded due to object field [{path}]",
            self.depth
        ))
        .with("setting", "index.mapping.depth.limit")
    }
}
