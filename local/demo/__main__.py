"""The main job in one go: `python -m local.demo`. Ends with `demo: OK` only if all of it held."""

import argparse
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from local.api import Api, ApiError
from local.assembly import BuildError
from local.aws.errors import LocalAWSError
from local.demo.place import Place
from local.demo.pod_shell import CommandFailedError
from local.demo.report import hop_lines, timeline_lines
from local.demo.story import DemoFailedError, Story
from local.processes import ProcessError
from local.stack import PROVIDERS, StackError, make_data_directory, stack_for_use
from podferry.domain.offer import Kind

DEFAULT_DATA = Path(".podferry")
DEFAULT_PROVIDERS = "fluence,vastai"
WHEEL_LIST = Path(__file__).parent / "wheel.txt"
FAILURES = (
    ApiError,
    BuildError,
    CommandFailedError,
    DemoFailedError,
    LocalAWSError,
    ProcessError,
    StackError,
    TimeoutError,
    httpx.HTTPError,
)


def main(arguments: list[str]) -> int:
    """0 if everything that the demo shows held, else 1."""
    options = _parse(arguments)
    started = time.monotonic()

    def say(line: str) -> None:
        sys.stdout.write(f"{time.monotonic() - started:6.1f} s  {line}\n")
        sys.stdout.flush()

    try:
        make_data_directory(options.data)
        wheel = fetch_wheel(options.data)
        with stack_for_use(options.data, say) as info:
            api = Api(info.api_url, info.api_key)
            story = Story(api, options.places, info, wheel, say)
            with left_pod_named(story, options.data):
                story.play()
            for line in (*timeline_lines(story), *hop_lines(story)):
                say(line)
            api.close()
    except FAILURES as error:
        sys.stderr.write(f"demo: FAILED: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("demo: interrupted\n")
        return 130
    sys.stdout.write("demo: OK\n")
    return 0


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m local.demo", description=__doc__)
    parser.add_argument("--data", type=Path, default=DEFAULT_DATA, help="where the state is kept")
    parser.add_argument(
        "--providers",
        dest="places",
        type=route,
        default=DEFAULT_PROVIDERS,
        metavar="NAME,NAME,...",
        help=f"where the pod goes in turn, and back to the first; of {', '.join(PROVIDERS)}; "
        f"`NAME:KIND` rents only what is one of {', '.join(Kind)}",
    )
    return parser.parse_args(arguments)


def route(text: str) -> tuple[Place, ...]:
    """The places in a list of names.

    Raises:
        argparse.ArgumentTypeError: it is not a list of two or more known ones, or two that follow
            each other are at one provider, also the last and the first.
    """
    places = tuple(Place.of(name) for name in text.split(","))
    if any(place.provider == "" for place in places):
        raise argparse.ArgumentTypeError(
            f"{text!r} has an empty name; write two or more of {', '.join(PROVIDERS)} with commas "
            f"between them, like {DEFAULT_PROVIDERS}"
        )
    for place in places:
        _check_known(place)
    neighbours = zip(places, (*places[1:], places[0]), strict=True)
    if len(places) < 2 or any(here.provider == there.provider for here, there in neighbours):
        # What a stop leaves behind is asked of the provider, where nothing else may run then.
        raise argparse.ArgumentTypeError(
            f"name two or more providers, and none twice in a row or at both ends, not {text!r}"
        )
    return places


def _check_known(place: Place) -> None:
    if place.provider not in PROVIDERS:
        raise argparse.ArgumentTypeError(
            f"there is no provider {place.provider!r}; known are {', '.join(PROVIDERS)}"
        )
    if place.kind not in {None, *Kind}:
        raise argparse.ArgumentTypeError(
            f"there is no kind {place.kind!r}; known are {', '.join(Kind)}"
        )


def with_data(command: str, data: Path) -> str:
    """The `make` command for the state in this directory."""
    if data == DEFAULT_DATA:
        return command
    return f"{command} ARGS={shlex.quote(f'--data {shlex.quote(str(data))}')}"


@contextmanager
def left_pod_named(story: Story, data: Path) -> Iterator[None]:
    """If the story ends early, say what it leaves behind and how to look at it."""
    try:
        yield
    except BaseException:
        if story.pod_id:
            run, forget = (with_data(f"make {goal}", data) for goal in ("run", "forget"))
            story.say(f"the pod {story.pod_id} stays as it is: look at it with `{run}`")
            story.say(f"logs are below {data / 'logs'}; `{forget}` deletes everything")
        raise


def fetch_wheel(data: Path) -> Path:
    """The wheel that is installed in the pod, from the package index once, checked by hash."""
    folder = data / "wheels"
    if not list(folder.glob("*.whl")):
        folder.mkdir(parents=True, exist_ok=True)
        command = ["download", "-q", "--no-deps", "--require-hashes", "-d", str(folder)]
        done = subprocess.run(
            [sys.executable, "-m", "pip", *command, "-r", str(WHEEL_LIST)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise DemoFailedError(
                "the package that is installed in the pod cannot be downloaded; the first run "
                f"needs the package index: {done.stderr.strip()}"
            )
    return next(folder.glob("*.whl"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
