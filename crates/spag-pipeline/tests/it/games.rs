//! Runs of several games.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::common::tiny::{base, run_config};
use serde_json::Value;
use spag_game::{
    CollectedGames, Episode, GameSpec, PlayConfig, ScriptedPolicy, Seats, open_game, play_games, read_episodes,
};
use spag_io::{PromptFormat, Silent, write_jsonl_atomically};
use spag_pipeline::{RunConfig, plan_run, run};
use spag_rewards::{Sample, read_samples};

/// Nim with one object, which the first move wins, and a round of Kuhn poker.
const MIX: &str = r#"games=[{game = "nim", game_options = "piles=[1]", share = 3}, {game = "kuhn-poker", game_options = "rounds=1"}]"#;

fn mix(run_dir: &Path, overrides: &[&str]) -> RunConfig {
    let random = [
        MIX,
        "imitation.source=random",
        "imitation.games=200",
        "imitation.train.num_train_epochs=6.0",
        "sft.share=0",
        "self_play.games=30",
        "evaluation.arena_games=4",
    ];
    run_config(run_dir, &[&random, overrides].concat())
}

fn name_of(extra: &serde_json::Map<String, Value>) -> &str {
    extra.get("game_name").and_then(Value::as_str).unwrap_or("taboo")
}

/// The total weight of each seat in each game, which each game has half of.
fn weights(samples: &[Sample]) -> BTreeMap<(String, &'static str), f64> {
    let mut weights = BTreeMap::new();
    for sample in samples.iter().filter(|sample| sample.seat.is_some()) {
        let seat = sample.seat.unwrap().name();
        *weights.entry((name_of(&sample.extra).to_owned(), seat)).or_default() += sample.weight * sample.reward;
    }
    weights
}

