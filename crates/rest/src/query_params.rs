//! URL parameters: each is taken once, by the handler that knows it; the rest are refused by name.

use crate::parameter_table::{self, Effect};
use engine::{Compare, Expect, Refresh};
use model::nearest::nearest;
use model::{Error, ErrorKind, Result, Target, units};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

/// Durations that only 2015 took: fractions, weeks, and some units in capitals.
fn of_2015(text: &str, name: &str) -> Option<Duration> {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let count: f64 = text[..text.len() - unit.len()].parse().ok()?;
    let one = match unit {
        "w" | "W" => "7d".to_owned(),
        "H" | "D" => format!("1{}", unit.to_lowercase()),
        other => format!("1{other}"),
    };
    let one = units::parse_duration(&one, name).ok()?;
    Duration::try_from_secs_f64(count * one.as_secs_f64()).ok()
}

/// The parameters of one request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Params {
    path: String,
    given: BTreeMap<String, String>,
    api: &'static str,
    lenient: bool,
}

impl Params {
    /// From a raw query string; `+` means space.
    ///
    /// # Errors
    /// Bad percent encoding.
    pub(crate) fn parse(path: &str, query: &str) -> Result<Params> {
        let mut given = BTreeMap::new();
        for pair in query.split('&').filter(|p| !p.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            given.insert(decode(name, true)?, decode(value, true)?);
        }
        Ok(Params {
            path: path.to_owned(),
            given,
            api: "*",
            lenient: false,
        })
    }
    /// The parameters of an earlier request.
    pub(crate) fn again(path: &str, given: BTreeMap<String, String>, api: &'static str, lenient: bool) -> Params {
        Params {
            path: path.to_owned(),
            given,
            api,
            lenient,
        }
    }
    /// Parameters that nobody has taken yet.
    pub(crate) fn remaining(&self) -> &BTreeMap<String, String> {
        &self.given
    }
    /// Unknown names are ignored, as the servers of 2015 did.
    pub(crate) fn set_lenient(&mut self, lenient: bool) {
        self.lenient = lenient;
    }
    /// The request's path, for errors.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }
    /// The endpoint of these parameters: a name in `ENDPOINTS`.
    pub(crate) fn set_api(&mut self, api: &'static str) {
        self.api = api;
    }
    /// That name.
    pub(crate) fn api(&self) -> &'static str {
        self.api
    }
    /// Is there a row for it?
    pub(crate) fn has_row(&self, name: &str) -> bool {
        parameter_table::of(self.api).any(|p| p.name == name && p.effect == Effect::Changes)
    }
    /// Are unknown names ignored?
    pub(crate) fn is_lenient(&self) -> bool {
        self.lenient
    }
    /// Is one given that has no effect but on a warning?
    pub(crate) fn is_given(&self, name: &str) -> bool {
        self.given.contains_key(name)
    }
    /// Looks without taking.
    pub(crate) fn peek(&self, name: &str) -> Option<&str> {
        self.given.get(name).map(String::as_str)
    }
    /// Takes one as text.
    pub(crate) fn take(&mut self, name: &'static str) -> Option<String> {
        debug_assert!(
            self.has_row(name),
            "[{}] takes [{name}], which has no row in the table of parameters",
            self.api
        );
        self.given.remove(name)
    }
    /// Takes everything whose name begins so.
    pub(crate) fn take_prefixed(&mut self, prefix: &str) -> Vec<(String, String)> {
        let names: Vec<String> = self.given.keys().filter(|name| name.starts_with(prefix)).cloned().collect();
        names
            .into_iter()
            .filter_map(|name| self.given.remove(&name).map(|value| (name, value)))
            .collect()
    }
    /// Takes one that only the typed dialect has, where no name is refused.
    pub(crate) fn take_2015(&mut self, name: &'static str) -> Option<String> {
        if self.lenient { self.given.remove(name) } else { None }
    }
    /// Takes names that mean the same; the first given wins.
    pub(crate) fn take_any(&mut self, names: &[&'static str]) -> Option<String> {
        names.iter().map(|n| self.take(n)).fold(None, |found, next| found.or(next))
    }
    /// Takes a comma-separated list.
    pub(crate) fn take_list(&mut self, name: &'static str) -> Option<Vec<String>> {
        self.take(name).map(|v| split_list(&v))
    }
    /// Takes a boolean; a bare name is true.
    ///
    /// # Errors
    /// Neither `true` nor `false`.
    pub(crate) fn take_bool(&mut self, name: &'static str) -> Result<Option<bool>> {
        let given = self.take(name);
        self.boolean(given.as_deref())
    }
    /// Refuses a boolean that is none, where nothing depends on it.
    ///
    /// # Errors
    /// As [`Params::take_bool`].
    pub(crate) fn check_bool(&self, name: &'static str) -> Result<()> {
        self.boolean(self.peek(name)).map(|_| ())
    }
    fn boolean(&self, given: Option<&str>) -> Result<Option<bool>> {
        match given {
            None => Ok(None),
            Some("true" | "") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            // In 2015 everything but the words for no meant yes.
            Some(other) if self.lenient => Ok(Some(!matches!(other, "0" | "off" | "no"))),
            Some(other) => Err(Error::no_boolean(other)),
        }
    }
    /// A boolean that is false unless told.
    ///
    /// # Errors
    /// As [`Params::take_bool`].
    pub(crate) fn flag(&mut self, name: &'static str) -> Result<bool> {
        Ok(self.take_bool(name)?.unwrap_or(false))
    }
    /// Takes a number.
    ///
    /// # Errors
    /// Not a number of that kind.
    pub(crate) fn take_number<N: std::str::FromStr>(&mut self, name: &'static str) -> Result<Option<N>> {
        match self.take(name) {
            None => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|_| {
                let kind = match name {
                    "version" | "if_seq_no" | "if_primary_term" => "long",
                    _ => "int",
                };
                no_number(kind, name, &text)
            }),
        }
    }
    /// Takes a duration (`10s`).
    ///
    /// # Errors
    /// A missing or unknown unit.
    pub(crate) fn take_duration(&mut self, name: &'static str) -> Result<Option<Duration>> {
        let given = self.take(name);
        self.duration(given.as_deref(), name)
    }
    /// Refuses a duration that is none, where nothing depends on it.
    ///
    /// # Errors
    /// A missing or unknown unit.
    pub(crate) fn check_duration(&self, name: &'static str) -> Result<()> {
        self.duration(self.peek(name), name).map(|_| ())
    }
    fn duration(&self, given: Option<&str>, name: &'static str) -> Result<Option<Duration>> {
        let read = |text| match self.lenient {
            true => units::parse_duration_of_2015(text, name).or_else(|error| of_2015(text, name).ok_or(error)),
            false => units::parse_duration(text, name),
        };
        given.map(read).transpose()
    }
    /// `refresh=true|false|wait_for`.
    ///
    /// # Errors
    /// Another value.
    pub(crate) fn take_refresh(&mut self) -> Result<Refresh> {
        match self.take("refresh").as_deref() {
            None | Some("false") => Ok(Refresh::No),
            Some("" | "true") => Ok(Refresh::Now),
            Some("wait_for") => Ok(Refresh::WaitFor),
            Some("1" | "on" | "yes") if self.lenient => Ok(Refresh::Now),
            Some(_) if self.lenient => Ok(Refresh::No),
            Some(other) => Err(Error::illegal(format!("Unknown value for refresh: [{other}]."))),
        }
    }
    /// `if_seq_no` + `if_primary_term`, `version` + `version_type`: one expectation.
    ///
    /// # Errors
    /// Values that are none. Combinations that make no sense are refused by [`ExpectParts::expect`], which comes after
    /// [`Params::finish`]: what the API does not know is told of first.
    pub(crate) fn take_expect(&mut self, by_version: bool) -> Result<ExpectParts> {
        let version_type = self.take("version_type");
        Ok(ExpectParts {
            version: if by_version {
                let given: Option<i64> = self.take_number("version")?;
                given.map_or(Ok(None), |given| written_version(given, version_type.as_deref()))?
            } else {
                self.take_number("version")?
            },
            version_type: match version_type {
                Some(name) if !by_version => Some(known_version_type(name)?),
                other => other,
            },
            if_seq_no: given_seq_no(self.take_number("if_seq_no")?)?,
            if_primary_term: given_term(self.take_number("if_primary_term")?)?,
            create: false,
        })
    }
    /// `version` + `version_type` of a read.
    ///
    /// # Errors
    /// Combinations that make no sense.
    pub(crate) fn take_version(&mut self, by_version: bool) -> Result<Expect> {
        let parts = ExpectParts {
            version: match by_version {
                true => self.take_number::<u64>("version")?.map(u64::cast_signed),
                false => self.take_number("version")?,
            },
            version_type: self.take("version_type"),
            ..ExpectParts::default()
        };
        if let (Some(0), None | Some("internal"), false) = (parts.version, parts.version_type.as_deref(), by_version) {
            let reason = "Validation Failed: 1: illegal version value [0] for version type [INTERNAL];";
            return Err(Error::new(ErrorKind::ActionRequestValidation, reason));
        }
        // Without a version there is nothing to compare.
        if parts.version.is_none()
            && parts
                .version_type
                .as_deref()
                .is_none_or(|given| VERSION_TYPES.contains(&given))
        {
            return Ok(Expect::Anything);
        }
        parts.expect(true)
    }
    /// The same with `op_type`; `create` is what the URL says of it.
    ///
    /// # Errors
    /// As [`Params::take_expect`], and operations that there are not.
    pub(crate) fn take_expect_of_put(&mut self, by_version: bool, create: bool) -> Result<ExpectParts> {
        Ok(ExpectParts {
            create: match self.take("op_type").as_deref() {
                None => create,
                Some("index") if !create || self.api == "index" => false,
                Some("create") => true,
                Some(other) if by_version && other.eq_ignore_ascii_case("create") => true,
                Some(other) if by_version && other.eq_ignore_ascii_case("index") => create,
                Some("index") => return Err(Error::illegal("opType must be 'create', found: [index]")),
                Some(other) => {
                    return Err(Error::illegal(format!(
                        "opType must be 'create' or 'index', found: [{other}]"
                    )));
                }
            },
            ..self.take_expect(by_version)?
        })
    }
    /// `ignore_unavailable`, `allow_no_indices`, `expand_wildcards` over the indices of the path.
    ///
    /// # Errors
    /// Values that are not theirs.
    pub(crate) fn take_target(&mut self, index: Option<&str>, defaults: Target) -> Result<Target> {
        let mut target = defaults;
        target.expressions = index.map(split_list).unwrap_or_default();
        if self.is_given("ignore_unavailable")
            && self.has_row("ignore_unavailable")
            && let Some(v) = self.take_bool("ignore_unavailable")?
        {
            target.ignore_unavailable = v;
        }
        if self.is_given("allow_no_indices")
            && self.has_row("allow_no_indices")
            && let Some(v) = self.take_bool("allow_no_indices")?
        {
            target.allow_no_indices = v;
        }
        self.take_expand_wildcards(&mut target)?;
        Ok(target)
    }
    /// Which indices wildcards reach.
    ///
    /// # Errors
    /// Words that are not its.
    pub(crate) fn take_expand_wildcards(&mut self, target: &mut Target) -> Result<()> {
        if self.is_given("expand_wildcards")
            && self.has_row("expand_wildcards")
            && let Some(list) = self.take_list("expand_wildcards")
        {
            (target.expand_open, target.expand_closed, target.expand_hidden) = (false, false, false);
            for word in list {
                match word.as_str() {
                    "open" => target.expand_open = true,
                    "closed" => target.expand_closed = true,
                    "hidden" => target.expand_hidden = true,
                    "all" => (target.expand_open, target.expand_closed, target.expand_hidden) = (true, true, true),
                    "none" => {}
                    other => return Err(Error::illegal(format!("No valid expand wildcard value [{other}]"))),
                }
            }
        }
        Ok(())
    }
    /// Everything has been taken, or the request is refused.
    ///
    /// # Errors
    /// The names that nobody took, with the nearest right ones.
    pub(crate) fn finish(&self) -> Result<()> {
        if self.lenient || self.given.is_empty() {
            return Ok(());
        }
        self.check_silent()?;
        let known = || parameter_table::of(self.api).filter(|p| !p.of_2015);
        let silent = |name: &str| known().any(|p| p.name == name && p.effect != Effect::Changes);
        let words: Vec<String> = self
            .given
            .keys()
            .filter(|name| !silent(name))
            .map(|name| match nearest(name, known().map(|p| p.name)) {
                // Where another part of the request leaves no room for it, it is itself the nearest.
                Some(known) if known != name => format!("[{name}] -> did you mean [{known}]?"),
                _ => format!("[{name}]"),
            })
            .collect();
        if words.is_empty() {
            return Ok(());
        }
        let plural = if words.len() > 1 { "s" } else { "" };
        Err(Error::illegal(format!(
            "request [{}] contains unrecognized parameter{plural}: {}",
            self.path,
            words.join(", ")
        )))
    }

    /// Values without effect are read, too: one of the wrong form is refused.
    fn check_silent(&self) -> Result<()> {
        for (name, text) in &self.given {
            let is = |names: &[&'static str]| names.iter().find(|known| *known == name).copied();
            if let Some(name) = is(&["timeout", "master_timeout", "cluster_manager_timeout"]) {
                self.check_duration(name)?;
            } else if is(&["request_cache", "ccs_minimize_roundtrips", "local"]).is_some()
                && !matches!(text.as_str(), "" | "true" | "false")
            {
                return Err(Error::no_boolean(text));
            } else if name == "preference" && text.starts_with('_') {
                let kind = text.split_once(':').map_or(text.as_str(), |(kind, _)| kind);
                if !PREFERENCES.contains(&kind) {
                    return Err(Error::illegal(format!("no Preference for [{text}]")));
                }
            } else if let Some((name, words, least)) = COUNTS.iter().find(|(known, ..)| known == name) {
                let number: i32 = text.parse().map_err(|_| no_number("int", name, text))?;
                if number < *least {
                    return Err(Error::illegal(format!("{words} must be >= {least}")));
                }
            }
        }
        Ok(())
    }
}

