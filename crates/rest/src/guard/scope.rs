//! Who asks, by which endpoint, and the decisions about single names.

use crate::Rest;
use crate::right::{Right, action_of};
use ::engine::{Basis, Engine, EngineExt as _, Expect, Write, WriteOp};
use model::system_index::is_system;
use model::visibility::is_open_alias;
use model::{Error, Result, Target, Visibility};
use relations::Relations;
use security::{IndexRights, Principal};
use std::sync::Arc;

/// One request of one principal.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    /// The server itself: its engine, and the policies by which writes copy what the principal may have to read.
    own: Arc<Rest>,
    pub(crate) principal: Arc<Principal>,
    pub(crate) api: &'static str,
    pub(crate) right: Right,
}

/// Endpoints that keep to the documents and fields of a principal. All others refuse who has restricted ones.
const HONOURS: &[&str] = &[
    // Searches.
    "search",
    "count",
    "msearch",
    "search_template",
    "msearch_template",
    "render_search_template",
    "search_exists",
    "suggest_2015",
    "rank_eval",
    "field_stats",
    "scroll",
    "clear_scroll",
    "open_point_in_time",
    "close_point_in_time",
    "explain",
    "indices.validate_query",
    // Documents by id.
    "get",
    "get_source",
    "mget",
    "termvectors",
    "mtermvectors",
    "tree.list",
    "cat.tree",
    // Writes of whole documents.
    "index",
    "create",
    "delete",
    "bulk",
    // Transactions of whole documents.
    "transaction",
    "transaction.begin",
    "transaction.commit",
    "transaction.abort",
    "transaction.get",
    // Jobs: `jobs` says what they may not.
    "delete_by_query",
    "delete_by_query_2015",
    "update_by_query",
    "reindex",
    // Fields of indices.
    "indices.exists",
    "indices.exists_type",
    "indices.get",
    "indices.get_mapping",
    "indices.get_field_mapping",
    "indices.get_settings",
    "indices.get_alias",
    "indices.exists_alias",
    "indices.resolve_index",
    "indices.analyze",
    "field_caps",
    "search_shards",
    "cluster.state",
    "cat.aliases",
    // Figures of indices.
    "indices.stats",
    "cat.indices",
    "cat.count",
    "changes",
    // They show nothing of documents.
    "indices.refresh",
    "indices.flush",
];

/// Rights by which documents or fields are shown, or taken from.
const SHOWS: IndexRights = IndexRights::READ
    .and(IndexRights::VIEW_METADATA)
    .and(IndexRights::MONITOR)
    .and(IndexRights::UPDATE)
    .and(IndexRights::TRANSACTION)
    .and(IndexRights::MOVE)
    .and(IndexRights::FOLLOW_CHANGES);

impl Scope {
    /// A request of this principal to this endpoint.
    pub(crate) fn new(own: Arc<Rest>, principal: Arc<Principal>, api: &'static str, right: Right) -> Scope {
        Scope {
            own,
            principal,
            api,
            right,
        }
    }

    /// The server's own engine.
    pub(crate) fn own_engine(&self) -> &Arc<dyn Engine> {
        &self.own.engine
    }

    /// The server's own relations.
    pub(super) fn own_relations(&self) -> &Relations {
        &self.own.relations
    }

    /// Is any right granted on a name? Of several names or a pattern: whatever becomes of it is looked at later.
    pub(crate) async fn knows_of(&self, name: &str) -> bool {
        name.contains(['*', ',', '<']) || name == "_all" || self.may(name, IndexRights::ALL).await
    }

    /// The refusal of this request on these names.
    pub(crate) fn refusal(&self, any_of: IndexRights, names: &[&str]) -> Error {
        let action = match self.right.on_indices() {
            Some(own) if own.shares(any_of) => action_of(self.api, self.right),
            _ => any_of.action().to_owned(),
        };
        self.principal.refusal(&action, any_of, names)
    }

    /// Everything is allowed and nothing is withheld: names need not be looked at.
    pub(super) fn is_unbounded(&self) -> bool {
        self.principal.rights.has_everywhere(IndexRights::ALL) && !self.principal.rights.withholds()
    }

    /// The rights that reading documents needs here: the feed has its own.
    pub(super) fn reading(&self) -> IndexRights {
        match self.right.on_indices() {
            Some(rights) if rights == IndexRights::FOLLOW_CHANGES => rights,
            _ => IndexRights::READ,
        }
    }

    /// The rights by which a document may be read by id: a write looks at what it writes over.
    pub(super) fn reading_by_id(&self) -> IndexRights {
        match self.right.on_indices() {
            Some(rights) if rights.shares(security::privileges::WRITES) => rights | IndexRights::READ,
            Some(rights) if rights == IndexRights::LOCK => rights | IndexRights::READ,
            _ => self.reading(),
        }
    }

    /// Is one of these rights granted on a name?
    pub(crate) async fn may(&self, name: &str, any_of: IndexRights) -> bool {
        self.principal.rights.on(name).shares(any_of) || self.may_by_alias(name, any_of).await
    }

