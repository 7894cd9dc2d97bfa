//! Which fields have no values by document, and the refusals that say so.

use super::target::Target;
use model::{Error, Result, Topic};
use segment::searchable::IndexView;

/// Texts have no columns.
///
/// # Errors
/// The field is a text without field data.
pub(crate) fn refuse_text(target: &Target<'_>, path: &str) -> Result<()> {
    if target.kind.kind.is_text() && target.slot.column.is_none() && !target.kind.fielddata {
        return Err(fielddata_disabled(path));
    }
    Ok(())
}

/// The refusal of a text whose mapping does not say `fielddata`.
pub(crate) fn fielddata_disabled(path: &str) -> Error {
    Error::illegal(format!(
        "Text fields are not optimised for operations that require per-document field data like aggregations and sorting, \
         so these operations are disabled by default. Please use a keyword field instead. Alternatively, set fielddata=true \
         on [{path}] in order to load field data by uninverting the inverted index. Note that this can use significant memory."
    ))
    .about(Topic::FielddataDisabled { field: path.to_owned() })
}

/// Metadata that is kept, and that no values are read off.
///
/// # Errors
/// The field is one of them.
pub(crate) fn refuse_without_values(view: &IndexView, path: &str) -> Result<()> {
    let kept = ["_source", "_version", "_field_names", "_routing", "_ignored", "_nested_path"];
    match kept.contains(&path) && !view.rules().tolerates_unfit_fields {
        true => Err(Error::illegal(format!(
            "Fielddata is not supported on field [{path}] of type [{path}]"
        ))),
        false => Ok(()),
    }
}
