"""The Python client `mcp` against a server: list the tools, run a query, see refusals.

usage: python_client.py BINARY DATABASE, which runs `BINARY serve DATABASE` (or BINARY with the words
of SERVE_ARGS). Any difference from what is expected ends it with a traceback and a status that is not 0.
"""

import asyncio
import json
import os
import subprocess
import sys

from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import ResourceTemplateReference

TOOLS = [
    "describe_table",
    "explain_query",
    "list_databases",
    "list_schemas",
    "list_tables",
    "list_views",
    "policy_explain",
    "policy_test",
    "query",
    "schema_dump",
    "search_objects",
]


def expect(condition, what):
    """Stops if `condition` does not hold; `assert` could be switched off."""
    if not condition:
        raise SystemExit(f"python_client.py: FAILED: {what}")


def words(binary, database):
    args = os.environ.get("SERVE_ARGS")
    return [binary, *(args.split() if args else ["serve", database])]


def quoted(name, command):
    """A name as the database spells identifiers."""
    mark = "`" if any("mysql://" in word for word in command) else '"'
    return mark + name.replace(mark, mark * 2) + mark


def parameters(command):
    """A statement with a number and a text for parameters, as the database spells them."""
    if any("postgres://" in word for word in command):
        return "SELECT $1::int AS a, $2::text AS b"
    return "SELECT ? AS a, ? AS b"


def refusal_of(result, code):
    expect(result.is_error is True, f"isError of {result}")
    body = result.structured_content
    expect(body["code"] == code, f"{code}, not {body}")
    for key in ("message", "retryable", "remediation_hint", "context", "next_valid_actions"):
        expect(key in body, f"`{key}` in {body}")
    expect(json.loads(result.content[0].text) == body, "the text says the same as the structured content")
    return body


async def with_client(command):
    """What a user's client does, in the newest revision that both know."""
    params = StdioServerParameters(command=command[0], args=command[1:])
    async with Client(stdio_client(params)) as client:
        tools = (await client.list_tools()).tools
        expect([tool.name for tool in tools] == TOOLS, f"the tools, not {tools}")
        for tool in tools:
            hints = tool.annotations
            expect(
                (hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint, hints.open_world_hint)
                == (True, False, True, False),
                f"the annotations of {tool.name}, not {hints}",
            )
            expect(bool(tool.title), f"the title of {tool.name}")
            expect(bool(tool.output_schema) == (tool.name not in ("query", "explain_query")), f"the output schema of {tool.name}")

        listed = await client.call_tool("list_tables", {})
        expect(not listed.is_error, f"the list of tables, not {listed}")
        tables = [table for table in listed.structured_content["tables"] if table["readable"]]
        expect(tables, "a table that can be read")
        table = tables[0]["name"]

        found = await client.call_tool("search_objects", {"pattern": table})
        expect(not found.is_error and found.structured_content["object_count"] > 0, f"{table}, not {found}")
        for tool in ("list_databases", "list_schemas", "list_views", "policy_explain", "schema_dump"):
            told = await client.call_tool(tool, {})
            expect(not told.is_error, f"an answer of {tool}, not {told}")
        refusal_of(await client.call_tool("list_tables", {"cursor": "x"}), "request.invalid")
        tried = await client.call_tool("policy_test", {"sql": "SELECT 1"})
        expect(tried.structured_content["allowed"] is True, f"a permit, not {tried}")
        tried = await client.call_tool("policy_test", {"sql": "SELECT * FROM no_such_thing"})
        expect(tried.structured_content["refusal"]["code"] == "name.unknown-relation", f"a refusal, not {tried}")
        planned = await client.call_tool("explain_query", {"sql": "SELECT 1"})
        expect(not planned.is_error, f"a plan, not {planned}")

        described = await client.call_tool("describe_table", {"table": table})
        columns = [column["name"] for column in described.structured_content["columns"]]
        expect(columns, f"columns of {table}")

        await names_by_uri(client, tables[0], described)

        rows = {"sql": f"SELECT * FROM {quoted(table, command)}", "limit": 2}
        answer = await client.call_tool("query", rows)
        expect(not answer.is_error and answer.structured_content is None, f"rows as text alone, not {answer}")
        lines = answer.content[0].text.splitlines()
        expect(lines[1].startswith("<<palisade-data ") and lines[2] == ",".join(columns), f"the table {lines}")

        answer = await client.call_tool("query", rows | {"format": "json"})
        expect(not answer.is_error, f"rows, not {answer}")
        envelope = answer.structured_content
        expect([column["name"] for column in envelope["columns"]] == columns, f"{columns} in {envelope}")
        expect(envelope["row_count"] == len(envelope["rows"]) <= 2, f"at most two rows in {envelope}")
        lines = answer.content[0].text.splitlines()
        expect(lines[1].startswith("<<palisade-data ") and json.loads(lines[2]) == envelope, f"the text {lines}")

        answer = await client.call_tool("query", {"sql": parameters(command), "params": [1, "x"], "format": "json"})
        expect(answer.structured_content["rows"] == [{"a": 1, "b": "x"}], f"parameters in {answer}")

        if any("sqlite:" in word for word in command):
            await masks_are_told(client)

        refusal_of(await client.call_tool("query", {"sql": f"DELETE FROM {quoted(table, command)}"}), "statement.not-allowed")
        refusal_of(await client.call_tool("query", {"sql": "SELECT * FROM no_such_thing"}), "name.unknown-relation")
        refusal_of(await client.call_tool("describe_table", {"table": "no_such_thing"}), "name.unknown-relation")
        refusal_of(await client.call_tool("query", {"sql": "SELECT 1", "limit": 1001}), "request.invalid")
        refusal_of(await client.call_tool("query", {"sql": "SELECT 1", "unknown": 1}), "request.invalid")
        return client.protocol_version if hasattr(client, "protocol_version") else "negotiated"