/// Copies and shards that may be preferred; there is one.
const PREFERENCES: &[&str] = &[
    "_local",
    "_only_local",
    "_only_nodes",
    "_prefer_nodes",
    "_primary",
    "_primary_first",
    "_replica",
    "_replica_first",
    "_shards",
];

/// Counts that change nothing: their names, what a refusal calls them, the least they may be.
const COUNTS: &[(&str, &str, i32)] = &[
    ("batched_reduce_size", "batchedReduceSize", 2),
    ("max_concurrent_shard_requests", "maxConcurrentShardRequests", 1),
    ("pre_filter_shard_size", "preFilterShardSize", 1),
];

model::assert_words_differ!(COUNTS; 0, "each count has one least value");

/// The refusal of a text that is no number of a kind, `int` or `long`.
pub(crate) fn no_number(kind: &str, name: &str, text: &str) -> Error {
    Error::illegal(format!("Failed to parse {kind} parameter [{name}] with value [{text}]")).with_cause(Error::no_number(text))
}

/// The parts of an expectation, from a URL or a bulk line.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExpectParts {
    /// -3 stands for any, -4 for none: Java's client writes it into creations.
    pub(crate) version: Option<i64>,
    pub(crate) version_type: Option<String>,
    pub(crate) if_seq_no: Option<u64>,
    pub(crate) if_primary_term: Option<u64>,
    pub(crate) create: bool,
}

