//! `suggest`: corrections of words (`term`) and completions of beginnings (`completion`).
//!
//! Not here: corrections of whole texts (`phrase`); completions by `regex`, which are refused by name; what contexts a
//! field has, by which those of a request are read (the engine).

use super::phrase::PhraseSuggester;
use crate::json::{Fields, Node};
use crate::query::Fuzziness;
use crate::shape;
use model::{Error, ErrorKind, Result};
use serde_json::{Map, Value, json};

/// One suggestion that a request asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Suggestion {
    /// Under which it is answered.
    pub name: String,
    /// The text to correct, or to complete.
    pub text: String,
    /// How.
    pub by: Suggester,
}

/// As in a request.
pub(crate) fn render(all: &[Suggestion]) -> Value {
    let one = |suggestion: &Suggestion| {
        let mut body = Map::new();
        match &suggestion.by {
            Suggester::Term(term) => {
                body.insert("field".into(), term.field.clone().into());
                body.insert("size".into(), term.size.into());
                body.insert("suggest_mode".into(), format!("{:?}", term.mode).to_lowercase().into());
                body.insert("sort".into(), if term.by_frequency { "frequency" } else { "score" }.into());
                body.insert("max_edits".into(), term.max_edits.into());
                body.insert("prefix_length".into(), term.prefix_length.into());
                body.insert("min_word_length".into(), term.min_word_length.into());
            }
            Suggester::Completion(completion) => {
                body.insert("field".into(), completion.field.clone().into());
                body.insert("size".into(), completion.size.into());
                body.insert("skip_duplicates".into(), completion.skip_duplicates.into());
                if !completion.contexts.is_empty() {
                    body.insert("contexts".into(), Value::Object(completion.contexts.clone()));
                }
            }
            Suggester::Phrase(phrase) => {
                body.insert("field".into(), phrase.field.clone().into());
                body.insert("size".into(), phrase.size.into());
                body.insert("confidence".into(), phrase.confidence.into());
                body.insert("max_errors".into(), phrase.max_errors.into());
            }
        }
        let body = json!({ "text": suggestion.text, suggestion.by.wire(): body });
        (suggestion.name.clone(), body)
    };
    Value::Object(all.iter().map(one).collect())
}

/// How suggestions are made.
#[derive(Clone, Debug, PartialEq)]
pub enum Suggester {
    /// Other words of a field, for each word of the text.
    Term(TermSuggester),
    /// Values of a `completion` field that begin with the text.
    Completion(CompletionSuggester),
    /// The whole text, corrected.
    Phrase(Box<PhraseSuggester>),
}

impl Suggester {
    /// The name of its type.
    pub fn wire(&self) -> &'static str {
        match self {
            Suggester::Term(_) => "term",
            Suggester::Completion(_) => "completion",
            Suggester::Phrase(_) => "phrase",
        }
    }
}

/// When a word is corrected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuggestMode {
    /// It is in no document.
    Missing,
    /// Another one is in more documents.
    Popular,
    /// Always.
    Always,
}

/// How near two words are, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StringDistance {
    /// By the edits that the search for candidates counted.
    Internal,
    /// Edits, a swap of neighbours being one, over the longer length.
    DamerauLevenshtein,
    /// Edits over the longer length.
    Levenshtein,
    /// Common characters near to each other, more for a common beginning.
    JaroWinkler,
    /// Common pairs of characters.
    Ngram,
}

/// `term`.
#[derive(Clone, Debug, PartialEq)]
pub struct TermSuggester {
    pub field: String,
    pub analyzer: Option<String>,
    pub size: usize,
    /// Candidates taken from the index; never fewer than `size`.
    pub shard_size: Option<usize>,
    /// Most frequent first, not nearest.
    pub by_frequency: bool,
    pub mode: SuggestMode,
    pub accuracy: f32,
    pub max_edits: u8,
    pub max_inspections: usize,
    /// Words in more documents are right: a number from 1, below a part of all documents.
    pub max_term_freq: f32,
    pub prefix_length: usize,
    pub min_word_length: usize,
    /// Suggestions are in so many documents: a number from 1, below a part of all documents.
    pub min_doc_freq: f32,
    pub distance: StringDistance,
}

