//! `pytorch_model.bin`: what PyTorch reads is read, and everything else is refused by name.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use spag_io::{Classify, ErrorClass};
use spag_model::Result;
use spag_model::checkpoint::{load_model, read_tensors, weights_digest};
use spag_model::dtype::WeightDtype;
use spag_model::params::{LayerLayout, Layout, Part, Update, View};
use spag_tests::torch_archive::{archive, archive_at, pickled};
use spag_tests::{copy_folder, fixture};
use tempfile::TempDir;

fn layout(tensors: &[(&str, &[usize])]) -> Layout {
    let mut layer = LayerLayout::default();
    for (name, shape) in tensors {
        let view = View {
            name: (*name).to_owned(),
            shape: shape.to_vec(),
            offset: layer.len,
            part: Part::Head,
            update: Update::Trained,
        };
        layer.len += view.len();
        layer.views.push(view);
    }
    Layout { layers: vec![layer] }
}

fn read(folder: &Path, layout: &Layout, dtype: WeightDtype) -> Result<BTreeMap<String, Vec<f32>>> {
    let mut found = BTreeMap::new();
    read_tensors(layout, dtype, folder, "model", &mut |layer, view, tensor| {
        let values = tensor.to_dtype(candle_core::DType::F32)?.to_vec1()?;
        found.insert(layout.layers[layer].views[view].name.clone(), values);
        Ok(())
    })?;
    Ok(found)
}

const WEIGHT: (&str, &[usize]) = ("weight", &[4, 6]);

/// A folder with these bytes as its weights.
fn holding(bytes: &[u8]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("pytorch_model.bin"), bytes).unwrap();
    folder
}

fn file(name: &str) -> Vec<u8> {
    fs::read(fixture(format!("torch/{name}.bin"))).unwrap()
}

fn read_weight(bytes: &[u8]) -> Result<Vec<f32>> {
    let mut all = read(holding(bytes).path(), &layout(&[WEIGHT]), WeightDtype::F32)?;
    Ok(all.remove("weight").unwrap())
}

/// The error for these bytes.
fn refused(bytes: &[u8]) -> String {
    let error = read_weight(bytes).unwrap_err();
    assert_eq!(error.class(), ErrorClass::BadInput, "{error}");
    let text = error.to_string();
    assert!(text.contains("pytorch_model.bin"), "{text}");
    assert!(text.len() < 1000 && !text.contains(char::is_control), "{text:?}");
    text
}

fn values() -> Vec<f32> {
    (0..24).map(|index| index as f32 - 7.5).collect()
}

#[test]
fn tensors_of_the_families_equal_those_of_pytorch() {
    let expected: Value = serde_json::from_slice(&fs::read(fixture("torch/families.json")).unwrap()).unwrap();
    for (family, tensors) in expected.as_object().unwrap() {
        let shapes: Vec<(&str, Vec<usize>)> = tensors
            .as_object()
            .unwrap()
            .iter()
            .filter(|(name, _)| !name.ends_with("inv_freq"))
            .map(|(name, tensor)| (name.as_str(), serde_json::from_value(tensor["shape"].clone()).unwrap()))
            .collect();
        let shapes: Vec<(&str, &[usize])> = shapes.iter().map(|(name, shape)| (*name, shape.as_slice())).collect();
        let folder = fixture(format!("families/{family}"));
        for dtype in [WeightDtype::F32, WeightDtype::Bf16] {
            let found = read(&folder, &layout(&shapes), dtype).unwrap();
            assert_eq!(found.len(), shapes.len());
            // One family has f16 weights, which bf16 cannot represent.
            if dtype == WeightDtype::Bf16 && family == "llama2-bin" {
                continue;
            }
            for (name, values) in found {
                let sum = |(index, value): (usize, &f32)| (index as u64 % 251 + 1) * u64::from(value.to_bits());
                let checksum: u64 = values.iter().enumerate().map(sum).sum();
                assert_eq!(tensors[&name]["checksum"].as_u64(), Some(checksum), "{family} {name} as {dtype}");
            }
        }
    }
}

