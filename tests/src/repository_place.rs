//! The place of a repository of snapshots under test: a folder beside the data, or a bucket of a server of S3 (moto, from PyPI).
//!
//! Not here: what is tested (`tests/snapshots.rs`).

use crate::Server;
use crate::installed::python;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The bucket of tests, and the path of the repository in it.
pub const BUCKET: &str = "backups";
pub const BASE_PATH: &str = "deep/r";

/// Where the repository `r` of a test is.
#[derive(Debug)]
pub enum Place {
    /// Below the folder of the test.
    Folder(PathBuf),
    Bucket(ObjectServer),
}

impl Place {
    /// In `repositories/r` of the folder of a test.
    pub fn folder(test: &Path) -> Place {
        Place::Folder(test.join("repositories/r"))
    }

    /// In a bucket; `None`: there is no server of S3 on this machine, and that was said.
    pub fn bucket() -> Option<Place> {
        ObjectServer::start().map(Place::Bucket)
    }

    /// Settings of a server that uses it.
    pub fn server_settings(&self) -> Vec<String> {
        match self {
            Place::Folder(_) => Vec::new(),
            Place::Bucket(server) => server.client_settings("default", &server.key.0, &server.key.1),
        }
    }

    /// The repository's definition, with these settings beside those of its place.
    pub fn definition(&self, settings: &Value) -> Value {
        let (kind, mut all) = match self {
            Place::Folder(_) => ("fs", json!({ "location": "r" })),
            Place::Bucket(_) => ("s3", json!({ "bucket": BUCKET, "base_path": BASE_PATH })),
        };
        all["max_snapshot_bytes_per_sec"] = "0".into();
        for (name, value) in settings.as_object().into_iter().flatten() {
            all[name] = value.clone();
        }
        json!({ "type": kind, "settings": all })
    }

    /// Registers it as `r`.
    pub fn register(&self, server: &Server, settings: &Value) {
        server.ok("PUT", "/_snapshot/r", &self.definition(settings));
    }

    /// The files below a folder of the repository with their lengths; the file itself if it is one.
    pub fn files(&self, below: &str) -> BTreeMap<String, u64> {
        match self {
            Place::Folder(dir) => folder_files(dir, below),
            Place::Bucket(server) => {
                let base = format!("{BASE_PATH}/");
                let all = server.files(&format!("{base}{below}"));
                all.into_iter()
                    .filter_map(|(name, bytes)| Some((name.strip_prefix(&base)?.to_owned(), bytes)))
                    .collect()
            }
        }
    }

    pub fn read(&self, file: &str) -> Vec<u8> {
        match self {
            Place::Folder(dir) => std::fs::read(dir.join(file)).expect("the file can be read"),
            Place::Bucket(server) => {
                let (status, bytes) = server.ask("GET", &format!("/{BUCKET}/{BASE_PATH}/{file}"), b"");
                assert_eq!(status, 200, "{file}");
                bytes
            }
        }
    }

    pub fn write(&self, file: &str, bytes: &[u8]) {
        match self {
            Place::Folder(dir) => std::fs::write(dir.join(file), bytes).expect("the file can be written"),
            Place::Bucket(server) => {
                let (status, _) = server.ask("PUT", &format!("/{BUCKET}/{BASE_PATH}/{file}"), bytes);
                assert_eq!(status, 200, "{file}");
            }
        }
    }

    pub fn remove(&self, file: &str) {
        match self {
            Place::Folder(dir) => std::fs::remove_file(dir.join(file)).expect("the file can be removed"),
            Place::Bucket(server) => {
                let (status, _) = server.ask("DELETE", &format!("/{BUCKET}/{BASE_PATH}/{file}"), b"");
                assert_eq!(status, 204, "{file}");
            }
        }
    }
}

