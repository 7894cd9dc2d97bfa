//! What one principal may do: the roles of a user, or those of an API key within its owner's.
//!
//! Every decision is made here, from names alone. Not here: which names a request means (`rest::guard`).

use crate::privileges::{ClusterRights, IndexRights, granting, granting_cluster};
use crate::records::{ApiKey, Records, User};
use crate::role::{IndexGrant, Role};
use model::field_rights::Patterns;
use model::path::matches;
use model::system_index::is_system;
use model::{DocumentRights, Error, ErrorKind};
use std::sync::Arc;

/// How somebody has proved who they are.
#[derive(Clone, Debug, PartialEq)]
pub enum Realm {
    /// By a password.
    User,
    /// By an API key.
    ApiKey(Arc<ApiKey>),
}

/// Somebody who has proved who they are, and what they may do.
#[derive(Clone, Debug)]
pub struct Principal {
    /// The user, or the owner of the key.
    pub user: Arc<User>,
    /// How they proved it.
    pub realm: Realm,
    /// What they may do.
    pub rights: Rights,
    /// The version of the records that it follows from.
    pub version: u64,
}

/// Roles, of which each may allow something.
#[derive(Clone, Debug, Default)]
struct RoleSet(Vec<Arc<Role>>);

/// What is allowed by each of its sets of roles.
#[derive(Clone, Debug)]
pub struct Rights(Vec<RoleSet>);

impl RoleSet {
    fn of(records: &Records, names: &[String]) -> RoleSet {
        RoleSet(names.iter().filter_map(|name| records.role(name)).collect())
    }
    fn cluster(&self) -> ClusterRights {
        let each = self.0.iter().map(|role| role.cluster_rights);
        each.fold(ClusterRights::NONE, |sum, one| sum | one)
    }
    fn grants(&self) -> impl Iterator<Item = &IndexGrant> {
        self.0.iter().flat_map(|role| &role.indices)
    }
    fn on(&self, name: &str) -> IndexRights {
        let each = self.grants().filter(|grant| grant.is_on(name)).map(|grant| grant.rights);
        each.fold(IndexRights::NONE, |sum, one| sum | one)
    }
    /// The queries of these grants; `None`: one has none.
    fn queries(grants: &[&IndexGrant]) -> Option<Vec<Arc<str>>> {
        let mut out = Vec::new();
        for grant in grants {
            let query = grant.query.clone()?;
            if !out.contains(&query) {
                out.push(query);
            }
        }
        Some(out)
    }
    fn fields(grants: &[&IndexGrant]) -> Option<Vec<Patterns>> {
        let mut out = Vec::new();
        for grant in grants {
            let fields = grant.fields.clone()?;
            if !out.contains(&fields) {
                out.push(fields);
            }
        }
        Some(out)
    }
    fn on_one_of(&self, names: &[&str]) -> Vec<&IndexGrant> {
        let is_on = |grant: &&IndexGrant| names.iter().any(|name| grant.is_on(name));
        self.grants().filter(is_on).collect()
    }
    fn readers(&self, names: &[&str]) -> Vec<&IndexGrant> {
        let mut grants = self.on_one_of(names);
        grants.retain(|grant| grant.rights.shares(IndexRights::READ));
        grants
    }
}

impl IndexGrant {
    fn is_on(&self, name: &str) -> bool {
        self.names.iter().any(|pattern| matches(pattern, name))
    }
}

