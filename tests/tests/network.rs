//! Ways to a server beside plain HTTP/1.1 on an address: unix sockets, HTTP/2, and proxies whose word about their client is taken.
//!
//! Proxies play the files of packaging/proxy, where they are installed. Not here: TLS (`tls`), pages and CORS (`pages`).

#![expect(clippy::unwrap_used, reason = "a test's functions are tests too")]

use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tests::secured::{PASSWORD, Secured, basic, first_password};
use tests::{Server, command, root, send};

fn is_there(program: &str, version: &str) -> bool {
    let found = Command::new(program)
        .arg(version)
        .output()
        .is_ok_and(|done| done.status.success());
    if !found {
        eprintln!("skipped: {program} is not installed");
    }
    found
}

/// `curl` with these arguments: its exit code and what it prints.
fn curl(arguments: &[&str]) -> (i32, String) {
    let done = Command::new("curl")
        .args(["-sS", "--max-time", "30"])
        .args(arguments)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    (done.status.code().unwrap_or(-1), text)
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < end, "it does not become true that {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Where the audit says that the requests of a user to a path came from.
fn origins(data: &Path, user: &str, path: &str) -> Vec<String> {
    let text = std::fs::read_to_string(data.join("audit.log")).unwrap_or_default();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let of_user = lines.filter(|line| line.to_string().contains(&format!("\"{user}\"")) && line["path"] == path);
    of_user.map(|line| line["origin"].as_str().unwrap().to_owned()).collect()
}

const AUDIT: [&str; 2] = [
    "security.audit.enabled=true",
    "security.audit.events=access_granted,access_denied,authentication_failed",
];

#[test]
fn clients_behind_a_trusted_proxy_are_told_apart() {
    let check = |trusted: &str, headers: &[(&str, &str)], expected: Result<&str, &str>| {
        let setting = format!("http.trusted_proxies={trusted}");
        let secured = Secured::start(&["es8"], &[&AUDIT[..], &[setting.as_str()]].concat());
        let mut all = vec![("authorization".to_owned(), basic("nobody", PASSWORD))];
        all.extend(headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let answer = send(secured.server.address(""), "GET", "/x", &all, b"").unwrap();
        match expected {
            Ok(origin) => {
                assert_eq!(answer.status, 401, "{answer:?}");
                assert_eq!(
                    origins(&secured.folder.path().join("data"), "nobody", "/x"),
                    [origin],
                    "{trusted} {headers:?}"
                );
            }
            Err(part) => {
                assert!(
                    answer.status == 400 && answer.text.contains(part),
                    "{trusted} {headers:?}: {answer:?}"
                );
            }
        }
    };
    let one = [("X-Forwarded-For", "192.0.2.66, 198.51.100.7")];
    check("", &one, Ok("127.0.0.1"));
    check("10.0.0.0/8", &one, Ok("127.0.0.1"));
    check("127.0.0.0/8", &one, Ok("198.51.100.7"));
    check("127.0.0.1, 198.51.100.0/24", &one, Ok("192.0.2.66"));
    check(
        "127.0.0.1",
        &[("Forwarded", "for=\"[2001:db8::7]:1\";host=evil.example")],
        Ok("2001:db8::7"),
    );
    check("127.0.0.1", &[], Ok("127.0.0.1"));
    check(
        "127.0.0.1",
        &[("X-Forwarded-For", "192.0.2.66, here")],
        Err("at position [12]"),
    );
    check(
        "127.0.0.1",
        &[("Forwarded", "for=1.2.3.4"), ("X-Forwarded-For", "1.2.3.5")],
        Err("different clients"),
    );
    // The host that a proxy tells of is not believed: the one that is asked counts.
    check(
        "127.0.0.1",
        &[("X-Forwarded-Host", "evil.example"), ("X-Forwarded-For", "192.0.2.1")],
        Ok("192.0.2.1"),
    );
}

#[test]
fn logins_are_slowed_by_client_not_by_proxy() {
    let secured = Secured::start(&["es8"], &["http.trusted_proxies=127.0.0.1"]);
    let ask = |client: &str, password: &str| {
        let headers = [
            ("authorization".to_owned(), basic("admin", password)),
            ("x-forwarded-for".to_owned(), client.to_owned()),
        ];
        let begun = Instant::now();
        let status = send(secured.server.address(""), "GET", "/", &headers, b"").unwrap().status;
        (status, begun.elapsed())
    };
    for _ in 0..6 {
        assert_eq!(ask("192.0.2.1", "wrong").0, 401);
    }
    let (status, slowed) = ask("192.0.2.1", "wrong again");
    let (other, free) = ask("192.0.2.2", &secured.admin);
    assert_eq!((status, other), (401, 200));
    assert!(free < slowed, "{free:?} beside {slowed:?}");
}

/// A proxy that is ended with its test.
struct Proxy(Child);

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A server behind a proxy: a client at 127.0.0.2 is seen as such, whatever it says of itself, and pages of others are refused.
fn check_proxy(start: impl Fn(&Path, &str, u16) -> Proxy) {
    let settings = ["http.trusted_proxies=127.0.0.1", "http.allowed_hosts=search.example"];
    let secured = Secured::start(&["es8"], &[&AUDIT[..], &settings[..]].concat());
    let port = free_port();
    let mut proxy = start(secured.folder.path(), secured.server.address(""), port);
    let address = format!("127.0.0.1:{port}");
    until("the proxy listens", || {
        assert!(proxy.0.try_wait().unwrap().is_none(), "the proxy ended");
        TcpStream::connect(&address).is_ok()
    });
    let url = |path: &str| format!("http://search.example:{port}{path}");
    let resolve = format!("search.example:{port}:127.0.0.1");
    let user = format!("admin:{}", secured.admin);
    let ask = |more: &[&str], path: &str| {
        let own = [
            "--interface",
            "127.0.0.2",
            "--resolve",
            &resolve,
            "-u",
            &user,
            "-w",
            "\n%{http_code}",
        ];
        let (code, text) = curl(&[&own[..], more, &[&url(path)]].concat());
        assert_eq!(code, 0, "{text}");
        text
    };
    let body = ["-X", "PUT", "-H", "content-type: application/json", "-d", "{\"n\":1}"];
    assert!(ask(&body, "/i/_doc/1?refresh=true").ends_with("201"));
    let lies = ["-H", "X-Forwarded-For: 192.0.2.66", "-H", "Forwarded: for=192.0.2.67"];
    let found = ask(&lies, "/i/_search");
    assert!(found.ends_with("200") && found.contains("\"n\":1"), "{found}");
    let seen = origins(&secured.folder.path().join("data"), "admin", "/i/_search");
    assert_eq!(seen, ["127.0.0.2"]);
    let foreign = ask(&["-H", "Origin: https://evil.example"], "/i/_search");
    assert!(foreign.ends_with("403"), "{foreign}");
    let own = ask(&["-H", &format!("Origin: http://search.example:{port}")], "/i/_search");
    assert!(own.ends_with("200"), "{own}");
}

fn file(name: &str) -> String {
    std::fs::read_to_string(root().join("packaging/proxy").join(name)).unwrap()
}

/// With a part replaced that has to be there.
fn replaced(text: &str, part: &str, by: &str) -> String {
    assert!(text.contains(part), "no [{part}] in {text}");
    text.replace(part, by)
}

#[test]
fn nginx_passes_clients_on() {
    if !is_there("curl", "--version") || !is_there("nginx", "-v") {
        return;
    }
    check_proxy(|folder, upstream, port| {
        // The certificate is the site's own: the test asks without TLS.
        let text = file("nginx.conf");
        let plain = text.lines().filter(|line| !line.trim().starts_with("ssl_certificate"));
        let text = plain.collect::<Vec<_>>().join("\n");
        let text = replaced(&text, "listen 443 ssl http2;", &format!("listen 127.0.0.1:{port};"));
        let text = replaced(&text, "server 127.0.0.1:9200;", &format!("server {upstream};"));
        let at = folder.join("nginx");
        std::fs::create_dir_all(&at).unwrap();
        let paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
        let paths: String = paths
            .map(|name| format!("{name}_temp_path {};\n", at.join(name).display()))
            .concat();
        let whole = format!(
            "daemon off;\nmaster_process off;\npid {};\nerror_log stderr;\nevents {{}}\nhttp {{\naccess_log off;\n{paths}{text}\n}}\n",
            at.join("pid").display()
        );
        std::fs::write(at.join("nginx.conf"), whole).unwrap();
        let mut nginx = Command::new("nginx");
        nginx
            .arg("-p")
            .arg(&at)
            .arg("-c")
            .arg(at.join("nginx.conf"))
            .arg("-e")
            .arg("stderr");
        Proxy(nginx.stdin(Stdio::null()).spawn().unwrap())
    });
}

#[test]
fn caddy_passes_clients_on() {
    if !is_there("curl", "--version") || !is_there("caddy", "version") {
        return;
    }
    check_proxy(|folder, upstream, port| {
        let text = replaced(
            &file("Caddyfile"),
            "search.example {",
            &format!("http://search.example:{port} {{"),
        );
        let text = replaced(&text, "127.0.0.1:9200", upstream);
        let at = folder.join("caddy");
        std::fs::create_dir_all(&at).unwrap();
        std::fs::write(at.join("Caddyfile"), format!("{{\n\tadmin off\n}}\n{text}")).unwrap();
        let mut caddy = Command::new("caddy");
        caddy
            .args(["run", "--adapter", "caddyfile", "--config"])
            .arg(at.join("Caddyfile"));
        caddy.env("HOME", &at).env("XDG_DATA_HOME", &at).env("XDG_CONFIG_HOME", &at);
        Proxy(caddy.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    });
}

/// A server on a unix socket alone.
fn on_socket(data: &Path, socket: &Path, settings: &[&str]) -> Server {
    let listen = format!("listen=unix:{}", socket.display());
    let server = Server::start_with(data, &[], &[&[listen.as_str()], settings].concat());
    until("the socket is there", || UnixStream::connect(socket).is_ok());
    // It is alive before its data folder is open, and ready once it has users.
    until("it is ready", || {
        by_socket(socket, "GET", "/readyz", "host: localhost\r\n").0 == 200
    });
    server
}

/// One request by a unix socket; its status and everything that is answered.
fn by_socket(socket: &Path, method: &str, path: &str, headers: &str) -> (u16, String) {
    let mut stream = UnixStream::connect(socket).unwrap();
    let head = format!("{method} {path} HTTP/1.1\r\n{headers}connection: close\r\ncontent-length: 0\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    (
        answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap(),
        answer,
    )
}

#[test]
fn a_unix_socket_is_for_its_user_and_knows_who_asks() {
    let folder = tempfile::tempdir().unwrap();
    let (data, socket) = (folder.path().join("data"), folder.path().join("http.sock"));
    let mut server = on_socket(
        &data,
        &socket,
        &AUDIT.iter().copied().chain(["security.enabled=true"]).collect::<Vec<_>>(),
    );
    assert_eq!(std::fs::metadata(&socket).unwrap().mode() & 0o777, 0o600);
    let password = first_password(&data);
    let login = format!("host: evil.example\r\nauthorization: {}\r\n", basic("admin", &password));
    // No page comes by a socket under a name of its own, but by a proxy it comes with its origin.
    assert_eq!(by_socket(&socket, "PUT", "/i", &login).0, 200);
    assert_eq!(
        by_socket(&socket, "GET", "/i", &format!("{login}origin: https://other.example\r\n")).0,
        403
    );
    assert_eq!(by_socket(&socket, "GET", "/i", "host: localhost\r\n").0, 401);
    // SAFETY: it takes and changes nothing.
    let user = unsafe { libc::getuid() };
    assert_eq!(origins(&data, "admin", "/i"), [format!("uid:{user}")]);
    let (status, nodes) = by_socket(&socket, "GET", "/_nodes/http", &login);
    assert!(status == 200 && nodes.contains("publish_address"), "{nodes}");
    let asked = |words: &[&str]| {
        let mut asked = command();
        asked
            .args(words)
            .args(["--user", "admin", "--url"])
            .arg(format!("unix:{}", socket.display()));
        let done = asked.env("PLEACH_PASSWORD", &password).output().unwrap();
        (
            done.status.code(),
            String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr),
        )
    };
    assert_eq!(asked(&["count", "i"]), (Some(0), "{\"count\":0}\n".to_owned()));
    // Another server does not take it over, and the one that ends removes it.
    let mut other = command();
    other.args(["serve", "--data"]).arg(folder.path().join("other"));
    let refused = other
        .arg("--listen")
        .arg(format!("unix:{}", socket.display()))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        refused.status.code() == Some(1) && said.contains("another process listens there"),
        "{said}"
    );
    server.signal(libc::SIGTERM);
    assert!(server.wait(Duration::from_secs(30)).unwrap().success());
    assert!(!socket.exists());
    // Killed, it leaves it behind: the next one replaces it.
    drop(on_socket(&data, &socket, &[]));
    assert!(socket.exists() && UnixStream::connect(&socket).is_err());
    let server = on_socket(&data, &socket, &["http.trusted_proxies=unix"]);
    let (status, text) = by_socket(&socket, "GET", "/", "x-forwarded-for: here\r\n");
    assert!(status == 400 && text.contains("at position [0]"), "{text}");
    drop(server);
}

#[test]
fn a_socket_stands_beside_an_address_with_a_persona_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("old.sock");
    let listen = format!("listen = [\"127.0.0.1:0\", \"unix:{}=es2\"]", socket.display());
    std::fs::write(folder.path().join("pleach.toml"), listen).unwrap();
    let server = Server::start_with(&folder.path().join("data"), &[], &[]);
    until("the socket answers", || UnixStream::connect(&socket).is_ok());
    let (_, text) = by_socket(&socket, "GET", "/", "host: localhost\r\n");
    assert!(text.contains("\"number\":\"2."), "{text}");
    drop(server);
}

