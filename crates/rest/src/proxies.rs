//! The client behind a trusted proxy, as the proxy tells it: `Forwarded` (RFC 7239) or `X-Forwarded-For`.
//!
//! Both list a hop each, the nearest last. They are read from the right, passing over trusted proxies: the first other hop is
//! the client, and what stands to the left of it was written by nobody whom we trust. `X-Forwarded-Host` and
//! `X-Forwarded-Proto` are not believed. Not here: what is done with the address (`serve`).

use hyper::header::{HeaderMap, HeaderName};
use model::{Error, Result};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

/// The setting.
pub const TRUSTED_PROXIES: &str = "http.trusted_proxies";

const FORWARDED: HeaderName = HeaderName::from_static("forwarded");
const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The longest name that hides an address.
const HIDDEN_MAX_BYTES: usize = 64;

/// A range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Network {
    /// Addresses of IPv4 as those of IPv6 that map them.
    bits: u128,
    /// So many of its leading bits are compared.
    prefix: u32,
}

fn bits(address: IpAddr) -> u128 {
    match address.to_canonical() {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => Ipv6Addr::to_bits(address),
    }
}

impl Network {
    /// `10.0.0.0/8`, or one address.
    fn parse(text: &str) -> Option<Network> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix.parse::<u32>().ok()?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let (width, offset) = if address.is_ipv4() { (32, 96) } else { (128, 0) };
        let prefix = prefix.unwrap_or(width);
        (prefix <= width).then(|| Network {
            bits: bits(address),
            prefix: prefix + offset,
        })
    }

    fn contains(self, address: IpAddr) -> bool {
        let differing = (self.bits ^ bits(address)).leading_zeros();
        differing >= self.prefix
    }
}

/// The proxies whose word is taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedProxies {
    networks: Vec<Network>,
    /// Whoever connects by a unix socket.
    unix: bool,
}

/// A hop of a request, as a header names it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Hop {
    Address(IpAddr),
    /// `unknown`, or a name that hides an address.
    Named(String),
}

impl TrustedProxies {
    /// Addresses and ranges separated by commas, `unix` among them.
    ///
    /// # Errors
    /// One that is none.
    pub fn parse(list: &str) -> Result<TrustedProxies> {
        let mut out = TrustedProxies::default();
        for part in list.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            match Network::parse(part) {
                Some(network) => out.networks.push(network),
                None if part == "unix" => out.unix = true,
                None => {
                    return Err(Error::illegal(format!(
                        "[{TRUSTED_PROXIES}] has [{part}]: must be an address as 127.0.0.1, a range as 10.0.0.0/8, or [unix]"
                    )));
                }
            }
        }
        Ok(out)
    }

    /// Is the other end of a connection one of them? `None`: of a unix socket.
    pub(crate) fn trusts_peer(&self, peer: Option<IpAddr>) -> bool {
        peer.map_or(self.unix, |address| self.trusts(address))
    }

    fn trusts(&self, address: IpAddr) -> bool {
        self.networks.iter().any(|network| network.contains(address))
    }

    /// The client that a request of a trusted proxy is of; `None`: the proxy itself asks.
    ///
    /// # Errors
    /// A header that cannot be read, with the position in it; both headers, which name different clients.
    pub(crate) fn client(&self, headers: &HeaderMap) -> Result<Option<Arc<str>>> {
        let read = |name: &HeaderName, hops: fn(&str) -> std::result::Result<Vec<Hop>, Malformed>| -> Result<Option<String>> {
            let Some(text) = whole_value(headers, name)? else {
                return Ok(None);
            };
            let hops = hops(&text).map_err(|malformed| malformed.refusal(name, &text))?;
            Ok(self.nearest(&hops))
        };
        let by_standard = read(&FORWARDED, parse_forwarded)?;
        let by_custom = read(&X_FORWARDED_FOR, parse_forwarded_for)?;
        match (by_standard, by_custom) {
            // Most proxies write one of them, and pass the other on as their client sent it.
            (Some(one), Some(other)) if one != other => Err(Error::illegal(format!(
                "headers [{FORWARDED}] and [{X_FORWARDED_FOR}] of a trusted proxy name different clients, [{one}] and [{other}]: \
                 the proxy is to remove the one that it does not write"
            ))),
            (one, other) => Ok(one.or(other).map(Arc::from)),
        }
    }

    /// From the right the first hop that is not trusted, else the last of all.
    fn nearest(&self, hops: &[Hop]) -> Option<String> {
        let untrusted = |hop: &&Hop| !matches!(hop, Hop::Address(address) if self.trusts(*address));
        let client = hops.iter().rev().find(untrusted).or(hops.first())?;
        Some(match client {
            Hop::Address(address) => address.to_canonical().to_string(),
            Hop::Named(name) => name.clone(),
        })
    }
}

