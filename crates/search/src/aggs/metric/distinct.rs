//! `value_count` and `cardinality`.

use super::super::block_values::BlockCodes;
use super::super::blocks::{Block, Buckets};
use super::super::fork::same_kind;
use super::super::values::ValuesSource;
use super::super::{At, Collector, Finish};
use model::Result;
use rustc_hash::FxHashSet;
use serde_json::{Map, Value, json};
use tantivy::DocId;

/// Counts values.
pub(in crate::aggs) struct Count {
    source: ValuesSource,
    counts: Vec<u64>,
    codes: Vec<u64>,
    block: BlockCodes,
}

impl Count {
    pub(in crate::aggs) fn new(source: ValuesSource) -> Count {
        Count {
            source,
            counts: Vec::new(),
            codes: Vec::new(),
            block: BlockCodes::default(),
        }
    }
    fn at(&self, bucket: u32) -> u64 {
        self.counts.get(bucket as usize).copied().unwrap_or(0)
    }
}

impl Collector for Count {
    fn segment(&mut self, at: &At<'_>) -> Result<()> {
        self.source.segment(at)
    }
    fn collect(&mut self, doc: DocId, score: f32, bucket: u32) -> Result<()> {
        let more = self.source.count(doc, score, &mut self.codes)?;
        let at = bucket as usize;
        if at >= self.counts.len() {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] += more as u64;
        Ok(())
    }
    fn collect_block(&mut self, block: &Block<'_>) -> Result<()> {
        let mut codes = std::mem::take(&mut self.block);
        let read = self.source.codes_of_block(block, false, &mut codes);
        if read {
            self.counts.resize(block.buckets_end().max(self.counts.len()), 0);
            for value in 0..codes.list.len() {
                self.counts[block.bucket(codes.rows.place(value)) as usize] += 1;
            }
        }
        self.block = codes;
        if read {
            return Ok(());
        }
        block.each(|doc, score, bucket| self.collect(doc, score, bucket))
    }
    fn is_divisible(&self) -> bool {
        true
    }
    fn absorb(&mut self, other: Box<dyn Collector>, buckets: &[u32]) -> Result<()> {
        let other: Count = same_kind(other)?;
        for (count, bucket) in other.counts.iter().zip(buckets).filter(|(count, _)| **count > 0) {
            let bucket = *bucket as usize;
            self.counts.resize(self.counts.len().max(bucket + 1), 0);
            self.counts[bucket] += count;
        }
        Ok(())
    }
    fn finish(&mut self, bucket: u32, _to: &mut Finish<'_>) -> Result<Value> {
        Ok(json!({ "value": self.at(bucket) }))
    }
    fn order(&mut self, bucket: u32, _rest: &[&str]) -> Result<f64> {
        Ok(self.at(bucket) as f64)
    }
    fn wants_scores(&self) -> bool {
        self.source.wants_scores()
    }
    fn wire_type(&self) -> &'static str {
        "value_count"
    }
}

/// Counts different values, exactly: codes of a source are the same for the same value.
pub(in crate::aggs) struct Distinct {
    source: ValuesSource,
    seen: Vec<Seen>,
    codes: Vec<u64>,
    block: BlockCodes,
    /// Segments by what their values are told apart by: numbers, ordinals, texts, nothing.
    used: [u64; 4],
}

/// A set that is a bitmap as long as its codes are small (ordinals).
#[derive(Default)]
struct Seen {
    bits: Vec<u64>,
    count: u64,
    rest: FxHashSet<u64>,
}

impl Seen {
    fn insert(&mut self, code: u64, dense: bool) {
        if !dense || code >= 1 << 24 {
            self.count += u64::from(self.rest.insert(code));
            return;
        }
        let (at, bit) = ((code / 64) as usize, 1 << (code % 64));
        if at >= self.bits.len() {
            self.bits.resize((at + 1).next_power_of_two(), 0);
        }
        self.count += u64::from(self.bits[at] & bit == 0);
        self.bits[at] |= bit;
    }
}

impl Seen {
    /// All codes.
    fn codes(&self) -> impl Iterator<Item = u64> {
        let of_word = |(at, word): (usize, &u64)| {
            let (at, word) = (at as u64 * 64, *word);
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| at + bit)
        };
        let small = self.bits.iter().enumerate().filter(|(_, word)| **word > 0).flat_map(of_word);
        small.chain(self.rest.iter().copied())
    }
}

