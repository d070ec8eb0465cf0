"""Damage to files: of bytes, of JSON and of the file itself."""

import json
import os
import shutil

NUMBERS = ["0", "-1", "1", "2", "65536", "2147483647", "2147483648", "4294967295", "9223372036854775807",
           "18446744073709551615", "18446744073709551616", "1e3", "1e9", "1e18", "1e39", "1e308", "1e999", "-1e308",
           "nan", "inf", "-inf", "0.5", "1e-320", "0x10", "", " ", "1_000", "100000"]
TEXTS = ["", "\x1b]0;owned\x07", "a\nerror: forged", "\u202eevil", "x" * 100_000, "../../etc/passwd", "/dev/zero", "\x00",
         "=SUM(1+1)", "́" * 50_000, "horse " * 20_000, "\ud7ff\ue000", "null", "🐎" * 1000]


def damage(path, rng):
    """Damages a file, or for a folder a file in it; returns what was done."""
    if path.is_dir() and rng.random() < 0.8:
        files = sorted(file for file in path.rglob("*") if file.is_file())
        if files:
            path = rng.choice(files)
    name = f"{path.parent.name}/{path.name}"
    if not path.parent.is_dir():
        return f"{name}: is gone already"
    how = rng.random()
    if not path.is_file() or how < 0.08:
        return f"{name}: {of_the_file(path, rng)}"
    data = path.read_bytes()
    if how < 0.6 and path.suffix in (".json", ".jsonl"):
        try:
            text, what = of_json(data.decode(), path.suffix == ".jsonl", rng)
            path.write_text(text, errors="surrogatepass")
            return f"{name}: {what}"
        except (ValueError, RecursionError):
            pass
    if how < 0.6 and path.suffix == ".safetensors":
        data, what = of_safetensors(data, rng)
    else:
        data, what = of_bytes(data, rng)
    path.write_bytes(data)
    return f"{name}: {what}"


def of_the_file(path, rng):
    how = rng.choice(["missing", "folder", "symlink loop", "empty", "unreadable device", "sparse", "dangling link"])
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif path.exists():
        path.unlink()
    if how == "folder":
        path.mkdir()
    elif how == "symlink loop":
        path.symlink_to(path.name)
    elif how == "dangling link":
        path.symlink_to("nothing-here")
    elif how == "empty":
        path.touch()
    elif how == "unreadable device":
        path.symlink_to("/dev/full")
    elif how == "sparse":
        path.touch()
        os.truncate(path, 1 << 20)
    return how


def of_bytes(data, rng):
    data = bytearray(data)
    how = rng.choice(["flip", "cut", "insert", "double", "zero", "swap", "number", "nest", "newline", "latin"])
    at = rng.randrange(len(data) + 1)
    if how == "flip":
        for _ in range(rng.choice([1, 1, 8, 64])):
            if data:
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif how == "cut":
        del data[at:at + rng.choice([1, 10, len(data)])]
    elif how == "insert":
        data[at:at] = bytes(rng.randrange(256) for _ in range(rng.choice([1, 4, 100])))
    elif how == "double":
        data[at:at] = data[at:at + rng.choice([10, 1000, 100_000])] * rng.choice([1, 2, 20])
    elif how == "zero":
        data[at:at + 64] = bytes(64)
    elif how == "swap":
        other = rng.randrange(len(data) + 1)
        data[at:at + 20], data[other:other + 20] = data[other:other + 20], data[at:at + 20]
    elif how == "number":
        digits = [i for i, byte in enumerate(data[:200_000]) if 48 <= byte < 58]
        if digits:
            start = end = rng.choice(digits)
            while end < len(data) and data[end] in b"0123456789.":
                end += 1
            data[start:end] = rng.choice(NUMBERS).encode()
    elif how == "nest":
        data[at:at] = rng.choice([b"[", b'{"a":', b"(", b"a.", b"\\"]) * rng.choice([100, 10_000, 200_000])
    elif how == "newline":
        data = bytearray(rng.choice([data.replace(b"\n", b"\r\n"), data.replace(b"\n", b"\r"), b"\xef\xbb\xbf" + data,
                                     data.decode("utf-8", "replace").encode("utf-16")]))
    else:
        data[at:at] = rng.choice(TEXTS).encode("utf-8", "surrogatepass")
    return bytes(data), f"{how} at {at}"


