//! A role: cluster privileges, and index privileges on patterns with the documents and fields they are for.
//!
//! Not here: what privileges mean (`privileges`), deciding (`rights`).

use crate::privileges::{self, ClusterRights, IndexRights};
use model::field_rights::Patterns;
use model::{Error, Result};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// One entry of `indices`.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexGrant {
    /// Patterns of indices and aliases.
    pub names: Vec<String>,
    /// As given.
    pub privileges: Vec<String>,
    /// What they stand for.
    pub rights: IndexRights,
    /// The documents that it is for, as JSON; `None`: all.
    pub query: Option<Arc<str>>,
    /// The fields that it is for; `None`: all.
    pub fields: Option<Patterns>,
}

/// A role.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Role {
    /// As given.
    pub cluster: Vec<String>,
    /// What they stand for.
    pub cluster_rights: ClusterRights,
    /// Rights on indices.
    pub indices: Vec<IndexGrant>,
    /// The client's own.
    pub metadata: Map<String, Value>,
    /// For people.
    pub description: Option<String>,
}

/// Members of a role that are here to be refused unless they are empty.
const EMPTY_ONLY: &[&str] = &["applications", "run_as", "global", "remote_indices", "remote_cluster"];

impl Role {
    /// Reads a role.
    ///
    /// # Errors
    /// Unknown members and privileges; names that no index can have.
    pub fn parse(name: &str, body: &Value) -> Result<Role> {
        let Value::Object(members) = body else {
            return Err(wrong(name, "expected an object"));
        };
        let mut role = Role::default();
        for (member, value) in members {
            match member.as_str() {
                "cluster" => role.cluster = strings(name, member, value)?,
                "indices" | "index" => role.indices = grants(name, value)?,
                "metadata" => {
                    role.metadata = value
                        .as_object()
                        .cloned()
                        .ok_or_else(|| wrong(name, "[metadata] is no object"))?
                }
                "description" => role.description = value.as_str().map(str::to_owned),
                "transient_metadata" => {}
                empty if EMPTY_ONLY.contains(&empty) => {
                    if !is_empty(value) {
                        return Err(wrong(name, &format!("[{empty}] is not supported by this server")));
                    }
                }
                other => {
                    let known = ["cluster", "indices", "metadata", "description"];
                    let hint = model::nearest::question(other, known);
                    return Err(wrong(name, &format!("unexpected field [{other}]{hint}")));
                }
            }
        }
        role.cluster_rights = privileges::cluster(&role.cluster)?;
        if role.metadata.keys().any(|key| key.starts_with('_')) {
            return Err(wrong(name, "metadata keys may not start with [_]"));
        }
        Ok(role)
    }

    /// As `_security/role` shows it.
    pub fn render(&self) -> Value {
        let indices: Vec<Value> = self.indices.iter().map(IndexGrant::render).collect();
        let mut out = json!({
            "cluster": self.cluster,
            "indices": indices,
            "applications": [],
            "run_as": [],
            "metadata": self.metadata,
            "transient_metadata": { "enabled": true },
        });
        if let Some(description) = &self.description {
            out["description"] = description.as_str().into();
        }
        out
    }
}

impl IndexGrant {
    fn render(&self) -> Value {
        let mut out = json!({ "names": self.names, "privileges": self.privileges });
        if let Some(fields) = &self.fields {
            out["field_security"] = json!({ "grant": fields.grant });
            if !fields.except.is_empty() {
                out["field_security"]["except"] = json!(fields.except);
            }
        }
        if let Some(query) = &self.query {
            out["query"] = (**query).into();
        }
        out["allow_restricted_indices"] = false.into();
        out
    }

    fn parse(role: &str, value: &Value) -> Result<IndexGrant> {
        let Value::Object(members) = value else {
            return Err(wrong(role, "an entry of [indices] is no object"));
        };
        let mut out = IndexGrant {
            names: Vec::new(),
            privileges: Vec::new(),
            rights: IndexRights::NONE,
            query: None,
            fields: None,
        };
        for (member, value) in members {
            match member.as_str() {
                "names" => out.names = strings(role, member, value)?,
                "privileges" => out.privileges = strings(role, member, value)?,
                "query" => out.query = query(role, value)?,
                "field_security" => out.fields = fields(role, value)?,
                "allow_restricted_indices" if value != true => {}
                "allow_restricted_indices" => {
                    return Err(wrong(
                        role,
                        "[allow_restricted_indices] must be [false]: nobody is granted system indices",
                    ));
                }
                other => {
                    let known = ["names", "privileges", "query", "field_security"];
                    let hint = model::nearest::question(other, known);
                    return Err(wrong(role, &format!("unexpected field [{other}] in [indices]{hint}")));
                }
            }
        }
        if out.names.is_empty() {
            return Err(wrong(role, "an entry of [indices] has no [names]"));
        }
        if out.privileges.is_empty() {
            return Err(wrong(role, "an entry of [indices] has no [privileges]"));
        }
        out.names.iter().try_for_each(|pattern| check_pattern(role, pattern))?;
        out.rights = privileges::index(&out.privileges)?;
        Ok(out)
    }
}

fn grants(role: &str, value: &Value) -> Result<Vec<IndexGrant>> {
    let Value::Array(list) = value else {
        return Err(wrong(role, "[indices] is no array"));
    };
    list.iter().map(|one| IndexGrant::parse(role, one)).collect()
}

/// Only `*` is a wildcard; regular expressions and `?` would match nothing and are refused.
fn check_pattern(role: &str, pattern: &str) -> Result<()> {
    if pattern.is_empty() || pattern.starts_with('/') || pattern.contains(['?', ',', '<', '>', '"', ' ']) {
        return Err(wrong(
            role,
            &format!("[{pattern}] is no pattern of index names: [*] is the only wildcard"),
        ));
    }
    Ok(())
}

