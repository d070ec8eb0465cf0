//! Numbers as they are written: powers of ten after an `e`, small decimals, repeating decimals, and bases.

use spag_math::{equal, extract};

fn all_are(wanted: bool, pairs: &[(&str, &str)]) {
    for (a, b) in pairs {
        assert_eq!(equal(a, b), wanted, "{a} and {b}");
        assert_eq!(equal(b, a), wanted, "{b} and {a}");
    }
}

#[test]
fn powers_of_ten_after_an_e() {
    all_are(
        true,
        &[
            ("4.5e33", "4.5\\times 10^{33}"),
            ("4.5e33", "4.50e33"),
            ("4.5e33", "4.5 \\cdot 10^{33}"),
            ("3e8", "300000000"),
            ("1.2E-5", "0.000012"),
            ("2e", "2\\cdot e"),
            ("3e^{2}", "3 e^2"),
            ("3e - 2", "-2+3e"),
            // May be both.
            ("2e-1", "0.2"),
            ("2e-1", "-1+2e"),
            ("1e999999999", "1e999999999"),
        ],
    );
    all_are(false, &[("4.5e33", "4.5e32"), ("xe3", "1000x"), ("2.0e-1", "-1+2e"), ("1e999999999", "1e999999998")]);
    for (text, found) in [("about 4.5e33 of them", "4.5e33"), ("is -4.5e-33.", "-4.5e-33"), ("type e7", "7")] {
        assert_eq!(extract(text).as_deref(), Some(found));
    }
}

/// Six decimals of a small number are too few; its digits count.
#[test]
fn small_numbers() {
    all_are(
        true,
        &[
            ("1.6\\times 10^{-19}", "0.16\\times 10^{-18}"),
            ("\\pi\\times 10^{-13}", "3.14159e-13"),
            ("\\frac{1}{30}", "0.033333"),
            ("\\frac{1}{30000}", "0.0000333333"),
            ("\\sin^2 x+\\cos^2 x-1", "0"),
        ],
    );
    all_are(
        false,
        &[
            ("8.5\\times 10^{-12}", "3\\times 10^{-9}"),
            ("1.6\\times 10^{-19}", "9.1\\times 10^{-31}"),
            ("0.0000001", "0.0000002"),
            ("x=8.5\\times 10^{-12}", "x=3\\times 10^{-12}"),
            ("\\pi\\times 10^{-13}", "2\\pi\\times 10^{-13}"),
            ("1.6\\times 10^{-19}(x+1)", "9.1\\times 10^{-31}(x+1)"),
            ("\\frac{1}{30000}", "0.000033"),
            ("12345678901234567890.5", "12345678901234567891.5"),
        ],
    );
}

#[test]
fn repeating_decimals_and_bases() {
    all_are(
        true,
        &[
            ("0.\\overline{3}", "\\frac{1}{3}"),
            (".\\overline{142857}", "1/7"),
            ("0.1\\bar{6}", "1/6"),
            ("2516_8", "2516_{8}"),
            ("2516_8", "2516_{\\text{eight}}"),
            ("2516_8", "2516"),
        ],
    );
    all_are(false, &[("0.\\overline{3}", "0.3"), ("2516_8", "2516_9"), ("\\{11_2, 3\\}", "\\{11_3, 3\\}")]);
}

/// A large exponent makes no large number.
#[test]
fn large_exponents_are_bounded() {
    let start = std::time::Instant::now();
    let many = |digits: &str| format!("\\{{{}\\}}", vec![format!("{digits}e-5999"); 150].join(";"));
    for (a, b) in [
        (format!("1e{}", "9".repeat(1_900)), "7".to_owned()),
        (format!("1e-{}", "9".repeat(300)), "0".to_owned()),
        (format!("0.\\overline{{{}}}", "1".repeat(1_900)), "7".to_owned()),
        (format!("{}e9", "1".repeat(10_000_000)), "7".to_owned()),
        (many(".3"), many(".7")),
    ] {
        assert!(!equal(&a, &b));
        assert!(!equal(&b, &a));
    }
    // Many members of a set, each compared with many.
    let members: Vec<String> = (11..150).map(|digits| format!(".{digits}e-5990")).collect();
    let reversed: Vec<String> = members.iter().rev().cloned().collect();
    assert!(equal(&members.join(";"), &reversed.join(";")));
    assert!(start.elapsed().as_secs() < 60);
}
