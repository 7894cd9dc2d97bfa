//! A checker of histories of transactions that append to lists and read them whole.
//!
//! What is appended is unique, so a list that was read says in which order all before it was appended, and by whom. From that
//! follow the dependencies of the transactions: *ww* (the next append to a list), *wr* (a read of what was appended) and *rw*
//! (an append behind what was read). A cycle of them is an anomaly in the terms of Adya, "Weak Consistency" (1999): G0 of *ww*
//! alone, G1c with *wr*, G2 with *rw*. With real time beside them (who began after another had ended comes after it) a history
//! without a cycle is strictly serializable. The method is that of Kingsbury and Alvaro, "Elle" (2020).
//!
//! Not here: how histories come to be.

use std::collections::{BTreeMap, BTreeSet, HashMap};

/// One operation of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A value that no other append has.
    Append { key: u64, value: u64 },
    /// The list as it was read.
    Read { key: u64, seen: Vec<u64> },
}

/// A transaction of a history; its place there is its name.
#[derive(Clone, Debug)]
pub struct Transaction {
    /// When it was begun, by any clock that only grows.
    pub began: u64,
    /// When its answer came; `None`: it never did, so it may have happened or not.
    pub ended: Option<u64>,
    /// It was told to have happened, or nobody knows; one that was refused is there with false.
    pub committed: bool,
    /// In order.
    pub operations: Vec<Operation>,
}

/// What is wrong with a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Anomaly {
    /// A cycle of writes alone.
    G0,
    /// A read of what was refused, or was appended by nobody.
    G1a,
    /// A read of what another transaction had between two of its own appends.
    G1b,
    /// A cycle of writes and reads of them.
    G1c,
    /// A cycle with a write behind what was read.
    G2,
    /// A cycle with the order of real time.
    RealTime,
    /// Two reads of a list of which neither begins with the other.
    Order,
    /// A transaction did not see its own append where it was.
    Internal,
    /// An append that was told to have happened is not in the list at the end.
    Lost,
}

/// An anomaly, and the transactions that show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub anomaly: Anomaly,
    pub transactions: Vec<usize>,
}

/// Edges from a transaction to those that come after it.
type Edges = Vec<BTreeSet<usize>>;

