//! Other threads that take part in one search.
//!
//! Not here: which work is divided (`collect::top`), the threads (`embedded`).

/// Threads that a search may hand work to. Work that they have not begun is done by the search itself, so it never waits for a
/// thread to become free.
pub trait Helpers: Sync {
    /// Runs `work` on another thread if a processor has nothing to do. `false`: it does not run.
    fn offer(&self, work: Box<dyn FnOnce() + Send>) -> bool;
}
