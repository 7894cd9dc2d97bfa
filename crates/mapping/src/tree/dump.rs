//! A whole tree as bytes, for checkpoints: numbers little-endian; a head, then each directory in the order of its number.
//!
//! Not here: the file that the bytes lie in, and its checksums.

use super::DirId;
use super::directories::{DirectoryNode, NOWHERE, Place, Tree};
use model::{Error, ErrorKind, Result};
use std::sync::Arc;

const VERSION: u32 = 1;
const IN: u8 = 0;
const MERGED: u8 = 1;
const GONE: u8 = 2;
/// The root of a field where case does not count.
const FOLDING: u8 = 3;

impl Tree {
    /// Its bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(32 + self.nodes.len() * 32);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&(self.nodes.len() as u32).to_le_bytes());
        out.extend_from_slice(&self.seq.to_le_bytes());
        out.extend_from_slice(&self.moved.to_le_bytes());
        for (id, node) in self.nodes.iter().enumerate() {
            let (tag, other) = match node.place {
                Place::In(parent) if self.folding.contains_key(&(id as DirId)) => (FOLDING, parent),
                Place::In(parent) => (IN, parent),
                Place::MergedInto(into) => (MERGED, into),
                Place::Gone => (GONE, 0),
            };
            out.push(tag);
            out.extend_from_slice(&other.to_le_bytes());
            out.extend_from_slice(&self.last_move_of(id as DirId).to_le_bytes());
            out.extend_from_slice(&(node.name.len() as u32).to_le_bytes());
            out.extend_from_slice(node.name.as_bytes());
        }
        debug_assert!(
            read(&out).is_some_and(|read| {
                let own = (self.len(), self.names.len(), self.merged.len(), self.removed.len());
                own == (read.len(), read.names.len(), read.merged.len(), read.removed.len())
            }),
            "trees.md D9: a start reads {self:?} as it was written"
        );
        out
    }

    /// From those bytes.
    ///
    /// # Errors
    /// `Corruption` where they are none.
    pub fn from_bytes(bytes: &[u8]) -> Result<Tree> {
        let corrupt = || Error::new(ErrorKind::Corruption, "the bytes of a tree of directories are not sound");
        read(bytes).ok_or_else(corrupt)
    }
}

fn read(bytes: &[u8]) -> Option<Tree> {
    let mut rest = bytes;
    if number(&mut rest)? != VERSION {
        return None;
    }
    let count = number(&mut rest)?;
    let mut tree = Tree {
        seq: long(&mut rest)?,
        moved: long(&mut rest)?,
        ..Tree::default()
    };
    let mut nodes = Vec::new();
    for id in 0..count {
        let tag = take(&mut rest, 1)?[0];
        let other = number(&mut rest)?;
        let moved = long(&mut rest)?;
        let length = number(&mut rest)? as usize;
        let name: Arc<str> = std::str::from_utf8(take(&mut rest, length)?).ok()?.into();
        let place = match tag {
            IN => Place::In(other),
            FOLDING => {
                tree.folding.insert(id, ());
                Place::In(other)
            }
            MERGED => Place::MergedInto(other),
            GONE => Place::Gone,
            _ => return None,
        };
        if moved > 0 {
            tree.moves.insert(id, moved);
        }
        nodes.push(DirectoryNode { place, name });
    }
    tree.nodes = nodes.into_iter().collect();
    if !rest.is_empty() || !tree.has_sound_places() {
        return None;
    }
    tree.index();
    tree.is_found_by_names().then_some(tree)
}

impl Tree {
    /// Can operations have made it (trees.md D1 to D3)? Bytes with a good checksum may be those of a stranger, and every way up must
    /// end.
    fn has_sound_places(&self) -> bool {
        let count = self.nodes.len();
        let leads_on = |node: &DirectoryNode| match node.place {
            Place::In(NOWHERE) | Place::Gone => true,
            Place::In(parent) => {
                let parent = self.nodes.get(parent as usize);
                parent.is_some_and(|parent| !matches!(parent.place, Place::MergedInto(_)))
            }
            Place::MergedInto(into) => (into as usize) < count,
        };
        count as u64 <= self.seq
            && self.moved <= self.seq
            && self.moves.values().all(|moved| *moved <= self.moved)
            && self.nodes.iter().all(leads_on)
            && self.has_no_circle()
    }

    /// Is each directory found by what it is found by? No two have one place and name, or one removal.
    fn is_found_by_names(&self) -> bool {
        self.names.len() + self.merged.len() + self.removed.len() == self.nodes.len()
    }

    /// Does the way up from every directory end? Each step is taken once.
    fn has_no_circle(&self) -> bool {
        // The directory from which one was come by first.
        let mut come_from: Vec<Option<DirId>> = vec![None; self.nodes.len()];
        for start in 0..self.nodes.len() as DirId {
            let mut at = start;
            while let Some(seen) = come_from.get_mut(at as usize) {
                match seen {
                    Some(first) if *first == start => return false,
                    Some(_) => break,
                    None => *seen = Some(start),
                }
                match self.nodes[at as usize].place {
                    Place::In(next) | Place::MergedInto(next) => at = next,
                    Place::Gone => break,
                }
            }
        }
        true
    }

    /// Makes what directories are found by. In order it is put together without a search.
    fn index(&mut self) {
        let (mut names, mut merged, mut removed) = (Vec::new(), Vec::new(), Vec::new());
        for (id, node) in self.nodes.iter().enumerate() {
            let id = id as DirId;
            match node.place {
                Place::In(parent) => names.push(self.named_child(parent, &node.name, id)),
                Place::MergedInto(into) => merged.push(((into, id), ())),
                Place::Gone => removed.push((self.last_move_of(id), id)),
            }
        }
        names.sort_unstable();
        self.names = names.into_iter().collect();
        self.merged = merged.into_iter().collect();
        self.removed = removed.into_iter().collect();
    }
}

fn take<'b>(rest: &mut &'b [u8], count: usize) -> Option<&'b [u8]> {
    let (taken, left) = rest.split_at_checked(count)?;
    *rest = left;
    Some(taken)
}

fn number(rest: &mut &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(take(rest, 4)?.try_into().ok()?))
}

fn long(rest: &mut &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(take(rest, 8)?.try_into().ok()?))
}
