//! `palisade lsp` in Neovim, with the configuration of the manual.

use std::{fs, path::Path};

use palisade_testkit::desktop::find_neovim;
use serde_json::Value;

use crate::desk::Desk;

/// The lines for `init.lua` that the manual has.
fn read_manual() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/language-server.md");
    let text = fs::read_to_string(path).unwrap();
    let (_, section) = text.split_once("## Neovim").unwrap();
    let (_, rest) = section.split_once("```text\n").unwrap();
    rest.split_once("```").unwrap().0.to_owned()
}

/// What a person does: looks at the warnings, asks about a word, takes the quick fix, and looks at the lenses.
const SESSION: &str = r#"
local out = {}
local function await(what, is)
  if not vim.wait(60000, is, 50) then error('no ' .. what) end
end
local function attempt()
  vim.cmd.edit('demo-policies/base.cedar')
  await('diagnostics', function() return #vim.diagnostic.get(0) > 0 end)
  out.diagnostics = vim.tbl_map(function(one) return {one.code, one.lnum, one.message} end, vim.diagnostic.get(0))
  local client = vim.lsp.get_clients({name = 'palisade'})[1]
  local line = vim.fn.search('main.tickets.status')
  if line == 0 then error('no column') end
  local asked = vim.lsp.util.make_position_params(0, client.offset_encoding)
  local told = client:request_sync('textDocument/hover', asked, 60000, 0)
  out.hover = told.result.contents.value
  vim.api.nvim_win_set_cursor(0, {1, 0})
  vim.lsp.buf.code_action({apply = true, filter = function(action) return action.kind == 'quickfix' end})
  await('fix', function() return #vim.diagnostic.get(0) == 0 end)
  out.first = vim.api.nvim_buf_get_lines(0, 0, 1, false)[1]
  vim.lsp.codelens.refresh({bufnr = 0})
  await('lenses', function() return #vim.lsp.codelens.get(0) > 0 end)
  out.lenses = vim.tbl_map(function(lens) return lens.command.title end, vim.lsp.codelens.get(0))
end
local ok, why = pcall(attempt)
if not ok then out.failed = why end
vim.fn.writefile({vim.json.encode(out)}, 'out.json')
vim.cmd('qa!')
"#;

#[test]
#[ignore = "needs Neovim 0.11: cargo xtask test runs it"]
fn neovim_shows_problems_hovers_fixes_and_lenses() {
    let desk = Desk::new();
    let base = fs::read_to_string(desk.path("demo-policies/base.cedar")).unwrap();
    let odd = format!("// palisade:ignore always-beaten nothing is\n{base}");
    desk.write("demo-policies/base.cedar", odd);
    desk.write(
        "palisade.toml",
        "policies = \"demo-policies\"\n\n[connections.demo]\nurl = \"sqlite:demo.db\"\n",
    );
    desk.write("init.lua", read_manual());
    desk.write("session.lua", SESSION);
    let program = Path::new(env!("CARGO_BIN_EXE_palisade")).parent().unwrap();
    let path = std::env::join_paths(
        std::iter::once(program.to_owned())
            .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    let mut command = find_neovim().unwrap();
    let output = command
        .args(["--headless", "-u", "init.lua", "-S", "session.lua"])
        .current_dir(desk.path(""))
        .env("PATH", path.unwrap())
        .env("HOME", desk.path(""))
        .env("XDG_STATE_HOME", desk.path("state"))
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let text = fs::read_to_string(desk.path("out.json")).unwrap_or_else(|_| panic!("{told}"));
    let out: Value = serde_json::from_str(&text).unwrap();
    assert!(out["failed"].is_null(), "{out}\n{told}");
    assert_eq!(out["diagnostics"][0][0], "ignore-unused", "{out}");
    assert_eq!(out["diagnostics"][0][1], 0, "{out}");
    let hover = out["hover"].as_str().unwrap();
    assert!(
        hover.contains("`main.tickets.status`") && hover.contains("support-bot"),
        "{hover}"
    );
    assert_eq!(out["first"].as_str(), base.lines().next(), "{out}");
    let lenses: Vec<&str> = out["lenses"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    for part in ["alone", "tested by", "mutant"] {
        assert!(
            lenses.iter().any(|lens| lens.contains(part)),
            "{part}: {lenses:?}"
        );
    }
}
