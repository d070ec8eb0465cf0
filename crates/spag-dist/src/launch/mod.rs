//! The launcher (`spag launch`): starts the ranks of a run on this machine and stops them together.

mod error;
mod numa;
mod output;
mod port;
mod program;
mod rank;
mod rank_exit;
mod ranks;
mod signals;
mod supervise;

use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::num::NonZero;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use spag_io::parser;

use crate::env::{DEFAULT_PORT, MAX_WORLD_SIZE};
use crate::net::{
    COLLECTIVE_TIMEOUT_VARIABLE, HEARTBEAT_TIMEOUT, HEARTBEAT_TIMEOUT_VARIABLE, JOIN_TIMEOUT_VARIABLE, TIMEOUT,
};
pub use error::LaunchError;
use error::Result;
use numa::Numa;
use port::{MasterPort, ReservedPort};
pub use rank::RankArgs;
pub use rank_exit::RankExit;
use ranks::{LaunchConfig, Ranks};
use signals::Signals;
use supervise::{Action, Outcome, POLL_INTERVAL, Supervisor};

/// Pause before a restart, so that the launchers of other machines notice the failure too.
const RESTART_PAUSE: Duration = Duration::from_secs(1);
const MAX_PROCESSES: usize = 4096;
/// A larger value is treated as a mistake.
const MAX_STARTS: usize = 1_000_000;
/// Maximum grace period in seconds: a day.
const MAX_GRACE: f64 = 86_400.0;
const MAKE_TOKEN: &str = "export SPAG_TOKEN=$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \\n')";

/// Start several ranks of a program, as torchrun does, and stop them together.
///
/// Sets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, GROUP_RANK, MASTER_ADDR, MASTER_PORT, SPAG_TOKEN and
/// SPAG_RESTART_COUNT for each rank, and begins each line of output with its rank. If a rank fails, the launcher stops
/// the others and exits with its exit code.
#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub struct LaunchArgs {
    /// Processes on this machine; usually one per GPU.
    #[arg(long, value_name = "N", value_parser = parser(1..=MAX_PROCESSES))]
    nproc_per_node: usize,
    /// Machines. Run the same command on each, with its own --node_rank.
    #[arg(long, value_name = "M", default_value_t = 1, value_parser = parser(1..=MAX_PROCESSES))]
    nnodes: usize,
    /// This machine's number, from 0.
    #[arg(long, value_name = "R", value_parser = parser(0..=MAX_PROCESSES))]
    node_rank: Option<usize>,
    /// Host name or address of machine 0. Required for several machines.
    #[arg(long, value_name = "HOST")]
    master_addr: Option<String>,
    /// Port of machine 0. Default: any free port on one machine, 29500 on several.
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    master_port: Option<u16>,
    /// After a failure, restart all ranks up to K times; training resumes from its last checkpoint. Bad input (exit code
    /// 2) is not retried.
    #[arg(long, value_name = "K", default_value_t = 0, value_parser = parser(0..=MAX_STARTS))]
    max_restarts: usize,
    /// Seconds between SIGTERM and SIGKILL when ranks are stopped. A second Ctrl-C kills at once.
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = parser(0.0..=MAX_GRACE))]
    grace: f64,
    /// Seconds that ranks wait for each other at the start [default: 60].
    #[arg(long, value_name = "SECONDS", value_parser = parser(TIMEOUT))]
    join_timeout: Option<usize>,
    /// Seconds after which a rank without heartbeats is lost [default: 10].
    #[arg(long, value_name = "SECONDS", value_parser = parser(HEARTBEAT_TIMEOUT))]
    heartbeat_timeout: Option<usize>,
    /// Seconds after which a collective fails although all ranks are alive [default: 600].
    #[arg(long, value_name = "SECONDS", value_parser = parser(TIMEOUT))]
    collective_timeout: Option<usize>,
    /// NUMA nodes that ranks run on: auto (that of the rank's GPU if this machine has an NVIDIA GPU for each rank, else as spread), spread
    /// (the nodes are shared out, if that is even) or none (any). A single rank runs on any.
    #[arg(long, value_name = "NODES", default_value = "auto", hide_possible_values = true)]
    numa: Numa,
    /// The folder in which Linux describes the machine.
    #[arg(long, value_name = "DIR", default_value = "/sys", hide = true)]
    sysfs: PathBuf,
    /// The program and its arguments, after `--`. spag-train and the like are looked up beside this program first.
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// Starts the ranks, waits for them, and stops them together. Progress messages are passed to `note`.
///
/// # Errors
/// Contradictory flags, a rank that failed or hangs, a signal that ended the run, or a system error.
pub fn launch(args: LaunchArgs, note: impl Fn(&str)) -> Result<()> {
    let grace =
        Duration::try_from_secs_f64(args.grace).map_err(|_| bad(format!("--grace {}", args.grace), "too long"))?;
    let max_restarts = args.max_restarts;
    let mut config = resolve(args)?;
    let signals = Signals::listen()?;
    let mut restarts = 0;
    loop {
        let starts = restarts + 1;
        let (failed, may_restart) = match run_once(&config, restarts, grace, &signals, &note)? {
            Outcome::Success => return Ok(()),
            Outcome::Stopped(signal) => return Err(LaunchError::Stopped(signal)),
            Outcome::Failed { rank, exit } => {
                let rank = config.rank(rank);
                (LaunchError::Failed { rank, exit, of: config.ranks_per_node, starts }, !exit.is_bad_input())
            }
            Outcome::Hung { rank } => (LaunchError::Hung { rank: config.rank(rank), starts }, true),
        };
        if restarts >= max_restarts || !may_restart {
            return Err(failed);
        }
        restarts += 1;
        note(&format!("{failed}; restart {restarts} of {max_restarts}"));
        pause(&signals)?;
        if let MasterPort::Reserved(port) = &mut config.master_port {
            *port = ReservedPort::new().map_err(LaunchError::NoPort)?;
        }
    }
}

