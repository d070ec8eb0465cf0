//! The same model on candle's differentiable ops and autograd, one sequence at a time.

use std::collections::HashMap;

use candle_core::{D, DType, Device, Tensor, Var};
use spag_model::Model;
use spag_model::batch::Targets;
use spag_model::config::{Embeddings, HeadNorm, OutputHead, Position, Rope, RopeScaling};
use spag_ops::attention::Heads;
use spag_ops::glu::Activation;

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
    let divisor = model.config().architecture.logit_divisor.unwrap_or(1.0);
    let logits = (x.matmul(&head(model, &vars).t().unwrap()).unwrap() / divisor).unwrap();
    let all = candle_nn::ops::log_softmax(&logits, D::Minus1).unwrap();
    let tokens = Tensor::new(targets.tokens.as_slice(), &Device::Cpu).unwrap().unsqueeze(1).unwrap();
    let log_probs = all.gather(&tokens, 1).unwrap().squeeze(1).unwrap();
    let weights = Tensor::new(upstream, &Device::Cpu).unwrap();
    let store = (&log_probs * weights).unwrap().sum_all().unwrap().backward().unwrap();
    let by_name = vars.iter().map(|(name, var)| (name.clone(), store.get(var).unwrap().clone())).collect();
    Oracle { log_probs: log_probs.to_vec1().unwrap(), by_name }
}

/// The output head, with normalised rows if the architecture says so.
fn head(model: &Model, vars: &HashMap<String, Var>) -> Tensor {
    let head = vars.get("lm_head.weight").unwrap_or_else(|| &vars["model.embed_tokens.weight"]).as_tensor().clone();
    match model.config().architecture.head {
        OutputHead::Normalised => {
            head.broadcast_div(&head.sqr().unwrap().sum_keepdim(1).unwrap().sqrt().unwrap()).unwrap()
        }
        OutputHead::Plain | OutputHead::Tied => head,
    }
}

fn hidden(model: &Model, vars: &HashMap<String, Var>, ids: &[u32]) -> Tensor {
    let c = &model.config().architecture;
    let Heads { query: heads, kv, dim: hd } = c.heads;
    let (t, eps) = (ids.len(), c.rms_norm_eps as f32);
    let ids = Tensor::new(ids, &Device::Cpu).unwrap();
    let mut x = vars["model.embed_tokens.weight"].index_select(&ids, 0).unwrap();
    x = match c.embeddings {
        Embeddings::AsStored => x,
        Embeddings::TimesSqrtHidden => (x * f64::from((c.hidden_size as f32).sqrt())).unwrap(),
        Embeddings::Times(factor) => (x * factor).unwrap(),
    };
    let branches = c.residual_scale.unwrap_or(1.0);
    let factors = |w: &Tensor| (w + f64::from(c.norm_weights.offset())).unwrap();
    for layer in 0..c.num_hidden_layers {
        let find = |part: &str| Some(vars.get(&format!("model.layers.{layer}.{part}"))?.as_tensor().clone());
        let bias = |y: Tensor, part: &str| match find(&format!("{part}.bias")) {
            Some(bias) => y.broadcast_add(&bias).unwrap(),
            None => y,
        };
        let w = |part: &str| find(&format!("{part}.weight")).unwrap();
        let lin = |x: &Tensor, part: &str| bias(x.matmul(&w(part).t().unwrap()).unwrap(), part);
        let norm = |x: &Tensor, part: &str| candle_nn::ops::rms_norm_slow(x, &factors(&w(part)), eps).unwrap();
        let (before, after) = (c.norms.before(), c.norms.after());
        let n = if before { norm(&x, "input_layernorm") } else { x.clone() };
        let rows = |packed: &Tensor, first, count| packed.narrow(0, first, count).unwrap().t().unwrap();
        let [q, k, v] = match find("self_attn.W_pack.weight").or(find("self_attn.qkv_proj.weight")) {
            Some(packed) => [(0, heads), (heads, kv), (heads + kv, kv)]
                .map(|(first, count)| n.matmul(&rows(&packed, first * hd, count * hd)).unwrap()),
            None => ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"].map(|part| lin(&n, part)),
        };
        let whole = |x: Tensor, part: &str| if c.head_norm == HeadNorm::WholeWidth { norm(&x, part) } else { x };
        let (q, k) = (whole(q, "self_attn.q_norm"), whole(k, "self_attn.k_norm"));
        let split = |x: Tensor, h: usize| x.reshape((t, h, hd)).unwrap().transpose(0, 1).unwrap().contiguous().unwrap();
        let normed = |x: Tensor, part: &str| match c.head_norm {
            HeadNorm::QueriesAndKeys => norm(&x, part),
            HeadNorm::None | HeadNorm::WholeWidth => x,
        };
        let rotated = |x: Tensor| match c.rope(layer) {
            Some(rope) => {
                let (cos, sin) = angles(t, hd, rope);
                let part = 2 * cos.dim(1).unwrap();
                let (turned, rest) = (x.narrow(2, 0, part).unwrap(), x.narrow(2, part, hd - part).unwrap());
                let turned = candle_nn::rotary_emb::rope_slow(&turned.unsqueeze(0).unwrap(), &cos, &sin).unwrap();
                Tensor::cat(&[turned.squeeze(0).unwrap(), rest], 2).unwrap()
            }
            None => x,
        };
        let repeat = |x: Tensor| {
            let group = heads / kv;
            x.unsqueeze(1).unwrap().expand((kv, group, t, hd)).unwrap().reshape((heads, t, hd)).unwrap()
        };
        let q = rotated(normed(split(q, heads), "self_attn.q_norm"));
        let k = repeat(rotated(normed(split(k, kv), "self_attn.k_norm")));
        let v = repeat(split(v, kv));
        let scale = c.attention_scale.unwrap_or(1.0 / (hd as f64).sqrt());
        let scores = (q.matmul(&k.t().unwrap()).unwrap() * scale).unwrap();
        let mask = mask(t, heads, c.windows[layer], &c.position);
        let p = candle_nn::ops::softmax(&(scores + mask).unwrap(), D::Minus1).unwrap();
        let y = p.matmul(&v).unwrap().transpose(0, 1).unwrap().contiguous().unwrap().reshape((t, heads * hd)).unwrap();
        let post = |y: Tensor, part: &str| if after { norm(&y, part) } else { y };
        x = (&x + post(lin(&y, "self_attn.o_proj"), "post_attention_layernorm") * branches).unwrap();
        let n = match (before, after) {
            (true, false) => norm(&x, "post_attention_layernorm"),
            (true, true) => norm(&x, "pre_feedforward_layernorm"),
            (false, _) => x.clone(),
        };
        let [gate, up] = match find("mlp.gate_up_proj.weight") {
            Some(packed) => {
                let f = c.intermediate_size;
                [0, f].map(|first| n.matmul(&rows(&packed, first, f)).unwrap())
            }
            None => ["mlp.gate_proj", "mlp.up_proj"].map(|part| lin(&n, part)),
        };
        let gate = match c.activation {
            Activation::SwiGlu => gate.silu().unwrap(),
            Activation::GeGlu => gate.gelu().unwrap(),
        };
        let act = (gate * up).unwrap();
        x = (&x + post(lin(&act, "mlp.down_proj"), "post_feedforward_layernorm") * branches).unwrap();
    }
    candle_nn::ops::rms_norm_slow(&x, &factors(vars["model.norm.weight"].as_tensor()), eps).unwrap()
}

