//! Jobs of who is granted only some fields: what a job writes must not rest on a part of what it has read.
//!
//! Not here: which documents a job finds (`targets`, as searches do).

use super::engine::GuardedEngine;
use ::engine::EngineExt as _;
use model::lock_index::LockIndex;
use model::settings::{self, PLEACH_LOCK_INDEX, PLEACH_LOCK_PATH};
use model::{Result, Target};
use serde_json::{Map, Value};

impl GuardedEngine {
    /// Of a target that has been narrowed.
    ///
    /// # Errors
    /// `security_exception`: an update, which writes back what it has read; a deletion, where locks are told from fields.
    pub(super) async fn check_job(&self, target: &Target) -> Result<()> {
        let updates = self.scope.api == "update_by_query";
        let deletes = matches!(self.scope.api, "delete_by_query" | "delete_by_query_2015");
        let Some(visibility) = target.visibility.as_ref().filter(|_| updates || deletes) else {
            return Ok(());
        };
        for info in self.inner().indices(target).await? {
            let name = info.name.as_str();
            let seen = visibility.through(&target.expressions, name, &info.aliases);
            if seen.fields.is_all() {
                continue;
            }
            if updates {
                return Err(self.scope.withheld("an update by query without all fields", name));
            }
            if locks_by_fields(&info.settings) {
                let what = format!(
                    "a deletion by query in an index with [{}] or [{}] without all fields",
                    PLEACH_LOCK_PATH.name, PLEACH_LOCK_INDEX.name
                );
                return Err(self.scope.withheld(&what, name));
            }
        }
        Ok(())
    }
}

/// Do fields of a document tell which locks it is under?
fn locks_by_fields(settings: &Map<String, Value>) -> bool {
    let has_place = !settings::text(settings, PLEACH_LOCK_PATH).is_empty();
    has_place || !LockIndex::of(settings).is_ok_and(|locks| locks.is_none())
}
