//! `spag generate`: completes the prompts of a file.

use std::{
    collections::{BTreeMap, HashMap},
    io::{self, Write},
    path::PathBuf,
    sync::Arc,
};

use clap::Args;
use serde::{Deserialize, Serialize};
use spag_game::game_seed;
use spag_io::{AtomicFile, Classify, CommandFiles, ErrorClass, Progress, RowReader};
use spag_model::generate::{EngineSettings, Event, FinishReason, RequestError, RequestId};
use spag_model::{Completion, Engine, Generate, GenerationConfig, Request};

use spag_cli::{AdapterArgs, Error, LoadArgs, Result, SamplingArgs, TerminalProgress, exit, threads};

/// Complete the prompts of a file.
///
/// A prompt that the tokenizer cannot encode, or that has no tokens, fails alone: its line of the output has `error` in place
/// of the completion, and the exit code is 1.
#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(crate) struct GenerateArgs {
    /// The checkpoint: a Hugging Face folder or a GGUF file.
    #[arg(long, value_name = "DIR")]
    model: PathBuf,
    #[command(flatten)]
    adapter: AdapterArgs,
    /// Prompts (JSONL): one {"prompt": …} per line.
    #[arg(long, value_name = "FILE")]
    input: PathBuf,
    /// Output file (JSONL): {"prompt", "output_ids", "text", "finish", "cut_tokens"} in the order of the prompts.
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    sampling: SamplingArgs,
    #[command(flatten)]
    engine: EngineSettings,
    #[command(flatten)]
    loading: LoadArgs,
    /// Stop string: ends a completion. May be given several times.
    #[arg(long, value_name = "TEXT", help_heading = "Tokens")]
    stop: Vec<String>,
    /// Also write the log-probability of each token under the model and under the sampling distribution.
    #[arg(long, help_heading = "Tokens")]
    log_probs: bool,
}

/// A line of the input. Other keys are ignored.
#[derive(Deserialize)]
#[serde(expecting = "an object with `prompt`")]
struct PromptRow {
    prompt: String,
}

/// A line of the output. As in the reference, `output_ids` ends with EOS if the model generated it.
#[derive(Serialize)]
struct CompletionRow<'a> {
    prompt: &'a str,
    output_ids: &'a [u32],
    text: &'a str,
    finish: FinishReason,
    cut_tokens: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    model_log_probs: Option<&'a [f32]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sampling_log_probs: Option<&'a [f32]>,
}

impl<'a> CompletionRow<'a> {
    fn new(prompt: &'a str, completion: &'a Completion, log_probs: bool) -> Self {
        Self {
            prompt,
            output_ids: &completion.token_ids,
            text: &completion.text,
            finish: completion.finish,
            cut_tokens: completion.truncated_tokens,
            model_log_probs: log_probs.then_some(&completion.model_log_probs),
            sampling_log_probs: log_probs.then_some(&completion.sampling_log_probs),
        }
    }
}

/// The line of a prompt without a completion.
#[derive(Serialize)]
struct FailedRow<'a> {
    prompt: &'a str,
    error: &'a str,
}

/// Prompts without a completion.
#[derive(Debug, thiserror::Error)]
enum PromptsFailed {
    #[error("none of {total} prompts can be completed; row {row}: {reason}; the output is left as it is")]
    All { total: usize, row: usize, reason: String },
    #[error(
        "{failed} of {total} prompts failed, the first one: row {row}: {reason}; their lines in {} have `error`",
        output.display()
    )]
    Some { failed: usize, total: usize, row: usize, reason: String, output: PathBuf },
}

impl Classify for PromptsFailed {
    fn class(&self) -> ErrorClass {
        match self {
            Self::All { .. } => ErrorClass::BadInput,
            Self::Some { .. } => ErrorClass::Failure,
        }
    }
}

