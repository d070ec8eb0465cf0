//! The samples of a run, encoded once, with digests that tell one data set from another.

use sha2::{Digest, Sha256};
use spag_model::Tokenizer;
use spag_rewards::{Sample, SampleKind};

use crate::encode::{Encoded, encode};
use crate::error::{Error, Result};

/// Encoded samples. Made from [`Sample`]s; read by the trainer and the reference pass.
#[derive(Clone, Debug, PartialEq)]
pub struct Dataset {
    /// Samples with something to predict, in the order of the files.
    pub samples: Vec<Encoded>,
    /// Rows (0-based) left out because nothing of their target could be predicted within `max_length`.
    pub dropped: Vec<usize>,
}

impl Dataset {
    /// Encodes `samples`, keeping the last `max_length` tokens of each.
    ///
    /// # Errors
    /// Text that the tokenizer refuses, or no sample with a target to predict.
    pub fn new(samples: &[Sample], tokenizer: &Tokenizer, max_length: usize) -> Result<Self> {
        let (usable, dropped): (Vec<Encoded>, Vec<Encoded>) =
            encode(samples, tokenizer, max_length)?.into_iter().partition(|s| s.predicted() > 0);
        match usable.is_empty() {
            true => Err(Error::NoSamples(format!("{} rows, none with a target to predict", samples.len()))),
            false => Ok(Self { samples: usable, dropped: dropped.iter().map(|s| s.row).collect() }),
        }
    }

    /// SHA-256 of the tokens and where each sample's labels begin: what a log-probability depends on. The data, the
    /// tokenizer and `max_length` are all in it.
    pub fn token_digest(&self) -> String {
        self.digest(|_, _| ())
    }

    /// SHA-256 of everything that training reads: the tokens, rewards, weights and kinds.
    pub fn content_digest(&self) -> String {
        self.digest(|hash, sample| {
            hash.update(sample.weight.to_le_bytes());
            hash.update(sample.reward.to_le_bytes());
            hash.update([u8::from(sample.kind == SampleKind::Sft)]);
        })
    }

    fn digest(&self, also: impl Fn(&mut Sha256, &Encoded)) -> String {
        let mut hash = Sha256::new();
        for sample in &self.samples {
            for number in [sample.ids.len(), sample.prompt_len] {
                hash.update((number as u64).to_le_bytes());
            }
            for id in &sample.ids {
                hash.update(id.to_le_bytes());
            }
            also(&mut hash, sample);
        }
        hex(&hash.finalize())
    }
}

/// Bytes as lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
