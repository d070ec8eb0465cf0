"""Self-play through verifiers: an OpenAI-compatible server of scripted players, and verifiers' null harness.

Needs verifiers, and uv, with which verifiers installs its chat program's packages.
"""

import asyncio
import http.server
import json
import os
import threading
import unittest
from unittest import mock

try:
    import verifiers.v1 as vf
    from verifiers.v1.utils.loaders import environment_class
except ImportError:
    raise unittest.SkipTest("the package verifiers is not installed") from None

import spag_env.verifiers

# Player 0 is shown 0 moves of its own in its first request, 1 in the next, and so on.
MOVES = {0: ["[0]", "[1]", "[2]"], 1: ["[3]", "[4]", "[5]"]}


class Model(http.server.BaseHTTPRequestHandler):
    """Streamed chat completions whose text depends on who is asked and how often."""

    requests = []

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.requests.append(body["messages"])
        player = int("player 1" in body["messages"][0]["content"].split(".")[0].lower())
        turn = sum(message["role"] == "assistant" for message in body["messages"])
        delta = {"role": "assistant", "content": MOVES[player][turn]}
        chunk = {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": "scripted",
                 "choices": [{"index": 0, "delta": delta, "finish_reason": "stop"}],
                 "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}
        answer = f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args):
        """Says nothing."""


class SelfPlay(unittest.TestCase):
    def setUp(self):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        Model.requests.clear()

    def episode(self, game):
        """One episode of the game's first task."""
        self.assertIs(environment_class("spag-env"), spag_env.verifiers.SpagEnv)
        taskset = {"id": "spag-env", "game": game, "first_seed": 7}
        env = spag_env.verifiers.SpagEnv(spag_env.verifiers.SpagEnvConfig.model_validate({"taskset": taskset}))
        task = next(iter(env.taskset))
        url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"
        client = vf.EvalClientConfig(base_url=url, api_key_var="SCRIPTED_KEY")
        context = vf.ModelContext(model="scripted", client=client, sampling=vf.SamplingConfig())

        async def run():
            async with env.serving():
                return await env.run_episode(task, context)

        with mock.patch.dict(os.environ, SCRIPTED_KEY="none"):
            return task, asyncio.run(run())

    def test_episode(self):
        task, episode = self.episode("tic-tac-toe")
        self.assertTrue(episode.ok, [*episode.errors, *(trace.errors for trace in episode.traces)])
        self.assertEqual(task.data.info["seed"], 7)
        traces = {trace.agent.name: trace for trace in episode.traces}
        self.assertEqual({name: trace.reward for name, trace in traces.items()}, {"player0": 1.0, "player1": -1.0})
        self.assertEqual({name: trace.num_turns for name, trace in traces.items()}, {"player0": 3, "player1": 2})
        self.assertEqual(traces["player0"].info["game_outcome"], "line")
        # A conversation alternates, and nobody is told again what it has said itself.
        longest = max(Model.requests, key=len)
        self.assertEqual([message["role"] for message in longest], ["user", "assistant"] * 2 + ["user"])
        self.assertNotIn("[Player 0]", longest[-1]["content"])
        self.assertIn("[Player 1] [4]", longest[-1]["content"])

    def test_failure_of_the_process_is_the_episodes_error(self):
        with mock.patch.object(spag_env.verifiers.EnvProcess, "step", side_effect=BrokenPipeError("gone")):
            _, episode = self.episode("tic-tac-toe")
        self.assertFalse(episode.ok)
        self.assertIn("gone", str(episode.errors))


if __name__ == "__main__":
    unittest.main()
