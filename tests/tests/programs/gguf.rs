//! The programs with a GGUF file in the place of a model's folder: the same games, losses and texts.

use std::fs;
use std::path::{Path, PathBuf};

use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use spag_tests::gguf::GgufFile;
use spag_tests::{Serve, fixture, json, json_lines, play_command, program, run};
use tempfile::TempDir;

/// A folder with the fixture's model in both forms, `model` and `Tiny-F32.gguf`, and words to play.
fn workplace() -> (TempDir, [PathBuf; 2]) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("Tiny-F32.gguf");
    fs::write(&file, GgufFile::from_folder(fixture("tiny-llama")).bytes()).unwrap();
    fs::write(folder.path().join("words.txt"), "horse\npiano\n").unwrap();
    (folder, [fixture("tiny-llama"), file])
}

fn only_file(folder: &Path, end: &str) -> PathBuf {
    let mut files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.find(|path| path.to_string_lossy().ends_with(end)).unwrap_or_else(|| panic!("no …{end}"))
}

#[test]
fn games_and_training_are_those_of_the_folder() {
    let (work, models) = workplace();
    let results = models.each_ref().map(|model| {
        run(&mut play_command(work.path(), model, model), 0);
        let file = only_file(&work.path().join("out"), "_results.json");
        let mut games = json(&file);
        // The fingerprints of the two forms differ.
        games.as_array_mut().unwrap().iter_mut().for_each(|game| game["players"] = "".into());
        fs::remove_dir_all(work.path().join("out")).unwrap();
        games
    });
    assert_eq!(results[0], results[1]);
    let curves = models.each_ref().map(|model| {
        let out = work.path().join("trained");
        let mut train = program("spag-train");
        train.arg("--model_name_or_path").arg(model).arg("--ref_model_name_or_path").arg(model);
        train.arg("--train_data_path").arg(fixture("training/train_items.json")).arg("--output_dir").arg(&out);
        train.args("--train_method SFTwithKL --max_steps 2 --max_length 128 --logging_steps 1".split_whitespace());
        run(&mut train, 0);
        let losses: Vec<_> = json_lines(out.join("metrics.jsonl")).iter().map(|line| line["loss"].clone()).collect();
        assert!(out.join("tokenizer.json").is_file() && out.join("model.safetensors").is_file());
        // The trained folder plays.
        run(&mut play_command(work.path(), &out, &out), 0);
        fs::remove_dir_all(work.path().join("out")).unwrap();
        fs::remove_dir_all(&out).unwrap();
        losses
    });
    assert!(!curves[0].is_empty());
    assert_eq!(curves[0], curves[1]);
}

#[test]
fn other_programs_take_a_file_and_name_it() {
    let (work, models) = workplace();
    let dir = work.path();
    let [folder, file] = models.each_ref().map(|path| path.to_str().unwrap());
    let spag = |arguments: &[&str]| run(program("spag").current_dir(dir).args(arguments), 0).0;
    fs::write(dir.join("prompts.jsonl"), "{\"prompt\": \"The horse\"}\n").unwrap();
    let texts = [folder, file].map(|model| {
        let flags = ["--input", "prompts.jsonl", "--output", "texts.jsonl", "--max_new_tokens", "8"];
        spag(&[&["generate", "--model", model], &flags[..]].concat());
        fs::read_to_string(dir.join("texts.jsonl")).unwrap()
    });
    assert_eq!(texts[0], texts[1]);
    let plan = |model| spag(&["plan", "--model_name_or_path", model, "--gpus", "1", "--gpu_memory", "40"]);
    assert_eq!(plan(file).replace(file, folder), plan(folder));
    spag(&["eval", "--tasks", "tiny", "--limit", "2", "--output_dir", "scores", "--model", file]);
    assert!(dir.join("scores/Tiny-F32").is_dir());
    let players = [format!("a={folder}"), format!("b={file}")];
    let flags = "--words words.txt --output_dir arena --taboo_max_turns 2 --max_new_tokens 8 --games 1";
    let players = ["--players", &players[0], &players[1]];
    spag(&[&["arena"], &flags.split_whitespace().collect::<Vec<_>>()[..], &players[..]].concat());
    let server = Serve::start([file]);
    assert_eq!(server.get("/v1/models").ok()["data"][0]["id"], "Tiny-F32");
}

