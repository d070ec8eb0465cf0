//! Evaluation: the trained models against the imitation model and each other, on words of the training and others. If an on-policy run
//! has a policy for each seat, each plays its own; exact measures, which are of one model in both seats, are those of the first.

use std::fs;
use std::path::Path;

use spag_io::{Progress, write_json_atomically};
use spag_run::{Model, StageDone, files};
use spag_selfplay::{AnyPlayer, GameMeter, MeterSize, PlayerPair};

use crate::config::RunConfig;
use crate::error::{Error, Result};
use crate::report::ExactPlay;
use crate::run::context::{RunContext, StageProgress};
use crate::run::games::{GameSet, Note};
use crate::run::pairings::{Pairing, WordSet, epochs, pairings};
use crate::run::run_games;
use crate::run::stage::{StageKind, StageWork};
use crate::run::stage_folder::StageFolder;
use crate::seeds::stage_seed;

pub(super) fn stage(config: &RunConfig) -> StageWork {
    let stage = StageWork::measuring(files::EVALUATION, StageKind::Evaluate, Box::new(evaluate));
    let folder = StageFolder::new(config.run_dir.join(files::EVALUATION), files::EVALUATION);
    let made: Vec<Model> = config.models().collect();
    let pairings = pairings(config, &made);
    let mut inputs: Vec<_> = made
        .iter()
        .filter(|model| pairings.iter().any(|(pairing, _)| pairing.players.contains(model)))
        .flat_map(|model| config.folders_of(*model))
        .collect();
    inputs.dedup();
    let games = config.run_games();
    let file = |(pairing, _): &(Pairing, usize)| {
        let games = games.iter().filter(|game| pairing.words == WordSet::Trained || game.rules.has_items());
        games.map(|game| pairing.file(&run_games::folder_in(game.folder.as_deref(), &folder))).collect::<Vec<_>>()
    };
    let outputs = pairings.iter().flat_map(file).collect();
    StageWork { inputs, outputs, parts: vec!["play"], ..stage }
}

/// Plays the missing games of every pairing.
fn evaluate(run: RunContext<'_>, eval: &StageFolder, progress: &mut dyn Progress) -> Result<StageDone> {
    let mut done = StageDone::default();
    let mut total = 0;
    for (pairing, count) in pairings(run.config, run.made) {
        let mut players: Option<PlayerPair> = None;
        for game in &run.inputs.games {
            let (words, held_out) = match pairing.words {
                WordSet::Trained => (&game.words.training, ""),
                WordSet::HeldOut => (&game.words.held_out, ", words held out"),
            };
            if words.is_empty() {
                continue;
            }
            let (own, name) = (game.folder_in(eval), game.part(&pairing.name()));
            let seed = stage_seed(run.config.evaluation.seed, &name);
            done.note_seed(&name, seed);
            let folder = pairing.words.folder(&own);
            run.ranks.on_rank_0(|| fs::create_dir_all(&folder).map_err(Error::io("create it", &folder)))?;
            let count = game.part_of(run.config, count);
            let path = pairing.file(&own);
            let set = GameSet { game, path, words, count, seed, players: pairing.name(), note: Note::Wins };
            set.complete(run, &mut done, |games| {
                let stage = game.title("eval");
                let stage = format!("{stage}: {}{held_out}", pairing.players.map(Model::name).join(" – "));
                let mut progress = StageProgress { stage: &stage, inner: &mut *progress };
                let players = match &mut players {
                    Some(players) => players,
                    none => none.insert(pair(run, pairing)?),
                };
                games.play_pair(players, &mut progress)
            })?;
            total += count;
        }
    }
    done.note_count("games", total);
    done.timed("exact", || run.ranks.on_rank_0(|| measure(run, eval)))?;
    Ok(done)
}

/// The players of a pairing, each with its model of the seat that it has.
fn pair(run: RunContext<'_>, pairing: Pairing) -> Result<PlayerPair> {
    let player = |folder: &Path| run.player_in(folder, run.config.evaluation.sampling.sampling());
    let [first, second] = pairing.players;
    let (first, second) = (run.config.folder_for(first, 0), run.config.folder_for(second, 1));
    let one = player(&first)?;
    Ok(if first == second { PlayerPair::self_play(one) } else { PlayerPair::versus(one, player(&second)?) })
}

/// Measures IM and the evaluated epochs against perfect play, in games that have such a measure.
fn measure(run: RunContext<'_>, eval: &StageFolder) -> Result<()> {
    for open in &run.inputs.games {
        let game = &*open.game;
        if !GameMeter::exists_for(game)? {
            continue;
        }
        let mut measured: Vec<ExactPlay> = Vec::new();
        let models = run.made.contains(&Model::Im).then_some(Model::Im).into_iter().chain(epochs(run.config, run.made));
        for model in models {
            if let AnyPlayer::Model { mut player, .. } = run.player(model, run.config.evaluation.sampling.sampling())? {
                let measure = GameMeter::of(&mut player, game, MeterSize::default())?;
                measured.extend(measure.map(|measure| ExactPlay { model: model.name(), measure }));
            }
        }
        write_json_atomically(open.folder_in(eval).file(files::EXACT), &measured)?;
    }
    Ok(())
}
