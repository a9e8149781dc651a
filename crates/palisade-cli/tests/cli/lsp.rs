//! `palisade lsp`, as an editor speaks with it.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    process::{Child, ChildStdin, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::desk::Desk;

/// How long an answer may take on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(120);

const CATALOG: &[&str] = &["--catalog", "sqlite:demo.db", "--policies", "demo-policies"];

/// An editor with the server that it started.
struct Editor<'d> {
    desk: &'d Desk,
    child: Child,
    input: Option<ChildStdin>,
    /// Messages as they come; what is no message of the protocol ends them.
    messages: Receiver<Value>,
    /// Those that are still to be asked for.
    kept: Vec<Value>,
    next: i32,
}

impl<'d> Editor<'d> {
    fn start(desk: &'d Desk, arguments: &[&str]) -> Self {
        let mut command = desk.command(env!("CARGO_BIN_EXE_palisade"));
        let mut child = command
            .arg("lsp")
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let (sender, messages) = mpsc::channel();
        thread::spawn(move || {
            loop {
                let mut length = None;
                let mut line = String::new();
                while output.read_line(&mut line).unwrap() > 0 && line != "\r\n" {
                    let (name, value) = line.trim_end().split_once(": ").unwrap();
                    assert_eq!(name, "Content-Length", "{line}");
                    length = Some(value.parse::<usize>().unwrap());
                    line.clear();
                }
                let Some(length) = length else { return };
                let mut body = vec![0; length];
                output.read_exact(&mut body).unwrap();
                let message = serde_json::from_slice(&body).unwrap();
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        Self {
            desk,
            input: child.stdin.take(),
            child,
            messages,
            kept: Vec::new(),
            next: 0,
        }
    }

    /// Started, and past `initialize`.
    fn open(desk: &'d Desk, arguments: &[&str]) -> Self {
        Self::open_with(desk, arguments, Value::Null)
    }

    fn open_with(desk: &'d Desk, arguments: &[&str], options: Value) -> Self {
        let mut editor = Self::start(desk, arguments);
        let told = editor.ask(
            "initialize",
            json!({"processId": null, "rootUri": editor.uri(""), "capabilities": {}, "initializationOptions": options}),
        );
        let can = &told["result"]["capabilities"];
        for capability in [
            "hoverProvider",
            "definitionProvider",
            "documentFormattingProvider",
        ] {
            assert_eq!(can[capability], true, "{told}");
        }
        editor.notify("initialized", json!({}));
        editor
    }

    fn uri(&self, file: &str) -> String {
        let path = self.desk.path(file);
        format!("file://{}", path.to_str().unwrap().trim_end_matches('/'))
    }

    fn send(&mut self, message: &Value) {
        let body = message.to_string();
        let input = self.input.as_mut().unwrap();
        write!(input, "Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        input.flush().unwrap();
    }

    fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Sends a request, whose number is given back.
    fn request(&mut self, method: &str, params: Value) -> i32 {
        self.next += 1;
        let id = self.next;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params);
        self.wait_for(|message| message["id"] == id)
    }

    /// The first message that is meant, of those that came or are to come.
    #[track_caller]
    fn wait_for(&mut self, is_meant: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.kept.iter().position(&is_meant) {
            return self.kept.remove(at);
        }
        let begun = Instant::now();
        loop {
            let left = PATIENCE.saturating_sub(begun.elapsed());
            match self.messages.recv_timeout(left) {
                Ok(message) if is_meant(&message) => return message,
                Ok(message) => self.kept.push(message),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    panic!("it did not come; there were {:#?}", self.kept)
                }
            }
        }
    }

    /// Opens a file, with this text or the disk's.
    fn show(&mut self, file: &str, text: Option<&str>) {
        let read = || fs::read_to_string(self.desk.path(file)).unwrap();
        let text = text.map_or_else(read, str::to_owned);
        let document =
            json!({"uri": self.uri(file), "languageId": "cedar", "version": 1, "text": text});
        self.notify("textDocument/didOpen", json!({"textDocument": document}));
    }

    fn edit(&mut self, file: &str, version: i32, text: &str) {
        let document = json!({"uri": self.uri(file), "version": version});
        let changes = json!([{"text": text}]);
        let params = json!({"textDocument": document, "contentChanges": changes});
        self.notify("textDocument/didChange", params);
    }

    /// The diagnostics of a file, once they are as `is_meant` says.
    #[track_caller]
    fn diagnostics(&mut self, file: &str, is_meant: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let uri = self.uri(file);
        let told = self.wait_for(|message| {
            let params = &message["params"];
            message["method"] == "textDocument/publishDiagnostics"
                && params["uri"] == uri
                && is_meant(params["diagnostics"].as_array().unwrap())
        });
        told["params"]["diagnostics"].as_array().unwrap().clone()
    }

    /// Asks about the place behind the last `before` in a file.
    fn ask_at(&mut self, method: &str, file: &str, text: &str, before: &str) -> Value {
        let at = text.rfind(before).unwrap() + before.len();
        let position = position(text, at);
        let document = json!({"uri": self.uri(file)});
        let params = json!({"textDocument": document, "position": position});
        let told = self.ask(method, params);
        assert!(told["error"].is_null(), "{told}");
        told["result"].clone()
    }

    /// Ends the server as an editor does.
    fn close(mut self) -> String {
        let told = self.ask("shutdown", Value::Null);
        assert!(told["error"].is_null(), "{told}");
        self.notify("exit", Value::Null);
        let (code, told) = self.end();
        assert_eq!(code, 0, "{told}");
        told
    }

    fn end(mut self) -> (i32, String) {
        self.input = None;
        let mut told = String::new();
        let mut output = self.child.stderr.take().unwrap();
        output.read_to_string(&mut told).unwrap();
        (self.child.wait().unwrap().code().unwrap(), told)
    }
}

fn position(text: &str, at: usize) -> Value {
    let before = &text[..at];
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    json!({"line": before.matches('\n').count(), "character": before[start..].encode_utf16().count()})
}

/// `text` with edits of the protocol in it.
fn apply(text: &str, edits: &Value) -> String {
    let mut edits = edits.as_array().unwrap().clone();
    let offset = |place: &Value| {
        let number = |key: &str| usize::try_from(place[key].as_u64().unwrap()).unwrap();
        let lines = text.split_inclusive('\n');
        let start: usize = lines.take(number("line")).map(str::len).sum();
        start + number("character")
    };
    edits.sort_by_key(|edit| offset(&edit["range"]["start"]));
    let mut new = text.to_owned();
    for edit in edits.iter().rev() {
        let range = offset(&edit["range"]["start"])..offset(&edit["range"]["end"]);
        new.replace_range(range, edit["newText"].as_str().unwrap());
    }
    new
}

const BASE: &str = "demo-policies/base.cedar";

fn base(desk: &Desk) -> String {
    fs::read_to_string(desk.path(BASE)).unwrap()
}

#[test]
fn problems_of_a_folder_have_their_places_before_a_file_is_open() {
    let desk = Desk::new();
    let text = base(&desk).replace(
        "resource == Table::\"main.tickets\"\n);\n\n// What",
        "resource == Table::\"main.tickts\"\n);\n\n// What",
    );
    desk.write(BASE, &text);
    desk.write(
        "demo-policies/more.cedar",
        "// é😀\npermit (principal, action, resorce);\n",
    );
    let mut editor = Editor::open(&desk, CATALOG);
    let found = editor.diagnostics("demo-policies/more.cedar", |all| !all.is_empty());
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(
        found[0]["range"]["start"],
        json!({"line": 1, "character": 27})
    );
    assert_eq!(
        (&found[0]["severity"], &found[0]["code"]),
        (&json!(1), &json!("not-loaded"))
    );

    // Once it parses, the other file's problem is there, and this file has none.
    editor.show("demo-policies/more.cedar", Some("// Nothing.\n"));
    let found = editor.diagnostics(BASE, |all| !all.is_empty());
    let message = found[0]["message"].as_str().unwrap();
    assert!(
        message.contains("did you mean") && message.contains("main.tickets"),
        "{message}"
    );
    let at = position(&text, text.find("Table::\"main.tickts\"").unwrap());
    assert_eq!(found[0]["range"]["start"], at, "{found:?}");
    editor.diagnostics("demo-policies/more.cedar", <[Value]>::is_empty);

    // Once nothing is wrong, what is odd is a warning.
    let text = text.replace("main.tickts", "main.tickets");
    let text = format!("// palisade:ignore redundan why\n{text}");
    editor.show(BASE, Some(&text));
    let found = editor.diagnostics(BASE, |all| all.iter().any(|one| one["severity"] == 2));
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0]["code"], "ignore-unknown", "{found:?}");
    assert_eq!(found[0]["range"]["start"]["line"], 0, "{found:?}");
    assert_eq!(editor.close(), "");
}

