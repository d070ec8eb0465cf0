//! Imitation: the base model is trained on the winners' utterances in games of other players, or of its own.

mod files;
mod mix;
mod played;
mod source;

use std::path::PathBuf;

use spag_io::{Progress, write_json_atomically};
use spag_rewards::{convert_imitation, read_samples, write_samples};
use spag_run::{Model, Provenance, StageDone};

use crate::config::{ImitationSource, RunConfig};
use crate::error::{Error, Result};
use crate::report::ImitationPart;
use crate::run::context::RunContext;
use crate::run::run_games::{self, OpenGame};
use crate::run::stage::StageWork;
use crate::run::stage_folder::StageFolder;
use crate::run::training::{train, write_provenance};
use source::{Source, sources};

pub(super) fn stage(config: &RunConfig) -> StageWork {
    let model = Model::Im;
    let stage = StageWork::making(model, Box::new(imitation));
    let folder = StageFolder::new(config.run_dir.join(&stage.name), &stage.name);
    let mut inputs = vec![config.folder_of(Model::Base)];
    inputs.extend(config.imitation.file.clone());
    let source = &config.imitation.source;
    let mut outputs: Vec<PathBuf> = Vec::new();
    if source.any(ImitationSource::has_games) {
        let games = config.run_games();
        outputs.extend(games.iter().map(|game| run_games::folder_in(game.folder.as_deref(), &folder).episodes()));
    }
    outputs.extend([folder.samples(), config.folder_of(model)]);
    let parts =
        if source.any(ImitationSource::plays) { vec!["play", "credit", "train"] } else { vec!["credit", "train"] };
    StageWork { inputs, outputs, parts, ..stage }
}

fn imitation(run: RunContext<'_>, stage: &StageFolder, progress: &mut dyn Progress) -> Result<StageDone> {
    let mut done = StageDone::default();
    let mut folders = Vec::new();
    for game in &run.inputs.games {
        let own = game.folder_in(stage);
        imitate(run, game, &own, &mut done, progress)?;
        folders.push(own);
    }
    if folders.len() > 1 {
        done.timed("credit", || run.ranks.on_rank_0(|| join_samples(&folders, stage)))?;
    }
    train(run, &run.config.imitation.train, Model::Base, stage, &mut done, progress)?;
    Ok(done)
}

/// Makes the samples of a game from all sources.
fn imitate(
    run: RunContext<'_>,
    game: &OpenGame,
    own: &StageFolder,
    done: &mut StageDone,
    progress: &mut dyn Progress,
) -> Result<()> {
    let sources = sources(run.config, game, own);
    let mut parts = Vec::new();
    for (source, _) in &sources {
        run.ranks.on_rank_0(|| source.folder.create())?;
        parts.push(make_samples(run, source, done, progress)?);
    }
    if sources.len() > 1 {
        mix::mix(run, game, own, &sources, &mut parts, done)?;
    }
    run.ranks.on_rank_0(|| Ok(write_json_atomically(own.file(spag_run::files::SOURCES), &parts)?))
}

/// Writes the samples of all games, one game after the other, into the file of the stage.
fn join_samples(games: &[StageFolder], stage: &StageFolder) -> Result<()> {
    let (mut samples, mut made) = (Vec::new(), Provenance::default());
    for game in games {
        samples.extend(read_samples(game.samples())?);
        made.extend(Provenance::read_of(game.samples())?.unwrap_or_default());
    }
    write_samples(stage.samples(), &samples)?;
    Ok(made.write_of(stage.samples())?)
}

/// Makes the samples of a source, and its games if it has any. What they are is known to rank 0 alone.
fn make_samples(
    run: RunContext<'_>,
    source: &Source<'_>,
    done: &mut StageDone,
    progress: &mut dyn Progress,
) -> Result<ImitationPart> {
    let settings = &run.config.imitation;
    match (source.kind, &settings.file, &settings.player) {
        (ImitationSource::Scripted, ..) => played::scripted(run, source, done, progress)?,
        (ImitationSource::Random, ..) => played::random(run, source, done, progress)?,
        (ImitationSource::SelfPlay, ..) => played::base_model(run, source, done, progress)?,
        (ImitationSource::Endpoint, _, Some(player)) => played::endpoint(run, source, player, done, progress)?,
        (ImitationSource::Games, Some(file), _) => {
            done.timed("credit", || run.ranks.on_rank_0(|| files::take_games(run, source, file, progress)))?;
        }
        (ImitationSource::Samples, Some(file), _) => {
            done.timed("credit", || run.ranks.on_rank_0(|| files::take_samples(source, file, progress)))?;
        }
        // Refused when the configuration was read.
        (kind, ..) => {
            let message = format!("the source \"{}\" is incomplete", kind.name());
            return Err(Error::BadSetting { setting: "imitation.source", message });
        }
    }
    let mut part = ImitationPart { source: source.kind.name().to_owned(), ..ImitationPart::default() };
    let seed = run.seed(&source.folder, &source.part("wordings"), done);
    done.timed("credit", || {
        run.ranks.on_rank_0(|| {
            let folder = &source.folder;
            if source.kind.has_games() {
                let summary = convert_imitation(
                    folder.episodes(),
                    folder.samples(),
                    &*source.game.game,
                    (seed, &run.config.sample_reasoning()),
                )?;
                write_provenance(run, std::slice::from_ref(folder), folder)?;
                (part.games, part.won, part.samples) = (summary.episodes(), summary.decided(), summary.samples());
            } else {
                part.samples = read_samples(folder.samples())?.len();
            }
            part.used = part.samples;
            Ok(())
        })
    })?;
    Ok(part)
}