#[test]
fn every_game_has_its_share_of_games_and_its_own_credit_and_tables() {
    let root = tempfile::tempdir().unwrap();
    let config = mix(&root.path().join("run"), &[]);
    let plan = plan_run(&config, 1).unwrap();
    assert_eq!((plan.stages[1].games, plan.stages[2].games), (200, 30));
    let report = run(&config, &mut Silent).unwrap();
    let file = |name: &str| config.run_dir.join(name);
    let mut won = BTreeMap::new();
    for (path, game, count) in [
        ("im/nim/episodes.jsonl", "nim", 150),
        ("im/kuhn-poker/episodes.jsonl", "kuhn-poker", 50),
        // 22.5 and 7.5: of equal remainders the earlier one counts.
        ("spag-1/nim/episodes.jsonl", "nim", 23),
        ("spag-1/kuhn-poker/episodes.jsonl", "kuhn-poker", 7),
        ("eval/nim/im-vs-im.jsonl", "nim", 8),
        ("eval/kuhn-poker/spag-1-vs-im.jsonl", "kuhn-poker", 2),
    ] {
        let episodes = read_episodes(file(path)).unwrap();
        assert_eq!(episodes.len(), count, "{path}");
        assert!(episodes.iter().all(|episode| name_of(&episode.extra) == game), "{path}");
        let opened =
            open_game(game, &episodes[0].extra["game_options"].as_object().unwrap().clone(), None, PromptFormat::Plain);
        let (opened, mut wins) = (opened.unwrap(), 0);
        let mut judge = opened.judge();
        for episode in &episodes {
            wins += usize::from(judge.judge(&episode.view()).unwrap().rewarded_winner().is_some());
        }
        won.insert(path, wins);
    }
    let samples = read_samples(file("spag-1/samples.jsonl")).unwrap();
    assert!(samples.iter().any(|sample| name_of(&sample.extra) == "nim"), "the model has learned to take the object");
    // Of each game the weights add up to its won games, whatever the other game has.
    for game in ["nim", "kuhn-poker"] {
        let total: f64 = weights(&samples).iter().filter(|((name, _), _)| name == game).map(|(_, weight)| weight).sum();
        let seats = weights(&samples).keys().filter(|(name, _)| name == game).count();
        let wins = won[&*format!("spag-1/{game}/episodes.jsonl")] as f64;
        assert!((total - wins * seats as f64 / 2.0).abs() < 1e-9, "{game}: {total} of {wins}");
    }
    let imitated = read_samples(file("im/samples.jsonl")).unwrap();
    let parts = ["im/nim/samples.jsonl", "im/kuhn-poker/samples.jsonl"].map(|name| read_samples(file(name)).unwrap());
    assert_eq!(imitated, parts.concat());
    assert_eq!(report.first.game.as_deref(), Some("nim"));
    assert_eq!(report.more_games.iter().map(|game| game.game.as_deref()).collect::<Vec<_>>(), [Some("kuhn-poker")]);
    for game in report.games() {
        assert!(game.baseline.games > 0 && game.matches.len() == 1 && game.rounds.len() == 2);
        let refusals = game.baseline.refusals.unwrap();
        assert!(refusals.values().iter().all(|refusals| refusals.refused.total >= refusals.refused.count));
        assert!(game.imitation[0].won > 0 && game.ratings.is_none() == (config.evaluation.arena_games == 0));
    }
    assert_eq!((report.first.exact.len(), report.more_games[0].exact.len()), (0, 2));
    assert!(report.first.rounds[1].training.is_some() && report.more_games[0].rounds[1].training.is_none());
    let text = fs::read_to_string(file("report.txt")).unwrap();
    for part in
        ["── Nim (piles=[1]) ──", "── Kuhn Poker (rounds=1) ──", "Exploitability", "Refused utterances", "eval/nim"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let page = fs::read_to_string(file("report.html")).unwrap();
    let title = spag_run::document::Document::of_html(&page).unwrap().title;
    assert_eq!(title, "Self-play of Nim (piles=[1]), Kuhn Poker (rounds=1)");
    let read: spag_pipeline::Report = serde_json::from_slice(&fs::read(file("report.json")).unwrap()).unwrap();
    assert_eq!(read.more_games, report.more_games);
}

#[test]
fn updates_have_each_game_with_its_share_and_its_own_baselines() {
    let root = tempfile::tempdir().unwrap();
    let online = ["method=online", "online.updates=4", "online.games_per_update=16", "online.group_size=2"];
    let config = mix(&root.path().join("run"), &[&online[..], &["imitation.train.num_train_epochs=2.0"]].concat());
    let report = run(&config, &mut Silent).unwrap();
    let file = |name: &str| config.run_dir.join(name);
    for (game, count) in [("nim", 4 * 12), ("kuhn-poker", 4 * 4)] {
        let episodes = read_episodes(file(&format!("spag-1/{game}/episodes.jsonl"))).unwrap();
        assert_eq!(episodes.len(), count);
        assert!(episodes.iter().all(|episode| name_of(&episode.extra) == game));
    }
    let metrics = fs::read_to_string(file("metrics.jsonl")).unwrap();
    for line in metrics.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        let number = |key: &str| line[key].as_f64().unwrap_or_else(|| panic!("{key} in {line}"));
        assert_eq!((number("games"), number("nim/games"), number("kuhn-poker/games")), (16.0, 12.0, 4.0));
        assert_eq!(number("log_prob_gap_max"), 0.0, "{line}");
        for game in ["nim", "kuhn-poker"] {
            let shares = ["player 0_wins", "player 1_wins", "ties"].map(|key| number(&format!("{game}/{key}")));
            assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{line}");
        }
    }
    assert_eq!(report.updates.len(), 4);
    let text = fs::read_to_string(file("report.txt")).unwrap();
    assert!(text.contains("ties, nim") && text.contains("ties, kuhn-poker"), "{text}");
    assert!(fs::read_to_string(file("report.html")).unwrap().contains("games of nim"));
    // A baseline for each game and seat.
    let saved = fs::read_dir(file("spag-1")).unwrap().map(|entry| entry.unwrap().path());
    let saved = saved.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("online-")).max().unwrap();
    let state = fs::read_to_string(saved).unwrap();
    assert!(state.contains("nim") && state.contains("kuhn-poker"), "{state}");
}