#[test]
fn files_of_pytorch_are_read() {
    for name in ["f32", "f16", "bf16", "module", "parameter", "protocol4", "part_of_a_storage", "size_of_one"] {
        let bytes = file(name);
        assert_eq!(read_weight(&bytes).unwrap_or_else(|e| panic!("{name}: {e}")), values(), "{name}");
        // Names of folder and file do not matter.
        let elsewhere = String::from_utf8_lossy(&bytes).contains(&format!("{name}/data.pkl"));
        assert!(elsewhere, "{name}: the folder has the file's own name");
    }
}

#[test]
fn tensors_may_share_a_storage() {
    let shapes = layout(&[WEIGHT, ("other", &[4, 6]), ("row", &[6])]);
    let found = read(holding(&file("shared")).path(), &shapes, WeightDtype::F32).unwrap();
    assert_eq!((&found["weight"], &found["other"]), (&values(), &values()));
    assert_eq!(found["row"], values()[12..18]);
}

#[test]
fn other_files_of_pytorch_are_refused_with_the_reason() {
    for (name, reason) in [
        ("transposed", "tensor `weight` is not contiguous (shape [4, 6], strides [1, 4])"),
        ("expanded", "tensor `weight` is not contiguous"),
        ("f64", "tensor `weight` has number format torch.DoubleStorage; F32, F16 and BF16"),
        ("i64", "tensor `weight` has number format torch.LongStorage"),
        ("f8", "tensor `weight` has number format torch.float8_e4m3fn"),
        ("u16", "tensor `weight` has number format torch.uint16"),
        ("command", "it asks for `posix.system`, which a dictionary of tensors does not need; nothing in it was run"),
        ("nested", "`state_dict` is a dictionary, not a tensor; save model.state_dict() alone"),
        ("whole_module", "save model.state_dict() alone"),
        ("list", "save model.state_dict() alone"),
        ("quantized", "tensor `weight`: "),
        ("sparse", "tensor `weight`: "),
        ("legacy", "the format of PyTorch before 1.6; save it again"),
        ("compressed", "is compressed; torch.save stores entries as they are"),
        ("big_endian", "not little-endian"),
        ("plain_pickle", "does not begin as a zip archive"),
    ] {
        let error = refused(&file(name));
        assert!(error.contains(reason), "{name}: {error}");
    }
    assert!(!Path::new("executed").exists());
}

#[test]
fn tensors_are_complete_and_no_others() {
    let folder = tempfile::tempdir().unwrap();
    copy_folder(fixture("families/llama2-bin"), folder.path());
    load_model(folder.path()).unwrap();
    let (config, index) = (folder.path().join("config.json"), folder.path().join("pytorch_model.bin.index.json"));
    let change = |path: &Path, key: &str, value: Value| {
        let before = fs::read(path).unwrap();
        let mut json: Value = serde_json::from_slice(&before).unwrap();
        *json.pointer_mut(key).unwrap() = value;
        fs::write(path, json.to_string()).unwrap();
        let error = load_model(folder.path()).unwrap_err().to_string();
        fs::write(path, before).unwrap();
        error
    };
    let error = change(&config, "/num_hidden_layers", json!(3));
    assert!(error.contains("tensor `model.layers.2.") && error.contains("is missing"), "{error}");
    let error = change(&config, "/num_hidden_layers", json!(1));
    assert!(error.contains("tensor `model.layers.1.") && error.contains("pytorch_model-0000"), "{error}");
    let error = change(&config, "/intermediate_size", json!(111));
    assert!(error.contains("has shape") && error.contains("mlp"), "{error}");
    let error = change(&index, "/weight_map/lm_head.weight", json!("pytorch_model-00001-of-00002.bin"));
    assert!(error.contains("pytorch_model.bin.index.json") && error.contains("which lacks it"), "{error}");
    for shard in ["../pytorch_model.bin", "/etc/passwd", "model.safetensors", "a\u{1b}/b.bin"] {
        let error = change(&index, "/weight_map/lm_head.weight", json!(shard));
        assert!(error.contains("expected the name of a .bin file in the same folder"), "{error}");
        assert!(!error.contains('\u{1b}'), "{error}");
    }
    fs::remove_file(folder.path().join("pytorch_model-00002-of-00002.bin")).unwrap();
    let error = load_model(folder.path()).unwrap_err().to_string();
    assert!(error.contains("pytorch_model-00002-of-00002.bin"), "{error}");
}

