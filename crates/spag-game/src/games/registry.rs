//! Games by their names.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};
use spag_io::{PromptFormat, nearest_name, quote};

use super::connect_four::{self, ConnectFour};
use super::data::{DataKind, FactPair, GameData, NO_DATA};
use super::dont_say_it::{self, DontSayIt};
use super::kuhn_poker::{self, KuhnPoker};
use super::liars_dice::{self, LiarsDice};
use super::native::{Native, NativeGame, SeededGame};
use super::nim::{self, Nim};
use super::options::Options;
use super::simple_negotiation::{self, SimpleNegotiation};
use super::taboo::{self, SeededTaboo};
use super::tic_tac_toe::{self, TicTacToe};
use super::truth_and_deception::{self, TruthAndDeception};
use crate::error::{Error, Result};
use crate::labels::Labels;

/// Makes a game of its options and data.
type Make = fn(&mut Options<'_>, Data<'_>) -> Result<Made>;

/// A game whose options were read, but for those that all games have.
type Made = Box<dyn FnOnce(Options<'_>, PromptFormat) -> Result<Box<dyn SeededGame>>>;

/// A game of the table.
struct Entry {
    labels: &'static Labels,
    data: DataKind,
    make: Make,
}

fn made<N: Native>(native: N) -> Made {
    Box::new(move |options, format| Ok(Box::new(NativeGame::new(native, options, format)?)))
}

static GAMES: &[Entry] = &[
    Entry {
        labels: &taboo::LABELS,
        data: DataKind::Words,
        make: |options, data| Ok(made(SeededTaboo::new(data.words()?, options)?)),
    },
    Entry { labels: &kuhn_poker::LABELS, data: DataKind::None, make: |options, _| Ok(made(KuhnPoker::new(options)?)) },
    Entry { labels: &tic_tac_toe::LABELS, data: DataKind::None, make: |_, _| Ok(made(TicTacToe)) },
    Entry {
        labels: &connect_four::LABELS,
        data: DataKind::None,
        make: |options, _| Ok(made(ConnectFour::new(options)?)),
    },
    Entry { labels: &nim::LABELS, data: DataKind::None, make: |options, _| Ok(made(Nim::new(options)?)) },
    Entry { labels: &liars_dice::LABELS, data: DataKind::None, make: |options, _| Ok(made(LiarsDice::new(options)?)) },
    Entry {
        labels: &dont_say_it::LABELS,
        data: DataKind::Words,
        make: |options, data| Ok(made(DontSayIt::new(data.words()?, options)?)),
    },
    Entry {
        labels: &truth_and_deception::LABELS,
        data: DataKind::Facts,
        make: |options, data| Ok(made(TruthAndDeception::new(data.facts()?, options)?)),
    },
    Entry {
        labels: &simple_negotiation::LABELS,
        data: DataKind::None,
        make: |options, _| Ok(made(SimpleNegotiation::new(options)?)),
    },
];

/// The data of a game, of the kind that it needs.
#[derive(Clone, Copy)]
struct Data<'a> {
    game: &'static str,
    data: Option<&'a GameData>,
}

impl Data<'_> {
    fn words(self) -> Result<Arc<[String]>> {
        match self.data {
            Some(GameData::Words(words)) if !words.is_empty() => Ok(words.clone()),
            _ => Err(self.missing("it needs a list of words, one a line")),
        }
    }

    fn facts(self) -> Result<Arc<[FactPair]>> {
        match self.data {
            Some(GameData::Facts(facts)) if !facts.is_empty() => Ok(facts.clone()),
            _ => Err(self.missing("it needs a JSON list of pairs of facts")),
        }
    }

    fn missing(self, reason: &'static str) -> Error {
        Error::GameData { game: self.game.to_owned(), reason }
    }
}

/// What files, reports and pages call the parts of each game, in the order of the table.
pub fn labels() -> impl Iterator<Item = &'static Labels> {
    GAMES.iter().map(|entry| entry.labels)
}

fn entry(name: &str) -> Result<&'static Entry> {
    GAMES.iter().find(|entry| entry.labels.name == name).ok_or_else(|| {
        let names = GAMES.iter().map(|entry| entry.labels.name);
        let hint = match nearest_name(name, names.clone()) {
            Some(nearest) => format!("did you mean \"{nearest}\"?"),
            None => format!("there are \"{}\"", names.collect::<Vec<_>>().join("\", \"")),
        };
        Error::UnknownGame { name: quote(name), hint }
    })
}

/// The kind of data that a game needs.
///
/// # Errors
/// There is no game of this name.
pub fn data_kind(name: &str) -> Result<DataKind> {
    Ok(entry(name)?.data)
}

impl GameData {
    /// Reads the data of a game: words one a line, or TextArena's list of
    /// `{"facts": {"fact1": "…", "fact2": "…"}, "correct_fact": "fact1"}`.
    ///
    /// # Errors
    /// The game is unknown or takes no data, or the file cannot be read, is invalid or is empty.
    pub fn read(game: &str, path: impl AsRef<Path>) -> Result<Self> {
        Self::of_kind(data_kind(game)?, game, path.as_ref())
    }
}

/// The game of this name, with these options and data, and prompts of this form. `docs/GAMES.md` lists games and options.
///
/// ```
/// use serde_json::{Map, json};
/// use spag_game::games;
/// use spag_io::PromptFormat;
///
/// let options = Map::from_iter([("rounds".to_owned(), json!(1))]);
/// let game = games::by_name("kuhn-poker", &options, None, PromptFormat::Plain)?;
/// assert_eq!(game.start_seeded(7)?.to_move().index(), 1);
/// # Ok::<(), spag_game::Error>(())
/// ```
///
/// # Errors
/// There is no such game, an option is unknown or out of range, or data are missing or not of this game.
pub fn by_name(
    name: &str,
    options: &Map<String, Value>,
    data: Option<&GameData>,
    format: PromptFormat,
) -> Result<Box<dyn SeededGame>> {
    let entry = entry(name)?;
    if entry.data == DataKind::None && data.is_some() {
        return Err(Error::GameData { game: name.to_owned(), reason: NO_DATA });
    }
    let game = entry.labels.name;
    let mut options = Options::new(game, options);
    let made = (entry.make)(&mut options, Data { game, data })?;
    made(options, format)
}
