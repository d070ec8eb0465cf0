//! The players of a run: one in both roles, or two that share the memory of the machine.

use std::cell::Cell;

use spag_game::{Player, PlayerError, PollMode, PromptSet, Reply, Role, Seats, TurnRequest, Utterance};
use spag_selfplay::{EndpointKeys, JobObserver, OpenJob, Played, PlayerSpec, PlayerWork};

use crate::error::PlayError;
use spag_cli::{AnyPlayer, PlayerArgs, Result};

/// The players of a run.
pub(crate) struct Players {
    /// Plays both roles if there is no defender.
    attacker: AnyPlayer,
    defender: Option<AnyPlayer>,
}

impl Players {
    /// Opens the players; for self-play one player is opened once. `processes` on this machine share its memory.
    pub(crate) fn open(
        args: &PlayerArgs,
        attacker: &PlayerSpec,
        defender: &PlayerSpec,
        keys: &EndpointKeys,
        processes: usize,
    ) -> Result<Self> {
        if attacker == defender {
            return Ok(Self { attacker: args.among(processes).open(attacker, keys)?, defender: None });
        }
        let engines = [attacker, defender].iter().filter(|spec| matches!(spec, PlayerSpec::Model(_))).count();
        let args = args.among(engines * processes);
        Ok(Self { attacker: args.open(attacker, keys)?, defender: Some(args.open(defender, keys)?) })
    }

    /// Rejects models whose context cannot hold the first prompt and an utterance. `word` is the longest target word.
    /// Returns notes on prompts that only `max_length`, the flag, cuts.
    ///
    /// # Errors
    /// [`PlayError::ContextTooShort`].
    pub(crate) fn check_context(
        &self,
        prompts: &PromptSet,
        word: &str,
        max_turns: usize,
        max_length: Option<usize>,
    ) -> Result<Vec<String>> {
        let defender = self.defender.as_ref().unwrap_or(&self.attacker);
        // The defender's first prompt also contains the attacker's first utterance, which is unknown.
        let opening = [Utterance::new(Role::Attacker, "")];
        let mut notes = Vec::new();
        for (player, role, history) in [(&self.attacker, Role::Attacker, &[][..]), (defender, Role::Defender, &opening)]
        {
            let budget = |word| player.context_budget(&prompts.playing_query(history, word, max_turns));
            // A word that the tokenizer cannot encode fails its own games.
            let Some((folder, budget)) = budget(word).or_else(|_| budget("a"))? else { continue };
            let cut = budget.cut();
            if cut > 0 && max_length.is_none_or(|asked| asked > budget.room()) {
                let (folder, word) = (folder.to_owned(), word.to_owned());
                return Err(PlayError::ContextTooShort { folder, role, word, budget }.into());
            }
            if cut > 0 {
                let tokens = budget.prompt;
                notes.push(format!(
                    "--max_length: the {role}'s first prompt has {tokens} tokens and loses the first {cut}"
                ));
            }
        }
        Ok(notes)
    }

    /// The number of concurrent games: the minimum of all players.
    fn games_at_a_time(&self) -> usize {
        let attacker = self.attacker.games_at_a_time();
        self.defender.iter().fold(attacker, |games, defender| games.min(defender.games_at_a_time()))
    }

    /// Plays the missing games of a job and counts generated tokens in `tokens`.
    pub(crate) fn play(
        &mut self,
        job: &mut OpenJob,
        prompts: &PromptSet,
        tokens: &TokenCounts,
        observer: &mut dyn JobObserver,
    ) -> Result<Played> {
        let games = self.games_at_a_time();
        let mut attacker = Metered { player: &mut self.attacker, tokens: &tokens.attacker };
        let mut defender = self.defender.as_mut().map(|player| Metered { player, tokens: &tokens.defender });
        let seats = match &mut defender {
            None => Seats::SelfPlay(&mut attacker),
            Some(defender) => Seats::Versus { attacker: &mut attacker, defender },
        };
        Ok(job.play(seats, prompts, games, observer)?)
    }

    /// The work of the players, by role.
    pub(crate) fn work(&self) -> Vec<(&'static str, PlayerWork)> {
        let seats = match &self.defender {
            None => vec![("both", &self.attacker)],
            Some(defender) => vec![("attacker", &self.attacker), ("defender", defender)],
        };
        seats.into_iter().filter_map(|(seat, player)| Some((seat, player.work()?))).collect()
    }
}

/// The number of generated tokens of each player.
#[derive(Debug, Default)]
pub(crate) struct TokenCounts {
    attacker: Cell<u64>,
    defender: Cell<u64>,
}

impl TokenCounts {
    pub(crate) fn sum(&self) -> u64 {
        self.attacker.get() + self.defender.get()
    }
}

/// A player that publishes its number of generated tokens while it plays.
struct Metered<'a> {
    player: &'a mut AnyPlayer,
    tokens: &'a Cell<u64>,
}

impl Player for Metered<'_> {
    fn submit(&mut self, turn: &TurnRequest<'_>) -> Result<(), PlayerError> {
        self.player.submit(turn)
    }

    fn poll(&mut self, mode: PollMode) -> Result<Vec<Reply>, PlayerError> {
        let replies = self.player.poll(mode)?;
        self.tokens.set(self.player.work().map_or(0, |work| work.new_tokens()));
        Ok(replies)
    }
}
