//! The games of an update.

use serde::Serialize;
use serde::de::DeserializeOwned;
use spag_dist::{ProcessGroup, gather_lists};
use spag_game::{
    CollectedGames, FinishedGame, Game, GameSpec, Generation, PlayConfig, Policy, ScriptedPolicy, Seat, Seats,
    TokenRecords, TurnContext, Utterance, UtteranceEnd, play_games, taboo,
};
use spag_rewards::{Advantages, Estimator, OutcomeRewards, RandomWinner, RewardedGame, Turn};
use spag_world::{ScriptedAttacker, ScriptedDefender};

use super::opponents::Opponents;
use super::player::Players;
use super::schedule::{self, Schedule, Scheduled};
use crate::config::{Control, OnlineSettings, Opponent};
use crate::error::{Error, Result};
use crate::run::context::RunContext;
use crate::run::run_games::OpenGame;
use crate::seeds::stage_seed;

/// The games of an update on this rank, in their order.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) games: Vec<Played>,
    /// Games without an end, on this rank.
    pub(super) failed: usize,
}

/// A game, whose utterances by models have their tokens.
pub(super) struct Played {
    /// Which of the run's games it is.
    pub(super) index: usize,
    pub(super) game: FinishedGame,
    /// The seat that learns, if it is not both.
    pub(super) learner: Option<Seat>,
    /// As the estimator sees it.
    pub(super) rewarded: RewardedGame,
}

impl Played {
    /// The utterances of seats that learn, with their places in the game.
    pub(super) fn learned(&self) -> impl Iterator<Item = (usize, &Utterance)> {
        let is_learned = |said: &Utterance| self.learner.is_none_or(|learner| said.seat == learner);
        self.game.episode.history.iter().enumerate().filter(move |(_, said)| is_learned(said))
    }
}

/// Whether an utterance has as many tokens as it may have.
pub(super) fn is_too_long(said: &Utterance) -> bool {
    let context = said.generation.as_ref().and_then(|generation| generation.context.as_ref());
    context.is_some_and(|TurnContext { end, .. }| *end == UtteranceEnd::Length)
}

/// The sampled tokens of an utterance; 0 if no model said it.
pub(super) fn tokens(said: &Utterance) -> usize {
    said.generation.as_ref().map_or(0, |generation| generation.token_ids.len() - generation.forced_tokens.len())
}

/// The sampled tokens of the reasoning before an utterance.
pub(super) fn reasoning_tokens(said: &Utterance) -> usize {
    let sampled = |of: &Generation| of.reasoning_tokens.saturating_sub(of.forced_tokens.len());
    said.generation.as_ref().map_or(0, sampled)
}

impl Batch {
    /// Plays this rank's share of scheduled games of an update.
    pub(super) fn play(
        &mut self,
        run: RunContext<'_>,
        settings: &OnlineSettings,
        (policies, opponents): (&mut Players, &mut Opponents),
        (update, scheduled): (usize, &[Scheduled]),
    ) -> Result<()> {
        let RunContext { config, ranks, inputs, .. } = run;
        let play = PlayConfig {
            games_in_flight: config.self_play.games_in_flight(),
            max_failed_in_a_row: config.self_play.max_failed_in_a_row,
            tokens: TokenRecords::Kept,
        };
        let is_own = |scheduled: &&Scheduled| scheduled.spec.number % ranks.group.size() == ranks.group.rank();
        let mut games = CollectedGames::default();
        for (index, OpenGame { game, .. }) in inputs.games.iter().enumerate() {
            let [one, other] = game.labels().seats;
            for learner in [None, Some(one), Some(other)] {
                let of_these = |scheduled: &&Scheduled| (scheduled.index, scheduled.learner) == (index, learner);
                let specs = scheduled.iter().filter(is_own).filter(of_these);
                let specs: Vec<GameSpec> = specs.map(|scheduled| scheduled.spec.clone()).collect();
                if specs.is_empty() {
                    continue;
                }
                let mut scripted;
                let seats = match (learner, settings.opponents.opponent) {
                    (None, _) => policies.seats(),
                    (Some(seat), opponent) => {
                        let policy = policies.first();
                        let opponent: &mut dyn Policy = match opponent {
                            Opponent::Scripted => {
                                scripted = scripted_opponent(run, &**game, seat)?;
                                &mut *scripted
                            }
                            Opponent::Policy | Opponent::Fixed | Opponent::Pool => {
                                opponents.player(run, update, policy)?
                            }
                        };
                        Seats::Versus(if seat == one { [policy, opponent] } else { [opponent, policy] })
                    }
                };
                play_games(&**game, specs, seats, &play, &mut games)?;
            }
        }
        self.failed += games.failed.len();
        policies.forget_games();
        opponents.forget_games();
        games.finished.sort_by_key(|game| game.number);
        let played = |game: FinishedGame| {
            let Scheduled { index, learner, .. } = *schedule::find(scheduled, game.number)?;
            let rewarded = rewarded(run, inputs.games.get(index)?, settings, (&game, learner));
            Some(Played { index, game, learner, rewarded })
        };
        self.games.extend({ games.finished }.into_iter().filter_map(played));
        Ok(())
    }

