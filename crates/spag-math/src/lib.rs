//! Answers as mathematics: what a completion answers, and whether that is what a reference answers.
//!
//! ```
//! let verdict = spag_math::check("\\frac{1}{2}", "Half of them, so the answer is \\boxed{0.5}.");
//! assert!(verdict.equal);
//! assert_eq!(verdict.extracted.as_deref(), Some("0.5"));
//! ```
//!
//! Texts are parsed and never executed. Numbers are exact rationals; a decimal equals what rounds to the same six decimals, as in
//! the Python package `math-verify`. Expressions with symbols are equal if they agree at random points. Work and memory are bounded:
//! a text that is too long or too deep is not parsed, and then only equal to the same text.

mod answer;
mod equal;
mod evaluate;
mod expr;
mod extract;
mod parse;
mod token;

use answer::Answer;
pub use extract::extract;

/// Characters of an answer that is parsed.
const LONGEST: usize = 2000;

/// Whether an answer is right.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Whether it equals the reference.
    pub equal: bool,
    /// The text that was taken for the answer; `None` if there is none.
    pub extracted: Option<String>,
    /// Whether that text was understood as mathematics. Others are compared as texts.
    pub parsed: bool,
}

/// Looks for an answer in a whole completion, and compares it with the reference `gold`, an answer alone or a text with one.
pub fn check(gold: &str, completion: &str) -> Verdict {
    let Some(extracted) = extract(completion) else { return Verdict::default() };
    Verdict { equal: equal(gold, &extracted), parsed: is_parsed(&extracted), extracted: Some(extracted) }
}

/// Whether an answer without words around it equals the reference.
pub fn equal(gold: &str, answer: &str) -> bool {
    let gold = if gold.contains("\\boxed") { extract(gold).unwrap_or_default() } else { gold.to_owned() };
    let (wanted, found) = (Answer::read(&gold), Answer::read(answer));
    let is_text = |answer: &Answer| matches!(answer, Answer::Text(_));
    equal::answers(&wanted, &found) || (is_text(&wanted) || is_text(&found)) && equal::texts(&gold, answer)
}

/// Whether an answer is understood as mathematics. Others are compared as texts.
pub fn is_parsed(answer: &str) -> bool {
    !matches!(Answer::read(answer), Answer::Text(_))
}
