//! Documents to segments, in memory.
//!
//! Building cannot refuse: a document that tantivy will not take is indexed by identity, stamp and source only
//! (write-path.md 3), so that one bad document never keeps others from being searchable.
//!
//! Not here: which documents (`publish`), clearing what they replace.

use super::document::DocumentBlock;
use super::schema::IndexSchema;
use crate::directory::{Place, SegmentData, handle};
use crate::error::build_error;
use model::Result;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use tantivy::indexer::{AddOperation, SegmentWriter};
use tantivy::tokenizer::TokenizerManager;

/// Less than this `SegmentWriter` refuses or thrashes.
const BUDGET_MIN_BYTES: usize = 100 << 10;
const BUDGET_MAX_BYTES: usize = 30 << 20;

/// The result of a build.
#[derive(Default)]
pub struct Built {
    /// Segments, usually one; none for no blocks.
    pub segments: Vec<Arc<SegmentData>>,
    /// Which blocks are bare now, and why.
    pub poisoned: Vec<(usize, String)>,
}

/// The blocks to build from.
#[derive(Clone, Copy)]
pub struct Blocks<'a> {
    /// How many there are.
    pub count: usize,
    /// A guess at their size.
    pub bytes: usize,
    /// Makes one, in its turn, so that there is only one at a time. One that failed is asked for again.
    pub make: &'a dyn Fn(usize) -> DocumentBlock,
}

/// Builds segments of these blocks, in order.
///
/// # Errors
/// Not for a document's sake; only where no segment can be made at all.
pub fn build(
    schema: &IndexSchema,
    tokenizers: &TokenizerManager,
    blocks: Blocks<'_>,
    fresh_id: &dyn Fn() -> u64,
) -> Result<Built> {
    let mut building = Building {
        schema,
        tokenizers,
        make: blocks.make,
        fresh_id,
        built: Built::default(),
    };
    if blocks.count > 0 {
        building.part(0..blocks.count, blocks.bytes)?;
        assert!(
            building
                .built
                .segments
                .iter()
                .map(|data| data.max_doc as usize)
                .sum::<usize>()
                >= blocks.count,
            "write-path.md 3: {} blocks are built, each with a document at least",
            blocks.count
        );
    }
    Ok(building.built)
}

struct Building<'a> {
    schema: &'a IndexSchema,
    tokenizers: &'a TokenizerManager,
    make: &'a dyn Fn(usize) -> DocumentBlock,
    fresh_id: &'a dyn Fn() -> u64,
    built: Built,
}

