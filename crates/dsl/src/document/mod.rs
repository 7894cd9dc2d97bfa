//! Bodies that write or read documents: bulk, update, by query, reindex, and the small ones beside them.
//!
//! Not here: carrying any of it out.

mod alias_actions;
mod analyze;
mod bulk;
mod by_query;
mod cursor;
mod multi;
mod term_vectors;
mod transaction;
mod update;

pub use alias_actions::{ALIAS_OPTIONS, AliasAction, AliasActions, AliasVerb};
pub use analyze::AnalyzeBody;
pub use bulk::{BulkAction, BulkDefaults, BulkItem, BulkReader, lock_ids, parse_bulk, some_lock};
pub use by_query::{ByQueryBody, ReindexBody, ReindexDest};
pub use cursor::{ScrollBody, unknown as unknown_in_cursor};
pub use multi::{MgetBody, MgetItem, MsearchItem, parse_msearch, split_msearch};
pub use term_vectors::{TermFilter, TermVectors, parse_many as parse_term_vectors};
pub use transaction::{Condition, DirectoryCondition, MoveItem, TransactionBody, TransactionItem};
pub use update::UpdateBody;

use crate::json::Reading;
use model::Dialect;

/// How bodies of a dialect are read.
pub(crate) fn reading(dialect: Dialect) -> Reading {
    Reading {
        lenient: dialect.rules.reads_loose_json,
        depth_max: usize::from(dialect.depths.json),
        ..Reading::default()
    }
}
