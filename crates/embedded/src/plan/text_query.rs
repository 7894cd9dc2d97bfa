//! `query_string` and `simple_query_string`: the language is read by `dsl`, its clauses are compiled here.

use super::Planner;
use super::boolean::Shared;
use super::field::query_shard;
use dsl::query::{Clause, QueryStringQuery};
use dsl::query_string::{Syntax, expand_with, parse, simple};
use model::{Error, ErrorKind, Result};

impl Planner<'_> {
    pub(super) fn query_string(&self, q: &QueryStringQuery, boost: f32) -> Result<Shared> {
        let syntax = parse(&q.query, q.default_operator).map_err(|cause| {
            query_shard(self.view, format!("Failed to parse query [{}]", q.query))
                .caused_by(Error::new(ErrorKind::Parse, cause.reason()))
        })?;
        if !q.allow_leading_wildcard && syntax.leads_with_wildcard() {
            let cause = "'*' or '?' not allowed as first character in WildcardQuery";
            let reason = format!("Failed to parse query [{}]", q.query);
            return Err(query_shard(self.view, reason).caused_by(Error::new(ErrorKind::Parse, cause)));
        }
        self.analyzer_known(q, "query_string")?;
        self.expanded(q, &syntax, boost)
    }

    fn analyzer_known(&self, q: &QueryStringQuery, owner: &str) -> Result<()> {
        for name in [&q.analyzer, &q.quote_analyzer].into_iter().flatten() {
            if self.view.registry.analyzer(name).is_none() && !self.view.typed {
                return Err(query_shard(self.view, format!("[{owner}] analyzer [{name}] not found")));
            }
        }
        Ok(())
    }

    pub(super) fn simple_query_string(&self, q: &QueryStringQuery, boost: f32) -> Result<Shared> {
        self.analyzer_known(q, "simple_query_string")?;
        let syntax = simple::parse(&q.query, q.flags.as_deref(), q.default_operator);
        // Fields add up here (phrases excepted), where `query_string` takes the best of them.
        let summed = QueryStringQuery {
            kind: dsl::query::MultiMatchType::MostFields,
            ..q.clone()
        };
        self.expanded(&summed, &syntax, boost)
    }

    fn expanded(&self, q: &QueryStringQuery, syntax: &Syntax, boost: f32) -> Result<Shared> {
        let before = self.absent.replace(true);
        let node = self.expanded_clauses(q, syntax, boost);
        self.absent.set(before);
        let node = node?;
        Ok(if node.is_absent() && !before {
            self.nothing("no words after analysis")
        } else {
            node
        })
    }

    fn expanded_clauses(&self, q: &QueryStringQuery, syntax: &Syntax, boost: f32) -> Result<Shared> {
        let whole = q.fields.is_empty() && !self.view.typed || q.fields.iter().any(|(f, _)| f == "*");
        let mut options = q.clone();
        if whole {
            options.lenient = Some(q.lenient.unwrap_or(true));
        }
        if q.fields.is_empty() && self.view.typed && q.lenient.is_none() {
            options.lenient = Some(false);
        }
        let fields = self.search_fields(&q.fields);
        let query = expand_with(&options, syntax, &fields, &mut |name| {
            if name.contains('*') {
                self.view.mapping.expand(name)
            } else {
                vec![name.to_owned()]
            }
        });
        if options.lenient != Some(true) {
            return self.compile(&query, boost);
        }
        // What a field cannot answer finds nothing in it, and the other fields decide.
        let query = query.rewrite(&mut |mut q| {
            let leaf = !matches!(
                q.clause,
                Clause::Bool(_) | Clause::DisMax { .. } | Clause::ConstantScore { .. } | Clause::Boosting { .. }
            );
            if leaf && self.compile(&q, 1.0).is_err() {
                q.clause = Clause::MatchNone;
            }
            Ok(q)
        })?;
        self.compile(&query, boost)
    }
}
