//! `phrase` of `suggest`: a whole text corrected, by what words follow each other in a field.
//!
//! Not here: candidates and scores (the engine).

use super::suggest::{TermSuggester, direct_generator};
use crate::json::{Json, Node};
use crate::shape;
use model::{Error, ErrorKind, Result};
use serde_json::{Map, Value};

/// `phrase`.
#[derive(Clone, Debug, PartialEq)]
pub struct PhraseSuggester {
    pub field: String,
    pub analyzer: Option<String>,
    pub size: usize,
    pub shard_size: Option<usize>,
    /// How likely it is that a word of the field is right.
    pub real_word_likelihood: f64,
    /// Corrections score more than the text itself times this.
    pub confidence: f64,
    /// Most words to correct: a number from 1, below a part of all words.
    pub max_errors: f32,
    /// So many words are looked at together; the field's shingles say without.
    pub gram_size: Option<usize>,
    /// Stands between the words of a shingle.
    pub separator: String,
    /// Texts of so many words are left alone.
    pub token_limit: usize,
    /// Shingles of the text itself are passed over.
    pub require_unigram: bool,
    pub smoothing: Smoothing,
    /// Before and behind what was corrected.
    pub highlight: Option<(String, String)>,
    pub generators: Vec<Generator>,
    pub collate: Option<Collate>,
}

/// The model for word sequences that the field does not have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Smoothing {
    /// The shorter sequence, at a discount.
    StupidBackoff(f64),
    /// All sequences are there a bit.
    Laplace(f64),
    /// Weights of three words, two and one.
    Linear(f64, f64, f64),
}

/// Where other words come from.
#[derive(Clone, Debug, PartialEq)]
pub struct Generator {
    /// Field and options; `size` is how many words.
    pub words: TermSuggester,
    /// Analyzers of a word before it is looked for, and of what was found.
    pub pre_filter: Option<String>,
    pub post_filter: Option<String>,
}

/// A query that finds something for a correction that is good.
#[derive(Clone, Debug, PartialEq)]
pub struct Collate {
    /// A template; `suggestion` is the correction.
    pub query: String,
    pub params: Map<String, Value>,
    /// Corrections that find nothing are answered too, each with whether it matches.
    pub prune: bool,
}

impl PhraseSuggester {
    /// With the defaults of everything but the field.
    pub fn new(field: impl Into<String>) -> PhraseSuggester {
        PhraseSuggester {
            field: field.into(),
            analyzer: None,
            size: 5,
            shard_size: None,
            real_word_likelihood: 0.95,
            confidence: 1.0,
            max_errors: 0.5,
            gram_size: None,
            separator: " ".into(),
            token_limit: 10,
            require_unigram: true,
            smoothing: Smoothing::StupidBackoff(0.4),
            highlight: None,
            generators: Vec::new(),
            collate: None,
        }
    }

    /// Reads the body of `phrase`.
    ///
    /// # Errors
    /// Refuses as the reference does, in its words.
    pub(super) fn parse(node: Node) -> Result<PhraseSuggester> {
        let mut field = None;
        let mut out = PhraseSuggester::new("");
        for (key, value) in shape::object(node, "phrase")? {
            match &value.value {
                Json::Object(_) => out.take_object(&key, value)?,
                Json::Array(_) if key == "direct_generator" => {
                    for item in value.items() {
                        out.generators.push(generator(item)?);
                    }
                }
                Json::Array(_) => return Err(value.error(format!("suggester[phrase]  doesn't support array field [{key}]"))),
                _ if key == "field" => field = Some(value.string("field")?),
                _ => out.take_value(&key, &value)?,
            }
        }
        out.field = field.ok_or_else(|| Error::illegal("the required field option is missing"))?;
        Ok(out)
    }

