//! Rules that stop a run before it trains on games that went wrong.

use spag_selfplay::GameStats;

use super::context::RunContext;
use super::folder::StageFolder;
use super::rounds::round_games;
use crate::config::StopRules;
use crate::error::{Error, Result};
use crate::report::RoundGames;

/// Stops the run if the games of a stage break a rule of `[stop_when]`. `played` are their statistics, on rank 0. All ranks
/// agree.
///
/// # Errors
/// [`Error::Stopped`] with the rule.
pub(super) fn stop_if_asked(run: RunContext<'_>, stage: &StageFolder, played: Option<&GameStats>) -> Result<()> {
    let rules = &run.config.stop_when;
    let reason = run.ranks.text(|| Ok(played.and_then(|stats| broken_rule(rules, &round_games(stats)))))?;
    match reason {
        Some(reason) => Err(Error::Stopped { stage: stage.name.clone(), reason, file: stage.episodes() }),
        None => Ok(()),
    }
}

/// The first rule that games break, with its value and theirs.
fn broken_rule(rules: &StopRules, games: &RoundGames) -> Option<String> {
    let [first, second] = games.wins.seats();
    let [first_wins, second_wins] = [first, second].map(|seat| format!("{seat}_wins"));
    let shares = [
        ("empty_utterances", rules.empty_utterances, games.empty_utterances),
        ("repeated_utterances", rules.repeated_utterances, games.repeated_utterances),
        (&*first_wins, rules.attacker_wins, games.wins[first]),
        (&*second_wins, rules.defender_wins, games.wins[second]),
        ("early_guesses", rules.early_guesses, games.early_guesses),
        ("ties", rules.ties, games.ties),
    ];
    shares.into_iter().find_map(|(name, limit, rate)| {
        let (limit, share) = (limit?, rate.share?);
        (share > limit).then(|| format!("{name} is {share:.3}, more than stop_when.{name} = {limit}"))
    })
}
