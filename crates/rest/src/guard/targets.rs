//! A target as a principal may use it: names are checked, wildcards become the names that the principal may see.

use super::scope::Scope;
use ::engine::EngineExt as _;
use model::path::matches;
use model::system_index::is_system;
use model::{Result, Target, date_name};
use security::IndexRights;
use std::borrow::Cow;
use std::time::{SystemTime, UNIX_EPOCH};

/// A pattern that no index and no alias has: system indices are passed by.
const NOTHING: &str = ".pleach-nothing-*";

/// A name that is there for a wildcard.
struct Named {
    /// The index's own, or an alias of it.
    name: String,
    /// The index's own.
    index: String,
}

impl Scope {
    /// The target with names that all have one of these rights.
    ///
    /// # Errors
    /// `security_exception`: a name without the right. IndexNotFound: nothing is left, and the target wants something.
    pub(super) async fn narrow<'a>(&self, target: &'a Target, any_of: IndexRights) -> Result<Cow<'a, Target>> {
        self.narrow_by(target, any_of, any_of).await
    }

    /// The same with other rights for names that are written out than for wildcards.
    pub(super) async fn narrow_by<'a>(
        &self,
        target: &'a Target,
        named: IndexRights,
        wild: IndexRights,
    ) -> Result<Cow<'a, Target>> {
        if self.is_unbounded() {
            return Ok(Cow::Borrowed(target));
        }
        let visibility = self.visibility();
        let is_plain = |name: &String| !name.is_empty() && name != "_all" && !name.contains('*') && !name.starts_with('<');
        let plain = !target.expressions.is_empty() && target.expressions.iter().all(is_plain);
        if plain && visibility.is_none() {
            let direct = |name: &String| self.principal.rights.on(name).shares(named);
            if target.expressions.iter().all(direct) {
                return Ok(Cow::Borrowed(target));
            }
        }
        let mut found: Vec<Named> = Vec::new();
        let mut after_wildcard = false;
        let all = ["_all".to_owned()];
        let expressions = match target.expressions.iter().all(String::is_empty) {
            true => &all[..],
            false => &target.expressions[..],
        };
        for expression in expressions {
            let expression = date_name::resolve(expression, now_ms())?;
            if let Some(pattern) = expression.strip_prefix('-').filter(|_| after_wildcard) {
                found.retain(|one| !matches(pattern, &one.name) && !matches(pattern, &one.index));
            } else if expression == "_all" || expression.contains('*') {
                after_wildcard = true;
                found.extend(self.expand_wildcard(&expression, target, wild).await?);
            } else if self.may(&expression, named).await {
                self.check_shown(&expression, named).await?;
                let name = expression.into_owned();
                found.push(Named {
                    index: name.clone(),
                    name,
                });
            } else if !target.ignore_unavailable {
                return Err(self.refusal(named, &[&expression]));
            }
        }
        if found.is_empty() && !target.allow_no_indices {
            return Err(::engine::catalog::missing(&expressions.join(",")));
        }
        let mut expressions: Vec<String> = Vec::with_capacity(found.len().max(1));
        for Named { name, .. } in found {
            if !expressions.contains(&name) {
                expressions.push(name);
            }
        }
        debug_assert!(
            !expressions.iter().any(|name| is_system(name)),
            "security.md S4: what a principal may use is no index of the server's own: {expressions:?}"
        );
        if expressions.is_empty() {
            expressions.push(NOTHING.to_owned());
        }
        Ok(Cow::Owned(Target {
            expressions,
            visibility,
            ..target.clone()
        }))
    }

    /// The names behind a wildcard that have one of these rights.
    async fn expand_wildcard(&self, pattern: &str, target: &Target, any_of: IndexRights) -> Result<Vec<Named>> {
        let listed = Target {
            expressions: vec![pattern.to_owned()],
            allow_no_indices: true,
            ignore_unavailable: true,
            forbid_closed: false,
            ..target.clone()
        };
        let pattern = if pattern == "_all" { "*" } else { pattern };
        let honours = self.honours(any_of);
        let mut out = Vec::new();
        for info in self.own_engine().indices(&listed).await? {
            let index = info.name.as_str();
            let aliases = info.aliases.keys().map(String::as_str);
            let own = Some(index).filter(|name| matches(pattern, name) && self.principal.rights.on(name).shares(any_of));
            let granted = |alias: &&str| matches(pattern, alias) && self.principal.rights.on(alias).shares(any_of);
            let names: Vec<&str> = match own {
                Some(name) => vec![name],
                None => aliases.filter(granted).collect(),
            };
            let shown = |name: &&str| honours || self.sees_all(&[*name, index]);
            out.extend(names.into_iter().filter(shown).map(|name| Named {
                name: name.to_owned(),
                index: index.to_owned(),
            }));
        }
        Ok(out)
    }

    /// # Errors
    /// `security_exception`: documents or fields are withheld, and this endpoint does not keep to that.
    pub(super) async fn check_shown(&self, name: &str, any_of: IndexRights) -> Result<()> {
        if self.honours(any_of) || !self.principal.rights.withholds() {
            return Ok(());
        }
        // An alias that is for all documents does not open an index that is not, nor the other way round.
        let infos = self.own_engine().indices(&Target::index(name)).await.unwrap_or_default();
        let restricted = |index: &str| !self.sees_all(&[name, index]);
        match restricted(name) || infos.iter().any(|info| restricted(info.name.as_str())) {
            true => Err(self.withheld(&format!("[{}]", self.api), name)),
            false => Ok(()),
        }
    }
}

/// Milliseconds since 1970, for date math in names; the engine reads its clock again.
pub(super) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
