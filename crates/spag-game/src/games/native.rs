//! What a native game declares, and the match that plays it.

use std::fmt;

use serde_json::{Map, Value};
use spag_io::{PromptFormat, TurnPrompt};

use super::options::Options;
use super::python_random::PythonRandom;
use super::table::Table;
use crate::completion::UtteranceRule;
use crate::ending::Ending;
use crate::episode::Episode;
use crate::error::Result;
use crate::game::{Game, Match, Refusal, Ruling};
use crate::labels::Labels;
use crate::message::{Message, MessageKind, prompt_of};
use crate::seat::{SEATS, Seat};
use crate::spec::GameSpec;

/// How the text of a player becomes an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ActionText {
    /// As it is.
    AsSaid,
    /// In brackets, if it has none.
    Bracketed,
}

/// The options of a game: what is known before its seed.
pub(crate) trait Native: fmt::Debug + Send + Sync + 'static {
    /// The game in progress.
    type Position: Position;

    /// Names of the game.
    const LABELS: &'static Labels;
    /// What the game counts for each player beside who wins, if it does.
    const AMOUNTS: Option<&'static str> = None;
    /// How a text becomes an action.
    const ACTION_TEXT: ActionText = ActionText::Bracketed;
    /// Tags that players cannot write, so that no text looks like another's.
    const TAGS: [&'static str; 3] = ["[Player 0]", "[Player 1]", "[GAME]"];

    /// The game about `item`, or of which `random` draws everything.
    ///
    /// # Errors
    /// There is no game about this item.
    fn deal(&self, item: &str, random: PythonRandom) -> Result<Self::Position>;

    /// What the protocol of `spag env` calls an ending. Its name by default.
    fn reason(ending: Ending) -> &'static str {
        ending.label().name
    }
}

/// A game in progress, without what the [`Table`] has.
pub(crate) trait Position: fmt::Debug + Send {
    /// The rules as a player is told them.
    fn prompt(&self, player: usize) -> String;

    /// What follows the prompts, and who begins if not player 0.
    fn begin(&mut self, _: &mut Table) {}

    /// What an action of the player to move does.
    fn play(&mut self, action: &str, table: &mut Table);

    /// What both players may know.
    fn public(&self, table: &Table) -> Map<String, Value>;

    /// What one player alone knows.
    fn private(&self, _player: usize) -> Map<String, Value> {
        Map::new()
    }

    /// The actions that are legal now, if the game has a list of them.
    fn legal_actions(&self) -> Option<Vec<String>> {
        None
    }
}

/// A game all of whose draws follow from a seed, with matches that do not borrow from it.
pub trait SeededGame: Game {
    /// A game that the seed deals.
    ///
    /// # Errors
    /// Data of the game are invalid.
    fn start_seeded(&self, seed: u64) -> Result<Box<dyn Match>>;

    /// What the protocol of `spag env` calls an ending.
    fn reason(&self, ending: Ending) -> &'static str;
}

/// A native game with its options.
#[derive(Debug)]
pub(crate) struct NativeGame<N> {
    pub(crate) native: N,
    /// The options that it was made of.
    options: Map<String, Value>,
    /// Refusals that a player may have within a turn without losing.
    error_allowance: u32,
    /// The form of prompts.
    format: PromptFormat,
}

impl<N: Native> NativeGame<N> {
    /// The game with the option that all games have, once the game's own are read.
    pub(crate) fn new(native: N, mut options: Options<'_>, format: PromptFormat) -> Result<Self> {
        let given = options.given().clone();
        let error_allowance = options.integer("error_allowance", 0..=99, 1)? as u32;
        options.finish()?;
        Ok(Self { native, options: given, error_allowance, format })
    }

    fn begin(&self, item: &str, seed: u64) -> Result<Box<dyn Match>> {
        let mut position = self.native.deal(item, PythonRandom::new(seed))?;
        let mut table = Table::new(N::LABELS.seats, self.error_allowance);
        for player in 0..SEATS {
            table.tell_only(player, MessageKind::Prompt, position.prompt(player));
        }
        position.begin(&mut table);
        Ok(Box::new(NativeMatch::<N> { position, table, format: self.format }))
    }
}

impl<N: Native> Game for NativeGame<N> {
    fn labels(&self) -> &'static Labels {
        N::LABELS
    }

    fn amounts(&self) -> Option<&'static str> {
        N::AMOUNTS
    }

    fn settings(&self) -> Map<String, Value> {
        self.options.clone()
    }

    fn start(&self, spec: &GameSpec) -> Result<Box<dyn Match + '_>> {
        self.begin(&spec.item, spec.seed)
    }
}

impl<N: Native> SeededGame for NativeGame<N> {
    fn start_seeded(&self, seed: u64) -> Result<Box<dyn Match>> {
        self.begin("", seed)
    }

    fn reason(&self, ending: Ending) -> &'static str {
        N::reason(ending)
    }
}

struct NativeMatch<N: Native> {
    position: N::Position,
    table: Table,
    format: PromptFormat,
}

impl<N: Native> fmt::Debug for NativeMatch<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NativeMatch").field("position", &self.position).field("table", &self.table).finish()
    }
}

impl<N: Native> Match for NativeMatch<N> {
    fn to_move(&self) -> Seat {
        self.table.seat()
    }

    fn prompt(&self, seat: Seat, _: &Episode) -> TurnPrompt {
        prompt_of(self.table.messages(), seat, self.format)
    }

    fn utterance_rule(&self) -> UtteranceRule {
        match self.format {
            PromptFormat::Plain => UtteranceRule::Trimmed,
            PromptFormat::Chat => UtteranceRule::Message,
        }
    }

    fn apply(&mut self, text: &str) -> Ruling {
        let Self { position, table, .. } = self;
        if !table.is_over() {
            let action = match N::ACTION_TEXT {
                ActionText::Bracketed if !text.contains(['[', ']']) => format!("[{text}]"),
                _ => text.to_owned(),
            };
            table.begin_step(N::TAGS.iter().fold(action.clone(), |shown, tag| match shown.contains(tag) {
                true => shown.replace(tag, ""),
                false => shown,
            }));
            position.play(&action, table);
            table.end_step();
        }
        Ruling { refusal: table.refused(), verdict: table.verdict() }
    }

    fn apply_nothing(&mut self) -> Ruling {
        let Self { table, .. } = self;
        if !table.is_over() {
            table.begin_step(String::new());
            table.refuse(Refusal::Format, "nothing was said.");
            table.end_step();
        }
        Ruling { refusal: table.refused(), verdict: table.verdict() }
    }

    fn messages(&self) -> &[Message] {
        self.table.messages()
    }

    fn public_state(&self) -> Map<String, Value> {
        self.position.public(&self.table)
    }

    fn private_state(&self, seat: Seat) -> Map<String, Value> {
        self.position.private(seat.index())
    }

    fn legal_actions(&self) -> Option<Vec<String>> {
        if self.table.is_over() { None } else { self.position.legal_actions() }
    }
}

/// A JSON object of these fields.
pub(crate) fn object<const N: usize>(fields: [(&str, Value); N]) -> Map<String, Value> {
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
