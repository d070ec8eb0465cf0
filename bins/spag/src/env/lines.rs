//! A game by lines of JSON on standard input and output.

use std::io::{self, BufRead, Read, Write};

use spag_game::GameData;
use spag_game::session::{Code, Problem, Reply, Session};

use spag_cli::{Error, Result};

/// The most bytes of a request.
const MAX_LINE: usize = 16 << 20;

/// Plays until the input ends or a request closes the session.
///
/// # Errors
/// There is no such game, it lacks its data, or stdout is closed.
pub(super) fn run(game: &str, data: Option<GameData>) -> Result<()> {
    let mut session = Session::new(game, data)?;
    serve(&mut session, &mut io::stdin().lock(), &mut io::stdout().lock()).map_err(Error::Stdout)
}

/// Answers line by line until the input ends or a request closes the session.
fn serve(session: &mut Session, input: &mut impl BufRead, output: &mut impl Write) -> io::Result<()> {
    let mut line = Vec::new();
    loop {
        line.clear();
        if input.by_ref().take(MAX_LINE as u64 + 1).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let reply = if line.len() > MAX_LINE && line.last() != Some(&b'\n') {
            input.skip_until(b'\n')?;
            let message = format!("the line has more than {MAX_LINE} bytes, the most of a request");
            Reply::Line(Problem::new(Code::InvalidJson, message).to_line())
        } else {
            respond(session, &line)
        };
        let Reply::Line(mut answer) = reply else { return Ok(()) };
        answer.push('\n');
        output.write_all(answer.as_bytes())?;
        output.flush()?;
    }
}

/// The answer to a line. A fault of a game is an answer too, and ends that game.
fn respond(session: &mut Session, line: &[u8]) -> Reply {
    spag_io::catch_panic(|| session.respond(line)).unwrap_or_else(|fault| {
        session.abandon();
        Reply::Line(Problem::new(Code::Execution, format!("the game failed: {fault}; send a reset")).to_line())
    })
}
