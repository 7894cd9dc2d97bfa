//! The join of parents and children that are documents of their own: along a join field, or `_parent` of typed indices.
//!
//! Not here: nested documents (`nested`), joins across indices (`joins`), the children and parents of one segment
//! (`parent_child_ordinals`).

use super::parent_child_ordinals::ParentChildOrdinals;
use model::Result;
use segment::key_columns::Keys;
use segment::searchable::IndexView;
use segment::segment_view::SegmentView;
use tantivy::Term;
use tantivy::schema::Field;

/// Where parents and children of an index find each other.
#[derive(Clone)]
pub struct Family {
    /// The join field; `None` for `_parent`.
    pub(crate) path: Option<String>,
    /// Terms and column of relations: names of the join field, or types.
    pub(crate) relation: (Field, String),
    /// Terms and column of parents' ids.
    pub(crate) parent: (Field, String),
    /// Child and parent relation, each pair once.
    pub(crate) pairs: Vec<(String, String)>,
    pub(crate) typed: bool,
}

impl Family {
    /// The join of an index; `None` if it has none.
    pub fn of(view: &IndexView) -> Option<Family> {
        if view.typed {
            return (!view.parents.is_empty()).then(|| Family {
                path: None,
                relation: (view.schema.doc_type, "_type".into()),
                parent: (view.schema.parent, "_parent".into()),
                pairs: view.parents.clone(),
                typed: true,
            });
        }
        let (path, kind) = view.mapping.join_field()?;
        let slot = view.schema.slot(path)?;
        let pairs = kind
            .relations
            .iter()
            .flat_map(|(parent, children)| children.iter().map(|child| (child.clone(), parent.clone())));
        Some(Family {
            path: Some(path.to_owned()),
            relation: (slot.field, slot.column.clone()?),
            parent: slot.second.clone()?,
            pairs: pairs.collect(),
            typed: false,
        })
    }
    /// Whether a relation is any.
    pub(crate) fn knows(&self, relation: &str) -> bool {
        self.pairs
            .iter()
            .any(|(child, parent)| child == relation || parent == relation)
    }
    /// The parent's relation.
    pub(crate) fn parent_of(&self, child: &str) -> Option<&str> {
        self.pairs.iter().find(|(c, _)| c == child).map(|(_, parent)| parent.as_str())
    }
    /// The children's relations.
    pub(crate) fn children_of(&self, parent: &str) -> Vec<&str> {
        let own = self.pairs.iter().filter(|(_, p)| p == parent);
        own.map(|(child, _)| child.as_str()).collect()
    }
    /// The term of a relation.
    pub(crate) fn relation_term(&self, name: &str) -> Term {
        Term::from_field_text(self.relation.0, name)
    }
    /// The term that all children of a document have.
    pub(crate) fn parent_term(&self, id: &str) -> Term {
        Term::from_field_text(self.parent.0, id)
    }
    /// The term of a parent's own id.
    pub(crate) fn id_term(&self, view: &IndexView, relation: &str, id: &str) -> Term {
        if self.typed {
            Term::from_field_text(view.schema.id, &format!("{relation}#{id}"))
        } else {
            Term::from_field_text(view.schema.id, id)
        }
    }
    /// An id as its document has it, without the type that a uid begins with.
    pub(crate) fn bare_id<'a>(&self, id: &'a str) -> &'a str {
        match id.split_once('#') {
            Some((_, id)) if self.typed => id,
            _ => id,
        }
    }
    /// Makes of a new segment what searches along the family look into.
    ///
    /// # Errors
    /// Unreadable files.
    pub fn prepare(&self, segment: &SegmentView) -> Result<()> {
        self.ids(segment)?;
        self.parents(segment)?;
        self.pairs
            .iter()
            .try_for_each(|(_, parent)| ParentChildOrdinals::of(segment, self, parent).map(drop))
    }
    /// The keys of documents' own ids.
    pub(crate) fn ids(&self, segment: &SegmentView) -> Result<Option<Keys>> {
        Keys::open(segment, "_id", self.typed)
    }
    /// The keys of documents' parents.
    pub(crate) fn parents(&self, segment: &SegmentView) -> Result<Option<Keys>> {
        Keys::open(segment, &self.parent.1, false)
    }
    pub(crate) fn describe(&self) -> String {
        self.path
            .as_ref()
            .map_or_else(|| "[_parent]".to_owned(), |path| format!("join field [{path}]"))
    }
}