impl Distinct {
    pub(in crate::aggs) fn new(source: ValuesSource) -> Distinct {
        Distinct {
            source,
            seen: Vec::new(),
            codes: Vec::new(),
            block: BlockCodes::default(),
            used: [0; 4],
        }
    }
    /// The set of a bucket.
    fn of(&mut self, bucket: u32) -> &mut Seen {
        let at = bucket as usize;
        if at >= self.seen.len() {
            self.seen.resize_with(at + 1, Seen::default);
        }
        &mut self.seen[at]
    }
    /// Takes the codes of a block, which were read.
    fn add_block(&mut self, block: &Block<'_>, codes: &BlockCodes) {
        match block.buckets {
            _ if codes.list.is_empty() => {}
            Buckets::Same(bucket) => {
                let seen = self.of(bucket);
                codes.list.iter().for_each(|code| seen.insert(*code, bucket == 0));
            }
            Buckets::Each(buckets) => {
                for (value, code) in codes.list.iter().enumerate() {
                    let bucket = buckets[codes.rows.place(value)];
                    self.of(bucket).insert(*code, bucket == 0);
                }
            }
        }
    }
    fn at(&self, bucket: u32) -> u64 {
        self.seen.get(bucket as usize).map_or(0, |seen| seen.count)
    }
}

impl Collector for Distinct {
    fn segment(&mut self, at: &At<'_>) -> Result<()> {
        self.source.segment(at)?;
        let by = match self.source.is_multivalued() {
            _ if self.source.is_scripted() => 2,
            None => 3,
            Some(_) if self.source.class.is_number() => 0,
            Some(_) => 1,
        };
        self.used[by] += 1;
        Ok(())
    }
    fn debug(&self) -> Map<String, Value> {
        let [numbers, ordinals, texts, nothing] = self.used;
        // All values are counted, so nothing is given up for its size and nothing is pruned.
        let all = [
            ("empty_collectors_used", nothing),
            ("numeric_collectors_used", numbers),
            ("ordinals_collectors_used", ordinals),
            ("ordinals_collectors_overhead_too_high", 0),
            ("string_hashing_collectors_used", texts),
            ("dynamic_pruned_segments", 0),
        ];
        all.into_iter().map(|(name, count)| (name.to_owned(), count.into())).collect()
    }
    fn collect(&mut self, doc: DocId, score: f32, bucket: u32) -> Result<()> {
        self.source.codes(doc, score, &mut self.codes, false)?;
        if self.codes.is_empty() {
            return Ok(());
        }
        // A bitmap for each of many buckets would be mostly empty.
        let codes = std::mem::take(&mut self.codes);
        let seen = self.of(bucket);
        codes.iter().for_each(|code| seen.insert(*code, bucket == 0));
        self.codes = codes;
        Ok(())
    }
    fn collect_block(&mut self, block: &Block<'_>) -> Result<()> {
        let mut codes = std::mem::take(&mut self.block);
        if self.source.codes_of_block(block, false, &mut codes) {
            self.add_block(block, &codes);
            self.block = codes;
            return Ok(());
        }
        self.block = codes;
        block.each(|doc, score, bucket| self.collect(doc, score, bucket))
    }
    fn is_divisible(&self) -> bool {
        true
    }
    fn absorb(&mut self, other: Box<dyn Collector>, buckets: &[u32]) -> Result<()> {
        let other: Distinct = same_kind(other)?;
        for (seen, bucket) in other.seen.iter().zip(buckets) {
            for code in seen.codes() {
                let code = self.source.adopt(&other.source, code)?;
                self.of(*bucket).insert(code, *bucket == 0);
            }
        }
        Ok(())
    }
    fn finish(&mut self, bucket: u32, _to: &mut Finish<'_>) -> Result<Value> {
        Ok(json!({ "value": self.at(bucket) }))
    }
    fn order(&mut self, bucket: u32, _rest: &[&str]) -> Result<f64> {
        Ok(self.at(bucket) as f64)
    }
    fn wants_scores(&self) -> bool {
        self.source.wants_scores()
    }
    fn wire_type(&self) -> &'static str {
        "cardinality"
    }
}
