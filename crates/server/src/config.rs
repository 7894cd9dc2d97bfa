//! The configuration: flags over `PLEACH_*` variables over one TOML file, with the same names in all three.
//!
//! Names are ours (`data`, `listen`, `persona`) or Elasticsearch's dotted ones (`path.data`, `http.port`, …), and the
//! node-scope rows of `model::settings`. A name that nobody knows is refused with the nearest right one.
//!
//! Not here: index and cluster settings, which are given over HTTP.

use crate::listen::{ListenOn, parse_persona};
use crate::logging::{self, FORMAT, LEVEL};
use crate::s3_config;
use crate::tls::{CERTIFICATE, CLIENT_CA, KEY, TlsFiles};
use model::settings::{self, Scope};
use model::watermarks::Reach;
use model::{Error, Persona, Result, units, watermarks};
use rest::access::{
    ALLOWED_HOSTS, Access, CORS_ALLOW_CREDENTIALS, CORS_ALLOW_HEADERS, CORS_ALLOW_METHODS, CORS_ALLOW_ORIGIN, CORS_ENABLED,
    CORS_EXPOSE_HEADERS, CORS_MAX_AGE, DEFAULT_EXPOSED, DEFAULT_HEADERS, DEFAULT_MAX_AGE, DEFAULT_METHODS, Grants, Origins,
};
use rest::proxies::{TRUSTED_PROXIES, TrustedProxies};
use snapshot::{ALLOW_ENDPOINT, S3Clients};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

/// The flags of `serve`.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct Flags {
    /// Folder of the data [default: ./pleach-data].
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<String>,
    /// Address or unix socket (unix:PATH) to listen on, with the persona to answer as; may be repeated [default: 127.0.0.1:9200].
    #[arg(long, value_name = "ADDR:PORT[=PERSONA]")]
    pub(crate) listen: Vec<String>,
    /// Server to answer as: es2, es7, es8, es9, opensearch1, opensearch2 or opensearch3 [default: es8].
    #[arg(long, value_name = "NAME")]
    pub(crate) persona: Option<String>,
    /// Name of the cluster [default: pleach].
    #[arg(long, value_name = "NAME")]
    pub(crate) cluster_name: Option<String>,
    /// Name of the node [default: pleach-1].
    #[arg(long, value_name = "NAME")]
    pub(crate) node_name: Option<String>,
    /// Configuration file [default: ./pleach.toml, if it is there].
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Any other setting by its name, as `http.max_content_length=50mb`; may be repeated.
    #[arg(short = 'E', long = "set", value_name = "NAME=VALUE")]
    pub(crate) set: Vec<String>,
    /// PEM file of the server's certificate: every listener speaks TLS.
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_certificate: Option<String>,
    /// PEM file of the certificate's key.
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_key: Option<String>,
    /// PEM file of authorities; clients without a certificate of theirs are refused.
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_client_ca: Option<String>,
    /// Listen on any address, though without TLS everybody on the way may read everything.
    #[arg(long)]
    pub(crate) insecure_listen: bool,
    /// Levels of the log, as `warn,http=debug` [default: info].
    #[arg(long, value_name = "LEVELS")]
    pub(crate) log_level: Option<String>,
    /// Form of the lines of the log: text or json [default: text].
    #[arg(long, value_name = "FORMAT")]
    pub(crate) log_format: Option<String>,
    /// Print the configuration with the origin of each value, and stop.
    #[arg(long)]
    pub(crate) print_config: bool,
}

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

const INSECURE_LISTEN: &str = "insecure_listen";
const PATH_REPO: &str = "path.repo";
const SECURITY: &str = "security.enabled";
const AUDIT: &str = "security.audit.enabled";
const AUDIT_EVENTS: &str = "security.audit.events";

/// Also a setting of the cluster, which wins.
const DESTRUCTIVE: &str = settings::DESTRUCTIVE_REQUIRES_NAME.name;

const OF_CLUSTER: &str = "As the setting of the cluster, which wins. Empty: its default.";

