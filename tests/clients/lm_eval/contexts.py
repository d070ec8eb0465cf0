"""Writes the contexts and continuations that lm-evaluation-harness makes of the first rows of the tasks of this folder.

    python contexts.py MODEL TEMPLATE OUT.json

MODEL is a folder with a tokenizer, TEMPLATE a chat template. No model is asked and PyTorch is not needed. The output has, for
`plain`, `turns` (--apply_chat_template) and `one_message` (the same with --fewshot_as_multiturn False), and for each task, the
requests of each row: lists of [context, continuation], or [context] of generated answers.
"""

import json
import os
import pathlib
import sys

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_DATASETS_OFFLINE", "1")

import jinja2  # noqa: E402
from lm_eval import simple_evaluate  # noqa: E402
from lm_eval.api.model import LM  # noqa: E402
from lm_eval.tasks import TaskManager  # noqa: E402
from transformers import AutoTokenizer  # noqa: E402

TASKS = ["spag_choice", "spag_greedy", "spag_answer", "spag_letters", "spag_examples", "spag_blank", "spag_blank_shots"]
ROWS = 3
FORMATS = {"plain": (False, False), "turns": (True, True), "one_message": (True, False)}


class Recorder(LM):
    """Keeps the requests, and answers them with nothing in particular."""

    def __init__(self, model, template):
        super().__init__()
        self.tokenizer = AutoTokenizer.from_pretrained(model)
        self.tokenizer.chat_template = template
        self.asked = {}

    @property
    def tokenizer_name(self):
        return "recorder"

    def chat_template(self, chat_template=False):
        return self.tokenizer.chat_template

    def apply_chat_template(self, chat_history, add_generation_prompt=True):
        def render(messages):
            return self.tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=add_generation_prompt
            )

        try:
            return render(chat_history)
        except jinja2.exceptions.TemplateError:
            # As the backend `hf` does.
            return render([message for message in chat_history if message["role"] != "system"])

    def keep(self, requests, texts):
        for request in requests:
            rows = self.asked.setdefault(request.task_name, {})
            rows.setdefault(request.doc_id, []).append(list(request.args[:texts]))

    def loglikelihood(self, requests):
        self.keep(requests, 2)
        return [(-1.0, False)] * len(requests)

    def loglikelihood_rolling(self, requests):
        self.keep(requests, 1)
        return [-1.0] * len(requests)

    def generate_until(self, requests):
        self.keep(requests, 1)
        return [""] * len(requests)


def requests(model, template, apply_chat_template, fewshot_as_multiturn):
    recorder = Recorder(model, template)
    simple_evaluate(
        model=recorder,
        tasks=TASKS,
        task_manager=TaskManager(include_path=".", include_defaults=False),
        limit=ROWS,
        log_samples=False,
        bootstrap_iters=0,
        apply_chat_template=apply_chat_template,
        fewshot_as_multiturn=fewshot_as_multiturn,
        random_seed=0,
        numpy_random_seed=0,
        torch_random_seed=None,
        fewshot_random_seed=0,
    )
    return {task: [rows[row] for row in sorted(rows)] for task, rows in sorted(recorder.asked.items())}


def main():
    model, template, out = (pathlib.Path(path).resolve() for path in sys.argv[1:4])
    # The data files of the tasks are named relative to their folder.
    os.chdir(pathlib.Path(__file__).parent / "tasks")
    text = template.read_text()
    found = {name: requests(str(model), text, *flags) for name, flags in FORMATS.items()}
    out.write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    main()
