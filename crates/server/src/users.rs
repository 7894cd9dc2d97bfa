//! Users at the start of the server: the records are read, and where there is no user an administrator is made.
//!
//! Not here: the records (`rest::authentication`), the commands (`commands::users`).

use crate::audit_log::AuditLog;
use crate::config::Config;
use embedded::EmbeddedEngine;
use engine::{Clock, Engine};
use futures::executor::block_on;
use model::{Error, ErrorKind, Result};
use rest::authentication::{Audit, RecordStore, Security, random_text};
use security::records::Record;
use security::{User, secrets};
use std::io::{IsTerminal as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;

/// The name of the user that the first start makes.
const FIRST_USER: &str = "admin";
/// Letters of its password: 130 bits.
const PASSWORD_LENGTH: usize = 22;
/// The file that has its password, where nobody looks at the output.
const FIRST_LOGIN: &str = "first-login";

/// How to log in for the first time.
pub(crate) struct FirstLogin {
    password: String,
}

impl FirstLogin {
    /// Words for whoever has started the server. Where that is no terminal, a log would keep them: the password is in a file.
    /// Called before anybody is answered: who learns that the server is ready finds the file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn tell(&self, data: &Path) -> Result<String> {
        let first = format!("\nno user could log in: the user [{FIRST_USER}] was made, with the role [superuser]\n");
        if std::io::stdout().is_terminal() {
            return Ok(format!("{first}its password, shown once: {}\n", self.password));
        }
        let path = data.join(FIRST_LOGIN);
        let text = format!("{FIRST_USER}:{}\n", self.password);
        let written = std::fs::OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(true)
            .mode(0o600)
            .open(&path)
            .and_then(|mut file| file.write_all(text.as_bytes()));
        written.map_err(|cause| {
            let reason = format!("the first password cannot be written to [{}]: {cause}", path.display());
            Error::new(ErrorKind::Internal, reason)
        })?;
        Ok(format!(
            "{first}its password is in [{}]: read it, then delete the file\n",
            path.display()
        ))
    }
}

/// The users of a data folder, with an administrator if there was no user.
///
/// # Errors
/// Records that cannot be read; a file of the audit that cannot be written.
pub(crate) fn open(
    config: &Config,
    engine: &Arc<EmbeddedEngine>,
    clock: &Arc<dyn Clock>,
) -> Result<(Arc<Security>, Option<FirstLogin>)> {
    let engine: Arc<dyn Engine> = engine.clone();
    let store = block_on(RecordStore::open(engine))?;
    let first = match store.records().users.is_empty() {
        true => {
            let password = random_text(PASSWORD_LENGTH)?;
            block_on(put(&store, FIRST_USER, &password, vec!["superuser".to_owned()]))?;
            Some(FirstLogin { password })
        }
        false => None,
    };
    let audit = match &config.audit {
        Some(events) => Audit::new(events.clone(), Box::new(AuditLog::in_folder(&config.data)?)),
        None => Audit::default(),
    };
    Ok((Arc::new(Security::new(store, clock.clone(), audit)?), first))
}

/// Makes a user, or gives one that is there another password and other roles.
///
/// # Errors
/// A password that is too short; a folder that cannot be written.
pub(crate) async fn put(store: &RecordStore, name: &str, password: &str, roles: Vec<String>) -> Result<()> {
    secrets::check_password(password)?;
    security::records::check_name("user", name)?;
    let hash = secrets::hash(password, &rest::authentication::new_salt()?)?;
    store
        .put(|records| {
            let known = records.users.get(name).map(|user| User::clone(user)).unwrap_or_default();
            let user = User {
                name: name.to_owned(),
                roles: if roles.is_empty() { known.roles.clone() } else { roles },
                enabled: true,
                password_hash: hash,
                ..known
            };
            Ok((Some(Record::User(Arc::new(user))), ()))
        })
        .await
}
