//! From pending operations to what searches see: building an index up to a position, and publishing.
//!
//! A build takes a prefix of the log, so that a set is always an exact prefix of its index's operations; only
//! durable records enter it. Publishing is one flip for all indices that share unpublished records.
//!
//! Not here: when (`scheduler`), merges.

use crate::catalog::IndexEntry;
use crate::counts::share;
use crate::index_state::{BuildGuard, IndexState};
use crate::pending::{Kind, PendingOp, Put};
use crate::publication::PublishGuard;
use crate::removed_documents;
use crate::store::Store;
use crate::tree_record::removed_between;
use mapping::ReadOptions;
use mapping::tree::Tree;
use model::{ErrorKind, Result};
use rustc_hash::{FxHashMap, FxHashSet};
use search::scorers::parent_child::Family;
use segment::absent_ids;
use segment::build::{Blocks, Built, build};
use segment::directory::SPILL_BYTES;
use segment::directory::{self, DataFile, Place, SegmentData};
use segment::document::{DocumentBlock, Envelope, block};
use segment::error::broken;
use segment::key_columns;
use segment::searchable::{IndexView, Searchable};
use segment::segment_view;
use segment::segment_view::SegmentView;
use segment::tokens::tokenizers;
use std::borrow::Cow;
use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock};
use std::time::Instant;
use tantivy::BitSet;
use tantivy::directory::OwnedBytes;
use tantivy::fastfield::{AliveBitSet, write_alive_bitset};
use tantivy::schema::IndexRecordOption;
use tantivy::{DocSet, TERMINATED, Term};

/// A build of at least twice as much, by the sources, is done by several threads, each with a part of its own: a small
/// one where somebody waits, else a large one, since each part becomes a segment, and segments are to be merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartBytes {
    /// Somebody waits for the build.
    Waited = 512 << 10,
    /// Nobody does.
    Unhurried = 4 << 20,
}
/// Parts of a build: each becomes a segment.
const PARTS_MAX: usize = 4;
/// New segments of no more documents have the terms of their first fields opened: it takes a microsecond a field.
const OPENED_MAX_DOCS: u32 = 1024;
const OPENED_FIELDS: usize = 32;

/// A set of an index at a moment, and the sequence number of the next operation behind it.
pub(crate) struct FrozenSet {
    pub(crate) set: Arc<IndexView>,
    pub(crate) next_seq_no: u64,
}

/// Live documents as tantivy wants them.
pub(crate) fn alive_set(bits: &BitSet) -> AliveBitSet {
    let mut bytes = Vec::new();
    // Writing into memory does not fail.
    drop(write_alive_bitset(bits, &mut bytes));
    let alive = AliveBitSet::open(OwnedBytes::new(bytes));
    debug_assert_eq!(
        alive.num_alive_docs(),
        bits.len(),
        "5: live documents are read as they were written"
    );
    alive
}

impl Store {
    /// Builds an index so that its set has every operation below `limit` (which is durable).
    pub(crate) fn build_to(&self, state: &IndexState, limit: u64, part: PartBytes) -> Result<()> {
        let building = state.lock_build();
        state.check()?;
        let Some(entry) = self.catalog.entry(state.no()) else {
            return Ok(());
        };
        let durable = self.log.durable_position();
        assert!(
            limit <= durable,
            "1.4: a build up to {limit} takes records that are durable up to {durable} only"
        );
        let ops = state.pending().up_to(limit);
        let old = state.built_view();
        if old.position >= limit && ops.is_empty() {
            return Ok(());
        }
        let newest = newest_of(&ops);
        let blank = self.blank_view(&entry, limit.max(old.position));
        let segments = self.on_top(&entry, (&old, &blank.tree), &ops, &newest, part, |data| self.spill(data))?;
        let next = Arc::new(IndexView { segments, ..blank });
        // Before the entries leave the map (write-path.md 1.5).
        state.set_built(&building, next);
        let now = self.env.now_ms();
        for n in newest.values() {
            let op = &ops[*n];
            self.versions.mark_built(op.key, op.stamp.seq_no, now);
        }
        state.note_build(now);
        let mut pending = state.pending();
        let freed = pending.take_built(limit, ops.len());
        self.write_path.subtract_pending(freed);
        self.maintenance.announce_room();
        Ok(())
    }