/// Starts all ranks of this machine and waits until they have ended.
fn run_once(
    config: &LaunchConfig,
    restarts: usize,
    grace: Duration,
    signals: &Signals,
    note: &impl Fn(&str),
) -> Result<Outcome> {
    let mut ranks = Ranks::start(config, restarts)?;
    let mut supervisor = Supervisor::new(config.ranks_per_node, grace);
    let start = Instant::now();
    let mut announced = false;
    loop {
        let now = start.elapsed();
        for (rank, exit) in ranks.poll()? {
            supervisor.rank_ended(rank, exit, now);
        }
        let stopped = ranks.stopped();
        supervisor.ranks_stopped(&stopped, now);
        let mut actions: Vec<Action> = signals.take().filter_map(|signal| supervisor.signalled(signal, now)).collect();
        actions.extend(supervisor.tick(now));
        if let (Some(outcome), false) = (supervisor.outcome(), announced) {
            announced = true;
            announce(config, outcome, &ranks, &stopped, note);
        }
        let mut given_up = false;
        for action in actions {
            match action {
                Action::Send(signal) => ranks.send(signal),
                Action::Kill => ranks.kill(),
                Action::GiveUp => {
                    let left = ranks.running();
                    note(&format!("these processes cannot be killed: {left:?}"));
                    given_up = true;
                }
            }
        }
        if let (Some(outcome), true) = (supervisor.outcome(), ranks.all_ended() || given_up) {
            ranks.finish();
            return Ok(outcome);
        }
        thread::sleep(POLL_INTERVAL);
    }
}

/// Reports why the running ranks are being stopped.
fn announce(config: &LaunchConfig, outcome: Outcome, ranks: &Ranks, stopped: &[usize], note: &impl Fn(&str)) {
    if let Outcome::Failed { rank, exit } = outcome
        && !ranks.running().is_empty()
    {
        let rank = config.rank(rank);
        note(&format!("rank {rank} ended: {exit}; stopping the other ranks"));
    }
    for rank in stopped {
        let rank = config.rank(*rank);
        note(&format!("rank {rank} hangs: its process is stopped (SIGSTOP or SIGTSTP)"));
    }
}

