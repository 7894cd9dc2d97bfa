//! What servers and coordinators of tests are made of.

use async_trait::async_trait;
use engine::{Write, WriteOp};
use relations::changes::Pause;
use std::time::Duration;

/// Waits by tokio's clock.
#[derive(Debug)]
pub(crate) struct Sleep;

#[async_trait]
impl Pause for Sleep {
    async fn pause(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

/// Is it the commit of a change by the portable path?
pub(crate) fn commits(write: &Write) -> bool {
    match &write.op {
        WriteOp::Put(source) => source
            .parse()
            .is_ok_and(|body| body["kind"] == "change" && body["state"] == "committed"),
        _ => false,
    }
}
