//! The on-policy loop. [`Part::run`] opens what plays and learns, [`Part::update`] is one turn of the loop:
//!
//! 1. [`Schedule`]: the items, seeds and opponents of the batch, from the run's seed and the number of the update alone.
//! 2. [`Batch::play`]: this rank's share of the games, by one engine in this process with the weights of the step before.
//! 3. `of_all_ranks`, [`play::advantages`]: rewards of all ranks' games; the [`Estimator`] makes an advantage of each utterance.
//! 4. [`trajectories::of`]: the sampled tokens as they are, with their log-probabilities at sampling; nothing is tokenized again.
//! 5. [`Learners::learn`]: the reference's log-probabilities if there is a divergence, then optimizer steps (`minibatches` times
//!    `ppo_epochs`, by default one). The first compares its log-probabilities with those at sampling; a gap ends the run where
//!    both are computed exactly.
//! 6. [`Learners::refresh`]: the new weights, or the adapter, packed into the engine's memory; its prefix cache is dropped.
//! 7. [`Files::append`]: games and a line of metrics. Every [`OnlineSettings::save_updates`] updates the learner, the state of
//!    estimator, pool and items, and the lengths of the files are saved. A killed run continues from there with the same games.
//!
//! Published on-policy systems have parts that this loop leaves out:
//!
//! - asynchrony: play and learning alternate on the same device, so no game is played by older weights than the last step's, and
//!   neither half overlaps the other;
//! - separate generation workers, their weight transfer over a network, and placement of engine and learner on different devices;
//! - tensor, pipeline or context parallelism of the engine: each rank holds a whole engine, and a whole reference if there is one,
//!   while the learner may be sharded by ZeRO;
//! - a critic: baselines are means of rewards, so there is no value model and no generalized advantage estimation;
//! - a learned reward model, and partial rollouts: the referee decides, and a batch ends when its last game does.
//!
//! [`OnlineSettings::save_updates`]: crate::OnlineSettings::save_updates

mod divergence;
mod files;
mod information;
mod item_results;
mod learn;
mod learners;
mod memory;
mod opponents;
mod play;
mod player;
mod record;
mod reference;
mod schedule;
mod selection;
mod snapshots;
mod texts;
mod trajectories;

use std::ops::Range;
use std::time::Instant;

use spag_io::Progress;
use spag_model::checkpoint::load_config;
use spag_model::generate::Processor;
use spag_rewards::Estimator;
use spag_run::files::SECOND_SEAT;
use spag_run::{Model, PlayedGames, Provenance, StageDone};
use spag_train::loss::build_on_policy;
use spag_train::{OnlineJob, OnlineLearner, TrainConfig, latest_checkpoint};

use self::files::{Files, Saved};
use self::item_results::ItemResults;
use self::learners::Learners;
pub use self::memory::{OnlineMemory, OnlineParts};
use self::opponents::Opponents;
use self::play::Batch;
use self::player::Players;
use self::record::{OfUpdate, Seconds, UpdateRecord};
use self::schedule::Schedule;
use self::selection::Selection;
use self::texts::UpdateTexts;
use crate::config::{OnlineSettings, Policies, RunConfig, WordOrder};
use crate::error::{Error, Result};
use crate::run::context::{RunContext, StageProgress};
use crate::run::run_games;
use crate::run::stage::StageWork;
use crate::run::stage_folder::StageFolder;
use crate::seeds::stage_seed;

/// The stage of the updates after which the model of an epoch is measured.
pub(super) fn stage(config: &RunConfig, settings: &OnlineSettings, epoch: usize) -> StageWork {
    let model = Model::Spag(epoch);
    let before = model.before().unwrap_or(Model::Im);
    let part = Part { settings: settings.clone(), updates: settings.part(epoch), before };
    let stage = StageWork::making(model, Box::new(move |run, stage, progress| part.run(run, stage, progress)));
    let folder = StageFolder::new(config.run_dir.join(&stage.name), &stage.name);
    let games = config.run_games();
    let episodes = games.iter().map(|game| run_games::folder_in(game.folder.as_deref(), &folder).episodes());
    let outputs = episodes.chain([folder.metrics()]).chain(config.folders_of(model)).collect();
    StageWork { inputs: config.folders_of(before), outputs, parts: vec!["play", "learn", "refresh", "save"], ..stage }
}

/// What plays and learns.
struct Sides {
    players: Players,
    opponents: Opponents,
    learners: Learners,
    estimator: Box<dyn Estimator>,
    items: ItemResults,
    texts: UpdateTexts,
}

/// Consecutive updates of a run.
struct Part {
    settings: OnlineSettings,
    updates: Range<usize>,
    before: Model,
}

