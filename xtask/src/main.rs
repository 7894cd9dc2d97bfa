//! `cargo run -p xtask -- shape`: prints the table of the code's shape for ARCHITECTURE.md.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let detailed = match words.as_slice() {
        ["shape"] => false,
        ["shape", "--details"] => true,
        _ => {
            eprintln!("usage: cargo run -p xtask -- shape [--details]");
            return ExitCode::from(2);
        }
    };
    let Some(root) = Path::new(env!("CARGO_MANIFEST_DIR")).parent() else {
        eprintln!("xtask lies in no workspace");
        return ExitCode::FAILURE;
    };
    match xtask::shape::measure(root) {
        Ok(shape) => {
            let text = if detailed { shape.details() } else { shape.table() };
            #[expect(clippy::print_stdout, reason = "the table is what the command is for")]
            {
                print!("{text}");
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
