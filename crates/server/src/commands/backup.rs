//! `pleach backup DIR` and `pleach restore DIR`: a snapshot of a running server into a folder, and indices out of one.
//!
//! The folder is registered as a repository of the server, under a name of its own; it must be below the server's `path.repo`.
//! Backups into one folder share their files. Not here: looking through a folder (`check`), what a snapshot is (`embedded`).

use crate::client::{Answer, Client, JSON, segment};
use crate::console::{complain, say};
use crate::server_flags::ServerFlags;
use model::{Error, Result};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// The repository of these commands.
const REPOSITORY: &str = "pleach-backup";
/// A backup may take long.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);

/// The flags of `backup`.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct BackupFlags {
    /// Folder of the backups, as the server sees it: below its `path.repo`. What is in it already is not stored again.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Name of the backup [default: `backup-` and the time].
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Indices, as names and patterns separated by commas [default: all].
    #[arg(long, value_name = "INDICES")]
    index: Option<String>,
    /// Bytes a second at most, as `40mb` [default: as fast as it goes].
    #[arg(long, value_name = "RATE", default_value = "0")]
    rate: String,
    #[command(flatten)]
    server: ServerFlags,
}

/// The flags of `restore`.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct RestoreFlags {
    /// Folder of the backups, as the server sees it: below its `path.repo`.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Name of the backup [default: the newest].
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Indices, as names and patterns separated by commas [default: all].
    #[arg(long, value_name = "INDICES")]
    index: Option<String>,
    /// Also templates, stored scripts, link policies and settings of the cluster.
    #[arg(long)]
    global_state: bool,
    /// A regular expression for names that change.
    #[arg(long, value_name = "PATTERN", requires = "rename_replacement")]
    rename_pattern: Option<String>,
    /// The text in place of its matches; `$1` is a group.
    #[arg(long, value_name = "TEXT", requires = "rename_pattern")]
    rename_replacement: Option<String>,
    #[command(flatten)]
    server: ServerFlags,
}

/// `pleach backup`.
///
/// # Errors
/// A server that cannot be reached.
pub(crate) fn backup(flags: &BackupFlags) -> Result<ExitCode> {
    let mut client = flags.server.client()?;
    client.set_patience(PATIENCE);
    let settings = json!({ "location": whole(&flags.dir)?, "max_snapshot_bytes_per_sec": flags.rate });
    if let Some(code) = register(&mut client, settings)? {
        return Ok(code);
    }
    let name = match &flags.name {
        Some(name) => name.clone(),
        None => "<backup-{now{yyyyMMdd-HHmmss}}>".to_owned(),
    };
    let body = match &flags.index {
        Some(indices) => json!({ "indices": indices }),
        None => json!({}),
    };
    let path = format!("/_snapshot/{REPOSITORY}/{}?wait_for_completion=true", segment(&name));
    let answer = client.send_once("PUT", &path, JSON, body.to_string().as_bytes())?;
    if let Some(code) = failure(&answer) {
        return Ok(code);
    }
    let snapshot = &answer.body["snapshot"];
    let name = snapshot["snapshot"].as_str().unwrap_or_default();
    let status = client.send(
        "GET",
        &format!("/_snapshot/{REPOSITORY}/{}/_status", segment(name)),
        JSON,
        b"",
    )?;
    let stats = &status.body["snapshots"][0]["stats"];
    let indices = snapshot["indices"].as_array().map_or(0, Vec::len);
    let number = |stat: &str, field: &str| stats[stat][field].as_u64().unwrap_or(0);
    say(&format!(
        "{name}: {indices} indices, {} files with {} bytes, of which {} files with {} bytes are new\n",
        number("total", "file_count"),
        number("total", "size_in_bytes"),
        number("incremental", "file_count"),
        number("incremental", "size_in_bytes"),
    ));
    Ok(ExitCode::SUCCESS)
}

/// `pleach restore`.
///
/// # Errors
/// A server that cannot be reached; a folder without backups.
pub(crate) fn restore(flags: &RestoreFlags) -> Result<ExitCode> {
    let mut client = flags.server.client()?;
    client.set_patience(PATIENCE);
    let settings = json!({ "location": whole(&flags.dir)?, "readonly": true });
    if let Some(code) = register(&mut client, settings)? {
        return Ok(code);
    }
    let name = match &flags.name {
        Some(name) => name.clone(),
        None => {
            let answer = client.send("GET", &format!("/_snapshot/{REPOSITORY}/_all"), JSON, b"")?;
            if let Some(code) = failure(&answer) {
                return Ok(code);
            }
            let newest = answer.body["snapshots"].as_array().and_then(|all| all.last()).cloned();
            let newest = newest.ok_or_else(|| Error::illegal(format!("[{}] has no backup", flags.dir.display())))?;
            newest["snapshot"].as_str().unwrap_or_default().to_owned()
        }
    };
    let mut body = Map::new();
    let texts = [
        ("indices", &flags.index),
        ("rename_pattern", &flags.rename_pattern),
        ("rename_replacement", &flags.rename_replacement),
    ];
    for (field, value) in texts {
        if let Some(value) = value {
            body.insert(field.to_owned(), value.as_str().into());
        }
    }
    body.insert("include_global_state".to_owned(), flags.global_state.into());
    let path = format!("/_snapshot/{REPOSITORY}/{}/_restore?wait_for_completion=true", segment(&name));
    let answer = client.send_once("POST", &path, JSON, Value::Object(body).to_string().as_bytes())?;
    if let Some(code) = failure(&answer) {
        return Ok(code);
    }
    let indices = answer.body["snapshot"]["indices"].as_array().cloned().unwrap_or_default();
    let names: Vec<&str> = indices.iter().filter_map(Value::as_str).collect();
    say(&format!("{name}: restored {}\n", names.join(", ")));
    for refused in answer.body["link_policies"]["refused"].as_array().into_iter().flatten() {
        let text = |field: &str| refused[field].as_str().unwrap_or_default().to_owned();
        complain(&format!(
            "link policy [{}] was not restored: {}",
            text("name"),
            text("reason")
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// The server has another working folder.
fn whole(dir: &Path) -> Result<String> {
    let path = std::path::absolute(dir).map_err(|cause| Error::illegal(format!("[{}] is no path: {cause}", dir.display())))?;
    let text = path
        .to_str()
        .ok_or_else(|| Error::illegal(format!("[{}] is no UTF-8", dir.display())))?;
    Ok(text.to_owned())
}

fn register(client: &mut Client, settings: Value) -> Result<Option<ExitCode>> {
    let body = json!({ "type": "fs", "settings": settings }).to_string();
    let answer = client.send("PUT", &format!("/_snapshot/{REPOSITORY}"), JSON, body.as_bytes())?;
    let code = failure(&answer);
    if code.is_some()
        && answer.body["error"]["reason"]
            .as_str()
            .is_some_and(|reason| reason.contains("path.repo"))
    {
        complain("start the server with `-E path.repo=FOLDER`, and give a folder below that one");
    }
    Ok(code)
}

/// The exit code of a refusal, which is told.
fn failure(answer: &Answer) -> Option<ExitCode> {
    if answer.status < 400 {
        return None;
    }
    complain(answer.reason().unwrap_or("the server refused without a reason"));
    Some(ExitCode::from(1))
}
