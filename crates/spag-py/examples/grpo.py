"""GRPO on single utterances of Adversarial Taboo, on a CPU: pip install trl torch, and the wheel of spag.

Run it in the root of the repository; it trains data/tiny-llama for ten steps. A row is a position: the attacker has given a clue, and
the model, the defender, answers it. The reward is 1 for the right guess, -1 for a wrong one or the word said by accident, else 0.
"""

import spag
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

prompts = spag.Prompts(prompts="configs/tiny-prompts.json")
rows = []
for word, clue in [("horse", "It is an animal."), ("apple", "It is a fruit."), ("piano", "You play it."), ("rain", "It is wet.")]:
    history = [{"role": "attacker", "content": clue}]
    rows.append({"prompt": prompts.playing(history, word), "history": history, "target_word": word})

config = GRPOConfig(output_dir="/tmp/grpo", max_steps=10, per_device_train_batch_size=16, num_generations=8, use_cpu=True, bf16=False)
config.max_completion_length, config.logging_steps, config.report_to, config.save_strategy = 24, 1, [], "no"
trainer = GRPOTrainer("data/tiny-llama", spag.TabooReward(), args=config, train_dataset=Dataset.from_list(rows))
trainer.train()
