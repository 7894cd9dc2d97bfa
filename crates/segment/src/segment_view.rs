//! One segment as searches read it: its reader under a schema, its live documents, and what is derived from it once.
//!
//! Not here: the bytes (`directory`), several segments as one index (`searchable`).

use crate::derived::{Account, Derived, Footprint};
use crate::directory::SegmentData;
use crate::error::broken;
use crate::id_filter::IdLookups;
use crate::schema::IndexSchema;
use model::Result;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};
use tantivy::Index;
use tantivy::columnar::Column;
use tantivy::directory::FileSlice;
use tantivy::fieldnorm::FieldNormReader;
use tantivy::postings::{Postings as _, SegmentPostings};
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::store::StoreReader;
use tantivy::{BitSet, DocId, DocSet, SegmentReader, TERMINATED, Term};

/// A segment with the live documents of one moment.
#[derive(Clone)]
pub struct SegmentView {
    /// Never used twice in a folder.
    pub id: u64,
    /// With its live documents.
    pub reader: SegmentReader,
    /// The part that does not depend on live documents.
    pub core: Arc<SegmentCore>,
    /// Its bytes.
    pub data: Arc<SegmentData>,
    /// For a reader from whom something is withheld: what is withheld beside documents that are dead in it.
    part: Option<WithheldPart>,
}

/// What a reader does not see of living documents.
#[derive(Clone)]
struct WithheldPart {
    /// Nested documents of fields that are withheld. They are alive with their block (search.md S7) and counted nowhere.
    nested: Option<Arc<BitSet>>,
}

impl fmt::Debug for SegmentView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "SegmentView({}, {} of {})",
            self.id,
            self.reader.num_docs(),
            self.reader.max_doc()
        )
    }
}

impl SegmentView {
    /// Is it a root document (not a nested one)?
    #[inline]
    pub fn is_root(&self, doc: DocId) -> bool {
        self.core.some_roots.as_ref().is_none_or(|roots| roots.contains(doc))
    }
    /// Do plain readers not see it?
    #[inline]
    pub fn is_hidden(&self, doc: DocId) -> bool {
        self.core.invisible.as_ref().is_some_and(|invisible| invisible.contains(doc))
    }
    /// Is it a live root document that plain readers see?
    #[inline]
    pub fn is_shown(&self, doc: DocId) -> bool {
        self.is_root(doc) && self.is_alive(doc) && !self.is_hidden(doc)
    }
    /// How many live documents plain readers do not see.
    pub fn hidden_docs(&self) -> u64 {
        let Some(invisible) = &self.core.invisible else { return 0 };
        let mut hidden = BitSet::clone(invisible);
        if let Some(alive) = self.reader.alive_bitset() {
            hidden.intersect_update(alive.bitset());
        }
        hidden.len() as u64
    }
    /// The same segment for a reader from whom something is withheld, these nested documents among it.
    pub fn with_part_withheld(&self, nested: Option<BitSet>) -> Arc<SegmentView> {
        Arc::new(SegmentView {
            part: Some(WithheldPart {
                nested: nested.map(Arc::new),
            }),
            ..self.clone()
        })
    }
    /// Is something withheld from its reader?
    pub fn is_part(&self) -> bool {
        self.part.is_some()
    }
    /// Does the document live, and is it no nested one of a field that is withheld from the reader?
    pub fn is_counted(&self, doc: DocId) -> bool {
        let nested = self.part.as_ref().and_then(|part| part.nested.as_ref());
        self.is_alive(doc) && nested.is_none_or(|nested| !nested.contains(doc))
    }
    /// The documents that [`SegmentView::is_counted`] counts.
    pub fn counted_docs(&self) -> u64 {
        match self.part.as_ref().and_then(|part| part.nested.as_ref()) {
            Some(_) => (0..self.reader.max_doc()).filter(|doc| self.is_counted(*doc)).count() as u64,
            None => u64::from(self.reader.num_docs()),
        }
    }
    /// The number of a document as its reader may know it: for who sees a part of the segment, among the documents that are
    /// counted, since another number tells how many lie before it.
    pub fn shown_number(&self, doc: DocId) -> u32 {
        match &self.part {
            None => doc,
            Some(_) => u32::try_from((0..doc).filter(|doc| self.is_counted(*doc)).count()).unwrap_or(doc),
        }
    }
    /// The live documents as a set that can be changed.
    pub fn alive_bits(&self) -> BitSet {
        let mut bits = BitSet::with_max_value_and_full(self.reader.max_doc());
        if let Some(alive) = self.reader.alive_bitset() {
            for doc in 0..self.reader.max_doc() {
                if alive.is_deleted(doc) {
                    bits.remove(doc);
                }
            }
        }
        bits
    }
    /// Alive?
    #[inline]
    pub fn is_alive(&self, doc: DocId) -> bool {
        self.reader.alive_bitset().is_none_or(|alive| alive.is_alive(doc))
    }
}

