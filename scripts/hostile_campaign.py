#!/usr/bin/env python3
"""Feeds damaged files and absurd flags to the real programs and watches how they end.

    cargo build --release --workspace --bins
    python3 scripts/hostile_campaign.py --minutes 10 --seed 1

Prepares the files of a tiny run (model, words, games, samples, checkpoints, a finished `spag run`), and then, until the
time is over, copies the files of one command, damages one to three of them or one flag, and runs the command. It is a
fault if a command

- ends with a signal, a panic, or an exit code other than 0, 1 and 2, takes more than --gib, or hangs: it takes more than
  --seconds and shows no progress, or does not stop when asked to;
- fails without an `error:` line, prints control characters, or prints more than 16 KiB of messages;
- rejects a damaged file or flag with exit code 1 instead of 2 (--strict; some damage, as a folder that cannot be written,
  is a failure and no misuse).

Faults are printed as they are found. Their folders, with `command.json`, are kept in --keep. The exit code is 1 if there
were any. Needs Python 3.9 and nothing else.
"""

import argparse
import collections
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from hostile_mutations import NUMBERS, damage

ROOT = Path(__file__).resolve().parent.parent
PANIC = re.compile(rb"a fault in this program|panicked at|stack overflow|memory allocation of \d+ bytes failed")
CONTROL = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\xaa-\xae]|\xe2\x81[\xa6-\xa9]")
PROGRESS = re.compile(rb"\d+/\d+")
MESSAGES = 16 * 1024
# Instead of the exit code of a command that was working until it was stopped.
STOPPED = "a stop at the time limit"


class Case:
    """A command, the files that it reads, and its numeric flags."""

    def __init__(self, name, arguments, damaged, numbers=(), before=()):
        self.name, self.arguments, self.damaged = name, arguments, damaged
        self.numbers, self.before = numbers, before


MODEL = ["model/config.json", "model/tokenizer.json", "model/tokenizer_config.json", "model/model.safetensors",
         "model/special_tokens_map.json", "model/generation_config.json"]
SAMPLING = ["max_new_tokens", "temperature", "top_k", "top_p", "seed", "max_length", "min_new_tokens", "page_size",
            "kv_cache_gib", "max_step_tokens", "per_device_eval_batch_size", "threads"]
TRAINING = ["learning_rate", "num_train_epochs", "max_steps", "per_device_train_batch_size", "max_length", "warmup_ratio",
            "gradient_accumulation_steps", "adam_beta1", "adam_beta2", "adam_epsilon", "max_grad_norm", "weight_decay",
            "lm_kl_coeff", "lm_sft_coeff", "clip_range", "warmup_steps", "save_steps", "save_total_limit", "seed",
            "logging_steps", "eval_steps", "per_device_eval_batch_size", "threads"]

PLAY = ["spag-play", "--attacker_model_name_or_path", "model", "--defender_model_name_or_path", "model", "--data_path",
        "words.txt", "--output_dir", "play", "--prompts", "prompts.json", "--max_new_tokens", "6",
        "--taboo_max_turns", "2", "--model_prefix", "tiny"]
TRAIN = ["spag-train", "--model_name_or_path", "model", "--ref_model_name_or_path", "model", "--train_data_path",
         "samples.json", "--eval_data_path", "samples.json", "--output_dir", "trained", "--train_method", "OfflinePO",
         "--max_length", "192", "--per_device_train_batch_size", "2", "--max_steps", "4", "--save_strategy", "steps",
         "--save_steps", "2", "--learning_rate", "1e-4", "--lm_kl_coeff", "0.1", "--lm_sft_coeff", "0.5"]
RUN = ["spag", "run", "run.toml"]
# Nim with one object, which is soon learned, and a round of Kuhn poker.
MIX = """extends = "run.toml"
run_dir = "mix"
[[games]]
game = "nim"
game_options = "piles=[1]"
share = 2
[[games]]
game = "kuhn-poker"
game_options = "rounds=1"
[imitation]
source = "random"
[imitation.train]
lm_kl_coeff = 0.0
per_device_train_batch_size = 8
num_train_epochs = 8.0
learning_rate = 1e-3
[sft]
share = 0.0
[benchmarks]
limit = 4
"""
CHECKPOINT = ["trained/checkpoint-2/" + name for name in (
    "config.json", "model.safetensors", "trainer_state/state.json", "trainer_state/exp_avg.safetensors",
    "trainer_state/exp_avg_sq.safetensors", "trainer_state")]

