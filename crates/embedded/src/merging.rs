//! Merges: which segments, and the flip that carries over what was deleted meanwhile.
//!
//! Published segments merge with published ones, unpublished with unpublished, so that a merge never shows
//! anything new. The merged segment has the documents alive at its beginning (L0), of published segments those that are
//! shown; those that died since, or whose deletion is built and not shown yet, are dead in the built set from the start.
//!
//! Not here: writing the merged bytes (`index::merge`).

use crate::catalog::IndexEntry;
use crate::index_state::IndexState;
use crate::lock_order::{LockRank, is_held};
use crate::publish::{alive_set, living};
use crate::store::Store;
use model::settings::{self, Setting};
use model::{Error, ErrorKind, Result};
use segment::directory;
use segment::directory::{SPILL_BYTES, SegmentData};
use segment::merge::merge;
use segment::scratch::Scratch;
use segment::searchable::IndexView;
use segment::segment_view;
use segment::segment_view::{SegmentCore, SegmentView};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;
use tantivy::BitSet;

/// An index that nothing was built for so long is merged further: its searches are worth more than the work.
const QUIET_MS: u64 = 1000;
/// Fewer documents are searched fast however they lie.
const IDLE_MIN_DOCS: u64 = 5_000;
/// Larger merged segments are left alone.
const MAX_DOCS: u32 = 2_000_000;
const MAX_BYTES: u64 = 256 << 20;

