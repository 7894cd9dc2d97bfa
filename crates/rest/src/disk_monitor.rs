//! The watch over the disk of the data folder: warns at the low and the high watermark, blocks indices at flood stage, and
//! releases them when there is room again.
//!
//! Each `cluster.info.update.interval`, and at once when a setting of the watermarks has changed. Blocks are released when the
//! disk leaves the high watermark, and at the first look of a process: a block that somebody sets by hand stays until then.
//! System indices are never blocked: what rests on them is refused by the engine, with 507, where the disk is full indeed.
//!
//! Not here: the decision (`model::watermarks`), what a block refuses (`model::blocks`).

use crate::{Rest, background};
use engine::{Alteration, Inspected, Inspection};
use model::blocks::{READ_ONLY_ALLOW_DELETE, is_on};
use model::watermarks::{Stage, Step, Watermarks};
use model::{Result, Target, settings};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// How often the settings are looked at.
const TICK: Duration = Duration::from_millis(500);
/// How long after a failure it is tried again.
const RETRY: Duration = Duration::from_secs(5);

/// The watermarks that hold now.
///
/// # Errors
/// Settings that cannot be read; those that are set were checked.
pub(crate) async fn watermarks(rest: &Rest) -> Result<Watermarks> {
    Watermarks::of(&rest.cluster_settings().await?, rest.reach)
}

/// Watches until `over`, on a thread of its own: a disk is full while requests keep every other busy, too. Without it a full disk
/// refuses writes by itself, with 507.
pub(crate) fn watch(rest: &Arc<Rest>, over: &Arc<AtomicBool>) {
    let rest = rest.clone();
    let mut monitor = Monitor::default();
    background::repeat("disk-monitor", TICK, over, move || {
        futures::executor::block_on(monitor.tick(&rest))
    });
}

/// The state of the watch.
#[derive(Debug, Default)]
struct Monitor {
    /// The watermarks of the last look.
    marks: Option<Watermarks>,
    /// When the next look is due; `None`: now.
    due: Option<Instant>,
    /// The watermark that the disk exceeded at the last look.
    stage: Option<Stage>,
    /// Indices may have a block that is to be released.
    may_be_blocked: bool,
}

impl Monitor {
    async fn tick(&mut self, rest: &Rest) {
        let Ok(marks) = watermarks(rest).await else { return };
        let changed = self.marks != Some(marks);
        if !changed && self.due.is_some_and(|due| Instant::now() < due) {
            return;
        }
        let first = self.marks.replace(marks).is_none();
        self.may_be_blocked |= first;
        let wait = match self.look(rest, &marks).await {
            Ok(()) => marks.interval,
            Err(cause) => {
                tracing::warn!(target: "server", "indices were not blocked or released for the disk's watermarks: {}", cause.reason());
                RETRY
            }
        };
        self.due = Some(Instant::now() + wait);
    }

    async fn look(&mut self, rest: &Rest, marks: &Watermarks) -> Result<()> {
        let Inspected::Node(node) = rest.engine.inspect(Inspection::Node).await? else {
            return Ok(());
        };
        let (total, available) = (node.disk_total_bytes, node.disk_available_bytes);
        let stage = marks.stage(total, available);
        if self.stage.replace(stage).unwrap_or(Stage::Roomy) != stage {
            tell(stage, total, available);
        }
        match stage.step() {
            Step::Block => {
                self.may_be_blocked = true;
                let blocked = set_block(rest, true).await?;
                if blocked > 0 {
                    tracing::warn!(target: "server", "{blocked} indices refuse writes until the disk is used less than [{}] says", settings::DISK_HIGH.name);
                }
            }
            Step::Release if self.may_be_blocked => {
                let released = set_block(rest, false).await?;
                self.may_be_blocked = false;
                if released > 0 {
                    tracing::info!(target: "server", "{released} indices take writes again: the disk has room");
                }
            }
            Step::Keep | Step::Release => {}
        }
        Ok(())
    }
}

/// Gives the block to every index that lacks it, or takes it from those that have it; how many.
async fn set_block(rest: &Rest, on: bool) -> Result<usize> {
    let mut all = Target::of(Vec::new());
    (all.expand_closed, all.expand_hidden, all.forbid_closed) = (true, true, false);
    let infos = rest.indices(&all).await?;
    let changing = infos
        .iter()
        .filter(|info| is_on(&info.settings, READ_ONLY_ALLOW_DELETE) != on);
    let names: Vec<String> = changing.map(|info| info.name.to_string()).collect();
    let count = names.len();
    if count > 0 {
        let mut target = Target::of(names);
        (target.expand_closed, target.forbid_closed) = (true, false);
        let value = if on { Value::Bool(true) } else { Value::Null };
        rest.alter(Alteration::PutSettings {
            target,
            settings: [(READ_ONLY_ALLOW_DELETE.to_owned(), value)].into_iter().collect(),
            preserve_existing: false,
        })
        .await?;
    }
    Ok(count)
}

/// Once a change.
fn tell(stage: Stage, total: u64, available: u64) {
    let exceeded = |setting: settings::Setting, consequence: &str| {
        tracing::warn!(
            target: "server",
            "the disk of the data folder has [{available}] bytes of [{total}] left, less than the watermark [{}] asks for: {consequence}",
            setting.name
        );
    };
    match stage {
        Stage::Roomy => {
            tracing::info!(target: "server", "the disk of the data folder has room: [{available}] bytes of [{total}] are left")
        }
        Stage::Low => exceeded(settings::DISK_LOW, "make room or give the data folder a larger disk"),
        Stage::High => exceeded(settings::DISK_HIGH, "at flood stage all indices refuse writes"),
        Stage::FloodStage => exceeded(
            settings::DISK_FLOOD,
            "all indices refuse writes; documents and indices can be deleted, and [cluster.routing.allocation.disk.threshold_enabled] of false \
             lifts it",
        ),
    }
}