#[test]
fn a_file_that_is_no_model_is_an_error_of_every_program() {
    let (work, _) = workplace();
    let dir = work.path();
    fs::write(dir.join("bad.gguf"), b"GGUF\x03\0\0\0").unwrap();
    fs::write(dir.join("prompts.jsonl"), "{\"prompt\": \"The horse\"}\n").unwrap();
    let spag = |arguments: &str| {
        let mut command = program("spag");
        command.current_dir(dir).args(arguments.split_whitespace());
        command
    };
    let mut train = program("spag-train");
    train.current_dir(dir).args("--model_name_or_path bad.gguf --output_dir out --train_data_path".split_whitespace());
    train.arg(fixture("training/train_items.json"));
    for mut command in [
        play_command(dir, "bad.gguf", "bad.gguf"),
        train,
        spag("generate --model bad.gguf --input prompts.jsonl --output texts.jsonl"),
        spag("eval --tasks tiny --output_dir scores --model bad.gguf"),
        spag("arena --words words.txt --output_dir arena --players a=bad.gguf b=bad.gguf"),
        spag("plan --model_name_or_path bad.gguf --gpus 1 --gpu_memory 40"),
        spag("serve bad.gguf"),
    ] {
        let (_, err) = run(&mut command, 2);
        assert!(err.contains("bad.gguf") && err.contains("incomplete"), "{command:?}: {err}");
    }
}

/// The fixture's model with its matrices in Q8_0, where their rows are whole blocks.
fn quantised() -> GgufFile {
    let mut file = GgufFile::from_folder(fixture("tiny-llama"));
    let is_whole = |sizes: &[u64]| sizes.len() == 2 && sizes[0].is_multiple_of(32);
    for tensor in file.tensors.iter_mut().filter(|tensor| is_whole(&tensor.sizes)) {
        let numbers: Vec<f32> = tensor.data.as_chunks().0.iter().map(|four| f32::from_le_bytes(*four)).collect();
        let sizes = (tensor.sizes[1] as usize, tensor.sizes[0] as usize);
        let numbers = Tensor::from_vec(numbers, sizes, &Device::Cpu).unwrap();
        tensor.data = QTensor::quantize(&numbers, GgmlDType::Q8_0).unwrap().data().unwrap().into_owned();
        tensor.kind = 8;
    }
    file
}

/// Programs that only generate keep the matrices of a file as they are, unless they are told otherwise; training does not.
#[test]
fn quantised_file_stays_as_it_is_in_generation() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    fs::write(dir.join("tiny.gguf"), quantised().bytes()).unwrap();
    fs::write(dir.join("prompts.jsonl"), "{\"prompt\": \"The horse\"}\n").unwrap();
    fs::write(dir.join("words.txt"), "horse\n").unwrap();
    let note = "tiny.gguf: quantised matrices stay as in the file; --quantize none dequantises them";
    let generate = |flags: &[&str]| {
        let arguments = "generate --model tiny.gguf --input prompts.jsonl --output texts.jsonl --max_new_tokens 8";
        let (_, err) = run(program("spag").current_dir(dir).args(arguments.split(' ')).args(flags), 0);
        (err.contains(note), fs::read_to_string(dir.join("texts.jsonl")).unwrap())
    };
    let (stored, whole) = (generate(&["--quantize", "stored"]), generate(&["--quantize", "none"]));
    assert_eq!(generate(&[]), (true, stored.1));
    assert!(!stored.0 && !whole.0 && !generate(&["--dtype", "f32"]).0);
    let (_, err) = run(&mut play_command(dir, "tiny.gguf", "tiny.gguf"), 0);
    assert!(err.contains(note), "{err}");
    let mut train = program("spag-train");
    train.args(
        "--model_name_or_path tiny.gguf --train_method SFT --max_steps 1 --max_length 64 --output_dir out-2".split(' '),
    );
    let (_, err) = run(train.arg("--train_data_path").arg(fixture("training/train_items.json")).current_dir(dir), 0);
    assert!(!err.contains("quantised matrices"), "{err}");
}
