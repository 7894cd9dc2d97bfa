//! HTTP/1.1 to servers of S3, with or without TLS: connections that are kept, and the thread on which they live.
//!
//! Answers are read whole and are bounded: what is asked for at once is small. Proxies are not used and redirects not followed, so
//! requests go to the server of the repository and to no other.
//!
//! Not here: signatures and retries (`object_store`), which server (`s3_place`), authorities (the server gives them).

use bytes::Bytes;
use http_body_util::{BodyExt as _, Limited};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{HOST, HeaderValue};
use hyper::{Request, Response, Uri};
use hyper_util::rt::TokioIo;
use model::{Error, ErrorKind, Result};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, HttpResponse, HttpService,
};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::{Handle, Runtime};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

/// The longest an answer may be. A list has at most 1000 names, and files are read in smaller pieces.
const ANSWER_MAX_BYTES: usize = 16 << 20;
/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Connections to one server that are kept while nobody uses them.
const IDLE_MAX: usize = 4;
/// Bytes for which a second is added to the time that a request may take.
const BYTES_A_SECOND: usize = 100_000;

/// Gives what a client trusts.
pub(crate) type Trust = fn() -> Result<Arc<ClientConfig>>;

/// The connections of a process, and their thread.
pub(crate) struct Network {
    /// Taken when it is dropped.
    runtime: Option<Runtime>,
    handle: Handle,
    /// True: no request is waited for any more.
    stopped: watch::Sender<bool>,
    connections: Arc<Connections>,
}

impl Network {
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start(trust: Trust) -> Result<Network> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("pleach-s3")
            .enable_all()
            .build();
        let runtime = runtime.map_err(|e| Error::new(ErrorKind::Internal, format!("starting a thread failed: {e}")))?;
        Ok(Network {
            handle: runtime.handle().clone(),
            runtime: Some(runtime),
            stopped: watch::Sender::new(false),
            connections: Arc::new(Connections {
                trust,
                trusted: Mutex::default(),
                idle: Mutex::default(),
            }),
        })
    }

    /// Waits for a future; `None`: the server is stopping. The caller's thread is one that may wait.
    pub(crate) fn wait<F: Future>(&self, future: F) -> Option<F::Output> {
        let mut stopped = self.stopped.subscribe();
        self.handle.block_on(async {
            tokio::select! {
                output = future => Some(output),
                _ = stopped.wait_for(|stopped| *stopped) => None,
            }
        })
    }

    /// Ends every request, and every later one.
    pub(crate) fn stop(&self) {
        self.stopped.send_replace(true);
    }

    /// Makes clients whose answers come within this time.
    pub(crate) fn connector(&self, read_timeout: Duration) -> impl HttpConnector {
        Connector {
            connections: self.connections.clone(),
            read_timeout,
        }
    }
}

impl Drop for Network {
    /// Whoever drops it may be a thread that must not wait.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

struct Connections {
    trust: Trust,
    /// What was trusted when it was first asked for.
    trusted: Mutex<Option<Arc<ClientConfig>>>,
    idle: Mutex<HashMap<Server, Vec<SendRequest<HttpRequestBody>>>>,
}

#[derive(Clone)]
struct Connector {
    connections: Arc<Connections>,
    read_timeout: Duration,
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connector")
    }
}

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

#[async_trait::async_trait]
impl HttpService for Connector {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let sent = request.body().content_length();
        let patience = self.read_timeout + Duration::from_secs((sent / BYTES_A_SECOND) as u64);
        let late = || {
            let reason = format!("no answer within {}", model::units::render_duration(patience));
            HttpError::new(HttpErrorKind::Timeout, io::Error::new(io::ErrorKind::TimedOut, reason))
        };
        timeout(patience, self.connections.exchange(request))
            .await
            .map_err(|_| late())?
    }
}

