//! From the tree of a query string to clauses.

use super::{Occur, Syntax};
use crate::query::{BoolQuery, Clause, Fuzziness, FuzzyQuery, MatchPhraseQuery, MatchQuery, MultiMatchQuery, MultiMatchType};
use crate::query::{Operator, PatternQuery, Query, QueryStringQuery, RangeQuery, ZeroTerms};
use serde_json::Value;

/// Clauses over `fields`: those of the query, or the default ones, with patterns resolved by the engine.
/// A field that the text names is used as it is written.
pub fn expand(options: &QueryStringQuery, syntax: &Syntax, fields: &[(String, f32)]) -> Query {
    expand_with(options, syntax, fields, &mut |name| vec![name.to_owned()])
}

/// As [`expand`], asking `resolve` which fields a name or pattern in the text means.
pub fn expand_with(
    options: &QueryStringQuery,
    syntax: &Syntax,
    fields: &[(String, f32)],
    resolve: &mut dyn FnMut(&str) -> Vec<String>,
) -> Query {
    let mut expansion = Expansion { options, resolve };
    let mut query = expansion.clause(syntax, fields);
    match &mut query.clause {
        Clause::Bool(b) => b.minimum_should_match.clone_from(&options.minimum_should_match),
        // Several words without operators are one clause; its words are the options then.
        Clause::Match(m) => m.minimum_should_match.clone_from(&options.minimum_should_match),
        _ => {}
    }
    query
}

struct Expansion<'a> {
    options: &'a QueryStringQuery,
    resolve: &'a mut dyn FnMut(&str) -> Vec<String>,
}