/// Added to the scores, [heads, t, t].
fn mask(t: usize, heads: usize, window: Option<usize>, position: &Position) -> Tensor {
    let mut mask = Vec::with_capacity(heads * t * t);
    for slope in slopes(heads) {
        for (i, j) in (0..t).flat_map(|i| (0..t).map(move |j| (i, j))) {
            let seen = j <= i && window.is_none_or(|window| i - j < window);
            let bias = if *position == Position::Alibi { slope * (j as f32 - i as f32) } else { 0.0 };
            mask.push(if seen { bias } else { f32::NEG_INFINITY });
        }
    }
    Tensor::from_vec(mask, (heads, t, t), &Device::Cpu).unwrap()
}

/// ALiBi slopes by Press et al.: a geometric sequence, with intermediate members for other head counts.
fn slopes(heads: usize) -> Vec<f32> {
    let power = if heads.is_power_of_two() { heads } else { heads.next_power_of_two() / 2 };
    let sequence = |n: usize| (1..=n).map(move |k| 2f32.powf(-8.0 * k as f32 / n as f32));
    sequence(power).chain(sequence(2 * power).step_by(2)).take(heads).collect()
}

/// Plain and linear RoPE; the frequencies of other scalings are compared with PyTorch's numbers.
fn angles(t: usize, hd: usize, rope: &Rope) -> (Tensor, Tensor) {
    let part = (hd as f64 * rope.partial) as usize;
    let plain = (0..part / 2).map(|i| 1.0 / (rope.theta as f32).powf((2 * i) as f32 / part as f32));
    let inverse: Vec<f32> = match rope.scaling {
        RopeScaling::None => plain.collect(),
        RopeScaling::Linear { factor } => plain.map(|frequency| frequency / factor as f32).collect(),
        _ => rope.frequencies(hd),
    };
    let positions = Tensor::arange(0u32, t as u32, &Device::Cpu).unwrap().to_dtype(DType::F32).unwrap();
    let angles = positions
        .unsqueeze(1)
        .unwrap()
        .matmul(&Tensor::new(inverse.as_slice(), &Device::Cpu).unwrap().unsqueeze(0).unwrap())
        .unwrap();
    ((angles.cos().unwrap() * rope.factor()).unwrap(), (angles.sin().unwrap() * rope.factor()).unwrap())
}
