//! LongRoPE: every frequency is divided by a factor of its own. Sequences longer than those before the scaling have other
//! factors, for all of their tokens.

use serde_json::{Map, Value};
use spag_io::quote;

use super::parse::{FACTOR, Parameters};
use super::{Rope, RopeDefaults, RopeScaling};
use crate::config::keys::{Keys, check_f32, fail};
use crate::error::Result;

/// The settings of LongRoPE.
#[derive(Clone, Debug, PartialEq)]
pub struct LongRope {
    /// The divisors of frequencies for sequences of at most `original` tokens, one for each rotated pair.
    pub short: Vec<f64>,
    /// Those for longer sequences.
    pub long: Vec<f64>,
    /// Maximum positions before the scaling.
    pub original: usize,
    /// The factor of cosines and sines, for all sequences.
    pub attention_factor: f64,
}

/// RoPE of Phi-3: plain or LongRoPE, of a part of each head. Its older configurations call LongRoPE "su" or "yarn".
pub(in crate::config) fn of_phi3(keys: Keys<'_>, defaults: RopeDefaults) -> Result<Rope> {
    const PARTIAL: &str = "partial_rotary_factor";
    let empty = Map::new();
    let mut parameters = Parameters::of(keys, defaults, &empty)?;
    // Unlike other families, Phi-3 has a default length before the scaling.
    parameters.original = parameters.original.or(Some(defaults.positions));
    let partial = parameters.object.number(PARTIAL)?.or(keys.number(PARTIAL)?).unwrap_or(1.0);
    check_f32(PARTIAL, partial, 1.0)?;
    let scaling = match parameters.kind()? {
        "default" => RopeScaling::None,
        "longrope" | "su" | "yarn" => RopeScaling::LongRope(LongRope::parse(&parameters)?),
        other => {
            let (name, kind) = (parameters.name, quote(other));
            return fail(format!("`{name}` is of type \"{kind}\"; in Phi-3 default and longrope are supported"));
        }
    };
    Ok(Rope { theta: parameters.theta()?, scaling, partial })
}

impl LongRope {
    fn parse(parameters: &Parameters<'_>) -> Result<Self> {
        let original = parameters.original()?;
        let factors = |key: &str| {
            let Some(list) = parameters.object.list(key)? else {
                return fail(format!("`{}` has no `{key}`", parameters.name));
            };
            let number = |value: &Value| match value.as_f64() {
                Some(factor) => check_f32(key, factor, FACTOR).map(|()| factor),
                None => fail(format!("`{key}` has {}; expected numbers", quote(&value.to_string()))),
            };
            list.iter().map(number).collect::<Result<Vec<_>>>()
        };
        let ratio = parameters.max_position_embeddings as f64 / original as f64;
        let factor = parameters.object.number("factor")?.unwrap_or(ratio);
        let attention_factor = match parameters.object.number("attention_factor")? {
            Some(given) => given,
            None if factor <= 1.0 => 1.0,
            None => (1.0 + factor.ln() / (original as f64).ln()).sqrt(),
        };
        check_f32("attention_factor", attention_factor, FACTOR)?;
        Ok(Self { short: factors("short_factor")?, long: factors("long_factor")?, original, attention_factor })
    }

    /// Checks the number of factors.
    pub(super) fn check(&self, pairs: usize) -> Result<()> {
        for (key, factors) in [("short_factor", &self.short), ("long_factor", &self.long)] {
            if factors.len() != pairs {
                return fail(format!("`{key}` has {} numbers for {pairs} rotated pairs", factors.len()));
            }
        }
        Ok(())
    }
}

/// The frequencies 1 / `powers`, divided.
pub(super) fn divided(powers: impl Iterator<Item = f32>, divisors: &[f64]) -> Vec<f32> {
    powers.zip(divisors).map(|(power, divisor)| 1.0 / (*divisor as f32 * power)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str) -> Result<Rope> {
        let value: Value = serde_json::from_str(json).unwrap();
        of_phi3(Keys(value.as_object().unwrap()), RopeDefaults { theta: 10_000.0, positions: 4096 })
    }

    #[test]
    fn both_sets_of_factors_are_read_under_every_name() {
        for kind in ["longrope", "su", "yarn"] {
            let rope = parse(&format!(
                r#"{{"max_position_embeddings":512,"original_max_position_embeddings":64,"partial_rotary_factor":0.5,
                    "rope_theta":100,"rope_scaling":{{"type":"{kind}","short_factor":[1,2],"long_factor":[4,5]}}}}"#
            ))
            .unwrap();
            assert_eq!((rope.rotated(8), rope.long_after()), (4, Some(64)));
            assert_eq!(rope.frequencies(8), [1.0, 0.05]);
            assert_eq!(rope.long_frequencies(8).unwrap(), [0.25, 0.02]);
            assert!((rope.factor() - 1.5f64.sqrt()).abs() < 1e-12, "{}", rope.factor());
            assert!(rope.check(8).is_ok() && rope.check(16).is_err());
        }
    }

    #[test]
    fn the_attention_factor_has_defaults() {
        let factor = |keys: &str| {
            let lists = r#""rope_type":"longrope","short_factor":[1],"long_factor":[1]"#;
            parse(&format!(r#"{{"rope_parameters":{{{lists},{keys}}}}}"#)).unwrap().factor()
        };
        assert_eq!(factor(r#""attention_factor":1.25"#), 1.25);
        assert_eq!(factor(r#""rope_theta":9"#), 1.0);
        assert_eq!(factor(r#""factor":4096"#), 2f64.sqrt());
        // The length outside of the object comes first, also if it is the default.
        assert_eq!(factor(r#""original_max_position_embeddings":2"#), 1.0);
    }

    #[test]
    fn what_is_not_computed_is_refused() {
        for (json, part) in [
            (r#"{"rope_scaling":{"type":"llama3","factor":2}}"#, "\"llama3\""),
            (r#"{"rope_scaling":{"type":"longrope","short_factor":[1]}}"#, "no `long_factor`"),
            (r#"{"rope_scaling":{"type":"su","short_factor":[0],"long_factor":[1]}}"#, "`short_factor` is 0"),
            (r#"{"rope_scaling":{"type":"su","short_factor":["1"],"long_factor":[1]}}"#, "expected numbers"),
            (r#"{"partial_rotary_factor":1.5}"#, "`partial_rotary_factor` is 1.5"),
            (r#"{"partial_rotary_factor":0}"#, "`partial_rotary_factor` is 0"),
        ] {
            let error = parse(json).unwrap_err().to_string();
            assert!(error.contains(part), "{json}: {error}");
        }
    }
}
