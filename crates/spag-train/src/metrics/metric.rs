//! Named values of a loss, and how they are combined.

use candle_core::Tensor;
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

/// How the values of several passes, ranks and steps become one. Passes without a value are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// The mean, of passes by their weights.
    Mean,
    /// The smallest.
    Min,
    /// The largest.
    Max,
}

impl Reduction {
    /// One value of several, each with its weight in a mean. Values that have no weight at all count alike. `None` without any.
    pub(crate) fn of(self, values: impl Iterator<Item = (f64, f64)> + Clone) -> Option<f64> {
        let plain = values.clone().map(|(value, _)| value);
        match self {
            Self::Mean => {
                let is_weighted = values.clone().any(|(_, weight)| weight > 0.0);
                let weighted = values.map(|(value, weight)| (value, if is_weighted { weight } else { 1.0 }));
                let (sum, weights) = weighted
                    .fold((0.0, 0.0), |(sum, weights), (value, weight)| (sum + value * weight, weights + weight));
                (weights > 0.0).then(|| sum / weights)
            }
            Self::Min => plain.reduce(f64::min),
            Self::Max => plain.reduce(f64::max),
        }
    }
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

    /// A value of it, which counts in a mean as that of any other pass.
    pub fn of(self, value: Tensor) -> MetricTensor {
        MetricTensor { metric: self, value, weight: 1.0 }
    }
}

/// The value of a metric for the samples of a pass.
#[derive(Clone, Debug)]
pub struct MetricTensor {
    /// The metric.
    pub metric: Metric,
    /// Its value, a scalar, f64.
    pub value: Tensor,
    /// Its weight in a mean with those of other passes.
    pub weight: f64,
}

/// The same as a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PassMetric {
    pub(crate) metric: Metric,
    pub(crate) value: f64,
    pub(crate) weight: f64,
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

    /// Combines the values of passes.
    pub(crate) fn of_passes(metrics: &[Metric], all: &[PassMetric]) -> Self {
        let combined = |metric: &Metric| {
            let values = all.iter().filter(|one| one.metric == *metric);
            Some((*metric, metric.reduction.of(values.map(|one| (one.value, one.weight)))?))
        };
        metrics.iter().filter_map(combined).collect()
    }

    /// Combines the values of several steps, by their weights.
    pub(crate) fn of_steps<'a>(metrics: &[Metric], all: impl Iterator<Item = (&'a Self, f64)> + Clone) -> Self {
        let combined = |metric: &Metric| {
            let values = all.clone().filter_map(|(values, weight)| Some((values.get(metric.name)?, weight)));
            Some((*metric, metric.reduction.of(values)?))
        };
        metrics.iter().filter_map(combined).collect()
    }
}

impl PassMetric {
    /// Numbers of [`PassMetric::encode`].
    pub(crate) fn encoded_len(metrics: &[Metric]) -> usize {
        2 * metrics.len()
    }

    /// The values of a pass as numbers for a collective: for each metric its weight and its value; zeros if it has none.
    pub(crate) fn encode(all: &[Self], metrics: &[Metric]) -> impl Iterator<Item = f64> {
        metrics.iter().flat_map(|metric| {
            all.iter().find(|one| one.metric == *metric).map_or([0.0; 2], |one| [one.weight, one.value])
        })
    }

    /// The inverse of [`PassMetric::encode`].
    pub(crate) fn decode(metrics: &[Metric], numbers: &[f64]) -> impl Iterator<Item = Self> {
        let pairs = metrics.iter().zip(numbers.chunks_exact(2));
        pairs.filter(|(_, pair)| pair[0] > 0.0).map(|(metric, pair)| Self {
            metric: *metric,
            weight: pair[0],
            value: pair[1],
        })
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
    fn absent_values_are_left_out() {
        let all =
            [values([Some(1.0), Some(2.0), None]), values([None, Some(-1.0), None]), values([Some(4.0), None, None])];
        let all = all.iter().map(|values| (values, 1.0));
        assert_eq!(MetricValues::of_steps(&METRICS, all), values([Some(2.5), Some(-1.0), None]));
    }

    fn of_pass(values: [Option<f64>; 3], weight: f64) -> Vec<PassMetric> {
        let given = METRICS.into_iter().zip(values);
        given.filter_map(|(metric, value)| Some(PassMetric { metric, value: value?, weight })).collect()
    }

    #[test]
    fn means_of_passes_have_weights() {
        let all = [of_pass([Some(1.0), Some(2.0), None], 3.0), of_pass([Some(5.0), Some(-1.0), None], 1.0)].concat();
        assert_eq!(MetricValues::of_passes(&METRICS, &all), values([Some(2.0), Some(-1.0), None]));
        assert_eq!(MetricValues::of_passes(&METRICS, &[]), values([None; 3]));
    }

    #[test]
    fn decode_inverts_encode() {
        for want in [[None; 3], [Some(1.5), None, Some(f64::INFINITY)], [Some(0.0), Some(-2.0), Some(0.25)]] {
            let want = of_pass(want, 0.5);
            let numbers: Vec<f64> = PassMetric::encode(&want, &METRICS).collect();
            assert_eq!(numbers.len(), PassMetric::encoded_len(&METRICS));
            assert_eq!(PassMetric::decode(&METRICS, &numbers).collect::<Vec<_>>(), want);
        }
    }

    #[test]
    fn json_is_an_object_in_order_of_declaration() {
        let text = serde_json::to_string(&values([Some(1.0), Some(f64::INFINITY), Some(0.5)])).unwrap();
        assert_eq!(text, r#"{"a":1.0,"b":null,"c":0.5}"#);
        assert_eq!(serde_json::from_str::<MetricValues>(&text).unwrap(), values([Some(1.0), None, Some(0.5)]));
    }
}
