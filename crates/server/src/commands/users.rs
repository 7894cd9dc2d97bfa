//! `pleach user` and `pleach apikey`: users and keys of a running server; and users of the data folder of a stopped one, so that
//! somebody can log in at all.
//!
//! Not here: the records (`rest::authentication`).

use crate::client::{Answer, Client, JSON, segment};
use crate::console::say;
use crate::server_flags::{ServerFlags, first_line};
use embedded::EmbeddedEngine;
use engine::clock::SystemClock;
use engine::{Clock, Engine};
use futures::executor::block_on;
use model::{Error, Result};
use rest::authentication::{RecordStore, random_text};
use security::records::Record;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// Letters of a password that is made.
const PASSWORD_LENGTH: usize = 22;

/// `pleach user`.
#[derive(clap::Subcommand, Clone, Debug)]
pub(crate) enum UserCommand {
    /// Make a user, or give one other roles and another password.
    Add(AddFlags),
    /// Give a user another password.
    Passwd(PasswordFlags),
    /// Delete a user.
    Delete(NameFlags),
    /// List the users, a line of JSON each.
    List(UsersPlace),
}

/// The server, or the folder of one that does not run.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct UsersPlace {
    #[command(flatten)]
    server: ServerFlags,
    /// Data folder of a stopped server, instead of asking a running one.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

#[derive(clap::Args, Clone, Debug)]
pub(crate) struct AddFlags {
    /// Name of the user.
    name: String,
    /// A role; may be repeated.
    #[arg(long = "role", value_name = "ROLE", required = true)]
    roles: Vec<String>,
    #[command(flatten)]
    password: NewPassword,
    #[command(flatten)]
    place: UsersPlace,
}

#[derive(clap::Args, Clone, Debug)]
pub(crate) struct PasswordFlags {
    /// Name of the user.
    name: String,
    #[command(flatten)]
    password: NewPassword,
    #[command(flatten)]
    place: UsersPlace,
}

#[derive(clap::Args, Clone, Debug)]
pub(crate) struct NewPassword {
    /// File whose first line is the new password [default: one is made and shown once].
    #[arg(long, value_name = "FILE")]
    new_password_file: Option<PathBuf>,
}

#[derive(clap::Args, Clone, Debug)]
pub(crate) struct NameFlags {
    /// Name of the user.
    name: String,
    #[command(flatten)]
    place: UsersPlace,
}

/// `pleach apikey`.
#[derive(clap::Subcommand, Clone, Debug)]
pub(crate) enum KeyCommand {
    /// Make a key, and print it: it is shown once.
    Create(CreateFlags),
    /// List the keys, a line of JSON each.
    List(ServerFlags),
    /// End a key.
    Invalidate(InvalidateFlags),
}

#[derive(clap::Args, Clone, Debug)]
pub(crate) struct CreateFlags {
    /// Name of the key.
    name: String,
    /// How long it is good, as 30d [default: until it is ended].
    #[arg(long, value_name = "TIME")]
    expiration: Option<String>,
    /// File with the roles of the key as JSON, by name [default: what its owner may do].
    #[arg(long, value_name = "FILE")]
    roles: Option<PathBuf>,
    #[command(flatten)]
    server: ServerFlags,
}

#[derive(clap::Args, Clone, Debug)]
pub(crate) struct InvalidateFlags {
    /// Id of the key.
    id: String,
    #[command(flatten)]
    server: ServerFlags,
}

impl NewPassword {
    /// The password, and whether it was made here.
    fn settle(&self) -> Result<(String, bool)> {
        match &self.new_password_file {
            Some(file) => Ok((first_line(file)?, false)),
            None => Ok((random_text(PASSWORD_LENGTH)?, true)),
        }
    }
}

fn tell(name: &str, password: &str, made: bool) {
    if made {
        say(&format!("the password of [{name}], shown once: {password}\n"));
    }
}