/// What is typed is checked before it is written, over the other files as they are open; it is what the command finds.
#[test]
fn a_buffer_is_checked_before_it_is_written() {
    let desk = Desk::new();
    let mut editor = Editor::open(&desk, CATALOG);
    let text = base(&desk);
    editor.show(BASE, None);
    let broken = text.replacen("@max_rows(\"5\")", "@max_row(\"5\")", 1);
    for version in 2..12 {
        editor.edit(
            BASE,
            version,
            &broken[..broken.len() - usize::try_from(version).unwrap()],
        );
    }
    editor.edit(BASE, 12, &broken);
    let found = editor.diagnostics(BASE, |all| {
        all.iter()
            .any(|one| one["message"].as_str().unwrap().contains("@max_rows"))
    });
    assert_eq!(found.len(), 1, "{found:?}");
    let at = position(&broken, broken.find("@max_row").unwrap());
    assert_eq!(found[0]["range"]["start"], at);
    assert_eq!(base(&desk), text);

    desk.write(BASE, &broken);
    let told = desk.run(&[&["policy", "check", "--format", "json"], CATALOG].concat());
    let told = told.expect_exit(3).json();
    assert_eq!(told["problems"].as_array().unwrap().len(), 1);
    let message = found[0]["message"].as_str().unwrap();
    assert!(
        message.starts_with(told["problems"][0]["message"].as_str().unwrap()),
        "{message}"
    );
    assert_eq!(
        told["problems"][0]["line"].as_u64().unwrap() - 1,
        at["line"].as_u64().unwrap()
    );

    // A classification and entities are checked too.
    editor.edit(BASE, 13, &text);
    editor.diagnostics(BASE, <[Value]>::is_empty);
    let tags = "demo-policies/classification.toml";
    editor.show(
        tags,
        Some("[[column]]\nname = \"main.customers.emial\"\ntags = [\"contact\"]\n"),
    );
    let found = editor.diagnostics(tags, |all| !all.is_empty());
    assert_eq!(found[0]["range"]["start"]["line"], 1, "{found:?}");
    let entities = "demo-policies/entities.json";
    editor.edit(tags, 2, &fs::read_to_string(desk.path(tags)).unwrap());
    editor.show(entities, Some("[{\"uid\": 3}]"));
    editor.diagnostics(entities, |all| !all.is_empty());
    // What is closed is as it is on the disk.
    let document = json!({"uri": editor.uri(entities)});
    editor.notify("textDocument/didClose", json!({"textDocument": document}));
    editor.diagnostics(entities, <[Value]>::is_empty);
    editor.close();
}

