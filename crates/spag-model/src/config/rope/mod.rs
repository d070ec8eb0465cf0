//! RoPE frequencies, and their settings in a `config.json`.

use serde_json::Value;
use spag_io::quote;

use super::keys::{Keys, check_f32, fail};
use crate::error::Result;

/// RoPE: base of the frequencies and their scaling.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rope {
    /// Base of the frequencies, θ: 1 / θ^(2i / head size).
    pub theta: f64,
    /// Frequency scaling for longer contexts.
    pub scaling: RopeScaling,
}

/// Scaling of RoPE frequencies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RopeScaling {
    /// None.
    None,
    /// All frequencies are divided by a factor, as if positions were.
    Linear {
        /// The factor.
        factor: f64,
    },
    /// Llama 3.1: frequencies of long wavelengths are divided by the factor, short ones are unchanged, and those
    /// between are blended.
    Llama3 {
        /// The factor.
        factor: f64,
        /// Wavelengths above `original / low_freq_factor` are long.
        low_freq_factor: f64,
        /// Wavelengths below `original / high_freq_factor` are short.
        high_freq_factor: f64,
        /// Maximum positions before the scaling.
        original: usize,
    },
}

/// The default base of most families.
pub(super) const THETA: f64 = 10_000.0;
const FACTOR: f64 = 1e9;
const SUPPORTED: &str = "default, linear and llama3 are supported";

impl Rope {
    /// Unscaled, with base `theta`.
    pub fn new(theta: f64) -> Self {
        Self { theta, scaling: RopeScaling::None }
    }

    /// Reads `rope_theta` and `rope_scaling`, or `rope_parameters`, which holds both since transformers 5. `base` is the
    /// default base.
    pub(super) fn parse(keys: Keys<'_>, base: f64) -> Result<Self> {
        let outer = keys.number("rope_theta")?;
        match (keys.object("rope_scaling")?, keys.object("rope_parameters")?) {
            (Some(one), Some(other)) if one.0 != other.0 => {
                fail("`rope_scaling` and `rope_parameters` are both there and differ; remove one of them".into())
            }
            (_, Some(parameters)) => Self::of_object("rope_parameters", parameters, outer, base),
            (Some(scaling), None) => Self::of_object("rope_scaling", scaling, outer, base),
            (None, None) => Self::new(outer.unwrap_or(base)).checked(),
        }
    }

    /// Reads the object `name`; `outer` is a base specified outside of it.
    fn of_object(name: &str, object: Keys<'_>, outer: Option<f64>, base: f64) -> Result<Self> {
        if object.0.values().any(Value::is_object) {
            return fail(format!("`{name}` has other values for each kind of layer; this is not supported"));
        }
        for (key, value) in [("partial_rotary_factor", 1.0), ("attention_factor", 1.0), ("mscale", 1.0)] {
            if let Some(found) = object.number(key)?.filter(|found| *found != value) {
                return fail(format!("`{name}`: `{key}` is {found}; it is not supported"));
            }
        }
        let inner = object.number("rope_theta")?;
        if let (Some(inner), Some(outer)) = (inner, outer)
            && inner != outer
        {
            return fail(format!("`rope_theta` is {outer}, and in `{name}` it is {inner}; remove one of them"));
        }
        let kinds = [object.text("rope_type")?, object.text("type")?];
        let kind = match kinds {
            [Some(one), Some(other)] if one != other => {
                return fail(format!("`{name}` has two types, \"{}\" and \"{}\"", quote(one), quote(other)));
            }
            [one, other] => one.or(other).unwrap_or("default"),
        };
        let required = |key: &str| match object.number(key)? {
            Some(value) => check_f32(key, value, FACTOR).map(|()| value),
            None => fail(format!("`{name}` has no `{key}`")),
        };
        let scaling = match kind {
            "default" => RopeScaling::None,
            "linear" => RopeScaling::Linear { factor: required("factor")? },
            "llama3" => {
                let [low_freq_factor, high_freq_factor] = [required("low_freq_factor")?, required("high_freq_factor")?];
                if high_freq_factor <= low_freq_factor {
                    return fail(format!("`{name}`: `high_freq_factor` is not above `low_freq_factor`"));
                }
                let original = object.required_size("original_max_position_embeddings")?;
                check_f32("original_max_position_embeddings", original as f64, FACTOR)?;
                RopeScaling::Llama3 { factor: required("factor")?, low_freq_factor, high_freq_factor, original }
            }
            other => return fail(format!("`{name}` is of type \"{}\"; {SUPPORTED}", quote(other))),
        };
        Self { theta: inner.or(outer).unwrap_or(base), scaling }.checked()
    }

    fn checked(self) -> Result<Self> {
        check_f32("rope_theta", self.theta, 1e30).map(|()| self)
    }

    /// The frequency of each pair of a head's elements, in f32 as in transformers.
    pub fn frequencies(&self, head_dim: usize) -> Vec<f32> {
        let plain = (0..head_dim / 2).map(|i| 1.0 / (self.theta as f32).powf((2 * i) as f32 / head_dim as f32));
        plain.map(|frequency| self.scaling.apply(frequency)).collect()
    }
}

