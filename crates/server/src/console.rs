//! Output of the commands: answers to standard output, complaints to standard error.

use std::io::Write as _;

/// To standard output; a closed one is no reason to stop.
pub(crate) fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// To standard error, for whoever runs the server.
pub(crate) fn complain(text: &str) {
    let _ = writeln!(std::io::stderr(), "pleach: {text}");
}
