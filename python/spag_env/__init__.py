"""Two-player games of `spag env` for Python: a process, and adapters to TextArena, OpenEnv and verifiers.

The adapters are modules that import their package: `spag_env.textarena`, `spag_env.openenv`, `spag_env.verifiers`.
"""

from spag_env.process import EnvError, EnvProcess, View

# verifiers finds a taskset and its environment in the package that its id names: `spag-env`.
__all__ = ["EnvError", "EnvProcess", "View", "SpagTaskset", "SpagEnv"]


def __getattr__(name):
    if name in ("SpagTaskset", "SpagEnv"):
        import spag_env.verifiers

        return getattr(spag_env.verifiers, name)
    raise AttributeError(name)
