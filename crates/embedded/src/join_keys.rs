//! The keys of one side of a join, in views that are given.
//!
//! Not here: what a key is (`search::plan::join`), the moment of a request (`joining`).

use crate::search_context::Searched;
use crate::store::Store;
use dsl::query::Keys;
use engine::{JoinKeys, KeysOf, See};
use model::nearest;
use model::{Dialect, Error, ErrorKind, Result, settings};
use search::interrupt::Interrupt;
use search::plan::join::{Collector, KeyLimits, Place};
use search::plan::plan;
use segment::searchable::IndexView;
use std::sync::Arc;

impl Store {
    /// The keys that documents of a moment have in a field.
    pub(crate) fn keys_in(&self, views: &[Searched], of: &KeysOf, interrupt: &Interrupt) -> Result<JoinKeys> {
        let places = places(views, &of.field)?;
        check(views, &of.field, "their")?;
        let limits = {
            let catalog = self.catalog_now();
            KeyLimits {
                keys: usize::try_from(catalog.cluster_number(settings::MAX_JOIN_KEYS)).unwrap_or(usize::MAX),
                bytes: catalog.cluster_bytes(settings::JOIN_MEMORY),
            }
        };
        let found = self.with_context(See::Plain, Dialect::default(), &of.types, interrupt, |cx| {
            let mut keys = Collector::new(&of.field, of.scores, limits, self.join_memory.clone());
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
            keys: Keys(Arc::new(found)),
        })
    }
}

fn places(views: &[Searched], field: &str) -> Result<Vec<Option<Place>>> {
    views.iter().map(|(view, _)| Place::of(view, field)).collect()
}

/// Refuses a field that no index has, and where one cannot join by it. Indices without any field may get it yet.
pub(crate) fn check(views: &[Searched], field: &str, whose: &str) -> Result<()> {
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
