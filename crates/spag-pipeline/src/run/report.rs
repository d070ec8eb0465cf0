//! The report of a run, computed from its files.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use spag_eval::ModelScores;
use spag_game::{Episode, PerSeat, SEATS, Tally, Utterance, Verdict, read_games};
use spag_io::{read_json, write_atomically, write_json_atomically};
use spag_selfplay::arena::{self, ArenaSettings, ArenaTable, NamedPlayer};
use spag_selfplay::{GameStats, PlayerSpec};

use super::context::RunContext;
use super::folder::{RunFolder, StageDone, StageFolder};
use super::models::Model;
use super::pairings::{Pairing, WordSet, epochs, pairings};
use super::rounds::{round_games, round_training};
use super::stages::{BENCHMARKS, EVALUATION, EXACT, SCORES, SOURCES};
use crate::config::{ImitationSource, ImitationSources, RunConfig, SftShare};
use crate::error::Result;
use crate::play_stats::PlayStats;
use crate::report::{
    HeldOut, ImitationPart, LossCurve, Match, NamedPlay, Report, Round, SamplePair, ShownGame, ShownUtterance,
    StageSeconds, render_html, render_text,
};

/// Computes the report and writes it as `report.json`, `report.txt` and `report.html`, also if the run was finished
/// before. `stopped` is the reason of a run that stopped.
pub(super) fn write_report(
    run: RunContext<'_>,
    folder: &RunFolder,
    stages: &[StageDone],
    stopped: Option<String>,
) -> Result<Report> {
    let eval = folder.stage(EVALUATION)?;
    let builder = ReportBuilder { run, folder, eval, counted: RefCell::default() };
    let report = Report { stopped, ..builder.build(stages)? };
    write_json_atomically(folder.root.join("report.json"), &report)?;
    write_atomically(folder.root.join("report.txt"), render_text(&report))?;
    write_atomically(folder.root.join("report.html"), render_html(&report))?;
    Ok(report)
}

struct ReportBuilder<'a> {
    run: RunContext<'a>,
    folder: &'a RunFolder,
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