    /// Makes what joins and lookups of ids need of a new segment before anybody searches it, and opens the terms of a small one: its first search
    /// is to take as long as the next.
    pub(crate) fn prepare_segment(&self, entry: &IndexEntry, segment: &SegmentView, beside: &[Arc<SegmentView>]) -> Result<()> {
        if let Some(family) = Family::of(&self.blank_view(entry, 0)) {
            family.prepare(segment)?;
        }
        key_columns::prepare(segment, beside)?;
        absent_ids::prepare(segment, entry.schema.id, beside)?;
        if segment.reader.max_doc() <= OPENED_MAX_DOCS {
            let fields = segment.reader.schema().fields().filter(|(_, options)| options.is_indexed());
            for (field, _) in fields.take(OPENED_FIELDS) {
                segment.reader.inverted_index(field).map_err(broken)?;
            }
        }
        Ok(())
    }

    /// Builds segments of these documents, in parts where they are many; `keep` says what becomes of each segment.
    fn build_segments(
        &self,
        entry: &IndexEntry,
        puts: &[(&PendingOp, &Put)],
        part: PartBytes,
        keep: impl Fn(Arc<SegmentData>) -> Result<Arc<SegmentData>> + Sync,
    ) -> Result<Vec<Arc<SegmentData>>> {
        let managers = tokenizers(&entry.schema, &entry.mapping);
        let sources = puts.iter().map(|(_, put)| &*put.source);
        let _building = crate::reading_memory::book_build(self.env.breakers(), sources);
        in_parts(puts, part as usize, |part, bytes| {
            let blocks = Blocks {
                count: part.len(),
                bytes,
                make: &|n| self.block_of(entry, part[n].0, part[n].1),
            };
            let Built { segments, poisoned } = build(&entry.schema, &managers, blocks, &|| self.segments.fresh_number())?;
            for (n, why) in &poisoned {
                crate::background_failures::tell(&format!(
                    "a document of [{}] could not be indexed and is found by its id only: {why} (block {n} of its build)",
                    entry.name
                ));
            }
            segments.into_iter().map(&keep).collect()
        })
    }

    /// The segments of a set with the newest of these operations on top, without documents of directories that `tree` removed;
    /// `keep` says what becomes of new segments.
    pub(crate) fn on_top(
        &self,
        entry: &IndexEntry,
        (old, tree): (&IndexView, &Tree),
        ops: &[Arc<PendingOp>],
        newest: &FxHashMap<&str, usize>,
        part: PartBytes,
        keep: impl Fn(Arc<SegmentData>) -> Result<Arc<SegmentData>> + Sync,
    ) -> Result<Vec<Arc<SegmentView>>> {
        let mut kept: Vec<usize> = newest.values().copied().collect();
        kept.sort_unstable();
        // New segments first: nothing has changed if that fails.
        let puts: Vec<(&PendingOp, &Put)> = kept
            .iter()
            .filter_map(|n| match &ops[*n].kind {
                Kind::Put(put) if !ops[*n].is_removed(Some(tree)) => Some((&*ops[*n], put)),
                Kind::Put(_) | Kind::Delete => None,
            })
            .collect();
        let new = self.build_segments(entry, &puts, part, keep)?;
        assert!(
            new.iter().map(|data| data.max_doc as usize).sum::<usize>() >= puts.len(),
            "3: the newest operation of each document is in a new segment, {} in all",
            puts.len()
        );
        // A document that is new to the index has nothing to replace.
        let replacing: Vec<&str> = newest.iter().filter(|(_, n)| !ops[**n].fresh).map(|(uid, _)| *uid).collect();
        let removed = removed_between(&old.tree, tree);
        let clear = |segment: &SegmentView| {
            let replaced = clear_blocks(segment, old, replacing.iter().copied())?;
            removed_documents::clear(segment, old, &removed, replaced)
        };
        let mut segments = self.reopen(entry, old, clear)?;
        if !new.is_empty() {
            let (index, _) = directory::handle(&entry.schema, None, &new)?;
            for data in new {
                let opened = segment_view::open(
                    &entry.schema,
                    &index,
                    &data,
                    None,
                    None,
                    &self.caches.of_index(entry.no).derived,
                )?;
                self.prepare_segment(entry, &opened, &old.segments)?;
                segments.push(opened);
            }
        }
        segments.retain(|segment| segment.reader.num_docs() > 0);
        debug_assert!(
            newest
                .iter()
                .take(CHECKED_UIDS)
                .all(|(uid, n)| holders(&segments, entry, uid).is_none_or(
                    |count| count == usize::from(matches!(ops[*n].kind, Kind::Put(_)) && !ops[*n].is_removed(Some(tree)))
                )),
            "1.6: a document that was written has one live block, one that was deleted has none"
        );
        Ok(segments)
    }

