//! The right of an endpoint: a column of the table of endpoints, so that a row without one does not compile.
//!
//! A row with an index right is answered for the indices on which the right is granted: names in the path are looked at before
//! the handler runs, all others where names become indices (`guard`). Not here: privileges (`security`).

use security::{ClusterRights, IndexRights};

/// The right that an endpoint asks for. Of several rights one is enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// None: it is answered without credentials.
    Probe,
    /// To be a user.
    AnyUser,
    /// One of these rights on the cluster. Every index is shown.
    Cluster(ClusterRights),
    /// One of these rights on each index that is named, and on some index.
    Index(IndexRights),
    /// Both. Of the indices those are shown on which the right is granted.
    ClusterAndIndex(ClusterRights, IndexRights),
}

impl Right {
    /// The rights of which one must be granted on the indices it shows; `None`: it shows all.
    pub fn on_indices(self) -> Option<IndexRights> {
        match self {
            Right::Index(rights) | Right::ClusterAndIndex(_, rights) => Some(rights),
            Right::Probe | Right::AnyUser | Right::Cluster(_) => None,
        }
    }
    /// The rights of which one must be granted on the cluster.
    pub fn on_cluster(self) -> Option<ClusterRights> {
        match self {
            Right::Cluster(rights) | Right::ClusterAndIndex(rights, _) => Some(rights),
            Right::Probe | Right::AnyUser | Right::Index(_) => None,
        }
    }
}

macro_rules! columns {
    ($($name:ident = $right:expr;)*) => {
        $(pub(crate) const $name: Right = $right;)*
    };
}

columns! {
    PROBE = Right::Probe;
    ANY_USER = Right::AnyUser;
    READ = Right::Index(IndexRights::READ);
    READ_OR_VIEW = Right::Index(IndexRights::READ.and(IndexRights::VIEW_METADATA));
    INDEX = Right::Index(IndexRights::INDEX.and(IndexRights::CREATE));
    CREATE = Right::Index(IndexRights::CREATE);
    UPDATE = Right::Index(IndexRights::UPDATE);
    DELETE = Right::Index(IndexRights::DELETE);
    WRITE = Right::Index(security::privileges::WRITES);
    CREATE_INDEX = Right::Index(IndexRights::CREATE_INDEX);
    DELETE_INDEX = Right::Index(IndexRights::DELETE_INDEX);
    VIEW_METADATA = Right::Index(IndexRights::VIEW_METADATA);
    MONITOR = Right::Index(IndexRights::MONITOR);
    MAINTENANCE = Right::Index(IndexRights::MAINTENANCE);
    MANAGE = Right::Index(IndexRights::MANAGE);
    LOCK = Right::Index(IndexRights::LOCK);
    BREAK_LOCK = Right::Index(IndexRights::BREAK_LOCK);
    TRANSACTION = Right::Index(IndexRights::TRANSACTION);
    MOVE = Right::Index(IndexRights::MOVE);
    FOLLOW_CHANGES = Right::Index(IndexRights::FOLLOW_CHANGES);
    CLUSTER_MONITOR = Right::Cluster(ClusterRights::MONITOR);
    CLUSTER_MANAGE = Right::Cluster(ClusterRights::MANAGE);
    TEMPLATES = Right::Cluster(ClusterRights::MANAGE_INDEX_TEMPLATES);
    SEE_TEMPLATES = Right::Cluster(ClusterRights::MANAGE_INDEX_TEMPLATES.and(ClusterRights::MONITOR));
    PIPELINES = Right::Cluster(ClusterRights::MANAGE_PIPELINE);
    CREATE_SNAPSHOT = Right::Cluster(ClusterRights::CREATE_SNAPSHOT);
    MONITOR_SNAPSHOT = Right::Cluster(ClusterRights::MONITOR_SNAPSHOT);
    SEE_CLUSTER = Right::ClusterAndIndex(ClusterRights::MONITOR, IndexRights::VIEW_METADATA);
    SEE_INDICES = Right::ClusterAndIndex(ClusterRights::MONITOR, IndexRights::MONITOR);
    SEE_ALIASES = Right::Index(IndexRights::VIEW_METADATA);
    SECURITY = Right::Cluster(ClusterRights::MANAGE_SECURITY);
    SEE_SECURITY = Right::Cluster(ClusterRights::MANAGE_SECURITY.and(ClusterRights::READ_SECURITY));
    OWN_KEYS = Right::Cluster(ClusterRights::MANAGE_API_KEY.and(ClusterRights::MANAGE_OWN_API_KEY));
    SEE_KEYS = Right::Cluster(ClusterRights::MANAGE_API_KEY.and(ClusterRights::MANAGE_OWN_API_KEY).and(ClusterRights::READ_SECURITY));
}

