//! Clauses whose best matches are found without looking at all of them, by the bounds of blocks of their terms.
//!
//! A conjunction is pruned by the bounds of all its words, and so is a phrase: it is in a document no more often than its rarest
//! word there.
//!
//! Not here: the bounds (`block_max`), what is done with the documents (`collect::top`).

use super::block_max::{Candidates, ScoredClauses};
use super::constant::ConstantScorer;
use super::node::Shared;
use model::Result;
use segment::doc_bits::BitsDocs;
use segment::segment_view::SegmentView;
use tantivy::query::Scorer;
use tantivy::{DocId, DocSet, SeekDangerResult, TERMINATED};

/// A filter with at most one document for so many of the terms leads a scan.
const SELECTIVE: u64 = 16;

/// Going through so many documents takes less than pruning them, which opens each list once more to score and once to count.
const FEW: u64 = 256;

/// A clause beside those that score: a document must be in it, or must not.
pub struct Restriction {
    /// The clause.
    pub node: Shared,
    /// Its documents do not match.
    pub excludes: bool,
}

/// The restrictions of a query in one segment.
pub struct Checks {
    sets: Vec<(Box<dyn Scorer>, bool)>,
    /// At most about so many documents pass.
    docs_max: u64,
}

impl Checks {
    /// Opens them; `None` if no document passes.
    fn open(restrictions: &[Restriction], segment: &SegmentView) -> Result<Option<Checks>> {
        let mut checks = Checks {
            sets: Vec::new(),
            docs_max: u64::from(segment.reader.max_doc()),
        };
        for Restriction { node, excludes } in restrictions {
            if node.is_all() && !excludes {
                continue;
            }
            let set: Box<dyn Scorer> = match node.bits(segment)? {
                Some(bits) => Box::new(ConstantScorer::new(BitsDocs::new(bits), 0.0)),
                None => node.scorer(segment)?,
            };
            match (set.doc() == TERMINATED, excludes) {
                (true, true) => continue,
                (true, false) => return Ok(None),
                (false, true) => {}
                (false, false) => checks.docs_max = checks.docs_max.min(set.cost()),
            }
            checks.sets.push((set, *excludes));
        }
        Ok(Some(checks))
    }

    /// Whether a document passes all of them. Documents are asked for in ascending order, each once.
    pub fn pass(&mut self, doc: DocId) -> bool {
        let mut sets = self.sets.iter_mut();
        sets.all(|(set, excludes)| matches!(set.seek_danger(doc), SeekDangerResult::Found) != *excludes)
    }
}

/// A query that prunes.
pub struct Pruning {
    scored: ScoredClauses,
    restrictions: Vec<Restriction>,
}

impl Pruning {
    /// Clauses that score, and those beside them; `None` where there is too little to prune.
    pub fn new(scored: ScoredClauses, restrictions: Vec<Restriction>) -> Option<Pruning> {
        (scored.docs() > FEW).then_some(Pruning { scored, restrictions })
    }

    /// How many documents the lists of all terms have.
    pub fn docs(&self) -> u64 {
        self.scored.docs()
    }

    /// How much there is to do, in entries of lists that score.
    pub fn work(&self) -> u64 {
        self.scored.work()
    }

    /// Whether a match has all of the terms, so that no list says how many there are. Documents that have them may be no
    /// matches: a phrase also asks for their places.
    pub fn is_conjunction(&self) -> bool {
        self.scored.all_required
    }

    /// The restrictions in a segment; `None` if no document passes.
    ///
    /// # Errors
    /// Unreadable files.
    pub fn checks(&self, segment: &SegmentView) -> Result<Option<Checks>> {
        Checks::open(&self.restrictions, segment)
    }

    /// Whether hardly a candidate passes. Then no threshold rises and nothing is pruned: the filter leads a scan instead.
    pub fn is_selective(&self, checks: &Checks) -> bool {
        checks.docs_max.saturating_mul(SELECTIVE) < self.docs()
    }

    /// The lists of a segment, which show at least the documents that score more than a threshold. Others are left out where that is cheap.
    ///
    /// # Errors
    /// Unreadable files.
    pub fn open(&self, segment: &SegmentView) -> Result<Candidates<'_>> {
        Candidates::open(&self.scored, segment)
    }
}
