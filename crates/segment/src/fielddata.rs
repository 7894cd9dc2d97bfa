//! `fielddata: true`: the terms of a text field as a column, made from the inverted index and kept with the segment.

use crate::derived::Footprint;
use crate::error::broken;
use crate::segment_view::SegmentView;
use model::Result;
use tantivy::columnar::{ColumnarReader, ColumnarWriter, DynamicColumn, StrColumn};
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{DocId, DocSet, TERMINATED};

/// The one column of the file that is written and read back at once.
const NAME: &str = "strings";

/// A column of strings that lies in memory.
#[derive(Default)]
pub struct Strings {
    /// `None` if no document has one.
    pub column: Option<StrColumn>,
    bytes: usize,
}

impl Footprint for Strings {
    fn heap_bytes(&self) -> usize {
        self.bytes
    }
}

/// The column of a text field's terms; `None` if the segment has none.
///
/// # Errors
/// Unreadable files.
pub fn column(segment: &SegmentView, field: Field) -> Result<Option<StrColumn>> {
    let key = format!("fielddata {}", field.field_id());
    let found = segment.core.once_as_fielddata(&key, || uninvert(segment, field))?;
    Ok(found.column.clone())
}

fn uninvert(segment: &SegmentView, field: Field) -> Result<Strings> {
    let index = segment.reader.inverted_index(field).map_err(broken)?;
    let mut terms: Vec<String> = Vec::new();
    let mut pairs: Vec<(u32, u32)> = Vec::new();
    let mut stream = index.terms().stream().map_err(broken)?;
    while stream.advance() {
        let Ok(term) = std::str::from_utf8(stream.key()) else {
            continue;
        };
        let number = u32::try_from(terms.len()).map_err(broken)?;
        terms.push(term.to_owned());
        let mut docs = index
            .read_postings_from_terminfo(stream.value(), IndexRecordOption::Basic)
            .map_err(broken)?;
        while docs.doc() != TERMINATED {
            pairs.push((docs.doc(), number));
            docs.advance();
        }
    }
    if pairs.is_empty() {
        return Ok(Strings::default());
    }
    pairs.sort_unstable();
    let values = pairs.iter().map(|(doc, number)| (*doc, terms[*number as usize].as_str()));
    strings(segment, values)
}

/// A column in memory of these values, which come in the order of documents.
///
/// # Errors
/// The columns' format fails.
pub fn strings<'a>(segment: &SegmentView, values: impl Iterator<Item = (DocId, &'a str)>) -> Result<Strings> {
    let mut writer = ColumnarWriter::default();
    for (doc, text) in values {
        writer.record_str(doc, NAME, text);
    }
    let mut bytes = Vec::new();
    writer.serialize(segment.reader.max_doc(), None, &mut bytes).map_err(broken)?;
    let mut made = Strings {
        bytes: bytes.len(),
        ..Strings::default()
    };
    let reader = ColumnarReader::open(bytes).map_err(broken)?;
    for handle in reader.read_columns(NAME).map_err(broken)? {
        if let DynamicColumn::Str(column) = handle.open().map_err(broken)? {
            made.column = Some(column);
        }
    }
    Ok(made)
}
