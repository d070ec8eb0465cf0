//! Answers as mathematics: what a completion answers, and whether that is what a reference answers.
//!
//! ```
//! let verdict = spag_math::check("\\frac{1}{2}", "Half of them, so the answer is \\boxed{0.5}.");
//! assert!(verdict.equal);
//! assert_eq!(verdict.extracted.as_deref(), Some("0.5"));
//! ```
//!
//! Texts are parsed and never executed. Numbers are exact rationals; a decimal equals what rounds to the same six decimals, as in
//! the Python package `math-verify`, or to the same six significant digits if it is below 0.001. Expressions with symbols are equal if they agree at random points. Work and memory are bounded:
//! a text that is too long or too deep is not parsed, and then only equal to the same text.

mod answer;
mod equal;
mod evaluate;
mod expr;
mod extract;
mod name;
mod number;
mod parse;
mod round;
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
    let whole = completion.trim();
    // The reference alone is an answer, though nothing may be found in it, or only a number.
    let is_gold = whole == gold.trim() && !whole.is_empty() && !whole.contains("\\boxed");
    let extracted = if is_gold { Some(whole.to_owned()) } else { extract(completion) };
    let Some(extracted) = extracted else { return Verdict::default() };
    Verdict { equal: equal(gold, &extracted), parsed: is_parsed(&extracted), extracted: Some(extracted) }
}

/// Whether an answer without words around it equals the reference.
pub fn equal(gold: &str, answer: &str) -> bool {
    let gold = if gold.contains("\\boxed") { extract(gold).unwrap_or_default() } else { gold.to_owned() };
    if gold.trim() == answer.trim() && equal::texts(&gold, answer) {
        return true;
    }
    let (wanted, found) = (readings(&gold), readings(answer));
    let is_text = |answers: &[Answer]| matches!(answers[0], Answer::Text(_));
    wanted.iter().any(|wanted| found.iter().any(|found| equal::answers(wanted, found)))
        || (is_text(&wanted) || is_text(&found)) && equal::texts(&gold, answer)
}

/// What a text may be, the likelier first.
fn readings(text: &str) -> Vec<Answer> {
    let other = number::with_constant(text);
    [Some(text), other.as_deref()].into_iter().flatten().map(Answer::read).collect()
}

/// Whether an answer is understood as mathematics. Others are compared as texts.
pub fn is_parsed(answer: &str) -> bool {
    !matches!(Answer::read(answer), Answer::Text(_))
}
