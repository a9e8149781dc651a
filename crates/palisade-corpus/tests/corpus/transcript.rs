//! What is decided about many statements and policies, as it was when somebody last looked: a digest for each case.
//!
//! Cases say what must come out. This says that nothing else changes unnoticed: of each case, of statements made from it, and of its
//! policies with one of them gone or turned round.
//!
//! Where a change is meant, `PALISADE_WRITE_TRANSCRIPT=1` writes the record anew. `PALISADE_TRANSCRIPT=FOLDER` writes what is
//! digested into files: once before the change and once after, a comparison of the two folders shows what became different.

use std::{
    collections::BTreeMap,
    env,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    thread,
};

use palisade::{
    danger,
    dialect::Dialect,
    firewall::{Decision, Firewall},
    policy::{self, PolicyEffect, PolicySet, PolicySources},
    session::{Principal, Session},
};
use palisade_corpus::{Case, Corpus, Runner};

/// Statements that are made from one by changing a token of it.
const CHANGED: u64 = 8;

/// Principals that are asked about in a set of policies.
const PRINCIPALS: usize = 4;

/// Policies that are checked deeply at most.
const DEEP: usize = 16;

/// Principals besides its own that each statement is asked for.
const OTHERS: usize = 1;

/// Whatever a statement is put into.
const FRAMES: [(&str, &str); 6] = [
    ("SELECT * FROM (", ") AS framed"),
    ("WITH framed AS (", ") SELECT * FROM framed"),
    ("SELECT count(*) FROM (", ") AS framed"),
    ("SELECT 1 WHERE EXISTS (", ")"),
    ("EXPLAIN ", ""),
    ("(", ") LIMIT 3"),
];

/// Tokens that are put in the place of others.
const TOKENS: [&str; 40] = [
    "NOT",
    "DISTINCT",
    "ALL",
    "NULL",
    "*",
    "(",
    ")",
    ",",
    "OR",
    "AND",
    "1",
    "''",
    "LATERAL",
    "=",
    "<",
    ".",
    "AS",
    "IN",
    "IS",
    "LIMIT",
    "SELECT",
    "FROM",
    "id",
    "JOIN",
    "LIKE",
    "NOT LIKE",
    "NOT IN",
    "BETWEEN",
    "<>",
    ">=",
    "||",
    "-",
    "IS NOT",
    "LEFT JOIN",
    "USING",
    "ON",
    "'a%'",
    "-1",
    "GROUP BY",
    "ORDER BY",
];

/// What turns a policy round.
const TURNS: [(&str, &str); 10] = [
    ("permit", "forbid"),
    ("forbid", "permit"),
    ("when", "unless"),
    ("unless", "when"),
    ("==", "!="),
    ("&&", "||"),
    ("||", "&&"),
    ("<", ">"),
    (" in ", " == "),
    ("has ", "has x"),
];

#[test]
fn decisions_are_those_on_record() {
    let corpus = super::corpus();
    let runner = super::runner(&corpus);
    let told = tell_all(&corpus, &runner);
    if let Some(folder) = env::var_os("PALISADE_TRANSCRIPT") {
        write_out(Path::new(&folder), &told);
    }
    let lines: String = (told.iter())
        .map(|(name, text)| format!("{:016x} {name}\n", digest(text)))
        .collect();
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/transcript.txt");
    if env::var_os("PALISADE_WRITE_TRANSCRIPT").is_some() {
        fs::write(&path, &lines).unwrap();
    }
    let record = fs::read_to_string(&path).unwrap();
    let different: Vec<&str> = lines
        .lines()
        .filter(|line| !record.lines().any(|known| known == *line))
        .collect();
    assert!(
        different.is_empty() && record.lines().count() == told.len(),
        "{} of {} are decided otherwise than on record; the head of transcript.rs says how to see what changed, and how to \
         record it:\n{}",
        different.len(),
        told.len(),
        different.join("\n")
    );
}

