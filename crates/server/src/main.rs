//! The `pleach` binary: reads the command line and runs one command.
//!
//! Not here: what a command does (`commands`), how the layers are put together (`wire`).

use clap::Parser as _;
use std::io::Write as _;
use std::process::ExitCode;

mod allocator;
mod audit_log;
mod client;
mod commands;
mod config;
mod console;
mod descriptors;
mod feed_client;
mod identity;
mod index_definition;
mod listen;
mod logging;
mod memory;
mod preemption_tick;
mod private;
mod profiles;
mod server_flags;
mod service_manager;
mod threads;
mod tls;
mod users;
mod wire;

#[global_allocator]
static ALLOCATOR: allocator::Allocator = allocator::Allocator;

/// A search engine with related documents that speaks the Elasticsearch REST API.
#[derive(clap::Parser, Debug)]
#[command(name = "pleach", version = env!("BUILD_VERSION"), args_conflicts_with_subcommands = true)]
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
    Import(commands::import::ImportFlags),
    /// Keep a snapshot of a running server in a folder.
    Backup(commands::backup::BackupFlags),
    /// Make indices of a running server out of a backup.
    Restore(commands::backup::RestoreFlags),
    /// Look through the data folder of a stopped server, or a folder of backups, and tell what is damaged.
    Check(commands::check::CheckFlags),
    /// Make a private authority, and certificates by it.
    Cert(commands::cert::CertFlags),
    /// Print a document.
    Get(commands::documents::GetFlags),
    /// Write a document.
    Put(commands::documents::PutFlags),
    /// Print what a search finds.
    Search(commands::documents::SearchFlags),
    /// Print how many documents a query finds.
    Count(commands::documents::CountFlags),
    /// List the indices.
    Indices(commands::documents::IndicesFlags),
    /// Send the lines of one bulk request.
    Bulk(commands::documents::BulkFlags),
    /// Print every document of an index as lines that `import` takes.
    Export(commands::documents::ExportFlags),
    /// Print the feed of changes, a line of JSON a change.
    Changes(commands::changes::ChangesFlags),
    /// Keep another Pleach, OpenSearch or Elasticsearch equal to a running server.
    Replicate(commands::replicate::ReplicateFlags),
    /// List what a server is doing, or end one of it.
    Tasks(commands::tasks::TasksFlags),
    /// Show what a server does, again and again.
    Top(commands::top::TopFlags),
    /// Hold a lock while a command runs.
    #[command(subcommand)]
    Lock(commands::lock::LockCommand),
    /// Make, alter, list and delete users of a running server, or of the data folder of a stopped one.
    #[command(subcommand)]
    User(commands::users::UserCommand),
    /// Make, list and end API keys of a running server.
    #[command(subcommand)]
    Apikey(commands::users::KeyCommand),
    /// Print the script by which a shell completes these commands.
    Completions(commands::shell::CompletionFlags),
    /// Print the manual page.
    Man,
}

fn main() -> ExitCode {
    memory::purge_soon();
    let cli = Cli::parse();
    let done = match &cli.command {
        None => commands::serve::run(&cli.serve),
        Some(Command::Serve(flags)) => commands::serve::run(flags),
        Some(other) => {
            logging::begin_for_people();
            run(other)
        }
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

/// Runs a command that is no server.
fn run(command: &Command) -> model::Result<ExitCode> {
    match command {
        Command::Serve(flags) => commands::serve::run(flags),
        Command::Import(flags) => commands::import::run(flags),
        Command::Backup(flags) => commands::backup::backup(flags),
        Command::Restore(flags) => commands::backup::restore(flags),
        Command::Check(flags) => commands::check::run(flags),
        Command::Cert(flags) => commands::cert::run(flags),
        Command::Get(flags) => commands::documents::get(flags),
        Command::Put(flags) => commands::documents::put(flags),
        Command::Search(flags) => commands::documents::search(flags),
        Command::Count(flags) => commands::documents::count(flags),
        Command::Indices(flags) => commands::documents::indices(flags),
        Command::Tasks(flags) => commands::tasks::run(flags),
        Command::Bulk(flags) => commands::documents::bulk(flags),
        Command::Export(flags) => commands::documents::export(flags),
        Command::Changes(flags) => commands::changes::run(flags),
        Command::Replicate(flags) => commands::replicate::run(flags),
        Command::Top(flags) => commands::top::run(flags),
        Command::Lock(command) => commands::lock::run(command),
        Command::User(command) => commands::users::user(command),
        Command::Apikey(command) => commands::users::api_key(command),
        Command::Completions(flags) => Ok(commands::shell::completions(flags)),
        Command::Man => commands::shell::man(),
    }
}
