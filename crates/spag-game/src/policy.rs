//! Players: anything that answers a prompt with an utterance.

use spag_io::TurnPrompt;

use crate::completion::UtteranceRule;
use crate::episode::{Episode, ReasoningEnd};
use crate::failure::{PolicyError, TurnFailure};
use crate::generation::Generation;
use crate::seat::Seat;

/// One turn of a player in one game.
#[derive(Clone, Copy, Debug)]
pub struct TurnRequest<'a> {
    /// Number of the game.
    pub number: usize,
    /// The seat to move.
    pub seat: Seat,
    /// The game so far.
    pub episode: &'a Episode,
    /// The game so far, as the player sees it.
    pub prompt: &'a TurnPrompt,
    /// How a model's completion of the prompt becomes the utterance.
    pub utterance_rule: UtteranceRule,
    /// The utterances to choose from, if the game has such a list.
    pub legal_actions: Option<&'a [String]>,
    /// Seed of the game.
    pub game_seed: u64,
    /// Seed of this utterance, derived from the game's seed and the length of the history.
    pub seed: u64,
}

/// The answer to a [`TurnRequest`].
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// Number of the game.
    pub number: usize,
    /// The utterance, or why there is none. A failure ends this game and no other.
    pub utterance: Result<Said, TurnFailure>,
}

/// What a player says in its turn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Said {
    /// The utterance.
    pub text: String,
    /// What the player thought before, which no other player sees.
    pub reasoning: Option<String>,
    /// How its reasoning ended, if not as the player wished.
    pub reasoning_end: Option<ReasoningEnd>,
    /// The tokens that it was decoded from, if a model of this process generated them.
    pub generation: Option<Generation>,
}

impl From<String> for Said {
    fn from(text: String) -> Self {
        Self { text, ..Self::default() }
    }
}

impl From<&str> for Said {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

/// Whether a [`Policy::poll`] may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollMode {
    /// Does not wait for anything outside the process. A local model still computes a step.
    NonBlocking,
    /// No other player has open turns. If this one has, it makes progress: a local model computes a step, a remote one
    /// waits for an answer, for at most about 100 ms so that interrupts are noticed.
    Blocking,
}

/// Answers turns of many games, each when it is ready.
///
/// An utterance must depend on its [`TurnRequest`] alone, so that games do not depend on how many are played at a time.
///
/// ```
/// use spag_game::taboo::Outcome;
/// use spag_game::{
///     CollectedGames, GameSpec, PlayConfig, Policy, PolicyError, PollMode, PromptSet, Reply, Rules, Seats, TurnRequest,
///     play_games,
/// };
///
/// /// Repeats the last utterance.
/// #[derive(Default)]
/// struct Parrot {
///     ready: Vec<Reply>,
/// }
///
/// impl Policy for Parrot {
///     fn submit(&mut self, turn: &TurnRequest<'_>) -> Result<(), PolicyError> {
///         let utterance = turn.episode.history.last().map_or("Hello!".to_owned(), |last| last.content.clone());
///         self.ready.push(Reply { number: turn.number, utterance: Ok(utterance.into()) });
///         Ok(())
///     }
///
///     fn poll(&mut self, _: PollMode) -> Result<Vec<Reply>, PolicyError> {
///         Ok(std::mem::take(&mut self.ready))
///     }
/// }
///
/// # fn main() -> spag_game::Result<()> {
/// let spec = GameSpec { number: 0, item: "tea".into(), max_turns: 3, seed: 1 , sampling_seed: None};
/// let (prompts, config, mut games) = (PromptSet::default(), PlayConfig::default(), CollectedGames::default());
/// play_games(&Rules::default().game(&prompts), [spec], Seats::SelfPlay(&mut Parrot::default()), &config, &mut games)?;
/// assert_eq!(Outcome::from(games.finished[0].verdict), Outcome::Tie);
/// # Ok(())
/// # }
/// ```
pub trait Policy {
    /// Accepts a turn. A later [`Policy::poll`] returns its reply. At most one turn of a game is open at a time.
    ///
    /// # Errors
    /// The player cannot continue; the run ends.
    fn submit(&mut self, turn: &TurnRequest<'_>) -> Result<(), PolicyError>;

    /// Returns the replies that are ready, in any order.
    ///
    /// # Errors
    /// The player cannot continue; the run ends. A turn that fails alone is a [`TurnFailure`] in its reply.
    fn poll(&mut self, mode: PollMode) -> Result<Vec<Reply>, PolicyError>;
}

/// A player that answers at once by a rule, for tests and scripted opponents.
///
/// ```
/// use spag_game::taboo::Outcome;
/// use spag_game::{
///     CollectedGames, GameSpec, PlayConfig, PromptSet, Rules, ScriptedPolicy, Seats, play_games,
/// };
///
/// # fn main() -> spag_game::Result<()> {
/// let mut player = ScriptedPolicy::lines(["What do you drink?", "Hot things.", "With milk?", "Tea, yes."]);
/// let spec = GameSpec { number: 0, item: "tea".into(), max_turns: 5, seed: 1 , sampling_seed: None};
/// let (prompts, config, mut games) = (PromptSet::default(), PlayConfig::default(), CollectedGames::default());
/// play_games(&Rules::default().game(&prompts), [spec], Seats::SelfPlay(&mut player), &config, &mut games)?;
/// assert_eq!(Outcome::from(games.finished[0].verdict), Outcome::AttackerWins);
/// assert_eq!(games.finished[0].episode.history.len(), 4);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ScriptedPolicy<F> {
    rule: F,
    ready: Vec<Reply>,
}

impl<F: FnMut(&TurnRequest<'_>) -> String> ScriptedPolicy<F> {
    /// A player whose utterances are what `rule` returns.
    pub fn new(rule: F) -> Self {
        Self { rule, ready: Vec::new() }
    }
}

impl ScriptedPolicy<()> {
    /// A player that chooses any of the legal actions, by the seed of the turn; of a game without a list it says nothing.
    pub fn random_actions() -> ScriptedPolicy<impl FnMut(&TurnRequest<'_>) -> String> {
        ScriptedPolicy::new(|turn: &TurnRequest<'_>| match turn.legal_actions {
            Some(actions @ [_, ..]) => actions[(turn.seed % actions.len() as u64) as usize].clone(),
            _ => String::new(),
        })
    }

    /// A player that gives the same lines in every game: line k as utterance k of the game, then empty utterances.
    pub fn lines(
        lines: impl IntoIterator<Item = impl Into<String>>,
    ) -> ScriptedPolicy<impl FnMut(&TurnRequest<'_>) -> String> {
        let lines: Vec<String> = lines.into_iter().map(Into::into).collect();
        ScriptedPolicy::new(move |turn: &TurnRequest<'_>| {
            lines.get(turn.episode.history.len()).cloned().unwrap_or_default()
        })
    }
}

impl<F: FnMut(&TurnRequest<'_>) -> String> Policy for ScriptedPolicy<F> {
    fn submit(&mut self, turn: &TurnRequest<'_>) -> Result<(), PolicyError> {
        let utterance = Ok((self.rule)(turn).into());
        self.ready.push(Reply { number: turn.number, utterance });
        Ok(())
    }

    fn poll(&mut self, _: PollMode) -> Result<Vec<Reply>, PolicyError> {
        Ok(std::mem::take(&mut self.ready))
    }
}
