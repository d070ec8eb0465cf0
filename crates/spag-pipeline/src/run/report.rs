//! The report of a run, computed from its files.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use spag_eval::{ComparedRun, Comparison, ModelScores};
use spag_game::{Episode, PerSeat, SEATS, Tally, Utterance, Verdict, read_games};
use spag_io::{read_json, write_atomically, write_json_atomically};
use spag_run::{Model, StageDone, files};
use spag_selfplay::arena::{self, ArenaSettings, ArenaTable, NamedPlayer};
use spag_selfplay::{GameStats, PlayerSpec};

use super::context::RunContext;
use super::folder::LockedRun;
use super::pairings::{Pairing, WordSet, epochs, pairings};
use super::rounds::{round_games, round_training, updates};
use super::run_games::OpenGame;
use super::stage_folder::StageFolder;
use crate::config::{ImitationSource, ImitationSources, RunConfig, SftShare};
use crate::error::{Error, Result};
use crate::play_stats::PlayStats;
use crate::report::{
    GameReport, HeldOut, ImitationPart, LossCurve, MatchReport, NamedPlay, Report, Round, SamplePair, ShownGame,
    ShownUtterance, StageSeconds, render_text, report_document,
};

/// Computes the report and writes it as `report.json`, `report.txt` and `report.html`, also if the run was finished
/// before. `stopped` is the reason of a run that stopped.
pub(super) fn write_report(
    run: RunContext<'_>,
    folder: &LockedRun,
    stages: &[StageDone],
    stopped: Option<String>,
) -> Result<Report> {
    let report = Report { stopped, ..build(run, folder, stages)? };
    write_json_atomically(folder.root.join(files::REPORT_DATA), &report)?;
    write_atomically(folder.root.join(files::REPORT_TEXT), render_text(&report))?;
    write_atomically(folder.root.join(files::REPORT_PAGE), report_document(&report).html())?;
    Ok(report)
}

struct ReportBuilder<'a> {
    run: RunContext<'a>,
    folder: &'a LockedRun,
    game: &'a OpenGame,
    /// The evaluation of the game.
    eval: StageFolder,
    /// The counts of the pairings whose games were judged, by file.
    counted: RefCell<BTreeMap<PathBuf, Tally>>,
}

/// What the stages say of the models that they train.
#[derive(Default)]
struct Trained {
    /// The games of each stage, named after their player.
    games: Vec<NamedPlay>,
    rounds: Vec<Round>,
    losses: Vec<LossCurve>,
}

/// The report of all games.
fn build(run: RunContext<'_>, folder: &LockedRun, stages: &[StageDone]) -> Result<Report> {
    let config = run.config;
    let eval = folder.stage(files::EVALUATION)?;
    let (mut reports, mut warnings, mut losses) = (Vec::new(), Vec::new(), Vec::new());
    for game in &run.inputs.games {
        let builder = ReportBuilder { run, folder, game, eval: game.folder_in(&eval), counted: RefCell::default() };
        let (report, curves) = builder.build()?;
        let found = report.rounds.iter().flat_map(|round| round.warnings(game.game.labels(), config.method));
        warnings.extend(found.map(|warning| game.title_of(warning)));
        reports.push(report);
        losses = curves;
    }
    // A training has the samples of all games.
    let mut reports = reports.into_iter();
    let Some(first) = reports.next() else {
        return Err(Error::BadSetting { setting: "games", message: "there is none".to_owned() });
    };
    let updates = match &config.online {
        Some(_) => {
            let games: Vec<_> = run.inputs.games.iter().map(|game| (game.folder(), game.game.labels())).collect();
            updates(&games, &folder.root.join(files::METRICS))?
        }
        None => Vec::new(),
    };
    let mut more_games: Vec<GameReport> = reports.collect();
    more_games.iter_mut().flat_map(|game| &mut game.rounds).for_each(|round| round.training = None);
    Ok(Report {
        run_dir: folder.root.display().to_string(),
        seed: config.seed,
        evaluation_seed: config.evaluation.seed,
        settings: settings(config),
        first,
        more_games,
        losses,
        updates,
        stages: stages.iter().filter(|stage| !stage.seconds.is_empty()).map(seconds).collect(),
        files: listed_files(run),
        stopped: None,
        warnings,
        benchmarks: benchmarks(run, folder)?,
        controls: controls(run, folder)?,
    })
}

