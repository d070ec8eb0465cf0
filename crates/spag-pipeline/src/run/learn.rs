//! From the games of a stage to its model: credit, mixing in general text, training.

use std::path::Path;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use spag_game::{Episode, read_episodes};
use spag_rewards::{CreditConfig, Sample, assign_rewards, convert_imitation, read_samples, write_samples};
use spag_train::{Start, TrainConfig, TrainJob};

use super::Scene;
use super::folder::{StageDone, StageFolder};
use super::table::Table;
use crate::config::RunConfig;
use crate::error::{Error, Result};
use spag_io::Progress;

use crate::progress::Staged;
use crate::seeds::stage_seed;

/// What is learned from the games.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Learning {
    /// The winners' utterances as they are.
    Imitation,
    /// The winners' utterances by their rewards, with SFT rows among them.
    OfflinePo,
}

/// Writes the stage's samples, trains the model in `from` on them, and saves it as the stage's model.
pub(super) fn learn(
    learning: Learning,
    scene: Scene<'_>,
    from: &Path,
    stage: &StageFolder,
    done: &mut StageDone,
    progress: &mut dyn Progress,
) -> Result<()> {
    let Scene { config, crew, table } = scene;
    let seed = |part: &str| stage_seed(config.seed, &format!("{}/{part}", stage.name()));
    let seeds = [("wordings", seed("wordings")), ("sft", seed("sft")), ("train", seed("train"))];
    for (part, seed) in seeds {
        done.note_seed(part, seed);
    }
    let credit_games = || match learning {
        // Every utterance has the same say here: rewards and balance are for self-play.
        Learning::Imitation => {
            convert_imitation(stage.episodes(), stage.samples(), &table.prompts, config.judge, seed("wordings"))?;
            Ok(())
        }
        Learning::OfflinePo => {
            let episodes = read_episodes(stage.episodes())?;
            let samples = credit(config, table, &episodes, seed("wordings"), seed("sft"))?;
            Ok(write_samples(stage.samples(), &samples)?)
        }
    };
    done.timed("credit", || crew.first_does(credit_games))?;
    // Read back, so that what is trained on is exactly what lies in the file.
    let samples = read_samples(stage.samples())?;
    if samples.is_empty() {
        return Err(Error::NothingToLearn { stage: stage.name().to_owned(), episodes: stage.episodes() });
    }
    let base = match learning {
        Learning::Imitation => &config.imitation.train,
        Learning::OfflinePo => &config.train,
    };
    let count = samples.len();
    drop(samples);
    let job = TrainJob {
        model_dir: Some(stage.model()),
        // An interrupted stage goes on from its last checkpoint, where it has one.
        start: Start::Latest,
        device: config.device,
        ..TrainJob::new(from, stage.samples(), stage.path(), TrainConfig { seed: seed("train"), ..base.clone() })
    };
    let steps = done.timed("train", || {
        let mut progress = Staged { stage: stage.name(), inner: progress };
        // The model as it is before the first step is the reference.
        Ok(spag_train::run_on(&job, crew.env(), crew.group().clone(), &mut progress)?.steps)
    })?;
    done.note_count("samples", count);
    done.note_count("steps", steps);
    Ok(())
}

/// The winners' utterances with their rewards and weights, and general text after them.
fn credit(config: &RunConfig, table: &Table, episodes: &[Episode], wordings: u64, sft: u64) -> Result<Vec<Sample>> {
    let credit = CreditConfig {
        decay_weight: config.rewards.decay_weight,
        norm: config.rewards.reward_norm,
        judge: config.judge,
        seed: wordings,
    };
    let mut samples = assign_rewards(episodes, &table.prompts, &credit)?.samples;
    let rows = (config.sft.share * samples.len() as f64).round() as usize;
    let mut rng = ChaCha8Rng::seed_from_u64(sft);
    samples.extend((0..rows).map(|_| {
        let (question, answer) = spag_world::general_qa(&table.lexicon, &mut rng);
        Sample::sft(question, answer)
    }));
    Ok(samples)
}
