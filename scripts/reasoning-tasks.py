#!/usr/bin/env python3
"""Compares configs/tasks/reasoning.toml with lm-evaluation-harness: prompts, targets and what filters take from answers.

    python3 scripts/reasoning-tasks.py rows DATA               writes rows of every task, made up here
    python3 scripts/reasoning-tasks.py config FILE             writes the configuration of a model of one small layer
    python3 scripts/reasoning-tasks.py answers RESULTS         replaces the answers in its records with some that are made up here, for
                                                               the next `spag eval`
    python3 scripts/reasoning-tasks.py compare DATA RESULTS    compares the samples of `spag eval` on them
    python3 scripts/reasoning-tasks.py record RESULTS FILE     writes what the package's filters take from these answers: the fixture
                                                               crates/spag-eval/tests/data/filters.json

`compare` renders the package's own YAML files and runs its own filters over the answers in RESULTS/samples_TASK.jsonl. It needs lm_eval 0.4.13 on the path (its files suffice: pip download --no-deps), jinja2, pyyaml, regex and word2number. The exit code is 1 if
anything differs.
"""
import csv, glob, importlib.util, json, os, sys

COT = "bbh/cot_zeroshot"
TASKS = {
    "gsm8k_cot": "gsm8k/gsm8k-cot.yaml",
    "gsm8k_cot_zeroshot": "gsm8k/gsm8k-cot-zeroshot.yaml",
    "hendrycks_math500": "hendrycks_math/hendrycks_math500.yaml",
    "minerva_math500": "minerva_math/minerva_math500.yaml",
    "aime24": "aime/aime24.yaml",
    "aime25": "aime/aime25.yaml",
    "gpqa_diamond_cot_zeroshot": "gpqa/cot_zeroshot/gpqa_diamond_cot_zeroshot.yaml",
}
CATEGORIES = ["biology", "business", "chemistry", "computer science", "economics", "engineering", "health", "history", "law", "math",
              "other", "philosophy", "physics", "psychology"]
# A prompt that is a function of a module with further needs.
MINERVA = "Problem:\n{{problem}}\n\nSolution:"


def package():
    # Without importing it, which needs torch.
    return importlib.util.find_spec("lm_eval").submodule_search_locations[0] + "/tasks"


