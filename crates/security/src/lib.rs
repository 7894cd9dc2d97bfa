//! Users, roles, API keys and what they may do: values and decisions, without IO, clock or random numbers.
//!
//! `privileges` is the table of privileges, `role` and `records` are what is stored, `rights` decides for one principal, and
//! `secrets` compares passwords and keys. Not here: where records are kept and who asks (`rest::security`).

pub mod privileges;
pub mod records;
pub mod rights;
pub mod role;
pub mod secrets;

pub use privileges::{ClusterRights, IndexRights};
pub use records::{ApiKey, Records, User};
pub use rights::{Principal, Realm, Rights};
pub use role::Role;
