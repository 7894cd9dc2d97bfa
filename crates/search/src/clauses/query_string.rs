//! `query_string` and `simple_query_string`: the language is read by `dsl`, its clauses are compiled here.

use super::Planner;
use super::analyzed_text::is_about_field;
use crate::fields::target::{Target, query_shard};
use crate::scorers::node::Shared;
use dsl::query::{Clause, Query, QueryStringQuery};
use dsl::query_string::{Syntax, expand_with, parse, simple};
use model::settings::QUERY_STRING_LENIENT;
use model::{Error, ErrorKind, Result};
use serde_json::Value;

impl Planner<'_> {
    pub(super) fn query_string(&self, q: &QueryStringQuery, boost: f32) -> Result<Shared> {
        let syntax = parse(&q.query, q.default_operator).map_err(|cause| {
            query_shard(self.view, format!("Failed to parse query [{}]", q.query))
                .with_cause(Error::new(ErrorKind::Parse, cause.reason()))
        })?;
        if !q.allow_leading_wildcard && syntax.leads_with_wildcard() {
            let cause = "'*' or '?' not allowed as first character in WildcardQuery";
            let reason = format!("Failed to parse query [{}]", q.query);
            return Err(query_shard(self.view, reason).with_cause(Error::new(ErrorKind::Parse, cause)));
        }
        self.analyzer_known(q, "query_string")?;
        self.plan_syntax(q, &syntax, boost)
    }

    fn analyzer_known(&self, q: &QueryStringQuery, owner: &str) -> Result<()> {
        for name in [&q.analyzer, &q.quote_analyzer].into_iter().flatten() {
            if self.view.registry.analyzer(name).is_none() && !self.view.rules().tolerates_unknown_names {
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
        self.plan_syntax(&summed, &syntax, boost)
    }

    fn plan_syntax(&self, q: &QueryStringQuery, syntax: &Syntax, boost: f32) -> Result<Shared> {
        let before = self.absent.replace(true);
        let node = self.plan_expanded(q, syntax, boost);
        self.absent.set(before);
        let node = node?;
        Ok(if node.is_absent() && !before {
            self.nothing("no words after analysis")
        } else {
            node
        })
    }

    fn plan_expanded(&self, q: &QueryStringQuery, syntax: &Syntax, boost: f32) -> Result<Shared> {
        let whole = q.fields.is_empty() && !self.view.rules().has_all_field || q.fields.iter().any(|(f, _)| f == "*");
        let mut options = q.clone();
        let of_index = self.view.settings.get(QUERY_STRING_LENIENT.name);
        let of_index = of_index.and_then(Value::as_str).is_some_and(|text| text == "true");
        let given = q.lenient.or(of_index.then_some(true));
        options.lenient = given;
        if whole {
            options.lenient = Some(given.unwrap_or(true));
        }
        if q.fields.is_empty() && self.view.rules().has_all_field && given.is_none() {
            options.lenient = Some(false);
        }
        // A field that is named twice keeps its boost unless it gets another.
        let mut named: Vec<(String, f32)> = Vec::with_capacity(q.fields.len());
        for (field, boost) in &q.fields {
            match named.iter_mut().find(|(known, _)| known == field) {
                Some(_) if *boost == 1.0 => {}
                Some((_, known)) => *known = *boost,
                None => named.push((field.clone(), *boost)),
            }
        }
        let fields = self.search_fields(&named);
        let query = expand_with(&options, syntax, &fields, &mut |name| {
            if name.contains('*') {
                self.view.mapping.expand(name)
            } else {
                vec![name.to_owned()]
            }
        });
        let query = self.strip_quote_suffix(q, query)?;
        let query = self.normalize_words(q, query)?;
        if options.lenient != Some(true) {
            return self.compile(&query, boost);
        }
        // A field that cannot answer finds nothing, and the other fields decide.
        let query = query.rewrite(&mut |mut q| {
            let leaf = !matches!(
                q.clause,
                Clause::Bool(_) | Clause::DisMax { .. } | Clause::ConstantScore { .. } | Clause::Boosting { .. }
            );
            let profiled = self.profile.borrow().len();
            let counted = *self.clauses.borrow();
            match self.trial(leaf, &q) {
                Err(error) if is_about_field(&error) => q.clause = Clause::MatchNone,
                tried => tried?,
            }
            *self.clauses.borrow_mut() = counted;
            self.profile.borrow_mut().truncate(profiled);
            Ok(q)
        })?;
        self.compile(&query, boost)
    }

    /// Whether a leaf compiles, told before it is compiled for good.
    fn trial(&self, leaf: bool, query: &Query) -> Result<()> {
        if leaf {
            self.compile(query, 1.0)?;
        }
        Ok(())
    }

    /// Phrases are looked up in fields with `quote_field_suffix` where there are such.
    fn strip_quote_suffix(&self, q: &QueryStringQuery, query: Query) -> Result<Query> {
        let Some(suffix) = q.quote_field_suffix.as_deref().filter(|suffix| !suffix.is_empty()) else {
            return Ok(query);
        };
        query.rewrite(&mut |mut query| {
            if let Clause::MatchPhrase(phrase) = &mut query.clause
                && let Some(plain) = phrase.field.strip_suffix(suffix)
                && Target::of(self.view, &phrase.field).is_none()
            {
                phrase.field = plain.to_owned();
            }
            Ok(query)
        })
    }

    /// Patterns, fuzzy words and ends of ranges of these languages are normalized as the texts of their field are
    /// (a `prefix` or `wildcard` query of its own is not). The typed dialect had a parameter for their case.
    fn normalize_words(&self, q: &QueryStringQuery, query: Query) -> Result<Query> {
        let as_written = self.view.rules().keeps_expanded_words;
        query.rewrite(&mut |mut query| {
            if let Clause::Regexp(p) = &query.clause {
                // No field is lenient about this.
                self.check_regex_length(&p.value)?;
            }
            let field = match &query.clause {
                Clause::Prefix(p) | Clause::Wildcard(p) | Clause::Regexp(p) => p.field.clone(),
                Clause::Fuzzy(f) => f.field.clone(),
                Clause::Range(r) => r.field.clone(),
                _ => return Ok(query),
            };
            let Some(target) = Target::of(self.view, &field) else {
                return Ok(query);
            };
            if let Clause::Range(range) = &mut query.clause
                && q.lowercase_expanded
                && !is_number(target.kind.kind)
            {
                for end in [&mut range.gte, &mut range.gt, &mut range.lte, &mut range.lt] {
                    if let Some(Value::String(text)) = end {
                        *text = text.to_lowercase();
                    }
                }
            }
            if !target.kind.kind.is_text() {
                return Ok(query);
            }
            let Some(analyzer) = self.query_analyzer(&target, q.analyzer.as_deref(), false)? else {
                return Ok(query);
            };
            let ended = |end: &mut Option<Value>| {
                if let Some(Value::String(text)) = end {
                    *text = analyzer.normalize(text);
                }
            };
            match &mut query.clause {
                Clause::Prefix(p) => {
                    let words = if q.analyze_wildcard {
                        analyzer.analyze(&p.value)
                    } else {
                        Vec::new()
                    };
                    p.value = match words.as_slice() {
                        [word] => word.term.clone(),
                        _ if as_written => return Ok(query),
                        _ => analyzer.normalize(&p.value),
                    };
                }
                _ if as_written => {}
                Clause::Wildcard(p) => p.value = between_wildcards(&p.value, &|run| analyzer.normalize(run)),
                Clause::Regexp(p) => p.value = analyzer.normalize(&p.value),
                Clause::Fuzzy(f) => {
                    if let Value::String(text) = &mut f.value {
                        *text = analyzer.normalize(text);
                    }
                }
                Clause::Range(r) => [&mut r.gte, &mut r.gt, &mut r.lte, &mut r.lt].into_iter().for_each(ended),
                _ => {}
            }
            Ok(query)
        })
    }
}

/// A field of numbers as Elasticsearch 2 had them: dates and addresses were numbers. Date math keeps its case there.
fn is_number(kind: mapping::Kind) -> bool {
    kind.is_numeric() || kind.is_date() || kind == mapping::Kind::Ip
}

/// A pattern with what stands between its wildcards as `f` makes it; they themselves stay as they are.
pub(super) fn between_wildcards(pattern: &str, f: &dyn Fn(&str) -> String) -> String {
    let mut out = String::new();
    let mut run = String::new();
    for c in pattern.chars() {
        if matches!(c, '*' | '?' | '\\') {
            out.push_str(&f(&run));
            run.clear();
            out.push(c);
        } else {
            run.push(c);
        }
    }
    out.push_str(&f(&run));
    out
}
