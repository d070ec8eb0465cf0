//! The report of a run, computed from its files.

use std::path::Path;

use serde::Deserialize;
use spag_game::{Episode, Role, Utterance, read_episodes};
use spag_io::{RowReader, write_atomically, write_json_atomically};
use spag_selfplay::ending;

use super::context::RunInputs;
use super::evaluate::{Model, Pairing, pairings};
use super::folder::{RunFolder, StageDone, StageFolder};
use crate::config::RunConfig;
use crate::error::Result;
use crate::play_stats::PlayStats;
use crate::report::{
    LossCurve, LossPoint, Match, NamedPlay, Report, SamplePair, ShownGame, ShownUtterance, StageSeconds, render_html,
    render_text,
};

/// Computes the report and writes it as `report.json`, `report.txt` and `report.html`, also if the run was finished
/// before.
pub(super) fn write_report(
    config: &RunConfig,
    inputs: &RunInputs,
    folder: &RunFolder,
    stages: &[StageDone],
) -> Result<Report> {
    let report = ReportBuilder { config, inputs, folder, eval: folder.stage("eval")? }.build(stages)?;
    write_json_atomically(folder.root.join("report.json"), &report)?;
    write_atomically(folder.root.join("report.txt"), render_text(&report))?;
    write_atomically(folder.root.join("report.html"), render_html(&report))?;
    Ok(report)
}

struct ReportBuilder<'a> {
    config: &'a RunConfig,
    inputs: &'a RunInputs,
    folder: &'a RunFolder,
    eval: StageFolder,
}

impl ReportBuilder<'_> {
    fn build(&self, stages: &[StageDone]) -> Result<Report> {
        let baseline = self.play(&self.games(Model::Im, Model::Im)?)?;
        let mut matches = Vec::new();
        for epoch in self.config.evaluation.epochs.iter().flatten() {
            let model = Model::Spag(*epoch);
            let attacking = self.play(&self.games(model, Model::Im)?)?;
            let defending = self.play(&self.games(Model::Im, model)?)?;
            matches.push(Match::new(*epoch, attacking, defending, &baseline));
        }
        Ok(Report {
            run_dir: self.folder.root.display().to_string(),
            seed: self.config.seed,
            evaluation_seed: self.config.evaluation.seed,
            settings: settings(self.config),
            training_games: self.training_games()?,
            baseline,
            matches,
            losses: self.losses()?,
            samples: self.samples()?,
            stages: stages.iter().filter(|stage| !stage.seconds.is_empty()).map(seconds).collect(),
            files: self.files(),
        })
    }

    fn games(&self, attacker: Model, defender: Model) -> Result<Vec<Episode>> {
        Ok(read_episodes(Pairing { attacker, defender }.file(&self.eval))?)
    }

    fn play(&self, episodes: &[Episode]) -> Result<PlayStats> {
        PlayStats::new(episodes, self.config.judge, &self.inputs.lexicon)
    }

    /// The games of each stage, named after their player: the games of stage spag-1 were played by IM.
    fn training_games(&self) -> Result<Vec<NamedPlay>> {
        let mut all = Vec::new();
        let mut player = "scripted".to_owned();
        for model in self.models() {
            let episodes = read_episodes(self.folder.stage(&model.stage())?.episodes())?;
            all.push(NamedPlay { name: player, play: self.play(&episodes)? });
            player = model.name();
        }
        let last = Model::Spag(self.config.epochs);
        if pairings(self.config).iter().any(|(pairing, _)| *pairing == Pairing { attacker: last, defender: last }) {
            all.push(NamedPlay { name: player, play: self.play(&self.games(last, last)?)? });
        }
        Ok(all)
    }

    fn models(&self) -> impl Iterator<Item = Model> {
        std::iter::once(Model::Im).chain((1..=self.config.epochs).map(Model::Spag))
    }

    fn losses(&self) -> Result<Vec<LossCurve>> {
        self.models()
            .map(|model| {
                let points = loss_points(&self.folder.stage(&model.stage())?.metrics())?;
                Ok(LossCurve { name: model.name(), points })
            })
            .collect()
    }

    /// Games on the same words of IM and of the last evaluated model, which alternates between the seats. The words are
    /// evenly spaced over the list.
    fn samples(&self) -> Result<Vec<SamplePair>> {
        let Some(last) = self.config.evaluation.epochs.iter().flatten().last().map(|epoch| Model::Spag(*epoch)) else {
            return Ok(Vec::new());
        };
        let before = self.games(Model::Im, Model::Im)?;
        let seats = [(last, Model::Im), (Model::Im, last)];
        let after = [self.games(seats[0].0, seats[0].1)?, self.games(seats[1].0, seats[1].1)?];
        let wanted = self.config.evaluation.sample_games.min(before.len());
        let mut samples = Vec::with_capacity(wanted);
        for i in 0..wanted {
            let game = i * before.len() / wanted;
            let ((attacker, defender), games) = if i % 2 == 0 { (seats[0], &after[0]) } else { (seats[1], &after[1]) };
            if let (Some(old), Some(new)) = (before.get(game), games.get(game)) {
                samples.push(SamplePair {
                    target_word: old.target_word.clone(),
                    before: self.shown(old, Model::Im, Model::Im)?,
                    after: self.shown(new, attacker, defender)?,
                });
            }
        }
        Ok(samples)
    }

    fn shown(&self, episode: &Episode, attacker: Model, defender: Model) -> Result<ShownGame> {
        let (ending, length) = ending(episode, self.config.judge)?;
        let said = episode.history.iter().take(length);
        Ok(ShownGame {
            attacker: attacker.name(),
            defender: defender.name(),
            utterances: said.map(|utterance| self.shown_utterance(utterance, &episode.target_word)).collect(),
            ending: ending.describe().to_owned(),
        })
    }

    fn shown_utterance(&self, utterance: &Utterance, target_word: &str) -> ShownUtterance {
        let lexicon = &self.inputs.lexicon;
        let clues = match utterance.role {
            Role::Attacker => lexicon.clues_in(&utterance.content),
            // A defender may mention any property in a question.
            Role::Defender => Vec::new(),
        };
        let untrue = clues.into_iter().filter(|clue| !lexicon.clue_is_true(target_word, clue));
        ShownUtterance {
            role: utterance.role.to_string(),
            content: utterance.content.clone(),
            untrue: untrue.map(str::to_owned).collect(),
        }
    }

    fn files(&self) -> Vec<(String, String)> {
        let owned = |path: &str, what: &str| (path.to_owned(), what.to_owned());
        let mut files =
            vec![owned("report.html", "this report as a page, with charts"), owned("report.json", "the same as data")];
        for model in self.models() {
            let what = match model {
                Model::Im => "games of the scripted players (episodes.jsonl), samples.jsonl, metrics.jsonl",
                Model::Spag(_) => "games of the model before against itself, samples.jsonl, metrics.jsonl",
            };
            files.push((format!("{}/model", model.stage()), format!("{}, a Hugging Face folder", model.name())));
            files.push((model.stage(), what.to_owned()));
        }
        files.push(owned("eval", "games of the evaluation: ATTACKER-vs-DEFENDER.jsonl"));
        files.push(owned("config.resolved.toml", "every setting of the run"));
        files
    }
}

