//! Views in which writes are staged: one moment of every index, and over it what a transaction has written.
//!
//! Each index that was written to has an overlay: the segments of the moment without the documents that were
//! written, and small segments in memory of what they are now. It is a set as any other, so searches, aggregations and
//! joins need not know of it. Overlays are made when something reads them, a layer for what has been staged since the
//! last; after a few layers they are made anew.
//!
//! Nothing here is durable, and nothing is seen by others. Not here: when a view ends, what is written in the end
//! (`relations`), how a set is made (`publish`).

use crate::accepted::Growth;
use crate::catalog::alter::{Moment, alter};
use crate::catalog::{Catalog, IndexEntry};
use crate::current_document::{CurrentDocument, CurrentDocuments, NoDocuments};
use crate::document_key::Key;
use crate::evaluate::{Evaluated, evaluate, visible};
use crate::lock_order::{LockRank, Mutex};
use crate::open_views::missing_view;
use crate::pending::{Kind, PendingOp, Put};
use crate::prepared_write::PreparedWrite;
use crate::publish::{PartBytes, newest_of};
use crate::resolved_write::ResolvedWrite;
use crate::staged_view::{StagedDocument, StagedWrites, StagingView};
use crate::store::Store;
use crate::trees::Trees;
use crate::versions::Newest;
use engine::{
    Alteration, Document, Expect, Found, Hidden, Outcome, Read, STAGING, Seen, Source, Stage, Staged, StagedIndex, StagedPut,
    View, ViewPromise, Write, Written,
};
use model::{DocAddress, Error, ErrorKind, Result, Stamp, Target, settings};
use search::Searched;
use segment::searchable::{IndexView, Searchable};
use segment::stored_document::{load_document, locate};
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Layers of an overlay before it is made anew.
const LAYERS_MAX: usize = 8;

/// A document of the view.
struct StagedRead {
    /// The view began with it.
    before: Option<Document>,
    now: Option<Document>,
    own: bool,
}

impl StagedRead {
    /// The stamp of the document that the view began with, if plain readers see it.
    fn seen_before(&self) -> Option<Stamp> {
        let before = self.before.as_ref().filter(|document| visible(document, engine::See::Plain));
        before.map(|document| document.stamp)
    }
}

/// The documents of a view, with what is staged in it.
struct StagedDocuments<'a> {
    store: &'a Store,
    staging: &'a StagingView,
    inner: &'a StagedWrites,
    /// The stamp with which the view began, of the document that is written.
    before: Cell<Option<Stamp>>,
}

impl CurrentDocuments for StagedDocuments<'_> {
    fn current(&self, entry: &IndexEntry, at: &DocAddress, _: &str, _: Key) -> Result<CurrentDocument> {
        let read = self.store.staged_read(self.staging, self.inner, entry, at)?;
        let before = read.seen_before();
        self.before.set(before);
        Ok(CurrentDocument {
            found: match (&read.now, before) {
                (Some(document), _) => Found::Here(document.stamp),
                (None, Some(stamp)) => Found::Deleted(stamp),
                (None, None) => Found::Nothing,
            },
            document: read.now,
            position: 0,
            tree: Some(self.inner.tree_beyond(self.staging.tree_of(entry.no), entry.no)),
            began: Some(before.map_or(Found::Nothing, Found::Here)),
        })
    }
    fn parent(&self, entry: &IndexEntry, at: &DocAddress) -> Result<Option<Document>> {
        Ok(self.store.staged_read(self.staging, self.inner, entry, at)?.now)
    }
}

/// A view's catalog with an index that its transaction makes, and whether that has types.
type MadeIndex = (Catalog, bool);

/// The index with the fields that a staged document brings; the document is read under them.
fn grow_staged(entry: &IndexEntry, put: Option<&mut Put>, (doc_type, growth): &Growth) -> Result<IndexEntry> {
    let grown = entry.grown(doc_type.as_deref(), growth)?;
    assert!(
        grown.no == entry.no && grown.revision > entry.revision,
        "3: a mapping that grows is a later revision of the same index"
    );
    if let Some(put) = put {
        put.mapping = grown.mapping_for(doc_type.as_deref())?;
    }
    Ok(grown)
}

