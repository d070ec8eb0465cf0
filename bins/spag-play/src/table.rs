//! The players at the table: one in both seats, or two that share what the machine has.

use std::cell::Cell;

use spag_game::{PromptSet, Role, Seats, Utterance};
use spag_selfplay::{JobObserver, OpenJob, Played, PlayerSpec, PlayerWork};

use crate::error::PlayError;
use crate::metered::Metered;
use spag_cli::{AnyPlayer, PlayerArgs, Result};

/// Who plays.
pub(crate) struct Table {
    /// In both seats, where there is no defender.
    attacker: AnyPlayer,
    defender: Option<AnyPlayer>,
}

impl Table {
    /// Opens the players; the same one in both seats is opened once. So many `processes` on this machine do the same.
    pub(crate) fn open(
        args: &PlayerArgs,
        attacker: &PlayerSpec,
        defender: &PlayerSpec,
        processes: usize,
    ) -> Result<Self> {
        if attacker == defender {
            return Ok(Self { attacker: args.among(processes).open(attacker)?, defender: None });
        }
        let engines = [attacker, defender].iter().filter(|spec| matches!(spec, PlayerSpec::Model(_))).count();
        let args = args.among(engines * processes);
        Ok(Self { attacker: args.open(attacker)?, defender: Some(args.open(defender)?) })
    }

    /// Rejects models that cannot hold the rules and an utterance: they would play without having read what the game
    /// is. `word` is the longest there is.
    ///
    /// # Errors
    /// [`PlayError::ContextTooShort`].
    pub(crate) fn require_room(&self, prompts: &PromptSet, word: &str, max_turns: usize) -> Result<()> {
        let defender = self.defender.as_ref().unwrap_or(&self.attacker);
        // The defender's first prompt holds the attacker's first utterance, of which nothing is known yet.
        let opening = [Utterance::new(Role::Attacker, "")];
        for (player, role, history) in [(&self.attacker, Role::Attacker, &[][..]), (defender, Role::Defender, &opening)]
        {
            let prompt = prompts.playing_query(history, word, max_turns);
            if let Some((folder, budget)) = player.context_budget(&prompt)?.filter(|(_, budget)| !budget.fits()) {
                let (folder, word) = (folder.to_owned(), word.to_owned());
                return Err(PlayError::ContextTooShort { folder, role, word, budget }.into());
            }
        }
        Ok(())
    }

    /// Games that all players can play side by side.
    fn games_at_a_time(&self) -> usize {
        let attacker = self.attacker.games_at_a_time();
        self.defender.iter().fold(attacker, |games, defender| games.min(defender.games_at_a_time()))
    }

    /// Plays what is missing of a job; the tokens made so far stand in `tokens`.
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

    /// What the players have done, with their seats.
    pub(crate) fn work(&self) -> Vec<(&'static str, PlayerWork)> {
        let seats = match &self.defender {
            None => vec![("both", &self.attacker)],
            Some(defender) => vec![("attacker", &self.attacker), ("defender", defender)],
        };
        seats.into_iter().filter_map(|(seat, player)| Some((seat, player.work()?))).collect()
    }
}

/// Tokens that the players have made.
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
