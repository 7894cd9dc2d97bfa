//! What is stored: users, roles and API keys, each a document; and all of them together as one value.
//!
//! Not here: where the documents are kept (`rest::security::store`), what roles allow (`rights`).

use crate::role::{Role, find_built_in};
use model::{Error, ErrorKind, Result};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A user.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct User {
    pub name: String,
    pub roles: Vec<String>,
    pub full_name: Option<String>,
    pub email: Option<String>,
    pub metadata: Map<String, Value>,
    pub enabled: bool,
    /// By `secrets::hash`.
    pub password_hash: String,
}

impl User {
    /// As `_security/user` and `_authenticate` show it.
    pub fn render(&self) -> Value {
        json!({
            "username": self.name,
            "roles": self.roles,
            "full_name": self.full_name,
            "email": self.email,
            "metadata": self.metadata,
            "enabled": self.enabled,
        })
    }
    fn store(&self) -> Value {
        let mut out = self.render();
        out["password_hash"] = self.password_hash.as_str().into();
        out
    }
    fn read(body: &Value) -> Option<User> {
        Some(User {
            name: body["username"].as_str()?.to_owned(),
            roles: texts(&body["roles"]),
            full_name: body["full_name"].as_str().map(str::to_owned),
            email: body["email"].as_str().map(str::to_owned),
            metadata: body["metadata"].as_object().cloned().unwrap_or_default(),
            enabled: body["enabled"].as_bool()?,
            password_hash: body["password_hash"].as_str()?.to_owned(),
        })
    }
}

/// An API key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ApiKey {
    pub id: String,
    pub name: String,
    /// Milliseconds since 1970, as all times here.
    pub created_ms: i64,
    pub expires_ms: Option<i64>,
    /// When it was ended.
    pub invalidated_ms: Option<i64>,
    /// Who made it: it may do no more than they may.
    pub owner: String,
    /// By `secrets::key_hash`.
    pub hash: String,
    pub metadata: Map<String, Value>,
    /// What it may do of what its owner may; empty: all of it.
    pub roles: Vec<(String, Role)>,
}

impl ApiKey {
    /// May it still be used?
    pub fn is_live(&self, now_ms: i64) -> bool {
        self.invalidated_ms.is_none() && self.expires_ms.is_none_or(|end| now_ms < end)
    }
    /// As `_security/api_key` shows it.
    pub fn render(&self) -> Value {
        let mut out = json!({
            "id": self.id,
            "name": self.name,
            "type": "rest",
            "creation": self.created_ms,
            "invalidated": self.invalidated_ms.is_some(),
            "username": self.owner,
            "realm": REALM,
            "realm_type": REALM_TYPE,
            "metadata": self.metadata,
            "role_descriptors": self.role_descriptors(),
        });
        if let Some(end) = self.expires_ms {
            out["expiration"] = end.into();
        }
        if let Some(end) = self.invalidated_ms {
            out["invalidation"] = end.into();
        }
        out
    }
    fn role_descriptors(&self) -> Value {
        let roles = self.roles.iter().map(|(name, role)| (name.clone(), role.render()));
        Value::Object(roles.collect())
    }
    fn store(&self) -> Value {
        let mut out = self.render();
        out["hash"] = self.hash.as_str().into();
        out
    }
    fn read(body: &Value) -> Option<ApiKey> {
        let roles = body["role_descriptors"].as_object()?.iter();
        let roles = roles.map(|(name, role)| Some((name.clone(), Role::parse(name, role).ok()?)));
        Some(ApiKey {
            id: body["id"].as_str()?.to_owned(),
            name: body["name"].as_str()?.to_owned(),
            created_ms: body["creation"].as_i64()?,
            expires_ms: body["expiration"].as_i64(),
            invalidated_ms: body["invalidation"].as_i64(),
            owner: body["username"].as_str()?.to_owned(),
            hash: body["hash"].as_str()?.to_owned(),
            metadata: body["metadata"].as_object().cloned().unwrap_or_default(),
            roles: roles.collect::<Option<_>>()?,
        })
    }
}

/// The realm of users, as the reference names its own.
pub const REALM: &str = "default_native";
/// Its kind.
pub const REALM_TYPE: &str = "native";

/// One stored document.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    User(Arc<User>),
    Role(String, Arc<Role>),
    ApiKey(Arc<ApiKey>),
}

