"""Runs the tasks of this folder with lm-evaluation-harness and writes what the model said to every request.

    python evaluate.py hf pretrained=FOLDER,dtype=float32 OUT.json
    python evaluate.py local-completions model=NAME,base_url=URL/v1/completions,... OUT.json
    python evaluate.py hf pretrained=FOLDER,dtype=float32 OUT.json spag_letters spag_examples spag_blank
    CHAT=1 python evaluate.py hf pretrained=FOLDER,dtype=float32 OUT.json    with the model's chat template

The output has, for each task, `results` (metrics) and `answers`: of multiple choice a list of [log-likelihood, is greedy] for
each row, of rolling log-likelihoods a number, of generation a text.
"""

import json
import os
import pathlib
import sys

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_DATASETS_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

from lm_eval import simple_evaluate  # noqa: E402
from lm_eval.tasks import TaskManager  # noqa: E402

TASKS = ["spag_choice", "spag_greedy", "spag_rolling", "spag_answer"]


def plain(response):
    """Numbers and texts of a response, without tuples."""
    if isinstance(response, (list, tuple)):
        return [plain(part) for part in response]
    if isinstance(response, bool) or isinstance(response, str):
        return response
    return float(response)


def main():
    backend, arguments, out = sys.argv[1:4]
    tasks = sys.argv[4:] or TASKS
    # The data files of the tasks are named relative to their folder.
    out = pathlib.Path(out).resolve()
    os.chdir(pathlib.Path(__file__).parent / "tasks")
    found = simple_evaluate(
        model=backend,
        model_args=arguments,
        tasks=tasks,
        task_manager=TaskManager(include_path=".", include_defaults=False),
        batch_size=int(os.environ.get("BATCH_SIZE", "1")),
        log_samples=True,
        # Standard errors of means are not resampled; without this they are left out.
        apply_chat_template=bool(os.environ.get("CHAT")),
        fewshot_as_multiturn=bool(os.environ.get("CHAT")),
        bootstrap_iters=int(os.environ.get("BOOTSTRAP_ITERS", "0")),
        random_seed=0,
        numpy_random_seed=0,
        torch_random_seed=0,
        fewshot_random_seed=0,
    )
    report = {}
    for task in tasks:
        samples = sorted(found["samples"][task], key=lambda sample: sample["doc_id"])
        answers = [plain([response[0] for response in sample["resps"]]) for sample in samples]
        metrics = {name: value for name, value in found["results"][task].items() if isinstance(value, float)}
        report[task] = {"results": metrics, "answers": answers}
    out.write_text(json.dumps(report, ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    main()
