"""EnvProcess against the program that SPAG names. Needs no package."""

import sys
import unittest

from spag_env import EnvError, EnvProcess

LINE = ["[0]", "[3]", "[1]", "[4]", "[2]"]  # player 0 fills the top row


def play(process, actions):
    """Plays the actions after a reset and returns all answers."""
    return [process.reset(seed=7), *(process.step(action) for action in actions)]


class Episodes(unittest.TestCase):
    def setUp(self):
        self.process = EnvProcess("tic-tac-toe")
        self.addCleanup(self.process.close)

    def test_episode(self):
        answers = play(self.process, LINE)
        self.assertEqual([answer["player"] for answer in answers], [0, 1, 0, 1, 0, None])
        self.assertEqual(answers[0]["seed"], 7)
        self.assertEqual((answers[-1]["rewards"], answers[-1]["reason"]), ({"0": 1, "1": -1}, "line"))
        self.assertEqual(answers[-1]["observations"], [])

    def test_process_plays_many_episodes(self):
        self.assertEqual(play(self.process, LINE), play(self.process, LINE))

    def test_view_is_all_that_a_player_was_given(self):
        answers = play(self.process, LINE)
        for player, view in enumerate(self.process.views):
            given = [m for answer in answers if answer["player"] == player for m in answer["observations"]]
            self.assertEqual(view.messages, given)
            self.assertTrue(view.text().startswith(f"\n[GAME] {view.of_kind('prompt')[0]}"))
            self.assertIn("\n[Player 1] [3]", self.process.views[0].text())
            self.assertTrue(view.train_text().endswith(view.of_kind("board")[-1]))
            self.assertNotIn("[Player 0]", view.train_text())

    def test_second_refusal_loses(self):
        answers = play(self.process, ["[0]", "[0]", "[0]"])
        self.assertEqual([answer["invalid"] for answer in answers], [False, False, True, True])
        self.assertEqual(answers[2]["player"], 1)
        self.assertEqual((answers[-1]["rewards"], answers[-1]["reason"]), ({"0": 1, "1": -1}, "invalid"))

    def test_errors_leave_the_game_as_it_was(self):
        for request, code in [
            ({"type": "step", "action": "[0]"}, "SESSION_ERROR"),
            ({"type": "state"}, "UNKNOWN_TYPE"),
            ({"type": "reset", "seed": -1}, "VALIDATION_ERROR"),
            ({"type": "reset", "options": {"size": 4}}, "VALIDATION_ERROR"),
            ({"type": "step", "action": 0}, "VALIDATION_ERROR"),
            ([], "INVALID_JSON"),
        ]:
            with self.subTest(request), self.assertRaises(EnvError) as caught:
                self.process.request(request)
            self.assertEqual(caught.exception.code, code)
        self.process.reset(seed=7)
        self.process.step("[0]")
        with self.assertRaises(EnvError):
            self.process.reset(size=4)
        for action in LINE[1:]:
            answer = self.process.step(action)
        self.assertTrue(answer["done"])
        with self.assertRaises(EnvError) as caught:
            self.process.step("[8]")
        self.assertEqual(caught.exception.code, "SESSION_ERROR")

    def test_seed_repeats_the_cards(self):
        with EnvProcess("kuhn-poker") as process:
            drawn = process.reset(rounds=1)
            self.assertEqual(process.reset(drawn["seed"], rounds=1), drawn)
            while not process.answer["done"]:
                process.step("[check]")
            self.assertEqual(sorted(process.answer["rewards"].values()), [-1, 1])


class Processes(unittest.TestCase):
    def test_killed_child(self):
        with EnvProcess("tic-tac-toe") as process:
            process.reset(seed=7)
            process.process.kill()
            process.process.wait()
            with self.assertRaises(EnvError) as caught:
                process.step("[0]")
        self.assertEqual(caught.exception.code, "PROCESS_ENDED")
        self.assertIn("exit code -9", str(caught.exception))

    def test_child_that_fails_names_its_reason(self):
        with EnvProcess("no-such-game") as process, self.assertRaises(EnvError) as caught:
            process.reset()
        self.assertEqual(caught.exception.code, "PROCESS_ENDED")
        self.assertIn("no-such-game", caught.exception.message)

    def test_child_that_speaks_no_json(self):
        command = [sys.executable, "-c", "print('hello', flush=True); input(); input()"]
        with EnvProcess("tic-tac-toe", command=command) as process, self.assertRaises(EnvError) as caught:
            process.reset()
        self.assertEqual(caught.exception.code, "PROCESS_ENDED")

    def test_silent_child(self):
        command = [sys.executable, "-c", "import sys; print('stuck', file=sys.stderr, flush=True); sys.stdin.read()"]
        with EnvProcess("tic-tac-toe", command=command, timeout=2) as process, self.assertRaises(EnvError) as caught:
            process.reset()
        self.assertEqual(caught.exception.code, "PROCESS_ENDED")
        self.assertIn("waited 2 s", caught.exception.message)
        self.assertIn("stuck", caught.exception.message)

    def test_close_ends_the_child(self):
        process = EnvProcess("tic-tac-toe")
        process.reset()
        process.close()
        process.close()
        self.assertEqual(process.process.returncode, 0)


if __name__ == "__main__":
    unittest.main()
