//! Who may ask: hosts that are this server's, and origins of web pages that are allowed (CORS).
//!
//! Without passwords the loopback address is all the protection there is, and a web page reaches it too: by a request
//! that its browser sends there, which names the page's `Origin`, or under a name of its own that it lets point to
//! 127.0.0.1 (DNS rebinding), which the `Host` tells. Not here: media types (`body`), where the settings come from.

use crate::body::Admitted;
use crate::respond::Answer;
use hyper::header::{HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN};
use model::{Error, ErrorKind, Result};
use regex::{Regex, RegexBuilder};
use std::borrow::Cow;
use std::net::IpAddr;

/// Bytes that the expression of origins may take when it is compiled.
const EXPRESSION_MAX_BYTES: usize = 1 << 20;

/// `http.allowed_hosts`, where `*` is every host.
pub const ALLOWED_HOSTS: &str = "http.allowed_hosts";
/// Whether pages of any other origin may ask.
pub const CORS_ENABLED: &str = "http.cors.enabled";
/// Their origins, where `*` is every origin.
pub const CORS_ALLOW_ORIGIN: &str = "http.cors.allow-origin";

/// Methods, and headers beside the simple ones, that a page may use.
pub const CORS_ALLOW_METHODS: &str = "http.cors.allow-methods";
pub const CORS_ALLOW_HEADERS: &str = "http.cors.allow-headers";
/// Headers of answers that a page may read.
pub const CORS_EXPOSE_HEADERS: &str = "http.cors.expose-headers";
/// Whether browsers may send cookies and passwords that they keep.
pub const CORS_ALLOW_CREDENTIALS: &str = "http.cors.allow-credentials";
/// Seconds for which a browser need not ask again.
pub const CORS_MAX_AGE: &str = "http.cors.max-age";

/// Their defaults, which are Elasticsearch's.
pub const DEFAULT_METHODS: &str = "OPTIONS,HEAD,GET,POST,PUT,DELETE";
pub const DEFAULT_HEADERS: &str =
    "X-Requested-With,Content-Type,Content-Length,Authorization,Accept,User-Agent,X-Elastic-Client-Meta,X-Opaque-Id";
pub const DEFAULT_EXPOSED: &str = "X-Elastic-Product";
pub const DEFAULT_MAX_AGE: &str = "1728000";

/// Which hosts and origins are allowed. By default: loopback, and pages of no other origin.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// Addresses and names besides loopback, in lower case without ports.
    pub hosts: Vec<String>,
    /// Origins of pages; none unless CORS is on.
    pub origins: Origins,
    /// The rights of pages whose origin is allowed.
    pub grants: Grants,
}

/// Origins of pages.
#[derive(Clone, Debug)]
pub enum Origins {
    /// `https://example.org:8443` and the like, in lower case; `*` is any.
    Listed(Vec<String>),
    /// Every origin that this matches as a whole.
    Matching(Regex),
}

impl Default for Origins {
    fn default() -> Origins {
        Origins::Listed(Vec::new())
    }
}

/// The rights of pages whose origin is allowed.
#[derive(Clone, Debug)]
pub struct Grants {
    pub methods: String,
    pub headers: String,
    /// Empty: those that every page may read.
    pub exposed: String,
    pub credentials: bool,
    pub max_age: u32,
}

impl Default for Grants {
    fn default() -> Grants {
        Grants {
            methods: DEFAULT_METHODS.to_owned(),
            headers: DEFAULT_HEADERS.to_owned(),
            exposed: DEFAULT_EXPOSED.to_owned(),
            credentials: false,
            max_age: 1_728_000,
        }
    }
}

impl Origins {
    /// Reads `http.cors.allow-origin`: origins separated by commas, `*`, or an expression between slashes.
    ///
    /// # Errors
    /// An origin that is none, an expression that cannot be read.
    pub fn parse(text: &str) -> Result<Origins> {
        let text = text.trim();
        if let Some(expression) = text.strip_prefix('/').and_then(|rest| rest.strip_suffix('/')) {
            let whole = RegexBuilder::new(&format!("^(?:{expression})$"))
                .size_limit(EXPRESSION_MAX_BYTES)
                .build();
            return whole.map(Origins::Matching).map_err(|cause| {
                let cause = cause.to_string().replace('\n', " ");
                Error::illegal(format!("[{CORS_ALLOW_ORIGIN}] is [{text}], which is no expression: {cause}"))
            });
        }
        let parts = text.split(',').map(|part| part.trim().to_lowercase());
        let origins: Vec<String> = parts.filter(|part| !part.is_empty()).collect();
        let is_origin = |origin: &&String| match origin.split_once("://") {
            Some((_, host)) => !host.is_empty() && !host.contains(['/', '*']),
            None => matches!(origin.as_str(), "*" | "null"),
        };
        match origins.iter().find(|origin| !is_origin(origin)) {
            Some(origin) => Err(Error::illegal(format!(
                "[{CORS_ALLOW_ORIGIN}] has [{origin}]: must be an origin as https://example.org:8443, an expression as \
                 /https:\\/\\/.*\\.example\\.org/, or [*]"
            ))),
            None => Ok(Origins::Listed(origins)),
        }
    }