    /// The games of all ranks as estimators see them, with their numbers.
    pub(super) fn of_all_ranks(&self, run: RunContext<'_>, schedule: &Schedule) -> Result<Vec<(usize, RewardedGame)>> {
        let text = |played: &Played| Ok((played.game.number, serde_json::to_string(&played.rewarded)?));
        let own = self.games.iter().map(text).collect::<serde_json::Result<_>>().map_err(Error::Exchange)?;
        let mut all = Vec::new();
        for (number, text) in gather_games::<String>(&*run.ranks.group, own)? {
            let of = schedule.get(number).and_then(|scheduled| run.inputs.games.get(scheduled.index));
            let Some(OpenGame { game, .. }) = of else { continue };
            let rewarded = game.labels().reading(|| serde_json::from_str(&text)).map_err(Error::Exchange)?;
            all.push((number, rewarded));
        }
        Ok(all)
    }
}

/// The advantages of all ranks' games. All ranks estimate all of them, so that their baselines agree.
pub(super) fn advantages(
    settings: &OnlineSettings,
    estimator: &mut dyn Estimator,
    all: &[(usize, RewardedGame)],
) -> Result<Advantages> {
    let games: Vec<RewardedGame> = all.iter().map(|(_, game)| game.clone()).collect();
    if settings.learns_from_itself() {
        return Ok(estimator.advantages(&games)?);
    }
    // The utterances of winners have an advantage of 1.
    let mut advantages = Advantages::default();
    for game in &games {
        advantages.push(game, |_, turn| (Some(turn.seat) == game.winner).then_some(1.0))?;
    }
    Ok(advantages)
}

/// The player of the other seat than the policy's that knows the game without a model.
fn scripted_opponent<'a>(run: RunContext<'a>, game: &dyn Game, policy: Seat) -> Result<Box<dyn Policy + 'a>> {
    if game.labels().name != taboo::LABELS.name {
        return Ok(Box::new(ScriptedPolicy::random_actions()));
    }
    let lexicon = run.inputs.lexicon()?;
    Ok(match policy == taboo::ATTACKER {
        true => Box::new(ScriptedDefender::new(lexicon).with_guesses(run.config.imitation.guesses)),
        false => Box::new(ScriptedAttacker::new(lexicon)),
    })
}

/// What each rank has of its games, in the order of their numbers: that of all ranks, in order.
pub(super) fn gather_games<T: Serialize + DeserializeOwned>(
    group: &dyn ProcessGroup,
    own: Vec<(usize, T)>,
) -> Result<Vec<(usize, T)>> {
    if group.size() == 1 {
        return Ok(own);
    }
    let mut all = gather_lists(group, &own)?;
    all.sort_by_key(|(game, _)| *game);
    Ok(all)
}

/// A game as the estimator sees it. An utterance that is empty or too long counts as a broken rule of its seat.
fn rewarded(
    run: RunContext<'_>,
    of: &OpenGame,
    settings: &OnlineSettings,
    (game, learner): (&FinishedGame, Option<Seat>),
) -> RewardedGame {
    let (labels, rewards) = (of.game.labels(), &settings.rewards);
    let history = &game.episode.history;
    let tokens = history.iter().map(|said| Turn { seat: said.seat, tokens: tokens(said) });
    // Games without items are about their deals.
    let key = match game.episode.item.as_str() {
        "" if settings.group_size > 1 => game.seed.to_string(),
        item => item.to_owned(),
    };
    let mut rewarded = RewardedGame::new(labels, key, &game.verdict, tokens.collect(), rewards);
    // Games of one kind with other options have other baselines.
    rewarded.kind = of.folder().unwrap_or(labels.name).to_owned();
    let offender = history.iter().find(|said| said.content.trim().is_empty() || is_too_long(said));
    if let Some(offender) = offender.map(|said| said.seat) {
        let &OutcomeRewards { invalid, other_invalid, .. } = rewards;
        rewarded.rewards = labels.seats.map(|seat| if seat == offender { invalid } else { other_invalid });
        rewarded.winner = None;
    }
    if let Some(learner) = learner {
        rewarded = rewarded.against_opponent(learner);
    }
    match settings.control {
        Some(Control::RandomWinner) => {
            let seed = stage_seed(run.config.seed, "online/random_winner");
            RandomWinner { seed }.replace(rewarded, game.number, labels, rewards)
        }
        None | Some(Control::SftOnly) => rewarded,
    }
}
