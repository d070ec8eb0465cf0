//! Converts RoPE frequency scaling to the form of a `config.json`.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use candle_core::quantized::GgmlDType;
use serde_json::{Value, json};
use spag_io::quote;

use super::names;
use crate::config::{Rope, RopeScaling};
use crate::dtype::StoredDtype;
use crate::error::Result;
use crate::gguf::Gguf;

/// Maximum number of factors: a head size of 8192.
const MAX_FACTORS: usize = 4096;
/// Relative tolerance of equal factors, which are computed in 32 bits.
const TOLERANCE: f32 = 1e-4;
/// Wavelength limits of all published models with factors.
const LOW: f64 = 1.0;
const HIGH: f64 = 4.0;

/// The key `rope_scaling`: null, linear or llama3.
pub(super) fn scaling(gguf: &Gguf, theta: f64, head: usize) -> Result<Value> {
    let linear = linear(gguf)?;
    let factors = factors(gguf)?;
    match (linear, factors) {
        (None, None) => Ok(Value::Null),
        (Some(factor), None) => Ok(json!({"rope_type": "linear", "factor": factor})),
        (None, Some(factors)) => llama3(gguf, &factors, theta, head),
        (Some(_), Some(_)) => {
            Err(gguf.invalid(format!("it has both `{}` and tensor `{}`", gguf.key(FACTOR)?, names::ROPE_FREQS)))
        }
    }
}

const KIND: &str = "rope.scaling.type";
const FACTOR: &str = "rope.scaling.factor";

/// The factor of linear scaling, unless it has no effect. A factor without a type is linear, as in llama.cpp.
fn linear(gguf: &Gguf) -> Result<Option<f64>> {
    let kind = gguf.key(KIND)?;
    match gguf.metadata.text(&kind).map_err(|why| gguf.invalid(why))? {
        None | Some("linear") => {}
        Some("none") => return Ok(None),
        Some(other) => {
            let other = quote(other);
            return Err(gguf.invalid(format!("`{kind}` is \"{other}\"; none and linear are supported")));
        }
    }
    let factor = match gguf.number(FACTOR)? {
        Some(factor) => Some(factor),
        None => gguf.number("rope.scale_linear")?,
    };
    Ok(factor.filter(|factor| *factor != 0.0 && *factor != 1.0))
}

/// The divisor of each frequency: the scaling of Llama 3.1 and later is stored as its result.
fn factors(gguf: &Gguf) -> Result<Option<Vec<f32>>> {
    let Some(entry) = gguf.tensors.get(names::ROPE_FREQS) else { return Ok(None) };
    let &[count @ 1..=MAX_FACTORS] = entry.shape.as_slice() else {
        return Err(gguf.invalid(format!("tensor `{}` has shape {:?}", names::ROPE_FREQS, entry.shape)));
    };
    if entry.dtype != StoredDtype::Read(GgmlDType::F32) {
        return Err(gguf.invalid(format!("tensor `{}` is not in F32", names::ROPE_FREQS)));
    }
    let mut bytes = vec![0; 4 * count];
    let read = |mut file: File| {
        file.seek(SeekFrom::Start(entry.start))?;
        file.read_exact(&mut bytes)
    };
    File::open(&gguf.path).and_then(read).map_err(spag_io::Error::io(&gguf.path))?;
    let factors: Vec<f32> = bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    Ok(Some(factors).filter(|factors| factors.iter().any(|factor| *factor != 1.0)))
}

/// The llama3 parameters that produce these factors. The largest factor is that of long wavelengths; for the original
/// context length, powers of two are tried.
fn llama3(gguf: &Gguf, factors: &[f32], theta: f64, head: usize) -> Result<Value> {
    let plain = Rope::new(theta).frequencies(head.min(2 * MAX_FACTORS));
    let factor = f64::from(factors.iter().copied().fold(1.0, f32::max));
    let gives = |original: usize| {
        let scaling = RopeScaling::Llama3 { factor, low_freq_factor: LOW, high_freq_factor: HIGH, original };
        let scaled = Rope { scaling, ..Rope::new(theta) }.frequencies(head.min(2 * MAX_FACTORS));
        let quotients = plain.iter().zip(&scaled).map(|(plain, scaled)| plain / scaled);
        plain.len() == factors.len()
            && quotients.zip(factors).all(|(one, other)| (one - other).abs() <= TOLERANCE * other.abs())
    };
    match (4..=30).map(|power| 1usize << power).find(|original| gives(*original)) {
        Some(original) => Ok(json!({
            "rope_type": "llama3",
            "factor": factor,
            "low_freq_factor": LOW,
            "high_freq_factor": HIGH,
            "original_max_position_embeddings": original,
        })),
        None => Err(gguf.invalid(format!(
            "the factors of frequencies in tensor `{}` are not those of Llama 3.1 for any length, and others are not \
             supported",
            names::ROPE_FREQS
        ))),
    }
}
