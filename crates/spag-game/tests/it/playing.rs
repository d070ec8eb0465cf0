//! The driver plays many games at once and judges them while they are played.

use std::cell::RefCell;

use spag_game::taboo::{Rules, Taboo};

use spag_game::taboo::Outcome;
use spag_game::{
    AfterDecision, CollectedGames, FailedGame, FinishedGame, GameSink, GameSpec, Generation, JudgeKind, PlayConfig,
    Policy, PolicyError, PollMode, PromptSet, ReasoningEnd, Reply, Said, ScriptedPolicy, Seat, Seats, TokenRecords,
    TurnFailure, TurnRequest, Utterance, game_seed, open_game, play_games, taboo,
};
use spag_io::{PromptEnd, PromptFormat, ReasoningRule, ReasoningTags};

const STOP: PlayConfig = PlayConfig { games_in_flight: 4, max_failed_in_a_row: 10, tokens: TokenRecords::Dropped };

fn specs(count: usize) -> impl Iterator<Item = GameSpec> {
    (0..count).map(|number| GameSpec {
        number,
        item: "tea".into(),
        max_turns: 3,
        seed: game_seed(7, number),
        sampling_seed: None,
    })
}

fn play(specs: impl Iterator<Item = GameSpec>, seats: Seats<'_>, config: &PlayConfig) -> Vec<FinishedGame> {
    play_with(AfterDecision::Stop, specs, seats, config)
}

fn play_with(
    after_decision: AfterDecision,
    specs: impl Iterator<Item = GameSpec>,
    seats: Seats<'_>,
    config: &PlayConfig,
) -> Vec<FinishedGame> {
    let mut finished = Vec::new();
    let prompts = PromptSet::default();
    let rules = Rules { judge: JudgeKind::Paper, after_decision };
    let result = play_games(&rules.game(&prompts), specs, seats, config, &mut |game: FinishedGame| {
        finished.push(game);
        Ok(())
    });
    result.unwrap();
    finished
}

/// Ends game `g` with its utterance number `g + 1`.
fn ends_by_number(turn: &TurnRequest<'_>) -> String {
    match turn.episode.history.len() == turn.number {
        true => " Tea.\n".into(),
        false => "Hm.".into(),
    }
}

#[test]
fn decided_game_ends_and_is_replaced() {
    let mut player = ScriptedPolicy::new(ends_by_number);
    let games = play(specs(8), Seats::SelfPlay(&mut player), &STOP);
    // Four begin together; the next game replaces one that ends.
    assert_eq!(games.iter().map(|game| game.number).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6, 7]);
    for FinishedGame { number, seed, episode, verdict } in games {
        let outcome = match number {
            6.. => Outcome::Tie,
            number if number % 2 == 0 => Outcome::AttackerBreaksRules,
            _ => Outcome::AttackerWins,
        };
        assert_eq!((Outcome::from(verdict), verdict.history_length), (outcome, (number + 1).min(6)));
        assert_eq!(episode.history.len(), verdict.history_length);
        assert_eq!(seed, game_seed(7, number));
        if number < 6 {
            assert_eq!(episode.history[number].content, " Tea.\n", "replies are kept as they are");
        }
    }
}

#[test]
fn playing_on_does_not_change_the_verdict() {
    let mut player = ScriptedPolicy::new(ends_by_number);
    let stopped = play(specs(8), Seats::SelfPlay(&mut player.clone()), &STOP);
    let mut played_on = play_with(AfterDecision::PlayOn, specs(8), Seats::SelfPlay(&mut player), &STOP);
    played_on.sort_by_key(|game| game.number);
    for (stopped, played_on) in stopped.iter().zip(&played_on) {
        assert_eq!(stopped.verdict, played_on.verdict);
        assert_eq!(played_on.episode.history.len(), 6);
    }
}

