//! Keys of joins read from sources: what an engine without columns of its own does.
//!
//! Not here: how an engine with columns collects and compares them.

use crate::{Barrier, Engine, JoinKeys, KeysOf, See};
use dsl::query::{JoinValues, Keys};
use futures::StreamExt as _;
use model::{Error, ErrorKind, Result, Target, path, settings};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Keys as the values that documents have.
pub(crate) struct Values(pub(crate) Vec<Value>);

impl JoinValues for Values {
    fn terms(&self) -> Option<Vec<Value>> {
        Some(self.0.clone())
    }
}

/// Reads every document that matches; scores are not to be had.
pub(crate) async fn from_sources<E: Engine + ?Sized>(engine: &E, target: &Target, of: KeysOf) -> Result<JoinKeys> {
    if of.scores {
        return Err(Error::illegal(
            "this engine knows no scores: [score_mode] of a join must be [none]",
        ));
    }
    let mut found = match &of.view {
        Some(view) => engine.scan_view(target, of.query, view).await?,
        None => engine.scan(target, of.query, See::Plain, Barrier::None).await?,
    };
    let most = usize::try_from(settings::number(&serde_json::Map::new(), settings::MAX_JOIN_KEYS)).unwrap_or(usize::MAX);
    let mut seen = BTreeSet::new();
    let mut keys = Vec::new();
    while let Some(document) = found.next().await {
        let document = document?;
        let values = if of.field == "_id" {
            vec![Value::from(&*document.at.id.id)]
        } else {
            let source = document.source.parse()?;
            let values = path::read(&source, &of.field).into_iter();
            values.filter(|value| !value.is_null()).cloned().collect()
        };
        for value in values {
            if seen.insert(value.to_string()) {
                keys.push(value);
            }
        }
        if keys.len() > most {
            return Err(Error::new(
                ErrorKind::TooManyJoinKeys,
                format!(
                    "the join on [{}] has more than [{most}] keys, the limit of [search.max_join_keys]",
                    of.field
                ),
            ));
        }
    }
    Ok(JoinKeys {
        count: keys.len() as u64,
        bytes: (keys.len() * std::mem::size_of::<Value>()) as u64,
        keys: Keys::new(Arc::new(Values(keys))),
        strategy: "values",
    })
}