/// A header that cannot be read: from which byte on, and what should be there.
#[derive(Debug, PartialEq, Eq)]
struct Malformed {
    at: usize,
    expected: &'static str,
}

impl Malformed {
    fn refusal(self, name: &HeaderName, text: &str) -> Error {
        Error::illegal(format!(
            "header [{name}] of a trusted proxy cannot be read at position [{}] of [{text}]: {} expected",
            self.at, self.expected
        ))
    }
}

/// All lines of a header as one value; `None`: it is not there.
fn whole_value(headers: &HeaderMap, name: &HeaderName) -> Result<Option<String>> {
    let mut out: Option<String> = None;
    for value in headers.get_all(name) {
        let text = value
            .to_str()
            .map_err(|_| Error::illegal(format!("header [{name}] of a trusted proxy has bytes that are no text")))?;
        match &mut out {
            None => out = Some(text.to_owned()),
            Some(all) => {
                all.push_str(", ");
                all.push_str(text);
            }
        }
    }
    Ok(out)
}

/// A hop by its text: an address, with or without a port, or a name.
fn hop(text: &str) -> Option<Hop> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(Hop::Address(address));
    }
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Some(Hop::Address(address.ip()));
    }
    let (name, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, port)) => (address, port.strip_prefix(':').or(port.is_empty().then_some("_"))?),
        None => text.split_once(':').unwrap_or((text, "_")),
    };
    // A port may be hidden as well.
    if !(is_hidden(port) || port == "_" || port.parse::<u16>().is_ok()) {
        return None;
    }
    match name.parse::<IpAddr>() {
        Ok(address) => Some(Hop::Address(address)),
        Err(_) if name == "unknown" || is_hidden(name) => Some(Hop::Named(name.to_owned())),
        Err(_) => None,
    }
}

/// A name that hides an address or a port (RFC 7239, section 6.3).
fn is_hidden(text: &str) -> bool {
    let rest = text.strip_prefix('_').unwrap_or_default();
    (1..=HIDDEN_MAX_BYTES).contains(&rest.len()) && rest.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}

/// `X-Forwarded-For: 192.0.2.1, 198.51.100.2`.
fn parse_forwarded_for(text: &str) -> std::result::Result<Vec<Hop>, Malformed> {
    let mut hops = Vec::new();
    let mut at = 0;
    for part in text.split(',') {
        let begin = at + (part.len() - part.trim_start().len());
        hops.push(hop(part.trim()).ok_or(Malformed {
            at: begin,
            expected: "an address",
        })?);
        at += part.len() + 1;
    }
    Ok(hops)
}