/// # Errors
/// An external version; a system index.
fn check_stageable(write: &Write) -> Result<()> {
    if matches!(
        write.expect,
        Expect::NewerThan { .. } | Expect::AbsentAt { .. } | Expect::Forced(_)
    ) {
        let reason = "external versions are not supported inside a transaction: use [if_seq_no] and [if_primary_term]";
        return Err(Error::illegal(reason));
    }
    let name = write.at.index.as_str();
    match model::system_index::is_system(name) {
        true => Err(model::system_index::forbidden(name)),
        false => Ok(()),
    }
}

impl Store {
    /// Begins a view of everything that is durable.
    pub(crate) fn begin_staging(&self) -> Result<View> {
        let max = self.catalog.now().cluster_number(settings::TRANSACTIONS_MAX_OPEN);
        let too_many = |open: usize| {
            (open as u64 >= max).then(|| {
                let name = settings::TRANSACTIONS_MAX_OPEN.name;
                let reason = format!("[{open}] transactions are open; the limit of [{max}] is the setting [{name}]");
                Error::new(ErrorKind::RejectedExecution, reason).with("setting", name)
            })
        };
        if let Some(refused) = too_many(self.stagings.len()) {
            return Err(refused);
        }
        let base = Arc::new(self.all_at_once()?);
        // After the sets: what it says of an index is not older than they are. What was made since is left out.
        let mut catalog = (*self.catalog.now()).clone();
        let later: Vec<u32> = catalog.indices.values().map(|entry| entry.no).collect();
        for no in later.into_iter().filter(|no| !base.indices.contains_key(no)) {
            let stopped = self.indices.get(no).is_some_and(|state| state.is_stopped());
            if !stopped {
                catalog.remove(no);
            }
        }
        let view = View {
            id: format!(
                "{STAGING}{}{}",
                engine::clock::uuid(self.env.clock()),
                engine::clock::uuid(self.env.clock())
            ),
            as_of: Some(base.position),
            indices: catalog.indices.values().map(|entry| entry.name.clone()).collect(),
            promise: ViewPromise::OneMoment,
            created_ms: self.env.wall_ms(),
            keep_alive: Duration::MAX,
        };
        let bytes: Arc<AtomicU64> = Arc::default();
        let staging = Arc::new(StagingView {
            view: view.clone(),
            base,
            bytes: bytes.clone(),
            inner: Mutex::new(
                LockRank::Staging,
                StagedWrites {
                    catalog: Arc::new(catalog),
                    made: BTreeMap::new(),
                    documents: Vec::new(),
                    places: HashMap::new(),
                    overlays: HashMap::new(),
                    trees: Trees::default(),
                    operations: 0,
                    bytes,
                },
            ),
        });
        self.stagings.insert(view.id.clone(), staging, too_many)?;
        Ok(view)
    }

    /// Gives a view back; false if there was none.
    pub(crate) fn end_staging(&self, id: &str) -> bool {
        let Some(staging) = self.stagings.remove(id) else {
            return false;
        };
        let inner = staging.inner.lock();
        self.stagings.subtract_bytes(inner.bytes.swap(0, Ordering::Relaxed));
        // Who still has it stages nothing any more that anybody counts.
        true
    }

    /// The sets that searches over a target see in a view.
    pub(crate) fn staged_views_of(&self, target: &Target, id: &str) -> Result<Vec<Searched>> {
        let staging = self.stagings.get(id)?;
        let mut inner = staging.inner.lock();
        let found = inner.catalog.resolve(target, self.env.wall_ms())?;
        let mut indices = HashMap::new();
        for r in &self.with_others(&found)? {
            let no = r.entry.no;
            let set = match self.overlay_of(&staging, &mut inner, no)? {
                Some(set) => set,
                // Damaged: who names it hears of it.
                None => {
                    self.state(&r.entry)?;
                    continue;
                }
            };
            indices.insert(no, set);
        }
        let seen = Searchable {
            indices,
            position: staging.base.position,
        };
        self.search_views(&seen, &found)
    }

