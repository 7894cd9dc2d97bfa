//! The initial copy of the feed: a view of all indices at one position of the log, from which a reader goes on with changes.
//!
//! One flip publishes every index at the same position, while the catalog stands still. So the view holds exactly what the log
//! has below that position.
//!
//! Not here: reading documents of a view (`seq_no_scan`), changes (`change_feed`).

use crate::catalog::resolve::Resolved;
use crate::change_feed::state_of;
use crate::store::Store;
use engine::changes::{IndexState, InitialCopy};
use model::system_index::is_system;
use model::{IndexName, Result, path};
use std::time::Duration;

impl Store {
    /// Opens a copy of the indices that match one of the patterns; none: of every index.
    ///
    /// # Errors
    /// As `engine::changes::ChangeFeed::open_copy`.
    pub(crate) fn open_copy(&self, patterns: &[String], keep_alive: Duration) -> Result<InitialCopy> {
        let _altering = self.catalog.alter_alone();
        let catalog = self.catalog.now();
        self.check_keep_alive(&catalog, keep_alive)?;
        self.check_view_count(&catalog)?;
        let is_wanted =
            |name: &str| !is_system(name) && (patterns.is_empty() || patterns.iter().any(|pattern| path::matches(pattern, name)));
        let entries = catalog.indices.values().filter(|entry| is_wanted(entry.name.as_str()));
        let opened: Vec<Resolved> = entries
            .map(|entry| Resolved {
                entry: entry.clone(),
                filters: None,
                seen: None,
            })
            .collect();
        for one in &opened {
            self.state(&one.entry)?;
        }
        let numbers: Vec<u32> = opened.iter().map(|one| one.entry.no).collect();
        let shown = self.publish_as(&numbers, self.catalog.alteration_end())?;
        let positions = || numbers.iter().filter_map(|no| shown.indices.get(no)).map(|set| set.position);
        let position = positions().max().unwrap_or_else(|| self.log.durable_position());
        assert!(
            positions().all(|one| one == position),
            "1.7: a copy shows every index up to {position}"
        );
        let id = self.fresh_view_id();
        let view = self.keep_moment(id, (opened.clone(), Vec::new()), &opened, &shown, catalog, keep_alive);
        let moment = position.saturating_sub(1);
        Ok(InitialCopy { view, moment })
    }

    /// The index of a copy that comes after another one by name.
    ///
    /// # Errors
    /// SearchContextMissing: the view is closed.
    pub(crate) fn copied_index(&self, copy: &str, after: Option<&IndexName>) -> Result<Option<IndexState>> {
        self.expire_views();
        let content = self.views.use_view(copy, self.env.monotonic())?;
        debug_assert!(
            content
                .opened
                .is_sorted_by(|one, next| one.entry.name.as_str() < next.entry.name.as_str()),
            "a copy has its indices in the order of the catalog, which is that of names"
        );
        let is_passed = |one: &Resolved| after.is_some_and(|after| one.entry.name.as_str() <= after.as_str());
        let next = content.opened.get(content.opened.partition_point(is_passed));
        Ok(next.map(|one| state_of(&one.entry)))
    }
}