#[test]
fn a_quick_fix_leaves_nothing_to_warn_of() {
    let desk = Desk::new();
    let check = [&["policy", "check", "--fail-on", "warning"], CATALOG].concat();
    desk.run(&check).expect_exit(0);
    let ignore = "// palisade:ignore always-beaten nothing is";
    let text = format!("{ignore}\n{}", base(&desk));
    desk.write(BASE, &text);
    desk.run(&check).expect_exit(1);
    let mut editor = Editor::open(&desk, CATALOG);
    editor.show(BASE, None);
    let found = editor.diagnostics(BASE, |all| !all.is_empty());
    assert_eq!(found[0]["code"], "ignore-unused", "{found:?}");
    let mut actions = |range: &Value, only: Value| {
        let document = json!({"uri": editor.uri(BASE)});
        let context = json!({"diagnostics": found, "only": only});
        let params = json!({"textDocument": document, "range": range, "context": context});
        editor.ask("textDocument/codeAction", params)["result"].clone()
    };
    let range = &found[0]["range"];
    let told = actions(range, json!(["quickfix"]));
    assert_eq!(told.as_array().unwrap().len(), 1, "{told}");
    assert_eq!(told[0]["diagnostics"][0]["code"], "ignore-unused");
    let all = actions(range, json!(["source.fixAll"]));
    let elsewhere =
        json!({"start": {"line": 9, "character": 0}, "end": {"line": 9, "character": 0}});
    assert_eq!(actions(&elsewhere, json!(["quickfix"])), json!([]));
    let uri = editor.uri(BASE);
    for edits in [&told[0]["edit"], &all[0]["edit"]] {
        desk.write(BASE, apply(&text, &edits["changes"][&uri]));
        desk.run(&check).expect_exit(0);
    }
    editor.close();
}

