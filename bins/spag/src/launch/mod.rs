//! `spag launch`: several processes of one program, started together and ended together.
//!
//! [`World`] is what every rank is told; [`Ranks`] are the processes; [`Supervisor`] decides what happens when, and
//! [`run`] carries it out.

mod ended;
mod error;
mod find;
mod guard;
mod output;
mod ranks;
mod signals;
mod supervise;

use std::{
    ffi::OsString,
    net::{Ipv4Addr, TcpListener},
    num::NonZero,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use clap::Args;
use spag_dist::DEFAULT_PORT;

use spag_cli::{Error, Result, exit, flags};

use ended::Ended;
use error::LaunchError;
pub(crate) use guard::{RankArgs, run as run_rank};
use ranks::{Ranks, World};
use signals::Signals;
use supervise::{Action, Outcome, Supervisor};

/// How often ranks and signals are looked at.
const POLL: Duration = Duration::from_millis(10);
/// Before ranks are started again: other machines have to notice as well.
const PAUSE: Duration = Duration::from_secs(1);
/// More processes or machines than anybody means.
const MOST: usize = 4096;
/// A token for several machines.
const MAKE_TOKEN: &str = "export SPAG_TOKEN=$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \\n')";

/// Start several processes of a program, as torchrun does, and end them together.
///
/// Each is told its place in RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, GROUP_RANK, MASTER_ADDR, MASTER_PORT,
/// SPAG_TOKEN and SPAG_RESTART_COUNT, and each line that it says begins with its rank. When one fails, the others are
/// stopped, and the launcher ends with its exit code.
#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(crate) struct LaunchArgs {
    /// Processes on this machine: one a GPU, usually.
    #[arg(long, value_name = "N", value_parser = flags::count)]
    nproc_per_node: usize,
    /// Machines; the same command runs on each, with its own --node_rank.
    #[arg(long, value_name = "M", default_value_t = 1, value_parser = flags::count)]
    nnodes: usize,
    /// This machine's number, from 0.
    #[arg(long, value_name = "R")]
    node_rank: Option<usize>,
    /// Machine 0, where all processes meet; this one if there is only one.
    #[arg(long, value_name = "HOST")]
    master_addr: Option<String>,
    /// Port of machine 0; on one machine by default any that is free, on several 29500.
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    master_port: Option<u16>,
    /// After a failure, start all processes again up to so many times; training goes on from its last checkpoint. Bad
    /// input (exit code 2) is not tried again.
    #[arg(long, value_name = "K", default_value_t = 0)]
    max_restarts: usize,
    /// How long processes that are asked to end may take before they are killed. A second Ctrl-C kills at once.
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = flags::not_negative)]
    grace: f64,
    /// The program and its arguments, after `--`. spag-train and the like are taken from this program's folder.
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

pub(crate) fn run(args: LaunchArgs) -> Result<()> {
    let bad = |flag: String, problem: &str| Error::BadValue { flag, problem: problem.into() };
    let grace = Duration::try_from_secs_f64(args.grace)
        .map_err(|_| bad(format!("--grace {}", args.grace), "no process takes that long to end"))?;
    let (max_restarts, keep_port) = (args.max_restarts, args.nnodes > 1 || args.master_port.is_some());
    let mut world = world(args)?;
    let signals = Signals::listen()?;
    let mut restarts = 0;
    loop {
        let (rank, how) = match once(&world, restarts, grace, &signals)? {
            Outcome::Success => return Ok(()),
            Outcome::Stopped(signal) => return Err(Error::from(LaunchError::Stopped(signal))),
            Outcome::Failed { rank, how } => (world.rank(rank), how),
        };
        let failed = LaunchError::Failed { rank, how, of: world.processes, starts: restarts + 1 };
        if restarts >= max_restarts || how.would_fail_again() {
            return Err(failed.into());
        }
        restarts += 1;
        exit::note(format_args!("spag launch: {failed}; restart {restarts} of {max_restarts}"));
        pause(&signals)?;
        if !keep_port {
            world.port = free_port()?;
        }
    }
}

