//! The values of a `tree_path` field and its sub-fields as columns in memory: made of the numbers of a segment's directories and
//! of the tree, kept with the segment for as long as no directory moves.
//!
//! Not here: queries, which go by the numbers themselves (`search/src/clauses/tree_path.rs`).

use crate::derived::Footprint;
use crate::error::broken;
use crate::fielddata::{Strings, strings};
use crate::key_columns::Keys;
use crate::open_columns;
use crate::schema::Slot;
use crate::segment_view::SegmentView;
use mapping::TreeField;
use mapping::tree::{DirId, Tree};
use model::Result;
use rustc_hash::FxHashMap;
use tantivy::DocId;
use tantivy::columnar::{Column, ColumnarReader, ColumnarWriter, DynamicColumn, StrColumn};

/// The one column of the file that is written and read back at once.
const NAME: &str = "numbers";

/// Builds with assertions read segments of so many documents again.
const READ_AGAIN_MOST: u32 = 256;

/// A column of numbers that lies in memory.
#[derive(Default)]
struct Numbers {
    column: Option<Column<i64>>,
    bytes: usize,
}

impl Footprint for Numbers {
    fn heap_bytes(&self) -> usize {
        self.bytes
    }
}

/// The numbers of the directories of a segment's documents.
///
/// # Errors
/// Unreadable files.
pub fn directories(segment: &SegmentView, slot: &Slot) -> Result<Option<Column<u64>>> {
    let Some(name) = slot.column.as_deref() else {
        return Ok(None);
    };
    open_columns::values(segment, name)
}

/// The texts of a part.
///
/// # Errors
/// Unreadable files.
pub fn texts(segment: &SegmentView, slot: &Slot, field: TreeField, tree: &Tree) -> Result<Option<StrColumn>> {
    let build = || {
        let (texts, pairs) = values(segment, slot, field, tree)?;
        if pairs.is_empty() {
            return Ok(Strings::default());
        }
        strings(
            segment,
            pairs.iter().map(|(doc, text)| (*doc, texts[*text as usize].as_str())),
        )
    };
    let found = segment.core.once_as_fielddata(&key(slot, field, tree), build)?;
    debug_assert!(
        segment.reader.max_doc() > READ_AGAIN_MOST
            || values(segment, slot, field, tree)
                .is_ok_and(|(texts, _)| { texts.len() == found.column.as_ref().map_or(0, |column| column.num_terms()) }),
        "search.md S18: what is kept by the last move of a tree is what that tree says of [{}]",
        slot.shape.path
    );
    Ok(found.column.clone())
}

/// The texts of a part as keys of joins.
///
/// # Errors
/// Unreadable files.
pub fn keys(segment: &SegmentView, slot: &Slot, field: TreeField, tree: &Tree) -> Result<Option<Keys>> {
    let texts = texts(segment, slot, field, tree)?;
    texts
        .map(|texts| Keys::over(segment, &key(slot, field, tree), texts))
        .transpose()
}

/// The depths.
///
/// # Errors
/// Unreadable files.
pub fn depths(segment: &SegmentView, slot: &Slot, field: TreeField, tree: &Tree) -> Result<Option<Column<i64>>> {
    let build = || {
        let (texts, pairs) = values(segment, slot, field, tree)?;
        let mut writer = ColumnarWriter::default();
        for (doc, text) in pairs {
            writer.record_numerical(doc, NAME, texts[text as usize].parse::<i64>().unwrap_or(0));
        }
        let mut bytes = Vec::new();
        writer.serialize(segment.reader.max_doc(), None, &mut bytes).map_err(broken)?;
        let mut made = Numbers {
            bytes: bytes.len(),
            ..Numbers::default()
        };
        let reader = ColumnarReader::open(bytes).map_err(broken)?;
        for handle in reader.read_columns(NAME).map_err(broken)? {
            if let DynamicColumn::I64(column) = handle.open().map_err(broken)? {
                made.column = Some(column);
            }
        }
        Ok(made)
    };
    let found = segment.core.once_as_fielddata(&key(slot, field, tree), build)?;
    Ok(found.column.clone())
}

/// Two trees with the same moves give a segment the same values: directories made since have no documents in it.
fn key(slot: &Slot, field: TreeField, tree: &Tree) -> String {
    format!("tree {} {:?} {}", slot.shape.path, field.part, tree.last_move_seq())
}

/// The texts of a part, and for each document, in order, the numbers of its own.
fn values(segment: &SegmentView, slot: &Slot, field: TreeField, tree: &Tree) -> Result<(Vec<String>, Vec<(DocId, u32)>)> {
    let (mut texts, mut pairs) = (Vec::new(), Vec::new());
    let Some(column) = directories(segment, slot)? else {
        return Ok((texts, pairs));
    };
    let mut numbers: FxHashMap<String, u32> = FxHashMap::default();
    let mut known: FxHashMap<u64, Vec<u32>> = FxHashMap::default();
    for doc in 0..segment.reader.max_doc() {
        for dir in column.values_for_doc(doc) {
            let own = known.entry(dir).or_insert_with(|| {
                let values = field.syntax.values(tree, dir as DirId, field.part).into_iter();
                let number = |text: String| {
                    *numbers.entry(text).or_insert_with_key(|text| {
                        texts.push(text.clone());
                        texts.len() as u32 - 1
                    })
                };
                values.map(number).collect()
            });
            pairs.extend(own.iter().map(|text| (doc, *text)));
        }
    }
    Ok((texts, pairs))
}
