//! From JSON to a clause: the name, its row in the table of clauses, the file of that clause.

use super::clauses::ClauseSpec;
use super::{Clause, Fuzziness, InnerHits, Place, Query};
use crate::json::{self, Fields, Json, Node, Reading};
use model::nearest;
use model::{Dialect, Error, ErrorKind, Result, Topic, settings};

/// The state of parsing.
#[derive(Clone, Copy, Debug)]
pub struct Parsing {
    /// Whom we speak to.
    pub dialect: Dialect,
    /// How many queries may still be inside each other.
    pub depth_left: u32,
    /// The clause stands in a filter: there a `bool` of 2015 with `should` wanted one of them, whatever else it had.
    pub in_filter: bool,
    /// The innermost clause that was refused.
    refused: Option<Place>,
    /// Clauses of `bool` and `dis_max` so far.
    clauses: u32,
    /// The clause stands in another one.
    inside: bool,
}

/// Queries of 2015 were written by programs that nest more than the default of today allows.
const DEPTH_AT_LEAST: u32 = 100;

impl Parsing {
    /// The limits of the dialect.
    pub fn new(dialect: Dialect) -> Parsing {
        let depth = u32::from(dialect.depths.queries);
        let least = if dialect.rules.nests_queries_deeper {
            DEPTH_AT_LEAST
        } else {
            1
        };
        Parsing {
            dialect,
            depth_left: depth.max(least),
            in_filter: false,
            refused: None,
            clauses: 0,
            inside: false,
        }
    }

    /// The same for a filter that stands in no query, as that of an alias or of an aggregation: in 2015 one of the options of a `bool`
    /// had to match in filters.
    pub fn of_filter(dialect: Dialect) -> Parsing {
        Parsing {
            in_filter: true,
            ..Parsing::new(dialect)
        }
    }

    /// Counts a clause before it is read. Planning counts the same ones, and what texts become besides.
    ///
    /// # Errors
    /// `too_many_clauses`.
    pub(super) fn count_clause(&mut self) -> Result<()> {
        self.clauses = self.clauses.saturating_add(1);
        match self.dialect.clauses_max {
            Some(most) if self.clauses > most => Err(too_many_clauses(most as usize)),
            _ => Ok(()),
        }
    }

    /// The options of a clause.
    pub(super) fn options(&self, node: Node, owner: &str) -> Result<Fields> {
        if !node.is_object() {
            return Err(node.error(format!("[{owner}] query malformed, no start_object after query name")));
        }
        Ok(node
            .fields(owner)?
            .of_query()
            .lenient(self.dialect.rules.reads_boolean_words)
            .strict())
    }

    /// The clause with its `boost` and `_name`, nothing else being left.
    pub(super) fn finish(&self, mut fields: Fields, owner: &str, clause: impl Into<Clause>) -> Result<Query> {
        let query = self.common(&mut fields, owner, clause.into())?;
        fields.finish()?;
        Ok(query)
    }

    /// A clause lacks something: what is said today, and what was said in 2015 with the place of the clause.
    pub(super) fn lacks(&self, (line, col): (u32, u32), today: &str, then: &str) -> Error {
        if self.dialect.rules.query_parsing_exceptions {
            Error::new(ErrorKind::QueryParsing, then).with("line", line).with("col", col)
        } else {
            Error::illegal(today)
        }
    }

    /// Takes `boost` and `_name`.
    pub(super) fn common(&self, fields: &mut Fields, owner: &str, clause: Clause) -> Result<Query> {
        let boost = fields.read("boost", &["VALUE_NUMBER", "VALUE_STRING"], |node| {
            let boost = node.f32("boost")?;
            if boost < 0.0 && !self.dialect.rules.tolerates_value_bounds {
                return Err(Error::illegal(format!(
                    "negative [boost] are not allowed in [{owner}], use a value between 0 and 1 to deboost"
                )));
            }
            Ok(boost)
        })?;
        let boost = boost.unwrap_or(1.0);
        let name = fields.take_string("_name")?;
        if self.dialect.rules.takes_former_options {
            for ignored in ["_cache", "_cache_key"] {
                fields.take(ignored);
            }
        }
        Ok(Query {
            boost,
            name,
            ..clause.into()
        })
    }

    /// Takes `_name`, and in the typed dialect `boost`, from beside the field.
    pub(super) fn common_name(&self, fields: &mut Fields, owner: &str) -> Result<Query> {
        if self.dialect.rules.options_beside_field {
            return self.common(fields, owner, Clause::MatchAll);
        }
        Ok(Query {
            name: fields.take_string("_name")?,
            ..Query::all()
        })
    }

    /// The one field of a clause that is `{field: …}`, and beside it what the typed dialect puts there.
    pub(super) fn one_field(&self, node: Node, owner: &str) -> Result<(String, Node, Fields)> {
        self.one_field_or(node, owner, || Error::illegal("field name is null or empty"))
    }

