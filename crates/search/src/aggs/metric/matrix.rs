//! `matrix_stats`: moments of several fields, and how they vary together.
//!
//! Worked out in one pass, value by value, as described by Pébay (2008). Documents that lack one of the fields count for
//! none. Fields stand in the order in which the reference's tables of names have them.

use super::super::format::number;
use super::super::values::{ValuesSource, Wants};
use super::super::{AggregationContext, At, Collector, Finish, check_collected};
use super::unnamed_metric;
use dsl::aggs::{MatrixAgg, MatrixMode, ValueSource};
use model::{Error, ErrorKind, Result};
use serde_json::{Map, Value, json};
use tantivy::DocId;

/// Collects moments.
pub(in crate::aggs) struct Matrix {
    names: Vec<String>,
    sources: Vec<ValuesSource>,
    mode: MatrixMode,
    all: Vec<Running>,
    values: Vec<f64>,
    row: Vec<f64>,
}

/// The sums over the documents so far.
#[derive(Clone, Default)]
struct Running {
    docs: f64,
    fields: Vec<Moments>,
    /// The sums of each pair of fields, the first before the second.
    together: Vec<f64>,
}

#[derive(Clone, Default)]
struct Moments {
    sum: f64,
    mean: f64,
    m2: f64,
    m3: f64,
    m4: f64,
}

impl Moments {
    fn add(&mut self, value: f64, docs: f64) {
        let d = value - self.mean;
        let dn = d / docs;
        let t = d * dn * (docs - 1.0);
        let dn2 = dn * dn;
        self.m4 += t * dn2 * (docs * docs - 3.0 * docs + 3.0) + 6.0 * dn2 * self.m2 - 4.0 * dn * self.m3;
        self.m3 += t * dn * (docs - 2.0) - 3.0 * dn * self.m2;
        self.m2 += t;
        self.mean += dn;
    }
}

impl Running {
    fn add(&mut self, row: &[f64]) {
        let width = row.len();
        if self.fields.is_empty() {
            self.fields = vec![Moments::default(); width];
            self.together = vec![0.0; width * width];
        }
        assert_eq!(
            self.fields.len(),
            width,
            "each document that counts has a value of each field"
        );
        self.docs += 1.0;
        let docs = self.docs;
        let mut deltas = Vec::with_capacity(width);
        for (field, value) in self.fields.iter_mut().zip(row) {
            field.sum += value;
            deltas.push(value * docs - field.sum);
            if docs > 1.0 {
                field.add(*value, docs);
            } else {
                field.mean = *value;
            }
        }
        if docs > 1.0 {
            for a in 0..width {
                for b in a + 1..width {
                    self.together[a * width + b] += 1.0 / (docs * (docs - 1.0)) * deltas[a] * deltas[b];
                }
            }
        }
    }
    fn covariance(&self, a: usize, b: usize) -> f64 {
        let sum = if a == b {
            self.fields[a].m2
        } else {
            self.together[a.min(b) * self.fields.len() + a.max(b)]
        };
        sum / (self.docs - 1.0)
    }
    fn correlation(&self, a: usize, b: usize) -> f64 {
        if a == b {
            return 1.0;
        }
        let (va, vb) = (self.covariance(a, a), self.covariance(b, b));
        if va == 0.0 || vb == 0.0 {
            f64::NAN
        } else {
            self.covariance(a, b) / (va.sqrt() * vb.sqrt())
        }
    }
}

/// `NaN` and infinities are written as texts.
fn render_number(value: f64) -> Value {
    if value.is_nan() { "NaN".into() } else { number(value) }
}

/// Where Java's tables of so many names would have a name.
fn place(name: &str, names: usize) -> u32 {
    let hash = name
        .encode_utf16()
        .fold(0u32, |hash, unit| hash.wrapping_mul(31).wrapping_add(u32::from(unit)));
    let mut width = 16u32;
    while names as f64 > f64::from(width) * 0.75 {
        width *= 2;
    }
    (hash ^ (hash >> 16)) & (width - 1)
}

