//! Expectations of a write against what is there: the only comparison of stamps.

use crate::Write;
use model::{DocAddress, PrimaryTerm, SeqNo, Stamp, Version};

/// The expectation of a write about the document that it replaces.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Expect {
    /// Nothing: last writer wins.
    #[default]
    Anything,
    /// No live document (`op_type=create`).
    Absent,
    /// A live document.
    Present,
    /// `if_seq_no` and `if_primary_term`.
    Unchanged { seq_no: SeqNo, primary_term: PrimaryTerm },
    /// `version` of the typed dialect: the current version is this one.
    Version(Version),
    /// `version_type=external` (or `external_gte`): the client's version is newer. The write takes it over.
    NewerThan { version: Version, or_equal: bool },
    /// `op_type=create` with a version of the typed dialect: no live document, and the version as `compare` says.
    AbsentAt { version: Version, compare: Compare },
    /// `version_type=force` of the typed dialect: whatever is there, the write takes this version.
    Forced(Version),
}

/// The state that a write was made from, as its writer read it, marks and all ([`crate::See::Everything`]). It is compared
/// beside the [`Expect`] of the client, which may be an external version.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Basis {
    /// Whatever is there.
    #[default]
    Anything,
    /// Nothing was there.
    Absent,
    /// A document with this stamp was.
    Unchanged { seq_no: SeqNo, primary_term: PrimaryTerm },
}

impl Basis {
    /// The state that was read; `None`: there was no document, and no mark.
    pub fn of(read: Option<Stamp>) -> Basis {
        read.map_or(Basis::Absent, |stamp| Basis::Unchanged {
            seq_no: stamp.seq_no,
            primary_term: stamp.primary_term,
        })
    }

    /// The same as an expectation of its own.
    pub fn expect(self) -> Expect {
        match self {
            Basis::Anything => Expect::Anything,
            Basis::Absent => Expect::Absent,
            Basis::Unchanged { seq_no, primary_term } => Expect::Unchanged { seq_no, primary_term },
        }
    }
}

impl Write {
    /// Is it to be written over what is there? `found`: as its writer sees it. `with_marks`: counting a document that a mark hides
    /// as one that is there.
    ///
    /// # Errors
    /// The conflict. One of its basis comes first, and expects a stamp or an absence, so it is told from one of a version.
    pub fn check(&self, at: &DocAddress, found: Found, with_marks: Found) -> Result<(), Conflict> {
        self.basis.expect().check(at, with_marks)?;
        self.expect.check(at, found)
    }

    /// May it come to a conflict?
    pub fn is_conditional(&self) -> bool {
        self.expect != Expect::Anything || self.basis != Basis::Anything
    }
}

/// How the version of a creation is compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compare {
    /// As that of the document that is there: so there is one, and such a creation never succeeds.
    Internal,
    /// As a version of the client's, newer than that of a deletion; the write takes it over.
    External,
    /// The same, or equal.
    ExternalOrEqual,
}

impl Compare {
    /// Does a version hold against what is there?
    pub fn holds(self, version: Version, found: Found) -> bool {
        match (self, found.stamp()) {
            (Compare::Internal, stamp) => stamp.is_some_and(|s| version == s.version),
            (_, None) => true,
            (Compare::External, Some(s)) => version > s.version,
            (Compare::ExternalOrEqual, Some(s)) => version >= s.version,
        }
    }
}

/// The state of a document.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// Never seen, or forgotten.
    Nothing,
    /// Deleted, its stamp not yet forgotten.
    Deleted(Stamp),
    /// A live document.
    Here(Stamp),
}

