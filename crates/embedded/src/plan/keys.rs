//! Keys that join documents: the strings of a column as 64-bit hashes, the same in all segments.
//!
//! Ordinals differ from segment to segment, so a join over several would have to compare strings. Instead each
//! segment has an array from ordinal to hash, made once and kept with the segment: a refresh adds arrays for
//! its new segments and rebuilds nothing. The hash is keyed by the process, so nobody can choose ids that collide.
//!
//! Not here: which columns are joined (`family`, `terms`).

use super::node::broken;
use crate::searchable::SegmentView;
use model::Result;
use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};
use std::sync::{Arc, OnceLock};
use tantivy::DocId;
use tantivy::columnar::StrColumn;

fn keyed() -> &'static RandomState {
    static KEY: OnceLock<RandomState> = OnceLock::new();
    KEY.get_or_init(RandomState::new)
}

/// The hash of a key, as every segment of this process has it. A text that is a whole number is that number.
pub(crate) fn hash(key: &[u8]) -> u64 {
    match whole(key) {
        Some(n) => hash_int(n),
        None => keyed().hash_one(key),
    }
}

/// The hash of a number.
pub(crate) fn hash_int(n: i64) -> u64 {
    keyed().hash_one(n)
}

/// A whole number as numbers are written: no `+`, no leading zeros.
fn whole(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let plain = match digits {
        [b'0'] => text.len() == 1,
        [b'1'..=b'9', rest @ ..] => rest.len() < 19 && rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if plain {
        std::str::from_utf8(text).ok()?.parse().ok()
    } else {
        None
    }
}

/// A map by such hashes, which need no more hashing.
pub(crate) type ByKey<V> = HashMap<u64, V, BuildHasherDefault<Already>>;

/// Takes a hash for what it is.
#[derive(Default)]
pub(crate) struct Already(u64);

impl Hasher for Already {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        debug_assert!(false, "only hashes are hashed here: {bytes:?}");
    }
    fn write_u64(&mut self, n: u64) {
        self.0 = n;
    }
}

/// A column of strings with the hash of each.
#[derive(Clone)]
pub(crate) struct Keys {
    column: StrColumn,
    by_ord: Arc<Vec<u64>>,
}

impl Keys {
    /// Opens a column; `None` if the segment has none. `bare` leaves out what stands before the first `#`: uids
    /// of typed indices are `type#id`.
    ///
    /// # Errors
    /// Unreadable files.
    pub(crate) fn open(segment: &SegmentView, column: &str, bare: bool) -> Result<Option<Keys>> {
        let Some(strings) = segment.reader.fast_fields().str(column).map_err(broken)? else {
            return Ok(None);
        };
        let by_ord = segment.core.cached(&format!("keys {bare} {column}"), || {
            let mut by_ord = Vec::with_capacity(strings.num_terms());
            let mut terms = strings.dictionary().stream().map_err(broken)?;
            while terms.advance() {
                let term = terms.key();
                let from = if bare {
                    term.iter().position(|b| *b == b'#').map_or(0, |at| at + 1)
                } else {
                    0
                };
                by_ord.push(hash(&term[from..]));
            }
            Ok(by_ord)
        })?;
        Ok(Some(Keys { column: strings, by_ord }))
    }

    /// The ordinal and hash of a document's first string.
    #[inline]
    pub(crate) fn of(&self, doc: DocId) -> Option<(u64, u64)> {
        let ord = self.column.term_ords(doc).next()?;
        let hash = self.by_ord.get(usize::try_from(ord).ok()?)?;
        Some((ord, *hash))
    }

    /// Calls `f` with the ordinal and hash of each of a document's strings.
    #[inline]
    pub(crate) fn each(&self, doc: DocId, mut f: impl FnMut(u64, u64)) {
        for ord in self.column.term_ords(doc) {
            if let Some(hash) = usize::try_from(ord).ok().and_then(|at| self.by_ord.get(at)) {
                f(ord, *hash);
            }
        }
    }

    /// The string of an ordinal.
    ///
    /// # Errors
    /// Unreadable files.
    pub(crate) fn text(&self, ord: u64) -> Result<String> {
        let mut out = String::new();
        self.column.ord_to_str(ord, &mut out).map_err(broken)?;
        Ok(out)
    }
}
