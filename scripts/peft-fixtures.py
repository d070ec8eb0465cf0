#!/usr/bin/env python3
"""Writes the adapters of tests/fixtures/peft with the log-probabilities that PEFT computes with them.

Needs torch, transformers and peft==0.21.2:

    python3 scripts/peft-fixtures.py
"""

import json
import pathlib

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

FIXTURES = pathlib.Path(__file__).resolve().parent.parent / "tests" / "fixtures"
IDS = [1, 5, 9, 33, 47, 100, 7, 3]
ADAPTERS = {
    "attention": dict(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"]),
    "patterns": dict(
        r=4,
        lora_alpha=8,
        target_modules=["q_proj", "k_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
        rank_pattern={"down_proj": 2, "layers.1.self_attn.q_proj": 3},
        alpha_pattern={"gate_proj": 5},
        use_rslora=True,
    ),
    "expressions": dict(
        r=4,
        lora_alpha=8,
        target_modules=r"model\.layers\.(?:1\..*_proj|0\.self_attn\.[qv]_proj)",
        rank_pattern={r"mlp\.(?!up).*": 2, r"^model\.layers\.\d+\.self_attn\.q_proj": 3},
        alpha_pattern={"[kq]_proj": 5},
    ),
    "excluded": dict(r=2, lora_alpha=8, target_modules="all-linear", exclude_modules=["k_proj", "mlp.down_proj"]),
    "layers": dict(
        r=2, lora_alpha=8, target_modules=["q_proj", "up_proj"], layers_to_transform=[1], layers_pattern="layers"
    ),
}
# Saved in PyTorch's format, as older versions of PEFT do.
IN_PYTORCH = {"excluded"}

for seed, (name, settings) in enumerate(ADAPTERS.items(), start=1):
    torch.manual_seed(seed)
    base = AutoModelForCausalLM.from_pretrained(FIXTURES / "tiny-llama", dtype=torch.float32)
    base.name_or_path = base.config._name_or_path = "tiny-llama"
    model = get_peft_model(base, LoraConfig(task_type="CAUSAL_LM", **settings)).eval()
    for parameter, values in model.named_parameters():
        if "lora_" in parameter:
            torch.nn.init.normal_(values, std=0.2)
    folder = FIXTURES / "peft" / name
    model.save_pretrained(folder, safe_serialization=name not in IN_PYTORCH)
    (folder / "README.md").unlink(missing_ok=True)
    with torch.no_grad():
        log_probs = torch.log_softmax(model(torch.tensor([IDS])).logits[0].double(), -1)
    expected = {"ids": IDS, "log_probs": [float(log_probs[at, token]) for at, token in enumerate(IDS[1:])]}
    (folder / "expected.json").write_text(json.dumps(expected) + "\n")
