"""Run by the bundled Python itself: turns every .py below a directory into a .pyc in its place.

Usage: python -I compiler.py ROOT PREFIX

The .pyc are of the kind that is never compared with a source file, because there is none. The
order is fixed, and the caller fixes the hash seed: both get into the bytes otherwise.
"""

import py_compile
import sys
from pathlib import Path


def main() -> None:
    root, prefix = Path(sys.argv[1]), sys.argv[2]
    for source in sorted(root.rglob("*.py")):
        py_compile.compile(
            str(source),
            cfile=str(source.with_suffix(".pyc")),
            dfile=f"{prefix}/{source.relative_to(root).as_posix()}",
            doraise=True,
            invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        )
        source.unlink()


if __name__ == "__main__":
    main()
