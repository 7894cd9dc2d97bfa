//! Whether indices may be deleted, closed, opened or blocked by wildcard: `action.destructive_requires_name`.
//!
//! Not here: what is done to them (`indices`, `settings`).

use crate::call::Call;
use model::settings::{self, DESTRUCTIVE_REQUIRES_NAME};
use model::{Error, Persona, Result, Target};

/// Elasticsearch requires names since version 8; OpenSearch never did.
fn by_default(persona: Persona) -> bool {
    matches!(persona, Persona::Es8 | Persona::Es9)
}

/// Refuses wildcards, `_all` and no name at all, where names are required: by the cluster's setting, else by the node's,
/// else by the persona.
///
/// # Errors
/// `illegal_argument_exception` in Elasticsearch's words.
pub(crate) async fn check_named(call: &Call, target: &Target) -> Result<()> {
    if !is_wide(&target.expressions) {
        return Ok(());
    }
    let settings = call.rest.cluster_settings().await?;
    let of_cluster = settings
        .contains_key(DESTRUCTIVE_REQUIRES_NAME.name)
        .then(|| settings::text(&settings, DESTRUCTIVE_REQUIRES_NAME) == "true");
    let required = of_cluster.or(call.rest.destructive_requires_name);
    if required.unwrap_or_else(|| by_default(call.listener)) {
        return Err(Error::illegal("Wildcard expressions or all indices are not allowed"));
    }
    Ok(())
}

/// Does this name more than single indices? `*,-*` names none.
fn is_wide(expressions: &[String]) -> bool {
    let nothing = expressions.len() == 2 && expressions[0] == "*" && expressions[1] == "-*";
    let wide = |expression: &String| expression == "_all" || expression.contains('*');
    !nothing && (expressions.iter().all(String::is_empty) || expressions.iter().any(wide))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards() {
        let wide = |text: &str| is_wide(&text.split_terminator(',').map(str::to_owned).collect::<Vec<_>>());
        for text in ["", "*", "_all", "a*", "a,b*", "*,-a", "-*", "*,-*,a"] {
            assert!(wide(text), "{text}");
        }
        for text in ["a", "a,b", "*,-*"] {
            assert!(!wide(text), "{text}");
        }
    }
}
