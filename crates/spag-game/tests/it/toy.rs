//! The driver plays a game that is not Adversarial Taboo: with private information, refusals, and a seat that moves twice.

use spag_game::taboo::Taboo;
use spag_game::{
    AsSeat, CollectedGames, Ending, EndingLabel, Episode, Game, GameRecord, GameSpec, Labels, Match, PerEnding,
    PerSeat, Play, PlayConfig, Refusal, Ruling, ScriptedPolicy, Seat, Seats, Tally, TurnFailure, TurnRequest,
    UtteranceKind, UtteranceRule, Verdict, play_games, read_games, taboo,
};
use spag_io::{PromptText, TurnPrompt};

const HIDER: Seat = Seat::new(0, "hider");
const SEEKER: Seat = Seat::new(1, "seeker");

const FOUND: Ending = Ending::new(&EndingLabel {
    name: "found",
    title: "found",
    description: "found",
    outcome: "seeker wins",
    winner: Some(SEEKER),
    play: Play::ByTheRules,
});
const NOT_FOUND: Ending = Ending::new(&EndingLabel {
    name: "not_found",
    title: "not_found",
    description: "not_found",
    outcome: "hider wins",
    winner: Some(HIDER),
    play: Play::ByTheRules,
});
// Either seat can lose so.
const INVALID: Ending = Ending::new(&EndingLabel {
    name: "invalid",
    title: "invalid",
    description: "invalid",
    outcome: "invalid",
    winner: None,
    play: Play::RuleBroken,
});
const NO_BOUND: Ending = Ending::new(&EndingLabel {
    name: "no_bound",
    title: "no_bound",
    description: "no_bound",
    outcome: "tie",
    winner: None,
    play: Play::ByTheRules,
});

static LABELS: Labels = Labels {
    name: "guess-the-number",
    title: "Guess the Number",
    seats: [HIDER, SEEKER],
    verbs: ["hides", "seeks"],
    endings: &[FOUND, NOT_FOUND, INVALID, NO_BOUND],
    outcomes: &["seeker wins", "hider wins", "invalid", "tie"],
    broken_rule: "a refused player loses",
    item: "number",
    item_key: "number",
    utterances: UtteranceKind::Moves,
    guesses: &[],
};

/// The hider knows a number below ten, which the seed draws, and names a bound above it. The seeker then guesses twice.
#[derive(Debug)]
struct GuessTheNumber;

impl Game for GuessTheNumber {
    fn labels(&self) -> &'static Labels {
        &LABELS
    }

    fn start(&self, spec: &GameSpec) -> spag_game::Result<Box<dyn Match + '_>> {
        Ok(Box::new(Guessing { number: spec.seed % 10, bound: None, guesses: 0, refusals: 0, utterances: 0 }))
    }
}

#[derive(Debug)]
struct Guessing {
    number: u64,
    bound: Option<u64>,
    guesses: usize,
    /// Refusals in a row.
    refusals: usize,
    utterances: usize,
}

impl Guessing {
    /// Refuses an utterance; the second one in a row loses.
    fn refuse(&mut self, refusal: Refusal) -> Ruling {
        self.refusals += 1;
        match self.refusals {
            1 => Ruling::refused(refusal),
            _ => {
                let verdict = Verdict::won_by(LABELS.other(self.to_move()), INVALID, self.utterances);
                Ruling { refusal: Some(refusal), verdict: Some(verdict) }
            }
        }
    }
}

impl Match for Guessing {
    fn to_move(&self) -> Seat {
        if self.bound.is_none() { HIDER } else { SEEKER }
    }

    fn prompt(&self, seat: Seat, _: &Episode) -> TurnPrompt {
        let refused = if self.refusals > 0 { " That was refused." } else { "" };
        TurnPrompt::Plain(PromptText::own(match (seat, self.bound) {
            (HIDER, _) => format!("The number is {}. Name a bound.{refused}", self.number),
            (_, bound) => format!("It is below {}.{refused}", bound.unwrap_or_default()),
        }))
    }

    fn utterance_rule(&self) -> UtteranceRule {
        UtteranceRule::Trimmed
    }

    fn apply(&mut self, text: &str) -> Ruling {
        self.utterances += 1;
        if self.bound.is_none() && text == "none" {
            return Ruling::ended(Verdict::of(NO_BOUND, self.utterances));
        }
        let Ok(said) = text.parse::<u64>() else { return self.refuse(Refusal::Format) };
        let Some(bound) = self.bound else {
            if said <= self.number {
                return self.refuse(Refusal::Illegal);
            }
            self.bound = Some(said);
            self.refusals = 0;
            return Ruling::ACCEPTED;
        };
        if said >= bound {
            return self.refuse(Refusal::Illegal);
        }
        self.refusals = 0;
        self.guesses += 1;
        match (said == self.number, self.guesses) {
            (true, _) => Ruling::ended(Verdict::of(FOUND, self.utterances)),
            (false, 2) => Ruling::ended(Verdict::of(NOT_FOUND, self.utterances)),
            _ => Ruling::ACCEPTED,
        }
    }
}

