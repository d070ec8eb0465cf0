#!/usr/bin/env python3
"""Causal attention of PyTorch's scaled_dot_product_attention on a GPU in bf16, at the sizes of `cargo bench --bench gpu`.

    python attention.py

Prints a JSON line for each size and backend: milliseconds of the forward and the backward pass, medians of events, and TFLOP/s of
2 and 5 products, of which the mask halves each.
"""
import json

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

SIZES = [(2, 2048, 32, 32, 128), (8, 500, 32, 32, 128), (1, 16384, 32, 8, 128), (4, 4096, 32, 32, 64), (16, 200, 9, 3, 64)]


def median(work):
    for _ in range(3):
        work()
    times = []
    for _ in range(15):
        begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
        begin.record()
        work()
        work()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 2)
    return sorted(times)[len(times) // 2]


for count, length, heads, kv_heads, dim in SIZES:
    shape = lambda heads: torch.randn(count, heads, length, dim, device="cuda", dtype=torch.bfloat16)
    q, k, v, g = shape(heads), shape(kv_heads), shape(kv_heads), shape(heads)
    for tensor in (q, k, v):
        tensor.requires_grad_()
    flops = 2 * count * length * length * heads * dim
    for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION):
        with sdpa_kernel(backend):
            forward = lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=heads != kv_heads)
            out = forward()
            ms = median(forward), median(lambda: torch.autograd.grad(out, (q, k, v), g, retain_graph=True))
        print(json.dumps({
            "what": f"attention {count}×{length}, {heads}/{kv_heads} of {dim}",
            "backend": backend.name,
            "forward_ms": round(ms[0], 4),
            "backward_ms": round(ms[1], 4),
            "forward_tflops": round(flops / ms[0] / 1e9, 1),
            "backward_tflops": round(2.5 * flops / ms[1] / 1e9, 1),
        }), flush=True)