#[test]
fn reference_stops_at_a_guess_of_the_defender_and_nowhere_else() {
    let said = |lines: &[&str]| -> (usize, (Outcome, usize)) {
        let mut player = ScriptedPolicy::lines(lines.to_vec());
        let games = play_with(AfterDecision::UntilGuess, specs(1), Seats::SelfPlay(&mut player), &STOP);
        (games[0].episode.history.len(), (Outcome::from(games[0].verdict), games[0].verdict.history_length))
    };
    let verdict = |outcome: Outcome, history_length: usize| (outcome, history_length);
    for (lines, length, expected) in [
        (&["Hot?", "I know the word! It is tea!"][..], 2, verdict(Outcome::DefenderWins, 2)),
        // In any case, and also where it decides nothing.
        (&["Hot?", "So, i KNOW the Word."], 2, verdict(Outcome::Tie, 2)),
        // Not the attacker's, not a decided game.
        (&["I know the word! It is milk!", "Hm."], 6, verdict(Outcome::AttackerBreaksRules, 1)),
        (&["Hot?", "Tea.", "Hm.", "I know the word! It is tea!"], 4, verdict(Outcome::AttackerWins, 2)),
        (&["Hot?", "Hm.", "Cold?", "Hm."], 6, verdict(Outcome::Tie, 6)),
    ] {
        assert_eq!(said(lines), (length, expected), "{lines:?}");
    }
}

#[test]
fn unreadable_texts_in_a_row_do_not_end_the_run() {
    /// Fails the first 30 games for their text.
    struct Reader(Vec<Reply>);
    impl Policy for Reader {
        fn submit(&mut self, turn: &TurnRequest<'_>) -> Result<(), PolicyError> {
            let utterance =
                if turn.number < 30 { Err(TurnFailure::of_text("no such token")) } else { Ok("Tea.".into()) };
            self.0.push(Reply { number: turn.number, utterance });
            Ok(())
        }

        fn poll(&mut self, _: PollMode) -> Result<Vec<Reply>, PolicyError> {
            Ok(std::mem::take(&mut self.0))
        }
    }
    let mut kept = Kept::default();
    let prompts = PromptSet::default();
    play_games(&Taboo::new(&prompts), specs(40), Seats::SelfPlay(&mut Reader(Vec::new())), &STOP, &mut kept).unwrap();
    assert_eq!((kept.finished.len(), kept.failed.len()), (10, 30));
}

/// Replies to all open turns in a poll, and records them.
struct Noting<'a> {
    batches: &'a RefCell<Vec<Vec<(usize, Seat)>>>,
    open: Vec<(usize, Seat, String)>,
}

impl<'a> Noting<'a> {
    fn new(batches: &'a RefCell<Vec<Vec<(usize, Seat)>>>) -> Self {
        Self { batches, open: Vec::new() }
    }
}

impl Policy for Noting<'_> {
    fn submit(&mut self, turn: &TurnRequest<'_>) -> Result<(), PolicyError> {
        self.open.push((turn.number, turn.seat, ends_by_number(turn)));
        Ok(())
    }

    fn poll(&mut self, _: PollMode) -> Result<Vec<Reply>, PolicyError> {
        self.batches.borrow_mut().push(self.open.iter().map(|(game, role, _)| (*game, *role)).collect());
        Ok(self.open.drain(..).map(|(number, _, said)| Reply { number, utterance: Ok(said.into()) }).collect())
    }
}

#[test]
fn every_running_game_has_one_open_turn() {
    use taboo::{ATTACKER, DEFENDER};
    let config = PlayConfig { games_in_flight: 2, ..STOP };
    let batches = RefCell::new(Vec::new());
    play(specs(3), Seats::SelfPlay(&mut Noting::new(&batches)), &config);
    // Game 0 ends with the first utterance; game 2 takes its place one step behind game 1.
    let expected = [
        vec![(0, ATTACKER), (1, ATTACKER)],
        vec![(1, DEFENDER), (2, ATTACKER)],
        vec![(2, DEFENDER)],
        vec![(2, ATTACKER)],
    ];
    assert_eq!(*batches.borrow(), expected);

    let (attackers, defenders) = (RefCell::new(Vec::new()), RefCell::new(Vec::new()));
    let seats = Seats::Versus([&mut Noting::new(&attackers), &mut Noting::new(&defenders)]);
    play(specs(3), seats, &config);
    assert_eq!(*attackers.borrow(), [vec![(0, ATTACKER), (1, ATTACKER)], vec![(2, ATTACKER)], vec![(2, ATTACKER)]]);
    assert_eq!(*defenders.borrow(), [vec![(1, DEFENDER)], vec![(2, DEFENDER)]]);
}

