//! Explicit-state models of the protocols of locks, changes and directory trees, over the decisions that the product runs.
//!
//! Each protocol is explored by stateright: every interleaving of single store operations, with processes that stop
//! anywhere and a store that lies. L1 is checked by backward reachability. Each seeded mistake is a row that must find
//! a violation. The long run is
//! `PLEACH_MODEL_STATES=100000000 cargo test --release -p relations --test models long -- --ignored --nocapture`;
//! docs/internals/change-protocol.md has its last result.

#![expect(clippy::print_stdout, reason = "runs tell how far they came")]

mod explore;
mod intents;
mod lying;
mod queue;
mod tree_register;
mod tree_searches;

use explore::{Protocol, explore, stuck};
use intents::{Intents, Kind};
use queue::{Queue, paths};
use relations::locks::Mode;
use tree_register::TreeRegister;
use tree_searches::TreeSearches;

/// Generated states, repeated ones included, after which a run that should hold ends.
const GENERATED_MAX: usize = 600_000;
/// The same, of a run that should find something.
const SEARCHED_MAX: usize = 6_000_000;

fn holds<P: Protocol>(name: &str, model: &P, states_min: usize) -> usize {
    let found = explore(model, GENERATED_MAX);
    println!("{name}: {} states", found.states);
    assert_eq!(found.broken, None, "{name}");
    assert!(found.states >= states_min, "{name}: only {} states", found.states);
    found.states
}

/// L1: recoverers alone finish from every state.
fn recovers<P: Protocol>(name: &str, model: &P, states_min: usize) {
    let (states, stuck) = stuck(model, 400_000);
    println!("{name}: {states} states, {stuck} stuck");
    assert_eq!(stuck, 0, "{name}: states from which nobody finishes");
    assert!(states >= states_min, "{name}: only {states} states");
}

fn is_broken<P: Protocol>(name: &str, model: &P) {
    let found = explore(model, SEARCHED_MAX);
    let (why, steps) = found
        .broken
        .unwrap_or_else(|| panic!("{name}: nothing found in {} states", found.states));
    println!("{name}: {steps} steps, {} states: {why}", found.states);
}

fn is_stuck<P: Protocol>(name: &str, model: &P) {
    let (states, stuck) = stuck(model, 400_000);
    println!("{name}: {states} states, {stuck} stuck");
    assert!(stuck > 0, "{name}: nobody is stuck in {states} states");
}

/// Fault budgets: lost answers, ghosts of documents, isolations of the control shard.
fn faults(model: Intents, lost: u8, ghost: u8, isolations: u8) -> Intents {
    Intents {
        lost,
        ghost,
        isolations,
        ..model
    }
}

#[test]
fn the_intent_form_holds() {
    holds("transfers", &Intents::transfers(), 100_000);
    holds("skew", &Intents::skew(), 100_000);
    holds(
        "create and delete, a lost answer",
        &faults(Intents::create(), 1, 0, 0),
        100_000,
    );
    holds("lock, control shard isolated", &faults(Intents::lock(), 0, 0, 1), 80_000);
    holds("plain put", &Intents::plain(Kind::PlainPut), 100_000);
    holds(
        "plain delete, a ghost",
        &faults(Intents::plain(Kind::PlainDelete), 0, 1, 0),
        100_000,
    );
    holds("three changes, three documents", &faults(Intents::ring(), 1, 0, 0), 100_000);
}

#[test]
fn the_intent_form_recovers() {
    recovers("transfers", &Intents::transfers(), 150_000);
    recovers("create and delete", &Intents::create(), 40_000);
    recovers("lock", &Intents::lock(), 40_000);
}

