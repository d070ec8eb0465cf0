//! The games of a run as they end: counts of each file.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::time::{Instant, SystemTime};

use serde_json::{Value, json};
use spag_game::{Episode, Judge, Tally};
use spag_io::{EnclosedFolder, EntryKind};
use spag_run::{Follower, Found, Line, Thinned};

use super::feed::Feed;
use crate::runs::RunGames;

/// Games of a file that are told apart by their numbers.
const NUMBERED: usize = 1 << 20;
/// Files of games.
const MAX_SETS: usize = 500;

/// The games of one file, and of the files of further ranks beside it while they are played.
struct GameSet {
    /// The file's path in the run folder.
    file: String,
    /// The folder of its stage.
    folder: String,
    title: String,
    /// By name, without the games that failed.
    followers: BTreeMap<String, Follower>,
    failed: Follower,
    failures: usize,
    /// The numbers of counted games: the finished file has the games of all ranks once more.
    known: HashSet<u64>,
    /// Games that the feed had before the files were read again.
    shown: HashSet<u64>,
    counts: Tally,
    /// Counts after some of the games.
    course: Thinned<Tally>,
    unreadable: usize,
}

impl GameSet {
    fn new(run: &EnclosedFolder, folder: &str, name: &str, games: &RunGames) -> Self {
        let file = if folder.is_empty() { format!("{name}.jsonl") } else { format!("{folder}/{name}.jsonl") };
        let title = games.title(&file);
        let failed = Follower::new(run, format!("{folder}/{name}_failed.jsonl"));
        Self {
            file,
            folder: folder.to_owned(),
            title,
            followers: BTreeMap::new(),
            failed,
            failures: 0,
            known: HashSet::new(),
            shown: HashSet::new(),
            counts: Tally::new(games.labels(folder)),
            course: Thinned::default(),
            unreadable: 0,
        }
    }

    /// The time of its newest file.
    fn changed(&self) -> Option<SystemTime> {
        self.followers.values().filter_map(Follower::changed).max()
    }

    /// Reads new games and pushes them to the feed. Returns whether there are more.
    ///
    /// # Errors
    /// A file cannot be read.
    fn update(&mut self, deadline: Instant, judge: &mut dyn Judge, feed: &mut Feed) -> io::Result<bool> {
        let failed = self.failed.read(deadline, |_| self.failures += 1)?;
        if failed == Found::Restarted {
            self.failures = 0;
            self.failed.restart();
        }
        let mut found = self.read(deadline, judge, feed)?;
        if found.contains(&Found::Restarted) {
            // The finished file replaces those of the ranks; or a stage begins again.
            self.shown.extend(self.known.drain());
            (self.counts, self.course, self.unreadable) = (Tally::new(self.counts.labels()), Thinned::default(), 0);
            self.followers.values_mut().for_each(Follower::restart);
            found = self.read(deadline, judge, feed)?;
        }
        self.followers.retain(|_, follower| follower.is_there());
        let is_behind = found.contains(&Found::More);
        if !is_behind {
            self.shown.clear();
        }
        Ok(is_behind)
    }

    fn read(&mut self, deadline: Instant, judge: &mut dyn Judge, feed: &mut Feed) -> io::Result<Vec<Found>> {
        let mut followers = std::mem::take(&mut self.followers);
        let read = |follower: &mut Follower| {
            follower.read(deadline, |line| {
                if let Some((number, episode)) = self.add(&line, judge)
                    && !self.shown.contains(&number)
                {
                    feed.push(&self.file, episode);
                }
            })
        };
        let found = followers.values_mut().map(read).collect();
        self.followers = followers;
        found
    }

    /// Counts a line. Returns the game and its number if it is one that was not known.
    fn add(&mut self, line: &Line<'_>, judge: &mut dyn Judge) -> Option<(u64, Episode)> {
        let Line::Whole(text, offset) = *line else {
            self.unreadable += 1;
            return None;
        };
        if text.trim_ascii().is_empty() {
            return None;
        }
        let judged = serde_json::from_slice::<Episode>(text).ok().and_then(|episode| {
            let verdict = judge.judge(&episode.view()).ok()?;
            Some((verdict, episode))
        });
        let Some((verdict, episode)) = judged else {
            self.unreadable += 1;
            return None;
        };
        // A file of another program has no numbers; its games are told apart by their places.
        let number = episode.extra.get("game").and_then(Value::as_u64).unwrap_or(u64::MAX - offset);
        if self.known.len() < NUMBERED && !self.known.insert(number) {
            return None;
        }
        self.counts.add_game(&episode, &verdict);
        self.course.add(self.counts.clone());
        Some((number, episode))
    }

