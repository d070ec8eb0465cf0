//! Imitation of several sources by shares.

use std::fs;
use std::path::Path;

use crate::common::tiny::run_config;
use spag_game::read_episodes;
use spag_io::Silent;
use spag_pipeline::{RunConfig, plan_run, run};
use spag_rewards::read_samples;

fn config(run_dir: &Path, source: &str) -> RunConfig {
    let games = ["imitation.games=60", "imitation.max_new_tokens=16", "epochs=0", "evaluation.games=2"];
    run_config(run_dir, &[&games[..], &[source]].concat())
}

#[test]
fn samples_are_mixed_by_shares_and_the_run_resumes() {
    let root = tempfile::tempdir().unwrap();
    let source = "imitation.source={ self = 0.25, scripted = 0.75 }";
    let config = config(&root.path().join("run"), source);
    assert_eq!(plan_run(&config, 1).unwrap().stages[1].games, 120);
    let report = run(&config, &mut Silent).unwrap();

    let im = |name: &str| config.run_dir.join("im").join(name);
    let samples = |name: &str| read_samples(im(name)).unwrap();
    let (all, scripted, own) =
        (samples("samples.jsonl"), samples("scripted/samples.jsonl"), samples("self/samples.jsonl"));
    let parts: Vec<_> =
        report.first.imitation.iter().map(|part| (part.source.as_str(), part.games, part.samples)).collect();
    assert_eq!(parts, [("scripted", 60, scripted.len()), ("self", 60, own.len())]);
    let used: Vec<usize> = report.first.imitation.iter().map(|part| part.used).collect();
    assert_eq!(used.iter().sum::<usize>(), all.len());
    let share = used[1] as f64 / all.len() as f64;
    assert!((share - 0.25).abs() < 0.02 && used[0].max(used[1]) > 10, "{used:?}");
    // One of the sources is used up, and the samples keep their order.
    assert!(used[0] == scripted.len() || used[1] == own.len(), "{used:?}");
    let mut rest = scripted.iter();
    assert!(all[..used[0]].iter().all(|sample| rest.any(|own| own == sample)));
    let mut rest = own.iter();
    assert!(all[used[0]..].iter().all(|sample| rest.any(|own| own == sample)));
    assert_eq!(read_episodes(im("episodes.jsonl")).unwrap().len(), 120);
    assert_eq!(report.first.training_games[0].name, "scripted + base");

    // The scripted games are those of the source alone but for their seeds, and a killed run ends with the same samples.
    let before = ["samples.jsonl", "model/model.safetensors"].map(|name| fs::read(im(name)).unwrap());
    fs::remove_file(im("done.json")).unwrap();
    fs::remove_dir_all(im("model")).unwrap();
    fs::remove_file(im("samples.jsonl")).unwrap();
    let games = fs::read_to_string(im("self/episodes.jsonl")).unwrap();
    fs::write(im("self/episodes.jsonl"), games.split_inclusive('\n').take(20).collect::<String>()).unwrap();
    run(&config, &mut Silent).unwrap();
    assert!(["samples.jsonl", "model/model.safetensors"].map(|name| fs::read(im(name)).unwrap()) == before);
    // Shares are settings.
    let other = self::config(&config.run_dir, "imitation.source={ self = 0.5, scripted = 0.5 }");
    let said = run(&other, &mut Silent).unwrap_err().to_string();
    assert!(said.contains("`imitation.source.scripted` = 0.75, but it is now 0.5"), "{said}");
}
