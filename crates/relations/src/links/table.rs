//! The policies as an order of indices: sources stand before their targets.
//!
//! Not here: how a table is replaced (`Links`), what policies do (`upkeep`).

use super::policy::Policy;
use model::{Error, ErrorKind, Result};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// All policies, by name and by index.
#[derive(Debug, Default)]
pub(crate) struct PolicyTable {
    by_name: BTreeMap<String, Arc<Policy>>,
    from: HashMap<String, Vec<Arc<Policy>>>,
    to: HashMap<String, Vec<Arc<Policy>>>,
    /// For each index that a policy names: how many policies may stand before it in a chain.
    ranks: HashMap<String, usize>,
    deepest: usize,
    /// Raised each time that the table of a server is replaced.
    version: u64,
}

impl PolicyTable {
    /// # Errors
    /// `link_cycle_exception`: an index would be copied into itself.
    pub(crate) fn of(policies: impl IntoIterator<Item = Arc<Policy>>) -> Result<PolicyTable> {
        let mut table = PolicyTable::default();
        for policy in policies {
            table
                .from
                .entry(policy.source.index.clone())
                .or_default()
                .push(policy.clone());
            table.to.entry(policy.target.index.clone()).or_default().push(policy.clone());
            for end in [&policy.source, &policy.target] {
                table.ranks.insert(end.index.clone(), 0);
            }
            table.by_name.insert(policy.name.clone(), policy);
        }
        // A chain without a circle has fewer links than there are indices.
        for _ in 0..=table.ranks.len() {
            let mut rises = None;
            for policy in table.by_name.values() {
                let next = table.ranks[&policy.source.index] + 1;
                if table.ranks[&policy.target.index] < next {
                    table.ranks.insert(policy.target.index.clone(), next);
                    rises = Some(policy.clone());
                }
            }
            let Some(policy) = rises else {
                table.deepest = table.ranks.values().copied().max().unwrap_or(0);
                debug_assert!(
                    table
                        .by_name
                        .values()
                        .all(|policy| table.rank(&policy.source.index) < table.rank(&policy.target.index)),
                    "links.md K3: a source stands before its targets"
                );
                debug_assert!(
                    [&table.from, &table.to]
                        .iter()
                        .all(|ends| ends.values().map(Vec::len).sum::<usize>() == table.by_name.len()),
                    "links.md K1: each policy is found once by its source and once by its target"
                );
                return Ok(table);
            };
            if table.ranks[&policy.target.index] > table.ranks.len() {
                break;
            }
        }
        Err(Error::new(ErrorKind::LinkCycle, "link policies copy an index into itself"))
    }

    pub(crate) fn with_version(self, version: u64) -> PolicyTable {
        PolicyTable { version, ..self }
    }
    pub(crate) fn version(&self) -> u64 {
        self.version
    }
    pub(crate) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }
    pub(crate) fn policies(&self) -> impl Iterator<Item = &Arc<Policy>> {
        self.by_name.values()
    }
    pub(crate) fn policy(&self, name: &str) -> Option<&Arc<Policy>> {
        self.by_name.get(name)
    }
    /// Does a policy name this index?
    pub(crate) fn has(&self, index: &str) -> bool {
        self.ranks.contains_key(index)
    }
    /// The policies whose source an index is.
    pub(crate) fn from(&self, index: &str) -> Vec<Arc<Policy>> {
        self.from.get(index).cloned().unwrap_or_default()
    }
    /// The policies whose target an index is.
    pub(crate) fn to(&self, index: &str) -> Vec<Arc<Policy>> {
        self.to.get(index).cloned().unwrap_or_default()
    }
    /// Its place in the order: sources have lower ones than their targets.
    pub(crate) fn rank(&self, index: &str) -> usize {
        self.ranks.get(index).copied().unwrap_or(0)
    }
    /// The highest rank: the policies of the longest chain.
    pub(crate) fn deepest(&self) -> usize {
        self.deepest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dsl::json::Node;
    use serde_json::json;

    fn policy(from: &str, to: &str) -> Arc<Policy> {
        let body = json!({
            "source": { "index": from, "fields": ["name"] }, "target": { "index": to, "on": { "x.id": "_id" }, "into": "x" },
        });
        Arc::new(Policy::parse(&format!("{from}-{to}"), Node::from_value(body)).expect("a policy"))
    }

    #[test]
    fn sources_stand_before_targets_and_circles_are_refused() {
        let check = |pairs: &[(&str, &str)], deepest: Option<usize>| {
            let table = PolicyTable::of(pairs.iter().map(|(from, to)| policy(from, to)));
            match (table, deepest) {
                (Ok(table), Some(deepest)) => {
                    assert_eq!(table.deepest(), deepest, "{pairs:?}");
                    assert!(pairs.iter().all(|(from, to)| table.rank(from) < table.rank(to)), "{pairs:?}");
                }
                (Err(error), None) => assert_eq!(error.kind(), ErrorKind::LinkCycle),
                (other, _) => panic!("{pairs:?}: {other:?}"),
            }
        };
        check(&[], Some(0));
        check(&[("c", "d"), ("a", "b"), ("b", "c")], Some(3));
        check(&[("a", "b"), ("a", "c"), ("b", "c")], Some(2));
        check(&[("a", "a")], None);
        check(&[("a", "b"), ("b", "a")], None);
        check(&[("a", "b"), ("b", "c"), ("c", "b")], None);
    }
}
