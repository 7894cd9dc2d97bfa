//! Which server a command asks, and how it and its client prove who they are: flags over variables over a profile.
//!
//! Not here: the file of profiles (`profiles`), the requests (`client`).

use crate::client::Client;
use crate::profiles::{self, Profile};
use model::{Error, Result};
use std::path::{Path, PathBuf};

/// The server that is asked where nothing says which.
const DEFAULT_URL: &str = "http://127.0.0.1:9200";

/// The flags of every command that asks a server.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct ServerFlags {
    /// The server: `http://HOST:PORT`, `https://HOST:PORT` or `unix:PATH` [default: that of the profile, else http://127.0.0.1:9200].
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// The profile that has what no flag says [default: default, if there is one].
    #[arg(long, value_name = "NAME", env = "PLEACH_PROFILE")]
    profile: Option<String>,
    /// PEM file of the authority of an https server [default: those of the system].
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// PEM file of a certificate of one's own, where the server asks for one.
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// PEM file of its key.
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// The user to log in as; the password is in the variable PLEACH_PASSWORD, or in --password-file.
    #[arg(long, value_name = "NAME", env = "PLEACH_USER", conflicts_with = "api_key_file")]
    user: Option<String>,
    /// File whose first line is the password.
    #[arg(long, value_name = "FILE", requires = "user")]
    password_file: Option<PathBuf>,
    /// File whose first line is an API key in its encoded form; else the variable PLEACH_API_KEY has it.
    #[arg(long, value_name = "FILE")]
    api_key_file: Option<PathBuf>,
}

impl ServerFlags {
    /// A client that connects with its first request.
    ///
    /// # Errors
    /// A URL that is none; a profile that is not there; files that cannot be used.
    pub(crate) fn client(&self) -> Result<Client> {
        // Who names a server by hand and no profile does not send it the credentials of another one.
        let profile = match (&self.profile, &self.url) {
            (Some(name), _) => profiles::find(name)?,
            (None, None) => profiles::default()?,
            (None, Some(_)) => Profile::default(),
        };
        let url = self.url.as_ref().or(profile.url.as_ref()).map_or(DEFAULT_URL, String::as_str);
        let ca = self.ca.as_ref().or(profile.ca.as_ref());
        let own = match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => Some((cert, key)),
            _ => profile.cert.as_ref().zip(profile.key.as_ref()),
        };
        let own = own.map(|(cert, key)| (cert.as_path(), key.as_path()));
        let mut client = Client::new(url, || crate::tls::client_config(ca.map(PathBuf::as_path), own))?;
        client.authorization = self.authorization(&profile)?;
        Ok(client)
    }

    /// What the header `Authorization` is to say. Secrets come from files and variables: a command line is shown to others.
    fn authorization(&self, profile: &Profile) -> Result<Option<String>> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let of_user = |user: &str, file: Option<&PathBuf>| {
            let password = match file {
                Some(file) => first_line(file)?,
                None => variable("PLEACH_PASSWORD").ok_or_else(|| {
                    Error::illegal(format!(
                        "no password of [{user}]: give it in PLEACH_PASSWORD or with --password-file"
                    ))
                })?,
            };
            Ok(Some(format!("Basic {}", security::secrets::encode_key(user, &password))))
        };
        let of_key = |key: String| Ok(Some(format!("ApiKey {key}")));
        if let Some(user) = &self.user {
            return of_user(user, self.password_file.as_ref());
        }
        if let Some(file) = &self.api_key_file {
            return of_key(first_line(file)?);
        }
        if let Some(key) = variable("PLEACH_API_KEY") {
            return of_key(key);
        }
        match (&profile.user, &profile.api_key_file) {
            (Some(user), _) => of_user(user, profile.password_file.as_ref()),
            (None, Some(file)) => of_key(first_line(file)?),
            (None, None) => Ok(None),
        }
    }
}

/// The first line of a file that has a secret.
///
/// # Errors
/// A file that cannot be read, or is empty.
pub(crate) fn first_line(file: &Path) -> Result<String> {
    let text =
        std::fs::read_to_string(file).map_err(|cause| Error::illegal(format!("cannot read [{}]: {cause}", file.display())))?;
    match text.lines().next().map(str::trim) {
        Some(line) if !line.is_empty() => Ok(line.to_owned()),
        _ => Err(Error::illegal(format!("[{}] is empty", file.display()))),
    }
}
