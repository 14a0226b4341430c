"""Delete a box's directory from inside its kind of user namespace.

Files in a box of an ordinary user belong to ids that this user cannot touch from outside.
Usage: `python -m local.boxes.remove ISOLATION DIRECTORY`.
"""

from __future__ import annotations

import shutil
import sys

from local.boxes.spec import Isolation
from local.boxes.user_namespace import UserNamespaceError, enter_user_namespace


def main(arguments: list[str]) -> int:
    isolation, directory = Isolation(arguments[0]), arguments[1]
    try:
        enter_user_namespace(isolation)
        shutil.rmtree(directory)
    except (OSError, UserNamespaceError) as error:
        sys.stderr.write(f"{directory}: cannot be deleted: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
