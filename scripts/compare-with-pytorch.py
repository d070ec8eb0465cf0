#!/usr/bin/env python3
"""Trains a checkpoint in PyTorch with the settings of a spag-train run and compares the results.

    target/release/spag-train --model_name_or_path M --ref_model_name_or_path R --train_data_path D.json \\
        --train_method OfflinePO --lm_kl_coeff 0.2 --lm_sft_coeff 0.5 --learning_rate 1e-3 \\
        --lr_scheduler_type cosine --warmup_ratio 0.1 --num_train_epochs 1 --max_length 256 \\
        --per_device_train_batch_size 4 --gradient_accumulation_steps 2 --data_order sequential --output_dir O
    python scripts/compare-with-pytorch.py O --model M --ref R --data D.json

The settings are read from O/train_config.json, which spag-train writes. Everything else (batches, padding, losses,
clipping, AdamW, the schedule) is computed here with torch and transformers alone, in f32 on the CPU; the scheduler of a
DeepSpeed file is that of the package deepspeed (with --deepspeed_first_step max: up to 0.15.2). Prints one JSON
line: the worst differences of loss, learning rate and gradient norm over all steps, and of the final weights.
Needs torch, transformers and safetensors; exits with 1 if --tolerance is exceeded.

A run with --lora_r is compared with PEFT (package peft). --adapter is the adapter at its beginning, which the same command with
--max_steps 1 --learning_rate 0 and another --output_dir writes.
"""
import argparse
import json
import math
import sys

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM


def encode(tokenizer, row, config, special):
    query, target = row.get("query", row.get("prompt", "")), row.get("target", row.get("answer", ""))
    text = lambda s: tokenizer.encode(s, add_special_tokens=False).ids
    prompt = [special["bos"]] + (text(query) if query else [])
    ids = prompt + text(target) + [special["eos"]]
    cut = max(0, len(ids) - config["max_length"])
    labels = [-100] * len(prompt) + ids[len(prompt):]
    return ids[cut:], labels[cut:]


def mean_log_probs(model, batch):
    """The mean log-probability of each row's labels; rows are padded on the right."""
    width = max(len(ids) for ids, _ in batch)
    pad = lambda values, fill: torch.tensor([v + [fill] * (width - len(v)) for v in values])
    ids, labels = pad([i for i, _ in batch], 0), pad([l for _, l in batch], -100)
    mask = pad([[1] * len(i) for i, _ in batch], 0)
    logits = model(input_ids=ids, attention_mask=mask).logits[:, :-1].float()
    labels = labels[:, 1:]
    seen = labels != -100
    picked = torch.log_softmax(logits, -1).gather(-1, labels.clamp(min=0)[..., None]).squeeze(-1)
    counts = torch.tensor([sum(l != -100 for l in row) for _, row in batch])
    return (picked * seen).sum(-1), seen.sum(-1), counts


def loss_of(config, model, reference, rows, batch):
    sums, predicted, counts = mean_log_probs(model, batch)
    weight = torch.tensor([float(r.get("weight", 1.0)) for r in rows])
    if config["train_method"] == "SFT":
        return -sums.sum() / predicted.sum()
    with torch.no_grad():
        ref = mean_log_probs(reference, batch)[0] / counts
    log_prob, beta = sums / counts, config["lm_kl_coeff"]
    if config["train_method"] == "SFTwithKL":
        return (weight * (-log_prob + beta * log_prob.exp() * (log_prob - ref))).mean()
    sft = torch.tensor([float(r.get("type") == "sft") for r in rows])
    reward = torch.tensor([float(r.get("reward", 1.0)) for r in rows])
    ratio = (log_prob - ref).exp()
    advantage = reward - beta * (log_prob - ref)
    clipped = ratio.clamp(1 - config["clip_range"], 1 + config["clip_range"])
    policy = -torch.minimum(advantage * ratio, advantage * clipped)
    games = ((1 - sft) * weight * policy).sum() / max(1.0, float((1 - sft).sum()))
    return games + config["lm_sft_coeff"] * (sft * weight * -log_prob).sum() / max(1.0, float(sft.sum()))


def rate(config, step, total):
    warmup = config.get("warmup_steps") or math.ceil(total * config["warmup_ratio"])
    kind = config["lr_scheduler_type"]
    if kind == "constant":
        return config["learning_rate"]
    if step < warmup:
        return config["learning_rate"] * step / max(1, warmup)
    done = (step - warmup) / max(1, total - warmup)
    factor = {"linear": max(0.0, 1 - done), "cosine": max(0.0, 0.5 * (1 + math.cos(math.pi * done)))}
    return config["learning_rate"] * factor.get(kind, 1.0)