/// What is told of each case, and of each set of policies over a catalog, by their names.
fn tell_all(corpus: &Corpus, runner: &Runner) -> BTreeMap<String, String> {
    let mut stands: BTreeMap<String, &Case> = BTreeMap::new();
    for case in &corpus.cases {
        let name = format!("policies/{}/{}", case.policies, case.catalog);
        stands.entry(name).or_insert(case);
    }
    let half = |number: usize| {
        let mut told = BTreeMap::new();
        for (_, case) in share(corpus.cases.iter(), number) {
            told.insert(case.id(), tell_case(runner, case));
        }
        for (_, (name, case)) in share(stands.iter(), number) {
            let firewall = runner.firewall(case).unwrap();
            told.insert(name.clone(), tell_policies(firewall));
        }
        told
    };
    thread::scope(|scope| {
        let other = scope.spawn(|| half(1));
        let mut told = half(0);
        told.extend(other.join().unwrap());
        told
    })
}

/// Every second one, from the first or the second on.
fn share<T>(all: impl Iterator<Item = T>, number: usize) -> impl Iterator<Item = (usize, T)> {
    all.enumerate().filter(move |(at, _)| at % 2 == number)
}

/// What is decided about the statement of `case`, and about statements made from it.
fn tell_case(runner: &Runner, case: &Case) -> String {
    let firewall = runner.firewall(case).unwrap();
    let session = case.session();
    let mut told = String::new();
    match firewall.resolve_access(&case.sql, &session) {
        Ok(access) => writeln!(told, "{access:?}").unwrap(),
        Err(why) => writeln!(told, "{why:?}").unwrap(),
    }
    match firewall.check_within(&case.sql, &case.params, &session, &case.limits) {
        Ok(decision) => writeln!(told, "{}", tell_decision(&decision)).unwrap(),
        Err(error) => writeln!(told, "{error}").unwrap(),
    }
    writeln!(told, "{:?}", firewall.fingerprint(&case.sql)).unwrap();
    // What is there decides too, where it can be run here; its clock and its random numbers do not.
    if case.dialect == Dialect::Sqlite && !tells_another_time(&case.sql) {
        writeln!(told, "{:?}", runner.run(case).answer).unwrap();
    }
    if let Ok((_, trace)) = firewall.explain(&case.sql, &case.params, &session) {
        writeln!(told, "{:?}", firewall.condition_values(&trace, &session)).unwrap();
    }
    let mut tell = |sql: &str, session: &Session| {
        told.push_str(&tell_statement(firewall, case, sql, session));
    };
    tell(&case.sql, &session);
    let others = firewall.known_principals();
    for principal in others.iter().take(OTHERS) {
        tell(&case.sql, &Session::new(principal.clone()).at(case.at));
    }
    for (before, after) in FRAMES {
        tell(&format!("{before}{}{after}", case.sql), &session);
    }
    let tokens = tokens(&case.sql);
    for number in 0..CHANGED {
        let seed = digest(&case.name) ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        tell(&change(&tokens, Random(seed)), &session);
    }
    told
}

/// Whether `sql` may give something else each time that it is run.
fn tells_another_time(sql: &str) -> bool {
    let sql = sql.to_lowercase();
    ["random", "now", "current_", "date(", "time("]
        .iter()
        .any(|word| sql.contains(word))
}

/// All that a decision says, in words that do not depend on how it is held.
fn tell_statement(firewall: &Firewall, case: &Case, sql: &str, session: &Session) -> String {
    let mut told = format!("== {} {sql}\n", session.principal());
    match firewall.explain(sql, &case.params, session) {
        Ok((decision, trace)) => {
            writeln!(told, "{}", serde_json::to_string(&trace).unwrap()).unwrap();
            writeln!(told, "{}", tell_decision(&decision)).unwrap();
        }
        Err(error) => writeln!(told, "{error}").unwrap(),
    }
    told
}