    /// One moment of every index, published or not: all that is durable now, up to one position. Nothing is published.
    ///
    /// # Errors
    /// A log that failed, segments that cannot be built.
    pub(crate) fn all_at_once(&self) -> Result<Searchable> {
        // A damaged index is left out; reading it says why.
        let all = || self.indices.all().into_iter().filter(|state| !state.is_stopped()).collect();
        let (frozen, position) = self.sets_at_once(all)?;
        let sets = frozen.into_iter().map(|one| one.set);
        Ok(Searchable {
            indices: sets.map(|set| (set.no, self.with_shown_tree(set))).collect(),
            position,
        })
    }

    /// The sets of some indices with all that is durable now, up to one position. Nothing is published.
    ///
    /// # Errors
    /// As [`Store::all_at_once`].
    pub(crate) fn sets_at_once(&self, wanted: impl Fn() -> Vec<Arc<IndexState>>) -> Result<(Vec<FrozenSet>, u64)> {
        let mut target = self.durable_now();
        loop {
            let states = wanted();
            for state in &states {
                let has_pending = state.pending().first_position().is_some_and(|first| first <= target);
                if has_pending || self.trees.removes_beyond(&state.load_built(), target) {
                    self.build_to(state, target, PartBytes::Waited)?;
                }
            }
            let sets: Vec<Arc<IndexView>> = states.iter().map(|state| state.built_view()).collect();
            // Someone may have built further meanwhile: then that is the moment.
            target = sets.iter().map(|set| set.position).fold(target, u64::max);
            // An index that was made just now reaches the end of a record that may not be durable yet.
            self.log.wait_durable(target)?;
            let frozen: Vec<FrozenSet> = states
                .iter()
                .zip(sets)
                .map_while(|(state, set)| self.freeze(state, set, target))
                .collect();
            if frozen.len() == states.len() {
                return Ok((frozen, target));
            }
        }
    }

    /// A set that has every operation up to `target`; `None`: it is another one by now.
    fn freeze(&self, state: &IndexState, set: Arc<IndexView>, target: u64) -> Option<FrozenSet> {
        if self.trees.removes_beyond(&set, target) {
            return None;
        }
        let pending = state.pending();
        // Built but not yet drained, or drained since: in both cases the set is another by now.
        let reaches = Arc::ptr_eq(&state.built_view(), &set) && pending.first_position().is_none_or(|first| first > target);
        let next_seq_no = pending.next_seq_no_behind(set.position.max(target));
        assert!(
            !reaches || set.last_seq_no().is_none_or(|last| last < next_seq_no),
            "snapshots.md M3: operation {:?} is in the set of index {}, and the next number behind it is {next_seq_no}",
            set.last_seq_no(),
            set.no
        );
        reaches.then_some(FrozenSet { next_seq_no, set })
    }