/// Values derived from one segment; deletes do not change them.
pub struct SegmentCore {
    stamps: Stamps,
    /// `None`: every document is a root.
    some_roots: Option<Arc<BitSet>>,
    /// `None`: plain readers see all.
    invisible: Option<Arc<BitSet>>,
    roots: OnceLock<Arc<BitSet>>,
    stored: OnceLock<StoreReader>,
    counts: Mutex<FxHashMap<Field, u64>>,
    /// Lengths that count each position once, for fields whose tokens share positions.
    lengths: Mutex<FxHashMap<Field, FieldNormReader>>,
    derived: Derived,
    id_lookups: IdLookups,
}

/// The columns of the stamps, kept open: opening one by name costs more than reading it.
pub struct Stamps {
    seq_no: Column<u64>,
    version: Column<u64>,
    term: Column<u64>,
}

impl SegmentCore {
    /// Opens the stamps' columns of a segment.
    ///
    /// # Errors
    /// Unreadable files.
    pub fn open(reader: &SegmentReader, schema: &IndexSchema, account: &Arc<Account>) -> Result<SegmentCore> {
        let roots = marked_docs(reader, schema.root)?.unwrap_or_else(|| BitSet::with_max_value(reader.max_doc()));
        let invisible = marked_docs(reader, schema.invisible)?.map(Arc::new);
        let column = |name| reader.fast_fields().u64(name).map_err(broken);
        let stamps = Stamps {
            seq_no: column("_seq_no")?,
            version: column("_version")?,
            term: column("_primary_term")?,
        };
        debug_assert!(
            [&stamps.seq_no, &stamps.version, &stamps.term]
                .iter()
                .all(|column| column.num_docs() == reader.max_doc()),
            "write-path.md 7: a segment has as many documents as the manifest says"
        );
        debug_assert!(
            reader.max_doc() == 0 || roots.len() == 0 || roots.contains(reader.max_doc() - 1),
            "search.md S6: the last document of a segment is a root"
        );
        Ok(SegmentCore {
            stamps,
            some_roots: (roots.len() < reader.max_doc() as usize).then(|| Arc::new(roots)),
            invisible,
            roots: OnceLock::new(),
            stored: OnceLock::new(),
            counts: Mutex::default(),
            lengths: Mutex::default(),
            derived: Derived::new(account),
            id_lookups: IdLookups::default(),
        })
    }

    /// Do its columns have stamps for so many documents?
    pub fn has_stamps_of(&self, max_doc: u32) -> bool {
        let columns = [&self.stamps.seq_no, &self.stamps.version, &self.stamps.term];
        columns.iter().all(|column| column.num_docs() == max_doc)
    }

    /// The stored documents, kept open. Blocks are small and none is kept: their number would have no bound.
    ///
    /// # Errors
    /// Unreadable files.
    pub fn store_reader(&self, reader: &SegmentReader) -> Result<&StoreReader> {
        if let Some(open) = self.stored.get() {
            return Ok(open);
        }
        let open = reader.get_store_reader(0).map_err(broken)?;
        Ok(self.stored.get_or_init(|| open))
    }

    /// The documents that plain readers do not see, if there are any.
    pub fn invisible(&self) -> Option<&Arc<BitSet>> {
        self.invisible.as_ref()
    }

