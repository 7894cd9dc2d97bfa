//! A small HTTP/1.1 client for the commands that ask a running server: one kept connection to one server, whole bodies.
//!
//! Not here: which server (`server_flags`), certificates (`tls`), redirects, chunked requests.

use flate2::Compression;
use flate2::write::GzEncoder;
use model::{Error, ErrorKind, Result};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, StreamOwned};

/// The media type of JSON.
pub(crate) const JSON: &str = "application/json";
/// The longest an answer may be: a bulk answer of many small documents is a few megabytes.
const ANSWER_MAX_BYTES: u64 = 256 << 20;
/// The longest body that is sent as one piece with its head.
const COPIED_MAX_BYTES: usize = 16 << 10;
/// Shorter bodies go as they are, also where bodies are packed.
const PACKED_MIN_BYTES: usize = 1024;
/// A bulk that waits longer than this waits for a server that is gone.
const PATIENCE: Duration = Duration::from_secs(120);

/// Which of the servers of a command is meant: in messages, and in the names of flags and variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Side {
    /// As messages name it.
    pub(crate) name: &'static str,
    /// Flags begin with it.
    prefix: &'static str,
}

impl Side {
    /// The one server of a command.
    pub(crate) const SERVER: Side = Side {
        name: "the server",
        prefix: "",
    };
    /// The server that is followed, by the flags of every command.
    pub(crate) const FOLLOWED: Side = Side {
        name: "the source",
        prefix: "",
    };
    /// The server that an import reads.
    pub(crate) const SOURCE: Side = Side {
        name: "the source",
        prefix: "from-",
    };
    /// The server that is kept equal.
    pub(crate) const TARGET: Side = Side {
        name: "the target",
        prefix: "to-",
    };

    /// The flag of this name: `--to-user`.
    pub(crate) fn flag(self, name: &str) -> String {
        format!("--{}{name}", self.prefix)
    }

    /// The variable of this name: `PLEACH_TO_PASSWORD`.
    pub(crate) fn variable(self, name: &str) -> String {
        format!("PLEACH_{}{name}", self.prefix.to_ascii_uppercase().replace('-', "_"))
    }

    /// The flag that names the server.
    fn url_flag(self) -> String {
        match self.prefix.strip_suffix('-') {
            Some(word) => format!("--{word}"),
            None => "--url".to_owned(),
        }
    }
}

impl Default for Side {
    fn default() -> Side {
        Side::SERVER
    }
}

/// A connection to a server.
pub(crate) struct Client {
    /// Which server it is.
    pub(crate) side: Side,
    /// `host:port`; `unix:PATH` of a unix socket.
    authority: String,
    /// The file of a unix socket.
    socket: Option<PathBuf>,
    /// The header of that name; in no message.
    pub(crate) authorization: Option<String>,
    /// For https, with the name that the server's certificate is to have.
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    connection: Option<BufReader<Connection>>,
    /// Bodies go packed by gzip.
    gzip: bool,
    /// How long an answer is waited for.
    patience: Duration,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Client({})", self.authority)
    }
}

/// With or without TLS, or to a unix socket.
#[derive(Debug)]
enum Connection {
    Plain(TcpStream),
    Unix(UnixStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Read for Connection {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Connection::Plain(stream) => stream.read(buffer),
            Connection::Unix(stream) => stream.read(buffer),
            Connection::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Connection {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Connection::Plain(stream) => stream.write(bytes),
            Connection::Unix(stream) => stream.write(bytes),
            Connection::Tls(stream) => stream.write(bytes),
        }
    }
    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Connection::Plain(stream) => stream.flush(),
            Connection::Unix(stream) => stream.flush(),
            Connection::Tls(stream) => stream.flush(),
        }
    }
}

/// An answer of the server.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Value,
}

impl Answer {
    /// The reason of a refusal, if the server gave one.
    pub(crate) fn reason(&self) -> Option<&str> {
        reason(&self.body["error"])
    }
}

/// The reason in the `error` of an answer or of an item: an object today, a text in 2015.
pub(crate) fn reason(error: &Value) -> Option<&str> {
    error["reason"].as_str().or_else(|| error.as_str())
}

/// An answer whose body was not read as JSON.
#[derive(Debug)]
pub(crate) struct RawAnswer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

impl RawAnswer {
    /// The body as JSON; a text where it is none.
    pub(crate) fn parse(self) -> Answer {
        let body = match self.body.as_slice() {
            [] => Value::Null,
            bytes => serde_json::from_slice(bytes).unwrap_or_else(|_| Value::String(String::from_utf8_lossy(bytes).into_owned())),
        };
        Answer {
            status: self.status,
            body,
        }
    }
}