    /// The old segments under the entry's schema; `clear` says which documents of a segment are dead now.
    pub(crate) fn reopen(
        &self,
        entry: &IndexEntry,
        old: &IndexView,
        clear: impl Fn(&SegmentView) -> Result<Option<BitSet>>,
    ) -> Result<Vec<Arc<SegmentView>>> {
        let same = Arc::ptr_eq(&old.schema, &entry.schema);
        let mut handle = None;
        let mut out = Vec::with_capacity(old.segments.len() + 1);
        for segment in &old.segments {
            let bits = clear(segment)?;
            assert!(
                bits.as_ref().is_none_or(
                    |bits| bits.max_value() == segment.reader.max_doc() && bits.len() <= segment.reader.num_docs() as usize
                ),
                "5: a build takes documents of segment {} out and makes none alive again",
                segment.id
            );
            if same && bits.is_none() {
                out.push(segment.clone());
                continue;
            }
            if handle.is_none() {
                let all: Vec<_> = old.segments.iter().map(|segment| segment.data.clone()).collect();
                handle = Some(directory::handle(&entry.schema, None, &all)?.0);
            }
            let alive = bits
                .as_ref()
                .map(alive_set)
                .or_else(|| segment.reader.alive_bitset().cloned());
            if let Some(index) = &handle {
                out.push(segment_view::open(
                    &entry.schema,
                    index,
                    &segment.data,
                    alive,
                    Some(segment.core.clone()),
                    &self.caches.of_index(entry.no).derived,
                )?);
            }
        }
        assert!(
            out.len() == old.segments.len() && out.iter().zip(&old.segments).all(|(new, old)| new.id == old.id),
            "1.8: a set is opened again with all its segments, in their order"
        );
        Ok(out)
    }

    /// A segment that is big enough goes to a file of its own, and so does every one while those in memory have
    /// their fill. On a full disk it stays in memory: the log, which is full too, bounds how often.
    pub(crate) fn spill(&self, data: Arc<SegmentData>) -> Result<Arc<SegmentData>> {
        let bytes = data.bytes();
        let in_memory = self.segments.ram_bytes();
        if bytes < SPILL_BYTES && in_memory + bytes <= self.env.limits().ram_segment_bytes {
            return Ok(self.segments.hold(data));
        }
        match self.to_file(&data) {
            Err(e) if e.kind() == ErrorKind::DiskFull => Ok(self.segments.hold(data)),
            done => done,
        }
    }

    fn to_file(&self, data: &Arc<SegmentData>) -> Result<Arc<SegmentData>> {
        let Some(parts) = data.memory() else {
            return Ok(data.clone());
        };
        let name = format!("{:012}.seg", data.id);
        let prefix: Arc<str> = data.id.to_string().into();
        let components: Vec<(String, &[u8])> = parts
            .iter()
            .map(|(ext, bytes)| (format!("{prefix}/{ext}"), bytes.as_slice()))
            .collect();
        disk::blockfile::write_segment(self.env.disk().as_ref(), &self.env.segments_dir().join(&name), &components)?;
        let file = DataFile::open(self.env.disk(), self.env.segments_dir(), &name, false)?;
        Ok(Arc::new(SegmentData {
            place: Place::File(file, prefix),
            held: None,
            ..(**data).clone()
        }))
    }

    fn block_of(&self, entry: &IndexEntry, op: &PendingOp, put: &Put) -> DocumentBlock {
        let id = model::DocId::from_uid(&op.uid, entry.has_types());
        let hidden = put.hidden.as_ref().map(|(hidden, bytes)| (hidden, bytes.as_slice()));
        let kept = segment::stored_source::stored_part(&put.mapping, &put.source);
        let source = match kept.source {
            Cow::Borrowed(part) if part.len() == put.source.len() => put.source.clone(),
            part => part.into_owned().into(),
        };
        let envelope = Envelope {
            id: &id,
            uid: &Arc::from(&*op.uid),
            stamp: op.stamp,
            source: &source,
            fields: &kept.fields,
            routing: put.routing.as_deref(),
            parent: put.parent.as_deref(),
            placed: &put.placed,
            hidden,
        };
        let options = ReadOptions {
            id: &id.id,
            type_name: id.doc_type.as_deref().unwrap_or(""),
            routing: put.routing.as_deref(),
            times: put.times,
            lenient: true,
        };
        // It was read under this mapping before it was stamped; after a crash the newest stands in.
        let parsed = put.take_parsed().or_else(|| {
            let source = serde_json::from_slice(&put.source).ok()?;
            put.mapping.read(&source, &options).ok()
        });
        block(&entry.schema, parsed, envelope)
    }

    /// Publishes these indices with everything durable now, and what their records share with others.
    ///
    /// # Errors
    /// A log that failed, segments that cannot be built.
    pub(crate) fn publish(&self, wanted: &[u32], at_least: u64) -> Result<()> {
        self.publish_as(wanted, at_least).map(drop)
    }