#[test]
fn games_do_not_depend_on_games_in_flight() {
    let reply = |turn: &TurnRequest<'_>| {
        assert!(turn.prompt.text().contains("tea") == (turn.seat == taboo::ATTACKER));
        assert_eq!(turn.game_seed, game_seed(7, turn.number));
        match turn.seed % 5 {
            0 => "tea".to_owned(),
            _ => format!("{} {}", turn.seed, turn.prompt.text().len()),
        }
    };
    let games = |games_in_flight| {
        let mut player = ScriptedPolicy::new(reply);
        let mut games = play(specs(40), Seats::SelfPlay(&mut player), &PlayConfig { games_in_flight, ..STOP });
        games.sort_by_key(|game| game.number);
        games
    };
    let one_by_one = games(1);
    assert_eq!(one_by_one.len(), 40);
    // 0 means 1.
    for at_a_time in [0, 2, 7, 1000] {
        assert_eq!(games(at_a_time), one_by_one);
    }
}

#[test]
fn utterances_have_different_seeds() {
    let seeds = RefCell::new(std::collections::HashSet::new());
    let mut player = ScriptedPolicy::new(|turn: &TurnRequest<'_>| {
        assert!(seeds.borrow_mut().insert(turn.seed));
        "Hm.".into()
    });
    play(specs(500), Seats::SelfPlay(&mut player), &STOP);
    assert_eq!(seeds.borrow().len(), 3000);
}

#[test]
fn scripted_lines_repeat_in_every_game() {
    let mut player = ScriptedPolicy::lines(["What do you drink?", "I know the word! It is tea."]);
    let games = play(specs(3), Seats::SelfPlay(&mut player), &STOP);
    assert!(games.iter().all(|game| Outcome::from(game.verdict) == Outcome::DefenderWins));
}

/// What the broken player does.
#[derive(Clone, Copy)]
enum Fault {
    Submit,
    Poll,
    OtherGame,
    Twice,
    Turn,
}

struct Broken(Fault, Vec<usize>);

impl Policy for Broken {
    fn submit(&mut self, turn: &TurnRequest<'_>) -> Result<(), PolicyError> {
        self.1.push(turn.number);
        match self.0 {
            Fault::Submit => Err(PolicyError::new("out of memory")),
            _ => Ok(()),
        }
    }

    fn poll(&mut self, _: PollMode) -> Result<Vec<Reply>, PolicyError> {
        let reply = |number| Reply { number, utterance: Ok("Hm.".into()) };
        let open = std::mem::take(&mut self.1);
        match self.0 {
            Fault::Submit | Fault::Poll => Err(PolicyError::new("out of memory")),
            Fault::OtherGame => Ok(vec![reply(77)]),
            Fault::Twice => Ok(open.iter().flat_map(|game| [reply(*game), reply(*game)]).collect()),
            Fault::Turn => Ok(open
                .into_iter()
                .map(|number| Reply { number, utterance: Err(TurnFailure::new("too long")) })
                .collect()),
        }
    }
}

