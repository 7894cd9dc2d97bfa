//! The words of the field, as plain data: addresses, stamps, errors, settings, units, dates, paths.
//!
//! Not here: IO, clocks, randomness, HTTP, anything that knows how documents are stored.

pub mod accepted_settings;
mod address;
pub mod blocks;
mod cancellation;
pub mod compat;
pub mod date;
pub mod date_name;
mod dialect;
mod error;
pub mod field_rights;
pub mod geohash;
pub mod lock_index;
pub mod nearest;
pub mod path;
mod persona;
#[cfg(any(test, feature = "testing"))]
pub mod random;
pub mod routing;
pub mod settings;
mod stamp;
pub mod system_index;
pub mod text;
mod topic;
pub mod units;
pub mod visibility;
pub mod watermarks;

pub use address::{DocAddress, DocId, ID_MAX_BYTES, IndexName, Target};
pub use cancellation::Cancellation;
pub use dialect::{Depths, Dialect};
pub use error::{Error, ErrorKind, Result};
pub use field_rights::FieldRights;
pub use persona::Persona;
pub use stamp::{CommitSeq, PrimaryTerm, SeqNo, Stamp, Version};
pub use topic::Topic;
pub use visibility::{DocumentRights, Visibility};
