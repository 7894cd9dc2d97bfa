//! The column of `join_field#relation`: a child's parent's id, a parent's own, as Lucene's join field has it.
//!
//! It is made of the columns of ids and of parents when something first sorts, groups or shows by it, and kept with
//! the segment.
//!
//! Not here: searching by it (`clauses::metadata_fields`, `clauses::parent_child`), the keys of parents (`segment::key_columns`).

use mapping::{FieldType, Kind};
use model::Result;
use segment::error::broken;
use segment::fielddata::{self, Strings};
use segment::schema::Slot;
use segment::segment_view::{SegmentView, postings};
use tantivy::columnar::StrColumn;
use tantivy::schema::IndexRecordOption;
use tantivy::{DocId, DocSet, TERMINATED, Term};

/// The relation that a path names, if it is `join_field#relation` and the relation has children.
pub(crate) fn relation<'p>(path: &'p str, join: &str, kind: &FieldType) -> Option<&'p str> {
    let relation = path.strip_prefix(join)?.strip_prefix('#')?;
    kind.children_of(relation).map(|_| relation)
}

/// The column; `None` if no document of the segment has a value.
///
/// # Errors
/// Unreadable files.
pub(crate) fn column(segment: &SegmentView, path: &str, kind: &FieldType, slot: &Slot) -> Result<Option<StrColumn>> {
    debug_assert_eq!(kind.kind, Kind::Join);
    let Some((_, relation)) = path.rsplit_once('#') else {
        return Ok(None);
    };
    let children = kind.children_of(relation).unwrap_or_default();
    // Relations get children later.
    let key = format!("parent ids {path} {}", children.join(" "));
    let found = segment.core.once(&key, || build(segment, relation, children, slot))?;
    Ok(found.column.clone())
}

fn build(segment: &SegmentView, relation: &str, children: &[String], slot: &Slot) -> Result<Strings> {
    let Some((_, parents)) = &slot.second else {
        return Ok(Strings::default());
    };
    let term = |name: &str| Term::from_field_text(slot.field, name);
    let of_children: Vec<Term> = children.iter().map(|name| term(name)).collect();
    let mut values: Vec<(DocId, String)> = Vec::new();
    for (column, terms) in [("_id", vec![term(relation)]), (parents.as_str(), of_children)] {
        let Some(strings) = segment.reader.fast_fields().str(column).map_err(broken)? else {
            continue;
        };
        // One by one they would be looked up in a compressed dictionary.
        let mut texts: Vec<String> = Vec::with_capacity(strings.num_terms());
        let mut stream = strings.dictionary().stream().map_err(broken)?;
        while stream.advance() {
            texts.push(String::from_utf8_lossy(stream.key()).into_owned());
        }
        for term in &terms {
            let Some(mut docs) = postings(segment, term, IndexRecordOption::Basic)? else {
                continue;
            };
            while docs.doc() != TERMINATED {
                let ord = strings.term_ords(docs.doc()).next();
                let text = ord.and_then(|ord| texts.get(usize::try_from(ord).ok()?));
                if let Some(text) = text.filter(|_| segment.is_root(docs.doc())) {
                    values.push((docs.doc(), text.clone()));
                }
                docs.advance();
            }
        }
    }
    if values.is_empty() {
        return Ok(Strings::default());
    }
    // Columns are written in the order of documents.
    values.sort_unstable();
    fielddata::strings(segment, values.iter().map(|(doc, text)| (*doc, text.as_str())))
}
