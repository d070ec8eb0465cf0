//! Where all ranks come to rank 0: the door that it opens, and how the others reach it.

use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::{Dialled, Hello, JoinOptions, Meeting, Reception, Token, TokenFile, TokenSource, dial, remaining};
use crate::{Error, LaunchEnv, Result};

/// The pause between two looks at what is not there yet.
const GLANCE: Duration = Duration::from_millis(100);

/// Rank 0's port, open to those who know the token. Shut when dropped.
#[derive(Debug)]
pub(crate) struct Door {
    pub(crate) reception: Reception,
    pub(crate) token: Token,
    pub(crate) address: SocketAddr,
    /// Where the others on this machine find the token; removed with the door.
    _file: Option<TokenFile>,
}

impl Door {
    /// # Errors
    /// A port that cannot be listened on, or a token that cannot be left for the others.
    pub(crate) fn open(meeting: &Meeting, source: TokenSource) -> Result<Self> {
        let listener = meeting.listen()?;
        let system = |error: std::io::Error| Error::System { what: "the listening port", reason: error.to_string() };
        let address = listener.local_addr().map_err(system)?;
        // Written after the port is ours: nobody else on this machine writes it then.
        let (token, file) = match source {
            TokenSource::Told(token) => (token, None),
            TokenSource::File => {
                let token = Token::random()?;
                let file = TokenFile::write(meeting.port, &token)?;
                (token, Some(file))
            }
        };
        let reception = Reception::open(listener, token.clone()).map_err(system)?;
        Ok(Self { reception, token, address, _file: file })
    }
}

/// Connects to rank 0, however long it takes to start; with the token that it wants.
pub(crate) fn reach(
    env: &LaunchEnv,
    options: &JoinOptions,
    meeting: &Meeting,
    source: &TokenSource,
    hello: Hello,
    deadline: Instant,
) -> Result<(TcpStream, Token)> {
    let mut reason = "rank 0 has not left its token yet".to_owned();
    while !remaining(deadline).is_zero() {
        let token = match source {
            TokenSource::Told(token) => Some(token.clone()),
            TokenSource::File => TokenFile::read(meeting.port)?,
        };
        let Some(token) = token else {
            std::thread::sleep(GLANCE.min(remaining(deadline)) / 4);
            continue;
        };
        let addresses = match meeting.addresses() {
            Ok(addresses) => addresses,
            // Names may become known a little later than machines.
            Err(error) => {
                reason = error.to_string();
                std::thread::sleep(GLANCE.min(remaining(deadline)));
                continue;
            }
        };
        match dial(&addresses, &token, hello, deadline)? {
            Dialled::Connected(stream) => return Ok((stream, token)),
            Dialled::NotYet(said) => reason = said,
            Dialled::OtherToken => match source {
                TokenSource::Told(_) => return Err(Error::OtherToken { rank: env.rank }),
                // An earlier run's, which rank 0 is about to replace.
                TokenSource::File => {
                    reason = "rank 0 knows another token than the one in the file".to_owned();
                    std::thread::sleep(GLANCE.min(remaining(deadline)));
                }
            },
        }
    }
    let seconds = options.join_timeout.as_secs();
    Err(Error::Unreachable { rank: env.rank, address: meeting.describe(), seconds, reason })
}