/// `Forwarded: for=192.0.2.1;proto=https, for="[2001:db8::1]:80"`. A hop that does not say for whom is `unknown`.
fn parse_forwarded(text: &str) -> std::result::Result<Vec<Hop>, Malformed> {
    let mut reader = Reader { text, at: 0 };
    let mut hops = Vec::new();
    loop {
        let mut of_hop = None;
        loop {
            reader.space();
            let name = reader.token().ok_or(reader.error("a parameter as for="))?;
            if !reader.take(b'=') {
                return Err(reader.error("[=]"));
            }
            let begin = reader.at;
            let value = reader.value()?;
            if name.eq_ignore_ascii_case("for") {
                if of_hop.is_some() {
                    return Err(Malformed {
                        at: begin,
                        expected: "one [for] of each hop",
                    });
                }
                of_hop = Some(hop(&value).ok_or(Malformed {
                    at: begin,
                    expected: "an address",
                })?);
            }
            reader.space();
            if !reader.take(b';') {
                break;
            }
        }
        hops.push(of_hop.unwrap_or_else(|| Hop::Named("unknown".into())));
        match (reader.take(b','), reader.at == text.len()) {
            (true, _) => {}
            (false, true) => return Ok(hops),
            (false, false) => return Err(reader.error("[,] or [;]")),
        }
    }
}

