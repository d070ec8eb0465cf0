//! Streaming checkpoints tensor by tensor gives the same bytes and numbers as whole models.

use std::collections::BTreeMap;
use std::path::Path;

use candle_core::{Device, Tensor};
use spag_model::checkpoint::{
    LoadOptions, WriteOptions, load_model, load_model_with, read_buffers, save_model, write_buffers, write_random_model,
};
use spag_model::dtype::{DtypeChoice, WeightDtype};
use spag_model::params::{FlatBuffers, Layout};
use spag_model::{Checkpoint, Error, Model, ModelConfig};
use spag_tests::{copy_folder, fixture};

fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|p| (p.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(p).unwrap())).collect()
}

fn config() -> ModelConfig {
    serde_json::from_str(
        r#"{"hidden_size": 20, "intermediate_size": 27, "vocab_size": 4001, "num_hidden_layers": 2,
            "num_attention_heads": 10, "num_key_value_heads": 2, "max_position_embeddings": 64}"#,
    )
    .unwrap()
}

fn values(buffers: &FlatBuffers) -> Vec<Vec<f32>> {
    let wide = buffers.to_dtype(WeightDtype::F32).unwrap();
    wide.layers().iter().map(|layer| layer.to_vec1().unwrap()).collect()
}

#[test]
fn write_random_model_equals_init_and_save() {
    for dtype in [WeightDtype::F32, WeightDtype::Bf16] {
        for max_shard_bytes in [u64::MAX, 100_000] {
            let (drawn, streamed) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            let options = WriteOptions { dtype, max_shard_bytes };
            let expected = save_model(&Model::init(&config(), 11).unwrap(), drawn.path(), options).unwrap();
            let written = write_random_model(&config(), 11, None, streamed.path(), options).unwrap();
            assert_eq!(written, expected);
            assert_eq!(written.len() > 1, max_shard_bytes == 100_000);
            assert!(files(streamed.path()) == files(drawn.path()), "{dtype} {max_shard_bytes}");
        }
    }
}

#[test]
fn write_random_model_includes_the_tokenizer() {
    let Checkpoint { model, tokenizer } = Checkpoint::load(fixture("tiny-llama")).unwrap();
    let (drawn, streamed) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let options = WriteOptions::new(WeightDtype::Bf16);
    let config = model.config().clone();
    write_random_model(&config, 3, Some(&tokenizer), streamed.path(), options).unwrap();
    let model = Model::init(&config, 3).unwrap();
    Checkpoint { model, tokenizer }.save(drawn.path(), options).unwrap();
    assert!(files(streamed.path()) == files(drawn.path()));
}

/// Names of the weight files of a folder.
fn weight_files(dir: &Path) -> Vec<String> {
    files(dir).into_keys().filter(|name| name.contains("safetensors")).collect()
}

#[test]
fn what_is_left_of_an_earlier_checkpoint_is_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let others = ["model-1-of-2.safetensors", "other-00001-of-00009.safetensors", "model-00001-of-00009.bin"];
    others.iter().for_each(|name| std::fs::write(dir.path().join(name), "kept").unwrap());
    // A different number of shards each time, replacing another model's weights.
    for (seed, max_shard_bytes) in
        [(1, 100_000), (2, 200_000), (3, u64::MAX), (4, 200_000), (5, 1), (6, 1), (7, 100_000)]
    {
        let options = WriteOptions { dtype: WeightDtype::F32, max_shard_bytes };
        let expected = Model::init(&config(), seed).unwrap();
        let written = save_model(&expected, dir.path(), options).unwrap();
        assert!(values(load_model(dir.path()).unwrap().parameters()) == values(expected.parameters()), "{seed}");
        let index = (written.len() > 1).then(|| "model.safetensors.index.json".to_owned());
        let mut names: Vec<String> = written.into_iter().map(|file| file.name).chain(index).collect();
        names.extend(others.iter().filter(|name| name.contains("safetensors")).map(|name| (*name).to_owned()));
        names.sort_unstable();
        assert_eq!(weight_files(dir.path()), names, "{seed}");
    }
}

#[test]
fn interrupted_saves_leave_no_mixture() {
    let dir = tempfile::tempdir().unwrap();
    let options = WriteOptions { dtype: WeightDtype::F32, max_shard_bytes: 100_000 };
    let shards = save_model(&Model::init(&config(), 1).unwrap(), dir.path(), options).unwrap();
    // The same shards of another model; the second one cannot be written.
    let second = dir.path().join(&shards[1].name);
    std::fs::remove_file(&second).unwrap();
    std::fs::create_dir(&second).unwrap();
    save_model(&Model::init(&config(), 2).unwrap(), dir.path(), options).unwrap_err();
    std::fs::remove_dir(&second).unwrap();
    let error = load_model(dir.path()).unwrap_err();
    assert!(matches!(error, Error::MissingFile { .. }), "{error}");
}

