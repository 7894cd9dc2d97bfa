//! Layouts and times of the tables of `_cat`.
//!
//! Not here: the endpoints that use it (`handlers`).

use crate::call::Call;
use crate::tables::Layout;
use engine::{IndexInfo, IndexStats};
use model::{Result, Target};

/// Takes the layout and the indices, refuses what is left.
pub(crate) fn prepare(call: &mut Call) -> Result<(Layout, Target)> {
    let layout = Layout::take(&mut call.params, call.wants_json)?;
    let mut target = crate::targets::administration::admin_target(call)?;
    target.types.clear();
    call.params.finish()?;
    Ok((layout, target))
}

/// The same of tables that are not about indices.
pub(crate) fn layout_only(call: &mut Call) -> Result<Layout> {
    let layout = Layout::take(&mut call.params, call.wants_json)?;
    call.params.finish()?;
    Ok(layout)
}

pub(crate) async fn stats(call: &Call, target: Target) -> Result<Vec<(IndexInfo, IndexStats)>> {
    call.rest.stats(target).await
}

/// `12:34:56` of milliseconds since 1970.
pub(crate) fn time_of_day(ms: i64) -> String {
    let second = (ms / 1000).rem_euclid(86_400);
    format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
}
