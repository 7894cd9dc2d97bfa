//! The strings of one column over all segments of an index, numbered in their order: what makes strings of
//! different segments comparable without comparing strings.
//!
//! Worked out once for a view, when first asked for; a view with other segments has its own.
//!
//! Not here: what is counted or joined by them (`aggs` and `joins` of `search`).

use crate::derived::Footprint;
use crate::error::broken;
use crate::searchable::IndexView;
use crate::segment_view::SegmentView;
use model::Result;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use tantivy::columnar::StrColumn;

/// Beyond this many bytes strings are left in their segments: looking one up there takes some microseconds.
const TEXTS_MAX_BYTES: usize = 8 << 20;

/// Numbers of strings.
pub struct Ordinals {
    /// By segment: our number of its each.
    tables: FxHashMap<u64, Arc<[u32]>>,
    columns: Vec<StrColumn>,
    /// By our number: a segment's column and the number there.
    places: Vec<(u32, u32)>,
    /// All strings one behind the other, and where each ends; if they are not too long together.
    texts: Option<(String, Vec<u32>)>,
}

impl Footprint for Ordinals {
    fn heap_bytes(&self) -> usize {
        let tables: usize = self.tables.values().map(|table| size_of_val::<[u32]>(table)).sum();
        let texts = self
            .texts
            .as_ref()
            .map_or(0, |(texts, ends)| texts.capacity() + ends.heap_bytes());
        tables + self.places.heap_bytes() + texts
    }
}

impl Ordinals {
    /// The ordinals of a column by its name. `counted`: they are fielddata of the index, as the reference would load them.
    ///
    /// # Errors
    /// Unreadable files.
    pub fn of(view: &IndexView, column: &str, counted: bool) -> Result<Arc<Ordinals>> {
        let name = format!("ordinals {column}");
        let build = || Ordinals::build(view, column);
        match counted {
            true => view.derived.once_as_fielddata(&name, build),
            false => view.once(&name, build),
        }
    }

    fn build(view: &IndexView, name: &str) -> Result<Ordinals> {
        let mut columns = Vec::new();
        let mut owners = Vec::new();
        for segment in &view.segments {
            if let Some(column) = segment.reader.fast_fields().str(name).map_err(broken)? {
                owners.push(segment.id);
                columns.push(column);
            }
        }
        let mut tables: Vec<Vec<u32>> = columns.iter().map(|c| Vec::with_capacity(c.num_terms())).collect();
        let mut places: Vec<(u32, u32)> = Vec::new();
        let (mut texts, mut ends) = (String::new(), Vec::new());
        let mut short = true;
        {
            let mut streams = Vec::with_capacity(columns.len());
            let mut heap = BinaryHeap::with_capacity(columns.len());
            for (no, column) in columns.iter().enumerate() {
                let mut stream = column.dictionary().stream().map_err(broken)?;
                if stream.advance() {
                    heap.push(Reverse((stream.key().to_vec(), no)));
                }
                streams.push(stream);
            }
            let mut last: Option<Vec<u8>> = None;
            while let Some(Reverse((mut key, no))) = heap.pop() {
                if last.as_ref() != Some(&key) {
                    places.push((no as u32, tables[no].len() as u32));
                    if short {
                        texts.push_str(&String::from_utf8_lossy(&key));
                        ends.push(texts.len() as u32);
                        short = texts.len() <= TEXTS_MAX_BYTES;
                    }
                    last = Some(key.clone());
                }
                tables[no].push(places.len() as u32 - 1);
                if streams[no].advance() {
                    key.clear();
                    key.extend_from_slice(streams[no].key());
                    heap.push(Reverse((key, no)));
                }
            }
        }
        for (table, column) in tables.iter().zip(&columns) {
            // Each string of a dictionary has a number (search.md S14): a stream that ends early is one that could not be read.
            if table.len() != column.num_terms() {
                return Err(broken(format!(
                    "{} of {} strings of [{name}]",
                    table.len(),
                    column.num_terms()
                )));
            }
            debug_assert!(
                table.windows(2).all(|two| two[0] < two[1]) && table.last().is_none_or(|last| (*last as usize) < places.len()),
                "search.md S14: the numbers of a dictionary rise with its strings"
            );
        }
        debug_assert!(!short || ends.len() == places.len(), "each string is kept, or none is");
        Ok(Ordinals {
            tables: owners.into_iter().zip(tables.into_iter().map(Arc::from)).collect(),
            columns,
            places,
            texts: short.then_some((texts, ends)),
        })
    }

    /// How many strings there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// None.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Our numbers by those of a segment; `None` if no document of it has a value.
    pub fn table(&self, segment: &SegmentView) -> Option<Arc<[u32]>> {
        self.tables.get(&segment.id).cloned()
    }

    /// The string of a number.
    ///
    /// # Errors
    /// Unreadable files.
    pub fn text(&self, number: u64) -> Result<String> {
        let at = number as usize;
        if let Some((texts, ends)) = &self.texts {
            let Some(end) = ends.get(at) else { return Ok(String::new()) };
            let start = at.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or(0);
            return Ok(texts[start as usize..*end as usize].to_owned());
        }
        let mut out = String::new();
        if let Some((column, ord)) = self.places.get(at) {
            let column = &self.columns[*column as usize];
            column.ord_to_str(u64::from(*ord), &mut out).map_err(broken)?;
        }
        Ok(out)
    }
}
