//! `spag run`: runs the whole loop.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use spag_dist::{JoinOptions, LaunchEnv};
use spag_io::{Progress, Silent};
use spag_pipeline::{Ended, RunConfig, plan_of_run, render_summary, run_on, run_with_controls};

use crate::watch::{self, OwnPage};
use spag_cli::{Error, Result, Signal, TerminalProgress, exit, prompts, threads};

/// Run the whole loop: imitation, rounds of self-play and training, evaluation, report.
///
/// The same command resumes an interrupted run and skips finished stages. With several ranks (spag launch, torchrun, srun,
/// mpirun) all ranks play and train. The prompts are those of the configuration; if it names none, those of the environment
/// variable SPAG_PROMPTS.
#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(crate) struct RunArgs {
    /// The configuration, e.g. configs/tiny.toml.
    #[arg(value_name = "CONFIG")]
    config: PathBuf,
    /// Override a setting, e.g. --set train.learning_rate=1e-3; --set benchmarks=unset removes one. May be given several times.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Print stages, memory, tokens, hours and disk, and start nothing.
    #[arg(long)]
    plan: bool,
    /// After the run, train its controls from its imitation model: with drawn winners, and on general text alone. The report then
    /// says in each benchmark whether the last model is above them. A finished run gets them later by the same command.
    #[arg(long, conflicts_with = "plan")]
    controls: bool,
    /// Serve the page of `spag watch` on 127.0.0.1 while the run works, on PORT [default port: 8010]. 0 is any free one.
    #[arg(long, value_name = "PORT", num_args = 0..=1, require_equals = true, default_missing_value = watch::PORT)]
    watch: Option<u16>,
    /// Flags of other programs, and what follows the configuration: [`RunArgs::check`] says what to write.
    #[arg(long, hide = true)]
    resume: bool,
    #[arg(long, hide = true)]
    seed: Option<String>,
    #[arg(hide = true)]
    rest: Vec<String>,
}

impl RunArgs {
    /// Refuses what another program would take, with what to write here.
    fn check(&self) -> Result<()> {
        let refused = |flag: String, problem: &str| Err(Error::BadValue { flag, problem: problem.to_owned() });
        if self.resume {
            return refused("--resume".into(), "leave it out: the same command goes on with a run that was stopped");
        }
        if let Some(seed) = &self.seed {
            return refused(format!("--seed {seed}"), &format!("it is a setting; write --set seed={seed}"));
        }
        match self.rest.first() {
            None => Ok(()),
            Some(port) if self.watch.is_some() && port.parse::<u16>().is_ok() => {
                refused(format!("--watch {port}"), &format!("write --watch={port}"))
            }
            Some(other) => refused(other.clone(), "a run has one configuration; --set KEY=VALUE changes a setting"),
        }
    }
}

pub(crate) fn run(args: RunArgs) -> Result<()> {
    args.check()?;
    let env = LaunchEnv::detect()?;
    let with_prompts = |config: RunConfig| {
        let prompts = config.prompts.clone().or_else(prompts::from_environment);
        RunConfig { prompts, ..config }
    };
    if args.plan {
        // The plan measures this machine.
        threads::start()?;
        let (config, missing) = RunConfig::load_to_plan(&args.config, &args.set)?;
        let plan = || plan_of_run(&with_prompts(config), &missing);
        return if env.rank == 0 { exit::say(plan()?.trim_end()) } else { Ok(()) };
    }
    let config = with_prompts(RunConfig::load(&args.config, &args.set)?);
    threads::start()?;
    if env.rank == 0 {
        tell_how_to_go_on()?;
    }
    let port = args.watch.filter(|_| env.rank == 0);
    let _page = port.map(|port| OwnPage::start(&config.run_dir, port)).transpose()?;
    // A stage that runs on one rank may take long: the others wait for it on the host. Heartbeats detect lost ranks.
    let options = JoinOptions { collective_timeout: Duration::from_secs(24 * 3600), ..JoinOptions::detect()? };
    let group = spag_dist::join_on(&env, &options, config.device.open(env.local_rank)?.device())?;
    let progress: &mut dyn Progress = if env.rank == 0 { &mut TerminalProgress::default() } else { &mut Silent };
    let run_it = if args.controls { run_with_controls } else { run_on };
    let Ended { report, stopped } = run_it(&config, &env, group, progress)?;
    if let Some(report) = report {
        exit::say(render_summary(&report))?;
    }
    stopped.map_or(Ok(()), |stopped| Err(stopped.into()))
}

/// Says at Ctrl-C what becomes of the run, which then ends as by the signal itself: all that it keeps is in its files.
///
/// # Errors
/// The handler or its thread cannot be made.
fn tell_how_to_go_on() -> Result<()> {
    let interrupts = [Signal::Interrupt.number()];
    let mut signals = Signals::new(interrupts).map_err(Error::Signals)?;
    let wait = move || {
        if let Some(signal) = signals.forever().next() {
            exit::note(
                "interrupted; the same command goes on from here: finished stages, games and checkpoints are kept",
            );
            // Only fails for a signal that cannot be sent.
            let _ = emulate_default_handler(signal);
        }
    };
    std::thread::Builder::new().name("interrupt".into()).spawn(wait).map(drop).map_err(Error::Signals)
}