def of_json(text, lines, rng):
    """Changes one place of a JSON value: another type, another number, a hostile text, a key less, twice, or deep."""
    rows = text.splitlines() if lines else [text]
    row = rng.randrange(len(rows))
    value = json.loads(rows[row])
    places = []

    def walk(holder, budget):
        keys = list(holder) if isinstance(holder, dict) else range(min(len(holder), 40))
        for key in keys:
            places.append((holder, key))
            if isinstance(holder[key], (dict, list)) and budget and len(places) < 20_000:
                walk(holder[key], budget - 1)

    if isinstance(value, (dict, list)):
        walk(value, 8)
    if not places:
        return "[" * 100_000, "nested"
    # Places near the root are as likely as the many below them.
    holder, key = rng.choice(places[:60] if rng.random() < 0.5 else places)
    how = rng.choice(["number", "number", "text", "type", "drop", "deep", "rename", "raw", "repeat", "negate"])
    old = holder[key]
    marker = "@@MARK@@"
    raw = None
    if how == "number":
        raw = rng.choice([number for number in NUMBERS if number.strip()])
        holder[key] = marker
    elif how == "text":
        holder[key] = rng.choice(TEXTS)
    elif how == "type":
        holder[key] = rng.choice([None, True, [], {}, [[]], {"a": 1}, 3, "x", -1.5, [1, "a"]])
    elif how == "drop":
        del holder[key]
    elif how == "deep":
        depth = rng.choice([100, 1000, 100_000])
        holder[key], raw = marker, rng.choice(["[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth])
    elif how == "rename" and isinstance(holder, dict):
        holder[rng.choice(TEXTS) + str(key)] = holder.pop(key)
    elif how == "raw":
        holder[key], raw = marker, rng.choice(['"\\ud800"', '"\\u0000"', "01", "1.", "nul", "'a'", "1e", '"a', "-", "{}{}"])
    elif how == "repeat" and isinstance(old, (list, str)):
        holder[key] = old * rng.choice([2, 50, 1000 if len(str(old)) < 1000 else 3])
    elif isinstance(old, (int, float)):
        holder[key] = -old - 1
    rows[row] = json.dumps(value, ensure_ascii=rng.random() < 0.5).replace(f'"{marker}"', raw or "")
    return "\n".join(rows), f"{how} {str(key)[:60]!r} {str(raw)[:40] if raw else ''}"


def of_safetensors(data, rng):
    """Changes the header's length, the header, or values of tensors."""
    length = int.from_bytes(data[:8], "little")
    header, body = data[8:8 + length], data[8 + length:]
    how = rng.choice(["length", "header", "header", "header", "values", "cut"])
    if how == "length":
        claimed = rng.choice([0, 1, length - 1, length + 1, 2**31, 2**63, 2**64 - 1, len(data), len(data) - 8])
        return claimed.to_bytes(8, "little") + header + body, f"header length {claimed}"
    if how == "values":
        body, at = bytearray(body), rng.randrange(max(1, len(body) // 4)) * 4
        body[at:at + 4] = rng.choice([b"\x00\x00\xc0\x7f", b"\x00\x00\x80\x7f", b"\xff\xff\x7f\x7f"])
        return data[:8 + length] + bytes(body), f"value at {at}"
    if how == "cut":
        return data[:rng.randrange(len(data))], "cut"
    text, what = of_json(header.decode(), False, rng)
    header = text.encode("utf-8", "surrogatepass")
    return len(header).to_bytes(8, "little") + header + body, what
