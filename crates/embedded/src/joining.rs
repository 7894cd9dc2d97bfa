//! Calls of joins: one moment for all of a request, and the keys of one side.
//!
//! Not here: what a key is (`plan::join`), where joins stand in requests (`relations`).

use crate::open_views::MOMENT;
use crate::store::Store;
use dsl::query::Keys;
use engine::{JoinKeys, KeysOf, See, View};
use model::nearest;
use model::{Dialect, Error, ErrorKind, Result, Target, settings};
use search::Searched;
use search::clauses::plan;
use search::collect::join_keys::JoinKeyCollector;
use search::interrupt::Interrupt;
use search::joins::{KeyLimits, Place};
use segment::searchable::IndexView;
use std::sync::Arc;
use std::time::Duration;

impl Store {
    /// One moment of several targets, for one request.
    pub(crate) fn align(&self, targets: &[Target]) -> Result<View> {
        // A request that was dropped halfway leaves its moment behind.
        self.expire_views();
        let catalog = self.catalog.now();
        let (mut found, mut all) = (Vec::new(), Vec::new());
        for target in targets {
            for resolved in catalog.resolve(target, self.env.wall_ms())? {
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
        let id = format!("{MOMENT}{}", engine::clock::uuid(self.env.clock()));
        let read = self.with_others(&all)?;
        self.keep(id, (found, Vec::new()), &read, catalog, Duration::from_secs(60))
    }

    /// The keys that documents of a target have in a field.
    pub(crate) fn keys(&self, target: &Target, of: &KeysOf, interrupt: &Interrupt) -> Result<JoinKeys> {
        let view = of.view.as_deref();
        let views = self.views_of(target, view)?;
        if views.is_empty() && view.is_some() && !self.catalog.now().resolve(target, self.env.wall_ms())?.is_empty() {
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

    /// The keys that documents of a moment have in a field.
    pub(crate) fn keys_in(&self, views: &[Searched], of: &KeysOf, interrupt: &Interrupt) -> Result<JoinKeys> {
        let places = places(views, &of.field)?;
        assert_eq!(
            places.len(),
            views.len(),
            "each index of a join has a place for keys, or none"
        );
        check(views, &of.field, "their")?;
        let limits = {
            let catalog = self.catalog.now();
            KeyLimits {
                keys: usize::try_from(catalog.cluster_number(settings::MAX_JOIN_KEYS)).unwrap_or(usize::MAX),
                bytes: catalog.cluster_bytes(settings::JOIN_MEMORY),
            }
        };
        let found = self.with_context(See::Plain, Dialect::default(), &of.types, interrupt, |cx| {
            let mut keys = JoinKeyCollector::new(&of.field, of.scores, limits, self.caches.join_memory().clone());
            for (no, ((view, filter), place)) in views.iter().zip(&places).enumerate() {
                if let Some(place) = place {
                    let planned = plan(view, Some(&of.query), filter.as_ref(), cx)?;
                    keys.collect(no, view, place, &planned, cx)?;
                }
            }
            let views: Vec<(&IndexView, Option<Place>)> = views.iter().map(|(view, _)| &**view).zip(places.clone()).collect();
            keys.finish(&views)
        })?;
        Ok(JoinKeys {
            count: found.len() as u64,
            bytes: found.bytes(),
            strategy: found.strategy(),
            keys: Keys::new(Arc::new(found)),
        })
    }
}

fn places(views: &[Searched], field: &str) -> Result<Vec<Option<Place>>> {
    views.iter().map(|(view, _)| Place::of(view, field)).collect()
}

/// Refuses a field that no index has, and where one cannot join by it. Indices without any field may get it yet.
fn check(views: &[Searched], field: &str, whose: &str) -> Result<()> {
    let known = places(views, field)?.iter().any(Option::is_some);
    let bare = views.iter().all(|(view, _)| view.mapping.fields().next().is_none());
    if known || bare {
        return Ok(());
    }
    let names: Vec<&str> = views
        .iter()
        .flat_map(|(view, _)| view.mapping.fields().map(|(path, _)| path))
        .chain(std::iter::once("_id"))
        .collect();
    let hint = nearest::hint(field, names);
    let indices: Vec<&str> = views.iter().map(|(view, _)| view.name.as_str()).collect();
    Err(Error::new(
        ErrorKind::QueryShard,
        format!(
            "[join] {whose} field [{field}] is not mapped in [{}]{hint}",
            indices.join(",")
        ),
    ))
}
