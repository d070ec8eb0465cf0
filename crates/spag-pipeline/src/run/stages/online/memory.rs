//! The memory of an on-policy run beside its learner, on the device of a rank: the engine that plays, that of the opponent, and the
//! reference model. The run sizes its engines by it, and `spag plan` shows it.

use spag_model::dtype::WeightDtype;
use spag_model::generate::{EngineSettings, GenerationMemory, MemoryBudget, Processor, SumOrder};
use spag_model::model::BlockFormat;
use spag_model::packed_weights::QuantisedLayers;
use spag_model::{EngineConfig, ModelConfig};
use spag_train::Beside;

use crate::config::{OnlineSettings, Opponent, ReferenceSettings, RunConfig};

/// What decides how much memory an on-policy run needs beside its learner.
#[derive(Clone, Debug)]
pub struct OnlineMemory {
    model: ModelConfig,
    processor: Processor,
    /// The learner's.
    dtype: WeightDtype,
    /// What the weights under an adapter are quantised to.
    quantize: Option<BlockFormat>,
    /// Limits of each engine.
    settings: EngineSettings,
    /// Games that a rank plays at a time.
    games: usize,
    /// Tokens of a prompt with its utterance, at most.
    max_length: usize,
    engines: usize,
    sum_order: SumOrder,
    reference: ReferencePart,
    /// Learners, each of a policy. Those after the first share its frozen weights.
    learners: usize,
}

/// What of a reference model is in memory beside the learner's own weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReferencePart {
    Nothing,
    Model,
    /// So many parameters of an adapter, for each learner.
    Adapter(usize),
}

impl ReferencePart {
    fn of(config: &RunConfig, online: &OnlineSettings, model: &ModelConfig) -> Self {
        let train = &config.train.config;
        match (&online.reference, train.lora_r) {
            _ if online.policy_loss.kl_coeff == 0.0 => Self::Nothing,
            (_, None) | (ReferenceSettings { reference_model: Some(_), .. }, _) => Self::Model,
            (ReferenceSettings { reference_updates: None, .. }, _) => Self::Nothing,
            // The weights under it are the learner's.
            (ReferenceSettings { reference_updates: Some(_), .. }, _) => {
                Self::Adapter(train.trained_layout(&model.architecture).len())
            }
        }
    }
}

/// Bytes beside the learner, by part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnlineParts {
    /// The engine that plays: its weights, keys and values, and temporary memory.
    pub engine: GenerationMemory,
    /// The opponent's engine.
    pub opponent: u64,
    /// The reference model.
    pub reference: u64,
}

impl OnlineParts {
    /// The sum.
    pub fn total(&self) -> u64 {
        self.engine.total().saturating_add(self.opponent).saturating_add(self.reference)
    }
}

impl OnlineMemory {
    /// That of a run with a model on `ranks` ranks.
    pub fn new(
        config: &RunConfig,
        online: &OnlineSettings,
        model: &ModelConfig,
        ranks: usize,
        processor: Processor,
    ) -> Self {
        let play = &config.self_play;
        let is_served = matches!(online.opponent_endpoint(), Ok(Some(_)));
        let games = online.games_per_update.div_ceil(ranks.max(1)).min(play.games_in_flight());
        Self {
            model: model.clone(),
            processor,
            dtype: config.train.config.dtype(),
            quantize: config.train.config.quantize,
            settings: EngineSettings { max_running: Some(games), ..play.engine },
            games,
            max_length: config.max_play_length(model),
            engines: match online.opponents.opponent {
                Opponent::Policy | Opponent::Scripted => 1,
                Opponent::Fixed | Opponent::Pool if is_served || online.has_adapters_for_opponents(&config.train) => 1,
                Opponent::Fixed | Opponent::Pool => 2,
            },
            sum_order: if online.exact { SumOrder::Fixed } else { SumOrder::Any },
            reference: ReferencePart::of(config, online, model),
            learners: online.policies.count(),
        }
    }

    /// Positions of the model.
    pub fn positions(&self) -> usize {
        self.model.architecture.max_position_embeddings
    }

    /// Games that a rank plays at a time.
    pub fn games(&self) -> usize {
        self.games
    }

    /// Tokens of a prompt with its utterance, and of a trajectory, at most.
    pub fn max_length(&self) -> usize {
        self.max_length
    }

    /// What is needed for one game at a time, and for all of a rank.
    pub fn beside(&self) -> Beside {
        let of = |room| self.parts(&self.sized(room)).total();
        Beside { least: of(0), wanted: of(u64::MAX), further_adapters: self.further_adapters() }
    }

    /// Adapters that are trained over the weights of the learner besides its own.
    pub fn further_adapters(&self) -> usize {
        self.learners - 1
    }

    /// The limits of each engine, if the learner leaves `free` bytes of the device.
    ///
    /// A GPU's are all for the engines: their temporary memory and the learner's are not needed at the same time, but planned for both.
    /// Of a host's, other processes have a share.
    pub fn engine(&self, free: u64) -> EngineConfig {
        self.sized(self.cache_room(free))
    }

    /// Games of the full length whose keys and values fit at once, if the learner leaves `free` bytes of the device. They may be more
    /// than a rank plays.
    pub fn games_that_fit(&self, free: u64) -> u64 {
        if free < self.beside().least {
            return 0;
        }
        let smallest = self.sized(0);
        let of_game = self.max_length.div_ceil(smallest.page_size) * smallest.page_size;
        let tokens = match self.settings.kv_cache_gib {
            Some(_) => (smallest.pages * smallest.page_size) as u64,
            None => self.cache_room(free) / GenerationMemory::per_token(&self.model, self.dtype),
        };
        (tokens / of_game as u64).max(1)
    }