/// `pleach user`
///
/// # Errors
/// The server refuses, or cannot be reached; a folder that cannot be opened.
pub(crate) fn user(command: &UserCommand) -> Result<ExitCode> {
    match command {
        UserCommand::Add(flags) => {
            let (password, made) = flags.password.settle()?;
            match &flags.place.data {
                Some(data) => with_store(data, |store| {
                    block_on(crate::users::put(store, &flags.name, &password, flags.roles.clone()))
                })?,
                None => {
                    let body = json!({ "password": password, "roles": flags.roles });
                    let path = format!("/_security/user/{}", segment(&flags.name));
                    ask(&mut flags.place.server.client()?, "PUT", &path, &body)?;
                }
            }
            tell(&flags.name, &password, made);
        }
        UserCommand::Passwd(flags) => {
            let (password, made) = flags.password.settle()?;
            match &flags.place.data {
                Some(data) => with_store(data, |store| {
                    if !store.records().users.contains_key(&flags.name) {
                        return Err(Error::illegal(format!("there is no user [{}]", flags.name)));
                    }
                    block_on(crate::users::put(store, &flags.name, &password, Vec::new()))
                })?,
                None => {
                    let path = format!("/_security/user/{}/_password", segment(&flags.name));
                    ask(
                        &mut flags.place.server.client()?,
                        "PUT",
                        &path,
                        &json!({ "password": password }),
                    )?;
                }
            }
            tell(&flags.name, &password, made);
        }
        UserCommand::Delete(flags) => match &flags.place.data {
            Some(data) => with_store(data, |store| {
                let found = block_on(store.delete(|records| Ok(records.users.get(&flags.name).cloned().map(Record::User))))?;
                match found {
                    true => Ok(()),
                    false => Err(Error::illegal(format!("there is no user [{}]", flags.name))),
                }
            })?,
            None => {
                let path = format!("/_security/user/{}", segment(&flags.name));
                ask(&mut flags.place.server.client()?, "DELETE", &path, &Value::Null)?;
            }
        },
        UserCommand::List(place) => match &place.data {
            Some(data) => with_store(data, |store| {
                store
                    .records()
                    .users
                    .values()
                    .for_each(|user| say(&format!("{}\n", user.render())));
                Ok(())
            })?,
            None => {
                let users = ask(&mut place.server.client()?, "GET", "/_security/user", &Value::Null)?;
                let each = users.as_object().into_iter().flat_map(|users| users.values());
                each.for_each(|user| say(&format!("{user}\n")));
            }
        },
    }
    Ok(ExitCode::SUCCESS)
}

/// `pleach apikey`
///
/// # Errors
/// The server refuses, or cannot be reached.
pub(crate) fn api_key(command: &KeyCommand) -> Result<ExitCode> {
    match command {
        KeyCommand::Create(flags) => {
            let mut body = json!({ "name": flags.name });
            if let Some(expiration) = &flags.expiration {
                body["expiration"] = expiration.as_str().into();
            }
            if let Some(file) = &flags.roles {
                let unread = |cause: &dyn std::fmt::Display| Error::illegal(format!("cannot read [{}]: {cause}", file.display()));
                let text = std::fs::read_to_string(file).map_err(|cause| unread(&cause))?;
                body["role_descriptors"] = serde_json::from_str(&text).map_err(|cause| unread(&cause))?;
            }
            let made = ask(&mut flags.server.client()?, "POST", "/_security/api_key", &body)?;
            say(&format!("{made}\n"));
        }
        KeyCommand::List(server) => {
            let found = ask(&mut server.client()?, "GET", "/_security/api_key", &Value::Null)?;
            let keys = found["api_keys"].as_array().into_iter().flatten();
            keys.for_each(|key| say(&format!("{key}\n")));
        }
        KeyCommand::Invalidate(flags) => {
            let body = json!({ "ids": [flags.id] });
            let done = ask(&mut flags.server.client()?, "DELETE", "/_security/api_key", &body)?;
            say(&format!("{done}\n"));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The body of an answer that is a success.
fn ask(client: &mut Client, method: &str, path: &str, body: &Value) -> Result<Value> {
    let text = if body.is_null() { String::new() } else { body.to_string() };
    let answer: Answer = client.send_once(method, path, JSON, text.as_bytes())?;
    if (200..300).contains(&answer.status) {
        return Ok(answer.body);
    }
    let reason = answer.reason().map_or_else(|| answer.body.to_string(), str::to_owned);
    Err(Error::illegal(format!("the server refused ({}): {reason}", answer.status)))
}

/// Opens the data folder of a stopped server for as long as `work` takes.
fn with_store(data: &std::path::Path, work: impl FnOnce(&RecordStore) -> Result<()>) -> Result<()> {
    crate::private::make_files_private();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let engine = Arc::new(EmbeddedEngine::open(data, clock, embedded::Limits::default())?);
    let shared: Arc<dyn Engine> = engine.clone();
    let store = block_on(RecordStore::open(shared))?;
    let done = work(&store);
    drop(store);
    engine.close()?;
    done
}
