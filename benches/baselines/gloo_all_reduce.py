#!/usr/bin/env python3
"""Baseline: all-reduce of f32 with torch.distributed's gloo backend, one process per rank, on this machine.

    python gloo_all_reduce.py [--ours TARGET/release/spag] [--ranks 2 4] [--mib 1 16 64] [--pairs 7]

With --ours, gloo and `spag bench links` run alternately, and the medians of their medians over a few rounds per size are
compared. One thread per process. Prints one line per size and world
size: median milliseconds, and GB/s of buffer. Needs torch.
"""
import argparse, json, os, socket, statistics, subprocess, sys, time

p = argparse.ArgumentParser()
p.add_argument("--ours"); p.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
p.add_argument("--mib", type=int, nargs="+", default=[1, 16, 64]); p.add_argument("--pairs", type=int, default=7)
p.add_argument("--rounds", type=int, default=9); p.add_argument("--rank-process", action="store_true")
a = p.parse_args()

def rank_process():
    import torch, torch.distributed as dist
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    for mib in a.mib:
        buffer = torch.ones(mib << 18); seconds = []
        for _ in range(a.rounds + 1):
            dist.barrier(); t = time.perf_counter()
            dist.all_reduce(buffer)
            seconds.append(time.perf_counter() - t)
        median = statistics.median(seconds[1:])
        if dist.get_rank() == 0: print(json.dumps({"collective": "all-reduce", "bytes": mib << 20, "seconds": median}), flush=True)
    dist.barrier(); dist.destroy_process_group()

def run(command, ranks):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0)); port = s.getsockname()[1]
    env = lambda r: {**os.environ, "RANK": str(r), "LOCAL_RANK": str(r), "WORLD_SIZE": str(ranks), "OMP_NUM_THREADS": "1",
                     "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "lo"}
    children = [subprocess.Popen(command, env=env(r), stdout=subprocess.PIPE, text=True) for r in range(ranks)]
    lines = [c.communicate()[0] for c in children][0].splitlines()
    if any(c.returncode for c in children): sys.exit(f"{command[0]} failed")
    found = [json.loads(line) for line in lines]
    return {line["bytes"]: line["seconds"] for line in found if line["collective"] == "all-reduce"}

if a.rank_process: sys.exit(rank_process())
sizes = [mib << 20 for mib in a.mib]
commands = {"gloo": [sys.executable, __file__, "--rank-process", "--rounds", str(a.rounds), "--mib", *map(str, a.mib)]}
links = ["bench", "links", "--device", "cpu", "--json", "--rounds", str(a.rounds), "--bytes", ",".join(map(str, sizes))]
if a.ours: commands["ours"] = [a.ours, *links]
for ranks in a.ranks:
    seconds = {name: {size: [] for size in sizes} for name in commands}
    for _ in range(a.pairs):
        for name, command in commands.items():
            for size, found in run(command, ranks).items(): seconds[name][size].append(found)
    for size in sizes:
        medians = {name: statistics.median(found[size]) for name, found in seconds.items()}
        text = ", ".join(f"{name} {1e3 * s:.2f} ms ({size / s / 1e9:.2f} GB/s)" for name, s in medians.items())
        print(f"{ranks} ranks, {size >> 20} MiB: {text}" + (f", gloo/ours {medians['gloo'] / medians['ours']:.2f}" if a.ours else ""), flush=True)