    /// The stamp of a root document.
    pub fn stamp(&self, doc: DocId) -> model::Stamp {
        let value = |column: &Column<u64>| column.first(doc).unwrap_or(0);
        model::Stamp {
            seq_no: value(&self.stamps.seq_no),
            version: value(&self.stamps.version),
            primary_term: value(&self.stamps.term),
        }
    }

    /// The column of sequence numbers.
    pub fn seq_no(&self) -> &Column<u64> {
        &self.stamps.seq_no
    }

    /// The column of versions.
    pub fn version(&self) -> &Column<u64> {
        &self.stamps.version
    }

    /// The column of primary terms.
    pub fn term(&self) -> &Column<u64> {
        &self.stamps.term
    }

    /// The root documents, deleted ones too: blocks are positional.
    ///
    /// # Errors
    /// None now; the signature leaves room for reading later.
    pub fn roots(&self, reader: &SegmentReader, _schema: &IndexSchema) -> Result<&Arc<BitSet>> {
        Ok(self.roots.get_or_init(|| match &self.some_roots {
            Some(roots) => roots.clone(),
            None => Arc::new(BitSet::with_max_value_and_full(reader.max_doc())),
        }))
    }

    /// How many documents, deleted ones too, have a value of a text field: Lucene's docCount. Needs norms;
    /// without them every document that any term names is counted once.
    ///
    /// # Errors
    /// Unreadable files.
    pub fn doc_count(&self, reader: &SegmentReader, field: Field) -> Result<u64> {
        if let Some(count) = self.counts.lock().get(&field) {
            return Ok(*count);
        }
        let count = match reader.fieldnorms_readers().get_field(field).map_err(broken)? {
            Some(norms) => (0..reader.max_doc()).filter(|doc| norms.fieldnorm_id(*doc) > 0).count() as u64,
            None => count_by_terms(reader, field)?,
        };
        self.counts.lock().insert(field, count);
        Ok(count)
    }

    /// Lengths that count positions, where [`SegmentCore::count_places`] made them.
    pub fn lengths(&self, field: Field) -> Option<FieldNormReader> {
        self.lengths.lock().get(&field).cloned()
    }

    /// Makes the lengths of a field that count each position once, as Lucene's do; once a segment.
    ///
    /// # Errors
    /// Unreadable files.
    pub fn count_places(&self, reader: &SegmentReader, field: Field) -> Result<()> {
        if self.lengths.lock().contains_key(&field) {
            return Ok(());
        }
        let index = reader.inverted_index(field).map_err(broken)?;
        let mut terms = index.terms().stream().map_err(broken)?;
        let (mut places, mut positions) = (Vec::new(), Vec::new());
        while terms.advance() {
            let list = index.read_postings_from_terminfo(terms.value(), IndexRecordOption::WithFreqsAndPositions);
            let mut list = list.map_err(broken)?;
            while list.doc() != TERMINATED {
                list.positions(&mut positions);
                places.extend(positions.iter().map(|position| (list.doc(), *position)));
                list.advance();
            }
        }
        places.sort_unstable();
        places.dedup();
        let mut lengths = vec![0u32; reader.max_doc() as usize];
        for (doc, _) in places {
            lengths[doc as usize] += 1;
        }
        debug_assert_eq!(lengths.len(), reader.max_doc() as usize, "each document has a length");
        // The largest id whose length is not above: ids ascend with lengths.
        let ids: Vec<u32> = (0..=u8::MAX).map(FieldNormReader::id_to_fieldnorm).collect();
        debug_assert!(
            ids.first() == Some(&0) && ids.is_sorted_by(|a, b| a < b),
            "each length has an id at or below it"
        );
        let id = |length: &u32| u8::try_from(ids.partition_point(|known| known <= length) - 1).unwrap_or(u8::MAX);
        let bytes: Vec<u8> = lengths.iter().map(id).collect();
        let made = FieldNormReader::open(FileSlice::from(bytes)).map_err(broken)?;
        self.lengths.lock().insert(field, made);
        Ok(())
    }

    /// Anything else that a reader of the segment works out once, under a name of its own.
    ///
    /// # Errors
    /// `build` fails.
    pub fn once<T: Footprint>(&self, name: &str, build: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
        self.derived.once(name, build)
    }