/// The text of a header, read from the left.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn error(&self, expected: &'static str) -> Malformed {
        Malformed { at: self.at, expected }
    }
    fn next(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }
    fn space(&mut self) {
        while matches!(self.next(), Some(b' ' | b'\t')) {
            self.at += 1;
        }
    }
    fn take(&mut self, byte: u8) -> bool {
        let there = self.next() == Some(byte);
        self.at += usize::from(there);
        there
    }
    /// A token (RFC 9110, section 5.6.2).
    fn token(&mut self) -> Option<&'a str> {
        let begin = self.at;
        while self
            .next()
            .is_some_and(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
        {
            self.at += 1;
        }
        (self.at > begin).then(|| &self.text[begin..self.at])
    }
    /// A token or a quoted string.
    fn value(&mut self) -> std::result::Result<String, Malformed> {
        if !self.take(b'"') {
            return self.token().map(str::to_owned).ok_or(self.error("a value"));
        }
        let mut out = String::new();
        loop {
            let Some(next) = self.text[self.at..].chars().next() else {
                return Err(self.error("[\"]"));
            };
            self.at += next.len_utf8();
            match next {
                '"' => return Ok(out),
                '\\' => {
                    let Some(escaped) = self.text[self.at..].chars().next() else {
                        return Err(self.error("[\"]"));
                    };
                    self.at += escaped.len_utf8();
                    out.push(escaped);
                }
                other => out.push(other),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    fn asked(proxies: &str, lines: &[(&str, &str)]) -> Result<Option<String>> {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            let name: HeaderName = name.parse().expect("a name");
            headers.append(name, HeaderValue::from_str(value).expect("a value"));
        }
        let client = TrustedProxies::parse(proxies).expect("proxies").client(&headers)?;
        Ok(client.map(|client| client.to_string()))
    }

    #[test]
    fn the_first_hop_from_the_right_that_is_not_trusted() {
        let check = |lines: &[(&str, &str)], expected: Option<&str>| {
            let found = asked("127.0.0.1, 10.0.0.0/8, 2001:db8::/32", lines);
            assert_eq!(found.expect("it can be read").as_deref(), expected, "{lines:?}");
        };
        let custom = "x-forwarded-for";
        check(&[], None);
        check(&[(custom, "192.0.2.1")], Some("192.0.2.1"));
        check(&[(custom, "198.51.100.9, 192.0.2.1")], Some("192.0.2.1"));
        check(&[(custom, "192.0.2.1, 10.1.2.3,127.0.0.1")], Some("192.0.2.1"));
        check(&[(custom, "192.0.2.1"), (custom, "10.1.2.3")], Some("192.0.2.1"));
        check(&[(custom, "10.9.9.9, 10.1.2.3")], Some("10.9.9.9"));
        check(&[(custom, "192.0.2.1:4711")], Some("192.0.2.1"));
        check(&[(custom, "2001:db9::1")], Some("2001:db9::1"));
        check(&[(custom, "[2001:db9::1]:80")], Some("2001:db9::1"));
        check(&[(custom, "::ffff:192.0.2.1")], Some("192.0.2.1"));
        check(&[(custom, "192.0.2.1, ::ffff:10.0.0.1")], Some("192.0.2.1"));
        check(&[(custom, "unknown, 10.0.0.1")], Some("unknown"));
        check(&[("forwarded", "for=192.0.2.1;proto=https;by=10.0.0.1")], Some("192.0.2.1"));
        check(
            &[("forwarded", "For=\"[2001:db9::1]:4711\" , for=10.0.0.1")],
            Some("2001:db9::1"),
        );
        check(&[("forwarded", "for=\"192.0.2.1:_p\"; host=\"a \\\" b\"")], Some("192.0.2.1"));
        check(&[("forwarded", "for=_hidden")], Some("_hidden"));
        check(&[("forwarded", "for=192.0.2.1, proto=http")], Some("unknown"));
        check(&[("forwarded", "for=192.0.2.1"), (custom, "192.0.2.1")], Some("192.0.2.1"));
    }

    #[test]
    fn a_header_that_cannot_be_read_is_refused_at_its_position() {
        let check = |lines: &[(&str, &str)], part: &str| {
            let error = asked("127.0.0.1", lines).expect_err("refused");
            assert!(error.status() == 400 && error.reason().contains(part), "{lines:?}: {error}");
        };
        let custom = "x-forwarded-for";
        check(
            &[(custom, "192.0.2.1, here")],
            "at position [11] of [192.0.2.1, here]: an address",
        );
        check(&[(custom, "")], "at position [0]");
        check(&[(custom, "192.0.2.1,,10.0.0.1")], "at position [10]");
        check(&[(custom, "192.0.2.1:70000")], "at position [0]");
        check(&[("forwarded", "for")], "at position [3]");
        check(&[("forwarded", "for=192.0.2.1 proto=http")], "at position [14]");
        check(&[("forwarded", "for=192.0.2.1:80")], "at position [13]");
        check(&[("forwarded", "for=\"192.0.2.1")], "at position [14]");
        check(&[("forwarded", "for=\"192.0.2.1\\")], "at position [15]");
        check(&[("forwarded", "for=here")], "at position [4]");
        check(&[("forwarded", "for=192.0.2.1;for=192.0.2.2")], "one [for] of each hop");
        check(&[("forwarded", "for=192.0.2.1,")], "at position [14]");
        check(
            &[("forwarded", "for=192.0.2.1"), (custom, "192.0.2.2")],
            "name different clients",
        );
    }

    #[test]
    fn ranges() {
        let check = |list: &str, address: &str, expected: bool| {
            let proxies = TrustedProxies::parse(list).expect("proxies");
            assert_eq!(
                proxies.trusts(address.parse().expect("an address")),
                expected,
                "{list} {address}"
            );
        };
        check("10.0.0.0/8", "10.255.0.1", true);
        check("10.0.0.0/8", "11.0.0.1", false);
        check("10.0.0.0/8", "::ffff:10.0.0.1", true);
        check("::ffff:10.0.0.1", "10.0.0.1", true);
        check("0.0.0.0/0", "1.2.3.4", true);
        check("0.0.0.0/0", "2001:db8::1", false);
        check("::/0", "2001:db8::1", true);
        check("fd00::/8", "fdff::1", true);
        check("unix", "127.0.0.1", false);
        for wrong in ["10.0.0.0/33", "here", "10.0.0.0/", "10.0.0/8", "::/129"] {
            let error = TrustedProxies::parse(wrong).expect_err(wrong);
            assert!(error.reason().contains(&format!("has [{wrong}]")), "{error}");
        }
        assert!(TrustedProxies::parse("unix").expect("a word").trusts_peer(None));
        assert!(!TrustedProxies::parse("::/0").expect("a range").trusts_peer(None));
    }
}
