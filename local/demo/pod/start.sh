#!/bin/sh
# The pod's startup script as the demo's user wrote it: proves that it ran on this machine, with
# the package that was installed on another one.
set -eu
export PYTHONDONTWRITEBYTECODE=1
printf 'package,works\ntabulate,yes\n' | /opt/tools/bin/tabulate -1 -s , -f github > /tmp/started