impl ExpectParts {
    /// The same with the conditions of a body, which go before those of the URL.
    ///
    /// # Errors
    /// Negative numbers.
    pub(crate) fn or(self, if_seq_no: Option<i64>, if_primary_term: Option<i64>) -> Result<ExpectParts> {
        Ok(ExpectParts {
            if_seq_no: given_seq_no(if_seq_no)?.or(self.if_seq_no),
            if_primary_term: given_term(if_primary_term)?.or(self.if_primary_term),
            ..self
        })
    }
    /// One expectation, or a refusal.
    ///
    /// # Errors
    /// Combinations that make no sense.
    pub(crate) fn expect(self, by_version: bool) -> Result<Expect> {
        let invalid = |what: &str| {
            Err(Error::new(
                ErrorKind::ActionRequestValidation,
                format!("Validation Failed: 1: {what};"),
            ))
        };
        let version = match (self.version, self.version_type.as_deref()) {
            (Some(-3), None | Some("internal")) => None,
            (Some(-4), None | Some("internal")) if self.create => None,
            (Some(given), of_type) => match u64::try_from(given) {
                Ok(version) => Some(version),
                Err(_) => {
                    let word = version_type_word(of_type);
                    return invalid(&format!("illegal version value [{given}] for version type [{word}]"));
                }
            },
            (None, _) => None,
        };
        let expect = match (version, self.version_type.as_deref(), self.if_seq_no, self.if_primary_term) {
            (None, None | Some("internal"), None, None) => Expect::Anything,
            (None, _, Some(seq_no), Some(primary_term)) => Expect::Unchanged { seq_no, primary_term },
            (None, _, Some(_), None) => return invalid("ifSeqNo is set, but primary term is [0]"),
            (None, _, None, Some(term)) => return invalid(&format!("ifSeqNo is unassigned, but primary term is [{term}]")),
            (Some(_), _, Some(_), _) => return invalid("compare and write operations can not use versioning"),
            (Some(version), Some("external" | "external_gt"), ..) => Expect::NewerThan {
                version,
                or_equal: false,
            },
            (Some(version), Some("external_gte"), ..) => Expect::NewerThan { version, or_equal: true },
            (Some(version), None | Some("internal"), ..) if by_version => Expect::Version(version),
            (Some(version), Some("force"), ..) if by_version => Expect::Forced(version),
            (Some(_), Some("force"), ..) => {
                return Err(Error::illegal("version type [force] is not supported: it could lose updates"));
            }
            (Some(_), None | Some("internal"), ..) => {
                return invalid(
                    "internal versioning can not be used for optimistic concurrency control. Please use `if_seq_no` and `if_primary_term` instead",
                );
            }
            (None, Some("external" | "external_gt" | "external_gte"), ..) => {
                return invalid("illegal version value [-3] for version type [EXTERNAL]");
            }
            (_, Some(other), ..) => return Err(Error::illegal(format!("No version type match [{other}]"))),
        };
        match (self.create, expect) {
            (false, expect) => Ok(expect),
            (true, Expect::Anything) => Ok(Expect::Absent),
            (true, Expect::Unchanged { .. }) => {
                invalid("compare and write operations can not be used with create operations, use [op_type=index] instead")
            }
            (true, Expect::NewerThan { .. }) if !by_version => {
                invalid("create operations only support internal versioning. use index instead")
            }
            (true, Expect::Version(version)) => Ok(Expect::AbsentAt {
                version,
                compare: Compare::Internal,
            }),
            (true, Expect::NewerThan { version, or_equal }) => Ok(Expect::AbsentAt {
                version,
                compare: if or_equal {
                    Compare::ExternalOrEqual
                } else {
                    Compare::External
                },
            }),
            (true, _) => Ok(Expect::Absent),
        }
    }
}

