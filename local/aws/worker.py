"""Process of one function: AWS's own runtime client, which ends when the embedded AWS ends.

Runs as a script with only the function's code, its layers and the runtime's packages on the path.
"""

import os
import select
import sys
import threading


def main() -> None:
    """Watches the parent, then hands over to the runtime client."""
    _end_with_parent(int(os.environ.pop("_LOCAL_AWS_PARENT")))
    from awslambdaric.__main__ import main as run_function  # noqa: PLC0415

    run_function(sys.argv)


def _end_with_parent(parent: int) -> None:
    """Ends this process when the parent is gone, even by SIGKILL.

    PR_SET_PDEATHSIG does not do here: it follows the *thread* that forked, and the emulator forks
    from short-lived threads.
    """
    handle = os.pidfd_open(parent)
    if os.getppid() != parent:
        os._exit(1)
    threading.Thread(target=_exit_after, args=(handle,), daemon=True).start()


def _exit_after(handle: int) -> None:
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    poll.poll()
    os._exit(1)


if __name__ == "__main__":
    main()
