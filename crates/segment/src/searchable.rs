//! The state that searches see: every index's readers and live documents, in one value of the process.
//!
//! A [`Searchable`] is immutable; publishing stores another. No view shows half of a record
//! (write-path.md 1.7), and all readers of an [`IndexView`] were opened under its one schema (1.8).
//!
//! Not here: how segments come to be (`index`), when they are published (`engine`).

use crate::cache::DocumentCache;
use crate::derived::{Derived, Footprint};
use crate::error::broken;
use crate::filter_cache::Filters;
use crate::schema::IndexSchema;
use crate::segment_view::SegmentView;
use crate::stored::each_value;
use mapping::Mapping;
use mapping::tree::{Placed, Tree};
use model::compat::IndexRules;
use model::{Error, ErrorKind, FieldRights, IndexName, Result};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use tantivy::DocId;
use tantivy::directory::OwnedBytes;
use tantivy::schema::Field;

/// Every index as searches see it.
#[derive(Debug, Default)]
pub struct Searchable {
    /// By number.
    pub indices: HashMap<u32, Arc<IndexView>>,
    /// Everything durable up to here that is not held back by `refresh_interval: -1` is in it.
    pub position: u64,
}

/// One index at one moment.
pub struct IndexView {
    /// Its number, never used twice.
    pub no: u32,
    /// Its name.
    pub name: IndexName,
    /// Identity is (type, id).
    pub typed: bool,
    /// The types of a typed index.
    pub types: Vec<String>,
    /// Each type of a typed index that has a parent, and the parent's type.
    pub parents: Vec<(String, String)>,
    /// The mapping of a typed index with all its types together.
    pub mapping: Mapping,
    /// Its analyzers.
    pub registry: mapping::Registry,
    /// Flat, with `index.`.
    pub settings: Arc<Map<String, Value>>,
    /// Where paths lie.
    pub schema: Arc<IndexSchema>,
    /// Oldest first.
    pub segments: Vec<Arc<SegmentView>>,
    /// Position up to which the log's records on this index are in it.
    pub position: u64,
    /// Values that readers derive once.
    pub derived: Derived,
    /// Stored documents that were read lately, of all indices.
    pub documents: Arc<DocumentCache>,
    /// Sets of terms that filters ask for often, of all indices.
    pub filters: Arc<Filters>,
    /// As they are written: a typed index has one for each type.
    pub mappings: mapping::Mappings,
    /// The directories of its `tree_path` fields at that moment (trees.md D8).
    pub tree: Arc<Tree>,
    /// The fields that its reader is granted, where documents or fields are withheld: then its live documents are those that
    /// the reader sees (security.md S6).
    pub granted: Option<Arc<FieldRights>>,
}

impl fmt::Debug for IndexView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "IndexView({} at {}, {} segments)",
            self.name,
            self.position,
            self.segments.len()
        )
    }
}

