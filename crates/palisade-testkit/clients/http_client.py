"""The Python client `mcp` over HTTP: `palisade serve --http`, with an access token and without one.

usage: http_client.py BINARY DEMO, where DEMO is a folder that `palisade demo --dir` made. Any difference from what is
expected ends it with a status that is not 0.
"""

import asyncio
import json
import pathlib
import subprocess
import sys

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

BOT = 'Agent::"support-bot"'


def expect(condition, what):
    """Stops if `condition` does not hold; `assert` could be switched off."""
    if not condition:
        raise SystemExit(f"http_client.py: FAILED: {what}")


async def ask(url, token, mode):
    """What a user's client does, in the newest revision that both know, or by shaking hands as before."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with httpx2.AsyncClient(headers=headers) as http:
        async with Client(streamable_http_client(url, http_client=http), mode=mode) as client:
            tools = [tool.name for tool in (await client.list_tools()).tools]
            expect("query" in tools and "execute" not in tools, f"the tools, not {tools}")
            answer = await client.call_tool("query", {"sql": "SELECT name FROM customers ORDER BY id", "format": "json"})
            expect(not answer.is_error, f"an answer, not {answer}")
            rows = answer.structured_content["rows"]
            expect(rows and all("name" in row for row in rows), f"rows, not {rows}")
            refused = await client.call_tool("query", {"sql": "SELECT * FROM no_such_table"})
            expect(refused.is_error and refused.structured_content["code"] == "name.unknown-relation", f"{refused}")
            listed = await client.call_tool("list_tables", {})
            return json.dumps([tools, rows, listed.structured_content])


async def refused(url, token):
    """Who brings no token that is known is told so, and the client gives up."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    async with httpx2.AsyncClient(headers=headers) as http:
        answer = await http.post(url, json=listing)
    expect(answer.status_code == 401 and "Bearer" in answer.headers["WWW-Authenticate"], f"401, not {answer}")
    try:
        await ask(url, token, "auto")
    except Exception:  # the client's own words
        return
    expect(False, f"{token} was let in")


def main():
    binary, demo = str(pathlib.Path(sys.argv[1]).resolve()), pathlib.Path(sys.argv[2])
    config = demo / "http.toml"
    config.write_text('policies = "demo-policies"\n[http]\n[connections.demo]\nurl = "sqlite:demo.db"\n')
    made = subprocess.run(
        [binary, "token", "create", "client", "--as", BOT, "--config", config, "--format", "json"],
        check=True,
        capture_output=True,
        text=True,
    )
    token = json.loads(made.stdout)["token"]
    server = subprocess.Popen(
        [binary, "serve", "--config", config, "--http", "127.0.0.1:0"], stderr=subprocess.PIPE, text=True
    )
    try:
        url = None
        for line in server.stderr:
            if "serving MCP at " in line:
                url = line.split("serving MCP at ")[1].split(",")[0].strip()
                break
        expect(url, "the server's address")
        newest = asyncio.run(ask(url, token, "auto"))
        expect(newest == asyncio.run(ask(url, token, "legacy")), "the same in both revisions")
        asyncio.run(refused(url, None))
        asyncio.run(refused(url, "palisade_" + "0" * 64))
        subprocess.run([binary, "token", "revoke", "client", "--config", config], check=True, capture_output=True)
        asyncio.run(refused(url, token))
    finally:
        server.terminate()
        server.wait()
    print(f"http_client.py: the same rows in both revisions, and nothing without a token")


main()
