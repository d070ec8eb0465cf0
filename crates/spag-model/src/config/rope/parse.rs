//! The settings of RoPE in a `config.json`.

use serde_json::{Map, Value};
use spag_io::quote;

use super::{Rope, RopeScaling, Yarn};
use crate::config::keys::{Keys, check_f32, fail};
use crate::error::Result;

/// Maximum factor.
pub(super) const FACTOR: f64 = 1e9;
const SUPPORTED: &str = "default, linear, llama3 and yarn are supported";

/// A family's defaults for absent keys.
#[derive(Clone, Copy)]
pub(in crate::config) struct RopeDefaults {
    /// The base.
    pub(in crate::config) theta: f64,
    /// `max_position_embeddings`.
    pub(in crate::config) positions: usize,
}

/// An object of RoPE parameters, and the keys outside of it that complete it.
pub(super) struct Parameters<'a> {
    /// The name of the object.
    pub(super) name: &'static str,
    pub(super) object: Keys<'a>,
    /// A base specified outside of the object.
    pub(super) outer: Option<f64>,
    /// The default base.
    pub(super) base: f64,
    /// `original_max_position_embeddings` outside of the object. As in transformers it comes first.
    pub(super) original: Option<usize>,
    pub(super) max_position_embeddings: usize,
    /// Whether YaRN rounds the ends of its ramp.
    pub(super) truncate: bool,
}

impl<'a> Parameters<'a> {
    /// Those of families with one RoPE: the object `rope_scaling` or `rope_parameters`, else `empty`.
    pub(super) fn of(keys: Keys<'a>, defaults: RopeDefaults, empty: &'a Map<String, Value>) -> Result<Self> {
        let (name, object) = object(keys)?.unwrap_or(("rope_parameters", Keys(empty)));
        Ok(Self {
            name,
            object,
            outer: keys.number("rope_theta")?,
            base: defaults.theta,
            original: keys.size("original_max_position_embeddings")?,
            max_position_embeddings: keys.size("max_position_embeddings")?.unwrap_or(defaults.positions),
            truncate: truncates(object)?,
        })
    }

    /// A required number above 0.
    fn required(&self, key: &str) -> Result<f64> {
        match self.object.number(key)? {
            Some(value) => check_f32(key, value, FACTOR).map(|()| value),
            None => fail(format!("`{}` has no `{key}`", self.name)),
        }
    }

    /// Maximum positions before the scaling.
    pub(super) fn original(&self) -> Result<usize> {
        const KEY: &str = "original_max_position_embeddings";
        let original = self.original.or(self.object.size(KEY)?).unwrap_or(self.max_position_embeddings);
        check_f32(KEY, original as f64, FACTOR).map(|()| original)
    }

    /// `factor`, or if it is null the ratio of both lengths.
    pub(super) fn factor_or_ratio(&self, original: usize) -> Result<f64> {
        match self.object.contains("factor") && self.object.get("factor").is_none() {
            true => Ok(self.max_position_embeddings as f64 / original as f64),
            false => self.required("factor"),
        }
    }

    /// The base.
    pub(super) fn theta(&self) -> Result<f64> {
        let inner = self.object.number("rope_theta")?;
        if let (Some(inner), Some(outer)) = (inner, self.outer)
            && inner != outer
        {
            let name = self.name;
            return fail(format!("`rope_theta` is {outer}, and in `{name}` it is {inner}; remove one of them"));
        }
        let theta = inner.or(self.outer).unwrap_or(self.base);
        check_f32("rope_theta", theta, 1e30).map(|()| theta)
    }

    /// The type of scaling.
    pub(super) fn kind(&self) -> Result<&'a str> {
        match [self.object.text("rope_type")?, self.object.text("type")?] {
            [Some(one), Some(other)] if one != other => {
                fail(format!("`{}` has two types, \"{}\" and \"{}\"", self.name, quote(one), quote(other)))
            }
            [one, other] => Ok(one.or(other).unwrap_or("default")),
        }
    }

    /// Refuses keys that only other types of scaling have, unless they have no effect.
    fn refuse(&self, keys: &[&str]) -> Result<()> {
        for key in keys {
            if let Some(found) = self.object.number(key)?.filter(|found| *found != 1.0) {
                return fail(format!("`{}`: `{key}` is {found}; it is not supported", self.name));
            }
        }
        Ok(())
    }

    fn rope(&self) -> Result<Rope> {
        let name = self.name;
        if self.object.0.values().any(Value::is_object) {
            return fail(format!("`{name}` has other values for each kind of layer; this is not supported"));
        }
        self.refuse(&["partial_rotary_factor"])?;
        let (theta, kind) = (self.theta()?, self.kind()?);
        if kind != "yarn" {
            self.refuse(&["attention_factor", "mscale"])?;
        }
        let scaling = match kind {
            "default" => RopeScaling::None,
            "linear" => RopeScaling::Linear { factor: self.required("factor")? },
            "llama3" => {
                let [low_freq_factor, high_freq_factor] =
                    [self.required("low_freq_factor")?, self.required("high_freq_factor")?];
                if high_freq_factor <= low_freq_factor {
                    return fail(format!("`{name}`: `high_freq_factor` is not above `low_freq_factor`"));
                }
                let (factor, original) = (self.required("factor")?, self.original()?);
                RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original }
            }
            "yarn" => RopeScaling::Yarn(Yarn::parse(self, theta)?),
            other => return fail(format!("`{name}` is of type \"{}\"; {SUPPORTED}", quote(other))),
        };
        Ok(Rope { scaling, ..Rope::new(theta) })
    }
}