/// Our names: canonical name, Elasticsearch's other one, default, what it is.
const NAMES: &[(&str, &str, &str, &str)] = &[
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

/// Canonical name to its values and where they came from.
type Values = BTreeMap<Name, (Vec<String>, String)>;

/// The canonical name of a setting. Those of clients of S3 are made while they are read.
type Name = Cow<'static, str>;

impl Config {
    /// Reads the three sources and checks every value.
    ///
    /// # Errors
    /// Unknown names, values of the wrong shape, addresses that are not loopback.
    pub(crate) fn settle(flags: &Flags) -> Result<Config> {
        let variables: Vec<(String, String)> = std::env::vars().collect();
        let file = match (&flags.config, variables.iter().find(|(n, _)| n == "PLEACH_CONFIG")) {
            (Some(path), _) => Some(path.clone()),
            (None, Some((_, path))) => Some(PathBuf::from(path)),
            (None, None) => Some(PathBuf::from("pleach.toml")).filter(|p| p.exists()),
        };
        let file = match file {
            None => None,
            Some(path) => {
                let text = std::fs::read_to_string(&path).map_err(|cause| {
                    Error::illegal(format!("cannot read the configuration file [{}]: {cause}", path.display()))
                })?;
                Some((path.display().to_string(), text))
            }
        };
        Config::from_sources(
            flags,
            &variables,
            file.as_ref().map(|(name, text)| (name.as_str(), text.as_str())),
        )
    }

    /// From the three sources, lowest first.
    fn from_sources(flags: &Flags, variables: &[(String, String)], file: Option<(&str, &str)>) -> Result<Config> {
        let mut values = Values::new();
        if let Some((name, text)) = file {
            overlay(&mut values, of_file(name, text)?, name);
        }
        overlay(&mut values, of_variables(variables)?, "environment");
        overlay(&mut values, of_flags(flags)?, "flag");
        if !s3_config::has_default_key(values.keys().map(AsRef::as_ref)) {
            let key = s3_config::of_aws_variables(variables).into_iter();
            overlay(
                &mut values,
                key.map(|(name, value)| (name.into(), vec![value])).collect(),
                "environment",
            );
        }
        Config::check(values)
    }

    fn check(values: Values) -> Result<Config> {
        let text = |name: &str| one(&values, name);
        let persona = parse_persona(&text("persona"))?;
        let listen = listen(&values, persona)?;
        let http2 = text(settings::HTTP2_MAX_STREAMS.name) != "0";
        let tls = TlsFiles::of(&text(CERTIFICATE), &text(KEY), &text(CLIENT_CA), http2)?;
        let security = security(&text(SECURITY), &listen, tls.as_ref())?;
        if !parse_flag(INSECURE_LISTEN, &text(INSECURE_LISTEN))? {
            for (on, _) in &listen {
                on.refuse_open(tls.as_ref(), security)?;
            }
        }
        let events = rest::authentication::Events::parse(AUDIT_EVENTS, &text(AUDIT_EVENTS))?;
        let audit = parse_flag(AUDIT, &text(AUDIT))?.then_some(events);
        // `data` is also given as text of a byte size here and there: an empty path is surely a mistake.
        let data = text("data");
        if data.is_empty() {
            return Err(Error::illegal("[data] is empty: give the folder that holds the data"));
        }
        for setting in settings::ALL.iter().filter(|s| s.scope == Scope::Node) {
            check_shape(setting.name, setting.default, &text(setting.name))?;
        }
        let depths = depths(&values)?;
        let bytes = |setting: settings::Setting| parse_size(setting.name, &text(setting.name));
        let number = |setting: settings::Setting| text(setting.name).parse::<u64>().unwrap_or(1);
        let fixed = node_limits(&values)?;
        let engine_limits = engine_limits(&values)?;
        let access = access(&listen, &values)?;
        let proxies = TrustedProxies::parse(&text(TRUSTED_PROXIES))?;
        let cluster_defaults = cluster_defaults(&values, reach(&listen))?;
        let destructive = Some(text(DESTRUCTIVE)).filter(|given| !given.is_empty());
        Ok(Config {
            data: PathBuf::from(data),
            security,
            audit,
            access,
            proxies,
            cluster_defaults,
            destructive_requires_name: destructive.map(|given| parse_flag(DESTRUCTIVE, &given)).transpose()?,
            listen,
            cluster_name: text("cluster_name"),
            node_name: text("node_name"),
            tls,
            log_levels: logging::parse_levels(&text(LEVEL))?,
            log_format: logging::Format::parse(&text(FORMAT))?,
            changes_path: text(settings::CHANGES_PATH.name),
            product_header: parse_flag("http.product_header", &text("http.product_header"))?,
            body_max_bytes: bytes(settings::HTTP_MAX_CONTENT_LENGTH)?,
            breaker_limits: engine::breaker::BreakerLimits {
                total: bytes(settings::TOTAL_BREAKER)? as u64,
                request: bytes(settings::REQUEST_BREAKER)? as u64,
                in_flight_requests: bytes(settings::HTTP_MAX_IN_FLIGHT)? as u64,
            },
            tasks_kept_max: usize::try_from(number(settings::MAX_TASKS)).unwrap_or(usize::MAX),
            engine_limits,
            depths,
            fixed,
            connections_bounded: None,
            values,
        })
    }

    /// Settings that differ in another configuration and are read at the start only.
    pub(crate) fn fixed_differences(&self, other: &Config) -> Vec<Name> {
        let names = NAMES.iter().map(|(name, ..)| *name);
        let node = settings::ALL.iter().filter(|s| s.scope == Scope::Node).map(|s| s.name);
        let given = |config: &Config, name: &str| match name {
            // Lowered after it was read.
            _ if name == settings::HTTP_MAX_CONNECTIONS.name && config.connections_bounded.is_some() => None,
            _ => Some(
                config
                    .values
                    .get(name)
                    .map_or_else(|| vec![one(&config.values, name)], |(values, _)| values.clone()),
            ),
        };
        let differs = |name: &str| match (given(self, name), given(other, name)) {
            (Some(ours), Some(theirs)) => ours != theirs,
            _ => false,
        };
        let clients = self
            .values
            .keys()
            .chain(other.values.keys())
            .filter(|name| is_of_client(name));
        let clients: BTreeSet<Name> = clients.filter(|name| differs(name.as_ref())).cloned().collect();
        let own = names.chain(node).filter(|name| *name != LEVEL).filter(|name| differs(name));
        own.map(Name::Borrowed).chain(clients).collect()
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
        let origin = format!("lowered from {}: at most {open_files} open files", one(&self.values, name));
        self.values.insert(name.into(), (vec![most.to_string()], origin));
        self.connections_bounded = Some(why);
    }

    /// As a TOML file that would give the same, with the origin of each value.
    pub(crate) fn render(&self) -> String {
        let mut out = String::new();
        let node = settings::ALL
            .iter()
            .filter(|s| s.scope == Scope::Node)
            .map(|s| (s.name, s.about));
        for (name, about) in NAMES.iter().map(|(name, _, _, about)| (*name, *about)).chain(node) {
            let origin = self.values.get(name).map_or("default", |(_, origin)| origin.as_str());
            let value = if name == "listen" {
                let listen = self
                    .listen
                    .iter()
                    .map(|(a, p)| toml::Value::String(format!("{a}={}", persona_name(*p))));
                toml::Value::Array(listen.collect())
            } else {
                toml::Value::String(one(&self.values, name))
            };
            let shadowed = self.values.contains_key("listen") && matches!(name, "http.port" | "network.host");
            let comment = if shadowed { "# " } else { "" };
            // A name that goes on from another's is a key of its own: TOML has no value and table of one name.
            let goes_on = every_name().any(|(other, _)| name.strip_prefix(other).is_some_and(|rest| rest.starts_with('.')));
            let key = if goes_on { format!("\"{name}\"") } else { name.to_owned() };
            out.push_str(&format!("# {about} ({origin})\n{comment}{key} = {value}\n"));
        }
        for (name, (values, origin)) in self.values.iter().filter(|(name, _)| is_of_client(name)) {
            match s3_config::is_secret(name) {
                true => out.push_str(&format!("# {name} is given and not shown ({origin})\n")),
                false => {
                    let value = toml::Value::String(values.last().cloned().unwrap_or_default());
                    out.push_str(&format!("# A client of S3. ({origin})\n{name} = {value}\n"));
                }
            }
        }
        out
    }
}

/// The persona's name in flags.
pub(crate) fn persona_name(persona: Persona) -> &'static str {
    Persona::NAMES
        .iter()
        .find(|(_, p)| *p == persona)
        .map_or("es8", |(name, _)| name)
}