impl ReportBuilder<'_> {
    /// The report of the game, and the losses of all trainings.
    fn build(&self) -> Result<(GameReport, Vec<LossCurve>)> {
        let (baseline, matches) = self.matches(WordSet::Trained)?;
        let held_out = match self.game.words.held_out.len() {
            0 => None,
            words => {
                let (baseline, matches) = self.matches(WordSet::HeldOut)?;
                Some(HeldOut { words, baseline, matches })
            }
        };
        let Trained { mut games, rounds, losses } = self.trained()?;
        games.extend(self.last_own_games()?);
        let rules = &self.game.rules;
        let report = GameReport {
            game: rules.reported_name(),
            folder: self.game.folder().map(str::to_owned),
            game_options: rules.game_options.clone().filter(|_| self.run.inputs.games.len() > 1),
            training_games: games,
            baseline,
            matches,
            samples: self.samples()?,
            rounds,
            imitation: self.imitation()?,
            held_out,
            ratings: self.ratings()?,
            exact: read_json(self.eval.file(files::EXACT))?.unwrap_or_default(),
        };
        Ok((report, losses))
    }

    /// IM against itself, and each epoch against IM in both seats.
    fn matches(&self, words: WordSet) -> Result<(PlayStats, Vec<MatchReport>)> {
        let games = |players| self.play(Pairing { players, words });
        if !self.run.made.contains(&Model::Im) {
            return Ok((self.stats(&self.count(&[]), &[]), Vec::new()));
        }
        let baseline = games([Model::Im, Model::Im])?;
        let mut matches = Vec::new();
        for epoch in self.epochs() {
            if let Model::Spag(number) = epoch {
                let both = [games([epoch, Model::Im])?, games([Model::Im, epoch])?];
                matches.push(MatchReport::new(self.game.game.labels(), number, both, &baseline));
            }
        }
        Ok((baseline, matches))
    }

    /// The evaluated epochs that have been made.
    fn epochs(&self) -> impl Iterator<Item = Model> {
        epochs(self.run.config, self.run.made)
    }

    /// The games of a file with their verdicts.
    fn judged(&self, file: &Path) -> Result<Vec<(Episode, Verdict)>> {
        Ok(read_games(file, &*self.game.game)?)
    }

    fn games(&self, pairing: Pairing) -> Result<Vec<(Episode, Verdict)>> {
        self.judged(&pairing.file(&self.eval))
    }

    /// The statistics of games with these counts.
    fn stats(&self, counts: &Tally, games: &[(Episode, Verdict)]) -> PlayStats {
        PlayStats::of(counts, games, self.run.inputs.lexicon.as_ref())
    }

    fn count(&self, games: &[(Episode, Verdict)]) -> Tally {
        let mut counts = Tally::new(self.game.game.labels());
        games.iter().for_each(|(episode, verdict)| counts.add_game(episode, verdict));
        counts
    }

    /// The statistics of a pairing.
    fn play(&self, pairing: Pairing) -> Result<PlayStats> {
        let games = self.games(pairing)?;
        let counts = self.count(&games);
        let stats = self.stats(&counts, &games);
        self.counted.borrow_mut().insert(pairing.file(&self.eval), counts);
        Ok(stats)
    }

    /// The counts of a pairing, whose games are only read if they were not counted before.
    fn counts(&self, pairing: Pairing) -> Result<Tally> {
        let known = self.counted.borrow().get(&pairing.file(&self.eval)).cloned();
        known.map_or_else(|| Ok(self.count(&self.games(pairing)?)), Ok)
    }

    /// What the stages that have games or samples say of the models that they train. The games of stage spag-1 were played
    /// by IM.
    fn trained(&self) -> Result<Trained> {
        let mut trained = Trained::default();
        for model in std::iter::once(Model::Im).chain((1..=self.run.config.epochs).map(Model::Spag)) {
            let (name, stage) = (model.name(), StageFolder::new(self.folder.root.join(model.stage()), &model.stage()));
            let episodes = self.game.folder_in(&stage).episodes();
            if !stage.samples().exists() && !episodes.exists() {
                continue;
            }
            let mut round = Round { name: name.clone(), games: None, training: None };
            if episodes.exists() {
                let games = self.judged(&episodes)?;
                let mut stats = GameStats::new(self.game.game.labels());
                games.iter().for_each(|(episode, verdict)| stats.add(episode, verdict));
                let play = self.stats(stats.counts(), &games);
                let player = model.before().map_or_else(|| self.imitated(), Model::name);
                trained.games.push(NamedPlay { name: player, play });
                round.games = Some(round_games(&stats));
            }
            if self.run.made.contains(&model) {
                let (training, points) = round_training(&stage.metrics())?;
                round.training = Some(training);
                trained.losses.push(LossCurve { name, points });
            }
            trained.rounds.push(round);
        }
        Ok(trained)
    }

    /// The games of the last model against itself, which no model was trained on.
    fn last_own_games(&self) -> Result<Option<NamedPlay>> {
        let last = Model::Spag(self.run.config.epochs);
        let own = Pairing::trained([last, last]);
        if pairings(self.run.config, self.run.made).iter().all(|(pairing, _)| *pairing != own) {
            return Ok(None);
        }
        Ok(Some(NamedPlay { name: last.name(), play: self.play(own)? }))
    }

    /// The name of the imitated players.
    fn imitated(&self) -> String {
        let settings = &self.run.config.imitation;
        let name = |source: ImitationSource| match (source, &settings.file, &settings.player) {
            (ImitationSource::Games, Some(file), _) => file.display().to_string(),
            (ImitationSource::Endpoint, _, Some(player)) => player.clone(),
            (ImitationSource::SelfPlay, ..) => Model::Base.name(),
            (source, ..) => source.name().to_owned(),
        };
        let names: Vec<String> = settings.source.parts().into_iter().map(|(source, _)| name(source)).collect();
        names.join(" + ")
    }

    /// Ratings of all models, if the epochs played each other.
    fn ratings(&self) -> Result<Option<ArenaTable>> {
        let config = self.run.config;
        if config.evaluation.arena_games == 0 || !self.run.made.contains(&Model::Im) {
            return Ok(None);
        }
        let models: Vec<Model> = std::iter::once(Model::Im).chain(self.epochs()).collect();
        let player =
            |model: &Model| NamedPlayer { name: model.name(), player: PlayerSpec::Model(config.folder_of(*model)) };
        let players: Vec<NamedPlayer> = models.iter().map(player).collect();
        let index = |model| models.iter().position(|other| *other == model);
        let mut results = Vec::new();
        for (pairing, _) in pairings(config, self.run.made) {
            if let (WordSet::Trained, [Some(first), Some(second)]) = (pairing.words, pairing.players.map(index))
                && first != second
            {
                results.push((arena::Pairing([first, second]), self.counts(pairing)?));
            }
        }
        let settings = ArenaSettings {
            games: self.game.part_of(config, config.evaluation.arena_games),
            max_turns: self.game.rules.turns(config.max_turns),
            seed: config.evaluation.seed,
            rules: self.game.rules.clone(),
            sampling: format!("temperature={}", config.evaluation.sampling.temperature),
            anchor: Some(Model::Im.name()),
        };
        Ok(Some(ArenaTable::new(settings, &players, &results)?))
    }

    /// What each source of the imitation gave; empty if the stage has not come so far, or is of an older run.
    fn imitation(&self) -> Result<Vec<ImitationPart>> {
        let stage = StageFolder::new(self.folder.root.join(Model::Im.stage()), &Model::Im.stage());
        Ok(read_json(self.game.folder_in(&stage).file(files::SOURCES))?.unwrap_or_default())
    }

    /// Games on the same words of IM and of the last evaluated model, which alternates between the seats. The words are
    /// evenly spaced over the list.
    fn samples(&self) -> Result<Vec<SamplePair>> {
        let Some(last) = self.epochs().last() else { return Ok(Vec::new()) };
        let games = |players| self.games(Pairing::trained(players));
        let before = games([Model::Im, Model::Im])?;
        let seats = [[last, Model::Im], [Model::Im, last]];
        let after = [games(seats[0])?, games(seats[1])?];
        let wanted = self.run.config.evaluation.sample_games.min(before.len());
        let mut samples = Vec::with_capacity(wanted);
        for i in 0..wanted {
            let game = i * before.len() / wanted;
            let (players, games) = (seats[i % 2], &after[i % 2]);
            if let (Some(old), Some(new)) = (before.get(game), games.get(game)) {
                samples.push(SamplePair {
                    item: old.0.item.clone(),
                    before: self.shown(old, [Model::Im, Model::Im]),
                    after: self.shown(new, players),
                });
            }
        }
        Ok(samples)
    }

    fn shown(&self, (episode, verdict): &(Episode, Verdict), players: [Model; SEATS]) -> ShownGame {
        let said = episode.history.iter().take(verdict.history_length);
        ShownGame {
            players: PerSeat::new(self.game.game.labels(), players.map(Model::name)),
            utterances: said.map(|utterance| self.shown_utterance(utterance, &episode.item)).collect(),
            ending: verdict.ending.description.to_owned(),
        }
    }

    fn shown_utterance(&self, utterance: &Utterance, item: &str) -> ShownUtterance {
        let untrue = match (utterance.seat.index(), &self.run.inputs.lexicon) {
            // The first seat gives clues.
            (0, Some(lexicon)) => {
                let clues = lexicon.clues_in(&utterance.content).into_iter();
                clues.filter(|clue| !lexicon.clue_is_true(item, clue)).map(str::to_owned).collect()
            }
            // The second may mention any property in a question.
            _ => Vec::new(),
        };
        ShownUtterance { seat: utterance.seat, content: utterance.content.clone(), untrue }
    }
}

