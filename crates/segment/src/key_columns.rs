//! Keys that join documents: the strings of a column as keys of 128 bits, the same in all segments.
//!
//! Ordinals differ from segment to segment, so a join over several would have to compare strings. Instead each
//! segment has an array from ordinal to key, made before the segment is published ([`prepare`]) and kept with it: a
//! refresh adds arrays for its new segments and rebuilds nothing.
//!
//! One half of a key is a 64-bit hash: its place in tables. Two values may share it, so a document matches only if the other
//! half agrees too. For whole numbers that half is the number itself, for texts a second hash with a key of its own. Both
//! hashes are keyed by the process, so nobody can choose ids that collide. Two texts have one key with a chance of 2^-128.
//!
//! Not here: which columns are joined (`scorers::parent_child` and `joins` of `search`).

use crate::derived::Footprint;
use crate::error::broken;
use crate::segment_view::SegmentView;
use model::Result;
use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher, RandomState};
use std::sync::{Arc, OnceLock};
use tantivy::DocId;
use tantivy::columnar::{ColumnIndex, StrColumn};

/// The 128 bits that stand for a value in joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Where it lies.
    place: u64,
    /// The check among the keys of one place.
    check: u64,
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.place);
    }
}

struct Hashes {
    place: RandomState,
    check: RandomState,
    /// The bits of places that are used: all but in the test of collisions.
    bits: u64,
}

/// Set for a debug build, it makes nearly all keys collide.
const WEAK: &str = "WEAK_JOIN_HASHES";

fn hashes() -> &'static Hashes {
    static HASHES: OnceLock<Hashes> = OnceLock::new();
    HASHES.get_or_init(|| Hashes {
        place: RandomState::new(),
        check: RandomState::new(),
        bits: if cfg!(debug_assertions) && (cfg!(test) || std::env::var_os(WEAK).is_some()) {
            3
        } else {
            u64::MAX
        },
    })
}

/// An odd number of the process, for filters of halves of keys.
pub(crate) fn filter_multiplier() -> u64 {
    hashes().check.hash_one("filter") | 1
}

impl Key {
    /// Its place in tables.
    #[inline]
    pub(crate) fn place(self) -> u64 {
        self.place
    }
    /// Its other half: of a whole number the number.
    #[inline]
    pub(crate) fn check(self) -> u64 {
        self.check
    }
    /// The key of a text; one that is a whole number has the key of that number.
    pub fn of(text: &[u8]) -> Key {
        match whole(text) {
            Some(n) => Key::of_int(n),
            None => Key {
                place: hashes().place.hash_one(text) & hashes().bits,
                check: hashes().check.hash_one(text),
            },
        }
    }
    /// The key of a whole number.
    pub fn of_int(n: i64) -> Key {
        Key {
            place: hashes().place.hash_one(n) & hashes().bits,
            check: n.cast_unsigned(),
        }
    }
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

/// A map by keys, which need no more hashing.
pub type ByKey<V> = HashMap<Key, V, BuildHasherDefault<Already>>;

/// Takes a hash for what it is.
#[derive(Default)]
pub struct Already(u64);

impl Hasher for Already {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        debug_assert!(false, "search.md S15: a key is hashed by its place alone, not by {bytes:?}");
    }
    fn write_u64(&mut self, n: u64) {
        self.0 = n;
    }
}

/// A column of strings with the key of each.
#[derive(Clone)]
pub struct Keys {
    column: StrColumn,
    by_ord: Arc<Vec<Key>>,
}

/// The keys of a column that a segment keeps, or that it has no such column.
impl Footprint for Option<Keys> {
    fn heap_bytes(&self) -> usize {
        self.as_ref().map_or(0, |keys| {
            // Where its blocks begin and how they are packed.
            let blocks = keys.column.num_rows() as usize / BLOCK_ROWS + 1;
            keys.by_ord.heap_bytes() + blocks * BLOCK_BYTES
        })
    }
}

/// Rows of a block of a column, and about what is kept of each block while the column is open.
const BLOCK_ROWS: usize = 512;
const BLOCK_BYTES: usize = 48;

/// How arrays are called among what a segment keeps.
const KEPT: &str = "keys: ";

/// Makes the arrays of a new segment that the segments beside it have been asked for: the next search of their index
/// would look for them.
///
/// # Errors
/// Unreadable files.
pub fn prepare(segment: &SegmentView, beside: &[Arc<SegmentView>]) -> Result<()> {
    let mut wanted: Vec<(String, bool)> = Vec::new();
    for other in beside {
        for name in other.core.derived_names(KEPT) {
            let known = name.strip_prefix(KEPT).and_then(|name| name.split_once(' '));
            wanted.extend(known.map(|(bare, column)| (column.to_owned(), bare == "true")));
        }
    }
    wanted.sort_unstable();
    wanted.dedup();
    for (column, bare) in wanted {
        Keys::open(segment, &column, bare)?;
    }
    Ok(())
}

