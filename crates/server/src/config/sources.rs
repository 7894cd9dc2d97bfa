//! The three sources of settings: a TOML file, variables, flags; a later one wins.
//!
//! Not here: what a value may be (`values`).

use super::flags::{Flags, of_flags};
use super::names::{Name, PATH_REPO, canonical, every_name, unknown};
use super::s3;
use super::values::Values;
use model::{Error, Result};
use std::path::PathBuf;

/// A configuration file: its name and its text.
pub(super) type File<'a> = (&'a str, &'a str);

/// The values of the flags, over those of the variables of the process, over those of the file.
///
/// # Errors
/// A file that cannot be read; unknown names.
pub(super) fn read(flags: &Flags) -> Result<Values> {
    let variables: Vec<(String, String)> = std::env::vars().collect();
    let path = match (&flags.config, variables.iter().find(|(n, _)| n == "PLEACH_CONFIG")) {
        (Some(path), _) => Some(path.clone()),
        (None, Some((_, path))) => Some(PathBuf::from(path)),
        (None, None) => Some(PathBuf::from("pleach.toml")).filter(|p| p.exists()),
    };
    let Some(path) = path else {
        return combine(flags, &variables, None);
    };
    let name = path.display().to_string();
    let text = std::fs::read_to_string(&path)
        .map_err(|cause| Error::illegal(format!("cannot read the configuration file [{name}]: {cause}")))?;
    combine(flags, &variables, Some((&name, &text)))
}

/// The values of three sources, lowest first.
///
/// # Errors
/// Unknown names, values without form.
pub(super) fn combine(flags: &Flags, variables: &[(String, String)], file: Option<File<'_>>) -> Result<Values> {
    let mut values = Values::default();
    if let Some((name, text)) = file {
        values.overlay(of_file(name, text)?, name);
    }
    values.overlay(of_variables(variables)?, "environment");
    values.overlay(of_flags(flags)?, "flag");
    if !s3::has_default_key(values.names().map(AsRef::as_ref)) {
        let key = s3::of_aws_variables(variables).into_iter();
        values.overlay(key.map(|(name, value)| (name.into(), vec![value])).collect(), "environment");
    }
    Ok(values)
}

/// Variables with our prefix that are no settings: the file; what `pleach lock run` tells a command, which may be a server; the
/// credentials and profiles of the commands that ask one server or two.
const OTHER_VARIABLES: [&str; 14] = [
    "CONFIG",
    "COMMIT",
    "LOCK_ID",
    "FENCING_TOKEN",
    "USER",
    "PASSWORD",
    "API_KEY",
    "TO_USER",
    "TO_PASSWORD",
    "TO_API_KEY",
    "FROM_PASSWORD",
    "FROM_API_KEY",
    "PROFILE",
    "PROFILES",
];

/// `PLEACH_HTTP_PORT` is `http.port`.
fn of_variables(variables: &[(String, String)]) -> Result<Vec<(Name, Vec<String>)>> {
    let mut out = Vec::new();
    for (variable, value) in variables {
        let Some(name) = variable.strip_prefix("PLEACH_") else {
            continue;
        };
        // Kubernetes sets these for a service that is called pleach.
        if OTHER_VARIABLES.contains(&name) || name.starts_with("SERVICE_") || name == "PORT" || name.starts_with("PORT_") {
            continue;
        }
        if let Some(name) = s3::of_variable(name) {
            out.push((name.into(), vec![value.clone()]));
            continue;
        }
        let flat = |known: &str| known.replace(['.', '-'], "_").to_uppercase();
        let Some((_, found)) = every_name().find(|(known, _)| flat(known) == name) else {
            let known: Vec<String> = every_name().map(|(known, _)| flat(known)).collect();
            let nearest = model::nearest::nearest(name, known.iter().map(String::as_str));
            return Err(unknown(
                &format!("variable [{variable}]"),
                nearest.map(|n| format!("PLEACH_{n}")),
            ));
        };
        let values = if found == "listen" {
            value.split(',').map(|v| v.trim().to_owned()).collect()
        } else {
            vec![value.clone()]
        };
        out.push((found.into(), values));
    }
    Ok(out)
}

fn of_file(file: &str, text: &str) -> Result<Vec<(Name, Vec<String>)>> {
    let table: toml::Table = text
        .parse()
        .map_err(|cause| Error::illegal(format!("the configuration file [{file}] is not TOML: {cause}")))?;
    let mut out = Vec::new();
    flatten(&table, "", &mut |name, value| {
        let canonical = canonical(name, file)?;
        let scalar = |value: &toml::Value| match value {
            toml::Value::String(s) => Ok(s.clone()),
            toml::Value::Integer(_) | toml::Value::Boolean(_) | toml::Value::Float(_) => Ok(value.to_string()),
            _ => Err(Error::illegal(format!(
                "[{name}] in [{file}] must be a string, a number or a boolean"
            ))),
        };
        let values = match value {
            toml::Value::Array(many) if canonical == "listen" => many.iter().map(scalar).collect::<Result<Vec<_>>>()?,
            toml::Value::Array(many) if canonical == PATH_REPO => {
                vec![many.iter().map(scalar).collect::<Result<Vec<_>>>()?.join(",")]
            }
            single => vec![scalar(single)?],
        };
        out.push((canonical, values));
        Ok(())
    })?;
    Ok(out)
}

/// Every leaf of a table with its dotted name.
fn flatten(table: &toml::Table, prefix: &str, visit: &mut dyn FnMut(&str, &toml::Value) -> Result<()>) -> Result<()> {
    for (key, value) in table {
        let name = if prefix.is_empty() {
            key.clone()
        } else {
            format!("{prefix}.{key}")
        };
        match value {
            toml::Value::Table(inner) => flatten(inner, &name, visit)?,
            leaf => visit(&name, leaf)?,
        }
    }
    Ok(())
}
