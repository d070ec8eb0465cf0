//! The games and the report of a run folder.
//!
//! Files are listed and read when they are asked for, so that a run in progress can be watched. A request names a file as
//! it is in the list; nothing else can be opened.

mod files;
mod games;
mod index;
mod report;
mod routes;
mod settings;
mod titles;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use serde::Deserialize;
use serde_json::{Value, json};
use spag_game::{Ending, Episode, Game, Labels, Seat};
use spag_io::abridge;
use spag_run::RunFolder;
use spag_serve::ApiError;

use crate::error::{Error, Result};
use crate::game::{Judged, position};
use files::GameFile;
pub(crate) use games::RunGames;
use index::{Entry, GameIndex};

pub(crate) use routes::{add_routes, json_response, json_route};
pub use settings::{RunGame, RunSettings};

/// Games on a page.
const PER_PAGE: usize = 25;
/// Bytes of an utterance that are shown.
const SHOWN: usize = 50_000;
/// Bytes of an utterance in a list.
const EXCERPT: usize = 160;

/// A folder of `spag run`.
pub(crate) struct ShownRun {
    folder: RunFolder,
    /// The game of a folder without settings.
    games: RunGames,
    /// What was read of files that have not changed since.
    indices: Mutex<HashMap<String, Arc<GameIndex>>>,
}

/// Which games are listed. Empty texts hold for every game.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ListQuery {
    /// A file of the list.
    file: String,
    /// The name of an ending, or `failed`.
    ending: String,
    /// The name of a seat, or `none`.
    winner: String,
    /// A part of the item. Case does not matter.
    word: String,
    /// From 1.
    page: Option<usize>,
}

/// One game.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GameQuery {
    file: String,
    /// Its 1-based line.
    row: usize,
}

impl ShownRun {
    /// Opens a folder. Its games are those of its settings, or of `game` if it has none.
    ///
    /// # Errors
    /// It is not a folder, or has no file of games.
    pub(crate) fn open(root: PathBuf, game: Arc<dyn Game>) -> Result<Self> {
        let wrong = |reason: String| Err(Error::Run { path: root.clone(), reason });
        let (folder, games) = (RunFolder::new(&root), RunGames::one(game));
        match files::list(&folder, &RunGames::of_settings(&folder).unwrap_or_else(|| games.clone())) {
            Err(error) => return wrong(error.to_string()),
            Ok(files) if files.is_empty() => {
                return wrong(
                    "it has no games; name a folder of `spag run`, with STAGE/episodes.jsonl or eval/*.jsonl".into(),
                );
            }
            Ok(_) => {}
        }
        Ok(Self { folder, games, indices: Mutex::default() })
    }

    /// As [`ShownRun::open`], of a run that may not have begun.
    pub(crate) fn of_run(root: PathBuf, game: Arc<dyn Game>) -> Self {
        Self { folder: RunFolder::new(root), games: RunGames::one(game), indices: Mutex::default() }
    }

    /// The games of the run.
    pub(crate) fn games_played(&self) -> RunGames {
        RunGames::of_settings(&self.folder).unwrap_or_else(|| self.games.clone())
    }

    /// The folder.
    pub(crate) fn folder(&self) -> &RunFolder {
        &self.folder
    }

    /// Whether there is a report.
    pub(crate) fn has_report(&self) -> bool {
        report::exists(self.folder.files())
    }

    /// The name of the folder.
    pub(crate) fn name(&self) -> String {
        let root = self.folder.root();
        let path = root.canonicalize().unwrap_or_else(|_| root.to_owned());
        path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
    }

    /// The files of games, and whether there is a report.
    pub(crate) fn list(&self) -> std::result::Result<Value, ApiError> {
        let games = self.games_played();
        let files = files::list(&self.folder, &games).map_err(|error| self.gone(&error))?;
        let file = |file: &GameFile| json!({"file": file.file, "group": file.group, "title": file.title});
        let mut list = json!({
            "name": self.name(),
            "files": files.iter().map(file).collect::<Vec<_>>(),
            "report": self.has_report(),
        });
        for (setting, value) in games.settings() {
            list[setting] = value;
        }
        Ok(list)
    }

    /// A page of the games of a file that meet all conditions.
    pub(crate) fn games(&self, query: &ListQuery) -> std::result::Result<Value, ApiError> {
        let labels = self.games_played().labels(&query.file);
        let filter = Filter::read(query, labels)?;
        let index = self.index(&query.file)?;
        let matching: Vec<&Entry> = index.games.iter().filter(|entry| filter.wants(entry)).collect();
        let pages = matching.len().div_ceil(PER_PAGE).max(1);
        let page = query.page.unwrap_or(1).clamp(1, pages);
        let shown = matching.iter().skip((page - 1) * PER_PAGE).take(PER_PAGE);
        let games =
            shown.map(|entry| Ok(row_json(entry, &index::read(self.folder.files(), &query.file, entry)?, labels)));
        let games = games.collect::<std::result::Result<Vec<_>, ApiError>>()?;
        let endings = labels.endings.iter().map(|ending| {
            let count = index.games.iter().filter(|entry| entry.ending == Some(*ending)).count();
            json!({"ending": ending.name, "title": ending.title, "winner": ending.winner, "games": count})
        });
        let endings: Vec<Value> = endings.collect();
        Ok(json!({
            "games": games,
            "seats": labels.seats,
            "item": labels.item,
            "page": page,
            "pages": pages,
            "matching": matching.len(),
            "total": index.games.len(),
            "endings": endings,
            "failed": index.games.iter().filter(|entry| entry.ending.is_none()).count(),
            "unreadable": index.unreadable,
            "unreadable_rows": index.reasons.iter().map(|(row, why)| json!({"row": row, "reason": why})).collect::<Vec<_>>(),
            "cut_after": index.cut.then_some(index::MAX_GAMES),
        }))
    }