    /// An index by its own name for who may use it by an alias that restricts nothing: the server goes on with that name.
    pub(super) async fn may_by_alias(&self, name: &str, any_of: IndexRights) -> bool {
        self.open_aliases(name)
            .await
            .iter()
            .any(|alias| self.principal.rights.on(alias).shares(any_of))
    }

    /// The aliases of an index that have neither a filter nor a routing.
    pub(super) async fn open_aliases(&self, name: &str) -> Vec<String> {
        if is_system(name) {
            return Vec::new();
        }
        let mut target = Target::index(name);
        (target.expand_closed, target.forbid_closed) = (true, false);
        let Ok(infos) = self.own_engine().indices(&target).await else {
            return Vec::new();
        };
        let own = infos.iter().filter(|info| info.name.as_str() == name);
        own.flat_map(|info| info.aliases.iter().filter(|(_, options)| is_open_alias(options)))
            .map(|(alias, _)| alias.clone())
            .collect()
    }

    /// # Errors
    /// `security_exception`: none of these rights is granted on the name.
    pub(crate) async fn check(&self, name: &str, any_of: IndexRights) -> Result<()> {
        if self.may(name, any_of).await {
            return Ok(());
        }
        Err(self.refusal(any_of, &[name]))
    }

    /// The rights that a write needs on its index: one of each set.
    pub(super) fn rights_for_write(&self, write: &Write) -> Vec<IndexRights> {
        let creates = matches!(write.expect, Expect::Absent | Expect::AbsentAt { .. }) || write.basis == Basis::Absent;
        let own = match &write.op {
            WriteOp::Put(_) if creates => IndexRights::CREATE,
            WriteOp::Put(_) => IndexRights::INDEX,
            WriteOp::Update(_) => IndexRights::UPDATE,
            WriteOp::Delete => IndexRights::DELETE,
        };
        let mut out = vec![own];
        if self.right.on_indices() == Some(IndexRights::TRANSACTION) {
            out.push(IndexRights::TRANSACTION);
        }
        out
    }

    /// # Errors
    /// `security_exception`: without the right; an update would show, or rest on, what is withheld. Elasticsearch refuses it, too.
    pub(crate) async fn check_update(&self, name: &str) -> Result<()> {
        self.check(name, IndexRights::UPDATE).await?;
        self.check_updated_whole(name)
    }

    /// As [`Scope::check_update`], of a write whose right was looked at.
    pub(super) fn check_updated_whole(&self, name: &str) -> Result<()> {
        match self.sees_all(&[name]) {
            true => Ok(()),
            false => Err(self.withheld("an update", name)),
        }
    }

    /// # Errors
    /// `security_exception`: the condition of a change tells whether a document or a directory is there to somebody who may not
    /// read the index, or from whom documents are withheld.
    pub(crate) async fn check_condition(&self, name: &str) -> Result<()> {
        self.check(name, IndexRights::READ).await?;
        let rights = &self.principal.rights;
        match !rights.withholds() || rights.documents(&[name]).queries.is_empty() {
            true => Ok(()),
            false => Err(self.withheld("a condition on a document or a directory", name)),
        }
    }

    /// Does the principal see all documents and fields of an index, by these names?
    pub(super) fn sees_all(&self, names: &[&str]) -> bool {
        !self.principal.rights.withholds() || self.principal.rights.documents(names).is_all()
    }

    /// Does this endpoint keep to restricted documents and fields, as far as these rights show any?
    pub(super) fn honours(&self, any_of: IndexRights) -> bool {
        !any_of.shares(SHOWS) || HONOURS.contains(&self.api)
    }

    /// The refusal of who has restricted documents or fields.
    pub(crate) fn withheld(&self, what: &str, index: &str) -> Error {
        self.principal.withheld(what, index)
    }

    /// What of each index is seen; `None`: everything.
    pub(super) fn visibility(&self) -> Option<Visibility> {
        if !self.principal.rights.withholds() {
            return None;
        }
        let principal = self.principal.clone();
        let follows = self.reading() == IndexRights::FOLLOW_CHANGES;
        Some(Visibility::new(move |names| match follows {
            // Who follows an index need not be granted its documents by another right.
            true => principal.rights.descriptions(names),
            false => principal.rights.documents(names),
        }))
    }

    /// The documents and fields that mappings and figures of each index may tell of; `None`: all of them, or nobody is shown
    /// mappings and figures. Writes look at an index as it is.
    pub(super) fn visibility_of_descriptions(&self) -> Option<Visibility> {
        let shows = IndexRights::READ | IndexRights::VIEW_METADATA | IndexRights::MONITOR;
        let is_shown = self.right.on_indices().is_some_and(|rights| rights.shares(shows));
        if !self.principal.rights.withholds() || !is_shown {
            return None;
        }
        let principal = self.principal.clone();
        Some(Visibility::new(move |names| principal.rights.descriptions(names)))
    }
}
