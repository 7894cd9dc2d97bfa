//! The initial copy of the feed: a view of all indices at one position of the log, from which a reader goes on with changes.
//!
//! One flip publishes every index at the same position, while the catalog stands still. So the view holds exactly what the log
//! has below that position.
//!
//! Not here: reading documents of a view (`seq_no_scan`), changes (`change_feed`).

use crate::catalog::resolve::Resolved;
use crate::change_feed::state_of;
use crate::open_views::ViewContent;
use crate::store::Store;
use engine::changes::{IndexState, InitialCopy};
use engine::{View, ViewPromise};
use model::system_index::is_system;
use model::{IndexName, Result, path};
use segment::searchable::{IndexView, Searchable};
use std::collections::HashMap;
use std::sync::Arc;
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
            })
            .collect();
        for one in &opened {
            self.state(&one.entry)?;
        }
        let numbers: Vec<u32> = opened.iter().map(|one| one.entry.no).collect();
        let shown = self.publish_as(&numbers, self.catalog.altered_at())?;
        let set_of = |no: &u32| shown.indices.get(no).map(|set| (*no, set.clone()));
        let indices: HashMap<u32, Arc<IndexView>> = numbers.iter().filter_map(set_of).collect();
        let position = indices.values().map(|set| set.position).max();
        let position = position.unwrap_or_else(|| self.log.durable_position());
        assert!(
            indices.values().all(|set| set.position == position),
            "1.7: a copy shows every index up to {position}"
        );
        let view = View {
            id: self.fresh_view_id(),
            as_of: Some(position),
            indices: opened.iter().map(|one| one.entry.name.clone()).collect(),
            promise: ViewPromise::OneMoment,
            created_ms: self.env.wall_ms(),
            keep_alive,
        };
        let content = ViewContent {
            searchable: Arc::new(Searchable { indices, position }),
            catalog,
            opened,
            failures: Arc::default(),
        };
        self.views.insert(view.clone(), content, self.env.monotonic());
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
        let behind = content
            .opened
            .iter()
            .filter(|one| after.is_none_or(|after| one.entry.name.as_str() > after.as_str()));
        let next = behind.min_by(|a, b| a.entry.name.as_str().cmp(b.entry.name.as_str()));
        Ok(next.map(|one| state_of(&one.entry)))
    }
}