/// `completion`.
#[derive(Clone, Debug, PartialEq)]
pub struct CompletionSuggester {
    pub field: String,
    pub size: usize,
    pub skip_duplicates: bool,
    pub fuzzy: Option<FuzzyCompletion>,
    /// By name, as they were written.
    pub contexts: Map<String, Value>,
}

/// `fuzzy` of a completion.
#[derive(Clone, Debug, PartialEq)]
pub struct FuzzyCompletion {
    pub fuzziness: Fuzziness,
    pub transpositions: bool,
    /// Shorter texts are taken exactly.
    pub min_length: usize,
    pub prefix_length: usize,
}

impl TermSuggester {
    /// With the defaults of everything but the field.
    pub fn new(field: impl Into<String>) -> TermSuggester {
        TermSuggester {
            field: field.into(),
            analyzer: None,
            size: 5,
            shard_size: None,
            by_frequency: false,
            mode: SuggestMode::Missing,
            accuracy: 0.5,
            max_edits: 2,
            max_inspections: 5,
            max_term_freq: 0.01,
            prefix_length: 1,
            min_word_length: 4,
            min_doc_freq: 0.0,
            distance: StringDistance::Internal,
        }
    }
}

impl SuggestMode {
    /// By its name.
    ///
    /// # Errors
    /// No name of one.
    pub fn parse(text: &str) -> Result<SuggestMode> {
        match text.to_ascii_lowercase().as_str() {
            "missing" => Ok(SuggestMode::Missing),
            "popular" => Ok(SuggestMode::Popular),
            "always" => Ok(SuggestMode::Always),
            _ => Err(Error::illegal(format!(
                "No enum constant SuggestMode.{}: use missing, popular or always",
                text.to_uppercase()
            ))),
        }
    }
}

/// Reads `suggest`.
///
/// # Errors
/// The refusal of a name that is no suggester, and of suggesters that we do not have.
pub fn parse(node: Node) -> Result<Vec<Suggestion>> {
    let mut fields = node.fields("suggest")?;
    let global = fields.take_string("text")?;
    let mut out = Vec::new();
    while let Some((name, node)) = fields.next_field() {
        if !node.is_object() {
            return Err(node.error(format!("unexpected token [{}] after [{name}]", node.kind_name())));
        }
        out.push(one(name, node, global.as_deref())?);
    }
    Ok(out)
}

fn one(name: String, node: Node, global: Option<&str>) -> Result<Suggestion> {
    let mut fields = node.fields("suggestion")?;
    let text = fields.take_string("text")?;
    let prefix = fields.take_string("prefix")?;
    if fields.take("regex").is_some() {
        return Err(Error::illegal(format!(
            "suggestion [{name}] is by [regex]: completions are by [prefix] only"
        )));
    }
    let Some((kind, body)) = fields.next_field() else {
        return Err(Error::new(ErrorKind::Parse, "missing suggestion object"));
    };
    let by = match kind.as_str() {
        "term" => Suggester::Term(term(body)?),
        "completion" => Suggester::Completion(completion(body)?),
        "phrase" => Suggester::Phrase(Box::new(PhraseSuggester::parse(body)?)),
        other => {
            let hint = model::nearest::question(other, ["term", "completion", "phrase"]);
            return Err(body.error(format!("unknown field [{other}]{hint}")));
        }
    };
    if let Some((other, node)) = fields.next_field() {
        return Err(node.error(format!("suggestion [{name}] has more than one suggester, [{other}] too")));
    }
    let Some(text) = prefix.or(text).or_else(|| global.map(str::to_owned)) else {
        return Err(Error::illegal("The required text option is missing"));
    };
    Ok(Suggestion { name, text, by })
}

fn required_field(fields: &mut Fields) -> Result<String> {
    fields
        .take_string("field")?
        .ok_or_else(|| Error::illegal("the required field option is missing"))
}