fn folder_files(dir: &Path, below: &str) -> BTreeMap<String, u64> {
    let mut out = BTreeMap::new();
    let mut waiting = vec![dir.join(below)];
    while let Some(next) = waiting.pop() {
        if next.is_file() {
            let name = next
                .strip_prefix(dir)
                .expect("below the repository")
                .to_string_lossy()
                .into_owned();
            out.insert(name, next.metadata().map_or(0, |meta| meta.len()));
            continue;
        }
        waiting.extend(
            std::fs::read_dir(next)
                .into_iter()
                .flatten()
                .flatten()
                .map(|entry| entry.path()),
        );
    }
    out
}

/// A server of S3 with one bucket; ended when dropped.
#[derive(Debug)]
pub struct ObjectServer {
    child: Child,
    address: String,
    /// The authority of its certificate, if it speaks TLS.
    authority: Option<PathBuf>,
    /// The name of a key and the key.
    key: (String, String),
}

impl ObjectServer {
    /// `None`: it cannot be installed here.
    pub fn start() -> Option<ObjectServer> {
        ObjectServer::start_with(None)
    }

    /// One that speaks TLS, with `ca.crt`, `server.crt` and `server.key` of a folder. It is asked by `curl`.
    pub fn start_tls(certificates: &Path) -> Option<ObjectServer> {
        ObjectServer::start_with(Some(certificates))
    }

    fn start_with(certificates: Option<&Path>) -> Option<ObjectServer> {
        let home = python("moto", &crate::root().join("tests/clients/python/moto.txt"))?;
        let mut command = Command::new(home.join("bin/moto_server"));
        if let Some(folder) = certificates {
            command.arg("-c").arg(folder.join("server.crt"));
            command.arg("-k").arg(folder.join("server.key"));
        }
        let mut child = command
            .args(["-H", "127.0.0.1", "-p", "0"])
            .env("PYTHONUNBUFFERED", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("moto starts");
        let mut lines = BufReader::new(child.stderr.take().expect("stderr is piped"))
            .lines()
            .map_while(Result::ok);
        let scheme = if certificates.is_some() { "https://" } else { "http://" };
        let shown = lines.find_map(|line| line.split_once(scheme).map(|(_, address)| address.trim().to_owned()));
        let address = shown.expect("moto says where it listens");
        // Read on, so that it never writes into a closed pipe.
        std::thread::spawn(move || lines.for_each(drop));
        let server = ObjectServer {
            child,
            address,
            authority: certificates.map(|folder| folder.join("ca.crt")),
            key: ("test".to_owned(), "test".to_owned()),
        };
        let (status, _) = server.ask("PUT", &format!("/{BUCKET}"), b"");
        assert_eq!(status, 200, "the bucket is made");
        Some(server)
    }

    /// `host:port`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Looks at signatures from here on: the key that it gives alone is taken.
    pub fn secure(&mut self) {
        let iam = |query: &str| {
            let (status, bytes) = self.send_signed("POST", "/", "iam", "application/x-www-form-urlencoded", query.as_bytes());
            let text = String::from_utf8_lossy(&bytes).into_owned();
            assert_eq!(status, 200, "{text}");
            text
        };
        iam("Action=CreateUser&Version=2010-05-08&UserName=backup");
        let policy = "%7B%22Version%22%3A%222012-10-17%22%2C%22Statement%22%3A%5B%7B%22Effect%22%3A%22Allow%22%2C%22Action%22%3A%22s3%3A*%22%2C%22Resource%22%3A%22*%22%7D%5D%7D";
        iam(&format!(
            "Action=PutUserPolicy&Version=2010-05-08&UserName=backup&PolicyName=all&PolicyDocument={policy}"
        ));
        let made = iam("Action=CreateAccessKey&Version=2010-05-08&UserName=backup");
        let of = |tag: &str| {
            let (_, rest) = made.split_once(&format!("<{tag}>")).expect("the key is told");
            rest.split('<').next().unwrap_or_default().to_owned()
        };
        self.key = (of("AccessKeyId"), of("SecretAccessKey"));
        let (status, _) = self.send_signed("POST", "/moto-api/reset-auth", "s3", "text/plain", b"0");
        assert_eq!(status, 200, "moto looks at signatures");
    }

    /// The name of a key that is taken, and the key.
    pub fn key(&self) -> (&str, &str) {
        (&self.key.0, &self.key.1)
    }

    fn scheme(&self) -> &'static str {
        if self.authority.is_some() { "https" } else { "http" }
    }

