//! Games of TextArena through a process: play, records, and the faults of processes. A script stands for the interpreter.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value};
use spag_game::{
    CollectedGames, FailureCause, Game, GameSpec, PlayConfig, RecordedTextArena, ScriptedPolicy, Seats, TurnRequest,
    open_game, play_games,
};
use spag_io::PromptFormat;
use spag_selfplay::{PythonSettings, TextArena};

/// The script in a folder of its own.
struct Interpreter(tempfile::TempDir);

impl Interpreter {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("python");
        fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/fake_python.sh"), &path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Self(folder)
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("python")
    }

    /// Processes so far.
    fn starts(&self) -> usize {
        fs::read_to_string(self.0.path().join("starts")).unwrap_or_default().lines().count()
    }

    fn game(&self, id: &str, format: PromptFormat) -> TextArena {
        game(self.path().to_str().unwrap(), id, format)
    }
}

fn game(python: &str, id: &str, format: PromptFormat) -> TextArena {
    let recorded = RecordedTextArena::new(&format!("textarena:{id}"), &Map::new(), format).unwrap().unwrap();
    let timeout = Duration::from_secs(if ["Silent", "Deaf"].contains(&id) { 3 } else { 60 });
    TextArena::new(recorded, PythonSettings { timeout, ..PythonSettings::new(Some(python), None) })
}

/// Games with seeds 1 to `count`, two at a time.
fn play(game: &dyn Game, count: u64, rule: impl FnMut(&TurnRequest<'_>) -> String) -> CollectedGames {
    let specs = (1..=count).map(|seed| GameSpec {
        number: seed as usize,
        item: String::new(),
        max_turns: 0,
        seed,
        sampling_seed: None,
    });
    let (config, mut games) = (PlayConfig { games_in_flight: 2, ..PlayConfig::default() }, CollectedGames::default());
    play_games(game, specs, Seats::SelfPlay(&mut ScriptedPolicy::new(rule)), &config, &mut games).unwrap();
    games
}

fn pings(turn: &TurnRequest<'_>) -> String {
    ["ping", "pong"][turn.seat.index()].to_owned()
}

#[test]
fn records_are_read_without_a_process() {
    for format in [PromptFormat::Plain, PromptFormat::Chat] {
        let (interpreter, mut prompts) = (Interpreter::new(), Vec::new());
        let played = play(&interpreter.game("Plays", format), 1, |turn| {
            prompts.push(turn.prompt.clone());
            // The first text is refused.
            if turn.episode.history.is_empty() { "no".to_owned() } else { pings(turn) }
        });
        let [finished] = &played.finished[..] else { panic!("{played:?}") };
        let (episode, verdict) = (&finished.episode, finished.verdict);
        assert_eq!((verdict.ending.name, verdict.winner().map(|seat| seat.index())), ("won", Some(1)));
        let said: Vec<_> = episode.history.iter().map(|said| (said.seat.index(), &*said.content)).collect();
        assert_eq!((said, verdict.history_length), (vec![(0, "no"), (0, "ping"), (1, "pong")], 3));
        assert_eq!(episode.history[0].extra["refusal"], "illegal");
        assert_eq!(episode.extra["transcript"]["reason"], "Player 1 spoke last.");
        // From the file on, no interpreter is needed.
        drop(interpreter);
        let name = episode.extra["game_name"].as_str().unwrap();
        let read = open_game(name, &Map::new(), None, format).unwrap();
        let row = serde_json::to_string(episode).unwrap();
        let parsed: spag_game::EpisodeView<'_> = serde_json::from_str(&row).unwrap();
        for view in [episode.view(), parsed] {
            assert_eq!(read.judge().judge(&view).unwrap(), verdict);
            let again: Vec<_> = (0..3).map(|at| read.training_prompt(&view, at, &mut rand::rng()).unwrap()).collect();
            assert_eq!(again, prompts);
        }
        // A transcript that does not fit is no verdict.
        for (pointer, value) in [
            ("/transcript/told", Value::from(Vec::<Value>::new())),
            ("/transcript/ending", "line".into()),
            ("/transcript/winner", 2.into()),
            ("/transcript", "won".into()),
        ] {
            let mut changed: Value = serde_json::from_str(&row).unwrap();
            *changed.pointer_mut(pointer).unwrap() = value;
            let changed: spag_game::Episode = serde_json::from_value(changed).unwrap();
            let error = read.judge().judge(&changed.view()).unwrap_err().to_string();
            assert!(error.contains("transcript"), "{pointer}: {error}");
        }
        let spec = GameSpec { number: 0, item: String::new(), max_turns: 0, seed: 1, sampling_seed: None };
        assert!(read.start(&spec).unwrap_err().to_string().contains("textarena:Plays"));
    }
}

#[test]
fn processes_are_used_again() {
    let interpreter = Interpreter::new();
    let played = play(&interpreter.game("Plays", PromptFormat::Plain), 7, pings);
    assert_eq!((played.finished.len(), played.failed.len(), interpreter.starts()), (7, 0, 2));
}

#[test]
fn a_fault_of_a_process_is_that_of_its_game() {
    for (id, words) in [
        ("Nonsense", &["wrote no answer", "Traceback: this is no JSON"][..]),
        ("Dies", &["ended", "7", "out of luck"]),
        ("Silent", &["did not answer within 3 seconds", "still thinking"]),
        ("Deaf", &["did not answer within 3 seconds"]),
        ("Refuses", &["EXECUTION_ERROR: ModuleNotFoundError"]),
        ("Odd", &["neither a turn of player 0 or 1 nor an end"]),
    ] {
        let interpreter = Interpreter::new();
        // A text of more than a pipe holds, which the process does not read.
        let rule = |turn: &TurnRequest<'_>| match id {
            "Deaf" if turn.game_seed == 3 => "x".repeat(200_000),
            _ => pings(turn),
        };
        let played = play(&interpreter.game(id, PromptFormat::Plain), 6, rule);
        let [failed] = &played.failed[..] else { panic!("{id}: {} failed", played.failed.len()) };
        let said = failed.failure.to_string();
        assert!(failed.seed == 3 && words.iter().all(|word| said.contains(word)), "{id}: {said}");
        assert_eq!(failed.failure.cause(), FailureCause::Player);
        // One more process in the place of the one that failed.
        assert_eq!((played.finished.len(), interpreter.starts()), (5, 3), "{id}");
    }
}

#[test]
fn a_text_that_textarena_cannot_read_fails_its_game_only() {
    let interpreter = Interpreter::new();
    let played = play(&interpreter.game("Plays", PromptFormat::Plain), 6, |turn| match turn.number {
        2 => "crash".to_owned(),
        _ => pings(turn),
    });
    let [failed] = &played.failed[..] else { panic!("{played:?}") };
    assert_eq!((failed.number, failed.failure.cause()), (2, FailureCause::Text));
    assert_eq!(failed.episode.history[0].content, "crash");
    // The process goes on.
    assert_eq!((played.finished.len(), interpreter.starts()), (5, 2));
}

#[test]
fn a_missing_interpreter_is_named() {
    let played = play(&game("/nothing/python", "Plays", PromptFormat::Plain), 1, pings);
    let said = played.failed[0].failure.to_string();
    assert!(said.contains("/nothing/python") && said.contains("--python"), "{said}");
    for name in ["textarena:", "textarena:a\nb"] {
        assert!(RecordedTextArena::new(name, &Map::new(), PromptFormat::Plain).is_err());
    }
}
