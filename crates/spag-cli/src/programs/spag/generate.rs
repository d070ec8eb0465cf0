//! `spag generate`: completions for a file of prompts.

use std::{io::Write, path::PathBuf, sync::Arc};

use clap::Args;
use serde::{Deserialize, Serialize};
use spag_game::{AtomicFile, RowReader, game_seed};
use spag_model::{Checkpoint, Generator, Request};
use spag_train::Progress;

use crate::{Error, Result, exit, flags, progress::TerminalProgress, sampling::SamplingArgs};

/// Prompts handed to the generator at a time: enough to keep its slots full, few enough to show progress.
const PROMPTS_AT_A_TIME: usize = 256;

/// Complete the prompts of a file.
#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(crate) struct GenerateArgs {
    /// The checkpoint: a Hugging Face folder.
    #[arg(long, value_name = "DIR")]
    model: PathBuf,
    /// Prompts, one {"prompt": …} a line.
    #[arg(long, value_name = "FILE")]
    input: PathBuf,
    /// Where {"prompt", "output_ids", "text"} go, one a line in the order of the prompts.
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    sampling: SamplingArgs,
    /// Prompts that are completed side by side.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = flags::count)]
    per_device_eval_batch_size: usize,
}

/// A line of the input; other keys do no harm.
#[derive(Deserialize)]
#[serde(expecting = "an object with `prompt`")]
struct PromptRow {
    prompt: String,
}

/// A line of the output. As in the reference, `output_ids` ends with EOS where the model ended its text itself.
#[derive(Serialize)]
struct CompletionRow<'a> {
    prompt: &'a str,
    output_ids: &'a [u32],
    text: &'a str,
}

pub(crate) fn run(args: GenerateArgs) -> Result<()> {
    let rows = RowReader::<PromptRow>::open(&args.input)?.map(|row| row.map(|(_, row)| row.prompt));
    let prompts: Vec<String> = rows.collect::<spag_game::Result<_>>()?;
    let checkpoint = Arc::new(Checkpoint::load(&args.model)?);
    let eos = checkpoint.tokenizer.eos();
    let config = args.sampling.config(&checkpoint.model, &args.model);
    let mut generator = Generator::new(checkpoint, config, args.per_device_eval_batch_size.min(prompts.len().max(1)))?;
    let write_error = |source| Error::Io { path: args.output.clone(), source };
    let mut out = AtomicFile::create(&args.output)?;

    let mut progress = TerminalProgress::new();
    progress.begin("generate", prompts.len() as u64);
    let (mut done, mut cut) = (0, 0);
    for chunk in prompts.chunks(PROMPTS_AT_A_TIME) {
        let requests = chunk
            .iter()
            .enumerate()
            .map(|(at, prompt)| Request { prompt: prompt.clone(), seed: game_seed(args.sampling.seed, done + at) });
        for (prompt, completion) in chunk.iter().zip(generator.generate(&requests.collect::<Vec<_>>())?) {
            let mut output_ids = completion.token_ids;
            if output_ids.len() < config.max_new_tokens {
                output_ids.push(eos);
            }
            let row = CompletionRow { prompt, output_ids: &output_ids, text: &completion.text };
            serde_json::to_writer(&mut out, &row).map_err(|error| write_error(error.into()))?;
            out.write_all(b"\n").map_err(write_error)?;
            cut += usize::from(completion.cut_tokens > 0);
        }
        done += chunk.len();
        progress.advance(done as u64, "");
    }
    out.commit()?;
    progress.end();
    if cut > 0 {
        exit::note(format_args!("note: {cut} prompts were longer than the model can read and lost their beginning"));
    }
    let stats = generator.stats();
    exit::say(format_args!("{done} prompts, {} new tokens in {}", stats.new_tokens, args.output.display()))
}
