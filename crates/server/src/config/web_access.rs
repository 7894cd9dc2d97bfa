//! The hosts and the origins of web pages that may ask, and what these may do.
//!
//! Not here: what is checked of a request (`rest::access`).

use super::names::default_of;
use super::values::Values;
use crate::listen::ListenOn;
use model::{Error, Persona, Result};
use rest::access::{
    ALLOWED_HOSTS, Access, CORS_ALLOW_CREDENTIALS, CORS_ALLOW_HEADERS, CORS_ALLOW_METHODS, CORS_ALLOW_ORIGIN, CORS_ENABLED,
    CORS_EXPOSE_HEADERS, CORS_MAX_AGE, Grants, Origins,
};

/// Who may ask, besides loopback: the addresses that are listened on, the hosts that are named, the origins if CORS is on.
pub(super) fn access(listen: &[(ListenOn, Persona)], values: &Values) -> Result<Access> {
    let text = |name: &str| values.text(name);
    let hosts = text(ALLOWED_HOSTS).to_lowercase();
    let hosts = hosts.split(',').map(str::trim).filter(|host| !host.is_empty());
    let mut access = Access {
        hosts: hosts.map(str::to_owned).collect(),
        origins: Origins::parse(&text(CORS_ALLOW_ORIGIN))?,
        grants: grants(values)?,
    };
    if let Some(host) = access
        .hosts
        .iter()
        .find(|host| host.contains('/') || host.contains('*') && *host != "*")
    {
        return Err(Error::illegal(format!(
            "[{ALLOWED_HOSTS}] has [{host}]: must be a host name or an address without scheme and port, or [*]"
        )));
    }
    if !values.flag(CORS_ENABLED)? {
        if let Some(name) = CORS_DETAILS.iter().find(|name| text(name) != default_of(name)) {
            let reason = format!("[{name}] has no effect while [{CORS_ENABLED}] is false");
            return Err(Error::illegal(reason));
        }
    } else if access.origins.is_empty() {
        let reason = format!("[{CORS_ENABLED}] allows nobody without [{CORS_ALLOW_ORIGIN}]");
        return Err(Error::illegal(reason));
    }
    let addresses = listen.iter().filter_map(|(on, _)| on.address());
    access.hosts.extend(addresses.map(|address| address.ip().to_string()));
    Ok(access)
}

/// Settings that mean something only where CORS is on.
const CORS_DETAILS: [&str; 6] = [
    CORS_ALLOW_ORIGIN,
    CORS_ALLOW_METHODS,
    CORS_ALLOW_HEADERS,
    CORS_EXPOSE_HEADERS,
    CORS_ALLOW_CREDENTIALS,
    CORS_MAX_AGE,
];

/// The rights of pages whose origin is allowed.
fn grants(values: &Values) -> Result<Grants> {
    let is_token = |word: &str| {
        !word.is_empty()
            && word
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
    };
    let words = |name: &str| -> Result<String> {
        let given = values.text(name);
        let words: Vec<&str> = given.split(',').map(str::trim).filter(|word| !word.is_empty()).collect();
        match words.iter().find(|word| !is_token(word)) {
            Some(word) => Err(Error::illegal(format!(
                "[{name}] has [{word}], which is no name: separate names by commas"
            ))),
            None => Ok(words.join(",")),
        }
    };
    let age = values.text(CORS_MAX_AGE);
    let credentials = values.flag(CORS_ALLOW_CREDENTIALS)?;
    if credentials && Origins::parse(&values.text(CORS_ALLOW_ORIGIN))?.is_any() {
        return Err(Error::illegal(format!(
            "[{CORS_ALLOW_CREDENTIALS}] with [{CORS_ALLOW_ORIGIN}] of [*] would let every web page act for who visits it: name the origins"
        )));
    }
    Ok(Grants {
        methods: words(CORS_ALLOW_METHODS)?.to_uppercase(),
        headers: words(CORS_ALLOW_HEADERS)?,
        exposed: words(CORS_EXPOSE_HEADERS)?,
        credentials,
        max_age: age
            .parse()
            .map_err(|_| Error::illegal(format!("[{CORS_MAX_AGE}] is [{age}]: must be a whole number of seconds")))?,
    })
}
