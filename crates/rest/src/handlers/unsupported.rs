//! APIs that this server does not have: a refusal that names the API.

use crate::call::Call;
use crate::respond::Answer;
use async_recursion::async_recursion as boxed;
use model::{Error, Result};

/// Refuses by the name of the API.
#[boxed]
pub(crate) async fn refuse(call: Call) -> Result<Answer> {
    Err(Error::illegal(format!("[{}] is not supported yet", call.params.api())))
}