impl IndexView {
    /// The dialect rules of the index.
    pub fn rules(&self) -> &'static IndexRules {
        IndexRules::of(self.typed)
    }
    /// Is each segment in it once (search.md S2)?
    pub fn has_distinct_segments(&self) -> bool {
        let mut ids: Vec<u64> = self.segments.iter().map(|segment| segment.id).collect();
        ids.sort_unstable();
        ids.windows(2).all(|two| two[0] < two[1])
    }
    /// The highest sequence number that a document of it has, dead ones too; `None`: it has no documents.
    pub fn last_seq_no(&self) -> Option<u64> {
        self.segments.iter().map(|segment| segment.core.seq_no().max_value()).max()
    }
    /// The types of a typed index.
    pub fn type_names(&self) -> Vec<String> {
        self.types.clone()
    }
    /// Anything that a reader of all segments works out once, under a name of its own.
    ///
    /// # Errors
    /// `build` fails.
    pub fn once<T: Footprint>(&self, name: &str, build: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
        self.derived.once(name, build)
    }
    /// Shows every stored value of a document of one of its segments.
    ///
    /// # Errors
    /// Unreadable files.
    pub fn each_stored(&self, segment: &SegmentView, doc: DocId, f: impl FnMut(Field, &[u8])) -> Result<()> {
        each_value(&self.stored_bytes(segment, doc)?, doc, f)
    }
    /// The bytes of a stored document of one of its segments.
    ///
    /// # Errors
    /// Unreadable files.
    pub fn stored_bytes(&self, segment: &SegmentView, doc: DocId) -> Result<Arc<[u8]>> {
        let key = (segment.id, doc);
        if let Some(bytes) = self.documents.get(&key) {
            return Ok(bytes);
        }
        let bytes: Arc<[u8]> = read_stored_bytes(segment, doc)?.as_slice().into();
        self.documents.put(key, bytes.len(), || bytes.clone());
        Ok(bytes)
    }
    /// As [`IndexView::each_stored`], for who keeps what he reads.
    ///
    /// # Errors
    /// Unreadable files.
    pub fn each_stored_once(&self, segment: &SegmentView, doc: DocId, f: impl FnMut(Field, &[u8])) -> Result<()> {
        match self.documents.get(&(segment.id, doc)) {
            Some(bytes) => each_value(&bytes, doc, f),
            None => each_value(read_stored_bytes(segment, doc)?.as_slice(), doc, f),
        }
    }
    /// The same documents with another tree. What was derived from the tree is left behind.
    #[must_use]
    pub fn with_tree(&self, tree: Arc<Tree>) -> IndexView {
        IndexView {
            no: self.no,
            name: self.name.clone(),
            typed: self.typed,
            types: self.types.clone(),
            parents: self.parents.clone(),
            mapping: self.mapping.clone(),
            registry: self.registry.clone(),
            settings: self.settings.clone(),
            schema: self.schema.clone(),
            segments: self.segments.clone(),
            position: self.position,
            derived: self.derived.anew(),
            documents: self.documents.clone(),
            filters: self.filters.clone(),
            mappings: self.mappings.clone(),
            tree,
            granted: self.granted.clone(),
        }
    }
    /// The same index for a reader from whom something is withheld: these segments have the documents that they see live.
    /// Nothing that was derived for others is used.
    ///
    /// # Errors
    /// UnsupportedOperation: fields of an index with types.
    pub fn restrict_to(&self, segments: Vec<Arc<SegmentView>>, granted: &FieldRights) -> Result<IndexView> {
        let (mapping, mappings) = match (&self.mappings, granted.is_all()) {
            (_, true) => (self.mapping.clone(), self.mappings.clone()),
            (mapping::Mappings::Plain(plain), false) => (
                self.mapping.restrict_to(granted),
                mapping::Mappings::Plain(plain.restrict_to(granted)),
            ),
            (mapping::Mappings::Typed(_), false) => {
                let reason = format!("rights on fields are not supported in [{}]: it has types", self.name);
                return Err(Error::new(ErrorKind::Security, reason));
            }
        };
        Ok(IndexView {
            mapping,
            mappings,
            segments,
            granted: Some(Arc::new(granted.clone())),
            ..self.with_tree(self.tree.clone())
        })
    }
    /// The one place where a stored source becomes the source that readers see (trees.md D7): paths of directories that moved
    /// since it was written are today's. `None`: it is as it was written.
    pub fn todays_source(&self, tree: &Tree, source: &[u8], placed: &[Placed]) -> Option<Vec<u8>> {
        let todays = todays_source(&self.mapping, tree, source, placed);
        match &self.granted {
            Some(granted) => granted.filter_source_bytes(todays.as_deref().unwrap_or(source)).or(todays),
            None => todays,
        }
    }
    /// Is something withheld from its reader?
    pub fn is_restricted(&self) -> bool {
        self.granted.is_some()
    }
    /// The mapping of a document's type.
    pub fn mapping_of(&self, doc_type: Option<&str>) -> &Mapping {
        match (&self.mappings, doc_type) {
            (mapping::Mappings::Typed(types), Some(name)) => types.get(name).unwrap_or(&self.mapping),
            _ => &self.mapping,
        }
    }
    /// A setting that is a whole number, given or by default.
    pub fn number(&self, name: &str) -> Option<usize> {
        model::settings::text(&self.settings, *model::settings::find(name)?)
            .parse()
            .ok()
    }
}

/// As [`IndexView::todays_source`], of a document that no segment has yet.
pub fn todays_source(mapping: &Mapping, tree: &Tree, source: &[u8], placed: &[Placed]) -> Option<Vec<u8>> {
    mapping::tree::todays_source(source, placed, tree, &|field| mapping.tree_syntax(field))
}

/// The bytes of a stored document, as the segment has them.
fn read_stored_bytes(segment: &SegmentView, doc: DocId) -> Result<OwnedBytes> {
    segment
        .core
        .store_reader(&segment.reader)?
        .get_document_bytes(doc)
        .map_err(broken)
}