def write(data, name, rows):
    os.makedirs(os.path.dirname(f"{data}/{name}"), exist_ok=True)
    with open(f"{data}/{name}", "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def rows(data):
    question = lambda i: f"Row {i}: what is {i}$ and 3,0{i} of \\frac{{1}}{{2}} (A)?"
    write(data, "gsm8k/test.jsonl", [{"question": question(i), "answer": f"It is {i}.\n#### 1,10{i}"} for i in range(3)])
    write(data, "gsm8k/cot-examples.jsonl", [{"question": f"Example {i}?", "target": f"So the answer is {i}."} for i in range(8)])
    write(data, "math500/test.jsonl", [{"problem": question(i), "solution": f"$\\boxed{{{i}}}$", "answer": str(i)} for i in range(3)])
    write(data, "math500/minerva-examples.jsonl", [{"problem": f"P{i}", "solution": f"S $\\boxed{{{i}}}$."} for i in range(4)])
    write(data, "aime/2024.jsonl", [{"Problem": question(i), "Answer": i} for i in range(2)])
    for name in ["aime/2025.jsonl"]:
        write(data, name, [{"problem": question(i), "answer": str(i)} for i in range(2)])
    for name in ["amc/2023.jsonl", "minerva/test.jsonl"]:
        write(data, name, [{"question": question(i), "answer": str(i)} for i in range(2)])
    write(data, "olympiadbench/OE_TO_maths_en_COMP.json", [])
    with open(f"{data}/olympiadbench/OE_TO_maths_en_COMP.json", "w", encoding="utf-8") as file:
        json.dump([{"question": question(i), "final_answer": [str(i)]} for i in range(2)], file)
    os.makedirs(f"{data}/gpqa", exist_ok=True)
    with open(f"{data}/gpqa/gpqa_diamond.csv", "w", encoding="utf-8", newline="") as file:
        out = csv.writer(file)
        out.writerow(["Question", "Correct Answer", "Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3"])
        out.writerows([question(i) + "\nline", f" right  {i} [title]x", f"w{i}a", f"w{i}b\n", f"W{i}, c"] for i in range(6))
    test = [{"question": question(i), "options": [f" o{k} " for k in range(3 + i % 8)], "answer": "B", "category": of, "cot_content": ""}
            for i, of in enumerate(CATEGORIES * 2)]
    write(data, "mmlu_pro/test.jsonl", test)
    write(data, "mmlu_pro/validation.jsonl", [
        {"question": f"Example {i}?", "options": ["a", "b"], "answer": "A", "category": of,
         "cot_content": "A: Let's think step by step. Hm. The answer is (A)."} for of in CATEGORIES for i in range(5)])
    for path in glob.glob(f"{package()}/{COT}/[a-z]*.yaml"):
        name = os.path.basename(path)[:-5]
        os.makedirs(f"{data}/bbh/descriptions", exist_ok=True)
        with open(f"{data}/bbh/descriptions/{name}.txt", "w", encoding="utf-8") as file:
            file.write(config(path)["description"])
        text = "Sort {}. List: pear fig apple" if name == "word_sorting" else "Is it {}?\nOptions:\n(A) first one\n(B) second\n(C) third, of"
        write(data, f"bbh/{name}.jsonl", [{"input": text.format(i), "target": "(A)"} for i in range(9)])


ANSWERS = [
    "The answer is 1,103.", "The answer is (B).", "the answer is Yes. Then more.", "So (A), or rather (C)", "It is third, of course",
    "Answer: B", "First one!", "True and False", "no, YES: it is plausible", "not plausible", "tells the truth; does not tell the truth",
    "fig apple fig pear", "valid invalid", "] ) > }", "There are 7 or -12", "$3.50 and 1,200", "#### 42", "The final answer: (C)", "", "?",
    "it is SECOND", "The answer: no.", "answer is (J)", "the Answer Is A", "The answer is 5\nThe answer is 6", "yes", "is telling the truth",
]


def answers(results):
    for place, path in enumerate(sorted(glob.glob(f"{results}/record_*.jsonl"))):
        head, *lines = open(path, encoding="utf-8").read().splitlines()
        made = [json.loads(line) | {"text": ANSWERS[(7 * place + 5 * at) % len(ANSWERS)]} for at, line in enumerate(lines)]
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join([head, *map(json.dumps, made)]) + "\n")


def config(path):
    """A task's settings with those of the files that it includes."""
    import yaml
    folder = os.path.dirname(path)

    class Loader(yaml.SafeLoader):
        pass

    def function(_, node):
        module, name = node.value.rsplit(".", 1)
        found = importlib.util.spec_from_file_location(module, f"{folder}/{module}.py")
        loaded = importlib.util.module_from_spec(found)
        try:
            found.loader.exec_module(loaded)
        except ImportError:
            return None  # Needs a package that prompts and filters do not.
        return getattr(loaded, name)

    Loader.add_constructor("!function", function)
    with open(path, encoding="utf-8") as file:
        own = yaml.load(file, Loader)
    base = own.pop("include", None)
    return {**(config(f"{folder}/{base}") if base else {}), **own}


def render(template, row):
    if callable(template):
        return template(row)
    from jinja2 import BaseLoader, Environment, StrictUndefined
    if template in row:
        return str(row[template])
    env = Environment(loader=BaseLoader(), undefined=StrictUndefined, keep_trailing_newline=True)
    return env.from_string(template).render(**row)


def filtered(settings, answer, row):
    """What each filter of the package takes from an answer."""
    from lm_eval.filters import extraction
    named = {"regex": extraction.RegexFilter, "multi_choice_regex": extraction.MultiChoiceRegexFilter}
    found = {}
    for one in settings.get("filter_list", []):
        step = dict(one["filter"][0])
        kind = step.pop("function")
        made = (named[kind] if isinstance(kind, str) else kind)(**step)
        found[one["name"]] = list(made.apply([[answer]], [row]))[0][0]
    return found