    /// A whole game with its verdict.
    pub(crate) fn one_game(&self, query: &GameQuery) -> std::result::Result<Value, ApiError> {
        let index = self.index(&query.file)?;
        let entry = index.games.iter().find(|entry| entry.row == query.row);
        let entry = entry.ok_or_else(|| ApiError::not_found(format!("This file has no game in row {}", query.row)))?;
        let episode = index::read(self.folder.files(), &query.file, entry)?;
        let games = self.games_played();
        let game = games.of(&query.file);
        let judged = Judged::of(&episode, &**game).map_err(|error| ApiError::bad(error.to_string()))?;
        let mut body = row_json(entry, &episode, game.labels());
        body["history"] = history_json(&episode, SHOWN);
        body["max_turns"] = episode.max_turns.into();
        body["title"] = game.labels().title.into();
        body["seats"] = json!(game.labels().seats);
        // A failed game has no outcome, though it is over.
        body["position"] = position::of_record(&episode, &**game, SHOWN);
        body["verdict"] = if entry.ending.is_some() { judged.final_json() } else { Value::Null };
        Ok(body)
    }

    /// The report as data.
    pub(crate) fn report(&self) -> std::result::Result<Value, ApiError> {
        report::answer(self.folder.files())
    }

    fn gone(&self, error: &std::io::Error) -> ApiError {
        ApiError::server(format!("The run folder cannot be read: {}", spag_io::quote(&error.to_string())))
    }

    /// A file of the list, and the index of its games.
    fn index(&self, name: &str) -> std::result::Result<Arc<GameIndex>, ApiError> {
        let games = self.games_played();
        let files = files::list(&self.folder, &games).map_err(|error| self.gone(&error))?;
        let Some(file) = files.into_iter().find(|file| file.file == name) else {
            let problem = format!("this run has no games in {}", spag_io::quote(name));
            return Err(ApiError::field("file", problem));
        };
        let unreadable = |error: std::io::Error| {
            ApiError::server(format!("{}: {}", spag_io::quote(name), spag_io::quote(&error.to_string())))
        };
        let opened = self.folder.files().open(&file.file).map_err(unreadable)?;
        let version = index::version(&opened).map_err(unreadable)?;
        let known = || self.indices.lock().ok()?.get(name).filter(|index| index.version == version).cloned();
        if let Some(index) = known() {
            return Ok(index);
        }
        let index = Arc::new(GameIndex::build(opened, version, &**games.of(name)).map_err(unreadable)?);
        if let Ok(mut indices) = self.indices.lock() {
            indices.insert(name.to_owned(), index.clone());
        }
        Ok(index)
    }
}

/// What a list shows of a game.
fn row_json(entry: &Entry, episode: &Episode, labels: &Labels) -> Value {
    let text = |key: &str| episode.extra.get(key).and_then(Value::as_str).map(|text| abridge(text, EXCERPT));
    let last = episode.history.get(entry.length.saturating_sub(1)).map_or("", |said| said.content.as_str());
    json!({
        "row": entry.row,
        "game": episode.extra.get("game").and_then(Value::as_u64),
        labels.item_key: abridge(&episode.item, EXCERPT),
        "players": text("players"),
        "ending": entry.ending.map(|ending| ending.name),
        "winner": entry.winner,
        "length": entry.length,
        "last": abridge(last, EXCERPT),
        "failure": text("reason"),
    })
}

/// The utterances of a game and the reasoning before them, each of about `limit` bytes at most.
pub(crate) fn history_json(episode: &Episode, limit: usize) -> Value {
    let said = |said: &spag_game::Utterance| {
        let mut shown = json!({"role": said.seat, "content": abridge(&said.content, limit)});
        if let Some(reasoning) = &said.reasoning {
            shown["reasoning"] = abridge(reasoning, limit).into();
        }
        if let Some(end) = said.reasoning_end {
            shown["reasoning_end"] = json!(end);
        }
        shown
    };
    episode.history.iter().map(said).collect()
}

/// The conditions of a list.
struct Filter {
    ending: Option<Option<Ending>>,
    winner: Option<Option<Seat>>,
    word: String,
}

impl Filter {
    fn read(query: &ListQuery, labels: &Labels) -> std::result::Result<Self, ApiError> {
        let names = || labels.endings.iter().map(|ending| ending.name).collect::<Vec<_>>().join(", ");
        let ending = match query.ending.as_str() {
            "" => None,
            "failed" => Some(None),
            name => match labels.ending(name) {
                Some(ending) => Some(Some(ending)),
                None => return Err(ApiError::field("ending", format!("expected one of {}, failed", names()))),
            },
        };
        let winner = match query.winner.as_str() {
            "" => None,
            "none" => Some(None),
            name => match labels.seats.into_iter().find(|seat| seat.name() == name) {
                Some(seat) => Some(Some(seat)),
                None => {
                    let [first, second] = labels.seats;
                    return Err(ApiError::field("winner", format!("expected {first}, {second} or none")));
                }
            },
        };
        Ok(Self { ending, winner, word: query.word.trim().to_lowercase() })
    }

    fn wants(&self, entry: &Entry) -> bool {
        self.ending.is_none_or(|ending| entry.ending == ending)
            && self.winner.is_none_or(|winner| entry.winner == winner)
            && (self.word.is_empty() || entry.word.contains(&self.word))
    }
}