    /// Settings of a server with a client for this one.
    pub fn client_settings(&self, client: &str, name: &str, key: &str) -> Vec<String> {
        vec![
            format!("s3.client.{client}.endpoint={}://{}", self.scheme(), self.address),
            format!("s3.client.{client}.access_key={name}"),
            format!("s3.client.{client}.secret_key={key}"),
        ]
    }

    /// The files whose names begin so, with their lengths.
    pub fn files(&self, prefix: &str) -> BTreeMap<String, u64> {
        let mut out = BTreeMap::new();
        let mut after = String::new();
        loop {
            let (status, bytes) = self.ask(
                "GET",
                &format!("/{BUCKET}?list-type=2&prefix={prefix}&start-after={after}"),
                b"",
            );
            let text = String::from_utf8_lossy(&bytes).into_owned();
            assert_eq!(status, 200, "{text}");
            let inside = |text: &str, tag: &str| {
                let (_, rest) = text.split_once(&format!("<{tag}>"))?;
                rest.split('<').next().map(str::to_owned)
            };
            for part in text.split("<Contents>").skip(1) {
                let name = inside(part, "Key").expect("a file has a name");
                after.clone_from(&name);
                out.insert(name, inside(part, "Size").and_then(|size| size.parse().ok()).unwrap_or(0));
            }
            if !text.contains("<IsTruncated>true") {
                return out;
            }
        }
    }

    /// One request of a client that signs nothing.
    pub fn ask(&self, method: &str, path: &str, body: &[u8]) -> (u16, Vec<u8>) {
        self.send_signed(method, path, "s3", "application/octet-stream", body)
    }

    /// With a signature that nobody looks at: it says for which service the request is.
    fn send_signed(&self, method: &str, path: &str, service: &str, media: &str, body: &[u8]) -> (u16, Vec<u8>) {
        let signature = format!(
            "authorization: AWS4-HMAC-SHA256 Credential=test/20200101/us-east-1/{service}/aws4_request, SignedHeaders=host, Signature=0"
        );
        if let Some(authority) = &self.authority {
            return self.send_by_curl(
                authority,
                &[method, path],
                &[&signature, &format!("content-type: {media}")],
                body,
            );
        }
        let mut stream = TcpStream::connect(&self.address).expect("moto listens");
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-length: {}\r\ncontent-type: {media}\r\n{signature}\r\n\r\n",
            self.address,
            body.len()
        );
        stream.write_all(head.as_bytes()).expect("moto reads");
        stream.write_all(body).expect("moto reads");
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("moto answers");
        let end = bytes
            .windows(4)
            .position(|window| window == b"\r\n\r\n")
            .expect("moto speaks HTTP");
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let status = head
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok())
            .expect("moto speaks HTTP");
        (status, bytes[end + 4..].to_vec())
    }
}

impl ObjectServer {
    fn send_by_curl(&self, authority: &Path, request: &[&str; 2], headers: &[&str], body: &[u8]) -> (u16, Vec<u8>) {
        let [method, path] = request;
        let mut curl = Command::new("curl");
        curl.args([
            "-sS",
            "--max-time",
            "20",
            "--data-binary",
            "@-",
            "-w",
            "\n%{http_code}",
            "-X",
            method,
        ]);
        curl.arg("--cacert")
            .arg(authority)
            .arg(format!("https://{}{path}", self.address));
        for header in headers {
            curl.args(["-H", header]);
        }
        let mut child = curl
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("curl starts");
        let mut input = child.stdin.take().expect("stdin is piped");
        input.write_all(body).expect("curl reads");
        drop(input);
        let mut out = child.wait_with_output().expect("curl ends").stdout;
        let end = out.iter().rposition(|byte| *byte == b'\n').expect("curl says the status");
        let status = String::from_utf8_lossy(&out[end + 1..])
            .parse()
            .expect("a status is a number");
        out.truncate(end);
        (status, out)
    }
}

impl Drop for ObjectServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
