//! What `/metrics` reports.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, text::encode};
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

type ByModel<M> = Family<ModelLabel, M>;
type Histograms = Family<ModelLabel, Histogram, fn() -> Histogram>;

#[derive(Default)]
struct EngineFamilies {
    ended: Family<EndLabels, Counter>,
    prompt_tokens: ByModel<Counter>,
    cached_tokens: ByModel<Counter>,
    generated_tokens: ByModel<Counter>,
    steps: ByModel<Counter>,
    preemptions: ByModel<Counter>,
    running: ByModel<Gauge>,
    waiting: ByModel<Gauge>,
    pages_used: ByModel<Gauge>,
    pages: ByModel<Gauge>,
    hit_rate: ByModel<Gauge<f64, AtomicU64>>,
}

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
    /// Sequences that wait for a place in it.
    pub(crate) waiting: Gauge,
    /// Pages of the KV cache that sequences hold.
    pub(crate) pages_used: Gauge,
    /// All pages.
    pub(crate) pages: Gauge,
    /// Share of prompt tokens found in the KV cache.
    pub(crate) hit_rate: Gauge<f64, AtomicU64>,
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

impl Metrics {
    /// Metrics of a server of these models, and those of each engine.
    pub(crate) fn new<'a>(models: impl IntoIterator<Item = &'a str>) -> (Self, Vec<EngineMetrics>) {
        let mut registry = Registry::with_prefix("spag");
        let (responses, connections) = (Family::default(), Gauge::default());
        registry.register("http_responses", "HTTP responses by route and status", Family::clone(&responses));
        registry.register("http_connections", "Open connections", connections.clone());
        let engines = EngineFamilies::default();
        engines.register(&mut registry);
        let histograms =
            |registry: &mut Registry, name: &str, help: &str, unit: Option<Unit>, make: fn() -> Histogram| {
                let family = Histograms::new_with_constructor(make);
                match unit {
                    Some(unit) => registry.register_with_unit(name, help, unit, family.clone()),
                    None => registry.register(name, help, family.clone()),
                }
                family
            };
        let s = || Some(Unit::Seconds);
        let batch = histograms(&mut registry, "batch_sequences", "Sequences of a forward pass", None, sizes);
        let first = histograms(&mut registry, "time_to_first_token", "From a request to a first token", s(), seconds);
        let next = histograms(&mut registry, "time_per_output_token", "Between two tokens of a sequence", s(), seconds);
        let whole = histograms(&mut registry, "sequence_time", "From a request to the end of a sequence", s(), seconds);
        let of = |model: &str| {
            let label = ModelLabel { model: model.to_owned() };
            let families = &engines;
            EngineMetrics {
                model: model.to_owned(),
                ended: families.ended.clone(),
                prompt_tokens: families.prompt_tokens.get_or_create_owned(&label),
                cached_tokens: families.cached_tokens.get_or_create_owned(&label),
                generated_tokens: families.generated_tokens.get_or_create_owned(&label),
                steps: families.steps.get_or_create_owned(&label),
                preemptions: families.preemptions.get_or_create_owned(&label),
                running: families.running.get_or_create_owned(&label),
                waiting: families.waiting.get_or_create_owned(&label),
                pages_used: families.pages_used.get_or_create_owned(&label),
                pages: families.pages.get_or_create_owned(&label),
                hit_rate: families.hit_rate.get_or_create_owned(&label),
                batch: batch.get_or_create_owned(&label),
                first_token: first.get_or_create_owned(&label),
                next_token: next.get_or_create_owned(&label),
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

impl EngineFamilies {
    fn register(&self, registry: &mut Registry) {
        registry.register("sequences_ended", "Sequences by how they ended", self.ended.clone());
        registry.register("prompt_tokens", "Prompt tokens", self.prompt_tokens.clone());
        registry.register("cached_prompt_tokens", "Prompt tokens found in the KV cache", self.cached_tokens.clone());
        registry.register("generated_tokens", "Generated tokens", self.generated_tokens.clone());
        registry.register("steps", "Forward passes", self.steps.clone());
        registry.register("preemptions", "Preempted sequences", self.preemptions.clone());
        registry.register("sequences_running", "Sequences in the batch", self.running.clone());
        registry.register("sequences_waiting", "Sequences that wait for a place in the batch", self.waiting.clone());
        registry.register("kv_pages_used", "Pages of the KV cache that sequences hold", self.pages_used.clone());
        registry.register("kv_pages", "Pages of the KV cache", self.pages.clone());
        registry.register("cache_hit_rate", "Share of prompt tokens found in the KV cache", self.hit_rate.clone());
    }
}

impl EngineMetrics {
    /// Counts the end of a sequence that took `time` since its request arrived.
    pub(crate) fn count_end(&self, reason: &'static str, time: Duration) {
        self.ended.get_or_create(&EndLabels { model: self.model.clone(), reason }).inc();
        self.whole.observe(time.as_secs_f64());
    }
}