impl ReportBuilder<'_> {
    fn build(&self, stages: &[StageDone]) -> Result<Report> {
        let config = self.run.config;
        let (baseline, matches) = self.matches(WordSet::Trained)?;
        let held_out = match self.run.inputs.words.held_out.len() {
            0 => None,
            words => {
                let (baseline, matches) = self.matches(WordSet::HeldOut)?;
                Some(HeldOut { words, baseline, matches })
            }
        };
        let Trained { mut games, rounds, losses } = self.trained()?;
        games.extend(self.last_own_games()?);
        Ok(Report {
            run_dir: self.folder.root.display().to_string(),
            game: config.rules.reported_name(),
            seed: config.seed,
            evaluation_seed: config.evaluation.seed,
            settings: settings(config),
            training_games: games,
            baseline,
            matches,
            losses,
            samples: self.samples()?,
            stages: stages.iter().filter(|stage| !stage.seconds.is_empty()).map(seconds).collect(),
            files: self.files(),
            stopped: None,
            warnings: rounds.iter().flat_map(Round::warnings).collect(),
            rounds,
            imitation: self.imitation()?,
            held_out,
            ratings: self.ratings()?,
            exact: read_json(self.eval.file(EXACT))?.unwrap_or_default(),
            benchmarks: self.benchmarks()?,
        })
    }

    /// IM against itself, and each epoch against IM in both seats.
    fn matches(&self, words: WordSet) -> Result<(PlayStats, Vec<Match>)> {
        let games = |players| self.play(Pairing { players, words });
        if !self.run.made.contains(&Model::Im) {
            return Ok((self.stats(&self.count(&[]), &[]), Vec::new()));
        }
        let baseline = games([Model::Im, Model::Im])?;
        let mut matches = Vec::new();
        for epoch in self.epochs() {
            if let Model::Spag(number) = epoch {
                let both = [games([epoch, Model::Im])?, games([Model::Im, epoch])?];
                matches.push(Match::new(self.run.inputs.game.labels(), number, both, &baseline));
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
        Ok(read_games(file, &*self.run.inputs.game)?)
    }

    fn games(&self, pairing: Pairing) -> Result<Vec<(Episode, Verdict)>> {
        self.judged(&pairing.file(&self.eval))
    }

    /// The statistics of games with these counts.
    fn stats(&self, counts: &Tally, games: &[(Episode, Verdict)]) -> PlayStats {
        PlayStats::of(counts, games, self.run.inputs.lexicon.as_ref())
    }

    fn count(&self, games: &[(Episode, Verdict)]) -> Tally {
        let mut counts = Tally::new(self.run.inputs.game.labels());
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
            let stage = self.folder.root.join(model.stage());
            if !stage.join("samples.jsonl").exists() && !stage.join("episodes.jsonl").exists() {
                continue;
            }
            let (name, stage) = (model.name(), self.folder.stage(&model.stage())?);
            let mut round = Round { name: name.clone(), games: None, training: None };
            if stage.episodes().exists() {
                let games = self.judged(&stage.episodes())?;
                let mut stats = GameStats::new(self.run.inputs.game.labels());
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
            |model: &Model| NamedPlayer { name: model.name(), player: PlayerSpec::Model(model.folder(config)) };
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
            games: config.evaluation.arena_games,
            max_turns: config.rules.turns(config.max_turns),
            seed: config.evaluation.seed,
            rules: config.rules.clone(),
            sampling: format!("temperature={}", config.evaluation.sampling.temperature),
            anchor: Some(Model::Im.name()),
        };
        Ok(Some(ArenaTable::new(settings, &players, &results)?))
    }

    /// What each source of the imitation gave; empty if the stage has not come so far, or is of an older run.
    fn imitation(&self) -> Result<Vec<ImitationPart>> {
        Ok(read_json(self.folder.root.join(Model::Im.stage()).join(SOURCES))?.unwrap_or_default())
    }

    /// The scores of the stage of benchmarks.
    fn benchmarks(&self) -> Result<Vec<ModelScores>> {
        match &self.run.config.benchmarks {
            Some(_) => Ok(read_json(self.folder.root.join(BENCHMARKS).join(SCORES))?.unwrap_or_default()),
            None => Ok(Vec::new()),
        }
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
            players: PerSeat::new(self.run.inputs.game.labels(), players.map(Model::name)),
            utterances: said.map(|utterance| self.shown_utterance(utterance, &episode.item)).collect(),
            ending: verdict.ending.description.to_owned(),
        }
    }

    fn shown_utterance(&self, utterance: &Utterance, item: &str) -> ShownUtterance {
        let untrue = match (utterance.role.index(), &self.run.inputs.lexicon) {
            // The first seat gives clues.
            (0, Some(lexicon)) => {
                let clues = lexicon.clues_in(&utterance.content).into_iter();
                clues.filter(|clue| !lexicon.clue_is_true(item, clue)).map(str::to_owned).collect()
            }
            // The second may mention any property in a question.
            _ => Vec::new(),
        };
        ShownUtterance { role: utterance.role, content: utterance.content.clone(), untrue }
    }

    fn files(&self) -> Vec<(String, String)> {
        let owned = |path: &str, what: &str| (path.to_owned(), what.to_owned());
        let mut files =
            vec![owned("report.html", "this report as a page, with charts"), owned("report.json", "the same as data")];
        for model in self.run.made.iter().copied().filter(|model| *model != Model::Base) {
            if self.run.config.imitation.source.is_none() && model == Model::Im {
                continue;
            }
            let what = match model {
                Model::Spag(_) => "games of the model before against itself, samples.jsonl, metrics.jsonl",
                _ if self.run.config.imitation.source == ImitationSources::One(ImitationSource::Scripted) => {
                    "games of the scripted players (episodes.jsonl), samples.jsonl, metrics.jsonl"
                }
                _ => "games of the imitated players (episodes.jsonl), samples.jsonl, metrics.jsonl",
            };
            files.push((format!("{}/model", model.stage()), format!("{}, a Hugging Face folder", model.name())));
            files.push((model.stage(), what.to_owned()));
        }
        let seats = self.run.inputs.game.labels().seats.map(|seat| seat.name().to_uppercase());
        files.push(owned("eval", &format!("games of the evaluation: {}.jsonl", seats.join("-vs-"))));
        if self.run.config.benchmarks.is_some() {
            files.push(owned(BENCHMARKS, "answers of each model to the benchmarks, and their scores"));
        }
        if !self.run.inputs.words.held_out.is_empty() {
            files.push(owned("held-out-words.txt", "the words that no training game was played on"));
        }
        files.push(owned("config.resolved.toml", "every setting of the run"));
        files
    }
}

/// The main settings of the resolved configuration by name.
fn settings(config: &RunConfig) -> Vec<(String, String)> {
    let share = match config.sft.share {
        SftShare::PerSample(share) => share.to_string(),
        SftShare::All(_) => "whole".to_owned(),
    };
    let per_word = |games: Option<usize>| games.map_or("one on each word".to_owned(), |games| games.to_string());
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
        ("evaluation.games", format!("{} per seat", config.evaluation.games)),
        ("evaluation.temperature", config.evaluation.sampling.temperature.to_string()),
        ("words.holdout", config.words.holdout.to_string()),
    ];
    rows.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn seconds(stage: &StageDone) -> StageSeconds {
    StageSeconds { stage: stage.stage.clone(), parts: stage.seconds.clone(), resumed: stage.resumed }
}