    fn take_value(&mut self, key: &str, value: &Node) -> Result<()> {
        let above_zero = |name: &str, least: f64, open: bool, words: &str| -> Result<f64> {
            let number = value.f64(name)?;
            let fits = if open { number > least } else { number >= least };
            if fits {
                Ok(number)
            } else {
                Err(Error::illegal(words.to_owned()))
            }
        };
        let counted = |name: &str, words: &str| -> Result<usize> {
            let number = usize::try_from(value.i64(name)?).ok().filter(|n| *n > 0);
            number.ok_or_else(|| Error::illegal(words.to_owned()))
        };
        match key {
            "analyzer" => self.analyzer = Some(value.string(key)?),
            "size" => self.size = counted(key, "size must be positive")?,
            "shard_size" => self.shard_size = Some(counted(key, "shardSize must be positive")?),
            "real_word_error_likelihood" => {
                self.real_word_likelihood = above_zero(key, 0.0, true, "real_word_error_likelihood must be > 0.0")?;
            }
            "confidence" => self.confidence = above_zero(key, 0.0, false, "confidence must be >= 0.0")?,
            "max_errors" => self.max_errors = above_zero(key, 0.0, true, "max_error must be > 0.0")? as f32,
            "gram_size" => self.gram_size = Some(counted(key, "gramSize must be >= 1")?),
            "separator" => self.separator = value.string(key)?,
            "token_limit" => self.token_limit = counted(key, "token_limit must be >= 1")?,
            "force_unigrams" => self.require_unigram = value.boolean(key)?,
            _ => return Err(value.error(format!("suggester[phrase] doesn't support field [{key}]"))),
        }
        Ok(())
    }

    fn take_object(&mut self, key: &str, value: Node) -> Result<()> {
        match key {
            "highlight" => {
                let (mut before, mut behind) = (None, None);
                for (name, node) in shape::object(value, key)? {
                    match name.as_str() {
                        "pre_tag" => before = Some(node.string(&name)?),
                        "post_tag" => behind = Some(node.string(&name)?),
                        _ => {
                            return Err(node.error(format!("suggester[phrase][highlight] doesn't support field [{name}]")));
                        }
                    }
                }
                if before.is_some() != behind.is_some() {
                    return Err(Error::illegal("Pre and post tag must both be null or both not be null."));
                }
                self.highlight = before.zip(behind);
            }
            "smoothing" => {
                for (name, node) in shape::object(value, key)? {
                    self.smoothing = smoothing(&name, node)?;
                }
            }
            "collate" => self.collate = Some(collate(value)?),
            _ => {
                return Err(value.error(format!("suggester[phrase]  doesn't support array field [{key}]")));
            }
        }
        Ok(())
    }
}

fn smoothing(name: &str, node: Node) -> Result<Smoothing> {
    let mut fields = node.fields(name)?;
    let found = match name {
        "stupid_backoff" => Smoothing::StupidBackoff(fields.take_f64("discount")?.unwrap_or(0.4)),
        "laplace" => Smoothing::Laplace(fields.take_f64("alpha")?.unwrap_or(0.5)),
        "linear" => {
            let mut lambda = |name: &str| fields.take_f64(name).map(|found| found.unwrap_or(0.0));
            let all = (lambda("trigram_lambda")?, lambda("bigram_lambda")?, lambda("unigram_lambda")?);
            if (all.0 + all.1 + all.2 - 1.0).abs() > 0.001 {
                return Err(Error::illegal("linear smoothing lambdas must sum to 1"));
            }
            Smoothing::Linear(all.0, all.1, all.2)
        }
        other => {
            return Err(Error::illegal(format!(
                "suggester[phrase] doesn't support object field [{other}]"
            )));
        }
    };
    fields.finish()?;
    Ok(found)
}

fn generator(node: Node) -> Result<Generator> {
    let mut fields = node.fields("direct_generator")?.of_object(true);
    let pre_filter = fields.take_string("pre_filter")?;
    let post_filter = fields.take_string("post_filter")?;
    Ok(Generator {
        words: direct_generator(fields)?,
        pre_filter,
        post_filter,
    })
}

fn collate(node: Node) -> Result<Collate> {
    let mut fields = node.fields("collate")?;
    let query = match fields.take("query") {
        Some(node) if node.is_object() => {
            let mut inner = node.fields("query")?;
            let source = inner.take_any(&["source", "inline"]).map(text_of);
            inner.take("lang");
            inner.finish()?;
            source
        }
        Some(node) => Some(node.string("query")?),
        None => None,
    };
    let params = fields.take_map("params")?.unwrap_or_default();
    let prune = fields.take_bool("prune")?.unwrap_or(false);
    fields.finish()?;
    let query = query.ok_or_else(|| Error::new(ErrorKind::Parse, "suggester[phrase][collate] needs a [query]"))?;
    Ok(Collate { query, params, prune })
}

/// A template that is written as JSON is its text.
fn text_of(node: Node) -> String {
    match node.into_value() {
        Value::String(text) => text,
        other => other.to_string(),
    }
}
