//! Settings of clients of S3: `s3.client.NAME.*`, whose names have the client's in the middle.
//!
//! Not here: what their values may be (`snapshot`), which source wins (`sources`).

use model::{Error, Result, nearest};
use snapshot::{CLIENT_SETTINGS, DEFAULT_CLIENT, S3Client, S3Clients};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What their names begin with.
pub(crate) const PREFIX: &str = "s3.client.";
/// The same of variables, behind `PLEACH_`.
const VARIABLE_PREFIX: &str = "S3_CLIENT_";
/// What signs requests: shown nowhere.
const SECRETS: [&str; 3] = ["access_key", "secret_key", "session_token"];
/// The variables from which other programs take the same.
const AWS_VARIABLES: [&str; 3] = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"];

/// Is a value of this name to be hidden?
pub(crate) fn is_secret(name: &str) -> bool {
    split(name).is_some_and(|(_, setting)| SECRETS.contains(&setting))
}

/// The client and the setting of a name.
fn split(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix(PREFIX)?.split_once('.')
}

fn is_client(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
}

/// Checks a name that begins with [`PREFIX`].
///
/// # Errors
/// IllegalArgument: it names no client, or a setting that no client has.
pub(crate) fn check_name(name: &str, origin: &str) -> Result<()> {
    let settings = || CLIENT_SETTINGS.iter().map(|(setting, ..)| *setting);
    match split(name) {
        Some((client, setting)) if is_client(client) => match settings().any(|known| known == setting) {
            true => Ok(()),
            false => {
                let hint = nearest::hint(setting, settings());
                Err(Error::illegal(format!(
                    "unknown setting [{name}] in [{origin}]: a client of S3 has no [{setting}]{hint}"
                )))
            }
        },
        _ => Err(Error::illegal(format!(
            "unknown setting [{name}] in [{origin}]: write {PREFIX}NAME.SETTING, with letters, digits, hyphens and underscores in NAME"
        ))),
    }
}

/// The setting of a variable, without `PLEACH_`: `S3_CLIENT_DEFAULT_REGION` is `s3.client.default.region`.
pub(crate) fn of_variable(variable: &str) -> Option<String> {
    let rest = variable.strip_prefix(VARIABLE_PREFIX)?.to_lowercase();
    let of_setting = |setting: &str| {
        let client = rest
            .strip_suffix(setting)?
            .strip_suffix('_')
            .filter(|client| is_client(client))?;
        Some(format!("{PREFIX}{client}.{setting}"))
    };
    CLIENT_SETTINGS.iter().find_map(|(setting, ..)| of_setting(setting))
}

/// The key of the default client in the variables of AWS, if it is whole.
pub(crate) fn of_aws_variables(variables: &[(String, String)]) -> Vec<(String, String)> {
    let value = |wanted: &str| {
        let found = variables.iter().find(|(name, value)| name == wanted && !value.is_empty());
        found.map(|(_, value)| value.clone())
    };
    let found: Vec<(String, String)> = SECRETS
        .iter()
        .zip(AWS_VARIABLES)
        .filter_map(|(setting, variable)| Some((format!("{PREFIX}{DEFAULT_CLIENT}.{setting}"), value(variable)?)))
        .collect();
    let has = |setting: &str| found.iter().any(|(name, _)| name.ends_with(setting));
    match has("access_key") && has("secret_key") {
        true => found,
        false => Vec::new(),
    }
}

/// Do these names have a part of the default client's key?
pub(crate) fn has_default_key<'a>(mut names: impl Iterator<Item = &'a str>) -> bool {
    names.any(|name| split(name).is_some_and(|(client, setting)| client == DEFAULT_CLIENT && SECRETS.contains(&setting)))
}

/// The clients of all settings.
///
/// # Errors
/// IllegalArgument: a value that cannot be read.
pub(crate) fn clients(values: &BTreeMap<String, String>, allows_endpoint: bool) -> Result<Arc<S3Clients>> {
    let names: BTreeSet<&str> = values
        .keys()
        .filter_map(|name| split(name))
        .map(|(client, _)| client)
        .collect();
    let parse = |client: &str| {
        let prefix = format!("{PREFIX}{client}");
        let parsed = S3Client::parse(&prefix, |setting| values.get(&format!("{prefix}.{setting}")).cloned())?;
        Ok((client.to_owned(), parsed))
    };
    let clients = names.into_iter().map(parse).collect::<Result<BTreeMap<String, S3Client>>>()?;
    let clients = S3Clients::new(clients, allows_endpoint);
    #[cfg(feature = "s3")]
    let clients = clients.trusting(crate::tls::system_trust);
    Ok(Arc::new(clients))
}
