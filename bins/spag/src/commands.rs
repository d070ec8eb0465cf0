//! The subcommands of `spag`.

use std::ffi::OsString;

use clap::{Args, CommandFactory, Parser, Subcommand};

use crate::{
    arena, bench, check, compare, data, env, eval, generate, init_model, launch, make_base, merge, plan, run, serve,
    show, watch,
};
use spag_cli::{Error, Result, flags};
use spag_dist::launch::{LaunchArgs, RankArgs};

const AFTER_HELP: &str = "\
Examples:
  spag run configs/tiny.toml                        the whole loop with a small model, in minutes on a CPU
  spag run configs/llama2-7b.toml --plan            stages, memory, hours and disk of the paper's experiment
  spag serve --model spag=runs/tiny/spag-3/model    a page to play against a model, and OpenAI's protocol
  spag eval --model DIR --tasks tiny                benchmarks

Other programs, each a step of the loop with the reference's flags: spag-play plays games, spag-assign-rewards makes samples of
them, spag-train trains on these.";

/// Self-play of adversarial language games: play, assign rewards, train, repeat.
#[derive(Debug, Parser)]
#[command(name = "spag", version, rename_all = "snake_case", max_term_width = 110, after_help = AFTER_HELP)]
pub(crate) struct SpagArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::RunArgs),
    Watch(watch::WatchArgs),
    Compare(compare::CompareArgs),
    Arena(Box<arena::ArenaArgs>),
    Show(show::ShowArgs),
    Eval(Box<eval::EvalArgs>),
    Check(check::CheckArgs),
    Env(env::EnvArgs),
    Generate(generate::GenerateArgs),
    Serve(Box<serve::ServeArgs>),
    #[command(name = "init-model")]
    InitModel(init_model::InitModelArgs),
    #[command(name = "make-base")]
    MakeBase(make_base::MakeBaseArgs),
    Merge(merge::MergeArgs),
    #[command(subcommand)]
    Data(data::DataCommand),
    #[command(subcommand)]
    Bench(bench::BenchCommand),
    Launch(LaunchArgs),
    Plan(Box<plan::PlanArgs>),
    Completions(CompletionsArgs),
    #[command(name = "launch-rank", hide = true)]
    LaunchRank(RankArgs),
}

/// Print completions of this program for a shell; --completions of the other programs prints theirs.
#[derive(Debug, Args)]
struct CompletionsArgs {
    /// The shell.
    shell: flags::Shell,
}

/// Runs the program on `args`, which start with its name.
pub(crate) fn run(args: impl IntoIterator<Item = OsString>) -> Result<()> {
    let args: SpagArgs = flags::parse(args)?;
    match args.command {
        Command::Run(args) => run::run(args),
        Command::Watch(args) => watch::run(args),
        Command::Compare(args) => compare::run(args),
        Command::Arena(args) => arena::run(*args),
        Command::Show(args) => show::run(args),
        Command::Eval(args) => eval::run(*args),
        Command::Check(args) => check::run(args),
        Command::Env(args) => env::run(args),
        Command::Generate(args) => generate::run(args),
        Command::Serve(args) => serve::run(*args),
        Command::InitModel(args) => init_model::run(args),
        Command::MakeBase(args) => make_base::run(args),
        Command::Merge(args) => merge::run(args),
        Command::Data(command) => data::run(command),
        Command::Bench(command) => bench::run(command),
        Command::Launch(args) => launch::run(args),
        Command::Plan(args) => plan::run(*args),
        Command::Completions(CompletionsArgs { shell }) => {
            Err(Error::Answered(flags::completions(&flags::with_flags(SpagArgs::command()), shell)))
        }
        Command::LaunchRank(args) => launch::run_rank(args),
    }
}
