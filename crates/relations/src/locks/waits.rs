//! Who waits for whom, over any number of lock documents, and circles in that.

use super::lock::{Lock, Owner};
use std::collections::{BTreeMap, BTreeSet};

/// Edges waiter → blocker of all these documents.
pub fn waits<'a>(locks: impl IntoIterator<Item = &'a Lock>) -> BTreeMap<Owner, BTreeSet<Owner>> {
    let mut edges: BTreeMap<Owner, BTreeSet<Owner>> = BTreeMap::new();
    for lock in locks {
        for waiter in &lock.waiters {
            let blockers = lock.blockers(&waiter.owner, waiter.mode, waiter.age);
            edges
                .entry(waiter.owner.clone())
                .or_default()
                .extend(blockers.into_iter().map(|blocker| blocker.owner));
        }
    }
    edges
}

/// A circle through `from`, in the order of waiting, `from` first. The one who closes a circle asks this, so every
/// circle is found when it comes to be.
pub fn cycle(edges: &BTreeMap<Owner, BTreeSet<Owner>>, from: &Owner) -> Option<Vec<Owner>> {
    // Depth first with the path on a stack of its own: chains are as long as clients make them.
    let next = |owner: &Owner| edges.get(owner).map(|to| to.iter().cloned().collect()).unwrap_or_default();
    let mut seen = BTreeSet::from([from.clone()]);
    let mut path: Vec<(Owner, Vec<Owner>)> = vec![(from.clone(), next(from))];
    while let Some((_, open)) = path.last_mut() {
        match open.pop() {
            Some(to) if to == *from => {
                let circle: Vec<Owner> = path.into_iter().map(|(owner, _)| owner).collect();
                debug_assert!(
                    circle
                        .windows(2)
                        .all(|two| edges.get(&two[0]).is_some_and(|to| to.contains(&two[1]))),
                    "T10: in a circle each waits for the next: {circle:?}"
                );
                return Some(circle);
            }
            Some(to) if seen.insert(to.clone()) => {
                let onward = next(&to);
                path.push((to, onward));
            }
            Some(_) => {}
            None => drop(path.pop()),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(edges: &[(&str, &str)], from: &str, circle: Option<&str>) {
        let mut graph: BTreeMap<Owner, BTreeSet<Owner>> = BTreeMap::new();
        for (a, b) in edges {
            graph.entry(Owner::new(*a)).or_default().insert(Owner::new(*b));
        }
        let found = cycle(&graph, &Owner::new(from)).map(|c| c.iter().map(Owner::as_str).collect::<String>());
        assert_eq!(found.as_deref(), circle, "{edges:?} from {from}");
    }

    #[test]
    fn circles() {
        check(&[], "a", None);
        check(&[("a", "b")], "a", None);
        check(&[("a", "b"), ("b", "a")], "a", Some("ab"));
        check(&[("a", "b"), ("b", "c"), ("c", "a"), ("b", "d")], "a", Some("abc"));
        check(&[("a", "b"), ("b", "c"), ("c", "b")], "a", None);
        check(&[("a", "a")], "a", Some("a"));
        let long: Vec<(String, String)> = (0..100_000).map(|n| (n.to_string(), (n + 1).to_string())).collect();
        let long: Vec<(&str, &str)> = long.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        check(&long, "0", None);
    }
}