#[test]
fn error_names_the_game_or_the_player() {
    let fail = |attacker: &mut dyn Policy, defender: &mut dyn Policy, games: [(usize, &str); 2]| {
        let specs = games.map(|(number, word)| GameSpec {
            number,
            item: word.into(),
            max_turns: 3,
            seed: 0,
            sampling_seed: None,
        });
        let seats = Seats::Versus([attacker, defender]);
        let done = play_games(&Taboo::new(&PromptSet::default()), specs, seats, &STOP, &mut |_: FinishedGame| Ok(()));
        done.unwrap_err().to_string()
    };
    let mut silent = ScriptedPolicy::new(|_: &TurnRequest<'_>| "Hm.".into());
    let games = [(3, "a"), (4, "b")];
    for (fault, message) in [
        (Fault::Submit, "game 3, defender's turn: out of memory"),
        (Fault::Poll, "the defender's player failed: out of memory"),
        (Fault::OtherGame, "the defender's player gave a reply in game 77, in which it has no open turn"),
        (Fault::Twice, "the defender's player gave a reply in game 3, in which it has no open turn"),
        // A closure as the sink accepts no failed games.
        (Fault::Turn, "game 3, defender's turn: too long"),
    ] {
        assert_eq!(fail(&mut silent.clone(), &mut Broken(fault, Vec::new()), games), message);
    }
    let other = &mut Broken(Fault::Poll, Vec::new());
    assert_eq!(fail(&mut silent, other, [(3, "a"), (4, " ")]), "target word \" \": it is empty");
    let message = fail(&mut silent.clone(), &mut silent.clone(), [(3, "a"), (3, "b")]);
    assert_eq!(message, "two running games have number 3; give each a number of its own");
}

/// Keeps all games, and stops the run after some.
#[derive(Default)]
struct Kept {
    finished: Vec<FinishedGame>,
    failed: Vec<FailedGame>,
    most: Option<usize>,
}

impl GameSink for Kept {
    fn finished(&mut self, game: FinishedGame) -> spag_game::Result<()> {
        self.finished.push(game);
        Ok(())
    }

    fn failed(&mut self, game: FailedGame) -> spag_game::Result<()> {
        self.failed.push(game);
        Ok(())
    }

    fn should_continue(&mut self) -> bool {
        self.most.is_none_or(|most| self.finished.len() < most)
    }
}

/// Fails in the games that `fails` says, at the defender's first turn.
struct Failing<F>(F, Vec<Reply>);

impl<F: Fn(usize) -> bool> Policy for Failing<F> {
    fn submit(&mut self, turn: &TurnRequest<'_>) -> Result<(), PolicyError> {
        let utterance = match turn.seat == taboo::DEFENDER && (self.0)(turn.number) {
            true => Err(TurnFailure::new(format!("no answer to game {}", turn.number))),
            false => Ok("Hm.".into()),
        };
        self.1.push(Reply { number: turn.number, utterance });
        Ok(())
    }

    fn poll(&mut self, _: PollMode) -> Result<Vec<Reply>, PolicyError> {
        Ok(std::mem::take(&mut self.1))
    }
}

#[test]
fn failed_game_has_no_outcome_and_others_continue() {
    let mut kept = Kept::default();
    let mut player = Failing(|game| game % 2 == 1, Vec::new());
    play_games(&Taboo::new(&PromptSet::default()), specs(30), Seats::SelfPlay(&mut player), &STOP, &mut kept).unwrap();
    assert!(kept.finished.iter().all(|game| game.number % 2 == 0 && Outcome::from(game.verdict) == Outcome::Tie));
    assert_eq!((kept.finished.len(), kept.failed.len()), (15, 15));
    for FailedGame { number, seed, episode, seat, failure } in kept.failed {
        assert_eq!((seed, seat, episode.history.len()), (game_seed(7, number), taboo::DEFENDER, 1));
        assert_eq!(failure.to_string(), format!("no answer to game {number}"));
    }
}

#[test]
fn too_many_failures_in_a_row_end_the_run() {
    // One game at a time, every fifth of which is finished: never more than four in a row fail.
    let run = |max_failed_in_a_row| {
        let mut kept = Kept::default();
        let mut player = Failing(|game| game % 5 != 0, Vec::new());
        let config = PlayConfig { games_in_flight: 1, max_failed_in_a_row, ..STOP };
        let result =
            play_games(&Taboo::new(&PromptSet::default()), specs(50), Seats::SelfPlay(&mut player), &config, &mut kept);
        (result.map_err(|error| error.to_string()), kept.finished.len(), kept.failed.len())
    };
    assert_eq!(run(5), (Ok(()), 10, 40));
    let (result, finished, failed) = run(4);
    assert_eq!((finished, failed), (1, 4));
    assert_eq!(
        result.unwrap_err(),
        "4 games in a row failed, the last one: game 4, defender's turn: no answer to game 4"
    );
    assert_eq!((run(0).1, run(0).2), (1, 1));
}

#[test]
fn sink_can_stop_the_run() {
    for most in [0, 1, 5] {
        let asked = RefCell::new(0);
        let mut player = ScriptedPolicy::new(|turn: &TurnRequest<'_>| {
            *asked.borrow_mut() += 1;
            ends_by_number(turn)
        });
        let mut kept = Kept { most: Some(most), ..Kept::default() };
        let one = PlayConfig { games_in_flight: 1, ..STOP };
        play_games(&Taboo::new(&PromptSet::default()), specs(50), Seats::SelfPlay(&mut player), &one, &mut kept)
            .unwrap();
        assert_eq!(kept.finished.len(), most);
        // Game g takes g + 1 utterances; not one was asked for in vain.
        assert_eq!(*asked.borrow(), (1..=most).sum::<usize>());
    }
}