impl Connections {
    async fn exchange(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let server = Server::of(request.uri())?;
        let mut request = in_origin_form(request)?;
        // An idle connection may have been closed by the server: then the request is still here.
        if let Some(mut connection) = self.take_idle(&server) {
            match connection.try_send_request(request).await {
                Ok(response) => return self.finish(&server, connection, response).await,
                Err(mut failed) => match failed.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(HttpError::new(HttpErrorKind::Interrupted, failed.into_error())),
                },
            }
        }
        let mut connection = self.connect(&server).await?;
        match connection.try_send_request(request).await {
            Ok(response) => self.finish(&server, connection, response).await,
            Err(mut failed) => {
                let kind = match failed.take_message() {
                    Some(_) => HttpErrorKind::Request,
                    None => HttpErrorKind::Interrupted,
                };
                Err(HttpError::new(kind, failed.into_error()))
            }
        }
    }

    /// Reads the body, and keeps the connection.
    async fn finish(
        &self,
        server: &Server,
        connection: SendRequest<HttpRequestBody>,
        response: Response<hyper::body::Incoming>,
    ) -> Result<HttpResponse, HttpError> {
        let (parts, body) = response.into_parts();
        let collected = Limited::new(body, ANSWER_MAX_BYTES).collect().await;
        let collected = collected.map_err(|e| HttpError::new_boxed(HttpErrorKind::Interrupted, e))?;
        let mut idle = self.idle.lock();
        let kept = idle.entry(server.clone()).or_default();
        kept.retain(|connection| !connection.is_closed());
        if kept.len() < IDLE_MAX {
            kept.push(connection);
        }
        let body: Bytes = collected.to_bytes();
        Ok(Response::from_parts(parts, body.into()))
    }

    /// A connection that was open when it was last looked at.
    fn take_idle(&self, server: &Server) -> Option<SendRequest<HttpRequestBody>> {
        let mut idle = self.idle.lock();
        let kept = idle.get_mut(server)?;
        kept.retain(|connection| !connection.is_closed());
        let ready = kept.iter().position(SendRequest::is_ready)?;
        Some(kept.swap_remove(ready))
    }

    fn client_config(&self) -> Result<Arc<ClientConfig>> {
        let mut made = self.trusted.lock();
        match &*made {
            Some(config) => Ok(config.clone()),
            None => Ok(made.insert((self.trust)()?).clone()),
        }
    }

    async fn connect(&self, server: &Server) -> Result<SendRequest<HttpRequestBody>, HttpError> {
        match timeout(CONNECT_TIMEOUT, self.open(server)).await {
            Ok(opened) => opened,
            Err(_) => {
                let reason = format!("nothing answers within {}", model::units::render_duration(CONNECT_TIMEOUT));
                Err(connect_error(server, &reason))
            }
        }
    }

    async fn open(&self, server: &Server) -> Result<SendRequest<HttpRequestBody>, HttpError> {
        let failed = |e: io::Error| connect_error(server, &e.to_string());
        let stream = TcpStream::connect((server.host.as_str(), server.port))
            .await
            .map_err(failed)?;
        // Requests are whole when they are sent: to wait for more of them gains nothing.
        stream.set_nodelay(true).map_err(failed)?;
        if !server.is_https {
            return speak(server, stream).await;
        }
        // Certificates that are not trusted do not become so by asking again.
        let untrusted = |reason: String| {
            HttpError::new(
                HttpErrorKind::Unknown,
                io::Error::other(format!("TLS with [{server}] failed: {reason}")),
            )
        };
        let config = self.client_config().map_err(|e| untrusted(e.reason().to_owned()))?;
        let name = ServerName::try_from(server.host.clone()).map_err(|e| untrusted(e.to_string()))?;
        let stream = TlsConnector::from(config)
            .connect(name, stream)
            .await
            .map_err(|e| untrusted(e.to_string()))?;
        speak(server, stream).await
    }
}

async fn speak<S>(server: &Server, stream: S) -> Result<SendRequest<HttpRequestBody>, HttpError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (connection, driver) = handshake(TokioIo::new(stream))
        .await
        .map_err(|e| connect_error(server, &e.to_string()))?;
    // It ends with its sender; what it met is told there.
    tokio::spawn(async move { drop(driver.await) });
    Ok(connection)
}

fn connect_error(server: &Server, reason: &str) -> HttpError {
    let told = io::Error::new(
        io::ErrorKind::NotConnected,
        format!("connecting to [{server}] failed: {reason}"),
    );
    HttpError::new(HttpErrorKind::Connect, told)
}

/// The server of an address.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Server {
    is_https: bool,
    host: String,
    port: u16,
}

impl Server {
    fn of(uri: &Uri) -> Result<Server, HttpError> {
        let (Some(scheme), Some(host)) = (uri.scheme_str(), uri.host()) else {
            let told = io::Error::other(format!("[{uri}] names no server"));
            return Err(HttpError::new(HttpErrorKind::Unknown, told));
        };
        let is_https = scheme != "http";
        let usual = if is_https { 443 } else { 80 };
        Ok(Server {
            is_https,
            host: host.trim_matches(['[', ']']).to_owned(),
            port: uri.port_u16().unwrap_or(usual),
        })
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_https { "https" } else { "http" };
        match self.host.contains(':') {
            true => write!(f, "{scheme}://[{}]:{}", self.host, self.port),
            false => write!(f, "{scheme}://{}:{}", self.host, self.port),
        }
    }
}

/// With the path alone as its target, and the server in a header, as HTTP/1.1 has it.
fn in_origin_form(request: HttpRequest) -> Result<HttpRequest, HttpError> {
    let (mut parts, body) = request.into_parts();
    let unsound = |reason: String| HttpError::new(HttpErrorKind::Unknown, io::Error::other(reason));
    if let Some(authority) = parts.uri.authority() {
        let host = HeaderValue::from_str(authority.as_str()).map_err(|e| unsound(e.to_string()))?;
        parts.headers.insert(HOST, host);
    }
    let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
    parts.uri = target
        .parse()
        .map_err(|e: hyper::http::uri::InvalidUri| unsound(e.to_string()))?;
    Ok(Request::from_parts(parts, body))
}
