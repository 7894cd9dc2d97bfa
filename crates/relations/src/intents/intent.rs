//! A document with its mark as it was read, and the writes that go over that version. Pure.
//!
//! Not here: sending them (`runner`, `apply`, `resolve`).

use super::attempt::Before;
use super::record::{Effects, Mark, Since, Token};
use engine::{Document, Expect, Hide, Judge, Source, Write, WriteOp};
use mapping::{Times, Timing};
use model::{DocAddress, Result, Stamp};

/// A document and its mark, as read.
pub(super) struct Marked {
    pub(super) document: Option<Document>,
    pub(super) mark: Mark,
}

impl Marked {
    pub(super) fn of(document: Option<Document>) -> Result<Marked> {
        let mark = Mark::of(document.as_ref().and_then(|d| d.hidden.as_ref()))?;
        Ok(Marked { document, mark })
    }
    pub(super) fn expect(&self) -> Expect {
        self.document.as_ref().map_or(Expect::Absent, |d| expect_unchanged(d.stamp))
    }
    /// As plain readers saw it before the intent that may be on it.
    pub(super) fn before(&self) -> Before {
        let hidden = self.is_hidden();
        let stamp = self.mark.before.or(self.document.as_ref().map(|d| d.stamp));
        Before {
            document: self.document.clone().filter(|_| !hidden),
            stamp: stamp.filter(|_| !self.mark.stub),
            since: self
                .mark
                .since
                .clone()
                .filter(|since| self.holds(since))
                .map(|since| since.stamp),
        }
    }
    fn is_hidden(&self) -> bool {
        self.mark.stub || self.mark.tombstone
    }
    fn holds(&self, since: &Since) -> bool {
        self.document.as_ref().is_some_and(|document| since.holds(document))
    }
    /// The stamp that its mark keeps once it has been written again as it is.
    pub(super) fn since(&self) -> Option<Since> {
        let document = self.document.as_ref().filter(|_| !self.is_hidden())?;
        let known = self.mark.since.as_ref().filter(|since| self.holds(since));
        let stamp = known.map(|since| since.stamp).or(self.mark.before).unwrap_or(document.stamp);
        Some(Since::rewrite_of(stamp, document))
    }
}

pub(super) fn expect_unchanged(stamp: Stamp) -> Expect {
    Expect::Unchanged {
        seq_no: stamp.seq_no,
        primary_term: stamp.primary_term,
    }
}

/// A write of the whole document over the version that was read, with a mark that says since when it is as it is.
pub(super) fn rewrite(at: &DocAddress, read: &Marked, mark: &Mark) -> Write {
    let mark = Mark {
        since: read.since(),
        ..mark.clone()
    };
    rewrite_as(at, read, &mark)
}

/// The same, with a mark that has what it says already.
pub(super) fn rewrite_as(at: &DocAddress, read: &Marked, mark: &Mark) -> Write {
    let source = read
        .document
        .as_ref()
        .map_or_else(|| Source((*b"{}").into()), |d| d.source.clone());
    Write {
        expect: read.expect(),
        hide: if mark.is_empty() {
            Hide::Drop
        } else {
            Hide::Set(mark.to_hidden())
        },
        routing: read.document.as_ref().and_then(|d| d.routing.clone()),
        parent: read.document.as_ref().and_then(|d| d.parent.clone()),
        judge: Judge::Unseen,
        // A stub has none, and what it says is seen by nobody.
        timing: Timing::keep_even_expired(read.document.as_ref().map_or_else(Times::default, |d| d.times), 0),
        ..Write::new(at.clone(), WriteOp::Put(source))
    }
}

/// The write that brings an outcome to its document, the mark off.
pub(super) fn apply_write(at: &DocAddress, read: &Marked, effect: &Effects, token: Token) -> Write {
    let mark = Mark {
        intent: None,
        stub: false,
        before: None,
        token: Some(token),
        tombstone: *effect == Effects::Delete,
        since: None,
    };
    match effect {
        // A document that was only read stays as it was; a stub leaves nothing.
        Effects::Check if read.mark.stub => Write {
            expect: read.expect(),
            hide: Hide::Drop,
            judge: Judge::Unseen,
            ..Write::new(at.clone(), WriteOp::Delete)
        },
        Effects::Check => {
            let mark = Mark {
                tombstone: read.mark.tombstone,
                token: read.mark.token,
                ..mark
            };
            rewrite(at, read, &mark)
        }
        Effects::Delete => Write {
            expect: read.expect(),
            hide: Hide::Set(mark.to_hidden()),
            judge: Judge::Decided,
            ..Write::new(at.clone(), WriteOp::Delete)
        },
        Effects::Put {
            source,
            routing,
            parent,
            timing,
        } => Write {
            expect: read.expect(),
            hide: Hide::Set(mark.to_hidden()),
            judge: Judge::Decided,
            routing: routing.clone(),
            parent: parent.clone(),
            timing: timing.clone(),
            ..Write::new(at.clone(), WriteOp::Put(source.clone()))
        },
    }
}
