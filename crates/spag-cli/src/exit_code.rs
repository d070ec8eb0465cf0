//! Which errors are the user's to mend, and which are not.

use std::io::{self, ErrorKind};

use spag_io::{Classify, ErrorClass};

use crate::Error;

/// Exit code for a command line or an input that cannot be used.
pub(crate) const BAD_INPUT: u8 = 2;
/// Exit code for everything else that fails.
pub(crate) const FAILURE: u8 = 1;
/// Exit code for a process that lost another one of its run: the cause lies there. Said to `spag launch` alone; for
/// everybody else it is a [`FAILURE`].
pub(crate) const LOST_PEER: u8 = 3;

/// Who is told the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parent {
    /// `spag launch`, which looks for the rank that failed first.
    Launcher,
    /// A shell, another launcher, a person.
    Anybody,
}

impl Parent {
    /// As the environment says.
    pub(crate) fn detect() -> Self {
        match std::env::var_os(spag_dist::START_VARIABLE) {
            Some(_) => Self::Launcher,
            None => Self::Anybody,
        }
    }
}

/// What a process ends with that ends with this error.
pub(crate) fn exit_code_for(parent: Parent, error: &Error) -> u8 {
    match (exit_code(error), parent) {
        (LOST_PEER, Parent::Anybody) => FAILURE,
        (code, _) => code,
    }
}

/// 1 when the same command may succeed on another day or machine, 2 when what it was given has to change, and what
/// shells say of a signal where one ended the program.
fn exit_code(error: &Error) -> u8 {
    match error {
        Error::Stdout(_) | Error::Signals(_) | Error::GamesFailed { .. } => FAILURE,
        Error::Stopped { signal, .. } => signal.exit_code(),
        Error::Io { source, .. } => io_code(source),
        Error::Launch(error) => error.exit_code(),
        Error::Dist(error) => dist_code(error),
        Error::Game(error) => game_code(error),
        Error::File(error) => file_code(error),
        Error::Rewards(error) => rewards_code(error),
        Error::Model(error) => model_code(error),
        Error::Train(error) => train_code(error),
        Error::SelfPlay(error) => selfplay_code(error),
        Error::Pipeline(error) => pipeline_code(error),
        _ => BAD_INPUT,
    }
}

/// A wrong name or a locked door is for the user to mend; a full or failing disk is not.
fn io_code(error: &io::Error) -> u8 {
    match error.kind() {
        ErrorKind::NotFound
        | ErrorKind::PermissionDenied
        | ErrorKind::AlreadyExists
        | ErrorKind::NotADirectory
        | ErrorKind::IsADirectory
        | ErrorKind::ReadOnlyFilesystem
        | ErrorKind::InvalidFilename
        | ErrorKind::InvalidInput
        | ErrorKind::InvalidData
        | ErrorKind::UnexpectedEof => BAD_INPUT,
        _ => FAILURE,
    }
}

fn file_code(error: &spag_io::Error) -> u8 {
    match error.class() {
        ErrorClass::BadInput => BAD_INPUT,
        ErrorClass::Failure => FAILURE,
        ErrorClass::LostPeer => LOST_PEER,
    }
}

fn dist_code(error: &spag_dist::Error) -> u8 {
    match error {
        spag_dist::Error::Lost { .. } | spag_dist::Error::Aborted { .. } => LOST_PEER,
        // Ranks that came too late, or not yet, may come another time.
        spag_dist::Error::OtherStart { .. }
        | spag_dist::Error::Missing { .. }
        | spag_dist::Error::Unreachable { .. }
        | spag_dist::Error::Buffer { .. }
        | spag_dist::Error::NoSuchRank { .. }
        | spag_dist::Error::Tensor(_) => FAILURE,
        _ => BAD_INPUT,
    }
}

fn game_code(error: &spag_game::Error) -> u8 {
    match error {
        spag_game::Error::File(error) => file_code(error),
        spag_game::Error::Player { .. }
        | spag_game::Error::PlayerGone { .. }
        | spag_game::Error::StrayReply { .. }
        | spag_game::Error::GameFailed { .. }
        | spag_game::Error::FailedInARow { .. } => FAILURE,
        _ => BAD_INPUT,
    }
}