CASES = [
    Case("play", PLAY, ["words.txt", "prompts.json", *MODEL], [*SAMPLING, "games_per_word", "taboo_max_turns",
                                                                 "logging_steps", "max_failed_in_a_row"]),
    Case("play again", PLAY, ["play"], before=["play"]),
    Case("rewards", ["spag-assign-rewards", "--input_data_path", "episodes.json", "--output_data_path", "rewarded.json",
                     "--sft_data_path", "sft.json"], ["episodes.json", "episodes.json", "sft.json"],
         ["decay_weight", "threads"]),
    Case("train", TRAIN, ["samples.json", "samples.json", *MODEL], TRAINING),
    Case("train with DeepSpeed", [*TRAIN, "--deepspeed", "deepspeed.json"], ["deepspeed.json"]),
    Case("train again", [*TRAIN, "--resume_from_checkpoint", "latest"],
         [*CHECKPOINT, "trained/metrics.jsonl", "trained"], before=["trained"]),
    Case("generate", ["spag", "generate", "--model", "model", "--input", "in.jsonl", "--output", "out.jsonl",
                      "--max_new_tokens", "4"], ["in.jsonl", *MODEL], SAMPLING),
    Case("show", ["spag", "show", "episodes.json"], ["episodes.json"], ["game"]),
    Case("show words", ["spag", "show", "play/tiny_sampling_words_results.json"],
         ["play/tiny_sampling_words_results.json"], before=["play"]),
    Case("arena", ["spag", "arena", "--players", "A=model", "B=model", "--words", "words.txt", "--output_dir", "arena",
                   "--games", "2", "--max_new_tokens", "4", "--prompts", "prompts.json"],
         ["words.txt", "prompts.json", *MODEL], [*SAMPLING, "games", "taboo_max_turns"]),
    Case("init", ["spag", "init-model", "--config", "model/config.json", "--tokenizer", "model", "--output_dir", "new"],
         ["model/config.json", "model/tokenizer.json"], ["seed"]),
    Case("plan", ["spag", "plan", "plan.toml"], ["plan.toml", "model/config.json"]),
    Case("base", ["spag", "make-base", "base.toml", "--set", "output_dir=base", "--set", "documents=8"],
         ["base.toml"]),
    Case("run", RUN, ["run.toml", "prompts.json", "words.txt", *MODEL]),
    Case("run again", RUN, ["run/im/episodes.jsonl", "run/im/samples.jsonl", "run/im/model/model.safetensors",
                            "run/config.resolved.toml", "run/spag-1/episodes.jsonl", "run/eval", "run"], before=["run"]),
    Case("bench", ["spag", "bench", "train", "--model_name_or_path", "model", "--steps", "1"], ["model/config.json"],
         ["steps", "batch", "max_length", "threads"]),
]


