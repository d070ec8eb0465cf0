#!/usr/bin/env python3
"""Writes tests/fixtures/sampling.json: distributions that the logits processors of transformers make of random logits.

    python scripts/sampling-fixtures.py tests/fixtures/sampling.json

Needs torch and transformers. The order is vLLM's: biases, the repetition penalty, the frequency and the presence penalty (which
transformers has not; they are two lines here), the temperature, min-p, top-k, top-p.
"""

import json
import sys

import torch
from transformers.generation.logits_process import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    SequenceBiasLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

SIZE = 48


class OpenAiPenalties:
    def __init__(self, prompt, frequency, presence):
        self.prompt, self.frequency, self.presence = prompt, frequency, presence

    def __call__(self, ids, scores):
        counts = torch.bincount(ids[0, self.prompt :], minlength=scores.shape[-1]).to(scores.dtype)
        return scores - self.frequency * counts - self.presence * (counts > 0)


def case(generator, settings):
    logits = torch.randn(1, SIZE, generator=generator) * 3
    prompt = torch.randint(SIZE, (6,), generator=generator).tolist()
    completion = torch.randint(SIZE // 3, (9,), generator=generator).tolist()
    ids = torch.tensor([prompt + completion])
    steps = LogitsProcessorList()
    if bias := settings.get("logit_bias"):
        steps.append(SequenceBiasLogitsProcessor([[[int(token)], value] for token, value in bias.items()]))
    if "repetition_penalty" in settings:
        steps.append(RepetitionPenaltyLogitsProcessor(settings["repetition_penalty"]))
    steps.append(
        OpenAiPenalties(len(prompt), settings.get("frequency_penalty", 0.0), settings.get("presence_penalty", 0.0))
    )
    steps.append(TemperatureLogitsWarper(settings["temperature"]))
    if "min_p" in settings:
        steps.append(MinPLogitsWarper(settings["min_p"]))
    if "top_k" in settings:
        steps.append(TopKLogitsWarper(settings["top_k"]))
    if "top_p" in settings:
        steps.append(TopPLogitsWarper(settings["top_p"]))
    log_probs = torch.log_softmax(steps(ids, logits.clone()).double(), dim=-1)[0]
    kept = [[token, value] for token, value in enumerate(log_probs.tolist()) if value > float("-inf")]
    return {
        "logits": logits[0].tolist(),
        "prompt": prompt,
        "completion": completion,
        "settings": settings,
        "log_probs": kept,
    }


def main():
    generator = torch.Generator().manual_seed(7)
    settings = [
        {"temperature": 1.0, "min_p": 0.05},
        {"temperature": 1.7, "min_p": 0.3},
        {"temperature": 0.6, "repetition_penalty": 1.3},
        {"temperature": 1.0, "repetition_penalty": 0.7, "top_k": 9},
        {"temperature": 1.2, "frequency_penalty": 0.8},
        {"temperature": 1.2, "presence_penalty": -1.5, "top_p": 0.8},
        {"temperature": 1.0, "logit_bias": {"3": 4.0, "17": -100.0, "40": -2.5}},
        {
            "temperature": 1.4,
            "logit_bias": {"1": 2.0, "2": -2.0, "30": 5.0},
            "repetition_penalty": 1.2,
            "frequency_penalty": 0.4,
            "presence_penalty": 0.3,
            "min_p": 0.02,
            "top_k": 12,
            "top_p": 0.9,
        },
    ]
    cases = [case(generator, one) for one in settings for _ in range(2)]
    with open(sys.argv[1], "w") as out:
        out.write("[\n" + ",\n".join(json.dumps(one) for one in cases) + "\n]\n")


if __name__ == "__main__":
    main()
