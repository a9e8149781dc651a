//! Which file of a room imports which other, read off the texts.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    sync::LazyLock,
};

use regex::Regex;

use crate::{code, core, is_test_only, sources};

static PATH: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\bcrate(?:::\w+)+|\b[a-z_]\w*(?:::\w+)+").unwrap());
static USE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?m)^\s*(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);").unwrap());
static VISIBILITY: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"pub\(in [^)]*\)").unwrap());

/// The files of one room by module path (`["policy", "load", "source"]`), each with those that it imports from.
pub(crate) struct Graph {
    edges: BTreeMap<Vec<String>, BTreeSet<Vec<String>>>,
}

impl Graph {
    /// Reads the room in the folder or file `room`. Re-exports of a folder's `mod.rs` are no imports: they are followed to
    /// the file that they lead to.
    pub(crate) fn read(room: &str) -> Self {
        let mut texts = BTreeMap::new();
        for path in sources(&core().join(room)) {
            if !is_test_only(&path) {
                texts.insert(module_path(&path), code(&path));
            }
        }
        let modules: BTreeSet<_> = texts.keys().cloned().collect();
        let mut exports = BTreeMap::new();
        for (module, text) in &texts {
            for (statement, is_public) in use_statements(text) {
                if is_public {
                    for path in expand(&statement) {
                        let path = absolute(&path, module, &modules);
                        if let Some((name, path)) =
                            path.and_then(|path| Some((path.last()?.clone(), path)))
                        {
                            exports.insert((module.clone(), name), path);
                        }
                    }
                }
            }
        }
        let mut edges = BTreeMap::new();
        for (module, text) in &texts {
            let mut paths = Vec::new();
            for (statement, is_public) in use_statements(text) {
                if !is_public {
                    paths.extend(expand(&statement));
                }
            }
            let rest = without_uses(text);
            paths.extend(PATH.find_iter(&rest).map(|found| found.as_str().to_owned()));
            let targets = paths
                .iter()
                .filter_map(|path| absolute(path, module, &modules))
                .filter_map(|path| file_of(&path, &modules, &exports))
                .filter(|target| target != module)
                .collect();
            edges.insert(module.clone(), targets);
        }
        Self { edges }
    }

    pub(crate) fn edges(&self) -> impl Iterator<Item = (&Vec<String>, &Vec<String>)> {
        self.edges
            .iter()
            .flat_map(|(from, targets)| targets.iter().map(move |target| (from, target)))
    }

    /// The circles: sets of files each of which imports, over others, every other one (Tarjan's algorithm).
    pub(crate) fn circles(&self) -> Vec<BTreeSet<String>> {
        let mut search = Search {
            graph: self,
            numbers: BTreeMap::new(),
            lowest: BTreeMap::new(),
            stack: Vec::new(),
            found: Vec::new(),
        };
        for module in self.edges.keys() {
            if !search.numbers.contains_key(module) {
                search.visit(module);
            }
        }
        search.found
    }
}

struct Search<'g> {
    graph: &'g Graph,
    numbers: BTreeMap<&'g Vec<String>, usize>,
    lowest: BTreeMap<&'g Vec<String>, usize>,
    stack: Vec<&'g Vec<String>>,
    found: Vec<BTreeSet<String>>,
}

impl<'g> Search<'g> {
    fn visit(&mut self, module: &'g Vec<String>) {
        let number = self.numbers.len();
        self.numbers.insert(module, number);
        self.lowest.insert(module, number);
        self.stack.push(module);
        for target in &self.graph.edges[module] {
            let reached = if !self.numbers.contains_key(target) {
                self.visit(target);
                self.lowest[target]
            } else if self.stack.contains(&target) {
                self.numbers[target]
            } else {
                continue;
            };
            let lowest = self.lowest[module].min(reached);
            self.lowest.insert(module, lowest);
        }
        if self.lowest[module] == number {
            let start = self
                .stack
                .iter()
                .position(|found| *found == module)
                .unwrap();
            let circle: BTreeSet<_> = self
                .stack
                .drain(start..)
                .map(|found| found.join("/"))
                .collect();
            if circle.len() > 1 {
                self.found.push(circle);
            }
        }
    }
}