fn positive(fields: &mut Fields, name: &str) -> Result<Option<usize>> {
    let Some(number) = fields.take_i64(name)? else {
        return Ok(None);
    };
    let fits = usize::try_from(number).ok().filter(|n| *n > 0);
    fits.map(Some)
        .ok_or_else(|| Error::illegal(format!("{name} must be positive, found [{number}]")))
}

fn term(node: Node) -> Result<TermSuggester> {
    words(node.fields("term")?)
}

/// The words of a `direct_generator`: the same options, by which they are looked for one at a time.
pub(super) fn direct_generator(mut fields: Fields) -> Result<TermSuggester> {
    if !fields.has("field") {
        return Err(Error::illegal("Required [field]"));
    }
    if fields.has("analyzer") {
        return Err(Error::new(
            ErrorKind::XContentParse,
            "[direct_generator] unknown field [analyzer]",
        ));
    }
    if let Some(mode) = fields.take("suggest_mode") {
        let text = mode.string("suggest_mode")?;
        if SuggestMode::parse(&text).is_err() {
            return Err(shape::all_shards_failed(Error::illegal(format!(
                "Illegal suggest mode {text}"
            ))));
        }
        fields.put("suggest_mode", mode);
    }
    words(fields)
}

fn words(mut fields: Fields) -> Result<TermSuggester> {
    let mut out = TermSuggester::new(required_field(&mut fields)?);
    out.analyzer = fields.take_string("analyzer")?;
    out.size = positive(&mut fields, "size")?.unwrap_or(out.size);
    out.shard_size = positive(&mut fields, "shard_size")?;
    out.by_frequency = match fields.take_string("sort")?.as_deref().map(str::to_ascii_lowercase).as_deref() {
        None | Some("score") => false,
        Some("frequency") => true,
        Some(other) => return Err(Error::illegal(format!("Illegal suggest sort {other}"))),
    };
    if let Some(mode) = fields.take_string("suggest_mode")? {
        out.mode = SuggestMode::parse(&mode)?;
    }
    let mut number = |name: &str, most: Option<f64>, slot: &mut f32| -> Result<()> {
        if let Some(node) = fields.take(name) {
            let given = node.f64(name)?;
            if given < 0.0 || most.is_some_and(|most| given > most) || given > 1.0 && given.fract() != 0.0 {
                return Err(node.error(format!("[{name}] cannot be [{given}]")));
            }
            *slot = given as f32;
        }
        Ok(())
    };
    number("accuracy", Some(1.0), &mut out.accuracy)?;
    number("max_term_freq", None, &mut out.max_term_freq)?;
    number("min_doc_freq", None, &mut out.min_doc_freq)?;
    if let Some(edits) = fields.take_i64("max_edits")? {
        out.max_edits = match edits {
            1 => 1,
            2 => 2,
            _ => return Err(Error::illegal(format!("maxEdits must be between 1 and 2 but was [{edits}]"))),
        };
    }
    out.max_inspections = positive(&mut fields, "max_inspections")?.unwrap_or(out.max_inspections);
    if let Some(length) = fields.take_any(&["prefix_length", "prefix_len"]) {
        out.prefix_length =
            usize::try_from(length.i64("prefix_length")?).map_err(|_| Error::illegal("prefixLength must be positive"))?;
    }
    if let Some(length) = fields.take_any(&["min_word_length", "min_word_len"]) {
        out.min_word_length = usize::try_from(length.i64("min_word_length")?)
            .ok()
            .filter(|n| *n > 0)
            .ok_or_else(|| Error::illegal("minWordLength must be greater or equal to 1"))?;
    }
    if let Some(name) = fields.take_string("string_distance")? {
        out.distance = match name.to_ascii_lowercase().as_str() {
            "internal" => StringDistance::Internal,
            "damerau_levenshtein" | "dameraulevenshtein" => StringDistance::DamerauLevenshtein,
            "levenshtein" | "levenstein" => StringDistance::Levenshtein,
            "jaro_winkler" | "jarowinkler" => StringDistance::JaroWinkler,
            "ngram" => StringDistance::Ngram,
            _ => return Err(Error::illegal(format!("Illegal distance option {name}"))),
        };
    }
    fields.finish()?;
    Ok(out)
}

