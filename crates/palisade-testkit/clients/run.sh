#!/usr/bin/env bash
# Runs every client of the tests against a server: run.sh BINARY DATABASE
# starts `BINARY serve DATABASE` (for example sqlite:demo.db) from each. Run setup.sh first.
# SERVE_ARGS, split at spaces, replaces `serve DATABASE`: for servers with another command line.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if [ $# -ne 2 ]; then
    echo "usage: run.sh BINARY DATABASE" >&2
    exit 2
fi
"$here/../../../target/clients/python/bin/python" "$here/python_client.py" "$1" "$2"
bash "$here/inspector.sh" "$1" "$2"
