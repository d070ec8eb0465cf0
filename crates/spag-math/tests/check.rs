//! Verdicts beside those of math-verify 0.9.0, cases of our own, and hostile texts.

use proptest::prelude::*;
use serde_json::Value;
use spag_math::{check, extract};

/// The pairs of a file, and those among them whose verdict is another one than ours.
fn differences(file: &str) -> (usize, Vec<(String, String)>) {
    let pairs: Vec<Value> = serde_json::from_str(file).unwrap();
    let text = |pair: &Value, key: &str| pair[key].as_str().unwrap().to_owned();
    let differ = |pair: &&Value| check(&text(pair, "gold"), &text(pair, "answer")).equal != pair["equal"];
    (pairs.len(), pairs.iter().filter(differ).map(|pair| (text(pair, "gold"), text(pair, "answer"))).collect())
}

/// All disagreements in 2,800 pairs: a negative per cent that is rounded, and sums with the letter t, which math-verify reads as
/// something else. Ours are right.
#[test]
fn verdicts_are_those_of_math_verify() {
    let (pairs, differ) = differences(include_str!("data/math_verify.json"));
    assert_eq!(pairs, 400);
    let known = ["-71.42857143\\%", "-211.1111111\\%"];
    assert!(differ.iter().all(|(_, answer)| known.iter().any(|known| answer.contains(known))), "{differ:?}");

    // Written by scripts/math-pairs.py.
    let (pairs, differ) = differences(include_str!("data/pairs.json"));
    assert_eq!(pairs, 2400);
    assert!(differ.iter().all(|(gold, _)| gold.contains("t+")) && differ.len() == 4, "{differ:?}");
}

#[test]
fn answers_are_found_where_texts_put_them() {
    for (text, found) in [
        ("First \\boxed{1}, no: \\boxed{\\frac{1}{2}}.", "\\frac{1}{2}"),
        ("\\boxed{5} and \\boxed{6}", "5,6"),
        ("\\boxed{1} was wrong, so \\boxed{2}", "2"),
        ("\\boxed{\\{1, 2\\}}", "\\{1, 2\\}"),
        ("an open \\boxed{3 and the answer is 4", "4"),
        ("The answer is $x=2$ and $x=3$.", "x=2,x=3"),
        ("The final answer is **12**.", "12"),
        ("The answer is (B). I checked 3 times.", "(B)"),
        ("#### 1,234", "1,234"),
        ("We have $a=1$, hence $$b = 7$$", "b = 7"),
        ("It costs \\$5 and then 7% of 1,200.50", "1,200.50"),
        ("a half, 1/2", "1/2"),
        ("or 50\\% of it", "50\\%"),
        ("between -3", "-3"),
    ] {
        assert_eq!(extract(text).as_deref(), Some(found), "{text}");
    }
    for text in ["", "no number at all", "\\boxed{}", "$$", "\\boxed{ }"] {
        assert_eq!(extract(text), None, "{text}");
    }
}

#[test]
fn equal_answers_and_others() {
    let boxed = |answer: &str| format!("\\boxed{{{answer}}}");
    for (gold, right, wrong) in [
        ("1000", "1\\,000", "100"),
        ("\\frac{3}{2}", "1\\frac{1}{2}", "1\\cdot\\frac{1}{2}"),
        ("2\\sqrt{3}", "\\sqrt{12}", "3.46"),
        ("0.333333", "\\frac13", "\\frac{333}{1000}"),
        ("50\\%", "\\frac12", "500"),
        ("(3, \\infty)", "x > 3", "x \\ge 3"),
        ("\\{1,2\\}", "2, 1", "\\{1,2,3\\}"),
        ("(2, 1)", "(2,1)", "(1,2)"),
        ("2x-y+1=0", "y = 2x+1", "y=2x-1"),
        ("1 \\pm i", "1-i, 1+i", "1, i"),
        ("\\sqrt{-4}", "2i", "2"),
        ("\\sin^2 x", "1-\\cos^2 x", "\\cos^2 x"),
        ("x^2-y^2", "(x-y)(x+y)", "(x-y)^2"),
        ("|x|", "\\sqrt{x^2}", "y"),
        ("\\log_2 8", "3", "4"),
        ("C", "\\text{(C)}", "D"),
        ("\\text{odd}", "odd", "even"),
        ("5", "5 \\text{ cm}^2", "25"),
        (
            "\\begin{pmatrix}1&2\\end{pmatrix}",
            "\\begin{pmatrix} 1 & 2 \\end{pmatrix}",
            "\\begin{pmatrix}2&1\\end{pmatrix}",
        ),
        ("[0,1)\\cup(2,3]", "(2,3]\\cup[0,1)", "[0,1]\\cup(2,3]"),
        ("\\emptyset", "\\{\\}", "0"),
        ("2^{100}", "1267650600228229401496703205376", "1267650600228229401496703205377"),
        ("1", "1.0", "0.9999999"),
    ] {
        assert!(check(gold, &boxed(right)).equal, "{gold} is {right}");
        assert!(!check(gold, &boxed(wrong)).equal, "{gold} is not {wrong}");
    }
    let text = check("7", &boxed("a long walk home"));
    assert!(!text.equal && !text.parsed && text.extracted.as_deref() == Some("a long walk home"));
    assert_eq!(check("7", "nothing"), spag_math::Verdict::default());
}

/// Work is bounded: texts that are too long, too deep or too large are not parsed.
#[test]
fn hostile_answers_are_verdicts_too() {
    let boxed = |answer: &str| format!("\\boxed{{{answer}}}");
    for answer in [
        "(".repeat(100_000),
        "{".repeat(100_000) + &"}".repeat(100_000),
        "\\frac{".repeat(20_000),
        "9".repeat(10_000_000),
        "9^".repeat(500) + "9",
        "9!".repeat(300),
        "-".repeat(1_900) + "1",
        "1+".repeat(990) + "1",
        "x*".repeat(990) + "x",
        "((((((9^9)^9)^9)^9)^9)^9)^9".to_owned(),
        "\\binom{500}{250}^{500}".to_owned(),
        "1,".repeat(900) + "1",
        "x=".repeat(900) + "1",
        "1\\pm".repeat(300) + "1",
    ] {
        assert!(!check("7", &boxed(&answer)).equal);
        assert!(!check(&answer, "\\boxed{7}").equal);
    }
    assert!(check("7", &format!("{}\\boxed{{7}}", "long ".repeat(2_000_000))).equal);
}

proptest! {
    #[test]
    fn no_text_breaks_it(gold in "[-+*/^_(){}\\[\\]|,=<>!%$0-9a-z\\\\ .±∪]{0,40}", answer in ".{0,60}") {
        check(&gold, &format!("\\boxed{{{answer}}}"));
        check(&gold, &answer);
    }
}