    /// Counts and the course of the win rates.
    fn json(&self) -> Value {
        let counts = &self.counts;
        let labels = counts.labels();
        let [first, second] = labels.seats;
        let point = |counts: &Tally| [counts.games(), counts.wins(first), counts.wins(second)];
        let endings = labels.endings.iter();
        let endings =
            endings.map(|ending| json!({"ending": ending.name, "title": ending.title, "games": counts.ended(*ending)}));
        json!({
            "file": self.file,
            "folder": self.folder,
            "title": self.title,
            "seats": labels.seats,
            "wins": [counts.wins(first), counts.wins(second)],
            "games": counts.games(),
            first.name(): counts.wins(first),
            second.name(): counts.wins(second),
            "utterances": counts.utterances(),
            "endings": endings.collect::<Vec<_>>(),
            "failed": self.failures,
            "unreadable": self.unreadable,
            "course": self.course.iter().map(point).collect::<Vec<_>>(),
        })
    }
}

/// All files of games of a run.
pub(super) struct Games {
    sets: Vec<GameSet>,
    games: RunGames,
    pub(super) feed: Feed,
}

impl Games {
    pub(super) fn new(games: RunGames) -> Self {
        Self { sets: Vec::new(), games, feed: Feed::default() }
    }

    /// Forgets all games; numbers of later ones go on.
    pub(super) fn forget(&mut self, games: RunGames) {
        *self = Self { feed: self.feed.emptied(), ..Self::new(games) };
    }