/// The games with the lines of each seat, one game for each pair of lists, all at once.
fn play(games: &[(u64, &[&str], &[&str])]) -> CollectedGames {
    let script = |of: Seat| {
        let games: Vec<_> = games.iter().map(|(_, hider, seeker)| if of == HIDER { *hider } else { *seeker }).collect();
        ScriptedPolicy::new(move |turn: &TurnRequest<'_>| {
            assert_eq!(turn.seat, of);
            // Only the hider is told the number.
            assert_eq!(turn.prompt.text().contains("number"), of == HIDER);
            let own = turn.episode.history.iter().filter(|said| said.seat == of).count();
            assert_eq!(turn.prompt.text().contains("refused"), was_refused(turn.episode));
            games[turn.number][own].to_owned()
        })
    };
    let (mut hider, mut seeker) = (script(HIDER), script(SEEKER));
    let specs = games.iter().enumerate().map(|(number, (seed, ..))| GameSpec {
        number,
        item: String::new(),
        max_turns: 0,
        seed: *seed,
        sampling_seed: None,
    });
    let mut collected = CollectedGames::default();
    let seats = Seats::Versus([&mut hider, &mut seeker]);
    play_games(&GuessTheNumber, specs, seats, &PlayConfig::default(), &mut collected).unwrap();
    collected.finished.sort_by_key(|game| game.number);
    collected
}

fn was_refused(episode: &Episode) -> bool {
    episode.history.last().is_some_and(|said| said.extra.contains_key("refusal"))
}

#[test]
fn driver_plays_a_game_with_refusals_and_unequal_turns() {
    let played = play(&[
        (3, &["5"], &["4", "3"]),
        (14, &["9"], &["1", "2"]),
        // The first line has no number and the bound is too low; each is refused once, and the same seat speaks again.
        (7, &["high", "8"], &["9", "7"]),
        (7, &["7", "low"], &[]),
        (2, &["none"], &[]),
    ]);
    let endings: Vec<_> = played.finished.iter().map(|game| (game.verdict.ending, game.verdict.winner())).collect();
    let expected = [
        (FOUND, Some(SEEKER)),
        (NOT_FOUND, Some(HIDER)),
        (FOUND, Some(SEEKER)),
        (INVALID, Some(SEEKER)),
        (NO_BOUND, None),
    ];
    assert_eq!(endings, expected);
    let speakers = |game: usize| -> Vec<&str> {
        played.finished[game].episode.history.iter().map(|said| said.seat.name()).collect()
    };
    assert_eq!(speakers(0), ["hider", "seeker", "seeker"]);
    assert_eq!(speakers(2), ["hider", "hider", "seeker", "seeker"]);
    let refusals: Vec<_> =
        played.finished[2].episode.history.iter().map(|said| said.extra.get("refusal").cloned()).collect();
    assert_eq!(refusals, [Some("format".into()), None, Some("illegal".into()), None]);
    let invalid = played.finished[3].verdict;
    assert_eq!([HIDER, SEEKER].map(|seat| invalid.reward(seat)), [-1.0, 1.0]);
    assert_eq!((invalid.rewarded_winner(), invalid.history_length), (None, 2));
}

#[test]
fn tally_counts_any_game() {
    let played = play(&[(3, &["5"], &["3"]), (7, &["7", "low"], &[]), (2, &["none"], &[]), (4, &["5"], &["3", "2"])]);
    let mut tally = Tally::new(&LABELS);
    played.finished.iter().for_each(|game| tally.add(&game.verdict));
    assert_eq!((tally.games(), tally.decided(), tally.ties(), tally.broken_rules()), (4, 3, 1, 1));
    assert_eq!([HIDER, SEEKER].map(|seat| tally.wins(seat)), [1, 2]);
    assert_eq!([HIDER, SEEKER].map(|seat| tally.rewarded_wins(seat)), [1, 1]);
    assert_eq!((tally.ended_by_first_reply(FOUND), tally.ended_by_first_reply(INVALID)), (1, 1));
    assert_eq!(LABELS.outcomes.iter().map(|outcome| tally.with_outcome(outcome)).collect::<Vec<_>>(), [1; 4]);
    let sum = Tally::sum(&LABELS, [&tally, &tally]);
    assert_eq!((sum.games(), sum.wins(SEEKER), sum.mean_turns()), (8, 4, tally.mean_turns()));
}

