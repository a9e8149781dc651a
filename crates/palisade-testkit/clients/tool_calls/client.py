"""Each tool with good and bad arguments, by the Python client `mcp` in its versions 1 and 2.

usage: client.py BINARY FOLDER: makes a database in FOLDER and serves it for changes under the policies beside this file.
client.py make BINARY FOLDER does no more than make it, for clients in other languages.
`calls.json` holds the calls: a refusal's `code`, or what the answer `has` and `lacks`; `keep` names a field for later calls.
"""

import asyncio
import json
import shutil
import sqlite3
import subprocess
import sys
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path

from mcp import StdioServerParameters
from mcp.client.stdio import stdio_client

HERE = Path(__file__).parent


def make(binary, folder):
    """A fresh database and policies under `folder`; the words of a server over them."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "policies").mkdir(parents=True)
    shutil.copy(HERE / "policies.cedar", folder / "policies/main.cedar")
    shutil.copy(HERE / "templates.toml", folder / "policies/templates.toml")
    database = f"sqlite:{folder / 'notes.db'}"
    with sqlite3.connect(folder / "notes.db") as file:
        file.executescript((HERE / "schema.sql").read_text())
        history = subprocess.run([binary, "history", "enable", database, "notes"], check=True, capture_output=True, text=True)
        file.executescript(history.stdout)
    return ["serve", database, "--writable", "--policies", str(folder / "policies"), "--as", 'Agent::"tester"']


@asynccontextmanager
async def connected(parameters):
    """A client of the version that is installed."""
    if version("mcp").startswith("1."):
        from mcp import ClientSession

        async with stdio_client(parameters) as (read, write), ClientSession(read, write) as client:
            await client.initialize()
            yield client
    else:
        from mcp import Client

        async with Client(stdio_client(parameters)) as client:
            yield client


def filled(value, kept):
    """`value` with what earlier answers said in place of `{name}`."""
    for name, text in kept.items():
        value = value.replace("{" + name + "}", text) if isinstance(value, str) else value
    return value


def check(call, result, kept):
    told = json.loads(result.model_dump_json(by_alias=True))
    content = told.get("structuredContent") or {}
    whole = json.dumps(told)
    if "code" in call:
        is_right = told["isError"] and content["code"] == call["code"] and json.loads(told["content"][0]["text"]) == content
    else:
        is_right = not told["isError"] and filled(call.get("has", ""), kept) in whole and ("lacks" not in call or call["lacks"] not in whole)
    if not is_right:
        raise SystemExit(f"client.py: FAILED: {call}: {whole}")
    if "keep" in call:
        kept[call["keep"]] = content[call["keep"]]


async def run(binary, folder):
    calls = json.loads((HERE / "calls.json").read_text())
    async with connected(StdioServerParameters(command=binary, args=make(binary, folder))) as client:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        for what, called in (("good", {call["tool"] for call in calls if "code" not in call}), ("bad", {call["tool"] for call in calls if "code" in call})):
            # Who proposes a change approves none of its own.
            missing = tools - called - ({"approve_change", "reject_change"} if what == "good" else set())
            if missing:
                raise SystemExit(f"client.py: FAILED: no {what} call of {missing}")
        kept = {}
        for call in calls:
            arguments = {name: filled(value, kept) for name, value in call["arguments"].items()}
            check(call, await client.call_tool(call["tool"], arguments), kept)
    print(f"client.py: ok ({len(calls)} calls of {len(tools)} tools; mcp {version('mcp')})")


match sys.argv[1:]:
    case ["make", binary, folder]:
        make(binary, Path(folder))
    case [binary, folder]:
        asyncio.run(asyncio.wait_for(run(binary, Path(folder)), 60))
    case _:
        raise SystemExit("usage: client.py [make] BINARY FOLDER")
