//! The names of a change, resolved before it begins.

use crate::locks::LockTarget;
use crate::transactions::{Change, Key, Operation};
use crate::{Relations, schema};
use engine::{Alteration, EngineExt as _, IndexInfo, WriteIndex};
use model::{DocAddress, DocId, Error, ErrorKind, IndexName, Result, Target};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Names of a change, resolved before it begins.
#[derive(Default)]
pub(super) struct Names {
    /// A missing index is not in it.
    pub(super) known: HashMap<String, Result<WriteIndex>>,
}

impl Names {
    pub(super) fn at(&self, at: &DocAddress) -> Option<DocAddress> {
        let index = self.known.get(at.index.as_str())?.as_ref().ok()?;
        Some(DocAddress {
            index: index.name.clone(),
            id: identity(index, &at.id),
        })
    }
    /// There is no index of this name.
    pub(super) fn note_missing(&mut self, name: &str) {
        let known = self.known.entry(name.to_owned());
        known.or_insert_with(|| Err(engine::catalog::missing(name)));
    }
}

impl Relations {
    /// The indices that a change names; missing ones that it may make are made, and stay whatever becomes of it. What is
    /// answered from a kept outcome does not come here, and makes nothing again.
    pub(super) async fn names(&self, change: &Change) -> Result<Names> {
        let mut names = Names::default();
        let all = || change.operations.iter().chain(&change.otherwise);
        for operation in all() {
            let name = operation.write.at.index.as_str();
            self.learn(&mut names, name).await?;
            if let Some(typed) = makes(operation).filter(|_| !names.known.contains_key(name) && !schema::is_system(name)) {
                match self.engine.alter(Alteration::index_if_missing(name, typed)).await {
                    Ok(_) => self.learn(&mut names, name).await?,
                    Err(error) if error.is_transient() => return Err(error),
                    // The operation fails by it.
                    Err(error) => drop(names.known.insert(name.to_owned(), Err(error))),
                }
            }
        }
        for condition in &change.conditions {
            self.learn(&mut names, condition.at.index.as_str()).await?;
        }
        for wanted in &change.locks {
            match &wanted.target {
                LockTarget::All | LockTarget::Name(_) => {}
                LockTarget::Index(index) | LockTarget::Path { index, .. } => self.learn(&mut names, index.as_str()).await?,
                LockTarget::Document(at) => self.learn(&mut names, at.index.as_str()).await?,
            }
        }
        if change.key.is_some() {
            self.learn(&mut names, schema::CONTROL).await?;
        }
        // A plan speaks of indices by their own names too.
        let own: Vec<WriteIndex> = names
            .known
            .values()
            .filter_map(|known| known.as_ref().ok().cloned())
            .collect();
        for index in own {
            names.known.entry(index.name.to_string()).or_insert(Ok(index));
        }
        Ok(names)
    }

    pub(super) async fn learn(&self, names: &mut Names, name: &str) -> Result<()> {
        if names.known.contains_key(name) {
            return Ok(());
        }
        let target = Target {
            forbid_closed: false,
            ..Target::index(name)
        };
        match self.engine.indices(&target).await {
            Ok(found) => drop(names.known.insert(name.to_owned(), write_index(name, &found))),
            Err(error) if error.kind() == ErrorKind::IndexNotFound => {}
            Err(error) => drop(names.known.insert(name.to_owned(), Err(error))),
        }
        Ok(())
    }

    pub(super) fn touched_addresses(&self, change: &Change, names: &Names) -> BTreeSet<DocAddress> {
        let written = change
            .operations
            .iter()
            .chain(&change.otherwise)
            .map(|operation| &operation.write.at);
        let compared = change.conditions.iter().map(|condition| &condition.at);
        let locked = change.locks.iter().filter_map(|wanted| match &wanted.target {
            LockTarget::Document(at) => Some(at),
            _ => None,
        });
        let all = written.chain(compared).chain(locked).filter_map(|at| names.at(at));
        // Records, leases and the like are no documents of clients.
        all.filter(|at| !schema::is_system(at.index.as_str()))
            .chain(change.key.iter().map(Key::at))
            .collect()
    }
}

/// The id as its index has it, as far as that can be said without its types.
fn identity(index: &WriteIndex, id: &DocId) -> DocId {
    if index.typed {
        id.clone()
    } else {
        DocId::plain(id.id.clone())
    }
}

/// Would this operation make a missing index, and of which dialect?
fn makes(operation: &Operation) -> Option<bool> {
    operation
        .creates
        .filter(|_| operation.error.is_none() && !operation.write.require_alias)
}

/// The one index that a write to this name goes to.
fn write_index(name: &str, found: &[IndexInfo]) -> Result<WriteIndex> {
    let of = |info: &IndexInfo| {
        if !info.open {
            return Err(engine::catalog::index_closed(&info.name, &info.uuid));
        }
        Ok(WriteIndex {
            name: IndexName::new(info.name.as_str()),
            uuid: info.uuid.as_str().into(),
            typed: info.typed,
            settings: Arc::new(info.settings.clone()),
        })
    };
    if let Some(own) = found.iter().find(|info| info.name.as_str() == name) {
        return of(own);
    }
    let flag = |info: &IndexInfo| info.aliases.get(name).and_then(|alias| alias["is_write_index"].as_bool());
    let writers: Vec<&IndexInfo> = found.iter().filter(|info| flag(info) == Some(true)).collect();
    match (writers.as_slice(), found) {
        ([one], _) => of(one),
        ([], [one]) if flag(one) != Some(false) => of(one),
        _ => Err(Error::illegal(format!(
            "no write index is defined for alias [{name}]. The write index may be explicitly disabled using is_write_index=false \
             or the alias points to multiple indices without one being designated as a write index"
        ))),
    }
}