    /// As [`Store::publish`]; what is given back has the indices at one position, whatever is published after it.
    pub(crate) fn publish_as(&self, wanted: &[u32], at_least: u64) -> Result<Arc<Searchable>> {
        self.log.wait_durable(at_least)?;
        let begun = Instant::now();
        let mut target = self.durable_now().max(at_least);
        let mut all: FxHashSet<u32> = wanted.iter().copied().collect();
        loop {
            self.publication.close_over(&mut all, target);
            let mut numbers: Vec<_> = all.iter().copied().collect();
            numbers.sort_unstable();
            let mut states = self.indices.each_of(numbers);
            // A damaged index stays as it is; the others of its records go on.
            states.retain(|state| !state.is_stopped());
            for state in &states {
                self.build_to(state, target, PartBytes::Waited)?;
            }
            let publishing = self.publication.lock();
            // The set of an index that was deleted meanwhile would stay for ever: nothing takes it out again.
            states.retain(|state| self.catalog.entry(state.no()).is_some());
            let sets: Vec<Arc<IndexView>> = states.iter().map(|state| state.built_view()).collect();
            let highest = sets.iter().map(|set| set.position).max().unwrap_or(target);
            let before = all.len();
            self.publication.close_over(&mut all, highest);
            if highest > target || all.len() > before {
                // Someone built further meanwhile, perhaps half a shared record.
                target = highest.max(target);
                if all.len() > before || sets.iter().any(|set| set.position < target) {
                    drop(publishing);
                    // The set of an index that was made just now reaches the end of a record that may not be durable yet.
                    self.log.wait_durable(target)?;
                    continue;
                }
            }
            let flipped = self.flip(&publishing, &states, sets, target);
            let took = share(begun.elapsed(), states.len());
            states.iter().for_each(|state| state.counts().refresh_time.add(took));
            return Ok(flipped);
        }
    }

    /// Shows these sets of these indices.
    fn flip(
        &self,
        publishing: &PublishGuard<'_>,
        states: &[Arc<IndexState>],
        sets: Vec<Arc<IndexView>>,
        target: u64,
    ) -> Arc<Searchable> {
        assert_eq!(states.len(), sets.len(), "1.7: each index that is published has its set");
        for (state, set) in states.iter().zip(&sets) {
            assert_eq!(state.no(), set.no, "1.8: a set belongs to its index");
            state.counts().refresh.fetch_add(1, Ordering::Relaxed);
            let mut pending = state.pending();
            if pending.publish_to(set.position, self.env.monotonic()) {
                self.maintenance.mark_clean(state.no());
            }
        }
        let with_trees = |set: Arc<IndexView>| {
            self.trees.show_to(set.no, set.position);
            self.with_shown_tree(set)
        };
        let sets = sets.into_iter().map(with_trees).collect();
        self.publication.flip(publishing, sets, target)
    }

    /// Puts `next`, which is `built` opened again, in its place, and what is published opened again in that of the published
    /// one.
    pub(crate) fn replace(
        &self,
        building: &BuildGuard<'_>,
        publishing: &PublishGuard<'_>,
        state: &IndexState,
        built: &Arc<IndexView>,
        next: &Arc<IndexView>,
        again: impl Fn(&Arc<IndexView>) -> Result<Arc<IndexView>>,
    ) -> Result<()> {
        let published = self.publication.set_of(state.no());
        let shown = match &published {
            Some(published) if !Arc::ptr_eq(published, built) => Some(again(published)?),
            Some(_) => Some(next.clone()),
            None => None,
        };
        assert_eq!(
            (next.position, living(next)),
            (built.position, living(built)),
            "1.7: a set that is opened again shows the same documents"
        );
        state.set_built(building, next.clone());
        if let Some(shown) = shown {
            self.publication.replace(publishing, &self.with_shown_tree(shown));
        }
        Ok(())
    }
}

/// Documents of a build that a debug build looks up again.
const CHECKED_UIDS: usize = 16;

/// How many segments have a live document of a uid. `None`: one cannot be read.
fn holders(segments: &[Arc<SegmentView>], entry: &IndexEntry, uid: &str) -> Option<usize> {
    let term = Term::from_field_text(entry.schema.id, uid);
    let mut count = 0;
    for segment in segments {
        let mut postings = segment_view::postings(segment, &term, IndexRecordOption::Basic).ok()?;
        let mut live = false;
        while let Some(postings) = postings.as_mut().filter(|postings| !live && postings.doc() != TERMINATED) {
            live = segment.is_alive(postings.doc());
            postings.advance();
        }
        count += usize::from(live);
    }
    Some(count)
}

