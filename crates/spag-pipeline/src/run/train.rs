//! From the games of a stage to its model: credit assignment, SFT samples, training.

use std::path::Path;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use spag_game::read_episodes;
use spag_io::{Progress, Provenance};
use spag_rewards::{CreditConfig, Sample, assign_rewards, convert_imitation, read_samples, write_samples};
use spag_train::{Start, TrainConfig, TrainJob};

use super::context::{RunContext, StageProgress};
use super::folder::{StageDone, StageFolder};
use crate::error::{Error, Result};
use crate::seeds::stage_seed;

/// How a stage makes samples of its games.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// The winners' utterances without rewards.
    Imitation,
    /// The winners' utterances with rewards, and SFT samples.
    OfflinePo,
}

/// Writes the samples of a stage, trains the model in `from` on them, and saves it as the stage's model.
pub(super) fn train(
    method: Method,
    run: RunContext<'_>,
    from: &Path,
    stage: &StageFolder,
    done: &mut StageDone,
    progress: &mut dyn Progress,
) -> Result<()> {
    let seed = |part: &str| stage_seed(run.config.seed, &format!("{}/{part}", stage.name));
    let (wordings, sft, training) = (seed("wordings"), seed("sft"), seed("train"));
    done.note_seed("wordings", wordings);
    done.note_seed("sft", sft);
    done.note_seed("train", training);
    let write = || -> Result<()> {
        match method {
            Method::Imitation => {
                let (prompts, judge) = (&run.inputs.prompts, run.config.judge);
                convert_imitation(stage.episodes(), stage.samples(), prompts, judge, wordings)?;
            }
            Method::OfflinePo => write_samples(stage.samples(), &samples(run, stage, wordings, sft)?)?,
        }
        let played = Provenance::read_of(stage.episodes())?.unwrap_or_default();
        let wordings = vec![run.inputs.prompts.wordings().clone()];
        Ok(Provenance { wordings, games: played.games }.write_of(stage.samples())?)
    };
    done.timed("credit", || run.ranks.on_rank_0(write))?;
    let count = read_samples(stage.samples())?.len();
    if count == 0 {
        return Err(Error::NothingToLearn { stage: stage.name.clone(), episodes: stage.episodes() });
    }
    let config = match method {
        Method::Imitation => &run.config.imitation.train,
        Method::OfflinePo => &run.config.train,
    };
    let job = TrainJob {
        model_dir: Some(stage.model()),
        start: Start::Latest,
        device: run.config.device,
        ..TrainJob::new(from, stage.samples(), &stage.dir, TrainConfig { seed: training, ..config.clone() })
    };
    let steps = done.timed("train", || {
        let mut progress = StageProgress { stage: &stage.name, inner: progress };
        // The reference model is the model before the first step.
        Ok(spag_train::run_on(&job, &run.ranks.env, run.ranks.group.clone(), &mut progress)?.steps)
    })?;
    done.note_count("samples", count);
    done.note_count("steps", steps);
    Ok(())
}

/// The winners' utterances with rewards and weights, followed by SFT samples.
fn samples(run: RunContext<'_>, stage: &StageFolder, wordings: u64, sft: u64) -> Result<Vec<Sample>> {
    let RunContext { config, inputs, .. } = run;
    let credit = CreditConfig {
        decay_weight: config.rewards.decay_weight,
        norm: config.rewards.reward_norm,
        judge: config.judge,
        seed: wordings,
    };
    let mut samples = assign_rewards(&read_episodes(stage.episodes())?, &inputs.prompts, &credit)?.samples;
    let count = (config.sft.share * samples.len() as f64).round() as usize;
    let mut rng = ChaCha8Rng::seed_from_u64(sft);
    samples.extend((0..count).map(|_| {
        let (question, answer) = spag_world::general_qa(&inputs.lexicon, &mut rng);
        Sample::sft(question, answer)
    }));
    Ok(samples)
}
