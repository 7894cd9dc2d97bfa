//! The functions that a script calls by a bare name, found when it is compiled. Their values are in `api`.

/// A function, found when compiling.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MathFn {
    One(fn(f64) -> f64),
    Two(fn(f64, f64) -> f64),
    Zero(fn() -> f64),
    Abs,
    Max,
    Min,
    Round,
    FloorDiv,
    FloorMod,
    ToInt,
    Haversin,
}

/// Functions of expressions that `java.lang.Math` lacks.
const OF_EXPRESSIONS: [&str; 7] = ["ln", "log2", "logn", "asinh", "acosh", "atanh", "haversin"];

impl MathFn {
    /// The function of `java.lang.Math` of that name and arity.
    pub(crate) fn of_java(name: &str, arity: usize) -> Option<MathFn> {
        MathFn::find(name, arity).filter(|_| !OF_EXPRESSIONS.contains(&name))
    }

    /// The function of that name and arity, of expressions too.
    pub(crate) fn find(name: &str, arity: usize) -> Option<MathFn> {
        use MathFn::{One, Two};
        Some(match (name, arity) {
            ("abs", 1) => MathFn::Abs,
            ("max", 2) => MathFn::Max,
            ("min", 2) => MathFn::Min,
            ("round", 1) => MathFn::Round,
            ("floorDiv", 2) => MathFn::FloorDiv,
            ("floorMod", 2) => MathFn::FloorMod,
            ("toIntExact", 1) => MathFn::ToInt,
            ("random", 0) => MathFn::Zero(|| 0.5),
            ("sqrt", 1) => One(f64::sqrt),
            ("cbrt", 1) => One(f64::cbrt),
            ("log" | "ln", 1) => One(f64::ln),
            ("log10", 1) => One(f64::log10),
            ("log2", 1) => One(f64::log2),
            ("log1p", 1) => One(f64::ln_1p),
            ("logn", 2) => Two(|base, x| x.ln() / base.ln()),
            ("exp", 1) => One(f64::exp),
            ("expm1", 1) => One(f64::exp_m1),
            ("ceil", 1) => One(f64::ceil),
            ("floor", 1) => One(f64::floor),
            ("rint", 1) => One(f64::round_ties_even),
            ("signum", 1) => One(|x| if x == 0.0 || x.is_nan() { x } else { x.signum() }),
            ("sin", 1) => One(f64::sin),
            ("cos", 1) => One(f64::cos),
            ("tan", 1) => One(f64::tan),
            ("asin", 1) => One(f64::asin),
            ("acos", 1) => One(f64::acos),
            ("atan", 1) => One(f64::atan),
            ("sinh", 1) => One(f64::sinh),
            ("cosh", 1) => One(f64::cosh),
            ("tanh", 1) => One(f64::tanh),
            ("asinh", 1) => One(f64::asinh),
            ("acosh", 1) => One(f64::acosh),
            ("atanh", 1) => One(f64::atanh),
            ("toRadians", 1) => One(f64::to_radians),
            ("toDegrees", 1) => One(f64::to_degrees),
            ("pow", 2) => Two(f64::powf),
            ("atan2", 2) => Two(f64::atan2),
            ("hypot", 2) => Two(f64::hypot),
            ("IEEEremainder", 2) => Two(|x, y| x - y * (x / y).round_ties_even()),
            ("copySign", 2) => Two(f64::copysign),
            ("haversin", 3) => MathFn::Haversin,
            _ => return None,
        })
    }
}

/// A score function, found when compiling.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ScoreFn {
    Saturation,
    Sigmoid,
    Random,
    Decay(Shape, Over),
}

/// How a decay falls.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    Linear,
    Exp,
    Gauss,
}

/// The distance that a decay measures.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Over {
    Numeric,
    Date,
    Geo,
}

impl ScoreFn {
    /// The function of that name and arity.
    pub(crate) fn find(name: &str, arity: usize) -> Option<ScoreFn> {
        Some(match (name, arity) {
            ("saturation", 2) => ScoreFn::Saturation,
            ("sigmoid", 3) => ScoreFn::Sigmoid,
            ("randomScore", 1 | 2) => ScoreFn::Random,
            (_, 5) => {
                let rest = name.strip_prefix("decay")?;
                let (over, shape) = match rest.split_at_checked(rest.find(['L', 'E']).or(rest.rfind("Gauss"))?)? {
                    ("Numeric", shape) => (Over::Numeric, shape),
                    ("Date", shape) => (Over::Date, shape),
                    ("Geo", shape) => (Over::Geo, shape),
                    _ => return None,
                };
                let shape = match shape {
                    "Linear" => Shape::Linear,
                    "Exp" => Shape::Exp,
                    "Gauss" => Shape::Gauss,
                    _ => return None,
                };
                ScoreFn::Decay(shape, over)
            }
            _ => return None,
        })
    }
}
