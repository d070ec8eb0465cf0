//! A game that a process plays.

use std::cell::OnceCell;

use serde_json::{Map, Value, json};
use spag_game::games::textarena::WON;
use spag_game::{DRAW, INVALID};
use spag_game::{
    Episode, FailureCause, Game, Labels, Match, Message, Refusal, Ruling, SEATS, Seat, Told, Transcript, TurnFailure,
    UtteranceRule, Verdict,
};
use spag_io::{PromptFormat, TurnPrompt};

use super::TextArena;
use super::answer::{Answer, Next, Observation};
use super::process::Process;

/// A game in progress.
#[derive(Debug)]
pub(super) struct RemoteMatch<'g> {
    game: &'g TextArena,
    /// None if it did not start.
    process: Option<Process>,
    /// Begun by the first answer, which is awaited when it is needed, so that many processes start at once.
    table: OnceCell<Table>,
}

/// What is known of the game.
#[derive(Debug, Default)]
struct Table {
    /// Messages to both players, in order.
    messages: Vec<Message>,
    transcript: Transcript,
    to_move: usize,
    verdict: Option<Verdict>,
    fault: Option<TurnFailure>,
}

impl<'g> RemoteMatch<'g> {
    /// Asks a process for a game.
    pub(super) fn start(game: &'g TextArena, reset: &Value) -> Self {
        let asked = game.process().and_then(|process| process.send(reset).map(|()| process));
        match asked {
            Ok(process) => Self { game, process: Some(process), table: OnceCell::new() },
            Err(reason) => {
                let fault = Some(TurnFailure::new(reason));
                Self { game, process: None, table: OnceCell::from(Table { fault, ..Table::default() }) }
            }
        }
    }

    fn table(&self) -> &Table {
        self.table.get_or_init(|| {
            let mut table = Table::default();
            if let Some(process) = &self.process {
                let answer = process.receive();
                table.take(answer, self.labels(), FailureCause::Player);
            }
            table
        })
    }

    fn labels(&self) -> &'static Labels {
        self.game.recorded.labels()
    }

    fn seat(&self) -> Seat {
        self.labels().seats[self.table().to_move.min(SEATS - 1)]
    }
}

impl Table {
    /// Takes an answer. Returns whether the action before it was refused. `refused` is the cause of an error answer.
    fn take(&mut self, answer: Result<Answer, String>, labels: &Labels, refused: FailureCause) -> bool {
        match answer {
            Ok(Answer::Observation(observation)) => return self.observe(observation, labels),
            Ok(Answer::Error { code, message }) => {
                let what =
                    format!("the process of the game answered {}", spag_io::quote(&format!("{code}: {message}")));
                self.fault = Some(match refused {
                    FailureCause::Player => TurnFailure::new(what),
                    FailureCause::Text => TurnFailure::of_text(what),
                });
            }
            Err(reason) => self.fault = Some(TurnFailure::new(reason)),
        }
        false
    }

    fn observe(&mut self, observation: Observation, labels: &Labels) -> bool {
        let refused = observation.invalid;
        match observation.next() {
            Ok(Next::Turn(player, told)) => {
                self.to_move = player;
                let to = labels.seats[player];
                self.messages.extend(told.iter().map(|told: &Told| told.message(to, labels.seats)));
                self.transcript.told.push(told);
            }
            Ok(Next::End(winner, reason)) => {
                let ending = match (reason.as_str(), winner) {
                    ("invalid", _) => INVALID,
                    (_, Some(_)) => WON,
                    (_, None) => DRAW,
                };
                let length = self.transcript.told.len();
                self.verdict = Some(match winner {
                    Some(winner) => Verdict::won_by(labels.seats[winner], ending, length),
                    None => Verdict::of(ending, length),
                });
                (self.transcript.ending, self.transcript.winner) = (ending.name.to_owned(), winner);
                self.transcript.reason = reason;
            }
            Err(what) => self.fault = Some(TurnFailure::new(format!("an answer of the process is no answer: {what}"))),
        }
        refused
    }
}

impl Match for RemoteMatch<'_> {
    fn to_move(&self) -> Seat {
        self.seat()
    }

    fn prompt(&self, seat: Seat, _: &Episode) -> TurnPrompt {
        self.game.recorded.prompt(&self.table().messages, seat)
    }

    fn utterance_rule(&self) -> UtteranceRule {
        match self.game.recorded.format() {
            PromptFormat::Plain => UtteranceRule::Trimmed,
            PromptFormat::Chat => UtteranceRule::Message,
        }
    }

    fn apply(&mut self, text: &str) -> Ruling {
        let labels = self.labels();
        self.table();
        let (Some(table), Some(process)) = (self.table.get_mut(), &self.process) else { return Ruling::ACCEPTED };
        if table.verdict.is_some() || table.fault.is_some() {
            return Ruling { refusal: None, verdict: table.verdict };
        }
        let answer = process.send(&json!({"type": "step", "action": text})).and_then(|()| process.receive());
        // What TextArena cannot read of a text says nothing about other games.
        let refused = table.take(answer, labels, FailureCause::Text);
        Ruling { refusal: refused.then_some(Refusal::Illegal), verdict: table.verdict }
    }

    fn messages(&self) -> &[Message] {
        &self.table().messages
    }

    fn record(&self) -> Map<String, Value> {
        let transcript = json!(self.table().transcript);
        Map::from_iter([("transcript".to_owned(), transcript)])
    }

    fn fault(&self) -> Option<TurnFailure> {
        self.table().fault.clone()
    }
}

impl Drop for RemoteMatch<'_> {
    fn drop(&mut self) {
        // A process that did not answer, or whose answer was not received, is not used again.
        let works = |table: &Table| table.fault.as_ref().is_none_or(|fault| fault.cause() == FailureCause::Text);
        if let Some(process) = self.process.take().filter(|_| self.table.get().is_some_and(works)) {
            self.game.keep(process);
        }
    }
}
