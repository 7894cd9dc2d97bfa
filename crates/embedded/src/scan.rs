//! Scans: every document of a view that matches, part by part.

use crate::evaluate::visible;
use crate::store::Store;
use dsl::query::Query;
use engine::{Document, See};
use model::{Dialect, Result};
use search::Searched;
use search::interrupt::Interrupt;
use segment::stored_document::root_document;

/// Where a scan goes on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ScanAt {
    view: usize,
    segment: usize,
    doc: u32,
}

impl Store {
    /// The documents of a target that match, in index order, from one view, at most `max` from `from` on.
    pub(crate) fn scan_part(
        &self,
        views: &[Searched],
        query: &Query,
        see: See,
        types: &[String],
        from: ScanAt,
        max: usize,
    ) -> Result<(Vec<Document>, Option<ScanAt>)> {
        let mut out = Vec::new();
        let mut next = None;
        self.with_context(see, Dialect::default(), types, &Interrupt::default(), |cx| {
            for (n, (view, filter)) in views.iter().enumerate().skip(from.view) {
                let mut failed = Ok(());
                search::scan(view, Some(query), filter.as_ref(), cx, &mut |segment, doc| {
                    let at = ScanAt { view: n, segment, doc };
                    if n == from.view && (segment, doc) < (from.segment, from.doc) {
                        return Ok(true);
                    }
                    if out.len() >= max {
                        next = Some(at);
                        return Ok(false);
                    }
                    match root_document(view, &view.segments[segment], doc) {
                        Ok(document) if visible(&document, see) => out.push(document),
                        Ok(_) => {}
                        Err(e) => failed = Err(e),
                    }
                    Ok(failed.is_ok())
                })?;
                failed?;
                if next.is_some() {
                    break;
                }
            }
            Ok(())
        })?;
        Ok((out, next))
    }
}
