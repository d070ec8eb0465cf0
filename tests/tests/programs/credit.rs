//! `spag-assign-rewards --credit`: the rules of `[rewards] credit`.

use std::fs;

use spag_game::{Taboo, read_episodes};
use spag_rewards::{CreditConfig, CreditRule, SignedSeats, assign_rewards, credit_games, read_samples};
use spag_tests::{fixture, program, run};

#[test]
fn rule_is_that_of_the_flag_and_the_winners_by_default() {
    let folder = tempfile::tempdir().unwrap();
    let games = fixture("judge_cases.jsonl");
    let path = |name: &str| folder.path().join(name);
    let written = |name: &str, flags: &[&str]| {
        let mut command = program("spag-assign-rewards");
        command.arg("--input_data_path").arg(&games).arg("--output_data_path").arg(path(name));
        run(command.args(["--decay_weight", "0.5", "--seed", "3"]).args(flags), 0).0
    };
    let by_default = written("default.jsonl", &[]);
    written("winner.jsonl", &["--credit", "winner"]);
    assert_eq!(fs::read(path("default.jsonl")).unwrap(), fs::read(path("winner.jsonl")).unwrap());
    let said = written("signed.jsonl", &["--credit", "signed"]);
    assert!(by_default.contains("of winning attackers") && !said.contains("winning"), "{said}");

    written("drawn.jsonl", &["--credit", "drawn"]);

    let (episodes, game) = (read_episodes(&games).unwrap(), Taboo::default());
    let signed = read_samples(path("signed.jsonl")).unwrap();
    let config = CreditConfig { decay_weight: 0.5, seed: 3, ..CreditConfig::default() };
    let rules = [CreditRule::Winner, CreditRule::Signed, CreditRule::Drawn];
    for (rule, name) in rules.into_iter().zip(["winner.jsonl", "signed.jsonl", "drawn.jsonl"]) {
        let credited = assign_rewards(&episodes, &game, &CreditConfig { credit: rule, ..config.clone() }).unwrap();
        assert_eq!(read_samples(path(name)).unwrap(), credited.samples, "{name}");
    }
    assert_ne!(fs::read(path("drawn.jsonl")).unwrap(), fs::read(path("winner.jsonl")).unwrap());
    // The rule itself, and the losers that the other one leaves out.
    let credited = assign_rewards(&episodes, &game, &config).unwrap();
    let judged: Vec<_> = episodes.iter().zip(credited.verdicts).collect();
    let rule = SignedSeats { decay_weight: 0.5, norm: config.norm };
    assert_eq!(
        signed,
        credit_games(&game, &judged, &rule, (3, &spag_rewards::SampleReasoning::default())).unwrap().samples
    );
    assert!(signed.len() > credited.samples.len() && signed.iter().any(|sample| sample.reward < 0.0));

    let mut command = program("spag-assign-rewards");
    command.arg("--input_data_path").arg(&games).arg("--output_data_path").arg(path("none.jsonl"));
    let (_, err) = run(command.args(["--credit", "loser"]), 2);
    assert!(err.contains("--credit") && err.contains("signed") && !path("none.jsonl").exists(), "{err}");
}