/// A player without replies, like an endpoint that hangs.
struct Hanging;

impl Policy for Hanging {
    fn submit(&mut self, _: &TurnRequest<'_>) -> Result<(), PolicyError> {
        Ok(())
    }

    fn poll(&mut self, _: PollMode) -> Result<Vec<Reply>, PolicyError> {
        Ok(Vec::new())
    }
}

#[test]
fn sink_can_stop_a_wait() {
    struct Interrupted(usize);
    impl GameSink for Interrupted {
        fn finished(&mut self, _: FinishedGame) -> spag_game::Result<()> {
            Ok(())
        }
        fn failed(&mut self, _: FailedGame) -> spag_game::Result<()> {
            Ok(())
        }
        fn should_continue(&mut self) -> bool {
            self.0 = self.0.saturating_sub(1);
            self.0 > 0
        }
    }
    play_games(
        &Taboo::new(&PromptSet::default()),
        specs(9),
        Seats::SelfPlay(&mut Hanging),
        &STOP,
        &mut Interrupted(100),
    )
    .unwrap();
}

/// Records the modes of polls.
struct Watched<P>(P, Vec<PollMode>);

impl<P: Policy> Policy for Watched<P> {
    fn submit(&mut self, turn: &TurnRequest<'_>) -> Result<(), PolicyError> {
        self.0.submit(turn)
    }

    fn poll(&mut self, mode: PollMode) -> Result<Vec<Reply>, PolicyError> {
        self.1.push(mode);
        self.0.poll(mode)
    }
}

