//! The two ways to make a change: a test that holds for both is played by both.

use std::cell::Cell;

thread_local! {
    /// How the servers of this test make changes.
    static PATH: Cell<&str> = const { Cell::new("auto") };
}

/// The same by one record of the log, and by compare-and-set of single documents.
pub fn by_both_paths(test: impl Fn()) {
    for path in ["auto", "portable"] {
        eprintln!("changes.path: {path}");
        PATH.set(path);
        test();
    }
}

/// The setting of a server of this test, started on its own thread.
pub fn setting() -> String {
    format!("changes.path={}", PATH.get())
}