pub(crate) fn run(args: GenerateArgs) -> Result<()> {
    let files = CommandFiles::default().read("--model", &args.model).read_all("--adapter", args.adapter.folder());
    files.read("--input", &args.input).write_file("--output", &args.output)?;
    args.loading.open()?;
    threads::start()?;
    let rows = RowReader::<PromptRow>::open(&args.input)?.map(|row| row.map(|(_, row)| row.prompt));
    let prompts: Vec<String> = rows.collect::<spag_io::Result<_>>()?;
    if prompts.is_empty() {
        let problem = "the file has no prompts, and the output is left as it is".into();
        return Err(Error::BadValue { flag: format!("--input {}", args.input.display()), problem });
    }
    let checkpoint = args.loading.load_adapted(&args.model, args.adapter.folder())?;
    let model = checkpoint.model.config();
    let limits = args.sampling.config(model, &args.model);
    let setting = args.engine.for_model(&checkpoint.model, limits.max_length(), 1)?;
    let config = Arc::new(GenerationConfig { stop_strings: args.stop.clone(), ..limits.generation });
    let mut engine = Engine::from_checkpoint(checkpoint, setting)?;
    let mut out = AtomicFile::create(&args.output)?;

    let mut progress = TerminalProgress::default();
    progress.begin("generate", prompts.len() as u64);
    // Keeps the engine full. Completions are written in order.
    let ahead = 2 * setting.max_running;
    let (mut submitted, mut written) = (0, 0);
    let mut open: HashMap<RequestId, usize> = HashMap::new();
    let mut done: BTreeMap<usize, Result<Completion, String>> = BTreeMap::new();
    // The number of failed rows, and the first of them, counted from 1, with its reason.
    let (mut failed, mut first) = (0, None);
    while written < prompts.len() {
        while submitted < prompts.len() && open.len() < ahead {
            let seed = game_seed(args.sampling.seed, submitted);
            let request = Request { prompt: prompts[submitted].as_str().into(), seed, config: config.clone() };
            match engine.submit(request) {
                Ok(id) => {
                    open.insert(id, submitted);
                }
                Err(error) => {
                    done.insert(submitted, Err(failed_row(error)?));
                }
            }
            submitted += 1;
        }
        for (id, event) in engine.step()? {
            let result = match event {
                Event::Finished(completion) => Ok(completion),
                Event::Failed(error) => Err(failed_row(error)?),
                Event::Prompt(_) | Event::Token(_) => continue,
            };
            done.extend(open.remove(&id).map(|at| (at, result)));
        }
        while let Some(completed) = done.remove(&written) {
            let prompt = &prompts[written];
            let row = match &completed {
                Ok(completion) => write_row(&mut out, &CompletionRow::new(prompt, completion, args.log_probs)),
                Err(error) => write_row(&mut out, &FailedRow { prompt, error }),
            };
            row.map_err(spag_io::Error::io(&args.output))?;
            written += 1;
            if let Err(reason) = completed {
                failed += 1;
                first.get_or_insert((written, reason));
            }
            progress.advance(written as u64, "");
        }
    }
    let (total, output) = (prompts.len(), args.output.clone());
    let failure = first.map(|(row, reason)| match failed == total {
        true => PromptsFailed::All { total, row, reason },
        false => PromptsFailed::Some { failed, total, row, reason, output },
    });
    if let Some(all @ PromptsFailed::All { .. }) = failure {
        return Err(all.into());
    }
    out.commit()?;
    progress.end();
    let stats = engine.stats();
    if stats.truncated_prompts > 0 {
        let cut = stats.truncated_prompts;
        exit::note(format_args!(
            "note: {cut} prompts were longer than the context of the model and lost their beginning"
        ));
    }
    exit::say(format_args!("{written} prompts, {} new tokens in {}", stats.new_tokens, args.output.display()))?;
    failure.map_or(Ok(()), |failed| Err(failed.into()))
}

/// The reason of a row whose text is at fault, for example because of a token beyond the vocabulary. Anything else would fail
/// every row: a wrong setting, or a model whose logits are not finite.
fn failed_row(error: RequestError) -> Result<String> {
    match error {
        RequestError::Encoding { .. } | RequestError::EmptyPrompt => Ok(error.to_string()),
        other => Err(spag_model::Error::from(other).into()),
    }
}

fn write_row(out: &mut impl Write, row: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, row)?;
    out.write_all(b"\n")
}
