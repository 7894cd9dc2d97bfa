//! TLS as clients see it, by `curl` and `openssl`: certificates of `pleach cert`, protocols, certificates of clients, reload.
//!
//! Not here: what the settings refuse by themselves (`server/src/config`).

#![expect(clippy::unwrap_used, reason = "a test's functions are tests too")]

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tests::{Server, command};

fn is_there(program: &str, version: &str) -> bool {
    let found = Command::new(program).arg(version).output().is_ok();
    if !found {
        eprintln!("skipped: {program} is not installed");
    }
    found
}

fn has_clients() -> bool {
    is_there("curl", "--version") && is_there("openssl", "version")
}

/// A folder with an authority, a server's certificate and one of the client `alice`.
struct Certificates {
    folder: tempfile::TempDir,
}

impl Certificates {
    fn new() -> Certificates {
        let made = Certificates {
            folder: tempfile::tempdir().unwrap(),
        };
        assert_eq!(made.run(&[]).0, 0);
        assert_eq!(made.run(&["--client", "alice"]).0, 0);
        made
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("certs").join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// `pleach cert` with these flags.
    fn run(&self, flags: &[&str]) -> (i32, String) {
        let done = command()
            .arg("cert")
            .arg(self.folder.path().join("certs"))
            .args(flags)
            .output()
            .unwrap();
        (
            done.status.code().unwrap_or(-1),
            String::from_utf8_lossy(&done.stderr).into_owned(),
        )
    }

    /// A server with them; its log goes to a file.
    fn server(&self, client_ca: bool, settings: &[&str]) -> (Server, PathBuf) {
        let log = self.folder.path().join("log");
        let mut serve = command();
        serve.stderr(std::fs::File::create(&log).unwrap());
        let mut all = vec![
            format!("http.tls.certificate={}", self.text("server.crt")),
            format!("http.tls.key={}", self.text("server.key")),
        ];
        if client_ca {
            all.push(format!("http.tls.client_ca={}", self.text("ca.crt")));
        }
        all.extend(settings.iter().map(|setting| (*setting).to_owned()));
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let server = Server::start_by(serve, &self.folder.path().join("data"), &["es8"], &all, &[]);
        (server, log)
    }

    /// `curl` to a path of the server; its exit code and what it prints.
    fn curl(&self, server: &Server, ca: &str, arguments: &[&str], path: &str) -> (i32, String) {
        let url = format!("https://{}{path}", server.address("es8"));
        let done = Command::new("curl")
            .args(["-sS", "--max-time", "20", "--cacert", ca, url.as_str()])
            .args(arguments)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
        (done.status.code().unwrap_or(-1), text)
    }
}

/// What `openssl s_client` says of a handshake.
fn handshake(server: &Server, arguments: &[&str]) -> (bool, String) {
    let mut client = Command::new("openssl");
    client.args(["s_client", "-connect", server.address("es8")]).args(arguments);
    let done = client.stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    (done.status.success(), text)
}

fn wait_for(log: &Path, part: &str) -> String {
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        let text = std::fs::read_to_string(log).unwrap();
        if let Some(line) = text.lines().find(|line| line.contains(part)) {
            return line.to_owned();
        }
        assert!(Instant::now() < until, "no [{part}] in {text}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn an_authority_issues_certificates_for_its_owner_alone() {
    let certificates = Certificates::new();
    for name in ["ca.crt", "ca.key", "server.crt", "server.key", "alice.crt", "alice.key"] {
        let mode = std::fs::metadata(certificates.path(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    let authority = std::fs::read(certificates.path("ca.crt")).unwrap();
    let check = |flags: &[&str], code: i32, error: &str| {
        let (got, said) = certificates.run(flags);
        assert_eq!(got, code, "{flags:?}: {said}");
        assert!(said.contains(error), "{flags:?}: {said}");
    };
    check(&[], 1, "is there already; --replace makes it anew");
    check(&["--replace", "--name", "search.example", "--name", "10.1.2.3"], 0, "");
    check(&["--client", "../x"], 1, "cannot be the name of a file");
    check(&["--client", "server"], 1, "cannot be the name of a file");
    check(&["--name", "ä.example", "--replace"], 1, "cannot be made");
    assert_eq!(
        std::fs::read(certificates.path("ca.crt")).unwrap(),
        authority,
        "the authority stays"
    );
    if is_there("openssl", "version") {
        for (name, purpose) in [("server.crt", "sslserver"), ("alice.crt", "sslclient")] {
            let mut verify = Command::new("openssl");
            verify
                .args(["verify", "-purpose", purpose, "-CAfile"])
                .arg(certificates.path("ca.crt"));
            let done = verify.arg(certificates.path(name)).output().unwrap();
            assert!(done.status.success(), "{name}: {done:?}");
        }
        let mut shown = Command::new("openssl");
        shown
            .args(["x509", "-noout", "-ext", "subjectAltName", "-in"])
            .arg(certificates.path("server.crt"));
        let shown = String::from_utf8(shown.output().unwrap().stdout).unwrap();
        assert!(shown.contains("DNS:search.example, IP Address:10.1.2.3"), "{shown}");
    }
    std::fs::remove_file(certificates.path("ca.key")).unwrap();
    check(&["--replace"], 1, "an authority needs both");
}

#[test]
fn requests_are_answered_over_tls_and_nothing_else() {
    if !has_clients() {
        return;
    }
    let certificates = Certificates::new();
    let (server, _) = certificates.server(false, &["http.read_timeout=500ms"]);
    let ca = certificates.text("ca.crt");
    let (code, text) = certificates.curl(&server, &ca, &["-w", " %{http_code} %{http_version}"], "/readyz");
    assert!(code == 0 && text.ends_with(" 200 2"), "{code}: {text}");
    let former = ["--http1.1", "-w", " %{http_code} %{http_version}"];
    let (code, text) = certificates.curl(&server, &ca, &former, "/readyz");
    assert!(code == 0 && text.ends_with(" 200 1.1"), "{code}: {text}");
    // A page of this server's own, whose name is in the target over HTTP/2.
    let own = format!("origin: https://{}", server.address("es8"));
    for (origin, status) in [(own.as_str(), "200"), ("origin: https://evil.example", "403")] {
        let (_, text) = certificates.curl(&server, &ca, &["-H", origin, "-w", " %{http_code}"], "/");
        assert!(text.ends_with(status), "{origin}: {text}");
    }
    // A long body and a long answer.
    let body = certificates.folder.path().join("body");
    let line = format!("{{\"index\":{{\"_index\":\"i\"}}}}\n{{\"text\":\"{}\"}}\n", "x".repeat(2000));
    std::fs::write(&body, line.repeat(2000)).unwrap();
    let data = format!("@{}", body.display());
    let bulk = [
        "-X",
        "POST",
        "-H",
        "content-type: application/x-ndjson",
        "--data-binary",
        data.as_str(),
    ];
    let (code, text) = certificates.curl(&server, &ca, &bulk, "/_bulk?refresh=true&filter_path=errors");
    assert_eq!((code, text.trim()), (0, r#"{"errors":false}"#));
    let (code, text) = certificates.curl(&server, &ca, &[], "/i/_search?size=2000");
    assert!(code == 0 && text.len() > 4_000_000, "{code}: {} bytes", text.len());
    // An authority that is not the server's: curl refuses.
    let other = Certificates::new();
    let (code, text) = certificates.curl(&server, &other.text("ca.crt"), &[], "/");
    assert_eq!(code, 60, "{text}");
    // HTTP without TLS gets no answer, and neither does a client that says nothing.
    assert!(server.send("GET", "/", "").is_err());
    let mut silent = std::net::TcpStream::connect(server.address("es8")).unwrap();
    silent.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let begun = Instant::now();
    assert_eq!(silent.read(&mut [0; 1]).unwrap_or(0), 0);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    // Who begins a handshake and stops is cut as well.
    let mut half = std::net::TcpStream::connect(server.address("es8")).unwrap();
    half.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    half.write_all(&[22, 3, 1, 2, 0]).unwrap();
    assert_eq!(half.read(&mut [0; 1]).unwrap_or(0), 0);
    for (version, accepted) in [("-tls1_1", false), ("-tls1_2", true), ("-tls1_3", true)] {
        let (_, text) = handshake(&server, &[version, "-CAfile", ca.as_str()]);
        let verified = text.contains("BEGIN CERTIFICATE") && text.contains("Verify return code: 0 (ok)");
        assert_eq!(verified, accepted, "{version}: {text}");
    }
}

#[test]
fn clients_prove_who_they_are() {
    if !has_clients() {
        return;
    }
    let certificates = Certificates::new();
    let (server, _) = certificates.server(true, &[]);
    let ca = certificates.text("ca.crt");
    let with = |certificates: &Certificates| [certificates.text("alice.crt"), certificates.text("alice.key")];
    let [certificate, key] = with(&certificates);
    let own = ["--cert", certificate.as_str(), "--key", key.as_str()];
    let (code, text) = certificates.curl(&server, &ca, &own, "/readyz");
    assert!(code == 0 && text.contains("pass"), "{code}: {text}");
    let (code, text) = certificates.curl(&server, &ca, &[], "/readyz");
    assert!(code != 0 && !text.contains("pass"), "{code}: {text}");
    let other = Certificates::new();
    let [certificate, key] = with(&other);
    let foreign = ["--cert", certificate.as_str(), "--key", key.as_str()];
    let (code, text) = certificates.curl(&server, &ca, &foreign, "/readyz");
    assert!(code != 0 && !text.contains("pass"), "{code}: {text}");
}

#[test]
fn commands_ask_a_server_over_tls() {
    let certificates = Certificates::new();
    let (server, _) = certificates.server(true, &[]);
    let url = format!("https://{}", server.address("es8"));
    let (ca, certificate, key) = (
        certificates.text("ca.crt"),
        certificates.text("alice.crt"),
        certificates.text("alice.key"),
    );
    let run = |words: &[&str], flags: &[&str]| {
        let mut asked = command();
        asked
            .args(words)
            .args(["--url", url.as_str()])
            .args(flags)
            .stdin(Stdio::piped());
        asked.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = asked.spawn().unwrap();
        // Who does not read it closes it.
        let _ = child.stdin.take().unwrap().write_all(br#"{"a":1}"#);
        let done = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
        (done.status.code().unwrap_or(-1), text)
    };
    let whole = ["--ca", ca.as_str(), "--cert", certificate.as_str(), "--key", key.as_str()];
    let (code, text) = run(&["put", "i", "1", "--refresh"], &whole);
    assert!(code == 0 && text.contains("created"), "{code}: {text}");
    assert_eq!(run(&["count", "i"], &whole), (0, "{\"count\":1}\n".to_owned()));
    let held = [
        &["lock", "run", "--name", "x", "--keep-alive", "1s"][..],
        &["--url", url.as_str()][..],
        &whole[..],
    ]
    .concat();
    let done = command().args(held).args(["--", "sleep", "2"]).output().unwrap();
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    for (flags, part) in [
        (&[][..], "no answer from the server"),
        (&whole[..2], "no answer from the server"),
        (&["--ca", key.as_str()], "it has no certificate"),
        (&["--ca", "/no/such"], "[--ca] is [/no/such]"),
    ] {
        let (code, text) = run(&["count", "i"], flags);
        assert!(code == 1 && text.contains(part), "{flags:?}: {code}: {text}");
    }
    assert_eq!(run(&["count", "i"], &["--cert", certificate.as_str()]).0, 2);
}

#[test]
fn sighup_reads_certificates_again() {
    if !has_clients() {
        return;
    }
    let certificates = Certificates::new();
    let (server, log) = certificates.server(false, &[]);
    let ca = certificates.text("ca.crt");
    let shown = |server: &Server| {
        let (_, text) = handshake(server, &["-CAfile", ca.as_str()]);
        let end = text.find("-----END CERTIFICATE-----").unwrap_or_else(|| panic!("{text}"));
        text[text.find("-----BEGIN CERTIFICATE-----").unwrap()..end].to_owned()
    };
    let first = shown(&server);
    assert_eq!(certificates.run(&["--replace"]).0, 0);
    assert_eq!(shown(&server), first, "nothing changes by itself");
    server.signal(libc::SIGHUP);
    wait_for(&log, "so are the certificates");
    let second = shown(&server);
    assert_ne!(second, first);
    // A key of another certificate, then a file that is none: the old ones stay.
    std::fs::copy(certificates.path("alice.key"), certificates.path("server.key")).unwrap();
    server.signal(libc::SIGHUP);
    let told = wait_for(&log, "the old ones stay");
    assert!(told.contains("http.tls.certificate"), "{told}");
    assert_eq!(shown(&server), second);
    let (code, text) = certificates.curl(&server, &ca, &[], "/readyz");
    assert!(code == 0 && text.contains("pass"), "{code}: {text}");
}

#[test]
fn files_that_cannot_be_used_refuse_the_start() {
    let certificates = Certificates::new();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("empty"), "").unwrap();
    let empty = folder.path().join("empty").to_str().unwrap().to_owned();
    let check = |certificate: &str, key: &str, client_ca: &str, part: &str| {
        let mut serve = command();
        serve.current_dir(folder.path()).args(["--listen", "127.0.0.1:0"]);
        serve.args(["--tls-certificate", certificate, "--tls-key", key]);
        if !client_ca.is_empty() {
            serve.args(["--tls-client-ca", client_ca]);
        }
        let done = serve.output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(1), "{said}");
        assert!(said.contains(part) && said.lines().count() == 1, "no [{part}] in {said}");
    };
    let (certificate, key) = (certificates.text("server.crt"), certificates.text("server.key"));
    check(
        "/no/such",
        &key,
        "",
        "[http.tls.certificate] is [/no/such], which cannot be used",
    );
    check(&empty, &key, "", "it has no certificate");
    check(&certificate, &empty, "", "[http.tls.key] is");
    check(&certificate, &certificates.text("alice.key"), "", "with the key");
    check(&certificate, &key, &empty, "[http.tls.client_ca] is");
}
