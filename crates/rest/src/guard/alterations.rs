//! Alterations of the catalog that a principal may make.

use super::scope::Scope;
use ::engine::{AliasAction, Alteration, EngineExt as _};
use model::path::matches;
use model::{Error, ErrorKind, Result, Target, date_name};
use security::IndexRights;

/// A write makes the missing index.
const MAKES: IndexRights = IndexRights::AUTO_CREATE.and(IndexRights::CREATE_INDEX);

impl Scope {
    /// The alteration as the principal may make it.
    ///
    /// # Errors
    /// `security_exception`: a name without the right.
    pub(super) async fn restrict(&self, alteration: Alteration) -> Result<Alteration> {
        let own = self.right.on_indices();
        Ok(match alteration {
            Alteration::CreateIndex {
                ref name, ref aliases, ..
            } => {
                if alteration == ::engine::control_index() {
                    return Ok(alteration);
                }
                let wanted = if own == Some(IndexRights::CREATE_INDEX) {
                    IndexRights::CREATE_INDEX
                } else {
                    MAKES
                };
                let now_ms = super::targets::now_ms();
                self.check(&date_name::resolve(name, now_ms)?, wanted).await?;
                for alias in aliases.keys() {
                    self.check(alias, IndexRights::MANAGE).await?;
                }
                alteration
            }
            Alteration::DeleteIndices(target) => {
                Alteration::DeleteIndices(self.narrow_owned(&target, IndexRights::DELETE_INDEX).await?)
            }
            Alteration::OpenIndices(target) => Alteration::OpenIndices(self.narrow_owned(&target, IndexRights::MANAGE).await?),
            Alteration::CloseIndices(target) => Alteration::CloseIndices(self.narrow_owned(&target, IndexRights::MANAGE).await?),
            Alteration::PutMapping { target, doc_type, body } => {
                // A write with a type gives an index without documents its type.
                let writes = own.filter(|own| own.shares(security::privileges::WRITES));
                Alteration::PutMapping {
                    target: self.narrow_owned(&target, writes.unwrap_or(IndexRights::MANAGE)).await?,
                    doc_type,
                    body,
                }
            }
            Alteration::PutSettings {
                target,
                settings,
                preserve_existing,
            } => Alteration::PutSettings {
                target: self.narrow_owned(&target, IndexRights::MANAGE).await?,
                settings,
                preserve_existing,
            },
            Alteration::UpdateAliases(actions) => {
                let mut out = Vec::with_capacity(actions.len());
                for action in actions {
                    out.push(self.alias_action(action).await?);
                }
                Alteration::UpdateAliases(out)
            }
            Alteration::Flush(target) => Alteration::Flush(self.narrow_owned(&target, IndexRights::MAINTENANCE).await?),
            Alteration::ForceMerge {
                target,
                max_num_segments,
                only_expunge_deletes,
            } => Alteration::ForceMerge {
                target: self.narrow_owned(&target, IndexRights::MAINTENANCE).await?,
                max_num_segments,
                only_expunge_deletes,
            },
            // Their endpoints ask for a right on the cluster.
            of_cluster @ (Alteration::PutTemplate { .. }
            | Alteration::DeleteTemplate { .. }
            | Alteration::PutScript { .. }
            | Alteration::DeleteScript { .. }
            | Alteration::ClusterSettings { .. })
                if self.right.on_cluster().is_some() =>
            {
                of_cluster
            }
            _ => {
                return Err(Error::new(
                    ErrorKind::Security,
                    "an alteration of the cluster needs a right on it",
                ));
            }
        })
    }

    async fn narrow_owned(&self, target: &Target, any_of: IndexRights) -> Result<Target> {
        self.narrow(target, any_of).await.map(std::borrow::Cow::into_owned)
    }

    /// An alias is managed with its index: a role on a pattern of aliases must not be widened by who manages indices alone.
    async fn alias_action(&self, action: AliasAction) -> Result<AliasAction> {
        Ok(match action {
            AliasAction::Add { target, alias, body } => {
                self.check_alias(&alias).await?;
                AliasAction::Add {
                    target: self.narrow_owned(&target, IndexRights::MANAGE).await?,
                    alias,
                    body,
                }
            }
            AliasAction::Remove {
                target,
                alias,
                must_exist,
            } => {
                let target = self.narrow_owned(&target, IndexRights::MANAGE).await?;
                if alias == "_all" || alias.contains('*') {
                    self.check_aliases_like(&target, &alias).await?;
                } else {
                    self.check_alias(&alias).await?;
                }
                AliasAction::Remove {
                    target,
                    alias,
                    must_exist,
                }
            }
            AliasAction::RemoveIndex { target } => AliasAction::RemoveIndex {
                target: self.narrow_owned(&target, IndexRights::DELETE_INDEX).await?,
            },
        })
    }

    async fn check_alias(&self, alias: &str) -> Result<()> {
        match self.principal.rights.on(alias).shares(IndexRights::MANAGE) {
            true => Ok(()),
            false => Err(self.refusal(IndexRights::MANAGE, &[alias])),
        }
    }

    async fn check_aliases_like(&self, target: &Target, pattern: &str) -> Result<()> {
        let like = if pattern == "_all" { "*" } else { pattern };
        for info in self.own_engine().indices(target).await? {
            let of_others = info
                .aliases
                .keys()
                .find(|alias| matches(like, alias) && !self.principal.rights.on(alias).shares(IndexRights::MANAGE));
            if of_others.is_some() {
                return Err(self.refusal(IndexRights::MANAGE, &[pattern]));
            }
        }
        Ok(())
    }
}
