//! The configuration as a TOML file that would give the same, with the origin of each value.
//!
//! Not here: reading such a file (`sources`).

use super::names::{NAMES, every_name, node_settings};
use super::s3;
use super::values::Values;
use crate::listen::{ListenOn, persona_name};
use model::Persona;
use toml::Value;

/// Every setting, and where is listened. Secrets are left out.
pub(super) fn render(values: &Values, listen: &[(ListenOn, Persona)]) -> String {
    let mut out = String::new();
    let ours = NAMES.iter().map(|(name, _, _, about)| (*name, *about));
    for (name, about) in ours.chain(node_settings().map(|setting| (setting.name, setting.about))) {
        let origin = values.find(name).map_or("default", |given| given.origin.as_str());
        let value = if name == "listen" {
            let places = listen.iter().map(|(on, persona)| format!("{on}={}", persona_name(*persona)));
            Value::Array(places.map(Value::String).collect())
        } else {
            Value::String(values.text(name))
        };
        let shadowed = values.find("listen").is_some() && matches!(name, "http.port" | "network.host");
        let comment = if shadowed { "# " } else { "" };
        // A name that goes on from another's is a key of its own: TOML has no value and table of one name.
        let goes_on = every_name().any(|(other, _)| name.strip_prefix(other).is_some_and(|rest| rest.starts_with('.')));
        let key = if goes_on { format!("\"{name}\"") } else { name.to_owned() };
        out.push_str(&format!("# {about} ({origin})\n{comment}{key} = {value}\n"));
    }
    for (name, given) in values.of_clients() {
        let origin = &given.origin;
        if s3::is_secret(name) {
            out.push_str(&format!("# {name} is given and not shown ({origin})\n"));
        } else {
            let value = Value::String(given.values.last().cloned().unwrap_or_default());
            out.push_str(&format!("# A client of S3. ({origin})\n{name} = {value}\n"));
        }
    }
    out
}