    /// Is there none?
    pub fn is_empty(&self) -> bool {
        matches!(self, Origins::Listed(origins) if origins.is_empty())
    }

    /// Is every origin allowed?
    pub fn is_any(&self) -> bool {
        matches!(self, Origins::Listed(origins) if origins.iter().any(|origin| origin == "*"))
    }

    fn allow(&self, origin: &str) -> bool {
        match self {
            Origins::Listed(origins) => origins.iter().any(|allowed| allowed == "*" || allowed == origin),
            Origins::Matching(expression) => expression.is_match(origin),
        }
    }
}

impl Access {
    /// Whether a request with these headers may be answered. `target`: the host of its URI, where that has one; over HTTP/2 there
    /// is no other. By a unix socket no page comes under a name of its own: its hosts are not compared.
    ///
    /// # Errors
    /// `security_exception` (403): a host that is not ours, an origin that is not allowed.
    pub(crate) fn check(&self, headers: &HeaderMap, target: Option<&str>, by_network: bool) -> Result<Admitted> {
        let mut hosts: Vec<Cow<'_, str>> = headers.get_all(HOST).iter().map(name_in).collect();
        hosts.extend(target.map(lower));
        if by_network {
            hosts.iter().try_for_each(|host| self.check_host(host))?;
        }
        let mut admitted = Admitted::default();
        for origin in headers.get_all(ORIGIN).iter().map(name_in) {
            if !self.origins.allow(&origin) && !hosts.iter().any(|host| is_same(&origin, host)) {
                let reason = format!(
                    "origin [{origin}] is not allowed: web pages of other origins may not send requests; \
                     the settings [{CORS_ENABLED}] and [{CORS_ALLOW_ORIGIN}] allow some"
                );
                return Err(Error::new(ErrorKind::Security, reason));
            }
            admitted.origin = Some(origin.into_owned());
        }
        if admitted.origin.is_none() {
            self.check_embedded(headers)?;
        }
        Ok(admitted)
    }

    /// Images, scripts and the like that a page takes from here: its browser names no origin, but says that it is another's. A
    /// link that somebody follows is no such request.
    fn check_embedded(&self, headers: &HeaderMap) -> Result<()> {
        let is = |name: &'static str, wanted: &[&str]| {
            let value = headers.get(HeaderName::from_static(name));
            value.is_some_and(|value| wanted.iter().any(|wanted| value.as_bytes() == wanted.as_bytes()))
        };
        let embedded = is("sec-fetch-site", &["cross-site", "same-site"]) && !is("sec-fetch-mode", &["navigate"]);
        if !embedded || self.origins.is_any() {
            return Ok(());
        }
        let reason = "a web page of another origin may not embed answers (its browser sent [Sec-Fetch-Site])";
        Err(Error::new(ErrorKind::Security, reason))
    }

    fn check_host(&self, host: &str) -> Result<()> {
        let name = without_port(host);
        // Requests of HTTP/1.0 may name none; browsers always do.
        if name.is_empty() || is_loopback(name) || self.hosts.iter().any(|allowed| allowed == "*" || allowed == name) {
            return Ok(());
        }
        let reason = format!(
            "host [{host}] is not this server: a web page may have let its own name point here; \
             the setting [{ALLOWED_HOSTS}] takes names besides loopback"
        );
        Err(Error::new(ErrorKind::Security, reason))
    }

    /// The answer to a browser that asks whether a page may send a request, if it does.
    pub(crate) fn preflight(&self, admitted: &Admitted, method: &hyper::Method, headers: &HeaderMap) -> Option<Answer> {
        let asks = headers.contains_key(HeaderName::from_static("access-control-request-method"));
        if admitted.origin.is_none() || method != hyper::Method::OPTIONS || !asks {
            return None;
        }
        let answer = Answer::empty(200)
            .header("access-control-allow-methods", &*self.grants.methods)
            .header("access-control-allow-headers", &*self.grants.headers)
            .header("access-control-max-age", self.grants.max_age.to_string());
        Some(answer)
    }

    /// The headers that let a page read an answer.
    pub(crate) fn headers<'a>(&'a self, admitted: &'a Admitted) -> Vec<(&'static str, &'a str)> {
        let Some(origin) = &admitted.origin else { return Vec::new() };
        let mut out = vec![("access-control-allow-origin", origin.as_str()), ("vary", "Origin")];
        if self.grants.credentials {
            out.push(("access-control-allow-credentials", "true"));
        }
        if !self.grants.exposed.is_empty() {
            out.push(("access-control-expose-headers", &self.grants.exposed));
        }
        out
    }
}

/// A host or an origin of a header, in lower case: most are so already.
fn name_in(value: &HeaderValue) -> Cow<'_, str> {
    match std::str::from_utf8(value.as_bytes()) {
        Ok(text) => lower(text.trim()),
        Err(_) => Cow::Owned(String::from_utf8_lossy(value.as_bytes()).trim().to_lowercase()),
    }
}

