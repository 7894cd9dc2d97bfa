//! HTTP to one address: bounded connections, each used again; one time limit a request; an answer of bounded size.
//!
//! A failure tells whether the request was sent. Nothing is sent twice, except what had not left this machine. Not
//! here: what requests and answers mean.

use crate::Options;
use crate::url::Url;
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::HeaderValue;
use hyper_util::rt::TokioIo;
use model::{Error, ErrorKind, Result};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;

type Connection = SendRequest<Full<Bytes>>;

#[derive(Debug)]
pub(crate) struct Http {
    address: String,
    /// Sent with every request.
    authorization: Option<HeaderValue>,
    connect_timeout: Duration,
    timeout: Duration,
    response_max_bytes: usize,
    permits: Semaphore,
    idle: Mutex<Vec<Connection>>,
}

/// An answer: every status is one.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Bytes,
}

/// No answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Nothing has reached the cluster.
    NotSent(Error),
    /// It may have been done, wholly, in part, or not at all; or it still will be.
    Unanswered(Error),
}

impl Failure {
    /// For those to whom it is the same: who reads.
    pub(crate) fn into_error(self) -> Error {
        match self {
            Failure::NotSent(error) | Failure::Unanswered(error) => error,
        }
    }
}

impl Http {
    /// # Errors
    /// A password that no header can hold.
    pub(crate) fn new(url: Url, options: &Options) -> Result<Http> {
        let authorization = url.authorization.map(HeaderValue::try_from).transpose();
        let mut authorization = authorization.map_err(|_| Error::illegal("the password of the cluster fits in no header"))?;
        // It stays out of what is printed for people.
        authorization.iter_mut().for_each(|value| value.set_sensitive(true));
        Ok(Http {
            address: url.address,
            authorization,
            connect_timeout: options.connect_timeout,
            timeout: options.timeout,
            response_max_bytes: options.response_max_bytes,
            permits: Semaphore::new(options.connections_max.max(1)),
            idle: Mutex::default(),
        })
    }

    /// One request.
    pub(crate) async fn ask(&self, method: &str, path: &str, content: &str, body: Bytes) -> Result<Answer, Failure> {
        let waited = timeout(self.connect_timeout, self.permits.acquire()).await;
        let Ok(Ok(_permit)) = waited else {
            let reason = format!(
                "no connection to [{}] became free within {:?}",
                self.address, self.connect_timeout
            );
            return Err(Failure::NotSent(unavailable(reason)));
        };
        let mut sent = false;
        match timeout(self.timeout, self.exchange(method, path, content, body, &mut sent)).await {
            Ok(answer) => answer,
            Err(_) => {
                let error = unavailable(format!(
                    "[{}] did not answer [{method} {path}] within {:?}",
                    self.address, self.timeout
                ));
                Err(if sent {
                    Failure::Unanswered(error)
                } else {
                    Failure::NotSent(error)
                })
            }
        }
    }

    async fn exchange(&self, method: &str, path: &str, content: &str, body: Bytes, sent: &mut bool) -> Result<Answer, Failure> {
        let request = || {
            let mut request = hyper::Request::builder()
                .method(method)
                .uri(path)
                .header("host", &self.address)
                .header("content-type", content);
            if let Some(authorization) = &self.authorization {
                request = request.header("authorization", authorization);
            }
            request
                .body(Full::new(body.clone()))
                .map_err(|e| Failure::NotSent(Error::illegal(format!("no request can be made of [{method} {path}]: {e}"))))
        };
        let mut last = None;
        // An idle connection may have been closed by the other side: then the request is still here.
        for fresh in [false, true] {
            let idle = if fresh { None } else { self.idle() };
            let Some(mut connection) = (match idle {
                Some(connection) => Some(connection),
                None if fresh => Some(self.connect().await?),
                None => None,
            }) else {
                continue;
            };
            *sent = true;
            match connection.try_send_request(request()?).await {
                Ok(response) => {
                    let status = response.status().as_u16();
                    let body = self.collect(response.into_body()).await.map_err(Failure::Unanswered)?;
                    self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
                    return Ok(Answer { status, body });
                }
                Err(mut failed) => {
                    let unsent = failed.take_message().is_some();
                    let error = unavailable(format!(
                        "[{}] did not answer [{method} {path}]: {}",
                        self.address,
                        failed.error()
                    ));
                    if !unsent {
                        return Err(Failure::Unanswered(error));
                    }
                    *sent = false;
                    last = Some(error);
                }
            }
        }
        let gone = || unavailable(format!("[{}] closed the connection", self.address));
        Err(Failure::NotSent(last.unwrap_or_else(gone)))
    }

    /// A connection that was open when it was last looked at.
    fn idle(&self) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|connection| !connection.is_closed());
        let ready = idle.iter().position(SendRequest::is_ready)?;
        Some(idle.swap_remove(ready))
    }

    async fn connect(&self) -> Result<Connection, Failure> {
        let failed = |why: String| Failure::NotSent(unavailable(format!("connecting to [{}] failed: {why}", self.address)));
        let stream = match timeout(self.connect_timeout, TcpStream::connect(&self.address)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(e)) => return Err(failed(e.to_string())),
            Err(_) => return Err(failed(format!("nothing answered within {:?}", self.connect_timeout))),
        };
        // Requests are whole when they are sent: to wait for more of them gains nothing.
        stream.set_nodelay(true).map_err(|e| failed(e.to_string()))?;
        let (connection, driver) = handshake(TokioIo::new(stream)).await.map_err(|e| failed(e.to_string()))?;
        // It ends with its sender; what it met is told there.
        tokio::spawn(async move { drop(driver.await) });
        Ok(connection)
    }

    async fn collect(&self, mut body: hyper::body::Incoming) -> Result<Bytes> {
        let mut bytes = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|e| unavailable(format!("the answer of [{}] broke off: {e}", self.address)))?;
            if let Some(data) = frame.data_ref() {
                if bytes.len() + data.len() > self.response_max_bytes {
                    let reason = format!(
                        "the answer of [{}] is larger than [response_max_bytes] = {}",
                        self.address, self.response_max_bytes
                    );
                    return Err(Error::new(ErrorKind::ContentTooLong, reason));
                }
                bytes.extend_from_slice(data);
            }
        }
        Ok(bytes.freeze())
    }
}

fn unavailable(reason: String) -> Error {
    Error::new(ErrorKind::Unavailable, reason)
}
