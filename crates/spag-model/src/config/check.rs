//! What a configuration may ask for: sizes that can be computed with, and nothing that is not implemented.

use spag_io::quote;

use super::ModelConfig;
use crate::error::{Error, Result};

/// A dimension, at most.
const MAX_SIZE: usize = 1 << 31;
/// Blocks, at most. The largest published models have some 130. A layout lists every tensor of every block.
const MAX_LAYERS: usize = 1 << 14;
/// Parameters, at most: far beyond any machine, and small enough that no product of sizes overflows.
const MAX_PARAMETERS: u128 = 1 << 46;

impl ModelConfig {
    /// Checks that the sizes are consistent and that no key asks for an unsupported computation.
    ///
    /// # Errors
    /// [`Error::Config`] naming the key.
    pub fn check(&self) -> Result<()> {
        self.check_sizes()?;
        self.check_numbers()?;
        self.check_extra()
    }

    fn check_sizes(&self) -> Result<()> {
        for (key, value, most) in [
            ("hidden_size", self.hidden_size, MAX_SIZE),
            ("intermediate_size", self.intermediate_size, MAX_SIZE),
            ("vocab_size", self.vocab_size, MAX_SIZE),
            ("num_hidden_layers", self.num_hidden_layers, MAX_LAYERS),
            ("num_attention_heads", self.num_attention_heads, MAX_SIZE),
            ("num_key_value_heads", self.kv_heads(), MAX_SIZE),
            ("max_position_embeddings", self.max_position_embeddings, MAX_SIZE),
        ] {
            if value == 0 {
                return fail(format!("`{key}` is 0"));
            }
            if value > most {
                return fail(format!("`{key}` is {value}, which is out of range; at most {most} is supported"));
            }
        }
        if !self.hidden_size.is_multiple_of(self.num_attention_heads) {
            return fail(format!(
                "`hidden_size` {} is not a multiple of `num_attention_heads` {}",
                self.hidden_size, self.num_attention_heads
            ));
        }
        if !self.num_attention_heads.is_multiple_of(self.kv_heads()) {
            return fail(format!(
                "`num_attention_heads` {} is not a multiple of `num_key_value_heads` {}",
                self.num_attention_heads,
                self.kv_heads()
            ));
        }
        if !self.head_dim().is_multiple_of(2) {
            return fail(format!("the head size {} is odd; RoPE needs an even head size", self.head_dim()));
        }
        let parameters = self.count_parameters();
        if parameters > MAX_PARAMETERS {
            return fail(format!("these sizes make {parameters} parameters, which is out of range"));
        }
        Ok(())
    }

    /// The number of parameters, from sizes that have not been checked.
    fn count_parameters(&self) -> u128 {
        let [d, f, v, kv, layers] =
            [self.hidden_size, self.intermediate_size, self.vocab_size, self.kv_size(), self.num_hidden_layers]
                .map(|size| size as u128);
        let block = 2 * d + 2 * d * d + 2 * kv * d + 3 * f * d;
        layers * block + d + v * d * if self.tie_word_embeddings { 1 } else { 2 }
    }

    /// Numbers that become f32, where they must still be finite, and ε above 0.
    fn check_numbers(&self) -> Result<()> {
        let in_f32 = |key: &str, value: f64, most: f64| match value as f32 {
            x if x > 0.0 && value <= most => Ok(()),
            _ => fail(format!("`{key}` is {value}; it must be above 0 and at most {most:e}")),
        };
        in_f32("rms_norm_eps", self.rms_norm_eps, 1.0)?;
        in_f32("rope_theta", self.rope_theta, 1e30)?;
        if !(0.0..=1e6).contains(&self.initializer_range) {
            return fail(format!("`initializer_range` is {}; it must lie between 0 and 1e6", self.initializer_range));
        }
        Ok(())
    }

