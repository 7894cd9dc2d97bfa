//! What a collapsed search found, kept while it is little: who shows the members of groups need not look for them again.
//!
//! Not here: choosing among them (`expand`).

use super::expand::Group;
use tantivy::DocId;

/// So many are kept. Of more, asking again for those of the page's groups costs less than keeping all.
const MOST: usize = if cfg!(test) { 64 } else { 8192 };

/// A document that was found.
pub(super) struct Member {
    /// Which index.
    pub(super) view: usize,
    /// Which segment of it.
    pub(super) segment: usize,
    /// Which document of it.
    pub(super) doc: DocId,
    /// Its score, if scores were worked out.
    pub(super) score: f32,
    /// What it is collapsed by.
    pub(super) group: Group,
}

/// All that were found, in order, or none.
pub(super) struct Members {
    list: Vec<Member>,
    left_out: bool,
    need_scores: bool,
}

impl Members {
    /// None yet; who shows them needs their scores or does not.
    pub(super) fn new(need_scores: bool) -> Members {
        Members {
            list: Vec::new(),
            left_out: false,
            need_scores,
        }
    }

    /// What is added from now on has scores or has none.
    pub(super) fn come_with(&mut self, scores: bool) {
        if self.need_scores && !scores {
            self.leave_out();
        }
    }

    /// Keeps one more, while they are few.
    #[inline]
    pub(super) fn add(&mut self, member: Member) {
        if self.list.len() < MOST && !self.left_out {
            self.list.push(member);
        } else {
            self.leave_out();
        }
    }

    /// Something was found that is not kept: nothing is.
    fn leave_out(&mut self) {
        self.left_out = true;
        self.list = Vec::new();
    }

    /// All of them, in the order of indices, segments and documents, if all were kept.
    pub(super) fn all(&self) -> Option<&[Member]> {
        (!self.left_out).then_some(&self.list)
    }
}
