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
use spag_io::{AtomicFile, Progress, RowReader};
use spag_model::{Completion, Engine, FinishReason, Generate, GenerationConfig, Request, RequestId};

use spag_cli::{EngineArgs, Error, LoadArgs, Result, SamplingArgs, TerminalProgress, exit, threads};

/// Complete the prompts of a file.
#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(crate) struct GenerateArgs {
    /// The checkpoint: a Hugging Face folder.
    #[arg(long, value_name = "DIR")]
    model: PathBuf,
    /// Prompts (JSONL): one {"prompt": …} per line.
    #[arg(long, value_name = "FILE")]
    input: PathBuf,
    /// Output file (JSONL): {"prompt", "output_ids", "text", "finish", "cut_tokens"} in the order of the prompts.
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    sampling: SamplingArgs,
    #[command(flatten)]
    engine: EngineArgs,
    #[command(flatten)]
    loading: LoadArgs,
    /// Stop string: ends a completion. May be given several times.
    #[arg(long, value_name = "TEXT", help_heading = "Tokens")]
    stop: Vec<String>,
    /// Also write the log-probability of each token under the model and under the sampling distribution.
    #[arg(long)]
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

pub(crate) fn run(args: GenerateArgs) -> Result<()> {
    args.loading.open()?;
    threads::start()?;
    let rows = RowReader::<PromptRow>::open(&args.input)?.map(|row| row.map(|(_, row)| row.prompt));
    let prompts: Vec<String> = rows.collect::<spag_io::Result<_>>()?;
    if prompts.is_empty() {
        let problem = "the file has no prompts, and the output is left as it is".into();
        return Err(Error::BadValue { flag: format!("--input {}", args.input.display()), problem });
    }
    let checkpoint = args.loading.load(&args.model)?;
    let model = checkpoint.model.config();
    let limits = args.sampling.config(model, &args.model);
    let setting = args.engine.config(&checkpoint.model, limits.max_length())?;
    let config = Arc::new(GenerationConfig { stop_strings: args.stop.clone(), ..limits.generation });
    let mut engine = Engine::new(&checkpoint, setting)?;
    drop(checkpoint);
    let mut out = AtomicFile::create(&args.output)?;

    let mut progress = TerminalProgress::default();
    progress.begin("generate", prompts.len() as u64);
    // Keeps the engine full. Completions are written in order.
    let ahead = 2 * setting.max_running;
    let (mut submitted, mut written) = (0, 0);
    let mut open: HashMap<RequestId, usize> = HashMap::new();
    let mut done: BTreeMap<usize, Completion> = BTreeMap::new();
    while written < prompts.len() {
        while submitted < prompts.len() && open.len() < ahead {
            let seed = game_seed(args.sampling.seed, submitted);
            let request = Request { prompt: prompts[submitted].clone(), seed, config: config.clone() };
            open.insert(engine.submit(request)?, submitted);
            submitted += 1;
        }
        for (id, completion) in engine.step()? {
            done.extend(open.remove(&id).map(|at| (at, completion)));
        }
        while let Some(completion) = done.remove(&written) {
            write_row(&mut out, &prompts[written], &completion, args.log_probs)
                .map_err(spag_io::Error::io(&args.output))?;
            written += 1;
            progress.advance(written as u64, "");
        }
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
    exit::say(format_args!("{written} prompts, {} new tokens in {}", stats.new_tokens, args.output.display()))
}

fn write_row(out: &mut impl Write, prompt: &str, completion: &Completion, log_probs: bool) -> io::Result<()> {
    let row = CompletionRow {
        prompt,
        output_ids: &completion.token_ids,
        text: &completion.text,
        finish: completion.finish,
        cut_tokens: completion.truncated_tokens,
        model_log_probs: log_probs.then_some(&completion.model_log_probs),
        sampling_log_probs: log_probs.then_some(&completion.sampling_log_probs),
    };
    serde_json::to_writer(&mut *out, &row)?;
    out.write_all(b"\n")
}
