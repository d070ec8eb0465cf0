//! Logits of GGUF files of architecture llama, compared with a second implementation of llama.cpp's computation: candle's
//! reader and formats, rotation of adjacent pairs in file row order, and frequency factors.

use std::fs::File;
use std::path::Path;

use candle_core::quantized::GgmlDType;
use candle_core::quantized::gguf_file::Content;
use candle_core::{D, Device, Tensor};
use spag_model::batch::PackedBatch;
use spag_model::checkpoint::load_model;
use spag_tests::fixture;
use spag_tests::gguf::GgufFile;

use crate::gguf::write;
use crate::gguf_blocks::{model, quantised};

/// A file read with candle.
struct Llama {
    file: File,
    content: Content,
}

impl Llama {
    fn open(path: &Path) -> Self {
        let mut file = File::open(path).unwrap();
        let content = Content::read(&mut file).unwrap();
        Self { file, content }
    }

    fn tensor(&mut self, name: &str) -> Option<Tensor> {
        self.content.tensor_infos.contains_key(name).then(|| {
            let tensor = self.content.tensor(&mut self.file, name, &Device::Cpu).unwrap();
            tensor.dequantize(&Device::Cpu).unwrap()
        })
    }

    fn size(&self, key: &str) -> usize {
        self.content.metadata[&format!("llama.{key}")].to_u32().unwrap() as usize
    }

    fn number(&self, key: &str) -> f32 {
        self.content.metadata[&format!("llama.{key}")].to_f32().unwrap()
    }

    fn linear(&mut self, x: &Tensor, name: &str) -> Tensor {
        let y = x.matmul(&self.tensor(&format!("{name}.weight")).unwrap().t().unwrap()).unwrap();
        match self.tensor(&format!("{name}.bias")) {
            Some(bias) => y.broadcast_add(&bias).unwrap(),
            None => y,
        }
    }

    fn norm(&mut self, x: &Tensor, name: &str) -> Tensor {
        let weight = self.tensor(&format!("{name}.weight")).unwrap();
        candle_nn::ops::rms_norm_slow(x, &weight, self.number("attention.layer_norm_rms_epsilon")).unwrap()
    }

    /// Cosines and sines, [T, head / 2].
    fn angles(&mut self, t: usize, head: usize) -> (Tensor, Tensor) {
        let theta = self.number("rope.freq_base");
        let factors = self.tensor("rope_freqs.weight").map(|factors| factors.to_vec1::<f32>().unwrap());
        let frequency = |i: usize| {
            let plain = theta.powf(-2.0 * i as f32 / head as f32);
            plain / factors.as_ref().map_or(1.0, |factors| factors[i])
        };
        let angles: Vec<f32> =
            (0..t).flat_map(|t| (0..head / 2).map(move |i| (t, i))).map(|(t, i)| t as f32 * frequency(i)).collect();
        let angles = Tensor::from_vec(angles, (t, head / 2), &Device::Cpu).unwrap();
        (angles.cos().unwrap(), angles.sin().unwrap())
    }

    /// The logits of all positions, [T, V].
    fn logits(&mut self, ids: &[u32]) -> Vec<Vec<f32>> {
        let (heads, kv, t) = (self.size("attention.head_count"), self.size("attention.head_count_kv"), ids.len());
        let ids = Tensor::new(ids, &Device::Cpu).unwrap();
        let embedding = self.tensor("token_embd.weight").unwrap();
        let mut x = embedding.index_select(&ids, 0).unwrap();
        for layer in 0..self.size("block_count") {
            let name = |part: &str| format!("blk.{layer}.{part}");
            let n = self.norm(&x, &name("attn_norm"));
            let [q, k, v] = ["attn_q", "attn_k", "attn_v"].map(|part| self.linear(&n, &name(part)));
            let head = q.dim(1).unwrap() / heads;
            let (cos, sin) = self.angles(t, head);
            let split =
                |x: &Tensor, h: usize| x.reshape((t, h, head)).unwrap().transpose(0, 1).unwrap().contiguous().unwrap();
            let rotated = |x: Tensor| {
                candle_nn::rotary_emb::rope_i_slow(&x.unsqueeze(0).unwrap(), &cos, &sin).unwrap().squeeze(0).unwrap()
            };
            let group = heads / kv;
            let repeat = |x: Tensor| {
                x.unsqueeze(1).unwrap().expand((kv, group, t, head)).unwrap().reshape((heads, t, head)).unwrap()
            };
            let (q, k, v) = (rotated(split(&q, heads)), repeat(rotated(split(&k, kv))), repeat(split(&v, kv)));
            let scores = (q.matmul(&k.t().unwrap()).unwrap() * (1.0 / (head as f64).sqrt())).unwrap();
            let hidden = (0..t).flat_map(|i| (0..t).map(move |j| if j <= i { 0.0 } else { f32::NEG_INFINITY }));
            let mask = Tensor::from_vec(hidden.collect::<Vec<f32>>(), (t, t), &Device::Cpu).unwrap();
            let p = candle_nn::ops::softmax(&scores.broadcast_add(&mask).unwrap(), D::Minus1).unwrap();
            let y = p
                .matmul(&v)
                .unwrap()
                .transpose(0, 1)
                .unwrap()
                .contiguous()
                .unwrap()
                .reshape((t, heads * head))
                .unwrap();
            x = (x + self.linear(&y, &name("attn_output"))).unwrap();
            let n = self.norm(&x, &name("ffn_norm"));
            let act = (self.linear(&n, &name("ffn_gate")).silu().unwrap() * self.linear(&n, &name("ffn_up"))).unwrap();
            x = (x + self.linear(&act, &name("ffn_down"))).unwrap();
        }
        let x = self.norm(&x, "output_norm");
        let head = self.tensor("output.weight").unwrap_or(embedding);
        x.matmul(&head.t().unwrap()).unwrap().to_vec2().unwrap()
    }
}

fn compare(file: &GgufFile, what: &str) {
    let (_kept, path) = write(file);
    let ids: Vec<u32> = (0..40).map(|i| (i * 37 + 5) % 90).collect();
    let rows: Vec<u32> = (0..ids.len() as u32).collect();
    let model = load_model(&path).unwrap();
    let found: Vec<Vec<f32>> = model.logits(&PackedBatch::new([&ids[..]]), &rows).unwrap().to_vec2().unwrap();
    let expected = Llama::open(&path).logits(&ids);
    let scale = expected.iter().flatten().fold(0f32, |most, x| most.max(x.abs()));
    for (at, (found, expected)) in found.iter().flatten().zip(expected.iter().flatten()).enumerate() {
        assert!((found - expected).abs() <= 1e-4 * scale, "{what}, {at}: {found} {expected} ({scale})");
    }
}

#[test]
fn logits_are_those_of_llama_cpp_s_computation() {
    for name in ["families/llama3", "families/smollm", "families/llama-tf5", "tiny-llama"] {
        let mut file = GgufFile::from_folder(fixture(name));
        file.keys.retain(|(key, _)| !key.starts_with("tokenizer."));
        compare(&file, name);
    }
}

#[test]
fn logits_of_quantised_models_are_those_of_llama_cpp_s_computation() {
    let model = model();
    for format in [(GgmlDType::Q4_0, 2), (GgmlDType::Q5_1, 7), (GgmlDType::Q4K, 12), (GgmlDType::Q6K, 14)] {
        let (mut file, _) = quantised(&model, format);
        file.set("llama.rope.freq_base", spag_tests::gguf::Value::Float(1e4));
        compare(&file, &format!("{:?}", format.0));
    }
}
