//! Names with indexes and arguments, brackets without signs of products, and texts.

use spag_math::{check, equal};

#[test]
fn the_same() {
    for (a, b) in [
        ("E_0", "E_{0}"),
        ("x_1", "x_{1}"),
        ("v_{0}t", "v_0 t"),
        ("L_{\\odot}", "L_\\odot"),
        ("v_{\\text{max}}", "v_{max}"),
        ("\\lambda_{\\text {red}} / \\sqrt{2}", "\\lambda_{\\text{red}}/\\sqrt{2}"),
        ("\\left\\lfloor x \\right\\rfloor", "\\lfloor x\\rfloor"),
        ("\\lfloor 3.7\\rfloor + \\lceil \\sqrt{2}\\rceil", "5"),
        ("\\sum_{k=1}^{n} \\text {a}", "\\sum_{k=1}^n \\text{a}"),
        ("I(0) e^{-t/(RC)}", "e^{-t/(R C)} I(0)"),
        ("2(3)", "6"),
        ("2(0)", "0"),
        ("x(x+1)", "x^2+x"),
        ("(n-2) 2^{n}+1", "2^n (n-2)+1"),
        ("\\mathbb{R}", "(-\\infty,\\infty)"),
        ("x \\in \\mathbb{R}", "(-\\infty,\\infty)"),
    ] {
        assert!(equal(a, b) && equal(b, a), "{a} is {b}");
    }
}

#[test]
fn not_the_same() {
    for (a, b) in [
        ("E_0", "E_1"),
        ("E_0", "e_0"),
        ("e_1", "e_2"),
        ("v_{\\text{max}}", "v_{\\text{min}}"),
        ("\\Delta", "\\delta"),
        ("\\lfloor x\\rfloor", "\\lceil x\\rceil"),
        ("I(0)", "-(I(0))"),
        ("I(0)", "0"),
        ("I(0) e^{-t/(RC)}", "-I(0) e^{-t/(RC)}"),
        ("f(x)", "-f(x)"),
        ("f(0)", "f'(0)"),
        ("(2) 5", "10"),
        ("\\leftarrow", "\\rightarrow"),
        ("\\mathbb{R}", "(-\\infty,0)"),
    ] {
        assert!(!equal(a, b) && !equal(b, a), "{a} is not {b}");
    }
}

/// Whatever it is, parsed or not, alone or in a box.
#[test]
fn a_text_equals_itself() {
    for text in [
        "\\frac{dM}{dt}=\\frac{10^{5} L_{\\odot}}{0.007 c^{2} M_{\\odot}^{6}} M^{6}",
        "\\lambda_{\\text {red}}",
        "=5",
        "\\frac{1}{0}",
        "\\sum_{k=1}^{n} k",
        "x+1",
        "odd",
        "\\leftarrow",
    ] {
        assert!(equal(text, text) && check(text, text).equal, "{text}");
        assert!(check(text, &format!("\\boxed{{{text}}}")).equal, "{text}");
    }
    assert!(!equal("", "") && !check("", "").equal);
    let long = "a b".repeat(3_000);
    assert!(equal(&long, &long) && !equal(&long, &format!("{long}c")));
}