impl Rope {
    /// Reads `rope_theta` and `rope_scaling`, or `rope_parameters`, which holds both since transformers 5.
    pub(in crate::config) fn parse(keys: Keys<'_>, defaults: RopeDefaults) -> Result<Self> {
        Parameters::of(keys, defaults, &Map::new())?.rope()
    }
}

/// The object of RoPE parameters, if any, by its name.
fn object(keys: Keys<'_>) -> Result<Option<(&'static str, Keys<'_>)>> {
    match (keys.object("rope_scaling")?, keys.object("rope_parameters")?) {
        (Some(one), Some(other)) if one.0 != other.0 => {
            fail("`rope_scaling` and `rope_parameters` are both there and differ; remove one of them".into())
        }
        (_, Some(parameters)) => Ok(Some(("rope_parameters", parameters))),
        (Some(scaling), None) => Ok(Some(("rope_scaling", scaling))),
        (None, None) => Ok(None),
    }
}

/// `truncate`. Null means false, as in transformers.
fn truncates(object: Keys<'_>) -> Result<bool> {
    Ok(!object.contains("truncate") || object.truth("truncate")?.unwrap_or(false))
}

/// RoPE of families that have one for blocks without a window, and one with: from `rope_parameters` with an object for each
/// kind; else from `rope_theta` and `rope_scaling` without a window, and the base `in_window` with one.
pub(in crate::config) fn of_kinds(keys: Keys<'_>, defaults: RopeDefaults, in_window: f64) -> Result<(Rope, Rope)> {
    let empty = Map::new();
    let none = ("rope_scaling", Keys(&empty));
    let found = object(keys)?;
    let nested = found.filter(|(_, object)| object.0.values().any(Value::is_object));
    if let (Some((name @ "rope_parameters", object)), None) = (found, nested)
        && !object.0.is_empty()
    {
        return fail(format!("`{name}` has no object for each kind of layer, which this `model_type` has"));
    }
    let read = |(name, object): (&'static str, Keys<'_>), base: f64, truncate: bool| {
        let parameters = Parameters {
            name,
            object,
            outer: None,
            base,
            original: None,
            max_position_embeddings: keys.size("max_position_embeddings")?.unwrap_or(defaults.positions),
            truncate,
        };
        parameters.rope()
    };
    let base = keys.number("rope_theta")?.unwrap_or(defaults.theta);
    let Some((name, kinds)) = nested else {
        // transformers 5 does not look for `truncate` inside this object.
        return Ok((read(found.unwrap_or(none), base, true)?, read(none, in_window, true)?));
    };
    let of = |kind: &str, base: f64| read((name, kinds.object(kind)?.unwrap_or(none.1)), base, truncates(kinds)?);
    Ok((of("full_attention", base)?, of("sliding_attention", in_window)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str) -> Result<Rope> {
        let value: Value = serde_json::from_str(json).unwrap();
        Rope::parse(Keys(value.as_object().unwrap()), RopeDefaults { theta: 10_000.0, positions: 2048 })
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
            (r#"{"rope_scaling":{"type":"dynamic","factor":2}}"#, "default, linear, llama3 and yarn"),
            (r#"{"rope_scaling":{"rope_type":"longrope","factor":2}}"#, "\"longrope\""),
            (r#"{"rope_scaling":{"rope_type":"yarn"}}"#, "no `factor`"),
            (r#"{"rope_scaling":{"rope_type":"yarn","factor":2},"rope_theta":1}"#, "above 1"),
            (r#"{"rope_scaling":{"rope_type":"yarn","factor":2,"beta_fast":-1}}"#, "`beta_fast` is -1"),
            (r#"{"rope_scaling":{"rope_type":"yarn","factor":2,"attention_factor":-1}}"#, "cosines and sines is -1"),
            (r#"{"rope_scaling":{"rope_type":"yarn","factor":9,"mscale":-9,"mscale_all_dim":1}}"#, "cosines and sines"),
            (r#"{"rope_scaling":{"rope_type":"linear","factor":2,"attention_factor":2}}"#, "`attention_factor` is 2"),
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

    #[test]
    fn options_of_yarn_have_defaults() {
        let yarn = |options: &str| {
            let rope =
                parse(&format!(r#"{{"rope_scaling":{{"type":"yarn",{options}}},"max_position_embeddings":512}}"#));
            let RopeScaling::Yarn(yarn) = rope.unwrap().scaling else { panic!("{options}") };
            yarn
        };
        let plain = yarn(r#""factor":8"#);
        assert_eq!((plain.original, plain.beta_fast, plain.beta_slow, plain.truncate), (512, 32.0, 1.0, true));
        assert!((plain.attention_factor - 1.207_944_154_167_983_6).abs() < 1e-12);
        let ratio = yarn(r#""factor":null,"original_max_position_embeddings":128,"truncate":null,"beta_fast":0"#);
        assert_eq!((ratio.factor, ratio.truncate, ratio.beta_fast), (4.0, false, 32.0));
        let given = yarn(r#""factor":8,"attention_factor":1.5,"mscale":2,"mscale_all_dim":1"#);
        assert_eq!(given.attention_factor, 1.5);
        let quotient = yarn(r#""factor":8,"mscale":2,"mscale_all_dim":1"#).attention_factor;
        assert!((quotient - 1.415_888_308_335_967_2 / 1.207_944_154_167_983_6).abs() < 1e-12);
        assert_eq!(yarn(r#""factor":1"#).attention_factor, 1.0);
        // The length outside of the object comes first.
        let outside = r#"{"original_max_position_embeddings":32,"rope_parameters":{"rope_type":"yarn","factor":2,
            "original_max_position_embeddings":64}}"#;
        assert!(matches!(parse(outside).unwrap().scaling, RopeScaling::Yarn(Yarn { original: 32, .. })));
    }
}
