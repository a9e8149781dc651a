#!/usr/bin/env bash
# The MCP inspector's command line against a server: list the tools, run a query, see a refusal.
# inspector.sh BINARY DATABASE runs `BINARY serve DATABASE` (or BINARY with the words of SERVE_ARGS).
set -euo pipefail

if [ $# -ne 2 ]; then
    echo "usage: inspector.sh BINARY DATABASE" >&2
    exit 2
fi
binary=$1
# As the database spells identifiers.
case $2 in mysql://*) mark='`' ;; *) mark='"' ;; esac
read -ra args <<<"${SERVE_ARGS:-serve $2}"

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
inspector=$root/target/clients/inspector
export PATH="$inspector/node-bin:$PATH"

fail() {
    echo "inspector.sh: FAILED: $*" >&2
    exit 1
}

# What the inspector prints for a method; a refusal may make its status other than 0.
inspect() {
    "$inspector/node_modules/.bin/mcp-inspector" --cli "$binary" "${args[@]}" "$@" 2>"$inspector/stderr" || true
}

# check WHAT JSON SCRIPT: SCRIPT is JavaScript over `r`, and must be true.
check() {
    node -e '
        let r;
        try { r = JSON.parse(process.argv[1]); } catch { process.exit(1); }
        process.exit(eval(process.argv[2]) ? 0 : 1);
    ' "$2" "$3" || fail "$1: $2 $(cat "$inspector/stderr")"
}

tools=$(inspect --method tools/list)
check "the tools" "$tools" 'r.tools.map(t => t.name).join() === "describe_table,explain_query,list_databases,list_schemas,list_tables,list_views,policy_explain,policy_test,query,schema_dump,search_objects"
    && r.tools.every(t => t.annotations.readOnlyHint && t.inputSchema.additionalProperties === false)'
if grep -q 'unknown format' "$inspector/stderr"; then
    fail "a schema has a format the inspector does not know"
fi

tables=$(inspect --method tools/call --tool-name list_tables)
check "the list of tables" "$tables" '!r.isError && r.structuredContent.tables.some(t => t.readable)'
listed=$(inspect --method tools/call --tool-name search_objects --tool-arg 'pattern=*')
check "the search" "$listed" '!r.isError && r.structuredContent.object_count > 0'
table=$(node -e 'console.log(JSON.parse(process.argv[1]).structuredContent.tables.find(t => t.readable).name)' "$tables")

described=$(inspect --method tools/call --tool-name describe_table --tool-arg "table=$table")
check "the description of $table" "$described" '!r.isError && r.structuredContent.columns.length > 0'

resources=$(inspect --method resources/list)
check "the resources" "$resources" 'r.resources[0].uri === "palisade://databases" && r.resources.length > 3'
uri=$(node -e 'console.log(JSON.parse(process.argv[1]).resources.find(r => r.uri.endsWith("/tables/" + process.argv[2])).uri)' "$resources" "$table")
told=$(inspect --method resources/read --uri "$uri")
check "the resource $uri" "$told" 'JSON.parse(r.contents[0].text).columns.length > 0'
prompts=$(inspect --method prompts/list)
check "the prompts" "$prompts" 'r.prompts.map(p => p.name).join() === "ask-a-question,explore-database,understand-a-refusal"'

answer=$(inspect --method tools/call --tool-name query --tool-arg "sql=SELECT * FROM $mark$table$mark" --tool-arg limit=2)
check "a query" "$answer" '!r.isError && !r.structuredContent && r.content[0].text.includes("\n<<palisade-data ")'

answer=$(inspect --method tools/call --tool-name query --tool-arg "sql=SELECT * FROM $mark$table$mark" --tool-arg limit=2 --tool-arg format=json)
check "typed rows" "$answer" '!r.isError && r.structuredContent.columns.length > 0 && r.structuredContent.rows.length <= 2
    && r.content[0].text.includes("<<palisade-data ")'

refusal=$(inspect --method tools/call --tool-name query --tool-arg "sql=DELETE FROM $mark$table$mark")
check "a refusal" "$refusal" 'r.isError === true && r.structuredContent.code === "statement.not-allowed"
    && r.structuredContent.remediation_hint.length > 0'

echo "inspector.sh: ok ($("$inspector/node_modules/.bin/mcp-inspector" --version 2>/dev/null | tail -1))"
