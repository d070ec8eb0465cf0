//! The same model on candle's differentiable ops and autograd, one sequence at a time.

use std::collections::HashMap;

use candle_core::{D, DType, Device, Tensor, Var};
use spag_model::{Model, Targets};

pub(crate) struct Oracle {
    pub(crate) log_probs: Vec<f32>,
    pub(crate) by_name: HashMap<String, Tensor>,
}

/// Log-probabilities of the targets, and the gradients of Σ upstream·log-probability.
pub(crate) fn gradients(model: &Model, sequences: &[&[u32]], targets: &Targets, upstream: &[f32]) -> Oracle {
    let vars: HashMap<String, Var> = model
        .parameters()
        .named()
        .unwrap()
        .into_iter()
        // A copy: the oracle needs its own leaves.
        .map(|(name, t)| {
            (
                name,
                Var::from_tensor(
                    &Tensor::from_vec(t.flatten_all().unwrap().to_vec1::<f32>().unwrap(), t.dims(), &Device::Cpu)
                        .unwrap(),
                )
                .unwrap(),
            )
        })
        .collect();
    let outputs: Vec<Tensor> = sequences.iter().map(|s| hidden(model, &vars, s)).collect();
    let rows = Tensor::new(targets.rows.as_slice(), &Device::Cpu).unwrap();
    let x = Tensor::cat(&outputs, 0).unwrap().index_select(&rows, 0).unwrap();
    let head = vars.get("lm_head.weight").unwrap_or_else(|| &vars["model.embed_tokens.weight"]);
    let logits = x.matmul(&head.t().unwrap()).unwrap();
    let all = candle_nn::ops::log_softmax(&logits, D::Minus1).unwrap();
    let tokens = Tensor::new(targets.tokens.as_slice(), &Device::Cpu).unwrap().unsqueeze(1).unwrap();
    let log_probs = all.gather(&tokens, 1).unwrap().squeeze(1).unwrap();
    let weights = Tensor::new(upstream, &Device::Cpu).unwrap();
    let store = (&log_probs * weights).unwrap().sum_all().unwrap().backward().unwrap();
    let by_name = vars.iter().map(|(name, var)| (name.clone(), store.get(var).unwrap().clone())).collect();
    Oracle { log_probs: log_probs.to_vec1().unwrap(), by_name }
}

fn hidden(model: &Model, vars: &HashMap<String, Var>, ids: &[u32]) -> Tensor {
    let c = model.config();
    let (t, hd, heads, kv) = (ids.len(), c.head_dim(), c.num_attention_heads, c.kv_heads());
    let (cos, sin) = angles(t, hd, c.rope_theta);
    let mask: Vec<f32> =
        (0..t).flat_map(|i| (0..t).map(move |j| if j > i { f32::NEG_INFINITY } else { 0.0 })).collect();
    let mask = Tensor::from_vec(mask, (t, t), &Device::Cpu).unwrap();
    let ids = Tensor::new(ids, &Device::Cpu).unwrap();
    let mut x = vars["model.embed_tokens.weight"].index_select(&ids, 0).unwrap();
    for layer in 0..c.num_hidden_layers {
        let w = |part: &str| vars[&format!("model.layers.{layer}.{part}.weight")].as_tensor().clone();
        let lin = |x: &Tensor, part: &str| x.matmul(&w(part).t().unwrap()).unwrap();
        let norm = |x: &Tensor, part: &str| candle_nn::ops::rms_norm_slow(x, &w(part), c.rms_norm_eps as f32).unwrap();
        let n = norm(&x, "input_layernorm");
        let split = |x: Tensor, h: usize| x.reshape((t, h, hd)).unwrap().transpose(0, 1).unwrap().contiguous().unwrap();
        let rope = |x: Tensor| {
            candle_nn::rotary_emb::rope_slow(&x.unsqueeze(0).unwrap(), &cos, &sin).unwrap().squeeze(0).unwrap()
        };
        let q = rope(split(lin(&n, "self_attn.q_proj"), heads));
        let repeat = |x: Tensor| {
            let group = heads / kv;
            x.unsqueeze(1).unwrap().expand((kv, group, t, hd)).unwrap().reshape((heads, t, hd)).unwrap()
        };
        let k = repeat(rope(split(lin(&n, "self_attn.k_proj"), kv)));
        let v = repeat(split(lin(&n, "self_attn.v_proj"), kv));
        let scores = (q.matmul(&k.t().unwrap()).unwrap() * (1.0 / (hd as f64).sqrt())).unwrap();
        let p = candle_nn::ops::softmax(&scores.broadcast_add(&mask).unwrap(), D::Minus1).unwrap();
        let y = p.matmul(&v).unwrap().transpose(0, 1).unwrap().contiguous().unwrap().reshape((t, heads * hd)).unwrap();
        x = (&x + lin(&y, "self_attn.o_proj")).unwrap();
        let n = norm(&x, "post_attention_layernorm");
        let act = (lin(&n, "mlp.gate_proj").silu().unwrap() * lin(&n, "mlp.up_proj")).unwrap();
        x = (&x + lin(&act, "mlp.down_proj")).unwrap();
    }
    candle_nn::ops::rms_norm_slow(&x, &vars["model.norm.weight"], c.rms_norm_eps as f32).unwrap()
}

fn angles(t: usize, hd: usize, theta: f64) -> (Tensor, Tensor) {
    let inverse: Vec<f32> = (0..hd / 2).map(|i| 1.0 / (theta as f32).powf((2 * i) as f32 / hd as f32)).collect();
    let positions = Tensor::arange(0u32, t as u32, &Device::Cpu).unwrap().to_dtype(DType::F32).unwrap();
    let angles = positions
        .unsqueeze(1)
        .unwrap()
        .matmul(&Tensor::new(inverse.as_slice(), &Device::Cpu).unwrap().unsqueeze(0).unwrap())
        .unwrap();
    (angles.cos().unwrap(), angles.sin().unwrap())
}
