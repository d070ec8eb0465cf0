//! A session of `spag env`: one game after another, played by requests.

mod answer;
mod lines;
mod request;

use serde_json::{Map, Value};
use spag_io::{PromptEnd, PromptFormat, ReasoningRule};

pub use answer::{Code, Observation, Problem, Reply};
pub use request::{Request, parse_object, parse_seed};

use crate::error::Result;
use crate::game::Match;
use crate::games::{self, GameData, SeededGame};
use crate::seat::{SEATS, Seat};
use crate::verdict::Verdict;

/// Plays games of one name, each started by a reset.
///
/// ```
/// use spag_game::session::{Reply, Session};
///
/// let mut session = Session::new("nim", None)?;
/// let Reply::Line(line) = session.respond(br#"{"type":"reset","seed":7,"options":{"piles":[1]}}"#) else { panic!() };
/// assert!(line.starts_with(r#"{"type":"observation","player":0,"done":false"#));
/// let Reply::Line(line) = session.respond(br#"{"type":"step","action":"[0 1]"}"#) else { panic!() };
/// assert!(line.contains(r#""rewards":{"0":1,"1":-1},"reason":"last_object""#));
/// # Ok::<(), spag_game::Error>(())
/// ```
#[derive(Debug)]
pub struct Session {
    name: String,
    data: Option<GameData>,
    /// What an action is of the text of a step.
    reasoning: ReasoningRule,
    playing: Option<Playing>,
}

/// A game and how much of it was shown.
struct Playing {
    game: Box<dyn SeededGame>,
    state: Box<dyn Match>,
    /// Messages that each seat was given, its own or not.
    given: [usize; SEATS],
    verdict: Option<Verdict>,
}

impl std::fmt::Debug for Playing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Playing").field("state", &self.state).field("given", &self.given).finish_non_exhaustive()
    }
}

impl Session {
    /// A session of the game of this name.
    ///
    /// # Errors
    /// There is no such game, or data are missing or not of this game.
    pub fn new(name: &str, data: Option<GameData>) -> Result<Self> {
        games::by_name(name, &Map::new(), data.as_ref(), PromptFormat::Plain)?;
        Ok(Self { name: name.to_owned(), data, reasoning: ReasoningRule::None, playing: None })
    }

    /// The same session, whose players think: an action is what the text of a step says by this rule, and no player is shown the
    /// rest.
    pub fn with_reasoning(self, reasoning: ReasoningRule) -> Self {
        Self { reasoning, ..self }
    }

    /// The answer to a line, without its end.
    pub fn respond(&mut self, line: &[u8]) -> Reply {
        let answer = match Request::parse(line) {
            Ok(Request::Reset { seed, options }) => self.reset(seed.unwrap_or_else(drawn_seed), &options),
            Ok(Request::Step { action }) => self.step(&action),
            Ok(Request::Close) => return Reply::Close,
            Err(problem) => Err(problem),
        };
        Reply::Line(answer.map_or_else(|problem| problem.to_line(), |observation| observation.to_line()))
    }

    /// Starts a game, whether or not one is in progress.
    ///
    /// # Errors
    /// An option is unknown or out of range. A game in progress goes on.
    pub fn reset(&mut self, seed: u64, options: &Map<String, Value>) -> Result<Observation<'_>, Problem> {
        let start = || {
            let game = games::by_name(&self.name, options, self.data.as_ref(), PromptFormat::Plain)?;
            let state = game.start_seeded(seed)?;
            Ok(Playing { game, state, given: [0; SEATS], verdict: None })
        };
        let started = start().map_err(|error: crate::Error| Problem::new(Code::Validation, error.to_string()))?;
        let playing = self.playing.insert(started);
        Ok(Observation { seed: Some(seed), ..playing.observe(None) })
    }

    /// Applies the text of the player to move.
    ///
    /// # Errors
    /// No game is in progress.
    pub fn step(&mut self, action: &str) -> Result<Observation<'_>, Problem> {
        let problem = |message: &str| Problem::new(Code::Session, message.to_owned());
        let playing = self.playing.as_mut().ok_or_else(|| problem("no game is in progress; send a reset first"))?;
        if playing.verdict.is_some() {
            return Err(problem("the game has ended; send a reset first"));
        }
        let ruling = match self.reasoning.split(action, PromptEnd::Plain).utterance {
            Some(action) => playing.state.apply(&action),
            None => playing.state.apply_nothing(),
        };
        playing.verdict = ruling.verdict;
        Ok(playing.observe(ruling.refusal))
    }

    /// Ends the game in progress, if any, without a result.
    pub fn abandon(&mut self) {
        self.playing = None;
    }

    /// The texts of all legal actions now, if the game has a list of them.
    pub fn legal_actions(&self) -> Option<Vec<String>> {
        self.playing.as_ref()?.state.legal_actions()
    }
}

impl Playing {
    /// What the player to move has not been given yet, and the state.
    fn observe(&mut self, refusal: Option<crate::Refusal>) -> Observation<'_> {
        let Self { game, state, given, verdict } = self;
        let state = &**state;
        let ended = verdict.is_some();
        let seat: Seat = state.to_move();
        let messages = state.messages();
        let from = if ended { messages.len() } else { std::mem::replace(&mut given[seat.index()], messages.len()) };
        Observation {
            player: (!ended).then(|| seat.index()),
            refusal,
            observations: messages[from..].iter().filter(|message| message.is_for(seat)).collect(),
            state: state.public_state(),
            private: (!ended).then(|| state.private_state(seat)),
            end: verdict.map(|verdict| {
                let rewards = game.labels().seats.map(|seat| verdict.reward(seat) as i64);
                (rewards, game.reason(verdict.ending))
            }),
            seed: None,
        }
    }
}

/// A seed that all JSON libraries read exactly: below 2^53.
pub fn drawn_seed() -> u64 {
    rand::random::<u64>() >> 11
}
