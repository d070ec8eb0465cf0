//! What a finished base model knows.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use spag_game::NamedGame;
use spag_io::Progress;
use spag_model::generate::MemoryBudget;
use spag_model::{Checkpoint, EngineConfig, GenerationConfig, Tokenizer};
use spag_selfplay::{GameMeter, MeterSize, ModelPlayer, Rate};

use super::probes::{self, ANSWER_TOKENS, SLOTS};
use super::texts::Texts;
use super::tokenizer::single_token_rate;
use crate::config::BaseConfig;
use crate::error::Result;

/// How well a base model knows what it was trained on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum BaseQuality {
    /// The small world.
    World(Box<WorldQuality>),
    /// Games.
    Games {
        /// The model against perfect play, by the names of games with options; without games that have no such meter.
        games: BTreeMap<String, GameMeter>,
    },
}

/// What a base model knows of the small world.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorldQuality {
    /// Target words that are one token after a space.
    pub whole_target_words: Rate,
    /// Words of the clues that are one token after a space.
    pub whole_clue_words: Rate,
    /// Words named correctly from three clues in the form of a game, with greedy sampling.
    pub named_in_game: Rate,
    /// Words named correctly from three clues in the form of a question, with greedy sampling.
    pub named_in_question: Rate,
    /// True clues among those sampled as attacker.
    pub true_clues: Rate,
}

/// Target words and words of clues that are one token after a space; `None` without the small world.
pub(super) fn single_tokens(texts: &Texts, tokenizer: &Tokenizer) -> Result<Option<[Rate; 2]>> {
    let Texts::World { lexicon, .. } = texts else { return Ok(None) };
    let clues = lexicon.words().flat_map(|word| lexicon.clues(word));
    Ok(Some([
        single_token_rate(tokenizer, lexicon.words())?,
        single_token_rate(tokenizer, clues.flat_map(|clue| clue.split_whitespace()))?,
    ]))
}

/// Measures the model.
pub(super) fn measure(
    config: &BaseConfig,
    texts: &Texts,
    single_tokens: Option<[Rate; 2]>,
    checkpoint: Checkpoint,
    progress: &mut dyn Progress,
) -> Result<BaseQuality> {
    match texts {
        Texts::World { lexicon, prompts } => {
            let probed = probes::probe(config, lexicon, prompts, checkpoint, progress)?;
            let [whole_target_words, whole_clue_words] = single_tokens.unwrap_or([Rate::new(0, 0); 2]);
            Ok(BaseQuality::World(Box::new(WorldQuality {
                whole_target_words,
                whole_clue_words,
                named_in_game: probed.named_in_game,
                named_in_question: probed.named_in_question,
                true_clues: probed.true_clues,
            })))
        }
        Texts::Games(games) => {
            progress.begin("probes", games.len() as u64);
            let games = meters(config, games, checkpoint, progress)?;
            progress.end();
            Ok(BaseQuality::Games { games })
        }
    }
}

fn meters(
    config: &BaseConfig,
    games: &[NamedGame],
    checkpoint: Checkpoint,
    progress: &mut dyn Progress,
) -> Result<BTreeMap<String, GameMeter>> {
    let engine = EngineConfig::new(checkpoint.model.config(), SLOTS, MemoryBudget::host());
    let sampling = config.probes.sampling();
    let generation =
        GenerationConfig { max_new_tokens: ANSWER_TOKENS, min_new_tokens: 1, sampling, ..GenerationConfig::default() };
    let mut player = ModelPlayer::load(checkpoint, generation, engine)?;
    let size = MeterSize { positions: config.probes.count, ..MeterSize::default() };
    let mut meters = BTreeMap::new();
    for (done, NamedGame { name, game }) in games.iter().enumerate() {
        if let Some(meter) = GameMeter::of(&mut player, &**game, size)? {
            meters.insert(name.clone(), meter);
        }
        progress.advance(done as u64 + 1, "");
    }
    Ok(meters)
}