    /// As [`Parsing::one_field`], with the refusal of a clause that names no field.
    pub(super) fn one_field_or(&self, node: Node, owner: &str, unnamed: impl Fn() -> Error) -> Result<(String, Node, Fields)> {
        let mut fields = self.options(node, owner)?;
        let mut beside = Node::from_value(serde_json::json!({})).fields(owner)?.of_query();
        if self.dialect.rules.options_beside_field {
            beside = beside.lenient(true).strict();
            for name in ["_name", "boost", "_cache", "_cache_key"] {
                if let Some(node) = fields.take(name) {
                    beside.put(name, node);
                }
            }
        } else if fields.len() > 1
            && let Some(node) = fields.take("_name")
        {
            beside.put("_name", node);
        }
        let Some((field, body)) = fields.next_field() else {
            return Err(unnamed());
        };
        if field.is_empty() && !self.dialect.rules.tolerates_missing_options {
            return Err(unnamed());
        }
        if let Some((other, node)) = fields.next_field() {
            return Err(node.error(format!(
                "[{owner}] query doesn't support multiple fields, found [{field}] and [{other}]"
            )));
        }
        Ok((field, body, beside))
    }

    /// Runs `f` one level deeper.
    pub(super) fn deeper<T>(&mut self, f: impl FnOnce(&mut Parsing) -> Result<T>) -> Result<T> {
        if self.depth_left == 0 {
            return Err(too_deep());
        }
        self.depth_left -= 1;
        let result = f(self);
        self.depth_left += 1;
        result
    }

    /// A query inside a query.
    pub(super) fn inner(&mut self, node: Node) -> Result<Query> {
        Query::parse(node, self)
    }

    /// Runs `f` inside a filter.
    pub(super) fn filtering<T>(&mut self, f: impl FnOnce(&mut Parsing) -> T) -> T {
        let around = std::mem::replace(&mut self.in_filter, true);
        let result = f(self);
        self.in_filter = around;
        result
    }

    /// A filter inside a query.
    pub(super) fn inner_filter(&mut self, node: Node) -> Result<Query> {
        self.filtering(|cx| cx.inner(node))
    }

    /// The query of a clause about related documents. 2015 also wrote `filter`; `read` reads that one.
    pub(super) fn related_query(
        &mut self,
        fields: &mut Fields,
        read: fn(&mut Parsing, Node) -> Result<Query>,
    ) -> Result<Option<Query>> {
        let query = fields.take("query").map(|n| self.inner(n)).transpose()?;
        let filter = if self.dialect.rules.has_legacy_clauses {
            fields.take("filter")
        } else {
            None
        };
        let filter = filter.map(|n| read(self, n)).transpose()?;
        Ok(query.or(filter))
    }

    /// `inner_hits`.
    pub(super) fn inner_hits_of(&mut self, fields: &mut Fields) -> Result<Option<Box<InnerHits>>> {
        let hits = fields
            .take("inner_hits")
            .map(|n| InnerHits::parse(n, self.dialect))
            .transpose()?;
        Ok(hits.map(Box::new))
    }
}

impl Query {
    /// Reads a query.
    ///
    /// # Errors
    /// It is none, or nested too deeply.
    pub fn parse(node: Node, cx: &mut Parsing) -> Result<Query> {
        let (line, col) = (node.line, node.col);
        match Query::parse_optional(node, cx)? {
            Some(query) => Ok(query),
            None if cx.dialect.rules.allows_empty_clauses => Ok(Clause::MatchNone.into()),
            None => {
                let sentence = "query malformed, empty clause found";
                Err(Error::illegal(sentence).with("line", line).with("col", col))
            }
        }
    }

    /// Reads a query; where the dialect allows empty clauses `{}` is none.
    ///
    /// # Errors
    /// It is no query, or nested too deeply.
    pub fn parse_unless_empty(node: Node, cx: &mut Parsing) -> Result<Option<Query>> {
        match cx.dialect.rules.allows_empty_clauses {
            true => Query::parse_optional(node, cx),
            false => Query::parse(node, cx).map(Some),
        }
    }

    /// Reads a query; `{}` is none.
    ///
    /// # Errors
    /// It is no query, or nested too deeply.
    pub fn parse_optional(node: Node, cx: &mut Parsing) -> Result<Option<Query>> {
        let at = Place::of(&node);
        let inside = std::mem::replace(&mut cx.inside, true);
        let result = cx.deeper(|cx| read(node, cx));
        cx.inside = inside;
        match result {
            Ok(query) => Ok(query.map(|query| Query { at, ..query })),
            Err(error) => {
                let error = if cx.dialect.rules.query_parsing_exceptions {
                    as_of_2015(error)
                } else {
                    error
                };
                let innermost = *cx.refused.get_or_insert(at);
                // Clauses around it show their own position first.
                Err(if inside { error } else { innermost.mark(error) })
            }
        }
    }
}

/// More clauses than the limit.
pub fn too_many_clauses(most: usize) -> Error {
    let reason = format!("maxClauseCount is set to {most}");
    Error::new(ErrorKind::TooManyClauses, reason).with("setting", settings::MAX_CLAUSE_COUNT.name)
}

