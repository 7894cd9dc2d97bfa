//! Scans: every document of a view that matches, part by part.
//!
//! A part is read by a worker, and the next one while the caller works on what it has: so two parts are in memory at most.
//!
//! Not here: searching (`search`), scans in the order of sequence numbers (`seq_no_scan`).

use crate::evaluate::visible;
use crate::get_cache;
use crate::store::Store;
use crate::workers::Workers;
use dsl::query::Query;
use engine::{Document, See};
use futures::StreamExt as _;
use futures::future::{BoxFuture, ready};
use futures::stream::{self, BoxStream};
use model::{Dialect, Result};
use search::Searched;
use search::interrupt::Interrupt;
use segment::searchable::IndexView;
use segment::stored_document::root_document;
use std::sync::Arc;
use tantivy::DocId;

/// Documents of a part, at most.
const PART_DOCUMENTS: usize = 1_000;
/// Bytes of their sources, about.
const PART_BYTES: usize = 1 << 20;

/// What is scanned.
pub(crate) struct DocumentScan {
    pub(crate) views: Vec<Searched>,
    pub(crate) query: Query,
    pub(crate) see: See,
    /// Documents of these types; empty: of all.
    pub(crate) types: Vec<String>,
    /// Who scans reads the newest state of each document by its id soon, to write it: the cache of documents by id gets them all.
    pub(crate) reads_again: bool,
}

/// Where a scan goes on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ScanAt {
    view: usize,
    segment: usize,
    doc: DocId,
}

/// Some documents of a scan, in index order.
pub(crate) struct ScanPart {
    pub(crate) documents: Vec<Document>,
    /// Where the next part begins; `None`: there is none.
    pub(crate) next: Option<ScanAt>,
}

impl Store {
    /// The documents of a scan from a place on: at most `max`, or so many that their sources are about [`PART_BYTES`].
    ///
    /// # Errors
    /// The query's; unreadable files.
    pub(crate) fn scan_part(&self, scan: &DocumentScan, from: ScanAt, max: usize) -> Result<ScanPart> {
        let (mut documents, mut bytes, mut next) = (Vec::new(), 0, None);
        self.with_context(scan.see, Dialect::default(), &scan.types, &Interrupt::default(), |cx| {
            for (n, (view, filter)) in scan.views.iter().enumerate().skip(from.view) {
                let begin = if n == from.view { (from.segment, from.doc) } else { (0, 0) };
                search::scan(view, Some(&scan.query), filter.as_ref(), cx, begin, &mut |segment, doc| {
                    debug_assert!((segment, doc) >= begin, "a scan goes on where it was");
                    if documents.len() >= max || bytes >= PART_BYTES {
                        next = Some(ScanAt { view: n, segment, doc });
                        return Ok(false);
                    }
                    let document = root_document(view, &view.segments[segment], doc)?;
                    if visible(&document, scan.see) {
                        bytes += document.source.0.len();
                        if scan.reads_again {
                            self.keep_scanned(view, segment, doc, &document);
                        }
                        documents.push(document);
                    }
                    Ok(true)
                })?;
                if next.is_some() {
                    break;
                }
            }
            Ok(())
        })?;
        Ok(ScanPart { documents, next })
    }

    /// Keeps a document for reads by its id, unless the view may have left out some of its fields.
    fn keep_scanned(&self, view: &IndexView, segment: usize, root: DocId, document: &Document) {
        if view.granted.is_none() {
            let key = self.versions.key(view.no, &document.at.id.uid());
            get_cache::put(
                self.caches.by_id(),
                key,
                (&view.segments[segment], root),
                document,
                &view.tree,
            );
        }
    }
}

/// The part that is being read.
type Ahead = Option<BoxFuture<'static, Result<ScanPart>>>;

/// Every document of a scan. After an error comes nothing. A worker opens the scan and reads its first part in one job: most scans
/// have no other, as a read by id of who has restricted documents.
///
/// # Errors
/// Those of `open`.
pub(crate) async fn documents(
    store: Arc<Store>,
    workers: Arc<Workers>,
    open: impl FnOnce(&Store) -> Result<DocumentScan> + Send + 'static,
) -> Result<BoxStream<'static, Result<Document>>> {
    let own = store.clone();
    let begin = move || {
        let scan = Arc::new(open(&own)?);
        let first = read_part(&own, &scan, ScanAt::default());
        Ok((scan, first))
    };
    let (scan, first) = workers.run(begin).await?;
    let read = move |from: ScanAt| -> BoxFuture<'static, Result<ScanPart>> {
        let (store, scan) = (store.clone(), scan.clone());
        Box::pin(workers.begin(move || read_part(&store, &scan, from)))
    };
    let first: Ahead = Some(Box::pin(ready(first)));
    let parts = stream::unfold(first, move |ahead| {
        let read = read.clone();
        async move {
            Some(match ahead?.await {
                Ok(part) => (part.documents.into_iter().map(Ok).collect(), part.next.map(read)),
                Err(e) => (vec![Err(e)], None),
            })
        }
    });
    // Who asks again after the end gets nothing again.
    Ok(parts
        .flat_map(|part: Vec<Result<Document>>| stream::iter(part))
        .fuse()
        .boxed())
}

fn read_part(store: &Store, scan: &DocumentScan, from: ScanAt) -> Result<ScanPart> {
    store.scan_part(scan, from, PART_DOCUMENTS).map_err(|e| store.settle(e))
}
