//! The critical section and staged views of a guarded engine: what a plan writes is looked at before it is written.
//!
//! Plans read documents that their outcome rests on (conditions, locks, sources of copies): reading them is part of the write.

use super::engine::{GuardedEngine, by_id, merge_refusals};
use ::engine::{
    Alteration, AtomicWrites, Looker, Newest, Outcome, Plan, Read, Seen, Stage, Staged, Staging, TreeChange, TxnBody, TxnOptions,
    TxnResult, Unrefreshed, View, WriteOp,
};
use async_trait::async_trait;
use futures::StreamExt as _;
use model::system_index::CONTROL_INDEX;
use model::{CommitSeq, Error, IndexName, Result, Target};
use security::IndexRights;
use std::collections::HashSet;

/// A right that a plan needs on an index.
type Wanted = (String, IndexRights);

impl GuardedEngine {
    /// The first right that a plan needs and the principal lacks, beside those of `passed`.
    fn lacking(&self, plan: &Plan, passed: &HashSet<Wanted>) -> Option<Wanted> {
        let lacks = |name: &str, any_of: IndexRights| {
            let wanted = (name.to_owned(), any_of);
            let granted = self.scope.principal.rights.on(name).shares(any_of) || passed.contains(&wanted);
            (!granted).then_some(wanted)
        };
        // A copy that a policy fills in shows what its source says.
        let sources = self.copied_sources(plan);
        let writes = plan.writes.iter().filter(|write| write.at.index.as_str() != CONTROL_INDEX);
        let of_writes = writes.flat_map(|write| {
            let name = write.at.index.as_str();
            self.scope
                .rights_for_write(write)
                .into_iter()
                .map(move |any_of| (name, any_of))
        });
        let of_moves = plan.moves.iter().flat_map(|change: &TreeChange| {
            let deletes = change.removes().then_some((change.index.as_str(), IndexRights::DELETE));
            deletes.into_iter().chain([(change.index.as_str(), IndexRights::MOVE)])
        });
        let of_made = plan.alterations.iter().filter_map(|alteration| match alteration {
            Alteration::CreateIndex { name, .. } if name != CONTROL_INDEX => Some((name.as_str(), IndexRights::AUTO_CREATE)),
            _ => None,
        });
        let of_sources = sources.iter().map(|source| (source.as_str(), IndexRights::READ));
        let mut all = of_writes.chain(of_moves).chain(of_made).chain(of_sources);
        all.find_map(|(name, any_of)| lacks(name, any_of))
    }

    /// # Errors
    /// `security_exception`: an update of what is seen in part; a move of directories, which takes along what is withheld; a
    /// copy of a source of which something is withheld.
    fn check_seen(&self, plan: &Plan) -> Result<()> {
        if self.scope.visibility().is_none() {
            return Ok(());
        }
        let updates = plan.writes.iter().filter(|write| matches!(write.op, WriteOp::Update(_)));
        let updates = updates.map(|write| ("an update", write.at.index.as_str().to_owned()));
        let moves = plan
            .moves
            .iter()
            .map(|one| ("a move of directories", one.index.as_str().to_owned()));
        let sources = self.copied_sources(plan).into_iter();
        let sources = sources.map(|source| ("a write that is given a copy", source));
        let mut all = updates.chain(moves).chain(sources);
        match all.find(|(_, index)| !self.scope.sees_all(&[index.as_str()])) {
            Some((what, index)) => Err(self.scope.withheld(what, &index)),
            None => Ok(()),
        }
    }

    /// The indices that policies fill copies in from.
    fn copied_sources(&self, plan: &Plan) -> Vec<String> {
        let puts = plan
            .writes
            .iter()
            .filter(|write| matches!(write.op, WriteOp::Put(_) | WriteOp::Update(_)));
        puts.flat_map(|write| self.scope.own_relations().link_sources(write.at.index.as_str()))
            .collect()
    }
}