def read(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def tasks():
    """The YAML file of each task of ours that the package has."""
    known = {name: f"{package()}/{path}" for name, path in TASKS.items()}
    known |= {f"mmlu_pro_{of.replace(' ', '_')}": f"{package()}/mmlu_pro/mmlu_pro_{of.replace(' ', '_')}.yaml" for of in CATEGORIES}
    for path in glob.glob(f"{package()}/{COT}/[a-z]*.yaml"):
        known[f"bbh_cot_zeroshot_{os.path.basename(path)[:-5]}"] = path
    return dict(sorted(known.items()))


def record(results, path):
    import tomllib
    with open("configs/tasks/reasoning.toml", "rb") as file:
        ours = tomllib.load(file)["task"]
    cases, seen = [], set()
    for name, yaml in tasks().items():
        task = next(task for task in ours if name == task["name"] or name[len(task["name"]) + 1:] in task.get("subtasks", []))
        filters = task.get("filter", [])
        by_name = {one["name"]: one for one in (filters if isinstance(filters, list) else [filters])}
        settings = config(yaml)
        for sample in read(f"{results}/samples_{name}.jsonl"):
            answer, of = sample["resps"][0][0], by_name.get(sample["filter"])
            key = json.dumps([of, answer])
            if of is None or key in seen:
                continue
            seen.add(key)
            fields = {field: sample["doc"][field] for field in ["choices", "input"] if field in sample["doc"]}
            taken = filtered(settings, answer, sample["doc"])[sample["filter"]]
            cases.append({"filter": of, "fields": fields, "answer": answer, "taken": taken})
    with open(path, "w", encoding="utf-8") as file:
        file.write("[\n" + ",\n".join(map(json.dumps, cases)) + "\n]\n")


def compare(data, results):
    checked, wrong, known = 0, [], tasks()
    for name, path in known.items():
        settings, samples = config(path), read(f"{results}/samples_{name}.jsonl")
        prompt = settings["doc_to_text"] or MINERVA
        shots, target = [], settings["doc_to_target"]
        if name == "gsm8k_cot":
            shots = [(render(prompt, row), row["target"]) for row in read(f"{data}/gsm8k/cot-examples.jsonl")]
        elif name == "minerva_math500":
            shots = [(render(prompt, row), row["solution"]) for row in read(f"{data}/math500/minerva-examples.jsonl")]
        elif name.startswith("mmlu_pro"):
            of = name[len("mmlu_pro_"):].replace("_", " ")
            few = settings["fewshot_config"]
            shots = [(render(few["doc_to_text"], row), render(few["doc_to_target"], row))
                     for row in read(f"{data}/mmlu_pro/validation.jsonl") if row["category"] == of]
        before = settings.get("description", "") + "".join(f"{asked} {answer}\n\n" for asked, answer in shots)
        for sample in samples:
            row = dict(sample["doc"])
            if name.startswith("gpqa"):
                row |= {f"choice{i + 1}": text for i, text in enumerate(row["choices"])} | {"answer": f"({row['letter']})"}
            checked += 2
            for what, ours, theirs in [("prompt", sample["arguments"]["gen_args_0"]["arg_0"], before + render(prompt, row)),
                                       ("target", sample["target"], render(target, row) if target and not name.startswith("minerva") else sample["target"])]:
                if ours != theirs:
                    wrong.append((name, what, ours, theirs))
            for answer, ours in zip(sample["resps"][0], sample["filtered_resps"]):
                theirs = filtered(settings, answer, row).get(sample["filter"])
                checked += 1
                if theirs is not None and ours != theirs:
                    wrong.append((name, sample["filter"], answer, ours, theirs))
    for difference in wrong[:40]:
        print("\n".join(repr(part) for part in difference), "\n")
    print(f"{len(known)} tasks, {checked} comparisons, {len(wrong)} differ")
    return 1 if wrong else 0


def model(path):
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2,
             "max_position_embeddings": 8192, "vocab_size": 1024}
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "rms_norm_eps": 1e-5,
                   "rope_theta": 10000.0, "tie_word_embeddings": True, "bos_token_id": 1, "eos_token_id": 2, **sizes}, file)


if __name__ == "__main__":
    command, *folders = sys.argv[1:]
    sys.exit({"rows": rows, "config": model, "answers": answers, "record": record, "compare": compare}[command](*folders))