impl Part {
    fn run(&self, run: RunContext<'_>, stage: &StageFolder, progress: &mut dyn Progress) -> Result<StageDone> {
        let mut done = StageDone::default();
        let (memory, free) = self.memory(run)?;
        let mut learner = self.learner(run, stage, (&memory, None), &mut done)?;
        let engine = memory.engine(free.saturating_sub(learner.planned_memory()));
        let saved = self.saved(run, stage, learner.learner().position().step)?;
        let dtype = learner.job().config.dtype();
        let second = match self.settings.policies {
            Policies::One => None,
            Policies::Seats => {
                learners::remove_uncounted(run, stage, saved.as_ref())?;
                Some(self.learner(run, stage, (&memory, Some(&learner)), &mut done)?)
            }
        };
        let mut learners = Learners::new(run, &self.settings, (learner, second), saved.as_ref())?;
        let mut estimator = self.settings.estimator.build();
        if let Some(saved) = &saved {
            estimator.restore(saved.estimator.clone());
        }
        let begin = saved.as_ref().map_or(0, |saved| saved.updates).max(self.updates.start);
        let mut files = run.ranks.is_rank_0().then(|| Files::open(run, stage, saved.as_ref())).transpose()?;
        let seed = run.seed(stage, "play", &mut done);
        // Under an adapter the engine has the weights of the imitation, which stay as they are.
        let is_whole = run.config.train.config.lora_r.is_none();
        let plays = if self.settings.learns_from_itself() && is_whole { self.before } else { Model::Im };
        // Where an adapter is trained over quantised weights, games are played with quantised weights too.
        let checkpoint = run.load_in(&run.config.folder_of(plays), dtype, run.config.train.config.quantize)?;
        let mut players = Players::new(player::player(run, checkpoint, (engine, self.settings.sampling()))?);
        learners.refresh(&mut players, begin)?;
        let pool = saved.as_ref().map(|saved| saved.pool.clone());
        let opponents = Opponents::new(&self.settings, (dtype, engine), pool);
        let items = saved.as_ref().map(|saved| saved.items.clone()).unwrap_or_default();
        let texts = UpdateTexts::open(run, &self.settings)?;
        learners.open_references(run, begin)?;
        let mut sides = Sides { players, opponents, learners, estimator, items, texts };

        let progress = &mut StageProgress { stage: &stage.name, inner: progress };
        let count = |update: usize| (update - self.updates.start) as u64;
        progress.resume("updates", self.updates.len() as u64, count(begin));
        for update in begin..self.updates.end {
            let record = self.update(run, &mut sides, (update, seed), &mut files)?;
            sides.opponents.join(run, sides.learners.first(), update + 1)?;
            sides.learners.renew_references(run, update + 1)?;
            progress.advance(count(update + 1), &record.note());
            if let Some(reason) = record.broken_rule {
                return Err(Error::Stopped { stage: stage.name.clone(), reason, file: stage.episodes() });
            }
            let Seconds { play, learn, refresh } = record.seconds;
            for (part, seconds) in [("play", play), ("learn", learn), ("refresh", refresh)] {
                *done.seconds.entry(part.to_owned()).or_default() += seconds;
            }
            let next = update + 1;
            if next == self.updates.end || (next - self.updates.start).is_multiple_of(self.settings.save_updates) {
                done.timed("save", || sides.save(run, stage, next, files.as_ref()))?;
            }
        }
        progress.end();
        done.note_count("games", self.updates.len() * self.settings.games_per_update);
        done.note_count("updates", self.updates.len());
        sides.learners.write(run, stage)?;
        Ok(done)
    }

    /// One update: games, their advantages, a step of the learner, and its weights in the engine.
    fn update(
        &self,
        run: RunContext<'_>,
        sides: &mut Sides,
        (update, seed): (usize, u64),
        files: &mut Option<Files>,
    ) -> Result<UpdateRecord> {
        let mut seconds = Seconds::default();
        let mut timed = Instant::now();
        let mut lap = || std::mem::replace(&mut timed, Instant::now()).elapsed().as_secs_f64();
        let Sides { players, opponents, learners, estimator, items, texts } = sides;
        let (mut schedule, mut batch) = (Schedule::default(), Batch::default());
        let mut missing = self.settings.games_per_update / self.settings.group_size;
        let (mut all, mut selection) = Default::default();
        for number in 0..=self.settings.signal.resample {
            let added = schedule.add(run, &self.settings, (opponents, items), (update, number, missing), seed);
            batch.play(run, &self.settings, (players, opponents), (update, added))?;
            all = batch.of_all_ranks(run, &schedule)?;
            selection = Selection::new(&self.settings, &all);
            missing = selection.missing;
            if missing == 0 {
                break;
            }
        }
        seconds.play = lap();
        if self.settings.words == WordOrder::Balanced {
            schedule.count(items, &all);
        }
        let against = opponents.count(run.config, update, &all);
        all.retain(|(number, _)| selection.keeps(*number));
        let advantages = play::advantages(&self.settings, &mut **estimator, &all)?;
        let information = information::measure(&self.settings, players.first(), &batch.games)?;
        let mut learned = trajectories::of(players.first(), &batch.games, (&all, &advantages))?;
        let rows = texts.rows(advantages.count());
        let texts = texts.of_rank(run, rows, stage_seed(seed, &format!("update-{update}/texts")))?;
        let steps = learners.learn((&mut learned, &texts), (update, seed))?;
        seconds.learn = lap();
        learners.refresh(players, update + 1)?;
        seconds.refresh = lap();
        let step = steps.all.as_ref();
        let of_update = OfUpdate { update, step, against, selection: &selection, information, seconds };
        let mut record = UpdateRecord::new(run, batch, &learned.trajectories, of_update)?;
        record.line.extend(steps.of_seats);
        if let Some(files) = files {
            files.append(&record)?;
        }
        Ok(record)
    }

