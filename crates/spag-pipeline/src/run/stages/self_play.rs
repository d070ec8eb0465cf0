//! A round of self-play: the model before plays against itself and is trained on the winners' utterances.

use std::path::PathBuf;

use spag_game::read_episodes;
use spag_io::Progress;
use spag_rewards::{CreditConfig, Sample, assign_rewards, write_samples};
use spag_run::{Model, StageDone};
use spag_selfplay::PlayerPair;

use crate::config::{RewardSettings, RunConfig};
use crate::error::Result;
use crate::run::context::{RunContext, StageProgress};
use crate::run::endpoints::served;
use crate::run::games::GameSet;
use crate::run::run_games;
use crate::run::stage::StageWork;
use crate::run::stage_folder::StageFolder;
use crate::run::stop::stop_if_asked;
use crate::run::training::{sft_samples, train, write_provenance};

pub(super) fn stage(config: &RunConfig, epoch: usize) -> StageWork {
    let model = Model::Spag(epoch);
    let before = model.before().unwrap_or(Model::Im);
    let stage = StageWork::making(model, Box::new(move |run, stage, progress| round(run, before, stage, progress)));
    let folder = StageFolder::new(config.run_dir.join(&stage.name), &stage.name);
    let mut inputs = vec![config.folder_of(before)];
    inputs.extend(config.sft.file.clone());
    let mut outputs: Vec<PathBuf> = config
        .run_games()
        .iter()
        .map(|game| run_games::folder_in(game.folder.as_deref(), &folder).episodes())
        .collect();
    outputs.extend([folder.samples(), config.folder_of(model)]);
    StageWork { inputs, outputs, parts: vec!["play", "credit", "train"], ..stage }
}

fn round(run: RunContext<'_>, current: Model, stage: &StageFolder, progress: &mut dyn Progress) -> Result<StageDone> {
    let mut done = StageDone::default();
    let settings = &run.config.self_play;
    let mut players: Option<PlayerPair> = None;
    for game in &run.inputs.games {
        let own = game.folder_in(stage);
        run.ranks.on_rank_0(|| own.create())?;
        let games =
            GameSet::of_stage(run, game, &own, (&game.part("play"), settings.games), current.stage(), &mut done);
        let played = games.complete(run, &mut done, |games| {
            let players = match &mut players {
                Some(players) => players,
                none => none.insert(PlayerPair::self_play(match &settings.player {
                    Some(player) => served(run, player, current, progress)?,
                    None => run.player(current, settings.sampling.sampling())?,
                })),
            };
            games.play_pair(players, &mut StageProgress { stage: &game.title(&stage.name), inner: &mut *progress })
        })?;
        stop_if_asked(run, &own, played.as_deref())?;
    }
    // Their memory is needed for training.
    drop(players);
    let (wordings, sft) = (run.seed(stage, "wordings", &mut done), run.seed(stage, "sft", &mut done));
    done.timed("credit", || {
        run.ranks.on_rank_0(|| {
            write_samples(stage.samples(), &samples(run, stage, wordings, sft)?)?;
            let folders: Vec<StageFolder> = run.inputs.games.iter().map(|game| game.folder_in(stage)).collect();
            write_provenance(run, &folders, stage)
        })
    })?;
    train(run, &run.config.train, current, stage, &mut done, progress)?;
    Ok(done)
}

/// The utterances of each game that `[rewards]` chooses, with rewards and with the weights of their seats in it, followed by SFT samples.
fn samples(run: RunContext<'_>, stage: &StageFolder, wordings: u64, sft: u64) -> Result<Vec<Sample>> {
    let RunContext { config, inputs, .. } = run;
    let RewardSettings { decay_weight, reward_norm: norm, credit } = config.rewards;
    let reasoning = config.sample_reasoning();
    let rule = CreditConfig { decay_weight, norm, credit, seed: wordings, reasoning };
    let mut samples = Vec::new();
    for game in &inputs.games {
        let episodes = read_episodes(game.folder_in(stage).episodes())?;
        samples.extend(assign_rewards(&episodes, &*game.game, &rule)?.samples);
    }
    // Without a won game there is nothing to learn from, and SFT texts alone are no round.
    if !samples.is_empty() {
        samples.extend(sft_samples(run, samples.len(), sft)?);
    }
    Ok(samples)
}
