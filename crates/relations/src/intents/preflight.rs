//! Would a change be taken? What it brings to mappings is there before it is committed, so that no mapping can refuse it when
//! it is applied: neither what another document of it brought, nor what another change did.
//!
//! A change that comes to nothing afterwards leaves empty fields.

use engine::{Alteration, Engine, Write};
use model::{Error, Result};
use std::collections::HashMap;

/// Rehearses the writes; why each would be refused. If none is, the mappings have grown by what they bring.
///
/// # Errors
/// The engine's.
pub(crate) async fn rehearse_and_grow(engine: &dyn Engine, writes: &[Write]) -> Result<Vec<Option<Error>>> {
    let answers = engine.rehearse(writes).await?;
    assert_eq!(answers.len(), writes.len(), "T7: an engine answers each write, in order");
    if answers.iter().any(Result::is_err) {
        return Ok(answers.into_iter().map(Result::err).collect());
    }
    let mut refused: Vec<Option<Error>> = vec![None; writes.len()];
    // By index, what it has grown by: many documents bring the same.
    let mut grown: HashMap<&str, Vec<Alteration>> = HashMap::new();
    for (n, (write, answer)) in writes.iter().zip(answers).enumerate() {
        let Ok(Some(growth)) = answer else { continue };
        let known = grown.entry(write.at.index.as_str()).or_default();
        if known.contains(&growth) {
            continue;
        }
        match grow(engine, write, growth, !known.is_empty()).await? {
            Ok(by) => known.extend(by),
            Err(error) => refused[n] = Some(error),
        }
    }
    Ok(refused)
}

/// The growth of the mapping, or why it does not take the document. `moved`: it has grown since it was rehearsed.
async fn grow(engine: &dyn Engine, write: &Write, growth: Alteration, moved: bool) -> Result<Result<Option<Alteration>, Error>> {
    /// Others may make the mapping grow between a rehearsal and the growth.
    const TRIES: usize = 16;
    let mut next = (!moved).then_some(growth);
    let mut last = None;
    for _ in 0..TRIES {
        let growth = match next.take() {
            Some(growth) => growth,
            None => match engine.rehearse(std::slice::from_ref(write)).await?.pop() {
                Some(Ok(Some(growth))) => growth,
                Some(Ok(None)) | None => return Ok(Ok(None)),
                Some(Err(error)) => return Ok(Err(error)),
            },
        };
        match engine.alter(growth.clone()).await {
            Ok(_) => return Ok(Ok(Some(growth))),
            Err(error) if error.is_transient() => return Err(error),
            Err(error) => last = Some(error),
        }
    }
    Ok(last.map_or(Ok(None), Err))
}