impl Rights {
    /// Those of a user.
    pub fn of_user(records: &Records, user: &User) -> Rights {
        Rights(vec![RoleSet::of(records, &user.roles)])
    }
    /// Those of a key: of what its owner may, what its roles allow.
    pub fn of_key(records: &Records, key: &ApiKey, owner: &User) -> Rights {
        let mut out = Rights::of_user(records, owner);
        if !key.roles.is_empty() {
            out.0
                .push(RoleSet(key.roles.iter().map(|(_, role)| Arc::new(role.clone())).collect()));
        }
        debug_assert!(
            Rights::of_user(records, owner).cluster().has(out.cluster()),
            "an API key may do no more than its owner"
        );
        out
    }
    /// Of which each has to allow what is done.
    fn sets(&self) -> &[RoleSet] {
        assert!(
            !self.0.is_empty(),
            "security.md S1: rights are those of somebody, since no set of roles would allow everything"
        );
        &self.0
    }
    /// Does it have one of these?
    pub fn has_cluster(&self, any_of: ClusterRights) -> bool {
        self.cluster().shares(any_of)
    }
    /// All that it has.
    pub fn cluster(&self) -> ClusterRights {
        let each = self.sets().iter().map(RoleSet::cluster);
        each.fold(ClusterRights::ALL, ClusterRights::within)
    }
    /// What it may do with the index or alias of this name. System indices are for nobody.
    pub fn on(&self, name: &str) -> IndexRights {
        if is_system(name) {
            return IndexRights::NONE;
        }
        let each = self.sets().iter().map(|set| set.on(name));
        each.fold(IndexRights::ALL, IndexRights::within)
    }
    /// Does it have one of these on some index? What a key and its owner share is told name by name.
    pub fn has_somewhere(&self, any_of: IndexRights) -> bool {
        let grants = |set: &RoleSet| set.grants().any(|grant| grant.rights.shares(any_of));
        self.sets().iter().all(grants)
    }
    /// Are all indices, of any name, at its hand with all of these?
    pub fn has_everywhere(&self, all_of: IndexRights) -> bool {
        let grants = |set: &RoleSet| {
            let everywhere = |grant: &IndexGrant| grant.rights.has(all_of) && grant.names.iter().any(|name| name == "*");
            set.grants().any(everywhere)
        };
        self.sets().iter().all(grants)
    }
    /// Is something withheld from what it may read anywhere?
    pub fn withholds(&self) -> bool {
        let withholds = |grant: &IndexGrant| grant.query.is_some() || grant.fields.is_some();
        self.sets().iter().flat_map(RoleSet::grants).any(withholds)
    }
    /// The documents and fields that it sees of an index, which it reads by one of these names (its own, or aliases).
    pub fn documents(&self, names: &[&str]) -> DocumentRights {
        self.rights_by(|set| set.readers(names))
    }
    /// The documents and fields that the mappings and figures of an index may tell of: those that it reads. Who reads nothing
    /// there is told what the other roles show.
    pub fn descriptions(&self, names: &[&str]) -> DocumentRights {
        self.rights_by(|set| {
            let readers = set.readers(names);
            match readers.is_empty() {
                true => set.on_one_of(names),
                false => readers,
            }
        })
    }
    fn rights_by<'a>(&'a self, grants: impl Fn(&'a RoleSet) -> Vec<&'a IndexGrant>) -> DocumentRights {
        let mut out = DocumentRights::default();
        for set in self.sets() {
            let grants = grants(set);
            out.queries.extend(RoleSet::queries(&grants));
            out.fields.0.extend(RoleSet::fields(&grants));
        }
        // Who asks first whether anything is withheld does not ask what.
        debug_assert!(
            self.withholds() || out.is_all() || out.is_nothing(),
            "security.md S6: nothing is withheld, and this is a part: {out:?}"
        );
        out
    }
    /// The privileges of `any_of` on the names of the roles, as `_has_privileges` and `_privileges` list them.
    pub fn grants(&self) -> Vec<&IndexGrant> {
        self.0.iter().flat_map(RoleSet::grants).collect()
    }
}

