//! From the samples of a stage to its model.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use spag_io::Progress;
use spag_rewards::{AlpacaTemplate, Sample, read_samples, read_sft_samples};
use spag_run::{Model, Provenance, StageDone};
use spag_train::{IntervalStrategy, Start, TrainConfig, TrainJob};

use super::context::{RunContext, StageProgress};
use super::stage_folder::StageFolder;
use crate::config::{RunConfig, SftShare, TrainSettings};
use crate::error::{Error, Result};

/// Trains `from` on the samples of a stage, and saves it as the stage's model. The reference model is the model before the
/// first step.
///
/// # Errors
/// [`Error::Stopped`] without samples.
pub(super) fn train(
    run: RunContext<'_>,
    settings: &TrainSettings,
    from: Model,
    stage: &StageFolder,
    done: &mut StageDone,
    progress: &mut dyn Progress,
) -> Result<()> {
    let seed = run.seed(stage, "train", done);
    let count = read_samples(stage.samples())?.len();
    if count == 0 {
        let remedy = match from {
            Model::Base => "choose another imitation.source",
            _ => "more self_play.games or another self_play.temperature may help, in another run_dir",
        };
        let reason = format!("no game gave samples to train on; {remedy}");
        // Of several games, each has its file in a folder of its own.
        let file = if run.inputs.games.len() == 1 { stage.episodes() } else { stage.dir.clone() };
        return Err(Error::Stopped { stage: stage.name.clone(), reason, file });
    }
    let given = &settings.job;
    let mut config = TrainConfig { seed, ..settings.config.clone() };
    if !given.eval_data_path.is_empty() && config.evaluation_strategy == IntervalStrategy::No {
        config.evaluation_strategy = IntervalStrategy::Epoch;
    }
    let new = TrainJob::new(run.config.folder_of(from), stage.samples(), &stage.dir, config);
    let job = TrainJob {
        model_dir: Some(stage.model()),
        start: Start::Latest,
        device: run.config.device,
        add_bos_token: run.config.add_bos_token,
        template: run.config.template.clone(),
        eval_data_path: given.eval_data_path.clone(),
        deepspeed: given.deepspeed.clone(),
        zero_stage: given.zero_stage,
        shard_within: given.shard_within.unwrap_or_default(),
        offload_optimizer: given.offload_optimizer,
        offload_param: given.offload_param.unwrap_or_default(),
        ..new
    };
    let steps = done.timed("train", || {
        let mut progress = StageProgress { stage: &stage.name, inner: progress };
        let trained = spag_train::run_on(&job, &run.ranks.env, run.ranks.group.clone(), &mut progress)?;
        Ok::<_, Error>(trained.steps)
    })?;
    done.note_count("samples", count);
    done.note_count("steps", steps);
    Ok(())
}

/// Records what the samples of a stage are made from: the games in `folders`.
pub(super) fn write_provenance(run: RunContext<'_>, folders: &[StageFolder], stage: &StageFolder) -> Result<()> {
    let mut games = Vec::new();
    for folder in folders {
        games.extend(Provenance::read_of(folder.episodes())?.unwrap_or_default().games);
    }
    let wordings = vec![run.inputs.prompts.wordings().clone()];
    Ok(Provenance { wordings, games }.write_of(stage.samples())?)
}

/// SFT samples beside `count` samples of games, drawn with `seed`.
pub(super) fn sft_samples(run: RunContext<'_>, count: usize, seed: u64) -> Result<Vec<Sample>> {
    let settings = &run.config.sft;
    match (&settings.file, settings.share) {
        (_, SftShare::PerSample(share)) => general_texts(run, (share * count as f64).round() as usize, seed),
        (None, SftShare::All(_)) => Ok(Vec::new()),
        (Some(file), SftShare::All(_)) => Ok(read_sft_samples(file, &AlpacaTemplate::default())?),
    }
}

/// So many SFT samples, drawn with `seed`: [`GeneralTexts::draw`].
pub(super) fn general_texts(run: RunContext<'_>, wanted: usize, seed: u64) -> Result<Vec<Sample>> {
    GeneralTexts::open(run.config)?.draw(run, wanted, seed)
}

/// What general texts are drawn from: the rows of a file, or the small world.
pub(super) struct GeneralTexts {
    /// Of the file, if there is one.
    rows: Option<Vec<Sample>>,
}

impl GeneralTexts {
    /// Reads the file, if there is one.
    pub(super) fn open(config: &RunConfig) -> Result<Self> {
        let read = |file| read_sft_samples(file, &AlpacaTemplate::default());
        Ok(Self { rows: config.sft.file.as_ref().map(read).transpose()? })
    }

    /// So many samples, drawn with `seed`. A file that has fewer rows is used again in another order.
    pub(super) fn draw(&self, run: RunContext<'_>, wanted: usize, seed: u64) -> Result<Vec<Sample>> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut samples = Vec::new();
        let Some(rows) = &self.rows else {
            if wanted > 0 {
                let lexicon = run.inputs.lexicon()?;
                samples.extend((0..wanted).map(|_| {
                    let (question, answer) = spag_world::general_qa(lexicon, &mut rng);
                    Sample::sft(question, answer)
                }));
            }
            return Ok(samples);
        };
        while samples.len() < wanted && !rows.is_empty() {
            let mut order: Vec<&Sample> = rows.iter().collect();
            order.shuffle(&mut rng);
            samples.extend(order.into_iter().take(wanted - samples.len()).cloned());
        }
        Ok(samples)
    }
}
