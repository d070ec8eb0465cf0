//! `spag eval --tasks games`: checkpoints compared with perfect play.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::json;
use spag_cli::{Error, ReasoningSettings, Result, TerminalProgress, adapter_args, exit};
use spag_eval::Evaluation;
use spag_game::NamedGame;
use spag_io::{Progress, ReasoningFormat, quote, read_json, write_json_atomically};
use spag_model::GenerationConfig;
use spag_model::checkpoint::load_config;
use spag_model::generate::Sampling;
use spag_selfplay::{GameMeter, MeterSize, MeterTable, ModelPlayer, checkpoint_fingerprint, text_table};

use super::EvalArgs;

/// What `--tasks` calls these measures.
pub(super) const NAME: &str = "games";
/// The games without `--game`.
const GAMES: [&str; 5] =
    ["kuhn-poker", "kuhn-poker bets_count=true", "tic-tac-toe", "connect-four rows=4 cols=4", "nim"];
/// The file of measures, of all models and of each.
const FILE: &str = "games.json";
/// Tokens of an answer in games against a perfect player.
const ANSWER_TOKENS: usize = 32;

/// What is known of a model, by the names of games with options.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Record {
    /// The fingerprint of the checkpoint.
    model: String,
    /// Everything else that the measures depend on.
    settings: String,
    games: BTreeMap<String, GameMeter>,
}

/// A checkpoint, and the folder of its adapter.
type Adapted<'a> = (&'a Path, Option<&'a Path>);

/// Measures the checkpoints in the games that are missing in their records.
pub(super) fn run(args: &EvalArgs, names: &[String], adapters: &[Option<&Path>], device_kind: &str) -> Result<()> {
    let games = open_games(args)?;
    let evaluation = Evaluation::open(&args.output_dir)?;
    evaluation.check_models(names.iter().map(String::as_str))?;
    let size = size(args.limit);
    let models = || args.model.iter().map(PathBuf::as_path).zip(adapters.iter().copied());
    let open = |(name, model): (&String, Adapted<'_>)| open_record(args, name, model, size, device_kind);
    // All records are opened first, so that a wrong one is found before the work.
    let mut records = names.iter().zip(models()).map(open).collect::<Result<Vec<_>>>()?;
    let mut progress = TerminalProgress::default();
    for ((path, record), (name, model)) in records.iter_mut().zip(names.iter().zip(models())) {
        let missing: Vec<&NamedGame> = games.iter().filter(|game| !record.games.contains_key(&game.name)).collect();
        if missing.is_empty() {
            progress.message(&format!("{}: done before", quote(name)));
            continue;
        }
        let mut player = open_player(args, model)?;
        progress.begin(&format!("{}: games", quote(name)), missing.len() as u64);
        for (done, NamedGame { name, game }) in missing.into_iter().enumerate() {
            let measure = GameMeter::of(&mut player, &**game, size)?.ok_or_else(|| without_meter(name))?;
            record.games.insert(name.clone(), measure);
            write_json_atomically(&*path, &*record)?;
            progress.advance(done as u64 + 1, name);
        }
        progress.end();
    }
    let of_game = |game: &NamedGame| {
        let measures = names.iter().zip(&records);
        measures.filter_map(|(name, (_, record))| Some((name.as_str(), record.games.get(&game.name)?))).collect()
    };
    let measures: Vec<(&str, Vec<(&str, &GameMeter)>)> =
        games.iter().map(|game| (game.name.as_str(), of_game(game))).collect();
    write(&args.output_dir, &measures)?;
    let mut text = String::new();
    for (game, measures) in measures {
        if let Some(MeterTable { title, columns, rows }) = MeterTable::of(measures) {
            text.push_str(&format!("{game}: {title}\n\n{}\n", text_table(columns, &rows)));
        }
    }
    exit::say(text.trim_end())
}

/// The measures by game and model.
fn write(folder: &Path, measures: &[(&str, Vec<(&str, &GameMeter)>)]) -> Result<()> {
    let by_game: BTreeMap<_, BTreeMap<_, _>> =
        measures.iter().map(|(game, measures)| (*game, measures.iter().copied().collect())).collect();
    Ok(write_json_atomically(folder.join(FILE), &json!({ "games": by_game }))?)
}

/// The games of the flags, or the default ones.
fn open_games(args: &EvalArgs) -> Result<Vec<NamedGame>> {
    let given: Vec<&str> = match args.game.is_empty() {
        true => GAMES.to_vec(),
        false => args.game.iter().map(String::as_str).collect(),
    };
    let mut games: Vec<NamedGame> = Vec::new();
    for text in given {
        let named = NamedGame::open(text, args.contexts())?;
        if !GameMeter::exists_for(&*named.game)? {
            return Err(without_meter(&named.name));
        }
        if games.iter().all(|known| known.name != named.name) {
            games.push(named);
        }
    }
    Ok(games)
}

/// The format of prompts.
fn without_meter(name: &str) -> Error {
    let problem =
        format!("{} is not solved; kuhn-poker, tic-tac-toe, nim, and connect-four with rows=4 cols=4 are", quote(name));
    Error::BadValue { flag: "--game".into(), problem }
}

fn size(limit: Option<usize>) -> MeterSize {
    let MeterSize { positions, games } = MeterSize::default();
    limit.map_or(MeterSize { positions, games }, |limit| MeterSize {
        positions: positions.min(limit),
        games: games.min(limit),
    })
}

/// The record of a model, which is empty at first.
fn open_record(
    args: &EvalArgs,
    name: &str,
    (model, adapter): Adapted<'_>,
    size: MeterSize,
    device_kind: &str,
) -> Result<(PathBuf, Record)> {
    let path = args.output_dir.join(name).join(FILE);
    let dtype = args.loading.number_format(model, adapter)?;
    let settings = format!(
        "{} positions, {} games, max_length={}, chat={}{}, bos={:?}, {dtype} on {device_kind}{}",
        size.positions,
        size.games,
        args.max_length.map_or("default".to_owned(), |length| length.to_string()),
        args.apply_chat_template,
        args.template.describe(),
        args.loading.bos_rule().flag(),
        adapter_args::recorded(adapter, model)?,
    );
    let now = Record { model: checkpoint_fingerprint(model)?, settings, games: BTreeMap::new() };
    let Some(known) = read_json::<Record>(&path)? else { return Ok((path, now)) };
    for (what, was, now) in [("model", &known.model, &now.model), ("setting", &known.settings, &now.settings)] {
        if was != now {
            let (was, now) = (was.clone(), now.clone());
            return Err(spag_eval::Error::Differs { path, what, was, now }.into());
        }
    }
    Ok((path, known))
}

fn open_player(args: &EvalArgs, (model, adapter): Adapted<'_>) -> Result<ModelPlayer> {
    let positions = load_config(model)?.architecture.max_position_embeddings;
    let max_length = args.max_length.unwrap_or(positions).min(positions);
    let checkpoint = args.loading.load_adapted(model, adapter)?;
    let engine = args.engine.for_model(&checkpoint.model, max_length, 1)?;
    let generation = GenerationConfig {
        max_new_tokens: ANSWER_TOKENS.min(max_length.div_ceil(2)),
        min_new_tokens: 1,
        sampling: Sampling::random(1.0, 0, None),
        ..GenerationConfig::default()
    };
    // The probabilities of actions are those after the prompt, without reasoning.
    let silent = ReasoningSettings { reasoning: Some(ReasoningFormat::None), ..ReasoningSettings::default() };
    Ok(ModelPlayer::load(checkpoint, generation, engine)?.with_reasoning(&args.template, &silent, args.contexts())?)
}
