//! `spag eval`: scores checkpoints on benchmarks.

mod games;
mod names;

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Map, Value, json};
use spag_cli::{
    Error, LoadArgs, ReasoningSettings, Result, TemplateSettings, TerminalProgress, adapter_args, exit, flags, threads,
};
use spag_eval::{
    AskReasoning, AskSettings, ChatShots, Evaluation, MissingData, MissingTask, ModelResults, ModelScores, OpenModel,
    TaskSource, render_table, scores_document,
};
use spag_io::{CommandFiles, Contents, Progress, PromptFormat, write_atomically, write_json_atomically};
use spag_model::Engine;
use spag_model::generate::EngineSettings;
use spag_selfplay::limits;

/// Rows of a task that can be asked for.
const ROWS: std::ops::RangeInclusive<usize> = 1..=1 << 40;

/// Score checkpoints on benchmarks, as lm-evaluation-harness does, without Python.
///
/// Tasks are multiple choices, likelihoods and generated answers over local JSONL and CSV files (docs/EVALUATION.md). Models are
/// evaluated one after another. The same command resumes an interrupted evaluation. The output folder has results.json and
/// report.html of all models, and for each model its results.json in the shape of lm-evaluation-harness, and each row with its
/// answer.
#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(crate) struct EvalArgs {
    /// The checkpoints: Hugging Face folders or GGUF files.
    #[arg(long, value_name = "DIR", num_args = 1.., required = true)]
    model: Vec<PathBuf>,
    /// LoRA adapters of the checkpoints, folders in PEFT's format: one for each in their order, or `none`. Their products are added
    /// to the weights. Models with the same checkpoint need --names.
    #[arg(long, value_name = "DIR", num_args = 1..)]
    adapter: Vec<PathBuf>,
    /// The tasks: a TOML file such as configs/tasks/paper.toml; `tiny` or `tiny-think` for built-in tasks of the small world; or
    /// `games` for measures against perfect play (docs/GAMES.md), which are written to games.json.
    #[arg(long, value_name = "FILE")]
    tasks: PathBuf,
    /// Output folder.
    #[arg(long, value_name = "DIR")]
    output_dir: PathBuf,
    /// Folder of the tasks' data [default: the folder of the tasks' file].
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// The tasks to evaluate, by their names or those of their groups, separated by commas; * stands for any characters
    /// [default: all].
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    only: Vec<String>,
    /// Leave out tasks whose files are missing, and name them.
    #[arg(long)]
    skip_missing: bool,
    /// The first N rows of each task only; with `--tasks games`, N positions and games at most.
    #[arg(long, value_name = "N", value_parser = flags::within(ROWS))]
    limit: Option<usize>,
    /// With `--tasks games`: games, each with its options, e.g. tic-tac-toe "kuhn-poker rounds=1" [default: kuhn-poker for both
    /// stakes, tic-tac-toe, connect-four on 4 by 4 cells, nim].
    #[arg(long, value_name = "GAME", num_args = 1..)]
    game: Vec<String>,
    /// Ask in chats, with each model's own template: descriptions are system messages. True or False.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_value = "False", default_missing_value = "True",
        value_parser = flags::truth, action = clap::ArgAction::Set)]
    apply_chat_template: bool,
    /// With --apply_chat_template: whether few-shot examples are turns of user and assistant, or in one message with the question.
    /// True or False [default: True].
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "True", value_parser = flags::truth)]
    fewshot_as_multiturn: Option<bool>,
    #[command(flatten)]
    template: TemplateSettings,
    #[command(flatten)]
    reasoning: ReasoningSettings,
    /// Names of the checkpoints in the results, in their order [default: the names of the folders or files; of a folder
    /// `model`, that of the folder above].
    #[arg(long, value_name = "NAME", num_args = 1..)]
    names: Vec<String>,
    /// Maximum number of tokens in a text. A longer one loses its beginning [default: the positions of the model].
    #[arg(long, value_name = "N", value_parser = flags::within(limits::LENGTH))]
    max_length: Option<usize>,
    #[command(flatten)]
    engine: EngineSettings,
    #[command(flatten)]
    loading: LoadArgs,
}

impl EvalArgs {
    /// What contexts are.
    fn contexts(&self) -> PromptFormat {
        if self.apply_chat_template { PromptFormat::Chat } else { PromptFormat::Plain }
    }

    /// Checks the settings of reasoning.
    ///
    /// # Errors
    /// Some for games, whose measures are probabilities of actions; or earlier reasoning is kept, which questions do not have.
    fn check_reasoning(&self) -> Result<()> {
        let refused =
            |flag: &str, problem: &str| Err(Error::BadValue { flag: flag.to_owned(), problem: problem.to_owned() });
        if self.reasoning.keep_reasoning {
            return refused("--keep_reasoning", "a question has no earlier turns");
        }
        if self.tasks == Path::new(games::NAME) && self.reasoning != ReasoningSettings::default() {
            return refused("--reasoning", "games are measured by the probabilities of actions after the prompt");
        }
        Ok(())
    }

    /// Where few-shot examples of chats are.
    ///
    /// # Errors
    /// The flag says so although there are no chats or no examples.
    fn chat_shots(&self) -> Result<ChatShots> {
        let refused = |problem: &str| {
            Err(Error::BadValue { flag: "--fewshot_as_multiturn".to_owned(), problem: problem.to_owned() })
        };
        match self.fewshot_as_multiturn {
            Some(_) if self.tasks == Path::new(games::NAME) => refused("games have no few-shot examples"),
            Some(true) if !self.apply_chat_template => refused("it needs --apply_chat_template"),
            Some(false) => Ok(ChatShots::OneMessage),
            Some(true) | None => Ok(ChatShots::Turns),
        }
    }
}

