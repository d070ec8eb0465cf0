//! Samples to tokens: `bos + query + target + eos`, with BOS if prompts begin with it, query and target encoded apart, the last tokens kept.
//!
//! Texts of a game are encoded as they were played: what a player says never becomes a special token. Texts to imitate are
//! encoded as in the reference, with special tokens matched.

use rayon::prelude::*;
use spag_model::Tokenizer;
use spag_rewards::{Sample, SampleKind};

use crate::error::{Error, Result};

/// A tokenized sample. Made from [`Sample`]s; read by the batcher.
#[derive(Clone, Debug, PartialEq)]
pub struct Encoded {
    /// 0-based row in the training data.
    pub row: usize,
    /// All tokens, at most `max_length`.
    pub ids: Vec<u32>,
    /// Tokens of `ids` before the first label; the labels are the rest, EOS included.
    pub prompt_len: usize,
    /// The sample's weight, w.
    pub weight: f64,
    /// The reward of its target, r.
    pub reward: f64,
    /// Game or SFT.
    pub kind: SampleKind,
    /// ℓ_ref: mean log-probability of the labels under the reference model, if it has been computed.
    pub ref_log_prob: Option<f64>,
}

impl Encoded {
    /// Number of labels: the denominator of the mean log-probability.
    ///
    /// A label at position 0 (a target that alone fills `max_length`) has no token before it and is not predicted; as in
    /// the reference it counts here and adds nothing to the sum.
    pub fn labels(&self) -> usize {
        self.ids.len() - self.prompt_len
    }

    /// Number of labels that are predicted.
    pub fn predicted(&self) -> usize {
        self.ids.len() - self.prompt_len.max(1)
    }

    /// Labels as the reference pads them: -100 for tokens that are not labels.
    pub fn label_ids(&self) -> Vec<i64> {
        let ignored = std::iter::repeat_n(-100, self.prompt_len);
        ignored.chain(self.ids[self.prompt_len..].iter().map(|id| i64::from(*id))).collect()
    }
}

/// Encodes samples in order on all cores. `first_row` is the row of the first one.
///
/// # Errors
/// [`Error::Sample`] of the first row whose text the tokenizer rejects, or whose weight or reward is no finite number.
pub fn encode(samples: &[Sample], first_row: usize, tokenizer: &Tokenizer, max_length: usize) -> Result<Vec<Encoded>> {
    let rows: Vec<Result<Encoded>> = samples
        .par_iter()
        .enumerate()
        .map(|(offset, sample)| {
            let row = first_row + offset;
            let refused = |reason: String| Error::Sample { row, reason };
            sample.check().map_err(|error| refused(error.to_string()))?;
            let encode = |text: &str| {
                let ids = match sample.kind {
                    SampleKind::Game => tokenizer.encode_text(text),
                    SampleKind::Sft => tokenizer.encode(text),
                };
                ids.map_err(|error| refused(error.to_string()))
            };
            let mut ids: Vec<u32> = tokenizer.bos().into_iter().collect();
            // A tokenizer may add a leading piece even to an empty text.
            if !sample.query.is_empty() {
                ids.extend(encode(&sample.query)?);
            }
            let prompt = ids.len();
            ids.extend(encode(&sample.target)?);
            ids.push(tokenizer.eos());
            let cut = ids.len().saturating_sub(max_length);
            Ok(Encoded {
                row,
                prompt_len: prompt.saturating_sub(cut),
                ids: ids.split_off(cut),
                weight: sample.weight,
                reward: sample.reward,
                kind: sample.kind,
                ref_log_prob: None,
            })
        })
        .collect();
    rows.into_iter().collect()
}
