//! Segment files: named components in one file, with a CRC for each 64 KiB block.
//!
//! Layout: components one after the other (each begins at a multiple of 8), the contents table, one
//! CRC for each block of each component, a trailer of `TRAILER_BYTES` with its own CRC. Table, CRCs and trailer stand
//! there twice. A block has bytes of one component: damage in a checkpoint costs the part that it hits, and no
//! other index. Opening checks the trailer, the table and the list of CRCs; a block is checked when first touched
//! (write-path.md 7), so a start is fast and a flipped bit is named before its byte is used.
//!
//! Files of format version 1 have blocks of the whole data and one copy of their tables.
//!
//! Invariant: no byte of a component leaves [`SegmentFile`] whose block has not been verified.
//!
//! Not here: when files are synced and named in the manifest, what components mean.

use super::{Disk, Image, SequentialWriter, refusal};
use model::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::io;
use std::ops::{Deref, Range};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that one CRC covers.
const BLOCK_BYTES: usize = 64 << 10;
const TRAILER_BYTES: usize = 40;
const MAGIC: [u8; 4] = *b"PLsg";
const FORMAT_VERSION: u32 = 2;
/// Blocks of the whole file, tables and trailer once. Still read.
const FORMAT_VERSION_1: u32 = 1;

/// Where each component lies in its file: offset and length, in bytes.
pub type Layout = BTreeMap<String, (u64, u64)>;

/// Writes a file of components; says where each lies. It is not synced: the checkpoint does that
/// for many at once. Errors: DiskFull, Internal; then no file is left.
pub fn write_segment(disk: &dyn Disk, path: &Path, components: &[(String, &[u8])]) -> Result<Layout> {
    disk.create(path)
        .and_then(|file| write_to(&mut SequentialWriter::new(file.as_ref()), components))
        .map_err(|e| {
            // The half file is no use to anyone; the first error is the one to tell of.
            drop(disk.remove(path));
            refusal("writing", path, &e)
        })
}

/// Writes components as a file, from its beginning to its end; says where each lies.
///
/// # Errors
/// The writer fails; a part of the file may be written by then.
pub fn write_to(to: &mut dyn io::Write, components: &[(String, &[u8])]) -> io::Result<Layout> {
    let mut out = Blocks::new(to);
    let mut layout = Layout::new();
    for (name, bytes) in components {
        out.append(&[0; 8][..(8 - out.length % 8) % 8])?;
        let before = layout.insert(name.clone(), (out.length as u64, bytes.len() as u64));
        assert!(
            before.is_none(),
            "write-path.md 7: component [{name}] has one place in its file"
        );
        out.component(bytes)?;
    }
    let data_bytes = out.length;
    assert_eq!(
        out.done.len(),
        components
            .iter()
            .map(|(_, bytes)| bytes.len().div_ceil(BLOCK_BYTES))
            .sum::<usize>(),
        "write-path.md 7: each block of each component has its checksum"
    );
    let mut tail = Vec::new();
    for (name, (offset, length)) in &layout {
        tail.extend_from_slice(&(name.len() as u32).to_le_bytes());
        tail.extend_from_slice(name.as_bytes());
        tail.extend_from_slice(&offset.to_le_bytes());
        tail.extend_from_slice(&length.to_le_bytes());
    }
    let table_bytes = tail.len();
    for crc in &out.done {
        tail.extend_from_slice(&crc.to_le_bytes());
    }
    let tables_crc = crc32fast::hash(&tail);
    let mut trailer = Vec::with_capacity(TRAILER_BYTES);
    trailer.extend_from_slice(&MAGIC);
    trailer.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    trailer.extend_from_slice(&(data_bytes as u64).to_le_bytes());
    trailer.extend_from_slice(&(table_bytes as u64).to_le_bytes());
    trailer.extend_from_slice(&((data_bytes + 2 * (tail.len() + TRAILER_BYTES)) as u64).to_le_bytes());
    trailer.extend_from_slice(&tables_crc.to_le_bytes());
    trailer.extend_from_slice(&crc32fast::hash(&trailer).to_le_bytes());
    assert_eq!(
        trailer.len(),
        TRAILER_BYTES,
        "write-path.md 7: a trailer is read by its length"
    );
    tail.extend_from_slice(&trailer);
    out.append(&tail)?;
    out.append(&tail)?;
    out.flush()?;
    assert!(
        out.waiting.is_empty() && out.length == data_bytes + 2 * tail.len(),
        "write-path.md 7: a segment file ends with the second copy of its tables"
    );
    Ok(layout)
}

