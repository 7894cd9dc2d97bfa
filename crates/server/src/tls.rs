//! Certificates and keys from PEM files, for the listener and for commands that ask a server.
//!
//! TLS 1.2 and 1.3 by rustls with its ring provider. Not here: making certificates (`commands::cert`), handshakes
//! (`rest::transport`).

use crate::client::Side;
use model::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};

/// The settings of the files.
pub(crate) const CERTIFICATE: &str = "http.tls.certificate";
pub(crate) const KEY: &str = "http.tls.key";
pub(crate) const CLIENT_CA: &str = "http.tls.client_ca";

/// Files that a listener with TLS reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TlsFiles {
    /// The certificate of the server, then those between it and its authority.
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    /// Authorities of clients: who has no certificate of theirs is refused.
    pub(crate) client_ca: Option<PathBuf>,
    /// Clients may choose HTTP/2.
    pub(crate) http2: bool,
}

impl TlsFiles {
    /// From the values of the settings, where an empty one is not given.
    ///
    /// # Errors
    /// One of the certificate and its key without the other; an authority of clients without a certificate.
    pub(crate) fn of(certificate: &str, key: &str, client_ca: &str, http2: bool) -> Result<Option<TlsFiles>> {
        let path = |text: &str| (!text.is_empty()).then(|| PathBuf::from(text));
        match (path(certificate), path(key), path(client_ca)) {
            (None, None, None) => Ok(None),
            (Some(certificate), Some(key), client_ca) => Ok(Some(TlsFiles {
                certificate,
                key,
                client_ca,
                http2,
            })),
            (Some(_), None, _) => Err(Error::illegal(format!("[{CERTIFICATE}] is given without [{KEY}]"))),
            (None, _, _) => {
                let given = if key.is_empty() { CLIENT_CA } else { KEY };
                Err(Error::illegal(format!("[{given}] is given without [{CERTIFICATE}]")))
            }
        }
    }

    /// Reads the files.
    ///
    /// # Errors
    /// A file that cannot be read or is no PEM; a key that is not the certificate's.
    pub(crate) fn read(&self) -> Result<Arc<ServerConfig>> {
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|cause| Error::illegal(format!("TLS cannot be used: {cause}")))?;
        let builder = match &self.client_ca {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let mut roots = RootCertStore::empty();
                for certificate in certificates(path, CLIENT_CA)? {
                    roots
                        .add(certificate)
                        .map_err(|cause| unusable(path, CLIENT_CA, &cause.to_string()))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
                builder.with_client_cert_verifier(verifier.map_err(|cause| unusable(path, CLIENT_CA, &cause.to_string()))?)
            }
        };
        let chain = certificates(&self.certificate, CERTIFICATE)?;
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(|cause| unusable(&self.key, KEY, &cause.to_string()))?;
        let mut config = builder.with_single_cert(chain, key).map_err(|cause| {
            unusable(
                &self.certificate,
                CERTIFICATE,
                &format!("{cause}, with the key [{}]", self.key.display()),
            )
        })?;
        let protocols = [(rest::ALPN_HTTP2, self.http2), (b"http/1.1".as_slice(), true)];
        config.alpn_protocols = protocols
            .iter()
            .filter(|(_, on)| *on)
            .map(|(name, _)| name.to_vec())
            .collect();
        Ok(Arc::new(config))
    }
}

/// Where Linux distributions keep the authorities that they trust.
const SYSTEM_AUTHORITIES: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
];

fn system_authorities() -> Option<&'static Path> {
    SYSTEM_AUTHORITIES.map(Path::new).into_iter().find(|path| path.exists())
}

/// What a client trusts that asks servers of the world: the authorities of the system, or those of the file that the variable
/// SSL_CERT_FILE names, as for programs that use OpenSSL.
///
/// # Errors
/// As [`client_config`].
#[cfg(feature = "s3")]
pub(crate) fn system_trust() -> Result<Arc<ClientConfig>> {
    let named = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let path = named.as_deref().or(system_authorities());
    let missing = || {
        Error::illegal("the system has no list of authorities that sign certificates: name one with the variable SSL_CERT_FILE")
    };
    client_config(Some(path.ok_or_else(missing)?), None, Side::SERVER)
}

/// What a client of a server trusts, and the certificate and key by which it proves who it is.
///
/// # Errors
/// Files that cannot be read or are no PEM.
pub(crate) fn client_config(ca: Option<&Path>, own: Option<(&Path, &Path)>, of: Side) -> Result<Arc<ClientConfig>> {
    let flag = of.flag("ca");
    let path = ca.or(system_authorities());
    let path = path.ok_or_else(|| {
        Error::illegal(format!(
            "the system has no list of authorities: name that of {} with {flag}",
            of.name
        ))
    })?;
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(certificates(path, &flag)?);
    if added == 0 {
        return Err(unusable(path, &flag, "it has no certificate of an authority"));
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|cause| Error::illegal(format!("TLS cannot be used: {cause}")))?
        .with_root_certificates(roots);
    let config = match own {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = certificates(certificate, &of.flag("cert"))?;
            let read = PrivateKeyDer::from_pem_file(key).map_err(|cause| unusable(key, &of.flag("key"), &cause.to_string()))?;
            let built = builder.with_client_auth_cert(chain, read);
            built.map_err(|cause| unusable(certificate, &of.flag("cert"), &cause.to_string()))?
        }
    };
    Ok(Arc::new(config))
}

/// The certificates of a file, at least one.
fn certificates(path: &Path, setting: &str) -> Result<Vec<CertificateDer<'static>>> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<std::result::Result<Vec<_>, _>>);
    let found: Vec<CertificateDer<'static>> = read.map_err(|cause| unusable(path, setting, &cause.to_string()))?;
    if found.is_empty() {
        return Err(unusable(path, setting, "it has no certificate"));
    }
    Ok(found)
}

fn unusable(path: &Path, setting: &str, why: &str) -> Error {
    Error::illegal(format!("[{setting}] is [{}], which cannot be used: {why}", path.display()))
}