/// The addresses of `listen`, or the one of `network.host` and `http.port`.
fn listen(values: &Values, persona: Persona) -> Result<Vec<(ListenOn, Persona)>> {
    if let Some((listen, _)) = values.get("listen") {
        return listen.iter().map(|l| ListenOn::parse(l, persona)).collect();
    }
    let (host, port) = (one(values, "network.host"), one(values, "http.port"));
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

/// How deep bodies, queries and aggregations may nest.
fn depths(values: &Values) -> Result<model::Depths> {
    let depth = |setting: settings::Setting, most: u16| {
        let given = one(values, setting.name);
        match given.parse::<u16>() {
            Ok(depth) if (1..=most).contains(&depth) => Ok(depth),
            _ => Err(Error::illegal(format!(
                "[{}] is [{given}] but must be between 1 and {most}",
                setting.name
            ))),
        }
    };
    Ok(model::Depths {
        json: depth(settings::JSON_MAX_DEPTH, model::Depths::JSON_MOST)?,
        queries: depth(settings::QUERY_MAX_DEPTH, 1000)?,
        aggs: depth(settings::MAX_AGG_DEPTH, 1000)?,
    })
}

/// The settings of the node that are numbers, sizes in bytes or durations in nanoseconds.
fn node_limits(values: &Values) -> Result<Vec<(settings::Setting, u64)>> {
    let mut out = Vec::new();
    for setting in settings::ALL.iter().filter(|s| s.scope == Scope::Node) {
        let text = one(values, setting.name);
        if settings::is_duration(*setting) {
            let duration = units::parse_duration(&text, setting.name)?;
            // Who looks keeps a thread that others may need.
            if setting.name == settings::HTTP_BUSY_POLL.name && duration > settings::BUSY_POLL_MOST {
                let most = units::render_duration(settings::BUSY_POLL_MOST);
                return Err(Error::illegal(format!(
                    "[{}] is [{text}] but must be at most [{most}]",
                    setting.name
                )));
            }
            let nanos = duration.as_nanos();
            out.push((*setting, u64::try_from(nanos).unwrap_or(u64::MAX)));
            continue;
        }
        // Settings that are neither numbers nor sizes are read by their own parsers.
        let size = || parse_size(setting.name, &text).ok().map(|bytes| bytes as u64);
        out.extend(text.parse().ok().or_else(size).map(|value| (*setting, value)));
    }
    Ok(out)
}

/// The bounds of the engine.
fn engine_limits(values: &Values) -> Result<embedded::Limits> {
    let bytes = |setting: settings::Setting| parse_size(setting.name, &one(values, setting.name));
    let searches = one(values, settings::MAX_CONCURRENT_SEARCHES.name)
        .parse::<usize>()
        .unwrap_or(1);
    let checkpoint_ops = one(values, settings::LOG_CHECKPOINT_OPS.name).parse::<u64>().unwrap_or(1);
    Ok(embedded::Limits {
        pending_bytes: bytes(settings::PENDING)? as u64,
        checkpoint_bytes: bytes(settings::LOG_CHECKPOINT)? as u64,
        queue_bytes: bytes(settings::LOG_QUEUE)? as u64,
        concurrent_searches: searches.max(1),
        checkpoint_ops: checkpoint_ops.max(1),
        log_max_bytes: bytes(settings::LOG_MAX)? as u64,
        ram_segment_bytes: bytes(settings::RAM_SEGMENTS)? as u64,
        answers_bytes: bytes(settings::REQUESTS_CACHE)?,
        documents_bytes: bytes(settings::DOCUMENTS_CACHE)?,
        filters_bytes: bytes(settings::QUERIES_CACHE)?,
        derived_bytes: bytes(settings::FIELDDATA_CACHE)?,
        retention: embedded::Retention {
            bytes: bytes(settings::CHANGES_RETENTION_BYTES)? as u64,
            age: units::parse_duration(
                &one(values, settings::CHANGES_RETENTION_AGE.name),
                settings::CHANGES_RETENTION_AGE.name,
            )?,
            unread_bytes: bytes(settings::CONSUMERS_MAX_BYTES)? as u64,
        },
        repository_paths: repository_paths(&one(values, PATH_REPO))?,
        s3_clients: s3_clients(values)?,
        ..embedded::Limits::default()
    })
}

/// The clients of S3, and whether repositories may name servers themselves.
fn s3_clients(values: &Values) -> Result<Arc<S3Clients>> {
    let own = values.iter().filter(|(name, _)| is_of_client(name));
    let given = own.filter_map(|(name, (values, _))| Some((name.to_string(), values.last()?.clone())));
    s3_config::clients(&given.collect(), parse_flag(ALLOW_ENDPOINT, &one(values, ALLOW_ENDPOINT))?)
}

fn is_of_client(name: &str) -> bool {
    name.starts_with(s3_config::PREFIX)
}

/// The folders of `path.repo`, each whole: a process that changes its folder finds them all the same.
fn repository_paths(list: &str) -> Result<Vec<PathBuf>> {
    let given = list.split(',').map(str::trim).filter(|path| !path.is_empty());
    let whole = |path: &str| {
        std::path::absolute(path)
            .map_err(|cause| Error::illegal(format!("[{PATH_REPO}] has [{path}], which is no path: {cause}")))
    };
    given.map(whole).collect()
}

/// A setting's only (last) value, else its default.
fn one(values: &Values, name: &str) -> String {
    let given = values.get(name).and_then(|(v, _)| v.last());
    given.cloned().unwrap_or_else(|| default_of(name))
}

fn default_of(name: &str) -> String {
    let ours = NAMES.iter().find(|(n, ..)| *n == name).map(|(_, _, default, _)| *default);
    ours.or_else(|| settings::find(name).map(|s| s.default))
        .unwrap_or_default()
        .to_owned()
}

/// Puts a source over what lies below it.
fn overlay(values: &mut Values, source: Vec<(Name, Vec<String>)>, origin: &str) {
    let named = |name: &str| source.iter().any(|(n, _)| *n == name);
    if !named("listen") && (named("http.port") || named("network.host")) {
        // Both say where to listen: the higher source wins.
        values.remove("listen");
    }
    for (name, given) in source {
        values.insert(name, (given, origin.to_owned()));
    }
}

fn of_flags(flags: &Flags) -> Result<Vec<(Name, Vec<String>)>> {
    let mut out = Vec::new();
    for setting in &flags.set {
        let Some((name, value)) = setting.split_once('=') else {
            return Err(Error::illegal(format!("-E [{setting}] has no value: write NAME=VALUE")));
        };
        out.push((canonical(name.trim(), "-E")?, vec![value.trim().to_owned()]));
    }
    let plain = [
        ("data", &flags.data),
        ("persona", &flags.persona),
        ("cluster_name", &flags.cluster_name),
        ("node_name", &flags.node_name),
        (CERTIFICATE, &flags.tls_certificate),
        (KEY, &flags.tls_key),
        (CLIENT_CA, &flags.tls_client_ca),
        (LEVEL, &flags.log_level),
        (FORMAT, &flags.log_format),
    ];
    out.extend(
        plain
            .into_iter()
            .filter_map(|(name, value)| Some((name.into(), vec![value.clone()?]))),
    );
    if flags.insecure_listen {
        out.push((INSECURE_LISTEN.into(), vec!["true".to_owned()]));
    }
    if !flags.listen.is_empty() {
        out.push(("listen".into(), flags.listen.clone()));
    }
    Ok(out)
}

/// Variables with our prefix that are no settings: the file; what `pleach lock run` tells a command, which may be a server; the
/// credentials and profiles of the commands that ask one server or two.
const OTHER_VARIABLES: [&str; 14] = [
    "CONFIG",
    "COMMIT",
    "LOCK_ID",
    "FENCING_TOKEN",
    "USER",
    "PASSWORD",
    "API_KEY",
    "TO_USER",
    "TO_PASSWORD",
    "TO_API_KEY",
    "FROM_PASSWORD",
    "FROM_API_KEY",
    "PROFILE",
    "PROFILES",
];

/// `PLEACH_HTTP_PORT` is `http.port`.
fn of_variables(variables: &[(String, String)]) -> Result<Vec<(Name, Vec<String>)>> {
    let mut out = Vec::new();
    for (variable, value) in variables {
        let Some(name) = variable.strip_prefix("PLEACH_") else {
            continue;
        };
        // Kubernetes sets these for a service that is called pleach.
        if OTHER_VARIABLES.contains(&name) || name.starts_with("SERVICE_") || name == "PORT" || name.starts_with("PORT_") {
            continue;
        }
        if let Some(name) = s3_config::of_variable(name) {
            out.push((name.into(), vec![value.clone()]));
            continue;
        }
        let flat = |known: &str| known.replace(['.', '-'], "_").to_uppercase();
        let Some((_, found)) = every_name().find(|(known, _)| flat(known) == name) else {
            let known: Vec<String> = every_name().map(|(known, _)| flat(known)).collect();
            let nearest = model::nearest::nearest(name, known.iter().map(String::as_str));
            return Err(unknown(
                &format!("variable [{variable}]"),
                nearest.map(|n| format!("PLEACH_{n}")),
            ));
        };
        let values = if found == "listen" {
            value.split(',').map(|v| v.trim().to_owned()).collect()
        } else {
            vec![value.clone()]
        };
        out.push((found.into(), values));
    }
    Ok(out)
}

fn of_file(file: &str, text: &str) -> Result<Vec<(Name, Vec<String>)>> {
    let table: toml::Table = text
        .parse()
        .map_err(|cause| Error::illegal(format!("the configuration file [{file}] is not TOML: {cause}")))?;
    let mut out = Vec::new();
    flatten(&table, "", &mut |name, value| {
        let canonical = canonical(name, file)?;
        let scalar = |value: &toml::Value| match value {
            toml::Value::String(s) => Ok(s.clone()),
            toml::Value::Integer(_) | toml::Value::Boolean(_) | toml::Value::Float(_) => Ok(value.to_string()),
            _ => Err(Error::illegal(format!(
                "[{name}] in [{file}] must be a string, a number or a boolean"
            ))),
        };
        let values = match value {
            toml::Value::Array(many) if canonical == "listen" => many.iter().map(scalar).collect::<Result<Vec<_>>>()?,
            toml::Value::Array(many) if canonical == PATH_REPO => {
                vec![many.iter().map(scalar).collect::<Result<Vec<_>>>()?.join(",")]
            }
            single => vec![scalar(single)?],
        };
        out.push((canonical, values));
        Ok(())
    })?;
    Ok(out)
}

/// Every leaf of a table with its dotted name.
fn flatten(table: &toml::Table, prefix: &str, visit: &mut dyn FnMut(&str, &toml::Value) -> Result<()>) -> Result<()> {
    for (key, value) in table {
        let name = if prefix.is_empty() {
            key.clone()
        } else {
            format!("{prefix}.{key}")
        };
        match value {
            toml::Value::Table(inner) => flatten(inner, &name, visit)?,
            leaf => visit(&name, leaf)?,
        }
    }
    Ok(())
}

/// Every name that may be given, with the canonical one.
fn every_name() -> impl Iterator<Item = (&'static str, &'static str)> {
    let ours = NAMES
        .iter()
        .flat_map(|(name, other, ..)| [(*name, *name), (*other, *name)])
        .filter(|(name, _)| !name.is_empty());
    ours.chain(
        settings::ALL
            .iter()
            .filter(|s| s.scope == Scope::Node)
            .map(|s| (s.name, s.name)),
    )
}

fn canonical(name: &str, origin: &str) -> Result<Name> {
    if is_of_client(name) {
        s3_config::check_name(name, origin)?;
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

fn unknown(what: &str, nearest: Option<String>) -> Error {
    let hint = nearest.map_or_else(
        || "see --print-config for all of them".to_owned(),
        |n| format!("did you mean [{n}]?"),
    );
    Error::illegal(format!("unknown {what}: {hint}"))
}

/// Who may ask, besides loopback: the addresses that are listened on, the hosts that are named, the origins if CORS is on.
fn access(listen: &[(ListenOn, Persona)], values: &Values) -> Result<Access> {
    let text = |name: &str| one(values, name);
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
    if !parse_flag(CORS_ENABLED, &text(CORS_ENABLED))? {
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
        let given = one(values, name);
        let words: Vec<&str> = given.split(',').map(str::trim).filter(|word| !word.is_empty()).collect();
        match words.iter().find(|word| !is_token(word)) {
            Some(word) => Err(Error::illegal(format!(
                "[{name}] has [{word}], which is no name: separate names by commas"
            ))),
            None => Ok(words.join(",")),
        }
    };
    let age = one(values, CORS_MAX_AGE);
    let credentials = parse_flag(CORS_ALLOW_CREDENTIALS, &one(values, CORS_ALLOW_CREDENTIALS))?;
    if credentials && Origins::parse(&one(values, CORS_ALLOW_ORIGIN))?.is_any() {
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
        .map(|setting| (setting.name, one(values, setting.name)));
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

fn parse_flag(name: &str, text: &str) -> Result<bool> {
    text.parse()
        .map_err(|_| Error::illegal(format!("[{name}] is [{text}]: must be true or false")))
}

/// A size such as `100mb`, or a part of the memory that the process may use, such as `10%`.
fn parse_size(name: &str, text: &str) -> Result<usize> {
    let bytes = match text.strip_suffix('%').map(|p| p.trim().parse::<u64>()) {
        Some(Ok(percent)) if (1..=100).contains(&percent) => crate::memory::available_bytes() / 100 * percent,
        Some(_) => {
            return Err(Error::illegal(format!(
                "[{name}] is [{text}]: a percentage is between 1% and 100%"
            )));
        }
        None => units::parse_bytes(text, name)?,
    };
    usize::try_from(bytes).map_err(|_| Error::illegal(format!("[{name}] is [{text}]: more than this machine can address")))
}

/// Settings that are one of some words.
const WORDS: &[(settings::Setting, &[&str])] = &[(settings::CHANGES_PATH, &["auto", "portable"])];

/// A value must look like the row's default: a size, or a whole number.
fn check_shape(name: &str, default: &str, value: &str) -> Result<()> {
    if let Some((_, words)) = WORDS.iter().find(|(setting, _)| setting.name == name) {
        if words.contains(&value) {
            return Ok(());
        }
        return Err(Error::illegal(format!(
            "[{name}] is [{value}]: must be one of [{}]",
            words.join(", ")
        )));
    }
    if default.parse::<u64>().is_ok() {
        let parsed = value.parse::<u64>();
        return parsed
            .map(|_| ())
            .map_err(|_| Error::illegal(format!("[{name}] is [{value}]: must be a whole number")));
    }
    if units::parse_duration(default, name).is_ok() {
        return units::parse_duration(value, name).map(|_| ());
    }
    parse_size(name, value).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(flags: &[&str], variables: &[(&str, &str)], file: &str, expected: Result<&str, &str>) {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            flags: Flags,
        }
        let line = <Line as clap::Parser>::parse_from([&["pleach"], flags].concat());
        let variables: Vec<(String, String)> = variables.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        let got = Config::from_sources(&line.flags, &variables, Some(("f.toml", file)));
        match (got, expected) {
            (Ok(config), Ok(line)) => {
                let text = config.render();
                assert!(text.lines().any(|l| l == line), "no line [{line}] in\n{text}");
                let again = Config::from_sources(&Flags::default(), &[], Some(("f.toml", &text))).unwrap();
                assert_eq!(again.listen, config.listen, "what --print-config says can be read again");
            }
            (Err(error), Err(part)) => assert!(error.reason().contains(part), "{error}"),
            (got, expected) => panic!("{:?} instead of {expected:?}", got.map(|c| c.render())),
        }
    }

    #[test]
    fn sources() {
        check(&[], &[], "", Ok(r#"listen = ["127.0.0.1:9200=es8"]"#));
        check(&[], &[], "http.port = 9300", Ok(r#"listen = ["127.0.0.1:9300=es8"]"#));
        check(
            &[],
            &[("PLEACH_HTTP_PORT", "9400")],
            "http.port = 9300",
            Ok(r#"listen = ["127.0.0.1:9400=es8"]"#),
        );
        check(
            &["--listen", "127.0.0.1:0=es2"],
            &[("PLEACH_HTTP_PORT", "9400")],
            "",
            Ok(r#"listen = ["127.0.0.1:0=es2"]"#),
        );
        check(
            &["-E", "http.port=9500"],
            &[("PLEACH_LISTEN", "1234,1235=es9")],
            "",
            Ok(r#"listen = ["127.0.0.1:9500=es8"]"#),
        );
        check(
            &[],
            &[("PLEACH_LISTEN", "1234,1235=es9")],
            "persona = 'es7'",
            Ok(r#"listen = ["127.0.0.1:1234=es7", "127.0.0.1:1235=es9"]"#),
        );
        check(&[], &[], "[cluster]\nname = 'blue'", Ok(r#"cluster_name = "blue""#));
        check(
            &["--listen", "0.0.0.0:9200", "--insecure-listen"],
            &[],
            "",
            Ok(r#"listen = ["0.0.0.0:9200=es8"]"#),
        );
        check(
            &[
                "--listen",
                "0.0.0.0:9200",
                "--tls-certificate",
                "a",
                "--tls-key",
                "b",
                "--tls-client-ca",
                "c",
            ],
            &[],
            "",
            Ok(r#"http.tls.client_ca = "c""#),
        );
        check(&["--data", "x"], &[], "path.data = 'y'", Ok(r#"data = "x""#));
        check(
            &["--log-level", "warn,http=debug"],
            &[],
            "",
            Ok(r#"log.level = "warn,http=debug""#),
        );
        check(&[], &[], "log.format = 'json'", Ok(r#"log.format = "json""#));
        check(
            &[],
            &[],
            "http.max_content_length = '5mb'",
            Ok(r#"http.max_content_length = "5mb""#),
        );
        check(
            &["-E", "action.destructive_requires_name=false"],
            &[("PLEACH_HTTP_ALLOWED_HOSTS", "search.example, es")],
            "",
            Ok(r#"http.allowed_hosts = "search.example, es""#),
        );
        check(
            &[],
            &[("PLEACH_SERVICE_HOST", "10.0.0.1")],
            "network.host = '::1'",
            Ok(r#"listen = ["[::1]:9200=es8"]"#),
        );
    }

    #[test]
    fn connections_follow_the_limit_of_open_files() {
        let mut config = Config::from_sources(&Flags::default(), &[], None).unwrap();
        config.bound_connections(1 << 20);
        assert_eq!(config.connections_bounded, None, "there is room for all");
        config.bound_connections(1024);
        let bound = config.connections_bounded.clone().unwrap_or_default();
        assert!(bound.contains("[768] instead of [16384]"), "{bound}");
        assert!(config.render().contains("lowered from 16384"), "{}", config.render());
        let row = config
            .fixed
            .iter()
            .find(|(s, _)| s.name == settings::HTTP_MAX_CONNECTIONS.name);
        assert_eq!(row.map(|(_, value)| *value), Some(768));
    }

    #[test]
    fn refusals() {
        check(&[], &[], "cluster.nam = 'x'", Err("did you mean [cluster.name]?"));
        check(&[], &[("PLEACH_PERSOAN", "es8")], "", Err("did you mean [PLEACH_PERSONA]?"));
        check(&["-E", "http.prot=1"], &[], "", Err("did you mean [http.port]?"));
        check(&["-E", "http.port"], &[], "", Err("write NAME=VALUE"));
        check(&["--persona", "es5"], &[], "", Err("did you mean"));
        check(
            &["--listen", "0.0.0.0:9200"],
            &[],
            "",
            Err("refusing to listen on [0.0.0.0:9200]"),
        );
        check(&[], &[], "network.host = '192.168.1.1'", Err("without TLS and users"));
        let with_tls = ["--listen", "0.0.0.0:1", "--tls-certificate", "a", "--tls-key", "b"];
        check(&with_tls, &[], "security.enabled = false", Err("[security.enabled] is false"));
        check(&with_tls, &[], "", Ok(r#"listen = ["0.0.0.0:1=es8"]"#));
        check(
            &["--listen", "0.0.0.0:1"],
            &[],
            "security.enabled = true",
            Err("without TLS everybody on the way"),
        );
        check(
            &[],
            &[],
            "security.audit.events = 'acces_denied'",
            Err("did you mean [access_denied]?"),
        );
        check(&["--tls-certificate", "a"], &[], "", Err("without [http.tls.key]"));
        check(
            &["--tls-client-ca", "a"],
            &[],
            "",
            Err("[http.tls.client_ca] is given without [http.tls.certificate]"),
        );
        check(&["--listen", "nowhere"], &[], "", Err("ADDR:PORT"));
        check(&[], &[], "search.max_buckets = 1", Err("PUT /_cluster/settings"));
        check(&[], &[], "index.refresh_interval = '1s'", Err("the settings of an index"));
        check(&[], &[], "search.max_concurrent = 'many'", Err("whole number"));
        check(&[], &[], "changes.path = 'fast'", Err("one of [auto, portable]"));
        check(&[], &[], "http.max_content_length = '5'", Err("unit"));
        check(
            &["-E", "http.busy_poll=2ms"],
            &[],
            "",
            Err("[http.busy_poll] is [2ms] but must be at most [1ms]"),
        );
        check(&["-E", "http.allowed_hosts=http://x"], &[], "", Err("must be a host name"));
        check(
            &["-E", "http.cors.allow-origin=https://a.example"],
            &[],
            "",
            Err("has no effect while [http.cors.enabled] is false"),
        );
        check(&["-E", "http.cors.enabled=true"], &[], "", Err("allows nobody"));
        check(&["-E", "http.cors.enabled=yes"], &[], "", Err("must be true or false"));
        check(
            &["-E", "http.cors.enabled=true", "-E", "http.cors.allow-origin=/https?:.*/"],
            &[],
            "",
            Ok(r#"http.cors.allow-origin = "/https?:.*/""#),
        );
        for (setting, part) in [
            ("http.cors.allow-origin=/https?:(/", "which is no expression"),
            ("http.cors.allow-origin=https://*.example", "must be an origin"),
            ("http.cors.allow-methods=GET POST", "has [GET POST], which is no name"),
            ("http.cors.allow-headers=a:b", "has [a:b], which is no name"),
            ("http.cors.max-age=1d", "whole number of seconds"),
            ("http.cors.allow-credentials=true", "would let every web page act"),
        ] {
            let origin = if setting.contains("origin") {
                "http.cors.enabled=true"
            } else {
                "http.cors.allow-origin=*"
            };
            check(
                &["-E", "http.cors.enabled=true", "-E", origin, "-E", setting],
                &[],
                "",
                Err(part),
            );
        }
        check(
            &["-E", "http.cors.max-age=5"],
            &[],
            "",
            Err("has no effect while [http.cors.enabled] is false"),
        );
        check(&["-E", "http.trusted_proxies=10.0.0.0/40"], &[], "", Err("has [10.0.0.0/40]"));
        check(&["--listen", "unix:/run/"], &[], "", Err("is no unix socket"));
        check(
            &["--listen", "unix:p.sock=es2"],
            &[],
            "",
            Ok(r#"listen = ["unix:p.sock=es2"]"#),
        );
        let flood = "cluster.routing.allocation.disk.watermark.flood_stage";
        check(&["-E", &format!("{flood}=1gb")], &[], "", Err("unable to consistently parse"));
        check(&["-E", &format!("{flood}=99%")], &[], "", Ok(&format!("{flood} = \"99%\"")));
        check(
            &["-E", "action.destructive_requires_name=1"],
            &[],
            "",
            Err("must be true or false"),
        );
        check(&[], &[], "data = ", Err("not TOML"));
        check(&["--log-level", "inf"], &[], "", Err("did you mean [info]?"));
        check(&[], &[("PLEACH_LOG_FORMAT", "jsno")], "", Err("did you mean [json]?"));
    }
}
