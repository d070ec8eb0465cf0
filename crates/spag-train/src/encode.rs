//! Samples to tokens: `bos + query + target + eos`, query and target encoded apart, the last tokens kept.

use rayon::prelude::*;
use spag_model::Tokenizer;
use spag_rewards::{Sample, SampleKind};

use crate::error::Result;

/// A sample as the losses read it. Made from [`Sample`]s; read by the batcher.
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
    /// Whether it is a game's utterance or SFT data.
    pub kind: SampleKind,
}

impl Encoded {
    /// Number of labels: the denominator of the mean log-probability.
    ///
    /// A label at position 0 (a target that alone fills `max_length`) has nothing before it to be predicted from; as
    /// in the reference it counts here and adds nothing to the sum.
    pub fn labels(&self) -> usize {
        self.ids.len() - self.prompt_len
    }

    /// Number of labels that are predicted.
    pub fn predicted(&self) -> usize {
        self.ids.len() - self.prompt_len.max(1)
    }

    /// Labels as the reference pads them: -100 where nothing is predicted.
    pub fn label_ids(&self) -> Vec<i64> {
        let ignored = std::iter::repeat_n(-100, self.prompt_len);
        ignored.chain(self.ids[self.prompt_len..].iter().map(|id| i64::from(*id))).collect()
    }
}

/// Encodes all samples, in order.
///
/// # Errors
/// Text that the tokenizer refuses.
pub fn encode(samples: &[Sample], tokenizer: &Tokenizer, max_length: usize) -> Result<Vec<Encoded>> {
    let rows: Vec<Result<Encoded>> = samples
        .par_iter()
        .enumerate()
        .map(|(row, sample)| {
            let mut ids = vec![tokenizer.bos()];
            // A tokenizer may give even the empty text a leading piece; nothing to read is no piece at all.
            if !sample.query.is_empty() {
                ids.extend(tokenizer.encode(&sample.query)?);
            }
            let prompt = ids.len();
            ids.extend(tokenizer.encode(&sample.target)?);
            ids.push(tokenizer.eos());
            let cut = ids.len().saturating_sub(max_length);
            let ids = ids.split_off(cut);
            Ok(Encoded {
                row,
                prompt_len: prompt.saturating_sub(cut),
                ids,
                weight: sample.weight,
                reward: sample.reward,
                kind: sample.kind,
            })
        })
        .collect();
    rows.into_iter().collect()
}