/// Live documents of a set, nested ones too.
pub(crate) fn living(set: &IndexView) -> u64 {
    set.segments.iter().map(|segment| u64::from(segment.reader.num_docs())).sum()
}

/// Builds in parts of about the same size, each on a thread of its own; gives segments in the order of what they hold.
fn in_parts<'a>(
    puts: &[(&'a PendingOp, &'a Put)],
    part_bytes: usize,
    work: impl Fn(&[(&'a PendingOp, &'a Put)], usize) -> Result<Vec<Arc<SegmentData>>> + Sync,
) -> Result<Vec<Arc<SegmentData>>> {
    let bytes: usize = puts.iter().map(|(_, put)| put.source.len()).sum();
    // To ask the system takes a dozen calls, as long as a small build.
    static CORES: LazyLock<usize> = LazyLock::new(|| std::thread::available_parallelism().map_or(1, usize::from));
    let threads = CORES.min(PARTS_MAX);
    let count = (bytes / part_bytes).clamp(1, threads);
    let mut parts: Vec<(&[(&'a PendingOp, &'a Put)], usize)> = Vec::with_capacity(count);
    let (mut begin, mut within) = (0, 0);
    for (n, (_, put)) in puts.iter().enumerate() {
        within += put.source.len();
        if within * count >= bytes && parts.len() + 1 < count {
            parts.push((&puts[begin..=n], within));
            (begin, within) = (n + 1, 0);
        }
    }
    parts.push((&puts[begin..], within));
    assert_eq!(
        parts.iter().map(|(part, _)| part.len()).sum::<usize>(),
        puts.len(),
        "3: the parts of a build have every operation once"
    );
    let work = &work;
    let [first, others @ ..] = &parts[..] else {
        return Ok(Vec::new());
    };
    let done: Vec<Result<Vec<Arc<SegmentData>>>> = std::thread::scope(|scope| {
        let spawned: Vec<_> = others
            .iter()
            .map(|(part, bytes)| {
                let thread = std::thread::Builder::new().name("pleach-build".to_owned());
                // Where there are no more threads, this one does it.
                thread.spawn_scoped(scope, move || work(part, *bytes)).ok()
            })
            .collect();
        let mut done = vec![work(first.0, first.1)];
        for (thread, (part, bytes)) in spawned.into_iter().zip(others) {
            done.push(match thread {
                Some(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                None => work(part, *bytes),
            });
        }
        done
    });
    let segments: Vec<Vec<_>> = done.into_iter().collect::<Result<_>>()?;
    Ok(segments.into_iter().flatten().collect())
}

/// The newest operation of each document. The operations are in the order of the log.
pub(crate) fn newest_of(ops: &[Arc<PendingOp>]) -> FxHashMap<&str, usize> {
    debug_assert!(
        ops.windows(2).all(|two| two[0].position <= two[1].position),
        "1.9: a build takes a prefix of the log, in its order"
    );
    ops.iter().enumerate().map(|(n, op)| (&*op.uid, n)).collect()
}

/// The live documents of a segment without the blocks of these uids; `None` if it has none of them.
fn clear_blocks<'a>(segment: &SegmentView, view: &IndexView, uids: impl Iterator<Item = &'a str>) -> Result<Option<BitSet>> {
    let index = segment
        .reader
        .inverted_index(view.schema.id)
        .map_err(segment::error::broken)?;
    let mut bits: Option<BitSet> = None;
    for uid in uids {
        let term = Term::from_field_text(view.schema.id, uid);
        let Some(mut postings) = index
            .read_postings(&term, IndexRecordOption::Basic)
            .map_err(segment::error::broken)?
        else {
            continue;
        };
        while postings.doc() != TERMINATED {
            if segment.is_alive(postings.doc()) {
                bits.get_or_insert_with(|| segment.alive_bits()).remove(postings.doc());
            }
            postings.advance();
        }
    }
    Ok(bits)
}
