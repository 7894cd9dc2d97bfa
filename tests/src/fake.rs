//! A server of another kind, as far as a test needs it: HTTP on a free port, answered by a function.
//!
//! Not here: what it answers (`tests/`).

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

/// A request to it.
#[derive(Debug)]
pub struct FakeRequest {
    pub method: String,
    /// With the parameters.
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl FakeRequest {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// Gives the status and the body of an answer.
pub type Answering = dyn Fn(&FakeRequest) -> (u16, String) + Send + Sync;

/// Starts one, which lives as long as the process. Gives its URL.
///
/// # Panics
/// There is no free port.
pub fn start(answering: Arc<Answering>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answering = answering.clone();
            std::thread::spawn(move || serve(&stream, &answering));
        }
    });
    url
}

/// Answers the requests of a connection, until the client closes it.
fn serve(stream: &TcpStream, answering: &Arc<Answering>) {
    let mut reader = BufReader::new(stream);
    while let Some(request) = read(&mut reader) {
        let (status, body) = answering(&request);
        let shown = if request.method == "HEAD" { "" } else { &body };
        let answer = format!("HTTP/1.1 {status} OK\r\ncontent-length: {}\r\n\r\n{shown}", body.len());
        if (&mut &*stream).write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

fn read(reader: &mut BufReader<&TcpStream>) -> Option<FakeRequest> {
    let mut line = || {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        Some(line.trim_end().to_owned())
    };
    let first = line()?;
    let mut words = first.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = Vec::new();
    loop {
        let header = line()?;
        let Some((name, value)) = header.split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let mut request = FakeRequest {
        method,
        path,
        headers,
        body: Vec::new(),
    };
    let length = request.header("content-length").and_then(|length| length.parse().ok());
    request.body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut request.body).ok()?;
    Some(request)
}
