"""The Python client `mcp` over HTTP with a token of a real authorization server (`oidc-provider`), found as a client finds it.

usage: oauth_client.py BINARY DEMO NODE, where DEMO is a folder that `palisade demo --dir` made. Any difference from what is
expected ends it with a status that is not 0.
"""

import asyncio
import json
import pathlib
import re
import secrets
import socket
import subprocess
import sys

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

CLAIMS = """
[[principal]]
claim = "groups"
value = "support"
is = 'Agent::"support-bot"'
"""


def expect(condition, what):
    """Stops if `condition` does not hold; `assert` could be switched off."""
    if not condition:
        raise SystemExit(f"oauth_client.py: FAILED: {what}")


def find_port():
    """A port that is free now."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


async def discover(http, url):
    """The place where tokens are given, by what the server says to a client without one (RFC 9728)."""
    answer = await http.post(url, json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    challenge = answer.headers["WWW-Authenticate"]
    expect(answer.status_code == 401, f"401, not {answer}")
    metadata = (await http.get(re.search('resource_metadata="([^"]*)"', challenge)[1])).json()
    expect(metadata["resource"] == url, f"{metadata}")
    issuer = metadata["authorization_servers"][0]
    return (await http.get(f"{issuer}/.well-known/openid-configuration")).json()["token_endpoint"]


async def get_token(http, endpoint, secret, resource):
    """A token for `resource`."""
    form = {
        "grant_type": "client_credentials",
        "client_id": "helpdesk",
        "client_secret": secret,
        "scope": "palisade",
        "resource": resource,
    }
    answer = await http.post(endpoint, data=form)
    expect(answer.status_code == 200, f"a token, not {answer.text}")
    return answer.json()["access_token"]


async def ask(url, token):
    """What a user's client does."""
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}) as http:
        async with Client(streamable_http_client(url, http_client=http)) as client:
            sql = "SELECT DISTINCT tenant_id FROM customers"
            answer = await client.call_tool("query", {"sql": sql, "format": "json"})
            return answer.structured_content["rows"]


def walk(binary, url):
    """What `palisade doctor` finds on the way of a client, beside a real authorization server that knows clients by hand alone."""
    asked = [binary, "doctor", "--mcp", url, "--format", "json"]
    answer = subprocess.run(asked, capture_output=True, text=True)
    expect(answer.returncode == 0, f"no fault, not {answer.stdout} {answer.stderr}")
    finding = json.loads(answer.stdout)
    passed = {check["check"] for check in finding["checks"] if check["state"] == "ok"}
    expect({"challenge", "resource", "issuer", "endpoints", "PKCE"} <= passed, f"{finding}")
    expect(not finding["registration"]["dynamic"], f"{finding}")


async def check(url, secret):
    """Finds the authorization server, gets tokens, and asks with them."""
    async with httpx2.AsyncClient() as http:
        endpoint = await discover(http, url)
        token = await get_token(http, endpoint, secret, url)
        rows = await ask(url, token)
        expect(rows == [{"tenant_id": 1}] or rows == [[1]], f"rows of tenant 1, not {rows}")
        # A token of the same server for another one.
        other = await get_token(http, endpoint, secret, "https://other.example.com/mcp")
        listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        answer = await http.post(url, json=listing, headers={"Authorization": f"Bearer {other}"})
        expect(answer.status_code == 401 and "another server" in answer.text, f"{answer.text}")


def main():
    binary, demo, node = str(pathlib.Path(sys.argv[1]).resolve()), pathlib.Path(sys.argv[2]), sys.argv[3]
    url = f"http://127.0.0.1:{find_port()}/mcp"
    secret = secrets.token_hex(16)
    here = pathlib.Path(__file__).parent
    issuer = subprocess.Popen(
        [node, here / "oidc_server.mjs", url, secret], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    server = None
    try:
        name = issuer.stdout.readline().strip()
        expect(name.startswith("http://"), "the authorization server's address")
        (demo / "claims.toml").write_text(CLAIMS)
        config = demo / "oauth.toml"
        config.write_text(
            'policies = "demo-policies"\n'
            f'[http.oauth]\nresource = "{url}"\nscopes = ["palisade"]\n'
            f'[http.oauth.issuers.tests]\nissuer = "{name}"\n'
            '[connections.demo]\nurl = "sqlite:demo.db"\n'
        )
        address = url.removeprefix("http://").removesuffix("/mcp")
        server = subprocess.Popen(
            [binary, "serve", "--config", config, "--http", address], stderr=subprocess.PIPE, text=True
        )
        for line in server.stderr:
            if "serving MCP at " in line:
                break
        walk(binary, url)
        asyncio.run(check(url, secret))
    finally:
        issuer.kill()
        if server:
            server.terminate()
            server.wait()
    print("oauth_client.py: a token of an authorization server lets in at the server that it is for")


main()