fn lower(text: &str) -> Cow<'_, str> {
    match text.chars().all(|c| c.is_ascii() && !c.is_ascii_uppercase()) {
        true => Cow::Borrowed(text),
        false => Cow::Owned(text.to_lowercase()),
    }
}

/// A host without its port and the dot that ends a whole name.
fn without_port(host: &str) -> &str {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        // More than one colon and no brackets: an address of IPv6 alone.
        None if host.matches(':').count() > 1 => host,
        None => host.split(':').next().unwrap_or_default(),
    };
    name.strip_suffix('.').unwrap_or(name)
}

fn is_loopback(name: &str) -> bool {
    // Browsers and resolvers keep names below localhost on the machine (RFC 6761).
    let local = name == "localhost" || name.ends_with(".localhost");
    local
        || name
            .parse::<IpAddr>()
            .is_ok_and(|address| address.to_canonical().is_loopback())
}

/// A page that came from this very host.
fn is_same(origin: &str, host: &str) -> bool {
    let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    !host.is_empty() && authority == Some(host)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    fn check(access: &Access, host: &str, origin: &str) -> bool {
        let mut headers = HeaderMap::new();
        let mut set = |name: HeaderName, value: &str| {
            if !value.is_empty() {
                headers.append(name, HeaderValue::from_str(value).expect("a header"));
            }
        };
        set(HOST, host);
        set(ORIGIN, origin);
        access.check(&headers, None, true).is_ok()
    }

    #[test]
    fn hosts_and_origins() {
        let none = Access::default();
        for host in [
            "",
            "localhost",
            "LOCALHOST:9200",
            "127.0.0.1:9200",
            "127.1.2.3",
            "[::1]:9200",
            "::1",
            "es.localhost",
            "localhost.:1",
        ] {
            assert!(check(&none, host, ""), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example:9200",
            "192.168.1.7:9200",
            "0.0.0.0",
            "[::2]:9200",
            "notlocalhost",
        ] {
            assert!(!check(&none, host, ""), "{host}");
        }
        let some = Access {
            hosts: vec!["search.example".into()],
            origins: Origins::parse("https://app.example").unwrap(),
            ..Access::default()
        };
        assert!(check(&some, "Search.Example:443", "https://app.example"));
        assert!(check(&some, "localhost:9200", "http://localhost:9200"), "its own page");
        for origin in [
            "null",
            "https://evil.example",
            "https://app.example.evil.example",
            "http://app.example",
            "http://localhost:3000",
            "file://",
        ] {
            assert!(!check(&some, "localhost:9200", origin), "{origin}");
        }
        assert!(!check(&none, "localhost:9200", "https://app.example"));
        let embedded = |site: &'static str, mode: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, HeaderValue::from_static("localhost:9200"));
            headers.insert("sec-fetch-site", HeaderValue::from_static(site));
            headers.insert("sec-fetch-mode", HeaderValue::from_static(mode));
            none.check(&headers, None, true).is_ok()
        };
        assert!(!embedded("cross-site", "no-cors") && !embedded("same-site", "no-cors"));
        assert!(embedded("cross-site", "navigate") && embedded("none", "navigate") && embedded("same-origin", "cors"));
        let every = Access {
            hosts: vec!["*".into()],
            origins: Origins::parse("*").unwrap(),
            ..Access::default()
        };
        assert!(check(&every, "a.example", "null"));
        // Over HTTP/2 the target has the name; by a unix socket no name matters, and origins do.
        let mut headers = HeaderMap::new();
        assert!(none.check(&headers, Some("evil.example"), true).is_err());
        assert!(none.check(&headers, Some("evil.example"), false).is_ok());
        headers.insert(ORIGIN, HeaderValue::from_static("https://search.example"));
        assert!(some.check(&headers, Some("search.example"), true).is_ok(), "its own page");
        assert!(none.check(&headers, Some("search.example"), false).is_ok(), "its own page");
        assert!(none.check(&headers, Some("evil.example"), false).is_err());
    }

    #[test]
    fn origins_by_an_expression() {
        let check = |text: &str, origin: &str, expected: bool| {
            assert_eq!(Origins::parse(text).unwrap().allow(origin), expected, "{text} {origin}");
        };
        let local = r"/https?:\/\/localhost(:[0-9]+)?/";
        check(local, "http://localhost:3000", true);
        check(local, "https://localhost", true);
        check(local, "https://localhost.evil.example", false);
        check(local, "https://evil.example/http://localhost", false);
        check("/a|b/", "ab", false);
        check("/.*/", "null", true);
        for wrong in [
            "/(/",
            "https://a.example/x",
            "https://*.example",
            "a.example",
            "/a{9999}{9999}/",
        ] {
            let error = Origins::parse(wrong).expect_err(wrong);
            assert!(error.reason().contains(CORS_ALLOW_ORIGIN), "{error}");
        }
    }
}