def environment(programs):
    """The environment of a command: without a launcher's variables."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
    return {**kept, "PATH": f"{programs}:{kept.get('PATH', '')}", "RAYON_NUM_THREADS": "1"}


def prepare(folder, programs):
    """Writes the files of a tiny run, by the programs where they write such files."""
    tests = ROOT / "crates/spag-pipeline/tests/fixtures"
    shutil.copytree(ROOT / "data/tiny-llama", folder / "model")
    shutil.copy(tests / "prompts.json", folder / "prompts.json")
    shutil.copy(ROOT / "configs/default_offload_opt_param.json", folder / "deepspeed.json")
    shutil.copy(ROOT / "configs/tiny-base.toml", folder / "base.toml")
    (folder / "words.txt").write_text("horse\nlion\n")
    (folder / "in.jsonl").write_text('{"prompt": "The lion"}\n{"prompt": "A horse"}\n')
    (folder / "sft.json").write_text('[{"instruction": "Name a colour.", "input": "", "output": "Red."}]')
    run = (ROOT / "configs/tiny.toml").read_text().replace('"data/tiny-llama"', '"model"')
    run = run.replace('"configs/tiny-prompts.json"', '"prompts.json"').replace('"runs/tiny"', '"run"')
    for old, new in [("epochs = 3 ", "epochs = 1 "), ("games = 2400", "games = 120"), ("games = 1440", "games = 48"),
                     ("games = 600", "games = 4"), ("self_play_games = 300", "self_play_games = 4")]:
        run = run.replace(old, new)
    (folder / "run.toml").write_text(run)
    (folder / "mix.toml").write_text(MIX)
    shutil.copy(ROOT / "configs/launch/h200.toml", folder / "plan.toml")
    for command in (
        PLAY,
        [*RUN],
        ["spag-assign-rewards", "--input_data_path", "run/spag-1/episodes.jsonl", "--output_data_path", "samples.json"],
        TRAIN,
    ):
        ended = subprocess.run(command, cwd=folder, env=environment(programs), capture_output=True)
        if ended.returncode:
            sys.exit(f"{command}: {ended.stderr.decode(errors='replace')}")
    rows = (folder / "run/spag-1/episodes.jsonl").read_text().splitlines()
    (folder / "episodes.json").write_text(json.dumps([json.loads(row) for row in rows]))
    samples = json.loads((folder / "samples.json").read_text())
    (folder / "samples.json").write_text(json.dumps(samples[:12]))


def watch(command, folder, programs, options):
    """Runs a command; returns exit code (None: it hangs), output, messages, seconds and peak GiB."""
    def limits():
        os.setsid()
        most = int((options.gib + 4) * 2**30)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    started = time.monotonic()
    process = subprocess.Popen(command, cwd=folder, env=environment(programs), stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=limits)
    asked, killed = threading.Event(), threading.Event()

    def stop(event, number):
        event.set()
        os.killpg(process.pid, number)

    timers = [threading.Timer(options.seconds, stop, (asked, signal.SIGTERM)),
              threading.Timer(options.seconds + 10, stop, (killed, signal.SIGKILL))]
    for timer in timers:
        timer.start()
    texts = {}
    # A program that prints without end is stopped by the time limit; only its first MiB is kept.
    def read(name, stream):
        kept = stream.read(1 << 20)
        while stream.read(1 << 20):
            pass
        texts[name] = kept

    readers = [threading.Thread(target=read, args=pair) for pair in (("out", process.stdout), ("err", process.stderr))]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    _, status, usage = os.wait4(process.pid, 0)
    for timer in timers:
        timer.cancel()
    code = None if killed.is_set() else os.waitstatus_to_exitcode(status)
    # Much work that was asked for, and shown to progress, may be stopped.
    if asked.is_set() and code is not None:
        code = STOPPED if PROGRESS.search(texts["err"][-4096:]) else None
    return code, texts["out"], texts["err"], time.monotonic() - started, usage.ru_maxrss / 2**20


def faults(code, out, err, seconds, gib, options):
    """What is wrong with how a command ended."""
    found = []
    if code is None:
        return [f"took more than {options.seconds} s"]
    if code == STOPPED:
        code = 0
    if code < 0 or code not in (0, 1, 2):
        found.append(f"exit code {code}")
    if PANIC.search(err):
        found.append("panic or abort")
    if code and b"error:" not in err:
        found.append("no message")
    if CONTROL.search(err) or CONTROL.search(out):
        found.append("control characters")
    if len(err) > MESSAGES:
        found.append(f"{len(err)} bytes of messages")
    if gib > options.gib:
        found.append(f"{gib:.1f} GiB")
    if code == 1 and options.strict:
        found.append("exit code 1")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=Path, default=ROOT / "target/release", help="folder of the programs")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=60, help="limit of one command")
    parser.add_argument("--gib", type=float, default=2.0, help="limit of a command's peak memory")
    parser.add_argument("--keep", type=Path, default=ROOT / "target/hostile", help="folder for what showed a fault")
    parser.add_argument("--case", help="only this command: " + ", ".join(case.name for case in CASES))
    parser.add_argument("--strict", action="store_true", help="exit code 1 is a fault as well")
    options = parser.parse_args()
    programs, rng = options.programs.resolve(), random.Random(options.seed)
    options.keep = options.keep.resolve()
    cases = [case for case in CASES if options.case in (None, case.name)]
    if not cases:
        parser.error(f"unknown --case {options.case}")
    codes, faulty, tried = collections.Counter(), 0, 0
    with tempfile.TemporaryDirectory() as place:
        original = Path(place) / "original"
        original.mkdir()
        prepare(original, programs)
        end = time.monotonic() + 60 * options.minutes
        while time.monotonic() < end:
            tried += 1
            case, folder = rng.choice(cases), Path(place) / "case"
            made = {"play", "run", "trained"} - set(case.before)
            ignored = lambda at, names: [name for name in names if at == str(original) and name in made]
            shutil.copytree(original, folder, ignore=ignored)
            command, done = list(case.arguments), []
            if case.numbers and rng.random() < 0.3:
                flag, value = rng.choice(case.numbers), rng.choice(NUMBERS)
                command.append(f"--{flag}={value}")
                done.append(command[-1])
            else:
                for name in rng.sample(case.damaged, rng.choice([1, 1, 1, min(2, len(case.damaged))])):
                    done.append(damage(folder / name, rng))
            code, out, err, seconds, gib = watch(command, folder, programs, options)
            codes[code] += 1
            found = faults(code, out, err, seconds, gib, options)
            if found:
                faulty += 1
                kept = options.keep / f"{options.seed}-{tried}"
                shutil.rmtree(kept, ignore_errors=True)
                shutil.copytree(folder, kept, symlinks=True, dirs_exist_ok=True,
                                ignore=lambda at, names: [n for n in names if not os.path.isfile(os.path.join(at, n)) and not os.path.isdir(os.path.join(at, n))])
                record = {"case": case.name, "command": command, "damage": done, "faults": found, "exit_code": code,
                          "seconds": round(seconds, 1), "gib": round(gib, 2), "stderr": err[-2000:].decode(errors="replace")}
                (kept / "command.json").write_text(json.dumps(record, indent=1))
                print(json.dumps({**record, "stderr": record["stderr"][-300:], "kept": kept.name}), flush=True)
            shutil.rmtree(folder)
    ends = ", ".join(f"{count} with {code}" for code, count in codes.most_common())
    print(f"seed {options.seed}: {tried} commands, {faulty} faults; ended: {ends}")
    return 1 if faulty else 0


if __name__ == "__main__":
    sys.exit(main())
