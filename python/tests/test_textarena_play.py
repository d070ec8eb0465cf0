"""TextArena's own games through spag-play: scripted players behind an endpoint, records, rewards. Needs textarena."""

import glob
import http.server
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

try:
    import textarena  # noqa: F401
except ImportError:
    raise unittest.SkipTest("the package textarena is not installed") from None

from test_textarena_child import PLAYERS

PROGRAMS = pathlib.Path(os.environ.get("SPAG") or shutil.which("spag") or "spag").parent


class View:
    """What a prompt shows: its messages of the game."""

    def __init__(self, prompt):
        self.texts = re.split(r"^\[GAME\] ", prompt, flags=re.MULTILINE)[1:]

    def of_kind(self, kind):
        """The texts that may be boards: those with moves in brackets. Which message is a board, a prompt does not say."""
        return [text for text in self.texts if re.search(r"\[[^\[\]\n]{1,30}\]", text)] or self.texts


class Endpoint(http.server.ThreadingHTTPServer):
    """An endpoint at which the models `player0` and `player1` play one game by a script."""

    def __init__(self, player):
        super().__init__(("127.0.0.1", 0), Handler)
        self.player, self.turn, self.prompts = player, -1, []
        self.thread = threading.Thread(target=self.serve_forever, daemon=True)
        self.thread.start()

    def answer(self, prompt, seat):
        """The text for a prompt."""
        view = View(prompt)
        retry = "invalid move" in view.texts[-1]
        self.turn += not retry
        self.prompts.append(prompt)
        return self.player(view, seat, self.turn, retry)

    def close(self):
        """Ends the endpoint."""
        self.shutdown()
        self.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        text = self.server.answer(request["prompt"], int(request["model"][-1]))
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        body = json.dumps({"choices": [{"index": 0, "text": text, "finish_reason": "stop"}], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def run(name, *arguments):
    """A program to its end."""
    return subprocess.run([PROGRAMS / name, *map(str, arguments)], capture_output=True, text=True, timeout=300)


class Games(unittest.TestCase):
    def test_games_are_played_and_credited(self):
        self.assertGreaterEqual(len(PLAYERS), 20)
        for env_id, player in PLAYERS.items():
            with self.subTest(env_id), tempfile.TemporaryDirectory() as folder:
                endpoint = Endpoint(player)
                self.addCleanup(endpoint.close)
                url = f"openai-completions:http://127.0.0.1:{endpoint.server_port}/v1"
                played = run("spag-play", "--game", f"textarena:{env_id}", "--python", sys.executable,
                             "--attacker_model_name_or_path", f"{url}#player0", "--defender_model_name_or_path",
                             f"{url}#player1", "--output_dir", folder, "--games_per_word", 1)
                self.assertEqual(played.returncode, 0, played.stderr)
                results, = glob.glob(f"{folder}/*_results.json")
                game, = json.loads(pathlib.Path(results).read_text())
                self.assertEqual(game["game_name"], f"textarena:{env_id}")
                self.assertIn(game["transcript"]["ending"], ("won", "draw"), game["transcript"])
                self.assertEqual(len(game["history"]), len(endpoint.prompts))
                # Records are read without Python, and samples have the prompts of play.
                shown = run("spag", "show", results)
                self.assertEqual(shown.returncode, 0, shown.stderr)
                samples = f"{folder}/samples.json"
                credited = run("spag-assign-rewards", "--input_data_path", results, "--output_data_path", samples)
                if game["transcript"]["ending"] == "won":
                    self.assertEqual(credited.returncode, 0, credited.stderr)
                    for sample in json.loads(pathlib.Path(samples).read_text()):
                        self.assertIn(sample["query"], endpoint.prompts)


if __name__ == "__main__":
    unittest.main()