impl RopeScaling {
    fn apply(self, frequency: f32) -> f32 {
        match self {
            Self::None => frequency,
            Self::Linear { factor } => frequency / factor as f32,
            Self::Llama3 { factor, low_freq_factor, high_freq_factor, original } => {
                let (factor, original) = (factor as f32, original as f32);
                let (low, high) = (low_freq_factor as f32, high_freq_factor as f32);
                let wavelength = std::f32::consts::TAU / frequency;
                if wavelength < original / high {
                    frequency
                } else if wavelength > original / low {
                    frequency / factor
                } else {
                    let smooth = (original / wavelength - low) / (high - low);
                    (1.0 - smooth) * frequency / factor + smooth * frequency
                }
            }
        }
    }
}

/// RoPE of Gemma 3: for blocks without a window, and with one. Read from `rope_parameters`, with an object per kind, or from
/// `rope_theta`, `rope_scaling` and `rope_local_base_freq`.
pub(super) fn of_kinds(keys: Keys<'_>) -> Result<(Rope, Rope)> {
    /// Default bases.
    const BASES: [f64; 2] = [1_000_000.0, THETA];
    let kinds = keys.object("rope_parameters")?.filter(|object| object.0.values().any(Value::is_object));
    let Some(kinds) = kinds else {
        let everywhere = Rope::parse(keys, BASES[0])?;
        let in_window = Rope::new(keys.number("rope_local_base_freq")?.unwrap_or(BASES[1]));
        return Ok((everywhere, in_window.checked()?));
    };
    let of = |kind: &str, base: f64| match kinds.object(kind)? {
        Some(object) => Rope::of_object("rope_parameters", object, None, base),
        None => Ok(Rope::new(base)),
    };
    Ok((of("full_attention", BASES[0])?, of("sliding_attention", BASES[1])?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str) -> Result<Rope> {
        let value: Value = serde_json::from_str(json).unwrap();
        Rope::parse(Keys(value.as_object().unwrap()), THETA)
    }

    #[test]
    fn both_forms_are_read() {
        let llama3 = r#""rope_type":"llama3","factor":8,"low_freq_factor":1,"high_freq_factor":4,
            "original_max_position_embeddings":64"#;
        let old = parse(&format!(r#"{{"rope_theta":500000,"rope_scaling":{{{llama3}}}}}"#)).unwrap();
        let new = parse(&format!(r#"{{"rope_parameters":{{"rope_theta":500000,{llama3}}}}}"#)).unwrap();
        assert_eq!(old, new);
        let RopeScaling::Llama3 { factor, original, .. } = old.scaling else { panic!("{old:?}") };
        assert_eq!((old.theta, factor, original), (500_000.0, 8.0, 64));
        assert_eq!(parse("{}").unwrap(), Rope::new(10_000.0));
        assert_eq!(parse(r#"{"rope_scaling":{"type":"default"},"rope_theta":5}"#).unwrap(), Rope::new(5.0));
        let linear = parse(r#"{"rope_scaling":{"type":"linear","factor":2.5}}"#).unwrap();
        assert_eq!(linear.scaling, RopeScaling::Linear { factor: 2.5 });
    }

    #[test]
    fn what_is_not_computed_is_refused() {
        for (json, part) in [
            (r#"{"rope_scaling":{"type":"dynamic","factor":2}}"#, "default, linear and llama3"),
            (r#"{"rope_scaling":{"rope_type":"yarn","factor":2}}"#, "\"yarn\""),
            (r#"{"rope_scaling":{"rope_type":"linear","type":"llama3","factor":2}}"#, "two types"),
            (r#"{"rope_scaling":{"type":"linear"}}"#, "no `factor`"),
            (r#"{"rope_scaling":{"type":"linear","factor":0}}"#, "`factor` is 0"),
            (r#"{"rope_scaling":[2]}"#, "expected an object"),
            (r#"{"rope_parameters":{"rope_theta":1e4,"partial_rotary_factor":0.5}}"#, "partial_rotary_factor"),
            (r#"{"rope_parameters":{"full_attention":{"rope_theta":1e4}}}"#, "each kind of layer"),
            (r#"{"rope_theta":1e4,"rope_parameters":{"rope_theta":1e5}}"#, "remove one"),
            (r#"{"rope_scaling":{"type":"default"},"rope_parameters":{"rope_theta":1e5}}"#, "remove one"),
            (r#"{"rope_theta":0}"#, "above 0"),
        ] {
            let error = parse(json).unwrap_err().to_string();
            assert!(error.contains(part), "{json}: {error}");
        }
    }

    /// Wavelengths 2π, 2π·10, 2π·100 and 2π·1000 with limits 16 and 64: the second is blended.
    #[test]
    fn llama3_scaling_by_hand() {
        let scaling = RopeScaling::Llama3 { factor: 8.0, low_freq_factor: 1.0, high_freq_factor: 4.0, original: 64 };
        let found: Vec<f32> = [1.0, 0.1, 0.01, 0.001].map(|frequency| scaling.apply(frequency)).to_vec();
        let smooth = (6.4 / std::f64::consts::TAU - 1.0) / 3.0;
        let blended = (1.0 - smooth) * 0.1 / 8.0 + smooth * 0.1;
        for (found, expected) in found.iter().zip([1.0, blended, 0.01 / 8.0, 0.001 / 8.0]) {
            assert!((f64::from(*found) - expected).abs() < 1e-7 * expected, "{found} {expected}");
        }
    }
}
