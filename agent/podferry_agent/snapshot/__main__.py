"""`python -m podferry_agent.snapshot`: the engine over a directory store, for debugging."""

import argparse
import json
import os
import sys
import threading
from dataclasses import asdict
from pathlib import Path

from podferry_agent.snapshot import (
    CaptureSpec,
    Progress,
    RestoreSpec,
    SnapshotError,
    capture,
    restore,
    rules_for,
    verify_tree,
)
from podferry_agent.snapshot.directorystore import DirectoryStore


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="podferry_agent.snapshot", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("capture", "restore", "verify"):
        command = commands.add_parser(name)
        _common(command)
        command.add_argument("store", type=Path)
        command.add_argument("snapshot_id")
        command.add_argument("--key", default="00" * 32, help="chunk key, 64 hex digits")
        if name == "capture":
            command.add_argument("--parent")
            command.add_argument(
                "--paranoid",
                action="store_true",
                help="decompress and compare what is packed, for a machine with bad memory",
            )
        if name == "restore":
            command.add_argument(
                "--best-effort",
                action="store_true",
                help="restore what is whole of a damaged snapshot, and name the rest",
            )
    explain = commands.add_parser("explain", help="which rule decides about a path of the pod")
    _common(explain)
    explain.add_argument("path", nargs="+")
    return parser


def _common(command: argparse.ArgumentParser) -> None:
    command.add_argument("--root", default="/")
    command.add_argument("--kind", choices=["environment", "volume"], default="environment")
    command.add_argument("--state", default="/.podferry/state")
    command.add_argument("--rule", action="append", default=[], help="such as: exclude /data/**")


def _spec_fields(args: argparse.Namespace) -> dict[str, object]:
    return {
        "kind": args.kind,
        "snapshot_id": getattr(args, "snapshot_id", ""),
        "chunk_key": bytes.fromhex(getattr(args, "key", "00" * 32)),
        "root": os.fsencode(args.root),
        "state_dir": os.fsencode(args.state),
        "user_rules": tuple(args.rule),
    }


def _show(progress: Progress) -> None:
    sys.stderr.write(
        f"\r{progress.phase}: {progress.bytes_done >> 20} MiB, {progress.files_done} files   "
    )


def _run(args: argparse.Namespace) -> object:
    fields = _spec_fields(args)
    if args.command == "explain":
        rules = rules_for(RestoreSpec(**fields))  # type: ignore[arg-type]
        return {path: _explained(rules.explain(os.fsencode(path))) for path in args.path}
    store = DirectoryStore(args.store, args.snapshot_id, is_checking=False)
    never = threading.Event()
    if args.command == "capture":
        spec = CaptureSpec(parent=args.parent, paranoid=args.paranoid, **fields)  # type: ignore[arg-type]
        return asdict(capture(spec, store, _show, never))
    if args.command == "restore":
        wish = RestoreSpec(best_effort=args.best_effort, **fields)  # type: ignore[arg-type]
        return asdict(restore(wish, store, _show, never))
    return [str(found) for found in verify_tree(RestoreSpec(**fields), store)]  # type: ignore[arg-type]


def _explained(explanation: object) -> dict[str, str]:
    return {
        "verdict": explanation.verdict.value,  # type: ignore[attr-defined]
        "rule": explanation.rule,  # type: ignore[attr-defined]
        "reason": explanation.reason,  # type: ignore[attr-defined]
    }


def main() -> int:
    args = _parser().parse_args()
    try:
        result = _run(args)
    except SnapshotError as error:
        sys.stderr.write(f"\n{error.code}: {error}\n")
        return 1
    sys.stdout.write(json.dumps(result, indent=1) + "\n")
    if args.command == "restore":
        return 1 if result["damaged"] else 0  # type: ignore[index]
    return 1 if args.command == "verify" and result else 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # everything is closed; to free each entry by itself would take a while
