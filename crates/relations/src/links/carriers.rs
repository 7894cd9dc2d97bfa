//! Looking for the documents that refer to a source, outside of every critical section.
//!
//! The source is latched meanwhile, so what is found is every document that refers to it, and perhaps some that did
//! (links.md K4); the critical section reads each again. Not here: what becomes of them (`upkeep`).

use super::policy::Policy;
use super::references::has_key;
use dsl::json::Node;
use dsl::query::{Parsing, Query};
use engine::{Barrier, Engine, See, Source, Unrefreshed};
use futures::StreamExt as _;
use model::{CommitSeq, Dialect, DocAddress, ErrorKind, IndexName, Result, Target};
use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::{Value, json};
use std::sync::Arc;

/// The documents that may refer to one source.
#[derive(Debug, Default)]
pub(crate) struct Carriers {
    pub(crate) found: Vec<Carrier>,
    /// There are more than were wanted.
    pub(crate) more: bool,
}

/// A document that may refer to a source.
#[derive(Debug)]
pub(crate) struct Carrier {
    pub(crate) at: DocAddress,
    /// Its source as it was read and parsed when it was looked for; whoever takes it reads whether it is still that one.
    pub(crate) parsed: Option<(Source, Value)>,
}

impl Carriers {
    /// Adds one, or notes that there are more than are wanted; `false` then.
    fn add(&mut self, at: DocAddress, parsed: Option<(Source, Value)>, most: usize) -> bool {
        self.more = self.found.len() >= most;
        if !self.more {
            self.found.push(Carrier { at, parsed });
        }
        !self.more
    }
    fn is_distinct(&self) -> bool {
        let distinct: FxHashSet<&DocAddress> = self.found.iter().map(|carrier| &carrier.at).collect();
        distinct.len() == self.found.len()
    }
}

impl Carrier {
    /// The parsed form of its source, which is this one now.
    ///
    /// # Errors
    /// A source that is no JSON.
    pub(crate) fn parse(&mut self, now: &Source) -> Result<Value> {
        match self.parsed.take() {
            Some((source, parsed)) if Arc::ptr_eq(&source.0, &now.0) => Ok(parsed),
            _ => now.parse(),
        }
    }
}

/// The documents of a policy's target with one of these keys.
///
/// # Errors
/// A key that no query can have.
pub(crate) fn query_of_keys<'a>(policy: &Policy, keys: impl IntoIterator<Item = &'a str>) -> Result<Query> {
    let value = |key: &str| match key.parse::<i64>() {
        Ok(number) if policy.key.integer => json!(number),
        _ => json!(key),
    };
    let keys: Vec<Value> = keys.into_iter().map(value).collect();
    within(policy, json!({ "terms": { &policy.on: keys } }))
}

/// The documents of a policy's target that refer to anything.
///
/// # Errors
/// None that a policy which was checked has.
pub(crate) fn query_of_all(policy: &Policy) -> Result<Query> {
    within(policy, json!({ "exists": { "field": &policy.on } }))
}

/// The body of the same query.
pub fn body_of_all(policy: &Policy) -> Value {
    around(policy, json!({ "exists": { "field": &policy.on } }))
}

fn within(policy: &Policy, query: Value) -> Result<Query> {
    Query::parse(Node::from_value(around(policy, query)), &mut Parsing::new(Dialect::default()))
}

fn around(policy: &Policy, query: Value) -> Value {
    match &policy.key.nested {
        Some(path) => json!({ "nested": { "path": path, "query": query } }),
        None => query,
    }
}

/// Can the field of the keys have this one? A number field has no other keys than numbers.
pub(crate) fn is_possible(policy: &Policy, key: &str) -> bool {
    !policy.key.integer || key.parse::<i64>().is_ok_and(|number| number.to_string() == key)
}

/// So many documents that are not refreshed yet are looked through one by one, which takes a few microseconds each: no more than to make
/// them searchable. Renames that follow each other soon need no refresh each.
const UNREFRESHED_MAX: usize = 8_192;
/// And so many bytes of sources, which are parsed in about 10 ms.
const UNREFRESHED_MAX_BYTES: usize = 2 << 20;

/// Looks for the documents that refer to a source, `most` of them, with everything that was committed up to `position`.
///
/// # Errors
/// The engine's.
pub(crate) async fn find(engine: &dyn Engine, policy: &Policy, key: &str, most: usize, position: CommitSeq) -> Result<Carriers> {
    if !is_possible(policy, key) {
        return Ok(Carriers::default());
    }
    match find_in_target(engine, policy, key, most, position).await {
        Err(e) if e.kind() == ErrorKind::IndexNotFound => Ok(Carriers::default()),
        found => {
            debug_assert!(
                found.as_ref().map_or(true, |carriers| carriers.is_distinct()),
                "links.md K4: a document that refers to a source is found by the search or among the unrefreshed ones, not twice"
            );
            found
        }
    }
}

async fn find_in_target(engine: &dyn Engine, policy: &Policy, key: &str, most: usize, position: CommitSeq) -> Result<Carriers> {
    let target = Target::index(&policy.target.index);
    let index = IndexName::new(policy.target.index.as_str());
    let unrefreshed = match engine.atomic() {
        Some(atomic) => atomic.unrefreshed_documents(&index, position, UNREFRESHED_MAX).await?,
        None => None,
    };
    let bytes_of = |found: &[Unrefreshed]| {
        found
            .iter()
            .filter_map(|one| Some(one.source.as_ref()?.0.len()))
            .sum::<usize>()
    };
    let unrefreshed = unrefreshed.filter(|found| bytes_of(found) <= UNREFRESHED_MAX_BYTES);
    // Before the search: what is refreshed in between is in both.
    let newest: FxHashMap<DocAddress, Option<Source>> = match unrefreshed {
        Some(found) => found.into_iter().map(|one| (one.at, one.source)).collect(),
        None => {
            engine.refresh(&target, Some(position)).await?;
            FxHashMap::default()
        }
    };
    let query = query_of_keys(policy, [key])?;
    let scan = engine.scan(&target, query, See::Plain, Barrier::None);
    // The engine reads the first documents of the scan while these are parsed.
    let (found, carriers) = futures::join!(scan, async { find_unrefreshed(policy, key, most, &newest) });
    let (mut found, mut carriers) = (found?, carriers?);
    if carriers.more {
        return Ok(carriers);
    }
    while let Some(document) = found.next().await {
        let at = document?.at;
        if !newest.contains_key(&at) && !carriers.add(at, None, most) {
            break;
        }
    }
    Ok(carriers)
}

/// The documents that refer to a source among those that no search shows yet.
fn find_unrefreshed(policy: &Policy, key: &str, most: usize, newest: &FxHashMap<DocAddress, Option<Source>>) -> Result<Carriers> {
    let mut carriers = Carriers::default();
    for (at, source) in newest {
        let Some(source) = source else { continue };
        let parsed = source.parse()?;
        if has_key(policy, &parsed, key) && !carriers.add(at.clone(), Some((source.clone(), parsed)), most) {
            break;
        }
    }
    Ok(carriers)
}