#[test]
fn seeded_mistakes_of_the_intent_form_are_found() {
    use intents::Mutant::{
        AbortCommitted, AnyMarkIsMine, BlindApply, BlindCommit, CommitBeforeLastMark, DirtySkip, DoneEarly, GrantWithoutScan,
        LockPurgedAtOnce, LocksReadEarly, MarkWithoutCas, MarksInsteadOfRecords, NamedInEntry, NoBarrier, NoCheck, NoConfirm,
        NoLockRead, NoStub, PlainIgnoresMarks, PlanOverMarks, PurgeCommitted, PurgeFirst, StubBecomesDocument,
        UnacknowledgedMark, UnknownIsAborted, Unnamed,
    };
    let (transfers, skew, create, lock) = (Intents::transfers(), Intents::skew(), Intents::create(), Intents::lock());
    let put = Intents::plain(Kind::PlainPut);
    let rows = [
        // M5: what was only read is proven by an intent, what is created by a stub.
        (NoCheck, &skew, 0, 0, 0),
        (NoStub, &create, 0, 0, 0),
        (MarkWithoutCas, &transfers, 0, 0, 0),
        (UnacknowledgedMark, &transfers, 0, 0, 0),
        (PurgeFirst, &transfers, 0, 0, 0),
        (NoConfirm, &transfers, 0, 0, 1),
        (DirtySkip, &transfers, 0, 0, 0),
        (PlainIgnoresMarks, &put, 0, 0, 0),
        // M10: records and grants cannot pass each other.
        (GrantWithoutScan, &lock, 0, 0, 0),
        (LocksReadEarly, &lock, 0, 0, 0),
        (NoLockRead, &lock, 0, 0, 0),
        (NoBarrier, &lock, 0, 0, 1),
        (MarksInsteadOfRecords, &lock, 0, 0, 0),
        // M3: a guarded change is named in the lease.
        (Unnamed, &lock, 0, 0, 0),
        (NamedInEntry, &lock, 0, 0, 1),
        (LockPurgedAtOnce, &lock, 0, 0, 0),
        // Ours.
        (AbortCommitted, &transfers, 0, 0, 0),
        (BlindCommit, &transfers, 0, 0, 0),
        (DoneEarly, &transfers, 0, 0, 0),
        (CommitBeforeLastMark, &transfers, 0, 0, 0),
        (BlindApply, &transfers, 0, 0, 0),
        (StubBecomesDocument, &create, 0, 0, 0),
        (AnyMarkIsMine, &transfers, 0, 0, 0),
        (UnknownIsAborted, &transfers, 1, 0, 0),
        (PlanOverMarks, &transfers, 0, 0, 0),
        (PurgeCommitted, &transfers, 0, 0, 0),
    ];
    for (mutant, scenario, lost, ghost, isolations) in rows {
        let model = Intents {
            mutant: Some(mutant),
            ..faults(scenario.clone(), lost, ghost, isolations)
        };
        is_broken(&format!("{mutant:?}"), &model);
    }
}