impl Keys {
    /// Opens a column; `None` if the segment has none. `bare` leaves out what stands before the first `#`: uids
    /// of typed indices are `type#id`.
    ///
    /// # Errors
    /// Unreadable files.
    pub fn open(segment: &SegmentView, column: &str, bare: bool) -> Result<Option<Keys>> {
        // The column is kept as well: opening one reads where each of its blocks begins.
        let kept = segment.core.once(&format!("{KEPT}{bare} {column}"), || {
            let Some(strings) = segment.reader.fast_fields().str(column).map_err(broken)? else {
                return Ok(None);
            };
            let mut by_ord = Vec::with_capacity(strings.num_terms());
            let mut terms = strings.dictionary().stream().map_err(broken)?;
            while terms.advance() {
                let term = terms.key();
                let from = if bare {
                    term.iter().position(|b| *b == b'#').map_or(0, |at| at + 1)
                } else {
                    0
                };
                by_ord.push(Key::of(&term[from..]));
            }
            debug_assert_eq!(by_ord.len(), strings.num_terms(), "search.md S14: a key for each string");
            Ok(Some(Keys {
                column: strings,
                by_ord: Arc::new(by_ord),
            }))
        })?;
        Ok(Option::clone(&kept))
    }

    /// The keys of strings that are no column of the segment; `name` is their name.
    ///
    /// # Errors
    /// Unreadable files.
    pub fn over(segment: &SegmentView, name: &str, strings: StrColumn) -> Result<Keys> {
        let by_ord = segment.core.once(&format!("keys over {name}"), || {
            let mut by_ord = Vec::with_capacity(strings.num_terms());
            let mut terms = strings.dictionary().stream().map_err(broken)?;
            while terms.advance() {
                by_ord.push(Key::of(terms.key()));
            }
            debug_assert_eq!(by_ord.len(), strings.num_terms(), "search.md S14: a key for each string");
            Ok(by_ord)
        })?;
        Ok(Keys { column: strings, by_ord })
    }

    /// The key of each string, in the order of ordinals.
    pub fn by_ordinal(&self) -> &[Key] {
        &self.by_ord
    }

    /// The ordinal of a string; `None` if no document has it.
    ///
    /// # Errors
    /// Unreadable files.
    pub fn ordinal(&self, text: &str) -> Result<Option<u64>> {
        self.column.dictionary().term_ord(text).map_err(broken)
    }

    /// The column.
    pub fn column(&self) -> &StrColumn {
        &self.column
    }

    /// The ordinal and key of a document's first string.
    #[inline]
    pub fn of(&self, doc: DocId) -> Option<(u64, Key)> {
        let ord = self.column.term_ords(doc).next()?;
        debug_assert!(ord < self.by_ord.len() as u64, "an ordinal is below the number of terms");
        let key = self.by_ord.get(usize::try_from(ord).ok()?)?;
        Some((ord, *key))
    }

    /// The key of a document's smallest string.
    #[inline]
    pub fn least(&self, doc: DocId) -> Option<Key> {
        self.by_ord.get(usize::try_from(self.least_ordinal(doc)?).ok()?).copied()
    }

    /// The ordinal of a document's smallest string.
    #[inline]
    pub fn least_ordinal(&self, doc: DocId) -> Option<u64> {
        let ords = self.column.ords();
        match ords.index {
            ColumnIndex::Full => Some(ords.values.get_val(doc)),
            _ => self.column.term_ords(doc).min(),
        }
    }

    /// Calls `f` with the ordinal and key of each of a document's strings.
    #[inline]
    pub fn each(&self, doc: DocId, mut f: impl FnMut(u64, Key)) {
        for ord in self.column.term_ords(doc) {
            if let Some(key) = usize::try_from(ord).ok().and_then(|at| self.by_ord.get(at)) {
                f(ord, *key);
            }
        }
    }

    /// The string of an ordinal.
    ///
    /// # Errors
    /// Unreadable files.
    pub fn text(&self, ord: u64) -> Result<String> {
        let mut out = String::new();
        self.column.ord_to_str(ord, &mut out).map_err(broken)?;
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_lie_together_are_told_apart() {
        // Unit tests have four places: nearly every two of these share one.
        let mut found: ByKey<usize> = ByKey::default();
        let texts: Vec<String> = (0..200).map(|n| format!("key {n}")).collect();
        for (n, text) in texts.iter().enumerate() {
            assert_eq!(found.insert(Key::of(text.as_bytes()), n), None);
            found.insert(Key::of_int(i64::try_from(n).unwrap()), n);
        }
        let places: std::collections::HashSet<u64> = found.keys().map(|key| key.place).collect();
        assert!(places.len() <= 4, "the hash of the test is weak");
        assert_eq!(found.len(), 400);
        for (n, text) in texts.iter().enumerate() {
            assert_eq!(found.get(&Key::of(text.as_bytes())), Some(&n));
            assert_eq!(
                found.get(&Key::of(n.to_string().as_bytes())),
                Some(&n),
                "a text that is a number is the number"
            );
        }
        assert_eq!(found.get(&Key::of(b"key 200")), None);
        assert_eq!(found.get(&Key::of_int(200)), None);
        assert_ne!(Key::of(b"07"), Key::of_int(7));
    }
}