impl Building<'_> {
    fn part(&mut self, range: Range<usize>, bytes: usize) -> Result<()> {
        let mut bare: Vec<usize> = Vec::new();
        loop {
            // Only what this call has found can be bare here.
            match self.attempt(range.clone(), &bare, bytes) {
                Ok(data) => {
                    self.built.segments.push(data);
                    return Ok(());
                }
                Err((Some(culprit), why)) if !bare.contains(&culprit) => {
                    self.built.poisoned.push((culprit, why));
                    bare.push(culprit);
                }
                // No culprit is known: halve, until it is alone.
                Err((_, why)) if range.len() == 1 => {
                    if bare.is_empty() {
                        self.built.poisoned.push((range.start, why));
                        bare.push(range.start);
                    } else {
                        return Err(model::Error::new(
                            model::ErrorKind::Internal,
                            format!("building a segment failed: {why}"),
                        ));
                    }
                }
                Err(_) => {
                    let middle = range.start + range.len() / 2;
                    self.part(range.start..middle, bytes / 2)?;
                    return self.part(middle..range.end, bytes / 2);
                }
            }
        }
    }

    /// One segment of all blocks; else the block that was at fault, if it is known. After any error the writer is
    /// dropped: its next call might panic.
    fn attempt(&self, range: Range<usize>, bare: &[usize], bytes: usize) -> Result<Arc<SegmentData>, (Option<usize>, String)> {
        let whole = |e: model::Error| (None, e.reason().to_owned());
        let (index, dir) = handle(self.schema, Some(self.tokenizers), &[]).map_err(whole)?;
        dir.expect(bytes);
        let segment = index.new_segment();
        let budget = (bytes * 2).clamp(BUDGET_MIN_BYTES, BUDGET_MAX_BYTES);
        let mut writer = SegmentWriter::for_segment(budget, segment.clone()).map_err(|e| whole(build_error(e)))?;
        let mut max_doc = 0;
        for n in range {
            let mut block = (self.make)(n);
            if bare.contains(&n) {
                block = block.bare();
            }
            assert!(!block.docs.is_empty(), "search.md S6: a block has its root at least");
            assert!(
                !bare.contains(&n) || block.docs.len() == 1,
                "write-path.md 3: a document that cannot be indexed leaves its root alone"
            );
            for document in block.docs {
                let operation = AddOperation {
                    opstamp: u64::from(max_doc),
                    document,
                };
                match catch_unwind(AssertUnwindSafe(|| writer.add_document(operation))) {
                    Ok(Ok(())) => max_doc += 1,
                    Ok(Err(e)) => return Err((Some(n), e.to_string())),
                    Err(_) => return Err((Some(n), "indexing it panicked".to_owned())),
                }
            }
        }
        match catch_unwind(AssertUnwindSafe(|| writer.finalize())) {
            Ok(Ok(_)) => {}
            Ok(Err(e)) => return Err((None, e.to_string())),
            Err(_) => return Err((None, "finishing the segment panicked".to_owned())),
        }
        let uuid = segment.id();
        Ok(Arc::new(SegmentData {
            id: (self.fresh_id)(),
            uuid,
            max_doc,
            place: Place::Memory(Arc::new(dir.components(uuid))),
            held: None,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{Envelope, block};
    use crate::schema::tokenizer_name;
    use mapping::{Mapping, MappingLimits, ReadOptions, Registry};
    use model::{DocId, Stamp};
    use serde_json::json;
    use tantivy::tokenizer::{SimpleTokenizer, TextAnalyzer, TokenStream, Tokenizer};

    /// Panics on one word.
    #[derive(Clone, Default)]
    struct Poisoned(SimpleTokenizer);

    impl Tokenizer for Poisoned {
        type TokenStream<'a> = Box<dyn TokenStream + 'a>;
        fn token_stream<'a>(&'a mut self, text: &'a str) -> Self::TokenStream<'a> {
            assert!(!text.contains("poison"), "the tokenizer fails on it");
            Box::new(self.0.token_stream(text))
        }
    }

    /// Builds these titles with a tokenizer that panics on "poison".
    fn check(titles: &[&str], bare: &[usize]) {
        let registry = Registry::default_registry();
        let body = json!({ "properties": { "title": { "type": "text" } } });
        let mapping = Mapping::parse(&body, &registry, &MappingLimits::default()).unwrap();
        let schema = Arc::new(IndexSchema::of(&mapping));
        let managers = TokenizerManager::default();
        for n in 0..schema.slots().len() {
            managers.register(&tokenizer_name(n), TextAnalyzer::from(Poisoned::default()));
        }
        let blocks: Vec<DocumentBlock> = titles
            .iter()
            .enumerate()
            .map(|(n, title)| {
                let source = json!({ "title": title });
                let id = DocId::plain(n.to_string());
                let options = ReadOptions {
                    id: &id.id,
                    type_name: "",
                    routing: None,
                    ..ReadOptions::default()
                };
                let parsed = mapping.read(&source, &options).unwrap();
                let text: Arc<[u8]> = source.to_string().into_bytes().into();
                let of = Envelope {
                    id: &id,
                    uid: &id.id,
                    stamp: Stamp {
                        seq_no: n as u64,
                        primary_term: 1,
                        version: 1,
                    },
                    source: &text,
                    fields: &[],
                    routing: None,
                    parent: None,
                    placed: &[],
                    hidden: None,
                };
                block(&schema, Some(parsed), of)
            })
            .collect();
        let next = std::sync::atomic::AtomicU64::new(1);
        let fresh = || next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let of = Blocks {
            count: blocks.len(),
            bytes: 1000,
            make: &|n| blocks[n].clone(),
        };
        let built = build(&schema, &managers, of, &fresh).unwrap();
        let mut found: Vec<_> = built.poisoned.iter().map(|(n, _)| *n).collect();
        found.sort_unstable();
        assert_eq!(found, bare, "{titles:?}");
        let docs: u32 = built.segments.iter().map(|segment| segment.max_doc).sum();
        assert_eq!(docs as usize, titles.len(), "{titles:?}: each is there, with its id at least");
    }

    #[test]
    fn poison_does_not_block_a_build() {
        check(&["a", "b"], &[]);
        check(&["a", "poison", "b"], &[1]);
        check(&["poison"], &[0]);
        check(&["poison", "poison", "a", "poison"], &[0, 1, 3]);
    }
}
