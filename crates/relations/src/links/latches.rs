//! Latches on sources whose references are being looked for: nobody adds a reference to them meanwhile.
//!
//! A change that alters or deletes a source latches it inside the critical section, then looks for the documents that refer to
//! it outside, and runs again. A write that adds a reference to a latched source waits. So what was found is everything
//! (links.md K4). They are in memory alone: whoever holds one gives it back when its decision ends, however it ends.
//!
//! Not here: looking (`carriers`), who latches (`upkeep`).

use model::DocAddress;
use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// All latches of a server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Latches(Arc<Mutex<LatchState>>);

#[derive(Debug, Default)]
struct LatchState {
    /// How many hold each.
    held: HashMap<DocAddress, usize>,
    waiting: Vec<Waker>,
}

/// A latch that is held.
#[derive(Debug)]
pub(crate) struct Latch {
    latches: Latches,
    at: DocAddress,
}

impl Latches {
    fn state(&self) -> MutexGuard<'_, LatchState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Latches a source, beside others who do.
    pub(crate) fn latch(&self, at: DocAddress) -> Latch {
        *self.state().held.entry(at.clone()).or_insert(0) += 1;
        Latch {
            latches: self.clone(),
            at,
        }
    }

    /// Does somebody hold it, apart from `own` latches of the one who asks?
    pub(crate) fn is_held(&self, at: &DocAddress, own: usize) -> bool {
        self.state().held.get(at).is_some_and(|held| *held > own)
    }

    /// Waits until nobody holds it. The caller holds none itself, so that two never wait for each other.
    pub(crate) async fn until_released(&self, at: &DocAddress) {
        poll_fn(|context| {
            let mut state = self.state();
            if !state.held.contains_key(at) {
                return Poll::Ready(());
            }
            state.waiting.push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

impl Drop for Latch {
    fn drop(&mut self) {
        let woken = {
            let mut state = self.latches.state();
            let left = state.held.get_mut(&self.at).map(|held| {
                *held -= 1;
                *held
            });
            debug_assert!(left.is_some(), "links.md K4: a latch that is given back was held");
            if left == Some(0) {
                state.held.remove(&self.at);
            }
            std::mem::take(&mut state.waiting)
        };
        woken.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{DocId, IndexName};

    #[test]
    fn a_latch_is_held_until_the_last_is_given_back() {
        let latches = Latches::default();
        let at = DocAddress {
            index: IndexName::new("user"),
            id: DocId::plain("1"),
        };
        let (one, other) = (latches.latch(at.clone()), latches.latch(at.clone()));
        assert!(latches.is_held(&at, 1) && !latches.is_held(&at, 2));
        drop(one);
        assert!(latches.is_held(&at, 0));
        let released = {
            let (latches, at) = (latches.clone(), at.clone());
            std::thread::spawn(move || futures::executor::block_on(latches.until_released(&at)))
        };
        drop(other);
        released.join().expect("it is woken");
        assert!(!latches.is_held(&at, 0));
    }
}