/// The version of a write of 2015: -3 stood for any.
///
/// # Errors
/// Versions that its type does not have.
pub(crate) fn written_version(given: i64, version_type: Option<&str>) -> Result<Option<i64>> {
    let name = match version_type {
        None | Some("internal") if given == -3 => return Ok(None),
        None | Some("internal") => "INTERNAL",
        Some("external" | "external_gt") => "EXTERNAL",
        Some("external_gte") => "EXTERNAL_GTE",
        Some("force") => "FORCE",
        // Refused by its name.
        Some(_) => return Ok(Some(0)),
    };
    let version = Some(given).filter(|version| *version > 0 || *version == 0 && name != "INTERNAL");
    match version {
        Some(version) => Ok(Some(version)),
        None => Err(Error::new(
            ErrorKind::ActionRequestValidation,
            format!("Validation Failed: 1: illegal version value [{given}] for version type [{name}];"),
        )),
    }
}

/// How versions may be compared.
const VERSION_TYPES: [&str; 5] = ["internal", "external", "external_gt", "external_gte", "force"];

/// The name of a type of versions in refusals.
fn version_type_word(name: Option<&str>) -> String {
    match name {
        Some("external_gt") => "EXTERNAL".into(),
        name => name.unwrap_or("internal").to_uppercase(),
    }
}

