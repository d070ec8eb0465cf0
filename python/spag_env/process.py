"""A game of `spag env` in a child process: one JSON line each way (docs/ENVIRONMENTS.md)."""

import collections
import contextlib
import json
import os
import select
import shutil
import subprocess
import threading


class EnvError(Exception):
    """An answer of type `error`, or the end of the process (code `PROCESS_ENDED`)."""

    def __init__(self, code, message):
        super().__init__(f"{code}: {message}")
        self.code, self.message = code, message


class View:
    """The messages that one player has been given in an episode, and their text for a model."""

    def __init__(self):
        self.messages = []

    def text(self):
        """The text that TextArena's LLMObservationWrapper makes: every message after `[GAME]` or `[Player i]`."""
        return "".join(f"\n[{self.sender(message)}] {message['text']}" for message in self.messages)

    def train_text(self):
        """The text of TextArena's `-train` ids: the prompt, the game's other messages, and the last board if any."""
        prompt, others, boards = (self.of_kind(*kinds) for kinds in (["prompt"], ["description", "message"], ["board"]))
        if not boards:
            return "".join(f"\n {text}" for text in prompt + others)
        return "\n\n".join([*prompt, "\n".join(others).strip(), boards[-1]])

    def of_kind(self, *kinds):
        """The texts of these kinds of messages, oldest first."""
        return [message["text"] for message in self.messages if message["kind"] in kinds]

    @staticmethod
    def sender(message):
        """How a text names who sent a message."""
        return "GAME" if message["from"] == -1 else f"Player {message['from']}"


class EnvProcess:
    """`spag env --game GAME [--data DATA]`. `answer` is the last answer, `views[player]` what a player has seen.

    The program is `program`, else the variable SPAG, else `spag` on the PATH. `command` replaces program and
    subcommand, for example by `[python, "textarena_child.py"]`. A request waits at most `timeout` seconds. One process
    plays one game at a time, from one thread.
    """

    def __init__(self, game, data=None, program=None, command=None, timeout=60):
        if command is None:
            program = program or os.environ.get("SPAG") or shutil.which("spag")
            if program is None:
                raise FileNotFoundError("no spag program: pass program=, set SPAG, or put spag on the PATH")
            command = [program, "env"]
        command = [*command, "--game", game, *(["--data", str(data)] if data else [])]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)
        self.diagnostics = collections.deque(maxlen=20)
        # stderr is read all the time: a full pipe would stop the child.
        self.reader = threading.Thread(target=self.diagnostics.extend, args=(self.process.stderr,), daemon=True)
        self.reader.start()
        self.timeout, self.arrivals = timeout, select.poll()
        self.arrivals.register(self.process.stdout, select.POLLIN)
        self.answer, self.views = None, (View(), View())

    def reset(self, seed=None, **options):
        """Starts an episode and returns its first answer. Without a seed one is drawn; `answer["seed"]` names it."""
        answer = self.request({"type": "reset", "seed": seed, "options": options})
        self.views = (View(), View())
        return self.keep(answer)

    def step(self, text):
        """Plays the text of the player that the last answer names, and returns the next answer."""
        return self.keep(self.request({"type": "step", "action": text}))

    def close(self):
        """Ends the process. It may be called twice."""
        with contextlib.suppress(OSError):
            self.process.stdin.close()  # the end of stdin ends the program
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.reader.join()
        self.process.stdout.close()
        self.process.stderr.close()

    def request(self, request):
        """Sends one request and returns the answer. An `error` answer and a dead or silent process raise EnvError."""
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
            if not self.arrivals.poll(self.timeout * 1000):
                raise TimeoutError(f"waited {self.timeout} s")
            answer = json.loads(self.process.stdout.readline())
        except (OSError, ValueError) as error:
            self.process.kill()
            code = self.process.wait()
            self.reader.join()
            diagnostics = b"".join(self.diagnostics).decode(errors="replace")
            raise EnvError("PROCESS_ENDED", f"exit code {code}, no answer ({error}); stderr:\n{diagnostics}") from error
        if answer["type"] == "error":
            raise EnvError(answer["code"], answer["message"])
        return answer

    def keep(self, answer):
        """Adds the observations of an answer to the view of the player that it names."""
        self.answer = answer
        if answer["player"] is not None:
            self.views[answer["player"]].messages += answer["observations"]
        return answer

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()
