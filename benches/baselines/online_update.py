#!/usr/bin/env python3
"""An on-policy update as it is usually written: games through transformers' generate, all games a turn at a time, then one AdamW step
of REINFORCE on every utterance after its prompt.

    python online_update.py CHECKPOINT_DIR --games 64 --turns 5 --prompt_tokens 28 --kept_tokens 14 --new_tokens 24 --updates 3

The work is that of `spag run` with method = "online" and utterances of a fixed length: a prompt has --prompt_tokens of rules and
instruction, and --kept_tokens of each utterance before it (random tokens make a shorter text than they are). Prints a JSON line with the seconds of playing and of learning of each update.
"""
import argparse
import json
import time

import torch
from transformers import AutoModelForCausalLM

parser = argparse.ArgumentParser()
parser.add_argument("checkpoint")
parser.add_argument("--games", type=int, default=64)
parser.add_argument("--turns", type=int, default=5)
parser.add_argument("--prompt_tokens", type=int, default=28)
parser.add_argument("--kept_tokens", type=int, default=14)
parser.add_argument("--new_tokens", type=int, default=24)
parser.add_argument("--micro_batch", type=int, default=32)
parser.add_argument("--updates", type=int, default=3)
parser.add_argument("--threads", type=int, default=2)
args = parser.parse_args()

torch.manual_seed(0)
torch.set_num_threads(args.threads)
model = AutoModelForCausalLM.from_pretrained(args.checkpoint, dtype=torch.float32)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
vocabulary = model.config.vocab_size


def play():
    """Prompts and utterances of all turns, [games, tokens] each."""
    model.eval()
    rules = torch.randint(3, vocabulary, (args.games, args.prompt_tokens))
    said, samples = [], []
    for _ in range(2 * args.turns):
        prompt = torch.cat([rules, *said], dim=1)
        with torch.no_grad():
            both = model.generate(
                input_ids=prompt, attention_mask=torch.ones_like(prompt), do_sample=True, temperature=1.0, top_k=0,
                min_new_tokens=args.new_tokens, max_new_tokens=args.new_tokens, pad_token_id=0,
            )
        said.append(both[:, prompt.shape[1]:prompt.shape[1] + args.kept_tokens])
        samples += [(row, prompt.shape[1]) for row in both]
    return samples


def learn(samples):
    model.train()
    for first in range(0, len(samples), args.micro_batch):
        batch = samples[first:first + args.micro_batch]
        longest = max(len(ids) for ids, _ in batch)
        ids = torch.stack([torch.nn.functional.pad(ids, (0, longest - len(ids))) for ids, _ in batch])
        mask = torch.stack([torch.arange(longest) < len(ids) for ids, _ in batch]).long()
        logits = model(input_ids=ids, attention_mask=mask).logits[:, :-1]
        log_probs = torch.log_softmax(logits, dim=-1).gather(2, ids[:, 1:, None])[..., 0]
        of_utterance = torch.stack([
            (torch.arange(1, longest) >= start) & (torch.arange(1, longest) < len(row)) for row, start in batch
        ])
        advantages = torch.tensor([1.0 if at % 2 else -1.0 for at in range(len(batch))])
        loss = -(advantages[:, None] * log_probs * of_utterance).sum() / args.new_tokens / len(samples)
        loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()


updates = []
for _ in range(args.updates):
    begin = time.perf_counter()
    samples = play()
    played = time.perf_counter()
    learn(samples)
    updates.append({"play": round(played - begin, 3), "learn": round(time.perf_counter() - played, 3)})
print(json.dumps({"what": "transformers on-policy update", "seconds": updates, **vars(args)}))