#[test]
fn weights_that_are_not_finite_name_tensor_and_file() {
    let mut data = [0; 96];
    data[40..44].copy_from_slice(&f32::NAN.to_le_bytes());
    let bytes = archive(&[("a/data.pkl", &pickled(&[("weight", &[4, 6], &[6, 1], 24)])), ("a/data/0", &data)]);
    assert!(refused(&bytes).contains("tensor `weight`, element 10: the weight is not finite"));
}

#[test]
fn safetensors_come_first_and_both_are_part_of_the_digest() {
    let folder = tempfile::tempdir().unwrap();
    copy_folder(fixture("families/llama2-bin"), folder.path());
    let sharded = weights_digest(folder.path()).unwrap();
    let shard = folder.path().join("pytorch_model-00002-of-00002.bin");
    let mut bytes = fs::read(&shard).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    fs::write(&shard, &bytes).unwrap();
    assert_ne!(weights_digest(folder.path()).unwrap(), sharded);
    // A single file takes precedence over an index, and safetensors over both.
    fs::write(folder.path().join("pytorch_model.bin"), "x").unwrap();
    assert!(load_model(folder.path()).unwrap_err().to_string().contains("pytorch_model.bin: "));
    fs::write(folder.path().join("model.safetensors.index.json"), "x").unwrap();
    assert!(load_model(folder.path()).unwrap_err().to_string().contains("model.safetensors.index.json: "));
    fs::write(folder.path().join("model.safetensors"), "x").unwrap();
    assert!(load_model(folder.path()).unwrap_err().to_string().contains("model.safetensors: "));
    for name in
        ["model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json"]
    {
        fs::remove_file(folder.path().join(name)).unwrap();
    }
    let error = load_model(folder.path()).unwrap_err().to_string();
    assert!(error.contains("expected model.safetensors or pytorch_model.bin"), "{error}");
}

#[test]
fn every_cut_and_every_changed_byte_is_survived() {
    let whole = file("f32");
    for length in 0..whole.len() {
        refused(&whole[..length]);
    }
    for at in 0..whole.len() {
        for value in [0xff, whole[at] ^ 1] {
            let mut bytes = whole.clone();
            bytes[at] = value;
            // Values and padding may change, but shapes must be right.
            if let Ok(values) = read_weight(&bytes) {
                assert_eq!(values.len(), 24);
            }
        }
    }
}

#[test]
fn storages_shorter_than_their_tensors_are_refused() {
    let entry = |tensors: &[(&str, &[u64], &[u64], u64)], data: &[u8]| {
        refused(&archive(&[("a/data.pkl", &pickled(tensors)), ("a/data/0", data)]))
    };
    let error = entry(&[("weight", &[4, 6], &[6, 1], 24)], &[0; 95]);
    assert!(error.contains("tensor `weight` needs 24 elements of storage 0, which has 23"), "{error}");
    let error = entry(&[("weight", &[4, 6], &[6, 1], 23)], &[0; 96]);
    assert!(error.contains("which has 23"), "{error}");
    let error = entry(&[("weight", &[1 << 40, 1 << 40], &[1 << 40, 1], 24)], &[0; 96]);
    assert!(error.contains("tensor `weight` has a shape of too many elements"), "{error}");
    let error = entry(&[("weight", &[1 << 30, 1 << 30], &[1 << 30, 1], 24)], &[0; 96]);
    assert!(error.contains("tensor `weight` needs 1152921504606846976 elements"), "{error}");
    let error = entry(&[("weight", &[4, 6], &[6], 24)], &[0; 96]);
    assert!(error.contains("has 2 sizes and 1 strides"), "{error}");
    let error = entry(&[("weight", &[1; 9], &[1; 9], 24)], &[0; 96]);
    assert!(error.contains("tensor `weight`: it has 9 dimensions"), "{error}");
    let twice: [(&str, &[u64], &[u64], u64); 2] = [("weight", &[4, 6], &[6, 1], 24); 2];
    assert!(entry(&twice, &[0; 96]).contains("tensor `weight` is there twice"));
    let bytes = archive(&[("a/data.pkl", &pickled(&[("weight", &[4, 6], &[6, 1], 24)]))]);
    assert!(refused(&bytes).contains("entry `a/data/0` is missing"));
}