/// The files of a run.
fn listed_files(run: RunContext<'_>) -> Vec<(String, String)> {
    let owned = |path: &str, what: &str| (path.to_owned(), what.to_owned());
    let mut listed = vec![
        owned(files::REPORT_PAGE, "this report as a page, with charts"),
        owned(files::REPORT_DATA, "the same as data"),
    ];
    for model in run.made.iter().copied().filter(|model| *model != Model::Base) {
        if run.config.imitation.source.is_none() && model == Model::Im {
            continue;
        }
        let what = match model {
            Model::Spag(_) => "games of the model before against itself, samples.jsonl, metrics.jsonl",
            _ if run.config.imitation.source == ImitationSources::One(ImitationSource::Scripted) => {
                "games of the scripted players (episodes.jsonl), samples.jsonl, metrics.jsonl"
            }
            _ => "games of the imitated players (episodes.jsonl), samples.jsonl, metrics.jsonl",
        };
        listed.push((format!("{}/model", model.stage()), format!("{}, a Hugging Face folder", model.name())));
        listed.push((model.stage(), what.to_owned()));
    }
    for game in &run.inputs.games {
        let seats = game.game.labels().seats.map(|seat| seat.name().to_uppercase().replace(' ', "_"));
        let eval = game.folder_in(&StageFolder::new(files::EVALUATION.into(), files::EVALUATION)).dir;
        let what = format!("games of the evaluation: {}.jsonl", seats.join("-vs-"));
        listed.push((eval.display().to_string(), what));
    }
    if run.config.benchmarks.is_some() {
        listed.push(owned(files::BENCHMARKS, "answers of each model to the benchmarks, and their scores"));
    }
    if run.config.run_dir.join(files::CONTROLS).exists() {
        listed.push(owned(files::CONTROLS, "the control arms, runs of their own"));
    }
    if run.config.online.is_some() {
        listed.push(owned(files::METRICS, "a line of measures for each update"));
    }
    if run.inputs.words().is_some_and(|words| !words.held_out.is_empty()) {
        listed.push(owned(files::HELD_OUT_WORDS, "the words that no training game was played on"));
    }
    listed.push(owned(files::SETTINGS, "every setting of the run"));
    listed
}

