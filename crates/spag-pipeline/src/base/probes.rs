//! Probes of the finished base model: naming a word from three clues, and giving clues to a word.

use std::sync::Arc;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use spag_game::{PromptSet, game_seed};
use spag_io::Progress;
use spag_model::generate::{MemoryBudget, Sampling};
use spag_model::{Checkpoint, Engine, EngineConfig, Generate, GenerationConfig, Request};
use spag_selfplay::Rate;
use spag_world::{Lexicon, Probe, attacker_clue_probe, naming_probe, qa_probe};

use crate::config::BaseConfig;
use crate::error::Result;
use crate::seeds::stage_seed;

/// Maximum tokens of an answer, enough for two clues.
pub(super) const ANSWER_TOKENS: usize = 16;
/// Concurrent answers.
pub(super) const SLOTS: usize = 64;

/// Shares of correct answers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Probed {
    pub(super) named_in_game: Rate,
    pub(super) named_in_question: Rate,
    pub(super) true_clues: Rate,
}

pub(super) fn probe(
    config: &BaseConfig,
    lexicon: &Lexicon,
    prompts: &PromptSet,
    checkpoint: Checkpoint,
    progress: &mut dyn Progress,
) -> Result<Probed> {
    let seed = stage_seed(config.seed, "base/probes");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let count = config.probes.count;
    let games: Vec<Probe> = (0..count).map(|_| naming_probe(lexicon, prompts, &mut rng)).collect();
    let questions: Vec<Probe> = (0..count).map(|_| qa_probe(lexicon, &mut rng)).collect();
    let attacks: Vec<Probe> = (0..count).map(|_| attacker_clue_probe(lexicon, prompts, &mut rng)).collect();

    let checkpoint = Arc::new(checkpoint);
    let ask = |probes: &[Probe], sampling| answers(&checkpoint, probes, sampling, seed);
    progress.begin("probes", 3);
    let named_in_game = named(&games, &ask(&games, Sampling::Greedy)?);
    progress.advance(1, "");
    let named_in_question = named(&questions, &ask(&questions, Sampling::Greedy)?);
    progress.advance(2, "");
    let drawn = config.probes.sampling();
    let true_clues = truth(lexicon, &attacks, &ask(&attacks, drawn)?);
    progress.advance(3, "");
    progress.end();
    Ok(Probed { named_in_game, named_in_question, true_clues })
}

fn answers(checkpoint: &Arc<Checkpoint>, probes: &[Probe], sampling: Sampling, seed: u64) -> Result<Vec<String>> {
    let config = Arc::new(GenerationConfig {
        max_new_tokens: ANSWER_TOKENS,
        min_new_tokens: 1,
        sampling,
        ..GenerationConfig::default()
    });
    let setting = EngineConfig::new(checkpoint.model.config(), SLOTS, MemoryBudget::host());
    let mut engine = Engine::new(checkpoint, setting)?;
    let request = |(i, probe): (usize, &Probe)| Request {
        prompt: probe.prompt.clone().into(),
        seed: game_seed(seed, i),
        config: config.clone(),
    };
    let requests = probes.iter().enumerate().map(request).collect();
    Ok(engine.generate(requests)?.into_iter().map(|completion| completion.text).collect())
}

/// Answers that start with the correct word.
fn named(probes: &[Probe], answers: &[String]) -> Rate {
    let right = probes.iter().zip(answers).filter(|(probe, answer)| {
        answer
            .trim_start()
            .strip_prefix(probe.word.as_str())
            .is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
    });
    Rate::new(right.count(), probes.len())
}

/// True clues among those in the answers.
fn truth(lexicon: &Lexicon, probes: &[Probe], answers: &[String]) -> Rate {
    let (mut given, mut correct) = (0, 0);
    for (probe, answer) in probes.iter().zip(answers) {
        for clue in lexicon.clues_in(answer) {
            given += 1;
            correct += usize::from(lexicon.clue_is_true(&probe.word, clue));
        }
    }
    Rate::new(correct, given)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_word_at_the_start_counts() {
        let probe = |word: &str| Probe { prompt: String::new(), word: word.to_owned() };
        let probes = [probe("tiger"), probe("tiger"), probe("tiger")];
        let answers = [" tiger!", "tigers!", "the tiger"].map(str::to_owned);
        assert_eq!(named(&probes, &answers), Rate::new(1, 3));
    }
}