#[test]
fn archives_that_are_not_torchs_are_refused() {
    let pickle = pickled(&[("weight", &[4, 6], &[6, 1], 24)]);
    let parts: [(&str, &[u8]); 2] = [("a/data.pkl", &pickle), ("a/data/0", &[0; 96])];
    assert_eq!(read_weight(&archive(&parts)).unwrap(), [0.0; 24]);
    let whole = archive(&parts);
    let end = whole.len() - 22;
    let directory = end - parts.iter().map(|(name, _)| 46 + name.len()).sum::<usize>();
    let second = directory + 46 + parts[0].0.len();
    for (at, value, reason) in [
        // The number of entries, and the size and offset of the directory.
        (end + 10, vec![0xfe, 0xff], "its directory is not inside the file"),
        (end + 10, vec![3], "its directory is not inside the file"),
        (end + 12, vec![0xfe, 0xff, 0xff, 0xff], "its directory is not inside the file"),
        (end + 16, vec![0xfe, 0xff, 0xff, 0xff], "its directory is not inside the file"),
        (end + 16, vec![0; 4], "its directory is damaged"),
        (end + 10, vec![0xff, 0xff], "not that of a zip archive with sizes of 64 bits"),
        (end + 20, vec![1], "its end is not that of a zip archive"),
        // An entry's flags, sizes and offset.
        (second + 8, vec![1], "entry `a/data/0` is encrypted"),
        (second + 10, vec![8], "entry `a/data/0` is compressed"),
        (second + 20, vec![95], "entry `a/data/0` is compressed"),
        (second + 20, vec![97, 0, 0, 0, 97], "reaches beyond the end of the archive"),
        (second + 24, vec![0xff; 4], "its directory is damaged"),
        (second + 28, vec![0xff; 2], "its directory is damaged"),
        (second + 42, vec![0; 4], "entry `a/data/0` is not where the directory says"),
    ] {
        let mut bytes = whole.clone();
        bytes[at..at + value.len()].copy_from_slice(&value);
        let error = refused(&bytes);
        assert!(error.contains(reason), "{at} {value:?}: {error}");
    }
    let two: [(&str, &[u8]); 3] = [parts[0], parts[1], ("b/data.pkl", &pickle)];
    assert!(refused(&archive(&two)).contains("more than one data.pkl"));
    assert!(refused(&archive(&parts[1..])).contains("no entry that ends in /data.pkl"));
    assert!(refused(&archive(&[parts[0], parts[0]])).contains("entry `a/data.pkl` is there twice"));
    // The data of one entry contains another entry.
    let inner = archive(&[("a/data/0", &[0; 96])]);
    let header = &inner[..inner.len() - 22 - 46 - "a/data/0".len()];
    let mut outer = archive(&[("a/data.pkl", &[&pickle[..], header].concat()), ("a/data/0", &[0; 96])]);
    let at = outer.windows(header.len()).position(|window| window == header).unwrap() as u32;
    let place = outer.len() - 22 - "a/data/0".len() - 4;
    outer[place..place + 4].copy_from_slice(&at.to_le_bytes());
    assert!(refused(&outer).contains("entries overlap at byte"));
}