def rates(config, output_dir, total):
    """The rate of each step, and the one after the last."""
    path = f"{output_dir}/deepspeed_config.json"
    scheduler = json.load(open(path)).get("scheduler") if config.get("deepspeed") else None
    if scheduler is None:
        return [rate(config, step, total) for step in range(total + 1)]
    from deepspeed.runtime import lr_schedules

    optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))], lr=config["learning_rate"])
    schedule = getattr(lr_schedules, scheduler["type"])(optimizer, **scheduler["params"])
    taken = []
    for _ in range(total + 1):
        taken.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return taken


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output_dir")
    parser.add_argument("--model", required=True)
    parser.add_argument("--ref")
    parser.add_argument("--data", required=True)
    parser.add_argument("--adapter", help="the folder of the first adapter of a run with --lora_r")
    parser.add_argument("--record", help="a file for PyTorch's losses and gradient norms, as tests/fixtures have them")
    parser.add_argument("--tolerance", type=float, default=1e-4, help="relative tolerance of losses and gradient norms")
    args = parser.parse_args()
    torch.manual_seed(0)
    config = json.load(open(f"{args.output_dir}/train_config.json"))
    if config["data_order"] != "sequential":
        sys.exit("train with --data_order sequential: the shuffle is spag-train's own")
    text = open(args.data, encoding="utf-8").read()
    rows = json.loads(text) if text.lstrip().startswith("[") else [json.loads(l) for l in text.splitlines()]
    tokenizer = Tokenizer.from_file(f"{args.model}/tokenizer.json")
    model_config = json.load(open(f"{args.model if args.adapter else args.output_dir}/config.json"))
    special = {"bos": model_config["bos_token_id"], "eos": model_config["eos_token_id"]}
    items = [(row, encode(tokenizer, row, config, special)) for row in rows]
    items = [item for item in items if any(l != -100 for l in item[1][1][1:])]
    load = lambda path: AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, attn_implementation="eager")
    model, reference = load(args.model).train(), load(args.ref or args.model).eval()
    if args.adapter:
        from peft import PeftModel

        model = PeftModel.from_pretrained(model, args.adapter, is_trainable=True)
    decay = [p for p in model.parameters() if p.requires_grad and p.dim() > 1]
    norms = [p for p in model.parameters() if p.requires_grad and p.dim() == 1]
    optimizer = torch.optim.AdamW(
        [{"params": decay, "weight_decay": config["weight_decay"]}, {"params": norms, "weight_decay": 0.0}],
        lr=config["learning_rate"],
        betas=(config["adam_beta1"], config["adam_beta2"]),
        eps=config["adam_epsilon"],
    )
    size, count = config["per_device_train_batch_size"], config["gradient_accumulation_steps"]
    micros = [items[i:i + size] for i in range(0, len(items), size)]
    per_epoch = max(1, len(micros) // count)
    total = config.get("max_steps") or math.ceil(config["num_train_epochs"] * per_epoch)
    count = min(count, len(micros))
    ours = [json.loads(l) for l in open(f"{args.output_dir}/metrics.jsonl")]
    ours = {line["step"]: line for line in ours if "loss" in line}
    schedule = rates(config, args.output_dir, total)
    recorded = {"losses": [], "grad_norms": []}
    worst = {"loss": 0.0, "grad_norm": 0.0, "learning_rate": 0.0}
    for step in range(total):
        for group in optimizer.param_groups:
            group["lr"] = schedule[step]
        value = 0.0
        for k in range(count):
            micro = micros[(step * count + k) % len(micros)]
            loss = loss_of(config, model, reference, [r for r, _ in micro], [e for _, e in micro]) / count
            loss.backward()
            value += float(loss)
        norm = float(torch.nn.utils.clip_grad_norm_(model.parameters(), config["max_grad_norm"] or math.inf))
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        recorded["losses"].append(value)
        recorded["grad_norms"].append(norm)
        line = ours[step + 1]
        apart = lambda a, b: abs(a - b) / max(abs(b), 1e-3)
        worst["loss"] = max(worst["loss"], apart(line["loss"], value))
        worst["grad_norm"] = max(worst["grad_norm"], apart(line["grad_norm"], norm))
        worst["learning_rate"] = max(worst["learning_rate"], abs(line["learning_rate"] - schedule[step + 1]))
    final = load_file(f"{args.output_dir}/{'adapter_model' if args.adapter else 'model'}.safetensors")
    weights, beyond, elements = 0.0, 0, 0
    for name, tensor in model.state_dict().items():
        name = name.replace(".default.", ".")
        if name in final:
            difference = (tensor - final[name].float()).abs()
            weights, beyond = max(weights, float(difference.max())), beyond + int((difference > 1e-5).sum())
            elements += difference.numel()
    result = {"steps": total, **worst, "weights": weights, "weights_beyond_1e-5": beyond, "weights_compared": elements}
    print(json.dumps(result))
    if args.record:
        with open(args.record, "w", encoding="utf-8") as file:
            file.write(json.dumps(recorded) + "\n")
    return int(max(worst["loss"], worst["grad_norm"]) > args.tolerance or worst["learning_rate"] > 1e-12)


if __name__ == "__main__":
    sys.exit(main())