const X: Mode = Mode::Exclusive;
const S: Mode = Mode::Shared;
type Clients = &'static [&'static [(&'static str, Mode)]];
/// Two clients that ask in opposite orders.
const CROSSED: Clients = &[&[("/a", X), ("/b", X)], &[("/b", X), ("/a", X)]];
/// A tree, a path in it, and a reader of the tree.
const TREE: Clients = &[&[("/a", X)], &[("/a/b", X)], &[("/a", S)]];
/// The elder holds b and comes to a; a is held by one who comes to b; the youngest waits for a.
const ELDER: Clients = &[&[("/b", X), ("/a", S)], &[("/a", S), ("/b", X)], &[("/a", X)]];
/// A ring of three.
const RING: Clients = &[&[("/a", X), ("/b", X)], &[("/b", X), ("/c", X)], &[("/c", X), ("/a", X)]];

fn queue(clients: Clients, lost: u8, suspicions: u8) -> Queue {
    let mut queue = paths(clients);
    (queue.lost, queue.suspicions) = (lost, suspicions);
    queue
}

#[test]
fn the_queue_holds_and_never_stops() {
    for (name, clients, states_min) in [("crossed", CROSSED, 500), ("tree", TREE, 10_000), ("elder", ELDER, 1_000)] {
        recovers(name, &queue(clients, 0, 0), states_min);
        holds(&format!("{name}, a lost answer"), &queue(clients, 1, 0), states_min);
        holds(&format!("{name}, a session that ends"), &queue(clients, 0, 1), states_min);
    }
    recovers("crossed, a lost answer", &queue(CROSSED, 1, 0), 1_000);
    recovers("crossed, a session that ends", &queue(CROSSED, 0, 1), 1_000);
    holds("ring", &queue(RING, 0, 0), 10_000);
}

#[test]
fn seeded_mistakes_of_the_queue_are_found() {
    use queue::Mutant::{
        Arrival, Counting, EarlyRelease, IgnoreWound, NoIntentions, NoWound, PurgeUndecided, ReleaseAll, SharedIsNothing,
        WoundCommitted,
    };
    for (mutant, clients, lost, suspicions) in [
        (WoundCommitted, CROSSED, 0, 0),
        (PurgeUndecided, CROSSED, 0, 1),
        (ReleaseAll, CROSSED, 0, 0),
        (EarlyRelease, CROSSED, 0, 0),
        (IgnoreWound, CROSSED, 0, 0),
        (NoIntentions, TREE, 0, 0),
        (SharedIsNothing, TREE, 0, 0),
    ] {
        is_broken(
            &format!("{mutant:?}"),
            &queue(clients, lost, suspicions).with(mutant, clients),
        );
    }
    for (mutant, clients, lost) in [(NoWound, CROSSED, 0), (Counting, CROSSED, 1), (Arrival, ELDER, 0)] {
        is_stuck(&format!("{mutant:?}"), &queue(clients, lost, 0).with(mutant, clients));
    }
}

#[test]
fn the_tree_register_holds() {
    let (circle, names) = (TreeRegister::circle(), TreeRegister::names());
    for (name, model, (lost, registers, directories), states_min) in [
        ("circle", &circle, (0, 0, 0), 3_600),
        ("circle", &circle, (2, 0, 0), 46_000),
        ("circle", &circle, (0, 1, 0), 32_000),
        ("circle", &circle, (0, 0, 1), 30_000),
        ("circle", &circle, (1, 1, 1), 150_000),
        ("names", &names, (0, 0, 0), 2_700),
        ("names", &names, (2, 0, 0), 26_000),
        ("names", &names, (0, 1, 0), 23_000),
        ("names", &names, (0, 0, 1), 19_000),
        ("names", &names, (1, 1, 1), 150_000),
    ] {
        let name = format!("{name}, {lost} lost, {registers} + {directories} isolations");
        holds(&name, &model.clone().faults(lost, registers, directories), states_min);
    }
}

#[test]
fn the_tree_register_recovers() {
    let (circle, names) = (TreeRegister::circle().with_helper(), TreeRegister::names().with_helper());
    recovers("circle", &circle, 71_000);
    recovers("names", &names, 46_000);
    recovers("names, a lost answer", &names.clone().faults(1, 0, 0), 190_000);
    recovers("names, an isolated directory document", &names.faults(0, 0, 1), 350_000);
}

#[test]
fn seeded_mistakes_of_the_tree_register_are_found() {
    use tree_register::Mutant::{
        DirtySkip, NoCas, NoConfirm, NoGuard, NoHelp, NoNameCheck, RefuseUnconfirmed, ScanWithoutBarrier, ShortRing, StaleTree,
        UnacknowledgedApply,
    };
    let (circle, names) = (TreeRegister::circle(), TreeRegister::names());
    for (mutant, scenario, lost, registers, directories) in [
        (NoConfirm, &circle, 0, 1, 0),
        (NoHelp, &circle, 0, 0, 0),
        (NoCas, &circle, 0, 0, 0),
        (NoGuard, &circle, 0, 0, 0),
        (DirtySkip, &circle, 0, 0, 1),
        (UnacknowledgedApply, &circle, 0, 0, 1),
        (NoNameCheck, &names, 0, 0, 0),
        (StaleTree, &names, 0, 0, 0),
        (ScanWithoutBarrier, &circle, 0, 0, 1),
        (RefuseUnconfirmed, &circle, 0, 1, 0),
        (ShortRing, &circle, 1, 0, 0),
    ] {
        let model = scenario.clone().faults(lost, registers, directories).with_mutant(mutant);
        is_broken(&format!("{mutant:?}"), &model);
    }
}

/// Fault budgets: lost answers, isolations of the register.
fn searches(model: TreeSearches, lost: u8, isolations: u8) -> TreeSearches {
    TreeSearches {
        lost,
        isolations,
        ..model
    }
}

#[test]
fn searches_below_a_moved_directory_hold() {
    let (file, again) = (TreeSearches::late_file(), TreeSearches::late_rewrite());
    let twice = TreeSearches::two_moves();
    let crowd = TreeSearches {
        rewriters: 2,
        searchers: 2,
        ..file.clone()
    };
    for (name, model, (lost, isolations), states_min) in [
        ("late file", &file, (1, 0), 10_000),
        ("late file", &file, (0, 1), 16_000),
        ("late file", &file, (1, 1), 100_000),
        ("late rewrite", &again, (1, 0), 7_000),
        ("late rewrite", &again, (0, 1), 13_000),
        ("late rewrite", &again, (1, 1), 70_000),
        ("two moves", &twice, (1, 0), 140_000),
        ("two moves", &twice, (0, 1), 140_000),
        ("two rewriters and searchers", &crowd, (0, 0), 120_000),
    ] {
        let name = format!("{name}, {lost} lost, {isolations} isolations");
        holds(&name, &searches(model.clone(), lost, isolations), states_min);
    }
    // Once everybody goes on, each move leaves `moving`.
    recovers("late file", &file, 1_700);
    recovers("late rewrite", &again, 1_300);
    recovers("two moves", &twice, 45_000);
}

#[test]
fn seeded_mistakes_of_searches_are_found() {
    use tree_searches::Mutant::{
        BelievesNewerAnc, CachedTree, IgnoresMoving, MovingLater, NoBarrierScan, NoTouch, NoWait, PublishesAtOnce,
        PublishesUnconfirmed, RewritesUnconfirmed, SessionEnds, TwoRequests, WaitsTooLate,
    };
    let (late, again) = (TreeSearches::late_file(), TreeSearches::late_rewrite());
    let (twice, alone) = (TreeSearches::two_moves_one_file(), TreeSearches::two_moves_alone());
    for (mutant, scenario, isolations) in [
        (NoWait, &late, 0),
        (NoWait, &again, 0),
        (WaitsTooLate, &late, 0),
        (NoBarrierScan, &late, 0),
        (RewritesUnconfirmed, &alone, 1),
        (MovingLater, &late, 0),
        (IgnoresMoving, &late, 0),
        (BelievesNewerAnc, &late, 0),
        (CachedTree, &late, 0),
        (NoTouch, &late, 1),
        (TwoRequests, &late, 0),
        (PublishesUnconfirmed, &twice, 1),
        (PublishesAtOnce, &late, 0),
        (SessionEnds, &late, 0),
    ] {
        let model = TreeSearches {
            mutant: Some(mutant),
            ..searches(scenario.clone(), 0, isolations)
        };
        is_broken(&format!("{mutant:?}"), &model);
    }
}

/// Scenario after scenario with larger budgets, until as many states have been seen as were asked for.
#[test]
#[ignore = "takes hours: 10^8 states by default"]
fn long() {
    let wanted: usize = std::env::var("PLEACH_MODEL_STATES")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(100_000_000);
    let mut seen = 0;
    let mut count = |name: String, found: explore::Found| {
        assert_eq!(found.broken, None, "{name}");
        seen += found.states;
        println!("{name}: {} states, {seen} so far", found.states);
        seen >= wanted
    };
    let scenarios = [
        ("transfers", Intents::transfers()),
        ("skew", Intents::skew()),
        ("create", Intents::create()),
        ("put", Intents::plain(Kind::PlainPut)),
        ("delete", Intents::plain(Kind::PlainDelete)),
        ("lock", Intents::lock()),
        ("ring", Intents::ring()),
    ];
    for faults in [(1, 1, 0), (1, 0, 1), (2, 1, 1)] {
        let (lost, registers, directories) = faults;
        for (name, model) in [("circle", TreeRegister::circle()), ("names", TreeRegister::names())] {
            let name = format!("{name}, {lost} lost, {registers} + {directories} isolations");
            if count(name, explore(&model.faults(lost, registers, directories), 40_000_000)) {
                return;
            }
        }
        let name = format!("two moves and searches, {lost} lost, {registers} isolations");
        if count(
            name,
            explore(&searches(TreeSearches::two_moves(), lost, registers), 40_000_000),
        ) {
            return;
        }
    }
    for recoverers in [1, 2] {
        for (lost, ghost, isolations) in [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 0), (1, 0, 1), (2, 1, 1)] {
            for (name, scenario) in &scenarios {
                let model = Intents {
                    recoverers,
                    ..faults(scenario.clone(), lost, ghost, isolations)
                };
                let name = format!("{name}, {recoverers} recoverers, {lost} lost, {ghost} ghosts, {isolations} isolations");
                if count(name, explore(&model, 40_000_000)) {
                    return;
                }
            }
        }
    }
    panic!("the scenarios have no more than {seen} states");
}