/// Files have the names of its seats, which no game of the crate has.
#[test]
fn records_are_read_by_the_names_of_the_game_at_hand() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("games.jsonl");
    let spec = |number: usize| GameSpec { number, item: String::new(), max_turns: 0, seed: 3, sampling_seed: None };
    let open = |games| GameRecord::open(&path, &GuessTheNumber, (0..games).map(spec).collect(), "hider=a; seeker=b");
    let mut record = open(1).unwrap();
    let mut hider = ScriptedPolicy::new(|_: &TurnRequest<'_>| "5".to_owned());
    let mut seeker = ScriptedPolicy::new(|_: &TurnRequest<'_>| "3".to_owned());
    let seats = Seats::Versus([&mut hider, &mut seeker]);
    play_games(&GuessTheNumber, record.missing(), seats, &PlayConfig::default(), &mut record).unwrap();
    let played = record.into_episodes();
    // As after a kill.
    let resumed = open(2).unwrap();
    assert_eq!((resumed.missing().len(), resumed.into_episodes()), (1, played.clone()));
    let read = read_games(&path, &GuessTheNumber).unwrap();
    assert_eq!((read.len(), &read[0].0, read[0].1.ending), (1, &played[0], FOUND));
    assert_eq!(read[0].0.history.iter().map(|said| said.seat).collect::<Vec<_>>(), [HIDER, SEEKER]);
    // Other games do not know them.
    let said = read_games(&path, &Taboo::default()).unwrap_err().to_string();
    assert!(said.contains("row 1") && said.contains("unknown variant `hider`, expected `attacker` or"), "{said}");
    let said = std::fs::read_to_string(&path).unwrap().replace("\"hider\"", "\"hidden\"");
    std::fs::write(&path, said).unwrap();
    let said = read_games(&path, &GuessTheNumber).unwrap_err().to_string();
    assert!(said.contains("unknown variant `hidden`, expected `hider` or `seeker`"), "{said}");
    // Results too.
    let [wins, endings] = [r#"{"as_seeker": 2, "as_hider": 1}"#, r#"{"not_found": 1, "found": 2, "attacker_wins": 1}"#];
    let points: PerSeat<usize, AsSeat> = LABELS.reading(|| serde_json::from_str(wins)).unwrap();
    assert_eq!((points[HIDER], points[SEEKER]), (1, 2));
    let counts: PerEnding<usize> = LABELS.reading(|| serde_json::from_str(endings)).unwrap();
    assert_eq!(counts.iter().map(|(ending, count)| (ending, *count)).collect::<Vec<_>>(), [(FOUND, 2), (NOT_FOUND, 1)]);
    // Within another reading the names are those of its game, and afterwards those of the one before.
    let hider = || serde_json::from_str::<Seat>("\"hider\"").ok();
    let outer = LABELS.reading(|| (taboo::LABELS.reading(hider), hider()));
    assert_eq!((outer, hider()), ((None, Some(HIDER)), None));
}

/// A game whose program fails after the first utterance.
#[derive(Debug)]
struct Failing(usize);

impl Game for Failing {
    fn labels(&self) -> &'static Labels {
        &LABELS
    }

    fn start(&self, _: &GameSpec) -> spag_game::Result<Box<dyn Match + '_>> {
        Ok(Box::new(Self(0)))
    }
}

impl Match for Failing {
    fn to_move(&self) -> Seat {
        HIDER
    }

    fn prompt(&self, _: Seat, _: &Episode) -> TurnPrompt {
        TurnPrompt::Plain(PromptText::default())
    }

    fn utterance_rule(&self) -> UtteranceRule {
        UtteranceRule::Trimmed
    }

    fn apply(&mut self, _: &str) -> Ruling {
        self.0 += 1;
        Ruling::ACCEPTED
    }

    fn fault(&self) -> Option<TurnFailure> {
        (self.0 > 0).then(|| TurnFailure::of_text("the program has ended"))
    }
}

#[test]
fn game_that_cannot_go_on_has_failed() {
    let spec = GameSpec { number: 3, item: String::new(), max_turns: 0, seed: 1, sampling_seed: None };
    let mut player = ScriptedPolicy::new(|turn: &TurnRequest<'_>| {
        assert!(turn.episode.history.is_empty(), "no turn follows the fault");
        "hm".to_owned()
    });
    let mut collected = CollectedGames::default();
    play_games(&Failing(0), [spec], Seats::SelfPlay(&mut player), &PlayConfig::default(), &mut collected).unwrap();
    let [failed] = &collected.failed[..] else { panic!("{collected:?}") };
    assert_eq!((failed.number, failed.seat, failed.episode.history.len()), (3, HIDER, 1));
    assert_eq!(failed.failure.to_string(), "the program has ended");
}
