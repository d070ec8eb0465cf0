//! Ranges and combinations of the settings of a run.

use std::ops::RangeInclusive;

use spag_io::PromptFormat;
use spag_model::EngineConfig;
use spag_rewards::CreditConfig;
use spag_selfplay::{EndpointSpec, PlayerSpec, PromptStyle, limits};

use super::layers::{check_training, require_ranges};
use super::run::RunConfig;
use super::sources::{SftShare, check_endpoint};
use crate::error::{Error, Result};

/// Rounds of self-play and training.
const EPOCHS: RangeInclusive<usize> = 0..=1000;
/// SFT samples per game sample.
const SFT_SHARE: RangeInclusive<f64> = 0.0..=100.0;
/// The largest share of words that are held out: some must be left.
const HOLDOUT: RangeInclusive<f64> = 0.0..=0.99;
/// A share above which a rule stops the run.
const SHARE: RangeInclusive<f64> = 0.0..=1.0;

impl RunConfig {
    /// Checks each value alone.
    pub(super) fn check(&self) -> Result<()> {
        let or_none = |games: RangeInclusive<usize>| 0..=*games.end();
        let (play, evaluation) = (&self.self_play, &self.evaluation);
        require_ranges(&[
            ("max_turns", self.max_turns, limits::TURNS),
            ("epochs", self.epochs, EPOCHS),
            ("imitation.max_new_tokens", self.imitation.max_new_tokens, limits::NEW_TOKENS),
            ("self_play.max_new_tokens", play.max_new_tokens, limits::NEW_TOKENS),
            ("self_play.min_new_tokens", play.min_new_tokens, limits::MIN_NEW_TOKENS),
            ("self_play.max_failed_in_a_row", play.max_failed_in_a_row, limits::FAILED_IN_A_ROW),
            ("self_play.games_in_flight", play.games_in_flight, limits::GAMES_IN_FLIGHT),
            ("self_play.top_k", play.top_k, limits::TOP_K),
            ("evaluation.games", evaluation.games, limits::GAMES),
            ("evaluation.self_play_games", evaluation.self_play_games, or_none(limits::GAMES)),
            ("evaluation.arena_games", evaluation.arena_games, or_none(limits::GAMES)),
            ("evaluation.sample_games", evaluation.sample_games, or_none(limits::GAMES)),
            ("evaluation.top_k", evaluation.top_k, limits::TOP_K),
        ])?;
        optional(&[
            ("imitation.games", self.imitation.games, limits::GAMES),
            ("imitation.top_k", self.imitation.top_k, limits::TOP_K),
            ("self_play.games", play.games, limits::GAMES),
            ("self_play.max_length", play.max_length, limits::LENGTH),
            ("self_play.requests_in_flight", play.requests_in_flight, limits::REQUESTS_IN_FLIGHT),
            ("self_play.page_size", play.page_size, EngineConfig::PAGE_SIZES),
            ("self_play.max_step_tokens", play.max_step_tokens, EngineConfig::STEP_TOKENS),
            ("evaluation.held_out_games", evaluation.held_out_games, limits::GAMES),
            ("benchmarks.limit", self.benchmarks.as_ref().and_then(|benchmarks| benchmarks.limit), 1..=usize::MAX),
        ])?;
        require_ranges(&[
            ("words.holdout", self.words.holdout, HOLDOUT),
            ("rewards.decay_weight", self.rewards.decay_weight, *CreditConfig::DECAY_WEIGHT.start()..=1.0),
        ])?;
        if let SftShare::PerSample(share) = self.sft.share {
            require_ranges(&[("sft.share", share, SFT_SHARE)])?;
        }
        let temperature = |name, value| (name, (value != 0.0).then_some(value), limits::TEMPERATURE);
        optional(&[
            temperature("imitation.temperature", self.imitation.temperature),
            temperature("self_play.temperature", play.temperature),
            temperature("evaluation.temperature", evaluation.temperature),
            ("imitation.top_p", self.imitation.top_p, limits::TOP_P),
            ("self_play.top_p", play.top_p, limits::TOP_P),
            ("evaluation.top_p", evaluation.top_p, limits::TOP_P),
            ("self_play.requests_per_minute", play.requests_per_minute, limits::REQUESTS_PER_MINUTE),
            ("self_play.request_timeout", play.request_timeout, limits::REQUEST_TIMEOUT),
            ("self_play.kv_cache_gib", play.kv_cache_gib, EngineConfig::CACHE_GIB),
        ])?;
        optional(&self.stop_when.all().map(|(name, share)| (name, share, SHARE)))?;
        if let Some(epoch) = evaluation.epochs.iter().flatten().find(|epoch| !(1..=self.epochs).contains(*epoch)) {
            let message = format!("epoch {epoch} does not exist; the run has 1 to {}", self.epochs);
            return Err(Error::BadSetting { setting: "evaluation.epochs", message });
        }
        check_training("imitation.train", &self.imitation.train)?;
        check_training("train", &self.train)
    }

    /// Checks values that depend on others.
    pub(super) fn check_sources(&self) -> Result<()> {
        let bad = |(setting, message)| Error::BadSetting { setting, message };
        self.imitation.check_source().map_err(bad)?;
        if let Some(player) = &self.self_play.player {
            check_endpoint("self_play.player", player).map_err(bad)?;
        }
        for (setting, player) in
            [("imitation.player", &self.imitation.player), ("self_play.player", &self.self_play.player)]
        {
            let style = match player.as_ref().map(|player| player.parse()) {
                Some(Ok(PlayerSpec::Endpoint(EndpointSpec { style, .. }))) => Some(style),
                _ => None,
            };
            if self.prompt_format == PromptFormat::Chat && style == Some(PromptStyle::Completion) {
                let message = "these servers complete texts and take no messages; with prompt_format = \"chat\", write openai:URL#MODEL";
                return Err(bad((setting, message.to_owned())));
            }
        }
        if self.sft.file.is_none() && matches!(self.sft.share, SftShare::All(_)) {
            return Err(bad(("sft.share", "\"whole\" needs sft.file; the small world's texts have no end".to_owned())));
        }
        Ok(())
    }
}

/// Checks values that are set.
fn optional<T: spag_io::Ranged>(settings: &[(&'static str, Option<T>, RangeInclusive<T>)]) -> Result<()> {
    settings.iter().try_for_each(|(setting, value, range)| match value {
        Some(value) => require_ranges(&[(*setting, *value, range.clone())]),
        None => Ok(()),
    })
}
