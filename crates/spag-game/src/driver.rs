//! The driver: plays many games at once and asks the referee after every utterance.

use crate::episode::{Episode, Role};
use crate::error::{Error, Result};
use crate::judge::{JudgeKind, Referee};
use crate::outcome::Verdict;
use crate::player::{Player, TurnRequest};
use crate::prompts::PromptSet;

/// Who sits where.
pub enum Seats<'a> {
    /// One player in both seats; both roles' turns of a step go to it in one batch.
    SelfPlay(&'a mut dyn Player),
    /// Two players.
    Versus {
        /// Plays the attacker.
        attacker: &'a mut dyn Player,
        /// Plays the defender.
        defender: &'a mut dyn Player,
    },
}

/// A game to be played.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GameSpec {
    /// Its number.
    pub game: usize,
    /// The word that the attacker is given.
    pub target_word: String,
    /// Turns after which it is tied.
    pub max_turns: usize,
    /// Seed of every draw in it.
    pub seed: u64,
}

/// What happens once a game is decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AfterDecision {
    /// It stops at once.
    #[default]
    Stop,
    /// It is played on to its last turn; the verdict stays.
    PlayOn,
}

/// How games are played.
#[derive(Clone, Copy, Debug)]
pub struct PlayConfig {
    /// The rules.
    pub judge: JudgeKind,
    /// Games going on at a time.
    pub games_in_flight: usize,
    /// What happens once a game is decided.
    pub after_decision: AfterDecision,
}

/// A game that has been played.
#[derive(Clone, Debug, PartialEq)]
pub struct FinishedGame {
    /// Its number.
    pub game: usize,
    /// Its seed.
    pub seed: u64,
    /// Who said what.
    pub episode: Episode,
    /// How it ended.
    pub verdict: Verdict,
}

struct Running {
    spec: GameSpec,
    episode: Episode,
    referee: Referee,
    decided: Option<Verdict>,
}

/// The seed of a game in a run: well mixed, so that neighbouring numbers share nothing.
pub fn game_seed(base_seed: u64, game: usize) -> u64 {
    mix(mix(base_seed) ^ (game as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// The finaliser of splitmix64 (Steele, Lea and Flood 2014).
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Plays `specs` with `games_in_flight` of them at a time. A game that ends is handed to `on_finished` at once and
/// replaced by the next, so games end in no particular order.
///
/// # Errors
/// A player that fails or gives another number of replies, an empty target word, or an error of `on_finished`.
pub fn play_games(
    specs: impl IntoIterator<Item = GameSpec>,
    mut seats: Seats<'_>,
    prompts: &PromptSet,
    config: &PlayConfig,
    on_finished: &mut dyn FnMut(FinishedGame) -> Result<()>,
) -> Result<()> {
    let mut waiting = specs.into_iter();
    let mut running: Vec<Running> = Vec::new();
    loop {
        while running.len() < config.games_in_flight.max(1) {
            let Some(spec) = waiting.next() else { break };
            let referee = Referee::new(config.judge, &spec.target_word)?;
            let episode = Episode::new(spec.target_word.clone(), spec.max_turns);
            running.push(Running { spec, episode, referee, decided: None });
        }
        if running.is_empty() {
            return Ok(());
        }
        advance(&mut running, &mut seats, prompts)?;
        let (over, going) = running.into_iter().partition(|game| is_over(game, config.after_decision));
        running = going;
        for game in over {
            let Running { spec, episode, referee, decided } = game;
            let verdict = decided.unwrap_or_else(|| referee.judge(&episode.history, spec.max_turns));
            on_finished(FinishedGame { game: spec.game, seed: spec.seed, episode, verdict })?;
        }
    }
}

fn is_over(game: &Running, after: AfterDecision) -> bool {
    let last = game.episode.history.len() >= game.spec.max_turns.saturating_mul(2);
    last || (game.decided.is_some() && after == AfterDecision::Stop)
}

/// One utterance in every running game.
fn advance(running: &mut [Running], seats: &mut Seats<'_>, prompts: &PromptSet) -> Result<()> {
    let queries: Vec<String> = running
        .iter()
        .map(|g| prompts.playing_query(&g.episode.history, &g.spec.target_word, g.spec.max_turns))
        .collect();
    let turn = |index: usize| {
        let game: &Running = &running[index];
        let place = game.episode.history.len();
        TurnRequest {
            game: game.spec.game,
            role: game.episode.next_role(),
            episode: &game.episode,
            prompt: &queries[index],
            game_seed: game.spec.seed,
            seed: game_seed(game.spec.seed, place),
        }
    };
    let replies: Vec<(usize, String)> = match seats {
        Seats::SelfPlay(player) => ask(*player, (0..running.len()).collect(), turn)?,
        Seats::Versus { attacker, defender } => {
            let (first, second) = (0..running.len()).partition(|i| running[*i].episode.next_role() == Role::Attacker);
            let mut replies = ask(*attacker, first, turn)?;
            replies.append(&mut ask(*defender, second, turn)?);
            replies
        }
    };
    for (index, reply) in replies {
        let Running { episode, referee, decided, .. } = &mut running[index];
        let role = episode.next_role();
        if decided.is_none() {
            let history_length = episode.history.len() + 1;
            *decided = referee.rule(role, &reply).map(|outcome| Verdict { outcome, history_length });
        }
        episode.push(role, reply);
    }
    Ok(())
}

/// Asks one player for the turns of the games at `indices`; the replies come with their game's index.
fn ask<'a>(
    player: &mut dyn Player,
    indices: Vec<usize>,
    turn: impl Fn(usize) -> TurnRequest<'a>,
) -> Result<Vec<(usize, String)>> {
    let requests: Vec<TurnRequest<'a>> = indices.iter().map(|i| turn(*i)).collect();
    let Some(first) = requests.first() else { return Ok(Vec::new()) };
    let replies =
        player.respond(&requests).map_err(|source| Error::Player { game: first.game, role: first.role, source })?;
    match replies.len() == requests.len() {
        true => Ok(indices.into_iter().zip(replies).collect()),
        false => Err(Error::Replies { asked: requests.len(), given: replies.len() }),
    }
}
