//! A session over a WebSocket.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket, close_code};
use serde_json::{Value, json};
use spag_game::session::{Code, Problem};
use spag_serve::{ApiError, KeptConnection};
use tokio::time::{sleep, timeout};

use super::House;
use super::environment::Environment;
use super::mcp;
use super::message::{self, Incoming};

/// Time for a client to take the last message and close the connection.
const CLOSING: Duration = Duration::from_secs(1);

/// The code of errors that end a session.
const SESSION: &str = "SESSION_ERROR";

/// Answers messages until the client closes the session, is silent for too long, or the server ends.
pub(super) async fn talk(mut socket: WebSocket, house: Arc<House>, connection: KeptConnection) {
    let Some(_place) = house.place() else {
        return end(socket, Some(house.full()), close_code::NORMAL, "").await;
    };
    let shared = house.clone();
    let made = house.services.work(move || shared.environment().map_err(|error| ApiError::server(error.to_string())));
    let mut environment = match made.await {
        Ok(environment) => environment,
        Err(error) => {
            let fault = message::error("FACTORY_ERROR", error.message(), []);
            return end(socket, Some(fault), close_code::ERROR, "").await;
        }
    };
    loop {
        let received = tokio::select! {
            received = timeout(house.session_timeout(), socket.recv()) => received,
            () = connection.server_ends() => return end(socket, None, close_code::AWAY, "the server is ending").await,
        };
        let bytes = match received {
            Ok(Some(Ok(Message::Text(text)))) => text.into(),
            Ok(Some(Ok(Message::Binary(bytes)))) => bytes,
            Ok(Some(Ok(Message::Ping(_) | Message::Pong(_)))) => continue,
            Ok(None | Some(Ok(Message::Close(_)))) => return,
            Ok(Some(Err(error))) => {
                let most = house.max_message_bytes;
                let reason = format!("the message cannot be read: {error}; a message has at most {most} bytes");
                end(socket, Some(message::error(SESSION, &reason, [])), close_code::PROTOCOL, "").await;
                // What is still on its way would reset the connection before the client has read why.
                return sleep(CLOSING).await;
            }
            Err(_) => {
                let reason = format!("no message came within {} seconds", house.environments.limits.session_timeout);
                return end(socket, Some(message::error(SESSION, &reason, [])), close_code::NORMAL, "").await;
            }
        };
        let answered = house.services.work(move || {
            let answer = answer(&mut environment, &bytes);
            Ok((environment, answer))
        });
        let answer = match answered.await {
            Ok((kept, answer)) => {
                environment = kept;
                answer
            }
            Err(error) => {
                let fault = message::error(SESSION, error.message(), []);
                return end(socket, Some(fault), close_code::ERROR, "").await;
            }
        };
        let Some(answer) = answer else { return end(socket, None, close_code::NORMAL, "").await };
        if socket.send(Message::text(answer.to_string())).await.is_err() {
            return;
        }
    }
}

/// The answer to a message; `None` if it closes the session. A fault of a game is an answer too, and ends that game.
fn answer(environment: &mut Environment, bytes: &[u8]) -> Option<Value> {
    let answered = |result: Result<Value, Problem>| match result {
        Ok(data) => json!({"type": "observation", "data": data}),
        Err(problem) => message::failure(&problem),
    };
    let respond = || {
        Some(match message::parse(bytes) {
            Ok(Incoming::Reset(data)) => answered(environment.reset(data)),
            Ok(Incoming::Step(text)) => answered(environment.step(&text)),
            Ok(Incoming::State) => json!({"type": "state", "data": environment.state()}),
            Ok(Incoming::Mcp(request)) => json!({"type": "mcp", "data": mcp::answer(&request)}),
            Ok(Incoming::Close) => return None,
            Err(refusal) => refusal,
        })
    };
    spag_io::catch_panic(respond).unwrap_or_else(|_| {
        environment.abandon();
        let message = "the game failed; send a reset".to_owned();
        Some(message::failure(&Problem::new(Code::Execution, message)))
    })
}

/// Sends the last message and closes the connection.
async fn end(mut socket: WebSocket, last: Option<Value>, code: u16, reason: &'static str) {
    if let Some(last) = last {
        let _ = socket.send(Message::text(last.to_string())).await;
        // A client that has just sent a message, or is about to, takes this one for the answer. Closed at once, it would see
        // the failure of its own message instead.
        let _ = timeout(CLOSING, socket.recv()).await;
    }
    let _ = socket.send(Message::Close(Some(CloseFrame { code, reason: reason.into() }))).await;
    let closed = async { while let Some(Ok(_)) = socket.recv().await {} };
    let _ = timeout(CLOSING, closed).await;
}
