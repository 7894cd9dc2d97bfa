//! Reading a stored document out of its bytes, without copies: tantivy's own way goes byte by byte.
//!
//! The form is that of the pinned version's `BinaryDocumentSerializer`: the number of values; for each the field (u32,
//! little-endian), a code of its type, its length and its bytes. Numbers of values and bytes are written seven bits at
//! a time, lowest first, the last byte with its high bit set. We store texts and bytes only.
//!
//! Not here: which field means what (`schema`).

use crate::error::broken;
use model::Result;
use std::ops::Range;
use tantivy::DocId;
use tantivy::schema::Field;

const TEXT_CODE: u8 = 0;
const BYTES_CODE: u8 = 4;

/// Shows every value in the bytes of a stored document in the order of writing: its field and its bytes.
///
/// # Errors
/// Documents that hold anything but texts and bytes.
pub fn each_value(bytes: &[u8], doc: DocId, mut f: impl FnMut(Field, &[u8])) -> Result<()> {
    each_place(bytes, doc, |field, place| f(field, &bytes[place]))
}

/// The same, but of each value where it is in `bytes`.
///
/// # Errors
/// As [`each_value`].
pub fn each_place(bytes: &[u8], doc: DocId, mut f: impl FnMut(Field, Range<usize>)) -> Result<()> {
    let mut rest: &[u8] = bytes;
    let malformed = || broken(format!("stored document [{doc}] is malformed"));
    let count = number(&mut rest).ok_or_else(malformed)?;
    for _ in 0..count {
        let (field, value) = value(&mut rest).ok_or_else(malformed)?;
        let end = bytes.len() - rest.len();
        f(field, end - value.len()..end);
    }
    Ok(())
}

fn value<'a>(rest: &mut &'a [u8]) -> Option<(Field, &'a [u8])> {
    let field = Field::from_field_id(u32::from_le_bytes(take(rest, 4)?.try_into().ok()?));
    if !matches!(take(rest, 1)?, [TEXT_CODE | BYTES_CODE]) {
        return None;
    }
    let length = usize::try_from(number(rest)?).ok()?;
    Some((field, take(rest, length)?))
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(count)?;
    *rest = left;
    Some(taken)
}

fn number(rest: &mut &[u8]) -> Option<u64> {
    let mut out = 0;
    for shift in (0..64).step_by(7) {
        let (byte, left) = rest.split_first()?;
        *rest = left;
        out |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 != 0 {
            return Some(out);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use tantivy::schema::{BytesOptions, STORED, Schema, TextOptions};
    use tantivy::{Index, TantivyDocument};

    /// Our reader and tantivy's read the same values of a file that tantivy wrote.
    #[test]
    fn as_tantivy_writes() {
        let mut schema = Schema::builder();
        let text = schema.add_text_field("t", TextOptions::default() | STORED);
        let blob = schema.add_bytes_field("b", BytesOptions::default().set_stored());
        let index = Index::create_in_ram(schema.build());
        let mut writer = index.writer_with_num_threads(1, 15_000_000).expect("a writer");
        let long = "x".repeat(70_000);
        let cases: Vec<Vec<(Field, &[u8])>> = vec![
            vec![],
            vec![(text, b"".as_slice())],
            vec![(blob, &[0, 127, 128, 255]), (text, "é".as_bytes())],
            vec![
                (text, &long.as_bytes()[..127]),
                (text, &long.as_bytes()[..128]),
                (blob, long.as_bytes()),
            ],
        ];
        for case in &cases {
            let mut doc = TantivyDocument::new();
            for (field, value) in case {
                if *field == text {
                    doc.add_text(text, std::str::from_utf8(value).expect("text"));
                } else {
                    doc.add_bytes(blob, value);
                }
            }
            writer.add_document(doc).expect("added");
        }
        writer.commit().expect("committed");
        let searcher = index.reader().expect("a reader").searcher();
        let store = searcher.segment_reader(0).get_store_reader(0).expect("a store");
        for (n, case) in (0..).zip(&cases) {
            let mut seen: Vec<(Field, Vec<u8>)> = Vec::new();
            each_value(&store.get_document_bytes(n).expect("there"), n, |field, value| {
                seen.push((field, value.to_vec()))
            })
            .expect("readable");
            let expected: Vec<(Field, Vec<u8>)> = case.iter().map(|(f, v)| (*f, v.to_vec())).collect();
            assert_eq!(seen, expected);
        }
    }
}