#[test]
fn mix_goes_on_after_a_kill_in_any_of_its_games() {
    let root = tempfile::tempdir().unwrap();
    let config = mix(&root.path().join("run"), &[]);
    run(&config, &mut Silent).unwrap();
    let files = [
        "im/samples.jsonl",
        "im/model/model.safetensors",
        "spag-1/nim/episodes.jsonl",
        "spag-1/kuhn-poker/episodes.jsonl",
        "spag-1/samples.jsonl",
        "eval/kuhn-poker/spag-1-vs-im.jsonl",
    ];
    let whole = files.map(|name| fs::read(config.run_dir.join(name)).unwrap());
    for (stage, game, left) in
        [("im", "nim", 10), ("im", "kuhn-poker", 49), ("spag-1", "nim", 7), ("spag-1", "kuhn-poker", 0)]
    {
        // What a kill leaves: games of the earlier ones, and of one game some, the last line torn.
        let stages = [("im", "done.json"), ("spag-1", "done.json"), ("eval", "done.json")];
        for (folder, done) in stages.into_iter().skip_while(|(folder, _)| *folder != stage) {
            fs::remove_file(config.run_dir.join(folder).join(done)).unwrap();
        }
        let games = config.run_dir.join(stage).join(game).join("episodes.jsonl");
        let rows = fs::read_to_string(&games).unwrap();
        let some: String = rows.split_inclusive('\n').take(left).collect();
        fs::write(&games, some + "{\"history\": [").unwrap();
        if game == "nim" {
            fs::remove_file(config.run_dir.join(stage).join("kuhn-poker/episodes.jsonl")).unwrap();
        }
        run(&config, &mut Silent).unwrap();
        assert!(files.map(|name| fs::read(config.run_dir.join(name)).unwrap()) == whole, "{stage} {game} {left}");
    }
    let other =
        mix(&config.run_dir, &["games=[{game = \"nim\", game_options = \"piles=[1]\"}, {game = \"kuhn-poker\"}]"]);
    let said = run(&other, &mut Silent).unwrap_err().to_string();
    assert!(said.contains("`games.0.share` = 3.0, but it is now 1.0"), "{said}");
}

