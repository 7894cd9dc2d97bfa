//! What joins ask of the store: one moment for all of a request, and the keys of one side.
//!
//! Not here: what a key is (`plan::join`), where joins stand in requests (`relations`).

use crate::join_keys::check;
use crate::store::{MOMENT, Store};
use engine::{JoinKeys, KeysOf, View};
use model::{Error, Result, Target};
use search::interrupt::Interrupt;
use std::time::Duration;

impl Store {
    /// One moment of several targets, for one request.
    pub(crate) fn align(&self, targets: &[Target]) -> Result<View> {
        // A request that was dropped halfway leaves its moment behind.
        self.expire_views();
        let catalog = self.catalog_now();
        let (mut found, mut all) = (Vec::new(), Vec::new());
        for target in targets {
            for resolved in catalog.resolve(target, self.clock.wall_ms())? {
                // An index that is named twice may be reached through another filter.
                all.push(resolved.clone());
                if !found
                    .iter()
                    .any(|known: &crate::catalog::resolve::Resolved| known.entry.no == resolved.entry.no)
                {
                    found.push(resolved);
                }
            }
        }
        let id = format!("{MOMENT}{}", engine::clock::uuid(self.clock.as_ref()));
        let read = self.with_others(&all)?;
        self.keep(id, found, &read, catalog, Duration::from_secs(60))
    }

    /// The keys that documents of a target have in a field.
    pub(crate) fn keys(&self, target: &Target, of: &KeysOf, interrupt: &Interrupt) -> Result<JoinKeys> {
        let view = of.view.as_deref();
        let views = self.views_of(target, view)?;
        if views.is_empty() && view.is_some() && !self.catalog_now().resolve(target, self.clock.wall_ms())?.is_empty() {
            return Err(Error::illegal(format!(
                "[join] [{}] is not in the point in time or scroll that is searched; open it over both",
                target.expressions.join(",")
            )));
        }
        if let Some((ours, field)) = &of.joined_with {
            let views = self.views_of(ours, view)?;
            check(&views, field, "our")?;
        }
        self.keys_in(&views, of, interrupt)
    }
}
