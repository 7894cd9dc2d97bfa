//! The names of settings of the process, in one table, and the canonical name of what was given.
//!
//! Not here: where values come from (`sources`).

use super::s3;
use crate::logging::{FORMAT, LEVEL};
use crate::tls::{CERTIFICATE, CLIENT_CA, KEY};
use model::settings::{self, Scope};
use model::{Error, Result};
use rest::access::{
    ALLOWED_HOSTS, CORS_ALLOW_CREDENTIALS, CORS_ALLOW_HEADERS, CORS_ALLOW_METHODS, CORS_ALLOW_ORIGIN, CORS_ENABLED,
    CORS_EXPOSE_HEADERS, CORS_MAX_AGE, DEFAULT_EXPOSED, DEFAULT_HEADERS, DEFAULT_MAX_AGE, DEFAULT_METHODS,
};
use rest::proxies::TRUSTED_PROXIES;
use snapshot::ALLOW_ENDPOINT;
use std::borrow::Cow;

pub(super) const INSECURE_LISTEN: &str = "insecure_listen";
pub(super) const PATH_REPO: &str = "path.repo";
pub(super) const SECURITY: &str = "security.enabled";
pub(super) const AUDIT: &str = "security.audit.enabled";
pub(super) const AUDIT_EVENTS: &str = "security.audit.events";

/// Also a setting of the cluster, which wins.
pub(super) const DESTRUCTIVE: &str = settings::DESTRUCTIVE_REQUIRES_NAME.name;

const OF_CLUSTER: &str = "As the setting of the cluster, which wins. Empty: its default.";

/// Our names: canonical name, Elasticsearch's other one, default, what it is.
pub(super) const NAMES: &[(&str, &str, &str, &str)] = &[
    ("data", "path.data", "./pleach-data", "Folder of the data."),
    (
        "listen",
        "",
        "",
        "Addresses to listen on, each with =PERSONA if it has its own.",
    ),
    (
        PATH_REPO,
        "",
        "",
        "Folders below which repositories of snapshots may be, separated by commas. Empty: none may be registered.",
    ),
    (
        ALLOW_ENDPOINT,
        "",
        "false",
        "Repositories of type s3 may name the server that is asked. Whoever may register one can then have requests sent to any address.",
    ),
    ("persona", "", "es8", "Server to answer as."),
    ("cluster_name", "cluster.name", "pleach", "Name of the cluster."),
    ("node_name", "node.name", "pleach-1", "Name of the node."),
    ("http.port", "", "9200", "Port, where `listen` is not given."),
    (
        "network.host",
        "http.host",
        "127.0.0.1",
        "Address, where `listen` is not given.",
    ),
    (
        "http.product_header",
        "",
        "true",
        "Answers carry X-Elastic-Product, which Elastic's clients insist on.",
    ),
    (
        ALLOWED_HOSTS,
        "",
        "",
        "Host names besides loopback under which requests are answered, separated by commas: that of a proxy in front. `*` is any.",
    ),
    (
        CORS_ENABLED,
        "",
        "false",
        "Web pages of the origins in http.cors.allow-origin may send requests. All others are refused.",
    ),
    (
        CORS_ALLOW_ORIGIN,
        "",
        "",
        "Origins of web pages, as https://example.org, separated by commas, or one expression between slashes. `*` is any.",
    ),
    (CORS_ALLOW_METHODS, "", DEFAULT_METHODS, "Methods that those pages may use."),
    (CORS_ALLOW_HEADERS, "", DEFAULT_HEADERS, "Headers that they may send."),
    (
        CORS_EXPOSE_HEADERS,
        "",
        DEFAULT_EXPOSED,
        "Headers of answers that they may read.",
    ),
    (
        CORS_ALLOW_CREDENTIALS,
        "",
        "false",
        "Their browsers may send cookies and passwords that they keep. Not with every origin.",
    ),
    (
        CORS_MAX_AGE,
        "",
        DEFAULT_MAX_AGE,
        "Seconds for which a browser need not ask again.",
    ),
    (
        TRUSTED_PROXIES,
        "",
        "",
        "Addresses and ranges of proxies whose Forwarded or X-Forwarded-For is believed, separated by commas; `unix`: who comes by a unix socket.",
    ),
    (
        CERTIFICATE,
        "xpack.security.http.ssl.certificate",
        "",
        "PEM file of the server's certificate: every listener speaks TLS. SIGHUP reads the files again.",
    ),
    (KEY, "xpack.security.http.ssl.key", "", "PEM file of its key."),
    (
        CLIENT_CA,
        "xpack.security.http.ssl.certificate_authorities",
        "",
        "PEM file of authorities: clients without a certificate of theirs are refused.",
    ),
    (
        SECURITY,
        "xpack.security.enabled",
        "",
        "Requests need a user or an API key, and do what its roles allow. Empty: true where another address than loopback is listened on with TLS, else false.",
    ),
    (
        AUDIT,
        "xpack.security.audit.enabled",
        "false",
        "Decisions are told in audit.log of the data folder, a line of JSON each.",
    ),
    (
        AUDIT_EVENTS,
        "xpack.security.audit.logfile.events.include",
        "access_denied,authentication_failed",
        "Decisions that the audit tells of: access_granted, access_denied, authentication_failed.",
    ),
    (
        INSECURE_LISTEN,
        "",
        "false",
        "Addresses other than loopback may be listened on, though everybody who reaches them may do everything.",
    ),
    (
        LEVEL,
        "",
        "info",
        "Levels of the log: one for all modules, then MODULE=LEVEL. SIGHUP reads it again.",
    ),
    (FORMAT, "", "text", "Lines of the log: text or json."),
    (
        DESTRUCTIVE,
        "",
        "",
        "Indices are deleted, closed, opened and blocked by name only. Empty: as each persona has it.",
    ),
    (settings::DISK_THRESHOLD_ENABLED.name, "", "", OF_CLUSTER),
    (settings::DISK_LOW.name, "", "", OF_CLUSTER),
    (settings::DISK_LOW_HEADROOM.name, "", "", OF_CLUSTER),
    (settings::DISK_HIGH.name, "", "", OF_CLUSTER),
    (settings::DISK_HIGH_HEADROOM.name, "", "", OF_CLUSTER),
    (settings::DISK_FLOOD.name, "", "", OF_CLUSTER),
    (settings::DISK_FLOOD_HEADROOM.name, "", "", OF_CLUSTER),
    (settings::DISK_UPDATE_INTERVAL.name, "", "", OF_CLUSTER),
];

