//! Privileges by their names: each stands for a set of rights.
//!
//! Names are those of Elasticsearch; those of locks, transactions, directories and the feed are ours. A name that is known
//! there and guards nothing here is taken and gives nothing (`GIVES_NOTHING`). Not here: which right an endpoint
//! needs (`rest::routes`).

use model::{Error, Result};
use std::ops::BitOr;

macro_rules! rights {
    ($(#[$doc:meta])* $set:ident { $($(#[$one:meta])* $name:ident = $bit:literal, $action:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct $set(u32);
        impl $set {
            $($(#[$one])* pub const $name: $set = $set(1 << $bit);)*
            /// Each right alone.
            pub const EACH: &[$set] = &[$($set::$name,)*];
            /// No right.
            pub const NONE: $set = $set(0);
            /// Every right.
            pub const ALL: $set = $set($((1 << $bit) |)* 0);
            /// The action in a refusal, as the reference names actions of this kind.
            pub fn action(self) -> &'static str {
                $(if self.shares($set::$name) { return $action; })*
                "none"
            }
        }
        impl $set {
            /// Both sets together.
            #[must_use]
            pub const fn and(self, other: $set) -> $set {
                $set(self.0 | other.0)
            }
            /// Is one of these rights in it?
            #[must_use]
            pub const fn shares(self, any_of: $set) -> bool {
                self.0 & any_of.0 != 0
            }
            /// Are all of these rights in it?
            #[must_use]
            pub const fn has(self, all_of: $set) -> bool {
                self.0 & all_of.0 == all_of.0
            }
            /// The rights that are in both.
            #[must_use]
            pub const fn within(self, other: $set) -> $set {
                $set(self.0 & other.0)
            }
        }
        impl BitOr for $set {
            type Output = $set;
            fn bitor(self, other: $set) -> $set {
                self.and(other)
            }
        }
    };
}

rights! {
    /// What may be done with an index.
    IndexRights {
        /// Documents are read, found and counted.
        READ = 0, "indices:data/read/search";
        /// Documents are written, also over others.
        INDEX = 1, "indices:data/write/index";
        /// Documents are written where there are none.
        CREATE = 2, "indices:data/write/index";
        /// Documents are changed in part.
        UPDATE = 3, "indices:data/write/update";
        /// Documents are deleted.
        DELETE = 4, "indices:data/write/delete";
        /// The index is made.
        CREATE_INDEX = 5, "indices:admin/create";
        /// The index is deleted.
        DELETE_INDEX = 6, "indices:admin/delete";
        /// Settings, mappings and aliases are read.
        VIEW_METADATA = 7, "indices:admin/get";
        /// Figures are read.
        MONITOR = 8, "indices:monitor/stats";
        /// Refreshes, flushes, merges, caches.
        MAINTENANCE = 9, "indices:admin/refresh";
        /// Settings, mappings and aliases are altered; the index is closed and opened.
        MANAGE = 10, "indices:admin/manage";
        /// Locks are taken on it or in it.
        LOCK = 11, "indices:data/lock/acquire";
        /// Locks of others are broken.
        BREAK_LOCK = 12, "indices:data/lock/break";
        /// It takes part in transactions.
        TRANSACTION = 13, "indices:data/transaction";
        /// Directories of paths are moved, copied and removed.
        MOVE = 14, "indices:data/tree/move";
        /// Its changes are followed.
        FOLLOW_CHANGES = 15, "indices:data/changes/follow";
        /// A write makes the missing index.
        AUTO_CREATE = 16, "indices:admin/auto_create";
    }
}

rights! {
    /// What may be done with the cluster.
    ClusterRights {
        /// Health, state and figures are read.
        MONITOR = 0, "cluster:monitor/state";
        /// Settings, scripts, tasks, link policies, consumers.
        MANAGE = 1, "cluster:admin/settings/update";
        /// Users, roles and keys are altered.
        MANAGE_SECURITY = 2, "cluster:admin/xpack/security";
        /// Users, roles and keys are read.
        READ_SECURITY = 3, "cluster:admin/xpack/security/get";
        /// All API keys are made, read and ended.
        MANAGE_API_KEY = 4, "cluster:admin/xpack/security/api_key";
        /// One's own API keys are.
        MANAGE_OWN_API_KEY = 5, "cluster:admin/xpack/security/api_key/create";
        /// Index templates are altered.
        MANAGE_INDEX_TEMPLATES = 6, "indices:admin/index_template/put";
        /// Pipelines are altered.
        MANAGE_PIPELINE = 7, "cluster:admin/ingest/pipeline/put";
        /// Snapshots are made and read.
        CREATE_SNAPSHOT = 8, "cluster:admin/snapshot/create";
        /// Snapshots and repositories are read.
        MONITOR_SNAPSHOT = 9, "cluster:admin/snapshot/get";
    }
}

const _: () = assert!(
    IndexRights::ALL.0.count_ones() as usize == IndexRights::EACH.len(),
    "each right on an index has a bit of its own"
);
const _: () = assert!(
    ClusterRights::ALL.0.count_ones() as usize == ClusterRights::EACH.len(),
    "each right on the cluster has a bit of its own"
);

/// A privilege with what it stands for.
pub type Privilege<S> = (&'static str, S);

/// Rights to write documents.
pub const WRITES: IndexRights = IndexRights::INDEX
    .and(IndexRights::CREATE)
    .and(IndexRights::UPDATE)
    .and(IndexRights::DELETE);

/// Every index privilege.
pub const INDEX: &[Privilege<IndexRights>] = &[
    ("all", IndexRights::ALL),
    ("read", IndexRights::READ),
    ("write", WRITES),
    ("index", IndexRights::INDEX.and(IndexRights::CREATE).and(IndexRights::UPDATE)),
    ("create", IndexRights::INDEX.and(IndexRights::CREATE)),
    ("create_doc", IndexRights::CREATE),
    ("delete", IndexRights::DELETE),
    ("create_index", IndexRights::CREATE_INDEX.and(IndexRights::AUTO_CREATE)),
    ("delete_index", IndexRights::DELETE_INDEX),
    ("view_index_metadata", IndexRights::VIEW_METADATA),
    ("monitor", IndexRights::MONITOR),
    ("maintenance", IndexRights::MAINTENANCE),
    (
        "manage",
        IndexRights::MANAGE
            .and(IndexRights::VIEW_METADATA)
            .and(IndexRights::MONITOR)
            .and(IndexRights::MAINTENANCE)
            .and(IndexRights::CREATE_INDEX)
            .and(IndexRights::DELETE_INDEX)
            .and(IndexRights::AUTO_CREATE),
    ),
    ("auto_configure", IndexRights::AUTO_CREATE),
    ("lock", IndexRights::LOCK),
    ("break_lock", IndexRights::BREAK_LOCK),
    ("transaction", IndexRights::TRANSACTION),
    ("move", IndexRights::MOVE),
    ("follow_changes", IndexRights::FOLLOW_CHANGES),
    ("none", IndexRights::NONE),
];

model::assert_words_differ!(INDEX; 0, "each index privilege has one row");

const _: () = assert!(
    model::text::is_same(INDEX[0].0, "all") && INDEX[0].1.has(IndexRights::ALL),
    "the widest index privilege comes first, as lists that begin with the narrowest are read from the end"
);

const MANAGES: ClusterRights = ClusterRights::MANAGE
    .and(ClusterRights::MONITOR)
    .and(ClusterRights::MANAGE_INDEX_TEMPLATES)
    .and(ClusterRights::MANAGE_PIPELINE)
    .and(ClusterRights::CREATE_SNAPSHOT)
    .and(ClusterRights::MONITOR_SNAPSHOT);
const KEYS: ClusterRights = ClusterRights::MANAGE_API_KEY.and(ClusterRights::MANAGE_OWN_API_KEY);

/// Every cluster privilege.
pub const CLUSTER: &[Privilege<ClusterRights>] = &[
    ("all", ClusterRights::ALL),
    ("monitor", ClusterRights::MONITOR),
    ("manage", MANAGES),
    (
        "manage_security",
        ClusterRights::MANAGE_SECURITY.and(ClusterRights::READ_SECURITY).and(KEYS),
    ),
    ("read_security", ClusterRights::READ_SECURITY),
    ("manage_api_key", KEYS),
    ("manage_own_api_key", ClusterRights::MANAGE_OWN_API_KEY),
    ("manage_index_templates", ClusterRights::MANAGE_INDEX_TEMPLATES),
    ("manage_pipeline", ClusterRights::MANAGE_PIPELINE),
    ("manage_ingest_pipelines", ClusterRights::MANAGE_PIPELINE),
    (
        "create_snapshot",
        ClusterRights::CREATE_SNAPSHOT.and(ClusterRights::MONITOR_SNAPSHOT),
    ),
    ("monitor_snapshot", ClusterRights::MONITOR_SNAPSHOT),
    ("none", ClusterRights::NONE),
];

model::assert_words_differ!(CLUSTER; 0, "each cluster privilege has one row");

const _: () = assert!(
    model::text::is_same(CLUSTER[0].0, "all") && CLUSTER[0].1.has(ClusterRights::ALL),
    "the widest cluster privilege comes first, as lists that begin with the narrowest are read from the end"
);

/// Privileges of the reference for features that are not here: roles may name them, and they give nothing.
pub const GIVES_NOTHING: &[&str] = &[
    "cancel_task",
    "cross_cluster_replication",
    "cross_cluster_search",
    "delegate_pki",
    "grant_api_key",
    "manage_autoscaling",
    "manage_ccr",
    "manage_data_frame_transforms",
    "manage_data_stream_lifecycle",
    "manage_enrich",
    "manage_follow_index",
    "manage_ilm",
    "manage_leader_index",
    "manage_logstash_pipelines",
    "manage_ml",
    "manage_oidc",
    "manage_rollup",
    "manage_saml",
    "manage_service_account",
    "manage_slm",
    "manage_token",
    "manage_transform",
    "manage_user_profile",
    "manage_watcher",
    "monitor_data_frame_transforms",
    "monitor_ml",
    "monitor_rollup",
    "monitor_text_structure",
    "monitor_transform",
    "monitor_watcher",
    "read_ccr",
    "read_cross_cluster",
    "read_ilm",
    "read_pipeline",
    "read_slm",
    "transport_client",
];

const _: () = {
    let mut at = 0;
    while at < GIVES_NOTHING.len() {
        let mut row = 0;
        while row < INDEX.len() {
            assert!(
                !model::text::is_same(GIVES_NOTHING[at], INDEX[row].0),
                "an index privilege that gives rights is not said to give nothing"
            );
            row += 1;
        }
        row = 0;
        while row < CLUSTER.len() {
            assert!(
                !model::text::is_same(GIVES_NOTHING[at], CLUSTER[row].0),
                "a cluster privilege that gives rights is not said to give nothing"
            );
            row += 1;
        }
        at += 1;
    }
};

/// The rights of these cluster privileges.
///
/// # Errors
/// A name that is none, with the nearest right one.
pub fn cluster(names: &[String]) -> Result<ClusterRights> {
    of(CLUSTER, names, "cluster")?
        .into_iter()
        .try_fold(ClusterRights::NONE, |sum, one| Ok(sum | one))
}

/// The rights of these index privileges.
///
/// # Errors
/// A name that is none, with the nearest right one.
pub fn index(names: &[String]) -> Result<IndexRights> {
    of(INDEX, names, "index")?
        .into_iter()
        .try_fold(IndexRights::NONE, |sum, one| Ok(sum | one))
}

fn of<S: Copy>(table: &[Privilege<S>], names: &[String], kind: &str) -> Result<Vec<S>> {
    let mut out = Vec::with_capacity(names.len());
    for name in names {
        let wanted = name.to_lowercase();
        match table.iter().find(|(known, _)| *known == wanted) {
            Some((_, rights)) => out.push(*rights),
            None if GIVES_NOTHING.contains(&wanted.as_str()) => {}
            None => {
                let hint = model::nearest::question(&wanted, table.iter().map(|(known, _)| *known));
                return Err(Error::illegal(format!(
                    "unknown {kind} privilege [{name}]{hint}; a privilege must be one of [{}]",
                    table.iter().map(|(known, _)| *known).collect::<Vec<_>>().join(", ")
                )));
            }
        }
    }
    Ok(out)
}

/// The privileges that grant one of these rights, from the narrowest.
pub fn granting(any_of: IndexRights) -> Vec<&'static str> {
    let grants = INDEX.iter().rev().filter(|(_, rights)| rights.shares(any_of));
    let names: Vec<&str> = grants.map(|(name, _)| *name).collect();
    debug_assert!(
        any_of == IndexRights::NONE || names.last() == Some(&"all"),
        "[all] grants whatever index right there is"
    );
    names
}

/// The cluster privileges that grant one of these rights, from the narrowest.
pub fn granting_cluster(any_of: ClusterRights) -> Vec<&'static str> {
    let grants = CLUSTER.iter().rev().filter(|(_, rights)| rights.shares(any_of));
    let names: Vec<&str> = grants.map(|(name, _)| *name).collect();
    debug_assert!(
        any_of == ClusterRights::NONE || names.last() == Some(&"all"),
        "[all] grants whatever cluster right there is"
    );
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_for_rights() {
        let names = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(
            index(&names("read,create_doc")).expect("known"),
            IndexRights::READ | IndexRights::CREATE
        );
        assert!(index(&names("all")).expect("known").has(IndexRights::ALL));
        assert_eq!(index(&names("manage_ilm")).expect("known elsewhere"), IndexRights::NONE);
        let error = index(&names("raed")).expect_err("no privilege");
        assert!(error.reason().contains("did you mean [read]?"), "{}", error.reason());
        assert!(
            !cluster(&names("manage"))
                .expect("known")
                .shares(ClusterRights::MANAGE_SECURITY)
        );
    }

    #[test]
    fn each_right_is_granted_by_a_privilege_beside_all() {
        for right in IndexRights::EACH {
            let names = granting(*right);
            assert!(names.len() > 1 && names.last() == Some(&"all"), "{right:?}: {names:?}");
        }
        for right in ClusterRights::EACH {
            assert!(granting_cluster(*right).len() > 1, "{right:?}");
        }
    }
}
