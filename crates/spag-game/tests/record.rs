//! Games on the disk: going on after a kill, and refusing the games of another run.

use std::fs;

use spag_game::{
    AfterDecision, GameRecord, GameSpec, JudgeKind, PlayConfig, PromptSet, ScriptedPlayer, Seats, game_seed, play_games,
};

fn specs(count: usize) -> Vec<GameSpec> {
    let word = |game: usize| ["tea", "bear"][game % 2].to_owned();
    (0..count).map(|game| GameSpec { game, target_word: word(game), max_turns: 2, seed: game_seed(7, game) }).collect()
}

fn play_missing(record: &mut GameRecord) {
    let mut player = ScriptedPlayer::new(|turn| format!("{} {}", turn.game, turn.seed));
    let config = PlayConfig { judge: JudgeKind::Paper, games_in_flight: 3, after_decision: AfterDecision::Stop };
    let prompts = PromptSet::default();
    let missing = record.missing();
    play_games(missing, Seats::SelfPlay(&mut player), &prompts, &config, &mut |game| record.add(game)).unwrap();
}

#[test]
fn torn_anywhere_the_missing_games_are_played_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("games.jsonl");
    let mut record = GameRecord::open(&path, specs(7)).unwrap();
    assert_eq!((record.missing().len(), record.total()), (7, 7));
    play_missing(&mut record);
    assert!(record.missing().is_empty());
    let whole = record.into_episodes();
    let bytes = fs::read(&path).unwrap();
    for cut in (0..=bytes.len()).step_by(37).chain([bytes.len()]) {
        fs::write(&path, &bytes[..cut]).unwrap();
        let mut record = GameRecord::open(&path, specs(7)).unwrap();
        let lines = bytes[..cut].iter().filter(|byte| **byte == b'\n').count();
        assert_eq!((record.episodes().len(), record.missing().len()), (lines, 7 - lines));
        play_missing(&mut record);
        assert_eq!(record.into_episodes(), whole, "cut at {cut}");
    }
}

#[test]
fn games_of_another_run_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("games.jsonl");
    play_missing(&mut GameRecord::open(&path, specs(4)).unwrap());
    let kept = fs::read(&path).unwrap();
    let mut others = [specs(4), specs(4), specs(4), specs(3)];
    others[0].iter_mut().for_each(|spec| spec.target_word = "cat".into());
    others[1].iter_mut().for_each(|spec| spec.max_turns = 3);
    others[2].iter_mut().for_each(|spec| spec.seed += 1);
    for other in others {
        let said = GameRecord::open(&path, other).unwrap_err().to_string();
        assert!(said.contains("games.jsonl") && said.contains("no game of this run"), "{said}");
        assert_eq!(fs::read(&path).unwrap(), kept);
    }
}