impl Record {
    /// The id of its document.
    pub fn id(&self) -> String {
        match self {
            Record::User(user) => format!("user-{}", user.name),
            Record::Role(name, _) => format!("role-{name}"),
            Record::ApiKey(key) => format!("api_key-{}", key.id),
        }
    }
    /// Its document.
    pub fn store(&self) -> Value {
        let body = match self {
            Record::User(user) => json!({ "kind": "user", "user": user.store() }),
            Record::Role(name, role) => json!({ "kind": "role", "name": name, "role": role.render() }),
            Record::ApiKey(key) => json!({ "kind": "api_key", "api_key": key.store() }),
        };
        debug_assert!(
            Record::read(&body).is_ok_and(|read| read == *self),
            "security.md S2: a record that is stored is read as it is in memory"
        );
        body
    }
    /// From its document.
    ///
    /// # Errors
    /// Corruption: it is none.
    pub fn read(body: &Value) -> Result<Record> {
        let read = || {
            Some(match body["kind"].as_str()? {
                "user" => Record::User(Arc::new(User::read(&body["user"])?)),
                "role" => {
                    let name = body["name"].as_str()?;
                    Record::Role(name.to_owned(), Arc::new(Role::parse(name, &body["role"]).ok()?))
                }
                "api_key" => Record::ApiKey(Arc::new(ApiKey::read(&body["api_key"])?)),
                _ => return None,
            })
        };
        read().ok_or_else(|| {
            let reason = format!("a document of [{}] cannot be read", model::system_index::SECURITY_INDEX);
            Error::new(ErrorKind::Corruption, reason)
        })
    }
}

/// All users, roles and keys. A change makes another one.
#[derive(Clone, Debug, Default)]
pub struct Records {
    /// It grows with each change: whoever keeps a decision keeps the version beside it.
    pub version: u64,
    pub users: BTreeMap<String, Arc<User>>,
    pub roles: BTreeMap<String, Arc<Role>>,
    pub keys: BTreeMap<String, Arc<ApiKey>>,
}

impl Records {
    /// With one more record, in place of the one of its name.
    pub fn put(&mut self, record: Record) {
        self.version += 1;
        match record {
            Record::User(user) => drop(self.users.insert(user.name.clone(), user)),
            Record::Role(name, role) => drop(self.roles.insert(name, role)),
            Record::ApiKey(key) => drop(self.keys.insert(key.id.clone(), key)),
        }
    }
    /// Without a record.
    pub fn remove(&mut self, record: &Record) {
        self.version += 1;
        match record {
            Record::User(user) => drop(self.users.remove(&user.name)),
            Record::Role(name, _) => drop(self.roles.remove(name)),
            Record::ApiKey(key) => drop(self.keys.remove(&key.id)),
        }
    }
    /// A role by its name; one that is not there allows nothing.
    pub fn role(&self, name: &str) -> Option<Arc<Role>> {
        find_built_in(name).map(Arc::new).or_else(|| self.roles.get(name).cloned())
    }
    /// How many there are.
    pub fn count(&self) -> usize {
        self.users.len() + self.roles.len() + self.keys.len()
    }
    /// May somebody still log in who may alter users?
    pub fn has_administrator(&self) -> bool {
        self.users.values().any(|user| self.is_administrator(user))
    }
    /// May this user log in and alter users?
    pub fn is_administrator(&self, user: &User) -> bool {
        let may = |name: &String| {
            let role = self.role(name);
            role.is_some_and(|role| role.cluster_rights.has(crate::ClusterRights::MANAGE_SECURITY))
        };
        user.enabled && user.roles.iter().any(may)
    }
}

/// Is it a name that a user, a role or a key may have?
///
/// # Errors
/// It is empty, too long, or has characters that no name has.
pub fn check_name(kind: &str, name: &str) -> Result<()> {
    let wrong = |why: &str| {
        let reason = format!("Validation Failed: 1: {kind} name [{name}] {why};");
        Err(Error::new(ErrorKind::ActionRequestValidation, reason))
    };
    let length = name.chars().count();
    if length == 0 || length > 507 {
        return wrong("must be between 1 and 507 characters long");
    }
    if name.chars().any(char::is_control) || name.trim() != name || name.contains([',', '/', '*', ':']) {
        return wrong("has characters that no name has: control characters, blanks at an end, or one of [, / * :]");
    }
    if name.starts_with('_') {
        return wrong("must not start with [_]");
    }
    Ok(())
}

fn texts(list: &Value) -> Vec<String> {
    let list = list.as_array().into_iter().flatten();
    list.filter_map(|one| one.as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_as_they_were_stored() {
        let role = Role::parse("r", &json!({ "cluster": ["all"] })).expect("a role");
        let user = User {
            name: "u".into(),
            roles: vec!["r".into()],
            enabled: true,
            password_hash: "h".into(),
            ..User::default()
        };
        let key = ApiKey {
            id: "k".into(),
            name: "n".into(),
            owner: "u".into(),
            hash: "h".into(),
            expires_ms: Some(5),
            roles: vec![("x".into(), role.clone())],
            ..ApiKey::default()
        };
        assert!(key.is_live(4) && !key.is_live(5));
        for record in [
            Record::User(Arc::new(user)),
            Record::Role("r".into(), Arc::new(role)),
            Record::ApiKey(Arc::new(key)),
        ] {
            assert_eq!(Record::read(&record.store()).expect("read"), record);
        }
        assert_eq!(
            Record::read(&json!({ "kind": "x" })).expect_err("none").kind(),
            ErrorKind::Corruption
        );
    }

    #[test]
    fn names() {
        for (name, fits) in [
            ("alice", true),
            ("a b", true),
            ("", false),
            ("_x", false),
            ("a,b", false),
            (" a", false),
        ] {
            assert_eq!(check_name("user", name).is_ok(), fits, "{name}");
        }
    }
}
