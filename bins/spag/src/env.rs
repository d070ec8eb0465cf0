//! `spag env`: plays a game with other programs, by lines of JSON or over OpenEnv's HTTP and WebSocket.

use std::io;
use std::path::PathBuf;

use clap::Args;
use spag_cli::{Error, Result};
use spag_game::GameData;
use spag_game::session::Session;
use spag_io::{ReasoningFormat, ReasoningRule, ReasoningTags};
use spag_page::{Environments, SessionLimits};
use spag_serve::{QueueLimits, Server};

use crate::network::{self, Keys, NetworkArgs};

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
    /// What of a step's text is private reasoning, which is no action and is shown to no player: none, think (what stands between
    /// tags at its beginning) or boxed (all but the last \boxed{…}).
    #[arg(long, value_name = "FORMAT", default_value_t = ReasoningFormat::None)]
    reasoning: ReasoningFormat,
    /// The tags around reasoning, with a blank between them.
    #[arg(long, value_name = "TAGS", default_value_t = ReasoningTags::default())]
    reasoning_tags: ReasoningTags,
    /// Serve clients of OpenEnv. The first line of stdout says where: `listening on http://HOST:PORT`. SIGTERM and SIGINT end
    /// the sessions and the server; a second signal ends it at once.
    #[arg(long)]
    serve: bool,
    #[command(flatten)]
    sessions: SessionLimits,
    #[command(flatten)]
    network: NetworkArgs,
}

/// Flags of the network are for servers only.
fn of_servers(arg: clap::Arg) -> clap::Arg {
    if arg.get_help_heading() == Some(network::HEADING) { arg.requires("serve") } else { arg }
}

impl EnvArgs {
    /// What of a step's text is the action.
    fn rule(&self) -> Result<ReasoningRule> {
        match self.reasoning {
            ReasoningFormat::Auto => {
                let problem = "there is no model whose tags it could look up; name none, think or boxed".to_owned();
                Err(Error::BadValue { flag: "--reasoning auto".to_owned(), problem })
            }
            format => Ok(format.rule(self.reasoning_tags.clone())),
        }
    }
}

pub(crate) fn run(args: EnvArgs) -> Result<()> {
    let reasoning = args.rule()?;
    let data = args.data.as_ref().map(|path| GameData::read(&args.game, path)).transpose()?;
    if args.serve {
        return serve(&args, data, reasoning);
    }
    let mut session = Session::new(&args.game, data)?.with_reasoning(reasoning);
    session.serve(&mut io::stdin().lock(), &mut io::stdout().lock()).map_err(Error::Stdout)
}

/// Serves until a signal ends it.
fn serve(args: &EnvArgs, data: Option<GameData>, reasoning: ReasoningRule) -> Result<()> {
    // The errors of the game come before those of the network.
    let environments = Environments::new(&args.game, data, args.sessions)?.with_reasoning(reasoning);
    let config = args.network.config(QueueLimits::default())?;
    network::allow_connections(config.limits.max_connections);
    let keys = Keys::of(&config);
    let most = config.limits.max_body_bytes();
    let server = Server::bind_with(config, Vec::new(), |services| environments.routes(most, services))?;
    network::serve(server, keys, "can play")
}
