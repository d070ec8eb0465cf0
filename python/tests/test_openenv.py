"""Self-play over OpenEnv's own server and client. Needs openenv-core."""

import socket
import threading
import time
import unittest

try:
    import uvicorn
    from openenv.core.env_server.http_server import create_app
    from openenv.core.generic_client import GenericEnvClient
except ImportError:
    raise unittest.SkipTest("the package openenv-core is not installed") from None

from spag_env import EnvError
from spag_env.openenv import SpagAction, SpagEnvironment, SpagObservation


class Sessions(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        app = create_app(lambda: SpagEnvironment("tic-tac-toe"), SpagAction, SpagObservation, max_concurrent_envs=2)
        listener = socket.create_server(("127.0.0.1", 0))
        cls.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        # OpenEnv closes a session's connection twice if the client has closed it, which uvicorn logs as an error.
        cls.server = uvicorn.Server(uvicorn.Config(app, log_level="critical"))
        cls.thread = threading.Thread(target=cls.server.run, args=([listener],), daemon=True)
        cls.thread.start()
        while not cls.server.started and cls.thread.is_alive():
            time.sleep(0.05)

    @classmethod
    def tearDownClass(cls):
        cls.server.should_exit = True
        cls.thread.join()

    def client(self):
        """A session of its own."""
        return GenericEnvClient(base_url=self.url).sync()

    def test_episode(self):
        with self.client() as env:
            result = env.reset(seed=7, episode_id="first")
            observation = result.observation
            self.assertEqual((result.reward, result.done, observation["info"]["seed"]), (None, False, 7))
            self.assertEqual([m["category"] for m in observation["messages"]], ["PROMPT", "BOARD"])
            self.assertIn("Player 0", observation["prompt"])
            rewards = []
            for action in ["[0]", "[3]", "[1]", "[4]", "[2]"]:
                self.assertEqual(observation["legal_players"], [observation["current_player_id"]])
                result = env.step({"message": action})
                observation = result.observation
                rewards.append(result.reward)
            self.assertTrue(result.done)
            self.assertEqual(rewards, [0, 0, 0, 0, 1])  # of the player who has just acted
            self.assertEqual(observation["info"]["rewards"], {"0": 1, "1": -1})
            self.assertEqual(observation["legal_players"], [])
            state = env.state()
            self.assertEqual((state["episode_id"], state["step_count"]), ("first", 5))

    def test_sessions_are_independent(self):
        with self.client() as one, self.client() as two:
            one.reset(seed=7)
            two.reset(seed=7)
            one.step({"message": "[4]"})
            self.assertFalse(two.step({"message": "[4]"}).observation["info"]["invalid"])
            refused = one.step({"message": "[4]"})
            self.assertTrue(refused.observation["info"]["invalid"])
            lost = one.step({"message": "[4]"})
            self.assertEqual((lost.done, lost.reward, lost.observation["info"]["reason"]), (True, -1, "invalid"))

    def test_errors_do_not_end_the_session(self):
        with self.client() as env:
            with self.assertRaisesRegex(RuntimeError, "SESSION_ERROR"):
                env.step({"message": "[0]"})
            env.reset(seed=7)
            with self.assertRaises(RuntimeError):
                env.step({"text": "[0]"})
            self.assertFalse(env.step({"message": "[0]"}).observation["info"]["invalid"])

    def test_killed_child(self):
        environment = SpagEnvironment("tic-tac-toe")
        self.addCleanup(environment.close)
        environment.reset(seed=7)
        environment.process.process.kill()
        with self.assertRaises(EnvError) as caught:
            environment.step(SpagAction(message="[0]"))
        self.assertEqual(caught.exception.code, "PROCESS_ENDED")


if __name__ == "__main__":
    unittest.main()