fn tell_decision(decision: &Decision) -> String {
    let statement = match decision {
        Decision::Allow(statement) => statement,
        Decision::Reject(rejection) => {
            let body = serde_json::to_string(&rejection.for_agent()).unwrap();
            return format!("{rejection:?} {body}");
        }
    };
    let parts = danger::parts(statement);
    let effects = (
        statement.effect(),
        statement.engine_writes(),
        statement.engine_triggers(),
        statement.change_facts(),
        statement.body_after_changes(),
        (parts.prechecks, parts.cascade_counts, parts.max_affected),
    );
    let reads = (
        statement.relations(),
        statement.engine_reads(),
        statement.engine_functions(),
        statement.gathers(),
        statement.may_fail_over_filters(),
    );
    let why = (
        statement.policies(),
        statement.obligations(),
        statement.sources(),
    );
    let bounds = (
        statement.limits(),
        statement.estimate_caps(),
        statement.awaits_estimate(),
    );
    let form = (statement.text_facts(), statement.scan_plan());
    format!(
        "{}\n{:?}\n{effects:?}\n{reads:?}\n{why:?}\n{bounds:?}\n{form:?}",
        parts.sql, parts.params
    )
}

/// What is said of the policies of `firewall`, and of the same with one of them gone, or turned round.
fn tell_policies(firewall: &Firewall) -> String {
    let mut told = tell_loaded(firewall);
    for principal in firewall.known_principals().iter().take(PRINCIPALS) {
        let session = Session::new(principal.clone());
        writeln!(told, "== {principal}").unwrap();
        let relations = firewall.relations(&session).map(|all| {
            let json = all.iter().map(|one| serde_json::to_string(one).unwrap());
            json.collect::<Vec<_>>()
        });
        writeln!(told, "{relations:?}").unwrap();
        writeln!(told, "{:?}", firewall.shown_columns(&session)).unwrap();
        writeln!(told, "{:?}", firewall.changes(&session)).unwrap();
        writeln!(told, "{:?}", firewall.seen_rows(&session)).unwrap();
        writeln!(told, "{:?}", firewall.standing(&session)).unwrap();
        let may_wait = (
            firewall.reads_may_wait(&session),
            firewall.changes_may_wait(&session),
            firewall.may_approve(&session),
        );
        writeln!(told, "{may_wait:?}").unwrap();
        let templates = firewall.templates(&session);
        for template in templates.iter().flatten() {
            let waits = firewall.template_waits(template, &session);
            writeln!(told, "{template:?} {waits}").unwrap();
            match firewall.check_template(&template.name, &BTreeMap::new(), &session) {
                Ok(decision) => writeln!(told, "{}", tell_decision(&decision)).unwrap(),
                Err(error) => writeln!(told, "{error}").unwrap(),
            }
        }
        writeln!(told, "{:?}", templates.map(|all| all.len())).unwrap();
    }
    told.push_str(&tell_outline(firewall));
    let known = firewall.known_principals();
    writeln!(told, "{:?}", firewall.access_classes(&known)).unwrap();
    // What takes long is told on one engine: policies are the same on others.
    if firewall.catalog().dialect() != Dialect::Sqlite {
        return told;
    }
    // It tries each policy against all others.
    if firewall.policies().ids().len() <= DEEP {
        writeln!(told, "{:?}", firewall.check_deeply()).unwrap();
        for principal in firewall.known_principals().iter().take(OTHERS) {
            writeln!(told, "{:?}", firewall.access_places(principal)).unwrap();
            for session in firewall.prospect().unwrap().sessions(principal) {
                let needs = (session.is_most_permissive(), session.changes());
                let relations = session.relations().map(|all| all.len());
                writeln!(told, "{needs:?} {relations:?}").unwrap();
            }
        }
    }
    let sources = firewall.sources();
    let mut number = 0;
    for (at, file) in sources.policies.iter().enumerate() {
        let policies: Vec<&str> = file.text.split_inclusive(";\n").collect();
        for (place, policy) in policies.iter().enumerate() {
            number += 1;
            let (from, to) = TURNS[number % TURNS.len()];
            let turned = policy.replacen(from, to, 1);
            let (changed, how) = match number % 2 {
                0 => (String::new(), "left out"),
                _ => (turned, from),
            };
            let mut text = policies.clone();
            text[place] = &changed;
            let mut sources: PolicySources = sources.clone();
            sources.policies[at].text = text.concat();
            writeln!(told, "== {}: {how} {place}", file.name).unwrap();
            match firewall.renewed(firewall.catalog().clone(), sources) {
                Ok(renewed) => told.push_str(&tell_loaded(&renewed)),
                Err(error) => writeln!(told, "{error}").unwrap(),
            }
        }
    }
    told
}

