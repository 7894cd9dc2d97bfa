//! The stamp of a write: sequence number, primary term, version.

/// Sequence number of an operation in its index; counts from 0 without holes.
pub type SeqNo = u64;
/// How often the index has been opened after an unclean stop, counting from 1.
pub type PrimaryTerm = u64;
/// Version of a document; counts from 1, or is the client's own (external).
pub type Version = u64;
/// Position in the log at which a change became durable: everything up to it is decided.
pub type CommitSeq = u64;

/// The three numbers of one operation on one document.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stamp {
    /// Sequence number.
    pub seq_no: SeqNo,
    /// Primary term.
    pub primary_term: PrimaryTerm,
    /// Version.
    pub version: Version,
}

impl Stamp {
    /// The stamp of a staged write: the version that it will have, and no sequence number yet.
    pub fn provisional(version: Version) -> Stamp {
        Stamp {
            seq_no: SeqNo::MAX,
            primary_term: 0,
            version,
        }
    }
    /// Is it staged?
    pub fn is_staged(self) -> bool {
        self.seq_no == SeqNo::MAX
    }
}
