//! Named values of a loss, and how they are combined.

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

/// A metric that a loss reports. The loss that computes it declares it, as a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its key in `metrics.jsonl` and TensorBoard.
    pub name: &'static str,
    /// How its values are combined.
    pub reduction: Reduction,
}

/// How the values of several micro-batches, ranks and steps become one. Micro-batches without a value are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// The mean.
    Mean,
    /// The smallest.
    Min,
    /// The largest.
    Max,
}

impl Metric {
    /// A metric that is averaged.
    pub const fn mean(name: &'static str) -> Self {
        Self { name, reduction: Reduction::Mean }
    }

    /// A metric of which the smallest value counts.
    pub const fn min(name: &'static str) -> Self {
        Self { name, reduction: Reduction::Min }
    }

    /// A metric of which the largest value counts.
    pub const fn max(name: &'static str) -> Self {
        Self { name, reduction: Reduction::Max }
    }
}

/// Values by metric name, in the order in which the loss declares them.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "Map<String, Value>")]
pub struct MetricValues(Vec<(String, f64)>);

impl Serialize for MetricValues {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

/// A value that is not finite is `null` in JSON, and absent after reading it.
impl From<Map<String, Value>> for MetricValues {
    fn from(values: Map<String, Value>) -> Self {
        Self(values.into_iter().filter_map(|(name, value)| Some((name, value.as_f64()?))).collect())
    }
}

impl FromIterator<(Metric, f64)> for MetricValues {
    fn from_iter<I: IntoIterator<Item = (Metric, f64)>>(values: I) -> Self {
        Self(values.into_iter().map(|(metric, value)| (metric.name.to_owned(), value)).collect())
    }
}

impl MetricValues {
    /// The value of a metric, if there is one.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.iter().find(|(own, _)| *own == name).map(|(_, value)| value)
    }

    /// Names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.0.iter().map(|(name, value)| (name.as_str(), *value))
    }

    /// Combines the values of several micro-batches or steps.
    pub(crate) fn reduce(metrics: &[Metric], all: &[Self]) -> Self {
        let reduced = |metric: &Metric| {
            let values = || all.iter().filter_map(|values| values.get(metric.name));
            let value = match metric.reduction {
                Reduction::Mean => {
                    let (sum, count) = values().fold((0.0, 0usize), |(sum, count), x| (sum + x, count + 1));
                    (count > 0).then(|| sum / count as f64)
                }
                Reduction::Min => values().reduce(f64::min),
                Reduction::Max => values().reduce(f64::max),
            };
            Some((*metric, value?))
        };
        metrics.iter().filter_map(reduced).collect()
    }

    /// Numbers of [`MetricValues::encode`].
    pub(crate) fn encoded_len(metrics: &[Metric]) -> usize {
        2 * metrics.len()
    }

    /// The values as numbers for a collective: for each metric whether it has a value, and the value.
    pub(crate) fn encode(&self, metrics: &[Metric]) -> impl Iterator<Item = f64> {
        metrics.iter().flat_map(|metric| match self.get(metric.name) {
            Some(value) => [1.0, value],
            None => [0.0, 0.0],
        })
    }

    /// The inverse of [`MetricValues::encode`].
    pub(crate) fn decode(metrics: &[Metric], numbers: &[f64]) -> Self {
        let pairs = metrics.iter().zip(numbers.chunks_exact(2));
        pairs.filter(|(_, pair)| pair[0] == 1.0).map(|(metric, pair)| (*metric, pair[1])).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRICS: [Metric; 3] = [Metric::mean("a"), Metric::min("b"), Metric::max("c")];

    fn values(values: [Option<f64>; 3]) -> MetricValues {
        METRICS.into_iter().zip(values).filter_map(|(metric, value)| Some((metric, value?))).collect()
    }

    #[test]
    fn reduce_skips_absent_values() {
        let all =
            [values([Some(1.0), Some(2.0), None]), values([None, Some(-1.0), None]), values([Some(4.0), None, None])];
        assert_eq!(MetricValues::reduce(&METRICS, &all), values([Some(2.5), Some(-1.0), None]));
    }

    #[test]
    fn decode_inverts_encode() {
        for want in [[None; 3], [Some(1.5), None, Some(f64::INFINITY)], [Some(0.0), Some(-2.0), Some(0.25)]] {
            let want = values(want);
            let numbers: Vec<f64> = want.encode(&METRICS).collect();
            assert_eq!(numbers.len(), MetricValues::encoded_len(&METRICS));
            assert_eq!(MetricValues::decode(&METRICS, &numbers), want);
        }
    }

    #[test]
    fn json_is_an_object_in_order_of_declaration() {
        let text = serde_json::to_string(&values([Some(1.0), Some(f64::INFINITY), Some(0.5)])).unwrap();
        assert_eq!(text, r#"{"a":1.0,"b":null,"c":0.5}"#);
        assert_eq!(serde_json::from_str::<MetricValues>(&text).unwrap(), values([Some(1.0), None, Some(0.5)]));
    }
}