/// More filters of a `filters` aggregation than the limit.
pub fn too_many_filters(most: usize, count: usize) -> Error {
    let setting = settings::MAX_CLAUSE_COUNT.name;
    let reason = format!(
        "Number of filters is too large, must be less than or equal to: [{most}] but was [{count}]. \
         This limit can be set by changing the [{setting}] setting."
    );
    Error::illegal(reason).with("setting", setting)
}

fn too_deep() -> Error {
    Error::illegal(format!(
        "The nested depth of the query exceeds the maximum nested depth for queries set in [{}]",
        settings::QUERY_MAX_DEPTH.name
    ))
}

/// The name that a parsing error had in 2015.
fn as_of_2015(error: Error) -> Error {
    // A way to score that there is not was an exception of its own.
    if error.is_about(Topic::ScoreMode) {
        return error;
    }
    if !matches!(
        error.kind(),
        ErrorKind::Parsing | ErrorKind::IllegalArgument | ErrorKind::XContentParse
    ) {
        return error;
    }
    let mut old = Error::new(ErrorKind::QueryParsing, error.reason());
    for (name, value) in error.details() {
        old = old.with(name, value.clone());
    }
    old
}

fn read(node: Node, cx: &mut Parsing) -> Result<Option<Query>> {
    if !node.is_object() {
        return Err(node.error("[_na] query malformed, must start with start_object"));
    }
    let Json::Object(members) = node.value else {
        return Ok(None);
    };
    let mut members = members.into_iter();
    let Some((mut name, body)) = members.next() else {
        return Ok(None);
    };
    if cx.dialect.rules.has_legacy_clauses && name.bytes().any(|b| b.is_ascii_uppercase()) {
        // `constantScore` was `constant_score`.
        let snake = name.chars().fold(String::new(), |mut out, c| {
            if c.is_ascii_uppercase() {
                out.push('_');
            }
            out.push(c.to_ascii_lowercase());
            out
        });
        if ClauseSpec::find(&snake, true).is_some() {
            name = snake;
        }
    }
    if let Some((_, other)) = members.next() {
        return Err(other.error(format!(
            "[{name}] malformed query, expected [END_OBJECT] but found [FIELD_NAME]"
        )));
    }
    let Some(spec) = ClauseSpec::find(&name, cx.dialect.rules.has_legacy_clauses) else {
        return Err(unknown(&name, &body, cx.dialect));
    };
    if !body.is_object() && spec.needs_object(cx.dialect.rules.has_legacy_clauses) {
        return Err(body.error(format!("[{name}] query malformed, no start_object after query name")));
    }
    spec.parse(body, cx).map(Some)
}

/// Is it the name of a clause of today?
pub fn is_clause(name: &str) -> bool {
    ClauseSpec::find(name, false).is_some()
}

fn unknown(name: &str, at: &Node, dialect: Dialect) -> Error {
    if dialect.rules.query_parsing_exceptions {
        return at.error(format!("No query registered for [{name}]"));
    }
    let meant = nearest::question(name, ClauseSpec::names());
    let cause = format!("[{}:{}] unknown field [{name}]", at.line, at.col);
    at.error(format!("unknown query [{name}]{meant}"))
        .with_cause(Error::new(ErrorKind::NamedObjectNotFound, cause))
}

/// Reads the bytes of one query.
///
/// # Errors
/// They are no JSON or no query.
pub fn parse_query_bytes(bytes: &[u8], dialect: Dialect) -> Result<Query> {
    parse_bytes(bytes, Parsing::new(dialect))
}

/// Reads the bytes of one filter, as that of an alias.
///
/// # Errors
/// As [`parse_query_bytes`].
pub fn parse_filter_bytes(bytes: &[u8], dialect: Dialect) -> Result<Query> {
    parse_bytes(bytes, Parsing::of_filter(dialect))
}

fn parse_bytes(bytes: &[u8], mut parsing: Parsing) -> Result<Query> {
    let dialect = parsing.dialect;
    let how = Reading {
        lenient: dialect.rules.reads_loose_json,
        duplicates: dialect.rules.takes_duplicate_keys,
        depth_max: usize::from(dialect.depths.json),
    };
    Query::parse(json::read(bytes, how)?, &mut parsing)
}

/// The error of an object parser whose member failed.
pub(super) fn field_error(owner: &str, field: &str, inner: Error, at: (u32, u32)) -> Error {
    let number = |name: &str| inner.details().get(name).and_then(serde_json::Value::as_u64);
    let (line, col) = match (number("line"), number("col")) {
        (Some(line), Some(col)) => (line, col),
        _ => (u64::from(at.0), u64::from(at.1)),
    };
    let sentence = format!("[{line}:{col}] [{owner}] failed to parse field [{field}]");
    let root = inner.root().clone();
    Error::new(ErrorKind::XContentParse, sentence)
        .with("line", line)
        .with("col", col)
        .with_cause(inner)
        .with_root_cause(root)
}

/// Takes `fuzziness`.
pub(super) fn take_fuzziness(fields: &mut Fields) -> Result<Option<Fuzziness>> {
    match fields.take("fuzziness") {
        Some(node) if !node.is_null() => Fuzziness::parse(&node).map(Some),
        _ => Ok(None),
    }
}