/// Bytes on their way to a file, with the CRC of each block. What is large goes as it is, without a copy.
struct Blocks<'a> {
    to: &'a mut dyn io::Write,
    waiting: Vec<u8>,
    written: usize,
    /// With what waits.
    length: usize,
    /// The CRC of each block so far.
    done: Vec<u32>,
}

impl<'a> Blocks<'a> {
    fn new(to: &'a mut dyn io::Write) -> Blocks<'a> {
        Blocks {
            to,
            waiting: Vec::new(),
            written: 0,
            length: 0,
            done: Vec::new(),
        }
    }

    /// A component: its blocks begin with it, so that none has bytes of two.
    fn component(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.done.extend(bytes.chunks(BLOCK_BYTES).map(crc32fast::hash));
        self.append(bytes)
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.length += bytes.len();
        if bytes.len() < BLOCK_BYTES {
            self.waiting.extend_from_slice(bytes);
            return if self.waiting.len() < BLOCK_BYTES {
                Ok(())
            } else {
                self.flush()
            };
        }
        self.flush()?;
        self.write(bytes)
    }

    /// Writes what waits.
    fn flush(&mut self) -> io::Result<()> {
        let mut waiting = std::mem::take(&mut self.waiting);
        self.write(&waiting)?;
        waiting.clear();
        self.waiting = waiting;
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.written += bytes.len();
        debug_assert!(
            self.written <= self.length && self.waiting.is_empty(),
            "write-path.md 7: bytes are written where they belong"
        );
        self.to.write_all(bytes)
    }
}

/// Syncs a file that was written before. Errors: Internal; then it must be written anew under
/// another name (write-path.md 8).
pub fn sync_segment(disk: &dyn Disk, path: &Path) -> Result<()> {
    disk.open(path)
        .and_then(|file| file.sync_data())
        .map_err(|e| refusal("syncing", path, &e))
}

/// An open segment file. A clone is another handle to the same map and the same knowledge of what
/// has been verified.
#[derive(Clone, Debug)]
pub struct SegmentFile(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    image: Arc<Image>,
    tables: Tables,
    /// One bit a block. Set only after it was verified; two threads may verify the same one.
    verified: Vec<AtomicU64>,
}

impl SegmentFile {
    /// Opens a file and checks its tables, no data. Errors: Corruption naming the file, IllegalState
    /// (unknown format version), Internal.
    pub fn open(disk: &dyn Disk, path: &Path) -> Result<SegmentFile> {
        let image = disk.map(path).map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => corrupt(path, format!("[{}] is missing", crate::display_path(path))),
            _ => refusal("opening", path, &e),
        })?;
        let tables = read_tables(path, &image)?;
        let verified = (0..tables.crcs.len().div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Ok(SegmentFile(Arc::new(Inner {
            path: path.to_owned(),
            image: Arc::new(image),
            tables,
            verified,
        })))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Where each component lies.
    pub fn layout(&self) -> &Layout {
        &self.0.tables.layout
    }

    /// The file's bytes; only ranges that [`SegmentFile::verify`] gave may be used.
    pub fn image(&self) -> &Arc<Image> {
        &self.0.image
    }

    /// Verifies a range of a component (bytes from the component's beginning) and says where in the
    /// file it lies. Errors: Corruption naming file and offset; IllegalArgument (no such component,
    /// beyond its end).
    pub fn verify(&self, component: &str, range: Range<usize>) -> Result<Range<usize>> {
        let place = self.0.tables.layout.get(component);
        let (offset, length) = place.ok_or_else(|| {
            Error::illegal(format!(
                "no component [{component}] in [{}]",
                crate::display_path(&self.0.path)
            ))
        })?;
        if range.start > range.end || range.end as u64 > *length {
            let reason = format!(
                "bytes [{}..{}] are not in component [{component}] of [{length}] bytes",
                range.start, range.end
            );
            return Err(Error::illegal(reason));
        }
        let within = *offset as usize + range.start..*offset as usize + range.end;
        if !within.is_empty() {
            // The stretch that is checked in blocks: the component, in old files all of the data.
            let (first, from, bytes) = match self.0.tables.first_blocks.get(component) {
                Some(first) => (*first, *offset as usize, *length as usize),
                None => (0, 0, self.0.tables.data_bytes),
            };
            for block in (within.start - from) / BLOCK_BYTES..=(within.end - 1 - from) / BLOCK_BYTES {
                let at = from + block * BLOCK_BYTES;
                self.verify_block(first + block, at..(at + BLOCK_BYTES).min(from + bytes))?;
            }
        }
        Ok(within)
    }

    /// A range of a component, verified. Errors: as [`SegmentFile::verify`].
    pub fn read(&self, component: &str, range: Range<usize>) -> Result<Slice> {
        let range = self.verify(component, range)?;
        Ok(Slice {
            image: self.0.image.clone(),
            range,
        })
    }

    /// A whole component, verified. Errors: as [`SegmentFile::verify`].
    pub fn read_whole(&self, component: &str) -> Result<Slice> {
        let length = self.0.tables.layout.get(component).map_or(0, |(_, length)| *length as usize);
        self.read(component, 0..length)
    }

    fn verify_block(&self, block: usize, range: Range<usize>) -> Result<()> {
        let (word, bit) = (&self.0.verified[block / 64], 1 << (block % 64));
        // The bit guards nothing but itself: the bytes never change.
        if word.load(Ordering::Relaxed) & bit != 0 {
            return Ok(());
        }
        debug_assert!(
            range.end <= self.0.tables.data_bytes && range.len() <= BLOCK_BYTES,
            "write-path.md 7: block {block} has bytes of the data alone"
        );
        let from = range.start;
        let bytes = &self.0.image[range];
        if crc32fast::hash(bytes) != self.0.tables.crcs[block] {
            let reason = format!(
                "[{}] is damaged within the {} bytes at offset [{from}]",
                crate::display_path(&self.0.path),
                bytes.len()
            );
            return Err(corrupt(&self.0.path, reason).with("offset", from));
        }
        word.fetch_or(bit, Ordering::Relaxed);
        Ok(())
    }
}

/// Verified bytes of a segment file.
#[derive(Clone, Debug)]
pub struct Slice {
    image: Arc<Image>,
    range: Range<usize>,
}

impl Deref for Slice {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.image[self.range.clone()]
    }
}