/// `src/policy/load/mod.rs` is `["policy", "load"]`.
fn module_path(path: &Path) -> Vec<String> {
    let relative = path.strip_prefix(core()).unwrap().with_extension("");
    let mut parts: Vec<String> = relative
        .components()
        .map(|part| part.as_os_str().to_str().unwrap().to_owned())
        .collect();
    if parts.last().is_some_and(|last| last == "mod") {
        parts.pop();
    }
    parts
}

/// The bodies of the `use` statements of a file, and whether each is a re-export.
fn use_statements(text: &str) -> Vec<(String, bool)> {
    USE.captures_iter(text)
        .map(|found| (found[2].to_owned(), found.get(1).is_some()))
        .collect()
}

fn without_uses(text: &str) -> String {
    let text = USE.replace_all(text, "");
    VISIBILITY.replace_all(&text, "pub").into_owned()
}

/// `a::{b, c::d}` is `a::b` and `a::c::d`.
fn expand(tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some(open) = tree.find('{') else {
        return vec![tree.split(" as ").next().unwrap().trim().to_owned()];
    };
    let (before, rest) = (&tree[..open], &tree[open + 1..tree.rfind('}').unwrap()]);
    let (mut items, mut depth, mut item) = (Vec::new(), 0, String::new());
    for c in rest.chars().chain([',']) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                items.push(std::mem::take(&mut item));
                continue;
            }
            _ => {}
        }
        item.push(c);
    }
    items
        .iter()
        .filter(|item| !item.trim().is_empty())
        .flat_map(|item| expand(item))
        .map(|item| format!("{before}{item}"))
        .collect()
}

/// The path from the crate's root, if it leads into the room.
fn absolute(path: &str, module: &[String], modules: &BTreeSet<Vec<String>>) -> Option<Vec<String>> {
    let mut parts: Vec<String> = path
        .split("::")
        .map(|part| part.trim().to_owned())
        .collect();
    if parts
        .last()
        .is_some_and(|last| last == "self" || last == "*")
    {
        parts.pop();
    }
    let first = parts.first()?.as_str();
    let full = match first {
        "crate" => parts[1..].to_vec(),
        "self" => [module, &parts[1..]].concat(),
        "super" => {
            let ups = parts.iter().take_while(|part| *part == "super").count();
            [&module[..module.len().checked_sub(ups)?], &parts[ups..]].concat()
        }
        _ => {
            let child = [module, &parts[..1]].concat();
            modules
                .contains(&child)
                .then(|| [module, &parts[..]].concat())?
        }
    };
    (full.first() == module.first()).then_some(full)
}

/// The file in which what `path` names stands, re-exports followed.
fn file_of(
    path: &[String],
    modules: &BTreeSet<Vec<String>>,
    exports: &BTreeMap<(Vec<String>, String), Vec<String>>,
) -> Option<Vec<String>> {
    let length = (1..=path.len())
        .rev()
        .find(|length| modules.contains(&path[..*length]))?;
    let file = path[..length].to_vec();
    let exported = path
        .get(length)
        .and_then(|name| exports.get(&(file.clone(), name.clone())));
    match exported {
        Some(target) if target[..] != path[..] => {
            let further = [&target[..], &path[length + 1..]].concat();
            file_of(&further, modules, exports)
        }
        Some(_) | None => Some(file),
    }
}

/// The text of every file below the given folders of the repository, by path.
pub(crate) fn texts(folders: &[&str]) -> Vec<(String, String)> {
    let root = core().join("../../..");
    let mut out = Vec::new();
    for folder in folders {
        for path in sources(&root.join(folder)) {
            let name = path.strip_prefix(&root).unwrap().display().to_string();
            out.push((name, fs::read_to_string(&path).unwrap()));
        }
    }
    out
}
