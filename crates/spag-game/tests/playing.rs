//! The driver: many games at once, decided by the referee as they are played.

use std::cell::RefCell;

use spag_game::{
    AfterDecision, FinishedGame, GameSpec, JudgeKind, Outcome, PlayConfig, Player, PlayerError, PromptSet, Role,
    ScriptedPlayer, Seats, TurnRequest, Verdict, game_seed, play_games,
};

const STOP: PlayConfig =
    PlayConfig { judge: JudgeKind::Paper, games_in_flight: 4, after_decision: AfterDecision::Stop };

fn specs(count: usize) -> impl Iterator<Item = GameSpec> {
    (0..count).map(|game| GameSpec { game, target_word: "tea".into(), max_turns: 3, seed: game_seed(7, game) })
}

fn play(specs: impl Iterator<Item = GameSpec>, seats: Seats<'_>, config: &PlayConfig) -> Vec<FinishedGame> {
    let mut finished = Vec::new();
    let prompts = PromptSet::default();
    let result = play_games(specs, seats, &prompts, config, &mut |game| {
        finished.push(game);
        Ok(())
    });
    result.unwrap();
    finished
}

/// Ends game `g` with its utterance number `g + 1`.
fn ends_by_number(turn: &TurnRequest<'_>) -> String {
    match turn.episode.history.len() == turn.game {
        true => " Tea.\n".into(),
        false => "Hm.".into(),
    }
}

#[test]
fn decided_games_stop_at_once_and_are_replaced() {
    let mut player = ScriptedPlayer::new(ends_by_number);
    let games = play(specs(8), Seats::SelfPlay(&mut player), &STOP);
    // Four are begun together; a game that ends hands its place to the next.
    assert_eq!(games.iter().map(|game| game.game).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6, 7]);
    for FinishedGame { game, seed, episode, verdict } in games {
        let outcome = match game {
            6.. => Outcome::Tie,
            game if game % 2 == 0 => Outcome::AttackerBreaksRules,
            _ => Outcome::AttackerWins,
        };
        assert_eq!(verdict, Verdict { outcome, history_length: (game + 1).min(6) });
        assert_eq!(episode.history.len(), verdict.history_length);
        assert_eq!(seed, game_seed(7, game));
        if game < 6 {
            assert_eq!(episode.history[game].content, " Tea.\n", "replies are kept as they are");
        }
    }
}

#[test]
fn played_on_games_have_the_same_verdicts() {
    let mut player = ScriptedPlayer::new(ends_by_number);
    let play_on = PlayConfig { after_decision: AfterDecision::PlayOn, ..STOP };
    let stopped = play(specs(8), Seats::SelfPlay(&mut player.clone()), &STOP);
    let mut played_on = play(specs(8), Seats::SelfPlay(&mut player), &play_on);
    played_on.sort_by_key(|game| game.game);
    for (stopped, played_on) in stopped.iter().zip(&played_on) {
        assert_eq!(stopped.verdict, played_on.verdict);
        assert_eq!(played_on.episode.history.len(), 6);
    }
}

/// Notes the batches it is asked.
struct Noting<'a>(&'a RefCell<Vec<Vec<(usize, Role)>>>);

impl Player for Noting<'_> {
    fn respond(&mut self, requests: &[TurnRequest<'_>]) -> Result<Vec<String>, PlayerError> {
        self.0.borrow_mut().push(requests.iter().map(|turn| (turn.game, turn.role)).collect());
        Ok(requests.iter().map(ends_by_number).collect())
    }
}

