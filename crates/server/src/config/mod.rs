//! The configuration: flags over `PLEACH_*` variables over one TOML file, with the same names in all three.
//!
//! Names are ours (`data`, `listen`, `persona`) or Elasticsearch's dotted ones (`path.data`, `http.port`, …), and the
//! node-scope rows of `model::settings`. A name that nobody knows is refused with the nearest right one.
//!
//! Not here: index and cluster settings, which are given over HTTP.

mod bounds;
mod flags;
mod names;
mod render;
mod s3;
mod sources;
#[cfg(test)]
mod tests;
mod values;
mod web_access;

pub(crate) use flags::Flags;

use crate::listen::{ListenOn, parse_persona};
use crate::logging::{self, FORMAT, LEVEL};
use crate::tls::{CERTIFICATE, CLIENT_CA, KEY, TlsFiles};
use model::settings;
use model::watermarks::{self, Reach};
use model::{Error, Persona, Result};
use names::{AUDIT, AUDIT_EVENTS, DESTRUCTIVE, INSECURE_LISTEN, NAMES, Name, SECURITY, node_settings};
use rest::access::Access;
use rest::proxies::{TRUSTED_PROXIES, TrustedProxies};
use std::collections::BTreeSet;
use std::path::PathBuf;
use values::{Values, check_shape, parse_flag};

/// The configuration of the server.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) data: PathBuf,
    pub(crate) listen: Vec<(ListenOn, Persona)>,
    pub(crate) cluster_name: String,
    pub(crate) node_name: String,
    pub(crate) tls: Option<TlsFiles>,
    pub(crate) log_levels: tracing_subscriber::filter::Targets,
    pub(crate) log_format: logging::Format,
    /// `auto` or `portable`.
    pub(crate) changes_path: String,
    pub(crate) product_header: bool,
    /// There are users, and who is none is not answered.
    pub(crate) security: bool,
    /// The decisions that the audit tells of; `None`: it is off.
    pub(crate) audit: Option<rest::authentication::Events>,
    /// Hosts and origins of pages that may ask.
    pub(crate) access: Access,
    /// Whose word about their clients is taken.
    pub(crate) proxies: TrustedProxies,
    /// Settings of the cluster that hold where none is set while it runs.
    pub(crate) cluster_defaults: serde_json::Map<String, serde_json::Value>,
    /// `None`: as each persona has it.
    pub(crate) destructive_requires_name: Option<bool>,
    pub(crate) body_max_bytes: usize,
    pub(crate) breaker_limits: engine::breaker::BreakerLimits,
    pub(crate) tasks_kept_max: usize,
    /// Every node setting, for those who read it where it bounds something.
    pub(crate) fixed: Vec<(settings::Setting, u64)>,
    pub(crate) engine_limits: embedded::Limits,
    /// How deep requests may be.
    pub(crate) depths: model::Depths,
    /// Why `http.max_connections` is lower than it was given, if it is.
    pub(crate) connections_bounded: Option<String>,
    values: Values,
}

impl Config {
    /// Reads the three sources and checks every value.
    ///
    /// # Errors
    /// Unknown names, values of the wrong shape, addresses that are not loopback.
    pub(crate) fn settle(flags: &Flags) -> Result<Config> {
        Config::check(sources::read(flags)?)
    }

    fn check(values: Values) -> Result<Config> {
        let text = |name: &str| values.text(name);
        let persona = parse_persona(&text("persona"))?;
        let listen = listen(&values, persona)?;
        let http2 = text(settings::HTTP2_MAX_STREAMS.name) != "0";
        let tls = TlsFiles::of(&text(CERTIFICATE), &text(KEY), &text(CLIENT_CA), http2)?;
        let security = security(&text(SECURITY), &listen, tls.as_ref())?;
        if !values.flag(INSECURE_LISTEN)? {
            for (on, _) in &listen {
                on.refuse_open(tls.as_ref(), security)?;
            }
        }
        let events = rest::authentication::Events::parse(AUDIT_EVENTS, &text(AUDIT_EVENTS))?;
        let audit = values.flag(AUDIT)?.then_some(events);
        // `data` is also given as text of a byte size here and there: an empty path is surely a mistake.
        let data = text("data");
        if data.is_empty() {
            return Err(Error::illegal("[data] is empty: give the folder that holds the data"));
        }
        for setting in node_settings() {
            check_shape(setting.name, setting.default, &text(setting.name))?;
        }
        let number = |setting: settings::Setting| text(setting.name).parse::<u64>().unwrap_or(1);
        let destructive = Some(text(DESTRUCTIVE)).filter(|given| !given.is_empty());
        Ok(Config {
            data: PathBuf::from(data),
            security,
            audit,
            access: web_access::access(&listen, &values)?,
            proxies: TrustedProxies::parse(&text(TRUSTED_PROXIES))?,
            cluster_defaults: cluster_defaults(&values, reach(&listen))?,
            destructive_requires_name: destructive.map(|given| parse_flag(DESTRUCTIVE, &given)).transpose()?,
            listen,
            cluster_name: text("cluster_name"),
            node_name: text("node_name"),
            tls,
            log_levels: logging::parse_levels(&text(LEVEL))?,
            log_format: logging::Format::parse(&text(FORMAT))?,
            changes_path: text(settings::CHANGES_PATH.name),
            product_header: values.flag("http.product_header")?,
            body_max_bytes: values.bytes(settings::HTTP_MAX_CONTENT_LENGTH)?,
            breaker_limits: engine::breaker::BreakerLimits {
                total: values.bytes(settings::TOTAL_BREAKER)? as u64,
                request: values.bytes(settings::REQUEST_BREAKER)? as u64,
                in_flight_requests: values.bytes(settings::HTTP_MAX_IN_FLIGHT)? as u64,
            },
            tasks_kept_max: usize::try_from(number(settings::MAX_TASKS)).unwrap_or(usize::MAX),
            engine_limits: bounds::engine_limits(&values)?,
            depths: bounds::depths(&values)?,
            fixed: bounds::node_limits(&values)?,
            connections_bounded: None,
            values,
        })
    }

