//! `pleach completions` and `pleach man`: what shells and `man` know of the flags, made from the flags.

use crate::console::say;
use clap::{Command, CommandFactory as _};
use model::{Error, ErrorKind, Result};
use std::process::ExitCode;

/// The flags of `completions`.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct CompletionFlags {
    /// The shell.
    #[arg(value_name = "SHELL")]
    shell: clap_complete::Shell,
}

/// Prints the script that a shell completes flags by.
pub(crate) fn completions(flags: &CompletionFlags) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(flags.shell, &mut crate::Cli::command(), "pleach", &mut script);
    say(&String::from_utf8_lossy(&script));
    ExitCode::SUCCESS
}

/// Prints one manual page: the server, then each command.
///
/// # Errors
/// None that is known: the page is made in memory.
pub(crate) fn man() -> Result<ExitCode> {
    let mut whole = crate::Cli::command();
    whole.build();
    let mut page = Vec::new();
    let failed = |cause: std::io::Error| Error::new(ErrorKind::Internal, format!("making the manual page failed: {cause}"));
    clap_mangen::Man::new(whole.clone()).render(&mut page).map_err(failed)?;
    sections(&whole, "pleach", &mut page).map_err(failed)?;
    let mut page = String::from_utf8_lossy(&page).into_owned();
    // Commands are sections of this page and have none of their own.
    for name in whole.get_subcommands().map(Command::get_name) {
        page = page.replace(&format!("pleach\\-{name}(1)"), &format!("pleach {name}"));
    }
    say(&page);
    Ok(ExitCode::SUCCESS)
}

/// The description and the flags of each command below one, under its whole name.
fn sections(command: &Command, path: &str, page: &mut Vec<u8>) -> std::io::Result<()> {
    let shown = command
        .get_subcommands()
        .filter(|inner| inner.get_name() != "help" && !inner.is_hide_set());
    for inner in shown {
        let path = format!("{path} {}", inner.get_name());
        page.extend_from_slice(format!(".SH \"{}\"\n", path.to_uppercase()).as_bytes());
        let man = clap_mangen::Man::new(inner.clone().display_name(path.as_str()));
        let mut part = Vec::new();
        man.render_description_section(&mut part)?;
        if inner.get_arguments().next().is_some() {
            man.render_options_section(&mut part)?;
        }
        if inner.get_after_help().is_some() {
            man.render_extra_section(&mut part)?;
        }
        // A section of a command is a part of its own section here.
        let mut part = String::from_utf8_lossy(&part).replace(".SH DESCRIPTION\n", "");
        for (section, inner) in [("OPTIONS", "OPTIONS"), ("EXTRA", "NOTES")] {
            part = part.replace(&format!(".SH {section}\n"), &format!(".SS {inner}\n"));
        }
        page.extend_from_slice(part.as_bytes());
        sections(inner, &path, page)?;
    }
    Ok(())
}