    /// Rejects keys of newer LLaMA-like models that change the computation and are not implemented.
    fn check_extra(&self) -> Result<()> {
        let extra = |key: &str| self.extra.get(key).filter(|v| !v.is_null());
        let text = |key: &str| extra(key).map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned));
        if let Some(kind) = text("model_type")
            && kind != "llama"
        {
            return fail(format!("`model_type` is \"{}\"; only \"llama\" is supported", quote(&kind)));
        }
        if let Some(act) = text("hidden_act")
            && !matches!(act.as_str(), "silu" | "swish")
        {
            return fail(format!("`hidden_act` is \"{}\"; only \"silu\" is supported", quote(&act)));
        }
        if let Some(scaling) = extra("rope_scaling") {
            let kind = scaling.get("rope_type").or_else(|| scaling.get("type")).and_then(|v| v.as_str());
            if kind != Some("default") {
                return fail(format!("`rope_scaling` is {}; only null is supported", quote(&scaling.to_string())));
            }
        }
        for key in ["attention_bias", "mlp_bias"] {
            if extra(key).is_some_and(|value| value.as_bool() != Some(false)) {
                return fail(format!("`{key}` is not false; biases are not supported"));
            }
        }
        if let Some(size) = extra("head_dim")
            && size.as_u64() != Some(self.head_dim() as u64)
        {
            let size = quote(&size.to_string());
            return fail(format!("`head_dim` is {size}; only hidden_size / num_attention_heads is supported"));
        }
        Ok(())
    }
}

fn fail(why: String) -> Result<()> {
    Err(Error::Config(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(change: &str) -> Result<ModelConfig> {
        let mut keys = serde_json::json!({"hidden_size": 8, "intermediate_size": 12, "vocab_size": 10,
            "num_hidden_layers": 1, "num_attention_heads": 2});
        let change: serde_json::Value = serde_json::from_str(&format!("{{{change}}}")).unwrap();
        keys.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let config: ModelConfig = serde_json::from_value(keys).unwrap();
        config.check()?;
        Ok(config)
    }

    #[test]
    fn unsupported_computations_are_rejected() {
        for change in [
            r#""rope_scaling":{"type":"linear","factor":2.0}"#,
            r#""attention_bias":true"#,
            r#""attention_bias":1"#,
            r#""hidden_act":"gelu""#,
            r#""hidden_act":["silu"]"#,
            r#""model_type":"mistral""#,
            r#""model_type":7"#,
            r#""num_key_value_heads":3"#,
            r#""num_key_value_heads":0"#,
            r#""head_dim":16"#,
            r#""head_dim":"4""#,
        ] {
            assert!(matches!(config(change), Err(Error::Config(_))), "{change}");
        }
    }

    #[test]
    fn sizes_and_numbers_out_of_range_are_rejected() {
        for change in [
            r#""num_hidden_layers":2147483648"#,
            r#""num_hidden_layers":0"#,
            r#""max_position_embeddings":9223372036854775807"#,
            r#""hidden_size":2147483648"#,
            r#""hidden_size":2147483648,"intermediate_size":2147483648,"vocab_size":2147483648"#,
            r#""vocab_size":18446744073709551615"#,
            r#""rms_norm_eps":1e-60"#,
            r#""rms_norm_eps":-1e-6"#,
            r#""rope_theta":0"#,
            r#""rope_theta":1e300"#,
            r#""initializer_range":1e300"#,
        ] {
            assert!(matches!(config(change), Err(Error::Config(_))), "{change}");
        }
        config(r#""max_position_embeddings":2147483648,"rope_theta":500000000.0,"rms_norm_eps":1e-12"#).unwrap();
    }

    #[test]
    fn unknown_model_type_is_quoted_in_one_line() {
        let error = config(&format!(r#""model_type":"a\nb\u001b[2J{}""#, "x".repeat(5000))).unwrap_err().to_string();
        assert!(error.contains(r"a\nb\u{1b}[2J") && error.len() < 600, "{error}");
    }
}