    /// The set of one index with what is staged; `None`: there is none.
    fn overlay_of(&self, staging: &StagingView, inner: &mut StagedWrites, no: u32) -> Result<Option<Arc<IndexView>>> {
        let Some(overlay) = inner.overlays.get_mut(&no) else {
            return Ok(staging.base_of(no).cloned());
        };
        if let (Some(set), true) = (&overlay.set, overlay.waiting.is_empty()) {
            return Ok(Some(set.clone()));
        }
        let Some(entry) = inner.catalog.by_no(no) else {
            return Err(Error::new(ErrorKind::Internal, "a staged index has no entry"));
        };
        let begun = || match staging.base_of(no) {
            Some(set) => set.clone(),
            None => Arc::new(self.blank_view(entry, staging.base.position)),
        };
        let anew = overlay.set.is_none() || overlay.layers >= LAYERS_MAX;
        let (below, ops) = match overlay.set.clone().filter(|_| !anew) {
            Some(set) => (set, overlay.waiting.clone()),
            None => {
                let own = inner.documents.iter().filter(|doc| doc.no == no);
                (begun(), own.map(|doc| doc.op.clone()).collect())
            }
        };
        // The overlay is held: the other parts are taken one by one.
        let tree = inner.trees.newest(no).0.unwrap_or_else(|| staging.tree_of(no));
        let segments = self.on_top(entry, (&below, &tree), &ops, &newest_of(&ops), PartBytes::Waited, Ok)?;
        let set = Arc::new(IndexView {
            segments,
            tree,
            ..self.blank_view(entry, staging.base.position)
        });
        overlay.layers = if anew { 1 } else { overlay.layers + 1 };
        debug_assert!(overlay.layers <= LAYERS_MAX, "an overlay has few layers");
        overlay.waiting.clear();
        overlay.set = Some(set.clone());
        Ok(Some(set))
    }

    /// Documents as they are in the view.
    pub(crate) fn read_staged(&self, id: &str, reads: &[Read]) -> Result<Vec<Result<Seen>>> {
        let staging = self.stagings.get(id)?;
        let inner = staging.inner.lock();
        let read = |read: &Read| {
            let entry = inner.catalog.read_index(read.at.index.as_str(), self.env.wall_ms())?;
            if !entry.open {
                return Err(engine::catalog::index_closed(&entry.name, &entry.uuid));
            }
            entry.check_routing(&read.at.id, read.routing.as_deref())?;
            let at = DocAddress {
                index: entry.name.clone(),
                id: entry.identity(&read.at.id)?,
            };
            let there = self.staged_read(&staging, &inner, &entry, &at)?;
            Ok(Seen {
                index_uuid: (!inner.made.contains_key(&entry.no)).then(|| entry.uuid.clone()),
                document: there.now.filter(|document| visible(document, read.see)),
                own: there.own,
                withheld: false,
                at,
            })
        };
        let settled = |one: &Read| read(one).map_err(|e| self.settle(e));
        Ok(reads.iter().map(settled).collect())
    }

    /// A document as the view began with it, and as it shows it.
    fn staged_read(
        &self,
        staging: &StagingView,
        inner: &StagedWrites,
        entry: &IndexEntry,
        at: &DocAddress,
    ) -> Result<StagedRead> {
        let uid = at.id.uid();
        let before = match staging.base_of(entry.no) {
            Some(set) => {
                let found = locate(set, &uid)?
                    .map(|location| load_document(set, &location, at))
                    .transpose()?;
                // Whether somebody's mark is in the way is found when it is decided.
                found.map(|document| Document {
                    hidden: document.hidden.map(|mark| Hidden { held: false, ..mark }),
                    ..document
                })
            }
            None if inner.made.contains_key(&entry.no) => None,
            // Damaged.
            None => {
                return self.state(entry).and(Ok(None)).map(|before| StagedRead {
                    before,
                    now: None,
                    own: false,
                });
            }
        };
        let own = inner
            .places
            .get(&(entry.no, uid.clone().into()))
            .map(|place| &inner.documents[*place]);
        debug_assert!(
            own.is_none_or(|doc| doc.no == entry.no && *doc.op.uid == *uid),
            "transactions.md T24: a staged document lies in its own place"
        );
        let tree = inner.tree_beyond(staging.tree_of(entry.no), entry.no);
        let now = match own {
            None => before.clone(),
            Some(doc) => match &doc.op.kind {
                Kind::Delete => None,
                Kind::Put(put) => Some(Document {
                    at: at.clone(),
                    stamp: doc.op.stamp,
                    source: put.source_as_of(Some(&tree)),
                    stored_fields: None,
                    routing: put.routing.as_deref().map(str::to_owned),
                    parent: put.parent.as_deref().map(str::to_owned),
                    times: put.times,
                    tree: Some(tree.clone()),
                    hidden: None,
                }),
            },
        };
        Ok(StagedRead {
            before,
            now,
            own: own.is_some(),
        })
    }