fn loss_points(path: &Path) -> Result<Vec<LossPoint>> {
    // Losses that are not finite are written as null.
    #[derive(Deserialize)]
    struct Line {
        step: u64,
        loss: Option<f64>,
    }
    let mut points = Vec::new();
    for row in RowReader::<Line>::open(path)? {
        let (_, line) = row?;
        points.extend(line.loss.map(|loss| LossPoint { step: line.step, loss }));
    }
    Ok(points)
}

fn settings(config: &RunConfig) -> Vec<(String, String)> {
    let settings = [
        ("imitation.games", config.imitation.games.to_string()),
        ("imitation.train.learning_rate", config.imitation.train.learning_rate.to_string()),
        ("self_play.games", config.self_play.games.to_string()),
        ("self_play.temperature", config.self_play.temperature.to_string()),
        ("rewards.decay_weight", config.rewards.decay_weight.to_string()),
        ("rewards.reward_norm", config.rewards.reward_norm.to_string()),
        ("sft.share", config.sft.share.to_string()),
        ("train.learning_rate", config.train.learning_rate.to_string()),
        ("train.lm_kl_coeff", config.train.lm_kl_coeff.to_string()),
        ("train.lm_sft_coeff", config.train.lm_sft_coeff.to_string()),
        ("train.clip_range", config.train.clip_range.to_string()),
        ("evaluation.games", format!("{} per seat", config.evaluation.games)),
        ("evaluation.temperature", config.evaluation.temperature.to_string()),
    ];
    settings.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn seconds(stage: &StageDone) -> StageSeconds {
    StageSeconds { stage: stage.stage.clone(), parts: stage.seconds.clone(), resumed: stage.resumed }
}
