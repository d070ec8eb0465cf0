#!/usr/bin/env python3
"""Runs the steps of Dockerfile without a container engine: in folders of debootstrap, by chroot.

    scripts/container.py FOLDER [--mirror URL] [-- COMMAND...]

Needs root, debootstrap, git and a Rust toolchain. Instructions are read from Dockerfile, and the files of the build from .dockerignore,
so the steps are those of an image; the images themselves are not downloaded: debian is made by debootstrap, and rust is that with gcc and the
toolchain of this machine. Compiled crates are kept in FOLDER/target for the next call. The last stage stays in FOLDER/final. The programs then run in it as the image's user: the entry point with
--version, --help and COMMAND, such as `run configs/tiny.toml`.
"""

import argparse
import fnmatch
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys

PATH = "/usr/local/toolchain/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
CONTEXT = pathlib.Path(__file__).resolve().parents[1]


def instructions(dockerfile):
    """The (name, arguments) of each instruction, lines joined and comments left out."""
    lines = [line for line in dockerfile.read_text().splitlines() if line.strip() and not line.startswith("#")]
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        name, _, arguments = line.strip().partition(" ")
        yield name.upper(), arguments.strip()


def sent_files(ignore):
    """The files that the build may read: those of git that the last matching line of .dockerignore does not exclude."""
    rules = [line.strip() for line in ignore.read_text().splitlines() if line.strip() and not line.startswith("#")]
    listed = ["git", "-C", str(CONTEXT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.run(listed, check=True, capture_output=True, text=True).stdout.split("\0"):
        path = pathlib.PurePosixPath(name)
        prefixes = [str(path), *map(str, path.parents)]
        sent = True
        for rule in rules:
            pattern = rule.lstrip("!").removeprefix("**/")
            if any(fnmatch.fnmatch(prefix, pattern) for prefix in prefixes if prefix != "."):
                sent = rule.startswith("!")
        if name and sent and (CONTEXT / name).is_file():
            yield name


class Stage:
    """A root folder and the settings of later steps."""

    def __init__(self, root):
        self.root, self.directory, self.user, self.entry = root, "/", "root", ["/bin/sh"]
        self.environment = {"PATH": PATH, "HOME": "/root", "CARGO_HOME": "/usr/local/cargo", "LC_ALL": "C.UTF-8"}
        for name in ("http_proxy", "https_proxy", "no_proxy", "CARGO_NET_OFFLINE", "CARGO_BUILD_JOBS"):
            if name in os.environ:
                self.environment[name] = os.environ[name]

    def path(self, name):
        return self.root / os.path.normpath(os.path.join(self.directory, name)).lstrip("/")

    def run(self, command):
        """Runs a command in the folder, with mounts that end with it."""
        print("+", shlex.join(command) if len(command) > 1 else command[0], flush=True)
        toolchain = subprocess.run(["rustc", "--print", "sysroot"], capture_output=True, text=True).stdout.strip()
        registry = pathlib.Path(os.environ.get("CARGO_HOME", pathlib.Path.home() / ".cargo")) / "registry"
        mounts, inside_only = ["mount -t proc proc proc", "mount --rbind /dev dev"], {}
        if (self.root / "usr/local/toolchain").exists():
            mounts += [f"mount --bind {shlex.quote(toolchain)} usr/local/toolchain"]
            mounts += [f"mount --bind {shlex.quote(str(self.root.parent / 'target'))} target"]
            inside_only = {"CARGO_TARGET_DIR": "/target"}
            mounts += [f"mount --bind {shlex.quote(str(registry))} usr/local/cargo/registry"] if registry.exists() else []
        inner = f"cd {shlex.quote(self.directory)} && exec {shlex.join(command)}"
        inside = ["env", "-i", *(f"{key}={value}" for key, value in {**self.environment, **inside_only}.items()), "sh", "-c", inner]
        user = "0:0" if self.user == "root" else f"{self.user}:{self.user}"
        script = " && ".join([*mounts, f"exec chroot --userspec={user} . {shlex.join(inside)}"])
        subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", script], cwd=self.root, check=True)

    def copy(self, source, target):
        """Copies a file into a folder, or what a folder contains."""
        shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True) if source.is_dir() else shutil.copy2(source, target)


def base(image, folder, mirror):
    """The root folder of an image, made once."""
    kind, _, tag = image.partition(":")
    suite = tag.removesuffix("-slim").rpartition("-")[2] if kind == "rust" else tag.removesuffix("-slim")
    suite = "bookworm" if suite == "slim" else suite
    if kind not in ("debian", "rust"):
        sys.exit(f"{image}: only debian and rust can be made by debootstrap")
    root = folder / f"{kind}-{suite}"
    if not (root / "complete").exists():
        shutil.rmtree(root, ignore_errors=True)
        packages = ["--include=gcc,libc6-dev,ca-certificates"] if kind == "rust" else []
        subprocess.run(["debootstrap", "--variant=minbase", *packages, suite, str(root), mirror], check=True, stdout=2)
        for name in ("resolv.conf", "hosts", "ssl/certs/ca-certificates.crt"):
            if kind == "rust" and pathlib.Path("/etc", name).exists():
                shutil.copy("/etc/" + name, root / "etc" / name)
        if kind == "rust":
            (root / "usr/local/toolchain").mkdir()
            (root / "target").mkdir()
            (root / "usr/local/cargo/registry").mkdir(parents=True)
        (root / "complete").touch()
    return root


def build(dockerfile, folder, mirror):
    """Runs all instructions; the last stage."""
    stages, stage = {}, None
    for name, arguments in instructions(dockerfile):
        words = shlex.split(arguments) if name != "RUN" else []
        if name == "FROM":
            root = folder / (words[2] if len(words) > 2 else "final")
            shutil.rmtree(root, ignore_errors=True)
            subprocess.run(["cp", "-a", "--reflink=auto", base(words[0], folder, mirror), root], check=True)
            stage = stages[root.name] = Stage(root)
        elif name == "WORKDIR":
            stage.directory = words[0]
            stage.path(".").mkdir(parents=True, exist_ok=True)
        elif name == "ENV":
            stage.environment.update(word.split("=", 1) for word in words)
        elif name == "COPY" and words[0].startswith("--from="):
            stage.copy(stages[words[0].removeprefix("--from=")].path(words[1]), stage.path(words[2]))
        elif name == "COPY":
            for file in sent_files(CONTEXT / ".dockerignore"):
                within = pathlib.PurePosixPath(file)
                if words[0] != ".":
                    if not within.is_relative_to(words[0]):
                        continue
                    within = within.relative_to(words[0])
                target = stage.path(words[1]) / within
                target.parent.mkdir(parents=True, exist_ok=True)
                # With the present time: Cargo would take a changed file that is older than the last build for unchanged.
                shutil.copy(CONTEXT / file, target)
        elif name == "RUN":
            stage.run(["sh", "-c", arguments])
        elif name == "USER":
            stage.user, stage.environment["HOME"] = words[0], f"/home/{words[0]}"
        elif name == "ENTRYPOINT":
            stage.entry = json.loads(arguments)
        else:
            sys.exit(f"{name}: an instruction that this script does not know")
    return stage


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--mirror", default="http://deb.debian.org/debian")
    parser.add_argument("command", nargs="*")
    given = parser.parse_args()
    if os.geteuid() != 0 or not shutil.which("debootstrap"):
        sys.exit("this needs root and the package debootstrap")
    folder = given.folder.resolve()
    (folder / "target").mkdir(parents=True, exist_ok=True)
    stage = build(CONTEXT / "Dockerfile", folder, given.mirror)
    for arguments in (["--version"], ["--help"], given.command):
        if arguments:
            stage.run([*stage.entry, *arguments])


if __name__ == "__main__":
    main()