    /// Finds the files in the folders of stages and reads what they have gained. Returns whether there is more. Files that
    /// cannot be read are added to `problems`.
    pub(super) fn update<'a>(
        &mut self,
        run: &EnclosedFolder,
        folders: impl Iterator<Item = &'a str>,
        deadline: Instant,
        problems: &mut Vec<String>,
    ) -> bool {
        for folder in folders {
            // A stage has folders of games or sources, and games have folders of sources or of words that are held out.
            for within in self.find(run, folder) {
                for deeper in self.find(run, &within) {
                    self.find(run, &deeper);
                }
            }
        }
        // In the order in which they changed, so that the newest games come last.
        let mut order: Vec<usize> = (0..self.sets.len()).collect();
        order.sort_by_key(|at| self.sets[*at].changed());
        let mut is_behind = false;
        for at in order {
            let set = &mut self.sets[at];
            match set.update(deadline, self.games.of(&set.file).judge().as_mut(), &mut self.feed) {
                Ok(has_more) => is_behind |= has_more,
                Err(error) => problems.push(format!("{}: {error}", set.file)),
            }
        }
        is_behind
    }

    /// Finds new files of games in a folder. Returns the folders in it.
    fn find(&mut self, run: &EnclosedFolder, folder: &str) -> Vec<String> {
        let mut folders = Vec::new();
        let Ok(entries) = run.entries(folder) else { return folders };
        for (file, kind) in entries {
            if kind == EntryKind::Folder {
                folders.push(format!("{folder}/{file}"));
            }
            let Some(name) = file.strip_suffix(".jsonl") else { continue };
            let set = match name.rsplit_once(".rank") {
                Some((set, rank)) if rank.bytes().all(|byte| byte.is_ascii_digit()) => set,
                _ => name,
            };
            let is_of_games = set == "episodes" || (set.contains("-vs-") && !set.ends_with("_failed"));
            if !is_of_games || kind != EntryKind::File {
                continue;
            }
            let new = GameSet::new(run, folder, set, &self.games);
            let at = self.sets.iter().position(|known| known.file == new.file).unwrap_or_else(|| {
                self.sets.push(new);
                self.sets.len() - 1
            });
            if at >= MAX_SETS {
                self.sets.truncate(MAX_SETS);
                break;
            }
            let path = format!("{folder}/{file}");
            self.sets[at].followers.entry(file).or_insert_with(|| Follower::new(run, path));
        }
        folders
    }

    /// The newest games from number `from` on.
    pub(super) fn newest(&self, from: u64) -> Vec<Value> {
        self.feed.json(from, &self.games)
    }

    /// Every file with its counts.
    pub(super) fn json(&self) -> Vec<Value> {
        self.sets.iter().map(GameSet::json).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::Write;
    use std::path::Path;
    use std::sync::Arc;
    use std::time::Duration;

    use super::super::feed::NEWEST;
    use spag_game::{Taboo, taboo};
    use spag_run::KEPT;

    use super::*;

    fn row(game: usize, said: &[&str]) -> String {
        let said = said.iter().enumerate().map(|(at, text)| json!({"role": taboo::seat_at(at), "content": text}));
        let said: Vec<Value> = said.collect();
        json!({"history": said, "target_word": "tiger", "max_turns": 5, "game": game}).to_string() + "\n"
    }

    fn update(games: &mut Games, root: &Path) -> Value {
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut problems = Vec::new();
        assert!(!games.update(&EnclosedFolder::new(root), ["im", "eval"].into_iter(), deadline, &mut problems));
        assert_eq!(problems, [""; 0]);
        json!(games.json())
    }

    const RIGHT: [&str; 2] = ["Stripes.", "I know the word! It is tiger!"];
    const WRONG: [&str; 2] = ["Stripes.", "I know the word! It is zebra!"];

    #[test]
    fn games_of_all_ranks_are_counted_once_also_in_the_finished_file() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir(root.join("im")).unwrap();
        let mut games = Games::new(RunGames::one(Arc::new(Taboo::default())));
        assert_eq!(update(&mut games, root), json!([]));
        let own = root.join("im/episodes.jsonl");
        let other = root.join("im/episodes.rank1.jsonl");
        fs::write(&own, row(3, &RIGHT) + &row(1, &WRONG)[..20]).unwrap();
        fs::write(&other, row(2, &WRONG) + "nonsense\n").unwrap();
        fs::write(root.join("im/episodes_failed.jsonl"), "{}\n").unwrap();
        let read = update(&mut games, root);
        assert_eq!(read.as_array().unwrap().len(), 1);
        assert_eq!((&read[0]["games"], &read[0]["attacker"], &read[0]["defender"]), (&json!(2), &json!(1), &json!(1)));
        assert_eq!((&read[0]["unreadable"], &read[0]["failed"]), (&json!(1), &json!(1)));
        File::options().append(true).open(&own).unwrap().write_all(&row(1, &WRONG).as_bytes()[20..]).unwrap();
        assert_eq!(update(&mut games, root)[0]["attacker"], 2);
        assert_eq!(games.feed.next(), 3);

        let all = row(0, &RIGHT) + &row(1, &WRONG) + &row(2, &WRONG) + &row(3, &RIGHT);
        fs::write(root.join("im/.new"), all).unwrap();
        fs::rename(root.join("im/.new"), &own).unwrap();
        let read = update(&mut games, root);
        assert_eq!((&read[0]["games"], &read[0]["attacker"]), (&json!(4), &json!(2)), "{read}");
        fs::remove_file(&other).unwrap();
        let read = update(&mut games, root);
        assert_eq!((&read[0]["games"], &read[0]["unreadable"]), (&json!(4), &json!(0)));
        // Only the one that had not been seen is new.
        let numbers: Vec<u64> = games.newest(3).iter().map(|game| game["game"].as_u64().unwrap()).collect();
        assert_eq!(numbers, [0]);
    }

    #[test]
    fn newest_games_come_first_with_their_deciding_words() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir(root.join("eval")).unwrap();
        let rows: String = (0..100).map(|game| row(game, if game == 99 { &WRONG } else { &RIGHT })).collect();
        fs::write(root.join("eval/im-vs-spag-1.jsonl"), rows).unwrap();
        fs::write(root.join("eval/im-vs-spag-1_failed.jsonl"), row(0, &RIGHT)).unwrap();
        let mut games = Games::new(RunGames::one(Arc::new(Taboo::default())));
        let read = update(&mut games, root);
        assert_eq!((read.as_array().unwrap().len(), &read[0]["title"]), (1, &json!("IM attacks, SPAG-1 defends")));
        fs::create_dir(root.join("eval/held-out")).unwrap();
        fs::write(root.join("eval/held-out/im-vs-im.jsonl"), "").unwrap();
        let more = update(&mut games, root);
        assert_eq!(
            (&more[1]["file"], &more[1]["title"]),
            (&json!("eval/held-out/im-vs-im.jsonl"), &json!("IM attacks, IM defends (held-out words)"))
        );
        assert_eq!(read[0]["endings"][0], json!({"ending": "right_guess", "title": "right guess", "games": 99}));
        let newest = games.newest(0);
        assert_eq!((newest.len(), &newest[0]["game"], &newest[39]["game"]), (NEWEST, &json!(99), &json!(60)));
        assert_eq!(newest[0]["verdict"]["pieces"][0], json!({"text": "I know the word! It is zebra", "marked": true}));
        assert_eq!(games.newest(98).len(), 2);
        assert_eq!(games.newest(100).len(), 0);
    }

    #[test]
    fn course_of_many_games_is_bounded_and_ends_with_all() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir(root.join("im")).unwrap();
        let rows: String = (0..2001).map(|game| row(game, if game % 4 == 0 { &WRONG } else { &RIGHT })).collect();
        fs::write(root.join("im/episodes.jsonl"), rows).unwrap();
        let read = update(&mut Games::new(RunGames::one(Arc::new(Taboo::default()))), root);
        let course = read[0]["course"].as_array().unwrap();
        assert!((KEPT..=2 * KEPT).contains(&course.len()), "{}", course.len());
        assert_eq!(course[course.len() - 1], json!([2001, 501, 1500]));
    }
}
