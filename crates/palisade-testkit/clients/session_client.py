"""The Python client `mcp` 1.x and the TypeScript SDK over HTTP, in a session: a person is asked, and news are told.

usage: session_client.py BINARY DEMO NODE SDK, where DEMO is a folder that `palisade demo --dir` made, and SDK the folder of the TypeScript
SDK. Any difference from what is expected ends it with a status that is not 0.
"""

import asyncio
import json
import pathlib
import subprocess
import sys
from datetime import timedelta

from mcp import ClientSession, types
from mcp.client.streamable_http import streamablehttp_client

BOT = 'Agent::"support-bot"'
POLICIES = """
permit (principal, action in [Action::"select", Action::"see", Action::"read", Action::"write", Action::"change", Action::"add"], resource);
@id("with-approval") @approval("required")
permit (principal, action in [Action::"update", Action::"delete"], resource);
"""
MASK = '@mask("null") forbid (principal, action == Action::"read_plain", resource == Column::"main.customers.email");'
CHANGE = "UPDATE tickets SET subject = 'asked by {}' WHERE id = {}"
WATCHED = "palisade://databases/demo/policy"


def expect(condition, what):
    """Stops if `condition` does not hold; `assert` could be switched off."""
    if not condition:
        raise SystemExit(f"session_client.py: FAILED: {what}")


def write_policies(folder, more=""):
    """The policies, with a line that makes them others."""
    folder.mkdir(exist_ok=True)
    (folder / "base.cedar").write_text(f"{POLICIES}\n{more}")


async def ask(url, token, folder):
    """A person says yes, then no; and the client is told of other policies."""
    said = ["yes", "no"]
    told = asyncio.Event()

    async def answer(context, params):
        expect("UPDATE tickets" in params.message, f"what is asked, not {params.message}")
        if said.pop(0) == "yes":
            return types.ElicitResult(action="accept", content={"approve": True})
        return types.ElicitResult(action="decline")

    async def hear(message):
        if isinstance(message, types.ServerNotification) and isinstance(message.root, types.ResourceUpdatedNotification):
            told.set()

    headers = {"Authorization": f"Bearer {token}"}
    async with streamablehttp_client(url, headers=headers) as (read, write, session_id):
        patience = timedelta(seconds=30)
        async with ClientSession(read, write, patience, elicitation_callback=answer, message_handler=hear) as client:
            await client.initialize()
            expect(session_id(), "a session")
            approved = await client.call_tool("execute", {"sql": CHANGE.format("python", 1)})
            expect(not approved.isError, f"a change, not {approved}")
            declined = await client.call_tool("execute", {"sql": CHANGE.format("python", 2)})
            expect(declined.isError and declined.structuredContent["code"] == "approval.required", f"a refusal, not {declined}")
            expect(not said, "two questions")
            await client.subscribe_resource(WATCHED)
            write_policies(folder, MASK)
            await asyncio.wait_for(told.wait(), 30)


def main():
    binary, demo, node, sdk = (str(pathlib.Path(word).absolute()) for word in sys.argv[1:5])
    demo = pathlib.Path(demo)
    folder, config = demo / "session-policies", demo / "session.toml"
    write_policies(folder)
    config.write_text(
        'policies = "session-policies"\n[http]\ntokens = "session-tokens.json"\n[approvals]\nstate = "session.db"\n'
        '[connections.demo]\nurl = "sqlite:demo.db"\nwritable = true\n'
    )
    (demo / "session-tokens.json").unlink(missing_ok=True)
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
        asyncio.run(ask(url, token, folder))
        script = pathlib.Path(__file__).with_name("session_client.mjs")
        more = folder / "base.cedar"
        subprocess.run([node, str(script), sdk, url, token, str(more)], check=True)
    finally:
        server.terminate()
        server.wait()
    print("session_client.py: asked and told in sessions, by two clients")


main()