#[test]
fn a_column_tells_its_class_and_who_sees_it() {
    let desk = Desk::new();
    let mut editor = Editor::open(&desk, CATALOG);
    let policy = "permit (\n  principal,\n  action == Action::\"read_plain\",\n  resource == Column::\"main.customers.email\"\n);\n";
    let text = format!(
        "{}\n@id(\"x\")\n// palisade:ignore redundant why\n{policy}",
        base(&desk)
    );
    editor.show(BASE, Some(&text));
    let mut hover = |before: &str| {
        let told = editor.ask_at("textDocument/hover", BASE, &text, before);
        told["contents"]["value"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let told = hover("Column::\"main.customers.em");
    for part in [
        "TEXT",
        "class text",
        "Tags: `contact`",
        "support-bot",
        "mask fixed",
        "any other Agent",
        "never",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    // What it tells is what the lock says.
    let lock = fs::read_to_string(desk.path("demo-policies/access.lock")).unwrap();
    let line = "Agent::\"support-bot\": main.customers.email read: mask fixed(***)";
    assert!(lock.contains(line), "{lock}");
    assert!(told.contains("mask fixed(\\*\\*\\*)"), "{told}");
    let told = hover("resource == Table::\"main.ti");
    assert!(
        told.contains("**table** `main.tickets`") && told.contains("tenant"),
        "{told}"
    );
    assert!(hover("resource is row::main::st").contains("`main.staff`"));
    assert!(hover("Action::\"disc").contains("to find its name in a listing"));
    assert!(hover("@max_r").contains("Bounds the rows"));
    assert!(hover("palisade:ignore redu").contains("without a forbid the same"));
    assert!(hover("contains(\"conta").contains("main.customers.phone"));
    let told = hover("Role::\"supp");
    assert!(
        told.contains("Members") && told.contains("globex-bot"),
        "{told}"
    );
    assert_eq!(hover("when {"), "");
    // The definition of a role and of a tag.
    let told = editor.ask_at("textDocument/definition", BASE, &text, "Role::\"supp");
    assert_eq!(
        told["uri"],
        editor.uri("demo-policies/entities.json"),
        "{told}"
    );
    assert_eq!(told["range"]["start"]["line"], 2, "{told}");
    let told = editor.ask_at("textDocument/definition", BASE, &text, "contains(\"conta");
    assert_eq!(
        told["uri"],
        editor.uri("demo-policies/classification.toml"),
        "{told}"
    );
    editor.close();
}

#[test]
fn words_are_completed_while_policies_do_not_load() {
    let desk = Desk::new();
    let text = base(&desk);
    let column = "permit (principal, action, resource == Column::\"main.customers.email\"";
    desk.write(BASE, format!("{text}{column}"));
    let mut editor = Editor::open(&desk, CATALOG);
    editor.show(BASE, None);
    editor.diagnostics(BASE, |all| !all.is_empty());
    // Nothing has loaded yet, so that nothing is said of who sees it.
    let told = editor.ask_at(
        "textDocument/hover",
        BASE,
        &base(&desk),
        "main.customers.em",
    );
    let told = told["contents"]["value"].as_str().unwrap();
    assert!(
        told.contains("Tags: `contact`") && told.contains("not known"),
        "{told}"
    );
    for (version, (written, expected, new)) in (2..).zip([
        (
            "permit (principal, action == Action::\"read_m",
            "read_masked",
            "read_masked\"",
        ),
        ("@max", "@max_rows(\"100\")", "@max_rows(\"100\")"),
        (
            "permit (principal, action, resource == Column::\"main.cust",
            "main.customers.email",
            "main.customers.email\"",
        ),
        (
            "permit (principal, action, resource == Table::\"",
            "main.tickets",
            "main.tickets\"",
        ),
        (
            "permit (principal, action == Action::\"call\", resource == Function::\"low",
            "lower",
            "lower\"",
        ),
        ("permit (principal in Role::\"s", "support", "support\""),
        ("// palisade:ignore redun", "redundant", "redundant"),
        (
            "permit (principal, action, resource is row::main::t",
            "row::main::tickets",
            "row::main::tickets",
        ),
    ]) {
        let text = format!("{text}{written}");
        editor.edit(BASE, version, &text);
        let told = editor.ask_at("textDocument/completion", BASE, &text, written);
        let items = told["items"].as_array().unwrap();
        let item = items.iter().find(|item| item["label"] == expected);
        let item = item.unwrap_or_else(|| panic!("{written}: {told}"));
        assert_eq!(item["textEdit"]["newText"], new);
        let whole = apply(&text, &json!([item["textEdit"]]));
        assert!(whole.ends_with(new), "{whole}");
    }
    editor.close();
}

#[test]
fn a_file_is_laid_out_as_the_command_does() {
    let desk = Desk::new();
    let mut editor = Editor::open(&desk, CATALOG);
    let loose = "// Who reads.\n@id(\"all\")permit(principal,action,resource)when{principal==Agent::\"ann\"};\n";
    editor.show("demo-policies/more.cedar", Some(loose));
    let document = json!({"uri": editor.uri("demo-policies/more.cedar")});
    let params = json!({"textDocument": document, "options": {"tabSize": 2, "insertSpaces": true}});
    let told = editor.ask("textDocument/formatting", params.clone());
    let tidy = apply(loose, &told["result"]);
    desk.write("demo-policies/more.cedar", loose);
    desk.run(&["policy", "fmt", "demo-policies"]).expect_exit(0);
    assert_eq!(
        fs::read_to_string(desk.path("demo-policies/more.cedar")).unwrap(),
        tidy
    );
    editor.edit("demo-policies/more.cedar", 2, &tidy);
    assert_eq!(
        editor.ask("textDocument/formatting", params.clone())["result"],
        json!([])
    );
    editor.edit("demo-policies/more.cedar", 3, "permit (");
    let told = editor.ask("textDocument/formatting", params);
    assert_eq!(told["error"]["code"], -32803, "{told}");
    editor.close();
}

#[test]
fn a_policy_tells_what_it_alone_decides_and_whether_a_test_tries_it() {
    let desk = Desk::new();
    let mut editor = Editor::open(&desk, CATALOG);
    let twice = "\n@id(\"staff.again\")\npermit (\n  principal,\n  action == Action::\"see\",\n  resource is row::main::staff\n);\n";
    let text = format!("{}{twice}", base(&desk));
    editor.show(BASE, Some(&text));
    let document = json!({"uri": editor.uri(BASE)});
    let told = editor.ask("textDocument/codeLens", json!({"textDocument": document}));
    let lenses = told["result"].as_array().unwrap();
    let titles = |id: &str| {
        let line = position(&text, text.find(&format!("@id(\"{id}\")")).unwrap());
        let here = lenses.iter().filter(|lens| lens["range"]["start"] == line);
        let titles = here.map(|lens| lens["command"]["title"].as_str().unwrap());
        titles.collect::<Vec<_>>()
    };
    // Two agents are in the role, and one column of one table is written.
    assert_eq!(
        titles("support.status.column")[0],
        "decides 2 cells alone",
        "{told}"
    );
    assert!(
        titles("support.status.column")[1].starts_with("tested by "),
        "{told}"
    );
    for id in ["staff.rows", "staff.again"] {
        assert_eq!(titles(id)[0], "decides nothing alone");
    }
    assert_eq!(
        titles("support.functions")[0].split(':').next(),
        Some("cells not counted")
    );
    assert_eq!(lenses.len(), 3 * text.matches("@id(").count());
    // A policy that no case is about.
    let text = format!(
        "{}\n@id(\"eve\")\npermit (\n  principal == Agent::\"eve\",\n  action == Action::\"truncate\",\n  resource == Table::\"main.tickets\"\n);\n",
        base(&desk)
    );
    editor.edit(BASE, 2, &text);
    let told = editor.ask("textDocument/codeLens", json!({"textDocument": document}));
    let last = told["result"].as_array().unwrap();
    assert_eq!(
        last[last.len() - 3]["command"]["title"],
        "decides 1 cell alone",
        "{told}"
    );
    assert_eq!(
        last[last.len() - 2]["command"]["title"],
        "untested",
        "{told}"
    );
    editor.close();
}

const TEA: &str = "@id(\"tea.table\")\npermit (principal, action == Action::\"select\", resource == Table::\"main.tea\");\n\
    @id(\"tea.rows\")\npermit (principal == Agent::\"ann\", action == Action::\"see\", resource is row::main::tea)\nwhen { resource.shelf == 1 };\n\
    @id(\"tea.name\")\npermit (principal, action == Action::\"read_plain\", resource == Column::\"main.tea.name\");\n";

const TEA_CASES: &str = "as = 'Agent::\"ann\"'\n\n[[case]]\nname = \"ann-reads\"\nsql = \"SELECT name FROM tea\"\ndecision = \"allow\"\nrows = [[\"a\"]]\n";

/// A small folder with tests, of which nothing but an editor knows.
fn tea_desk() -> Desk {
    let desk = Desk::new();
    desk.write("tea/base.cedar", TEA);
    desk.write(
        "tea/entities.json",
        r#"[{"uid": {"type": "Agent", "id": "ann"}, "attrs": {}, "parents": []}]"#,
    );
    desk.write(
        "tea/tests/tea.sql",
        "CREATE TABLE tea (name TEXT, shelf INTEGER NOT NULL); INSERT INTO tea VALUES ('a', 1), ('b', 2);",
    );
    desk.write("tea/tests/tea.toml", TEA_CASES);
    desk
}

/// Mutants are tried once a lens is asked for, and lenses are drawn anew when they are; an edit begins anew.
#[test]
fn a_lens_tells_of_mutants_that_no_case_notices() {
    let desk = tea_desk();
    let mut editor = Editor::start(&desk, &["--policies", "tea"]);
    let capabilities = json!({"workspace": {"codeLens": {"refreshSupport": true}}});
    let root = editor.uri("");
    editor.ask(
        "initialize",
        json!({"processId": null, "rootUri": root, "capabilities": capabilities}),
    );
    editor.notify("initialized", json!({}));
    let file = "tea/base.cedar";
    editor.show(file, None);
    let document = json!({"uri": editor.uri(file)});
    let mutants_of = |editor: &mut Editor<'_>| {
        editor.ask("textDocument/codeLens", json!({"textDocument": document}));
        let asked = editor.wait_for(|message| message["method"] == "workspace/codeLens/refresh");
        editor.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": null}));
        let told = editor.ask("textDocument/codeLens", json!({"textDocument": document}));
        let lenses = told["result"].as_array().unwrap().clone();
        let titles = lenses
            .iter()
            .map(|lens| lens["command"]["title"].as_str().unwrap());
        let titles = titles.filter(|title| title.contains("mutant"));
        titles.map(str::to_owned).collect::<Vec<_>>()
    };
    // What each lens says is what the command does.
    let survivors = |desk: &Desk| {
        let told = desk.run(&["policy", "test", "tea", "--mutate", "--format", "json"]);
        let told = told.json();
        let mutants = told["mutation"]["mutants"].as_array().unwrap().clone();
        let count = |id: &str| {
            let of = mutants.iter().filter(|mutant| mutant["policy"] == id);
            let survived = of.clone().filter(|mutant| mutant["fate"] == "survived");
            (of.count(), survived.count())
        };
        ["tea.table", "tea.rows", "tea.name"].map(count)
    };
    let expected = |counts: [(usize, usize); 3]| {
        counts.map(|(all, survived)| match survived {
            0 => format!("{all} mutants, none survives"),
            1 => format!("{all} mutants, 1 survives: "),
            more => format!("{all} mutants, {more} survive: "),
        })
    };
    let counts = survivors(&desk);
    assert!(
        counts.iter().any(|(_, survived)| *survived > 0),
        "{counts:?}"
    );
    let told = mutants_of(&mut editor);
    assert_eq!(told.len(), 3, "{told:?}");
    for (told, expected) in told.iter().zip(expected(counts)) {
        assert!(told.starts_with(&expected), "{told}: {expected}");
    }
    // Another case, not yet written, notices more.
    let more = format!(
        "{TEA_CASES}\n[[case]]\nname = \"bob-sees-no-row\"\nas = 'Agent::\"bob\"'\nsql = \"SELECT name FROM tea\"\ndecision = \"allow\"\nrows = []\n"
    );
    editor.show("tea/tests/tea.toml", Some(&more));
    let told = mutants_of(&mut editor);
    desk.write("tea/tests/tea.toml", &more);
    let fewer = survivors(&desk);
    assert_ne!(counts, fewer);
    for (told, expected) in told.iter().zip(expected(fewer)) {
        assert!(told.starts_with(&expected), "{told}: {expected}");
    }
    editor.close();
}

/// What is wrong with tests is told at its place, while they are written.
#[test]
fn tests_have_problems_at_their_places() {
    let desk = tea_desk();
    let mut editor = Editor::open(&desk, &["--policies", "tea"]);
    let file = "tea/tests/tea.toml";
    editor.show(file, None);
    let case = |name: &str, rest: &str| format!("\n[[case]]\nname = \"{name}\"\n{rest}\n");
    let tea = "sql = \"SELECT name FROM tea\"\n";
    let check = |editor: &mut Editor<'_>, version: i32, text: &str, expected: &[(&str, &str)]| {
        editor.edit(file, version, text);
        let found = editor.diagnostics(file, |all| {
            all.len() == expected.len()
                && all
                    .iter()
                    .zip(expected)
                    .all(|(one, (_, part))| one["message"].as_str().unwrap().contains(part))
        });
        for (one, (at, _)) in found.iter().zip(expected) {
            assert_eq!(
                one["range"]["start"],
                position(text, text.find(at).unwrap()),
                "{found:?}"
            );
        }
    };
    // A key that there is none of, as `policy test` tells it.
    let text = format!("{TEA_CASES}rwos = []\n");
    check(&mut editor, 2, &text, &[("rwos", "did you mean `rows`?")]);
    desk.write(file, &text);
    desk.run(&["policy", "test", "tea"])
        .fails(2, &["tea.toml:8:1", "did you mean `rows`?"]);
    // Every case with a fault has its own; a table that is not there and a principal with a mistake are told once the rest loads.
    let two = format!(
        "{TEA_CASES}{}{}",
        case("é", &format!("{tea}decision = \"allow\"")),
        case("b", &format!("{tea}as = 'ann'\ndecision = \"allow\""))
    );
    check(
        &mut editor,
        3,
        &two,
        &[("\"é\"", "lower-case"), ("\"b\"", "not a principal")],
    );
    let unknown = format!(
        "{TEA_CASES}{}",
        case("c", "sql = \"SELECT name FROM tee\"\ndecision = \"allow\"")
    );
    check(
        &mut editor,
        4,
        &unknown,
        &[("name = \"c\"", "did you mean `tea`?")],
    );
    let nearly = format!(
        "{TEA_CASES}{}",
        case(
            "d",
            &format!("{tea}as = 'Agent::\"anna\"'\ndecision = \"allow\"\nrows = []")
        )
    );
    check(
        &mut editor,
        5,
        &nearly,
        &[("name = \"d\"", "did you mean `Agent::\"ann\"`?")],
    );
    check(
        &mut editor,
        6,
        &format!("catalog = \"tee\"\n{TEA_CASES}"),
        &[("\"tee\"", "did you mean `tea`?")],
    );
    editor.edit(file, 7, TEA_CASES);
    editor.diagnostics(file, <[Value]>::is_empty);
    // A policy that a case is against, before it is written.
    editor.show(
        "tea/base.cedar",
        Some(&TEA.replace("shelf == 1", "shelf == 2")),
    );
    let found = editor.diagnostics(file, |all| !all.is_empty());
    assert_eq!(
        (found.len(), &found[0]["code"]),
        (1, &json!("test-fails")),
        "{found:?}"
    );
    // Servers, and tables that are wrong.
    let servers = "tea/tests/servers.toml";
    editor.show(
        servers,
        Some("[\"tee.postgres\"]\nurl = \"postgres://a@b/c\"\n"),
    );
    let found = editor.diagnostics(servers, |all| !all.is_empty());
    assert_eq!(
        found[0]["range"]["start"],
        json!({"line": 0, "character": 1}),
        "{found:?}"
    );
    assert_eq!(editor.close(), "");
}

/// Whether a misspelt table is told.
fn names_tickts(diagnostics: &[Value]) -> bool {
    let mut messages = diagnostics
        .iter()
        .map(|one| one["message"].as_str().unwrap());
    messages.any(|message| message.contains("main.tickts"))
}

/// What is odd about folder, tables, configuration or messages is told, and the server stays.
#[test]
fn nothing_that_is_wrong_ends_the_server() {
    let desk = Desk::new();
    desk.write(
        "demo-policies/tickets.ceddar",
        "permit (principal, action, resource);",
    );
    let mut editor = Editor::open_with(
        &desk,
        &["--policies", "demo-policies"],
        json!({"catlog": "x"}),
    );
    let shown = editor.wait_for(|message| message["method"] == "window/showMessage");
    let told = shown["params"]["message"].as_str().unwrap().to_owned();
    assert!(told.contains("catlog"), "{told}");
    let found = editor.diagnostics("demo-policies/tickets.ceddar", |all| !all.is_empty());
    assert!(
        found[0]["message"]
            .as_str()
            .unwrap()
            .contains("has no meaning there"),
        "{found:?}"
    );
    fs::remove_file(desk.path("demo-policies/tickets.ceddar")).unwrap();
    editor.notify("workspace/didChangeWatchedFiles", json!({"changes": []}));
    editor.diagnostics("demo-policies/tickets.ceddar", <[Value]>::is_empty);

    // The tables are those of the tests, as long as nothing else is named.
    let text = base(&desk).replacen("main.tickets", "main.tickts", 1);
    editor.show(BASE, Some(&text));
    editor.diagnostics(BASE, names_tickts);
    desk.write("palisade.toml", "policies = 3\n");
    editor.notify("workspace/didChangeWatchedFiles", json!({"changes": []}));
    editor.wait_for(|message| {
        let told = message["params"]["message"].as_str().unwrap_or_default();
        message["method"] == "window/showMessage" && told.contains("palisade.toml")
    });
    desk.write(
        "palisade.toml",
        "[connections.demo]\nurl = \"sqlite:gone.db\"\n",
    );
    editor.notify("workspace/didChangeWatchedFiles", json!({"changes": []}));
    editor.wait_for(|message| {
        let told = message["params"]["message"].as_str().unwrap_or_default();
        message["method"] == "window/showMessage" && told.contains("gone.db")
    });
    editor.diagnostics(BASE, names_tickts);

    let told = editor.ask("textDocument/rename", json!({}));
    assert_eq!(told["error"]["code"], -32601, "{told}");
    let told = editor.ask("textDocument/hover", json!({"position": 3}));
    assert_eq!(told["error"]["code"], -32602, "{told}");
    editor.notify("textDocument/didOpen", json!({}));
    editor.notify(
        "textDocument/didOpen",
        json!({"textDocument": {"uri": "untitled:1", "languageId": "x", "version": 1, "text": ""}}),
    );
    let document = json!({"uri": "untitled:1"});
    let position = json!({"line": 0, "character": 0});
    let told = editor.ask(
        "textDocument/hover",
        json!({"textDocument": document, "position": position}),
    );
    assert_eq!(
        (&told["result"], &told["error"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(editor.close(), "");
}

/// A workspace without arguments: its configuration names the folder and the only connection.
#[test]
fn the_configuration_of_the_workspace_is_taken() {
    let desk = Desk::new();
    desk.run(&["init", "sqlite:demo.db"]).expect_exit(0);
    // The folder has a name that is not to be guessed, and the database a table that its snapshot lacks.
    fs::rename(desk.path("policies"), desk.path("rules")).unwrap();
    let config = fs::read_to_string(desk.path("palisade.toml")).unwrap();
    let config = config.replace("policies = \"policies\"", "policies = \"rules\"");
    desk.write("palisade.toml", config);
    let database = rusqlite::Connection::open(desk.path("demo.db")).unwrap();
    database
        .execute_batch("CREATE TABLE fresh (id INTEGER)")
        .unwrap();
    let mut editor = Editor::open(&desk, &[]);
    let file = "rules/base.cedar";
    let text = fs::read_to_string(desk.path(file)).unwrap();
    for (version, (table, is_there)) in (1..).zip([("tickts", false), ("fresh", true)]) {
        let text = format!(
            "{text}\npermit (principal, action == Action::\"select\", resource == Table::\"main.{table}\");\n"
        );
        match version {
            1 => editor.show(file, Some(&text)),
            version => editor.edit(file, version, &text),
        }
        editor.diagnostics(file, |all| names_tickts(all) != is_there);
    }
    editor.close();
}

/// Without arguments and configuration, the folder is that of the first policy, and the tables are those of its tests.
#[test]
fn a_policy_that_is_opened_shows_where_its_folder_is() {
    let desk = Desk::new();
    let mut editor = Editor::open(&desk, &[]);
    let text = base(&desk).replacen("main.tickets", "main.tickts", 1);
    editor.show(BASE, Some(&text));
    editor.diagnostics(BASE, names_tickts);
    // Without tables, what does not parse is told all the same.
    fs::remove_dir_all(desk.path("demo-policies/tests")).unwrap();
    fs::remove_file(desk.path("demo-policies/access.lock")).unwrap();
    editor.edit(BASE, 2, &format!("{text}\npermit ("));
    editor.diagnostics(BASE, |all| all.len() == 1 && !names_tickts(all));
    editor.wait_for(|message| {
        let told = message["params"]["message"].as_str().unwrap_or_default();
        message["method"] == "window/showMessage" && told.contains("there are no tables")
    });
    // Once there are some, they are taken: the classification is of others.
    let tables = "CREATE TABLE tickets (id INTEGER PRIMARY KEY);";
    desk.write("demo-policies/tests/new.sql", tables);
    editor.edit(BASE, 3, "// Nothing.\n");
    editor.diagnostics("demo-policies/classification.toml", |all| all.len() == 4);
    editor.close();
}

#[test]
fn a_request_is_cancelled_and_the_end_is_clean() {
    let desk = Desk::new();
    let mut editor = Editor::start(&desk, CATALOG);
    let early = editor.ask("textDocument/hover", json!({}));
    assert_eq!(early["error"]["code"], -32002, "{early}");
    let root = editor.uri("");
    editor.ask(
        "initialize",
        json!({"processId": null, "rootUri": root, "capabilities": {
        "workspace": {"didChangeWatchedFiles": {"dynamicRegistration": true}}}}),
    );
    editor.notify("initialized", json!({}));
    let asked = editor.wait_for(|message| message["method"] == "client/registerCapability");
    editor.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": null}));
    // A change is not checked at once, so that this waits.
    editor.show(BASE, None);
    let params = json!({"textDocument": {"uri": editor.uri(BASE)}});
    let id = editor.request("textDocument/codeLens", params);
    editor.notify("$/cancelRequest", json!({"id": id}));
    let told = editor.wait_for(|message| message["id"] == id);
    assert_eq!(told["error"]["code"], -32800, "{told}");
    editor.ask("shutdown", Value::Null);
    let late = editor.ask("textDocument/hover", json!({}));
    assert_eq!(late["error"]["code"], -32600, "{late}");
    editor.notify("exit", Value::Null);
    assert_eq!(editor.end(), (0, String::new()));

    let mut editor = Editor::open(&desk, CATALOG);
    editor.notify("exit", Value::Null);
    assert_eq!(editor.end().0, 1);
    let editor = Editor::open(&desk, CATALOG);
    assert_eq!(editor.end().0, 0);
    desk.run_with(&["lsp"], b"no message\r\n\r\n")
        .fails(2, &["no message of an editor"]);
    desk.run(&["lsp", "--polices", "x"])
        .fails(2, &["--policies"]);
}
