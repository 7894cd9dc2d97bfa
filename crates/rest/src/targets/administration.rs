//! Targets of administration: which indices a request names, and what refuses them.
//!
//! Not here: the endpoints that use it (`handlers`).

use crate::call::Call;
use crate::missing_index;
use engine::IndexInfo;
use model::{Result, Target};

/// Options of catalog requests: wildcards reach closed indices too.
pub(crate) fn admin_target(call: &mut Call) -> Result<Target> {
    call.target_with(|t| {
        t.expand_closed = true;
        t.forbid_closed = false;
    })
}

/// `index.blocks.metadata` keeps mappings and settings from being told.
pub(crate) fn readable(infos: &[IndexInfo]) -> Result<()> {
    let level = model::blocks::Level::MetadataRead;
    let mut checks = infos
        .iter()
        .map(|info| model::blocks::check(&info.settings, info.name.as_str(), level));
    checks.find(Result::is_err).unwrap_or(Ok(()))
}

/// A concrete index that must be there.
pub(crate) fn must_exist(infos: &[IndexInfo], target: &Target) -> Result<()> {
    if infos.is_empty()
        && !target.expressions.is_empty()
        && !target.expressions.iter().any(|e| e.contains('*') || e == "_all")
        && !target.ignore_unavailable
    {
        return Err(missing_index(&target.expressions.join(",")));
    }
    Ok(())
}