#[async_trait]
impl AtomicWrites for GuardedEngine {
    async fn decide(&self, plan: &mut TxnBody<'_>, how: TxnOptions) -> Result<TxnResult> {
        let atomic = Self::part(self.scope.own_engine().atomic())?;
        if self.scope.is_unbounded() {
            return atomic.decide(plan, how).await;
        }
        let mut passed: HashSet<Wanted> = HashSet::new();
        loop {
            let mut lacks: Option<Wanted> = None;
            let mut guarded = |newest: &mut dyn Newest| {
                let made = plan(newest)?;
                self.check_seen(&made)?;
                lacks = self.lacking(&made, &passed);
                match &lacks {
                    None => Ok(made),
                    Some((name, any_of)) => Err(self.scope.refusal(*any_of, &[name])),
                }
            };
            let done = atomic.decide(&mut guarded, how.clone()).await;
            match lacks {
                // Its index was named by an alias: the plan has the index's own name.
                Some((name, any_of)) if self.scope.may_by_alias(&name, any_of).await => {
                    let is_new = passed.insert((name, any_of));
                    assert!(
                        is_new,
                        "security.md S5: a right that was granted is not found to be lacking again"
                    );
                }
                _ => return done,
            }
        }
    }

    async fn wait_exclusive_durable(&self) -> Result<()> {
        Self::part(self.scope.own_engine().atomic())?.wait_exclusive_durable().await
    }

    async fn unrefreshed_documents(
        &self,
        index: &IndexName,
        position: CommitSeq,
        most: usize,
    ) -> Result<Option<Vec<Unrefreshed>>> {
        // Of who does not see everything, the caller's search withholds what this would show.
        match self.scope.is_unbounded() {
            true => {
                Self::part(self.scope.own_engine().atomic())?
                    .unrefreshed_documents(index, position, most)
                    .await
            }
            false => Ok(None),
        }
    }

    async fn look(&self, look: &mut Looker<'_>) {
        if let Some(atomic) = self.scope.own_engine().atomic() {
            atomic.look(look).await;
        }
    }
}

impl GuardedEngine {
    /// A document of a view as the principal sees it: what is withheld is told by queries, in the same view.
    async fn restrict_in_view(&self, view: &str, read: &Read, found: Seen) -> Result<Seen> {
        if found.document.is_none() || self.scope.sees_all(&[read.at.index.as_str()]) {
            return Ok(found);
        }
        let target = Target {
            visibility: self.scope.visibility(),
            ..Target::index(read.at.index.as_str())
        };
        let mut shown = self.inner().scan_view(&target, by_id(&read.at.id), view).await?;
        let document = shown.next().await.transpose()?;
        Ok(Seen {
            withheld: document.is_none(),
            document,
            ..found
        })
    }
}

#[async_trait]
impl Staging for GuardedEngine {
    async fn begin(&self) -> Result<View> {
        Self::part(self.scope.own_engine().staging())?.begin().await
    }

    async fn read(&self, view: &str, reads: Vec<Read>) -> Result<Vec<Result<Seen>>> {
        let mut refusals: Vec<Option<Error>> = Vec::with_capacity(reads.len());
        for read in &reads {
            let name = read.at.index.as_str();
            let refusal = self.check_by_id(name).await.err();
            refusals.push(refusal);
        }
        let allowed = std::iter::zip(reads, &refusals).filter(|(_, refusal)| refusal.is_none());
        let allowed: Vec<Read> = allowed.map(|(read, _)| read).collect();
        let seen = Self::part(self.scope.own_engine().staging())?
            .read(view, allowed.clone())
            .await?;
        let mut seen = std::iter::zip(allowed, seen);
        let mut out = Vec::with_capacity(refusals.len());
        for refusal in refusals {
            match refusal {
                Some(refusal) => out.push(Err(refusal)),
                None => {
                    let Some((read, found)) = seen.next() else { break };
                    out.push(match found {
                        Ok(found) => self.restrict_in_view(view, &read, found).await,
                        refused => refused,
                    });
                }
            }
        }
        debug_assert!(
            seen.next().is_none(),
            "security.md S6: no document is left that stands in no place"
        );
        Ok(out)
    }

    async fn stage(&self, view: &str, writes: Vec<Stage>) -> Result<Vec<Outcome>> {
        let (allowed, refusals) = self.allowed_writes(writes, |stage: &Stage| &stage.write).await;
        let done = match allowed.is_empty() {
            true => Vec::new(),
            false => Self::part(self.scope.own_engine().staging())?.stage(view, allowed).await?,
        };
        Ok(merge_refusals(refusals, done))
    }

    async fn staged_documents(&self, view: &str) -> Result<Vec<Staged>> {
        Self::part(self.scope.own_engine().staging())?.staged_documents(view).await
    }

    async fn staged_bytes(&self, view: &str) -> Result<u64> {
        Self::part(self.scope.own_engine().staging())?.staged_bytes(view).await
    }
}
