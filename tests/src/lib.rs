//! Helpers of the tests of all crates: fixtures, the real programs, processes, ranks, ports, an HTTP server, and
//! clients of ours.

mod chat;
mod files;
pub mod gguf;
mod http;
mod ports;
mod process;
mod programs;
mod ranks;
mod reports;
mod serve;
pub mod torch_archive;
pub mod web_socket;

pub use chat::{chat_model, chat_prompts, chatml_tiny};
pub use files::{assert_written, change_tensor, copy_folder, fixture, json, json_lines, root};
pub use http::{Answer, Received, Server};
pub use ports::{reserve_port, reserve_two_ports};
pub use process::{Running, send_signal, test_process, wait_until};
pub use programs::{find_program, play_command, program, run, run_tiny, train_command};
pub use ranks::{Ended, Ranks};
pub use reports::assert_reports_agree;
pub use serve::{Reply, Serve, long_model};

/// The examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
