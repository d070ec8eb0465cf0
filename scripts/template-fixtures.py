#!/usr/bin/env python3
"""Writes tests/fixtures/chat_templates/expressions.json: what transformers renders of the templates in expressions.txt.

Each line of expressions.txt is a template, where `⏎` is a line break. Needs transformers==5.23.0 and jinja2==3.1.6:

    python3 scripts/template-fixtures.py
"""

import json
import pathlib

from transformers.utils.chat_template_utils import _compile_jinja_template

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "tests" / "fixtures" / "chat_templates"
VARIABLES = {
    "messages": [
        {"role": "user", "content": "Hi there"},
        {"role": "assistant", "content": "Yes, I see."},
        {"role": "user", "content": "Bye!"},
    ],
    "tools": None,
    "documents": None,
    "add_generation_prompt": True,
    "data": {"b": [1, 2.5, None, True], "a": {"é": '"🐎\n', "z": -0.0}, "c": [], "d": {}, "n": 10**15},
    "people": [
        {"name": "Bo", "age": 30, "town": {"id": 2}},
        {"name": "al", "age": 25, "town": {"id": 1}},
        {"name": "Cy", "age": 30, "town": {"id": 1}},
    ],
    "tree": [{"v": 1, "kids": [{"v": 2, "kids": []}, {"v": 3, "kids": [{"v": 4, "kids": []}]}]}, {"v": 5, "kids": []}],
}

cases = []
for line in (FOLDER / "expressions.txt").read_text(encoding="utf-8").splitlines():
    if not line or line.startswith("##"):
        continue
    template = line.replace("⏎", "\n")
    try:
        cases.append({"template": template, "rendered": _compile_jinja_template(template).render(**VARIABLES)})
    except Exception as error:
        cases.append({"template": template, "error": f"{type(error).__name__}: {error}"})

with open(FOLDER / "expressions.json", "w", encoding="utf-8") as file:
    json.dump({"variables": VARIABLES, "cases": cases}, file, ensure_ascii=False, indent=1)
    file.write("\n")
print(len(cases), "cases,", sum("error" in case for case in cases), "errors")