impl Client {
    /// For a URL such as `http://127.0.0.1:9200` or `unix:/run/pleach/http.sock`; `tls` is asked for where it begins with `https`. Connects with the first
    /// request.
    ///
    /// # Errors
    /// A URL that is no `http://HOST:PORT`, `https://HOST:PORT` or `unix:PATH`.
    pub(crate) fn new(url: &str, side: Side, tls: impl FnOnce() -> Result<Arc<ClientConfig>>) -> Result<Client> {
        let refuse = || {
            Error::illegal(format!(
                "[{url}] is no URL of a server: write http://HOST:PORT, https://HOST:PORT or unix:PATH"
            ))
        };
        if let Some(path) = url.strip_prefix("unix:") {
            let socket = Some(PathBuf::from(path)).filter(|_| !path.is_empty()).ok_or_else(refuse)?;
            return Ok(Client::for_authority(side, url.to_owned(), Some(socket), None));
        }
        let (scheme, rest) = url.split_once("://").ok_or_else(refuse)?;
        let authority = rest.trim_end_matches('/');
        if authority.is_empty() || authority.contains(['/', '@', '?', ' ']) {
            return Err(refuse());
        }
        let has_port = authority
            .rsplit_once(':')
            .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let authority = if has_port {
            authority.to_owned()
        } else {
            format!("{authority}:9200")
        };
        let tls = match scheme {
            "http" => None,
            "https" => {
                let host = authority.rsplit_once(':').map_or(authority.as_str(), |(host, _)| host);
                let name = ServerName::try_from(host.trim_matches(['[', ']']))
                    .map_err(|_| refuse())?
                    .to_owned();
                Some((tls()?, name))
            }
            _ => return Err(refuse()),
        };
        Ok(Client::for_authority(side, authority, None, tls))
    }

    /// A client that has not connected yet.
    fn for_authority(
        side: Side,
        authority: String,
        socket: Option<PathBuf>,
        tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    ) -> Client {
        Client {
            side,
            authority,
            socket,
            authorization: None,
            tls,
            connection: None,
            gzip: false,
            patience: PATIENCE,
        }
    }

    /// Packs bodies by gzip from here on.
    pub(crate) fn pack_bodies(&mut self) {
        self.gzip = true;
    }

    /// A client of the same server with the same credentials, and with a connection of its own.
    pub(crate) fn another(&self) -> Client {
        Client {
            side: self.side,
            authority: self.authority.clone(),
            socket: self.socket.clone(),
            authorization: self.authorization.clone(),
            tls: self.tls.clone(),
            connection: None,
            gzip: self.gzip,
            patience: self.patience,
        }
    }

    /// Waits so long for an answer from here on.
    pub(crate) fn set_patience(&mut self, patience: Duration) {
        // The system has no shorter time.
        self.patience = patience.max(Duration::from_millis(1));
        self.connection = None;
    }

    /// Sends a request that may be applied twice, and reads its answer.
    ///
    /// # Errors
    /// A server that cannot be reached or that does not answer in HTTP.
    pub(crate) fn send(&mut self, method: &str, path: &str, media: &str, body: &[u8]) -> Result<Answer> {
        self.send_raw(method, path, media, body).map(RawAnswer::parse)
    }

    /// The same, with the bytes of the answer: numbers stay as they were written.
    ///
    /// # Errors
    /// As [`Client::send`].
    pub(crate) fn send_raw(&mut self, method: &str, path: &str, media: &str, body: &[u8]) -> Result<RawAnswer> {
        if self.connection.is_some() {
            // The server may close a connection that was idle.
            if let Ok(answer) = self.exchange(method, path, media, body) {
                return Ok(answer);
            }
            self.connection = None;
        }
        self.send_raw_once(method, path, media, body)
    }

    /// Sends a request that may not be applied twice.
    ///
    /// # Errors
    /// As [`Client::send`]. The request may have been applied all the same.
    pub(crate) fn send_once(&mut self, method: &str, path: &str, media: &str, body: &[u8]) -> Result<Answer> {
        self.send_raw_once(method, path, media, body).map(RawAnswer::parse)
    }

    /// Sends a request that may not be applied twice, over a connection that was just seen to be alive: the server may have closed
    /// one that was idle, and then it is not known whether it took the request.
    ///
    /// # Errors
    /// As [`Client::send_once`].
    pub(crate) fn send_alive(&mut self, method: &str, path: &str, media: &str, body: &[u8]) -> Result<RawAnswer> {
        self.send("HEAD", "/", "", &[])?;
        self.send_raw_once(method, path, media, body)
    }