/// The scores of the stage of benchmarks.
fn benchmarks(run: RunContext<'_>, folder: &LockedRun) -> Result<Vec<ModelScores>> {
    match &run.config.benchmarks {
        Some(_) => Ok(read_json(folder.root.join(files::BENCHMARKS).join(files::SCORES))?.unwrap_or_default()),
        None => Ok(Vec::new()),
    }
}

/// The last model against the control arms in the benchmarks.
fn controls(run: RunContext<'_>, folder: &LockedRun) -> Result<Option<Comparison>> {
    let path = folder.root.join(files::BENCHMARKS).join(files::COMPARED);
    let compared: Option<ComparedRun> = run.config.benchmarks.as_ref().map(|_| read_json(path)).transpose()?.flatten();
    Ok(compared.and_then(|run| Comparison::new(&[run])))
}

/// The main settings of the resolved configuration by name.
fn settings(config: &RunConfig) -> Vec<(String, String)> {
    let share = match config.sft.share {
        SftShare::PerSample(share) => share.to_string(),
        SftShare::All(_) => "whole".to_owned(),
    };
    let per_word = |games: Option<usize>| games.map_or("one on each word".to_owned(), |games| games.to_string());
    let of_all = if config.run_games().len() > 1 { ", of all games together" } else { "" };
    let rows = [
        ("imitation.source", config.imitation.source.describe()),
        ("imitation.games", per_word(config.imitation.games)),
        ("imitation.train.learning_rate", config.imitation.train.learning_rate.to_string()),
        ("self_play.games", per_word(config.self_play.games)),
        ("self_play.temperature", config.self_play.sampling.temperature.to_string()),
        ("rewards.decay_weight", config.rewards.decay_weight.to_string()),
        ("rewards.reward_norm", config.rewards.reward_norm.to_string()),
        ("sft.share", share),
        ("train.learning_rate", config.train.learning_rate.to_string()),
        ("train.lm_kl_coeff", config.train.lm_kl_coeff.to_string()),
        ("train.lm_sft_coeff", config.train.lm_sft_coeff.to_string()),
        ("train.clip_range", config.train.clip_range.to_string()),
        ("evaluation.games", format!("{} per seat{of_all}", config.evaluation.games)),
        ("evaluation.temperature", config.evaluation.sampling.temperature.to_string()),
        ("words.holdout", config.words.holdout.to_string()),
    ];
    rows.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn seconds(stage: &StageDone) -> StageSeconds {
    StageSeconds { stage: stage.stage.clone(), parts: stage.seconds.clone(), resumed: stage.resumed }
}
