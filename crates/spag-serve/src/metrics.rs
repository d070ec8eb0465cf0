//! Metrics of the server, exported at `/metrics`.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, EncodeMetric, text::encode};
use prometheus_client::metrics::TypedMetric;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

/// All metrics of a server.
pub(crate) struct Metrics {
    registry: Registry,
    responses: Family<ResponseLabels, Counter>,
    /// Open connections.
    pub(crate) connections: Gauge,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResponseLabels {
    route: String,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ModelLabel {
    model: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EndLabels {
    model: String,
    reason: &'static str,
}

type Share = Gauge<f64, AtomicU64>;
type Histograms = Family<ModelLabel, Histogram, fn() -> Histogram>;

/// The metrics of one model's engine.
#[derive(Clone)]
pub(crate) struct EngineMetrics {
    model: String,
    ended: Family<EndLabels, Counter>,
    /// Prompt tokens of all sequences.
    pub(crate) prompt_tokens: Counter,
    /// Prompt tokens found in the KV cache.
    pub(crate) cached_tokens: Counter,
    /// Tokens generated.
    pub(crate) generated_tokens: Counter,
    /// Forward passes.
    pub(crate) steps: Counter,
    /// Preempted sequences.
    pub(crate) preemptions: Counter,
    /// Sequences in the batch.
    pub(crate) running: Gauge,
    /// Sequences waiting to join the batch.
    pub(crate) waiting: Gauge,
    /// KV cache pages held by sequences.
    pub(crate) pages_used: Gauge,
    /// All pages.
    pub(crate) pages: Gauge,
    /// Share of prompt tokens found in the KV cache.
    pub(crate) hit_rate: Share,
    /// Sequences of a forward pass.
    pub(crate) batch: Histogram,
    /// From the arrival of a request to the first token of a sequence.
    pub(crate) first_token: Histogram,
    /// Between two tokens of a sequence.
    pub(crate) next_token: Histogram,
    /// From the arrival of a request to the end of a sequence.
    pub(crate) whole: Histogram,
}

fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.000_5, 2.0, 20))
}

fn sizes() -> Histogram {
    Histogram::new(exponential_buckets(1.0, 2.0, 11))
}

/// Registers a metric labelled by model.
fn by_model<M>(registry: &mut Registry, name: &str, help: &str) -> Family<ModelLabel, M>
where
    M: EncodeMetric + TypedMetric + Default + Send + Sync + std::fmt::Debug + 'static,
{
    let family = Family::default();
    registry.register(name, help, Family::clone(&family));
    family
}

impl Metrics {
    /// Creates the metrics of a server with these models, and those of each engine.
    pub(crate) fn new<'a>(models: impl IntoIterator<Item = &'a str>) -> (Self, Vec<EngineMetrics>) {
        let mut registry = Registry::with_prefix("spag");
        let (responses, connections) = (Family::default(), Gauge::default());
        registry.register("http_responses", "HTTP responses by route and status", Family::clone(&responses));
        registry.register("http_connections", "Open connections", connections.clone());
        let ended = Family::<EndLabels, Counter>::default();
        registry.register("sequences_ended", "Sequences by how they ended", ended.clone());
        let r = &mut registry;
        let prompt_tokens = by_model::<Counter>(r, "prompt_tokens", "Prompt tokens");
        let cached_tokens = by_model::<Counter>(r, "cached_prompt_tokens", "Prompt tokens found in the KV cache");
        let generated_tokens = by_model::<Counter>(r, "generated_tokens", "Generated tokens");
        let steps = by_model::<Counter>(r, "steps", "Forward passes");
        let preemptions = by_model::<Counter>(r, "preemptions", "Preempted sequences");
        let running = by_model::<Gauge>(r, "sequences_running", "Sequences in the batch");
        let waiting = by_model::<Gauge>(r, "sequences_waiting", "Sequences that wait for a place in the batch");
        let pages_used = by_model::<Gauge>(r, "kv_pages_used", "Pages of the KV cache that sequences hold");
        let pages = by_model::<Gauge>(r, "kv_pages", "Pages of the KV cache");
        let hit_rate = by_model::<Share>(r, "cache_hit_rate", "Share of prompt tokens found in the KV cache");
        let batch = Histograms::new_with_constructor(sizes);
        r.register("batch_sequences", "Sequences of a forward pass", batch.clone());
        let mut times = |name, help| {
            let family = Histograms::new_with_constructor(seconds);
            r.register_with_unit(name, help, Unit::Seconds, family.clone());
            family
        };
        let first_token = times("time_to_first_token", "From a request to a first token");
        let next_token = times("time_per_output_token", "Between two tokens of a sequence");
        let whole = times("sequence_time", "From a request to the end of a sequence");
        let of = |model: &str| {
            let label = ModelLabel { model: model.to_owned() };
            EngineMetrics {
                model: model.to_owned(),
                ended: ended.clone(),
                prompt_tokens: prompt_tokens.get_or_create_owned(&label),
                cached_tokens: cached_tokens.get_or_create_owned(&label),
                generated_tokens: generated_tokens.get_or_create_owned(&label),
                steps: steps.get_or_create_owned(&label),
                preemptions: preemptions.get_or_create_owned(&label),
                running: running.get_or_create_owned(&label),
                waiting: waiting.get_or_create_owned(&label),
                pages_used: pages_used.get_or_create_owned(&label),
                pages: pages.get_or_create_owned(&label),
                hit_rate: hit_rate.get_or_create_owned(&label),
                batch: batch.get_or_create_owned(&label),
                first_token: first_token.get_or_create_owned(&label),
                next_token: next_token.get_or_create_owned(&label),
                whole: whole.get_or_create_owned(&label),
            }
        };
        let each = models.into_iter().map(of).collect();
        (Self { registry, responses, connections }, each)
    }

    /// Counts a response.
    pub(crate) fn count_response(&self, route: &str, status: u16) {
        self.responses.get_or_create(&ResponseLabels { route: route.to_owned(), status }).inc();
    }

    /// All metrics in Prometheus' text format.
    pub(crate) fn text(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

impl EngineMetrics {
    /// Counts the end of a sequence, `time` after its request arrived.
    pub(crate) fn count_end(&self, reason: &'static str, time: Duration) {
        self.ended.get_or_create(&EndLabels { model: self.model.clone(), reason }).inc();
        self.whole.observe(time.as_secs_f64());
    }
}
