//! What stands before the numbers of a report, since it qualifies them.

use spag_game::Seat;
use spag_run::{MANY_TIES, UpdateMeasures};
use spag_selfplay::Rate;

use super::data::{GameReport, MatchReport, Report};
use super::tables::percent;
use crate::play_stats::PlayStats;

/// A share of ties above which it stands beside the win rate, which is of the other games.
const SOME_TIES: f64 = 0.3;

impl Report {
    /// Why the run stopped, and its warnings, for the beginning of the report.
    pub(super) fn notes(&self) -> Vec<String> {
        let stopped = self.stopped.iter().map(|reason| format!("The run stopped: {reason}"));
        stopped.chain(self.all_warnings().into_iter().map(|warning| format!("Warning: {warning}"))).collect()
    }

    /// What looks wrong, and what qualifies win rates, a sentence each. They stand before all numbers.
    pub(super) fn all_warnings(&self) -> Vec<String> {
        let alarms = self.update_alarms().into_iter();
        alarms.chain(self.few_decided()).chain(self.warnings.iter().cloned()).collect()
    }

    /// What the updates of an on-policy run warn of.
    fn update_alarms(&self) -> Vec<String> {
        let mut measures = UpdateMeasures::default();
        for point in &self.updates {
            point.values.iter().for_each(|(key, value)| measures.add(key, point.update, *value));
        }
        measures.alarms()
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
                let ties = play.ties();
                let share = ties.share.filter(|share| *share > MANY_TIES)?;
                Some(format!(
                    "{} as {seat} against IM{words}: {:.0}% of {} games are ties; its win rate is of the other {}",
                    game.name,
                    100.0 * share,
                    ties.total,
                    ties.total - ties.count
                ))
            };
            game.seats.iter().filter_map(warning).collect::<Vec<_>>()
        };
        all.flat_map(of_match).collect()
    }
}

impl MatchReport {
    /// The seats of the model with so many ties that its win rate is not shown without them.
    pub(super) fn shown_ties(&self) -> impl Iterator<Item = (Seat, Rate)> {
        let ties = self.seats.iter().map(|(seat, play)| (seat, play.ties()));
        ties.filter(|(_, ties)| ties.share.is_some_and(|share| share > SOME_TIES))
    }

    /// The same as a sentence; `None` if all seats have few ties.
    pub(super) fn ties_note(&self) -> Option<String> {
        let seats = self.shown_ties().map(|(seat, ties)| format!("{}% as {seat}", percent(ties.share)));
        let seats = seats.collect::<Vec<_>>().join(", ");
        let note = || format!("Ties, which the win rates leave out, of {}'s games against IM: {seats}", self.name);
        (!seats.is_empty()).then(note)
    }
}