#[test]
fn requests_are_answered_over_http2() {
    if !is_there("curl", "--version") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"), &["es8"]);
    let url = |path: &str| format!("http://{}{path}", server.address(""));
    let ask = |more: &[&str], path: &str| {
        let own = ["--http2-prior-knowledge", "-w", "\n%{http_version} %{http_code}"];
        let (code, text) = curl(&[&own[..], more, &[&url(path)]].concat());
        assert_eq!(code, 0, "{text}");
        text
    };
    let line = format!("{{\"index\":{{\"_index\":\"i\"}}}}\n{{\"text\":\"{}\"}}\n", "x".repeat(2000));
    std::fs::write(folder.path().join("body"), line.repeat(2000)).unwrap();
    let data = format!("@{}", folder.path().join("body").display());
    let bulk = ["-H", "content-type: application/x-ndjson", "--data-binary", data.as_str()];
    assert_eq!(
        ask(&bulk, "/_bulk?refresh=true&filter_path=errors"),
        "{\"errors\":false}\n2 200"
    );
    let found = ask(&[], "/i/_search?size=2000");
    assert!(found.len() > 4_000_000 && found.ends_with("\n2 200"), "{} bytes", found.len());
    assert_eq!(ask(&["-I"], "/i").lines().next().unwrap().trim(), "HTTP/2 200");
    assert!(ask(&["-H", "Host: evil.example"], "/").ends_with("2 403"));
    assert!(ask(&["-H", "Origin: https://evil.example"], "/").ends_with("2 403"));
    let own = format!("Origin: http://{}", server.address(""));
    assert!(ask(&["-H", &own], "/").ends_with("2 200"), "its own page");
    // HTTP/1.1 on the same address, as before; a method that begins alike is none of HTTP/2.
    assert_eq!(server.send("PROPFIND", "/", "").unwrap().status, 405);
    let mut slow = TcpStream::connect(server.address("")).unwrap();
    for part in [
        "P",
        "O",
        "ST /_refresh HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
    ] {
        slow.write_all(part.as_bytes()).unwrap();
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut answer = String::new();
    slow.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = u32::try_from(payload.len()).unwrap().to_be_bytes()[1..].to_vec();
    out.extend([kind, flags]);
    out.extend(stream.to_be_bytes());
    out.extend(payload);
    out
}

/// The head of `GET /` by indices of HPACK's static table, at its end.
const GET: [u8; 3] = [0x82, 0x86, 0x84];

/// The head of `POST /i/_doc` with a body of JSON.
const POST: &[u8] = b"\x83\x86\x04\x07/i/_doc\x0f\x10\x10application/json";

/// A connection of HTTP/2 that has begun with these settings.
fn http2(server: &Server, settings: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(server.address("")).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
    stream.write_all(&frame(4, 0, 0, settings)).unwrap();
    stream
}

/// Frames until the connection ends: kind and payload.
fn frames(stream: &mut TcpStream) -> Vec<(u8, Vec<u8>)> {
    let mut bytes = Vec::new();
    // A connection that is reset ends as well.
    let _ = stream.read_to_end(&mut bytes);
    let (mut out, mut rest) = (Vec::new(), bytes.as_slice());
    while rest.len() >= 9 {
        let length = u32::from_be_bytes([0, rest[0], rest[1], rest[2]]) as usize;
        let kind = rest[3];
        let end = (9 + length).min(rest.len());
        out.push((kind, rest[9..end].to_vec()));
        rest = &rest[end..];
    }
    out
}

#[test]
fn http2_is_bounded() {
    if !is_there("curl", "--version") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let settings = [
        "http.http2.max_concurrent_streams=7",
        "http.http2.max_header_list_size=4kb",
        "http.http2.max_resets=5",
        "http.read_timeout=1s",
        "http.write_timeout=1s",
    ];
    let server = Server::start_with(&folder.path().join("data"), &["es8"], &settings);
    let url = format!("http://{}/", server.address(""));
    // Headers beyond the limit.
    let long = format!("X-Long: {}", "x".repeat(5000));
    let (code, text) = curl(&[
        "--http2-prior-knowledge",
        "-o",
        "/dev/null",
        "-w",
        "%{http_code}",
        "-H",
        &long,
        &url,
    ]);
    assert_eq!((code, text.trim()), (0, "431"));
    // A body that does not come to its end.
    let mut unended = http2(&server, &[]);
    unended.write_all(&frame(1, 4, 1, POST)).unwrap();
    unended.write_all(&frame(0, 0, 1, b"{\"a\":")).unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    // Told to end, the server answers and closes.
    unended.write_all(&frame(7, 0, 0, &[0; 8])).unwrap();
    let seen = frames(&mut unended);
    let answer = seen
        .iter()
        .filter(|(kind, _)| *kind == 0)
        .map(|(_, body)| String::from_utf8_lossy(body));
    let answer = answer.collect::<String>();
    assert!(answer.contains("http.read_timeout") && answer.contains("408"), "{answer}");
    // An answer that the client leaves no window for: the connection is cut. Its settings were told before.
    let mut silent = http2(&server, &[0, 4, 0, 0, 0, 0]);
    silent.write_all(&frame(1, 5, 1, &GET)).unwrap();
    let begun = Instant::now();
    let seen = frames(&mut silent);
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    let told = &seen.iter().find(|(kind, _)| *kind == 4).unwrap().1;
    let streams = told.chunks(6).find(|setting| setting[1] == 3).unwrap();
    assert_eq!(streams, [0, 3, 0, 0, 0, 7]);
    assert!(
        seen.iter().any(|(kind, _)| *kind == 1) && !seen.iter().any(|(kind, body)| *kind == 0 && !body.is_empty()),
        "{seen:?}"
    );
    // One that takes what it asked for may stay and ask again.
    let mut idle = http2(&server, &[]);
    std::thread::sleep(Duration::from_millis(2500));
    idle.write_all(&frame(1, 5, 1, &GET)).unwrap();
    let mut first = [0; 9];
    idle.read_exact(&mut first).unwrap();
    drop(idle);
    // Requests that are taken back at once, again and again.
    let mut flooding = http2(&server, &[]);
    let mut all = Vec::new();
    for stream in (1..4000).step_by(2) {
        all.extend(frame(1, 5, stream, &GET));
        all.extend(frame(3, 0, stream, &8_u32.to_be_bytes()));
    }
    let _ = flooding.write_all(&all);
    let seen = frames(&mut flooding);
    let calm = |(kind, body): &(u8, Vec<u8>)| *kind == 7 && body[4..8] == 11_u32.to_be_bytes();
    assert!(
        seen.iter().any(calm),
        "no GOAWAY that asks for calm: {:?}",
        seen.iter().map(|(kind, _)| kind).collect::<Vec<_>>()
    );
    assert_eq!(server.ok("GET", "/", &Value::Null)["tagline"], json!("You Know, for Search"));
}

#[test]
fn http2_can_be_turned_off() {
    if !is_there("curl", "--version") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start_with(
        &folder.path().join("data"),
        &["es8"],
        &["http.http2.max_concurrent_streams=0"],
    );
    let (code, text) = curl(&["--http2-prior-knowledge", &format!("http://{}/", server.address(""))]);
    assert!(code != 0, "{text}");
    server.ok("GET", "/", &Value::Null);
}