impl Expansion<'_> {
    fn clause(&mut self, syntax: &Syntax, fields: &[(String, f32)]) -> Query {
        match syntax {
            Syntax::All => Query::all(),
            Syntax::Exists(name) => Clause::Exists { field: name.clone() }.into(),
            Syntax::Missing(name) => Clause::Bool(BoolQuery {
                must_not: vec![Clause::Exists { field: name.clone() }.into()],
                ..BoolQuery::default()
            })
            .into(),
            Syntax::Field(name, inner) => {
                let named: Vec<(String, f32)> = (self.resolve)(name).into_iter().map(|f| (f, 1.0)).collect();
                self.clause(inner, &named)
            }
            Syntax::Boost(inner, boost) => {
                let mut query = self.clause(inner, fields);
                query.boost *= boost;
                query
            }
            Syntax::Bool(clauses) => self.bool(clauses, fields),
            Syntax::Wildcard(text) if text == "*" && self.options.fields.is_empty() && fields.len() != 1 => Query::all(),
            Syntax::Term(text) if self.options.split_on_whitespace && text.trim().contains(char::is_whitespace) => {
                let occur = match self.options.default_operator {
                    Operator::And => Occur::Must,
                    Operator::Or => Occur::Should,
                };
                let words: Vec<(Occur, Syntax)> = text
                    .split_whitespace()
                    .map(|word| (occur, Syntax::Term(word.to_owned())))
                    .collect();
                self.bool(&words, fields)
            }
            Syntax::Term(text) if self.options.kind == MultiMatchType::CrossFields && fields.len() > 1 => {
                let options = MatchQuery {
                    field: String::new(),
                    ..self.of_words(text, "")
                };
                let kind = MultiMatchType::CrossFields;
                let tie_breaker = self.options.tie_breaker;
                Clause::MultiMatch(MultiMatchQuery {
                    fields: fields.to_vec(),
                    kind,
                    tie_breaker,
                    slop: 0,
                    options,
                })
                .into()
            }
            _ => {
                let phrase = matches!(syntax, Syntax::Phrase { .. });
                self.over(fields, phrase, &|this, field| this.leaf(syntax, field))
            }
        }
    }

    fn bool(&mut self, clauses: &[(Occur, Syntax)], fields: &[(String, f32)]) -> Query {
        if clauses.is_empty() {
            return Clause::MatchNone.into();
        }
        let mut made = BoolQuery::default();
        for (occur, inner) in clauses {
            let query = self.clause(inner, fields);
            match occur {
                Occur::Must => made.must.push(query),
                Occur::Should => made.should.push(query),
                Occur::MustNot => made.must_not.push(query),
            }
        }
        Clause::Bool(made).into()
    }

    /// One clause a field; the best counts, or all do.
    fn over(&self, fields: &[(String, f32)], phrase: bool, leaf: &dyn Fn(&Self, &str) -> Clause) -> Query {
        let mut queries: Vec<Query> = fields
            .iter()
            .map(|(field, boost)| Query {
                boost: *boost,
                ..Query::from(leaf(self, field))
            })
            .collect();
        match queries.len() {
            0 => Clause::MatchNone.into(),
            1 => queries.pop().unwrap_or_else(Query::all),
            _ => {
                let summed = matches!(self.options.kind, MultiMatchType::MostFields | MultiMatchType::BoolPrefix);
                let usual = if summed && !phrase { 1.0 } else { 0.0 };
                Clause::DisMax {
                    queries,
                    tie_breaker: self.options.tie_breaker.unwrap_or(usual),
                }
                .into()
            }
        }
    }

    fn leaf(&self, syntax: &Syntax, field: &str) -> Clause {
        let options = self.options;
        match syntax {
            Syntax::Term(text) => match options.kind {
                kind if kind == MultiMatchType::Phrase || options.phrases_of_words => {
                    Clause::MatchPhrase(self.phrase(text, field, options.phrase_slop, false))
                }
                MultiMatchType::PhrasePrefix => Clause::MatchPhrasePrefix(self.phrase(text, field, options.phrase_slop, false)),
                MultiMatchType::BoolPrefix => Clause::MatchBoolPrefix(self.of_words(text, field)),
                _ => Clause::Match(self.of_words(text, field)),
            },
            Syntax::Phrase { text, slop } => {
                Clause::MatchPhrase(self.phrase(text, field, slop.unwrap_or(options.phrase_slop), true))
            }
            Syntax::Fuzzy { text, edits } => {
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most 2")]
                let fuzziness = match edits {
                    Some(n) if *n == 0.0 || *n >= 1.0 => Fuzziness::Edits(n.min(2.0) as u8),
                    // A similarity of old.
                    Some(_) => Fuzziness::Edits(2),
                    None => options.fuzziness,
                };
                Clause::Fuzzy(FuzzyQuery {
                    field: field.to_owned(),
                    value: Value::String(self.expand_text(text)),
                    fuzziness,
                    prefix_length: options.fuzzy_prefix_length,
                    max_expansions: options.fuzzy_max_expansions,
                    transpositions: options.fuzzy_transpositions,
                    rewrite: None,
                })
            }
            Syntax::Wildcard(text) if text == "*" => Clause::Exists { field: field.to_owned() },
            Syntax::Prefix(text) => Clause::Prefix(self.pattern(text, field)),
            Syntax::Wildcard(text) => Clause::Wildcard(self.pattern(text, field)),
            Syntax::Regex(text) => Clause::Regexp(self.pattern(text, field)),
            Syntax::Range {
                low,
                high,
                with_low,
                with_high,
            } => {
                let mut range = RangeQuery {
                    field: field.to_owned(),
                    time_zone: options.time_zone.clone(),
                    ..RangeQuery::default()
                };
                let end = |text: &Option<String>| text.clone().map(Value::String);
                if *with_low {
                    range.gte = end(low)
                } else {
                    range.gt = end(low)
                }
                if *with_high {
                    range.lte = end(high)
                } else {
                    range.lt = end(high)
                }
                Clause::Range(range)
            }
            Syntax::All | Syntax::Exists(_) | Syntax::Missing(_) | Syntax::Field(..) | Syntax::Boost(..) | Syntax::Bool(_) => {
                Clause::MatchAll
            }
        }
    }

    /// The text of a pattern or fuzzy word.
    fn expand_text(&self, text: &str) -> String {
        if self.options.lowercase_expanded {
            text.to_lowercase()
        } else {
            text.to_owned()
        }
    }

    fn lenient(&self) -> bool {
        self.options.lenient.unwrap_or(self.options.fields.is_empty())
    }

    fn of_words(&self, text: &str, field: &str) -> MatchQuery {
        MatchQuery {
            operator: self.options.default_operator,
            analyzer: self.options.analyzer.clone(),
            lenient: self.lenient(),
            auto_generate_synonyms_phrase_query: self.options.auto_generate_synonyms_phrase_query,
            ..MatchQuery::new(field, Value::String(text.to_owned()))
        }
    }

    fn phrase(&self, text: &str, field: &str, slop: u32, quoted: bool) -> MatchPhraseQuery {
        let options = self.options;
        let suffix = options.quote_field_suffix.as_deref().filter(|_| quoted).unwrap_or_default();
        let analyzer = options
            .quote_analyzer
            .as_ref()
            .filter(|_| quoted)
            .or(options.analyzer.as_ref());
        MatchPhraseQuery {
            field: format!("{field}{suffix}"),
            query: Value::String(text.to_owned()),
            slop,
            analyzer: analyzer.cloned(),
            zero_terms_query: ZeroTerms::None,
            max_expansions: 50,
        }
    }

    fn pattern(&self, text: &str, field: &str) -> PatternQuery {
        PatternQuery {
            field: field.to_owned(),
            value: self.expand_text(text),
            case_insensitive: false,
            rewrite: self.options.rewrite,
            flags: None,
            max_determinized_states: self.options.max_determinized_states,
        }
    }
}