pub(crate) fn run(args: EvalArgs) -> Result<()> {
    let device = args.loading.open()?;
    threads::start()?;
    let names = names::of(&args.model, &args.names)?;
    let adapters = adapter_args::of_models(&args.adapter, args.model.len())?;
    let kind = if device.device().is_cpu() { "cpu" } else { "gpu" };
    let chat_shots = args.chat_shots()?;
    args.check_reasoning()?;
    check_folders(&args, &names, &adapters)?;
    if args.tasks == Path::new(games::NAME) {
        return games::run(&args, &names, &adapters, kind);
    }
    if !args.game.is_empty() {
        let problem = "it is a flag of --tasks games".to_owned();
        return Err(Error::BadValue { flag: "--game".into(), problem });
    }
    let name = args.tasks.to_string_lossy();
    if !args.tasks.exists() && !name.ends_with(".toml") && !spag_eval::is_built_in(&args.tasks) {
        let problem = format!(
            "there is no such file; tasks are in a TOML file, of which --only chooses some, as in --tasks \
             configs/tasks/paper.toml --only {name}, or are `tiny`, `tiny-think` or `{}`",
            games::NAME
        );
        return Err(Error::BadValue { flag: format!("--tasks {name}"), problem });
    }
    let source = TaskSource {
        tasks: &args.tasks,
        data_dir: args.data_dir.as_deref(),
        limit: args.limit,
        only: &args.only,
        missing: if args.skip_missing { MissingData::LeftOut } else { MissingData::Refused },
    };
    if source.missing == MissingData::LeftOut {
        for MissingTask { name, files } in source.missing()? {
            let files = files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(", ");
            exit::note(format_args!("note: {name} is left out: {files} is missing"));
        }
    }
    let plain = if args.apply_chat_template { None } else { Some(source.load()?) };
    let evaluation = Evaluation::open(&args.output_dir)?;
    evaluation.check_models(names.iter().map(String::as_str))?;
    let open = |((name, folder), adapter): ((&String, &PathBuf), &Option<&Path>)| {
        let recorded = adapter_args::recorded(*adapter, folder)?;
        let arithmetic = format!("{} on {kind}{recorded}", args.loading.number_format(folder, *adapter)?);
        let (tasks, chat_template) = match &plain {
            Some(tasks) => (tasks.clone(), None),
            None => {
                let (tasks, template) =
                    source.load_as_chats(folder, &args.template.chat_template_kwargs, chat_shots)?;
                (tasks, Some(template))
            }
        };
        let bos = args.loading.bos_rule();
        let reasoning = AskReasoning::of(folder, &args.template, &args.reasoning, args.contexts())?;
        let settings =
            AskSettings { bos, max_length: args.max_length, arithmetic, chat_template, chat_shots, reasoning };
        Ok(evaluation.model(name, folder, tasks, &settings)?)
    };
    // All records are opened first, so that a wrong one is found before hours of work.
    let models: Vec<OpenModel> = names.iter().zip(&args.model).zip(&adapters).map(open).collect::<Result<_>>()?;
    let mut progress = TerminalProgress::default();
    let mut results = Vec::with_capacity(models.len());
    let inputs = names.iter().zip(args.model.iter().zip(adapters));
    for (mut model, (name, (folder, adapter))) in models.into_iter().zip(inputs) {
        if model.missing() == 0 {
            progress.message(&format!("{}: done before", spag_io::quote(name)));
        } else {
            let checkpoint = args.loading.load_adapted(folder, adapter)?;
            let config = args.engine.for_model(&checkpoint.model, model.max_length(), 1)?;
            model.ask(&mut Engine::from_checkpoint(checkpoint, config)?, &mut progress)?;
        }
        let mut result = model.finish()?;
        if let Some(first) = results.first() {
            result.compare_with(first);
        }
        results.push(result);
    }
    write(&args.output_dir, &results)?;
    let scores: Vec<ModelScores> = results.into_iter().map(|model| model.scores).collect();
    exit::say(render_table(&scores).trim_end())
}

/// Checks that the output folder and those of the models in it hold nothing but results, and no model.
fn check_folders(args: &EvalArgs, names: &[String], adapters: &[Option<&Path>]) -> Result<()> {
    let files = CommandFiles::default().read_all("--model", &args.model);
    let files = files.read_all("--adapter", adapters.iter().flatten());
    let mut files = files.read_all("--tasks", Some(&args.tasks).filter(|tasks| tasks.is_file()));
    let folders = names.iter().map(|name| args.output_dir.join(name)).chain([args.output_dir.clone()]);
    let kept = [Contents::Benchmarks, Contents::Games];
    { folders }.try_for_each(|folder| Ok(files.write_folder("--output_dir", folder, &[Contents::Benchmarks], &kept)?))
}

/// Writes what compares the models.
fn write(folder: &Path, results: &[ModelResults]) -> Result<()> {
    let named = |of: &dyn Fn(&ModelResults) -> Value| {
        results.iter().map(|model| (model.scores.name.clone(), of(model))).collect::<Map<_, _>>()
    };
    let (models, paired) = (named(&|model| model.json.clone()), named(&|model| json!(model.scores.paired)));
    write_json_atomically(folder.join("results.json"), &json!({ "models": models, "paired": paired }))?;
    let scores: Vec<ModelScores> = results.iter().map(|model| model.scores.clone()).collect();
    Ok(write_atomically(folder.join("report.html"), scores_document(&scores).html())?)
}
