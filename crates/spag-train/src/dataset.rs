//! The samples of a run, tokenized once, with digests that identify them.

use std::path::PathBuf;

use sha2::{Digest, Sha256};
use spag_chat::PromptEncoder;
use spag_io::{RowReader, hex};
use spag_rewards::{Sample, SampleKind};

use crate::batch::Batch;
use crate::encode::encode_with_lengths;
use crate::error::{Error, Result};
use crate::packing::Packing;
use crate::row_origins::RowOrigins;
use crate::trajectory::{Span, Trajectory};

/// Rows that are read before they are tokenized, on all cores.
const CHUNK: usize = 4096;

/// Tokenized samples: trajectories with one span each. Made from [`Sample`]s; read by the training loop and the reference pass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dataset {
    pub(crate) samples: Vec<Trajectory>,
    pub(crate) dropped: Vec<usize>,
    pub(crate) cut: CutSamples,
    /// Where the rows come from, for messages.
    pub(crate) origins: RowOrigins,
}

/// Samples that are longer than the limit, of which the last tokens are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CutSamples {
    /// How many.
    pub count: usize,
    /// Tokens of the longest one.
    pub longest: usize,
}

/// Opened files of samples: a file that is missing is an error before anything else is done.
pub(crate) struct SampleFiles(Vec<RowReader<Sample>>);

impl SampleFiles {
    pub(crate) fn open(paths: &[PathBuf]) -> Result<Self> {
        Ok(Self(paths.iter().map(RowReader::open_with_rows).collect::<spag_io::Result<_>>()?))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Dataset {
    /// Tokenizes `samples`, keeping the last `max_length` tokens of each.
    ///
    /// # Errors
    /// The tokenizer rejects a text, or no sample has a target to predict.
    pub fn new(samples: &[Sample], encoder: &PromptEncoder, max_length: usize) -> Result<Self> {
        let mut dataset = Self::default();
        dataset.push(encode_with_lengths(samples, 0, encoder, max_length)?);
        dataset.checked(samples.len())
    }

    /// As [`Dataset::new`] with the rows of files, of which only a chunk is held as text.
    pub(crate) fn read(files: SampleFiles, encoder: &PromptEncoder, max_length: usize) -> Result<Self> {
        let (mut dataset, mut rows) = (Self::default(), 0);
        for mut file in files.0 {
            let path = file.path().to_owned();
            loop {
                let mut chunk = Vec::new();
                for row in file.by_ref().take(CHUNK) {
                    let (number, sample) = row?;
                    dataset.origins.add(&path, number, rows + chunk.len());
                    chunk.push(sample);
                }
                if chunk.is_empty() {
                    break;
                }
                let encoded = encode_with_lengths(&chunk, rows, encoder, max_length);
                dataset.push(encoded.map_err(|error| dataset.origins.name_in(error))?);
                rows += chunk.len();
            }
        }
        dataset.checked(rows)
    }

    fn push(&mut self, samples: Vec<(Trajectory, usize)>) {
        for (sample, length) in samples {
            if sample.predicted() > 0 {
                if sample.ids.len() < length {
                    self.cut = CutSamples { count: self.cut.count + 1, longest: self.cut.longest.max(length) };
                }
                self.samples.push(sample);
            } else {
                self.dropped.push(sample.row);
            }
        }
    }

    fn checked(self, rows: usize) -> Result<Self> {
        if self.samples.is_empty() {
            return Err(Error::NoSamples(format!("{rows} rows, none with a target to predict")));
        }
        Ok(self)
    }

    /// The same samples with ℓ_ref, one a sample, in order.
    ///
    /// # Errors
    /// [`Error::ReferenceLength`] if there are more or fewer than samples.
    pub fn with_reference(mut self, log_probs: Vec<f64>) -> Result<Self> {
        if log_probs.len() != self.samples.len() {
            return Err(Error::ReferenceLength { samples: self.samples.len(), log_probs: log_probs.len() });
        }
        for (span, log_prob) in self.samples.iter_mut().flat_map(|sample| &mut sample.spans).zip(log_probs) {
            span.ref_log_prob = Some(log_prob);
        }
        Ok(self)
    }

    /// Whether all samples have ℓ_ref.
    pub fn has_reference(&self) -> bool {
        self.spans().all(|span| span.ref_log_prob.is_some())
    }

    /// Samples with something to predict, in the order of the files.
    pub fn samples(&self) -> &[Trajectory] {
        &self.samples
    }

    /// Rows (0-based) left out because no token of their target could be predicted within `max_length`.
    pub fn dropped(&self) -> &[usize] {
        &self.dropped
    }

    /// Samples that lost their beginning to `max_length`.
    pub fn cut(&self) -> CutSamples {
        self.cut
    }

    /// The micro-batch of these samples. Indices out of range are left out.
    pub fn batch(&self, indices: &[usize], packing: Packing) -> Batch {
        Batch::new(indices.iter().filter_map(|index| self.samples.get(*index)), packing)
    }

    /// SHA-256 of ℓ_ref of all samples.
    pub(crate) fn reference_digest(&self) -> String {
        let mut hash = Sha256::new();
        for log_prob in self.spans().filter_map(|span| span.ref_log_prob) {
            hash.update(log_prob.to_le_bytes());
        }
        hex(&hash.finalize())
    }

    /// SHA-256 of the tokens and where each sample's labels begin: what a log-probability depends on. The data, the
    /// tokenizer and `max_length` all enter it.
    pub(crate) fn token_digest(&self) -> String {
        self.digest(|_, _| ())
    }

    /// SHA-256 of everything that training reads: the tokens, rewards, weights and kinds.
    pub(crate) fn content_digest(&self) -> String {
        self.digest(|hash, span| {
            hash.update(span.weight.to_le_bytes());
            hash.update(span.reward.to_le_bytes());
            hash.update([u8::from(span.kind == SampleKind::Sft)]);
        })
    }

    fn spans(&self) -> impl Iterator<Item = &Span> {
        self.samples.iter().flat_map(|sample| &sample.spans)
    }

    fn digest(&self, also: impl Fn(&mut Sha256, &Span)) -> String {
        let mut hash = Sha256::new();
        for sample in &self.samples {
            for number in [sample.ids.len(), sample.prompt_len()] {
                hash.update((number as u64).to_le_bytes());
            }
            for id in &sample.ids {
                hash.update(id.to_le_bytes());
            }
            sample.spans.iter().for_each(|span| also(&mut hash, span));
        }
        hex(&hash.finalize())
    }
}
