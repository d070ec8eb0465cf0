"""OpenEnv's client and tools against `spag env --serve`, and its answers beside those of OpenEnv's own server.

Needs openenv-core.
"""

import asyncio
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import threading
import time
import unittest

try:
    import requests
    import uvicorn
    from openenv.cli._validation import validate_running_environment
    from openenv.core.env_server.http_server import create_app
    from openenv.core.env_server.types import State
    from openenv.core.generic_client import GenericEnvClient
    from websockets.exceptions import ConnectionClosed
    from websockets.sync.client import connect
except ImportError:
    raise unittest.SkipTest("the package openenv-core is not installed") from None

from spag_env.openenv import SpagAction, SpagEnvironment, SpagObservation

PROGRAM = os.environ.get("SPAG") or shutil.which("spag")


class Ours:
    """`spag env --serve` of a game."""

    def __init__(self, game, *flags):
        command = [PROGRAM, "env", "--serve", "--game", game, "--port", "0", *flags]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().removeprefix("listening on ").strip()

    def close(self):
        """Ends it as a supervisor does, and returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=30)
        self.process.stdout.close()
        return code


class Theirs:
    """OpenEnv's server around SpagEnvironment."""

    def __init__(self, game, sessions):
        app = create_app(lambda: SpagEnvironment(game), SpagAction, SpagObservation, max_concurrent_envs=sessions)
        listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        self.server = uvicorn.Server(uvicorn.Config(app, log_level="critical"))
        self.thread = threading.Thread(target=self.server.run, args=([listener],), daemon=True)
        self.thread.start()
        while not self.server.started and self.thread.is_alive():
            time.sleep(0.05)

    def close(self):
        """Ends it."""
        self.server.should_exit = True
        self.thread.join()