/// One start of all ranks of this machine, to its end.
fn once(world: &World, restarts: usize, grace: Duration, signals: &Signals) -> Result<Outcome> {
    let mut ranks = Ranks::start(world, restarts)?;
    let mut supervisor = Supervisor::new(world.processes, grace);
    let start = Instant::now();
    let mut announced = false;
    loop {
        let now = start.elapsed();
        for (rank, how) in ranks.poll()? {
            supervisor.ended(rank, how, now);
        }
        let mut actions: Vec<Action> = signals.take().filter_map(|signal| supervisor.signalled(signal, now)).collect();
        actions.extend(supervisor.tick(now));
        if let (Some(Outcome::Failed { rank, how }), false) = (supervisor.outcome(), announced) {
            announced = true;
            if !ranks.running().is_empty() {
                let rank = world.rank(rank);
                exit::note(format_args!("spag launch: rank {rank} ended: {how}; stopping the other ranks"));
            }
        }
        let mut given_up = false;
        for action in actions {
            match action {
                Action::Send(signal) => ranks.send(signal),
                Action::Kill => ranks.kill(),
                Action::GiveUp => {
                    let left = ranks.running();
                    exit::note(format_args!("spag launch: these processes cannot be killed: {left:?}"));
                    given_up = true;
                }
            }
        }
        if let (Some(outcome), true) = (supervisor.outcome(), ranks.all_gone() || given_up) {
            ranks.finish();
            return Ok(outcome);
        }
        thread::sleep(POLL);
    }
}

/// Waits before a restart; a signal that comes meanwhile ends the run.
fn pause(signals: &Signals) -> Result<()> {
    let until = Instant::now() + PAUSE;
    while Instant::now() < until {
        if let Some(signal) = signals.take().find(|signal| signal.ends()) {
            return Err(Error::from(LaunchError::Stopped(signal)));
        }
        thread::sleep(POLL);
    }
    Ok(())
}

/// What the flags and the environment come to.
fn world(args: LaunchArgs) -> Result<World> {
    let bad = |flag: String, problem: String| Err(Error::BadValue { flag, problem });
    for (flag, value) in [("--nproc_per_node", args.nproc_per_node), ("--nnodes", args.nnodes)] {
        if value > MOST {
            return bad(format!("{flag} {value}"), format!("at most {MOST}"));
        }
    }
    let several = args.nnodes > 1;
    let node = match args.node_rank {
        Some(node) if node >= args.nnodes => {
            let last = args.nnodes - 1;
            return bad(
                format!("--node_rank {node}"),
                format!("{} machines have the numbers 0 to {last}", args.nnodes),
            );
        }
        None if several => {
            let problem = "each machine needs a number of its own: give --node_rank too, 0 on the first";
            return bad(format!("--nnodes {}", args.nnodes), problem.into());
        }
        node => node.unwrap_or(0),
    };
    let address = match args.master_addr {
        Some(address) if address.trim().is_empty() => {
            return bad("--master_addr".into(), "it is empty; give a host name or an IP address".into());
        }
        None if several => {
            let problem = "the machines must know where to meet: give --master_addr, a name or address of machine 0";
            return bad(format!("--nnodes {}", args.nnodes), problem.into());
        }
        address => address.unwrap_or_else(|| Ipv4Addr::LOCALHOST.to_string()),
    };
    let token = match std::env::var("SPAG_TOKEN") {
        Ok(token) if !token.trim().is_empty() => token,
        Err(std::env::VarError::NotUnicode(_)) => {
            return bad("SPAG_TOKEN".into(), "it is not UTF-8 text".into());
        }
        _ if several => {
            let problem = format!(
                "all machines need the same secret, by which their processes know each other: make one with \
                 `{MAKE_TOKEN}` and set it on each"
            );
            return bad(format!("--nnodes {}", args.nnodes), problem);
        }
        _ => format!("{:032x}", rand::random::<u128>()),
    };
    let mut words = args.program.into_iter();
    let name = words.next().unwrap_or_default();
    let own = std::env::current_exe().ok();
    let beside = own.as_ref().and_then(|path| path.parent());
    let Some(program) = find::find(&name, beside, std::env::var_os("PATH").as_deref()) else {
        let problem = "there is no such program, neither here nor in the folders of PATH".to_owned();
        return bad(PathBuf::from(name).display().to_string(), problem);
    };
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let told = std::env::var_os("RAYON_NUM_THREADS").is_some_and(|value| !value.is_empty());
    Ok(World {
        program,
        args: words.collect(),
        processes: args.nproc_per_node,
        nodes: args.nnodes,
        node,
        address,
        port: match args.master_port {
            Some(port) => port,
            None if several => DEFAULT_PORT,
            None => free_port()?,
        },
        token,
        threads: (!told).then_some((cores / args.nproc_per_node).max(1)),
    })
}

/// A port that nobody listens on now.
fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    listener.map(|address| address.port()).map_err(|source| Error::from(LaunchError::NoPort(source)))
}
