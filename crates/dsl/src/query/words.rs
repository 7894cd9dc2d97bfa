//! The words of the options that are one of a few.

use super::rewrite::Rewrite;
use super::{
    BoostMode, DecayKind, Fuzziness, JoinKind, Modifier, MultiMatchType, MultiValueMode, Operator, ScoreMode, ZeroTerms,
};
use crate::json::{Fields, Node};
use model::{Dialect, Error, ErrorKind, Result, Topic};
use serde_json::Value;

macro_rules! words {
    ($($name:ident { $($variant:ident = $word:literal),* $(,)? })*) => {$(
        impl $name {
            /// The variant of that word, in any case.
            pub fn from_word(word: &str) -> Option<$name> {
                $(if word.eq_ignore_ascii_case($word) { return Some($name::$variant); })*
                None
            }
            /// Its word.
            pub fn word(self) -> &'static str {
                match self { $($name::$variant => $word,)* }
            }
        }
    )*};
}

words! {
    Operator { Or = "or", And = "and" }
    ZeroTerms { None = "none", All = "all" }
    MultiMatchType {
        BestFields = "best_fields", MostFields = "most_fields", CrossFields = "cross_fields",
        Phrase = "phrase", PhrasePrefix = "phrase_prefix", BoolPrefix = "bool_prefix",
    }
    Modifier {
        None = "none", Log = "log", Log1p = "log1p", Log2p = "log2p", Ln = "ln", Ln1p = "ln1p", Ln2p = "ln2p",
        Square = "square", Sqrt = "sqrt", Reciprocal = "reciprocal",
    }
    DecayKind { Linear = "linear", Exp = "exp", Gauss = "gauss" }
    ScoreMode { Multiply = "multiply", Sum = "sum", Avg = "avg", First = "first", Max = "max", Min = "min", None = "none" }
    BoostMode { Multiply = "multiply", Replace = "replace", Sum = "sum", Avg = "avg", Max = "max", Min = "min" }
    MultiValueMode { Min = "min", Max = "max", Avg = "avg", Sum = "sum", Median = "median" }
    JoinKind { Semi = "semi", Anti = "anti", Left = "left" }
}

impl ScoreMode {
    /// How children count for their parent; 2015 said `total` for the sum.
    pub(super) fn of_children(word: &str, dialect: model::Dialect) -> Result<ScoreMode> {
        match word {
            "none" => Ok(ScoreMode::None),
            "min" => Ok(ScoreMode::Min),
            "max" => Ok(ScoreMode::Max),
            "avg" => Ok(ScoreMode::Avg),
            "sum" => Ok(ScoreMode::Sum),
            "total" if dialect.rules.takes_former_options => Ok(ScoreMode::Sum),
            _ => Err(Error::illegal(format!("No score mode for child query [{word}] found")).about(Topic::ScoreMode)),
        }
    }
}

/// Takes the word for how scores are combined.
pub(super) fn take_score_mode(fields: &mut Fields) -> Result<Option<String>> {
    fields
        .take_string("score_mode")
        .map_err(|error| error.about(Topic::ScoreMode))
}

/// A query that no shard can make.
pub(super) fn not_created(reason: impl std::fmt::Display) -> Error {
    let cause = Error::new(ErrorKind::QueryShard, format!("failed to create query: {reason}"));
    crate::shape::all_shards_failed(cause)
}

/// Takes how the words that others stand for are scored.
pub(super) fn take_rewrite(fields: &mut Fields, name: &str, dialect: Dialect) -> Result<Option<Rewrite>> {
    fields
        .take_string(name)?
        .map(|word| Rewrite::parse(&word, dialect))
        .transpose()
}

/// `and` or `or`.
pub(super) fn operator(node: &Node, name: &str) -> Result<Operator> {
    let word = node.string(name)?;
    Operator::from_word(&word).ok_or_else(|| Error::illegal(format!("No enum constant Operator.{}", word.to_uppercase())))
}

