//! The flags of `serve`.
//!
//! Not here: which source wins (`sources`).

use super::names::{INSECURE_LISTEN, Name, canonical};
use crate::logging::{FORMAT, LEVEL};
use crate::tls::{CERTIFICATE, CLIENT_CA, KEY};
use model::{Error, Result};
use std::path::PathBuf;

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

/// The settings that flags give.
pub(super) fn of_flags(flags: &Flags) -> Result<Vec<(Name, Vec<String>)>> {
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
