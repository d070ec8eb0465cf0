//! The launcher environment, process groups and the work queue; most tests start ranks as real processes.

mod hosts;
mod launch_env;
mod queue;
mod ranks;
mod simulated;
mod single;
mod tcp;
mod tcp_join;
