//! Which server a command asks, and how it and its client prove who they are: flags over variables over a profile.
//!
//! Not here: the file of profiles (`profiles`), the requests (`client`).

use crate::client::{Client, Side};
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

/// The flags of the server that a command writes to, beside one that it reads.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct TargetFlags {
    /// The target: `http://HOST:PORT`, `https://HOST:PORT` or `unix:PATH` [default: that of --to-profile].
    #[arg(long, value_name = "URL", required_unless_present = "to_profile")]
    to: Option<String>,
    /// The profile that has what no flag says of the target.
    #[arg(long, value_name = "NAME")]
    to_profile: Option<String>,
    /// PEM file of the authority of an https target [default: those of the system].
    #[arg(long, value_name = "FILE")]
    to_ca: Option<PathBuf>,
    /// PEM file of a certificate of one's own, where the target asks for one.
    #[arg(long, value_name = "FILE", requires = "to_key")]
    to_cert: Option<PathBuf>,
    /// PEM file of its key.
    #[arg(long, value_name = "FILE", requires = "to_cert")]
    to_key: Option<PathBuf>,
    /// The user to log in as at the target; the password is in the variable PLEACH_TO_PASSWORD, or in --to-password-file.
    #[arg(long, value_name = "NAME", env = "PLEACH_TO_USER", conflicts_with = "to_api_key_file")]
    to_user: Option<String>,
    /// File whose first line is the password at the target.
    #[arg(long, value_name = "FILE", requires = "to_user")]
    to_password_file: Option<PathBuf>,
    /// File whose first line is an API key of the target in its encoded form; else the variable PLEACH_TO_API_KEY has it.
    #[arg(long, value_name = "FILE")]
    to_api_key_file: Option<PathBuf>,
}

/// One server of a command, and how to ask it. Each has flags and variables of its own; secrets of one never go to another.
#[derive(Clone, Debug, Default)]
pub(crate) struct Access {
    pub(crate) side: Side,
    pub(crate) url: Option<String>,
    pub(crate) profile: Option<String>,
    pub(crate) ca: Option<PathBuf>,
    pub(crate) own: Option<(PathBuf, PathBuf)>,
    pub(crate) user: Option<String>,
    pub(crate) password_file: Option<PathBuf>,
    pub(crate) api_key_file: Option<PathBuf>,
}

impl ServerFlags {
    /// A client that connects with its first request.
    ///
    /// # Errors
    /// A URL that is none; a profile that is not there; files that cannot be used.
    pub(crate) fn client(&self) -> Result<Client> {
        self.client_of(Side::SERVER)
    }

    /// The same, of a command that asks another server, too.
    ///
    /// # Errors
    /// As [`ServerFlags::client`].
    pub(crate) fn client_of(&self, side: Side) -> Result<Client> {
        let access = Access {
            side,
            url: self.url.clone(),
            profile: self.profile.clone(),
            ca: self.ca.clone(),
            own: self.cert.clone().zip(self.key.clone()),
            user: self.user.clone(),
            password_file: self.password_file.clone(),
            api_key_file: self.api_key_file.clone(),
        };
        // Who names a server by hand and no profile does not send it the credentials of another one.
        let profile = match (&access.profile, &access.url) {
            (None, None) => profiles::default()?,
            _ => access.named_profile()?,
        };
        access.client_by(&profile, Some(DEFAULT_URL))
    }
}

impl TargetFlags {
    /// A client that connects with its first request.
    ///
    /// # Errors
    /// As [`ServerFlags::client`]; neither a flag nor the profile has a URL.
    pub(crate) fn client(&self) -> Result<Client> {
        let access = Access {
            side: Side::TARGET,
            url: self.to.clone(),
            profile: self.to_profile.clone(),
            ca: self.to_ca.clone(),
            own: self.to_cert.clone().zip(self.to_key.clone()),
            user: self.to_user.clone(),
            password_file: self.to_password_file.clone(),
            api_key_file: self.to_api_key_file.clone(),
        };
        access.client()
    }
}

impl Access {
    /// A client that connects with its first request.
    ///
    /// # Errors
    /// As [`TargetFlags::client`].
    pub(crate) fn client(&self) -> Result<Client> {
        self.client_by(&self.named_profile()?, None)
    }

    fn named_profile(&self) -> Result<Profile> {
        match &self.profile {
            Some(name) => profiles::find(name),
            None => Ok(Profile::default()),
        }
    }

    fn client_by(&self, profile: &Profile, default: Option<&str>) -> Result<Client> {
        let url = self.url.as_deref().or(profile.url.as_deref()).or(default);
        let url = url.ok_or_else(|| {
            let name = self.profile.as_deref().unwrap_or_default();
            Error::illegal(format!("profile [{name}] has no [url], and no flag names {}", self.side.name))
        })?;
        let ca = self.ca.as_ref().or(profile.ca.as_ref());
        let own = self.own.as_ref().map(|(cert, key)| (cert, key));
        let own = own.or_else(|| profile.cert.as_ref().zip(profile.key.as_ref()));
        let own = own.map(|(cert, key)| (cert.as_path(), key.as_path()));
        let tls = || crate::tls::client_config(ca.map(PathBuf::as_path), own, self.side);
        let mut client = Client::new(url, self.side, tls)?;
        client.authorization = self.authorization(profile)?;
        Ok(client)
    }

    /// What the header `Authorization` is to say. Secrets come from files and variables: a command line is shown to others.
    fn authorization(&self, profile: &Profile) -> Result<Option<String>> {
        let variable = |name: &str| std::env::var(self.side.variable(name)).ok().filter(|value| !value.is_empty());
        let of_user = |user: &str, file: Option<&PathBuf>| {
            let password = match file {
                Some(file) => first_line(file)?,
                None => variable("PASSWORD").ok_or_else(|| {
                    let (name, flag) = (self.side.variable("PASSWORD"), self.side.flag("password-file"));
                    Error::illegal(format!("no password of [{user}]: give it in {name} or with {flag}"))
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
        if let Some(key) = variable("API_KEY") {
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
