//! Adversarial Taboo: the rules, the referee, and the wordings.

mod episode;
mod judge;
mod labels;
mod outcome;
mod play;
mod plural;
mod prompts;
mod seeded;
mod words;

pub use judge::{JudgeKind, Referee, is_prediction, judge_episode, word_forms};
pub use labels::{ATTACKER, BROKEN_RULE, DEFENDER, LABELS, RIGHT_GUESS, SAID_UNKNOWINGLY, TIE, WRONG_GUESS, seat_at};
pub use outcome::Outcome;
pub use play::{AfterDecision, Rules, Taboo};
pub use plural::pluralize;
pub use prompts::PromptSet;
pub(crate) use seeded::SeededTaboo;
pub use words::{WordList, read_words};
