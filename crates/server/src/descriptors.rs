//! How many files the process may have open, and how many connections that leaves.
//!
//! Each connection is a descriptor. Those of the log, of segments and of their merges are taken out first: clients that only
//! hold connections must not stop writes.
//!
//! Not here: the bound on connections itself (`rest::serve`).

use std::io;

/// A soft limit is raised no further: some systems call a hard limit infinite and refuse large numbers.
const MOST: u64 = 1 << 20;
/// Descriptors that connections leave: a quarter of the limit within these bounds.
const RESERVED_LEAST: u64 = 64;
const RESERVED_MOST: u64 = 4096;

/// Raises the soft limit of open files to the hard one; gives the limit that holds now.
///
/// # Errors
/// The system does not tell the limit.
pub(crate) fn raise() -> io::Result<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is valid for writing one `rlimit`.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let wanted = limit.rlim_max.min(MOST);
    if limit.rlim_cur < wanted {
        let raised = libc::rlimit {
            rlim_cur: wanted,
            ..limit
        };
        // SAFETY: `raised` is a valid `rlimit`; the call only reads it.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raised) } == 0 {
            return Ok(wanted);
        }
    }
    Ok(limit.rlim_cur)
}

/// The most connections under a limit of open files.
pub(crate) fn connections_most(open_files: u64) -> u64 {
    let reserved = (open_files / 4).clamp(RESERVED_LEAST, RESERVED_MOST);
    open_files.saturating_sub(reserved).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_descriptors_for_files() {
        let cases = [(1024, 768), (256, 192), (100, 36), (10, 1), (1 << 20, (1 << 20) - 4096)];
        for (open_files, connections) in cases {
            assert_eq!(connections_most(open_files), connections, "of {open_files}");
        }
    }

    #[test]
    fn the_soft_limit_is_raised() {
        let limit = raise().expect("every system tells it");
        assert!(limit > 0);
        assert_eq!(raise().expect("again"), limit, "there is nothing left to raise");
    }
}
