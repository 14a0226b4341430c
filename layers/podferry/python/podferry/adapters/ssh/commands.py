"""What is run on a machine over SSH, in a POSIX shell, as root or by `sudo`.

The commands are the same for every machine but for one number: secrets come on the standard input.
A directory that is made only once says who starts the bootstrap: a second start finds it there.
"""

import shlex

DIRECTORY = "/var/lib/podferry"
UPLOADED = "podferry: uploaded"
STARTED = "podferry: started"
NOTHING = "podferry: nothing"
ENDED = "podferry: ended"

# A copy beside the final name becomes it only if it is whole: the connection may end in the middle.
_UPLOAD = """
set -e
umask 077
mkdir -p {directory}
cd {directory}
if [ -e started ]; then cat >/dev/null; else
  new=$(mktemp -p .)
  trap 'rm -f "$new"' EXIT
  cat >"$new"
  [ "$(wc -c <"$new")" -eq {size} ]
  chmod 700 "$new"
  mv -f "$new" boot
  trap - EXIT
fi
echo "{uploaded}"
"""

# `mkdir` succeeds once. A machine that restarts later goes on by cloud-init, where it has that.
_START = """
cd {directory} 2>/dev/null && [ -e boot ] || {{ echo "{nothing}"; exit 0; }}
if mkdir started 2>/dev/null; then
  later=/var/lib/cloud/scripts/per-boot
  [ ! -d $later ] || cp -p boot $later/podferry
  setsid sh -c 'echo $$ >pid; ./boot >said 2>&1; echo $? >ended' </dev/null >/dev/null 2>&1 &
fi
n=25
while [ ! -e pid ]; do
  n=$((n - 1))
  [ $n -gt 0 ] || exit 1
  sleep 0.2
done
[ ! -e ended ] || {{ echo "{ended} $(cat ended): $(tail -c 300 said)"; exit 0; }}
echo "{started}"
"""


def upload_command(size: int) -> str:
    """Takes a script of `size` bytes on its standard input."""
    return _as_root(_UPLOAD.format(directory=DIRECTORY, size=size, uploaded=UPLOADED))


def start_command() -> str:
    """Starts what was uploaded, once in the life of the machine."""
    return _as_root(
        _START.format(directory=DIRECTORY, nothing=NOTHING, started=STARTED, ended=ENDED)
    )


def _as_root(script: str) -> str:
    return f"$(command -v sudo >/dev/null && echo sudo -n) sh -c {shlex.quote(script)}"
