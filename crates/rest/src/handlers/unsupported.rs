//! What clients of Elasticsearch may ask for and this server does not do: a refusal that names it.

use crate::call::Call;
use crate::respond::Answer;
use model::{Error, Result};

/// Refuses by the name of the API.
pub(crate) async fn refuse(call: Call) -> Result<Answer> {
    Err(Error::illegal(format!("[{}] is not supported yet", call.params.api())))
}