    /// The same, counted as fielddata of the index.
    ///
    /// # Errors
    /// `build` fails.
    pub fn once_as_fielddata<T: Footprint>(&self, name: &str, build: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
        self.derived.once_as_fielddata(name, build)
    }

    /// What [`SegmentCore::once`] made under a name, while it is kept.
    pub fn find<T: Footprint>(&self, name: &str) -> Option<Arc<T>> {
        self.derived.find(name)
    }

    /// Lookups of ids in it.
    pub fn id_lookups(&self) -> &IdLookups {
        &self.id_lookups
    }

    /// The names under which something is kept that begin so.
    pub fn derived_names(&self, beginning: &str) -> Vec<String> {
        self.derived.names(beginning)
    }
}

/// The documents with the token of a yes-or-no field; `None` if there are none.
fn marked_docs(reader: &SegmentReader, field: Field) -> Result<Option<BitSet>> {
    let index = reader.inverted_index(field).map_err(broken)?;
    let term = Term::from_field_text(field, crate::schema::YES);
    let Some(mut postings) = index.read_postings(&term, IndexRecordOption::Basic).map_err(broken)? else {
        return Ok(None);
    };
    let mut bits = BitSet::with_max_value(reader.max_doc());
    while postings.doc() != TERMINATED {
        bits.insert(postings.doc());
        postings.advance();
    }
    Ok(Some(bits))
}

fn count_by_terms(reader: &SegmentReader, field: Field) -> Result<u64> {
    let index = reader.inverted_index(field).map_err(broken)?;
    let mut seen = BitSet::with_max_value(reader.max_doc());
    let mut terms = index.terms().stream().map_err(broken)?;
    while terms.advance() {
        let mut postings = index
            .read_postings_from_terminfo(terms.value(), IndexRecordOption::Basic)
            .map_err(broken)?;
        while postings.doc() != TERMINATED {
            seen.insert(postings.doc());
            postings.advance();
        }
    }
    Ok(seen.len() as u64)
}

/// The documents of a term in a segment.
///
/// # Errors
/// Unreadable files.
pub fn postings(segment: &SegmentView, term: &Term, option: IndexRecordOption) -> Result<Option<SegmentPostings>> {
    let index = segment.reader.inverted_index(term.field()).map_err(broken)?;
    index.read_postings(term, option).map_err(broken)
}

/// Is each block alive or dead as a whole?
fn has_whole_blocks(reader: &SegmentReader, core: &SegmentCore) -> bool {
    let (Some(alive), Some(roots)) = (reader.alive_bitset(), &core.some_roots) else {
        return true;
    };
    // A nested document shares the fate of the next one, which is of its block.
    let last = reader.max_doc().saturating_sub(1);
    (0..last).all(|doc| roots.contains(doc) || alive.is_alive(doc) == alive.is_alive(doc + 1))
}

/// A reader of one segment under the handle's schema, with these live documents.
///
/// # Errors
/// Unreadable files.
pub fn open(
    schema: &IndexSchema,
    index: &Index,
    data: &Arc<SegmentData>,
    alive: Option<tantivy::fastfield::AliveBitSet>,
    core: Option<Arc<SegmentCore>>,
    account: &Arc<Account>,
) -> Result<Arc<SegmentView>> {
    let segment = index.segment(index.new_segment_meta(data.uuid, data.max_doc));
    let reader = SegmentReader::open_with_custom_alive_set(&segment, alive).map_err(broken)?;
    debug_assert!(
        reader
            .alive_bitset()
            .is_none_or(|alive| alive.num_alive_docs() <= data.max_doc as usize),
        "write-path.md 5: no more documents live than there are"
    );
    let core = match core {
        Some(core) => core,
        None => Arc::new(SegmentCore::open(&reader, schema, account)?),
    };
    debug_assert!(
        has_whole_blocks(&reader, &core),
        "search.md S7: a block of segment {} is alive in part",
        data.id
    );
    Ok(Arc::new(SegmentView {
        id: data.id,
        reader,
        core,
        data: data.clone(),
        part: None,
    }))
}
