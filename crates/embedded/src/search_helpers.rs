//! Threads that take segments over from a long search while a processor has nothing to do.
//!
//! A helper begins only where fewer searches run than there are processors, and has lower priority than short searches. So one search
//! alone uses all processors, and beside others it uses one.
//!
//! Not here: what a helper does (`search::helpers`), where searches run (`lanes`).

use crate::environment::Limits;
use crate::thread_priority::LONG_SEARCHES;
use crate::workers::{Pool, Workers};
use model::Result;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The helpers, and how many searches run.
pub(crate) struct SearchHelpers {
    workers: Workers,
    running: Arc<AtomicUsize>,
    processors: usize,
}

/// A search or a helper, while it runs.
struct Running(Arc<AtomicUsize>);

impl Drop for Running {
    fn drop(&mut self) {
        let before = self.0.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "a search ends once");
    }
}

impl SearchHelpers {
    /// As many helpers as there are other processors.
    pub(crate) fn start(processors: usize, limits: &Limits) -> Result<SearchHelpers> {
        Ok(SearchHelpers {
            workers: Workers::start(
                &Pool {
                    name: "help",
                    nice: LONG_SEARCHES,
                    threads: processors.saturating_sub(1),
                    limited_max: usize::MAX,
                },
                limits,
            )?,
            running: Arc::default(),
            processors,
        })
    }

    /// Runs a search on this thread, which counts while it does.
    pub(crate) fn beside<T>(&self, search: impl FnOnce() -> T) -> T {
        self.running.fetch_add(1, Ordering::Relaxed);
        let _running = Running(self.running.clone());
        search()
    }
}

impl search::helpers::Helpers for SearchHelpers {
    fn offer(&self, work: Box<dyn FnOnce() + Send>) -> bool {
        let before = self.running.fetch_add(1, Ordering::Relaxed);
        let running = Running(self.running.clone());
        if before >= self.processors {
            return false;
        }
        self.workers.submit(move || {
            let _running = running;
            work();
        });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use search::helpers::Helpers as _;
    use std::sync::mpsc;

    fn helpers(processors: usize) -> SearchHelpers {
        SearchHelpers::start(processors, &Limits::default()).unwrap()
    }

    #[test]
    fn a_helper_begins_where_a_processor_is_free() {
        let (helpers, (say, heard)) = (helpers(2), mpsc::channel());
        let is_taken = helpers.beside(|| helpers.offer(Box::new(move || say.send(()).unwrap())));
        assert!(is_taken);
        heard.recv().unwrap();
    }

    #[test]
    fn beside_as_many_searches_as_processors_there_is_none() {
        let helpers = helpers(2);
        let offered = || helpers.offer(Box::new(|| panic!("no helper may begin")));
        assert!(!helpers.beside(|| helpers.beside(offered)));
        assert_eq!(helpers.running.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn one_processor_has_no_helpers() {
        let helpers = helpers(1);
        assert!(!helpers.beside(|| helpers.offer(Box::new(|| panic!("no helper may begin")))));
    }
}
