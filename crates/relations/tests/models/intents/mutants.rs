//! Seeded mistakes of the intent form.

/// One rule less. `None` of them is the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mutant {
    /// Documents that were only read get no intent.
    NoCheck,
    /// A create leaves no stub.
    NoStub,
    /// Marks are written without comparing.
    MarkWithoutCas,
    /// A mark whose write was not acknowledged counts.
    UnacknowledgedMark,
    /// Marks go before the change is decided.
    PurgeFirst,
    /// A decision that was only read is acted on.
    NoConfirm,
    /// "Already applied" is believed from a read.
    DirtySkip,
    /// Every document without an earlier token is written, mark or not.
    TokenOnly,
    /// A plain write does not look at marks.
    PlainIgnoresMarks,
    /// A plain write drops the mark (M1).
    PlainDropsMark,
    /// A plain delete leaves nothing (M2).
    PlainDeletesAll,
    /// A grant does not look for records (M10).
    GrantWithoutScan,
    /// A change looks for locks before it has written its record (M10).
    LocksReadEarly,
    /// A change does not look for locks.
    NoLockRead,
    /// Reads of the control shard need not show one's own write (M10).
    NoBarrier,
    /// M10 as first written: marks, then locks; a grant, then marks.
    MarksInsteadOfRecords,
    /// A guarded change is not named anywhere (M3).
    Unnamed,
    /// The guarded change is named in the entry, not in the lease (M3).
    NamedInEntry,
    /// A lock goes at its session's expiry without resolving what it guards (M3).
    LockPurgedAtOnce,
    // Ours.
    /// A recoverer aborts what is committed.
    AbortCommitted,
    /// A commit is written without comparing.
    BlindCommit,
    /// `done` is written when all but the last document are applied.
    DoneEarly,
    /// The commit does not wait for the last mark.
    CommitBeforeLastMark,
    /// Applying does not compare the version that was read.
    BlindApply,
    /// Purging leaves a stub as a document.
    StubBecomesDocument,
    /// A mark of another change is taken for one's own.
    AnyMarkIsMine,
    /// An unknown outcome of the commit is taken for a failure, and the change purged.
    UnknownIsAborted,
    /// Planning runs over another change's mark.
    PlanOverMarks,
    /// A committed change's marks are purged by who resolves it.
    PurgeCommitted,
}