    /// Settings that differ in another configuration and are read at the start only.
    pub(crate) fn fixed_differences(&self, other: &Config) -> Vec<Name> {
        let own = NAMES.iter().map(|(name, ..)| *name);
        let own = own.chain(node_settings().map(|setting| setting.name));
        let values_of = |config: &Config, name: &str| match name {
            // Lowered after it was read.
            _ if name == settings::HTTP_MAX_CONNECTIONS.name && config.connections_bounded.is_some() => None,
            _ => {
                let given = config.values.find(name).map(|given| given.values.clone());
                Some(given.unwrap_or_else(|| vec![config.values.text(name)]))
            }
        };
        let differs = |name: &str| match (values_of(self, name), values_of(other, name)) {
            (Some(ours), Some(theirs)) => ours != theirs,
            _ => false,
        };
        let clients = self.values.of_clients().chain(other.values.of_clients());
        let clients: BTreeSet<&Name> = clients.map(|(name, _)| name).filter(|name| differs(name)).collect();
        let own = own.filter(|name| *name != LEVEL && differs(name));
        own.map(Name::Borrowed).chain(clients.into_iter().cloned()).collect()
    }

    /// From where the server can be reached.
    pub(crate) fn reach(&self) -> Reach {
        reach(&self.listen)
    }

    /// Lowers `http.max_connections` to what a process with that many open files can hold beside its log and segments.
    pub(crate) fn bound_connections(&mut self, open_files: u64) {
        let name = settings::HTTP_MAX_CONNECTIONS.name;
        let most = crate::descriptors::connections_most(open_files);
        let row = self.fixed.iter_mut().find(|(setting, _)| setting.name == name);
        let Some((_, connections)) = row.filter(|(_, given)| *given > most) else {
            return;
        };
        let why = format!("[{name}] is [{most}] instead of [{connections}]: the process may have [{open_files}] open files");
        *connections = most;
        let origin = format!("lowered from {}: at most {open_files} open files", self.values.text(name));
        self.values.insert(name, most.to_string(), origin);
        self.connections_bounded = Some(why);
    }

    /// As a TOML file that would give the same, with the origin of each value.
    pub(crate) fn render(&self) -> String {
        render::render(&self.values, &self.listen)
    }
}

/// The addresses of `listen`, or the one of `network.host` and `http.port`.
fn listen(values: &Values, persona: Persona) -> Result<Vec<(ListenOn, Persona)>> {
    if let Some(listen) = values.find("listen") {
        return listen.values.iter().map(|l| ListenOn::parse(l, persona)).collect();
    }
    let (host, port) = (values.text("network.host"), values.text("http.port"));
    let host = if host == "_local_" || host == "localhost" {
        "127.0.0.1".to_owned()
    } else {
        host
    };
    // Elasticsearch allows a range of ports; its first is meant.
    let port = port.split('-').next().unwrap_or_default();
    let joined = if host.contains(':') && !host.starts_with('[') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    };
    Ok(vec![ListenOn::parse(&joined, persona)?])
}

/// From where a server that listens on these can be reached.
fn reach(listen: &[(ListenOn, Persona)]) -> Reach {
    match listen.iter().all(|(on, _)| on.is_local()) {
        true => Reach::Machine,
        false => Reach::Network,
    }
}

/// Settings of the cluster that the node was given: they hold where none is set while it runs.
fn cluster_defaults(values: &Values, reach: Reach) -> Result<serde_json::Map<String, serde_json::Value>> {
    let given = watermarks::SETTINGS
        .iter()
        .map(|setting| (setting.name, values.text(setting.name)));
    let given: serde_json::Map<_, _> = given
        .filter(|(_, text)| !text.is_empty())
        .map(|(name, text)| (name.to_owned(), text.into()))
        .collect();
    watermarks::Watermarks::of(&given, reach)?;
    Ok(given)
}

/// Whether there are users: as it is given, else where others may ask, and passwords are not in the clear.
fn security(given: &str, listen: &[(ListenOn, Persona)], tls: Option<&TlsFiles>) -> Result<bool> {
    if !given.is_empty() {
        return parse_flag(SECURITY, given);
    }
    Ok(tls.is_some() && listen.iter().any(|(on, _)| !on.is_local()))
}
