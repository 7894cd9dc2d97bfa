//! Several segments into one.
//!
//! Segments of earlier schemas merge under the newest; a text field with lengths that they lack is given an
//! array of zeros, in a scratch directory and never in a published file.
//!
//! Not here: which segments, and what was deleted meanwhile (`merging`).

use super::schema::IndexSchema;
use crate::directory::{Place, SegmentData, SegmentDir, handle, settings};
use crate::error::broken;
use crate::error::build_error;
use crate::scratch::Scratch;
use model::{Error, ErrorKind, Result};
use std::io::Write;
use std::sync::Arc;
use tantivy::directory::{CompositeFile, CompositeWrite};
use tantivy::fastfield::AliveBitSet;
use tantivy::index::SegmentComponent;
use tantivy::indexer::merge_filtered_segments;
use tantivy::{Index, TantivyError};

/// Merges, keeping the documents that are alive, in order. `None`: nothing was alive.
///
/// # Errors
/// Unreadable files; a full or failing disk; the merge was cancelled.
pub fn merge(
    schema: &IndexSchema,
    inputs: &[(Arc<SegmentData>, Option<AliveBitSet>)],
    (id, scratch): (u64, Scratch),
) -> Result<Option<Arc<SegmentData>>> {
    debug_assert!(
        (1..inputs.len()).all(|n| inputs[..n].iter().all(|(data, _)| data.id != inputs[n].0.id && data.id != id)),
        "write-path.md 8: a merge takes each segment once, and its result has a number of its own"
    );
    let alive = |input: &(Arc<SegmentData>, Option<AliveBitSet>)| {
        input.1.as_ref().map_or(input.0.max_doc as usize, AliveBitSet::num_alive_docs)
    };
    let inputs: Vec<_> = inputs.iter().filter(|input| alive(input) > 0).cloned().collect();
    let expected: usize = inputs.iter().map(alive).sum();
    if inputs.is_empty() {
        return Ok(None);
    }
    let datas: Vec<Arc<SegmentData>> = inputs.iter().map(|(data, _)| data.clone()).collect();
    let (index, dir) = handle(schema, None, &datas)?;
    for data in &datas {
        if let Some(bytes) = missing_norms(schema, &index, data)? {
            let segment = index.segment(index.new_segment_meta(data.uuid, data.max_doc));
            dir.overlay(segment.relative_path(SegmentComponent::FieldNorms), bytes);
        }
    }
    let segments: Vec<_> = datas
        .iter()
        .map(|data| index.segment(index.new_segment_meta(data.uuid, data.max_doc)))
        .collect();
    let filters = inputs.into_iter().map(|(_, alive)| alive).collect();
    let out = SegmentDir::empty(scratch);
    let merged = merge_filtered_segments(&segments, settings(), filters, out.clone()).map_err(merge_error)?;
    let meta = merged.searchable_segment_metas().map_err(broken)?.pop();
    let Some(meta) = meta else { return Ok(None) };
    assert_eq!(
        meta.max_doc() as usize,
        expected,
        "write-path.md 8: a merge keeps exactly the living"
    );
    let place = Place::Memory(Arc::new(out.components(meta.id())));
    Ok(Some(Arc::new(SegmentData {
        id,
        uuid: meta.id(),
        max_doc: meta.max_doc(),
        place,
        held: None,
    })))
}

/// As [`build_error`], but for a full disk.
fn merge_error(cause: TantivyError) -> Error {
    match &cause {
        TantivyError::IoError(full) if disk::is_full(full) => {
            Error::new(ErrorKind::DiskFull, format!("a merge has no room for its files: {full}"))
        }
        _ => build_error(cause),
    }
}

/// The segment's lengths with zeros for the text fields that it lacks; `None` if it lacks none.
fn missing_norms(schema: &IndexSchema, index: &Index, data: &SegmentData) -> Result<Option<Vec<u8>>> {
    let segment = index.segment(index.new_segment_meta(data.uuid, data.max_doc));
    let old = segment.open_read(SegmentComponent::FieldNorms).map_err(broken)?;
    let old = CompositeFile::open(&old).map_err(broken)?;
    let fields = || {
        schema
            .schema
            .fields()
            .filter(|(_, entry)| entry.is_indexed() && entry.has_fieldnorms())
    };
    if fields().all(|(field, _)| old.open_read(field).is_some()) {
        return Ok(None);
    }
    // Written through a handle of its own, so that it gets tantivy's footer.
    let (scratch, files) = handle(schema, None, &[])?;
    let target = scratch.new_segment();
    let mut out = CompositeWrite::wrap(target.open_write(SegmentComponent::FieldNorms).map_err(build_error)?);
    for (field, _) in fields() {
        let bytes = match old.open_read(field) {
            Some(slice) => slice.read_bytes().map_err(broken)?.to_vec(),
            None => vec![0; data.max_doc as usize],
        };
        out.for_field(field).write_all(&bytes).map_err(build_error)?;
    }
    out.close().map_err(build_error)?;
    Ok(files.components(target.id()).remove("fieldnorm").map(|bytes| bytes.to_vec()))
}