/// A type of versions by its name, which is refused as soon as it is read.
///
/// # Errors
/// A name that none has.
pub(crate) fn known_version_type(name: String) -> Result<String> {
    if VERSION_TYPES.contains(&name.as_str()) {
        Ok(name)
    } else {
        Err(Error::illegal(format!("No version type match [{name}]")))
    }
}

/// `if_seq_no`; -2 stands for none.
///
/// # Errors
/// Other negative numbers.
pub(crate) fn given_seq_no(given: Option<i64>) -> Result<Option<u64>> {
    match given {
        None | Some(-2) => Ok(None),
        Some(given) => u64::try_from(given)
            .map(Some)
            .map_err(|_| Error::illegal(format!("sequence numbers must be non negative. got [{given}]."))),
    }
}

/// `if_primary_term`; 0 stands for none.
///
/// # Errors
/// Negative numbers.
pub(crate) fn given_term(given: Option<i64>) -> Result<Option<u64>> {
    match given {
        None | Some(0) => Ok(None),
        Some(given) => u64::try_from(given)
            .map(Some)
            .map_err(|_| Error::illegal(format!("primary term must be non negative. got [{given}]"))),
    }
}

/// Escapes that are none, in the words of 2015.
///
/// # Errors
/// `%` without two hexadecimal digits after it.
pub(crate) fn check_escapes(text: &str) -> Result<()> {
    for (i, _) in text.match_indices('%') {
        let escape: String = text[i..].chars().take(3).collect();
        let digits = escape.chars().skip(1);
        if escape.len() < 3 || !digits.clone().all(|c| c.is_ascii_hexdigit()) {
            // The path stands there without its first slash.
            let (shown, at) = match text.strip_prefix('/') {
                Some(rest) => (rest, i - 1),
                None => (text, i),
            };
            let reason = format!("invalid escape sequence `{escape}' at index {at} of: {shown}");
            return Err(Error::illegal(reason));
        }
    }
    Ok(())
}