impl Fuzziness {
    /// A number of edits (2015: also a similarity), `AUTO` or `AUTO:low,high`.
    ///
    /// # Errors
    /// It is none of these.
    pub fn parse(node: &Node) -> Result<Fuzziness> {
        let text = node.string("fuzziness")?;
        let word = text.trim();
        if word.eq_ignore_ascii_case("auto") {
            return Ok(Fuzziness::AUTO);
        }
        if word.get(..5).is_some_and(|p| p.eq_ignore_ascii_case("auto:")) {
            let wrong = || Error::new(ErrorKind::Parse, "failed to find low and high distance values");
            let (low, high) = word[5..].split_once(',').ok_or_else(wrong)?;
            let low: u32 = low.trim().parse().map_err(|_| wrong())?;
            let high: u32 = high.trim().parse().map_err(|_| wrong())?;
            if low > high {
                return Err(Error::illegal(format!(
                    "fuzziness wrongly configured, must be: lowDistance > 0 and lowDistance <= highDistance (actual: low {low}, high {high})"
                )));
            }
            return Ok(Fuzziness::Auto { low, high });
        }
        let number: f64 = word
            .parse()
            .map_err(|_| Error::illegal(format!("Invalid fuzziness value: {word}")))?;
        match number {
            0.0 => Ok(Fuzziness::Edits(0)),
            1.0 => Ok(Fuzziness::Edits(1)),
            2.0 => Ok(Fuzziness::Edits(2)),
            // The similarity of old: every word may be two edits away.
            n if n > 0.0 && n < 1.0 => Ok(Fuzziness::Edits(2)),
            // More than two are two, as the servers take it.
            n if n > 2.0 && n.fract() == 0.0 => Ok(Fuzziness::Edits(2)),
            _ => Err(Error::illegal(format!("Valid edit distances are [0, 1, 2] but was [{word}]"))),
        }
    }

    /// As requests say it.
    pub fn render(self) -> Value {
        match self {
            Fuzziness::AUTO => "AUTO".into(),
            Fuzziness::Edits(n) => n.into(),
            Fuzziness::Auto { low, high } => format!("AUTO:{low},{high}").into(),
        }
    }

    /// `AUTO`: no edit below three characters, one below six, then two.
    pub const AUTO: Fuzziness = Fuzziness::Auto { low: 3, high: 6 };

    /// How many edits a word of so many characters may be away.
    pub fn edits(self, characters: usize) -> u8 {
        match self {
            Fuzziness::Edits(n) => n,
            Fuzziness::Auto { low, high } => u8::from(characters >= low as usize) + u8::from(characters >= high as usize),
        }
    }
}

/// `minimum_should_match`, a number or an expression, as text.
pub(super) fn minimum(node: &Node) -> Result<Option<String>> {
    if node.is_null() {
        Ok(None)
    } else {
        node.string("minimum_should_match").map(Some)
    }
}

/// `field^boost` or a list of them.
pub(super) fn fields_with_boosts(node: Node) -> Result<Vec<(String, f32)>> {
    node.items()
        .iter()
        .map(|item| item.string("fields").map(|text| field_with_boost(&text)))
        .collect::<Result<Result<_>>>()?
}

fn field_with_boost(text: &str) -> Result<(String, f32)> {
    match text.rsplit_once('^') {
        Some((field, boost)) => {
            let boost: f32 = Node::from_value(Value::String(boost.to_owned())).f32("fields")?;
            Ok((field.to_owned(), boost))
        }
        None => Ok((text.to_owned(), 1.0)),
    }
}

/// The reverse of [`fields_with_boosts`].
pub(super) fn render_fields(fields: &[(String, f32)]) -> Value {
    #[allow(clippy::float_cmp, reason = "the exact default")]
    let one = |(field, boost): &(String, f32)| {
        if *boost == 1.0 {
            field.clone()
        } else {
            format!("{field}^{boost}")
        }
    };
    Value::Array(fields.iter().map(|f| Value::String(one(f))).collect())
}