/// Everything that is wrong with a history, of each kind of cycle one. Its last reads should be of every list.
pub fn findings(history: &[Transaction]) -> Vec<Finding> {
    let mut out = Vec::new();
    let mut of = |anomaly, transactions: &[usize]| {
        out.push(Finding {
            anomaly,
            transactions: transactions.to_vec(),
        });
    };
    let mut writers: HashMap<u64, (usize, u64)> = HashMap::new();
    for (n, transaction) in history.iter().enumerate() {
        for operation in &transaction.operations {
            if let Operation::Append { key, value } = operation {
                writers.insert(*value, (n, *key));
            }
        }
    }
    // What each transaction read of others, and the longest read of each list.
    let mut reads: Vec<(usize, u64, Vec<u64>)> = Vec::new();
    let mut longest: BTreeMap<u64, (usize, Vec<u64>)> = BTreeMap::new();
    for (n, transaction) in history.iter().enumerate().filter(|(_, t)| t.committed) {
        let mut own: HashMap<u64, Vec<u64>> = HashMap::new();
        for operation in &transaction.operations {
            match operation {
                Operation::Append { key, value } => own.entry(*key).or_default().push(*value),
                Operation::Read { key, seen } => {
                    let mine = own.get(key).map_or(&[][..], Vec::as_slice);
                    let Some(others) = seen.strip_suffix(mine) else {
                        of(Anomaly::Internal, &[n]);
                        continue;
                    };
                    reads.push((n, *key, others.to_vec()));
                    let known = longest.entry(*key).or_insert_with(|| (n, Vec::new()));
                    let (short, long) = if known.1.len() < seen.len() {
                        (&known.1, seen)
                    } else {
                        (seen, &known.1)
                    };
                    if !long.starts_with(short) {
                        of(Anomaly::Order, &[known.0, n]);
                    }
                    if known.1.len() < seen.len() {
                        *known = (n, seen.clone());
                    }
                }
            }
        }
    }
    let order: BTreeMap<u64, Vec<u64>> = longest.into_iter().map(|(key, (_, list))| (key, list)).collect();
    // Who appended what was read, if anybody may have.
    let writer = |key: u64, value: u64| {
        let found = writers.get(&value).filter(|(_, of)| *of == key).map(|(n, _)| *n);
        found.filter(|n| history[*n].committed)
    };
    for (n, key, seen) in &reads {
        let foreign = seen.iter().find(|value| writer(*key, **value).is_none());
        if foreign.is_some() {
            of(Anomaly::G1a, &[*n]);
        }
        let Some(last) = seen.last() else { continue };
        let Some(by) = writer(*key, *last).filter(|by| by != n) else {
            continue;
        };
        let mut appends = history[by].operations.iter().filter_map(|operation| match operation {
            Operation::Append { key: own, value } if own == key => Some(*value),
            _ => None,
        });
        if appends.next_back() != Some(*last) {
            of(Anomaly::G1b, &[*n, by]);
        }
    }
    for (n, transaction) in history.iter().enumerate() {
        let told = transaction.committed && transaction.ended.is_some();
        for operation in &transaction.operations {
            if let Operation::Append { key, value } = operation
                && told
                && order.get(key).is_some_and(|list| !list.contains(value))
            {
                of(Anomaly::Lost, &[n]);
            }
        }
    }
    let mut edges: Edges = vec![BTreeSet::new(); history.len()];
    for (key, list) in &order {
        for pair in list.windows(2) {
            connect(&mut edges, writer(*key, pair[0]), writer(*key, pair[1]));
        }
    }
    let mut found = |anomaly, edges: &Edges| {
        let cycle = cycle(edges);
        if let Some(cycle) = &cycle {
            of(anomaly, cycle);
        }
        cycle.is_some()
    };
    if found(Anomaly::G0, &edges) {
        return out;
    }
    for (n, key, seen) in &reads {
        connect(&mut edges, seen.last().and_then(|last| writer(*key, *last)), Some(*n));
    }
    if found(Anomaly::G1c, &edges) {
        return out;
    }
    for (n, key, seen) in &reads {
        let next = order.get(key).and_then(|list| list.get(seen.len()));
        connect(&mut edges, Some(*n), next.and_then(|next| writer(*key, *next)));
    }
    if found(Anomaly::G2, &edges) {
        return out;
    }
    in_real_time(history, &mut edges);
    found(Anomaly::RealTime, &edges);
    out
}

fn connect(edges: &mut Edges, from: Option<usize>, to: Option<usize>) {
    if let (Some(from), Some(to)) = (from, to)
        && from != to
    {
        edges[from].insert(to);
    }
}

/// Who began after another's answer comes after it. Of those before it only the last are named: they come after the others.
fn in_real_time(history: &[Transaction], edges: &mut Edges) {
    for (n, later) in history.iter().enumerate().filter(|(_, t)| t.committed) {
        let before = |t: &Transaction| t.committed && t.ended.is_some_and(|ended| ended < later.began);
        let newest = history.iter().filter(|t| before(t)).map(|t| t.began).max();
        for (earlier, transaction) in history.iter().enumerate() {
            if before(transaction) && transaction.ended >= newest {
                connect(edges, Some(earlier), Some(n));
            }
        }
    }
}

