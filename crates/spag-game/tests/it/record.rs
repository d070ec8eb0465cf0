//! Records of games: resuming after a kill, and refusing the games of other runs.

use std::fs;

use spag_game::taboo::Taboo;
use spag_game::{
    FailedGame, GameRecord, GameSpec, PlayConfig, Policy, PolicyError, PollMode, PromptSet, Reply, ScriptedPolicy,
    Seats, TurnFailure, TurnRequest, game_seed, play_games, read_episodes, taboo,
};

const PLAYERS: &str = "attacker=a; defender=b; temperature=1.2";

fn specs(count: usize) -> Vec<GameSpec> {
    let word = |game: usize| ["tea", "bear"][game % 2].to_owned();
    (0..count)
        .map(|number| GameSpec {
            number,
            item: word(number),
            max_turns: 2,
            seed: game_seed(7, number),
            sampling_seed: None,
        })
        .collect()
}

fn play_missing(record: &mut GameRecord) {
    let mut player = ScriptedPolicy::new(|turn| format!("{} {}", turn.number, turn.seed));
    let config = PlayConfig { games_in_flight: 3, ..PlayConfig::default() };
    let prompts = PromptSet::default();
    let missing = record.missing();
    play_games(&Taboo::new(&prompts), missing, Seats::SelfPlay(&mut player), &config, record).unwrap();
}

#[test]
fn resume_plays_the_missing_games_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("games.jsonl");
    let mut record = GameRecord::open(&path, &Taboo::default(), specs(7), PLAYERS).unwrap();
    assert_eq!((record.missing().len(), record.total()), (7, 7));
    play_missing(&mut record);
    assert!(record.missing().is_empty());
    let whole = record.into_episodes();
    let bytes = fs::read(&path).unwrap();
    for cut in (0..=bytes.len()).step_by(37).chain([bytes.len()]) {
        fs::write(&path, &bytes[..cut]).unwrap();
        let mut record = GameRecord::open(&path, &Taboo::default(), specs(7), PLAYERS).unwrap();
        let lines = bytes[..cut].iter().filter(|byte| **byte == b'\n').count();
        assert_eq!((record.games().len(), record.missing().len()), (lines, 7 - lines));
        play_missing(&mut record);
        assert_eq!(record.into_episodes(), whole, "cut at {cut}");
    }
}

#[test]
fn game_of_another_run_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("games.jsonl");
    play_missing(&mut GameRecord::open(&path, &Taboo::default(), specs(4), PLAYERS).unwrap());
    let kept = fs::read(&path).unwrap();
    let mut others = [specs(4), specs(4), specs(4), specs(3)];
    others[0].iter_mut().for_each(|spec| spec.item = "cat".into());
    others[1].iter_mut().for_each(|spec| spec.max_turns = 3);
    others[2].iter_mut().for_each(|spec| spec.seed += 1);
    for other in others {
        let said = GameRecord::open(&path, &Taboo::default(), other, PLAYERS).unwrap_err().to_string();
        assert!(said.contains("games.jsonl") && said.contains("no game of this run"), "{said}");
        assert_eq!(fs::read(&path).unwrap(), kept);
    }
}

#[test]
fn game_of_other_players_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("games.jsonl");
    play_missing(&mut GameRecord::open(&path, &Taboo::default(), specs(4), PLAYERS).unwrap());
    let kept = fs::read_to_string(&path).unwrap();
    let other = "attacker=a; defender=c; temperature=1";
    let said = GameRecord::open(&path, &Taboo::default(), specs(4), other).unwrap_err().to_string();
    for part in
        ["games.jsonl: row 1", "then defender=b; temperature=1.2, now defender=c; temperature=1", "delete the file"]
    {
        assert!(said.contains(part), "{said}");
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), kept);
    // Files of earlier versions have no players.
    fs::write(&path, kept.replace(&format!(",\"players\":\"{PLAYERS}\""), "")).unwrap();
    assert_eq!(GameRecord::open(&path, &Taboo::default(), specs(4), other).unwrap().games().len(), 4);
}

#[test]
fn second_run_cannot_open_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("games.jsonl");
    let mut first = GameRecord::open(&path, &Taboo::default(), specs(3), PLAYERS).unwrap();
    let said = GameRecord::open(&path, &Taboo::default(), specs(3), PLAYERS).unwrap_err().to_string();
    assert!(said.contains("games.jsonl: another run is writing to this file"), "{said}");
    play_missing(&mut first);
    let said = GameRecord::open(&path, &Taboo::default(), specs(3), PLAYERS).unwrap_err().to_string();
    assert!(said.contains("another run"), "{said}");
    drop(first);
    assert_eq!(GameRecord::open(&path, &Taboo::default(), specs(3), PLAYERS).unwrap().games().len(), 3);
}

