//! The base model: a tokenizer and a small LLaMA, trained on texts of the lexicon or on random play of games.

mod atomic_folder;
mod check;
mod probes;
mod quality;
mod questions;
mod texts;
mod tokenizer;

use std::time::Instant;

use serde::{Deserialize, Serialize};
use spag_io::{Progress, write_atomically, write_json_atomically, write_jsonl_atomically};
use spag_model::tokenizer::SpecialIds;
use spag_model::{Checkpoint, Model, ModelConfig, Tokenizer};
use spag_rewards::Sample;
use spag_train::{Record, TrainConfig, train_samples};

use crate::config::BaseConfig;
use crate::error::Result;
use crate::seeds::stage_seed;

use atomic_folder::AtomicFolder;
pub use quality::{BaseQuality, WorldQuality};
use texts::{Document, Texts};

/// The results of making a base model, written as `base_report.json` beside the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BaseReport {
    /// Vocabulary size.
    pub pieces: usize,
    /// Parameters of the model.
    pub parameters: usize,
    /// Training documents.
    pub documents: usize,
    /// Training tokens.
    pub tokens: u64,
    /// Optimizer steps.
    pub steps: usize,
    /// Loss of the first step, in nats per token.
    pub first_loss: f64,
    /// Mean loss of the last logged steps.
    pub last_loss: f64,
    /// How well it knows what it was trained on.
    #[serde(flatten)]
    pub quality: BaseQuality,
    /// Seconds for documents and tokenizer.
    pub tokenizer_seconds: f64,
    /// Seconds of training.
    pub train_seconds: f64,
}

/// Makes the base model of `config`: documents, tokenizer, training, probes. The folder appears when it is complete.
///
/// The same configuration makes the same files, except for the times in the report.
///
/// # Errors
/// Inputs that cannot be read, invalid settings, or a folder that cannot be written.
pub fn make_base(config: &BaseConfig, progress: &mut dyn Progress) -> Result<BaseReport> {
    check::output(&config.output_dir)?;
    check::memory(config)?;
    let texts = Texts::open(config)?;
    let folder = AtomicFolder::create(&config.output_dir)?;
    let start = Instant::now();
    let documents = texts.documents(config, progress)?;
    make_tokenizer(config, &texts, &documents, &folder)?;
    let tokenizer = Tokenizer::from_dir(folder.path(), SpecialIds::default())?;
    let words = quality::single_tokens(&texts, &tokenizer)?;
    let tokenizer_seconds = start.elapsed().as_secs_f64();
    let noted = words.map(|[target, clue]| {
        format!(
            "; single tokens: {} of {} target words, {} of {} words in clues",
            target.count, target.total, clue.count, clue.total
        )
    });
    progress.message(&format!("tokenizer: {} tokens{}", tokenizer.vocab_size(), noted.unwrap_or_default()));

    let mut keys = config.model.llama_keys(tokenizer.vocab_size());
    keys.extend(
        [("bos_token_id", tokenizer.bos_token()), ("eos_token_id", Some(tokenizer.eos()))]
            .map(|(key, id)| (key.into(), id.into())),
    );
    let shape = ModelConfig::from_keys(keys)?;
    let model = Model::init(&shape, stage_seed(config.seed, "base/weights"))?.to_dtype(config.train.dtype())?;
    let checkpoint = Checkpoint { model, tokenizer };
    let samples: Vec<Sample> = documents.into_iter().map(Document::into_sample).collect();
    let train = TrainConfig { seed: stage_seed(config.seed, "base/train"), ..config.train.clone() };
    let mut metrics: Vec<Record> = Vec::new();
    let Checkpoint { model, tokenizer } = &checkpoint;
    let summary = train_samples(model, tokenizer, &samples, None, &train, &mut metrics, progress)?;
    checkpoint.save(folder.path(), train.write_options())?;
    write_jsonl_atomically(folder.path().join("base_metrics.jsonl"), &metrics)?;

    let quality = quality::measure(config, &texts, words, checkpoint, progress)?;
    let report = BaseReport {
        pieces: shape.architecture.vocab_size,
        parameters: spag_model::params::Layout::new(&shape.architecture).len(),
        documents: samples.len(),
        tokens: summary.tokens,
        steps: summary.steps,
        first_loss: summary.first_loss,
        last_loss: metrics.last().map_or(summary.last_loss, |record| record.loss),
        quality,
        tokenizer_seconds,
        train_seconds: summary.seconds,
    };
    write_json_atomically(folder.path().join("base_report.json"), &report)?;
    folder.commit()?;
    Ok(report)
}

/// Trains the tokenizer and writes its files.
fn make_tokenizer(config: &BaseConfig, texts: &Texts, documents: &[Document], folder: &AtomicFolder) -> Result<()> {
    let read = documents.iter().take(config.tokenizer.documents).map(Document::text);
    // Added to the documents, so that rare target words become one token too.
    let words: Vec<String> = match texts {
        Texts::World { lexicon, .. } => lexicon.words().map(str::to_owned).collect(),
        Texts::Games(_) => Vec::new(),
    };
    let weighted: Vec<String> =
        words.iter().flat_map(|word| std::iter::repeat_n(word.clone(), config.tokenizer.word_weight)).collect();
    let json = tokenizer::train(read.chain(weighted), config.tokenizer.pieces, config.tokenizer.split)?;
    write_atomically(folder.path().join("tokenizer.json"), json)?;
    for (name, contents) in tokenizer::companions(config.model.max_position_embeddings) {
        write_json_atomically(folder.path().join(name), &contents)?;
    }
    Ok(())
}
