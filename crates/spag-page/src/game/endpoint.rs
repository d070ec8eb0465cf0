//! A turn of a model behind an endpoint, which plays beside the models of the server.

use std::sync::Arc;

use axum::response::Response;
use spag_game::{Said, Seat, game_seed};
use spag_selfplay::{EndpointAsker, EndpointTurn, NoUtterance};
use spag_serve::{ApiError, KeptConnection, event_response};
use tokio::sync::oneshot;

use super::{Game, SAID_BY_MODEL, turn};

/// Turns that may wait for an answer, for each request that may be in flight.
const WAITING: usize = 4;

/// A model behind an endpoint, and its name on the page.
#[derive(Clone, Debug)]
pub struct PageEndpoint {
    /// The name, which no model of the server has.
    pub name: String,
    /// Who asks it.
    pub asker: Arc<EndpointAsker>,
}

/// Asks an endpoint for the next utterance of a game, which it sends as a whole: the answer has one event, as the last of
/// [`turn::stream`]. `kept` is the connection, for which the server waits.
///
/// # Errors
/// Too many turns wait, or the endpoint takes no chats.
pub(crate) fn stream(game: Game, endpoint: &PageEndpoint, kept: KeptConnection) -> Result<Response, ApiError> {
    let asker = &endpoint.asker;
    if asker.open() >= WAITING * asker.requests_in_flight() {
        return Err(ApiError::busy(format!("{} turns wait for {} already", asker.open(), endpoint.name)));
    }
    let state = game.position()?.state;
    let seat = state.to_move();
    let prompt = game.prompt(&*state, seat, asker.kept_reasoning());
    drop(state);
    let seed = game_seed(game.seed, game.episode.history.len());
    let asked =
        EndpointTurn { game: game.seed as usize, prompt, seed, temperature: game.temperature, choices: Vec::new() };
    let (answered, answer) = oneshot::channel();
    // The other end is gone if the client has left.
    let answered = move |utterance| drop(answered.send(utterance));
    asker.ask(asked, answered).map_err(|error| ApiError::bad(error.to_string()))?;
    let turn = Turn { game, seat, name: endpoint.name.clone(), answer, _kept: kept };
    Ok(event_response("no-store", Some(turn), async |turn| Some((turn?.last_event().await, None))))
}

struct Turn {
    game: Game,
    seat: Seat,
    name: String,
    answer: oneshot::Receiver<Result<Said, NoUtterance>>,
    _kept: KeptConnection,
}

impl Turn {
    async fn last_event(self) -> Vec<u8> {
        let Self { mut game, seat, name, answer, _kept } = self;
        let is_long = |text: &str| text.chars().count() > SAID_BY_MODEL;
        let failed = |why: String| ApiError::server(format!("{name}: {why}")).body();
        let last = match answer.await {
            Ok(Ok(said)) if is_long(&said.text) || said.reasoning.as_deref().is_some_and(is_long) => {
                failed(format!("the utterance or its reasoning has more than {SAID_BY_MODEL} characters"))
            }
            Ok(Ok(said)) => turn::ended(&mut game, seat, said, 0),
            Ok(Err(why)) => failed(why.to_string()),
            Err(_) => failed("its threads have ended".to_owned()),
        };
        turn::last_events(&last).into_bytes()
    }
}
