#!/usr/bin/env python3
"""Writes pairs of a reference answer and a completion with the verdicts of math-verify, for crates/spag-math.

    pip install math-verify==0.9.0 "latex2sympy2_extended==1.11.0"
    python3 scripts/math-pairs.py 2400 7 > pairs.json

COUNT pairs are drawn with SEED: numbers, fractions, roots, powers, per cents, lists, intervals, equations, formulas, units, letters and
texts, each written in another way or changed a little, in sentences, boxes and formulas.

    pip install math-verify==0.9.0 sympy "antlr4-python3-runtime==4.11" && pip install --no-deps lm_eval==0.4.13
    python3 scripts/math-pairs.py harness target/release/spag [PAIRS.json]

compares the verdicts of `spag check` on these 2,400 pairs, or on those of a file, with the comparisons of hendrycks_math and minerva_math in
lm-evaluation-harness, which get the answer that `spag check` has extracted. It prints the disagreements by kind, with an example of each. It
needs an environment of its own: with antlr 4.11, math-verify gives other verdicts on per cents.
"""

import collections
import importlib.util
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import types
from fractions import Fraction


def whole(r):
    return r.choice([r.randint(-20, 20), r.randint(-999, 9999), r.randint(1000, 2_000_000)])


def integers(r):
    n = whole(r)
    other = n + r.choice([-1, 1, 10, -n * 2 if n else 1])
    ways = [f"{n}", f"{n}.0", f"{n}.00", f"{n:,}", f"\\frac{{{2 * n}}}{{2}}", f"{3 * n}/3", f"{n}\\text{{ cm}}", f"x = {n}", f"\\${n}",
            f"{n}^\\circ", f"{n}\\text{{ dollars}}", f"{n - 7}+7", f"({n})", f"{n} \\text{{ apples}}", f"n={n}", f"\\text{{{n}}}"]
    if n >= 0:
        ways += [f"+{n}", f"\\sqrt{{{n * n}}}", f"{n}^1", f"|{-n}|"]
    return f"{n}", r.choice(ways), r.choice([f"{other}", f"{other}.0", f"\\frac{{{other}}}{{1}}", f"x={other}", f"{n}x"])


def fractions(r):
    a, b = r.randint(-60, 60), r.randint(2, 25)
    f = Fraction(a, b)
    k = r.randint(2, 6)
    ways = [f"\\frac{{{a}}}{{{b}}}", f"\\dfrac{{{a}}}{{{b}}}", f"{a}/{b}", f"\\frac{{{k * a}}}{{{k * b}}}", f"-\\frac{{{-a}}}{{{b}}}",
            f"{float(f):.8f}", f"\\tfrac{{{a}}}{{{b}}}", f"x=\\frac{{{a}}}{{{b}}}", f"{a} \\div {b}", f"\\left(\\frac{{{a}}}{{{b}}}\\right)",
            f"{a}\\cdot\\frac{{1}}{{{b}}}"]
    if f > 1 and f.denominator > 1:
        whole_part, rest = divmod(f.numerator, f.denominator)
        ways.append(f"{whole_part}\\frac{{{rest}}}{{{f.denominator}}}")
    wrong = [f"\\frac{{{a + 1}}}{{{b}}}", f"\\frac{{{a}}}{{{b + 1}}}", f"{float(f):.2f}1", f"\\frac{{{b}}}{{{a or 1}}}", f"{a}{b}"]
    return f"\\frac{{{a}}}{{{b}}}", r.choice(ways), r.choice(wrong)


def decimals(r):
    n, places = r.randint(-5000, 50000), r.randint(1, 4)
    text = f"{n / 10 ** places:.{places}f}"
    ways = [text, text + "0", f"\\frac{{{n}}}{{{10 ** places}}}", f"{n}/{10 ** places}", f"{text}\\text{{ m}}", f"\\${text}", f"x={text}",
            f"{n}\\times 10^{{-{places}}}", f"{n / 10 ** (places - 2):.4f}\\%"]
    return text, r.choice(ways), r.choice([text + "1", f"{(n + 1) / 10 ** places:.{places}f}", f"{n}"])


def roots(r):
    a, b = r.randint(1, 9), r.choice([2, 3, 5, 6, 7, 10, 11])
    ways = [f"{a}\\sqrt{{{b}}}", f"\\sqrt{{{a * a * b}}}", f"{a}\\cdot\\sqrt{{{b}}}", f"\\sqrt{{{b}}}\\cdot {a}", f"{a} \\sqrt {b}" if b < 10 else f"{a}\\sqrt{{{b}}}",
            f"{a}\\cdot {b}^{{1/2}}", f"\\frac{{{a * b}}}{{\\sqrt{{{b}}}}}", f"{a * b ** 0.5:.9f}", f"{a}*{b}^{{\\frac{{1}}{{2}}}}"]
    return f"{a}\\sqrt{{{b}}}", r.choice(ways), r.choice([f"{a + 1}\\sqrt{{{b}}}", f"{a}\\sqrt{{{b + 1}}}", f"\\sqrt{{{a * b}}}" if a > 1 else "2", f"{a * b ** 0.5:.3f}"])


