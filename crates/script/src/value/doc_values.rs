//! The columns of one document, as its host fills them.

use super::Value;

/// The values a document has in one field. Hosts fill it; the buffers are kept from document to
/// document. A field without values is best given its typed empty form: Groovy reads a missing
/// number as 0 and a missing string as null.
#[derive(Debug, Default)]
pub enum DocValues {
    /// No values, of no known type.
    #[default]
    Empty,
    /// Whole numbers.
    Longs(Vec<i64>),
    /// Floats.
    Doubles(Vec<f64>),
    /// Booleans.
    Bools(Vec<bool>),
    /// Dates as epoch milliseconds.
    Dates(Vec<i64>),
    /// Keywords.
    Strings(Vec<String>),
    /// Latitude and longitude.
    GeoPoints(Vec<(f64, f64)>),
}

macro_rules! buffers {
    ($($(#[$doc:meta])* $name:ident: $variant:ident = $item:ty;)*) => {$(
        $(#[$doc])*
        pub fn $name(&mut self) -> &mut Vec<$item> {
            if let DocValues::$variant(all) = self {
                all.clear();
            } else {
                *self = DocValues::$variant(Vec::new());
            }
            match self {
                DocValues::$variant(all) => all,
                _ => unreachable!("just set"),
            }
        }
    )*};
}

impl DocValues {
    buffers! {
        /// Becomes `Longs`, empty, and gives its buffer.
        longs: Longs = i64;
        /// Becomes `Doubles`, empty, and gives its buffer.
        doubles: Doubles = f64;
        /// Becomes `Bools`, empty, and gives its buffer.
        bools: Bools = bool;
        /// Becomes `Dates`, empty, and gives its buffer.
        dates: Dates = i64;
        /// Becomes `Strings`, empty, and gives its buffer.
        strings: Strings = String;
        /// Becomes `GeoPoints`, empty, and gives its buffer.
        geo_points: GeoPoints = (f64, f64);
    }
    /// No values, the buffer kept.
    pub fn clear(&mut self) {
        match self {
            DocValues::Empty => {}
            DocValues::Longs(v) | DocValues::Dates(v) => v.clear(),
            DocValues::Doubles(v) => v.clear(),
            DocValues::Bools(v) => v.clear(),
            DocValues::Strings(v) => v.clear(),
            DocValues::GeoPoints(v) => v.clear(),
        }
    }
    /// How many values.
    pub fn len(&self) -> usize {
        match self {
            DocValues::Empty => 0,
            DocValues::Longs(v) | DocValues::Dates(v) => v.len(),
            DocValues::Doubles(v) => v.len(),
            DocValues::Bools(v) => v.len(),
            DocValues::Strings(v) => v.len(),
            DocValues::GeoPoints(v) => v.len(),
        }
    }
    /// None at all?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// One value.
    pub fn get(&self, i: usize) -> Option<Value> {
        match self {
            DocValues::Empty => None,
            DocValues::Longs(v) => v.get(i).copied().map(Value::Long),
            DocValues::Dates(v) => v.get(i).copied().map(Value::Date),
            DocValues::Doubles(v) => v.get(i).copied().map(Value::Double),
            DocValues::Bools(v) => v.get(i).copied().map(Value::Bool),
            DocValues::Strings(v) => v.get(i).map(|s| Value::str(s)),
            DocValues::GeoPoints(v) => v.get(i).map(|p| Value::Geo(p.0, p.1)),
        }
    }
}