#[test]
fn poll_blocks_only_if_one_player_has_open_turns() {
    let silent = || Watched(ScriptedPolicy::new(|_: &TurnRequest<'_>| "Hm.".into()), Vec::new());
    let (mut attacker, mut defender) = (silent(), silent());
    let seats = Seats::Versus([&mut attacker, &mut defender]);
    play(specs(1), seats, &STOP);
    assert_eq!((attacker.1, defender.1), (vec![PollMode::Blocking; 3], vec![PollMode::Blocking; 3]));

    // The defender has game 0 while the attacker still has game 1.
    struct OneByOne(Vec<Reply>);
    impl Policy for OneByOne {
        fn submit(&mut self, turn: &TurnRequest<'_>) -> Result<(), PolicyError> {
            self.0.push(Reply { number: turn.number, utterance: Ok("Hm.".into()) });
            Ok(())
        }
        fn poll(&mut self, _: PollMode) -> Result<Vec<Reply>, PolicyError> {
            Ok(self.0.drain(..self.0.len().min(1)).collect())
        }
    }
    let (mut attacker, mut defender) = (Watched(OneByOne(Vec::new()), Vec::new()), silent());
    let seats = Seats::Versus([&mut attacker, &mut defender]);
    play(specs(2), seats, &STOP);
    assert_eq!(
        (attacker.1[0], attacker.1[1], defender.1[0]),
        (PollMode::Blocking, PollMode::NonBlocking, PollMode::NonBlocking)
    );
}

/// Says the same with the tokens of it.
struct Sampled(Vec<Reply>);

impl Policy for Sampled {
    fn submit(&mut self, turn: &TurnRequest<'_>) -> Result<(), PolicyError> {
        let generation = Some(Generation { token_ids: vec![5], ..Generation::default() });
        self.0.push(Reply { number: turn.number, utterance: Ok(Said { generation, ..Said::from("Hm.") }) });
        Ok(())
    }

    fn poll(&mut self, _: PollMode) -> Result<Vec<Reply>, PolicyError> {
        Ok(std::mem::take(&mut self.0))
    }
}

#[test]
fn tokens_are_kept_if_they_are_asked_for() {
    for (tokens, kept) in [(TokenRecords::Dropped, false), (TokenRecords::Kept, true)] {
        let mut player = Sampled(Vec::new());
        let games = play(specs(1), Seats::SelfPlay(&mut player), &PlayConfig { tokens, ..STOP });
        assert_eq!(games[0].episode.history.len(), 6);
        assert!(games[0].episode.history.iter().all(|said| said.generation.is_some() == kept), "{tokens:?}");
    }
}

/// A player that only thinks, in every game.
struct Silent(Vec<Reply>);

impl Policy for Silent {
    fn submit(&mut self, turn: &TurnRequest<'_>) -> Result<(), PolicyError> {
        let think = ReasoningRule::Think(ReasoningTags::default());
        let said = turn.utterance_rule.said("<think>[4] or so", &think, PromptEnd::Plain);
        self.0.push(Reply { number: turn.number, utterance: Ok(said) });
        Ok(())
    }

    fn poll(&mut self, _: PollMode) -> Result<Vec<Reply>, PolicyError> {
        Ok(std::mem::take(&mut self.0))
    }
}

#[test]
fn reasoning_alone_is_refused_where_actions_are_and_is_an_empty_utterance_elsewhere() {
    for name in ["tic-tac-toe", "dont-say-it", "simple-negotiation", "kuhn-poker", "nim"] {
        let data = (name == "dont-say-it").then(|| word_file(&["tea", "milk"]));
        let file = data.as_ref().map(|folder| folder.path().join("words.txt"));
        let game = open_game(name, &Default::default(), file.as_deref(), PromptFormat::Plain).unwrap();
        let spec = GameSpec { number: 0, item: String::new(), max_turns: 0, seed: 3, sampling_seed: None };
        let mut games = CollectedGames::default();
        play_games(&*game, [spec], Seats::SelfPlay(&mut Silent(Vec::new())), &PlayConfig::default(), &mut games)
            .unwrap();
        let played = &games.finished[0];
        // One refusal is allowed.
        assert_eq!((played.verdict.ending.label().name, played.episode.history.len()), ("invalid", 2), "{name}");
        for said in &played.episode.history {
            assert_eq!((said.content.as_str(), said.reasoning.as_deref()), ("", Some("[4] or so")));
            assert_eq!(
                (said.reasoning_end, &said.extra[Utterance::REFUSAL]),
                (Some(ReasoningEnd::Unfinished), &"format".into())
            );
        }
        // The record is judged as the game was.
        assert_eq!(game.judge().judge(&played.episode.view()).unwrap(), played.verdict, "{name}");
    }
    let spec = GameSpec { number: 0, item: "tea".into(), max_turns: 2, seed: 3, sampling_seed: None };
    let (prompts, mut games) = (PromptSet::default(), CollectedGames::default());
    let taboo = Rules::default().game(&prompts);
    play_games(&taboo, [spec], Seats::SelfPlay(&mut Silent(Vec::new())), &PlayConfig::default(), &mut games).unwrap();
    assert_eq!((games.finished[0].verdict.ending, games.finished[0].episode.history.len()), (taboo::TIE, 4));
}

fn word_file(words: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("words.txt"), words.join("\n")).unwrap();
    folder
}