impl Store {
    /// Does one merge of an index if one is due; true if it did.
    pub(crate) fn merge_once(&self, state: &IndexState) -> Result<bool> {
        // Somebody merges already. Two at once would each take what the other replaces, and count its tokens by guess.
        let Some(_merging) = state.try_lock_merge() else {
            return Ok(false);
        };
        let settings = state.built_view().settings.clone();
        for group in self.groups(state) {
            let quiet = || state.built_ago(self.env.now_ms()) > QUIET_MS;
            let policy = Policy::of(&settings);
            if let Some(inputs) = due(&group, policy).or_else(|| if quiet() { idle(&group) } else { None }) {
                self.merge_these(state, inputs)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Merges until an index has no more than so many published segments (or no deleted documents).
    pub(crate) fn force_merge(&self, state: &IndexState, max_segments: usize, only_deletes: bool) -> Result<()> {
        let _merging = state.lock_merge();
        loop {
            let [group, _] = self.groups(state);
            let with_deletes: Vec<_> = group
                .iter()
                .filter(|s| s.reader.num_docs() < s.reader.max_doc())
                .cloned()
                .collect();
            let inputs = if only_deletes {
                with_deletes
            } else if group.len() > max_segments.max(1) || !with_deletes.is_empty() {
                group
            } else {
                Vec::new()
            };
            if inputs.is_empty() {
                return Ok(());
            }
            self.merge_these(state, inputs)?;
            if only_deletes || max_segments <= 1 {
                return Ok(());
            }
        }
    }

    /// The published segments of an index and the unpublished ones, each with the live documents that a merge takes. Those of a
    /// published segment are the published ones: the built set may lack documents whose deletion is not published yet, and a
    /// merge must not take them out of what searches see.
    fn groups(&self, state: &IndexState) -> [Vec<Arc<SegmentView>>; 2] {
        let built = state.built_view();
        let shown = self.publication.set_of(state.no());
        let shown = shown.iter().flat_map(|set| &set.segments);
        let shown: HashMap<u64, &Arc<SegmentView>> = shown.map(|segment| (segment.id, segment)).collect();
        let published = built.segments.iter().filter_map(|segment| shown.get(&segment.id));
        let unpublished = built.segments.iter().filter(|segment| !shown.contains_key(&segment.id));
        [
            published.map(|segment| (*segment).clone()).collect(),
            unpublished.cloned().collect(),
        ]
    }

    fn merge_these(&self, state: &IndexState, inputs: Vec<Arc<SegmentView>>) -> Result<()> {
        let Some(entry) = self.catalog.entry(state.no()) else {
            return Ok(());
        };
        debug_assert!(is_held(LockRank::Merge), "8: one merge of an index at a time");
        assert!(!inputs.is_empty(), "8: a merge has segments to take");
        let begun = Instant::now();
        let sources: Vec<_> = inputs
            .iter()
            .map(|input| (input.data.clone(), input.reader.alive_bitset().cloned()))
            .collect();
        let needed: u64 = inputs.iter().map(|input| input.data.bytes()).sum();
        self.check_room_for_merge(needed)?;
        let id = self.segments.fresh_number();
        let scratch = Scratch::new(self.env.disk(), self.env.segments_dir(), id, self.maintenance.stop_flag());
        let merged = merge(&entry.schema, &sources, (id, scratch))?;
        let merged = merged.map(|data| self.spill(data)).transpose()?;
        let core = match &merged {
            Some(data) => Some(self.prepare_merged(&entry, data, &inputs)?),
            None => None,
        };
        let alive: u64 = inputs.iter().map(|input| u64::from(input.reader.num_docs())).sum();
        assert_eq!(
            merged.as_ref().map_or(0, |data| u64::from(data.max_doc)),
            alive,
            "8: a merged segment has the documents that were live at its beginning"
        );
        let building = state.lock_build();
        state.check()?;
        let Some(entry) = self.catalog.entry(state.no()) else {
            return Ok(());
        };
        let built = state.built_view();
        let publishing = self.publication.lock();
        let published = self.publication.set_of(state.no());
        let merged = MergeResult {
            inputs: &inputs,
            data: merged.as_ref(),
            core,
        };
        let next = self.with_merged(&entry, &built, &merged)?;
        let shown = match &published {
            Some(published) if Arc::ptr_eq(published, &built) => next.clone(),
            Some(published) => self.with_merged(&entry, published, &merged)?,
            None => None,
        };
        if let Some(next) = next {
            state.set_built(&building, next);
        }
        if let Some(shown) = shown {
            self.publication.replace(&publishing, &shown);
        }
        state.counts().merge.fetch_add(1, Ordering::Relaxed);
        state.counts().merge_docs.fetch_add(alive, Ordering::Relaxed);
        state.counts().merge_bytes.fetch_add(needed, Ordering::Relaxed);
        state.counts().merge_time.add(begun.elapsed());
        Ok(())
    }

    /// A set with the merged segment in the place of its inputs; `None`: it has none of them.
    fn with_merged(
        &self,
        entry: &Arc<IndexEntry>,
        old: &Arc<IndexView>,
        merged: &MergeResult<'_>,
    ) -> Result<Option<Arc<IndexView>>> {
        let is_input = |segment: &SegmentView| merged.inputs.iter().any(|input| input.id == segment.id);
        if !old.segments.iter().any(|segment| is_input(segment)) {
            return Ok(None);
        }
        let mut segments: Vec<Arc<SegmentView>> = self
            .reopen(entry, old, |_| Ok(None))?
            .into_iter()
            .filter(|segment| !is_input(segment))
            .collect();
        if let Some(data) = merged.data {
            let (bits, living) = carry_over(merged.inputs, old, data.max_doc);
            if living > 0 {
                let (index, _) = directory::handle(&entry.schema, None, std::slice::from_ref(data))?;
                let alive = (living < data.max_doc).then(|| alive_set(&bits));
                let derived = &self.caches.of_index(entry.no).derived;
                let view = segment_view::open(&entry.schema, &index, data, alive, merged.core.clone(), derived)?;
                let before = old.segments.iter().take_while(|segment| !is_input(segment));
                segments.insert(before.count(), view);
            }
        }
        let next = Arc::new(IndexView {
            segments,
            ..self.blank_view(entry, old.position)
        });
        assert!(
            !next.segments.iter().any(|segment| is_input(segment)),
            "8: the merged segment takes the place of its inputs"
        );
        assert_eq!(living(&next), living(old), "8: a merge shows the documents that were there");
        Ok(Some(next))
    }
}

/// The result of a merge.
struct MergeResult<'a> {
    inputs: &'a [Arc<SegmentView>],
    /// `None`: no document of the inputs was alive.
    data: Option<&'a Arc<SegmentData>>,
    core: Option<Arc<SegmentCore>>,
}

impl Store {
    /// A merge needs 2.2 times its size on the disk, unless it stays in memory: its scratch files and the file that they become.
    fn check_room_for_merge(&self, needed: u64) -> Result<()> {
        let free = self.env.disk().free_bytes(self.env.segments_dir()).unwrap_or(u64::MAX);
        if needed >= SPILL_BYTES && free < 2 * needed + needed / 5 {
            let reason = format!("a merge needs room for twice [{needed}] bytes and a fifth, [{free}] are free");
            return Err(Error::new(ErrorKind::DiskFull, reason));
        }
        Ok(())
    }

    /// Makes the arrays that searches need of a merged segment, before anybody waits for a lock.
    fn prepare_merged(
        &self,
        entry: &IndexEntry,
        merged: &Arc<SegmentData>,
        inputs: &[Arc<SegmentView>],
    ) -> Result<Arc<SegmentCore>> {
        let (index, _) = directory::handle(&entry.schema, None, std::slice::from_ref(merged))?;
        let account = &self.caches.of_index(entry.no).derived;
        let opened = segment_view::open(&entry.schema, &index, merged, None, None, account)?;
        self.prepare_segment(entry, &opened, inputs)?;
        Ok(opened.core.clone())
    }
}

/// The merged segment's live documents in a set: those of L0, at base + rank, that are alive there now.
fn carry_over(inputs: &[Arc<SegmentView>], set: &IndexView, max_doc: u32) -> (BitSet, u32) {
    let mut bits = BitSet::with_max_value(max_doc);
    let (mut id, mut living) = (0, 0);
    for input in inputs {
        let now = set.segments.iter().find(|segment| segment.id == input.id);
        let start = input.alive_bits();
        for doc in (0..input.reader.max_doc()).filter(|doc| start.contains(*doc)) {
            if now.is_some_and(|now| now.is_alive(doc)) {
                bits.insert(id);
                living += 1;
            }
            id += 1;
        }
    }
    assert_eq!(
        id, max_doc,
        "8: the merged segment has exactly the documents that were live at its beginning"
    );
    assert!(living <= max_doc, "8: [{living}] of [{max_doc}] merged documents live");
    (bits, living)
}

/// The settings of an index that concern merging.
#[derive(Clone, Copy)]
struct Policy {
    /// Segments of one size class, at most.
    per_class: usize,
    /// Percents of a segment that may be deleted.
    deleted: u64,
}

impl Policy {
    fn of(index: &serde_json::Map<String, serde_json::Value>) -> Policy {
        // Either may have a fraction.
        let number = |setting: Setting, default: f64| settings::text(index, setting).parse().unwrap_or(default);
        Policy {
            per_class: number(settings::SEGMENTS_PER_TIER, 10.0).max(2.0) as usize,
            deleted: number(settings::DELETES_PCT_ALLOWED, 30.0) as u64,
        }
    }
}

fn due(group: &[Arc<SegmentView>], policy: Policy) -> Option<Vec<Arc<SegmentView>>> {
    let small = |segment: &&Arc<SegmentView>| segment.reader.max_doc() < MAX_DOCS && segment.data.bytes() < MAX_BYTES;
    for class in 0..7 {
        let same: Vec<_> = group
            .iter()
            .filter(small)
            .filter(|segment| segment.reader.max_doc().max(1).ilog10() == class)
            .cloned()
            .collect();
        if same.len() >= policy.per_class {
            return Some(same.into_iter().take(5 * policy.per_class).collect());
        }
    }
    let rotten = |segment: &&Arc<SegmentView>| {
        let (all, alive) = (segment.reader.max_doc(), segment.reader.num_docs());
        all >= 100 && u64::from(all - alive) * 100 > u64::from(all) * policy.deleted
    };
    group.iter().find(rotten).map(|segment| vec![segment.clone()])
}

/// Segments worth merging while nothing is written: all but those so much larger than all smaller ones
/// together that writing it again would not pay. Each document is written again only when its segment at least
/// grows by half.
fn idle(group: &[Arc<SegmentView>]) -> Option<Vec<Arc<SegmentView>>> {
    let mut sizes: Vec<(u64, u64)> = group
        .iter()
        .map(|segment| (u64::from(segment.reader.num_docs()), segment.id))
        .collect();
    sizes.sort_unstable();
    let mut rest: u64 = sizes.iter().map(|(docs, _)| docs).sum();
    while let Some((docs, _)) = sizes.last().copied() {
        rest -= docs;
        if docs <= 2 * rest && docs + rest <= u64::from(MAX_DOCS) {
            break;
        }
        sizes.pop();
    }
    // Neighbours only: documents keep their order, which is that of equal scores.
    let wanted = |segment: &Arc<SegmentView>| sizes.iter().any(|(_, id)| *id == segment.id);
    let run = group
        .chunk_by(|a, b| wanted(a) == wanted(b))
        .filter(|run| run.len() > 1 && wanted(&run[0]))
        .max_by_key(|run| run.len())?;
    let docs: u64 = run.iter().map(|segment| u64::from(segment.reader.num_docs())).sum();
    let bytes: u64 = run.iter().map(|segment| segment.data.bytes()).sum();
    (docs >= IDLE_MIN_DOCS && bytes < MAX_BYTES).then(|| run.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(settings: serde_json::Value, per_class: usize, deleted: u64) {
        let serde_json::Value::Object(settings) = settings else {
            unreachable!()
        };
        let policy = Policy::of(&settings);
        assert_eq!((policy.per_class, policy.deleted), (per_class, deleted), "{settings:?}");
    }

    #[test]
    fn policy_of_an_index() {
        check(serde_json::json!({}), 10, 30);
        check(serde_json::json!({ "index.merge.policy.deletes_pct_allowed": "50" }), 10, 50);
        check(
            serde_json::json!({ "index.merge.policy.segments_per_tier": "4.0", "index.merge.policy.deletes_pct_allowed": 7.5 }),
            4,
            7,
        );
    }
}
