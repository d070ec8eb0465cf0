//! What stands before the numbers of a report, since it qualifies them.

use spag_game::Seat;

use super::data::{GameReport, MatchReport, Report};
use crate::play_stats::PlayStats;

/// A share of ties above which win rates, which are of the other games, are qualified.
const MANY_TIES: f64 = 0.6;

impl Report {
    /// Why the run stopped, and its warnings, for the beginning of the report.
    pub(super) fn notes(&self) -> Vec<String> {
        let stopped = self.stopped.iter().map(|reason| format!("The run stopped: {reason}"));
        stopped.chain(self.all_warnings().into_iter().map(|warning| format!("Warning: {warning}"))).collect()
    }

    /// What looks wrong, and what qualifies win rates, a sentence each. They stand before all numbers.
    pub(super) fn all_warnings(&self) -> Vec<String> {
        self.few_decided().into_iter().chain(self.warnings.iter().cloned()).collect()
    }

    /// The evaluations of which hardly any game was decided, so that a win rate says little.
    pub(super) fn few_decided(&self) -> Vec<String> {
        let of_game = |game: &GameReport| {
            let name = game.folder.as_ref().filter(|_| !self.more_games.is_empty());
            let name = name.map(|folder| format!("{folder}: ")).unwrap_or_default();
            game.few_decided().into_iter().map(move |warning| format!("{name}{warning}")).collect::<Vec<_>>()
        };
        self.games().flat_map(of_game).collect()
    }
}

impl GameReport {
    /// The evaluations of which hardly any game was decided, so that a win rate says little.
    fn few_decided(&self) -> Vec<String> {
        let held_out =
            self.held_out.iter().flat_map(|held| held.matches.iter().map(|game| (game, " on held-out words")));
        let all = self.matches.iter().map(|game| (game, "")).chain(held_out);
        let of_match = |(game, words): (&MatchReport, &str)| {
            let warning = |(seat, play): (Seat, &PlayStats)| {
                let decided = play.win[seat].total;
                let ties = play.games.saturating_sub(decided) as f64 / play.games.max(1) as f64;
                (ties > MANY_TIES).then(|| {
                    format!(
                        "{} as {seat} against IM{words}: {:.0}% of {} games are ties; its win rate is of the other {decided}",
                        game.name,
                        100.0 * ties,
                        play.games
                    )
                })
            };
            game.seats.iter().filter_map(warning).collect::<Vec<_>>()
        };
        all.flat_map(of_match).collect()
    }
}
