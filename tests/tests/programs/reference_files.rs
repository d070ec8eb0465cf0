//! Files as the reference writes them: rows under either pair of names, a file of games for each rank, games in the order
//! of its shuffled ranks.

use std::fs;
use std::path::Path;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};
use spag_rewards::{Sample, read_samples};
use spag_tests::{fixture, json as read_json, json_lines, program, run};

/// Writes rows as Python's `json.dump(rows, file, ensure_ascii=False, indent=2)` does.
fn dump(path: &Path, rows: &[Value]) {
    fs::write(path, serde_json::to_string_pretty(rows).unwrap()).unwrap();
}

/// Games of three ranks as the reference's player leaves them: the words shuffled over the ranks and filled up with words
/// from the start, each rank's games in `PREFIX_rank<R>.json`, and all of them in `PREFIX_results.json` in the order in
/// which the file system lists the ranks.
fn play_as_reference(dir: &Path) -> Vec<Value> {
    let mut games = json_lines(fixture("judge_cases.jsonl"));
    games.truncate(100);
    for game in &mut games {
        game.as_object_mut().unwrap().retain(|key, _| ["history", "target_word", "max_turns"].contains(&key.as_str()));
    }
    games.shuffle(&mut ChaCha8Rng::seed_from_u64(0));
    games.extend([games[0].clone(), games[1].clone()]);
    let rank = |rank: usize| games.iter().skip(rank).step_by(3).cloned().collect::<Vec<_>>();
    for each in 0..3 {
        dump(&dir.join(format!("im_sampling_words_rank{each}.json")), &rank(each));
    }
    let all = [rank(2), rank(0), rank(1)].concat();
    dump(&dir.join("im_sampling_words_results.json"), &all);
    all
}

fn assign(dir: &Path, input: &str, output: &str) -> Vec<Sample> {
    let mut command = program("spag-assign-rewards");
    run(command.current_dir(dir).args(["--input_data_path", input, "--output_data_path", output]), 0);
    read_samples(dir.join(output)).unwrap()
}

/// What training reads of samples, in an order of their own.
fn sorted(samples: &[Sample]) -> Vec<String> {
    let row = |s: &Sample| format!("{:?} {} {} {}", s.seat, s.reward, s.weight, s.target);
    let mut rows: Vec<String> = samples.iter().map(row).collect();
    rows.sort();
    rows
}

#[test]
fn rewards_do_not_depend_on_the_order_of_the_ranks() {
    let work = tempfile::tempdir().unwrap();
    let dir = work.path();
    let mut games = play_as_reference(dir);
    assert_eq!(games.len(), 102, "the last round of words is filled up");
    let samples = assign(dir, "im_sampling_words_results.json", "samples.json");
    assert!(samples.len() > 50);

    // The samples of a game stand together, in the order of the file.
    let utterances: Vec<&str> = games
        .iter()
        .flat_map(|game| game["history"].as_array().unwrap())
        .map(|u| u["content"].as_str().unwrap())
        .collect();
    let mut at = utterances.iter();
    assert!(samples.iter().all(|sample| at.any(|utterance| utterance.trim() == sample.target)));

    games.sort_by_key(Value::to_string);
    dump(&dir.join("sorted.json"), &games);
    assert_eq!(sorted(&assign(dir, "sorted.json", "other.json")), sorted(&samples));
}

#[test]
fn games_of_each_rank_are_read_alone() {
    let work = tempfile::tempdir().unwrap();
    play_as_reference(work.path());
    for rank in 0..3 {
        let file = format!("im_sampling_words_rank{rank}.json");
        assert!(!assign(work.path(), &file, "samples.json").is_empty());
        let (shown, _) = run(program("spag").current_dir(work.path()).args(["show", &file, "--limit", "2"]), 0);
        let games = read_json(work.path().join(&file));
        assert!(shown.contains(games[0]["target_word"].as_str().unwrap()), "{shown}");
    }
}

#[test]
fn both_pairs_of_names_train_alike() {
    let work = tempfile::tempdir().unwrap();
    let rows = |query: &str, target: &str| -> Vec<Value> {
        let row = |text: &str| json!({query: format!("Game {text}. Attacker:"), target: format!("It is {text}."), "weight": 1.5});
        ["one", "two", "three", "four"].into_iter().map(row).collect()
    };
    let mut ends = Vec::new();
    for (query, target) in [("query", "target"), ("prompt", "answer"), ("prompt", "target"), ("query", "answer")] {
        let (data, output) =
            (work.path().join(format!("{query}-{target}.json")), work.path().join(query.to_owned() + target));
        dump(&data, &rows(query, target));
        let samples = read_samples(&data).unwrap();
        assert_eq!(
            (samples[1].query.text().as_str(), samples[1].target.as_str()),
            ("Game two. Attacker:", "It is two.")
        );
        let mut command = program("spag-train");
        command.arg("--model_name_or_path").arg(fixture("tiny-llama")).arg("--train_data_path").arg(&data);
        command.args([
            "--train_method",
            "SFTwithKL",
            "--lm_kl_coeff",
            "0.1",
            "--max_length",
            "256",
            "--max_steps",
            "2",
        ]);
        run(command.arg("--output_dir").arg(&output), 0);
        ends.push(fs::read(output.join("model.safetensors")).unwrap());
    }
    assert!(ends.iter().all(|weights| *weights == ends[0]));
}

#[test]
fn first_pair_of_names_wins_where_a_row_has_both() {
    let row = r#"{"prompt": "no", "query": "yes", "answer": "no", "target": "yes"}"#;
    let sample: Sample = serde_json::from_str(row).unwrap();
    assert_eq!((sample.query.text().as_str(), sample.target.as_str()), ("yes", "yes"));
}
