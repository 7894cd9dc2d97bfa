//! Endpoints of transactions.

pub(crate) mod transaction;
pub(crate) mod transaction_session;
