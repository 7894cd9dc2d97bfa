//! `weighted_avg`.

use super::super::values::ValuesSource;
use super::super::{At, Collector, Finish};
use super::one;
use model::{Error, ErrorKind, Result};
use serde_json::Value;
use tantivy::DocId;

/// Collects weighted sums.
pub(in crate::aggs) struct Weighted {
    value: ValuesSource,
    weight: ValuesSource,
    sums: Vec<(f64, f64)>,
    values: Vec<f64>,
    weights: Vec<f64>,
}

impl Weighted {
    pub(in crate::aggs) fn new(value: ValuesSource, weight: ValuesSource) -> Weighted {
        Weighted {
            value,
            weight,
            sums: Vec::new(),
            values: Vec::new(),
            weights: Vec::new(),
        }
    }
    fn at(&self, bucket: u32) -> Option<f64> {
        self.sums
            .get(bucket as usize)
            .filter(|(_, weight)| *weight != 0.0)
            .map(|(sum, weight)| sum / weight)
    }
}

impl Collector for Weighted {
    fn segment(&mut self, at: &At<'_>) -> Result<()> {
        self.value.segment(at)?;
        self.weight.segment(at)
    }
    fn collect(&mut self, doc: DocId, score: f32, bucket: u32) -> Result<()> {
        self.value.numbers(doc, score, &mut self.values)?;
        self.weight.numbers(doc, score, &mut self.weights)?;
        if self.values.is_empty() || self.weights.is_empty() {
            return Ok(());
        }
        if self.weights.len() > 1 {
            let reason = "Encountered more than one weight for a single document. Use a script to combine multiple weights-per-doc into a single value.";
            return Err(Error::new(ErrorKind::AggregationExecution, reason));
        }
        let at = bucket as usize;
        if at >= self.sums.len() {
            self.sums.resize(at + 1, (0.0, 0.0));
        }
        let sums = &mut self.sums[at];
        for value in &self.values {
            sums.0 += value * self.weights[0];
            sums.1 += self.weights[0];
        }
        Ok(())
    }
    fn finish(&mut self, bucket: u32, _to: &mut Finish<'_>) -> Result<Value> {
        Ok(one(self.at(bucket), &self.value))
    }
    fn order(&mut self, bucket: u32, _rest: &[&str]) -> Result<f64> {
        Ok(self.at(bucket).unwrap_or(f64::NAN))
    }
    fn wants_scores(&self) -> bool {
        self.value.wants_scores() || self.weight.wants_scores()
    }
    fn wire_type(&self) -> &'static str {
        "weighted_avg"
    }
}
