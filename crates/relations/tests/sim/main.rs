//! Changes by the portable path over a store that lies, run by a seeded scheduler: the crash matrix, and random runs; leases
//! and the default path over a critical section whose decisions overlap (`section`), with transactions that are held open
//! (`interactive`); by-query jobs over the store that lies (`jobs`).
//!
//! A failure names its seed; `PLEACH_SIM_SEED=n cargo test -p relations --test sim one_seed -- --ignored --nocapture`
//! plays it again. `PLEACH_SIM_RUNS` is the number of random runs, `PLEACH_SIM_CELL` that of seeds a cell.

mod answers;
mod gate;
mod interactive;
mod jobs;
mod runs;
mod section;
mod store;
mod world;

use runs::{Scenario, run};
use store::{Fault, Lies, Planned, Step};

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Every fault at once, each rare.
const NASTY: Lies = Lies {
    stale: 9,
    lost: 25,
    duplicated: 25,
    isolated: 60,
    killed: 120,
    paused: 60,
};

fn random(seed: u64) -> Scenario {
    let lies = match seed % 5 {
        0 => Lies::default(),
        1 => Lies {
            stale: 4,
            ..Lies::default()
        },
        2 => Lies {
            lost: 8,
            duplicated: 8,
            ..Lies::default()
        },
        3 => Lies {
            isolated: 12,
            stale: 6,
            ..Lies::default()
        },
        _ => NASTY,
    };
    Scenario {
        seed,
        changes: 2 + seed as usize % 4,
        plain: seed.is_multiple_of(3),
        lies,
        planned: None,
        mutant: None,
        room: [1, 1_000, 2][seed as usize / 7 % 3],
    }
}

/// S1 to S6, S8, S10, L1, L2 after every run.
#[test]
fn random_runs() {
    let runs = from_environment("PLEACH_SIM_RUNS", 10_000);
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get) as u64;
    let committed: u64 = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|worker| {
                scope.spawn(move || {
                    let seeds = (0..runs).filter(|seed| seed % threads == worker);
                    seeds
                        .map(|seed| {
                            run(&random(seed))
                                .unwrap_or_else(|why| panic!("seed {seed}: {why}"))
                                .committed
                        })
                        .sum::<u64>()
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().expect("no run fails")).sum()
    });
    println!("{runs} runs, {committed} changes committed");
    assert!(
        committed > runs,
        "most changes commit, or the runs show nothing: {committed} of {runs}"
    );
}

/// Runs that broke a promise once.
#[test]
fn seeds_that_failed_once() {
    let seeds = [
        // The number of a kept outcome was read from an isolated primary that had no mark of it yet: a repetition was told 0.
        4_593,
        // Two that failed before requests went through the product's entry point. Their runs are others now; the holes were:
        // a lost acknowledgement of the commit beside an abort that never was, and a record that an isolated primary lacked.
        28_279, 671_638,
    ];
    for seed in seeds {
        run(&random(seed)).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    }
}

#[test]
#[ignore = "plays one seed again"]
fn one_seed() {
    let seed = from_environment("PLEACH_SIM_SEED", 0);
    println!("{:?}", run(&random(seed)));
}

/// Every step of a change, struck by every fault.
#[test]
fn crash_matrix() {
    let seeds = from_environment("PLEACH_SIM_CELL", 2);
    let steps = [
        Step::Open,
        Step::Chunk,
        Step::Mark,
        Step::Commit,
        Step::Apply,
        Step::Done,
        Step::Abort,
    ];
    let faults = [
        Fault::KillBefore,
        Fault::KillAfter,
        Fault::LostReply,
        Fault::Pause,
        Fault::Duplicate,
        Fault::Failover,
    ];
    for step in steps {
        for fault in faults {
            let mut struck = 0;
            // Not every run comes to an abort, or to a second mark.
            for seed in 0.. {
                assert!(seed < 200 * seeds, "{step:?} × {fault:?} is hardly ever reached");
                let planned = Planned {
                    task: 0,
                    step,
                    nth: 1 + seed as usize % 2,
                    fault,
                };
                let scenario = Scenario {
                    seed,
                    changes: 3,
                    plain: false,
                    lies: Lies {
                        stale: (seed as u32 % 2) * 8,
                        ..Lies::default()
                    },
                    planned: Some(planned),
                    mutant: None,
                    room: if step == Step::Chunk || seed.is_multiple_of(3) {
                        1
                    } else {
                        1_000
                    },
                };
                let outcome = run(&scenario).unwrap_or_else(|why| panic!("{step:?} × {fault:?}, seed {seed}: {why}"));
                struck += u64::from(outcome.struck);
                if struck == seeds {
                    break;
                }
            }
        }
    }
}

/// The checks can fail: what a broken store does is seen.
#[test]
fn broken_stores_are_seen() {
    for mutant in [
        runs::Mutant::ForgetsAcknowledged,
        runs::Mutant::IgnoresExpectations,
        runs::Mutant::AppliesTwice,
    ] {
        let caught = (0..400).any(|seed| {
            let scenario = Scenario {
                mutant: Some(mutant),
                ..random(seed)
            };
            std::panic::catch_unwind(|| run(&scenario)).map_or(true, |outcome| outcome.is_err())
        });
        assert!(caught, "{mutant:?} goes unseen");
    }
}
