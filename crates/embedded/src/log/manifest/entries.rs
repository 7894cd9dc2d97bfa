//! The bytes of a manifest's entries: each key and each value has a checksum of its own, so that a damaged value costs
//! its key and no other.
//!
//! An entry: key length, value length, tag (one byte), key, CRC of these, value, CRC of the value. Not here: frames (`format`).

use crate::log::format::corrupt;
use model::Result;

const HEAD_BYTES: usize = 4 + 4 + 1;
const CRC_BYTES: usize = 4;
/// No key is longer: a longer one is no entry.
const KEY_MAX_BYTES: usize = 64 << 10;

/// The value of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// There is none any more.
    Removed,
    /// Its bytes.
    Value(Vec<u8>),
    /// Its bytes are lost, and why.
    Damaged(String),
}

impl Entry {
    fn parts(&self) -> (u8, &[u8]) {
        match self {
            Entry::Removed => (0, &[]),
            Entry::Value(bytes) => (1, bytes),
            Entry::Damaged(reason) => (2, reason.as_bytes()),
        }
    }
}

/// An entry as it lies in a body.
pub(super) struct FoundEntry {
    pub(super) key: String,
    /// `None`: the value does not match its checksum.
    pub(super) entry: Option<Entry>,
    /// Where it begins in the body.
    pub(super) at: usize,
    end: usize,
}

/// Bytes of an entry.
pub(super) fn entry_bytes(key: &str, entry: &Entry) -> u64 {
    (HEAD_BYTES + key.len() + 2 * CRC_BYTES + entry.parts().1.len()) as u64
}

/// Appends an entry.
pub(super) fn write_entry(out: &mut Vec<u8>, key: &str, entry: &Entry) {
    assert!(
        key.len() <= KEY_MAX_BYTES,
        "7: a key of [{}] bytes would be read as damage",
        key.len()
    );
    let at = out.len();
    let (tag, value) = entry.parts();
    out.extend_from_slice(&(key.len() as u32).to_le_bytes());
    out.extend_from_slice(&(value.len() as u32).to_le_bytes());
    out.push(tag);
    out.extend_from_slice(key.as_bytes());
    let head_crc = crc32fast::hash(&out[at..]);
    out.extend_from_slice(&head_crc.to_le_bytes());
    out.extend_from_slice(value);
    out.extend_from_slice(&crc32fast::hash(value).to_le_bytes());
    assert_eq!(
        (out.len() - at) as u64,
        entry_bytes(key, entry),
        "7: an entry is as long as it is counted"
    );
}

/// The entries of a body that matches its checksum.
pub(super) fn read_entries(body: &[u8]) -> Result<Vec<(String, Entry)>> {
    let mut entries = Vec::new();
    let mut at = 0;
    while at < body.len() {
        let found = read_entry(body, at).and_then(|found| Some((found.key, found.entry?, found.end)));
        let (key, entry, end) = found.ok_or_else(|| corrupt("an entry is not sound"))?;
        entries.push((key, entry));
        at = end;
    }
    Ok(entries)
}

/// The entries that are left in a damaged body, and whether entries may be missing whose keys nobody knows.
pub(super) fn salvage(body: &[u8]) -> (Vec<FoundEntry>, bool) {
    let (mut found, mut gaps) = (Vec::new(), false);
    let mut at = 0;
    while at < body.len() {
        match read_entry(body, at) {
            Some(entry) => {
                at = entry.end;
                found.push(entry);
            }
            None => {
                gaps = true;
                at += 1;
            }
        }
    }
    (found, gaps)
}

/// The entry that begins at `at`, if its key is sound.
fn read_entry(body: &[u8], at: usize) -> Option<FoundEntry> {
    let number = |offset: usize| {
        let bytes = body.get(at + offset..at + offset + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?) as usize)
    };
    let (key_bytes, value_bytes) = (number(0)?, number(4)?);
    if key_bytes > KEY_MAX_BYTES {
        return None;
    }
    let head = body.get(at..at + HEAD_BYTES + key_bytes)?;
    if number(head.len())? as u32 != crc32fast::hash(head) {
        return None;
    }
    let key = std::str::from_utf8(&head[HEAD_BYTES..]).ok()?.to_owned();
    let value_at = at + head.len() + CRC_BYTES;
    let end = value_at.checked_add(value_bytes)?;
    // A value that is cut short is damaged; its key is known.
    let value = body.get(value_at..end);
    let crc = body.get(end..end.checked_add(CRC_BYTES)?);
    let value = value.filter(|value| crc == Some(&crc32fast::hash(value).to_le_bytes()[..]));
    let entry = value.and_then(|value| match head[8] {
        0 => Some(Entry::Removed),
        1 => Some(Entry::Value(value.to_vec())),
        2 => Some(Entry::Damaged(String::from_utf8_lossy(value).into_owned())),
        _ => None,
    });
    Some(FoundEntry {
        key,
        entry,
        at,
        end: (end + CRC_BYTES).min(body.len()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flip_costs_its_entry_alone() {
        let all: Vec<(String, Entry)> = (0..3)
            .map(|n| (format!("key/{n}"), Entry::Value(vec![n; 20])))
            .chain([
                ("gone".to_owned(), Entry::Removed),
                ("bad".to_owned(), Entry::Damaged("why".to_owned())),
            ])
            .collect();
        let mut body = Vec::new();
        for (key, entry) in &all {
            write_entry(&mut body, key, entry);
        }
        assert_eq!(read_entries(&body).unwrap(), all);
        for at in 0..body.len() {
            let mut flipped = body.clone();
            flipped[at] ^= 4;
            assert!(read_entries(&flipped).is_err(), "byte {at}");
            let (found, gaps) = salvage(&flipped);
            let sound = found.iter().filter(|found| found.entry.is_some()).count();
            assert_eq!(sound, 4, "byte {at}");
            assert!(gaps || found.len() == 5, "byte {at}: what is missing is known or told");
            for found in found {
                let Some(entry) = found.entry else { continue };
                assert!(all.contains(&(found.key, entry)), "byte {at}: no value is another's");
            }
        }
        for length in 0..body.len() {
            drop(salvage(&body[..length]));
        }
    }
}
