//! Development tasks: `cargo xtask test` is everything that must pass before a change lands.

mod apt;
mod clients;
mod dist;
mod docs;
mod editors;
mod endure;
mod eval;
#[expect(dead_code, reason = "the test kit runs what is only found here")]
#[path = "../../palisade-testkit/src/servers/find.rs"]
mod find;
mod functions;
mod fuzz;
mod licences;
mod mutants;
mod packages;
mod peers;
mod relay;
mod run;
mod second_opinion;
mod servers;
mod test;
mod train;
mod versions;
mod workbench;

use std::process::ExitCode;

const HELP: &str = "\
Usage: cargo xtask <TASK>

Tasks:
  test [PART...]  formatting, lints, licences, every test, and real MCP clients; installs what is missing;
                  with a part, or --quick, less: `test --help` lists them
  servers         finds or fetches the database servers of the tests: PostgreSQL, MariaDB, and where
                  they can be had PostgreSQL 18, MySQL 9, PgBouncer, Galera, Chromium, Neovim and cvc5
  dist [OPTION...]
                  what others install, into target/dist: binary, completions, manual pages, bundle, bill of materials,
                  checksums; `dist --help` says more
  docs [--write]  the manual: checks its links and builds it into target/book; with --write its outputs and tables anew
  bench [BENCH [ARG...]]
                  benches of a decision and of the query path, each beside its baseline, and their ratios;
                  `bench scale [sqlite] [postgres] [mariadb]`: time and memory as tables and policies grow;
                  `bench history [ROWS] [sqlite] [postgres] [mariadb]`: what history and previews of changes cost;
                  `bench peers [sqlite] [postgres]`: calls of `palisade serve` beside other MCP servers, from npm
  load [--minutes N]
                  calls a second that `palisade serve --http` sustains on PostgreSQL, beside another MCP server, from npm;
                  then their memory over N minutes (1)
  endure [--minutes N]
                  a fleet of two servers under mixed traffic for N minutes (60), while servers are killed, the database
                  restarts, and certificates and policies are replaced
  fuzz [SECONDS]  every fuzz target for SECONDS each (60); needs the nightly toolchain
  eval DIR        the firewall on a folder of public statements, attacks and texts; `eval --help` says more
  mutants [--sample N] [--seed S]
                  changes the deciding code in N places, one at a time: what no test notices is told;
                  `mutants --help` says more
  conformance     the official MCP conformance suite over HTTP, both revisions, with the suite's own tools and without;
                  what does not pass is named in crates/palisade-testkit/clients/conformance, with the reason
  editors         Taplo over the TOML files of `palisade init`, the demonstration and the corpus, by our schemas
  train DIR       learns the weights of the scanner's score from a folder of texts; `train --help` says more
  measure [BINARY]
                  start to first answer and memory of `palisade serve`; what a relay and the broker add to a call, and
                  the relay's memory; of a release build, or of BINARY
  workbench [BINARY]
                  `policy test` of 10,000 cases, and `policy lock` over 10,000 columns and 50 classes; of a release build,
                  or of BINARY
  second-opinion  PostgreSQL's own parser beside ours, over the corpus; builds it first, which needs libclang
  versions        builds with the lowest and the newest versions that the manifests admit; needs the nightly toolchain
  functions       brings the tables of functions in step with running servers; says what is new

Example:
  cargo xtask test";

/// Every bench, or the named one with its arguments. `scale` has processes and servers of its own, and is run where it is named.
fn bench(args: &[String]) -> run::Result {
    let benches = ["check", "decide", "query", "resolve", "introspect"];
    let mut all = vec!["bench", "--package", "palisade-benches"];
    match args.split_first() {
        Some((name, engines)) if name == "peers" => return peers::bench(engines),
        None => benches
            .iter()
            .for_each(|name| all.extend(["--bench", name])),
        Some((name, rest)) => {
            all.extend(["--bench", name, "--"]);
            all.extend(rest.iter().map(String::as_str));
        }
    }
    run::cargo(&all)
}

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let result = match args.next().as_deref() {
        Some("test") => test::test(&args.collect::<Vec<_>>()),
        Some("servers") => servers::all(),
        Some("dist") => dist::run_task(&args.collect::<Vec<_>>()),
        Some("docs") => docs::build(&args.collect::<Vec<_>>()),
        Some("load") => peers::load(&args.collect::<Vec<_>>()),
        Some("endure") => endure::run_fleet(&args.collect::<Vec<_>>()),
        Some("bench") => bench(&args.collect::<Vec<_>>()),
        Some("fuzz") => fuzz::run_targets(args.next().as_deref().unwrap_or("60")),
        Some("eval") => eval::run(args),
        Some("mutants") => mutants::run_sample(&args.collect::<Vec<_>>()),
        Some("train") => train::run(args),
        Some("conformance") => clients::conformance(),
        Some("editors") => editors::build_and_check(),
        Some("measure") => clients::measure(args.next()),
        // What `measure` compares with.
        Some(relay::ECHO) => relay::echo_lines(),
        Some(relay::PUMP) => relay::pump_lines(),
        Some("workbench") => workbench::measure(args.next()),
        Some("second-opinion") => second_opinion::run(),
        Some("versions") => versions::check(),
        Some("functions") => functions::run(args.collect()),
        Some("help" | "--help" | "-h") | None => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Some(other) => Err(format!("there is no task `{other}`\n\n{HELP}")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("\nxtask: {why}");
            ExitCode::FAILURE
        }
    }
}
