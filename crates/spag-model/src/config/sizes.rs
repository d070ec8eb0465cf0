//! Range checks of sizes and numbers.

use super::architecture::{Architecture, HeadNorm, Position};
use super::keys::{check_f32, fail};
use crate::error::Result;
use spag_ops::attention::Heads;

/// Maximum dimension.
const MAX_SIZE: usize = 1 << 31;
/// Maximum blocks. The largest published models have some 130. A layout lists every tensor of every block.
const MAX_LAYERS: usize = 1 << 14;
/// Maximum parameters: far beyond any machine, and small enough that no product of sizes overflows.
const MAX_PARAMETERS: u128 = 1 << 46;

impl Architecture {
    /// Whether the number of blocks is in range.
    pub(super) fn has_layers_in_range(&self) -> bool {
        self.num_hidden_layers <= MAX_LAYERS
    }

    /// Checks sizes and numbers. Windows are created afterwards, for a number of blocks in range.
    pub(super) fn check(&self) -> Result<()> {
        let Heads { query, kv, dim } = self.heads;
        for (key, value, most) in [
            ("hidden_size", self.hidden_size, MAX_SIZE),
            ("intermediate_size", self.intermediate_size, MAX_SIZE),
            ("vocab_size", self.vocab_size, MAX_SIZE),
            ("num_hidden_layers", self.num_hidden_layers, MAX_LAYERS),
            ("num_attention_heads", query, MAX_SIZE),
            ("num_key_value_heads", kv, MAX_SIZE),
            ("head_dim", dim, MAX_SIZE),
            ("max_position_embeddings", self.max_position_embeddings, MAX_SIZE),
        ] {
            if value == 0 {
                return fail(format!("`{key}` is 0"));
            }
            if value > most {
                return fail(format!("`{key}` is {value}, which is out of range; at most {most} is supported"));
            }
        }
        if !query.is_multiple_of(kv) {
            return fail(format!("`num_attention_heads` {query} is not a multiple of `num_key_value_heads` {kv}"));
        }
        if let Position::Rope(rope) = &self.position {
            if !dim.is_multiple_of(2) {
                return fail(format!("the head size {dim} is odd; RoPE needs an even head size"));
            }
            rope.check(dim)?;
        }
        if self.residual_scale.is_some() && (self.norms.after() || self.head_norm != HeadNorm::None) {
            return fail("a factor of branches is not supported with norms after them or of heads".into());
        }
        let parameters = self.count_parameters();
        if parameters > MAX_PARAMETERS {
            return fail(format!("these sizes make {parameters} parameters, which is out of range"));
        }
        check_f32("rms_norm_eps", self.rms_norm_eps, 1.0)
    }

    /// The number of parameters, without biases and head norms, from unchecked sizes.
    fn count_parameters(&self) -> u128 {
        let [d, f, v, layers] = [self.hidden_size, self.intermediate_size, self.vocab_size, self.num_hidden_layers]
            .map(|size| size as u128);
        let dim = self.heads.dim as u128;
        let (q, kv) = (self.heads.query as u128 * dim, self.heads.kv as u128 * dim);
        let block = (2 * (q + kv) + 3 * f + 2) * d;
        layers * block + d + v * d * if self.is_tied() { 1 } else { 2 }
    }
}
