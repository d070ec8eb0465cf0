//! An adapter records the model that it was trained on, and every program refuses it with another one of the same shape.

use std::fs;

use spag_tests::{copy_folder, fixture, program, run, train_command};

#[test]
fn another_base_of_the_same_shape_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let adapter = folder.path().join("adapter");
    let mut train = train_command(&adapter);
    train.args(["--max_steps", "2", "--per_device_train_batch_size", "2", "--save_steps", "1", "--lora_r", "2"]);
    run(&mut train, 0);
    assert!(adapter.join("spag-base.json").is_file() && adapter.join("checkpoint-1/spag-base.json").is_file());
    fs::write(folder.path().join("words.txt"), "bear\nfrog\n").unwrap();
    fs::write(folder.path().join("prompts.jsonl"), "{\"prompt\": \"Let us play\"}\n").unwrap();
    let (base, other) = (fixture("tiny-llama"), fixture("tiny-llama/ref"));
    let (base, other) = (base.to_str().unwrap(), other.to_str().unwrap());
    let spag = |arguments: &str| {
        let mut command = program("spag");
        command.current_dir(folder.path()).args(arguments.split_whitespace());
        command
    };
    let generate = |model: &str| {
        spag(&format!(
            "generate --input prompts.jsonl --output o.jsonl --max_new_tokens 2 --model {model} --adapter adapter"
        ))
    };
    let refused = |command: &mut std::process::Command| {
        let (_, err) = run(command, 2);
        assert!(
            err.contains("digest") && err.contains("spag-base.json") && err.contains("adapter"),
            "{command:?}: {err}"
        );
    };
    for mut command in [
        generate(other),
        spag(&format!("merge --model {other} --adapter adapter --output_dir sum")),
        spag(&format!("serve {other} --adapter a=adapter")),
        spag(&format!("eval --tasks tiny --output_dir scores --model {other} --adapter adapter")),
        spag(&format!("arena --words words.txt --games 2 --players a={other} b={other} --adapter b=adapter")),
    ] {
        refused(&mut command);
    }
    // The same weights in another folder, whose configuration says it in other words.
    let copy = folder.path().join("copy");
    copy_folder(fixture("tiny-llama"), &copy);
    let text = fs::read_to_string(copy.join("config.json")).unwrap();
    fs::write(copy.join("config.json"), format!("{text}\n")).unwrap();
    for model in [base, copy.to_str().unwrap()] {
        run(&mut generate(model), 0);
    }
    // Without a record an adapter is for every model of its shape, as PEFT's are.
    fs::write(adapter.join("spag-base.json"), "{}").unwrap();
    let (_, err) = run(&mut generate(base), 2);
    assert!(err.contains("spag-base.json") && err.contains("delete it"), "{err}");
    fs::remove_file(adapter.join("spag-base.json")).unwrap();
    run(&mut generate(other), 0);
}