fn corrupt(path: &Path, reason: String) -> Error {
    Error::new(ErrorKind::Corruption, reason).with("path", crate::display_path(path))
}

/// The tables of a file.
#[derive(Debug, Default)]
struct Tables {
    layout: Layout,
    /// The first block of each component; empty in old files, whose blocks are those of the whole data.
    first_blocks: BTreeMap<String, usize>,
    crcs: Vec<u32>,
    data_bytes: usize,
}

/// The tables, or their first copy if the last is damaged.
fn read_tables(path: &Path, image: &[u8]) -> Result<Tables> {
    let last = read_copy(path, image, image.len());
    let Err(damage) = last else { return last };
    if damage.kind() != ErrorKind::Corruption {
        return Err(damage);
    }
    // Where the first copy ends is where its own length says: the trailer behind it may be the one that is damaged.
    let ends = (TRAILER_BYTES..image.len())
        .rev()
        .filter(|end| image[end - TRAILER_BYTES..].starts_with(&MAGIC));
    let first = ends.take(2).find_map(|end| read_copy(path, image, end).ok());
    first.ok_or(damage)
}

/// The places that a trailer names.
struct Trailer {
    version: u32,
    data_bytes: usize,
    table_bytes: usize,
    /// The whole file.
    length: u64,
    /// The checksum of the table of contents and of the checksums of the blocks.
    tables_crc: u32,
    /// The place of its first byte.
    at: usize,
}

impl Trailer {
    /// The trailer that ends at `end`.
    fn read(path: &Path, image: &[u8], end: usize) -> Result<Trailer> {
        let at = end.checked_sub(TRAILER_BYTES).ok_or_else(|| {
            let what = format!("it ends at byte [{}], too early for a trailer", image.len());
            damage(path, &what)
        })?;
        let bytes = &image[at..end];
        if bytes[..4] != MAGIC || crc32fast::hash(&bytes[..36]) != u32_at(bytes, 36) {
            let what = format!("its trailer at byte [{at}] does not match its checksum");
            return Err(damage(path, &what).with("offset", at));
        }
        let version = u32_at(bytes, 4);
        if ![FORMAT_VERSION_1, FORMAT_VERSION].contains(&version) {
            let reason = format!("format version [{version}] of [{}] is unknown", crate::display_path(path));
            return Err(Error::new(ErrorKind::IllegalState, reason));
        }
        Ok(Trailer {
            version,
            data_bytes: u64_at(bytes, 8) as usize,
            table_bytes: u64_at(bytes, 16) as usize,
            length: u64_at(bytes, 24),
            tables_crc: u32_at(bytes, 32),
            at,
        })
    }
}