#[test]
fn failed_games_are_recorded_until_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("games.jsonl");
    let mut record = GameRecord::open(&path, &Taboo::default(), specs(3), PLAYERS).unwrap();
    assert!(!record.failed_path().exists());
    let mut episode = spag_game::Episode::new("bear", 2);
    episode.push(taboo::ATTACKER, "It is big.");
    let failure = TurnFailure::new("the server is busy");
    record.add_failed(FailedGame { number: 1, seed: 5, episode, seat: taboo::DEFENDER, failure }).unwrap();
    let failed = record.failed_path().to_owned();
    assert_eq!(failed, folder.path().join("games_failed.jsonl"));
    let rows = read_episodes(&failed).unwrap();
    assert_eq!((rows.len(), rows[0].history.len()), (1, 1));
    let extra = serde_json::to_value(&rows[0].extra).unwrap();
    assert_eq!(
        extra,
        serde_json::json!({"game": 1, "seed": 5, "players": PLAYERS, "role": "defender", "reason": "the server is busy"})
    );
    assert_eq!(record.missing().len(), 3);
    drop(record);
    let record = GameRecord::open(&path, &Taboo::default(), specs(3), PLAYERS).unwrap();
    assert_eq!((record.missing().len(), failed.exists()), (3, false));
}

#[test]
fn record_takes_failed_games_of_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("games.jsonl");
    let mut record = GameRecord::open(&path, &Taboo::default(), specs(3), PLAYERS).unwrap();
    assert_eq!(record.path(), path);
    let mut busy = Busy(Vec::new());
    play_games(&Taboo::default(), specs(3), Seats::SelfPlay(&mut busy), &PlayConfig::default(), &mut record).unwrap();
    assert_eq!((record.missing().len(), read_episodes(record.failed_path()).unwrap().len()), (3, 3));
    // What cannot be removed is named.
    fs::remove_file(record.failed_path()).unwrap();
    fs::create_dir(record.failed_path()).unwrap();
    drop(record);
    let said = GameRecord::open(&path, &Taboo::default(), specs(3), PLAYERS).unwrap_err().to_string();
    assert!(said.contains("games_failed.jsonl"), "{said}");
}

/// Has no utterance for any turn.
struct Busy(Vec<Reply>);

impl Policy for Busy {
    fn submit(&mut self, turn: &TurnRequest<'_>) -> Result<(), PolicyError> {
        self.0.push(Reply { number: turn.number, utterance: Err(TurnFailure::of_text("no such token")) });
        Ok(())
    }

    fn poll(&mut self, _: PollMode) -> Result<Vec<Reply>, PolicyError> {
        Ok(std::mem::take(&mut self.0))
    }
}

#[test]
fn merge_file_reads_the_complete_lines_of_a_growing_file() {
    let folder = tempfile::tempdir().unwrap();
    let (own, other) = (folder.path().join("rank0.jsonl"), folder.path().join("rank1.jsonl"));
    // The other holds its lock all the time.
    let mut theirs = GameRecord::open(&other, &Taboo::default(), specs(5), PLAYERS).unwrap();
    let mut ours = GameRecord::open(&own, &Taboo::default(), specs(5), PLAYERS).unwrap();
    assert!(ours.merge_file(&other, &Taboo::default()).unwrap().is_empty());
    play_missing(&mut theirs);
    let whole = fs::read(&other).unwrap();
    // In the middle of its last line, and at every one of that line's bytes.
    let last = whole[..whole.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    let copy = folder.path().join("rank2.jsonl");
    for cut in last..whole.len() {
        fs::write(&copy, &whole[..cut]).unwrap();
        let mut record =
            GameRecord::open(folder.path().join(format!("at{cut}.jsonl")), &Taboo::default(), specs(5), PLAYERS)
                .unwrap();
        assert_eq!(record.merge_file(&copy, &Taboo::default()).unwrap().len(), 4, "cut at {cut}");
        assert_eq!(record.missing().len(), 1);
        assert_eq!(fs::read(&copy).unwrap().len(), cut, "a file of others is left as it is");
    }
    let mut numbers = ours.merge_file(&other, &Taboo::default()).unwrap();
    numbers.sort_unstable();
    assert_eq!(numbers, [0, 1, 2, 3, 4]);
    assert!(ours.merge_file(&other, &Taboo::default()).unwrap().is_empty(), "none is new any more");
    assert!(ours.missing().is_empty() && ours.game(4).is_some() && ours.game(5).is_none());
    assert!(ours.games().eq(theirs.games()));
    drop(ours);
    let said = GameRecord::open(&own, &Taboo::default(), specs(5), "attacker=z")
        .unwrap()
        .merge_file(&other, &Taboo::default())
        .unwrap_err()
        .to_string();
    assert!(said.contains("rank1.jsonl: row 1"), "{said}");
}
