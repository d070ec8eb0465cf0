//! The base model: a tokenizer and a small LLaMA, trained on texts of the lexicon.

mod atomic_folder;
mod check;
mod probes;
mod tokenizer;

use std::time::Instant;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use spag_game::PromptSet;
use spag_io::{Progress, PromptFormat, write_atomically, write_json_atomically, write_jsonl_atomically};
use spag_model::{Checkpoint, Model, ModelConfig, SpecialIds, Tokenizer};
use spag_rewards::Sample;
use spag_selfplay::Rate;
use spag_train::{Record, TrainConfig, train_samples};
use spag_world::Lexicon;

use crate::config::{BaseConfig, ShapeSettings, load_lexicon, load_prompts};
use crate::error::Result;
use crate::seeds::stage_seed;

use atomic_folder::AtomicFolder;
use tokenizer::single_token_rate;

/// The results of making a base model, written as `base_report.json` beside the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BaseReport {
    /// Vocabulary size.
    pub pieces: usize,
    /// Target words that are one token after a space.
    pub whole_target_words: Rate,
    /// Words of the clues that are one token after a space.
    pub whole_clue_words: Rate,
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
    /// Words named correctly from three clues in the form of a game, with greedy sampling.
    pub named_in_game: Rate,
    /// Words named correctly from three clues in the form of a question, with greedy sampling.
    pub named_in_question: Rate,
    /// True clues among those sampled as attacker.
    pub true_clues: Rate,
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
    let lexicon = load_lexicon(config.lexicon.as_deref())?;
    let prompts = load_prompts(config.prompts.as_deref(), PromptFormat::Plain)?;
    let folder = AtomicFolder::create(&config.output_dir)?;
    let start = Instant::now();
    let documents = documents(config, &lexicon, &prompts, progress);
    make_tokenizer(config, &lexicon, &documents, &folder)?;
    let tokenizer = Tokenizer::from_dir(folder.path(), SpecialIds::default())?;
    let target_words = single_token_rate(&tokenizer, lexicon.words())?;
    let clues = lexicon.words().flat_map(|word| lexicon.clues(word));
    let clue_words = single_token_rate(&tokenizer, clues.flat_map(|clue| clue.split_whitespace()))?;
    let tokenizer_seconds = start.elapsed().as_secs_f64();
    progress.message(&format!(
        "tokenizer: {} tokens; single tokens: {} of {} target words, {} of {} words in clues",
        tokenizer.vocab_size(),
        target_words.count,
        target_words.total,
        clue_words.count,
        clue_words.total
    ));

    let mut keys = llama_keys(&config.model, tokenizer.vocab_size());
    keys.extend(
        [("bos_token_id", tokenizer.bos_token()), ("eos_token_id", Some(tokenizer.eos()))]
            .map(|(key, id)| (key.into(), id.into())),
    );
    let shape = ModelConfig::from_keys(keys)?;
    let model = Model::init(&shape, stage_seed(config.seed, "base/weights"))?.to_dtype(config.train.dtype())?;
    let checkpoint = Checkpoint { model, tokenizer };
    let samples: Vec<Sample> = documents.into_iter().map(|text| Sample::sft("", text)).collect();
    let train = TrainConfig { seed: stage_seed(config.seed, "base/train"), ..config.train.clone() };
    let mut metrics: Vec<Record> = Vec::new();
    let Checkpoint { model, tokenizer } = &checkpoint;
    let summary = train_samples(model, tokenizer, &samples, None, &train, &mut metrics, progress)?;
    checkpoint.save(folder.path(), train.write_options())?;
    write_jsonl_atomically(folder.path().join("base_metrics.jsonl"), &metrics)?;

    let probed = probes::probe(config, &lexicon, &prompts, checkpoint, progress)?;
    let report = BaseReport {
        pieces: shape.architecture.vocab_size,
        whole_target_words: target_words,
        whole_clue_words: clue_words,
        parameters: spag_model::Layout::new(&shape.architecture).len(),
        documents: samples.len(),
        tokens: summary.tokens,
        steps: summary.steps,
        first_loss: summary.first_loss,
        last_loss: metrics.last().map_or(summary.last_loss, |record| record.loss),
        named_in_game: probed.named_in_game,
        named_in_question: probed.named_in_question,
        true_clues: probed.true_clues,
        tokenizer_seconds,
        train_seconds: summary.seconds,
    };
    write_json_atomically(folder.path().join("base_report.json"), &report)?;
    folder.commit()?;
    Ok(report)
}

fn documents(config: &BaseConfig, lexicon: &Lexicon, prompts: &PromptSet, progress: &mut dyn Progress) -> Vec<String> {
    let count = config.documents.count.max(config.tokenizer.documents);
    let mut rng = ChaCha8Rng::seed_from_u64(stage_seed(config.seed, "base/documents"));
    progress.begin("documents", count as u64);
    let documents = (1..=count)
        .map(|done| {
            if done % 1000 == 0 {
                progress.advance(done as u64, "");
            }
            spag_world::base_document(lexicon, prompts, &config.documents.mix, &mut rng)
        })
        .collect();
    progress.advance(count as u64, "");
    progress.end();
    documents
}

/// Trains the tokenizer and writes its files.
fn make_tokenizer(config: &BaseConfig, lexicon: &Lexicon, documents: &[String], folder: &AtomicFolder) -> Result<()> {
    let read = documents.iter().take(config.tokenizer.documents).map(String::as_str);
    // Added to the documents, so that rare target words become one token too.
    let words: Vec<&str> = lexicon.words().collect();
    let weighted: Vec<&str> =
        words.iter().flat_map(|word| std::iter::repeat_n(*word, config.tokenizer.word_weight)).collect();
    let json = tokenizer::train(read.chain(weighted.iter().copied()), config.tokenizer.pieces)?;
    write_atomically(folder.path().join("tokenizer.json"), json)?;
    for (name, contents) in tokenizer::companions(config.model.max_position_embeddings) {
        write_json_atomically(folder.path().join(name), &contents)?;
    }
    Ok(())
}

/// The model's `config.json` without its special tokens.
fn llama_keys(shape: &ShapeSettings, vocab_size: usize) -> Map<String, Value> {
    let keys = [
        ("hidden_size", Value::from(shape.hidden_size)),
        ("intermediate_size", shape.intermediate_size.into()),
        ("vocab_size", vocab_size.into()),
        ("num_hidden_layers", shape.num_hidden_layers.into()),
        ("num_attention_heads", shape.num_attention_heads.into()),
        ("num_key_value_heads", shape.num_attention_heads.into()),
        ("max_position_embeddings", shape.max_position_embeddings.into()),
        ("rms_norm_eps", shape.rms_norm_eps.into()),
        ("rope_theta", shape.rope_theta.into()),
        ("tie_word_embeddings", false.into()),
        ("initializer_range", shape.initializer_range.into()),
    ];
    keys.map(|(key, value)| (key.to_owned(), value)).into_iter().collect()
}