def circles(r):
    a, b = r.randint(2, 12), r.randint(2, 9)
    ways = [f"\\frac{{{a}\\pi}}{{{b}}}", f"\\frac{{{a}}}{{{b}}}\\pi", f"{a}\\pi/{b}", f"\\pi\\cdot\\frac{{{a}}}{{{b}}}", f"\\dfrac{{{2 * a}\\pi}}{{{2 * b}}}"]
    return f"\\frac{{{a}\\pi}}{{{b}}}", r.choice(ways), r.choice([f"\\frac{{{a + 1}\\pi}}{{{b}}}", f"\\frac{{{a}}}{{{b}}}", f"{a * 3.14159265 / b:.2f}"])


def powers(r):
    a, n = r.randint(2, 9), r.randint(2, 8)
    ways = [f"{a}^{n}", f"{a}^{{{n}}}", f"{a ** n}", f"{a ** n:,}", f"{a}\\cdot {a}^{{{n - 1}}}", f"\\frac{{{a}^{{{n + 1}}}}}{{{a}}}"]
    return f"{a}^{{{n}}}", r.choice(ways), r.choice([f"{a}^{{{n + 1}}}", f"{a ** n + 1}", f"{a * n + 1}"])


def percents(r):
    n = r.randint(1, 250)
    ways = [f"{n}\\%", f"{n}", f"{n / 100}", f"\\frac{{{n}}}{{100}}", f"{n}.0\\%"]
    return f"{n}\\%", r.choice(ways), r.choice([f"{n + 1}\\%", f"{n + 1}", f"{n * 10}\\%"])


def sets(r):
    members = r.sample(range(-9, 10), r.randint(2, 4))
    other = members[:]
    r.shuffle(other)
    listed = lambda values, sep: sep.join(map(str, values))
    ways = [f"\\{{{listed(other, ', ')}\\}}", f"\\{{{listed(other, ',')}\\}}", listed(other, ", "), f"\\left\\{{{listed(other, ',')}\\right\\}}",
            f"x = {members[0]}" + "".join(f" \\text{{ or }} x = {m}" for m in members[1:]) if len(members) == 2 else listed(members, ",")]
    wrong = [f"\\{{{listed(other[1:], ', ')}\\}}", f"\\{{{listed([m + 1 for m in other], ', ')}\\}}", f"\\{{{listed(other + [20], ', ')}\\}}"]
    return f"\\{{{listed(members, ', ')}\\}}", r.choice(ways), r.choice(wrong)


def tuples(r):
    a = [r.randint(-9, 9) for _ in range(r.choice([2, 2, 3]))]
    if len(set(a)) < len(a) or a[0] >= a[1]:
        a = [1, 5] if len(a) == 2 else [4, 1, 7]
    text = ", ".join(map(str, a))
    ways = [f"({text})", f"\\left({text}\\right)", "(" + ",".join(map(str, a)) + ")", f"({a[0]}.0, " + ", ".join(map(str, a[1:])) + ")",
            f"({2 * a[0]}/2, " + ", ".join(map(str, a[1:])) + ")"]
    wrong = ["(" + ", ".join(map(str, a[::-1])) + ")", f"({text}, 1)", f"[{text}]", f"({a[0] + 1}, " + ", ".join(map(str, a[1:])) + ")"]
    return f"({text})", r.choice(ways), r.choice(wrong)


def intervals(r):
    a = r.randint(-9, 5)
    b = a + r.randint(1, 8)
    o, c = r.choice("(["), r.choice(")]")
    if (o, c) == ("(", ")"):
        o = "["
    low, high = r.choice([(a, b), (a, b), (a, "\\infty")])
    if high == "\\infty":
        c = ")"
    ways = [f"{o}{low}, {high}{c}", f"{o}{low},{high}{c}", f"\\left{o}{low},{high}\\right{c}"]
    wrong = [f"{'(' if o == '[' else '['}{low},{high}{c}", f"{o}{a - 1},{high}{c}"]
    return f"{o}{low}, {high}{c}", r.choice(ways), r.choice(wrong)


