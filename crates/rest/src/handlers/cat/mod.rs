//! `_cat`: the same facts as tables. Indices in `indices`, what shards are made of in `shards`, what runs and where
//! in `nodes`, what there is none of in `nothing`.

pub(super) mod figures;
mod indices;
mod nodes;
mod nothing;
mod shards;
mod thread_pool;

pub(crate) use indices::{aliases, component_templates, count, indices, shards, templates};
pub(crate) use nodes::{allocation, attributes, health, master, nodes, plugins, tasks};
pub(crate) use nothing::{fielddata, pending_tasks, repositories, snapshots};
pub(crate) use shards::{recovery, segments};
pub(crate) use thread_pool::thread_pool;

use crate::call::Call;
use crate::respond::Answer;
use crate::tables::Layout;
use engine::{IndexInfo, IndexStats};
use model::{Result, Target};

/// `GET /_cat`.
pub(crate) async fn help(call: Call) -> Result<Answer> {
    call.params.finish()?;
    Ok(Answer::text((call.rest.cat_paths)()))
}

/// Takes the layout and the indices, refuses what is left.
fn prepare(call: &mut Call) -> Result<(Layout, Target)> {
    let layout = Layout::take(&mut call.params, call.wants_json)?;
    let mut target = super::indices::admin_target(call)?;
    target.types.clear();
    call.params.finish()?;
    Ok((layout, target))
}

/// The same of tables that are not about indices.
fn layout_only(call: &mut Call) -> Result<Layout> {
    let layout = Layout::take(&mut call.params, call.wants_json)?;
    call.params.finish()?;
    Ok(layout)
}

async fn stats(call: &Call, target: Target) -> Result<Vec<(IndexInfo, IndexStats)>> {
    call.rest.stats(target).await
}

/// `12:34:56` of milliseconds since 1970.
pub(super) fn time_of_day(ms: i64) -> String {
    let second = (ms / 1000).rem_euclid(86_400);
    format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
}