/// What is said of the policies by themselves.
fn tell_outline(firewall: &Firewall) -> String {
    let (policies, sources) = (firewall.policies(), firewall.sources());
    let mut told = format!(
        "{:?}\n{:?}\n{:?}\n{}\n",
        policy::outline(sources),
        firewall.known_columns(),
        (
            policies.entity_names(),
            policies.demands_vary(),
            policies.demands_approval(),
            policies.looks_at_time(),
            policies.policies_beyond_tables(),
        ),
        PolicySet::schema_text(firewall.catalog()),
    );
    for id in policies.ids() {
        let about = (
            policies.effect(&id).map(PolicyEffect::name),
            policies.looks_at_circumstances(&id),
            policies.asks_for_approval(&id),
            policies.actions_beyond_tables(&id),
            policies.tables_named_by(&id),
            firewall.why_not_enumerated(&id),
        );
        writeln!(told, "{id} {about:?}").unwrap();
    }
    let names = policies.entity_names();
    let parsed: Vec<Principal> = (names.iter())
        .filter_map(|name| Principal::parse(name).ok())
        .collect();
    for one in &parsed {
        let groups = parsed.iter().filter(|group| firewall.is_in(one, group));
        let groups: Vec<String> = groups.map(ToString::to_string).collect();
        writeln!(told, "{one} in {groups:?}").unwrap();
    }
    for mutant in policy::mutate(sources) {
        writeln!(told, "{}", mutant.describe()).unwrap();
    }
    for file in &sources.policies {
        writeln!(told, "{:?}", policy::format_policies(file)).unwrap();
    }
    told
}

/// What loading policies says of them.
fn tell_loaded(firewall: &Firewall) -> String {
    let policies = firewall.policies();
    format!(
        "{:?}\n{:?}\n{:?}\n",
        policies.ids(),
        policies.permitted_actions(),
        (policies.warnings(), policies.permits_beyond_the_database()),
    )
}

/// The tokens of `sql`, roughly: words and numbers, texts in quotes, and everything else a character at a time.
fn tokens(sql: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = sql;
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let end = match first {
            c if is_word(c) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            '\'' | '"' | '`' => rest[1..].find(first).map_or(rest.len(), |end| end + 2),
            c => c.len_utf8(),
        };
        let (token, after) = rest.split_at(end);
        tokens.push(token);
        rest = after;
    }
    tokens
}

/// The same statement with a token left out, repeated, exchanged with another, or replaced.
fn change(tokens: &[&str], mut random: Random) -> String {
    let mut changed: Vec<String> = tokens.iter().map(|token| (*token).to_owned()).collect();
    let places: Vec<usize> = (0..tokens.len())
        .filter(|at| !tokens[*at].trim().is_empty())
        .collect();
    if places.is_empty() {
        return String::new();
    }
    let (at, other) = (random.choose(&places), random.choose(&places));
    match random.below(5) {
        0 => changed[at].clear(),
        1 => changed.insert(at, format!("{} ", tokens[at])),
        2 => changed.swap(at, other),
        3 => changed[at] = format!(" {} ", tokens[other]),
        _ => changed[at] = format!(" {} ", TOKENS[random.below(TOKENS.len())]),
    }
    changed.concat()
}

/// `splitmix64`: the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % u64::try_from(end).unwrap()).unwrap()
    }

    fn choose(&mut self, places: &[usize]) -> usize {
        places[self.below(places.len())]
    }
}

/// FNV-1a, which is the same in every version of the library.
fn digest(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn write_out(folder: &Path, told: &BTreeMap<String, String>) {
    fs::create_dir_all(folder).unwrap();
    for (name, text) in told {
        fs::write(folder.join(name.replace('/', "~")), text).unwrap();
    }
}