impl Found {
    /// The stamp, of a live or a deleted document.
    pub fn stamp(self) -> Option<Stamp> {
        match self {
            Found::Nothing => None,
            Found::Deleted(stamp) | Found::Here(stamp) => Some(stamp),
        }
    }
    /// There is a live document.
    pub fn is_here(self) -> bool {
        matches!(self, Found::Here(_))
    }
    /// The version that a write with this expectation gets.
    pub fn next_version(self, expect: Expect) -> Version {
        match expect {
            Expect::NewerThan { version, .. } | Expect::AbsentAt { version, .. } | Expect::Forced(version) => version,
            _ => self.stamp().map_or(1, |s| s.version + 1),
        }
    }
}

/// An expectation that did not hold. `rest` words it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Conflict {
    /// Which document.
    pub at: DocAddress,
    /// The expectation that failed.
    pub expect: Expect,
    /// The state that was found. For people: a cluster does not say with the conflict, so there it is what was read soon after,
    /// and a deletion is `Nothing`.
    pub found: Found,
}

impl Expect {
    /// Does it hold?
    ///
    /// # Errors
    /// The conflict, if it does not.
    pub fn check(self, at: &DocAddress, found: Found) -> Result<(), Conflict> {
        let holds = match (self, found) {
            (Expect::Anything | Expect::Forced(_), _) => true,
            (Expect::Absent, found) => !found.is_here(),
            (Expect::Present, found) => found.is_here(),
            (Expect::Unchanged { seq_no, primary_term }, Found::Here(s)) => s.seq_no == seq_no && s.primary_term == primary_term,
            (Expect::Unchanged { .. }, _) => false,
            (Expect::Version(version), Found::Here(s)) => s.version == version,
            // A deletion keeps its version until it is forgotten.
            (Expect::Version(version), Found::Deleted(s)) => s.version == version,
            (Expect::Version(_), Found::Nothing) => false,
            (Expect::AbsentAt { version, compare }, found) => {
                compare != Compare::Internal && compare.holds(version, found) && !found.is_here()
            }
            (Expect::NewerThan { version, or_equal }, found) => found
                .stamp()
                .is_none_or(|s| version > s.version || (or_equal && version == s.version)),
        };
        if holds {
            Ok(())
        } else {
            Err(Conflict {
                at: at.clone(),
                expect: self,
                found,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{DocId, IndexName};

    fn stamp(seq_no: u64, version: u64) -> Stamp {
        Stamp {
            seq_no,
            primary_term: 1,
            version,
        }
    }

    fn check(expect: Expect, found: Found, holds: bool) {
        let at = DocAddress {
            index: IndexName::new("i"),
            id: DocId::plain("1"),
        };
        assert_eq!(expect.check(&at, found).is_ok(), holds, "{expect:?} against {found:?}");
    }

    #[test]
    fn each_expectation_against_each_finding() {
        let (here, deleted) = (Found::Here(stamp(4, 2)), Found::Deleted(stamp(4, 2)));
        for (expect, on_nothing, on_deleted, on_here) in [
            (Expect::Anything, true, true, true),
            (Expect::Absent, true, true, false),
            (Expect::Present, false, false, true),
            (
                Expect::Unchanged {
                    seq_no: 4,
                    primary_term: 1,
                },
                false,
                false,
                true,
            ),
            (
                Expect::Unchanged {
                    seq_no: 4,
                    primary_term: 2,
                },
                false,
                false,
                false,
            ),
            (
                Expect::Unchanged {
                    seq_no: 3,
                    primary_term: 1,
                },
                false,
                false,
                false,
            ),
            (Expect::Version(2), false, true, true),
            (Expect::Version(1), false, false, false),
            (
                Expect::NewerThan {
                    version: 3,
                    or_equal: false,
                },
                true,
                true,
                true,
            ),
            (
                Expect::NewerThan {
                    version: 2,
                    or_equal: false,
                },
                true,
                false,
                false,
            ),
            (
                Expect::NewerThan {
                    version: 2,
                    or_equal: true,
                },
                true,
                true,
                true,
            ),
        ] {
            check(expect, Found::Nothing, on_nothing);
            check(expect, deleted, on_deleted);
            check(expect, here, on_here);
        }
    }
}
