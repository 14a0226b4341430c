"""Runs as an ordinary user, in its own process: one whole life of a box; prints what it saw."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from local.boxes.base import ensure_base
from local.boxes.box import Box
from local.boxes.ladder import find_isolation
from local.boxes.spec import BoxSpec
from local.boxes.vm import VirtualMachine, vm_spec

USER_DATA = """#!/bin/sh
docker run --name pod --network host --entrypoint /bin/sh img -c 'echo "container of $(id -u)"'
shutdown -h now
"""


def main() -> None:
    directory = Path(sys.argv[1])
    base = ensure_base(directory / "cache")
    ladder = find_isolation(base)
    script = "echo run >> /root/runs; sleep infinity"
    box = Box(BoxSpec(directory / "box", base, ladder.isolation, ("/bin/sh", "-c", script)))
    box.start()

    def read(command: str) -> str:
        return box.run(["/bin/sh", "-c", command]).stdout.decode().strip()

    seen = {
        "isolation": ladder.isolation.value,
        "ladder": ladder.describe(),
        "uid": read("id -u"),
        "chown": box.run(["chown", "33:33", "/opt"]).exit_code,
        "write_usr": box.run(["touch", "/usr/bin/new"]).exit_code,
    }
    read("until [ -s /root/runs ]; do :; done; mkdir -p /opt/a/b; chmod 0 /opt/a")
    box.kill()
    box.start()
    seen["runs"] = read("until [ $(wc -l < /root/runs) = 2 ]; do :; done; wc -l < /root/runs")
    box.destroy()
    vm = Box(vm_spec(directory / "vm", base, ladder.isolation, VirtualMachine(USER_DATA, "vm")))
    vm.start()
    vm.wait(20)
    seen["vm"] = vm.log_path.read_text().strip()
    vm.destroy()
    seen["left"] = sorted(path.name for path in directory.iterdir())
    sys.stdout.write(json.dumps(seen))


if __name__ == "__main__":
    main()