#[test]
fn folders_carry_the_python_files_of_their_source() {
    let source = tempfile::tempdir().unwrap();
    copy_folder(fixture("tiny-llama"), source.path());
    let code = [("configuration_baichuan.py", "class Configuration: pass\n"), ("modeling_baichuan.py", "import os\n")];
    code.iter().for_each(|(name, text)| std::fs::write(source.path().join(name), text).unwrap());
    std::fs::write(source.path().join("notes.txt"), "not carried").unwrap();
    std::fs::create_dir(source.path().join("folder.py")).unwrap();
    let saved = tempfile::tempdir().unwrap();
    let checkpoint = Checkpoint::load(source.path()).unwrap();
    // Read with the tokenizer: the source may have been deleted since.
    drop(source);
    checkpoint.save(saved.path(), WriteOptions::new(WeightDtype::F32)).unwrap();
    for (name, text) in code {
        assert_eq!(std::fs::read_to_string(saved.path().join(name)).unwrap(), text);
    }
    assert!(!saved.path().join("notes.txt").exists() && !saved.path().join("folder.py").exists());
    let large = std::fs::File::create(saved.path().join("large.py")).unwrap();
    large.set_len(100 << 20).unwrap();
    let error = Checkpoint::load(saved.path()).unwrap_err().to_string();
    assert!(error.contains("large.py"), "{error}");
}

#[test]
fn loading_as_bf16_equals_loading_and_rounding() {
    let dir = tempfile::tempdir().unwrap();
    for dtype in [WeightDtype::F32, WeightDtype::Bf16] {
        write_random_model(&config(), 5, None, dir.path(), WriteOptions { dtype, max_shard_bytes: 100_000 }).unwrap();
        let rounded = load_model(dir.path()).unwrap().to_dtype(WeightDtype::Bf16).unwrap();
        let options = LoadOptions { dtype: WeightDtype::Bf16, ..LoadOptions::default() };
        let loaded = load_model_with(dir.path(), &options).unwrap();
        assert_eq!(loaded.parameters().dtype(), WeightDtype::Bf16);
        assert!(values(loaded.parameters()) == values(rounded.parameters()), "{dtype}");
    }
}

#[test]
fn buffers_round_trip_in_both_formats() {
    let dir = tempfile::tempdir().unwrap();
    let buffers = Model::init(&config(), 1).unwrap().parameters().to_dtype(WeightDtype::Bf16).unwrap();
    write_buffers(&buffers, dir.path(), "exp_avg", WriteOptions::new(WeightDtype::F32)).unwrap();
    for dtype in [WeightDtype::F32, WeightDtype::Bf16] {
        let back = FlatBuffers::zeros_of(buffers.layout(), dtype, &Device::Cpu).unwrap();
        assert_eq!(back.dtype(), dtype);
        read_buffers(&back, dir.path(), "exp_avg").unwrap();
        assert!(values(&back) == values(&buffers));
        back.set_zero().unwrap();
        assert!(values(&back).iter().flatten().all(|x| *x == 0.0));
    }
}

#[test]
fn set_view_leaves_other_views_unchanged() {
    let layout = Layout::new(&config().architecture);
    let buffers = FlatBuffers::zeros(&layout, &Device::Cpu).unwrap();
    let view = &layout.layers[1].views[4];
    let ones = Tensor::ones(view.shape.as_slice(), candle_core::DType::F32, &Device::Cpu).unwrap();
    let copy = buffers.deep_copy().unwrap();
    buffers.set_view(1, 4, &ones).unwrap();
    let found = values(&buffers);
    for (index, x) in found[1].iter().enumerate() {
        let inside = (view.offset..view.offset + view.len()).contains(&index);
        assert_eq!(*x, if inside { 1.0 } else { 0.0 }, "{index}");
    }
    assert!(values(&copy).iter().flatten().all(|x| *x == 0.0), "a copy has memory of its own");
    assert!(values(&buffers.to_device(&Device::Cpu).unwrap()) == found);
    assert!(matches!(buffers.set_view(1, 0, &ones), Err(Error::Config(_))));
    assert!(matches!(buffers.set_view(1, 9, &ones), Err(Error::Config(_))));
}

#[test]
fn damaged_files_are_rejected_by_name() {
    let dir = tempfile::tempdir().unwrap();
    write_random_model(&config(), 5, None, dir.path(), WriteOptions::new(WeightDtype::F32)).unwrap();
    let path = dir.path().join("model.safetensors");
    let whole = std::fs::read(&path).unwrap();
    let header = usize::try_from(u64::from_le_bytes(whole[..8].try_into().unwrap())).unwrap();
    let mut far = whole.clone();
    far[..8].copy_from_slice(&u64::MAX.to_le_bytes());
    let mut broken = whole.clone();
    broken[8] = b'[';
    for (bytes, reason) in [
        (&whole[..4], "header too small"),
        (&whole[..header], "invalid header length"),
        (&far[..], "invalid header length"),
        (&broken[..], "invalid JSON in header"),
        (&whole[..whole.len() - 1], "file not fully covered"),
    ] {
        std::fs::write(&path, bytes).unwrap();
        let error = load_model(dir.path()).unwrap_err();
        assert!(matches!(error, Error::WeightFile { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains("model.safetensors: not a valid safetensors file") && text.contains(reason), "{text}");
    }
}

#[test]
fn auto_dtype_depends_on_the_device() {
    let config = config();
    assert_eq!(DtypeChoice::Auto.resolve(&config, &Device::Cpu), WeightDtype::F32);
    let config = config.with("torch_dtype", "bfloat16").unwrap();
    assert_eq!(DtypeChoice::Auto.resolve(&config, &Device::Cpu), WeightDtype::F32, "a CPU computes in f32");
    assert_eq!("bf16".parse(), Ok(DtypeChoice::Fixed(WeightDtype::Bf16)));
    assert_eq!("auto".parse(), Ok(DtypeChoice::Auto));
    assert!("int8".parse::<DtypeChoice>().unwrap_err().contains("expected auto, f32 or bf16"));
}