/// As the page of endpoints has it.
impl std::fmt::Display for Right {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let cluster = |rights| narrowest(&security::privileges::granting_cluster(rights));
        let index = |rights| narrowest(&security::privileges::granting(rights));
        match *self {
            Right::Probe => f.write_str("none, no credentials"),
            Right::AnyUser => f.write_str("any user"),
            Right::Cluster(rights) => write!(f, "cluster {}", cluster(rights)),
            Right::Index(rights) => write!(f, "index {}", index(rights)),
            Right::ClusterAndIndex(both, rights) => write!(f, "cluster {}, index {}", cluster(both), index(rights)),
        }
    }
}

/// The privileges that give it, in code.
fn narrowest(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

/// The names of actions in refusals, where the reference has its own.
const ACTIONS: &[(&str, &str)] = &[
    ("index", "indices:data/write/index"),
    ("create", "indices:data/write/index"),
    ("delete", "indices:data/write/delete"),
    ("update", "indices:data/write/update"),
    ("bulk", "indices:data/write/bulk"),
    ("count", "indices:data/read/search"),
    ("suggest_2015", "indices:data/read/suggest"),
    ("get_source", "indices:data/read/get"),
    ("search_template", "indices:data/read/search/template"),
    ("termvectors", "indices:data/read/tv"),
    ("mtermvectors", "indices:data/read/mtv"),
    ("delete_by_query", "indices:data/write/delete/byquery"),
    ("delete_by_query_2015", "indices:data/write/delete/byquery"),
    ("update_by_query", "indices:data/write/update/byquery"),
    ("reindex", "indices:data/write/reindex"),
    ("indices.put_mapping", "indices:admin/mapping/put"),
    ("indices.get_mapping", "indices:admin/mappings/get"),
    ("indices.get_field_mapping", "indices:admin/mappings/fields/get"),
    ("indices.put_settings", "indices:admin/settings/update"),
    ("indices.get_settings", "indices:monitor/settings/get"),
    ("indices.update_aliases", "indices:admin/aliases"),
    ("indices.put_alias", "indices:admin/aliases"),
    ("indices.delete_alias", "indices:admin/aliases"),
    ("indices.get_alias", "indices:admin/aliases/get"),
    ("indices.stats", "indices:monitor/stats"),
    ("indices.validate_query", "indices:admin/validate/query"),
    ("cluster.put_settings", "cluster:admin/settings/update"),
    ("cluster.get_settings", "cluster:monitor/settings"),
    ("cluster.health", "cluster:monitor/health"),
    ("cluster.state", "cluster:monitor/state"),
];

model::assert_words_differ!(ACTIONS; 0, "each endpoint has one action");

/// The name of an endpoint's action, as refusals and the audit have it.
pub fn action_of(api: &str, right: Right) -> String {
    if let Some((_, action)) = ACTIONS.iter().find(|(known, _)| *known == api) {
        return (*action).to_owned();
    }
    let name = ["indices.", "cluster.", "security."]
        .iter()
        .find_map(|prefix| api.strip_prefix(prefix));
    let name = name.unwrap_or(api).replace('.', "/");
    let kind = match right {
        _ if api.starts_with("security.") => "cluster:admin/xpack/security",
        Right::Cluster(rights) if rights == ClusterRights::MONITOR => "cluster:monitor",
        Right::Probe | Right::AnyUser | Right::Cluster(_) => "cluster:admin",
        Right::ClusterAndIndex(..) => "indices:monitor",
        Right::Index(rights) if rights.shares(IndexRights::READ) => "indices:data/read",
        Right::Index(rights) if rights.shares(security::privileges::WRITES) => "indices:data/write",
        Right::Index(rights) if rights == IndexRights::MONITOR => "indices:monitor",
        Right::Index(_) => "indices:admin",
    };
    format!("{kind}/{name}")
}
