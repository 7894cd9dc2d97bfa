//! The `pleach` binary: reads the command line and runs one command.
//!
//! Not here: what a command does (`commands`), how the layers are put together (`wire`).

use clap::Parser as _;
use std::io::Write as _;
use std::process::ExitCode;

mod allocator;
mod client;
mod commands;
mod config;
mod console;
mod descriptors;
mod identity;
mod logging;
mod memory;
mod private;
mod service_manager;
mod wire;

#[global_allocator]
static ALLOCATOR: allocator::Allocator = allocator::Allocator;

/// Gives memory back that was needed to start: what is freed on a thread that rests would stay with it.
fn give_back() {
    unsafe extern "C" {
        fn mi_collect(force: bool);
    }
    // SAFETY: the allocator's own function, of this signature; it may be called at any time.
    unsafe { mi_collect(true) };
}

/// A search engine with related documents that speaks the Elasticsearch REST API.
#[derive(clap::Parser, Debug)]
#[command(name = "pleach", version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: config::Flags,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    /// Start the server; so does no command at all.
    Serve(config::Flags),
    /// Fill an index of a running server from a folder of files or from lines of JSON.
    Import(commands::import::Flags),
    /// Look through the data folder of a stopped server, and tell what is damaged.
    Check(commands::check::Flags),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    if matches!(cli.command, Some(Command::Import(_) | Command::Check(_))) {
        logging::begin_for_people();
    }
    let done = match cli.command {
        None => commands::serve::run(&cli.serve),
        Some(Command::Serve(flags)) => commands::serve::run(&flags),
        Some(Command::Import(flags)) => commands::import::run(&flags),
        Some(Command::Check(flags)) => commands::check::run(&flags),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            // The wire name of a refusal is for programs; people get the sentence.
            let _ = writeln!(std::io::stderr(), "pleach: {}", error.reason());
            ExitCode::from(1)
        }
    }
}
