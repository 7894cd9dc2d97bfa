//! Changes that take several locks in any order, over the real `step()`: shared, exclusive and tree locks, the queue
//! by age, wound-wait, sessions that are declared dead, answers that are lost.
//!
//! A read, a step and a compare-and-set of one lock document are one move here: whoever loses the comparison has done
//! nothing. A move whose answer is lost leaves its effect, and its author asks again.

use crate::explore::Protocol;
use model::IndexName;
use relations::intents::{Meet, RecordState, meet};
use relations::locks::{Age, Answer, Blocker, Lock, LockAction, LockKey, LockPath, LockTarget, Mode, Owner, Request, step};
use std::sync::Arc;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Pc {
    /// Asks for claim `j`.
    Ask,
    /// Waits for claim `j`.
    Queued,
    /// Has all it asked for, and has read what it needs.
    Planned,
    Finish,
    /// Releases claim `j`.
    Release,
    End,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Client {
    pc: Pc,
    j: usize,
    state: RecordState,
    dead: bool,
    /// Exclusive commits of each of its keys when it planned.
    seen: Vec<u8>,
    /// When it came to the queue: the mutant's order.
    arrival: u8,
    attempts: u8,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct State {
    locks: Vec<Lock>,
    commits: Vec<u8>,
    clients: Vec<Client>,
    lost: u8,
    suspicions: u8,
    error: Option<&'static str>,
}

/// A rule left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mutant {
    /// The queue is by arrival, not by age.
    Arrival,
    /// An older asker waits for a younger holder.
    NoWound,
    /// What is committed is wounded.
    WoundCommitted,
    /// A suspect's entry goes before its record is decided.
    PurgeUndecided,
    /// A path lock takes nothing on what lies above.
    NoIntentions,
    /// A release empties the document.
    ReleaseAll,
    /// A holder is one more each time it asks: a lost answer makes two.
    Counting,
    /// Locks are given back before the change is finished.
    EarlyRelease,
    /// Shared holders let an exclusive one in.
    SharedIsNothing,
    /// A wounded change commits all the same.
    IgnoreWound,
}

#[derive(Clone, Debug)]
pub(crate) struct Queue {
    /// The claims of each client, in its order.
    claims: Vec<Vec<(usize, Mode)>>,
    keys: Vec<LockKey>,
    pub(crate) lost: u8,
    pub(crate) suspicions: u8,
    pub(crate) mutant: Option<Mutant>,
}

/// `(path, mode)` in the order of asking; the whole-store and index locks are left out, for all take the same there.
pub(crate) fn paths(clients: &[&[(&str, Mode)]]) -> Queue {
    build(clients, true)
}

fn build(clients: &[&[(&str, Mode)]], intentions: bool) -> Queue {
    let mut keys = Vec::new();
    let mut claims = Vec::new();
    for wanted in clients {
        let mut own: Vec<(usize, Mode)> = Vec::new();
        for (path, mode) in *wanted {
            let target = LockTarget::Path {
                index: IndexName::new("fs"),
                path: LockPath::parse(path).expect("a short path"),
            };
            for claim in target.claims(*mode, &[]) {
                if !matches!(claim.key, LockKey::Path { .. }) || (claim.implied && !intentions) {
                    continue;
                }
                let key = keys.iter().position(|key| *key == claim.key).unwrap_or_else(|| {
                    keys.push(claim.key.clone());
                    keys.len() - 1
                });
                own.push((key, claim.mode));
            }
        }
        claims.push(own);
    }
    Queue {
        claims,
        keys,
        lost: 0,
        suspicions: 0,
        mutant: None,
    }
}

impl Queue {
    pub(crate) fn with(self, mutant: Mutant, clients: &[&[(&str, Mode)]]) -> Queue {
        let base = if mutant == Mutant::NoIntentions {
            build(clients, false)
        } else {
            self.clone()
        };
        Queue {
            mutant: Some(mutant),
            lost: self.lost,
            suspicions: self.suspicions,
            ..base
        }
    }
    fn is(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }
    /// The claims on a path itself, and on what lies below them.
    fn conflict(&self, a: usize, b: usize) -> bool {
        let covers = |x: &(usize, Mode), y: &(usize, Mode)| match (&self.keys[x.0], &self.keys[y.0]) {
            (LockKey::Path { path: x, .. }, LockKey::Path { path: y, .. }) => x.covers(y) || y.covers(x),
            _ => false,
        };
        let outright = |n: usize| self.claims[n].iter().filter(|(_, mode)| !is_intention(*mode));
        outright(a).any(|x| outright(b).any(|y| covers(x, y) && !x.1.is_compatible(y.1)))
    }
    fn request(&self, s: &State, n: usize, action: LockAction) -> Request {
        // Attempts keep the age; the owner is the attempt.
        let client = &s.clients[n];
        let seq = if self.is(Mutant::Arrival) {
            u64::from(client.arrival)
        } else {
            n as u64 + 1
        };
        let twin = if self.is(Mutant::Counting) && matches!(action, LockAction::Acquire { .. }) {
            s.lost
        } else {
            self.lost
        };
        Request {
            owner: owner(n, client.attempts, twin),
            session: Arc::from(""),
            age: Age { term: 1, seq },
            action,
        }
    }
}

/// Is it held only for the sake of something below?
fn is_intention(mode: Mode) -> bool {
    matches!(mode, Mode::IntentShared | Mode::IntentExclusive)
}

fn owner(n: usize, attempt: u8, twin: u8) -> Owner {
    Owner::new(format!("{n}.{attempt}.{twin}"))
}
fn parts(owner: &Owner) -> (usize, u8) {
    let mut parts = owner.as_str().split('.').map(|part| part.parse::<u8>().expect("a number"));
    let (n, attempt) = (parts.next().expect("a client"), parts.next().expect("an attempt"));
    (usize::from(n), attempt)
}

/// What grows without end and means nothing to the protocol.
fn settle(mut lock: Lock) -> Lock {
    lock.holders.retain(|_, holder| {
        holder.age = Age::default();
        true
    });
    lock
}

impl Queue {
    fn moves(&self, s: &State, n: usize, out: &mut Vec<(bool, State)>) {
        let client = &s.clients[n];
        if client.dead && client.pc != Pc::End {
            return;
        }
        let mut emit = |change: &dyn Fn(&mut State)| {
            let mut state = s.clone();
            change(&mut state);
            out.push((true, state));
        };
        // Wounded or killed: whatever it holds it gives back, and begins anew with the same age.
        if client.state == RecordState::Aborted && !matches!(client.pc, Pc::Release | Pc::End) && !self.is(Mutant::IgnoreWound) {
            return emit(&|state| {
                let client = &mut state.clients[n];
                (client.pc, client.j) = (Pc::Release, 0);
            });
        }
        match client.pc {
            Pc::Ask | Pc::Queued => {
                let Some((key, mode)) = self.claims[n].get(client.j).copied() else {
                    return emit(&|state| {
                        let seen = self.claims[n].iter().map(|(key, _)| state.commits[*key]).collect();
                        let client = &mut state.clients[n];
                        (client.pc, client.seen) = (Pc::Planned, seen);
                    });
                };
                let mut before = s.clone();
                if client.pc == Pc::Ask && self.is(Mutant::Arrival) {
                    before.clients[n].arrival = 1 + s.clients.iter().map(|client| client.arrival).max().unwrap_or(0);
                }
                let mut lock = s.locks[key].clone();
                if self.is(Mutant::SharedIsNothing) {
                    lock.holders.retain(|_, holder| holder.mode != Mode::Shared);
                }
                let (lock, answer) = step(lock, &self.request(&before, n, LockAction::Acquire { mode, wait: true }));
                let lock = settle(lock);
                if self.lost > 0 && s.lost > 0 {
                    // Applied, and nobody tells.
                    let mut state = before.clone();
                    state.locks[key] = lock.clone();
                    state.lost -= 1;
                    out.push((true, state));
                }
                match answer {
                    Answer::Granted { .. } => {
                        let mut state = before;
                        state.locks[key] = lock;
                        (state.clients[n].pc, state.clients[n].j) = (Pc::Ask, client.j + 1);
                        state.clients[n].arrival = 0;
                        out.push((true, state));
                    }
                    Answer::Queued { blockers, .. } => {
                        let mut state = before.clone();
                        state.locks[key] = lock.clone();
                        state.clients[n].pc = Pc::Queued;
                        out.push((true, state));
                        for blocker in blockers {
                            self.meets(&before, n, key, &lock, &blocker, out);
                        }
                    }
                    other => unreachable!("two claims of one client on one key, or a full queue: {other:?}"),
                }
            }
            Pc::Planned => {
                // The commit: a compare-and-set of the record.
                let open = client.state == RecordState::Pending || self.is(Mutant::IgnoreWound);
                emit(&|state| {
                    if !open {
                        state.clients[n].pc = Pc::Release;
                        state.clients[n].j = 0;
                        return;
                    }
                    let moved = self.claims[n].iter().zip(&s.clients[n].seen).any(|((key, mode), seen)| {
                        // An intention says nothing about what others do below.
                        !is_intention(*mode) && state.commits[*key] != *seen
                    });
                    if moved {
                        state.error = Some("S5: what a change had read was changed before its commit");
                    }
                    for (key, mode) in &self.claims[n] {
                        if *mode == Mode::Exclusive {
                            state.commits[*key] += 1;
                        }
                    }
                    let client = &mut state.clients[n];
                    client.state = RecordState::Committed;
                    client.pc = if self.is(Mutant::EarlyRelease) {
                        Pc::Release
                    } else {
                        Pc::Finish
                    };
                    client.j = 0;
                    client.seen.clear();
                });
            }
            Pc::Finish => emit(&|state| {
                let client = &mut state.clients[n];
                client.state = RecordState::Done;
                (client.pc, client.j) = (Pc::Release, 0);
            }),
            Pc::Release => {
                let Some((key, _)) = self.claims[n].get(client.j).copied() else {
                    return emit(&|state| {
                        let client = &mut state.clients[n];
                        (client.pc, client.j) = (Pc::End, 0);
                        client.seen.clear();
                        if client.state == RecordState::Committed {
                            client.pc = Pc::Finish;
                        }
                        // One more try, as old as before.
                        if client.state == RecordState::Aborted && client.attempts == 0 {
                            client.attempts = 1;
                            (client.pc, client.state) = (Pc::Ask, RecordState::Pending);
                        }
                    });
                };
                let (mut lock, _) = step(s.locks[key].clone(), &self.request(s, n, LockAction::Release));
                if self.is(Mutant::ReleaseAll) {
                    lock.holders.clear();
                }
                let lock = settle(lock);
                emit(&|state| {
                    state.locks[key] = lock.clone();
                    state.clients[n].j += 1;
                });
            }
            Pc::End => {}
        }
    }

    /// Client `n` has `other` in its way at `key`.
    fn meets(&self, s: &State, n: usize, key: usize, lock: &Lock, found: &Blocker, out: &mut Vec<(bool, State)>) {
        let other = &found.owner;
        let (who, attempt) = parts(other);
        let blocker = &s.clients[who];
        let age = |n: usize| Age {
            term: 1,
            seq: n as u64 + 1,
        };
        // An entry of an earlier attempt is of an aborted one.
        let state = if attempt < blocker.attempts {
            RecordState::Aborted
        } else {
            blocker.state
        };
        let purged = |state: &mut State| {
            let released = Request {
                owner: other.clone(),
                session: Arc::from(""),
                age: Age::default(),
                action: LockAction::Release,
            };
            state.locks[key] = settle(step(lock.clone(), &released).0);
            state.clients[n].pc = Pc::Queued;
        };
        let mut emit = |change: &dyn Fn(&mut State)| {
            let mut state = s.clone();
            change(&mut state);
            out.push((true, state));
        };
        if self.is(Mutant::PurgeUndecided) && blocker.dead {
            return emit(&purged);
        }
        // Who waits holds nothing that a wound would free; by age it is older anyway.
        if found.waiting && state == RecordState::Pending && !blocker.dead {
            return;
        }
        let wounds = !self.is(Mutant::NoWound) || blocker.dead;
        match meet(Some(age(n)), age(who), Some(state), blocker.dead) {
            Meet::Wait => {}
            Meet::Resolve => match state {
                RecordState::Pending if wounds => emit(&|state| state.clients[who].state = RecordState::Aborted),
                RecordState::Pending => {}
                RecordState::Committed if self.is(Mutant::WoundCommitted) => emit(&|state| {
                    state.clients[who].state = RecordState::Aborted;
                    state.error = Some("S1: a committed change was aborted");
                }),
                // Finished by the one who waits, then its entry goes.
                RecordState::Committed => emit(&|state| state.clients[who].state = RecordState::Done),
                RecordState::Aborted | RecordState::Done => emit(&purged),
                RecordState::Stuck => {}
            },
        }
    }
}

impl Protocol for Queue {
    type State = State;

    fn init(&self) -> State {
        let client = Client {
            pc: Pc::Ask,
            j: 0,
            state: RecordState::Pending,
            dead: false,
            seen: Vec::new(),
            arrival: 0,
            attempts: 0,
        };
        State {
            locks: self.keys.iter().cloned().map(Lock::new).collect(),
            commits: vec![0; self.keys.len()],
            clients: vec![client; self.claims.len()],
            lost: self.lost,
            suspicions: self.suspicions,
            error: None,
        }
    }

    fn next(&self, s: &State, out: &mut Vec<(bool, State)>) {
        if s.error.is_some() {
            return;
        }
        for n in 0..s.clients.len() {
            self.moves(s, n, out);
            if s.suspicions > 0 && !s.clients[n].dead {
                // Declared dead, and right so or not: a process may be dead and go on, which the next move is.
                let mut state = s.clone();
                state.clients[n].dead = true;
                state.suspicions -= 1;
                out.push((false, state.clone()));
                // Wrongly: it goes on, but its session is gone for everybody, and its record decided by them.
                if state.clients[n].state == RecordState::Pending && self.is(Mutant::PurgeUndecided) {
                    let mut woken = state;
                    for (key, _) in &self.claims[n] {
                        woken.locks[*key].holders.retain(|owner, _| parts(owner).0 != n);
                    }
                    woken.clients[n].dead = false;
                    out.push((false, woken));
                }
            }
        }
    }

    fn broken(&self, s: &State) -> Option<String> {
        if let Some(error) = s.error {
            return Some(error.to_owned());
        }
        if let Some(lock) = s.locks.iter().find(|lock| !lock.is_sound()) {
            return Some(format!("S7: holders that do not go together: {lock:?}"));
        }
        for a in 0..s.clients.len() {
            for b in 0..a {
                let applying = |n: usize| s.clients[n].state == RecordState::Committed;
                if applying(a) && applying(b) && self.conflict(a, b) {
                    return Some(format!("two changes that exclude each other are being applied: {a} and {b}"));
                }
            }
        }
        None
    }

    /// Everybody alive has ended, and nobody alive is kept out by the dead.
    fn is_clean(&self, s: &State) -> bool {
        s.clients.iter().all(|client| client.dead || client.pc == Pc::End)
    }
}
