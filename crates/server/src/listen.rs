//! Addresses to listen on: read, refused where everybody could reach them, bound.
//!
//! A unix socket is for its user alone (0600), without TLS. One that an earlier process left is replaced, if nobody answers
//! there. Not here: which of them a configuration has (`config`), accepting connections (`rest`).

use crate::tls::TlsFiles;
use model::{Error, ErrorKind, Persona, Result};
use rest::ListeningSocket;
use std::fmt;
use std::fs::Permissions;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use tokio::net::{TcpListener, UnixListener};

/// How the address of a unix socket begins.
const UNIX: &str = "unix:";
/// The longest path of a unix socket that Linux takes.
const PATH_MAX_BYTES: usize = 107;
const SOCKET_MODE: u32 = 0o600;

/// A persona by its name.
///
/// # Errors
/// There is none of that name; the reason has the nearest.
pub(crate) fn parse_persona(name: &str) -> Result<Persona> {
    Persona::from_name(name).ok_or_else(|| {
        let names: Vec<&str> = Persona::NAMES.iter().map(|(n, _)| *n).collect();
        let hint = model::nearest::nearest(name, names.iter().copied())
            .map_or_else(|| format!("one of {}", names.join(", ")), |n| format!("did you mean [{n}]?"));
        Error::illegal(format!("unknown persona [{name}]: {hint}"))
    })
}

/// The name of a persona, as [`parse_persona`] takes it.
pub(crate) fn persona_name(persona: Persona) -> &'static str {
    let mut names = Persona::NAMES.iter();
    names.find(|(_, known)| *known == persona).map_or("es8", |(name, _)| name)
}

/// An address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ListenOn {
    Tcp(SocketAddr),
    /// The file of a unix socket.
    Unix(PathBuf),
}

impl fmt::Display for ListenOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenOn::Tcp(address) => write!(f, "{address}"),
            ListenOn::Unix(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}

impl ListenOn {
    /// Reads `ADDR:PORT[=PERSONA]` or `unix:PATH[=PERSONA]`; a port alone is on loopback.
    ///
    /// # Errors
    /// An address that is none.
    pub(crate) fn parse(text: &str, default: Persona) -> Result<(ListenOn, Persona)> {
        if let Some(rest) = text.strip_prefix(UNIX) {
            // A path may have the sign as well: only a persona behind the last one counts.
            let with_persona = rest.rsplit_once('=').filter(|(_, name)| !name.contains('/'));
            let (path, persona) = match with_persona {
                Some((path, name)) => (path, parse_persona(name)?),
                None => (rest, default),
            };
            if path.is_empty() || path.ends_with('/') || path.len() > PATH_MAX_BYTES {
                return Err(Error::illegal(format!(
                    "[{text}] is no unix socket: write unix:PATH or unix:PATH=PERSONA, with a path of a file of at most {PATH_MAX_BYTES} bytes"
                )));
            }
            return Ok((ListenOn::Unix(PathBuf::from(path)), persona));
        }
        let (address, persona) = match text.split_once('=') {
            Some((address, persona)) => (address, parse_persona(persona)?),
            None => (text, default),
        };
        let address = address.replace("localhost:", "127.0.0.1:");
        let parsed = match address.parse::<u16>() {
            Ok(port) => Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)),
            Err(_) => address.parse::<SocketAddr>().ok(),
        };
        let parsed = parsed.ok_or_else(|| {
            Error::illegal(format!(
                "[{text}] is no address to listen on: write ADDR:PORT or ADDR:PORT=PERSONA, as 127.0.0.1:9200=es8, or unix:PATH"
            ))
        })?;
        Ok((ListenOn::Tcp(parsed), persona))
    }

    /// Its address, where it has one.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        match self {
            ListenOn::Tcp(address) => Some(*address),
            ListenOn::Unix(_) => None,
        }
    }

    /// Can only processes of this machine reach it?
    pub(crate) fn is_local(&self) -> bool {
        self.address().is_none_or(|address| address.ip().is_loopback())
    }

    /// Others may reach the server only if they prove who they are, and if no password is sent in the clear.
    ///
    /// # Errors
    /// They could; the reason names the way out.
    pub(crate) fn refuse_open(&self, tls: Option<&TlsFiles>, security: bool) -> Result<()> {
        if self.is_local() || tls.is_some_and(|tls| security || tls.client_ca.is_some()) {
            return Ok(());
        }
        let why = match (security, tls) {
            (true, _) => "without TLS everybody on the way could read passwords and documents",
            (false, None) => "without TLS and users everybody who can reach the address could read and delete everything",
            (false, Some(_)) => {
                "[security.enabled] is false, so everybody who can reach the address could read and delete everything"
            }
        };
        let reason = format!(
            "refusing to listen on [{self}]: {why}. Give --tls-certificate and --tls-key (pleach cert makes them): with them users have to log \
             in; or listen on 127.0.0.1 behind a proxy that authenticates, or say --insecure-listen"
        );
        Err(Error::new(ErrorKind::Security, reason))
    }

    /// Begins to listen; the address is the one that was bound, where port 0 was asked for.
    ///
    /// # Errors
    /// It is in use, or cannot be listened on.
    pub(crate) async fn bind(&self) -> Result<(ListeningSocket, ListenOn)> {
        match self {
            ListenOn::Tcp(address) => {
                let socket = TcpListener::bind(address).await.map_err(|cause| unbound(*address, &cause))?;
                let bound = socket.local_addr().unwrap_or(*address);
                Ok((ListeningSocket::Tcp(socket), ListenOn::Tcp(bound)))
            }
            ListenOn::Unix(path) => {
                let socket = bind_unix(path).map_err(|cause| Error::illegal(format!("cannot listen on [{self}]: {cause}")))?;
                Ok((ListeningSocket::Unix(socket), self.clone()))
            }
        }
    }
}

