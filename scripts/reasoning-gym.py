#!/usr/bin/env python3
"""Makes the rows of configs/tasks/reasoning-gym.toml with the Python package reasoning-gym, and scores answers as the package does.

    pip install reasoning-gym==0.1.25
    python3 scripts/reasoning-gym.py rows --output DATA                       writes DATA/NAME.jsonl and, for the examples before each
                                                                              question, DATA/NAME-shots.jsonl
    python3 scripts/reasoning-gym.py score --data DATA --results RESULTS      compares the exact match of `spag eval --output_dir RESULTS`
                                                                              with the scores of the package, for each model
    python3 scripts/reasoning-gym.py answers --data DATA --results RESULTS    replaces the answers in its records with the right ones, for
                                                                              the next `spag eval`

`rows` writes the same bytes in every call with the same --rows and --seed. A row has `question`, `answer`, the number of possible
answers (`choices`) where it is known, and `dataset`, `seed` and `index`, from which `score` makes the package's entry again. `score` exits with 1 if
the package gives less than 1 to an answer that the exact match counts as right.
"""
import argparse, collections, contextlib, functools, glob, io, json, os, sys

import reasoning_gym

YES, TRUE, WEEKDAYS = ["Yes", "No"], ["True", "False"], ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
# NAME: dataset, settings, possible answers. A comment says what the settings do; most make rows easier than those of the package, which are
# too hard for models of 100M to 1B parameters. Possible answers are
# - a list: rows have each of them equally often, so that a constant answer scores 1/choices;
# - a number, if each row has its own answers to choose from;
# - None, if they are not known.
TASKS = {
    # Two numbers of one or two digits, where the package has up to six of four.
    "chain_sum": ("chain_sum", {"max_terms": 2, "max_digits": 2}, None),
    # Numbers up to 50, not 1,000.
    "gcd": ("gcd", {"max_value": 50}, None),
    # One or two kinds of animals, at most five of each.
    "leg_counting": ("leg_counting", {"min_animals": 1, "max_animals": 2, "max_instances": 5}, None),
    # Two of the package's seven kinds of questions about dates, those with few possible answers; years from 1522 to 2522.
    "weekday": ("calendar_arithmetic", {"tasks": ["weekday_of_date"]}, WEEKDAYS),
    "leap_year": ("calendar_arithmetic", {"tasks": ["is_leap_year"], "leap_year_range": 1000}, YES),
    # Two terms with numbers up to 10: a*x + b = c.
    "simple_equations": ("simple_equations", {"max_terms": 2, "max_value": 10}, None),
    # Half of the conclusions are invalid. The package's 30% need more draws for equal shares of Yes and No.
    "syllogism": ("syllogism", {"invalid_ratio": 0.5}, YES),
    # The smallest circuits: two gates of two inputs each.
    "circuit_logic": ("circuit_logic", {"min_terms": 2, "max_terms": 2, "max_inputs": 2}, ["0", "1"]),
    # As in the package: two people, each of one of two kinds.
    "knights_knaves": ("knights_knaves", {}, 4),
    # Two houses; the answer is one of two names.
    "zebra_puzzles": ("zebra_puzzles", {"num_people": 2, "num_characteristics": 2}, ["alice", "arnold"]),
    # Small families and groups; rows with other answers, if any, are left out.
    "aiw": ("aiw", {"max_entities": 3}, ["2", "3", "4"]),
    # Strings of at most five characters.
    "isomorphic_strings": ("isomorphic_strings", {"max_string_length": 5}, TRUE),
    # At most three letters from at most six.
    "ransom_note": ("ransom_note", {"max_note_length": 3, "max_magazine_length": 6}, TRUE),
    # Two to four words.
    "letter_counting": ("letter_counting", {"min_words": 2, "max_words": 4}, None),
    # Words of three or four letters.
    "spell_backward": ("spell_backward", {"max_word_len": 4}, None),
    # Three words.
    "word_sorting": ("word_sorting", {"min_words": 3, "max_words": 3}, None),
    # Four statements about four people, one of whom is asked for.
    "needle_haystack": ("needle_haystack", {"min_num_statements": 4, "max_num_statements": 4}, 4),
    # The simplest rules.
    "number_sequence": ("number_sequence", {"max_complexity": 1, "min_value": 0, "max_value": 20}, None),
    # One rotation; the cube has six colours.
    "color_cube_rotation": ("color_cube_rotation", {"max_rotations": 1}, 6),
    # One to three rounds, where the package has 10 to 50.
    "mahjong_puzzle": ("mahjong_puzzle", {"min_num_rounds": 1, "max_num_rounds": 3}, ["Peng", "Chi", "Pass"]),
    # Two to four steps.
    "maze": ("maze", {"min_dist": 2, "max_dist": 4}, ["2", "3", "4"]),
    # The third angle of a triangle.
    "simple_geometry": ("simple_geometry", {"max_sides": 3}, None),
    # Four courses.
    "course_schedule": ("course_schedule", {"min_num_courses": 4, "max_num_courses": 4}, TRUE),
    # The smallest families.
    "family_relationships": ("family_relationships", {"max_family_size": 4}, None),
    # As in the package.
    "acre": ("acre", {}, ["on", "off", "undetermined"]),
    # The simplest programs, each of which prints a word.
    "bf": ("bf", {"difficulty": 1}, None),
}
SHOTS = 3
# The package draws entry i of a dataset with the seed s from seed s + i. The seeds of rows and examples are this far apart, so that
# they share no entry.
APART = 1_000_000
# The size of a dataset. The entries of acre depend on it.
MAX_DRAWS = 10_000


