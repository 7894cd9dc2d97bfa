//! The values of settings, whence each came, and what one may be.
//!
//! Not here: the sources (`sources`).

use super::names::{Name, default_of, is_of_client};
use model::settings;
use model::{Error, Result, units};
use std::collections::BTreeMap;

/// What was given for one setting.
#[derive(Clone, Debug)]
pub(super) struct Given {
    /// One, but for `listen`.
    pub(super) values: Vec<String>,
    /// The source.
    pub(super) origin: String,
}

/// What was given, by canonical name.
#[derive(Clone, Debug, Default)]
pub(super) struct Values(BTreeMap<Name, Given>);

impl Values {
    pub(super) fn find(&self, name: &str) -> Option<&Given> {
        self.0.get(name)
    }

    /// Names of what was given.
    pub(super) fn names(&self) -> impl Iterator<Item = &Name> {
        self.0.keys()
    }

    /// What was given for clients of S3.
    pub(super) fn of_clients(&self) -> impl Iterator<Item = (&Name, &Given)> {
        self.0.iter().filter(|(name, _)| is_of_client(name))
    }

    pub(super) fn insert(&mut self, name: &'static str, value: String, origin: String) {
        let values = vec![value];
        self.0.insert(name.into(), Given { values, origin });
    }

    /// Puts a source over what lies below it.
    pub(super) fn overlay(&mut self, source: Vec<(Name, Vec<String>)>, origin: &str) {
        let named = |name: &str| source.iter().any(|(n, _)| *n == name);
        if !named("listen") && (named("http.port") || named("network.host")) {
            // Both say where to listen: the higher source wins.
            self.0.remove("listen");
        }
        for (name, values) in source {
            let origin = origin.to_owned();
            self.0.insert(name, Given { values, origin });
        }
    }

    /// A setting's only (last) value, else its default.
    pub(super) fn text(&self, name: &str) -> String {
        let given = self.find(name).and_then(|given| given.values.last());
        given.cloned().unwrap_or_else(|| default_of(name))
    }

    /// `true` or `false`.
    ///
    /// # Errors
    /// Another word.
    pub(super) fn flag(&self, name: &str) -> Result<bool> {
        parse_flag(name, &self.text(name))
    }

    /// Bytes, as a size or as a part of the memory.
    ///
    /// # Errors
    /// As [`parse_size`].
    pub(super) fn bytes(&self, setting: settings::Setting) -> Result<usize> {
        parse_size(setting.name, &self.text(setting.name))
    }
}

pub(super) fn parse_flag(name: &str, text: &str) -> Result<bool> {
    text.parse()
        .map_err(|_| Error::illegal(format!("[{name}] is [{text}]: must be true or false")))
}

/// A size such as `100mb`, or a part of the memory that the process may use, such as `10%`.
pub(super) fn parse_size(name: &str, text: &str) -> Result<usize> {
    let bytes = match text.strip_suffix('%').map(|p| p.trim().parse::<u64>()) {
        Some(Ok(percent)) if (1..=100).contains(&percent) => crate::memory::available_bytes() / 100 * percent,
        Some(_) => {
            return Err(Error::illegal(format!(
                "[{name}] is [{text}]: a percentage is between 1% and 100%"
            )));
        }
        None => units::parse_bytes(text, name)?,
    };
    usize::try_from(bytes).map_err(|_| Error::illegal(format!("[{name}] is [{text}]: more than this machine can address")))
}

/// Settings that are one of some words.
const WORDS: &[(settings::Setting, &[&str])] = &[(settings::CHANGES_PATH, &["auto", "portable"])];

/// A value must look like the row's default: a size, or a whole number.
pub(super) fn check_shape(name: &str, default: &str, value: &str) -> Result<()> {
    if let Some((_, words)) = WORDS.iter().find(|(setting, _)| setting.name == name) {
        if words.contains(&value) {
            return Ok(());
        }
        return Err(Error::illegal(format!(
            "[{name}] is [{value}]: must be one of [{}]",
            words.join(", ")
        )));
    }
    if default.parse::<u64>().is_ok() {
        let parsed = value.parse::<u64>();
        return parsed
            .map(|_| ())
            .map_err(|_| Error::illegal(format!("[{name}] is [{value}]: must be a whole number")));
    }
    if units::parse_duration(default, name).is_ok() {
        return units::parse_duration(value, name).map(|_| ());
    }
    parse_size(name, value).map(|_| ())
}