fn damage(path: &Path, what: &str) -> Error {
    corrupt(path, format!("[{}] is damaged: {what}", crate::display_path(path)))
}

/// The copy whose trailer ends at `end`.
fn read_copy(path: &Path, image: &[u8], end: usize) -> Result<Tables> {
    let damaged = |what: &str| damage(path, what);
    let Trailer {
        version,
        data_bytes,
        table_bytes,
        length,
        tables_crc,
        at,
    } = Trailer::read(path, image, end)?;
    let copies = if version == FORMAT_VERSION_1 { 1 } else { 2 };
    // A copy has the table, the CRCs and the trailer.
    let copy_bytes = (length as usize).saturating_sub(data_bytes) / copies;
    let from = end
        .checked_sub(copy_bytes)
        .filter(|from| *from >= data_bytes && *from + table_bytes <= at);
    let Some(from) = from.filter(|_| length == image.len() as u64) else {
        let what = format!("it has [{}] bytes, and its trailer says [{length}]", image.len());
        return Err(damaged(&what));
    };
    if crc32fast::hash(&image[from..at]) != tables_crc {
        let what = format!("its contents table at byte [{from}] does not match its checksum");
        return Err(damaged(&what).with("offset", from));
    }
    let (mut table, crcs) = image[from..at].split_at(table_bytes);
    let mut tables = Tables {
        crcs: crcs.chunks_exact(4).map(|crc| u32_at(crc, 0)).collect(),
        data_bytes,
        ..Tables::default()
    };
    while !table.is_empty() {
        let name_bytes = table.get(..4).map_or(0, |bytes| u32_at(bytes, 0) as usize);
        let entry = table
            .get(..4 + name_bytes + 16)
            .ok_or_else(|| damaged("its contents table is cut short"))?;
        let name = std::str::from_utf8(&entry[4..4 + name_bytes]).map_err(|_| damaged("a component's name is no UTF-8"))?;
        let (offset, length) = (u64_at(entry, 4 + name_bytes), u64_at(entry, 12 + name_bytes));
        if offset.checked_add(length).is_none_or(|end| end > data_bytes as u64) {
            return Err(damaged("a component lies beyond the data"));
        }
        tables.layout.insert(name.to_owned(), (offset, length));
        table = &table[entry.len()..];
    }
    let mut blocks = data_bytes.div_ceil(BLOCK_BYTES);
    if version > FORMAT_VERSION_1 {
        blocks = 0;
        let mut in_order: Vec<_> = tables.layout.iter().collect();
        in_order.sort_by_key(|(_, place)| **place);
        for (name, (_, length)) in in_order {
            tables.first_blocks.insert(name.clone(), blocks);
            blocks += (*length as usize).div_ceil(BLOCK_BYTES);
        }
    }
    debug_assert!(
        {
            let mut places: Vec<_> = tables.layout.values().collect();
            places.sort_unstable();
            places.windows(2).all(|two| two[0].0 + two[0].1 <= two[1].0)
        },
        "write-path.md 7: no byte is of two components"
    );
    if tables.crcs.len() != blocks {
        return Err(damaged("it does not have a checksum for each of its blocks"));
    }
    Ok(tables)
}

/// The number at an offset that the caller has checked.
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut array = [0; 4];
    array.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(array)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut array = [0; 8];
    array.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(array)
}

#[cfg(test)]
mod tests {
    use super::super::{FaultyDisk, RealDisk};
    use super::*;

