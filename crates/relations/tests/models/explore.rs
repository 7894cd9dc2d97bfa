//! Runs a model: every reachable state by stateright, or backward reachability by ourselves.

use stateright::{Checker, Model, Property};
use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::num::NonZeroUsize;

/// A protocol over a store that lies, as its states and what may happen next.
pub(crate) trait Protocol: Clone + Send + Sync + 'static {
    type State: Clone + Debug + Eq + Hash + Send + Sync;
    fn init(&self) -> Self::State;
    /// Everything that may happen next; `true` where a recoverer does it.
    fn next(&self, state: &Self::State, out: &mut Vec<(bool, Self::State)>);
    /// The promise that is broken in this state.
    fn broken(&self, state: &Self::State) -> Option<String>;
    /// Nothing is left to recover.
    fn is_clean(&self, state: &Self::State) -> bool;
}

/// stateright's view of it: an action is the state it leads to.
struct Checked<P: Protocol>(P);

impl<P: Protocol> Model for Checked<P> {
    type State = P::State;
    type Action = P::State;
    fn init_states(&self) -> Vec<P::State> {
        vec![self.0.init()]
    }
    fn actions(&self, state: &P::State, actions: &mut Vec<P::State>) {
        // What is broken is not followed.
        if self.0.broken(state).is_none() {
            let mut next = Vec::new();
            self.0.next(state, &mut next);
            actions.extend(next.into_iter().map(|(_, state)| state));
        }
    }
    fn next_state(&self, _: &P::State, action: P::State) -> Option<P::State> {
        Some(action)
    }
    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always("promises", |model, state| model.0.broken(state).is_none())]
    }
}

/// What a run came to.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) states: usize,
    /// What was broken, in how many steps.
    pub(crate) broken: Option<(String, usize)>,
}

/// Breadth first, up to so many states.
pub(crate) fn explore<P: Protocol>(protocol: &P, states_max: usize) -> Found {
    let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let checker = Checked(protocol.clone())
        .checker()
        .threads(threads)
        .target_state_count(states_max)
        .spawn_bfs()
        .join();
    let broken = checker.discovery("promises").map(|path| {
        let states = path.into_states();
        let why = states.last().and_then(|state| protocol.broken(state));
        (why.expect("the last state breaks a promise"), states.len() - 1)
    });
    Found {
        states: checker.unique_state_count(),
        broken,
    }
}

/// L1: how many states there are, and from how many of them recoverers alone do *not* reach a clean one.
pub(crate) fn stuck<P: Protocol>(protocol: &P, states_max: usize) -> (usize, usize) {
    let init = protocol.init();
    let mut ids = HashMap::from([(init.clone(), 0usize)]);
    let mut states = vec![init];
    let mut back: Vec<Vec<u32>> = vec![Vec::new()];
    let mut at = 0;
    let mut next = Vec::new();
    while at < states.len() {
        next.clear();
        protocol.next(&states[at], &mut next);
        for (by_recoverer, state) in next.drain(..) {
            let to = *ids.entry(state.clone()).or_insert_with(|| {
                states.push(state);
                back.push(Vec::new());
                states.len() - 1
            });
            if by_recoverer {
                back[to].push(u32::try_from(at).expect("fewer states than that"));
            }
        }
        at += 1;
        assert!(
            states.len() <= states_max,
            "more than {states_max} states: L1 wants a smaller scenario"
        );
    }
    let mut finishes: Vec<bool> = states.iter().map(|state| protocol.is_clean(state)).collect();
    let mut open: Vec<usize> = (0..states.len()).filter(|at| finishes[*at]).collect();
    while let Some(at) = open.pop() {
        for from in &back[at] {
            let from = *from as usize;
            if !std::mem::replace(&mut finishes[from], true) {
                open.push(from);
            }
        }
    }
    (states.len(), finishes.iter().filter(|finishes| !**finishes).count())
}