impl Principal {
    /// A user.
    pub fn of_user(records: &Records, user: &Arc<User>) -> Principal {
        Principal {
            user: user.clone(),
            realm: Realm::User,
            rights: Rights::of_user(records, user),
            version: records.version,
        }
    }
    /// A key; `None`: its owner is gone or disabled.
    pub fn of_key(records: &Records, key: &Arc<ApiKey>) -> Option<Principal> {
        let owner = records.users.get(&key.owner).filter(|owner| owner.enabled)?;
        debug_assert_eq!(owner.name, key.owner, "security.md S3: a user is found by their own name");
        Some(Principal {
            user: owner.clone(),
            realm: Realm::ApiKey(key.clone()),
            rights: Rights::of_key(records, key, owner),
            version: records.version,
        })
    }
    /// `user [x] with roles [..]`, and the key.
    fn label(&self) -> String {
        let roles = self.user.roles.join(",");
        match &self.realm {
            Realm::User => format!("user [{}] with effective roles [{roles}]", self.user.name),
            Realm::ApiKey(key) => format!("API key id [{}] of user [{}]", key.id, self.user.name),
        }
    }
    /// The refusal of an action on the cluster.
    pub fn refused_cluster(&self, action: &str, any_of: ClusterRights) -> Error {
        let privileges = granting_cluster(any_of).join(",");
        let reason = format!(
            "action [{action}] is unauthorized for {}, this action is granted by the cluster privileges [{privileges}]",
            self.label()
        );
        Error::new(ErrorKind::Security, reason)
    }
    /// The refusal of an action on indices. It is the same whether they are there or not.
    pub fn refusal(&self, action: &str, any_of: IndexRights, names: &[&str]) -> Error {
        let privileges = granting(any_of).join(",");
        let on = match names {
            [] => String::new(),
            names => format!(" on indices [{}]", names.join(",")),
        };
        let reason = format!(
            "action [{action}] is unauthorized for {}{on}, this action is granted by the index privileges [{privileges}]",
            self.label()
        );
        Error::new(ErrorKind::Security, reason)
    }
    /// The refusal of what does not honour document and field rights, to somebody who has such.
    pub fn withheld(&self, what: &str, index: &str) -> Error {
        let reason = format!(
            "{what} is not supported for {} on index [{index}]: its roles restrict documents or fields there",
            self.label()
        );
        Error::new(ErrorKind::Security, reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::Record;
    use serde_json::{Value, json};

    fn records(roles: &[(&str, Value)]) -> Records {
        let mut out = Records::default();
        for (name, body) in roles {
            let role = Role::parse(name, body).expect("a role");
            out.put(Record::Role((*name).to_owned(), Arc::new(role)));
        }
        out
    }

    fn user(roles: &[&str]) -> Arc<User> {
        Arc::new(User {
            name: "u".into(),
            roles: roles.iter().map(|role| (*role).to_owned()).collect(),
            enabled: true,
            ..User::default()
        })
    }

    fn grant(names: &str, privileges: &str, query: Value) -> Value {
        json!({ "indices": [{ "names": [names], "privileges": [privileges], "query": query }] })
    }

    #[test]
    fn roles_add_up_and_system_indices_are_for_nobody() {
        let records = records(&[
            ("a", grant("logs-*", "read", Value::Null)),
            ("b", grant("logs-1", "write", Value::Null)),
        ]);
        let rights = Rights::of_user(&records, &user(&["a", "b", "missing"]));
        assert!(rights.on("logs-1").has(IndexRights::READ | IndexRights::DELETE));
        assert_eq!(rights.on("logs-2"), IndexRights::READ);
        assert_eq!(rights.on("other"), IndexRights::NONE);
        let all = Rights::of_user(&records, &user(&["superuser"]));
        assert!(all.on("x").has(IndexRights::ALL) && all.on(".pleach-security") == IndexRights::NONE);
        assert!(all.has_cluster(ClusterRights::MANAGE_SECURITY) && all.has_everywhere(IndexRights::ALL));
        let none = Rights::of_user(&records, &user(&[]));
        assert!(!none.has_somewhere(IndexRights::ALL) && !none.has_cluster(ClusterRights::ALL));
    }

    #[test]
    fn queries_of_several_roles_are_alternatives() {
        let query = |n: i32| json!({ "term": { "n": n } });
        let records = records(&[
            ("a", grant("i", "read", query(1))),
            ("b", grant("i*", "read", query(2))),
            ("c", grant("i", "read", Value::Null)),
            ("w", grant("i", "write", query(9))),
        ]);
        let of = |roles: &[&str]| Rights::of_user(&records, &user(roles)).documents(&["i"]).queries;
        let text = |n: i32| -> Arc<str> { query(n).to_string().into() };
        assert_eq!(of(&["a", "b", "w"]), [vec![text(1), text(2)]]);
        assert!(of(&["a", "c"]).is_empty(), "one of them is for all documents");
        // Figures are of what is read; without a reader of what the others show.
        let described = |roles: &[&str]| Rights::of_user(&records, &user(roles)).descriptions(&["i"]).queries;
        assert_eq!(described(&["a", "w"]), [vec![text(1)]]);
        assert_eq!(described(&["w"]), [vec![text(9)]]);
        assert!(Rights::of_user(&records, &user(&["w"])).documents(&["i"]).is_nothing());
        let role = Role::parse("k", &grant("*", "read", query(3))).expect("a role");
        let key = ApiKey {
            roles: vec![("k".into(), role)],
            ..ApiKey::default()
        };
        let rights = Rights::of_key(&records, &key, &user(&["a"]));
        assert_eq!(rights.documents(&["i"]).queries, [vec![text(1)], vec![text(3)]]);
        assert_eq!(rights.on("j"), IndexRights::NONE, "its owner may not");
    }
}