def shape(value):
    """The keys and types of JSON; texts and numbers themselves do not matter."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [shape(inner) for inner in value]
    return type(value).__name__


def ask(url):
    """The answers of a session to all messages."""
    with connect(url.replace("http", "ws") + "/ws") as session:
        answers = []
        for message in MESSAGES:
            session.send(message)
            answers.append(json.loads(session.recv(timeout=30)))
        return answers


def episode(env, seed):
    """A game of random actions, some of them refused: all results."""
    draw = random.Random(seed)
    results = [env.reset(seed=seed, episode_id=f"episode {seed}")]
    while not results[-1].done:
        results.append(env.step({"message": draw.choice(["[bet]", "[check]", "[call]", "[fold]", "what?"])}))
    return [(result.observation, result.reward, result.done) for result in results], env.state()


class Answers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.ours, cls.theirs = Ours("kuhn-poker"), Theirs("kuhn-poker", 8)
        cls.addClassCleanup(cls.theirs.close)
        cls.addClassCleanup(lambda: cls().assertEqual(cls.ours.close(), 0))

    def runTest(self):
        """For assertions of the class."""

    def test_episodes_are_equal(self):
        with GenericEnvClient(self.ours.url).sync() as ours, GenericEnvClient(self.theirs.url).sync() as theirs:
            for seed in range(10):
                self.assertEqual(episode(ours, seed), episode(theirs, seed))

    def test_sessions_at_once(self):
        async def play(seed):
            async with GenericEnvClient(self.ours.url) as env:
                draw, result = random.Random(seed), await env.reset(seed=seed)
                while not result.done:
                    await asyncio.sleep(0)
                    result = await env.step({"message": draw.choice(["[bet]", "[check]", "[call]", "[fold]"])})
                return result.observation["info"]["rewards"]

        async def both():
            return await asyncio.gather(*(play(seed) for seed in range(20)))

        together = asyncio.run(both())
        self.assertEqual(together, [asyncio.run(play(seed)) for seed in range(20)])

    def test_answers_to_messages_have_the_same_shape(self):
        mine, theirs = ask(self.ours.url), ask(self.theirs.url)
        for message, own, other in zip(MESSAGES, mine, theirs, strict=True):
            with self.subTest(message):
                for error in other["data"].get("errors", []):
                    error.pop("url")  # of pydantic's documentation
                self.assertEqual(shape(own), shape(other))
                for key in ("code", "errors"):
                    self.assertEqual(own["data"].get(key), other["data"].get(key))

    def test_answers_to_requests_have_the_same_shape(self):
        for method, path, body in REQUESTS:
            with self.subTest((method, path, body)):
                mine, theirs = (getattr(requests, method)(server.url + path, json=body, timeout=30)
                                for server in (self.ours, self.theirs))
                self.assertEqual(mine.status_code, theirs.status_code, mine.text)
                if theirs.status_code == 200:
                    self.assertEqual(shape(mine.json()), shape(theirs.json()))
                elif theirs.status_code == 422:
                    places = [[error["loc"] for error in answer.json()["detail"]] for answer in (mine, theirs)]
                    self.assertEqual([place[-1] for place in places[0]], [place[-1] for place in places[1]])

    def test_schemas_are_those_of_the_adapter(self):
        schema = requests.get(self.ours.url + "/schema", timeout=30).json()
        of = {"action": SpagAction, "observation": SpagObservation, "state": State}
        self.assertEqual(schema, {name: kind.model_json_schema() for name, kind in of.items()})

    def test_openenv_validates_the_server(self):
        report = validate_running_environment(self.ours.url, timeout_s=30)
        self.assertTrue(report["passed"], report)
        self.assertEqual((report["standard_profile"], report["mode"]), ("openenv-http/1.x", "simulation"))


MESSAGES = [
    "", "{", "{}", '{"type":"play"}', '{"type":"step"}', '{"type":"step","data":{}}', '{"type":"step","data":{"message":1}}',
    '{"type":"step","data":{"message":"[bet]","more":1}}', '{"type":"step","data":{"message":"[bet]"}}', '{"type":"state"}',
    '{"type":"state","data":{}}', '{"type":"reset","data":[]}', '{"type":"reset","data":{"seed":-1}}',
    '{"type":"reset","data":{"episode_id":5}}', '{"type":"reset","more":1}', '{"type":"reset","data":{"no_option":1}}',
    '{"type":"reset"}', '{"type":"reset","data":{"seed":7}}', '{"type":"state"}',
    '{"type":"step","data":{"message":"[bet]","metadata":{}}}', '{"type":"mcp"}',
    '{"type":"mcp","data":{"jsonrpc":"2.0","method":"tools/list","id":1}}',
]

REQUESTS = [
    ("get", "/health", None), ("get", "/metadata", None), ("get", "/state", None), ("get", "/schema", None),
    ("post", "/reset", {}), ("post", "/reset", {"seed": 7, "rounds": 1}), ("post", "/reset", {"no_option": 1}),
    ("post", "/reset", []), ("post", "/reset", {"seed": -7}), ("post", "/step", {}),
    ("post", "/step", {"action": {"message": "[bet]"}}), ("post", "/step", {"action": {"text": "[bet]"}}),
    ("post", "/mcp", {}), ("post", "/mcp", {"jsonrpc": "2.0", "method": "tools/list", "id": 1}),
    ("post", "/mcp", {"jsonrpc": "2.0", "method": "other", "id": 1}), ("get", "/nothing", None), ("get", "/reset", None),
]


class Limits(unittest.TestCase):
    def test_a_full_server_refuses_with_the_code_of_openenv(self):
        server, other = Ours("tic-tac-toe", "--max_sessions", "1"), Theirs("tic-tac-toe", 1)
        self.addCleanup(other.close)
        self.addCleanup(server.close)
        answers = []
        with GenericEnvClient(server.url).sync() as first:
            first.reset(seed=7)
            with self.assertRaisesRegex(RuntimeError, "CAPACITY_REACHED"), GenericEnvClient(server.url).sync() as second:
                second.reset()
        for url in (server.url, other.url):
            with GenericEnvClient(url).sync() as first:
                first.reset(seed=7)
                with connect(url.replace("http", "ws") + "/ws") as third:
                    answers.append(third.recv(timeout=30))
                self.assertFalse(first.step({"message": "[4]"}).observation["info"]["invalid"])
        self.assertEqual(*map(json.loads, answers))

    def test_errors_do_not_end_the_session(self):
        server = Ours("tic-tac-toe")
        self.addCleanup(server.close)
        with GenericEnvClient(server.url).sync() as env:
            with self.assertRaisesRegex(RuntimeError, "SESSION_ERROR"):
                env.step({"message": "[0]"})
            env.reset(seed=7)
            with self.assertRaisesRegex(RuntimeError, "VALIDATION_ERROR"):
                env.step({"text": "[0]"})
            self.assertFalse(env.step({"message": "[0]"}).observation["info"]["invalid"])

    def test_large_messages_and_silence_end_a_session(self):
        server = Ours("tic-tac-toe", "--max_body_mib", "1", "--session_timeout", "1")
        self.addCleanup(server.close)
        with GenericEnvClient(server.url).sync() as env:
            env.reset(seed=7)
            with self.assertRaises((RuntimeError, ConnectionClosed)):
                env.step({"message": "x" * (2 << 20)})
        with GenericEnvClient(server.url).sync() as env:
            env.reset(seed=7)
            time.sleep(2)
            with self.assertRaises((RuntimeError, ConnectionClosed)):
                env.step({"message": "[0]"})


if __name__ == "__main__":
    unittest.main()