    #[test]
    fn every_flipped_bit_is_named_before_use() {
        let disk = FaultyDisk::new(1);
        let path = Path::new("/d/segment");
        let long: Vec<u8> = (0..200_000u32).map(|i| (i % 251) as u8).collect();
        let components = [
            ("a".to_owned(), &b"hello"[..]),
            ("long".to_owned(), &long[..]),
            ("empty".to_owned(), &[][..]),
        ];
        let layout = write_segment(&disk, path, &components).unwrap();
        let bytes = disk.len(path).unwrap();
        let open = || SegmentFile::open(&disk, path);
        assert_eq!(open().unwrap().layout(), &layout);
        assert_eq!(&*open().unwrap().read("long", 70_000..70_010).unwrap(), &long[70_000..70_010]);
        assert_eq!(open().unwrap().read_whole("empty").unwrap().len(), 0);
        assert_eq!(
            open().unwrap().read("a", 0..6).unwrap_err().kind(),
            ErrorKind::IllegalArgument
        );
        let data_bytes = layout.values().map(|(offset, length)| offset + length).max().unwrap();
        for offset in (0..data_bytes).step_by(9973) {
            disk.flip(path, offset, 3);
            let file = open().unwrap();
            let (a, long) = (file.read_whole("a"), file.read_whole("long"));
            assert!(a.is_ok() != long.is_ok(), "byte {offset} costs its component alone");
            let damage = a.err().or(long.err()).unwrap();
            assert_eq!(damage.kind(), ErrorKind::Corruption, "byte {offset}");
            disk.flip(path, offset, 3);
        }
        // The tables stand there twice.
        for offset in data_bytes..bytes {
            disk.flip(path, offset, 3);
            assert_eq!(&*open().unwrap().read_whole("a").unwrap(), b"hello", "byte {offset}");
            disk.flip(path, offset, 3);
        }
        for offset in [bytes - 30, data_bytes + 110] {
            disk.flip(path, offset, 3);
        }
        let refused = open().err().unwrap();
        assert!(
            refused.kind() == ErrorKind::Corruption && refused.reason().contains("byte ["),
            "{refused}"
        );
        for offset in [bytes - 30, data_bytes + 110] {
            disk.flip(path, offset, 3);
        }
        disk.flip(path, 150_000, 0);
        let file = open().unwrap();
        file.read("long", 0..60_000).unwrap(); // the damage is elsewhere
        let refused = file.read("long", 100_000..160_000).unwrap_err();
        assert!(
            refused.reason().contains("/d/segment") && refused.reason().contains("[131080]"),
            "{refused}"
        );
    }

    /// A file as format version 1 wrote it: blocks of the whole data, tables once.
    #[test]
    fn an_old_file_is_read() {
        let disk = FaultyDisk::new(1);
        let path = Path::new("/d/old");
        let long = vec![7; 70_000];
        let mut file = b"hello\0\0\0".to_vec();
        file.extend_from_slice(&long);
        let data = file.clone();
        let mut tables = Vec::new();
        for (name, offset, length) in [("a", 0u64, 5u64), ("b", 8, 70_000)] {
            tables.extend_from_slice(&(name.len() as u32).to_le_bytes());
            tables.extend_from_slice(name.as_bytes());
            tables.extend_from_slice(&offset.to_le_bytes());
            tables.extend_from_slice(&length.to_le_bytes());
        }
        let table_bytes = tables.len() as u64;
        for block in data.chunks(BLOCK_BYTES) {
            tables.extend_from_slice(&crc32fast::hash(block).to_le_bytes());
        }
        let mut trailer = MAGIC.to_vec();
        trailer.extend_from_slice(&1u32.to_le_bytes());
        trailer.extend_from_slice(&(data.len() as u64).to_le_bytes());
        trailer.extend_from_slice(&table_bytes.to_le_bytes());
        trailer.extend_from_slice(&((data.len() + tables.len() + TRAILER_BYTES) as u64).to_le_bytes());
        trailer.extend_from_slice(&crc32fast::hash(&tables).to_le_bytes());
        trailer.extend_from_slice(&crc32fast::hash(&trailer).to_le_bytes());
        file.extend_from_slice(&tables);
        file.extend_from_slice(&trailer);
        disk.put(path, file);
        let old = SegmentFile::open(&disk, path).unwrap();
        assert_eq!(&*old.read_whole("a").unwrap(), b"hello");
        assert_eq!(&*old.read_whole("b").unwrap(), &long[..]);
        disk.flip(path, 69_000, 1);
        let damaged = SegmentFile::open(&disk, path).unwrap();
        assert!(damaged.read_whole("a").is_ok() && damaged.read_whole("b").is_err());
    }

    #[test]
    fn a_real_file_is_mapped() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        write_segment(&RealDisk, &path, &[("x".to_owned(), b"bytes")]).unwrap();
        sync_segment(&RealDisk, &path).unwrap();
        assert_eq!(
            &*SegmentFile::open(&RealDisk, &path).unwrap().read_whole("x").unwrap(),
            b"bytes"
        );
    }
}