fn rewards_code(error: &spag_rewards::Error) -> u8 {
    match error {
        spag_rewards::Error::Game(error) => game_code(error),
        spag_rewards::Error::File(error) => file_code(error),
        _ => BAD_INPUT,
    }
}

fn model_code(error: &spag_model::Error) -> u8 {
    match error {
        spag_model::Error::Io { source, .. } => io_code(source),
        spag_model::Error::Candle(_) => FAILURE,
        _ => BAD_INPUT,
    }
}

fn train_code(error: &spag_train::Error) -> u8 {
    match error {
        spag_train::Error::Io { source, .. } | spag_train::Error::Metrics(source) => io_code(source),
        spag_train::Error::Data(error) => rewards_code(error),
        spag_train::Error::Model(error) => model_code(error),
        spag_train::Error::Lines(error) => file_code(error),
        spag_train::Error::Dist(error) => dist_code(error),
        spag_train::Error::NotFinite { .. } | spag_train::Error::OutputInUse { .. } | spag_train::Error::Candle(_) => {
            FAILURE
        }
        _ => BAD_INPUT,
    }
}

fn selfplay_code(error: &spag_selfplay::Error) -> u8 {
    match error {
        spag_selfplay::Error::Io { source, .. } => io_code(source),
        spag_selfplay::Error::Game(error) => game_code(error),
        spag_selfplay::Error::File(error) => file_code(error),
        spag_selfplay::Error::Model(error) => model_code(error),
        spag_selfplay::Error::Dist(error) => dist_code(error),
        spag_selfplay::Error::Threads { .. } => FAILURE,
        _ => BAD_INPUT,
    }
}

fn pipeline_code(error: &spag_pipeline::Error) -> u8 {
    match error {
        spag_pipeline::Error::Io { source, .. } => io_code(source),
        spag_pipeline::Error::Game(error) => game_code(error),
        spag_pipeline::Error::File(error) => file_code(error),
        spag_pipeline::Error::Rewards(error) => rewards_code(error),
        spag_pipeline::Error::Model(error) => model_code(error),
        spag_pipeline::Error::SelfPlay(error) => selfplay_code(error),
        spag_pipeline::Error::Train(error) => train_code(error),
        spag_pipeline::Error::Dist(error) => dist_code(error),
        spag_pipeline::Error::RunLocked { .. }
        | spag_pipeline::Error::NothingToLearn { .. }
        | spag_pipeline::Error::GamesFailed { .. }
        | spag_pipeline::Error::Tokenizer { .. } => FAILURE,
        _ => BAD_INPUT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn io(kind: ErrorKind) -> Error {
        Error::Io { path: "a".into(), source: kind.into() }
    }

    #[test]
    fn a_missing_file_is_bad_input_and_a_full_disk_a_failure() {
        assert_eq!([exit_code(&io(ErrorKind::NotFound)), exit_code(&io(ErrorKind::StorageFull))], [BAD_INPUT, FAILURE]);
        let nested = spag_io::Error::Io { path: "a".into(), source: ErrorKind::StorageFull.into() };
        let nested = spag_train::Error::Data(spag_rewards::Error::File(nested));
        assert_eq!(exit_code(&Error::Train(nested)), FAILURE);
    }

    #[test]
    fn a_lost_rank_is_a_failure_and_the_launcher_hears_of_it() {
        let lost = Error::Dist(spag_dist::Error::Lost { rank: 1, reason: "gone".into() });
        let codes = [Parent::Anybody, Parent::Launcher].map(|parent| exit_code_for(parent, &lost));
        assert_eq!(codes, [FAILURE, LOST_PEER]);
        let late = Error::Dist(spag_dist::Error::OtherStart { rank: 1, theirs: 0, first: 1 });
        assert_eq!(exit_code_for(Parent::Launcher, &late), FAILURE);
    }

    #[test]
    fn bad_rows_and_settings_are_bad_input() {
        assert_eq!(exit_code(&Error::Rewards(spag_rewards::Error::DecayWeight { given: 0.0 })), BAD_INPUT);
        assert_eq!(exit_code(&Error::Train(spag_train::Error::NoSamples("none".into()))), BAD_INPUT);
    }
}
