//! Output of the commands: answers to standard output, complaints to standard error.

use model::{Error, ErrorKind, Result};
use std::io::Write as _;

/// To standard output; a closed one is no reason to stop.
pub(crate) fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// To standard output, for a program that may stop reading; false: it has stopped.
///
/// # Errors
/// Standard output cannot be written.
pub(crate) fn print(text: &str) -> Result<bool> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(cause) if cause.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(cause) => Err(Error::new(
            ErrorKind::Internal,
            format!("standard output cannot be written: {cause}"),
        )),
    }
}

/// To standard error, for whoever runs the server.
pub(crate) fn complain(text: &str) {
    let _ = writeln!(std::io::stderr(), "pleach: {text}");
}
