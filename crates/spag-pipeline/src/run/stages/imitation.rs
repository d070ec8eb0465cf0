//! Imitation: the base model is trained on the winners' utterances in games of strong players.

use std::path::Path;

use spag_game::{Episode, Seats, read_episodes};
use spag_io::{Progress, Provenance, write_jsonl_atomically};
use spag_rewards::{Sample, convert_imitation, read_samples, write_samples};
use spag_selfplay::{EndpointConfig, EndpointStats, PlayerPair};
use spag_world::{ScriptedAttacker, ScriptedDefender};

use super::stage_games;
use crate::config::{ImitationSource, RunConfig};
use crate::error::{Error, Result};
use crate::run::context::{RunContext, StageProgress};
use crate::run::endpoints::{cost, open_endpoint, parse_endpoint};
use crate::run::folder::{StageDone, StageFolder};
use crate::run::models::Model;
use crate::run::stage::Stage;
use crate::run::training::{train, write_provenance};

pub(super) fn stage(config: &RunConfig) -> Stage {
    let model = Model::Im;
    let stage = Stage::making(model, Box::new(imitation));
    let folder = StageFolder::new(config.run_dir.join(&stage.name), &stage.name);
    let mut inputs = vec![Model::Base.folder(config)];
    inputs.extend(config.imitation.file.clone());
    let mut outputs = vec![folder.samples(), model.folder(config)];
    if config.imitation.source != ImitationSource::Samples {
        outputs.insert(0, folder.episodes());
    }
    let parts = if config.imitation.source.plays() { vec!["play", "credit", "train"] } else { vec!["credit", "train"] };
    Stage { inputs, outputs, parts, ..stage }
}

fn imitation(run: RunContext<'_>, stage: &StageFolder, progress: &mut dyn Progress) -> Result<StageDone> {
    let mut done = StageDone::default();
    let settings = &run.config.imitation;
    match (settings.source, &settings.file, &settings.player) {
        (ImitationSource::Scripted, ..) => play_scripted(run, stage, &mut done, progress)?,
        (ImitationSource::Endpoint, _, Some(player)) => play_endpoint(run, stage, player, &mut done, progress)?,
        (ImitationSource::Games, Some(file), _) => {
            done.timed("credit", || run.ranks.on_rank_0(|| take_games(run, stage, file, progress)))?;
        }
        (ImitationSource::Samples, Some(file), _) => {
            done.timed("credit", || run.ranks.on_rank_0(|| take_samples(run, stage, file, progress)))?;
        }
        // Refused when the configuration was read.
        (source, ..) => {
            let message = format!("the source \"{}\" is incomplete", source.name());
            return Err(Error::BadSetting { setting: "imitation.source", message });
        }
    }
    let seed = run.seed(stage, "wordings", &mut done);
    done.timed("credit", || {
        run.ranks.on_rank_0(|| {
            if settings.source != ImitationSource::Samples {
                let (prompts, judge) = (&run.inputs.prompts, run.config.judge);
                convert_imitation(stage.episodes(), stage.samples(), prompts, judge, seed)?;
                write_provenance(run, stage)?;
            }
            Ok(())
        })
    })?;
    train(run, &settings.train, Model::Base, stage, &mut done, progress)?;
    Ok(done)
}

fn play_scripted(
    run: RunContext<'_>,
    stage: &StageFolder,
    done: &mut StageDone,
    progress: &mut dyn Progress,
) -> Result<()> {
    let lexicon = run.inputs.lexicon()?;
    stage_games(run, stage, run.config.imitation.games, "scripted".to_owned(), done).complete(run, done, |games| {
        let mut attacker = ScriptedAttacker::new(lexicon);
        let mut defender = ScriptedDefender::new(lexicon);
        let seats = Seats::Versus { attacker: &mut attacker, defender: &mut defender };
        games.play(seats, &mut StageProgress { stage: &stage.name, inner: &mut *progress })
    })
}

/// A model behind an endpoint plays both seats. Its tokens are counted since the last start.
fn play_endpoint(
    run: RunContext<'_>,
    stage: &StageFolder,
    player: &str,
    done: &mut StageDone,
    progress: &mut dyn Progress,
) -> Result<()> {
    let settings = &run.config.imitation;
    let endpoint = parse_endpoint("imitation.player", player)?;
    let players = format!("{}; temperature={}", endpoint.address(), settings.temperature);
    let mut spent = EndpointStats::default();
    stage_games(run, stage, settings.games, players, done).complete(run, done, |games| {
        let config = EndpointConfig {
            max_tokens: settings.max_new_tokens,
            temperature: settings.temperature,
            top_p: settings.top_p,
            ..EndpointConfig::default()
        };
        let mut players = PlayerPair::self_play(open_endpoint(endpoint, config)?);
        let played = games.play_pair(&mut players, &mut StageProgress { stage: &stage.name, inner: &mut *progress });
        spent = cost(&players);
        progress.message(&format!(
            "{}: {} requests since the last start, {} prompt tokens, {} completion tokens",
            stage.name, spent.requests, spent.prompt_tokens, spent.completion_tokens
        ));
        played
    })?;
    for (what, count) in [
        ("requests", spent.requests),
        ("prompt_tokens", spent.prompt_tokens),
        ("completion_tokens", spent.completion_tokens),
    ] {
        done.counts.insert(what.to_owned(), count);
    }
    Ok(())
}

/// Copies the games of a file, except those on words that are held out.
fn take_games(run: RunContext<'_>, stage: &StageFolder, file: &Path, progress: &mut dyn Progress) -> Result<()> {
    let all = read_episodes(file)?;
    let count = all.len();
    let games: Vec<Episode> = all.into_iter().filter(|game| !run.inputs.words.is_held_out(&game.target_word)).collect();
    if games.len() < count {
        let left_out = count - games.len();
        progress.message(&format!("{}: {left_out} of {count} games are on words that are held out", stage.name));
    }
    write_jsonl_atomically(stage.episodes(), &games)?;
    let played = Provenance::read_of(file)?.unwrap_or_default();
    Ok(Provenance { wordings: played.wordings, games: played.games }.write_of(stage.episodes())?)
}

/// Copies the samples of a file, except those of games on words that are held out as far as the key `target_word` tells.
fn take_samples(run: RunContext<'_>, stage: &StageFolder, file: &Path, progress: &mut dyn Progress) -> Result<()> {
    let words = &run.inputs.words;
    let mut samples = read_samples(file)?;
    if !words.held_out.is_empty() {
        let word = |sample: &Sample| sample.extra.get("target_word").and_then(|word| word.as_str()).map(str::to_owned);
        let unknown = samples.iter().filter(|sample| word(sample).is_none()).count();
        if unknown > 0 {
            progress.message(&format!(
                "{}: {unknown} samples of {} have no target_word and may be of games on words that are held out; the \
                 source \"games\" leaves those out",
                stage.name,
                file.display()
            ));
        }
        samples.retain(|sample| word(sample).is_none_or(|word| !words.is_held_out(&word)));
    }
    write_samples(stage.samples(), &samples)?;
    match Provenance::read_of(file)? {
        Some(made) => Ok(made.write_of(stage.samples())?),
        None => Ok(()),
    }
}