/// Splits at commas.
pub(crate) fn split_list(text: &str) -> Vec<String> {
    list_items(text).map(str::to_owned).collect()
}

/// The items between commas, without empty ones.
pub(crate) fn list_items(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty())
}

/// Percent-decodes a part of a path.
///
/// # Errors
/// As [`decode`].
pub(crate) fn decode_path(text: &str) -> Result<Cow<'_, str>> {
    if text.contains('%') {
        decode(text, false).map(Cow::Owned)
    } else {
        Ok(Cow::Borrowed(text))
    }
}

/// Percent-decodes; in queries `+` is a space.
///
/// # Errors
/// Broken escapes or text that is not UTF-8.
pub(crate) fn decode(text: &str, plus: bool) -> Result<String> {
    let text = if plus { text.replace('+', " ") } else { text.to_owned() };
    percent_encoding::percent_decode_str(&text)
        .decode_utf8()
        .map(|s| s.into_owned())
        .map_err(|_| Error::illegal(format!("[{text}] is not valid percent-encoded UTF-8")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(query: &str, expected: Result<Expect, &str>) {
        let mut params = Params::parse("/i/_doc/1", query).expect("well formed");
        params.set_api("index");
        let found = params.take_expect_of_put(false, false).and_then(|parts| parts.expect(false));
        match (found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{query}"),
            (Err(found), Err(part)) => assert!(found.reason().contains(part), "{query}: {}", found.reason()),
            (found, expected) => panic!("{query}: {found:?}, not {expected:?}"),
        }
    }

    #[test]
    fn expectations() {
        check("", Ok(Expect::Anything));
        check("op_type=create", Ok(Expect::Absent));
        check(
            "if_seq_no=3&if_primary_term=1",
            Ok(Expect::Unchanged {
                seq_no: 3,
                primary_term: 1,
            }),
        );
        check(
            "version=3&version_type=external",
            Ok(Expect::NewerThan {
                version: 3,
                or_equal: false,
            }),
        );
        check("version=3", Err("if_seq_no"));
        check("if_seq_no=3", Err("primary term is [0]"));
        check("if_seq_no=3&if_primary_term=1&op_type=create", Err("create operations"));
        check("op_type=oops", Err("opType"));
    }

    #[test]
    fn unknown_names_are_refused_with_the_nearest() {
        let mut params = Params::parse("/i/_search", "rooting=1&routing=2&preference=_local").expect("well formed");
        params.set_api("search");
        let error = params.finish().expect_err("unknown");
        assert_eq!(
            error.reason(),
            "request [/i/_search] contains unrecognized parameter: [rooting] -> did you mean [routing]?"
        );
    }
}