    /// Stages writes, each on its own.
    pub(crate) fn stage(&self, id: &str, writes: Vec<Stage>) -> Result<Vec<Outcome>> {
        let staging = self.stagings.get(id)?;
        let mut inner = staging.inner.lock();
        let mut one = |stage| {
            // The view may have ended while this waited.
            if !self.stagings.contains(id) {
                return Outcome::Refused(missing_view(id));
            }
            let done = self.stage_one(&staging, &mut inner, stage);
            done.unwrap_or_else(|e| Outcome::Refused(self.settle(e)))
        };
        Ok(writes.into_iter().map(&mut one).collect())
    }

    /// The version of a staged write over a document; `is_made`: its index is made by the transaction.
    fn staged_version(&self, key: Key, before: Option<Stamp>, is_made: bool) -> u64 {
        match (before, self.versions.get(key)) {
            (Some(stamp), _) => stamp.version + 1,
            // The version of a document that was deleted a little ago goes on.
            (None, Some(Newest::Deleted { stamp, .. })) if !is_made => stamp.version + 1,
            _ => 1,
        }
    }

    fn stage_one(&self, staging: &StagingView, inner: &mut StagedWrites, stage: Stage) -> Result<Outcome> {
        let Stage { write, creates } = stage;
        check_stageable(&write)?;
        // Kept only if the write is: one that is refused leaves nothing behind.
        let (entry, made) = self.staged_index(&inner.catalog, &write, creates)?;
        let resolved = ResolvedWrite::within(entry, write)?;
        let key = self.versions.key(resolved.entry.no, &resolved.uid);
        let documents = StagedDocuments {
            store: self,
            staging,
            inner,
            before: Cell::new(None),
        };
        let no = resolved.entry.no;
        let trees = inner.trees_beyond(&staging.tree_of(no), no);
        let evaluated = match &made {
            Some(_) => evaluate(resolved, key, &NoDocuments, (&self.env, trees))?,
            None => evaluate(resolved, key, &documents, (&self.env, trees))?,
        };
        let before = documents.before.get();
        let PreparedWrite {
            entry,
            at,
            uid,
            effect,
            mut put,
            show,
            growth,
            ..
        } = match evaluated {
            Evaluated::Done(outcome) => return Ok(outcome),
            Evaluated::Write(write) => *write,
        };
        let grown = growth.map(|growth| grow_staged(&entry, put.as_mut(), &growth)).transpose()?;
        let version = self.staged_version(key, before, made.is_some());
        let op = Arc::new(PendingOp {
            uid: uid.clone(),
            key,
            fresh: false,
            stamp: Stamp::provisional(version),
            position: 0,
            kind: put.map_or(Kind::Delete, Kind::Put),
        });
        let place = inner.places.get(&(entry.no, uid.clone())).copied();
        let replaced = place.map_or(0, |place| inner.documents[place].op.text_bytes());
        self.admit_staged(inner, op.text_bytes(), replaced)?;
        let next = made.map(|(next, typed)| {
            inner.made.insert(entry.no, typed);
            next
        });
        inner.keep_catalog(next, grown);
        let document = StagedDocument {
            no: entry.no,
            at: at.clone(),
            before,
            op: op.clone(),
        };
        inner.keep(uid, document);
        Ok(Outcome::Written(Written {
            effect,
            at,
            stamp: op.stamp,
            source: show,
            forced_refresh: false,
        }))
    }

    /// The index of a staged write. Where there is none and the transaction may make it (`creates`: with types or without),
    /// also the catalog with it.
    fn staged_index(
        &self,
        catalog: &Catalog,
        write: &Write,
        creates: Option<bool>,
    ) -> Result<(Arc<IndexEntry>, Option<MadeIndex>)> {
        let (name, now_ms) = (write.at.index.as_str(), self.env.wall_ms());
        match (catalog.write_index(name, write.require_alias, now_ms), creates) {
            (Err(e), Some(typed)) if e.kind() == ErrorKind::IndexNotFound && !write.require_alias => {
                let next = self.with_made(catalog, name, typed)?;
                Ok((next.write_index(name, false, now_ms)?, Some((next, typed))))
            }
            (found, _) => Ok((found?, None)),
        }
    }