#[test]
fn one_step_is_one_batch_a_player() {
    use Role::{Attacker, Defender};
    let config = PlayConfig { games_in_flight: 2, ..STOP };
    let batches = RefCell::new(Vec::new());
    play(specs(3), Seats::SelfPlay(&mut Noting(&batches)), &config);
    // Game 0 ends with the first utterance; game 2 takes its place one step behind game 1.
    let expected = [
        vec![(0, Attacker), (1, Attacker)],
        vec![(1, Defender), (2, Attacker)],
        vec![(2, Defender)],
        vec![(2, Attacker)],
    ];
    assert_eq!(*batches.borrow(), expected);

    let (attackers, defenders) = (RefCell::new(Vec::new()), RefCell::new(Vec::new()));
    let seats = Seats::Versus { attacker: &mut Noting(&attackers), defender: &mut Noting(&defenders) };
    play(specs(3), seats, &config);
    assert_eq!(*attackers.borrow(), [vec![(0, Attacker), (1, Attacker)], vec![(2, Attacker)], vec![(2, Attacker)]]);
    assert_eq!(*defenders.borrow(), [vec![(1, Defender)], vec![(2, Defender)]]);
}

#[test]
fn a_game_does_not_depend_on_how_many_are_played_with_it() {
    let reply = |turn: &TurnRequest<'_>| {
        assert!(turn.prompt.contains("tea") == (turn.role == Role::Attacker));
        assert_eq!(turn.game_seed, game_seed(7, turn.game));
        match turn.seed % 5 {
            0 => "tea".to_owned(),
            _ => format!("{} {}", turn.seed, turn.prompt.len()),
        }
    };
    let games = |games_in_flight| {
        let mut player = ScriptedPlayer::new(reply);
        let mut games = play(specs(40), Seats::SelfPlay(&mut player), &PlayConfig { games_in_flight, ..STOP });
        games.sort_by_key(|game| game.game);
        games
    };
    let one_by_one = games(1);
    assert_eq!(one_by_one.len(), 40);
    // No number at a time is taken for one.
    for at_a_time in [0, 2, 7, 1000] {
        assert_eq!(games(at_a_time), one_by_one);
    }
}

#[test]
fn seeds_of_utterances_differ() {
    let seeds = RefCell::new(std::collections::HashSet::new());
    let mut player = ScriptedPlayer::new(|turn: &TurnRequest<'_>| {
        assert!(seeds.borrow_mut().insert(turn.seed));
        "Hm.".into()
    });
    play(specs(500), Seats::SelfPlay(&mut player), &STOP);
    assert_eq!(seeds.borrow().len(), 3000);
}

#[test]
fn lines_are_said_in_every_game() {
    let mut player = ScriptedPlayer::lines(["What do you drink?", "I know the word! It is tea."]);
    let games = play(specs(3), Seats::SelfPlay(&mut player), &STOP);
    assert!(games.iter().all(|game| game.verdict.outcome == Outcome::DefenderWins));
}

/// Gives one reply, whatever it is asked, or an error.
struct Broken(Result<Vec<String>, &'static str>);

impl Player for Broken {
    fn respond(&mut self, _: &[TurnRequest<'_>]) -> Result<Vec<String>, PlayerError> {
        self.0.clone().map_err(PlayerError::new)
    }
}

#[test]
fn failures_name_the_game() {
    let fail = |attacker: &mut dyn Player, defender: &mut dyn Player, words: [&str; 2]| {
        let specs = words.map(|word| GameSpec { game: 3, target_word: word.into(), max_turns: 3, seed: 0 });
        let seats = Seats::Versus { attacker, defender };
        play_games(specs, seats, &PromptSet::default(), &STOP, &mut |_| Ok(())).unwrap_err().to_string()
    };
    let mut silent = ScriptedPlayer::new(|_: &TurnRequest<'_>| "Hm.".into());
    let message = fail(&mut silent, &mut Broken(Err("out of memory")), ["a", "b"]);
    assert_eq!(message, "game 3, defender's turn: out of memory");
    let message = fail(&mut Broken(Ok(vec!["Hm.".into()])), &mut silent, ["a", "b"]);
    assert_eq!(message, "a player was asked for 2 replies and gave 1");
    assert_eq!(fail(&mut silent, &mut Broken(Ok(vec![])), ["a", " "]), "target word \" \": it is empty");
}
