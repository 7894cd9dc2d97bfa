//! A repository of snapshots: the files of segments, each stored once by its content, and descriptions of the indices that
//! they make up. It is in a folder or in a bucket of S3.
//!
//! ```text
//! index                the root: the repository's id, its generation, a row for each snapshot
//! snapshots/UUID       the contents of one snapshot: its indices with their segments
//! blobs/HH/HASH        files by their BLAKE3 hash; HH are its first two digits
//! temporary/           files that are being written
//! writing              a snapshot is being written, or its writer was killed
//! lock                 the operating system's lock of the one who writes, in a folder
//! ```
//!
//! In a bucket, which has no lock, the names of blobs and contents end with `.GENERATION`: that of the root that first leads to them.
//!
//! Invariants (docs/internals/snapshots.md):
//! - **S1** The root is written last, at once: a snapshot is there whole or not at all.
//! - **S2** A file that the root leads to is durable before the root is, and is never changed.
//! - **S3** A file is removed only after a root that does not lead to it is durable.
//! - **S4** Each byte that is read is checked against a hash before it is used.
//! - **S5** No writer removes a file that the root of another one will lead to.
//!
//! Not here: what is in a file (`disk::blockfile`, `segment`), which indices there are (`embedded`), how clients ask (`rest`).

mod blob;
mod checked_file;
mod contents;
mod folder;
mod hashed_writer;
mod layout;
mod location;
mod lock;
mod repository;
#[cfg(test)]
mod rivals;
mod root;
#[cfg(feature = "s3")]
mod s3;
mod s3_client;
mod s3_clients;
mod s3_place;
mod storage;
mod writer;

pub use blob::{Blob, Hash};
pub use contents::{Contents, IndexPart, SegmentPart};
pub use location::resolve;
pub use repository::{Checked, Repository};
pub use root::{IndexFailure, Root, State, Summary, name_taken};
pub use s3_client::{CLIENT_SETTINGS, DEFAULT_CLIENT, S3Client, Secret};
pub use s3_clients::S3Clients;
pub use s3_place::{ALLOW_ENDPOINT, REPOSITORY_SETTINGS};
pub use storage::Pace;
pub use writer::{Removed, Writer};