fn query(role: &str, value: &Value) -> Result<Option<Arc<str>>> {
    Ok(match value {
        Value::Null => None,
        Value::String(text) if text.trim().is_empty() => None,
        Value::String(text) => Some(text.as_str().into()),
        Value::Object(_) => Some(value.to_string().into()),
        _ => return Err(wrong(role, "[query] is no query")),
    })
}

fn fields(role: &str, value: &Value) -> Result<Option<Patterns>> {
    let Value::Object(members) = value else {
        return match value {
            Value::Null => Ok(None),
            _ => Err(wrong(role, "[field_security] is no object")),
        };
    };
    let (mut grant, mut except) = (None, Vec::new());
    for (member, value) in members {
        match member.as_str() {
            "grant" => grant = (!value.is_null()).then(|| strings(role, member, value)).transpose()?,
            "except" if value.is_null() => {}
            "except" => except = strings(role, member, value)?,
            other => return Err(wrong(role, &format!("unexpected field [{other}] in [field_security]"))),
        }
    }
    let grant = match (grant, except.is_empty()) {
        (Some(grant), _) => grant,
        (None, true) => return Ok(None),
        (None, false) => vec!["*".to_owned()],
    };
    Ok(Some(Patterns { grant, except }))
}

fn strings(role: &str, member: &str, value: &Value) -> Result<Vec<String>> {
    let refused = || wrong(role, &format!("[{member}] must be a string or an array of strings"));
    match value {
        Value::String(one) => Ok(vec![one.clone()]),
        Value::Array(list) => list
            .iter()
            .map(|one| one.as_str().map(str::to_owned).ok_or_else(refused))
            .collect(),
        _ => Err(refused()),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}

fn wrong(role: &str, why: &str) -> Error {
    Error::new(model::ErrorKind::Parse, format!("failed to parse role [{role}]. {why}"))
}

/// A role that there always is and that nobody alters.
pub fn find_built_in(name: &str) -> Option<Role> {
    let (_, cluster, indices) = BUILT_IN.iter().find(|(known, ..)| *known == name)?;
    let list = |text: &str| -> Vec<String> { text.split(' ').filter(|one| !one.is_empty()).map(str::to_owned).collect() };
    let cluster = list(cluster);
    debug_assert!(
        privileges::cluster(&cluster).is_ok() && indices.iter().all(|(_, names)| privileges::index(&list(names)).is_ok()),
        "each privilege of the built-in role [{name}] is known, or the role would be for less than it says"
    );
    let grant = |(names, privileges): &(&str, &str)| IndexGrant {
        names: list(names),
        privileges: list(privileges),
        rights: privileges::index(&list(privileges)).unwrap_or_default(),
        query: None,
        fields: None,
    };
    Some(Role {
        cluster_rights: privileges::cluster(&cluster).unwrap_or_default(),
        cluster,
        indices: indices.iter().map(grant).collect(),
        metadata: Map::from_iter([("_reserved".to_owned(), true.into())]),
        description: None,
    })
}

/// Name, cluster privileges, and names with index privileges.
type BuiltIn = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

model::assert_words_differ!(BUILT_IN; 0, "each built-in role has one row");

/// Roles that there always are.
pub const BUILT_IN: &[BuiltIn] = &[
    ("superuser", "all", &[("*", "all")]),
    ("viewer", "", &[("*", "read view_index_metadata")]),
    (
        "editor",
        "",
        &[("*", "read write create_index maintenance view_index_metadata")],
    ),
    ("monitoring_user", "monitor", &[("*", "monitor")]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_read_and_shown() {
        let body = json!({
            "cluster": ["monitor"],
            "indices": [{ "names": "logs-*", "privileges": ["read"], "query": { "term": { "a": 1 } },
                          "field_security": { "grant": ["a", "b.*"], "except": ["b.c"] } }],
            "applications": [],
        });
        let role = Role::parse("r", &body).expect("a role");
        let shown = role.render();
        assert_eq!(shown["indices"][0]["query"], r#"{"term":{"a":1}}"#);
        assert_eq!(Role::parse("r", &shown).expect("what is shown is read"), role);
    }

    #[test]
    fn refusals_say_what_is_wrong() {
        let check = |body: Value, expected: &str| {
            let error = Role::parse("r", &body).expect_err("no role");
            assert!(error.reason().contains(expected), "{}", error.reason());
        };
        check(json!([]), "expected an object");
        check(json!({ "indexes": [] }), "did you mean [indices]?");
        check(json!({ "cluster": ["moniter"] }), "did you mean [monitor]?");
        check(json!({ "indices": [{ "names": ["a"] }] }), "no [privileges]");
        check(json!({ "indices": [{ "privileges": ["read"] }] }), "no [names]");
        check(
            json!({ "indices": [{ "names": ["/a.*/"], "privileges": ["read"] }] }),
            "only wildcard",
        );
        check(json!({ "run_as": ["a"] }), "[run_as] is not supported");
    }

    #[test]
    fn built_in_roles_are_sound() {
        for (name, ..) in BUILT_IN {
            let role = find_built_in(name).expect("listed");
            for grant in &role.indices {
                assert_eq!(privileges::index(&grant.privileges).expect("known"), grant.rights);
            }
            assert_eq!(privileges::cluster(&role.cluster).expect("known"), role.cluster_rights);
        }
        let all = find_built_in("superuser").expect("listed");
        assert!(all.cluster_rights.has(ClusterRights::ALL) && all.indices[0].rights.has(IndexRights::ALL));
    }
}