/// Why an address cannot be listened on, with the way out.
fn unbound(address: SocketAddr, cause: &io::Error) -> Error {
    let reason = if cause.kind() == io::ErrorKind::AddrInUse {
        let other = SocketAddr::new(address.ip(), address.port().wrapping_add(1).max(1024));
        format!("[{address}] is in use by another process; choose another with --listen {other}")
    } else {
        format!("cannot listen on [{address}]: {cause}")
    };
    Error::illegal(reason)
}

/// Makes the socket under a name beside its own, and gives it its name when its mode is right: nobody connects before.
fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    let refused = |why: &str| io::Error::new(io::ErrorKind::AddrInUse, why);
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => return Err(refused("there is a file that is no socket")),
        Ok(_) => match std::os::unix::net::UnixStream::connect(path) {
            Ok(_) => return Err(refused("another process listens there")),
            Err(cause) if cause.kind() == io::ErrorKind::ConnectionRefused => {}
            Err(cause) => return Err(cause),
        },
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => {}
        Err(cause) => return Err(cause),
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}", std::process::id() % 10_000));
    let beside = PathBuf::from(beside);
    // One of a process of the same number that ended here.
    let _ = std::fs::remove_file(&beside);
    let socket = UnixListener::bind(&beside)?;
    let named =
        std::fs::set_permissions(&beside, Permissions::from_mode(SOCKET_MODE)).and_then(|()| std::fs::rename(&beside, path));
    if let Err(cause) = named {
        let _ = std::fs::remove_file(&beside);
        return Err(cause);
    }
    Ok(socket)
}

/// The file of a unix socket, removed at the end unless another process has replaced it.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    /// Device and number of the file.
    identity: (u64, u64),
}

impl SocketFile {
    /// Of what was bound.
    pub(crate) fn of(bound: &ListenOn) -> Option<SocketFile> {
        let ListenOn::Unix(path) = bound else { return None };
        let identity = identity(path)?;
        Some(SocketFile {
            path: path.clone(),
            identity,
        })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path) == Some(self.identity) {
            // The next start replaces it otherwise.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let found = std::fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let check = |text: &str, expected: Option<(&str, Persona)>| {
            let found = ListenOn::parse(text, Persona::Es8).ok();
            let found = found.map(|(address, persona)| (address.to_string(), persona));
            assert_eq!(
                found,
                expected.map(|(address, persona)| (address.to_owned(), persona)),
                "{text}"
            );
        };
        check("1234", Some(("127.0.0.1:1234", Persona::Es8)));
        check("localhost:1=es2", Some(("127.0.0.1:1", Persona::Es2)));
        check("[::1]:1", Some(("[::1]:1", Persona::Es8)));
        check("unix:/run/p.sock", Some(("unix:/run/p.sock", Persona::Es8)));
        check("unix:/run/p.sock=es2", Some(("unix:/run/p.sock", Persona::Es2)));
        check("unix:/a=b/p.sock", Some(("unix:/a=b/p.sock", Persona::Es8)));
        check("unix:p.sock", Some(("unix:p.sock", Persona::Es8)));
        check("unix:", None);
        check("unix:/run/", None);
        check("unix:/run/p.sock=es5", None);
        check(&format!("unix:/{}", "x".repeat(PATH_MAX_BYTES)), None);
        check("nowhere", None);
    }

    #[tokio::test]
    async fn a_socket_that_nobody_listens_on_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.sock");
        let on = ListenOn::Unix(path.clone());
        let (socket, bound) = on.bind().await.unwrap();
        let file = SocketFile::of(&bound);
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, SOCKET_MODE);
        let in_use = on.bind().await.unwrap_err();
        assert!(in_use.reason().contains("another process listens there"), "{in_use}");
        drop(socket);
        // Nobody answers: the next one takes the name, and the former leaves it alone.
        let (_socket, bound) = on.bind().await.unwrap();
        drop(file);
        assert!(path.exists());
        drop(SocketFile::of(&bound));
        assert!(!path.exists() && std::fs::read_dir(folder.path()).unwrap().next().is_none());
        std::fs::write(&path, "text").unwrap();
        let refused = on.bind().await.unwrap_err();
        assert!(refused.reason().contains("no socket"), "{refused}");
        assert_eq!(std::fs::read(&path).unwrap(), b"text");
    }
}