fn completion(node: Node) -> Result<CompletionSuggester> {
    let mut fields = node.fields("completion")?;
    let field = required_field(&mut fields)?;
    let contexts = match fields.take_any(&["contexts", "context"]) {
        None => Map::new(),
        Some(node) if node.is_object() => match node.into_value() {
            Value::Object(contexts) => contexts,
            _ => Map::new(),
        },
        Some(node) => {
            let reason = format!("[completion] contexts doesn't support values of type: {}", node.kind_name());
            return Err(Error::new(
                ErrorKind::XContentParse,
                format!("[{}:{}] {reason}", node.line, node.col),
            ));
        }
    };
    let fuzzy = match fields.take("fuzzy") {
        None => None,
        Some(node) if !node.is_object() => {
            let asked = node.boolean("fuzzy")?;
            asked.then(FuzzyCompletion::default)
        }
        Some(node) => {
            let mut options = node.fields("fuzzy")?;
            let mut fuzzy = FuzzyCompletion::default();
            if let Some(node) = options.take("fuzziness") {
                fuzzy.fuzziness = Fuzziness::parse(&node)?;
            }
            fuzzy.transpositions = options.take_bool("transpositions")?.unwrap_or(true);
            fuzzy.min_length = positive(&mut options, "min_length")?.unwrap_or(3);
            if let Some(length) = options.take_i64("prefix_length")? {
                fuzzy.prefix_length = usize::try_from(length).map_err(|_| Error::illegal("prefixLength must not be negative"))?;
            }
            // Characters are counted as such either way.
            options.take_bool("unicode_aware")?;
            options.take_i64("max_determinized_states")?;
            options.finish()?;
            Some(fuzzy)
        }
    };
    let out = CompletionSuggester {
        field,
        size: positive(&mut fields, "size")?.unwrap_or(5),
        skip_duplicates: fields.take_bool("skip_duplicates")?.unwrap_or(false),
        fuzzy,
        contexts,
    };
    positive(&mut fields, "shard_size")?;
    fields.take("analyzer");
    fields.finish()?;
    Ok(out)
}

impl Default for FuzzyCompletion {
    fn default() -> FuzzyCompletion {
        FuzzyCompletion {
            fuzziness: Fuzziness::Edits(1),
            transpositions: true,
            min_length: 3,
            prefix_length: 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: Value, expected: std::result::Result<&str, &str>) {
        let found = parse(Node::from_value(body.clone()));
        match (found, expected) {
            (Ok(list), Ok(kind)) => assert_eq!(list[0].by.wire(), kind, "{body}"),
            (Err(error), Err(part)) => assert!(error.reason().contains(part), "{body}: {error}"),
            (found, _) => panic!("{body}: {found:?}"),
        }
    }

    #[test]
    fn forms() {
        check(json!({"text": "x", "s": {"term": {"field": "f"}}}), Ok("term"));
        check(
            json!({"s": {"prefix": "x", "completion": {"field": "f", "fuzzy": {"fuzziness": 2}}}}),
            Ok("completion"),
        );
        check(json!({"s": {"text": "x", "phrase": {"field": "f"}}}), Ok("phrase"));
        check(
            json!({"s": {"text": "x", "phrase": {"field": "f", "bogus": 1}}}),
            Err("suggester[phrase] doesn't support field [bogus]"),
        );
        check(
            json!({"s": {"text": "x", "phrase": {"field": "f", "direct_generator": [{}]}}}),
            Err("Required [field]"),
        );
        check(json!({"s": {"text": "x"}}), Err("missing suggestion object"));
        check(json!({"s": {"term": {"field": "f"}}}), Err("text option is missing"));
        check(json!({"s": {"text": "x", "term": {}}}), Err("field option is missing"));
        check(
            json!({"s": {"text": "x", "terms": {"field": "f"}}}),
            Err("did you mean [term]?"),
        );
        check(
            json!({"s": {"text": "x", "term": {"field": "f", "max_edits": 3}}}),
            Err("between 1 and 2"),
        );
        check(json!({"s": {"text": "x", "term": {"field": "f", "sizes": 3}}}), Err("sizes"));
    }
}