    fn send_raw_once(&mut self, method: &str, path: &str, media: &str, body: &[u8]) -> Result<RawAnswer> {
        self.exchange(method, path, media, body).map_err(|cause| {
            self.connection = None;
            self.connection_error(&cause)
        })
    }

    fn connection_error(&self, cause: &std::io::Error) -> Error {
        let hint = if cause.kind() == std::io::ErrorKind::ConnectionRefused {
            format!(
                "; is it running? start it with `pleach`, or name it with {}",
                self.side.url_flag()
            )
        } else {
            String::new()
        };
        let (side, authority) = (self.side.name, &self.authority);
        Error::new(
            ErrorKind::Internal,
            format!("no answer from {side} at [{authority}]: {cause}{hint}"),
        )
    }

    fn connect(&self) -> std::io::Result<Connection> {
        if let Some(socket) = &self.socket {
            let stream = UnixStream::connect(socket)?;
            stream.set_read_timeout(Some(self.patience))?;
            stream.set_write_timeout(Some(self.patience))?;
            return Ok(Connection::Unix(stream));
        }
        let mut failure = None;
        for address in self.authority.to_socket_addrs()? {
            let stream = match TcpStream::connect_timeout(&address, self.patience) {
                Ok(stream) => stream,
                Err(cause) => {
                    failure = Some(cause);
                    continue;
                }
            };
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(self.patience))?;
            stream.set_write_timeout(Some(self.patience))?;
            let Some((config, name)) = &self.tls else {
                return Ok(Connection::Plain(stream));
            };
            let session = ClientConnection::new(config.clone(), name.clone());
            let session = session.map_err(|cause| std::io::Error::new(std::io::ErrorKind::InvalidData, cause))?;
            return Ok(Connection::Tls(Box::new(StreamOwned::new(session, stream))));
        }
        Err(failure.unwrap_or_else(|| std::io::ErrorKind::AddrNotAvailable.into()))
    }

    fn exchange(&mut self, method: &str, path: &str, media: &str, body: &[u8]) -> std::io::Result<RawAnswer> {
        if self.connection.is_none() {
            self.connection = Some(BufReader::new(self.connect()?));
        }
        let Some(connection) = self.connection.as_mut() else {
            return Err(broken("no connection"));
        };
        let packed = match self.gzip && body.len() >= PACKED_MIN_BYTES {
            true => Some(pack(body)?),
            false => None,
        };
        let body = packed.as_deref().unwrap_or(body);
        let mut request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\naccept: application/json\r\ncontent-length: {}\r\n",
            if self.socket.is_some() { "localhost" } else { &self.authority },
            body.len()
        );
        if !body.is_empty() {
            request.push_str(&format!("content-type: {media}\r\n"));
        }
        if packed.is_some() {
            request.push_str("content-encoding: gzip\r\n");
        }
        if let Some(authorization) = &self.authorization {
            request.push_str(&format!("authorization: {authorization}\r\n"));
        }
        request.push_str("\r\n");
        let mut head = request.into_bytes();
        // A short body goes with the head in one packet; a long one is not copied.
        let apart = match body.len() <= COPIED_MAX_BYTES {
            true => {
                head.extend_from_slice(body);
                &[]
            }
            false => body,
        };
        connection.get_mut().write_all(&head)?;
        connection.get_mut().write_all(apart)?;
        connection.get_mut().flush()?;
        let (answer, keep) = read_answer(connection, method == "HEAD")?;
        if !keep {
            self.connection = None;
        }
        Ok(answer)
    }
}

/// A body by gzip: fast rather than small.
fn pack(body: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut packed = GzEncoder::new(Vec::with_capacity(body.len() / 4), Compression::fast());
    packed.write_all(body)?;
    packed.finish()
}

fn broken(why: &str) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidData, why)
}