    /// The catalog of a view with one more index.
    fn with_made(&self, catalog: &Catalog, name: &str, typed: bool) -> Result<Catalog> {
        let wish = Alteration::index_if_missing(name, typed);
        let moment = Moment {
            now_ms: self.env.wall_ms(),
            uuid: engine::clock::uuid(self.env.clock()),
            unclean: self.unclean,
        };
        Ok(alter(catalog, &wish, &moment)?.catalog)
    }

    /// Counts an operation and its bytes in.
    ///
    /// # Errors
    /// One of the bounds, by its setting; then nothing is counted.
    fn admit_staged(&self, inner: &mut StagedWrites, bytes: u64, replaced: u64) -> Result<()> {
        let catalog = self.catalog.now();
        let most = catalog.cluster_number(settings::CHANGES_MAX_OPERATIONS);
        if inner.operations >= most {
            let name = settings::CHANGES_MAX_OPERATIONS.name;
            let reason = format!("a transaction has [{most}] operations already; the limit is the setting [{name}]");
            return Err(Error::illegal(reason).with("setting", name));
        }
        let staged = inner.bytes.load(Ordering::Relaxed);
        assert!(
            replaced <= staged,
            "a write of [{replaced}] staged bytes is replaced among [{staged}]"
        );
        let after = staged - replaced + bytes;
        let most = catalog.cluster_bytes(settings::CHANGES_MAX_BYTES);
        if after > most {
            let name = settings::CHANGES_MAX_BYTES.name;
            let reason =
                format!("a transaction of [{after}] staged bytes is too long; the limit of [{most}] is the setting [{name}]");
            return Err(Error::new(ErrorKind::ContentTooLong, reason).with("setting", name));
        }
        let most = catalog.cluster_bytes(settings::TRANSACTIONS_MAX_BYTES);
        let all = self.stagings.add_bytes(bytes);
        if all > most {
            self.stagings.subtract_bytes(bytes);
            let name = settings::TRANSACTIONS_MAX_BYTES.name;
            let reason = format!("[{all}] bytes are staged in open transactions; the limit of [{most}] is the setting [{name}]");
            return Err(Error::new(ErrorKind::RejectedExecution, reason).with("setting", name));
        }
        self.stagings.subtract_bytes(replaced);
        inner.operations += 1;
        inner.bytes.store(after, Ordering::Relaxed);
        debug_assert!(
            self.stagings.bytes() >= after,
            "the [{after}] bytes that are staged in a view are among those of all views"
        );
        debug_assert!(
            inner.operations > inner.documents.len() as u64,
            "transactions.md T2: no more documents are staged than writes were counted"
        );
        Ok(())
    }

    /// The documents that were written, each as its last write left it.
    pub(crate) fn staged_documents(&self, id: &str) -> Result<Vec<Staged>> {
        let staging = self.stagings.get(id)?;
        let inner = staging.inner.lock();
        let one = |doc: &StagedDocument| Staged {
            at: doc.at.clone(),
            index: match (inner.made.get(&doc.no), inner.catalog.by_no(doc.no)) {
                (None, Some(entry)) => StagedIndex::Known {
                    uuid: entry.uuid.clone(),
                },
                (typed, _) => StagedIndex::Made {
                    name: doc.at.index.clone(),
                    typed: typed.copied().unwrap_or(false),
                },
            },
            before: doc.before,
            put: match &doc.op.kind {
                Kind::Delete => None,
                Kind::Put(put) => Some(StagedPut {
                    source: Source(put.source.clone()),
                    routing: put.routing.as_deref().map(str::to_owned),
                    parent: put.parent.as_deref().map(str::to_owned),
                    times: put.times,
                    tree: Some(staging.tree_of(doc.no)),
                }),
            },
        };
        Ok(inner.documents.iter().map(one).collect())
    }

    /// Bytes that are staged in a view.
    pub(crate) fn bytes_of_staging(&self, id: &str) -> Result<u64> {
        Ok(self.stagings.get(id)?.bytes.load(Ordering::Relaxed))
    }
}
