//! The views that clients and running requests keep open: one moment of some indices each, by id.
//!
//! Not here: views in which writes are staged (`staged_view`), what a view shows (`searching`).

use crate::catalog::Catalog;
use crate::catalog::resolve::Resolved;
use crate::lock_order::Mutex;
use dsl::search::ShardFailure;
use engine::View;
use model::{Error, ErrorKind, Result, Target};
use segment::searchable::Searchable;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// How the ids of views begin that belong to running requests.
pub(crate) const MOMENT: &str = "moment:";

/// The sets, the catalog and the indices of a view.
#[derive(Clone)]
pub(crate) struct ViewContent {
    pub(crate) searchable: Arc<Searchable>,
    pub(crate) catalog: Arc<Catalog>,
    /// The indices that it was opened on, with the filters of the aliases on the way.
    pub(crate) opened: Vec<Resolved>,
    /// Indices that were meant and could not be read then.
    pub(crate) failures: Arc<[ShardFailure]>,
}

impl ViewContent {
    /// The indices of the view that a target means, and those that could not be read.
    ///
    /// # Errors
    /// The target's.
    pub(crate) fn resolve(&self, target: &Target, now_ms: i64) -> Result<(Vec<Resolved>, Vec<ShardFailure>)> {
        if target.expressions.is_empty() {
            return Ok((self.opened.clone(), self.failures.to_vec()));
        }
        let all = Target {
            ignore_unavailable: true,
            forbid_closed: false,
            expand_closed: true,
            ..target.clone()
        };
        let mut inside = self.catalog.resolve(&all, now_ms)?;
        let means = |failure: &&ShardFailure| inside.iter().any(|r| r.entry.name.as_str() == failure.index);
        let failures = self.failures.iter().filter(means).cloned().collect();
        inside.retain(|r| self.opened.iter().any(|o| o.entry.no == r.entry.no));
        Ok((inside, failures))
    }
}

struct OpenView {
    view: View,
    content: ViewContent,
    used: Duration,
}

/// Open views by id. Times are monotonic.
#[derive(Default)]
pub(crate) struct OpenViews(Mutex<HashMap<String, OpenView>>);

impl OpenViews {
    pub(crate) fn insert(&self, view: View, content: ViewContent, now: Duration) {
        let id = view.id.clone();
        let open = OpenView {
            view,
            content,
            used: now,
        };
        let before = self.0.lock().insert(id, open);
        debug_assert!(before.is_none(), "6: the id of a view is given once");
    }
    /// The content of a view, which counts as a use.
    ///
    /// # Errors
    /// No view has the id.
    pub(crate) fn use_view(&self, id: &str, now: Duration) -> Result<ViewContent> {
        let mut views = self.0.lock();
        let open = views.get_mut(id).ok_or_else(|| missing_view(id))?;
        open.used = now;
        Ok(open.content.clone())
    }
    /// Counts as a use, and keeps the view for at least so long from here on.
    ///
    /// # Errors
    /// No view has the id.
    pub(crate) fn renew(&self, id: &str, keep_alive: Duration, now: Duration) -> Result<()> {
        let mut views = self.0.lock();
        let open = views.get_mut(id).ok_or_else(|| missing_view(id))?;
        open.used = now;
        open.view.keep_alive = open.view.keep_alive.max(keep_alive);
        Ok(())
    }
    /// Closes a view; false if there was none.
    pub(crate) fn close(&self, id: &str) -> bool {
        self.0.lock().remove(id).is_some()
    }
    /// Closes views that nobody used for their keep alive.
    pub(crate) fn expire(&self, now: Duration) {
        self.0
            .lock()
            .retain(|_, open| now.saturating_sub(open.used) <= open.view.keep_alive);
    }
    /// All views, those of running requests too.
    pub(crate) fn len(&self) -> usize {
        self.0.lock().len()
    }
    /// The views that clients opened.
    pub(crate) fn list(&self) -> Vec<View> {
        let views = self.0.lock();
        let own = views.values().filter(|open| !open.view.id.starts_with(MOMENT));
        own.map(|open| open.view.clone()).collect()
    }
    /// The number of views that clients opened.
    pub(crate) fn count(&self) -> u64 {
        self.0.lock().keys().filter(|id| !id.starts_with(MOMENT)).count() as u64
    }
    /// The number of views that clients opened and that show an index.
    pub(crate) fn count_over(&self, no: u32) -> u64 {
        let views = self.0.lock();
        let own = views.iter().filter(|(id, _)| !id.starts_with(MOMENT));
        own.filter(|(_, open)| open.content.searchable.indices.contains_key(&no))
            .count() as u64
    }
    /// The catalog of a view.
    pub(crate) fn catalog_of(&self, id: &str) -> Option<Arc<Catalog>> {
        self.0.lock().get(id).map(|open| open.content.catalog.clone())
    }
}

/// The refusal of a view that is not open.
pub(crate) fn missing_view(id: &str) -> Error {
    Error::new(
        ErrorKind::SearchContextMissing,
        format!("No search context found for id [{id}]"),
    )
}