/// Reads one answer; also whether the connection may be used again.
fn read_answer(from: &mut impl std::io::BufRead, head: bool) -> std::io::Result<(RawAnswer, bool)> {
    let first = line(from)?;
    let status = first
        .split(' ')
        .nth(1)
        .and_then(|s| s.parse::<u16>().ok())
        .ok_or_else(|| broken("the answer is not HTTP"))?;
    let (mut length, mut chunked, mut keep) = (None, false, true);
    loop {
        let header = line(from)?;
        if header.is_empty() {
            break;
        }
        let Some((name, value)) = header.split_once(':') else {
            return Err(broken("a header without a colon"));
        };
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => {
                length = Some(
                    value
                        .parse::<u64>()
                        .map_err(|_| broken("a content-length that is no number"))?,
                )
            }
            "transfer-encoding" => chunked = value.eq_ignore_ascii_case("chunked"),
            "connection" => keep = !value.eq_ignore_ascii_case("close"),
            _ => {}
        }
    }
    let mut body = Vec::new();
    if head || status == 204 {
        // No body.
    } else if chunked {
        loop {
            let size = line(from)?;
            let size = u64::from_str_radix(size.split(';').next().unwrap_or_default().trim(), 16)
                .map_err(|_| broken("a chunk without a size"))?;
            if body.len() as u64 + size > ANSWER_MAX_BYTES {
                return Err(broken("the answer is too long"));
            }
            from.by_ref().take(size).read_to_end(&mut body)?;
            line(from)?;
            if size == 0 {
                break;
            }
        }
    } else {
        let size = length.unwrap_or(ANSWER_MAX_BYTES);
        if size > ANSWER_MAX_BYTES {
            return Err(broken("the answer is too long"));
        }
        keep &= length.is_some();
        from.by_ref().take(size).read_to_end(&mut body)?;
        if length.is_some_and(|l| l != body.len() as u64) {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok((RawAnswer { status, body }, keep))
}

fn line(from: &mut impl std::io::BufRead) -> std::io::Result<String> {
    let mut line = String::new();
    if from.by_ref().take(64 * 1024).read_line(&mut line)? == 0 {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

/// Names of indices as one segment of a path: commas and stars stay.
pub(crate) fn targets(names: &str) -> String {
    segment(names).replace("%2C", ",").replace("%2A", "*")
}

/// Percent-encodes one segment of a path.
pub(crate) fn segment(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(byte as char);
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(answer: &str, expected: Option<(u16, &str, bool)>) {
        let got = read_answer(&mut answer.as_bytes(), false)
            .ok()
            .map(|(raw, keep)| (raw.parse(), keep))
            .map(|(answer, keep)| (answer.status, answer.body.to_string(), keep));
        assert_eq!(got, expected.map(|(s, b, k)| (s, b.to_owned(), k)), "{answer}");
    }

    #[test]
    fn answers() {
        check(
            "HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\n{\"a\":1}",
            Some((200, "{\"a\":1}", true)),
        );
        check(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{\"a\r\n4\r\n\":1}\r\n0\r\n\r\n",
            Some((200, "{\"a\":1}", true)),
        );
        check(
            "HTTP/1.1 503 Busy\r\nconnection: close\r\ncontent-length: 4\r\n\r\nlate",
            Some((503, "\"late\"", false)),
        );
        check("HTTP/1.1 200 OK\r\n\r\n[1]", Some((200, "[1]", false)));
        check("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{}", None);
        check("SSH-2.0-OpenSSH\r\n", None);
        check("", None);
    }

    #[test]
    fn urls() {
        for (url, good) in [
            ("http://127.0.0.1:9200", true),
            ("http://[::1]:9200/", true),
            ("http://here", true),
            ("https://here", true),
            ("https://[::1]:9200", true),
            ("https://a b", false),
            ("ftp://here", false),
            ("here:9200", false),
            ("http://", false),
            ("unix:/run/pleach/http.sock", true),
            ("unix:", false),
        ] {
            let tls = || {
                let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
                let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
                let builder = builder.map_err(|cause| Error::illegal(cause.to_string()))?;
                Ok(Arc::new(
                    builder
                        .with_root_certificates(tokio_rustls::rustls::RootCertStore::empty())
                        .with_no_client_auth(),
                ))
            };
            assert_eq!(Client::new(url, Side::SERVER, tls).is_ok(), good, "{url}");
        }
        assert_eq!(segment("a/b c"), "a%2Fb%20c");
    }

    #[test]
    fn sides_have_flags_and_variables_of_their_own() {
        let check = |side: Side, flag: &str, variable: &str, url: &str| {
            assert_eq!(
                (side.flag("user"), side.variable("PASSWORD"), side.url_flag()),
                (flag.to_owned(), variable.to_owned(), url.to_owned())
            );
        };
        check(Side::SERVER, "--user", "PLEACH_PASSWORD", "--url");
        check(Side::FOLLOWED, "--user", "PLEACH_PASSWORD", "--url");
        check(Side::SOURCE, "--from-user", "PLEACH_FROM_PASSWORD", "--from");
        check(Side::TARGET, "--to-user", "PLEACH_TO_PASSWORD", "--to");
    }

    #[test]
    fn names_keep_their_commas_and_stars() {
        assert_eq!(targets("a,b*"), "a,b*");
        assert_eq!(targets("a/b?c"), "a%2Fb%3Fc");
    }
}
