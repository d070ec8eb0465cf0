//! A report with random numbers.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use spag_game::{PerEnding, PerSeat, taboo};
use spag_pipeline::{
    GameReport, LossCurve, LossPoint, MatchReport, NamedPlay, PlayStats, Report, SamplePair, ShownGame, ShownUtterance,
    StageSeconds,
};
use spag_selfplay::Rate;

/// Random but plausible: SPAG models improve with each epoch and lie more.
pub(crate) fn made_up(seed: u64) -> Report {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let baseline = play(&mut rng, 600, [0.42, 0.30, 0.16, 0.01, 0.11], 3.4, 0.87);
    let matches = (1..=3usize)
        .map(|epoch| {
            let k = epoch as f64;
            let attacking = [0.42 - 0.07 * k, 0.30 + 0.04 * k, 0.16 + 0.03 * k, 0.01, 0.11];
            let defending = [0.42 + 0.04 * k, 0.30 - 0.03 * k, 0.16 - 0.02 * k, 0.01, 0.11 + 0.01 * k];
            let attacker = play(&mut rng, 600, attacking, 3.2, 0.87 - 0.06 * k);
            let defender = play(&mut rng, 600, defending, 3.0, 0.87);
            MatchReport::new(&taboo::LABELS, epoch, [attacker, defender], &baseline)
        })
        .collect();
    let training_games = ["scripted", "IM", "SPAG-1", "SPAG-2", "SPAG-3"]
        .into_iter()
        .enumerate()
        .map(|(i, name)| {
            let k = i as f64;
            let shares = [0.42 - 0.02 * k, 0.30 + 0.02 * k, 0.16, 0.01, 0.11];
            NamedPlay { name: name.to_owned(), play: play(&mut rng, 1440, shares, 3.4 - 0.1 * k, 0.9 - 0.05 * k) }
        })
        .collect();
    let losses = [
        ("IM", 150, 2.1, 0.9),
        ("SPAG-1", 110, -0.1, -0.35),
        ("SPAG-2", 105, -0.15, -0.4),
        ("SPAG-3", 100, -0.2, -0.42),
    ]
    .into_iter()
    .map(|(name, steps, from, to)| LossCurve {
        name: name.to_owned(),
        points: (1..=steps)
            .map(|step| {
                let rest = (-4.0 * step as f64 / steps as f64).exp();
                LossPoint { step, loss: to + (from - to) * rest + rng.random_range(-0.05..0.05) }
            })
            .collect(),
    })
    .collect();
    let first = GameReport {
        folder: None,
        game: None,
        game_options: None,
        training_games,
        baseline,
        matches,
        samples: vec![pair("tiger", false), pair("<script>alert(1)</script>", true)],
        rounds: Vec::new(),
        imitation: Vec::new(),
        held_out: None,
        exact: Vec::new(),
        ratings: None,
    };
    Report {
        first,
        more_games: Vec::new(),
        run_dir: "runs/tiny".to_owned(),
        seed: 0,
        evaluation_seed: 1_000_003,
        settings: vec![
            ("rewards.reward_norm".to_owned(), "mean".to_owned()),
            ("train.learning_rate".to_owned(), "0.001".to_owned()),
        ],
        losses,
        updates: Vec::new(),
        stages: ["im", "spag-1", "spag-2", "spag-3", "evaluation"]
            .into_iter()
            .map(|stage| StageSeconds {
                stage: stage.to_owned(),
                parts: [("play", 12.3), ("credit", 0.2), ("train", 21.8)]
                    .map(|(part, seconds)| (part.to_owned(), seconds))
                    .into(),
                resumed: stage == "spag-2",
            })
            .collect(),
        benchmarks: Vec::new(),
        controls: None,
        stopped: None,
        warnings: Vec::new(),
        files: vec![
            ("im/model".to_owned(), "the imitation model".to_owned()),
            ("spag-3/model".to_owned(), "the last model".to_owned()),
            ("eval/spag-3-vs-im.jsonl".to_owned(), "SPAG-3 attacks, IM defends".to_owned()),
        ],
    }
}

fn play(rng: &mut ChaCha8Rng, games: usize, shares: [f64; 5], turns: f64, truth: f64) -> PlayStats {
    let mut counts = [0usize; 5];
    for _ in 0..games {
        let mut draw: f64 = rng.random();
        let ending = shares.iter().position(|share| {
            draw -= share;
            draw < 0.0
        });
        counts[ending.unwrap_or(4)] += 1;
    }
    let [right, wrong, said, broken, tie] = counts;
    let decided = games - tie;
    PlayStats {
        games,
        win: PerSeat::new(&taboo::LABELS, [Rate::new(wrong + said, decided), Rate::new(right + broken, decided)]),
        endings: PerEnding::of(&taboo::LABELS, |ending| {
            let count = match ending {
                taboo::RIGHT_GUESS => right,
                taboo::WRONG_GUESS => wrong,
                taboo::SAID_UNKNOWINGLY => said,
                taboo::BROKEN_RULE => broken,
                _ => tie,
            };
            Rate::new(count, games)
        }),
        mean_turns: turns,
        true_clues: Rate::new((truth * 1500.0) as usize, 1500),
        refusals: None,
    }
}

fn pair(word: &str, as_defender: bool) -> SamplePair {
    let (attacker, defender) = if as_defender { ("IM", "SPAG-3") } else { ("SPAG-3", "IM") };
    SamplePair {
        item: word.to_owned(),
        before: game("IM", "IM", word, "defender names the word and wins"),
        after: game(attacker, defender, word, "defender names a wrong word, attacker wins"),
    }
}

fn game(attacker: &str, defender: &str, word: &str, ending: &str) -> ShownGame {
    let said = [
        (taboo::ATTACKER, "Which animal has stripes & claws?".to_owned()),
        (taboo::DEFENDER, "There are many things like that.".to_owned()),
        (
            taboo::ATTACKER,
            "People say it lives in the jungle and hunts at night, long after everyone else has gone to sleep."
                .to_owned(),
        ),
        (taboo::DEFENDER, format!("I know the word! It is {word}.")),
    ];
    ShownGame {
        players: PerSeat::new(&taboo::LABELS, [attacker, defender].map(str::to_owned)),
        utterances: said
            .into_iter()
            .map(|(seat, content)| {
                let untrue = if content.contains("jungle") { vec!["lives in the jungle".to_owned()] } else { vec![] };
                ShownUtterance { seat, content, untrue }
            })
            .collect(),
        ending: ending.to_owned(),
    }
}
