//! Profiles: a file of servers by name, so that a command names one and not its URL, its certificates and its credentials.
//!
//! The file is TOML, one table a profile. It holds no secrets, only the names of files with them; those may be relative to its folder.
//!
//! Not here: what goes before a profile (`server_flags`).

use model::nearest::nearest;
use model::{Error, Result};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The profile of a command that names none.
const DEFAULT: &str = "default";

/// One server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Profile {
    pub(crate) url: Option<String>,
    pub(crate) ca: Option<PathBuf>,
    pub(crate) cert: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
    pub(crate) user: Option<String>,
    pub(crate) password_file: Option<PathBuf>,
    pub(crate) api_key_file: Option<PathBuf>,
}

/// The profile of this name.
///
/// # Errors
/// There is no file, or none of that name in it; the file cannot be read.
pub(crate) fn find(name: &str) -> Result<Profile> {
    let Some(file) = file() else {
        return Err(Error::illegal(format!(
            "there is no profile [{name}]: neither PLEACH_PROFILES nor XDG_CONFIG_HOME nor HOME says where profiles are"
        )));
    };
    match read(&file)? {
        Some(profiles) => choose(profiles, name, &file),
        None => Err(Error::illegal(format!(
            "there is no profile [{name}]: the file [{}] is not there",
            file.display()
        ))),
    }
}

/// The profile of a command that names none, if there is one.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn default() -> Result<Profile> {
    let profiles = match file() {
        Some(file) => read(&file)?,
        None => None,
    };
    Ok(profiles.and_then(|mut profiles| profiles.remove(DEFAULT)).unwrap_or_default())
}

/// Where profiles are: `PLEACH_PROFILES`, else below the folder of the user's settings.
fn file() -> Option<PathBuf> {
    let folder = |variable: &str| {
        std::env::var_os(variable)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let settings = || folder("XDG_CONFIG_HOME").or_else(|| Some(folder("HOME")?.join(".config")));
    folder("PLEACH_PROFILES").or_else(|| Some(settings()?.join("pleach").join("profiles.toml")))
}

/// The profiles of a file; `None`: it is not there.
fn read(file: &Path) -> Result<Option<BTreeMap<String, Profile>>> {
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(Error::illegal(format!("cannot read [{}]: {cause}", file.display()))),
    };
    parse(&text, file).map(Some)
}

/// The profiles of a text; `file` is where it stands.
fn parse(text: &str, file: &Path) -> Result<BTreeMap<String, Profile>> {
    let parsed: std::result::Result<BTreeMap<String, Profile>, _> = toml::from_str(text);
    let mut profiles = parsed.map_err(|cause| Error::illegal(format!("[{}] is no file of profiles: {cause}", file.display())))?;
    let folder = file.parent().unwrap_or(Path::new("."));
    for (name, profile) in &mut profiles {
        let refuse = |what: &str| Error::illegal(format!("profile [{name}] of [{}]: {what}", file.display()));
        if profile.cert.is_some() != profile.key.is_some() {
            return Err(refuse("[cert] and [key] go together"));
        }
        if profile.user.is_some() && profile.api_key_file.is_some() {
            return Err(refuse("[user] and [api-key-file] exclude each other"));
        }
        if profile.user.is_none() && profile.password_file.is_some() {
            return Err(refuse("[password-file] needs [user]"));
        }
        let files = [
            &mut profile.ca,
            &mut profile.cert,
            &mut profile.key,
            &mut profile.password_file,
            &mut profile.api_key_file,
        ];
        for named in files.into_iter().flatten() {
            *named = folder.join(&*named);
        }
    }
    Ok(profiles)
}

fn choose(mut profiles: BTreeMap<String, Profile>, name: &str, file: &Path) -> Result<Profile> {
    if let Some(profile) = profiles.remove(name) {
        return Ok(profile);
    }
    let near = nearest(name, profiles.keys().map(String::as_str));
    let hint = near.map(|near| format!(": did you mean [{near}]?")).unwrap_or_default();
    Err(Error::illegal(format!("[{}] has no profile [{name}]{hint}", file.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the profile `a` of this text is, or the reason why it is refused.
    fn check(text: &str, expected: std::result::Result<Profile, &str>) {
        let file = Path::new("/etc/p/profiles.toml");
        let found = parse(text, file).and_then(|profiles| choose(profiles, "a", file));
        match (found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{text}"),
            (Err(error), Err(expected)) => assert!(error.reason().contains(expected), "{text}: {error}"),
            (found, _) => panic!("{text}: {found:?}"),
        }
    }

    #[test]
    fn files_of_profiles() {
        let whole = "[a]\nurl = \"https://search:9200\"\nca = \"ca.pem\"\nuser = \"ann\"\npassword-file = \"/run/secret\"\n";
        check(
            whole,
            Ok(Profile {
                url: Some("https://search:9200".into()),
                ca: Some("/etc/p/ca.pem".into()),
                user: Some("ann".into()),
                password_file: Some("/run/secret".into()),
                ..Profile::default()
            }),
        );
        check("[a]\n", Ok(Profile::default()));
        check("[ab]\n", Err("has no profile [a]: did you mean [ab]?"));
        check("", Err("has no profile [a]"));
        check("[a]\nuri = \"x\"\n", Err("unknown field `uri`"));
        check("[a]\npassword = \"x\"\n", Err("unknown field `password`"));
        check("[a]\ncert = \"x\"\n", Err("[cert] and [key] go together"));
        check("[a]\nuser = \"x\"\napi-key-file = \"y\"\n", Err("exclude each other"));
        check("[a]\npassword-file = \"y\"\n", Err("needs [user]"));
        check("a", Err("is no file of profiles"));
    }
}