/// Waits before a restart. A signal aborts the run.
fn pause(signals: &Signals) -> Result<()> {
    let until = Instant::now() + RESTART_PAUSE;
    while Instant::now() < until {
        if let Some(signal) = signals.take().find(|signal| signal.ends()) {
            return Err(LaunchError::Stopped(signal));
        }
        thread::sleep(POLL_INTERVAL);
    }
    Ok(())
}

fn bad(flag: impl Into<String>, problem: impl Into<String>) -> LaunchError {
    LaunchError::BadFlag { flag: flag.into(), problem: problem.into() }
}

/// Resolves flags and environment variables.
fn resolve(args: LaunchArgs) -> Result<LaunchConfig> {
    let LaunchArgs { nproc_per_node, nnodes, .. } = args;
    let size = nproc_per_node * nnodes;
    if size > MAX_WORLD_SIZE {
        let problem = format!("{size} ranks with {nnodes} machines; a run has at most {MAX_WORLD_SIZE}");
        return Err(bad(format!("--nproc_per_node {nproc_per_node}"), problem));
    }
    let several = nnodes > 1;
    // Settings required for several machines.
    let required = |problem: &str| bad(format!("--nnodes {nnodes}"), problem);
    let node_rank = match args.node_rank {
        Some(node) if node >= nnodes => {
            return Err(bad(
                format!("--node_rank {node}"),
                format!("{nnodes} machines have the numbers 0 to {}", nnodes - 1),
            ));
        }
        None if several => return Err(required("give each machine its --node_rank too, 0 on the first")),
        node => node.unwrap_or(0),
    };
    let master_addr = match args.master_addr {
        Some(address) if address.trim().is_empty() => {
            return Err(bad("--master_addr", "it is empty; give a host name or an IP address"));
        }
        None if several => return Err(required("give --master_addr too, the host name or IP address of machine 0")),
        address => address.unwrap_or_else(|| Ipv4Addr::LOCALHOST.to_string()),
    };
    let token = match std::env::var("SPAG_TOKEN") {
        Ok(token) if !token.trim().is_empty() => token,
        Err(std::env::VarError::NotUnicode(_)) => return Err(bad("SPAG_TOKEN", "it is not UTF-8 text")),
        _ if several => {
            let problem = "all machines need the same secret, with which their ranks authenticate each other: make one";
            return Err(required(&format!("{problem} with `{MAKE_TOKEN}` and set it on each")));
        }
        _ => format!("{:032x}", rand::random::<u128>()),
    };
    let master_port = match args.master_port {
        Some(port) => MasterPort::Fixed(port),
        None if several => MasterPort::Fixed(DEFAULT_PORT),
        None => MasterPort::Reserved(ReservedPort::new().map_err(LaunchError::NoPort)?),
    };
    let mut words = args.program.into_iter();
    let name = words.next().unwrap_or_default();
    let own = std::env::current_exe().ok();
    let beside = own.as_ref().and_then(|path| path.parent());
    let Some(program) = program::find_program(&name, beside, std::env::var_os("PATH").as_deref()) else {
        let problem = "there is no such program beside this one or in PATH";
        return Err(bad(PathBuf::from(name).display().to_string(), problem));
    };
    let timeouts = [
        (JOIN_TIMEOUT_VARIABLE, args.join_timeout),
        (HEARTBEAT_TIMEOUT_VARIABLE, args.heartbeat_timeout),
        (COLLECTIVE_TIMEOUT_VARIABLE, args.collective_timeout),
    ];
    let timeouts = timeouts.into_iter().filter_map(|(name, seconds)| Some((name, seconds?))).collect();
    let visible = std::env::var("CUDA_VISIBLE_DEVICES").ok();
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let threads_set = std::env::var_os("RAYON_NUM_THREADS").is_some_and(|value| !value.is_empty());
    Ok(LaunchConfig {
        program,
        args: words.collect(),
        ranks_per_node: nproc_per_node,
        nodes: nnodes,
        node_rank,
        master_addr,
        master_port,
        token,
        timeouts,
        cpus: numa::cpus_of_ranks(args.numa, &args.sysfs, nproc_per_node, visible.as_deref()),
        threads: (!threads_set).then_some((cores / nproc_per_node).max(1)),
    })
}
