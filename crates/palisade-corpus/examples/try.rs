//! scratch
use std::io::BufRead;
fn main() {
    let corpus = palisade_corpus::Corpus::load("corpus").unwrap();
    let variant = std::fs::read_to_string("corpus/variants/desk.sql").unwrap();
    let runner = palisade_corpus::Runner::new(&corpus).unwrap();
    let other = palisade_corpus::Runner::new(&corpus.clone().with_rows("desk", &variant)).unwrap();
    let base = corpus
        .cases
        .iter()
        .find(|c| c.name == "own-tenant")
        .unwrap();
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        if line.trim().is_empty() {
            continue;
        }
        let case = palisade_corpus::Case {
            sql: line.replace("\\n", "\n"),
            ..base.clone()
        };
        let a = runner.answer(&case).unwrap();
        let b = other.answer(&case).unwrap();
        let same = a.code == b.code && a.json == b.json && a.text == b.text;
        let s = a.json.to_string();
        let leak: Vec<_> = [
            "AB-1987-4321",
            "CD-1990",
            "ada@mail",
            "100 200",
            "Eve",
            "Frank",
            "SECRET",
            "HIDDEN",
            "hunter2",
            "pays late",
            "threatened",
            "litigious",
            "424242",
            "777001",
        ]
        .iter()
        .filter(|n| s.contains(**n))
        .collect();
        println!(
            "{} {}{:?} | {}\n     {} {:?}",
            if same { "  " } else { "!!DIFF" },
            if leak.is_empty() {
                String::new()
            } else {
                format!("!!LEAK {leak:?} ")
            },
            a.code.map(|c| c.slug()),
            line,
            a.json
                .get("rows")
                .map_or(s.chars().take(200).collect::<String>(), |r| r
                    .to_string()
                    .chars()
                    .take(220)
                    .collect()),
            a.detail
        );
        if !same {
            println!(
                "     other: {:?} {}\n     {}",
                b.code,
                b.json.to_string().chars().take(300).collect::<String>(),
                a.rewritten.unwrap_or_default()
            );
        }
    }
}
