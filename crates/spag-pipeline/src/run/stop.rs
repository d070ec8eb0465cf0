//! Rules that stop a run before it trains on games that went wrong.

use spag_game::UtteranceKind;
use spag_selfplay::{GameStats, Rate, ReasoningStats};

use super::context::RunContext;
use super::rounds::round_games;
use super::stage_folder::StageFolder;
use crate::config::StopRules;
use crate::error::{Error, Result};

/// Stops the run if the games of a stage break a rule of `[stop_when]`. `played` are their statistics, on rank 0. All ranks
/// agree.
///
/// # Errors
/// [`Error::Stopped`] with the rule.
pub(super) fn stop_if_asked(run: RunContext<'_>, stage: &StageFolder, played: Option<&GameStats>) -> Result<()> {
    let rules = &run.config.stop_when;
    let reason = run.ranks.text(|| Ok(played.and_then(|stats| broken_rule(rules, stats))))?;
    match reason {
        Some(reason) => Err(Error::Stopped { stage: stage.name.clone(), reason, file: stage.episodes() }),
        None => Ok(()),
    }
}

/// The first rule that games break, with its value and theirs.
pub(super) fn broken_rule(rules: &StopRules, stats: &GameStats) -> Option<String> {
    let games = round_games(stats);
    let is_talk = stats.counts().labels().utterances == UtteranceKind::Sentences;
    let [first, second] = games.wins.seats();
    let silent = ReasoningStats { empty: 1.0, ..ReasoningStats::default() };
    let thought = games.reasoning.unwrap_or(silent);
    let of_thought = |share: f64| Rate { share: games.empty_utterances.share.map(|_| share), ..games.empty_utterances };
    let shares = [
        ("empty_utterances", None, rules.empty_utterances, games.empty_utterances),
        ("repeated_utterances", None, rules.repeated_utterances.filter(|_| is_talk), games.repeated_utterances),
        // The rules of seats are named after those of Adversarial Taboo, in all games.
        ("attacker_wins", Some(first), rules.attacker_wins, games.wins[first]),
        ("defender_wins", Some(second), rules.defender_wins, games.wins[second]),
        ("early_guesses", None, rules.early_guesses, games.early_guesses),
        ("ties", None, rules.ties, games.ties),
        ("empty_reasoning", None, rules.empty_reasoning, of_thought(thought.empty)),
        ("forced_reasoning", None, rules.forced_reasoning, of_thought(thought.forced)),
        ("unfinished_reasoning", None, rules.unfinished_reasoning, of_thought(thought.unfinished)),
    ];
    shares.into_iter().find_map(|(name, seat, limit, rate)| {
        let (limit, share) = (limit?, rate.share?);
        let other = seat.filter(|seat| !name.starts_with(seat.name()));
        let whose = other.map(|seat| format!(" (of {seat})")).unwrap_or_default();
        (share > limit).then(|| format!("{name}{whose} is {share:.3}, more than stop_when.{name} = {limit}"))
    })
}

/// The first rule of updates alone that an update breaks, with its value and the update's. `information` is its item information, if it
/// was measured.
pub(super) fn broken_update_rule(rules: &StopRules, without_signal: f64, information: Option<f64>) -> Option<String> {
    let too_silent = rules.without_signal.filter(|limit| without_signal > *limit);
    let too_silent = too_silent
        .map(|limit| format!("without_signal is {without_signal:.3}, more than stop_when.without_signal = {limit}"));
    too_silent.or_else(|| {
        let (limit, nats) = (rules.least_item_information?, information?);
        let name = "least_item_information";
        (nats < limit).then(|| format!("item_information is {nats:.3}, less than stop_when.{name} = {limit}"))
    })
}

#[cfg(test)]
mod tests {
    use spag_game::games::kuhn_poker;
    use spag_game::{Ending, Labels, Verdict, taboo};

    use super::*;

    #[test]
    fn a_model_that_stops_thinking_breaks_a_rule() {
        let broken = |rules: StopRules, reasoning: Option<&str>| {
            let mut episode = spag_game::Episode::new("tea", 1);
            episode.push(taboo::ATTACKER, "Hot?");
            episode.history[0].reasoning = reasoning.map(str::to_owned);
            let mut stats = GameStats::new(&taboo::LABELS);
            stats.add(&episode, &Verdict::of(taboo::TIE, 1));
            broken_rule(&rules, &stats)
        };
        let rules = || StopRules { empty_reasoning: Some(0.5), ..StopRules::default() };
        assert_eq!(broken(rules(), Some("thought")), None);
        let said = broken(rules(), None).unwrap();
        assert_eq!(said, "empty_reasoning is 1.000, more than stop_when.empty_reasoning = 0.5");
        assert_eq!(broken(StopRules { forced_reasoning: Some(0.0), ..StopRules::default() }, None), None);
    }

    #[test]
    fn moves_may_be_repeated() {
        let rules = StopRules { repeated_utterances: Some(0.1), ..StopRules::default() };
        let broken = |labels: &'static Labels| {
            let mut episode = spag_game::Episode::new("", 2);
            (0..4).for_each(|at| episode.push(labels.seat_at(at), "[1]"));
            let mut stats = GameStats::new(labels);
            stats.add(&episode, &Verdict::of(labels.endings[0], 4));
            broken_rule(&rules, &stats)
        };
        assert!(broken(&taboo::LABELS).is_some_and(|said| said.contains("stop_when.repeated_utterances = 0.1")));
        assert_eq!(broken(&kuhn_poker::LABELS), None);
    }

    #[test]
    fn an_update_is_stopped_by_much_silence_or_little_information() {
        let rules = StopRules { without_signal: Some(0.5), least_item_information: Some(0.1), ..StopRules::default() };
        let broken = |silent, information| broken_update_rule(&rules, silent, information);
        assert_eq!(broken(0.75, None).unwrap(), "without_signal is 0.750, more than stop_when.without_signal = 0.5");
        let few = broken(0.5, Some(0.05)).unwrap();
        assert_eq!(few, "item_information is 0.050, less than stop_when.least_item_information = 0.1");
        // Nothing is known of games that all begin alike.
        assert_eq!([broken(0.5, Some(0.1)), broken(0.0, None)], [None, None]);
        assert_eq!(broken_update_rule(&StopRules::default(), 1.0, Some(0.0)), None);
    }

    #[test]
    fn rules_have_the_names_of_their_settings_in_every_game() {
        let rules = StopRules { attacker_wins: Some(0.5), ..StopRules::default() };
        let said = |labels: &'static Labels, verdict: Verdict| {
            let mut stats = GameStats::new(labels);
            stats.add(&spag_game::Episode::new("", 1), &verdict);
            broken_rule(&rules, &stats).unwrap()
        };
        let won = |ending: Ending, labels: &Labels| Verdict::won_by(labels.seats[0], ending, 1);
        let text = said(&taboo::LABELS, won(taboo::WRONG_GUESS, &taboo::LABELS));
        assert_eq!(text, "attacker_wins is 1.000, more than stop_when.attacker_wins = 0.5");
        let text = said(&kuhn_poker::LABELS, won(kuhn_poker::LABELS.endings[0], &kuhn_poker::LABELS));
        assert_eq!(text, "attacker_wins (of player 0) is 1.000, more than stop_when.attacker_wins = 0.5");
    }
}
