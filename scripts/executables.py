"""Prints name and path of each executable in the messages of `cargo … --message-format json`.

Tests named `it` have the name of their package, as `test-spag-ops`; others that of their target.
"""

import json
import sys

for line in sys.stdin:
    message = json.loads(line)
    if message.get("executable"):
        name = message["target"]["name"]
        print("test-" + message["manifest_path"].split("/")[-2] if name == "it" else name, message["executable"])