async def names_by_uri(client, table, described):
    """Resources say what tools say; prompts are there, and their arguments are completed."""
    templates = (await client.list_resource_templates()).resource_templates
    expect([template.name for template in templates] == ["schemas", "tables", "table", "policy"], f"the templates, not {templates}")
    listed = (await client.list_resources()).resources
    ending = f"/schemas/{table['schema']}/tables/{table['name']}"
    uris = [str(one.uri) for one in listed if str(one.uri).endswith(ending)]
    expect(len(uris) == 1, f"one resource of {table} in {listed}")
    told = (await client.read_resource(uris[0])).contents[0]
    expect(json.loads(told.text) == described.structured_content, f"what describe_table says, not {told}")
    try:
        await client.read_resource(uris[0] + "-not")
        expect(False, "an error for a table that there is not")
    except MCPError as error:
        expect(error.error.data["code"] == "name.unknown-relation", f"the refusal, not {error}")
    prompts = [prompt.name for prompt in (await client.list_prompts()).prompts]
    expect(prompts == ["ask-a-question", "explore-database", "understand-a-refusal"], f"the prompts, not {prompts}")
    prompt = await client.get_prompt("ask-a-question", {"question": "How many?"})
    expect("How many?" in prompt.messages[0].content.text, f"the question in {prompt}")
    reference = ResourceTemplateReference(type="ref/resource", uri=templates[2].uri_template)
    completed = await client.complete(reference, {"name": "table", "value": table["name"]}, {"schema": table["schema"], "connection": uris[0].split("/")[3]})
    expect(table["name"] in completed.completion.values, f"{table} in {completed}")


async def masks_are_told(client):
    """What was computed from masks says so: an average of nothing is no fact."""
    sql = "SELECT count(DISTINCT national_id) AS n, max(national_id) AS last FROM customers WHERE national_id > '*'"
    envelope = (await client.call_tool("query", {"sql": sql, "format": "json"})).structured_content
    used = {notice["column"]: notice["usage"] for notice in envelope["notices"]}
    expect(
        used == {"customers.national_id": ["output", "filter", "aggregate"]},
        f"a notice for each masked column in {envelope}",
    )
    expect(all(column["masked"] for column in envelope["columns"]), f"masked columns in {envelope}")
    answer = await client.call_tool("query", {"sql": "SELECT id FROM customers WHERE national_id = 'x'", "format": "json"})
    envelope = answer.structured_content
    expect(envelope["empty_reason"] == "masked_condition", f"why {envelope} is empty")
    expect("`customers.national_id` is masked: the condition compared the mask." in answer.content[0].text, "the text says so")


def raw(command):
    """The older revision by hand: every line on standard output is a message of the protocol, and the
    server ends by itself when its input does."""
    initialize = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "raw", "version": "0"},
    }
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
        {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "query", "arguments": {"sql": "SELECT 1 AS one", "format": "json"}}},
        {"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": {"name": "query", "arguments": {"sql": "DROP TABLE x"}}},
        {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "execute", "arguments": {}}},
        {"jsonrpc": "2.0", "id": 6, "method": "tools/call", "params": {"name": "no_such_tool", "arguments": {}}},
    ]
    lines = "".join(json.dumps(message) + "\n" for message in messages) + "not json\n"
    done = subprocess.run(command, input=lines.encode(), capture_output=True, timeout=60)
    expect(done.returncode == 0, f"status 0 at the end of the input, not {done.returncode}: {done.stderr!r}")
    answers = {}
    for line in done.stdout.splitlines():
        message = json.loads(line)
        expect(message.get("jsonrpc") == "2.0", f"a message of the protocol, not {line!r}")
        answers[message.get("id")] = message
    expect(answers[1]["result"]["protocolVersion"] == "2025-11-25", f"the revision in {answers[1]}")
    expect([tool["name"] for tool in answers[2]["result"]["tools"]] == TOOLS, f"the tools in {answers[2]}")
    expect(answers[3]["result"]["structuredContent"]["rows"] == [{"one": 1}], f"a row in {answers[3]}")
    for number in (4, 5):
        result = answers[number]["result"]
        expect(result["isError"] is True, f"a refusal, not {result}")
        expect(result["structuredContent"]["code"] == "statement.not-allowed", f"the code of {result}")
    expect(answers[6]["error"]["code"] == -32602, f"a protocol error, not {answers[6]}")


def main():
    if len(sys.argv) != 3:
        raise SystemExit("usage: python_client.py BINARY DATABASE")
    command = words(sys.argv[1], sys.argv[2])
    raw(command)
    version = asyncio.run(asyncio.wait_for(with_client(command), 60))
    print(f"python_client.py: ok (raw 2025-11-25; mcp {version})")


main()