@functools.cache
def dataset(name, seed):
    of, settings, _ = TASKS[name]
    return reasoning_gym.create_dataset(of, seed=seed, size=MAX_DRAWS, **settings)


def entry(name, seed, index):
    with contextlib.redirect_stdout(io.StringIO()):  # Some datasets print their progress.
        return dataset(name, seed)[index]


def drawn(name, seed, seen):
    """Rows with questions that are not in `seen`."""
    of, _, answers = TASKS[name]
    for index in range(MAX_DRAWS):
        made = entry(name, seed, index)
        if made["question"] not in seen:
            seen.add(made["question"])
            row = {"question": made["question"], "answer": made["answer"], "dataset": of, "seed": seed, "index": index}
            yield row | ({"choices": answers if isinstance(answers, int) else len(answers)} if answers else {})
    sys.exit(f"{name}: {MAX_DRAWS} draws do not have so many different questions; ask for fewer --rows")


def shots(name, seed, seen):
    """The first rows, with two different answers at least."""
    source = drawn(name, seed, seen)
    first = [next(source) for _ in range(SHOTS - 1)]
    return first + [next(row for row in source if len({one["answer"] for one in [*first, row]}) > 1)]


def balanced(name, seed, seen, number):
    """Rows among which possible answers that are listed are equally frequent."""
    answers, counts, rows = TASKS[name][2], collections.Counter(), []
    for row in drawn(name, seed, seen):
        if len(rows) == number:
            return rows
        if not isinstance(answers, list) or row["answer"] in answers and counts[row["answer"]] <= len(rows) // len(answers):
            counts[row["answer"]] += 1
            rows.append(row)


def write(path, rows):
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def read(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def make(args):
    os.makedirs(args.output, exist_ok=True)
    print(f"{'task':<22}{'rows':>6}{'choices':>9}{'answers':>9}{'most frequent':>15}")
    for name in TASKS:
        seen, seed = set(), args.seed * 2 * APART
        examples = shots(name, seed + APART, seen)
        rows = balanced(name, seed, seen, args.rows)
        write(f"{args.output}/{name}-shots.jsonl", examples)
        write(f"{args.output}/{name}.jsonl", rows)
        answers = collections.Counter(row["answer"] for row in rows)
        print(f"{name:<22}{len(rows):>6}{rows[0].get('choices', '-'):>9}{len(answers):>9}{max(answers.values()) / len(rows):>15.0%}")


def score(args):
    wrong, imperfect = 0, 0
    print(f"{'task':<22}{'model':<26}{'rows':>6}{'chance':>8}{'exact match':>13}{'package':>9}{'differ':>8}")
    for name in TASKS:
        rows = read(f"{args.data}/{name}.jsonl")
        for path in sorted(glob.glob(f"{glob.escape(args.results)}/*/samples_rg_{name}.jsonl")):
            ours, theirs, differ = [], [], 0
            for sample in read(path):
                row = rows[sample["doc_id"]]
                made = entry(name, row["seed"], row["index"])
                if not row["question"] == sample["doc"]["question"] == made["question"]:
                    sys.exit(f"{path}: row {sample['doc_id'] + 1} is not that of {args.data} and of this script's settings")
                taken = sample["filtered_resps"]
                scores = [dataset(name, row["seed"]).score_answer(answer, made) for answer in taken]
                right = sum(score > 1 - 1e-9 for score in scores) / len(scores)
                ours.append(sample["exact_match"])
                theirs.append(sum(scores) / len(scores))
                differ += abs(ours[-1] - right) > 1e-9
                if ours[-1] > right + 1e-9:
                    wrong += 1
                    print(f"{path}: row {sample['doc_id'] + 1}: {taken} counts as right, and the package gives {scores}", file=sys.stderr)
            imperfect += min(ours) < 1 or min(theirs) < 1
            model, chance = os.path.basename(os.path.dirname(path)), f"{1 / rows[0]['choices']:.3f}" if "choices" in rows[0] else "-"
            mean = lambda values: sum(values) / len(values)
            print(f"{name:<22}{model:<26}{len(ours):>6}{chance:>8}{mean(ours):>13.3f}{mean(theirs):>9.3f}{differ:>8}")
    return bool(wrong or args.all_right and imperfect)


def answers(args):
    for name in TASKS:
        rows = read(f"{args.data}/{name}.jsonl")
        for path in glob.glob(f"{glob.escape(args.results)}/*/record_rg_{name}.jsonl"):
            head, *lines = read(path)
            # Every other one in a sentence, in which the filter has to find it.
            text = lambda at: f" {rows[at]['answer']}" if at % 2 else f" The answer is {rows[at]['answer']}."
            write(path, [head, *(line | {"text": text(line["row"])} for line in lines)])


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":
        # isomorphic_strings and ransom_note draw from sets, whose order depends on it.
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | {"PYTHONHASHSEED": "0"})
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("rows")
    command.add_argument("--output", required=True)
    command.add_argument("--rows", type=int, default=100)
    command.add_argument("--seed", type=int, default=0, help="rows of different seeds are drawn independently")
    command.set_defaults(run=make)
    for name, run in [("score", score), ("answers", answers)]:
        command = commands.add_parser(name)
        command.add_argument("--data", required=True)
        command.add_argument("--results", required=True)
        command.set_defaults(run=run)
    commands.choices["score"].add_argument("--all_right", action="store_true", help="exit with 1 unless all scores are 1")
    args = parser.parse_args()
    sys.exit(args.run(args))
