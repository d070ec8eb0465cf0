//! `spag generate`: completes the prompts of a file.

mod rows;

use std::{
    collections::{BTreeMap, HashMap},
    io::{self, Write},
    path::PathBuf,
    sync::Arc,
};

use clap::Args;
use serde::Serialize;
use spag_chat::PromptEncoder;
use spag_game::{UtteranceRule, game_seed};
use spag_io::{
    AtomicFile, Classify, CommandFiles, ErrorClass, Progress, PromptEnd, PromptFormat, RowReader, TurnPrompt,
};
use spag_model::generate::{EngineSettings, Event, Prompt, RequestError, RequestId};
use spag_model::{Completion, Engine, Generate, GenerationConfig, Request};
use spag_selfplay::{ReasoningStart, UtteranceSettings};

use rows::{CompletionRow, FailedRow, PromptRow};
use spag_cli::{
    AdapterArgs, Error, LoadArgs, ReasoningSettings, Result, SamplingArgs, TemplateSettings, TerminalProgress, exit,
    threads,
};

/// Complete the prompts of a file, or answer its chats.
///
/// Chats are written with the model's own template, and an answer ends with the model's turn. A prompt that the tokenizer cannot encode, or that has no tokens, fails alone: its line of the output has `error` in place
/// of the completion, and the exit code is 1.
#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(crate) struct GenerateArgs {
    /// The checkpoint: a Hugging Face folder or a GGUF file.
    #[arg(long, value_name = "DIR")]
    model: PathBuf,
    #[command(flatten)]
    adapter: AdapterArgs,
    /// Prompts (JSONL): one {"prompt": …} per line, or one {"messages": [{"role": …, "content": …}, …]}.
    #[arg(long, value_name = "FILE")]
    input: PathBuf,
    /// Output file (JSONL): {"prompt" or "messages", "output_ids", "text", "finish", "cut_tokens"} in the order of the prompts, and
    /// "reasoning" where there is some, which is not in "text".
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    sampling: SamplingArgs,
    #[command(flatten)]
    template: TemplateSettings,
    #[command(flatten)]
    reasoning: ReasoningSettings,
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
    let rows = RowReader::<PromptRow>::open(&args.input)?.map(|row| row.map(|(_, row)| row));
    let prompts: Vec<PromptRow> = rows.collect::<spag_io::Result<_>>()?;
    let format = args.format(&prompts)?;
    let checkpoint = args.loading.load_adapted(&args.model, args.adapter.folder())?;
    let model = checkpoint.model.config();
    let limits = args.sampling.config(model, &args.model).with_reasoning(&args.reasoning, format);
    let setting = args.engine.for_model(&checkpoint.model, limits.max_length(), 1)?;
    let max_length = limits.max_length();
    let config = GenerationConfig { stop_strings: args.stop.clone(), ..limits.generation };
    let encoder = PromptEncoder::new(checkpoint.tokenizer.clone());
    let mut asker = Asker {
        encoder: encoder.with_settings(&args.template, &args.reasoning, format)?,
        settings: UtteranceSettings::new(config, max_length).with_reasoning(&args.reasoning),
    };
    let mut engine = Engine::from_checkpoint(checkpoint, setting)?;
    let mut out = AtomicFile::create(&args.output)?;

    let mut progress = TerminalProgress::default();
    progress.begin("generate", prompts.len() as u64);
    // Keeps the engine full. Completions are written in order.
    let ahead = 2 * setting.max_running;
    let (mut submitted, mut written) = (0, 0);
    let mut open: HashMap<RequestId, (usize, PromptEnd)> = HashMap::new();
    let mut done: BTreeMap<usize, Result<(Completion, PromptEnd), String>> = BTreeMap::new();
    // The number of failed rows, and the first of them, counted from 1, with its reason.
    let (mut failed, mut first) = (0, None);
    while written < prompts.len() {
        while submitted < prompts.len() && open.len() < ahead {
            let seed = game_seed(args.sampling.seed, submitted);
            match asker.submit(&mut engine, &prompts[submitted].prompt(), seed)? {
                Ok((id, end)) => {
                    open.insert(id, (submitted, end));
                }
                Err(reason) => {
                    done.insert(submitted, Err(reason));
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
            done.extend(open.remove(&id).map(|(at, end)| (at, result.map(|completion| (completion, end)))));
        }
        while let Some(completed) = done.remove(&written) {
            let prompt = &prompts[written];
            let row = match &completed {
                Ok((completion, end)) => {
                    let split = (asker.encoder.reasoning(), *end);
                    write_row(&mut out, &CompletionRow::new(prompt, completion, split, args.log_probs))
                }
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

impl GenerateArgs {
    /// Whether the prompts are texts or chats.
    ///
    /// # Errors
    /// There are none, or both; or earlier reasoning is to be kept, which is in the rows or is not.
    fn format(&self, prompts: &[PromptRow]) -> Result<PromptFormat> {
        if self.reasoning.keep_reasoning {
            let problem = "messages have earlier reasoning as `reasoning_content`, or have none".into();
            return Err(Error::BadValue { flag: "--keep_reasoning".into(), problem });
        }
        let refused = |problem: &str| {
            Err(Error::BadValue { flag: format!("--input {}", self.input.display()), problem: problem.to_owned() })
        };
        let chats = prompts.iter().filter(|row| matches!(row, PromptRow::Chat { .. })).count();
        match chats {
            _ if prompts.is_empty() => refused("the file has no prompts, and the output is left as it is"),
            0 => Ok(PromptFormat::Plain),
            all if all == prompts.len() => Ok(PromptFormat::Chat),
            _ => refused("some rows have `prompt` and some have `messages`; write them to two files"),
        }
    }
}

/// Makes requests of prompts.
struct Asker {
    encoder: PromptEncoder,
    settings: UtteranceSettings,
}

impl Asker {
    /// Submits a prompt. Returns the request and how the prompt ends, or why this prompt alone fails.
    fn submit(
        &mut self,
        engine: &mut Engine,
        prompt: &TurnPrompt,
        seed: u64,
    ) -> Result<Result<(RequestId, PromptEnd), String>> {
        let text = match self.encoder.text(prompt) {
            Ok(text) => text,
            Err(error @ spag_chat::Error::Render(_)) => return Ok(Err(error.to_string())),
            Err(error) => return Err(error.into()),
        };
        let start = ReasoningStart::after(&self.encoder, &text);
        let (rule, prompt) = match prompt {
            TurnPrompt::Plain(text) => (UtteranceRule::Trimmed, Prompt::from(text.text())),
            TurnPrompt::Chat(_) => match self.encoder.begin(prompt, &text) {
                Ok(tokens) => (UtteranceRule::Message, Prompt::Tokens(tokens)),
                Err(error) if error.is_of_text() => return Ok(Err(error.to_string())),
                Err(error) => return Err(error.into()),
            },
        };
        let config: Arc<GenerationConfig> = self.settings.of(rule, &self.encoder, start)?;
        Ok(match engine.submit(Request { prompt, seed, config }) {
            Ok(id) => Ok((id, start.prompt_end())),
            Err(error) => Err(failed_row(error)?),
        })
    }
}

/// The reason of a row whose text is at fault, for example because of a token beyond the vocabulary. Anything else would fail
/// every row: a wrong setting, or a model whose logits are not finite.
fn failed_row(error: RequestError) -> Result<String> {
    match error {
        RequestError::Encoding { .. } | RequestError::EmptyPrompt | RequestError::PromptTooLong { .. } => {
            Ok(error.to_string())
        }
        other => Err(spag_model::Error::from(other).into()),
    }
}

fn write_row(out: &mut impl Write, row: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, row)?;
    out.write_all(b"\n")
}
