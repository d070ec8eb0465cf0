//! `spag env`: plays a game with other programs, by lines of JSON or over OpenEnv's HTTP and WebSocket.

mod lines;
mod serve;

use std::path::PathBuf;

use clap::Args;
use spag_cli::Result;
use spag_game::GameData;

use crate::network;
use serve::ServeArgs;

/// Play a game by lines of JSON on standard input and output, as an environment of another program.
///
/// Requests are {"type":"reset","seed":7,"options":{}}, {"type":"step","action":"…"} and {"type":"close"}. Every answer shows
/// the player to move what it has not been shown yet. docs/GAMES.md describes games, options and answers. With --serve the
/// same is offered to clients of OpenEnv over HTTP and WebSocket, which docs/ENVIRONMENTS.md describes.
#[derive(Debug, Args)]
#[command(rename_all = "snake_case", mut_args(of_servers))]
pub(crate) struct EnvArgs {
    /// The game: taboo, kuhn-poker, tic-tac-toe, connect-four, nim, liars-dice, dont-say-it, truth-and-deception or
    /// simple-negotiation.
    #[arg(long, value_name = "NAME")]
    game: String,
    /// Words of taboo and dont-say-it, one a line; facts of truth-and-deception (JSON).
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// Serve clients of OpenEnv. The first line of stdout says where: `listening on http://HOST:PORT`. SIGTERM and SIGINT end
    /// the sessions and the server; a second signal ends it at once.
    #[arg(long)]
    serve: bool,
    #[command(flatten)]
    server: ServeArgs,
}

/// Flags of the network are for servers only.
fn of_servers(arg: clap::Arg) -> clap::Arg {
    if arg.get_help_heading() == Some(network::HEADING) { arg.requires("serve") } else { arg }
}

pub(crate) fn run(args: EnvArgs) -> Result<()> {
    let data = args.data.map(|path| GameData::read(&args.game, path)).transpose()?;
    if args.serve { serve::run(&args.game, data, &args.server) } else { lines::run(&args.game, data) }
}
