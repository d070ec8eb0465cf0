#!/usr/bin/env python3
"""Kills small runs with SIGKILL at random moments, resumes them, and compares the results with those of whole runs.

    cargo build --release --workspace --bins
    python3 scripts/kill_campaign.py --kills 100 --seed 1

Five commands take turns: `spag-play`, `spag-train`, `spag run`, `spag run` of two games, and `spag-play` on two ranks under `spag launch`. Of the last, one
time in two only a random rank is killed, and the launcher and the other rank go on. A command is killed again and again,
at moments spread over the time that a whole run takes, until it finishes; then it is run once more without a kill. It is
a fault if a run exits with another code than 0, or if a result differs from that of the whole run. The last line counts
kills and faults; the exit code is 1 if there were faults. Needs Python 3.9 and nothing else.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from hostile_campaign import PLAY, ROOT, RUN, TRAIN, environment, prepare

GAMES = [*PLAY, "--games_per_word", "40", "--per_device_eval_batch_size", "4"]
COMMANDS = {
    "play": (GAMES, [], ["play/tiny_sampling_words_results.json"]),
    "train": (["12" if word == "4" else word for word in TRAIN], ["--resume_from_checkpoint", "latest"],
              ["trained/model.safetensors", "trained/checkpoint-12/trainer_state/exp_avg.safetensors"]),
    "run": ([*RUN], [], ["run/im/episodes.jsonl", "run/im/samples.jsonl", "run/im/model/model.safetensors",
                         "run/spag-1/episodes.jsonl", "run/spag-1/samples.jsonl", "run/spag-1/model/model.safetensors",
                         "run/eval/im-vs-im.jsonl"]),
    "mix": (["spag", "run", "mix.toml"], [],
            ["mix/im/nim/episodes.jsonl", "mix/im/kuhn-poker/episodes.jsonl", "mix/im/samples.jsonl",
             "mix/im/model/model.safetensors", "mix/spag-1/nim/episodes.jsonl", "mix/spag-1/kuhn-poker/episodes.jsonl",
             "mix/spag-1/samples.jsonl", "mix/spag-1/model/model.safetensors", "mix/eval/kuhn-poker/im-vs-im.jsonl"]),
    "two ranks": (["spag", "launch", "--nproc_per_node", "2", "--max_restarts", "3", "--", *GAMES], [],
                  ["play/tiny_sampling_words_results.json"]),
}


def start(command, folder, programs):
    return subprocess.Popen(command, cwd=folder, env=environment(programs), stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)


def ranks_of(launcher):
    """The processes of the launcher's ranks."""
    children = []
    for task in Path(f"/proc/{launcher}/task").glob("*/children"):
        children += map(int, task.read_text().split())
    return children


def kill(process, name, rng):
    """Kills a run as a whole, or one rank of it. Returns what was killed, or None if it had ended."""
    if process.poll() is not None:
        return None
    try:
        ranks = ranks_of(process.pid) if name == "two ranks" else []
        if ranks and rng.random() < 0.5:
            os.kill(rng.choice(ranks), signal.SIGKILL)
            return "rank"
        os.killpg(process.pid, signal.SIGKILL)
        # Ranks lead process groups of their own.
        for rank in ranks:
            os.kill(rank, signal.SIGKILL)
        return "all"
    except (ProcessLookupError, FileNotFoundError):
        return "all" if process.poll() is not None and process.returncode < 0 else None


def results(folder, files):
    return {name: (folder / name).read_bytes() if (folder / name).is_file() else None for name in files}


def survive(name, original, place, programs, rng, kills, whole, took, faults):
    """Kills one command until it finishes or the kills are used up; returns how many there were."""
    command, again, files = COMMANDS[name]
    folder, done = Path(place) / "killed", 0
    shutil.copytree(original, folder, ignore=shutil.ignore_patterns("play", "run", "trained"))
    while done < kills:
        process = start(command + (again if done else []), folder, programs)
        time.sleep(rng.uniform(0, took * 0.6))
        what = kill(process, name, rng)
        err = process.communicate()[1].decode(errors="replace")
        if what:
            done += 1
        if what != "all":
            if process.returncode != 0:
                faults.append(f"{name}: exit code {process.returncode} after {done} kills: {err[-400:]}")
            break
    last = subprocess.run(command + again, cwd=folder, env=environment(programs), stdin=subprocess.DEVNULL,
                          capture_output=True)
    if last.returncode:
        faults.append(f"{name}: exit code {last.returncode} at the end: {last.stderr.decode(errors='replace')[-400:]}")
    for file, bytes in results(folder, files).items():
        if bytes != whole[file]:
            faults.append(f"{name}: {file} {'is missing' if bytes is None else 'differs'} after {done} kills")
    shutil.rmtree(folder)
    return done


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=Path, default=ROOT / "target/release", help="folder of the programs")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    programs, rng = options.programs.resolve(), random.Random(options.seed)
    counts, faults, wholes = dict.fromkeys(COMMANDS, 0), [], {}
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        original = Path(place) / "original"
        original.mkdir()
        prepare(original, programs)
        for name, (command, _, files) in COMMANDS.items():
            folder = Path(place) / "whole"
            shutil.copytree(original, folder, ignore=shutil.ignore_patterns("play", "run", "trained"))
            began = time.monotonic()
            ended = subprocess.run(command, cwd=folder, env=environment(programs), capture_output=True)
            if ended.returncode:
                sys.exit(f"{name}: exit code {ended.returncode}: {ended.stderr.decode(errors='replace')[-400:]}")
            wholes[name] = results(folder, files), time.monotonic() - began
            if None in wholes[name][0].values():
                sys.exit(f"{name}: a whole run does not write {files}")
            shutil.rmtree(folder)
        while sum(counts.values()) < options.kills:
            name = min(counts, key=counts.get)
            whole, took = wholes[name]
            left = min(options.kills - sum(counts.values()), 6)
            before = len(faults)
            counts[name] += survive(name, original, place, programs, rng, left, whole, took, faults)
            for fault in faults[before:]:
                print(f"FAULT {fault}", flush=True)
    each = ", ".join(f"{count} of {name}" for name, count in counts.items())
    print(f"seed {options.seed}: {sum(counts.values())} kills ({each}), {len(faults)} faults, "
          f"{time.monotonic() - started:.0f} s")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
