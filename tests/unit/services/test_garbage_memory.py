"""How much memory one root costs the garbage collector, measured in a process of its own."""

import os
import subprocess
import sys

PACKS = 200_000
MOST_MIB = 300
"""The function has 2,048, and keeps what two roots need."""

READ = f"""
import resource
from podferry.domain.manifest import parse_root

def entry(number):
    return '{{"sha256":"%064x","size":16777216,"snapshot_id":"snap_%026d"}}' % (number, number % 300)

packs = ",".join(map(entry, range({PACKS})))
body = (
    '{{"counts":{{"bytes":1,"entries":1,"files":1}},"format":1,"kind":"volume","packs":[%s],'
    '"pages":[],"parent":null,"snapshot_id":"snap_1"}}' % packs
).encode()
del packs
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
from podferry.services.garbage.sweep import by_snapshot
digests = by_snapshot(parse_root(body).needed)
assert sum(map(len, digests.values())) == {PACKS}
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def test_what_a_root_with_200_000_packs_needs_fits_many_times_into_the_function() -> None:
    done = subprocess.run(
        [sys.executable, "-c", READ],
        env={"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < MOST_MIB