    /// What is beside the learner on this rank's device, and the free bytes of it before anything is loaded. Ranks on CPUs have equal
    /// parts of their machine's.
    fn memory(&self, run: RunContext<'_>) -> Result<(OnlineMemory, u64)> {
        let RunContext { config, ranks, .. } = run;
        let device = config.device.open(ranks.env.local_rank)?;
        let processor = Processor::of(device.device());
        let model = load_config(config.folder_of(self.before))?;
        let sharing = if processor == Processor::Cpu { ranks.env.local_size } else { 1 };
        let memory = OnlineMemory::new(config, &self.settings, &model, ranks.group.size(), processor);
        Ok((memory, device.memory()?.free / sharing as u64))
    }

    /// The learner, from its last checkpoint or the model before; that of the second seat, if the learner of the first is there.
    fn learner(
        &self,
        run: RunContext<'_>,
        stage: &StageFolder,
        (memory, first): (&OnlineMemory, Option<&OnlineLearner>),
        done: &mut StageDone,
    ) -> Result<OnlineLearner> {
        let RunContext { config, ranks, inputs, .. } = run;
        let seed = run.seed(stage, "train", done);
        let folder_in = |stage: StageFolder| if first.is_some() { stage.file(SECOND_SEAT) } else { stage.dir };
        // The adapters of both seats begin with other matrices.
        let own_seed = if first.is_some() { stage_seed(seed, SECOND_SEAT) } else { seed };
        let earlier = self.part_before(config).map(|part| latest_checkpoint(folder_in(part))).transpose()?.flatten();
        let games = inputs.games.iter().map(|game| PlayedGames::new(seed, &game.words.training)).collect();
        let job = OnlineJob {
            model: earlier.unwrap_or_else(|| config.folder_of(self.before)),
            base: config.folder_of(Model::Im),
            output_dir: folder_in(stage.clone()),
            config: TrainConfig { seed: own_seed, ..config.train.config.clone() },
            sharding: config.train.job.clone(),
            steps: self.settings.steps(),
            device: config.device,
            add_bos_token: config.add_bos_token,
            made_from: Provenance { wordings: vec![inputs.prompts.wordings().clone()], games },
            max_length: memory.max_length(),
            beside: memory.beside(),
        };
        let said = config.self_play.length.max_new_tokens;
        let longest = if inputs.thinks { config.completion_tokens(said, memory.positions()) } else { said };
        let loss = build_on_policy(&self.settings.policy_loss, longest);
        Ok(match first {
            None => OnlineLearner::open(job, &ranks.env, ranks.group.clone(), loss)?,
            Some(first) => first.open_beside(job, &ranks.env, loss)?,
        })
    }

    /// What was saved with the learner's step: by this part, or at the end of the one before.
    fn saved(&self, run: RunContext<'_>, stage: &StageFolder, step: usize) -> Result<Option<Saved>> {
        if let Some(saved) = Saved::read(stage, step)? {
            return Ok(Some(saved));
        }
        let saved = self.part_before(run.config).map(|part| Saved::read(&part, step)).transpose()?.flatten();
        Ok(saved.map(Saved::of_part_before))
    }

    /// The folder of the part of the run before this one.
    fn part_before(&self, config: &RunConfig) -> Option<StageFolder> {
        let name = self.before.stage();
        (self.updates.start > 0).then(|| StageFolder::new(config.run_dir.join(&name), &name))
    }
}

impl Sides {
    /// Saves what a resumed run goes on from. All ranks have to call it; `files` are those of rank 0.
    fn save(&mut self, run: RunContext<'_>, stage: &StageFolder, updates: usize, files: Option<&Files>) -> Result<()> {
        let Self { opponents, learners, estimator, items, .. } = self;
        learners.save(|steps| {
            let Some(files) = files else { return Ok(()) };
            let lengths = files.synced()?;
            let (estimator, pool, items) = (estimator.state(), opponents.state().clone(), items.clone());
            Saved { updates, second_step: steps.second, estimator, pool, items, lengths }.write(stage, steps.first)
        })?;
        if files.is_none() {
            return Ok(());
        }
        opponents.remove_left(run.config, updates)?;
        learners.remove_left(run.config, updates)
    }
}