#[test]
fn archives_beyond_four_gigabytes_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let data: Vec<u8> = values().iter().flat_map(|value| value.to_le_bytes()).collect();
    let pickle = pickled(&[("weight", &[4, 6], &[6, 1], 24)]);
    let file = fs::File::create(folder.path().join("pytorch_model.bin")).unwrap();
    archive_at(&file, &[(0, "a/data.pkl", &pickle), (5 << 30, "a/data/0", &data)]);
    let found = read(folder.path(), &layout(&[WEIGHT]), WeightDtype::F32).unwrap();
    assert_eq!(found["weight"], values());
}

#[test]
fn hostile_pickles_take_neither_time_nor_memory() {
    let many = |count: usize, op: &[u8]| op.repeat(count);
    // A tuple of two tuples of two tuples …
    let bomb = [b")q\0".to_vec(), many(200_000, b"h\0h\0\x86q\0")].concat();
    for (pickle, reason) in [
        (b"".to_vec(), "ends too early"),
        (b"\x80\x02".to_vec(), "ends too early"),
        (b".".to_vec(), "damaged"),
        (b"}".to_vec(), "ends too early"),
        (b"N.".to_vec(), "it holds None, not a dictionary of tensors"),
        (b"X\xff\xff\xff\xff".to_vec(), "ends too early"),
        (b"\x8a\xff".to_vec(), "ends too early"),
        (b"\x8a\x09\0\0\0\0\0\0\0\0\x01.".to_vec(), "more than 64 bits"),
        (b"}X\x01\0\0\0\xffK\x01s.".to_vec(), "not UTF-8"),
        (b"}X\x01\0\0\0aK\x01s.".to_vec(), "`a` is an int, not a tensor"),
        (b"}K\x01Ns.".to_vec(), "the name of a tensor is an int"),
        (b"}X\x03\0\0\0a\x1b[K\x01s.".to_vec(), "is an int, not a tensor"),
        (b"}(K\x01u.".to_vec(), "damaged"),
        (b"h\0.".to_vec(), "damaged"),
        (b"q\0.".to_vec(), "damaged"),
        (b"t.".to_vec(), "damaged"),
        (b"(\x85.".to_vec(), "damaged"),
        (b"N(R.".to_vec(), "damaged"),
        (b"cos\nsystem\n(X\x02\0\0\0lstR.".to_vec(), "`os.system`"),
        (b"\x8c\x08builtins\x8c\x04eval\x93.".to_vec(), "`builtins.eval`"),
        (b"ctorch\nload\n)R.".to_vec(), "`torch.load`"),
        (b"ccollections\nOrderedDict\nX\x01\0\0\0a\x85R.".to_vec(), "called with unknown arguments"),
        (b"ctorch._utils\n_rebuild_tensor_v2\n)R.".to_vec(), "called with unknown arguments"),
        (b"NNb.".to_vec(), "it sets attributes of None"),
        (b")Q.".to_vec(), "not that of a storage"),
        (b"]".to_vec(), "pickle opcode 0x5d does not occur"),
        (many(300_000, b"("), "ends too early"),
        (many(300_000, b")\x85"), "ends too early"),
        (many(600_000, b"}h"), "damaged"),
        (many(1_100_000, b"}"), "more than 1048576 opcodes"),
        (bomb, "ends too early"),
        (vec![b'}'; (4 << 20) + 1], "has 4194305 bytes, and at most 4194304 are read"),
    ] {
        let started = std::time::Instant::now();
        let error = refused(&archive(&[("a/data.pkl", &pickle)]));
        let shown = &pickle[..pickle.len().min(40)];
        assert!(error.contains(reason), "{}: {error}", shown.escape_ascii());
        assert!(started.elapsed().as_secs() < 60, "{}", shown.escape_ascii());
    }
}