    /// The memory beside the learner, with engines of such limits.
    pub fn parts(&self, engine: &EngineConfig) -> OnlineParts {
        let mut engine = engine.memory(&self.model, self.dtype, self.processor);
        if let Some(format) = self.quantize {
            (engine.parameters, _) = QuantisedLayers::bytes(&self.model.architecture, format, self.dtype);
        }
        OnlineParts {
            engine,
            opponent: if self.engines > 1 { engine.total() } else { 0 },
            reference: match self.reference {
                ReferencePart::Nothing => 0,
                ReferencePart::Model => engine.parameters,
                ReferencePart::Adapter(parameters) => (self.learners * parameters * self.dtype.bytes()) as u64,
            },
        }
    }

    /// Bytes for the keys and values of each engine.
    fn cache_room(&self, free: u64) -> u64 {
        let parts = self.parts(&self.sized(u64::MAX));
        let caches = parts.engine.pages.saturating_mul(self.engines as u64);
        let room = free.saturating_sub(parts.total().saturating_sub(caches)) / self.engines as u64;
        match self.processor {
            Processor::Cpu => room / MemoryBudget::HOST_SHARE,
            Processor::Gpu => room,
        }
    }

    /// An engine with `room` bytes for keys and values; at least for one game.
    fn sized(&self, room: u64) -> EngineConfig {
        let bytes = usize::try_from(room).unwrap_or(usize::MAX);
        let budget = MemoryBudget { bytes, bytes_per_value: self.dtype.bytes() };
        let config = self.settings.config_on(self.processor, &self.model, self.max_length, budget);
        EngineConfig { sum_order: self.sum_order, ..config }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    /// LLaMA-2-7B: 8 games of a rank, of up to 2 304 tokens.
    fn seven_billion(engines: usize) -> OnlineMemory {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../configs/llama2-7b/config.json");
        OnlineMemory {
            model: ModelConfig::from_file(path).unwrap(),
            processor: Processor::Gpu,
            quantize: None,
            dtype: WeightDtype::Bf16,
            settings: EngineSettings { max_running: Some(8), ..EngineSettings::default() },
            games: 8,
            max_length: 2304,
            engines,
            reference: if engines > 1 { ReferencePart::Model } else { ReferencePart::Nothing },
            sum_order: SumOrder::Any,
            learners: 1,
        }
    }

    /// 512 KiB a token: 1 152 MiB a game, and a game more for prefixes.
    #[test]
    fn seven_billion_parameters_by_hand() {
        let memory = seven_billion(1);
        let game = 2304 * (512 << 10);
        let weights = 13_476_831_232;
        let parts = memory.parts(&memory.engine(80 * GIB));
        assert_eq!((parts.engine.parameters, parts.engine.pages), (weights, 9 * game));
        // Passes of 2 048 prompt tokens beside 8 games, and logits of a chunk of a prompt.
        assert_eq!(parts.engine.block, 2056 * (3 * 4096 + 3 * 11_008) * 2);
        let work = parts.engine.block + 131 * 32_000 * 4;
        assert_eq!((parts.opponent, parts.reference, parts.total()), (0, 0, weights + 9 * game + work));
        let least = weights + game + work;
        assert_eq!(memory.beside(), Beside { least, wanted: parts.total(), further_adapters: 0 });
        assert_eq!(
            [least - 1, least, least + game - 1, least + game].map(|free| memory.games_that_fit(free)),
            [0, 1, 1, 2]
        );
        // More than a rank plays.
        assert_eq!(memory.games_that_fit(least + 20 * game), 21);
        // A second engine and a reference model.
        let two = seven_billion(2).beside();
        let (least, wanted) = (2 * least + weights, 2 * parts.total() + weights);
        assert_eq!(two, Beside { least, wanted, further_adapters: 0 });
    }

    #[test]
    fn engines_take_no_more_than_the_learner_leaves() {
        for (engines, processor) in [(1, Processor::Gpu), (2, Processor::Gpu), (1, Processor::Cpu), (2, Processor::Cpu)]
        {
            let memory = OnlineMemory { processor, ..seven_billion(engines) };
            let Beside { least, wanted, .. } = memory.beside();
            let mut before = 0;
            for free in (least..wanted + 2 * GIB).step_by(100 << 20) {
                let engine = memory.engine(free);
                let (needed, games) = (memory.parts(&engine).total(), memory.games_that_fit(free));
                assert!(needed <= free, "{engines} on {processor:?}: {needed} of {free}");
                // Of what is left, a host's engines have half.
                let cached = (engine.pages * engine.page_size / 2304) as u64;
                assert!(cached == games || (cached == 9 && games > 9), "{cached} {games}");
                assert!(games >= before);
                before = games;
            }
            assert!(before >= if processor == Processor::Gpu { 9 } else { 4 }, "{before}");
        }
        // The size that a setting names.
        let settings = EngineSettings { kv_cache_gib: Some(4.0), ..seven_billion(1).settings };
        let memory = OnlineMemory { settings, ..seven_billion(1) };
        let Beside { least, wanted, .. } = memory.beside();
        assert_eq!((least, memory.games_that_fit(least), memory.games_that_fit(least - 1)), (wanted, 3, 0));
    }
}