#[test]
fn one_game_in_the_list_is_the_run_of_this_game() {
    let root = tempfile::tempdir().unwrap();
    let common = ["imitation.source=random", "imitation.games=40", "epochs=0", "sft.share=0", "evaluation.games=3"];
    let run_with = |name: &str, game: &[&str]| {
        let config = run_config(&root.path().join(name), &[&common, game].concat());
        run(&config, &mut Silent).unwrap();
        ["im/episodes.jsonl", "im/samples.jsonl", "eval/im-vs-im.jsonl"]
            .map(|file| fs::read(config.run_dir.join(file)).unwrap())
    };
    let alone = run_with("alone", &["game=nim", "game_options=piles=[1]"]);
    assert!(alone == run_with("list", &[r#"games=[{game = "nim", game_options = "piles=[1]"}]"#]));
}

/// Taboo is played on its words, and a file of games of both games is divided between them.
#[test]
fn file_of_games_is_divided_by_their_names() {
    let root = tempfile::tempdir().unwrap();
    let scripted = run_config(&root.path().join("scripted"), &["epochs=0", "evaluation.games=1"]);
    run(&scripted, &mut Silent).unwrap();
    let mut games = read_episodes(scripted.run_dir.join("im/episodes.jsonl")).unwrap();
    games.extend(random_nim(30));
    games.rotate_right(7);
    let file = root.path().join("games.jsonl");
    write_jsonl_atomically(&file, &games).unwrap();
    let source = format!("imitation.file={}", file.display());
    let mix = r#"games=[{game = "taboo"}, {game = "nim", share = 0.5}]"#;
    let overrides = ["imitation.source=games", &source, mix, "words.holdout=0.2", "sft.share=0", "evaluation.games=6"];
    let config = run_config(&root.path().join("run"), &overrides);
    let report = run(&config, &mut Silent).unwrap();
    let count = |name: &str| read_episodes(config.run_dir.join(name)).unwrap().len();
    assert_eq!((count("im/nim/episodes.jsonl"), count("spag-1/taboo/episodes.jsonl")), (30, 16));
    assert_eq!((count("eval/taboo/held-out/im-vs-im.jsonl"), count("eval/nim/im-vs-im.jsonl")), (4, 2));
    assert!(!config.run_dir.join("eval/nim/held-out").exists());
    assert!(report.first.held_out.is_some() && report.more_games[0].held_out.is_none());
    assert!(report.first.baseline.refusals.is_none() && report.more_games[0].baseline.refusals.is_some());
    games[0].extra.insert("game_name".into(), "chess".into());
    write_jsonl_atomically(&file, &games).unwrap();
    let said = run(&run_config(&root.path().join("other"), &overrides), &mut Silent).unwrap_err().to_string();
    assert!(said.contains("row 1: it is of none of the run's games"), "{said}");
}

fn random_nim(count: usize) -> Vec<Episode> {
    let game = open_game("nim", &Default::default(), None, PromptFormat::Plain).unwrap();
    let spec =
        |number| GameSpec { number, item: String::new(), max_turns: 0, seed: number as u64, sampling_seed: None };
    let (mut player, mut played) = (ScriptedPolicy::random_actions(), CollectedGames::default());
    play_games(&*game, (0..count).map(spec), Seats::SelfPlay(&mut player), &PlayConfig::default(), &mut played)
        .unwrap();
    played.finished.into_iter().map(|game| game.episode).collect()
}

#[test]
fn lists_that_are_no_mix_are_refused_with_the_setting() {
    let load = |overrides: &[&str]| {
        let file = base().0.path().join("refused.toml");
        fs::write(&file, format!("base_model = {:?}\n", base().1.display().to_string())).unwrap();
        let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
        RunConfig::load(&file, &overrides).map(|_| ()).unwrap_err().to_string()
    };
    let random = "imitation.source=random";
    for (overrides, said) in [
        (vec!["game=nim", MIX], "setting `game`: [[games]] names the games of this run; remove one of the two"),
        (vec!["game_options=rounds=1", MIX], "setting `game_options`"),
        (vec![random, r#"games=[{game = "nim", share = 0}]"#], "the share of nim is 0; expected a number above 0"),
        (vec![random, r#"games=[{game = "nim", share = -1.5}]"#], "the share of nim is -1.5"),
        (
            vec![random, r#"games=[{game = "nim"}, {game = "nim", share = 2}]"#],
            "nim is named twice with the same options",
        ),
        (vec![random, r#"games=[{share = 2}]"#], "each of [[games]] needs a name"),
        (vec![random, r#"games=[{game = "nim", shares = 2}]"#], "unknown setting `shares`"),
        (vec![random, MIX], "setting `self_play.games`: the games nim, kuhn-poker share them"),
        (
            vec![random, MIX, "self_play.games=9", "imitation.games=1"],
            "setting `imitation.games`: 1 games leave none for kuhn-poker",
        ),
        (vec![MIX], "setting `imitation.source`: the scripted players cannot play nim"),
        (
            vec![random, r#"games=[{game = "nim"}, {game = "taboo"}]"#],
            "\"random\" needs a game with a list of actions, not taboo",
        ),
        (
            vec![random, r#"games=[{game = "taboo", data = "words.txt"}]"#],
            "taboo has no data here: [words] has its words",
        ),
        (vec![random, MIX, "words.holdout=0.5"], "setting `words.holdout`: nim, kuhn-poker has no words"),
        (vec![random, MIX, "words.file=w.txt"], "setting `words.file`: none of [[games]] is taboo"),
        (
            vec![
                random,
                r#"games=[{game = "dont-say-it", data = "nowhere.txt"}]"#,
                "self_play.games=9",
                "imitation.games=9",
            ],
            "setting `games.data`: nowhere.txt",
        ),
    ] {
        let found = load(&overrides);
        assert!(found.contains(said), "{overrides:?}: {found}");
    }
    let root = tempfile::tempdir().unwrap();
    for (games, said) in [
        (r#"games=[{game = "kuhnpoker"}, {game = "nim"}]"#, "kuhn-poker"),
        (r#"games=[{game = "dont-say-it"}, {game = "nim"}]"#, "it needs a list of words"),
        (r#"games=[{game = "nim", game_options = "pile=3"}, {game = "kuhn-poker"}]"#, "did you mean \"piles\"?"),
    ] {
        let found = plan_run(&mix(root.path(), &[games]), 1).unwrap_err().to_string();
        assert!(found.contains(said), "{games}: {found}");
    }
}