def formulas(r):
    v = r.choice("xyntk")
    a, b = r.randint(2, 9), r.randint(1, 9)
    kind = r.randrange(6)
    if kind == 0:
        return f"{a}{v}+{b}", r.choice([f"{b}+{a}{v}", f"{a}\\cdot {v}+{b}", f"{a}*{v}+{b}", f"{a}({v}+\\frac{{{b}}}{{{a}}})"]), f"{a}{v}+{b + 1}"
    if kind == 1:
        return f"{v}^2+{a + b}{v}+{a * b}", r.choice([f"({v}+{a})({v}+{b})", f"{a * b}+{a + b}{v}+{v}^2", f"({v}+{b})\\cdot({v}+{a})"]), f"({v}+{a})({v}-{b})"
    if kind == 2:
        return f"\\frac{{{a}}}{{{v}+{b}}}", r.choice([f"{a}/({v}+{b})", f"{a}({v}+{b})^{{-1}}", f"\\frac{{{2 * a}}}{{2{v}+{2 * b}}}"]), f"\\frac{{{a}}}{{{v}-{b}}}"
    if kind == 3:
        return f"{v}^{{{a}}}", r.choice([f"{v}^{{{a - 1}}}\\cdot {v}", f"{v}^{a}"]), f"{v}^{{{a + 1}}}"
    if kind == 4:
        return f"y={a}{v if v != 'y' else 'x'}+{b}", r.choice([f"y={b}+{a}{v if v != 'y' else 'x'}", f"{a}{v if v != 'y' else 'x'}+{b}"]), f"y={a}{v if v != 'y' else 'x'}-{b}"
    return f"\\sqrt{{{v}+{a}}}", r.choice([f"({v}+{a})^{{1/2}}", f"\\sqrt{{{a}+{v}}}"]), f"\\sqrt{{{v}-{a}}}"