/// One cycle, from its first transaction on; depth first, without recursion.
fn cycle(edges: &Edges) -> Option<Vec<usize>> {
    #[derive(Clone, Copy, PartialEq)]
    enum State {
        New,
        Open,
        Done,
    }
    let mut states = vec![State::New; edges.len()];
    for start in 0..edges.len() {
        if states[start] != State::New {
            continue;
        }
        let mut path = vec![(start, edges[start].iter())];
        states[start] = State::Open;
        while let Some((node, left)) = path.last_mut() {
            let node = *node;
            let Some(next) = left.next() else {
                states[node] = State::Done;
                path.pop();
                continue;
            };
            match states[*next] {
                State::Done => {}
                State::New => {
                    states[*next] = State::Open;
                    path.push((*next, edges[*next].iter()));
                }
                State::Open => {
                    let from = path.iter().position(|(on, _)| on == next)?;
                    return Some(path[from..].iter().map(|(on, _)| *on).collect());
                }
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::Operation::{Append, Read};
    use super::*;

    /// All at the same time, each with these operations.
    fn beside(all: &[&[Operation]]) -> Vec<Transaction> {
        let one = |operations: &&[Operation]| Transaction {
            began: 0,
            ended: Some(1),
            committed: true,
            operations: operations.to_vec(),
        };
        all.iter().map(one).collect()
    }
    fn append(key: u64, value: u64) -> Operation {
        Append { key, value }
    }
    fn read(key: u64, seen: &[u64]) -> Operation {
        let seen = seen.to_vec();
        Read { key, seen }
    }
    fn found(history: &[Transaction]) -> Vec<Anomaly> {
        findings(history).into_iter().map(|finding| finding.anomaly).collect()
    }

    #[test]
    fn a_serial_history_is_sound() {
        let history = beside(&[
            &[append(1, 10), append(2, 20)],
            &[read(1, &[10]), append(2, 21), read(2, &[20, 21])],
            &[read(1, &[10]), read(2, &[20, 21])],
        ]);
        assert_eq!(findings(&history), []);
    }

    #[test]
    fn each_kind_of_cycle_is_found() {
        // Two writers, each before the other in one list.
        let g0 = beside(&[
            &[append(1, 10), append(2, 20)],
            &[append(1, 11), append(2, 21)],
            &[read(1, &[10, 11]), read(2, &[21, 20])],
        ]);
        assert_eq!(found(&g0), [Anomaly::G0]);
        // Each reads what the other wrote.
        let g1c = beside(&[&[append(1, 10), read(2, &[20])], &[append(2, 20), read(1, &[10])]]);
        assert_eq!(found(&g1c), [Anomaly::G1c]);
        // Write skew: each reads what the other is about to write.
        let skew = beside(&[
            &[read(1, &[]), append(2, 20)],
            &[read(2, &[]), append(1, 10)],
            &[read(1, &[10]), read(2, &[20])],
        ]);
        assert_eq!(found(&skew), [Anomaly::G2]);
        assert_eq!(findings(&skew)[0].transactions, [0, 1]);
        // A read of two lists between the two writes of one transaction.
        let mix = beside(&[
            &[append(1, 10), append(2, 20)],
            &[read(1, &[10]), read(2, &[])],
            &[read(2, &[20])],
        ]);
        assert_eq!(found(&mix), [Anomaly::G2]);
    }

    #[test]
    fn a_read_of_the_past_is_found_by_real_time() {
        let mut stale = beside(&[&[append(1, 10)], &[read(1, &[])], &[read(1, &[10])]]);
        assert_eq!(found(&stale), []);
        (stale[1].began, stale[1].ended) = (2, Some(3));
        assert_eq!(found(&stale), [Anomaly::RealTime]);
    }

    #[test]
    fn what_should_not_be_read_is_found() {
        let mut refused = beside(&[&[append(1, 10)], &[read(1, &[10])]]);
        refused[0].committed = false;
        assert_eq!(found(&refused), [Anomaly::G1a]);
        let between = beside(&[&[append(1, 10), append(1, 11)], &[read(1, &[10])], &[read(1, &[10, 11])]]);
        assert!(found(&between).contains(&Anomaly::G1b));
        let apart = beside(&[&[append(1, 10)], &[append(1, 11)], &[read(1, &[10, 11])], &[read(1, &[11])]]);
        assert!(found(&apart).contains(&Anomaly::Order));
        let own = beside(&[&[append(1, 10), read(1, &[])]]);
        assert!(found(&own).contains(&Anomaly::Internal));
        let lost = beside(&[&[append(1, 10)], &[append(1, 11)], &[read(1, &[11])]]);
        assert!(found(&lost).contains(&Anomaly::Lost));
    }

    #[test]
    fn who_was_not_answered_may_have_happened() {
        let mut history = beside(&[&[append(1, 10)], &[append(1, 11)], &[read(1, &[11])]]);
        history[0].ended = None;
        assert_eq!(found(&history), []);
    }
}
