//! The members that a collapsed search found, within a limit: inner hits of groups then need no second search.
//!
//! Not here: choosing among them (`fetch::collapse`).

use crate::context::Context;
use crate::fields::target::Target;
use crate::sort::{Key, Plan, SortReader};
use dsl::search::{FieldSort, Sort, SortBy};
use model::{Error, Result, nearest};
use segment::key_columns::{self, Keys};
use segment::searchable::IndexView;
use segment::segment_view::SegmentView;
use tantivy::DocId;

/// A document that was found.
pub(crate) struct Member {
    /// Which index.
    pub(crate) view: usize,
    /// Which segment of it.
    pub(crate) segment: usize,
    /// Which document of it.
    pub(crate) doc: DocId,
    /// Its score, if scores were worked out.
    pub(crate) score: f32,
    /// The value that it is collapsed by.
    pub(crate) group: Group,
}

/// All that were found, in order, or none.
pub(crate) struct Members {
    list: Vec<Member>,
    left_out: bool,
    need_scores: bool,
}

impl Members {
    /// So many are kept. Where there are more, a second search for the groups of the page takes less time than to keep all.
    pub(crate) const MOST: u64 = if cfg!(test) { 64 } else { 8192 };

    /// None yet; who shows them needs their scores or does not.
    pub(crate) fn new(need_scores: bool) -> Members {
        Members {
            list: Vec::new(),
            left_out: false,
            need_scores,
        }
    }

    /// Says whether members that are added from now on have scores.
    pub(crate) fn come_with(&mut self, scores: bool) {
        if self.need_scores && !scores {
            self.leave_out();
        }
    }

    /// Keeps one more, while they are few.
    #[inline]
    pub(crate) fn add(&mut self, member: Member) {
        debug_assert!(
            self.list
                .last()
                .is_none_or(|last| { (last.view, last.segment, last.doc) < (member.view, member.segment, member.doc) }),
            "members are found in the order of indices, segments and documents, each once"
        );
        if (self.list.len() as u64) < Members::MOST && !self.left_out {
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
    pub(crate) fn all(&self) -> Option<&[Member]> {
        (!self.left_out).then_some(&self.list)
    }
}

/// A group of hits; what has no value is a group of its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Group {
    /// Without a value.
    None,
    /// By a whole number.
    Int(i64),
    /// By the bits of a fraction.
    Bits(u64),
    /// By the key of a string: the same in all segments and indices.
    Keyed(key_columns::Key),
    /// By a string that has no column.
    Text(std::sync::Arc<str>),
}

impl Group {
    /// By the key of the collapsing field.
    fn of(key: &Key) -> Group {
        match key {
            Key::None { .. } => Group::None,
            Key::Int(n) => Group::Int(*n),
            Key::Unsigned(n) => Group::Bits(*n),
            Key::Float(n) => Group::Bits(n.to_bits()),
            Key::Score(n) => Group::Bits(f64::from(*n).to_bits()),
            Key::Text(text) => Group::Text(text.clone()),
            Key::Ip(ip) => Group::Text(ip.to_string().into()),
        }
    }
}

/// The groups of one segment's documents. Strings are told apart by their keys: none is read.
pub(crate) enum Groups {
    Keyed(Option<Keys>),
    Read(SortReader),
}

impl Groups {
    pub(crate) fn open(plan: &Plan, view: &IndexView, segment: &SegmentView) -> Result<Groups> {
        if let Some((name, column)) = plan.relation(view, segment)? {
            let keys = column.map(|column| Keys::over(segment, name, column)).transpose()?;
            return Ok(Groups::Keyed(keys));
        }
        Ok(match plan.strings(view) {
            Some(column) => Groups::Keyed(Keys::open(segment, column, false)?),
            None => Groups::Read(plan.open(view, segment, 0)?),
        })
    }
    /// The ordinal of a document's string in the segment, where strings tell groups apart and the document has one.
    #[inline]
    pub(crate) fn ordinal(&self, doc: DocId) -> Option<u64> {
        let Groups::Keyed(Some(keys)) = self else { return None };
        keys.least_ordinal(doc)
    }
    #[inline]
    pub(crate) fn of(&self, doc: DocId) -> Result<Group> {
        Ok(match self {
            Groups::Keyed(keys) => {
                let key = keys.as_ref().and_then(|keys| keys.least(doc));
                key.map_or(Group::None, Group::Keyed)
            }
            Groups::Read(reader) => Group::of(&reader.read(doc, 0.0)?),
        })
    }
}

/// The sort key that hits are collapsed by.
pub(crate) fn collapse_key(view: &IndexView, field: &str, cx: &Context<'_>) -> Result<Plan> {
    let Some(target) = Target::with_values(view, field) else {
        let hint = nearest::hint(field, view.mapping.fields().map(|(path, _)| path));
        return Err(Error::illegal(format!(
            "no mapping found for `{field}` in order to collapse on{hint}"
        )));
    };
    let kind = target.kind.kind;
    let grouped = kind.is_keyword() || kind.is_numeric() && !(cx.opensearch && kind == mapping::Kind::ScaledFloat);
    if !grouped && !target.is_relation() {
        return Err(Error::illegal(format!(
            "unknown type for collapse field `{field}`, only keywords and numbers are accepted"
        )));
    }
    let by = FieldSort {
        unmapped_type: Some("keyword".into()),
        ..FieldSort::new(field)
    };
    Plan::new(
        view,
        &Sort {
            by: SortBy::Field(by),
            ascending: true,
        },
        cx,
    )
    .map(Plan::bare)
}