def functions(r):
    a = r.randint(2, 9)
    return r.choice([
        (f"\\ln {a}", f"\\ln({a})", f"\\ln({a + 1})"),
        (f"e^{{{a}}}", f"e^{a}", f"e^{{{a + 1}}}"),
        ("\\sin x", r.choice(["\\sin(x)", "\\sin{x}"]), "\\cos x"),
        (f"{a}!", "1" + "".join(f"\\cdot {i}" for i in range(2, a + 1)), f"{a + 1}!"),
        (f"\\binom{{{a + 2}}}{{2}}", str((a + 2) * (a + 1) // 2), str(a * a + 7)),
        (f"{a}+{a + 1}i", r.choice([f"{a + 1}i+{a}", f"{a} + {a + 1}i"]), f"{a}-{a + 1}i"),
        (f"\\log_2 {2 ** a}", str(a), str(a + 1)),
        (f"{a} \\pm \\sqrt{{{a + 1}}}", f"{a}+\\sqrt{{{a + 1}}}, {a}-\\sqrt{{{a + 1}}}", f"{a}+\\sqrt{{{a}}}, {a}-\\sqrt{{{a + 1}}}"),
        (f"x \\ge {a}", r.choice([f"x \\geq {a}", f"{a} \\le x"]), f"x > {a}"),
        (f"(-\\infty, {a}) \\cup ({a + 2}, \\infty)", f"(-\\infty,{a})\\cup({a + 2},\\infty)", f"(-\\infty,{a}]\\cup({a + 2},\\infty)"),
        (f"\\begin{{pmatrix}} {a} \\\\ {a + 1} \\end{{pmatrix}}", f"\\begin{{pmatrix}}{a}\\\\{a + 1}\\end{{pmatrix}}", f"\\begin{{pmatrix}}{a}\\\\{a}\\end{{pmatrix}}"),
        (f"{a}:{a + 1}", f"\\frac{{{a}}}{{{a + 1}}}", f"{a + 1}:{a}"),
    ])


def texts(r):
    letter = r.choice("ABCDE")
    other = r.choice([c for c in "ABCDE" if c != letter])
    if r.random() < 0.6:
        return letter, r.choice([letter, f"({letter})", f"\\text{{{letter}}}", f"\\text{{({letter})}}", f"\\textbf{{({letter})}}"]), r.choice([other, f"\\text{{{other}}}", f"({other})"])
    word, wrong = r.sample(["even", "odd", "Monday", "Friday", "yes", "east", "ellipse", "parabola"], 2)
    return f"\\text{{{word}}}", r.choice([f"\\text{{{word}}}", f"\\textbf{{{word}}}"]), f"\\text{{{wrong}}}"


KINDS = [integers, integers, fractions, fractions, decimals, roots, circles, powers, percents, sets, tuples, intervals, formulas, formulas, functions, texts]


def completion(r, answer, boxed_only):
    ways = [
        f"\\boxed{{{answer}}}", f"The answer is \\boxed{{{answer}}}.", f"$\\boxed{{{answer}}}$", f"Adding up, we find\n\\[ \\boxed{{{answer}}} \\]\nas asked.",
        f"At first \\boxed{{1}} seemed right. In the end it is \\boxed{{{answer}}}", f"So $${answer}$$ holds, hence \\boxed{{{answer}}}", f"**Answer**: $\\boxed{{{answer}}}$",
        f"\\boxed{{ {answer} }}",
    ]
    if not boxed_only:
        ways += [f"Therefore the final answer is ${answer}$.", f"The final answer is $${answer}$$", f"Hence\n\\[{answer}\\]", f"which gives \\({answer}\\)."]
    return r.choice(ways)


def drawn(count, seed):
    """Gold, completion, and whether the completion was written to be equal."""
    r, known = random.Random(seed), set()
    while len(known) < count:
        kind = r.choice(KINDS)
        gold, right, wrong = kind(r)
        equal = r.random() < 0.65
        text = completion(r, right if equal else wrong, kind is texts)
        if (gold, text) not in known:
            known.add((gold, text))
            yield gold, text, equal


def write(count, seed):
    from math_verify import parse, verify
    pairs = []
    for gold, text, _ in drawn(int(count), int(seed)):
        try:
            equal = bool(verify(parse(f"${gold}$"), parse(text)))
        except Exception:
            equal = False
        pairs.append({"gold": gold, "answer": text, "equal": equal})
    print("[\n" + ",\n".join(json.dumps(pair) for pair in pairs) + "\n]")


def utils(task):
    """A task's module. Importing it from the package needs torch."""
    sys.modules.setdefault("datasets", types.SimpleNamespace(Dataset=None))
    root = importlib.util.find_spec("lm_eval").submodule_search_locations[0]
    spec = importlib.util.spec_from_file_location(task, f"{root}/tasks/{task}/utils.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def difference(gold, answer):
    """How two answers differ as texts."""
    bare = [re.sub(r"\\(left|right|cdot|text(bf)?)\b|[\s\\{}()\[\]*]", "", re.sub("[dt]frac", "frac", text)) for text in (gold, answer)]
    if "%" in gold + answer:
        return "per cents"
    if bare[0] == bare[1]:
        return "braces, brackets, blanks, fonts and signs of products"
    if sorted(bare[0]) == sorted(bare[1]):
        return "order"
    if "text" in answer or "=" in answer:
        return "units, words and names"
    return "formulas" if re.search(r"(?<![\\a-z])[a-z](?![a-z])", gold) else "ways to write a number"


def harness(spag, path=None):
    if path:
        with open(path, encoding="utf-8") as file:
            pairs = [(pair["gold"], pair["answer"], pair["equal"]) for pair in json.load(file)]
    else:
        pairs = list(drawn(2400, 7))
    with tempfile.TemporaryDirectory() as folder:
        asked, told = os.path.join(folder, "pairs.jsonl"), os.path.join(folder, "verdicts.jsonl")
        with open(asked, "w", encoding="utf-8") as file:
            file.writelines(json.dumps({"gold": gold, "answer": text}) + "\n" for gold, text, _ in pairs)
        subprocess.run([spag, "check", "--input", asked, "--output", told], check=True, stdout=subprocess.DEVNULL)
        with open(told, encoding="utf-8") as file:
            ours = [json.loads(line) for line in file]

    hendrycks, minerva = utils("hendrycks_math"), utils("minerva_math")

    def final(answer):
        said = minerva.get_unnormalized_answer(f"Final Answer: The final answer is ${answer}$. I hope it is correct.")
        return minerva.normalize_final_answer(said)

    def whole(gold, text, _):
        return hendrycks.process_results({"solution": f"\\boxed{{{gold}}}"}, [text])["exact_match"]

    comparisons = {
        "hendrycks_math, whole completions": whole,
        "hendrycks_math": lambda gold, _, answer: hendrycks.is_equiv(answer, gold),
        "minerva_math": lambda gold, _, answer: minerva.is_equiv(final(answer), minerva.normalize_final_answer(gold)),
    }
    for name, compare in comparisons.items():
        kinds, as_made = collections.defaultdict(list), 0
        for (gold, text, equal), verdict in zip(pairs, ours):
            answer = verdict["extracted"] or ""
            if bool(compare(gold, text, answer)) != verdict["equal"]:
                lost = compare is whole and hendrycks.is_equiv(answer, gold)
                kinds[verdict["equal"], "an answer that is not found" if lost else difference(gold, answer)].append(f"{gold}  |  {answer}")
                as_made += verdict["equal"] == equal
        differ = sum(map(len, kinds.values()))
        print(f"{name}: {len(pairs)} pairs, {differ} differ; in {as_made} of these ours is as the pair was made")
        for (equal, kind), found in sorted(kinds.items(), key=lambda item: -len(item[1])):
            print(f"  {len(found):5} {'equal' if equal else 'unequal'} here, {kind}:  {random.Random(1).choice(found)}")


if __name__ == "__main__":
    if sys.argv[1] == "harness":
        harness(*sys.argv[2:])
    else:
        write(*sys.argv[1:])