/// The canonical name of a setting. Those of clients of S3 are made while they are read.
pub(crate) type Name = Cow<'static, str>;

/// The settings of the node, beside [`NAMES`].
pub(super) fn node_settings() -> impl Iterator<Item = settings::Setting> {
    settings::ALL.iter().copied().filter(|setting| setting.scope == Scope::Node)
}

pub(super) fn default_of(name: &str) -> String {
    let ours = NAMES.iter().find(|(n, ..)| *n == name).map(|(_, _, default, _)| *default);
    ours.or_else(|| settings::find(name).map(|s| s.default))
        .unwrap_or_default()
        .to_owned()
}

/// Every name that may be given, with the canonical one.
pub(super) fn every_name() -> impl Iterator<Item = (&'static str, &'static str)> {
    let ours = NAMES
        .iter()
        .flat_map(|(name, other, ..)| [(*name, *name), (*other, *name)])
        .filter(|(name, _)| !name.is_empty());
    ours.chain(node_settings().map(|setting| (setting.name, setting.name)))
}

pub(super) fn canonical(name: &str, origin: &str) -> Result<Name> {
    if is_of_client(name) {
        s3::check_name(name, origin)?;
        return Ok(Name::Owned(name.to_owned()));
    }
    if let Some((_, canonical)) = every_name().find(|(known, _)| *known == name) {
        return Ok(Name::Borrowed(canonical));
    }
    if let Some(setting) = settings::find(name) {
        let place = if setting.scope == Scope::Cluster {
            "PUT /_cluster/settings"
        } else {
            "the settings of an index"
        };
        return Err(Error::illegal(format!(
            "[{name}] in [{origin}] is not a setting of the process: give it with {place}"
        )));
    }
    let nearest = model::nearest::nearest(name, every_name().map(|(known, _)| known));
    Err(unknown(
        &format!("setting [{name}] in [{origin}]"),
        nearest.map(str::to_owned),
    ))
}

pub(super) fn unknown(what: &str, nearest: Option<String>) -> Error {
    let hint = nearest.map_or_else(
        || "see --print-config for all of them".to_owned(),
        |n| format!("did you mean [{n}]?"),
    );
    Error::illegal(format!("unknown {what}: {hint}"))
}

/// Is it a setting of one client of S3?
pub(super) fn is_of_client(name: &str) -> bool {
    name.starts_with(s3::PREFIX)
}