impl Matrix {
    pub(in crate::aggs) fn new(spec: &MatrixAgg, cx: &AggregationContext<'_>) -> Result<Matrix> {
        let mut found = Vec::new();
        for name in &spec.fields {
            let source = ValueSource {
                field: Some(name.clone()),
                missing: spec.missing.get(name).map(|value| json!(value)),
                ..ValueSource::default()
            };
            let source = ValuesSource::new(&source, Wants::Any, "matrix_stats", cx)?;
            if source.mapped && !source.class.is_number() {
                let reason = format!("Field [{name}] has no numbers: it is not supported for aggregation [matrix_stats]");
                return Err(Error::new(ErrorKind::AggregationExecution, reason));
            }
            // A field that no index has counts for nothing, and nobody lacks it.
            if source.mapped {
                found.push((name.clone(), source));
            }
        }
        let count = found.len();
        found.sort_by_key(|(name, _)| place(name, count));
        let (names, sources) = found.into_iter().unzip();
        Ok(Matrix {
            names,
            sources,
            mode: spec.mode,
            all: Vec::new(),
            values: Vec::new(),
            row: Vec::new(),
        })
    }
}

/// One number for several of a document.
fn one_of(values: &mut [f64], mode: MatrixMode) -> f64 {
    let sum = || values.iter().sum::<f64>();
    match mode {
        MatrixMode::Avg => sum() / values.len() as f64,
        MatrixMode::Sum => sum(),
        MatrixMode::Min => values.iter().copied().fold(f64::INFINITY, f64::min),
        MatrixMode::Max => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        MatrixMode::Median => {
            values.sort_by(f64::total_cmp);
            let middle = values.len() / 2;
            if values.len() % 2 == 1 {
                values[middle]
            } else {
                f64::midpoint(values[middle - 1], values[middle])
            }
        }
    }
}

impl Collector for Matrix {
    fn segment(&mut self, at: &At<'_>) -> Result<()> {
        self.sources.iter_mut().try_for_each(|source| source.segment(at))
    }
    fn collect(&mut self, doc: DocId, score: f32, bucket: u32) -> Result<()> {
        self.row.clear();
        for source in &mut self.sources {
            source.numbers(doc, score, &mut self.values)?;
            if self.values.is_empty() {
                return Ok(());
            }
            self.row.push(one_of(&mut self.values, self.mode));
        }
        if self.row.is_empty() {
            return Ok(());
        }
        let at = bucket as usize;
        if at >= self.all.len() {
            // A number for each two fields: as much memory as so many buckets.
            check_collected((at + 1).saturating_mul(self.row.len() * self.row.len()))?;
            self.all.resize(at + 1, Running::default());
        }
        self.all[at].add(&self.row);
        Ok(())
    }
    fn finish(&mut self, bucket: u32, _to: &mut Finish<'_>) -> Result<Value> {
        let mut out = Map::new();
        let nothing = Running::default();
        let running = self.all.get(bucket as usize).unwrap_or(&nothing);
        out.insert("doc_count".into(), (running.docs as u64).into());
        let field = |(a, moments): (usize, &Moments)| {
            let row = |of: &dyn Fn(usize) -> f64| -> Map<String, Value> {
                let names = self.names.iter().enumerate();
                names.map(|(b, name)| (name.clone(), render_number(of(b)))).collect()
            };
            let docs = running.docs;
            json!({
                "name": self.names[a],
                "count": docs as u64,
                "mean": render_number(moments.mean),
                "variance": render_number(moments.m2 / (docs - 1.0)),
                "skewness": render_number(docs.sqrt() * moments.m3 / moments.m2.powf(1.5)),
                "kurtosis": render_number(docs * moments.m4 / (moments.m2 * moments.m2)),
                "covariance": row(&|b| running.covariance(a, b)),
                "correlation": row(&|b| running.correlation(a, b)),
            })
        };
        if running.docs > 0.0 {
            out.insert("fields".into(), running.fields.iter().enumerate().map(field).collect());
        }
        Ok(Value::Object(out))
    }
    fn order(&mut self, _bucket: u32, _rest: &[&str]) -> Result<f64> {
        Err(unnamed_metric())
    }
    fn wire_type(&self) -> &'static str {
        "matrix_stats"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments() {
        let mut running = Running::default();
        for row in [[1.0, 2.0], [2.0, 4.0], [3.0, 6.0], [4.0, 7.0]] {
            running.add(&row);
        }
        let close = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-12, "{found} is not {expected}");
        close(running.fields[0].mean, 2.5);
        close(running.covariance(0, 0), 5.0 / 3.0);
        close(running.covariance(0, 1), 17.0 / 6.0);
        close(running.correlation(1, 0), 17.0 / 6.0 / (5.0f64 / 3.0 * 59.0 / 12.0).sqrt());
    }

    #[test]
    fn names_stand_as_in_javas_tables() {
        let mut names = vec!["n", "d", "f"];
        names.sort_by_key(|name| place(name, 3));
        assert_eq!(names, ["d", "f", "n"]);
    }
}
