//! `_cat`: the same facts as tables. Indices in `indices`, what shards are made of in `shards`, what runs and where
//! in `nodes`, repositories and snapshots in `snapshots`, what there is none of in `nothing`.

mod indices;
mod nodes;
mod nothing;
mod shards;
mod snapshots;
mod thread_pool;

pub(crate) use indices::{aliases, component_templates, count, indices, shards, templates};
pub(crate) use nodes::{allocation, attributes, health, master, nodes, plugins, tasks};
pub(crate) use nothing::{fielddata, pending_tasks};
pub(crate) use shards::{recovery, segments};
pub(crate) use snapshots::{repositories, snapshots};
pub(crate) use thread_pool::thread_pool;

use crate::call::Call;
use crate::respond::Answer;
use async_recursion::async_recursion as boxed;
use model::Result;

/// `GET /_cat`.
#[boxed]
pub(crate) async fn help(call: Call) -> Result<Answer> {
    call.params.finish()?;
    Ok(Answer::text((call.rest.cat_paths)()))
}
